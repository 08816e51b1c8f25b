/*
 * coverage/bits.h - the questions of coverage/columns.h, answered for one length by bitsets over rows.
 *
 * For heads with mask files or random lists, which have no columns to repeat. Rows of keys are words
 * of 64 bits; a row is built by s2_view_row_whole() or, for a plain mask term, straight from the file.
 * Memory is a few rows per head, never the whole matrix (except depth).
 *
 * search->n_tok must be a length, not S2_OPEN. Violations are the smallest by (context, query, key).
 *
 * Threads: no state; scratch comes from search->scratch.
 */
#ifndef S2_COVERAGE_BITS_H
#define S2_COVERAGE_BITS_H

#include "coverage/columns.h"

/* Each matches the function of coverage/columns.h whose name ends alike. S2_ENOMEM. */
s2_status s2_bits_hole(s2_column_search *search, const s2_view *views, int32_t n,
                       s2_violation *out) S2_MUST_CHECK;
s2_status s2_bits_revival(s2_column_search *search, const s2_view *dropped, const s2_view *again,
                          s2_violation *out) S2_MUST_CHECK;
s2_status s2_bits_difference(s2_column_search *search, const s2_view *a, const s2_view *b,
                             s2_violation *out) S2_MUST_CHECK;
s2_status s2_bits_empty_row(s2_column_search *search, const s2_view *view, s2_violation *out) S2_MUST_CHECK;
/* views in order of query heads, `group` of them per KV head. */
s2_status s2_bits_shards(s2_column_search *search, const s2_view *views, int32_t n, int32_t group,
                         s2_violation *out) S2_MUST_CHECK;

/*
 * Pairs (q, k), k != q, that do not reach each other through n_layers layers in order; views[layer *
 * n_heads + head]. Information flows from keys to queries, and a query keeps what it has.
 */
s2_status s2_bits_unreached(s2_column_search *search, const s2_view *views, int32_t n_layers, int32_t n_heads,
                            s2_violation *out) S2_MUST_CHECK;

#endif /* S2_COVERAGE_BITS_H */
