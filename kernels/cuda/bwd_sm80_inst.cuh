/*
 * kernels/cuda/bwd_sm80_inst.cuh - the instances of the portable backward, one function per head dimension
 * and type.
 *
 * C++ and CUDA only: for the files of this kernel. An instance serves every head dimension up to its own.
 * Each queues row statistics, then the gradient of sinks if there are any, dK and dV, and dQ.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM80_INST_CUH
#define S2_KERNELS_CUDA_BWD_SM80_INST_CUH

#include <stdint.h>

#include <cuda_runtime_api.h>

namespace s2
{
struct Sm80BwdParams;
struct BwdRowParams;
struct BwdSinkParams;
} // namespace s2

#define S2_BWD_SM80_PASTE(dim, fp16)  s2_bwd_sm80_d##dim##_fp16_##fp16
#define S2_BWD_SM80_LAUNCH(dim, fp16) S2_BWD_SM80_PASTE(dim, fp16)
#define S2_BWD_SM80_DIMS(X)           X(64) X(96) X(128) X(256)
#define S2_BWD_SM80_DECLARE(dim)                                                                             \
    cudaError_t S2_BWD_SM80_LAUNCH(dim, 0)(const s2::Sm80BwdParams &, const s2::BwdRowParams &,              \
                                           const s2::BwdSinkParams &, int64_t n_rows, int32_t n_seqs,        \
                                           cudaStream_t);                                                    \
    cudaError_t S2_BWD_SM80_LAUNCH(dim, 1)(const s2::Sm80BwdParams &, const s2::BwdRowParams &,              \
                                           const s2::BwdSinkParams &, int64_t n_rows, int32_t n_seqs,        \
                                           cudaStream_t);
S2_BWD_SM80_DIMS(S2_BWD_SM80_DECLARE)
#undef S2_BWD_SM80_DECLARE

#endif /* S2_KERNELS_CUDA_BWD_SM80_INST_CUH */
