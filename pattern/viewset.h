/*
 * pattern/viewset.h - the distinct views of many heads, found by their hash.
 *
 * Heads of one layer may all differ, and a pattern may have millions: comparing each with all that were found
 * before would take quadratic time.
 * Ownership: everything lives in the arena that s2_view_set_add() is given. Threads: one at a time.
 */
#ifndef S2_PATTERN_VIEWSET_H
#define S2_PATTERN_VIEWSET_H

#include "pattern/view.h"

/* Begins as all zero. */
typedef struct s2_view_set {
    s2_view *views; /* in the order in which they were added; moves when it grows */
    int32_t n;
    int64_t cap;
    int32_t *slots; /* open addressing by hash: index + 1, 0 where free */
    int64_t n_slots;
} s2_view_set;

/* *index: of the equal view in the set (s2_view_equal); of a view that was new, which is added, n before the call.
 * The view's atoms must outlive the set. Takes memory only for a view that is new. S2_ENOMEM. */
s2_status s2_view_set_add(s2_arena *arena, s2_view_set *set, const s2_view *view,
                          int32_t *index) S2_MUST_CHECK;

#endif /* S2_PATTERN_VIEWSET_H */
