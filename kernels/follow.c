#include "kernels/follow.h"

#include <string.h>

bool s2_follow_fits(const s2_attn_problem *problem)
{
    return problem->pass == S2_PASS_DECODE && problem->cached != NULL && problem->select_pages == 0 &&
           problem->plan->items == NULL && s2_cache_layout_of(problem->cached->cache) != S2_CACHE_RING;
}

s2_status s2_follow_open(const s2_attn_problem *problem, int32_t want_parts, s2_follow *follow, s2_diag *why)
{
    S2_TRY(s2_decode_supports(problem, why));
    S2_TRY(s2_decode_follow_open(problem->plan, want_parts, &follow->lists, why));
    const int64_t n_rows = (int64_t)follow->lists.plan.n_lists * follow->lists.plan.row_cap;
    follow->n_layers = problem->plan->pattern->n_layers;
    follow->on = S2_NEW(&follow->arena, uint8_t, n_rows);
    follow->layers = S2_NEW(&follow->arena, s2_follow_layer *, follow->n_layers);
    if (follow->on == NULL || follow->layers == NULL)
        return S2_ENOMEM;
    memset(follow->on, 1, (size_t)n_rows);
    return S2_OK;
}

void s2_follow_close(s2_follow *follow)
{
    s2_decode_follow_close(&follow->lists);
    s2_arena_release(&follow->arena);
    *follow = (s2_follow){0};
}

/* ------------------------------------------------------------------ places */

/* The layer that is being taken. */
typedef struct taking {
    const s2_decode_follow *lists;
    const s2_attn_problem *problem;
    s2_follow_layer *layer;
    int32_t next; /* the first of the lists' changed slabs that has not been reached yet */
    s2_diag *why;
} taking;

static bool same_place(const s2_decode_place *a, const s2_decode_place *b)
{
    return a->k_at == b->k_at && a->v_at == b->v_at && a->fresh == b->fresh;
}

static s2_status place_slab(taking *ask, const s2_decode_list *list, int32_t slab, s2_decode_page *last,
                            bool changed)
{
    s2_decode_place place = {0};
    if (ask->lists->plan.slabs[slab].live != 0)
        S2_TRY(
            s2_decode_place_slab(ask->problem, list, &ask->lists->plan.slabs[slab], last, &place, ask->why));
    if (changed || !same_place(&place, &ask->layer->places[slab]))
        ask->layer->changed[ask->layer->n_changed++] = slab;
    ask->layer->places[slab] = place;
    return S2_OK;
}

/* Every slab of a list, or those that its step changed. */
static s2_status place_list(taking *ask, const s2_decode_list *list, bool every)
{
    const s2_decode_follow *const lists = ask->lists;
    s2_decode_page last = S2_DECODE_NO_PAGE;
    for (int32_t slab = list->slab_begin; every && slab < list->slab_end; slab++) {
        const bool changed = ask->next < lists->n_changed && lists->changed[ask->next] == slab;
        ask->next += changed;
        S2_TRY(place_slab(ask, list, slab, &last, changed));
    }
    for (; ask->next < lists->n_changed && lists->changed[ask->next] < list->slab_end; ask->next++)
        S2_TRY(place_slab(ask, list, lists->changed[ask->next], &last, true));
    return S2_OK;
}

static s2_status place_lists(taking *ask, bool every)
{
    const s2_attn_problem *const problem = ask->problem;
    const int32_t n_kv = problem->n_kv_heads;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++) {
        const int64_t version = s2_cache_moved_version(problem->cached->cache, problem->cached->seqs[seq]);
        const bool moved = ask->layer->versions[seq] != version;
        for (int32_t kv_head = 0; kv_head < n_kv; kv_head++)
            S2_TRY(place_list(ask, &ask->lists->plan.lists[seq * n_kv + kv_head], every || moved));
        ask->layer->versions[seq] = version;
    }
    return S2_OK;
}

static s2_follow_layer *find_layer(s2_follow *follow, const s2_plan *plan)
{
    s2_follow_layer **const slot = &follow->layers[plan->layer];
    if (*slot != NULL)
        return *slot;
    s2_follow_layer *const made = S2_NEW(&follow->arena, s2_follow_layer, 1);
    if (made == NULL)
        return NULL;
    *made = (s2_follow_layer){
        .places = S2_NEW(&follow->arena, s2_decode_place, follow->lists.plan.n_slabs),
        .versions = S2_NEW(&follow->arena, int64_t, plan->n_seqs),
        .step = -1,
        .changed = S2_NEW(&follow->arena, int32_t, follow->lists.plan.n_slabs),
    };
    if (made->places == NULL || made->versions == NULL || made->changed == NULL)
        return NULL;
    *slot = made;
    return made;
}

s2_status s2_follow_take(s2_follow *follow, const s2_attn_problem *problem, const s2_follow_layer **out,
                         s2_diag *why)
{
    const s2_decode_follow *const lists = &follow->lists;
    S2_TRY(s2_decode_check_cached(problem, why));
    S2_TRY(s2_decode_follow_step(&follow->lists, problem->plan));
    s2_follow_layer *const layer = find_layer(follow, problem->plan);
    if (layer == NULL)
        return S2_ENOMEM;
    const bool knows_lists = layer->step == lists->n_steps;
    const bool follows = knows_lists || (layer->step >= 0 && layer->step + 1 == lists->n_steps);
    taking ask = {lists, problem, layer, knows_lists ? lists->n_changed : 0, why};
    layer->n_changed = 0;
    layer->step = -1; /* until all places are known */
    S2_TRY(place_lists(&ask, !follows));
    layer->step = lists->n_steps;
    if (!follows)
        layer->n_changed = -1;
    *out = layer;
    return S2_OK;
}

bool s2_follow_knows(const s2_follow *follow, const s2_attn_problem *problem)
{
    const s2_follow_layer *const layer = follow->layers[problem->plan->layer];
    bool same = layer != NULL && layer->step == follow->lists.n_steps;
    for (int32_t seq = 0; seq < problem->n_seqs && same; seq++)
        same = follow->lists.seqs[seq].q_tok == problem->plan->seqs[seq].q_tok &&
               follow->lists.seqs[seq].k_tok == problem->plan->seqs[seq].k_tok &&
               layer->versions[seq] ==
                   s2_cache_moved_version(problem->cached->cache, problem->cached->seqs[seq]);
    return same;
}
