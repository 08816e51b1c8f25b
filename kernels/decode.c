#include "kernels/decode.h"

#include <stdatomic.h>
#include <string.h>

#include "base/arith.h"
#include "kernels/crew.h"

s2_status s2_decode_supports(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    if (problem->pass != S2_PASS_DECODE)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes decode steps only");
    if (problem->cached != NULL && s2_cache_page_tok(problem->cached->cache) % S2_DECODE_SLAB_TOK != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs pages of a multiple of %d tokens, not %d",
                           S2_DECODE_SLAB_TOK, s2_cache_page_tok(problem->cached->cache));
    if (problem->e4m3 && problem->select_pages > 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "chooses no pages of e4m3 keys: it compares them in the type of the queries");
    for (int32_t seq = 0; plan != NULL && seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].q_tok > S2_DECODE_LIMIT_Q_TOK)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes %d query tokens, sequence %d has %d",
                               S2_DECODE_LIMIT_Q_TOK, seq, plan->seqs[seq].q_tok);
    return S2_OK;
}

s2_status s2_decode_check_cached(const s2_attn_problem *problem, s2_diag *why)
{
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        if (s2_cache_n_tok(problem->cached->cache, problem->cached->seqs[seq]) !=
            problem->plan->seqs[seq].k_tok)
            return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                               "sequence %d: the plan and the cache differ in length", seq);
    return S2_OK;
}

static s2_status find_cuts(s2_arena *arena, const s2_attn_problem *problem, int64_t **out)
{
    const s2_cached *const cached = problem->cached;
    const int32_t n_kv = problem->n_kv_heads;
    int64_t *const cuts = S2_NEW(arena, int64_t, (int64_t)problem->n_seqs * n_kv);
    if (cuts == NULL)
        return S2_ENOMEM;
    for (int32_t list = 0; list < problem->n_seqs * n_kv; list++)
        cuts[list] =
            s2_cache_cut(cached->cache, cached->seqs[list / n_kv], problem->plan->layer, list % n_kv);
    *out = cuts;
    return S2_OK;
}

static s2_status place_cached(const s2_attn_problem *problem, const s2_decode_list *list,
                              const s2_decode_slab *slab, s2_decode_page *last, s2_decode_place *place,
                              s2_diag *why)
{
    const s2_cached *const cached = problem->cached;
    const int32_t page_tok = s2_cache_page_tok(cached->cache);
    const int32_t first = __builtin_ctz(slab->live), k_tok = slab->k_tok + first;
    if (k_tok / page_tok == last->page) {
        place->k_at = (last->slot + slab->k_tok % page_tok) * problem->k.tok;
        place->v_at = (last->slot + slab->k_tok % page_tok) * problem->v.tok;
        return S2_OK;
    }
    const int64_t slot =
        s2_cache_find(cached->cache, cached->seqs[list->seq], problem->plan->layer, list->kv_head, k_tok);
    if (slot < 0)
        return s2_diag_set(why, S2_EINTERNAL, 0, 0, 0,
                           "sequence %d, KV head %d: the cache has dropped key %d, which is read", list->seq,
                           list->kv_head, k_tok);
    place->k_at = (slot - first) * problem->k.tok;
    place->v_at = (slot - first) * problem->v.tok;
    if (s2_cache_layout_of(cached->cache) != S2_CACHE_RING)
        *last = (s2_decode_page){k_tok / page_tok, slot - k_tok % page_tok};
    return S2_OK;
}

s2_status s2_decode_place_slab(const s2_attn_problem *problem, const s2_decode_list *list,
                               const s2_decode_slab *slab, s2_decode_page *last, s2_decode_place *place,
                               s2_diag *why)
{
    const s2_plan_seq lens = problem->plan->seqs[list->seq];
    place->fresh = slab->k_tok + S2_DECODE_SLAB_TOK > lens.k_tok - lens.q_tok;
    if (problem->cached != NULL)
        return place_cached(problem, list, slab, last, place, why);
    place->k_at = s2_tensor_at(&problem->k, problem->k_begin_tok, list->seq, slab->k_tok, list->kv_head);
    place->v_at = s2_tensor_at(&problem->v, problem->k_begin_tok, list->seq, slab->k_tok, list->kv_head);
    return S2_OK;
}

static s2_status place_list(const s2_attn_problem *problem, const s2_decode_plan *plan,
                            const s2_decode_list *list, s2_decode_place *places, s2_diag *why)
{
    s2_decode_page last = S2_DECODE_NO_PAGE;
    for (int32_t at = list->slab_begin; at < list->slab_end; at++)
        S2_TRY(s2_decode_place_slab(problem, list, &plan->slabs[at], &last, &places[at], why));
    return S2_OK;
}

/* ------------------------------------------------------------------ many lists */

enum { LISTS_AT_ONCE = 16, MANY_SLABS = 20000, PLACERS = 8 };

typedef struct placing {
    const s2_attn_problem *problem;
    const s2_decode_plan *plan;
    s2_decode_place *places;
    atomic_int *next;
    s2_status status;
    s2_diag why;
} placing;

static void *place_some(void *user)
{
    placing *const job = user;
    for (;;) {
        const int32_t begin = atomic_fetch_add(job->next, LISTS_AT_ONCE);
        if (begin >= job->plan->n_lists || job->status != S2_OK)
            return NULL;
        for (int32_t list = begin; list < begin + LISTS_AT_ONCE && list < job->plan->n_lists; list++)
            if (job->status == S2_OK)
                job->status =
                    place_list(job->problem, job->plan, &job->plan->lists[list], job->places, &job->why);
    }
}

/* Large batches use threads: a step waits for this when a page begins. */
static s2_status place_lists(const s2_attn_problem *problem, const s2_decode_plan *plan,
                             s2_decode_place *places, s2_diag *why)
{
    atomic_int next = 0;
    placing jobs[PLACERS];
    const int32_t n_threads = plan->n_slabs >= MANY_SLABS ? PLACERS : 1;
    for (int32_t at = 0; at < n_threads; at++)
        jobs[at] = (placing){problem, plan, places, &next, S2_OK, {0}};
    const int32_t n_ran = s2_crew_run(n_threads, place_some, jobs, sizeof *jobs);
    for (int32_t j = 0; j < n_ran; j++)
        if (jobs[j].status != S2_OK) {
            if (why != NULL)
                *why = jobs[j].why;
            return jobs[j].status;
        }
    return S2_OK;
}

/* Mark the rows of an item, since a plan may hold only some items. A plan of classes only covers all rows. */
static int64_t turn_on(const s2_attn_problem *problem, const s2_plan_item *item, int32_t row_cap, uint8_t *on)
{
    const s2_plan *const plan = problem->plan;
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int32_t group = problem->n_heads / problem->n_kv_heads;
    const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile) - (lens.k_tok - lens.q_tok);
    int64_t n = 0;
    for (int64_t q_tok = s2_max_i64(begin, 0); q_tok < begin + plan->options.tile_tok && q_tok < lens.q_tok;
         q_tok++)
        for (int32_t head = item->head; head < item->head + item->n_heads; head++) {
            const int64_t list = (int64_t)item->seq * problem->n_kv_heads + head / group;
            on[list * row_cap + q_tok * group + head % group] = 1;
            n++;
        }
    return n;
}

static s2_status find_rows(s2_arena *arena, const s2_attn_problem *problem, s2_decode_layout *layout)
{
    const s2_plan *const plan = problem->plan;
    const int32_t row_cap = layout->plan.row_cap;
    uint8_t *const on = S2_NEW(arena, uint8_t, (int64_t)layout->plan.n_lists * row_cap);
    int64_t n_on = 0, n_all = 0;
    if (on == NULL)
        return S2_ENOMEM;
    for (int32_t item = 0; item < plan->n_items; item++)
        n_on += turn_on(problem, &plan->items[item], row_cap, on);
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n_all += (int64_t)plan->seqs[seq].q_tok * problem->n_heads;
    if (plan->items == NULL)
        memset(on, 1, (size_t)layout->plan.n_lists * (size_t)row_cap);
    layout->on = on;
    layout->all_on = plan->items == NULL || n_on == n_all;
    return S2_OK;
}

s2_status s2_decode_lay_out(s2_arena *arena, const s2_attn_problem *problem, int32_t want_parts,
                            s2_decode_layout *out, s2_diag *why)
{
    s2_decode_layout made;
    int64_t *cuts = NULL;
    S2_TRY(s2_decode_supports(problem, why));
    if (problem->cached != NULL) {
        S2_TRY(s2_decode_check_cached(problem, why));
        if (s2_cache_layout_of(problem->cached->cache) == S2_CACHE_RING)
            S2_TRY(find_cuts(arena, problem, &cuts)); /* else lists of one length are alike, and made once */
    }
    S2_TRY(s2_decode_plan_build(arena, problem->plan, cuts, want_parts, &made.plan, why));
    s2_decode_place *const places = S2_NEW(arena, s2_decode_place, (int64_t)made.plan.n_slabs + 1);
    if (places == NULL)
        return S2_ENOMEM;
    S2_TRY(place_lists(problem, &made.plan, places, why));
    made.places = places;
    S2_TRY(find_rows(arena, problem, &made));
    *out = made;
    return S2_OK;
}
