/*
 * kernels/cuda/bwd_sm90_inst.cu - the Hopper backward for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16.
 */
#include "kernels/cuda/bwd_sm90_dkv.cuh"
#include "kernels/cuda/bwd_sm90_dq.cuh"

#include "kernels/cuda/bwd_sm90_inst.cuh"
#include "kernels/cuda/launch.cuh"
#include "plan/launch.h"

namespace
{

constexpr bool FP16 = S2_FP16;

template <class T> cudaError_t columns(const s2::BwdParams &params, int32_t n_units, cudaStream_t stream)
{
    return s2::allow_and_launch_after(s2::bwd_sm90_dkv<T>, s2_persistent_blocks(params.n_columns, n_units),
                                      T::THREADS, T::SHARED_BYTES, stream, params);
}

/* Its inputs were ready before dK and dV were launched, so it fills the SMs that they leave idle. */
template <class T> cudaError_t tiles(const s2::BwdParams &params, int32_t n_units, cudaStream_t stream)
{
    if (params.n_tiles == 0)
        return cudaSuccess;
    return s2::allow_and_launch_after(s2::bwd_sm90_dq<T>, s2_persistent_blocks(params.n_tiles, n_units),
                                      T::THREADS, T::SHARED_BYTES, stream, params);
}

template <bool ELEMENTS>
cudaError_t split_columns(const s2::BwdParams &params, int32_t n_units, cudaStream_t stream)
{
#if S2_HEAD_DIM <= 128 /* s2_kernel_column_passes() says so */
    return columns<s2::DkvConfig<S2_HEAD_DIM, FP16, s2::KEYS_AND_VALUES, ELEMENTS>>(params, n_units, stream);
#else
    const cudaError_t error =
        columns<s2::DkvConfig<S2_HEAD_DIM, FP16, s2::VALUES_ALONE, ELEMENTS>>(params, n_units, stream);
    if (error != cudaSuccess)
        return error;
    return columns<s2::DkvConfig<S2_HEAD_DIM, FP16, s2::KEYS_ALONE, ELEMENTS>>(params, n_units, stream);
#endif
}

template <bool ELEMENTS> cudaError_t split(const s2::BwdParams &params, int32_t n_units, cudaStream_t stream)
{
    const cudaError_t error = split_columns<ELEMENTS>(params, n_units, stream);
    if (error != cudaSuccess)
        return error;
    return tiles<s2::DqConfig<S2_HEAD_DIM, FP16, ELEMENTS>>(params, n_units, stream);
}

#if S2_HEAD_DIM <= 128
cudaError_t fused_columns(const s2::BwdParams &params, const s2_bwd_launch &launch, cudaStream_t stream)
{
#if S2_HEAD_DIM == 128
    if (launch.form == S2_BWD_ORDERED)
        return columns<s2::DkvConfig<S2_HEAD_DIM, FP16, s2::WITH_QUERIES_IN_ORDER, false>>(
            params, launch.n_units, stream);
#endif
    if (launch.form != S2_BWD_FUSED)
        return cudaErrorNotSupported;
    return columns<s2::DkvConfig<S2_HEAD_DIM, FP16, s2::WITH_QUERIES, false>>(params, launch.n_units, stream);
}
#endif

cudaError_t fused(const s2::BwdParams &params, const s2_bwd_launch &launch, cudaStream_t stream)
{
#if S2_HEAD_DIM <= 128
    const cudaError_t error = fused_columns(params, launch, stream);
    if (error != cudaSuccess || params.n_tiles == 0)
        return error;
    return s2::launch_after(s2::bwd_sm90_dq_convert<FP16, S2_HEAD_DIM>,
                            params.n_tiles * s2::DQ_BLOCKS<S2_HEAD_DIM>, 256, 0, stream, params);
#else
    (void)params, (void)launch, (void)stream;
    return cudaErrorNotSupported;
#endif
}

} // namespace

cudaError_t S2_BWD_SM90_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::BwdParams &params,
                                                     const s2::BwdRowParams &rows,
                                                     const s2::BwdSinkParams &sinks,
                                                     const s2_bwd_launch &launch, cudaStream_t stream)
{
    const cudaError_t error = s2::launch_rows<FP16>(rows, sinks, launch.n_rows, launch.n_seqs, stream);
    if (error != cudaSuccess)
        return error;
    if (launch.form != S2_BWD_SPLIT)
        return fused(params, launch, stream);
    return params.bits != nullptr ? split<true>(params, launch.n_units, stream)
                                  : split<false>(params, launch.n_units, stream);
}
