/*
 * judge/train.h - launches of one computation that follow one another, and the time of each.
 *
 * A host takes 4 to 8 us to queue a launch, and two events around one add as much, so short launches that are
 * queued one by one are timed as the host. A train of short ones is recorded once and replayed, as servers do it.
 *
 * Ownership: s2_train_close() releases the recording. Threads: as the device.
 */
#ifndef S2_JUDGE_TRAIN_H
#define S2_JUDGE_TRAIN_H

#include "kernels/device.h"

typedef struct s2_train {
    s2_device *device;
    s2_status (*launch)(void *self, s2_diag *why); /* queue one */
    void *self;
    int64_t n_each;  /* launches that are queued at once */
    void *recording; /* of them; NULL: one by one */
} s2_train;

/* Launches one by one. */
s2_train s2_train_of(s2_device *device, s2_status (*launch)(void *self, s2_diag *why), void *self);

/* Record launches that take about `us` each, where they are short and the device can. Else it stays as it is. */
s2_status s2_train_record(s2_train *train, double us, s2_diag *why) S2_MUST_CHECK;

/* The mean of n launches, or a few more, in microseconds. */
s2_status s2_train_time(const s2_train *train, int64_t n, double *us, s2_diag *why) S2_MUST_CHECK;

/* Of one that is not recorded, too. */
void s2_train_close(s2_train *train);

#endif /* S2_JUDGE_TRAIN_H */
