/*
 * sim/floor.h - prices below the whole simulator: floors, the plan alone, the cache alone, the prediction alone.
 *
 * Each fills what s2_fidelity says of it in *sim, which is 0 before; options->memo may be NULL. scratch is
 * rewound.
 *
 * Threads: no state but options->memo.
 */
#ifndef S2_SIM_FLOOR_H
#define S2_SIM_FLOOR_H

#include "sim/price.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The part of a price that a fidelity asks for. */
typedef s2_status (*s2_price_part_fn)(s2_arena *scratch, const s2_pattern *pattern,
                                      const s2_sim_options *options, int64_t *work_left, s2_sim *sim);

/* S2_ENOMEM, S2_ELIMIT. */
s2_status s2_floor_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;
s2_status s2_floor_raise(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;
s2_status s2_cache_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;
s2_status s2_plan_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                        int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;
/* S2_EUNSUPPORTED where only the whole simulator knows: its ways with what cannot be planned, and with the host. */
s2_status s2_prediction_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_FLOOR_H */
