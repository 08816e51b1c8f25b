/*
 * judge/steady.h - how long a kernel takes on a device as busy as in service, and just after a pause.
 *
 * Launches follow one another until the clock has settled, then windows of them are timed. Short ones are recorded
 * once and replayed, as servers do it: queued one by one they would take the time of the host. Inputs are random,
 * since zeros draw less power and run faster.
 *
 * Threads: as the device.
 */
#ifndef S2_JUDGE_STEADY_H
#define S2_JUDGE_STEADY_H

#include "judge/harness.h"

typedef struct s2_steady_time {
    double us;        /* back to back, median of windows */
    double spread;    /* (longest - shortest window) / median */
    double mhz;       /* the clock after each window, median; 0: unknown */
    double burst_us;  /* the first launches after a pause, queued one by one */
    double burst_mhz; /* and the clock after them */
} s2_steady_time;

/* Time the harness's kernel: settle_ms first, then three windows of window_ms each. */
s2_status s2_steady_run(s2_harness *harness, double settle_ms, double window_ms, s2_steady_time *out,
                        s2_diag *why) S2_MUST_CHECK;
/* One launch without timing: for a profiler that counts. */
s2_status s2_steady_once(s2_harness *harness, s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_STEADY_H */
