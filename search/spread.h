/*
 * search/spread.h - how far and how strongly information spreads through the layers, as numbers to minimize: hops and
 * flow as s2 reach measures them (reach/hops.h, reach/flow.h, docs/worth.md), by the rules of prefill.
 *
 * Ownership: scratch lives in the arena. Threads: no state.
 */
#ifndef S2_SEARCH_SPREAD_H
#define S2_SEARCH_SPREAD_H

#include "pattern/spec.h"

/* Layers until every key has reached every later query; n_layers + 1: more than there are. S2_ELIMIT beyond the limits
 * of reach/stack.h. S2_ENOMEM. */
s2_status s2_hops_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, double *out) S2_MUST_CHECK;

/* How much of the key that arrives weakest reaches the last query, relative to dense attention. Limits as above. */
s2_status s2_least_flow_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                           double *out) S2_MUST_CHECK;

#endif /* S2_SEARCH_SPREAD_H */
