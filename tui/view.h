/*
 * tui/view.h - inside tui/: a view is a constant struct; this is the table of them, and what views share.
 *
 * To add a view: an enumerator in tui/keymap.h, a file with its s2_view_ops, a line in tui/view.c.
 */
#ifndef S2_TUI_VIEW_H
#define S2_TUI_VIEW_H

#include "tui/layout.h"
#include "tui/model.h"

typedef struct s2_view_ops {
    const char *name;
    const char *help; /* one sentence */
    void (*draw)(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body);
    void (*handle)(const s2_tui_model *model, s2_tui_state *state, s2_action action);
    void (*command)(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf);
} s2_view_ops;

extern const s2_view_ops s2_view_bench, s2_view_designs, s2_view_design, s2_view_compare, s2_view_pareto,
    s2_view_log, s2_view_help, s2_view_tour;
/* By s2_view_id. */
const s2_view_ops *s2_view_at(s2_view_id id);
static inline s2_view_id s2_view_shown(const s2_tui_state *state)
{
    return state->views[state->depth];
}

/* Go to a view: back to it where it is on the stack, else on top. */
void s2_view_push(s2_tui_state *state, s2_view_id id);

/* What the workbench and one design have in common. */
void s2_panels_draw(const s2_facts *facts, const s2_tui_state *state, s2_canvas *canvas,
                    const s2_layout_bench *at);
/* Heads, layers, zoom; false for an action that is none of these. */
bool s2_panels_handle(const s2_facts *facts, s2_tui_state *state, s2_action action);
/* The head and layer shown, inside what the pattern has. */
int32_t s2_panels_layer(const s2_facts *facts, const s2_tui_state *state);
int32_t s2_panels_head(const s2_facts *facts, const s2_tui_state *state);
/* The union of one layer alone, for previews. */
void s2_panels_union(const s2_facts *facts, s2_canvas *canvas, s2_rect area);
void s2_panels_verdicts(const s2_facts *facts, s2_canvas *canvas, s2_rect area);
void s2_panels_cost(const s2_facts *facts, s2_canvas *canvas, s2_rect area);

/* Move a list cursor by an action; false for others. */
bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *at);

/* A mark and its style for a verdict or S2_TUI_NOT_CHECKED. */
char s2_verdict_mark(int32_t verdict, s2_style *style);

#endif /* S2_TUI_VIEW_H */
