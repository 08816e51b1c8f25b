#include "calibrate/accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "calibrate/fit.h"

static const char *const naive_words[S2_NAIVE] = {"density x dense time", "executed FLOP / peak", "roofline",
                                                  "mean"};

typedef struct s2_judged {
    s2_accuracy_point point;
    int32_t kernel;
    bool drawn; /* with the rows of its pass */
    double naive[S2_NAIVE];
    double pairs;
} s2_judged;

/* No launch is faster: useful pairs at peak rates, and the bytes that a full cache cannot hold. */
static double floor_of(const s2_gpu *gpu, const s2_kernel_load *load)
{
    const double all = load->q_bytes + load->kv_bytes + load->out_bytes;
    const double flop = (load->pass == S2_PASS_BACKWARD ? 10.0 : 4.0) * load->head_dim * (double)load->pairs;
    const double per_us = gpu->bf16_tflops * 1e6 * gpu->boost_mhz / gpu->tensor_mhz;
    const double exps = gpu->mufu_per_clk_sm * gpu->boost_mhz * gpu->sms;
    /* devices report more cache than their data sheets; only what exceeds twice that surely misses */
    const double beyond = fmax(0, all - 2 * gpu->l2_mib * 1048576);
    return fmax(fmax(flop / per_us, (double)load->pairs / exps), beyond / (gpu->hbm_gb_s * 1e3));
}

/*
 * Families that are drawn apart have no part in the figures of a pass, and neither have wide steps that older draws had
 * among their points.
 */
static bool was_drawn(const s2_row *row, const s2_kernel_load *load)
{
    s2_run_point unused;
    const s2_kernel_traits *const traits = s2_kernel_traits_find(s2_fit_kernel(row, load));
    return !s2_run_point_drawn_of(row->point.family, row->point.pass, 0, 0, &unused) &&
           (traits == NULL || !s2_kernel_is_special(traits));
}

/* A wide step without a law of its own has that of the others. */
static bool find_kernel(const s2_time_model *model, const s2_row *row, const s2_kernel_load *load,
                        int32_t *out)
{
    const char *const names[] = {s2_fit_kernel(row, load), row->kernel};
    for (int32_t n = 0; n < 2; n++)
        for (*out = 0; *out < model->n_kernels; ++*out)
            if (strcmp(model->kernels[*out].name, names[n]) == 0 &&
                model->kernels[*out].pass == row->point.pass)
                return true;
    return false;
}

static void count_bytes(const s2_row *row, const s2_time_model *model, const s2_kernel_model *kernel,
                        const s2_kernel_load *load, s2_accuracy *out)
{
    if (row->dram_read <= 0)
        return;
    const s2_bytes counted = s2_model_counted(model, kernel, load);
    out->dram_pct +=
        fabs((counted.dram_read + counted.dram_write) / (row->dram_read + row->dram_write) - 1) * 100;
    out->l2_pct += row->l2_bytes > 0 ? fabs(counted.l2 / row->l2_bytes - 1) * 100 : 0;
    out->n_counted++;
}

/* A repeated row judges no time, but its bytes may have been counted where those of the row itself were not. */
static s2_status judge_bytes(s2_arena *arena, const s2_row *row, const s2_time_model *model, s2_accuracy *out,
                             s2_diag *diag)
{
    s2_kernel_load load;
    int32_t k;
    if (strcmp(row->set, "held-out") != 0 || row->dram_read <= 0 || row->kernel[0] == '\0')
        return S2_OK;
    S2_TRY(s2_fit_load(arena, row, model, &load, diag));
    if (find_kernel(model, row, &load, &k))
        count_bytes(row, model, &model->kernels[k], &load, out);
    return S2_OK;
}

static s2_status judge_row(s2_arena *arena, const s2_row *row, const s2_gpu *gpu, const s2_time_model *model,
                           s2_accuracy *out, s2_judged *judged, bool *priced, s2_diag *diag)
{
    s2_kernel_load load;
    s2_forecast forecast, measured_clock;
    int32_t k;
    S2_TRY(s2_fit_load(arena, row, model, &load, diag));
    judged->drawn = was_drawn(row, &load);
    *priced = find_kernel(model, row, &load, &k);
    if (!*priced)
        return S2_OK;
    s2_model_run(model, &model->kernels[k], &load, false, 0, &forecast);
    s2_model_run(model, &model->kernels[k], &load, false, row->mhz, &measured_clock);
    s2_spans_note(&load, out->spans[k]);
    const double floor_us = floor_of(gpu, &load), peak = gpu->bf16_tflops * 1e6;
    const double flop = 4.0 * load.head_dim * (double)load.pairs;
    const double bytes = load.q_bytes + load.kv_bytes + load.out_bytes;
    *judged = (s2_judged){.point = {row, forecast.us, measured_clock.us},
                          .kernel = k,
                          .drawn = judged->drawn,
                          .naive = {flop / peak, load.flop / peak,
                                    fmax(flop / peak, bytes / (gpu->hbm_gb_s * 1e3)) + gpu->launch_us, 1},
                          .pairs = (double)load.pairs};
    out->n_below += forecast.us < floor_us || row->us < floor_us;
    out->nearest = fmin(out->nearest, row->us / floor_us);
    count_bytes(row, model, &model->kernels[k], &load, out);
    return S2_OK;
}

/* ------------------------------------------------------------------ statistics */

/* (Pairs of rows in the same order - pairs in opposite order) / all pairs. */
static double kendall(const double *a, const double *b, int32_t n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++) {
            const double product = (a[i] - a[j]) * (b[i] - b[j]);
            sum += (product > 0) - (product < 0);
        }
    return n > 1 ? (double)sum / ((double)n * (n - 1) / 2) : 1;
}

/* Ranks; equal values share their mean rank. */
static void rank(const double *values, int32_t n, double *out)
{
    for (int32_t i = 0; i < n; i++) {
        double below = 0, equal = 0;
        for (int32_t j = 0; j < n; j++) {
            below += values[j] < values[i];
            equal += values[j] == values[i];
        }
        out[i] = below + (equal + 1) / 2;
    }
}

/* 0 for a prediction that gives every row the same time: it orders nothing. */
static double spearman(const double *a, const double *b, double *ranks, int32_t n)
{
    rank(a, n, ranks);
    rank(b, n, ranks + n);
    const double mean = (n + 1) / 2.0;
    double ab = 0, aa = 0, bb = 0;
    for (int32_t i = 0; i < n; i++) {
        const double x = ranks[i] - mean, y = ranks[n + i] - mean;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : n > 1 ? 0 : 1;
}

typedef struct s2_scratch {
    double *predicted, *measured, *errors, *ranks;
    int32_t n;
} s2_scratch;

static void add_pair(s2_scratch *scratch, double predicted, double measured)
{
    scratch->predicted[scratch->n] = predicted;
    scratch->measured[scratch->n++] = measured;
}

static s2_score score_of(s2_scratch *scratch, const char *name)
{
    s2_score score = {.n = scratch->n};
    snprintf(score.name, sizeof score.name, "%s", name);
    for (int32_t nth = 0; nth < scratch->n; nth++) {
        const double error = 100 * (scratch->predicted[nth] / scratch->measured[nth] - 1);
        scratch->errors[nth] = fabs(error);
        score.mape += fabs(error) / scratch->n;
        score.bias += error / scratch->n;
    }
    qsort(scratch->errors, (size_t)scratch->n, sizeof *scratch->errors, s2_compare_f64);
    if (scratch->n > 0) {
        score.p90 = scratch->errors[(int32_t)ceil(0.9 * scratch->n) - 1];
        score.most = scratch->errors[scratch->n - 1];
    }
    score.spearman = spearman(scratch->predicted, scratch->measured, scratch->ranks, scratch->n);
    score.kendall = kendall(scratch->predicted, scratch->measured, scratch->n);
    scratch->n = 0;
    return score;
}

/* The constant that makes the median ratio one. */
static void scale_naive(s2_scratch *scratch)
{
    for (int32_t at = 0; at < scratch->n; at++)
        scratch->errors[at] = scratch->measured[at] / scratch->predicted[at];
    qsort(scratch->errors, (size_t)scratch->n, sizeof *scratch->errors, s2_compare_f64);
    for (int32_t at = 0; at < scratch->n; at++)
        scratch->predicted[at] *= scratch->errors[scratch->n / 2];
}

static bool is_of_pass(const s2_judged *judged, s2_pass pass)
{
    return judged->point.row->point.pass == pass && judged->drawn;
}

static void score_passes(const s2_judged *judged, int32_t n, s2_scratch *scratch, s2_accuracy *out)
{
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++) {
        for (int32_t at = 0; at < n; at++)
            if (is_of_pass(&judged[at], (s2_pass)pass))
                add_pair(scratch, judged[at].point.us, judged[at].point.row->us);
        if (scratch->n == 0)
            continue;
        out->passes[out->n_passes] = score_of(scratch, s2_pass_word((s2_pass)pass));
        for (int32_t at = 0; at < n; at++)
            if (is_of_pass(&judged[at], (s2_pass)pass))
                add_pair(scratch, judged[at].point.clock_us, judged[at].point.row->us);
        out->cycles[out->n_passes++] = score_of(scratch, s2_pass_word((s2_pass)pass));
    }
}

static void score_families(const s2_judged *judged, int32_t n, s2_scratch *scratch, s2_accuracy *out)
{
    for (int32_t first = 0; first < n && out->n_families < S2_MOST_SCORES; first++) {
        const s2_run_point *const like = &judged[first].point.row->point;
        char name[40];
        bool seen = false;
        snprintf(name, sizeof name, "%.8s %.14s", s2_pass_word(like->pass), like->family);
        for (int32_t known = 0; known < out->n_families; known++)
            seen = seen || strcmp(out->families[known].name, name) == 0;
        if (seen)
            continue;
        for (int32_t at = first; at < n; at++)
            if (judged[at].point.row->point.pass == like->pass &&
                strcmp(judged[at].point.row->point.family, like->family) == 0)
                add_pair(scratch, judged[at].point.us, judged[at].point.row->us);
        out->families[out->n_families++] = score_of(scratch, name);
    }
}

static void score_kernels(const s2_judged *judged, int32_t n, const s2_time_model *model, s2_scratch *scratch,
                          s2_accuracy *out)
{
    for (int32_t k = 0; k < model->n_kernels; k++) {
        for (int32_t at = 0; at < n; at++)
            if (judged[at].kernel == k)
                add_pair(scratch, judged[at].point.us, judged[at].point.row->us);
        out->kernels[k] = score_of(scratch, model->kernels[k].name);
    }
}

static void score_naive(const s2_judged *judged, int32_t n, s2_scratch *scratch, s2_accuracy *out)
{
    for (int32_t which = 0; which < S2_NAIVE; which++) {
        for (int32_t at = 0; at < n; at++)
            if (judged[at].drawn)
                add_pair(scratch, judged[at].naive[which], judged[at].point.row->us);
        scale_naive(scratch);
        out->naive[which] = score_of(scratch, naive_words[which]);
    }
}

/* What is lost by choosing the predicted best pattern of one space. */
static void score_space(const s2_judged *judged, int32_t n, s2_accuracy *out)
{
    const s2_judged *pick = NULL, *best = NULL, *pick_pairs = NULL, *best_pairs = NULL;
    int32_t of_pass[S2_N_PASSES] = {0};
    for (int32_t at = 0; at < n; at++)
        of_pass[judged[at].point.row->point.pass] += strcmp(judged[at].point.row->point.family, "space") == 0;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        if (of_pass[pass] > of_pass[out->space_pass])
            out->space_pass = (s2_pass)pass;
    for (int32_t nth = 0; nth < n; nth++) {
        const s2_judged *const own = &judged[nth];
        if (strcmp(own->point.row->point.family, "space") != 0 ||
            own->point.row->point.pass != out->space_pass)
            continue;
        out->n_space++;
        pick = pick == NULL || own->point.us < pick->point.us ? own : pick;
        best = best == NULL || own->point.row->us < best->point.row->us ? own : best;
        pick_pairs =
            pick_pairs == NULL || own->pairs / own->point.us > pick_pairs->pairs / pick_pairs->point.us
                ? own
                : pick_pairs;
        best_pairs = best_pairs == NULL ||
                             own->pairs / own->point.row->us > best_pairs->pairs / best_pairs->point.row->us
                         ? own
                         : best_pairs;
    }
    if (pick == NULL)
        return;
    out->regret_fast = 100 * (pick->point.row->us / best->point.row->us - 1);
    out->regret_pairs =
        100 *
        (best_pairs->pairs / best_pairs->point.row->us / (pick_pairs->pairs / pick_pairs->point.row->us) - 1);
}

static bool same_point(const s2_row *a, const s2_row *b)
{
    return a->nth == b->nth && a->seed == b->seed && a->point.pass == b->point.pass &&
           strcmp(a->point.family, b->point.family) == 0;
}

static void score_twice(const s2_row_file *file, s2_accuracy *out)
{
    for (int32_t row_no = 0; row_no < file->n_rows; row_no++)
        for (int32_t other = 0; file->rows[row_no].repeated && other < file->n_rows; other++)
            if (!file->rows[other].repeated && same_point(&file->rows[row_no], &file->rows[other]) &&
                file->rows[row_no].us > 0 && file->rows[other].us > 0) {
                out->floor_pct += 100 * fabs(file->rows[row_no].us / file->rows[other].us - 1);
                out->n_twice++;
            }
    out->floor_pct /= out->n_twice > 0 ? out->n_twice : 1;
}

s2_status s2_accuracy_of(s2_arena *arena, const s2_row_file *file, const s2_gpu *gpu,
                         const s2_time_model *model, s2_accuracy *out, s2_diag *diag)
{
    s2_accuracy made = {.nearest = INFINITY};
    s2_judged *const judged = S2_NEW(arena, s2_judged, file->n_rows + 1);
    double *const numbers = S2_NEW(arena, double, 5 * ((int64_t)file->n_rows + 1));
    s2_accuracy_point *const points = S2_NEW(arena, s2_accuracy_point, file->n_rows + 1);
    if (judged == NULL || numbers == NULL || points == NULL)
        return S2_ENOMEM;
    const int32_t room = file->n_rows + 1;
    s2_scratch scratch = {numbers, numbers + room, numbers + 2 * room, numbers + 3 * room, 0};
    int32_t n = 0;
    for (int32_t row_no = 0; row_no < file->n_rows; row_no++) {
        const s2_row *const row = &file->rows[row_no];
        bool priced;
        const bool judges = s2_row_judges(row);
        const s2_arena_mark_t mark = s2_arena_mark(arena);
        const s2_status status = judges ? judge_row(arena, row, gpu, model, &made, &judged[n], &priced, diag)
                                        : judge_bytes(arena, row, model, &made, diag);
        s2_arena_rewind(arena, mark);
        S2_TRY(status);
        if (!judges)
            continue;
        made.seed = judged[n].drawn || made.n_rows == 0 ? row->seed : made.seed;
        made.n_rows += judged[n].drawn;
        made.n_unpriced += !priced;
        n += priced;
    }
    for (int32_t at = 0; at < n; at++)
        points[at] = judged[at].point;
    made.n_points = n;
    made.points = points;
    score_passes(judged, n, &scratch, &made);
    score_families(judged, n, &scratch, &made);
    score_kernels(judged, n, model, &scratch, &made);
    score_naive(judged, n, &scratch, &made);
    score_space(judged, n, &made);
    score_twice(file, &made);
    made.dram_pct /= made.n_counted > 0 ? made.n_counted : 1;
    made.l2_pct /= made.n_counted > 0 ? made.n_counted : 1;
    *out = made;
    return S2_OK;
}

static s2_status add_rows(s2_arena *arena, const char *name, s2_row_file *file, s2_diag *diag)
{
    s2_row_file own;
    for (const s2_sim_text *text = s2_sim_texts; text->name != NULL; text++) {
        if (strcmp(text->name, name) != 0)
            continue;
        S2_TRY(s2_rows_parse(arena, text->text, strlen(text->text), &own, diag));
        if (file->n_rows == 0)
            file->head = own.head;
        for (int32_t row_no = 0; row_no < own.n_rows; row_no++) {
            S2_TRY(S2_ARENA_ROOM(arena, file->rows, file->n_rows, file->cap_rows));
            file->rows[file->n_rows++] = own.rows[row_no];
        }
    }
    return S2_OK;
}

s2_status s2_accuracy_rows(s2_arena *arena, const char *gpu, s2_row_file *out, s2_diag *diag)
{
    static const char *const which[] = {"",       "steps-",   "e4m3-",        "lists-",
                                        "short-", "ordered-", "sliding-",     "wide-",
                                        "brief-", "dim256-",  "brief-steps-", "counted-steps-"};
    s2_row_file file = {0};
    for (size_t w = 0; w < sizeof which / sizeof *which; w++) {
        char name[80];
        snprintf(name, sizeof name, "results/%.40s-%sheld-out", gpu, which[w]);
        S2_TRY(add_rows(arena, name, &file, diag));
    }
    if (file.n_rows == 0)
        return S2_EUNSUPPORTED;
    *out = file;
    return S2_OK;
}
