/*
 * search/objective.h - what one candidate is worth in each objective: a bound at once, a closer one if that
 * does not decide, the exact values if they are needed.
 *
 * Times and bytes are those of s2_price, at the fidelity that the question needs; a pattern without a fast
 * form has no bound. With options.calibration the times of prefill and decode are predictions, which are
 * never below their floor: if the schedule would beat it, the floor counts. Without it, and in training,
 * times are those of the plan at peak rates.
 *
 * Ownership: s2_objectives_release frees what it grew. Threads: one s2_objectives, one thread.
 */
#ifndef S2_SEARCH_OBJECTIVE_H
#define S2_SEARCH_OBJECTIVE_H

#include "search/front.h"
#include "sim/price.h"

typedef enum s2_objective {
    S2_BY_PREFILL_US, /* attention of all layers, as `s2 sim` prices it with or without constants */
    S2_BY_DECODE_US,
    S2_BY_TRAIN_US,
    S2_BY_KV_BYTES,   /* KV cache in pages per KV head; all pages if nothing is freed */
    S2_BY_DENSITY,    /* of blocks, mean over the heads of the layers that are not dense */
    S2_BY_IMBALANCE,  /* prefill: longest SM / mean SM, of the layer with the most work */
    S2_BY_UNREAD,     /* 1 - pairs read / causal pairs, over all layers: what is given up */
    S2_BY_REDUNDANCY, /* heads that read a pair, mean over all causal pairs; at least 1 if union holds */
    S2_BY_DEPTH, /* any so many layers in a row include a union-complete one; n_layers + 1: no number does */
    S2_BY_LOSS,  /* loss of small models on text, as reach/worth.h judges it; no price if it does not */
    S2_BY_UNRECALLED, /* share of associations that these do not recall; likewise */
    S2_BY_DILUTION,   /* signal of dense attention / signal of the pattern: see search/dilution.h */
    S2_BY_HOPS,       /* layers until every key has reached every later query: see search/spread.h */
    S2_BY_FADING, /* flow of dense attention / flow of the pattern, for the key that arrives weakest; likewise */
    S2_N_OBJECTIVES
} s2_objective;
const char *s2_objective_word(s2_objective objective); /* "prefill_us", ... */
s2_objective s2_objective_time(s2_phase phase);        /* of that phase */

typedef struct s2_objectives {
    s2_sim_options options; /* each objective sets the phase */
    int32_t n_by;
    s2_objective by[S2_MAX_OBJECTIVES];
    s2_arena scratch;
    int64_t work_left; /* for counting, shared by a candidate's prices: as much as one price has elsewhere */
} s2_objectives;

/* S2_ENOMEM. */
s2_status s2_objectives_init(s2_objectives *objectives, const s2_sim_options *options, const s2_objective *by,
                             int32_t n_by) S2_MUST_CHECK;
void s2_objectives_release(s2_objectives *objectives);

/* A pattern, as far as it is known. */
typedef struct s2_quote {
    const s2_pattern *pattern;
    s2_sim floor; /* floor.fast: it has a fast form, hence bounds */
    bool floored;
    double floor_us[S2_N_PHASES]; /* if floored: no prediction is lower */
    double decode_us;             /* predicted; 0: not predicted yet */
} s2_quote;

/* Values no greater than the exact ones; 0 without a fast form. S2_ENOMEM. */
s2_status s2_objectives_bound(s2_objectives *objectives, const s2_pattern *pattern, s2_quote *quote,
                              double value[S2_MAX_OBJECTIVES]) S2_MUST_CHECK;
/*
 * Raise the bounds of predicted times: in step 0 to what the constants forbid going below, in step 1, which
 * costs more, to the prediction of decoding itself. S2_ENOMEM, S2_ELIMIT.
 */
enum { S2_REFINE_STEPS = 2 };
s2_status s2_objectives_refine(s2_objectives *objectives, s2_quote *quote, int32_t step,
                               double value[S2_MAX_OBJECTIVES]) S2_MUST_CHECK;
/* S2_ENOMEM; S2_ELIMIT when a total exceeds 2^63, or worth is an objective and cannot be judged. */
s2_status s2_objectives_exact(s2_objectives *objectives, s2_quote *quote,
                              double value[S2_MAX_OBJECTIVES]) S2_MUST_CHECK;

/* Bytes of the pages that a dense pattern of that shape keeps on all GPUs, copies included. */
double s2_objectives_dense_kv_bytes(const s2_objectives *objectives, const s2_pattern *pattern);

#endif /* S2_SEARCH_OBJECTIVE_H */
