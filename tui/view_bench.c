#include "tui/view.h"

#include <stdio.h>
#include <string.h>

static void draw_knob(const s2_tui_state *state, s2_knob knob, s2_canvas *canvas, s2_rect line)
{
    s2_buf buf = {0};
    s2_knob_print(&state->knobs, knob, &buf);
    const bool here = knob == state->knob;
    const int32_t at = line.cols >= 26 ? 15 : 13;
    s2_canvas_text(canvas, line.row, line.col + 1, here ? S2_STYLE_HEAD : S2_STYLE_DIM, s2_knob_label(knob));
    s2_canvas_text(canvas, line.row, line.col + at, S2_STYLE_TEXT, buf.data);
    if (here) {
        s2_canvas_glyph(canvas, line.row, line.col, 0x25b8, '>', S2_STYLE_HEAD);
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
    }
    s2_buf_release(&buf);
}

/* A pattern that is text stands where the knobs of a pattern are; those of the question stay. */
static void draw_pattern(const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    enum { QUESTION = S2_N_KNOBS - S2_KNOB_LEN };
    const char *const text = state->mode == S2_MODE_TEXT ? state->prompt : state->text;
    const int32_t rows = area.rows - QUESTION;
    s2_canvas_clip(canvas, (s2_rect){area.row, area.col, rows, area.cols});
    s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_HEAD, "pattern");
    s2_fold_draw(text, S2_STYLE_TEXT, canvas, (s2_rect){area.row + 1, area.col + 1, rows - 1, area.cols - 1},
                 area.row + 1);
    s2_canvas_clip(canvas, area);
    for (int32_t row = 0; row < QUESTION && rows >= 0; row++)
        draw_knob(state, (s2_knob)(S2_KNOB_LEN + row), canvas,
                  (s2_rect){area.row + rows + row, area.col, 1, area.cols});
}

static bool is_text(const s2_tui_state *state)
{
    return state->text[0] != '\0' || state->mode == S2_MODE_TEXT;
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_bench at = s2_layout_bench_in(body);
    s2_canvas_clip(canvas, at.knobs);
    int32_t first = (int32_t)state->knob - at.knobs.rows + 1;
    first = first < 0 ? 0 : first;
    if (is_text(state))
        draw_pattern(state, canvas, at.knobs);
    for (int32_t row = 0; !is_text(state) && row < at.knobs.rows && first + row < S2_N_KNOBS; row++)
        draw_knob(state, (s2_knob)(first + row), canvas,
                  (s2_rect){at.knobs.row + row, at.knobs.col, 1, at.knobs.cols});
    if (model->bench != NULL)
        s2_panels_draw(model->bench, model->grids, state, canvas, &at);
    if (model->bench_waits)
        s2_panels_wait(canvas, &at);
}

static void remember(s2_tui_state *state)
{
    if (state->n_undo == S2_TUI_UNDO)
        memmove(&state->undo[0], &state->undo[1], sizeof state->undo[0] * (S2_TUI_UNDO - 1));
    else
        state->n_undo++;
    state->undo[state->n_undo - 1] = state->knobs;
}

static void turn(s2_tui_state *state, int32_t by)
{
    s2_knobs turned = state->knobs;
    s2_knobs_turn(&turned, state->knob, by);
    if (memcmp(&turned, &state->knobs, sizeof turned) == 0)
        return;
    remember(state);
    state->knobs = turned;
}

/* What only knobs have; false where the pattern is text. */
static bool has_knobs(s2_tui_state *state, s2_action action)
{
    const bool turns =
        action == S2_ACT_LESS || action == S2_ACT_MORE || action == S2_ACT_HALVE || action == S2_ACT_DOUBLE;
    if (state->text[0] == '\0' || (action != S2_ACT_AROUND && (!turns || state->knob >= S2_KNOB_LEN)))
        return true;
    snprintf(state->message, sizeof state->message,
             "the pattern is text: E edits it, z goes back to the knobs");
    return false;
}

static void take_back(s2_tui_state *state)
{
    if (state->text[0] != '\0')
        state->text[0] = '\0';
    else if (state->n_undo > 0)
        state->knobs = state->undo[--state->n_undo];
}

static void edit(s2_tui_state *state)
{
    s2_buf text = {0};
    s2_tui_pattern(state, &text);
    s2_prompt_open(state, S2_MODE_TEXT, text.data != NULL ? text.data : "");
    s2_buf_release(&text);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    int32_t knob = (int32_t)state->knob;
    if (s2_panels_handle(model->bench, state, action) || !has_knobs(state, action))
        return;
    if (s2_scroll(action, S2_N_KNOBS, S2_N_KNOBS, &knob))
        state->knob = (s2_knob)knob;
    switch (action) {
    case S2_ACT_LESS: turn(state, -1); break;
    case S2_ACT_MORE: turn(state, 1); break;
    case S2_ACT_HALVE: turn(state, -2); break;
    case S2_ACT_DOUBLE: turn(state, 2); break;
    case S2_ACT_UNDO: take_back(state); break;
    case S2_ACT_TEXT: edit(state); break;
    case S2_ACT_SAVE: s2_prompt_open(state, S2_MODE_NAME, ""); break;
    case S2_ACT_AROUND:
        state->subject_id = 0;
        s2_prompt_open(state, S2_MODE_AROUND, "--require rows,union,kv --minimize us,kv_bytes");
        break;
    default: s2_subject_handle(model, state, action);
    }
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_question question = s2_knobs_question(&state->knobs);
    s2_buf text = {0};
    s2_tui_pattern(state, &text);
    s2_buf_add(&text, "", 1);
    s2_buf_puts(buf, "s2 check ");
    s2_buf_shell(buf, text.data != NULL ? text.data : "");
    s2_buf_printf(buf, "%s\ns2 sim ", model->database);
    s2_buf_shell(buf, text.data != NULL ? text.data : "");
    s2_buf_puts(buf, " ");
    s2_question_print(&question, buf);
    s2_buf_puts(buf, model->database);
    s2_buf_release(&text);
}

const s2_view_ops s2_view_bench = {draw, handle, command};
