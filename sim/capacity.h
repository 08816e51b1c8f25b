/*
 * sim/capacity.h - the KV cache on each GPU, what fits next to the weights, and what spills to the host.
 */
#ifndef S2_SIM_CAPACITY_H
#define S2_SIM_CAPACITY_H

#include "sim/price.h"

/* Fills in *sim everything about the cache and what fits. S2_ENOMEM, S2_ELIMIT. */
s2_status s2_capacity_price(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;

/* A cache that does not fit spills to host memory: each token waits for the link, and the time is a bound. */
void s2_capacity_spill(const s2_sim_options *options, s2_sim *sim);

/*
 * bytes[n]: the most that one sequence keeps, states included, on the GPU that holds the most, at any length
 * up to each of len_tok[n]. The whole pages of its first shared_tok tokens belong to another sequence.
 * S2_ENOMEM, S2_ELIMIT.
 */
s2_status s2_capacity_peaks(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t shared_tok, int32_t n, const int64_t *len_tok,
                            double *bytes) S2_MUST_CHECK;

/*
 * Bytes that a pass of prefill holds besides weights and cache, while it works on all of its tokens together: for each
 * the residual stream, a norm of it, and what its widest layer makes of that (Q, K, V and O, or all of the feed-forward
 * layer), and the logits of each sequence's last token. 0 in other phases, and without a model.
 */
double s2_capacity_activations(const s2_sim_options *options);

/* Bytes of device memory left by the weights, 0 where these alone do not fit. */
double s2_capacity_room(const s2_sim_options *options);

#endif /* S2_SIM_CAPACITY_H */
