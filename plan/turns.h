/*
 * plan/turns.h - when columns finish if each is taken, in order, by the first unit that claims it.
 *
 * A part of a cut column is added to the sum of the part before it, so it waits for that one to finish.
 * Ownership: the arrays are the caller's. Threads: no state.
 */
#ifndef S2_PLAN_TURNS_H
#define S2_PLAN_TURNS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A unit, in a heap of when they claim. */
typedef struct s2_unit {
    double claims; /* the next column */
    double idle;   /* and can begin it; not earlier */
} s2_unit;

typedef struct s2_turns {
    s2_unit *units; /* [n_units], all 0 at first */
    double *added;  /* [n_chains] when its last part was added; 0 at first. NULL: no part waits */
    int32_t n_units;
    double sum;   /* time to add a part */
    bool holds;   /* a unit claims its next column before it waits for a part: */
    double ahead; /* ... so long before the steps of its own column end */
    double last;  /* when all columns taken so far are done */
} s2_turns;

/* units[0], the first to claim, has another time: it sinks until units[0] is the first again. */
static inline void s2_turns_sink(s2_unit *units, int32_t n)
{
    const s2_unit own = units[0];
    int32_t hole = 0;
    for (int32_t child = 1; child < n; child = 2 * hole + 1) {
        child += child + 1 < n && units[child + 1].claims < units[child].claims;
        if (units[child].claims >= own.claims)
            break;
        units[hole] = units[child];
        hole = child;
    }
    units[hole] = own;
}

/* Take the next column: `own` time plus its sum; chain -1: not a part of one. Returns its whole time. */
static inline double s2_turns_take(s2_turns *turns, double own, int32_t chain)
{
    s2_unit *const unit = &turns->units[0];
    const double whole = own + (chain >= 0 ? turns->sum : 0), begin = unit->idle;
    unit->idle += whole;
    if (chain >= 0 && turns->added != NULL) {
        unit->idle = fmax(unit->idle, turns->added[chain] + turns->sum);
        turns->added[chain] = unit->idle;
    }
    turns->last = fmax(turns->last, unit->idle);
    unit->claims = turns->holds ? begin + fmax(0, own - turns->ahead) : unit->idle;
    s2_turns_sink(turns->units, turns->n_units);
    return whole;
}

#endif /* S2_PLAN_TURNS_H */
