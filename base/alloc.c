#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static s2_alloc_hook alloc_hook;
static void *alloc_hook_user;
static _Atomic int64_t n_refused;

void s2_alloc_set_hook(s2_alloc_hook hook, void *user)
{
    alloc_hook = hook;
    alloc_hook_user = user;
}

static bool may_allocate(size_t n_bytes)
{
    return alloc_hook == NULL || alloc_hook(alloc_hook_user, n_bytes);
}

void *s2_alloc_counted(void *p)
{
    if (p == NULL)
        atomic_fetch_add_explicit(&n_refused, 1, memory_order_relaxed);
    return p;
}

int64_t s2_alloc_n_refused(void)
{
    return atomic_load_explicit(&n_refused, memory_order_relaxed);
}

void *s2_malloc(size_t n_bytes)
{
    return s2_alloc_counted(may_allocate(n_bytes) ? malloc(n_bytes != 0 ? n_bytes : 1) : NULL);
}

void *s2_calloc(size_t n, size_t size)
{
    size_t n_bytes;
    const bool may = s2_mul_size(n, size, &n_bytes) && may_allocate(n_bytes);
    return s2_alloc_counted(may ? calloc(n != 0 ? n : 1, size != 0 ? size : 1) : NULL);
}

void *s2_realloc(void *old, size_t n_bytes)
{
    return s2_alloc_counted(may_allocate(n_bytes) ? realloc(old, n_bytes != 0 ? n_bytes : 1) : NULL);
}

void s2_free(void *p)
{
    free(p);
}

enum { FIRST_CAP = 8 };

s2_status s2_reserve(void *array, int64_t *cap, int64_t want, size_t size)
{
    void *old;
    size_t n_bytes;
    if (want <= *cap)
        return S2_OK;
    if (want > INT64_MAX / 2)
        return S2_ENOMEM;
    const int64_t wider = s2_max_i64(want, s2_max_i64(2 * *cap, FIRST_CAP));
    if (!s2_mul_size((size_t)wider, size, &n_bytes))
        return S2_ENOMEM;
    memcpy(&old, array, sizeof old);
    void *const grown = s2_realloc(old, n_bytes);
    if (grown == NULL)
        return S2_ENOMEM;
    memcpy(array, &grown, sizeof grown);
    *cap = wider;
    return S2_OK;
}
