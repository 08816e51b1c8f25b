/*
 * sim/memo.h - what the patterns of one search share: for each shape met, its form in sim/fast.h, its
 * predictor, and the time of dense attention.
 */
#ifndef S2_SIM_MEMO_H
#define S2_SIM_MEMO_H

#include "pattern/parse.h"
#include "sim/fast.h"
#include "sim/predictor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_shape_memo {
    s2_fast *fast;
    s2_predictor *predictor; /* with constants, else NULL */
    double dense_imbalance;  /* of a layer whose heads are all dense */
} s2_shape_memo;

/* A pattern that arithmetic alone can price. */
typedef struct s2_fast_form {
    const s2_shape_memo *shape; /* NULL: it has no such form, or there is no memo */
    s2_candidate candidate;
} s2_fast_form;

/* Looks in options->memo, which may be NULL. S2_ENOMEM. */
s2_status s2_memo_find(const s2_sim_options *options, const s2_pattern *pattern,
                       s2_fast_form *out) S2_MUST_CHECK;

/* Dense attention as patterns are compared with it, in one phase, with constants or without. */
typedef struct s2_dense_key {
    char hash[S2_HASH_HEX];
    s2_phase phase;
    bool predicted;
} s2_dense_key;

/* What was kept of it; NULL if nothing was. */
const void *s2_memo_dense(const s2_price_memo *memo, const s2_dense_key *key);
/* Keep a copy, unless there are too many. S2_ENOMEM. */
s2_status s2_memo_keep_dense(s2_price_memo *memo, const s2_dense_key *key, const void *value,
                             size_t n_bytes) S2_MUST_CHECK;

/* Longest SM / mean SM of a layer with so many steps. */
double s2_fast_imbalance(const s2_fast *fast, int64_t busiest_steps, int64_t steps);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_MEMO_H */
