/*
 * sim/gpu.h - GPUs as data: what a data sheet or a published measurement says about a chip.
 *
 * One text file per GPU. A line is `key value # source`; a number without a source is refused, and so is
 * an unknown key, a key named twice, or a value out of its range, each with line and column. The files
 * of sim/gpus/ are built into the program; the user's own file has the same form.
 *
 * Threads: no state. Ownership: s2_gpu is plain data.
 */
#ifndef S2_SIM_GPU_H
#define S2_SIM_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* key, lowest and highest value allowed, required, what it is. All are stored as double. */
#define S2_GPU_KEYS(X)                                                                                       \
    X(sms, 1, 4096, true, "streaming multiprocessors")                                                       \
    X(boost_mhz, 100, 10000, true, "highest SM clock")                                                       \
    X(tensor_mhz, 100, 10000, true, "clock behind the matrix peak")                                          \
    X(bf16_tflops, 1, 1e6, true, "dense bf16 matrix peak, fp32 accumulation")                                \
    X(fp8_tflops, 0, 1e6, false, "dense fp8 matrix peak; 0: none")                                           \
    X(capability, 0, 1000, false, "compute capability, 80, 90, ...; 0: not known")                           \
    X(mufu_per_clk_sm, 1, 1024, true, "exponentials a clock and SM")                                         \
    X(smem_kib, 1, 4096, true, "shared memory of an SM")                                                     \
    X(l2_mib, 1, 4096, true, "L2 cache")                                                                     \
    X(l2_tb_s, 0, 1000, false, "measured L2 read rate; 0: none read")                                        \
    X(hbm_gb, 1, 10000, true, "device memory, 1e9 bytes")                                                    \
    X(hbm_gb_s, 1, 1e6, true, "peak memory bandwidth, 1e9 bytes a second")                                   \
    X(hbm_fraction, 0.1, 1, true, "fraction of it that streams reach")                                       \
    X(nvlink_gb_s, 0, 1e5, false, "link to other GPUs, both ways; 0: none")                                  \
    X(network_gb_s, 0, 1e5, false, "link to GPUs of other nodes, one way; 0: not known")                     \
    X(pcie_gb_s, 0, 1e5, false, "link to the host, one way; 0: none")                                        \
    X(power_w, 1, 10000, true, "board power")                                                                \
    X(launch_us, 0, 1000, true, "least time between kernels of a graph")

typedef struct s2_gpu {
    char name[40];  /* "h200" */
    char title[80]; /* "NVIDIA H200 SXM 141 GB" */
#define S2_GPU_FIELD(key, low, high, required, text) double key;
    S2_GPU_KEYS(S2_GPU_FIELD)
#undef S2_GPU_FIELD
} s2_gpu;

/* Its compute capability; 90, that of the built-in calibration, where the file does not say. */
int32_t s2_gpu_capability(const s2_gpu *gpu);
/* Peak flop a microsecond of its matrix products; without units for eight bits, those are as fast as 16. */
double s2_gpu_flop_us(const s2_gpu *gpu, bool eight_bits);

/*
 * Parse one file. name becomes gpu->name. S2_EPARSE with line, column and the reason in *diag; *out is
 * untouched then.
 */
s2_status s2_gpu_parse(const char *name, const char *text, size_t n_bytes, s2_gpu *out,
                       s2_diag *diag) S2_MUST_CHECK;

/*
 * All built-in names nearest to a word, as "h100-pcie or h100-sxm"; returns how far they are: 0 for a family
 * or the beginning of a name, S2_NAME_FAR where no name is near.
 */
int32_t s2_gpu_nearest(const char *word, char *out, size_t cap);
/*
 * A GPU built into the program; case, dashes and blanks are ignored. S2_EINVAL with the nearest known name,
 * if one is near, in *diag.
 */
s2_status s2_gpu_find(const char *name, s2_gpu *out, s2_diag *diag) S2_MUST_CHECK;

/* Names of the built-in GPUs, in order; NULL at the end. */
const char *s2_gpu_name(int32_t index);

/* Texts that the build makes from sim/gpus, sim/calibration and published figures; a NULL name ends them. */
typedef struct s2_sim_text {
    const char *name;
    const char *text;
} s2_sim_text;
extern const s2_sim_text s2_sim_texts[];

#endif /* S2_SIM_GPU_H */
