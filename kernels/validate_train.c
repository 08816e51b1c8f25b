/* The train phase: touch and numerics of the gradients, and one backward to be timed. */
#include <math.h>

#include "base/alloc.h"
#include "kernels/train.h"
#include "kernels/trial.h"

/* Work of a plan in key blocks and heads. */
static double cost(const s2_plan *plan)
{
    double n = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        n += (double)plan->items[item].n_blk * plan->items[item].n_heads;
    return n;
}

static s2_outcome judge(s2_train *train, const s2_validate_request *request, s2_validation *out)
{
    double ms = 0.0;
    const s2_rig *const rig = &train->rig;
    out->counts = rig->whole.counts;
    out->n_items = rig->whole.n_items;
    out->n_items_run = rig->some.n_items;
    s2_outcome outcome = s2_train_touch(train, request, out);
    if (outcome == S2_OUTCOME_OK)
        outcome = s2_train_numerics(train, request, out);
    if (outcome == S2_OUTCOME_OK && request->n_timed > 0)
        outcome = s2_train_run(train, &ms, out->reason, sizeof out->reason);
    out->expected_ms = ms * cost(&rig->whole) / fmax(1.0, cost(&rig->some));
    return outcome;
}

static s2_outcome judge_train(s2_device *device, const s2_validate_request *request, s2_validation *out)
{
    s2_train train = {0};
    s2_outcome outcome = s2_train_open(&train, device, request, out->reason, sizeof out->reason);
    out->kernel = train.rig.kernel != NULL ? train.rig.kernel->name : "";
    if (outcome == S2_OUTCOME_OK)
        outcome = judge(&train, request, out);
    s2_train_close(&train);
    return outcome;
}

/* ------------------------------------------------------------------ one launch */

static s2_status launch(void *self, s2_diag *why)
{
    s2_rig *const rig = &((s2_train *)self)->rig;
    return rig->kernel->run(rig->device, &rig->problem, rig->state, why);
}

static void close(void *self)
{
    s2_train_close(self);
    s2_free(self);
}

static s2_status make_ready(s2_train *train, const s2_validate_request *request, s2_diag *why)
{
    S2_TRY(s2_train_fill(train, request));
    return s2_train_forward(train, why);
}

static s2_outcome open_train(s2_device *device, const s2_validate_request *request, s2_trial *out,
                             char *reason, size_t reason_cap)
{
    s2_validate_request whole = *request;
    s2_diag why = {0};
    whole.budget_flop = 0.0;
    s2_train *const train = s2_calloc(1, sizeof *train);
    if (train == NULL)
        return s2_rig_failed(S2_ENOMEM, &why, reason, reason_cap);
    s2_outcome outcome = s2_train_open(train, device, &whole, reason, reason_cap);
    if (outcome == S2_OUTCOME_OK) {
        const s2_status status = make_ready(train, request, &why);
        if (status != S2_OK)
            outcome = s2_rig_failed(status, &why, reason, reason_cap);
    }
    if (outcome != S2_OUTCOME_OK) {
        close(train);
        return outcome;
    }
    /* five products where the forward has two */
    const double pair_flop = 10.0 * train->rig.problem.head_dim;
    *out = (s2_trial){.self = train,
                      .launch = launch,
                      .close = close,
                      .kernel = train->rig.kernel->name,
                      .flop_useful = pair_flop * (double)train->rig.whole.counts.pairs,
                      .flop_executed = pair_flop * (double)train->rig.whole.counts.pairs_executed,
                      .plan = &train->rig.whole};
    return S2_OUTCOME_OK;
}

const s2_trial_phase s2_trial_train = {.judge = judge_train, .open = open_train};
