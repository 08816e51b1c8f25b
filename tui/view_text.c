/*
 * The views that are lines of text: log, help, tour.
 */
#include "tui/view.h"

#include <stdio.h>

static void draw_log(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    s2_canvas_clip(canvas, body);
    for (int32_t row = 0; row < body.rows && state->scroll + row < model->n_log; row++)
        s2_canvas_text(canvas, body.row + row, 1, S2_STYLE_TEXT,
                       model->log[model->n_log - 1 - state->scroll - row]);
    if (model->n_log == 0)
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "nothing yet");
}

static void handle_log(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    s2_scroll(action, model->n_log, state->rows / 2, &state->scroll);
}

static void command_log(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    (void)model;
    (void)state;
    s2_buf_puts(buf, "s2 db stat");
}

const s2_view_ops s2_view_log = {"log", "what was done, newest first", draw_log, handle_log, command_log};

/* The view that help was asked from. */
static s2_view_id asked_from(const s2_tui_state *state)
{
    return state->depth > 0 ? state->views[state->depth - 1] : S2_VIEW_BENCH;
}

static int32_t help_lines(s2_view_id id)
{
    int32_t n = 0;
    for (int32_t nth = 0; nth < s2_binding_count(); nth++)
        n += (s2_binding_at(nth)->views & (1u << id)) != 0;
    return n;
}

static void draw_help(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    (void)model;
    const s2_view_id id = asked_from(state);
    s2_canvas_clip(canvas, body);
    s2_canvas_printf(canvas, body.row, 1, S2_STYLE_HEAD, "%s: %s", s2_view_at(id)->name,
                     s2_view_at(id)->help);
    int32_t row = body.row + 1 - state->scroll;
    for (int32_t nth = 0; nth < s2_binding_count(); nth++) {
        const s2_binding *const binding = s2_binding_at(nth);
        if ((binding->views & (1u << id)) == 0)
            continue;
        if (row > body.row) {
            s2_canvas_text(canvas, row, 2, S2_STYLE_KEY, binding->shown);
            s2_canvas_text(canvas, row, 11, S2_STYLE_TEXT, binding->name);
            s2_canvas_text(canvas, row, 28, S2_STYLE_DIM, binding->help);
        }
        row++;
    }
}

static void handle_help(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    (void)model;
    s2_scroll(action, help_lines(asked_from(state)), state->rows / 2, &state->scroll);
}

static void command_help(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    (void)model;
    (void)state;
    s2_buf_puts(buf, "s2 help tui");
}

const s2_view_ops s2_view_help = {"help", "keys", draw_help, handle_help, command_help};

enum { TOUR_STEPS = 5, TOUR_LINES = 6 };
static const char *const TOUR[TOUR_STEPS][TOUR_LINES] = {
    {"1 of 5  What this is for", "In sharded sparse attention every head reads another part of the context,",
     "so each head is cheap and all heads together still read everything.",
     "Whether they do is proved, for every length; where they do not, you see", "the hole. Enter: next step.",
     ""},
    {"2 of 5  The designs", "Press 2 for the list. + holds, x is violated, ? is not decided:",
     "r rows that read nothing, u the union of all heads, k the KV cache.",
     "Enter opens a design, space marks it, c compares the marked ones.", "", ""},
    {"3 of 5  A broken one", "dkernel-llama-v16 strides by 16 over 8 KV heads: half of the residues",
     "are nobody's. Open it: X cells are blocks that no head reads, @ is the",
     "smallest counterexample. n zooms to it, 0 shows everything again.", "", ""},
    {"4 of 5  The workbench", "Press 1, choose a knob with up and down, turn it with left and right.",
     "Set stride 16 and phase kv: the union breaks. Then dense kv 1: repaired.",
     "Watch the KV cache and the time while you do. z takes a turn back.", "", ""},
    {"5 of 5  Everything is a command", "= shows the command that prints what is on screen; y copies it.",
     "s saves the workbench's design. ? lists all keys, : finds them by name.",
     "Enter: begin again. q: back.", "", ""}};

static void draw_tour(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    (void)model;
    s2_canvas_clip(canvas, body);
    for (int32_t line = 0; line < TOUR_LINES; line++)
        s2_canvas_text(canvas, body.row + (body.rows > 8 ? 1 : 0) + line + (line > 0 && body.rows > 8), 1,
                       line == 0 ? S2_STYLE_HEAD : S2_STYLE_TEXT, TOUR[state->tour % TOUR_STEPS][line]);
}

static void handle_tour(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    (void)model;
    if (action == S2_ACT_OPEN)
        state->tour = (state->tour + 1) % TOUR_STEPS;
}

const s2_view_ops s2_view_tour = {"tour", "what can be done here, in five steps", draw_tour, handle_tour,
                                  command_help};
