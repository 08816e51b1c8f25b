/*
 * tests/bench/ceiling.h - what a card can do at best, as trials: the rates that every row is compared with.
 */
#ifndef S2_TESTS_BENCH_CEILING_H
#define S2_TESTS_BENCH_CEILING_H

#include "judge/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_ceiling {
    S2_CEILING_MATRIX, /* 8192^3 in bf16 by cuBLAS, loaded at run time: random data, fp32 sums */
    S2_CEILING_COPY,   /* 4 GiB to 4 GiB, bytes read and written */
    S2_CEILING_READ,   /* 4 GiB, read once */
    S2_N_CEILINGS
} s2_ceiling;
const char *s2_ceiling_word(s2_ceiling which);

/* S2_EUNSUPPORTED with the reason when this machine has no cuBLAS. */
s2_status s2_ceiling_open(s2_device *device, s2_ceiling which, s2_workload *out, s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_TESTS_BENCH_CEILING_H */
