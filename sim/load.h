/*
 * sim/load.h - what a launch demands of the chip, counted exactly from the plan that the kernel runs.
 *
 * Items are in the order in which a persistent kernel takes them; neighbours of equal cost are one class.
 * Bytes are what tiles load from L2 or beyond; how much of that comes from device memory depends on the
 * cache, so generations of items are kept, with what they share.
 *
 * Ownership: arrays live in the arena. Threads: one at a time.
 */
#ifndef S2_SIM_LOAD_H
#define S2_SIM_LOAD_H

#include "base/dtype.h"
#include "plan/launch.h"

typedef struct s2_load_class {
    int32_t n_full;   /* steps without mask code; halved: whole steps */
    int32_t n_masked; /* steps with it; halved: half steps */
    int32_t n_mixed;  /* halved: whole steps with it */
    int32_t n_rows;   /* decode: rows of the lists that the part works for, of a chunk at most */
    int32_t n_groups; /* decode: of four slabs, a warp each, none with slabs of two lists */
    int32_t n_turns;  /* decode: how often the part goes on to another list */
    int32_t n_fine;   /* of which compare with element masks from memory; decode: slabs, or groups, that do */
    int32_t n_more;   /* halved: masks that these read beyond one for each half step's keys */
    int32_t n_items;  /* in a row */
} s2_load_class;

/* Backward: a column of keys, or a part of one, which waits for the part before it (plan/transpose.h). */
typedef struct s2_load_column {
    int32_t n_full; /* 64-row steps */
    int32_t n_masked;
    int32_t n_half; /* steps that read one half of its keys: the other half's warps skip them */
    int32_t n_fine;
    int32_t chain; /* -1: whole */
    bool follows;  /* in order: it adds to a tile of dQ that the column before it adds to */
    int32_t later; /* ... and comes there at least so many steps later, counted from its own begin */
} s2_load_column;

/* Bytes of K and V for as many items as run at a time. */
typedef struct s2_wave {
    double distinct; /* read by any of them */
    double kept;     /* of which the generation before read too */
    double chance;   /* of `distinct`: read through lists from memory, in no common order */
} s2_wave;

/* Bytes of Q and dO, and of the copy of dQ if they add to one, for as many columns as run at a time. */
typedef struct s2_sweep {
    double distinct; /* read by any of them */
    double kept;     /* of which the columns before read too */
    double reads;    /* by all, each at its own row, so what others have read is found by chance */
    double beside;   /* of these, a few steps after another column, so that it is still there */
} s2_sweep;

typedef struct s2_kernel_load {
    s2_pass pass;
    s2_dtype dtype;
    int32_t head_dim;
    int32_t rows;      /* of a tile: query rows times packed heads */
    int32_t key_tok;   /* of a step */
    int32_t n_subs;    /* key blocks gathered into a step */
    bool one_head;     /* tiles have rows of one head */
    bool in_step;      /* tiles have two heads, whose warps keep step where those of one head would not */
    bool halved;       /* steps are those of plan/steps.h, a whole one has key_tok keys */
    bool even_group;   /* an even number of query heads per KV head */
    bool arithmetic;   /* no list comes from memory */
    bool whole_blocks; /* no list needs element masks */
    int32_t list_rows; /* query rows that read a list: heads of a group, in decode times query tokens */
    int32_t q_tok;     /* query tokens of the sequence that has most; 0: not known */
    int32_t k_tok;     /* keys of the longest sequence */
    int64_t n_lists;   /* KV heads times sequences */
    int64_t n_items;
    int64_t n_steps;
    int64_t n_masked;
    int64_t n_listed; /* blocks that the lists of all items name */
    int64_t n_seen;   /* lists on the device: blocks that they might name */
    int32_t n_classes;
    const s2_load_class *classes;
    int32_t column_tok;
    int32_t n_columns; /* backward: what dK and dV work through, in order; 0: not known */
    int32_t n_chains;
    const s2_load_column *columns;
    double *chain_ends;    /* n_chains + 1 entries of scratch for sim/model.c: one thread per load */
    int32_t column_passes; /* backward: s2_kernel_column_passes() */
    bool fused;            /* backward: columns add to dQ as well, so that no items follow */
    double dq_bytes;       /* then: the fp32 copy of dQ that they add to */
    double column_bytes;   /* what columns load: their keys, and the rows of their steps */
    double sum_bytes;      /* what parts of cut columns write and the next ones read */
    double again_bytes;    /* what a later kernel of the launch reads again */
    int32_t n_sweeps;
    const s2_sweep *sweeps; /* of columns, as many as run at a time */
    int32_t n_generations;
    const s2_wave *generations;
    bool wide;   /* decode: more than 16 rows a list on Hopper, for which there is a kernel: 64 keys a step */
    bool merges; /* decode: a launch of its own adds up the parts of lists */
    double left_bytes;   /* decode: in fp32, what parts leave for this launch, and what it fetches */
    double sum_blocks;   /* decode: blocks of threads of this launch */
    int32_t trips;       /* decode: to L2, one after another, of the warp that adds up most parts */
    int32_t long_trips;  /* decode: ... of more than a few parts */
    int64_t pairs;       /* useful, with all heads and sequences */
    double panel_bytes;  /* e4m3: what turns V into panels reads and writes, before anything else */
    double panel_blocks; /* ... and its blocks of threads */
    double flop;         /* executed, both products */
    double zero_flop;    /* of these, with a zero for a factor: they draw no power */
    double q_bytes;      /* Q read */
    double kv_bytes;     /* K and V touched, each once */
    double span_bytes;   /* K and V of all tokens, of which kv_bytes are touched */
    double
        amid; /* decode, gradients: lines of the cache that a row touches beyond those that it has, in rows */
    double out_bytes;   /* O and the log-sum-exp written */
    double load_bytes;  /* what items load: Q and the blocks of their lists */
    double whole_bytes; /* the same with whole steps and whole 64-column pieces, as tensor copies move them */
    /* added by sim/scores.h where scores are capped or have sinks: */
    double cap_cycles;  /* of a whole step */
    double sink_cycles; /* of an item */
    double after_us;    /* of a small kernel of its own */
} s2_kernel_load;

/* Whether its rows do not fill whole sectors of 32 bytes, the least that the cache moves. */
bool s2_kernel_load_is_ragged(const s2_kernel_load *load);

/*
 * A forward or backward pass by a kernel with these traits (NULL: not known, so lists are not halved and
 * columns not cut) that runs n_running items at a time. One of short windows (sim/short.h) takes the plan.
 * S2_ENOMEM, and what building the steps returns.
 */
s2_status s2_load_of(s2_arena *arena, const s2_plan *plan, const s2_kernel_traits *traits, s2_pass pass,
                     s2_dtype dtype, int32_t n_running, s2_kernel_load *out) S2_MUST_CHECK;

/*
 * A decode step: equal parts of 16-key slabs (plan/decode.h), as this chip launches them. n_full counts
 * slabs.
 */
s2_status s2_load_of_step(s2_arena *arena, const s2_plan *plan, s2_dtype dtype, s2_chip chip,
                          s2_kernel_load *out) S2_MUST_CHECK;

/* What the rows of one KV head of one sequence read in a decode step, counted. */
typedef struct s2_load_list {
    int32_t k_tok; /* keys of the sequence */
    int32_t n_slabs;
    int32_t n_fine; /* slabs with masks */
    int64_t n_pairs;
} s2_load_list;

/* The lists of a plan: out[sequence * KV heads + KV head]. What planning returns. scratch is rewound. */
s2_status s2_load_count_lists(s2_arena *scratch, const s2_plan *plan, s2_load_list *out) S2_MUST_CHECK;

/*
 * A decode step of these lists, [sequence][KV head], one query token each: what s2_load_of_step() finds, with
 * the slabs that have masks spread evenly over their list. Costs O(lists + parts), whatever they read.
 * S2_EUNSUPPORTED beyond 2^31 slabs; S2_ENOMEM.
 */
s2_status s2_load_of_lists(s2_arena *arena, const s2_pattern *pattern, const s2_load_list *lists,
                           int32_t n_seqs, s2_dtype dtype, s2_chip chip, s2_kernel_load *out) S2_MUST_CHECK;

#endif /* S2_SIM_LOAD_H */
