/*
 * sim/experts.h - a mixture of experts whose experts are dealt out to several GPUs (expert parallelism).
 *
 * n replicas of everything else, each with tokens of its own, have an n-th of the experts of each layer. A token is
 * sent to the GPUs that have the experts it picks, and what they make of it is sent back. Picks are taken to be
 * independent and equally likely; the GPU with most of them decides.
 *
 * Nothing here was measured. Threads: no state.
 */
#ifndef S2_SIM_EXPERTS_H
#define S2_SIM_EXPERTS_H

#include "sim/price.h"

/* So many tokens on each GPU. Where no GPUs share experts, one has all of them, and imbalance is 1. */
s2_expert_price s2_experts_deal(const s2_sim_options *options, double tokens);

/* S2_EINVAL with the reason in *diag. */
s2_status s2_experts_check(const s2_sim_options *options, s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SIM_EXPERTS_H */
