/*
 * sim/predict.h - which kernel a layer would run on, with which plan, and how long it would take.
 *
 * The plan is built as the kernel of the calibration asks for it, so what is priced is what would run.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_PREDICT_H
#define S2_SIM_PREDICT_H

#include "sim/calibration.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch: `batch` sequences, the last q_tok of k_tok positions of one layer. */
typedef struct s2_launch {
    const s2_pattern *pattern;
    s2_phase phase; /* whose rules */
    int32_t layer;
    s2_pass pass;
    int32_t q_tok;
    int32_t k_tok;
    int32_t batch;
    s2_dtype dtype;
    int64_t *work_left; /* of planning it (plan/plan.h), or NULL */
} s2_launch;

typedef struct s2_launch_price {
    const s2_kernel_model *kernel;
    s2_forecast forecast;
    /*
     * Measured on points never fitted, of this kernel and pass. Beyond where those points went nobody knows it:
     * then it is no less than their 90th percentile, and doubles with each factor of two.
     */
    double error_pct;
    double
        beyond; /* how often the extent that is farthest out would have to be halved or doubled; 0: inside */
    s2_extent extent; /* then: which */
    double asked;
} s2_launch_price;

enum { S2_BEYOND_LIMIT_PCT = 100 }; /* a wider error says nothing more */

/* The plan that a kernel asks for, before heads are packed. */
s2_plan_options s2_predict_cut(const s2_kernel_model *kernel, const s2_pattern *pattern);

/*
 * S2_EUNSUPPORTED when no kernel of the model takes the layer (terms that choose at run time, a pass that was
 * not calibrated); S2_ELIMIT when planning it takes more than is left. scratch is rewound.
 */
s2_status s2_predict_launch(s2_arena *scratch, const s2_time_model *model, const s2_launch *launch,
                            s2_launch_price *out) S2_MUST_CHECK;

/* The error of a launch by that kernel: fills error_pct, beyond, extent and asked. */
void s2_predict_error(const s2_kernel_model *kernel, const s2_kernel_load *load, s2_launch_price *out);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_PREDICT_H */
