/*
 * kernels/cuda/fwd_sm80.cuh - the portable forward: mma.sync and cp.async, any NVIDIA GPU since Ampere.
 *
 * Grid    one thread block per item of the plan, in its order.
 * Block   4 warps, 64 query rows, one 16-row slab each; 64 keys per step, gathered row by row from the
 *         blocks of the list. V of a step arrives under its S, K of the next one under its O += P V.
 * Shared  3 tiles of 64 rows: Q, K, V; 384 bytes times the head dimension rounded up to 64.
 * Masks   everything that a plan can express: slabs, causal edge, end of the keys, element masks from memory.
 * Extra   caps and sink logits are separate instances, so that the others pay nothing.
 *
 * Everything that the Hopper kernel refuses runs here: patterns finer than a block, head dimensions that
 * are any multiple of 8 up to 256, scales of any sign.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM80_CUH
#define S2_KERNELS_CUDA_FWD_SM80_CUH

#include <math_constants.h>

#include "kernels/cuda/cap.cuh"

namespace s2
{

enum { SM80_ROWS = 64, SM80_KEYS = 64, SM80_THREADS = 128 };

struct Sm80Entry {
    int32_t k_tok;  /* first key */
    int32_t mask;   /* -1, or the element mask */
    uint32_t slabs; /* one bit per slab; bit 31: compare with the causal edge and the end */
};
struct Sm80Item {
    int64_t q, o;  /* element offsets of (sequence, first query, first head) */
    int64_t kv[2]; /* of K and V, of the item's KV head */
    int64_t lse;
    int64_t list;
    int32_t n_entries, n_partial;
    int32_t pos, q_off, k_tok, head;
};
struct Sm80Params {
    const Sm80Item *items;
    const Sm80Entry *entries;
    const uint32_t *bits;
    const uint16_t *q, *k, *v;
    uint16_t *o;
    float *lse;
    int64_t q_tok, k_tok, v_tok, o_tok;
    int32_t blk_shift, mask_words, head_dim, causal;
    float scale_log2; /* 1 with a cap, which includes the scale */
    Cap cap;
    const float *sink; /* [head]; NULL: none */
};

template <int HEAD_DIM_, bool FP16_, bool EXTRA> struct Sm80Forward {
    static constexpr int D = HEAD_DIM_, WIDTH = (D + 63) / 64 * 64, ROW_BYTES = WIDTH * 2;
    static constexpr int TILE_BYTES = 64 * ROW_BYTES, SHARED_BYTES = 3 * TILE_BYTES;
    static constexpr bool Q_IN_REGISTERS = D <= 96;

    const Sm80Params &p;
    const Sm80Item item;
    const int warp, lane;
    const uint32_t sq, sk, sv;
    float o[D / 8][4], s[8][4], maximum[2], sum[2];
    uint32_t qr[Q_IN_REGISTERS ? D / 16 : 1][4];

    S2_DEVICE Sm80Forward(const Sm80Params &params, const Sm80Item &work, uint32_t shared)
        : p(params), item(work), warp(threadIdx.x >> 5), lane(threadIdx.x & 31), sq(shared),
          sk(shared + TILE_BYTES), sv(shared + 2 * TILE_BYTES)
    {
    }
    /* 16-byte pieces are xor-ed with the row, so that eight rows of a column fall into eight banks. */
    static S2_DEVICE uint32_t at(uint32_t tile, int row, int piece)
    {
        return tile + row * ROW_BYTES + ((piece ^ (row & 7)) << 4);
    }
    S2_DEVICE int n_queries() const
    {
        return item.k_tok - item.q_off;
    }
    S2_DEVICE void load_q() const
    {
        for (int x = threadIdx.x; x < 64 * (WIDTH / 8); x += SM80_THREADS) {
            const int row = x / (WIDTH / 8), piece = x % (WIDTH / 8), q_tok = item.pos - item.q_off + row;
            const bool on = q_tok >= 0 && q_tok < n_queries() && piece * 8 < p.head_dim;
            cp_async16(at(sq, row, piece), on ? p.q + item.q + q_tok * p.q_tok + piece * 8 : p.q, on);
        }
    }
    S2_DEVICE void load_kv(uint32_t tile, const uint16_t *from, int64_t tok, int step) const
    {
        constexpr int LANES = 8, ROWS = SM80_THREADS / LANES; /* 128 bytes of a row at a time */
        const int first = threadIdx.x % LANES;
#pragma unroll
        for (int at_row = 0; at_row < 64; at_row += ROWS) {
            const int row = at_row + threadIdx.x / LANES;
            const int key = step * SM80_KEYS + row, entry = key >> p.blk_shift;
            int k_tok = item.k_tok;
            if (entry < item.n_entries)
                k_tok = __ldg(&p.entries[item.list + entry].k_tok) + (key & ((1 << p.blk_shift) - 1));
            const bool in = k_tok < item.k_tok;
            const uint16_t *const source = in ? from + k_tok * tok : from;
#pragma unroll
            for (int at_piece = 0; at_piece < WIDTH / 8; at_piece += LANES) {
                const int piece = at_piece + first;
                const bool on = in && piece * 8 < p.head_dim;
                cp_async16(at(tile, row, piece), on ? source + piece * 8 : from, on);
            }
        }
    }
    S2_DEVICE void q_fragment(int kk, uint32_t *out) const
    {
        ldmatrix_x4(at(sq, warp * 16 + (lane & 15), kk * 2 + (lane >> 4)), out);
    }
    S2_DEVICE void scores()
    {
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[j][x] = 0.f;
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            uint32_t a[4];
            if constexpr (!Q_IN_REGISTERS)
                q_fragment(kk, a);
            const uint32_t *const query = Q_IN_REGISTERS ? qr[Q_IN_REGISTERS ? kk : 0] : a;
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                uint32_t b[4];
                ldmatrix_x4(at(sk, pair * 16 + (lane & 7) + (lane >> 4) * 8, kk * 2 + ((lane >> 3) & 1)), b);
                mma_16816<FP16_>(s[2 * pair], query, b[0], b[1]);
                mma_16816<FP16_>(s[2 * pair + 1], query, b[2], b[3]);
            }
        }
    }
    /* With a scale of zero a masked score would give infinity times zero: fold the whole scale into S,
     * leaving 1. */
    S2_DEVICE void fold_sign()
    {
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[j][x] *= p.scale_log2;
    }
    S2_DEVICE void cap_scores()
    {
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[j][x] = p.cap(s[j][x]);
    }
    /* The sink joins a row's softmax, changing its sum and maximum. Returns the factor for O. */
    S2_DEVICE float join_sink(float &top, float &total) const
    {
        const float sink = p.sink != nullptr ? __ldg(p.sink + item.head) * LOG2_E : -CUDART_INF_F;
        const float peak = fmaxf(top, sink), from = peak == -CUDART_INF_F ? 0.f : peak;
        const float keep = exp2_fast(top - from);
        total = fmaf(total, keep, exp2_fast(sink - from));
        top = peak;
        return total > 0.f ? keep / total : 0.f;
    }
    S2_DEVICE bool reads(int key, int row) const
    {
        const int index = key >> p.blk_shift, inside = key & ((1 << p.blk_shift) - 1);
        if (index >= item.n_entries)
            return false;
        const Sm80Entry entry = p.entries[item.list + index];
        const int k_tok = entry.k_tok + inside;
        if (!(entry.slabs >> warp & 1u) || k_tok >= item.k_tok)
            return false;
        if (entry.mask >= 0)
            return p.bits[((int64_t)entry.mask * SM80_ROWS + row) * p.mask_words + inside / 32] >>
                       (inside % 32) &
                   1u;
        return !(entry.slabs >> 31) || !p.causal || k_tok <= item.pos + row;
    }
    S2_DEVICE void mask(int step)
    {
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                const int key = step * SM80_KEYS + j * 8 + (lane & 3) * 2 + (x & 1);
                if (!reads(key, warp * 16 + (lane >> 2) + (x >> 1) * 8))
                    s[j][x] = -CUDART_INF_F;
            }
    }
    /*
     * maximum is scaled; one FMA makes an exponent. A scale that is not positive was folded in earlier. O is
     * rescaled only in warps where a row's maximum has risen.
     */
    S2_DEVICE void softmax()
    {
        const float factor = p.scale_log2 > 0.f ? p.scale_log2 : 1.f;
        float alpha[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float top = -CUDART_INF_F, total = 0.f;
#pragma unroll
            for (int j = 0; j < 8; ++j)
                top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            top = fmaxf(top * factor, maximum[r]);
            const float from = top == -CUDART_INF_F ? 0.f : top;
            alpha[r] = exp2_fast(maximum[r] - from);
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
                for (int x = 2 * r; x < 2 * r + 2; ++x) {
                    s[j][x] = exp2_fast(fmaf(s[j][x], factor, -from));
                    total += s[j][x];
                }
            maximum[r] = top;
            sum[r] = sum[r] * alpha[r] + total;
        }
        if (!__any_sync(0xffffffffu, alpha[0] != 1.f || alpha[1] != 1.f))
            return;
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                o[j][x] *= alpha[x / 2];
    }
    S2_DEVICE void accumulate()
    {
#pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
            const uint32_t a[4] = {pack2<FP16_>(s[2 * kk][0], s[2 * kk][1]),
                                   pack2<FP16_>(s[2 * kk][2], s[2 * kk][3]),
                                   pack2<FP16_>(s[2 * kk + 1][0], s[2 * kk + 1][1]),
                                   pack2<FP16_>(s[2 * kk + 1][2], s[2 * kk + 1][3])};
#pragma unroll
            for (int pair = 0; pair < D / 16; ++pair) {
                uint32_t b[4];
                ldmatrix_x4_trans(at(sv, kk * 16 + (lane & 15), pair * 2 + (lane >> 4)), b);
                mma_16816<FP16_>(o[2 * pair], a, b[0], b[1]);
                mma_16816<FP16_>(o[2 * pair + 1], a, b[2], b[3]);
            }
        }
    }
    S2_DEVICE void store() const
    {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float total = sum[r], top = maximum[r];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            float inverse = total > 0.f ? 1.f / total : 0.f;
            if constexpr (EXTRA)
                inverse = join_sink(top, total);
            const int q_tok = item.pos - item.q_off + warp * 16 + (lane >> 2) + r * 8;
            if (q_tok < 0 || q_tok >= n_queries())
                continue;
            if ((lane & 3) == 0)
                p.lse[item.lse + q_tok] = total > 0.f ? fmaf(top, LN_2, __logf(total)) : -CUDART_INF_F;
            uint16_t *const row = p.o + item.o + q_tok * p.o_tok + (lane & 3) * 2;
#pragma unroll
            for (int j = 0; j < D / 8; ++j)
                if (j * 8 < p.head_dim)
                    *(uint32_t *)(row + j * 8) =
                        pack2<FP16_>(o[j][2 * r] * inverse, o[j][2 * r + 1] * inverse);
        }
    }
    S2_DEVICE void run()
    {
        const int n_steps = ((item.n_entries << p.blk_shift) + SM80_KEYS - 1) / SM80_KEYS;
        const int partial_end = item.n_partial << p.blk_shift, all_end = item.n_entries << p.blk_shift;
        maximum[0] = maximum[1] = -CUDART_INF_F;
        sum[0] = sum[1] = 0.f;
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
            o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.f;
        load_q();
        load_kv(sk, p.k + item.kv[0], p.k_tok, 0);
        cp_async_commit();
        for (int step = 0; step < n_steps; ++step) {
            load_kv(sv, p.v + item.kv[1], p.v_tok, step);
            cp_async_commit();
            cp_async_wait<1>();
            __syncthreads();
            if constexpr (Q_IN_REGISTERS)
                if (step == 0) {
#pragma unroll
                    for (int kk = 0; kk < D / 16; ++kk)
                        q_fragment(kk, qr[kk]);
                }
            scores();
            __syncthreads();
            if (step + 1 < n_steps)
                load_kv(sk, p.k + item.kv[0], p.k_tok, step + 1);
            cp_async_commit();
            if constexpr (EXTRA)
                if (p.cap.top > 0.f)
                    cap_scores();
            if (p.scale_log2 <= 0.f)
                fold_sign();
            if (step * SM80_KEYS < partial_end || (step + 1) * SM80_KEYS > all_end)
                mask(step);
            softmax();
            cp_async_wait<1>();
            __syncthreads();
            accumulate();
            __syncthreads();
        }
        cp_async_wait<0>();
        store();
    }
};

/* Three blocks per SM hide one another's barriers: worth rereading Q from shared memory at D = 128. */
template <int D, bool FP16, bool EXTRA>
__global__ void __launch_bounds__(SM80_THREADS, D <= 128 ? 3 : 2) fwd_sm80(const Sm80Params p)
{
    extern __shared__ __align__(128) uint8_t raw[];
    Sm80Forward<D, FP16, EXTRA> forward(p, p.items[blockIdx.x], (uint32_t)__cvta_generic_to_shared(raw));
    forward.run();
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM80_CUH */
