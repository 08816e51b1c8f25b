/*
 * kernels/micro.h - what a GPU reaches when it does one thing only: the ceilings behind a calibration.
 *
 * Ownership: none. Threads: as the device.
 */
#ifndef S2_KERNELS_MICRO_H
#define S2_KERNELS_MICRO_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_micro {
    S2_MICRO_COPY,   /* size: bytes of each side; GB/s read and written together */
    S2_MICRO_READ,   /* size: bytes read repeatedly by all units; GB/s */
    S2_MICRO_MATRIX, /* size: rounds of every unit; TFLOP/s of bf16 products out of shared memory */
    S2_MICRO_LAUNCH, /* size: empty launches in a row; us a launch */
    S2_N_MICROS
} s2_micro;
const char *s2_micro_word(s2_micro micro); /* "copy" */
const char *s2_micro_unit(s2_micro micro); /* "GB/s" */

/* S2_EUNSUPPORTED on a device without them; S2_ENOMEM, S2_ECUDA. */
s2_status s2_micro_run(s2_device *device, s2_micro micro, int64_t size, double *out,
                       s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_MICRO_H */
