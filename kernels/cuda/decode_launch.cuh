/*
 * kernels/cuda/decode_launch.cuh - how an instance of a decode kernel is launched, and the launch that
 * combines its parts.
 */
#ifndef S2_KERNELS_CUDA_DECODE_LAUNCH_CUH
#define S2_KERNELS_CUDA_DECODE_LAUNCH_CUH

#include "kernels/cuda/decode.cuh"

#include <cuda_runtime.h>

namespace s2
{

typedef void (*DecodeKernel)(DecodeParams);

/* Each kernel waits for the previous launch itself. */
inline cudaError_t launch_after(DecodeKernel kernel, dim3 grid, size_t shared_bytes,
                                const DecodeParams &params, cudaStream_t stream)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(DECODE_THREADS);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, params);
}

template <class Shape>
cudaError_t launch_decode(DecodeKernel kernel, const DecodeParams &params, int32_t n_chunks,
                          cudaStream_t stream)
{
    cudaError_t status = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::SHARED_BYTES);
    if (status == cudaSuccess)
        status = launch_after(kernel, dim3((unsigned)params.n_parts, (unsigned)n_chunks), Shape::SHARED_BYTES,
                              params, stream);
    if (status != cudaSuccess || !params.merged)
        return status;
    const int32_t n_blocks = params.n_lists * (Shape::ROWS / DECODE_WARPS);
    return launch_after(merge_parts<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA>,
                        dim3((unsigned)n_blocks, (unsigned)n_chunks), 0, params, stream);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_LAUNCH_CUH */
