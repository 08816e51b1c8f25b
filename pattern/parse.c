#include "pattern/parse.h"

#include <string.h>

#include "base/arith.h"
#include "pattern/mask.h"
#include "pattern/parser.h"

typedef struct shape_row {
    const char *word;
    int64_t missing; /* the value when the text leaves it out */
    int64_t largest;
} shape_row;
static const shape_row shape_rows[S2_N_SHAPE_WORDS] = {
#define SHAPE_ROW(name, word, field, missing, largest) {word, missing, largest},
    S2_SHAPE_TABLE(SHAPE_ROW)
#undef SHAPE_ROW
};

/* Every word that may begin a statement, to suggest the nearest one to a word that may not. */
static const char *const statement_words[] = {
#define SHAPE_WORD(name, word, ...) word,
#define TERM_WORD(kind, word, ...)  word,
    "name",    "model",  S2_SHAPE_TABLE(SHAPE_WORD) "causal", "kv",
    "prefill", "decode", S2_TERM_TABLE(TERM_WORD) NULL
#undef SHAPE_WORD
#undef TERM_WORD
};

/* --- shape ---------------------------------------------------------------------------------------- */

static s2_status read_name(s2_parser *p, s2_word word)
{
    s2_lex *const lex = &p->lex;
    if (p->name != NULL)
        return s2_parse_refuse_twice(p, word.pos, "name");
    const char first = s2_lex_peek(lex);
    const size_t begin = lex->pos;
    if (first == '\0')
        return S2_REFUSE(p, S2P_EXPECTED, begin, "expected a name");
    if (first == '"') {
        S2_TRY(s2_lex_quoted(lex, p->arena, "the name", &p->name));
        S2_TRY(s2_parse_expect_end(p, "the quoted name"));
    } else {
        size_t end = begin;
        while (s2_lex_peek(lex) != '\0')
            end = ++lex->pos;
        char *const copy = s2_arena_strndup(p->arena, lex->text + begin, end - begin);
        if (copy == NULL)
            return S2_ENOMEM;
        for (char *tab = strchr(copy, '\t'); tab != NULL; tab = strchr(tab, '\t'))
            *tab = ' ';
        p->name = copy;
    }
    if (strlen(p->name) > S2_LIMIT_NAME_BYTES)
        return S2_REFUSE(p, S2P_NAME, begin, "the name is longer than %d bytes", S2_LIMIT_NAME_BYTES);
    return S2_OK;
}

static s2_status refuse_model(s2_parser *p, s2_word word)
{
    const char *names[64] = {NULL};
    const bool is_file = (word.n > 5 && memcmp(word.text + word.n - 5, ".json", 5) == 0) ||
                         word.text[0] == '/' || word.text[0] == '.';
    if (is_file)
        return S2_REFUSE(p, S2P_MODEL, word.pos,
                         "a pattern names built-in models only; of a file, write the numbers that s2 import "
                         "prints, or give it beside the pattern with --model");
    for (int32_t m = 0; m < s2_model_count() && m < 63; m++)
        names[m] = s2_model_at(m)->net.name;
    return s2_lex_refuse_word(&p->lex, S2P_MODEL, word, "model", names);
}

static s2_status read_model(s2_parser *p, s2_word word)
{
    if (p->model != NULL)
        return s2_parse_refuse_twice(p, word.pos, "model");
    for (int what = 0; what < S2_SHAPE_BLOCK; what++)
        if (p->shape_stated[what] != 0)
            return S2_REFUSE(p, S2P_MODEL_LATE, word.pos, "'model' must come before '%s', which overrides it",
                             shape_rows[what].word);
    const s2_word name = s2_lex_run(&p->lex);
    if (name.n == 0)
        return S2_REFUSE(p, S2P_EXPECTED, name.pos, "expected the name of a model");
    p->model = s2_model_find(name.text, name.n);
    if (p->model == NULL)
        return refuse_model(p, name);
    p->shape[S2_SHAPE_LAYERS] = p->model->net.n_layers;
    p->shape[S2_SHAPE_HEADS] = p->model->net.n_heads;
    p->shape[S2_SHAPE_KV_HEADS] = p->model->net.n_kv_heads;
    p->shape[S2_SHAPE_HEAD_DIM] = p->model->net.head_dim;
    return s2_parse_expect_end(p, "the model");
}

static s2_status read_causal(s2_parser *p, s2_word word)
{
    static const char *const answers[] = {"yes", "no", NULL};
    if (p->has_causal)
        return s2_parse_refuse_twice(p, word.pos, "causal");
    const s2_word answer = s2_lex_word(&p->lex, true);
    if (answer.n == 0)
        return S2_REFUSE(p, S2P_EXPECTED, answer.pos, "expected yes or no");
    if (!s2_word_is(answer, "yes") && !s2_word_is(answer, "no"))
        return s2_lex_refuse_word(&p->lex, S2P_WORD, answer, "answer, expected yes or no, not", answers);
    p->has_causal = true;
    p->causal = s2_word_is(answer, "yes");
    return s2_parse_expect_end(p, "causal");
}

static s2_status read_shape_number(s2_parser *p, int what, s2_word word)
{
    if (p->shape_stated[what] != 0)
        return s2_parse_refuse_twice(p, word.pos, shape_rows[what].word);
    s2_number number;
    S2_TRY(s2_lex_number(&p->lex, shape_rows[what].word, S2_UNIT_NONE, &number));
    if (number.value < 1)
        return S2_REFUSE(p, S2P_TOO_SMALL, number.pos, "%s must be at least 1", shape_rows[what].word);
    if (number.value > shape_rows[what].largest)
        return S2_REFUSE(p, S2P_LIMIT, number.pos, "%s is at most %lld", shape_rows[what].word,
                         (long long)shape_rows[what].largest);
    if (what == S2_SHAPE_BLOCK && !s2_is_power_of_two(number.value))
        return S2_REFUSE(p, S2P_BLOCK, number.pos, "block must be a power of two from 1 to 1024");
    p->shape[what] = number.value;
    p->shape_stated[what] = word.pos + 1;
    return s2_parse_expect_end(p, shape_rows[what].word);
}

static s2_status read_shape_statement(s2_parser *p, s2_word word)
{
    if (s2_word_is(word, "name"))
        return read_name(p, word);
    if (s2_word_is(word, "model"))
        return read_model(p, word);
    if (s2_word_is(word, "causal"))
        return read_causal(p, word);
    return read_shape_number(p, s2_parse_shape_word(word), word);
}

static s2_status check_kv_heads(s2_parser *p)
{
    const int64_t heads = p->shape[S2_SHAPE_HEADS], kv = p->shape[S2_SHAPE_KV_HEADS];
    if (heads % kv == 0)
        return S2_OK;
    const size_t pos =
        p->shape_stated[p->shape_stated[S2_SHAPE_KV_HEADS] != 0 ? S2_SHAPE_KV_HEADS : S2_SHAPE_HEADS] - 1;
    return S2_REFUSE(p, S2P_KV_HEADS, pos, "kv-heads %lld%s does not divide heads %lld", (long long)kv,
                     p->shape_stated[S2_SHAPE_KV_HEADS] == 0 ? " of the model" : "", (long long)heads);
}

static s2_status read_shape(s2_parser *p)
{
    s2_lex *const lex = &p->lex;
    const size_t begin = lex->pos;
    size_t first_rule = lex->n;
    for (s2_lex_skip_between(lex); lex->pos < lex->n; s2_lex_skip_between(lex)) {
        const size_t pos = lex->pos;
        s2_word word;
        if (s2_parse_starts_shape(p, &word)) {
            S2_TRY(read_shape_statement(p, word));
            continue;
        }
        word = s2_lex_word(lex, true);
        if (word.n > 0 && !s2_word_among(word, statement_words) && !s2_word_is(word, "all"))
            return s2_lex_refuse_word(lex, S2P_STATEMENT, word, "statement", statement_words);
        if (word.n == 0 && s2_lex_peek(lex) != ':')
            return S2_REFUSE(p, S2P_EXPECTED, pos, "expected a statement: a shape word or a rule");
        first_rule = s2_min_size(first_rule, pos);
        s2_lex_skip_statement(lex);
    }
    lex->pos = begin;
    if (p->shape[S2_SHAPE_HEADS] == 0)
        return S2_REFUSE(
            p, S2P_NO_HEADS, first_rule,
            "'heads N' is missing: a statement of its own before the rules, or a model that gives it");
    if (p->shape[S2_SHAPE_KV_HEADS] == 0)
        p->shape[S2_SHAPE_KV_HEADS] = p->shape[S2_SHAPE_HEADS];
    return check_kv_heads(p);
}

/* ---- the whole */

/*
 * The canonical text must be one that the parser accepts. With few layers and bodies it always is:
 * a rule per layer, phase and body, each with a selector of bounded length, stays below the caps.
 */
static s2_status check_canonical(s2_parser *p, const s2_pattern *pattern)
{
    size_t longest = 0;
    for (int32_t body = 0; body < p->body_texts.n; body++)
        longest = s2_max_size(p->body_texts.n_bytes[body], longest);
    const int64_t n_rules = (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_bodies;
    const int64_t rule_bytes = 64 + 5 * ((int64_t)pattern->n_layers + pattern->n_heads) + (int64_t)longest;
    if (n_rules < S2_LIMIT_RULES && n_rules * rule_bytes < S2_LIMIT_TEXT_BYTES / 2)
        return S2_OK;
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    s2_status status = text.status;
    if (status == S2_ELIMIT || (status == S2_OK && text.len > S2_LIMIT_TEXT_BYTES))
        status = S2_REFUSE(p, S2P_IRREGULAR, p->n_rules > 0 ? p->rules[p->n_rules - 1].begin : 0,
                           "the canonical text would exceed %d rules or 1 MiB", S2_LIMIT_RULES);
    s2_buf_release(&text);
    return status;
}

static s2_status parse_all(s2_parser *p, s2_pattern *out)
{
    S2_TRY(s2_lex_check_text(&p->lex));
    S2_TRY(read_shape(p));
    S2_TRY(s2_parse_layer_numbers(p));
    S2_TRY(s2_parse_rules(p));
    s2_pattern made = {
        .name = p->name != NULL ? p->name : "",
        .model = p->model != NULL ? p->model->net.name : "",
        .n_layers = (int32_t)p->shape[S2_SHAPE_LAYERS],
        .n_heads = (int32_t)p->shape[S2_SHAPE_HEADS],
        .n_kv_heads = (int32_t)p->shape[S2_SHAPE_KV_HEADS],
        .head_dim = (int32_t)p->shape[S2_SHAPE_HEAD_DIM],
        .block_tok = (int32_t)p->shape[S2_SHAPE_BLOCK],
        .causal = p->causal,
    };
    S2_TRY(s2_parse_resolve(p, &made));
    S2_TRY(s2_parse_layer_shapes(p, &made));
    S2_TRY(check_canonical(p, &made));
    *out = made;
    return S2_OK;
}

s2_status s2_pattern_parse(s2_arena *arena, const char *text, size_t n_bytes, const s2_parse_options *options,
                           s2_pattern *out, s2_diag *diag)
{
    s2_diag ignored;
    s2_parser p = {
        .lex = {.text = text, .n = n_bytes, .diag = diag != NULL ? diag : &ignored},
        .arena = arena,
        .options = options,
        .causal = true,
    };
    for (int what = 0; what < S2_N_SHAPE_WORDS; what++)
        p.shape[what] = shape_rows[what].missing;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = parse_all(&p, out);
    if (status != S2_OK) {
        for (int32_t m = 0; m < p.n_masks; m++)
            s2_mask_unload(p.masks[m]);
        s2_arena_rewind(arena, mark);
    }
    s2_buf_release(&p.text);
    s2_arena_release(&p.scratch);
    return status;
}
