/*
 * tests/gen_pattern.h - random texts in the pattern language, all of them valid.
 *
 * All statements, selectors, terms, phases, units and conditions occur, as do overlapping rules and rules
 * that never win. Sizes are bounded by the options, so that a test may enumerate every pair of a small
 * context.
 */
#ifndef S2_TESTS_GEN_PATTERN_H
#define S2_TESTS_GEN_PATTERN_H

#include <stdbool.h>

#include "base/rng.h"
#include "base/text.h"

typedef struct s2_gen_options {
    int32_t max_heads;
    int32_t max_layers;
    int32_t max_block_tok; /* a power of two */
    int32_t max_blk;       /* windows, thresholds, list indices, chunks: at most this many blocks */
    int32_t max_stride;    /* blocks; strides in tokens cover the same distance */
    int32_t max_terms;
    int32_t max_rules;
    bool tokens;        /* quantities with the suffix t */
    bool when;          /* conditions */
    bool phases;        /* prefill and decode rules */
    bool not_causal;    /* causal no, sometimes */
    bool layers_differ; /* sometimes layers with their own head dimension or state */
    bool explicit_random;
    bool dynamic;   /* pages, heavy, topk */
    bool decorated; /* odd blanks, comments, ';' between statements, k suffixes, the name */
} s2_gen_options;

/* Up to 8 heads, 4 layers, blocks of 8 tokens, 6 blocks, 6 terms; everything allowed. */
s2_gen_options s2_gen_defaults(void);

/* Append one text. */
void s2_gen_pattern(s2_rng *rng, const s2_gen_options *options, s2_buf *out);

#endif /* S2_TESTS_GEN_PATTERN_H */
