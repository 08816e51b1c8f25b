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
 *     page_scores   a warp four pages, all loads first; reads 4 * D bytes a page
 *     choose_pages  a block a list: radix selection of the scores in shared memory, ids written ascending
 * Limits: 16 rows a list, S2_SELECT_LIMIT_PAGES pages a list.
 */
#ifndef S2_KERNELS_CUDA_SELECT_CUH
#define S2_KERNELS_CUDA_SELECT_CUH

#include "kernels/cuda/decode.cuh"

namespace s2
{

enum { SELECT_ROWS = 16, SELECT_PAGES_A_WARP = 4, SCORE_THREADS = 256, CHOOSE_THREADS = 1024 };

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

template <bool FP16>
__global__ void __launch_bounds__(SCORE_THREADS) page_scores(const __grid_constant__ SelectParams p)
{
    __shared__ float q[SELECT_ROWS][256];
    const int index = blockIdx.y, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const DecodeList &list = p.lists[index];
    const int n_rows = list.n_rows, n = p.n_pages[index] - 1;
    const int first = (blockIdx.x * (SCORE_THREADS / 32) + warp) * SELECT_PAGES_A_WARP;
    let_next_launch_begin();
    wait_for_launch_before();
    for (int x = threadIdx.x; x < n_rows * p.head_dim / 2; x += SCORE_THREADS) {
        const int row = x / (p.head_dim / 2), d = x % (p.head_dim / 2) * 2, token = row / p.group;
        const uint16_t *const from = p.q + list.q + token * p.q_tok + (row - token * p.group) * p.q_head + d;
        *(float2 *)&q[row][d] = unpack2<FP16>(*(const uint32_t *)from);
    }
    __syncthreads();
    const uint16_t *const bounds = p.bounds + (size_t)index * p.page_cap * 2 * p.head_dim;
    float best[SELECT_PAGES_A_WARP];
    float2 low[SELECT_PAGES_A_WARP][4], high[SELECT_PAGES_A_WARP][4];
#pragma unroll
    for (int x = 0; x < SELECT_PAGES_A_WARP; ++x) {
        best[x] = -CUDART_INF_F;
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const int d = step * 64 + lane * 2;
            const bool on = first + x < n && d < p.head_dim;
            const uint16_t *const from = bounds + (size_t)(first + x) * 2 * p.head_dim + d;
            low[x][step] = on ? unpack2<FP16>(__ldg((const uint32_t *)from)) : make_float2(0.f, 0.f);
            high[x][step] =
                on ? unpack2<FP16>(__ldg((const uint32_t *)(from + p.head_dim))) : make_float2(0.f, 0.f);
        }
    }
    for (int row = 0; row < n_rows; ++row)
#pragma unroll
        for (int x = 0; x < SELECT_PAGES_A_WARP; ++x) {
            float score = 0.f;
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                const int d = step * 64 + lane * 2;
                if (d < p.head_dim) {
                    const float2 y = *(const float2 *)&q[row][d];
                    score += fmaxf(y.x * low[x][step].x, y.x * high[x][step].x);
                    score += fmaxf(y.y * low[x][step].y, y.y * high[x][step].y);
                }
            }
#pragma unroll
            for (int from = 16; from > 0; from >>= 1)
                score += __shfl_xor_sync(~0u, score, from);
            best[x] = fmaxf(best[x], score);
        }
#pragma unroll
    for (int x = 0; x < SELECT_PAGES_A_WARP; ++x)
        if (lane == x && first + x < n)
            p.scores[(size_t)index * p.page_cap + first + x] = ordered(best[x]);
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
