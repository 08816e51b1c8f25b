/*
 * kernels/cuda/bwd_sm90_dkv.cuh - dK and dV of a column of keys on Hopper; when fused, dQ as well.
 *
 * Wide    above head dimension 128 one set of registers holds either dV or dK, so that two launches make them,
 *         and S^T is computed in both.
 *
 * Grid    one thread block per SM, persistent; columns are claimed in the plan's order.
 * Block   two consumer warpgroups of 64 keys each; producer warps: scheduler with K and V, loader of
 *         Q, dO, lse and delta, and, fused, one reducer for each warpgroup.
 * Step    64 queries of one head. S^T = K Q^T and dP^T = V dO^T leave P^T and dS^T as A fragments in
 *         registers, so that dV += P^T dO and dK += dS^T Q need not go through shared memory. The next S^T is
 *         issued with the last products of this step.
 * Halves  a warpgroup skips a step that reads none of its keys; the plan puts such steps at the ends of the
 *         list, so that one warpgroup begins later and the other ends earlier.
 * Fused   dQ = dS K needs dS transposed: it goes through shared memory once, in two buffers; its product runs
 *         a step late, so that the warpgroups meet only at barriers in memory. Each makes 64 columns of dQ,
 *         which its reducer adds to a fp32 copy in memory. A turn of the loop begins with fragments: dV, dS
 *         to memory under it, dK, dQ of the step before, the next S^T, dQ to its reducer under that, dP^T,
 *         the next fragments.
 * Lag     fused, at head dimension 128: the second warpgroup begins a column once the first has its first
 *         weights, so that one multiplies while the other is at its exponentials.
 * Parts   of one column are summed through memory: in order, or in order of arrival when fused.
 * Order   fused in order: a tile of dQ is added when those of the columns claimed before are there
 *         (plan/transpose.h, turns), and parts are summed in order too, so that bits are always the same.
 * No hang Whoever waits for another thread block waits for a column that was claimed earlier. Columns are
 *         claimed one by one, by thread blocks that run, and each block finishes one before it begins the
 *         next. So the earliest unfinished column waits for nothing, however few blocks run at a time.
 * Shared  K, V: 128 rows each (V not for dV alone); STAGES of Q and dO with 64 rows (for dK alone one of dO,
 *         which is free again after dP^T); fused: dS 2 x 16 KB and dQ 64 rows in fp32.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_DKV_CUH
#define S2_KERNELS_CUDA_BWD_SM90_DKV_CUH

#include "kernels/cuda/bwd_sm90.cuh"

namespace s2
{

/* What a launch makes: dK and dV, these and dQ, or one alone. In order: at head dimension 128 alone. */
enum DkvWork { KEYS_AND_VALUES, WITH_QUERIES, WITH_QUERIES_IN_ORDER, VALUES_ALONE, KEYS_ALONE };

template <int HEAD_DIM_, bool FP16_, DkvWork WORK, bool ELEMENTS_> struct DkvConfig {
    static constexpr int HEAD_DIM = HEAD_DIM_, CHUNKS = (HEAD_DIM + 63) / 64;
    static constexpr bool FP16 = FP16_, IN_ORDER = WORK == WITH_QUERIES_IN_ORDER, ELEMENTS = ELEMENTS_;
    static constexpr bool FUSED = WORK == WITH_QUERIES || IN_ORDER;
    static constexpr bool LAG = FUSED && HEAD_DIM == 128;
    static constexpr bool WINDOWED = FUSED && HEAD_DIM == 128; /* narrower ones then have too few registers */
    static constexpr bool WITH_DK = WORK != VALUES_ALONE, WITH_DV = WORK != KEYS_ALONE;
    static constexpr int STAGES = CHUNKS > 2 ? 2 : FUSED &&CHUNKS == 2 ? 3 : 4;
    static constexpr int DO_STAGES = WORK == KEYS_ALONE ? 1 : STAGES;
    static constexpr int KV_BYTES = 128 * CHUNKS * 128, Q_BYTES = 64 * CHUNKS * 128;
    static constexpr int V_BYTES = WITH_DK ? KV_BYTES : 0;
    static constexpr int DQ_COLUMNS = CHUNKS * 32; /* of each warpgroup */
    static constexpr int DS_BYTES = FUSED ? 2 * 16384 : 0, DQ_BYTES = FUSED ? 64 * DQ_COLUMNS * 4 : 0;
    /* a column, its sequence, where its gradients go, and each warpgroup's share of it */
    static constexpr int SLOT_BYTES = FUSED ? 80 : 112;
    static constexpr int BARRIER_BYTES = 8 * (17 + 2 * STAGES + 2 * DO_STAGES);
    static constexpr int SHARED_BYTES = KV_BYTES + V_BYTES + (STAGES + DO_STAGES) * Q_BYTES + DS_BYTES +
                                        2 * DQ_BYTES + STAGES * 272 + DO_STAGES * 256 + 2 * SLOT_BYTES +
                                        BARRIER_BYTES + 1024;
    static constexpr int SLOT_READERS = FUSED ? 8 + 1 + 2 : 8 + 1;
    static constexpr int THREADS = 384, REGISTERS_CONSUMER = 232, REGISTERS_PRODUCER = 40;
    static_assert(HEAD_DIM <= 128 || WITH_DK != WITH_DV, "a warpgroup has registers for one of the two");
    static_assert(!FUSED || CHUNKS <= 2, "two warpgroups share the columns of dQ: at most 64 each");
    static_assert(DO_STAGES == STAGES || (DO_STAGES == 1 && STAGES == 2), "do_parity() takes its parity from "
                                                                          "the number of Q's stage");
    static_assert(SHARED_BYTES <= 227 * 1024, "a thread block has 227 KiB");
};

/* Where everything is in shared memory. */
template <class T> struct DkvShared {
    uint32_t k, v, q, d_o, ds, dq, lse2, delta, meta, slots;
    uint32_t k_full, k_empty, v_full, v_empty, slot_full, slot_empty, ds_full, ds_empty, dq_full, dq_empty;
    uint32_t q_full, q_empty, do_full, do_empty, claim;
    S2_DEVICE explicit DkvShared(const void *raw)
    {
        k = (shared_address(raw) + 1023u) & ~1023u;
        v = k + T::KV_BYTES;
        q = v + T::V_BYTES;
        d_o = q + T::STAGES * T::Q_BYTES;
        ds = d_o + T::DO_STAGES * T::Q_BYTES;
        dq = ds + T::DS_BYTES;
        lse2 = dq + 2 * T::DQ_BYTES;
        delta = lse2 + T::STAGES * 256;
        meta = delta + T::DO_STAGES * 256;
        slots = meta + T::STAGES * 16;
        k_full = slots + 2 * T::SLOT_BYTES;
        k_empty = k_full + 8;
        v_full = k_empty + 8;
        v_empty = v_full + 8;
        slot_full = v_empty + 8;
        slot_empty = slot_full + 16;
        ds_full = slot_empty + 16;
        ds_empty = ds_full + 16;
        dq_full = ds_empty + 16;
        dq_empty = dq_full + 16;
        q_full = dq_empty + 16;
        q_empty = q_full + 8 * T::STAGES;
        do_full = q_empty + 8 * T::STAGES;
        do_empty = do_full + 8 * T::DO_STAGES;
        claim = do_empty + 8 * T::DO_STAGES;
    }
    S2_DEVICE void init() const
    {
        mbar_init(k_full, 1);
        mbar_init(k_empty, 8 * WARP_ARRIVALS);
        mbar_init(v_full, 1);
        mbar_init(v_empty, 8 * WARP_ARRIVALS);
        mbar_init(claim, 1);
        for (int two = 0; two < 2; ++two) {
            mbar_init(slot_full + 8 * two, 1);
            mbar_init(slot_empty + 8 * two, T::SLOT_READERS * WARP_ARRIVALS);
            mbar_init(ds_full + 8 * two, 8 * WARP_ARRIVALS); /* both warpgroups write and read both buffers */
            mbar_init(ds_empty + 8 * two, 8 * WARP_ARRIVALS);
            mbar_init(dq_full + 8 * two, 4 * WARP_ARRIVALS); /* one staging buffer for each warpgroup */
            mbar_init(dq_empty + 8 * two, 1);
        }
        for (int stage = 0; stage < T::STAGES; ++stage) {
            mbar_init(q_full + 8 * stage, 1);
            mbar_init(q_empty + 8 * stage, 8 * WARP_ARRIVALS);
        }
        for (int stage = 0; stage < T::DO_STAGES; ++stage) {
            mbar_init(do_full + 8 * stage, 1);
            mbar_init(do_empty + 8 * stage, 8 * WARP_ARRIVALS);
        }
        mbar_fence_init();
    }
    S2_DEVICE uint32_t slot_at(int turn) const
    {
        return slots + (turn & 1) * T::SLOT_BYTES;
    }
    /* Where dO of a step is whose Q has this stage, and the parity of its turn there. */
    static S2_DEVICE int do_stage(int stage)
    {
        return T::DO_STAGES == T::STAGES ? stage : 0;
    }
    static S2_DEVICE uint32_t do_parity(int stage, uint32_t parity)
    {
        return T::DO_STAGES == T::STAGES ? parity : (uint32_t)stage;
    }
};

/* A sequence's first row among all, its rows a head, the query of row 0, and what edges compare with. */
S2_DEVICE int4 dkv_sequence(const BwdParams &p, const BwdSeq *seq)
{
    const int pos = __ldg(&seq->pos);
    return make_int4((int)__ldg((const long long *)&seq->rows), __ldg(&seq->n_rows), pos - __ldg(&seq->q_off),
                     p.causal ? pos : __ldg(&seq->k_tok) - 1);
}

/* K or V of a column, gathered block by block. */
template <class T>
S2_DEVICE void dkv_load_keys(const BwdParams &p, uint32_t to, const CUtensorMap *map, uint32_t full, int4 a,
                             int past_end)
{
    const int rows = 1 << p.shift;
    mbar_expect_tx(full, T::KV_BYTES);
#pragma unroll 1
    for (int sub = 0; sub < 128 >> p.shift; ++sub) {
        const int block = __ldg(p.blocks + a.x + sub), row = block < 0 ? past_end : block * rows;
#pragma unroll
        for (int chunk = 0; chunk < T::CHUNKS; ++chunk)
            tma_load_3d(to + chunk * 16384 + sub * rows * 128, map, full, chunk * 64, row, a.y,
                        L2_EVICT_FIRST);
    }
}

/* One lane claims columns, publishes them and loads K and V. */
template <class T> S2_DEVICE void dkv_schedule(const BwdParams &p, const DkvShared<T> &sh)
{
    int index = atomicAdd(p.counter, 1);
    for (int turn = 0;; ++turn) {
        const bool more = index < p.n_columns;
        int4 a = make_int4(0, 0, -1, 0), b = a, c = a, d = a, e = a;
        if (more) {
            const int4 *const column = (const int4 *)(p.columns + index);
            a = __ldg(column);
            b = __ldg(column + 1);
            c = __ldg(column + 2);
            d = dkv_sequence(p, p.seqs + b.w);
            e = __ldg((const int4 *)&p.seqs[b.w].d_k); /* and d_v */
            c.w = __ldg(&p.seqs[b.w].k_tok);
        }
        fill_slot(sh, turn, {a, b, c, d, e});
        if constexpr (!T::FUSED) {
            const int upper = c.y * c.x, lower = c.z * c.x;
            store_shared4(sh.slot_at(turn) + 80, make_int4(a.z - upper, a.w - upper, upper, 0));
            store_shared4(sh.slot_at(turn) + 96, make_int4(a.z - lower, a.w, 0, lower));
        }
        mbar_arrive(sh.slot_full + 8 * (turn & 1));
        if (!more) {
            reset_when_last(p.counter);
            return;
        }
        const CUtensorMap *const maps = p.maps + 4 * b.w;
        if (p.moved) {
            fence_map(maps + 2);
            fence_map(maps + 3);
        }
        mbar_wait(sh.k_empty, (turn & 1) ^ 1); /* earlier than V: the last S^T is done before the last dP^T */
        dkv_load_keys<T>(p, sh.k, maps + 2, sh.k_full, a, c.w);
        if constexpr (T::WITH_DK) {
            mbar_wait(sh.v_empty, (turn & 1) ^ 1);
            dkv_load_keys<T>(p, sh.v, maps + 3, sh.v_full, a, c.w);
        }
        /* Not before the last step of this column is loaded: a thread block that claimed earlier would hold
         * on to columns, and to parts that others wait for, while SMs idle. */
        mbar_wait(sh.claim, turn & 1);
        index = atomicAdd(p.counter, 1);
    }
}

/* One step into one stage: Q with lse, dO with delta. `at`: its first padded row among all heads. */
template <class T>
S2_DEVICE void dkv_load_step(const BwdParams &p, const DkvShared<T> &sh, const CUtensorMap *maps, int stage,
                             uint32_t parity, int4 meta, int at, int q_tok, int head)
{
    constexpr uint64_t NORMAL = 0x1000000000000000ull;
    const int do_stage = sh.do_stage(stage);
    const uint32_t q_full = sh.q_full + 8 * stage, do_full = sh.do_full + 8 * do_stage;
    mbar_wait(sh.q_empty + 8 * stage, parity ^ 1);
    store_shared4(sh.meta + 16 * stage, meta);
    load_rows<T::CHUNKS, 64>(sh.q + stage * T::Q_BYTES, maps, q_full, q_tok, head, NORMAL,
                             sh.lse2 + 256 * stage, p.lse2 + at);
    mbar_wait(sh.do_empty + 8 * do_stage, sh.do_parity(stage, parity) ^ 1);
    load_rows<T::CHUNKS, 64>(sh.d_o + do_stage * T::Q_BYTES, maps + 1, do_full, q_tok, head, NORMAL,
                             sh.delta + 256 * do_stage, p.delta + at);
}

/* The lane that loads queries; it leaves the sequence's numbers in the slot, since registers are scarce. */
template <class T>
S2_DEVICE void dkv_load_column(const BwdParams &p, const DkvShared<T> &sh, Ring<T::STAGES> &ring,
                               uint32_t slot, int n)
{
    const int4 b = load_shared4(slot + 16);
    const int n_heads = (int)load_shared1(slot + 32), end = b.x + n / n_heads;
    int2 ahead = n > 0 ? __ldg((const int2 *)(p.steps + b.x)) : make_int2(0, 0);
    if (p.moved) {
        fence_map(p.maps + 4 * b.w);
        fence_map(p.maps + 4 * b.w + 1);
    }
#pragma unroll 1
    for (int at = b.x; at < end; ++at) {
        const int2 step = ahead;
        if (at + 1 < end)
            ahead = __ldg((const int2 *)(p.steps + at + 1));
        const int row = (step.x & (BWD_LIMIT_STEPS - 1)) * 64;
        const int4 seq = load_shared4(slot + 48);
        const int4 meta = make_int4(step.x, step.y, at, p.causal ? seq.w + row : seq.w);
        int head = (int)load_shared1(slot + 4) * p.group + (step.x >> BWD_HEAD_SHIFT & (BWD_LIMIT_GROUP - 1));
#pragma unroll 1
        for (const int heads_end = head + n_heads; head < heads_end; ++head) {
            dkv_load_step(p, sh, p.maps + 4 * b.w, ring.stage, ring.parity, meta, seq.x + head * seq.y + row,
                          seq.z + row, head);
            ring.next();
        }
    }
    mbar_arrive(sh.claim);
}
template <class T> S2_DEVICE void dkv_load(const BwdParams &p, const DkvShared<T> &sh, int lane)
{
    Ring<T::STAGES> ring;
    int4 a;
    for (int turn = 0; (a = fetch_slot(sh, turn)).z >= 0; ++turn) {
        if (lane == 0)
            dkv_load_column(p, sh, ring, sh.slot_at(turn), a.z);
        release_slot(sh, turn);
    }
}

/* Fused: adds the tiles of dQ that a warpgroup stages to the fp32 copy in memory. */
template <class T> S2_DEVICE void dkv_reduce(const BwdParams &p, const DkvShared<T> &sh, int wg, int lane)
{
    uint32_t parity = 0;
    int4 a;
    for (int turn = 0; (a = fetch_slot(sh, turn)).z >= 0; ++turn) {
        const int4 b = load_shared4(sh.slot_at(turn) + 16), c = load_shared4(sh.slot_at(turn) + 32);
        release_slot(sh, turn);
        if (lane != 0)
            continue;
        const int64_t rows = p.seqs[b.w].rows;
        const int n_rows = p.seqs[b.w].n_rows, n = a.z / c.x;
        uint32_t ahead = n > 0 ? p.steps[b.x].where : 0;
#pragma unroll 1
        for (int at = 0; at < n; ++at) {
            const uint32_t where = ahead;
            if (at + 1 < n)
                ahead = p.steps[b.x + at + 1].where;
            const int head = a.y * p.group + (int)(where >> BWD_HEAD_SHIFT & (BWD_LIMIT_GROUP - 1));
#pragma unroll 1
            for (int h = 0; h < c.x; ++h) {
                const int64_t row =
                    rows + (int64_t)(head + h) * n_rows + (where & (BWD_LIMIT_STEPS - 1)) * 64;
                mbar_wait(sh.dq_full + 8 * wg, parity);
                parity ^= 1;
                bulk_add(p.dq_sum + (row * 2 + wg * 64) * T::DQ_COLUMNS, sh.dq + wg * T::DQ_BYTES,
                         T::DQ_BYTES);
                bulk_commit();
                bulk_wait_read<0>();
                mbar_arrive(sh.dq_empty + 8 * wg);
            }
        }
    }
    if (lane == 0)
        bulk_wait<0>();
}

/* ---- fused in order ---- */

/* A tile of dQ of this warpgroup's columns: its first row, and how many additions to it come before. */
struct Share {
    int row, turn;
};
S2_DEVICE int shares_added(const int32_t *count)
{
    int added;
    asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(added) : "l"(count) : "memory");
    return added;
}
/*
 * dkv_reduce() in order. While a tile is on its way, the turn of the next one is looked up. The first share of a
 * tile is stored: nobody need clear the sum, nor fetch it from memory. Every tile with a query has one, as each
 * query reads its own key.
 */
template <class T>
S2_DEVICE void dkv_reduce_in_order(const BwdParams &p, const DkvShared<T> &sh, int wg, int lane)
{
    uint32_t parity = 0;
    int4 a;
    for (int turn = 0; (a = fetch_slot(sh, turn)).z >= 0; ++turn) {
        const int4 b = load_shared4(sh.slot_at(turn) + 16);
        const int n_heads = (int)load_shared1(sh.slot_at(turn) + 32);
        release_slot(sh, turn);
        if (lane != 0 || a.z == 0)
            continue;
        const int n_rows = p.seqs[b.w].n_rows, first_row = (int)p.seqs[b.w].rows + a.y * p.group * n_rows;
        const auto share_of = [&](int at, int h) {
            const uint32_t where = __ldg(&p.steps[at].where);
            const int head = (int)(where >> BWD_HEAD_SHIFT & (BWD_LIMIT_GROUP - 1)) + h;
            return Share{first_row + head * n_rows + (int)(where & (BWD_LIMIT_STEPS - 1)) * 64,
                         __ldg(p.turns + at)};
        };
        Share share = share_of(b.x, 0);
        int32_t *count = p.shares + share.row / 64 * 2 + wg;
        int added = shares_added(count);
#pragma unroll 1
        for (int left = a.z, at = b.x, h = 0; left > 0; --left) {
            mbar_wait(sh.dq_full + 8 * wg, parity);
            parity ^= 1;
            while (added != share.turn)
                added = shares_added(count);
            fence_async_global(); /* what comes is the copy engine's, what was read is not */
            float *const sum = p.dq_sum + ((int64_t)share.row * 2 + wg * 64) * T::DQ_COLUMNS;
            if (share.turn == 0)
                bulk_store(sum, sh.dq + wg * T::DQ_BYTES, T::DQ_BYTES);
            else
                bulk_add(sum, sh.dq + wg * T::DQ_BYTES, T::DQ_BYTES);
            bulk_commit();
            int32_t *const done = count;
            const int next = share.turn + 1;
            if (++h == n_heads) {
                h = 0;
                ++at;
            }
            if (left > 1) {
                share = share_of(at, h);
                count = p.shares + share.row / 64 * 2 + wg;
                added = shares_added(count);
            }
            bulk_wait_read<0>();
            mbar_arrive(sh.dq_empty + 8 * wg);
            bulk_wait<0>();
            asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(done), "r"(next) : "memory");
        }
    }
}

/* A column as one warpgroup walks it: steps without its keys, then its own n, then again steps without. */
struct Steps {
    int lead, n;
    int most, least; /* its own steps need no mask while this many are left after the current one */
};

/* A consumer warpgroup. All of its state is in registers; arrays are indexed by constants only. */
template <class T> struct DkvConsumer : Consumer<DkvShared<T>> {
    using Base = Consumer<DkvShared<T>>;
    using Base::arrive, Base::lane, Base::p, Base::sh, Base::uniform, Base::warp, Base::wg;
    static constexpr int D = T::HEAD_DIM;
    static constexpr bool FUSED = T::FUSED, WITH_DK = T::WITH_DK, WITH_DV = T::WITH_DV;
    static constexpr int N_DK = WITH_DK ? D / 2 : 0, N_DV = WITH_DV ? D / 2 : 0;

    const int thread;
    float dk[N_DK + !WITH_DK], dv[N_DV + !WITH_DV], s[32], dp[32]; /* one of no use where there is none */
    uint32_t pa[16], ds[16];
    Ring<T::STAGES> ring;
    uint32_t ds_parity, dq_parity;
    int buffer;
    int key; /* of this thread's first row */

    S2_DEVICE DkvConsumer(const BwdParams &params, const DkvShared<T> &shared, int warpgroup, int in_group)
        : Base(params, shared, warpgroup, in_group), thread(in_group), ds_parity(0), dq_parity(1), buffer(0)
    {
    }
    S2_DEVICE void issue_s()
    {
        issue_rows_by_rows<T::FP16, D, 64, 128, 64>(s, desc_low(sh.k + wg * 8192, 16),
                                                    desc_low(sh.q + ring.stage * T::Q_BYTES, 16));
    }
    S2_DEVICE void issue_dp()
    {
        issue_rows_by_rows<T::FP16, D, 64, 128, 64>(
            dp, desc_low(sh.v + wg * 8192, 16), desc_low(sh.d_o + sh.do_stage(ring.stage) * T::Q_BYTES, 16));
    }
    S2_DEVICE void issue_dv(int stage)
    {
        wg_fence();
        issue_fragments<T::FP16, D, 64>(dv, pa, desc_low(sh.d_o + stage * T::Q_BYTES, 8192));
    }
    template <bool FENCE> S2_DEVICE void issue_dk(int stage)
    {
        if constexpr (FENCE)
            wg_fence();
        issue_fragments<T::FP16, D, 64>(dk, ds, desc_low(sh.q + stage * T::Q_BYTES, 8192));
    }
    /* Computes this warpgroup's columns of dQ, a chunk or half of one, from all 128 keys of the column. */
    S2_DEVICE void issue_dq(int from)
    {
        const uint32_t a = desc_low(sh.ds + from * 16384, 16),
                       k = desc_low(sh.k + wg * (T::CHUNKS == 2 ? 16384 : 64), 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk)
            Wgmma<T::FP16, T::DQ_COLUMNS>::template ss<1>(dp, desc(a + k_slice<64>(kk)),
                                                          desc(k + (kk * 2048 >> 4)), kk > 0);
        wg_commit();
    }
    /* Whether the query of a column reads a key whose own query has column `from`. */
    S2_DEVICE static bool reads(int column, int from, uint32_t window)
    {
        return T::WINDOWED ? (uint32_t)(column - from) < window : column >= from;
    }
    /* Scores that the pattern excludes become -inf: slabs, the edges or the end, element masks. */
    S2_DEVICE void mask(int stage)
    {
        const int4 meta = load_shared4(sh.meta + 16 * stage);
        int lane = Base::lane;
        if constexpr (FUSED && D == 128) /* read anew, or ptxas keeps what follows from it, and spills */
            asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
        const int sub = ((wg * 4 + warp) * 16) >> p.shift;
        const uint32_t slabs = (uint32_t)meta.y >> (4 * sub);
        /* keep column (or, without causality, 0) >= from */
        const int from = meta.x < 0 ? key - meta.w - (p.causal ? (lane & 3) * 2 : 0) : -1024,
                  from8 = from + 8;
        const uint32_t window = meta.x < 0 ? (uint32_t)p.window : 0x7fffffffu;
        int number = -1;
        const uint32_t *words = nullptr;
        if constexpr (T::ELEMENTS) {
            const int in_block = key & ((1 << p.shift) - 1);
            const int row = (meta.x & (BWD_LIMIT_STEPS - 1)) * 64 % p.tile_rows;
            number = __ldg(p.step_masks + (int64_t)meta.z * (128 >> p.shift) + sub);
            words =
                p.bits +
                ((int64_t)max(number, 0) * p.tile_rows + row % p.tile_rows + (lane & 3) * 2) * p.mask_words +
                in_block / 32;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const bool on = slabs >> (i / 2) & 1u;
            const int c = p.causal ? 8 * i : 0, c1 = p.causal ? c + 1 : 0;
            bool keep[4] = {on && reads(c, from, window), on && reads(c1, from, window),
                            on && reads(c, from8, window), on && reads(c1, from8, window)};
            if constexpr (T::ELEMENTS) {
                const int bit = key & 31 & ((1 << p.shift) - 1);
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    const uint32_t word =
                        number < 0 ? 0xffffffffu : __ldg(words + (8 * i + x) * p.mask_words);
                    keep[x] = keep[x] && (word >> bit & 1u);
                    keep[2 + x] = keep[2 + x] && (word >> bit >> 8 & 1u);
                }
            }
#pragma unroll
            for (int x = 0; x < 4; ++x)
                s[4 * i + x] = keep[x] ? s[4 * i + x] : -CUDART_INF_F;
        }
    }
    /* Reads lse or delta of 4 of this thread's 16 queries. */
    S2_DEVICE void read_rows4(uint32_t from, int k, float *x) const
    {
        load_shared4f(from + k * 64 + (lane & 3) * 16, x + 4 * k);
    }
    /* AHEAD: all 16, before waiting for the product that needs them; fused masks leave too few registers. */
    template <bool AHEAD> S2_DEVICE void read_rows(uint32_t from, float *x) const
    {
#pragma unroll
        for (int k = 0; AHEAD && k < 4; ++k)
            read_rows4(from, k, x);
    }
    /* s becomes P^T. AHEAD: lse in x has been loaded, and delta takes its place meanwhile. */
    template <bool AHEAD> S2_DEVICE void exponentials(int stage, float *x)
    {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if constexpr (!AHEAD)
                read_rows4(sh.lse2 + 256 * stage, k, x);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                s[8 * k + i] = exp2_fast(fmaf(s[8 * k + i], p.scale_log2, -x[4 * k + (i / 4) * 2 + (i & 1)]));
            if constexpr (AHEAD && WITH_DK)
                read_rows4(sh.delta + 256 * sh.do_stage(stage), k, x);
        }
    }
    /* P^T and dS^T in the storage type, as A fragments. */
    template <bool AHEAD> S2_DEVICE void fragments(int stage, float *delta)
    {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if constexpr (!AHEAD && WITH_DK)
                read_rows4(sh.delta + 256 * sh.do_stage(stage), k, delta);
#pragma unroll
            for (int half = 0; half < 4; ++half) {
                const float *const f = s + 8 * k + 2 * half, *const g = dp + 8 * k + 2 * half,
                                   *const d = delta + 4 * k + half / 2 * 2;
                if constexpr (WITH_DK)
                    ds[4 * k + half] = pack2<T::FP16>(f[0] * (g[0] - d[0]), f[1] * (g[1] - d[1]));
                if constexpr (WITH_DV)
                    pa[4 * k + half] = pack2<T::FP16>(f[0], f[1]);
            }
        }
    }
    /* Stores dS^T fragments as dS [query][key]. */
    S2_DEVICE void put_ds()
    {
        mbar_wait(sh.ds_empty + 8 * buffer, ds_parity ^ 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = i * 16 + ((lane >> 4) & 1) * 8 + (lane & 7),
                      column = warp * 16 + ((lane >> 3) & 1) * 8;
            stmatrix_x4_trans(sh.ds + buffer * 16384 + wg * 8192 +
                                  swizzle128((uint32_t)row * 128 + column * 2),
                              ds + 4 * i);
        }
        fence_async_shared();
        arrive(sh.ds_full + 8 * buffer);
    }
    /* Stores the finished tile of dQ in its staging buffer. */
    S2_DEVICE void stage_dq(int from)
    {
        arrive(sh.ds_empty + 8 * from);
        mbar_wait(sh.dq_empty + 8 * wg, dq_parity);
        dq_parity ^= 1;
#pragma unroll
        for (int i = 0; i < T::DQ_COLUMNS / 8; ++i)
            store_shared4f(sh.dq + wg * T::DQ_BYTES + i * 2048 + thread * 16, dp + 4 * i);
    }
    /* Hands it to the reducer. */
    S2_DEVICE void hand_dq() const
    {
        fence_async_shared();
        arrive(sh.dq_full + 8 * wg);
    }
    S2_DEVICE void push_dq(int from)
    {
        stage_dq(from);
        hand_dq();
    }
    S2_DEVICE void wait_other_ds() const
    {
        mbar_wait(sh.ds_full + 8 * (buffer ^ 1), buffer ? ds_parity : ds_parity ^ 1);
    }

    S2_DEVICE void wait_do() const
    {
        mbar_wait(sh.do_full + 8 * sh.do_stage(ring.stage), sh.do_parity(ring.stage, ring.parity));
    }
    /* dO of a step is no longer read. */
    S2_DEVICE void release_do(int stage) const
    {
        mbar_warp_arrive(sh.do_empty + 8 * sh.do_stage(stage), lane);
    }
    /* P^T, and dP^T if it is needed, of a step whose S^T is done. LAST: V is read no more. */
    template <bool MASK, bool LAST> S2_DEVICE void weights()
    {
        constexpr bool AHEAD = D <= 128 && (!MASK || T::ELEMENTS); /* short masks are faster without it */
        const int stage = ring.stage;
        float x[16];
        if constexpr (MASK && (T::ELEMENTS || !WITH_DK)) /* while the registers of dP are free */
            mask(stage);
        read_rows<AHEAD>(sh.lse2 + 256 * stage, x);
        wait_do();
        if constexpr (WITH_DK)
            issue_dp();
        if constexpr (MASK && !T::ELEMENTS && WITH_DK)
            mask(stage);
        exponentials<AHEAD>(stage, x);
        if constexpr (WITH_DK) {
            wg_wait<0>();
            wg_pin<32>(dp);
        }
        if constexpr (LAST && WITH_DK)
            arrive(sh.v_empty);
        fragments<AHEAD>(stage, x);
        if constexpr (!WITH_DV) {
            __syncwarp();
            release_do(stage);
        }
    }
    /* One step of the split kernel; its S^T is already issued. NEXT: another step follows. */
    template <bool MASK, bool NEXT> S2_DEVICE void step()
    {
        const int stage = ring.stage;
        weights<MASK, !NEXT>();
        if constexpr (WITH_DV)
            issue_dv(stage);
        if constexpr (WITH_DK)
            issue_dk<!WITH_DV>(stage);
        ring.next();
        if constexpr (NEXT) {
            mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
            issue_s();
            wg_wait<1>();
        } else {
            wg_wait<0>();
        }
        wg_pin<N_DV>(dv);
        wg_pin<N_DK>(dk);
        release_step(stage);
        if constexpr (NEXT) { /* no product may be in flight across a loop edge: ptxas would serialise
                                 all */
            wg_wait<0>();
            wg_pin<32>(s);
        }
    }
    /* dP^T of a stage whose S^T is in flight; P^T and dS^T as fragments. */
    template <bool MASK, bool HAND> S2_DEVICE void weigh(int stage)
    {
        float x[16];
        mbar_wait(sh.do_full + 8 * stage, ring.parity);
        issue_dp();
        if constexpr (HAND) /* dQ of the previous step: the fence waits under this product */
            hand_dq();
        read_rows<!MASK>(sh.lse2 + 256 * stage, x);
        wg_wait<1>();
        wg_pin<32>(s);
        if constexpr (MASK)
            mask(stage);
        exponentials<!MASK>(stage, x);
        wg_pin<32>(s); /* under dP^T: ptxas would put half of them behind the wait */
        wg_wait<0>();
        wg_pin<32>(dp);
        fragments<!MASK>(stage, x);
    }
    S2_DEVICE void first_weights()
    {
        mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
        issue_s();
        weigh<true, false>(ring.stage);
    }
    S2_DEVICE void release_step(int stage) const
    {
        __syncwarp();
        if constexpr (WITH_DV)
            release_do(stage);
        mbar_warp_arrive(sh.q_empty + 8 * stage, lane);
    }
    S2_DEVICE void swap_buffers()
    {
        buffer ^= 1;
        if (buffer == 0)
            ds_parity ^= 1;
    }
    /*
     * Fused: the products of a step whose fragments are ready, dQ of the previous step unless this is the
     * FIRST, and the fragments of the next step. The next S^T follows dQ without a gap, and dQ is handed over
     * meanwhile; no product is in flight at either end, and S^T uses the registers of P^T and dS^T.
     */
    template <bool MASK, bool FIRST> S2_DEVICE void fused_step()
    {
        const int stage = ring.stage;
        issue_dv(stage);
        put_ds(); /* before dK: reading fragments of a running product would serialise it */
        issue_dk<true>(stage);
        if constexpr (!FIRST) {
            wait_other_ds();
            issue_dq(buffer ^ 1);
        }
        ring.next();
        mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
        wg_wait<FIRST ? 0 : 1>();
        wg_pin<D / 2>(dv);
        wg_pin<D / 2>(dk);
        release_step(stage);
        issue_s();
        if constexpr (!FIRST) {
            wg_wait<1>();
            wg_pin<32>(dp);
            stage_dq(buffer ^ 1);
        }
        swap_buffers();
        weigh<MASK, !FIRST>(ring.stage);
    }
    /* The products of the last step of this warpgroup. */
    template <bool FIRST> S2_DEVICE void finish_step()
    {
        const int stage = ring.stage;
        issue_dv(stage);
        put_ds();
        issue_dk<true>(stage);
        if constexpr (!FIRST) {
            wait_other_ds();
            issue_dq(buffer ^ 1);
        }
        ring.next();
        wg_wait<0>();
        wg_pin<D / 2>(dv);
        wg_pin<D / 2>(dk);
        wg_pin<32>(dp);
        release_step(stage);
        if constexpr (!FIRST)
            push_dq(buffer ^ 1);
        swap_buffers();
    }
    /* Fused: a step that reads no key of this warpgroup; its half of dS is zero. */
    template <bool FIRST> S2_DEVICE void zero_step()
    {
        mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
        mbar_wait(sh.do_full + 8 * ring.stage, ring.parity);
#pragma unroll
        for (int i = 0; i < 16; ++i)
            ds[i] = 0;
        put_ds();
        if constexpr (!FIRST) {
            wait_other_ds();
            issue_dq(buffer ^ 1);
            wg_wait<0>();
            wg_pin<32>(dp);
        }
        release_step(ring.stage);
        ring.next();
        if constexpr (!FIRST)
            push_dq(buffer ^ 1);
        swap_buffers();
    }
    S2_DEVICE void pass_fused(int n, bool first)
    {
        if (n > 0 && first) {
            zero_step<true>();
            --n;
        }
#pragma unroll 1
        for (; n > 0; --n)
            zero_step<false>();
    }
    /* Steps that read no key of this warpgroup. */
    S2_DEVICE void pass(int n)
    {
#pragma unroll 1
        for (; n > 0; --n) {
            mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
            wait_do();
            release_step(ring.stage);
            if constexpr (!WITH_DV)
                release_do(ring.stage);
            ring.next();
        }
    }
    S2_DEVICE void own_steps(int n, int n_masked, uint32_t parity)
    {
        mbar_wait(sh.q_full + 8 * ring.stage, ring.parity);
        issue_s();
        wg_wait<0>();
        wg_pin<32>(s);
        if constexpr (WITH_DK)
            mbar_wait(sh.v_full, parity);
        int masked = min(n_masked, n - 1), rest = n - 1 - masked;
#pragma unroll 1
        for (; masked > 0; --masked)
            step<true, true>();
#pragma unroll 1
        for (; rest > 0; --rest)
            step<false, true>();
        arrive(sh.k_empty);
        step<true, false>();
    }
    S2_DEVICE void no_steps(int turn) const
    {
        if constexpr (WITH_DK)
            mbar_wait(sh.v_full, turn & 1);
        arrive(sh.k_empty);
        if constexpr (WITH_DK)
            arrive(sh.v_empty);
    }
    S2_DEVICE void steps(int turn)
    {
        const int4 to = load_shared4(sh.slot_at(turn) + 80 + 16 * wg);
        const int n = uniform(to.x);
        pass(uniform(to.z));
        if (n > 0)
            own_steps(n, uniform(to.y), turn & 1);
        else
            no_steps(turn);
        pass(uniform((int)load_shared1(sh.slot_at(turn) + 80 + 16 * wg + 12)));
    }
    /* Lag: the first warpgroup lets the second one begin. */
    S2_DEVICE void lead() const
    {
        if (T::LAG && wg == 0)
            asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
    S2_DEVICE void follow() const
    {
        if (T::LAG && wg == 1)
            asm volatile("bar.sync 1, 256;" ::: "memory");
    }
    S2_DEVICE void fused_steps(const Steps &to, int turn)
    {
        mbar_wait(sh.v_full, turn & 1);
        follow();
        if (to.lead > 0) /* these steps need the second warpgroup's dS */
            lead();
        pass_fused(to.lead, true);
        if (T::LAG && to.n > 0)
            first_weights();
        if (T::LAG && to.lead == 0)
            lead();
        if (to.n > 0) {
            if (!T::LAG)
                first_weights();
            int left = to.n - 2; /* once the next one runs */
            if (to.lead == 0) {
                if (to.n == 1)
                    finish_step<true>();
                else
                    fused_step<true, true>();
                --left;
            }
            int most = to.most, least = to.least;
#pragma unroll 1
            while (left >= 0) { /* at most twice: masked, not masked, masked */
#pragma unroll 1
                for (; left > most; --left)
                    fused_step<true, false>();
#pragma unroll 1
                for (; left >= least; --left)
                    fused_step<false, false>();
                most = -1;
                least = 0;
            }
            if (to.lead > 0 || to.n > 1)
                finish_step<false>();
        }
        arrive(sh.v_empty);
        pass_fused(trail_of(turn), to.lead + to.n == 0);
        wait_other_ds();
        issue_dq(buffer ^ 1);
        wg_wait<0>();
        wg_pin<32>(dp);
        arrive(sh.k_empty);
        push_dq(buffer ^ 1);
    }

    /* ---- parts of one column ---- */

    S2_DEVICE float4 *part_at(int chain) const
    {
        return (float4 *)p.part_sum + ((int64_t)chain * 2 + wg) * (D / 4) * 128 + thread;
    }
    /* The pieces of a sum that this launch makes: those of dK come first. */
    static constexpr int PIECES_FROM = WITH_DK ? 0 : D / 8, PIECES_END = WITH_DV ? D / 4 : D / 8;
    S2_DEVICE float *piece(int i)
    {
        return i < D / 8 ? dk + 4 * i : dv + 4 * (i - D / 8);
    }
    S2_DEVICE void add_parts(float4 *sum, bool clear)
    {
#pragma unroll
        for (int i = PIECES_FROM; i < PIECES_END; ++i) {
            float *const acc = piece(i);
            const float4 x = __ldcg(sum + i * 128);
            acc[0] += x.x;
            acc[1] += x.y;
            acc[2] += x.z;
            acc[3] += x.w;
            if (clear)
                __stcg(sum + i * 128, make_float4(0.f, 0.f, 0.f, 0.f));
        }
    }
    S2_DEVICE void store_parts(float4 *sum)
    {
#pragma unroll
        for (int i = PIECES_FROM; i < PIECES_END; ++i) {
            const float *const acc = piece(i);
            __stcg(sum + i * 128, make_float4(acc[0], acc[1], acc[2], acc[3]));
        }
        __threadfence();
        __syncwarp();
    }
    /*
     * In the order of the parts; each warp has its own flag. True: this part finishes the column. No lane may
     * branch away here: ptxas would consider the warp divergent from then on, and move each descriptor to
     * where wgmma wants it.
     */
    S2_DEVICE bool sum_in_order(int chain, int part, int n_parts)
    {
        int32_t *const done = p.part_done + chain * 8 + wg * 4 + warp;
        const bool last = part == n_parts - 1;
        if (part > 0) {
            int seen;
            do
                asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(seen) : "l"(done) : "memory");
            while (__any_sync(0xffffffffu, seen < part));
            add_parts(part_at(chain), false);
        }
        if (!last)
            store_parts(part_at(chain));
        asm volatile("{\n .reg .pred p;\n setp.eq.s32 p, %2, 0;\n"
                     " @p st.release.gpu.global.b32 [%0], %1;\n}\n" ::"l"(done),
                     "r"(last ? 0 : part + 1), "r"(lane)
                     : "memory");
        return last;
    }
    /* In order of arrival: the last one to arrive finishes the column. */
    S2_DEVICE bool sum_as_they_come(int chain, int n_parts)
    {
        int32_t *const done = p.part_done + chain * 8 + wg * 4 + warp;
        float4 *const sum = part_at(chain);
#pragma unroll
        for (int i = PIECES_FROM; i < PIECES_END; ++i) {
            float *const acc = piece(i);
            asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(sum + i * 128), "f"(acc[0]),
                         "f"(acc[1]), "f"(acc[2]), "f"(acc[3])
                         : "memory");
            acc[0] = acc[1] = acc[2] = acc[3] = 0.f;
        }
        __threadfence();
        __syncwarp();
        int before = 0;
        if (lane == 0)
            before = atomicAdd(done, 1);
        if (__shfl_sync(0xffffffffu, before, 0) != n_parts - 1)
            return false;
        __threadfence();
        add_parts(sum, true);
        if (lane == 0)
            *done = 0;
        return true;
    }
    /* to: two offsets, of dK and dV in the sequence of the column */
    S2_DEVICE void store(int kv_head, int k_tok, int4 to)
    {
        const bool on0 = key >= 0 && key < k_tok, on1 = key >= 0 && key + 8 < k_tok;
        uint16_t *const dv_at = p.d_v.data + join(to.z, to.w) + kv_head * p.d_v.head + key * p.d_v.tok;
        uint16_t *const dk_at = p.d_k.data + join(to.x, to.y) + kv_head * p.d_k.head + key * p.d_k.tok;
        if constexpr (WITH_DV)
            store_fragment<T::FP16, D>(dv_at, dv_at + 8 * p.d_v.tok, on0, on1, dv, 1.f, p.head_dim, lane);
        if constexpr (WITH_DK)
            store_fragment<T::FP16, D>(dk_at, dk_at + 8 * p.d_k.tok, on0, on1, dk, p.scale, p.head_dim, lane);
    }
    /* Whether this part finishes its column. */
    S2_DEVICE bool sum(int chain, int parts)
    {
        if (chain < 0)
            return true;
        if constexpr (FUSED && !T::IN_ORDER)
            return sum_as_they_come(chain, parts >> 16);
        else
            return sum_in_order(chain, parts & 0xffff, parts >> 16);
    }
    /* How many of the column's last steps read no key of this warpgroup. */
    S2_DEVICE int trail_of(int turn) const
    {
        const int n_tail = (int)(load_shared1(sh.slot_at(turn) + 40) * load_shared1(sh.slot_at(turn) + 32));
        return T::IN_ORDER || wg == 0 ? 0 : uniform(n_tail);
    }
    S2_DEVICE Steps steps_of(int turn, int n, int n_partial) const
    {
        const int4 c = load_shared4(sh.slot_at(turn) + 32);
        const int n_upper = uniform(c.y * c.x), n_tail = uniform(c.z * c.x);
        const bool own_tail = T::IN_ORDER || wg == 0;
        Steps to;
        to.lead = wg == 0 ? n_upper : 0;
        to.n = n - to.lead - (own_tail ? 0 : n_tail);
        to.most = to.n - 1 - (n_partial - to.lead);
        to.least = own_tail ? n_tail : 0;
        return to;
    }
    /* Once the column has arrived: what a warp needs from it (its 16 rows are in one block), and K. */
    S2_DEVICE void begin(int blocks, uint32_t parity)
    {
        int shift = p.shift; /* opaque, or ptxas keeps values derived from it through all steps, and spills */
        asm volatile("" : "+r"(shift));
        const int row = wg * 64 + warp * 16 + (lane >> 2);
        const int block = __ldg(p.blocks + blocks + (row >> shift));
#pragma unroll
        for (int i = 0; i < N_DK; ++i)
            dk[i] = 0.f;
#pragma unroll
        for (int i = 0; i < N_DV; ++i)
            dv[i] = 0.f;
        mbar_wait(sh.k_full, parity); /* the block number arrives meanwhile */
        key = block < 0 ? -1024 : (block << shift) + (row & ((1 << shift) - 1));
    }
    S2_DEVICE void run()
    {
        int4 a;
        for (int turn = 0; (a = fetch_slot(sh, turn)).z >= 0; ++turn) {
            begin(a.x, turn & 1);
            if constexpr (FUSED) {
                const int n = uniform(a.z), n_partial = uniform(a.w);
                if (n == 0)
                    no_steps(turn);
                else
                    fused_steps(steps_of(turn, n, n_partial), turn);
            } else {
                steps(turn);
            }
            const int4 b = load_shared4(sh.slot_at(turn) + 16), to = load_shared4(sh.slot_at(turn) + 64);
            const int kv_head = (int)load_shared1(sh.slot_at(turn) + 4),
                      k_tok = (int)load_shared1(sh.slot_at(turn) + 44);
            release_slot(sh, turn);
            if (sum(b.y, b.z))
                store(kv_head, k_tok, to);
        }
    }
};

template <class T> __global__ void __launch_bounds__(384, 1) bwd_sm90_dkv(const __grid_constant__ BwdParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const DkvShared<T> sh(raw);
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
    if (threadIdx.x == 0)
        sh.init();
    wait_before(); /* for the row statistics */
    let_follow();  /* dQ needs nothing from this kernel: its thread blocks follow as these leave */
    __syncthreads();
    if (wg == 2) {
        registers_lower<T::REGISTERS_PRODUCER>();
        const int lane = threadIdx.x & 31, warp = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if (warp == 0) {
            if (lane == 0)
                dkv_schedule(p, sh);
        } else if (warp == 1) {
            dkv_load(p, sh, lane);
        } else if constexpr (T::IN_ORDER) {
            dkv_reduce_in_order(p, sh, warp - 2, lane);
        } else if constexpr (T::FUSED) {
            dkv_reduce(p, sh, warp - 2, lane);
        }
    } else {
        registers_raise<T::REGISTERS_CONSUMER>();
        DkvConsumer<T> consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
    }
#endif
}

/* fused: stores the fp32 copy of dQ, which is in the order of fragments. DQ_BLOCKS per tile of the plan; one
 * warp has 16 rows x 32 columns. */
template <int D> constexpr int DQ_BLOCKS = (D + 63) / 64 * 2;
template <bool FP16, int D>
__global__ void __launch_bounds__(256) bwd_sm90_dq_convert(const __grid_constant__ BwdParams p)
{
    constexpr int COLUMNS = (D + 63) / 64 * 32, GROUPS = COLUMNS / 32; /* of one warpgroup */
    wait_before();
    const BwdTile tile = p.tiles[blockIdx.x / DQ_BLOCKS<D>];
    const BwdSeq seq = p.seqs[tile.seq];
    const int warp = (int)(blockIdx.x % DQ_BLOCKS<D>)*8 + (int)(threadIdx.x >> 5), lane = threadIdx.x & 31;
    const int group = warp % GROUPS, half = warp / GROUPS & 1, slab = warp / GROUPS >> 1; /* of 16 rows */
    const int64_t row = seq.rows + (int64_t)tile.head * seq.n_rows + tile.row + slab / 4 * 64;
    const float4 *const from =
        (const float4 *)(p.dq_sum + (row * 2 + half * 64) * COLUMNS) + slab % 4 * 32 + lane;
    float acc[16];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float4 f = __ldcs(from + (4 * group + k) * 128);
        acc[4 * k] = f.x;
        acc[4 * k + 1] = f.y;
        acc[4 * k + 2] = f.z;
        acc[4 * k + 3] = f.w;
    }
    const int q_tok = seq.pos - seq.q_off + tile.row + slab * 16 + (lane >> 2), n_q = seq.k_tok - seq.q_off;
    const int column = half * COLUMNS + group * 32;
    uint16_t *const out = p.d_q.data + seq.d_q + tile.head * p.d_q.head + q_tok * p.d_q.tok + column;
    store_fragment<FP16, 32>(out, out + 8 * p.d_q.tok, q_tok >= 0 && q_tok < n_q,
                             q_tok + 8 >= 0 && q_tok + 8 < n_q, acc, p.scale, p.head_dim - column, lane);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM90_DKV_CUH */
