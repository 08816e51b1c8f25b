#include "export/nearest.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/parse.h"
#include "pattern/recognise.h"

enum { MOST_ROUNDS = 4, MOST_TEXT = 1500 };

typedef struct search {
    const s2_format *format;
    const s2_target *target;
    const s2_pattern *pattern;
    s2_nearest_judge judge;
    int32_t least; /* what the best so far gives up; INT32_MAX: there is none yet */
    s2_nearest best;
} search;

static bool is_dense(const s2_pattern *pattern, int32_t layer, int32_t head)
{
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, head)];
    return s2_body_is_dense(body);
}

/* Dense throughout: every format can express it, and nobody wants it. */
static bool is_all_dense(const s2_pattern *pattern)
{
    return pattern->n_bodies == 1 && is_dense(pattern, 0, 0);
}

/* ---- what a format makes of a pattern ------------------------------------------------------------- */

/* Export without changing the target. S2_OK: *report says how it went, in so many files. */
static s2_status attempt(const search *s, const s2_pattern *pattern, s2_export_report *report,
                         int32_t *n_files)
{
    s2_buf notes = {0};
    s2_diag diag = {0};
    s2_fileset files = {.arena = s->target->arena};
    s2_target target = *s->target;
    target.pattern = pattern;
    target.notes = &notes;
    target.files = &files;
    target.diag = &diag;
    const s2_status status = s2_export_run(s->format, &target, report);
    *n_files = files.n_files;
    s2_buf_release(&notes);
    return status;
}

/* The canonical text with ';' for line ends; NULL if it is too long for a line, or memory is short. */
static const char *one_line(s2_arena *arena, const s2_pattern *pattern)
{
    s2_buf text = {0}, line = {0};
    s2_pattern_print(pattern, &text);
    for (size_t byte = 0; byte < text.len && text.status == S2_OK; byte++) {
        const bool last = byte + 1 == text.len;
        if (text.data[byte] != '\n')
            s2_buf_printf(&line, "%c", text.data[byte]);
        else if (!last)
            s2_buf_puts(&line, "; ");
    }
    const char *const kept = text.status == S2_OK && line.status == S2_OK && line.len <= MOST_TEXT
                                 ? s2_arena_strndup(arena, line.data, line.len)
                                 : NULL;
    s2_buf_release(&text);
    s2_buf_release(&line);
    return kept;
}

/* Does the format hold the text, read as a user's would be, without loss? */
static s2_status is_held(const search *s, const char *text, s2_pattern *parsed, int32_t *n_files, bool *held)
{
    s2_diag diag = {0};
    const s2_parse_options options = {.no_files = true};
    s2_export_report report = {0};
    *held = false;
    s2_status status = s2_pattern_parse(s->target->arena, text, strlen(text), &options, parsed, &diag);
    if (status == S2_OK)
        status = attempt(s, parsed, &report, n_files);
    if (status == S2_ENOMEM)
        return status;
    *held = status == S2_OK && !report.difference.differs;
    return S2_OK;
}

static s2_status keep_if_better(search *s, const s2_pattern *candidate)
{
    s2_nearest found = {.text = one_line(s->target->arena, candidate)};
    bool held = false;
    if (found.text == NULL || is_all_dense(candidate) || candidate->causal != s->pattern->causal ||
        candidate->n_layers != s->pattern->n_layers || candidate->n_heads != s->pattern->n_heads)
        return S2_OK;
    S2_TRY(is_held(s, found.text, &found.pattern, &found.n_files, &held));
    const int32_t given_up = held ? s->judge.given_up(s->judge.context, &found.pattern) : INT32_MAX;
    if (given_up < s->least) {
        s->least = given_up;
        s->best = found;
    }
    return S2_OK;
}

/* Write and read back until nothing changes any more; skips a pattern that the format cannot express. */
static s2_status consider(search *s, const s2_pattern *start)
{
    s2_pattern current = *start;
    for (int32_t round = 0; round < MOST_ROUNDS && s->least > 0; round++) {
        s2_export_report report = {0};
        int32_t n_files;
        const s2_status status = attempt(s, &current, &report, &n_files);
        if (status != S2_OK)
            return status == S2_ENOMEM ? status : S2_OK;
        if (!report.difference.differs)
            return keep_if_better(s, &current);
        current = report.again;
        current.name = s->pattern->name;
    }
    return S2_OK;
}

static s2_status consider_text(search *s, s2_buf *text)
{
    s2_pattern parsed;
    s2_diag diag = {0};
    const s2_parse_options options = {.no_files = true};
    s2_status status = text->status;
    if (status == S2_OK)
        status = s2_pattern_parse(s->target->arena, text->data, text->len, &options, &parsed, &diag);
    s2_buf_release(text);
    if (status != S2_OK)
        return status == S2_ENOMEM ? status : S2_OK;
    parsed.name = s->pattern->name;
    return consider(s, &parsed);
}

/* ---- families ------------------------------------------------------------------------------------- */

/* The most common numbers in the pattern's terms; 0: it has no such term. */
typedef struct traits {
    int64_t local_tok;
    int64_t sink_tok;
    int64_t stride_blk;
} traits;

static void traits_of_body(const s2_pattern *pattern, const s2_body *body, traits *out)
{
    for (int32_t t = 0; t < body->n_terms; t++) {
        const s2_term *const term = &body->terms[t];
        const int64_t n_tok = term->n * (term->tok ? 1 : pattern->block_tok);
        if (term->kind == S2_TERM_LOCAL)
            out->local_tok = n_tok;
        else if (term->kind == S2_TERM_SINK)
            out->sink_tok = n_tok;
        else if (term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_DILATED)
            out->stride_blk = term->tok ? term->n / pattern->block_tok : term->n;
    }
}

/* The traits that most heads share: stride, sink and window are voted on separately. */
static traits traits_of(const s2_pattern *pattern)
{
    traits common = {0};
    int64_t most[3] = {0};
    const int64_t n_cells = (int64_t)S2_N_RULE_PHASES * pattern->n_layers * pattern->n_heads;
    for (int32_t b = 0; b < pattern->n_bodies; b++) {
        traits own = {0};
        int64_t n = 0;
        for (int64_t cell = 0; cell < n_cells; cell++)
            n += pattern->body_of[cell] == b;
        traits_of_body(pattern, &pattern->bodies[b], &own);
        const int64_t from[3] = {own.local_tok, own.sink_tok, own.stride_blk};
        int64_t *const to[3] = {&common.local_tok, &common.sink_tok, &common.stride_blk};
        for (int trait = 0; trait < 3; trait++)
            if (from[trait] > 0 && n > most[trait]) {
                most[trait] = n;
                *to[trait] = from[trait];
            }
    }
    return common;
}

static void begin_text(const s2_pattern *pattern, s2_buf *text)
{
    *text = (s2_buf){0};
    s2_language_shape(text, pattern->n_layers, pattern->n_heads, pattern->n_kv_heads, pattern->head_dim,
                      pattern->block_tok);
    if (!pattern->causal)
        s2_buf_puts(text, "causal no\n");
}

/* `body` everywhere, and dense where the pattern is: in whole layers, or also in KV heads of others. */
static s2_status consider_body(search *s, const char *body, bool dense_kv)
{
    const s2_pattern *const pattern = s->pattern;
    const int32_t n_columns = dense_kv ? pattern->n_kv_heads : 1;
    const int32_t group = pattern->n_heads / n_columns;
    const char *const bodies[2] = {body, "dense"};
    uint16_t *const role = S2_NEW(s->target->arena, uint16_t, (int64_t)pattern->n_layers * n_columns);
    s2_buf text;
    if (role == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t column = 0; column < n_columns; column++) {
            bool dense = true;
            for (int32_t head = column * group; head < (column + 1) * group; head++)
                dense = dense && is_dense(pattern, layer, head);
            role[layer * n_columns + column] = dense;
        }
    begin_text(pattern, &text);
    s2_language_roles(&text, "", dense_kv ? "kv" : "heads", pattern->n_layers, n_columns, role, bodies, 2);
    return consider_text(s, &text);
}

static s2_status consider_families(search *s)
{
    const traits is = traits_of(s->pattern);
    const int64_t block_tok = s->pattern->block_tok;
    const int64_t local_blk = s2_ceil_div(is.local_tok, block_tok);
    char body[160];
    if (is.local_tok > 0 && is.stride_blk > 0) {
        static const char *const offsets[] = {"head+1", "kv", "0"};
        for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++) {
            snprintf(body, sizeof body, "local %lld | stride %lld phase %s", (long long)local_blk,
                     (long long)is.stride_blk, offsets[n]);
            S2_TRY(consider_body(s, body, false));
        }
    }
    if (is.local_tok > 0 && is.sink_tok > 0) {
        snprintf(body, sizeof body, "sink %lldt | local %lldt", (long long)is.sink_tok,
                 (long long)is.local_tok);
        S2_TRY(consider_body(s, body, true));
    }
    if (is.local_tok == 0)
        return S2_OK;
    snprintf(body, sizeof body, "local %lldt", (long long)is.local_tok);
    return consider_body(s, body, false);
}

/* A mask of a file in terms, where few say what it reads. */
static s2_status consider_terms(search *s)
{
    s2_arena *const arena = s->target->arena;
    s2_diag diag = {0};
    int64_t n_tok;
    s2_pattern *const terms = S2_NEW(arena, s2_pattern, 1);
    if (terms == NULL)
        return S2_ENOMEM;
    if (s2_pattern_limit_tok(s->pattern) == S2_OPEN)
        return S2_OK;
    const s2_status status = s2_pattern_recognise(arena, s->pattern, terms, &n_tok, &diag);
    return status == S2_OK ? consider(s, terms) : status == S2_ENOMEM ? status : S2_OK;
}

static s2_status consider_all(search *s)
{
    S2_TRY(consider_terms(s));
    S2_TRY(consider(s, s->pattern));
    for (int phase = 0; phase < S2_N_RULE_PHASES && s2_pattern_has_phases(s->pattern); phase++) {
        s2_pattern *const one = S2_NEW(s->target->arena, s2_pattern, 1);
        if (one == NULL)
            return S2_ENOMEM;
        S2_TRY(s2_pattern_of_phase(s->target->arena, s->pattern, (s2_phase)phase, one));
        S2_TRY(consider(s, one));
    }
    return consider_families(s);
}

s2_status s2_export_holds(const s2_format *format, const s2_target *target, bool *held, int32_t *n_files)
{
    const search s = {.format = format, .target = target};
    s2_export_report report = {0};
    const s2_status status = attempt(&s, target->pattern, &report, n_files);
    *held = status == S2_OK && !report.difference.differs;
    return status == S2_ENOMEM ? status : S2_OK;
}

s2_status s2_export_nearest(const s2_format *format, const s2_target *target, s2_nearest_judge judge,
                            s2_nearest *out)
{
    search s = {
        .format = format, .target = target, .pattern = target->pattern, .judge = judge, .least = INT32_MAX};
    *out = (s2_nearest){0};
    if (s2_pattern_layers_differ(target->pattern) || s2_pattern_dynamic(target->pattern) != NULL)
        return S2_OK;
    S2_TRY(consider_all(&s));
    if (s.best.text != NULL) {
        const s2_status status = s2_patterns_loss(target->pattern, &s.best.pattern, target->n_tok,
                                                  target->work_left, &s.best.loss);
        if (status != S2_OK && status != S2_ELIMIT)
            return status;
        s.best.has_loss = status == S2_OK;
        if (traits_of(&s.best.pattern).sink_tok == 0 && !is_all_dense(&s.best.pattern))
            s.best.sink_tok = traits_of(target->pattern).sink_tok;
    }
    *out = s.best;
    return S2_OK;
}
