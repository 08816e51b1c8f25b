/*
 * s2cert - check a certificate without the prover.
 *
 * Shares no code with the rest: its own reader of the canonical language, its own definition of every
 * static term, its own bounds. docs/proof.md states the theorem that makes the columns checked here enough,
 * and the format. Exit: 0 verified, 1 not verified, 2 usage, 3 not a certificate.
 */
#include <ctype.h>
#include <inttypes.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUTED = 1, USAGE, MALFORMED };
enum { DENSE, NONE, LOCAL, SINK, STRIDE, DILATED, COLUMNS, ROWS, CHUNK, N_KINDS };
enum { DISTANCE, KEY, QUERY, N_QUANTITIES };
enum {
    MOST_BYTES = 64 << 20,
    MOST_TEXT = 1 << 20,
    MOST_COLUMNS = 1 << 22,
    MOST_LAYERS = 1024,
    MOST_HEADS = 4096,
    MOST_BODIES = 65535
};
static const char *const KINDS[] = {"dense",   "none",    "local", "sink", "stride",
                                    "dilated", "columns", "rows",  "chunk"};
static const char *const QUANTITIES[] = {"distance", "key", "query"};
static const char *const CLAIMS[] = {"rows", "union", "kv", "group", "shards", "ranks", "depth"};
static const int64_t OPEN = INT64_MAX, MOST = INT64_C(1) << 40;

typedef struct span {
    int64_t begin, end, step;
} span;
typedef struct term {
    int kind, first_span, n_spans;
    int64_t size, n, width, coef[4]; /* size: tokens per unit; coef: head, kv, layer, constant */
    span when[N_QUANTITIES][2];      /* in blocks, in tokens */
} term;
typedef struct body {
    const char *text;
    size_t n_bytes;
    int first, n;
    int64_t steps; /* to evaluate it once */
} body;
typedef struct head {
    int body;
    int64_t first_column, shift[];
} head; /* what one head reads, constants folded */

typedef struct cert {
    const char *path, *at, *end;
    int line, n_terms, n_spans, n_bodies, n_heads;
    int64_t work_left, shape[3], block, unit, threshold, reach, period, tail, cycle, n_columns, n_edges;
    bool causal;
    term *terms;
    span *spans;
    body *bodies;
    head **heads;
    uint16_t *body_of; /* [phase][layer][head], as head_of */
    int *head_of;
    int64_t *columns, *edges; /* columns[]: first edge of each column; edges: begin, end, begin, end, ... */
} cert;

static _Noreturn void stop(const cert *c, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "s2cert: %s:%d: ", c->path, c->line);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(code);
}

static void spend(cert *c, int64_t work)
{
    if ((c->work_left -= work) < 0)
        stop(c, REFUTED, "not verified: it needs more work than the limit");
}

/* Room for one more after n objects; capacities are the powers of two. */
static void *grow(const cert *c, void *old, int64_t n, size_t size)
{
    void *const p = (n & (n - 1)) != 0 ? old : realloc(old, (size_t)(n > 0 ? 2 * n : 1) * size);
    if (p == NULL)
        stop(c, REFUTED, "not verified: out of memory");
    return p;
}

/* ---- reading ---- */

static bool take(cert *c, const char *text)
{
    while (c->at < c->end && *c->at == ' ')
        c->at++;
    const size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0 ||
        (isalpha((unsigned char)*text) && c->at + n < c->end &&
         (isalpha((unsigned char)c->at[n]) || c->at[n] == '-')))
        return false;
    c->at += n;
    c->line += *text == '\n';
    return true;
}

static void expect(cert *c, const char *text)
{
    if (!take(c, text))
        stop(c, MALFORMED, "expected %s", *text == '\n' ? "the end of the line" : text);
}

static int choice(cert *c, const char *const *words, int n)
{
    for (int w = 0; w < n; w++)
        if (take(c, words[w]))
            return w;
    return stop(c, MALFORMED, "a word that certificates do not know"), 0;
}

static bool at_digit(cert *c)
{
    return take(c, "") && c->at < c->end && isdigit((unsigned char)*c->at);
}

/* A number below 2^40; the suffix t is read only where tok is given. */
static int64_t number(cert *c, bool *tok)
{
    int64_t value = 0;
    if (!at_digit(c))
        stop(c, MALFORMED, "expected a number");
    if (*c->at == '0' && c->at + 1 < c->end && isdigit((unsigned char)c->at[1]))
        stop(c, MALFORMED, "a number begins with 0");
    for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        if ((value = value * 10 + (*c->at - '0')) >= MOST)
            stop(c, MALFORMED, "a number is too large");
    if (tok != NULL && (*tok = c->at < c->end && *c->at == 't'))
        c->at++;
    return value;
}

static int64_t number_in(cert *c, int64_t least, int64_t most)
{
    const int64_t value = number(c, NULL);
    if (value < least || value > most)
        stop(c, MALFORMED, "a number is not in %" PRId64 "..%" PRId64, least, most);
    return value;
}

/* all | a | a-b | a:[b]:[step]; a colon before a blank ends a selector. */
static span item(cert *c, bool *tok)
{
    if (take(c, "all"))
        return (span){0, OPEN, 1};
    span s = {.begin = number(c, tok), .step = 1};
    s.end = s.begin + 1;
    if (take(c, "-")) {
        s.end = number(c, tok) + 1;
    } else if (c->at + 1 < c->end && *c->at == ':' && (c->at[1] == ':' || isdigit((unsigned char)c->at[1]))) {
        c->at++;
        s.end = *c->at == ':' ? OPEN : number(c, tok);
        expect(c, ":");
        s.step = at_digit(c) ? number(c, tok) : 1;
    }
    if (s.step < 1 || s.begin >= s.end)
        stop(c, MALFORMED, "an empty item of a list");
    return s;
}

/* times: members per index, for selectors by KV head. */
static void selector(cert *c, uint8_t *chosen, int64_t n_all, int64_t times)
{
    memset(chosen, 0, (size_t)(n_all * times));
    do {
        const span s = item(c, NULL);
        if (s.begin >= n_all || (s.end != OPEN && s.end > n_all))
            stop(c, MALFORMED, "a selector names what is not there");
        for (int64_t at = s.begin; at < s.end && at < n_all; at += s.step)
            memset(chosen + at * times, 1, (size_t)times);
    } while (take(c, ","));
}

static void conditions(cert *c, term *t)
{
    do {
        bool tok;
        span *const when = t->when[choice(c, QUANTITIES, N_QUANTITIES)];
        if (at_digit(c)) {
            const int64_t begin = number(c, &tok);
            when[tok].begin = begin > when[tok].begin ? begin : when[tok].begin;
        }
        expect(c, "..");
        if (at_digit(c)) {
            const int64_t end = number(c, &tok);
            when[tok].end = end < when[tok].end ? end : when[tok].end;
        }
    } while (take(c, "&"));
}

static void read_term(cert *c)
{
    static const char *const words[] = {"head", "kv", "layer"};
    term t = {.kind = choice(c, KINDS, N_KINDS), .n = 1, .width = 1, .first_span = c->n_spans};
    bool tok = false;
    for (int quantity = 0; quantity < N_QUANTITIES; quantity++)
        t.when[quantity][0] = t.when[quantity][1] = (span){0, OPEN, 1};
    if (t.kind == COLUMNS || t.kind == ROWS) {
        do {
            c->spans = grow(c, c->spans, c->n_spans, sizeof *c->spans);
            c->spans[c->n_spans++] = item(c, &tok);
        } while (take(c, ","));
    } else if (t.kind > NONE) {
        t.n = number(c, &tok);
    }
    if (take(c, "width"))
        t.width = number(c, &tok);
    if (t.n < 1 || t.width < 1)
        stop(c, MALFORMED, "a number is 0");
    if (take(c, "phase")) {
        do {
            const int which = at_digit(c) ? 3 : choice(c, words, 3);
            t.coef[which] = which == 3 || take(c, "*") ? number(c, NULL) : 1;
        } while (take(c, "+"));
    }
    if (take(c, "when"))
        conditions(c, &t);
    t.size = tok ? 1 : c->block;
    t.n_spans = c->n_spans - t.first_span;
    c->terms = grow(c, c->terms, c->n_terms, sizeof t);
    c->terms[c->n_terms++] = t;
}

static int read_body(cert *c)
{
    body b = {.text = c->at, .first = c->n_terms, .steps = 1 - c->n_spans};
    do
        read_term(c);
    while (take(c, "|"));
    b.n_bytes = (size_t)(c->at - b.text);
    b.n = c->n_terms - b.first;
    b.steps += b.n + c->n_spans;
    for (int same = 0; same < c->n_bodies; same++)
        if (c->bodies[same].n_bytes == b.n_bytes && memcmp(c->bodies[same].text, b.text, b.n_bytes) == 0)
            return same;
    if (c->n_bodies == MOST_BODIES)
        stop(c, MALFORMED, "too many rules");
    c->bodies = grow(c, c->bodies, c->n_bodies, sizeof b);
    c->bodies[c->n_bodies] = b;
    return c->n_bodies++;
}

static void read_rule(cert *c)
{
    uint8_t layers[MOST_LAYERS], heads[MOST_HEADS];
    bool phases[2] = {!take(c, "decode"), true};
    phases[1] = !phases[0] || !take(c, "prefill");
    memset(layers, 1, sizeof layers);
    memset(heads, 1, sizeof heads);
    if (take(c, "layers"))
        selector(c, layers, c->shape[0], 1);
    if (take(c, "heads"))
        selector(c, heads, c->shape[1], 1);
    else if (take(c, "kv"))
        selector(c, heads, c->shape[2], c->shape[1] / c->shape[2]);
    expect(c, ":");
    take(c, "");
    const int b = read_body(c);
    for (int64_t cell = 0, n = c->shape[0] * c->shape[1]; cell < 2 * n; cell++)
        if (phases[cell / n] && layers[cell % n / c->shape[1]] && heads[cell % c->shape[1]])
            c->body_of[cell] = (uint16_t)(b + 1);
    spend(c, 16 * c->shape[0] * c->shape[1] + c->n_bodies);
}

static void read_shape(cert *c)
{
    static const char *const words[] = {"layers", "heads",  "kv-heads", "head-dim",
                                        "block",  "causal", "name",     "model"};
    int64_t dim = 0, *const values[] = {&c->shape[0], &c->shape[1], &c->shape[2], &dim, &c->block};
    const int64_t most[] = {MOST_LAYERS, MOST_HEADS, MOST_HEADS, MOST, 1024};
    const int which = choice(c, words, 8);
    if (which < 5)
        *values[which] = number_in(c, 1, most[which]);
    else if (which == 5)
        c->causal = (expect(c, "no"), false);
    else
        c->at = memchr(c->at, '\n', (size_t)(c->end - c->at));
}

static void read_pattern(cert *c)
{
    c->shape[0] = 1;
    c->block = 64;
    c->causal = true;
    while (c->at < c->end) {
        const size_t n_line = (size_t)((const char *)memchr(c->at, '\n', (size_t)(c->end - c->at)) - c->at);
        const bool named = n_line > 5 && (memcmp(c->at, "name ", 5) == 0 || memcmp(c->at, "model", 5) == 0);
        if (named || memchr(c->at, ':', n_line) == NULL) {
            if (c->body_of != NULL)
                stop(c, MALFORMED, "shape after a rule");
            read_shape(c);
        } else {
            if (c->body_of == NULL) {
                if (c->shape[2] == 0)
                    c->shape[2] = c->shape[1];
                if (c->shape[1] == 0 || c->shape[1] % c->shape[2] != 0 || (c->block & (c->block - 1)) != 0)
                    stop(c, MALFORMED, "the shape is no shape");
                c->body_of = calloc((size_t)(2 * c->shape[0] * c->shape[1]), sizeof *c->body_of);
                c->head_of = calloc((size_t)(2 * c->shape[0] * c->shape[1]), sizeof *c->head_of);
                if (c->body_of == NULL || c->head_of == NULL)
                    stop(c, REFUTED, "not verified: out of memory");
            }
            read_rule(c);
        }
        expect(c, "\n");
    }
}

/* ---- the definition ---- */

static bool in_span(span s, int64_t x)
{
    return x >= s.begin && x < s.end && (s.step == 1 || (x - s.begin) % s.step == 0);
}

static bool listed(const cert *c, const term *t, int64_t x)
{
    for (int s = t->first_span; s < t->first_span + t->n_spans; s++)
        if (in_span(c->spans[s], x))
            return true;
    return false;
}

static bool term_reads(const cert *c, const term *t, int64_t shift, int64_t q, int64_t k)
{
    for (int tok = 0; tok < 2; tok++) {
        const int64_t size = tok ? 1 : c->block, i = q / size, j = k / size;
        if (!in_span(t->when[DISTANCE][tok], llabs(i - j)) || !in_span(t->when[KEY][tok], j) ||
            !in_span(t->when[QUERY][tok], i))
            return false;
    }
    const int64_t i = q / t->size, j = k / t->size;
    switch (t->kind) {
    case DENSE: return true;
    case LOCAL: return llabs(i - j) < t->n;
    case SINK: return j < t->n;
    case STRIDE: return (j + shift) % t->n < t->width;
    case DILATED: return ((i - j) % t->n + t->n + shift) % t->n < t->width;
    case COLUMNS: return listed(c, t, j);
    case ROWS: return listed(c, t, i);
    case CHUNK: return i / t->n == j / t->n;
    default: return false;
    }
}

static bool reads(const cert *c, const head *h, int64_t q, int64_t k)
{
    const body *const b = &c->bodies[h->body];
    for (int t = 0; t < b->n && (!c->causal || k <= q); t++)
        if (term_reads(c, &c->terms[b->first + t], h->shift[t], q, k))
            return true;
    return false;
}

/* Cells that read alike share one head: same text of the body, same constants. */
static int find_head(cert *c, int64_t cell)
{
    const int64_t layer = cell / c->shape[1] % c->shape[0], index = cell % c->shape[1];
    const int64_t at[] = {index, index / (c->shape[1] / c->shape[2]), layer, 1};
    if (c->body_of[cell] == 0)
        stop(c, MALFORMED, "a head has no rule");
    const body *const b = &c->bodies[c->body_of[cell] - 1];
    const size_t n_bytes = (size_t)b->n * sizeof(int64_t);
    spend(c, b->n);
    head *const h = calloc(1, sizeof *h + n_bytes);
    if (h == NULL)
        stop(c, REFUTED, "not verified: out of memory");
    h->body = c->body_of[cell] - 1;
    for (int t = 0; t < b->n; t++)
        for (int part = 0; part < 4; part++)
            h->shift[t] =
                (h->shift[t] + c->terms[b->first + t].coef[part] * at[part]) % c->terms[b->first + t].n;
    for (int same = 0; same < c->n_heads; same++) {
        spend(c, 1 + b->n / 8);
        if (c->heads[same]->body == h->body && memcmp(c->heads[same]->shift, h->shift, n_bytes) == 0) {
            free(h);
            return same;
        }
    }
    spend(c, INT64_C(64) * b->n); /* which bounds the memory of heads too */
    c->heads = grow(c, c->heads, c->n_heads, sizeof *c->heads);
    c->heads[c->n_heads] = h;
    return c->n_heads++;
}

/* ---- bounds: the certificate states them, the terms must agree (docs/proof.md, section 2) ---- */

static int64_t lcm(const cert *c, int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y != 0) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    if (a / x >= MOST / b)
        stop(c, REFUTED, "not verified: the periods have no common multiple below 2^40");
    return a / x * b;
}

static void need(const cert *c, bool enough, const char *bound)
{
    if (!enough)
        stop(c, REFUTED, "not verified: the stated %s is too small for the pattern or no multiple", bound);
}

static void need_edges(const cert *c, span s, int64_t size)
{
    need(c, s.begin * size <= c->threshold && (s.end == OPEN || s.end * size <= c->threshold), "threshold");
}

static void check_term_bounds(const cert *c, const term *t)
{
    const int64_t turn = t->n * t->size;
    for (int tok = 0; tok < 2; tok++) {
        const int64_t size = tok ? 1 : c->block;
        const span far = t->when[DISTANCE][tok];
        need_edges(c, t->when[KEY][tok], size);
        need_edges(c, t->when[QUERY][tok], size);
        need(c, far.begin == 0 || (far.begin + 1) * size <= c->reach, "reach");
        need(c, far.end == OPEN || (far.end + 1) * size <= c->reach, "reach");
        const bool whole = far.begin == 0 && far.end == OPEN && t->when[KEY][tok].begin == 0 &&
                           t->when[KEY][tok].end == OPEN && t->when[QUERY][tok].begin == 0 &&
                           t->when[QUERY][tok].end == OPEN;
        need(c, tok == 0 || whole || c->unit == 1, "unit");
    }
    need(c, t->size % c->unit == 0, "unit");
    need(c, t->kind != SINK || turn <= c->threshold, "threshold");
    need(c, t->kind != LOCAL || turn + t->size <= c->reach, "reach");
    need(c, t->kind != CHUNK || turn <= c->reach, "reach");
    need(c, (t->kind != STRIDE && t->kind != CHUNK) || c->period % turn == 0, "period");
    need(c, c->period % t->size == 0, "period");
    need(c, t->kind != DILATED || c->tail % turn == 0, "tail");
    for (int s = t->first_span; s < t->first_span + t->n_spans; s++) {
        const span list = c->spans[s];
        need_edges(c, list, t->size);
        need(c, c->period % (list.step * t->size) == 0, "period");
        need(c, t->kind != ROWS || c->tail % (list.step * t->size) == 0, "tail");
    }
}

static void read_bounds(cert *c)
{
    expect(c, "bounds");
    int64_t *const values[] = {&c->unit, &c->threshold, &c->reach, &c->period, &c->tail};
    static const char *const words[] = {"unit", "threshold", "reach", "period", "tail"};
    for (int v = 0; v < 5; v++) {
        expect(c, words[v]);
        *values[v] = number_in(c, v == 1 || v == 2 ? 0 : 1, MOST);
    }
    need(c, (c->unit == 1 || c->unit == c->block) && c->period % c->block == 0, "unit");
    need(c, c->tail % c->unit == 0 && c->threshold % c->unit == 0 && c->reach % c->unit == 0, "unit");
    for (int t = 0; t < c->n_terms; t++)
        check_term_bounds(c, &c->terms[t]);
    c->cycle = lcm(c, c->period, c->tail);
    const int64_t end = c->threshold + (c->causal ? c->period : c->reach + 2 * c->cycle);
    if (end / c->unit > MOST_COLUMNS)
        stop(c, REFUTED, "not verified: too many columns");
    c->n_columns = end / c->unit;
    expect(c, "\n");
}

/* ---- the tables ---- */

/* Beyond max(threshold, k + reach) the column of key k repeats with tail; one more turn is listed. */
static int64_t horizon(const cert *c, int64_t k)
{
    return (k + c->reach > c->threshold ? k + c->reach : c->threshold) + c->tail;
}

static void check_column(cert *c, const head *h, int64_t k)
{
    bool inside = false;
    if (number(c, NULL) != k)
        stop(c, REFUTED, "not verified: the column of key %" PRId64 " is missing", k);
    expect(c, ":");
    c->columns = grow(c, c->columns, h->first_column + k / c->unit, sizeof *c->columns);
    c->columns[h->first_column + k / c->unit] = c->n_edges;
    const int64_t end = horizon(c, k), begin = c->causal ? k : 0;
    const int64_t n_queries = (end - begin) / c->unit + 1, steps = c->bodies[h->body].steps;
    spend(c, n_queries > c->work_left / steps ? c->work_left + 1 : n_queries * steps);
    for (int64_t q = begin; q <= end; q += c->unit) {
        if ((q < end && reads(c, h, q, k)) == inside)
            continue;
        inside = !inside;
        if (!at_digit(c) || number(c, NULL) != q)
            stop(c, REFUTED, "not verified: the runs of key %" PRId64 " differ at query %" PRId64, k, q);
        c->edges = grow(c, c->edges, c->n_edges, sizeof *c->edges);
        c->edges[c->n_edges++] = q;
    }
    expect(c, "\n");
}

static void read_tables(cert *c)
{
    int64_t n = 0;
    for (int h = 0; h < c->n_heads; h++) {
        expect(c, "head");
        if (number(c, NULL) != h)
            stop(c, REFUTED, "not verified: the table of head %d is missing", h);
        expect(c, "\n");
        c->heads[h]->first_column = n;
        for (int64_t column = 0; column < c->n_columns; column++, n++)
            check_column(c, c->heads[h], column * c->unit);
    }
    c->columns = grow(c, c->columns, n, sizeof *c->columns);
    c->columns[n] = c->n_edges;
    expect(c, "end");
    expect(c, "\n");
    if (c->at != c->end)
        stop(c, MALFORMED, "text after the end");
}

static const head *head_at(const cert *c, int phase, int64_t layer, int64_t index)
{
    return c->heads[c->head_of[(phase * c->shape[0] + layer) * c->shape[1] + index]];
}

/* End of the run of query q in a listed column: q itself when unread, OPEN when the run reaches the horizon.
 */
static int64_t run_end(cert *c, const head *h, int64_t q, int64_t k)
{
    const int64_t column = h->first_column + k / c->unit;
    spend(c, 1 + (c->columns[column + 1] - c->columns[column]) / 2);
    for (int64_t e = c->columns[column]; e < c->columns[column + 1]; e += 2)
        if (q >= c->edges[e] && q < c->edges[e + 1])
            return c->edges[e + 1] < horizon(c, k) ? c->edges[e + 1] : OPEN;
    return q;
}

/* Membership of any pair k <= q, from the tables by the two lemmas. */
static bool member(cert *c, const head *h, int64_t q, int64_t k)
{
    if (k >= c->threshold + c->period) {
        const int64_t down = (k - c->threshold) / c->period * c->period;
        q -= down;
        k -= down;
    }
    const int64_t end = horizon(c, k);
    if (q >= end)
        q = end - c->tail + (q - end) % c->tail;
    return run_end(c, h, q, k) != q;
}

/* ---- the claims ---- */

static bool has_rows(cert *c, const head *h)
{
    for (int64_t q = 0; q < c->threshold + c->reach + c->cycle; q += c->unit) {
        int64_t k = q;
        if (member(c, h, q, k))
            continue;
        for (k = 0; k < q && !member(c, h, q, k);)
            k += c->unit;
        if (k == q)
            return false;
    }
    return true;
}

/* First query >= q that no head of [begin, end) of the layer reads in the column of key k; OPEN: none. */
static int64_t first_unread(cert *c, int phase, int64_t layer, int64_t begin, int64_t end, int64_t q,
                            int64_t k)
{
    for (int64_t before = -1; q != OPEN && q < horizon(c, k) && before != q;) {
        before = q;
        for (int64_t index = begin; index < end && q != OPEN; index++)
            q = run_end(c, head_at(c, phase, layer, index), q, k);
    }
    return q < horizon(c, k) ? q : OPEN;
}

static bool is_complete(cert *c, int64_t layer, int64_t begin, int64_t end)
{
    for (int64_t at = 0; at < 2 * c->n_columns; at++) {
        const int64_t k = at / 2 * c->unit;
        if (first_unread(c, (int)(at % 2), layer, begin, end, c->causal ? k : 0, k) != OPEN)
            return false;
    }
    return true;
}

/* No key that `from` left unread is read later in `to`; a read in the last turn of the tail comes again. */
static bool is_efficient(cert *c, int64_t layer, int64_t index, int from, int to)
{
    const head *const h = head_at(c, to, layer, index);
    for (int64_t column = 0; column < c->n_columns; column++) {
        const int64_t k = column * c->unit, dropped = first_unread(c, from, layer, index, index + 1, k, k);
        const int64_t first = c->columns[h->first_column + column],
                      last = c->columns[h->first_column + column + 1];
        if (dropped != OPEN && last > first &&
            (c->edges[last - 1] > dropped + 1 || c->edges[last - 1] > horizon(c, k) - c->tail))
            return false;
    }
    return true;
}

static bool is_same(cert *c, const head *a, const head *b)
{
    for (int64_t column = 0; a != b && column < c->n_columns; column++) {
        const int64_t *const x = &c->columns[a->first_column + column],
                             *const y = &c->columns[b->first_column + column];
        spend(c, 1 + x[1] - x[0]);
        if (x[1] - x[0] != y[1] - y[0] ||
            memcmp(c->edges + x[0], c->edges + y[0], (size_t)(x[1] - x[0]) * sizeof *c->edges) != 0)
            return false;
    }
    return true;
}

static bool is_sharded(cert *c, int64_t layer, int phase)
{
    const int64_t group = c->shape[1] / c->shape[2];
    int64_t blk = OPEN, tok = OPEN;
    for (int64_t k = 0; k < c->n_columns * c->unit; k += c->unit)
        for (int64_t kv = 0; kv < c->shape[2]; kv++) {
            const int64_t q = first_unread(c, phase, layer, kv * group, (kv + 1) * group, k, k);
            blk = q != OPEN && q / c->block - k / c->block < blk ? q / c->block - k / c->block : blk;
            tok = q != OPEN && q - k < tok ? q - k : tok;
        }
    for (int64_t k = 0; k < c->n_columns * c->unit && blk != OPEN; k += c->unit) {
        const int64_t by_blk = (k / c->block + blk) * c->block, far = k + tok > by_blk ? k + tok : by_blk;
        const int64_t end = (far > horizon(c, k) ? far : horizon(c, k)) + c->tail;
        for (int64_t q = far; q < end; q += c->unit) {
            int readers = 0;
            for (int64_t kv = 0; kv < c->shape[2]; kv++) {
                bool any = false;
                for (int64_t index = kv * group; index < (kv + 1) * group && !any; index++)
                    any = member(c, head_at(c, phase, layer, index), q, k);
                readers += any;
            }
            if (readers != 1)
                return false;
        }
    }
    return true;
}

static bool layer_holds(cert *c, const char *claim, int64_t arg, int64_t layer)
{
    const int64_t n = c->shape[1], group = n / c->shape[2];
    bool holds = true;
    if (strcmp(claim, "union") == 0 || strcmp(claim, "depth") == 0)
        return is_complete(c, layer, 0, n);
    for (int64_t rank = 0; strcmp(claim, "ranks") == 0 && rank < arg && holds; rank++)
        holds = is_complete(c, layer, rank * (n / arg), (rank + 1) * (n / arg));
    for (int phase = 0; phase < 2 && holds; phase++) {
        for (int64_t index = 0; index < n && holds; index++) {
            if (strcmp(claim, "rows") == 0)
                holds = has_rows(c, head_at(c, phase, layer, index));
            else if (strcmp(claim, "kv") == 0)
                holds =
                    is_efficient(c, layer, index, phase, phase) && is_efficient(c, layer, index, 0, phase);
            else if (strcmp(claim, "group") == 0)
                holds = is_same(c, head_at(c, phase, layer, index),
                                head_at(c, phase, layer, index / group * group));
        }
        if (strcmp(claim, "shards") == 0)
            holds = c->causal && is_sharded(c, layer, phase);
    }
    return holds;
}

static bool same_layer(cert *c, int64_t a, int64_t b)
{
    const size_t row = (size_t)c->shape[1], n_layers = (size_t)c->shape[0];
    spend(c, (int64_t)row);
    return memcmp(c->head_of + (size_t)a * row, c->head_of + (size_t)b * row, row * sizeof(int)) == 0 &&
           memcmp(c->head_of + (n_layers + (size_t)a) * row, c->head_of + (n_layers + (size_t)b) * row,
                  row * sizeof(int)) == 0;
}

/* Every layer; of depth, one complete layer in every window of arg layers. */
static bool claim_holds(cert *c, const char *claim, int64_t arg)
{
    bool holds[MOST_LAYERS];
    int64_t missing = 0;
    if (strcmp(claim, "ranks") == 0 && (arg < 1 || c->shape[1] % arg != 0))
        stop(c, MALFORMED, "the ranks do not divide the heads");
    const int64_t most = strcmp(claim, "depth") != 0 ? 1 : arg < c->shape[0] ? arg : c->shape[0];
    for (int64_t layer = 0; layer < c->shape[0]; layer++) {
        int64_t same = 0;
        while (same < layer && !same_layer(c, same, layer))
            same++;
        holds[layer] = same < layer ? holds[same] : layer_holds(c, claim, arg, layer);
        missing = holds[layer] ? 0 : missing + 1;
        if (missing >= most)
            return false;
    }
    return true;
}

static void check_hash(const cert *c, const char *hex, const char *text, size_t n_bytes)
{
    char computed[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data((const uint8_t *)text, n_bytes, computed);
    if (memcmp(hex, computed, 64) != 0)
        stop(c, REFUTED, "not verified: the SHA-256 of the pattern is another");
}

/* s2cert 1, the hash, the claims, the pattern, the bounds, the tables. */
static void check(cert *c)
{
    int claims[64], n_claims = 0;
    int64_t args[64];
    expect(c, "s2cert 1");
    expect(c, "\n");
    expect(c, "sha256");
    take(c, "");
    const char *const hex = c->at;
    if (c->end - c->at < 65)
        stop(c, MALFORMED, "the file is cut off");
    c->at += 64;
    expect(c, "\n");
    while (n_claims < 64 && take(c, "claim")) {
        claims[n_claims] = choice(c, CLAIMS, 7);
        args[n_claims++] = take(c, ":") ? number_in(c, 1, MOST_HEADS) : 1;
        expect(c, "\n");
    }
    if (n_claims == 0)
        stop(c, MALFORMED, "it claims nothing");
    expect(c, "pattern");
    const int64_t n_bytes = number_in(c, 1, MOST_TEXT);
    expect(c, "\n");
    const char *const whole_end = c->end, *const text = c->at;
    if (n_bytes > c->end - c->at || c->at[n_bytes - 1] != '\n')
        stop(c, MALFORMED, "the pattern is cut off");
    check_hash(c, hex, text, (size_t)n_bytes);
    c->end = text + n_bytes;
    read_pattern(c);
    c->end = whole_end;
    if (c->body_of == NULL)
        stop(c, MALFORMED, "the pattern has no rule");
    for (int64_t cell = 0; cell < 2 * c->shape[0] * c->shape[1]; cell++)
        c->head_of[cell] = find_head(c, cell);
    read_bounds(c);
    read_tables(c);
    for (int claim = 0; claim < n_claims; claim++)
        if (!claim_holds(c, CLAIMS[claims[claim]], args[claim]))
            stop(c, REFUTED, "not verified: %s does not follow from the tables", CLAIMS[claims[claim]]);
    printf("verified for every context length:");
    for (int claim = 0; claim < n_claims; claim++)
        printf(claims[claim] < 5 ? " %s" : " %s:%" PRId64, CLAIMS[claims[claim]], args[claim]);
    printf("\npattern %.64s, %d heads of %" PRId64 " columns\n", hex, c->n_heads, c->n_columns);
}

static void release(cert *c)
{
    for (int h = 0; h < c->n_heads; h++)
        free(c->heads[h]);
    void *const owned[] = {c->heads,   c->terms,   c->spans,   c->bodies,
                           c->body_of, c->head_of, c->columns, c->edges};
    for (size_t p = 0; p < sizeof owned / sizeof *owned; p++)
        free(owned[p]);
}

int main(int argc, char **argv)
{
    cert c = {.line = 1, .work_left = INT64_C(4000000000)};
    FILE *const file = argc == 2 && argv[1][0] != '-' ? fopen(argv[1], "rb") : NULL;
    char *const bytes = malloc(MOST_BYTES + 1);
    if (file == NULL || bytes == NULL) {
        fprintf(stderr, argc == 2 && argv[1][0] != '-' ? "s2cert: the file cannot be read\n"
                                                       : "usage: s2cert FILE\n");
        return USAGE;
    }
    const size_t n_bytes = fread(bytes, 1, MOST_BYTES + 1, file);
    c.path = argv[1];
    c.at = bytes;
    c.end = bytes + n_bytes;
    fclose(file);
    if (n_bytes > MOST_BYTES)
        stop(&c, MALFORMED, "the file is longer than 64 MiB");
    check(&c);
    release(&c);
    free(bytes);
    return fflush(stdout) == 0 ? 0 : REFUTED;
}
