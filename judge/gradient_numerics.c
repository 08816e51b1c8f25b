/*
 * Random data, the forward's own o and lse, gradients against fp64 (kernels/gradient.h). The tolerance: twice
 * what rounding does to the plain evaluation, two units of the output, three of the rounded terms added in
 * quadrature, and fp32 sums over all terms (docs/numerics.md).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "base/text.h"
#include "kernels/float16.h"
#include "kernels/gradient.h"
#include "judge/probe.h"
#include "judge/gradient_harness.h"
#include "judge/workload.h"

enum { N_INPUTS = 6, INPUT_O = 3, LIMIT_KEYS_DRAWN = 64 };

typedef struct s2_grad_check {
    s2_gradient_harness *gradients;
    s2_validation *out;
    const s2_validate_request *request;
    uint8_t *host[N_INPUTS]; /* q, k, v, o, dO, lse */
    s2_attn_problem problem; /* with host addresses */
    s2_gradient gradient;
    int64_t n_judged[S2_N_GRADIENT_KINDS];
} s2_grad_check;

/* ------------------------------------------------------------------ data */

static s2_status fetch(s2_grad_check *check, int32_t input)
{
    s2_harness *const harness = &check->gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    const s2_guarded *const buffers[N_INPUTS] = {&harness->q, &harness->k,   &harness->v,
                                                 &harness->o, &harness->d_o, &harness->lse};
    const s2_tensor *const tensors[N_INPUTS] = {&p->q, &p->k, &p->v, &p->o, &p->d_o, NULL};
    if (check->host[input] == NULL)
        check->host[input] = s2_malloc(buffers[input]->n_bytes + 1);
    if (check->host[input] == NULL)
        return S2_ENOMEM;
    if (tensors[input] != NULL && check->gradients->kv_head >= 0)
        return s2_gradient_harness_copy_heads(check->gradients, tensors[input], input != 1 && input != 2,
                                              check->host[input]);
    return harness->device->ops->copy_out(harness->device, check->host[input],
                                          buffers[input]->base + S2_GUARD_BYTES, buffers[input]->n_bytes);
}

static s2_status send(s2_grad_check *check, int32_t input, const s2_guarded *buffer)
{
    s2_device *const device = check->gradients->harness.device;
    return device->ops->copy_in(device, buffer->base + S2_GUARD_BYTES, check->host[input], buffer->n_bytes);
}

/* Make inputs, poisoning keys that no row reads, then o and lse; copy everything to the host. */
static s2_status make(s2_grad_check *check, s2_diag *why)
{
    s2_harness *const harness = &check->gradients->harness;
    S2_TRY(s2_harness_fill(&check->gradients->harness, check->request));
    for (int32_t input = 0; input < 3; input++)
        S2_TRY(fetch(check, input));
    if (check->gradients->kv_head < 0) {
        S2_TRY(s2_probe_poison(harness, s2_gradient_harness_forward_plan(check->gradients), check->host[1],
                               check->host[2]));
        S2_TRY(send(check, 1, &harness->k));
        S2_TRY(send(check, 2, &harness->v));
    }
    S2_TRY(s2_gradient_harness_forward(check->gradients, why));
    for (int32_t input = 3; input < N_INPUTS; input++)
        S2_TRY(fetch(check, input));
    check->problem = harness->problem;
    check->problem.q.data = check->host[0];
    check->problem.k.data = check->host[1];
    check->problem.v.data = check->host[2];
    check->problem.o.data = check->host[3];
    check->problem.d_o.data = check->host[4];
    check->problem.lse.data = (float *)(void *)check->host[5];
    check->problem.sink = harness->host_sink;
    return S2_OK;
}

/* ------------------------------------------------------------------ memory */

static const void *grad_data(const s2_gradient_harness *gradients, s2_gradient_kind grad)
{
    return gradients->host[grad] + S2_GUARD_BYTES;
}

/* The elements of a gradient that must be written: mark[element]. */
static void mark_owned(const s2_gradient_harness *gradients, s2_gradient_kind grad, uint8_t *mark)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    const s2_plan *const plan = &gradients->harness.some;
    const size_t n = (size_t)p->head_dim;
    s2_row_walk walk = {.plan = plan};
    for (s2_probe_row row; grad == S2_GRADIENT_DQ && s2_harness_next_row(&walk, &row);)
        memset(mark + s2_tensor_at(&p->d_q, p->q_begin_tok, row.seq, row.q_tok, row.head), 1, n);
    for (int32_t seq = 0; grad != S2_GRADIENT_DQ && seq < p->n_seqs; seq++)
        for (int32_t k_tok = 0; k_tok < plan->seqs[seq].k_tok; k_tok++)
            for (int32_t g = 0; g < p->n_kv_heads; g++)
                memset(mark + s2_tensor_at(s2_gradient_harness_tensor(gradients, grad), p->k_begin_tok, seq,
                                           k_tok, g),
                       1, n);
}

static bool is_finite(const s2_grad_check *check, int64_t row_begin)
{
    const s2_attn_problem *const p = &check->problem;
    for (int32_t d = 0; d < p->head_dim; d++)
        if (!isfinite(s2_float_load(check->host[INPUT_O], p->dtype, row_begin + d)))
            return false;
    return true;
}

/* Gradients of an output that is NaN are NaN too, whoever computes them. */
static s2_outcome check_forward(s2_grad_check *check)
{
    const s2_attn_problem *const p = &check->problem;
    const s2_plan *const plan = &check->gradients->harness.some;
    s2_row_walk walk = {.plan = plan};
    for (s2_probe_row row; s2_harness_next_row(&walk, &row);) {
        if (!s2_gradient_harness_looks_at(check->gradients, s2_pattern_kv_head(plan->pattern, row.head)) ||
            is_finite(check, s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head)))
            continue;
        snprintf(
            check->out->reason, sizeof check->out->reason,
            "layer %d, head %d, sequence %d, query %d: the output of %s, from which gradients begin, is not "
            "a number",
            plan->layer, row.head, row.seq, row.q_tok, s2_gradient_harness_forward_kernel(check->gradients));
        return S2_OUTCOME_NAN;
    }
    return S2_OUTCOME_OK;
}

/* Stray bytes first, then numbers that are not finite. */
static s2_outcome check_memory(s2_grad_check *check, s2_gradient_kind grad, const uint8_t *mark)
{
    const s2_dtype dtype = check->gradients->harness.problem.dtype;
    const size_t bytes = (size_t)s2_dtype_bytes(dtype),
                 data = s2_gradient_harness_buffer(check->gradients, grad)->n_bytes;
    const uint8_t *const host = check->gradients->host[grad];
    for (size_t byte = 0; byte < data + 2 * S2_GUARD_BYTES; byte++) {
        const bool guard = byte < S2_GUARD_BYTES || byte >= S2_GUARD_BYTES + data;
        if (host[byte] == 0xff || (!guard && mark[(byte - S2_GUARD_BYTES) / bytes] != 0))
            continue;
        snprintf(
            check->out->reason, sizeof check->out->reason,
            "byte %lld of %s was written, which belongs to no row of the plan (the buffer has %lld bytes)",
            (long long)byte - S2_GUARD_BYTES, s2_gradient_harness_word(grad), (long long)data);
        return S2_OUTCOME_OUT_OF_BOUNDS;
    }
    for (size_t element = 0; element < data / bytes; element++)
        if (mark[element] != 0 &&
            !isfinite(s2_float_load(grad_data(check->gradients, grad), dtype, (int64_t)element))) {
            snprintf(check->out->reason, sizeof check->out->reason, "layer %d: element %lld of %s is %s",
                     check->gradients->harness.some.layer, (long long)element, s2_gradient_harness_word(grad),
                     s2_harness_unwritten(host + S2_GUARD_BYTES + element * bytes, bytes) ? "never written"
                                                                                          : "not a number");
            return S2_OUTCOME_NAN;
        }
    return S2_OUTCOME_OK;
}

static s2_status check_memories(s2_grad_check *check)
{
    const size_t bytes = (size_t)s2_dtype_bytes(check->gradients->harness.problem.dtype);
    for (s2_gradient_kind grad = S2_GRADIENT_DQ;
         grad < S2_N_GRADIENT_KINDS && check->out->outcome == S2_OUTCOME_OK; grad++) {
        uint8_t *const mark =
            s2_calloc(s2_gradient_harness_buffer(check->gradients, grad)->n_bytes / bytes + 1, 1);
        if (mark == NULL)
            return S2_ENOMEM;
        mark_owned(check->gradients, grad, mark);
        check->out->outcome = check_memory(check, grad, mark);
        s2_free(mark);
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ values */

static double peak_of(const double *x, int32_t n)
{
    double peak = 0.0;
    for (int32_t d = 0; d < n; d++)
        peak = fmax(peak, fabs(x[d]));
    return peak;
}

/* `out` is the type that the gradient is stored in. */
static double tolerance_of(const s2_grad_check *check, const s2_gradient_out *want, s2_dtype out)
{
    static const double unit[S2_N_DTYPES] = {[S2_F32] = 0x1p-24, [S2_BF16] = 0x1p-9, [S2_F16] = 0x1p-12};
    const int32_t dim = check->problem.head_dim;
    const double u = unit[check->problem.dtype];
    double plain = 0.0;
    for (int32_t d = 0; d < dim; d++)
        plain = fmax(plain, fabs(want->plain[d] - want->exact[d]));
    /* weights below the smallest normal number may be flushed to zero */
    const double flushed = 0x1p-126 * 64.0;
    /* ... and scores that pass through the storage type carry their rounding into every weight */
    const double scores = check->gradients->harness.kernel->tolerance == S2_TOL_ROUNDED_S
                              ? 2.0 + 2.0 * check->gradient.score_peak
                              : 1.0;
    return flushed + 2.0 * plain + 2.0 * unit[out] * peak_of(want->exact, dim) +
           3.0 * u * scores * peak_of(want->noise, dim) +
           16.0 * 0x1p-24 * (1.0 + check->gradient.score_peak) * peak_of(want->size, dim);
}

static s2_outcome judge_vector(s2_grad_check *check, s2_gradient_kind grad, const s2_gradient_out *want,
                               int32_t seq, int64_t tok, int32_t head)
{
    const s2_attn_problem *const p = &check->problem;
    const int32_t *const begin = grad == S2_GRADIENT_DQ ? p->q_begin_tok : p->k_begin_tok;
    const int64_t from =
        s2_tensor_at(s2_gradient_harness_tensor(check->gradients, grad), begin, seq, tok, head);
    double err = 0.0;
    for (int32_t d = 0; d < p->head_dim; d++)
        err = fmax(err, fabs((double)s2_float_load(grad_data(check->gradients, grad), p->dtype, from + d) -
                             want->exact[d]));
    const double tol = tolerance_of(check, want, p->dtype);
    if (!(err < check->out->max_err)) {
        check->out->max_err = err;
        check->out->tol = tol;
    }
    check->out->rows++;
    check->n_judged[grad]++;
    if (err <= tol)
        return S2_OUTCOME_OK;
    snprintf(check->out->reason, sizeof check->out->reason,
             "layer %d, %s %d, sequence %d, token %lld: %s is off by %s where %s is allowed",
             check->gradients->harness.some.layer, grad == S2_GRADIENT_DQ ? "head" : "KV head", head, seq,
             (long long)tok, s2_gradient_harness_word(grad), s2_decimal(err, 3).text,
             s2_decimal(tol, 3).text);
    return S2_OUTCOME_WRONG_VALUES;
}

static s2_status judge_key(s2_grad_check *check, int32_t seq, int32_t k_tok, int32_t kv_head)
{
    S2_TRY(s2_gradient_of_key(&check->gradient, seq, k_tok, kv_head));
    check->out->outcome = judge_vector(check, S2_GRADIENT_DK, &check->gradient.out[0], seq, k_tok, kv_head);
    if (check->out->outcome == S2_OUTCOME_OK)
        check->out->outcome =
            judge_vector(check, S2_GRADIENT_DV, &check->gradient.out[1], seq, k_tok, kv_head);
    return S2_OK;
}

/* How many keys of a sequence are judged: all if the pairs fit the budget. */
static int64_t count_keys(const s2_grad_check *check, int32_t seq, int64_t all)
{
    const s2_plan *const plan = &check->gradients->harness.some;
    const double pairs = (double)plan->seqs[seq].k_tok * plan->seqs[seq].q_tok * check->problem.n_heads;
    const double share = (double)check->request->budget_pairs / 8.0 / pairs / plan->n_seqs;
    if (share >= 1.0)
        return all;
    const int64_t wanted = s2_max_i64((int64_t)(share * (double)all), s2_min_i64(all, 8));
    return pairs > 1e9 ? s2_min_i64(wanted, LIMIT_KEYS_DRAWN) : wanted;
}

/* Both ends, then drawn keys where not all are judged. */
static int64_t key_at(s2_rng *rng, int64_t n, int64_t wanted, int64_t all)
{
    if (wanted == all || n == 0)
        return n;
    return n == 1 ? all - 1 : (int64_t)s2_rng_below(rng, (uint64_t)all);
}

static s2_status judge_keys(s2_grad_check *check)
{
    const s2_plan *const plan = &check->gradients->harness.some;
    const int32_t first = s2_max_i32(check->gradients->kv_head, 0);
    const int32_t n_kv = check->gradients->kv_head < 0 ? plan->pattern->n_kv_heads : 1;
    s2_rng rng = {check->request->seed ^ UINT64_C(0x6b657973)};
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        const int32_t k_tok = plan->seqs[seq].k_tok;
        const int64_t all = (int64_t)k_tok * n_kv, wanted = count_keys(check, seq, all);
        for (int64_t n = 0; n < wanted && check->out->outcome == S2_OUTCOME_OK; n++) {
            const int64_t one = key_at(&rng, n, wanted, all);
            S2_TRY(judge_key(check, seq, (int32_t)(one % k_tok), first + (int32_t)(one / k_tok)));
            if (check->request->progress != NULL && n % 16 == 0)
                check->request->progress(check->request->user, "numerics", (int32_t)n, (int32_t)wanted);
        }
    }
    return S2_OK;
}

static s2_status judge_queries(s2_grad_check *check)
{
    s2_probe_rows rows = {0};
    const int64_t budget = check->request->budget_pairs / (4 + check->problem.head_dim / 4);
    s2_status status = s2_probe_rows_choose(&check->gradients->harness, budget, check->request->seed,
                                            check->request->few_heads, &rows);
    for (int64_t n = 0; n < rows.n && status == S2_OK && check->out->outcome == S2_OUTCOME_OK; n++) {
        const s2_probe_row row = rows.row[n];
        if (!s2_gradient_harness_looks_at(
                check->gradients, s2_pattern_kv_head(check->gradients->harness.some.pattern, row.head)))
            continue;
        status = s2_gradient_of_query(&check->gradient, row.seq, row.q_tok, row.head);
        if (status == S2_OK)
            check->out->outcome =
                judge_vector(check, S2_GRADIENT_DQ, &check->gradient.out[0], row.seq, row.q_tok, row.head);
    }
    s2_free(rows.row);
    return status;
}

static s2_outcome judge_sink(s2_grad_check *check, int32_t head)
{
    const float *const got = (const float *)(const void *)(check->gradients->host_d_sink + S2_GUARD_BYTES);
    const double err = fabs((double)got[head] - check->gradient.out[0].exact[0]);
    const double tol = tolerance_of(check, &check->gradient.out[0], S2_F32);
    if (err <= tol)
        return S2_OUTCOME_OK;
    snprintf(check->out->reason, sizeof check->out->reason,
             "layer %d, head %d: the gradient of the sink is off by %s where %s is allowed",
             check->gradients->harness.some.layer, head, s2_decimal(err, 3).text, s2_decimal(tol, 3).text);
    return isnan(err) ? S2_OUTCOME_NAN : S2_OUTCOME_WRONG_VALUES;
}

/* Guards first, then every head that is looked at. */
static s2_status judge_sinks(s2_grad_check *check)
{
    const s2_attn_problem *const p = &check->problem;
    const size_t data = check->gradients->harness.d_sink.n_bytes;
    for (size_t byte = 0; p->sinks && byte < S2_GUARD_BYTES; byte++)
        if (check->gradients->host_d_sink[byte] != 0xff ||
            check->gradients->host_d_sink[S2_GUARD_BYTES + data + byte] != 0xff) {
            snprintf(check->out->reason, sizeof check->out->reason,
                     "a byte outside the gradient of the sinks was written");
            check->out->outcome = S2_OUTCOME_OUT_OF_BOUNDS;
            return S2_OK;
        }
    for (int32_t head = 0; p->sinks && head < p->n_heads && check->out->outcome == S2_OUTCOME_OK; head++) {
        if (!s2_gradient_harness_looks_at(check->gradients, s2_pattern_kv_head(p->plan->pattern, head)))
            continue;
        S2_TRY(s2_gradient_of_sink(&check->gradient, head));
        check->out->outcome = judge_sink(check, head);
    }
    return S2_OK;
}

/*
 * From q, k and v alone where all rows can be evaluated; else from the o and lse that the kernel was given.
 */
static bool too_long(const s2_grad_check *check)
{
    const s2_plan *const plan = &check->gradients->harness.some;
    double pairs = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        pairs += (double)plan->options.tile_tok * plan->items[item].n_heads *
                 plan->seqs[plan->items[item].seq].k_tok;
    return pairs > (double)check->request->budget_pairs;
}

static s2_status judge_values(s2_grad_check *check)
{
    S2_TRY(s2_gradient_open(&check->gradient, &check->problem, check->gradients->harness.kernel->tolerance,
                            too_long(check)));
    S2_TRY(judge_queries(check));
    S2_STAGE(check->out, judge_keys(check));
    S2_STAGE(check->out, judge_sinks(check));
    return S2_OK;
}

/* ------------------------------------------------------------------ twice */

static s2_status keep_first(const s2_grad_check *check, uint8_t *first[S2_N_GRADIENT_KINDS])
{
    for (s2_gradient_kind grad = S2_GRADIENT_DQ; grad < S2_N_GRADIENT_KINDS; grad++) {
        const size_t n_bytes = s2_gradient_harness_buffer(check->gradients, grad)->n_bytes;
        first[grad] = s2_malloc(n_bytes + 1);
        if (first[grad] == NULL)
            return S2_ENOMEM;
        memcpy(first[grad], grad_data(check->gradients, grad), n_bytes);
    }
    return S2_OK;
}

static void compare_with(s2_grad_check *check, uint8_t *const first[S2_N_GRADIENT_KINDS])
{
    for (s2_gradient_kind grad = S2_GRADIENT_DQ; grad < S2_N_GRADIENT_KINDS; grad++) {
        if (memcmp(first[grad], grad_data(check->gradients, grad),
                   s2_gradient_harness_buffer(check->gradients, grad)->n_bytes) == 0)
            continue;
        snprintf(check->out->reason, sizeof check->out->reason,
                 "layer %d: two runs on the same data differ in bits of %s",
                 check->gradients->harness.some.layer, s2_gradient_harness_word(grad));
        check->out->outcome = S2_OUTCOME_NOT_REPEATABLE;
        return;
    }
}

static s2_status run_again(s2_grad_check *check, s2_diag *why)
{
    uint8_t *first[S2_N_GRADIENT_KINDS] = {0};
    s2_status status = keep_first(check, first);
    if (status == S2_OK)
        status = s2_gradient_harness_run(check->gradients, NULL, why);
    if (status == S2_OK)
        compare_with(check, first);
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++)
        s2_free(first[grad]);
    return status;
}

static s2_status judge(s2_grad_check *check, s2_diag *why)
{
    S2_TRY(make(check, why));
    check->out->outcome = check_forward(check);
    S2_STAGE(check->out, s2_gradient_harness_run(check->gradients, NULL, why));
    if (!check->request->few_heads)
        S2_TRY(check_memories(check));
    S2_STAGE(check->out, judge_values(check));
    if (!check->request->few_heads && check->gradients->harness.kernel->deterministic)
        S2_STAGE(check->out, run_again(check, why));
    return S2_OK;
}

s2_status s2_gradient_numerics(s2_gradient_harness *gradients, const s2_validate_request *request,
                               s2_validation *out, s2_diag *why)
{
    s2_grad_check check = {.gradients = gradients, .out = out, .request = request};
    const s2_status status = judge(&check, why);
    for (int32_t input = 0; input < N_INPUTS; input++)
        s2_free(check.host[input]);
    s2_validation_add_figure(out, "rows_dq", (double)check.n_judged[S2_GRADIENT_DQ]);
    s2_validation_add_figure(out, "rows_dk_dv", (double)check.n_judged[S2_GRADIENT_DK]);
    s2_validation_add_figure(out, "from_definition", check.gradient.given ? 0.0 : 1.0);
    s2_gradient_close(&check.gradient);
    return status;
}
