/*
 * base/work.h - a work limit: the steps left, shared by everything that spends from them.
 *
 * One line of input can request hours of work. Such work counts its elementary steps, some nanoseconds each,
 * and ends with S2_ELIMIT when none are left. Steps rather than seconds, so that the same input ends alike on
 * every machine.
 */
#ifndef S2_BASE_WORK_H
#define S2_BASE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What may be spent on one answer, some seconds: how many steps, and the words that messages have for them. */
#define S2_WORK_POWER       29
#define S2_WORK_STEPS       (INT64_C(1) << S2_WORK_POWER)
#define S2_WORK_WORDS       S2_WORK_SPELL(S2_WORK_POWER)
#define S2_WORK_SPELL(n)    S2_WORK_SPELL_OF(n)
#define S2_WORK_SPELL_OF(n) "2^" #n " steps"

/* False when nothing is left. left NULL: no limit. */
static inline bool s2_work_goes_on(const int64_t *left)
{
    return left == NULL || *left >= 0;
}

/* Spend n steps; false when fewer were left. */
static inline bool s2_work_spend(int64_t *left, int64_t n)
{
    if (left != NULL && *left >= 0)
        *left = *left >= n ? *left - n : -1;
    return s2_work_goes_on(left);
}

#endif /* S2_BASE_WORK_H */
