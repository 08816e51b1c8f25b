#include "export/compare.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/work.h"
#include "pattern/parse.h"
#include "pattern/view.h"

/* Steps (base/work.h) that one call may take to enumerate and count before it says "limit": some seconds. */
#define STEP_BUDGET ((int64_t)1 << 28)

typedef struct s2_rows_pair {
    s2_run *runs[2];
    int64_t cap[2];
    int64_t n[2];
} s2_rows_pair;

static void rows_release(s2_rows_pair *rows)
{
    s2_free(rows->runs[0]);
    s2_free(rows->runs[1]);
}

static s2_status rows_fill(s2_rows_pair *rows, int side, const s2_view *view, int64_t q_tok, int64_t n_tok,
                           int64_t *budget)
{
    return s2_view_row_whole(view, q_tok, n_tok, budget, &rows->runs[side], &rows->cap[side], &rows->n[side]);
}

/* How far rows must be compared for every length, and at which step of queries. */
typedef struct s2_extent {
    int64_t n_tok;
    int64_t step;
    bool every_length;
} s2_extent;

static int64_t explicit_extent(const s2_view *view)
{
    int64_t extent = 0;
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_term *const term = &view->body->terms[view->atoms[a].term];
        if (view->atoms[a].kind == S2_ATOM_MASK) {
            const int64_t blk = s2_max_i32(term->mask->n_q_blk, term->mask->n_k_blk);
            extent = s2_max_i64(blk * view->pattern->block_tok, extent);
        }
    }
    return extent;
}

static bool has_random(const s2_view *view)
{
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (view->atoms[a].kind == S2_ATOM_RANDOM)
            return true;
    return false;
}

static s2_extent extent_of(const s2_view *a, const s2_view *b, int64_t n_tok)
{
    enum { FALLBACK_TOK = 1 << 17, MOST_TOK = 1 << 21 };
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, a);
    s2_view_shape_add(&shape, b);
    const int64_t block = s2_min_i32(a->pattern->block_tok, b->pattern->block_tok);
    s2_extent extent = {.n_tok = n_tok, .step = shape.block_aligned ? block : 1};
    if (n_tok > 0)
        return extent;
    const int64_t explicit_tok = explicit_extent(a) + explicit_extent(b);
    const int64_t common = s2_period_lcm(shape.key_period, shape.query_period);
    int64_t bound = S2_OPEN;
    if (shape.key_period < MOST_TOK && shape.query_period < MOST_TOK && shape.threshold < MOST_TOK &&
        shape.reach < MOST_TOK && (a->pattern->causal || common < MOST_TOK)) {
        bound =
            shape.threshold + shape.key_period + shape.reach + shape.query_period + 2 * block + explicit_tok;
        /* a query below a threshold stays put while its keys go on (docs/proof.md, not causal) */
        if (!a->pattern->causal)
            bound += shape.reach + 2 * common;
    }
    extent.every_length = bound <= MOST_TOK && !has_random(a) && !has_random(b);
    extent.n_tok = bound <= MOST_TOK && extent.every_length ? bound : FALLBACK_TOK;
    return extent;
}

int64_t s2_runs_first_difference(const s2_run *first, int64_t n_first, const s2_run *second, int64_t n_second,
                                 bool *first_reads)
{
    for (int64_t nth = 0; nth < n_first || nth < n_second; nth++) {
        const s2_run end = {S2_OPEN, S2_OPEN};
        const s2_run a = nth < n_first ? first[nth] : end, b = nth < n_second ? second[nth] : end;
        if (a.begin != b.begin) {
            *first_reads = a.begin < b.begin;
            return *first_reads ? a.begin : b.begin;
        }
        if (a.end != b.end) {
            *first_reads = a.end > b.end;
            return *first_reads ? b.end : a.end;
        }
    }
    return S2_OPEN;
}

/*
 * Rows of an aligned pair of views agree within a block up to the diagonal, so the last query of each block
 * decides, except for the tail of the context, whose last query is the last token.
 */
static s2_status compare_rows(const s2_view views[2], const s2_extent *extent, int64_t *budget,
                              s2_difference *out)
{
    s2_rows_pair rows = {0};
    s2_status status = S2_OK;
    for (int64_t begin = 0; begin < extent->n_tok && status == S2_OK && !out->differs;
         begin += extent->step) {
        const int64_t end = s2_min_i64(begin + extent->step, extent->n_tok);
        for (int side = 0; side < 2 && status == S2_OK; side++)
            status = rows_fill(&rows, side, &views[side], end - 1, extent->n_tok, budget);
        if (status != S2_OK)
            break;
        bool first_reads = false;
        const int64_t key =
            s2_runs_first_difference(rows.runs[0], rows.n[0], rows.runs[1], rows.n[1], &first_reads);
        if (key != S2_OPEN) {
            out->differs = true;
            out->first_reads = first_reads;
            out->k_tok = key;
            out->q_tok = views[0].pattern->causal && key > begin ? key : begin;
        }
    }
    rows_release(&rows);
    return status;
}

static void dynamic_terms(const s2_body *body, s2_buf *buf)
{
    for (int32_t t = 0; t < body->n_terms; t++)
        if (s2_term_is_dynamic(&body->terms[t])) {
            s2_term_print(&body->terms[t], buf);
            s2_buf_puts(buf, " | ");
        }
}

static s2_status compare_dynamic(const s2_view views[2], s2_difference *out)
{
    s2_buf text[2] = {{0}, {0}};
    dynamic_terms(views[0].body, &text[0]);
    dynamic_terms(views[1].body, &text[1]);
    const char *const first = text[0].data != NULL ? text[0].data : "";
    const char *const second = text[1].data != NULL ? text[1].data : "";
    if (strcmp(first, second) != 0) {
        out->differs = true;
        snprintf(out->what, sizeof out->what,
                 "layer %d head %d chooses keys by \"%.50s\" and is read back as \"%.50s\"", views[0].layer,
                 views[0].head, first, second);
    }
    s2_status status = text[0].status != S2_OK ? text[0].status : text[1].status;
    s2_buf_release(&text[0]);
    s2_buf_release(&text[1]);
    return status;
}

static s2_status compare_head(s2_arena *arena, const s2_pattern *const patterns[2], int64_t n_tok,
                              int64_t *budget, s2_difference *out)
{
    s2_view views[2];
    for (int side = 0; side < 2; side++)
        S2_TRY(s2_view_build(arena, patterns[side], out->phase, out->layer, out->head, S2_AT_LEAST,
                             &views[side]));
    if (views[0].has_dynamic || views[1].has_dynamic) {
        S2_TRY(compare_dynamic(views, out));
        if (out->differs)
            return S2_OK;
    }
    if (s2_view_equal(&views[0], &views[1]))
        return S2_OK;
    const s2_extent extent = extent_of(&views[0], &views[1], n_tok);
    if (n_tok == 0 && !extent.every_length) {
        out->every_length = false;
        out->n_tok = extent.n_tok;
    }
    return compare_rows(views, &extent, budget, out);
}

/* Numbers that single layers set; a head dimension that all layers share does not affect what is read. */
static bool layers_differ(const s2_pattern *a, const s2_pattern *b, s2_difference *out)
{
    if (!s2_pattern_layers_differ(a) && !s2_pattern_layers_differ(b))
        return false;
    for (int32_t layer = 0; layer < a->n_layers; layer++) {
        const struct {
            const char *name;
            int64_t first, second;
        } own[] = {{"kv-heads", s2_pattern_kv_heads(a, layer), s2_pattern_kv_heads(b, layer)},
                   {"head-dim", s2_pattern_head_dim(a, layer), s2_pattern_head_dim(b, layer)},
                   {"kv-layer", s2_pattern_kv_layer(a, layer), s2_pattern_kv_layer(b, layer)},
                   {"state", s2_pattern_state_bytes(a, layer), s2_pattern_state_bytes(b, layer)}};
        for (size_t n = 0; n < sizeof own / sizeof *own; n++)
            if (own[n].first != own[n].second) {
                out->differs = true;
                snprintf(out->what, sizeof out->what, "%s %lld of layer %d is read back as %lld", own[n].name,
                         (long long)own[n].first, layer, (long long)own[n].second);
                return true;
            }
    }
    return false;
}

static bool shapes_differ(const s2_pattern *a, const s2_pattern *b, s2_difference *out)
{
    const struct {
        const char *name;
        int32_t first, second;
    } shape[] = {{"layers", a->n_layers, b->n_layers},
                 {"heads", a->n_heads, b->n_heads},
                 {"kv-heads", a->n_kv_heads, b->n_kv_heads},
                 {"causal", a->causal, b->causal}};
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
        if (shape[s].first != shape[s].second) {
            out->differs = true;
            snprintf(out->what, sizeof out->what, "%s %d is read back as %d", shape[s].name, shape[s].first,
                     shape[s].second);
            return true;
        }
    return layers_differ(a, b, out);
}

s2_status s2_patterns_compare(const s2_pattern *first, const s2_pattern *second, int64_t n_tok,
                              int64_t *work_left, s2_difference *out)
{
    const s2_pattern *const patterns[2] = {first, second};
    s2_difference result = {.every_length = n_tok == 0, .n_tok = n_tok};
    int64_t own_work = STEP_BUDGET, *const budget = work_left != NULL ? work_left : &own_work;
    if (shapes_differ(first, second, &result)) {
        *out = result;
        return S2_OK;
    }
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int32_t layer = 0; layer < first->n_layers; layer++)
            for (int32_t head = 0; head < first->n_heads; head++) {
                s2_arena arena = {0};
                result.phase = (s2_phase)phase;
                result.layer = layer;
                result.head = head;
                const s2_status status = compare_head(&arena, patterns, n_tok, budget, &result);
                s2_arena_release(&arena);
                S2_TRY(status);
                if (result.differs) {
                    *out = result;
                    return S2_OK;
                }
            }
    *out = result;
    return S2_OK;
}

/* Keys of run list `a` that `b` lacks, counted with the causal weight of an aligned block of rows. */
static int64_t runs_excess(const s2_rows_pair *rows, int a, int64_t q_begin, int64_t q_end, bool causal)
{
    const int b = 1 - a;
    int64_t other = 0, total = 0;
    for (int64_t r = 0; r < rows->n[a]; r++) {
        int64_t begin = rows->runs[a][r].begin;
        const int64_t end = rows->runs[a][r].end;
        while (begin < end) {
            while (other < rows->n[b] && rows->runs[b][other].end <= begin)
                other++;
            int64_t stop = end;
            if (other < rows->n[b] && rows->runs[b][other].begin < end) {
                stop = s2_max_i64(rows->runs[b][other].begin, begin);
            }
            const int64_t whole_end = !causal || stop < q_begin ? stop : s2_max_i64(begin, q_begin);
            total += whole_end > begin ? (whole_end - begin) * (q_end - q_begin) : 0;
            for (int64_t key = s2_max_i64(whole_end, begin); key < stop; key++)
                total += q_end - s2_max_i64(key, q_begin);
            begin = other < rows->n[b] && rows->runs[b][other].begin < end ? rows->runs[b][other].end : end;
        }
    }
    return total;
}

static s2_status loss_head(const s2_view views[2], int64_t n_tok, int64_t *budget, s2_loss *loss)
{
    const s2_extent extent = extent_of(&views[0], &views[1], n_tok);
    s2_rows_pair rows = {0};
    s2_status status = S2_OK;
    for (int64_t begin = 0; begin < n_tok && status == S2_OK; begin += extent.step) {
        const int64_t end = s2_min_i64(begin + extent.step, n_tok);
        for (int side = 0; side < 2 && status == S2_OK; side++)
            status = rows_fill(&rows, side, &views[side], end - 1, n_tok, budget);
        if (status != S2_OK)
            break;
        loss->dropped += runs_excess(&rows, 0, begin, end, views[0].pattern->causal);
        loss->added += runs_excess(&rows, 1, begin, end, views[0].pattern->causal);
    }
    rows_release(&rows);
    return status;
}

typedef struct cell {
    int phase;
    int32_t layer, head;
} cell;

static s2_status views_at(s2_arena *arena, const s2_pattern *const patterns[2], cell where, s2_view views[2])
{
    for (int side = 0; side < 2; side++)
        S2_TRY(s2_view_build(arena, patterns[side], (s2_phase)where.phase, where.layer, where.head,
                             S2_AT_LEAST, &views[side]));
    return S2_OK;
}

/* What one head adds and drops: the same as in the layer below if both its views are the same there. */
static s2_status loss_cell(s2_arena *arena, const s2_pattern *const patterns[2], cell where, int64_t *budget,
                           s2_loss *below)
{
    s2_view views[2], views_below[2];
    s2_loss loss = {.n_tok = below->n_tok};
    S2_TRY(views_at(arena, patterns, where, views));
    if (where.layer > 0) {
        S2_TRY(views_at(arena, patterns, (cell){where.phase, where.layer - 1, where.head}, views_below));
        if (s2_view_equal(&views[0], &views_below[0]) && s2_view_equal(&views[1], &views_below[1]))
            return S2_OK;
    }
    S2_TRY(s2_view_count_pairs(&views[0], loss.n_tok, budget, &loss.n_first));
    if (!s2_view_equal(&views[0], &views[1]))
        S2_TRY(loss_head(views, loss.n_tok, budget, &loss));
    *below = loss;
    return S2_OK;
}

s2_status s2_patterns_loss(const s2_pattern *first, const s2_pattern *second, int64_t n_tok,
                           int64_t *work_left, s2_loss *out)
{
    const s2_pattern *const patterns[2] = {first, second};
    s2_loss loss = {.n_tok = n_tok};
    int64_t own_work = STEP_BUDGET, *const budget = work_left != NULL ? work_left : &own_work;
    const int n_phases = s2_pattern_has_phases(first) || s2_pattern_has_phases(second) ? S2_N_RULE_PHASES : 1;
    if (first->n_layers != second->n_layers || first->n_heads != second->n_heads ||
        first->causal != second->causal)
        return S2_EINVAL;
    for (int phase = 0; phase < n_phases; phase++)
        for (int32_t head = 0; head < first->n_heads; head++) {
            s2_loss one = {.n_tok = n_tok};
            for (int32_t layer = 0; layer < first->n_layers; layer++) {
                s2_arena arena = {0};
                const s2_status status =
                    loss_cell(&arena, patterns, (cell){phase, layer, head}, budget, &one);
                s2_arena_release(&arena);
                S2_TRY(status);
                loss.n_first += one.n_first;
                loss.added += one.added;
                loss.dropped += one.dropped;
            }
        }
    *out = loss;
    return S2_OK;
}
