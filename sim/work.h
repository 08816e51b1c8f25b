/*
 * sim/work.h - how much work a head takes: exact counts of pairs, blocks and tiles.
 *
 * Counts of static terms are exact at every length. Dynamic terms (pages, heavy, topk) are priced by
 * their budget: a query reads its static keys plus the budget, never more than it could see.
 *
 * Ownership: visits live in the arena. Threads: no state.
 */
#ifndef S2_SIM_WORK_H
#define S2_SIM_WORK_H

#include "sim/classes.h"

/*
 * How the kernel cuts its work, in tokens: q_tok query rows share a list of key blocks of k_tok, which
 * are gathered into steps of step_tok keys (plan/plan.h).
 */
typedef struct s2_tile_shape {
    int32_t q_tok;
    int32_t k_tok;
    int32_t step_tok; /* a multiple of k_tok */
} s2_tile_shape;

/* The shape of the plan that the kernels run by default. */
s2_tile_shape s2_tile_shape_default(const s2_pattern *pattern);
/* Steps that a list of n key blocks costs. */
int64_t s2_tile_steps(s2_tile_shape shape, int64_t n_visits);

typedef struct s2_head_work {
    int64_t pairs;         /* (query, key) pairs read */
    int64_t blk_pairs;     /* pairs of pattern blocks with at least one such pair */
    int64_t tiles;         /* key blocks of the kernel, over all query tiles: what it loads */
    int64_t steps;         /* steps of the kernel, over all query tiles: what it computes */
    int32_t n_q_tiles;     /* anchored at multiples of q_tok, so the first may begin before the first query */
    const int32_t *visits; /* key blocks visited by each query tile */
} s2_head_work;

/* What a dense head does. */
int64_t s2_dense_pairs(bool causal, int64_t first_tok, int64_t n_tok);
s2_status s2_dense_work(s2_arena *arena, bool causal, int32_t block_tok, int64_t first_tok, int64_t n_tok,
                        s2_tile_shape shape, s2_head_work *out) S2_MUST_CHECK;

/*
 * Queries first_tok .. n_tok - 1 of one head; all queries if the pattern is not causal. S2_ENOMEM; S2_ELIMIT
 * beyond *work_left (NULL: no limit).
 */
s2_status s2_head_work_count(s2_arena *arena, const s2_reads *reads, int64_t first_tok, int64_t n_tok,
                             s2_tile_shape shape, int64_t *work_left, s2_head_work *out) S2_MUST_CHECK;

/* The last queries, each one row, for the query heads of one KV head together. */
typedef struct s2_step_work {
    int64_t pairs;     /* summed over queries and heads */
    int64_t blk_pairs; /* key blocks of a query, summed the same way */
    int64_t keys;      /* distinct keys that the group reads */
    int64_t tiles;     /* key blocks of the kernel that the group visits */
} s2_step_work;
/* Queries first_tok .. n_tok - 1 of one KV head whose query heads are head_class[0 .. n_group). S2_ENOMEM,
 * S2_ELIMIT. */
s2_status s2_step_work_count(const s2_classes *classes, const int32_t *head_class, int32_t n_group,
                             int64_t first_tok, int64_t n_tok, int32_t tile_k_tok,
                             s2_step_work *out) S2_MUST_CHECK;

#endif /* S2_SIM_WORK_H */
