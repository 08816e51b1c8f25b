/*
 * kernels/cuda/fwd_sm90_extra_inst.cu - the Hopper forward with a cap or sinks, per head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16. Models with caps or sinks have head dimensions of 64, 128
 * and 256: 96 has no instance, and 256 none with sinks only.
 */
#include "kernels/cuda/fwd_sm90_inst.cuh"
#include "kernels/cuda/fwd_sm90_launch.cuh"

cudaError_t S2_FWD_SM90_EXTRA(S2_HEAD_DIM, S2_FP16)(const s2::FwdParams &params, int32_t block_tok,
                                                    int32_t n_units, cudaStream_t stream)
{
#if S2_HEAD_DIM <= 128
    if (!(params.cap.top > 0.f))
        return s2::launch_for_block<S2_HEAD_DIM, S2_FP16, s2::SINKS>(params, block_tok, n_units, stream);
#endif
    return s2::launch_for_block<S2_HEAD_DIM, S2_FP16, s2::CAPPED>(params, block_tok, n_units, stream);
}
