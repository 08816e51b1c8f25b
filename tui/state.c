/*
 * The state that views share: which of them is shown, cursors, the workbench's pattern.
 */
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

const char *const s2_tui_sorts[] = {"created", "name", "density", "us", "kv_mib", "gpu_us"};

void s2_view_push(s2_tui_state *state, s2_view_id id)
{
    state->scroll = 0;
    for (int32_t at = 0; at <= state->depth; at++)
        if (state->views[at] == id) {
            state->depth = at;
            return;
        }
    if (state->depth + 1 < S2_TUI_STACK)
        state->views[++state->depth] = id;
}

const s2_tui_row *s2_subject_row(const s2_tui_model *model, const s2_tui_state *state)
{
    if (s2_view_shown(state) == S2_VIEW_PARETO)
        return state->front < model->front.n_rows ? &model->front.rows[state->front] : NULL;
    return state->cursor >= 0 && state->cursor < model->n_rows ? &model->rows[state->cursor] : NULL;
}

int64_t s2_subject_id(const s2_tui_model *model, const s2_tui_state *state)
{
    const s2_view_id view = s2_view_entered(state);
    if (view == S2_VIEW_DESIGN || view == S2_VIEW_RECORD)
        return state->design_id;
    const s2_tui_row *const row = s2_subject_row(model, state);
    return (view == S2_VIEW_DESIGNS || view == S2_VIEW_PARETO) && row != NULL ? row->id : 0;
}

const s2_facts *s2_subject_facts(const s2_tui_model *model, const s2_tui_state *state)
{
    return model->design != NULL && model->design_id == s2_subject_id(model, state) ? model->design : NULL;
}

const s2_facts *s2_view_facts(const s2_tui_model *model, const s2_tui_state *state)
{
    const s2_view_id shown = s2_view_shown(state), view = s2_view_entered(state);
    if (shown == S2_VIEW_BENCH)
        return model->bench;
    if (shown == S2_VIEW_DESIGN)
        return s2_subject_facts(model, state);
    if (shown != S2_VIEW_REACH)
        return NULL;
    const bool stored = view == S2_VIEW_DESIGN || view == S2_VIEW_DESIGNS || view == S2_VIEW_RECORD;
    return stored ? s2_subject_facts(model, state) : model->bench;
}

/* ---- where things are */

/* Rows that tell what changes do to the figures, and the worth; 0 if there is no room. */
static int32_t strip_rows(const s2_tui_state *state, s2_rect body)
{
    return s2_view_shown(state) != S2_VIEW_BENCH || body.rows < 20 ? 0 : state->base[0] != '\0' ? 3 : 2;
}

s2_rect s2_bench_strip(const s2_tui_state *state)
{
    const s2_rect body = s2_layout_frame(state->rows, state->cols).body;
    const int32_t rows = strip_rows(state, body);
    return (s2_rect){body.row + body.rows - rows, body.col, rows, body.cols};
}

s2_layout_bench s2_panels_place(const s2_tui_state *state)
{
    s2_rect body = s2_layout_frame(state->rows, state->cols).body;
    body.rows -= strip_rows(state, body);
    return s2_layout_bench_in(body);
}

/* ---- the workbench's history */

void s2_bench_remember(s2_tui_state *state)
{
    if (state->n_undo == S2_TUI_UNDO) {
        memmove(&state->steps[0], &state->steps[1], sizeof state->steps[0] * (S2_TUI_UNDO - 1));
        state->n_undo--;
    }
    s2_bench_step *const step = &state->steps[state->n_undo++];
    step->knobs = state->knobs;
    memcpy(step->text, state->text, sizeof step->text);
    state->n_steps = state->n_undo;
}

/* Swap the pattern at hand with that of a step. */
static void exchange(s2_tui_state *state, s2_bench_step *step)
{
    const s2_bench_step other = *step;
    step->knobs = state->knobs;
    memcpy(step->text, state->text, sizeof step->text);
    state->knobs = other.knobs;
    memcpy(state->text, other.text, sizeof state->text);
}

bool s2_bench_undo(s2_tui_state *state)
{
    if (state->n_undo == 0)
        return false;
    exchange(state, &state->steps[--state->n_undo]);
    return true;
}

bool s2_bench_redo(s2_tui_state *state)
{
    if (state->n_undo == state->n_steps)
        return false;
    exchange(state, &state->steps[state->n_undo++]);
    return true;
}

void s2_pattern_line(const s2_pattern *pattern, s2_buf *text)
{
    s2_pattern_print(pattern, text);
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->len--;
    for (size_t n = 0; n < text->len; n++)
        if (text->data[n] == '\n')
            text->data[n] = ';';
    s2_buf_add(text, "", 1);
}

/* The pattern that these knobs express has this name. */
static void name_knobs(s2_tui_state *state, const s2_knobs *knobs, const char *name)
{
    state->named = *knobs;
    s2_text_clean(state->name, sizeof state->name, name);
}

/* The name of the knobs' pattern, as long as they still express it. */
static const char *name_of_knobs(const s2_tui_state *state)
{
    for (s2_knob knob = 0; knob < S2_KNOB_LEN; knob++)
        if (state->knobs.value[knob] != state->named.value[knob])
            return "";
    return state->name;
}

bool s2_bench_take(s2_tui_state *state, const s2_pattern *pattern)
{
    s2_buf text = {0};
    s2_knobs knobs = state->knobs;
    const bool by_knobs = s2_knobs_of(pattern, &knobs);
    s2_pattern_line(pattern, &text);
    const bool fits = text.status == S2_OK && (by_knobs || text.len <= sizeof state->text);
    if (fits) {
        s2_bench_remember(state);
        state->brought = true;
        state->knobs = knobs;
        snprintf(state->text, sizeof state->text, "%s", by_knobs ? "" : text.data);
        if (by_knobs)
            name_knobs(state, &knobs, pattern->name);
    }
    s2_buf_release(&text);
    return fits;
}

void s2_bench_take_text(s2_tui_state *state, const char *text)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag;
    s2_bench_remember(state);
    const bool read = s2_pattern_parse(&arena, text, strlen(text), &parse, &pattern, &diag) == S2_OK;
    const bool by_knobs = read && pattern.model[0] == '\0' && s2_knobs_of(&pattern, &state->knobs);
    snprintf(state->text, sizeof state->text, "%s", by_knobs ? "" : text);
    if (by_knobs)
        name_knobs(state, &state->knobs, pattern.name);
    s2_arena_release(&arena);
}

/* Rename the pattern in the text; unchanged if the new text is too long to edit. */
static void rename_text(s2_tui_state *state, const char *name)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_buf line = {0};
    s2_pattern pattern;
    s2_diag diag;
    if (s2_pattern_parse(&arena, state->text, strlen(state->text), &parse, &pattern, &diag) == S2_OK) {
        pattern.name = name;
        s2_pattern_line(&pattern, &line);
        if (line.status == S2_OK && line.len <= sizeof state->text)
            memcpy(state->text, line.data, line.len);
    }
    s2_buf_release(&line);
    s2_arena_release(&arena);
}

void s2_tui_saved(s2_tui_state *state, const s2_knobs *knobs, const char *text, const char *name)
{
    const bool by_knobs = state->text[0] == '\0';
    if (!by_knobs && strcmp(state->text, text) != 0)
        return; /* another one by now */
    if (by_knobs && name[0] != '\0')
        name_knobs(state, knobs, name);
    else if (name[0] != '\0')
        rename_text(state, name);
    state->knobs_saved = *knobs;
    memcpy(state->text_saved, state->text, sizeof state->text_saved);
}

bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *place)
{
    int32_t to = *place;
    switch (action) {
    case S2_ACT_UP: to--; break;
    case S2_ACT_DOWN: to++; break;
    case S2_ACT_PAGE_UP: to -= page; break;
    case S2_ACT_PAGE_DOWN: to += page; break;
    case S2_ACT_FIRST: to = 0; break;
    case S2_ACT_LAST: to = n - 1; break;
    default: return false;
    }
    to = to >= n ? n - 1 : to;
    *place = s2_max_i32(to, 0);
    return true;
}

void s2_tui_state_init(s2_tui_state *state, int32_t rows, int32_t cols, s2_view_id first)
{
    memset(state, 0, sizeof *state);
    state->knobs = state->knobs_saved = s2_knobs_default();
    state->layer = -1;
    state->columns = S2_TUI_COLUMNS_USUAL;
    snprintf(state->minimize, sizeof state->minimize, "us,kv_bytes,unread");
    state->views[0] = first;
    s2_tui_resize(state, rows, cols);
}

void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols)
{
    state->rows = s2_clamp_i32(rows, 1, S2_CANVAS_LIMIT_ROWS);
    state->cols = s2_clamp_i32(cols, 1, S2_CANVAS_LIMIT_COLS);
}

/* Whether prices of another kind than the panel's are among these rows, and what the longest kind takes. */
static void tell_prices_apart(const s2_tui_model *model, s2_tui_state *state, int32_t begin, int32_t end)
{
    enum { GAP = 2 };
    s2_question usual = s2_knobs_question(&state->knobs);
    const s2_question asked = usual;
    usual.batch = 1;
    usual.dtype = S2_BF16;
    usual.cache = S2_CACHE_AS_DTYPE;
    usual.listed = false;
    const s2_tui_row *first = NULL;
    state->mixed = state->lengths = false;
    state->on_cols = 0;
    for (int32_t row_no = begin; row_no < end && row_no < model->n_rows; row_no++) {
        const s2_tui_row *const row = &model->rows[row_no];
        const char *const on = row->priced_on;
        first = first == NULL && row->len_tok > 0 ? row : first;
        state->lengths |=
            row->len_tok > 0 && (row->len_tok != first->len_tok || strcmp(row->phase, first->phase) != 0);
        state->on_cols = s2_max_i32(state->on_cols, (int32_t)strlen(on) + GAP);
        state->mixed = state->mixed ||
                       (on[0] != '\0' && (strcmp(on, asked.gpu) != 0 || !s2_question_is(&asked, &usual)));
    }
}

void s2_tui_settle(const s2_tui_model *model, s2_tui_state *state)
{
    const int32_t shown = s2_layout_list_in(s2_layout_frame(state->rows, state->cols).body).list.rows - 2;
    if (state->cursor >= model->n_rows)
        state->cursor = model->n_rows > 0 ? model->n_rows - 1 : 0;
    if (state->cursor < state->top)
        state->top = state->cursor;
    if (shown > 0 && state->cursor >= state->top + shown)
        state->top = state->cursor - shown + 1;
    tell_prices_apart(model, state, state->top, state->top + shown);
    if (state->front >= model->front.n_rows)
        state->front = model->front.n_rows > 0 ? model->front.n_rows - 1 : 0;
    if (state->run >= model->n_runs)
        state->run = model->n_runs > 0 ? model->n_runs - 1 : 0;
}

void s2_tui_pattern(const s2_tui_state *state, s2_buf *buf)
{
    const bool typed = state->mode == S2_MODE_TEXT;
    if (typed || state->text[0] != '\0') {
        s2_buf_puts(buf, typed ? state->prompt : state->text);
        return;
    }
    const char *const name = name_of_knobs(state);
    if (name[0] != '\0')
        s2_buf_printf(buf, "name %s; ", name);
    s2_knobs_text(&state->knobs, "; ", buf);
}
