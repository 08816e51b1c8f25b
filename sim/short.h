/*
 * sim/short.h - what a launch of a kernel of short windows demands of the chip (kernels/cuda/fwd_sm90_window.cuh,
 * bwd_sm90_window.cuh).
 *
 * Both work in units: 8 positions of 8 heads that share a KV head, against the keys of the longest window that they
 * take. Every unit costs the same, whatever the window and the head dimension; some more where keys are compared one
 * by one, for another window than the longest one and for positions before its end. Products with weights that are 0
 * draw no power. Forward, an item has 8 units.
 * Gradients walk ranges of units (s2_window_ranges), which stand in the load as columns; n_masked of these counts their
 * positions, which cost something however many sets of 8 heads they have.
 *
 * Ownership: arrays live in the arena. Threads: no state.
 */
#ifndef S2_SIM_SHORT_H
#define S2_SIM_SHORT_H

#include "sim/load.h"

/*
 * Fills what s2_load_of() has not: items or columns, bytes, products. The plan reads a short window, and n_sms blocks
 * of threads work through it. S2_ENOMEM.
 */
s2_status s2_load_short(s2_arena *arena, const s2_plan *plan, int32_t n_sms,
                        s2_kernel_load *load) S2_MUST_CHECK;

#endif /* S2_SIM_SHORT_H */
