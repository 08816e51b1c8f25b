/*
 * Two protocols: warm, one launch after the other on the same data, trains of them where they are short; cold, single
 * launches between two events, the last-level cache evicted before each. The first launches are not counted.
 */
#include "judge/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "judge/train.h"

enum { N_WARM_UP = 3, DENSE_RUNS = 5 };
#define SAMPLE_US 2000.0

static int compare_ms(const void *left, const void *right)
{
    const float a = *(const float *)left, b = *(const float *)right;
    return a < b ? -1 : a > b;
}

static s2_times summarise(const float *samples, int32_t n, int64_t n_each)
{
    float sorted[S2_LIMIT_SAMPLES];
    if (n == 0)
        return (s2_times){0};
    memcpy(sorted, samples, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_ms);
    return (s2_times){.n = n,
                      .n_each = n_each,
                      .median_ms = ((double)sorted[(n - 1) / 2] + (double)sorted[n / 2]) / 2.0,
                      .min_ms = (double)sorted[0],
                      .max_ms = (double)sorted[n - 1],
                      .p95_ms = (double)sorted[(int32_t)ceil(0.95 * n) - 1]};
}

static s2_status time_once(s2_device *device, const s2_workload *workload, double *ms, s2_diag *why)
{
    S2_TRY(device->ops->time_begin(device));
    S2_TRY(workload->launch(workload->self, why));
    const s2_status status = device->ops->time_end(device, ms);
    return status == S2_OK ? S2_OK : device->ops->sync(device, why); /* sync says what failed */
}

static s2_status time_cold(s2_device *device, const s2_workload *workload, int32_t n, float *samples,
                           s2_diag *why)
{
    for (int32_t nth = 0; nth < n; nth++) {
        double ms = 0.0;
        S2_TRY(device->ops->flush_cache(device));
        S2_TRY(time_once(device, workload, &ms, why));
        samples[nth] = (float)ms;
    }
    return S2_OK;
}

/* Launches of a sample: one, or trains of short ones, so many that what the host takes to begin them does not count. */
static s2_status warm_up(s2_train *train, int64_t *n_each, s2_diag *why)
{
    double us = 0.0;
    *n_each = 1;
    if (train->device->kind != S2_DEVICE_GPU)
        return S2_OK;
    for (int32_t at = 0; at < N_WARM_UP; at++)
        S2_TRY(s2_train_time(train, 1, &us, why));
    s2_diag ignored = {0};
    if (s2_train_record(train, us, &ignored) != S2_OK || train->recording == NULL)
        return S2_OK; /* launch by launch */
    S2_TRY(s2_train_time(train, train->n_each, &us, why));
    *n_each = s2_round_up((int64_t)ceil(SAMPLE_US / fmax(us, 0.5)), train->n_each);
    return S2_OK;
}

static s2_status time_trains(s2_train *train, int32_t n, float *samples, int64_t *n_each, s2_diag *why)
{
    S2_TRY(warm_up(train, n_each, why));
    for (int32_t nth = 0; nth < n; nth++) {
        double us = 0.0;
        S2_TRY(s2_train_time(train, *n_each, &us, why));
        samples[nth] = (float)(us * 1e-3);
    }
    return S2_OK;
}

static s2_status time_warm(s2_device *device, const s2_workload *workload, int32_t n, float *samples,
                           s2_times *out, s2_diag *why)
{
    int32_t n_made = n;
    int64_t n_each = 1;
    s2_train train = s2_train_of(device, workload->launch, workload->self);
    const s2_status status = workload->time != NULL ? workload->time(workload->self, n, samples, &n_made, why)
                                                    : time_trains(&train, n, samples, &n_each, why);
    if (status == S2_OK)
        *out = summarise(samples, n_made, n_each);
    s2_train_close(&train);
    return status;
}

/* Read the sensors while one more launch, which is not timed, runs. */
static s2_status look_at_the_board(s2_device *device, const s2_workload *workload, s2_validation *out,
                                   s2_diag *why)
{
    if (device->ops->sense == NULL || workload->time != NULL)
        return S2_OK;
    S2_TRY(workload->launch(workload->self, why));
    out->sensors = device->ops->sense(device);
    return device->ops->sync(device, why);
}

static s2_status time_pattern(s2_device *device, const s2_workload *workload,
                              const s2_validate_request *request, s2_validation *out, s2_diag *why)
{
    float cold[S2_LIMIT_SAMPLES];
    const int32_t n = s2_min_i32(request->n_timed, S2_LIMIT_SAMPLES);
    S2_TRY(time_warm(device, workload, n, out->sample_ms, &out->warm, why));
    if (device->ops->clock_mhz != NULL && workload->time == NULL)
        out->sm_mhz = device->ops->clock_mhz(device);
    S2_TRY(look_at_the_board(device, workload, out, why));
    if (device->ops->flush_cache == NULL || workload->time != NULL)
        return S2_OK;
    S2_TRY(time_cold(device, workload, n, cold, why));
    out->cold = summarise(cold, n, 1);
    return S2_OK;
}

static s2_status time_dense(s2_device *device, const s2_workload *workload, s2_validation *out, s2_diag *why)
{
    float samples[DENSE_RUNS];
    const int32_t n = device->kind == S2_DEVICE_GPU || workload->time != NULL ? DENSE_RUNS : 1;
    S2_TRY(time_warm(device, workload, n, samples, &out->dense, why));
    out->dense_kernel = workload->kernel;
    return S2_OK;
}

/* Somebody else's kernel may know its own pattern only: what it computes on the dense one is looked at first. */
static bool is_dense(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *dense,
                     s2_validation *out)
{
    enum { WINDOWS = 6, PAIRS = 4000000 };
    s2_validate_request light = *dense;
    s2_validation verdict = {.lse_err = NAN};
    s2_diag why = {0};
    light.few_heads = true;
    light.max_windows = WINDOWS;
    light.budget_pairs = PAIRS;
    light.needles = false;
    light.n_timed = light.n_steps = 0;
    if (phase->judge(device, &light, &verdict, &why) != S2_OK)
        return false;
    if (verdict.outcome != S2_OUTCOME_OK)
        snprintf(out->dense_wrong, sizeof out->dense_wrong, "%s, %.200s", s2_outcome_word(verdict.outcome),
                 verdict.symptom[0] != '\0' ? verdict.symptom : verdict.reason);
    return verdict.outcome == S2_OUTCOME_OK;
}

/*
 * Whatever keeps the dense pattern from being timed leaves a gap, not a failure. If the judged kernel is
 * somebody else's, the dense pattern runs through it too.
 */
static void dense_beside(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                         s2_validation *out)
{
    const double per_flop = out->warm.median_ms / fmax(1.0, out->flop_executed);
    s2_arena arena = {0};
    s2_pattern dense;
    s2_validate_request like = *request;
    s2_workload workload;
    s2_diag why = {0};
    like.pattern = &dense;
    like.phase = S2_PREFILL;
    like.layer = 0;
    like.kernel = request->kernel != NULL && request->kernel->elsewhere != NULL ? request->kernel : NULL;
    if (s2_workload_dense_pattern(&arena, request->pattern, &dense) == S2_OK &&
        (like.kernel == NULL || is_dense(device, phase, &like, out)) &&
        phase->open(device, &like, &workload, &why) == S2_OK) {
        if (per_flop * workload.flop_executed <= request->time_limit_ms &&
            time_dense(device, &workload, out, &why) != S2_OK)
            out->dense = (s2_times){0};
        workload.close(workload.self);
    }
    s2_arena_release(&arena);
}

/* Time our own best kernel where somebody else's was judged. Whatever keeps it from running leaves a gap. */
static void ours_beside(const s2_pass_judge *phase, const s2_validate_request *request, s2_validation *out)
{
    float samples[DENSE_RUNS];
    s2_validate_request like = *request;
    s2_workload workload;
    s2_diag why = {0};
    double ms = 0.0;
    like.kernel = NULL;
    if (phase->open(request->beside, &like, &workload, &why) != S2_OK)
        return;
    if (time_once(request->beside, &workload, &ms, &why) == S2_OK &&
        ms * DENSE_RUNS <= request->time_limit_ms &&
        time_warm(request->beside, &workload, DENSE_RUNS, samples, &out->ours, &why) == S2_OK)
        out->ours_kernel = workload.kernel;
    workload.close(workload.self);
}

s2_status s2_workload_time(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                           s2_validation *out, s2_diag *why)
{
    s2_workload workload;
    if (out->expected_ms > request->time_limit_ms)
        return S2_OK;
    if (request->progress != NULL)
        request->progress(request->user, "time", 0, 2);
    S2_TRY(phase->open(device, request, &workload, why));
    out->flop_useful = workload.flop_useful;
    out->flop_executed = workload.flop_executed;
    out->bytes_useful = workload.bytes_useful;
    const s2_status status = time_pattern(device, &workload, request, out, why);
    workload.close(workload.self);
    S2_TRY(status);
    if (request->progress != NULL)
        request->progress(request->user, "dense", 1, 2);
    if (request->dense_beside)
        dense_beside(device, phase, request, out);
    if (request->beside != NULL)
        ours_beside(phase, request, out);
    return S2_OK;
}

s2_status s2_workload_times(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                            s2_times *out, s2_diag *why)
{
    float samples[S2_LIMIT_SAMPLES];
    const int32_t n = s2_min_i32(request->n_timed, S2_LIMIT_SAMPLES);
    s2_workload workload;
    S2_TRY(phase->open(device, request, &workload, why));
    const s2_status status = time_warm(device, &workload, n, samples, out, why);
    workload.close(workload.self);
    return status;
}

s2_status s2_workload_profile(s2_device *device, const s2_pass_judge *phase,
                              const s2_validate_request *request, s2_diag *why)
{
    s2_workload workload;
    double ms;
    S2_TRY(phase->open(device, request, &workload, why));
    s2_status status = time_once(device, &workload, &ms, why);
    if (device->ops->profile != NULL)
        device->ops->profile(device, true);
    if (status == S2_OK)
        status = time_once(device, &workload, &ms, why);
    if (device->ops->profile != NULL)
        device->ops->profile(device, false);
    workload.close(workload.self);
    return status;
}
