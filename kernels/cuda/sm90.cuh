/*
 * kernels/cuda/sm90.cuh - the Hopper instructions that CUDA C++ does not offer.
 *
 * mbarriers, the bulk tensor copy engine (TMA), register reallocation, wgmma and its shared-memory
 * descriptors. Thin: one function is one instruction. Shared addresses are 32-bit.
 *
 * Learned on the device, and not in any manual: a TMA load may start at negative coordinates (which read as
 * zero), a TMA store may not (illegal instruction): it may only overhang at the far end.
 */
#ifndef S2_KERNELS_CUDA_SM90_CUH
#define S2_KERNELS_CUDA_SM90_CUH

#include <cuda.h>
#include <stdint.h>

#define S2_DEVICE __device__ __forceinline__

namespace s2
{

S2_DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- mbarrier ---- */

S2_DEVICE void mbar_init(uint32_t bar, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
S2_DEVICE void mbar_fence_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
S2_DEVICE void mbar_expect_tx(uint32_t bar, uint32_t n_bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(n_bytes)
                 : "memory");
}
S2_DEVICE void mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* Predicated rather than branched: a branch with a wgmma in flight makes ptxas serialise the kernel. */
S2_DEVICE void mbar_arrive_if(uint32_t bar, bool on)
{
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %1, 0;\n"
                 " @p mbarrier.arrive.shared::cta.b64 _, [%0];\n}\n" ::"r"(bar),
                 "r"((int)on)
                 : "memory");
}
/*
 * Lane 0 arrives for its warp, after a __syncwarp(). A race checker that follows barriers thread by thread
 * does not see what the other lanes did before that; only for its sake, every lane arrives under
 * S2_EVERY_LANE (make sanitize-gpu); nothing else differs.
 */
#ifdef S2_EVERY_LANE
static constexpr int WARP_ARRIVALS = 32;
#else
static constexpr int WARP_ARRIVALS = 1;
#endif
S2_DEVICE bool lane_arrives(int lane)
{
    return WARP_ARRIVALS > 1 || lane == 0;
}
S2_DEVICE void mbar_warp_arrive(uint32_t bar, int lane)
{
    mbar_arrive_if(bar, lane_arrives(lane));
}
S2_DEVICE void mbar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n .reg .pred p;\n"
                 "W_%=:\n"
                 " mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 " @p bra D_%=;\n"
                 " bra W_%=;\n"
                 "D_%=:\n}\n" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* Whether the phase has ended, without waiting for it. */
S2_DEVICE bool mbar_test(uint32_t bar, uint32_t parity)
{
    int ended;
    asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 " selp.s32 %0, 1, 0, p;\n}\n"
                 : "=r"(ended)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return ended != 0;
}

/* ---- the bulk tensor copy engine ---- */

/* Cache policies as createpolicy would encode them: drop first, keep as long as possible. */
static constexpr uint64_t L2_EVICT_FIRST = 0x12F0000000000000ull;
static constexpr uint64_t L2_EVICT_LAST = 0x14F0000000000000ull;

S2_DEVICE void tma_prefetch_map(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"((uint64_t)map) : "memory");
}
S2_DEVICE void tma_load_3d(uint32_t dst, const CUtensorMap *map, uint32_t bar, int c0, int c1, int c2,
                           uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
                 "l"((uint64_t)map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
                 : "memory");
}
/* A run of bytes, all a multiple of 16. */
S2_DEVICE void bulk_load(uint32_t dst, const void *src, uint32_t n_bytes, uint32_t bar, uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1], %2, [%3], %4;" ::"r"(dst),
                 "l"((uint64_t)__cvta_generic_to_global(src)), "r"(n_bytes), "r"(bar), "l"(policy)
                 : "memory");
}
S2_DEVICE void tma_store_3d(const CUtensorMap *map, uint32_t src, int c0, int c1, int c2)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                     (uint64_t)map),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2)
                 : "memory");
}
S2_DEVICE void bulk_commit()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int N> S2_DEVICE void bulk_wait_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> S2_DEVICE void bulk_wait()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
/* For a tensor map that an earlier launch wrote: this thread's later copies see the new map. */
S2_DEVICE void fence_map(const CUtensorMap *map)
{
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"((uint64_t)map) : "memory");
}
S2_DEVICE void fence_async_shared()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- registers ---- */

template <int R> S2_DEVICE void registers_raise()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(R));
}
template <int R> S2_DEVICE void registers_lower()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(R));
}

/* ---- wgmma ---- */

S2_DEVICE void wg_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
S2_DEVICE void wg_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> S2_DEVICE void wg_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* Keeps the compiler from moving accesses of an accumulator across the groups that write it. */
template <int N> S2_DEVICE void wg_pin(float *d)
{
#pragma unroll
    for (int r = 0; r < N; ++r)
        asm volatile("" : "+f"(d[r])::"memory");
}
/* The accumulator's old contents are not read: its registers are free until here. */
template <int N> S2_DEVICE void wg_fresh(float *d)
{
#pragma unroll
    for (int r = 0; r < N; ++r)
        asm volatile("" : "=f"(d[r]));
}

/*
 * ptxas hoists a wait above arithmetic that does not depend on it, which would end the overlap of the
 * exponentials with the product in flight. A volatile store that finite data never takes ties it.
 */
S2_DEVICE void order_after(float x, uint32_t scratch)
{
    asm volatile(
        "{\n .reg .pred p;\n setp.gt.f32 p, %0, 0f7F000000;\n @p st.volatile.shared.f32 [%1], %0;\n}\n" ::"f"(
            x),
        "r"(scratch)
        : "memory");
}

/*
 * Descriptor of a tile with the 128-byte swizzle, from its two words; only the low one varies. Low: address
 * and the distance between 64-element chunks (MN-major operands only), both in units of 16 bytes. High: 1024
 * bytes between groups of 8 rows, swizzle mode 1.
 */
static constexpr uint32_t DESC_HIGH = (1024u >> 4) | (1u << 30);
S2_DEVICE uint32_t desc_low(uint32_t address, uint32_t chunk_bytes)
{
    return ((address & 0x3FFFF) >> 4) | ((chunk_bytes >> 4) << 16);
}
S2_DEVICE uint64_t desc(uint32_t low)
{
    uint64_t d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "r"(DESC_HIGH));
    return d;
}
/*
 * The same of a K-major tile without a swizzle: 8 rows of 16 bytes lie together, the next 8 behind them, and the
 * next 16 bytes of all rows are further by what desc_low() takes as the distance.
 */
S2_DEVICE uint64_t desc_plain(uint32_t low)
{
    uint64_t d;
    asm("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "r"(128u >> 4));
    return d;
}
/* Byte offset inside a 1024-byte aligned tile of 128-byte rows, after the swizzle. */
S2_DEVICE uint32_t swizzle128(uint32_t offset)
{
    return offset ^ ((offset >> 3) & 0x70);
}

#define S2_C1(o)   "+f"(d[o])
#define S2_C4(o)   S2_C1(o), S2_C1(o + 1), S2_C1(o + 2), S2_C1(o + 3)
#define S2_C16(o)  S2_C4(o), S2_C4(o + 4), S2_C4(o + 8), S2_C4(o + 12)
#define S2_C32(o)  S2_C16(o), S2_C16(o + 16)
#define S2_C64(o)  S2_C32(o), S2_C32(o + 32)
#define S2_C128(o) S2_C64(o), S2_C64(o + 64)
#define S2_R0_31                                                                                             \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
    "%28,%29,%30,%31"
#define S2_R0_15  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S2_R32_47 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S2_R32_63 S2_R32_47 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define S2_R64_127                                                                                           \
    "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,"   \
    "%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,"    \
    "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/*
 * d(64 x N, fp32) (+)= A * B with A from shared memory (ss) or registers (rs). TRANS_B: 0 = B is K-major
 * (rows of keys for S = Q K^T), 1 = MN-major (rows of values for O += P V).
 */
template <bool FP16, int N> struct Wgmma;
#define S2_WGMMA(FP16, TYPE, N, OUT, ACC, a0, a1, a2, a3, rb, rp, rt, sa, sb, sp, st)                        \
    template <> struct Wgmma<FP16, N> {                                                                      \
        template <int TRANS_B>                                                                               \
        static S2_DEVICE void rs(float *d, const uint32_t *a, uint64_t b, int accumulate)                    \
        {                                                                                                    \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #rp ", 0;\n"                                 \
                         " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" OUT           \
                         "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #rb ", p, 1, 1, %" #rt ";\n}\n"       \
                         : ACC                                                                               \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),              \
                           "n"(TRANS_B));                                                                    \
        }                                                                                                    \
        template <int TRANS_B> static S2_DEVICE void ss(float *d, uint64_t a, uint64_t b, int accumulate)    \
        {                                                                                                    \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #sp ", 0;\n"                                 \
                         " wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" OUT           \
                         "}, %" #sa ", %" #sb ", p, 1, 1, 0, %" #st ";\n}\n"                                 \
                         : ACC                                                                               \
                         : "l"(a), "l"(b), "r"(accumulate), "n"(TRANS_B));                                   \
        }                                                                                                    \
    };
#define S2_COMMA ,
#define S2_WGMMA_TYPE(FP16, TYPE)                                                                            \
    S2_WGMMA(FP16, TYPE, 32, S2_R0_15, S2_C16(0), 16, 17, 18, 19, 20, 21, 22, 16, 17, 18, 19)                \
    S2_WGMMA(FP16, TYPE, 64, S2_R0_31, S2_C32(0), 32, 33, 34, 35, 36, 37, 38, 32, 33, 34, 35)                \
    S2_WGMMA(FP16, TYPE, 96, S2_R0_31 "," S2_R32_47, S2_C32(0) S2_COMMA S2_C16(32), 48, 49, 50, 51, 52, 53,  \
             54, 48, 49, 50, 51)                                                                             \
    S2_WGMMA(FP16, TYPE, 128, S2_R0_31 "," S2_R32_63, S2_C64(0), 64, 65, 66, 67, 68, 69, 70, 64, 65, 66, 67) \
    S2_WGMMA(FP16, TYPE, 256, S2_R0_31 "," S2_R32_63 "," S2_R64_127, S2_C128(0), 128, 129, 130, 131, 132,    \
             133, 134, 128, 129, 130, 131)
S2_WGMMA_TYPE(false, "bf16")
S2_WGMMA_TYPE(true, "f16")

/* The same with operands in e4m3, of which 32 go into a product at a time. B is K-major: there is no other. */
template <int N> struct WgmmaE4m3;
#define S2_WGMMA_E4M3(N, OUT, ACC, a0, a1, a2, a3, rb, rp, sa, sb, sp)                                       \
    template <> struct WgmmaE4m3<N> {                                                                        \
        template <int TRANS_B>                                                                               \
        static S2_DEVICE void rs(float *d, const uint32_t *a, uint64_t b, int accumulate)                    \
        {                                                                                                    \
            static_assert(TRANS_B == 0, "K-major");                                                          \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #rp ", 0;\n"                                 \
                         " wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" OUT "}, {%" #a0       \
                         ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #rb ", p, 1, 1;\n}\n"                             \
                         : ACC                                                                               \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));             \
        }                                                                                                    \
        template <int TRANS_B> static S2_DEVICE void ss(float *d, uint64_t a, uint64_t b, int accumulate)    \
        {                                                                                                    \
            static_assert(TRANS_B == 0, "K-major");                                                          \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %" #sp ", 0;\n"                                 \
                         " wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" OUT "}, %" #sa        \
                         ", %" #sb ", p, 1, 1;\n}\n"                                                         \
                         : ACC                                                                               \
                         : "l"(a), "l"(b), "r"(accumulate));                                                 \
        }                                                                                                    \
    };
S2_WGMMA_E4M3(64, S2_R0_31, S2_C32(0), 32, 33, 34, 35, 36, 37, 32, 33, 34)
S2_WGMMA_E4M3(128, S2_R0_31 "," S2_R32_63, S2_C64(0), 64, 65, 66, 67, 68, 69, 64, 65, 66)

/* ---- small ones ---- */

S2_DEVICE int4 load_shared4(uint32_t address)
{
    int4 x;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}
S2_DEVICE void store_shared4(uint32_t address, int4 x)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z),
                 "r"(x.w)
                 : "memory");
}
S2_DEVICE void stmatrix_x4(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_SM90_CUH */
