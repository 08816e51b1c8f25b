/*
 * kernels/cuda/launch.cuh - how a kernel is launched that may begin while the launch before it ends.
 *
 * C++ only. Such a kernel waits for that launch itself, before it touches memory.
 */
#ifndef S2_KERNELS_CUDA_LAUNCH_CUH
#define S2_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

namespace s2
{

/* Lets a kernel have that much shared memory in a launch: more than 48 KiB it must be allowed. */
template <class Kernel> cudaError_t allow_shared(Kernel *kernel, size_t bytes)
{
    return cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)bytes);
}

template <class Kernel, class... Params>
cudaError_t launch_after(Kernel *kernel, dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                         const Params &...params)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &overlap;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, params...);
}

/* The same of a kernel that nobody has allowed its shared memory yet. */
template <class Kernel, class... Params>
cudaError_t allow_and_launch_after(Kernel *kernel, dim3 grid, int threads, size_t shared_bytes,
                                   cudaStream_t stream, const Params &...params)
{
    const cudaError_t allowed = allow_shared(kernel, shared_bytes);
    return allowed == cudaSuccess ? launch_after(kernel, grid, threads, shared_bytes, stream, params...)
                                  : allowed;
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_LAUNCH_CUH */
