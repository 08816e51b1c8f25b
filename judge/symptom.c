/*
 * Why a forward is wrong. The keys that its rows read are found without using the pattern (judge/sight.h), and
 * rules that people have shipped by mistake are tried: the first that matches every row as seen is the
 * symptom. A rule says which keys a row would read; it is tried on correct rows too, so that it explains
 * those as well.
 */
#include "judge/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "judge/sight.h"
#include "kernels/float16.h"
#include "pattern/dense.h"
#include "pattern/parse.h"

enum {
    UNSEEN = 2,
    N_FIELDS = 5 /* numbers of a term that a kernel may have wrong */
};

#define ODD_VALUE (-2.718281828f) /* where scores are tried */

/* Relative: what rounding does to a score, twice over. */
static const double score_slack[S2_N_DTYPES] = {[S2_F32] = 2e-5, [S2_BF16] = 0x1p-6, [S2_F16] = 0x1p-9};

typedef struct s2_case {
    const s2_pattern *pattern;
    s2_phase phase;
    int32_t layer;
    s2_plan_seq lens;
    const s2_sight *sight;
    uint8_t *
        wrong; /* [row]: 1 it does not read what the pattern says, 0 it does, UNSEEN what it reads is not known */
    bool some; /* only rows of heads that are wrong are looked at: other heads are right */
    char *out;
    size_t cap;
} s2_case;

/* A mistake: which pair a kernel asks the pattern about, or which terms it asks. */
typedef struct s2_rule {
    int64_t q_shift, k_shift; /* added to the pair that is asked about */
    int32_t head_of;          /* head asked about: -1 the row's own, -2 its KV head, else this one */
    int32_t layer;            /* -1: its own */
    int32_t dropped;          /* term that is missing; -1: none */
    int64_t dropped_from;     /* ... for queries from here on */
    int32_t negative;         /* term whose remainder is negative before its first key, as in C; -1: none */
    const s2_term *changed;   /* in place of term `changed_at`; NULL: none */
    int32_t changed_at;
    int64_t block_tok; /* whole blocks of this many tokens are read; 0: pairs */
    int64_t k_end;     /* keys from here on are never read */
    bool everything;   /* the pattern is ignored */
    bool later;        /* ... and causality too */
    bool earlier;      /* only keys before the query's own are read */
} s2_rule;

static const s2_rule no_rule = {
    .head_of = -1, .layer = -1, .dropped = -1, .negative = -1, .k_end = INT64_MAX};

/* ------------------------------------------------------------------ what a rule reads */

static const s2_body *body_of(const s2_case *c, int32_t layer, int32_t head)
{
    return &c->pattern->bodies[s2_pattern_body(c->pattern, c->phase, layer, head)];
}

/* (k - first) % n < width holds for every k before the first key of a stride, where the remainder is negative. */
static bool remainder_is_negative(const s2_case *c, const s2_term *term, int32_t layer, int32_t head,
                                  int64_t k)
{
    const int64_t offset = s2_term_offset(term, layer, head, s2_pattern_kv_head(c->pattern, head)) % term->n;
    return k / (term->tok ? 1 : c->pattern->block_tok) < (term->n - offset) % term->n;
}

static bool terms_read(const s2_case *c, const s2_rule *rule, int32_t layer, int32_t head, int64_t q,
                       int64_t k)
{
    const s2_body *const body = body_of(c, layer, head);
    for (int32_t t = 0; t < body->n_terms; t++) {
        const bool changed = rule->changed != NULL && t == rule->changed_at;
        if (t == rule->dropped && q >= rule->dropped_from)
            continue;
        if (t == rule->negative && body->terms[t].kind == S2_TERM_STRIDE &&
            remainder_is_negative(c, &body->terms[t], layer, head, k))
            return true;
        if (s2_term_reads(c->pattern, changed ? rule->changed : &body->terms[t], layer, head, c->lens.k_tok,
                          q, k))
            return true;
    }
    return false;
}

static bool pair_reads(const s2_case *c, const s2_rule *rule, int32_t layer, int32_t head, int64_t q,
                       int64_t k)
{
    const int64_t asked_q = q + rule->q_shift, asked_k = k + rule->k_shift;
    if (c->pattern->causal && !rule->later && (k > q || asked_k > asked_q))
        return false;
    if (rule->earlier && k == q && q > 0)
        return false;
    if (rule->everything)
        return true;
    return asked_q >= 0 && asked_k >= 0 && terms_read(c, rule, layer, head, asked_q, asked_k);
}

/* Whether any pair of the pair's blocks is read. */
static bool block_reads(const s2_case *c, const s2_rule *rule, int32_t layer, int32_t head, int64_t q,
                        int64_t k)
{
    const int64_t size = rule->block_tok, q_begin = q / size * size, k_begin = k / size * size;
    if (c->pattern->causal && k > q)
        return false;
    for (int64_t q_at = q_begin; q_at < q_begin + size && q_at < c->lens.k_tok; q_at++)
        for (int64_t k_at = k_begin; k_at < k_begin + size && k_at < c->lens.k_tok; k_at++)
            if (pair_reads(c, rule, layer, head, q_at, k_at))
                return true;
    return false;
}

static bool rule_reads(const s2_case *c, const s2_rule *rule, int32_t row_head, int64_t q, int64_t k)
{
    const int32_t layer = rule->layer >= 0 ? rule->layer : c->layer;
    const int32_t head = rule->head_of == -1   ? row_head
                         : rule->head_of == -2 ? s2_pattern_kv_head(c->pattern, row_head)
                                               : rule->head_of;
    if (k >= rule->k_end)
        return false;
    return rule->block_tok > 0 ? block_reads(c, rule, layer, head, q, k)
                               : pair_reads(c, rule, layer, head, q, k);
}

static bool was_seen(const s2_case *c, int64_t row, int64_t k)
{
    return s2_sight_bit(c->sight, c->sight->seen, row, k);
}

static int64_t position_of(const s2_case *c, int64_t row)
{
    return c->lens.k_tok - c->lens.q_tok + c->sight->row[row].q_tok;
}

static bool explains_row(const s2_case *c, const s2_rule *rule, int64_t row)
{
    for (int64_t k = 0; k < c->lens.k_tok; k++)
        if (rule_reads(c, rule, c->sight->row[row].head, position_of(c, row), k) != was_seen(c, row, k))
            return false;
    return true;
}

/* Wrong rows first: they refute most rules at once. */
static bool explains(const s2_case *c, const s2_rule *rule)
{
    for (int wrong = 1; wrong >= 0; wrong--)
        for (int64_t row = 0; row < c->sight->n_rows; row++)
            if (c->wrong[row] == wrong && !explains_row(c, rule, row))
                return false;
    return true;
}

/* ------------------------------------------------------------------ the rules */

static bool say(const s2_case *c, const char *text)
{
    snprintf(c->out, c->cap, "%s", text);
    return true;
}

static bool try_corner(const s2_case *c)
{
    s2_rule rule = no_rule;
    rule.q_shift = c->lens.q_tok - c->lens.k_tok;
    return rule.q_shift != 0 && explains(c, &rule) &&
           say(c,
               "reads as if the queries were aligned to the first keys, not to the last: the other corner");
}

static bool try_everything(const s2_case *c)
{
    s2_rule rule = no_rule;
    rule.everything = true;
    if (c->pattern->causal && explains(c, &rule))
        return say(c, "ignores the pattern: every query reads every key that is not later");
    rule.later = true;
    if (explains(c, &rule))
        return say(c, "ignores the pattern and causality: every query reads every key");
    rule.everything = false;
    if (c->pattern->causal && explains(c, &rule))
        return say(c, "ignores causality: queries read later keys where the terms allow it");
    rule = no_rule;
    rule.everything = true;
    rule.q_shift = c->lens.q_tok - c->lens.k_tok;
    return rule.q_shift != 0 && explains(c, &rule) &&
           say(c, "ignores the pattern, and aligns the queries to the first keys: the other corner");
}

static bool try_own(const s2_case *c)
{
    s2_rule rule = no_rule;
    rule.earlier = true;
    return c->pattern->causal && explains(c, &rule) && say(c, "leaves out each query's own key");
}

static bool try_shifts(const s2_case *c)
{
    const int64_t steps[] = {1, c->pattern->block_tok};
    for (int nth = 0; nth < 8; nth++) {
        const int64_t by = steps[nth / 4] * (nth % 2 == 0 ? 1 : -1);
        const bool of_keys = nth % 4 < 2;
        s2_rule rule = no_rule;
        *(of_keys ? &rule.k_shift : &rule.q_shift) = by;
        if (!explains(c, &rule))
            continue;
        char text[160];
        snprintf(text, sizeof text, "reads as if %s stood one %s %s: a phase %s",
                 of_keys ? "keys" : "queries", nth / 4 == 0 ? "token" : "block", by > 0 ? "later" : "earlier",
                 nth / 4 == 0 ? "or window off by one token" : "off by one block");
        return say(c, text);
    }
    return false;
}

static bool try_heads(const s2_case *c)
{
    char text[160];
    s2_rule rule = no_rule;
    rule.head_of = -2;
    if (c->pattern->n_heads != c->pattern->n_kv_heads && explains(c, &rule))
        return say(c, "reads by the number of the KV head where the number of the query head is due");
    for (int32_t head = 0; head < c->pattern->n_heads && head < 64; head++) {
        rule.head_of = head;
        snprintf(text, sizeof text, "%sreads what head %d has to read", c->some ? "" : "every head ", head);
        if (explains(c, &rule))
            return say(c, text);
    }
    rule = no_rule;
    for (int32_t layer = 0; layer < c->pattern->n_layers && layer < 64; layer++) {
        rule.layer = layer;
        snprintf(text, sizeof text, "reads what layer %d has to read", layer);
        if (explains(c, &rule))
            return say(c, text);
    }
    return false;
}

/* The first query with a wrong row. */
static int64_t first_wrong(const s2_case *c)
{
    int64_t first = INT64_MAX;
    for (int64_t row = 0; row < c->sight->n_rows; row++)
        if (c->wrong[row] == 1 && position_of(c, row) < first)
            first = position_of(c, row);
    return first;
}

/* A body of wrong rows, whose terms are tried; other bodies have no term to drop at its index. */
static const s2_body *wrong_body(const s2_case *c)
{
    for (int64_t row = 0; row < c->sight->n_rows; row++)
        if (c->wrong[row] == 1)
            return body_of(c, c->layer, c->sight->row[row].head);
    return NULL;
}

static void print_terms(const s2_case *c, const char *before, const s2_term *term, const char *between,
                        const s2_term *other, const char *after)
{
    s2_buf text = {0};
    s2_buf_puts(&text, before);
    s2_term_print(term, &text);
    s2_buf_puts(&text, between);
    if (other != NULL)
        s2_term_print(other, &text);
    s2_buf_puts(&text, after);
    if (text.status == S2_OK)
        say(c, text.data);
    s2_buf_release(&text);
}

static bool try_dropped(const s2_case *c)
{
    const s2_body *const body = wrong_body(c);
    for (int32_t t = 0; body != NULL && t < body->n_terms; t++) {
        s2_rule rule = no_rule;
        char from[80];
        rule.dropped = t;
        if (explains(c, &rule)) {
            print_terms(c, "ignores the term '", &body->terms[t], "'", NULL, "");
            return true;
        }
        rule.dropped_from = first_wrong(c);
        if (!explains(c, &rule))
            continue;
        snprintf(from, sizeof from, "' from query %lld on, or from one shortly before",
                 (long long)rule.dropped_from);
        print_terms(c, "loses the term '", &body->terms[t], from, NULL, "");
        return true;
    }
    return false;
}

/* Change one of a term's numbers, in which a kernel may be off by one; an offset is one modulo the stride. */
static bool change(s2_term *term, int field, int64_t by)
{
    int64_t *const fields[N_FIELDS] = {&term->n, &term->width, &term->offset.constant,
                                       &term->offset.head_coef, &term->offset.kv_coef};
    const bool has_offset = term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_DILATED;
    *fields[field] += by;
    if (field < 2)
        return *fields[field] > 0;
    if (has_offset && *fields[field] < 0)
        *fields[field] += term->n;
    return has_offset;
}

/* A window in blocks that is off by one token is another term: the same window in tokens. */
static bool try_changed(const s2_case *c)
{
    const s2_body *const body = wrong_body(c);
    for (int32_t t = 0; body != NULL && t < body->n_terms; t++)
        for (int nth = 0; nth < 2 * N_FIELDS; nth++) {
            s2_term changed = body->terms[t];
            s2_rule rule = no_rule;
            if (!change(&changed, nth / 2, nth % 2 == 0 ? 1 : -1))
                continue;
            rule.changed = &changed;
            rule.changed_at = t;
            if (!explains(c, &rule))
                continue;
            print_terms(c, "reads as if '", &body->terms[t], "' were '", &changed,
                        nth / 2 < 3 ? "': off by one" : "'");
            return true;
        }
    return false;
}

/* An offset that turns with the query head where it has to turn with the KV head, or the reverse. */
static bool try_other_number(const s2_case *c)
{
    const s2_body *const body = wrong_body(c);
    for (int32_t t = 0; body != NULL && t < body->n_terms; t++) {
        s2_term other = body->terms[t];
        s2_rule rule = no_rule;
        if ((other.kind != S2_TERM_STRIDE && other.kind != S2_TERM_DILATED) ||
            other.offset.head_coef == other.offset.kv_coef)
            continue;
        other.offset.head_coef = body->terms[t].offset.kv_coef;
        other.offset.kv_coef = body->terms[t].offset.head_coef;
        rule.changed = &other;
        rule.changed_at = t;
        if (!explains(c, &rule))
            continue;
        print_terms(c, "reads as if '", &body->terms[t], "' were '", &other,
                    other.offset.head_coef != 0
                        ? "': the number of the query head where that of the KV head is due"
                        : "': the number of the KV head where that of the query head is due");
        return true;
    }
    return false;
}

/* The offset of a stride is subtracted where it is due to be added, or added where to be subtracted. */
static bool try_turned(const s2_case *c)
{
    const s2_body *const body = wrong_body(c);
    for (int32_t t = 0; body != NULL && t < body->n_terms; t++) {
        s2_term turned = body->terms[t];
        s2_rule rule = no_rule;
        if (turned.kind != S2_TERM_STRIDE && turned.kind != S2_TERM_DILATED)
            continue;
        int64_t *const parts[] = {&turned.offset.constant, &turned.offset.head_coef, &turned.offset.kv_coef,
                                  &turned.offset.layer_coef};
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            *parts[part] = (turned.n - *parts[part] % turned.n) % turned.n;
        rule.changed = &turned;
        rule.changed_at = t;
        if (!explains(c, &rule))
            continue;
        print_terms(c, "reads as if '", &body->terms[t], "' were '", &turned,
                    "': the offset the other way round the stride");
        return true;
    }
    return false;
}

static bool try_negative(const s2_case *c)
{
    const s2_body *const body = wrong_body(c);
    for (int32_t t = 0; body != NULL && t < body->n_terms; t++) {
        s2_rule rule = no_rule;
        rule.negative = t;
        if (body->terms[t].kind != S2_TERM_STRIDE || !explains(c, &rule))
            continue;
        print_terms(c, "reads all keys before the first of '", &body->terms[t],
                    "' too, as where a negative remainder counts as less than the width", NULL, "");
        return true;
    }
    return false;
}

static bool try_blocks(const s2_case *c)
{
    for (int64_t size = 8; size <= 128; size *= 2) {
        s2_rule rule = no_rule;
        char text[120];
        rule.block_tok = size;
        snprintf(text, sizeof text, "reads whole blocks of %lld tokens where the pattern reads a part",
                 (long long)size);
        if (explains(c, &rule))
            return say(c, text);
    }
    return false;
}

static bool try_end(const s2_case *c)
{
    s2_rule rule = no_rule;
    char text[120];
    rule.k_end = 0;
    for (int64_t row = 0; row < c->sight->n_rows; row++)
        for (int64_t k = rule.k_end; k < c->lens.k_tok; k++)
            rule.k_end = was_seen(c, row, k) ? k + 1 : rule.k_end;
    snprintf(text, sizeof text, "reads no key from %lld on: lists or lengths of a shorter context",
             (long long)rule.k_end);
    return rule.k_end > 0 && rule.k_end < c->lens.k_tok && explains(c, &rule) && say(c, text);
}

void s2_symptom_rows(const s2_harness *harness, const s2_validation *out, const int32_t *heads,
                     int32_t n_heads, s2_probe_row rows[S2_SYMPTOM_ROWS])
{
    int32_t n = 0;
    const s2_plan_seq lens = harness->some.seqs[0];
    const int64_t wrong = out->wrong_q_tok - (lens.k_tok - lens.q_tok);
    if (out->has_wrong_pair && wrong >= 0 && wrong < lens.q_tok)
        rows[n++] = (s2_probe_row){0, (int32_t)wrong, out->wrong_head};
    for (int64_t nth = n; nth < S2_SYMPTOM_ROWS; nth++) {
        const int64_t step = (lens.q_tok + 7) / 8 + 5,
                      q_tok = lens.q_tok - 1 - nth / n_heads * step % lens.q_tok;
        rows[nth] = (s2_probe_row){0, (int32_t)q_tok,
                                   heads != NULL ? heads[nth % n_heads] : (int32_t)(nth % n_heads)};
    }
}

/* ------------------------------------------------------------------ which values */

/* Whose values a row has, where each KV head's are its number. */
static void say_kv_head(const s2_harness *harness, s2_probe_row row, s2_validation *out)
{
    const s2_attn_problem *const p = &harness->problem;
    const float got =
        s2_float_load(s2_harness_o(harness), p->dtype, s2_tensor_at(&p->o, NULL, 0, row.q_tok, row.head));
    const int32_t own = s2_pattern_kv_head(harness->some.pattern, row.head);
    if (out->symptom[0] != '\0' || !(got >= 1.0f && got <= (float)p->n_kv_heads))
        return;
    const int32_t read = (int32_t)got - 1;
    if (got == (float)(read + 1) && read != own)
        snprintf(out->symptom, sizeof out->symptom,
                 "query head %d reads the values of KV head %d, its own is %d", row.head, read, own);
}

/* Equal scores, and each KV head's number as its values: the output says whose values were read. */
static s2_status try_kv_heads(s2_harness *harness, s2_validation *out, s2_diag *why)
{
    const s2_attn_problem *const p = &harness->problem;
    const s2_device_ops *const ops = harness->device->ops;
    uint8_t *const v = s2_calloc(1, harness->v.n_bytes);
    s2_status status = v != NULL ? S2_OK : S2_ENOMEM;
    for (int64_t key = 0; v != NULL && key < harness->n_k_tok; key++)
        for (int32_t g = 0; g < p->n_kv_heads; g++)
            for (int32_t d = 0; d < p->head_dim; d++)
                s2_float_store(v, p->dtype, s2_tensor_at(&p->v, NULL, 0, key, g) + d, (float)(g + 1));
    if (status == S2_OK)
        status = ops->fill(harness->device, p->q.data, 0, harness->q.n_bytes);
    if (status == S2_OK)
        status = ops->fill(harness->device, p->k.data, 0, harness->k.n_bytes);
    if (status == S2_OK)
        status = ops->copy_in(harness->device, p->v.data, v, harness->v.n_bytes);
    if (status == S2_OK)
        status = s2_harness_run(harness, NULL, why);
    /* of the last query a KV head that does not exist may lie behind the buffer, of one before it in the next token */
    const int32_t last = harness->some.seqs[0].q_tok - 1;
    for (int32_t head = 0; status == S2_OK && head < p->n_heads; head++) {
        say_kv_head(harness, (s2_probe_row){0, last, head}, out);
        say_kv_head(harness, (s2_probe_row){0, last / 2, head}, out);
    }
    s2_free(v);
    return status;
}

/* ------------------------------------------------------------------ the case */

static bool find_wrong(const s2_case *c)
{
    bool any = false;
    for (int64_t row = 0; row < c->sight->n_rows; row++) {
        c->wrong[row] = c->sight->n_seen[row] < 0 ? UNSEEN : !explains_row(c, &no_rule, row);
        any = any || c->wrong[row] == 1;
    }
    return any;
}

static void try_rules(const s2_case *c)
{
    bool (*const rules[])(const s2_case *) = {try_corner,   try_everything,   try_own,     try_dropped,
                                              try_heads,    try_other_number, try_changed, try_turned,
                                              try_negative, try_shifts,       try_end,     try_blocks};
    bool found = !find_wrong(c);
    for (size_t nth = 0; nth < sizeof rules / sizeof *rules && !found; nth++)
        found = rules[nth](c);
}

/* What the rows read, in all windows. */
static s2_status look(s2_harness *harness, uint64_t seed, s2_sight *sight, s2_diag *why)
{
    s2_windows windows = {0};
    s2_status status = s2_windows_open(harness, seed, &windows);
    int64_t *const window = s2_calloc((size_t)(windows.n + 1), sizeof *window);
    status = status == S2_OK && window == NULL ? S2_ENOMEM : status;
    for (int64_t nth = 0; nth < windows.n && status == S2_OK; nth++)
        window[nth] = nth;
    if (status == S2_OK)
        status = s2_sight_look(sight, &windows, window, windows.n, why);
    s2_free(window);
    s2_windows_close(&windows);
    return status;
}

void s2_symptom_find(const s2_harness *harness, const s2_sight *sight, bool some,
                     uint8_t wrong[S2_SYMPTOM_ROWS], s2_validation *out)
{
    const s2_case c = {.pattern = harness->some.pattern,
                       .phase = harness->some.phase,
                       .layer = harness->some.layer,
                       .lens = harness->some.seqs[0],
                       .sight = sight,
                       .wrong = wrong,
                       .some = some,
                       .out = out->symptom,
                       .cap = sizeof out->symptom};
    try_rules(&c);
}

/* Heads of a problem, numbered from 0. */
typedef struct s2_heads {
    int32_t *head;
    int32_t n;
    bool some; /* not all */
} s2_heads;

/* Heads with a wrong row are left in `heads` where nothing explains them all. */
static s2_status explain_heads(s2_harness *harness, const s2_validate_request *request, s2_heads *heads,
                               s2_validation *out, s2_diag *why)
{
    uint8_t wrong[S2_SYMPTOM_ROWS] = {0};
    s2_probe_row rows[S2_SYMPTOM_ROWS];
    s2_sight sight = {0};
    int32_t n = 0;
    s2_symptom_rows(harness, out, heads->head, heads->n, rows);
    s2_status status = s2_sight_open(harness, rows, S2_SYMPTOM_ROWS, &sight);
    if (status == S2_OK)
        status = look(harness, request->seed, &sight, why);
    if (status == S2_OK)
        s2_symptom_find(harness, &sight, heads->some, wrong, out);
    for (int32_t h = 0; h < heads->n && status == S2_OK; h++) {
        bool any = false;
        for (int32_t row = 0; row < S2_SYMPTOM_ROWS; row++)
            any = any || (wrong[row] == 1 && rows[row].head == heads->head[h]);
        if (any)
            heads->head[n++] = heads->head[h];
    }
    heads->some = heads->some || n < heads->n;
    heads->n = n;
    s2_sight_close(&sight);
    return status;
}

static void say_heads(const s2_heads *heads, int32_t n_all, s2_validation *out)
{
    char what[sizeof out->symptom];
    snprintf(what, sizeof what, "%s", out->symptom);
    if (heads->n == 1)
        snprintf(out->symptom, sizeof out->symptom, "head %d alone: %.*s", heads->head[0],
                 (int)sizeof what - 40, what);
    else
        snprintf(out->symptom, sizeof out->symptom, "%d of %d heads, the first of them %d: %.*s", heads->n,
                 n_all, heads->head[0], (int)sizeof what - 60, what);
}

/* What explains all heads, or else the wrong ones alone. */
static s2_status explain_pairs(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                               s2_diag *why)
{
    const int32_t n_all = harness->problem.n_heads;
    s2_heads heads = {s2_calloc((size_t)n_all, sizeof *heads.head), n_all, false};
    s2_status status = heads.head != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t head = 0; head < n_all && heads.head != NULL; head++)
        heads.head[head] = head;
    if (status == S2_OK)
        status = explain_heads(harness, request, &heads, out, why);
    if (status == S2_OK && out->symptom[0] == '\0' && heads.some && heads.n > 0) {
        status = explain_heads(harness, request, &heads, out, why);
        if (out->symptom[0] != '\0')
            say_heads(&heads, n_all, out);
    }
    s2_free(heads.head);
    return status;
}

/* ------------------------------------------------------------------ which scale */

/*
 * All queries are 1 in column 0; even keys are 1 / scale there, so that their score has to be 1, odd ones 0.
 * Even values are 1 and odd ones -e, so that rows come out near 0, where an output is precise.
 */
static s2_status set_scores(s2_harness *harness)
{
    const s2_attn_problem *const p = &harness->problem;
    const s2_device_ops *const ops = harness->device->ops;
    uint8_t *const q = s2_calloc(1, harness->q.n_bytes), *const k = s2_calloc(1, harness->k.n_bytes),
                   *const v = s2_calloc(1, harness->v.n_bytes);
    s2_status status = q != NULL && k != NULL && v != NULL ? S2_OK : S2_ENOMEM;
    for (int64_t tok = 0; status == S2_OK && tok < harness->n_q_tok; tok++)
        for (int32_t head = 0; head < p->n_heads; head++)
            s2_float_store(q, p->dtype, s2_tensor_at(&p->q, NULL, 0, tok, head), 1.0f);
    for (int64_t tok = 0; status == S2_OK && tok < harness->n_k_tok; tok++)
        for (int32_t g = 0; g < p->n_kv_heads; g++) {
            s2_float_store(k, p->dtype, s2_tensor_at(&p->k, NULL, 0, tok, g),
                           tok % 2 == 0 ? 1.0f / p->scale : 0.0f);
            s2_float_store(v, p->dtype, s2_tensor_at(&p->v, NULL, 0, tok, g),
                           tok % 2 == 0 ? 1.0f : ODD_VALUE);
        }
    if (status == S2_OK)
        status = ops->copy_in(harness->device, p->q.data, q, harness->q.n_bytes);
    if (status == S2_OK)
        status = ops->copy_in(harness->device, p->k.data, k, harness->k.n_bytes);
    if (status == S2_OK)
        status = ops->copy_in(harness->device, p->v.data, v, harness->v.n_bytes);
    s2_free(q);
    s2_free(k);
    s2_free(v);
    return status;
}

/* What a row's output says of the score of even keys, over what it has to be; NaN: nothing. */
static double factor_of(const s2_harness *harness, s2_probe_row row)
{
    const s2_attn_problem *const p = &harness->problem;
    const s2_plan *const plan = &harness->some;
    const s2_plan_seq lens = plan->seqs[0];
    uint8_t stored[2 * sizeof(float)];
    int64_t n[2] = {0, 0};
    for (int64_t k = 0; k < lens.k_tok; k++)
        n[k % 2] += s2_pattern_reads(plan->pattern, plan->phase, plan->layer, row.head, lens.k_tok,
                                     lens.k_tok - lens.q_tok + row.q_tok, k);
    s2_float_store(stored, p->dtype, 0, ODD_VALUE);
    s2_float_store(stored, p->dtype, 1, 1.0f / p->scale);
    const double odd = (double)s2_float_load(stored, p->dtype, 0),
                 due = (double)s2_float_load(stored, p->dtype, 1) * (double)p->scale,
                 o = (double)s2_float_load(s2_harness_o(harness), p->dtype,
                                           s2_tensor_at(&p->o, NULL, 0, row.q_tok, row.head));
    return n[0] > 0 && n[1] > 0 && o < 1.0 && o > odd
               ? log((double)n[1] * (o - odd) / ((double)n[0] * (1.0 - o))) / due
               : NAN;
}

static void say_scale(const s2_harness *harness, double factor, s2_validation *out)
{
    const double scale = (double)harness->problem.scale, ln_2 = log(2.0);
    const bool exact = harness->problem.dtype == S2_F32;
    const struct {
        double factor;
        const char *words;
    } known[] = {{1.0 / scale, "the scale is left out"},
                 {scale, "the scale is applied twice"},
                 {1.0 / ln_2, "the logarithm of e to base 2 is applied once too often"},
                 {ln_2, "powers of 2 where those of e are due"}};
    const char *words = "another scale";
    /* a score far from 1 leaves a row's output near a value, where a short type is coarse */
    for (size_t nth = 0; nth < sizeof known / sizeof *known; nth++)
        if (fabs(factor / known[nth].factor - 1.0) <= (exact ? 1e-4 : 0.03))
            words = known[nth].words;
    snprintf(out->symptom, sizeof out->symptom, "scores are %s%s times what they have to be: %s",
             exact ? "" : "about ", s2_decimal(factor, exact ? 6 : 4).text, words);
}

/* One factor on all scores, the same in all rows. */
static s2_status try_scale(s2_harness *harness, s2_validation *out, s2_diag *why)
{
    s2_probe_row rows[S2_SYMPTOM_ROWS];
    double least = INFINITY, most = -INFINITY;
    S2_TRY(set_scores(harness));
    S2_TRY(s2_harness_run(harness, NULL, why));
    s2_symptom_rows(harness, out, NULL, harness->problem.n_heads, rows);
    for (int32_t nth = 0; nth < S2_SYMPTOM_ROWS; nth++) {
        const double factor = factor_of(harness, rows[nth]);
        if (isnan(factor))
            continue;
        least = fmin(least, factor);
        most = fmax(most, factor);
    }
    const double close = score_slack[harness->problem.dtype];
    if (least <= most && most - least <= close * fmax(1.0, fabs(most)) &&
        (least > 1.0 + close / 2.0 || most < 1.0 - close / 2.0))
        say_scale(harness, (least + most) / 2.0, out);
    return S2_OK;
}

/* ------------------------------------------------------------------ what is after the last key */

/* One run with the memory after the last key and value filled with `byte`; *sum is a digest of its output. */
static s2_status run_beside(s2_harness *harness, uint8_t byte, uint64_t *sum, s2_diag *why)
{
    const s2_guarded *const buffers[] = {&harness->k, &harness->v};
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++)
        S2_TRY(harness->device->ops->fill(harness->device,
                                          buffers[at]->base + S2_GUARD_BYTES + buffers[at]->n_bytes, byte,
                                          S2_GUARD_BYTES));
    S2_TRY(s2_harness_run(harness, NULL, why));
    const uint8_t *const o = s2_harness_o(harness);
    *sum = 1;
    for (size_t at = 0; at < harness->o.n_bytes; at++)
        *sum = (*sum ^ o[at]) * UINT64_C(0x9e3779b97f4a7c15);
    return S2_OK;
}

/* Keys past the end are read: the result follows the memory there, while nothing else was changed. */
static s2_status try_padding(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                             s2_diag *why)
{
    uint64_t first, zeros, again;
    S2_TRY(s2_harness_fill(harness, request));
    S2_TRY(run_beside(harness, 0xff, &first, why));
    S2_TRY(run_beside(harness, 0, &zeros, why));
    S2_TRY(run_beside(harness, 0xff, &again, why));
    if (first == again && first != zeros)
        snprintf(out->symptom, sizeof out->symptom,
                 "reads on after the last key of a sequence: what lies there changes the result");
    return S2_OK;
}

/* Uses the shape that convicted: the needles' if they did, else the first sequence only. */
s2_status s2_probe_explain(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why)
{
    s2_plan_seq seq = request->seqs[0];
    if (out->symptom[0] != '\0') /* a stage that saw the reason itself */
        return S2_OK;
    if (request->e4m3) /* the probes below write keys in the type of queries */
        return S2_OK;
    if (out->n_lengths > 0 && out->touch_wrong == 0)
        seq = (s2_plan_seq){S2_NEEDLE_DEPTHS, out->needle_len[out->n_lengths - 1]};
    if (seq.k_tok > S2_SYMPTOM_KEYS || seq.k_tok < seq.q_tok)
        return S2_OK;
    s2_validate_request one = *request;
    s2_harness harness = {0};
    s2_diag refusal = {0};
    one.seqs = &seq;
    one.n_seqs = 1;
    one.budget_flop = 0.0;
    s2_status status = s2_harness_open(&harness, device, &one, &refusal);
    /* a KV head that does not exist lies behind the last key too: first whose values are read */
    if (status == S2_OK && request->pattern->n_kv_heads < request->pattern->n_heads)
        status = try_kv_heads(&harness, out, &refusal);
    if (status == S2_OK && out->symptom[0] == '\0')
        status = try_padding(&harness, &one, out, &refusal);
    if (status == S2_OK && out->symptom[0] == '\0' && out->outcome != S2_OUTCOME_NAN)
        status = explain_pairs(&harness, &one, out, &refusal);
    if (status == S2_OK && out->symptom[0] == '\0' && out->outcome == S2_OUTCOME_WRONG_VALUES &&
        !(request->cap > 0.0f) && !request->sinks)
        status = try_scale(&harness, out, &refusal);
    s2_harness_close(&harness);
    if (status == S2_ENOMEM)
        *why = refusal;
    return status == S2_ENOMEM ? status : S2_OK; /* a device that fails now does not change the verdict */
}
