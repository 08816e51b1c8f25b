/*
 * Why a backward is wrong: whose gradients reach which KV head, and which rule explains the pairs.
 *
 * All scores are 0 and lse = 0, so every weight is 1; dO of query head h is 1 in column h alone. Column h of dV then
 * counts the rows of head h that a KV head took in, and is 0 where it took in none; and so does that of dK, times the
 * scale, where Q is as dO and o is -dO. D heads are looked at in one run.
 * Pairs are seen as judge/gradient_touch.c sees them, in a few rows, first through dV and then through dQ, and the
 * rules are those of a forward.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "judge/gradient_harness.h"
#include "judge/probe.h"
#include "judge/sight.h"
#include "kernels/float16.h"
#include "pattern/dense.h"

/* Column h of query head h, from `first` on, is x in all rows of a tensor of queries. */
static s2_status set_columns(s2_gradient_harness *gradients, const s2_tensor *tensor,
                             const s2_guarded *buffer, int32_t first, float x)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    s2_device *const device = gradients->harness.device;
    uint8_t *const host = s2_calloc(buffer->n_bytes, 1);
    if (host == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int64_t tok = 0; tok < p->plan->seqs[seq].q_tok; tok++)
            for (int32_t d = 0; d < p->head_dim && first + d < p->n_heads; d++)
                s2_float_store(host, p->dtype, s2_tensor_at(tensor, p->q_begin_tok, seq, tok, first + d) + d,
                               x);
    const s2_status status = device->ops->copy_in(device, tensor->data, host, buffer->n_bytes);
    s2_free(host);
    return status;
}

static s2_status show_heads(s2_gradient_harness *gradients, int32_t first)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    S2_TRY(set_columns(gradients, &p->d_o, &harness->d_o, first, 1.0f));
    S2_TRY(set_columns(gradients, &p->o, &harness->o, first, -1.0f));
    return set_columns(gradients, &p->q, &harness->q, first, 1.0f);
}

/* All scores, weights' logarithms and values are 0, and so is dO. */
static s2_status blank(s2_gradient_harness *gradients)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    s2_device *const device = harness->device;
    S2_TRY(device->ops->fill(device, p->q.data, 0, harness->q.n_bytes));
    S2_TRY(device->ops->fill(device, p->k.data, 0, harness->k.n_bytes));
    S2_TRY(device->ops->fill(device, p->v.data, 0, harness->v.n_bytes));
    S2_TRY(device->ops->fill(device, p->o.data, 0, harness->o.n_bytes));
    S2_TRY(device->ops->fill(device, p->d_o.data, 0, harness->d_o.n_bytes));
    return device->ops->fill(device, p->lse.data, 0, harness->lse.n_bytes);
}

/* Whether some key of the first sequence has something of this column of dK or dV. */
static bool takes_in(const s2_gradient_harness *gradients, s2_gradient_kind grad, int32_t kv_head, int32_t d)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    const uint8_t *const data = gradients->host[grad] + S2_GUARD_BYTES;
    const float least = grad == S2_GRADIENT_DV ? 0.5f : 0.5f * fabsf(p->scale);
    for (int64_t k = 0; k < p->plan->seqs[0].k_tok; k++) {
        const int64_t element =
            s2_tensor_at(s2_gradient_harness_tensor(gradients, grad), p->k_begin_tok, 0, k, kv_head) + d;
        if (fabsf(s2_float_load(data, p->dtype, element)) > least)
            return true;
    }
    return false;
}

static bool reads_any(const s2_plan *plan, int32_t head)
{
    const s2_plan_seq lens = plan->seqs[0];
    for (int64_t k = 0; k < lens.k_tok; k++)
        if (s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok, lens.k_tok - 1, k))
            return true;
    return false;
}

/* Query heads that do not reach their own KV head; for the first of them which KV head it reaches, or -1. */
typedef struct s2_routes {
    int32_t head, other, n_lost;
} s2_routes;

static void say(s2_validation *out, const s2_routes *routes, int32_t own, const char *what)
{
    char more[60] = "";
    if (routes->n_lost == 2)
        snprintf(more, sizeof more, "; another query head's do not reach theirs either");
    else if (routes->n_lost > 2)
        snprintf(more, sizeof more, "; those of %d others do not reach theirs either", routes->n_lost - 1);
    if (routes->other >= 0)
        snprintf(out->symptom, sizeof out->symptom,
                 "puts %s of query head %d into KV head %d, its own is %d%s", what, routes->head,
                 routes->other, own, more);
    else
        snprintf(out->symptom, sizeof out->symptom,
                 "leaves %s of query head %d out of KV head %d, which other heads share%s", what,
                 routes->head, own, more);
}

static void look_at_head(const s2_gradient_harness *gradients, s2_gradient_kind grad, int32_t head, int32_t d,
                         s2_routes *routes)
{
    const s2_plan *const plan = &gradients->harness.some;
    if (!reads_any(plan, head) || takes_in(gradients, grad, s2_pattern_kv_head(plan->pattern, head), d))
        return;
    for (int32_t g = 0; routes->n_lost == 0 && g < plan->pattern->n_kv_heads; g++)
        routes->other = takes_in(gradients, grad, g, d) ? g : routes->other;
    routes->head = routes->n_lost++ == 0 ? head : routes->head;
}

/* dV first: where both are lost it stands for both. */
static s2_status try_routes(s2_gradient_harness *gradients, s2_validation *out, s2_diag *why)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    const s2_pattern *const pattern = gradients->harness.some.pattern;
    s2_routes of_dv = {-1, -1, 0}, of_dk = {-1, -1, 0};
    for (int32_t first = 0; first < p->n_heads; first += p->head_dim) {
        S2_TRY(show_heads(gradients, first));
        S2_TRY(s2_gradient_harness_run(gradients, NULL, why));
        for (int32_t head = first; head < p->n_heads && head < first + p->head_dim; head++) {
            look_at_head(gradients, S2_GRADIENT_DV, head, head - first, &of_dv);
            look_at_head(gradients, S2_GRADIENT_DK, head, head - first, &of_dk);
        }
    }
    if (of_dv.n_lost > 0)
        say(out, &of_dv, s2_pattern_kv_head(pattern, of_dv.head), "the gradients");
    else if (of_dk.n_lost > 0)
        say(out, &of_dk, s2_pattern_kv_head(pattern, of_dk.head), "the gradients of K");
    return S2_OK;
}

/* ------------------------------------------------------------------ which pairs */

/* A column is a sum of powers of two, one for each pair in it. */
static void see(s2_sight *sight, int64_t row, int64_t k_tok, double sum, int32_t bit, int32_t n_bits)
{
    const double nearest = nearbyint(sum);
    if (!(fabs(sum - nearest) <= 0.3 && nearest >= 0.0 && nearest < (double)(INT64_C(1) << n_bits))) {
        sight->n_seen[row] = -1;
        return;
    }
    const bool is_read = ((int64_t)nearest >> bit & 1) != 0;
    sight->seen[row * sight->row_bytes + k_tok / 8] |= (uint8_t)(is_read << k_tok % 8);
    if (sight->n_seen[row] >= 0)
        sight->n_seen[row] += is_read;
}

static void forget(s2_sight *sight)
{
    memset(sight->seen, 0, (size_t)(sight->n_rows * sight->row_bytes));
    memset(sight->n_seen, 0, (size_t)sight->n_rows * sizeof *sight->n_seen);
}

/* dO = 1 and o = -1 in column 0 of all rows: the gradient of every score is 1. */
static s2_status set_ones(s2_gradient_harness *gradients)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    uint8_t *const d_o = s2_calloc(harness->d_o.n_bytes, 1), *const o = s2_calloc(harness->o.n_bytes, 1);
    s2_status status = d_o != NULL && o != NULL ? S2_OK : S2_ENOMEM;
    for (int64_t tok = 0; status == S2_OK && tok < p->plan->seqs[0].q_tok; tok++)
        for (int32_t head = 0; head < p->n_heads; head++) {
            s2_float_store(d_o, p->dtype, s2_tensor_at(&p->d_o, p->q_begin_tok, 0, tok, head), 1.0f);
            s2_float_store(o, p->dtype, s2_tensor_at(&p->o, p->q_begin_tok, 0, tok, head), -1.0f);
        }
    if (status == S2_OK)
        status = harness->device->ops->copy_in(harness->device, p->d_o.data, d_o, harness->d_o.n_bytes);
    if (status == S2_OK)
        status = harness->device->ops->copy_in(harness->device, p->o.data, o, harness->o.n_bytes);
    s2_free(d_o);
    s2_free(o);
    return status;
}

/*
 * One look at all pairs. By keys, dV is read: some rows have a power of two each in one column of dO. By queries, dQ
 * is read: some keys have one in a column of K. As many are shown at once as columns have bits.
 */
typedef struct s2_look {
    const s2_gradient_harness *gradients;
    s2_sight *sight;
    bool by_keys;
    int64_t begin, end; /* the rows, or keys, that are shown */
} s2_look;

static void show(const s2_look *look, uint8_t *data)
{
    const s2_attn_problem *const p = &look->gradients->harness.problem;
    for (int64_t nth = look->begin; nth < look->end; nth++) {
        const int64_t place = nth - look->begin, column = place % p->head_dim;
        const float bit = (float)(1 << place / p->head_dim);
        const s2_probe_row row = look->by_keys ? look->sight->row[nth] : (s2_probe_row){0};
        if (look->by_keys)
            s2_float_store(data, p->dtype,
                           s2_tensor_at(&p->d_o, p->q_begin_tok, 0, row.q_tok, row.head) + column, bit);
        for (int32_t g = 0; g < p->n_kv_heads && !look->by_keys; g++)
            s2_float_store(data, p->dtype, s2_tensor_at(&p->k, p->k_begin_tok, 0, nth, g) + column, bit);
    }
}

/* What a column of dV or dQ says of a pair: the sum of the bits of all pairs in it. */
static double sum_at(const s2_look *look, s2_probe_row row, int64_t k_tok, int64_t column)
{
    const s2_attn_problem *const p = &look->gradients->harness.problem;
    const s2_gradient_kind which = look->by_keys ? S2_GRADIENT_DV : S2_GRADIENT_DQ;
    const int32_t own = s2_pattern_kv_head(p->plan->pattern, row.head);
    const int64_t row_begin = look->by_keys ? s2_tensor_at(&p->d_v, p->k_begin_tok, 0, k_tok, own)
                                            : s2_tensor_at(&p->d_q, p->q_begin_tok, 0, row.q_tok, row.head);
    const double sum =
        (double)s2_float_load(look->gradients->host[which] + S2_GUARD_BYTES, p->dtype, row_begin + column);
    return look->by_keys ? sum : sum / (double)p->scale;
}

static void see_shown(const s2_look *look, int64_t n_k, int32_t n_bits)
{
    const int32_t head_dim = look->gradients->harness.problem.head_dim;
    const int64_t n_rows = look->sight->n_rows;
    for (int64_t nth = look->by_keys ? look->begin : 0; nth < (look->by_keys ? look->end : n_rows); nth++)
        for (int64_t k = look->by_keys ? 0 : look->begin; k < (look->by_keys ? n_k : look->end); k++) {
            const int64_t place = (look->by_keys ? nth : k) - look->begin;
            see(look->sight, nth, k, sum_at(look, look->sight->row[nth], k, place % head_dim),
                (int32_t)(place / head_dim), n_bits);
        }
}

static s2_status look_at_pairs(s2_gradient_harness *gradients, s2_sight *sight, bool by_keys, s2_diag *why)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    const s2_guarded *const buffer = by_keys ? &harness->d_o : &harness->k;
    const int32_t n_bits = s2_sight_bits(p->dtype);
    const int64_t n_k = p->plan->seqs[0].k_tok, n = by_keys ? sight->n_rows : n_k;
    const int64_t size = (int64_t)n_bits * p->head_dim;
    uint8_t *const data = s2_calloc(buffer->n_bytes, 1);
    s2_status status = data == NULL ? S2_ENOMEM : by_keys ? S2_OK : set_ones(gradients);
    for (int64_t begin = 0; begin < n && status == S2_OK; begin += size) {
        const s2_look look = {gradients, sight, by_keys, begin, s2_min_i64(begin + size, n)};
        memset(data, 0, buffer->n_bytes);
        show(&look, data);
        status = harness->device->ops->copy_in(harness->device, (by_keys ? p->d_o : p->k).data, data,
                                               buffer->n_bytes);
        if (status == S2_OK)
            status = s2_gradient_harness_run(gradients, NULL, why);
        if (status == S2_OK)
            see_shown(&look, n_k, n_bits);
    }
    s2_free(data);
    return status;
}

static s2_status try_pairs(s2_gradient_harness *gradients, s2_validation *out, s2_diag *why)
{
    s2_probe_row rows[S2_SYMPTOM_ROWS];
    uint8_t wrong[S2_SYMPTOM_ROWS] = {0};
    s2_sight sight = {0};
    s2_symptom_rows(&gradients->harness, out, NULL, gradients->harness.problem.n_heads, rows);
    s2_status status = s2_sight_open(&gradients->harness, rows, S2_SYMPTOM_ROWS, &sight);
    sight.seen = s2_calloc(S2_SYMPTOM_ROWS, (size_t)sight.row_bytes);
    sight.n_seen = s2_calloc(S2_SYMPTOM_ROWS, sizeof *sight.n_seen);
    if (sight.seen == NULL || sight.n_seen == NULL)
        status = S2_ENOMEM;
    for (int by_keys = 1; by_keys >= 0 && out->symptom[0] == '\0'; by_keys--) {
        if (status == S2_OK)
            forget(&sight);
        if (status == S2_OK)
            status = blank(gradients);
        if (status == S2_OK)
            status = look_at_pairs(gradients, &sight, by_keys == 1, why);
        if (status == S2_OK)
            s2_symptom_find(&gradients->harness, &sight, false, wrong, out);
    }
    s2_sight_close(&sight);
    return status;
}

s2_status s2_gradient_explain(s2_gradient_harness *gradients, s2_validation *out, s2_diag *why)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_plan_seq lens = harness->some.seqs[0];
    s2_diag refusal = {0};
    if (gradients->kv_head >= 0 || harness->some.n_items != harness->whole.n_items ||
        lens.k_tok > S2_SYMPTOM_KEYS || lens.k_tok < lens.q_tok)
        return S2_OK;
    s2_status status = blank(gradients);
    if (status == S2_OK && harness->problem.n_heads != harness->problem.n_kv_heads)
        status = try_routes(gradients, out, &refusal);
    if (status == S2_OK && out->symptom[0] == '\0')
        status = try_pairs(gradients, out, &refusal);
    if (status == S2_ENOMEM)
        *why = refusal;
    return status == S2_ENOMEM ? status : S2_OK; /* a device that fails now does not change the verdict */
}
