/*
 * reach/lengths.h - which measures hold at every length, and the length that decides it.
 *
 * A causal pattern without random lists and masks repeats (docs/worth.md#every-length): beyond some distance
 * what is read depends only on residues, and so does what a few layers let through. One length therefore shows
 * every pair that can occur, and longer ones add nothing.
 *
 * Ownership: results are plain values; scratch goes to the given arena. Threads: no state.
 */
#ifndef S2_REACH_LENGTHS_H
#define S2_REACH_LENGTHS_H

#include "reach/stack.h"

typedef enum s2_lengths_answer {
    S2_LENGTHS_DECIDED,
    S2_LENGTHS_NOT_CAUSAL,
    S2_LENGTHS_LISTED,  /* random lists or masks: they do not repeat */
    S2_LENGTHS_PARTIAL, /* blocks are read in part, or keys are chosen at run time */
    S2_LENGTHS_STATE, /* not within the stack by reads, and a layer keeps a state, which carries what it saw */
    S2_LENGTHS_TOO_LARGE /* the length that would decide has more blocks or reads than the stack's limits */
} s2_lengths_answer;

/* Everything but `answer` is set only where it is S2_LENGTHS_DECIDED. */
typedef struct s2_lengths {
    s2_lengths_answer answer;
    int32_t n_blk;  /* the length that decides: every longer one has the same values */
    int32_t layers; /* hops, as s2_hops.layers; 0: at this length and every longer one not within the stack */
    int32_t least_heads; /* query heads of a layer that read a pair, over all pairs and layers */
    int32_t least_kv_heads;
    int32_t window; /* blocks behind every query that every head reads; 0: none; n_blk: all */
} s2_lengths;

/* S2_ENOMEM. */
s2_status s2_lengths_decide(s2_arena *arena, const s2_pattern *pattern, s2_phase phase,
                            s2_lengths *out) S2_MUST_CHECK;

#endif /* S2_REACH_LENGTHS_H */
