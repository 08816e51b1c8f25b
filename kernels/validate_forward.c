/* The forward phase: touch, numerics, needles on a rig; also decoding through a kernel that takes it as
 * forward. */
#include <math.h>

#include "base/alloc.h"
#include "kernels/probe.h"
#include "kernels/trial.h"

/* Work of a plan in key blocks and heads. */
static double cost(const s2_plan *plan)
{
    double n = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        n += (double)plan->items[item].n_blk * plan->items[item].n_heads;
    return n;
}

static s2_outcome judge(s2_rig *rig, const s2_validate_request *request, s2_validation *out)
{
    double ms = 0.0;
    out->counts = rig->whole.counts;
    out->n_items = rig->whole.n_items;
    out->n_items_run = rig->some.n_items;
    s2_outcome outcome = s2_probe_touch(rig, request, out);
    if (outcome == S2_OUTCOME_OK)
        outcome = s2_probe_numerics(rig, request, out);
    if (outcome == S2_OUTCOME_OK && request->needles)
        outcome = s2_probe_needles(rig->device, request, out);
    if (outcome == S2_OUTCOME_OK && request->n_timed > 0)
        outcome = s2_rig_run_rows(rig, NULL, 0, &ms, out->reason, sizeof out->reason);
    out->expected_ms = ms * cost(&rig->whole) / fmax(1.0, cost(&rig->some));
    return outcome;
}

static s2_outcome judge_forward(s2_device *device, const s2_validate_request *request, s2_validation *out)
{
    s2_rig rig = {0};
    s2_outcome outcome = s2_rig_open(&rig, device, request, out->reason, sizeof out->reason);
    out->kernel = rig.kernel != NULL ? rig.kernel->name : "";
    if (outcome == S2_OUTCOME_OK)
        outcome = judge(&rig, request, out);
    s2_rig_close(&rig);
    return outcome;
}

/* ------------------------------------------------------------------ one launch */

static s2_status launch(void *self, s2_diag *why)
{
    s2_rig *const rig = self;
    return rig->kernel->run(rig->device, &rig->problem, rig->state, why);
}

static void close(void *self)
{
    s2_rig_close(self);
    s2_free(self);
}

static s2_status fill(s2_rig *rig, const s2_validate_request *request)
{
    const s2_guarded *const buffers[] = {&rig->q, &rig->k, &rig->v};
    const int64_t bytes = s2_dtype_size(rig->problem.dtype);
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++)
        S2_TRY(rig->device->ops->fill_normal(rig->device, buffers[at]->base + S2_GUARD_BYTES,
                                             (int64_t)buffers[at]->n_bytes / bytes, rig->problem.dtype,
                                             request->seed * 16 + at, at == 0 ? request->spread : 1.0f));
    return S2_OK;
}

static s2_outcome open_forward(s2_device *device, const s2_validate_request *request, s2_trial *out,
                               char *reason, size_t reason_cap)
{
    s2_validate_request whole = *request;
    whole.budget_flop = 0.0;
    s2_rig *const rig = s2_calloc(1, sizeof *rig);
    if (rig == NULL)
        return s2_rig_failed(S2_ENOMEM, &(s2_diag){0}, reason, reason_cap);
    s2_outcome outcome = s2_rig_open(rig, device, &whole, reason, reason_cap);
    if (outcome == S2_OUTCOME_OK) {
        const s2_status status = fill(rig, request);
        if (status != S2_OK)
            outcome = s2_rig_failed(status, &(s2_diag){0}, reason, reason_cap);
    }
    if (outcome != S2_OUTCOME_OK) {
        close(rig);
        return outcome;
    }
    const double pair_flop = 4.0 * rig->problem.head_dim;
    *out = (s2_trial){.self = rig,
                      .launch = launch,
                      .close = close,
                      .kernel = rig->kernel->name,
                      .flop_useful = pair_flop * (double)rig->whole.counts.pairs,
                      .flop_executed = pair_flop * (double)rig->whole.counts.pairs_executed,
                      .plan = &rig->whole};
    return S2_OUTCOME_OK;
}

const s2_trial_phase s2_trial_forward = {.judge = judge_forward, .open = open_forward};
