/*
 * sim/time.h - how long the attention of all layers takes, on one GPU or shared by several.
 *
 * Every GPU is priced by its own heads (sim/share.h); a layer, and in training each of its two passes, waits
 * for the slowest GPU.
 */
#ifndef S2_SIM_TIME_H
#define S2_SIM_TIME_H

#include "sim/price.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills counts, times, parts, prediction and ranks of *sim, whose tile is set. S2_ENOMEM, S2_ELIMIT. */
s2_status s2_time_attention(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_TIME_H */
