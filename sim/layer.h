/*
 * sim/layer.h - the price and the cache of one layer, to compare with what a device measured.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_LAYER_H
#define S2_SIM_LAYER_H

#include "base/dtype.h"
#include "pattern/spec.h"
#include "sim/kv.h"
#include "sim/price.h"

/* One layer of a pattern, for one batch. */
typedef struct s2_layer_ask {
    const s2_pattern *pattern;
    int32_t layer;
    s2_phase phase; /* S2_TRAIN: the gradients alone */
    s2_dtype dtype;
    s2_cache_type cache;
    int64_t len_tok;
    int64_t batch;
} s2_layer_ask;

typedef struct s2_layer_price {
    char gpu[40];
    double bound_us; /* no kernel is faster */
    double time_us;  /* the plan at peak rates */
    double dram_read_bytes;
    double dram_write_bytes;
    double l2_bytes;
} s2_layer_price;

/* The built-in GPU for a device of this name, or NULL. */
const char *s2_gpu_of_device(const char *device_name);

/* S2_EUNSUPPORTED: the simulator has no price for it (fp32, a pattern it refuses). */
s2_status s2_layer_predict(const char *gpu, const s2_layer_ask *ask, s2_layer_price *out) S2_MUST_CHECK;

/* The KV cache of one layer; what init builds lives in the arena. */
typedef struct s2_layer_kv {
    s2_classes classes; /* of this layer alone */
    s2_layer_class layer;
    int32_t page_tok;
    int32_t elem_bytes;
} s2_layer_kv;

/* S2_ENOMEM, S2_ELIMIT. *kv must not be moved. */
s2_status s2_layer_kv_init(s2_layer_kv *kv, s2_arena *arena, const s2_pattern *pattern, int32_t layer,
                           s2_dtype dtype, int32_t page_tok) S2_MUST_CHECK;
/* After n_tok >= 1 tokens of one sequence. S2_ENOMEM, S2_ELIMIT. */
s2_status s2_layer_kv_count(const s2_layer_kv *kv, int64_t n_tok, s2_kv_bytes *out) S2_MUST_CHECK;

#endif /* S2_SIM_LAYER_H */
