/*
 * kernels/cuda/bwd.cuh - what the backward kernels share: sequences on the device, row statistics, fragments.
 *
 *     P = exp(scale q k - lse)   dP = dO V^T   delta = rowsum(dO * O)   dS = P * (dP - delta)
 *     dV = P^T dO                dK = scale dS^T Q                      dQ = scale dS K
 *
 * Sinks are already in lse and O, so all this also holds with them; only their gradient has a kernel of its
 * own.
 *
 * Rows of a sequence are padded to a multiple of 64 and of the plan's tile: row r is position pos + r.
 * A preprocess stores lse in powers of two and delta for every padded row. Rows that do not exist and
 * rows that read nothing get lse = +inf, so that P is 0 there and no other code has to check.
 */
#ifndef S2_KERNELS_CUDA_BWD_CUH
#define S2_KERNELS_CUDA_BWD_CUH

#include <cuda_runtime.h>
#include <math_constants.h>
#include <stdint.h>

#include "kernels/cuda/cap.cuh"

namespace s2
{

/* One sequence; offsets are in elements, of its first token and head 0. */
struct BwdSeq {
    int64_t rows; /* first padded row of head 0 */
    int64_t lse, q, k, v, o, d_o, d_q, d_k, d_v;
    int32_t n_rows; /* padded, of one head */
    int32_t pos;    /* position of padded row 0 */
    int32_t q_off;  /* k_tok - q_tok */
    int32_t k_tok;
};

/* A tensor of the problem: where, and its strides in elements. */
struct BwdTensor {
    uint16_t *data;
    int64_t tok, head;
};

struct BwdRowParams {
    const BwdSeq *seqs;
    BwdTensor o, d_o;
    const float *lse;
    int64_t lse_head;
    float *lse2, *delta;
    float *dq_sum;   /* to be cleared, dq_columns floats per row; NULL: none */
    int32_t *shares; /* to be cleared, two for each block of BWD_BLOCK_ROWS; NULL: none */
    int32_t n_heads, head_dim, dq_columns;
};

/* A column of keys, or a part of one: three 16-byte words, copied into a slot of shared memory. */
struct BwdColumn {
    int32_t blocks; /* first of its key blocks; -1 entries read as zeros */
    int32_t kv_head;
    int32_t n; /* steps times heads; -1 ends the stream */
    int32_t n_partial;
    int32_t list;
    int32_t chain; /* parts of one sum, -1: whole */
    int32_t parts; /* part | n_parts << 16 */
    int32_t seq;
    int32_t n_heads; /* heads of the group that share each entry */
    int32_t n_upper; /* leading steps that read keys of the upper half only */
    int32_t n_tail;  /* trailing steps that read the lower half only or, in order, are compared */
    int32_t unused;
};
/* A tile of queries. */
struct BwdTile {
    int32_t row; /* padded */
    int32_t head;
    int32_t n_steps; /* -1 ends the stream */
    int32_t n_masked;
    int32_t n_entries;
    int32_t list;
    int32_t seq;
    int32_t unused;
};
/* step | head << 20 | edge << 31, and 4 bits of 16-row slabs for each block. */
struct BwdStep {
    uint32_t where, reads;
};
enum { BWD_HEAD_SHIFT = 20, BWD_LIMIT_STEPS = 1 << 20, BWD_LIMIT_GROUP = 1 << 11 };
/* block << 13 | edge << 12 | slabs, as in s2_step_word */
enum { BWD_BLOCK_SHIFT = 13, BWD_EDGE = 1 << 12, BWD_LIMIT_BLK = 1 << 19 };

/*
 * The order of rows inside 64: the 16 values that one lane of a quad needs from a transposed fragment are
 * four pieces of 16 bytes instead of eight of 8; the pieces of the four lanes are adjacent, in separate
 * banks.
 */
S2_DEVICE int row_place(int row)
{
    return (row & ~63) | (row & 48) | ((row & 6) << 1) | ((row >> 2) & 2) | (row & 1);
}

template <bool FP16> S2_DEVICE float low_half(uint32_t x)
{
    if constexpr (FP16) {
        float y;
        asm("{\n .reg .f16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, l;\n}\n" : "=f"(y) : "r"(x));
        return y;
    }
    return __uint_as_float(x << 16);
}
template <bool FP16> S2_DEVICE float high_half(uint32_t x)
{
    if constexpr (FP16) {
        float y;
        asm("{\n .reg .f16 l, h;\n mov.b32 {l, h}, %1;\n cvt.f32.f16 %0, h;\n}\n" : "=f"(y) : "r"(x));
        return y;
    }
    return __uint_as_float(x & 0xffff0000u);
}

/* Where launches overlap, the next kernel may start next to this one; it waits until this one has ended. */
S2_DEVICE void let_follow()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
S2_DEVICE void wait_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Adds the dot product of 8 pairs of the storage type to sum. */
template <bool FP16> S2_DEVICE float dot8(uint4 x, uint4 y, float sum)
{
    const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        sum = fmaf(low_half<FP16>(a[k]), low_half<FP16>(b[k]), sum);
        sum = fmaf(high_half<FP16>(a[k]), high_half<FP16>(b[k]), sum);
    }
    return sum;
}

/*
 * 256 threads, BWD_ROWS rows of one head for 16 lanes, so that enough loads are in flight. Grid (rows x heads
 * / BWD_BLOCK_ROWS, sequences); padded rows are a multiple of that.
 */
enum { BWD_ROWS = 4, BWD_BLOCK_ROWS = 256 / 16 * BWD_ROWS };
template <bool FP16> __global__ void __launch_bounds__(256) bwd_rows(const BwdRowParams p)
{
    let_follow();
    const BwdSeq &seq = p.seqs[blockIdx.y];
    const uint32_t at = blockIdx.x * BWD_BLOCK_ROWS + threadIdx.x / 16 * BWD_ROWS, n_rows = seq.n_rows;
    const int lane = threadIdx.x & 15, head = (int)(at / n_rows), row = (int)(at % n_rows);
    if (head >= p.n_heads)
        return;
    const int q_tok = seq.pos + row - seq.q_off, n_q = seq.k_tok - seq.q_off;
    const int64_t rows = seq.rows + (int64_t)head * n_rows;
    const auto real = [&](int r) { return q_tok + r >= 0 && q_tok + r < n_q; };
    float lse = -CUDART_INF_F; /* for row + lane */
    if (lane < BWD_ROWS && real(lane))
        lse = p.lse[seq.lse + head * p.lse_head + q_tok + lane];
    float4 *const clear = (float4 *)(p.dq_sum + (rows + row) * p.dq_columns);
    for (int piece = lane; p.dq_sum != NULL && piece * 4 < BWD_ROWS * p.dq_columns; piece += 16)
        __stcs(clear + piece, make_float4(0.f, 0.f, 0.f, 0.f));
    if (p.shares != NULL && threadIdx.x < 2)
        p.shares[(rows + row) / BWD_BLOCK_ROWS * 2 + threadIdx.x] = 0;
    const uint16_t *const o = p.o.data + seq.o + q_tok * p.o.tok + head * p.o.head, *const d_o =
                                                                                        p.d_o.data + seq.d_o +
                                                                                        q_tok * p.d_o.tok +
                                                                                        head * p.d_o.head;
    float sum[BWD_ROWS] = {};
    for (int piece = lane; piece * 8 < p.head_dim; piece += 16) {
        uint4 x[BWD_ROWS] = {}, y[BWD_ROWS] = {};
#pragma unroll
        for (int r = 0; r < BWD_ROWS; ++r)
            if (real(r)) {
                x[r] = __ldcs((const uint4 *)(o + r * p.o.tok + piece * 8));
                y[r] = __ldg((const uint4 *)(d_o + r * p.d_o.tok + piece * 8)); /* it will be read again */
            }
#pragma unroll
        for (int r = 0; r < BWD_ROWS; ++r)
            sum[r] = dot8<FP16>(x[r], y[r], sum[r]);
    }
    float own = 0.f; /* the sum for row + lane */
#pragma unroll
    for (int r = 0; r < BWD_ROWS; ++r) {
#pragma unroll
        for (int x = 8; x > 0; x >>= 1)
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], x, 16);
        own = lane == r ? sum[r] : own;
    }
    if (lane >= BWD_ROWS)
        return;
    const bool empty = lse == -CUDART_INF_F;
    p.lse2[rows + row_place(row + lane)] = empty ? CUDART_INF_F : lse * LOG2_E;
    p.delta[rows + row_place(row + lane)] = empty ? 0.f : own;
}

/*
 * The gradient of the sinks: a block of 1024 threads for each head. A warp looks through 32 tiles at a time
 * and sums those of the head; a lane has the same rows in each. The order is fixed.
 */
enum { BWD_SINK_THREADS = 1024 };
struct BwdSinkParams {
    const BwdSeq *seqs;
    const BwdTile *tiles;
    const float *lse2, *delta, *sink;
    float *d_sink; /* NULL: none */
    int32_t n_heads, n_tiles, tile_rows;
};
/* A block's sum over its BWD_SINK_THREADS threads, in a fixed order, is minus the gradient of a head's sink. */
S2_DEVICE void store_sink(const BwdSinkParams &p, int head, float sum)
{
    __shared__ float sums[BWD_SINK_THREADS / 32];
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
    for (int x = 16; x > 0; x >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, x);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    sum = sums[lane];
#pragma unroll
    for (int x = 16; x > 0; x >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, x);
    if (threadIdx.x == 0)
        p.d_sink[head] = -sum;
}

template <bool FP16> __global__ void __launch_bounds__(BWD_SINK_THREADS) bwd_sinks(const BwdSinkParams p)
{
    const int head = (int)blockIdx.x, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const float sink = p.sink[head] * LOG2_E;
    float sum = 0.f;
    wait_before();
    for (int first = warp * 32; first < p.n_tiles; first += BWD_SINK_THREADS) {
        const bool own = first + lane < p.n_tiles && p.tiles[first + lane].head == head;
        for (uint32_t left = __ballot_sync(0xffffffffu, own); left != 0; left &= left - 1) {
            const BwdTile &tile = p.tiles[first + __ffs((int)left) - 1];
            const BwdSeq &seq = p.seqs[tile.seq];
            const int64_t rows = seq.rows + (int64_t)head * seq.n_rows + tile.row;
            for (int row = lane; row < p.tile_rows; row += 32)
                sum = fmaf(exp2_fast(sink - p.lse2[rows + row]), p.delta[rows + row], sum);
        }
    }
    store_sink(p, head, sum);
}

/* Launches both for n_seqs sequences; n_rows: padded rows of all heads of the longest. */
template <bool FP16>
static cudaError_t launch_rows(const BwdRowParams &rows, const BwdSinkParams &sinks, int64_t n_rows,
                               int32_t n_seqs, cudaStream_t stream)
{
    const dim3 grid((unsigned)(n_rows / BWD_BLOCK_ROWS), (unsigned)n_seqs);
    bwd_rows<FP16><<<grid, 256, 0, stream>>>(rows);
    if (sinks.d_sink != NULL)
        bwd_sinks<FP16><<<(unsigned)sinks.n_heads, BWD_SINK_THREADS, 0, stream>>>(sinks);
    return cudaGetLastError();
}

/* A 4 x 4 transpose over the lanes of a quad. */
S2_DEVICE void quad_transpose(uint32_t *x, int lane)
{
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t r = __shfl_xor_sync(0xffffffffu, (lane & 1) ? x[i] : x[i + 1], 1);
        if (lane & 1)
            x[i] = r;
        else
            x[i + 1] = r;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t r = __shfl_xor_sync(0xffffffffu, (lane & 2) ? x[i] : x[i + 2], 2);
        if (lane & 2)
            x[i] = r;
        else
            x[i + 2] = r;
    }
}

/*
 * An accumulator fragment of 64 x D: this thread's two rows to memory in 16-byte pieces, as far as there are
 * columns.
 */
template <bool FP16, int D>
S2_DEVICE void store_fragment(uint16_t *row0, uint16_t *row1, bool on0, bool on1, const float *acc,
                              float scale, int n_columns, int lane)
{
    const int column = 8 * (lane & 3);
#pragma unroll
    for (int group = 0; group < D / 32; ++group) {
        uint32_t x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *const f = acc + 16 * group + 4 * i;
            x[i] = pack2<FP16>(f[0] * scale, f[1] * scale);
            y[i] = pack2<FP16>(f[2] * scale, f[3] * scale);
        }
        quad_transpose(x, lane);
        quad_transpose(y, lane);
        const bool exists = 32 * group + column < n_columns;
        if (on0 && exists)
            *(uint4 *)(row0 + 32 * group + column) = make_uint4(x[0], x[1], x[2], x[3]);
        if (on1 && exists)
            *(uint4 *)(row1 + 32 * group + column) = make_uint4(y[0], y[1], y[2], y[3]);
    }
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_CUH */
