/*
 * kernels/cuda/lists.cuh - block lists that lie on the device, as the steps that the Hopper forward works through.
 *
 * C++ only. s2_listed (kernels/kernel.h) says what the lists mean; plan/steps.h what an item is.
 */
#ifndef S2_KERNELS_CUDA_LISTS_CUH
#define S2_KERNELS_CUDA_LISTS_CUH

#include "kernels/cuda/internal.h"
#include "kernels/cuda/sm90_host.cuh"

/* Whether s2_cuda_lists_open() can take the problem's lists, for half steps of half_tok keys. */
s2_status s2_cuda_lists_support(const s2_attn_problem *problem, int32_t half_tok, s2_diag *why);

/*
 * Allocate what the lists become: items whose tiles are set and whose steps are not. They are released like any
 * other steps.
 */
s2_status s2_cuda_lists_open(s2_device *device, const s2_attn_problem *problem, int32_t half_tok,
                             s2_sm90_rows_fn rows_of, s2_sm90_steps *out, s2_diag *why);

/* Queue the planning of the lists as they are when it runs. */
s2_status s2_cuda_lists_plan(s2_device *device, const s2_attn_problem *problem, int32_t half_tok,
                             const s2_sm90_steps *steps, s2_diag *why);

#endif /* S2_KERNELS_CUDA_LISTS_CUH */
