#include "export/doc.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <sha2.h>

#include "base/arith.h"
#include "export/files.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "export/asked.h"
#include "export/tree.h"

/* One step of a slash path; false at its end. */
static bool path_step(const char **path, char *name, size_t cap)
{
    if (**path != '/')
        return false;
    const char *const begin = *path + 1;
    const size_t n = strcspn(begin, "/");
    snprintf(name, cap, "%.*s", (int)n, begin);
    *path = begin + n;
    return true;
}

static json_t *doc_at(const s2_doc *doc, const char *path)
{
    const char *const whole = path;
    json_t *node = doc->root;
    char name[256];
    while (node != NULL && path_step(&path, name, sizeof name)) {
        if (json_is_array(node))
            node = isdigit((unsigned char)name[0]) ? json_array_get(node, (size_t)strtoull(name, NULL, 10))
                                                   : NULL;
        else
            node = json_object_get(node, name);
    }
    s2_asked_note(doc->asked, whole, node != NULL);
    return node;
}

static size_t skip_blank(const char *text, size_t n, size_t pos)
{
    while (pos < n && (isspace((unsigned char)text[pos]) || text[pos] == ',' || text[pos] == ':'))
        pos++;
    return pos;
}

static size_t skip_string(const char *text, size_t n, size_t pos)
{
    for (pos++; pos < n && text[pos] != '"'; pos++)
        if (text[pos] == '\\')
            pos++;
    return pos < n ? pos + 1 : n;
}

/* The text has passed jansson, so brackets balance and strings end. */
static size_t skip_value(const char *text, size_t n, size_t pos)
{
    int64_t depth = 0;
    pos = skip_blank(text, n, pos);
    do {
        if (pos >= n)
            return n;
        if (text[pos] == '"') {
            pos = skip_string(text, n, pos);
        } else if (text[pos] == '{' || text[pos] == '[') {
            depth++;
            pos++;
        } else if (text[pos] == '}' || text[pos] == ']') {
            depth--;
            pos++;
        } else {
            while (pos < n && strchr(",:]}\"", text[pos]) == NULL && !isspace((unsigned char)text[pos]))
                pos++;
        }
        if (depth > 0)
            pos = skip_blank(text, n, pos);
    } while (depth > 0);
    return pos;
}

static bool key_is(const char *text, size_t begin, size_t end, const char *name)
{
    const size_t n = strlen(name);
    return end - begin == n + 2 && memcmp(text + begin + 1, name, n) == 0;
}

/* Offset of a member or element of the container at `pos`; `pos` itself when it is not found. */
static size_t step_offset(const char *text, size_t n, size_t pos, const char *name)
{
    size_t cursor = pos + 1;
    const bool is_object = text[pos] == '{';
    if (!is_object && !isdigit((unsigned char)name[0]))
        return pos;
    int64_t left = is_object ? 0 : strtoll(name, NULL, 10);
    for (;;) {
        cursor = skip_blank(text, n, cursor);
        if (cursor >= n || text[cursor] == '}' || text[cursor] == ']')
            return pos;
        if (is_object) {
            const size_t key = cursor;
            cursor = skip_string(text, n, cursor);
            const bool found = key_is(text, key, cursor, name);
            cursor = skip_blank(text, n, cursor);
            if (found)
                return cursor;
        } else if (left-- == 0) {
            return cursor;
        }
        cursor = skip_value(text, n, cursor);
    }
}

static size_t json_offset(const s2_doc *doc, const char *path)
{
    char name[256];
    size_t pos = skip_blank(doc->text, doc->n_bytes, 0);
    while (pos < doc->n_bytes && (doc->text[pos] == '{' || doc->text[pos] == '[') &&
           path_step(&path, name, sizeof name)) {
        const size_t next = step_offset(doc->text, doc->n_bytes, pos, name);
        if (next == pos)
            break;
        pos = next;
    }
    return pos;
}

/* In settings text a key is found by its letters; dashes and underscores are equal. */
static size_t settings_offset(const s2_doc *doc, const char *path)
{
    char name[256];
    if (!path_step(&path, name, sizeof name))
        return 0;
    const size_t n = strlen(name);
    for (size_t pos = 0; pos + n <= doc->n_bytes; pos++) {
        size_t same = 0;
        while (same < n && (doc->text[pos + same] == '-' ? '_' : doc->text[pos + same]) == name[same])
            same++;
        if (same == n && (pos == 0 || !isalnum((unsigned char)doc->text[pos - 1])))
            return pos;
    }
    return 0;
}

/* The position of the deepest value on the path that is there. */
static void tree_position(const s2_doc *doc, const char *path, int32_t *line, int32_t *col)
{
    const s2_tree tree = {.marks = doc->marks, .n_marks = doc->n_marks};
    json_t *node = doc->root;
    char name[256];
    while (node != NULL && path_step(&path, name, sizeof name)) {
        const s2_mark *const mark = s2_tree_find(&tree, node, name);
        if (mark == NULL)
            break;
        *line = mark->line;
        *col = mark->col;
        node =
            json_is_array(node) ? json_array_get(node, (size_t)mark->ordinal) : json_object_get(node, name);
    }
}

s2_status s2_doc_refuse(const s2_doc *doc, const char *path, s2_diag *diag, const char *fmt, ...)
{
    char msg[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    int32_t line = 1, col = 1;
    if (doc->kind == S2_DOC_HJSON || doc->kind == S2_DOC_YAML) {
        tree_position(doc, path, &line, &col);
    } else {
        const size_t offset = doc->kind == S2_DOC_JSON ? json_offset(doc, path) : settings_offset(doc, path);
        s2_text_position(doc->text, doc->n_bytes, offset, &line, &col);
    }
    return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "%s", msg);
}

/* ---- settings text ------------------------------------------------------------------------- */

typedef struct lexer {
    const char *text;
    size_t n;
    size_t pos;
} lexer;

typedef struct word {
    char text[256];
    size_t begin;
    bool is_key;
} word;

static bool is_separator(char c)
{
    return isspace((unsigned char)c) || strchr(",(){}[];\\'\"", c) != NULL;
}

static bool is_key_text(const char *text, size_t n)
{
    for (size_t at = 0; at < n; at++)
        if (!isalnum((unsigned char)text[at]) && text[at] != '_' && text[at] != '-' && text[at] != '.')
            return false;
    return n != 0 && !isdigit((unsigned char)text[0]) && text[0] != '.';
}

static void key_normalise(char *key)
{
    const size_t skip = strspn(key, "-");
    memmove(key, key + skip, strlen(key + skip) + 1);
    for (char *c = key; *c != '\0'; c++)
        if (*c == '-')
            *c = '_';
}

/* The bracket of ${name}. */
static bool opens_variable(const lexer *lex, size_t begin)
{
    return lex->text[lex->pos] == '{' && lex->pos == begin + 1 && lex->text[begin] == '$';
}

static bool lexer_next(lexer *lex, word *out)
{
    while (lex->pos < lex->n && (is_separator(lex->text[lex->pos]) || lex->text[lex->pos] == '#')) {
        if (lex->text[lex->pos] == '#')
            while (lex->pos < lex->n && lex->text[lex->pos] != '\n')
                lex->pos++;
        else
            lex->pos++;
    }
    const size_t begin = lex->pos;
    while (lex->pos < lex->n && lex->text[lex->pos] != '=' && lex->text[lex->pos] != ':' &&
           (!is_separator(lex->text[lex->pos]) || opens_variable(lex, begin)))
        lex->pos++;
    const size_t n = lex->pos - begin;
    size_t after = lex->pos;
    while (after < lex->n && (lex->text[after] == '\'' || lex->text[after] == '"' || lex->text[after] == ' '))
        after++;
    const bool assigns = after < lex->n && (lex->text[after] == '=' || lex->text[after] == ':');
    if (assigns)
        lex->pos = after + 1;
    else if (n == 0 && lex->pos < lex->n)
        lex->pos++;
    out->begin = begin;
    snprintf(out->text, sizeof out->text, "%.*s", (int)s2_min_size(n, 255), lex->text + begin);
    const bool flag = n > 2 && lex->text[begin] == '-' && lex->text[begin + 1] == '-';
    out->is_key = (assigns || flag) &&
                  is_key_text(out->text + strspn(out->text, "-"), strlen(out->text + strspn(out->text, "-")));
    return n != 0 || lex->pos < lex->n;
}

/* A second value turns a key into an array; no value at all means true. */
static int settings_put(json_t *object, const char *key, json_t *value)
{
    json_t *const had = json_object_get(object, key);
    if (value == NULL)
        return had != NULL ? 0 : json_object_set_new(object, key, json_true());
    if (had == NULL)
        return json_object_set_new(object, key, value);
    if (json_is_array(had))
        return json_array_append_new(had, value);
    json_t *const list = json_array();
    const bool has_both = json_array_append(list, had) == 0;
    if (json_array_append_new(list, value) != 0 || !has_both) { /* this takes the value even when it fails */
        json_decref(list);
        return -1;
    }
    return json_object_set_new(object, key, list);
}

static s2_status settings_refuse(const lexer *lex, size_t pos, s2_diag *diag, const char *msg,
                                 const char *key)
{
    int32_t line, col;
    s2_text_position(lex->text, lex->n, pos, &line, &col);
    return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "%s%s", msg, key);
}

/* A shell script assigns variables before it passes them: `name=1 ... --name $name`. */
static json_t *settings_value(json_t *variables, const char *text)
{
    char name[256];
    if (text[0] != '$')
        return s2_tree_scalar(text);
    snprintf(name, sizeof name, "%s", text + 1 + (text[1] == '{'));
    json_t *const value = json_object_get(variables, name);
    return value != NULL ? json_incref(value) : s2_tree_scalar(text);
}

/* A flag may take the name of a variable; two flags, or two assignments, of one name are a mistake. */
static bool is_given_twice(json_t *object, json_t *variables, const char *key, bool is_flag)
{
    if (json_object_get(object, key) == NULL)
        return false;
    if (!is_flag || json_object_get(variables, key) == NULL)
        return true;
    (void)json_object_del(object, key);
    return false;
}

typedef struct setting_state {
    char key[256];
    bool is_flag, has_value;
} setting_state;

static s2_status settings_end(json_t *object, const setting_state *state)
{
    return !state->has_value && settings_put(object, state->key, NULL) != 0 ? S2_ENOMEM : S2_OK;
}

static s2_status settings_begin(const lexer *lex, json_t *object, json_t *variables, word *given,
                                setting_state *state, s2_diag *diag)
{
    S2_TRY(settings_end(object, state));
    state->is_flag = given->text[0] == '-';
    state->has_value = false;
    key_normalise(given->text);
    memcpy(state->key, given->text, sizeof state->key);
    if (is_given_twice(object, variables, state->key, state->is_flag))
        return settings_refuse(lex, given->begin, diag, "this setting is given twice: ", state->key);
    return S2_OK;
}

static s2_status settings_add(json_t *object, json_t *variables, const char *text, setting_state *state)
{
    const bool assigns = !state->is_flag && !state->has_value;
    if (settings_put(object, state->key, settings_value(variables, text)) != 0)
        return S2_ENOMEM;
    state->has_value = true;
    /* the first word only: what follows on the next line is a command */
    if (assigns && json_object_set_new(variables, state->key, s2_tree_scalar(text)) != 0)
        return S2_ENOMEM;
    return S2_OK;
}

static s2_status settings_read(lexer *lex, json_t *object, json_t *variables, s2_diag *diag)
{
    word next = {0};
    setting_state state = {.has_value = true};
    while (lexer_next(lex, &next)) {
        if (next.is_key)
            S2_TRY(settings_begin(lex, object, variables, &next, &state, diag));
        else if (state.key[0] != '\0' && next.text[0] != '\0')
            S2_TRY(settings_add(object, variables, next.text, &state));
    }
    return settings_end(object, &state);
}

static s2_status settings_parse(const char *text, size_t n_bytes, json_t *object, s2_diag *diag)
{
    lexer lex = {.text = text, .n = n_bytes};
    json_t *const variables = json_object();
    if (variables == NULL)
        return S2_ENOMEM;
    const s2_status status = settings_read(&lex, object, variables, diag);
    json_decref(variables);
    if (status == S2_OK && json_object_size(object) == 0)
        return settings_refuse(&lex, 0, diag,
                               "neither JSON nor settings (`--key value`, `key: value`, `key=value`)", "");
    return status;
}

/* ---- life cycle ----------------------------------------------------------------------------- */

/* Where two readers refuse a text, report the one that got further: it knows the format better. */
static bool came_further(const s2_diag *a, const s2_diag *b)
{
    return a->line != b->line ? a->line > b->line : a->col > b->col;
}

static s2_status json_parse(const char *text, size_t n_bytes, s2_doc_kind *kind, s2_tree *tree, s2_diag *diag)
{
    enum { HJSON_BYTES = 4 << 20 }; /* written by hand; the position of every value is kept */
    json_error_t error;
    const char *const nul = memchr(text, '\0', n_bytes);
    if (nul != NULL) {
        int32_t line, col;
        s2_text_position(text, n_bytes, (size_t)(nul - text), &line, &col);
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "JSON: a NUL byte");
    }
    s2_json_watch();
    *kind = S2_DOC_JSON;
    tree->root = s2_json_load(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (s2_json_ran_out())
        return S2_ENOMEM;
    if (tree->root != NULL)
        return S2_OK;
    s2_diag strict = {0}, relaxed = {0};
    const s2_status refused =
        s2_diag_set(&strict, S2_EPARSE, S2_CODE_FOREIGN, error.line > 0 ? error.line : 1,
                    error.column > 0 ? error.column : 1, "JSON: %s", error.text);
    *kind = S2_DOC_HJSON;
    const s2_status status =
        n_bytes <= HJSON_BYTES ? s2_tree_hjson(text, n_bytes, tree, &relaxed) : S2_EPARSE;
    if (s2_json_ran_out())
        return S2_ENOMEM;
    if (status == S2_EPARSE && diag != NULL)
        *diag = came_further(&relaxed, &strict) ? relaxed : strict;
    return status == S2_EPARSE ? refused : status;
}

/* A block mapping is YAML; anything else without brackets is read as settings. */
static s2_status plain_parse(const char *text, size_t n_bytes, s2_doc_kind *kind, s2_tree *tree,
                             s2_diag *diag)
{
    enum { PLAIN_BYTES = 1 << 20 };
    if (n_bytes > PLAIN_BYTES || memchr(text, '\0', n_bytes) != NULL)
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "not a configuration: more than 1 MiB of settings, or NUL bytes");
    s2_json_watch();
    *kind = S2_DOC_YAML;
    s2_status status = s2_tree_yaml(text, n_bytes, tree, diag);
    if (status == S2_EUNSUPPORTED && !s2_json_ran_out()) {
        json_decref(tree->root);
        *kind = S2_DOC_SETTINGS;
        tree->root = json_object();
        status = tree->root != NULL ? settings_parse(text, n_bytes, tree->root, diag) : S2_ENOMEM;
    }
    return s2_json_ran_out() ? S2_ENOMEM : status;
}

const char *s2_doc_wrapping(const char *bytes, size_t n_bytes)
{
    static const char mark[] =
        "JSON behind a byte order mark, which readers refuse: save it as UTF-8 without one";
    static const struct {
        const char *begin, *what;
    } kinds[] = {
        {"\xef\xbb\xbf{", mark}, /* our own language takes the mark */
        {"\xef\xbb\xbf[", mark},
        {"\xff\xfe", "text in UTF-16: save it as UTF-8"},
        {"\xfe\xff", "text in UTF-16: save it as UTF-8"},
        {"PK\x03\x04",
         "an archive, as np.savez and torch.save write: save one array with np.save, settings as JSON"},
        {"\x80", "Python's pickle: save an array with np.save, settings as JSON"},
        {"\x1f\x8b", "compressed by gzip: decompress it first"},
        {"\x28\xb5\x2f\xfd", "compressed by zstd: decompress it first"},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const size_t n = strlen(kinds[k].begin);
        if (n_bytes > n && memcmp(bytes, kinds[k].begin, n) == 0)
            return kinds[k].what;
    }
    return NULL;
}

s2_status s2_doc_parse(const char *text, size_t n_bytes, s2_doc *out, s2_diag *diag)
{
    const char *const wrapped = s2_doc_wrapping(text, n_bytes);
    if (wrapped != NULL)
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "%s", wrapped);
    if (n_bytes > S2_DOC_BYTES)
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "a configuration may have at most 16 MiB");
    size_t first = 0;
    while (first < n_bytes && isspace((unsigned char)text[first]))
        first++;
    const bool is_json = first < n_bytes && (text[first] == '{' || text[first] == '[');
    s2_tree tree = {0};
    s2_doc_kind kind;
    s2_status status = (is_json ? json_parse : plain_parse)(text, n_bytes, &kind, &tree, diag);
    s2_asked *const asked = status == S2_OK ? s2_asked_new() : NULL;
    if (status == S2_OK && asked == NULL)
        status = S2_ENOMEM;
    if (status != S2_OK) {
        s2_tree_release(&tree);
        return status;
    }
    *out = (s2_doc){.text = text,
                    .n_bytes = n_bytes,
                    .root = tree.root,
                    .marks = tree.marks,
                    .n_marks = tree.n_marks,
                    .kind = kind,
                    .asked = asked};
    return S2_OK;
}

void s2_doc_release(s2_doc *doc)
{
    json_decref(doc->root);
    s2_free(doc->marks);
    s2_asked_release(doc->asked);
    *doc = (s2_doc){0};
}

/* ---- values --------------------------------------------------------------------------------- */

bool s2_doc_is_int(const s2_doc *doc, const char *path)
{
    return json_is_integer(doc_at(doc, path));
}

bool s2_doc_is_null(const s2_doc *doc, const char *path)
{
    return json_is_null(doc_at(doc, path));
}

const char *s2_doc_under(const char *prefix, const char *key, char path[S2_DOC_PATH])
{
    snprintf(path, S2_DOC_PATH, "%s/%s", prefix, key);
    return path;
}

bool s2_doc_has(const s2_doc *doc, const char *path)
{
    const json_t *const node = doc_at(doc, path);
    return node != NULL && !json_is_null(node);
}

int64_t s2_doc_len(const s2_doc *doc, const char *path)
{
    const json_t *const node = doc_at(doc, path);
    if (json_is_array(node))
        return (int64_t)json_array_size(node);
    return json_is_object(node) ? (int64_t)json_object_size(node) : -1;
}

bool s2_doc_is_array(const s2_doc *doc, const char *path)
{
    return json_is_array(doc_at(doc, path));
}

const char *s2_doc_text(const s2_doc *doc, const char *path)
{
    return json_string_value(doc_at(doc, path));
}

const char *s2_doc_key(const s2_doc *doc, const char *path, const char *after)
{
    json_t *const node = doc_at(doc, path);
    void *const member = after == NULL ? json_object_iter(node)
                                       : json_object_iter_next(node, json_object_iter_at(node, after));
    return json_object_iter_key(member);
}

const char *s2_doc_slip(const s2_doc *doc, const char *path)
{
    enum { SHORTEST = 5, MOST_SIBLINGS = 4096 }; /* nobody misspells a key among more: they are data */
    char parent[S2_ASKED_BYTES], beside[2 * S2_ASKED_BYTES];
    const char *const meant = s2_path_base(path);
    const size_t n_parent = (size_t)(meant - path) - (meant > path);
    if (strlen(meant) < SHORTEST || n_parent >= sizeof parent)
        return NULL;
    snprintf(parent, sizeof parent, "%.*s", (int)n_parent, path);
    if (s2_doc_len(doc, parent) > MOST_SIBLINGS)
        return NULL;
    const char *key = NULL;
    while ((key = s2_doc_key(doc, parent, key)) != NULL) {
        if (strlen(key) >= S2_ASKED_BYTES || strcmp(key, meant) == 0 || !s2_asked_near(key, meant))
            continue;
        snprintf(beside, sizeof beside, "%s/%s", parent, key);
        if (!s2_asked_uses(doc->asked, beside))
            return key;
    }
    return NULL;
}

static s2_status refuse_missing(const s2_doc *doc, const char *path, s2_diag *diag)
{
    char beside[3 * S2_ASKED_BYTES];
    const char *const key = s2_doc_slip(doc, path);
    if (key == NULL)
        return s2_doc_refuse(doc, path, diag, "\"%s\" is missing", s2_path_base(path));
    snprintf(beside, sizeof beside, "%.*s%s", (int)(s2_path_base(path) - path), path, key);
    return s2_doc_refuse(doc, beside, diag, "\"%.60s\" is not a known key; did you mean \"%s\"?", key,
                         s2_path_base(path));
}

s2_status s2_doc_int(const s2_doc *doc, const char *path, int64_t low, int64_t high, int64_t *out,
                     s2_diag *diag)
{
    const json_t *const node = doc_at(doc, path);
    if (node == NULL || json_is_null(node))
        return refuse_missing(doc, path, diag);
    int64_t value;
    if (json_is_integer(node)) {
        value = json_integer_value(node);
    } else if (json_is_real(node) && fabs(json_real_value(node)) < 0x1p53 &&
               json_real_value(node) == floor(json_real_value(node))) {
        value = (int64_t)json_real_value(node);
    } else {
        return s2_doc_refuse(doc, path, diag, "\"%s\" must be a whole number", s2_path_base(path));
    }
    if (value < low || value > high)
        return s2_doc_refuse(doc, path, diag, "\"%s\" is %lld, but must be from %lld to %lld",
                             s2_path_base(path), (long long)value, (long long)low, (long long)high);
    *out = value;
    return S2_OK;
}

s2_status s2_doc_int_or(const s2_doc *doc, const char *path, int64_t low, int64_t high, int64_t fallback,
                        int64_t *out, s2_diag *diag)
{
    if (s2_doc_has(doc, path))
        return s2_doc_int(doc, path, low, high, out, diag);
    *out = fallback;
    return S2_OK;
}

s2_status s2_doc_num(const s2_doc *doc, const char *path, double low, double high, double *out, s2_diag *diag)
{
    const json_t *const node = doc_at(doc, path);
    if (!json_is_number(node))
        return s2_doc_refuse(doc, path, diag, "\"%s\" must be a number", s2_path_base(path));
    const double value = json_number_value(node);
    if (!(value >= low && value <= high))
        return s2_doc_refuse(doc, path, diag, "\"%s\" is %s, but must be from %s to %s", s2_path_base(path),
                             s2_decimal(value, 6).text, s2_decimal(low, 6).text, s2_decimal(high, 6).text);
    *out = value;
    return S2_OK;
}

s2_status s2_doc_bool_or(const s2_doc *doc, const char *path, bool fallback, bool *out, s2_diag *diag)
{
    const json_t *const node = doc_at(doc, path);
    if (node != NULL && !json_is_null(node) && !json_is_boolean(node))
        return s2_doc_refuse(doc, path, diag, "\"%s\" must be true or false", s2_path_base(path));
    *out = json_is_boolean(node) ? json_is_true(node) : fallback;
    return S2_OK;
}

/* The document's text without what s2 adds to it: keys sorted, no blanks. */
static char *plain_text(const s2_doc *doc)
{
    s2_json_watch();
    json_t *const copy = json_copy(doc->root);
    (void)json_object_del(copy, "s2");
    char *const text = json_dumps(copy, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(copy);
    if (!s2_json_ran_out())
        return text;
    s2_free(text); /* without memory jansson leaves members and keys out and says nothing */
    return NULL;
}

s2_status s2_doc_hash(const s2_doc *doc, char hex[S2_DOC_HASH])
{
    char *const text = plain_text(doc);
    if (text == NULL)
        return S2_ENOMEM;
    SHA2_CTX state;
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, strlen(text));
    SHA256End(&state, hex);
    s2_free(text);
    return S2_OK;
}
