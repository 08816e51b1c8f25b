/* The backward pass: touch and numerics of the gradients, and one backward to be timed. */

#include <stdio.h>

#include "base/alloc.h"
#include "judge/gradient_harness.h"
#include "judge/workload.h"

/*
 * The pairs that gradients bring are read by an o and lse that no forward gives. A kernel that runs a forward of
 * its own never sees them, and what it answers is then no fault.
 */
static s2_status touch(s2_gradient_harness *gradients, const s2_validate_request *request, s2_validation *out,
                       s2_diag *why)
{
    const s2_kernel_elsewhere *const there = gradients->harness.kernel->elsewhere;
    if (there == NULL || !there->recomputes) {
        S2_TRY(s2_gradient_touch(gradients, request, out, why));
        return out->outcome == S2_OUTCOME_WRONG_PAIRS ? s2_gradient_explain(gradients, out, why) : S2_OK;
    }
    snprintf(out->left_out, sizeof out->left_out,
             "no pairs of gradients were read: this kernel runs a forward of its own, so they were judged by "
             "their values alone");
    return S2_OK;
}

static s2_status judge(s2_gradient_harness *gradients, const s2_validate_request *request, s2_validation *out,
                       s2_diag *why)
{
    double ms = 0.0;
    const s2_harness *const harness = &gradients->harness;
    out->counts = harness->whole.counts;
    out->n_items = harness->whole.n_items;
    out->n_items_run = harness->some.n_items;
    S2_TRY(touch(gradients, request, out, why));
    S2_STAGE(out, s2_gradient_numerics(gradients, request, out, why));
    if (request->n_timed > 0)
        S2_STAGE(out, s2_gradient_harness_run(gradients, &ms, why));
    out->expected_ms = ms * s2_harness_whole_over_some(harness);
    return S2_OK;
}

static s2_status judge_train(s2_device *device, const s2_validate_request *request, s2_validation *out,
                             s2_diag *why)
{
    s2_gradient_harness gradients = {0};
    s2_status status = s2_gradient_harness_open(&gradients, device, request, why);
    out->kernel = gradients.harness.kernel != NULL ? gradients.harness.kernel->traits->name : "";
    if (status == S2_OK)
        status = judge(&gradients, request, out, why);
    s2_gradient_harness_close(&gradients);
    return status;
}

static s2_status values_train(s2_device *device, const s2_validate_request *request, s2_validation *out,
                              s2_diag *why)
{
    s2_gradient_harness gradients = {0};
    s2_status status = s2_gradient_harness_open(&gradients, device, request, why);
    if (status == S2_OK)
        status = s2_gradient_numerics(&gradients, request, out, why);
    s2_gradient_harness_close(&gradients);
    return status;
}

/* ------------------------------------------------------------------ one launch */

static s2_status launch(void *self, s2_diag *why)
{
    return s2_harness_launch(&((s2_gradient_harness *)self)->harness, why);
}

static s2_status time_there(void *self, int32_t n, float *ms, int32_t *n_made, s2_diag *why)
{
    s2_harness *const harness = &((s2_gradient_harness *)self)->harness;
    return harness->kernel->elsewhere->time(harness->device, &harness->problem, harness->state, n, ms, n_made,
                                            why);
}

static void close(void *self)
{
    s2_gradient_harness_close(self);
    s2_free(self);
}

static s2_status make_ready(s2_gradient_harness *gradients, const s2_validate_request *request, s2_diag *why)
{
    S2_TRY(s2_harness_fill(&gradients->harness, request));
    return s2_gradient_harness_forward(gradients, why);
}

static s2_status open_train(s2_device *device, const s2_validate_request *request, s2_workload *out,
                            s2_diag *why)
{
    s2_validate_request whole = *request;
    whole.budget_flop = 0.0;
    s2_gradient_harness *const gradients = s2_calloc(1, sizeof *gradients);
    if (gradients == NULL)
        return S2_ENOMEM;
    s2_status status = s2_gradient_harness_open(gradients, device, &whole, why);
    if (status == S2_OK)
        status = make_ready(gradients, request, why);
    if (status != S2_OK) {
        close(gradients);
        return status;
    }
    /* five products; the forward has two */
    const double pair_flop = 10.0 * gradients->harness.problem.head_dim;
    *out = (s2_workload){.self = gradients,
                         .launch = launch,
                         .time = gradients->harness.kernel->elsewhere != NULL ? time_there : NULL,
                         .close = close,
                         .kernel = gradients->harness.kernel->traits->name,
                         .flop_useful = pair_flop * (double)gradients->harness.whole.counts.pairs,
                         .flop_executed = pair_flop * (double)gradients->harness.whole.counts.pairs_executed,
                         .plan = &gradients->harness.whole};
    return S2_OK;
}

const s2_pass_judge s2_judge_backward = {.judge = judge_train, .values = values_train, .open = open_train};
