#include "tests/bench/ceiling.h"

#include <dlfcn.h>

#include "base/alloc.h"
#include "kernels/cuda/internal.h"

namespace
{

/* cuBLAS by its C interface, which has had these since CUDA 11; nothing is linked. */
using GemmFn = int (*)(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                       const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                       const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
enum { TRANSPOSED = 1, PLAIN = 0, TYPE_BF16 = 14, COMPUTE_F32 = 68, ANY_ALGORITHM = -1 };

constexpr int64_t SIDE = 8192, BYTES = (int64_t)4 << 30;

struct Ceiling {
    s2_device *device;
    s2_ceiling which;
    void *a, *b, *c;
    void *library, *handle;
    int (*destroy)(void *handle);
    GemmFn gemm;
};

__global__ void read(const uint4 *from, uint4 *to, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    uint32_t sum = 0;
#pragma unroll 8
    for (int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; at < n; at += step) {
        const uint4 x = __ldcs(&from[at]);
        sum += x.x ^ x.y ^ x.z ^ x.w;
    }
    if (sum == 0x12345678u) /* keeps the loads */
        to[0].x = sum;
}

s2_status launch(void *self, s2_diag *why)
{
    Ceiling *const at = (Ceiling *)self;
    const cudaStream_t stream = s2_cuda_stream(at->device);
    const float one = 1.0f, zero = 0.0f;
    const int side = (int)SIDE, n_blocks = at->device->n_units * 8;
    if (at->which == S2_CEILING_COPY)
        return s2_cuda_try(cudaMemcpyAsync(at->b, at->a, BYTES, cudaMemcpyDeviceToDevice, stream), why);
    if (at->which == S2_CEILING_READ)
        read<<<n_blocks, 512, 0, stream>>>((const uint4 *)at->a, (uint4 *)at->b, BYTES / 16);
    else if (at->gemm(at->handle, TRANSPOSED, PLAIN, side, side, side, &one, at->a, TYPE_BF16, side, at->b,
                      TYPE_BF16, side, &zero, at->c, TYPE_BF16, side, COMPUTE_F32, ANY_ALGORITHM) != 0)
        return s2_diag_set(why, S2_ECUDA, 0, 0, 0, "cuBLAS refused the product");
    return s2_cuda_try(cudaGetLastError(), why);
}

void close(void *self)
{
    Ceiling *const at = (Ceiling *)self;
    if (at->handle != NULL)
        (void)at->destroy(at->handle);
    (void)cudaFree(at->a);
    (void)cudaFree(at->b);
    (void)cudaFree(at->c);
    s2_free(at);
}

s2_status open_library(Ceiling *at, s2_diag *why)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    for (size_t n = 0; n < sizeof names / sizeof *names && at->library == NULL; n++)
        at->library = dlopen(names[n], RTLD_NOW | RTLD_LOCAL);
    if (at->library == NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "no libcublas.so.13 or .12 is found at run time");
    int (*const create)(void **) = (int (*)(void **))dlsym(at->library, "cublasCreate_v2");
    int (*const set_stream)(void *, void *) =
        (int (*)(void *, void *))dlsym(at->library, "cublasSetStream_v2");
    at->destroy = (int (*)(void *))dlsym(at->library, "cublasDestroy_v2");
    at->gemm = (GemmFn)dlsym(at->library, "cublasGemmEx");
    if (create == NULL || set_stream == NULL || at->destroy == NULL || at->gemm == NULL ||
        create(&at->handle) != 0 || set_stream(at->handle, s2_cuda_stream(at->device)) != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "cuBLAS does not start");
    return S2_OK;
}

s2_status lay_out(Ceiling *at, s2_diag *why)
{
    const int64_t bytes = at->which == S2_CEILING_MATRIX ? SIDE * SIDE * 2 : BYTES;
    S2_TRY(s2_cuda_try(cudaMalloc(&at->a, (size_t)bytes), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&at->b, (size_t)bytes), why));
    S2_TRY(at->device->ops->fill_normal(at->device, at->a, bytes / 2, S2_BF16, 1, 1.0f));
    S2_TRY(at->device->ops->fill_normal(at->device, at->b, bytes / 2, S2_BF16, 2, 1.0f));
    if (at->which != S2_CEILING_MATRIX)
        return S2_OK;
    S2_TRY(s2_cuda_try(cudaMalloc(&at->c, (size_t)bytes), why));
    return open_library(at, why);
}

} // namespace

const char *s2_ceiling_word(s2_ceiling which)
{
    static const char *const words[S2_N_CEILINGS] = {"matrix_8192_bf16", "copy", "read"};
    return words[which];
}

s2_status s2_ceiling_open(s2_device *device, s2_ceiling which, s2_workload *out, s2_diag *why)
{
    Ceiling *const at = (Ceiling *)s2_calloc(1, sizeof *at);
    if (at == NULL)
        return S2_ENOMEM;
    at->device = device;
    at->which = which;
    const s2_status status = lay_out(at, why);
    if (status != S2_OK) {
        close(at);
        return status;
    }
    s2_workload made = {};
    made.self = at;
    made.launch = launch;
    made.close = close;
    made.kernel = which == S2_CEILING_MATRIX ? "cuBLAS" : which == S2_CEILING_COPY ? "runtime" : "own";
    made.flop_useful = which == S2_CEILING_MATRIX ? 2.0 * SIDE * SIDE * SIDE : 0.0;
    made.bytes_useful = which == S2_CEILING_COPY   ? 2.0 * BYTES
                        : which == S2_CEILING_READ ? (double)BYTES
                                                   : 0.0;
    *out = made;
    return S2_OK;
}
