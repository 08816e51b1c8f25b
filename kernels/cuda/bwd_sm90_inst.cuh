/*
 * kernels/cuda/bwd_sm90_inst.cuh - the instances of the Hopper backward, one function per head dimension and
 * type.
 *
 * C++ and CUDA only: for the files of this kernel. Each queues the whole backward: row statistics, the
 * gradient of sinks if there are any, then dK and dV, then dQ; or, fused, all three and the conversion of dQ.
 * The fused form exists up to head dimension 128, the ordered one at 128.
 */
#ifndef S2_KERNELS_CUDA_BWD_SM90_INST_CUH
#define S2_KERNELS_CUDA_BWD_SM90_INST_CUH

#include <stdint.h>

#include <cuda_runtime_api.h>

namespace s2
{
struct BwdParams;
struct BwdRowParams;
struct BwdSinkParams;
} // namespace s2

typedef enum s2_bwd_form { S2_BWD_SPLIT, S2_BWD_FUSED, S2_BWD_ORDERED } s2_bwd_form;

/* What a launch needs besides the parameters of its kernels. */
typedef struct s2_bwd_launch {
    int32_t n_units;
    int32_t n_seqs;
    int64_t n_rows; /* padded rows of the longest sequence, times heads */
    s2_bwd_form form;
} s2_bwd_launch;

#define S2_BWD_SM90_PASTE(dim, fp16)  s2_bwd_sm90_d##dim##_fp16_##fp16
#define S2_BWD_SM90_LAUNCH(dim, fp16) S2_BWD_SM90_PASTE(dim, fp16)
#define S2_BWD_SM90_DIMS(X)           X(64) X(96) X(128) X(256)
#define S2_BWD_SM90_DECLARE(dim)                                                                             \
    cudaError_t S2_BWD_SM90_LAUNCH(dim, 0)(const s2::BwdParams &, const s2::BwdRowParams &,                  \
                                           const s2::BwdSinkParams &, const s2_bwd_launch &, cudaStream_t);  \
    cudaError_t S2_BWD_SM90_LAUNCH(dim, 1)(const s2::BwdParams &, const s2::BwdRowParams &,                  \
                                           const s2::BwdSinkParams &, const s2_bwd_launch &, cudaStream_t);
S2_BWD_SM90_DIMS(S2_BWD_SM90_DECLARE)
#undef S2_BWD_SM90_DECLARE

#endif /* S2_KERNELS_CUDA_BWD_SM90_INST_CUH */
