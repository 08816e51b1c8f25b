#include "tui/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static void put_number(s2_canvas *canvas, int32_t row, int32_t right, double value,
                       void (*print)(double, s2_buf *))
{
    s2_buf buf = {0};
    if (isnan(value))
        s2_buf_puts(&buf, "-");
    else
        print(value, &buf);
    const int32_t len = (int32_t)buf.len;
    s2_canvas_text(canvas, row, right - len, S2_STYLE_TEXT, buf.data);
    s2_buf_release(&buf);
}

static void print_density(double value, s2_buf *buf)
{
    s2_buf_printf(buf, "%.4f", value);
}

/* Right edges of the columns after the name; 0: no room. */
typedef struct columns {
    int32_t name;
    int32_t heads;
    int32_t density;
    int32_t us;
    int32_t kv;
    int32_t gpu;
    int32_t at;
    int32_t tags;
} columns;

static columns columns_of(int32_t cols)
{
    columns c = {.name = 8};
    if (cols >= 40)
        c.density = cols >= 60 ? 44 : cols - 1;
    if (cols >= 60) {
        c.heads = 36;
        c.us = 56;
    }
    if (cols >= 78)
        c.kv = 67;
    if (cols >= 78)
        c.gpu = 78;
    if (cols >= 100) {
        c.at = 80;
        c.tags = 94;
    }
    return c;
}

static void put_head(s2_canvas *canvas, int32_t row, int32_t right, const char *text)
{
    int32_t n = 0;
    while (text[n] != '\0')
        n++;
    if (right > 0)
        s2_canvas_text(canvas, row, right - n, S2_STYLE_HEAD, text);
}

/* On the side of its column that has room, by the column that the list is ordered by. */
static void draw_sort(const s2_tui_state *state, const columns *c, s2_canvas *canvas, int32_t row)
{
    const struct {
        const char *sort;
        int32_t col;
    } marks[] = {{"name", c->name + 4},
                 {"density", c->density - 8},
                 {"us", c->us - 5},
                 {"kv_mib", c->kv - 3},
                 {"gpu_us", c->gpu - 9}};
    for (size_t at = 0; at < sizeof marks / sizeof marks[0]; at++)
        if (strcmp(marks[at].sort, s2_tui_sorts[state->sort]) == 0 && marks[at].col > 0)
            s2_canvas_glyph(canvas, row, marks[at].col, state->ascending ? 0x25b4 : 0x25be,
                            state->ascending ? '^' : 'v', S2_STYLE_KEY);
}

static void draw_head(const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    const columns c = columns_of(area.cols);
    draw_sort(state, &c, canvas, area.row);
    s2_canvas_text(canvas, area.row, 2, S2_STYLE_HEAD, "ruk");
    s2_canvas_text(canvas, area.row, c.name, S2_STYLE_HEAD, "name");
    put_head(canvas, area.row, c.heads, "heads");
    put_head(canvas, area.row, c.density, "density");
    put_head(canvas, area.row, c.us, "time");
    put_head(canvas, area.row, c.kv, "kv");
    put_head(canvas, area.row, c.gpu, "measured");
    if (c.at > 0)
        s2_canvas_text(canvas, area.row, c.at, S2_STYLE_HEAD, "at");
    if (c.tags > 0)
        s2_canvas_text(canvas, area.row, c.tags, S2_STYLE_HEAD, "tags");
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

/* Times of different phases and lengths are not rivals: "prefill 128k". */
static void put_at(s2_canvas *canvas, int32_t y, int32_t col, const s2_tui_row *row)
{
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%.8s ", row->phase);
    s2_tok_print(row->len_tok, &buf);
    s2_canvas_text(canvas, y, col, S2_STYLE_DIM, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
}

static void draw_row(const s2_tui_state *state, const s2_tui_row *row, s2_canvas *canvas, s2_rect line,
                     bool here)
{
    const columns c = columns_of(line.cols);
    const int32_t name_end = c.heads > 0 ? c.heads - 7 : c.density > 0 ? c.density - 8 : line.cols;
    draw_marks(state, row, canvas, line.row);
    s2_canvas_clip(canvas, (s2_rect){line.row, c.name, 1, name_end - c.name});
    s2_canvas_text(canvas, line.row, c.name, S2_STYLE_TEXT, row->name[0] != '\0' ? row->name : row->hash);
    s2_canvas_clip(canvas, line);
    if (c.heads > 0) {
        char text[48];
        const int n =
            snprintf(text, sizeof text, "%lld/%lld", (long long)row->n_heads, (long long)row->n_kv_heads);
        s2_canvas_text(canvas, line.row, c.heads - n, S2_STYLE_TEXT, text);
    }
    if (c.density > 0)
        put_number(canvas, line.row, c.density, row->density, print_density);
    if (c.us > 0)
        put_number(canvas, line.row, c.us, row->sim_us, s2_time_print);
    if (c.kv > 0)
        put_number(canvas, line.row, c.kv, row->kv_bytes, s2_bytes_print);
    if (c.gpu > 0)
        put_number(canvas, line.row, c.gpu, row->gpu_us, s2_time_print);
    if (c.at > 0 && row->phase[0] != '\0')
        put_at(canvas, line.row, c.at, row);
    if (c.tags > 0)
        s2_canvas_text(canvas, line.row, c.tags, S2_STYLE_DIM, row->tags);
    if (here) {
        s2_canvas_glyph(canvas, line.row, 0, 0x25b8, '>', S2_STYLE_HEAD);
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
    }
}

static void draw_status(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const int64_t n = model->n_all >= 0 ? model->n_all : model->n_rows;
    const int64_t at = model->less ? n - model->n_rows + state->cursor + 1 : state->cursor + 1;
    s2_canvas_clip(canvas, line);
    int32_t col = 1;
    if (model->n_rows > 0 && (!model->less || model->n_all >= 0))
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "%lld of ", (long long)at);
    col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_DIM, "%lld%s design%s, by %s %s", (long long)n,
                           model->n_all < 0 ? "+" : "", n == 1 ? "" : "s", s2_tui_sorts[state->sort],
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
    s2_canvas_clip(canvas, area);
    if (model->design_waits && area.rows > 1)
        s2_canvas_text(canvas, area.row + 1, area.col + 1, S2_STYLE_KEY, "proving...");
    if (area.rows < 5 || model->design == NULL || model->n_rows == 0 || model->design_waits)
        return;
    enum { LEFT = 28 };
    const int32_t rows = area.rows - 1, col = area.col + LEFT + 3, cols = area.cols - LEFT - 4;
    const int32_t kv = rows >= 18 ? 5 : 0;
    s2_layout_bench at = {.verdicts = {area.row + 1, area.col + 1, 3, LEFT},
                          .cost = {area.row + 5, area.col + 1, rows - 4, LEFT},
                          .kv = {area.row + 1 + rows - kv, col, kv, cols}};
    s2_layout_masks((s2_rect){area.row + 1, col, rows - kv, cols}, &at.union_mask, &at.head_mask);
    s2_buf len = {0};
    s2_tok_print(model->design->question.len_tok, &len);
    s2_canvas_printf(canvas, area.row + 4, area.col + 1, S2_STYLE_DIM, "%s of %s tokens",
                     model->design->question.decode ? "decode" : "prefill", len.data);
    s2_buf_release(&len);
    s2_panels_draw(model->design, model->grids, state, canvas, &at);
    if (model->base != NULL) {
        s2_canvas_clip(canvas, area);
        s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_HEAD, "to baseline");
        s2_against_base(model, model->design, canvas, (s2_rect){area.row, area.col + 14, 1, area.cols - 14});
    }
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_list at = s2_layout_list_in(body);
    s2_canvas_clip(canvas, at.list);
    draw_status(model, state, canvas, (s2_rect){at.list.row, 0, 1, at.list.cols});
    s2_canvas_clip(canvas, at.list);
    draw_head(state, canvas, (s2_rect){at.list.row + 1, 0, 1, at.list.cols});
    const int32_t shown = at.list.rows - 2;
    int32_t top = state->top;
    top = state->cursor < top            ? state->cursor
          : state->cursor >= top + shown ? state->cursor - shown + 1
                                         : top;
    for (int32_t n = 0; n < shown && top + n < model->n_rows; n++) {
        const s2_rect line = {at.list.row + 2 + n, 0, 1, at.list.cols};
        s2_canvas_clip(canvas, line);
        draw_row(state, &model->rows[top + n], canvas, line, top + n == state->cursor);
    }
    if (model->n_rows == 0)
        s2_canvas_text(canvas, at.list.row + 2, 2, S2_STYLE_DIM,
                       model->searching           ? "searching..."
                       : state->filter[0] != '\0' ? "no design matches"
                                                  : "no design is stored: 1 makes one, s there saves it");
    draw_preview(model, state, canvas, at.preview);
}

static void toggle_mark(const s2_tui_row *row, s2_tui_state *state)
{
    const int32_t at = mark_of(state, row->id);
    if (at >= 0)
        state->marked[at] = state->marked[--state->n_marked];
    else if (state->n_marked < S2_TUI_COMPARE)
        state->marked[state->n_marked++] = row->id;
    else
        snprintf(state->message, sizeof state->message, "at most %d are compared", S2_TUI_COMPARE);
}

/* Near an end of what is loaded the rest is asked for; the ends themselves are those of the whole list. */
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
                                      S2_ACT_VALIDATE, S2_ACT_TO_BENCH, S2_ACT_VIEWS}};
