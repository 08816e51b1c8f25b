/*
 * kernels/cuda/bwd_sm80_inst.cu - the portable backward for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16.
 */
#include "kernels/cuda/bwd_sm80.cuh"

#include "kernels/cuda/bwd_sm80_inst.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

constexpr bool FP16 = S2_FP16;
using Backward = s2::Sm80Backward<S2_HEAD_DIM, FP16, false>; /* capped instances have the same sizes */

cudaError_t launch(void (*kernel)(const s2::Sm80BwdParams), int32_t n_blocks, const s2::Sm80BwdParams &params,
                   cudaStream_t stream)
{
    if (n_blocks == 0)
        return cudaSuccess;
    const cudaError_t raised = s2::allow_shared(kernel, Backward::SHARED_BYTES);
    if (raised != cudaSuccess)
        return raised;
    kernel<<<(unsigned)n_blocks, Backward::THREADS, Backward::SHARED_BYTES, stream>>>(params);
    return cudaGetLastError();
}

template <bool CAPPED> cudaError_t launch_both(const s2::Sm80BwdParams &params, cudaStream_t stream)
{
    const cudaError_t error =
        launch(s2::bwd_sm80_columns<S2_HEAD_DIM, FP16, CAPPED>, params.n_columns, params, stream);
    if (error != cudaSuccess)
        return error;
    return launch(s2::bwd_sm80_tiles<S2_HEAD_DIM, FP16, CAPPED>, params.n_tiles, params, stream);
}

} // namespace

cudaError_t S2_BWD_SM80_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::Sm80BwdParams &params,
                                                     const s2::BwdRowParams &rows,
                                                     const s2::BwdSinkParams &sinks, int64_t n_rows,
                                                     int32_t n_seqs, cudaStream_t stream)
{
    const cudaError_t error = s2::launch_rows<FP16>(rows, sinks, n_rows, n_seqs, stream);
    if (error != cudaSuccess)
        return error;
    return params.cap.top > 0.f ? launch_both<true>(params, stream) : launch_both<false>(params, stream);
}
