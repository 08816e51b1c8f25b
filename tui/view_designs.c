#include "tui/columns.h"
#include "tui/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "sim/units.h"

static const s2_tui_row *row_at(const s2_tui_model *model, const s2_tui_state *state)
{
    return state->cursor >= 0 && state->cursor < model->n_rows ? &model->rows[state->cursor] : NULL;
}

static int32_t mark_of(const s2_tui_state *state, int64_t id)
{
    for (int32_t at = 0; at < state->n_marked; at++)
        if (state->marked[at] == id)
            return at;
    return -1;
}

/* ---- cells */

/* A text in its column, clipped to it; numbers end at its right edge. */
static void put_cell(s2_canvas *canvas, int32_t row, const s2_column_places *c, int32_t column,
                     s2_style style, const char *text)
{
    enum { GAP = 2 };
    const s2_range col = c->span[column];
    const int32_t n = (int32_t)strlen(text);
    const int32_t begin = s2_column_is_left(column) ? (int32_t)col.begin + GAP : (int32_t)col.end - n;
    s2_canvas_clip(canvas, (s2_rect){row, (int32_t)col.begin, 1, (int32_t)(col.end - col.begin)});
    s2_canvas_text(canvas, row, s2_max_i32(begin, (int32_t)col.begin), style, text);
}

/* With so many digits behind the point, or "-". */
static void put_number(double value, int digits, s2_buf *buf)
{
    if (isnan(value))
        s2_buf_puts(buf, "-");
    else
        s2_buf_printf(buf, "%.*f", digits, value);
}

static void put_figure(double value, s2_figure_text (*print)(double), s2_buf *buf)
{
    s2_buf_puts(buf, isnan(value) ? "-" : print(value).text);
}

/* "prefill 128k": times of different phases or lengths cannot be compared. */
static void put_at(const s2_tui_row *row, s2_buf *buf)
{
    if (row->len_tok < 1)
        return;
    if (row->phase[0] != '\0')
        s2_buf_printf(buf, "%.8s ", row->phase);
    s2_buf_puts(buf, s2_tok_text(row->len_tok).text);
}

static void put_time(const s2_tui_row *row, s2_buf *buf)
{
    s2_buf_puts(buf, s2_row_mark(row));
    put_figure(row->sim_us, s2_time_text, buf);
}

static void put_hops(const s2_tui_row *row, s2_buf *buf)
{
    if (row->hops == INT64_MIN)
        s2_buf_puts(buf, "-");
    else if (row->hops > row->n_layers)
        s2_buf_printf(buf, ">%lld", (long long)row->n_layers);
    else
        s2_buf_printf(buf, "%lld", (long long)row->hops);
}

static void put_flow(double value, s2_buf *buf)
{
    s2_buf_puts(buf, isnan(value) ? "-" : s2_decimal(value, 3).text);
}

static void put_value(const s2_tui_row *row, s2_tui_column kind, s2_buf *buf)
{
    switch (kind) {
    case S2_COLUMN_HEADS:
        s2_buf_printf(buf, "%lld/%lld", (long long)row->n_heads, (long long)row->n_kv_heads);
        break;
    case S2_COLUMN_LAYERS: s2_buf_printf(buf, "%lld", (long long)row->n_layers); break;
    case S2_COLUMN_BLOCK: s2_buf_printf(buf, "%lld", (long long)row->block_tok); break;
    case S2_COLUMN_DENSITY: put_number(row->density, 4, buf); break;
    case S2_COLUMN_TIME: put_time(row, buf); break;
    case S2_COLUMN_KV: put_figure(row->kv_bytes, s2_bytes_text, buf); break;
    case S2_COLUMN_MEASURED: put_figure(row->gpu_us, s2_time_text, buf); break;
    case S2_COLUMN_AT: put_at(row, buf); break;
    case S2_COLUMN_ON: s2_buf_puts(buf, row->priced_on); break;
    case S2_COLUMN_RECALL: put_number(row->recall, 2, buf); break;
    case S2_COLUMN_LOSS: put_number(row->loss, 3, buf); break;
    case S2_COLUMN_HOPS: put_hops(row, buf); break;
    case S2_COLUMN_FLOW: put_flow(row->flow, buf); break;
    case S2_COLUMN_FAMILY: s2_buf_puts(buf, row->family); break;
    case S2_COLUMN_VALIDATED: s2_buf_puts(buf, row->outcome); break;
    case S2_COLUMN_HASH: s2_buf_printf(buf, "%.12s", row->hash); break;
    case S2_COLUMN_TAGS: s2_buf_puts(buf, row->tags); break;
    }
}

/* An arrow at the column that the list is sorted by, on the side of its title that has room. */
static void draw_sort(const s2_tui_state *state, const s2_column_places *c, s2_canvas *canvas, s2_rect line)
{
    const char *const sort = s2_tui_sorts[state->sort];
    int32_t col = strcmp(sort, "name") == 0 ? S2_NAME_AT + 4 : -1;
    for (int32_t at = 0; at < S2_TUI_COLUMNS; at++)
        if (c->span[at].end > 0 && s2_column_sort(at) != NULL && strcmp(s2_column_sort(at), sort) == 0)
            col = (int32_t)(c->span[at].end - 1) - (int32_t)strlen(s2_tui_columns[at]);
    s2_canvas_clip(canvas, line);
    if (col >= 0)
        s2_canvas_glyph(canvas, line.row, col, state->ascending ? 0x25b4 : 0x25be,
                        state->ascending ? '^' : 'v', S2_STYLE_KEY);
}

static void draw_head(const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const s2_column_places c = s2_column_places_of(state, line.cols);
    s2_canvas_clip(canvas, line);
    s2_canvas_text(canvas, line.row, 2, S2_STYLE_HEAD, "ruk");
    s2_canvas_text(canvas, line.row, S2_NAME_AT, S2_STYLE_HEAD, "name");
    for (int32_t at = 0; at < S2_TUI_COLUMNS; at++)
        if (c.span[at].end > 0)
            put_cell(canvas, line.row, &c, at, S2_STYLE_HEAD, s2_tui_columns[at]);
    draw_sort(state, &c, canvas, line);
}

static void draw_marks(const s2_tui_state *state, const s2_tui_row *row, s2_canvas *canvas, int32_t y)
{
    const int32_t verdicts[] = {row->rows, row->unions, row->kv};
    if (mark_of(state, row->id) >= 0)
        s2_canvas_glyph(canvas, y, 1, 0x25cf, 'o', S2_STYLE_KEY);
    for (int32_t at = 0; at < 3; at++) {
        s2_style style;
        const char mark = s2_verdict_mark(verdicts[at], &style);
        s2_canvas_glyph(canvas, y, 2 + at, (unsigned char)mark, mark, style);
    }
    if (row->starred)
        s2_canvas_glyph(canvas, y, 6, 0x2605, '*', S2_STYLE_KEY);
}

static void draw_row(const s2_tui_state *state, const s2_tui_row *row, s2_canvas *canvas, s2_rect line,
                     bool here)
{
    const s2_column_places c = s2_column_places_of(state, line.cols);
    draw_marks(state, row, canvas, line.row);
    s2_canvas_clip(canvas, (s2_rect){line.row, S2_NAME_AT, 1, c.name_end - S2_NAME_AT});
    s2_canvas_text(canvas, line.row, S2_NAME_AT, S2_STYLE_TEXT, row->name[0] != '\0' ? row->name : row->hash);
    for (int32_t column = 0; column < S2_TUI_COLUMNS; column++) {
        s2_buf text = {0};
        if (c.span[column].end == 0)
            continue;
        put_value(row, (s2_tui_column)column, &text);
        s2_buf_add(&text, "", 1);
        put_cell(canvas, line.row, &c, column, s2_column_is_left(column) ? S2_STYLE_DIM : S2_STYLE_TEXT,
                 text.status == S2_OK ? text.data : "");
        s2_buf_release(&text);
    }
    s2_canvas_clip(canvas, line);
    if (here) {
        s2_canvas_glyph(canvas, line.row, 0, 0x25b8, '>', S2_STYLE_HEAD);
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
    }
}

/* What the figures are of where no column says it; then it is the same for all of them. */
static void put_work(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    if (state->lengths || s2_column_has_room(state, S2_COLUMN_AT))
        return;
    for (int32_t at = state->top; at < model->n_rows && buf->len == 0; at++)
        put_at(&model->rows[at], buf);
}

static void draw_status(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const int64_t n = model->n_all >= 0 ? model->n_all : model->n_rows;
    const int64_t place = model->less ? n - model->n_rows + state->cursor + 1 : state->cursor + 1;
    s2_canvas_clip(canvas, line);
    int32_t col = 1;
    if (model->n_rows > 0 && (!model->less || model->n_all >= 0))
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "%lld of ", (long long)place);
    s2_buf work = {0};
    put_work(model, state, &work);
    col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "%lld%s", (long long)n,
                           model->n_all < 0 ? "+" : "");
    if (work.len > 0) /* there is no room for the noun too */
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, ", %.*s, ", (int)work.len, work.data);
    else
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, " design%s, ", n == 1 ? "" : "s");
    s2_buf_release(&work);
    col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "by %s %s", s2_tui_sorts[state->sort],
                           state->ascending ? "up" : "down");
    if (model->searching)
        s2_canvas_text(canvas, line.row, col, S2_STYLE_KEY, "  searching...");
    else if (model->list_error != NULL)
        s2_canvas_printf(canvas, line.row, col, S2_STYLE_BAD, "  not listed: %s", model->list_error);
    else if (state->filter[0] != '\0')
        s2_canvas_printf(canvas, line.row, col, S2_STYLE_KEY, "  filter: %s", state->filter);
}

static void draw_preview(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                         s2_rect area)
{
    const s2_facts *const facts = s2_subject_facts(model, state);
    s2_canvas_clip(canvas, area);
    if ((model->design_waits || facts == NULL) && model->n_rows > 0 && area.rows > 1)
        s2_canvas_text(canvas, area.row + 1, area.col + 1, S2_STYLE_KEY, "proving...");
    if (area.rows < 5 || facts == NULL || model->n_rows == 0 || model->design_waits)
        return;
    enum { LEFT = 28 };
    const int32_t rows = area.rows - 1, col = area.col + LEFT + 3, cols = area.cols - LEFT - 4;
    const int32_t kv = rows >= 18 ? 5 : 0;
    s2_layout_bench places = {.verdicts = {area.row + 1, area.col + 1, 3, LEFT},
                              .cost = {area.row + 4, area.col + 1, rows - 3, LEFT},
                              .kv = {area.row + 1 + rows - kv, col, kv, cols}};
    s2_layout_masks((s2_rect){area.row + 1, col, rows - kv, cols}, &places.union_mask, &places.head_mask);
    s2_panels_draw(facts, model->grids, state, canvas, &places);
    if (model->base != NULL) {
        s2_canvas_clip(canvas, area);
        s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_HEAD, "to baseline");
        s2_against_base(model, facts, canvas, (s2_rect){area.row, area.col + 14, 1, area.cols - 14});
    }
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_list places = s2_layout_list_in(body);
    s2_canvas_clip(canvas, places.list);
    draw_status(model, state, canvas, (s2_rect){places.list.row, 0, 1, places.list.cols});
    s2_canvas_clip(canvas, places.list);
    draw_head(state, canvas, (s2_rect){places.list.row + 1, 0, 1, places.list.cols});
    const int32_t shown = places.list.rows - 2;
    int32_t top = state->top;
    top = state->cursor < top            ? state->cursor
          : state->cursor >= top + shown ? state->cursor - shown + 1
                                         : top;
    for (int32_t n = 0; n < shown && top + n < model->n_rows; n++) {
        const s2_rect line = {places.list.row + 2 + n, 0, 1, places.list.cols};
        s2_canvas_clip(canvas, line);
        draw_row(state, &model->rows[top + n], canvas, line, top + n == state->cursor);
    }
    s2_canvas_clip(canvas, places.list);
    if (model->n_rows == 0)
        s2_canvas_text(canvas, places.list.row + 2, 2, S2_STYLE_DIM,
                       model->searching           ? "searching..."
                       : state->filter[0] != '\0' ? "no design matches"
                                                  : "no design is stored: 1 makes one, s there saves it");
    draw_preview(model, state, canvas, places.preview);
}

static void toggle_mark(const s2_tui_row *row, s2_tui_state *state)
{
    const int32_t mark = mark_of(state, row->id);
    if (mark >= 0)
        state->marked[mark] = state->marked[--state->n_marked];
    else if (state->n_marked < S2_TUI_COMPARE)
        state->marked[state->n_marked++] = row->id;
    else
        snprintf(state->message, sizeof state->message, "at most %d are compared", S2_TUI_COMPARE);
}

/* Near an end of what is loaded, request more; the first and last lines are those of the whole list. */
static void scroll(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (!s2_scroll(action, model->n_rows, state->rows / 2, &state->cursor))
        return;
    if (action == S2_ACT_LAST && model->more)
        state->request = S2_REQUEST_LAST;
    else if (action == S2_ACT_FIRST && model->less)
        state->request = S2_REQUEST_LIST;
    else if (model->more && state->cursor + state->rows >= model->n_rows)
        state->request = S2_REQUEST_MORE;
    else if (model->less && state->cursor < state->rows)
        state->request = S2_REQUEST_BEFORE;
}

static void order(const s2_tui_model *model, s2_tui_state *state)
{
    if (model->less)
        state->cursor = state->top = 0;
    state->request = S2_REQUEST_LIST;
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    const s2_tui_row *const row = row_at(model, state);
    scroll(model, state, action);
    switch (action) {
    case S2_ACT_MARK:
        if (row != NULL)
            toggle_mark(row, state);
        break;
    case S2_ACT_COMPARE:
        if (state->n_marked < 2) {
            snprintf(state->message, sizeof state->message, "mark two or more with space first");
            break;
        }
        s2_view_push(state, S2_VIEW_COMPARE);
        state->request = S2_REQUEST_COMPARE;
        break;
    case S2_ACT_FILTER: s2_filter_open(state); break;
    case S2_ACT_COLUMNS: s2_prompt_open(state, S2_MODE_COLUMNS, ""); break;
    case S2_ACT_SORT:
        state->sort = (state->sort + 1) % S2_TUI_SORTS;
        order(model, state);
        break;
    case S2_ACT_REVERSE:
        state->ascending = !state->ascending;
        order(model, state);
        break;
    case S2_ACT_UNDO: state->request = S2_REQUEST_UNDO; break;
    case S2_ACT_VIEW_SAVE: s2_prompt_open(state, S2_MODE_VIEW_NAME, ""); break;
    case S2_ACT_VIEWS:
        s2_prompt_open(state, S2_MODE_VIEWS, "");
        state->request = S2_REQUEST_VIEWS;
        break;
    default: s2_subject_handle(model, state, action);
    }
}

/* A click on a title sorts by its column, another click the other way round. */
static void click_head(const s2_tui_model *model, s2_tui_state *state, int32_t col)
{
    const s2_column_places c = s2_column_places_of(state, state->cols);
    const char *sort = col >= S2_NAME_AT && col < c.name_end ? "name" : NULL;
    for (int32_t at = 0; at < S2_TUI_COLUMNS; at++)
        if (col >= c.span[at].begin && col < c.span[at].end)
            sort = s2_column_sort(at);
    for (int32_t nth = 0; sort != NULL && nth < S2_TUI_SORTS; nth++) {
        if (strcmp(s2_tui_sorts[nth], sort) != 0)
            continue;
        state->ascending = state->sort == nth ? !state->ascending : state->ascending;
        state->sort = nth;
        order(model, state);
    }
}

static void click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_layout_list places = s2_layout_list_in(s2_layout_frame(state->rows, state->cols).body);
    const int32_t nth = state->top + row - places.list.row - 2;
    if (row == places.list.row + 1)
        click_head(model, state, col);
    else if (row > places.list.row + 1 && row < places.list.row + places.list.rows && nth < model->n_rows) {
        if (nth == state->cursor)
            handle(model, state, S2_ACT_OPEN);
        state->cursor = nth;
    } else if (places.preview.rows > 0 && row > places.preview.row) {
        handle(model, state, S2_ACT_OPEN);
    }
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    if (!model->stored) {
        s2_buf_puts(buf, "s2 tui --no-db --dump designs");
        return;
    }
    s2_buf_printf(buf, "s2 ls --sort %s%s", state->ascending ? "" : "-", s2_tui_sorts[state->sort]);
    if (state->filter[0] != '\0') {
        s2_buf_puts(buf, " --filter ");
        s2_buf_shell(buf, state->filter);
    }
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_designs = {draw,
                                     handle,
                                     command,
                                     {S2_ACT_OPEN, S2_ACT_FILTER, S2_ACT_SORT, S2_ACT_MARK, S2_ACT_COMPARE,
                                      S2_ACT_VALIDATE, S2_ACT_TO_BENCH, S2_ACT_VIEWS},
                                     click};
