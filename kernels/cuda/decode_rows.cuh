/*
 * kernels/cuda/decode_rows.cuh - what the decode kernels share: a step in memory, and how rows are combined.
 *
 * A part of plan/decode.h is a block of threads in every chunk of rows. A list that one part owns is written
 * at once; otherwise each part leaves (O, m, l) in fp32 in a slot, and the slots are combined in the order of
 * the parts: the same bits whatever the timing. A few rows are combined by the warps that arrive last; many
 * would keep one block busy for long, so a separate launch combines them, a warp per row.
 */
#ifndef S2_KERNELS_CUDA_DECODE_ROWS_CUH
#define S2_KERNELS_CUDA_DECODE_ROWS_CUH

#include <math_constants.h>

#include "kernels/cuda/cap.cuh"
#include "kernels/cuda/decode_ptx.cuh"
#include "plan/launch.h"

namespace s2
{

enum { DECODE_WARPS = S2_DECODE_WARPS, DECODE_THREADS = 32 * DECODE_WARPS, DECODE_KEYS = 16 };

/* live: bit j: some row reads key j; the bit above them: keys written by the step itself, not before it. */
static constexpr uint32_t DECODE_ALL_LIVE = 0xffffu, DECODE_NEW = 1u << 16;

struct DecodeSlab {
    uint32_t k, v; /* offsets from K and V, in units of 16 bytes */
    int32_t mask;  /* -1: all rows read all keys */
    uint32_t live;
};
struct __align__(16) DecodeList
{
    int64_t q, o, lse;                                                          /* elements: row 0 */
    int32_t slab_begin, slab_end, first_part, n_parts, n_rows, head, unused[2]; /* head: of row 0 */
};
struct DecodeParams {
    const DecodeSlab *slabs;
    const DecodeList *lists;
    const int4 *parts;    /* [part]: its slabs [x, y), its first list z */
    const uint16_t *bits; /* [mask][row_cap] */
    const uint8_t *k, *v;
    const uint16_t *q;
    uint16_t *o;
    float *lse;
    float *part_o;    /* [chunk][2 * n_parts][row of a chunk][D] */
    float2 *part_l;   /* [chunk][2 * n_parts][row of a chunk]: maximum and sum */
    int32_t *arrived; /* [chunk][list][warp], zero between launches */
    int64_t q_tok, q_head, o_tok, o_head, lse_head;
    uint32_t k_row_bytes, v_row_bytes;
    int32_t n_lists, n_parts, row_cap, group, head_dim;
    int32_t n_empty; /* lists without slabs */
    int32_t late;    /* the previous launch chooses the slabs */
    int32_t merged;  /* the next launch combines the parts, with so many blocks of threads per list; or 0 */
    int32_t early;   /* keys that are not new may be fetched before the previous launch has ended */
    int32_t paced;   /* and slab by slab, since a launch is ending now */
    float scale_log2;
    Cap cap;                        /* extra instances: its top is 0 without a cap */
    const float *sink;              /* ... [head]; NULL: none */
    const float *k_scale, *v_scale; /* e4m3: [KV head] */
};

/* Rows of a chunk: their addresses and their parts. EXTRA: with a cap or sinks. */
template <int D, int ROWS, bool FP16, bool EXTRA> struct DecodeRows {
    const DecodeParams &p;
    const int warp, lane, part, chunk;

    S2_DEVICE explicit DecodeRows(const DecodeParams &params)
        : p(params), warp(threadIdx.x >> 5), lane(threadIdx.x & 31), part(blockIdx.x), chunk(blockIdx.y)
    {
    }
    S2_DEVICE int64_t row_at(int row, int64_t from, int64_t tok, int64_t head) const
    {
        const int token = row / p.group;
        return from + token * tok + (row - token * p.group) * head;
    }
    S2_DEVICE const uint16_t *query(const DecodeList &list, int row) const
    {
        return p.q + row_at(min(chunk * ROWS + row, list.n_rows - 1), list.q, p.q_tok, p.q_head);
    }
    S2_DEVICE void store4(const DecodeList &list, int row, int d, float4 x) const
    {
        if (d >= p.head_dim)
            return;
        const uint2 packed = {pack2<FP16>(x.x, x.y), pack2<FP16>(x.z, x.w)};
        *(uint2 *)(p.o + row_at(row, list.o, p.o_tok, p.o_head) + d) = packed;
    }
    /* The sink joins a row's softmax, changing its sum and maximum. Returns the factor for O. */
    S2_DEVICE float join_sink(const DecodeList &list, int row, float &top, float &total) const
    {
        float keep = 1.f;
        if constexpr (EXTRA) {
            const float sink =
                p.sink != nullptr ? __ldg(p.sink + list.head + row % p.group) * LOG2_E : -CUDART_INF_F;
            const float peak = fmaxf(top, sink), from = peak == -CUDART_INF_F ? 0.f : peak;
            keep = exp2_fast(top - from);
            total = fmaf(total, keep, exp2_fast(sink - from));
            top = peak;
        }
        return total > 0.f ? keep / total : 0.f;
    }
    S2_DEVICE void store_row(const DecodeList &list, int row, int d, float4 x, float top, float total) const
    {
        const float inverse = join_sink(list, row, top, total);
        store4(list, row, d, make_float4(x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse));
        if (d == 0)
            store_lse(list, row, top, total);
    }
    S2_DEVICE void store_lse(const DecodeList &list, int row, float top, float total) const
    {
        p.lse[row_at(row, list.lse, 1, p.lse_head)] =
            total > 0.f ? fmaf(top, LN_2, logf(total)) : -CUDART_INF_F;
    }
    S2_DEVICE size_t slot_of(const DecodeList &list, int of_part) const
    {
        return ((size_t)chunk * p.n_parts + of_part) * 2 + (of_part != list.first_part);
    }
    /*
     * Adds n parts of a row, at most N, from the slot of the first on: all loads come first, so that one trip
     * to L2 serves them. The code is short on purpose: it runs once per launch, so every line of it comes
     * from L2 too.
     */
    template <int N>
    S2_DEVICE void add_parts(const float *from_o, const float2 *from_l, int first, int n, float4 &total4,
                             float &top, float &total) const
    {
        constexpr int STRIDE = 2 * ROWS; /* rows from part to part */
        float2 l = {-CUDART_INF_F, 0.f};
        float4 y[N];
        if (lane < n)
            l = load_part(from_l + lane * STRIDE + (lane == 0 ? first : 0));
#pragma unroll
        for (int x = 0; x < N; ++x) {
            const int rows = min(x, n - 1) * STRIDE;
            y[x] = load_part(from_o + (rows == 0 ? first : rows) * D);
        }
        float peak = l.x;
#pragma unroll
        for (int x = 16; x > 0; x >>= 1)
            peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, x));
        peak = fmaxf(peak, top);
        const float from = peak == -CUDART_INF_F ? 0.f : peak;
        const float keep = top == -CUDART_INF_F ? 0.f : exp2_fast(top - from), factor = exp2_fast(l.x - from);
        float part_sum = factor * l.y;
#pragma unroll
        for (int x = 16; x > 0; x >>= 1)
            part_sum += __shfl_xor_sync(~0u, part_sum, x);
        top = peak;
        total = total * keep + part_sum;
        total4 = make_float4(total4.x * keep, total4.y * keep, total4.z * keep, total4.w * keep);
#pragma unroll
        for (int x = 0; x < N; ++x) {
            const float weight = __shfl_sync(~0u, factor, x);
            total4.x += weight * y[x].x;
            total4.y += weight * y[x].y;
            total4.z += weight * y[x].z;
            total4.w += weight * y[x].w;
        }
    }
    /* Slots of a list's parts are two apart, except for the first part, which uses its other slot. */
    S2_DEVICE void combine_row(const DecodeList &list, int row, int d) const
    {
        /* what registers hold besides the rest */
        constexpr int MOST = D <= S2_DECODE_TRIP_DIM ? S2_DECODE_TRIP_PARTS : S2_DECODE_TRIP_PARTS_WIDE;
        float top = -CUDART_INF_F, total = 0.f;
        float4 total4 = {0.f, 0.f, 0.f, 0.f};
        const size_t slot = (((size_t)chunk * p.n_parts + list.first_part) * 2 + 1) * ROWS + row;
        const float2 *from_l = p.part_l + slot;
        const float *from_o = p.part_o + slot * D + (d < D ? d : 0);
        int first = -ROWS;
#pragma unroll 1
        for (int left = list.n_parts; left > 0; left -= MOST) {
            if (left <= 4)
                add_parts<4>(from_o, from_l, first, left, total4, top, total);
            else
                add_parts<MOST>(from_o, from_l, first, min(left, MOST), total4, top, total);
            from_l += MOST * 2 * ROWS;
            from_o += MOST * 2 * ROWS * D;
            first = 0;
        }
        if (d < D)
            store_row(list, chunk * ROWS + row, d, total4, top, total);
    }
    S2_DEVICE void combine_parts(const DecodeList &list) const
    {
#pragma unroll 1
        for (int row = warp; row < ROWS && chunk * ROWS + row < list.n_rows; row += DECODE_WARPS)
#pragma unroll 1
            for (int half = 0; half < (D + 127) / 128; ++half)
                combine_row(list, row, half * 128 + lane * 4);
    }
    /*
     * Called by a warp once its rows of this part are written: the part whose warp arrives last combines
     * them. Each warp has a counter, so that none waits for the other rows.
     */
    S2_DEVICE void join_parts(const DecodeList &list, int index) const
    {
        if (chunk * ROWS + warp >= list.n_rows)
            return;
        int complete = 0;
        __syncwarp();
        if (lane == 0) {
            int32_t *const counter = p.arrived + (chunk * p.n_lists + index) * DECODE_WARPS + warp;
            complete = arrive(counter) == list.n_parts - 1;
            if (complete)
                *counter = 0;
        }
        complete = __shfl_sync(~0u, complete, 0);
        __syncwarp();
        if (complete)
            combine_parts(list);
    }
    /* Rows that read nothing. */
    S2_DEVICE void empty_lists() const
    {
        for (int index = part * DECODE_WARPS + warp; index < p.n_lists; index += p.n_parts * DECODE_WARPS) {
            const DecodeList &list = p.lists[index];
            if (list.slab_begin != list.slab_end)
                continue;
            for (int row = chunk * ROWS; row < min((chunk + 1) * ROWS, list.n_rows); ++row)
                for (int d = lane * 4; d < D; d += 128)
                    store_row(list, row, d, make_float4(0.f, 0.f, 0.f, 0.f), EXTRA ? -CUDART_INF_F : 0.f,
                              0.f);
        }
    }
};

/*
 * A warp per row of every list: DECODE_WARPS rows per block. Four blocks per SM, because ptxas would
 * otherwise save registers and load one part at a time.
 */
template <int D, int ROWS, bool FP16, bool EXTRA>
__global__ void __launch_bounds__(DECODE_THREADS, 4) merge_parts(const __grid_constant__ DecodeParams p)
{
    const DecodeRows<D, ROWS, FP16, EXTRA> rows(p);
    const DecodeList &list = p.lists[blockIdx.x / p.merged];
    const int row = blockIdx.x % p.merged * DECODE_WARPS + rows.warp;
    let_next_launch_begin();
    wait_for_launch_before();
    if (list.n_parts < 2 || rows.chunk * ROWS + row >= list.n_rows)
        return;
    for (int half = 0; half < (D + 127) / 128; ++half)
        rows.combine_row(list, row, half * 128 + rows.lane * 4);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_ROWS_CUH */
