#include "export/call.h"

#include <ctype.h>
#include <string.h>

#include "export/doc.h"
#include "export/tree.h"

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t skip_blank(const char *text, size_t n, size_t pos)
{
    while (pos < n && isspace((unsigned char)text[pos]))
        pos++;
    return pos;
}

static size_t skip_comment(const char *text, size_t n, size_t pos)
{
    while (pos < n && text[pos] != '\n')
        pos++;
    return pos;
}

bool s2_call_find(const char *text, size_t n_bytes, const char *callee, s2_call *out)
{
    const size_t n = strlen(callee);
    s2_call call = {0};
    for (size_t pos = 0; pos + n < n_bytes; pos++) {
        if (text[pos] == '#')
            pos = skip_comment(text, n_bytes, pos);
        if (pos + n >= n_bytes || memcmp(text + pos, callee, n) != 0 || (pos > 0 && is_word(text[pos - 1])))
            continue;
        const size_t open = skip_blank(text, n_bytes, pos + n);
        if (open < n_bytes && text[open] == '(' && call.n_calls++ == 0)
            call.begin = pos;
    }
    if (call.n_calls > 0)
        *out = call;
    return call.n_calls > 0;
}

/* The comma or bracket that ends the argument that begins at `pos`; n where nothing does. */
static size_t argument_end(const char *text, size_t n, size_t pos)
{
    int32_t depth = 0;
    char quote = '\0';
    for (; pos < n; pos++) {
        const char c = text[pos];
        if (quote != '\0') {
            quote = c == quote ? '\0' : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '#') {
            pos = skip_comment(text, n, pos);
        } else if (strchr("([{", c) != NULL && c != '\0') {
            depth++;
        } else if (depth == 0 && (c == ',' || c == ')')) {
            return pos;
        } else if (c == ')' || c == ']' || c == '}') {
            depth--;
        }
    }
    return n;
}

/* `name = number` at the start of a line before the call: where the number is; the last one counts. */
static bool find_assignment(const char *text, size_t before, const char *name, size_t n_name, size_t *begin,
                            size_t *end)
{
    bool found = false;
    for (size_t pos = 0; pos + n_name < before; pos++) {
        if ((pos > 0 && text[pos - 1] != '\n') || memcmp(text + pos, name, n_name) != 0)
            continue;
        size_t sign = skip_blank(text, before, pos + n_name);
        if (sign + 1 >= before || text[sign] != '=' || text[sign + 1] == '=')
            continue;
        sign = skip_blank(text, before, sign + 1);
        size_t stop = sign;
        while (stop < before && is_word(text[stop]))
            stop++;
        if (stop > sign) {
            *begin = sign;
            *end = stop;
            found = true;
        }
    }
    return found;
}

static void put_value(const char *text, size_t call_begin, size_t begin, size_t end, s2_buf *out)
{
    size_t from = begin, to = end;
    bool is_name = begin < end && !isdigit((unsigned char)text[begin]);
    for (size_t at = begin; at < end; at++)
        is_name = is_name && is_word(text[at]);
    if (is_name)
        (void)find_assignment(text, call_begin, text + begin, end - begin, &from, &to);
    s2_buf_printf(out, "%.*s\n", (int)(to - from), text + from);
}

static s2_status refuse(const char *text, size_t n, size_t pos, s2_diag *diag, const char *msg)
{
    int32_t line, col;
    s2_text_position(text, n, pos, &line, &col);
    return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "%s", msg);
}

/* Where the value of `name=value` begins; `begin` for a positional argument. */
static size_t value_begin(const char *text, size_t begin, size_t end)
{
    size_t pos = begin;
    while (pos < end && is_word(text[pos]))
        pos++;
    pos = skip_blank(text, end, pos);
    const bool is_named = pos > begin && pos + 1 < end && text[pos] == '=' && text[pos + 1] != '=';
    return is_named ? skip_blank(text, end, pos + 1) : begin;
}

s2_status s2_call_arguments(const char *text, size_t n_bytes, const char *callee, const s2_call *call,
                            const char *const *names, int32_t n_names, s2_buf *out, s2_diag *diag)
{
    int32_t n_positional = 0;
    size_t pos = skip_blank(text, n_bytes, call->begin + strlen(callee)) + 1;
    for (;;) {
        pos = skip_blank(text, n_bytes, pos);
        while (pos < n_bytes && text[pos] == '#')
            pos = skip_blank(text, n_bytes, skip_comment(text, n_bytes, pos));
        const size_t end = argument_end(text, n_bytes, pos);
        if (end == n_bytes)
            return refuse(text, n_bytes, call->begin, diag, "the bracket of this call does not close");
        size_t last = end;
        while (last > pos && isspace((unsigned char)text[last - 1]))
            last--;
        const size_t value = value_begin(text, pos, last);
        if (last > pos && text[pos] == '*')
            return refuse(text, n_bytes, pos, diag,
                          "arguments behind a star are not known here: write them out");
        if (value > pos) {
            const size_t n_key = strcspn(text + pos, " \t=");
            s2_buf_printf(out, "%.*s=", (int)n_key, text + pos);
            put_value(text, call->begin, value, last, out);
        } else if (last > pos) {
            if (n_positional == n_names)
                return refuse(text, n_bytes, pos, diag,
                              "arguments from here on need their names (name=value)");
            s2_buf_printf(out, "%s=", names[n_positional++]);
            put_value(text, call->begin, pos, last, out);
        }
        if (text[end] == ')')
            return out->status;
        pos = end + 1;
    }
}
