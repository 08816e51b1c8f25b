/* What a search found, for the database: checks and prices of each design, all in one transaction. */
#include "cli/found.h"

#include <math.h>
#include <string.h>

#include "cli/check.h"
#include "cli/store.h"
#include "reach/flow.h"
#include "report/report.h"
#include "search/spread.h"

/* Every requirement was proved for every length: that is how the design came here. */
static s2_status fill_checks(const s2_found *found, s2_db_check **out)
{
    s2_arena *const arena = found->arena;
    s2_db_check *const checks = S2_NEW(arena, s2_db_check, found->search.n_requirements);
    if (checks == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < found->search.n_requirements; r++) {
        char name[32];
        s2_requirement_name(&found->search.requirements[r], name, sizeof name);
        checks[r] = s2_db_check_of(s2_arena_strndup(arena, name, strlen(name)), S2_DB_HOLDS);
        if (checks[r].property == NULL)
            return S2_ENOMEM;
    }
    *out = checks;
    return S2_OK;
}

/* The report of `s2 sim`, or what the search compared if a design was not priced in full. */
static s2_status report(const s2_found *found, const s2_found_design *design, const s2_sim_options *options,
                        const s2_sim *sim, const char **out)
{
    s2_buf json = {0};
    if (sim != NULL) {
        const s2_report_subject subject = {design->name, design->hash, &design->pattern, options, NULL, NULL};
        s2_sim_report_json(&subject, sim, &json);
    } else {
        s2_json_begin(&json, '{');
        s2_json_key_str(&json, "schema", "s2search/1");
        for (int32_t v = 0; v < found->search.n_by; v++) {
            s2_json_key_num(&json, s2_objective_word(found->search.by[v]), design->point->value[v]);
        }
        s2_json_end(&json, '}');
    }
    const s2_status status = json.status;
    *out = status == S2_OK ? s2_arena_strndup(found->arena, json.data, json.len) : NULL;
    s2_buf_release(&json);
    return *out != NULL ? S2_OK : status == S2_OK ? S2_ENOMEM : status;
}

static s2_status fill_sim(const s2_found *found, const s2_found_design *design, const s2_sim_options *options,
                          const s2_sim *sim, s2_db_sim *out)
{
    const char *json;
    S2_TRY(report(found, design, options, sim, &json));
    S2_TRY(s2_store_sim_row(found->arena, &design->pattern, options, found->model, sim, json, out));
    out->gpu = found->search.options.gpu.name;
    return S2_OK;
}

/* Whether the search compared the phase by bounds and shows a prediction. */
static bool compares_otherwise(const s2_found *found, const s2_found_design *design, s2_phase phase)
{
    return s2_found_tells(found, phase) &&
           !isnan(s2_found_value(found, design->point, s2_objective_time(phase), (double)NAN));
}

/* Uses the front's values where it has them, so that s2 pareto compares what the search compared. */
static s2_status fill_compared(const s2_found *found, const s2_found_design *design, int32_t phase,
                               const s2_sim *like, s2_db_sim *out)
{
    const double none = (double)NAN;
    const s2_sim_options options = s2_found_options(found, found->phases[phase]);
    const bool otherwise = compares_otherwise(found, design, options.phase);
    const s2_sim *const sim = design->sims != NULL && !otherwise ? &design->sims[phase] : NULL;
    S2_TRY(fill_sim(found, design, &options, sim, out));
    out->time_us = s2_found_value(found, design->point, s2_objective_time(options.phase), out->time_us);
    out->unread = s2_found_value(found, design->point, S2_BY_UNREAD, out->unread);
    out->kv_head_pages_bytes = s2_found_value(found, design->point, S2_BY_KV_BYTES,
                                              options.phase == S2_TRAIN ? 0 : out->kv_head_pages_bytes);
    if (sim != NULL)
        return S2_OK;
    const double density = design->sims != NULL ? design->sims[phase].density : none;
    out->density = s2_found_value(found, design->point, S2_BY_DENSITY, density);
    const bool bound = otherwise || s2_found_is_bound(found, design, s2_objective_time(options.phase));
    const bool known = !bound && like != NULL;
    out->error_pct = known ? like->error.pct : none;
    out->priced = known ? s2_store_figure(like) : S2_DB_BOUND;
    return S2_OK;
}

/*
 * Designs of one shape run a phase on one kind of kernel; the best of them that is predicted has its error.
 * NULL: none is.
 */
static const s2_sim *predicted_like(const s2_found *found, int32_t phase)
{
    for (int32_t n = 0; n < found->n_designs && found->designs[n].sims != NULL; n++)
        if (found->designs[n].sims[phase].predicted)
            return &found->designs[n].sims[phase];
    return NULL;
}

/* What the page says of a phase in which the search compared bounds: a price of another kind, beside the bound. */
static bool tells_more(const s2_found *found, const s2_found_design *design, int32_t phase)
{
    return design->sims != NULL && design->sims[phase].predicted &&
           compares_otherwise(found, design, found->phases[phase]);
}

static s2_status fill_told(const s2_found *found, const s2_found_design *design, int32_t phase,
                           s2_db_sim *out)
{
    s2_sim_options options = s2_found_options(found, found->phases[phase]);
    options.calibration = &found->calibration;
    return fill_sim(found, design, &options, &design->sims[phase], out);
}

/* Hops and flow where the search measured them. */
static s2_status fill_reach(const s2_found *found, const s2_found_design *design, const s2_db_reach **out)
{
    const double none = (double)NAN;
    const double hops = s2_found_value(found, design->point, S2_BY_HOPS, none),
                 fading = s2_found_value(found, design->point, S2_BY_FADING, none);
    s2_db_reach *const reach = S2_NEW(found->arena, s2_db_reach, 1);
    if (reach == NULL)
        return S2_ENOMEM;
    *reach = (s2_db_reach){.len_tok = found->search.options.len_tok,
                           .hops = isnan(hops) ? S2_DB_NONE : (int64_t)hops,
                           .flow = fading < S2_FADING_MOST ? 1 / fading : none};
    if (fading >= S2_FADING_MOST)
        S2_TRY(s2_least_flow_of(found->arena, &design->pattern, reach->len_tok, &reach->flow));
    *out = isnan(hops) && isnan(fading) ? NULL : reach;
    return S2_OK;
}

/* The first phase is stored last: lists show the latest prediction. */
static s2_status fill_item(const s2_found *found, const s2_found_design *design, const s2_db_check *checks,
                           s2_store_item *out)
{
    s2_db_sim *const sims = S2_NEW(found->arena, s2_db_sim, 2 * found->n_phases);
    const s2_db_reach *reach;
    int32_t n = 0;
    if (sims == NULL)
        return S2_ENOMEM;
    for (int32_t phase = found->n_phases; phase-- > 0;) {
        S2_TRY(fill_compared(found, design, phase, predicted_like(found, phase), &sims[n++]));
        if (tells_more(found, design, phase))
            S2_TRY(fill_told(found, design, phase, &sims[n++]));
    }
    S2_TRY(fill_reach(found, design, &reach));
    *out = (s2_store_item){.input = {.label = design->name, .pattern = design->pattern},
                           .n_checks = found->search.n_requirements,
                           .checks = checks,
                           .n_sims = n,
                           .sims = sims,
                           .reach = reach};
    return S2_OK;
}

s2_exit s2_found_store(s2_cli *cli, const s2_found *found)
{
    if (cli->no_db || found->n_designs == 0)
        return S2_EXIT_OK;
    s2_db_check *checks = NULL;
    s2_store_item *const items = S2_NEW(&cli->arena, s2_store_item, found->n_designs);
    s2_status status = items != NULL ? fill_checks(found, &checks) : S2_ENOMEM;
    for (int32_t n = 0; n < found->n_designs && status == S2_OK; n++)
        status = fill_item(found, &found->designs[n], checks, &items[n]);
    return status == S2_OK ? s2_store_items(cli, items, found->n_designs) : s2_cli_fail(cli, status, "front");
}
