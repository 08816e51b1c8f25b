/*
 * coverage/extent.h - how far a finding reaches: which heads it concerns, and how many pairs they miss.
 *
 * Ownership: views live in the caller's arena. Threads: no state.
 */
#ifndef S2_COVERAGE_EXTENT_H
#define S2_COVERAGE_EXTENT_H

#include "coverage/prove.h"
#include "pattern/view.h"

/*
 * The views of all heads of a layer, sorted into kinds: (*kind_of)[head] is the first head that reads the same
 * keys. Both arrays have n_heads elements. S2_ENOMEM.
 */
s2_status s2_heads_sort(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        s2_view **views, int32_t **kind_of) S2_MUST_CHECK;

/* The query heads that a finding's witness concerns: one, a rank's, or all. */
s2_range s2_witness_heads(const s2_pattern *pattern, const s2_finding *finding);

typedef struct s2_unread {
    int64_t n_tok;    /* a telling length; 0 where its pairs cannot be counted in a second or two */
    int64_t n_pairs;  /* at that length */
    int64_t n_unread; /* by every head of the witness */
} s2_unread;

/* Pairs of the witness's layer that no head reads, where union or ranks is violated. S2_ENOMEM. */
s2_status s2_unread_count(const s2_pattern *pattern, const s2_finding *finding, s2_unread *out) S2_MUST_CHECK;

#endif /* S2_COVERAGE_EXTENT_H */
