/*
 * sim/price.h - what a pattern costs on a GPU: exact counts, lower bounds of time, and predictions.
 *
 * Three times are given:
 *   bound_us   for any kernel: useful pairs only, perfect balance, peak rates;
 *   plan_us    a bound too: whole tiles, the longest-first schedule over the SMs, compulsory memory traffic,
 *              one launch a layer, at peak rates;
 *   time_us    with a calibration, what the kernels of this repository would take (sim/predict.h), and
 *              error says how far such predictions were off; without one, plan_us.
 * bound_us <= time_us always, and no measurement of these kernels may fall below bound_us.
 * Each layer is priced in its own shape. All three include the bytes of a layer's state; none includes the
 * computation of it.
 * Times of parts add up; a part is bound by the resource that alone would take longest.
 *
 * Ownership: an s2_sim is plain data. Threads: no state.
 */
#ifndef S2_SIM_PRICE_H
#define S2_SIM_PRICE_H

#include <string.h>

#include "base/dtype.h"
#include "sim/gpu.h"
#include "sim/calibration.h"
#include "sim/kv.h"
#include "sim/net.h"
#include "sim/peer.h"
#include "sim/predict.h"
#include "sim/work.h"

const char *s2_weights_word(s2_weights weights); /* "published", "as-dtype", ... */

/* The type of the stored KV cache. */
typedef enum s2_cache_type {
    S2_CACHE_AS_DTYPE,
    S2_CACHE_BF16,
    S2_CACHE_E4M3,
    S2_CACHE_INT8,
    S2_N_CACHE_TYPES
} s2_cache_type;
const char *s2_cache_type_word(s2_cache_type type);

/* How norms, rotary embedding, activations and the loss are computed (sim/elementwise.h). */
typedef enum s2_fusion { S2_FUSED, S2_EAGER, S2_N_FUSIONS } s2_fusion;
const char *s2_fusion_word(s2_fusion fusion); /* "fused", "eager" */

/* How GPUs share the tokens of a sequence (sim/machine.h). */
typedef enum s2_context_cut {
    S2_CUT_CONTIGUOUS, /* even parts, one each, as s2.parallel.cut makes them; earlier keys are sent where needed */
    S2_CUT_ZIGZAG, /* the first and the last of 2 n pieces, the second and the last but one, ...; all keys go round */
    S2_N_CUTS
} s2_context_cut;
const char *s2_cut_word(s2_context_cut cut); /* "contiguous", "zigzag" */

typedef struct s2_sim_options {
    s2_gpu gpu;
    const s2_net *net; /* the layers around attention, or NULL: attention alone */
    const s2_model_scores
        *scores; /* without a net: what is done to scores, or NULL: what the pattern's model does */
    const s2_calibration *calibration; /* NULL: bounds only */
    const s2_peer *peer; /* its kernel runs attention; NULL: the calibration's, which is needed in any case */
    s2_phase phase;
    s2_dtype dtype;
    int64_t len_tok;  /* 1 .. S2_LIMIT_CONTEXT_TOK */
    int64_t new_tok;  /* the last so many are queries, the others are cached; 0: all, in decode one */
    int64_t batch;    /* sequences of that length, 1 .. S2_LIMIT_BATCH */
    int32_t page_tok; /* of the KV cache */
    int32_t n_ranks;  /* tensor-parallel GPUs (sim/share.h) */
    s2_weights weights;
    s2_cache_type cache;
    s2_fusion fusion; /* matters with a net and a calibration only */
    /* A machine of many GPUs (sim/machine.h), each group of n_ranks: */
    int32_t n_stages;       /* of a pipeline */
    int32_t n_micro;        /* microbatches; 0: a sequence each, in decode one for each stage */
    int32_t n_context;      /* GPUs that share the tokens of a sequence */
    s2_context_cut cut;     /* how */
    int32_t n_expert_ranks; /* replicas that share the experts of each layer (sim/experts.h) */
    int32_t n_nodes;        /* among which all GPUs, replicas included, are dealt out evenly (sim/links.h) */
    int32_t reserved_permille; /* of each GPU's memory, which nothing priced here may take */
    bool no_embedding;         /* sim/machine.c: this GPU has other layers than the first, or than the last */
    bool no_head;
    bool times_only; /* sim/price.c: of a whole price only times and cache are wanted */
    bool keeps_all;  /* the cache frees no page, whatever the pattern drops; kv still says what it could */
    int32_t
        n_shards; /* training: data-parallel GPUs that divide weights, gradients and optimizer, 1 .. 65536 */
    bool listed;  /* prefill: see s2_sim_choose_blocks(), which sets it */
    bool recompute;             /* training: layers keep only their input, and run forward again */
    struct s2_price_memo *memo; /* what patterns priced one after another share, or NULL */
    int64_t *work_left;         /* for counting (base/work.h); NULL: S2_WORK_STEPS for each call */
    int64_t *plan_left; /* for planning, of several prices together; NULL: what each may plan limits it */
    int64_t plan_work;  /* for planning, on each GPU (sim/time.h); 0: S2_SIM_PLAN_WORK */
} s2_sim_options;
enum { S2_LIMIT_BATCH = 65536 };

/* The first token that is a query; all up to len_tok are. */
int64_t s2_sim_first_tok(const s2_sim_options *options);

/* A stage works on one microbatch at a time: by default one sequence, and in decode one for each stage. */
void s2_sim_microbatches(const s2_sim_options *options, int32_t *n_micro, int64_t *micro_batch);

/* The type in which weights are priced: never S2_WEIGHTS_PUBLISHED. */
s2_weights s2_sim_weights(const s2_sim_options *options);
/* Whether some weights are in fp8, whose products run in 8 bits. */
bool s2_sim_has_fp8(const s2_sim_options *options);
/* Bytes of an element of the KV cache. */
double s2_sim_cache_bytes(const s2_sim_options *options);
/* Whether that is not the type of Q, K and V: then no constant is fitted, and decoding is scaled layer by layer. */
bool s2_sim_cache_differs(const s2_sim_options *options);

/* h200, prefill, bf16, 8192 tokens, batch 1, pages of 16 tokens, one rank. */
s2_status s2_sim_options_default(s2_sim_options *out) S2_MUST_CHECK;

/*
 * Blocks are chosen at run time: the pattern says how many a query block reads, each launch plans their lists, but
 * of layers that read all, and the cache keeps all, since any key may be chosen. A time or a whole price of what was
 * not measured so is S2_EUNSUPPORTED, of these options whatever the pattern, or of the pattern.
 */
void s2_sim_choose_blocks(s2_sim_options *options);
s2_status s2_sim_check_listed(const s2_sim_options *options, s2_diag *diag) S2_MUST_CHECK;

/* S2_EINVAL, with a message, for what training does not keep: weights of 8 bits or less but fp8, a cache of its own. */
s2_status s2_sim_check_trained(const s2_sim_options *options, s2_diag *diag) S2_MUST_CHECK;

/* The resource that limits a part. */
typedef enum s2_resource {
    S2_MMA,
    S2_EXP,
    S2_HBM,
    S2_L2,
    S2_LINK,
    S2_LAUNCH,
    S2_LATENCY, /* none of them: what one thing waits for another */
    S2_N_RESOURCES
} s2_resource;
const char *s2_resource_word(s2_resource resource);

typedef struct s2_part {
    const char *name;
    double time_us;
    s2_resource bound_by;
    double sent_bytes; /* that a GPU sends to others of its group in a step; 0: none */
    bool once;         /* of a step, and not of each microbatch */
} s2_part;

static inline bool s2_part_is(const s2_part *part, const char *name)
{
    return strcmp(part->name, name) == 0;
}

enum { S2_MAX_PARTS = 24, S2_MAX_KV_POINTS = 12 };

/* The cache at one of the lengths up to len_tok. */
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

/*
 * What training needs on one GPU, at the fullest moment of a step: going forward activations grow; going back
 * they shrink while gradients come.
 */
typedef enum s2_training_peak {
    S2_PEAK_LOSS,        /* all activations, few gradients */
    S2_PEAK_LAST_LAYER,  /* the first layer to go back */
    S2_PEAK_FIRST_LAYER, /* all gradients but the embedding's */
    S2_PEAK_UPDATE,      /* all gradients */
    S2_PEAK_LAYER,       /* another layer goes back, of a model whose layers are unlike */
    S2_N_PEAKS
} s2_training_peak;
const char *
s2_training_peak_word(s2_training_peak peak); /* "loss", "last layer", "first layer", "update", "layer" */

typedef struct s2_training {
    s2_training_peak peak;
    int32_t layer;           /* that goes back then; -1: none does */
    bool at_least;           /* what the scans of mixers keep is not among the bytes, since it is not known */
    double state_bytes;      /* weights, optimizer, and the gradients of that moment */
    double gradient_bytes;   /* of which */
    double gathered_bytes;   /* of which for the layer that runs, where GPUs divide the state */
    double activation_bytes; /* the sum of the next three */
    double kept_bytes;       /* what layers keep of the microbatches in flight */
    double working_bytes;    /* of the layer that goes back, or the last hidden state and its gradient */
    double logit_bytes;      /* of S2_LOSS_TOK tokens (sim/activations.h) */
    int32_t n_in_flight;     /* microbatches at most; 1 without stages */
    double bytes;            /* state and activations */
} s2_training;

/* How the GPUs that share the heads of each layer differ. */
enum { S2_MAX_DEALT = 256 };
typedef struct s2_rank_price {
    int32_t n_copies;     /* GPUs that hold a KV head, in the layer with most; 1: none is copied */
    int32_t slowest;      /* the GPU whose own time is longest */
    double imbalance;     /* attention when all wait for the slowest / the mean GPU's own */
    double hbm_bytes;     /* compulsory, of the GPU with most */
    double read_bytes;    /* of which read */
    double flop_executed; /* of the GPU with most */
    double mended_us;     /* attention if each layer deals its KV heads by their work; 0: no better */
    double mended_imbalance;
    double saved_us; /* then: by the layer that gains most, and all layers like it */
    int32_t mended_layer;
    int32_t n_order;
    int16_t order[S2_MAX_DEALT]; /* its KV heads, those of the first GPU first */
} s2_rank_price;

/* The pattern and the dense one, each with the largest batch that fits. */
typedef struct s2_largest {
    int64_t batch; /* 0: not asked */
    int64_t batch_dense;
    double us; /* of a step: end to end with a net, else attention */
    double dense_us;
} s2_largest;

/* What the parts of a machine of many GPUs wait for; all 0 where there is none. */
typedef struct s2_machine {
    int32_t n_micro;
    int32_t slowest;        /* the stage whose microbatch takes longest */
    double slot_us;         /* which is so long */
    double boundary_us;     /* a microbatch between two stages, one way */
    double waiting_us;      /* of the slowest stage for others, in a step */
    double idle;            /* mean share of a step in which a stage computes nothing */
    double ring_compute_us; /* attention of a microbatch on that stage, of the GPU with most work */
    double
        ring_link_us;  /* and what keys and values, going round meanwhile or sent before, take on the link */
    double ring_bytes; /* of which the GPU that sends most sends so many */
    double
        ring_held_bytes; /* of others that a GPU holds while attention of a layer runs forward; 0 without a net */
    double imbalance; /* of the GPUs that share a context: most / mean */
} s2_machine;

/* What the GPUs that share the experts of a mixture do of a layer, in a pass of one microbatch. */
typedef struct s2_expert_price {
    int32_t n_each;   /* experts on a GPU; 0: no GPUs share them */
    double picks;     /* of the GPU with most: how often tokens of all GPUs pick one of its experts */
    double imbalance; /* which is so many times the mean GPU's */
    double read;      /* distinct experts that the GPU with most of them reads */
} s2_expert_price;

/* Layers that keep a state of fixed size. How it is computed is not known, so only moving it takes time. */
typedef struct s2_states {
    int32_t n_layers;
    int64_t bytes;     /* of all layers, a sequence */
    double moved_each; /* bytes that a GPU reads and writes */
    double us;         /* included in time_us, plan_us, bound_us and the dense times */
    s2_resource by;
} s2_states;

/* Names of kernels, in the order in which they were met. */
typedef struct s2_others {
    const char *names[S2_MODEL_KERNELS];
    int32_t n;
} s2_others;

typedef struct s2_sim {
    bool fast;                    /* short of the whole price: counted by arithmetic alone, which gives: */
    double floor_us[S2_N_PHASES]; /* no kernel is faster; with S2_PRICE_RAISED: none that was measured */
    s2_largest largest;
    s2_machine machine;
    s2_expert_price experts;
    s2_states states;
    s2_counts counts; /* of all GPUs; the keys of a copied KV head count on each */
    s2_counts dense;
    s2_rank_price ranks;
    double density;          /* of blocks, mean over the heads of the layers that are not dense */
    double token_density;    /* of pairs, over all layers */
    double executed_density; /* executed work / what a dense pattern executes, sparse layers */
    int32_t n_sparse_layers;
    int32_t n_head_classes;
    bool group_differs; /* in some layer heads on one KV head read different keys */
    double time_us;
    double plan_us;
    double bound_us;
    double dense_time_us; /* of the same kind as time_us */
    double dense_plan_us;
    double dense_forward_us; /* of dense_time_us, in training: what recomputation repeats */
    bool predicted; /* time_us is a prediction; false where decoding reads host memory: at least that */
    bool measured;  /* then: with constants measured on this GPU, not guessed for it */
    s2_error error; /* then: of the attention in it; of what is read over the host's link none is known */
    s2_model_scores
        scores; /* what is done to them, and how time_us counts that: as the worst counted launch */
    s2_scored scored;
    s2_far far;                     /* then: of the launch that is farthest outside the points measured */
    const char *kernel;             /* then: of the layer that takes longest; "" otherwise */
    s2_others runs_on;              /* then: what runs some layers, priced by slower kernels */
    double clock_mhz;               /* then: in that layer */
    double dram_bytes;              /* then: of all layers, each with cold caches; 0 otherwise */
    double l2_bytes;                /* then: from L2 to the SMs */
    double busy_us[S2_N_RESOURCES]; /* of plan_us without selection and states, each resource alone */
    s2_resource bound_by;
    double imbalance; /* longest worker / mean worker, of the layer with the most work; 1 in decode */
    s2_tile_shape tile;
    s2_kv_bytes kv;        /* of all GPUs, copies included */
    int64_t kv_kept;       /* of kv: head pages, or dense where the cache keeps all */
    int64_t kv_fullest;    /* of kv_kept, on the GPU that holds the most */
    int64_t kv_dense_each; /* what a GPU holds of the dense pattern */
    int64_t kv_wasted[2];  /* allocated but unused with head pages of 16 and of 64 tokens */
    int64_t kv_peak;       /* the most that a GPU keeps at any length up to len_tok */
    int64_t kv_peak_tok;
    bool kv_peak_exact;  /* false: the peak is at most this */
    double kv_mean;      /* what all GPUs keep, over block ends up to len_tok */
    int32_t n_kv_points; /* lengths len_tok, len_tok / 2, ... in ascending order */
    s2_kv_point kv_points[S2_MAX_KV_POINTS];
    int64_t weight_bytes; /* of a GPU; 0 without a net */
    s2_training training; /* phase train with a net; then it, and not the cache, decides what fits */
    int64_t fit_batch;    /* sequences up to len_tok that fit next to the weights; S2_LIMIT_BATCH: or more */
    int64_t fit_batch_dense;
    int64_t
        fit_len_tok; /* longest context up to which this batch fits; S2_LIMIT_CONTEXT_TOK: or more; 0: none */
    int64_t fit_len_dense_tok;
    int64_t host_bytes;       /* of the cache, what does not fit on a GPU and must stay in host memory */
    int64_t host_dense_bytes; /* the same for the dense pattern */
    double lack_bytes;        /* of memory, on the GPU that lacks most: weights, activations and kv_peak */
    int64_t host_read_bytes;  /* of which read over the link for one decoded token; 0 in other phases */
    double link_us;           /* which takes so long at the link's peak, while attention runs */
    double link_dense_us;     /* the same for the dense pattern */
    int32_t n_parts;          /* attention first */
    s2_part parts[S2_MAX_PARTS];
    double end_to_end_us; /* sum of all parts with a net, else 0 */
    double end_to_end_dense_us;
} s2_sim;

/*
 * How much of a price is computed, in microseconds to milliseconds. A price fills what its fidelity names and
 * leaves the rest of s2_sim 0; what two fidelities both name is the same figure.
 */
typedef enum s2_fidelity {
    S2_PRICE_FLOOR,  /* with a memo, for patterns with a fast form: pairs, density, floors, resident keys */
    S2_PRICE_RAISED, /* the floor of this phase raised by what the constants forbid */
    S2_PRICE_CACHE,  /* kv and host_bytes alone */
    S2_PRICE_PLAN,   /* pairs, density, imbalance, and plan_us with states: whole tiles, peak rates */
    S2_PRICE_BOUNDS, /* all that is known without constants of attention and states, dense pattern included */
    S2_PRICE_TIME,   /* time_us of attention and states: predicted where s2_sim_predicts, else plan_us */
    S2_PRICE_WHOLE   /* everything */
} s2_fidelity;

/*
 * What a pattern costs. S2_EINVAL with the reason in *diag (a model of another shape, ranks that do not
 * divide), S2_EUNSUPPORTED with one (what nothing here prices); S2_ELIMIT when a total exceeds 2^63, or counting
 * takes more than S2_WORK_STEPS steps (base/work.h): some seconds; S2_EINTERNAL when a floor is broken; S2_ENOMEM.
 * scratch is rewound.
 */
s2_status s2_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                   s2_fidelity fidelity, s2_sim *out, s2_diag *diag) S2_MUST_CHECK;

/* Whether a time of the phase can be a prediction under these options. */
bool s2_sim_predicts(const s2_sim_options *options, s2_phase phase);

/*
 * A memo makes many patterns of a few shapes cheaper to price, without changing a figure. Options that carry
 * it may differ from these only in the phase. One memo, one thread.
 */
typedef struct s2_price_memo s2_price_memo;
s2_status s2_price_memo_new(const s2_sim_options *options, s2_price_memo **out) S2_MUST_CHECK;
void s2_price_memo_free(s2_price_memo *memo);

/*
 * Prices the pattern at the largest batch that fits, which becomes options->batch; out->largest compares it
 * with the dense pattern at its own largest batch. S2_EINVAL too where not even one sequence fits.
 */
s2_status s2_price_largest(s2_arena *scratch, const s2_pattern *pattern, s2_sim_options *options, s2_sim *out,
                           s2_diag *diag) S2_MUST_CHECK;

/*
 * The dense pattern that a price compares with: the same shape with every head dense; layers that keep a state
 * and read no key still read none.
 */
s2_status s2_attention_dense(s2_arena *arena, const s2_pattern *pattern, s2_pattern *out) S2_MUST_CHECK;

/* Whether error says anything of time_us: it is a prediction, near enough to points that were measured. */
bool s2_sim_error_known(const s2_sim *sim);

/* The model that the pattern names, kept in *own, where the options have none and the pattern has its shape. */
void s2_sim_take_net(const s2_pattern *pattern, s2_net *own, s2_sim_options *options);

/*
 * Whether the GPU can run the pattern, or the dense one, as it is priced: the weights fit, and with them the cache
 * or, in training, the step. Else a time stands for what would have to be run in another way, so no rate is
 * made of it. Of a whole price.
 */
bool s2_sim_runs(const s2_sim_options *options, const s2_sim *sim, bool dense);

/* Why the times of the pattern and of dense, of attention or end to end, are not to be divided. */
typedef enum s2_no_ratio {
    S2_RATIO_HOLDS,
    S2_DENSE_SPILLS,
    S2_SPILLS,
    S2_NO_ROOM,
    S2_NO_WEIGHTS,
    S2_N_NO_RATIOS
} s2_no_ratio;
s2_no_ratio s2_sim_no_ratio(const s2_sim_options *options, const s2_sim *sim);
/* "dense_spills", "spills", "no_room", "no_weights"; NULL: it holds */
const char *s2_no_ratio_word(s2_no_ratio why);
/*
 * Whether plan_us is no floor of time_us: it is of tiles of 128 x 128, and a kernel with smaller ones may be predicted
 * to load so much less.
 */
bool s2_sim_plan_is_coarser(const s2_sim *sim);
/* What time_us is: "bound", "guessed" by constants of other GPUs or for a machine that nobody measured, "predicted". */
const char *s2_sim_figure_word(const s2_sim *sim);
/*
 * What a table or a screen says in place of a ratio: "no room", of the step or the weights; "spills", of the pattern's
 * own cache; "no dense", where that of dense attention alone does.
 */
const char *s2_no_ratio_label(s2_no_ratio why);

/*
 * Bytes that a pass of prefill holds on each GPU besides weights and cache, while it works on all of its tokens
 * together: for each the residual stream, a norm of it, and what its widest layer makes of that (Q, K, V and O, or all
 * of the feed-forward layer), and the logits of each sequence's last token. 0 in other phases, and without a model.
 */
double s2_sim_activation_bytes(const s2_sim_options *options);

/* Bytes of one GPU's memory that weights, cache and activations may take. */
double s2_sim_memory_bytes(const s2_sim_options *options);

/* Whether a training step of a model fits the memory of every GPU; false without a model. */
bool s2_sim_training_fits(const s2_sim_options *options);

/*
 * The fewest GPUs on which it does, as a multiple of those asked for, in powers of two: of as few, those with most
 * replicas and then with most that share the heads. False: none of up to 4096. causal: so is the pattern.
 */
bool s2_sim_training_room(const s2_sim_options *options, bool recompute, bool causal, s2_sim_options *out);

#endif /* S2_SIM_PRICE_H */
