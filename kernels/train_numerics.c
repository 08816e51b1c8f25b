/*
 * Random data, the forward's own o and lse, gradients against fp64 (kernels/gradient.h). What may be wrong:
 * twice what rounding does to the plain evaluation, two units of the output, three of the rounded terms added
 * in quadrature, and fp32 sums over all terms (docs/numerics.md).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/float16.h"
#include "kernels/gradient.h"
#include "kernels/probe.h"
#include "kernels/train.h"
#include "kernels/trial.h"

enum { N_INPUTS = 6, LIMIT_KEYS_DRAWN = 64 };

typedef struct s2_grad_check {
    s2_train *train;
    s2_validation *out;
    const s2_validate_request *request;
    uint8_t *host[N_INPUTS]; /* q, k, v, o, dO, lse */
    s2_attn_problem problem; /* with host addresses */
    s2_gradient gradient;
    int64_t n_judged[S2_N_TRAIN_GRADS];
} s2_grad_check;

/* ------------------------------------------------------------------ data */

/* The heads that are looked at lie each in one piece; the rest of a large problem is not copied. */
static s2_status fetch_heads(s2_grad_check *at, int32_t input, const s2_tensor *tensor, bool is_q)
{
    const s2_rig *const rig = &at->train->rig;
    const s2_attn_problem *const p = &rig->problem;
    const int32_t group = is_q ? p->n_heads / p->n_kv_heads : 1, first = at->train->kv_head * group;
    const int32_t *const begin_tok = is_q ? p->q_begin_tok : p->k_begin_tok;
    const int64_t bytes = s2_dtype_size(p->dtype);
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t head = first; head < first + group; head++) {
            const int64_t n_tok = is_q ? rig->some.seqs[seq].q_tok : rig->some.seqs[seq].k_tok;
            const int64_t begin = s2_tensor_at(tensor, begin_tok, seq, 0, head) * bytes;
            const int64_t end = (s2_tensor_at(tensor, begin_tok, seq, n_tok - 1, head) + p->head_dim) * bytes;
            S2_TRY(rig->device->ops->copy_out(rig->device, at->host[input] + begin,
                                              (const uint8_t *)tensor->data + begin, (size_t)(end - begin)));
        }
    return S2_OK;
}

static s2_status fetch(s2_grad_check *at, int32_t input)
{
    s2_rig *const rig = &at->train->rig;
    const s2_attn_problem *const p = &rig->problem;
    const s2_guarded *const buffers[N_INPUTS] = {&rig->q, &rig->k, &rig->v, &rig->o, &rig->d_o, &rig->lse};
    const s2_tensor *const tensors[N_INPUTS] = {&p->q, &p->k, &p->v, &p->o, &p->d_o, NULL};
    if (at->host[input] == NULL)
        at->host[input] = s2_malloc(buffers[input]->n_bytes + 1);
    if (at->host[input] == NULL)
        return S2_ENOMEM;
    if (tensors[input] != NULL && at->train->kv_head >= 0)
        return fetch_heads(at, input, tensors[input], input != 1 && input != 2);
    return rig->device->ops->copy_out(rig->device, at->host[input], buffers[input]->base + S2_GUARD_BYTES,
                                      buffers[input]->n_bytes);
}

static s2_status send(s2_grad_check *at, int32_t input, const s2_guarded *buffer)
{
    s2_device *const device = at->train->rig.device;
    return device->ops->copy_in(device, buffer->base + S2_GUARD_BYTES, at->host[input], buffer->n_bytes);
}

/* Inputs with the keys that nobody reads poisoned, then o and lse; and all of it on the host. */
static s2_status make(s2_grad_check *at, s2_diag *why)
{
    s2_rig *const rig = &at->train->rig;
    S2_TRY(s2_train_fill(at->train, at->request));
    for (int32_t input = 0; input < 3; input++)
        S2_TRY(fetch(at, input));
    if (at->train->kv_head < 0) {
        S2_TRY(s2_probe_poison(rig, at->host[1], at->host[2]));
        S2_TRY(send(at, 1, &rig->k));
        S2_TRY(send(at, 2, &rig->v));
    }
    S2_TRY(s2_train_forward(at->train, why));
    for (int32_t input = 3; input < N_INPUTS; input++)
        S2_TRY(fetch(at, input));
    at->problem = rig->problem;
    at->problem.q.data = at->host[0];
    at->problem.k.data = at->host[1];
    at->problem.v.data = at->host[2];
    at->problem.o.data = at->host[3];
    at->problem.d_o.data = at->host[4];
    at->problem.lse.data = (float *)(void *)at->host[5];
    return S2_OK;
}

/* ------------------------------------------------------------------ memory */

static const void *grad_data(const s2_train *train, s2_train_grad grad)
{
    return train->host[grad] + S2_GUARD_BYTES;
}

/* The elements of a gradient that must be written: mark[element]. */
static void mark_owned(const s2_train *train, s2_train_grad grad, uint8_t *mark)
{
    const s2_attn_problem *const p = &train->rig.problem;
    const s2_plan *const plan = &train->rig.some;
    const size_t n = (size_t)p->head_dim;
    for (int32_t at = 0; grad == S2_TRAIN_DQ && at < plan->n_items; at++) {
        const s2_plan_item *const item = &plan->items[at];
        int64_t end;
        for (int64_t q_tok = s2_rig_item_queries(plan, item, &end); q_tok < end; q_tok++)
            for (int32_t head = item->head; head < item->head + item->n_heads; head++)
                memset(mark + s2_tensor_at(&p->d_q, p->q_begin_tok, item->seq, q_tok, head), 1, n);
    }
    for (int32_t seq = 0; grad != S2_TRAIN_DQ && seq < p->n_seqs; seq++)
        for (int32_t k_tok = 0; k_tok < plan->seqs[seq].k_tok; k_tok++)
            for (int32_t g = 0; g < p->n_kv_heads; g++)
                memset(mark + s2_tensor_at(s2_train_tensor(train, grad), p->k_begin_tok, seq, k_tok, g), 1,
                       n);
}

/* Strays first, then what is not a number. */
static s2_outcome check_memory(s2_grad_check *at, s2_train_grad grad, const uint8_t *mark)
{
    const s2_dtype dtype = at->train->rig.problem.dtype;
    const size_t bytes = (size_t)s2_dtype_size(dtype), data = s2_train_buffer(at->train, grad)->n_bytes;
    const uint8_t *const host = at->train->host[grad];
    for (size_t byte = 0; byte < data + 2 * S2_GUARD_BYTES; byte++) {
        const bool guard = byte < S2_GUARD_BYTES || byte >= S2_GUARD_BYTES + data;
        if (host[byte] == 0xff || (!guard && mark[(byte - S2_GUARD_BYTES) / bytes] != 0))
            continue;
        snprintf(
            at->out->reason, sizeof at->out->reason,
            "byte %lld of %s was written, which belongs to no row of the plan (the buffer has %lld bytes)",
            (long long)byte - S2_GUARD_BYTES, s2_train_word(grad), (long long)data);
        return S2_OUTCOME_OUT_OF_BOUNDS;
    }
    for (size_t element = 0; element < data / bytes; element++)
        if (mark[element] != 0 && !isfinite(s2_load(grad_data(at->train, grad), dtype, (int64_t)element))) {
            snprintf(at->out->reason, sizeof at->out->reason, "layer %d: element %lld of %s is not a number",
                     at->train->rig.some.layer, (long long)element, s2_train_word(grad));
            return S2_OUTCOME_NAN;
        }
    return S2_OUTCOME_OK;
}

static s2_outcome check_memories(s2_grad_check *at)
{
    const size_t bytes = (size_t)s2_dtype_size(at->train->rig.problem.dtype);
    s2_outcome outcome = S2_OUTCOME_OK;
    for (s2_train_grad grad = S2_TRAIN_DQ; grad < S2_N_TRAIN_GRADS && outcome == S2_OUTCOME_OK; grad++) {
        uint8_t *const mark = s2_calloc(s2_train_buffer(at->train, grad)->n_bytes / bytes + 1, 1);
        if (mark == NULL)
            return s2_rig_failed(S2_ENOMEM, &(s2_diag){0}, at->out->reason, sizeof at->out->reason);
        mark_owned(at->train, grad, mark);
        outcome = check_memory(at, grad, mark);
        s2_free(mark);
    }
    return outcome;
}

/* ------------------------------------------------------------------ values */

static double peak_of(const double *x, int32_t n)
{
    double peak = 0.0;
    for (int32_t d = 0; d < n; d++)
        peak = fmax(peak, fabs(x[d]));
    return peak;
}

static double tolerance_of(const s2_grad_check *at, const s2_gradient_out *want)
{
    static const double unit[S2_N_DTYPES] = {[S2_F32] = 0x1p-24, [S2_BF16] = 0x1p-9, [S2_F16] = 0x1p-12};
    const int32_t dim = at->problem.head_dim;
    const double u = unit[at->problem.dtype];
    double plain = 0.0;
    for (int32_t d = 0; d < dim; d++)
        plain = fmax(plain, fabs(want->plain[d] - want->exact[d]));
    /* weights below the smallest normal number may be flushed to zero */
    const double flushed = 0x1p-126 * 64.0;
    return flushed + 2.0 * plain + 2.0 * u * peak_of(want->exact, dim) + 3.0 * u * peak_of(want->noise, dim) +
           16.0 * 0x1p-24 * (1.0 + at->gradient.score_peak) * peak_of(want->size, dim);
}

static s2_outcome judge_vector(s2_grad_check *at, s2_train_grad grad, const s2_gradient_out *want,
                               int32_t seq, int64_t tok, int32_t head)
{
    const s2_attn_problem *const p = &at->problem;
    const int32_t *const begin = grad == S2_TRAIN_DQ ? p->q_begin_tok : p->k_begin_tok;
    const int64_t from = s2_tensor_at(s2_train_tensor(at->train, grad), begin, seq, tok, head);
    double err = 0.0;
    for (int32_t d = 0; d < p->head_dim; d++)
        err =
            fmax(err, fabs((double)s2_load(grad_data(at->train, grad), p->dtype, from + d) - want->exact[d]));
    const double tol = tolerance_of(at, want);
    if (!(err < at->out->max_err)) {
        at->out->max_err = err;
        at->out->tol = tol;
    }
    at->out->rows++;
    at->n_judged[grad]++;
    if (err <= tol)
        return S2_OUTCOME_OK;
    snprintf(at->out->reason, sizeof at->out->reason,
             "layer %d, %s %d, sequence %d, token %lld: %s is off by %.3g where %.3g is allowed",
             at->train->rig.some.layer, grad == S2_TRAIN_DQ ? "head" : "KV head", head, seq, (long long)tok,
             s2_train_word(grad), err, tol);
    return S2_OUTCOME_WRONG_VALUES;
}

static s2_outcome judge_key(s2_grad_check *at, int32_t seq, int32_t k_tok, int32_t kv_head)
{
    const s2_status status = s2_gradient_of_key(&at->gradient, seq, k_tok, kv_head);
    if (status != S2_OK)
        return s2_rig_failed(status, &(s2_diag){0}, at->out->reason, sizeof at->out->reason);
    const s2_outcome outcome = judge_vector(at, S2_TRAIN_DK, &at->gradient.out[0], seq, k_tok, kv_head);
    return outcome == S2_OUTCOME_OK ? judge_vector(at, S2_TRAIN_DV, &at->gradient.out[1], seq, k_tok, kv_head)
                                    : outcome;
}

/* Every key while the pairs fit the budget; else the ends, and keys drawn. */
static s2_outcome judge_keys(s2_grad_check *at)
{
    const s2_plan *const plan = &at->train->rig.some;
    s2_rng rng = {at->request->seed ^ UINT64_C(0x6b657973)};
    s2_outcome outcome = S2_OUTCOME_OK;
    for (int32_t seq = 0; seq < plan->n_seqs && outcome == S2_OUTCOME_OK; seq++) {
        const int32_t k_tok = plan->seqs[seq].k_tok, n_kv = plan->pattern->n_kv_heads;
        const int32_t first = at->train->kv_head < 0 ? 0 : at->train->kv_head;
        const double pairs = (double)k_tok * plan->seqs[seq].q_tok * at->problem.n_heads;
        const double share = (double)at->request->budget_pairs / 8.0 / pairs / plan->n_seqs;
        const int64_t all = (int64_t)k_tok * (at->train->kv_head < 0 ? n_kv : 1);
        int64_t wanted = share >= 1.0 ? all : (int64_t)(share * (double)all);
        wanted = wanted < 8 && wanted < all ? (all < 8 ? all : 8) : wanted;
        if (share < 1.0 && wanted > LIMIT_KEYS_DRAWN && pairs > 1e9)
            wanted = LIMIT_KEYS_DRAWN;
        for (int64_t n = 0; n < wanted && outcome == S2_OUTCOME_OK; n++) {
            int64_t one = n;
            if (wanted < all && n == 1)
                one = all - 1;
            else if (wanted < all && n > 1)
                one = (int64_t)s2_rng_below(&rng, (uint64_t)all);
            outcome = judge_key(at, seq, (int32_t)(one % k_tok), first + (int32_t)(one / k_tok));
            if (at->request->progress != NULL && n % 16 == 0)
                at->request->progress(at->request->user, "numerics", (int32_t)n, (int32_t)wanted);
        }
    }
    return outcome;
}

static s2_outcome judge_queries(s2_grad_check *at)
{
    s2_probe_rows rows = {0};
    const int64_t budget = at->request->budget_pairs / (4 + at->problem.head_dim / 4);
    s2_status status =
        s2_probe_rows_choose(&at->train->rig, budget, at->request->seed, at->request->few_heads, &rows);
    s2_outcome outcome = S2_OUTCOME_OK;
    for (int64_t n = 0; n < rows.n && status == S2_OK && outcome == S2_OUTCOME_OK; n++) {
        const s2_probe_row row = rows.row[n];
        if (!s2_train_looks_at(at->train, s2_pattern_kv_head(at->train->rig.some.pattern, row.head)))
            continue;
        status = s2_gradient_of_query(&at->gradient, row.seq, row.q_tok, row.head);
        if (status == S2_OK)
            outcome = judge_vector(at, S2_TRAIN_DQ, &at->gradient.out[0], row.seq, row.q_tok, row.head);
    }
    s2_free(rows.row);
    return status == S2_OK ? outcome
                           : s2_rig_failed(status, &(s2_diag){0}, at->out->reason, sizeof at->out->reason);
}

/* From q, k and v alone where all rows can be evaluated; else from the o and lse that the kernel was given.
 */
static bool too_long(const s2_grad_check *at)
{
    const s2_plan *const plan = &at->train->rig.some;
    double pairs = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        pairs += (double)plan->options.tile_tok * plan->items[item].n_heads *
                 plan->seqs[plan->items[item].seq].k_tok;
    return pairs > (double)at->request->budget_pairs;
}

static s2_outcome judge_values(s2_grad_check *at)
{
    const s2_status status =
        s2_gradient_open(&at->gradient, &at->problem, at->train->rig.kernel->tolerance, too_long(at));
    if (status != S2_OK)
        return s2_rig_failed(status, &(s2_diag){0}, at->out->reason, sizeof at->out->reason);
    const s2_outcome outcome = judge_queries(at);
    return outcome == S2_OUTCOME_OK ? judge_keys(at) : outcome;
}

/* ------------------------------------------------------------------ twice */

static s2_outcome run_again(s2_grad_check *at)
{
    s2_outcome outcome = S2_OUTCOME_OK;
    uint8_t *first[S2_N_TRAIN_GRADS] = {0};
    size_t n_bytes[S2_N_TRAIN_GRADS];
    for (s2_train_grad grad = S2_TRAIN_DQ; grad < S2_N_TRAIN_GRADS && outcome == S2_OUTCOME_OK; grad++) {
        n_bytes[grad] = s2_train_buffer(at->train, grad)->n_bytes;
        first[grad] = s2_malloc(n_bytes[grad] + 1);
        if (first[grad] == NULL)
            outcome = s2_rig_failed(S2_ENOMEM, &(s2_diag){0}, at->out->reason, sizeof at->out->reason);
        else
            memcpy(first[grad], grad_data(at->train, grad), n_bytes[grad]);
    }
    if (outcome == S2_OUTCOME_OK)
        outcome = s2_train_run(at->train, NULL, at->out->reason, sizeof at->out->reason);
    for (s2_train_grad grad = S2_TRAIN_DQ; grad < S2_N_TRAIN_GRADS && outcome == S2_OUTCOME_OK; grad++)
        if (memcmp(first[grad], grad_data(at->train, grad), n_bytes[grad]) != 0) {
            snprintf(at->out->reason, sizeof at->out->reason,
                     "layer %d: two runs on the same data differ in bits of %s", at->train->rig.some.layer,
                     s2_train_word(grad));
            outcome = S2_OUTCOME_WRONG_VALUES;
        }
    for (int32_t grad = 0; grad < S2_N_TRAIN_GRADS; grad++)
        s2_free(first[grad]);
    return outcome;
}

static s2_outcome judge(s2_grad_check *at)
{
    s2_outcome outcome = s2_train_run(at->train, NULL, at->out->reason, sizeof at->out->reason);
    if (outcome == S2_OUTCOME_OK && !at->request->few_heads)
        outcome = check_memories(at);
    if (outcome == S2_OUTCOME_OK)
        outcome = judge_values(at);
    if (outcome == S2_OUTCOME_OK && !at->request->few_heads && at->train->rig.kernel->deterministic)
        outcome = run_again(at);
    return outcome;
}

s2_outcome s2_train_numerics(s2_train *train, const s2_validate_request *request, s2_validation *out)
{
    s2_grad_check at = {.train = train, .out = out, .request = request};
    s2_diag why = {0};
    const s2_status status = make(&at, &why);
    const s2_outcome outcome =
        status == S2_OK ? judge(&at) : s2_rig_failed(status, &why, out->reason, sizeof out->reason);
    for (int32_t input = 0; input < N_INPUTS; input++)
        s2_free(at.host[input]);
    s2_validation_add_figure(out, "rows_dq", (double)at.n_judged[S2_TRAIN_DQ]);
    s2_validation_add_figure(out, "rows_dk_dv", (double)at.n_judged[S2_TRAIN_DK]);
    s2_validation_add_figure(out, "from_definition", at.gradient.given ? 0.0 : 1.0);
    s2_gradient_close(&at.gradient);
    return outcome;
}
