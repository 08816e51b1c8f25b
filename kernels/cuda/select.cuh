/*
 * kernels/cuda/select.cuh - page selection on the device (Quest): the query itself chooses which pages are
 * read.
 *
 *     bounds  [list][page][minimum, maximum][d] of the keys of each whole page, in the storage type
 *     score   of a page: an upper bound of q . k, over the rows and keys inside the bounds
 *     chosen  the newest page, which may still grow, and the budget's best of the others; ties go to the
 *             lower page
 *
 * One launch before the decode kernel, which then finds its slabs where this one wrote them:
 *     scores  16 pages per warp on the tensor cores, all loads first; reads 4 * D bytes per page
 *     choice  by the block of a list that arrives last: a radix select on the bits in which scores differ,
 *             eight at a time from the top, until a whole bin is chosen; slabs are written with pages
 *             ascending
 * Shared memory: 6 bytes per page. Limits: 16 rows and S2_SELECT_LIMIT_PAGES pages per list.
 */
#ifndef S2_KERNELS_CUDA_SELECT_CUH
#define S2_KERNELS_CUDA_SELECT_CUH

#include "kernels/cuda/decode_rows.cuh"

namespace s2
{

enum {
    SELECT_ROWS = 16,
    SELECT_PAGES_A_WARP = 16,
    SELECT_THREADS = 256, /* one bin of the choice each */
    SELECT_WARPS = SELECT_THREADS / 32,
    SELECT_PAGES = SELECT_WARPS * SELECT_PAGES_A_WARP /* of a block */
};

struct SelectParams {
    const DecodeList *lists;
    const int32_t *n_pages; /* [list], the newest included */
    const uint2 *places;    /* [list][page_cap]: K and V of a page's first key, in units of 16 bytes */
    const uint16_t *q;
    uint16_t *bounds;  /* [list][page_cap][2][head_dim] */
    uint32_t *scores;  /* [list][page_cap], ordered as integers */
    uint32_t *arrived; /* [list] blocks, zero between launches */
    DecodeSlab *slabs;
    int64_t q_tok, q_head;
    const uint8_t *k;
    uint32_t k_row_bytes, v_row_bytes;
    int32_t page_cap, page_tok, budget, group, head_dim;
};

template <bool FP16> S2_DEVICE float2 unpack2(uint32_t x)
{
    float2 y;
    if constexpr (FP16)
        asm("{.reg .f16 a, b;\n mov.b32 {a, b}, %2;\n cvt.f32.f16 %0, a;\n cvt.f32.f16 %1, b;}"
            : "=f"(y.x), "=f"(y.y)
            : "r"(x));
    else
        y = make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
    return y;
}
/* A float as an integer that compares the same. */
S2_DEVICE uint32_t ordered(float x)
{
    const uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A block per page and list, two numbers of the head dimension per thread. Only whole pages are bounded. */
template <bool FP16> __global__ void page_bounds(const __grid_constant__ SelectParams p)
{
    const int page = blockIdx.x, list = blockIdx.y, d = 2 * threadIdx.x;
    if (page + 1 >= p.n_pages[list] || d >= p.head_dim)
        return;
    const uint2 place = p.places[(size_t)list * p.page_cap + page];
    const uint8_t *const from = p.k + (size_t)place.x * 16 + d * 2;
    float2 low = {CUDART_INF_F, CUDART_INF_F}, high = {-CUDART_INF_F, -CUDART_INF_F};
    for (int key = 0; key < p.page_tok; ++key) {
        const float2 x = unpack2<FP16>(*(const uint32_t *)(from + (size_t)key * p.k_row_bytes));
        low = make_float2(fminf(low.x, x.x), fminf(low.y, x.y));
        high = make_float2(fmaxf(high.x, x.x), fmaxf(high.y, x.y));
    }
    uint16_t *const to = p.bounds + ((size_t)list * p.page_cap + page) * 2 * p.head_dim + d;
    *(uint32_t *)to = pack2<FP16>(low.x, low.y);
    *(uint32_t *)(to + p.head_dim) = pack2<FP16>(high.x, high.y);
}

/* 16 pages of a warp and 128 numbers of the head dimension, as the tensor cores' A; lane (g, t) holds numbers
 * t * 8 .. t * 8 + 7 of every 32 of pages g and g + 8: a sum over d may be in any order. */
struct Bounds {
    uint4 low[4][2], high[4][2];
};
S2_DEVICE void load_bounds(const SelectParams &p, const uint16_t *bounds, int first, int n, int span,
                           Bounds *out)
{
    const int lane = threadIdx.x & 31;
    const uint4 none = {0, 0, 0, 0};
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int page = first + (lane >> 2) + half * 8, d = span + step * 32 + (lane & 3) * 8;
            const bool on = page < n && d < p.head_dim;
            const uint16_t *const from = bounds + (size_t)page * 2 * p.head_dim + d;
            out->low[step][half] = on ? __ldg((const uint4 *)from) : none;
            out->high[step][half] = on ? __ldg((const uint4 *)(from + p.head_dim)) : none;
        }
}
/* Keeps those of two numbers that are below zero, or the others; zeros elsewhere. */
S2_DEVICE uint32_t of_sign(uint32_t x, bool below)
{
    const uint32_t negative = (x >> 15 & 0x00010001u) * 0xffffu;
    return x & (below ? negative : ~negative);
}
template <bool FP16> S2_DEVICE void add_product(float *c, const uint4 (&a)[2], uint4 q, bool below)
{
    const uint32_t first[4] = {a[0].x, a[1].x, a[0].y, a[1].y}, second[4] = {a[0].z, a[1].z, a[0].w, a[1].w};
    mma_16816<FP16>(c, first, of_sign(q.x, below), of_sign(q.y, below));
    mma_16816<FP16>(c, second, of_sign(q.z, below), of_sign(q.w, below));
}
/*
 * max(q low, q high) is q high where q is not below zero, else q low: two matrix products. Keys are finite.
 */
template <bool FP16>
S2_DEVICE void score_rows(const SelectParams &p, const DecodeList &list, const Bounds &bounds, int span,
                          int tile, float *c)
{
    const int lane = threadIdx.x & 31, row = tile * 8 + (lane >> 2), token = row / p.group;
    const uint16_t *const from = p.q + list.q + token * p.q_tok + (row - token * p.group) * p.q_head;
    const uint4 none = {0, 0, 0, 0};
    uint4 q[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const int d = span + step * 32 + (lane & 3) * 8;
        q[step] = row < list.n_rows && d < p.head_dim ? __ldg((const uint4 *)(from + d)) : none;
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        add_product<FP16>(c, bounds.low[step], q[step], true);
        add_product<FP16>(c, bounds.high[step], q[step], false);
    }
}
/* The best of the rows for each of the warp's pages. */
S2_DEVICE void store_scores(const SelectParams &p, const DecodeList &list, int index, int first, int n,
                            const float (&c)[SELECT_ROWS / 8][4])
{
    const int lane = threadIdx.x & 31;
    float best[2] = {-CUDART_INF_F, -CUDART_INF_F};
#pragma unroll
    for (int x = 0; x < SELECT_ROWS / 8 * 4; ++x)
        if (x / 4 * 8 + (lane & 3) * 2 + (x & 1) < list.n_rows)
            best[x >> 1 & 1] = fmaxf(best[x >> 1 & 1], c[x / 4][x & 3]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], 1));
        best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], 2));
        const int page = first + (lane >> 2) + half * 8;
        if ((lane & 3) == half && page < n)
            p.scores[(size_t)index * p.page_cap + page] = ordered(best[half]);
    }
}

/*
 * Pages of a warp, 16 at a time, the next ones' bounds in flight. Bounds are as old as the plan: the first
 * are fetched before the previous launch has ended, queries after it.
 */
template <bool FP16>
S2_DEVICE void score_pages(const SelectParams &p, const DecodeList &list, int index, int n)
{
    const int step = gridDim.x * SELECT_PAGES;
    const uint16_t *const from = p.bounds + (size_t)index * p.page_cap * 2 * p.head_dim;
    int first = blockIdx.x * SELECT_PAGES + (threadIdx.x >> 5) * SELECT_PAGES_A_WARP, span = 0;
    float c[SELECT_ROWS / 8][4] = {};
    Bounds bounds, next;
    load_bounds(p, from, first, n, 0, &bounds);
    wait_for_launch_before();
    while (first < n) {
        const bool whole = span + 128 >= p.head_dim;
        load_bounds(p, from, whole ? first + step : first, n, whole ? 0 : span + 128, &next);
#pragma unroll
        for (int tile = 0; tile < SELECT_ROWS / 8; ++tile)
            if (tile * 8 < list.n_rows)
                score_rows<FP16>(p, list, bounds, span, tile, c[tile]);
        if (whole) {
            store_scores(p, list, index, first, n, c);
#pragma unroll
            for (int x = 0; x < SELECT_ROWS / 2; ++x)
                c[x / 4][x & 3] = 0.f;
            first += step;
        }
        span = whole ? 0 : span + 128;
        bounds = next;
    }
}

/* What the threads of a block share while one of them chooses for a list. */
struct Choice {
    uint32_t counts[256], of_warp[SELECT_WARPS], digit, above, equal;
    int last;
};
/* The sum over the threads before this one; two calls need at least one barrier between them. */
S2_DEVICE uint32_t sum_before(uint32_t own, uint32_t *of_warp)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    uint32_t until = own;
#pragma unroll
    for (int x = 1; x < 32; x <<= 1) {
        const uint32_t other = __shfl_up_sync(~0u, until, x);
        until += lane >= x ? other : 0u;
    }
    if (lane == 31)
        of_warp[warp] = until;
    __syncthreads();
    uint32_t before = until - own;
#pragma unroll
    for (int w = 0; w < SELECT_WARPS; ++w)
        before += w < warp ? of_warp[w] : 0u;
    return before;
}
/* Selects the `want` best of n scores: those whose bits under the mask exceed the prefix, and the first
 * `equal` scores whose bits are the prefix. */
struct Threshold {
    uint32_t prefix, mask, equal;
};
/* Scores of one list are close together: bits in which none differs are skipped. */
S2_DEVICE Threshold find_threshold(const uint32_t *scores, int n, uint32_t want, Choice *shared)
{
    uint32_t differ = 0;
    for (int at = threadIdx.x; at < n; at += SELECT_THREADS)
        differ |= scores[at] ^ scores[0];
    shared->counts[threadIdx.x] = 0;
    differ = __reduce_or_sync(~0u, differ);
    if ((threadIdx.x & 31) == 0)
        shared->of_warp[threadIdx.x >> 5] = differ;
    __syncthreads();
    for (int w = 0; w < SELECT_WARPS; ++w)
        differ |= shared->of_warp[w];
    Threshold made = {0, differ == 0 ? ~0u : ~(~0u >> __clz((int)differ)), want};
    made.prefix = scores[0] & made.mask;
    for (int shift = max(24 - __clz((int)differ), 0);; shift = max(shift - 8, 0)) {
        for (int at = threadIdx.x; at < n; at += SELECT_THREADS)
            if ((scores[at] & made.mask) == made.prefix)
                atomicAdd(&shared->counts[scores[at] >> shift & 255u], 1u);
        __syncthreads();
        const int bin = 255 - threadIdx.x;
        const uint32_t own = shared->counts[bin], above = sum_before(own, shared->of_warp);
        shared->counts[bin] = 0;
        if (above < made.equal && made.equal <= above + own) {
            shared->digit = bin;
            shared->above = above;
            shared->equal = own;
        }
        __syncthreads();
        made.prefix |= shared->digit << shift;
        made.mask |= 255u << shift;
        made.equal -= shared->above;
        if (shift == 0 || shared->equal == made.equal)
            return made;
    }
}
/* Each thread looks at adjacent pages, so that ranks follow the order of pages. */
S2_DEVICE void rank_pages(const uint32_t *scores, int n, Threshold bound, Choice *shared, uint16_t *chosen)
{
    const int each = (n + SELECT_THREADS - 1) / SELECT_THREADS | 1; /* odd: a different bank per thread */
    const int begin = threadIdx.x * each;
    const int end = min(begin + each, n);
    uint32_t counts = 0; /* above the prefix, and 65536 for each that is equal */
    for (int page = begin; page < end; ++page) {
        const uint32_t bits = scores[page] & bound.mask;
        counts += bits > bound.prefix ? 1u : bits == bound.prefix ? 65536u : 0u;
    }
    const uint32_t before = sum_before(counts, shared->of_warp);
    uint32_t above = before & 65535u, equal = before >> 16;
    for (int page = begin; page < end; ++page) {
        const uint32_t bits = scores[page] & bound.mask;
        if (bits > bound.prefix || (bits == bound.prefix && equal < bound.equal))
            chosen[above + min(equal, bound.equal)] = (uint16_t)page;
        above += bits > bound.prefix;
        equal += bits == bound.prefix;
    }
}
S2_DEVICE void choose_pages(const SelectParams &p, const DecodeList &list, int index, int n, uint32_t *scores,
                            Choice *shared)
{
    const int want = min(p.budget - 1, n), page_slabs = p.page_tok / DECODE_KEYS;
    uint16_t *const chosen = (uint16_t *)(scores + p.page_cap);
    if (want <= 0)
        return;
    for (int at = threadIdx.x; at < n; at += SELECT_THREADS)
        scores[at] = __ldcg(p.scores + (size_t)index * p.page_cap + at);
    __syncthreads();
    Threshold bound = {0, 0, (uint32_t)want}; /* all of them */
    if (want < n)
        bound = find_threshold(scores, n, (uint32_t)want, shared);
    __syncthreads();
    rank_pages(scores, n, bound, shared, chosen);
    __syncthreads();
    DecodeSlab *const out = p.slabs + list.slab_begin;
    for (int at = threadIdx.x; at < want * page_slabs; at += SELECT_THREADS) {
        const int slab = at % page_slabs;
        const uint2 place = __ldg(p.places + (size_t)index * p.page_cap + chosen[at / page_slabs]);
        out[at] =
            DecodeSlab{place.x + slab * p.k_row_bytes, place.y + slab * p.v_row_bytes, -1, DECODE_ALL_LIVE};
    }
}
S2_DEVICE void fetch_ahead(const void *from)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#else
    (void)from;
#endif
}
template <bool FP16>
__global__ void __launch_bounds__(SELECT_THREADS, 1) select_pages(const __grid_constant__ SelectParams p)
{
    extern __shared__ uint32_t scores[];
    __shared__ Choice shared;
    const int index = blockIdx.y, n = p.n_pages[index] - 1;
    const DecodeList list = p.lists[index];
    let_next_launch_begin();
    for (int at = (blockIdx.x * SELECT_THREADS + threadIdx.x) * 16; at < n;
         at += gridDim.x * SELECT_THREADS * 16)
        fetch_ahead(p.places + (size_t)index * p.page_cap + at);
    score_pages<FP16>(p, list, index, n);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        shared.last = atomicAdd(p.arrived + index, 1u) + 1 == (uint32_t)gridDim.x;
        __threadfence();
        if (shared.last)
            p.arrived[index] = 0;
    }
    __syncthreads();
    if (shared.last)
        choose_pages(p, list, index, n, scores, &shared);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_SELECT_CUH */
