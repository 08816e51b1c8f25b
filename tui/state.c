/*
 * What the views share of the state: which of them is shown, cursors, the workbench's pattern.
 */
#include "tui/view.h"

#include <string.h>

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

bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *at)
{
    int32_t to = *at;
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
    *at = to < 0 ? 0 : to;
    return true;
}

s2_tui_state s2_tui_state_init(int32_t rows, int32_t cols, s2_view_id first)
{
    s2_tui_state state = {.knobs = s2_knobs_default(),
                          .knobs_saved = s2_knobs_default(),
                          .layer = -1,
                          .minimize = "us,kv_bytes,unread"};
    state.views[0] = first;
    s2_tui_resize(&state, rows, cols);
    return state;
}

void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols)
{
    state->rows = rows < 1 ? 1 : rows > S2_CANVAS_LIMIT_ROWS ? S2_CANVAS_LIMIT_ROWS : rows;
    state->cols = cols < 1 ? 1 : cols > S2_CANVAS_LIMIT_COLS ? S2_CANVAS_LIMIT_COLS : cols;
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
    if (state->front >= model->front.n_rows)
        state->front = model->front.n_rows > 0 ? model->front.n_rows - 1 : 0;
    if (state->run >= model->n_runs)
        state->run = model->n_runs > 0 ? model->n_runs - 1 : 0;
}

void s2_tui_pattern(const s2_tui_state *state, s2_buf *buf)
{
    if (state->mode == S2_MODE_TEXT)
        s2_buf_puts(buf, state->prompt);
    else if (state->text[0] != '\0')
        s2_buf_puts(buf, state->text);
    else
        s2_knobs_text(&state->knobs, "; ", buf);
}
