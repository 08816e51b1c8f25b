/*
 * pattern/models.h - the shapes of well-known models, for the statement `model NAME` and for the simulator.
 *
 * Weights follow from the shape; norms, biases and routers (below 1 %) are left out. A canonical text states
 * the shape in full, so that a correction here never changes a stored design.
 * Threads: constant data.
 */
#ifndef S2_PATTERN_MODELS_H
#define S2_PATTERN_MODELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/net.h"

typedef struct s2_model {
    s2_net net;
    const char *source; /* the published repository (its config.json) or the table that says so */
} s2_model;

int32_t s2_model_count(void); /* rows of the table */
/* nth in alphabetical order; NULL outside the table. */
const s2_model *s2_model_at(int32_t nth);
/*
 * Find a model by a word of n bytes, not terminated; NULL if unknown. Case, '_' for '-', the publisher in
 * front and suffixes of published names do not matter: meta-llama/Llama-3.1-8B-Instruct is llama-3.1-8b.
 */
const s2_model *s2_model_find(const char *name, size_t n);
/* What a model does to its scores besides scaling them. */
typedef struct s2_model_scores {
    double cap; /* cap * tanh(score / cap); 0: none */
    bool sinks; /* a learned logit per head in the softmax's denominator */
} s2_model_scores;
/* By the name of an entry; neither for other names. */
s2_model_scores s2_model_scores_of(const char *name);
/*
 * The published layers of a model, as rules of the language; NULL where all are dense or the model is unknown.
 * `name` is what a user wrote: versions of one shape may differ, mistral-7b-v0.3 has no window.
 */
const char *s2_model_rules(const char *name);

#endif /* S2_PATTERN_MODELS_H */
