/* How a design stands against its rivals where prices alone count, and which of its times are bounds. */
#include "search/found.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/units.h"

/* -1: a time may be minimized although its phase is not asked for. */
static int32_t place_of(const s2_found *found, s2_phase phase)
{
    for (int32_t p = 0; p < found->n_phases; p++)
        if (found->phases[p] == phase)
            return p;
    return -1;
}

s2_status s2_found_find_spill(const s2_found *found, s2_found_design *design)
{
    s2_sim_options options = s2_found_options(found, S2_DECODE);
    s2_sim sim;
    s2_found_set_apart(design, &options);
    const double us = s2_found_value(found, design->point, S2_BY_DECODE_US, (double)NAN);
    if (isnan(us) && place_of(found, S2_DECODE) < 0)
        return S2_OK;
    S2_TRY(s2_price(found->arena, &design->pattern, &options, S2_PRICE_CACHE, &sim, NULL));
    design->spills = sim.host_bytes > 0;
    return S2_OK;
}

bool s2_found_is_bound(const s2_found *found, const s2_found_design *design, s2_objective objective)
{
    if (objective > S2_BY_TRAIN_US)
        return false;
    const s2_phase phase = (s2_phase)objective;
    const int32_t p = place_of(found, phase);
    if (!s2_sim_predicts(&found->search.options, phase))
        return objective != S2_BY_TRAIN_US || !design->told;
    return design->sims != NULL && p >= 0 ? !design->sims[p].predicted : phase == S2_DECODE && design->spills;
}

bool s2_found_runs(const s2_found *found, const s2_found_design *design, int32_t p)
{
    const s2_sim_options options = s2_found_options(found, found->phases[p]);
    return s2_sim_runs(&options, &design->sims[p], false);
}

s2_figure_text s2_found_value_text(s2_objective objective, double value)
{
    s2_figure_text out;
    if (objective == S2_BY_KV_BYTES)
        return s2_bytes_text(value);
    if (objective <= S2_BY_TRAIN_US)
        return s2_time_text(value);
    snprintf(out.text, sizeof out.text, "%.*f", objective == S2_BY_DEPTH || objective == S2_BY_HOPS ? 0 : 5,
             value);
    return out;
}

bool s2_found_looks_same(s2_objective objective, double mine, double other)
{
    return strcmp(s2_found_value_text(objective, mine).text, s2_found_value_text(objective, other).text) == 0;
}

bool s2_found_is_price(s2_objective objective)
{
    return objective <= S2_BY_DENSITY || objective == S2_BY_REDUNDANCY;
}

static bool looks_cheaper(s2_objective objective, double mine, double other)
{
    return mine < other && !s2_found_looks_same(objective, mine, other);
}

/* What runs is cheaper than what does not, whatever its time. */
static bool is_phase_cheaper(const s2_found *found, const s2_found_design *design,
                             const s2_found_design *rival, int32_t p)
{
    const bool runs = s2_found_runs(found, design, p), other = s2_found_runs(found, rival, p);
    const s2_sim *const own = &design->sims[p], *const its = &rival->sims[p];
    return (runs && !other) ||
           (runs == other &&
            looks_cheaper(s2_objective_time(found->phases[p]), own->time_us, its->time_us)) ||
           (found->phases[p] != S2_TRAIN && /* which keeps no cache */
            looks_cheaper(S2_BY_KV_BYTES, (double)own->kv_kept, (double)its->kv_kept));
}

bool s2_found_is_no_cheaper(const s2_found *found, const s2_found_design *design, const s2_found_rival *rival)
{
    bool cheaper = false;
    for (int32_t p = 0; p < found->n_phases; p++)
        cheaper |= is_phase_cheaper(found, design, &rival->design, p);
    for (int32_t v = 0; v < found->search.n_by; v++)
        cheaper |= s2_found_is_price(found->search.by[v]) &&
                   looks_cheaper(found->search.by[v], design->shown[v], rival->design.shown[v]);
    return !cheaper;
}
