#include "kernels/cuda/measure.h"

#include <stdlib.h>
#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/internal.h"

namespace
{

enum { READ_THREADS = 256, READ_UNROLL = 8, RUNS = 9 };

int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sixteen bytes per thread and load, eight loads in flight, evicted first. */
__global__ void __launch_bounds__(READ_THREADS) read_all(const uint4 *from, size_t n, uint32_t *out)
{
    uint32_t any = 0;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; at + (READ_UNROLL - 1) * step < n; at += READ_UNROLL * step) {
#pragma unroll
        for (int x = 0; x < READ_UNROLL; ++x) {
            const uint4 piece = __ldcs(from + at + x * step);
            any ^= piece.x ^ piece.y ^ piece.z ^ piece.w;
        }
    }
    if (any == 0x12345)
        *out = any;
}

} // namespace

s2_status s2_cuda_read_rate(s2_device *device, const void *memory, size_t n_bytes, double *out, s2_diag *why)
{
    void *sink = NULL;
    double rates[RUNS];
    S2_TRY(s2_cuda_try(cudaMalloc(&sink, sizeof(uint32_t)), why));
    s2_status status = S2_OK;
    for (int run = 0; run < RUNS && status == S2_OK; run++) {
        double ms = 1.0;
        status = device->ops->time_begin(device);
        read_all<<<(unsigned)device->n_units * 8, READ_THREADS, 0, s2_cuda_stream(device)>>>(
            (const uint4 *)memory, n_bytes / sizeof(uint4), (uint32_t *)sink);
        if (status == S2_OK)
            status = s2_cuda_try(cudaGetLastError(), why);
        if (status == S2_OK)
            status = device->ops->time_end(device, &ms);
        rates[run] = (double)n_bytes / (ms * 1e-3);
    }
    (void)cudaFree(sink);
    if (status == S2_OK) {
        qsort(rates, RUNS, sizeof *rates, by_value);
        *out = rates[RUNS / 2];
    }
    return status;
}
