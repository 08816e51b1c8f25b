/*
 * kernels/cuda/internal.h - what the files of kernels/cuda/ share on the host side.
 */
#ifndef S2_KERNELS_CUDA_INTERNAL_H
#define S2_KERNELS_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one translation of the runtime's errors: S2_OK, S2_ENOMEM, or S2_ECUDA with its words in *why. */
s2_status s2_cuda_try(cudaError_t error, s2_diag *why);

/* Everything is queued here. */
cudaStream_t s2_cuda_stream(const s2_device *device);

/* Allocate at least one byte and copy host data there. */
s2_status s2_cuda_upload(s2_device *device, const void *host, size_t n_bytes, void **out, s2_diag *why);

/* The same, done when it returns and in no graph, even while one is captured. */
s2_status s2_cuda_upload_apart(const void *host, size_t n_bytes, void **out, s2_diag *why);

/* Queue a copy of host data, a multiple of 4 bytes. The data is read now, and a captured graph keeps it. */
s2_status s2_cuda_write(const s2_device *device, void *dst, const void *host, size_t n_bytes, s2_diag *why);

/* Whether what is queued is being captured as a graph. */
bool s2_cuda_captures(const s2_device *device);

/* Whether every row begins at a multiple of 16 bytes: n elements. */
static inline bool s2_cuda_strides_are(const s2_tensor *tensor, int32_t n)
{
    return tensor->tok % n == 0 && tensor->head % n == 0 && tensor->seq % n == 0;
}
/* The same of 16-bit elements. */
static inline bool s2_cuda_strides_fit(const s2_tensor *tensor)
{
    return s2_cuda_strides_are(tensor, 8);
}
/* The same of Q, K, V and O; S2_EUNSUPPORTED with the reason in *why. */
static inline s2_status s2_cuda_strides_support(const s2_attn_problem *problem, s2_diag *why)
{
    return s2_cuda_strides_fit(&problem->q) && s2_cuda_strides_fit(&problem->k) &&
                   s2_cuda_strides_fit(&problem->v) && s2_cuda_strides_fit(&problem->o)
               ? S2_OK
               : s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs strides that are multiples of 8 elements");
}

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_INTERNAL_H */
