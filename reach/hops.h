/*
 * reach/hops.h - how many layers a key needs to reach every later query, and what each layer adds.
 *
 * Information moves along what some head of a layer reads, one read per layer, or stays where it is (the
 * residual). The layers may begin anywhere in the stack: `layers` is the least n such that any n consecutive
 * ones let every key reach every query that may see it. The receptive field is the same measured from the
 * first layer (PowerAttention, arXiv 2503.03588).
 *
 * Ownership: everything lives in the given arena. Threads: no state.
 */
#ifndef S2_REACH_HOPS_H
#define S2_REACH_HOPS_H

#include "reach/stack.h"

typedef struct s2_hop {
    int32_t layer;
    int32_t head; /* the first that reads it */
    int32_t q_blk;
    int32_t k_blk;
} s2_hop;

/* After a layer, counted from the first: key blocks that have reached a query. */
typedef struct s2_receptive {
    int32_t last;        /* the last query */
    int32_t least;       /* the query with the least share of the keys that it may see */
    int32_t least_query; /* the first such query */
} s2_receptive;

typedef struct s2_hops {
    int32_t layers; /* 0: not within the stack */
    int32_t from;   /* the first layer of the stretch that needs most */
    /* A pair that fewer layers from there do not join, or that even the whole stack does not. */
    int32_t q_blk;
    int32_t k_blk;
    int32_t n_path; /* the reads that join it, first layer first; 0: none */
    const s2_hop *path;
    const s2_receptive *receptive; /* [n_layers] */
} s2_hops;

/* Results and scratch go to the arena. S2_ENOMEM; S2_ELIMIT when it would take more than minutes. */
s2_status s2_hops_find(s2_arena *arena, const s2_stack *stack, s2_hops *out) S2_MUST_CHECK;

#endif /* S2_REACH_HOPS_H */
