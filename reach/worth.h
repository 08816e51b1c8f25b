/*
 * reach/worth.h - what a pattern is worth to a small model that learns with it, as docs/worth.md measured it.
 *
 * Two figures, each a fixed function of a few measures, fitted once and judged on patterns drawn afterwards:
 * recall, the mean share of associations answered right over the training; and the loss of a language model
 * on bytes of text. Outside the shapes in which they were judged there is no figure.
 *
 * Ownership: everything lives in the given arena. Threads: no state.
 */
#ifndef S2_REACH_WORTH_H
#define S2_REACH_WORTH_H

#include "reach/stack.h"

/*
 * One layer's retrieval pairs: a query in the second half of the context and a key in the first.
 */
typedef struct s2_retrieval {
    /* Share of the retrieval pairs that some head reads. */
    double coverage;
    /* Mean over these pairs of the largest share that a reader of the pair reads; 0: no reader. */
    double concentration;
    /* The same for sqrt(share) * purity: how much of a head's reads in the second half is in the first. */
    double signal;
} s2_retrieval;

/* The shape of the models that were trained; no other is judged. */
enum { S2_WORTH_LAYERS = 4, S2_WORTH_HEADS = 8, S2_WORTH_KV_HEADS = 4, S2_WORTH_BLOCKS = 64 };

typedef struct s2_worth {
    s2_retrieval *layers; /* [n_layers] */
    /* Mean over layers and heads of log2 of the head's window in blocks; no window counts as a half. */
    double window;
    /* Share of the heads of all layers that read the block before a query's own, mean over queries. */
    double neighbour;
    /* The largest share of the retrieval pairs that one head of any layer reads. */
    double far;
    const char *not_judged; /* why there is no figure, or NULL: */
    double recall;
    double loss; /* nats a byte */
} s2_worth;

/* Errors of the figures on the patterns that judged them: root mean squares. */
extern const double s2_worth_recall_error;
extern const double s2_worth_loss_error;

/* Signal of a head that reads `share` of the retrieval pairs in rows of `row` blocks; a half has `half`. */
double s2_worth_signal(double share, double row, double half);

/* Results and scratch go to the arena. S2_ENOMEM. */
s2_status s2_worth_judge(s2_arena *arena, const s2_stack *stack, s2_worth *out) S2_MUST_CHECK;

/* The same for the figures only: outside the judged shapes nothing is measured, and layers is NULL. They are of the
 * rules of prefill, by which the models were trained, and thus one per pattern and length, whatever is asked. */
s2_status s2_worth_figures(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                           s2_worth *out) S2_MUST_CHECK;

#endif /* S2_REACH_WORTH_H */
