/*
 * kernels/cuda/fwd_sm90_launch.cuh - how an instance of the Hopper forward is launched.
 *
 * CUDA only: for the files that hold instances.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_LAUNCH_CUH
#define S2_KERNELS_CUDA_FWD_SM90_LAUNCH_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/fwd_sm90.cuh"
#include "plan/launch.h"

namespace s2
{

template <class T> cudaError_t launch(const FwdParams &params, int32_t n_units, cudaStream_t stream)
{
    const cudaError_t raised = cudaFuncSetAttribute(
        (const void *)fwd_sm90<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::SHARED_BYTES);
    if (raised != cudaSuccess)
        return raised;
    /* The next launch may set itself up while this one drains; it waits before it touches memory. */
    cudaLaunchAttribute overlap;
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)s2_persistent_blocks(params.n_items, n_units));
    config.blockDim = dim3(T::THREADS);
    config.dynamicSmemBytes = T::SHARED_BYTES;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, fwd_sm90<T>, params);
}

/* The instance for blocks of block_tok tokens. */
template <int D, bool FP16, FwdExtra EXTRA, bool EIGHT_BITS = false>
cudaError_t launch_for_block(const FwdParams &params, int32_t block_tok, int32_t n_units, cudaStream_t stream)
{
    if (block_tok == 16)
        return launch<FwdConfig<D, 16, FP16, EXTRA, EIGHT_BITS>>(params, n_units, stream);
    constexpr int WIDEST = D == 256 ? 32 : 64;
    if (WIDEST == 32 || block_tok == 32)
        return launch<FwdConfig<D, 32, FP16, EXTRA, EIGHT_BITS>>(params, n_units, stream);
    return launch<FwdConfig<D, WIDEST, FP16, EXTRA, EIGHT_BITS>>(params, n_units, stream);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_FWD_SM90_LAUNCH_CUH */
