/*
 * reach/flow.h - how much of a key reaches the last query if every head attends uniformly to what it reads.
 *
 * A layer is the mean of its heads' uniform attention, halved with the residual: influence moves as the product of
 * these row-stochastic matrices (attention rollout, arXiv 2005.00928). Blocks are units: a query reads its own block
 * as it reads any other. A head that reads nothing passes nothing on. Relative to dense means divided by what
 * arrives through the same stack of dense heads. State layers, of which nothing is known, are left out of both. Paths
 * are counted over heads and residuals, as log2.
 *
 * Ownership: everything lives in the given arena. Threads: no state.
 */
#ifndef S2_REACH_FLOW_H
#define S2_REACH_FLOW_H

#include "reach/stack.h"

typedef struct s2_flow_at {
    int32_t n_keys;    /* in this octave of distance; 0: no other member is set */
    double flow;       /* mean over keys */
    double dense;      /* the same for the dense stack */
    double log2_paths; /* mean over keys; -1 counts for a key without one */
} s2_flow_at;

typedef struct s2_flow {
    s2_flow_at octaves[S2_OCTAVES];
    double least;            /* relative to dense, over all keys */
    int32_t least_key;       /* the first such block */
    double least_log2_paths; /* -1: some key has no path */
} s2_flow;

/*
 * How many times less of the key that arrives weakest comes through than through dense attention: 1 / least, from
 * 1 to S2_FADING_MOST, which stands for nothing. NAN for NAN.
 */
#define S2_FADING_MOST 1e6
double s2_flow_fading(double least);

/* Numbers of each key block. `next` already holds what stays with the residual. */
typedef struct s2_flow_step {
    double *flow;
    double *paths;
    double *flow_next;
    double *paths_next;
} s2_flow_step;

/* A stack by what its layers pass on. `pass` adds to `next` what each query of the layer passes to what it reads. */
typedef struct s2_flow_shape {
    int32_t n_blk;
    const s2_pattern *pattern;
    bool causal;
    void (*pass)(void *context, int32_t layer, const s2_flow_step *step);
    void *context;
} s2_flow_shape;

/* What a query that has `flow` passes to each of `row` keys that n_heads of all heads read alike. */
static inline double s2_flow_share(double flow, int32_t n_heads, int32_t all_heads, int32_t row)
{
    return row > 0 ? 0.5 * flow * n_heads / row / all_heads : 0;
}

/* Both: scratch goes to the arena. S2_ENOMEM. */
s2_status s2_flow_walk(s2_arena *arena, const s2_flow_shape *shape, s2_flow *out) S2_MUST_CHECK;
s2_status s2_flow_measure(s2_arena *arena, const s2_stack *stack, s2_flow *out) S2_MUST_CHECK;

#endif /* S2_REACH_FLOW_H */
