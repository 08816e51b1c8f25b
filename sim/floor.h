/*
 * sim/floor.h - prices short of the whole simulator: floors, or the plan, the cache or the prediction alone.
 *
 * Each fills in *sim, zero before, what s2_fidelity says of it; options->memo may be NULL. scratch is
 * rewound.
 *
 * Threads: no state except options->memo.
 */
#ifndef S2_SIM_FLOOR_H
#define S2_SIM_FLOOR_H

#include "sim/price.h"

/* Computes the part of a price that one fidelity names. */
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
/* S2_EUNSUPPORTED where only the whole simulator knows: terms without a plan, or a cache on the host. */
s2_status s2_prediction_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              int64_t *work_left, s2_sim *sim) S2_MUST_CHECK;

#endif /* S2_SIM_FLOOR_H */
