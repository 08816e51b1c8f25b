/*
 * kernels/trial.h - the seam between the validator and a phase: what a phase brings to be judged, timed,
 * profiled.
 *
 *     kernels/validate_<phase>.c   one s2_trial_phase: how it is judged, and how one launch is made ready
 *     kernels/validate.c           its line in the table of phases
 *
 * Timing (warm and cold, dense beside), profiling and the benchmark are written once, over s2_trial.
 *
 * Ownership: s2_trial.close releases what open made. Threads: as the device.
 */
#ifndef S2_KERNELS_TRIAL_H
#define S2_KERNELS_TRIAL_H

#include "kernels/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One computation laid out on a device with random data, ready to be launched any number of times. */
typedef struct s2_trial {
    void *self;
    s2_status (*launch)(void *self, s2_diag *why); /* queue one run */
    void (*close)(void *self);
    const char *kernel;
    double flop_useful;   /* of one launch: visible pairs only */
    double flop_executed; /* of one launch: whole tiles */
    double bytes_useful;  /* that any kernel must move through device memory; 0: not counted */
    const s2_plan *plan;  /* cut as the kernel asks; of self; NULL: it runs none */
} s2_trial;

typedef struct s2_trial_phase {
    /* Touch, numerics, needles, whatever this phase has of them; fills its part of *out. */
    s2_outcome (*judge)(s2_device *device, const s2_validate_request *request, s2_validation *out);
    /* On failure the reason is set and *out untouched. Nothing that open does may depend on judge. */
    s2_outcome (*open)(s2_device *device, const s2_validate_request *request, s2_trial *out, char *reason,
                       size_t reason_cap);
} s2_trial_phase;

extern const s2_trial_phase s2_trial_forward; /* kernels/validate_forward.c */
extern const s2_trial_phase s2_trial_train;   /* kernels/validate_train.c */
extern const s2_trial_phase s2_trial_decode;  /* kernels/validate_decode.c */

/* NULL: nothing in this build judges that phase. */
const s2_trial_phase *s2_trial_phase_of(s2_kernel_phase phase);

/* A named number that a phase adds to its verdict; dropped without a word when there are too many. */
void s2_validation_add_figure(s2_validation *out, const char *name, double value);

/* The dense pattern of the same shapes, in the arena. */
s2_status s2_trial_dense_pattern(s2_arena *arena, const s2_pattern *like, s2_pattern *out) S2_MUST_CHECK;

/* The time stage over any phase (kernels/validate_time.c): fills the times and rates of *out. */
s2_outcome s2_trial_time(s2_device *device, const s2_trial_phase *phase, const s2_validate_request *request,
                         s2_validation *out);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_TRIAL_H */
