/*
 * sim/states.h - layers that keep a state of fixed size: linear attention, Mamba, a convolution.
 *
 * A pattern says how large a state is but not how it is computed. So its bytes are counted, and its time is a
 * bound: a decoded token reads and writes the state, prefill leaves one behind, training keeps none, and each
 * pass costs at least a launch.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_STATES_H
#define S2_SIM_STATES_H

#include "sim/price.h"

/* The states of a pattern, and how long moving them takes. */
s2_states s2_states_of(const s2_pattern *pattern, const s2_sim_options *options);

/* Adds the states of the pattern to counts, times and parts of *sim, which already hold attention. */
void s2_states_add(const s2_pattern *pattern, const s2_sim_options *options, s2_sim *sim);

#endif /* S2_SIM_STATES_H */
