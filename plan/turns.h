/*
 * plan/turns.h - when columns finish if each is taken, in order, by the first idle unit.
 *
 * A part of a cut column is added to the sum of the part before it, so it waits for that one to finish.
 * Ownership: the arrays are the caller's. Threads: no state.
 */
#ifndef S2_PLAN_TURNS_H
#define S2_PLAN_TURNS_H

#include <math.h>
#include <stddef.h>

#include "base/heap.h"

typedef struct s2_turns {
    double *until; /* [n_units] when each becomes idle, a heap; 0 at first */
    double *added; /* [n_chains] when its last part was added; 0 at first. NULL: no part waits */
    int32_t n_units;
    double sum;  /* time to add a part */
    double last; /* when all columns taken so far are done */
} s2_turns;

/* Take the next column: `own` time plus its sum; chain -1: not a part of one. Returns its whole time. */
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

#endif /* S2_PLAN_TURNS_H */
