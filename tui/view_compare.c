#include "tui/view.h"

#include <string.h>

#include "base/arith.h"
#include "sim/units.h"

enum { LABEL = 12, COLUMN = 15, WIDEST = 40, CELL_BYTES = 48 };

/* What a line says of one design, and how. */
typedef struct cell {
    char text[CELL_BYTES];
    s2_style style;
} cell;
typedef void (*cell_fn)(const s2_facts *facts, s2_buf *buf, s2_style *style);

static void put_verdict(const s2_facts *facts, int at, s2_buf *buf, s2_style *style)
{
    const s2_verdict verdict = facts->findings[at].verdict;
    const char mark = s2_verdict_mark((int32_t)verdict, style);
    s2_buf_printf(buf, "%c %s", mark, s2_verdict_word(verdict));
}

static void put_rows(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    put_verdict(facts, 0, buf, style);
}

static void put_union(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    put_verdict(facts, 1, buf, style);
}

static void put_kv(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    put_verdict(facts, 2, buf, style);
}

static void put_complete(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    const s2_finding *const complete = &facts->findings[1];
    if (complete->verdict == S2_VIOLATED && complete->complete_to_tok != S2_COMPLETE_UNKNOWN)
        s2_buf_printf(buf, "%lld", (long long)complete->complete_to_tok);
    else
        s2_buf_puts(buf, "-");
}

static void put_shape(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    s2_buf_printf(buf, "%dx%d/%d b%d", facts->pattern.n_layers, facts->pattern.n_heads,
                  facts->pattern.n_kv_heads, facts->pattern.block_tok);
}

static void put_density(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_buf_printf(buf, "%.5f", facts->density);
}

static void put_time(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_time_print(facts->time_us, buf);
    else
        s2_buf_puts(buf, "-");
}

static void put_speed(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_buf_printf(buf, "%.2fx", facts->dense_us / facts->time_us);
}

static void put_bound_by(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_buf_puts(buf, s2_resource_word(facts->bound_by));
}

static void put_cache(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->cached)
        s2_bytes_print((double)facts->kv_bytes[S2_KV_POINTS - 1], buf);
}

static void put_share(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->cached)
        s2_buf_printf(buf, "%.1f%%",
                      100.0 * (double)facts->kv_bytes[S2_KV_POINTS - 1] /
                          (double)facts->kv_dense[S2_KV_POINTS - 1]);
}

static const struct {
    const char *label;
    cell_fn put;
} LINES[] = {{"union", put_union},     {"complete to", put_complete}, {"kv", put_kv},
             {"rows", put_rows},       {"time >=", put_time},         {"vs dense", put_speed},
             {"by", put_bound_by},     {"kv cache", put_cache},       {"of dense", put_share},
             {"density", put_density}, {"shape", put_shape}};
enum { N_LINES = sizeof LINES / sizeof LINES[0] };

static cell cell_of(const s2_facts *facts, int32_t line)
{
    cell out = {.style = S2_STYLE_TEXT};
    s2_buf buf = {0};
    if (facts != NULL && facts->status == S2_OK)
        LINES[line].put(facts, &buf, &out.style);
    s2_text_clean(out.text, sizeof out.text, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
    return out;
}

static bool differs(const s2_tui_model *model, int32_t line)
{
    for (int32_t at = 1; at < model->n_compare; at++) {
        const cell first = cell_of(model->compare[0], line), other = cell_of(model->compare[at], line);
        if (strcmp(first.text, other.text) != 0)
            return true;
    }
    return false;
}

/* Lines in which the designs differ come first; returns how many do. */
static int32_t order_lines(const s2_tui_model *model, int32_t order[N_LINES])
{
    int32_t n = 0, n_differ = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t line = 0; line < N_LINES; line++)
            if (differs(model, line) == (pass == 0)) {
                order[n++] = line;
                n_differ += pass == 0;
            }
    return n_differ;
}

/* The text, its words that the first design has otherwise marked (of the first: those of any), and the union. */
static void draw_below(const s2_tui_model *model, int32_t at, s2_canvas *canvas, s2_rect area)
{
    enum { LEAST_MASK = 5 };
    const int32_t n_others = at == 0 ? model->n_compare - 1 : 1;
    const int32_t taken = s2_texts_draw(model->compare[at], at == 0 ? &model->compare[1] : model->compare,
                                        n_others, canvas, area);
    const s2_rect rest = {area.row + taken, area.col, area.rows - taken, area.cols};
    if (rest.rows >= LEAST_MASK)
        s2_panels_union(model->compare[at], model->grids, canvas, rest);
}

static void draw_column(const s2_tui_model *model, int32_t at, const int32_t order[N_LINES],
                        s2_canvas *canvas, s2_rect column)
{
    const s2_facts *const facts = model->compare[at];
    s2_canvas_clip(canvas, column);
    s2_canvas_text(canvas, column.row, column.col, S2_STYLE_HEAD, model->compare_name[at]);
    if (facts == NULL || facts->status != S2_OK) {
        s2_canvas_text(canvas, column.row + 1, column.col, S2_STYLE_BAD,
                       facts == NULL ? "proving..." : "refused");
        return;
    }
    for (int32_t line = 0; line < N_LINES; line++) {
        const cell c = cell_of(facts, order[line]);
        s2_canvas_text(canvas, column.row + 1 + line, column.col, c.style, c.text);
    }
    s2_against_base(model, facts, canvas, (s2_rect){column.row + 1 + N_LINES, column.col, 1, column.cols});
    draw_below(model, at, canvas,
               (s2_rect){column.row + N_LINES + 2, column.col, column.rows - N_LINES - 2, column.cols});
}

static void draw_labels(const int32_t order[N_LINES], int32_t n_differ, bool pinned, s2_canvas *canvas,
                        s2_rect body)
{
    for (int32_t line = 0; line < N_LINES; line++)
        s2_canvas_text(canvas, body.row + 1 + line, 0, line < n_differ ? S2_STYLE_HEAD : S2_STYLE_DIM,
                       LINES[order[line]].label);
    if (pinned)
        s2_canvas_text(canvas, body.row + 1 + N_LINES, 0, S2_STYLE_HEAD, "to baseline");
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    int32_t order[N_LINES];
    s2_canvas_clip(canvas, body);
    if (model->n_compare == 0) {
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "mark designs with space, then c");
        return;
    }
    const int32_t room = (body.cols - LABEL) / model->n_compare;
    const int32_t width = room < COLUMN ? COLUMN : room > WIDEST ? WIDEST : room;
    const int32_t fit = (body.cols - LABEL) / width > 0 ? (body.cols - LABEL) / width : 1;
    int32_t first = state->scroll;
    first = first > model->n_compare - fit ? model->n_compare - fit : first;
    first = first < 0 ? 0 : first;
    draw_labels(order, order_lines(model, order), model->base != NULL, canvas, body);
    /* one more than fits: the edge marks that there are more */
    for (int32_t at = first; at < model->n_compare && at <= first + fit; at++) {
        const int32_t col = LABEL + (at - first) * width, cols = s2_min_i32(width - 1, body.cols - col);
        draw_column(model, at, order, canvas,
                    (s2_rect){body.row, body.col + col, body.rows, s2_max_i32(cols, 0)});
    }
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    s2_scroll(action, model->n_compare, 1, &state->scroll);
}

/* Nothing before all of them are derived: a command of some would be another one. */
static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_question question = s2_knobs_question(&state->knobs);
    for (int32_t at = 0; at < model->n_compare; at++)
        if (model->compare[at] == NULL || model->compare[at]->status != S2_OK)
            return;
    s2_buf_puts(buf, "s2 sim ");
    for (int32_t at = 0; at < model->n_compare; at++) {
        s2_subject_print(model, model->compare[at], buf);
        s2_buf_puts(buf, " ");
    }
    s2_question_print(&question, buf);
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_compare = {
    draw, handle, command, {S2_ACT_PAGE_DOWN, S2_ACT_COMMAND, S2_ACT_BACK}, NULL};
