/*
 * tests/kcheck/listed.h - forwards over lists of blocks in the device's memory, judged like any other kernel.
 */
#ifndef S2_TESTS_KCHECK_LISTED_H
#define S2_TESTS_KCHECK_LISTED_H

#include "kernels/kernel.h"

/*
 * The CPU's and the Hopper forward of a dense layer whose lists say what the pattern reads. They are out of order, and have
 * duplicates, numbers of no block and counts out of range wherever these change nothing. The second supports
 * nothing in a build without CUDA.
 */
extern const s2_kernel s2_listed_cpu, s2_listed_sm90;

/* The problem that the kernel under one of these was given, and its state; both are the state's own. */
const s2_attn_problem *s2_listed_under(void *state, void **under);

#endif /* S2_TESTS_KCHECK_LISTED_H */
