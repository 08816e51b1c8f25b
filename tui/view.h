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
    /* a button on a cell of the body; NULL: nothing there can be clicked */
    void (*click)(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col);
} s2_view_ops;

#define S2_VIEW_DECLARE(id, view, ...) extern const s2_view_ops s2_view_##view;
S2_VIEW_TABLE(S2_VIEW_DECLARE)
#undef S2_VIEW_DECLARE

static inline s2_view_id s2_view_shown(const s2_tui_state *state)
{
    return state->views[state->depth];
}

/* What the workbench has is about to be changed, and can be gone back to. */
void s2_bench_remember(s2_tui_state *state);
/* Back by one change, or forward again; false where there is none. */
bool s2_bench_undo(s2_tui_state *state);
bool s2_bench_redo(s2_tui_state *state);
/* Take a pattern: as knobs where they say the same, else as its text; false where that is longer than is edited. */
bool s2_bench_take(s2_tui_state *state, const s2_pattern *pattern);
/* Take a text as it is typed, as knobs where they say the same. */
void s2_bench_take_text(s2_tui_state *state, const char *text);

/* Go to a view: back to it where it is on the stack, else on top. */
void s2_view_push(s2_tui_state *state, s2_view_id id);

/* What the workbench and one design have in common. */
void s2_panels_draw(const s2_facts *facts, s2_grids *grids, const s2_tui_state *state, s2_canvas *canvas,
                    const s2_layout_bench *at);
/* Over panels whose facts are not those of the state any more. */
void s2_panels_wait(s2_canvas *canvas, const s2_layout_bench *at);
/* Heads, layers, zoom; false for an action that is none of these. */
bool s2_panels_handle(const s2_facts *facts, s2_tui_state *state, s2_action action);
/* A click on a mask says what the cell stands for. */
void s2_panels_click(const s2_facts *facts, s2_tui_state *state, const s2_layout_bench *at, int32_t row,
                     int32_t col);
/* The union of one layer alone, for previews. */
void s2_panels_union(const s2_facts *facts, s2_grids *grids, s2_canvas *canvas, s2_rect area);

/* ---- the crosshair */
/* Who reads a pair of tokens, heads and layers, and why the others do not; lines. S2_ENOMEM. */
s2_status s2_cross_tell(const s2_facts *facts, int32_t layer, int64_t q_tok, int64_t k_tok,
                        s2_buf *buf) S2_MUST_CHECK;
/* Which of an axis' cells a token is in, -1 outside; the first token of a cell. */
int32_t s2_cross_cell(s2_range blocks, int64_t block_tok, int32_t cells, int64_t tok);
int64_t s2_cross_tok(s2_range blocks, int64_t block_tok, int32_t cells, int32_t cell);

/* Where the panels of the workbench or of a design are; the lines below the workbench's panels. */
s2_layout_bench s2_panels_place(const s2_tui_state *state);
s2_rect s2_bench_strip(const s2_tui_state *state);

/* Lines from `first` on, folded at the area's width; a mark at the right edge says that more follow. */
void s2_text_draw(const s2_tui_text *text, int32_t first, s2_canvas *canvas, s2_rect area);

/* tui/view_bench.c: a line of what facts are against the baseline, where one is pinned and was asked the same; else nothing. */
void s2_against_base(const s2_tui_model *model, const s2_facts *facts, s2_canvas *canvas, s2_rect line);

/*
 * The canonical text in an area, the words marked in which it differs from any of the others, or only the lines
 * that hold such words; returns the rows that it takes, in an area without rows too.
 */
int32_t s2_texts_draw(const s2_facts *facts, const s2_facts *const *others, int32_t n_others, bool changes,
                      s2_canvas *canvas, s2_rect area);

/* The mark that more follows than the area shows, at its lower right edge. */
void s2_more_draw(s2_canvas *canvas, s2_rect area);

/* One line of text from a row on, folded in the area's columns; the rows that it took. */
int32_t s2_fold_draw(const char *text, s2_style style, s2_canvas *canvas, s2_rect area, int32_t row);

/* Validate, export, tag, note, star, trash, record, edit; false for an action that is none of these. */
bool s2_subject_handle(const s2_tui_model *model, s2_tui_state *state, s2_action action);

/* The canonical text in one line, terminated. */
void s2_pattern_line(const s2_pattern *pattern, s2_buf *text);
/* A design as a word of a command: a stored one by its hash, others by their text. */
void s2_subject_print(const s2_tui_model *model, const s2_facts *facts, s2_buf *buf);

/* tui/form.c: what is filled in of a command's options, before it is run. */
bool s2_mode_is_form(s2_mode mode);
void s2_form_open(const s2_tui_model *model, s2_tui_state *state, s2_mode mode);
/* A key of the form; false: of what is typed in its field. */
bool s2_form_step(s2_tui_state *state, int32_t key);
/* The field that is being filled in, as it is called. */
const char *s2_form_label(const s2_tui_state *state);
/* Words of the command line, without those that the command takes anyway, in state->prompt. */
void s2_form_accept(s2_tui_state *state);
void s2_form_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect body);
/* A click on a line of it. */
void s2_form_click(s2_tui_state *state, s2_rect body, int32_t row, int32_t col);

/* tui/filter.c: a filter that is typed; its keys; apply one to the list; the line that helps with it. */
void s2_filter_open(s2_tui_state *state);
/* Go to the list of what a filter leaves. */
void s2_filter_list(s2_tui_state *state, const char *filter);
s2_action s2_filter_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* The list is that of what is typed. */
void s2_filter_follow(s2_tui_state *state);
void s2_filter_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line);

/* One more character before the caret. */
void s2_prompt_type(s2_tui_state *state, int32_t key);
/* Ask for a text; one that was typed for this before and could not be used is there again. */
void s2_prompt_open(s2_tui_state *state, s2_mode mode, const char *text);
/* Is something typed in this mode, or chosen from a list? */
bool s2_mode_is_prompt(s2_mode mode);
bool s2_mode_is_choice(s2_mode mode);
/* A key in a mode other than S2_MODE_KEYS; the action that was chosen from the palette, or S2_ACT_NONE. */
s2_action s2_prompt_step(const s2_tui_model *model, s2_tui_state *state, int32_t key);
/* A bordered box over what is there; returns its inside. Without a border where there is no room for one. */
s2_rect s2_popup_draw(s2_canvas *canvas, s2_rect area, const char *title);
/* Where that inside is. */
s2_rect s2_popup_inside(s2_rect area);
/* Pasted text, as far as something is typed. */
void s2_prompt_paste(s2_tui_state *state, const char *text);
void s2_prompt_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect line);
/* The line of what is chosen from that stands there is chosen; a click beside it all leaves. */
s2_action s2_choice_click(const s2_tui_model *model, s2_tui_state *state, s2_rect body, int32_t row,
                          int32_t col);
void s2_choice_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body);

/* Move a list cursor by an action; false for others. */
bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *at);

/* A mark and its style for a verdict or S2_TUI_NOT_CHECKED. */
char s2_verdict_mark(int32_t verdict, s2_style *style);

#endif /* S2_TUI_VIEW_H */
