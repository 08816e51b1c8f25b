#include "export/tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/arith.h"
#include "base/json.h"
#include "base/text.h"
#include "export/doc.h"

typedef struct reader {
    const char *text;
    size_t n;
    size_t pos;
    size_t counted; /* bytes before it are in col; values stand behind one another */
    int32_t line, col;
    int32_t depth;
    s2_tree *tree;
    s2_diag *diag;
} reader;

static int32_t column(reader *in)
{
    for (; in->counted < in->pos; in->counted++)
        in->col += (in->text[in->counted] & 0xc0) != 0x80;
    return in->col;
}

static s2_status refuse(reader *in, const char *msg)
{
    return s2_diag_set(in->diag, S2_EPARSE, S2_CODE_FOREIGN, in->line, column(in), "HJSON: %s", msg);
}

static char peek(const reader *in, size_t ahead)
{
    return in->pos + ahead < in->n ? in->text[in->pos + ahead] : '\0';
}

static void step(reader *in)
{
    if (in->text[in->pos++] == '\n') {
        in->line++;
        in->counted = in->pos;
        in->col = 1;
    }
}

/* Blanks and comments; true when a line end was among them, which may stand for a comma. */
static bool skip_blank(reader *in)
{
    const int32_t line = in->line;
    while (in->pos < in->n) {
        const char c = in->text[in->pos];
        if (isspace((unsigned char)c)) {
            step(in);
        } else if (c == '#' || (c == '/' && peek(in, 1) == '/')) {
            while (in->pos < in->n && in->text[in->pos] != '\n')
                in->pos++;
        } else if (c == '/' && peek(in, 1) == '*') {
            while (in->pos < in->n && !(in->text[in->pos] == '*' && peek(in, 1) == '/'))
                step(in);
            in->pos = s2_min_size(in->pos + 2, in->n);
        } else {
            break;
        }
    }
    return in->line != line;
}

/* A text in quotes, which ends on its line; JSON's own decoder reads those in double quotes. */
static s2_status quoted(reader *in, json_t **out)
{
    const char quote = in->text[in->pos];
    size_t end = in->pos + 1;
    while (end < in->n && in->text[end] != quote && in->text[end] != '\n')
        end += in->text[end] == '\\' && end + 1 < in->n ? 2 : 1;
    if (end >= in->n || in->text[end] != quote)
        return refuse(in, "a text in quotes does not end on its line");
    const char *const begin = in->text + in->pos;
    const size_t n = end + 1 - in->pos;
    if (quote == '\'' && memchr(begin, '\\', n) != NULL)
        return refuse(in, "a text in single quotes may hold no backslash");
    *out = quote == '"' ? s2_json_load(begin, n, JSON_DECODE_ANY, NULL) : json_stringn(begin + 1, n - 2);
    if (*out == NULL)
        return refuse(in, "a text in quotes is malformed");
    in->pos = end + 1;
    return S2_OK;
}

/* How Python's json writes what are no numbers in JSON: a Mamba's time_step_limit ends in one. */
static bool is_python_number(const char *word)
{
    return strcmp(word, "NaN") == 0 || strcmp(word, "Infinity") == 0 || strcmp(word, "-Infinity") == 0;
}

/*
 * true, null or a number up to the next comma, bracket, comment or line end; else a text without quotes.
 * HJSON lets such a text run to the end of its line, commas, brackets and comments included, which is hardly
 * ever intended: such texts are refused.
 */
static s2_status bare(reader *in, json_t **out)
{
    char word[S2_TREE_KEY];
    size_t end = in->pos, last;
    while (end < in->n && strchr(",]}\n\r#", in->text[end]) == NULL &&
           !(in->text[end] == '/' && end + 1 < in->n && strchr("/*", in->text[end + 1]) != NULL))
        end++;
    for (last = end; last > in->pos && isspace((unsigned char)in->text[last - 1]);)
        last--;
    const size_t n = last - in->pos;
    if (n == 0 || n >= sizeof word)
        return refuse(in, "expected a value");
    memcpy(word, in->text + in->pos, n);
    word[n] = '\0';
    json_t *const value = s2_tree_scalar(word);
    if (value == NULL)
        return S2_ENOMEM;
    const bool to_line_end = end >= in->n || in->text[end] == '\n' || in->text[end] == '\r';
    if (json_is_string(value) && !is_python_number(word) &&
        (!to_line_end || strpbrk(word, "\"'{[:") != NULL)) {
        json_decref(value);
        return refuse(in, "a text without quotes runs to the end of its line; put it in quotes");
    }
    in->pos = last;
    *out = value;
    return S2_OK;
}

static s2_status read_key(reader *in, char key[S2_TREE_KEY])
{
    if (peek(in, 0) == '"' || peek(in, 0) == '\'') {
        json_t *text = NULL;
        S2_TRY(quoted(in, &text));
        const size_t n = json_string_length(text);
        const bool fits = n < S2_TREE_KEY;
        if (fits)
            memcpy(key, json_string_value(text), n + 1);
        json_decref(text);
        return fits ? S2_OK : refuse(in, "a name is too long");
    }
    size_t n = 0;
    while (in->pos + n < in->n && n < S2_TREE_KEY - 1 && strchr(",:[]{}\"'", in->text[in->pos + n]) == NULL &&
           !isspace((unsigned char)in->text[in->pos + n]))
        n++;
    if (n == 0 || n == S2_TREE_KEY - 1)
        return refuse(in, "expected a name");
    memcpy(key, in->text + in->pos, n);
    key[n] = '\0';
    in->pos += n;
    return S2_OK;
}

static s2_status container(reader *in, json_t *into);

/* One value, put into its parent before it is filled, so that a refusal inside leaks nothing. */
static s2_status value_into(reader *in, json_t *parent, const char *key)
{
    const int32_t line = in->line, col = column(in);
    const char c = peek(in, 0);
    json_t *value = NULL;
    if (c == '{' || c == '[')
        value = c == '{' ? json_object() : json_array();
    else if (c == '"' || c == '\'')
        S2_TRY(quoted(in, &value));
    else
        S2_TRY(bare(in, &value));
    const bool opens = c == '{' || c == '[';
    const s2_status status = s2_tree_put(in->tree, parent, key, value, line, col);
    if (status == S2_EINVAL)
        return refuse(in, "this name is given twice");
    S2_TRY(status);
    return opens ? container(in, value) : S2_OK;
}

static s2_status member(reader *in, json_t *into, bool object)
{
    char key[S2_TREE_KEY] = "";
    if (object) {
        S2_TRY(read_key(in, key));
        skip_blank(in);
        if (peek(in, 0) != ':')
            return refuse(in, "expected ':'");
        in->pos++;
        skip_blank(in);
    }
    return value_into(in, into, key);
}

/* From the opening bracket to just after the closing one. */
static s2_status container(reader *in, json_t *into)
{
    const bool object = json_is_object(into);
    const char closing = object ? '}' : ']';
    bool separated = true;
    if (++in->depth > S2_TREE_DEPTH)
        return refuse(in, "too many brackets inside each other");
    in->pos++;
    for (;;) {
        separated |= skip_blank(in);
        if (in->pos >= in->n)
            return refuse(in, "a bracket is not closed");
        if (peek(in, 0) == closing)
            break;
        if (!separated)
            return refuse(in, "expected a comma or a line end");
        S2_TRY(member(in, into, object));
        separated = skip_blank(in);
        if (peek(in, 0) == ',') {
            in->pos++;
            separated = true;
        }
    }
    in->pos++;
    in->depth--;
    return S2_OK;
}

static size_t first_not_utf8(const char *text, size_t n)
{
    size_t byte = 0;
    while (byte < n) {
        const size_t len = s2_utf8_len(text + byte, n - byte);
        if (len == 0 || text[byte] == '\0')
            break;
        byte += len;
    }
    return byte;
}

s2_status s2_tree_hjson(const char *text, size_t n_bytes, s2_tree *tree, s2_diag *diag)
{
    reader in = {.text = text, .n = n_bytes, .line = 1, .col = 1, .tree = tree, .diag = diag};
    const size_t bad = first_not_utf8(text, n_bytes);
    if (bad < n_bytes) {
        int32_t line, col;
        s2_text_position(text, n_bytes, bad, &line, &col);
        return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "HJSON: not UTF-8");
    }
    skip_blank(&in);
    if (peek(&in, 0) != '{' && peek(&in, 0) != '[')
        return refuse(&in, "expected a bracket");
    tree->root = peek(&in, 0) == '{' ? json_object() : json_array();
    if (tree->root == NULL)
        return S2_ENOMEM;
    S2_TRY(container(&in, tree->root));
    skip_blank(&in);
    return in.pos >= n_bytes ? S2_OK : refuse(&in, "text after the last bracket");
}
