/*
 * kernels/device.h - where kernels run: memory, copies, time. The CPU is one device, each GPU another.
 *
 * The validator and the tests see devices only through this table, so a GPU kernel passes exactly the
 * checks that a CPU kernel passes.
 *
 * Ownership: s2_device_close() ends what s2_device_open() gave; memory is released on the device
 *            that it came from, before that. Threads: one thread drives a device.
 */
#ifndef S2_KERNELS_DEVICE_H
#define S2_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_device_kind { S2_DEVICE_CPU, S2_DEVICE_GPU } s2_device_kind;

typedef struct s2_device s2_device;

/* What the board reports of itself; 0: it does not say. */
typedef struct s2_sensors {
    double sm_mhz;
    double mem_mhz;
    double power_w;
    double temp_c;
} s2_sensors;

/* Addresses are device addresses: host code may look behind them only on the CPU device. */
typedef struct s2_device_ops {
    s2_status (*alloc)(s2_device *device, size_t n_bytes, void **out); /* 256-byte aligned; S2_ENOMEM */
    void (*release)(s2_device *device, void *memory);                  /* NULL is allowed */
    s2_status (*copy_in)(s2_device *device, void *dst, const void *host_src, size_t n_bytes);
    s2_status (*copy_out)(s2_device *device, void *host_dst, const void *src, size_t n_bytes);
    /* n pieces of the same length, at the same offsets on both sides; in one go where copies are dear. */
    s2_status (*copy_pieces_out)(s2_device *device, uint8_t *host_dst, const uint8_t *src,
                                 const int64_t *at_bytes, int64_t n, size_t piece_bytes);
    s2_status (*fill)(s2_device *device, void *dst, uint8_t byte, size_t n_bytes);
    /*
     * dst[i] = s2_input_value(seed, i) * scale rounded to dtype, for i in [0, n): the same bits everywhere.
     */
    s2_status (*fill_normal)(s2_device *device, void *dst, int64_t n, s2_dtype dtype, uint64_t seed,
                             float scale);
    /* Wait for everything queued. A kernel's fault shows up here: S2_ECUDA with the runtime's words. */
    s2_status (*sync)(s2_device *device, s2_diag *why);
    /* Time what is queued between the two; time_end waits and returns milliseconds. */
    s2_status (*time_begin)(s2_device *device);
    s2_status (*time_end)(s2_device *device, double *ms);
    /* Evict the last-level cache, so that the next run starts cold. NULL: not possible here. */
    s2_status (*flush_cache)(s2_device *device);
    /* The clock of the compute units right now in MHz, or 0 when unknown. NULL: never known. */
    double (*clock_mhz)(s2_device *device);
    /* Clocks, power and temperature right now, without waiting for what is queued. NULL: never known. */
    s2_sensors (*sense)(s2_device *device);
    /* Tell a profiler that watches this process to look, or to look away. NULL: there is no profiler. */
    void (*profile)(s2_device *device, bool on);
    /* Row `from` of src goes to row `to` of dst, n times; no row is both. pairs: host, {from, to} each. */
    s2_status (*copy_rows)(s2_device *device, void *dst, const void *src, size_t row_bytes,
                           const int64_t *pairs, int32_t n);
    /*
     * The same for rows of n numbers of dtype that become e4m3, each number divided by its row's scale:
     * scale[from % n_scales], on the device. That is how keys of n_scales KV heads go to a cache.
     */
    s2_status (*store_e4m3)(s2_device *device, void *dst, const void *src, s2_dtype dtype, int32_t n,
                            const float *scale, int32_t n_scales, const int64_t *pairs, int32_t n_pairs);
    /* Bytes in use by any process, or -1. NULL: never known. */
    int64_t (*memory_used)(s2_device *device);
    void (*close)(s2_device *device);
    /* Queue what follows on a stream that the caller keeps owning. NULL: nothing is queued here. */
    s2_status (*use_stream)(s2_device *device, void *stream);
    /*
     * Between aside(true) and aside(false), work is queued on another stream, and aside(false) waits for it:
     * while a graph is being captured from a stream, nothing may allocate or wait on it. NULL: as use_stream.
     */
    s2_status (*aside)(s2_device *device, bool begin);
    /*
     * What is queued between record_begin and record_end is kept, not run; replay queues all of it, which takes the
     * host no time for each launch. The device may do nothing else meanwhile. forget: NULL is allowed. All are NULL
     * where nothing is queued.
     */
    s2_status (*record_begin)(s2_device *device, s2_diag *why);
    s2_status (*record_end)(s2_device *device, void **recording, s2_diag *why);
    s2_status (*replay)(s2_device *device, void *recording, s2_diag *why);
    void (*forget)(s2_device *device, void **recording);
} s2_device_ops;

struct s2_device {
    const s2_device_ops *ops;
    s2_device_kind kind;
    int32_t index;
    char name[80];      /* "NVIDIA H200", "CPU" */
    char uuid[48];      /* "GPU-..."; "" for the CPU */
    char driver[32];    /* "580.159.04"; "" unknown or none */
    char runtime[32];   /* "CUDA 13.0"; "" without one */
    int32_t n_units;    /* SMs or threads */
    int32_t capability; /* 80, 90, ...; 0 on the CPU */
    int64_t memory_bytes;
    int64_t cache_bytes; /* last level; 0 unknown */
    void *impl;          /* the device's own */
};

/*
 * spec: "cpu", "gpu" (the first) or "gpu:N". S2_EUNSUPPORTED with the reason in *why when this machine or
 * build has no such device (built without CUDA, no driver, no GPU of that number); S2_EINVAL for other words.
 */
s2_status s2_device_open(const char *spec, s2_device **out, s2_diag *why) S2_MUST_CHECK;
void s2_device_close(s2_device **device);

/*
 * From now on the CPU device's memory is shared with processes forked later, and is in files that others may
 * map. Call this before anything is allocated. S2_EUNSUPPORTED on a GPU.
 */
s2_status s2_device_share(s2_device *device, s2_diag *why) S2_MUST_CHECK;
/* The file that holds shared memory, and the offset in it; false: not shared. The device keeps the file. */
bool s2_device_shared_file(const s2_device *device, const void *memory, int *file, int64_t *offset);

/*
 * Test inputs: element number i of stream `seed`, near normal with variance 1 (the sum of four 16-bit
 * uniforms), made of integer operations and one exact conversion and product, so that every device
 * computes the same bits.
 */
static inline uint64_t s2_input_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed ^ UINT64_C(0x5851f42d4c957f2d)) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static inline float s2_input_value(uint64_t seed, uint64_t i)
{
    const uint64_t z = s2_input_bits(seed, i);
    const int32_t sum = (int32_t)(z & 0xffff) + (int32_t)(z >> 16 & 0xffff) + (int32_t)(z >> 32 & 0xffff) +
                        (int32_t)(z >> 48);
    return (float)(sum - 131070) * (1.0f / 37837.0f); /* 37837: the standard deviation of the sum */
}

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_DEVICE_H */
