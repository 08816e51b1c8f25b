/*
 * tests/s2time.h - clocks, and the order of what they measured.
 */
#ifndef S2_TESTS_S2TIME_H
#define S2_TESTS_S2TIME_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of a clock that never goes back. */
static inline double s2_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Seconds of processor time that this process has taken. */
static inline double s2_processor_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* For qsort(), the smallest first: of doubles, and of int64_t. */
static inline int s2_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static inline int s2_by_count(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

#endif /* S2_TESTS_S2TIME_H */
