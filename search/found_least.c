/* If --at-most leaves nothing: the least of each limited quantity, and which candidate has it. */
#include "search/found.h"

#include <math.h>

/* Search what was visited again for one quantity alone; *any is false if no candidate is left. */
static s2_status seek(const s2_found *found, int32_t nth, bool with_others, s2_search_watch_fn watch,
                      void *user, s2_point *least, bool *any)
{
    s2_search search = found->search;
    s2_search_state state;
    search.n_by = 1;
    search.by[0] = found->search.limits[nth].of;
    search.n_limits = 0;
    for (int32_t n = 0; with_others && n < found->search.n_limits; n++)
        if (n != nth)
            search.limits[search.n_limits++] = found->search.limits[n];
    s2_search_state_init(&search, &state);
    const s2_status status = s2_search_run(&search, &state, found->state.next, watch, user);
    *any = status == S2_OK && state.next == found->state.next && state.front.n > 0;
    if (*any)
        *least = state.front.points[0];
    s2_search_state_release(&state);
    return status;
}

static s2_status part_of_dense(const s2_found *found, const s2_point *point, double *part)
{
    s2_pattern pattern;
    s2_objectives objectives;
    const s2_objective by = S2_BY_KV_BYTES;
    S2_TRY(s2_search_pattern(&found->search, point->index, found->arena, &pattern, NULL));
    S2_TRY(s2_objectives_init(&objectives, &found->search.options, &by, 1));
    *part = point->value[0] / s2_objectives_dense_kv_bytes(&objectives, &pattern);
    s2_objectives_release(&objectives);
    return S2_OK;
}

static s2_status add_least(s2_found *found, int32_t nth, s2_search_watch_fn watch, void *user)
{
    s2_found_least *const least = &found->least[found->n_least];
    const bool others = found->search.n_limits > 1;
    bool any;
    *least = (s2_found_least){.of = found->search.limits[nth].of, .of_dense = (double)NAN};
    S2_TRY(seek(found, nth, true, watch, user, &least->point, &any));
    least->within_others = others && any;
    if (others && !any)
        S2_TRY(seek(found, nth, false, watch, user, &least->point, &any));
    if (!any)
        return S2_OK;
    if (least->of == S2_BY_KV_BYTES)
        S2_TRY(part_of_dense(found, &least->point, &least->of_dense));
    least->choice = s2_found_choice(found, least->point.index);
    found->n_least++;
    return least->choice != NULL ? S2_OK : S2_ENOMEM;
}

s2_status s2_found_seek_least(s2_found *found, s2_search_watch_fn watch, void *user)
{
    if (found->state.front.n > 0 || found->state.counts.outside == 0)
        return S2_OK;
    for (int32_t nth = 0; nth < found->search.n_limits; nth++)
        S2_TRY(add_least(found, nth, watch, user));
    return S2_OK;
}
