/*
 * sim/activations.h - what the layers around attention hold of each token on one GPU, in bytes.
 *
 * --fusion fused holds what is still needed, as engines do; eager holds what tests/bench/models.py does: Q, K and V
 * lie in one array, of which V stays when Q and K have been rotated, and in inference every value of a layer lives
 * until that layer ends.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_ACTIVATIONS_H
#define S2_SIM_ACTIVATIONS_H

#include "sim/price.h"

/* In inference: the most that a layer holds of a token that passes through it; and a token's logits, in fp32. */
double s2_activations_passing(const s2_sim_options *options);
double s2_activations_chosen(const s2_sim_options *options);

/*
 * The results of the parts of a decode step, which are added up, of one layer: for each block of threads two lists
 * of rows, in fp32, with a maximum and a sum each (plan/decode.h).
 */
double s2_activations_parts(const s2_sim_options *options);

/*
 * In training, of a layer: what a token leaves for the backward pass, and the most while that runs, the former
 * included. picked: how many times more experts are picked on this GPU than on the mean.
 */
double s2_activations_kept(const s2_sim_options *options, double picked);
double s2_activations_going_back(const s2_sim_options *options, double picked);

/* The input of a layer, all that recomputation keeps of a token. */
double s2_activations_input(const s2_sim_options *options);

/*
 * The loss of so many tokens, whose logits are made S2_LOSS_TOK at a time: the last hidden state, normed, and its
 * gradient; and the logits' logarithms, their gradient and the one before it, in fp32.
 */
enum { S2_LOSS_TOK = 4096 };
double s2_activations_loss(const s2_sim_options *options, double n_tok);
double s2_activations_logits(const s2_sim_options *options, double n_tok);

#endif /* S2_SIM_ACTIVATIONS_H */
