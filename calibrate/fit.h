/*
 * calibrate/fit.h - constants of sim/model.h from measurements, by damped least squares on logarithms.
 *
 * Cycles are fitted first, each row at the clock measured with it, and then the clock law, so that neither
 * hides the other's error. Deterministic: the same rows give the same constants.
 *
 * Ownership: loads live in the arena. Threads: no state.
 */
#ifndef S2_CALIBRATE_FIT_H
#define S2_CALIBRATE_FIT_H

#include "sim/model.h"
#include "calibrate/rows.h"

/* A row with what its launch demands of the chip. */
typedef struct s2_fit_point {
    const s2_row *row;
    s2_kernel_load load;
    int32_t kernel; /* of the model, or -1 */
} s2_fit_point;

/* The load of a row, with the plan that the row states. S2_EPARSE and what planning returns, with *diag. */
s2_status s2_fit_load(s2_arena *arena, const s2_row *row, const s2_time_model *model, s2_kernel_load *out,
                      s2_diag *diag) S2_MUST_CHECK;

/*
 * The kernel whose constants price a row. `decode` has an instance for wide steps, of which rows say the same name.
 */
const char *s2_fit_kernel(const s2_row *row, const s2_kernel_load *load);

/*
 * Fit the rows of the set "designed". S2_EINVAL with *diag when a kernel has fewer rows than constants. kept, when not
 * NULL: cache and clock are its own, and so are the kernels that have no rows here.
 */
s2_status s2_fit_run(s2_arena *arena, const s2_row_file *file, const s2_gpu *gpu, const s2_time_model *kept,
                     s2_time_model *out, s2_diag *diag) S2_MUST_CHECK;

/*
 * Fit one constant, by its word in a calibration file, of the kernels of `kept` that have rows of the set "designed",
 * and keep all else. A kernel that plans lists in its launch takes it from the one that plans beforehand. S2_EINVAL
 * with *diag when there is no such constant, or no row of such a kernel.
 */
s2_status s2_fit_constant(s2_arena *arena, const s2_row_file *file, const s2_time_model *kept,
                          const char *word, s2_time_model *out, s2_diag *diag) S2_MUST_CHECK;

/*
 * Fit what the head dimensions of rows of the set "designed" cost, of the kernels of `kept` that have such rows, and
 * keep all else. S2_EINVAL with *diag when no row is of such a kernel.
 */
s2_status s2_fit_dims(s2_arena *arena, const s2_row_file *file, const s2_time_model *kept, s2_time_model *out,
                      s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_CALIBRATE_FIT_H */
