/*
 * Canonical text of a pattern, its hash, and the line under which a refusal puts its caret.
 */
#include "pattern/parse.h"

#include <sha2.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/canon.h"

/* Whether a name needs no quotes for the parser to read it back. */
static bool name_is_bare(const char *name)
{
    const size_t n = strlen(name);
    return name[0] != ' ' && name[n - 1] != ' ' && name[0] != '"' && strpbrk(name, ";#") == NULL;
}

/* --- the pattern ---------------------------------------------------------------------------------- */

static void put_shape_number(s2_buf *buf, const char *word, int32_t value, int32_t missing, bool always)
{
    if (always || value != missing)
        s2_buf_printf(buf, "%s %d\n", word, value);
}

static void put_shape(const s2_pattern *pattern, s2_buf *buf)
{
    const bool has_model = pattern->model[0] != '\0';
    if (pattern->name[0] != '\0') {
        s2_buf_puts(buf, "name ");
        if (name_is_bare(pattern->name))
            s2_buf_puts(buf, pattern->name);
        else
            s2_quoted_print(pattern->name, buf);
        s2_buf_puts(buf, "\n");
    }
    if (has_model)
        s2_buf_printf(buf, "model %s\n", pattern->model);
    const bool has_mask = s2_pattern_limit_tok(pattern) != S2_OPEN; /* then the block has no default */
#define PUT_SHAPE_NUMBER(name, word, field, missing, largest)                                                \
    put_shape_number(buf, word, pattern->field,                                                              \
                     S2_SHAPE_##name == S2_SHAPE_KV_HEADS ? pattern->n_heads : (missing),                    \
                     S2_SHAPE_##name == S2_SHAPE_BLOCK ? has_mask : has_model);
    S2_SHAPE_TABLE(PUT_SHAPE_NUMBER)
#undef PUT_SHAPE_NUMBER
    if (!pattern->causal)
        s2_buf_puts(buf, "causal no\n");
}

/* A statement for each value that layers from `first` on set for themselves and no earlier layer has. */
static s2_status put_layer_value(s2_buf *buf, const char *word, const int64_t *values, int32_t first,
                                 int32_t n)
{
    int32_t index[S2_LIMIT_LAYERS], n_index = 0;
    for (int32_t layer = 0; layer < n; layer++)
        if (values[layer] == values[first])
            index[n_index++] = layer;
    if (index[0] != first)
        return S2_OK;
    s2_buf_puts(buf, "layers ");
    s2_index_list_print(index, n_index, n, buf);
    s2_buf_printf(buf, ": %s %lld\n", word, (long long)values[first]);
    return buf->status;
}

void s2_pattern_print_layers(const s2_pattern *pattern, s2_buf *buf)
{
    enum { USUAL = -1 };
    int64_t values[S2_LIMIT_LAYERS];
    if (pattern->layer_shapes == NULL)
        return;
    const s2_layer_shape usual = {pattern->n_kv_heads, pattern->head_dim, USUAL, 0};
#define PUT_LAYER_NUMBERS(name, word, field, smallest, largest)                                              \
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {                                            \
        const int64_t value = pattern->layer_shapes[layer].field;                                            \
        const bool own = value != (S2_LAYER_##name == S2_LAYER_KV_LAYER ? layer : usual.field);              \
        values[layer] = own ? value : USUAL;                                                                 \
    }                                                                                                        \
    for (int32_t layer = 0; layer < pattern->n_layers && buf->status == S2_OK; layer++)                      \
        if (values[layer] != USUAL)                                                                          \
            buf->status = put_layer_value(buf, word, values, layer, pattern->n_layers);
    S2_LAYER_TABLE(PUT_LAYER_NUMBERS)
#undef PUT_LAYER_NUMBERS
}

/* Bodies renumbered by first use in the order of cells, so that their storage order does not show. */
static s2_status number_bodies(s2_arena *arena, const s2_pattern *pattern, s2_text_set *texts,
                               int32_t *class_of)
{
    const int64_t n_cells = (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_heads;
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        class_of[body] = -1;
    s2_buf text = {0};
    s2_status status = S2_OK;
    int32_t n_left = pattern->n_bodies;
    for (int64_t cell = 0; cell < n_cells && n_left > 0 && status == S2_OK; cell++) {
        const int32_t body = pattern->body_of[cell];
        if (class_of[body] >= 0)
            continue;
        n_left--;
        s2_body canonical;
        status = s2_body_canonical(arena, pattern->block_tok, &pattern->bodies[body], &canonical);
        if (status != S2_OK)
            break;
        text.len = 0;
        s2_body_print(&canonical, &text);
        status = text.status;
        if (status == S2_OK)
            status = s2_text_set_add(arena, texts, text.data, text.len, &class_of[body]);
    }
    s2_buf_release(&text);
    return status;
}

static void put_rules(const s2_pattern *pattern, const s2_rule_list *list, const s2_text_set *texts,
                      s2_buf *buf)
{
    if (list->fallback >= 0) {
        s2_buf_puts(buf, "layers all: ");
        s2_buf_puts(buf, texts->text[list->fallback]);
        s2_buf_puts(buf, "\n");
    }
    for (int32_t rule = 0; rule < list->n_rules; rule++) {
        s2_selector_print(pattern, &list->rules[rule], buf);
        s2_buf_puts(buf, ": ");
        s2_buf_puts(buf, texts->text[list->rules[rule].body]);
        s2_buf_puts(buf, "\n");
    }
}

static s2_status print_pattern(s2_arena *arena, const s2_pattern *pattern, s2_buf *buf)
{
    s2_text_set texts = {0};
    int32_t *const class_of = S2_NEW(arena, int32_t, pattern->n_bodies);
    if (class_of == NULL)
        return S2_ENOMEM;
    S2_TRY(number_bodies(arena, pattern, &texts, class_of));
    s2_rule_list list;
    S2_TRY(s2_rules_build(arena, pattern, class_of, texts.n, texts.n_bytes, &list));
    put_shape(pattern, buf);
    s2_pattern_print_layers(pattern, buf);
    put_rules(pattern, &list, &texts, buf);
    return buf->status;
}

void s2_pattern_print(const s2_pattern *pattern, s2_buf *buf)
{
    if (buf->status != S2_OK)
        return;
    s2_arena arena = {0};
    buf->status = print_pattern(&arena, pattern, buf);
    s2_arena_release(&arena);
}

s2_status s2_pattern_hash(const s2_pattern *pattern, char hex[S2_HASH_HEX])
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    if (text.status == S2_OK)
        SHA256Data((const uint8_t *)text.data, text.len, hex);
    const s2_status status = text.status;
    s2_buf_release(&text);
    return status;
}

/* --- carets ----------------------------------------------------------------------------------------- */

enum { CARET_BEFORE = 60, CARET_AFTER = 40 };

/* Returns the columns of a terminal that it takes. */
static int32_t put_clean_char(s2_buf *buf, const char *text, size_t byte, size_t end)
{
    const size_t n = s2_utf8_len(text + byte, end - byte);
    const uint32_t cp = n != 0 ? s2_utf8_decode(text + byte, n) : 0;
    const bool shown = n != 0 && !s2_codepoint_is_hostile(cp);
    if (shown)
        s2_buf_add(buf, text + byte, n);
    else
        s2_buf_puts(buf, text[byte] == '\t' ? " " : "?");
    return shown ? s2_codepoint_width(cp) : 1;
}

void s2_diag_print_caret(const s2_diag *diag, const char *text, size_t n_bytes, s2_buf *buf)
{
    if (diag->line < 1 || diag->col < 1)
        return;
    size_t begin = 0;
    for (int32_t line = 1; line < diag->line; line++) {
        const char *const newline = memchr(text + begin, '\n', n_bytes - begin);
        if (newline == NULL)
            return;
        begin = (size_t)(newline - text) + 1;
    }
    const char *const newline = n_bytes > begin ? memchr(text + begin, '\n', n_bytes - begin) : NULL;
    size_t end = newline != NULL ? (size_t)(newline - text) : n_bytes;
    if (end > begin && text[end - 1] == '\r')
        end--;
    if (begin == 0 && end >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        begin = 3;
    int32_t col = 1, before = 0;
    s2_buf_puts(buf, "  ");
    for (size_t at = begin; at < end && col <= diag->col + CARET_AFTER;
         at += s2_utf8_step(text + at, end - at), col++) {
        const int32_t width = col >= diag->col - CARET_BEFORE ? put_clean_char(buf, text, at, end) : 0;
        before += col < diag->col ? width : 0;
    }
    before +=
        diag->col > col ? s2_min_i32(diag->col - col, CARET_BEFORE) : 0; /* behind the end of the line */
    s2_buf_printf(buf, "\n  %*s^\n", before, "");
}
