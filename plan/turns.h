/*
 * plan/turns.h - when columns are done that are taken in their order, each by the first unit that is idle.
 *
 * A part of a cut column is added to the sum of the part before it, so it waits until that one is done.
 * Ownership: the arrays are the caller's. Threads: no state.
 */
#ifndef S2_PLAN_TURNS_H
#define S2_PLAN_TURNS_H

#include <math.h>
#include <stddef.h>

#include "base/heap.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_turns {
    double *until; /* [n_units] when each is idle, a heap; 0 at first */
    double *added; /* [n_chains] when its last part was; 0 at first. NULL: no part waits */
    int32_t n_units;
    double sum;  /* what adding a part takes */
    double last; /* when all that were taken are done */
} s2_turns;

/* The next column, which takes `own` beside its sum; chain -1: no part of any. What it takes in all. */
static inline double s2_turns_take(s2_turns *turns, double own, int32_t chain)
{
    double *const until = turns->until;
    const double whole = own + (chain >= 0 ? turns->sum : 0);
    until[0] += whole;
    if (chain >= 0 && turns->added != NULL) {
        until[0] = fmax(until[0], turns->added[chain] + turns->sum);
        turns->added[chain] = until[0];
    }
    turns->last = fmax(turns->last, until[0]);
    s2_heap_sink(until, turns->n_units);
    return whole;
}

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_TURNS_H */
