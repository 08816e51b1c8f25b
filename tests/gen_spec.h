/*
 * tests/gen_spec.h - random patterns as data, small enough to enumerate: every term, unit, selector
 * granularity and phase, built without the parser so that a bug there cannot hide one here.
 */
#ifndef S2_TESTS_GEN_SPEC_H
#define S2_TESTS_GEN_SPEC_H

#include "base/rng.h"
#include "pattern/spec.h"

typedef struct s2_gen_spec {
    int32_t most_layers;
    int32_t most_heads;
    bool explicit_terms; /* random lists and mask files (held in memory) */
    bool dynamic_terms;
    bool not_causal;          /* non-causal patterns too */
    bool layers_differ;       /* sometimes layers with their own numbers, among them state layers */
    bool certified;           /* only terms that a certificate can express */
    const s2_term_kind *kind; /* a term of this kind in every body; NULL: any */
} s2_gen_spec;

/* A pattern that passes s2_pattern_check(); pieces live in the arena. NULL if out of memory. */
s2_pattern *s2_gen_spec_pattern(s2_rng *rng, const s2_gen_spec *options, s2_arena *arena);

/* One term that passes the pattern's check, sometimes with conditions. */
s2_term s2_gen_spec_term(s2_rng *rng, s2_term_kind kind, const s2_pattern *pattern, s2_arena *arena);

#endif /* S2_TESTS_GEN_SPEC_H */
