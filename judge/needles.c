/*
 * One run per length retrieves a needle at every depth: the last S2_NEEDLE_DEPTHS queries each look for one.
 * Query j and its needle's key are the same unit vector, long enough that the needle's weight is 1 up to
 * rounding whenever it is read; all other keys are small noise.
 */
#include "judge/probe.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/text.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

enum { STREAM_NOISE = 5, STREAM_VALUES = 6 };

/* length^2 * scale: e^40 outweighs 2^24 other keys by 10^10, half of it still by 30 times. */
static const float NEEDLE_SCORE = 40.0f;

/* The stored length of a needle in e4m3. */
static const float E4M3_LENGTH = 256.0f;

typedef struct s2_hunt {
    s2_harness harness;
    int32_t n_needles;
    float row[S2_LIMIT_HEAD_DIM]; /* one row of the device, in its type */
} s2_hunt;

/* Depth j of n needles: key number, from the first key to the query's own neighbourhood. */
static int32_t needle_key(const s2_hunt *hunt, int32_t j)
{
    const int32_t k_tok = hunt->harness.some.seqs[0].k_tok;
    return (int32_t)((int64_t)(k_tok - hunt->n_needles) * j / (S2_NEEDLE_DEPTHS - 1));
}

static s2_status put_unit(s2_hunt *hunt, const s2_tensor *tensor, s2_dtype dtype, int64_t row_begin,
                          int32_t j, float length)
{
    const s2_attn_problem *const p = &hunt->harness.problem;
    const int64_t bytes = s2_dtype_bytes(dtype);
    for (int32_t d = 0; d < p->head_dim; d++)
        s2_float_store(hunt->row, dtype, d, d == j ? length : 0.0f);
    return hunt->harness.device->ops->copy_in(hunt->harness.device,
                                              (uint8_t *)tensor->data + row_begin * bytes, hunt->row,
                                              (size_t)(p->head_dim * bytes));
}

static s2_status plant(s2_hunt *hunt, uint64_t seed)
{
    s2_harness *const harness = &hunt->harness;
    const s2_attn_problem *const p = &harness->problem;
    const s2_device_ops *const ops = harness->device->ops;
    const float length = sqrtf(NEEDLE_SCORE / fabsf(p->scale));
    S2_TRY(s2_harness_scale_queries(harness, length / E4M3_LENGTH, false));
    S2_TRY(s2_harness_scale(harness, length / E4M3_LENGTH, S2_HARNESS_UNIT, false));
    S2_TRY(ops->fill(harness->device, p->q.data, 0, harness->q.n_bytes));
    S2_TRY(s2_harness_fill_keys(harness, seed * 16 + STREAM_NOISE, 0.01f));
    S2_TRY(s2_harness_fill_values(harness, seed * 16 + STREAM_VALUES));
    for (int32_t j = 0; j < hunt->n_needles; j++) {
        for (int32_t head = 0; head < p->n_heads; head++)
            S2_TRY(put_unit(hunt, &p->q, s2_q_dtype(p), s2_tensor_at(&p->q, NULL, 0, j, head), j,
                            length / harness->q_unit));
        for (int32_t g = 0; g < p->n_kv_heads; g++)
            S2_TRY(put_unit(hunt, &p->k, s2_kv_dtype(p), s2_tensor_at(&p->k, NULL, 0, needle_key(hunt, j), g),
                            j, length / harness->k_unit));
    }
    return S2_OK;
}

/* Whether the head's output is the needle's value: where it is unread, a mean over noise is left. */
static bool comes_back(const s2_hunt *hunt, uint64_t seed, int32_t j, int32_t head)
{
    const s2_attn_problem *const p = &hunt->harness.problem;
    const float unit = hunt->harness.v_unit;
    const int64_t o_at = s2_tensor_at(&p->o, NULL, 0, j, head);
    const int64_t v_at = s2_tensor_at(&p->v, NULL, 0, needle_key(hunt, j),
                                      s2_pattern_kv_head(hunt->harness.some.pattern, head));
    for (int32_t d = 0; d < p->head_dim; d++) {
        const float value =
            unit * s2_round_to(s2_kv_dtype(p),
                               s2_input_value(seed * 16 + STREAM_VALUES, (uint64_t)(v_at + d)) / unit);
        if (!(fabsf(s2_float_load(s2_harness_o(&hunt->harness), p->dtype, o_at + d) - value) <=
              0.02f * (1.0f + fabsf(value))))
            return false;
    }
    return true;
}

static uint8_t judge_cell(const s2_hunt *hunt, uint64_t seed, int32_t j)
{
    const s2_plan *const plan = &hunt->harness.some;
    const s2_plan_seq lens = plan->seqs[0];
    bool expected = false, found = false, extra = false, missing = false;
    for (int32_t head = 0; head < plan->pattern->n_heads; head++) {
        const bool reads = s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok,
                                            lens.k_tok - lens.q_tok + j, needle_key(hunt, j));
        const bool came = comes_back(hunt, seed, j, head);
        expected = expected || reads;
        found = found || came;
        extra = extra || (came && !reads);
        missing = missing || (reads && !came);
    }
    if (extra)
        return S2_NEEDLE_EXTRA;
    if (missing)
        return S2_NEEDLE_MISSING;
    return expected && found ? S2_NEEDLE_FOUND : S2_NEEDLE_UNSEEN;
}

static void judge_length(const s2_hunt *hunt, uint64_t seed, s2_validation *out)
{
    const int32_t n = out->n_lengths++;
    out->needle_len[n] = hunt->harness.some.seqs[0].k_tok;
    for (int32_t j = 0; j < hunt->n_needles; j++) {
        const uint8_t cell = judge_cell(hunt, seed, j);
        out->needle[n][j] = cell;
        out->needle_cells++;
        out->needle_found += cell == S2_NEEDLE_FOUND || cell == S2_NEEDLE_EXTRA;
        out->needle_expected += cell == S2_NEEDLE_FOUND || cell == S2_NEEDLE_MISSING;
        if (cell != S2_NEEDLE_MISSING && cell != S2_NEEDLE_EXTRA)
            continue;
        out->outcome = S2_OUTCOME_WRONG_PAIRS;
        snprintf(out->reason, sizeof out->reason, "layer %d, length %d: the needle at key %d %s",
                 hunt->harness.some.layer, out->needle_len[n], needle_key(hunt, j),
                 cell == S2_NEEDLE_MISSING ? "does not come back through a head that reads it"
                                           : "comes back through a head that may not read it");
    }
}

static s2_status hunt_length(s2_device *device, const s2_validate_request *request, int32_t k_tok,
                             s2_validation *out, s2_diag *why)
{
    const int32_t n_needles = s2_min_i32(request->pattern->head_dim, S2_NEEDLE_DEPTHS);
    const s2_plan_seq seq = {n_needles, k_tok};
    s2_validate_request one = *request;
    one.seqs = &seq;
    one.n_seqs = 1;
    one.budget_flop = 0.0;
    s2_hunt hunt = {.n_needles = n_needles};
    s2_status status = s2_harness_open(&hunt.harness, device, &one, why);
    if (status == S2_OK)
        status = plant(&hunt, request->seed);
    if (status == S2_OK)
        status = s2_harness_run(&hunt.harness, NULL, why);
    if (status == S2_OK)
        judge_length(&hunt, request->seed, out);
    s2_harness_close(&hunt.harness);
    return status;
}

/* A cap flattens the needle's score; below half of it too many keys would weigh as much as the needle. */
static bool stands_out(float cap)
{
    return cap <= 0.0f || cap * tanhf(NEEDLE_SCORE / cap) > NEEDLE_SCORE / 2.0f;
}

s2_status s2_probe_needles(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why)
{
    int32_t k_tok = request->seqs[0].k_tok, lengths[S2_NEEDLE_LENGTHS], n = 0;
    if (!stands_out(request->cap)) {
        snprintf(out->left_out, sizeof out->left_out, "no needles: a cap of %s lets none stand out",
                 s2_decimal((double)request->cap, 6).text);
        return S2_OK;
    }
    for (; n < S2_NEEDLE_LENGTHS && k_tok >= 2 * S2_NEEDLE_DEPTHS; k_tok /= 2)
        lengths[n++] = k_tok;
    for (int32_t nth = n - 1; nth >= 0 && out->outcome == S2_OUTCOME_OK; nth--) {
        s2_diag refusal = {0};
        if (request->progress != NULL)
            request->progress(request->user, "needles", n - 1 - nth, n);
        const s2_status status = hunt_length(device, request, lengths[nth], out, &refusal);
        if (status == S2_OK || status == S2_EUNSUPPORTED)
            continue; /* a kernel without Tq < Tk has no grid, which is not a failure */
        *why = refusal;
        return status;
    }
    return S2_OK;
}
