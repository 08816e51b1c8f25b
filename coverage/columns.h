/*
 * coverage/columns.h - the deciding steps of the proof, on columns (keys) of merged views.
 *
 * A set of heads is one s2_view whose atoms are the union of theirs. Each function visits one key per
 * class of columns (docs/proof.md) and returns the smallest violation in the order (context, query,
 * key), where the context of a pair is max(q, k) + 1. Views with explicit atoms are not accepted.
 *
 * Threads: no state; scratch comes from the caller's arena and is released.
 */
#ifndef S2_COVERAGE_COLUMNS_H
#define S2_COVERAGE_COLUMNS_H

#include "pattern/view.h"

typedef struct s2_violation {
    bool found;
    bool limited; /* the work limit was hit before the answer was sure; found may still be set */
    int64_t q_tok;
    int64_t k_tok; /* -1 for an empty row */
    int64_t other; /* kv: an earlier query that did not read; shards: number of readers; rows by bitset: the
                      first query with no key up to itself */
} s2_violation;

typedef struct s2_column_search {
    s2_arena *scratch;
    int64_t n_tok;          /* contexts up to this many tokens, S2_OPEN for all */
    int64_t work_left;      /* decremented; <= 0 stops the search as limited */
    int64_t part_work_left; /* the same for s2_columns_hole's attempts on parts, after the whole ran out */
} s2_column_search;

/* Merge the atoms of n >= 1 views, without duplicates, into one view of the same pattern. */
s2_status s2_columns_merge(s2_arena *arena, const s2_view *views, int32_t n, s2_view *out) S2_MUST_CHECK;

/* True when both views have the same atoms in the same order, and so read the same keys. */
bool s2_columns_same_atoms(const s2_view *a, const s2_view *b);

/* A pair that no atom reads. */
s2_status s2_columns_hole(s2_column_search *search, const s2_view *view, s2_violation *out) S2_MUST_CHECK;

/*
 * A key left unread in `dropped` by query `other` and read in `again` by a later query. Pass one
 * view twice for a static head; prefill and decode, or the two bounds of a dynamic head, differ.
 */
s2_status s2_columns_revival(s2_column_search *search, const s2_view *dropped, const s2_view *again,
                             s2_violation *out) S2_MUST_CHECK;

/* A pair that one view reads and the other does not. */
s2_status s2_columns_difference(s2_column_search *search, const s2_view *a, const s2_view *b,
                                s2_violation *out) S2_MUST_CHECK;

/* A pair beyond the window shared by all n views that is not read by exactly one of them (causal). */
s2_status s2_columns_shards(s2_column_search *search, const s2_view *views, int32_t n,
                            s2_violation *out) S2_MUST_CHECK;

/* An empty row of one head. */
s2_status s2_columns_empty_row(s2_column_search *search, const s2_view *view,
                               s2_violation *out) S2_MUST_CHECK;

/* Whether a single atom gives every row a key, or makes every column a prefix: the common, cheap cases. */
bool s2_columns_fill_rows(const s2_view *view);
bool s2_columns_are_prefixes(const s2_view *view);

/* The smallest context that decides every context for these views together; S2_OPEN if huge. */
int64_t s2_columns_sufficient_tok(const s2_view *views, int32_t n);

/* Keep the smaller of two violations in the order (context, query, key). */
void s2_violation_keep(s2_violation *best, int64_t q_tok, int64_t k_tok, int64_t other);

#endif /* S2_COVERAGE_COLUMNS_H */
