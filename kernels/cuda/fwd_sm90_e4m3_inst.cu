/*
 * kernels/cuda/fwd_sm90_e4m3_inst.cu - the Hopper forward with products of eight bits, per type of the output.
 *
 * Compiled for S2_HEAD_DIM 128, which serves the head dimensions below, once for each S2_FP16.
 */
#include "kernels/cuda/fwd_sm90_e4m3.cuh"
#include "kernels/cuda/fwd_sm90_inst.cuh"
#include "kernels/cuda/fwd_sm90_launch.cuh"

#if S2_FP16
#define S2_E4M3_NAME S2_FWD_SM90_E4M3(1)
#else
#define S2_E4M3_NAME S2_FWD_SM90_E4M3(0)
#endif

cudaError_t S2_E4M3_NAME(const s2::FwdParams &params, int32_t block_tok, int32_t n_units, cudaStream_t stream)
{
    return s2::launch_for_block<S2_HEAD_DIM, S2_FP16, s2::PLAIN, true>(params, block_tok, n_units, stream);
}
