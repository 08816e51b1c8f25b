/*
 * kernels/cuda/fwd_sm80_inst.cu - the portable forward for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16.
 */
#include "kernels/cuda/fwd_sm80.cuh"

#include "kernels/cuda/fwd_sm80_inst.cuh"
#include "kernels/cuda/launch.cuh"

template <bool EXTRA>
static cudaError_t launch(const s2::Sm80Params &params, int32_t n_items, cudaStream_t stream)
{
    constexpr bool FP16 = S2_FP16;
    constexpr int SHARED_BYTES = s2::Sm80Forward<S2_HEAD_DIM, FP16, EXTRA>::SHARED_BYTES;
    const cudaError_t raised = s2::allow_shared(s2::fwd_sm80<S2_HEAD_DIM, FP16, EXTRA>, SHARED_BYTES);
    if (raised != cudaSuccess)
        return raised;
    s2::fwd_sm80<S2_HEAD_DIM, FP16, EXTRA>
        <<<(unsigned)n_items, s2::SM80_THREADS, SHARED_BYTES, stream>>>(params);
    return cudaGetLastError();
}

cudaError_t S2_FWD_SM80_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::Sm80Params &params, int32_t n_items,
                                                     cudaStream_t stream)
{
    const bool extra = params.cap.top > 0.f || params.sink != nullptr;
    return extra ? launch<true>(params, n_items, stream) : launch<false>(params, n_items, stream);
}
