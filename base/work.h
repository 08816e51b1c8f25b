/*
 * base/work.h - a limit of work: the steps that are left to all who share them.
 *
 * What can be asked for in a line of text may take hours. Such work counts its steps, elementary ones of some
 * nanoseconds, and ends with S2_ELIMIT when none are left. Steps, not seconds: the same input ends alike on
 * every machine.
 */
#ifndef S2_BASE_WORK_H
#define S2_BASE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* False when nothing is left. left NULL: without limit. */
static inline bool s2_work_goes_on(const int64_t *left)
{
    return left == NULL || *left >= 0;
}

/* Take n steps; false when they were more than were left. */
static inline bool s2_work_spend(int64_t *left, int64_t n)
{
    if (left != NULL && *left >= 0)
        *left = *left >= n ? *left - n : -1;
    return s2_work_goes_on(left);
}

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_WORK_H */
