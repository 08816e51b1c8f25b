#include "tui/view.h"

#include <string.h>

#include "base/arith.h"
#include "reach/worth.h"
#include "sim/units.h"

enum { LABEL = 12, COLUMN = 17, LEAST_MASK = 5, CELL_BYTES = 48, SAME_BYTES = 512 };

/* What a line says about one design, and in which style. */
typedef struct cell {
    char text[CELL_BYTES];
    s2_style style;
} cell;
typedef void (*cell_fn)(const s2_facts *facts, s2_buf *buf, s2_style *style);

static void put_verdict(const s2_facts *facts, int property, s2_buf *buf, s2_style *style)
{
    const s2_verdict verdict = facts->findings[property].verdict;
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
        s2_buf_puts(buf, s2_facts_density(facts, 5).text);
}

static void put_bound(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_buf_printf(buf, ">= %s", s2_time_text(s2_facts_plan_us(facts)).text);
    else
        s2_buf_puts(buf, "-");
}

static void put_expected(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    s2_buf_puts(buf, s2_time_text(facts->late.expected.time_us).text);
}

static void put_bound_speed(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    s2_buf_puts(buf, s2_facts_ratio(facts, false).text);
}

static void put_expected_speed(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    s2_buf_puts(buf, s2_facts_ratio(facts, true).text);
}

static void put_bound_by(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->priced)
        s2_buf_puts(buf, s2_resource_word(facts->bound_by));
}

static void put_expected_by(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    s2_buf_puts(buf, s2_resource_word(facts->late.expected.bound_by));
}

static void put_cache(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->cached)
        s2_buf_puts(buf, s2_bytes_text((double)facts->kv_bytes[S2_KV_POINTS - 1]).text);
}

static void put_share(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->cached)
        s2_buf_printf(buf, "%.1f%%",
                      100.0 * (double)facts->kv_bytes[S2_KV_POINTS - 1] /
                          (double)facts->kv_dense[S2_KV_POINTS - 1]);
}

/* A figure of worth with its root mean square error. */
static void put_worth(const s2_late *late, int digits, double value, double error, s2_buf *buf)
{
    if (!late->asked)
        s2_buf_puts(buf, "-");
    else if (late->not_judged != NULL)
        s2_buf_puts(buf, "unjudged");
    else
        s2_buf_printf(buf, "%.*f rms %.2f", digits, value, error);
}

static void put_recall(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    put_worth(&facts->late, 2, facts->late.recall, s2_worth_recall_error, buf);
}

static void put_loss(const s2_facts *facts, s2_buf *buf, s2_style *style)
{
    (void)style;
    if (facts->late.not_judged == NULL) /* recall says so of both */
        put_worth(&facts->late, 3, facts->late.loss, s2_worth_loss_error, buf);
}

/* expected: where all are predicted, NULL: the same; times are compared like with like. */
static const struct {
    const char *label;
    cell_fn put, expected;
} LINES[] = {{"union", put_union, NULL},
             {"complete to", put_complete, NULL},
             {"kv", put_kv, NULL},
             {"rows", put_rows, NULL},
             {"time", put_bound, put_expected},
             {"vs dense", put_bound_speed, put_expected_speed},
             {"by", put_bound_by, put_expected_by},
             {"kv cache", put_cache, NULL},
             {"of dense", put_share, NULL},
             {"density", put_density, NULL},
             {"recall", put_recall, NULL},
             {"loss", put_loss, NULL},
             {"shape", put_shape, NULL}};
enum { N_LINES = sizeof LINES / sizeof LINES[0] };

static bool all_expected(const s2_tui_model *model)
{
    for (int32_t at = 0; at < model->n_compare; at++)
        if (model->compare[at] == NULL || !model->compare[at]->late.expected.known)
            return false;
    return true;
}

static cell cell_of(const s2_tui_model *model, int32_t design, int32_t line)
{
    const s2_facts *const facts = model->compare[design];
    const bool expected = LINES[line].expected != NULL && all_expected(model);
    cell out = {.style = S2_STYLE_TEXT};
    s2_buf buf = {0};
    if (facts != NULL && facts->status == S2_OK)
        (expected ? LINES[line].expected : LINES[line].put)(facts, &buf, &out.style);
    s2_text_clean(out.text, sizeof out.text, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
    return out;
}

static bool differs(const s2_tui_model *model, int32_t line)
{
    for (int32_t at = 1; at < model->n_compare; at++) {
        const cell first = cell_of(model, 0, line), other = cell_of(model, at, line);
        if (strcmp(first.text, other.text) != 0)
            return true;
    }
    return false;
}

/* Lines in which the designs differ come first; returns how many there are. */
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

/* How the screen is divided. If the masks have no room, one sentence says what all designs have in common; if
 * they still have none, only the lines in which the texts differ are shown. */
typedef struct table {
    int32_t order[N_LINES], n_differ;
    int32_t n_rows;        /* lines that have a row of their own */
    int32_t same_rows;     /* rows of the sentence */
    int32_t text_rows;     /* rows of the longest text */
    bool changes;          /* show only the lines in which texts differ */
    int32_t lacking;       /* rows that the masks lack */
    int32_t fit, width;    /* how many designs fit, and the columns of each */
    char same[SAME_BYTES]; /* the sentence */
} table;

static int32_t above_masks(const table *t)
{
    return 1 + t->n_rows + 1 + t->same_rows + t->text_rows;
}

/* Draw the text, marking what differs from the first design (in the first: from any); returns the rows. */
static int32_t draw_text(const s2_tui_model *model, int32_t design, bool changes, s2_canvas *canvas,
                         s2_rect area)
{
    const int32_t n_others = design == 0 ? model->n_compare - 1 : 1;
    if (model->compare[design] == NULL || model->compare[design]->status != S2_OK)
        return 0;
    return s2_texts_draw(model->compare[design], design == 0 ? &model->compare[1] : model->compare, n_others,
                         changes, canvas, area);
}

static void say_same(const s2_tui_model *model, table *t)
{
    s2_buf buf = {0};
    for (int32_t nth = t->n_differ; nth < N_LINES; nth++) {
        const cell c = cell_of(model, 0, t->order[nth]);
        if (c.text[0] != '\0')
            s2_buf_printf(&buf, "%s%s %s", buf.len > 0 ? "; " : "", LINES[t->order[nth]].label, c.text);
    }
    s2_text_clean(t->same, sizeof t->same, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
}

static int32_t draw_same(const table *t, s2_canvas *canvas, s2_rect body, int32_t row)
{
    const s2_rect area = {body.row, LABEL, body.rows, body.cols - LABEL};
    return t->same[0] != '\0' ? s2_fold_draw(t->same, S2_STYLE_TEXT, canvas, area, row) : 0;
}

/* Count rows by drawing where nothing can be seen. */
static void measure(const s2_tui_model *model, s2_canvas *canvas, s2_rect body, bool packed, table *t)
{
    s2_canvas_clip(canvas, (s2_rect){0});
    t->n_rows = packed ? t->n_differ : N_LINES;
    t->same_rows = packed ? draw_same(t, canvas, body, body.row) : 0;
    t->text_rows = 0;
    for (int32_t at = 0; at < model->n_compare; at++)
        t->text_rows = s2_max_i32(t->text_rows,
                                  draw_text(model, at, t->changes, canvas, (s2_rect){0, 0, 0, t->width - 1}));
    t->lacking = above_masks(t) + LEAST_MASK - body.rows;
}

static void lay_out(const s2_tui_model *model, s2_canvas *canvas, s2_rect body, table *t)
{
    t->n_differ = order_lines(model, t->order);
    t->width = s2_max_i32((body.cols - LABEL) / model->n_compare, COLUMN);
    t->fit = s2_max_i32((body.cols - LABEL) / t->width, 1);
    say_same(model, t);
    measure(model, canvas, body, false, t);
    if (t->lacking > 0 && model->n_compare > 1)
        measure(model, canvas, body, true, t);
    if (t->lacking > 0 && model->n_compare > 1) {
        t->changes = true;
        measure(model, canvas, body, true, t);
    }
}

static void draw_column(const s2_tui_model *model, int32_t design, const table *t, s2_canvas *canvas,
                        s2_rect column)
{
    const s2_facts *const facts = model->compare[design];
    const int32_t below = 1 + t->n_rows + 1 + t->same_rows, masks = below + t->text_rows;
    s2_canvas_clip(canvas, column);
    s2_canvas_text(canvas, column.row, column.col, S2_STYLE_HEAD, model->compare_name[design]);
    if (facts == NULL || facts->status != S2_OK) {
        s2_canvas_text(canvas, column.row + 1, column.col, S2_STYLE_BAD,
                       facts == NULL ? "proving..." : "refused");
        return;
    }
    for (int32_t line = 0; line < t->n_rows; line++) {
        const cell c = cell_of(model, design, t->order[line]);
        s2_canvas_text(canvas, column.row + 1 + line, column.col, c.style, c.text);
    }
    s2_against_base(model, facts, canvas, (s2_rect){column.row + 1 + t->n_rows, column.col, 1, column.cols});
    draw_text(model, design, t->changes, canvas,
              (s2_rect){column.row + below, column.col, s2_max_i32(column.rows - below, 0), column.cols});
    if (t->lacking <= 0)
        s2_panels_union(facts, model->grids, canvas,
                        (s2_rect){column.row + masks, column.col, column.rows - masks, column.cols});
}

/* The labels left of the columns, and a note if something has no room. */
static void draw_labels(const table *t, bool pinned, s2_canvas *canvas, s2_rect body)
{
    const int32_t below = body.row + 1 + t->n_rows + 1;
    for (int32_t line = 0; line < t->n_rows; line++)
        s2_canvas_text(canvas, body.row + 1 + line, 0, line < t->n_differ ? S2_STYLE_HEAD : S2_STYLE_DIM,
                       LINES[t->order[line]].label);
    if (pinned)
        s2_canvas_text(canvas, below - 1, 0, S2_STYLE_HEAD, "to baseline");
    if (t->same_rows > 0) {
        s2_canvas_text(canvas, below, 0, S2_STYLE_DIM, "the same");
        draw_same(t, canvas, body, below);
    }
    if (t->changes)
        s2_canvas_text(canvas, below + t->same_rows, 0, S2_STYLE_DIM, "text diff");
    if (above_masks(t) >= body.rows)
        s2_more_draw(canvas, body);
    else if (t->lacking > 0)
        s2_canvas_printf(canvas, body.row + body.rows - 1, 0, S2_STYLE_DIM,
                         "no room for the masks (rows missing: %d)", (int)t->lacking);
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    table t = {0};
    s2_canvas_clip(canvas, body);
    if (model->n_compare == 0) {
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "mark designs with space, then c");
        return;
    }
    lay_out(model, canvas, body, &t);
    const int32_t first = s2_max_i32(s2_min_i32(state->scroll, model->n_compare - t.fit), 0);
    /* one more than fits, so that the edge marks that there are more */
    for (int32_t at = first; at < model->n_compare && at <= first + t.fit; at++) {
        const int32_t col = LABEL + (at - first) * t.width, cols = s2_min_i32(t.width - 1, body.cols - col);
        draw_column(model, at, &t, canvas,
                    (s2_rect){body.row, body.col + col, body.rows, s2_max_i32(cols, 0)});
    }
    s2_canvas_clip(canvas, body);
    draw_labels(&t, model->base != NULL, canvas, body);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    s2_scroll(action, model->n_compare, 1, &state->scroll);
}

/* No command before all designs are derived: one for only some would print something else. */
static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    s2_question question = s2_knobs_question(&state->knobs);
    question.listed &= all_expected(model); /* bounds are the same without */
    for (int32_t at = 0; at < model->n_compare; at++)
        if (model->compare[at] == NULL || model->compare[at]->status != S2_OK)
            return;
    s2_buf_puts(buf, "s2 sim ");
    for (int32_t at = 0; at < model->n_compare; at++) {
        s2_subject_print(model, model->compare[at], buf);
        s2_buf_puts(buf, " ");
    }
    s2_question_print(&question, buf);
    s2_buf_puts(buf, all_expected(model) ? "" : " --bounds");
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_compare = {
    draw, handle, command, {S2_ACT_PAGE_DOWN, S2_ACT_COMMAND, S2_ACT_BACK}, NULL};
