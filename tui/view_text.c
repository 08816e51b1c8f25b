/*
 * The views that are lines of text: log, help, tour.
 */
#include "tui/view.h"

#include <stdio.h>

#include "base/alloc.h"

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
    (void)state;
    s2_buf_printf(buf, model->stored ? "s2 repro%s" : "s2 tui%s --dump log", model->database);
}

const s2_view_ops s2_view_log = {draw_log, handle_log, command_log, {S2_ACT_PAGE_DOWN, S2_ACT_BACK}, NULL};

/* The view from which help was asked for. */
static s2_view_id asked_from(const s2_tui_state *state)
{
    return state->depth > 0 ? state->views[state->depth - 1] : S2_VIEW_BENCH;
}

/* What keys mean while something is typed or chosen from a list (tui/prompt.c). */
static const struct {
    const char *shown;
    const char *help;
} TYPING[] = {{"enter", "take what is typed, or chosen in a list"},
              {"esc", "leave it"},
              {"up down", "choose in a list; letters narrow it"},
              {"^U", "clear the line; backspace takes one letter"}};
enum { N_TYPING = sizeof TYPING / sizeof TYPING[0] };

static int32_t help_lines(s2_view_id id, int32_t n_words)
{
    int32_t n = N_TYPING;
    for (int32_t nth = 0; nth < s2_binding_count(); nth++)
        n += (s2_binding_at(nth)->views & (1u << id)) != 0;
    return (id == S2_VIEW_BENCH ? n + S2_N_KNOBS : n) + n_words;
}

/* A narrow screen has room only for keys and what they do; the palette has their names. */
static void draw_help_line(s2_canvas *canvas, s2_rect body, int32_t row, const char *const words[3])
{
    enum { NAMED = 70 };
    if (row <= body.row)
        return;
    s2_canvas_text(canvas, row, 2, S2_STYLE_KEY, words[0]);
    if (body.cols >= NAMED)
        s2_canvas_text(canvas, row, 11, S2_STYLE_TEXT, words[1]);
    s2_canvas_text(canvas, row, body.cols >= NAMED ? 28 : 11, S2_STYLE_DIM, words[2]);
}

/* What words on the screens mean, one line each; looking one up shows all of it. */
static void draw_words(const s2_tui_model *model, s2_canvas *canvas, s2_rect body, int32_t row)
{
    for (int32_t nth = 0; nth < model->n_words; nth++)
        draw_help_line(canvas, body, row + nth,
                       (const char *const[]){"word", model->words[nth].name, model->words[nth].text});
}

static void draw_help(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_view_id id = asked_from(state);
    s2_canvas_clip(canvas, body);
    s2_canvas_printf(canvas, body.row, 1, S2_STYLE_HEAD, "%s: %s", s2_view_info_of(id)->title,
                     s2_view_info_of(id)->help);
    int32_t row = body.row + 1 - state->scroll;
    for (int32_t nth = 0; nth < s2_binding_count(); nth++) {
        const s2_binding *const b = s2_binding_at(nth);
        if ((b->views & (1u << id)) != 0)
            draw_help_line(canvas, body, row++, (const char *const[]){b->shown, b->name, b->help});
    }
    for (int32_t nth = 0; nth < N_TYPING; nth++)
        draw_help_line(canvas, body, row++,
                       (const char *const[]){TYPING[nth].shown, "while typing", TYPING[nth].help});
    for (int32_t knob = 0; id == S2_VIEW_BENCH && knob < S2_N_KNOBS; knob++)
        draw_help_line(
            canvas, body, row++,
            (const char *const[]){"knob", s2_knob_label((s2_knob)knob), s2_knob_help((s2_knob)knob)});
    draw_words(model, canvas, body, row);
}

static void handle_help(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (action == S2_ACT_LOOK_UP)
        s2_prompt_open(state, S2_MODE_WORDS, "");
    else
        s2_scroll(action, help_lines(asked_from(state), model->n_words), state->rows / 2, &state->scroll);
}

static void command_help(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    (void)model;
    (void)state;
    s2_buf_puts(buf, "s2 tui --dump help");
}

const s2_view_ops s2_view_help = {
    draw_help, handle_help, command_help, {S2_ACT_PAGE_DOWN, S2_ACT_LOOK_UP, S2_ACT_BACK}, NULL};

enum { TOUR_LINES = 5 };

/* Each step has its words and the design that they are about. */
static const struct {
    const char *line[TOUR_LINES];
    const char *pattern;
} TOUR[S2_TOUR_STEPS] = {
    {{"1 of 5  What this is for", "In sharded sparse attention every head reads another part of the context,",
      "so each head is cheap and all heads together still read everything.",
      "Below: 8 KV heads, each reads every eighth block; at the top all of them.", "Enter: the next step."},
     "layers 1; heads 8; kv-heads 8; block 64; layers all: local 2 | stride 8 phase kv"},
    {{"2 of 5  The designs", "Press 2 for the list. + holds, x is violated, ? is not decided:",
      "r rows that read nothing, u the union of all heads, k the KV cache.",
      "Enter opens a design, space marks it, c compares the marked ones,",
      "v runs a real kernel on it, r shows what is stored."},
     "layers 2; heads 32; kv-heads 8; block 64; layers all: local 16 | stride 8 phase head+1; layers 1: "
     "dense"},
    {{"3 of 5  A broken one", "A stride of 16 over 8 KV heads: half of the residues are nobody's.",
      "X cells hold blocks that no head reads, @ is the smallest counterexample.",
      "In a design n zooms to it, 0 shows everything again.",
      "The proof says to which length it holds, and the footer what repairs it."},
     "layers 1; heads 32; kv-heads 8; block 64; layers all: local 16 | stride 16 phase kv"},
    {{"4 of 5  The workbench", "Press 1, choose a knob with up and down, turn it with left and right.",
      "Verdict, masks, cache and time follow. Set stride 16 and phase kv: it breaks.",
      "Then dense kv 1, as below: repaired, for the price of one dense cache.",
      "a searches around it, v validates it, x exports it, s saves it."},
     "layers 1; heads 32; kv-heads 8; block 64; layers all: local 16 | stride 16 phase kv; kv 7: dense"},
    {{"5 of 5  Everything is a command", "= shows the command that prints what is on screen; y copies it.",
      "6 shows what runs and ran, P writes the screen to a file.", "? lists all keys, : finds them by name.",
      "Enter: begin again. q: back."},
     "layers 2; heads 8; block 64; layers all: sink 1 | local 8; heads 0::2: dense"}};

const char *s2_tour_pattern(int32_t step)
{
    return TOUR[step % S2_TOUR_STEPS].pattern;
}

/* The masks of the step's design, and who reads which keys. */
static void draw_picture(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                         s2_rect area)
{
    if (model->tour == NULL || model->tour->status != S2_OK || area.rows < 6)
        return;
    const int32_t readers = area.rows >= 14 ? 9 : 0;
    const int32_t width = area.cols >= 60 ? 26 : 0;
    s2_tui_state *const shown = s2_malloc(sizeof *shown); /* too large for a stack */
    if (shown == NULL)
        return;
    *shown = *state;
    shown->layer = -1;
    shown->head = 0;
    shown->zoomed = false;
    const int32_t col = area.col + width + (width > 0 ? 1 : 0), cols = area.cols - col - 1;
    s2_layout_bench places = {.verdicts = {area.row, area.col + 1, width > 0 ? 3 : 0, width - 1},
                              .cost = {area.row + 4, area.col + 1, width > 0 ? area.rows - 4 : 0, width - 1},
                              .readers = {area.row + area.rows - readers, col, readers, cols}};
    s2_layout_masks((s2_rect){area.row, col, area.rows - readers, cols}, &places.union_mask,
                    &places.head_mask);
    s2_panels_draw(model->tour, model->grids, shown, canvas, &places);
    s2_free(shown);
}

static void draw_tour(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const int32_t gap = body.rows > 8 ? 1 : 0;
    int32_t row = body.row + gap;
    s2_canvas_clip(canvas, body);
    for (int32_t line = 0; line < TOUR_LINES; line++) {
        const s2_rect text = {body.row, body.col + 1, body.rows, body.cols - 2};
        row += s2_fold_draw(TOUR[state->tour % S2_TOUR_STEPS].line[line],
                            line == 0 ? S2_STYLE_HEAD : S2_STYLE_TEXT, canvas, text, row);
        row += line == 0 ? gap : 0;
    }
    row += gap;
    draw_picture(model, state, canvas, (s2_rect){row, body.col, body.row + body.rows - row, body.cols});
}

static void handle_tour(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    (void)model;
    if (action == S2_ACT_OPEN)
        state->tour = (state->tour + 1) % S2_TOUR_STEPS;
}

static void click_tour(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    (void)row;
    (void)col;
    handle_tour(model, state, S2_ACT_OPEN);
}

static void command_tour(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    (void)model;
    (void)state;
    s2_buf_puts(buf, "s2 tui --dump tour");
}

const s2_view_ops s2_view_tour = {draw_tour,
                                  handle_tour,
                                  command_tour,
                                  {S2_ACT_OPEN, S2_ACT_GO_BENCH, S2_ACT_GO_DESIGNS, S2_ACT_BACK},
                                  click_tour};
