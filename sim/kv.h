/*
 * sim/kv.h - what the KV cache holds after n_tok tokens, in three layouts.
 *
 * The resident set of a KV head is the union over its query heads of the keys that query n_tok - 1 or
 * a later one may read (sim/reads.h). Layouts:
 *   head pages     a page table per KV head; a page stays while the head needs one of its keys;
 *   shared pages   one page holds all KV heads of a layer (as vLLM's); it stays while any head needs it;
 *   ring+stripes   the local window in a ring of whole pages, the rest in pages of its own.
 * A layer that shares the keys of another keeps none; the other keeps what any of them may read. Counts are
 * elements of K, summed over layers and KV heads, each in its own head dimension; V has as many.
 *
 * Dynamic terms: pages and topk may choose any key later, so nothing is dropped, and their metadata
 * is counted apart; heavy keeps its budget.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_KV_H
#define S2_SIM_KV_H

#include "sim/classes.h"

typedef struct s2_kv_elems {
    int64_t dense; /* whole pages of n_tok in every KV head of every layer that keeps keys */
    int64_t used;  /* exact resident sets */
    int64_t head_pages;
    int64_t shared_pages;
    int64_t ring_stripes;
    int64_t meta;        /* elements of page summaries (minimum and maximum of K) */
    int64_t state_bytes; /* of layers that keep a state, at any length */
    int64_t index_bytes; /* index keys of topk: 132 bytes a token and layer (128 of fp8, one scale) */
} s2_kv_elems;

/* After n_tok >= 1 tokens, with pages of page_tok tokens. S2_ENOMEM; S2_ELIMIT (classes->work_left). */
s2_status s2_kv_count(const s2_classes *classes, int64_t n_tok, int32_t page_tok,
                      s2_kv_elems *out) S2_MUST_CHECK;

/* Elements of head pages alone, counting only pages that begin at first_tok or later. */
s2_status s2_kv_head_pages(const s2_classes *classes, int64_t first_tok, int64_t n_tok, int32_t page_tok,
                           int64_t *out) S2_MUST_CHECK;

/* Elements of head pages at lengths up to n_tok: the mean over up to 64 block ends. */
s2_status s2_kv_mean(const s2_classes *classes, int64_t n_tok, int32_t page_tok, double *out) S2_MUST_CHECK;

/* Bytes in the three layouts, metadata and states included. */
typedef struct s2_kv_bytes {
    int64_t dense;
    int64_t used;
    int64_t head_pages;
    int64_t shared_pages;
    int64_t ring_stripes;
} s2_kv_bytes;
/* S2_ELIMIT: one of them exceeds 2^63. */
s2_status s2_kv_elems_bytes(const s2_kv_elems *elems, double elem_bytes, int64_t batch,
                            s2_kv_bytes *out) S2_MUST_CHECK;

#endif /* S2_SIM_KV_H */
