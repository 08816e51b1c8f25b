/*
 * What several files of the parser share: words, the beginning of a statement, lists of indices.
 */
#include "pattern/parser.h"

#include "base/arith.h"

s2_status s2_parse_expect_end(s2_parser *p, const char *after)
{
    if (s2_lex_at_end(&p->lex))
        return S2_OK;
    return S2_REFUSE(p, S2P_TRAILING, p->lex.pos, "expected a line end or ';' after %s", after);
}

bool s2_word_among(s2_word word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (s2_word_is(word, *list))
            return true;
    return false;
}

bool s2_parse_take_word(s2_parser *p, const char *text)
{
    const size_t begin = p->lex.pos;
    if (s2_word_is(s2_lex_word(&p->lex, true), text))
        return true;
    p->lex.pos = begin;
    return false;
}

s2_status s2_parse_refuse_twice(s2_parser *p, size_t place, const char *word)
{
    return S2_REFUSE(p, S2P_DUPLICATE, place, "'%s' is stated twice", word);
}

int s2_parse_shape_word(s2_word word)
{
    static const char *const words[S2_N_SHAPE_WORDS] = {
#define SHAPE_WORD(name, word, ...) word,
        S2_SHAPE_TABLE(SHAPE_WORD)
#undef SHAPE_WORD
    };
    int what = 0;
    while (what < S2_N_SHAPE_WORDS && !s2_word_is(word, words[what]))
        what++;
    return what;
}

/* `layers 32` and `layers 0: dense` start alike: a rule has a colon somewhere. */
static bool statement_has_colon(const s2_parser *p)
{
    s2_lex ahead = p->lex;
    for (char byte = s2_lex_peek(&ahead); byte != '\0' && byte != '"'; byte = s2_lex_peek(&ahead)) {
        if (byte == ':')
            return true;
        ahead.pos++;
    }
    return false;
}

/* True, with its first word consumed, when the statement at the cursor belongs to the shape. */
bool s2_parse_starts_shape(s2_parser *p, s2_word *word)
{
    const size_t begin = p->lex.pos;
    *word = s2_lex_word(&p->lex, true);
    const int what = s2_parse_shape_word(*word);
    const bool always = (what > S2_SHAPE_HEADS && what < S2_N_SHAPE_WORDS) || s2_word_is(*word, "name") ||
                        s2_word_is(*word, "model") || s2_word_is(*word, "causal");
    if (always || (what < S2_N_SHAPE_WORDS && !statement_has_colon(p)))
        return true;
    p->lex.pos = begin;
    return false;
}

void s2_parse_skip_statement(s2_parser *p)
{
    s2_word word;
    if (s2_parse_starts_shape(p, &word) && s2_word_is(word, "name") && s2_lex_peek(&p->lex) != '"')
        while (s2_lex_peek(&p->lex) != '\0')
            p->lex.pos++;
    else
        s2_lex_skip_statement(&p->lex);
}

/* Set bits begin, begin + step, ... below end; at most one operation per word for steps up to 64. */
void s2_set_bits(uint64_t *words, int64_t begin, int64_t end, int64_t step)
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
        bit += s2_round_up(next - bit, step);
    }
}

/* The span of an item; its end is S2_OPEN where the text leaves it open. */
s2_status s2_parse_item_span(s2_parser *p, const s2_item *item, s2_span *out)
{
    s2_span span = {item->has_begin ? item->begin.value : 0, S2_OPEN, 1};
    if (!item->slice)
        span.end = (item->has_end ? item->end.value : span.begin) + 1;
    else if (item->has_end)
        span.end = item->end.value;
    if (item->has_step)
        span.step = item->step.value;
    if (span.step < 1)
        return S2_REFUSE(p, S2P_TOO_SMALL, item->step.pos, "the step of a range must be at least 1");
    if (span.begin >= span.end)
        return S2_REFUSE(p, S2P_RANGE, item->pos,
                         item->slice ? "the range %lld:%lld is empty or reversed"
                                     : "the range %lld-%lld is reversed",
                         (long long)span.begin, (long long)(item->slice ? span.end : span.end - 1));
    *out = span;
    return S2_OK;
}

static s2_status read_selector_item(s2_parser *p, const char *what, int64_t n_all, uint64_t *bits)
{
    if (s2_parse_take_word(p, "all")) {
        s2_set_bits(bits, 0, n_all, 1);
        return S2_OK;
    }
    s2_item item;
    S2_TRY(s2_lex_item(&p->lex, true, S2_UNIT_NONE, &item));
    /* before anything is added to a number */
    const int64_t begin = item.has_begin ? item.begin.value : 0;
    const int64_t last = item.has_end ? item.end.value - item.slice : begin;
    if (begin >= n_all || last >= n_all)
        return S2_REFUSE(p, S2P_OUT_OF_RANGE, item.pos,
                         "%s %lld is out of range: there are %lld, counted from 0", what,
                         (long long)(begin >= n_all ? begin : last), (long long)n_all);
    s2_span span;
    S2_TRY(s2_parse_item_span(p, &item, &span));
    s2_set_bits(bits, span.begin, span.end == S2_OPEN ? n_all : span.end, s2_min_i64(span.step, n_all));
    return S2_OK;
}

s2_status s2_parse_indices(s2_parser *p, const char *what, int64_t n_all, uint64_t *bits)
{
    do
        S2_TRY(read_selector_item(p, what, n_all, bits));
    while (s2_lex_take(&p->lex, ','));
    return S2_OK;
}
