/*
 * cache/cache.h - a KV cache that shrinks: it holds what some later query may read, and nothing else.
 *
 * The cache hands out pages of key slots (one key and one value of one KV head); the keys themselves lie
 * in two arrays of the caller, K[slot][d] and V[slot][d], on any device. Three layouts:
 *
 *   head pages     a table per layer and KV head: logical page -> page of the pool
 *                      keys 0 ............................................ n_tok
 *                           [P7]      [P3]      [P9]  [P4][P1][P8]              dropped pages leave holes
 *   ring           the largest local window of the head in a ring of pages, what outlives it in head pages
 *   shared pages   one table per layer, a page holds all its KV heads (what paged caches usually do)
 *
 * A page is held while query n_tok - n_queries or a later one, of any head that reads it, may read one of its
 * keys (the columns of pattern/view.h say until when): what the proof allows is dropped, nothing else.
 * A key that nobody reads is never stored. Where a pattern comes back to a key, the key stays.
 *
 * A forked sequence shares every page by count; whoever writes first gets its own copy.
 *
 * Invariants: after every call pages in use are exactly the distinct pages of the open sequences; a token
 *             costs O(1) amortised, plus O(log window pages) where a page is opened or dropped.
 * Ownership:  create/destroy; sequences belong to the cache. Threads: one at a time.
 */
#ifndef S2_CACHE_CACHE_H
#define S2_CACHE_CACHE_H

#include "base/dtype.h"
#include "pattern/view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum s2_cache_layout {
    S2_CACHE_HEAD_PAGES,
    S2_CACHE_RING,
    S2_CACHE_SHARED_PAGES,
    S2_N_CACHE_LAYOUTS
} s2_cache_layout;
const char *s2_cache_layout_word(s2_cache_layout layout); /* "pages", "ring", "shared" */

typedef struct s2_cache s2_cache;

typedef struct s2_cache_options {
    s2_cache_layout layout;
    int32_t page_tok;    /* tokens of a page, at least 1; kernels on a GPU want multiples of 16 */
    int32_t layer_begin; /* layers [layer_begin, layer_end) of the pattern */
    int32_t layer_end;
    int64_t cap_pages; /* pages of the pool; 0: as many as are asked for */
    int32_t n_queries; /* tokens of a step: the last n_queries ones are still asked; 1 (0 counts as 1) */
} s2_cache_options;
/* Head pages of the pattern's block, at least 16 tokens; all layers; no bound. */
s2_cache_options s2_cache_options_default(const s2_pattern *pattern);

/*
 * S2_EUNSUPPORTED with the reason in *why for patterns that are not causal and for terms that keep keys by
 * what happened (heavy, topk); S2_EINVAL for options out of range; S2_ENOMEM. The pattern must outlive the
 * cache; what decides is its decode phase.
 */
s2_status s2_cache_create(const s2_pattern *pattern, const s2_cache_options *options, s2_cache **out,
                          s2_diag *why) S2_MUST_CHECK;
void s2_cache_destroy(s2_cache **cache);

/* An empty sequence; its number stays the same until it is closed, then it may be given again. S2_ENOMEM. */
s2_status s2_cache_open(s2_cache *cache, int32_t *seq) S2_MUST_CHECK;
void s2_cache_close(s2_cache *cache, int32_t seq);

/*
 * A second sequence with the tokens of `seq`, sharing its pages. A prefix is forked while it is whole: what
 * a window has already dropped cannot come back. S2_ENOMEM leaves everything as it was.
 */
s2_status s2_cache_fork(s2_cache *cache, int32_t seq, int32_t *out) S2_MUST_CHECK;

/*
 * Make room for n_tok more tokens and drop what the last of them no longer lets anybody read. The moves
 * that this needs are then in s2_cache_moves(): to be carried out in order, before the new tokens are written
 * where s2_cache_find() says. S2_ENOMEM when the pool is full or memory ran out: the sequence can then only
 * be closed.
 */
s2_status s2_cache_append(s2_cache *cache, int32_t seq, int32_t n_tok) S2_MUST_CHECK;

/* n_slots consecutive slots of K and of V, old contents to new place; made by the last append. */
typedef struct s2_cache_move {
    int64_t from_slot;
    int64_t to_slot;
    int32_t n_slots;
} s2_cache_move;
const s2_cache_move *s2_cache_moves(const s2_cache *cache, int32_t *n_moves);

/* As long as this is the same no key of the sequence lies elsewhere, but for those of a ring. No two sequences, also
 * those that were closed, ever have the same. */
int64_t s2_cache_version(const s2_cache *cache, int32_t seq);
s2_cache_layout s2_cache_layout_of(const s2_cache *cache);

/* Slot of a key, or -1 when it is not held. After a page of which some keys are held comes no promise about
 * the others. */
int64_t s2_cache_find(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head, int64_t k_tok);

/* Keys from here on lie in the ring, keys before it in pages; 0 where a layer's head has no ring. */
int64_t s2_cache_cut(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head);

/* Consecutive keys that begin at a multiple of this lie in consecutive slots. */
int32_t s2_cache_page_tok(const s2_cache *cache);

int32_t s2_cache_n_tok(const s2_cache *cache, int32_t seq);

/* What is in use, and the most that ever was. Slots of K; V has as many. */
typedef struct s2_cache_usage {
    int64_t page_slots; /* slots of one page */
    int64_t pages;
    int64_t peak_pages;
    int64_t pool_pages; /* pages that the pool must have room for: one above the highest ever used */
    int64_t slots;      /* pages * page_slots */
    int64_t meta_elems; /* page bounds of `pages` terms, elements per head dimension */
} s2_cache_usage;
s2_cache_usage s2_cache_use(const s2_cache *cache);
/* Bytes of K, V and page bounds in use. */
int64_t s2_cache_bytes(const s2_cache *cache, s2_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif /* S2_CACHE_CACHE_H */
