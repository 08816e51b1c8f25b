#include "tui/view.h"

#include "sim/report.h"

enum { LABEL = 12, COLUMN = 15 };

typedef void (*cell_fn)(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col);

static void put_buf(s2_canvas *canvas, int32_t row, int32_t col, s2_buf *buf)
{
    s2_canvas_text(canvas, row, col, S2_STYLE_TEXT, buf->data);
    s2_buf_release(buf);
}

#define VERDICT(name, at)                                                                                    \
    static void cell_##name(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)              \
    {                                                                                                        \
        s2_style style;                                                                                      \
        const s2_verdict verdict = facts->findings[at].verdict;                                              \
        const char mark = s2_verdict_mark((int32_t)verdict, &style);                                         \
        s2_canvas_printf(canvas, row, col, style, "%c %s", mark, s2_verdict_word(verdict));                  \
    }
VERDICT(rows, 0)
VERDICT(unions, 1)
VERDICT(kv, 2)

static void cell_complete(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (facts->findings[1].verdict == S2_VIOLATED)
        s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT, "%lld",
                         (long long)facts->findings[1].complete_to_tok);
    else
        s2_canvas_text(canvas, row, col, S2_STYLE_DIM, "-");
}

static void cell_shape(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT, "%dx%d/%d b%d", facts->pattern.n_layers,
                     facts->pattern.n_heads, facts->pattern.n_kv_heads, facts->pattern.block_tok);
}

static void cell_density(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (facts->priced)
        s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT, "%.5f", facts->density);
}

static void cell_time(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    s2_buf buf = {0};
    if (facts->priced)
        s2_time_print(facts->time_us, &buf);
    else
        s2_buf_puts(&buf, "-");
    put_buf(canvas, row, col, &buf);
}

static void cell_speed(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (facts->priced)
        s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT, "%.2fx", facts->dense_us / facts->time_us);
}

static void cell_bound_by(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (facts->priced)
        s2_canvas_text(canvas, row, col, S2_STYLE_TEXT, s2_resource_word(facts->bound_by));
}

static void cell_cache(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    s2_buf buf = {0};
    if (!facts->cached)
        return;
    s2_bytes_print((double)facts->kv_bytes[S2_KV_POINTS - 1], &buf);
    put_buf(canvas, row, col, &buf);
}

static void cell_share(const s2_facts *facts, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (!facts->cached)
        return;
    s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT, "%.1f%%",
                     100.0 * (double)facts->kv_bytes[S2_KV_POINTS - 1] /
                         (double)facts->kv_dense[S2_KV_POINTS - 1]);
}

static const struct {
    const char *label;
    cell_fn cell;
} LINES[] = {{"union", cell_unions},    {"complete to", cell_complete}, {"kv", cell_kv},
             {"rows", cell_rows},       {"time >=", cell_time},         {"vs dense", cell_speed},
             {"by", cell_bound_by},     {"kv cache", cell_cache},       {"of dense", cell_share},
             {"density", cell_density}, {"shape", cell_shape}};
enum { N_LINES = sizeof LINES / sizeof LINES[0] };

static void draw_column(const s2_tui_model *model, const s2_tui_state *state, int32_t at, s2_canvas *canvas,
                        s2_rect body, int32_t first)
{
    const s2_facts *const facts = model->compare[at];
    const s2_rect column = {body.row, body.col + LABEL + (at - first) * COLUMN, body.rows, COLUMN - 1};
    (void)state;
    s2_canvas_clip(canvas, column);
    s2_canvas_text(canvas, body.row, column.col, S2_STYLE_HEAD, model->compare_name[at]);
    if (facts == NULL || facts->status != S2_OK) {
        s2_canvas_text(canvas, body.row + 1, column.col, S2_STYLE_BAD,
                       facts == NULL ? "proving..." : "refused");
        return;
    }
    for (int32_t line = 0; line < N_LINES; line++)
        LINES[line].cell(facts, canvas, body.row + 1 + line, column.col);
    const int32_t rest = body.rows - N_LINES - 2;
    if (rest >= 4)
        s2_panels_union(facts, model->grids, canvas,
                        (s2_rect){body.row + N_LINES + 2, column.col, rest, COLUMN - 1});
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    s2_canvas_clip(canvas, body);
    for (int32_t line = 0; line < N_LINES; line++)
        s2_canvas_text(canvas, body.row + 1 + line, 0, S2_STYLE_DIM, LINES[line].label);
    const int32_t fit = (body.cols - LABEL) / COLUMN;
    int32_t first = state->scroll;
    first = first > model->n_compare - fit ? model->n_compare - fit : first;
    first = first < 0 ? 0 : first;
    for (int32_t at = first; at < model->n_compare; at++)
        draw_column(model, state, at, canvas, body, first);
    if (model->n_compare == 0)
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "mark designs with space, then c");
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    s2_scroll(action, model->n_compare, 1, &state->scroll);
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    s2_buf_puts(buf, "s2 sim");
    for (int32_t at = 0; at < model->n_compare; at++)
        s2_buf_printf(buf, " %.12s",
                      model->compare[at] != NULL && model->compare[at]->status == S2_OK
                          ? model->compare[at]->hash
                          : "-");
    s2_buf_printf(buf, " --len %lld", (long long)state->knobs.value[S2_KNOB_LEN]);
}

const s2_view_ops s2_view_compare = {"compare", "the marked designs side by side", draw, handle, command};
