/*
 * plan/transpose.h - a plan transposed: for each tile of keys, the query tiles that read it.
 *
 * What a backward pass needs for dK and dV. A column is key_tok keys of one KV head, gathered from up to
 * n_sub blocks of the plan that need not be neighbours: blocks that many queries read are put together, so
 * that a block of the window does not wait for the queries of a strided one. Its list names (query step,
 * query head) pairs; a step is S2_COLUMN_STEP_TOK positions.
 *
 *     blocks of a column    | b0 | b1 | .. |                        n_sub of plan->blk_tok keys; -1: none
 *     entry.reads           4 bits per block, one for each 16 rows of the step
 *     list                  partial entries first, full ones after; descending steps inside each part
 *
 * The lists come from the items of the given plan, so a plan with few items gives the columns of those
 * items. Every block of every KV head is in exactly one column; unread blocks are in separate columns
 * with empty lists, so that each gradient has one writer.
 * KV heads whose query heads read alike share lists. Where all query heads of a group read the same, an
 * entry stands for the whole group (n_heads of the column), else for entry.head alone.
 *
 * Long columns may be cut into parts; the parts of a column are in order, `part` ascending. When cut at
 * absolute positions, neighbours in the order of work read the same queries.
 *
 * Whoever sums up what columns give to the same queries can do so in the order of work: turns[] then says of
 * each entry how many columns before its own do. In lists for that purpose (in_order) steps ascend within each
 * run of partial or full ones, and columns of late keys come first: of a causal pattern that reads everything, each
 * begins before its predecessor's first step, and comes to every further one after it, also to the last, which may
 * hold too few queries to be full and stands at the end.
 *
 * Ownership: arrays live in the given arena. Threads: immutable once built.
 */
#ifndef S2_PLAN_TRANSPOSE_H
#define S2_PLAN_TRANSPOSE_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    S2_COLUMN_STEP_TOK = 64,
    S2_COLUMN_LIMIT_SUBS = 8,
    S2_COLUMN_LIMIT_PARTS = 127,
    S2_COLUMN_BALANCED = -1
};

/*
 * What balanced cuts weigh, in steps of one head: a step that reads half the keys, a change of columns,
 * adding a part to a sum in memory. A cut is chosen only if the units then finish in less than `worth` of
 * the time. Properties of a kernel: plan/launch.h.
 */
typedef struct s2_column_costs {
    double half;
    double change;
    double sum;
    double worth;
} s2_column_costs;

typedef struct s2_plan_column_options {
    int32_t key_tok; /* keys of a column, a power of two, blk_tok <= key_tok <= 8 blk_tok */
    /*
     * Cut lists into parts of this many steps (x heads); 0: never. With wave 0 parts are of equal length,
     * else they are cut at absolute positions. S2_COLUMN_BALANCED, with wave 0 only: try several lengths and
     * no cut, and keep the one with which `units` columns at a time finish first.
     */
    int32_t part_steps;
    int32_t units;
    int32_t wave;          /* columns that run at a time; 0: strictly the longest first, no sections */
    int32_t section_heads; /* KV heads worked on at a time; 0: as many as fill a wave with long columns */
    /* Entries that read only the upper half of the keys go to the front of lists, those of the lower half to
     * the end, at most this many steps (x heads); 0: they stay, as in order they must. */
    int32_t halves;
    bool in_order; /* see turns; parts, if any, are cut at absolute positions */
    /* Heads read s2_plan_window(). What it cuts is an edge and has no mask. Lists go head by head: the queries of all
     * heads that the columns at work read at a time would not stay in the cache. */
    bool window_edges;
    s2_column_costs costs; /* for S2_COLUMN_BALANCED */
} s2_plan_column_options;

typedef struct s2_plan_column_entry {
    int32_t step;   /* 64 positions from s2_plan_tile_begin(plan, seq, 0) + 64 step on */
    int32_t head;   /* query head inside its group; 0 when the column's n_heads is the whole group */
    uint32_t reads; /* bit 4 b + s: rows 16 s .. of the step read (some of) block b */
    bool edge; /* compare with the causal edge, the end of the keys and, under window_edges, the window */
    bool full; /* every row reads every key: nothing to compare */
} s2_plan_column_entry;

typedef struct s2_plan_column {
    int32_t seq;
    int32_t kv_head;
    int32_t blocks; /* first of n_sub in columns->blocks */
    int32_t n_heads;
    int64_t begin; /* entries[begin, begin + n) */
    int32_t n;
    int32_t n_partial; /* entries that are not full, at the front */
    int32_t n_upper;   /* the first of these, which read keys of the upper half only; see halves */
    int32_t n_tail; /* the last entries, not full: they read keys of the lower half only or, in order, any */
    int32_t part;   /* of n_parts */
    int32_t n_parts;
    int32_t chain; /* columns of one chain are parts of one sum; -1: whole */
} s2_plan_column;

typedef struct s2_plan_columns {
    int32_t n_sub;
    int32_t n_columns;
    const s2_plan_column *columns; /* in the order of work */
    const int32_t *blocks;
    const s2_plan_column_entry *entries;
    int64_t n_entries;
    /* NULL when no list has element masks, else [entry * n_sub + b]: the mask in the flat plan, or -1 */
    const int32_t *masks;
    /* NULL when not in order, else [entry]: how many columns of the KV head come before in the order of work that have
     * an entry of the same step and head */
    const int32_t *turns;
    int32_t n_chains;
} s2_plan_columns;

/*
 * Transpose. plan->options.tile_tok must be a multiple of 64; flat is made from this plan. S2_EINVAL for
 * options outside their ranges, S2_ENOMEM. On failure *out is untouched.
 */
s2_status s2_plan_transpose(s2_arena *arena, const s2_plan *plan, const s2_plan_flat *flat,
                            const s2_plan_column_options *options, s2_plan_columns *out) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_TRANSPOSE_H */
