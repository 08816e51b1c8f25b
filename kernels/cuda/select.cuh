/*
 * kernels/cuda/select.cuh - page selection on the device (Quest): the query itself chooses which pages are
 * read.
 *
 *     bounds  [list][page][minimum, maximum][d] of the keys of each whole page, in the storage type
 *     score   of a page: the most that any row's q . k can be for a key inside the bounds
 *     chosen  the newest page, which may still grow, and the budget's best of the others; ties to the lower
 * page
 *
 * Two launches before the decode kernel, which then finds its slabs where the second one wrote them:
 *     page_scores   a warp 16 pages on the tensor cores, all loads first; reads 4 * D bytes a page
 *     choose_pages  a block a list: radix selection of the scores in shared memory, ids written ascending
 * Limits: 16 rows a list, S2_SELECT_LIMIT_PAGES pages a list.
 */
#ifndef S2_KERNELS_CUDA_SELECT_CUH
#define S2_KERNELS_CUDA_SELECT_CUH

#include "kernels/cuda/decode.cuh"

namespace s2
{

enum { SELECT_ROWS = 16, SELECT_PAGES_A_WARP = 16, SCORE_THREADS = 64, CHOOSE_THREADS = 1024 };

struct SelectParams {
    const DecodeList *lists;
    const int32_t *n_pages; /* [list], the newest with them */
    const uint2 *places;    /* [list][page_cap]: K and V of a page's first key, in 16 bytes */
    const uint16_t *q;
    uint16_t *bounds; /* [list][page_cap][2][head_dim] */
    uint32_t *scores; /* [list][page_cap], ordered as integers */
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
/* A float as an integer of the same order. */
S2_DEVICE uint32_t ordered(float x)
{
    const uint32_t bits = __float_as_uint(x);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* A block a page and list, a thread two numbers of the head dimension. Only whole pages are bounded. */
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

/* 16 pages of a warp and 128 numbers of the head dimension, as the tensor cores' A; lane (g, t) holds of
 * pages g and g + 8 the numbers t * 8 .. t * 8 + 7 of every 32: the order of a sum over d is free. */
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
/* The numbers below zero of two, or the others; zeros elsewhere. */
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
/* max(q low, q high) is q high where q is not below zero, else q low: two matrix products. Keys are finite.
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
/* Bounds are as old as the plan: they are fetched before the launch before has ended, queries after. */
template <bool FP16>
__global__ void __launch_bounds__(SCORE_THREADS) page_scores(const __grid_constant__ SelectParams p)
{
    const int index = blockIdx.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const DecodeList &list = p.lists[index];
    const int n = p.n_pages[index] - 1, n_rows = list.n_rows;
    const int first = (blockIdx.x * (SCORE_THREADS / 32) + warp) * SELECT_PAGES_A_WARP;
    const uint16_t *const from = p.bounds + (size_t)index * p.page_cap * 2 * p.head_dim;
    float c[SELECT_ROWS / 8][4] = {};
    Bounds bounds;
    let_next_launch_begin();
    load_bounds(p, from, first, n, 0, &bounds);
    wait_for_launch_before();
    for (int span = 0; span < p.head_dim; span += 128) {
        if (span > 0)
            load_bounds(p, from, first, n, span, &bounds);
#pragma unroll
        for (int tile = 0; tile < SELECT_ROWS / 8; ++tile)
            if (tile * 8 < n_rows)
                score_rows<FP16>(p, list, bounds, span, tile, c[tile]);
    }
    float best[2] = {-CUDART_INF_F, -CUDART_INF_F};
#pragma unroll
    for (int x = 0; x < SELECT_ROWS / 8 * 4; ++x)
        if (x / 4 * 8 + (lane & 3) * 2 + (x & 1) < n_rows)
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

/* By one warp: the bin, from the top, in which the want-th score lies; every lane looks at eight bins. */
S2_DEVICE void find_bin(const uint32_t *counts, uint32_t want, uint32_t prefix, int shift, uint32_t *found)
{
    const int lane = threadIdx.x, top = 255 - 8 * lane;
    uint32_t own = 0;
    for (int x = 0; x < 8; ++x)
        own += counts[top - x];
    uint32_t until = own;
    for (int x = 1; x < 32; x <<= 1) {
        const uint32_t other = __shfl_up_sync(~0u, until, x);
        until += lane >= x ? other : 0u;
    }
    uint32_t above = until - own;
    if (above >= want || until < want)
        return;
    int bin = top;
    while (above + counts[bin] < want)
        above += counts[bin--];
    found[0] = prefix | (uint32_t)bin << shift;
    found[1] = want - above;
}

/* The value of the want-th largest score, and how many equal to it are still to be taken. */
S2_DEVICE uint2 find_threshold(const uint32_t *scores, int n, int want, uint32_t *counts, uint32_t *found)
{
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int bin = threadIdx.x; bin < 256; bin += CHOOSE_THREADS)
            counts[bin] = 0;
        __syncthreads();
        for (int at = threadIdx.x; at < n; at += CHOOSE_THREADS)
            if ((scores[at] & mask) == prefix)
                atomicAdd(&counts[scores[at] >> shift & 255u], 1u);
        __syncthreads();
        if (threadIdx.x < 32)
            find_bin(counts, (uint32_t)want, prefix, shift, found);
        __syncthreads();
        prefix = found[0];
        want = (int)found[1];
        mask |= 255u << shift;
        __syncthreads();
    }
    return make_uint2(prefix, (uint32_t)want);
}

/* How many threads before this one say yes; *all: how many in the block. */
S2_DEVICE uint32_t rank_of(bool yes, uint32_t *of_warp, uint32_t *all)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const uint32_t votes = __ballot_sync(~0u, yes);
    if (lane == 0)
        of_warp[warp] = __popc(votes);
    __syncthreads();
    uint32_t before = 0, total = 0;
    for (int w = 0; w < CHOOSE_THREADS / 32; ++w) {
        before += w < warp ? of_warp[w] : 0u;
        total += of_warp[w];
    }
    __syncthreads();
    *all = total;
    return before + __popc(votes & ((1u << lane) - 1u));
}

__global__ void __launch_bounds__(CHOOSE_THREADS, 1) choose_pages(const __grid_constant__ SelectParams p)
{
    extern __shared__ uint32_t scores[];
    __shared__ uint32_t counts[256], of_warp[CHOOSE_THREADS / 32], found[2];
    const int index = blockIdx.x, n = p.n_pages[index] - 1, want = min(p.budget - 1, n);
    const DecodeList &list = p.lists[index];
    let_next_launch_begin();
    wait_for_launch_before();
    for (int at = threadIdx.x; at < n; at += CHOOSE_THREADS)
        scores[at] = __ldcg(p.scores + (size_t)index * p.page_cap + at);
    __syncthreads();
    uint2 bound = {0, 0};
    if (want < n && want > 0)
        bound = find_threshold(scores, n, want, counts, found);
    const int page_slabs = p.page_tok / DECODE_KEYS;
    uint32_t n_equal = 0, n_chosen = 0;
    for (int begin = 0; begin < n && want > 0; begin += CHOOSE_THREADS) {
        const int page = begin + threadIdx.x;
        const bool in = page < n;
        uint32_t equals, taken;
        const bool equal = in && want < n && scores[page] == bound.x;
        const uint32_t nth = n_equal + rank_of(equal, of_warp, &equals);
        const bool yes = in && (want == n || scores[page] > bound.x || (equal && nth < bound.y));
        const uint32_t to = n_chosen + rank_of(yes, of_warp, &taken);
        n_equal += equals;
        n_chosen += taken;
        if (!yes)
            continue;
        const uint2 place = p.places[(size_t)index * p.page_cap + page];
        DecodeSlab *const out = p.slabs + list.slab_begin + (size_t)to * page_slabs;
        for (int slab = 0; slab < page_slabs; ++slab)
            out[slab] = DecodeSlab{place.x + slab * p.k_row_bytes, place.y + slab * p.v_row_bytes, -1,
                                   DECODE_ALL_LIVE};
    }
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_SELECT_CUH */
