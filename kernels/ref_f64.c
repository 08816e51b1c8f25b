#include "kernels/oracle.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

static const double unit_of[S2_N_DTYPES] = {[S2_F32] = 0x1p-24, [S2_BF16] = 0x1p-9, [S2_F16] = 0x1p-12};

void s2_oracle_row_release(s2_oracle_row *row)
{
    s2_free(row->o);
    s2_free(row->rounded);
    s2_free(row->keys);
    s2_free(row->score);
    s2_free(row->reach);
    s2_free(row->weight);
    *row = (s2_oracle_row){0};
}

static s2_status reserve(s2_oracle_row *row, int32_t n_keys, int32_t head_dim)
{
    if (n_keys > row->cap_keys || head_dim > row->cap_dim) {
        s2_oracle_row_release(row);
        row->o = s2_calloc((size_t)head_dim, sizeof *row->o);
        row->rounded = s2_calloc((size_t)head_dim, sizeof *row->rounded);
        row->keys = s2_calloc((size_t)n_keys, sizeof *row->keys);
        row->score = s2_calloc((size_t)n_keys, sizeof *row->score);
        row->reach = s2_calloc((size_t)n_keys, sizeof *row->reach);
        row->weight = s2_calloc((size_t)n_keys, sizeof *row->weight);
        if (row->o == NULL || row->rounded == NULL || row->keys == NULL || row->score == NULL ||
            row->reach == NULL || row->weight == NULL) {
            s2_oracle_row_release(row);
            return S2_ENOMEM;
        }
        row->cap_keys = n_keys;
        row->cap_dim = head_dim;
    }
    return S2_OK;
}

/* The row's addresses, resolved once. */
typedef struct s2_row_data {
    const s2_attn_problem *problem;
    int32_t seq;
    int32_t head, kv_head;
    int64_t q_at;
} s2_row_data;

/* Where a key's rows of V and of K begin. */
static int64_t value_row(const s2_row_data *data, int32_t k_tok)
{
    const s2_attn_problem *const p = data->problem;
    return s2_tensor_at(&p->v, p->k_begin_tok, data->seq, k_tok, data->kv_head);
}

static int64_t key_row(const s2_row_data *data, int32_t k_tok)
{
    const s2_attn_problem *const p = data->problem;
    return s2_tensor_at(&p->k, p->k_begin_tok, data->seq, k_tok, data->kv_head);
}

/* What stored numbers are multiplied by. */
static double k_scale_of(const s2_row_data *data)
{
    return data->problem->e4m3 ? (double)data->problem->k_scale[data->kv_head] : 1.0;
}

static double v_scale_of(const s2_row_data *data)
{
    return data->problem->e4m3 ? (double)data->problem->v_scale[data->kv_head] : 1.0;
}

static double q_scale_of(const s2_row_data *data)
{
    return s2_q_dtype(data->problem) == S2_F8 ? (double)data->problem->q_scale[data->head] : 1.0;
}

static double value_at(const s2_row_data *data, int32_t k_tok, int32_t d)
{
    return (double)s2_float_load(data->problem->v.data, s2_kv_dtype(data->problem),
                                 value_row(data, k_tok) + d) *
           v_scale_of(data);
}

static void find_keys(const s2_row_data *data, int32_t q_tok, int32_t head, s2_oracle_row *row)
{
    const s2_plan *const plan = data->problem->plan;
    const s2_plan_seq lens = plan->seqs[data->seq];
    const int32_t position = lens.k_tok - lens.q_tok + q_tok;
    row->n_keys = 0;
    for (int32_t k_tok = 0; k_tok < lens.k_tok; k_tok++)
        if (s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok, position, k_tok))
            row->keys[row->n_keys++] = k_tok;
}

static void find_scores(const s2_row_data *data, s2_oracle_row *row)
{
    const s2_attn_problem *const p = data->problem;
    const double scale = (double)p->scale * k_scale_of(data) * q_scale_of(data);
    row->score_peak = (double)p->cap;
    for (int32_t n = 0; n < row->n_keys; n++) {
        double dot = 0.0, reach = 0.0;
        const int64_t k_at = key_row(data, row->keys[n]);
        for (int32_t d = 0; d < p->head_dim; d++) {
            const double product = (double)s2_float_load(p->q.data, s2_q_dtype(p), data->q_at + d) *
                                   (double)s2_float_load(p->k.data, s2_kv_dtype(p), k_at + d);
            dot += product;
            reach += fabs(product);
        }
        row->score[n] = dot * scale;
        row->reach[n] = reach * fabs(scale);
        row->score_peak = fmax(row->score_peak, fabs(row->score[n]));
        if (p->cap > 0.0f)
            row->score[n] = (double)p->cap * tanh(row->score[n] / (double)p->cap);
    }
    if (isfinite(row->sink))
        row->score_peak = fmax(row->score_peak, fabs(row->sink));
}

/* softmax(score) * V in fp64: the answer, its weights kept. Key by key, so that a row of V is read contiguously. */
static void answer(const s2_row_data *data, s2_oracle_row *row)
{
    const s2_attn_problem *const p = data->problem;
    const double v_scale = v_scale_of(data);
    double peak = row->sink, sum = 0.0;
    for (int32_t n = 0; n < row->n_keys; n++)
        peak = fmax(peak, row->score[n]);
    for (int32_t n = 0; n < row->n_keys; n++)
        sum += row->weight[n] = exp(row->score[n] - peak);
    if (row->sink != -INFINITY)
        sum += exp(row->sink - peak);
    row->lse = sum == 0.0 ? -INFINITY : peak + log(sum);
    double *const o = row->o, value_peak = 0.0;
    memset(o, 0, (size_t)p->head_dim * sizeof *o);
    for (int32_t n = 0; n < row->n_keys; n++) {
        const double share = row->weight[n] /= sum;
        const int64_t v_at = value_row(data, row->keys[n]);
        for (int32_t d = 0; d < p->head_dim; d++) {
            const double value = (double)s2_float_load(p->v.data, s2_kv_dtype(p), v_at + d) * v_scale;
            o[d] += share * value;
            value_peak = s2_max_f64(fabs(value), value_peak);
        }
    }
    row->value_peak = value_peak;
}

/*
 * Two roundings of each score move its weight independently, and one rounding of each weight moves their sum:
 * what that does to the worst element of the row.
 */
static void score_noise(const s2_row_data *data, s2_tolerance tolerance, double unit, s2_oracle_row *row)
{
    double lse = 0.0;
    row->o_noise = row->lse_noise = 0.0;
    for (int32_t n = 0; n < row->n_keys && tolerance == S2_TOL_ROUNDED_S; n++)
        lse += pow(row->weight[n] * 2.0 * unit * row->score[n], 2.0);
    for (int32_t d = 0; d < data->problem->head_dim && tolerance == S2_TOL_ROUNDED_S; d++) {
        double o = 0.0;
        for (int32_t n = 0; n < row->n_keys; n++)
            o += pow(row->weight[n] * 2.0 * unit * row->score[n] *
                         (value_at(data, row->keys[n], d) - row->o[d]),
                     2.0);
        row->o_noise = fmax(row->o_noise, sqrt(o));
    }
    for (int32_t n = 0; n < row->n_keys && tolerance == S2_TOL_ROUNDED_SUM; n++)
        lse += pow(row->weight[n] * unit, 2.0);
    for (int32_t d = 0; d < data->problem->head_dim && tolerance == S2_TOL_ROUNDED_SUM; d++)
        row->o_noise =
            fmax(row->o_noise, fabs(row->o[d]) * unit / 3.0); /* parts, rounded before they are joined */
    row->lse_noise = sqrt(lse);
}

/*
 * A standard deviation of what rounding the weights does to the worst element. A rounding moves a number by 0.43 of a
 * unit in the root mean square: uniform in a step, over numbers whose logarithms are uniform.
 */
static void weight_noise(const s2_row_data *data, double unit, s2_oracle_row *row)
{
    for (int32_t d = 0; d < data->problem->head_dim; d++) {
        double square = 0.0;
        for (int32_t n = 0; n < row->n_keys; n++) {
            const double moved = row->weight[n] * value_at(data, row->keys[n], d);
            square += moved * moved;
        }
        row->weight_noise = fmax(row->weight_noise, 0.43 * unit * sqrt(square));
    }
}

/*
 * What products of e4m3 do to a row (docs/numerics.md). A weight is rounded: by 2^-4 of itself at most, and by
 * 2^-16 of the largest. A score loses up to 2^-11 of the sum of its products' magnitudes, and an output up to
 * 2^-11 of its own, for tensor cores add products of eight bits up in some 13 bits and cut off the rest.
 */
static void e4m3_noise(const s2_row_data *data, s2_oracle_row *row)
{
    double lse = 0.0, largest = 0.0;
    row->o_noise = 0.0;
    for (int32_t n = 0; n < row->n_keys; n++)
        largest = fmax(largest, row->weight[n]);
    for (int32_t n = 0; n < row->n_keys; n++)
        lse += row->weight[n] * 0x1p-11 * row->reach[n];
    row->lse_noise = lse / 6.0;
    for (int32_t d = 0; d < data->problem->head_dim; d++) {
        double square = 0.0, most = 0.0, cut = 0.0;
        for (int32_t n = 0; n < row->n_keys; n++) {
            const double share = row->weight[n], value = value_at(data, row->keys[n], d);
            const double rounded = (share * 0x1p-4 + 0x1p-16 * largest) * fabs(value);
            const double scored = share * 0x1p-11 * row->reach[n] * fabs(value - row->o[d]);
            square += (rounded * rounded + scored * scored) / 4.0;
            most += rounded + 2.0 * scored;
            cut += share * 0x1p-11 * fabs(value);
        }
        row->o_noise = fmax(row->o_noise, fmin(sqrt(square), most / 6.0) + cut / 6.0);
    }
}

/* A weight, at most 1, as a kernel of this tolerance stores it; e4m3 takes it 64 times as large. */
static float round_weight(float weight, s2_tolerance tolerance, s2_dtype dtype)
{
    if (tolerance == S2_TOL_E4M3)
        return s2_round_to(S2_F8, 64.0f * weight) / 64.0f;
    return tolerance != S2_TOL_EXACT ? s2_round_to(dtype, weight) : weight;
}

/* The same formula in the precision of the storage: what a correct kernel cannot avoid. */
static void rounded_answer(const s2_row_data *data, s2_tolerance tolerance, s2_oracle_row *row)
{
    const s2_attn_problem *const p = data->problem;
    const s2_dtype dtype = p->dtype, stored = s2_kv_dtype(p);
    const float v_scale = (float)v_scale_of(data);
    float peak = (float)row->sink, sum = 0.0f;
    for (int32_t n = 0; n < row->n_keys; n++)
        peak = fmaxf(peak, (float)row->score[n]);
    for (int32_t n = 0; n < row->n_keys; n++) {
        const float weight = expf((float)row->score[n] - peak);
        sum += weight;
        row->weight[n] = (double)round_weight(weight, tolerance, dtype);
    }
    if (row->sink != -INFINITY)
        sum += expf((float)row->sink - peak);
    row->rounded_lse = sum == 0.0f ? -INFINITY : (double)(peak + logf(sum));
    memset(row->rounded, 0, (size_t)p->head_dim * sizeof *row->rounded);
    for (int32_t n = 0; n < row->n_keys; n++) {
        const float weight = (float)row->weight[n];
        const int64_t v_at = value_row(data, row->keys[n]);
        for (int32_t d = 0; d < p->head_dim; d++)
            row->rounded[d] = (double)((float)row->rounded[d] +
                                       weight * s2_float_load(p->v.data, stored, v_at + d) * v_scale);
    }
    for (int32_t d = 0; d < p->head_dim; d++)
        row->rounded[d] = row->n_keys > 0 ? (double)s2_round_to(dtype, (float)row->rounded[d] / sum) : 0.0;
}

s2_status s2_oracle_eval(const s2_attn_problem *problem, int32_t seq, int32_t q_tok, int32_t head,
                         s2_tolerance tolerance, s2_oracle_row *row)
{
    const s2_row_data data = {problem, seq, head, s2_pattern_kv_head(problem->plan->pattern, head),
                              s2_tensor_at(&problem->q, problem->q_begin_tok, seq, q_tok, head)};
    S2_TRY(reserve(row, problem->plan->seqs[seq].k_tok, problem->head_dim));
    row->sink = problem->sinks ? (double)problem->sink[head] : -INFINITY;
    find_keys(&data, q_tok, head, row);
    find_scores(&data, row);
    answer(&data, row);
    row->weight_noise = 0.0;
    if (tolerance == S2_TOL_E4M3) {
        e4m3_noise(&data, row);
    } else {
        score_noise(&data, tolerance, unit_of[problem->dtype], row);
        if (tolerance != S2_TOL_EXACT && row->n_keys > 0)
            weight_noise(&data, unit_of[problem->dtype], row);
    }
    rounded_answer(&data, tolerance, row);
    return S2_OK;
}

/*
 * What rounding may do (docs/numerics.md): twice its effect on the plain evaluation in the same precision, or six
 * standard deviations where that evaluation was lucky, plus a floor of two units of the output type and of fp32
 * sums over the row.
 */
static double row_tolerance(const s2_oracle_row *row, s2_dtype dtype, double plain_err, double o_peak)
{
    const double sums = 64.0 * 0x1p-24 * (1.0 + row->score_peak) * row->value_peak;
    const double weights = fmax(2.0 * plain_err, 6.0 * row->weight_noise);
    return weights + 2.0 * unit_of[dtype] * o_peak + sums + 6.0 * row->o_noise;
}

/* What rounding the sum of products of each score does to the log-sum-exp: where they cancel, more than one of it. */
static double sums_of_scores(const s2_oracle_row *row)
{
    double moved = 0.0;
    for (int32_t n = 0; n < row->n_keys; n++)
        moved += exp(row->score[n] - row->lse) * row->reach[n];
    return moved;
}

s2_row_error s2_oracle_compare(const s2_attn_problem *problem, const s2_oracle_row *row, const void *o,
                               int64_t o_at, double lse)
{
    s2_row_error error = {0};
    double plain = 0.0, peak = 0.0;
    for (int32_t d = 0; d < problem->head_dim; d++) {
        const double diff = fabs((double)s2_float_load(o, problem->dtype, o_at + d) - row->o[d]);
        error.err = isnan(diff) || diff > error.err ? diff : error.err;
        if (isnan(diff))
            break;
        plain = fmax(plain, fabs(row->rounded[d] - row->o[d]));
        peak = fmax(peak, fabs(row->o[d]));
    }
    error.tol = row_tolerance(row, problem->dtype, plain, peak);
    if (row->n_keys == 0 && !(row->sink > -INFINITY)) {
        error.lse_err = lse == -INFINITY ? 0.0 : INFINITY;
        return error;
    }
    error.lse_err = fabs(lse - row->lse);
    error.lse_tol = 3.0 * fabs(row->rounded_lse - row->lse) + 4e-6 + 6.0 * row->lse_noise +
                    16.0 * 0x1p-24 * (row->score_peak + fabs(row->lse));
    error.lse_tol += 0x1p-24 * sums_of_scores(row);
    return error;
}

/* ------------------------------------------------------------------ the oracle as a kernel */

static s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    (void)device;
    if (problem->cached != NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the reference reads no cache");
    if (problem->pass == S2_PASS_BACKWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the reference computes no gradients");
    return S2_OK;
}

static s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why)
{
    (void)device;
    S2_TRY(s2_problem_check(problem, why));
    s2_oracle_row *const row = s2_calloc(1, sizeof *row);
    if (row == NULL)
        return S2_ENOMEM;
    *state = row;
    return S2_OK;
}

static void store_row(const s2_attn_problem *p, int32_t seq, int32_t q_tok, int32_t head,
                      const s2_oracle_row *row)
{
    const int64_t o_at = s2_tensor_at(&p->o, p->q_begin_tok, seq, q_tok, head);
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(p->o.data, p->dtype, o_at + d, (float)row->o[d]);
    p->lse.data[s2_rows_at(&p->lse, p->q_begin_tok, seq, q_tok, head)] = (float)row->lse;
}

static s2_status run(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    (void)device;
    (void)why;
    const s2_plan *const plan = problem->plan;
    for (int32_t item_no = 0; item_no < plan->n_items; item_no++) {
        const s2_plan_item *const item = &plan->items[item_no];
        const s2_plan_seq lens = plan->seqs[item->seq];
        const int64_t first = s2_plan_tile_begin(plan, item->seq, item->tile) - (lens.k_tok - lens.q_tok);
        for (int64_t q_tok = first; q_tok < first + plan->options.tile_tok; q_tok++) {
            if (q_tok < 0 || q_tok >= lens.q_tok)
                continue;
            for (int32_t head = item->head; head < item->head + item->n_heads; head++) {
                S2_TRY(s2_oracle_eval(problem, item->seq, (int32_t)q_tok, head, S2_TOL_EXACT, state));
                store_row(problem, item->seq, (int32_t)q_tok, head, state);
            }
        }
    }
    return S2_OK;
}

static void finish(s2_device *device, void *state)
{
    (void)device;
    if (state != NULL)
        s2_oracle_row_release(state);
    s2_free(state);
}

const s2_kernel s2_kernel_ref_f64 = {
    .traits = &s2_traits_ref_f64,
    .summary = "the definition itself in fp64, key by key, without blocks; slow",
    .device = S2_DEVICE_CPU,
    .tolerance = S2_TOL_EXACT,
    .deterministic = true,
    .supports = supports,
    .prepare = prepare,
    .run = run,
    .finish = finish,
    .takes = S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_E4M3,
};
