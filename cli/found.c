#include "cli/found.h"

#include <math.h>
#include <string.h>

#include "cli/check.h"
#include "cli/store.h"
#include "pattern/parse.h"
#include "sim/report.h"

/* A front may have thousands of points: so many are also priced by the whole simulator for their rows. */
enum { TABLE_ROWS = 20, FULL_ROWS = 128 };

static const s2_front *front_of(const s2_found *found)
{
    return &found->state.front;
}

/* "llama-3.1-8b-000042": the index with as many digits as any of its space has, so that names sort by it. */
const char *s2_found_name(const s2_found *found, int64_t index)
{
    int width = 1;
    for (int64_t rest = found->space.n_candidates - 1; rest >= 10; rest /= 10)
        width++;
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%s-%0*lld", found->model[0] != '\0' ? found->model : "search", width,
                  (long long)index);
    const char *const name =
        buf.status == S2_OK ? s2_arena_strndup(&found->cli->arena, buf.data, buf.len) : NULL;
    s2_buf_release(&buf);
    return name != NULL ? name : "";
}

/* A line's end where one line is written. */
static void end_statement(s2_buf *out, size_t begin)
{
    while (out->len > begin && out->data[out->len - 1] == ' ')
        out->len--;
    if (out->len > begin)
        s2_buf_puts(out, out->data[out->len - 1] == ';' ? " " : "; ");
}

/* What the space says of a candidate, in one line and without the model's line before it. */
static void put_choice(const s2_found *found, int64_t index, s2_buf *out)
{
    const size_t begin = out->len;
    s2_buf text = {0};
    s2_space_expand(&found->space, index, &text);
    s2_buf_add(&text, "", 1);
    const char *at = text.status == S2_OK ? text.data : "";
    if (found->model[0] != '\0')
        at += strcspn(at, "\n") + 1;
    for (; *at != '\0'; at++) {
        if (*at == '#') /* a file may have comments */
            at += strcspn(at, "\n");
        if (*at == '\0')
            break;
        const char last = out->len > begin ? out->data[out->len - 1] : ';';
        if (*at == '\n' || *at == ';')
            end_statement(out, begin);
        else if (*at != ' ' && *at != '\t' && *at != '\r')
            s2_buf_add(out, at, 1);
        else if (last != ' ' && out->len > begin)
            s2_buf_puts(out, " ");
    }
    /* choices of nothing leave empty statements behind */
    while (out->len > begin && strchr("; ", out->data[out->len - 1]) != NULL)
        out->len--;
    if (text.status != S2_OK)
        out->status = text.status;
    s2_buf_release(&text);
}

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
    const s2_front *const front = front_of(found);
    s2_buf_printf(buf, "%12s", "candidate");
    for (int32_t v = 0; v < found->search.n_by; v++)
        s2_buf_printf(buf, " %11s", s2_objective_word(found->search.by[v]));
    s2_buf_puts(buf, "  pattern\n");
    for (int32_t p = 0; p < front->n && p < TABLE_ROWS; p++) {
        s2_buf_printf(buf, "%12lld", (long long)front->points[p].index);
        for (int32_t v = 0; v < found->search.n_by; v++)
            put_cell(found->search.by[v], front->points[p].value[v], buf);
        s2_buf_puts(buf, "  ");
        put_choice(found, front->points[p].index, buf);
        s2_buf_puts(buf, "\n");
    }
    if (front->n > TABLE_ROWS)
        s2_buf_printf(buf, "%12s and %d more: s2 pareto, s2 ls, or --json\n", "...",
                      (int)front->n - TABLE_ROWS);
}

/* ---- the winner, in words */

/* What the search compared in a phase: predictions, or bounds. */
static s2_sim_options options_of(const s2_found *found, s2_sim_phase phase)
{
    s2_sim_options options = found->search.options;
    options.phase = phase;
    if (!s2_reprices(&options, phase))
        options.calibration = NULL;
    return options;
}

static s2_status price(const s2_found *found, int64_t index, s2_sim_phase phase, s2_pattern *pattern,
                       s2_sim *sim)
{
    const s2_sim_options options = options_of(found, phase);
    S2_TRY(s2_search_pattern(&found->search, index, &found->cli->arena, pattern, NULL));
    return s2_sim_run(&found->cli->arena, pattern, &options, sim, NULL);
}

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

/* With the constants of this repository's kernels; sim->predicted is false where no kernel takes it. */
static s2_status predict(const s2_found *found, int64_t index, s2_sim_phase phase, s2_sim *sim)
{
    s2_pattern pattern;
    s2_sim_options options = found->search.options;
    options.phase = phase;
    options.calibration = found->calibrated ? &found->calibration : NULL;
    S2_TRY(s2_search_pattern(&found->search, index, &found->cli->arena, &pattern, NULL));
    return s2_sim_run(&found->cli->arena, &pattern, &options, sim, NULL);
}

static void put_ratio(double times, s2_buf *buf)
{
    if (times >= 1.005)
        s2_buf_printf(buf, "%.3g times faster than", times);
    else if (times > 0.995)
        s2_buf_puts(buf, "as fast as");
    else
        s2_buf_printf(buf, "%.3g times slower than", 1 / times);
}

static s2_status put_prediction(const s2_found *found, int64_t index, s2_sim_phase phase, s2_buf *buf)
{
    s2_sim sim;
    S2_TRY(predict(found, index, phase, &sim));
    if (!sim.predicted)
        return S2_OK;
    s2_buf_puts(buf, ";\n    the kernels here are predicted to take ");
    s2_time_print(sim.time_us, buf);
    s2_buf_puts(buf, ", ");
    put_ratio(sim.dense_time_us / sim.time_us, buf);
    s2_buf_printf(buf, " dense; such predictions are off by %.0f %%", sim.error_pct);
    return S2_OK;
}

static bool compares_times(const s2_found *found)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US)
            return true;
    return false;
}

/* Designs whose times of all phases lie within the error of the winner's: the model cannot order them. */
static int32_t count_alike(const s2_found *found, const s2_point *best, const double *error_pct)
{
    const s2_front *const front = front_of(found);
    int32_t n = -1; /* the winner itself */
    for (int32_t p = 0; p < front->n; p++) {
        bool alike = true;
        for (int32_t v = 0; v < found->search.n_by; v++)
            if (found->search.by[v] <= S2_BY_TRAIN_US)
                alike &= fabs(front->points[p].value[v] / best->value[v] - 1) * 100 <=
                         error_pct[found->search.by[v]];
        n += alike;
    }
    return n;
}

static s2_status put_phase(const s2_found *found, const s2_point *best, s2_sim_phase phase, s2_sim *sim,
                           s2_buf *buf)
{
    s2_pattern pattern;
    S2_TRY(price(found, best->index, phase, &pattern, sim));
    s2_buf_printf(buf, "  %s %s ", s2_sim_phase_word(phase),
                  sim->predicted ? "is predicted to take" : "takes at least");
    s2_time_print(sim->time_us, buf);
    if (sim->predicted)
        s2_buf_printf(buf, " (such predictions are off by %.0f %%)", sim->error_pct);
    const s2_sim_options options = options_of(found, phase);
    const bool spills = s2_sim_dense_spills(&options, sim);
    s2_buf_puts(buf, ", ");
    put_ratio(sim->dense_time_us / sim->time_us, buf);
    s2_buf_printf(buf, " dense attention%s, bound by %s",
                  spills ? " (whose cache does not fit the GPU and is read from host memory)" : "",
                  resource_words(sim->bound_by));
    if (!sim->predicted)
        return put_prediction(found, best->index, phase, buf);
    s2_buf_puts(buf, ";\n    no kernel takes less than ");
    s2_time_print(sim->bound_us, buf);
    if (sim->end_to_end_us > 0)
        s2_buf_printf(buf, ";\n    with the layers around it %.4g tokens/s, dense %.4g",
                      s2_sim_tokens_per_s(&options, sim->end_to_end_us),
                      s2_sim_tokens_per_s(&options, sim->end_to_end_dense_us));
    return S2_OK;
}

static s2_status put_phases(const s2_found *found, const s2_point *best, s2_buf *buf)
{
    double error_pct[S2_N_SIM_PHASES] = {0};
    bool predicted = false;
    for (int32_t p = 0; p < found->n_phases; p++) {
        s2_sim sim;
        S2_TRY(put_phase(found, best, found->phases[p], &sim, buf));
        error_pct[found->phases[p]] = sim.predicted ? sim.error_pct : 0;
        predicted |= sim.predicted;
        if (p == 0) {
            s2_buf_puts(buf, ";\n  the KV cache keeps ");
            s2_bytes_print((double)sim.kv.head_pages, buf);
            s2_buf_printf(buf, ", %.1f %% of dense",
                          100.0 * (double)sim.kv.head_pages / (double)sim.kv.dense);
            s2_buf_printf(buf, ";\n  a head reads %.2f %% of what dense attention reads, and %s",
                          100 * sim.token_density,
                          asks_for(found, S2_UNION) ? "together all heads of a layer read everything"
                                                    : "nothing was asked of all heads together");
        }
        s2_buf_puts(buf, "\n");
    }
    const int32_t n_alike = predicted && compares_times(found) ? count_alike(found, best, error_pct) : 0;
    if (n_alike > 0)
        s2_buf_printf(
            buf,
            "  %d more of the front %s within that error of it: which is fastest only a device says "
            "(--validate)\n",
            (int)n_alike, n_alike == 1 ? "is" : "are");
    return S2_OK;
}

/* The best of the others; -1 when there is none. */
static s2_status find_next(const s2_front *front, int32_t best, int32_t *next)
{
    s2_front others = {.n_values = front->n_values};
    S2_TRY(s2_front_add(&others, front->points, best));
    const s2_status status = s2_front_add(&others, front->points + best + 1, front->n - best - 1);
    const int32_t at = status == S2_OK ? s2_front_best(&others) : -1;
    s2_front_release(&others);
    *next = at < 0 ? -1 : at + (at >= best);
    return status;
}

static void put_against(const s2_found *found, const s2_point *best, const s2_point *next, s2_buf *buf)
{
    s2_buf_printf(buf, "  against the next best, %lld (", (long long)next->index);
    put_choice(found, next->index, buf);
    s2_buf_puts(buf, "):\n");
    for (int32_t v = 0; v < found->search.n_by; v++) {
        const double mine = best->value[v], other = next->value[v];
        const char *const word = s2_objective_word(found->search.by[v]);
        if (mine == other) {
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

static s2_status put_winner(const s2_found *found, s2_buf *buf)
{
    const s2_front *const front = front_of(found);
    const int32_t best = s2_front_best(front);
    int32_t next;
    s2_buf_printf(buf, "\nbest overall: %lld, ", (long long)front->points[best].index);
    put_choice(found, front->points[best].index, buf);
    s2_buf_puts(buf, "\n");
    S2_TRY(put_phases(found, &front->points[best], buf));
    S2_TRY(find_next(front, best, &next));
    if (next >= 0)
        put_against(found, &front->points[best], &front->points[next], buf);
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
        s2_buf_printf(buf, "; %lld are no pattern", (long long)counts->refused);
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
    s2_buf_printf(buf, "; %lld beaten by their bounds; %lld priced; %d on the front\n",
                  (long long)counts->beaten, (long long)counts->priced, (int)found->state.front.n);
}

/* By what the times were compared, where there are any. */
static void put_ranking(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    bool predicted = false, bound = false;
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US) {
            const bool own = s2_reprices(options, (s2_sim_phase)found->search.by[v]);
            predicted |= own;
            bound |= !own;
        }
    if (predicted)
        s2_buf_printf(buf, "times%s are predictions for the kernels measured on %s at commit %s\n",
                      bound ? " but train_us, which is a bound," : "", options->gpu.name,
                      options->calibration->head.commit);
    else if (bound)
        s2_buf_printf(buf, "times are bounds at peak rates%s%s\n",
                      found->measured && options->dtype != S2_F8 ? "" : ": no kernels were measured ",
                      !found->measured          ? "on this GPU"
                      : options->dtype == S2_F8 ? "in fp8"
                                                : "");
}

/* ---- JSON */

static void json_count(s2_buf *buf, const char *key, int64_t value)
{
    s2_json_key(buf, key);
    s2_json_int(buf, value);
}

static void json_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    json_count(buf, "candidates", found->space.n_candidates);
    json_count(buf, "visited", found->state.next - found->search.begin);
    s2_json_key(buf, "complete");
    s2_json_bool(buf, found->state.next == found->search.end);
    s2_json_key(buf, "dropped");
    s2_json_begin(buf, '{');
    json_count(buf, "refused", counts->refused);
    for (int p = 0; p < S2_N_PROPERTIES; p++)
        if (counts->violated[p] > 0)
            json_count(buf, s2_property_word((s2_property)p), counts->violated[p]);
    json_count(buf, "unknown", counts->unknown);
    json_count(buf, "outside", counts->outside);
    json_count(buf, "beaten", counts->beaten);
    s2_json_end(buf, '}');
    json_count(buf, "priced", counts->priced);
}

static void json_values(const s2_found *found, const s2_point *point, s2_buf *buf)
{
    json_count(buf, "candidate", point->index);
    for (int32_t v = 0; v < found->search.n_by; v++) {
        s2_json_key(buf, s2_objective_word(found->search.by[v]));
        s2_json_num(buf, point->value[v]);
    }
}

static s2_status json_point(const s2_found *found, const s2_point *point, s2_buf *buf)
{
    s2_arena scratch = {0};
    s2_pattern pattern;
    s2_buf text = {0};
    char hash[S2_HASH_HEX];
    s2_status status = s2_search_pattern(&found->search, point->index, &scratch, &pattern, NULL);
    if (status == S2_OK)
        status = s2_pattern_hash(&pattern, hash);
    if (status == S2_OK) {
        s2_pattern_print(&pattern, &text);
        s2_buf_add(&text, "", 1);
        status = text.status;
    }
    if (status == S2_OK) {
        s2_json_begin(buf, '{');
        s2_json_key(buf, "hash");
        s2_json_str(buf, hash);
        s2_json_key(buf, "pattern");
        s2_json_str(buf, text.data);
        json_values(found, point, buf);
        s2_json_end(buf, '}');
    }
    s2_buf_release(&text);
    s2_arena_release(&scratch);
    return status;
}

static s2_status put_json(const s2_found *found, s2_buf *buf)
{
    const s2_front *const front = front_of(found);
    const s2_sim_options *const options = &found->search.options;
    s2_json_begin(buf, '{');
    s2_json_key(buf, "schema");
    s2_json_str(buf, "s2search/1");
    s2_json_key(buf, "space");
    s2_json_str(buf, found->space_text);
    s2_json_key(buf, "model");
    s2_json_str(buf, found->model[0] != '\0' ? found->model : NULL);
    s2_json_key(buf, "gpu");
    s2_json_str(buf, options->gpu.name);
    json_count(buf, "len", options->len_tok);
    json_count(buf, "batch", options->batch);
    s2_json_key(buf, "dtype");
    s2_json_str(buf, s2_dtype_word(options->dtype));
    s2_json_key(buf, "at_most");
    s2_json_str(buf, found->at_most);
    json_counts(found, buf);
    s2_json_key(buf, "times");
    s2_json_str(buf, s2_reprices(options, found->phases[0]) ? "predicted" : "bounds");
    s2_json_key(buf, "best");
    s2_json_int(buf, front->n > 0 ? front->points[s2_front_best(front)].index : -1);
    s2_json_key(buf, "front");
    s2_json_begin(buf, '[');
    for (int32_t p = 0; p < front->n; p++)
        S2_TRY(json_point(found, &front->points[p], buf));
    s2_json_end(buf, ']');
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
    return buf->status;
}

int s2_found_show(const s2_found *found)
{
    s2_buf buf = {0};
    s2_status status = S2_OK;
    if (found->json) {
        status = put_json(found, &buf);
    } else {
        put_counts(found, &buf);
        put_ranking(found, &buf);
        if (front_of(found)->n > 0) {
            put_table(found, &buf);
            status = put_winner(found, &buf);
        }
    }
    if (status == S2_OK)
        return s2_cli_print(found->cli, &buf);
    s2_buf_release(&buf);
    return s2_cli_fail(found->cli, status, "front");
}

/* ---- storing */

/* Every requirement was proved for every length: that is how the design came here. */
static s2_status fill_checks(const s2_found *found, s2_db_check **out)
{
    s2_arena *const arena = &found->cli->arena;
    s2_db_check *const checks = S2_NEW(arena, s2_db_check, found->search.n_requirements);
    if (checks == NULL)
        return S2_ENOMEM;
    for (int32_t r = 0; r < found->search.n_requirements; r++) {
        char name[32];
        s2_requirement_name(&found->search.requirements[r], name, sizeof name);
        checks[r] = (s2_db_check){.property = s2_arena_strndup(arena, name, strlen(name)),
                                  .verdict = S2_DB_HOLDS,
                                  .required = true,
                                  .scope_tok = S2_DB_NONE,
                                  .complete_to_tok = S2_DB_NONE,
                                  .layer = S2_DB_NONE,
                                  .head = S2_DB_NONE,
                                  .query_tok = S2_DB_NONE,
                                  .key_tok = S2_DB_NONE,
                                  .engine = "algebra",
                                  .wall_us = S2_DB_NONE};
        if (checks[r].property == NULL)
            return S2_ENOMEM;
    }
    *out = checks;
    return S2_OK;
}

/* The front's own number where it has one, so that s2 pareto compares what the search compared. */
static double value_or(const s2_found *found, const s2_point *point, s2_objective objective, double other)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] == objective)
            return point->value[v];
    return other;
}

s2_status s2_found_time(const s2_found *found, const s2_point *point, s2_sim_phase phase, double *us)
{
    s2_sim sim;
    *us = value_or(found, point, s2_objective_time(phase), (double)NAN);
    if (s2_reprices(&found->search.options, phase) && !isnan(*us))
        return S2_OK;
    S2_TRY(predict(found, point->index, phase, &sim));
    *us = sim.predicted ? sim.time_us : value_or(found, point, s2_objective_time(phase), sim.time_us);
    return S2_OK;
}

/* What the search itself knows of a design: enough for lists, fronts and merging. */
static s2_status fill_light(const s2_found *found, const s2_point *point, s2_sim_phase phase,
                            double error_pct, s2_db_sim *out)
{
    const s2_sim_options *const options = &found->search.options;
    const double none = (double)NAN;
    s2_buf json = {0};
    s2_json_begin(&json, '{');
    s2_json_key(&json, "schema");
    s2_json_str(&json, "s2search/1");
    json_values(found, point, &json);
    s2_json_end(&json, '}');
    const s2_status status = json.status;
    const char *const text =
        status == S2_OK ? s2_arena_strndup(&found->cli->arena, json.data, json.len) : NULL;
    s2_buf_release(&json);
    if (text == NULL)
        return status == S2_OK ? S2_ENOMEM : status;
    *out = (s2_db_sim){.gpu = options->gpu.name,
                       .model = found->model,
                       .phase = s2_sim_phase_word(phase),
                       .dtype = s2_dtype_word(options->dtype),
                       .len_tok = options->len_tok,
                       .batch = options->batch,
                       .time_us = value_or(found, point, s2_objective_time(phase), none),
                       .bound_us = none,
                       .dense_us = none,
                       .bound_by = "",
                       .density = value_or(found, point, S2_BY_DENSITY, none),
                       .hbm_bytes = none,
                       .kv_dense_bytes = none,
                       .kv_shared_pages_bytes = none,
                       .kv_head_pages_bytes = value_or(found, point, S2_BY_KV_BYTES, none),
                       .kv_ring_stripes_bytes = none,
                       .error_pct = error_pct,
                       .json = text};
    return S2_OK;
}

static s2_status fill_sim(const s2_found *found, const s2_point *point, const char *name, s2_sim_phase phase,
                          s2_db_sim *out)
{
    const s2_sim_options options = options_of(found, phase);
    s2_pattern pattern;
    s2_sim sim;
    char hash[S2_HASH_HEX];
    S2_TRY(price(found, point->index, phase, &pattern, &sim));
    S2_TRY(s2_pattern_hash(&pattern, hash));
    s2_buf json = {0};
    const s2_report_subject subject = {name, hash, &pattern, &options};
    s2_sim_report_json(&subject, &sim, &json);
    const s2_status status = json.status;
    const char *const text =
        status == S2_OK ? s2_arena_strndup(&found->cli->arena, json.data, json.len) : NULL;
    s2_buf_release(&json);
    if (text == NULL)
        return status == S2_OK ? S2_ENOMEM : status;
    *out = (s2_db_sim){.gpu = options.gpu.name,
                       .model = found->model,
                       .phase = s2_sim_phase_word(phase),
                       .dtype = s2_dtype_word(options.dtype),
                       .len_tok = options.len_tok,
                       .batch = options.batch,
                       .time_us = value_or(found, point, s2_objective_time(phase), sim.time_us),
                       .bound_us = sim.bound_us,
                       .dense_us = sim.dense_time_us,
                       .bound_by = s2_resource_word(sim.bound_by),
                       .density = sim.density,
                       .hbm_bytes = (double)sim.counts.hbm_read + (double)sim.counts.hbm_write,
                       .kv_dense_bytes = (double)sim.kv.dense,
                       .kv_shared_pages_bytes = (double)sim.kv.shared_pages,
                       .kv_head_pages_bytes = (double)sim.kv.head_pages,
                       .kv_ring_stripes_bytes = (double)sim.kv.ring_stripes,
                       .error_pct = sim.predicted ? sim.error_pct : (double)NAN,
                       .json = text};
    return S2_OK;
}

/* The first phase is stored last: lists show the latest prediction. */
static s2_status fill_item(const s2_found *found, const s2_point *point, const s2_db_check *checks,
                           const double *error_pct, s2_store_item *out)
{
    s2_arena *const arena = &found->cli->arena;
    s2_db_sim *const sims = S2_NEW(arena, s2_db_sim, found->n_phases);
    if (sims == NULL)
        return S2_ENOMEM;
    const char *const name = s2_found_name(found, point->index);
    for (int32_t p = 0; p < found->n_phases; p++) {
        const s2_sim_phase phase = found->phases[found->n_phases - 1 - p];
        S2_TRY(point - front_of(found)->points < FULL_ROWS
                   ? fill_sim(found, point, name, phase, &sims[p])
                   : fill_light(found, point, phase, error_pct[phase], &sims[p]));
    }
    *out = (s2_store_item){.input = {.label = name},
                           .n_checks = found->search.n_requirements,
                           .checks = checks,
                           .n_sims = found->n_phases,
                           .sims = sims};
    return s2_search_pattern(&found->search, point->index, arena, &out->input.pattern, NULL);
}

/* Of the kernels that take the first design: a phase of one shape runs on one kind. */
static s2_status find_errors(const s2_found *found, double *error_pct)
{
    for (int32_t p = 0; p < found->n_phases; p++) {
        s2_pattern pattern;
        s2_sim sim;
        S2_TRY(price(found, front_of(found)->points[0].index, found->phases[p], &pattern, &sim));
        error_pct[found->phases[p]] = sim.predicted ? sim.error_pct : (double)NAN;
    }
    return S2_OK;
}

int s2_found_store(const s2_found *found)
{
    double error_pct[S2_N_SIM_PHASES];
    const s2_front *const front = front_of(found);
    s2_cli *const cli = found->cli;
    if (cli->no_db || front->n == 0)
        return S2_GO_ON;
    s2_db_check *checks = NULL;
    s2_store_item *const items = S2_NEW(&cli->arena, s2_store_item, front->n);
    s2_status status = items != NULL ? fill_checks(found, &checks) : S2_ENOMEM;
    if (status == S2_OK)
        status = find_errors(found, error_pct);
    for (int32_t p = 0; p < front->n && status == S2_OK; p++)
        status = fill_item(found, &front->points[p], checks, error_pct, &items[p]);
    return status == S2_OK ? s2_store_items(cli, items, front->n) : s2_cli_fail(cli, status, "front");
}
