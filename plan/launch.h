/*
 * plan/launch.h - every decision that a launch takes before it knows an address: tiles, steps, splits, order.
 *
 * A kernel is a value with properties (s2_kernel_traits). Its host code and the simulator ask the functions
 * here and nothing else, so what is priced is what runs. The traits of the kernels of this repository are
 * in one table; files name a kernel by its word, and s2_kernel_traits_find() is the one place that reads it.
 *
 * Constants that were measured are members of the traits, with their source in plan/launch.c.
 *
 * Ownership: traits are static. Threads: no state.
 */
#ifndef S2_PLAN_LAUNCH_H
#define S2_PLAN_LAUNCH_H

#include "base/arith.h"
#include "plan/decode.h"
#include "plan/pass.h"
#include "plan/transpose.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What decisions need to know about the device. */
typedef struct s2_chip {
    int32_t capability; /* compute capability, 80, 90, ...; 0 for a CPU */
    int32_t n_units;    /* SMs, or threads */
} s2_chip;

/* How the columns of a gradient are cut (plan/transpose.h): part_steps by heads and length of the context. */
typedef enum s2_column_heads { S2_COLUMN_GROUPED, S2_COLUMN_DENSE, S2_COLUMN_SPARSE } s2_column_heads;
typedef struct s2_column_rule {
    int32_t short_tok;        /* contexts below are short */
    int32_t long_tok;         /* contexts above are long */
    int32_t part_steps[3][3]; /* [s2_column_heads][short, middle, long] */
    int32_t halves;
    int32_t section_heads; /* 0: as many as fill a wave */
    bool in_order;
    bool window_edges; /* see plan/transpose.h */
    s2_column_costs costs;
} s2_column_rule;

/* K and V that the kernels for prefill work on at a time. Measured: best between 8 and 24 MB with an L2 cache of 60. */
enum { S2_SECTION_BYTES = 16 << 20 };

/* Bytes that hold the name of any kernel of this repository, its end included. */
enum { S2_KERNEL_NAME = 24 };

typedef struct s2_kernel_traits {
    const char *name;           /* one word, unique: "ref_f64", "cpu", "sm80", "sm90" */
    int32_t rank;               /* among kernels that accept a problem the highest runs; unique per device */
    int32_t tile_tok;           /* query positions per tile */
    int32_t tile_rows;          /* not 0: rows of a tile over all its heads; packing then sets tile_tok */
    int32_t pack_heads;         /* at most this many query heads share a tile */
    int32_t key_tok;            /* keys per step of the plan */
    int32_t wide_key_tok;       /* ... for head dimensions above 128 */
    int64_t section_bytes;      /* K and V that may be live at a time; 0: all */
    int32_t halves_tok;         /* plans with key_tok up to this run in steps of two halves (plan/steps.h) */
    int32_t column_tok;         /* backward: keys per column */
    const s2_column_rule *cuts; /* backward: NULL: columns are not cut */
    int32_t joint_dim;          /* backward: up to this dK and dV are made in one pass; 0: always */
    int32_t decode_parts;       /* decode: parts on every device; 0: as s2_decode_launch_of() says */
    int32_t dim_step;           /* head dimensions that it takes are multiples of this; 0: any */
    int32_t least_dim;          /* ... and at least this */
    int32_t most_dim;           /* ... and at most this; 0: any */
    int32_t small_dim;          /* ... and this on small chips; 0: most_dim */
    int32_t least_tok;  /* every sequence has at least so many keys, see s2_kernel_least_tok(); 0: any */
    int32_t first_chip; /* compute capability that it needs; 0: a CPU */
    int32_t last_chip;  /* 0: later ones run it too */
    bool eight_bits;    /* its products are of e4m3, and it takes queries of no other type */
    bool listed;        /* it plans lists that lie on the device, in each launch, and takes nothing else */
    bool
        short_windows; /* it takes what s2_plan_reads_window() says of S2_WINDOW_MOST_TOK, and nothing else */
    bool wide_steps;   /* decode: it takes lists of more than 16 rows, and nothing else */
    bool large_chips;  /* small ones, below 164 KiB of shared memory an SM, do not run it */
} s2_kernel_traits;

extern const s2_kernel_traits s2_traits_ref_f64, s2_traits_cpu, s2_traits_cpu_bwd, s2_traits_cpu_decode,
    s2_traits_decode, s2_traits_sm80, s2_traits_sm90, s2_traits_sm90_window, s2_traits_sm90_e4m3,
    s2_traits_sm80_bwd, s2_traits_sm90_bwd, s2_traits_sm90_bwd_window, s2_traits_sm90_bwd_fused,
    s2_traits_sm90_bwd_ordered, s2_traits_decode_wide;

/* The traits of a kernel of this repository; NULL for any other word. */
const s2_kernel_traits *s2_kernel_traits_find(const char *name);

/*
 * Whether it takes one kind of launch alone (e4m3, lists on the device, short windows, wide decode steps), where others
 * take the rest.
 */
bool s2_kernel_is_special(const s2_kernel_traits *traits);

/* Whether a chip of this compute capability runs a kernel. */
bool s2_kernel_runs_on(const s2_kernel_traits *traits, int32_t capability);

/* The largest head dimension that a kernel takes on a chip; 0: any. */
int32_t s2_kernel_most_dim(const s2_kernel_traits *traits, int32_t capability);

/* Whether a kernel takes a head dimension on a chip. */
bool s2_kernel_takes_dim(const s2_kernel_traits *traits, int32_t capability, int32_t head_dim);

/* The fewest keys of a sequence that a kernel takes where `group` query heads share a KV head; 0: any. */
int32_t s2_kernel_least_tok(const s2_kernel_traits *traits, int32_t group);
/* Whether a kernel takes sequences as short as those of a plan. */
bool s2_kernel_takes_lengths(const s2_kernel_traits *traits, const s2_plan *plan);

/*
 * What the kernels of short windows take: heads that all read the last tokens, so many of them a KV head. A unit of
 * their work has so many positions of so many heads.
 */
enum { S2_WINDOW_MOST_TOK = 128, S2_WINDOW_HEADS = 8, S2_WINDOW_UNIT_TOK = 8 };

/*
 * Their gradients walk ranges of the positions of a KV head. The units of the longest range, where n_blocks blocks of
 * threads are to take as few turns as with whole sequences; and into how many ranges of up to so many units a
 * sequence is cut: none is shorter than S2_WINDOW_LEAST_RANGE. A range has sums for the one before it when it has done
 * the units of a window, and takes those of the one after it when it has so many and one more left: if it took
 * them before it had its own for the one before it, ranges would run one after the other.
 */
enum { S2_WINDOW_LEAST_RANGE = 2 * (S2_WINDOW_MOST_TOK / S2_WINDOW_UNIT_TOK) + 1 };
int32_t s2_window_longest_range(const s2_plan *plan, int32_t n_blocks);
int32_t s2_window_ranges(const s2_plan *plan, int32_t seq, int32_t longest);
static inline int32_t s2_window_units(const s2_plan *plan, int32_t seq)
{
    return (int32_t)s2_ceil_div(plan->seqs[seq].k_tok, S2_WINDOW_UNIT_TOK);
}

/*
 * Whether columns of keys follow each other through the queries, so that none waits to add to dQ in its turn: there is
 * a query for each key, and heads read every key or all of them one window, of s2_kernel_least_window() tokens at
 * least where `group` query heads share a KV head. On shorter ones two passes are as fast.
 */
int32_t s2_kernel_least_window(int32_t group);
bool s2_kernel_follows(const s2_plan *plan);

/* How a kernel wants its plan cut. */
s2_plan_options s2_kernel_cut(const s2_kernel_traits *traits, int32_t head_dim);

/* Whether a plan in steps of key_tok runs in whole steps of 2 key_tok and halves; false without traits. */
bool s2_kernel_halves(const s2_kernel_traits *traits, int32_t key_tok);

/*
 * How often a backward kernel goes through its columns: twice where dK and dV are made one after the other,
 * which computes the scores in both.
 */
int32_t s2_kernel_column_passes(const s2_kernel_traits *traits, int32_t head_dim);

/* How a kernel cuts and orders the columns of a plan; without traits: whole columns of the plan's key_tok. */
s2_plan_column_options s2_kernel_columns(const s2_kernel_traits *traits, const s2_plan *plan,
                                         int32_t n_units);

/* Blocks of threads of a persistent kernel for n_work pieces of work. */
static inline int32_t s2_persistent_blocks(int32_t n_work, int32_t n_units)
{
    return s2_min_i32(n_work, n_units);
}

/*
 * A decode step on a GPU. The rows of a list (query tokens times heads of a group) are divided into chunks of
 * 8 row_tiles rows, and each chunk works through every part of the keys. Parts of a list are added up by warps, each
 * of whole rows: it fetches up to trip_parts parts of one in a trip to L2, and makes one trip after another.
 */
enum {
    S2_DECODE_WARPS = 4,
    S2_DECODE_TRIP_PARTS = 17,
    S2_DECODE_TRIP_PARTS_WIDE = 12,
    S2_DECODE_SHORT_TRIP = 4,
    S2_DECODE_TRIP_DIM = 128
};
typedef struct s2_decode_launch {
    int32_t row_tiles;    /* 1, 2, 4 or 8; of up to 8 rows s2_decode_launch_fit() may make 2 */
    int32_t n_chunks;     /* at least 1 */
    int32_t residents;    /* blocks of threads that an SM holds at a time */
    int32_t n_parts;      /* as many as are resident: the keys of a long step are cut into these */
    int32_t single_parts; /* one block per SM */
    bool many_rows;       /* more than 16 a list, of keys that the plan knows */
    int32_t
        trip_parts; /* that a warp adds up in a trip; one of up to S2_DECODE_SHORT_TRIP has code of its own */
    int32_t row_trips;  /* of such trips, for S2_DECODE_TRIP_DIM columns each */
    int32_t list_slabs; /* going to another list, or a trip, takes as long as so many slabs */
    bool may_merge;     /* lists of up to 8 rows may leave their parts to a launch of their own */
} s2_decode_launch;

/* selects: the preceding launch chooses pages (kernels/select.h). e4m3: K and V have eight bits. */
s2_decode_launch s2_decode_launch_of(s2_chip chip, const s2_plan *plan, int32_t head_dim, bool selects,
                                     bool e4m3);

/*
 * Recut a step, built with launch->n_parts, into one part per SM or into parts of whole lists, where that is faster.
 * And let a launch of its own add up the parts of lists of few rows where that is worth it. S2_ENOMEM.
 */
s2_status s2_decode_launch_fit(s2_arena *arena, s2_decode_launch *launch, s2_decode_plan *plan) S2_MUST_CHECK;

/*
 * Trips, one after another, of the warp that adds up most parts: of a launch of its own, where each row has a warp, or
 * of the last block of a list, whose warps take its rows in turn.
 */
int32_t s2_decode_launch_trips(const s2_decode_launch *launch, const s2_decode_plan *step, bool merges);
/* ... of which so many add up more than S2_DECODE_SHORT_TRIP parts. */
int32_t s2_decode_launch_long_trips(const s2_decode_launch *launch, const s2_decode_plan *step, bool merges);

/* Whether the step cuts lists of many rows: a separate launch then adds up their parts, a warp per row. */
bool s2_decode_launch_merges(const s2_decode_launch *launch, const s2_decode_plan *step);

/* Parts of rows that this launch fetches: trips are of one size or another, and what is not there is fetched again. */
int64_t s2_decode_launch_fetches(const s2_decode_launch *launch, const s2_decode_plan *step);
/* ... the blocks of threads that it has for each list, a warp for each row of the list of most rows, chunk by chunk. */
int32_t s2_decode_launch_list_blocks(const s2_decode_launch *launch, const s2_decode_plan *step);
/* ... and for all lists and chunks. */
int64_t s2_decode_launch_blocks(const s2_decode_launch *launch, const s2_decode_plan *step);

/* Whether a launch leaves half of every SM empty, so that the next one can begin while it runs. */
bool s2_decode_launch_leaves_room(s2_chip chip, const s2_decode_launch *launch, int32_t n_parts);

/* Blocks of threads per list that score its pages, each `block_pages` at a time. */
int32_t s2_select_blocks(int32_t n_units, int32_t n_lists, int32_t n_pages, int32_t block_pages);

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_LAUNCH_H */
