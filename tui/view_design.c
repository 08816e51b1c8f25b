#include "tui/view.h"

#include <stdio.h>
#include <string.h>

/* The canonical text, line by line, where the workbench has its knobs. */
static void draw_text(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    s2_buf text = {0};
    s2_pattern_print(&facts->pattern, &text);
    int32_t row = area.row;
    s2_canvas_clip(canvas, area);
    for (char *at = text.data;
         text.status == S2_OK && at != NULL && *at != '\0' && row < area.row + area.rows;) {
        char *const end = strchr(at, '\n');
        if (end != NULL)
            *end = '\0';
        s2_canvas_text(canvas, row++, area.col, S2_STYLE_TEXT, at);
        at = end != NULL ? end + 1 : at + strlen(at);
    }
    s2_buf_release(&text);
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_bench at = s2_layout_bench_in(body);
    if (model->design == NULL) {
        s2_canvas_clip(canvas, body);
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM, "no design is open");
        return;
    }
    if (model->design->status == S2_OK)
        draw_text(model->design, canvas, at.knobs);
    s2_panels_draw(model->design, state, canvas, &at);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (s2_panels_handle(model->design, state, action) || action != S2_ACT_TO_BENCH || model->design == NULL)
        return;
    s2_knobs knobs = state->knobs;
    if (model->design->status != S2_OK || !s2_knobs_of(&model->design->pattern, &knobs)) {
        snprintf(state->message, sizeof state->message,
                 "the workbench has knobs for local, stride, sink and dense in blocks only");
        return;
    }
    state->knobs = knobs;
    s2_view_push(state, S2_VIEW_BENCH);
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    if (model->design != NULL && model->design->status == S2_OK)
        s2_buf_printf(buf, "s2 check %.12s\ns2 sim %.12s --len %lld", model->design->hash,
                      model->design->hash, (long long)state->knobs.value[S2_KNOB_LEN]);
}

const s2_view_ops s2_view_design = {"design", "one design: what it reads, proves and costs", draw, handle,
                                    command};
