/*
 * sim/activations.h - what the layers around attention hold of each token on one GPU, in bytes.
 *
 * --fusion fused holds what is still needed, as engines do; eager holds what tests/bench/models.py does: Q, K and V
 * lie in one array, of which V stays when Q and K have been rotated, and in inference every value of a layer lives
 * until that layer ends.
 *
 * GPUs that share a context (--cp) also hold keys and values of others, of the layer whose attention runs:
 *
 *     contiguous  as python/s2/exchange.py does, for the last GPU, which holds most: its own in one array; the rows
 *                 that it is sent, counted as all earlier ones; and an array with room for all tokens up to its
 *                 last, whatever it reads of them, twice while rows are put into it. Attention reads that array, and
 *                 its backward pass keeps it. There gradients have that size: of keys and values, and of both
 *                 together twice, as autograd adds up those of the halves of an array
 *     zigzag      the part that is read and the one that arrives (Liu et al. 2023), and going back their gradients
 *
 * Threads: no state.
 */
#ifndef S2_SIM_ACTIVATIONS_H
#define S2_SIM_ACTIVATIONS_H

#include "sim/price.h"

/*
 * In inference: the most that a layer holds of a token that passes through it, where so many times more experts are
 * picked on this GPU than on the mean; and a token's logits, in fp32.
 */
double s2_activations_passing(const s2_sim_options *options, double picked);
double s2_activations_chosen(const s2_sim_options *options);

/*
 * The results of the parts of a decode step, which are added up, of one layer: for each block of threads two lists
 * of rows, in fp32, with a maximum and a sum each (plan/decode.h).
 */
double s2_activations_parts(const s2_sim_options *options);

/*
 * In training, of a layer: what a token leaves for the backward pass, and the most while that runs, the former
 * included. picked: how many times more experts are picked on this GPU than on the mean. Of a mixer it is what its
 * norm and its products leave; what a scan leaves beside that is not known, so both are the least.
 */
double s2_activations_kept(const s2_sim_options *options, int32_t layer, double picked);
double s2_activations_going_back(const s2_sim_options *options, int32_t layer, double picked);

/* Of which keys and values of other GPUs, and copies: the most while attention runs forward. 0 without --cp. */
double s2_activations_sent(const s2_sim_options *options);

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
