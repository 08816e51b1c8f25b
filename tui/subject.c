/*
 * What can be done with a design, be it under a cursor, open, or on the workbench.
 */
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

static void ask(s2_tui_state *state, s2_request request, int64_t id)
{
    state->request = request;
    state->request_id = id;
}

void s2_subject_to_bench(s2_tui_state *state, const s2_pattern *pattern)
{
    if (!s2_bench_take(state, pattern)) {
        snprintf(state->message, sizeof state->message, "its text is too long for the workbench");
        return;
    }
    state->knobs_saved = state->knobs;
    memcpy(state->text_saved, state->text, sizeof state->text);
    s2_view_push(state, S2_VIEW_BENCH);
}

/* Its text alone is needed, which is asked for where the facts are not there yet. */
static void to_bench(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_facts *const facts = s2_subject_facts(model, state);
    if (facts == NULL)
        ask(state, S2_REQUEST_TO_BENCH, s2_subject_id(model, state));
    else if (facts->status == S2_OK)
        s2_subject_to_bench(state, &facts->pattern);
}

/* Take the design to the workbench and choose a repair there. */
static void mend(const s2_tui_model *model, s2_tui_state *state)
{
    if (s2_subject_facts(model, state) == NULL) {
        snprintf(state->message, sizeof state->message, "no repair yet: the design is still being derived");
        return;
    }
    to_bench(model, state);
    if (s2_view_shown(state) == S2_VIEW_BENCH)
        s2_prompt_open(state, S2_MODE_REPAIRS, "");
}

/* Go to a view of the design under the cursor. */
static void open_in(const s2_tui_model *model, s2_tui_state *state, s2_view_id view, s2_request request)
{
    const s2_tui_row *const row = s2_subject_row(model, state);
    const s2_view_id from = s2_view_shown(state);
    if (from == S2_VIEW_DESIGNS || from == S2_VIEW_PARETO) {
        state->design_id = row->id;
        state->layer = -1;
        state->zoomed = false;
        snprintf(state->design_name, sizeof state->design_name, "%s",
                 row->name[0] != '\0' ? row->name : row->hash);
    }
    s2_view_push(state, view);
    ask(state, request, state->design_id);
}

/* Pin the design that is shown as the baseline; unpin it if it already is. */
static void pin(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_facts *const facts = s2_subject_facts(model, state);
    s2_buf text = {0};
    if (facts == NULL || facts->status != S2_OK || model->design_waits) {
        snprintf(state->message, sizeof state->message,
                 "nothing is pinned: the design is still being derived");
        return;
    }
    s2_pattern_line(&facts->pattern, &text);
    const bool fits = text.status == S2_OK && text.len < sizeof state->base;
    const bool again = fits && strcmp(text.data, state->base) == 0;
    snprintf(state->base, sizeof state->base, "%s", fits && !again ? text.data : "");
    snprintf(
        state->message, sizeof state->message, "%s",
        !fits ? "its text is too long for a baseline"
        : again
            ? "the baseline is unpinned"
            : "pinned as the baseline: list, compare and workbench show what differs from it; b unpins it");
    s2_buf_release(&text);
}

/* Ask for a price at the length and on the GPU of the one that is shown. */
static void ask_price(const s2_tui_model *model, s2_tui_state *state)
{
    s2_buf text = {0};
    const s2_facts *const facts = s2_subject_facts(model, state);
    const s2_question question = facts != NULL ? facts->question : s2_knobs_question(&state->knobs);
    s2_question_print(&question, &text);
    s2_prompt_open(state, S2_MODE_PRICE, text.status == S2_OK ? text.data : "");
    s2_buf_release(&text);
}

void s2_subject_print(const s2_tui_model *model, const s2_facts *facts, s2_buf *buf)
{
    s2_buf text = {0};
    if (model->stored) {
        s2_buf_printf(buf, "%.12s", facts->hash);
        return;
    }
    s2_pattern_line(&facts->pattern, &text);
    s2_buf_shell(buf, text.data != NULL ? text.data : "");
    s2_buf_release(&text);
}

bool s2_subject_handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    const int64_t id = s2_subject_id(model, state);
    if (id == 0 && s2_view_shown(state) != S2_VIEW_BENCH)
        return false;
    state->subject_id = id;
    switch (action) {
    case S2_ACT_BASELINE: pin(model, state); return true;
    case S2_ACT_VALIDATE: s2_form_open(model, state, S2_MODE_VALIDATE); return true;
    case S2_ACT_PROVE: s2_prompt_open(state, S2_MODE_PROVE, "--engine algebra"); return true;
    case S2_ACT_PRICE: ask_price(model, state); return true;
    case S2_ACT_EXPORT: s2_prompt_open(state, S2_MODE_FORMATS, ""); return true;
    case S2_ACT_TAG: s2_prompt_open(state, S2_MODE_TAG, ""); return true;
    case S2_ACT_NOTE: s2_prompt_open(state, S2_MODE_NOTE, ""); return true;
    case S2_ACT_STAR: ask(state, S2_REQUEST_STAR, id); return true;
    case S2_ACT_TRASH: ask(state, S2_REQUEST_TRASH, id); return true;
    case S2_ACT_UNDO: ask(state, S2_REQUEST_UNDO, id); return true;
    case S2_ACT_OPEN: open_in(model, state, S2_VIEW_DESIGN, S2_REQUEST_OPEN); return true;
    case S2_ACT_RECORD: open_in(model, state, S2_VIEW_RECORD, S2_REQUEST_RECORD); return true;
    case S2_ACT_TO_BENCH: to_bench(model, state); return true;
    case S2_ACT_REPAIR: mend(model, state); return true;
    case S2_ACT_YANK: s2_prompt_open(state, S2_MODE_YANK, ""); return true;
    default: return false;
    }
}
