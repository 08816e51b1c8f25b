/*
 * pattern/folds.h - the distinct heads of a pattern: heads whose constants fold to the same atoms read the
 * same pairs, so lists, counts and comparisons are made once per class.
 *
 * Heads with random lists or mask files stay apart, because what they read depends on the head itself.
 * Ownership: everything lives in the given arena. Threads: immutable once built.
 */
#ifndef S2_PATTERN_FOLDS_H
#define S2_PATTERN_FOLDS_H

#include "pattern/view.h"

typedef struct s2_folds {
    int32_t n_classes;
    const s2_view *views;    /* of one head of each class, the first in order of layer and head */
    const int32_t *class_of; /* [layer * n_heads + head] */
} s2_folds;
/* Folds all heads in one phase, under one bound. S2_ENOMEM. */
s2_status s2_folds_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_bound bound,
                         s2_folds *out) S2_MUST_CHECK;

/*
 * Densities over all layers and heads at n_tok tokens: pairs read / causal pairs, and block pairs read /
 * causal block pairs over the layers that are not entirely dense. NAN where counting would take too long;
 * sparse_blocks is also NAN without `blocks`.
 */
typedef struct s2_density {
    double tokens;
    double sparse_blocks;
} s2_density;
s2_status s2_density_count(const s2_pattern *pattern, const s2_folds *folds, int64_t n_tok, bool blocks,
                           s2_density *out) S2_MUST_CHECK;

#endif /* S2_PATTERN_FOLDS_H */
