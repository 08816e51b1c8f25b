#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "reach/worth.h"

static void draw_knob(const s2_tui_state *state, s2_knob knob, s2_canvas *canvas, s2_rect line)
{
    s2_buf buf = {0};
    s2_knob_print(&state->knobs, knob, &buf);
    const bool here = knob == state->knob;
    const int32_t value_col = line.cols >= 26 ? 15 : 13;
    s2_canvas_text(canvas, line.row, line.col + 1, here ? S2_STYLE_HEAD : S2_STYLE_DIM, s2_knob_label(knob));
    s2_canvas_text(canvas, line.row, line.col + value_col, S2_STYLE_TEXT, buf.data);
    if (here) {
        s2_canvas_glyph(canvas, line.row, line.col, 0x25b8, '>', S2_STYLE_HEAD);
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
    }
    s2_buf_release(&buf);
}

/* A pattern that is text takes the place of the pattern's knobs; the question's knobs stay. */
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

/* "  time -12.3 %" */
static int32_t draw_change(const char *name, double before, double now, bool in_percent, s2_canvas *canvas,
                           int32_t row, int32_t col)
{
    const double by = in_percent ? 100 * (now - before) / before : now - before;
    if (in_percent && !(before > 0))
        return col;
    col = s2_canvas_printf(canvas, row, col, S2_STYLE_DIM, "  %s ", name);
    return s2_canvas_printf(canvas, row, col, by == 0 ? S2_STYLE_DIM : S2_STYLE_TEXT,
                            in_percent ? "%+.2f %%" : "%+.4f", by);
}

/* Compare like with like: expected times, else bounds; worth if both were judged. */
static void draw_changes(const s2_tally *before, const s2_tally *now, s2_canvas *canvas, int32_t row,
                         int32_t col)
{
    s2_buf words = {0};
    const bool same = s2_question_is(&before->question, &now->question);
    s2_question_tell(&before->question, &words);
    if (!same && words.status == S2_OK)
        col = s2_canvas_printf(canvas, row, col, S2_STYLE_DIM,
                               before->question.phase == now->question.phase
                                   ? "  from %s:"
                                   : "  from %s: times of two phases do not compare",
                               words.data);
    s2_buf_release(&words);
    if (before->question.phase != now->question.phase)
        return;
    const bool expected = before->expected && now->expected;
    if (expected)
        col = draw_change("time", before->expected_us, now->expected_us, true, canvas, row, col);
    else if (before->priced && now->priced)
        col = draw_change("bound", before->time_us, now->time_us, true, canvas, row, col);
    if (before->cached && now->cached)
        col = draw_change("cache", before->kv_bytes, now->kv_bytes, true, canvas, row, col);
    if (before->priced && now->priced)
        col = draw_change("unread", before->unread, now->unread, false, canvas, row, col);
    if (before->judged && now->judged) {
        col = draw_change("recall", before->recall, now->recall, false, canvas, row, col);
        draw_change("loss", before->loss, now->loss, false, canvas, row, col);
    }
}

void s2_against_base(const s2_tui_model *model, const s2_facts *facts, s2_canvas *canvas, s2_rect line)
{
    const s2_facts *const base = model->base;
    if (base == NULL || facts == NULL || base->status != S2_OK || facts->status != S2_OK ||
        !s2_question_is(&base->question, &facts->question))
        return;
    const s2_tally before = s2_facts_tally(base), now = s2_facts_tally(facts);
    s2_canvas_clip(canvas, line);
    if (strcmp(base->hash, facts->hash) == 0)
        s2_canvas_text(canvas, line.row, line.col, S2_STYLE_KEY, "this is it");
    else
        draw_changes(&before, &now, canvas, line.row, line.col - 2);
}

static void draw_worth(const s2_late *late, s2_canvas *canvas, int32_t row, int32_t col)
{
    if (!late->asked)
        s2_canvas_text(canvas, row, col, S2_STYLE_DIM, " is being judged...");
    else if (late->not_judged != NULL)
        s2_canvas_printf(canvas, row, col, S2_STYLE_DIM, " unjudged: %s", late->not_judged);
    else
        s2_canvas_printf(canvas, row, col, S2_STYLE_TEXT,
                         " recall %.2f over the training, loss %.3f nats a byte; rms errors %.2f and %.3f",
                         late->recall, late->loss, s2_worth_recall_error, s2_worth_loss_error);
}

/* What the last change did, what all changes since the baseline did, and the worth. */
static void draw_strip(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect strip)
{
    enum { LABEL = 10 };
    const s2_facts *const facts = model->bench;
    if (strip.rows == 0 || facts == NULL || facts->status != S2_OK)
        return;
    const s2_tally now = s2_facts_tally(facts);
    int32_t row = strip.row;
    s2_canvas_clip(canvas, strip);
    s2_canvas_text(canvas, row, 1, S2_STYLE_HEAD, "last step");
    if (model->before.there)
        draw_changes(&model->before, &now, canvas, row, LABEL);
    else
        s2_canvas_text(canvas, row, LABEL, S2_STYLE_DIM,
                       "  what a change does is shown here; b pins a baseline");
    if (state->base[0] != '\0' && strip.rows == 3) {
        s2_canvas_text(canvas, ++row, 1, S2_STYLE_HEAD, "baseline");
        if (model->base != NULL && model->base->status == S2_OK) {
            const s2_tally base = s2_facts_tally(model->base);
            const int32_t col = s2_canvas_printf(canvas, row, LABEL, S2_STYLE_DIM, "  %.8s", base.hash);
            draw_changes(&base, &now, canvas, row, col);
        }
    }
    s2_canvas_text(canvas, ++row, 1, S2_STYLE_HEAD, "worth");
    draw_worth(&facts->late, canvas, row, 6);
    if (model->bench_waits)
        s2_canvas_restyle(canvas, strip, S2_STYLE_DIM);
}

static bool is_text(const s2_tui_state *state)
{
    return state->text[0] != '\0' || state->mode == S2_MODE_TEXT;
}

static void draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const s2_layout_bench places = s2_panels_place(state);
    (void)body;
    s2_canvas_clip(canvas, places.knobs);
    int32_t first = (int32_t)state->knob - places.knobs.rows + 1;
    first = s2_max_i32(first, 0);
    const int32_t beyond = S2_N_KNOBS - first - places.knobs.rows;
    if (is_text(state))
        draw_pattern(state, canvas, places.knobs);
    for (int32_t row = 0; !is_text(state) && row < places.knobs.rows && first + row < S2_N_KNOBS; row++)
        draw_knob(state, (s2_knob)(first + row), canvas,
                  (s2_rect){places.knobs.row + row, places.knobs.col, 1, places.knobs.cols});
    if (!is_text(state) && beyond > 0)
        s2_more_draw(canvas, places.knobs);
    if (model->bench != NULL)
        s2_panels_draw(model->bench, model->grids, state, canvas, &places);
    if (model->bench_waits)
        s2_panels_wait(canvas, &places);
    draw_strip(model, state, canvas, s2_bench_strip(state));
}

static void turn(s2_tui_state *state, int32_t by)
{
    s2_knobs turned = state->knobs;
    s2_knobs_turn(&turned, state->knob, by);
    if (memcmp(&turned, &state->knobs, sizeof turned) == 0)
        return;
    s2_bench_remember(state);
    state->knobs = turned;
}

/* False if the action needs knobs, but the pattern is text. */
static bool has_knobs(s2_tui_state *state, s2_action action)
{
    const bool turns = action == S2_ACT_LESS || action == S2_ACT_MORE || action == S2_ACT_HALVE ||
                       action == S2_ACT_DOUBLE || action == S2_ACT_OPEN;
    if (state->text[0] == '\0' || (action != S2_ACT_AROUND && (!turns || state->knob >= S2_KNOB_LEN)))
        return true;
    snprintf(state->message, sizeof state->message,
             "no knobs describe this pattern: E edits its text, z goes back");
    return false;
}

static void go_in_history(s2_tui_state *state, bool back)
{
    if (!(back ? s2_bench_undo(state) : s2_bench_redo(state)))
        snprintf(state->message, sizeof state->message, "nothing to %s", back ? "undo" : "redo");
}

/* Pin the pattern at hand as the baseline; unpin it if it already is. */
static void pin(s2_tui_state *state)
{
    s2_buf text = {0};
    s2_tui_pattern(state, &text);
    s2_buf_add(&text, "", 1);
    const bool again = text.status == S2_OK && strcmp(text.data, state->base) == 0;
    snprintf(state->base, sizeof state->base, "%s", again || text.status != S2_OK ? "" : text.data);
    s2_buf_release(&text);
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
    case S2_ACT_UNDO: go_in_history(state, true); break;
    case S2_ACT_REDO: go_in_history(state, false); break;
    case S2_ACT_OPEN: s2_prompt_open(state, S2_MODE_KNOB, ""); break;
    case S2_ACT_REPAIR: s2_prompt_open(state, S2_MODE_REPAIRS, ""); break;
    case S2_ACT_FILE: s2_prompt_open(state, S2_MODE_FILE, ""); break;
    case S2_ACT_BASELINE: pin(state); break;
    case S2_ACT_TEXT: edit(state); break;
    case S2_ACT_EDITOR: state->request = S2_REQUEST_EDITOR; break;
    case S2_ACT_SAVE: s2_prompt_open(state, S2_MODE_NAME, ""); break;
    case S2_ACT_AROUND:
        state->subject_id = 0;
        s2_form_open(model, state, S2_MODE_AROUND);
        break;
    default: s2_subject_handle(model, state, action);
    }
}

/* A click chooses a knob, another types its value; on a text, it edits that. */
static void click_knobs(const s2_tui_model *model, s2_tui_state *state, s2_rect knobs, int32_t row)
{
    const int32_t first = (int32_t)state->knob >= knobs.rows ? (int32_t)state->knob - knobs.rows + 1 : 0;
    const int32_t clicked = is_text(state)
                                ? S2_KNOB_LEN + row - (knobs.row + knobs.rows - (S2_N_KNOBS - S2_KNOB_LEN))
                                : first + row - knobs.row;
    if (clicked >= S2_N_KNOBS)
        return;
    if (is_text(state) && clicked < S2_KNOB_LEN)
        handle(model, state, S2_ACT_TEXT);
    else if (clicked == (int32_t)state->knob)
        handle(model, state, S2_ACT_OPEN);
    else
        state->knob = (s2_knob)clicked;
}

static void click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_layout_bench places = s2_panels_place(state);
    if (s2_rect_holds(places.knobs, row, col))
        click_knobs(model, state, places.knobs, row);
    else
        s2_panels_click(model->bench, state, &places, row, col);
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

const s2_view_ops s2_view_bench = {
    draw,
    handle,
    command,
    {S2_ACT_MORE, S2_ACT_WITNESS, S2_ACT_SAVE, S2_ACT_VALIDATE, S2_ACT_AROUND, S2_ACT_EXPORT, S2_ACT_TEXT},
    click};
