/*
 * kernels/cuda/bwd_sm90_window.cuh - gradients of short windows on Hopper: one pass, every product once.
 *
 * As in fwd_sm90_window.cuh a unit is 8 positions of 8 heads, 64 rows, against the 136 keys that they read. A
 * thread block walks a range of one KV head's positions upwards. dV^T and dK^T, 64 columns of a head x 136 keys,
 * stay in registers and move on with the window: each position finishes the 8 oldest keys, so that sums over queries
 * and heads cost no memory, and their order is fixed.
 *
 *     S = Q K^T    dP = dO V^T    P^T, dS^T -> shared memory    dV^T += dO^T P    dK^T += Q^T dS    dQ = dS K
 *
 * delta, the sums of O dO, are made while dP is; they go to memory for the sinks alone.
 *
 * Grid    one thread block per SM; ranges are dealt out in turns.
 * Block   consumer 0 makes S and P, consumer 1 dP, delta and dS, consumer 2 dV, dK and dQ; the warps of a producer
 *         warpgroup load K and V, O, Q, dO.
 * Shared  BwdWindowShared::BYTES: K and V of two items of 64 positions (192 keys each), three units of Q and of
 *         dO and two of O, P^T twice, dS^T, and dQ on its way out.
 *
 * Where a sequence is cut into ranges, a range also computes what its queries give to the 128 keys before it, and
 * leaves these sums in memory for the range before, which begins its own sums of these keys with them. That one runs
 * in a block of a higher number or a later turn, so waiting for them cannot deadlock.
 *
 * Rows that do not exist have P = 0.
 *
 * Limits: as in the forward; queries are all positions of a sequence.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_WINDOW_CUH
#define S2_KERNELS_CUDA_BWD_SM90_WINDOW_CUH

#include "kernels/cuda/bwd_sm90.cuh"
#include "kernels/cuda/fwd_sm90_window.cuh"

namespace s2
{

/* Positions [8 first, 8 (first + n)) of one KV head; two 16-byte words. */
struct alignas(16) BwdWindowRange {
    int32_t seq, kv_head;
    int32_t first, n; /* in units */
    int32_t own; /* where it leaves sums for the range before; -1: nowhere, it is the first of its sequence */
    int32_t next; /* where the range after it leaves some; -1: it is the last */
    int32_t unused[2];
};

/* The maps of a sequence: q, d_o, o, d_q {d, head, token}, k, v {d, token, head}. */
enum {
    BWD_WINDOW_Q,
    BWD_WINDOW_D_O,
    BWD_WINDOW_O,
    BWD_WINDOW_K,
    BWD_WINDOW_V,
    BWD_WINDOW_D_Q,
    BWD_WINDOW_MAPS
};
struct alignas(16) BwdWindowParams {
    const CUtensorMap *maps; /* [seq][BWD_WINDOW_MAPS] */
    const BwdSeq *seqs;
    const BwdWindowRange *ranges;
    const float *lse;
    int64_t lse_head;
    float *delta; /* for the sinks: of padded rows, in their order; NULL: none */
    BwdTensor d_k, d_v;
    float4 *sums;   /* [range][dV, dK][16 groups of 8 keys][thread] */
    int32_t *ready; /* [range]: 1 when its sums are there; zero before the first launch, resets itself */
    int32_t n_ranges;
    int32_t window_tok;
    int32_t sets; /* heads of a group / 8 */
    int32_t head_dim;
    float scale_log2, scale;
};

struct BwdWindowShared {
    static constexpr int THREADS = 512, Q_STAGES = 3, D_O_STAGES = 3, O_STAGES = 2, KEYS = 192, GROUPS = 16;
    static constexpr int K_BYTES = (KEYS + 8) * 128, V_BYTES = KEYS * 128, TILE_BYTES = 64 * 128;
    static constexpr int P_BYTES = 144 * 128;
    static constexpr int BYTES = 2 * (K_BYTES + V_BYTES) +
                                 (Q_STAGES + D_O_STAGES + O_STAGES + 1) * TILE_BYTES + 3 * P_BYTES +
                                 8 * (3 * 4 + 2 + 2 * Q_STAGES + 2 * D_O_STAGES + 2 * O_STAGES) + 1024;
    static_assert(BYTES <= 227 * 1024, "a thread block has 227 KiB");
    uint32_t k, v, q, d_o, o, p, d_s, out;
    uint32_t k_full, k_empty, v_full, v_empty, p_full, p_empty, d_s_full, d_s_empty;
    uint32_t q_full, q_empty, d_o_full, d_o_empty, o_full, o_empty;
    S2_DEVICE explicit BwdWindowShared(const void *raw)
    {
        k = (shared_address(raw) + 1023u) & ~1023u;
        v = k + 2 * K_BYTES;
        q = v + 2 * V_BYTES;
        d_o = q + Q_STAGES * TILE_BYTES;
        o = d_o + D_O_STAGES * TILE_BYTES;
        p = o + O_STAGES * TILE_BYTES;
        d_s = p + 2 * P_BYTES;
        out = d_s + P_BYTES;
        k_full = out + TILE_BYTES;
        k_empty = k_full + 16;
        v_full = k_empty + 16;
        v_empty = v_full + 16;
        p_full = v_empty + 16;
        p_empty = p_full + 16;
        d_s_full = p_empty + 16;
        d_s_empty = d_s_full + 8;
        q_full = d_s_empty + 8;
        q_empty = q_full + 8 * Q_STAGES;
        d_o_full = q_empty + 8 * Q_STAGES;
        d_o_empty = d_o_full + 8 * D_O_STAGES;
        o_full = d_o_empty + 8 * D_O_STAGES;
        o_empty = o_full + 8 * O_STAGES;
    }
    S2_DEVICE void init() const
    {
        constexpr int WARPS = 4; /* of a consumer */
        for (int buffer = 0; buffer < 2; ++buffer) {
            mbar_init(k_full + 8 * buffer, 1);
            mbar_init(k_empty + 8 * buffer, 2 * WARPS);
            mbar_init(v_full + 8 * buffer, 1);
            mbar_init(v_empty + 8 * buffer, WARPS);
            mbar_init(p_full + 8 * buffer, WARPS);
            mbar_init(p_empty + 8 * buffer, 2 * WARPS);
        }
        mbar_init(d_s_full, WARPS);
        mbar_init(d_s_empty, WARPS);
        for (int stage = 0; stage < Q_STAGES; ++stage) {
            mbar_init(q_full + 8 * stage, 1);
            mbar_init(q_empty + 8 * stage, 2 * WARPS);
        }
        for (int stage = 0; stage < D_O_STAGES; ++stage) {
            mbar_init(d_o_full + 8 * stage, 1);
            mbar_init(d_o_empty + 8 * stage, 2 * WARPS);
        }
        for (int stage = 0; stage < O_STAGES; ++stage) {
            mbar_init(o_full + 8 * stage, 1);
            mbar_init(o_empty + 8 * stage, WARPS);
        }
        mbar_fence_init();
    }
};

/* d(64 x 136) += A^T B: A has 64 columns of 16 rows, B is K-major; both in shared memory. */
template <bool FP16> S2_DEVICE void wgmma_136_transposed(float *d, uint64_t a, uint64_t b)
{
#define S2_WGMMA_T(TYPE)                                                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n136k16.f32." TYPE "." TYPE " {" S2_R0_31 "," S2_R32_63    \
                 "," S2_R64_67 "}, %68, %69, 1, 1, 1, 1, 0;\n"                                               \
                 : S2_C64(0), S2_C4(64)                                                                      \
                 : "l"(a), "l"(b))
    if constexpr (FP16)
        S2_WGMMA_T("f16");
    else
        S2_WGMMA_T("bf16");
#undef S2_WGMMA_T
}
/* d(64 x 64) (+)= A^T B: A has 64 columns of 16 rows, B 64 columns of 16 rows; both in shared memory. */
template <bool FP16> S2_DEVICE void wgmma_64_transposed(float *d, uint64_t a, uint64_t b, int accumulate)
{
#define S2_WGMMA_T(TYPE)                                                                                     \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"                                              \
                 " wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" S2_R0_31                  \
                 "}, %32, %33, p, 1, 1, 1, 1;\n}\n"                                                          \
                 : S2_C32(0)                                                                                 \
                 : "l"(a), "l"(b), "r"(accumulate))
    if constexpr (FP16)
        S2_WGMMA_T("f16");
    else
        S2_WGMMA_T("bf16");
#undef S2_WGMMA_T
}
S2_DEVICE uint32_t transpose_8x8(uint32_t x)
{
    uint32_t y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}
S2_DEVICE void group_barrier(int wg)
{
    asm volatile("bar.sync %0, 128;" ::"r"(wg + 1) : "memory");
}

/* Through L2: an SM's own cache may hold the ranges of an earlier problem. */
S2_DEVICE BwdWindowRange bwd_window_range(const BwdWindowParams &p, int at)
{
    const int4 *const words = (const int4 *)(p.ranges + at);
    const int4 a = __ldcg(words), b = __ldcg(words + 1);
    return BwdWindowRange{a.x, a.y, a.z, a.w, b.x, b.y, {0, 0}};
}

/* ------------------------------------------------------------------ producers, one lane each */

/*
 * A map of the sequence that this thread goes on with. Its memory may have held another map, by a copy or by an
 * earlier launch, and an SM that has read that one keeps it until somebody acquires the new one.
 */
S2_DEVICE const CUtensorMap *bwd_window_map(const BwdWindowParams &p, int seq, int tensor)
{
    const CUtensorMap *const map = p.maps + BWD_WINDOW_MAPS * seq + tensor;
    fence_map(map);
    return map;
}
/* K and V, item by item. */
S2_DEVICE void bwd_window_load_keys(const BwdWindowParams &p, const BwdWindowShared &sh)
{
    int turn = 0;
#pragma unroll 1
    for (int at = blockIdx.x; at < p.n_ranges; at += gridDim.x) {
        const BwdWindowRange range = bwd_window_range(p, at);
        const CUtensorMap *const k_map = bwd_window_map(p, range.seq, BWD_WINDOW_K);
        const CUtensorMap *const v_map = bwd_window_map(p, range.seq, BWD_WINDOW_V);
#pragma unroll 1
        for (int unit = 0; unit < range.n; unit += 8, ++turn)
#pragma unroll 1
            for (int is_v = 0; is_v < 2; ++is_v) {
                const CUtensorMap *const map = is_v ? v_map : k_map;
                const uint32_t buffer = turn & 1, full = (is_v ? sh.v_full : sh.k_full) + 8 * buffer,
                               to = is_v ? sh.v + buffer * BwdWindowShared::V_BYTES
                                         : sh.k + buffer * BwdWindowShared::K_BYTES;
                mbar_wait((is_v ? sh.v_empty : sh.k_empty) + 8 * buffer, ((turn >> 1) & 1) ^ 1);
                mbar_expect_tx(full, BwdWindowShared::KEYS * 128);
#pragma unroll 1
                for (int key = 0; key < BwdWindowShared::KEYS; key += 64)
                    tma_load_3d(to + key * 128, map, full, 0, (range.first + unit) * 8 - 128 + key,
                                range.kv_head, L2_EVICT_LAST);
            }
    }
}
/* Q, dO or O, unit by unit. */
struct BwdWindowStages {
    int map, n;
    uint32_t to, full, empty;
};
S2_DEVICE void bwd_window_load_rows(const BwdWindowParams &p, const BwdWindowStages &stages)
{
    int stage = 0;
    uint32_t parity = 1;
#pragma unroll 1
    for (int at = blockIdx.x; at < p.n_ranges; at += gridDim.x) {
        const BwdWindowRange range = bwd_window_range(p, at);
        const CUtensorMap *const map = bwd_window_map(p, range.seq, stages.map);
#pragma unroll 1
        for (int unit = 0; unit < range.n * p.sets; ++unit) {
            mbar_wait(stages.empty + 8 * stage, parity);
            mbar_expect_tx(stages.full + 8 * stage, BwdWindowShared::TILE_BYTES);
            tma_load_3d(stages.to + stage * BwdWindowShared::TILE_BYTES, map, stages.full + 8 * stage, 0,
                        (range.kv_head * p.sets + unit % p.sets) * 8, (range.first + unit / p.sets) * 8,
                        L2_EVICT_FIRST);
            if (++stage == stages.n) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}
S2_DEVICE void bwd_window_produce(const BwdWindowParams &p, const BwdWindowShared &sh, int job)
{
    using Shared = BwdWindowShared;
    if (job == 0)
        bwd_window_load_keys(p, sh);
    else
        bwd_window_load_rows(
            p, job == 1 ? BwdWindowStages{BWD_WINDOW_O, Shared::O_STAGES, sh.o, sh.o_full, sh.o_empty}
               : job == 2
                   ? BwdWindowStages{BWD_WINDOW_Q, Shared::Q_STAGES, sh.q, sh.q_full, sh.q_empty}
                   : BwdWindowStages{BWD_WINDOW_D_O, Shared::D_O_STAGES, sh.d_o, sh.d_o_full, sh.d_o_empty});
}

/* ------------------------------------------------------------------ consumers */

/* A unit of a range: `set` of the heads at `position`. */
struct BwdWindowPlace {
    int position, set, in_item;
    bool begins_item, ends_item;
};

template <bool FP16> struct BwdWindowBase {
    static constexpr int S = 68;
    /* P is kept as 2^LIFT P: fp16 would lose small weights. */
    static constexpr float LIFT = FP16 ? 12.f : 0.f, UNLIFT = FP16 ? 1.f / 4096.f : 1.f;
    const BwdWindowParams &p;
    const BwdWindowShared &sh;
    const int thread, warp, lane;
    BwdWindowRange range;
    int n = 0, items = 0; /* units and items so far */

    S2_DEVICE BwdWindowBase(const BwdWindowParams &p_, const BwdWindowShared &sh_, int thread_)
        : p(p_), sh(sh_), thread(thread_), warp(__shfl_sync(0xffffffffu, thread_ >> 5, 0)), lane(thread_ & 31)
    {
    }
    S2_DEVICE void release(uint32_t bar)
    {
        __syncwarp();
        mbar_arrive_if(bar, lane == 0);
    }
    S2_DEVICE BwdWindowPlace place_of(int position, int set) const
    {
        BwdWindowPlace at;
        at.position = position;
        at.set = set;
        at.in_item = position & 7;
        at.begins_item = at.in_item == 0 && set == 0;
        at.ends_item = set == p.sets - 1 && (at.in_item == 7 || position == range.n - 1);
        return at;
    }
    /* Where a thread writes or reads pieces of 16 keys of a transposed tile; 2048 bytes further for the next 16. */
    S2_DEVICE uint32_t transposed_at() const
    {
        const int block = lane >> 3, key = lane & 7;
        return ((block >> 1) * 8 + key) * 128 + ((32 * warp + (block & 1) * 16) ^ (key << 4));
    }
};

/* A consumer that goes from unit to unit. */
template <bool FP16> struct BwdWindowWalker : BwdWindowBase<FP16> {
    using Base = BwdWindowBase<FP16>;
    using Base::Base, Base::p, Base::range;

    template <class Consumer> S2_DEVICE void walk(Consumer &consumer)
    {
#pragma unroll 1
        for (int turn = blockIdx.x; turn < p.n_ranges; turn += gridDim.x) {
            range = bwd_window_range(p, turn);
            consumer.begin_range();
#pragma unroll 1
            for (int position = 0; position < range.n; ++position)
#pragma unroll 1
                for (int set = 0; set < p.sets; ++set)
                    consumer.unit(this->place_of(position, set));
        }
    }
};

/* S and P. */
template <bool FP16> struct BwdWindowP : BwdWindowWalker<FP16> {
    using Base = BwdWindowWalker<FP16>;
    using Base::Base, Base::p, Base::sh, Base::warp, Base::lane, Base::range, Base::n, Base::items,
        Base::release, Base::S;
    const float *lse; /* of this thread's first row of the range's first unit */
    int k_tok;
    float2 ahead; /* LSE of its two rows of the unit that comes next */

    S2_DEVICE void fetch(int position, int set)
    {
        const float *const at = lse + set * 8 * p.lse_head + position * 8;
        const int row = (range.first + position) * 8 + 2 * warp;
        ahead.x = row < k_tok ? __ldcg(at) : -CUDART_INF_F;
        ahead.y = row + 1 < k_tok ? __ldcg(at + 1) : -CUDART_INF_F;
    }
    S2_DEVICE void begin_range()
    {
        const BwdSeq &seq = p.seqs[range.seq];
        k_tok = seq.k_tok;
        lse = p.lse + seq.lse + range.first * 8 + 2 * warp +
              (range.kv_head * p.sets * 8 + (lane >> 2)) * p.lse_head;
        fetch(0, 0);
    }
    /* pieces = P; rows that do not exist have none */
    S2_DEVICE void weights(const float *s, uint32_t *pieces) const
    {
        const float x = ahead.x == -CUDART_INF_F ? ahead.x : fmaf(ahead.x, -LOG2_E, Base::LIFT),
                    y = ahead.y == -CUDART_INF_F ? ahead.y : fmaf(ahead.y, -LOG2_E, Base::LIFT);
#pragma unroll
        for (int j = 0; j < S / 4; ++j) {
            pieces[2 * j] = pack2<FP16>(exp2_fast(fmaf(s[4 * j], p.scale_log2, x)),
                                        exp2_fast(fmaf(s[4 * j + 1], p.scale_log2, x)));
            pieces[2 * j + 1] = pack2<FP16>(exp2_fast(fmaf(s[4 * j + 2], p.scale_log2, y)),
                                            exp2_fast(fmaf(s[4 * j + 3], p.scale_log2, y)));
        }
        pieces[34] = pieces[35] = 0;
    }
    S2_DEVICE void unit(const BwdWindowPlace &at)
    {
        constexpr int STAGES = BwdWindowShared::Q_STAGES;
        const uint32_t buffer = items & 1, p_stage = n & 1, stage = n % STAGES;
        float s[S];
        uint32_t pieces[36];
        if (at.begins_item)
            mbar_wait(sh.k_full + 8 * buffer, (items >> 1) & 1);
        mbar_wait(sh.q_full + 8 * stage, (n / STAGES) & 1);
        window_issue_scores<FP16>(s, sh.q + stage * BwdWindowShared::TILE_BYTES,
                                  sh.k + buffer * BwdWindowShared::K_BYTES + at.in_item * 1024);
        wg_wait<0>();
        wg_pin<S>(s);
        release(sh.q_empty + 8 * stage);
        if (at.ends_item)
            release(sh.k_empty + 8 * buffer);
        window_drop(s, (range.first + at.position) * 8, p.window_tok, warp, lane);
        weights(s, pieces);
        mbar_wait(sh.p_empty + 8 * p_stage, ((n >> 1) & 1) ^ 1);
        const uint32_t to = sh.p + p_stage * BwdWindowShared::P_BYTES + this->transposed_at();
#pragma unroll
        for (int kk = 0; kk < 9; ++kk)
            stmatrix_x4_trans(to + kk * 2048, pieces + 4 * kk);
        fence_async_shared();
        release(sh.p_full + 8 * p_stage);
        const bool moves = at.set == p.sets - 1; /* after a range's last unit, to that unit again */
        fetch(min(at.position + moves, range.n - 1), moves ? 0 : at.set + 1);
        items += at.ends_item;
        ++n;
    }
    S2_DEVICE void run()
    {
        this->walk(*this);
    }
};

/* dP, delta and dS. */
template <bool FP16> struct BwdWindowDs : BwdWindowWalker<FP16> {
    using Base = BwdWindowWalker<FP16>;
    using Base::Base, Base::p, Base::sh, Base::warp, Base::lane, Base::range, Base::n, Base::items,
        Base::release, Base::S;
    float *delta; /* of this thread's first row of the range's first unit */
    int64_t rows; /* from head to head */

    S2_DEVICE void begin_range()
    {
        const BwdSeq &seq = p.seqs[range.seq];
        rows = seq.n_rows;
        delta = p.delta + seq.rows + range.first * 8 + 2 * warp +
                (range.kv_head * p.sets * 8 + (lane >> 2)) * rows;
    }
    /* delta of this thread's two rows: a quad sums what O and dO are together. */
    S2_DEVICE float2 deltas(uint32_t o, uint32_t d_o) const
    {
        float sum[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint32_t at = (16 * warp + 8 * r + (lane >> 2)) * 128 + (lane & 3) * 32;
            sum[r] = 0.f;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int4 x = load_shared4(o + swizzle128(at + half * 16)),
                           y = load_shared4(d_o + swizzle128(at + half * 16));
                sum[r] = dot8<FP16>(make_uint4(x.x, x.y, x.z, x.w), make_uint4(y.x, y.y, y.z, y.w), sum[r]);
            }
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
        }
        return make_float2(sum[0], sum[1]);
    }
    /* pieces = P (dP - delta) */
    S2_DEVICE void differences(const float *d_p, float2 of_rows, uint32_t tile, uint32_t *pieces) const
    {
        const float x = -of_rows.x * Base::UNLIFT, y = -of_rows.y * Base::UNLIFT;
#pragma unroll
        for (int kk = 0; kk < 9; ++kk) {
            uint32_t w[4];
            ldmatrix_x4_trans(tile + this->transposed_at() + kk * 2048, w);
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int at = 8 * kk + 2 * part;
                const float less = part & 1 ? y : x;
                if (at < S)
                    pieces[4 * kk + part] =
                        pack2<FP16>(low_half<FP16>(w[part]) * fmaf(d_p[at], Base::UNLIFT, less),
                                    high_half<FP16>(w[part]) * fmaf(d_p[at + 1], Base::UNLIFT, less));
                else
                    pieces[4 * kk + part] = 0;
            }
        }
    }
    /*
     * dO and O are read by loads, and the copy engine writes their place next. Without the fence the arrivals may go
     * ahead of loads that have not come yet, which then read what the copy writes.
     */
    S2_DEVICE void give_back_rows(uint32_t stage, uint32_t o_stage)
    {
        fence_async_shared();
        release(sh.o_empty + 8 * o_stage);
        release(sh.d_o_empty + 8 * stage);
    }
    S2_DEVICE void unit(const BwdWindowPlace &at)
    {
        constexpr int STAGES = BwdWindowShared::D_O_STAGES, O_STAGES = BwdWindowShared::O_STAGES;
        const uint32_t buffer = items & 1, p_stage = n & 1, stage = n % STAGES, o_stage = n % O_STAGES;
        float d_p[S];
        uint32_t pieces[36];
        if (at.begins_item)
            mbar_wait(sh.v_full + 8 * buffer, (items >> 1) & 1);
        mbar_wait(sh.d_o_full + 8 * stage, (n / STAGES) & 1);
        mbar_wait(sh.o_full + 8 * o_stage, (n / O_STAGES) & 1);
        window_issue_scores<FP16>(d_p, sh.d_o + stage * BwdWindowShared::TILE_BYTES,
                                  sh.v + buffer * BwdWindowShared::V_BYTES + at.in_item * 1024);
        const float2 own = deltas(sh.o + o_stage * BwdWindowShared::TILE_BYTES,
                                  sh.d_o + stage * BwdWindowShared::TILE_BYTES);
        wg_wait<0>();
        wg_pin<S>(d_p);
        give_back_rows(stage, o_stage);
        if (p.delta != nullptr && (lane & 3) == 0)
            *(float2 *)(delta + at.set * 8 * rows + at.position * 8) = own;
        mbar_wait(sh.p_full + 8 * p_stage, (n >> 1) & 1);
        if (at.ends_item)
            release(sh.v_empty + 8 * buffer);
        differences(d_p, own, sh.p + p_stage * BwdWindowShared::P_BYTES, pieces);
        release(sh.p_empty + 8 * p_stage);
        mbar_wait(sh.d_s_empty, (n & 1) ^ 1);
#pragma unroll
        for (int kk = 0; kk < 9; ++kk)
            stmatrix_x4_trans(sh.d_s + this->transposed_at() + kk * 2048, pieces + 4 * kk);
        fence_async_shared();
        release(sh.d_s_full);
        items += at.ends_item;
        ++n;
    }
    S2_DEVICE void run()
    {
        this->walk(*this);
    }
};

/* dV^T and dK^T, whose sums move on with the window, and dQ. */
template <bool FP16> struct BwdWindowSums : BwdWindowBase<FP16> {
    using Base = BwdWindowBase<FP16>;
    using Base::Base, Base::p, Base::sh, Base::thread, Base::warp, Base::lane, Base::range, Base::n,
        Base::items, Base::release, Base::S;
    float d_v[S], d_k[S];
    uint16_t *v_out,
        *k_out; /* of this lane's key and column in the first 8 keys that the range's first unit reads */
    int k_tok;

    /* A copy takes the 8 heads of a position. */
    S2_DEVICE void store_d_q(const BwdWindowPlace &at, const float *x) const
    {
        const uint32_t out = sh.out + warp * 2048;
        window_put_rows<FP16>(out, x, p.scale, p.scale, lane);
        if (lane == 0) {
            const CUtensorMap *const map = p.maps + BWD_WINDOW_MAPS * range.seq + BWD_WINDOW_D_Q;
            const int row = (range.first + at.position) * 8 + 2 * warp,
                      head = (range.kv_head * p.sets + at.set) * 8;
            if (row < k_tok)
                tma_store_3d(map, out, 0, head, row);
            if (row + 1 < k_tok)
                tma_store_3d(map, out + 1024, 0, head, row + 1);
            bulk_commit();
        }
    }
    /* x = dS K */
    S2_DEVICE void issue_d_q(float *x, uint32_t k)
    {
        const uint32_t from = desc_low(sh.d_s, 16), with = desc_low(k, 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < 9; ++kk)
            wgmma_64_transposed<FP16>(x, desc(from + (kk * 2048 >> 4)), desc(with + (kk * 2048 >> 4)),
                                      kk > 0);
        wg_commit();
    }
    /* sum += A^T of a tile times a transposed tile. */
    S2_DEVICE void issue_sum(float *sum, uint32_t a, uint32_t b)
    {
        const uint32_t from = desc_low(a, 16), with = desc_low(b, 16);
        wg_fence();
#pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_136_transposed<FP16>(sum, desc(from + (kk * 2048 >> 4)), desc(with + (kk * 32 >> 4)));
        wg_commit();
    }
    S2_DEVICE float4 *sums_at(int of, int which, int group) const
    {
        return p.sums + ((of * 2 + which) * BwdWindowShared::GROUPS + group) * 128 + thread;
    }
    /* A gradient of 8 keys, `ahead` of the first ones, transposed: a store is 16 bytes of each of 8 keys. */
    S2_DEVICE void store_keys(uint16_t *out, int64_t tok, int ahead, float4 x, float scale) const
    {
        const uint32_t low = transpose_8x8(pack2<FP16>(x.x * scale, x.y * scale)),
                       high = transpose_8x8(pack2<FP16>(x.z * scale, x.w * scale));
        const int key = range.first * 8 - 128 + ahead + (lane >> 2), column = 16 * warp + 2 * (lane & 3);
        uint16_t *const at = out + ahead * tok;
        if (key < 0 || key >= k_tok)
            return;
        if (column < p.head_dim)
            *(uint32_t *)at = low;
        if (column + 8 < p.head_dim)
            *(uint32_t *)(at + 8) = high;
    }
    static S2_DEVICE void put_newest(float *sum, float4 x)
    {
        sum[S - 4] = x.x;
        sum[S - 3] = x.y;
        sum[S - 2] = x.z;
        sum[S - 1] = x.w;
    }
    static S2_DEVICE float4 of_group(const float *sum, int group)
    {
        return make_float4(sum[4 * group], sum[4 * group + 1], sum[4 * group + 2], sum[4 * group + 3]);
    }
    /* Takes the oldest 8 keys out; the window moves on. Before any branch: ptxas copies all sums into each. */
    static S2_DEVICE float4 take_oldest(float *sum, float4 newest)
    {
        const float4 oldest = of_group(sum, 0);
#pragma unroll
        for (int at = 0; at < S - 4; ++at)
            sum[at] = sum[at + 4];
        put_newest(sum, newest);
        return oldest;
    }
    /* What is finished at a position of the range. */
    S2_DEVICE void give(int position, float4 v, float4 k) const
    {
        if (position >= BwdWindowShared::GROUPS) {
            store_keys(v_out, p.d_v.tok, 8 * position, v, Base::UNLIFT);
            store_keys(k_out, p.d_k.tok, 8 * position, k, p.scale);
        } else if (range.own >= 0) {
            __stcg(sums_at(range.own, 0, position), v);
            __stcg(sums_at(range.own, 1, position), k);
            if (position == BwdWindowShared::GROUPS - 1)
                publish();
        }
    }
    S2_DEVICE void publish() const
    {
        __threadfence();
        group_barrier(2);
        if (thread == 0)
            atomicExch(p.ready + range.own, 1);
    }
    S2_DEVICE void wait_for_next() const
    {
        if (thread == 0) {
            while (atomicAdd(p.ready + range.next, 0) == 0)
                __nanosleep(100);
            p.ready[range.next] = 0;
            __threadfence();
        }
        group_barrier(2);
    }
    /* What the sums of the 8 keys that a position adds begin with: the last 128 have some from the range after. */
    S2_DEVICE void begin_keys(int position, float4 &v, float4 &k) const
    {
        const int group = position - (range.n - BwdWindowShared::GROUPS);
        v = k = make_float4(0.f, 0.f, 0.f, 0.f);
        if (range.next < 0 || group < 0 || position >= range.n)
            return;
        if (group == 0)
            wait_for_next();
        v = __ldcg(sums_at(range.next, 0, group));
        k = __ldcg(sums_at(range.next, 1, group));
    }
    /* The last 128 keys of a range. */
    S2_DEVICE void flush() const
    {
#pragma unroll
        for (int group = 0; group < BwdWindowShared::GROUPS; ++group) {
            const int ahead = 8 * (range.n + group);
            store_keys(v_out, p.d_v.tok, ahead, of_group(d_v, group), Base::UNLIFT);
            store_keys(k_out, p.d_k.tok, ahead, of_group(d_k, group), p.scale);
        }
    }
    /*
     * All that the last two products read is waited for before either begins, and all three products end before any
     * place is given back.
     */
    S2_DEVICE void unit(const BwdWindowPlace &at)
    {
        const uint32_t buffer = items & 1, p_stage = n & 1, q_stage = n % BwdWindowShared::Q_STAGES,
                       d_o_stage = n % BwdWindowShared::D_O_STAGES;
        float x[32];
        mbar_wait(sh.d_o_full + 8 * d_o_stage, (n / BwdWindowShared::D_O_STAGES) & 1);
        mbar_wait(sh.p_full + 8 * p_stage, (n >> 1) & 1);
        issue_sum(d_v, sh.d_o + d_o_stage * BwdWindowShared::TILE_BYTES,
                  sh.p + p_stage * BwdWindowShared::P_BYTES);
        mbar_wait(sh.q_full + 8 * q_stage, (n / BwdWindowShared::Q_STAGES) & 1);
        if (at.begins_item)
            mbar_wait(sh.k_full + 8 * buffer, (items >> 1) & 1);
        mbar_wait(sh.d_s_full, n & 1);
        issue_sum(d_k, sh.q + q_stage * BwdWindowShared::TILE_BYTES, sh.d_s);
        issue_d_q(x, sh.k + buffer * BwdWindowShared::K_BYTES + at.in_item * 1024);
        wg_wait<0>();
        wg_pin<S>(d_v);
        wg_pin<S>(d_k);
        wg_pin<32>(x);
        release(sh.d_o_empty + 8 * d_o_stage);
        release(sh.p_empty + 8 * p_stage);
        release(sh.q_empty + 8 * q_stage);
        release(sh.d_s_empty);
        if (at.ends_item)
            release(sh.k_empty + 8 * buffer);
        store_d_q(at, x);
        items += at.ends_item;
        ++n;
    }
    S2_DEVICE void run()
    {
#pragma unroll 1
        for (int turn = blockIdx.x; turn < p.n_ranges; turn += gridDim.x) {
            range = bwd_window_range(p, turn);
            if (lane == 0)
                (void)bwd_window_map(p, range.seq, BWD_WINDOW_D_Q);
            const BwdSeq &seq = p.seqs[range.seq];
            const int column = 16 * warp + 2 * (lane & 3);
            const int64_t key = range.first * 8 - 128 + (lane >> 2);
            k_tok = seq.k_tok;
            v_out = p.d_v.data + seq.d_v + key * p.d_v.tok + range.kv_head * p.d_v.head + column;
            k_out = p.d_k.data + seq.d_k + key * p.d_k.tok + range.kv_head * p.d_k.head + column;
#pragma unroll
            for (int at = 0; at < S; ++at)
                d_v[at] = d_k[at] = 0.f;
            float4 v_newest, k_newest;
            begin_keys(0, v_newest, k_newest);
            put_newest(d_v, v_newest);
            put_newest(d_k, k_newest);
#pragma unroll 1
            for (int position = 0; position < range.n; ++position) {
                begin_keys(position + 1, v_newest, k_newest);
#pragma unroll 1
                for (int set = 0; set < p.sets; ++set)
                    unit(this->place_of(position, set));
                const float4 v = take_oldest(d_v, v_newest), k = take_oldest(d_k, k_newest);
                give(position, v, k);
            }
            flush();
        }
        if (lane == 0)
            bulk_wait<0>();
    }
};

/* ------------------------------------------------------------------ after */

/* The gradient of the sinks: a block of 1024 threads for each head. The order is fixed. */
template <bool FP16>
__global__ void __launch_bounds__(BWD_SINK_THREADS)
    bwd_window_sinks(const BwdSinkParams p, const float *lse, int64_t lse_head, int n_seqs)
{
    const int head = (int)blockIdx.x;
    const float sink = p.sink[head] * LOG2_E;
    float sum = 0.f;
    let_follow();
    wait_before();
    for (int at = 0; at < n_seqs; ++at) {
        const BwdSeq &seq = p.seqs[at];
        const float *const of_seq = lse + seq.lse + head * lse_head;
        const float *const delta = p.delta + seq.rows + (int64_t)head * seq.n_rows;
        for (int row = threadIdx.x; row < seq.k_tok; row += BWD_SINK_THREADS)
            sum = fmaf(exp2_fast(sink - of_seq[row] * LOG2_E), delta[row], sum);
    }
    store_sink(p, head, sum);
}

template <bool FP16>
__global__ void __launch_bounds__(BwdWindowShared::THREADS, 1)
    bwd_sm90_window(const __grid_constant__ BwdWindowParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const BwdWindowShared sh(raw);
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
    window_begin(sh, sh.k + BwdWindowShared::KEYS * 128, BwdWindowShared::K_BYTES);
    wait_before();
    if (wg == 3) {
        registers_lower<24>();
        const int job = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if ((threadIdx.x & 31) == 0)
            bwd_window_produce(p, sh, job);
    } else if (wg == 0) {
        registers_raise<144>();
        BwdWindowP<FP16> consumer(p, sh, threadIdx.x & 127);
        consumer.run();
    } else if (wg == 1) {
        registers_raise<136>();
        BwdWindowDs<FP16> consumer(p, sh, threadIdx.x & 127);
        consumer.run();
    } else {
        registers_raise<208>();
        BwdWindowSums<FP16> consumer(p, sh, threadIdx.x & 127);
        consumer.run();
    }
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_BWD_SM90_WINDOW_CUH */
