/*
 * tui/view.h - inside tui/: what a view is, and what views share. docs/adding-a-view.md says how to add one.
 */
#ifndef S2_TUI_VIEW_H
#define S2_TUI_VIEW_H

#include "tui/layout.h"
#include "tui/model.h"

enum { S2_FOOTER_KEYS = 10 };

/* Each view file defines one s2_view_<word>; only tui/view.c names them. */
typedef struct s2_view_ops {
    void (*draw)(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body);
    void (*handle)(const s2_tui_model *model, s2_tui_state *state, s2_action action);
    void (*command)(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf);
    s2_action footer[S2_FOOTER_KEYS]; /* named at the foot of the screen, the most useful first */
    /* a mouse click on a cell of the body; NULL: nothing there can be clicked */
    void (*click)(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col);
} s2_view_ops;

#define S2_VIEW_DECLARE(id, view, ...) extern const s2_view_ops s2_view_##view;
S2_VIEW_TABLE(S2_VIEW_DECLARE)
#undef S2_VIEW_DECLARE

static inline s2_view_id s2_view_shown(const s2_tui_state *state)
{
    return state->views[state->depth];
}

/* The same, but for reach the view from which it was entered, whose design it is about. */
static inline s2_view_id s2_view_entered(const s2_tui_state *state)
{
    const bool beneath = s2_view_shown(state) == S2_VIEW_REACH && state->depth > 0;
    return state->views[beneath ? state->depth - 1 : state->depth];
}

/*
 * The facts that the view is mainly about, NULL for none: the workbench's, the open design's; reach is of the design
 * from which it was entered, else of the workbench.
 */
const s2_facts *s2_view_facts(const s2_tui_model *model, const s2_tui_state *state);

/* Remember the workbench's pattern before a change, so that the change can be undone. */
void s2_bench_remember(s2_tui_state *state);
/* Undo one change, or redo it; false if there is none. */
bool s2_bench_undo(s2_tui_state *state);
bool s2_bench_redo(s2_tui_state *state);
/* Put a pattern on the workbench: as knobs if they express it, else as text; false if that is too long. */
bool s2_bench_take(s2_tui_state *state, const s2_pattern *pattern);
/* Put a typed text on the workbench: as knobs if they express it, else as typed. */
void s2_bench_take_text(s2_tui_state *state, const char *text);

/* Go to a view: back to it if it is on the stack, else push it. */
void s2_view_push(s2_tui_state *state, s2_view_id id);

/* Draw the panels that the workbench shares with the view of one design. */
void s2_panels_draw(const s2_facts *facts, s2_grids *grids, const s2_tui_state *state, s2_canvas *canvas,
                    const s2_layout_bench *places);
/* Dim the panels while their facts no longer match the state. */
void s2_panels_wait(s2_canvas *canvas, const s2_layout_bench *places);
/* Handle heads, layers, zoom, crosshair; false for any other action. */
bool s2_panels_handle(const s2_facts *facts, s2_tui_state *state, s2_action action);
/* A click on a mask puts the crosshair there and says what the cell stands for. */
void s2_panels_click(const s2_facts *facts, s2_tui_state *state, const s2_layout_bench *places, int32_t row,
                     int32_t col);
/* Draw only the union mask of one layer, for previews. */
void s2_panels_union(const s2_facts *facts, s2_grids *grids, s2_canvas *canvas, s2_rect area);

/* ---- the crosshair */
/* Lines that say which heads and layers read a pair of tokens, and why others do not. S2_ENOMEM. */
s2_status s2_cross_tell(const s2_facts *facts, int32_t layer, int64_t q_tok, int64_t k_tok,
                        s2_buf *buf) S2_MUST_CHECK;
/* The cell of an axis that a token is in, -1 if outside; the first token of a cell. */
int32_t s2_cross_cell(s2_range blocks, int64_t block_tok, int32_t cells, int64_t tok);
int64_t s2_cross_tok(s2_range blocks, int64_t block_tok, int32_t cells, int32_t cell);

/* The places of the workbench's or a design's panels; the lines below the workbench's panels. */
s2_layout_bench s2_panels_place(const s2_tui_state *state);
s2_rect s2_bench_strip(const s2_tui_state *state);

/* Draw lines from `first` on, folded at the area's width; a mark in the last corner says that more follow. */
void s2_text_draw(const s2_tui_text *text, int32_t first, s2_canvas *canvas, s2_rect area);

/* tui/view_bench.c: a line that compares facts with the baseline, if that answers the same question. */
void s2_against_base(const s2_tui_model *model, const s2_facts *facts, s2_canvas *canvas, s2_rect line);

/*
 * Draw the canonical text, marking the words in which it differs from any of the others, or (`changes`) only
 * the lines with such words; returns the rows that this takes, even if the area has none.
 */
int32_t s2_texts_draw(const s2_facts *facts, const s2_facts *const *others, int32_t n_others, bool changes,
                      s2_canvas *canvas, s2_rect area);

/* Mark in the area's lower right corner that more follows than it shows. */
void s2_more_draw(s2_canvas *canvas, s2_rect area);

/* Draw one line of text from a row on, folded to the area's columns; returns the rows taken. canvas may be NULL. */
int32_t s2_fold_draw(const char *text, s2_style style, s2_canvas *canvas, s2_rect area, int32_t row);

/* Validate, export, tag, note, star, trash, record, edit and the like; false for any other action. */
bool s2_subject_handle(const s2_tui_model *model, s2_tui_state *state, s2_action action);

/* The row under the cursor of a list. */
const s2_tui_row *s2_subject_row(const s2_tui_model *model, const s2_tui_state *state);
/* The stored design that the view is about, under the cursor or open; 0 if there is none. */
int64_t s2_subject_id(const s2_tui_model *model, const s2_tui_state *state);
/*
 * The facts of that design: NULL while those in the model are of another one, whose verdicts must not stand beside
 * this one's name.
 */
const s2_facts *s2_subject_facts(const s2_tui_model *model, const s2_tui_state *state);
/* Put a stored design on the workbench, and go there. */
void s2_subject_to_bench(s2_tui_state *state, const s2_pattern *pattern);

/* The canonical text on one line, terminated. */
void s2_pattern_line(const s2_pattern *pattern, s2_buf *text);
/* A design as an argument of a command: its hash if it is stored, else its text. */
void s2_subject_print(const s2_tui_model *model, const s2_facts *facts, s2_buf *buf);

/* tui/form.c: a form for a command's options, filled in before the command is run. */
bool s2_mode_is_form(s2_mode mode);
void s2_form_open(const s2_tui_model *model, s2_tui_state *state, s2_mode mode);
/* Handle a key of the form; false: the key belongs to the text typed in the field. */
bool s2_form_step(s2_tui_state *state, int32_t key);
/* The label of the field that is being filled in. */
const char *s2_form_label(const s2_tui_state *state);
/* Write the options to state->prompt as words of a command line, leaving out defaults. */
void s2_form_accept(s2_tui_state *state);
void s2_form_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect body);
/* A click while the form is open. */
void s2_form_click(s2_tui_state *state, s2_rect body, int32_t row, int32_t col);

/* tui/filter.c: type a filter of the list of designs. */
void s2_filter_open(s2_tui_state *state);
/* Go to the list of the designs that pass a filter. */
void s2_filter_list(s2_tui_state *state, const char *filter);
/* Handle a key of the filter. */
s2_action s2_filter_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* Filter the list by what is typed so far. */
void s2_filter_follow(s2_tui_state *state);
/* The line that helps with typing it. */
void s2_filter_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line);

/* Handle a key of the text: a character goes before the caret, backspace and ^U delete. */
void s2_prompt_type(s2_tui_state *state, int32_t key);
/* Ask for a text; one typed here before that could not be used replaces the given one. */
void s2_prompt_open(s2_tui_state *state, s2_mode mode, const char *text);
/* Is a text typed in this mode? Is something chosen from a list? */
bool s2_mode_is_prompt(s2_mode mode);
bool s2_mode_is_choice(s2_mode mode);
/* Handle a key in a mode other than S2_MODE_KEYS; returns the action chosen from the palette, if any. */
s2_action s2_prompt_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* Draw a box over what is there, with a border if there is room for one; returns its inside. */
s2_rect s2_popup_draw(s2_canvas *canvas, s2_rect area, const char *title);
/* The inside of such a box. */
s2_rect s2_popup_inside(s2_rect area);
/* Insert pasted text into what is being typed; refuse it with a message if nothing is. */
void s2_prompt_paste(s2_tui_state *state, const char *text);
void s2_prompt_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect line);
/* A click on a line of the list chooses it; a click outside the list closes it. */
s2_action s2_choice_click(const s2_tui_model *model, s2_tui_state *state, s2_rect body, int32_t row,
                          int32_t col);
void s2_choice_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body);

/* Move a list cursor; false if the action does not move cursors. */
bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *place);

/* The mark of a verdict or of S2_TUI_NOT_CHECKED, and its style. */
char s2_verdict_mark(int32_t verdict, s2_style *style);

#endif /* S2_TUI_VIEW_H */
