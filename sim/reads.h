/*
 * sim/reads.h - what a head reads and what its cache must hold, as unions of combs.
 *
 * Three questions, each answered by adding combs to a set:
 *   - which keys (or key tiles) does a tile of consecutive queries read;
 *   - which keys must still be in the cache when query n_tok - 1 runs: those that it or any later
 *     query may read. For a KV-efficient head these are the keys of row n_tok - 1;
 *   - which keys does some query of [first_tok, n_tok) read.
 * Thresholds slide with the query, so the union over a tile is again a comb; only where a residue
 * depends on the query is the tile cut at the groups of that residue. Dynamic terms add nothing here:
 * they are priced by their budgets (sim/work.h, sim/kv.h).
 *
 * Threads: no state.
 */
#ifndef S2_SIM_READS_H
#define S2_SIM_READS_H

#include "pattern/view.h"
#include "sim/combset.h"

/* DeepSeek's indexer, where an importer does not know another. */
enum { S2_INDEX_HEADS = 64, S2_INDEX_DIM = 128 };

/* One head without its dynamic terms, and what those would read. Build with s2_reads_build. */
typedef struct s2_reads {
    s2_view view;        /* static atoms only */
    s2_view may;         /* what `pages` and `topk` may ever choose: their `when`, without a budget */
    bool block_aligned;  /* every quantity is whole blocks: one row per block decides */
    bool reads_diagonal; /* some atom reads k = q for every q */
    int64_t budget_tok;  /* keys per query chosen at run time, in all dynamic terms */
    int64_t heavy_tok;   /* of which keys kept by accumulated score */
    int64_t page_tok;    /* smallest page of a `pages` term, 0 without one */
    bool selects_pages;  /* pages: metadata of every page is read for each query */
    bool selects_tokens; /* topk: an index key of every token is read for each query */
} s2_reads;

/* S2_ENOMEM. Atoms live in the arena. */
s2_status s2_reads_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                         int32_t head, s2_reads *out) S2_MUST_CHECK;

/*
 * Bytes of the key that the indexer behind `topk` keeps of each token: 8-bit elements and a scale; 0 where some
 * queries choose for all, and score the keys themselves.
 */
static inline int64_t s2_index_key_bytes(const s2_pattern *pattern)
{
    const s2_computed *const computed = pattern->computed;
    if (computed != NULL && computed->probe_rows > 0)
        return 0;
    return 4 + (computed != NULL && computed->index_dim > 0 ? computed->index_dim : S2_INDEX_DIM);
}

/* Of so many layers that choose keys, those that have an indexer of their own. */
static inline int64_t s2_index_layers(const s2_pattern *pattern, int64_t n_layers)
{
    const s2_computed *const computed = pattern->computed;
    if (computed == NULL || computed->n_indexed == 0)
        return n_layers;
    return (n_layers * computed->n_indexers + computed->n_indexed / 2) / computed->n_indexed;
}

/* True when both heads read the same pairs by construction (equal atoms); the converse may fail. */
bool s2_reads_equal(const s2_reads *a, const s2_reads *b);

/*
 * Add the key tiles (tile_tok 1: the keys) that queries [q_begin, q_end) read in a context of n_tok.
 * S2_ENOMEM only for explicit heads (random, mask), whose rows are enumerated.
 */
s2_status s2_reads_add_rows(const s2_reads *reads, int64_t q_begin, int64_t q_end, int64_t n_tok,
                            int64_t tile_tok, s2_combset *set) S2_MUST_CHECK;

/*
 * Add the keys below n_tok that query n_tok - 1 or a later one may read, or choose through `pages` and
 * `topk`. A random list may still name any key, so all keys stay; a mask file decides up to its last row.
 */
void s2_reads_add_kept(const s2_reads *reads, int64_t n_tok, s2_combset *set);

/* Add the keys that some query of [first_tok, n_tok) reads. */
s2_status s2_reads_add_touched(const s2_reads *reads, int64_t first_tok, int64_t n_tok,
                               s2_combset *set) S2_MUST_CHECK;

/* The first key of the window that ends at query n_tok - 1, and its capacity in tokens; capacity 0: none. */
typedef struct s2_window {
    int64_t begin;
    int64_t capacity_tok;
} s2_window;
s2_window s2_reads_window(const s2_reads *reads, int64_t n_tok);

#endif /* S2_SIM_READS_H */
