/*
 * cache/cache.h - a KV cache that shrinks: it holds what some later query may read, and nothing else.
 *
 * The cache hands out pages of key slots (one key and one value of one KV head); the keys themselves are
 * in two arrays of the caller, K[slot][d] and V[slot][d], on any device. Three layouts:
 *
 *   head pages     a table per layer and KV head: logical page -> page of the pool
 *                      keys 0 ............................................ n_tok
 *                           [P7]      [P3]      [P9]  [P4][P1][P8]              dropped pages leave holes
 *   ring           the head's largest local window in a ring of pages, keys that outlive it in head pages
 *   shared pages   one table per layer, a page holds all its KV heads (as paged caches usually do)
 *
 * A page is held while query n_tok - n_queries or a later one, of any head that reads it, may read one of its
 * keys (the columns of pattern/view.h say until when): only what the proof allows is dropped. A key that
 * nobody reads is never stored. A key to which the pattern returns stays.
 *
 * A forked sequence shares every page, by reference count; the first sequence that writes gets its own copy.
 *
 * Invariants: after every call the pages in use are exactly those of the open sequences; a token
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
    int64_t cap_pages; /* most pages of the pool; 0: no bound */
    int32_t n_queries; /* tokens of a step: the last n_queries are still queries; 1 (0 counts as 1) */
} s2_cache_options;
/* Head pages of the pattern's block size, at least 16 tokens; all layers; no bound. */
s2_cache_options s2_cache_options_default(const s2_pattern *pattern);

/*
 * S2_EUNSUPPORTED with the reason in *why for patterns that are not causal and for terms that keep keys
 * depending on the data (heavy, topk); S2_EINVAL for options out of range; S2_ENOMEM. The pattern must
 * outlive the cache; its decode phase decides what is kept.
 */
s2_status s2_cache_create(const s2_pattern *pattern, const s2_cache_options *options, s2_cache **out,
                          s2_diag *why) S2_MUST_CHECK;
void s2_cache_destroy(s2_cache **cache);

/* Open an empty sequence. Its number stays the same until it is closed and may then be reused. S2_ENOMEM. */
s2_status s2_cache_open(s2_cache *cache, int32_t *seq) S2_MUST_CHECK;
void s2_cache_close(s2_cache *cache, int32_t seq);

/*
 * A second sequence with the tokens of `seq`, sharing its pages. Fork a prefix before it grows further: what
 * a window has dropped cannot come back. S2_ENOMEM leaves everything unchanged.
 */
s2_status s2_cache_fork(s2_cache *cache, int32_t seq, int32_t *out) S2_MUST_CHECK;

/*
 * Make room for n_tok more tokens and drop the keys that no query of the new step or later reads. Afterwards
 * s2_cache_moves() gives the moves that this needs: make them in order, before the new tokens are written
 * where s2_cache_find() says. S2_ENOMEM when the pool is full or memory ran out: the sequence can then only
 * be closed.
 */
s2_status s2_cache_append(s2_cache *cache, int32_t seq, int32_t n_tok) S2_MUST_CHECK;

/* Move the contents of n_slots consecutive slots of K and of V; made by the last append. */
typedef struct s2_cache_move {
    int64_t from_slot;
    int64_t to_slot;
    int32_t n_slots;
} s2_cache_move;
const s2_cache_move *s2_cache_moves(const s2_cache *cache, int32_t *n_moves);

/* While this is unchanged no key of the sequence has moved, except in a ring. No two sequences, closed ones
 * included, ever have the same version. */
int64_t s2_cache_version(const s2_cache *cache, int32_t seq);
/* The version at which a key that the sequence held last changed its slot: at its opening, by a copy after a
 * fork, or in a ring. Between two equal answers pages only come and go. */
int64_t s2_cache_moved_version(const s2_cache *cache, int32_t seq);
s2_cache_layout s2_cache_layout_of(const s2_cache *cache);

/* Slot of a key, or -1 when it is not held. If some keys of a page are held, nothing is promised about its
 * others. */
int64_t s2_cache_find(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head, int64_t k_tok);

/* Keys from here on are in the ring, keys before in pages; 0 where the head has no ring. */
int64_t s2_cache_cut(const s2_cache *cache, int32_t seq, int32_t layer, int32_t kv_head);

/* So many consecutive keys, from a multiple of it on, are in consecutive slots. */
int32_t s2_cache_page_tok(const s2_cache *cache);

int32_t s2_cache_n_tok(const s2_cache *cache, int32_t seq); /* tokens appended to it so far */

/* What is in use, and the most that ever was. Slots are those of K; V has as many. */
typedef struct s2_cache_usage {
    int64_t page_slots; /* slots of one page */
    int64_t pages;
    int64_t peak_pages;
    int64_t pool_pages; /* pages that the pool needs room for: the highest number ever used, plus one */
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
