/*
 * kernels/cuda/decode_inst.cuh - the instances of the decode kernel, one function per head dimension and
 * type.
 *
 * C++ and CUDA only: for the files of this kernel. An instance serves every head dimension up to its own.
 * row_tiles is the rows of a chunk in eights: 1, 2, also 4 up to head dim 128, and 8 on Hopper.
 */
#ifndef S2_KERNELS_CUDA_DECODE_INST_CUH
#define S2_KERNELS_CUDA_DECODE_INST_CUH

#include <stdint.h>

#include <cuda_runtime_api.h>

namespace s2
{
struct DecodeParams;
}

#define S2_DECODE_PASTE(dim, fp16)  s2_decode_d##dim##_fp16_##fp16
#define S2_DECODE_LAUNCH(dim, fp16) S2_DECODE_PASTE(dim, fp16)
#define S2_DECODE_DIMS(X)           X(64) X(96) X(128) X(256)
#define S2_DECODE_DECLARE(dim)                                                                               \
    cudaError_t S2_DECODE_LAUNCH(dim, 0)(const s2::DecodeParams &, int32_t row_tiles, int32_t n_chunks,      \
                                         cudaStream_t);                                                      \
    cudaError_t S2_DECODE_LAUNCH(dim, 1)(const s2::DecodeParams &, int32_t row_tiles, int32_t n_chunks,      \
                                         cudaStream_t);
S2_DECODE_DIMS(S2_DECODE_DECLARE)
#undef S2_DECODE_DECLARE

/* Over K and V in e4m3; row_tiles is 1, 2, or 4 up to head dim 128. */
#define S2_DECODE_E4M3_PASTE(dim, fp16)  s2_decode_e4m3_d##dim##_fp16_##fp16
#define S2_DECODE_E4M3_LAUNCH(dim, fp16) S2_DECODE_E4M3_PASTE(dim, fp16)
#define S2_DECODE_E4M3_DIMS(X)           X(64) X(128) X(256)
#define S2_DECODE_DECLARE(dim)                                                                               \
    cudaError_t S2_DECODE_E4M3_LAUNCH(dim, 0)(const s2::DecodeParams &, int32_t row_tiles, int32_t n_chunks, \
                                              cudaStream_t);                                                 \
    cudaError_t S2_DECODE_E4M3_LAUNCH(dim, 1)(const s2::DecodeParams &, int32_t row_tiles, int32_t n_chunks, \
                                              cudaStream_t);
S2_DECODE_E4M3_DIMS(S2_DECODE_DECLARE)
#undef S2_DECODE_DECLARE

#endif /* S2_KERNELS_CUDA_DECODE_INST_CUH */
