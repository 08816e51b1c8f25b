/*
 * kernels/cuda/decode.cuh - attention for a few query tokens, with the keys split over the whole chip.
 *
 * Idea: nothing but K and V matters, so every warp streams its own keys and never waits for another.
 *     grid    (parts of plan/decode.h, chunks of 8 * TILES rows); a part is an equal run of slabs
 *     block   four warps; warp w processes slabs w, w + 4, ... of the part, 16 keys each
 *     warp    has its own ring of STAGES slabs, filled by cp.async, no barrier between warps; S^T = K Q^T and
 *             O^T = V^T P^T by mma.sync m16n8k16, so that 8 query rows are one n tile and nothing is padded
 * At the end of a list of slabs the four warps are combined in shared memory, then as in decode_rows.cuh.
 *
 * The maximum is lazy: O and l are rescaled only when a score exceeds the reference by 2^8, which is
 * exact (fp32) and needs one vote instead of six shuffles per slab.
 *
 * Launches overlap: the next one's blocks begin as soon as there is room, fill their rings with keys that are
 * older than the step, and prefetch one more slab into L2. A short step has one block per SM, so that there
 * is room from the start. The blocks of a launch then begin while the launch two before it is ending, and
 * requests for whole rings at once would delay its combination and its end: they fill their rings slab by
 * slab.
 *
 * Eight bits (E4M3): K and V are e4m3, and every product is that of 16 bits, exactly. A byte becomes a number
 * of 16 bits by its bits being moved, which makes it too small by a power of two (2^120 in bf16, 2^8 in fp16);
 * queries, weights and the row's scales make up for that, so that nothing is multiplied per key. The four
 * bytes of a register become two registers, of its even and of its odd bytes. Of K those are d = 4 t, 4 t + 2
 * and 4 t + 1, 4 t + 3, an order of the contraction that the queries are loaded in; of V, transposed in pairs
 * of bytes, they are two keys of d = 2 g and of d = 2 g + 1: rows g and g + 8 of a tile of O^T.
 *
 * Shared memory: 4 * STAGES * 32 * D * bytes of a number + 128 * (D + 4) + 256 bytes: two blocks per SM up to
 *                D = 128, 192 KB of requests in flight. Bytes moved: 32 * D numbers per slab of K and V, 16
 *                bytes of the plan; 2 * D * 4 per row, part and unfinished list.
 * Limits: head dimensions up to 256, multiples of 8; strides multiples of 8 elements; K and V each below
 *         64 GiB. E4M3: multiples of 16 in both; queries below 2^63; the codes of NaN are read as 480.
 */
#ifndef S2_KERNELS_CUDA_DECODE_CUH
#define S2_KERNELS_CUDA_DECODE_CUH

#include "kernels/cuda/decode_rows.cuh"

namespace s2
{

/* Rows of BYTES in shared memory: 16-byte pieces are xor-ed with the row inside their group, so that the same
 * piece of eight rows falls into eight different banks. */
template <int BYTES> struct DecodeTile {
    static constexpr int GROUP = BYTES % 128 == 0 ? 8 : BYTES % 64 == 0 ? 4 : 2, GROUP_BYTES = GROUP * 16;
    static S2_DEVICE int turn(int row)
    {
        return GROUP == 8 ? row & 7 : GROUP == 4 ? (row >> 1) & 3 : (row >> 2) & 1;
    }
    static S2_DEVICE uint32_t at(int row, int piece)
    {
        return row * BYTES + piece / GROUP * GROUP_BYTES + ((piece % GROUP ^ turn(row)) << 4);
    }
    /* Piece 2 * step + high of a row, from the address of piece `high`. */
    static S2_DEVICE uint32_t advance(uint32_t from, int step)
    {
        constexpr int HALF = GROUP / 2;
        return (from + step / HALF * GROUP_BYTES) ^ (step % HALF << 5);
    }
};

template <int D_, int TILES_, bool FP16_, bool EXTRA_, bool E4M3_ = false> struct DecodeShape {
    static constexpr int D = D_, TILES = TILES_, ROWS = 8 * TILES;
    static constexpr bool FP16 = FP16_, EXTRA = EXTRA_, E4M3 = E4M3_;
    static constexpr int BYTES = E4M3 ? 1 : 2, PIECE = 16 / BYTES; /* of a number; numbers in 16 bytes */
    static constexpr int ROW_BYTES = D * BYTES, PIECES = ROW_BYTES / 16;
    static constexpr int TILE_BYTES = DECODE_KEYS * ROW_BYTES, SLAB_BYTES = 2 * TILE_BYTES;
    static constexpr int STAGES = E4M3 && TILES == 4 ? 4 : ROW_BYTES <= 128 ? 6 : ROW_BYTES <= 192 ? 4 : 3;
    static constexpr int BLOCKS = D <= 128 ? 2 : 1; /* per SM */
    static constexpr int O_STRIDE = D + 4;          /* floats: rows fall into different banks */
    static constexpr int RING_BYTES = DECODE_WARPS * STAGES * SLAB_BYTES;
    static constexpr int O_BYTES = DECODE_WARPS * 8 * O_STRIDE * 4;
    static constexpr int SHARED_BYTES = RING_BYTES + O_BYTES + DECODE_WARPS * 8 * 8;
};

template <class Shape> struct Decode : DecodeRows<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA> {
    typedef DecodeRows<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA> Rows;
    using Rows::p, Rows::warp, Rows::lane, Rows::part, Rows::chunk;
    static constexpr int D = Shape::D, TILES = Shape::TILES, ROWS = Shape::ROWS, STAGES = Shape::STAGES;
    static constexpr int STEPS = D / 16; /* in the contraction over d; also row tiles of O^T */
    static constexpr bool FP16 = Shape::FP16, E4M3 = Shape::E4M3;
    typedef DecodeTile<Shape::ROW_BYTES> Keys;
    typedef DecodeTile<D * 2> Queries;
    /* E4M3: what queries and weights are too large by, and scores and outputs have to be multiplied by. */
    static constexpr float UP = FP16 ? 1.f : 0x1p64f, DOWN = FP16 ? 0x1p8f : 0x1p56f;
    static constexpr float UP_LOG2 = FP16 ? 0.f : 64.f;
    /* Queries that do not fit in registers next to O are kept in the rows that combine the warps. */
    static constexpr bool Q_SHARED = TILES * STEPS >= 24;
    /* More rows than this shape holds are split into chunks, which read the same keys. */
    static constexpr bool ONCE = TILES == 1 || (TILES == 2 && D <= 128);
    /*
     * Slabs requested before waiting for the previous launch: the whole ring, where registers hold its masks.
     */
    static constexpr int SLOTS = TILES < 4 ? STAGES : STAGES - 1;

    uint8_t *const shared;
    const uint32_t ring;
    bool waited;
    /* the warp's slabs, 32 at a time in the lanes */
    uint4 batch, next_batch;
    int first, n_mine, n_issued, stage_in, stage_out;
    int mask_of[SLOTS];
    uint32_t bits_of[SLOTS][TILES];
    /* of the current list */
    const uint32_t *q_row; /* per lane: found while the previous launch ends, if there is one tile of rows */
    uint32_t q[Q_SHARED ? 1 : TILES][Q_SHARED ? 1 : STEPS][2];
    float key_scale; /* E4M3: of this list's scores */
    float o[STEPS][TILES][4], maximum[TILES][2], sum[TILES][2];

    S2_DEVICE Decode(const DecodeParams &params, uint8_t *memory)
        : Rows(params), shared(memory), ring((uint32_t)__cvta_generic_to_shared(memory) +
                                             (threadIdx.x >> 5) * (STAGES * Shape::SLAB_BYTES)),
          waited(false), n_issued(0), stage_in(0), stage_out(0)
    {
#pragma unroll
        for (int slot = 0; slot < SLOTS; ++slot)
            mask_of[slot] = -1;
    }

    /* ---------------------------------------------------------------- shared memory */

    S2_DEVICE float *o_rows() const
    {
        return (float *)(shared + Shape::RING_BYTES);
    }
    S2_DEVICE float2 *l_rows() const
    {
        return (float2 *)(shared + Shape::RING_BYTES + Shape::O_BYTES);
    }

    /* ---------------------------------------------------------------- loads */

    S2_DEVICE uint4 fetch(int from) const
    {
        const int index = from + lane;
        const uint4 none = {0, 0, 0, 0};
        return index < n_mine ? __ldcg((const uint4 *)(p.slabs + first + DECODE_WARPS * index)) : none;
    }
    /* PASS_ROWS rows at a time, 16 bytes per lane. Rare paths are not unrolled: code comes from L2 too. */
    S2_DEVICE void load_tile(uint32_t dst, const uint8_t *src, uint32_t row_bytes, uint32_t live) const
    {
        constexpr int PASS_ROWS = 32 / Shape::PIECES, PASSES = DECODE_KEYS / PASS_ROWS;
        constexpr int PASS_BYTES = PASS_ROWS * Shape::ROW_BYTES;
        const int row = lane / Shape::PIECES, piece = lane % Shape::PIECES;
        if (row >= PASS_ROWS) /* 32 lanes are not a multiple of 12 pieces */
            return;
        const uint32_t to = dst + Keys::at(row, piece), step = PASS_ROWS * row_bytes;
        const uint8_t *from = src + (row * row_bytes + piece * 16);
        if ((live & DECODE_ALL_LIVE) == DECODE_ALL_LIVE && p.head_dim == D) {
#pragma unroll
            for (int pass = 0; pass < PASSES; ++pass, from += step)
                cp_async16_whole<ONCE, Shape::ROW_BYTES % 128 == 0>(
                    (to ^ Keys::turn(pass * PASS_ROWS) << 4) + pass * PASS_BYTES, from);
            return;
        }
#pragma unroll 1
        for (int pass = 0; pass < PASSES; ++pass, from += step) {
            const bool on = (live >> (pass * PASS_ROWS + row) & 1u) && piece * Shape::PIECE < p.head_dim;
            cp_async16((to ^ Keys::turn(pass * PASS_ROWS) << 4) + pass * PASS_BYTES, on ? from : src, on);
        }
    }
    S2_DEVICE void wait_once()
    {
        if (!waited)
            wait_for_launch_before();
        waited = true;
    }
    /* Request the next slab of this warp into its ring; one group is committed in any case. */
    S2_DEVICE void issue(int slot)
    {
        mask_of[slot] = -1;
        if (n_issued < n_mine) {
            const int from = n_issued & 31;
            if (from == 0 && n_issued > 0) {
                batch = next_batch;
                next_batch = fetch(n_issued + 32);
            }
            const uint32_t k = __shfl_sync(~0u, batch.x, from), v = __shfl_sync(~0u, batch.y, from);
            const uint32_t live = __shfl_sync(~0u, batch.w, from);
            mask_of[slot] = (int)__shfl_sync(~0u, batch.z, from);
            if (live & DECODE_NEW)
                wait_once();
            const uint32_t dst = ring + stage_in * Shape::SLAB_BYTES;
            load_tile(dst, p.k + (size_t)k * 16, p.k_row_bytes, live);
            load_tile(dst + Shape::TILE_BYTES, p.v + (size_t)v * 16, p.v_row_bytes, live);
            if (mask_of[slot] >= 0) {
                const uint16_t *const row = p.bits + (size_t)mask_of[slot] * p.row_cap + chunk * ROWS;
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    bits_of[slot][n] = chunk * ROWS + n * 8 < p.row_cap
                                           ? __ldg((const uint32_t *)(row + n * 8) + (lane & 3))
                                           : 0u;
            }
            stage_in = stage_in + 1 == STAGES ? 0 : stage_in + 1;
        }
        cp_async_commit();
        ++n_issued;
    }
    S2_DEVICE void request_next()
    {
#pragma unroll
        for (int slot = 0; slot < SLOTS - 1; ++slot) {
            mask_of[slot] = mask_of[slot + 1];
#pragma unroll
            for (int n = 0; n < TILES; ++n)
                bits_of[slot][n] = bits_of[slot + 1][n];
        }
        issue(SLOTS - 1);
    }
    /* Prefetch the slab after the ring into L2; a tile per lane, where its rows are contiguous. */
    S2_DEVICE void prefetch_next() const
    {
        const uint32_t k = __shfl_sync(~0u, batch.x, SLOTS), v = __shfl_sync(~0u, batch.y, SLOTS);
        const uint32_t row_bytes = lane == 0 ? p.k_row_bytes : p.v_row_bytes;
        if (n_mine > SLOTS && __shfl_sync(~0u, batch.w, SLOTS) == DECODE_ALL_LIVE && lane < 2 &&
            row_bytes == Shape::ROW_BYTES)
            prefetch_to_l2(lane == 0 ? p.k + (size_t)k * 16 : p.v + (size_t)v * 16, Shape::TILE_BYTES);
    }
    /* The plan is older than the previous launch; K and V may be, queries never are. */
    S2_DEVICE void start(int4 own)
    {
        first = own.x + warp;
        n_mine = own.y > first ? (own.y - first + DECODE_WARPS - 1) / DECODE_WARPS : 0;
        if (p.late)
            wait_once();
        batch = fetch(0);
        next_batch = fetch(32);
        if (!p.early)
            wait_once();
#pragma unroll 1
        for (int slot = 0; slot < SLOTS; ++slot) {
            request_next();
            if (p.paced)
                cp_async_wait<0>();
        }
        if (p.early)
            prefetch_next();
        wait_once();
    }

    /* ---------------------------------------------------------------- rows */

    S2_DEVICE uint32_t q_tile() const
    {
        return (uint32_t)__cvta_generic_to_shared(shared + Shape::RING_BYTES);
    }
    /* Eight numbers as K has them, in even and odd fours of every 16: two pieces with half of each. */
    S2_DEVICE void store_turned(int row, int piece, uint4 data) const
    {
        uint8_t *const tile = shared + Shape::RING_BYTES;
        const uint32_t half = (piece & 1) * 8;
        *(uint2 *)(tile + Queries::at(row, piece & ~1) + half) =
            make_uint2(raised(even2(data.x, data.y)), raised(even2(data.z, data.w)));
        *(uint2 *)(tile + Queries::at(row, piece | 1) + half) =
            make_uint2(raised(odd2(data.x, data.y)), raised(odd2(data.z, data.w)));
    }
    S2_DEVICE void load_shared_queries(const DecodeList &list) const
    {
        constexpr int PIECES = D / 8;
        for (int x = threadIdx.x; x < ROWS * PIECES; x += DECODE_THREADS) {
            const int row = x / PIECES, piece = x % PIECES;
            const uint4 none = {0, 0, 0, 0};
            const uint4 data =
                piece * 8 < p.head_dim ? __ldg((const uint4 *)this->query(list, row) + piece) : none;
            if constexpr (E4M3)
                store_turned(row, piece, data);
            else
                *(uint4 *)(shared + Shape::RING_BYTES + Queries::at(row, piece)) = data;
        }
        __syncthreads();
    }
    S2_DEVICE const uint32_t *q_words(const DecodeList &list, int n) const
    {
        return (const uint32_t *)this->query(list, n * 8 + (lane >> 2)) + (lane & 3) * (E4M3 ? 2 : 1);
    }
    static S2_DEVICE uint32_t even2(uint32_t x, uint32_t y)
    {
        return __byte_perm(x, y, 0x5410);
    }
    static S2_DEVICE uint32_t odd2(uint32_t x, uint32_t y)
    {
        return __byte_perm(x, y, 0x7632);
    }
    /* Two numbers times UP, exactly. */
    static S2_DEVICE uint32_t raised(uint32_t x)
    {
        return FP16 ? x : times_2_64(x);
    }
    S2_DEVICE void load_plain_queries(const uint32_t *from, uint32_t (&to)[STEPS][2]) const
    {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            to[step][0] = step * 16 < p.head_dim ? __ldg(from + step * 8) : 0u;
            to[step][1] = step * 16 + 8 < p.head_dim ? __ldg(from + step * 8 + 4) : 0u;
        }
    }
    S2_DEVICE void load_turned_queries(const uint32_t *from, uint32_t (&to)[STEPS][2]) const
    {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const uint2 none = {0, 0};
            const uint2 data = step * 16 < p.head_dim ? __ldg((const uint2 *)(from + step * 8)) : none;
            to[step][0] = raised(even2(data.x, data.y));
            to[step][1] = raised(odd2(data.x, data.y));
        }
    }
    S2_DEVICE void load_own_queries(const DecodeList &list)
    {
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            const uint32_t *const from = TILES == 1 ? q_row : q_words(list, n);
            if constexpr (E4M3)
                load_turned_queries(from, q[n]);
            else
                load_plain_queries(from, q[n]);
        }
    }
    S2_DEVICE void begin_list(const DecodeList &list)
    {
        if constexpr (Q_SHARED)
            load_shared_queries(list);
        else
            load_own_queries(list);
        if constexpr (E4M3)
            key_scale = __ldg(p.k_scale + list.head / p.group) * DOWN;
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            maximum[n][0] = maximum[n][1] = -CUDART_INF_F;
            sum[n][0] = sum[n][1] = 0.f;
#pragma unroll
            for (int d = 0; d < STEPS; ++d)
                o[d][n][0] = o[d][n][1] = o[d][n][2] = o[d][n][3] = 0.f;
        }
    }

    /* ---------------------------------------------------------------- 16 keys */

    /* Two e4m3 numbers, in the odd bytes of x, as 16-bit ones divided by 2^8 or 2^120: one bit of sign, four of
     * exponent, three of mantissa; numbers below the least normal one stay what they are. */
    static S2_DEVICE uint32_t odd_bytes(uint32_t x)
    {
        return (x & 0x80008000u) | (x >> (FP16 ? 1 : 4) & (FP16 ? 0x3f803f80u : 0x07f007f0u));
    }
    static S2_DEVICE uint32_t even_bytes(uint32_t x)
    {
        return odd_bytes(x << 8);
    }
    S2_DEVICE void multiply_keys(int step, const uint32_t (&a)[4], uint32_t q_from,
                                 float (&s)[TILES][4]) const
    {
        if constexpr (Q_SHARED) {
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                uint32_t b[4];
                ldmatrix_x4(Queries::advance(q_from + n * 8 * D * 2, step), b);
                mma_16816<FP16>(s[n], a, b[0], b[1]);
                mma_16816<FP16>(s[n + 1], a, b[2], b[3]);
            }
        } else {
#pragma unroll
            for (int n = 0; n < TILES; ++n)
                mma_16816<FP16>(s[n], a, q[n][step][0], q[n][step][1]);
        }
    }
    S2_DEVICE void scores(uint32_t tile, float (&s)[TILES][4]) const
    {
        const uint32_t from = tile + Keys::at(lane & 15, lane >> 4);
        const uint32_t q_from = q_tile() + Queries::at((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
#pragma unroll
        for (int n = 0; n < TILES; ++n)
            s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
#pragma unroll
        for (int step = 0; step < STEPS; step += Shape::PIECE / 8) {
            uint32_t a[4];
            ldmatrix_x4(Keys::advance(from, step / (Shape::PIECE / 8)), a);
            if constexpr (E4M3) {
                const uint32_t low[4] = {even_bytes(a[0]), even_bytes(a[1]), odd_bytes(a[0]),
                                         odd_bytes(a[1])};
                const uint32_t high[4] = {even_bytes(a[2]), even_bytes(a[3]), odd_bytes(a[2]),
                                          odd_bytes(a[3])};
                multiply_keys(step, low, q_from, s);
                multiply_keys(step + 1, high, q_from, s);
            } else {
                multiply_keys(step, a, q_from, s);
            }
        }
        if (Shape::EXTRA && p.cap.top > 0.f) {
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int x = 0; x < 4; ++x)
                    s[n][x] = p.cap(E4M3 ? s[n][x] * key_scale : s[n][x]);
            return;
        }
        const float scale = E4M3 ? p.scale_log2 * key_scale : p.scale_log2;
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[n][x] *= scale;
    }
    /* Element x is key lane / 4 + 8 * (x / 2) of row 2 * (lane % 4) + x % 2. */
    S2_DEVICE void mask(float (&s)[TILES][4], const uint32_t (&bits)[TILES]) const
    {
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                if (!(bits[n] >> ((x & 1) * 16 + (x >> 1) * 8 + (lane >> 2)) & 1u))
                    s[n][x] = -CUDART_INF_F;
    }
    S2_DEVICE void rescale(const float (&s)[TILES][4])
    {
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int x = 0; x < 2; ++x) {
                float top = fmaxf(s[n][x], s[n][x + 2]);
                top = fmaxf(top, __shfl_xor_sync(~0u, top, 4));
                top = fmaxf(top, __shfl_xor_sync(~0u, top, 8));
                top = fmaxf(top, __shfl_xor_sync(~0u, top, 16));
                top = fmaxf(top, maximum[n][x]);
                const float factor = maximum[n][x] == -CUDART_INF_F ? 0.f : exp2_fast(maximum[n][x] - top);
                maximum[n][x] = top;
                sum[n][x] *= factor;
#pragma unroll
                for (int d = 0; d < STEPS; ++d) {
                    o[d][n][x] *= factor;
                    o[d][n][x + 2] *= factor;
                }
            }
    }
    S2_DEVICE void fold(uint32_t tile, int mask_index, const uint32_t (&bits)[TILES])
    {
        constexpr float SLACK = 8.f;
        float s[TILES][4];
        uint32_t weights[TILES][2];
        scores(tile, s);
        if (mask_index >= 0)
            mask(s, bits);
        bool above = false;
#pragma unroll
        for (int n = 0; n < TILES; ++n)
            above |= fmaxf(s[n][0], s[n][2]) > maximum[n][0] + SLACK ||
                     fmaxf(s[n][1], s[n][3]) > maximum[n][1] + SLACK;
        if (__any_sync(~0u, above))
            rescale(s);
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            float even = maximum[n][0] == -CUDART_INF_F ? 0.f : maximum[n][0];
            float odd = maximum[n][1] == -CUDART_INF_F ? 0.f : maximum[n][1];
            if constexpr (E4M3) {
                even -= UP_LOG2;
                odd -= UP_LOG2;
            }
            s[n][0] = exp2_fast(s[n][0] - even);
            s[n][1] = exp2_fast(s[n][1] - odd);
            s[n][2] = exp2_fast(s[n][2] - even);
            s[n][3] = exp2_fast(s[n][3] - odd);
            sum[n][0] += s[n][0] + s[n][2];
            sum[n][1] += s[n][1] + s[n][3];
            weights[n][0] = transpose8x8(pack2<FP16>(s[n][0], s[n][1]));
            weights[n][1] = transpose8x8(pack2<FP16>(s[n][2], s[n][3]));
        }
        multiply_values(tile + Shape::TILE_BYTES, weights);
    }
    S2_DEVICE void multiply_values(uint32_t tile, const uint32_t (&weights)[TILES][2])
    {
        const uint32_t from = tile + (E4M3 ? Keys::at(lane & 15, lane >> 4)
                                           : Keys::at((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1));
#pragma unroll
        for (int d = 0; d < STEPS; d += Shape::PIECE / 8) {
            uint32_t a[4];
            ldmatrix_x4_trans(Keys::advance(from, d / (Shape::PIECE / 8)), a);
            if constexpr (E4M3) {
                const uint32_t low[4] = {even_bytes(a[0]), odd_bytes(a[0]), even_bytes(a[1]),
                                         odd_bytes(a[1])};
                const uint32_t high[4] = {even_bytes(a[2]), odd_bytes(a[2]), even_bytes(a[3]),
                                          odd_bytes(a[3])};
#pragma unroll
                for (int n = 0; n < TILES; ++n) {
                    mma_16816<FP16>(o[d][n], low, weights[n][0], weights[n][1]);
                    mma_16816<FP16>(o[d + 1][n], high, weights[n][0], weights[n][1]);
                }
            } else {
#pragma unroll
                for (int n = 0; n < TILES; ++n)
                    mma_16816<FP16>(o[d][n], a, weights[n][0], weights[n][1]);
            }
        }
    }
    S2_DEVICE void one_slab()
    {
        const int mask_index = mask_of[0];
        uint32_t bits[TILES];
#pragma unroll
        for (int n = 0; n < TILES; ++n)
            bits[n] = bits_of[0][n];
        if constexpr (SLOTS < STAGES)
            request_next();
        cp_async_wait<STAGES - 1>();
        __syncwarp();
        fold(ring + stage_out * Shape::SLAB_BYTES, mask_index, bits);
        stage_out = stage_out + 1 == STAGES ? 0 : stage_out + 1;
        __syncwarp();
        if constexpr (SLOTS == STAGES)
            request_next();
    }

    /* ---------------------------------------------------------------- results */

    /* E4M3: O and its sum are too large by UP, O too small by what V is; neighbours are in one lane. */
    S2_DEVICE void leave_row(int n, int x, float scale, float *to) const
    {
#pragma unroll
        for (int d = 0; d < STEPS; ++d)
            if constexpr (E4M3) {
                *(float2 *)(to + d * 16) = make_float2(o[d][n][x] * scale, o[d][n][x + 2] * scale);
            } else {
                to[d * 16] = o[d][n][x];
                to[d * 16 + 8] = o[d][n][x + 2];
            }
    }
    S2_DEVICE void leave_tile(const DecodeList &list, int n) const
    {
        const float scale = E4M3 ? __ldg(p.v_scale + list.head / p.group) * DOWN : 1.f;
#pragma unroll
        for (int x = 0; x < 2; ++x) {
            float total = E4M3 ? sum[n][x] * (1.f / UP) : sum[n][x];
            total += __shfl_xor_sync(~0u, total, 4);
            total += __shfl_xor_sync(~0u, total, 8);
            total += __shfl_xor_sync(~0u, total, 16);
            if (lane < 4)
                l_rows()[warp * 8 + lane * 2 + x] = make_float2(maximum[n][x], total);
            leave_row(n, x, scale,
                      o_rows() + (warp * 8 + (lane & 3) * 2 + x) * Shape::O_STRIDE +
                          (lane >> 2) * (E4M3 ? 2 : 1));
        }
    }
    /* Combine a warp's rows of one tile over the four warps, into the output or this part's slot. */
    S2_DEVICE void combine_warps(const DecodeList &list, int n, bool whole) const
    {
#pragma unroll 1
        for (int row8 = warp; row8 < 8; row8 += DECODE_WARPS) {
            const int row = chunk * ROWS + n * 8 + row8;
            if (row >= list.n_rows)
                break;
            float factor[DECODE_WARPS], top = -CUDART_INF_F, total = 0.f;
#pragma unroll
            for (int w = 0; w < DECODE_WARPS; ++w)
                top = fmaxf(top, l_rows()[w * 8 + row8].x);
            const float from = top == -CUDART_INF_F ? 0.f : top;
#pragma unroll
            for (int w = 0; w < DECODE_WARPS; ++w) {
                factor[w] = exp2_fast(l_rows()[w * 8 + row8].x - from);
                total += factor[w] * l_rows()[w * 8 + row8].y;
            }
#pragma unroll 1
            for (int d = lane * 4; d < D; d += 128) {
                float4 sum4 = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
                for (int w = 0; w < DECODE_WARPS; ++w) {
                    const float4 y = *(const float4 *)(o_rows() + (w * 8 + row8) * Shape::O_STRIDE + d);
                    sum4.x += factor[w] * y.x;
                    sum4.y += factor[w] * y.y;
                    sum4.z += factor[w] * y.z;
                    sum4.w += factor[w] * y.w;
                }
                if (whole) {
                    this->store_row(list, row, d, sum4, top, total);
                } else {
                    const size_t slot = this->slot_of(list, part) * ROWS + n * 8 + row8;
                    __stcg((float4 *)(p.part_o + slot * D + d), sum4);
                    if (d == 0)
                        __stcg(p.part_l + slot, make_float2(top, total));
                }
            }
        }
    }
    S2_DEVICE void finish_list(const DecodeList &list, int index, bool whole)
    {
        if constexpr (Q_SHARED)
            __syncthreads();
#pragma unroll
        for (int n = 0; n < TILES; ++n) {
            leave_tile(list, n);
            __syncthreads();
            combine_warps(list, n, whole);
            if (TILES == 1 && !whole)
                this->join_parts(list, index);
            __syncthreads();
        }
    }
    S2_DEVICE void run()
    {
        const int4 own = __ldg(p.parts + part);
        let_next_launch_begin();
        int index = own.z, mine = own.x + warp;
        DecodeList list = p.lists[index];
        q_row = q_words(list, 0);
        start(own);
        for (int from = own.x; from < own.y;) {
            const int until = min(list.slab_end, own.y);
            if (from < until) {
                begin_list(list);
                for (; mine < until; mine += DECODE_WARPS)
                    one_slab();
                finish_list(list, index, from == list.slab_begin && until == list.slab_end);
                from = until;
            }
            if (from < own.y) {
                list = p.lists[++index];
                q_row = q_words(list, 0);
            }
        }
        if (p.n_empty > 0)
            this->empty_lists();
        cp_async_wait<0>();
    }
};

template <class Shape>
__global__ void __launch_bounds__(DECODE_THREADS, Shape::BLOCKS)
    decode(const __grid_constant__ DecodeParams p)
{
    extern __shared__ __align__(1024) uint8_t raw[];
    Decode<Shape> step(p, raw);
    step.run();
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_CUH */
