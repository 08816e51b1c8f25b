#include "judge/train.h"

#include <math.h>

#include "base/arith.h"

/* Launches below RECORDED_US are recorded, RECORDED_MS of them at a time. */
#define RECORDED_US 100.0
#define RECORDED_MS 2.0

s2_train s2_train_of(s2_device *device, s2_status (*launch)(void *self, s2_diag *why), void *self)
{
    return (s2_train){.device = device, .launch = launch, .self = self, .n_each = 1};
}

s2_status s2_train_record(s2_train *train, double us, s2_diag *why)
{
    const s2_device_ops *const ops = train->device->ops;
    if (ops->record_begin == NULL || us >= RECORDED_US)
        return S2_OK;
    const int64_t n = (int64_t)ceil(RECORDED_MS * 1e3 / fmax(us, 0.5));
    void *recording = NULL;
    S2_TRY(ops->record_begin(train->device, why));
    s2_status status = S2_OK;
    for (int64_t launch = 0; launch < n && status == S2_OK; launch++)
        status = train->launch(train->self, why);
    s2_diag ignored = {0};
    const s2_status ended = ops->record_end(train->device, &recording, status == S2_OK ? why : &ignored);
    status = status != S2_OK ? status : ended;
    if (status != S2_OK) {
        ops->forget(train->device, &recording);
        return status;
    }
    train->recording = recording;
    train->n_each = n;
    return S2_OK;
}

static s2_status queue(const s2_train *train, s2_diag *why)
{
    return train->recording != NULL ? train->device->ops->replay(train->device, train->recording, why)
                                    : train->launch(train->self, why);
}

s2_status s2_train_time(const s2_train *train, int64_t n, double *us, s2_diag *why)
{
    s2_device *const device = train->device;
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

void s2_train_close(s2_train *train)
{
    if (train->device->ops->forget != NULL)
        train->device->ops->forget(train->device, &train->recording);
}
