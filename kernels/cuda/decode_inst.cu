/*
 * kernels/cuda/decode_inst.cu - the decode kernel for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16.
 */
#include "kernels/cuda/decode.cuh"

#include <cuda_runtime.h>

#include "kernels/cuda/decode_inst.cuh"

namespace
{

template <int TILES> cudaError_t launch(const s2::DecodeParams &params, int32_t n_chunks, cudaStream_t stream)
{
    typedef s2::DecodeShape<S2_HEAD_DIM, TILES, S2_FP16> Shape;
    void (*const kernel)(const s2::DecodeParams) = s2::decode<S2_HEAD_DIM, TILES, S2_FP16>;
    const cudaError_t raised = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::SHARED_BYTES);
    if (raised != cudaSuccess)
        return raised;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)params.n_parts, (unsigned)n_chunks);
    config.blockDim = dim3(s2::DECODE_THREADS);
    config.dynamicSmemBytes = Shape::SHARED_BYTES;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, params);
}

} // namespace

cudaError_t S2_DECODE_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::DecodeParams &params, int32_t row_tiles,
                                                   int32_t n_chunks, cudaStream_t stream)
{
    if (row_tiles == 1)
        return launch<1>(params, n_chunks, stream);
#if S2_HEAD_DIM <= 128
    if (row_tiles == 4)
        return launch<4>(params, n_chunks, stream);
#endif
    return launch<2>(params, n_chunks, stream);
}
