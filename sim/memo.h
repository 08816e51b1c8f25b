/*
 * sim/memo.h - what the patterns of one search share: for each shape met, its form in sim/fast.h, its
 * predictor, and the time of dense attention.
 */
#ifndef S2_SIM_MEMO_H
#define S2_SIM_MEMO_H

#include "sim/denses.h"
#include "sim/fast.h"
#include "sim/predictor.h"

typedef struct s2_shape_memo {
    s2_fast *fast;
    s2_predictor *predictor; /* with constants, else NULL */
    double dense_imbalance;  /* of a layer whose heads are all dense */
    s2_model_scores scores;  /* what is done to them */
} s2_shape_memo;

/* A pattern that arithmetic alone can price. */
typedef struct s2_fast_form {
    const s2_shape_memo *shape; /* NULL: it has no such form, or there is no memo */
    s2_candidate candidate;
} s2_fast_form;

/* Looks in options->memo, which may be NULL. S2_ENOMEM. */
s2_status s2_memo_find(const s2_sim_options *options, const s2_pattern *pattern,
                       s2_fast_form *out) S2_MUST_CHECK;

enum { S2_MOST_SHAPES = 8 };
struct s2_price_memo {
    s2_sim_options options;
    int32_t n_shapes;
    s2_shape_memo shapes[S2_MOST_SHAPES];
    s2_denses denses;
};

/* Longest SM / mean SM of a layer with so many steps. */
double s2_fast_imbalance(const s2_fast *fast, int64_t busiest_steps, int64_t steps);

#endif /* S2_SIM_MEMO_H */
