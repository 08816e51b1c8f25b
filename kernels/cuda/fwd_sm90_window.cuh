/*
 * kernels/cuda/fwd_sm90_window.cuh - the forward of short windows on Hopper: eight heads share a product.
 *
 * A window of 128 tokens leaves a kernel with tiles of 64 positions 1.5 products for each one that is needed, and
 * items of three steps. Here the 64 rows of a product are 8 positions of 8 query heads that share a KV head: they
 * read 135 keys, so one product of 136 columns holds all of their scores. The softmax is done once, in registers:
 * no running maximum, no O that is scaled.
 *
 *     unit   8 positions x 8 heads = 64 rows, row 8 i + h; columns: the keys of [position - 128, position + 8)
 *     item   8 units: 64 positions of 8 heads, and 192 keys
 *
 *     keys of an item    0 ......... 64 ......... 128 ......... 192        positions of its rows: 128 to 191
 *     unit 0             |--------- 136 ---------|
 *     unit 7                          |--------- 136 ---------|
 *
 * Grid    one thread block per SM, persistent; item t of block b is b + t * grid: items cost the same.
 * Block   four consumer warpgroups with two units of each item, and a producer warpgroup whose warps load K, V, and Q
 *         for two consumers each.
 * Warp    16 rows: 2 positions of 8 heads, so a key is compared with one position for each of a lane's two rows.
 * Shared  WindowShared::BYTES: K and V of two items, two units of Q for each consumer, O on its way out.
 *
 * Only the first and the last 8 columns of a unit are compared, where the window is 128 and the sequence does not begin
 * inside it. V is read for 144 keys, the last 8 of them with weight 0: behind the last unit's keys lie 8 rows of zeros.
 *
 * Limits: head dim up to 64, windows up to 128 tokens and nothing else, scale > 0.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_WINDOW_CUH
#define S2_KERNELS_CUDA_FWD_SM90_WINDOW_CUH

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/sm90.cuh"

#include <math_constants.h>

namespace s2
{

#define S2_R64_67 "%64,%65,%66,%67"
#define S2_WGMMA_136(FP16, TYPE)                                                                             \
    S2_WGMMA(FP16, TYPE, 136, S2_R0_31 "," S2_R32_63 "," S2_R64_67, S2_C64(0) S2_COMMA S2_C4(64), 68, 69,    \
             70, 71, 72, 73, 74, 68, 69, 70, 71)
S2_WGMMA_136(false, "bf16")
S2_WGMMA_136(true, "f16")

/* One piece of work; two 16-byte words. */
struct alignas(16) WindowItem {
    int32_t row;  /* query of its first position; may be before the first query */
    int32_t head; /* the first of 8 */
    int32_t seq;
    int32_t lse;   /* where the rows of the sequence begin */
    int32_t pos;   /* its first position, a multiple of 64 */
    int32_t first; /* the lowest key that a query of it reads; negative: all */
    int32_t n_queries;
    int32_t kv_head;
};

struct alignas(16) WindowParams {
    const CUtensorMap *maps; /* [seq][4]: q {d, head, token}, k, v {d, token, head}, o like q */
    const WindowItem *items;
    float *lse;
    int64_t lse_head;
    const float *sink; /* [head]; NULL: none */
    int32_t n_items;
    int32_t window_tok;
    int32_t box_tok; /* keys of a copy */
    int32_t moved;   /* maps were written by an earlier launch, not before all launches */
    float scale_log2;
};

/* Where everything is in shared memory. */
struct WindowShared {
    static constexpr int CONSUMERS = 4, UNITS = 2, THREADS = (CONSUMERS + 1) * 128;
    static constexpr int POSITIONS = 8, HEADS = 8, ITEM_TOK = CONSUMERS * UNITS * POSITIONS;
    static constexpr int WINDOW = 128, KEYS = WINDOW + ITEM_TOK;
    static constexpr int K_BYTES = KEYS * 128, V_BYTES = (KEYS + 8) * 128, Q_BYTES = 64 * 128;
    static constexpr int Q_ALL = CONSUMERS * UNITS * Q_BYTES, OUT_BYTES = CONSUMERS * Q_BYTES;
    static constexpr int BYTES =
        2 * (K_BYTES + V_BYTES) + Q_ALL + OUT_BYTES + 2 * 32 + 16 + 8 * (8 + 16) + 1024;
    static_assert(BYTES <= 227 * 1024, "a thread block has 227 KiB");
    uint32_t k, v, q, out, items, scratch, k_full, k_empty, v_full, v_empty, q_full, q_empty;
    S2_DEVICE explicit WindowShared(const void *raw)
    {
        k = (shared_address(raw) + 1023u) & ~1023u;
        v = k + 2 * K_BYTES;
        q = v + 2 * V_BYTES;
        out = q + Q_ALL;
        items = out + OUT_BYTES;
        scratch = items + 2 * 32;
        k_full = scratch + 16;
        k_empty = k_full + 16;
        v_full = k_empty + 16;
        v_empty = v_full + 16;
        q_full = v_empty + 16; /* [consumer][unit] */
        q_empty = q_full + 8 * CONSUMERS * UNITS;
    }
    S2_DEVICE void init() const
    {
        constexpr int WARPS = 4 * CONSUMERS;
        for (int buffer = 0; buffer < 2; ++buffer) {
            mbar_init(k_full + 8 * buffer, 1);
            mbar_init(k_empty + 8 * buffer, WARPS);
            mbar_init(v_full + 8 * buffer, 1);
            mbar_init(v_empty + 8 * buffer, WARPS);
        }
        for (int unit = 0; unit < CONSUMERS * UNITS; ++unit) {
            mbar_init(q_full + 8 * unit, 1);
            mbar_init(q_empty + 8 * unit, 4);
        }
        mbar_fence_init();
    }
};

S2_DEVICE float log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ------------------------------------------------------------------ producers, one lane each */

S2_DEVICE WindowItem window_item(const WindowParams &p, int at)
{
    const int4 *const words = (const int4 *)(p.items + at);
    const int4 a = __ldg(words), b = __ldg(words + 1);
    return WindowItem{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
}
S2_DEVICE const CUtensorMap *window_map(const WindowParams &p, const WindowItem &item, int tensor)
{
    const CUtensorMap *const map = p.maps + 4 * item.seq + tensor;
    if (p.moved)
        fence_map(map);
    return map;
}

/* Keys that no row reads are not touched: a copy from before the sequence fills their place with zeros. */
S2_DEVICE void window_load_keys(const WindowParams &p, const WindowShared &sh, bool is_k)
{
    const uint32_t bytes = is_k ? WindowShared::K_BYTES : WindowShared::V_BYTES, to = is_k ? sh.k : sh.v,
                   full = is_k ? sh.k_full : sh.v_full, empty = is_k ? sh.k_empty : sh.v_empty;
    int turn = 0;
#pragma unroll 1
    for (int at = blockIdx.x; at < p.n_items; at += gridDim.x, ++turn) {
        const uint32_t buffer = turn & 1;
        const WindowItem item = window_item(p, at);
        const CUtensorMap *const map = window_map(p, item, is_k ? 1 : 2);
        mbar_wait(empty + 8 * buffer, ((turn >> 1) & 1) ^ 1);
        if (is_k) {
            store_shared4(sh.items + buffer * 32, make_int4(item.row, item.head, item.seq, item.lse));
            store_shared4(sh.items + buffer * 32 + 16,
                          make_int4(item.pos, item.first, item.n_queries, item.kv_head));
        }
        mbar_expect_tx(full + 8 * buffer, WindowShared::KEYS * 128); /* release: the item too */
#pragma unroll 1
        for (int key = 0; key < WindowShared::KEYS; key += p.box_tok) {
            const int from = item.pos - WindowShared::WINDOW + key;
            tma_load_3d(to + buffer * bytes + key * 128, map, full + 8 * buffer, 0,
                        from + p.box_tok > item.first ? from : -p.box_tok, item.kv_head, L2_EVICT_LAST);
        }
    }
}
/* Q of two consumers, unit by unit. */
S2_DEVICE void window_load_queries(const WindowParams &p, const WindowShared &sh, int pair)
{
    int turn = 0;
#pragma unroll 1
    for (int at = blockIdx.x; at < p.n_items; at += gridDim.x, ++turn) {
        const WindowItem item = window_item(p, at);
        const CUtensorMap *const map = window_map(p, item, 0);
#pragma unroll 1
        for (int box = 0; box < 2 * WindowShared::UNITS; ++box) {
            const uint32_t unit = (2 * pair + (box & 1)) * WindowShared::UNITS + (box >> 1);
            mbar_wait(sh.q_empty + 8 * unit, (turn & 1) ^ 1);
            mbar_expect_tx(sh.q_full + 8 * unit, WindowShared::Q_BYTES);
            tma_load_3d(sh.q + unit * WindowShared::Q_BYTES, map, sh.q_full + 8 * unit, 0, item.head,
                        item.row + (int)unit * WindowShared::POSITIONS, L2_EVICT_FIRST);
        }
    }
}

/* ------------------------------------------------------------------ consumers */

/* Scores of a unit that a row does not read become minus infinity; `pos` is the position of its first row. */
S2_DEVICE void window_drop(float *s, int pos, int window_tok, int warp, int lane)
{
    constexpr int WINDOW = WindowShared::WINDOW, LAST = WINDOW / 2;
    const int column = 2 * (lane & 3);
    const bool usual = window_tok == WINDOW && pos >= WINDOW;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int i = 2 * warp + r;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            s[2 * r + e] = column + e > i ? s[2 * r + e] : -CUDART_INF_F;
            s[LAST + 2 * r + e] = column + e <= i ? s[LAST + 2 * r + e] : -CUDART_INF_F;
        }
        if (usual)
            continue;
        const int low = max(i + 1 + WINDOW - window_tok, WINDOW - pos);
#pragma unroll
        for (int j = 0; j <= WINDOW / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e)
                s[4 * j + 2 * r + e] = 8 * j + column + e >= low ? s[4 * j + 2 * r + e] : -CUDART_INF_F;
    }
}

/* Of the 64 rows of a unit at `a` against the keys at `b`: d(64 x 136) = A B^T. */
template <bool FP16> S2_DEVICE void window_issue_scores(float *d, uint32_t a, uint32_t b)
{
    const uint32_t from = desc_low(a, 16), with = desc_low(b, 16);
    wg_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk)
        Wgmma<FP16, 136>::template ss<0>(d, desc(from + (kk * 32 >> 4)), desc(with + (kk * 32 >> 4)), kk > 0);
    wg_commit();
}
/* d(64 x 64) = A B: A in registers, 64 x 144 with zeros in the last 8 columns. */
template <bool FP16> S2_DEVICE void window_issue_sums(float *d, const uint32_t *a, uint32_t b)
{
    const uint32_t with = desc_low(b, 16);
    wg_fence();
#pragma unroll
    for (int kk = 0; kk < 9; ++kk)
        Wgmma<FP16, 64>::template rs<1>(d, a + 4 * kk, desc(with + (kk * 2048 >> 4)), kk > 0);
    wg_commit();
}
/* The 16 rows of a warp, 8 of them times x and 8 times y, to where copies read them when the last ones have. */
template <bool FP16> S2_DEVICE void window_put_rows(uint32_t out, const float *d, float x, float y, int lane)
{
    const uint32_t at = (lane & 15) * 128 + (lane >> 4) * 16;
    if (lane == 0)
        bulk_wait_read<0>();
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j)
        stmatrix_x4(out + swizzle128(at + j * 32), pack2<FP16>(d[8 * j] * x, d[8 * j + 1] * x),
                    pack2<FP16>(d[8 * j + 2] * y, d[8 * j + 3] * y),
                    pack2<FP16>(d[8 * j + 4] * x, d[8 * j + 5] * x),
                    pack2<FP16>(d[8 * j + 6] * y, d[8 * j + 7] * y));
    fence_async_shared();
    __syncwarp();
}

template <bool FP16> struct WindowConsumer {
    static constexpr int COLUMNS = WindowShared::WINDOW + WindowShared::POSITIONS, S = COLUMNS / 2;
    const WindowParams &p;
    const WindowShared &sh;
    const int wg, warp, lane;
    float o[32], maximum[2], sum[2], keep[2];

    S2_DEVICE WindowConsumer(const WindowParams &p_, const WindowShared &sh_, int wg_, int thread)
        : p(p_), sh(sh_), wg(wg_), warp(__shfl_sync(0xffffffffu, thread >> 5, 0)), lane(thread & 31)
    {
    }
    S2_DEVICE void release(uint32_t bar)
    {
        __syncwarp();
        mbar_arrive_if(bar, lane == 0);
    }
    /* S to exponentials, both rows side by side. Every row reads at least its own position. */
    S2_DEVICE void softmax(float *s)
    {
        float top[2][4], part[2][2] = {};
#pragma unroll
        for (int at = 0; at < 8; ++at)
            top[at >> 1 & 1][(at >> 2) * 2 + (at & 1)] = s[at];
#pragma unroll
        for (int at = 8; at < S; ++at) {
            float &t = top[at >> 1 & 1][(at >> 2 & 1) * 2 + (at & 1)];
            t = fmaxf(t, s[at]);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = fmaxf(fmaxf(top[r][0], top[r][1]), fmaxf(top[r][2], top[r][3]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
            maximum[r] = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2)) * p.scale_log2;
        }
#pragma unroll
        for (int at = 0; at < S; ++at) {
            s[at] = exp2_fast(fmaf(s[at], p.scale_log2, -maximum[at >> 1 & 1]));
            part[at >> 1 & 1][at & 1] += s[at];
        }
        sum[0] = part[0][0] + part[0][1];
        sum[1] = part[1][0] + part[1][1];
    }
    /* The sums of rows, with their sinks; `keep` is what O is multiplied by. A sum is at least 1 - 2^-22. */
    S2_DEVICE void finish_sums(float sink)
    {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);
            sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);
            const float peak = fmaxf(maximum[r], sink), scaled = exp2_fast(maximum[r] - peak);
            sum[r] = fmaf(sum[r], scaled, exp2_fast(sink - peak));
            maximum[r] = peak;
            keep[r] = scaled * rcp_fast(sum[r]);
        }
        order_after(keep[0] + keep[1], sh.scratch);
    }
    /* O and LSE; `row` is the query of the unit's first position. A copy takes the 8 heads of a position. */
    S2_DEVICE void store(const WindowItem &item, int row)
    {
        const uint32_t rows = sh.out + wg * WindowShared::Q_BYTES + warp * 2048;
        float *const lse = p.lse + p.lse_head * (item.head + (lane >> 2)) + item.lse;
        window_put_rows<FP16>(rows, o, keep[0], keep[1], lane);
        const CUtensorMap *const map = p.maps + 4 * item.seq + 3;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int query = row + 2 * warp + r;
            if (query < 0 || query >= item.n_queries)
                continue;
            if (lane == 0)
                tma_store_3d(map, rows + r * 1024, 0, item.head, query);
            if ((lane & 3) == 0)
                lse[query] = (maximum[r] + log2_fast(sum[r])) * LN_2;
        }
        if (lane == 0)
            bulk_commit();
    }
    S2_DEVICE WindowItem item_of(uint32_t buffer) const
    {
        const int4 a = load_shared4(sh.items + buffer * 32), b = load_shared4(sh.items + buffer * 32 + 16);
        return WindowItem{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    }
    S2_DEVICE void unit(int turn, int half)
    {
        constexpr int UNITS = WindowShared::UNITS;
        const uint32_t buffer = turn & 1, unit = wg * UNITS + half;
        float s[S];
        uint32_t pa[(COLUMNS + 8) / 4];
        mbar_wait(sh.q_full + 8 * unit, turn & 1);
        window_issue_scores<FP16>(s, sh.q + unit * WindowShared::Q_BYTES,
                                  sh.k + buffer * WindowShared::K_BYTES + unit * 1024);
        wg_wait<0>();
        wg_pin<S>(s);
        const WindowItem item = item_of(buffer);
        const float sink =
            p.sink != nullptr ? __ldg(p.sink + item.head + (lane >> 2)) * LOG2_E : -CUDART_INF_F;
        release(sh.q_empty + 8 * unit);
        if (half == UNITS - 1)
            release(sh.k_empty + 8 * buffer);
        window_drop(s, item.pos + (int)unit * WindowShared::POSITIONS, p.window_tok, warp, lane);
        softmax(s);
#pragma unroll
        for (int word = 0; word < S / 2; ++word)
            pa[word] = pack2<FP16>(s[2 * word], s[2 * word + 1]);
        pa[S / 2] = pa[S / 2 + 1] = 0;
        if (half == 0)
            mbar_wait(sh.v_full + 8 * buffer, (turn >> 1) & 1);
        window_issue_sums<FP16>(o, pa, sh.v + buffer * WindowShared::V_BYTES + unit * 1024);
        finish_sums(sink);
        wg_wait<0>();
        wg_pin<32>(o);
        if (half == UNITS - 1)
            release(sh.v_empty + 8 * buffer);
        store(item, item.row + (int)unit * WindowShared::POSITIONS);
    }
    S2_DEVICE void run()
    {
        int turn = 0;
#pragma unroll 1
        for (int at = blockIdx.x; at < p.n_items; at += gridDim.x, ++turn) {
            mbar_wait(sh.k_full + 8 * (turn & 1), (turn >> 1) & 1);
            if (p.moved && lane == 0)
                fence_map(p.maps + 4 * load_shared4(sh.items + (turn & 1) * 32).z + 3);
#pragma unroll 1
            for (int half = 0; half < WindowShared::UNITS; ++half)
                unit(turn, half);
        }
        if (lane == 0)
            bulk_wait<0>();
    }
};

/* Barriers, and the zeros behind the keys of two items; the next launch may begin. */
template <class Shared> S2_DEVICE void window_begin(const Shared &sh, uint32_t zeros, uint32_t item_bytes)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (threadIdx.x == 0)
        sh.init();
    if (threadIdx.x < 128)
        store_shared4(zeros + (threadIdx.x >> 6) * item_bytes + (threadIdx.x & 63) * 16,
                      make_int4(0, 0, 0, 0));
    fence_async_shared();
    __syncthreads();
}

template <bool FP16>
__global__ void __launch_bounds__(WindowShared::THREADS, 1)
    fwd_sm90_window(const __grid_constant__ WindowParams p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const WindowShared sh(raw);
    const int wg = __shfl_sync(0xffffffffu, threadIdx.x >> 7, 0);
    window_begin(sh, sh.v + WindowShared::KEYS * 128, WindowShared::V_BYTES);
    if (wg == WindowShared::CONSUMERS) {
        registers_lower<24>();
        const int job = __shfl_sync(0xffffffffu, (threadIdx.x >> 5) & 3, 0);
        if ((threadIdx.x & 31) == 0) {
            asm volatile("griddepcontrol.wait;" ::: "memory");
            if (job < 2)
                window_load_keys(p, sh, job == 0);
            else
                window_load_queries(p, sh, job - 2);
        }
    } else {
        registers_raise<112>();
        WindowConsumer<FP16> consumer(p, sh, wg, threadIdx.x & 127);
        consumer.run();
    }
#endif
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM90_WINDOW_CUH */
