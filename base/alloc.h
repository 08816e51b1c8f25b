/*
 * base/alloc.h - every allocation of the project passes here, so that a test can fail the n-th.
 *
 * s2_malloc and friends behave like the C functions and are released with s2_free. Threads: the
 * hook is set before threads start; the functions themselves are as thread-safe as malloc.
 */
#ifndef S2_BASE_ALLOC_H
#define S2_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void *s2_malloc(size_t n_bytes);
void *s2_calloc(size_t n, size_t size);
void *s2_realloc(void *old, size_t n_bytes);
void s2_free(void *p);

/* Asked before each allocation; returning false makes it fail. NULL restores "always". */
typedef bool (*s2_alloc_hook)(void *user, size_t n_bytes);
void s2_alloc_set_hook(s2_alloc_hook hook, void *user);

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
#endif /* S2_BASE_ALLOC_H */
