/*
 * kernels/cuda/decode_inst.cu - the decode kernel for one head dimension and type.
 *
 * Compiled once for each S2_HEAD_DIM and S2_FP16.
 */
#include "kernels/cuda/decode_sm90.cuh"

#include "kernels/cuda/decode_launch.cuh"

#include "kernels/cuda/decode_inst.cuh"

namespace
{

template <int TILES, bool EXTRA>
cudaError_t narrow(const s2::DecodeParams &params, int32_t n_chunks, cudaStream_t stream)
{
    typedef s2::DecodeShape<S2_HEAD_DIM, TILES, S2_FP16, EXTRA> Shape;
    return s2::launch_decode<Shape>(s2::decode<Shape>, params, n_chunks, stream);
}

template <bool EXTRA>
cudaError_t launch_step(const s2::DecodeParams &params, int32_t row_tiles, int32_t n_chunks,
                        cudaStream_t stream)
{
    if (row_tiles == 1)
        return narrow<1, EXTRA>(params, n_chunks, stream);
    if (row_tiles == 8) {
        typedef s2::WideShape<S2_HEAD_DIM, S2_FP16, EXTRA> Shape;
        return s2::launch_decode<Shape>(s2::decode_wide<Shape>, params, n_chunks, stream);
    }
#if S2_HEAD_DIM <= 128
    if (row_tiles == 4)
        return narrow<4, EXTRA>(params, n_chunks, stream);
#endif
    return narrow<2, EXTRA>(params, n_chunks, stream);
}

} // namespace

/* Head dimension 96 has no instance for caps and sinks: the one for 128 serves it. */
cudaError_t S2_DECODE_LAUNCH(S2_HEAD_DIM, S2_FP16)(const s2::DecodeParams &params, int32_t row_tiles,
                                                   int32_t n_chunks, cudaStream_t stream)
{
#if S2_HEAD_DIM != 96
    if (params.cap.top > 0.f || params.sink != nullptr)
        return launch_step<true>(params, row_tiles, n_chunks, stream);
#endif
    return launch_step<false>(params, row_tiles, n_chunks, stream);
}
