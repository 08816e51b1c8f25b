/* The forward phase: touch, numerics, needles on a harness; also decoding with a kernel that treats it as a
 * forward. */

#include "base/alloc.h"
#include "judge/probe.h"
#include "judge/workload.h"

static s2_status judge(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                       s2_diag *why)
{
    double ms = 0.0;
    out->counts = harness->whole.counts;
    out->n_items = harness->whole.n_items;
    out->n_items_run = harness->some.n_items;
    S2_TRY(s2_probe_touch(harness, request, out, why));
    S2_STAGE(out, s2_probe_numerics(harness, request, out, why));
    if (request->cases)
        S2_STAGE(out, s2_probe_batch(harness, request, out, why));
    if (request->needles)
        S2_STAGE(out, s2_probe_needles(harness->device, request, out, why));
    if (out->outcome == S2_OUTCOME_WRONG_PAIRS || out->outcome == S2_OUTCOME_WRONG_VALUES ||
        out->outcome == S2_OUTCOME_NAN)
        S2_TRY(s2_probe_explain(harness->device, request, out, why));
    if (request->n_timed > 0)
        S2_STAGE(out, s2_harness_run_rows(harness, NULL, 0, &ms, why));
    out->expected_ms = ms * s2_harness_whole_over_some(harness);
    return S2_OK;
}

static s2_status judge_forward(s2_device *device, const s2_validate_request *request, s2_validation *out,
                               s2_diag *why)
{
    s2_harness harness = {0};
    s2_status status = s2_harness_open(&harness, device, request, why);
    out->kernel = harness.kernel != NULL ? harness.kernel->traits->name : "";
    if (status == S2_OK)
        status = judge(&harness, request, out, why);
    s2_harness_close(&harness);
    return status;
}

static s2_status values_forward(s2_device *device, const s2_validate_request *request, s2_validation *out,
                                s2_diag *why)
{
    s2_harness harness = {0};
    s2_status status = s2_harness_open(&harness, device, request, why);
    if (status == S2_OK)
        status = s2_probe_values(&harness, request, out, why);
    s2_harness_close(&harness);
    return status;
}

/* ------------------------------------------------------------------ one launch */

static s2_status time_there(void *self, int32_t n, float *ms, int32_t *n_made, s2_diag *why)
{
    s2_harness *const harness = self;
    return harness->kernel->elsewhere->time(harness->device, &harness->problem, harness->state, n, ms, n_made,
                                            why);
}

static void close(void *self)
{
    s2_harness_close(self);
    s2_free(self);
}

static s2_status open_forward(s2_device *device, const s2_validate_request *request, s2_workload *out,
                              s2_diag *why)
{
    s2_validate_request whole = *request;
    whole.budget_flop = 0.0;
    s2_harness *const harness = s2_calloc(1, sizeof *harness);
    if (harness == NULL)
        return S2_ENOMEM;
    s2_status status = s2_harness_open(harness, device, &whole, why);
    if (status == S2_OK)
        status = s2_harness_fill(harness, request);
    if (status != S2_OK) {
        close(harness);
        return status;
    }
    const double pair_flop = 4.0 * harness->problem.head_dim;
    *out = (s2_workload){.self = harness,
                         .launch = s2_harness_launch,
                         .time = harness->kernel->elsewhere != NULL ? time_there : NULL,
                         .close = close,
                         .kernel = harness->kernel->traits->name,
                         .flop_useful = pair_flop * (double)harness->whole.counts.pairs,
                         .flop_executed = pair_flop * (double)harness->whole.counts.pairs_executed,
                         .plan = &harness->whole,
                         .problem = &harness->problem,
                         .state = harness->state};
    return S2_OK;
}

const s2_pass_judge s2_judge_forward = {
    .judge = judge_forward, .values = values_forward, .open = open_forward};
