/*
 * kernels/cuda/decode_sm90.cuh - a decode step with more than 16 rows per list, on Hopper: 64 rows at a time.
 *
 * The next launch combines the parts (decode_rows.cuh). With so many rows the products are no longer free:
 * four warps share the rows, 16 each, and 64 keys, so that K and V come from L2 once and wgmma reads them
 * from shared memory once.
 *     block   one warpgroup, two per SM up to D = 128: while one computes exponentials the other multiplies
 *     group   the next four slabs of a list, each loaded by a warp with cp.async; zeros where there are fewer
 *     ring    STAGES groups; the space that a group frees is requested again behind the next one's barrier
 *
 * Shared memory: STAGES * (256 * D + 16) + 128 * D bytes, D in 64s. Limits: those of decode.cuh.
 */
#ifndef S2_KERNELS_CUDA_DECODE_SM90_CUH
#define S2_KERNELS_CUDA_DECODE_SM90_CUH

#include "kernels/cuda/sm90.cuh"

#include "kernels/cuda/decode_rows.cuh"

namespace s2
{

template <int D_, bool FP16_, bool EXTRA_> struct WideShape {
    static constexpr int D = D_, ROWS = 64, KEYS = 64;
    static constexpr bool FP16 = FP16_, EXTRA = EXTRA_;
    static constexpr int CHUNKS = (D + 63) / 64, PIECES = D / 8; /* of 128 bytes; of 16 bytes */
    static constexpr int CHUNK_BYTES = KEYS * 128, TILE_BYTES = CHUNKS * CHUNK_BYTES,
                         GROUP_BYTES = 2 * TILE_BYTES;
    static constexpr int STAGES = D <= 64 ? 6 : 3, BLOCKS = D <= 128 ? 2 : 1; /* per SM */
    static constexpr int RING_BYTES = STAGES * GROUP_BYTES, Q_BYTES = TILE_BYTES;
    static constexpr int SHARED_BYTES = RING_BYTES + Q_BYTES + STAGES * 16;
};

template <class Shape> struct Wide : DecodeRows<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA> {
    typedef DecodeRows<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA> Rows;
    using Rows::p, Rows::warp, Rows::lane, Rows::part, Rows::chunk;
    static constexpr int D = Shape::D, KEYS = Shape::KEYS, STAGES = Shape::STAGES;
    static constexpr bool FP16 = Shape::FP16;
    /* A slab that does not exist; others have a mask, or -1. */
    static constexpr int NO_SLAB = -2;

    uint8_t *const shared;
    const uint32_t base;
    int4 own;
    bool waited;
    /* the group to be requested next, and this warp's slab of it */
    int ask, ask_end, ask_list;
    uint4 ahead;
    int stage_in, stage_out;
    float o[D / 2], maximum[2], sum[2];

    S2_DEVICE Wide(const DecodeParams &params, uint8_t *memory)
        : Rows(params), shared(memory), base((uint32_t)__cvta_generic_to_shared(memory)), waited(false),
          stage_in(0), stage_out(0)
    {
    }
    S2_DEVICE uint32_t q_tile() const
    {
        return base + Shape::RING_BYTES;
    }
    S2_DEVICE int *masks_of(int stage) const
    {
        return (int *)(shared + Shape::RING_BYTES + Shape::Q_BYTES) + stage * 4;
    }
    static S2_DEVICE uint32_t at(int row, int piece)
    {
        return piece / 8 * Shape::CHUNK_BYTES + swizzle128(row * 128 + piece % 8 * 16);
    }

    /* ---------------------------------------------------------------- loads */

    S2_DEVICE void wait_once()
    {
        if (!waited)
            wait_for_launch_before();
        waited = true;
    }
    /* Lists follow one another, but no group holds slabs of two: the next one begins where this one ends. */
    S2_DEVICE void look_ahead()
    {
        while (ask >= ask_end && ask_end < own.y) {
            ask = ask_end;
            ask_end = min(p.lists[++ask_list].slab_end, own.y);
        }
        const uint4 none = {0, 0, (uint32_t)NO_SLAB, 0};
        ahead = ask + warp < ask_end ? __ldcg((const uint4 *)(p.slabs + ask + warp)) : none;
    }
    S2_DEVICE void load_tile(uint32_t dst, const uint8_t *src, uint32_t row_bytes, uint32_t live) const
    {
        constexpr int PASSES = DECODE_KEYS * Shape::PIECES / 32;
        if ((live & DECODE_ALL_LIVE) == DECODE_ALL_LIVE && p.head_dim == D) {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass) {
                const int index = pass * 32 + lane, row = index / Shape::PIECES,
                          piece = index % Shape::PIECES;
                cp_async16_whole<true, D % 64 == 0>(dst + at(warp * 16 + row, piece),
                                                    src + row * row_bytes + piece * 16);
            }
            return;
        }
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int index = pass * 32 + lane, row = index / Shape::PIECES, piece = index % Shape::PIECES;
            const bool on = (live >> row & 1u) && piece * 8 < p.head_dim;
            cp_async16(dst + at(warp * 16 + row, piece), on ? src + row * row_bytes + piece * 16 : src, on);
        }
    }
    /* Request the next group; one group is committed in any case. */
    S2_DEVICE void issue()
    {
        if (ask < ask_end) {
            if (ahead.w & DECODE_NEW)
                wait_once();
            const uint32_t dst = base + stage_in * Shape::GROUP_BYTES;
            load_tile(dst, p.k + (size_t)ahead.x * 16, p.k_row_bytes, ahead.w);
            load_tile(dst + Shape::TILE_BYTES, p.v + (size_t)ahead.y * 16, p.v_row_bytes, ahead.w);
            if (lane == 0)
                masks_of(stage_in)[warp] = (int)ahead.z;
            stage_in = stage_in + 1 == STAGES ? 0 : stage_in + 1;
            ask += 4;
            look_ahead();
        }
        cp_async_commit();
    }
    S2_DEVICE void begin_list(const DecodeList &list)
    {
        for (int x = threadIdx.x; x < Shape::ROWS * Shape::PIECES; x += DECODE_THREADS) {
            const int row = x / Shape::PIECES, piece = x % Shape::PIECES;
            const uint4 none = {0, 0, 0, 0};
            const uint4 data =
                piece * 8 < p.head_dim ? __ldg((const uint4 *)this->query(list, row) + piece) : none;
            *(uint4 *)(shared + Shape::RING_BYTES + at(row, piece)) = data;
        }
        maximum[0] = maximum[1] = -CUDART_INF_F;
        sum[0] = sum[1] = 0.f;
#pragma unroll
        for (int x = 0; x < D / 2; ++x)
            o[x] = 0.f;
    }

    /* ---------------------------------------------------------------- 64 keys */

    /* Element 4 j + x is key 8 j + 2 (lane % 4) + x % 2 of row lane / 4 + 8 (x / 2) of the warp's 16. */
    S2_DEVICE void multiply_keys(uint32_t tile, float *s) const
    {
        const uint32_t dq = desc_low(q_tile(), 16), dk = desc_low(tile, 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            const uint32_t step = (kk / 4 * Shape::CHUNK_BYTES + kk % 4 * 32) >> 4;
            Wgmma<FP16, KEYS>::template ss<0>(s, desc(dq + step), desc(dk + step), kk > 0);
        }
        wg_commit();
        wg_wait<0>();
        wg_pin<KEYS / 2>(s);
    }
    S2_DEVICE void multiply_values(uint32_t tile, const uint32_t *weights)
    {
        const uint32_t dv = desc_low(tile, Shape::CHUNK_BYTES);
        wg_pin<D / 2>(o);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < KEYS / 16; ++kk)
            Wgmma<FP16, D>::template rs<1>(o, weights + 4 * kk, desc(dv + (kk * 2048 >> 4)), 1);
        wg_commit();
        wg_wait<0>();
        wg_pin<D / 2>(o);
    }
    S2_DEVICE void mask(const int *masks, float *s) const
    {
#pragma unroll
        for (int slab = 0; slab < 4; ++slab) {
            const int mask_index = masks[slab];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = chunk * Shape::ROWS + warp * 16 + (lane >> 2) + half * 8;
                uint32_t bits = mask_index == -1 ? DECODE_ALL_LIVE : 0u;
                if (mask_index >= 0 && row < p.row_cap)
                    bits = __ldg(p.bits + (size_t)mask_index * p.row_cap + row);
#pragma unroll
                for (int x = 0; x < 4; ++x)
                    if (!(bits >> (x / 2 * 8 + (lane & 3) * 2 + x % 2) & 1u))
                        s[4 * (2 * slab + x / 2) + 2 * half + x % 2] = -CUDART_INF_F;
            }
        }
    }
    /* The maximum is lazy, as in decode.cuh. */
    S2_DEVICE void raise(const float *top)
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float peak = fmaxf(top[half], __shfl_xor_sync(~0u, top[half], 1));
            peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, 2));
            peak = fmaxf(peak, maximum[half]);
            const float factor = maximum[half] == -CUDART_INF_F ? 0.f : exp2_fast(maximum[half] - peak);
            maximum[half] = peak;
            sum[half] *= factor;
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                o[4 * j + 2 * half] *= factor;
                o[4 * j + 2 * half + 1] *= factor;
            }
        }
    }
    S2_DEVICE void weigh(float *s, uint32_t *weights)
    {
        constexpr float SLACK = 8.f;
        float top[2] = {-CUDART_INF_F, -CUDART_INF_F};
#pragma unroll
        for (int x = 0; x < KEYS / 2; ++x)
            top[x >> 1 & 1] = fmaxf(top[x >> 1 & 1], s[x]);
        if (__any_sync(~0u, top[0] > maximum[0] + SLACK || top[1] > maximum[1] + SLACK))
            raise(top);
        const float from[2] = {maximum[0] == -CUDART_INF_F ? 0.f : maximum[0],
                               maximum[1] == -CUDART_INF_F ? 0.f : maximum[1]};
#pragma unroll
        for (int x = 0; x < KEYS / 2; x += 2) {
            const float a = exp2_fast(s[x] - from[x >> 1 & 1]), b = exp2_fast(s[x + 1] - from[x >> 1 & 1]);
            sum[x >> 1 & 1] += a + b;
            weights[x / 2] = pack2<FP16>(a, b);
        }
    }
    S2_DEVICE void one_group()
    {
        float s[KEYS / 2];
        uint32_t weights[KEYS / 4];
        cp_async_wait<STAGES - 2>();
        fence_async_shared();
        __syncthreads();
        issue();
        const uint32_t tile = base + stage_out * Shape::GROUP_BYTES;
        const int4 masks = *(const int4 *)masks_of(stage_out);
        multiply_keys(tile, s);
#pragma unroll
        for (int x = 0; x < KEYS / 2; ++x)
            s[x] = Shape::EXTRA && p.cap.top > 0.f ? p.cap(s[x]) : s[x] * p.scale_log2;
        if ((masks.x & masks.y & masks.z & masks.w) != -1) {
            const int of_slab[4] = {masks.x, masks.y, masks.z, masks.w};
            mask(of_slab, s);
        }
        weigh(s, weights);
        multiply_values(tile + Shape::TILE_BYTES, weights);
        stage_out = stage_out + 1 == STAGES ? 0 : stage_out + 1;
    }

    /* ---------------------------------------------------------------- results */

    S2_DEVICE void store_whole(const DecodeList &list, int half)
    {
        const int row = chunk * Shape::ROWS + warp * 16 + (lane >> 2) + half * 8;
        if (row >= list.n_rows)
            return;
        const float inverse = this->join_sink(list, row, maximum[half], sum[half]);
        uint16_t *const to = p.o + this->row_at(row, list.o, p.o_tok, p.o_head) + (lane & 3) * 2;
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
            if (j * 8 < p.head_dim)
                *(uint32_t *)(to + j * 8) =
                    pack2<FP16>(o[4 * j + 2 * half] * inverse, o[4 * j + 2 * half + 1] * inverse);
        if ((lane & 3) == 0)
            this->store_lse(list, row, maximum[half], sum[half]);
    }
    S2_DEVICE void store_part(const DecodeList &list, int half)
    {
        const int row = warp * 16 + (lane >> 2) + half * 8;
        if (chunk * Shape::ROWS + row >= list.n_rows)
            return;
        const size_t slot = this->slot_of(list, part) * Shape::ROWS + row;
        float *const to = p.part_o + slot * D + (lane & 3) * 2;
#pragma unroll
        for (int j = 0; j < D / 8; ++j)
            __stcg((float2 *)(to + j * 8), make_float2(o[4 * j + 2 * half], o[4 * j + 2 * half + 1]));
        if ((lane & 3) == 0)
            __stcg(p.part_l + slot, make_float2(maximum[half], sum[half]));
    }
    S2_DEVICE void finish_list(const DecodeList &list, bool whole)
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
            sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
            if (whole)
                store_whole(list, half);
            else
                store_part(list, half);
        }
        __syncthreads(); /* the queries have been read */
    }
    S2_DEVICE void run()
    {
        own = __ldg(p.parts + part);
        let_next_launch_begin();
        int index = own.z;
        DecodeList list = p.lists[index];
        ask = own.x;
        ask_list = index;
        ask_end = min(list.slab_end, own.y);
        if (p.late)
            wait_once();
        look_ahead();
        if (!p.early)
            wait_once();
#pragma unroll 1
        for (int stage = 0; stage < STAGES - 1; ++stage)
            issue();
        wait_once();
        for (int from = own.x; from < own.y;) {
            const int until = min(list.slab_end, own.y);
            if (from < until) {
                begin_list(list);
                for (int group = from; group < until; group += 4)
                    one_group();
                finish_list(list, from == list.slab_begin && until == list.slab_end);
                from = until;
            }
            if (from < own.y)
                list = p.lists[++index];
        }
        if (p.n_empty > 0)
            this->empty_lists();
        cp_async_wait<0>();
    }
};

template <class Shape>
__global__ void __launch_bounds__(DECODE_THREADS, Shape::BLOCKS)
    decode_wide(const __grid_constant__ DecodeParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) uint8_t raw[];
    Wide<Shape> step(p, raw);
    step.run();
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_SM90_CUH */
