/*
 * select_host - the device code of page selection (kernels/cuda/select.cuh), run on the host: its threads are
 * fibers, so a machine without a GPU runs the very lines that a GPU would. Built with the address and
 * undefined-behaviour sanitizers over memory of exactly the size that kernels/cuda/decode.cu allocates.
 *
 * What is chosen is compared with the definition of kernels/select.h. Keys and queries are small integers, so
 * that every sum is exact in any order, and ties are frequent.
 *
 * Not shown: what hardware adds (launches that overlap, the memory model), FP16 conversions, the host's code
 * in decode.cu. usage: select_host [SEED]    last line: N passed, N failed
 */
#include "tests/kcheck/fibers.hpp"

#include <stdio.h>
#include <stdlib.h>

#include <memory>

enum { UNTOUCHED = 0x7b };

/* ------------------------------------------------------------------ the device code */

#include "kernels/cuda/select.cuh"

namespace s2
{
thread_local uint32_t scores[16384 * 3 / 2];
} // namespace s2

/* ------------------------------------------------------------------ a case and its definition */

struct Case {
    int head_dim, n_rows, group, page_tok, budget;
    int spread;             /* values in [-spread, spread] */
    bool opposed;           /* no key above zero, no query below it: no score above it */
    std::vector<int> k_tok; /* [list] */
};

static uint64_t drawn;
static int draw(int below)
{
    drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((drawn >> 33) % (uint64_t)below);
}
static uint16_t bits_of(int x)
{
    return (uint16_t)(__float_as_uint((float)x) >> 16);
}
static float value_of(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

/* As kernels/cuda/decode.cu lays them out; every list's pages lie anywhere, as in a cache. */
struct Memory {
    int n_lists, page_cap = 1;
    std::vector<int32_t> n_pages;
    std::vector<s2::DecodeList> lists;
    std::unique_ptr<uint2[]> places;
    std::unique_ptr<uint16_t[]> k, q, bounds;
    std::unique_ptr<uint32_t[]> scores, arrived;
    std::unique_ptr<s2::DecodeSlab[]> slabs;
    int n_slabs = 0;
};

static uint16_t draw_bits(const Case &c, int sign)
{
    const int x = draw(2 * c.spread + 1) - c.spread;
    return bits_of(c.opposed ? sign * abs(x) : x);
}

static void lay_out(const Case &c, Memory *m)
{
    const int page_slabs = c.page_tok / 16, row = c.head_dim;
    m->n_lists = (int)c.k_tok.size();
    int n_all = 0;
    for (int k_tok : c.k_tok) {
        m->n_pages.push_back((k_tok - 1) / c.page_tok + 1);
        m->page_cap = max(m->page_cap, m->n_pages.back());
        n_all += m->n_pages.back();
    }
    m->k.reset(new uint16_t[(size_t)n_all * (size_t)c.page_tok * (size_t)row]);
    m->q.reset(new uint16_t[(size_t)m->n_lists * (size_t)c.n_rows * (size_t)row]);
    for (int x = 0; x < n_all * c.page_tok * row; x++)
        m->k[x] = draw_bits(c, -1);
    for (int x = 0; x < m->n_lists * c.n_rows * row; x++)
        m->q[x] = draw_bits(c, 1);
    std::vector<int> order(n_all);
    for (int x = 0; x < n_all; x++)
        order[x] = x;
    for (int x = n_all - 1; x > 0; x--)
        std::swap(order[x], order[draw(x + 1)]);
    m->places.reset(new uint2[(size_t)m->n_lists * (size_t)m->page_cap]());
    for (int list = 0, next = 0; list < m->n_lists; list++) {
        s2::DecodeList made = {};
        made.q = (int64_t)list * c.n_rows * row;
        made.n_rows = c.n_rows;
        made.slab_begin = m->n_slabs;
        for (int page = 0; page < m->n_pages[list]; page++, next++) {
            const uint32_t at = (uint32_t)(order[next] * c.page_tok * row / 8);
            m->places[list * m->page_cap + page] = {at, at + 7};
        }
        const int n = min(c.budget, m->n_pages[list]);
        m->n_slabs += (n - 1) * page_slabs + (c.k_tok[list] - 1) % c.page_tok / 16 + 1;
        made.slab_end = m->n_slabs;
        m->lists.push_back(made);
    }
    const size_t n = (size_t)m->n_lists * (size_t)m->page_cap;
    m->bounds.reset(new uint16_t[n * 2 * (size_t)c.head_dim]);
    memset(m->bounds.get(), UNTOUCHED, n * 4 * (size_t)c.head_dim);
    m->scores.reset(new uint32_t[n]);
    m->arrived.reset(new uint32_t[m->n_lists]());
    m->slabs.reset(new s2::DecodeSlab[m->n_slabs]());
}

static s2::SelectParams params;

static void select(const Case &c, Memory *m)
{
    params = {};
    params.lists = m->lists.data();
    params.n_pages = m->n_pages.data();
    params.places = m->places.get();
    params.q = m->q.get();
    params.bounds = m->bounds.get();
    params.scores = m->scores.get();
    params.arrived = m->arrived.get();
    params.slabs = m->slabs.get();
    params.q_tok = c.group * c.head_dim;
    params.q_head = c.head_dim;
    params.k = (const uint8_t *)m->k.get();
    params.k_row_bytes = params.v_row_bytes = (uint32_t)c.head_dim * 2;
    params.page_cap = m->page_cap;
    params.page_tok = c.page_tok;
    params.budget = c.budget;
    params.group = c.group;
    params.head_dim = c.head_dim;
    const int n_blocks = min((m->page_cap + s2::SELECT_PAGES - 1) / s2::SELECT_PAGES, 3);
    for (int list = 0; list < m->n_lists; list++) {
        for (int page = 0; page < m->page_cap; page++) {
            blockIdx = {page, list};
            run_block(128, [] { s2::page_bounds<false>(params); });
        }
        gridDim = {n_blocks, m->n_lists};
        for (int block = 0; block < n_blocks; block++) {
            blockIdx = {block, list};
            memset(s2::scores, 0xff, sizeof s2::scores);
            run_block(s2::SELECT_THREADS, [] { s2::select_pages<false>(params); });
        }
    }
}

static float score_of(const Case &c, const Memory &m, int list, int page)
{
    const uint16_t *const k = &m.k[(size_t)m.places[list * m.page_cap + page].x * 8];
    float best = -INFINITY;
    for (int row = 0; row < c.n_rows; row++) {
        float score = 0;
        for (int d = 0; d < c.head_dim; d++) {
            float low = INFINITY, high = -INFINITY;
            for (int key = 0; key < c.page_tok; key++) {
                low = fminf(low, value_of(k[key * c.head_dim + d]));
                high = fmaxf(high, value_of(k[key * c.head_dim + d]));
            }
            const float q = value_of(m.q[((size_t)list * c.n_rows + row) * c.head_dim + d]);
            score += fmaxf(q * low, q * high);
        }
        best = fmaxf(best, score);
    }
    return best;
}

/* The pages before the newest that are read, ascending. */
static std::vector<int> define(const Case &c, const Memory &m, int list)
{
    const int n = m.n_pages[list] - 1, want = min(c.budget - 1, n);
    std::vector<float> scores;
    std::vector<int> pages;
    for (int page = 0; page < n; page++) {
        scores.push_back(score_of(c, m, list, page));
        pages.push_back(page);
    }
    std::stable_sort(pages.begin(), pages.end(), [&](int a, int b) { return scores[a] > scores[b]; });
    pages.resize((size_t)want);
    std::sort(pages.begin(), pages.end());
    return pages;
}

static bool agrees(const Case &c, const Memory &m, int list)
{
    const int page_slabs = c.page_tok / 16;
    const std::vector<int> want = define(c, m, list);
    const s2::DecodeSlab *const slabs = &m.slabs[m.lists[list].slab_begin];
    for (size_t at = 0; at < want.size(); at++)
        for (int slab = 0; slab < page_slabs; slab++) {
            const s2::DecodeSlab got = slabs[at * page_slabs + slab];
            const uint2 place = m.places[list * m.page_cap + want[at]];
            const uint32_t step = (uint32_t)(slab * c.head_dim * 2); /* 16 keys, in units of 16 bytes */
            if (got.k != place.x + step || got.v != place.y + step || got.mask != -1 ||
                got.live != s2::DECODE_ALL_LIVE) {
                printf("FAIL list %d, chosen page %zu (page %d), slab %d: at %u, not %u\n", list, at,
                       want[at], slab, got.k, place.x + step);
                return false;
            }
        }
    /* the newest page may grow: it has no bounds */
    const uint16_t *const bounds =
        &m.bounds[((size_t)list * m.page_cap + m.n_pages[list] - 1) * 2 * (size_t)c.head_dim];
    for (int d = 0; d < 2 * c.head_dim; d++)
        if (bounds[d] != UNTOUCHED * 0x101) {
            printf("FAIL list %d: the newest page has bounds\n", list);
            return false;
        }
    /* the newest page's slabs are the host's: untouched */
    for (int slab = (int)want.size() * page_slabs; slab < m.lists[list].slab_end - m.lists[list].slab_begin;
         slab++)
        if (slabs[slab].live != 0 || slabs[slab].k != 0) {
            printf("FAIL list %d: a slab of the newest page was written\n", list);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    drawn = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    static const Case cases[] = {
        /* unequal lengths, a whole newest page, fewer pages than asked */
        {128, 4, 4, 64, 4, 2, false, {1000, 64, 65, 700}},
        {128, 4, 4, 64, 8, 0, false, {1500}},            /* all scores equal: the lower pages */
        {64, 1, 1, 16, 1, 3, false, {1, 16, 17, 300}},   /* only the newest */
        {64, 1, 1, 16, 1000, 3, false, {333}},           /* all of them */
        {96, 16, 4, 32, 5, 1, false, {900, 31, 33}},     /* several query tokens, ties */
        {96, 16, 4, 16, 9, 255, false, {900, 130}},      /* and any row may be the best */
        {256, 8, 8, 128, 3, 4, false, {1100}},           /* the widest head */
        {8, 2, 2, 16, 40, 1, false, {1040, 18000}},      /* more pages than threads, many ties */
        {24, 3, 3, 16, 600, 255, false, {16385, 16400}}, /* every bit counts */
        {64, 2, 2, 16, 9, 2, false, {4097, 4113}},       /* as many pages as threads, one more */
        {64, 4, 4, 16, 30, 255, true, {1600}},           /* scores below zero */
    };
    int passed = 0, failed = 0;
    for (const Case &c : cases) {
        Memory m;
        lay_out(c, &m);
        select(c, &m);
        for (int list = 0; list < m.n_lists; list++)
            (agrees(c, m, list) ? passed : failed)++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
