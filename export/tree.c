#include "export/tree.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/arith.h"

void s2_text_position(const char *text, size_t n_bytes, size_t offset, int32_t *line, int32_t *col)
{
    const size_t end = s2_min_size(offset, n_bytes);
    int32_t at_line = 1;
    size_t line_begin = 0;
    for (size_t at = 0; at < end; at++)
        if (text[at] == '\n') {
            at_line++;
            line_begin = at + 1;
        }
    *line = at_line;
    *col = (int32_t)(end - line_begin < INT32_MAX ? end - line_begin + 1 : INT32_MAX);
}

/* ---- memory of jansson ---------------------------------------------------------------------- */

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

static void *tree_malloc(size_t n_bytes)
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

static void tree_free(void *memory)
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
    json_set_alloc_funcs(tree_malloc, tree_free);
}

/* jansson keeps its functions for the whole process, so they are set once for all threads. */
void s2_tree_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, set_functions);
    allocation_failed = false;
}

bool s2_tree_ran_out(void)
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

json_t *s2_tree_load(const char *text, size_t n_bytes, size_t flags, json_error_t *error)
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

/* ---- trees ---------------------------------------------------------------------------------- */

void s2_tree_release(s2_tree *tree)
{
    json_decref(tree->root);
    s2_free(tree->marks);
    *tree = (s2_tree){0};
}

json_t *s2_tree_scalar(const char *text)
{
    if (strcmp(text, "True") == 0 || strcmp(text, "true") == 0)
        return json_true();
    if (strcmp(text, "False") == 0 || strcmp(text, "false") == 0)
        return json_false();
    if (strcmp(text, "None") == 0 || strcmp(text, "null") == 0)
        return json_null();
    char *end = NULL;
    errno = 0;
    const long long whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0)
        return json_integer(whole);
    const double real = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(real))
        return json_real(real);
    json_t *const made = json_string(text);
    return made != NULL ? made : json_string("?");
}

static s2_status note_place(s2_tree *tree, const json_t *parent, int64_t ordinal, int32_t line, int32_t col)
{
    S2_TRY(S2_RESERVE(tree->marks, tree->cap, tree->n_marks + 1));
    tree->marks[tree->n_marks++] = (s2_mark){parent, ordinal, line, col};
    return S2_OK;
}

s2_status s2_tree_put(s2_tree *tree, json_t *parent, const char *key, json_t *value, int32_t line,
                      int32_t col)
{
    if (value == NULL)
        return S2_ENOMEM;
    const bool object = json_is_object(parent);
    const size_t ordinal = object ? json_object_size(parent) : json_array_size(parent);
    if (object && json_object_get(parent, key) != NULL) {
        json_decref(value);
        return S2_EINVAL;
    }
    if ((object ? json_object_set_new(parent, key, value) : json_array_append_new(parent, value)) != 0)
        return S2_ENOMEM;
    return note_place(tree, parent, (int64_t)ordinal, line, col);
}

static int64_t ordinal_of(json_t *parent, const char *name)
{
    if (json_is_array(parent))
        return strtoll(name, NULL, 10);
    int64_t ordinal = 0;
    for (void *member = json_object_iter(parent); member != NULL;
         member = json_object_iter_next(parent, member), ordinal++)
        if (strcmp(json_object_iter_key(member), name) == 0)
            return ordinal;
    return -1;
}

const s2_mark *s2_tree_find(const s2_tree *tree, json_t *parent, const char *name)
{
    const int64_t ordinal = ordinal_of(parent, name);
    for (int64_t m = 0; m < tree->n_marks; m++)
        if (tree->marks[m].parent == parent && tree->marks[m].ordinal == ordinal)
            return &tree->marks[m];
    return NULL;
}
