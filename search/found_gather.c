/* The designs of a front, best first: priced, met by their rivals, told. */
#include "search/found.h"

#include <string.h>

#include "base/arith.h"

enum { TOLD_ROWS = 20, NAME_DIGITS = 8 };

/* Named by its hash, so that designs of different searches never share a name. */
static const char *name_of(const s2_found *found, const char *own, const char *hash)
{
    const char *const base = own[0] != '\0' ? own : found->model[0] != '\0' ? found->model : "search";
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%.180s-%.*s", base, NAME_DIGITS, hash);
    const char *const name = buf.status == S2_OK ? s2_arena_strndup(found->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    return name;
}

static s2_status fill_design(const s2_found *found, const s2_point *point, int32_t place,
                             s2_found_design *out)
{
    s2_arena *const arena = found->arena;
    *out = (s2_found_design){.point = point};
    S2_TRY(s2_search_pattern(&found->search, point->index, arena, &out->pattern, NULL));
    const char *const own = out->pattern.name;
    out->pattern.name = ""; /* it names the space, which has many designs */
    S2_TRY(s2_pattern_hash(&out->pattern, out->hash));
    out->name = name_of(found, own, out->hash);
    out->choice = s2_found_choice(found, point->index);
    if (out->name == NULL || out->choice == NULL)
        return S2_ENOMEM;
    memcpy(out->shown, point->value, sizeof out->shown);
    S2_TRY(s2_found_find_spill(found, out));
    return place < S2_FOUND_WHOLE ? s2_found_price(found, out, place < TOLD_ROWS) : S2_OK;
}

/* The index of the training step among objectives and among phases; false if none is told. */
static bool find_told(const s2_found *found, int32_t *value, int32_t *phase)
{
    for (*phase = 0; *phase < found->n_phases; (*phase)++)
        for (*value = 0; s2_found_tells(found, found->phases[*phase]) && *value < found->search.n_by;
             (*value)++)
            if (found->search.by[*value] == S2_BY_TRAIN_US)
                return true;
    return false;
}

/* Whether a rival's predicted training step, with its other values, beats a design that is told. */
static s2_status is_told_beaten(s2_found *found, const s2_found_design *design, int32_t value, int32_t phase,
                                bool *beaten)
{
    s2_found_rival *dense;
    S2_TRY(s2_found_dense_of(found, &design->pattern, &dense));
    s2_point of_dense = dense->point, of_own = {0};
    of_dense.value[value] = design->sims[phase].dense_time_us;
    const bool by_dense = s2_found_beats(found, dense, of_dense.value, design->shown);
    bool by_own = false;
    if (found->own != NULL && found->own->design.sims[phase].predicted) {
        of_own = found->own->point;
        of_own.value[value] = found->own->design.sims[phase].time_us;
        by_own = s2_found_beats(found, found->own, of_own.value, design->shown);
    }
    found->n_by_dense += by_dense;
    found->n_by_own += by_own;
    *beaten = by_dense || by_own;
    return S2_OK;
}

/* Put what was told before the rest, best first; what is beaten now is left out. */
static s2_status place_told(s2_found *found, const s2_front *told, s2_found_design *by_bounds, int32_t n)
{
    int32_t order[TOLD_ROWS];
    S2_TRY(s2_front_order(told, order));
    for (int32_t nth = 0; nth < told->n; nth++)
        found->designs[nth] = by_bounds[told->points[order[nth]].index];
    memmove(found->designs + told->n, found->designs + n,
            (size_t)(found->n_designs - n) * sizeof *found->designs);
    found->n_told = told->n;
    found->n_beaten += n - told->n;
    found->n_designs -= n - told->n;
    if (told->n == 0 && n > 0) { /* bounds alone say nothing about the others */
        found->nearest = &by_bounds[0];
        found->n_beaten += found->n_designs;
        found->n_designs = 0;
    }
    return S2_OK;
}

/* Reorder the designs best by bounds by their predictions; leave them if no kernel takes one of them. */
static s2_status tell(s2_found *found)
{
    s2_arena *const arena = found->arena;
    const int32_t n = s2_min_i32(found->n_designs, TOLD_ROWS);
    s2_front told = {.n_values = found->search.n_by, .points = S2_NEW(arena, s2_point, n + 1)};
    s2_found_design *const by_bounds = S2_NEW(arena, s2_found_design, n + 1);
    int32_t value, phase;
    if (!find_told(found, &value, &phase))
        return S2_OK;
    if (told.points == NULL || by_bounds == NULL)
        return S2_ENOMEM;
    for (int32_t nth = 0; nth < n; nth++) {
        const s2_sim *const sim = &found->designs[nth].sims[phase];
        bool beaten;
        if (!sim->predicted)
            return S2_OK;
        by_bounds[nth] = found->designs[nth];
        by_bounds[nth].shown[value] = sim->time_us;
        by_bounds[nth].told = true;
        S2_TRY(is_told_beaten(found, &by_bounds[nth], value, phase, &beaten));
        if (beaten)
            continue;
        s2_point *const point = &told.points[told.n++];
        point->index = nth;
        memcpy(point->value, by_bounds[nth].shown, sizeof by_bounds[nth].shown);
    }
    return place_told(found, &told, by_bounds, n);
}

static s2_status fill_designs(s2_found *found, const s2_front *kept)
{
    int32_t *const order = S2_NEW(found->arena, int32_t, kept->n + 1);
    found->designs = S2_NEW(found->arena, s2_found_design, kept->n + 1);
    if (order == NULL || found->designs == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_front_order(kept, order));
    found->n_designs = kept->n;
    for (int32_t n = 0; n < kept->n; n++)
        S2_TRY(fill_design(found, &kept->points[order[n]], n, &found->designs[n]));
    return S2_OK;
}

/* If every design is beaten: the one that would be best without rivals. */
static s2_status fill_nearest(s2_found *found)
{
    const s2_front *const front = &found->state.front;
    int32_t *const order = S2_NEW(found->arena, int32_t, front->n + 1);
    found->nearest = S2_NEW(found->arena, s2_found_design, 1);
    if (order == NULL || found->nearest == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_front_order(front, order));
    return fill_design(found, &front->points[order[0]], 0, found->nearest);
}

/* Where the designs' training steps are told, a rival's is told too. */
static void tell_rival(const s2_found *found, s2_found_rival *rival)
{
    int32_t value, phase;
    rival->design.told = find_told(found, &value, &phase) && rival->design.sims[phase].predicted;
    if (rival->design.told)
        rival->design.shown[value] = rival->design.sims[phase].time_us;
}

s2_status s2_found_gather(s2_found *found)
{
    s2_front kept;
    S2_TRY(s2_found_meet_rivals(found, &kept));
    S2_TRY(fill_designs(found, &kept));
    if (kept.n == 0 && found->state.front.n > 0)
        S2_TRY(fill_nearest(found));
    S2_TRY(tell(found));
    const s2_found_design *const best = found->n_designs > 0 ? &found->designs[0] : found->nearest;
    if (best == NULL)
        return S2_OK;
    S2_TRY(s2_found_dense_of(found, &best->pattern, &found->dense));
    S2_TRY(s2_found_price(found, &found->dense->design, true));
    if (best->told)
        tell_rival(found, found->dense);
    if (best->told && found->own != NULL)
        tell_rival(found, found->own);
    return S2_OK;
}
