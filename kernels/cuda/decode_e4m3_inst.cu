/*
 * kernels/cuda/decode_e4m3_inst.cu - the decode kernel over K and V of eight bits, for one head dimension and
 * type of the queries.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16. One instance takes caps and sinks too: what they add is
 * little compared with the bytes that must come. Head dimension 96 is served by the instance for 128.
 */
#include "kernels/cuda/decode_launch.cuh"

#include "kernels/cuda/decode_inst.cuh"

namespace
{

template <int TILES> cudaError_t narrow(const s2::DecodeParams &params, int32_t n_chunks, cudaStream_t stream)
{
    typedef s2::DecodeShape<S2_HEAD_DIM, TILES, S2_FP16, true, true> Shape;
    return s2::launch_decode<Shape>(s2::decode<Shape>, params, n_chunks, stream);
}

} // namespace

cudaError_t S2_DECODE_E4M3_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::DecodeParams &params, int32_t row_tiles,
                                                        int32_t n_chunks, cudaStream_t stream)
{
    if (row_tiles == 1)
        return narrow<1>(params, n_chunks, stream);
#if S2_HEAD_DIM <= 128
    if (row_tiles == 4)
        return narrow<4>(params, n_chunks, stream);
#endif
    return narrow<2>(params, n_chunks, stream);
}
