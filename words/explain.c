#include "words/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "coverage/answer.h"
#include "coverage/extent.h"
#include "pattern/dense.h"
#include "pattern/parse.h"

void s2_layers_print(const int32_t *layers, int32_t n, s2_buf *buf)
{
    /* counting one layer beyond the last prevents "all", which would hide the numbers */
    s2_index_list_print(layers, n, n > 0 ? layers[n - 1] + 2 : 1, buf);
}

static long long blk(const s2_pattern *pattern, int64_t tok)
{
    return tok / pattern->block_tok;
}

/* "query 1088 (block 17)" */
static void put_place(const s2_pattern *pattern, const char *what, int64_t tok, s2_buf *buf)
{
    s2_buf_printf(buf, "%s %lld", what, (long long)tok);
    if (pattern->block_tok > 1)
        s2_buf_printf(buf, " (block %lld)", blk(pattern, tok));
}

static void put_layer(const s2_pattern *pattern, const s2_witness *witness, s2_buf *buf)
{
    s2_buf_printf(buf, "layer %d", witness->layer);
    if (s2_pattern_has_phases(pattern))
        s2_buf_printf(buf, ", %s", s2_phase_word(witness->phase));
}

void s2_explain_earlier_phase(const s2_pattern *pattern, const s2_witness *witness, s2_buf *buf)
{
    if (s2_pattern_has_phases(pattern))
        s2_buf_printf(buf, " of %s", s2_phase_word(witness->earlier_phase));
}

void s2_explain_witness(const s2_pattern *pattern, const s2_finding *finding, s2_buf *buf)
{
    const s2_witness *const w = &finding->witness;
    put_layer(pattern, w, buf);
    if (w->head >= 0)
        s2_buf_printf(buf, ", head %d", w->head);
    if (w->rank >= 0)
        s2_buf_printf(buf, ", rank %d", w->rank);
    s2_buf_puts(buf, ": ");
    put_place(pattern, "query", w->q_tok, buf);
    switch (finding->requirement.property) {
    case S2_ROWS: s2_buf_puts(buf, " reads no key at all"); return;
    case S2_UNION: s2_buf_puts(buf, " reads "); break;
    case S2_RANKS: s2_buf_puts(buf, " reads "); break;
    case S2_KV: s2_buf_puts(buf, " reads "); break;
    case S2_GROUP:
        s2_buf_printf(buf, " and head %d differ on ",
                      s2_layer_kv_head(pattern, w->layer, w->head) *
                          (pattern->n_heads / s2_pattern_kv_heads(pattern, w->layer)));
        break;
    case S2_SHARDS: s2_buf_printf(buf, ": %d KV heads read ", w->readers); break;
    case S2_DEPTH:
        s2_buf_printf(buf, " is not reached within %s by ",
                      s2_count_text(finding->requirement.arg, "layer").text);
        break;
    case S2_N_PROPERTIES: break;
    }
    put_place(pattern, "key", w->k_tok, buf);
    if (finding->requirement.property == S2_UNION)
        s2_buf_puts(buf, " through no head");
    if (finding->requirement.property == S2_RANKS)
        s2_buf_puts(buf, " through no head of that rank");
    if (finding->requirement.property == S2_KV) {
        s2_buf_puts(buf, ", which went unread at ");
        put_place(pattern, "query", w->earlier_q_tok, buf);
        s2_explain_earlier_phase(pattern, w, buf);
    }
}

void s2_explain_reason(const s2_finding *finding, s2_buf *buf)
{
    switch (finding->reason) {
    case S2_REASON_NONE: break;
    case S2_REASON_DYNAMIC:
        s2_buf_puts(buf, "the static terms do not guarantee it, and what pages, heavy or topk choose is "
                         "known only at run time");
        break;
    case S2_REASON_RANDOM:
        s2_buf_puts(buf, "the static terms do not guarantee it, and random lists are decided for one length "
                         "only: give --len");
        break;
    case S2_REASON_LIMIT: s2_buf_puts(buf, "the work limit was reached; try a smaller --len"); break;
    case S2_REASON_BEYOND:
        s2_buf_printf(buf, "it holds up to %s; beyond it is neither proved nor refuted",
                      s2_count_text(finding->reason_tok, "token").text);
        break;
    case S2_REASON_CAUSAL: s2_buf_puts(buf, "it is defined for causal patterns only"); break;
    case S2_REASON_STATE:
        s2_buf_puts(buf, "what a state of fixed size keeps is not judged, and no other layer decides it");
        break;
    case S2_REASON_ENGINE:
        s2_buf_puts(buf,
                    "what pages, heavy or topk choose at run time is not enumerated; algebra judges what "
                    "is read for certain");
        break;
    }
}

/* ---- why, head by head ------------------------------------------------------------------------------- */

static bool in_range(s2_range range, int64_t x)
{
    return x >= range.begin && x < range.end;
}

static void put_range(s2_range range, const char *unit, s2_buf *buf)
{
    s2_buf_printf(buf, "%lld..", (long long)range.begin);
    if (range.end != S2_OPEN)
        s2_buf_printf(buf, "%lld", (long long)range.end);
    s2_buf_puts(buf, unit);
}

/* The first condition of a term's `when` that the pair misses; false when it meets all. */
static bool put_when_miss(const s2_pattern *pattern, const s2_term *term, int64_t q_tok, int64_t k_tok,
                          s2_buf *buf)
{
    for (int unit = 0; unit < S2_N_UNITS; unit++) {
        const int64_t size = unit == S2_UNIT_TOK ? 1 : pattern->block_tok;
        const int64_t q = q_tok / size, k = k_tok / size;
        const int64_t values[S2_N_WHEN] = {q > k ? q - k : k - q, k, q};
        for (int what = 0; what < S2_N_WHEN; what++) {
            if (in_range(term->when[what][unit], values[what]))
                continue;
            s2_buf_printf(buf, "%s %lld is outside ", s2_when_word((s2_when_quantity)what),
                          (long long)values[what]);
            put_range(term->when[what][unit], unit == S2_UNIT_TOK ? "t" : "", buf);
            return true;
        }
    }
    return false;
}

static void put_residue_miss(const s2_pattern *pattern, const s2_term *term, const s2_view *view,
                             int64_t value, s2_buf *buf)
{
    const int32_t kv_head = s2_layer_kv_head(pattern, view->layer, view->head);
    const int64_t offset = s2_term_offset(term, view->layer, view->head, kv_head);
    s2_buf_printf(buf, "(%lld + %lld) mod %lld = %lld, not below %lld", (long long)value, (long long)offset,
                  (long long)term->n, (long long)s2_mod(value + offset, term->n), (long long)term->width);
}

static void put_term_miss(const s2_view *view, const s2_term *term, int64_t q_tok, int64_t k_tok, s2_buf *buf)
{
    const s2_pattern *const pattern = view->pattern;
    const int64_t size = term->tok ? 1 : pattern->block_tok, q = q_tok / size, k = k_tok / size;
    const char *const unit = term->tok ? "token" : "block";
    if (put_when_miss(pattern, term, q_tok, k_tok, buf))
        return;
    switch (term->kind) {
    case S2_TERM_LOCAL:
        s2_buf_printf(buf, "%s distance %lld, the window ends at %lld", unit,
                      (long long)(q > k ? q - k : k - q), (long long)term->n - 1);
        break;
    case S2_TERM_SINK: s2_buf_printf(buf, "key %s %lld is past the sink", unit, (long long)k); break;
    case S2_TERM_STRIDE: put_residue_miss(pattern, term, view, k, buf); break;
    case S2_TERM_DILATED: put_residue_miss(pattern, term, view, q - k, buf); break;
    case S2_TERM_COLUMNS: s2_buf_printf(buf, "key %s %lld is not listed", unit, (long long)k); break;
    case S2_TERM_ROWS: s2_buf_printf(buf, "query %s %lld is not listed", unit, (long long)q); break;
    case S2_TERM_CHUNK:
        s2_buf_printf(buf, "query in chunk %lld, key in chunk %lld", (long long)(q / term->n),
                      (long long)(k / term->n));
        break;
    case S2_TERM_RANDOM: s2_buf_puts(buf, "not drawn for this query block"); break;
    case S2_TERM_MASK: s2_buf_puts(buf, "the file has 0 there"); break;
    case S2_TERM_PAGES:
    case S2_TERM_HEAVY:
    case S2_TERM_TOPK: s2_buf_puts(buf, "chosen at run time, not guaranteed"); break;
    case S2_TERM_NONE: s2_buf_puts(buf, "reads nothing"); break;
    case S2_TERM_DENSE: break;
    }
}

/* What one kind of head says about a pair: the term that reads it, or why each does not. */
typedef struct s2_reasons {
    const char *heads; /* "heads 0-3" */
    bool reads;
    int32_t n;
    const char **lines;
} s2_reasons;

static const char *keep_text(s2_arena *arena, s2_buf *buf)
{
    const char *const text = buf->status == S2_OK ? s2_arena_strndup(arena, buf->data, buf->len) : NULL;
    s2_buf_release(buf);
    return text;
}

static s2_status one_line(const char *text, s2_reasons *out)
{
    out->n = 1;
    out->lines[0] = text;
    return S2_OK;
}

static s2_status find_reasons(s2_arena *arena, const s2_view *view, int64_t q_tok, int64_t k_tok,
                              s2_reasons *out)
{
    const s2_pattern *const pattern = view->pattern;
    const int64_t n_tok = s2_max_i64(q_tok, k_tok) + 1;
    *out = (s2_reasons){.lines = S2_NEW(arena, const char *, view->body->n_terms + 1)};
    if (out->lines == NULL)
        return S2_ENOMEM;
    if (pattern->causal && k_tok > q_tok)
        return one_line("the key is in the future", out);
    if (view->body->n_terms == 0)
        return one_line("reads nothing", out);
    for (int32_t t = 0; t < view->body->n_terms; t++) {
        const s2_term *const term = &view->body->terms[t];
        const bool reads = s2_term_reads(pattern, term, view->layer, view->head, n_tok, q_tok, k_tok);
        s2_buf line = {0};
        s2_term_print(term, &line);
        if (!reads) {
            s2_buf_puts(&line, ": ");
            put_term_miss(view, term, q_tok, k_tok, &line);
        }
        const char *const text = keep_text(arena, &line);
        if (text == NULL)
            return S2_ENOMEM;
        if (reads) {
            out->reads = true;
            return one_line(text, out);
        }
        out->lines[out->n++] = text;
    }
    return S2_OK;
}

static s2_status name_kind(s2_arena *arena, const int32_t *kind_of, int32_t kind, s2_range among,
                           const char **out)
{
    int32_t *const heads = S2_NEW(arena, int32_t, among.end - among.begin);
    if (heads == NULL)
        return S2_ENOMEM;
    int32_t n_heads = 0;
    for (int32_t head = (int32_t)among.begin; head < among.end; head++)
        if (kind_of[head] == kind)
            heads[n_heads++] = head;
    s2_buf name = {0};
    s2_buf_puts(&name, n_heads > 1 ? "heads " : "head ");
    s2_layers_print(heads, n_heads, &name);
    *out = keep_text(arena, &name);
    return *out != NULL ? S2_OK : S2_ENOMEM;
}

static bool says(const s2_reasons *reasons, const char *line)
{
    for (int32_t at = 0; at < reasons->n; at++)
        if (strcmp(reasons->lines[at], line) == 0)
            return true;
    return false;
}

/* Whether several kinds do not read and all of them give this reason. */
static bool all_say(const s2_reasons *kinds, int32_t n, const char *line)
{
    int32_t n_not = 0;
    for (int32_t kind = 0; kind < n; kind++) {
        if (kinds[kind].reads)
            continue;
        if (!says(&kinds[kind], line))
            return false;
        n_not++;
    }
    return n_not > 1;
}

enum { MOST_KINDS_SHOWN = 8 };

/* Readers come first. Reasons that all others share are said once, then those of each kind. */
static void put_reasons(const s2_reasons *kinds, int32_t n, const char *indent, s2_buf *buf)
{
    int32_t n_readers = 0;
    while (n_readers < n && kinds[n_readers].reads)
        n_readers++;
    const char *const rest = n_readers > 0 ? "the others" : "every head";
    for (int32_t kind = 0; kind < n && kind < MOST_KINDS_SHOWN; kind++) {
        for (int32_t at = 0; kind == n_readers && at < kinds[kind].n; at++)
            if (all_say(kinds, n, kinds[kind].lines[at]))
                s2_buf_printf(buf, "%s%-12s no  %s\n", indent, rest, kinds[kind].lines[at]);
        for (int32_t at = 0; at < kinds[kind].n; at++)
            if (kinds[kind].reads || !all_say(kinds, n, kinds[kind].lines[at]))
                s2_buf_printf(buf, "%s%-12s %-3s %s\n", indent, kinds[kind].heads,
                              kinds[kind].reads ? "yes" : "no", kinds[kind].lines[at]);
    }
    if (n > MOST_KINDS_SHOWN)
        s2_buf_printf(buf, "%sand %d more kinds of head, likewise\n", indent, n - MOST_KINDS_SHOWN);
}

/* Kinds that read come before those that do not, so that the cut never hides a reader. */
static void readers_first(s2_reasons *kinds, int32_t n)
{
    int32_t n_readers = 0;
    for (int32_t kind = 0; kind < n; kind++) {
        if (!kinds[kind].reads)
            continue;
        const s2_reasons reader = kinds[kind];
        memmove(&kinds[n_readers + 1], &kinds[n_readers], (size_t)(kind - n_readers) * sizeof *kinds);
        kinds[n_readers++] = reader;
    }
}

static s2_status explain_pair(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                              s2_range heads, int64_t q_tok, int64_t k_tok, const char *indent, s2_buf *buf)
{
    s2_view *views;
    int32_t *kind_of, n_kinds = 0;
    S2_TRY(s2_heads_sort(arena, pattern, phase, layer, &views, &kind_of));
    s2_reasons *const kinds = S2_NEW(arena, s2_reasons, pattern->n_heads);
    uint8_t *const done = S2_NEW(arena, uint8_t, pattern->n_heads);
    if (kinds == NULL || done == NULL)
        return S2_ENOMEM;
    for (int32_t head = (int32_t)heads.begin; head < heads.end; head++) {
        if (done[kind_of[head]])
            continue;
        done[kind_of[head]] = 1;
        S2_TRY(find_reasons(arena, &views[head], q_tok, k_tok, &kinds[n_kinds]));
        S2_TRY(name_kind(arena, kind_of, kind_of[head], heads, &kinds[n_kinds].heads));
        n_kinds++;
    }
    readers_first(kinds, n_kinds);
    put_reasons(kinds, n_kinds, indent, buf);
    return S2_OK;
}

s2_status s2_explain_pair(const s2_pattern *pattern, s2_phase phase, int32_t layer, s2_range heads,
                          int64_t q_tok, int64_t k_tok, const char *indent, s2_buf *buf)
{
    s2_arena arena = {0};
    const s2_status status = explain_pair(&arena, pattern, phase, layer, heads, q_tok, k_tok, indent, buf);
    s2_arena_release(&arena);
    return status;
}

/* ---- how much ----------------------------------------------------------------------------------------- */

s2_status s2_explain_extent(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                            s2_buf *buf)
{
    s2_unread unread;
    S2_TRY(s2_unread_count(pattern, finding, &unread));
    if (unread.n_tok == 0)
        return S2_OK;
    s2_buf_printf(buf, "%sat %s %lld of %lld pairs (%.1f %%) are read by no head%s\n", indent,
                  s2_count_text(unread.n_tok, "token").text, (long long)unread.n_unread,
                  (long long)unread.n_pairs, 100.0 * (double)unread.n_unread / (double)unread.n_pairs,
                  finding->witness.rank >= 0 ? " of the rank" : "");
    return S2_OK;
}

/* ---- the picture --------------------------------------------------------------------------------------- */

enum { PICTURE_COLUMNS = 48, PICTURE_ROWS = 7 };

/* Queries before a key that comes back are of the phase that left it unread. */
static s2_phase phase_of_row(const s2_witness *w, int64_t q_tok, int64_t unit)
{
    return w->earlier_q_tok >= 0 && q_tok / unit < w->q_tok / unit ? w->earlier_phase : w->phase;
}

/* What one cell shows: the future, how many of the given heads read it, or the witness itself. */
static char picture_cell(const s2_pattern *pattern, const s2_witness *w, int32_t begin, int32_t end,
                         int64_t q_tok, int64_t k_tok, int64_t unit)
{
    if (pattern->causal && k_tok > q_tok)
        return ' ';
    if (q_tok / unit == w->q_tok / unit && w->k_tok >= 0 && k_tok / unit == w->k_tok / unit)
        return 'X';
    int32_t n_readers = 0;
    const int64_t n_tok = s2_max_i64(q_tok, k_tok) + 1;
    const s2_phase phase = phase_of_row(w, q_tok, unit);
    for (int32_t head = begin; head < end; head++)
        n_readers += s2_pattern_reads(pattern, phase, w->layer, head, n_tok, q_tok, k_tok);
    if (n_readers == 0)
        return '.';
    if (end - begin == 1)
        return '#';
    return (char)(n_readers > 9 ? '+' : '0' + n_readers);
}

static bool is_aligned(s2_arena *arena, const s2_pattern *pattern, const s2_witness *w, s2_status *status)
{
    const s2_phase phases[] = {w->phase, w->earlier_q_tok >= 0 ? w->earlier_phase : w->phase};
    s2_view *views;
    int32_t *kind_of;
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    *status = S2_OK;
    for (size_t p = 0; p < sizeof phases / sizeof *phases && *status == S2_OK; p++) {
        *status = s2_heads_sort(arena, pattern, phases[p], w->layer, &views, &kind_of);
        for (int32_t head = 0; *status == S2_OK && head < pattern->n_heads; head++)
            s2_view_shape_add(&shape, &views[head]);
    }
    return shape.block_aligned;
}

static void put_picture(const s2_pattern *pattern, const s2_finding *finding, int64_t unit,
                        const char *indent, s2_buf *buf)
{
    const s2_witness *const w = &finding->witness;
    const s2_range heads = s2_witness_heads(pattern, finding);
    const int32_t begin = (int32_t)heads.begin, end = (int32_t)heads.end;
    const int64_t row = w->q_tok / unit, column = w->k_tok > 0 ? w->k_tok / unit : 0;
    const int64_t first_row = row > PICTURE_ROWS - 3 ? row - (PICTURE_ROWS - 3) : 0;
    const int64_t first_column = column > PICTURE_COLUMNS / 4 ? column - PICTURE_COLUMNS / 4 : 0;
    s2_buf_printf(buf, "%srows: query %ss, columns: key %ss from %lld; %s, '.' unread, X the place", indent,
                  unit > 1 ? "block" : "token", unit > 1 ? "block" : "token", (long long)first_column,
                  end - begin == 1 ? "'#' read" : "digits: heads that read ('+' ten or more)");
    if (w->earlier_q_tok >= 0 && w->earlier_phase != w->phase)
        s2_buf_printf(buf, "; rows above it by the rules of %s", s2_phase_word(w->earlier_phase));
    s2_buf_puts(buf, "\n");
    for (int64_t q = first_row; q < first_row + PICTURE_ROWS; q++) {
        s2_buf_printf(buf, "%s%8lld  ", indent, (long long)q);
        for (int64_t k = first_column; k < first_column + PICTURE_COLUMNS && (!pattern->causal || k <= q);
             k++) {
            const char cell = picture_cell(pattern, w, begin, end, q * unit, k * unit, unit);
            s2_buf_add(buf, &cell, 1);
        }
        s2_buf_puts(buf, "\n");
    }
}

s2_status s2_explain_picture(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                             s2_buf *buf)
{
    s2_arena arena = {0};
    s2_status status;
    const bool aligned = is_aligned(&arena, pattern, &finding->witness, &status);
    s2_arena_release(&arena);
    const s2_witness *const w = &finding->witness;
    const bool one_block =
        w->earlier_q_tok >= 0 && w->earlier_q_tok / pattern->block_tok == w->q_tok / pattern->block_tok;
    if (status == S2_OK)
        put_picture(pattern, finding, aligned && !one_block ? pattern->block_tok : 1, indent, buf);
    return status;
}

/* ---- through several layers */

enum { DEPTH_WORK = 20000000 };

s2_status s2_explain_depth(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                           s2_buf *buf)
{
    const s2_requirement depth = {.property = S2_DEPTH, .arg = s2_finding_depth(pattern, finding)};
    if (finding->requirement.property != S2_UNION || depth.arg > pattern->n_layers)
        return S2_OK;
    s2_arena arena = {0};
    const s2_prove_options options = {.n_tok = finding->scope_tok, .work_limit = DEPTH_WORK};
    s2_finding found;
    const s2_status status = s2_prove(&arena, pattern, &depth, 1, &options, &found);
    if (status == S2_OK && found.verdict == S2_HOLDS)
        s2_buf_printf(buf,
                      "%sdepth:%d holds: of any %d layers in a row one reads every key, so each key reaches "
                      "every later query within them\n",
                      indent, depth.arg, depth.arg);
    s2_arena_release(&arena);
    return status;
}

/* ---- repairs */

/* Heads that read a whole stride together: each reads `width` of its blocks. */
static void put_shorter_stride(const s2_repair *repair, s2_buf *buf)
{
    const long long before = (long long)repair->stride_before, width = (long long)repair->width;
    s2_buf_printf(buf, "stride %lld", before);
    if (width > 1)
        s2_buf_printf(buf, " width %lld", width);
    s2_buf_printf(buf, " needs %lld heads of different phase", (long long)s2_ceil_div(before, width));
    if (width > 1)
        s2_buf_printf(buf, ", %lld apart,", width);
    s2_buf_printf(buf, " or a dense head; %s holds", repair->change);
}

void s2_repair_print(const s2_repair *repair, s2_buf *buf)
{
    const long long stride = (long long)repair->stride;
    switch (repair->kind) {
    case S2_REPAIR_STRIDE: put_shorter_stride(repair, buf); break;
    case S2_REPAIR_ROTATE:
        s2_buf_printf(buf, "rotating %s heads (`%s`) holds%s",
                      repair->by_head ? "over query" : "the stride over KV", repair->change,
                      repair->by_head ? ", but each KV head then keeps its group's union" : "");
        break;
    case S2_REPAIR_SPREAD:
        s2_buf_printf(buf, "heads whose phases lie the width apart (`%s`) hold", repair->change);
        break;
    case S2_REPAIR_STRIDE_AND_ROTATE:
        s2_buf_printf(buf, "stride %lld rotated over heads (`%s`) holds", stride, repair->change);
        break;
    case S2_REPAIR_NEW_STRIDE:
        s2_buf_printf(buf, "adding `stride %lld phase kv` lets the KV heads share what no head reads",
                      stride);
        break;
    case S2_REPAIR_DENSE_KV:
        s2_buf_printf(buf, "a dense KV head holds: `kv %d: dense` in the failing layers", repair->kv_head);
        break;
    case S2_REPAIR_LOCAL: s2_buf_puts(buf, "adding `local 1` gives every query a key"); break;
    case S2_REPAIR_STRIDE_FOR_DILATED:
        s2_buf_puts(buf, "`stride` (absolute key blocks) in place of `dilated` (relative) holds");
        break;
    }
}

s2_status s2_explain_repair(const s2_pattern *pattern, const s2_finding *finding, const char *indent,
                            s2_buf *buf)
{
    s2_arena arena = {0};
    s2_repair repairs[S2_REPAIRS];
    int32_t n = 0;
    const s2_status status = s2_repairs_find(&arena, pattern, finding, repairs, &n);
    for (int32_t nth = 0; status == S2_OK && nth < n; nth++) {
        s2_buf_puts(buf, indent);
        s2_repair_print(&repairs[nth], buf);
        s2_buf_puts(buf, "\n");
    }
    s2_arena_release(&arena);
    return status;
}
