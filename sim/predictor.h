/*
 * sim/predictor.h - the times of a search as predictions: what the calibrated kernels would take.
 *
 * With constants for the GPU (s2_sim_options.calibration) the times that a search minimises are those that
 * `s2 sim` predicts, so that its front is in the order that the device would give. A prediction plans a whole
 * launch and costs milliseconds; before it comes a floor from the same constants and the histogram of
 * sim/fast.h, which costs microseconds and is a few per cent lower.
 *
 * A time of the search is never below its floor: where the model's schedule would beat it, the floor
 * counts.
 *
 * Ownership: s2_predictor_free. Threads: one s2_predictor, one thread.
 */
#ifndef S2_SIM_PREDICTOR_H
#define S2_SIM_PREDICTOR_H

#include "sim/fast.h"

/* How the kernels run one shape. */
typedef struct s2_predictor s2_predictor;

/* options->calibration must outlive it. S2_ENOMEM. */
s2_status s2_predictor_new(const s2_pattern *shape, const s2_sim_options *options,
                           s2_predictor **out) S2_MUST_CHECK;
void s2_predictor_free(s2_predictor *predictor);

/*
 * A floor under every prediction of the candidate, all layers together; 0 where nothing is known. kv_slots:
 * resident keys. scratch is rewound.
 */
s2_status s2_predictor_floor(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                             const s2_candidate *candidate, s2_phase phase, int64_t kv_slots,
                             double *us) S2_MUST_CHECK;

/*
 * The prediction of all layers in the options' phase; predictor may be NULL, else its shape is the pattern's
 * and dense layers are predicted once. S2_EUNSUPPORTED for terms that choose at run time, and where there is
 * too much to plan; S2_ENOMEM, S2_ELIMIT; scratch is rewound.
 */
s2_status s2_predictor_time(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                            const s2_sim_options *options, double *us) S2_MUST_CHECK;

#endif /* S2_SIM_PREDICTOR_H */
