/*
 * kernels/cuda/fwd_sm90_inst.cuh - the instances of the Hopper forward, one function per head dimension and
 * type.
 *
 * C++ and CUDA only: for the files of this kernel. Each launches for one block size of 16, 32, 64 or 128
 * tokens (head dimension 256: at most 64) and returns the runtime's status. The EXTRA ones are for a cap or
 * sinks; 96 has none.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM90_INST_CUH
#define S2_KERNELS_CUDA_FWD_SM90_INST_CUH

#include <stdint.h>

#include <cuda_runtime_api.h>

namespace s2
{
struct FwdParams;
}

#define S2_FWD_SM90_PASTE(dim, fp16)       s2_fwd_sm90_d##dim##_fp16_##fp16
#define S2_FWD_SM90_PASTE_EXTRA(dim, fp16) s2_fwd_sm90_extra_d##dim##_fp16_##fp16
#define S2_FWD_SM90_LAUNCH(dim, fp16)      S2_FWD_SM90_PASTE(dim, fp16)
#define S2_FWD_SM90_EXTRA(dim, fp16)       S2_FWD_SM90_PASTE_EXTRA(dim, fp16)
#define S2_FWD_SM90_DIMS(X)                X(64) X(96) X(128) X(256)
#define S2_FWD_SM90_EXTRA_DIMS(X)          X(64) X(128) X(256)
#define S2_FWD_SM90_DECLARE(dim)                                                                             \
    cudaError_t S2_FWD_SM90_LAUNCH(dim, 0)(const s2::FwdParams &, int32_t block_tok, int32_t n_units,        \
                                           cudaStream_t);                                                    \
    cudaError_t S2_FWD_SM90_LAUNCH(dim, 1)(const s2::FwdParams &, int32_t block_tok, int32_t n_units,        \
                                           cudaStream_t);
#define S2_FWD_SM90_DECLARE_EXTRA(dim)                                                                       \
    cudaError_t S2_FWD_SM90_EXTRA(dim, 0)(const s2::FwdParams &, int32_t block_tok, int32_t n_units,         \
                                          cudaStream_t);                                                     \
    cudaError_t S2_FWD_SM90_EXTRA(dim, 1)(const s2::FwdParams &, int32_t block_tok, int32_t n_units,         \
                                          cudaStream_t);
/* e4m3: one head dimension, 128, and the type of the output. */
#define S2_FWD_SM90_E4M3(fp16) s2_fwd_sm90_e4m3_fp16_##fp16
cudaError_t S2_FWD_SM90_E4M3(0)(const s2::FwdParams &, int32_t block_tok, int32_t n_units, cudaStream_t);
cudaError_t S2_FWD_SM90_E4M3(1)(const s2::FwdParams &, int32_t block_tok, int32_t n_units, cudaStream_t);
S2_FWD_SM90_DIMS(S2_FWD_SM90_DECLARE)
S2_FWD_SM90_EXTRA_DIMS(S2_FWD_SM90_DECLARE_EXTRA)
#undef S2_FWD_SM90_DECLARE_EXTRA
#undef S2_FWD_SM90_DECLARE

#endif /* S2_KERNELS_CUDA_FWD_SM90_INST_CUH */
