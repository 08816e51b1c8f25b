/*
 * kernels/cuda/decode_launch.cuh - how an instance of a decode kernel is launched, and the launch that
 * combines its parts.
 */
#ifndef S2_KERNELS_CUDA_DECODE_LAUNCH_CUH
#define S2_KERNELS_CUDA_DECODE_LAUNCH_CUH

#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/launch.cuh"

namespace s2
{

typedef void (*DecodeKernel)(DecodeParams);

template <class Shape>
cudaError_t launch_decode(DecodeKernel kernel, const DecodeParams &params, int32_t n_chunks,
                          cudaStream_t stream)
{
    const dim3 grid((unsigned)params.n_parts, (unsigned)n_chunks);
    const cudaError_t status =
        allow_and_launch_after(kernel, grid, DECODE_THREADS, Shape::SHARED_BYTES, stream, params);
    if (status != cudaSuccess || !params.merged)
        return status;
    return launch_after(merge_parts<Shape::D, Shape::ROWS, Shape::FP16, Shape::EXTRA>,
                        dim3((unsigned)(params.n_lists * params.merged), (unsigned)n_chunks), DECODE_THREADS,
                        0, stream, params);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_LAUNCH_CUH */
