/*
 * kernels/cuda/fwd_sm90_inst.cu - the Hopper forward for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16; holds the instances for the block sizes.
 */
#include "kernels/cuda/fwd_sm90_inst.cuh"
#include "kernels/cuda/fwd_sm90_launch.cuh"

cudaError_t S2_FWD_SM90_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::FwdParams &params, int32_t block_tok,
                                                     int32_t n_units, cudaStream_t stream)
{
    return s2::launch_for_block<S2_HEAD_DIM, S2_FP16, s2::PLAIN>(params, block_tok, n_units, stream);
}
