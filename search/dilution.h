/*
 * search/dilution.h - how many times weaker the signal of a pattern is than that of dense attention: the mean
 * signal of the layers that attend (reach/worth.h, docs/worth.md), computed by arithmetic for the patterns of
 * sim/fast.h and row by row for others.
 *
 * Ownership: scratch lives in the arena. Threads: no state.
 */
#ifndef S2_SEARCH_DILUTION_H
#define S2_SEARCH_DILUTION_H

#include "pattern/spec.h"

/* The dilution if no layer has a signal. */
#define S2_DILUTION_MOST 1e6

/*
 * 1 for dense attention. Patterns with a fast form cost O(blocks + heads) and have no limits; for others,
 * S2_ELIMIT beyond the limits of reach/stack.h. S2_ENOMEM.
 */
s2_status s2_dilution_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                         double *out) S2_MUST_CHECK;

#endif /* S2_SEARCH_DILUTION_H */
