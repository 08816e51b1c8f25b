/*
 * kernels/cuda/bwd_sm90_dq.cuh - dQ of a tile of queries on Hopper.
 *
 * Grid    one thread block per SM, persistent; tiles are claimed in the plan's order.
 * Block   two consumer warpgroups of 64 rows; producer warps: scheduler with Q and dO, loader of K, of V.
 * Step    128 keys gathered from 128 / block sparse blocks. S = Q K^T, dP = dO V^T, dS = P (dP - delta) in
 *         registers, dQ += dS K. The next S is issued with the dQ of this step.
 * Shared  Q, dO: 128 rows each; STAGES of K and of V with 128 rows.
 *
 * Padding of the last step stands in front, among the steps with mask code.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_DQ_CUH
#define S2_KERNELS_CUDA_BWD_SM90_DQ_CUH

#include "kernels/cuda/bwd_sm90.cuh"

namespace s2
{

template <int HEAD_DIM_, bool FP16_, bool ELEMENTS_> struct DqConfig {
    static constexpr int HEAD_DIM = HEAD_DIM_, CHUNKS = (HEAD_DIM + 63) / 64;
    static constexpr bool FP16 = FP16_, ELEMENTS = ELEMENTS_;
    static constexpr int STAGES = CHUNKS == 1 ? 4 : 2;
    static constexpr int TILE_BYTES = 128 * CHUNKS * 128;
    static constexpr int LIMIT_SUBS = 8;
    static constexpr int WORD_BYTES = STAGES * LIMIT_SUBS * (ELEMENTS ? 8 : 4);
    static constexpr int SHARED_BYTES = (2 + 2 * STAGES) * TILE_BYTES + WORD_BYTES + 64 + 192 + 1024;
    static constexpr int THREADS = 384, REGISTERS_CONSUMER = ELEMENTS ? 232 : 240,
                         REGISTERS_PRODUCER = ELEMENTS ? 40 : 24;
    static_assert(SHARED_BYTES <= 227 * 1024, "a thread block has 227 KiB");
};

template <class T> struct DqShared {
    uint32_t q, d_o, k, v, words, slots;
    uint32_t q_full, q_empty, do_full, do_empty, slot_full, slot_empty, k_full, k_empty, v_full, v_empty;
    S2_DEVICE explicit DqShared(const void *raw)
    {
        q = (shared_address(raw) + 1023u) & ~1023u;
        d_o = q + T::TILE_BYTES;
        k = d_o + T::TILE_BYTES;
        v = k + T::STAGES * T::TILE_BYTES;
        words = v + T::STAGES * T::TILE_BYTES;
        slots = words + T::WORD_BYTES;
        q_full = slots + 2 * (uint32_t)sizeof(BwdTile);
        q_empty = q_full + 8;
        do_full = q_empty + 8;
        do_empty = do_full + 8;
        slot_full = do_empty + 8;
        slot_empty = slot_full + 16;
        k_full = slot_empty + 16;
        k_empty = k_full + 8 * T::STAGES;
        v_full = k_empty + 8 * T::STAGES;
        v_empty = v_full + 8 * T::STAGES;
    }
    S2_DEVICE void init() const
    {
        mbar_init(q_full, 1);
        mbar_init(q_empty, 8 * WARP_ARRIVALS);
        mbar_init(do_full, 1);
        mbar_init(do_empty, 8 * WARP_ARRIVALS);
        for (int slot = 0; slot < 2; ++slot) {
            mbar_init(slot_full + 8 * slot, 1);
            mbar_init(slot_empty + 8 * slot, (8 + 2) * WARP_ARRIVALS);
        }
        for (int stage = 0; stage < T::STAGES; ++stage) {
            mbar_init(k_full + 8 * stage, 32); /* every lane that may have written words arrives itself */
            mbar_init(k_empty + 8 * stage, 8 * WARP_ARRIVALS);
            mbar_init(v_full + 8 * stage, 1);
            mbar_init(v_empty + 8 * stage, 8 * WARP_ARRIVALS);
        }
        mbar_fence_init();
    }
    S2_DEVICE uint32_t slot_at(int turn) const
    {
        return slots + (turn & 1) * (uint32_t)sizeof(BwdTile);
    }
};

template <class T> S2_DEVICE bool dq_fetch(const DqShared<T> &sh, int turn, int4 *a, int4 *b)
{
    mbar_wait(sh.slot_full + 8 * (turn & 1), (turn >> 1) & 1);
    *a = load_shared4(sh.slot_at(turn));
    *b = load_shared4(sh.slot_at(turn) + 16);
    __syncwarp();
    if (WARP_ARRIVALS > 1 || (threadIdx.x & 31) == 0)
        mbar_arrive(sh.slot_empty + 8 * (turn & 1));
    return a->z >= 0;
}

/* Q or dO of a tile: [warpgroup][chunk][64 rows][128 bytes]. */
template <class T>
S2_DEVICE void dq_load_rows(uint32_t to, const CUtensorMap *map, uint32_t full, int q_tok, int head)
{
    mbar_expect_tx(full, T::TILE_BYTES);
#pragma unroll 1
    for (int box = 0; box < 2 * T::CHUNKS; ++box)
        tma_load_3d(to + box * 8192, map, full, box % T::CHUNKS * 64, q_tok + box / T::CHUNKS * 64, head,
                    L2_EVICT_FIRST);
}

template <class T> S2_DEVICE void dq_schedule(const BwdParams &p, const DqShared<T> &sh)
{
    int32_t *const counter = p.counter + 2;
    int index = atomicAdd(counter, 1);
    for (int turn = 0;; ++turn) {
        const bool more = index < p.n_tiles;
        int4 a = make_int4(0, 0, -1, 0), b = a;
        int next = 0;
        if (more) {
            const int4 *const tile = (const int4 *)(p.tiles + index);
            next = atomicAdd(counter, 1);
            a = __ldg(tile);
            b = __ldg(tile + 1);
        }
        mbar_wait(sh.slot_empty + 8 * (turn & 1), ((turn >> 1) & 1) ^ 1);
        store_shared4(sh.slot_at(turn), a);
        store_shared4(sh.slot_at(turn) + 16, b);
        mbar_arrive(sh.slot_full + 8 * (turn & 1));
        if (!more) {
            leave(counter);
            return;
        }
        const CUtensorMap *const maps = p.maps + 4 * b.z;
        const int q_tok = __ldg(&p.seqs[b.z].pos) - __ldg(&p.seqs[b.z].q_off) + a.x;
        mbar_wait(sh.q_empty, (turn & 1) ^ 1); /* earlier than dO: the last S is done before the last dP */
        dq_load_rows<T>(sh.q, maps, sh.q_full, q_tok, a.y);
        mbar_wait(sh.do_empty, (turn & 1) ^ 1);
        dq_load_rows<T>(sh.d_o, maps + 1, sh.do_full, q_tok, a.y);
        index = next;
    }
}

/* A loader warp: all lanes read the list, one issues the copies. */
template <class T> S2_DEVICE void dq_load(const BwdParams &p, const DqShared<T> &sh, bool is_k, int lane)
{
    const uint32_t tiles = is_k ? sh.k : sh.v, full = is_k ? sh.k_full : sh.v_full,
                   empty = is_k ? sh.k_empty : sh.v_empty;
    const int n_subs = 128 >> p.shift, rows = 1 << p.shift;
    Ring<T::STAGES> ring;
    int4 a, b;
    for (int turn = 0; dq_fetch(sh, turn, &a, &b); ++turn) {
        const int n_pad = a.z * n_subs - b.x, kv_head = a.y / p.group;
        const CUtensorMap *const map = p.maps + 4 * b.z + (is_k ? 2 : 3);
        const uint32_t past_end = (uint32_t)((__ldg(&p.seqs[b.z].k_tok) + rows - 1) >> p.shift)
                                  << BWD_BLOCK_SHIFT;
#pragma unroll 1
        for (int step = 0; step < a.z; ++step) {
            const int at = step * n_subs + lane - n_pad;
            uint32_t word = past_end;
            if (lane < n_subs && at >= 0)
                word = __ldg(p.words + b.y + at);
            mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);
            if (is_k && lane < n_subs) {
                const uint32_t to = sh.words + (ring.stage * T::LIMIT_SUBS + lane) * 4;
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
                if constexpr (T::ELEMENTS) {
                    const int number = at >= 0 ? __ldg(p.word_masks + b.y + at) : -1;
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + T::STAGES * T::LIMIT_SUBS * 4),
                                 "r"(number)
                                 : "memory");
                }
            }
            __syncwarp();
            if (lane == 0)
                mbar_expect_tx(full + 8 * ring.stage, T::TILE_BYTES);
            else if (is_k)
                mbar_arrive(full + 8 * ring.stage);
#pragma unroll 1
            for (int sub = 0; sub < n_subs; ++sub) {
                const int row = (int)(__shfl_sync(0xffffffffu, word, sub) >> BWD_BLOCK_SHIFT) * rows;
                if (lane == 0)
#pragma unroll
                    for (int chunk = 0; chunk < T::CHUNKS; ++chunk)
                        tma_load_3d(tiles + ring.stage * T::TILE_BYTES + chunk * 16384 + sub * rows * 128,
                                    map, full + 8 * ring.stage, chunk * 64, row, kv_head, L2_EVICT_LAST);
            }
            __syncwarp();
            ring.next();
        }
    }
}

template <class T> struct DqConsumer {
    static constexpr int D = T::HEAD_DIM;
    using Mma128 = Wgmma<T::FP16, 128>;
    using MmaD = Wgmma<T::FP16, D>;

    const BwdParams &p;
    const DqShared<T> &sh;
    const int wg, warp, lane, slab;
    float dq[D / 2], s[64], dp[64];
    uint32_t ds[32];
    Ring<T::STAGES> kr, vr;
    float lse0, lse1, delta0, delta1;
    int row, position; /* of this thread's first row: padded, and in the sequence */

    S2_DEVICE DqConsumer(const BwdParams &params, const DqShared<T> &shared, int warpgroup, int in_group)
        : p(params), sh(shared), wg(warpgroup), warp(in_group >> 5), lane(in_group & 31),
          slab(warpgroup * 4 + (in_group >> 5))
    {
    }
    S2_DEVICE void arrive(uint32_t bar) const
    {
        __syncwarp();
        mbar_warp_arrive(bar, lane);
    }
    S2_DEVICE void issue_s()
    {
        const uint32_t q = desc_low(sh.q + wg * T::CHUNKS * 8192, 16),
                       k = desc_low(sh.k + kr.stage * T::TILE_BYTES, 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk)
            Mma128::template ss<0>(s, desc(q + k_slice<64>(kk)), desc(k + k_slice<128>(kk)), kk > 0);
        wg_commit();
    }
    S2_DEVICE void issue_dp()
    {
        const uint32_t d_o = desc_low(sh.d_o + wg * T::CHUNKS * 8192, 16),
                       v = desc_low(sh.v + vr.stage * T::TILE_BYTES, 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk)
            Mma128::template ss<0>(dp, desc(d_o + k_slice<64>(kk)), desc(v + k_slice<128>(kk)), kk > 0);
        wg_commit();
    }
    S2_DEVICE void issue_dq(int stage)
    {
        const uint32_t k = desc_low(sh.k + stage * T::TILE_BYTES, 16384);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk)
            MmaD::template rs<1>(dq, ds + 4 * kk, desc(k + (kk * 2048 >> 4)), 1);
        wg_commit();
    }
    /* Which of 16 keys in 8 bytes of a row's mask; all of them where there is no mask. */
    S2_DEVICE uint32_t element_bits(int number, int row_in_tile, int in_block) const
    {
        if (number < 0)
            return 0xffffffffu;
        return __ldg(p.bits + ((int64_t)number * p.tile_rows + row_in_tile) * p.mask_words + in_block / 32) >>
               (in_block & 31);
    }
    /* Scores that the pattern excludes become -inf, 16 keys at a time: they lie in one block. */
    S2_DEVICE void mask(int stage, int k_tok)
    {
        const int in_tile = row % 128;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const uint32_t at = sh.words + (stage * T::LIMIT_SUBS + ((c * 16) >> p.shift)) * 4,
                           word = load_shared1(at);
            const int in_block = (c * 16) & ((1 << p.shift) - 1), column = (lane & 3) * 2;
            const int key = (int)((word >> BWD_BLOCK_SHIFT) << p.shift) + in_block + column;
            const bool on = word >> slab & 1u, edge = word & BWD_EDGE;
            /* keep column offset <= last */
            int last0 = 64, last1 = 64;
            if (edge) {
                last0 = p.causal ? position - key : k_tok - 1 - key;
                last1 = p.causal ? position + 8 - key : last0;
            }
            last0 = on ? last0 : -1;
            last1 = on ? last1 : -1;
            uint32_t bits0 = 0xffffffffu, bits1 = 0xffffffffu;
            if constexpr (T::ELEMENTS) {
                const int number = (int)load_shared1(at + T::STAGES * T::LIMIT_SUBS * 4);
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
    S2_DEVICE void exponentials()
    {
#pragma unroll
        for (int i = 0; i < 64; ++i)
            s[i] = exp2_fast(fmaf(s[i], p.scale_log2, (i & 2) ? -lse1 : -lse0));
    }
    S2_DEVICE void fragments()
    {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            const float delta = (i & 1) ? delta1 : delta0;
            ds[i] = pack2<T::FP16>(s[2 * i] * (dp[2 * i] - delta), s[2 * i + 1] * (dp[2 * i + 1] - delta));
        }
    }
    /* One step; its S was issued before. NEXT: there is another one. */
    template <bool MASK, bool NEXT> S2_DEVICE void step(int k_tok)
    {
        const int stage = kr.stage;
        if constexpr (MASK && T::ELEMENTS) /* while the registers of dP are free */
            mask(stage, k_tok);
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        issue_dp();
        if constexpr (MASK && !T::ELEMENTS)
            mask(stage, k_tok);
        exponentials();
        wg_wait<0>();
        wg_pin<64>(dp);
        __syncwarp();
        mbar_warp_arrive(sh.v_empty + 8 * vr.stage, lane);
        if constexpr (!NEXT)
            mbar_warp_arrive(sh.do_empty, lane);
        vr.next();
        fragments();
        issue_dq(stage);
        kr.next();
        if constexpr (NEXT) {
            mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
            issue_s();
            wg_wait<1>();
        } else {
            wg_wait<0>();
        }
        wg_pin<D / 2>(dq);
        arrive(sh.k_empty + 8 * stage);
        if constexpr (NEXT) { /* no product in flight over the edge of a loop */
            wg_wait<0>();
            wg_pin<64>(s);
        }
    }
    S2_DEVICE void steps(int n, int n_masked, int k_tok, uint32_t parity)
    {
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        issue_s();
        wg_wait<0>();
        wg_pin<64>(s);
        mbar_wait(sh.do_full, parity);
        int at = 0;
        const int masked = min(n_masked, n - 1);
#pragma unroll 1
        for (; at < masked; ++at)
            step<true, true>(k_tok);
#pragma unroll 1
        for (; at < n - 1; ++at)
            step<false, true>(k_tok);
        arrive(sh.q_empty);
        step<true, false>(k_tok);
    }
    S2_DEVICE void take_row(const BwdSeq &seq, int head, int tile_row)
    {
        row = tile_row + slab * 16 + (lane >> 2);
        position = seq.pos + row;
        const int64_t at = seq.rows + (int64_t)head * seq.n_rows + row_place(row);
        lse0 = p.lse2[at];
        lse1 = p.lse2[at + 2]; /* row + 8 is two places on */
        delta0 = p.delta[at];
        delta1 = p.delta[at + 2];
    }
    S2_DEVICE void store(int seq, int head)
    {
        const int q_off = p.seqs[seq].q_off, n_q = p.seqs[seq].k_tok - q_off, q_tok = position - q_off;
        uint16_t *const out = p.d_q.data + p.seqs[seq].d_q + head * p.d_q.head + q_tok * p.d_q.tok;
        store_fragment<T::FP16, D>(out, out + 8 * p.d_q.tok, q_tok >= 0 && q_tok < n_q,
                                   q_tok + 8 >= 0 && q_tok + 8 < n_q, dq, p.scale, lane);
    }
    S2_DEVICE void run()
    {
        int4 a, b;
        for (int turn = 0; dq_fetch(sh, turn, &a, &b); ++turn) {
            const int n = __shfl_sync(0xffffffffu, a.z, 0), n_masked = __shfl_sync(0xffffffffu, a.w, 0);
            const int k_tok = __ldg(&p.seqs[b.z].k_tok);
            take_row(p.seqs[b.z], a.y, a.x);
#pragma unroll
            for (int i = 0; i < D / 2; ++i)
                dq[i] = 0.f;
            mbar_wait(sh.q_full, turn & 1);
            if (n > 0) {
                steps(n, n_masked, k_tok, turn & 1);
            } else {
                mbar_wait(sh.do_full, turn & 1);
                arrive(sh.q_empty);
                arrive(sh.do_empty);
            }
            store(b.z, a.y);
        }
    }
};

template <class T> __global__ void __launch_bounds__(384, 1) bwd_sm90_dq(const __grid_constant__ BwdParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const DqShared<T> sh(raw);
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0); /* uniform for ptxas as well */
    if (threadIdx.x == 0)
        sh.init();
    __syncthreads();
    if (wg == 2) {
        registers_lower<T::REGISTERS_PRODUCER>();
        const int lane = threadIdx.x & 31, warp = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if (warp == 0) {
            if (lane == 0)
                dq_schedule(p, sh);
        } else if (warp < 3) {
            dq_load(p, sh, warp == 1, lane);
        }
    } else {
        registers_raise<T::REGISTERS_CONSUMER>();
        DqConsumer<T> consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
    }
    /* it may have overtaken the kernel before it; what comes after both must not */
    wait_before();
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM90_DQ_CUH */
