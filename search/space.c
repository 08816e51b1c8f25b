#include "search/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/parse.h"

typedef struct cursor {
    const char *text;
    size_t n;
    size_t pos;
    s2_arena *arena;
    s2_diag *diag;
} cursor;

/* Line and column of a byte, counted only when something is refused. */
static s2_status refuse(const cursor *c, size_t pos, const char *why)
{
    int32_t line, col;
    s2_text_position(c->text, c->n, pos, &line, &col);
    return s2_diag_set(c->diag, S2_EPARSE, 0, line, col, "%s", why);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Digits of a number well below overflow; false for anything else. */
static bool take_number(const char **rest, const char *end, int64_t *out)
{
    enum { DIGITS = 9 };
    const char *const begin = *rest;
    int64_t value = 0;
    while (*rest < end && **rest >= '0' && **rest <= '9' && *rest - begin <= DIGITS)
        value = value * 10 + (*(*rest)++ - '0');
    *out = value;
    return *rest > begin && *rest - begin <= DIGITS;
}

/* A..B[:STEP]; *is_range is false for other text; text that only begins like a range is refused. */
static s2_status parse_range(const cursor *c, const char *begin, const char *end, s2_choice *out,
                             bool *is_range)
{
    const char *rest = begin;
    int64_t first, last, step = 1;
    *is_range = false;
    if (!take_number(&rest, end, &first) || end - rest < 2 || rest[0] != '.' || rest[1] != '.')
        return S2_OK;
    rest += 2;
    if (!take_number(&rest, end, &last))
        return refuse(c, (size_t)(rest - c->text),
                      "a range ends in a number of up to 9 digits, as in {4..32:4}");
    if (rest < end && *rest == ':') {
        rest++;
        if (!take_number(&rest, end, &step) || step == 0)
            return refuse(c, (size_t)(rest - c->text),
                          "the step of a range is a number above 0, as in {4..32:4}");
    }
    if (rest != end)
        return refuse(c, (size_t)(rest - c->text), "a range is A..B or A..B:STEP, with nothing behind it");
    if (last < first)
        return refuse(c, (size_t)(begin - c->text), "a range does not run backwards");
    *out = (s2_choice){NULL, 0, first, step, (last - first) / step + 1};
    *is_range = true;
    return S2_OK;
}

static s2_status parse_choice(const cursor *c, size_t from, size_t to, s2_choice *out)
{
    const char *begin = c->text + from, *end = c->text + to;
    while (begin < end && is_blank(*begin))
        begin++;
    while (end > begin && is_blank(end[-1]))
        end--;
    bool is_range;
    S2_TRY(parse_range(c, begin, end, out, &is_range));
    if (!is_range)
        *out = (s2_choice){begin, (size_t)(end - begin), 0, 0, 1};
    return S2_OK;
}

/* The closing brace, and the number of choices before it. */
static s2_status find_close(const cursor *c, size_t open, size_t *close, int32_t *n_choices)
{
    *n_choices = 1;
    for (size_t pos = open + 1; pos < c->n; pos++) {
        if (c->text[pos] == '}') {
            *close = pos;
            return S2_OK;
        }
        if (c->text[pos] == '{')
            return refuse(c, pos, "choices do not nest");
        *n_choices += c->text[pos] == ',';
    }
    return refuse(c, open, "this brace is not closed");
}

static s2_status parse_hole(cursor *c, s2_space_piece *piece)
{
    const size_t open = c->pos;
    size_t close = open;
    int32_t n_choices;
    S2_TRY(find_close(c, open, &close, &n_choices));
    s2_choice *const choices = S2_NEW(c->arena, s2_choice, n_choices);
    if (choices == NULL)
        return S2_ENOMEM;
    size_t from = open + 1;
    for (int32_t n = 0; n < n_choices; n++) {
        size_t to = from;
        while (c->text[to] != ',' && to < close)
            to++;
        S2_TRY(parse_choice(c, from, to, &choices[n]));
        piece->n_values += choices[n].n;
        if (piece->n_values > S2_SPACE_ALTERNATIVES)
            return refuse(c, from, "one choice has more than 65536 values");
        from = to + 1;
    }
    if (n_choices == 1 && choices[0].text != NULL && choices[0].n_bytes == 0)
        return refuse(c, open, "a choice needs values: {16,32} or {4..32:4}");
    piece->choices = choices;
    piece->n_choices = n_choices;
    c->pos = close + 1;
    return S2_OK;
}

/* Skip to the next hole; braces in comments and quoted texts are plain text. */
static s2_status skip_plain(cursor *c)
{
    char inside = 0;
    for (; c->pos < c->n; c->pos++) {
        const char byte = c->text[c->pos];
        if (inside == '"' && byte == '\\' && c->pos + 1 < c->n)
            c->pos++;
        else if (inside != 0)
            inside = (inside == '"' ? byte == '"' : byte == '\n') ? 0 : inside;
        else if (byte == '{')
            return S2_OK;
        else if (byte == '}')
            return refuse(c, c->pos, "this brace closes nothing");
        else if (byte == '#' || byte == '"')
            inside = byte;
    }
    return S2_OK;
}

static s2_status multiply(const cursor *c, size_t pos, int64_t n_values, int64_t *n_candidates)
{
    int64_t product;
    if (!s2_mul_i64(*n_candidates, n_values, &product) || product > (INT64_C(1) << S2_SPACE_LOG2_CANDIDATES))
        return refuse(c, pos, "with this choice there are more than 2^40 candidates");
    *n_candidates = product;
    return S2_OK;
}

static s2_status parse_pieces(cursor *c, s2_space_piece *pieces, s2_space *space)
{
    for (;;) {
        s2_space_piece *const piece = &pieces[space->n_pieces++];
        const size_t begin = c->pos;
        S2_TRY(skip_plain(c));
        piece->text = c->text + begin;
        piece->n_bytes = c->pos - begin;
        if (c->pos == c->n)
            return S2_OK;
        const size_t open = c->pos;
        if (space->n_pieces > S2_SPACE_HOLES)
            return refuse(c, open, "there are more than 64 choices");
        S2_TRY(parse_hole(c, piece));
        S2_TRY(multiply(c, open, piece->n_values, &space->n_candidates));
    }
}

s2_status s2_space_parse(s2_arena *arena, const char *text, size_t n_bytes, s2_space *out, s2_diag *diag)
{
    cursor c = {.text = text, .arena = arena, .diag = diag};
    if (n_bytes > S2_SPACE_BYTES)
        return refuse(&c, 0, "a space has at most 65536 bytes");
    c.text = s2_arena_strndup(arena, text, n_bytes);
    c.n = n_bytes;
    s2_space_piece *const pieces = S2_NEW(arena, s2_space_piece, S2_SPACE_HOLES + 1);
    if (c.text == NULL || pieces == NULL)
        return S2_ENOMEM;
    s2_space space = {.pieces = pieces, .n_candidates = 1};
    S2_TRY(parse_pieces(&c, pieces, &space));
    *out = space;
    return S2_OK;
}

static void put_value(const s2_space_piece *piece, int64_t value, s2_buf *buf)
{
    const s2_choice *choice = piece->choices;
    while (value >= choice->n)
        value -= (choice++)->n;
    if (choice->text != NULL)
        s2_buf_add(buf, choice->text, choice->n_bytes);
    else
        s2_buf_printf(buf, "%lld", (long long)(choice->begin + value * choice->step));
}

static void find_digits(const s2_space *space, int64_t index, int64_t digits[S2_SPACE_HOLES + 1])
{
    for (int32_t p = space->n_pieces - 1; p >= 0; p--) {
        const int64_t radix = space->pieces[p].n_values;
        digits[p] = radix > 0 ? index % radix : 0;
        index = radix > 0 ? index / radix : index;
    }
}

/* The nth number of a choice; false: it is not a number. */
static bool number_of(const s2_choice *choice, int64_t nth, int64_t *out)
{
    char text[24];
    *out = choice->begin + nth * choice->step;
    if (choice->text == NULL)
        return true;
    snprintf(text, sizeof text, "%.*s", (int)(choice->n_bytes < sizeof text ? choice->n_bytes : 0),
             choice->text);
    char *end;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0';
}

int32_t s2_space_edge(const s2_space *space, int64_t index, int32_t piece, int64_t *value)
{
    int64_t digits[S2_SPACE_HOLES + 1], least = INT64_MAX, most = INT64_MIN;
    const s2_space_piece *const choices = &space->pieces[piece];
    find_digits(space, index, digits);
    int64_t left = digits[piece];
    for (int32_t c = 0; c < choices->n_choices; c++) {
        int64_t ends[2], own;
        if (!number_of(&choices->choices[c], 0, &ends[0]) ||
            !number_of(&choices->choices[c], choices->choices[c].n - 1, &ends[1]))
            return 0;
        least = s2_min_i64(least, s2_min_i64(ends[0], ends[1]));
        most = s2_max_i64(most, s2_max_i64(ends[0], ends[1]));
        if (left >= 0 && left < choices->choices[c].n && number_of(&choices->choices[c], left, &own))
            *value = own;
        left -= choices->choices[c].n;
    }
    return least >= most ? 0 : *value == least ? -1 : *value == most;
}

void s2_space_expand(const s2_space *space, int64_t index, s2_buf *buf)
{
    int64_t digits[S2_SPACE_HOLES + 1];
    find_digits(space, index, digits);
    for (int32_t p = 0; p < space->n_pieces; p++) {
        const s2_space_piece *const piece = &space->pieces[p];
        s2_buf_add(buf, piece->text, piece->n_bytes);
        if (piece->n_values > 0)
            put_value(piece, digits[p], buf);
    }
}

/* 2, 3, 4, 6, 8, 12, ...: each at most 1.5 times the one before, up to a phase for each head. */
static void put_strides(int32_t n_heads, s2_buf *buf)
{
    s2_buf_puts(buf, "stride {2");
    for (int32_t power = 2; power < n_heads; power *= 2) {
        if (power * 3 / 2 <= n_heads)
            s2_buf_printf(buf, ",%d", (int)power * 3 / 2);
        if (power * 2 <= n_heads)
            s2_buf_printf(buf, ",%d", (int)power * 2);
    }
    s2_buf_puts(buf, "}");
}

/* "layers 7::8: dense", of layers that are counted; one statement each where a comma would end a choice. */
static s2_status put_dense_layers(const s2_space_attention *attention, int32_t every, s2_buf *buf)
{
    int32_t *const dense = s2_malloc((size_t)(attention->n / every + 1) * sizeof *dense);
    s2_buf list = {0};
    int32_t n = 0;
    if (dense == NULL)
        return S2_ENOMEM;
    for (int32_t nth = every - 1; nth < attention->n; nth += every)
        dense[n++] = attention->layers[nth];
    s2_index_list_print(dense, n, attention->n_layers, &list);
    s2_buf_add(&list, "", 1);
    s2_free(dense);
    for (char *item = strtok(list.data, ","); item != NULL && list.status == S2_OK; item = strtok(NULL, ","))
        s2_buf_printf(buf, "%slayers %s: dense", item == list.data ? "" : "; ", item);
    const s2_status status = list.status;
    s2_buf_release(&list);
    return status;
}

/* The choice of dense layers where not all layers read keys. */
static s2_status put_dense_choice(const s2_space_attention *attention, s2_buf *buf)
{
    if (attention->n < 2)
        return S2_OK; /* the one that reads keys would be dense */
    s2_buf_puts(buf, "; {");
    for (int32_t every = 2; every <= 8 && every <= attention->n; every *= 2) {
        s2_buf_puts(buf, ",");
        S2_TRY(put_dense_layers(attention, every, buf));
    }
    s2_buf_puts(buf, "}");
    return S2_OK;
}

s2_status s2_space_propose(int32_t n_heads, int32_t n_kv_heads, int32_t dense_every,
                           const s2_space_attention *attention, s2_buf *buf)
{
    if (n_kv_heads < 1 || n_heads < n_kv_heads || n_heads % n_kv_heads != 0)
        return S2_EINVAL;
    /* a window of at least 1024 tokens: the search cannot see what a model loses without one */
    s2_buf_puts(buf, "layers all: local {16,24,32,48,64} {,| sink 1} | ");
    put_strides(n_heads, buf);
    s2_buf_puts(buf, " phase ");
    s2_buf_puts(buf, n_kv_heads < n_heads ? "{head,kv}+1" : "head+1");
    if (n_kv_heads > 1)
        s2_buf_printf(buf, "; {,kv %d: dense}", (int)n_kv_heads - 1);
    if (attention != NULL && dense_every > 0) {
        s2_buf_puts(buf, "; ");
        S2_TRY(put_dense_layers(attention, dense_every, buf));
    } else if (attention != NULL && dense_every == S2_PROPOSE_ANY) {
        S2_TRY(put_dense_choice(attention, buf));
    } else if (dense_every > 0) {
        s2_buf_printf(buf, "; layers %d::%d: dense", (int)dense_every - 1, (int)dense_every);
    } else if (dense_every == S2_PROPOSE_ANY) {
        s2_buf_puts(buf, "; {,layers 1::2: dense,layers 3::4: dense,layers 7::8: dense}");
    }
    return buf->status;
}
