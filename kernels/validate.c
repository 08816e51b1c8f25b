#include "kernels/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/probe.h"

const char *s2_outcome_word(s2_outcome outcome)
{
    static const char *const words[S2_N_OUTCOMES] = {
#define S2_OUTCOME_WORD(name, word) [name] = word,
        S2_OUTCOME_TABLE(S2_OUTCOME_WORD)
#undef S2_OUTCOME_WORD
    };
    return words[outcome];
}

s2_validate_request s2_validate_request_init(const s2_device *device, const s2_pattern *pattern,
                                             const s2_plan_seq *seqs, int32_t n_seqs)
{
    const bool gpu = device->kind == S2_DEVICE_GPU;
    return (s2_validate_request){.pattern = pattern,
                                 .kernel_phase = S2_FORWARD,
                                 .seqs = seqs,
                                 .n_seqs = n_seqs,
                                 .dtype = S2_BF16,
                                 .seed = 1,
                                 .spread = 1.0f,
                                 .budget_flop = gpu ? 0.0 : 8e8 * device->n_units,
                                 .budget_pairs = gpu ? 100000000 : 40000000,
                                 .needles = true,
                                 .n_timed = gpu ? 20 : 3,
                                 .time_limit_ms = gpu ? 20000.0 : 1500.0};
}

/* ------------------------------------------------------------------ time */

static int compare_ms(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return a < b ? -1 : a > b;
}

static void summarise(s2_validation *out)
{
    float sorted[S2_LIMIT_SAMPLES];
    const int32_t n = out->n_samples;
    memcpy(sorted, out->sample_ms, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ms);
    out->min_ms = (double)sorted[0];
    out->median_ms = ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2.0;
    out->p95_ms = (double)sorted[(int32_t)ceil(0.95 * n) - 1];
}

static s2_status time_once(s2_rig *rig, double *ms, s2_diag *why)
{
    const s2_device_ops *const ops = rig->device->ops;
    S2_TRY(ops->time_begin(rig->device));
    S2_TRY(rig->kernel->run(rig->device, &rig->problem, rig->state, why));
    return ops->time_end(rig->device, ms);
}

static s2_status time_runs(s2_rig *rig, const s2_validate_request *request, s2_validation *out, s2_diag *why)
{
    const int32_t n_warm = rig->device->kind == S2_DEVICE_GPU ? 3 : 0;
    const int32_t wanted = request->n_timed < S2_LIMIT_SAMPLES ? request->n_timed : S2_LIMIT_SAMPLES;
    for (int32_t n = -n_warm; n < wanted; n++) {
        double ms = 0.0;
        S2_TRY(time_once(rig, &ms, why));
        if (n >= 0)
            out->sample_ms[out->n_samples++] = (float)ms;
    }
    if (rig->device->ops->clock_mhz != NULL)
        out->sm_mhz = rig->device->ops->clock_mhz(rig->device);
    return S2_OK;
}

static double cost(const s2_plan *plan)
{
    double n = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        n += plan->items[item].n_blk * plan->items[item].n_heads;
    return n;
}

s2_outcome s2_probe_time(s2_device *device, s2_rig *rig, const s2_validate_request *request,
                         s2_validation *out)
{
    double ms = 0.0;
    s2_diag why = {0};
    s2_rig all = {0};
    s2_rig *timed = rig;
    s2_status status = time_once(rig, &ms, &why);
    const double expected_ms = ms * cost(&rig->whole) / fmax(1.0, cost(&rig->some));
    s2_outcome outcome = S2_OUTCOME_OK;
    if (status == S2_OK && expected_ms > request->time_limit_ms)
        return S2_OUTCOME_OK;
    if (status == S2_OK && rig->some.n_items != rig->whole.n_items) {
        s2_validate_request whole = *request;
        whole.budget_flop = 0.0;
        outcome = s2_rig_open(&all, device, &whole, out->reason, sizeof out->reason);
        timed = &all;
    }
    if (request->progress != NULL)
        request->progress(request->user, "time", 0, 1);
    if (status == S2_OK && outcome == S2_OUTCOME_OK)
        status = time_runs(timed, request, out, &why);
    if (timed == &all)
        s2_rig_close(&all);
    if (status != S2_OK)
        outcome = s2_rig_failed(status, &why, out->reason, sizeof out->reason);
    if (out->n_samples > 0)
        summarise(out);
    return outcome;
}

/* ------------------------------------------------------------------ all stages */

static s2_outcome judge(s2_device *device, s2_rig *rig, const s2_validate_request *request,
                        s2_validation *out)
{
    s2_outcome outcome = s2_rig_open(rig, device, request, out->reason, sizeof out->reason);
    out->kernel = rig->kernel != NULL ? rig->kernel->name : "";
    if (outcome != S2_OUTCOME_OK)
        return outcome;
    out->counts = rig->whole.counts;
    out->n_items = rig->whole.n_items;
    out->n_items_run = rig->some.n_items;
    outcome = s2_probe_touch(rig, request, out);
    if (outcome == S2_OUTCOME_OK)
        outcome = s2_probe_numerics(rig, request, out);
    if (outcome == S2_OUTCOME_OK && request->needles)
        outcome = s2_probe_needles(device, request, out);
    if (outcome == S2_OUTCOME_OK && request->n_timed > 0)
        outcome = s2_probe_time(device, rig, request, out);
    return outcome;
}

s2_status s2_validate(s2_device *device, const s2_validate_request *request, s2_validation *out)
{
    if (request->n_seqs < 1 || !isfinite(request->spread) || !isfinite(request->scale))
        return S2_EINVAL;
    s2_validation made = {.kernel = ""};
    s2_rig rig = {0};
    made.outcome = judge(device, &rig, request, &made);
    s2_rig_close(&rig);
    *out = made;
    return S2_OK;
}
