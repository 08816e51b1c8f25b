/* The canonical language, by the grammar of docs/proof.md: only what the canonical printer writes is read.
 */
#include "cert/cert.h"

#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse_here(s2_cert *c, s2_cert_verdict verdict, const char *what)
{
    int line = 1, column = 1;
    for (const char *byte = c->text; byte < c->pos; byte++) {
        line += *byte == '\n';
        column = *byte == '\n' ? 1 : column + 1;
    }
    return s2_cert_refuse(c, verdict, "line %d, column %d: %s", line, column, what);
}

static bool expected(s2_cert *c, const char *what)
{
    char text[128];
    snprintf(text, sizeof text, "expected %s", what);
    return refuse_here(c, S2_CERT_MALFORMED, text);
}

/* ---- bytes, words, numbers */

static char peek(const s2_cert *c)
{
    return c->pos < c->end ? *c->pos : '\0';
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool starts(const s2_cert *c, const char *bytes)
{
    const size_t n = strlen(bytes);
    return (size_t)(c->end - c->pos) >= n && memcmp(c->pos, bytes, n) == 0;
}

static bool take(s2_cert *c, const char *bytes)
{
    const bool there = starts(c, bytes);
    c->pos += there ? strlen(bytes) : 0;
    return there;
}

static bool expect(s2_cert *c, const char *bytes, const char *what)
{
    return take(c, bytes) || expected(c, what);
}

/* The number of the word at the cursor, which is consumed, or -1. */
static int choice(s2_cert *c, const char *const *words)
{
    size_t n = 0;
    while (c->pos + n < c->end && c->pos[n] >= 'a' && c->pos[n] <= 'z')
        n++;
    for (int w = 0; words[w] != NULL; w++)
        if (strlen(words[w]) == n && memcmp(c->pos, words[w], n) == 0) {
            c->pos += n;
            return w;
        }
    return -1;
}

/* A word here may belong to a later version of the language; anything else is not canonical. */
static bool unknown(s2_cert *c, const char *what)
{
    const bool word = peek(c) >= 'a' && peek(c) <= 'z';
    char text[64];
    snprintf(text, sizeof text, word ? "this checker knows no such %s" : "expected a %s", what);
    return refuse_here(c, word ? S2_CERT_UNDECIDED : S2_CERT_MALFORMED, text);
}

/* Decimal digits without leading zeros. */
static bool number(s2_cert *c, int64_t least, int64_t most, int64_t *out)
{
    const char *const begin = c->pos;
    int64_t value = 0;
    for (; is_digit(peek(c)) && value <= S2_CERT_TOK; c->pos++)
        value = value * 10 + (*c->pos - '0');
    if (c->pos != begin && (*begin != '0' || c->pos == begin + 1) && value >= least && value <= most) {
        *out = value;
        return true;
    }
    char what[80];
    snprintf(what, sizeof what, "a number from %lld to %lld", (long long)least, (long long)most);
    c->pos = begin;
    return expected(c, what);
}

/* ---- the shape */

/* Bytes of the UTF-8 character at the cursor; 0 for invalid bytes, or a character that the language refuses. */
static size_t character(const s2_cert *c)
{
    static const uint32_t least[] = {0, 0x20, 0x80, 0x800, 0x10000};
    static const uint32_t hostile[][2] = {{0x7f, 0x9f},     {0xad, 0xad},      {0x61c, 0x61c},
                                          {0x180e, 0x180e}, {0x200b, 0x200f},  {0x2028, 0x202e},
                                          {0x2060, 0x206f}, {0xd800, 0xdfff},  {0xfeff, 0xfeff},
                                          {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    const unsigned char first = (unsigned char)*c->pos;
    const size_t n = first < 0x80   ? 1
                     : first < 0xc0 ? 0
                     : first < 0xe0 ? 2
                     : first < 0xf0 ? 3
                     : first < 0xf8 ? 4
                                    : 0;
    if (n == 0 || (size_t)(c->end - c->pos) < n)
        return 0;
    uint32_t code = n == 1 ? first : first & (0x7fu >> n);
    for (size_t b = 1; b < n; b++) {
        if (((unsigned char)c->pos[b] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)c->pos[b] & 0x3f);
    }
    for (size_t h = 0; h < sizeof hostile / sizeof *hostile; h++)
        if (code >= hostile[h][0] && code <= hostile[h][1])
            return 0;
    return code >= least[n] && code <= 0x10ffff ? n : 0;
}

/* Quoted exactly where the bare text would be read differently. */
static bool read_name(s2_cert *c)
{
    if (!take(c, "name "))
        return true;
    enum { MOST = 200 };
    char name[MOST + 4];
    size_t n = 0;
    const bool quoted = take(c, "\"");
    while (c->pos < c->end && *c->pos != '\n' && !(quoted && *c->pos == '"')) {
        if (quoted && take(c, "\\") && peek(c) != '"' && peek(c) != '\\')
            return expected(c, "a quote or a backslash");
        const size_t n_bytes = character(c);
        if (n_bytes == 0 || n + n_bytes > MOST)
            return expected(c, "a name of at most 200 bytes of harmless UTF-8");
        memcpy(name + n, c->pos, n_bytes);
        n += n_bytes;
        c->pos += n_bytes;
    }
    const bool bare = n > 0 && name[0] != ' ' && name[n - 1] != ' ' && name[0] != '"' &&
                      memchr(name, ';', n) == NULL && memchr(name, '#', n) == NULL;
    if (n == 0 || bare == quoted)
        return expected(c, "a name, in quotes only where it must be");
    return (!quoted || expect(c, "\"", "a closing quote")) && expect(c, "\n", "the end of the line");
}

static bool read_model(s2_cert *c, bool *has_model)
{
    static const char *const models[] = {
        "gemma-2-27b",    "gemma-2-2b",      "gemma-2-9b",    "gpt-2",        "gpt-3-175b",   "gpt-oss-120b",
        "gpt-oss-20b",    "llama-2-13b",     "llama-2-70b",   "llama-2-7b",   "llama-3-70b",  "llama-3-8b",
        "llama-3.1-405b", "llama-3.1-70b",   "llama-3.1-8b",  "llama-3.2-1b", "llama-3.2-3b", "longchat-7b",
        "mistral-7b",     "mixtral-8x7b",    "phi-2",         "phi-3-medium", "phi-3-mini",   "phi-3-small",
        "qwen2.5-0.5b",   "qwen2.5-14b",     "qwen2.5-32b",   "qwen2.5-72b",  "qwen2.5-7b",   "qwen3-0.6b",
        "qwen3-1.7b",     "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen3-32b",    "qwen3-4b",     "qwen3-8b",
        "vicuna-7b",
    };
    *has_model = take(c, "model ");
    if (!*has_model)
        return true;
    const char *const newline = memchr(c->pos, '\n', (size_t)(c->end - c->pos));
    const size_t n = newline != NULL ? (size_t)(newline - c->pos) : 0;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        if (strlen(models[m]) == n && memcmp(c->pos, models[m], n) == 0) {
            c->pos += n + 1;
            return true;
        }
    return expected(c, "the name of a model");
}

/* The canonical text leaves `usual` out; 0: the number must be stated. */
static bool shape_number(s2_cert *c, const char *word, int64_t most, int64_t usual, int64_t *out)
{
    *out = usual;
    const char *const newline = memchr(c->pos, '\n', (size_t)(c->end - c->pos));
    const bool rule = newline != NULL && memchr(c->pos, ':', (size_t)(newline - c->pos)) != NULL;
    if (rule || !take(c, word))
        return usual != 0 || expected(c, word);
    const char *const begin = c->pos;
    if (!number(c, 1, most, out))
        return false;
    if (*out == usual) {
        c->pos = begin;
        return expected(c, "a number that is not the default");
    }
    return expect(c, "\n", "the end of the line");
}

static bool read_shape(s2_cert *c)
{
    bool has_model;
    int64_t head_dim;
    if (!read_name(c) || !read_model(c, &has_model) ||
        !shape_number(c, "layers ", S2_CERT_LAYERS, has_model ? 0 : 1, &c->n_layers) ||
        !shape_number(c, "heads ", S2_CERT_HEADS, 0, &c->n_heads) ||
        !shape_number(c, "kv-heads ", S2_CERT_HEADS, has_model ? 0 : c->n_heads, &c->n_kv) ||
        !shape_number(c, "head-dim ", 4096, has_model ? 0 : 128, &head_dim) ||
        !shape_number(c, "block ", 1024, 64, &c->block))
        return false;
    if (c->n_heads % c->n_kv != 0 || (c->block & (c->block - 1)) != 0)
        return expected(c, "KV heads that divide the heads, and a block that is a power of two");
    c->causal = !take(c, "causal no\n");
    return true;
}

/* ---- terms */

static bool in_blocks(const s2_cert *c, int64_t value)
{
    return value == S2_CERT_OPEN || value % c->block == 0;
}

static int64_t most_of(const s2_cert *c, bool tok)
{
    return S2_CERT_TOK / (tok ? 1 : c->block);
}

/* A number and its unit. */
static bool quantity(s2_cert *c, int64_t least, int64_t *value, bool *tok)
{
    const char *const begin = c->pos;
    if (!number(c, least, S2_CERT_TOK, value))
        return false;
    *tok = take(c, "t");
    if (*value <= most_of(c, *tok))
        return true;
    c->pos = begin;
    return expected(c, "a number of at most 2^24 tokens");
}

static bool read_phase(s2_cert *c, s2_cert_term *t)
{
    static const char *const words[] = {"head", "kv", "layer", NULL};
    int last = -1;
    do {
        const int word = is_digit(peek(c)) ? 3 : choice(c, words);
        if (word <= last)
            return expected(c, "head, kv, layer and a constant, each at most once and in this order");
        t->coef[last = word] = 1;
        if (word == 3 ? !number(c, 1, S2_CERT_TOK, &t->coef[3])
                      : take(c, "*") && !number(c, 2, S2_CERT_TOK, &t->coef[word]))
            return false;
    } while (take(c, "+"));
    return true;
}

static bool read_stride(s2_cert *c, s2_cert_term *t)
{
    enum { MOST = 1 << 16 };
    if (!number(c, 1, MOST, &t->n))
        return false;
    t->tok = take(c, "t");
    if (take(c, " width ") &&
        (!number(c, 2, t->n, &t->width) || (t->tok && !expect(c, "t", "the unit of the stride"))))
        return false;
    if (take(c, " phase ") && !read_phase(c, t))
        return false;
    bool whole = in_blocks(c, t->n) && in_blocks(c, t->width);
    for (int part = 0; part < 4; part++)
        whole = whole && in_blocks(c, t->coef[part]);
    return !t->tok || (c->block > 1 && (t->kind == S2_CERT_DILATED || !whole)) ||
           expected(c, "blocks in place of tokens");
}

static bool read_extent(s2_cert *c, s2_cert_term *t)
{
    if (!quantity(c, 1, &t->n, &t->tok))
        return false;
    return !t->tok || (c->block > 1 && (t->kind == S2_CERT_LOCAL || !in_blocks(c, t->n))) ||
           expected(c, "blocks in place of tokens");
}

typedef struct list_unit {
    bool known, tok;
} list_unit;

/* A number of a list; all have one unit. */
static bool list_number(s2_cert *c, int64_t least, int64_t most_less, list_unit *unit, int64_t *out)
{
    bool tok;
    const char *const begin = c->pos;
    if (!quantity(c, least, out, &tok))
        return false;
    if ((!unit->known || unit->tok == tok) && *out <= most_of(c, tok) - most_less) {
        *unit = (list_unit){true, tok};
        return true;
    }
    c->pos = begin;
    return expected(c, "a number of the list's unit, below 2^24 tokens");
}

/* "all", n, a-b, b::, b::s or b:e:s with at least three elements and the end just after the last one. */
static bool read_range(s2_cert *c, list_unit *unit, s2_cert_range *r)
{
    *r = (s2_cert_range){0, S2_CERT_OPEN, 1};
    if (take(c, "all"))
        return true;
    if (!list_number(c, 0, 0, unit, &r->begin))
        return false;
    if (take(c, "-")) {
        if (!list_number(c, r->begin + 1, 1, unit, &r->end))
            return false;
        r->end++;
        return true;
    }
    if (take(c, "::")) {
        const bool stepped = is_digit(peek(c));
        return (stepped || r->begin > 0 || expected(c, "all")) &&
               (!stepped || list_number(c, 2, 0, unit, &r->step));
    }
    if (take(c, ":"))
        return list_number(c, r->begin + 1, 0, unit, &r->end) && expect(c, ":", "a step") &&
               list_number(c, 2, 0, unit, &r->step) &&
               (((r->end - 1 - r->begin) % r->step == 0 && (r->end - 1 - r->begin) / r->step >= 2) ||
                expected(c, "a step between at least three elements, the last just below the end"));
    r->end = r->begin + 1;
    return r->end <= most_of(c, unit->tok) || expected(c, "a number below 2^24 tokens");
}

static bool ascends(const s2_cert_range *a, const s2_cert_range *b)
{
    if (a->begin != b->begin)
        return a->begin < b->begin;
    return a->step != b->step ? a->step < b->step : a->end < b->end;
}

/* Sorted, without duplicates, adjacent runs joined, in tokens only where blocks cannot say it. */
static bool read_list(s2_cert *c, s2_cert_term *t)
{
    list_unit unit = {false, false};
    bool whole = true;
    int64_t plain_end = -1;
    t->list = c->n_ranges;
    do {
        s2_cert_range *const grown = s2_cert_grow(c, c->ranges, c->n_ranges, &c->cap_ranges, sizeof *grown);
        c->ranges = grown != NULL ? grown : c->ranges;
        if (grown == NULL || !read_range(c, &unit, &c->ranges[c->n_ranges]))
            return false;
        const s2_cert_range *const r = &c->ranges[c->n_ranges++];
        if ((t->n_list > 0 && !ascends(r - 1, r)) || (r->step == 1 && r->begin <= plain_end))
            return expected(c, "ascending ranges that do not touch");
        plain_end = r->step == 1 ? r->end : plain_end;
        whole = whole && r->step == 1 && in_blocks(c, r->begin) && in_blocks(c, r->end);
        t->n_list++;
    } while (take(c, ","));
    t->tok = unit.tok;
    return !t->tok || (c->block > 1 && !whole) || expected(c, "blocks in place of tokens");
}

/* ---- conditions */

typedef struct condition {
    int what;
    bool has[2], tok[2]; /* begin, end */
    int64_t value[2];
} condition;

static bool read_condition(s2_cert *c, condition *out)
{
    static const char *const words[] = {"distance", "key", "query", NULL};
    *out = (condition){.what = choice(c, words)};
    if (out->what < 0 || !take(c, " "))
        return expected(c, "distance, key or query");
    for (int side = 0; side < 2; side++) {
        if (side == 1 && !expect(c, "..", "two dots"))
            return false;
        out->has[side] = is_digit(peek(c));
        if (!out->has[side])
            continue;
        if (!quantity(c, side == 0, &out->value[side], &out->tok[side]))
            return false;
        const bool one_unit = out->what != S2_CERT_DISTANCE || c->block == 1;
        if (one_unit && out->tok[side] && in_blocks(c, out->value[side]))
            return expected(c, "blocks in place of tokens");
    }
    return out->has[0] || out->has[1] || expected(c, "a bound");
}

/* A distance bounded in both units on one side takes two conditions, blocks first. */
static bool follows(const s2_cert *c, const condition *a, const condition *b)
{
    if (a->what != b->what)
        return a->what < b->what;
    bool clash = false, units = true;
    for (int side = 0; side < 2; side++) {
        clash = clash || (a->has[side] && b->has[side]);
        units = units && !(a->has[side] && a->tok[side]) && !(b->has[side] && !b->tok[side]);
    }
    return a->what == S2_CERT_DISTANCE && c->block > 1 && clash && units;
}

static bool can_read(const s2_cert *c, const s2_cert_term *t)
{
    for (int what = 0; what < S2_CERT_QUANTITIES; what++) {
        const s2_cert_range blk = t->when[what][S2_CERT_IN_BLOCKS], tok = t->when[what][S2_CERT_IN_TOKENS];
        if (blk.begin >= blk.end || tok.begin >= tok.end)
            return false;
        /* a distance of d blocks is one of (d - 1) block + 1 .. (d + 1) block - 1 tokens */
        const int64_t less = what == S2_CERT_DISTANCE && blk.begin > 0 ? c->block - 1 : 0;
        if (tok.end != S2_CERT_OPEN && tok.end <= blk.begin * c->block - less)
            return false;
        if (blk.end != S2_CERT_OPEN && tok.begin >= blk.end * c->block)
            return false;
    }
    return true;
}

static bool read_when(s2_cert *c, s2_cert_term *t)
{
    condition last = {.what = -1};
    for (bool more = take(c, " when "); more; more = take(c, " & ")) {
        condition now;
        if (!read_condition(c, &now))
            return false;
        if (!follows(c, &last, &now))
            return expected(c, "conditions joined, as distance, key and query");
        if (now.has[0])
            t->when[now.what][now.tok[0]].begin = now.value[0];
        if (now.has[1])
            t->when[now.what][now.tok[1]].end = now.value[1];
        last = now;
    }
    return can_read(c, t) || expected(c, "conditions that do not exclude each other");
}

/* ---- bodies */

static bool read_term(s2_cert *c)
{
    static const char *const kinds[] = {"dense",   "none",  "local",   "sink", "stride",
                                        "dilated", "chunk", "columns", "rows", NULL};
    const int kind = choice(c, kinds);
    if (kind < 0)
        return unknown(c, "term");
    s2_cert_term *const grown = s2_cert_grow(c, c->terms, c->n_terms, &c->cap_terms, sizeof *grown);
    if (grown == NULL)
        return false;
    c->terms = grown;
    s2_cert_term t = {.kind = (s2_cert_kind)kind, .n = 1, .width = 1};
    for (int w = 0; w < S2_CERT_QUANTITIES * S2_CERT_UNITS; w++)
        t.when[w / S2_CERT_UNITS][w % S2_CERT_UNITS] = (s2_cert_range){0, S2_CERT_OPEN, 1};
    if (kind >= S2_CERT_LOCAL && !expect(c, " ", "a space and a number"))
        return false;
    const bool read = kind < S2_CERT_LOCAL                                ? true
                      : kind >= S2_CERT_COLUMNS                           ? read_list(c, &t)
                      : kind == S2_CERT_STRIDE || kind == S2_CERT_DILATED ? read_stride(c, &t)
                                                                          : read_extent(c, &t);
    if (!read || !read_when(c, &t))
        return false;
    c->terms[c->n_terms++] = t;
    return true;
}

typedef struct piece {
    const char *text;
    size_t n;
} piece;

static int compare_pieces(const void *left, const void *right)
{
    const piece *const a = left, *const b = right;
    const int order = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static bool read_terms(s2_cert *c)
{
    piece *pieces = NULL;
    int32_t n = 0, cap = 0;
    bool sound = true;
    do {
        piece *const grown = s2_cert_grow(c, pieces, n, &cap, sizeof *pieces);
        const char *const begin = c->pos;
        sound = grown != NULL && read_term(c);
        pieces = grown != NULL ? grown : pieces;
        if (sound)
            pieces[n++] = (piece){begin, (size_t)(c->pos - begin)};
    } while (sound && take(c, " | "));
    if (sound)
        qsort(pieces, (size_t)n, sizeof *pieces, compare_pieces);
    for (int32_t p = 1; sound && p < n; p++)
        sound = compare_pieces(&pieces[p - 1], &pieces[p]) != 0 || expected(c, "no term twice");
    free(pieces);
    return sound;
}

/* The body up to the end of the line; a body that was read before keeps its number. */
static bool read_body(s2_cert *c, int32_t *out)
{
    const char *const newline = memchr(c->pos, '\n', (size_t)(c->end - c->pos));
    const size_t n = newline != NULL ? (size_t)(newline - c->pos) : 0;
    for (*out = 0; *out < c->n_bodies; ++*out)
        if (c->bodies[*out].n_text == n && memcmp(c->bodies[*out].text, c->pos, n) == 0) {
            c->pos = newline;
            return true;
        }
    s2_cert_body *const grown = s2_cert_grow(c, c->bodies, c->n_bodies, &c->cap_bodies, sizeof *grown);
    if (grown == NULL)
        return false;
    c->bodies = grown;
    s2_cert_body body = {c->pos, n, c->n_terms, 0, 0};
    const int32_t n_ranges = c->n_ranges;
    if (!read_terms(c))
        return false;
    body.n_terms = c->n_terms - body.first_term;
    body.cost = 1 + body.n_terms + c->n_ranges - n_ranges;
    c->bodies[c->n_bodies++] = body;
    return true;
}

/* ---- selectors */

static void set_range(uint64_t *set, int64_t begin, int64_t end)
{
    for (int64_t x = begin; x < end; x++)
        set[x / 64] |= UINT64_C(1) << (x % 64);
}

/* Printing the selector again will show whether the list is in canonical form. */
static bool read_indices(s2_cert *c, int64_t n_all, int64_t each, uint64_t *set)
{
    memset(set, 0, (size_t)((n_all * each + 63) / 64) * sizeof *set);
    do {
        s2_cert_range r = {0, 0, 1};
        if (!number(c, 0, n_all - 1, &r.begin))
            return false;
        r.end = r.begin + 1;
        if (take(c, "-")) {
            if (!number(c, r.begin + 1, n_all - 1, &r.end))
                return false;
            r.end++;
        } else if (!starts(c, ": ") && take(c, ":")) {
            r.end = n_all;
            if ((is_digit(peek(c)) && !number(c, 1, n_all, &r.end)) || !expect(c, ":", "a step") ||
                !number(c, 2, n_all, &r.step))
                return false;
        }
        for (int64_t x = r.begin; x < r.end; x += r.step)
            set_range(set, x * each, (x + 1) * each);
    } while (take(c, ","));
    return true;
}

static bool read_selector(s2_cert *c, s2_cert_rule *rule)
{
    rule->phases = 3;
    set_range(rule->layers, 0, c->n_layers);
    set_range(rule->heads, 0, c->n_heads);
    if (take(c, "layers all"))
        return true;
    if (take(c, "prefill"))
        rule->phases = 1;
    else if (take(c, "decode"))
        rule->phases = 2;
    bool any = rule->phases != 3;
    if (take(c, any ? " layers " : "layers ")) {
        if (!read_indices(c, c->n_layers, 1, rule->layers))
            return false;
        any = true;
    }
    if (take(c, any ? " kv " : "kv "))
        return read_indices(c, c->n_kv, c->n_heads / c->n_kv, rule->heads);
    if (take(c, any ? " heads " : "heads "))
        return read_indices(c, c->n_heads, 1, rule->heads);
    return any || unknown(c, "statement");
}

static bool check_selector(s2_cert *c, const s2_cert_rule *rule, const char *begin)
{
    char *text;
    size_t n;
    if (!s2_cert_selector(c, rule, &text, &n))
        return false;
    const bool same = n == rule->n_selector && memcmp(text, begin, n) == 0;
    free(text);
    return same || expected(c, "the canonical selector");
}

static bool read_rule(s2_cert *c)
{
    if (c->n_rules == S2_CERT_RULES)
        return expected(c, "at most 4096 rules");
    s2_cert_rule *const rules = s2_cert_grow(c, c->rules, c->n_rules, &c->cap_rules, sizeof *rules);
    if (rules == NULL)
        return false;
    c->rules = rules;
    s2_cert_rule *const rule = &rules[c->n_rules];
    memset(rule, 0, sizeof *rule);
    const char *const begin = c->pos;
    if (!read_selector(c, rule))
        return false;
    rule->n_selector = (size_t)(c->pos - begin);
    if (!check_selector(c, rule, begin) || !expect(c, ": ", "a colon and a space") ||
        !read_body(c, &rule->body) || !expect(c, "\n", "the end of the term or of the line"))
        return false;
    c->n_rules++;
    return true;
}

static bool read_pattern(s2_cert *c)
{
    if (!read_shape(c))
        return false;
    while (c->pos < c->end)
        if (!read_rule(c))
            return false;
    return (c->n_rules > 0 || expected(c, "a rule")) && s2_cert_resolve(c);
}

/* ---- the certificate */

static bool read_claim(s2_cert *c, s2_cert_claim *claim)
{
    const int word = choice(c, s2_cert_properties);
    if (word < 0)
        return expected(c, "a property");
    *claim = (s2_cert_claim){(s2_cert_property)word, 1};
    if ((word == S2_CERT_RANKS || word == S2_CERT_DEPTH) &&
        (!expect(c, ":", "a colon and a number") ||
         !number(c, 1, word == S2_CERT_RANKS ? c->n_heads : S2_CERT_HEADS, &claim->arg)))
        return false;
    if (word == S2_CERT_RANKS && c->n_heads % claim->arg != 0)
        return expected(c, "ranks that divide the heads");
    for (int32_t other = 0; other < c->n_claims; other++)
        if (c->claims[other].property == claim->property && c->claims[other].arg == claim->arg)
            return expected(c, "no claim twice");
    return true;
}

static bool read_claims(s2_cert *c)
{
    const char *const begin = c->pos;
    if (!expect(c, "claims", "claims"))
        return false;
    while (c->n_claims < S2_CERT_MOST_CLAIMS && take(c, " ")) {
        if (!read_claim(c, &c->claims[c->n_claims]))
            return false;
        c->n_claims++;
    }
    const size_t n = (size_t)(c->pos - begin);
    if (c->n_claims == 0 || !take(c, "\nend\n"))
        return expected(c, "1 to 16 claims, and a last line `end`");
    if (c->pos != c->end)
        return expected(c, "nothing after the line `end`");
    if (n < sizeof c->answer->claims)
        memcpy(c->answer->claims, begin, n);
    return true;
}

/* The first line; *n_text becomes the length of the pattern that follows. */
static bool read_header(s2_cert *c, int64_t *n_text)
{
    if (!expect(c, "s2cert 1 ", "a certificate: s2cert 1"))
        return false;
    for (int digit = 0; digit < S2_CERT_HASH - 1; digit++, c->pos++) {
        if (!is_digit(peek(c)) && !(peek(c) >= 'a' && peek(c) <= 'f'))
            return expected(c, "a hash of 64 lower-case hexadecimal digits");
        c->answer->hash[digit] = *c->pos;
    }
    return expect(c, " ", "a space and a length") && number(c, 1, S2_CERT_TEXT_BYTES, n_text) &&
           expect(c, "\n", "the end of the line") &&
           (*n_text <= c->end - c->pos || expected(c, "as much text as the first line says"));
}

static bool check_whole(s2_cert *c, double most_steps)
{
    char computed[SHA256_DIGEST_STRING_LENGTH];
    int64_t n_text = 0;
    if (!read_header(c, &n_text))
        return false;
    SHA256Data((const uint8_t *)c->pos, (size_t)n_text, computed);
    if (strcmp(computed, c->answer->hash) != 0)
        return s2_cert_refuse(c, S2_CERT_REFUTED, "the hash is not that of the pattern");
    const char *const end = c->end;
    c->end = c->pos + n_text;
    if (!read_pattern(c))
        return false;
    c->end = end;
    return read_claims(c) && s2_cert_decide(c, most_steps);
}

void s2_cert_check(const char *bytes, size_t n, double most_steps, s2_cert_answer *out)
{
    *out = (s2_cert_answer){.verdict = S2_CERT_MALFORMED};
    s2_cert c = {.text = bytes, .pos = bytes, .end = bytes + n, .answer = out, .fallback = -1};
    if (check_whole(&c, most_steps))
        out->verdict = S2_CERT_VERIFIED;
    free(c.terms);
    free(c.ranges);
    free(c.bodies);
    free(c.rules);
    free(c.body_of);
}
