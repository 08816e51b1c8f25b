/*
 * sim/endtoend.h - the layers around attention: bounds at peak rates, or with a calibration estimates.
 *
 * Matrix products are bound by the matrix peak or by reading their weights once; element-wise work by
 * reading and writing the hidden state; the all-reduce of tensor parallelism by the links.
 */
#ifndef S2_SIM_ENDTOEND_H
#define S2_SIM_ENDTOEND_H

#include "sim/price.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends parts to sim->parts; attention is there already. */
void s2_end_to_end_add(const s2_sim_options *options, s2_sim *sim);

/* All around attention of one step of inference in which so many tokens pass, and logits are taken of n_logits. */
double s2_end_to_end_around(const s2_sim_options *options, double n_tok, double n_logits);

/* Weights of one GPU in bytes. */
int64_t s2_end_to_end_weight_bytes(const s2_sim_options *options);

/* What training keeps on one GPU; all 0 without a net. */
void s2_end_to_end_training(const s2_sim_options *options, s2_training *out);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_ENDTOEND_H */
