/*
 * judge/workload.h - the seam between the validator and a phase: what a phase provides to be judged, timed
 * and profiled.
 *
 *     judge/validate_<phase>.c   one s2_pass_judge: how it is judged, and how one launch is prepared
 *     judge/validate.c           its line in the table of phases
 *
 * Timing (warm, cold, dense for comparison), profiling and the benchmark are written once, over s2_workload.
 *
 * Ownership: s2_workload.close releases what open made. Threads: as the device.
 */
#ifndef S2_JUDGE_WORKLOAD_H
#define S2_JUDGE_WORKLOAD_H

#include "judge/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One computation set up on a device with random data, ready to be launched any number of times. */
typedef struct s2_workload {
    void *self;
    s2_status (*launch)(void *self, s2_diag *why); /* queue one run */
    /* NULL: a run is timed by the device; else as s2_kernel_elsewhere.time */
    s2_status (*time)(void *self, int32_t n, float *ms, int32_t *n_made, s2_diag *why);
    void (*close)(void *self);
    const char *kernel;
    double flop_useful;   /* of one launch: visible pairs only */
    double flop_executed; /* of one launch: whole tiles */
    double bytes_useful;  /* that any kernel must move through device memory; 0: not counted */
    const s2_plan *plan;  /* cut as the kernel wants it; owned by self; NULL: it runs none */
    const s2_attn_problem
        *problem; /* what the kernel was given, and its state, of the forward; NULL: not shown */
    void *state;
} s2_workload;

typedef struct s2_pass_judge {
    /* Runs this phase's touch, numerics and needles; fills its part of *out, verdict included. */
    s2_status (*judge)(s2_device *device, const s2_validate_request *request, s2_validation *out,
                       s2_diag *why);
    /* The values of random data alone. */
    s2_status (*values)(s2_device *device, const s2_validate_request *request, s2_validation *out,
                        s2_diag *why);
    /* On failure *out is untouched. Nothing that open does may depend on judge. */
    s2_status (*open)(s2_device *device, const s2_validate_request *request, s2_workload *out, s2_diag *why);
} s2_pass_judge;

extern const s2_pass_judge s2_judge_forward;  /* judge/validate_forward.c */
extern const s2_pass_judge s2_judge_backward; /* judge/validate_backward.c */
extern const s2_pass_judge s2_judge_decode;   /* judge/validate_decode.c */

/* A named number that a phase adds to its verdict; silently dropped when there are too many. */
void s2_validation_add_figure(s2_validation *out, const char *name, double value);

/* The dense pattern of the same shapes, in the arena. */
s2_status s2_workload_dense_pattern(s2_arena *arena, const s2_pattern *like, s2_pattern *out) S2_MUST_CHECK;

/* As s2_validate_times(). */
s2_status s2_workload_times(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                            s2_times *out, s2_diag *why) S2_MUST_CHECK;

/* As s2_validate_launch(). */
s2_status s2_workload_profile(s2_device *device, const s2_pass_judge *phase,
                              const s2_validate_request *request, s2_diag *why) S2_MUST_CHECK;

/* The time stage over any phase (judge/validate_time.c): fills the times and rates of *out. */
s2_status s2_workload_time(s2_device *device, const s2_pass_judge *phase, const s2_validate_request *request,
                           s2_validation *out, s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_JUDGE_WORKLOAD_H */
