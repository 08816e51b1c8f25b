/*
 * sim/time.h - how long the attention of all layers takes, on one GPU or split among several.
 *
 * Every GPU is priced by its own heads (sim/share.h); a layer, and in training each of its two passes, waits
 * for the slowest GPU.
 *
 * Ownership: plain values; scratch lives in the arena given. Threads: no state.
 */
#ifndef S2_SIM_TIME_H
#define S2_SIM_TIME_H

#include "sim/price.h"

/* Fills counts, times, parts, prediction and ranks of *sim, whose tile is set. S2_ENOMEM, S2_ELIMIT. */
s2_status s2_time_attention(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;

/*
 * One layer of a pattern with options->calibration, on one GPU: which kernel it would run on, and how long.
 * S2_EUNSUPPORTED where there is no prediction (sim/predict.h), or planning would take more than *work_left,
 * which all layers of a pattern share: S2_SIM_PLAN_WORK in all, some seconds. *work_left is then negative. S2_ENOMEM.
 * scratch is rewound.
 * Each of several GPUs may plan as much for its own heads, S2_SIM_PLAN_RANKS times that in all.
 */
enum { S2_SIM_PLAN_WORK = 1 << 28, S2_SIM_PLAN_RANKS = 8 };
/* What options allow. */
int64_t s2_sim_plan_work(const s2_sim_options *options);
s2_status s2_sim_predict_layer(s2_arena *scratch, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                               s2_pass pass, const s2_sim_options *options, int64_t *work_left,
                               s2_launch_price *out) S2_MUST_CHECK;

#endif /* S2_SIM_TIME_H */
