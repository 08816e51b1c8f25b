#include "kernels/select.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/float16.h"

static s2_status check(const s2_attn_problem *problem, const s2_decode_plan *plan, s2_diag *why)
{
    const int32_t page_tok = problem->select_page_tok;
    if (page_tok < S2_DECODE_SLAB_TOK || page_tok % S2_DECODE_SLAB_TOK != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "selects pages of a multiple of 16 tokens, not %d",
                           page_tok);
    if (problem->cached != NULL && s2_cache_page_tok(problem->cached->cache) % page_tok != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "a selected page of %d tokens does not divide a cached one", page_tok);
    for (int32_t list_no = 0; list_no < plan->n_lists; list_no++) {
        const s2_decode_list *const list = &plan->lists[list_no];
        const int32_t k_tok = problem->plan->seqs[list->seq].k_tok, n = list->slab_end - list->slab_begin;
        const int32_t newest = (k_tok - 1) / page_tok * (page_tok / S2_DECODE_SLAB_TOK);
        if (list->n_rows > S2_SELECT_LIMIT_ROWS || k_tok / page_tok >= S2_SELECT_LIMIT_PAGES)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "selects for %d rows among %d pages at most",
                               S2_SELECT_LIMIT_ROWS, S2_SELECT_LIMIT_PAGES);
        if ((k_tok - problem->plan->seqs[list->seq].q_tok) / page_tok != (k_tok - 1) / page_tok)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "selects for query tokens of one page; these begin in an earlier one");
        bool dense = n == (k_tok - 1) / S2_DECODE_SLAB_TOK + 1;
        for (int32_t slab = 0; slab < newest && dense; slab++)
            dense = plan->slabs[list->slab_begin + slab].mask < 0;
        if (!dense)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "selects among the pages of dense layers only");
    }
    return S2_OK;
}

static int32_t pages_of(const s2_attn_problem *problem, const s2_decode_list *list)
{
    return (problem->plan->seqs[list->seq].k_tok - 1) / problem->select_page_tok + 1;
}

/* One list's slabs from `to` on: room for the chosen pages, then the slabs of the newest page unchanged. */
static int32_t shrink_list(const s2_attn_problem *problem, const s2_decode_layout *from, int32_t index,
                           s2_decode_slab *slabs, s2_decode_place *places)
{
    const s2_decode_list *const list = &from->plan.lists[index];
    const int32_t page_slabs = problem->select_page_tok / S2_DECODE_SLAB_TOK;
    const int32_t n_pages = pages_of(problem, list);
    const int32_t n_chosen = s2_min_i32(n_pages, problem->select_pages) - 1;
    const int32_t newest = list->slab_begin + (n_pages - 1) * page_slabs;
    int32_t n = 0;
    for (; n < n_chosen * page_slabs; n++) {
        slabs[n] = from->plan.slabs[list->slab_begin + n];
        places[n] = from->places[list->slab_begin + n];
    }
    for (int32_t at = newest; at < list->slab_end; at++, n++) {
        slabs[n] = from->plan.slabs[at];
        places[n] = from->places[at];
    }
    return n;
}

static s2_status find_places(s2_arena *arena, const s2_attn_problem *problem, const s2_decode_layout *layout,
                             s2_selection *out)
{
    const s2_decode_plan *const plan = &layout->plan;
    const int32_t page_slabs = problem->select_page_tok / S2_DECODE_SLAB_TOK;
    int32_t *const n_pages = S2_NEW(arena, int32_t, plan->n_lists);
    int32_t most = 1;
    for (int32_t at = 0; n_pages != NULL && at < plan->n_lists; at++) {
        n_pages[at] = pages_of(problem, &plan->lists[at]);
        most = s2_max_i32(n_pages[at], most);
    }
    s2_decode_place *const places = S2_NEW(arena, s2_decode_place, (int64_t)plan->n_lists * most);
    if (n_pages == NULL || places == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < plan->n_lists; at++)
        for (int32_t page = 0; page < n_pages[at]; page++)
            places[(int64_t)at * most + page] =
                layout->places[plan->lists[at].slab_begin + page * page_slabs];
    *out = (s2_selection){most, n_pages, places};
    return S2_OK;
}

s2_status s2_selection_build(s2_arena *arena, const s2_attn_problem *problem, int32_t want_parts,
                             s2_decode_layout *layout, s2_selection *out, s2_diag *why)
{
    s2_decode_plan plan = layout->plan;
    s2_selection selection;
    S2_TRY(check(problem, &plan, why));
    S2_TRY(find_places(arena, problem, layout, &selection));
    s2_decode_list *const lists = S2_NEW(arena, s2_decode_list, plan.n_lists);
    s2_decode_slab *const slabs = S2_NEW(arena, s2_decode_slab, (int64_t)plan.n_slabs + 1);
    s2_decode_place *const places = S2_NEW(arena, s2_decode_place, (int64_t)plan.n_slabs + 1);
    if (lists == NULL || slabs == NULL || places == NULL)
        return S2_ENOMEM;
    memcpy(lists, plan.lists, (size_t)plan.n_lists * sizeof *lists);
    int32_t n = 0;
    for (int32_t at = 0; at < plan.n_lists; at++) {
        lists[at].slab_begin = n;
        n += shrink_list(problem, layout, at, slabs + n, places + n);
        lists[at].slab_end = n;
    }
    plan.lists = lists;
    plan.slabs = slabs;
    plan.n_slabs = n;
    plan.n_live_keys = 0;
    for (int32_t at = 0; at < n; at++)
        plan.n_live_keys += __builtin_popcount(slabs[at].live);
    S2_TRY(s2_decode_plan_split(arena, want_parts, &plan));
    layout->plan = plan;
    layout->places = places;
    *out = selection;
    return S2_OK;
}

/* ------------------------------------------------------------------ choosing on the host */

/* The most that q . k can be inside the page's bounds, over the rows. */
static float score_page(const s2_attn_problem *p, const s2_decode_list *list, const s2_decode_place *place,
                        const float *low, const float *high)
{
    const int32_t group = p->n_heads / p->n_kv_heads;
    float best = -INFINITY;
    (void)place;
    for (int32_t row = 0; row < list->n_rows; row++) {
        const int64_t first =
            s2_tensor_at(&p->q, p->q_begin_tok, list->seq, row / group, list->kv_head * group + row % group);
        float score = 0.0f;
        for (int32_t d = 0; d < p->head_dim; d++) {
            const float q = s2_float_load(p->q.data, p->dtype, first + d), a = q * low[d], b = q * high[d];
            score += s2_max_f32(a, b);
        }
        best = s2_max_f32(score, best);
    }
    return best;
}

static void bound_page(const s2_attn_problem *p, const s2_decode_place *place, float *low, float *high)
{
    for (int32_t d = 0; d < p->head_dim; d++) {
        low[d] = INFINITY;
        high[d] = -INFINITY;
        for (int32_t key = 0; key < p->select_page_tok; key++) {
            const float x = s2_float_load(p->k.data, p->dtype, place->k_at + key * p->k.tok + d);
            low[d] = s2_min_f32(x, low[d]);
            high[d] = s2_max_f32(x, high[d]);
        }
    }
}

/* Whether page `a` is chosen before page `b`. */
static bool goes_before(const float *scores, int32_t a, int32_t b)
{
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

/* The `want` best of n - 1 pages, then page n - 1, ascending. */
static int32_t choose(const float *scores, int32_t n, int32_t want, int32_t *pages)
{
    int32_t n_chosen = 0;
    for (int32_t page = 0; page < n - 1; page++) {
        int32_t n_better = 0;
        for (int32_t other = 0; other < n - 1 && n_better < want; other++)
            n_better += goes_before(scores, other, page);
        if (n_better < want)
            pages[n_chosen++] = page;
    }
    pages[n_chosen++] = n - 1;
    return n_chosen;
}

s2_status s2_selection_choose(const s2_attn_problem *problem, const s2_decode_plan *plan,
                              const s2_selection *selection, int32_t list, int32_t *pages, int32_t *n_pages)
{
    const int32_t n = selection->n_pages[list];
    float *const low = s2_calloc(2 * (size_t)problem->head_dim + (size_t)n, sizeof *low);
    if (low == NULL)
        return S2_ENOMEM;
    float *const high = low + problem->head_dim, *const scores = high + problem->head_dim;
    for (int32_t page = 0; page < n - 1; page++) {
        const s2_decode_place *const place = &selection->places[(int64_t)list * selection->page_cap + page];
        bound_page(problem, place, low, high);
        scores[page] = score_page(problem, &plan->lists[list], place, low, high);
    }
    *n_pages = choose(scores, n, problem->select_pages - 1, pages);
    s2_free(low);
    return S2_OK;
}
