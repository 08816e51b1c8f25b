/*
 * tests/gen_split.h - patterns cut out of one whole: the set of all pairs is split repeatedly, along keys,
 * queries, distances and residues, and the pieces are dealt out to heads. Such a pattern reads every pair
 * exactly once, however odd its terms are, and changing one number by one decides whether it still does.
 * Random terms hardly ever come this close to the edge of a verdict.
 */
#ifndef S2_TESTS_GEN_SPLIT_H
#define S2_TESTS_GEN_SPLIT_H

#include "base/rng.h"
#include "pattern/spec.h"

typedef struct s2_gen_split {
    bool not_causal;
    bool twins;   /* the heads of a KV head read the same through different terms */
    bool spoiled; /* change one number by one, or drop one piece */
} s2_gen_split;

/* A pattern that passes s2_pattern_check(); pieces live in the arena. */
s2_pattern *s2_gen_split_pattern(s2_rng *rng, const s2_gen_split *options, s2_arena *arena);

#endif /* S2_TESTS_GEN_SPLIT_H */
