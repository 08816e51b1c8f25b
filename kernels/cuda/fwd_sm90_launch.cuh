/*
 * kernels/cuda/fwd_sm90_launch.cuh - how an instance of the Hopper forward is launched.
 *
 * CUDA only: for the files that hold instances.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_LAUNCH_CUH
#define S2_KERNELS_CUDA_FWD_SM90_LAUNCH_CUH

#include "kernels/cuda/fwd_sm90.cuh"
#include "kernels/cuda/launch.cuh"
#include "plan/launch.h"

namespace s2
{

template <class T> cudaError_t launch(const FwdParams &params, int32_t n_units, cudaStream_t stream)
{
    return allow_and_launch_after(fwd_sm90<T>, s2_persistent_blocks(params.n_items, n_units), T::THREADS,
                                  T::SHARED_BYTES, stream, params);
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
