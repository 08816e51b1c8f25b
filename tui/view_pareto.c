#include "tui/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "sim/units.h"
#include "tui/columns.h"
#include "words/holed.h"

/*
 * The front of all designs that the filter leaves, walked from one end to the other; the first objective to
 * the right, the next in which designs differ up, times and bytes logarithmic. The design of the list's cursor is
 * shown in its place.
 */
enum {
    AXIS = 11,
    NAME_COLS = 30,
    VALUE_COLS = 12,
    TABLE_FROM_COLS = 110,
    TABLE_COLS = 49,
    TABLE_WIDE = 63,
    TABLE_WIDE_FROM_COLS = 150
};

typedef struct axis {
    int32_t objective;
    double least;
    double most;
    bool linear; /* shares, and what may be 0 */
} axis;

typedef struct plot {
    s2_rect area;
    axis x;
    axis y;
} plot;

static double value_at(const s2_tui_front *front, int32_t row, int32_t objective)
{
    return front->values[row * front->n_objectives + objective];
}

static bool is_plotted(const s2_tui_front *front, const s2_tui_point *point)
{
    for (int32_t o = 0; o < front->n_objectives; o++)
        if (!(point->value[o] >= 0))
            return false;
    return true;
}

static bool has_unit(const s2_tui_objective *objective)
{
    return objective->quantity == S2_QUANTITY_TIME || objective->quantity == S2_QUANTITY_BYTES;
}

static axis axis_of(const s2_tui_front *front, int32_t objective)
{
    axis a = {objective, (double)INFINITY, 0, !has_unit(&front->objectives[objective])};
    for (int32_t nth = 0; nth < front->n_points; nth++)
        if (is_plotted(front, &front->points[nth])) {
            a.least = fmin(a.least, (double)front->points[nth].value[objective]);
            a.most = fmax(a.most, (double)front->points[nth].value[objective]);
        }
    a.linear |= a.least <= 0;
    return a;
}

/* Training keeps no cache: an objective in which all designs are alike is not an axis. */
static axis axis_up(const s2_tui_front *front)
{
    for (int32_t objective = 1; objective < front->n_objectives; objective++) {
        const axis a = axis_of(front, objective);
        if (a.most > a.least)
            return a;
    }
    return axis_of(front, 1);
}

static int32_t place(double value, axis a, int32_t cells)
{
    if (a.most <= a.least)
        return 0;
    const double share =
        a.linear ? (value - a.least) / (a.most - a.least) : log(value / a.least) / log(a.most / a.least);
    const int32_t cell = (int32_t)(share * (cells - 1) + 0.5);
    return cell < 0 ? 0 : cell >= cells ? cells - 1 : cell;
}

static int32_t col_of(const plot *p, double value)
{
    return p->area.col + place(value, p->x, p->area.cols);
}

static int32_t row_of(const plot *p, double value)
{
    return p->area.row + p->area.rows - 1 - place(value, p->y, p->area.rows);
}

static s2_figure_text value_text(const s2_tui_objective *objective, double value)
{
    s2_figure_text out = {""};
    switch (objective->quantity) {
    case S2_QUANTITY_TIME: return s2_time_text(value);
    case S2_QUANTITY_BYTES: return s2_bytes_text(value);
    case S2_QUANTITY_SHARE:
    case S2_QUANTITY_COUNT: snprintf(out.text, sizeof out.text, "%.4f", value); break;
    }
    return out;
}

/* A price is marked as what it is; a measured time is none. Of a design of the front, by its row. */
static s2_figure_text marked_text(const s2_tui_front *front, int32_t row, int32_t objective)
{
    const s2_tui_objective *const o = &front->objectives[objective];
    const char *const mark = strcmp(o->name, "us") == 0 ? s2_row_mark(&front->rows[row]) : "";
    s2_figure_text out;
    snprintf(out.text, sizeof out.text, "%s%s", mark, value_text(o, value_at(front, row, objective)).text);
    return out;
}

static bool is_holed(const s2_tui_front *front, int32_t row)
{
    return front->rows[row].unions == (int32_t)S2_VIOLATED;
}

/* ---- the plot */

static void draw_points(const s2_tui_front *front, const plot *p, s2_canvas *canvas)
{
    for (int32_t nth = 0; nth < front->n_points; nth++) {
        const s2_tui_point *const point = &front->points[nth];
        if (!is_plotted(front, point))
            continue;
        const int32_t row = row_of(p, (double)point->value[p->y.objective]),
                      col = col_of(p, (double)point->value[p->x.objective]);
        if (point->violated)
            s2_canvas_glyph(canvas, row, col, 0xd7, 'x', S2_STYLE_BAD);
        else
            s2_canvas_glyph(canvas, row, col, 0xb7, '.', S2_STYLE_DIM);
    }
}

static void draw_front(const s2_tui_front *front, const plot *p, s2_canvas *canvas)
{
    for (int32_t row = 0; row < front->n_rows; row++) {
        const int32_t y = row_of(p, value_at(front, row, p->y.objective)),
                      x = col_of(p, value_at(front, row, p->x.objective));
        if (is_holed(front, row))
            s2_canvas_glyph(canvas, y, x, 'X', 'X', S2_STYLE_HOLE);
        else
            s2_canvas_glyph(canvas, y, x, 0x25cf, 'O', S2_STYLE_GOOD);
    }
}

static double at_third(axis a, int third)
{
    if (a.linear)
        return a.least + (a.most - a.least) * third / 3.0;
    return a.most > a.least ? a.least * pow(a.most / a.least, third / 3.0) : a.least;
}

static void draw_frame(s2_rect area, s2_canvas *canvas)
{
    const int32_t below = area.row + area.rows;
    for (int32_t row = area.row; row < below; row++)
        s2_canvas_glyph(canvas, row, area.col - 1, 0x2502, '|', S2_STYLE_DIM);
    for (int32_t col = area.col; col < area.col + area.cols; col++)
        s2_canvas_glyph(canvas, below, col, 0x2500, '-', S2_STYLE_DIM);
    s2_canvas_glyph(canvas, below, area.col - 1, 0x2514, '+', S2_STYLE_DIM);
}

static bool is_blank(const s2_canvas *canvas, int32_t row, int32_t from, int32_t to)
{
    for (int32_t col = from; col < to && col < canvas->cols; col++)
        if (col >= 0 && canvas->cells[row * canvas->cols + col].glyph != ' ')
            return false;
    return true;
}

/* A value that ends at a column, where nothing is written yet. */
static void put_mark(const s2_tui_objective *objective, s2_canvas *canvas, int32_t row, int32_t right,
                     double value)
{
    const s2_figure_text figure = value_text(objective, value);
    const int32_t col = right - (int32_t)strlen(figure.text);
    if (is_blank(canvas, row, col - 1, right + 1))
        s2_canvas_text(canvas, row, col, S2_STYLE_DIM, figure.text);
}

/* The ends of both axes, and what is between them as far as there is room. */
static void draw_scales(const s2_tui_front *front, const plot *p, s2_canvas *canvas)
{
    static const int thirds[] = {0, 3, 1, 2};
    const s2_rect area = p->area;
    for (size_t nth = 0; nth < sizeof thirds / sizeof thirds[0]; nth++) {
        const double x = at_third(p->x, thirds[nth]), y = at_third(p->y, thirds[nth]);
        /* an axis of one value has one mark */
        if (nth == 0 || p->y.most > p->y.least)
            put_mark(&front->objectives[p->y.objective], canvas, row_of(p, y), area.col - 1, y);
        if (nth == 0 || p->x.most > p->x.least)
            put_mark(&front->objectives[p->x.objective], canvas, area.row + area.rows + 1,
                     nth == 0 ? area.col + 8 : col_of(p, x) + 1, x);
    }
    draw_frame(area, canvas);
}

/* What is up, what is right, what the marks mean, as far as there is room. */
static void draw_legend(const s2_tui_front *front, const plot *p, s2_canvas *canvas, s2_rect line)
{
    static const struct {
        uint32_t glyph;
        char twin;
        s2_style style;
        const char *text;
    } marks[] = {{0x25cf, 'O', S2_STYLE_GOOD, "front"},  {'X', 'X', S2_STYLE_HOLE, "front, union violated"},
                 {0xb7, '.', S2_STYLE_DIM, "beaten"},    {0xd7, 'x', S2_STYLE_BAD, "violated"},
                 {'@', '@', S2_STYLE_WITNESS, "cursor"}, {0x25c6, '&', S2_STYLE_KEY, "in the list"}};
    int32_t col =
        s2_canvas_printf(canvas, line.row, line.col + 1, S2_STYLE_HEAD, "%s up, %s right",
                         front->objectives[p->y.objective].name, front->objectives[p->x.objective].name);
    for (size_t nth = 0; nth < sizeof marks / sizeof marks[0]; nth++) {
        if (col + 4 + (int32_t)strlen(marks[nth].text) >= line.col + line.cols)
            return;
        s2_canvas_glyph(canvas, line.row, col + 2, marks[nth].glyph, marks[nth].twin, marks[nth].style);
        col = s2_canvas_text(canvas, line.row, col + 4, S2_STYLE_DIM, marks[nth].text);
    }
}

/* "front: 7 of 120 designs; prefill 128k priced=predicted gpu=h200 batch=1; filter: us<900; ..." */
static void tell_front(const s2_tui_front *front, const s2_tui_state *state, s2_buf *buf)
{
    s2_buf_printf(buf, "front: %d of %d design%s", front->n_rows, front->n_points,
                  s2_text_plural(front->n_points));
    if (front->phase[0] != '\0')
        s2_buf_printf(buf, "; %.8s %s", front->phase, s2_tok_text(front->len_tok).text);
    if (front->kind != NULL)
        s2_buf_printf(buf, " %s", front->kind);
    if (front->n_left > 0)
        s2_buf_printf(buf, "; %d price%s of other kinds left out", front->n_left,
                      s2_text_plural(front->n_left));
    if (front->searching)
        s2_buf_puts(buf, "; searching...");
    else if (state->filter[0] != '\0')
        s2_buf_printf(buf, "; filter: %s", state->filter);
}

/* As much as a third of the screen holds; returns the rows. Without a canvas they are counted. */
static int32_t draw_heading(const s2_tui_front *front, const s2_tui_state *state, s2_canvas *canvas,
                            s2_rect body)
{
    const s2_rect area = {body.row, body.col + 1, s2_max_i32(body.rows / 3, 1), body.cols - 2};
    s2_buf words = {0}, holed = {0};
    tell_front(front, state, &words);
    s2_holed_print(front->n_holed, &holed);
    if (canvas != NULL)
        s2_canvas_clip(canvas, area);
    int32_t rows =
        words.status == S2_OK ? s2_fold_draw(words.data, S2_STYLE_TEXT, canvas, area, area.row) : 0;
    if (holed.status == S2_OK && holed.len > 0)
        rows += s2_fold_draw(holed.data, S2_STYLE_BAD, canvas, area, area.row + rows);
    if (canvas != NULL)
        s2_canvas_clip(canvas, body);
    s2_buf_release(&words);
    s2_buf_release(&holed);
    return s2_min_i32(rows, area.rows);
}

/* ---- the design of the cursor, and the list's */

static int32_t put_values(const s2_tui_front *front, const plot *p, int32_t row, s2_canvas *canvas,
                          int32_t line, int32_t col)
{
    for (int32_t o = 0; o < front->n_objectives; o++) {
        col = s2_canvas_text(canvas, line, col, S2_STYLE_DIM, o > 0 ? ", " : "  ");
        col = s2_canvas_text(canvas, line, col, S2_STYLE_TEXT, marked_text(front, row, o).text);
        /* axes name theirs; a share has no unit to be known by */
        if ((o != p->x.objective && o != p->y.objective) || !has_unit(&front->objectives[o]))
            col = s2_canvas_printf(canvas, line, col, S2_STYLE_DIM, " %s", front->objectives[o].name);
    }
    return col;
}

static const char *name_of(const s2_tui_row *row)
{
    return row->name[0] != '\0' ? row->name : row->hash;
}

static void draw_chosen(const s2_tui_model *model, const s2_tui_state *state, const plot *p,
                        s2_canvas *canvas, int32_t line)
{
    const s2_tui_front *const front = &model->front;
    if (state->front >= front->n_rows)
        return;
    const char *const name = name_of(&front->rows[state->front]);
    int32_t col = s2_canvas_printf(canvas, line, 1, S2_STYLE_HEAD, "@ %d/%d  %.*s", state->front + 1,
                                   front->n_rows, (int)s2_text_fit(name, NAME_COLS, NULL), name);
    col = put_values(front, p, state->front, canvas, line, col);
    if (is_holed(front, state->front))
        s2_canvas_text(canvas, line, col, S2_STYLE_BAD, ", union violated");
    if (p->area.rows > 0 && p->area.cols > 0)
        s2_canvas_glyph(canvas, row_of(p, value_at(front, state->front, p->y.objective)),
                        col_of(p, value_at(front, state->front, p->x.objective)), '@', '@', S2_STYLE_WITNESS);
}

static const s2_tui_point *point_of(const s2_tui_front *front, int64_t id)
{
    for (int32_t nth = 0; nth < front->n_points; nth++)
        if (front->points[nth].id == id)
            return &front->points[nth];
    return NULL;
}

static bool is_on_front(const s2_tui_front *front, int64_t id)
{
    for (int32_t row = 0; row < front->n_rows; row++)
        if (front->rows[row].id == id)
            return true;
    return false;
}

/* How many of the front are nowhere worse and somewhere better. */
static int32_t n_better(const s2_tui_front *front, const s2_tui_point *point)
{
    int32_t n = 0;
    for (int32_t row = 0; row < front->n_rows; row++) {
        bool worse = false, better = false;
        for (int32_t o = 0; o < front->n_objectives; o++) {
            worse = worse || (float)value_at(front, row, o) > point->value[o];
            better = better || (float)value_at(front, row, o) < point->value[o];
        }
        n += better && !worse;
    }
    return n;
}

static void draw_listed(const s2_tui_model *model, const s2_tui_state *state, const plot *p,
                        s2_canvas *canvas, int32_t line)
{
    const s2_tui_front *const front = &model->front;
    if (state->cursor >= model->n_rows)
        return;
    const s2_tui_row *const row = &model->rows[state->cursor];
    const s2_tui_point *const point = point_of(front, row->id);
    const char *const name = name_of(row);
    const int32_t col =
        s2_canvas_printf(canvas, line, 1, S2_STYLE_DIM,
                         "  in the list: %.*s: ", (int)s2_text_fit(name, NAME_COLS, NULL), name);
    s2_canvas_glyph(canvas, line, 1, 0x25c6, '&', S2_STYLE_KEY);
    if (point == NULL || !is_plotted(front, point)) {
        s2_canvas_text(canvas, line, col, S2_STYLE_DIM, "no comparable values at this phase and length");
        return;
    }
    if (p->area.rows > 0 && p->area.cols > 0)
        s2_canvas_glyph(canvas, row_of(p, (double)point->value[p->y.objective]),
                        col_of(p, (double)point->value[p->x.objective]), 0x25c6, '&', S2_STYLE_KEY);
    const int32_t better = n_better(front, point);
    const int32_t end = is_on_front(front, row->id)
                            ? s2_canvas_text(canvas, line, col, S2_STYLE_GOOD, "on the front")
                            : s2_canvas_printf(canvas, line, col, S2_STYLE_TEXT, "%d of the front beat%s it",
                                               better, better == 1 ? "s" : "");
    if (point->violated)
        s2_canvas_text(canvas, line, end, S2_STYLE_BAD, ", union violated");
}

/* The front as a table beside the plot. */
static void draw_table(const s2_tui_front *front, const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    const int32_t shown = area.rows - 1;
    const int32_t top = shown > 0 && state->front >= shown ? state->front - shown + 1 : 0;
    const int32_t name_cols = area.cols - 1 - VALUE_COLS * s2_min_i32(front->n_objectives, 3);
    s2_canvas_clip(canvas, area);
    s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_HEAD, "on the front");
    for (int32_t o = 0; o < front->n_objectives && o < 3; o++) {
        const char *const name = front->objectives[o].name;
        s2_canvas_text(canvas, area.row, area.col + name_cols + VALUE_COLS * (o + 1) - (int32_t)strlen(name),
                       S2_STYLE_HEAD, name);
    }
    for (int32_t n = 0; n < shown && top + n < front->n_rows; n++) {
        const s2_rect line = {area.row + 1 + n, area.col, 1, area.cols};
        s2_canvas_clip(canvas, (s2_rect){line.row, line.col, 1, name_cols});
        if (is_holed(front, top + n))
            s2_canvas_glyph(canvas, line.row, line.col, 'X', 'X', S2_STYLE_HOLE);
        s2_canvas_text(canvas, line.row, line.col + 1, S2_STYLE_TEXT, name_of(&front->rows[top + n]));
        s2_canvas_clip(canvas, line);
        for (int32_t o = 0; o < front->n_objectives && o < 3; o++) {
            const s2_figure_text figure = marked_text(front, top + n, o);
            const int32_t right = line.col + name_cols + VALUE_COLS * (o + 1);
            s2_canvas_text(canvas, line.row, right - (int32_t)strlen(figure.text), S2_STYLE_TEXT,
                           figure.text);
        }
        if (top + n == state->front)
            s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
    }
}

static void draw_empty(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_tui_front *const front = &model->front;
    if (front->error != NULL)
        s2_canvas_printf(canvas, body.row, 1, S2_STYLE_BAD, "%s", front->error);
    else
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM,
                       front->searching ? "searching..."
                       : state->filter[0] != '\0'
                           ? "no design that the filter leaves has a value for each: m prices"
                           : "no design has a value for each: m prices, v times");
}

static int32_t table_cols(s2_rect body)
{
    return body.cols >= TABLE_WIDE_FROM_COLS ? TABLE_WIDE : body.cols >= TABLE_FROM_COLS ? TABLE_COLS : 0;
}

/* `body` is what the heading leaves: a legend, the plot with its marks below, and two lines about designs. */
static plot plot_of(const s2_tui_front *front, s2_rect body)
{
    return (plot){{body.row + 1, body.col + AXIS, body.rows - 5, body.cols - AXIS - 1 - table_cols(body)},
                  axis_of(front, 0),
                  axis_up(front)};
}

static s2_rect below_heading(s2_rect body, int32_t rows)
{
    return (s2_rect){body.row + rows, body.col, body.rows - rows, body.cols};
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_tui_front *const front = &model->front;
    const int32_t table = table_cols(body);
    s2_canvas_clip(canvas, body);
    if (front->n_points == 0) {
        draw_empty(model, state, canvas, body);
        return;
    }
    body = below_heading(body, draw_heading(front, state, canvas, body));
    const plot p = plot_of(front, body);
    draw_legend(front, &p, canvas, (s2_rect){body.row, body.col, 1, body.cols - table});
    if (p.area.rows > 0 && p.area.cols > 0 && p.x.most >= p.x.least) {
        draw_scales(front, &p, canvas);
        draw_points(front, &p, canvas);
        draw_front(front, &p, canvas);
    }
    draw_listed(model, state, &p, canvas, body.row + body.rows - 1);
    draw_chosen(model, state, &p, canvas, body.row + body.rows - 2);
    if (table > 0)
        draw_table(front, state, canvas,
                   (s2_rect){body.row, body.col + body.cols - table, body.rows - 2, table});
}

/* The list of what is in no objective worse than the design of the cursor, of those that the filter leaves. */
static void brush(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_tui_front *const front = &model->front;
    s2_buf filter = {0};
    if (state->front >= front->n_rows)
        return;
    s2_buf_puts(&filter, state->filter);
    if (front->phase[0] != '\0')
        s2_buf_printf(&filter, "%sphase=%s len=%lld", filter.len > 0 ? " " : "", front->phase,
                      (long long)front->len_tok);
    if (front->kind != NULL)
        s2_buf_printf(&filter, "%s%s", filter.len > 0 ? " " : "", front->kind);
    for (int32_t o = 0; o < front->n_objectives; o++)
        s2_buf_printf(&filter, "%s%s<=%s", filter.len > 0 ? " " : "", front->objectives[o].name,
                      s2_decimal(value_at(front, state->front, o), 17).text);
    if (filter.status == S2_OK && filter.len < sizeof state->filter) {
        s2_filter_list(state, filter.data);
    } else {
        snprintf(state->message, sizeof state->message, "the filter would be too long");
    }
    s2_buf_release(&filter);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (s2_scroll(action, model->front.n_rows, state->rows / 2, &state->front))
        return;
    if (action == S2_ACT_BRUSH)
        brush(model, state);
    else if (action == S2_ACT_MINIMIZE)
        s2_prompt_open(state, S2_MODE_MINIMIZE, state->minimize);
    else
        s2_subject_handle(model, state, action);
}

/* The design at a place of the screen: in the table's row there, or by the nearest mark of the plot; -1: none. */
static int32_t row_at(const s2_tui_front *front, const s2_tui_state *state, s2_rect body, int32_t row,
                      int32_t col)
{
    const plot p = plot_of(front, body);
    const int32_t shown = body.rows - 3;
    const int32_t top = shown > 0 && state->front >= shown ? state->front - shown + 1 : 0;
    int32_t nearest = -1, least = INT32_MAX;
    if (table_cols(body) > 0 && col >= body.col + body.cols - table_cols(body)) {
        const int32_t nth = top + row - body.row - 1;
        return row > body.row && nth < front->n_rows ? nth : -1;
    }
    for (int32_t nth = 0; s2_rect_holds(p.area, row, col) && nth < front->n_rows; nth++) {
        const int32_t by_row = row_of(&p, value_at(front, nth, p.y.objective)) - row;
        const int32_t by_col = col_of(&p, value_at(front, nth, p.x.objective)) - col;
        /* a cell is about twice as high as it is wide */
        const int32_t far = 4 * by_row * by_row + by_col * by_col;
        if (far < least) {
            least = far;
            nearest = nth;
        }
    }
    return nearest;
}

static void click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_rect all = s2_layout_frame(state->rows, state->cols).body;
    if (model->front.n_points == 0)
        return;
    const s2_rect body = below_heading(all, draw_heading(&model->front, state, NULL, all));
    const int32_t nth = row_at(&model->front, state, body, row, col);
    if (nth < 0)
        return;
    if (nth == state->front)
        handle(model, state, S2_ACT_OPEN);
    state->front = nth;
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_tui_front *const front = &model->front;
    if (!model->stored) {
        s2_buf_puts(buf, "s2 tui --no-db --dump pareto");
        return;
    }
    s2_buf_puts(buf, "s2 pareto --minimize ");
    s2_buf_shell(buf, state->minimize);
    if (front->phase != NULL && front->phase[0] != '\0') {
        s2_buf_puts(buf, " --phase ");
        s2_buf_shell(buf, front->phase);
        s2_buf_printf(buf, " --len %lld", (long long)front->len_tok);
    }
    if (state->filter[0] != '\0') {
        s2_buf_puts(buf, " --filter ");
        s2_buf_shell(buf, state->filter);
    }
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_pareto = {
    draw,
    handle,
    command,
    {S2_ACT_OPEN, S2_ACT_MINIMIZE, S2_ACT_BRUSH, S2_ACT_TO_BENCH, S2_ACT_VALIDATE, S2_ACT_EXPORT},
    click};
