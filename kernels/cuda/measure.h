/*
 * kernels/cuda/measure.h - what only a benchmark needs of a GPU: the read ceiling.
 *
 * Threads: as the device.
 */
#ifndef S2_KERNELS_CUDA_MEASURE_H
#define S2_KERNELS_CUDA_MEASURE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes per second at which a kernel that only reads gets n_bytes of memory; the median of nine runs. */
s2_status s2_cuda_read_rate(s2_device *device, const void *memory, size_t n_bytes, double *out,
                            s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_MEASURE_H */
