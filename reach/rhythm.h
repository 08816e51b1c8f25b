/*
 * reach/rhythm.h - how a causal pattern repeats, in blocks (docs/worth.md#every-length).
 *
 * A pair (q + period, k + period) is read exactly if (q, k) is, for k >= threshold; and (q + period, k) exactly if
 * (q, k) is, for q >= threshold and q >= k + reach.
 *
 * Ownership: plain values; scratch goes to the given arena. Threads: no state.
 */
#ifndef S2_REACH_RHYTHM_H
#define S2_REACH_RHYTHM_H

#include "reach/stack.h"

typedef struct s2_rhythm {
    int64_t threshold;
    int64_t period; /* S2_OPEN: too long for a number */
    int64_t reach;
    bool listed; /* random lists or masks: none of it holds */
} s2_rhythm;

/* The rhythm of all heads of all layers; the stack may have any length. S2_ENOMEM. */
s2_status s2_rhythm_find(s2_arena *arena, const s2_stack *stack, s2_phase phase,
                         s2_rhythm *out) S2_MUST_CHECK;

/* Blocks that show every pair that n_layers can join; more than S2_REACH_BLOCKS where they are too many. */
int64_t s2_rhythm_blocks(const s2_rhythm *rhythm, int32_t n_layers);

#endif /* S2_REACH_RHYTHM_H */
