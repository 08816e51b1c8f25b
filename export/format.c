#include "export/format.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/models.h"
#include "pattern/parse.h"

bool s2_pattern_is_of(const s2_pattern *pattern, const char *model)
{
    const s2_model *const known = s2_model_find(model, strlen(model));
    return strcmp(pattern->model, model) == 0 && known != NULL && pattern->n_layers == known->net.n_layers &&
           pattern->n_heads == known->net.n_heads && pattern->n_kv_heads == known->net.n_kv_heads &&
           pattern->head_dim == known->net.head_dim;
}

const char *s2_format_frees(const s2_format *format)
{
    if (format->keeps_all)
        return "nothing";
    return format->frees_windows ? "windows" : NULL;
}

const char *s2_format_differs(const s2_format *format, const s2_pattern *pattern)
{
    bool is_dense = pattern->causal;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        is_dense = is_dense && s2_pattern_is_dense(pattern, S2_PREFILL, layer) &&
                   s2_pattern_is_dense(pattern, S2_DECODE, layer);
    return is_dense ? NULL : format->differs;
}

void s2_note(s2_buf *notes, const char *fmt, ...)
{
    char sentence[512], clean[768];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    s2_text_clean(clean, sizeof clean, sentence);
    s2_buf_puts(notes, clean);
    s2_buf_puts(notes, "\n");
}

static const s2_setting *setting_of(const s2_settings *settings, const char *key)
{
    for (int32_t n = 0; n < settings->n; n++)
        if (strcmp(settings->list[n].key, key) == 0)
            return &settings->list[n];
    return NULL;
}

const char *s2_setting_text(const s2_settings *settings, const char *key)
{
    const s2_setting *const setting = setting_of(settings, key);
    return setting != NULL ? setting->value : NULL;
}

/* What follows the digits: nothing, k or m; 0 for anything else. */
static double factor_of(const char *suffix)
{
    const char letter = (char)tolower((unsigned char)suffix[0]);
    if (letter == '\0')
        return 1;
    return suffix[1] != '\0' ? 0 : letter == 'k' ? 1 << 10 : letter == 'm' ? 1 << 20 : 0;
}

s2_status s2_setting_num(const s2_settings *settings, const char *key, double low, double high,
                         double fallback, double *out, s2_diag *diag)
{
    const char *const text = s2_setting_text(settings, key);
    if (text == NULL) {
        *out = fallback;
        return S2_OK;
    }
    char *end = NULL;
    const double number = strtod(text, &end), factor = factor_of(end), value = number * factor;
    const bool decimal = end == text + strspn(text, "0123456789.eE+-"); /* strtod takes blanks and 0x10 too */
    if (end == text || !decimal || factor == 0 || !(value >= low && value <= high))
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set %s must be a number from %s to %s",
                           key, s2_decimal(low, 10).text, s2_decimal(high, 10).text);
    *out = value;
    return S2_OK;
}

s2_status s2_setting_int(const s2_settings *settings, const char *key, int64_t low, int64_t high,
                         int64_t fallback, int64_t *out, s2_diag *diag)
{
    double value;
    S2_TRY(s2_setting_num(settings, key, (double)low, (double)high, (double)fallback, &value, diag));
    if (value != floor(value))
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set %s must be a whole number", key);
    *out = (int64_t)value;
    return S2_OK;
}

s2_status s2_setting_len(const s2_source *source, int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    const s2_setting *const setting = setting_of(&source->settings, "len");
    s2_diag why;
    const bool implied = setting != NULL && setting->implied;
    s2_status status =
        s2_setting_int(&source->settings, "len", low, high, fallback, out, implied ? &why : source->diag);
    if (implied && status == S2_EINVAL) {
        *out = fallback;
        status = S2_OK;
    }
    if (status == S2_OK && source->said != NULL)
        source->said->of_tok = *out;
    return status;
}

s2_status s2_setting_block(const s2_settings *settings, int64_t fallback, int64_t *out, s2_diag *diag)
{
    int64_t block_tok = fallback;
    S2_TRY(s2_setting_int(settings, "block", 1, S2_LIMIT_BLOCK_TOK, fallback, &block_tok, diag));
    if (!s2_is_power_of_two(block_tok))
        return s2_diag_set(diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0, "--set block must be a power of two");
    *out = block_tok;
    return S2_OK;
}

void s2_language_name(s2_buf *text, const char *name)
{
    char word[64];
    size_t n = 0;
    for (const char *c = name; *c != '\0' && n + 1 < sizeof word; c++)
        if (isalnum((unsigned char)*c) || (n != 0 && strchr("._-", *c) != NULL))
            word[n++] = (char)tolower((unsigned char)*c);
    word[n] = '\0';
    char *const dot = strrchr(word, '.');
    /* an extension is only letters, unlike ".1-8b" of "llama-3.1-8b" */
    if (dot != NULL && strlen(dot) <= 6 && dot[1 + strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz")] == '\0')
        *dot = '\0';
    if (word[0] != '\0')
        s2_buf_printf(text, "name %s\n", word);
}

void s2_language_shape(s2_buf *text, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads, int64_t head_dim,
                       int64_t block_tok)
{
    s2_buf_printf(text, "layers %lld\nheads %lld\nkv-heads %lld\n", (long long)n_layers, (long long)n_heads,
                  (long long)n_kv_heads);
    if (head_dim > 0)
        s2_buf_printf(text, "head-dim %lld\n", (long long)head_dim);
    s2_buf_printf(text, "block %lld\n", (long long)block_tok);
}

static void print_rule(s2_buf *text, const char *before, const char *axis, int32_t layer_begin,
                       int32_t layer_end, const uint16_t *roles, int32_t n_columns, uint16_t role,
                       const char *body)
{
    int32_t n = 0;
    for (int32_t column = 0; column < n_columns; column++)
        n += roles[column] == role;
    s2_buf_printf(text, "%slayers %d", before, layer_begin);
    if (layer_end > layer_begin + 1)
        s2_buf_printf(text, "-%d", layer_end - 1);
    if (n < n_columns) {
        s2_buf_printf(text, " %s ", axis);
        const char *comma = "";
        for (int32_t column = 0; column < n_columns; column++)
            if (roles[column] == role) {
                s2_buf_printf(text, "%s%d", comma, column);
                comma = ",";
            }
    }
    s2_buf_printf(text, ": %s\n", body);
}

void s2_language_roles(s2_buf *text, const char *before, const char *axis, int32_t n_layers,
                       int32_t n_columns, const uint16_t *role_of, const char *const *body, int32_t n_roles)
{
    for (int32_t begin = 0; begin < n_layers;) {
        const uint16_t *const roles = role_of + (int64_t)begin * n_columns;
        int32_t end = begin + 1;
        while (end < n_layers &&
               memcmp(roles, role_of + (int64_t)end * n_columns, (size_t)n_columns * sizeof *roles) == 0)
            end++;
        uint8_t used[(UINT16_MAX + 1) / 8] = {0}; /* a bit for each role */
        for (int32_t column = 0; column < n_columns; column++)
            used[roles[column] / 8] |= (uint8_t)(1u << roles[column] % 8);
        /* the parser refuses a text longer than a pattern may be; it need not be printed in full */
        for (int32_t role = 0; role < n_roles && text->len <= S2_LIMIT_TEXT_BYTES; role++)
            if ((used[role / 8] >> role % 8 & 1) != 0)
                print_rule(text, before, axis, begin, end, roles, n_columns, (uint16_t)role, body[role]);
        begin = end;
    }
}

const char *s2_part_of(s2_buf *whole, const s2_buf *part)
{
    if (whole->status == S2_OK)
        whole->status = part->status;
    return part->data != NULL ? part->data : "";
}

s2_status s2_language_parse(const s2_source *source, s2_buf *text, s2_pattern *out)
{
    s2_status status = text->status;
    s2_diag why = {0};
    if (status == S2_OK)
        status = s2_pattern_parse(source->arena, text->data, text->len, NULL, out, &why);
    s2_buf_release(text);
    if (status == S2_EPARSE)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "it asks for what the language cannot express: %s", why.msg);
    return status;
}

s2_status s2_said_most(const s2_source *source, const char *prefix, const char *key)
{
    char path[160];
    int64_t n_tok;
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    S2_TRY(s2_doc_int_or(source->doc, path, 1, INT32_MAX, 0, &n_tok, source->diag));
    if (source->said != NULL) {
        source->said->most_tok = n_tok;
        source->said->most_key = key;
    }
    return S2_OK;
}

void s2_note_most(const s2_target *target, const char *key)
{
    s2_note(target->notes, "%s is %lld: what runs the file takes no longer context; --len N writes another",
            key, (long long)target->n_tok);
}

s2_status s2_source_needs(const s2_source *source, bool known, const char *expected)
{
    if (source->doc != NULL && known)
        return S2_OK;
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, source->doc != NULL, source->doc != NULL,
                       "expected %s", expected);
}

s2_status s2_neighbour_refuse(const s2_source *source, const char *name, s2_status status)
{
    if (status != S2_EPARSE || source->diag == NULL)
        return status;
    const s2_diag there = *source->diag;
    return s2_diag_set(source->diag, status, there.code, 1, 1, "%.80s:%d:%d: %s", name, there.line, there.col,
                       there.msg);
}

s2_status s2_target_refuse(const s2_target *target, const char *fmt, ...)
{
    char msg[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(msg, sizeof msg, fmt, args);
    va_end(args);
    return s2_diag_set(target->diag, S2_EUNSUPPORTED, S2_CODE_FOREIGN, 0, 0, "%s", msg);
}

/* Hash the object in buf, to which the member "s2" will be appended, as it is without that member. */
static void hash_contents(s2_buf *buf, char hex[S2_DOC_HASH])
{
    s2_buf whole = {0};
    s2_doc doc;
    size_t n = buf->len;
    hex[0] = '\0';
    if (buf->status != S2_OK)
        return;
    while (n > 0 && strchr(" \n,", buf->data[n - 1]) != NULL)
        n--;
    s2_buf_add(&whole, buf->data, n);
    s2_buf_puts(&whole, "}");
    s2_status status = whole.status;
    if (status == S2_OK)
        status = s2_doc_parse(whole.data, whole.len, &doc, NULL);
    if (status == S2_OK) {
        status = s2_doc_hash(&doc, hex);
        s2_doc_release(&doc);
    }
    if (status != S2_OK)
        buf->status = status;
    s2_buf_release(&whole);
}

/* A file without its hash is not written: the buffer takes the failure. */
static void hash_pattern(s2_buf *buf, const s2_pattern *pattern, char hash[S2_HASH_HEX])
{
    const s2_status status = s2_pattern_hash(pattern, hash);
    if (buf->status == S2_OK)
        buf->status = status;
}

void s2_provenance_print(s2_buf *buf, const s2_target *target, const char *indent)
{
    char hash[S2_HASH_HEX] = "", contents[S2_DOC_HASH];
    hash_pattern(buf, target->pattern, hash);
    hash_contents(buf, contents);
    s2_buf_printf(buf, "%s\"s2\":", indent);
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "name", target->pattern->name);
    if (target->pattern->model[0] != '\0')
        s2_json_key_str(buf, "model", target->pattern->model);
    s2_json_key_str(buf, "hash", hash);
    s2_json_key_str(buf, "contents", contents);
    s2_json_key_str(buf, "by", target->provenance);
    s2_json_key_str(buf, "run", target->run != NULL ? target->run : "");
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

/* Names and stored sentences are anybody's text: they must not end the comment or the docstring around them. */
static void put_inert(s2_buf *buf, const char *text)
{
    char before = '\0';
    for (; *text != '\0'; before = *text++) {
        const bool odd = *text < ' ' || *text > '~' || *text == '\\' || *text == '"' ||
                         (before == '*' && *text == '/') || (before == '/' && *text == '*');
        s2_buf_add(buf, odd ? "?" : text, 1);
    }
}

void s2_provenance_lines(s2_buf *buf, const s2_target *target, const char *before)
{
    char hash[S2_HASH_HEX] = "";
    const char *const lines[] = {target->provenance, target->run};
    hash_pattern(buf, target->pattern, hash);
    s2_buf_printf(buf, "%spattern ", before);
    put_inert(buf, target->pattern->name);
    s2_buf_printf(buf, "%sSHA-256 %s\n", target->pattern->name[0] != '\0' ? ", " : "", hash);
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++)
        if (lines[n] != NULL && lines[n][0] != '\0') {
            s2_buf_puts(buf, before);
            put_inert(buf, lines[n]);
            s2_buf_puts(buf, "\n");
        }
}
