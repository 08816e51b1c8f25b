#include "base/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"

/* Its hooks take no context, hence a state per thread, meaningful only between watching and asking. */
static _Thread_local bool allocation_failed;

/*
 * While jansson reads a text it does not look whether the buffer of its scanner could grow: it loses bytes, and
 * then reads behind their end or aborts. So a failed allocation leaves it at once, and what it had is released
 * here. What it gives back meanwhile is kept until it has ended, to know what it had without searching.
 */
static _Thread_local struct {
    jmp_buf *leave; /* NULL: it reads nothing */
    void **taken, **given;
    int64_t n_taken, taken_cap, n_given, given_cap;
} loading;

static void *guarded_malloc(size_t n_bytes)
{
    const bool has_room =
        loading.leave == NULL || S2_RESERVE(loading.taken, loading.taken_cap, loading.n_taken + 1) == S2_OK;
    void *const memory = has_room ? s2_malloc(n_bytes) : NULL;
    allocation_failed |= memory == NULL;
    if (loading.leave == NULL)
        return memory;
    if (memory == NULL)
        longjmp(*loading.leave, 1);
    return loading.taken[loading.n_taken++] = memory;
}

static void guarded_free(void *memory)
{
    if (memory == NULL)
        return;
    if (loading.leave == NULL) {
        s2_free(memory);
        return;
    }
    if (S2_RESERVE(loading.given, loading.given_cap, loading.n_given + 1) != S2_OK) {
        allocation_failed = true;
        longjmp(*loading.leave, 1);
    }
    loading.given[loading.n_given++] = memory;
}

static void set_functions(void)
{
    json_set_alloc_funcs(guarded_malloc, guarded_free);
}

/* jansson keeps its functions for the whole process, so they are set once for all threads. */
void s2_json_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_functions);
    allocation_failed = false;
}

bool s2_json_ran_out(void)
{
    return allocation_failed;
}

static void end_loading(void **pieces, int64_t n)
{
    loading.leave = NULL;
    for (int64_t at = 0; at < n; at++)
        s2_free(pieces[at]);
    s2_free(loading.taken);
    s2_free(loading.given);
    memset(&loading, 0, sizeof loading);
}

json_t *s2_json_load(const char *text, size_t n_bytes, size_t flags, json_error_t *error)
{
    jmp_buf leave;
    loading.leave = &leave;
    if (setjmp(leave) != 0) {
        end_loading(loading.taken, loading.n_taken);
        return NULL;
    }
    json_t *const root = json_loadb(text, n_bytes, flags, error);
    end_loading(loading.given, loading.n_given);
    return root;
}
