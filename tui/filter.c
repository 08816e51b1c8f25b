/*
 * Typing a filter: every key lists what passes it, column names are completed, used filters are recalled.
 */
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

/* How many letters of a column's name are before the caret; 0 if a value is being typed. */
static int32_t stem_of(const s2_tui_state *state, const char **stem)
{
    int32_t begin = state->caret;
    while (begin > 0 && strchr("abcdefghijklmnopqrstuvwxyz_", state->prompt[begin - 1]) != NULL)
        begin--;
    *stem = state->prompt + begin;
    return begin == 0 || strchr(" !", state->prompt[begin - 1]) != NULL ? state->caret - begin : 0;
}

static bool begins(const char *name, const char *stem, int32_t n)
{
    return strncmp(name, stem, (size_t)n) == 0;
}

void s2_filter_list(s2_tui_state *state, const char *filter)
{
    memcpy(state->filter_before, state->filter, sizeof state->filter);
    snprintf(state->filter, sizeof state->filter, "%s", filter);
    state->cursor = state->top = 0;
    s2_view_push(state, S2_VIEW_DESIGNS);
    state->request = S2_REQUEST_LIST;
}

/* Type what all columns with this beginning have in common. */
static void complete(const s2_tui_model *model, s2_tui_state *state)
{
    const char *stem, *first = NULL;
    const int32_t n = stem_of(state, &stem);
    size_t common = 0;
    for (int32_t nth = 0; n > 0 && model->columns != NULL && model->columns[nth] != NULL; nth++) {
        const char *const name = model->columns[nth];
        if (!begins(name, stem, n))
            continue;
        size_t same = 0;
        while (first != NULL && same < common && name[same] == first[same])
            same++;
        common = first == NULL ? strlen(name) : same;
        first = first == NULL ? name : first;
    }
    for (size_t at = (size_t)n; first != NULL && at < common; at++)
        s2_prompt_type(state, first[at]);
}

/* Recall an older or a newer filter; after the newest (history_at < 0) comes an empty one. */
static void recall(s2_tui_state *state, int32_t by)
{
    const int32_t to = state->history_at + by;
    if (to < -1 || to >= S2_TUI_HISTORY || (to >= 0 && state->history[to][0] == '\0'))
        return;
    state->history_at = to;
    snprintf(state->prompt, sizeof state->prompt, "%s", to >= 0 ? state->history[to] : "");
    state->caret = (int32_t)strlen(state->prompt);
}

void s2_filter_open(s2_tui_state *state)
{
    memcpy(state->filter_before, state->filter, sizeof state->filter);
    state->history_at = -1;
    s2_prompt_open(state, S2_MODE_FILTER, state->filter);
}

static void apply(s2_tui_state *state, const char *filter)
{
    if (strcmp(state->filter, filter) == 0)
        return;
    snprintf(state->filter, sizeof state->filter, "%.*s", (int)sizeof state->filter - 1, filter);
    state->cursor = state->top = 0;
    state->request = S2_REQUEST_LIST;
}

void s2_tui_used(s2_tui_state *state, const char *filter)
{
    int32_t nth = 0;
    while (nth < S2_TUI_HISTORY - 1 && strcmp(state->history[nth], filter) != 0)
        nth++;
    if (filter[0] == '\0')
        return;
    memmove(state->history[1], state->history[0], sizeof state->history[0] * (size_t)nth);
    snprintf(state->history[0], sizeof state->history[0], "%s", filter);
}

static s2_action type(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    switch (key) {
    case S2_KEY_TAB: complete(model, state); return S2_ACT_NONE;
    case S2_KEY_UP: recall(state, 1); return S2_ACT_NONE;
    case S2_KEY_DOWN: recall(state, -1); return S2_ACT_NONE;
    default: return s2_prompt_step(model, state, key);
    }
}

s2_action s2_filter_step(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    const s2_action action = type(model, state, key);
    s2_filter_follow(state);
    if (state->mode == S2_MODE_FILTER)
        return action;
    apply(state, key == S2_KEY_ESC ? state->filter_before : state->prompt);
    if (key == S2_KEY_ENTER) {
        s2_tui_used(state, state->filter);
        state->request = S2_REQUEST_LIST;
    }
    return action;
}

void s2_filter_follow(s2_tui_state *state)
{
    if (state->mode == S2_MODE_FILTER)
        apply(state, state->prompt);
}

void s2_filter_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const char *stem;
    const int32_t n = stem_of(state, &stem);
    int32_t col = 1, n_found = 0;
    s2_canvas_clip(canvas, line);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    for (int32_t nth = 0; n > 0 && model->columns != NULL && model->columns[nth] != NULL; nth++)
        if (begins(model->columns[nth], stem, n)) {
            col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_KEY, "%s  ", model->columns[nth]);
            n_found++;
        }
    if (n_found > 0)
        s2_canvas_text(canvas, line.row, col, S2_STYLE_DIM, "tab completes");
    else if (model->filter_error != NULL)
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAD, model->filter_error);
    else
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_DIM,
                       "COLUMN = != < <= > >= ~ VALUE, tag:WORD, star, !not; up: used before");
}
