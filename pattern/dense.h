/*
 * pattern/dense.h - the definition itself: does this query read that key?
 *
 * Written straight from the table of docs/pattern-language.md, one case per term, and nothing else:
 * the oracle, the enumerating prover and the property tests rely on it, so it shares no code with
 * pattern/view.h or with block lists. Slow by design.
 */
#ifndef S2_PATTERN_DENSE_H
#define S2_PATTERN_DENSE_H

#include "pattern/spec.h"

/*
 * Whether query q_tok reads key k_tok in a context of n_tok tokens (which matters only to random
 * lists of a pattern that is not causal). Dynamic terms read here what they read for certain: all
 * keys of a causal pattern while there are no more than they choose; beyond that what they choose
 * is data. Keys and queries outside a mask file are not read by it.
 */
bool s2_pattern_reads(const s2_pattern *pattern, s2_phase phase, int32_t layer, int32_t head, int64_t n_tok,
                      int64_t q_tok, int64_t k_tok);

/* One term of a body; `causal` is not applied here. */
bool s2_term_reads(const s2_pattern *pattern, const s2_term *term, int32_t layer, int32_t head, int64_t n_tok,
                   int64_t q_tok, int64_t k_tok);

#endif /* S2_PATTERN_DENSE_H */
