/*
 * cache/table.h - the pool of pages, and the page table of one KV head (or one layer) of a sequence.
 *
 *     keys   0 ........... far (in pages of the table) .......... window_begin .... ring .... n_tok
 *
 * Keys enter the far side when they leave the window or, without a window, when they are appended. The page
 * being filled is open; each key that enters may raise the last query that needs it. A closed page waits in a
 * heap, with the first to be dropped on top.
 *
 * Entries ascend by page; a dropped entry stays as a hole until holes outnumber the rest.
 *
 * Threads: as the cache.
 */
#ifndef S2_CACHE_TABLE_H
#define S2_CACHE_TABLE_H

#include "cache/cache.h"
#include "cache/rule.h"

/* Reference counts of pages, by number; the page freed last is the first to be reused. */
typedef struct s2_cache_pool {
    int32_t *refs; /* [page] */
    int32_t *free_pages;
    int64_t n_pages; /* ever made */
    int64_t n_free;
    int64_t cap;   /* of the arrays */
    int64_t limit; /* 0: none */
    int64_t peak;
    int64_t n_changes; /* pages taken or dropped, ever */
} s2_cache_pool;
void s2_cache_pool_release(s2_cache_pool *pool);

/* Copies to be made on the device, in order. */
typedef struct s2_cache_moves_list {
    s2_cache_move *moves;
    int64_t n;
    int64_t cap;
} s2_cache_moves_list;

typedef struct s2_cache_entry {
    int32_t page;      /* logical */
    int32_t pool_page; /* page of the pool, or -1: a hole */
} s2_cache_entry;

typedef struct s2_cache_wait {
    int64_t last_query;
    int32_t page;
} s2_cache_wait;

typedef struct s2_cache_table {
    s2_cache_entry *entries;
    int64_t n_entries, cap_entries, n_held;
    s2_cache_wait *heap;
    int64_t n_heap, cap_heap;
    int32_t *ring; /* pages of the ring; it grows with the sequence */
    int64_t n_ring, cap_ring;
    int64_t open_page;  /* -1: none yet */
    int64_t open_query; /* the last query that needs it */
    int64_t far_tok;    /* keys below it have left the window */
    int64_t next_tok;   /* nothing happens before key next_tok is appended */
} s2_cache_table;

/* The arguments that advance a table. */
typedef struct s2_cache_step {
    s2_cache_pool *pool;
    s2_cache_moves_list *moves;
    s2_cache_rule *rule;
    int32_t page_tok;
    int64_t page_slots;
    int64_t ring_pages; /* of this table when full; 0: no ring */
    int64_t n_tok;      /* including the token that is being appended */
    int64_t n_queries;  /* of a step */
    int64_t query;      /* the first query of the step: n_tok - n_queries, at least 0 */
    int64_t moved_tok;  /* keys below it were there before the call: only they are moved */
} s2_cache_step;

/* Drop what neither the queries of the step nor later ones need, in all tables first; then admit what is
 * new. */
void s2_cache_table_expire(s2_cache_table *table, const s2_cache_step *step);
s2_status s2_cache_table_admit(s2_cache_table *table, const s2_cache_step *step) S2_MUST_CHECK;

/* Page of the pool that holds the key, or -1, and the key's index in it. */
int32_t s2_cache_table_find(const s2_cache_table *table, const s2_cache_step *step, int64_t k_tok,
                            int64_t *inside);

/* A copy that shares every page. On failure *out is empty. */
s2_status s2_cache_table_fork(const s2_cache_table *table, s2_cache_pool *pool,
                              s2_cache_table *out) S2_MUST_CHECK;
void s2_cache_table_release(s2_cache_table *table, s2_cache_pool *pool);

#endif /* S2_CACHE_TABLE_H */
