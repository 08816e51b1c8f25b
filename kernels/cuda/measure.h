/*
 * kernels/cuda/measure.h - what only a benchmark needs of a GPU: replayable graphs, and the read ceiling.
 *
 * Ownership: a graph is destroyed by its maker, before the device is closed. Threads: as the device.
 */
#ifndef S2_KERNELS_CUDA_MEASURE_H
#define S2_KERNELS_CUDA_MEASURE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_cuda_graph s2_cuda_graph;

/* Launches between begin and end are recorded, not run; the device may do nothing else meanwhile. */
s2_status s2_cuda_graph_begin(s2_device *device, s2_diag *why) S2_MUST_CHECK;
s2_status s2_cuda_graph_end(s2_device *device, s2_cuda_graph **out, s2_diag *why) S2_MUST_CHECK;
/* Queue all that was recorded. */
s2_status s2_cuda_graph_launch(s2_device *device, s2_cuda_graph *graph, s2_diag *why) S2_MUST_CHECK;
void s2_cuda_graph_destroy(s2_cuda_graph **graph);

/* Bytes per second at which a kernel that only reads gets n_bytes of memory; the median of nine runs. */
s2_status s2_cuda_read_rate(s2_device *device, const void *memory, size_t n_bytes, double *out,
                            s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_MEASURE_H */
