/*
 * search/front.h - the points that no other point beats: a Pareto front.
 *
 * A point beats another when it is nowhere worse and somewhere better; of points with equal values the
 * one with the lowest index stays. So the result does not depend on the order of adding, and threads,
 * shards and resumed runs end at the same front.
 *
 * Invariant: points ascend by their values, compared one after another, then by index.
 * Ownership: s2_front_release frees the points. Threads: readers only, or one writer.
 */
#ifndef S2_SEARCH_FRONT_H
#define S2_SEARCH_FRONT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { S2_MAX_OBJECTIVES = 6 };

typedef struct s2_point {
    int64_t index;
    double value[S2_MAX_OBJECTIVES]; /* smaller is better */
} s2_point;

/* Zero-initialise, then set n_values. */
typedef struct s2_front {
    int32_t n_values;
    int32_t n;
    int64_t cap;
    s2_point *points;
} s2_front;

/* Add points in any order and drop what is beaten. On S2_ENOMEM the front is as it was. */
s2_status s2_front_add(s2_front *front, const s2_point *points, int32_t n) S2_MUST_CHECK;

/* True when a candidate whose values are at least these cannot change the front. */
bool s2_front_beats(const s2_front *front, const s2_point *at_least);

/*
 * Orders all points by the geometric mean, over the objectives, of value / smallest value on the front: the
 * smallest mean first, and the earlier of equal points. order has room for front->n. S2_ENOMEM.
 */
s2_status s2_front_order(const s2_front *front, int32_t *order) S2_MUST_CHECK;

/*
 * Kendall's tau-b of n pairs: 1 where y orders them as x does, -1 where it reverses them, 0 where the orders
 * are unrelated; NAN for fewer than two pairs or where x or y is constant.
 */
double s2_kendall_tau(const double *x, const double *y, int32_t n);

/* Frees the points; the front is empty then. */
void s2_front_release(s2_front *front);

#endif /* S2_SEARCH_FRONT_H */
