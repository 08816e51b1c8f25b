#include "pattern/parse.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pattern/canon.h"
#include "pattern/lex.h"
#include "pattern/mask.h"
#include "pattern/models.h"

/*
 * Two passes over the statements. The first reads the shape, so that a rule may stand before the
 * shape it refers to; the second reads the rules, each into bit sets of its layers and heads. Rules
 * are then resolved from the last to the first: a cell that is already taken is never visited
 * again, and sixty-four heads go in one step, so that 4096 rules on 1024 layers of 4096 heads cost
 * a fraction of a second.
 */

enum { SHAPE_LAYERS, SHAPE_HEADS, SHAPE_KV_HEADS, SHAPE_HEAD_DIM, SHAPE_BLOCK, N_SHAPE_NUMBERS };

typedef struct shape_word {
    const char *word;
    int64_t most;
} shape_word;
static const shape_word shape_words[N_SHAPE_NUMBERS] = {
    [SHAPE_LAYERS] = {"layers", S2_LIMIT_LAYERS},    [SHAPE_HEADS] = {"heads", S2_LIMIT_HEADS},
    [SHAPE_KV_HEADS] = {"kv-heads", S2_LIMIT_HEADS}, [SHAPE_HEAD_DIM] = {"head-dim", S2_LIMIT_HEAD_DIM},
    [SHAPE_BLOCK] = {"block", S2_LIMIT_BLOCK_TOK},
};

static const char *const statement_words[] = {
    "name",    "model",  "layers", "heads", "kv-heads", "head-dim", "block",  "causal",  "kv",
    "prefill", "decode", "dense",  "none",  "local",    "sink",     "stride", "dilated", "columns",
    "rows",    "chunk",  "random", "mask",  "pages",    "heavy",    "topk",   NULL};
static const char *const selector_words[] = {"layers", "heads", "kv", "prefill", "decode", "all", NULL};

typedef struct rule {
    uint32_t phases;
    int32_t body;
    size_t at;
    uint64_t *layers; /* bit sets */
    uint64_t *heads;
} rule;

typedef struct parser {
    s2_lex lex;
    s2_arena *arena;  /* of the result */
    s2_arena scratch; /* gone when parsing ends */
    s2_buf text;      /* of the body at hand */
    const s2_parse_options *options;

    const char *name; /* NULL: not stated */
    const s2_model *model;
    int64_t shape[N_SHAPE_NUMBERS];
    size_t shape_at[N_SHAPE_NUMBERS]; /* offset + 1 of the statement, 0: not stated */
    bool has_causal, causal;

    int32_t layer_words, head_words; /* of the bit sets */
    int32_t n_rules, cap_rules;
    rule *rules;
    s2_text_set body_texts; /* bodies by their canonical text */
    int32_t cap_bodies;
    s2_body *bodies;
    int32_t n_masks, cap_masks;
    s2_mask **masks;
} parser;

#define REFUSE(p, code, at, ...) s2_lex_refuse(&(p)->lex, code, at, __VA_ARGS__)

static s2_status expect_end(parser *p, const char *after)
{
    if (s2_lex_at_end(&p->lex))
        return S2_OK;
    return REFUSE(p, S2P_TRAILING, p->lex.at, "expected a line end or ';' after %s", after);
}

/* --- shape ---------------------------------------------------------------------------------------- */

static s2_status refuse_twice(parser *p, size_t at, const char *word)
{
    return REFUSE(p, S2P_DUPLICATE, at, "'%s' is stated twice", word);
}

static s2_status read_name(parser *p, s2_word word)
{
    s2_lex *const lex = &p->lex;
    if (p->name != NULL)
        return refuse_twice(p, word.at, "name");
    const char first = s2_lex_peek(lex);
    const size_t begin = lex->at;
    if (first == '\0')
        return REFUSE(p, S2P_EXPECTED, begin, "expected a name");
    if (first == '"') {
        S2_TRY(s2_lex_quoted(lex, p->arena, "the name", &p->name));
        S2_TRY(expect_end(p, "the quoted name"));
    } else {
        size_t end = begin;
        while (s2_lex_peek(lex) != '\0')
            end = ++lex->at;
        char *const copy = s2_arena_strndup(p->arena, lex->text + begin, end - begin);
        if (copy == NULL)
            return S2_ENOMEM;
        for (char *tab = strchr(copy, '\t'); tab != NULL; tab = strchr(tab, '\t'))
            *tab = ' ';
        p->name = copy;
    }
    if (strlen(p->name) > S2_LIMIT_NAME_BYTES)
        return REFUSE(p, S2P_NAME, begin, "the name is longer than %d bytes", S2_LIMIT_NAME_BYTES);
    return S2_OK;
}

static s2_status refuse_model(parser *p, s2_word word)
{
    const char *names[64] = {NULL};
    for (int32_t m = 0; m < s2_model_count() && m < 63; m++)
        names[m] = s2_model_at(m)->name;
    return s2_lex_refuse_word(&p->lex, S2P_MODEL, word, "model", names);
}

static s2_status read_model(parser *p, s2_word word)
{
    if (p->model != NULL)
        return refuse_twice(p, word.at, "model");
    for (int what = 0; what < SHAPE_BLOCK; what++)
        if (p->shape_at[what] != 0)
            return REFUSE(p, S2P_MODEL_LATE, word.at, "'model' must come before '%s', which overrides it",
                          shape_words[what].word);
    const s2_word name = s2_lex_run(&p->lex);
    if (name.n == 0)
        return REFUSE(p, S2P_EXPECTED, name.at, "expected the name of a model");
    p->model = s2_model_find(name.text, name.n);
    if (p->model == NULL)
        return refuse_model(p, name);
    p->shape[SHAPE_LAYERS] = p->model->n_layers;
    p->shape[SHAPE_HEADS] = p->model->n_heads;
    p->shape[SHAPE_KV_HEADS] = p->model->n_kv_heads;
    p->shape[SHAPE_HEAD_DIM] = p->model->head_dim;
    return expect_end(p, "the model");
}

static s2_status read_causal(parser *p, s2_word word)
{
    static const char *const answers[] = {"yes", "no", NULL};
    if (p->has_causal)
        return refuse_twice(p, word.at, "causal");
    const s2_word answer = s2_lex_word(&p->lex, true);
    if (answer.n == 0)
        return REFUSE(p, S2P_EXPECTED, answer.at, "expected yes or no");
    if (!s2_word_is(answer, "yes") && !s2_word_is(answer, "no"))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, answer, "answer, expected yes or no, not", answers);
    p->has_causal = true;
    p->causal = s2_word_is(answer, "yes");
    return expect_end(p, "causal");
}

static s2_status read_shape_number(parser *p, int what, s2_word word)
{
    if (p->shape_at[what] != 0)
        return refuse_twice(p, word.at, shape_words[what].word);
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, shape_words[what].word, S2_UNIT_NONE, &number));
    if (number.value < 1)
        return REFUSE(p, S2P_TOO_SMALL, number.at, "%s must be at least 1", shape_words[what].word);
    if (number.value > shape_words[what].most)
        return REFUSE(p, S2P_LIMIT, number.at, "%s is at most %lld", shape_words[what].word,
                      (long long)shape_words[what].most);
    if (what == SHAPE_BLOCK && (number.value & (number.value - 1)) != 0)
        return REFUSE(p, S2P_BLOCK, number.at, "block must be a power of two from 1 to 1024");
    p->shape[what] = number.value;
    p->shape_at[what] = word.at + 1;
    return expect_end(p, shape_words[what].word);
}

/* `layers 32` and `layers 0: dense` start alike: a rule has a colon somewhere. */
static bool statement_has_colon(const parser *p)
{
    s2_lex ahead = p->lex;
    for (char byte = s2_lex_peek(&ahead); byte != '\0' && byte != '"'; byte = s2_lex_peek(&ahead)) {
        if (byte == ':')
            return true;
        ahead.at++;
    }
    return false;
}

static int shape_word_index(s2_word word)
{
    for (int what = 0; what < N_SHAPE_NUMBERS; what++)
        if (s2_word_is(word, shape_words[what].word))
            return what;
    return -1;
}

static bool word_in(s2_word word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (s2_word_is(word, *list))
            return true;
    return false;
}

/* True when the statement at the cursor is one of the shape; its first word is then consumed. */
static bool starts_shape(parser *p, s2_word *word)
{
    const size_t begin = p->lex.at;
    *word = s2_lex_word(&p->lex, true);
    const int what = shape_word_index(*word);
    const bool always = what > SHAPE_HEADS || s2_word_is(*word, "name") || s2_word_is(*word, "model") ||
                        s2_word_is(*word, "causal");
    if (always || (what >= 0 && !statement_has_colon(p)))
        return true;
    p->lex.at = begin;
    return false;
}

static s2_status read_shape_statement(parser *p, s2_word word)
{
    if (s2_word_is(word, "name"))
        return read_name(p, word);
    if (s2_word_is(word, "model"))
        return read_model(p, word);
    if (s2_word_is(word, "causal"))
        return read_causal(p, word);
    return read_shape_number(p, shape_word_index(word), word);
}

static s2_status check_kv_heads(parser *p)
{
    const int64_t heads = p->shape[SHAPE_HEADS], kv = p->shape[SHAPE_KV_HEADS];
    if (heads % kv == 0)
        return S2_OK;
    const size_t at = p->shape_at[p->shape_at[SHAPE_KV_HEADS] != 0 ? SHAPE_KV_HEADS : SHAPE_HEADS] - 1;
    return REFUSE(p, S2P_KV_HEADS, at, "kv-heads %lld%s does not divide heads %lld", (long long)kv,
                  p->shape_at[SHAPE_KV_HEADS] == 0 ? " of the model" : "", (long long)heads);
}

static s2_status read_shape(parser *p)
{
    s2_lex *const lex = &p->lex;
    const size_t begin = lex->at;
    size_t first_rule = lex->n;
    for (s2_lex_skip_between(lex); lex->at < lex->n; s2_lex_skip_between(lex)) {
        const size_t at = lex->at;
        s2_word word;
        if (starts_shape(p, &word)) {
            S2_TRY(read_shape_statement(p, word));
            continue;
        }
        word = s2_lex_word(lex, true);
        if (word.n > 0 && !word_in(word, statement_words) && !s2_word_is(word, "all"))
            return s2_lex_refuse_word(lex, S2P_STATEMENT, word, "statement", statement_words);
        if (word.n == 0 && s2_lex_peek(lex) != ':')
            return REFUSE(p, S2P_EXPECTED, at, "expected a statement: a shape word or a rule");
        first_rule = first_rule < at ? first_rule : at;
        s2_lex_skip_statement(lex);
    }
    lex->at = begin;
    if (p->shape[SHAPE_HEADS] == 0)
        return REFUSE(
            p, S2P_NO_HEADS, first_rule,
            "'heads N' is missing: a statement of its own before the rules, or a model that gives it");
    if (p->shape[SHAPE_KV_HEADS] == 0)
        p->shape[SHAPE_KV_HEADS] = p->shape[SHAPE_HEADS];
    return check_kv_heads(p);
}

/* --- numbers of terms ------------------------------------------------------------------------------- */

static int64_t context_in(const parser *p, bool tok)
{
    return S2_LIMIT_CONTEXT_TOK / (tok ? 1 : p->shape[SHAPE_BLOCK]);
}

static s2_status check_bounds(parser *p, const char *what, s2_number number, int64_t lowest, int64_t most)
{
    if (number.value < lowest)
        return REFUSE(p, S2P_TOO_SMALL, number.at, "%s must be at least %lld", what, (long long)lowest);
    if (number.value > most)
        return REFUSE(p, S2P_LIMIT, number.at, "%s is at most %lld%s", what, (long long)most,
                      number.tok ? "t" : "");
    return S2_OK;
}

static s2_status read_extent(parser *p, const char *what, s2_term *term)
{
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, what, S2_UNIT_EITHER, &number));
    S2_TRY(check_bounds(p, what, number, 1, context_in(p, number.tok)));
    term->n = number.value;
    term->tok = number.tok;
    return S2_OK;
}

static s2_status read_count(parser *p, const char *what, s2_unit_rule units, int64_t most, int64_t *out)
{
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, what, units, &number));
    S2_TRY(check_bounds(p, what, number, 1, most));
    *out = number.value;
    return S2_OK;
}

/* Consume the word when it is next. */
static bool take_word(parser *p, const char *text)
{
    const size_t begin = p->lex.at;
    if (s2_word_is(s2_lex_word(&p->lex, true), text))
        return true;
    p->lex.at = begin;
    return false;
}

static s2_status require_word(parser *p, const char *text, const char *meaning)
{
    s2_lex_skip_blanks(&p->lex);
    if (take_word(p, text))
        return S2_OK;
    return REFUSE(p, S2P_EXPECTED, p->lex.at, "expected '%s', %s", text, meaning);
}

/* --- phase -------------------------------------------------------------------------------------------- */

typedef struct phase_part {
    int64_t factor;
    int64_t *coef; /* NULL: a constant */
} phase_part;

static s2_status read_phase_factor(parser *p, s2_phase_expr *phase, phase_part *part)
{
    static const char *const words[] = {"head", "kv", "layer", NULL};
    const s2_word word = s2_lex_word(&p->lex, false);
    if (word.n == 0) {
        s2_number number;
        S2_TRY(s2_lex_number(&p->lex, "a phase", S2_UNIT_NONE, &number));
        S2_TRY(check_bounds(p, "a number of a phase", number, 0, S2_LIMIT_CONTEXT_TOK));
        if (!s2_mul_i64(part->factor, number.value, &part->factor) || part->factor > S2_LIMIT_CONTEXT_TOK)
            return REFUSE(p, S2P_LIMIT, number.at, "a product of a phase is at most %d",
                          S2_LIMIT_CONTEXT_TOK);
        return S2_OK;
    }
    if (!word_in(word, words))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "part of a phase", words);
    if (part->coef != NULL)
        return REFUSE(p, S2P_EXPECTED, word.at,
                      "expected a constant: only one of head, kv and layer per product");
    part->coef = s2_word_is(word, "head") ? &phase->head_coef
                 : s2_word_is(word, "kv") ? &phase->kv_coef
                                          : &phase->layer_coef;
    return S2_OK;
}

static s2_status read_phase(parser *p, s2_phase_expr *phase)
{
    do {
        s2_lex_skip_blanks(&p->lex);
        const size_t begin = p->lex.at;
        phase_part part = {.factor = 1};
        do
            S2_TRY(read_phase_factor(p, phase, &part));
        while (s2_lex_take(&p->lex, '*'));
        int64_t *const sum = part.coef != NULL ? part.coef : &phase->constant;
        *sum += part.factor;
        if (*sum > S2_LIMIT_CONTEXT_TOK)
            return REFUSE(p, S2P_LIMIT, begin, "the numbers of a phase add up to at most %d",
                          S2_LIMIT_CONTEXT_TOK);
    } while (s2_lex_take(&p->lex, '+'));
    if (s2_lex_peek(&p->lex) == '-')
        return REFUSE(p, S2P_NEGATIVE, p->lex.at, "a phase has no minus: add the stride less the number");
    return S2_OK;
}

/* --- terms --------------------------------------------------------------------------------------------- */

static s2_status read_width(parser *p, s2_term *term)
{
    s2_number width;
    S2_TRY(s2_lex_number(&p->lex, "the width", S2_UNIT_EITHER, &width));
    if (width.tok != term->tok)
        return REFUSE(p, S2P_MIXED_UNITS, width.at, "the width must be in the unit of the stride: %s",
                      term->tok ? "add the suffix t" : "leave out the suffix t");
    S2_TRY(check_bounds(p, "the width", width, 1, term->n));
    term->width = width.value;
    return S2_OK;
}

static s2_status read_stride(parser *p, s2_term *term)
{
    s2_number stride;
    S2_TRY(s2_lex_number(&p->lex, "the stride", S2_UNIT_EITHER, &stride));
    S2_TRY(check_bounds(p, "the stride", stride, 1, S2_LIMIT_STRIDE));
    term->n = stride.value;
    term->tok = stride.tok;
    bool has_width = false, has_phase = false;
    for (;;) {
        s2_lex_skip_blanks(&p->lex);
        const size_t at = p->lex.at;
        if (take_word(p, "width")) {
            if (has_width)
                return refuse_twice(p, at, "width");
            has_width = true;
            S2_TRY(read_width(p, term));
        } else if (take_word(p, "phase")) {
            if (has_phase)
                return refuse_twice(p, at, "phase");
            has_phase = true;
            S2_TRY(read_phase(p, &term->phase));
        } else {
            return S2_OK;
        }
    }
}

typedef struct list_reader {
    int32_t n_spans, cap_spans;
    s2_span *spans;
    bool has_unit, tok;
} list_reader;

static s2_status check_list_number(parser *p, list_reader *list, bool has, s2_number number)
{
    if (!has)
        return S2_OK;
    if (list->has_unit && list->tok != number.tok)
        return REFUSE(p, S2P_MIXED_UNITS, number.at,
                      "the numbers of a list must have one unit: all with t or none");
    list->has_unit = true;
    list->tok = number.tok;
    return check_bounds(p, "a number of a list", number, 0, context_in(p, number.tok));
}

static s2_status list_add(parser *p, list_reader *list, s2_span span)
{
    if (list->n_spans == list->cap_spans) {
        const int32_t cap = list->cap_spans != 0 ? list->cap_spans * 2 : 8;
        s2_span *const grown =
            s2_arena_grow(&p->scratch, list->spans, (size_t)list->n_spans, (size_t)cap, sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        list->spans = grown;
        list->cap_spans = cap;
    }
    list->spans[list->n_spans++] = span;
    return S2_OK;
}

/* The span of an item; its end is S2_OPEN where the text leaves it open. */
static s2_status item_span(parser *p, const s2_item *item, s2_span *out)
{
    s2_span span = {item->has_begin ? item->begin.value : 0, S2_OPEN, 1};
    if (!item->slice)
        span.end = (item->has_end ? item->end.value : span.begin) + 1;
    else if (item->has_end)
        span.end = item->end.value;
    if (item->has_step)
        span.step = item->step.value;
    if (span.step < 1)
        return REFUSE(p, S2P_TOO_SMALL, item->step.at, "the step of a range must be at least 1");
    if (span.begin >= span.end)
        return REFUSE(p, S2P_RANGE, item->at,
                      item->slice ? "the range %lld:%lld is empty or reversed"
                                  : "the range %lld-%lld is reversed",
                      (long long)span.begin, (long long)(item->slice ? span.end : span.end - 1));
    *out = span;
    return S2_OK;
}

static s2_status read_span_list(parser *p, s2_term *term)
{
    list_reader list = {0};
    do {
        s2_span span = {0, S2_OPEN, 1};
        if (!take_word(p, "all")) {
            s2_item item;
            S2_TRY(s2_lex_item(&p->lex, false, S2_UNIT_EITHER, &item));
            S2_TRY(check_list_number(p, &list, item.has_begin, item.begin));
            S2_TRY(check_list_number(p, &list, item.has_end, item.end));
            S2_TRY(check_list_number(p, &list, item.has_step, item.step));
            S2_TRY(item_span(p, &item, &span));
            if (span.end != S2_OPEN && span.end > context_in(p, list.tok))
                return REFUSE(p, S2P_LIMIT, item.at, "a number of a list is below %lld%s",
                              (long long)context_in(p, list.tok), list.tok ? "t" : "");
        }
        S2_TRY(list_add(p, &list, span));
    } while (s2_lex_take(&p->lex, ','));
    term->tok = list.tok;
    term->list = (s2_span_list){list.n_spans, list.spans};
    return S2_OK;
}

static s2_status read_random(parser *p, s2_term *term)
{
    S2_TRY(read_count(p, "the number of random blocks", S2_UNIT_NONE, S2_LIMIT_RANDOM, &term->n));
    S2_TRY(require_word(p, "seed", "the number that fixes the draw"));
    return s2_lex_u64(&p->lex, "the seed", &term->seed);
}

static s2_status read_pages(parser *p, s2_term *term)
{
    S2_TRY(read_count(p, "the number of pages", S2_UNIT_NONE, S2_LIMIT_CONTEXT_TOK, &term->n));
    S2_TRY(require_word(p, "page", "the tokens of a page"));
    return read_count(p, "the page", S2_UNIT_EITHER, S2_LIMIT_CONTEXT_TOK, &term->page_tok);
}

/* --- masks ---------------------------------------------------------------------------------------------- */

static s2_status refuse_mask(parser *p, size_t at, s2_status status, const s2_diag *why)
{
    if (status == S2_ENOMEM)
        return status;
    return REFUSE(p, status == S2_EIO ? S2P_MASK_FILE : S2P_MASK_FORMAT, at, "%s", why->msg);
}

static s2_status check_mask(parser *p, size_t at, const s2_mask *mask)
{
    if (mask->n_heads != 1 && mask->n_heads != p->shape[SHAPE_HEADS])
        return REFUSE(p, S2P_MASK_SHAPE, at, "the mask is for %d heads, the pattern has %lld", mask->n_heads,
                      (long long)p->shape[SHAPE_HEADS]);
    const int64_t most = context_in(p, false);
    if (mask->n_q_blk > most || mask->n_k_blk > most)
        return REFUSE(
            p, S2P_MASK_SHAPE, at,
            "the mask is %d x %d blocks of %lld tokens, more than 2^24 tokens: are its rows tokens?",
            mask->n_q_blk, mask->n_k_blk, (long long)p->shape[SHAPE_BLOCK]);
    return S2_OK;
}

static const char *mask_path(parser *p, const char *path)
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

static s2_status keep_mask(parser *p, s2_mask *mask)
{
    if (p->n_masks == p->cap_masks) {
        const int32_t cap = p->cap_masks != 0 ? p->cap_masks * 2 : 4;
        s2_mask **const grown =
            s2_arena_grow(&p->scratch, p->masks, (size_t)p->n_masks, (size_t)cap, sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        p->masks = grown;
        p->cap_masks = cap;
    }
    p->masks[p->n_masks++] = mask;
    return S2_OK;
}

static s2_status load_mask(parser *p, size_t at, const char *path, s2_mask **out)
{
    s2_mask *const mask = S2_NEW(p->arena, s2_mask, 1);
    const char *const full = mask_path(p, path);
    if (mask == NULL || full == NULL)
        return S2_ENOMEM;
    s2_diag why = {0};
    const s2_status status = s2_mask_load(p->arena, full, mask, &why);
    if (status != S2_OK)
        return refuse_mask(p, at, status, &why);
    mask->path = path;
    const s2_status kept = keep_mask(p, mask);
    if (kept != S2_OK) {
        s2_mask_unmap(mask);
        return kept;
    }
    *out = mask;
    return check_mask(p, at, mask);
}

/* A file named by several terms is mapped and checked once. */
static s2_status read_mask(parser *p, s2_term *term)
{
    s2_lex_skip_blanks(&p->lex);
    const size_t at = p->lex.at;
    const char *path;
    S2_TRY(s2_lex_quoted(&p->lex, p->arena, "the mask file", &path));
    if (p->options != NULL && p->options->no_files)
        return REFUSE(p, S2P_MASK_REFUSED, at,
                      "mask files are refused here: this text may come from elsewhere");
    for (int32_t m = 0; m < p->n_masks; m++)
        if (strcmp(p->masks[m]->path, path) == 0) {
            term->mask = p->masks[m];
            return S2_OK;
        }
    s2_mask *mask = NULL;
    S2_TRY(load_mask(p, at, path, &mask));
    term->mask = mask;
    return S2_OK;
}

/* ---- when */

typedef struct bound {
    bool has;
    s2_number number;
} bound;

static s2_status read_bound(parser *p, bound *out)
{
    const char next = s2_lex_peek(&p->lex);
    *out = (bound){.has = (next >= '0' && next <= '9') || next == '-'};
    if (!out->has)
        return S2_OK;
    S2_TRY(s2_lex_number(&p->lex, "a bound", S2_UNIT_EITHER, &out->number));
    return check_bounds(p, "a bound", out->number, 0, context_in(p, out->number.tok));
}

static s2_status read_range(parser *p, bound *low, bound *high)
{
    s2_lex *const lex = &p->lex;
    s2_lex_skip_blanks(lex);
    const size_t at = lex->at;
    S2_TRY(read_bound(p, low));
    if (!s2_lex_take(lex, '.') || lex->at >= lex->n || lex->text[lex->at] != '.')
        return REFUSE(p, S2P_EXPECTED, low->has ? lex->at : at, "expected a range A..B, A.. or ..B");
    lex->at++;
    S2_TRY(read_bound(p, high));
    if (!low->has && !high->has)
        return REFUSE(p, S2P_EXPECTED, at, "expected a bound on one side of '..' at least");
    if (low->has && high->has && low->number.tok == high->number.tok &&
        low->number.value >= high->number.value)
        return REFUSE(p, S2P_RANGE, at, "the range %lld..%lld is empty or reversed",
                      (long long)low->number.value, (long long)high->number.value);
    return S2_OK;
}

static s2_status read_condition(parser *p, s2_term *term)
{
    static const char *const words[] = {"distance", "key", "query", NULL};
    const s2_word word = s2_lex_word(&p->lex, true);
    if (word.n == 0)
        return REFUSE(p, S2P_EXPECTED, word.at, "expected distance, key or query");
    if (!word_in(word, words))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "condition", words);
    const int what = s2_word_is(word, "distance") ? S2_WHEN_DISTANCE
                     : s2_word_is(word, "key")    ? S2_WHEN_KEY
                                                  : S2_WHEN_QUERY;
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

static s2_status read_when(parser *p, s2_term *term)
{
    if (!take_word(p, "when"))
        return S2_OK;
    do
        S2_TRY(read_condition(p, term));
    while (s2_lex_take(&p->lex, '&'));
    return S2_OK;
}

/* ---- bodies */

static s2_term_kind term_kind(s2_word word)
{
    int kind = 0;
    while (kind < S2_N_TERM_KINDS && !s2_word_is(word, s2_term_word((s2_term_kind)kind)))
        kind++;
    return (s2_term_kind)kind;
}

static s2_status read_arguments(parser *p, s2_term *term)
{
    switch (term->kind) {
    case S2_TERM_LOCAL: return read_extent(p, "the local window", term);
    case S2_TERM_SINK: return read_extent(p, "the sink", term);
    case S2_TERM_CHUNK: return read_extent(p, "the chunk", term);
    case S2_TERM_STRIDE:
    case S2_TERM_DILATED: return read_stride(p, term);
    case S2_TERM_COLUMNS:
    case S2_TERM_ROWS: return read_span_list(p, term);
    case S2_TERM_RANDOM: return read_random(p, term);
    case S2_TERM_MASK: return read_mask(p, term);
    case S2_TERM_PAGES: return read_pages(p, term);
    case S2_TERM_HEAVY:
        return read_count(p, "the number of heavy keys", S2_UNIT_EITHER, S2_LIMIT_CONTEXT_TOK, &term->n);
    case S2_TERM_TOPK:
        return read_count(p, "the number of best tokens", S2_UNIT_EITHER, S2_LIMIT_CONTEXT_TOK, &term->n);
    case S2_TERM_DENSE:
    case S2_TERM_NONE:
    case S2_N_TERM_KINDS: break;
    }
    return S2_OK;
}

/* Words that may follow a term of this kind, for a word that may not. */
static const char *const *words_after(s2_term_kind kind)
{
    static const char *const stride[] = {"width", "phase", "when", NULL};
    static const char *const other[] = {"when", NULL};
    return kind == S2_TERM_STRIDE || kind == S2_TERM_DILATED ? stride : other;
}

static s2_status refuse_after_term(parser *p, s2_term_kind kind)
{
    const s2_word word = s2_lex_word(&p->lex, true);
    for (int next = 0; next < S2_N_TERM_KINDS; next++)
        if (s2_word_is(word, s2_term_word((s2_term_kind)next)))
            return REFUSE(p, S2P_WORD, word.at, "expected '|' before '%s': it joins terms",
                          s2_term_word((s2_term_kind)next));
    if (word.n > 0)
        return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "word after the term:", words_after(kind));
    return REFUSE(p, S2P_TRAILING, word.at, "expected '|', 'when', a line end or ';' after the term");
}

static s2_status refuse_term(parser *p, s2_word word)
{
    const char *words[S2_N_TERM_KINDS + 1] = {NULL};
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++)
        words[kind] = s2_term_word((s2_term_kind)kind);
    return s2_lex_refuse_word(&p->lex, S2P_TERM, word, "term", words);
}

static s2_status read_term(parser *p, s2_term *out)
{
    const s2_word word = s2_lex_word(&p->lex, true);
    if (word.n == 0)
        return REFUSE(p, S2P_EXPECTED, word.at, "expected a term: dense, none, local, sink, stride, ...");
    const s2_term_kind kind = term_kind(word);
    if (kind == S2_N_TERM_KINDS)
        return refuse_term(p, word);
    s2_term term = s2_term_init(kind, 0);
    S2_TRY(read_arguments(p, &term));
    S2_TRY(read_when(p, &term));
    s2_term ignored;
    const s2_status status = s2_term_canonical(&p->scratch, (int32_t)p->shape[SHAPE_BLOCK], &term, &ignored);
    if (status == S2_EINVAL)
        return REFUSE(p, S2P_RANGE, word.at, "the conditions of '%s' exclude each other: it could never read",
                      s2_term_word(kind));
    S2_TRY(status);
    const char next = s2_lex_peek(&p->lex);
    if (next != '\0' && next != '|')
        return refuse_after_term(p, kind);
    *out = term;
    return S2_OK;
}

static s2_status read_terms(parser *p, s2_body *out)
{
    int32_t n = 0, cap = 0;
    s2_term *terms = NULL;
    do {
        if (n == cap) {
            cap = cap != 0 ? cap * 2 : 4;
            terms = s2_arena_grow(&p->scratch, terms, (size_t)n, (size_t)cap, sizeof *terms);
            if (terms == NULL)
                return S2_ENOMEM;
        }
        S2_TRY(read_term(p, &terms[n]));
        n++;
    } while (s2_lex_take(&p->lex, '|'));
    *out = (s2_body){n, terms};
    return S2_OK;
}

/* Keep the body under its canonical text; equal bodies get one number. */
static s2_status keep_body(parser *p, const s2_body *body, int32_t *out)
{
    p->text.len = 0;
    s2_body_print(body, &p->text);
    S2_TRY(p->text.status);
    int32_t number;
    S2_TRY(s2_text_set_add(&p->scratch, &p->body_texts, p->text.data, p->text.len, &number));
    if (number == p->cap_bodies) {
        const int32_t cap = p->cap_bodies != 0 ? p->cap_bodies * 2 : 8;
        s2_body *const grown =
            s2_arena_grow(&p->scratch, p->bodies, (size_t)number, (size_t)cap, sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        p->bodies = grown;
        p->cap_bodies = cap;
    }
    p->bodies[number] = *body;
    *out = number;
    return S2_OK;
}

static s2_status read_body(parser *p, int32_t *out)
{
    s2_body raw, canonical;
    S2_TRY(read_terms(p, &raw));
    S2_TRY(s2_body_canonical(p->arena, (int32_t)p->shape[SHAPE_BLOCK], &raw, &canonical));
    return keep_body(p, &canonical, out);
}

/* ---- rules */

/* Set bits begin, begin + step, ... below end; at most one operation per word for steps up to 64. */
static void set_bits(uint64_t *words, int64_t begin, int64_t end, int64_t step)
{
    if (step > 64) {
        for (int64_t bit = begin; bit < end; bit += step)
            words[bit / 64] |= UINT64_C(1) << (bit % 64);
        return;
    }
    uint64_t comb = 0;
    for (int64_t bit = 0; bit < 64; bit += step)
        comb |= UINT64_C(1) << bit;
    for (int64_t word = begin / 64, bit = begin; bit < end; word++) {
        uint64_t part = comb << (bit - word * 64);
        if (end - word * 64 < 64)
            part &= (UINT64_C(1) << (end - word * 64)) - 1;
        words[word] |= part;
        const int64_t next = (word + 1) * 64;
        bit += (next - bit + step - 1) / step * step;
    }
}

static s2_status read_selector_item(parser *p, const char *what, int64_t n_all, uint64_t *bits)
{
    if (take_word(p, "all")) {
        set_bits(bits, 0, n_all, 1);
        return S2_OK;
    }
    s2_item item;
    S2_TRY(s2_lex_item(&p->lex, true, S2_UNIT_NONE, &item));
    /* before anything is added to a number */
    const int64_t begin = item.has_begin ? item.begin.value : 0;
    const int64_t last = item.has_end ? item.end.value - item.slice : begin;
    if (begin >= n_all || last >= n_all)
        return REFUSE(p, S2P_OUT_OF_RANGE, item.at, "%s %lld is out of range: there are %lld, counted from 0",
                      what, (long long)(begin >= n_all ? begin : last), (long long)n_all);
    s2_span span;
    S2_TRY(item_span(p, &item, &span));
    set_bits(bits, span.begin, span.end == S2_OPEN ? n_all : span.end, span.step < n_all ? span.step : n_all);
    return S2_OK;
}

static s2_status read_selector_list(parser *p, const char *what, int64_t n_all, uint64_t *bits)
{
    do
        S2_TRY(read_selector_item(p, what, n_all, bits));
    while (s2_lex_take(&p->lex, ','));
    return S2_OK;
}

static s2_status read_kv_list(parser *p, uint64_t *heads)
{
    const int64_t n_kv = p->shape[SHAPE_KV_HEADS], size = p->shape[SHAPE_HEADS] / n_kv;
    uint64_t *const kv = S2_NEW(&p->scratch, uint64_t, (n_kv + 63) / 64);
    if (kv == NULL)
        return S2_ENOMEM;
    S2_TRY(read_selector_list(p, "KV head", n_kv, kv));
    for (int64_t group = 0; group < n_kv; group++)
        if (kv[group / 64] >> (group % 64) & 1)
            set_bits(heads, group * size, (group + 1) * size, 1);
    return S2_OK;
}

typedef struct selector_parts {
    bool layers, heads, phase;
} selector_parts;

static s2_status read_selector_part(parser *p, s2_word word, selector_parts *have, rule *out)
{
    if (s2_word_is(word, "all"))
        return S2_OK;
    if (s2_word_is(word, "prefill") || s2_word_is(word, "decode")) {
        if (have->phase)
            return REFUSE(p, S2P_DUPLICATE, word.at, "a rule names one phase; without one it is for both");
        have->phase = true;
        out->phases = 1u << (s2_word_is(word, "prefill") ? S2_PREFILL : S2_DECODE);
        return S2_OK;
    }
    if (s2_word_is(word, "layers")) {
        if (have->layers)
            return refuse_twice(p, word.at, "layers");
        have->layers = true;
        return read_selector_list(p, "layer", p->shape[SHAPE_LAYERS], out->layers);
    }
    if (have->heads)
        return REFUSE(p, S2P_DUPLICATE, word.at, "a rule names its heads once, by 'heads' or by 'kv'");
    have->heads = true;
    if (s2_word_is(word, "kv"))
        return read_kv_list(p, out->heads);
    return read_selector_list(p, "head", p->shape[SHAPE_HEADS], out->heads);
}

static s2_status read_selector(parser *p, rule *out)
{
    selector_parts have = {0};
    while (!s2_lex_take(&p->lex, ':')) {
        const s2_word word = s2_lex_word(&p->lex, true);
        if (word.n == 0)
            return REFUSE(p, S2P_EXPECTED, word.at, "expected ':' and a body after the selector");
        if (!word_in(word, selector_words))
            return s2_lex_refuse_word(&p->lex, S2P_WORD, word, "word in a selector:", selector_words);
        S2_TRY(read_selector_part(p, word, &have, out));
    }
    if (!have.layers)
        set_bits(out->layers, 0, p->shape[SHAPE_LAYERS], 1);
    if (!have.heads)
        set_bits(out->heads, 0, p->shape[SHAPE_HEADS], 1);
    return S2_OK;
}

/* A statement that starts with a term is the body of a rule for everything. */
static bool starts_body(const parser *p)
{
    s2_lex ahead = p->lex;
    return term_kind(s2_lex_word(&ahead, true)) != S2_N_TERM_KINDS;
}

static s2_status rule_new(parser *p, rule *out)
{
    *out = (rule){.phases = (1u << S2_PREFILL) | (1u << S2_DECODE), .at = p->lex.at};
    if (p->n_rules == S2_LIMIT_RULES)
        return REFUSE(p, S2P_TOO_MANY_RULES, p->lex.at, "more than %d rules", S2_LIMIT_RULES);
    if (p->n_rules == p->cap_rules) {
        const int32_t cap = p->cap_rules != 0 ? p->cap_rules * 2 : 8;
        rule *const grown =
            s2_arena_grow(&p->scratch, p->rules, (size_t)p->n_rules, (size_t)cap, sizeof *grown);
        if (grown == NULL)
            return S2_ENOMEM;
        p->rules = grown;
        p->cap_rules = cap;
    }
    out->layers = S2_NEW(&p->scratch, uint64_t, p->layer_words);
    out->heads = S2_NEW(&p->scratch, uint64_t, p->head_words);
    return out->layers != NULL && out->heads != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status read_rule(parser *p)
{
    rule made;
    S2_TRY(rule_new(p, &made));
    if (starts_body(p)) {
        set_bits(made.layers, 0, p->shape[SHAPE_LAYERS], 1);
        set_bits(made.heads, 0, p->shape[SHAPE_HEADS], 1);
    } else {
        S2_TRY(read_selector(p, &made));
    }
    S2_TRY(read_body(p, &made.body));
    p->rules[p->n_rules++] = made;
    return S2_OK;
}

static s2_status read_rules(parser *p)
{
    s2_lex *const lex = &p->lex;
    p->layer_words = (int32_t)((p->shape[SHAPE_LAYERS] + 63) / 64);
    p->head_words = (int32_t)((p->shape[SHAPE_HEADS] + 63) / 64);
    for (s2_lex_skip_between(lex); lex->at < lex->n; s2_lex_skip_between(lex)) {
        s2_word word;
        if (!starts_shape(p, &word)) {
            S2_TRY(read_rule(p));
        } else if (s2_word_is(word, "name") && s2_lex_peek(lex) != '"') {
            while (s2_lex_peek(lex) != '\0')
                lex->at++;
        } else {
            s2_lex_skip_statement(lex);
        }
    }
    return S2_OK;
}

/* ---- resolving */

typedef struct resolver {
    const parser *p;
    uint64_t *open[S2_N_PHASES]; /* heads without a rule yet, head_words per layer */
    uint64_t *open_layers[S2_N_PHASES];
    uint16_t *body_of;
} resolver;

static s2_status resolver_init(parser *p, resolver *rs)
{
    const int64_t n_layers = p->shape[SHAPE_LAYERS], n_heads = p->shape[SHAPE_HEADS];
    rs->p = p;
    rs->body_of = S2_NEW(p->arena, uint16_t, S2_N_PHASES * n_layers * n_heads);
    if (rs->body_of == NULL)
        return S2_ENOMEM;
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        rs->open[phase] = S2_NEW(&p->scratch, uint64_t, n_layers * p->head_words);
        rs->open_layers[phase] = S2_NEW(&p->scratch, uint64_t, p->layer_words);
        if (rs->open[phase] == NULL || rs->open_layers[phase] == NULL)
            return S2_ENOMEM;
        set_bits(rs->open_layers[phase], 0, n_layers, 1);
        for (int64_t layer = 0; layer < n_layers; layer++)
            set_bits(rs->open[phase] + layer * p->head_words, 0, n_heads, 1);
    }
    return S2_OK;
}

static void fill_cells(uint16_t *row, int32_t first_head, uint64_t heads, uint16_t body)
{
    if (heads == UINT64_MAX) {
        for (int32_t bit = 0; bit < 64; bit++)
            row[first_head + bit] = body;
        return;
    }
    for (; heads != 0; heads &= heads - 1)
        row[first_head + __builtin_ctzll(heads)] = body;
}

static void resolve_layer(resolver *rs, const rule *from, int phase, int32_t layer)
{
    const parser *const p = rs->p;
    uint64_t *const open = rs->open[phase] + (int64_t)layer * p->head_words;
    uint16_t *const row =
        rs->body_of + ((int64_t)phase * p->shape[SHAPE_LAYERS] + layer) * p->shape[SHAPE_HEADS];
    uint64_t left = 0;
    for (int32_t word = 0; word < p->head_words; word++) {
        const uint64_t taken = open[word] & from->heads[word];
        if (taken != 0)
            fill_cells(row, word * 64, taken, (uint16_t)from->body);
        open[word] &= ~taken;
        left |= open[word];
    }
    if (left == 0)
        rs->open_layers[phase][layer / 64] &= ~(UINT64_C(1) << (layer % 64));
}

static void resolve_rule(resolver *rs, const rule *from)
{
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        if (!(from->phases >> phase & 1))
            continue;
        for (int32_t word = 0; word < rs->p->layer_words; word++)
            for (uint64_t bits = rs->open_layers[phase][word] & from->layers[word]; bits != 0;
                 bits &= bits - 1)
                resolve_layer(rs, from, phase, word * 64 + __builtin_ctzll(bits));
    }
}

static int32_t first_bit(const uint64_t *words, int32_t n_words)
{
    for (int32_t word = 0; word < n_words; word++)
        if (words[word] != 0)
            return word * 64 + __builtin_ctzll(words[word]);
    return -1;
}

/* Refuse with the lowest layer, then head, that has no rule in some phase. */
static s2_status check_all_ruled(parser *p, const resolver *rs)
{
    int32_t layer = INT32_MAX, head = INT32_MAX;
    bool open[S2_N_PHASES] = {false};
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        const int32_t at = first_bit(rs->open_layers[phase], p->layer_words);
        layer = at >= 0 && at < layer ? at : layer;
    }
    if (layer == INT32_MAX)
        return S2_OK;
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        const int32_t at = first_bit(rs->open[phase] + (int64_t)layer * p->head_words, p->head_words);
        head = at >= 0 && at < head ? at : head;
    }
    for (int phase = 0; phase < S2_N_PHASES; phase++)
        open[phase] = rs->open[phase][(int64_t)layer * p->head_words + head / 64] >> (head % 64) & 1;
    const bool both = open[S2_PREFILL] && open[S2_DECODE];
    return REFUSE(p, S2P_NO_RULE, p->n_rules > 0 ? p->rules[p->n_rules - 1].at : p->lex.n,
                  "layer %d, head %d has no rule%s%s", layer, head, both ? "" : " in ",
                  both ? "" : s2_phase_word(open[S2_PREFILL] ? S2_PREFILL : S2_DECODE));
}

/* Keep the bodies that some cell uses, numbered by first use. */
static s2_status number_bodies(parser *p, uint16_t *body_of, s2_pattern *out)
{
    const int64_t n_cells = S2_N_PHASES * p->shape[SHAPE_LAYERS] * p->shape[SHAPE_HEADS];
    int32_t *const number = S2_NEW(&p->scratch, int32_t, p->body_texts.n);
    s2_body *const bodies = S2_NEW(p->arena, s2_body, p->body_texts.n);
    if (number == NULL || bodies == NULL)
        return S2_ENOMEM;
    int32_t n_used = 0;
    for (int64_t cell = 0; cell < n_cells; cell++) {
        const int32_t body = body_of[cell];
        if (number[body] == 0) {
            bodies[n_used] = p->bodies[body];
            number[body] = ++n_used;
        }
        body_of[cell] = (uint16_t)(number[body] - 1);
    }
    out->n_bodies = n_used;
    out->bodies = bodies;
    out->body_of = body_of;
    return S2_OK;
}

static s2_status resolve(parser *p, s2_pattern *out)
{
    resolver rs;
    S2_TRY(resolver_init(p, &rs));
    for (int32_t at = p->n_rules - 1; at >= 0; at--)
        resolve_rule(&rs, &p->rules[at]);
    S2_TRY(check_all_ruled(p, &rs));
    return number_bodies(p, rs.body_of, out);
}

/*
 * The canonical text must be a text that the parser takes. With few layers and bodies it always is:
 * a rule per layer, phase and body, each with a selector of bounded length, stays below the caps.
 */
static s2_status check_canonical(parser *p, const s2_pattern *pattern)
{
    size_t longest = 0;
    for (int32_t body = 0; body < p->body_texts.n; body++)
        longest = p->body_texts.n_bytes[body] > longest ? p->body_texts.n_bytes[body] : longest;
    const int64_t n_rules = (int64_t)S2_N_PHASES * pattern->n_layers * pattern->n_bodies;
    const int64_t rule_bytes = 64 + 5 * ((int64_t)pattern->n_layers + pattern->n_heads) + (int64_t)longest;
    if (n_rules < S2_LIMIT_RULES && n_rules * rule_bytes < S2_LIMIT_TEXT_BYTES / 2)
        return S2_OK;
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    s2_status status = text.status;
    if (status == S2_ELIMIT || (status == S2_OK && text.len > S2_LIMIT_TEXT_BYTES))
        status = REFUSE(p, S2P_IRREGULAR, p->n_rules > 0 ? p->rules[p->n_rules - 1].at : 0,
                        "the canonical text would exceed %d rules or 1 MiB", S2_LIMIT_RULES);
    s2_buf_release(&text);
    return status;
}

/* ---- the whole */

static s2_status parse_all(parser *p, s2_pattern *out)
{
    S2_TRY(s2_lex_check_text(&p->lex));
    S2_TRY(read_shape(p));
    S2_TRY(read_rules(p));
    s2_pattern made = {
        .name = p->name != NULL ? p->name : "",
        .model = p->model != NULL ? p->model->name : "",
        .n_layers = (int32_t)p->shape[SHAPE_LAYERS],
        .n_heads = (int32_t)p->shape[SHAPE_HEADS],
        .n_kv_heads = (int32_t)p->shape[SHAPE_KV_HEADS],
        .head_dim = (int32_t)p->shape[SHAPE_HEAD_DIM],
        .block_tok = (int32_t)p->shape[SHAPE_BLOCK],
        .causal = p->causal,
    };
    S2_TRY(resolve(p, &made));
    S2_TRY(check_canonical(p, &made));
    *out = made;
    return S2_OK;
}

s2_status s2_pattern_parse(s2_arena *arena, const char *text, size_t n_bytes, const s2_parse_options *options,
                           s2_pattern *out, s2_diag *diag)
{
    s2_diag ignored;
    parser p = {
        .lex = {.text = text, .n = n_bytes, .diag = diag != NULL ? diag : &ignored},
        .arena = arena,
        .options = options,
        .causal = true,
        .shape = {[SHAPE_LAYERS] = 1, [SHAPE_HEAD_DIM] = 128, [SHAPE_BLOCK] = 64},
    };
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = parse_all(&p, out);
    if (status != S2_OK) {
        for (int32_t m = 0; m < p.n_masks; m++)
            s2_mask_unmap(p.masks[m]);
        s2_arena_rewind(arena, mark);
    }
    s2_buf_release(&p.text);
    s2_arena_release(&p.scratch);
    return status;
}
