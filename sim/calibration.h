/*
 * sim/calibration.h - the constants of one GPU and its kernels as a text file, with their provenance.
 *
 *     calibration 2
 *     gpu h200
 *     device NVIDIA H200                      provenance: device, uuid, driver, commit, date
 *     ...
 *     hash 0123456789abcdef                   covers every line below, up to the first `judged`
 *     hbm_gb_s 4266
 *     ...
 *     kernel sm90 forward                     the lines up to the next kernel belong to it
 *     launch_us 3.2
 *     dim 128 3468 2500 2875 9496             head dim: item, step, masked step, least; cycles
 *     cut 128 0 128 128 1 16777216            head dim, even group: tile, keys, heads, section bytes
 *     judged sm90 forward 120 3.6 8.1 1 8 ... points never fitted: mean and 90th percentile of the error, %, the
 *                                             range of each extent (s2_extent of sim/model.h), the largest error
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

/* Where measurements came from. */
typedef struct s2_provenance {
    char gpu[40];
    char device[80];
    char uuid[48];
    char driver[40];
    char commit[48];
    char date[24];
} s2_provenance;

typedef struct s2_calibration {
    s2_provenance head; /* of the rows that were fitted */
    char hash[20];
    s2_time_model model;
} s2_calibration;

/* A constant of a kernel by the word that such a file has for it; NULL: there is none. */
double *s2_calibration_constant(s2_kernel_model *kernel, const char *word);

/* The text of such a file; check buf->status. */
void s2_calibration_print(const s2_calibration *calibration, s2_buf *buf);

/* The hash that such a file gives of its constants: 16 digits of their SHA-256. */
void s2_calibration_hash(const char *text, size_t n, char out[20]);

/* S2_EPARSE with line and column in *diag; *out is untouched then. */
s2_status s2_calibration_parse(const char *text, size_t n_bytes, s2_calibration *out,
                               s2_diag *diag) S2_MUST_CHECK;

/* The built-in file of a GPU; S2_EUNSUPPORTED when it has none. */
s2_status s2_calibration_find(const char *gpu, s2_calibration *out) S2_MUST_CHECK;

/*
 * Constants for a GPU that nobody measured (sim/guess.c), for the kernels that would run there: sm90 on
 * Hopper, the portable ones elsewhere. Cycles follow the matrix rate, clocks the power per cycle and SM,
 * memory and caches the data sheet. head.gpu is then empty.
 */
s2_status s2_calibration_guess(const s2_gpu *gpu, s2_calibration *out) S2_MUST_CHECK;

/* The GPU's own constants, or where it has none a guess; whether they were measured is s2_calibration_is_measured. */
s2_status s2_calibration_of(const s2_gpu *gpu, s2_calibration *out) S2_MUST_CHECK;
bool s2_calibration_is_measured(const s2_calibration *calibration);

/*
 * Mean errors against published tables (`s2 sim --accuracy`): H100 28.7 and 29.6 %, A100 40 to 46 %; those are of
 * others' kernels. Ours were off by 3 to 8 % on the one GPU that was guessed first and measured then, an H100.
 */
#define S2_GUESS_PCT     30.0
#define S2_FAR_GUESS_PCT 46.0

#endif /* S2_SIM_CALIBRATION_H */
