/*
 * Runs, in the background and stored; and the views that show the lines of one thing.
 */
#include "tui/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NEEDLE_LABEL = 10 };

static s2_style style_of(s2_tui_line_kind kind)
{
    static const s2_style styles[] = {S2_STYLE_TEXT, S2_STYLE_HEAD,   S2_STYLE_DIM, S2_STYLE_GOOD,
                                      S2_STYLE_BAD,  S2_STYLE_UNSURE, S2_STYLE_TEXT};
    return styles[kind];
}

/* A length, then its cells with gaps, each in the style of what it says. */
static void draw_needles(const char *text, s2_canvas *canvas, int32_t row, int32_t col)
{
    const char *const cells = strchr(text, '|');
    const int32_t n = cells != NULL ? (int32_t)(cells - text) : 0;
    s2_canvas_printf(canvas, row, col, S2_STYLE_DIM, "%*.*s", NEEDLE_LABEL - 1, n, text);
    for (int32_t cell = 1; cells != NULL && cells[cell] != '\0'; cell++) {
        const char c = cells[cell];
        const s2_style style = c == '#' ? S2_STYLE_GOOD : c == '.' ? S2_STYLE_UNSURE : S2_STYLE_BAD;
        const char one[] = {c, '\0'};
        s2_canvas_text(canvas, row, col + NEEDLE_LABEL + 2 * (cell - 1), style, one);
    }
}

/* Rows taken. */
static int32_t draw_line(const s2_tui_line *line, s2_canvas *canvas, s2_rect area, int32_t row)
{
    const s2_rect inner = {area.row, area.col + 1, area.rows, area.cols - 2};
    if (line->kind != S2_LINE_NEEDLES)
        return s2_fold_draw(line->text, style_of(line->kind), canvas, inner, row);
    draw_needles(line->text, canvas, row, inner.col);
    return 1;
}

void s2_text_draw(const s2_tui_text *text, int32_t first, s2_canvas *canvas, s2_rect area)
{
    const int32_t end = area.row + area.rows;
    int32_t row = area.row, nth = first;
    s2_canvas_clip(canvas, area);
    for (; nth < text->n_lines && row < end; nth++)
        row += draw_line(&text->lines[nth], canvas, area, row);
    if (nth < text->n_lines || row > end)
        s2_more_draw(canvas, area);
}

/* ---- runs */

static char mark_of(const s2_tui_run *run, s2_style *style)
{
    if (run->state == S2_RUN_QUEUED || run->state == S2_RUN_RUNNING) {
        *style = S2_STYLE_KEY;
        return run->state == S2_RUN_QUEUED ? '.' : '>';
    }
    *style = run->state != S2_RUN_ENDED ? S2_STYLE_UNSURE
             : run->code == 0           ? S2_STYLE_GOOD
             : run->code == 4           ? S2_STYLE_UNSURE
                                        : S2_STYLE_BAD;
    return run->state != S2_RUN_ENDED ? '-'
           : run->code == 0           ? '+'
           : run->code == 4           ? '?'
           : run->code == 1           ? 'x'
                                      : '!';
}

static void draw_run(const s2_tui_run *run, s2_canvas *canvas, s2_rect line, bool here)
{
    s2_style style;
    const char mark = mark_of(run, &style);
    const bool wide = line.cols >= 60;
    s2_canvas_clip(canvas, line);
    s2_canvas_glyph(canvas, line.row, 2, (unsigned char)mark, mark, style);
    int32_t col = 4;
    if (wide)
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "%-12.12s", run->when) + 1;
    if (!isnan(run->wall_s))
        s2_canvas_printf(canvas, line.row, col, S2_STYLE_TEXT, run->wall_s < 10 ? "%6.2f s" : "%6.0f s",
                         run->wall_s);
    col += 10;
    if (wide && run->n_results > 0)
        s2_canvas_printf(canvas, line.row, col, S2_STYLE_TEXT, "%4lld", (long long)run->n_results);
    col += wide ? 6 : 0;
    if (run->state == S2_RUN_RUNNING && run->now[0] != '\0')
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_KEY, "%s  ", run->now);
    s2_canvas_text(canvas, line.row, col, S2_STYLE_TEXT, run->what);
    if (here) {
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
        s2_canvas_glyph(canvas, line.row, 0, 0x25b8, '>', S2_STYLE_CURSOR);
    }
}

static void draw_list(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    const int32_t shown = area.rows - 1;
    s2_canvas_clip(canvas, area);
    if (area.cols >= 60)
        s2_canvas_text(canvas, area.row, 2, S2_STYLE_HEAD, "  started           took found  command");
    else
        s2_canvas_text(canvas, area.row, 2, S2_STYLE_HEAD, "      took  command");
    if (model->n_runs == 0)
        s2_canvas_text(canvas, area.row + 1, 2, S2_STYLE_DIM,
                       "nothing ran yet: v validates, a searches around");
    const int32_t top = shown > 0 && state->run >= shown ? state->run - shown + 1 : 0;
    for (int32_t n = 0; n < shown && top + n < model->n_runs; n++)
        draw_run(&model->runs[top + n], canvas, (s2_rect){area.row + 1 + n, 0, 1, area.cols},
                 top + n == state->run);
    if (top + shown < model->n_runs)
        s2_more_draw(canvas, area);
}

/* The whole output, or a note that there is none. */
static void draw_said(const s2_tui_model *model, int32_t first, s2_canvas *canvas, s2_rect area)
{
    s2_text_draw(&model->output, first, canvas, area);
    if (model->output.n_lines == 0)
        s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_DIM,
                       model->n_runs == 0 ? "nothing ran yet" : "there is no output yet");
}

static void draw_runs(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_list places = s2_layout_list_in(body);
    draw_list(model, state, canvas, places.list);
    if (places.preview.rows > 1) {
        const s2_rect line = {places.preview.row, 0, 1, places.preview.cols};
        s2_canvas_clip(canvas, places.preview);
        s2_canvas_fill(canvas, line, S2_STYLE_BAR);
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, "what it said");
        draw_said(model, 0, canvas, (s2_rect){line.row + 1, 0, places.preview.rows - 1, places.preview.cols});
    }
}

static const s2_tui_run *run_at(const s2_tui_model *model, const s2_tui_state *state)
{
    return state->run < model->n_runs ? &model->runs[state->run] : NULL;
}

static void list_designs(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_tui_run *const run = run_at(model, state);
    char filter[40];
    if (run == NULL || run->id == 0) {
        snprintf(state->message, sizeof state->message,
                 "this run is not stored yet; once it is, its designs can be listed");
        return;
    }
    snprintf(filter, sizeof filter, "run=%lld", (long long)run->id);
    s2_filter_list(state, filter);
}

static void handle_runs(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (action == S2_ACT_OF_RUN)
        list_designs(model, state);
    else if (!s2_scroll(action, model->n_runs, state->rows / 2, &state->run) && action == S2_ACT_OPEN &&
             model->n_runs > 0)
        s2_view_push(state, S2_VIEW_OUTPUT);
}

static void click_runs(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_layout_list places = s2_layout_list_in(s2_layout_frame(state->rows, state->cols).body);
    const int32_t shown = places.list.rows - 1;
    const int32_t top = shown > 0 && state->run >= shown ? state->run - shown + 1 : 0;
    const int32_t nth = top + row - places.list.row - 1;
    (void)col;
    if (nth == state->run || (places.preview.rows > 0 && row > places.preview.row))
        handle_runs(model, state, S2_ACT_OPEN);
    else if (row > places.list.row && row < places.list.row + places.list.rows && nth < model->n_runs)
        state->run = nth;
}

/* A stored run can be repeated by its id; one of this session is its own command. */
static void command_runs(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_tui_run *const run = run_at(model, state);
    if (run != NULL && run->job == 0)
        s2_buf_printf(buf, "s2 repro %lld%s", (long long)run->id, model->database);
    else if (run != NULL)
        s2_buf_puts(buf, run->what);
    else if (model->stored)
        s2_buf_printf(buf, "s2 repro%s", model->database);
    else
        s2_buf_puts(buf, "s2 tui --no-db --dump runs");
}

const s2_view_ops s2_view_runs = {draw_runs,
                                  handle_runs,
                                  command_runs,
                                  {S2_ACT_OPEN, S2_ACT_OF_RUN, S2_ACT_CANCEL, S2_ACT_BACK},
                                  click_runs};

/* ---- the lines of one thing */

static void draw_output(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    draw_said(model, state->scroll, canvas, body);
}

static void handle_output(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    s2_scroll(action, model->output.n_lines, state->rows / 2, &state->scroll);
}

const s2_view_ops s2_view_output = {
    draw_output, handle_output, command_runs, {S2_ACT_PAGE_DOWN, S2_ACT_BACK}, NULL};

static void draw_record(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    s2_canvas_clip(canvas, body);
    if (model->record.n_lines == 0)
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM,
                       "nothing is stored about it: v validates, s2 sim prices");
    s2_text_draw(&model->record, state->scroll, canvas, body);
}

static void handle_record(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (!s2_scroll(action, model->record.n_lines, state->rows / 2, &state->scroll))
        s2_subject_handle(model, state, action);
}

static void command_record(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_facts *const facts = s2_subject_facts(model, state);
    if (facts == NULL || facts->status != S2_OK)
        return;
    s2_buf_puts(buf, "s2 show ");
    s2_subject_print(model, facts, buf);
    if (model->stored)
        s2_buf_printf(buf, "%s\ns2 ls hash=%s --format json%s", model->database, facts->hash,
                      model->database);
}

const s2_view_ops s2_view_record = {
    draw_record,
    handle_record,
    command_record,
    {S2_ACT_VALIDATE, S2_ACT_EXPORT, S2_ACT_TAG, S2_ACT_NOTE, S2_ACT_STAR, S2_ACT_UNDO, S2_ACT_PAGE_DOWN},
    NULL};
