/*
 * kernels/cuda/fwd_sm90.cuh - the forward on Hopper: gathered tiles, wgmma, one endless stream of steps.
 *
 * Grid    one thread block per SM, persistent; items are claimed in the plan's order.
 * Block   two consumer warpgroups of 64 query rows and one producer warpgroup whose warps have one job
 *         each: K (even 64-column chunks, and the entry words), K (odd chunks), V, scheduler and Q.
 * Step    KEYS keys against both warpgroups. They are GATHERED from KEYS / BLOCK sparse blocks: one copy
 *         {64 columns, BLOCK rows} each lands on whole swizzle atoms, so wgmma sees a dense operand
 *         whatever the block. The producer lanes work out the entries, ONE lane issues all copies:
 *         copies from divergent lanes serialise at about 100 clocks each.
 * Warp    16 rows, a slab: which rows read a block is one bit, uniform in the warp.
 * Shared  QUERY_BYTES (Q) + OUT_BYTES (O) + 2 STAGES KV_BYTES + STAGES * 32 + 512, at most 227 KiB.
 *
 * The first S = Q K^T of an item is issued together with the last O += P V of the one before, and its
 * epilogue runs under the other warpgroup's products. The row maximum is stale: it is raised only when
 * a row exceeds it by 2^8, so quads shuffle and O is rescaled a few times an item instead of every
 * step; P stays below 2^8, and fp32 sums and both storage types hold that.
 *
 * Limits: whole 16-row slabs decide except at the causal edge and the end of the keys; scale > 0.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_CUH
#define S2_KERNELS_CUDA_FWD_SM90_CUH

#include "kernels/cuda/fwd_list.h"
#include "kernels/cuda/sm90.cuh"
#include "kernels/cuda/mma.cuh"

#include <math_constants.h>

namespace s2
{

struct alignas(16) FwdParams {
    const CUtensorMap *maps;     /* [seq][4]: q, k, v, o; {d, token, head} */
    const s2_fwd_item *items;    /* in the order of execution */
    const s2_fwd_class *classes; /* NULL: lists */
    const uint32_t *lists;
    int32_t *counter; /* {claimed, finished}; zero before the first launch, resets itself */
    float *lse;
    int64_t lse_head;
    uint8_t *const *o; /* [seq] */
    int64_t o_tok_bytes, o_head_bytes;
    int32_t n_items;
    int32_t group; /* H / G */
    int32_t pack;  /* 2: each warpgroup takes 64 positions of its own query head */
    int32_t shift; /* log2 of the block */
    int32_t causal;
    float scale_log2;
};

template <int HEAD_DIM_, int BLOCK_, bool FP16_> struct FwdConfig {
    static constexpr int HEAD_DIM = HEAD_DIM_, BLOCK = BLOCK_;
    static constexpr bool FP16 = FP16_;
    /* 256: O takes 128 registers, so that S gets 32, and Q stays in shared memory. */
    static constexpr int KEYS = HEAD_DIM == 256 ? 64 : 128;
    static constexpr int STAGES = HEAD_DIM == 64 ? 4 : 2;
    static constexpr bool Q_IN_REGISTERS = HEAD_DIM <= 96 || (HEAD_DIM == 128 && BLOCK > 16);
    static constexpr bool EARLY_WAIT = HEAD_DIM == 256; /* else its registers do not suffice */
    static constexpr int CHUNKS = (HEAD_DIM + 63) / 64;
    static constexpr int OUT_CHUNKS = HEAD_DIM == 256 ? 1 : CHUNKS;
    static constexpr int SUBS = KEYS / BLOCK;
    static constexpr int QUERY_BYTES = 128 * CHUNKS * 128, OUT_BYTES = 128 * OUT_CHUNKS * 128;
    static constexpr int KV_BYTES = KEYS * CHUNKS * 128;
    static constexpr int WORDS_BYTES = (STAGES * SUBS * 4 + 15) / 16 * 16;
    static constexpr int SHARED_BYTES =
        QUERY_BYTES + OUT_BYTES + 2 * STAGES * KV_BYTES + WORDS_BYTES + 384 + 1024;
    static constexpr int K_WARPS = CHUNKS >= 2 ? 2 : 1;
    static constexpr int THREADS = 384;
    /* 64K registers in all; the loaders need more where a step has many blocks or chunks. */
    static constexpr bool BUSY_LOADER = HEAD_DIM == 64 || BLOCK == 16;
    static constexpr int REGISTERS_CONSUMER = BUSY_LOADER && HEAD_DIM < 256 ? 232 : 240;
    static constexpr int REGISTERS_PRODUCER = BUSY_LOADER && HEAD_DIM < 256 ? 40 : 24;
    static_assert(SHARED_BYTES <= 227 * 1024, "a thread block has 227 KiB");
    static_assert(KEYS % BLOCK == 0, "larger blocks are cut before they come here");
};

template <bool B> struct Bool {
    static constexpr bool value = B;
};

/* Finite, so that no difference of infinities exists anywhere; scaled maxima never come near. */
static constexpr float NO_MAXIMUM = -1e30f;

template <int STAGES> struct Ring {
    int stage = 0;
    uint32_t parity = 0;
    S2_DEVICE void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/*
 * ptxas hoists a wait above arithmetic that does not depend on it, which would end the overlap of the
 * exponentials with the product in flight. A volatile store that finite data never takes ties it.
 */
S2_DEVICE void order_after(float x, uint32_t scratch)
{
    asm volatile(
        "{\n .reg .pred p;\n setp.gt.f32 p, %0, 0f7F000000;\n @p st.volatile.shared.f32 [%1], %0;\n}\n" ::"f"(
            x),
        "r"(scratch)
        : "memory");
}

S2_DEVICE int4 load_shared4(uint32_t address)
{
    int4 x;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}
S2_DEVICE void store_shared4(uint32_t address, int4 x)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z),
                 "r"(x.w)
                 : "memory");
}

/* Where everything lies in shared memory. */
template <class T> struct FwdShared {
    uint32_t q, o, k, v, words, slots, scratch;
    uint32_t q_full, q_empty, slot_full, slot_empty, k_full, k_empty, v_full, v_empty, claim;
    S2_DEVICE explicit FwdShared(const void *raw)
    {
        q = (shared_address(raw) + 1023u) & ~1023u;
        o = q + T::QUERY_BYTES;
        k = o + T::OUT_BYTES;
        v = k + T::STAGES * T::KV_BYTES;
        words = v + T::STAGES * T::KV_BYTES;
        slots = words + T::WORDS_BYTES;
        scratch = slots + 2 * (uint32_t)sizeof(s2_fwd_item);
        q_full = scratch + 16;
        q_empty = q_full + 8;
        slot_full = q_empty + 8;
        slot_empty = slot_full + 16;
        claim = slot_empty + 16;
        k_full = claim + 8;
        k_empty = k_full + 8 * T::STAGES;
        v_full = k_empty + 8 * T::STAGES;
        v_empty = v_full + 8 * T::STAGES;
    }
    S2_DEVICE void init() const
    {
        constexpr int WARPS = 8; /* consumers arrive once per warp: warps also read the entry words */
        mbar_init(q_full, 1);
        mbar_init(q_empty, WARPS);
        mbar_init(claim, 1);
        for (int slot = 0; slot < 2; ++slot) {
            mbar_init(slot_full + 8 * slot, 1);
            mbar_init(slot_empty + 8 * slot, WARPS + T::K_WARPS + 1);
        }
        for (int stage = 0; stage < T::STAGES; ++stage) {
            mbar_init(k_full + 8 * stage, T::K_WARPS);
            mbar_init(k_empty + 8 * stage, WARPS);
            mbar_init(v_full + 8 * stage, 1);
            mbar_init(v_empty + 8 * stage, WARPS);
        }
        mbar_fence_init();
    }
};

/* The scheduler: one lane claims items, publishes them in two slots and loads Q. */
template <class T> S2_DEVICE void fwd_schedule(const FwdParams &p, const FwdShared<T> &sh)
{
    int index = blockIdx.x; /* the first item is static, the others are claimed */
    for (int turn = 0;; ++turn) {
        const uint32_t slot = turn & 1, parity = ((turn >> 1) & 1) ^ 1;
        const uint32_t at = sh.slots + slot * (uint32_t)sizeof(s2_fwd_item);
        const bool more = index < p.n_items;
        int4 a = make_int4(0, 0, 0, 0), b = a, c = a;
        if (more) {
            const int4 *const item = (const int4 *)(p.items + index);
            a = __ldg(item);
            b = __ldg(item + 1);
            c = __ldg(item + 2);
        }
        mbar_wait(sh.slot_empty + 8 * slot, parity);
        store_shared4(at, a);
        store_shared4(at + 16, b);
        store_shared4(at + 32, c);
        mbar_arrive(sh.slot_full + 8 * slot);
        if (turn == 0)
            asm volatile("griddepcontrol.wait;" ::: "memory");
        if (!more) {
            __threadfence();
            if (atomicAdd(p.counter + 1, 1) == (int)gridDim.x - 1) {
                p.counter[0] = 0;
                p.counter[1] = 0;
            }
            return;
        }
        const CUtensorMap *const map = p.maps + 4 * a.z;
        const int row = a.x - b.w;
        mbar_wait(sh.q_empty, (turn & 1) ^ 1);
        mbar_expect_tx(sh.q_full, T::QUERY_BYTES);
#pragma unroll 1
        for (int box = 0; box < 2 * T::CHUNKS; ++box) {
            const int half = box / T::CHUNKS;
            tma_load_3d(sh.q + box * 8192, map, sh.q_full, (box % T::CHUNKS) * 64,
                        row + (p.pack == 2 ? 0 : half * 64), a.y + (p.pack == 2 ? half : 0), L2_EVICT_FIRST);
        }
        /* Claimed only when the K loader is near the end of this item: claiming earlier spreads the
         * thread blocks over more heads at a time, and dense 32k reads seven times the DRAM bytes. */
        mbar_wait(sh.claim, turn & 1);
        index = gridDim.x + atomicAdd(p.counter, 1);
    }
}

/* A loader warp: `part` 0, 1 load K, 2 loads V. */
template <class T> S2_DEVICE void fwd_load(const FwdParams &p, const FwdShared<T> &sh, int part, int lane)
{
    const bool is_k = part < 2;
    const uint32_t tile0 = is_k ? sh.k : sh.v, full = is_k ? sh.k_full : sh.v_full,
                   empty = is_k ? sh.k_empty : sh.v_empty;
    Ring<T::STAGES> ring;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    for (int turn = 0;; ++turn) {
        const uint32_t slot = turn & 1, at = sh.slots + slot * (uint32_t)sizeof(s2_fwd_item);
        mbar_wait(sh.slot_full + 8 * slot, (turn >> 1) & 1);
        const int4 a = load_shared4(at), b = load_shared4(at + 16), c = load_shared4(at + 32);
        __syncwarp();
        if (lane == 0)
            mbar_arrive(sh.slot_empty + 8 * slot);
        if (a.w == 0)
            return;
        const int n_steps = a.w, n_pad = n_steps * T::SUBS - c.x;
        const uint32_t past_end = (uint32_t)((b.z + T::BLOCK - 1) / T::BLOCK) << S2_FWD_BLOCK_SHIFT;
        const int kv_head = a.y / p.group;
        const CUtensorMap *const map = p.maps + 4 * a.z + (is_k ? 1 : 2);
        s2_fwd_class as = {};
        s2_fwd_segments seg = {};
        if (p.classes != nullptr) {
            const int4 raw = __ldg((const int4 *)(p.classes + c.y));
            as = {raw.x, raw.y, raw.z, raw.w};
            seg = s2_fwd_segments_of(&as, p.shift, a.x, 128 / p.pack, b.w, b.z);
        }
#pragma unroll 1
        for (int step = 0; step < n_steps; ++step) {
            uint32_t word = 0;
            if (lane < T::SUBS) {
                const int s = step * T::SUBS + lane;
                if (s < n_pad) /* padding comes first: a block past the end reads as zeros, from nowhere */
                    word = past_end;
                else if (p.classes != nullptr)
                    word = s2_fwd_entry(&as, &seg, s - n_pad, p.shift, a.x, 8 / p.pack, b.z);
                else
                    word = __ldg(p.lists + c.y + s - n_pad);
            }
            mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);
            if (part == 0 && lane < T::SUBS)
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(sh.words + (ring.stage * T::SUBS + lane) * 4),
                             "r"(word)
                             : "memory");
            __syncwarp(); /* orders the lanes' words before lane 0's release, which a shuffle does not */
            int row[T::SUBS];
#pragma unroll
            for (int sub = 0; sub < T::SUBS; ++sub)
                row[sub] = (int)(__shfl_sync(0xffffffffu, word, sub) >> S2_FWD_BLOCK_SHIFT) * T::BLOCK;
            if (lane == 0) {
                const uint32_t bar = full + 8 * ring.stage, dst = tile0 + ring.stage * T::KV_BYTES;
                /* release: publishes the entry words too */
                mbar_expect_tx(bar, is_k ? T::KV_BYTES / T::K_WARPS : T::KV_BYTES);
#pragma unroll
                for (int chunk = 0; chunk < T::CHUNKS; ++chunk)
                    if (!is_k || chunk % T::K_WARPS == part)
#pragma unroll
                        for (int sub = 0; sub < T::SUBS; ++sub)
                            tma_load_3d(dst + chunk * T::KEYS * 128 + sub * T::BLOCK * 128, map, bar,
                                        chunk * 64, row[sub], kv_head, L2_EVICT_LAST);
            }
            __syncwarp();
            if (part == 0 && lane == 0 && step == max(0, n_steps - 2))
                mbar_arrive(sh.claim);
            ring.next();
        }
    }
}

/* A consumer warpgroup. All of its state is in registers; arrays are indexed by constants only. */
template <class T> struct FwdConsumer {
    static constexpr int D = T::HEAD_DIM, KEYS = T::KEYS, SUBS = T::SUBS, BLOCK = T::BLOCK;
    using MmaKeys = Wgmma<T::FP16, KEYS>;
    using MmaOut = Wgmma<T::FP16, D>;

    const FwdParams &p;
    const FwdShared<T> &sh;
    const int wg, warp, lane, slab, row_in_tile;
    const uint32_t fragment; /* ldmatrix and stmatrix address of this lane in a 64 x 64 chunk */
    float o[D / 2], s[KEYS / 2];
    uint32_t pa[KEYS / 4], qr[T::Q_IN_REGISTERS ? D / 4 : 1];
    float maximum[2], sum[2], alpha[2]; /* maximum: times scale_log2 */
    Ring<T::STAGES> kr, vr;             /* vr is one step behind */
    int accumulate;
    int pos, n_steps, n_masked, k_tok; /* of the item; the rest of it stays in its slot */

    S2_DEVICE FwdConsumer(const FwdParams &params, const FwdShared<T> &shared, int warpgroup, int thread)
        : p(params), sh(shared), wg(warpgroup), warp(thread >> 5), lane(thread & 31),
          slab(params.pack == 2 ? warp : warpgroup * 4 + warp), row_in_tile(slab * 16 + (lane >> 2)),
          fragment((uint32_t)(warp * 16 + (lane & 15)) * 128 + (lane >> 4) * 16), accumulate(0)
    {
    }

    S2_DEVICE uint32_t slot_at(int turn) const
    {
        return sh.slots + (turn & 1) * (uint32_t)sizeof(s2_fwd_item);
    }
    S2_DEVICE bool fetch(int turn)
    {
        mbar_wait(sh.slot_full + 8 * (turn & 1), (turn >> 1) & 1);
        const int4 a = load_shared4(slot_at(turn)), b = load_shared4(slot_at(turn) + 16);
        pos = a.x;
        n_steps = a.w;
        n_masked = b.x;
        k_tok = b.z;
        return n_steps != 0;
    }
    S2_DEVICE void take_q(int turn)
    {
        mbar_wait(sh.q_full, turn & 1);
        if constexpr (T::Q_IN_REGISTERS) {
#pragma unroll
            for (int kk = 0; kk < D / 16; ++kk)
                ldmatrix_x4(sh.q + wg * (T::CHUNKS * 8192) + (kk / 4) * 8192 +
                                swizzle128(fragment + (kk % 4) * 32),
                            qr + 4 * kk);
            __syncwarp();
            if (lane == 0)
                mbar_arrive(sh.q_empty);
        }
    }
    /* Q in shared memory is free once the last S of the item has been read out. */
    S2_DEVICE void free_q(bool now)
    {
        if constexpr (!T::Q_IN_REGISTERS) {
            __syncwarp();
            mbar_arrive_if(sh.q_empty, now && lane == 0);
        }
    }
    S2_DEVICE void issue_qk()
    {
        const uint32_t dq = desc_low(sh.q + wg * (T::CHUNKS * 8192), 16);
        const uint32_t dk = desc_low(sh.k, 16) + kr.stage * (T::KV_BYTES >> 4);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < D / 16; ++kk) {
            const uint64_t b = desc(dk + (((kk / 4) * (KEYS * 128) + (kk % 4) * 32) >> 4));
            if constexpr (T::Q_IN_REGISTERS)
                MmaKeys::template rs<0>(s, qr + 4 * kk, b, kk > 0);
            else
                MmaKeys::template ss<0>(s, desc(dq + (((kk / 4) * 8192 + (kk % 4) * 32) >> 4)), b, kk > 0);
        }
        wg_commit();
    }
    S2_DEVICE void issue_pv()
    {
        const uint32_t dv = desc_low(sh.v, KEYS * 128) + vr.stage * (T::KV_BYTES >> 4);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < KEYS / 16; ++kk)
            MmaOut::template rs<1>(o, pa + 4 * kk, desc(dv + (kk * 2048 >> 4)), kk > 0 ? 1 : accumulate);
        wg_commit();
        accumulate = 1;
    }
    S2_DEVICE void release(uint32_t empty, int stage)
    {
        __syncwarp();
        if (lane == 0)
            mbar_arrive(empty + 8 * stage);
    }
    /* No control flow around s[]: a branch makes ptxas copy the accumulator, and spill. */
    S2_DEVICE void mask()
    {
        const uint32_t words = sh.words + kr.stage * SUBS * 4;
        const int causal_row = p.causal ? pos + row_in_tile : k_tok;
#pragma unroll
        for (int sub = 0; sub < SUBS; ++sub) {
            uint32_t word;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(words + 4 * sub) : "memory");
            const bool on = (word >> slab) & 1u, edge = word & S2_FWD_EDGE;
            const int k_tok0 = (int)(word >> S2_FWD_BLOCK_SHIFT) * BLOCK + (lane & 3) * 2;
            const int limit0 = on ? (edge ? min(causal_row, k_tok - 1) - k_tok0 : BLOCK) : -1;
            const int limit1 = on ? (edge ? min(causal_row + 8, k_tok - 1) - k_tok0 : BLOCK) : -1;
#pragma unroll
            for (int j = 0; j < BLOCK / 8; ++j) {
                float *const x = s + sub * (BLOCK / 2) + j * 4;
                x[0] = j * 8 <= limit0 ? x[0] : -CUDART_INF_F;
                x[1] = j * 8 + 1 <= limit0 ? x[1] : -CUDART_INF_F;
                x[2] = j * 8 <= limit1 ? x[2] : -CUDART_INF_F;
                x[3] = j * 8 + 1 <= limit1 ? x[3] : -CUDART_INF_F;
            }
        }
    }
    /* Raise the maxima where a row exceeds the stale one by 2^8; alpha is what that costs the sums. */
    S2_DEVICE void raise_maximum()
    {
        float top[2], part[2][4]; /* four chains a row: one serial chain is 150 clocks longer */
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                part[r][j] = fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]);
#pragma unroll
        for (int j = 4; j < KEYS / 8; ++j)
#pragma unroll
            for (int r = 0; r < 2; ++r)
                part[r][j & 3] = fmaxf(part[r][j & 3], fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
#pragma unroll
        for (int r = 0; r < 2; ++r)
            top[r] = fmaxf(fmaxf(part[r][0], part[r][1]), fmaxf(part[r][2], part[r][3]));
        alpha[0] = alpha[1] = 1.f;
        const bool exceeds =
            fmaf(top[0], p.scale_log2, -maximum[0]) > 8.f || fmaf(top[1], p.scale_log2, -maximum[1]) > 8.f;
        if (!__any_sync(0xffffffffu, exceeds))
            return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 1));
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 2));
            const float scaled = fmaxf(top[r] * p.scale_log2, maximum[r]);
            const bool up = scaled - maximum[r] > 8.f;
            alpha[r] = up ? exp2_fast(maximum[r] - scaled) : 1.f;
            maximum[r] = up ? scaled : maximum[r];
        }
    }
    /* P of 16 columns. */
    S2_DEVICE void exponentials(int kk, float *row_sum)
    {
#pragma unroll
        for (int j = 2 * kk; j < 2 * kk + 2; ++j)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float a = exp2_fast(fmaf(s[4 * j + 2 * r], p.scale_log2, -maximum[r]));
                const float b = exp2_fast(fmaf(s[4 * j + 2 * r + 1], p.scale_log2, -maximum[r]));
                s[4 * j + 2 * r] = a;
                s[4 * j + 2 * r + 1] = b;
                row_sum[r] += a + b;
            }
    }
    S2_DEVICE void pack(int kk)
    {
#pragma unroll
        for (int word = 4 * kk; word < 4 * kk + 4; ++word)
            pa[word] = pack2<T::FP16>(s[2 * word], s[2 * word + 1]);
    }
    S2_DEVICE void finish_pv()
    {
        wg_wait<0>();
        wg_pin<D / 2>(o);
        release(sh.v_empty, vr.stage);
        vr.next();
    }
    /*
     * S to P. InFlight: an O += P V still runs; it is waited for half way through the
     * exponentials, when it has mostly finished, because packing overwrites its A operand.
     */
    template <class Masked, class InFlight> S2_DEVICE void softmax(Masked, InFlight)
    {
        if constexpr (Masked::value)
            mask();
        release(sh.k_empty, kr.stage); /* S is in registers, the entry words are read */
        kr.next();
        raise_maximum();
        float row_sum[2] = {0.f, 0.f};
        constexpr int HALF = KEYS / 32;
        if constexpr (InFlight::value && T::EARLY_WAIT)
            finish_pv();
#pragma unroll
        for (int kk = 0; kk < HALF; ++kk)
            exponentials(kk, row_sum);
        if constexpr (InFlight::value && !T::EARLY_WAIT) {
            order_after(row_sum[0] + row_sum[1], sh.scratch);
            finish_pv();
        }
#pragma unroll
        for (int kk = 0; kk < HALF; ++kk)
            pack(kk);
#pragma unroll
        for (int kk = HALF; kk < KEYS / 16; ++kk) {
            exponentials(kk, row_sum);
            pack(kk);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r)
            sum[r] = sum[r] * alpha[r] + row_sum[r];
    }
    S2_DEVICE void rescale()
    {
        if (!__any_sync(0xffffffffu, alpha[0] != 1.f || alpha[1] != 1.f))
            return;
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
            o[4 * j] *= alpha[0];
            o[4 * j + 1] *= alpha[0];
            o[4 * j + 2] *= alpha[1];
            o[4 * j + 3] *= alpha[1];
        }
    }
    S2_DEVICE void new_rows()
    {
        maximum[0] = maximum[1] = NO_MAXIMUM;
        sum[0] = sum[1] = 0.f;
    }
    /* One step: S of this one, O += P V of the one before. */
    template <class Masked> S2_DEVICE void step(Masked masked, bool is_last)
    {
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        issue_qk();
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        issue_pv();
        wg_wait<1>();
        wg_pin<KEYS / 2>(s);
        free_q(is_last);
        softmax(masked, Bool<true>{});
        rescale();
    }
    /* 1 / sum and the LSE of the item that is ending. */
    S2_DEVICE void finish_rows(int turn, float *inverse)
    {
        const int4 a = load_shared4(slot_at(turn)), b = load_shared4(slot_at(turn) + 16),
                   c = load_shared4(slot_at(turn) + 32);
        float *const lse = p.lse + p.lse_head * (a.y + (p.pack == 2 ? wg : 0)) + c.z;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float total = sum[r];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            inverse[r] = total > 0.f ? 1.f / total : 0.f;
            const int q_tok = a.x + row_in_tile + 8 * r - b.w;
            if ((lane & 3) == 0 && q_tok >= 0 && q_tok < b.z - b.w)
                lse[q_tok] = total > 0.f ? fmaf(maximum[r], LN_2, __logf(total)) : -CUDART_INF_F;
        }
    }
    /* O through shared memory; a warp stores its own 16 rows, which no other warp touches. */
    S2_DEVICE void store_out(int turn, const float *inverse)
    {
        const int4 a = load_shared4(slot_at(turn)), b = load_shared4(slot_at(turn) + 16);
        const int row0 = a.x - b.w + slab * 16, h = a.y + (p.pack == 2 ? wg : 0);
        const uint32_t buffer = sh.o + wg * (T::OUT_CHUNKS * 8192);
        const CUtensorMap *const map = p.maps + 4 * a.z + 3;
#pragma unroll
        for (int chunk = 0; chunk < T::CHUNKS; ++chunk) {
            const uint32_t at = buffer + (chunk % T::OUT_CHUNKS) * 8192;
            if (chunk % T::OUT_CHUNKS == 0) {
                if (lane == 0)
                    bulk_wait_read<0>();
                __syncwarp();
            }
#pragma unroll
            for (int piece = 0; piece < 4; ++piece) {
                const int j = chunk * 4 + piece; /* 16 columns */
                if (j < D / 16)
                    stmatrix_x4(at + swizzle128(fragment + piece * 32),
                                pack2<T::FP16>(o[8 * j] * inverse[0], o[8 * j + 1] * inverse[0]),
                                pack2<T::FP16>(o[8 * j + 2] * inverse[1], o[8 * j + 3] * inverse[1]),
                                pack2<T::FP16>(o[8 * j + 4] * inverse[0], o[8 * j + 5] * inverse[0]),
                                pack2<T::FP16>(o[8 * j + 6] * inverse[1], o[8 * j + 7] * inverse[1]));
            }
            fence_async_shared();
            __syncwarp();
            if (row0 >= 0) {
                if (lane == 0) {
                    tma_store_3d(map, at + warp * 2048, chunk * 64, row0, h);
                    bulk_commit();
                }
            } else {
                store_before_first(at, chunk, row0, h, a.z, b.z - b.w);
            }
        }
    }
    /* Slabs of an anchored tile that begin before the first query: a TMA store must not start there. */
    S2_DEVICE void store_before_first(uint32_t at, int chunk, int row0, int h, int seq, int q_tok)
    {
        constexpr int PIECES = D < 64 * T::CHUNKS ? 4 : 8;
        const int n_pieces = chunk == T::CHUNKS - 1 ? PIECES : 8;
#pragma unroll 1
        for (int at_piece = lane; at_piece < 16 * 8; at_piece += 32) {
            const int r = at_piece / 8, piece = at_piece % 8;
            const int4 x = load_shared4(at + swizzle128((uint32_t)(warp * 16 + r) * 128 + piece * 16));
            if (row0 + r >= 0 && row0 + r < q_tok && piece < n_pieces)
                *(int4 *)(p.o[seq] + (row0 + r) * p.o_tok_bytes + h * p.o_head_bytes + chunk * 128 +
                          piece * 16) = x;
        }
        __syncwarp();
    }

    S2_DEVICE void release_slot(int turn)
    {
        __syncwarp();
        if (lane == 0)
            mbar_arrive(sh.slot_empty + 8 * (turn & 1));
    }
    /* The last O += P V of item turn - 1 goes out together with the first S of item turn. */
    S2_DEVICE void change(int turn)
    {
        float inverse[2];
        take_q(turn);
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        issue_qk();
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        issue_pv();
        finish_rows(turn - 1, inverse);
        wg_wait<1>();
        wg_pin<KEYS / 2>(s);
        free_q(n_steps == 1);
        new_rows();
        softmax(Bool<true>{}, Bool<true>{});
        store_out(turn - 1, inverse);
        release_slot(turn - 1);
        accumulate = 0;
    }
    S2_DEVICE void finish(int turn)
    {
        float inverse[2];
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        issue_pv();
        finish_rows(turn, inverse);
        wg_wait<0>();
        wg_pin<D / 2>(o);
        release(sh.v_empty, vr.stage);
        store_out(turn, inverse);
    }
    S2_DEVICE void run()
    {
        if (!fetch(0))
            return;
        take_q(0);
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        issue_qk();
        wg_wait<0>();
        wg_pin<KEYS / 2>(s);
        free_q(n_steps == 1);
        new_rows();
        softmax(Bool<true>{}, Bool<false>{});
        for (int turn = 1;; ++turn) {
            int at = 1;
#pragma unroll 1
            for (; at < n_masked; ++at)
                step(Bool<true>{}, at == n_steps - 1);
#pragma unroll 1
            for (; at < n_steps; ++at)
                step(Bool<false>{}, at == n_steps - 1);
            if (!fetch(turn)) {
                finish(turn - 1);
                return;
            }
            change(turn);
        }
    }
};

template <class T>
__global__ void __launch_bounds__(T::THREADS, 1) fwd_sm90(const __grid_constant__ FwdParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const FwdShared<T> sh(raw);
    const int wg = threadIdx.x >> 7;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0)
        sh.init();
    __syncthreads();
    if (wg == 2) {
        registers_lower<T::REGISTERS_PRODUCER>();
        const int lane = threadIdx.x & 31, job = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if (job == 3) {
            if (lane == 0)
                fwd_schedule<T>(p, sh);
        } else if (job != 1 || T::K_WARPS == 2) {
            fwd_load<T>(p, sh, job, lane);
        }
    } else {
        registers_raise<T::REGISTERS_CONSUMER>();
        FwdConsumer<T> consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
        if (consumer.lane == 0)
            bulk_wait<0>();
    }
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM90_CUH */
