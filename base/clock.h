/*
 * base/clock.h - what time it is, and how much of it has passed.
 *
 * Threads: no state.
 */
#ifndef S2_BASE_CLOCK_H
#define S2_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Unix time in microseconds, which a person may set back. */
static inline int64_t s2_unix_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Nanoseconds since some moment; they never run back. */
static inline int64_t s2_steady_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t s2_steady_ms(void)
{
    return s2_steady_ns() / 1000000;
}
static inline double s2_steady_s(void)
{
    return (double)s2_steady_ns() * 1e-9;
}

#endif /* S2_BASE_CLOCK_H */
