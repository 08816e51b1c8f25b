/*
 * kernels/cuda/decode_ptx.cuh - the instructions that decode kernels use and C++ has no words for.
 *
 * Nothing else here, so that tests/kcheck/decode_host.cpp can put its own in their place.
 */
#ifndef S2_KERNELS_CUDA_DECODE_PTX_CUH
#define S2_KERNELS_CUDA_DECODE_PTX_CUH

#include "kernels/cuda/mma.cuh"

namespace s2
{

static constexpr uint64_t DROP_FIRST = 0x12F0000000000000ull; /* as createpolicy would encode it */

/*
 * Where K and V are read only once, Hopper's L2 is told to drop them first. Rows of whole 128-byte lines
 * request a line at a time; in others half a line belongs to another head, which may never be read.
 */
template <bool ONCE, bool LINES> S2_DEVICE void cp_async16_whole(uint32_t dst, const void *src)
{
#if __CUDA_ARCH__ >= 900
    if constexpr (ONCE) {
        if constexpr (LINES)
            asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(dst),
                         "l"(src), "l"(DROP_FIRST)
                         : "memory");
        else
            asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::64B [%0], [%1], 16, %2;" ::"r"(dst),
                         "l"(src), "l"(DROP_FIRST)
                         : "memory");
        return;
    }
#endif
    if constexpr (LINES)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
    else
        asm volatile("cp.async.cg.shared.global.L2::64B [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
/* From L2, in program order: otherwise the compiler moves loads to their uses, one trip each. */
S2_DEVICE float4 load_part(const float *from)
{
    float4 x;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "l"(from));
    return x;
}
S2_DEVICE float2 load_part(const float2 *from)
{
    float2 x;
    asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from));
    return x;
}
S2_DEVICE void prefetch_to_l2(const void *from, uint32_t n_bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(n_bytes) : "memory");
#else
    (void)from;
    (void)n_bytes;
#endif
}
/* Programmatic launch: does nothing on older chips, where launches do not overlap. */
S2_DEVICE void wait_for_launch_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
S2_DEVICE void let_next_launch_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
S2_DEVICE int arrive(int32_t *counter)
{
    int before;
    asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}
S2_DEVICE uint32_t transpose8x8(uint32_t x)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}
/* Two bf16 numbers times 2^64, which is exact below 2^63. */
S2_DEVICE uint32_t times_2_64(uint32_t x)
{
    uint32_t y;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(0x5f805f80u), "r"(0x80008000u));
    return y;
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_DECODE_PTX_CUH */
