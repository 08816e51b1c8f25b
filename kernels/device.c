#include "kernels/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/shared.h"
#include "kernels/float16.h"
#if S2_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#endif

/* Memory of an unnamed file, which another process opens by its descriptor number. What describes it lies elsewhere:
   a foreign kernel may write anywhere in the memory. */
typedef struct s2_shared_block {
    struct s2_shared_block *next;
    void *memory;
    size_t n_bytes;
    int file;
} s2_shared_block;

/* The CPU device needs the time at which a span began, what it shares and what it may still hand out. */
typedef struct s2_cpu_impl {
    struct timespec begin;
    s2_shared_block *shared;
    int64_t left_bytes;
} s2_cpu_impl;

enum { ALIGN_BYTES = 256 };

/*
 * What the machine has free now. Linux gives memory that it does not have, and ends the process that touches it, or
 * another one.
 */
static int64_t free_bytes(void)
{
    long long kib = 0;
    char line[128];
    FILE *const file = fopen("/proc/meminfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "MemAvailable: %lld", &kib) != 1)
        continue;
    if (file != NULL)
        fclose(file);
    return kib > 0 ? (int64_t)kib * 1024 : sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE);
}

static bool take_bytes(s2_cpu_impl *impl, size_t n_bytes)
{
    if (n_bytes > (uint64_t)impl->left_bytes)
        return false;
    impl->left_bytes -= (int64_t)n_bytes;
    return true;
}

/* Kept just below the aligned memory. */
typedef struct s2_cpu_head {
    void *raw; /* as it was allocated */
    size_t n_bytes;
} s2_cpu_head;

static s2_status cpu_alloc(s2_device *device, size_t n_bytes, void **out)
{
    s2_cpu_impl *const impl = device->impl;
    if (!take_bytes(impl, n_bytes))
        return S2_ENOMEM;
    char *const raw = s2_malloc(n_bytes + 2 * ALIGN_BYTES);
    if (raw == NULL) {
        impl->left_bytes += (int64_t)n_bytes;
        return S2_ENOMEM;
    }
    const s2_cpu_head head = {raw, n_bytes};
    const size_t shift = ALIGN_BYTES - (uintptr_t)(raw + sizeof head) % ALIGN_BYTES;
    char *const aligned = raw + sizeof head + shift;
    memcpy(aligned - sizeof head, &head, sizeof head);
    *out = aligned;
    return S2_OK;
}

static void cpu_release(s2_device *device, void *memory)
{
    s2_cpu_impl *const impl = device->impl;
    if (memory == NULL)
        return;
    s2_cpu_head head;
    memcpy(&head, (char *)memory - sizeof head, sizeof head);
    impl->left_bytes += (int64_t)head.n_bytes;
    s2_free(head.raw);
}

static s2_status cpu_copy(s2_device *device, void *dst, const void *src, size_t n_bytes)
{
    (void)device;
    if (n_bytes > 0)
        memcpy(dst, src, n_bytes);
    return S2_OK;
}

static s2_status cpu_copy_pieces(s2_device *device, uint8_t *dst, const uint8_t *src, const int64_t *at_bytes,
                                 int64_t n, size_t piece_bytes)
{
    (void)device;
    for (int64_t at = 0; at < n; at++)
        memcpy(dst + at_bytes[at], src + at_bytes[at], piece_bytes);
    return S2_OK;
}

static s2_status cpu_fill(s2_device *device, void *dst, uint8_t byte, size_t n_bytes)
{
    (void)device;
    memset(dst, byte, n_bytes);
    return S2_OK;
}

static s2_status cpu_fill_normal(s2_device *device, void *dst, int64_t n, s2_dtype dtype, uint64_t seed,
                                 float scale)
{
    (void)device;
    for (int64_t at = 0; at < n; at++)
        s2_float_store(dst, dtype, at, s2_input_value(seed, (uint64_t)at) * scale);
    return S2_OK;
}

static s2_status cpu_sync(s2_device *device, s2_diag *why)
{
    (void)device;
    (void)why;
    return S2_OK;
}

static s2_status cpu_time_begin(s2_device *device)
{
    clock_gettime(CLOCK_MONOTONIC, &((s2_cpu_impl *)device->impl)->begin);
    return S2_OK;
}

static s2_status cpu_time_end(s2_device *device, double *ms)
{
    const struct timespec begin = ((s2_cpu_impl *)device->impl)->begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    *ms = (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-6;
    return S2_OK;
}

static s2_status cpu_copy_rows(s2_device *device, void *dst, const void *src, size_t row_bytes,
                               const int64_t *pairs, int32_t n)
{
    (void)device;
    for (int32_t at = 0; at < n; at++)
        memcpy((char *)dst + (size_t)pairs[2 * at + 1] * row_bytes,
               (const char *)src + (size_t)pairs[2 * at] * row_bytes, row_bytes);
    return S2_OK;
}

static s2_status cpu_store_e4m3(s2_device *device, void *dst, const void *src, s2_dtype dtype, int32_t n,
                                const float *scale, int32_t n_scales, const int64_t *pairs, int32_t n_pairs)
{
    (void)device;
    for (int32_t pair = 0; pair < n_pairs; pair++) {
        const int64_t from = pairs[2 * pair], to = pairs[2 * pair + 1];
        for (int32_t d = 0; d < n; d++)
            s2_float_store(dst, S2_F8, to * n + d,
                           s2_float_load(src, dtype, from * n + d) / scale[from % n_scales]);
    }
    return S2_OK;
}

static void cpu_close(s2_device *device)
{
    s2_free(device->impl);
    s2_free(device);
}

static const s2_device_ops cpu_ops = {
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
    .copy_pieces_out = cpu_copy_pieces,
    .fill = cpu_fill,
    .fill_normal = cpu_fill_normal,
    .sync = cpu_sync,
    .time_begin = cpu_time_begin,
    .time_end = cpu_time_end,
    .copy_rows = cpu_copy_rows,
    .store_e4m3 = cpu_store_e4m3,
    .close = cpu_close,
};

/* Whole words, since what is compared afterwards is compared by words. */
static s2_status shared_alloc(s2_device *device, size_t n_bytes, void **out)
{
    s2_cpu_impl *const impl = device->impl;
    s2_shared_block *const block = n_bytes < SIZE_MAX / 2 ? s2_calloc(1, sizeof *block) : NULL;
    if (block == NULL)
        return S2_ENOMEM;
    block->n_bytes = n_bytes / sizeof(uint64_t) * sizeof(uint64_t) + sizeof(uint64_t);
    const bool taken = take_bytes(impl, block->n_bytes);
    const s2_status status =
        taken ? s2_shared_open("s2", block->n_bytes, &block->memory, &block->file) : S2_ENOMEM;
    if (status != S2_OK) {
        impl->left_bytes += taken ? (int64_t)block->n_bytes : 0;
        s2_free(block);
        return status;
    }
    block->next = impl->shared;
    impl->shared = block;
    *out = block->memory;
    return S2_OK;
}

static void shared_release(s2_device *device, void *memory)
{
    s2_cpu_impl *const impl = device->impl;
    s2_shared_block **link = &impl->shared;
    while (*link != NULL && (*link)->memory != memory)
        link = &(*link)->next;
    s2_shared_block *const gone = *link;
    if (gone == NULL)
        return;
    *link = gone->next;
    impl->left_bytes += (int64_t)gone->n_bytes;
    s2_shared_close(gone->memory, gone->n_bytes, gone->file);
    s2_free(gone);
}

bool s2_device_shared_file(const s2_device *device, const void *memory, int *file, int64_t *offset)
{
    const s2_cpu_impl *const impl = device->impl;
    for (const s2_shared_block *block = impl->shared; block != NULL; block = block->next) {
        const uintptr_t from = (uintptr_t)block->memory, asked = (uintptr_t)memory;
        if (asked < from || asked >= from + block->n_bytes)
            continue;
        *file = block->file;
        *offset = (int64_t)(asked - from);
        return true;
    }
    return false;
}

s2_status s2_device_share(s2_device *device, s2_diag *why)
{
    static s2_device_ops shared_ops;
    if (device->kind != S2_DEVICE_CPU)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "only memory of the CPU is shared: use --device cpu");
    shared_ops = cpu_ops;
    shared_ops.alloc = shared_alloc;
    shared_ops.release = shared_release;
    device->ops = &shared_ops;
    return S2_OK;
}

static s2_status open_cpu(s2_device **out)
{
    s2_device *const device = s2_calloc(1, sizeof *device);
    s2_cpu_impl *const impl = s2_calloc(1, sizeof *impl);
    if (device == NULL || impl == NULL) {
        s2_free(device);
        s2_free(impl);
        return S2_ENOMEM;
    }
    impl->left_bytes = free_bytes();
    const long n_threads = sysconf(_SC_NPROCESSORS_ONLN);
    *device = (s2_device){.ops = &cpu_ops,
                          .kind = S2_DEVICE_CPU,
                          .name = "CPU",
                          .n_units = n_threads > 0 ? (int32_t)n_threads : 1,
                          .memory_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGE_SIZE),
                          .impl = impl};
    *out = device;
    return S2_OK;
}

static s2_status open_gpu(int32_t index, s2_device **out, s2_diag *why)
{
#if S2_HAVE_CUDA
    return s2_cuda_open(index, out, why);
#else
    (void)index;
    (void)out;
    return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                       "this program was built without CUDA; install nvcc and rebuild, or use --device cpu");
#endif
}

s2_status s2_device_open(const char *spec, s2_device **out, s2_diag *why)
{
    if (strcmp(spec, "cpu") == 0)
        return open_cpu(out);
    if (strcmp(spec, "gpu") == 0)
        return open_gpu(0, out, why);
    if (strncmp(spec, "gpu:", 4) == 0 && spec[4] >= '0' && spec[4] <= '9') {
        char *end;
        const long index = strtol(spec + 4, &end, 10);
        if (*end == '\0' && index < 1024)
            return open_gpu((int32_t)index, out, why);
    }
    return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a device is cpu, gpu or gpu:N");
}

void s2_device_close(s2_device **device)
{
    if (*device != NULL)
        (*device)->ops->close(*device);
    *device = NULL;
}
