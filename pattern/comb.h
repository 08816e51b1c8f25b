/*
 * pattern/comb.h - a comb: the elements of an interval whose group lies in given residue classes.
 *
 *     { x : begin <= x < end,  (floor(x / gran) + shift) mod period < width }
 *
 * With width == period the comb is the whole interval. Every static term, seen from one key or from
 * one query, is a union of combs; the prover, block lists, pair counts and the simulator are all
 * built on the four operations below, each O(1).
 *
 * Invariants: gran >= 1, 1 <= width <= period, 0 <= shift < period, 0 <= begin; end may be S2_OPEN.
 */
#ifndef S2_PATTERN_COMB_H
#define S2_PATTERN_COMB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arith.h"
#include "pattern/spec.h"

typedef struct s2_comb {
    int64_t begin;
    int64_t end;
    int64_t gran;
    int64_t period;
    int64_t width;
    int64_t shift;
} s2_comb;

static inline int64_t s2_mod(int64_t a, int64_t b)
{
    const int64_t r = a % b;
    return r < 0 ? r + b : r;
}

static inline bool s2_comb_is_interval(const s2_comb *comb)
{
    return comb->width == comb->period;
}

static inline bool s2_comb_has(const s2_comb *comb, int64_t x)
{
    return x >= comb->begin && x < comb->end &&
           (s2_comb_is_interval(comb) || (x / comb->gran + comb->shift) % comb->period < comb->width);
}

/* Smallest element >= x, or S2_OPEN when there is none. */
static inline int64_t s2_comb_next(const s2_comb *comb, int64_t x)
{
    int64_t next = s2_max_i64(x, comb->begin);
    if (!s2_comb_is_interval(comb) && next < comb->end) {
        const int64_t residue = (next / comb->gran + comb->shift) % comb->period;
        if (residue >= comb->width)
            next = (next / comb->gran + comb->period - residue) * comb->gran;
    }
    return next < comb->end ? next : S2_OPEN;
}

/* For an element x: the first non-element above it (S2_OPEN: the run never ends). */
static inline int64_t s2_comb_run_end(const s2_comb *comb, int64_t x)
{
    if (s2_comb_is_interval(comb))
        return comb->end;
    const int64_t residue = (x / comb->gran + comb->shift) % comb->period;
    const int64_t run_end = (x / comb->gran + comb->width - residue) * comb->gran;
    return s2_min_i64(run_end, comb->end);
}

/* Number of elements below x (x may be S2_OPEN only for a bounded comb). */
static inline int64_t s2_comb_count_below(const s2_comb *comb, int64_t x)
{
    const int64_t end = s2_min_i64(x, comb->end);
    if (end <= comb->begin)
        return 0;
    if (s2_comb_is_interval(comb))
        return end - comb->begin;
    int64_t total[2];
    const int64_t edge[2] = {comb->begin, end};
    for (int side = 0; side < 2; side++) {
        /* elements in [0, edge): shift the origin so that runs start at multiples of the period */
        const int64_t shifted = edge[side] + comb->shift * comb->gran;
        const int64_t cycle = comb->period * comb->gran, run = comb->width * comb->gran;
        const int64_t rest = shifted % cycle;
        total[side] = shifted / cycle * run + s2_min_i64(rest, run);
    }
    return total[1] - total[0];
}

/* Smallest element >= x of a union of combs, or S2_OPEN. */
static inline int64_t s2_combs_next(const s2_comb *combs, int32_t n, int64_t x)
{
    int64_t best = S2_OPEN;
    for (int32_t c = 0; c < n; c++) {
        const int64_t next = s2_comb_next(&combs[c], x);
        best = s2_min_i64(next, best);
    }
    return best;
}

/*
 * The first position >= x outside the union: x itself when no comb has it, S2_OPEN when the run
 * never ends. Runs of several combs may chain without end although none of them is endless, so the
 * walk stops at `give_up` and returns it.
 */
static inline int64_t s2_combs_end(const s2_comb *combs, int32_t n, int64_t x, int64_t give_up)
{
    for (bool grew = true; grew && x < give_up;) {
        grew = false;
        for (int32_t c = 0; c < n && x < give_up; c++) {
            if (s2_comb_has(&combs[c], x)) {
                x = s2_comb_run_end(&combs[c], x);
                grew = true;
            }
        }
    }
    return x < give_up || x == S2_OPEN ? x : give_up;
}

#endif /* S2_PATTERN_COMB_H */
