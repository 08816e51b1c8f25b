/*
 * kernels/cuda/bwd_sm80.cuh - the portable backward: mma.sync and cp.async, any NVIDIA GPU since Ampere.
 *
 * Two kernels, one thread block for each column of 64 keys (dK, dV) and for each tile of 64 queries (dQ), in
 * the plan's order. Four warps have 16 rows each of the 64 keys or queries that stay; above head dimension
 * 128 eight warps share the rows and split the columns of dK and dV. Steps are processed in parts of 32 or
 * 16, so that scores and their gradients fit the registers next to the accumulators.
 *
 * Shared  4 tiles of 64 rows (Q, dO, K, V) and the row statistics of a step: 512 bytes times the head
 *         dimension rounded up to 64, and 512.
 * Masks   everything that a plan can express: slabs, causal edge, end of the keys, element masks from memory.
 *
 * Takes every head dimension that is a multiple of 8 up to 256 and scales of any sign. Deterministic.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM80_CUH
#define S2_KERNELS_CUDA_BWD_SM80_CUH

#include "kernels/cuda/bwd.cuh"

namespace s2
{

struct Sm80BwdParams {
    const BwdSeq *seqs;
    const float *lse2, *delta;
    const BwdColumn *columns;
    const int32_t *blocks;
    const BwdStep *steps;
    const int32_t *step_masks; /* NULL: no element masks */
    const BwdTile *tiles;
    const uint32_t *words;
    const int32_t *word_masks;
    const uint32_t *bits;
    BwdTensor q, k, v, d_o, d_q, d_k, d_v;
    int32_t n_columns, n_tiles;
    int32_t group, shift, mask_words, causal, head_dim;
    float scale_log2, scale;
    Cap cap;
};

/* A tile of 64 rows in shared memory; 16-byte pieces are xor-ed with the row against bank conflicts. */
template <int D> struct Sm80Tile {
    static constexpr int WIDTH = (D + 63) / 64 * 64, ROW_BYTES = WIDTH * 2, BYTES = 64 * ROW_BYTES;
    static S2_DEVICE uint32_t at(uint32_t tile, int row, int piece)
    {
        return tile + row * ROW_BYTES + ((piece ^ (row & 7)) << 4);
    }
    /* A operand: 16 rows from `row` on, columns [16 kk, 16 kk + 16). */
    static S2_DEVICE void a_fragment(uint32_t tile, int row, int kk, int lane, uint32_t *out)
    {
        ldmatrix_x4(at(tile, row + (lane & 15), kk * 2 + (lane >> 4)), out);
    }
    /* B operand of two groups of 8 rows: rows are columns of the product. */
    static S2_DEVICE void b_fragment(uint32_t tile, int row, int kk, int lane, uint32_t *out)
    {
        ldmatrix_x4(at(tile, row + (lane & 7) + (lane >> 4) * 8, kk * 2 + ((lane >> 3) & 1)), out);
    }
    /* B operand with the rows as depth: 16 rows from `row` on, columns [16 pair, 16 pair + 16). */
    static S2_DEVICE void b_fragment_trans(uint32_t tile, int row, int pair, int lane, uint32_t *out)
    {
        ldmatrix_x4_trans(at(tile, row + (lane & 15), pair * 2 + (lane >> 4)), out);
    }
};

template <int D_, bool FP16_, bool CAPPED> struct Sm80Backward {
    using Tile = Sm80Tile<D_>;
    static constexpr bool WIDE = D_ > 128;
    static constexpr int WARPS = WIDE ? 8 : 4, THREADS = 32 * WARPS, STATS_BYTES = 512;
    static constexpr int SHARED_BYTES = 4 * Tile::BYTES + STATS_BYTES;
    static constexpr int OWN = WIDE ? D_ / 2 : D_; /* columns of dK and dV of one warp */
    static constexpr int PART = WIDE ? 16 : 32;    /* of a step that is processed at a time */

    const Sm80BwdParams &p;
    const int warp, slab, lane, column_begin;
    const uint32_t fixed[2], moving[2], stats; /* K and V, or Q and dO; and the other two */
    float s[PART / 8][4], dp[PART / 8][4];     /* 16 x PART */

    S2_DEVICE Sm80Backward(const Sm80BwdParams &params, uint32_t shared)
        : p(params), warp(threadIdx.x >> 5), slab((threadIdx.x >> 5) & 3), lane(threadIdx.x & 31),
          column_begin(WIDE ? (threadIdx.x >> 7) * OWN : 0), fixed{shared, shared + Tile::BYTES},
          moving{shared + 2 * Tile::BYTES, shared + 3 * Tile::BYTES}, stats(shared + 4 * Tile::BYTES)
    {
    }
    /* Row number `row` of a tile from memory, or zeros: 8 lanes per row. */
    template <class RowOf>
    S2_DEVICE void load(uint32_t tile, const BwdTensor &tensor, int64_t base, RowOf row_of) const
    {
        for (int row = threadIdx.x / 8; row < 64; row += THREADS / 8) {
            const int tok = row_of(row);
            const uint16_t *const from = tensor.data + base + (tok < 0 ? 0 : tok) * tensor.tok;
#pragma unroll
            for (int at_piece = 0; at_piece < Tile::WIDTH / 8; at_piece += 8) {
                const int piece = at_piece + threadIdx.x % 8;
                const bool on = tok >= 0 && piece * 8 < p.head_dim;
                cp_async16(Tile::at(tile, row, piece), on ? from + piece * 8 : tensor.data, on);
            }
        }
    }
    static S2_DEVICE void wait_all()
    {
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
    }
    /* s = left . right^T over 16 rows of the fixed tile and PART of the moving one. */
    S2_DEVICE void product(float (*out)[4], uint32_t left, uint32_t right, int part) const
    {
#pragma unroll
        for (int j = 0; j < PART / 8; ++j)
            out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0.f;
#pragma unroll
        for (int kk = 0; kk < D_ / 16; ++kk) {
            uint32_t a[4];
            Tile::a_fragment(left, slab * 16, kk, lane, a);
#pragma unroll
            for (int pair = 0; pair < PART / 16; ++pair) {
                uint32_t b[4];
                Tile::b_fragment(right, part * PART + pair * 16, kk, lane, b);
                mma_16816<FP16_>(out[2 * pair], a, b[0], b[1]);
                mma_16816<FP16_>(out[2 * pair + 1], a, b[2], b[3]);
            }
        }
    }
    /* acc += x (16 x PART, rounded) times PART rows of a moving tile. */
    template <int COLUMNS>
    S2_DEVICE void accumulate(float (*acc)[4], const float (*x)[4], uint32_t tile, int part,
                              int first_column) const
    {
#pragma unroll
        for (int kk = 0; kk < PART / 16; ++kk) {
            const uint32_t a[4] = {pack2<FP16_>(x[2 * kk][0], x[2 * kk][1]),
                                   pack2<FP16_>(x[2 * kk][2], x[2 * kk][3]),
                                   pack2<FP16_>(x[2 * kk + 1][0], x[2 * kk + 1][1]),
                                   pack2<FP16_>(x[2 * kk + 1][2], x[2 * kk + 1][3])};
#pragma unroll
            for (int pair = 0; pair < COLUMNS / 16; ++pair) {
                uint32_t b[4];
                Tile::b_fragment_trans(tile, part * PART + kk * 16, first_column / 16 + pair, lane, b);
                mma_16816<FP16_>(acc[2 * pair], a, b[0], b[1]);
                mma_16816<FP16_>(acc[2 * pair + 1], a, b[2], b[3]);
            }
        }
    }
    template <int COLUMNS>
    S2_DEVICE void store(const float (*acc)[4], uint16_t *out, int64_t tok, bool on0, bool on1, float scale,
                         int first_column) const
    {
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; ++j) {
            const int column = first_column + j * 8;
            uint16_t *const to = out + column + (lane & 3) * 2;
            if (on0 && column < p.head_dim)
                *(uint32_t *)to = pack2<FP16_>(acc[j][0] * scale, acc[j][1] * scale);
            if (on1 && column < p.head_dim)
                *(uint32_t *)(to + 8 * tok) = pack2<FP16_>(acc[j][2] * scale, acc[j][3] * scale);
        }
    }
    S2_DEVICE bool element(int number, int row_in_tile, int in_block) const
    {
        return number < 0 ||
               (__ldg(p.bits + ((int64_t)number * 64 + row_in_tile) * p.mask_words + in_block / 32) >>
                    (in_block & 31) &
                1u);
    }

    /* ---------------- dK and dV of a column ---------------- */

    /* Whether row `row` of the step reads key number `key` of the column. */
    S2_DEVICE bool step_reads(const BwdColumn &column, const BwdSeq &seq, int at, const BwdStep &step,
                              int key, int row) const
    {
        const int sub = key >> p.shift, in_block = key & ((1 << p.shift) - 1);
        const int block = __ldg(p.blocks + column.blocks + sub);
        if (block < 0 || !(step.reads >> (4 * sub + row / 16) & 1u))
            return false;
        const int k_tok = (block << p.shift) + in_block;
        const int position = seq.pos + (int)(step.where & (BWD_LIMIT_STEPS - 1)) * 64 + row;
        if ((step.where >> 31) && ((p.causal && k_tok > position) || k_tok >= seq.k_tok))
            return false;
        return p.step_masks == nullptr ||
               element(__ldg(p.step_masks + (int64_t)at * (64 >> p.shift) + sub), row, in_block);
    }
    /* The weight of a score; *slope becomes the factor of a cap on its gradient. */
    S2_DEVICE float weigh(float score, float lse, float *slope) const
    {
        *slope = 1.f;
        if constexpr (CAPPED) {
            const float part = p.cap.part(score);
            *slope = Cap::slope_of_part(part);
            return exp2_fast(p.cap.of_part(part) - lse);
        }
        return exp2_fast(fmaf(score, p.scale_log2, -lse));
    }
    /* P^T and dS^T of a part replace the scores and dP^T. */
    S2_DEVICE void weigh_columns(const BwdColumn &column, const BwdSeq &seq, int at, const BwdStep &step,
                                 int part, bool masked)
    {
#pragma unroll
        for (int j = 0; j < PART / 8; ++j) {
            const int eight = part * (PART / 8) + j;
            const uint32_t from = stats + eight / 2 * 64 + (lane & 3) * 16 + eight % 2 * 8;
            float lse[2], delta[2];
            asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
                         : "=f"(lse[0]), "=f"(lse[1])
                         : "r"(from)
                         : "memory");
            asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];"
                         : "=f"(delta[0]), "=f"(delta[1])
                         : "r"(from + 256)
                         : "memory");
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                const int key = slab * 16 + (lane >> 2) + (x >> 1) * 8,
                          row = part * PART + j * 8 + (lane & 3) * 2 + (x & 1);
                const bool on = !masked || step_reads(column, seq, at, step, key, row);
                float slope;
                const float weight = on ? weigh(s[j][x], lse[x & 1], &slope) : 0.f;
                s[j][x] = weight;
                dp[j][x] = on ? weight * (dp[j][x] - delta[x & 1]) : 0.f;
                if (CAPPED && on)
                    dp[j][x] *= slope;
            }
        }
    }
    S2_DEVICE void load_step(const BwdSeq &seq, int row, int head) const
    {
        const int first = seq.pos - seq.q_off + row, n_q = seq.k_tok - seq.q_off;
        const auto query = [&](int r) { return first + r < n_q ? first + r : -1; };
        const int64_t place = seq.rows + (int64_t)head * seq.n_rows + row;
        load(moving[0], p.q, seq.q + head * p.q.head, query);
        load(moving[1], p.d_o, seq.d_o + head * p.d_o.head, query);
        if (threadIdx.x < 32) {
            const float *const from = (threadIdx.x < 16 ? p.lse2 : p.delta) + place + (threadIdx.x & 15) * 4;
            cp_async16(stats + threadIdx.x * 16, from, true);
        }
    }
    S2_DEVICE void run_column(const BwdColumn &column)
    {
        float dk[OWN / 8][4], dv[OWN / 8][4];
        const BwdSeq &seq = p.seqs[column.seq];
        const auto key_of = [&](int row) {
            const int block = __ldg(p.blocks + column.blocks + (row >> p.shift));
            const int k_tok = (block << p.shift) + (row & ((1 << p.shift) - 1));
            return block >= 0 && k_tok < seq.k_tok ? k_tok : -1;
        };
#pragma unroll
        for (int j = 0; j < OWN / 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                dk[j][x] = dv[j][x] = 0.f;
        if (column.n > 0) {
            load(fixed[0], p.k, seq.k + column.kv_head * p.k.head, key_of);
            load(fixed[1], p.v, seq.v + column.kv_head * p.v.head, key_of);
        }
        for (int at = 0; at < column.n; ++at) {
            const int entry = column.list + at / column.n_heads;
            const BwdStep step = p.steps[entry];
            const int head = column.kv_head * p.group +
                             (int)(step.where >> BWD_HEAD_SHIFT & (BWD_LIMIT_GROUP - 1)) +
                             at % column.n_heads;
            load_step(seq, (int)(step.where & (BWD_LIMIT_STEPS - 1)) * 64, head);
            wait_all();
#pragma unroll 1
            for (int part = 0; part < 64 / PART; ++part) {
                product(s, fixed[0], moving[0], part);
                product(dp, fixed[1], moving[1], part);
                weigh_columns(column, seq, entry, step, part, at < column.n_partial);
                accumulate<OWN>(dv, s, moving[1], part, column_begin);
                accumulate<OWN>(dk, dp, moving[0], part, column_begin);
            }
            __syncthreads();
        }
        const int row = slab * 16 + (lane >> 2), key0 = key_of(row), key1 = key_of(row + 8);
        const int64_t key = key0 < 0 ? 0 : key0;
        store<OWN>(dk, p.d_k.data + seq.d_k + column.kv_head * p.d_k.head + key * p.d_k.tok, p.d_k.tok,
                   key0 >= 0, key1 >= 0, p.scale, column_begin);
        store<OWN>(dv, p.d_v.data + seq.d_v + column.kv_head * p.d_v.head + key * p.d_v.tok, p.d_v.tok,
                   key0 >= 0, key1 >= 0, 1.f, column_begin);
    }

    /* ---------------- dQ of a tile ---------------- */

    S2_DEVICE bool tile_reads(const BwdTile &tile, const BwdSeq &seq, int n_pad, int key, int row) const
    {
        const int at = (key >> p.shift) - n_pad, in_block = key & ((1 << p.shift) - 1);
        if (at < 0)
            return false;
        const uint32_t word = __ldg(p.words + tile.list + at);
        const int k_tok = (int)((word >> BWD_BLOCK_SHIFT) << p.shift) + in_block;
        if (!(word >> (row / 16) & 1u))
            return false;
        if ((word & BWD_EDGE) && ((p.causal && k_tok > seq.pos + tile.row + row) || k_tok >= seq.k_tok))
            return false;
        return p.word_masks == nullptr || element(__ldg(p.word_masks + tile.list + at), row, in_block);
    }
    S2_DEVICE void weigh_tile(const BwdTile &tile, const BwdSeq &seq, int n_pad, int step, int part,
                              bool masked, const float *lse, const float *delta)
    {
#pragma unroll
        for (int j = 0; j < PART / 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                const int row = slab * 16 + (lane >> 2) + (x >> 1) * 8;
                const int key = step * 64 + part * PART + j * 8 + (lane & 3) * 2 + (x & 1);
                const bool on = !masked || tile_reads(tile, seq, n_pad, key, row);
                float slope;
                const float weight = on ? weigh(s[j][x], lse[x >> 1], &slope) : 0.f;
                dp[j][x] = on ? weight * (dp[j][x] - delta[x >> 1]) : 0.f;
                if (CAPPED && on)
                    dp[j][x] *= slope;
            }
    }
    S2_DEVICE void run_tile(const BwdTile &tile)
    {
        float dq[OWN / 8][4];
        const BwdSeq &seq = p.seqs[tile.seq];
        const int kv_head = tile.head / p.group, n_pad = tile.n_steps * (64 >> p.shift) - tile.n_entries;
        const int first = seq.pos - seq.q_off + tile.row, n_q = seq.k_tok - seq.q_off,
                  row = slab * 16 + (lane >> 2);
        const auto query = [&](int r) { return first + r < n_q ? first + r : -1; };
        const int64_t rows = seq.rows + (int64_t)tile.head * seq.n_rows + tile.row,
                      place = rows + row_place(row);
        const float lse[2] = {p.lse2[place], p.lse2[place + 2]},
                    delta[2] = {p.delta[place], p.delta[place + 2]};
#pragma unroll
        for (int j = 0; j < OWN / 8; ++j)
            dq[j][0] = dq[j][1] = dq[j][2] = dq[j][3] = 0.f;
        load(fixed[0], p.q, seq.q + tile.head * p.q.head, query);
        load(fixed[1], p.d_o, seq.d_o + tile.head * p.d_o.head, query);
        for (int step = 0; step < tile.n_steps; ++step) {
            const auto key_of = [&](int r) {
                const int at = ((step * 64 + r) >> p.shift) - n_pad;
                if (at < 0)
                    return -1;
                const uint32_t word = __ldg(p.words + tile.list + at);
                const int k_tok = (int)((word >> BWD_BLOCK_SHIFT) << p.shift) + (r & ((1 << p.shift) - 1));
                return k_tok < seq.k_tok ? k_tok : -1;
            };
            load(moving[0], p.k, seq.k + kv_head * p.k.head, key_of);
            load(moving[1], p.v, seq.v + kv_head * p.v.head, key_of);
            wait_all();
#pragma unroll 1
            for (int part = 0; part < 64 / PART; ++part) {
                product(s, fixed[0], moving[0], part);
                product(dp, fixed[1], moving[1], part);
                weigh_tile(tile, seq, n_pad, step, part, step < tile.n_masked, lse, delta);
                accumulate<OWN>(dq, dp, moving[0], part, column_begin);
            }
            __syncthreads();
        }
        cp_async_wait<0>();
        const int q_tok = first + row;
        store<OWN>(dq, p.d_q.data + seq.d_q + tile.head * p.d_q.head + q_tok * p.d_q.tok, p.d_q.tok,
                   q_tok >= 0 && q_tok < n_q, q_tok + 8 >= 0 && q_tok + 8 < n_q, p.scale, column_begin);
    }
};

template <int D, bool FP16, bool CAPPED>
__global__ void __launch_bounds__(Sm80Backward<D, FP16, CAPPED>::THREADS)
    bwd_sm80_columns(const Sm80BwdParams p)
{
    extern __shared__ __align__(128) uint8_t raw[];
    Sm80Backward<D, FP16, CAPPED> backward(p, (uint32_t)__cvta_generic_to_shared(raw));
    backward.run_column(p.columns[blockIdx.x]);
}
template <int D, bool FP16, bool CAPPED>
__global__ void __launch_bounds__(Sm80Backward<D, FP16, CAPPED>::THREADS)
    bwd_sm80_tiles(const Sm80BwdParams p)
{
    extern __shared__ __align__(128) uint8_t raw[];
    Sm80Backward<D, FP16, CAPPED> backward(p, (uint32_t)__cvta_generic_to_shared(raw));
    backward.run_tile(p.tiles[blockIdx.x]);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM80_CUH */
