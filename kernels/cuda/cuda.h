/*
 * kernels/cuda/cuda.h - the seam: all that the rest of the project knows of CUDA, in plain C.
 *
 * Compiled in when the build has nvcc (S2_HAVE_CUDA is 1). The driver is opened at run time: on a machine
 * without one, opening a device reports that and nothing else happens.
 */
#ifndef S2_KERNELS_CUDA_CUDA_H
#define S2_KERNELS_CUDA_CUDA_H

#include "kernels/kernel.h"
#include "kernels/micro.h"

#ifdef __cplusplus
extern "C" {
#endif

/* S2_EUNSUPPORTED with the reason: no driver, a driver too old, or no GPU of this index. */
s2_status s2_cuda_open(int32_t index, s2_device **out, s2_diag *why) S2_MUST_CHECK;

/* kernels/micro.h on a GPU. */
s2_status s2_cuda_micro(s2_device *device, s2_micro micro, int64_t size, double *out,
                        s2_diag *why) S2_MUST_CHECK;

extern const s2_kernel s2_kernel_decode;      /* decode steps, Ampere and Hopper */
extern const s2_kernel s2_kernel_sm80;        /* any NVIDIA GPU since Ampere */
extern const s2_kernel s2_kernel_sm90;        /* Hopper */
extern const s2_kernel s2_kernel_sm90_window; /* short windows, eight query heads a KV head */
extern const s2_kernel s2_kernel_sm90_e4m3;
extern const s2_kernel s2_kernel_sm80_bwd;
extern const s2_kernel s2_kernel_sm90_bwd;
extern const s2_kernel s2_kernel_sm90_bwd_window;
extern const s2_kernel s2_kernel_sm90_bwd_fused;   /* faster in long contexts, not bit for bit */
extern const s2_kernel s2_kernel_sm90_bwd_ordered; /* for layers that read everything */

/*
 * The pairs that one run of s2_kernel_sm90 or s2_kernel_sm90_e4m3 computes products for, by its steps on the device; of
 * lists there as they are now. The state is that of the prepared problem.
 */
s2_status s2_cuda_sm90_pairs(s2_device *device, const s2_attn_problem *problem, void *state, int64_t *pairs,
                             s2_diag *why) S2_MUST_CHECK;

/* The s2_follow_fn (kernels/follow.h) of s2_kernel_decode. */
s2_status s2_cuda_decode_follow(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_CUDA_H */
