#include "judge/steady.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/arith.h"

enum { N_WINDOWS = 3, MOST_LAUNCHES = 20000 };
/* A host takes 4 to 8 us to queue a launch: shorter ones would be timed as that, so they are replayed. */
#define RECORDED_US 100.0
#define RECORDED_MS 2.0

/* Launches that follow one another: queued one by one, or n_each of them recorded once and replayed. */
typedef struct s2_train {
    s2_harness *harness;
    int64_t n_each;
    void *recording; /* NULL: one by one */
} s2_train;

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

static s2_status queue(const s2_train *train, s2_diag *why)
{
    s2_harness *const harness = train->harness;
    return train->recording != NULL
               ? harness->device->ops->replay(harness->device, train->recording, why)
               : harness->kernel->run(harness->device, &harness->problem, harness->state, why);
}

/* The mean of n launches back to back, or a few more, in microseconds. */
static s2_status time_launches(const s2_train *train, int64_t n, double *us, s2_diag *why)
{
    s2_device *const device = train->harness->device;
    const int64_t n_turns = s2_ceil_div(n, train->n_each);
    double ms = 0;
    S2_TRY(device->ops->time_begin(device));
    for (int64_t turn = 0; turn < n_turns; turn++)
        S2_TRY(queue(train, why));
    /* the timer does not say what the fault was; a second wait does */
    if (device->ops->time_end(device, &ms) != S2_OK)
        return device->ops->sync(device, why) != S2_OK ? S2_ECUDA : S2_EINTERNAL;
    *us = ms * 1e3 / (double)(n_turns * train->n_each);
    return S2_OK;
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

static s2_status record(int64_t n, s2_train *train, s2_diag *why)
{
    s2_device *const device = train->harness->device;
    void *recording = NULL;
    S2_TRY(device->ops->record_begin(device, why));
    s2_status status = S2_OK;
    for (int64_t launch = 0; launch < n && status == S2_OK; launch++)
        status = queue(train, why);
    const s2_status ended = device->ops->record_end(device, &recording, why);
    train->recording = recording;
    train->n_each = n;
    return status != S2_OK ? status : ended;
}

static s2_status time_windows(const s2_train *train, double settle_ms, double window_ms, s2_steady_time *out,
                              s2_diag *why)
{
    double ignored = 0, windows[N_WINDOWS], clocks[N_WINDOWS];
    S2_TRY(time_launches(train, launches_in(settle_ms, out->burst_us), &ignored, why));
    const int64_t n = launches_in(window_ms, out->burst_us);
    for (int32_t window = 0; window < N_WINDOWS; window++) {
        S2_TRY(time_launches(train, n, &windows[window], why));
        clocks[window] = clock_of(train->harness);
    }
    out->us = median(windows, N_WINDOWS);
    out->spread = (windows[N_WINDOWS - 1] - windows[0]) / out->us;
    out->mhz = median(clocks, N_WINDOWS);
    return S2_OK;
}

s2_status s2_steady_run(s2_harness *harness, double settle_ms, double window_ms, s2_steady_time *out,
                        s2_diag *why)
{
    const s2_device_ops *const ops = harness->device->ops;
    const struct timespec pause = {.tv_nsec = 20000000};
    s2_train train = {harness, 1, NULL};
    double first = 0;
    S2_TRY(fill_inputs(harness, why));
    S2_TRY(time_launches(&train, 2, &first, why));
    nanosleep(&pause, NULL);
    S2_TRY(time_launches(&train, launches_in(1, first), &out->burst_us, why));
    out->burst_mhz = clock_of(harness);
    s2_status status = S2_OK;
    if (ops->record_begin != NULL && out->burst_us < RECORDED_US)
        status = record(launches_in(RECORDED_MS, out->burst_us), &train, why);
    if (status == S2_OK)
        status = time_windows(&train, settle_ms, window_ms, out, why);
    if (ops->forget != NULL)
        ops->forget(harness->device, &train.recording);
    return status;
}

s2_status s2_steady_once(s2_harness *harness, s2_diag *why)
{
    S2_TRY(fill_inputs(harness, why));
    S2_TRY(harness->kernel->run(harness->device, &harness->problem, harness->state, why));
    return harness->device->ops->sync(harness->device, why);
}
