/* The front of a search as one JSON object. */
#include "report/found.h"

#include <math.h>
#include <string.h>

#include "export/restriction.h"
#include "report/report.h"

static void json_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    s2_json_key_int(buf, "candidates", found->space.n_candidates);
    s2_json_key_int(buf, "visited", found->state.next - found->search.begin);
    s2_json_key_bool(buf, "complete", found->state.next == found->search.end);
    s2_json_key_begin(buf, "dropped", '{');
    s2_json_key_int(buf, "refused", counts->refused);
    for (int p = 0; p < S2_N_PROPERTIES; p++)
        if (counts->violated[p] > 0)
            s2_json_key_int(buf, s2_property_word((s2_property)p), counts->violated[p]);
    s2_json_key_int(buf, "unknown", counts->unknown);
    s2_json_key_int(buf, "outside", counts->outside);
    s2_json_key_int(buf, "unaccepted", counts->unaccepted);
    s2_json_key_int(buf, "beaten", counts->beaten);
    s2_json_end(buf, '}');
    s2_json_key_int(buf, "priced", counts->priced);
}

/* A training step that is not told has no value but its bound, by another name. */
static bool is_bound(const s2_found *found, const s2_found_design *design, s2_objective objective)
{
    return s2_found_is_bound(found, design, objective) && !s2_found_is_untold(found, design, objective);
}

/* The values of the page's table; a training step that is not told has its bound alone. */
static void json_values(const s2_found *found, const s2_found_design *design, s2_buf *buf)
{
    s2_json_key_int(buf, "candidate", design->point->index);
    for (int32_t v = 0; v < found->search.n_by; v++) {
        const s2_objective objective = found->search.by[v];
        const bool untold = s2_found_is_untold(found, design, objective);
        s2_json_key_num(buf, s2_objective_word(objective), untold ? (double)NAN : design->shown[v]);
        if (design->told || untold)
            if (objective == S2_BY_TRAIN_US)
                s2_json_key_num(buf, "train_bound_us", design->point->value[v]);
    }
    s2_json_key_begin(buf, "bounds", '[');
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (is_bound(found, design, found->search.by[v]))
            s2_json_str(buf, s2_objective_word(found->search.by[v]));
    s2_json_end(buf, ']');
}

/* What a time of the question's GPUs is where it is no bound: all are priced with the same constants. */
static const char *told_word(const s2_found *found, s2_objective objective)
{
    for (int32_t p = 0; p < found->n_phases; p++)
        for (int32_t n = 0; n < found->n_designs && found->designs[n].sims != NULL; n++)
            if (found->phases[p] == (s2_phase)objective && found->designs[n].sims[p].predicted)
                return s2_sim_figure_word(&found->designs[n].sims[p]);
    return "predicted";
}

/* "mixed" where some designs of the front have predictions or guesses and others bounds. */
static const char *priced_as(const s2_found *found, s2_objective objective)
{
    int32_t n_bounds = 0;
    for (int32_t n = 0; n < found->n_designs; n++)
        n_bounds += is_bound(found, &found->designs[n], objective);
    if (found->n_designs == 0)
        return s2_sim_predicts(&found->search.options, (s2_phase)objective) ? "predicted" : "bound";
    return n_bounds == 0 ? told_word(found, objective) : n_bounds == found->n_designs ? "bound" : "mixed";
}

/* Whether each time that is minimized is a prediction on the front. */
static void json_priced(const s2_found *found, s2_buf *buf)
{
    s2_json_key_begin(buf, "priced_as", '{');
    for (int32_t v = 0; v < found->search.n_by; v++) {
        const s2_objective objective = found->search.by[v];
        if (objective <= S2_BY_TRAIN_US)
            s2_json_key_str(buf, s2_objective_word(objective), priced_as(found, objective));
    }
    s2_json_end(buf, '}');
}

/* What the page says of a design in a phase; every ratio there is one of these over another design's. */
static s2_status json_phase(const s2_found *found, const s2_found_design *design, int32_t p, s2_buf *buf)
{
    const s2_sim *const sim = &design->sims[p];
    const s2_sim_options options = s2_found_options(found, found->phases[p]);
    s2_sim guess = *sim;
    if (!sim->predicted)
        S2_TRY(s2_found_predict(found, design, found->phases[p], &guess));
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "phase", s2_phase_word(found->phases[p]));
    s2_json_key_str(buf, "priced", s2_sim_figure_word(sim));
    s2_json_key_num(buf, "time_us", sim->time_us);
    s2_json_key_bool(buf, "fits", s2_sim_runs(&options, sim, false));
    s2_json_key_str(buf, "no_ratio", s2_no_ratio_word(s2_sim_no_ratio(&options, sim)));
    s2_json_key_num(buf, "kernels_us", guess.predicted ? guess.time_us : (double)NAN);
    s2_json_key_num(buf, "end_to_end_us", guess.end_to_end_us > 0 ? guess.end_to_end_us : (double)NAN);
    const bool cached = found->phases[p] != S2_TRAIN; /* training keeps no cache */
    s2_report_states_json(sim, buf);
    s2_json_key_num(buf, "kv_bytes", cached ? (double)sim->kv_kept : (double)NAN);
    s2_json_key_num(buf, "kv_needed_bytes", cached ? (double)sim->kv.head_pages : (double)NAN);
    s2_json_end(buf, '}');
    return S2_OK;
}

static s2_status json_phases(const s2_found *found, const s2_found_design *design, s2_buf *buf)
{
    s2_json_key_begin(buf, "phases", '[');
    for (int32_t p = 0; p < found->n_phases; p++)
        S2_TRY(json_phase(found, design, p, buf));
    s2_json_end(buf, ']');
    return S2_OK;
}

/* whole: also what the page says of it in each phase. */
static void json_design(const s2_found *found, const s2_found_design *design, bool whole, s2_buf *buf)
{
    s2_buf text = {0};
    s2_worth worth;
    s2_pattern_print(&design->pattern, &text);
    s2_buf_add(&text, "", 1);
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "hash", design->hash);
    s2_json_key_str(buf, "name", design->name);
    s2_json_key_str(buf, "pattern", text.data);
    json_values(found, design, buf);
    s2_status status =
        s2_worth_figures(found->arena, &design->pattern, found->search.options.len_tok, &worth);
    if (status == S2_OK)
        s2_report_worth_json(&worth, buf);
    if (status == S2_OK && whole)
        status = json_phases(found, design, buf);
    s2_json_end(buf, '}');
    if (text.status != S2_OK || status != S2_OK)
        buf->status = status != S2_OK ? status : text.status;
    s2_buf_release(&text);
}

static void json_least(const s2_found *found, s2_buf *buf)
{
    s2_json_key_begin(buf, "least", '[');
    for (int32_t n = 0; n < found->n_least; n++) {
        const s2_found_least *const least = &found->least[n];
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "of", s2_objective_word(least->of));
        s2_json_key_num(buf, "value", least->point.value[0]);
        s2_json_key_num(buf, "of_dense", least->of_dense);
        s2_json_key_bool(buf, "within_others", least->within_others);
        s2_json_key_int(buf, "candidate", least->point.index);
        s2_json_key_str(buf, "choice", least->choice);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

static void json_rival(const s2_found *found, const char *key, const s2_found_rival *rival, s2_buf *buf)
{
    s2_json_key(buf, key);
    if (rival != NULL)
        json_design(found, &rival->design, true, buf);
    else
        s2_json_null(buf);
}

/* The rivals that the best is cheaper than in no price. */
static void json_dearer(const s2_found *found, s2_buf *buf)
{
    const s2_found_design *const best = found->n_designs > 0 ? &found->designs[0] : NULL;
    s2_json_key_begin(buf, "dearer_than", '[');
    if (best != NULL && found->own != NULL && s2_found_is_no_cheaper(found, best, found->own))
        s2_json_str(buf, "own");
    if (best != NULL && s2_found_is_no_cheaper(found, best, found->dense))
        s2_json_str(buf, "dense");
    s2_json_end(buf, ']');
}

static void json_rivals(const s2_found *found, s2_buf *buf)
{
    json_rival(found, "own", found->own, buf);
    json_rival(found, "dense", found->dense, buf);
    s2_json_key_begin(buf, "beaten_by", '{');
    s2_json_key_int(buf, "own", found->n_by_own);
    s2_json_key_int(buf, "dense", found->n_by_dense);
    s2_json_key_int(buf, "either", found->n_beaten);
    s2_json_end(buf, '}');
    json_dearer(found, buf);
    s2_json_key(buf, "nearest");
    if (found->nearest != NULL)
        json_design(found, found->nearest, true, buf);
    else
        s2_json_null(buf);
}

/* What else the times and caches are of. */
static void json_words(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options asked = s2_found_question(found), *const options = &asked;
    s2_json_key_int(buf, "tp", options->n_ranks);
    s2_json_key_int(buf, "page", options->page_tok);
    s2_json_key_str(buf, "weights", s2_weights_word(s2_sim_weights(options)));
    s2_json_key_str(buf, "kv_dtype", s2_cache_type_word(options->cache));
    s2_json_key_str(buf, "fusion", s2_fusion_word(options->fusion));
    s2_json_key_int(buf, "dp", options->n_shards);
    s2_json_key_bool(buf, "recompute", options->recompute);
    if (options->listed)
        s2_json_key_bool(buf, "device_lists", true);
    if (options->reserved_permille > 0)
        s2_json_key_num(buf, "gpu_memory_utilization", 1 - options->reserved_permille / 1e3);
    s2_json_key_int(buf, "pp", options->n_stages);
    s2_json_key_int(buf, "micro", options->n_micro);
    s2_json_key_int(buf, "cp", options->n_context);
    s2_json_key_str(buf, "cut", s2_cut_word(options->cut));
    s2_json_key_int(buf, "ep", options->n_expert_ranks);
    s2_json_key_int(buf, "nodes", options->n_nodes);
    if (found->n_designs > 0) {
        const s2_sim *const worst = s2_found_scored(found, &found->designs[0]);
        s2_report_scores_json(worst->scores, worst->scored, buf);
    }
    s2_json_key_begin(buf, "phase", '[');
    for (int32_t p = 0; p < found->n_phases; p++)
        s2_json_str(buf, s2_phase_word(found->phases[p]));
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "format", '[');
    for (int32_t n = 0; n < found->restriction->n_formats; n++)
        s2_json_str(buf, found->restriction->formats[n]->name);
    s2_json_end(buf, ']');
}

/* Of a model of which some layers keep a state and read no keys: those that designs are about. */
static void json_attention(const s2_found *found, s2_buf *buf)
{
    s2_buf list = {0};
    s2_found_put_attention(found, &list);
    s2_buf_add(&list, "", 1);
    if (found->n_mixers > 0 && list.status == S2_OK) {
        s2_json_key_str(buf, "attention_layers", list.data);
        s2_json_key_int(buf, "state_layers", found->n_mixers);
    }
    s2_buf_release(&list);
}

void s2_found_json(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2search/1");
    s2_json_key_str(buf, "space", found->space_text);
    s2_json_key_str(buf, "model", found->model[0] != '\0' ? found->model : NULL);
    s2_json_key_str(buf, "gpu", options->gpu.name);
    s2_json_key_int(buf, "len", options->len_tok);
    s2_json_key_int(buf, "batch", options->batch);
    json_words(found, buf);
    json_attention(found, buf);
    s2_json_key_str(buf, "dtype", s2_dtype_word(options->dtype));
    s2_json_key_str(buf, "at_most", found->at_most);
    json_counts(found, buf);
    json_priced(found, buf);
    s2_json_key_int(buf, "best", found->n_designs > 0 ? found->designs[0].point->index : -1);
    s2_json_key_begin(buf, "front", '[');
    for (int32_t n = 0; n < found->n_designs; n++)
        json_design(found, &found->designs[n], n == 0, buf);
    s2_json_end(buf, ']');
    json_rivals(found, buf);
    json_least(found, buf);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}
