/*
 * sim/fast.h - local + sinks + one stride per head, priced by arithmetic alone: for searching spaces.
 *
 * The same numbers as s2_price gives for these patterns (a property test holds them equal), without
 * visiting rows of heads: heads differ only in where their stride starts, so a tile costs one of two
 * numbers of blocks, and a prefix sum over residues says how many heads cost which.
 *   bound   pairs, density, resident keys and the floor of time: O(heads), no memory
 *   exact   also steps, the exact makespan and the plan's time: O(tiles + costs * SMs)
 *
 * Ownership: an s2_fast owns nothing outside itself but is large (about 300 KiB); allocate it once per
 * thread. Threads: one s2_fast, one thread.
 */
#ifndef S2_SIM_FAST_H
#define S2_SIM_FAST_H

#include "sim/candidate.h"
#include "sim/price.h"

enum { S2_FAST_STEPS = 1 << 15 };

/* What candidates of one search share. Build with s2_fast_init. */
typedef struct s2_fast {
    s2_sim_options options;
    int32_t n_layers;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t block_tok;
    s2_tile_shape shape;
    double dense_time_us; /* of one dense layer */
    double dense_bound_us;
    int64_t dense_steps;
    int64_t dense_pairs; /* of one head */
    int64_t dense_blocks;
    int64_t count[S2_FAST_STEPS];
} s2_fast;

/* Totals over layers, heads and batch. */
typedef struct s2_fast_cost {
    int64_t pairs;
    double density;
    int64_t kv_slots; /* resident keys, exact */
    double bound_us;
    int64_t steps;         /* exact mode only, as are the following */
    int64_t busiest_steps; /* of one sparse layer */
    double time_us;
} s2_fast_cost;

/*
 * Shape and options of the search; prefill of a causal pattern, one rank. S2_EINVAL when a limit above is
 * exceeded, or blocks are smaller than 16 tokens.
 */
s2_status s2_fast_init(const s2_pattern *shape, const s2_sim_options *options, s2_fast *out) S2_MUST_CHECK;

/* The same for a kernel that cuts its tiles differently; q_tok may be less than a block. */
s2_status s2_fast_init_tiles(const s2_pattern *shape, const s2_sim_options *options, s2_tile_shape tile,
                             s2_fast *out) S2_MUST_CHECK;

/* Tiles of one layer by their steps, in fast->count; returns how many entries it has. candidate NULL: a dense layer. */
int32_t s2_fast_histogram(s2_fast *fast, const s2_candidate *candidate);

/* Fill what the top of this file lists for a bound, or for an exact price. */
void s2_fast_bound(const s2_fast *fast, const s2_candidate *candidate, s2_fast_cost *out);
void s2_fast_exact(s2_fast *fast, const s2_candidate *candidate, s2_fast_cost *out);

#endif /* S2_SIM_FAST_H */
