/*
 * tests/kcheck/fibers.hpp - enough of CUDA for device code to run on the host: threads are fibers.
 *
 * A block runs at a time; its threads take turns, and change at barriers. Instructions of a warp wait for its
 * lanes. Copies to shared memory arrive when they are waited for, not before. To be included before any header
 * of kernels/cuda, of which it takes the place of mma.cuh, decode_ptx.cuh and sm90.cuh.
 */
#ifndef S2_TESTS_KCHECK_FIBERS_HPP
#define S2_TESTS_KCHECK_FIBERS_HPP

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "kernels/float16.h"

/* ------------------------------------------------------------------ CUDA's words */

#define S2_DEVICE  inline
#define __global__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   thread_local /* one block runs at a time, in one thread of the host */
#define CUDART_INF_F INFINITY

struct float2 {
    float x, y;
};
struct uint2 {
    uint32_t x, y;
};
struct uint4 {
    uint32_t x, y, z, w;
};
struct int4 {
    int32_t x, y, z, w;
};
struct float4 {
    float x, y, z, w;
};
struct dim3 {
    int x, y;
};
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
inline float __uint_as_float(uint32_t x)
{
    return s2_bits_float(x);
}
inline uint32_t __float_as_uint(float x)
{
    return s2_float_bits(x);
}
template <class T> T __ldg(const T *from)
{
    return *from;
}
template <class T> T __ldcg(const T *from)
{
    return *from;
}
template <class T> void __stcg(T *to, T x)
{
    *to = x;
}
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t order)
{
    const uint64_t bytes = (uint64_t)y << 32 | x;
    uint32_t out = 0;
    for (int at = 0; at < 4; at++)
        out |= (uint32_t)(bytes >> (order >> 4 * at & 7) * 8 & 0xff) << 8 * at;
    return out;
}
inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((uint32_t)x);
}
inline void __threadfence() {}
inline uint32_t atomicAdd(uint32_t *to, uint32_t x)
{
    return (*to += x) - x;
}
using std::max;
using std::min;

/* ------------------------------------------------------------------ fibers for threads */

enum { LIMIT_THREADS = 1024, STACK_BYTES = 64 << 10, LIMIT_SHARED_BYTES = 227 << 10 };

struct Barrier {
    int n_arrived, generation;
};
struct Copy {
    uint32_t to;
    const void *from; /* NULL: zeros */
    int group;
};
struct Fiber {
    ucontext_t context;
    dim3 thread;
    bool done;
    std::vector<Copy> copies; /* under way */
    int n_groups;
};
inline struct Grid {
    Fiber fibers[LIMIT_THREADS];
    ucontext_t main;
    int n, now;
    Barrier block, warps[LIMIT_THREADS / 32];
    uint32_t lanes[LIMIT_THREADS];
    uint32_t operands[LIMIT_THREADS][6]; /* of a matrix product */
    void (*body)();
} grid;
inline dim3 blockIdx, threadIdx, gridDim;

inline void yield()
{
    Fiber *const self = &grid.fibers[grid.now];
    swapcontext(&self->context, &grid.main);
    threadIdx = self->thread;
}
inline void wait_at(Barrier *barrier, int n)
{
    const int generation = barrier->generation;
    if (++barrier->n_arrived == n) {
        barrier->n_arrived = 0;
        barrier->generation++;
    }
    while (barrier->generation == generation)
        yield();
}
inline void __syncthreads()
{
    wait_at(&grid.block, grid.n);
}
inline void __syncwarp()
{
    wait_at(&grid.warps[threadIdx.x / 32], 32);
}
/* What make() makes of all that the lanes of the warp gave. */
template <class Make> auto together(uint32_t x, Make make)
{
    const int self = threadIdx.x;
    grid.lanes[self] = x;
    __syncwarp();
    const auto made = make(&grid.lanes[self & ~31]);
    __syncwarp();
    return made;
}
inline uint32_t __shfl_sync(uint32_t, uint32_t x, int from)
{
    return together(x, [&](const uint32_t *lanes) { return lanes[from & 31]; });
}
inline int __shfl_sync(uint32_t all, int x, int from)
{
    return (int)__shfl_sync(all, (uint32_t)x, from);
}
inline float __shfl_sync(uint32_t all, float x, int from)
{
    return __uint_as_float(__shfl_sync(all, __float_as_uint(x), from));
}
inline float __shfl_xor_sync(uint32_t all, float x, int with)
{
    return __shfl_sync(all, x, (threadIdx.x & 31) ^ with);
}
inline uint32_t __shfl_up_sync(uint32_t all, uint32_t x, int by)
{
    const int lane = threadIdx.x & 31;
    return __shfl_sync(all, x, lane >= by ? lane - by : lane);
}
inline uint32_t __reduce_or_sync(uint32_t, uint32_t x)
{
    return together(x, [](const uint32_t *lanes) {
        uint32_t all = 0;
        for (int lane = 0; lane < 32; lane++)
            all |= lanes[lane];
        return all;
    });
}
inline bool __any_sync(uint32_t all, bool x)
{
    return __reduce_or_sync(all, x) != 0;
}

inline void fiber_main()
{
    grid.body();
    grid.fibers[grid.now].done = true;
    swapcontext(&grid.fibers[grid.now].context, &grid.main);
}

inline void run_block(int n_threads, void (*body)())
{
    static std::vector<char> stacks((size_t)LIMIT_THREADS * STACK_BYTES);
    grid.n = n_threads;
    grid.body = body;
    grid.block = {};
    memset(grid.warps, 0, sizeof grid.warps);
    for (int x = 0; x < n_threads; x++) {
        Fiber *const fiber = &grid.fibers[x];
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = &stacks[(size_t)x * STACK_BYTES];
        fiber->context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&fiber->context, fiber_main, 0);
        fiber->thread = {x, 0};
        fiber->done = false;
        fiber->copies.clear();
        fiber->n_groups = 0;
    }
    for (int left = n_threads; left > 0;)
        for (int x = 0; x < n_threads; x++) {
            if (grid.fibers[x].done)
                continue;
            grid.now = x;
            threadIdx = grid.fibers[x].thread;
            swapcontext(&grid.main, &grid.fibers[x].context);
            left -= grid.fibers[x].done;
        }
}

/* ------------------------------------------------------------------ instructions */

#define S2_KERNELS_CUDA_MMA_CUH
#define S2_KERNELS_CUDA_DECODE_PTX_CUH
#define S2_KERNELS_CUDA_SM90_CUH
#define __CUDA_ARCH_FEAT_SM90_ALL

namespace s2
{

static constexpr float LOG2_E = 1.44269504088896f;
static constexpr float LN_2 = 0.69314718055995f;
alignas(1024) thread_local uint8_t raw[LIMIT_SHARED_BYTES]; /* what kernels declare as extern */

} // namespace s2

/* Addresses in shared memory count from its beginning. */
inline uint64_t __cvta_generic_to_shared(const void *at)
{
    return (uint64_t)((const uint8_t *)at - s2::raw);
}

namespace s2
{

inline float exp2_fast(float x)
{
    return exp2f(x);
}
inline float rcp_fast(float x)
{
    return 1.f / x;
}
template <bool FP16> uint32_t pack2(float low, float high)
{
    return FP16 ? s2_f16_of_float(low) | (uint32_t)s2_f16_of_float(high) << 16
                : s2_bf16_of_float(low) | (uint32_t)s2_bf16_of_float(high) << 16;
}
template <bool FP16> float half_of(uint32_t word, int which)
{
    const uint16_t bits = (uint16_t)(word >> 16 * which);
    return FP16 ? s2_f16_to_float(bits) : s2_bf16_to_float(bits);
}
inline uint32_t times_2_64(uint32_t x)
{
    return pack2<false>(half_of<false>(x, 0) * 0x1p64f, half_of<false>(x, 1) * 0x1p64f);
}
/* Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8. */
template <bool TRANS> void load_matrices(uint32_t address, uint32_t *r)
{
    const int lane = threadIdx.x & 31;
    struct Four {
        uint32_t word[4];
    };
    const Four four = together(address, [&](const uint32_t *rows) {
        Four made = {};
        for (int matrix = 0; matrix < 4; matrix++)
            for (int half = 0; half < 2; half++) {
                const int row = TRANS ? lane % 4 * 2 + half : lane / 4;
                const int column = TRANS ? lane / 4 : lane % 4 * 2 + half;
                uint16_t bits;
                memcpy(&bits, raw + rows[matrix * 8 + row] + column * 2, sizeof bits);
                made.word[matrix] |= (uint32_t)bits << 16 * half;
            }
        return made;
    });
    memcpy(r, four.word, sizeof four.word);
}
inline void ldmatrix_x4(uint32_t address, uint32_t *r)
{
    load_matrices<false>(address, r);
}
inline void ldmatrix_x4_trans(uint32_t address, uint32_t *r)
{
    load_matrices<true>(address, r);
}
/* The transpose of an 8 x 8 matrix, of which lane l holds two numbers of row l / 4. */
inline uint32_t transpose8x8(uint32_t x)
{
    const int lane = threadIdx.x & 31;
    return together(x, [&](const uint32_t *lanes) {
        uint32_t out = 0;
        for (int half = 0; half < 2; half++) {
            const int row = lane % 4 * 2 + half, column = lane / 4;
            out |= (lanes[row * 4 + column / 2] >> column % 2 * 16 & 0xffffu) << 16 * half;
        }
        return out;
    });
}
/* Number k of 16 in a row that its four lanes gave: 0..7 in word `low`, 8..15 in word `high`. */
template <bool FP16> float element(int row, int low, int high, int k)
{
    const int lane = (threadIdx.x & ~31) + row * 4 + k % 8 / 2;
    return half_of<FP16>(grid.operands[lane][k < 8 ? low : high], k % 2);
}
template <bool FP16> void mma_16816(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    const int lane = threadIdx.x & 31, row = lane / 4, column = lane % 4 * 2;
    uint32_t *const own = grid.operands[threadIdx.x];
    std::copy(a, a + 4, own);
    own[4] = b0;
    own[5] = b1;
    __syncwarp();
    for (int x = 0; x < 4; x++)
        for (int k = 0; k < 16; k++)
            c[x] += element<FP16>(row, x / 2, x / 2 + 2, k) * element<FP16>(column + x % 2, 4, 5, k);
    __syncwarp();
}

/* Copies of 16 bytes, which are there once their group has been waited for. */
inline void cp_async16(uint32_t dst, const void *src, bool on)
{
    Fiber *const self = &grid.fibers[grid.now];
    self->copies.push_back({dst, on ? src : nullptr, self->n_groups});
}
template <bool, bool> void cp_async16_whole(uint32_t dst, const void *src)
{
    cp_async16(dst, src, true);
}
inline void cp_async_commit()
{
    grid.fibers[grid.now].n_groups++;
}
template <int N> void cp_async_wait()
{
    Fiber *const self = &grid.fibers[grid.now];
    size_t done = 0;
    for (; done < self->copies.size() && self->copies[done].group < self->n_groups - N; done++) {
        const Copy copy = self->copies[done];
        memset(raw + copy.to, 0, 16);
        if (copy.from != nullptr)
            memcpy(raw + copy.to, copy.from, 16);
    }
    self->copies.erase(self->copies.begin(), self->copies.begin() + (ptrdiff_t)done);
}
template <class T> T load_part(const T *from)
{
    return *from;
}
inline float4 load_part(const float *from)
{
    return {from[0], from[1], from[2], from[3]};
}
inline void prefetch_to_l2(const void *, uint32_t) {}
inline void wait_for_launch_before() {}
inline void let_next_launch_begin() {}
inline int arrive(int32_t *counter)
{
    return (*counter)++;
}

/* ------------------------------------------------------------------ Hopper's products of four warps */

inline void fence_async_shared() {}
inline void wg_fence() {}
inline void wg_commit() {}
template <int N> void wg_wait() {}
template <int N> void wg_pin(float *) {}
inline uint32_t swizzle128(uint32_t offset)
{
    return offset ^ (offset >> 3 & 0x70);
}
inline uint32_t desc_low(uint32_t address, uint32_t chunk_bytes)
{
    return address >> 4 | chunk_bytes >> 4 << 16;
}
inline uint64_t desc(uint32_t low)
{
    return low;
}
/* A number of a tile in shared memory: rows of 128 bytes, and the next 64 columns of all rows a chunk further. */
template <bool FP16> float in_tile(uint64_t tile, int row, int column)
{
    const uint32_t begin = (uint32_t)(tile & 0xffff) << 4, chunk_bytes = (uint32_t)(tile >> 16) << 4;
    const uint32_t chunk = (uint32_t)column / 64, from = (uint32_t)(row * 128 + column % 64 * 2);
    uint16_t bits;
    memcpy(&bits, raw + swizzle128(begin + chunk * chunk_bytes + from), sizeof bits);
    return half_of<FP16>(bits, 0);
}
/* d(64 x N) (+)= A(64 x 16) B(16 x N): a row of B's tile is a column of B or, with TRANS_B, a row. */
template <bool FP16, int N> struct Wgmma {
    template <int TRANS_B, class A> static void multiply(float *d, A a, uint64_t b, int accumulate)
    {
        for (int x = 0; x < N / 2; x++) {
            const int column = x / 4 * 8 + threadIdx.x % 4 * 2 + x % 2;
            float sum = accumulate ? d[x] : 0.f;
            for (int k = 0; k < 16; k++)
                sum += a(x / 2 % 2, k) *
                       (TRANS_B ? in_tile<FP16>(b, k, column) : in_tile<FP16>(b, column, k));
            d[x] = sum;
        }
    }
    template <int TRANS_B> static void ss(float *d, uint64_t a, uint64_t b, int accumulate)
    {
        const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
        multiply<TRANS_B>(
            d, [&](int half, int k) { return in_tile<FP16>(a, row + 8 * half, k); }, b, accumulate);
    }
    template <int TRANS_B> static void rs(float *d, const uint32_t *a, uint64_t b, int accumulate)
    {
        std::copy(a, a + 4, grid.operands[threadIdx.x]);
        __syncwarp();
        const int row = threadIdx.x % 32 / 4;
        multiply<TRANS_B>(
            d, [&](int half, int k) { return element<FP16>(row, half, half + 2, k); }, b, accumulate);
        __syncwarp();
    }
};

} // namespace s2

#endif /* S2_TESTS_KCHECK_FIBERS_HPP */
