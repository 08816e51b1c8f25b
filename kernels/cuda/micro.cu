#include "kernels/cuda/internal.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90.cuh"

namespace
{

constexpr int THREADS = 512, CONSUMERS = 256;

/* Eight loads in flight per thread; the sum is never stored, but the compiler cannot know that. */
__global__ void __launch_bounds__(THREADS) read_all(const uint4 *from, int64_t n, int rounds, uint32_t *never)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    uint32_t sum = 0;
    for (int round = 0; round < rounds; ++round)
        for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < n; at += 8 * step) {
            uint4 x[8];
#pragma unroll
            for (int r = 0; r < 8; ++r)
                x[r] = at + r * step < n ? __ldcg(from + at + r * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int r = 0; r < 8; ++r)
                sum += x[r].x ^ x[r].y ^ x[r].z ^ x[r].w;
        }
    if (sum == 0x9e3779b9u)
        *never = sum;
}

__global__ void __launch_bounds__(THREADS) copy_all(uint4 *to, const uint4 *from, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x; at < n; at += 4 * step) {
        uint4 x[4];
#pragma unroll
        for (int r = 0; r < 4; ++r)
            x[r] = at + r * step < n ? __ldcs(from + at + r * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int r = 0; r < 4; ++r)
            if (at + r * step < n)
                __stcs(to + at + r * step, x[r]);
    }
}

__global__ void nothing() {}

/*
 * Two warpgroups, each a 64 x 128 accumulator, operands in shared memory filled with random bits, which draw
 * as much power as real data. One round is eight products of 64 x 128 x 16 per warpgroup.
 */
__global__ void __launch_bounds__(CONSUMERS, 1) multiply(int rounds, uint32_t *never)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ uint8_t raw[];
    const uint32_t base = (s2::shared_address(raw) + 1023) & ~1023u;
    /* 16 KiB of A per warpgroup after 32 KiB of B; exponents near 1, so that nothing overflows */
    uint32_t bits = threadIdx.x * 2654435761u + blockIdx.x;
    for (uint32_t at = threadIdx.x * 4; at < 65536; at += CONSUMERS * 4) {
        bits = bits * 1664525u + 1013904223u;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(base + at), "r"((bits & 0x807f807fu) | 0x3f003f00u)
                     : "memory");
    }
    s2::fence_async_shared();
    __syncthreads();
    const uint32_t a = s2::desc_low(base + 32768 + (threadIdx.x >> 7) * 16384, 16);
    const uint32_t b = s2::desc_low(base, 16);
    float d[64];
#pragma unroll
    for (int r = 0; r < 64; ++r)
        d[r] = 0.f;
    for (int round = 0; round < rounds; ++round) {
        s2::wg_fence();
#pragma unroll
        for (int kk = 0; kk < 8; ++kk)
            s2::Wgmma<false, 128>::ss<0>(d, s2::desc(a + (((kk / 4) * 8192 + (kk % 4) * 32) >> 4)),
                                         s2::desc(b + (((kk / 4) * 16384 + (kk % 4) * 32) >> 4)), 1);
        s2::wg_commit();
        s2::wg_wait<0>();
        s2::wg_pin<64>(d);
    }
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < 64; ++r)
        sum += d[r];
    if (sum == 0.123456f)
        *never = 1;
#else
    (void)rounds;
    (void)never;
#endif
}

s2_status time_of(s2_device *device, double *ms, s2_status queued)
{
    if (queued != S2_OK)
        return queued;
    return device->ops->time_end(device, ms);
}

/*
 * The median of some repetitions after a warm-up would be finer, but the best of five is a ceiling.
 */
template <class Queue> s2_status best_of(s2_device *device, const Queue &queue, double *ms)
{
    double best = 1e30;
    for (int at = 0; at < 6; ++at) {
        double own = 0;
        S2_TRY(device->ops->time_begin(device));
        queue();
        S2_TRY(time_of(device, &own, s2_cuda_try(cudaGetLastError(), NULL)));
        if (at > 0 && own < best)
            best = own;
    }
    *ms = best;
    return S2_OK;
}

s2_status run_copy(s2_device *device, int64_t n_bytes, double *gb_s)
{
    void *from = NULL, *to = NULL;
    double ms = 1;
    s2_status status = device->ops->alloc(device, (size_t)n_bytes, &from);
    if (status == S2_OK)
        status = device->ops->alloc(device, (size_t)n_bytes, &to);
    if (status == S2_OK)
        status = best_of(
            device,
            [&] {
                copy_all<<<4 * device->n_units, THREADS, 0, s2_cuda_stream(device)>>>(
                    (uint4 *)to, (const uint4 *)from, n_bytes / 16);
            },
            &ms);
    device->ops->release(device, from);
    device->ops->release(device, to);
    *gb_s = 2.0 * (double)n_bytes / ms * 1e-6;
    return status;
}

s2_status run_read(s2_device *device, int64_t n_bytes, double *gb_s)
{
    void *from = NULL;
    double ms = 1;
    const int64_t wanted = (int64_t)4 << 30;
    const int rounds = n_bytes < wanted ? (int)(wanted / n_bytes) : 1;
    s2_status status = device->ops->alloc(device, (size_t)n_bytes, &from);
    if (status == S2_OK)
        status = device->ops->fill(device, from, 1, (size_t)n_bytes);
    if (status == S2_OK)
        status = best_of(
            device,
            [&] {
                read_all<<<4 * device->n_units, THREADS, 0, s2_cuda_stream(device)>>>(
                    (const uint4 *)from, n_bytes / 16, rounds, (uint32_t *)from);
            },
            &ms);
    device->ops->release(device, from);
    *gb_s = (double)n_bytes * rounds / ms * 1e-6;
    return status;
}

s2_status run_matrix(s2_device *device, int64_t rounds, double *tflops, s2_diag *why)
{
    constexpr int BYTES = 65536 + 1024;
    if (device->capability != 90)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the matrix ceiling is measured on Hopper only");
    double ms = 1;
    S2_TRY(s2_cuda_try(s2::allow_shared(multiply, BYTES), why));
    S2_TRY(best_of(
        device,
        [&] { multiply<<<device->n_units, CONSUMERS, BYTES, s2_cuda_stream(device)>>>((int)rounds, NULL); },
        &ms));
    *tflops = 2.0 * 64 * 128 * 128 * 2 * device->n_units * (double)rounds / ms * 1e-9;
    return S2_OK;
}

s2_status run_launch(s2_device *device, int64_t n, double *us)
{
    double ms = 0;
    S2_TRY(best_of(
        device,
        [&] {
            for (int64_t at = 0; at < n; ++at)
                nothing<<<1, 32, 0, s2_cuda_stream(device)>>>();
        },
        &ms));
    *us = ms * 1e3 / (double)n;
    return S2_OK;
}

} // namespace

s2_status s2_cuda_micro(s2_device *device, s2_micro micro, int64_t size, double *out, s2_diag *why)
{
    switch (micro) {
    case S2_MICRO_COPY: return run_copy(device, size, out);
    case S2_MICRO_READ: return run_read(device, size, out);
    case S2_MICRO_MATRIX: return run_matrix(device, size, out, why);
    case S2_MICRO_LAUNCH: return run_launch(device, size, out);
    case S2_N_MICROS: break;
    }
    return S2_EINVAL;
}
