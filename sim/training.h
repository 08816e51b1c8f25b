/*
 * sim/training.h - what a training step keeps on the GPUs of a machine, and what fits.
 *
 * Everything comes from one function of options, so what is said to fit fits when it is asked for.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_TRAINING_H
#define S2_SIM_TRAINING_H

#include "sim/price.h"

/* Fills in sim->training and what fits; nothing without a net, or in another phase. */
void s2_training_price(const s2_sim_options *options, s2_sim *sim);

#endif /* S2_SIM_TRAINING_H */
