#include "kernels/cuda/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_bf16.h>
#include <cuda_profiler_api.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "base/alloc.h"
#include "kernels/cuda/board.h"

namespace
{

struct GpuImpl {
    cudaStream_t stream; /* where everything is queued */
    cudaStream_t own;    /* the same, until a caller provides one */
    cudaStream_t left;   /* aside: what `stream` is restored to */
    cudaStreamCaptureMode mode;
    cudaEvent_t begin, end;
    void *flush; /* twice the L2, allocated on first use */
    size_t flush_bytes;
    long long *ticks; /* of the clock kernel: {cycles, nanoseconds} */
    S2Board *board;   /* NULL where the management library is missing */
};

GpuImpl *impl_of(const s2_device *device)
{
    return (GpuImpl *)device->impl;
}

s2_status gpu_alloc(s2_device *, size_t n_bytes, void **out)
{
    void *memory = NULL;
    S2_TRY(s2_cuda_try(cudaMalloc(&memory, n_bytes > 0 ? n_bytes : 1), NULL));
    *out = memory;
    return S2_OK;
}

void gpu_release(s2_device *, void *memory)
{
    (void)cudaFree(memory);
}

s2_status gpu_copy_in(s2_device *device, void *dst, const void *host_src, size_t n_bytes)
{
    S2_TRY(s2_cuda_try(
        cudaMemcpyAsync(dst, host_src, n_bytes, cudaMemcpyHostToDevice, impl_of(device)->stream), NULL));
    return s2_cuda_try(cudaStreamSynchronize(impl_of(device)->stream), NULL);
}

s2_status gpu_copy_out(s2_device *device, void *host_dst, const void *src, size_t n_bytes)
{
    S2_TRY(s2_cuda_try(
        cudaMemcpyAsync(host_dst, src, n_bytes, cudaMemcpyDeviceToHost, impl_of(device)->stream), NULL));
    return s2_cuda_try(cudaStreamSynchronize(impl_of(device)->stream), NULL);
}

/* One block per piece, four bytes per thread: every piece consists of whole words. */
__global__ void gather(uint32_t *dst, const uint8_t *src, const int64_t *at_bytes, uint32_t piece_words)
{
    const uint32_t *const from = (const uint32_t *)(src + at_bytes[blockIdx.x]);
    for (uint32_t word = threadIdx.x; word < piece_words; word += blockDim.x)
        dst[(int64_t)blockIdx.x * piece_words + word] = from[word];
}

s2_status gpu_gather(s2_device *device, uint8_t *packed, const uint8_t *src, const int64_t *at_bytes,
                     int64_t n, size_t piece_bytes)
{
    int64_t *at_device = NULL;
    uint32_t *staged = NULL;
    s2_status status = s2_cuda_try(cudaMalloc((void **)&at_device, (size_t)n * sizeof *at_device), NULL);
    if (status == S2_OK)
        status = s2_cuda_try(cudaMalloc((void **)&staged, (size_t)n * piece_bytes), NULL);
    if (status == S2_OK)
        status = gpu_copy_in(device, at_device, at_bytes, (size_t)n * sizeof *at_device);
    if (status == S2_OK) {
        gather<<<(unsigned)n, 64, 0, impl_of(device)->stream>>>(staged, src, at_device,
                                                                (uint32_t)(piece_bytes / 4));
        status = s2_cuda_try(cudaGetLastError(), NULL);
    }
    if (status == S2_OK)
        status = gpu_copy_out(device, packed, staged, (size_t)n * piece_bytes);
    (void)cudaFree(at_device);
    (void)cudaFree(staged);
    return status;
}

s2_status gpu_copy_pieces(s2_device *device, uint8_t *host_dst, const uint8_t *src, const int64_t *at_bytes,
                          int64_t n, size_t piece_bytes)
{
    if (n <= 0)
        return S2_OK;
    if (piece_bytes % 4 != 0) {
        for (int64_t at = 0; at < n; at++)
            S2_TRY(gpu_copy_out(device, host_dst + at_bytes[at], src + at_bytes[at], piece_bytes));
        return S2_OK;
    }
    uint8_t *const packed = (uint8_t *)s2_malloc((size_t)n * piece_bytes);
    if (packed == NULL)
        return S2_ENOMEM;
    const s2_status status = gpu_gather(device, packed, src, at_bytes, n, piece_bytes);
    for (int64_t at = 0; at < n && status == S2_OK; at++)
        memcpy(host_dst + at_bytes[at], packed + at * (int64_t)piece_bytes, piece_bytes);
    s2_free(packed);
    return status;
}

s2_status gpu_fill(s2_device *device, void *dst, uint8_t byte, size_t n_bytes)
{
    return s2_cuda_try(cudaMemsetAsync(dst, byte, n_bytes, impl_of(device)->stream), NULL);
}

/* The same bits as s2_input_value() on the host: integers, one exact conversion, two rounded products. */
__device__ float input_value(uint64_t seed, uint64_t at)
{
    uint64_t z = (seed ^ 0x5851f42d4c957f2dull) + (at + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    const int sum = (int)(z & 0xffff) + (int)(z >> 16 & 0xffff) + (int)(z >> 32 & 0xffff) + (int)(z >> 48);
    return __fmul_rn((float)(sum - 131070), 1.0f / 37837.0f);
}

__global__ void fill_normal(void *dst, int64_t n, s2_dtype dtype, uint64_t seed, float scale)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; at < n; at += step) {
        const float x = __fmul_rn(input_value(seed, (uint64_t)at), scale);
        if (dtype == S2_BF16)
            ((__nv_bfloat16 *)dst)[at] = __float2bfloat16_rn(x);
        else if (dtype == S2_F16)
            ((__half *)dst)[at] = __float2half_rn(x);
        else if (dtype == S2_F8)
            ((uint8_t *)dst)[at] = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
        else
            ((float *)dst)[at] = x;
    }
}

s2_status gpu_fill_normal(s2_device *device, void *dst, int64_t n, s2_dtype dtype, uint64_t seed, float scale)
{
    if (n <= 0)
        return S2_OK;
    fill_normal<<<2048, 256, 0, impl_of(device)->stream>>>(dst, n, dtype, seed, scale);
    return s2_cuda_try(cudaGetLastError(), NULL);
}

s2_status gpu_sync(s2_device *device, s2_diag *why)
{
    return s2_cuda_try(cudaStreamSynchronize(impl_of(device)->stream), why);
}

s2_status gpu_time_begin(s2_device *device)
{
    return s2_cuda_try(cudaEventRecord(impl_of(device)->begin, impl_of(device)->stream), NULL);
}

s2_status gpu_time_end(s2_device *device, double *ms)
{
    GpuImpl *const impl = impl_of(device);
    float elapsed = 0;
    S2_TRY(s2_cuda_try(cudaEventRecord(impl->end, impl->stream), NULL));
    S2_TRY(s2_cuda_try(cudaEventSynchronize(impl->end), NULL));
    S2_TRY(s2_cuda_try(cudaEventElapsedTime(&elapsed, impl->begin, impl->end), NULL));
    *ms = (double)elapsed;
    return S2_OK;
}

s2_status gpu_flush_cache(s2_device *device)
{
    GpuImpl *const impl = impl_of(device);
    if (impl->flush == NULL) {
        impl->flush_bytes = (size_t)device->cache_bytes * 2 + 1;
        S2_TRY(s2_cuda_try(cudaMalloc(&impl->flush, impl->flush_bytes), NULL));
    }
    return s2_cuda_try(cudaMemsetAsync(impl->flush, 0, impl->flush_bytes, impl->stream), NULL);
}

/* Counts cycles against the global timer in one thread for 20 microseconds. */
__global__ void read_clock(long long *ticks)
{
    long long begin_ns, now_ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin_ns));
    const long long begin = clock64();
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now_ns));
    while (now_ns - begin_ns < 20000);
    ticks[0] = clock64() - begin;
    ticks[1] = now_ns - begin_ns;
}

double gpu_clock_mhz(s2_device *device)
{
    GpuImpl *const impl = impl_of(device);
    long long ticks[2] = {0, 1};
    read_clock<<<1, 1, 0, impl->stream>>>(impl->ticks);
    if (cudaGetLastError() != cudaSuccess || gpu_copy_out(device, ticks, impl->ticks, sizeof ticks) != S2_OK)
        return 0.0;
    return (double)ticks[0] * 1e3 / (double)ticks[1];
}

s2_sensors gpu_sense(s2_device *device)
{
    return s2_board_sense(impl_of(device)->board);
}

void gpu_profile(s2_device *, bool on)
{
    (void)(on ? cudaProfilerStart() : cudaProfilerStop());
}

enum { COPY_PAIRS = 128 }; /* they travel as parameters of the launch */
struct RowPairs {
    int64_t from_to[2 * COPY_PAIRS];
};

/* One block per row; a row is a multiple of 2 bytes. */
__global__ void copy_row_pairs(uint16_t *dst, const uint16_t *src, int64_t row_halves,
                               const __grid_constant__ RowPairs pairs)
{
    const int64_t from = pairs.from_to[2 * blockIdx.x] * row_halves;
    const int64_t to = pairs.from_to[2 * blockIdx.x + 1] * row_halves;
    for (int64_t at = threadIdx.x; at < row_halves; at += blockDim.x)
        dst[to + at] = src[from + at];
}

s2_status gpu_copy_rows(s2_device *device, void *dst, const void *src, size_t row_bytes, const int64_t *pairs,
                        int32_t n)
{
    for (int32_t begin = 0; begin < n; begin += COPY_PAIRS) {
        const int32_t count = n - begin < COPY_PAIRS ? n - begin : COPY_PAIRS;
        RowPairs some = {};
        memcpy(some.from_to, pairs + 2 * (int64_t)begin, (size_t)count * 2 * sizeof *pairs);
        copy_row_pairs<<<(unsigned)count, 128, 0, impl_of(device)->stream>>>(
            (uint16_t *)dst, (const uint16_t *)src, (int64_t)(row_bytes / 2), some);
        S2_TRY(s2_cuda_try(cudaGetLastError(), NULL));
    }
    return S2_OK;
}

__device__ float number_at(const void *src, s2_dtype dtype, int64_t at)
{
    if (dtype == S2_BF16)
        return __bfloat162float(((const __nv_bfloat16 *)src)[at]);
    return dtype == S2_F16 ? __half2float(((const __half *)src)[at]) : ((const float *)src)[at];
}

__global__ void store_row_pairs(uint8_t *dst, const void *src, s2_dtype dtype, int32_t n, const float *scale,
                                int32_t n_scales, const __grid_constant__ RowPairs pairs)
{
    const int64_t from = pairs.from_to[2 * blockIdx.x], to = pairs.from_to[2 * blockIdx.x + 1];
    const float of_row = scale[from % n_scales];
    for (int32_t d = (int32_t)threadIdx.x; d < n; d += (int32_t)blockDim.x)
        dst[to * n + d] = __nv_cvt_float_to_fp8(__fdiv_rn(number_at(src, dtype, from * n + d), of_row),
                                                __NV_SATFINITE, __NV_E4M3);
}

s2_status gpu_store_e4m3(s2_device *device, void *dst, const void *src, s2_dtype dtype, int32_t n,
                         const float *scale, int32_t n_scales, const int64_t *pairs, int32_t n_pairs)
{
    for (int32_t begin = 0; begin < n_pairs; begin += COPY_PAIRS) {
        const int32_t count = n_pairs - begin < COPY_PAIRS ? n_pairs - begin : COPY_PAIRS;
        RowPairs some = {};
        memcpy(some.from_to, pairs + 2 * (int64_t)begin, (size_t)count * 2 * sizeof *pairs);
        store_row_pairs<<<(unsigned)count, 128, 0, impl_of(device)->stream>>>((uint8_t *)dst, src, dtype, n,
                                                                              scale, n_scales, some);
        S2_TRY(s2_cuda_try(cudaGetLastError(), NULL));
    }
    return S2_OK;
}

int64_t gpu_memory_used(s2_device *)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
        return -1;
    return (int64_t)(total_bytes - free_bytes);
}

void gpu_close(s2_device *device)
{
    GpuImpl *const impl = impl_of(device);
    s2_board_close(impl->board);
    (void)cudaFree(impl->flush);
    (void)cudaFree(impl->ticks);
    (void)cudaEventDestroy(impl->begin);
    (void)cudaEventDestroy(impl->end);
    (void)cudaStreamDestroy(impl->own);
    s2_free(impl);
    s2_free(device);
}

s2_status gpu_use_stream(s2_device *device, void *stream)
{
    impl_of(device)->stream = (cudaStream_t)stream;
    return S2_OK;
}

s2_status gpu_aside(s2_device *device, bool begin)
{
    GpuImpl *const impl = impl_of(device);
    if (begin) {
        impl->left = impl->stream;
        impl->stream = impl->own;
        impl->mode = cudaStreamCaptureModeRelaxed;
        return s2_cuda_try(cudaThreadExchangeStreamCaptureMode(&impl->mode), NULL);
    }
    const s2_status status = s2_cuda_try(cudaStreamSynchronize(impl->own), NULL);
    impl->stream = impl->left;
    const s2_status back = s2_cuda_try(cudaThreadExchangeStreamCaptureMode(&impl->mode), NULL);
    return status != S2_OK ? status : back;
}

s2_status gpu_record_begin(s2_device *device, s2_diag *why)
{
    return s2_cuda_try(cudaStreamBeginCapture(impl_of(device)->stream, cudaStreamCaptureModeThreadLocal),
                       why);
}

/* The instance outlives the graph that it was made from. */
s2_status gpu_record_end(s2_device *device, void **recording, s2_diag *why)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    S2_TRY(s2_cuda_try(cudaStreamEndCapture(impl_of(device)->stream, &graph), why));
    const s2_status status = s2_cuda_try(cudaGraphInstantiate(&exec, graph, 0), why);
    (void)cudaGraphDestroy(graph);
    if (status == S2_OK)
        *recording = exec;
    return status;
}

s2_status gpu_replay(s2_device *device, void *recording, s2_diag *why)
{
    return s2_cuda_try(cudaGraphLaunch((cudaGraphExec_t)recording, impl_of(device)->stream), why);
}

void gpu_forget(s2_device *device, void **recording)
{
    (void)device;
    if (*recording != NULL)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)*recording);
    *recording = NULL;
}

const s2_device_ops gpu_ops = {
    gpu_alloc,       gpu_release, gpu_copy_in,      gpu_copy_out,   gpu_copy_pieces, gpu_fill,
    gpu_fill_normal, gpu_sync,    gpu_time_begin,   gpu_time_end,   gpu_flush_cache, gpu_clock_mhz,
    gpu_sense,       gpu_profile, gpu_copy_rows,    gpu_store_e4m3, gpu_memory_used, gpu_close,
    gpu_use_stream,  gpu_aside,   gpu_record_begin, gpu_record_end, gpu_replay,      gpu_forget};

/* As nvidia-smi writes it. */
void write_uuid(const cudaUUID_t *uuid, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "GPU-");
    for (int at = 0; at < 16 && n < cap; at++)
        n += (size_t)snprintf(out + n, cap - n, at == 4 || at == 6 || at == 8 || at == 10 ? "-%02x" : "%02x",
                              (unsigned char)uuid->bytes[at]);
}

void describe(s2_device *device, const cudaDeviceProp *prop)
{
    int runtime = 0;
    (void)snprintf(device->name, sizeof device->name, "%.79s", prop->name);
    write_uuid(&prop->uuid, device->uuid, sizeof device->uuid);
    if (cudaRuntimeGetVersion(&runtime) == cudaSuccess)
        (void)snprintf(device->runtime, sizeof device->runtime, "CUDA %d.%d", runtime / 1000,
                       runtime % 1000 / 10);
    impl_of(device)->board = s2_board_open(device->uuid, device->driver, sizeof device->driver);
    device->n_units = prop->multiProcessorCount;
    device->capability = prop->major * 10 + prop->minor;
    device->memory_bytes = (int64_t)prop->totalGlobalMem;
    device->cache_bytes = prop->l2CacheSize;
}

s2_status make_impl(GpuImpl *impl, s2_diag *why)
{
    S2_TRY(s2_cuda_try(cudaStreamCreateWithFlags(&impl->own, cudaStreamNonBlocking), why));
    impl->stream = impl->own;
    S2_TRY(s2_cuda_try(cudaEventCreate(&impl->begin), why));
    S2_TRY(s2_cuda_try(cudaEventCreate(&impl->end), why));
    return s2_cuda_try(cudaMalloc((void **)&impl->ticks, 2 * sizeof(long long)), why);
}

} // namespace

s2_status s2_cuda_try(cudaError_t error, s2_diag *why)
{
    if (error == cudaSuccess)
        return S2_OK;
    (void)cudaGetLastError();
    const s2_status status = error == cudaErrorMemoryAllocation ? S2_ENOMEM : S2_ECUDA;
    return s2_diag_set(why, status, 0, 0, 0, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
}

cudaStream_t s2_cuda_stream(const s2_device *device)
{
    return impl_of(device)->stream;
}

s2_status s2_cuda_upload(s2_device *device, const void *host, size_t n_bytes, void **out, s2_diag *why)
{
    void *memory = NULL;
    S2_TRY(s2_cuda_try(cudaMalloc(&memory, n_bytes > 0 ? n_bytes : 1), why));
    /* In the kernels' own stream: cudaMemcpy may return before pageable memory has arrived, and a
     * non-blocking stream would not wait for it. */
    const s2_status status = n_bytes > 0 ? device->ops->copy_in(device, memory, host, n_bytes) : S2_OK;
    if (status != S2_OK) {
        (void)cudaFree(memory);
        return status;
    }
    *out = memory;
    return S2_OK;
}

namespace
{
s2_status upload_in_a_stream_of_its_own(const void *host, size_t n_bytes, void **out, s2_diag *why)
{
    cudaStream_t stream = nullptr;
    S2_TRY(s2_cuda_try(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), why));
    void *memory = NULL;
    s2_status status = s2_cuda_try(cudaMalloc(&memory, n_bytes), why);
    if (status == S2_OK)
        status = s2_cuda_try(cudaMemcpyAsync(memory, host, n_bytes, cudaMemcpyHostToDevice, stream), why);
    if (status == S2_OK)
        status = s2_cuda_try(cudaStreamSynchronize(stream), why);
    (void)cudaStreamDestroy(stream);
    if (status == S2_OK)
        *out = memory;
    else
        (void)cudaFree(memory);
    return status;
}
} // namespace

/* Other captures of the process forbid allocations to threads that have not asked for them. */
s2_status s2_cuda_upload_apart(const void *host, size_t n_bytes, void **out, s2_diag *why)
{
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    S2_TRY(s2_cuda_try(cudaThreadExchangeStreamCaptureMode(&mode), why));
    const s2_status status = upload_in_a_stream_of_its_own(host, n_bytes, out, why);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    return status;
}

namespace
{
enum { WRITE_WORDS = 896 }; /* they travel as parameters of the launch */
struct Words {
    uint32_t word[WRITE_WORDS];
};

__global__ void write_words(uint32_t *dst, const __grid_constant__ Words words, uint32_t n)
{
    for (uint32_t at = threadIdx.x; at < n; at += blockDim.x)
        dst[at] = words.word[at];
}
} // namespace

s2_status s2_cuda_write(const s2_device *device, void *dst, const void *host, size_t n_bytes, s2_diag *why)
{
    for (size_t done = 0; done < n_bytes; done += WRITE_WORDS * sizeof(uint32_t)) {
        const size_t left = n_bytes - done;
        const size_t n = left < sizeof(Words) ? left : sizeof(Words);
        Words words = {};
        memcpy(words.word, (const uint8_t *)host + done, n);
        write_words<<<1, 256, 0, impl_of(device)->stream>>>((uint32_t *)((uint8_t *)dst + done), words,
                                                            (uint32_t)(n / sizeof(uint32_t)));
        S2_TRY(s2_cuda_try(cudaGetLastError(), why));
    }
    return S2_OK;
}

bool s2_cuda_captures(const s2_device *device)
{
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(impl_of(device)->stream, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusActive;
}

s2_status s2_cuda_open(int32_t index, s2_device **out, s2_diag *why)
{
    int n_devices = 0;
    int driver = 0;
    const cudaError_t found = cudaGetDeviceCount(&n_devices);
    if (found != cudaSuccess && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "no GPU %d here: this machine has no NVIDIA driver",
                           (int)index);
    if (found != cudaSuccess || index >= n_devices)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "no GPU %d here: %s", (int)index,
                           found != cudaSuccess ? cudaGetErrorString(found) : "there are fewer");
    cudaDeviceProp prop;
    S2_TRY(s2_cuda_try(cudaSetDevice(index), why));
    S2_TRY(s2_cuda_try(cudaGetDeviceProperties(&prop, index), why));
    s2_device *const device = (s2_device *)s2_calloc(1, sizeof *device);
    GpuImpl *const impl = (GpuImpl *)s2_calloc(1, sizeof *impl);
    const s2_status status = device != NULL && impl != NULL ? make_impl(impl, why) : S2_ENOMEM;
    if (status != S2_OK) {
        s2_free(device);
        s2_free(impl);
        return status;
    }
    device->ops = &gpu_ops;
    device->kind = S2_DEVICE_GPU;
    device->index = index;
    device->impl = impl;
    describe(device, &prop);
    *out = device;
    return S2_OK;
}
