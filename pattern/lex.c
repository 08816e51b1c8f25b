#include "pattern/lex.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arith.h"
#include "base/text.h"

/* --- refusals ------------------------------------------------------------------------------------ */

static bool has_bom(const s2_lex *lex)
{
    return lex->n >= 3 && memcmp(lex->text, "\xef\xbb\xbf", 3) == 0;
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Blanks of Unicode that no terminal shows as other than a space or two. */
static bool looks_blank(uint32_t cp)
{
    return cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x202f || cp == 0x205f ||
           cp == 0x3000;
}

/* Where a word was expected or ends: a character that may look like one of the language's is told by its number. */
static void name_stranger(const s2_lex *lex, s2_code code, size_t pos, char *note, size_t cap)
{
    note[0] = '\0';
    if (code < S2P_STATEMENT || code > S2P_UNIT || code == S2P_STRING)
        return;
    while (pos < lex->n && (is_letter(lex->text[pos]) || is_digit(lex->text[pos]) || lex->text[pos] == '-'))
        pos++;
    const size_t n = pos < lex->n ? s2_utf8_len(lex->text + pos, lex->n - pos) : 0;
    if (n < 2)
        return;
    const uint32_t cp = s2_utf8_decode(lex->text + pos, n);
    snprintf(note, cap, looks_blank(cp) ? "; U+%04X is not a blank" : "; U+%04X is not ASCII", (unsigned)cp);
}

s2_status s2_lex_refuse(const s2_lex *lex, s2_code code, size_t pos, const char *fmt, ...)
{
    char message[sizeof lex->diag->msg], note[40];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    name_stranger(lex, code, pos, note, sizeof note);
    int32_t line, col;
    s2_text_position(lex->text, lex->n, pos, &line, &col);
    return s2_diag_set(lex->diag, S2_EPARSE, (int32_t)code, line, col, "%s%s", message, note);
}

/* Words that other libraries and papers have for what the language calls differently. */
static const char *const OTHERS_WORDS[][2] = {
    {"window", "local"},
    {"sliding", "local"},
    {"sliding_window", "local"},
    {"swa", "local"},
    {"full", "dense"},
    {"global", "columns"},
    {"strided", "stride"},
    {"vert_stride", "stride"},
    {"block_size", "block"},
    {"num_heads", "heads"},
    {"n_heads", "heads"},
    {"num_layers", "layers"},
    {"head_dim", "head-dim"},
    {"num_kv_heads", "kv-heads"},
    {"top-k", "topk"},
    {"quest", "pages"},
    {"dist", "distance"},
    {"h2o", "heavy"},
    {"seq", "query"},
};

static bool same_but_case(s2_word word, const char *known)
{
    return strlen(known) == word.n && strncasecmp(word.text, known, word.n) == 0;
}

/* Whether the word is another name, or another spelling, of the candidate. */
static bool is_named_so(s2_word word, const char *candidate)
{
    for (size_t at = 0; at < sizeof OTHERS_WORDS / sizeof *OTHERS_WORDS; at++)
        if (same_but_case(word, OTHERS_WORDS[at][0]) && strcmp(OTHERS_WORDS[at][1], candidate) == 0)
            return true;
    return same_but_case(word, candidate);
}

s2_status s2_lex_refuse_word(const s2_lex *lex, s2_code code, s2_word word, const char *what,
                             const char *const *candidates)
{
    enum { FARTHEST = 3, SHOWN = 40 };
    const char *nearest = NULL;
    int32_t best = word.n > 2 ? FARTHEST : 2;
    for (; *candidates != NULL; candidates++) {
        int32_t distance = s2_text_distance(word.text, word.n, *candidates, best);
        if (distance > 0 && is_named_so(word, *candidates))
            distance = 1; /* before words that only look alike */
        if (distance < best) {
            best = distance;
            nearest = *candidates;
        }
    }
    const int shown = word.n < SHOWN ? (int)word.n : SHOWN;
    if (nearest == NULL)
        return s2_lex_refuse(lex, code, word.pos, "unknown %s '%.*s'", what, shown, word.text);
    if (best == 0)
        return s2_lex_refuse(lex, code, word.pos, "'%s' stands here for the second time, or too late",
                             nearest);
    return s2_lex_refuse(lex, code, word.pos, "unknown %s '%.*s'; did you mean '%s'?", what, shown, word.text,
                         nearest);
}

/* --- the whole text ------------------------------------------------------------------------------- */

static bool is_plain(unsigned char byte)
{
    return (byte >= 0x20 && byte < 0x7f) || byte == '\n' || byte == '\t';
}

s2_status s2_lex_check_text(s2_lex *lex)
{
    if (lex->n > S2_LIMIT_TEXT_BYTES)
        return s2_diag_set(lex->diag, S2_EPARSE, S2P_TOO_LONG, 1, 1, "the text is longer than 1 MiB");
    lex->pos = has_bom(lex) ? 3 : 0;
    for (size_t pos = lex->pos; pos < lex->n;) {
        const unsigned char byte = (unsigned char)lex->text[pos];
        if (is_plain(byte) || (byte == '\r' && pos + 1 < lex->n && lex->text[pos + 1] == '\n')) {
            pos++;
            continue;
        }
        if (byte == 0)
            return s2_lex_refuse(lex, S2P_NUL, pos, "a NUL byte: this is a binary file, not a pattern");
        const size_t n = s2_utf8_len(lex->text + pos, lex->n - pos);
        if (n == 0)
            return s2_lex_refuse(lex, S2P_UTF8, pos, "byte 0x%02x is not valid UTF-8", byte);
        const uint32_t cp = s2_utf8_decode(lex->text + pos, n);
        if (s2_codepoint_is_hostile(cp))
            return s2_lex_refuse(lex, S2P_CONTROL, pos,
                                 "character U+%04X is not allowed: control, invisible or direction-changing",
                                 (unsigned)cp);
        pos += n;
    }
    return S2_OK;
}

/* --- blanks ---------------------------------------------------------------------------------------- */

static char byte_at(const s2_lex *lex, size_t pos)
{
    return pos < lex->n ? lex->text[pos] : '\0';
}

static void skip_comment(s2_lex *lex)
{
    const char *const newline = memchr(lex->text + lex->pos, '\n', lex->n - lex->pos);
    lex->pos = newline != NULL ? (size_t)(newline - lex->text) : lex->n;
}

void s2_lex_skip_blanks(s2_lex *lex)
{
    for (char byte = byte_at(lex, lex->pos); byte == ' ' || byte == '\t' || byte == '\r';)
        byte = byte_at(lex, ++lex->pos);
}

void s2_lex_skip_between(s2_lex *lex)
{
    for (;;) {
        s2_lex_skip_blanks(lex);
        const char byte = byte_at(lex, lex->pos);
        if (byte == '#')
            skip_comment(lex);
        else if (byte == '\n' || byte == ';')
            lex->pos++;
        else
            return;
    }
}

/* Past a quoted text, or to the end of its line when it is not closed. */
static void skip_quoted(s2_lex *lex)
{
    for (lex->pos++; lex->pos < lex->n && lex->text[lex->pos] != '\n'; lex->pos++) {
        if (lex->text[lex->pos] == '"') {
            lex->pos++;
            return;
        }
        if (lex->text[lex->pos] == '\\' && byte_at(lex, lex->pos + 1) != '\n' && lex->pos + 1 < lex->n)
            lex->pos++;
    }
}

void s2_lex_skip_statement(s2_lex *lex)
{
    while (!s2_lex_at_end(lex)) {
        if (lex->text[lex->pos] == '"')
            skip_quoted(lex);
        else
            lex->pos++;
    }
}

char s2_lex_peek(s2_lex *lex)
{
    s2_lex_skip_blanks(lex);
    const char byte = byte_at(lex, lex->pos);
    return byte == '\n' || byte == ';' || byte == '#' ? '\0' : byte;
}

bool s2_lex_at_end(s2_lex *lex)
{
    return s2_lex_peek(lex) == '\0';
}

bool s2_lex_take(s2_lex *lex, char byte)
{
    if (s2_lex_peek(lex) != byte)
        return false;
    lex->pos++;
    return true;
}

/* --- words ------------------------------------------------------------------------------------------ */

s2_word s2_lex_word(s2_lex *lex, bool dashes)
{
    s2_lex_skip_blanks(lex);
    const size_t begin = lex->pos;
    if (is_letter(byte_at(lex, lex->pos)))
        for (lex->pos++;; lex->pos++) {
            const char byte = byte_at(lex, lex->pos);
            if (!is_letter(byte) && !(dashes && (is_digit(byte) || byte == '-' || byte == '_')))
                break;
        }
    return (s2_word){lex->text + begin, lex->pos - begin, begin};
}

bool s2_word_is(s2_word word, const char *text)
{
    return strlen(text) == word.n && memcmp(word.text, text, word.n) == 0;
}

s2_word s2_lex_run(s2_lex *lex)
{
    const size_t begin = (s2_lex_skip_blanks(lex), lex->pos);
    for (char byte = byte_at(lex, lex->pos); lex->pos < lex->n && byte != ' ' && byte != '\t' &&
                                             byte != '\r' && byte != '\n' && byte != ';' && byte != '#';)
        byte = byte_at(lex, ++lex->pos);
    return (s2_word){lex->text + begin, lex->pos - begin, begin};
}

/* --- numbers ------------------------------------------------------------------------------------------ */

static s2_status refuse_no_number(s2_lex *lex, const char *what)
{
    const char next = s2_lex_peek(lex);
    if (next == '-')
        return s2_lex_refuse(lex, S2P_NEGATIVE, lex->pos, "%s must not be negative", what);
    return s2_lex_refuse(lex, S2P_EXPECTED, lex->pos, "expected %s, a number", what);
}

static s2_status read_digits(s2_lex *lex, const char *what, uint64_t most, uint64_t *out)
{
    s2_lex_skip_blanks(lex);
    const size_t begin = lex->pos;
    if (!is_digit(byte_at(lex, begin)))
        return refuse_no_number(lex, what);
    uint64_t value = 0;
    for (; is_digit(byte_at(lex, lex->pos)); lex->pos++) {
        const uint64_t digit = (uint64_t)(lex->text[lex->pos] - '0');
        if (value > (most - digit) / 10)
            return s2_lex_refuse(lex, S2P_OVERFLOW, begin, "%s is a number too large for this machine", what);
        value = value * 10 + digit;
    }
    *out = value;
    return S2_OK;
}

s2_status s2_lex_u64(s2_lex *lex, const char *what, uint64_t *out)
{
    S2_TRY(read_digits(lex, what, UINT64_MAX, out));
    if (is_letter(byte_at(lex, lex->pos)))
        return s2_lex_refuse(lex, S2P_UNIT, lex->pos, "%s takes no suffix", what);
    return S2_OK;
}

s2_status s2_lex_number(s2_lex *lex, const char *what, s2_unit_rule units, s2_number *out)
{
    s2_lex_skip_blanks(lex);
    const size_t begin = lex->pos;
    uint64_t value = 0;
    S2_TRY(read_digits(lex, what, INT64_MAX, &value));
    s2_word suffix = {lex->text + lex->pos, 0, lex->pos};
    if (is_letter(byte_at(lex, lex->pos)))
        suffix = s2_lex_word(lex, false);
    uint64_t scale = 1;
    size_t used = 0;
    if (suffix.n > 0 && (suffix.text[0] == 'k' || suffix.text[0] == 'm')) {
        scale = suffix.text[0] == 'k' ? 1024 : 1048576;
        used = 1;
    }
    const bool tok = used < suffix.n && suffix.text[used] == 't';
    used += tok;
    if (used != suffix.n)
        return s2_lex_refuse(lex, S2P_UNIT, suffix.pos, "unknown suffix '%.*s'; there are t, k, m, kt and mt",
                             suffix.n < 20 ? (int)suffix.n : 20, suffix.text);
    if (tok && units == S2_UNIT_NONE)
        return s2_lex_refuse(lex, S2P_UNIT, suffix.pos, "%s has no unit: leave out the suffix t", what);
    if (value > (uint64_t)INT64_MAX / scale)
        return s2_lex_refuse(lex, S2P_OVERFLOW, begin, "%s is a number too large for this machine", what);
    *out = (s2_number){(int64_t)(value * scale), tok, begin};
    return S2_OK;
}

/* --- quoted texts --------------------------------------------------------------------------------------- */

s2_status s2_lex_quoted(s2_lex *lex, s2_arena *arena, const char *what, const char **out)
{
    s2_lex_skip_blanks(lex);
    const size_t begin = lex->pos;
    if (byte_at(lex, begin) != '"')
        return s2_lex_refuse(lex, S2P_EXPECTED, begin, "expected %s in double quotes", what);
    skip_quoted(lex);
    if (lex->pos < begin + 2 || lex->text[lex->pos - 1] != '"')
        return s2_lex_refuse(lex, S2P_STRING, begin, "the quoted text is not closed on its line");
    char *const copy = S2_NEW(arena, char, lex->pos - begin);
    if (copy == NULL)
        return S2_ENOMEM;
    size_t n = 0;
    for (size_t pos = begin + 1; pos + 1 < lex->pos; pos++) {
        if (lex->text[pos] == '\t')
            return s2_lex_refuse(lex, S2P_CONTROL, pos, "a tab inside a quoted text");
        if (lex->text[pos] == '\\') {
            pos++;
            if (pos + 1 >= lex->pos || (lex->text[pos] != '"' && lex->text[pos] != '\\'))
                return s2_lex_refuse(lex, S2P_STRING, pos - 1, "unknown escape; there are \\\" and \\\\");
        }
        copy[n++] = lex->text[pos];
    }
    if (n == 0)
        return s2_lex_refuse(lex, S2P_STRING, begin, "%s is empty", what);
    *out = copy;
    return S2_OK;
}

/* ---- list items */

/*
 * Whether the colon at lex->pos ends the selector instead of belonging to begin:end:step: nothing
 * that could continue the selector follows.
 */
static bool colon_ends_selector(const s2_lex *lex)
{
    s2_lex ahead = *lex;
    ahead.pos++;
    if (is_digit(byte_at(&ahead, ahead.pos)))
        return false;
    const char next = s2_lex_peek(&ahead);
    if (next == ':' || next == ',')
        return false;
    const s2_word word = s2_lex_word(&ahead, true);
#define CONTINUES(name, text)                                                                                \
    if (s2_word_is(word, text))                                                                              \
        return false;
    S2_SELECTOR_TABLE(CONTINUES)
#undef CONTINUES
    return true;
}

static bool take_colon(s2_lex *lex, bool in_selector)
{
    if (byte_at(lex, lex->pos) != ':' || (in_selector && colon_ends_selector(lex)))
        return false;
    lex->pos++;
    return true;
}

static s2_status optional_number(s2_lex *lex, s2_unit_rule units, bool *has, s2_number *out)
{
    *has = is_digit(byte_at(lex, lex->pos));
    return *has ? s2_lex_number(lex, "the index", units, out) : S2_OK;
}

s2_status s2_lex_item(s2_lex *lex, bool in_selector, s2_unit_rule units, s2_item *out)
{
    s2_lex_skip_blanks(lex);
    s2_item item = {.pos = lex->pos};
    const char first = byte_at(lex, lex->pos);
    if (!is_digit(first) && !(first == ':' && !(in_selector && colon_ends_selector(lex)))) {
        if (first == '-')
            return s2_lex_refuse(lex, S2P_NEGATIVE, lex->pos, "an index must not be negative");
        return s2_lex_refuse(lex, S2P_EXPECTED, lex->pos, "expected a list: all, n, a-b or start:stop:step");
    }
    S2_TRY(optional_number(lex, units, &item.has_begin, &item.begin));
    if (byte_at(lex, lex->pos) == '-') {
        lex->pos++;
        if (!is_digit(byte_at(lex, lex->pos)))
            return s2_lex_refuse(lex, S2P_EXPECTED, lex->pos, "expected the last index of the range a-b");
        S2_TRY(optional_number(lex, units, &item.has_end, &item.end));
    } else if (take_colon(lex, in_selector)) {
        item.slice = true;
        S2_TRY(optional_number(lex, units, &item.has_end, &item.end));
        if (take_colon(lex, in_selector))
            S2_TRY(optional_number(lex, units, &item.has_step, &item.step));
    }
    *out = item;
    return S2_OK;
}
