/*
 * kernels/cuda/mma.cuh - what every tensor-core kernel here uses, since Ampere: conversions, exp2, ldmatrix.
 */
#ifndef S2_KERNELS_CUDA_MMA_CUH
#define S2_KERNELS_CUDA_MMA_CUH

#include <stdint.h>

#ifndef S2_DEVICE
#define S2_DEVICE __device__ __forceinline__
#endif

namespace s2
{

static constexpr float LOG2_E = 1.44269504088896f;
static constexpr float LN_2 = 0.69314718055995f;

/* 2^x with 2 ulp of error; subnormal results are zero. */
S2_DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
S2_DEVICE float rcp_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
template <bool FP16> S2_DEVICE uint32_t pack2(float low, float high)
{
    uint32_t r;
    if constexpr (FP16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
/* Four numbers as e4m3, a in the lowest byte; beyond 448 they become 448. */
S2_DEVICE uint32_t pack4_e4m3(float a, float b, float c, float d)
{
    uint32_t r;
    asm("{\n .reg .b16 low, high;\n cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        " cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n mov.b32 %0, {low, high};\n}\n"
        : "=r"(r)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return r;
}
S2_DEVICE void ldmatrix_x4(uint32_t address, uint32_t *r)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
S2_DEVICE void ldmatrix_x4_trans(uint32_t address, uint32_t *r)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
/* c(16 x 8) += a(16 x 16) * b(16 x 8) */
template <bool FP16> S2_DEVICE void mma_16816(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    if constexpr (FP16)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* 16 bytes global to shared, asynchronously; zeros where `on` is false. */
S2_DEVICE void cp_async16(uint32_t dst, const void *src, bool on)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(on ? 16 : 0)
                 : "memory");
}
S2_DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> S2_DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_MMA_CUH */
