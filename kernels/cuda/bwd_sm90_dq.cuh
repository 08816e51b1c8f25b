/*
 * kernels/cuda/bwd_sm90_dq.cuh - dQ of a tile of queries on Hopper.
 *
 * Grid    one thread block per SM, persistent; tiles are claimed in the plan's order.
 * Block   two consumer warpgroups of 64 rows; producer warps: scheduler with Q, dO, lse and delta; loader of
 *         K, of V.
 * Step    of plan/steps.h, its keys gathered from blocks. Whole: KEYS keys, 128 or above head dimension 128
 *         64, against both warpgroups, nothing compared. Half: each has half as many keys of its own, in its
 *         half of the same stage. S = Q K^T, dP = dO V^T, dS = P (dP - delta) in registers, dQ += dS K. The
 *         next S is issued with the dQ of this step, also across the end of a tile: every tile begins with a
 *         half step.
 * Shared  two tiles of Q, one of dO, 128 rows each, with lse and delta; STAGES of K and of V with KEYS rows.
 *         Above head dimension 128 one tile of Q and one stage of V, which is free again after dP.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_DQ_CUH
#define S2_KERNELS_CUDA_BWD_SM90_DQ_CUH

#include "kernels/cuda/bwd_sm90.cuh"
#include "kernels/cuda/steps.cuh"

namespace s2
{

template <int HEAD_DIM_, bool FP16_, bool ELEMENTS_> struct DqConfig {
    static constexpr int HEAD_DIM = HEAD_DIM_, CHUNKS = (HEAD_DIM + 63) / 64;
    static constexpr bool FP16 = FP16_, ELEMENTS = ELEMENTS_;
    static constexpr bool WIDE = CHUNKS > 2;
    static constexpr int KEYS = WIDE ? 64 : 128;
    static constexpr int STAGES = CHUNKS == 1 ? 4 : 2, V_STAGES = WIDE ? 1 : STAGES, Q_TILES = WIDE ? 1 : 2;
    static constexpr int TILE_BYTES = 128 * CHUNKS * 128, ROW_BYTES = 128 * 4;
    static constexpr int KEY_BYTES = KEYS * CHUNKS * 128;
    static constexpr int LIMIT_SUBS = 8;
    static constexpr int WORD_BYTES = STAGES * LIMIT_SUBS * 8;
    static constexpr int SHARED_BYTES = (Q_TILES + 1) * TILE_BYTES + (STAGES + V_STAGES) * KEY_BYTES +
                                        3 * ROW_BYTES + WORD_BYTES + 2 * (int)sizeof(s2_step_item) + 256 +
                                        1024;
    static constexpr int THREADS = 384, REGISTERS_CONSUMER = 232, REGISTERS_PRODUCER = 40;
    static_assert(SHARED_BYTES <= 227 * 1024, "a thread block has 227 KiB");
};

template <class T> struct DqShared {
    uint32_t q, d_o, k, v, lse2, delta, words, slots;
    uint32_t q_full, q_empty, do_full, do_empty, slot_full, slot_empty, k_full, k_empty, v_full, v_empty,
        claim;
    S2_DEVICE explicit DqShared(const void *raw)
    {
        q = (shared_address(raw) + 1023u) & ~1023u;
        d_o = q + T::Q_TILES * T::TILE_BYTES;
        k = d_o + T::TILE_BYTES;
        v = k + T::STAGES * T::KEY_BYTES;
        lse2 = v + T::V_STAGES * T::KEY_BYTES;
        delta = lse2 + 2 * T::ROW_BYTES;
        words = delta + T::ROW_BYTES;
        slots = words + T::WORD_BYTES;
        q_full = slots + 2 * (uint32_t)sizeof(s2_step_item);
        q_empty = q_full + 16;
        do_full = q_empty + 16;
        do_empty = do_full + 8;
        slot_full = do_empty + 8;
        slot_empty = slot_full + 16;
        k_full = slot_empty + 16;
        k_empty = k_full + 8 * T::STAGES;
        v_full = k_empty + 8 * T::STAGES;
        v_empty = v_full + 8 * T::V_STAGES;
        claim = v_empty + 8 * T::V_STAGES;
    }
    S2_DEVICE void init() const
    {
        mbar_init(do_full, 1);
        mbar_init(do_empty, 8 * WARP_ARRIVALS);
        mbar_init(claim, 1);
        for (int two = 0; two < 2; ++two) {
            mbar_init(q_full + 8 * two, 1);
            mbar_init(q_empty + 8 * two, 8 * WARP_ARRIVALS);
            mbar_init(slot_full + 8 * two, 1);
            mbar_init(slot_empty + 8 * two, (8 + 2) * WARP_ARRIVALS);
        }
        for (int stage = 0; stage < T::STAGES; ++stage) {
            mbar_init(k_full + 8 * stage, 32); /* every lane that may have written words arrives itself */
            mbar_init(k_empty + 8 * stage, 8 * WARP_ARRIVALS);
        }
        for (int stage = 0; stage < T::V_STAGES; ++stage) {
            mbar_init(v_full + 8 * stage, 1);
            mbar_init(v_empty + 8 * stage, 8 * WARP_ARRIVALS);
        }
        mbar_fence_init();
    }
    S2_DEVICE uint32_t slot_at(int turn) const
    {
        return slots + (turn & 1) * (uint32_t)sizeof(s2_step_item);
    }
    /* Where Q, with its lse, of a turn's tile is, and the parity of that turn there. */
    static S2_DEVICE int q_tile(int turn)
    {
        return T::Q_TILES == 2 ? turn & 1 : 0;
    }
    static S2_DEVICE uint32_t q_parity(int turn)
    {
        return (T::Q_TILES == 2 ? turn >> 1 : turn) & 1;
    }
};

/* The first word of a turn's item; waits until it is there. */
template <class T> S2_DEVICE ItemTile fetch_tile(const DqShared<T> &sh, int turn)
{
    const int4 x = fetch_slot(sh, turn);
    return ItemTile{x.x, x.y, x.z, x.w};
}

/* One lane claims tiles, publishes them and loads Q and dO. */
template <class T> S2_DEVICE void dq_schedule(const BwdParams &p, const DqShared<T> &sh)
{
    int32_t *const counter = p.counter + 2;
    int index = atomicAdd(counter, 1);
    for (int turn = 0;; ++turn) {
        const uint32_t at = sh.q_tile(turn), q_full = sh.q_full + 8 * at;
        const bool more = index < p.n_tiles;
        int4 a = make_int4(0, 0, 0, 0), b = a, c = a, d = a;
        if (more) {
            const int4 *const item = (const int4 *)(p.items + index);
            a = __ldg(item);
            b = __ldg(item + 1);
            c = __ldg(item + 2);
            d = __ldg(item + 3);
        }
        fill_slot(sh, turn, {a, b, c, d});
        mbar_arrive(sh.slot_full + 8 * (turn & 1));
        mbar_wait(sh.q_empty + 8 * at, sh.q_parity(turn) ^ 1);
        if (!more) {
            mbar_arrive(q_full); /* for the S that is issued with the last dQ of all */
            reset_when_last(counter);
            return;
        }
        const CUtensorMap *const maps = p.maps + 4 * a.z;
        if (p.moved) {
            fence_map(maps);
            fence_map(maps + 1);
        }
        const int q_tok = a.x - b.z;
        load_rows<T::CHUNKS, 128>(sh.q + at * T::TILE_BYTES, maps, q_full, q_tok, a.y, L2_EVICT_FIRST,
                                  sh.lse2 + at * T::ROW_BYTES, p.lse2 + b.w);
        mbar_wait(sh.do_empty, (turn & 1) ^ 1);
        load_rows<T::CHUNKS, 128>(sh.d_o, maps + 1, sh.do_full, q_tok, a.y, L2_EVICT_FIRST, sh.delta,
                                  p.delta + b.w);
        mbar_wait(sh.claim, turn & 1);
        index = atomicAdd(counter, 1);
    }
}

/* The loader of K also brings the words of a compared step, stored by the lanes that found them. */
S2_DEVICE void publish_word(uint32_t words, int2 word)
{
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(words), "r"(word.x), "r"(word.y) : "memory");
}

/* A loader warp: all lanes find the blocks, one issues the copies. */
template <class T, bool IS_K> S2_DEVICE void dq_load(const BwdParams &p, const DqShared<T> &sh, int lane)
{
    const uint32_t tiles = IS_K ? sh.k : sh.v, full = IS_K ? sh.k_full : sh.v_full,
                   empty = IS_K ? sh.k_empty : sh.v_empty;
    const int n_subs = T::KEYS >> p.shift, rows = 1 << p.shift;
    Ring<(IS_K ? T::STAGES : T::V_STAGES)> ring;
    ItemTile tile;
    int turn = 0;
    for (; (tile = fetch_tile(sh, turn)).n_half > 0; ++turn) {
        const uint32_t slot = sh.slot_at(turn);
        const int n_compared = tile.n_half + load_item<ItemComb>(slot).n_mixed(),
                  n_steps = n_compared + load_item<ItemRows>(slot).n_whole, kv_head = tile.head / p.group;
        const CUtensorMap *const map = p.maps + 4 * tile.seq + (IS_K ? 2 : 3);
        if (p.moved)
            fence_map(map);
#pragma unroll 1
        for (int step = 0; step < n_steps; ++step) {
            int block = 0;
            int2 word = make_int2(0, 0);
            if (lane < n_subs)
                block = find_block(p.words, p.list, slot, n_compared, step, n_subs, lane, word);
            mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);
            if (IS_K && step < n_compared && lane < n_subs)
                publish_word(sh.words + (ring.stage * T::LIMIT_SUBS + lane) * 8, word);
            __syncwarp();
            if (lane == 0)
                mbar_expect_tx(full + 8 * ring.stage, T::KEY_BYTES);
            else if (IS_K)
                mbar_arrive(full + 8 * ring.stage);
#pragma unroll 1
            for (int sub = 0; sub < n_subs; ++sub) {
                const int row = __shfl_sync(0xffffffffu, block, sub) * rows;
                if (lane == 0)
#pragma unroll
                    for (int chunk = 0; chunk < T::CHUNKS; ++chunk)
                        tma_load_3d(tiles + ring.stage * T::KEY_BYTES + chunk * T::KEYS * 128 +
                                        sub * rows * 128,
                                    map, full + 8 * ring.stage, chunk * 64, row, kv_head, L2_EVICT_LAST);
            }
            __syncwarp();
            /* near the end of the tile: tiles claimed earlier would wait here while other SMs idle */
            if (IS_K && lane == 0 && step == max(0, n_steps - 2))
                mbar_arrive(sh.claim);
            ring.next();
        }
        release_slot(sh, turn);
    }
    if (IS_K) { /* no keys: for the S that is issued with the last dQ of all */
        mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);
        mbar_arrive(full + 8 * ring.stage);
    }
}

enum Width { HALF, MIXED, WHOLE };

template <class T> struct DqConsumer : Consumer<DqShared<T>> {
    using Base = Consumer<DqShared<T>>;
    using Base::arrive, Base::lane, Base::p, Base::sh, Base::uniform, Base::wg;
    static constexpr int D = T::HEAD_DIM;
    template <Width W> static constexpr int KEYS_OF = W == HALF ? T::KEYS / 2 : T::KEYS;

    const int slab;
    float dq[D / 2], s[T::KEYS / 2], dp[T::KEYS / 2];
    uint32_t ds[T::KEYS / 4];
    Ring<T::STAGES> kr;
    Ring<T::V_STAGES> vr;
    float lse0, lse1, delta0, delta1;
    int edge0, edge8; /* the last key that the two rows of this lane may read */
    int64_t d_q;      /* of the sequence; not used before the end, since it comes from memory */

    S2_DEVICE DqConsumer(const BwdParams &params, const DqShared<T> &shared, int warpgroup, int in_group)
        : Base(params, shared, warpgroup, in_group), slab(warpgroup * 4 + (in_group >> 5))
    {
    }
    S2_DEVICE void arrive_if(uint32_t bar, bool on) const
    {
        mbar_arrive_if(bar, on && lane_arrives(lane));
    }
    S2_DEVICE void arrive_q(int turn, bool is_last) const
    {
        if constexpr (T::Q_TILES == 1)
            __syncwarp();
        arrive_if(sh.q_empty + 8 * sh.q_tile(turn), is_last);
    }
    /* In a half step each warpgroup has the rows of its own keys. */
    template <Width W> S2_DEVICE uint32_t own_rows() const
    {
        return W == HALF ? wg * (T::KEYS / 2 * 128) : 0;
    }
    /* The old contents of s and dP are dead, even where the previous step was wider. */
    template <Width W> S2_DEVICE void issue_s(int q_tile)
    {
        wg_fresh<KEYS_OF<W> / 2>(s);
        issue_rows_by_rows<T::FP16, D, KEYS_OF<W>, 64, T::KEYS>(
            s, desc_low(sh.q + q_tile * T::TILE_BYTES + wg * T::CHUNKS * 8192, 16),
            desc_low(sh.k + kr.stage * T::KEY_BYTES + own_rows<W>(), 16));
    }
    template <Width W> S2_DEVICE void issue_dp()
    {
        wg_fresh<KEYS_OF<W> / 2>(dp);
        issue_rows_by_rows<T::FP16, D, KEYS_OF<W>, 64, T::KEYS>(
            dp, desc_low(sh.d_o + wg * T::CHUNKS * 8192, 16),
            desc_low(sh.v + vr.stage * T::KEY_BYTES + own_rows<W>(), 16));
    }
    template <Width W> S2_DEVICE void issue_dq(int stage)
    {
        wg_fence();
        issue_fragments<T::FP16, D, KEYS_OF<W>>(
            dq, ds, desc_low(sh.k + stage * T::KEY_BYTES + own_rows<W>(), T::KEYS * 128));
    }
    /* The bits of a row's mask from key in_block of its block on; all ones where there is no mask. */
    S2_DEVICE uint32_t element_bits(int number, int row_in_tile, int in_block) const
    {
        if (number < 0)
            return 0xffffffffu;
        return __ldg(p.tile_bits + ((int64_t)number * p.tile_rows + row_in_tile) * p.mask_words +
                     in_block / 32) >>
               (in_block & 31);
    }
    /* Scores that the pattern excludes become -inf, 16 keys at a time: these are in one block. */
    template <Width W> S2_DEVICE void mask(int stage)
    {
        int in_tile = slab * 16 + (lane >> 2);
        if constexpr (T::WIDE && T::ELEMENTS) /* opaque, or ptxas keeps what follows from it, and spills */
            asm volatile("" : "+r"(in_tile));
        const int first = W == HALF ? wg * (T::KEYS / 2) : 0;
#pragma unroll
        for (int c = 0; c < KEYS_OF<W> / 16; ++c) {
            const uint32_t at = sh.words + (stage * T::LIMIT_SUBS + ((first + c * 16) >> p.shift)) * 8,
                           word = load_shared1(at);
            const int in_block = (c * 16) & ((1 << p.shift) - 1), column = (lane & 3) * 2;
            const int key = (int)((word >> S2_STEP_BLOCK_SHIFT) << p.shift) + in_block + column;
            const bool on = word >> slab & 1u, edge = word & S2_STEP_EDGE;
            /* keep column offset <= last */
            const int last0 = !on ? -1 : edge ? edge0 - key : 64, last1 = !on ? -1 : edge ? edge8 - key : 64;
            uint32_t bits0 = 0xffffffffu, bits1 = 0xffffffffu;
            if constexpr (T::ELEMENTS) {
                const int number = (int)load_shared1(at + 4);
                bits0 = element_bits(number, in_tile, in_block) >> column;
                bits1 = element_bits(number, in_tile + 8, in_block) >> column;
            }
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    float *const low = s + c * 8 + j * 4 + x, *const high = low + 2;
                    bool keep0 = j * 8 + x <= last0, keep1 = j * 8 + x <= last1;
                    if constexpr (T::ELEMENTS) {
                        keep0 = keep0 && (bits0 >> (j * 8 + x) & 1u);
                        keep1 = keep1 && (bits1 >> (j * 8 + x) & 1u);
                    }
                    *low = keep0 ? *low : -CUDART_INF_F;
                    *high = keep1 ? *high : -CUDART_INF_F;
                }
        }
    }
    template <Width W> S2_DEVICE void exponentials()
    {
#pragma unroll
        for (int i = 0; i < KEYS_OF<W> / 2; ++i)
            s[i] = exp2_fast(fmaf(s[i], p.scale_log2, (i & 2) ? -lse1 : -lse0));
    }
    template <Width W> S2_DEVICE void fragments()
    {
#pragma unroll
        for (int i = 0; i < KEYS_OF<W> / 4; ++i) {
            const float delta = (i & 1) ? delta1 : delta0;
            ds[i] = pack2<T::FP16>(s[2 * i] * (dp[2 * i] - delta), s[2 * i + 1] * (dp[2 * i + 1] - delta));
        }
    }
    /* One step; its S is already issued. The next S goes out with its dQ: after the last step, that of the
     * next tile. */
    template <Width W, Width NEXT> S2_DEVICE void step(int turn, bool is_last)
    {
        const int stage = kr.stage, after = turn + is_last;
        if constexpr (T::Q_TILES == 1) /* there is no other tile of Q to begin with meanwhile */
            arrive_q(turn, is_last);
        if constexpr (W != WHOLE && T::ELEMENTS) /* while the registers of dP are free */
            mask<W>(stage);
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        issue_dp<W>();
        if constexpr (W != WHOLE && !T::ELEMENTS)
            mask<W>(stage);
        exponentials<W>();
        wg_wait<0>();
        wg_pin<KEYS_OF<W> / 2>(dp);
        __syncwarp();
        mbar_warp_arrive(sh.v_empty + 8 * vr.stage, lane);
        if constexpr (T::Q_TILES == 2)
            arrive_q(turn, is_last);
        arrive_if(sh.do_empty, is_last);
        vr.next();
        fragments<W>();
        issue_dq<W>(stage);
        kr.next();
        mbar_wait(sh.q_full + 8 * sh.q_tile(after), sh.q_parity(after));
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        issue_s<NEXT>(sh.q_tile(after));
        wg_wait<1>();
        wg_pin<D / 2>(dq);
        arrive(sh.k_empty + 8 * stage);
        wg_wait<0>(); /* no product may be in flight across a loop's edge */
        wg_pin<KEYS_OF<NEXT> / 2>(s);
    }
    S2_DEVICE void steps(int turn, int n_half, int n_mixed, int n_whole)
    {
        const bool halves_only = n_mixed + n_whole == 0;
#pragma unroll 1
        for (int left = halves_only ? n_half : n_half - 1; left > 0; --left)
            step<HALF, HALF>(turn, halves_only && left == 1);
        if (halves_only)
            return;
        step<HALF, WHOLE>(turn, false);
        if (n_mixed > 0) {
            if (n_whole == 0) {
                step<MIXED, HALF>(turn, true);
                return;
            }
            step<MIXED, WHOLE>(turn, false);
        }
#pragma unroll 1
        for (int left = n_whole; left > 1; --left)
            step<WHOLE, WHOLE>(turn, false);
        step<WHOLE, HALF>(turn, true);
    }
    /* Reads what a tile needs of its rows; its first S is done. */
    S2_DEVICE void take_rows(int turn, const ItemTile &tile, const ItemRows &rows)
    {
        const int row = slab * 16 + (lane >> 2), position = tile.pos + row, place = row_place(row) * 4;
        lse0 = __uint_as_float(load_shared1(sh.lse2 + sh.q_tile(turn) * T::ROW_BYTES + place));
        lse1 =
            __uint_as_float(load_shared1(sh.lse2 + sh.q_tile(turn) * T::ROW_BYTES + place + 8)); /* row + 8 */
        edge0 = p.causal ? position : rows.k_tok - 1;
        edge8 = p.causal ? position + 8 : rows.k_tok - 1;
        d_q = __ldg((const long long *)&p.seqs[tile.seq].d_q);
#pragma unroll
        for (int i = 0; i < D / 2; ++i)
            dq[i] = 0.f;
        mbar_wait(sh.do_full, turn & 1);
        delta0 = __uint_as_float(load_shared1(sh.delta + place));
        delta1 = __uint_as_float(load_shared1(sh.delta + place + 8));
    }
    S2_DEVICE void store(int turn) const
    {
        const ItemTile tile = load_item<ItemTile>(sh.slot_at(turn));
        const ItemRows rows = load_item<ItemRows>(sh.slot_at(turn));
        const int q_tok = tile.pos - rows.q_off + slab * 16 + (lane >> 2), n_q = rows.k_tok - rows.q_off;
        uint16_t *const out = p.d_q.data + d_q + tile.head * p.d_q.head + q_tok * p.d_q.tok;
        store_fragment<T::FP16, D>(out, out + 8 * p.d_q.tok, q_tok >= 0 && q_tok < n_q,
                                   q_tok + 8 >= 0 && q_tok + 8 < n_q, dq, p.scale, p.head_dim, lane);
    }
    S2_DEVICE void run()
    {
        ItemTile tile = fetch_tile(sh, 0);
        if (tile.n_half == 0)
            return;
        mbar_wait(sh.q_full, 0);
        mbar_wait(sh.k_full, 0);
        issue_s<HALF>(0);
        wg_wait<0>();
        wg_pin<KEYS_OF<HALF> / 2>(s);
        for (int turn = 0;; ++turn) {
            const ItemRows rows = load_item<ItemRows>(sh.slot_at(turn));
            const int n_mixed = load_item<ItemComb>(sh.slot_at(turn)).n_mixed();
            take_rows(turn, tile, rows);
            steps(turn, uniform(tile.n_half), uniform(n_mixed), uniform(rows.n_whole));
            store(turn);
            release_slot(sh, turn);
            tile = fetch_tile(sh, turn + 1);
            if (tile.n_half == 0)
                return;
        }
    }
};

template <class T> __global__ void __launch_bounds__(384, 1) bwd_sm90_dq(const __grid_constant__ BwdParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const DqShared<T> sh(raw);
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0); /* known to ptxas to be uniform */
    if (threadIdx.x == 0)
        sh.init();
    __syncthreads();
    if (wg == 2) {
        registers_lower<T::REGISTERS_PRODUCER>();
        const int lane = threadIdx.x & 31, warp = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if (warp == 0) {
            if (lane == 0)
                dq_schedule(p, sh);
        } else if (warp == 1) {
            dq_load<T, true>(p, sh, lane);
        } else if (warp == 2) {
            dq_load<T, false>(p, sh, lane);
        }
    } else {
        registers_raise<T::REGISTERS_CONSUMER>();
        DqConsumer<T> consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
    }
    /* it may have overtaken the previous kernel; what comes after both must not */
    wait_before();
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM90_DQ_CUH */
