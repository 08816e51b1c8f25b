/*
 * base/arith.h - arithmetic that is needed everywhere: the smaller and the larger of two numbers, division that
 * rounds up, divisors, the order of numbers, and products and sums that must not wrap.
 *
 * Threads: no state.
 */
#ifndef S2_BASE_ARITH_H
#define S2_BASE_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline int64_t s2_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t s2_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int32_t s2_min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}
static inline int32_t s2_max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}
static inline size_t s2_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}
static inline size_t s2_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}
static inline float s2_min_f32(float a, float b)
{
    return a < b ? a : b;
}
static inline float s2_max_f32(float a, float b)
{
    return a > b ? a : b;
}
static inline double s2_min_f64(double a, double b)
{
    return a < b ? a : b;
}
static inline double s2_max_f64(double a, double b)
{
    return a > b ? a : b;
}

/* x, or the end of [low, high] that is nearest to it; low <= high. */
static inline int64_t s2_clamp_i64(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}
static inline int32_t s2_clamp_i32(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}
static inline double s2_clamp_f64(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* For qsort: numbers of type double, the smallest first. */
static inline int s2_compare_f64(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static inline bool s2_is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* n / size, rounded up; n >= 0, size >= 1. Cannot overflow. */
static inline int64_t s2_ceil_div(int64_t n, int64_t size)
{
    return n / size + (n % size != 0);
}

/* The smallest multiple of size that is at least n; n >= 0, size >= 1. The caller bounds the result. */
static inline int64_t s2_round_up(int64_t n, int64_t size)
{
    return s2_ceil_div(n, size) * size;
}

/* Greatest common divisor of two numbers >= 0; gcd(0, b) = b. */
static inline int64_t s2_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Products and sums that must not wrap; false on overflow and *out untouched. */
static inline bool s2_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool s2_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool s2_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_ARITH_H */
