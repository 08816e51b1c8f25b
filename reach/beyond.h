/*
 * reach/beyond.h - flow at lengths that no stack holds, of patterns that repeat.
 *
 * Which queries read a key block is known for every length from a short one (reach/rhythm.h): up to some distance by a
 * list that its residue decides, and from there on by the query's residue. What a layer passes on is then a few sums
 * for each key, and costs time in proportion to the blocks, where a stack costs their square.
 *
 * Ownership: results are plain values; scratch goes to the given arena. Threads: no state.
 */
#ifndef S2_REACH_BEYOND_H
#define S2_REACH_BEYOND_H

#include "reach/flow.h"
#include "reach/lengths.h"

enum { S2_BEYOND_BLOCKS = 1 << 20 };

/*
 * The flow to the last query in a context of n_tok tokens, as s2_flow_measure() defines it. *answer says why there is
 * none where the pattern does not repeat; *out is then untouched. S2_EINVAL: n_tok < 1. S2_ELIMIT: more than
 * S2_BEYOND_BLOCKS, or more than about a minute of work. S2_ENOMEM.
 */
s2_status s2_beyond_flow(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                         s2_lengths_answer *answer, s2_flow *out) S2_MUST_CHECK;

#endif /* S2_REACH_BEYOND_H */
