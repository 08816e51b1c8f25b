/*
 * Bodies: terms with their arguments and conditions.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/mask.h"
#include "pattern/parser.h"

/* --- numbers of terms ------------------------------------------------------------------------------- */

static int64_t context_in(const s2_parser *p, bool tok)
{
    return S2_LIMIT_CONTEXT_TOK / (tok ? 1 : p->shape[S2_SHAPE_BLOCK]);
}

static s2_status check_bounds(s2_parser *p, const char *what, s2_number number, int64_t lowest, int64_t most)
{
    if (number.value < lowest)
        return S2_REFUSE(p, S2P_TOO_SMALL, number.pos, "%s must be at least %lld", what, (long long)lowest);
    if (number.value > most)
        return S2_REFUSE(p, S2P_LIMIT, number.pos, "%s is at most %lld%s", what, (long long)most,
                         number.tok ? "t" : "");
    return S2_OK;
}

static s2_status read_extent(s2_parser *p, const char *what, s2_term *term)
{
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, what, S2_UNIT_EITHER, &number));
    S2_TRY(check_bounds(p, what, number, 1, context_in(p, number.tok)));
    term->n = number.value;
    term->tok = number.tok;
    return S2_OK;
}

static s2_status read_count(s2_parser *p, const char *what, s2_unit_rule units, int64_t most, int64_t *out)
{
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, what, units, &number));
    S2_TRY(check_bounds(p, what, number, 1, most));
    *out = number.value;
    return S2_OK;
}

static s2_status require_word(s2_parser *p, const char *text, const char *meaning)
{
    s2_lex_skip_blanks(&p->lex);
    if (s2_parse_take_word(p, text))
        return S2_OK;
    return S2_REFUSE(p, S2P_EXPECTED, p->lex.pos, "expected '%s', %s", text, meaning);
}

/* --- offset -------------------------------------------------------------------------------------------- */

typedef struct offset_part {
    int64_t factor;
    int64_t *coef; /* NULL: a constant */
} offset_part;

static s2_status read_offset_factor(s2_parser *p, s2_offset_expr *offset, offset_part *part)
{
    static const char *const words[] = {
#define OFFSET_WORD(word, coef) word,
        S2_OFFSET_TABLE(OFFSET_WORD) NULL
#undef OFFSET_WORD
    };
    const s2_word word = s2_lex_word(&p->lex, false);
    if (word.n == 0) {
        s2_number number;
        S2_TRY(s2_lex_number(&p->lex, "a phase", S2_UNIT_NONE, &number));
        S2_TRY(check_bounds(p, "a number of a phase", number, 0, S2_LIMIT_CONTEXT_TOK));
        if (!s2_mul_i64(part->factor, number.value, &part->factor) || part->factor > S2_LIMIT_CONTEXT_TOK)
            return S2_REFUSE(p, S2P_LIMIT, number.pos, "a product in a phase must be at most %d",
                             S2_LIMIT_CONTEXT_TOK);
        return S2_OK;
    }
    if (!s2_word_among(word, words))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "part of a phase", words);
    if (part->coef != NULL)
        return S2_REFUSE(p, S2P_EXPECTED, word.pos,
                         "expected a constant: only one of head, kv and layer per product");
#define OFFSET_COEF(text, field)                                                                             \
    if (s2_word_is(word, text))                                                                              \
        part->coef = &offset->field;
    S2_OFFSET_TABLE(OFFSET_COEF)
#undef OFFSET_COEF
    return S2_OK;
}

static s2_status read_offset(s2_parser *p, s2_offset_expr *offset)
{
    do {
        s2_lex_skip_blanks(&p->lex);
        const size_t begin = p->lex.pos;
        offset_part part = {.factor = 1};
        do
            S2_TRY(read_offset_factor(p, offset, &part));
        while (s2_lex_take(&p->lex, '*'));
        int64_t *const sum = part.coef != NULL ? part.coef : &offset->constant;
        *sum += part.factor;
        if (*sum > S2_LIMIT_CONTEXT_TOK)
            return S2_REFUSE(p, S2P_LIMIT, begin, "the numbers in a phase must add up to at most %d",
                             S2_LIMIT_CONTEXT_TOK);
    } while (s2_lex_take(&p->lex, '+'));
    if (s2_lex_peek(&p->lex) == '-')
        return S2_REFUSE(p, S2P_NEGATIVE, p->lex.pos,
                         "a phase cannot subtract: add the stride minus the number");
    return S2_OK;
}

/* --- terms --------------------------------------------------------------------------------------------- */

static s2_status read_width(s2_parser *p, s2_term *term)
{
    s2_number width;
    S2_TRY(s2_lex_number(&p->lex, "the width", S2_UNIT_EITHER, &width));
    if (width.tok != term->tok)
        return S2_REFUSE(p, S2P_MIXED_UNITS, width.pos, "the width must be in the unit of the stride: %s",
                         term->tok ? "add the suffix t" : "leave out the suffix t");
    S2_TRY(check_bounds(p, "the width", width, 1, term->n));
    term->width = width.value;
    return S2_OK;
}

static s2_status read_stride(s2_parser *p, const char *what, s2_term *term)
{
    s2_number stride;
    S2_TRY(s2_lex_number(&p->lex, what, S2_UNIT_EITHER, &stride));
    S2_TRY(check_bounds(p, what, stride, 1, S2_LIMIT_STRIDE));
    term->n = stride.value;
    term->tok = stride.tok;
    bool has_width = false, has_offset = false;
    for (;;) {
        s2_lex_skip_blanks(&p->lex);
        const size_t pos = p->lex.pos;
        if (s2_parse_take_word(p, "width")) {
            if (has_width)
                return s2_parse_refuse_twice(p, pos, "width");
            has_width = true;
            S2_TRY(read_width(p, term));
        } else if (s2_parse_take_word(p, "phase")) {
            if (has_offset)
                return s2_parse_refuse_twice(p, pos, "phase");
            has_offset = true;
            S2_TRY(read_offset(p, &term->offset));
        } else {
            return S2_OK;
        }
    }
}

typedef struct list_reader {
    int32_t n_spans;
    int64_t cap_spans;
    s2_span *spans;
    bool has_unit, tok;
} list_reader;

static s2_status check_list_number(s2_parser *p, list_reader *list, bool has, s2_number number)
{
    if (!has)
        return S2_OK;
    if (list->has_unit && list->tok != number.tok)
        return S2_REFUSE(p, S2P_MIXED_UNITS, number.pos,
                         "the numbers of a list must have one unit: all with t or none");
    list->has_unit = true;
    list->tok = number.tok;
    return check_bounds(p, "a number of a list", number, 0, context_in(p, number.tok));
}

static s2_status list_add(s2_parser *p, list_reader *list, s2_span span)
{
    S2_TRY(S2_ARENA_ROOM(&p->scratch, list->spans, list->n_spans, list->cap_spans));
    list->spans[list->n_spans++] = span;
    return S2_OK;
}

static s2_status read_span_list(s2_parser *p, s2_term *term)
{
    list_reader list = {0};
    do {
        s2_span span = {0, S2_OPEN, 1};
        if (!s2_parse_take_word(p, "all")) {
            s2_item item;
            S2_TRY(s2_lex_item(&p->lex, false, S2_UNIT_EITHER, &item));
            S2_TRY(check_list_number(p, &list, item.has_begin, item.begin));
            S2_TRY(check_list_number(p, &list, item.has_end, item.end));
            S2_TRY(check_list_number(p, &list, item.has_step, item.step));
            S2_TRY(s2_parse_item_span(p, &item, &span));
            if (span.end != S2_OPEN && span.end > context_in(p, list.tok))
                return S2_REFUSE(p, S2P_LIMIT, item.pos, "a number in a list must be below %lld%s",
                                 (long long)context_in(p, list.tok), list.tok ? "t" : "");
        }
        S2_TRY(list_add(p, &list, span));
    } while (s2_lex_take(&p->lex, ','));
    term->tok = list.tok;
    term->list = (s2_span_list){list.n_spans, list.spans};
    return S2_OK;
}

static s2_status read_draw(s2_parser *p, const char *what, s2_term *term)
{
    S2_TRY(read_count(p, what, S2_UNIT_NONE, S2_LIMIT_RANDOM, &term->n));
    S2_TRY(require_word(p, "seed", "the number that fixes the draw"));
    return s2_lex_u64(&p->lex, "the seed", &term->seed);
}

static s2_status read_pages(s2_parser *p, const char *what, s2_term *term)
{
    S2_TRY(read_count(p, what, S2_UNIT_NONE, S2_LIMIT_CONTEXT_TOK, &term->n));
    S2_TRY(require_word(p, "page", "the tokens of a page"));
    return read_count(p, "the page", S2_UNIT_EITHER, S2_LIMIT_CONTEXT_TOK, &term->page_tok);
}

/* --- masks ---------------------------------------------------------------------------------------------- */

static s2_status refuse_mask(s2_parser *p, size_t pos, s2_status status, const s2_diag *why)
{
    if (status == S2_ENOMEM)
        return status;
    return S2_REFUSE(p, status == S2_EIO ? S2P_MASK_FILE : S2P_MASK_FORMAT, pos, "%s", why->msg);
}

static s2_status check_mask(s2_parser *p, size_t pos, const s2_mask *mask)
{
    if (mask->n_heads != 1 && mask->n_heads != p->shape[S2_SHAPE_HEADS])
        return S2_REFUSE(p, S2P_MASK_SHAPE, pos, "the mask is for %d heads, the pattern has %lld",
                         mask->n_heads, (long long)p->shape[S2_SHAPE_HEADS]);
    if (p->shape_stated[S2_SHAPE_BLOCK] == 0)
        return S2_REFUSE(p, S2P_MASK_SHAPE, pos,
                         "the mask is %d x %d blocks of unknown size: say 'block 1' where a row is one "
                         "token, 'block 64' where it is 64",
                         mask->n_q_blk, mask->n_k_blk);
    const int64_t most = context_in(p, false);
    if (mask->n_q_blk > most || mask->n_k_blk > most)
        return S2_REFUSE(
            p, S2P_MASK_SHAPE, pos,
            "the mask is %d x %d blocks of %lld tokens, more than 2^24 tokens: are its rows tokens?",
            mask->n_q_blk, mask->n_k_blk, (long long)p->shape[S2_SHAPE_BLOCK]);
    if (p->causal && mask->n_later > 0)
        return S2_REFUSE(
            p, S2P_MASK_LATER, pos,
            "the mask allows %lld pairs of a query and a later key, in %s, which a causal pattern never "
            "reads: 'causal no' reads them, 's2 import' of the file with --set causal=1 leaves them out",
            (long long)mask->n_later, p->shape[S2_SHAPE_BLOCK] > 1 ? "blocks" : "tokens");
    return S2_OK;
}

static const char *mask_path(s2_parser *p, const char *path)
{
    const char *const dir = p->options != NULL ? p->options->dir : NULL;
    if (dir == NULL || path[0] == '/')
        return path;
    const size_t n = strlen(dir) + strlen(path) + 2;
    char *const joined = S2_NEW(&p->scratch, char, n);
    if (joined != NULL)
        snprintf(joined, n, "%s/%s", dir, path);
    return joined;
}

static s2_status keep_mask(s2_parser *p, s2_mask *mask)
{
    S2_TRY(S2_ARENA_ROOM(&p->scratch, p->masks, p->n_masks, p->cap_masks));
    p->masks[p->n_masks++] = mask;
    return S2_OK;
}

static s2_status load_mask(s2_parser *p, size_t pos, const char *path, s2_mask **out)
{
    s2_mask *const mask = S2_NEW(p->arena, s2_mask, 1);
    const char *const full = mask_path(p, path);
    if (mask == NULL || full == NULL)
        return S2_ENOMEM;
    s2_diag why = {0};
    const s2_status status = s2_mask_load(p->arena, full, mask, &why);
    if (status != S2_OK)
        return refuse_mask(p, pos, status, &why);
    mask->path = path;
    const s2_status kept = keep_mask(p, mask);
    if (kept != S2_OK) {
        s2_mask_unload(mask);
        return kept;
    }
    *out = mask;
    return check_mask(p, pos, mask);
}

/* A file named by several terms is read and checked once. */
static s2_status find_mask(s2_parser *p, size_t pos, const char *path, s2_mask **out)
{
    for (int32_t m = 0; m < p->n_masks; m++)
        if (strcmp(p->masks[m]->path, path) == 0) {
            *out = p->masks[m];
            return S2_OK;
        }
    return load_mask(p, pos, path, out);
}

static bool is_digest(s2_word word)
{
    size_t n = 0;
    while (n < word.n && memchr("0123456789abcdef", word.text[n], 16) != NULL)
        n++;
    return n == word.n && n == S2_HASH_HEX - 1;
}

/* What the file held when the text was written; a person may leave it out. */
static s2_status read_digest(s2_parser *p, const s2_mask *mask)
{
    if (!s2_parse_take_word(p, "digest"))
        return S2_OK;
    const s2_word word = s2_lex_run(&p->lex);
    if (!is_digest(word))
        return S2_REFUSE(p, S2P_EXPECTED, word.pos,
                         "expected the %d digits, 0-9 and a-f, that 's2 show --canonical' writes",
                         S2_HASH_HEX - 1);
    if (memcmp(word.text, mask->digest, word.n) != 0)
        return S2_REFUSE(
            p, S2P_MASK_CHANGED, word.pos,
            "the file holds %.12s..., not %.12s...: put back the file that this text was written "
            "for, or leave out 'digest' to read the pattern as it is now",
            mask->digest, word.text);
    return S2_OK;
}

static s2_status read_mask(s2_parser *p, s2_term *term)
{
    s2_lex_skip_blanks(&p->lex);
    const size_t pos = p->lex.pos;
    const char *path;
    S2_TRY(s2_lex_quoted(&p->lex, p->arena, "the mask file", &path));
    if (p->options != NULL && p->options->no_files)
        return S2_REFUSE(p, S2P_MASK_REFUSED, pos,
                         "mask files are refused here: this text may come from elsewhere");
    s2_mask *mask = NULL;
    S2_TRY(find_mask(p, pos, path, &mask));
    term->mask = mask;
    return read_digest(p, mask);
}

/* ---- when */

typedef struct bound {
    bool has;
    s2_number number;
} bound;

static s2_status read_bound(s2_parser *p, bound *out)
{
    const char next = s2_lex_peek(&p->lex);
    *out = (bound){.has = (next >= '0' && next <= '9') || next == '-'};
    if (!out->has)
        return S2_OK;
    S2_TRY(s2_lex_number(&p->lex, "a bound", S2_UNIT_EITHER, &out->number));
    return check_bounds(p, "a bound", out->number, 0, context_in(p, out->number.tok));
}

static s2_status read_range(s2_parser *p, bound *low, bound *high)
{
    s2_lex *const lex = &p->lex;
    s2_lex_skip_blanks(lex);
    const size_t pos = lex->pos;
    S2_TRY(read_bound(p, low));
    if (!s2_lex_take(lex, '.') || lex->pos >= lex->n || lex->text[lex->pos] != '.')
        return S2_REFUSE(p, S2P_EXPECTED, low->has ? lex->pos : pos, "expected a range A..B, A.. or ..B");
    lex->pos++;
    S2_TRY(read_bound(p, high));
    if (!low->has && !high->has)
        return S2_REFUSE(p, S2P_EXPECTED, pos, "expected a bound on at least one side of '..'");
    if (low->has && high->has && low->number.tok == high->number.tok &&
        low->number.value >= high->number.value)
        return S2_REFUSE(p, S2P_RANGE, pos, "the range %lld..%lld is empty or reversed",
                         (long long)low->number.value, (long long)high->number.value);
    return S2_OK;
}

static s2_status read_condition(s2_parser *p, s2_term *term)
{
    static const char *const words[] = {
#define WHEN_WORD(name, word) word,
        S2_WHEN_TABLE(WHEN_WORD) NULL
#undef WHEN_WORD
    };
    const s2_word word = s2_lex_word(&p->lex, true);
    if (word.n == 0)
        return S2_REFUSE(p, S2P_EXPECTED, word.pos, "expected distance, key or query");
    if (!s2_word_among(word, words))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "condition", words);
    int what = 0;
    while (!s2_word_is(word, words[what]))
        what++;
    bound low, high;
    S2_TRY(read_range(p, &low, &high));
    s2_range *const low_range = &term->when[what][low.number.tok ? S2_UNIT_TOK : S2_UNIT_BLK];
    s2_range *const high_range = &term->when[what][high.number.tok ? S2_UNIT_TOK : S2_UNIT_BLK];
    if (low.has && low.number.value > low_range->begin)
        low_range->begin = low.number.value;
    if (high.has && high.number.value < high_range->end)
        high_range->end = high.number.value;
    return S2_OK;
}

static s2_status read_when(s2_parser *p, s2_term *term)
{
    if (!s2_parse_take_word(p, "when"))
        return S2_OK;
    do
        S2_TRY(read_condition(p, term));
    while (s2_lex_take(&p->lex, '&'));
    return S2_OK;
}

/* ---- bodies */

int s2_parse_term_kind(s2_word word)
{
    int kind = 0;
    while (kind < S2_N_TERM_KINDS && !s2_word_is(word, s2_term_word((s2_term_kind)kind)))
        kind++;
    return kind;
}

static s2_status read_arguments(s2_parser *p, const s2_term_row *row, s2_term *term)
{
    switch (row->args) {
    case S2_ARGS_NONE: return S2_OK;
    case S2_ARGS_EXTENT: return read_extent(p, row->number, term);
    case S2_ARGS_STRIDE: return read_stride(p, row->number, term);
    case S2_ARGS_LIST: return read_span_list(p, term);
    case S2_ARGS_DRAW: return read_draw(p, row->number, term);
    case S2_ARGS_FILE: return read_mask(p, term);
    case S2_ARGS_PAGES: return read_pages(p, row->number, term);
    case S2_ARGS_COUNT: return read_count(p, row->number, S2_UNIT_EITHER, S2_LIMIT_CONTEXT_TOK, &term->n);
    }
    return S2_EINVAL;
}

/* Words that may follow a term of this kind, to suggest one for a word that may not. */
static const char *const *words_after(const s2_term_row *row)
{
    static const char *const stride[] = {"width", "phase", "when", NULL};
    static const char *const file[] = {"digest", "when", NULL};
    static const char *const other[] = {"when", NULL};
    return row->args == S2_ARGS_STRIDE ? stride : row->args == S2_ARGS_FILE ? file : other;
}

static s2_status refuse_after_term(s2_parser *p, const s2_term_row *row)
{
    const s2_word word = s2_lex_word(&p->lex, true);
    const int next = s2_parse_term_kind(word);
    if (next < S2_N_TERM_KINDS)
        return S2_REFUSE(p, S2P_WORD, word.pos, "expected '|' before '%s': it joins terms",
                         s2_term_word((s2_term_kind)next));
    if (word.n > 0)
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "word after the term:", words_after(row));
    const bool is_fraction = word.pos + 1 < p->lex.n && p->lex.text[word.pos] == '.' && word.pos > 0 &&
                             isdigit((unsigned char)p->lex.text[word.pos - 1]) &&
                             isdigit((unsigned char)p->lex.text[word.pos + 1]);
    return S2_REFUSE(p, S2P_TRAILING, word.pos, "%sexpected '|', 'when', a line end or ';' after the term",
                     is_fraction ? "numbers are whole; " : "");
}

static s2_status refuse_term(s2_parser *p, s2_word word)
{
    const char *words[S2_N_TERM_KINDS + 1] = {NULL};
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++)
        words[kind] = s2_term_word((s2_term_kind)kind);
    return s2_lex_refuse_word(&p->lex, S2P_TERM, word, "term", words);
}

/* Read a term into its canonical form. */
static s2_status read_term(s2_parser *p, s2_term *out)
{
    const s2_word word = s2_lex_word(&p->lex, true);
    if (word.n == 0)
        return S2_REFUSE(p, S2P_EXPECTED, word.pos, "expected a term: dense, none, local, sink, stride, ...");
    const int kind = s2_parse_term_kind(word);
    if (kind == S2_N_TERM_KINDS)
        return refuse_term(p, word);
    const s2_term_row *const row = s2_term_row_of((s2_term_kind)kind);
    s2_term term = s2_term_init((s2_term_kind)kind, 0), made;
    S2_TRY(read_arguments(p, row, &term));
    S2_TRY(read_when(p, &term));
    const s2_status status = s2_term_canonical(p->arena, (int32_t)p->shape[S2_SHAPE_BLOCK], &term, &made);
    if (status == S2_EINVAL)
        return S2_REFUSE(p, S2P_RANGE, word.pos,
                         "the conditions of '%s' exclude each other: it could never read", row->word);
    S2_TRY(status);
    const char next = s2_lex_peek(&p->lex);
    if (next != '\0' && next != '|')
        return refuse_after_term(p, row);
    *out = made;
    return S2_OK;
}

static s2_status read_terms(s2_parser *p, s2_body *out)
{
    int32_t n = 0;
    int64_t cap = 0;
    s2_term *terms = NULL;
    do {
        S2_TRY(S2_ARENA_ROOM(&p->scratch, terms, n, cap));
        S2_TRY(read_term(p, &terms[n]));
        n++;
    } while (s2_lex_take(&p->lex, '|'));
    *out = (s2_body){n, terms};
    return S2_OK;
}

/* Keep the body under its canonical text; equal bodies get one number. */
static s2_status keep_body(s2_parser *p, const s2_body *body, int32_t *out)
{
    p->text.len = 0;
    s2_body_print(body, &p->text);
    S2_TRY(p->text.status);
    int32_t number;
    S2_TRY(s2_text_set_add(&p->scratch, &p->body_texts, p->text.data, p->text.len, &number));
    S2_TRY(S2_ARENA_ROOM(&p->scratch, p->bodies, number, p->cap_bodies));
    p->bodies[number] = *body;
    *out = number;
    return S2_OK;
}

s2_status s2_parse_body(s2_parser *p, int32_t *out)
{
    s2_body read, distinct;
    S2_TRY(read_terms(p, &read));
    S2_TRY(s2_body_distinct(p->arena, &read, &distinct));
    return keep_body(p, &distinct, out);
}

s2_status s2_parse_empty_body(s2_parser *p, int32_t *out)
{
    s2_body none;
    S2_TRY(s2_body_distinct(p->arena, &(s2_body){0, NULL}, &none));
    return keep_body(p, &none, out);
}
