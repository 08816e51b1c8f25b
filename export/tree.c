#include "export/tree.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/arith.h"

void s2_tree_release(s2_tree *tree)
{
    json_decref(tree->root);
    s2_free(tree->marks);
    *tree = (s2_tree){0};
}

/* 010 is 8 in YAML, 10 on a command line and a text in HJSON; 0x10 is a number in some of them. */
static bool is_decimal(const char *text)
{
    const char *const digits = text + (text[0] == '-' || text[0] == '+');
    return digits[0] != '0' || (!isdigit((unsigned char)digits[1]) && strchr("xX", digits[1]) == NULL) ||
           digits[1] == '\0';
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
    if (end != text && *end == '\0' && errno == 0 && is_decimal(text))
        return json_integer(whole);
    const double real = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(real) && is_decimal(text))
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
