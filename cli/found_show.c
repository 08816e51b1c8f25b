/* The front of a search on the terminal and as JSON: counts, table, the best design in words. */
#include "cli/found.h"

#include <math.h>
#include <string.h>

#include "cli/report.h"
#include "sim/units.h"

enum { TABLE_ROWS = 20, SHOWN_DIGITS = 8 };

static void put_value(s2_objective objective, double value, s2_buf *buf)
{
    if (objective == S2_BY_KV_BYTES)
        s2_bytes_print(value, buf);
    else if (objective <= S2_BY_TRAIN_US)
        s2_time_print(value, buf);
    else if (objective == S2_BY_DEPTH)
        s2_buf_printf(buf, "%.0f", value);
    else
        s2_buf_printf(buf, "%.5f", value);
}

/* ---- the table */

static void put_cell(s2_objective objective, double value, s2_buf *buf)
{
    s2_buf cell = {0};
    put_value(objective, value, &cell);
    s2_buf_printf(buf, " %11s", cell.data != NULL ? cell.data : "");
    s2_buf_release(&cell);
}

static void put_table(const s2_found *found, s2_buf *buf)
{
    s2_buf_puts(buf, "best first\ndesign  ");
    for (int32_t v = 0; v < found->search.n_by; v++)
        s2_buf_printf(buf, " %11s", s2_objective_word(found->search.by[v]));
    s2_buf_puts(buf, "  pattern\n");
    for (int32_t n = 0; n < found->n_designs && n < TABLE_ROWS; n++) {
        const s2_found_design *const design = &found->designs[n];
        s2_buf_printf(buf, "%.*s", SHOWN_DIGITS, design->hash);
        for (int32_t v = 0; v < found->search.n_by; v++)
            put_cell(found->search.by[v], design->shown[v], buf);
        s2_buf_printf(buf, "  %s\n", design->choice);
    }
    if (found->n_designs > TABLE_ROWS)
        s2_buf_printf(buf, "...      and %d more: s2 pareto, s2 ls, or --json\n",
                      (int)found->n_designs - TABLE_ROWS);
}

/* ---- the winner, in words */

static const char *resource_words(s2_resource resource)
{
    static const char *const words[S2_N_RESOURCES] = {
        [S2_MMA] = "the matrix units", [S2_EXP] = "the exponential units", [S2_HBM] = "memory bandwidth",
        [S2_L2] = "the L2 cache",      [S2_LINK] = "the link to the host", [S2_LAUNCH] = "kernel launches"};
    return words[resource];
}

static bool asks_for(const s2_found *found, s2_property property)
{
    for (int32_t r = 0; r < found->search.n_requirements; r++)
        if (found->search.requirements[r].property == property)
            return true;
    return false;
}

static void put_ratio(double times, s2_buf *buf)
{
    if (times >= 1.005)
        s2_buf_printf(buf, "%s times faster than", s2_decimal(times, 3).text);
    else if (times > 0.995)
        s2_buf_puts(buf, "as fast as");
    else
        s2_buf_printf(buf, "%s times slower than", s2_decimal(1 / times, 3).text);
}

/* How far off the time may be, in the words of s2 sim. */
static void put_error(const s2_sim *sim, s2_buf *buf)
{
    if (sim->beyond > 0)
        s2_buf_printf(
            buf, " (extrapolated in %s: %.0f, measured from %.0f to %.0f; an error of %.0f %% is allowed)",
            s2_extent_words(sim->beyond_in), sim->beyond_asked, sim->beyond_span.least,
            sim->beyond_span.greatest, sim->error_pct);
    else if (!sim->measured)
        s2_buf_printf(buf, " (nothing was measured on this GPU; an error of %.0f %% is allowed)",
                      sim->error_pct);
    else
        s2_buf_printf(buf, " (such predictions are off by %.0f %%)", sim->error_pct);
}

static s2_status put_prediction(const s2_found *found, const s2_found_design *design, s2_phase phase,
                                s2_buf *buf)
{
    s2_sim sim;
    S2_TRY(s2_found_predict(found, design, phase, &sim));
    if (!sim.predicted)
        return S2_OK;
    s2_buf_printf(buf, ";\n    the kernels here are %s to take ", sim.measured ? "predicted" : "guessed");
    s2_time_print(sim.time_us, buf);
    put_error(&sim, buf);
    s2_buf_puts(buf, ", ");
    put_ratio(sim.dense_time_us / sim.time_us, buf);
    s2_buf_puts(buf, " dense");
    return S2_OK;
}

static bool compares_times(const s2_found *found)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US)
            return true;
    return false;
}

/* Designs whose times of all phases lie within the error of the best one's: the model cannot order them. */
static int32_t count_alike(const s2_found *found, const double *error_pct)
{
    const double *const best = found->designs[0].shown;
    const int32_t n_ordered = found->n_told > 0 ? found->n_told : found->n_designs;
    int32_t count = 0;
    for (int32_t n = 1; n < n_ordered; n++) {
        bool alike = true;
        for (int32_t v = 0; v < found->search.n_by; v++)
            if (found->search.by[v] <= S2_BY_TRAIN_US)
                alike &=
                    fabs(found->designs[n].shown[v] / best[v] - 1) * 100 <= error_pct[found->search.by[v]];
        count += alike;
    }
    return count;
}

/* The time that a person waits, of which attention is only a part. */
static void put_end_to_end(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    s2_buf_printf(buf, ";\n    %s ",
                  options->phase == S2_TRAIN ? "the whole step takes" : "with the layers around it");
    s2_time_print(sim->end_to_end_us, buf);
    s2_buf_puts(buf, ", ");
    s2_rate_print(s2_sim_tokens_per_s(options, sim->end_to_end_us), buf);
    s2_buf_puts(buf, " tokens/s; with dense attention ");
    s2_time_print(sim->end_to_end_dense_us, buf);
    s2_buf_puts(buf, ", ");
    s2_rate_print(s2_sim_tokens_per_s(options, sim->end_to_end_dense_us), buf);
    s2_buf_puts(buf, ": ");
    put_ratio(sim->end_to_end_dense_us / sim->end_to_end_us, buf);
    s2_buf_puts(buf, " dense");
    if (s2_sim_dense_spills(options, sim))
        s2_buf_puts(buf, ", whose cache does not fit and waits for the link");
}

/* Goes before any time of a training step, because a step that does not fit has no time. */
static void put_training(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const s2_training *const training = &sim->training;
    if (training->bytes <= 0) {
        s2_buf_puts(buf, "  train is priced as attention alone; --model prices the whole step, and says "
                         "whether it fits\n");
        return;
    }
    const bool fits = sim->fit_batch >= options->batch;
    s2_buf_printf(buf, "  the training step %s: ", fits ? "fits the GPU" : "does not fit the GPU");
    s2_bytes_print(training->bytes, buf);
    s2_buf_puts(buf, " of ");
    s2_bytes_print(options->gpu.hbm_gb * 1e9, buf);
    s2_buf_puts(buf, ", with ");
    s2_bytes_print(training->state_bytes, buf);
    s2_buf_puts(buf, " of weights, gradients and optimizer and ");
    s2_bytes_print(training->activation_bytes, buf);
    s2_buf_puts(buf, " of activations,\n    the same for every pattern");
    if (!fits && sim->fit_len_tok > 0)
        s2_buf_printf(buf, "; at this batch %lld tokens fit", (long long)sim->fit_len_tok);
    s2_buf_puts(buf, fits ? "\n"
                          : "; more GPUs (--tp here, --dp of s2 sim) or --recompute of s2 sim leave room,\n"
                            "    and the times below are of a step that this GPU cannot run as it is\n");
}

static s2_status put_phase(const s2_found *found, const s2_found_design *best, int32_t p, s2_buf *buf)
{
    const s2_phase phase = found->phases[p];
    const s2_sim *const sim = &best->sims[p];
    const s2_sim_options options = s2_found_options(found, phase);
    if (phase == S2_TRAIN)
        put_training(&options, sim, buf);
    s2_buf_printf(buf, "  %s %s ", phase == S2_TRAIN ? "its attention" : s2_phase_word(phase),
                  sim->predicted ? "is predicted to take" : "takes at least");
    s2_time_print(sim->time_us, buf);
    if (sim->predicted)
        put_error(sim, buf);
    const bool spills = s2_sim_dense_spills(&options, sim);
    const s2_format *const keeper = s2_restriction_keeper(found->restriction);
    if (spills && keeper != NULL) {
        s2_buf_printf(buf,
                      " where its cache drops pages; %s keeps them all, they do not fit the GPU, and "
                      "neither this time nor any ratio holds there",
                      keeper->stack);
        return S2_OK;
    }
    s2_buf_puts(buf, ", ");
    if (sim->predicted)
        put_ratio(sim->dense_time_us / sim->time_us, buf);
    else
        s2_buf_printf(buf, "by peak rates and not by any kernel, %s of the bound of",
                      s2_decimal(sim->time_us / sim->dense_time_us, 3).text);
    s2_buf_printf(buf, " dense attention%s, bound by %s",
                  spills ? " (whose cache does not fit the GPU and is read from host memory)" : "",
                  resource_words(sim->bound_by));
    if (!sim->predicted)
        return put_prediction(found, best, phase, buf);
    s2_buf_puts(buf, ";\n    no kernel takes less than ");
    s2_time_print(sim->bound_us, buf);
    if (sim->end_to_end_us > 0)
        put_end_to_end(&options, sim, buf);
    return S2_OK;
}

/* What the search does not measure must not look as if it had been weighed. */
static s2_status put_worth(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    const double unread = s2_found_value(found, best->point, S2_BY_UNREAD, -1);
    s2_worth worth;
    S2_TRY(s2_worth_figures(&found->cli->arena, &best->pattern, found->search.options.len_tok, &worth));
    s2_buf_puts(buf, "  ");
    if (worth.not_judged == NULL)
        s2_report_worth_text(&worth, buf);
    else
        s2_buf_puts(buf, "not judged: how well a model works with it (s2 reach says what is known of that)");
    if (unread >= 0)
        s2_buf_printf(buf, "; it leaves %.1f %% of all (head, query, key) unread", 100 * unread);
    else
        s2_buf_puts(buf, "; --minimize us,kv_bytes,unread also weighs what is left unread");
    s2_buf_puts(buf, "\n");
    return S2_OK;
}

static void put_kept(const s2_found *found, double bytes, const s2_sim *sim, s2_buf *buf)
{
    const int32_t n_ranks = found->search.options.n_ranks;
    s2_bytes_print(bytes, buf);
    if (n_ranks > 1)
        s2_buf_printf(buf, " on all %d GPUs together", n_ranks);
    s2_buf_printf(buf, ", %.1f %% of dense", 100 * bytes / (double)sim->kv.dense);
}

static void put_cache(const s2_found *found, const s2_sim *sim, s2_buf *buf)
{
    const s2_format *const keeper = s2_restriction_keeper(found->restriction);
    if (keeper == NULL) {
        s2_buf_puts(buf, ";\n  the KV cache keeps ");
        put_kept(found, (double)sim->kv.head_pages, sim, buf);
        if (sim->host_bytes > 0)
            s2_buf_puts(buf, ", more than fits the GPU beside the weights");
        return;
    }
    s2_buf_printf(buf, ";\n  %s keeps every page of the KV cache: ", keeper->stack);
    put_kept(found, s2_sim_all_pages_bytes(&found->search.options, sim), sim, buf);
    if (sim->host_dense_bytes > 0)
        s2_buf_puts(buf, ", more than fits the GPU beside the weights");
    s2_buf_puts(buf, ";\n  a cache that drops what no head reads any more would keep ");
    put_kept(found, (double)sim->kv.head_pages, sim, buf);
}

/* A price must not be mistaken for that of the stack that the file is for. */
static void put_stacks(const s2_found *found, s2_buf *buf)
{
    for (int32_t n = 0; n < found->restriction->n_formats; n++) {
        const s2_format *const format = found->restriction->formats[n];
        if (format->stack != NULL)
            s2_buf_printf(buf,
                          "  the %s file is for %s; the times above are of the kernels of s2, not of its\n",
                          format->name, format->stack);
    }
}

static s2_status put_phases(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    double error_pct[S2_N_PHASES] = {0};
    bool predicted = false, cached = false;
    for (int32_t p = 0; p < found->n_phases; p++) {
        const s2_sim *const sim = &best->sims[p];
        S2_TRY(put_phase(found, best, p, buf));
        error_pct[found->phases[p]] = sim->predicted ? sim->error_pct : 0;
        predicted |= sim->predicted;
        if (!cached && found->phases[p] != S2_TRAIN) { /* training keeps no cache */
            put_cache(found, sim, buf);
            cached = true;
        }
        if (p == 0) {
            s2_buf_printf(buf, ";\n  a head reads %.2f %% of what dense attention reads, and %s",
                          100 * sim->token_density,
                          asks_for(found, S2_UNION) ? "together all heads of a layer read everything"
                                                    : "nothing was asked of all heads together");
        }
        s2_buf_puts(buf, "\n");
    }
    put_stacks(found, buf);
    S2_TRY(put_worth(found, best, buf));
    const int32_t n_alike = predicted && compares_times(found) ? count_alike(found, error_pct) : 0;
    if (n_alike > 0)
        s2_buf_printf(
            buf,
            "  %d more of the front %s within that error of it: only a device tells which is fastest "
            "(--validate)\n",
            (int)n_alike, n_alike == 1 ? "is" : "are");
    return S2_OK;
}

/* Whether two values print alike: a difference that nobody can see does not count. */
static bool looks_same(s2_objective objective, double mine, double other)
{
    s2_buf a = {0}, b = {0};
    put_value(objective, mine, &a);
    put_value(objective, other, &b);
    const bool same = a.len == b.len && a.len > 0 && memcmp(a.data, b.data, a.len) == 0;
    s2_buf_release(&a);
    s2_buf_release(&b);
    return same;
}

static void put_against(const s2_found *found, const s2_found_design *best, const s2_found_design *next,
                        s2_buf *buf)
{
    s2_buf_printf(buf, "  against the next best, %s (%s):\n", next->name, next->choice);
    for (int32_t v = 0; v < found->search.n_by; v++) {
        const double mine = best->shown[v], other = next->shown[v];
        const char *const word = s2_objective_word(found->search.by[v]);
        if (looks_same(found->search.by[v], mine, other)) {
            s2_buf_printf(buf, "    %s is the same\n", word);
            continue;
        }
        s2_buf_printf(buf, "    it %s %s: ", mine < other ? "wins" : "gives up", word);
        put_value(found->search.by[v], mine, buf);
        s2_buf_puts(buf, " against ");
        put_value(found->search.by[v], other, buf);
        if (fmin(mine, other) > 0)
            s2_buf_printf(buf, " (%.2f %%)", 100 * (fmax(mine, other) / fmin(mine, other) - 1));
        s2_buf_puts(buf, "\n");
    }
}

/* The last word before a hole names its number: "local", "stride". */
static void put_hole(const s2_space_piece *piece, int64_t value, int32_t side, s2_buf *buf)
{
    size_t end = piece->n_bytes;
    while (end > 0 && piece->text[end - 1] == ' ')
        end--;
    size_t begin = end;
    while (begin > 0 && strchr(" ;:|\n", piece->text[begin - 1]) == NULL)
        begin--;
    s2_buf_printf(buf, "%.*s %lld is the %s", (int)(end - begin), piece->text + begin, (long long)value,
                  side < 0 ? "smallest" : "largest");
}

/* A best design on the edge of its space may be best only because the space ends there. */
static void put_edges(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    int32_t n_edges = 0;
    for (int32_t piece = 0; piece < found->space.n_pieces; piece++) {
        int64_t value = 0;
        const int32_t side = found->space.pieces[piece].n_values > 1
                                 ? s2_space_edge(&found->space, best->point->index, piece, &value)
                                 : 0;
        if (side == 0)
            continue;
        s2_buf_puts(buf, n_edges++ == 0 ? "  on the edge of the space: " : ", ");
        put_hole(&found->space.pieces[piece], value, side, buf);
    }
    if (n_edges > 0)
        s2_buf_puts(buf, " allowed; a wider space may have a better one\n");
}

static s2_status put_winner(const s2_found *found, s2_buf *buf)
{
    const s2_found_design *const best = &found->designs[0];
    s2_buf_printf(buf, "\nbest overall: %s, %s\n", best->name, best->choice);
    S2_TRY(put_phases(found, best, buf));
    put_edges(found, best, buf);
    if (found->n_designs > 1)
        put_against(found, best, &found->designs[1], buf);
    else
        s2_buf_puts(buf, "  it gives up nothing: no other candidate is better anywhere\n");
    return S2_OK;
}

/* ---- counts */

static void put_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    s2_buf_printf(buf, "%lld of %lld candidates visited",
                  (long long)(found->state.next - found->search.begin), (long long)found->space.n_candidates);
    if (counts->refused > 0)
        s2_buf_printf(buf, "; %lld are refused", (long long)counts->refused);
    for (int32_t r = 0; r < found->search.n_requirements; r++) {
        const s2_property property = found->search.requirements[r].property;
        bool twin = false;
        for (int32_t earlier = 0; earlier < r; earlier++)
            twin |= found->search.requirements[earlier].property == property;
        if (!twin && counts->violated[property] > 0)
            s2_buf_printf(buf, "; %lld violate %s", (long long)counts->violated[property],
                          s2_property_word(property));
    }
    if (counts->unknown > 0)
        s2_buf_printf(buf, "; %lld are not decided", (long long)counts->unknown);
    if (counts->outside > 0)
        s2_buf_printf(buf, "; %lld above --at-most", (long long)counts->outside);
    if (counts->unaccepted > 0)
        s2_buf_printf(buf, "; %lld cannot be deployed as asked", (long long)counts->unaccepted);
    s2_buf_printf(buf, "; %lld beaten by their bounds; %lld priced; %d on the front\n",
                  (long long)counts->beaten, (long long)counts->priced, (int)found->state.front.n);
}

/* What --at-most would have to be for the candidates that were visited. */
static void put_least(const s2_found *found, s2_buf *buf)
{
    const bool all = found->state.next - found->search.begin == found->space.n_candidates;
    if (found->n_least == 0 && found->state.front.n == 0 && found->state.counts.outside > 0 && all)
        s2_buf_puts(buf, "no candidate can be deployed as asked, whatever --at-most says\n");
    if (found->n_least == 0)
        return;
    s2_buf_printf(buf, "no candidate is within --at-most %s; %s:\n", found->at_most,
                  all ? "the least that any candidate has" : "the least found among the candidates visited");
    for (int32_t n = 0; n < found->n_least; n++) {
        const s2_found_least *const least = &found->least[n];
        s2_buf_printf(buf, "  %-11s ", s2_objective_word(least->of));
        put_value(least->of, least->point.value[0], buf);
        if (!isnan(least->of_dense))
            s2_buf_printf(buf, ", %s %% of dense", s2_decimal(100 * least->of_dense, 4).text);
        s2_buf_printf(buf, "%s: %s\n",
                      least->within_others         ? ", within the other limits"
                      : found->search.n_limits > 1 ? ", but above another limit"
                                                   : "",
                      least->choice);
    }
}

/* Say how times were compared, if there are any. */
static void put_ranking(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    bool predicted = false, bound = false;
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US) {
            const bool own = s2_sim_predicts(options, (s2_phase)found->search.by[v]);
            predicted |= own;
            bound |= !own;
        }
    if (found->n_told > 0)
        s2_buf_printf(buf,
                      "train_us: bounds at peak rates made the front; its %d best are predicted and in the "
                      "order of that\n",
                      (int)found->n_told);
    if (predicted)
        s2_buf_printf(buf, "times%s are predictions for the kernels measured on %s at commit %s\n",
                      bound && found->n_told == 0 ? " (except train_us, a bound)" : "", options->gpu.name,
                      options->calibration->head.commit);
    else if (bound && found->n_told == 0)
        s2_buf_printf(buf, "times are bounds at peak rates%s%s\n",
                      found->measured && options->dtype != S2_F8 ? "" : ": no kernels were measured ",
                      !found->measured          ? "on this GPU"
                      : options->dtype == S2_F8 ? "in fp8"
                                                : "");
}

/* ---- JSON */

static void json_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    s2_json_key_int(buf, "candidates", found->space.n_candidates);
    s2_json_key_int(buf, "visited", found->state.next - found->search.begin);
    s2_json_key_bool(buf, "complete", found->state.next == found->search.end);
    s2_json_key(buf, "dropped");
    s2_json_begin(buf, '{');
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

static void json_values(const s2_found *found, const s2_point *point, s2_buf *buf)
{
    s2_json_key_int(buf, "candidate", point->index);
    for (int32_t v = 0; v < found->search.n_by; v++) {
        s2_json_key_num(buf, s2_objective_word(found->search.by[v]), point->value[v]);
    }
}

static void json_design(const s2_found *found, const s2_found_design *design, bool told, s2_buf *buf)
{
    s2_buf text = {0};
    s2_worth worth;
    s2_pattern_print(&design->pattern, &text);
    s2_buf_add(&text, "", 1);
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "hash", design->hash);
    s2_json_key_str(buf, "name", design->name);
    s2_json_key_str(buf, "pattern", text.data);
    json_values(found, design->point, buf);
    const s2_status status =
        s2_worth_figures(&found->cli->arena, &design->pattern, found->search.options.len_tok, &worth);
    if (status == S2_OK)
        s2_report_worth_json(&worth, buf);
    if (told) /* s2search/1 names the bound train_us */
        for (int32_t v = 0; v < found->search.n_by; v++)
            if (found->search.by[v] == S2_BY_TRAIN_US)
                s2_json_key_num(buf, "train_predicted_us", design->shown[v]);
    s2_json_end(buf, '}');
    if (text.status != S2_OK || status != S2_OK)
        buf->status = status != S2_OK ? status : text.status;
    s2_buf_release(&text);
}

static void json_least(const s2_found *found, s2_buf *buf)
{
    s2_json_key(buf, "least");
    s2_json_begin(buf, '[');
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

static s2_status put_json(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2search/1");
    s2_json_key_str(buf, "space", found->space_text);
    s2_json_key_str(buf, "model", found->model[0] != '\0' ? found->model : NULL);
    s2_json_key_str(buf, "gpu", options->gpu.name);
    s2_json_key_int(buf, "len", options->len_tok);
    s2_json_key_int(buf, "batch", options->batch);
    s2_json_key_str(buf, "dtype", s2_dtype_word(options->dtype));
    s2_json_key_str(buf, "at_most", found->at_most);
    json_counts(found, buf);
    s2_json_key_str(buf, "times", s2_sim_predicts(options, found->phases[0]) ? "predicted" : "bounds");
    s2_json_key_int(buf, "best", found->n_designs > 0 ? found->designs[0].point->index : -1);
    s2_json_key(buf, "front");
    s2_json_begin(buf, '[');
    for (int32_t n = 0; n < found->n_designs; n++)
        json_design(found, &found->designs[n], n < found->n_told, buf);
    s2_json_end(buf, ']');
    json_least(found, buf);
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
    return buf->status;
}

s2_exit s2_found_show(const s2_found *found)
{
    s2_buf buf = {0};
    s2_status status = S2_OK;
    if (found->json) {
        status = put_json(found, &buf);
    } else {
        put_counts(found, &buf);
        put_ranking(found, &buf);
        put_least(found, &buf);
        if (found->n_designs > 0) {
            put_table(found, &buf);
            status = put_winner(found, &buf);
        }
    }
    if (status == S2_OK)
        return s2_cli_print(found->cli, &buf);
    s2_buf_release(&buf);
    return s2_cli_fail(found->cli, status, "front");
}
