/*
 * reach/measures.h - all measures of this room for one pattern at one length.
 *
 * Ownership: everything lives in the given arena. Threads: no state.
 */
#ifndef S2_REACH_MEASURES_H
#define S2_REACH_MEASURES_H

#include "reach/flow.h"
#include "reach/hops.h"
#include "reach/readers.h"
#include "reach/worth.h"

typedef struct s2_measures {
    s2_stack stack;
    s2_hops hops;
    s2_readers readers;
    s2_flow flow;
    s2_worth worth;
} s2_measures;

/* S2_EINVAL: n_tok < 1. S2_ELIMIT: too many blocks, or too many reads. S2_ENOMEM. */
s2_status s2_measures_take(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                           s2_measures *out) S2_MUST_CHECK;

#endif /* S2_REACH_MEASURES_H */
