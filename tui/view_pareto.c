#include "tui/view.h"

#include <math.h>
#include <string.h>

#include "sim/report.h"

/* Time against cache, both logarithmic; of the designs that were loaded into the list. */
typedef struct axes {
    double us_least;
    double us_most;
    double kv_least;
    double kv_most;
    int32_t n; /* designs with both */
} axes;

/* Every design is compared with every other: more would cost more than a frame. */
enum { MOST = 1000 };

static int32_t n_shown(const s2_tui_model *model)
{
    return model->n_rows < MOST ? model->n_rows : MOST;
}

static bool has_numbers(const s2_tui_row *row)
{
    return row->sim_us > 0 && row->kv_bytes > 0;
}

/* The phase and length that are shown: those of the cursor's design, else of the first that has numbers. */
static const s2_tui_row *standard(const s2_tui_model *model, int32_t cursor)
{
    if (cursor < n_shown(model) && has_numbers(&model->rows[cursor]))
        return &model->rows[cursor];
    for (int32_t at = 0; at < n_shown(model); at++)
        if (has_numbers(&model->rows[at]))
            return &model->rows[at];
    return NULL;
}

/* Only designs that were priced for the same question are rivals. */
static bool is_rival(const s2_tui_row *row, const s2_tui_row *of)
{
    return has_numbers(row) && row->len_tok == of->len_tok && strcmp(row->phase, of->phase) == 0;
}

static axes axes_of(const s2_tui_model *model, const s2_tui_row *of)
{
    axes a = {(double)INFINITY, 0, (double)INFINITY, 0, 0};
    for (int32_t at = 0; at < n_shown(model); at++) {
        const s2_tui_row *const row = &model->rows[at];
        if (of == NULL || !is_rival(row, of))
            continue;
        a.us_least = fmin(a.us_least, row->sim_us);
        a.us_most = fmax(a.us_most, row->sim_us);
        a.kv_least = fmin(a.kv_least, row->kv_bytes);
        a.kv_most = fmax(a.kv_most, row->kv_bytes);
        a.n++;
    }
    return a;
}

static int32_t place(double value, double least, double most, int32_t cells)
{
    if (most <= least)
        return 0;
    const int32_t at = (int32_t)(log(value / least) / log(most / least) * (cells - 1) + 0.5);
    return at < 0 ? 0 : at >= cells ? cells - 1 : at;
}

/* No design whose union holds is at least as good in both and better in one. */
static bool is_front(const s2_tui_model *model, const s2_tui_row *row)
{
    if (row->unions != (int32_t)S2_HOLDS)
        return false;
    for (int32_t at = 0; at < n_shown(model); at++) {
        const s2_tui_row *const other = &model->rows[at];
        if (other->unions == (int32_t)S2_HOLDS && is_rival(other, row) && other->sim_us <= row->sim_us &&
            other->kv_bytes <= row->kv_bytes &&
            (other->sim_us < row->sim_us || other->kv_bytes < row->kv_bytes))
            return false;
    }
    return true;
}

static void draw_point(const s2_tui_model *model, const s2_tui_row *row, const axes *a, bool fronts,
                       s2_canvas *canvas, s2_rect plot)
{
    const int32_t x = plot.col + place(row->sim_us, a->us_least, a->us_most, plot.cols);
    const int32_t y = plot.row + plot.rows - 1 - place(row->kv_bytes, a->kv_least, a->kv_most, plot.rows);
    const bool front = is_front(model, row);
    if (front && fronts)
        s2_canvas_glyph(canvas, y, x, 0x25cf, 'O', S2_STYLE_GOOD);
    else if (!front && !fronts && row->unions == (int32_t)S2_VIOLATED)
        s2_canvas_glyph(canvas, y, x, 0xd7, 'x', S2_STYLE_BAD);
    else if (!front && !fronts)
        s2_canvas_glyph(canvas, y, x, 0xb7, '.', S2_STYLE_DIM);
}

static int32_t put_value(s2_canvas *canvas, int32_t row, int32_t col, double value,
                         void (*print)(double, s2_buf *))
{
    s2_buf buf = {0};
    print(value, &buf);
    col = s2_canvas_text(canvas, row, col, S2_STYLE_TEXT, buf.data);
    s2_buf_release(&buf);
    return col;
}

/* What the marks mean, as far as there is room. */
static void draw_legend(const s2_tui_row *of, s2_canvas *canvas, s2_rect body)
{
    static const struct {
        uint32_t glyph;
        char twin;
        s2_style style;
        const char *text;
    } marks[] = {{0x25cf, 'O', S2_STYLE_GOOD, "front"},
                 {0xb7, '.', S2_STYLE_DIM, "beaten"},
                 {0xd7, 'x', S2_STYLE_BAD, "union violated"},
                 {'@', '@', S2_STYLE_WITNESS, "cursor"}};
    s2_buf len = {0};
    s2_tok_print(of->len_tok, &len);
    int32_t col =
        s2_canvas_printf(canvas, body.row, body.col + 1, S2_STYLE_HEAD, "KV cache up, time right: %.8s %s",
                         of->phase, len.data != NULL ? len.data : "");
    s2_buf_release(&len);
    for (size_t at = 0; at < sizeof marks / sizeof marks[0]; at++) {
        if (col + 4 + (int32_t)strlen(marks[at].text) >= body.cols)
            return;
        s2_canvas_glyph(canvas, body.row, col + 2, marks[at].glyph, marks[at].twin, marks[at].style);
        col = s2_canvas_text(canvas, body.row, col + 4, S2_STYLE_DIM, marks[at].text);
    }
}

/* Both ends of a logarithmic axis and what lies at its thirds. */
static double at_third(double least, double most, int third)
{
    return most > least ? least * pow(most / least, third / 3.0) : least;
}

static int32_t put_value_right(s2_canvas *canvas, int32_t row, int32_t right, double value,
                               void (*print)(double, s2_buf *))
{
    s2_buf buf = {0};
    print(value, &buf);
    const int32_t col = right - (int32_t)buf.len;
    s2_canvas_text(canvas, row, col, S2_STYLE_DIM, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
    return col;
}

static void draw_scales(const axes *a, s2_canvas *canvas, s2_rect plot)
{
    for (int32_t row = plot.row; row < plot.row + plot.rows; row++)
        s2_canvas_glyph(canvas, row, plot.col - 1, 0x2502, '|', S2_STYLE_DIM);
    for (int32_t col = plot.col; col < plot.col + plot.cols; col++)
        s2_canvas_glyph(canvas, plot.row + plot.rows, col, 0x2500, '-', S2_STYLE_DIM);
    s2_canvas_glyph(canvas, plot.row + plot.rows, plot.col - 1, 0x2514, '+', S2_STYLE_DIM);
    for (int third = 0; third <= 3; third++) {
        const double kv = at_third(a->kv_least, a->kv_most, third),
                     us = at_third(a->us_least, a->us_most, third);
        const int32_t row = plot.row + plot.rows - 1 - place(kv, a->kv_least, a->kv_most, plot.rows);
        const int32_t col = plot.col + place(us, a->us_least, a->us_most, plot.cols);
        put_value_right(canvas, row, plot.col - 1, kv, s2_bytes_print);
        put_value_right(canvas, plot.row + plot.rows + 1, third == 0 ? col + 8 : col + 1, us, s2_time_print);
    }
}

/* The design of the list's cursor in words, under the plot. */
static void draw_chosen(const s2_tui_model *model, const s2_tui_state *state, const axes *a,
                        s2_canvas *canvas, s2_rect plot, int32_t line)
{
    if (state->cursor >= n_shown(model))
        return;
    const s2_tui_row *const row = &model->rows[state->cursor];
    int32_t col = s2_canvas_printf(canvas, line, 1, S2_STYLE_HEAD, "%.30s  ",
                                   row->name[0] != '\0' ? row->name : row->hash);
    if (!has_numbers(row)) {
        s2_canvas_text(canvas, line, col, S2_STYLE_DIM, "not priced");
        return;
    }
    col = put_value(canvas, line, col, row->sim_us, s2_time_print);
    col = s2_canvas_text(canvas, line, col, S2_STYLE_DIM, ", ");
    put_value(canvas, line, col, row->kv_bytes, s2_bytes_print);
    const int32_t x = plot.col + place(row->sim_us, a->us_least, a->us_most, plot.cols);
    const int32_t y = plot.row + plot.rows - 1 - place(row->kv_bytes, a->kv_least, a->kv_most, plot.rows);
    s2_canvas_glyph(canvas, y, x, '@', '@', S2_STYLE_WITNESS);
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_tui_row *const of = standard(model, state->cursor);
    const axes a = axes_of(model, of);
    s2_canvas_clip(canvas, body);
    if (a.n == 0) {
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "no design is priced: s2 sim does");
        return;
    }
    enum { AXIS = 11 };
    const s2_rect plot = {body.row + 1, body.col + AXIS, body.rows - 4, body.cols - AXIS - 1};
    draw_legend(of, canvas, body);
    if (plot.rows > 0 && plot.cols > 0)
        draw_scales(&a, canvas, plot);
    for (int fronts = 0; fronts < 2 && plot.rows > 0 && plot.cols > 0; fronts++)
        for (int32_t at = 0; at < n_shown(model); at++)
            if (is_rival(&model->rows[at], of))
                draw_point(model, &model->rows[at], &a, fronts == 1, canvas, plot);
    draw_chosen(model, state, &a, canvas, plot, body.row + body.rows - 1);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (!s2_scroll(action, n_shown(model), state->rows / 2, &state->cursor))
        s2_subject_handle(model, state, action);
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_tui_row *const of = standard(model, state->cursor);
    if (!model->stored) {
        s2_buf_puts(buf, "s2 tui --no-db --dump pareto");
        return;
    }
    s2_buf_puts(buf, "s2 pareto union=holds --minimize us,kv_mib");
    if (of != NULL && of->phase[0] != '\0') {
        s2_buf_puts(buf, " --phase ");
        s2_buf_shell(buf, of->phase);
        s2_buf_printf(buf, " --len %lld", (long long)of->len_tok);
    }
    if (state->filter[0] != '\0') {
        s2_buf_puts(buf, " --filter ");
        s2_buf_shell(buf, state->filter);
    }
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_pareto = {"pareto", "time against cache of the designs in the list", draw, handle,
                                    command};
