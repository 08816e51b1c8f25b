/*
 * judge/counters.h - bytes that one launch moved, from the hardware's counters.
 *
 * NVIDIA's Nsight Compute (`ncu`) is a program, not a library: it runs `s2 validate --once` of the same
 * pattern and shape, looks at the second launch, and writes a table that is read back. It flushes the caches
 * first, so the numbers are those of a cold launch. No clock is changed.
 */
#ifndef S2_JUDGE_COUNTERS_H
#define S2_JUDGE_COUNTERS_H

#include "base/arena.h"
#include "pattern/spec.h"

typedef struct s2_counters {
    double dram_read_bytes;
    double dram_write_bytes;
    double l2_bytes;   /* between the SMs and L2 */
    double kernel_us;  /* the launch's kernels, one after the other, under the profiler */
    int32_t n_kernels; /* 0: not measured */
} s2_counters;

/*
 * args: what follows "validate" on the launch's command line, NULL at the end; the pattern's text is passed
 * in a file. S2_OK with *out filled, or S2_EUNSUPPORTED with the reason: no ncu, no permission, no counters.
 */
s2_status s2_counters_measure(const s2_pattern *pattern, const char *const *args, s2_counters *out,
                              s2_diag *why) S2_MUST_CHECK;

/* The metrics that the table has columns for, in the form of --metrics. */
extern const char s2_counters_metrics[];
/* The table that `ncu --csv --page raw --print-units base` writes; S2_EPARSE when nothing was profiled. */
s2_status s2_counters_parse(char *text, s2_counters *out) S2_MUST_CHECK;

#endif /* S2_JUDGE_COUNTERS_H */
