/*
 * sim/machine.h - a step on a machine of many GPUs: stages of layers (pipeline), a context that is shared out,
 * experts that are dealt out.
 *
 *     stages    p of them run microbatches one after another. Prefill and training take the first one through all
 *               stages, then one each period; decode gives every microbatch a token in turn.
 *     experts   dealt out to replicas (sim/experts.h)
 *     context   c GPUs share the tokens of each sequence (s2_context_cut). Contiguous: each has an even part, and
 *               before a layer's attention is sent the earlier keys that a query of its own or a later one reads.
 *               Zigzag: each has two of 2c pieces, and all keys go round a ring while attention runs.
 *
 * What a stage takes is a price like any other, the schedule and the links are assumed; contiguous parts alone were
 * measured (docs/simulator.md).
 *
 * Threads: no state.
 */
#ifndef S2_SIM_MACHINE_H
#define S2_SIM_MACHINE_H

#include "sim/price.h"

/* Whether the options ask for one. */
bool s2_machine_asked(const s2_sim_options *options);

/* Whether such a machine is possible. S2_EINVAL, S2_EUNSUPPORTED with the reason in *diag. */
s2_status s2_machine_check(const s2_pattern *pattern, const s2_sim_options *options,
                           s2_diag *diag) S2_MUST_CHECK;

/* The most stages of so many layers, and the most GPUs that share so many tokens. */
int32_t s2_machine_most_stages(int32_t n_layers);
int32_t s2_machine_most_context(int64_t len_tok);

/* The options of a GPU that has the layers of the nth stage; *net is what out->net then leads to. */
void s2_machine_stage(const s2_sim_options *options, int32_t n_layers, int32_t nth, s2_net *net,
                      s2_sim_options *out);

/* Prices one GPU's part, or one tensor-parallel group's: all layers of the pattern, all tokens. */
typedef s2_status s2_price_whole_fn(s2_arena *scratch, const s2_pattern *pattern,
                                    const s2_sim_options *options, int64_t *work_left, s2_sim *sim,
                                    s2_diag *diag);

/* S2_EINVAL, S2_EUNSUPPORTED with the reason in *diag. */
s2_status s2_machine_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                           s2_price_whole_fn *whole, int64_t *work_left, s2_sim *sim,
                           s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_SIM_MACHINE_H */
