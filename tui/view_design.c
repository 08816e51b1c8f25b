#include "tui/view.h"

#include <stdio.h>
#include <string.h>

/* The canonical text, line by line, where the workbench has its knobs; returns the row below it. */
static int32_t draw_text(const s2_facts *facts, s2_canvas *canvas, s2_rect area)
{
    s2_buf text = {0};
    s2_pattern_print(&facts->pattern, &text);
    int32_t row = area.row;
    s2_canvas_clip(canvas, area);
    for (char *line = text.data;
         text.status == S2_OK && line != NULL && *line != '\0' && row < area.row + area.rows;) {
        char *const end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        row += s2_fold_draw(line, S2_STYLE_TEXT, canvas, area, row);
        line = end != NULL ? end + 1 : line + strlen(line);
        if (row > area.row + area.rows || (row == area.row + area.rows && *line != '\0'))
            s2_more_draw(canvas, area);
    }
    s2_buf_release(&text);
    return row;
}

/* What is stored about it, as far as there is room: tags, notes, the latest validation with its needles. */
static void draw_record(const s2_tui_model *model, s2_canvas *canvas, s2_rect area)
{
    if (area.rows < 2 || model->record.n_lines == 0)
        return;
    s2_text_draw(&model->record, 0, canvas, area);
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_bench places = s2_panels_place(state);
    const s2_facts *const facts = s2_subject_facts(model, state);
    if (facts == NULL) {
        s2_canvas_clip(canvas, body);
        s2_canvas_text(canvas, body.row, 1, S2_STYLE_DIM,
                       model->design_waits ? "proving..." : "no design is open");
        return;
    }
    if (facts->status == S2_OK) {
        const int32_t row = draw_text(facts, canvas, places.knobs) + 1;
        draw_record(
            model, canvas,
            (s2_rect){row, places.knobs.col, places.knobs.row + places.knobs.rows - row, places.knobs.cols});
    }
    s2_panels_draw(facts, model->grids, state, canvas, &places);
}

static void handle(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (!s2_panels_handle(s2_subject_facts(model, state), state, action))
        s2_subject_handle(model, state, action);
}

static void click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_layout_bench places = s2_panels_place(state);
    if (s2_rect_holds(places.knobs, row, col))
        handle(model, state, S2_ACT_RECORD);
    else
        s2_panels_click(s2_subject_facts(model, state), state, &places, row, col);
}

static void command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    const s2_facts *const facts = s2_subject_facts(model, state);
    if (facts == NULL || facts->status != S2_OK)
        return;
    s2_buf_puts(buf, "s2 check ");
    s2_subject_print(model, facts, buf);
    s2_buf_printf(buf, "%s\ns2 sim ", model->database);
    s2_subject_print(model, facts, buf);
    s2_buf_puts(buf, " ");
    s2_question_print(&facts->question, buf);
    s2_buf_puts(buf, model->database);
}

const s2_view_ops s2_view_design = {draw,
                                    handle,
                                    command,
                                    {S2_ACT_HEAD_NEXT, S2_ACT_WITNESS, S2_ACT_TO_BENCH, S2_ACT_VALIDATE,
                                     S2_ACT_EXPORT, S2_ACT_RECORD, S2_ACT_ZOOM_IN, S2_ACT_LAYER_NEXT},
                                    click};
