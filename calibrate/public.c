#include "calibrate/public.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/parse.h"
#include "sim/price.h"

enum { CODE_PUBLIC = 720, LIMIT_FIELDS = 12, LIMIT_ROW = 400 };

/* ---- tables */

static const char *table_of(const char *name)
{
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++)
        if (strcmp(text->name, name) == 0)
            return text->text;
    return "";
}

typedef struct s2_fields {
    char line[LIMIT_ROW];
    const char *field[LIMIT_FIELDS];
    int32_t n;
} s2_fields;

/* Commas separate fields; one that begins with a quote extends to the next quote. */
static void split(s2_fields *row)
{
    char *rest = row->line;
    row->n = 0;
    while (row->n < LIMIT_FIELDS) {
        const bool quoted = *rest == '"';
        rest += quoted;
        row->field[row->n++] = rest;
        rest += strcspn(rest, quoted ? "\"" : ",");
        if (*rest == '"')
            *rest++ = '\0';
        if (*rest == '\0')
            return;
        *rest++ = '\0';
    }
}

/* The next row of n_fields fields; the first line that is neither blank nor a comment is the header. */
static bool next_row(const char **text, int32_t n_fields, bool *is_head, s2_fields *row)
{
    while (**text != '\0') {
        const size_t n = strcspn(*text, "\n");
        const char *const line = *text;
        *text += n + (line[n] == '\n');
        if (n == 0 || *line == '#' || n >= LIMIT_ROW)
            continue;
        memcpy(row->line, line, n);
        row->line[n] = '\0';
        if (*is_head) {
            *is_head = false;
            continue;
        }
        split(row);
        return row->n == n_fields;
    }
    return false;
}

static int32_t count_rows(const char *text)
{
    int32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/* ---- statistics */

static double median_of(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, s2_compare_f64);
    return n == 0 ? 0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Scores ratios, which it sorts and replaces by errors. */
static void score(double *ratios, int32_t n, s2_public_group *group)
{
    double sum = 0;
    group->n = n;
    group->median_ratio = median_of(ratios, n);
    for (int32_t r = 0; r < n; r++) {
        ratios[r] = 100 * fabs(ratios[r] - 1);
        sum += ratios[r];
    }
    group->mape = sum / n;
    group->median_error = median_of(ratios, n);
    group->p90 = ratios[(int32_t)ceil(0.9 * n) - 1];
}

/* ---- attention */

static s2_status parse_dense(s2_arena *arena, int32_t n_layers, int32_t n_heads, int32_t n_kv_heads,
                             int32_t head_dim, s2_pattern *out, s2_diag *diag)
{
    char text[120];
    const int n =
        snprintf(text, sizeof text, "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: dense",
                 n_layers, n_heads, n_kv_heads, head_dim);
    return s2_pattern_parse(arena, text, (size_t)n, NULL, out, diag);
}

/* The tables also time writing K and V to the cache: one small kernel that reads and writes them. */
static double write_us(const s2_gpu *gpu, double rows, const s2_pattern *pattern)
{
    const double launch_us = 2.5, bytes = rows * pattern->n_kv_heads * pattern->head_dim * 2 * 2 * 2;
    return launch_us + bytes / (gpu->hbm_gb_s * gpu->hbm_fraction * 1e3);
}

static s2_status predict_row(s2_arena *arena, const s2_fields *row, const s2_gpu *gpu,
                             const s2_calibration *calibration, double *us, s2_diag *diag)
{
    s2_sim_options options;
    s2_pattern pattern;
    s2_sim sim;
    const bool decode = strcmp(row->field[1], "decode") == 0;
    S2_TRY(s2_sim_options_default(&options));
    options.gpu = *gpu;
    options.calibration = calibration;
    options.batch = atoll(row->field[3]);
    options.len_tok = atoll(row->field[7]);
    S2_TRY(
        parse_dense(arena, 1, atoi(row->field[4]), atoi(row->field[5]), atoi(row->field[6]), &pattern, diag));
    options.phase = decode ? S2_DECODE : S2_PREFILL;
    S2_TRY(s2_price(arena, &pattern, &options, S2_PRICE_TIME, &sim, diag));
    const double rows = (double)options.batch * (decode ? 1 : (double)options.len_tok);
    *us = sim.time_us + write_us(gpu, rows, &pattern);
    return S2_OK;
}

static s2_status start_group(const s2_fields *row, s2_gpu *gpu, s2_calibration *calibration,
                             s2_public_group *group, s2_diag *diag)
{
    *group = (s2_public_group){0};
    snprintf(group->name, sizeof group->name, "%.16s on %.16s, %.20s", row->field[1], row->field[0],
             row->field[2]);
    S2_TRY(s2_gpu_find(row->field[0], gpu, diag));
    S2_TRY(s2_calibration_of(gpu, calibration));
    group->measured = s2_calibration_is_measured(calibration);
    return S2_OK;
}

static bool same_table(const s2_fields *a, char table[3][24])
{
    for (int32_t f = 0; f < 3; f++)
        if (strcmp(a->field[f], table[f]) != 0)
            return false;
    return true;
}

static s2_status judge_attention(s2_arena *arena, s2_public *out, s2_diag *diag)
{
    const char *text = table_of("results/attention");
    double *const ratios = S2_NEW(arena, double, count_rows(text) + 1);
    s2_calibration *const calibration = S2_NEW(arena, s2_calibration, 1);
    char table[3][24] = {{0}};
    bool is_head = true;
    int32_t n = 0;
    s2_fields row;
    s2_gpu gpu;
    if (ratios == NULL || calibration == NULL)
        return S2_ENOMEM;
    while (next_row(&text, 9, &is_head, &row)) {
        double us;
        if (!same_table(&row, table)) {
            if (n > 0)
                score(ratios, n, &out->groups[out->n_groups++]);
            if (out->n_groups == S2_PUBLIC_GROUPS)
                return S2_ELIMIT;
            n = 0;
            for (int32_t f = 0; f < 3; f++)
                snprintf(table[f], sizeof table[f], "%s", row.field[f]);
            S2_TRY(start_group(&row, &gpu, calibration, &out->groups[out->n_groups], diag));
        }
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        S2_TRY(predict_row(arena, &row, &gpu, calibration, &us, diag));
        s2_arena_rewind(arena, mark);
        ratios[n++] = us / atof(row.field[8]);
    }
    if (n > 0)
        score(ratios, n, &out->groups[out->n_groups++]);
    return S2_OK;
}

/* ---- whole models */

static s2_status step_us(s2_arena *arena, const s2_pattern *pattern, s2_sim_options *options, s2_phase phase,
                         int64_t len_tok, double *us, s2_diag *diag)
{
    s2_sim sim;
    options->phase = phase;
    options->len_tok = len_tok;
    S2_TRY(s2_price(arena, pattern, options, S2_PRICE_WHOLE, &sim, diag));
    *us = sim.end_to_end_us;
    return S2_OK;
}

/* Prompt and output of a static batch: the cache grows by a token a step, so three lengths stand for all. */
static s2_status generate_us(s2_arena *arena, const s2_pattern *pattern, s2_sim_options *options, int64_t in,
                             int64_t n_out, double *us, s2_diag *diag)
{
    double prompt, first, middle, last;
    S2_TRY(step_us(arena, pattern, options, S2_PREFILL, in, &prompt, diag));
    S2_TRY(step_us(arena, pattern, options, S2_DECODE, in + 1, &first, diag));
    S2_TRY(step_us(arena, pattern, options, S2_DECODE, in + (n_out + 1) / 2, &middle, diag));
    S2_TRY(step_us(arena, pattern, options, S2_DECODE, in + n_out, &last, diag));
    *us = prompt + (first + 4 * middle + last) / 6 * (double)(n_out - 1);
    return S2_OK;
}

static s2_status predict_figure(s2_arena *arena, const s2_fields *row, s2_sim_options *options,
                                const s2_pattern *pattern, double *out, s2_diag *diag)
{
    const char *const what = row->field[3];
    const int64_t in = atoll(row->field[5]), n_out = atoll(row->field[6]);
    const double batch = (double)options->batch;
    double us;
    if (strcmp(what, "first token") == 0) {
        S2_TRY(step_us(arena, pattern, options, S2_PREFILL, in, &us, diag));
        *out = us / 1e3;
    } else if (strcmp(what, "decode") == 0) {
        S2_TRY(step_us(arena, pattern, options, S2_DECODE, in + n_out / 2, &us, diag));
        *out = batch / us * 1e6;
    } else if (strncmp(what, "train", 5) == 0) {
        options->fusion = strcmp(what, "train eager") == 0 ? S2_EAGER : S2_FUSED;
        options->n_shards = (int32_t)n_out;
        S2_TRY(step_us(arena, pattern, options, S2_TRAIN, in, &us, diag));
        *out = batch * (double)in / us * 1e6;
    } else {
        S2_TRY(generate_us(arena, pattern, options, in, n_out, &us, diag));
        *out = batch * (double)n_out / us * 1e6;
    }
    return S2_OK;
}

static s2_status judge_figure(s2_arena *arena, const s2_fields *row, s2_calibration *calibration,
                              s2_public_figure *out, s2_diag *diag)
{
    s2_sim_options options;
    s2_net net;
    s2_pattern pattern;
    S2_TRY(s2_sim_options_default(&options));
    S2_TRY(s2_gpu_find(row->field[0], &options.gpu, diag));
    S2_TRY(s2_calibration_of(&options.gpu, calibration));
    S2_TRY(s2_net_find(row->field[2], &net, diag));
    S2_TRY(parse_dense(arena, net.n_layers, net.n_heads, net.n_kv_heads, net.head_dim, &pattern, diag));
    options.net = &net;
    options.calibration = calibration;
    options.n_ranks = atoi(row->field[1]);
    options.batch = atoll(row->field[4]);
    for (s2_weights w = 0; w < S2_N_WEIGHTS; w++)
        options.weights = strcmp(row->field[7], s2_weights_word(w)) == 0 ? w : options.weights;
    for (s2_cache_type c = 0; c < S2_N_CACHE_TYPES; c++)
        options.cache = strcmp(row->field[8], s2_cache_type_word(c)) == 0 ? c : options.cache;
    out->published = atof(row->field[9]);
    S2_TRY(predict_figure(arena, row, &options, &pattern, &out->predicted, diag));
    const bool is_time = strcmp(row->field[10], "ms") == 0;
    out->ratio = is_time ? out->predicted / out->published : out->published / out->predicted;
    snprintf(out->name, sizeof out->name, "%s x%s %s %s, batch %s, %s in, %s out, weights %s, %s",
             row->field[0], row->field[1], row->field[2], row->field[3], row->field[4], row->field[5],
             row->field[6], row->field[7], row->field[10]);
    snprintf(out->source, sizeof out->source, "%s", row->field[11]);
    return S2_OK;
}

static s2_status judge_models(s2_arena *arena, s2_public *out, s2_diag *diag)
{
    const char *text = table_of("results/end-to-end");
    const int32_t limit = count_rows(text) + 1;
    double *const errors = S2_NEW(arena, double, limit);
    s2_calibration *const calibration = S2_NEW(arena, s2_calibration, 1);
    bool is_head = true;
    double sum = 0;
    s2_fields row;
    out->figures = S2_NEW(arena, s2_public_figure, limit);
    if (errors == NULL || calibration == NULL || out->figures == NULL)
        return S2_ENOMEM;
    while (next_row(&text, 12, &is_head, &row)) {
        s2_public_figure *const figure = &out->figures[out->n_figures];
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        S2_TRY(judge_figure(arena, &row, calibration, figure, diag));
        s2_arena_rewind(arena, mark);
        errors[out->n_figures] = 100 * fabs(figure->ratio - 1);
        sum += errors[out->n_figures++];
    }
    if (out->n_figures == 0)
        return s2_diag_set(diag, S2_EPARSE, CODE_PUBLIC, 0, 0, "the table of published figures is damaged");
    out->mean_error = sum / out->n_figures;
    out->median_error = median_of(errors, out->n_figures);
    return S2_OK;
}

s2_status s2_public_judge(s2_arena *arena, s2_public *out, s2_diag *diag)
{
    s2_public made = {0};
    S2_TRY(judge_attention(arena, &made, diag));
    S2_TRY(judge_models(arena, &made, diag));
    *out = made;
    return S2_OK;
}
