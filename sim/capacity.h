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
 * What fits of a cache that keeps `token` bytes for each of the newest window_tok tokens of a sequence, and `state`
 * beside them, on each GPU.
 */
void s2_capacity_fit_window(const s2_sim_options *options, double token, int64_t window_tok, double state,
                            s2_sim *sim);

/* Bytes of device memory left by the weights, 0 where these alone do not fit. */
double s2_capacity_room(const s2_sim_options *options);

/*
 * What the GPUs that share a context hold together beside weights and caches in a pass of so many tokens of inference;
 * 0 without a net. Tokens are shared out; logits and the parts of a decode step count on each.
 */
double s2_capacity_pass(const s2_sim_options *options, double n_tok, double n_logits);

/* The same of what is asked for, on one GPU that has all layers. */
double s2_capacity_activations(const s2_sim_options *options);

/* How much of a GPU's cache finds no room beside weights and activations. */
double s2_capacity_beyond(const s2_sim_options *options, double cache_bytes);

/* What its memory lacks for weights, activations and such a cache. */
double s2_capacity_lack(const s2_sim_options *options, double cache_bytes);

#endif /* S2_SIM_CAPACITY_H */
