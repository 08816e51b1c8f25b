/*
 * judge/steady.h - how long a kernel takes when the device is as busy as in service, and just after a pause.
 *
 * Launches follow each other until the clock has settled, then windows of them are timed. Inputs are random,
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
    double mhz;       /* the clock behind each window, median; 0: the device does not say */
    double burst_us;  /* the first launches after a pause */
    double burst_mhz; /* and the clock behind them */
} s2_steady_time;

/* The harness's kernel, with settle_ms before the windows and window_ms in each of three. */
s2_status s2_steady_run(s2_harness *harness, double settle_ms, double window_ms, s2_steady_time *out,
                        s2_diag *why) S2_MUST_CHECK;
/* One launch and no timing: for a profiler that counts. */
s2_status s2_steady_once(s2_harness *harness, s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_STEADY_H */
