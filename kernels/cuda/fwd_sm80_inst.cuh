/*
 * kernels/cuda/fwd_sm80_inst.cuh - the instances of the portable forward, one function per head dimension and
 * type.
 *
 * C++ and CUDA only: for the files of this kernel. An instance serves every head dimension up to its own.
 */
#ifndef S2_KERNELS_CUDA_FWD_SM80_INST_CUH
#define S2_KERNELS_CUDA_FWD_SM80_INST_CUH

#include <stdint.h>

#include <cuda_runtime_api.h>

namespace s2
{
struct Sm80Params;
}

#define S2_FWD_SM80_PASTE(dim, fp16)  s2_fwd_sm80_d##dim##_fp16_##fp16
#define S2_FWD_SM80_LAUNCH(dim, fp16) S2_FWD_SM80_PASTE(dim, fp16)
#define S2_FWD_SM80_DIMS(X)           X(64) X(96) X(128) X(256)
#define S2_FWD_SM80_DECLARE(dim)                                                                             \
    cudaError_t S2_FWD_SM80_LAUNCH(dim, 0)(const s2::Sm80Params &, int32_t n_items, cudaStream_t);           \
    cudaError_t S2_FWD_SM80_LAUNCH(dim, 1)(const s2::Sm80Params &, int32_t n_items, cudaStream_t);
S2_FWD_SM80_DIMS(S2_FWD_SM80_DECLARE)
#undef S2_FWD_SM80_DECLARE

#endif /* S2_KERNELS_CUDA_FWD_SM80_INST_CUH */
