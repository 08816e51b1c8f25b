/*
 * sim/inner.h - the feed-forward layers of one GPU: how many inner columns a token visits, and what they weigh.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_INNER_H
#define S2_SIM_INNER_H

#include "sim/price.h"

/*
 * Of a token that visits `picked` times as many experts as it picks: inner columns, both halves and their product
 * where it is gated, else two; of a feed-forward on average, and of the widest.
 */
double s2_inner_width(const s2_sim_options *options, double picked);
double s2_inner_widest(const s2_sim_options *options, double picked);

/* The same of one layer: of all its feed-forwards, and of the widest of them. */
double s2_inner_of(const s2_sim_options *options, int32_t layer, double picked);
double s2_inner_widest_of(const s2_sim_options *options, int32_t layer, double picked);

/* Weights of all layers, with so many experts in each that has some. */
double s2_inner_weights(const s2_sim_options *options, double n_experts);

/* What one of these weighs on average, where each of them weighs of[part]. */
double s2_inner_mean(const s2_sim_options *options, double n_experts, const double of[S2_N_STORED_PARTS]);

#endif /* S2_SIM_INNER_H */
