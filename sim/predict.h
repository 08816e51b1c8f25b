/*
 * sim/predict.h - which kernel a layer would run on, with which plan, and how long it would take.
 *
 * The plan is cut as the calibrated kernel wants it, so what is priced is what would run.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_PREDICT_H
#define S2_SIM_PREDICT_H

#include "pattern/models.h"
#include "sim/calibration.h"

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
    s2_model_scores scores;
    const char *gpu; /* whose constants the model has; matters with scores alone, NULL: nobody's */
    bool
        listed; /* what the pattern reads is said by lists of whole blocks on the device, planned in each launch */
    int64_t *work_left; /* limits the planning (plan/plan.h), or NULL */
    /* decode of one token each: what the sequences read, [batch][KV head], instead of a plan; k_tok is the longest */
    const s2_load_list *lists;
} s2_launch;

/* How a time counts what is done to scores besides scaling them (sim/scores.h); the worse, the greater. */
typedef enum s2_scored {
    S2_SCORED_NONE,     /* nothing is */
    S2_SCORED_MEASURED, /* by what such launches took longer than the same ones without */
    S2_SCORED_ASSUMED,  /* by the same law where that was not measured: the error is an allowance */
    S2_SCORED_NOT,      /* not: nothing was measured, and the error is an allowance */
    S2_SCORED_BOUND,    /* not: the time is a bound, with them and without */
    S2_N_SCORED
} s2_scored;
const char *
s2_scored_word(s2_scored scored); /* "measured", "assumed", "left out", "bound"; NULL: nothing is */

/* How far a launch is from those that judged its kernel. */
typedef struct s2_far {
    double beyond; /* how often the farthest extent must be halved or doubled to be inside; 0: it is */
    s2_extent in;
    double asked;
    s2_span_of_points span; /* of the points judged; between two: the nearest on either side */
} s2_far;

typedef struct s2_launch_price {
    const s2_kernel_model *kernel;
    s2_forecast forecast;
    /*
     * Measured on points of this kernel and pass that were never fitted. Outside the range of those points
     * the error is not known: there at least their 90th percentile is allowed for, doubled with each factor
     * of two, and at a head dimension that was not measured at least S2_GUESS_PCT. Where a kernel of its own decodes
     * more than 16 rows a list and no point judged that, it is unknown.
     */
    s2_error error;
    s2_far far;
    s2_scored scored;
    bool capped; /* and the cap is counted */
    /* The kernel that runs this launch faster than priced, and has no constants. Else NULL. */
    const char *runs_on;
} s2_launch_price;

/* Whether a kernel takes queries of this type: in e4m3 those alone that multiply it, and these nothing else. */
bool s2_predict_takes_dtype(const s2_kernel_model *kernel, s2_dtype dtype);

/* Whether the kernel takes this head dimension on the chip of the model. */
bool s2_predict_takes_dim(const s2_time_model *model, const s2_kernel_model *kernel, int32_t head_dim);

/* The plan that a kernel wants, before heads are packed. */
s2_plan_options s2_predict_cut(const s2_kernel_model *kernel, const s2_pattern *pattern);

/*
 * Where there are very many sequences, some are planned, and half of these; each other one is taken to last as long.
 * S2_EUNSUPPORTED when no kernel of the model accepts the layer (terms that choose at run time, a pass that
 * was not calibrated); S2_ELIMIT when planning it would take more than *work_left. scratch is rewound.
 */
s2_status s2_predict_launch(s2_arena *scratch, const s2_time_model *model, const s2_launch *launch,
                            s2_launch_price *out) S2_MUST_CHECK;

/* Whether the plan of a launch, or of the part of its sequences that stands for all of them, stays below a gigabyte. */
bool s2_predict_can_plan(const s2_launch *launch);

/* The error of a launch on that kernel: fills error and far. */
void s2_predict_error(const s2_kernel_model *kernel, const s2_kernel_load *load, s2_launch_price *out);

#endif /* S2_SIM_PREDICT_H */
