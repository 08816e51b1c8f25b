/*
 * The same sequence alone and in the middle of a batch: is it right there, are the others, and are its bits the same?
 * A kernel that splits its work by what else is in the batch gives different bits: within rounding, yet a served
 * answer then depends on who else is asking.
 */
#include "judge/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "judge/cases.h"

enum { N_BESIDE = 3, MIDDLE = 1, MOST_BYTES = 1 << 28 };

typedef struct s2_beside {
    s2_harness alone;
    s2_harness among;
    uint8_t *room; /* for a sequence's part of an input */
} s2_beside;

/* Three sequences must fit, and run as a whole. */
static bool applies(const s2_harness *harness, const s2_validate_request *request)
{
    return !request->few_heads && harness->some.n_items == harness->whole.n_items && request->n_seqs == 1 &&
           harness->q.n_bytes + harness->k.n_bytes + harness->v.n_bytes <= MOST_BYTES / N_BESIDE;
}

/*
 * Bits are compared of a sequence that is one piece of memory. Our own CPU kernels divide their work by the number of
 * cores, and are not asked.
 */
static bool is_comparable(const s2_harness *harness, const s2_validate_request *request)
{
    const bool promises = harness->kernel->elsewhere != NULL || harness->device->kind == S2_DEVICE_GPU;
    return promises && harness->kernel->deterministic && !request->head_major && !request->padded;
}

/* Copy the sequence in the middle of the batch to the one alone. */
static s2_status copy_middle(s2_beside *both, const s2_guarded *from, const s2_guarded *to)
{
    s2_device *const device = both->alone.device;
    S2_TRY(device->ops->copy_out(device, both->room, from->base + S2_GUARD_BYTES + MIDDLE * to->n_bytes,
                                 to->n_bytes));
    return device->ops->copy_in(device, to->base + S2_GUARD_BYTES, both->room, to->n_bytes);
}

/* The sequence alone has what the batch was judged on. */
static s2_status fill(s2_beside *both, const s2_validate_request *request)
{
    S2_TRY(s2_harness_draw_sinks(&both->alone, request->seed));
    S2_TRY(s2_harness_scale_queries(&both->alone, both->among.q_unit, true));
    S2_TRY(copy_middle(both, &both->among.q, &both->alone.q));
    S2_TRY(copy_middle(both, &both->among.k, &both->alone.k));
    return copy_middle(both, &both->among.v, &both->alone.v);
}

/* The first element that differs, or -1. */
static int64_t first_difference(const void *a, const void *b, size_t n_bytes, size_t element)
{
    for (size_t at = 0; at < n_bytes; at += element)
        if (memcmp((const uint8_t *)a + at, (const uint8_t *)b + at, element) != 0)
            return (int64_t)(at / element);
    return -1;
}

static void compare(const s2_beside *both, s2_validation *out)
{
    const s2_attn_problem *const p = &both->alone.problem;
    const size_t o_bytes = both->alone.o.n_bytes, lse_bytes = both->alone.lse.n_bytes;
    const uint8_t *const o = (const uint8_t *)s2_harness_o(&both->among) + MIDDLE * o_bytes;
    const uint8_t *const lse = (const uint8_t *)s2_harness_lse(&both->among) + MIDDLE * lse_bytes;
    int64_t first =
        first_difference(s2_harness_o(&both->alone), o, o_bytes, (size_t)s2_dtype_bytes(p->dtype));
    out->batch = first < 0 ? S2_BATCH_SAME : S2_BATCH_DIFFERS;
    out->batch_q_tok = first / (p->n_heads * p->head_dim);
    out->batch_head = (int32_t)(first / p->head_dim % p->n_heads);
    if (first >= 0 || both->alone.kernel->no_lse)
        return;
    first = first_difference(s2_harness_lse(&both->alone), lse, lse_bytes, sizeof(float));
    out->batch = first < 0 ? S2_BATCH_SAME : S2_BATCH_DIFFERS;
    out->batch_q_tok = first % p->lse.head;
    out->batch_head = (int32_t)(first / p->lse.head);
}

/* One window of keys is enough where the LSE counts all keys of a row. */
static s2_status judge_all(s2_beside *both, const s2_validate_request *among, s2_validation *out,
                           s2_diag *why)
{
    s2_validate_request few = *among;
    few.budget_pairs *= N_BESIDE;
    few.max_windows = both->among.kernel->no_lse ? 2 : 1;
    S2_TRY(s2_probe_touch(&both->among, &few, out, why));
    S2_STAGE(out, s2_probe_values(&both->among, among, out, why));
    return S2_OK;
}

static s2_status compare_bits(s2_beside *both, const s2_validate_request *request, s2_validation *out,
                              s2_diag *why)
{
    S2_TRY(s2_harness_open(&both->alone, both->alone.device, request, why));
    both->room = s2_malloc(s2_max_size(both->alone.q.n_bytes, both->alone.k.n_bytes));
    if (both->room == NULL)
        return S2_ENOMEM;
    S2_TRY(fill(both, request));
    S2_TRY(s2_harness_run(&both->alone, NULL, why));
    compare(both, out);
    return S2_OK;
}

/* What is wrong in the batch alone is in *one. */
static s2_status judge(s2_beside *both, const s2_validate_request *request, s2_validation *one,
                       s2_validation *out, s2_diag *why)
{
    const s2_plan_seq seqs[N_BESIDE] = {request->seqs[0], request->seqs[0], request->seqs[0]};
    const int64_t pairs =
        (int64_t)request->pattern->n_heads * request->seqs[0].q_tok * request->seqs[0].k_tok;
    s2_validate_request among = *request;
    among.seqs = seqs;
    among.n_seqs = N_BESIDE;
    among.budget_pairs = s2_min_i64(request->budget_pairs / N_BESIDE, pairs);
    S2_TRY(s2_harness_open(&both->among, both->alone.device, &among, why));
    S2_TRY(judge_all(both, &among, one, why));
    if (is_comparable(&both->among, request))
        S2_STAGE(one, compare_bits(both, request, out, why));
    return S2_OK;
}

s2_status s2_probe_batch(const s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why)
{
    s2_beside both = {.alone = {.device = harness->device}, .among = {.device = harness->device}};
    s2_validation one = {.kernel = "", .dense_kernel = "", .ours_kernel = ""};
    if (!applies(harness, request))
        return S2_OK;
    const s2_status status = judge(&both, request, &one, out, why);
    const bool promised = harness->kernel->elsewhere != NULL && harness->kernel->elsewhere->batch_invariant;
    s2_harness_close(&both.alone);
    s2_harness_close(&both.among);
    s2_free(both.room);
    S2_TRY(s2_case_end(S2_CASE_BATCH, status, why, &one, out));
    if (out->outcome == S2_OUTCOME_OK && out->batch == S2_BATCH_DIFFERS && promised) {
        out->outcome = S2_OUTCOME_NOT_REPEATABLE;
        snprintf(
            out->reason, sizeof out->reason,
            "layer %d: a sequence gives different bits as one of %d than alone, first at query %lld, head %d",
            request->layer, N_BESIDE, (long long)out->batch_q_tok, out->batch_head);
    }
    return S2_OK;
}
