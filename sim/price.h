/*
 * sim/price.h - what a pattern costs on a GPU: exact counts, lower bounds of time, and predictions.
 *
 * Three times are given:
 *   bound_us   any kernel whatever: useful pairs only, perfect balance, peak rates;
 *   plan_us    a bound too: whole tiles, the longest-first schedule over the SMs, compulsory memory traffic,
 * one launch a layer, at peak rates; time_us    with a calibration, what the kernels of this repository would
 * take (sim/predict.h), and error_pct says how far such predictions were off; without one it is plan_us.
 * bound_us <= time_us always, and no measurement of these kernels may fall below bound_us.
 * Times of parts add up; a part is bound by the resource with the longest time of its own.
 *
 * Ownership: an s2_sim is plain data. Threads: no state.
 */
#ifndef S2_SIM_PRICE_H
#define S2_SIM_PRICE_H

#include "base/dtype.h"
#include "sim/gpu.h"
#include "sim/calibration.h"
#include "sim/kv.h"
#include "sim/net.h"
#include "sim/predict.h"
#include "sim/work.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_sim_phase { S2_SIM_PREFILL, S2_SIM_DECODE, S2_SIM_TRAIN, S2_N_SIM_PHASES } s2_sim_phase;
const char *s2_sim_phase_word(s2_sim_phase phase);
const char *s2_dtype_word(s2_dtype dtype);
int32_t s2_dtype_bytes(s2_dtype dtype);

typedef struct s2_sim_options {
    s2_gpu gpu;
    const s2_net *net;                 /* the layers around attention, or NULL: attention alone */
    const s2_calibration *calibration; /* NULL: bounds only */
    s2_sim_phase phase;
    s2_dtype dtype;
    int64_t len_tok;  /* 1 .. S2_LIMIT_CONTEXT_TOK; decode prices the token at len_tok - 1 */
    int64_t batch;    /* sequences of that length, 1 .. 65536 */
    int32_t page_tok; /* of the KV cache */
    int32_t n_ranks;  /* tensor-parallel GPUs; divides the KV heads */
} s2_sim_options;

/* h200, prefill, bf16, 8192 tokens, batch 1, pages of 16 tokens, one rank. */
s2_status s2_sim_options_default(s2_sim_options *out) S2_MUST_CHECK;

/* What holds a part up. */
typedef enum s2_resource { S2_MMA, S2_EXP, S2_HBM, S2_L2, S2_LINK, S2_LAUNCH, S2_N_RESOURCES } s2_resource;
const char *s2_resource_word(s2_resource resource);

typedef struct s2_part {
    const char *name;
    double time_us;
    s2_resource bound_by;
} s2_part;
enum { S2_MAX_PARTS = 12, S2_MAX_KV_POINTS = 12 };

/* The cache at one length on the way. */
typedef struct s2_kv_point {
    int64_t len_tok;
    s2_kv_bytes bytes;
} s2_kv_point;

/* Totals over layers, heads and batch. */
typedef struct s2_counts {
    int64_t pairs;
    int64_t blk_pairs;
    int64_t tiles;         /* key blocks loaded */
    int64_t steps;         /* kernel steps computed */
    int64_t flop_useful;   /* attended pairs only */
    int64_t flop_executed; /* whole tiles */
    int64_t exp_useful;
    int64_t exp_executed;
    int64_t hbm_read; /* compulsory: each byte once */
    int64_t hbm_write;
    int64_t l2; /* what tiles load from L2 or beyond */
} s2_counts;

typedef struct s2_sim {
    s2_counts counts;
    s2_counts dense;
    double density;          /* of blocks, mean over the heads of the layers that are not dense */
    double token_density;    /* of pairs, over all layers */
    double executed_density; /* executed work / what a dense pattern executes, sparse layers */
    int32_t n_sparse_layers;
    int32_t n_head_classes;
    double time_us;
    double plan_us;
    double bound_us;
    double dense_time_us; /* of the same kind as time_us */
    bool predicted;       /* time_us is a prediction */
    double error_pct;     /* then: mean error of such predictions on points that were not fitted */
    const char *kernel;   /* then: which one, of the layer with the most time; "" otherwise */
    double clock_mhz;     /* then: in that layer */
    double dram_bytes;    /* then: of all layers, caches cold at each; 0 otherwise */
    double l2_bytes;      /* then: from L2 to the SMs */
    s2_resource bound_by;
    double imbalance; /* longest worker / mean worker, of the layer with the most work; 1 in decode */
    s2_tile_shape tile;
    s2_kv_bytes kv;
    int64_t kv_fullest;   /* head pages of the rank that holds most; of all heads where there is one */
    int64_t kv_wasted[2]; /* allocated and unused with head pages of 16 and of 64 tokens */
    int64_t kv_peak;      /* most that head pages hold on the way to len_tok */
    int64_t kv_peak_tok;
    double kv_mean;
    bool kv_every_block;
    int32_t n_kv_points; /* lengths len_tok, len_tok / 2, ... in ascending order */
    s2_kv_point kv_points[S2_MAX_KV_POINTS];
    int64_t weight_bytes; /* 0 without a net */
    int64_t fit_batch;    /* sequences of len_tok that fit beside the weights, head pages */
    int64_t fit_batch_dense;
    int64_t fit_len_tok; /* longest context that fits at this batch, head pages; 0: none */
    int64_t fit_len_dense_tok;
    int64_t host_bytes;       /* of the cache that must lie in host memory, one rank, head pages */
    int64_t host_dense_bytes; /* the same of the dense pattern */
    int64_t host_read_bytes;  /* of these read over the link for one decoded token; 0 in other phases */
    int32_t n_parts;          /* attention first */
    s2_part parts[S2_MAX_PARTS];
    double end_to_end_us; /* sum of all parts with a net, else 0 */
    double end_to_end_dense_us;
} s2_sim;

/*
 * Price a pattern. S2_EINVAL with the reason in *diag (a model of another shape, ranks that do not
 * divide); S2_ELIMIT when a total exceeds 2^63, or counting takes more than S2_SIM_WORK steps (base/work.h):
 * some seconds; S2_EINTERNAL when a floor is broken; S2_ENOMEM. scratch is rewound.
 */
s2_status s2_sim_run(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options, s2_sim *out,
                     s2_diag *diag) S2_MUST_CHECK;

/* dense_time_us is that of a cache which does not fit and is read over the link: a low bar for any pattern.
 */
bool s2_sim_dense_spills(const s2_sim_options *options, const s2_sim *sim);

/*
 * One layer of a class with options->calibration: what it would run on, and the time of one rank.
 * S2_EUNSUPPORTED where there is no prediction (sim/predict.h), or more to plan than *work_left, of which all
 * layers of a pattern take, S2_SIM_PLAN_WORK in all: some seconds. S2_ENOMEM. scratch is rewound.
 */
enum { S2_SIM_PLAN_WORK = 1 << 28 };
s2_status s2_sim_predict_layer(s2_arena *scratch, const s2_classes *classes, const s2_layer_class *layer,
                               s2_pass pass, const s2_sim_options *options, int64_t *work_left,
                               s2_launch_price *out, double *us) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_PRICE_H */
