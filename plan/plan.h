/*
 * plan/plan.h - what a kernel is asked to do with one layer of a pattern: tiles, key blocks, order.
 *
 * kernels/ executes a plan and sim/ prices the same plan, so a prediction is about the schedule that
 * runs. Everything here is plain C and knows no device.
 *
 *     positions   0 ......... q_off = k_tok - q_tok ......... k_tok      (queries are the LAST q_tok)
 *     tiles            |--------|--------|--------|--------|             anchored at multiples of tile_tok
 *     slabs            |s0 s1 ..|                                        16 rows each, one mask bit each
 *
 * A tile is tile_tok consecutive positions of one sequence; tiles are anchored at absolute positions, so
 * the first one may begin before the first query. With tile_tok above the pattern's block one tile
 * serves several query blocks ("Merge-Q"): each key block of the tile's list then carries one bit
 * per 16-row slab saying which rows it concerns, which is exact for every pattern.
 * Where all query heads of a KV head read the same keys, pack_heads of them share a tile and its list.
 *
 * Heads that read the same keys form a class. A class is either arithmetic (local window, sinks, one
 * stride: s2_plan_periodic, no memory and any length) or a block list built from pattern/blocks.h.
 * s2_plan_tile_list() enumerates both the same way.
 *
 * Invariants: 16 divides tile_tok; blk_tok is a power of two, 16 <= blk_tok <= key_tok.
 * Ownership:  arrays live in the arena given to s2_plan_build(); the pattern must outlive the plan.
 * Threads:    a plan is immutable once built; each thread enumerates into its own s2_plan_list.
 */
#ifndef S2_PLAN_PLAN_H
#define S2_PLAN_PLAN_H

#include "pattern/blocks.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    S2_PLAN_SLAB_TOK = 16,   /* rows of a slab: what one warp owns in a tensor-core accumulator */
    S2_PLAN_LIMIT_SLABS = 32 /* so tile_tok <= 512 */
};

/* How a kernel wants its work cut. Start from s2_plan_options_default(). */
typedef struct s2_plan_options {
    int32_t tile_tok;      /* query positions per tile, a multiple of 16, at most 512 */
    int32_t tile_rows;     /* not 0: rows of a tile over all its heads; packing then sets tile_tok */
    int32_t key_tok;       /* keys per step of the kernel (its BN), a power of two, at least 16 */
    int32_t pack_heads;    /* at most this many query heads of one KV head share a tile; 1: none */
    int64_t section_bytes; /* K and V that may be live at a time: heads are run in sections; 0: all at once */
    int32_t elem_bytes;    /* of K and V, for the sections */
    int64_t *work_left;    /* to list what is not arithmetic (base/work.h), one thread's; NULL: no limit */
} s2_plan_options;
s2_plan_options s2_plan_options_default(void); /* 128 x 128, no packing, one section, 2 bytes */

/* One sequence of the batch. 1 <= q_tok <= k_tok: the queries are the last q_tok positions. */
typedef struct s2_plan_seq {
    int32_t q_tok;
    int32_t k_tok;
} s2_plan_seq;

/*
 * A class as arithmetic. Query position q reads key k <= q when any of these holds (a zero: never):
 *     dense
 *     q / block_tok - k / block_tok < local_blk       window in blocks, the diagonal counts as one
 *     q - k < window_tok                              window in tokens, exact to the token
 *     k < sink_tok
 *     (k / block_tok + stride_shift) mod stride_blk < stride_width
 * Block quantities are in blocks of the pattern (block_tok). Only causal patterns are described this way.
 */
typedef struct s2_plan_periodic {
    bool dense;
    int32_t block_tok;
    int32_t local_blk;
    int32_t window_tok;
    int32_t sink_tok;
    int32_t stride_blk;
    int32_t stride_width;
    int32_t stride_shift;
} s2_plan_periodic;

/* The query heads of the layer that read the same keys. */
typedef struct s2_plan_class {
    int32_t first_head;
    int32_t n_heads;
    bool periodic;    /* then `as` describes it, and blocks is empty */
    bool block_exact; /* no element masks: whole slabs, the causal edge and the end of the keys suffice */
    s2_plan_periodic as;
    s2_view view;
    s2_blocks blocks; /* at granularity plan->blk_tok */
} s2_plan_class;

/* One key block of a tile's list. */
typedef struct s2_plan_entry {
    int32_t k_blk;  /* in units of plan->blk_tok */
    uint32_t slabs; /* bit s: rows 16 s .. 16 s + 15 of the tile read it */
    int32_t mask;   /* -1, or index of an element mask: rows of the slabs read only the keys set there */
    uint8_t edge;   /* 1: compare every element with the causal edge and the end of the keys */
    uint8_t full;   /* 1: all slabs, no mask, no edge: nothing to compare */
} s2_plan_entry;

/*
 * The list of one tile, partial entries first, full ones after; ascending inside each part. Element
 * mask m is bits[(m * tile_tok + row) * mask_words + w], bit k % 32 of word w = k_in_block / 32,
 * causal edge and end of keys already applied.
 * A growing scratch value: zero-initialise, reuse, release.
 */
typedef struct s2_plan_list {
    s2_plan_entry *entries;
    int32_t n_entries;
    int32_t n_partial; /* entries[0, n_partial) are not full */
    int64_t cap_entries;
    uint32_t *bits;
    int32_t n_masks;
    int64_t cap_words; /* of bits: the next plan's masks may be larger */
    s2_run *runs;      /* scratch of the enumeration: of one row */
    int64_t cap_runs;
} s2_plan_list;
void s2_plan_list_release(s2_plan_list *list);

/* One piece of work: one tile of one sequence for n_heads query heads that share a KV head. */
typedef struct s2_plan_item {
    int32_t seq;
    int32_t head; /* first query head; heads [head, head + n_heads) */
    int32_t n_heads;
    int32_t tile; /* from 0 in its sequence */
    int32_t cls;
    int32_t section;
    int32_t n_blk;     /* entries of its list: the cost, in key blocks */
    int32_t n_partial; /* of these, those that need any comparison */
} s2_plan_item;

/* Exact, over all sequences and heads of the layer. */
typedef struct s2_plan_counts {
    int64_t pairs;          /* (query, key) pairs that are read */
    int64_t pairs_causal;   /* pairs that a dense causal layer reads */
    int64_t pairs_executed; /* pairs computed: whole tiles x whole steps of key_tok keys */
    int64_t n_tiles;        /* items times their heads */
    int64_t n_blk_loaded;   /* key blocks fetched: once per item */
    int64_t n_blk_partial;
    int64_t n_steps; /* steps of key_tok keys */
} s2_plan_counts;

typedef struct s2_plan {
    const s2_pattern *pattern;
    s2_phase phase;
    int32_t layer;
    s2_plan_options options;
    int32_t blk_tok;    /* granularity of lists: the pattern's block, but 16 <= blk_tok <= key_tok */
    int32_t mask_words; /* 32-bit words of an element mask row: blk_tok / 32, at least 1 */
    int32_t pack_heads; /* resulting heads per item: 1 unless every group shares a pattern */
    int32_t n_seqs;
    const s2_plan_seq *seqs;
    int32_t n_classes;
    const s2_plan_class *classes;
    const int32_t *class_of; /* [head] */
    int32_t n_items;
    const s2_plan_item *items; /* sections ascending; inside one the longest first, then seq, head, tile */
    s2_plan_counts counts;
} s2_plan;

/*
 * Plan one layer. S2_EINVAL for options or lengths outside their ranges; S2_EUNSUPPORTED (with the
 * reason in *why) for terms that choose their keys at run time, and for patterns that are not causal
 * in batches of unequal lengths; S2_ELIMIT when options->work_left ran out, here or later when lists are
 * made from the plan; S2_ENOMEM. On failure *out is untouched.
 */
s2_status s2_plan_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        const s2_plan_seq *seqs, int32_t n_seqs, const s2_plan_options *options, s2_plan *out,
                        s2_diag *why) S2_MUST_CHECK;

/*
 * The same plan with only the items for which keep(user, item) is true, in the same order; counts stay
 * those of the whole. A kernel writes exactly the rows of the items that it is given.
 */
s2_status s2_plan_select(s2_arena *arena, const s2_plan *plan,
                         bool (*keep)(void *user, const s2_plan_item *item), void *user,
                         s2_plan *out) S2_MUST_CHECK;

/* Whether each key of each sequence has a query. */
bool s2_plan_is_whole(const s2_plan *plan);
/* The window in tokens that every head of the planned layer reads and nothing else; 0 where there is none. */
int32_t s2_plan_window(const s2_plan *plan);
/* Whether there is one, of at most so many tokens. */
bool s2_plan_reads_window(const s2_plan *plan, int32_t most_tok);

/* Whether every head of the planned layer reads every key up to its own position, without element masks, and each
 * key has a query. */
bool s2_plan_reads_all(const s2_plan *plan);

/* Tiles of a sequence, and the position (not the query index) of a tile's first row. */
int32_t s2_plan_n_tiles(const s2_plan *plan, int32_t seq);
int64_t s2_plan_tile_begin(const s2_plan *plan, int32_t seq, int32_t tile);

/* Enumerate one tile of one class in one sequence. S2_ENOMEM leaves the list empty but releasable. */
s2_status s2_plan_tile_list(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile,
                            s2_plan_list *list) S2_MUST_CHECK;

/*
 * All lists of a plan in three arrays, for devices that read them from memory. Items whose lists
 * are equal share them.
 */
typedef struct s2_plan_span {
    int64_t begin; /* entries[begin, begin + n) */
    int32_t n;
    int32_t n_partial;
} s2_plan_span;
typedef struct s2_plan_flat {
    const s2_plan_entry *entries; /* mask is an index into all of bits */
    int64_t n_entries;
    const uint32_t *bits;
    int64_t n_masks;
    const s2_plan_span *span_of; /* [item] */
} s2_plan_flat;
s2_status s2_plan_flatten(s2_arena *arena, const s2_plan *plan, s2_plan_flat *out) S2_MUST_CHECK;

/*
 * One layer of each kind, ascending: the layers whose heads do not read the same as any lower layer's.
 * layer_of may be NULL, else [n_layers] receives the representative of every layer. *n_out: how many kinds.
 */
s2_status s2_plan_distinct_layers(s2_arena *arena, const s2_pattern *pattern, s2_phase phase,
                                  const int32_t **layers, int32_t *n_out, int32_t *layer_of) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_PLAN_H */
