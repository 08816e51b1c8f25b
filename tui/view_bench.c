#include "tui/view.h"

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

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_bench at = s2_layout_bench_in(body);
    s2_canvas_clip(canvas, at.knobs);
    int32_t first = (int32_t)state->knob - at.knobs.rows + 1;
    first = first < 0 ? 0 : first;
    for (int32_t row = 0; row < at.knobs.rows && first + row < S2_N_KNOBS; row++)
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

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    int32_t knob = (int32_t)state->knob;
    if (s2_panels_handle(model->bench, state, action))
        return;
    if (s2_scroll(action, S2_N_KNOBS, S2_N_KNOBS, &knob))
        state->knob = (s2_knob)knob;
    switch (action) {
    case S2_ACT_LESS: turn(state, -1); break;
    case S2_ACT_MORE: turn(state, 1); break;
    case S2_ACT_HALVE: turn(state, -2); break;
    case S2_ACT_DOUBLE: turn(state, 2); break;
    case S2_ACT_UNDO:
        if (state->n_undo > 0)
            state->knobs = state->undo[--state->n_undo];
        break;
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
    s2_buf_puts(buf, "s2 check '");
    s2_knobs_text(&state->knobs, "; ", buf);
    s2_buf_printf(buf, "'%s\ns2 sim '", model->database);
    s2_knobs_text(&state->knobs, "; ", buf);
    s2_buf_puts(buf, "' ");
    s2_question_print(&question, buf);
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_bench = {"workbench", "turn a knob and see verdict, holes, cache and cost follow",
                                   draw, handle, command};
