/*
 * reach/worth.h - what a pattern is worth to a small model that learns with it, as docs/worth.md measured it.
 *
 * Two figures, each a fixed function of a few measures, fitted once and judged on patterns drawn afterwards:
 * recall, the mean share of associations answered right over the training; and the loss of a language model
 * on bytes of text. Outside of the shapes in which they were judged there is no figure.
 *
 * Ownership: everything lives in the arena given. Threads: no state.
 */
#ifndef S2_REACH_WORTH_H
#define S2_REACH_WORTH_H

#include "reach/stack.h"

/*
 * Retrieval pairs: a query in the second half of the context and a key in the first. Of one layer.
 */
typedef struct s2_retrieval {
    /* Share of the retrieval pairs that some head reads. */
    double coverage;
    /* Mean over these pairs of the largest share that one reader of the pair reads; 0: no reader. */
    double concentration;
    /* The same of sqrt(share) * purity, the part of what a head reads in the second half that lies in the first. */
    double signal;
} s2_retrieval;

typedef struct s2_worth {
    s2_retrieval *layers; /* [n_layers] */
    /* Mean over layers and heads of log2 of the head's window in blocks; no window counts a half. */
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

/* The signal of a head that reads so much of the retrieval pairs, rows of so many blocks, of a half of so many. */
double s2_worth_signal(double share, double row, double half);

/* Results and scratch go to the arena. S2_ENOMEM. */
s2_status s2_worth_judge(s2_arena *arena, const s2_stack *stack, s2_worth *out) S2_MUST_CHECK;

/* The same without what no figure needs: outside of the domain nothing is measured, and layers is NULL. */
s2_status s2_worth_figures(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                           s2_worth *out) S2_MUST_CHECK;

#endif /* S2_REACH_WORTH_H */
