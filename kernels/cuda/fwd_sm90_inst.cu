/*
 * kernels/cuda/fwd_sm90_inst.cu - the Hopper forward for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16; holds the instances for the block sizes.
 */
#include "kernels/cuda/fwd_sm90.cuh"

#include <cuda_runtime.h>

#include "kernels/cuda/fwd_sm90_inst.cuh"
#include "plan/launch.h"

namespace
{

template <class T> cudaError_t launch(const s2::FwdParams &params, int32_t n_units, cudaStream_t stream)
{
    const cudaError_t raised = cudaFuncSetAttribute(
        (const void *)s2::fwd_sm90<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::SHARED_BYTES);
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
    return cudaLaunchKernelEx(&config, s2::fwd_sm90<T>, params);
}

} // namespace

cudaError_t S2_FWD_SM90_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::FwdParams &params, int32_t block_tok,
                                                     int32_t n_units, cudaStream_t stream)
{
    constexpr bool FP16 = S2_FP16;
    if (block_tok == 16)
        return launch<s2::FwdConfig<S2_HEAD_DIM, 16, FP16>>(params, n_units, stream);
    constexpr int WIDEST = S2_HEAD_DIM == 256 ? 32 : 64;
    if (WIDEST == 32 || block_tok == 32)
        return launch<s2::FwdConfig<S2_HEAD_DIM, 32, FP16>>(params, n_units, stream);
    return launch<s2::FwdConfig<S2_HEAD_DIM, WIDEST, FP16>>(params, n_units, stream);
}
