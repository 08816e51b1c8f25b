#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/text.h"
#include "sim/units.h"
#include "words/error.h"

char s2_verdict_mark(int32_t verdict, s2_style *style)
{
    static const char marks[] = {'+', 'x', '?'};
    static const s2_style styles[] = {S2_STYLE_GOOD, S2_STYLE_BAD, S2_STYLE_UNSURE};
    *style = verdict >= 0 && verdict <= 2 ? styles[verdict] : S2_STYLE_DIM;
    return verdict >= 0 && verdict <= 2 ? marks[verdict] : ' ';
}

/* The head and layer shown, limited to what the pattern has. */
static int32_t layer_shown(const s2_facts *facts, const s2_tui_state *state)
{
    const int32_t layer = state->layer < 0 ? s2_facts_layer(facts) : state->layer;
    return layer < facts->pattern.n_layers ? layer : facts->pattern.n_layers - 1;
}

static int32_t head_shown(const s2_facts *facts, const s2_tui_state *state)
{
    return state->head < facts->pattern.n_heads ? state->head : facts->pattern.n_heads - 1;
}

static int64_t n_blocks(const s2_facts *facts)
{
    return s2_ceil_div(facts->question.len_tok, facts->pattern.block_tok);
}

static s2_zoom zoom_of(const s2_facts *facts, const s2_tui_state *state)
{
    const int64_t n_blk = n_blocks(facts);
    s2_zoom zoom = state->zoomed ? state->zoom : (s2_zoom){0, n_blk, 0, n_blk};
    if (zoom.q_end > n_blk || zoom.k_end > n_blk)
        zoom = (s2_zoom){0, n_blk, 0, n_blk};
    return zoom;
}

/* Heat shows the mean of a cell, a hole its worst block; holes only in masks of all heads. */
static void draw_cell(s2_canvas *canvas, int32_t row, int32_t col, const s2_grid_cell *cell, bool holes)
{
    static const uint32_t ramp[] = {0xb7, 0x2591, 0x2592, 0x2593, 0x2588, 0x2588};
    static const char twins[] = {'.', '-', '+', '*', '%', '#'};
    if (cell->n_causal == 0)
        return;
    if (holes && cell->n_full < cell->n_causal) {
        const bool part = cell->n_read == cell->n_causal;
        s2_canvas_glyph(canvas, row, col, part ? 0x25e6 : 0xd7, part ? 'o' : 'X', S2_STYLE_HOLE);
        return;
    }
    const int64_t n = cell->n_read;
    const int heat = n == 0 ? 0 : n == cell->n_causal ? 5 : 1 + (int)(4 * n / (cell->n_causal + 1));
    s2_canvas_glyph(canvas, row, col, ramp[heat], twins[heat], (s2_style)(S2_STYLE_HEAT0 + heat));
}

/* Which of the `cells` shares holds this block; -1 if none does. */
static int32_t share_of(int64_t begin, int64_t end, int32_t cells, int64_t blk)
{
    for (int32_t at = 0; at < cells; at++) {
        const s2_range range = s2_grid_share(begin, end, at, cells);
        if (blk >= range.begin && blk < range.end)
            return at;
    }
    return -1;
}

static void draw_witness(const s2_facts *facts, int32_t layer, s2_zoom zoom, s2_canvas *canvas, s2_rect area)
{
    const s2_finding *const finding = &facts->findings[1];
    if (finding->verdict != S2_VIOLATED || finding->witness.layer != layer)
        return;
    const int64_t b = facts->pattern.block_tok;
    const int32_t row = share_of(zoom.q_begin, zoom.q_end, area.rows, finding->witness.q_tok / b);
    const int32_t col = share_of(zoom.k_begin, zoom.k_end, area.cols, finding->witness.k_tok / b);
    if (row >= 0 && col >= 0)
        s2_canvas_glyph(canvas, area.row + row, area.col + col, '@', '@', S2_STYLE_WITNESS);
}

/* What a mask is of: a layer of these facts, one head of it or (-1) the union of all. */
typedef struct mask_of {
    const s2_facts *facts;
    s2_grids *grids;
    int32_t layer;
    int32_t head;
    s2_zoom zoom;
} mask_of;

static void draw_cells(const s2_grid_cell *cells, bool holes, s2_canvas *canvas, s2_rect area)
{
    for (int32_t row = 0; row < area.rows; row++)
        for (int32_t col = 0; col < area.cols; col++)
            draw_cell(canvas, area.row + row, area.col + col, &cells[row * area.cols + col], holes);
}

static void draw_grid(const s2_mask_image *grid, bool holes, s2_canvas *canvas, s2_rect area)
{
    if (grid->status == S2_OK)
        draw_cells(grid->cells, holes, canvas, area);
    else
        s2_fold_draw(grid->status == S2_ELIMIT ? "too fine to draw: i zooms in"
                                               : s2_status_text(grid->status),
                     S2_STYLE_UNSURE, canvas, area, area.row);
}

static void draw_mask(const mask_of *what, s2_canvas *canvas, s2_rect area)
{
    const bool holes = what->head < 0 && !s2_pattern_is_state_layer(&what->facts->pattern, what->layer);
    const s2_grid_key key = {what->facts->serial, what->layer, what->head, area.rows, area.cols, what->zoom};
    if (area.rows < 1 || area.cols < 1)
        return;
    const s2_mask_image *const kept = s2_grids_find(what->grids, &key);
    if (kept != NULL)
        draw_grid(kept, holes, canvas, area);
    else
        s2_canvas_text(canvas, area.row + area.rows / 2, area.col + 1, S2_STYLE_DIM, "drawing...");
}

/* A position, exact: no context that is shown has more than seven digits. */
static int32_t print_tok(int64_t n_tok, char text[24])
{
    snprintf(text, 24, "%.23s", s2_tok_text(n_tok).text);
    return (int32_t)strlen(text);
}

static void put_query(s2_canvas *canvas, s2_rect cells, int32_t row, const char *text)
{
    s2_canvas_text(canvas, cells.row + row, cells.col - 1 - (int32_t)strlen(text), S2_STYLE_DIM, text);
}

/* Left of the cells: where the rows of queries begin and end. */
static void draw_queries(const s2_facts *facts, s2_zoom zoom, s2_canvas *canvas, s2_rect cells)
{
    char text[24];
    const int64_t b = facts->pattern.block_tok;
    for (int32_t row = 0; row < cells.rows; row++)
        s2_canvas_glyph(canvas, cells.row + row, cells.col - 1, 0x2502, '|', S2_STYLE_DIM);
    print_tok(zoom.q_begin * b, text);
    put_query(canvas, cells, 0, text);
    if (cells.rows > 2)
        put_query(canvas, cells, cells.rows / 2, "query");
    print_tok(s2_min_i64(zoom.q_end * b, facts->question.len_tok), text);
    if (cells.rows > 1)
        put_query(canvas, cells, cells.rows - 1, text);
}

/* Below the cells: where the columns of keys begin and end. */
static void draw_keys(const s2_facts *facts, s2_zoom zoom, s2_canvas *canvas, s2_rect cells, int32_t row)
{
    char first[24], last[24];
    const int64_t b = facts->pattern.block_tok;
    const int32_t n_first = print_tok(zoom.k_begin * b, first);
    const int32_t n_last = print_tok(s2_min_i64(zoom.k_end * b, facts->question.len_tok), last);
    s2_canvas_text(canvas, row, cells.col, S2_STYLE_DIM, first);
    if (cells.cols >= n_first + n_last + 1)
        s2_canvas_text(canvas, row, cells.col + cells.cols - n_last, S2_STYLE_DIM, last);
    if (cells.cols >= n_first + n_last + 5)
        s2_canvas_text(canvas, row, cells.col + n_first + (cells.cols - n_first - n_last - 3) / 2,
                       S2_STYLE_DIM, "key");
}

/* The axes around the cells, as far as s2_layout_cells left room. */
static void draw_axes(const s2_facts *facts, s2_zoom zoom, s2_canvas *canvas, s2_rect mask, s2_rect cells)
{
    if (cells.rows < 1 || cells.cols < 1)
        return;
    if (cells.col > mask.col)
        draw_queries(facts, zoom, canvas, cells);
    if (cells.row + cells.rows < mask.row + mask.rows)
        draw_keys(facts, zoom, canvas, cells, cells.row + cells.rows);
}

/*
 * Where the hole is, else how many blocks a row stands for, so that nobody takes a mean for a measurement.
 */
static void draw_scale(const mask_of *what, s2_rect grid, s2_canvas *canvas, int32_t row, int32_t col)
{
    char text[64];
    const s2_finding *const finding = &what->facts->findings[1];
    const s2_zoom *const zoom = &what->zoom;
    const double per = (double)(zoom->q_end - zoom->q_begin) / (grid.rows > 0 ? grid.rows : 1);
    const long long b = what->facts->pattern.block_tok;
    if (finding->verdict == S2_VIOLATED && finding->witness.layer == what->layer)
        snprintf(text, sizeof text, " @ q%lld k%lld", (long long)finding->witness.q_tok / b,
                 (long long)finding->witness.k_tok / b);
    else if (per > 1)
        snprintf(text, sizeof text, " %s blocks/row", s2_decimal(per, 3).text);
    else
        snprintf(text, sizeof text, " from block %lld", (long long)zoom->q_begin);
    if (col + (int32_t)strlen(text) <= grid.col + grid.cols)
        s2_canvas_text(canvas, row, col, S2_STYLE_DIM, text);
}

static bool is_crossed(const s2_facts *facts, const s2_tui_state *state)
{
    return state->cross && state->cross_q < facts->question.len_tok &&
           state->cross_k < facts->question.len_tok;
}

/*
 * One cell of the crosshair. A block character in cursor colours would look as if nothing were read there, so
 * a line replaces every second one; the others keep what they show, and so do marks.
 */
static void draw_cross_cell(s2_canvas *canvas, int32_t row, int32_t col, int32_t away, uint32_t line)
{
    const uint32_t glyph = canvas->cells[row * canvas->cols + col].glyph;
    const bool block = glyph >= 0x2580 && glyph <= 0x259f;
    const s2_style style = away == 0 ? S2_STYLE_WITNESS : S2_STYLE_CURSOR;
    if (block && away % 2 == 0)
        s2_canvas_glyph(canvas, row, col, line, '+', style);
    else if (!block)
        s2_canvas_restyle(canvas, (s2_rect){row, col, 1, 1}, style);
}

/* Row and column of the pair. */
static void draw_cross(const s2_facts *facts, const s2_tui_state *state, s2_canvas *canvas, s2_rect cells)
{
    const s2_zoom zoom = zoom_of(facts, state);
    const int64_t b = facts->pattern.block_tok;
    if (!is_crossed(facts, state))
        return;
    const int32_t row = s2_cross_cell((s2_range){zoom.q_begin, zoom.q_end}, b, cells.rows, state->cross_q);
    const int32_t col = s2_cross_cell((s2_range){zoom.k_begin, zoom.k_end}, b, cells.cols, state->cross_k);
    for (int32_t x = 0; row >= 0 && x < cells.cols; x++)
        if (x != col)
            draw_cross_cell(canvas, cells.row + row, cells.col + x, x - col, 0x2500);
    for (int32_t y = 0; col >= 0 && y < cells.rows; y++)
        if (y != row)
            draw_cross_cell(canvas, cells.row + y, cells.col + col, y - row, 0x2502);
    if (row >= 0 && col >= 0)
        draw_cross_cell(canvas, cells.row + row, cells.col + col, 0, 0x253c);
}

static void draw_masks(const s2_facts *facts, s2_grids *grids, const s2_tui_state *state, s2_canvas *canvas,
                       const s2_layout_bench *places)
{
    const int32_t head = head_shown(facts, state);
    mask_of what = {facts, grids, layer_shown(facts, state), -1, zoom_of(facts, state)};
    const s2_rect all = s2_layout_cells(places->union_mask, true, true);
    const s2_rect one = s2_layout_cells(places->head_mask, true, false);
    if (places->union_mask.rows > 1) {
        s2_canvas_clip(canvas, places->union_mask);
        const bool mixes = s2_pattern_is_state_layer(&facts->pattern, what.layer);
        const int32_t col =
            s2_canvas_printf(canvas, places->union_mask.row, places->union_mask.col, S2_STYLE_HEAD,
                             mixes ? "layer %d: a state, no keys" : "union, layer %d", what.layer);
        draw_scale(&what, all, canvas, places->union_mask.row, col);
        draw_mask(&what, canvas, all);
        draw_witness(facts, what.layer, what.zoom, canvas, all);
        draw_axes(facts, what.zoom, canvas, places->union_mask, all);
        draw_cross(facts, state, canvas, all);
    }
    if (places->head_mask.rows > 1) {
        what.head = head;
        s2_canvas_clip(canvas, places->head_mask);
        s2_canvas_printf(canvas, places->head_mask.row, one.col, S2_STYLE_HEAD, "head %d, kv %d", head,
                         s2_layer_kv_head(&facts->pattern, what.layer, head));
        draw_mask(&what, canvas, one);
        draw_axes(facts, what.zoom, canvas, places->head_mask, one);
        draw_cross(facts, state, canvas, one);
    }
}

/* Which keys of the window a KV head's group reads from one block of queries, and its share of all. */
static void draw_reader(const s2_facts *facts, const s2_view *views, int32_t kv, s2_zoom window, bool here,
                        s2_canvas *canvas, s2_rect line)
{
    enum { LABEL = 13 };
    const int32_t group = facts->pattern.n_heads / s2_pattern_kv_heads(&facts->pattern, views->layer);
    const int64_t n_blk = n_blocks(facts);
    const s2_zoom all = {window.q_begin, window.q_end, 0, n_blk};
    const s2_rect bar = {line.row, line.col + LABEL, 1, line.cols - LABEL};
    s2_grid_cell cells[S2_CANVAS_LIMIT_COLS];
    s2_grid_cell sum;
    if (bar.cols < 1 ||
        s2_grid_fill(views + kv * group, group, facts->question.len_tok, window, 1, bar.cols, cells) !=
            S2_OK ||
        s2_grid_fill(views + kv * group, group, facts->question.len_tok, all, 1, 1, &sum) != S2_OK)
        return;
    s2_canvas_printf(canvas, line.row, line.col, here ? S2_STYLE_HEAD : S2_STYLE_DIM, "kv%-3d %5.1f%%", kv,
                     100.0 * (double)sum.n_read / (double)sum.n_causal);
    draw_cells(cells, false, canvas, bar);
}

/* As many KV heads as fit, the shown head's among them, at the crosshair's query or the window's last. */
static void draw_readers(const s2_facts *facts, const s2_tui_state *state, const s2_view *views,
                         s2_canvas *canvas, s2_rect area)
{
    s2_zoom window = zoom_of(facts, state);
    const int64_t q_blk =
        is_crossed(facts, state) ? state->cross_q / facts->pattern.block_tok : window.q_end - 1;
    window.q_begin = q_blk;
    window.q_end = q_blk + 1;
    if (area.rows < 2)
        return;
    s2_canvas_clip(canvas, area);
    const int32_t n = s2_pattern_kv_heads(&facts->pattern, views->layer),
                  shown = s2_min_i32(n, area.rows - 1);
    const int32_t own = s2_layer_kv_head(&facts->pattern, views->layer, head_shown(facts, state));
    const int32_t first = own < shown ? 0 : own - shown + 1;
    int32_t col = s2_canvas_printf(canvas, area.row, area.col, S2_STYLE_HEAD, "keys read by query block %lld",
                                   (long long)q_blk);
    if (state->zoomed)
        col = s2_canvas_printf(canvas, area.row, col, S2_STYLE_DIM, ", of %lld-%lld",
                               (long long)window.k_begin, (long long)window.k_end - 1);
    if (shown < n)
        s2_canvas_printf(canvas, area.row, col, S2_STYLE_DIM, "  kv %d-%d of %d: . ,", first,
                         first + shown - 1, n);
    for (int32_t nth = 0; nth < shown; nth++)
        draw_reader(facts, views, first + nth, window, first + nth == own, canvas,
                    (s2_rect){area.row + 1 + nth, area.col, 1, area.cols});
}

static int32_t put_time(s2_canvas *canvas, int32_t row, int32_t col, s2_style style, double us)
{
    return s2_canvas_text(canvas, row, col, style, s2_time_text(us).text);
}

/* Eighths of a cell in UTF-8, whole cells and one '=' or '_' in ASCII; a share of 1 fills the panel. */
static void draw_bar(s2_canvas *canvas, s2_rect area, int32_t col, double share)
{
    const int32_t eighths = (int32_t)(share * area.rows * 8 + 0.5);
    for (int32_t row = 0; row < area.rows; row++) {
        const int32_t fill = eighths - 8 * (area.rows - 1 - row);
        if (fill >= 8)
            s2_canvas_glyph(canvas, area.row + row, col, 0x2588, '#', S2_STYLE_HEAT3);
        else if (fill > 0)
            s2_canvas_glyph(canvas, area.row + row, col, 0x2580 + (uint32_t)fill, fill > 3 ? '=' : '_',
                            S2_STYLE_HEAT3);
    }
}

static void draw_kv(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    if (area.rows < 2)
        return;
    s2_canvas_clip(canvas, area);
    if (!facts->cached) {
        s2_canvas_text(canvas, area.row, area.col, S2_STYLE_DIM,
                       facts->question.phase == S2_TRAIN ? "KV cache: training keeps none"
                                                         : "KV cache: cannot be counted at this length");
        return;
    }
    const int32_t end = S2_KV_POINTS - 1;
    int32_t col = s2_canvas_text(canvas, area.row, area.col, S2_STYLE_HEAD, "KV cache ");
    col = s2_canvas_text(canvas, area.row, col, S2_STYLE_TEXT,
                         s2_bytes_text((double)facts->kv_bytes[end]).text);
    col = s2_canvas_text(canvas, area.row, col, S2_STYLE_DIM, " of ");
    col = s2_canvas_text(canvas, area.row, col, S2_STYLE_TEXT,
                         s2_bytes_text((double)facts->kv_dense[end]).text);
    s2_canvas_printf(canvas, area.row, col, S2_STYLE_DIM,
                     area.cols < 60 ? " (%.1f%%)" : " (%.1f%%) over the context",
                     100.0 * (double)facts->kv_bytes[end] / (double)facts->kv_dense[end]);
    const s2_rect plot = {area.row + 1, area.col, area.rows - 1, area.cols};
    for (int32_t x = 0; x < plot.cols; x++) {
        const int32_t point = (int32_t)((int64_t)x * S2_KV_POINTS / plot.cols);
        draw_bar(canvas, plot, plot.col + x, (double)facts->kv_bytes[point] / (double)facts->kv_dense[end]);
    }
}

/* What queries know after each layer: the last one shaded, the one that knows the least in solid bars. */
static void draw_reach(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    const s2_late *const late = &facts->late;
    const int32_t n_layers = facts->pattern.n_layers;
    if (area.rows < 2)
        return;
    s2_canvas_clip(canvas, area);
    int32_t col = s2_canvas_text(canvas, area.row, area.col, S2_STYLE_HEAD, "reach by layer ");
    if (late->reach == NULL) {
        s2_canvas_text(canvas, area.row, col, S2_STYLE_DIM,
                       late->asked ? "cannot be followed here: s2 reach" : "is being followed...");
        return;
    }
    s2_canvas_printf(canvas, area.row, col, S2_STYLE_DIM,
                     late->hops > 0 ? "over %s: every key in %s" : "over %s: not every key in %s",
                     s2_tok_text(late->reach_tok).text,
                     s2_count_text(late->hops > 0 ? late->hops : n_layers, "layer").text);
    const s2_rect plot = {area.row + 1, area.col, area.rows - 1, area.cols};
    for (int32_t x = 0; x < plot.cols; x++) {
        const s2_known *const known = &late->reach[(int64_t)x * n_layers / plot.cols];
        for (int32_t row = 0; row < (int32_t)(known->last * plot.rows + 0.5); row++)
            s2_canvas_glyph(canvas, plot.row + plot.rows - 1 - row, plot.col + x, 0x2591, '-',
                            S2_STYLE_HEAT1);
        draw_bar(canvas, plot, plot.col + x, known->least);
    }
}

static void draw_verdict(const s2_finding *finding, s2_canvas *canvas, s2_rect area)
{
    s2_style style;
    const char mark = s2_verdict_mark((int32_t)finding->verdict, &style);
    int32_t col = s2_canvas_printf(canvas, area.row, area.col, style, "%c %-5s ", mark,
                                   s2_property_word(finding->requirement.property));
    if (finding->verdict == S2_HOLDS)
        s2_canvas_text(canvas, area.row, col, S2_STYLE_TEXT,
                       finding->scope_tok == S2_OPEN ? "every length" : "this length");
    else if (finding->verdict == S2_UNKNOWN)
        s2_canvas_text(canvas, area.row, col, S2_STYLE_TEXT,
                       finding->reason == S2_REASON_DYNAMIC ? "chosen at run time" : "not decided");
    else if (finding->complete_to_tok == S2_COMPLETE_UNKNOWN)
        s2_canvas_text(canvas, area.row, col, S2_STYLE_TEXT, "not everywhere");
    else
        s2_canvas_printf(canvas, area.row, col, S2_STYLE_TEXT,
                         area.cols < 26 ? "to %lld" : "only to %lld tokens",
                         (long long)finding->complete_to_tok);
}

static void draw_verdicts(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    s2_canvas_clip(canvas, area);
    if (facts->status != S2_OK) {
        s2_canvas_text(canvas, area.row, area.col, S2_STYLE_BAD, s2_diag_text(&facts->diag, facts->status));
        return;
    }
    for (int32_t at = 0; at < S2_N_VERDICTS && at < area.rows; at++)
        draw_verdict(&facts->findings[at], canvas, (s2_rect){area.row + at, area.col, 1, area.cols});
}

/* A bar of the resource's time, relative to the longest. */
static void draw_resource(const s2_facts *facts, s2_resource resource, s2_canvas *canvas, s2_rect line)
{
    enum { LABEL = 16 };
    const double most = facts->busy_us[facts->bound_by];
    int32_t col = s2_canvas_printf(canvas, line.row, line.col,
                                   resource == facts->bound_by ? S2_STYLE_HEAD : S2_STYLE_DIM, "%-6s ",
                                   s2_resource_word(resource));
    put_time(canvas, line.row, col, S2_STYLE_TEXT, facts->busy_us[resource]);
    const int32_t n = most > 0 ? (int32_t)((line.cols - LABEL) * facts->busy_us[resource] / most + 0.5) : 0;
    for (int32_t x = 0; x < n; x++)
        s2_canvas_glyph(canvas, line.row, line.col + LABEL + x, 0x2584, '=', S2_STYLE_HEAT3);
}

/* "3.3 % mean", or "30 % guess" where the constants are those of a data sheet. */
static void print_error(const s2_expected *expected, bool narrow, s2_buf *buf)
{
    if (expected->guessed)
        s2_buf_printf(buf, "%s %% guess", s2_decimal(expected->error.pct, 2).text);
    else
        s2_error_print_short(&expected->error, narrow, buf);
}

/* As much of the words as there is room for. */
static void draw_error(const s2_expected *expected, s2_canvas *canvas, s2_rect line)
{
    s2_buf words = {0};
    print_error(expected, false, &words);
    if (words.status == S2_OK && (int32_t)words.len + 2 > line.cols) {
        words.len = 0;
        print_error(expected, true, &words);
    }
    if (words.status == S2_OK)
        s2_canvas_printf(canvas, line.row, line.col, S2_STYLE_DIM, ", %s", words.data);
    s2_buf_release(&words);
}

/* The expected time, with its error, above the bounds; or just the bounds. */
static void draw_times(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    const s2_expected *const expected = &facts->late.expected;
    const double plan_us = s2_facts_plan_us(facts);
    const int32_t row = area.row;
    int32_t col = s2_canvas_text(canvas, row, area.col, S2_STYLE_HEAD, "time ");
    if (expected->known) {
        col = put_time(canvas, row, col, S2_STYLE_TEXT, expected->time_us);
        draw_error(expected, canvas, (s2_rect){row, col, 1, area.col + area.cols - col});
        col = s2_canvas_text(canvas, row + 1, area.col, S2_STYLE_DIM, "bounds ");
        col = put_time(canvas, row + 1, col, S2_STYLE_TEXT, plan_us);
        col = s2_canvas_text(canvas, row + 1, col, S2_STYLE_DIM, ", any ");
    } else {
        col = s2_canvas_text(canvas, row, col, S2_STYLE_DIM, ">= ");
        put_time(canvas, row, col, S2_STYLE_TEXT, plan_us);
        col = s2_canvas_text(canvas, row + 1, area.col, S2_STYLE_DIM, "any kernel >= ");
    }
    put_time(canvas, row + 1, col, S2_STYLE_TEXT, expected->sized ? expected->bound_us : facts->bound_us);
}

/* What dense attention takes, and its ratio where the two may be compared. */
static void draw_dense(const s2_facts *facts, s2_canvas *canvas, s2_rect line)
{
    const s2_expected *const expected = &facts->late.expected;
    int32_t col =
        s2_canvas_text(canvas, line.row, line.col, S2_STYLE_DIM, expected->known ? "dense " : "dense >= ");
    col = put_time(canvas, line.row, col, S2_STYLE_TEXT,
                   expected->sized ? expected->dense_us : facts->dense_us);
    const s2_figure_text ratio = s2_facts_ratio(facts, expected->known);
    if (ratio.text[0] != '\0')
        s2_canvas_printf(canvas, line.row, col,
                         expected->no_ratio == S2_RATIO_HOLDS ? S2_STYLE_TEXT : S2_STYLE_UNSURE, ", %s",
                         ratio.text);
}

/* What the price is of: another one on the same screen may be of another GPU, phase or length. */
static int32_t draw_question(const s2_question *question, s2_canvas *canvas, s2_rect area)
{
    s2_buf words = {0};
    s2_question_tell(question, &words);
    const int32_t rows =
        words.status == S2_OK ? s2_fold_draw(words.data, S2_STYLE_HEAD, canvas, area, area.row) : 0;
    s2_buf_release(&words);
    return rows;
}

static void draw_cost(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    if (area.rows < 1 || facts->status != S2_OK)
        return;
    s2_canvas_clip(canvas, area);
    int32_t row = area.row + draw_question(&facts->question, canvas, area);
    const bool unlisted = facts->question.listed && facts->late.asked && !facts->late.expected.known;
    if (!facts->priced || unlisted) {
        s2_canvas_text(canvas, row, area.col, S2_STYLE_UNSURE,
                       facts->slow ? "random lists, masks:" : "no price of that:");
        s2_canvas_text(canvas, row + 1, area.col, S2_STYLE_UNSURE,
                       facts->slow ? "priced here up to 2k" : "m says why");
        return;
    }
    draw_times(facts, canvas, (s2_rect){row, area.col, 2, area.cols});
    draw_dense(facts, canvas, (s2_rect){row + 2, area.col, 1, area.cols});
    s2_canvas_printf(canvas, row + 3, area.col, S2_STYLE_DIM, "density %s", s2_facts_density(facts, 4).text);
    row += 4;
    for (s2_resource r = S2_MMA; r < S2_N_RESOURCES; r++)
        if (facts->busy_us[r] > 0 && r != S2_LINK)
            draw_resource(facts, r, canvas, (s2_rect){row++, area.col, 1, area.cols});
}

static void draw_with_views(const s2_facts *facts, const s2_tui_state *state, s2_canvas *canvas,
                            const s2_layout_bench *places)
{
    s2_arena scratch = {0};
    const s2_view *views;
    if (s2_facts_views(facts, &scratch, layer_shown(facts, state), &views) == S2_OK)
        draw_readers(facts, state, views, canvas, places->readers);
    s2_arena_release(&scratch);
}

/* Over the lower panels: who reads the pair, and why others do not. */
static void draw_pair(const s2_facts *facts, const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    s2_buf text = {0};
    if (area.rows < 1)
        return;
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_TEXT);
    const s2_status status =
        s2_cross_tell(facts, layer_shown(facts, state), state->cross_q, state->cross_k, &text);
    s2_buf_add(&text, "", 1);
    int32_t row = area.row;
    char *line = status == S2_OK && text.status == S2_OK ? text.data : NULL;
    for (int32_t nth = 0; line != NULL && *line != '\0'; nth++) {
        char *const end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        row += s2_fold_draw(line, nth == 0 ? S2_STYLE_HEAD : S2_STYLE_TEXT, canvas, area, row);
        line = end != NULL ? end + 1 : NULL;
    }
    s2_buf_release(&text);
}

void s2_panels_draw(const s2_facts *facts, s2_grids *grids, const s2_tui_state *state, s2_canvas *canvas,
                    const s2_layout_bench *places)
{
    draw_verdicts(facts, canvas, places->verdicts);
    if (facts->status != S2_OK)
        return;
    draw_cost(facts, canvas, places->cost);
    draw_masks(facts, grids, state, canvas, places);
    if (is_crossed(facts, state) && places->readers.rows + places->kv.rows > 0) {
        s2_rect below = places->readers;
        below.rows += places->kv.rows;
        draw_pair(facts, state, canvas, below);
        return;
    }
    draw_with_views(facts, state, canvas, places);
    if (state->reach)
        draw_reach(facts, canvas, places->kv);
    else
        draw_kv(facts, canvas, places->kv);
}

void s2_panels_wait(s2_canvas *canvas, const s2_layout_bench *places)
{
    const s2_rect *const stale[] = {&places->verdicts,  &places->cost,    &places->union_mask,
                                    &places->head_mask, &places->readers, &places->kv};
    s2_canvas_clip(canvas, (s2_rect){0, 0, canvas->rows, canvas->cols});
    for (size_t n = 0; n < sizeof stale / sizeof stale[0]; n++)
        s2_canvas_restyle(canvas, *stale[n], S2_STYLE_DIM);
    s2_canvas_fill(canvas, places->verdicts, S2_STYLE_DIM);
    s2_canvas_text(canvas, places->verdicts.row, places->verdicts.col, S2_STYLE_KEY, "proving...");
}

void s2_panels_union(const s2_facts *facts, s2_grids *grids, s2_canvas *canvas, s2_rect area)
{
    const int64_t n_blk = facts->status == S2_OK ? n_blocks(facts) : 0;
    const mask_of what = {facts, grids, s2_facts_layer(facts), -1, {0, n_blk, 0, n_blk}};
    s2_canvas_clip(canvas, area);
    const s2_rect cells = s2_layout_cells(area, false, true);
    if (n_blk > 0) {
        draw_mask(&what, canvas, cells);
        draw_witness(facts, what.layer, what.zoom, canvas, cells);
        draw_axes(facts, what.zoom, canvas, area, cells);
    }
}

/* Zoom by a factor around the crosshair, else the middle; at least 4 blocks. */
static void zoom_by(const s2_facts *facts, s2_tui_state *state, bool in)
{
    s2_zoom zoom = zoom_of(facts, state);
    const int64_t n_blk = n_blocks(facts), size = zoom.q_end - zoom.q_begin;
    int64_t wanted = in ? size / 2 : size * 2;
    wanted = s2_max_i64(wanted, 4);
    if (wanted >= n_blk) {
        state->zoomed = false;
        return;
    }
    int64_t *const begins[] = {&zoom.q_begin, &zoom.k_begin}, *const ends[] = {&zoom.q_end, &zoom.k_end};
    for (int axis = 0; axis < 2; axis++) {
        const int64_t crossed = (axis == 0 ? state->cross_q : state->cross_k) / facts->pattern.block_tok;
        const int64_t middle = is_crossed(facts, state) ? crossed : (*begins[axis] + *ends[axis]) / 2;
        int64_t begin = middle - wanted / 2;
        begin = begin < 0 ? 0 : begin + wanted > n_blk ? n_blk - wanted : begin;
        *begins[axis] = begin;
        *ends[axis] = begin + wanted;
    }
    state->zoom = zoom;
    state->zoomed = true;
}

static void pan(const s2_facts *facts, int64_t *begin, int64_t *end, int64_t by)
{
    const int64_t n_blk = n_blocks(facts), size = *end - *begin;
    int64_t to = *begin + by;
    to = to < 0 ? 0 : to + size > n_blk ? n_blk - size : to;
    *begin = to;
    *end = to + size;
}

static void to_witness(const s2_facts *facts, s2_tui_state *state)
{
    enum { AROUND = 16 };
    const s2_finding *finding = NULL;
    for (int32_t at = S2_N_VERDICTS - 1; at >= 0; at--)
        if (facts->findings[at].verdict == S2_VIOLATED)
            finding = at == 1 || finding == NULL ? &facts->findings[at] : finding;
    if (finding == NULL || finding->witness.q_tok < 0) {
        snprintf(state->message, sizeof state->message, "nothing is violated");
        return;
    }
    const int64_t n_blk = n_blocks(facts), b = facts->pattern.block_tok;
    const int64_t q_blk = finding->witness.q_tok / b, k_blk = finding->witness.k_tok / b;
    state->layer = finding->witness.layer;
    if (finding->witness.head >= 0)
        state->head = finding->witness.head;
    if (q_blk >= n_blk) {
        snprintf(state->message, sizeof state->message, "the witness needs a longer context: query %lld",
                 (long long)finding->witness.q_tok);
        return;
    }
    const int64_t size = s2_min_i64(n_blk, 2 * AROUND);
    const int64_t q_begin = q_blk < AROUND ? 0 : q_blk + AROUND > n_blk ? n_blk - size : q_blk - AROUND;
    const int64_t k_begin = k_blk < AROUND ? 0 : k_blk + AROUND > n_blk ? n_blk - size : k_blk - AROUND;
    state->zoom = (s2_zoom){q_begin, q_begin + size, k_begin, k_begin + size};
    state->zoomed = true;
}

/* Heads that read something of one cell, as far as they fit. */
static void add_readers(const s2_view *views, int32_t n_heads, int64_t n_tok, s2_zoom cell, s2_buf *buf)
{
    enum { MOST = 60 };
    int32_t n = 0;
    const size_t begin = buf->len;
    for (int32_t head = 0; head < n_heads; head++) {
        s2_grid_cell one;
        if (s2_grid_fill(views + head, 1, n_tok, cell, 1, 1, &one) != S2_OK || one.n_read == 0)
            continue;
        if (buf->len - begin < MOST)
            s2_buf_printf(buf, n == 0 ? "read by head %d" : " %d", head);
        else if (buf->len - begin < MOST + 10)
            s2_buf_puts(buf, " ...");
        n++;
    }
    bool chosen = false;
    for (int32_t head = 0; head < n_heads; head++)
        chosen = chosen || views[head].has_dynamic;
    if (n == 0)
        s2_buf_puts(buf, chosen ? "read for certain by no head" : "read by no head");
}

/* What a cell of a mask stands for, in words. */
static void tell_cell(const s2_facts *facts, s2_tui_state *state, s2_zoom cell)
{
    s2_arena scratch = {0};
    s2_buf text = {0};
    const s2_view *views;
    s2_grid_cell all;
    const int32_t n_heads = facts->pattern.n_heads;
    const int64_t n_tok = facts->question.len_tok;
    if (s2_facts_views(facts, &scratch, layer_shown(facts, state), &views) == S2_OK &&
        s2_grid_fill(views, n_heads, n_tok, cell, 1, 1, &all) == S2_OK) {
        s2_buf_printf(&text, "query blocks %lld-%lld, key blocks %lld-%lld: ", (long long)cell.q_begin,
                      (long long)cell.q_end - 1, (long long)cell.k_begin, (long long)cell.k_end - 1);
        if (all.n_causal == 0)
            s2_buf_puts(&text, "in the future");
        else if (all.n_causal == 1)
            add_readers(views, n_heads, n_tok, cell, &text);
        else
            s2_buf_printf(&text, "%lld of %lld block pairs unread by all heads, %lld in part",
                          (long long)(all.n_causal - all.n_read), (long long)all.n_causal,
                          (long long)(all.n_read - all.n_full));
        snprintf(state->message, sizeof state->message, "%s", text.data != NULL ? text.data : "");
    }
    s2_buf_release(&text);
    s2_arena_release(&scratch);
}

static int64_t token_at(const s2_facts *facts, s2_range blocks, int32_t cells, int32_t cell)
{
    const int64_t tok = s2_cross_tok(blocks, facts->pattern.block_tok, cells, cell);
    return tok < facts->question.len_tok ? tok : facts->question.len_tok - 1;
}

void s2_panels_click(const s2_facts *facts, s2_tui_state *state, const s2_layout_bench *places, int32_t row,
                     int32_t col)
{
    const s2_rect masks[] = {s2_layout_cells(places->union_mask, true, true),
                             s2_layout_cells(places->head_mask, true, false)};
    if (facts == NULL || facts->status != S2_OK)
        return;
    const s2_zoom zoom = zoom_of(facts, state);
    for (size_t n = 0; n < sizeof masks / sizeof masks[0]; n++) {
        const s2_rect m = masks[n];
        if (row < m.row || row >= m.row + m.rows || col < m.col || col >= m.col + m.cols)
            continue;
        const s2_range q = s2_grid_share(zoom.q_begin, zoom.q_end, row - m.row, m.rows);
        const s2_range k = s2_grid_share(zoom.k_begin, zoom.k_end, col - m.col, m.cols);
        tell_cell(facts, state, (s2_zoom){q.begin, q.end, k.begin, k.end});
        state->cross = true;
        state->cross_q = token_at(facts, (s2_range){zoom.q_begin, zoom.q_end}, m.rows, row - m.row);
        state->cross_k = token_at(facts, (s2_range){zoom.k_begin, zoom.k_end}, m.cols, col - m.col);
    }
}

static void step_layer(const s2_facts *facts, s2_tui_state *state, int32_t by)
{
    const int32_t n = facts->pattern.n_layers;
    state->layer = (layer_shown(facts, state) + by + n) % n;
}

static void pan_by(const s2_facts *facts, s2_tui_state *state, s2_action action)
{
    s2_zoom *const zoom = &state->zoom;
    if (!state->zoomed)
        return;
    *zoom = zoom_of(facts, state);
    const int64_t step = (zoom->q_end - zoom->q_begin + 3) / 4;
    if (action == S2_ACT_PAN_LEFT || action == S2_ACT_PAN_RIGHT)
        pan(facts, &zoom->k_begin, &zoom->k_end, action == S2_ACT_PAN_LEFT ? -step : step);
    else
        pan(facts, &zoom->q_begin, &zoom->q_end, action == S2_ACT_PAN_UP ? -step : step);
}

/* Move by one cell, or by one token if a cell is less. The window follows. */
static void step_axis(const s2_facts *facts, int64_t *begin, int64_t *end, int32_t cells, int32_t by,
                      int64_t *tok)
{
    const int64_t b = facts->pattern.block_tok;
    const s2_range blocks = {*begin, *end};
    int32_t cell = s2_cross_cell(blocks, b, cells, *tok);
    if (cells < 1)
        return;
    if (cell < 0) {
        *tok = token_at(facts, blocks, cells, 0);
        return;
    }
    const bool fine = (*end - *begin) * b < cells;
    int64_t to = fine                                  ? *tok + by
                 : cell + by >= 0 && cell + by < cells ? token_at(facts, blocks, cells, cell + by)
                 : by < 0                              ? *begin * b - 1
                                                       : *end * b;
    to = to < 0 ? 0 : to >= facts->question.len_tok ? facts->question.len_tok - 1 : to;
    if (to / b < *begin || to / b >= *end)
        pan(facts, begin, end, to / b < *begin ? to / b - *begin : to / b - *end + 1);
    *tok = to;
}

static void step_cross(const s2_facts *facts, s2_tui_state *state, s2_action action)
{
    const s2_rect cells = s2_layout_cells(s2_panels_place(state).union_mask, true, true);
    s2_zoom zoom = zoom_of(facts, state);
    const bool was_zoomed = state->zoomed;
    if (action == S2_ACT_UP || action == S2_ACT_DOWN)
        step_axis(facts, &zoom.q_begin, &zoom.q_end, cells.rows, action == S2_ACT_UP ? -1 : 1,
                  &state->cross_q);
    else
        step_axis(facts, &zoom.k_begin, &zoom.k_end, cells.cols, action == S2_ACT_LESS ? -1 : 1,
                  &state->cross_k);
    if (was_zoomed)
        state->zoom = zoom;
}

/* Turn it on at the counterexample, or in the middle of what is shown. */
static void toggle_cross(const s2_facts *facts, s2_tui_state *state)
{
    const s2_finding *const finding = &facts->findings[1];
    const s2_zoom zoom = zoom_of(facts, state);
    const int64_t b = facts->pattern.block_tok, n_tok = facts->question.len_tok;
    state->cross = !state->cross;
    if (!state->cross)
        return;
    state->cross_q = (zoom.q_begin + zoom.q_end) / 2 * b;
    state->cross_k = (zoom.k_begin + zoom.k_end) / 4 * b;
    if (finding->verdict == S2_VIOLATED && finding->witness.q_tok < n_tok && finding->witness.k_tok < n_tok &&
        finding->witness.k_tok >= 0 && finding->witness.layer == layer_shown(facts, state)) {
        state->cross_q = finding->witness.q_tok;
        state->cross_k = finding->witness.k_tok;
    }
}

/* The crosshair's keys; false if there is no crosshair or the action is another. */
static bool handle_cross(const s2_facts *facts, s2_tui_state *state, s2_action action)
{
    switch (action) {
    case S2_ACT_UP:
    case S2_ACT_DOWN:
    case S2_ACT_LESS:
    case S2_ACT_MORE:
        if (is_crossed(facts, state))
            step_cross(facts, state, action);
        return is_crossed(facts, state);
    case S2_ACT_CROSS: toggle_cross(facts, state); return true;
    case S2_ACT_PLACE: s2_prompt_open(state, S2_MODE_PLACE, ""); return true;
    case S2_ACT_REACH: state->reach = !state->reach; return true;
    default: return false;
    }
}

bool s2_panels_handle(const s2_facts *facts, s2_tui_state *state, s2_action action)
{
    if (facts == NULL || facts->status != S2_OK)
        return false;
    if (handle_cross(facts, state, action))
        return true;
    const int32_t n = facts->pattern.n_heads, head = head_shown(facts, state);
    switch (action) {
    case S2_ACT_HEAD_NEXT: state->head = (head + 1) % n; return true;
    case S2_ACT_HEAD_PREVIOUS: state->head = (head + n - 1) % n; return true;
    case S2_ACT_LAYER_NEXT: step_layer(facts, state, 1); return true;
    case S2_ACT_LAYER_PREVIOUS: step_layer(facts, state, -1); return true;
    case S2_ACT_ZOOM_IN: zoom_by(facts, state, true); return true;
    case S2_ACT_ZOOM_OUT: zoom_by(facts, state, false); return true;
    case S2_ACT_FIT: state->zoomed = false; return true;
    case S2_ACT_PAN_LEFT:
    case S2_ACT_PAN_RIGHT:
    case S2_ACT_PAN_UP:
    case S2_ACT_PAN_DOWN: pan_by(facts, state, action); return true;
    case S2_ACT_WITNESS: to_witness(facts, state); return true;
    default: return false;
    }
}
