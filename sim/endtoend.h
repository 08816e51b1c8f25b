/*
 * sim/endtoend.h - the layers around attention: bounds at peak rates, or estimates with a calibration.
 *
 * Matrix products are bound by the matrix peak or by reading their weights once, element-wise work by
 * reading and writing the hidden state, the all-reduce of tensor parallelism by the links.
 */
#ifndef S2_SIM_ENDTOEND_H
#define S2_SIM_ENDTOEND_H

#include "sim/price.h"

/* Appends parts to sim->parts, which already has attention. */
void s2_end_to_end_add(const s2_sim_options *options, s2_sim *sim);

/* Time around attention in one inference step of n_tok tokens, of which n_logits need logits. */
double s2_end_to_end_around(const s2_sim_options *options, double n_tok, double n_logits);

/* Bytes of an element of a hidden state, of a weight and a gradient on a link; and of a logit. */
#define S2_HIDDEN_BYTES 2.0
#define S2_LOGIT_BYTES  4.0

/*
 * Columns that one GPU has of Q, K, V and O together, KV heads copied where there are more GPUs than heads; of the
 * widest layer.
 */
double s2_end_to_end_attention_width(const s2_sim_options *options);

/*
 * Weights of one GPU's layers, with all experts, and those in experts; the bytes that it holds, which are of its
 * own experts only.
 */
double s2_end_to_end_weights(const s2_sim_options *options);
double s2_end_to_end_experts(const s2_sim_options *options);
int64_t s2_end_to_end_weight_bytes(const s2_sim_options *options);

#endif /* S2_SIM_ENDTOEND_H */
