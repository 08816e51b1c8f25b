/*
 * sim/scores.h - what launches take whose scores are capped (Gemma 2) or whose heads have sink logits (gpt-oss).
 *
 * The constants of a calibration come from launches that only scale their scores. These are added, from
 * a few launches with a cap or sinks and the same ones without (docs/results/h200-scores.jsonl). Bounds stay as
 * they are: they hold with a cap or sinks too, which only add work.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_SCORES_H
#define S2_SIM_SCORES_H

#include "sim/price.h"

/* Whether the kernel takes such scores at a known cost: gradients of capped ones run on another kernel. */
bool s2_scores_known(s2_model_scores scores, const s2_kernel_model *kernel);

/*
 * Adds what they take to a launch of this kernel, and says so in *out: `scored`, and the error, which is at least
 * that of these constants, and an allowance where they were not measured.
 */
void s2_scores_add(const s2_launch *launch, const s2_kernel_model *kernel, const s2_time_model *model,
                   s2_kernel_load *load, s2_launch_price *out);

/* Adds to a load what sinks take of a kernel with these traits. */
void s2_scores_add_sinks(const s2_kernel_traits *traits, int32_t n_heads, double rows, double n_sms,
                         s2_kernel_load *load);

/* What is done to the scores of a priced pattern: by the net if one is priced, else by the named model. */
s2_model_scores s2_scores_of(const s2_sim_options *options, const s2_pattern *pattern);

/* How far the constants were off such launches, of the time of the launch; 0 where nothing is done to scores. */
double s2_scores_error_pct(s2_model_scores scores);

#endif /* S2_SIM_SCORES_H */
