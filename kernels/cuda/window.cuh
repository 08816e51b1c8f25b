/*
 * kernels/cuda/window.cuh - what the kernels of short windows share on the host side.
 *
 * C++ only.
 */
#ifndef S2_KERNELS_CUDA_WINDOW_CUH
#define S2_KERNELS_CUDA_WINDOW_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/internal.h"

/* Whether all heads of a planned problem read a short window and nothing else, and KV heads have enough of them. */
static inline s2_status s2_window_support(const s2_attn_problem *problem, s2_diag *why)
{
    if (!s2_plan_reads_window(problem->plan, S2_WINDOW_MOST_TOK))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "takes layers whose heads all read a window of up to %d tokens",
                           S2_WINDOW_MOST_TOK);
    if (problem->n_heads / problem->n_kv_heads % S2_WINDOW_HEADS != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes a multiple of %d query heads a KV head",
                           S2_WINDOW_HEADS);
    return S2_OK;
}

/* Launch a kernel that may begin while the one before it ends; it waits for that one itself. */
template <class Kernel, class Params>
cudaError_t s2_sm90_follow(Kernel kernel, int32_t n_blocks, int32_t n_threads, size_t shared_bytes,
                           const Params &params, cudaStream_t stream)
{
    const cudaError_t raised = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (raised != cudaSuccess)
        return raised;
    cudaLaunchAttribute overlap;
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)n_blocks);
    config.blockDim = dim3((unsigned)n_threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, params);
}

#endif /* S2_KERNELS_CUDA_WINDOW_CUH */
