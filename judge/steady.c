#include "judge/steady.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/arith.h"
#include "judge/train.h"

enum { N_WINDOWS = 3, MOST_LAUNCHES = 20000 };

static double median(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, s2_compare_f64);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static s2_status fill_outputs(s2_harness *harness)
{
    const s2_guarded *const buffers[] = {&harness->o, &harness->d_o};
    const s2_dtype dtype = harness->problem.dtype;
    for (size_t nth = 0; nth < sizeof buffers / sizeof *buffers; nth++)
        if (buffers[nth]->base != NULL)
            S2_TRY(harness->device->ops->fill_normal(harness->device, buffers[nth]->base + S2_GUARD_BYTES,
                                                     (int64_t)buffers[nth]->n_bytes / s2_dtype_bytes(dtype),
                                                     dtype, nth + 4, 1.0f));
    /* a backward pass reads both; realistic numbers would need a forward pass first */
    return harness->device->ops->fill_normal(harness->device, harness->lse.base + S2_GUARD_BYTES,
                                             (int64_t)harness->lse.n_bytes / 4, S2_F32, 5, 1.0f);
}

static s2_status fill_inputs(s2_harness *harness, s2_diag *why)
{
    S2_TRY(s2_harness_fill_queries(harness, 1, 1.0f));
    S2_TRY(s2_harness_fill_keys(harness, 2, 1.0f));
    S2_TRY(s2_harness_fill_values(harness, 3));
    S2_TRY(fill_outputs(harness));
    return harness->device->ops->sync(harness->device, why);
}

static int64_t launches_in(double ms, double us)
{
    const double n = ceil(ms * 1e3 / fmax(us, 0.5));
    return (int64_t)s2_clamp_f64(n, 1, MOST_LAUNCHES);
}

static double clock_of(const s2_harness *harness)
{
    return harness->device->ops->clock_mhz != NULL ? harness->device->ops->clock_mhz(harness->device) : 0;
}

static s2_status time_windows(const s2_harness *harness, const s2_train *train, double settle_ms,
                              double window_ms, s2_steady_time *out, s2_diag *why)
{
    double ignored = 0, windows[N_WINDOWS], clocks[N_WINDOWS];
    S2_TRY(s2_train_time(train, launches_in(settle_ms, out->burst_us), &ignored, why));
    const int64_t n = launches_in(window_ms, out->burst_us);
    for (int32_t window = 0; window < N_WINDOWS; window++) {
        S2_TRY(s2_train_time(train, n, &windows[window], why));
        clocks[window] = clock_of(harness);
    }
    out->us = median(windows, N_WINDOWS);
    out->spread = (windows[N_WINDOWS - 1] - windows[0]) / out->us;
    out->mhz = median(clocks, N_WINDOWS);
    return S2_OK;
}

s2_status s2_steady_run(s2_harness *harness, double settle_ms, double window_ms, s2_steady_time *out,
                        s2_diag *why)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    s2_train train = s2_train_of(harness->device, s2_harness_launch, harness);
    double first = 0;
    S2_TRY(fill_inputs(harness, why));
    S2_TRY(s2_train_time(&train, 2, &first, why));
    nanosleep(&pause, NULL);
    S2_TRY(s2_train_time(&train, launches_in(1, first), &out->burst_us, why));
    out->burst_mhz = clock_of(harness);
    s2_status status = s2_train_record(&train, out->burst_us, why);
    if (status == S2_OK)
        status = time_windows(harness, &train, settle_ms, window_ms, out, why);
    s2_train_close(&train);
    return status;
}

s2_status s2_steady_once(s2_harness *harness, s2_diag *why)
{
    S2_TRY(fill_inputs(harness, why));
    S2_TRY(s2_harness_launch(harness, why));
    return harness->device->ops->sync(harness->device, why);
}
