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

#include "base/arith.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

void *s2_malloc(size_t n_bytes); /* these four as in the C library, but 0 bytes are a piece too */
void *s2_calloc(size_t n, size_t size);
void *s2_realloc(void *old, size_t n_bytes);
void s2_free(void *p);

/*
 * How many allocations of this process were refused so far. A caller that makes many small ones compares it
 * before and after instead of checking each one.
 */
int64_t s2_alloc_n_refused(void);
/* Hands on what a library's own allocator got; NULL is counted as refused. */
void *s2_alloc_counted(void *p);

/* Asked before each allocation; returning false makes it fail. NULL restores "always". */
typedef bool (*s2_alloc_hook)(void *user, size_t n_bytes);
void s2_alloc_set_hook(s2_alloc_hook hook, void *user);

/*
 * Grow a heap array (NULL at first) that has room for `cap` elements to at least `want` >= 1, as in
 * S2_TRY(S2_RESERVE(list->runs, list->cap, list->n + 1)). Room at least doubles, so that pushing one by one is
 * linear. S2_ENOMEM when memory runs out or the size overflows; the array and its room are then untouched.
 */
#define S2_RESERVE(array, cap, want) s2_reserve(&(array), &(cap), want, sizeof *(array))
/* array: where the pointer to the elements is, each of `size` bytes. */
s2_status s2_reserve(void *array, int64_t *cap, int64_t want, size_t size) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_BASE_ALLOC_H */
