/*
 * sim/calibration.h - the constants of one GPU and its kernels as a text file, with where they come from.
 *
 *     calibration 1
 *     gpu h200
 *     device NVIDIA H200                      provenance: device, uuid, driver, commit, date
 *     ...
 *     hash 0123456789abcdef                   of every line below, up to the first `judged`
 *     hbm_gb_s 4266
 *     ...
 *     kernel sm90 forward                     what follows belongs to it, until the next
 *     launch_us 3.2
 *     dim 128 3468 2500 2875 9496             head dim: item, step, masked step, least; cycles
 *     cut 128 0 128 128 1 16777216            head dim, even group: tile, keys, heads, section bytes
 *     judged sm90 forward 120 3.6 8.1         points never fitted: mean and 90th percentile of the error, %
 *
 * `s2 calibrate` writes such files and nothing else edits them: a file whose hash is wrong is refused.
 * The file of a GPU is built into the program as sim/calibration/NAME.txt.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_CALIBRATION_H
#define S2_SIM_CALIBRATION_H

#include "base/text.h"
#include "sim/model.h"
#include "sim/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_calibration {
    s2_rows_head head; /* of the rows that were fitted */
    char hash[20];
    s2_time_model model;
} s2_calibration;

void s2_calibration_print(const s2_calibration *calibration, s2_buf *buf);

/* S2_EPARSE with line and column in *diag; *out is untouched then. */
s2_status s2_calibration_parse(const char *text, size_t n_bytes, s2_calibration *out,
                               s2_diag *diag) S2_MUST_CHECK;

/* The built-in file of a GPU; S2_EUNSUPPORTED when there is none. */
s2_status s2_calibration_find(const char *gpu, s2_calibration *out) S2_MUST_CHECK;

/*
 * Constants for a GPU that nobody measured: those of the H200's kernels, cycles scaled by the matrix rate of
 * an SM, rates from the data sheet, no law of the clock. Its errors are unknown, so error_pct is wide.
 */
s2_status s2_calibration_guess(const s2_gpu *gpu, s2_calibration *out) S2_MUST_CHECK;
#define S2_GUESS_PCT 30.0

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_CALIBRATION_H */
