#include "cli/measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "judge/harness.h"
#include "pattern/parse.h"

enum { N_WINDOWS = 3, MOST_LAUNCHES = 20000 };

s2_measure_options s2_measure_options_default(void)
{
    return (s2_measure_options){.settle_ms = 70, .window_ms = 15};
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static s2_status fill_inputs(s2_harness *harness, s2_diag *why)
{
    const s2_device_ops *const ops = harness->device->ops;
    const s2_guarded *const buffers[] = {&harness->q, &harness->k, &harness->v, &harness->o, &harness->d_o};
    const int64_t size = s2_dtype_bytes(harness->problem.dtype);
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++) {
        if (buffers[at]->base == NULL)
            continue;
        S2_TRY(ops->fill_normal(harness->device, buffers[at]->base + S2_GUARD_BYTES,
                                (int64_t)buffers[at]->n_bytes / size, harness->problem.dtype, at + 1, 1.0f));
    }
    /* a backward pass reads both; numbers near those of the kernel would need a forward pass first */
    S2_TRY(ops->fill_normal(harness->device, harness->lse.base + S2_GUARD_BYTES,
                            (int64_t)harness->lse.n_bytes / 4, S2_F32, 5, 1.0f));
    return ops->sync(harness->device, why);
}

/* The mean of n launches back to back, in microseconds. */
static s2_status time_launches(s2_harness *harness, int64_t n, double *us, s2_diag *why)
{
    const s2_device_ops *const ops = harness->device->ops;
    double ms = 0;
    S2_TRY(ops->time_begin(harness->device));
    for (int64_t at = 0; at < n; at++)
        S2_TRY(harness->kernel->run(harness->device, &harness->problem, harness->state, why));
    /* the timer has no words for a fault; a second wait has */
    if (ops->time_end(harness->device, &ms) != S2_OK)
        return ops->sync(harness->device, why) != S2_OK ? S2_ECUDA : S2_EINTERNAL;
    *us = ms * 1e3 / (double)n;
    return S2_OK;
}

static int64_t launches_in(double ms, double us)
{
    const double n = ceil(ms * 1e3 / fmax(us, 0.5));
    return n < 1 ? 1 : n > MOST_LAUNCHES ? MOST_LAUNCHES : (int64_t)n;
}

static double clock_of(const s2_harness *harness)
{
    return harness->device->ops->clock_mhz != NULL ? harness->device->ops->clock_mhz(harness->device) : 0;
}

static s2_status time_all(s2_harness *harness, const s2_measure_options *options, s2_row *row, s2_diag *why)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double first = 0, ignored = 0, windows[N_WINDOWS], clocks[N_WINDOWS];
    S2_TRY(time_launches(harness, 2, &first, why));
    nanosleep(&pause, NULL);
    S2_TRY(time_launches(harness, launches_in(1, first), &row->burst_us, why));
    row->burst_mhz = clock_of(harness);
    S2_TRY(time_launches(harness, launches_in(options->settle_ms, row->burst_us), &ignored, why));
    const int64_t n = launches_in(options->window_ms, row->burst_us);
    for (int32_t at = 0; at < N_WINDOWS; at++) {
        S2_TRY(time_launches(harness, n, &windows[at], why));
        clocks[at] = clock_of(harness);
    }
    row->us = median(windows, N_WINDOWS);
    row->spread = (windows[N_WINDOWS - 1] - windows[0]) / row->us;
    row->mhz = median(clocks, N_WINDOWS);
    return S2_OK;
}

static s2_status measure(s2_harness *harness, const s2_measure_options *options, s2_row *row, s2_diag *why)
{
    S2_TRY(fill_inputs(harness, why));
    if (!options->once)
        return time_all(harness, options, row, why);
    S2_TRY(harness->kernel->run(harness->device, &harness->problem, harness->state, why));
    return harness->device->ops->sync(harness->device, why);
}

static void note_plan(const s2_harness *harness, s2_row *row)
{
    const s2_plan_options *const cut = &harness->whole.options;
    snprintf(row->kernel, sizeof row->kernel, "%s", harness->kernel->traits->name);
    row->tile_tok = cut->tile_tok;
    row->key_tok = cut->key_tok;
    row->pack_heads = cut->pack_heads;
    row->section_bytes = cut->section_bytes;
}

s2_status s2_measure_point(s2_device *device, const s2_measure_options *options, s2_row *row)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag why = {0};
    s2_plan_seq seqs[64];
    const s2_run_point *const point = &row->point;
    if (point->batch > (int32_t)(sizeof seqs / sizeof *seqs))
        return S2_EINVAL;
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    s2_status status = s2_pattern_parse(&arena, point->pattern, strlen(point->pattern), NULL, &pattern, &why);
    if (status == S2_OK) {
        s2_validate_request request = s2_validate_request_init(device, &pattern, seqs, point->batch);
        request.pass = point->pass;
        request.phase = point->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
        request.dtype = point->dtype;
        request.budget_flop = 0;
        request.kernel = options->kernel != NULL ? s2_kernel_find(options->kernel) : NULL;
        s2_harness harness = {0};
        row->kernel[0] = '\0';
        status = s2_harness_open(&harness, device, &request, &why);
        if (status == S2_OK) {
            note_plan(&harness, row);
            status = measure(&harness, options, row, &why);
        }
        s2_harness_close(&harness);
    }
    if (status != S2_OK) {
        row->kernel[0] = '\0';
        snprintf(row->why, sizeof row->why, "%.119s", s2_diag_text(&why, status));
    }
    s2_arena_release(&arena);
    return status == S2_ECUDA ? status : S2_OK;
}
