/*
 * cli/predict.h - what the simulator says of one layer, to stand beside what a device measured.
 */
#ifndef S2_CLI_PREDICT_H
#define S2_CLI_PREDICT_H

#include "base/dtype.h"
#include "pattern/spec.h"
#include "sim/price.h"

/* One layer of a pattern, of one batch. */
typedef struct s2_predict_ask {
    const s2_pattern *pattern;
    int32_t layer;
    s2_sim_phase phase; /* S2_SIM_TRAIN: the gradients alone */
    s2_dtype dtype;
    int64_t len_tok;
    int64_t batch;
} s2_predict_ask;

typedef struct s2_prediction {
    char gpu[40];
    double bound_us; /* no kernel is faster */
    double time_us;  /* the plan at peak rates */
    double dram_read_bytes;
    double dram_write_bytes;
    double l2_bytes;
} s2_prediction;

/* The built-in GPU that a device of this name is, or NULL. */
const char *s2_predict_gpu(const char *device_name);

/* S2_EUNSUPPORTED: the simulator has no price for it (fp32, a pattern it refuses). */
s2_status s2_predict(const char *gpu, const s2_predict_ask *ask, s2_prediction *out) S2_MUST_CHECK;

#endif /* S2_CLI_PREDICT_H */
