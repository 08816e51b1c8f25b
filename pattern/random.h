/*
 * pattern/random.h - the lists that `random N seed S` draws.
 *
 * The only code that the definition (pattern/dense.h) and the folded view (pattern/view.h) share: the lists
 * drawn are data, not a reading of the pattern.
 *
 * Threads: no state.
 */
#ifndef S2_PATTERN_RANDOM_H
#define S2_PATTERN_RANDOM_H

#include <stdint.h>

/*
 * The list of the `random N seed S` term for one row, ascending: min(n, n_choices) distinct blocks of
 * [0, n_choices), where n_choices is i + 1 when causal and the blocks of the context otherwise.
 * Robert Floyd's sampling, one SplitMix64 stream per (seed, layer, head, i). Returns how many.
 */
int32_t s2_random_row(uint64_t seed, int32_t layer, int32_t head, int64_t q_blk, int64_t n, int64_t n_choices,
                      int32_t *out);

#endif /* S2_PATTERN_RANDOM_H */
