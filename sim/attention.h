/*
 * sim/attention.h - the attention kernels of all layers, priced at peak rates.
 *
 * s2_price uses it for the pattern and for the dense pattern that it is compared with.
 */
#ifndef S2_SIM_ATTENTION_H
#define S2_SIM_ATTENTION_H

#include "sim/price.h"

typedef struct s2_attention {
    s2_counts counts;
    double time_us;
    double bound_us;
    double busy_us[S2_N_RESOURCES]; /* each resource alone */
    double forward_us;              /* of time_us, in training */
    double select_us;               /* choosing keys at run time, not in time_us */
    s2_resource select_by;
    double imbalance;
    double density;
    double executed_density;
    int32_t n_sparse_layers;
    bool overflow;
} s2_attention;

/* Prefill and training: the work of each head class and of a dense head, in the arena. */
typedef struct s2_head_counts {
    s2_head_work *work;
    s2_head_work dense;
} s2_head_counts;

/* `classes` may be a share (sim/share.h) of the counted ones. S2_ELIMIT beyond 2^63. */
s2_status s2_attention_price_counted(s2_arena *scratch, const s2_classes *classes,
                                     const s2_head_counts *counts, const s2_sim_options *options,
                                     s2_tile_shape shape, s2_attention *out) S2_MUST_CHECK;

/* Counts and prices at once, for a single use. */
s2_status s2_attention_price(s2_arena *scratch, const s2_classes *classes, const s2_sim_options *options,
                             s2_tile_shape shape, s2_attention *out) S2_MUST_CHECK;

/* Steps that the query heads of each KV head compute in a layer: work[n_kv_heads]. */
s2_status s2_attention_kv_work(const s2_classes *classes, const s2_head_counts *counts,
                               const s2_layer_class *layer, const s2_sim_options *options,
                               s2_tile_shape shape, int64_t *work) S2_MUST_CHECK;

/* The resource that is busy longest. */
s2_resource s2_attention_busiest(const s2_attention *attention);

/* A pattern, and the same shape with every head dense. */
typedef struct s2_attention_pair {
    s2_classes classes;
    s2_head_counts counts;
    s2_attention own;
    s2_pattern dense_pattern; /* dense_classes points to it: do not copy a pair */
    s2_classes dense_classes;
    s2_head_counts dense_counts;
    s2_attention dense;
} s2_attention_pair;

/* The options say the phase; everything is in the arena. S2_ELIMIT beyond *work_left. */
s2_status s2_attention_price_pair(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                                  s2_tile_shape shape, int64_t *work_left,
                                  s2_attention_pair *out) S2_MUST_CHECK;

#endif /* S2_SIM_ATTENTION_H */
