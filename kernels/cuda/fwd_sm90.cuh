/*
 * kernels/cuda/fwd_sm90.cuh - the forward on Hopper: gathered tiles, wgmma, one endless stream of steps.
 *
 * Grid    one thread block per SM, persistent; items are claimed in the plan's order.
 * Block   two consumer warpgroups of 64 query rows each and one producer warpgroup, whose warps have one job
 *         each: K (even 64-column chunks, and the entry words), K (odd chunks), V, scheduler and Q.
 * Step    of plan/steps.h. Whole: KEYS keys against both warpgroups, nothing compared. Half: each has KEYS /
 *         2 keys of its own, in its half of the same stage; keys that a row does not read are dropped. Keys
 *         are GATHERED from blocks of BLOCK: one copy {64 columns, BLOCK rows} each lands on whole swizzle
 *         atoms, so wgmma sees a dense operand whatever the block. The producer lanes find the blocks, but
 *         ONE lane issues all copies: copies from divergent lanes serialise at about 100 clocks each.
 * Warp    16 rows, a slab: whether it reads a block at all is one bit, uniform in the warp.
 * Shared  FwdConfig::SHARED_BYTES, at most 227 KiB: Q, O on its way out, STAGES of K and of V, and the rest
 *         of FwdShared.
 *
 * The first S = Q K^T of an item is issued together with the last O += P V of the one before, whose O is
 * stored under the second S.
 *
 * The row maximum is stale: it is raised only when a row exceeds it by 2^8, so quads shuffle and O is
 * rescaled a few times per item instead of every step. Whole steps, and from head dim 96 on all steps but an
 * item's first, do not check beforehand: they compute the exponentials, whose sums show an excess, and keep S
 * in registers to redo them. P stays below 2^13, which fp32 sums and both storage types hold. A warp that had to
 * redo is wary: it checks beforehand in the next steps of its item.
 *
 * What ptxas needs, or it serialises every wgmma or spills: S declared in the step that makes it, no branch
 * around its elements, and the warpgroup number from a shuffle, without which each wgmma moves its
 * descriptors into uniform registers.
 *
 * Caps and sinks are separate instances, so that the others pay nothing.
 *
 * EIGHT_BITS: Q, K and V in e4m3; kernels/cuda/fwd_sm90_e4m3.cuh has the consumers.
 *
 * Limits: scale > 0.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_CUH
#define S2_KERNELS_CUDA_FWD_SM90_CUH

#include "kernels/cuda/sm90.cuh"
#include "kernels/cuda/cap.cuh"
#include "kernels/cuda/steps.cuh"

#include <math_constants.h>

namespace s2
{

struct alignas(16) FwdParams {
    const CUtensorMap *maps;   /* [seq][3]: q, k, v; {d, token, head} */
    const s2_step_item *items; /* in the order of execution */
    const s2_step_word *words; /* of half steps */
    const int32_t *list;       /* of whole steps */
    const uint32_t *bits;      /* element masks; NULL: none, since blocks and slabs decide everything */
    int32_t *counter;          /* {claimed, finished}; zero before the first launch, resets itself */
    float *lse;
    int64_t lse_head;
    uint8_t *const *o; /* [seq] */
    int64_t o_tok_bytes, o_head_bytes;
    int32_t n_items;
    int32_t group; /* H / G */
    int32_t pack;  /* 2: each warpgroup has 64 positions of its own query head */
    int32_t causal;
    int32_t head_dim;
    int32_t moved;     /* maps were written by an earlier launch, not before all launches */
    float scale_log2;  /* CAPPED: 1 */
    Cap cap;           /* CAPPED */
    const float *sink; /* SINKS: [head]; NULL: none. CAPPED accepts them too */
    /* EIGHT_BITS: */
    const float *q_scale, *k_scale, *v_scale; /* [head], [KV head], [KV head] */
    const uint8_t *const *panels;             /* [seq]: kernels/cuda/panels.cuh */
    const uint8_t *no_panel;                  /* a block of zeros */
};

/* Sinks join when an item is stored. A cap is a pass over S before it is masked. */
enum FwdExtra { PLAIN, SINKS, CAPPED };

template <int HEAD_DIM_, int BLOCK_, bool FP16_, FwdExtra EXTRA_, bool EIGHT_BITS_ = false> struct FwdConfig {
    static constexpr int HEAD_DIM = HEAD_DIM_, BLOCK = BLOCK_;
    static constexpr bool FP16 = FP16_; /* EIGHT_BITS: the output */
    static constexpr FwdExtra EXTRA = EXTRA_;
    static constexpr bool EIGHT_BITS = EIGHT_BITS_;
    /* 256: O needs 128 registers, so S gets 32, and Q stays in shared memory. */
    static constexpr int KEYS = HEAD_DIM == 256 ? 64 : 128;
    static constexpr int STAGES = EIGHT_BITS || HEAD_DIM == 64 ? 4 : 2;
    /* Registers hold either Q or, at 128, S until P is made from it; at 256 Q is too large. */
    static constexpr bool Q_IN_REGISTERS = HEAD_DIM < 128;
    static constexpr int QUERY_BUFFERS = HEAD_DIM == 128 ? 2 : 1;
    /* At 64 the loop of whole steps is slower when compared steps also compute the exponentials first. */
    static constexpr bool COMPARED_UNCHECKED = HEAD_DIM > 64;
    /* K is released only after the first exponentials, which lets them begin earlier. With blocks of 16 the
     * loader has no time to spare for that. */
    static constexpr bool LATE_RELEASE = HEAD_DIM == 64 || (HEAD_DIM == 128 && BLOCK > 16);
    /* The second warpgroup stays behind the first, unless they have a head each. In lockstep both want the
     * tensor cores at the same time, then the exponential unit; at 128 staggering loses what it gains. */
    static constexpr bool STAGGERED = HEAD_DIM == 64;
    /* Groups of 16 keys whose P is made while O += P V runs: more lose time at 64, fewer elsewhere. */
    static constexpr int EARLY = HEAD_DIM == 96 || HEAD_DIM == 128 ? 3 : KEYS / 32;
    /* A chunk is 128 bytes of each row of Q, K or V; O has chunks of 64 columns. */
    static constexpr int COLUMNS = EIGHT_BITS ? 128 : 64, CHUNKS = (HEAD_DIM + COLUMNS - 1) / COLUMNS;
    static constexpr int ALL_OUT_CHUNKS = (HEAD_DIM + 63) / 64;
    static constexpr int OUT_CHUNKS = HEAD_DIM >= 128 ? 1 : ALL_OUT_CHUNKS;
    /* A product takes 32 bytes of each row of Q and K. */
    static constexpr int ROW_PIECES = HEAD_DIM * 32 / (EIGHT_BITS ? 1024 : 512);
    /*
     * Powers of two. P is 2^P_LIFT where a score is the maximum, which e4m3 needs to reach down to small
     * weights, and a maximum is raised when it is exceeded by 2^LAG.
     */
    static constexpr float P_LIFT = EIGHT_BITS ? 6.f : 0.f, LAG = EIGHT_BITS ? 2.75f : 8.f;
    static constexpr int SUBS = KEYS / BLOCK, HALF_SUBS = SUBS / 2;
    static constexpr int QUERY_BYTES = 128 * CHUNKS * 128, OUT_BYTES = 128 * OUT_CHUNKS * 128;
    static constexpr int KV_BYTES = KEYS * CHUNKS * 128;
    static constexpr int WORDS_BYTES = (STAGES * SUBS * 8 + 15) / 16 * 16;
    static constexpr int LEFT_BYTES = 256 * 16, SMALL_BYTES = EIGHT_BITS ? 416 : 384, ALIGN_BYTES = 1024;
    static constexpr int SHARED_BYTES = QUERY_BUFFERS * QUERY_BYTES + OUT_BYTES + 2 * STAGES * KV_BYTES +
                                        WORDS_BYTES + LEFT_BYTES + SMALL_BYTES + ALIGN_BYTES;
    static constexpr int K_WARPS = CHUNKS >= 2 ? 2 : 1;
    static constexpr int THREADS = 384;
    static constexpr int REGISTERS_CONSUMER = 232, REGISTERS_PRODUCER = 40; /* 64K in all */
    static_assert(SHARED_BYTES <= 227 * 1024, "a thread block has 227 KiB");
    static_assert(KEYS % (2 * BLOCK) == 0, "larger blocks are cut before they come here");
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

/* Where everything is in shared memory. */
template <class T> struct FwdShared {
    uint32_t q, o, k, v, words, slots, left, scratch, scales;
    uint32_t q_full, q_empty, slot_full, slot_empty, k_full, k_empty, v_full, v_empty, claim, ahead;
    S2_DEVICE explicit FwdShared(const void *raw)
    {
        q = (shared_address(raw) + 1023u) & ~1023u;
        o = q + T::QUERY_BUFFERS * T::QUERY_BYTES;
        k = o + T::OUT_BYTES;
        v = k + T::STAGES * T::KV_BYTES;
        words = v + T::STAGES * T::KV_BYTES;
        slots = words + T::WORDS_BYTES;
        left = slots + 2 * (uint32_t)sizeof(s2_step_item);
        scratch = left + T::LEFT_BYTES;
        q_full = scratch + 16;
        q_empty = q_full + 8 * T::QUERY_BUFFERS;
        slot_full = q_empty + 8 * T::QUERY_BUFFERS;
        slot_empty = slot_full + 16;
        claim = slot_empty + 16;
        ahead = claim + 8;
        k_full = ahead + 16;
        k_empty = k_full + 8 * T::STAGES;
        v_full = k_empty + 8 * T::STAGES;
        v_empty = v_full + 8 * T::STAGES;
        scales = (v_empty + 8 * T::STAGES + 15u) & ~15u;
    }
    S2_DEVICE void init() const
    {
        /* consumers arrive once per warp: warps also read the entry words */
        constexpr int WARPS = 8, ARRIVALS = WARPS * WARP_ARRIVALS;
        mbar_init(claim, 1);
        for (int turn = 0; turn < 2; ++turn)
            mbar_init(ahead + 8 * turn, WARPS / 2); /* orders no accesses */
        for (int buffer = 0; buffer < T::QUERY_BUFFERS; ++buffer) {
            mbar_init(q_full + 8 * buffer, 1);
            mbar_init(q_empty + 8 * buffer, ARRIVALS);
        }
        for (int slot = 0; slot < 2; ++slot) {
            mbar_init(slot_full + 8 * slot, 1);
            mbar_init(slot_empty + 8 * slot, (WARPS + T::K_WARPS + 1) * WARP_ARRIVALS);
        }
        for (int stage = 0; stage < T::STAGES; ++stage) {
            mbar_init(k_full + 8 * stage, T::K_WARPS);
            mbar_init(k_empty + 8 * stage, ARRIVALS);
            mbar_init(v_full + 8 * stage, 1);
            mbar_init(v_empty + 8 * stage, ARRIVALS);
        }
        mbar_fence_init();
    }
};

/* EIGHT_BITS: for an item, what turns scores into exponents, for each of two heads, and the scale of V. */
S2_DEVICE int4 item_scales(const FwdParams &p, const ItemTile &tile)
{
    const int kv_head = tile.head / p.group;
    const float k = __ldg(p.k_scale + kv_head) * p.scale_log2;
    return make_int4(__float_as_int(k * __ldg(p.q_scale + tile.head)),
                     __float_as_int(k * __ldg(p.q_scale + tile.head + p.pack - 1)),
                     __float_as_int(__ldg(p.v_scale + kv_head)), 0);
}

/* The scheduler: one lane claims items, publishes them in two slots and loads Q. */
template <class T> S2_DEVICE void fwd_schedule(const FwdParams &p, const FwdShared<T> &sh)
{
    int index = blockIdx.x; /* the first item is static, the others are claimed */
    for (int turn = 0;; ++turn) {
        const uint32_t slot = turn & 1, parity = ((turn >> 1) & 1) ^ 1;
        const uint32_t at = sh.slots + slot * (uint32_t)sizeof(s2_step_item);
        const bool more = index < p.n_items;
        ItemTile tile = {0, 0, 0, 0};
        int q_off = 0;
        mbar_wait(sh.slot_empty + 8 * slot, parity);
        if (more) {
            const int4 *const item = (const int4 *)(p.items + index);
            const int4 first = __ldg(item), rows = __ldg(item + 1);
            const int4 lists = __ldg(item + 2), comb = __ldg(item + 3);
            tile = {first.x, first.y, first.z, first.w};
            q_off = rows.z;
            store_shared4(at + ITEM_WORD_AT<ItemRows>, rows);
            store_shared4(at + ITEM_WORD_AT<ItemLists>, lists);
            store_shared4(at + ITEM_WORD_AT<ItemComb>, comb);
        }
        store_shared4(at, make_int4(tile.pos, tile.head, tile.seq, tile.n_half));
        if constexpr (T::EIGHT_BITS) {
            if (turn == 0)
                asm volatile("griddepcontrol.wait;" ::: "memory");
            if (more)
                store_shared4(sh.scales + slot * 16, item_scales(p, tile));
        }
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
        const CUtensorMap *const map = p.maps + 3 * tile.seq;
        if (p.moved)
            fence_map(map);
        const int row = tile.pos - q_off;
        const uint32_t buffer = turn % T::QUERY_BUFFERS;
        mbar_wait(sh.q_empty + 8 * buffer, ((turn / T::QUERY_BUFFERS) & 1) ^ 1);
        mbar_expect_tx(sh.q_full + 8 * buffer, T::QUERY_BYTES);
#pragma unroll 1
        for (int box = 0; box < 2 * T::CHUNKS; ++box) {
            const int half = box / T::CHUNKS;
            tma_load_3d(sh.q + buffer * T::QUERY_BYTES + box * 8192, map, sh.q_full + 8 * buffer,
                        (box % T::CHUNKS) * T::COLUMNS, row + (p.pack == 2 ? 0 : half * 64),
                        tile.head + (p.pack == 2 ? half : 0), L2_EVICT_FIRST);
        }
        /* Claimed only when the K loader is near the end of this item: claiming earlier spreads the thread
         * blocks over more heads at a time, and dense 32k then reads seven times the DRAM bytes. */
        mbar_wait(sh.claim, turn & 1);
        index = gridDim.x + atomicAdd(p.counter, 1);
    }
}

/* Stores the entry words of a stage. Lane 0 stores all, since its arrival at the barrier orders them. */
template <class T> S2_DEVICE void publish(uint32_t words, int2 word, int lane)
{
#pragma unroll
    for (int sub = 0; sub < T::SUBS; ++sub) {
        const int x = __shfl_sync(0xffffffffu, word.x, sub), y = __shfl_sync(0xffffffffu, word.y, sub);
        if (lane == 0)
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(words + sub * 8), "r"(x), "r"(y)
                         : "memory");
    }
}

/* Lane 0 issues the copies of a stage. `part`: 0 and 1 load K, 2 loads V. */
template <class T>
S2_DEVICE void copy_stage(const CUtensorMap *map, uint32_t tile, uint32_t bar, const int (&row)[T::SUBS],
                          int kv_head, int part, bool narrow)
{
    constexpr int K_BYTES = T::KV_BYTES / T::K_WARPS;
    const bool is_k = part < 2;
    /* release: publishes the entry words too */
    mbar_expect_tx(bar, (is_k ? K_BYTES : T::KV_BYTES) >> (narrow ? 1 : 0));
#pragma unroll
    for (int chunk = 0; chunk < T::CHUNKS; ++chunk)
        if (!is_k || chunk % T::K_WARPS == part)
#pragma unroll
            for (int sub = 0; sub < T::SUBS; ++sub)
                if (sub < T::HALF_SUBS || !narrow)
                    tma_load_3d(tile + chunk * T::KEYS * 128 + sub * T::BLOCK * 128, map, bar,
                                chunk * T::COLUMNS, row[sub], kv_head, L2_EVICT_LAST);
}

/* The same of V in panels, whose blocks are back to back. */
template <class T>
S2_DEVICE void copy_panels(const FwdParams &p, uint32_t tile, uint32_t bar, const int (&row)[T::SUBS],
                           uint32_t item, int kv_head, bool narrow)
{
    constexpr int BLOCK_BYTES = T::BLOCK * T::HEAD_DIM;
    const int k_tok = load_item<ItemRows>(item).k_tok, n_blocks = (k_tok + T::BLOCK - 1) / T::BLOCK;
    const uint8_t *const panels =
        p.panels[load_item<ItemTile>(item).seq] + (size_t)kv_head * n_blocks * BLOCK_BYTES;
    mbar_expect_tx(bar, T::KV_BYTES >> (narrow ? 1 : 0));
#pragma unroll
    for (int sub = 0; sub < T::SUBS; ++sub)
        if (sub < T::HALF_SUBS || !narrow)
            bulk_load(tile + sub * BLOCK_BYTES,
                      row[sub] < k_tok ? panels + (size_t)row[sub] * T::HEAD_DIM : p.no_panel, BLOCK_BYTES,
                      bar, L2_EVICT_LAST);
}

/* A loader warp: all lanes find the blocks, one issues the copies. */
template <class T> S2_DEVICE void fwd_load(const FwdParams &p, const FwdShared<T> &sh, int part, int lane)
{
    const bool is_k = part < 2;
    const uint32_t tile0 = is_k ? sh.k : sh.v, full = is_k ? sh.k_full : sh.v_full,
                   empty = is_k ? sh.k_empty : sh.v_empty;
    Ring<T::STAGES> ring;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    for (int turn = 0;; ++turn) {
        const uint32_t slot = turn & 1, at = sh.slots + slot * (uint32_t)sizeof(s2_step_item);
        mbar_wait(sh.slot_full + 8 * slot, (turn >> 1) & 1);
        const ItemTile tile = load_item<ItemTile>(at);
        const int n_half = tile.n_half;
        if (n_half == 0)
            return;
        const int n_compared = n_half + load_item<ItemComb>(at).n_mixed(),
                  n_steps = n_compared + load_item<ItemRows>(at).n_whole, kv_head = tile.head / p.group;
        const CUtensorMap *const map = p.maps + 3 * tile.seq + (is_k ? 1 : 2);
        if (p.moved)
            fence_map(map);
#pragma unroll 1
        for (int step = 0; step < n_steps; ++step) {
            /* two heads with one list: their half steps are one and the same */
            const bool narrow = step < n_half && p.pack == 2;
            int block = 0;
            int2 word = make_int2(0, 0);
            if (lane < T::SUBS)
                block = find_block(p.words, p.list, at, n_compared, step, T::SUBS, lane, word);
            mbar_wait(empty + 8 * ring.stage, ring.parity ^ 1);
            if (part == 0 && step < n_compared)
                publish<T>(sh.words + ring.stage * T::SUBS * 8, word, lane);
            int row[T::SUBS];
#pragma unroll
            for (int sub = 0; sub < T::SUBS; ++sub)
                row[sub] = __shfl_sync(0xffffffffu, block, sub) * T::BLOCK;
            if (lane == 0) {
                if (T::EIGHT_BITS && !is_k)
                    copy_panels<T>(p, tile0 + ring.stage * T::KV_BYTES, full + 8 * ring.stage, row, at,
                                   kv_head, narrow);
                else
                    copy_stage<T>(map, tile0 + ring.stage * T::KV_BYTES, full + 8 * ring.stage, row, kv_head,
                                  part, narrow);
            }
            __syncwarp();
            if (part == 0 && lane == 0 && step == max(0, n_steps - 2))
                mbar_arrive(sh.claim);
            ring.next();
        }
        __syncwarp();
        if (lane_arrives(lane))
            mbar_arrive(sh.slot_empty + 8 * slot);
    }
}

enum Width { HALF, MIXED, WHOLE };
template <Width W> struct Of {
    static constexpr Width value = W;
};

/* n ones from bit 0 on, for any n: PTX clamps the distance of a shift. */
S2_DEVICE uint32_t ones(int n)
{
    uint32_t x;
    asm("shr.u32 %0, %1, %2;" : "=r"(x) : "r"(0xffffffffu), "r"(max(32 - n, 0)));
    return x;
}
/* A consumer warpgroup. All of its state is in registers; arrays are indexed by constants only. */
template <class T> struct FwdConsumer {
    static constexpr int D = T::HEAD_DIM, KEYS = T::KEYS, BLOCK = T::BLOCK;
    /* Steps that a warp stays wary after the last in which one of its rows exceeded its maximum. */
    static constexpr int WARY = 32;
    template <int N> using Mma = Wgmma<T::FP16, N>;

    const FwdParams &p;
    const FwdShared<T> &sh;
    const int wg, lane;
    const uint32_t own; /* 1: the keys of half steps are the second half of the stage */
    float o[D / 2];
    uint32_t pa[KEYS / 4], qr[T::Q_IN_REGISTERS ? 4 * T::ROW_PIECES : 1];
    float maximum[2], sum[2], alpha[2];             /* maximum: times scale_log2 */
    Ring<T::STAGES> kr, vr;                         /* vr is one step behind */
    enum { OLD = -1, EMPTY = 0, GROWING = 1 } o_is; /* OLD: of the item before, still to be stored */
    int pos, n_half, n_mixed, n_whole, k_tok;       /* of the item; the rest of it stays in its slot */
    uint32_t n_leads = 0;                           /* items so far in which the first warpgroup led */
    int wary;         /* of one warp and the item: steps left in which it looks for its maxima first */
    float item_scale; /* EIGHT_BITS: of the item */

    S2_DEVICE FwdConsumer(const FwdParams &params, const FwdShared<T> &shared, int warpgroup, int thread)
        : p(params), sh(shared), wg(warpgroup), lane(thread & 31), own(params.pack == 2 ? 0 : warpgroup),
          o_is(EMPTY)
    {
    }
    /* Read again wherever it is needed, which is rare: the loop is short of registers. */
    static S2_DEVICE int warp()
    {
        int thread;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        return thread >> 5 & 3;
    }
    S2_DEVICE int slab() const
    {
        return (int)own * 4 + warp();
    }
    /* ldmatrix and stmatrix address of this lane in a 64 x 64 chunk. */
    S2_DEVICE uint32_t fragment() const
    {
        return (uint32_t)(warp() * 16 + (lane & 15)) * 128 + (lane >> 4) * 16;
    }
    template <Width W> static constexpr int KEYS_OF = W == HALF ? KEYS / 2 : KEYS;
    S2_DEVICE uint32_t own_rows(Width width) const
    {
        return width == HALF ? own * ((KEYS / 2) * 128 >> 4) : 0;
    }

    S2_DEVICE uint32_t slot_at(int turn) const
    {
        return sh.slots + (turn & 1) * (uint32_t)sizeof(s2_step_item);
    }
    S2_DEVICE bool fetch(int turn)
    {
        mbar_wait(sh.slot_full + 8 * (turn & 1), (turn >> 1) & 1);
        const ItemTile tile = load_item<ItemTile>(slot_at(turn));
        const ItemRows rows = load_item<ItemRows>(slot_at(turn));
        pos = tile.pos;
        n_half = tile.n_half;
        n_whole = rows.n_whole;
        n_mixed = load_item<ItemComb>(slot_at(turn)).n_mixed();
        k_tok = rows.k_tok;
        if constexpr (T::EIGHT_BITS) {
            const int4 scales = load_shared4(sh.scales + (turn & 1) * 16);
            item_scale = __int_as_float(p.pack == 2 && wg == 1 ? scales.y : scales.x);
        }
        return n_half != 0;
    }
    S2_DEVICE void take_q(int turn)
    {
        mbar_wait(sh.q_full + 8 * (turn % T::QUERY_BUFFERS), turn / T::QUERY_BUFFERS & 1);
        if constexpr (T::Q_IN_REGISTERS) {
            const uint32_t at = fragment();
#pragma unroll
            for (int kk = 0; kk < T::ROW_PIECES; ++kk)
                ldmatrix_x4(sh.q + wg * (T::CHUNKS * 8192) + (kk / 4) * 8192 + swizzle128(at + (kk % 4) * 32),
                            qr + 4 * kk);
            __syncwarp();
            if (lane_arrives(lane))
                mbar_arrive(sh.q_empty);
        }
    }
    /* Q in shared memory is free once the last S of the item has been read out. */
    S2_DEVICE void free_q(int turn, bool now)
    {
        if constexpr (!T::Q_IN_REGISTERS) {
            __syncwarp();
            mbar_arrive_if(sh.q_empty + 8 * (turn % T::QUERY_BUFFERS), now && lane_arrives(lane));
        }
    }
    template <Width W> S2_DEVICE void issue_qk(Of<W>, int turn, float *s)
    {
        using Product = Mma<KEYS_OF<W>>;
        mbar_wait(sh.k_full + 8 * kr.stage, kr.parity);
        const uint32_t dq =
            desc_low(sh.q + (turn % T::QUERY_BUFFERS) * T::QUERY_BYTES + wg * (T::CHUNKS * 8192), 16);
        const uint32_t dk = desc_low(sh.k, 16) + kr.stage * (T::KV_BYTES >> 4) + own_rows(W);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < T::ROW_PIECES; ++kk) {
            const uint64_t b = desc(dk + (((kk / 4) * (KEYS * 128) + (kk % 4) * 32) >> 4));
            if constexpr (T::Q_IN_REGISTERS)
                Product::template rs<0>(s, qr + 4 * kk, b, kk > 0);
            else
                Product::template ss<0>(s, desc(dq + (((kk / 4) * 8192 + (kk % 4) * 32) >> 4)), b, kk > 0);
        }
        wg_commit();
    }
    template <Width W> S2_DEVICE void issue_pv(Of<W>)
    {
        mbar_wait(sh.v_full + 8 * vr.stage, vr.parity);
        const uint32_t dv = desc_low(sh.v, KEYS * 128) + vr.stage * (T::KV_BYTES >> 4) + own_rows(W);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < KEYS_OF<W> / 16; ++kk)
            Mma<D>::template rs<1>(o, pa + 4 * kk, desc(dv + (kk * 2048 >> 4)), kk > 0 || o_is == GROWING);
        wg_commit();
        o_is = GROWING;
    }
    S2_DEVICE void clear_out()
    {
#pragma unroll
        for (int j = 0; j < D / 2; ++j)
            o[j] = 0.f;
    }
    S2_DEVICE void release_v()
    {
        release(sh.v_empty, vr.stage);
        vr.next();
    }
    S2_DEVICE void release(uint32_t empty, int stage)
    {
        __syncwarp();
        if (lane_arrives(lane))
            mbar_arrive(empty + 8 * stage);
    }
    /* One bit per key of a step for each of this lane's two rows, the lane's first column at bit 0. */
    template <Width W> struct Bits {
        uint32_t of[2][KEYS_OF<W> / 32];
    };
    /* Computed while S is in flight. */
    template <Width W> S2_DEVICE Bits<W> read_bits() const
    {
        constexpr int SUBS = W == HALF ? T::HALF_SUBS : T::SUBS;
        const uint32_t words = sh.words + (kr.stage * T::SUBS + (W == HALF ? own * T::HALF_SUBS : 0)) * 8;
        const int own_slab = slab(), row = own_slab * 16 + (lane >> 2),
                  causal_row = p.causal ? pos + row : k_tok;
        Bits<W> bits = {};
#pragma unroll
        for (int sub = 0; sub < SUBS; ++sub) {
            uint32_t word;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(words + 8 * sub) : "memory");
            const bool on = (word >> own_slab) & 1u, edge = word & S2_STEP_EDGE;
            const int k_tok0 = (int)(word >> S2_STEP_BLOCK_SHIFT) * BLOCK;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int n = !on ? 0 : edge ? min(causal_row + 8 * r + 1, k_tok) - k_tok0 : BLOCK;
#pragma unroll
                for (int at = 0; at < BLOCK; at += 32)
                    bits.of[r][(sub * BLOCK + at) / 32] |= ones(min(n, BLOCK) - at)
                                                           << (sub * BLOCK + at) % 32;
            }
        }
        if (p.bits != nullptr)
            element_bits<SUBS>(words, row, &bits);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int word = 0; word < KEYS_OF<W> / 32; ++word)
                bits.of[r][word] >>= (lane & 3) * 2;
        return bits;
    }
    /* Loads the masks of patterns finer than slabs and blocks from memory. */
    template <int SUBS, class B> S2_DEVICE void element_bits(uint32_t words, int row, B *bits) const
    {
        constexpr int WORDS = (BLOCK + 31) / 32;
#pragma unroll
        for (int sub = 0; sub < SUBS; ++sub) {
            int mask;
            asm volatile("ld.shared.b32 %0, [%1];" : "=r"(mask) : "r"(words + 8 * sub + 4) : "memory");
            if (mask < 0)
                continue;
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
                for (int at = 0; at < BLOCK; at += 32) {
                    const int from = sub * BLOCK + at;
                    const uint32_t read =
                        __ldg(p.bits + (uint32_t)(mask * (128 / p.pack) + row + 8 * r) * WORDS + at / 32);
                    bits->of[r][from / 32] &=
                        BLOCK < 32 ? read << from % 32 | ~(((1u << BLOCK % 32) - 1) << from % 32) : read;
                }
        }
    }
    /* No control flow around s[]: a branch makes ptxas copy the accumulator and spill. */
    template <Width W> static S2_DEVICE void drop(const Bits<W> &bits, float *s)
    {
#pragma unroll
        for (int j = 0; j < KEYS_OF<W> / 8; ++j)
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[4 * j + x] =
                    bits.of[x / 2][j / 4] & (1u << (j % 4 * 8 + x % 2)) ? s[4 * j + x] : -CUDART_INF_F;
    }
    /* S as the softmax expects it; before drop(), since a cap makes minus infinity finite. */
    template <int N> S2_DEVICE void cap_scores(float *s) const
    {
        if constexpr (T::EXTRA == CAPPED)
#pragma unroll
            for (int x = 0; x < N / 2; ++x)
                s[x] = p.cap(s[x]);
    }
    template <int N> static S2_DEVICE void find_tops(const float *s, float *top)
    {
        float part[2][4]; /* four chains per row: one serial chain takes 150 clocks longer */
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int j = 0; j < 4; ++j)
                part[r][j] = fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]);
#pragma unroll
        for (int j = 4; j < N / 8; ++j)
#pragma unroll
            for (int r = 0; r < 2; ++r)
                part[r][j & 3] = fmaxf(part[r][j & 3], fmaxf(s[4 * j + 2 * r], s[4 * j + 2 * r + 1]));
#pragma unroll
        for (int r = 0; r < 2; ++r)
            top[r] = fmaxf(fmaxf(part[r][0], part[r][1]), fmaxf(part[r][2], part[r][3]));
    }
    S2_DEVICE float scale() const
    {
        return T::EIGHT_BITS ? item_scale : p.scale_log2;
    }
    /* Raise the maxima of rows that exceed the stale one by 2^lag; alpha is what that costs their sums. */
    S2_DEVICE void raise_maximum(float *top, float lag = T::LAG)
    {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 1));
            top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffffu, top[r], 2));
            const float peak = top[r] * scale(),
                        scaled = fmaxf(T::P_LIFT > 0.f ? peak - T::P_LIFT : peak, maximum[r]);
            const bool up = scaled - maximum[r] > lag;
            alpha[r] = up ? exp2_fast(maximum[r] - scaled) : 1.f;
            maximum[r] = up ? scaled : maximum[r];
        }
    }
    /* Whether the maxima of the warp may have been raised. */
    template <int N> S2_DEVICE bool check_maximum(const float *s)
    {
        float top[2];
        find_tops<N>(s, top);
        alpha[0] = alpha[1] = 1.f;
        const bool exceeds = fmaf(top[0], scale(), -maximum[0]) > T::LAG + T::P_LIFT ||
                             fmaf(top[1], scale(), -maximum[1]) > T::LAG + T::P_LIFT;
        const bool any = __any_sync(0xffffffffu, exceeds);
        if (any)
            raise_maximum(top);
        return any;
    }
    /* P of 16 columns; out may be s. */
    S2_DEVICE void exponentials(const float *s, float *out, float *row_sum) const
    {
#pragma unroll
        for (int j = 0; j < 8; j += 4)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int at = j + 2 * r;
                const float a = exp2_fast(fmaf(s[at], scale(), -maximum[r]));
                const float b = exp2_fast(fmaf(s[at + 1], scale(), -maximum[r]));
                out[at] = a;
                out[at + 1] = b;
                row_sum[r] += a + b;
            }
    }
    /* 16 columns as an operand. */
    static S2_DEVICE void pack(uint32_t *to, int kk, const float *piece)
    {
#pragma unroll
        for (int word = 0; word < 4; ++word)
            to[4 * kk + word] = pack2<T::FP16>(piece[2 * word], piece[2 * word + 1]);
    }
    S2_DEVICE void pack_exponentials(uint32_t *to, int kk, const float *s, float *row_sum) const
    {
        float piece[8];
        exponentials(s + 8 * kk, piece, row_sum);
        pack(to, kk, piece);
    }
    S2_DEVICE void finish_pv()
    {
        wg_wait<0>();
        wg_pin<D / 2>(o);
        release_v();
    }
    /*
     * Before an item's first step of KEYS keys the second warpgroup waits until the first has done its O += P
     * V in that step. Two barriers are enough: the first cannot reach the item after the next one, as its
     * slot is free only when both have stored this item.
     */
    S2_DEVICE void stagger()
    {
        if (wg == 1 && p.pack == 1)
            mbar_wait(sh.ahead + (n_leads & 1) * 8, n_leads >> 1 & 1);
        ++n_leads;
    }
    /* The barrier is that of the previous stagger(), whose turn is already counted. */
    S2_DEVICE void let_follow(bool leads) const
    {
        if constexpr (T::STAGGERED)
            mbar_arrive_if(sh.ahead + ((n_leads + 1) & 1) * 8, leads && wg == 0 && lane == 0 && p.pack == 1);
    }
    S2_DEVICE void release_k()
    {
        release(sh.k_empty, kr.stage); /* S is in registers, the entry words are read */
        kr.next();
    }
    S2_DEVICE void add_sums(const float *row_sum)
    {
#pragma unroll
        for (int r = 0; r < 2; ++r)
            sum[r] = sum[r] * alpha[r] + row_sum[r];
    }
    /*
     * S to P. InFlight: an O += P V still runs; it is waited for halfway through the exponentials, when it
     * has mostly finished, because packing overwrites its A operand.
     */
    template <Width W, class InFlight> S2_DEVICE void softmax(Of<W>, InFlight, float *s)
    {
        constexpr int N = KEYS_OF<W>, PIECES = N / 16, EARLY = PIECES / 2;
        release_k();
        check_maximum<N>(s);
        float row_sum[2] = {0.f, 0.f};
#pragma unroll
        for (int kk = 0; kk < EARLY; ++kk)
            exponentials(s + 8 * kk, s + 8 * kk, row_sum);
        if constexpr (InFlight::value) {
            order_after(row_sum[0] + row_sum[1], sh.scratch);
            finish_pv();
        }
#pragma unroll
        for (int kk = 0; kk < EARLY; ++kk)
            pack(pa, kk, s + 8 * kk);
#pragma unroll
        for (int kk = EARLY; kk < PIECES; ++kk)
            pack_exponentials(pa, kk, s, row_sum);
        add_sums(row_sum);
    }
    /*
     * The same with the maxima unchanged: when a lane's N / 4 values of a row average more than 2^8, one of
     * them exceeds 2^8, and all is redone and O is scaled. Below that sum, P fits both types. A warp that had
     * to do so is wary for some steps: it looks for its maxima first, which costs a tenth of doing all again, and
     * then no weight exceeds 2^8. Scores of a usual spread never make it so.
     */
    template <Width W, bool LOOKS>
    S2_DEVICE void softmax_unchecked(Of<W>, Bool<LOOKS>, const float *s, bool leads)
    {
        constexpr int N = KEYS_OF<W>, EARLY = W == HALF ? N / 32 : T::EARLY;
        float row_sum[2] = {0.f, 0.f}, early[EARLY * 8];
        if constexpr (!T::LATE_RELEASE)
            release_k();
        const bool looks = LOOKS && wary > 0;
        bool raised = false;
        alpha[0] = alpha[1] = 1.f;
        if (__builtin_expect(looks, 0))
            raised = check_maximum<N>(s);
#pragma unroll
        for (int kk = 0; kk < EARLY; ++kk)
            exponentials(s + 8 * kk, early + 8 * kk, row_sum);
        order_after(row_sum[0] + row_sum[1], sh.scratch);
        if constexpr (T::LATE_RELEASE)
            release_k();
        finish_pv();
        let_follow(leads);
#pragma unroll
        for (int kk = 0; kk < EARLY; ++kk)
            pack(pa, kk, early + 8 * kk);
#pragma unroll
        for (int kk = EARLY; kk < N / 16; ++kk)
            pack_exponentials(pa, kk, s, row_sum);
        if (__builtin_expect(looks, 0)) {
            wary = raised ? WARY : wary - 1;
            if (raised)
                scale_out();
        } else if (__any_sync(0xffffffffu, fmaxf(row_sum[0], row_sum[1]) > 256.f * (N / 4))) {
            redo<N>(s, [&] {
                row_sum[0] = row_sum[1] = 0.f;
#pragma unroll
                for (int kk = 0; kk < N / 16; ++kk)
                    pack_exponentials(pa, kk, s, row_sum);
            });
            wary = WARY;
        }
        add_sums(row_sum);
    }
    /* A maximum was exceeded: weigh() makes P once more, with maxima raised, and O follows. */
    template <int N, class Weigh> S2_DEVICE void redo(const float *s, Weigh weigh)
    {
        float top[2];
        find_tops<N>(s, top);
        raise_maximum(top);
        weigh();
        scale_out();
    }
    S2_DEVICE void scale_out()
    {
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
            o[4 * j] *= alpha[0];
            o[4 * j + 1] *= alpha[0];
            o[4 * j + 2] *= alpha[1];
            o[4 * j + 3] *= alpha[1];
        }
    }
    /* All that the bits of an item follow from begins anew: which items a thread block takes is chance. */
    S2_DEVICE void new_rows()
    {
        maximum[0] = maximum[1] = NO_MAXIMUM;
        sum[0] = sum[1] = 0.f;
        wary = 0;
    }
    /*
     * One step: S of this step, O += P V of the previous one. The first step of an item also stores, under
     * its S, what the previous item left in O: only the next O += P V waits for that.
     */
    template <Width W, Width Before>
    S2_DEVICE void step(Of<W> width, Of<Before> before, int turn, bool is_last, bool leads = false)
    {
        float s[KEYS_OF<W> / 2];
        Bits<W> bits = {};
        issue_qk(width, turn, s);
        if constexpr (Before == HALF)
            store_result(turn - 1);
        issue_pv(before);
        if constexpr (W != WHOLE)
            bits = read_bits<W>();
        wg_wait<1>();
        wg_pin<KEYS_OF<W> / 2>(s);
        free_q(turn, is_last);
        cap_scores<KEYS_OF<W>>(s);
        if constexpr (W != WHOLE)
            drop<W>(bits, s);
        if constexpr (W == WHOLE || T::COMPARED_UNCHECKED) {
            softmax_unchecked(width, Bool<(W == WHOLE && Before == WHOLE)>{}, s, leads);
        } else {
            let_follow(leads);
            softmax(width, Bool<true>{}, s);
            if (__any_sync(0xffffffffu, alpha[0] != 1.f || alpha[1] != 1.f))
                scale_out();
        }
    }
    /* An item whose O is about to be stored: its words, where its rows go, and its sums. */
    struct Result {
        ItemTile tile;
        ItemRows rows;
        uint8_t *out;
        float sum[2], maximum[2], inverse[2];
    };
    S2_DEVICE Result result_of(int turn) const
    {
        const int4 left = load_shared4(sums_at());
        Result e = {load_item<ItemTile>(slot_at(turn)), load_item<ItemRows>(slot_at(turn))};
        e.out = p.o[e.tile.seq];
        e.sum[0] = __int_as_float(left.x);
        e.sum[1] = __int_as_float(left.y);
        e.maximum[0] = __int_as_float(left.z);
        e.maximum[1] = __int_as_float(left.w);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            e.sum[r] += __shfl_xor_sync(0xffffffffu, e.sum[r], 1);
            e.sum[r] += __shfl_xor_sync(0xffffffffu, e.sum[r], 2);
            e.inverse[r] = e.sum[r] > 0.f ? __fdividef(1.f, e.sum[r]) : 0.f;
            if constexpr (T::EIGHT_BITS)
                e.inverse[r] *= __int_as_float(load_shared4(sh.scales + (turn & 1) * 16).z);
        }
        if constexpr (T::EXTRA != PLAIN)
            join_sink(e);
        return e;
    }
    /* Maxima are finite: in a row that read nothing the sum is 0, and only the sink is left. */
    S2_DEVICE void join_sink(Result &e) const
    {
        const float sink = p.sink != nullptr ? __ldg(p.sink + head_of(e)) * LOG2_E : -CUDART_INF_F;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float peak = fmaxf(e.maximum[r], sink), keep = exp2_fast(e.maximum[r] - peak);
            e.sum[r] = fmaf(e.sum[r], keep, exp2_fast(sink - peak));
            e.maximum[r] = peak;
            e.inverse[r] = e.sum[r] > 0.f ? __fdividef(keep, e.sum[r]) : 0.f;
        }
    }
    S2_DEVICE int head_of(const Result &e) const
    {
        return e.tile.head + (p.pack == 2 ? wg : 0);
    }
    S2_DEVICE void store_lse(const Result &e) const
    {
        const int row = e.tile.pos - e.rows.q_off + slab() * 16 + (lane >> 2);
        float *const lse = p.lse + p.lse_head * head_of(e) + e.rows.rows;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float value = e.sum[r] > 0.f ? fmaf(e.maximum[r], LN_2, __logf(e.sum[r])) : -CUDART_INF_F;
            if ((lane & 3) == 0 && row + 8 * r >= 0 && row + 8 * r < e.rows.k_tok - e.rows.q_off)
                lse[row + 8 * r] = value;
        }
    }
    /*
     * O goes through shared memory, so that whole rows are stored; no other warp touches a warp's 16 rows.
     * Plain stores: the copy engine would need a fence, and must not begin before the first query.
     */
    S2_DEVICE void store_out(const Result &e)
    {
        constexpr int PIECES = T::OUT_CHUNKS * 8, ROWS = 32 / PIECES; /* 16 bytes each, of a row */
        const int own_warp = warp(), piece = lane % PIECES,
                  row0 = e.tile.pos - e.rows.q_off + ((int)own * 4 + own_warp) * 16 + lane / PIECES;
        const uint32_t rows = sh.o + wg * (T::OUT_CHUNKS * 8192) + own_warp * 2048,
                       write_at = (lane & 15) * 128 + (lane >> 4) * 16,
                       read_at = lane / PIECES * 128 + piece % 8 * 16;
        uint8_t *const out = e.out + head_of(e) * p.o_head_bytes + row0 * p.o_tok_bytes + piece * 16;
#pragma unroll
        for (int first = 0; first < T::ALL_OUT_CHUNKS; first += T::OUT_CHUNKS) {
            __syncwarp();
#pragma unroll
            for (int j = first * 4; j < (first + T::OUT_CHUNKS) * 4 && j < D / 16; ++j) /* 16 columns */
                stmatrix_x4(rows + (j / 4 - first) * 8192 + swizzle128(write_at + j % 4 * 32),
                            pack2<T::FP16>(o[8 * j] * e.inverse[0], o[8 * j + 1] * e.inverse[0]),
                            pack2<T::FP16>(o[8 * j + 2] * e.inverse[1], o[8 * j + 3] * e.inverse[1]),
                            pack2<T::FP16>(o[8 * j + 4] * e.inverse[0], o[8 * j + 5] * e.inverse[0]),
                            pack2<T::FP16>(o[8 * j + 6] * e.inverse[1], o[8 * j + 7] * e.inverse[1]));
            __syncwarp();
            const bool in = first * 8 + piece < p.head_dim / 8;
#pragma unroll
            for (int r = 0; r < 16; r += ROWS) {
                const int4 x = load_shared4(rows + piece / 8 * 8192 + swizzle128(read_at + r * 128));
                if (in && row0 + r >= 0 && row0 + r < e.rows.k_tok - e.rows.q_off)
                    *(int4 *)(out + first * 128 + r * p.o_tok_bytes) = x;
            }
        }
    }

    S2_DEVICE void release_slot(int turn)
    {
        __syncwarp();
        if (lane_arrives(lane))
            mbar_arrive(sh.slot_empty + 8 * (turn & 1));
    }
    S2_DEVICE uint32_t sums_at() const
    {
        return sh.left + (wg * 128 + warp() * 32 + lane) * 16;
    }
    /* Set the sums of an item aside in shared memory, since registers are scarce; its O is stored later. */
    S2_DEVICE void set_sums_aside()
    {
        store_shared4(sums_at(), make_int4(__float_as_int(sum[0]), __float_as_int(sum[1]),
                                           __float_as_int(maximum[0]), __float_as_int(maximum[1])));
        o_is = OLD;
    }
    /* Store O and LSE of an item whose sums were set aside. */
    S2_DEVICE void store_result(int turn)
    {
        if (o_is != OLD)
            return;
        const Result e = result_of(turn);
        release_slot(turn);
        store_lse(e);
        store_out(e);
    }
    /* The first S of an item with nothing in flight. */
    S2_DEVICE void start(int turn)
    {
        float s[KEYS / 4];
        take_q(turn);
        issue_qk(Of<HALF>{}, turn, s);
        const Bits<HALF> bits = read_bits<HALF>();
        wg_wait<0>();
        wg_pin<KEYS / 4>(s);
        free_q(turn, n_half + n_mixed + n_whole == 1);
        cap_scores<KEYS / 2>(s);
        drop<HALF>(bits, s);
        new_rows();
        softmax(Of<HALF>{}, Bool<false>{}, s);
        o_is = EMPTY;
    }
    /* The last O += P V of item turn - 1 goes out together with the first S of item turn. */
    S2_DEVICE void start_behind(int turn)
    {
        float s[KEYS / 4];
        take_q(turn);
        issue_qk(Of<HALF>{}, turn, s);
        issue_pv(Of<WHOLE>{});
        const Bits<HALF> bits = read_bits<HALF>();
        set_sums_aside();
        new_rows();
        wg_wait<1>();
        wg_pin<KEYS / 4>(s);
        free_q(turn, n_half + n_mixed + n_whole == 1);
        cap_scores<KEYS / 2>(s);
        drop<HALF>(bits, s);
        softmax(Of<HALF>{}, Bool<true>{}, s);
    }
    template <Width W> S2_DEVICE void finish(int turn, Of<W> width)
    {
        store_result(turn - 1);
        issue_pv(width);
        finish_pv();
        set_sums_aside();
        store_result(turn);
    }
    /* The steps of an item after its first; false when none of them was whole. */
    S2_DEVICE bool go_through_steps(int turn)
    {
        const int n_steps = n_half + n_mixed + n_whole;
#pragma unroll 1
        for (int at = 1; at < n_half; ++at)
            step(Of<HALF>{}, Of<HALF>{}, turn, at == n_steps - 1);
        if (n_mixed + n_whole == 0)
            return false;
        if constexpr (T::STAGGERED)
            stagger();
        if (n_mixed > 0)
            step(Of<MIXED>{}, Of<HALF>{}, turn, n_whole == 0, true);
        else
            step(Of<WHOLE>{}, Of<HALF>{}, turn, n_whole == 1, true);
#pragma unroll 1
        for (int at = n_half + 1; at < n_steps; ++at)
            step(Of<WHOLE>{}, Of<WHOLE>{}, turn, at == n_steps - 1);
        return true;
    }
    /* Items without whole steps are rare (the first tiles of a sequence): the stream is cut after them. */
    S2_DEVICE void run()
    {
        for (int turn = 0; fetch(turn); ++turn) {
            start(turn);
            while (go_through_steps(turn)) {
                if (!fetch(++turn)) {
                    finish(turn - 1, Of<WHOLE>{});
                    return;
                }
                start_behind(turn);
            }
            finish(turn, Of<HALF>{});
        }
    }
};

template <class T> struct ConsumerOf {
    using Type = FwdConsumer<T>;
};

template <class T>
__global__ void __launch_bounds__(T::THREADS, 1) fwd_sm90(const __grid_constant__ FwdParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const FwdShared<T> sh(raw);
    const int wg =
        __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0); /* known to be uniform, hence so are descriptors */
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
        typename ConsumerOf<T>::Type consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
    }
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM90_CUH */
