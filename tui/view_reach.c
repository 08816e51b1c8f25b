/*
 * How far information gets: what queries know after each layer, heads and flow by distance, and the page of
 * `s2 reach` below.
 */
#include "tui/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "sim/units.h"

/* ---- charts */

/* One or two curves over layers or distances: the larger one shaded, the smaller one in solid bars. */
typedef struct chart {
    const char *title;
    int32_t n;
    double most; /* at the top of the chart */
    double (*shaded)(const s2_followed *, int32_t);
    double (*solid)(const s2_followed *, int32_t);
    const char *first; /* below its ends */
    const char *last;
} chart;

static double last_knows(const s2_followed *f, int32_t layer)
{
    return f->known[layer].last;
}

static double least_knows(const s2_followed *f, int32_t layer)
{
    return f->known[layer].least;
}

static double heads_mean(const s2_followed *f, int32_t octave)
{
    return f->heads[octave];
}

static double heads_least(const s2_followed *f, int32_t octave)
{
    return f->least_heads[octave];
}

static double flow_mean(const s2_followed *f, int32_t octave)
{
    return f->flow[octave];
}

static double none(const s2_followed *f, int32_t octave)
{
    (void)f;
    (void)octave;
    return 0;
}

/* In eighths of a cell, whole cells and one '=' or '_' in ASCII; what is not nothing shows. */
static void draw_column(const chart *c, const s2_followed *f, int32_t nth, s2_canvas *canvas, s2_rect column)
{
    const double scale = column.rows * 8 / c->most;
    const int32_t shaded = (int32_t)ceil(fmin(c->shaded(f, nth), c->most) * scale),
                  solid = (int32_t)ceil(c->solid(f, nth) * scale - 1e-9);
    for (int32_t row = 0; row < column.rows; row++) {
        const int32_t below = 8 * (column.rows - 1 - row);
        for (int32_t col = column.col; col < column.col + column.cols; col++)
            if (solid - below >= 8)
                s2_canvas_glyph(canvas, column.row + row, col, 0x2588, '#', S2_STYLE_HEAT3);
            else if (solid > below)
                s2_canvas_glyph(canvas, column.row + row, col, 0x2580 + (uint32_t)(solid - below),
                                solid - below > 3 ? '=' : '_', S2_STYLE_HEAT3);
            else if (shaded > below)
                s2_canvas_glyph(canvas, column.row + row, col, 0x2591, '-', S2_STYLE_HEAT4);
    }
}

static void draw_chart(const chart *c, const s2_followed *f, s2_canvas *canvas, s2_rect area)
{
    const s2_rect plot = {area.row + 1, area.col, area.rows - 2, area.cols};
    const int32_t n_last = (int32_t)strlen(c->last), foot = area.row + area.rows - 1;
    s2_canvas_clip(canvas, area);
    s2_canvas_text(canvas, area.row, area.col, S2_STYLE_HEAD, c->title);
    for (int32_t x = 0; x < plot.cols; x++)
        draw_column(c, f, (int32_t)((int64_t)x * c->n / plot.cols), canvas,
                    (s2_rect){plot.row, plot.col + x, plot.rows, 1});
    s2_canvas_text(canvas, foot, area.col, S2_STYLE_DIM, c->first);
    s2_canvas_text(canvas, foot, area.col + area.cols - n_last, S2_STYLE_DIM, c->last);
}

/* Beyond it the page says no more than that it is large. */
enum { MOST_FLOW = 1000 };

static double most_flow(const s2_followed *f)
{
    double most = 1;
    for (int32_t octave = 0; octave < f->n_octaves; octave++)
        most = fmax(most, f->flow[octave]);
    return fmin(most, MOST_FLOW);
}

enum { CHARTS = 3, CHART_COLS = 24, CHART_ROWS = 4, LABEL = 80 };

/* As many charts as there is room for, side by side. */
static void draw_charts(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    const s2_followed *const f = &facts->followed;
    const int32_t n_layers = facts->pattern.n_layers,
                  n = s2_min_i32(CHARTS, (area.cols + 1) / (CHART_COLS + 1));
    const bool utf8 = !canvas->ascii;
    char heads[LABEL], flow[LABEL], last[LABEL], blocks[LABEL];
    snprintf(heads, sizeof heads, "%d heads: mean %s least %s", (int)facts->pattern.n_heads, utf8 ? "░" : "-",
             utf8 ? "█" : "#");
    snprintf(flow, sizeof flow, "flow / dense, to %s", s2_decimal(most_flow(f), 3).text);
    snprintf(last, sizeof last, "layer %d", (int)n_layers - 1);
    snprintf(blocks, sizeof blocks, "%s%d blocks", f->n_octaves > 1 ? "from " : "",
             f->n_octaves > 1 ? 1 << (f->n_octaves - 2) : 0);
    const chart charts[CHARTS] = {
        {utf8 ? "known: last ░ least █" : "known: last - least #", n_layers, 1, last_knows, least_knows,
         "layer 0", n_layers > 1 ? last : ""},
        {heads, f->n_octaves, facts->pattern.n_heads, heads_mean, heads_least, "0", blocks},
        {flow, f->n_octaves, most_flow(f), flow_mean, none, "0", blocks}};
    for (int32_t at = 0; at < n; at++) {
        const int32_t begin = area.cols * at / n, end = area.cols * (at + 1) / n - (at + 1 < n);
        draw_chart(&charts[at], f, canvas, (s2_rect){area.row, area.col + begin, area.rows, end - begin});
    }
}

/* ---- the page */

static int32_t count_lines(const char *page)
{
    int32_t n = 0;
    for (; *page != '\0'; page++)
        n += *page == '\n';
    return n;
}

/* The page from a line on, folded. */
static void draw_page(const char *page, int32_t first, s2_canvas *canvas, s2_rect area)
{
    const s2_rect inner = {area.row, area.col + 1, area.rows, area.cols - 2};
    const int32_t end = area.row + area.rows;
    int32_t row = area.row;
    s2_canvas_clip(canvas, area);
    for (; first > 0 && *page != '\0'; first--)
        page += strcspn(page, "\n") + 1;
    while (*page != '\0' && row < end) {
        char line[S2_CANVAS_LIMIT_COLS];
        const int32_t n = (int32_t)strcspn(page, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, page);
        row += n == 0 ? 1 : s2_fold_draw(line, S2_STYLE_TEXT, canvas, inner, row);
        page += n + 1;
    }
    if (*page != '\0' || row > end)
        s2_more_draw(canvas, area);
}

static void print_scope(const s2_facts *facts, s2_buf *buf)
{
    const s2_followed *const f = &facts->followed;
    const int64_t n_tok = facts->question.len_tok;
    s2_buf_printf(buf, f->n_tok < n_tok ? "only the first %s of %s" : "all %s", s2_tok_text(f->n_tok).text,
                  s2_tok_text(n_tok).text);
    s2_buf_printf(buf, " tokens, in blocks of %d%s", facts->pattern.block_tok,
                  f->n_tok < n_tok ? "; m measures all of them beside the screen" : "");
}

/* Folded, or where lines are few cut to one; returns the rows taken. */
static int32_t draw_scope(const s2_facts *facts, bool folds, s2_canvas *canvas, s2_rect area)
{
    s2_buf scope = {0};
    int32_t rows = 1;
    print_scope(facts, &scope);
    if (scope.status == S2_OK && folds)
        rows = s2_fold_draw(scope.data, S2_STYLE_DIM, canvas, area, area.row);
    else if (scope.status == S2_OK)
        s2_canvas_text(canvas, area.row, area.col, S2_STYLE_DIM, scope.data);
    s2_buf_release(&scope);
    return rows;
}

/* Why there is nothing to draw; NULL: there is. */
static const char *lacking(const s2_tui_model *model, const s2_facts *facts)
{
    const bool waits = facts != NULL && facts == model->bench ? model->bench_waits : model->design_waits;
    if (facts == NULL || waits)
        return "being derived...";
    if (facts->status != S2_OK)
        return facts->diag.msg[0] != '\0' ? facts->diag.msg : s2_status_text(facts->status);
    if (!facts->followed.asked)
        return "being followed...";
    if (facts->followed.status == S2_ELIMIT)
        return "too many reads to follow here; m measures it beside the screen, where the limits are those "
               "of s2 reach";
    return facts->followed.status == S2_OK ? NULL : s2_status_text(facts->followed.status);
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_facts *const facts = s2_view_facts(model, state);
    const char *const why = lacking(model, facts);
    const s2_rect inner = {body.row, body.col + 1, body.rows, body.cols - 2};
    s2_canvas_clip(canvas, body);
    if (why != NULL) {
        s2_fold_draw(why, S2_STYLE_UNSURE, canvas, inner, body.row);
        return;
    }
    const int32_t rows = body.rows * 2 / 5;
    const bool charts = rows >= CHART_ROWS && inner.cols >= CHART_COLS;
    int32_t used = draw_scope(facts, charts, canvas, inner);
    if (charts) {
        draw_charts(facts, canvas, (s2_rect){body.row + used, inner.col, rows, inner.cols});
        used += rows;
    }
    draw_page(facts->followed.page, state->scroll, canvas,
              (s2_rect){body.row + used, body.col, body.rows - used, body.cols});
}

/* ---- keys */

/* "--len 128k", and what the phase needs. */
static void print_options(const s2_question *question, int64_t n_tok, s2_buf *buf)
{
    s2_buf_printf(buf, "--len %s", s2_tok_text(n_tok).text);
    if (s2_phase_rules(question->phase) == S2_DECODE)
        s2_buf_puts(buf, " --phase decode");
}

/* The workbench's pattern, which no row stores. */
static bool is_bench(const s2_tui_model *model, const s2_facts *facts)
{
    return facts == model->bench;
}

static void measure(const s2_tui_model *model, s2_tui_state *state, const s2_facts *facts)
{
    s2_buf words = {0};
    print_options(&facts->question, facts->question.len_tok, &words);
    snprintf(state->prompt, sizeof state->prompt, "%s", words.status == S2_OK ? words.data : "");
    state->request = S2_REQUEST_MEASURE;
    state->request_id = is_bench(model, facts) ? 0 : s2_subject_id(model, state);
    s2_buf_release(&words);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    const s2_facts *const facts = s2_view_facts(model, state);
    const bool there = lacking(model, facts) == NULL;
    if (action == S2_ACT_MEASURE && facts != NULL && facts->status == S2_OK)
        measure(model, state, facts);
    else
        s2_scroll(action, there ? count_lines(facts->followed.page) : 0, state->rows / 2, &state->scroll);
}

static void print_command(const s2_tui_model *model, const s2_facts *facts, int64_t n_tok, s2_buf *buf)
{
    s2_buf text = {0};
    s2_buf_puts(buf, "s2 reach ");
    if (is_bench(model, facts)) {
        s2_pattern_line(&facts->pattern, &text);
        s2_buf_shell(buf, text.data != NULL ? text.data : "");
    } else {
        s2_subject_print(model, facts, buf);
    }
    s2_buf_puts(buf, " ");
    print_options(&facts->question, n_tok, buf);
    s2_buf_puts(buf, model->database);
    s2_buf_release(&text);
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_facts *const facts = s2_view_facts(model, state);
    if (lacking(model, facts) != NULL)
        return;
    const int64_t n_tok = facts->question.len_tok;
    print_command(model, facts, facts->followed.n_tok, buf);
    if (facts->followed.n_tok == n_tok)
        return;
    s2_buf_puts(buf, "\n");
    print_command(model, facts, n_tok, buf);
}

const s2_view_ops s2_view_reach = {
    draw, handle, command, {S2_ACT_PAGE_DOWN, S2_ACT_MEASURE, S2_ACT_BACK}, NULL};
