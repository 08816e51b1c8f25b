#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

/* By s2_view_id. */
static const struct {
    const s2_view_ops *ops;
    s2_request request;
} VIEWS[S2_N_VIEWS] = {
#define ENTRY(id, view, title, key, shown, key_help, request, scrolls, help) {&s2_view_##view, request},
    S2_VIEW_TABLE(ENTRY)
#undef ENTRY
};

static void go_back(s2_tui_state *state)
{
    state->scroll = 0;
    const s2_view_id view = s2_view_shown(state);
    if (state->cross && (view == S2_VIEW_BENCH || view == S2_VIEW_DESIGN))
        state->cross = false;
    else if (state->depth > 0)
        state->depth--;
    else
        snprintf(state->message, sizeof state->message, "this is the first view; Q leaves");
}

/* Ask before leaving if that would lose or end something. */
static void ask_to_quit(const s2_tui_model *model, s2_tui_state *state)
{
    const bool unsaved = memcmp(&state->knobs, &state->knobs_saved, sizeof state->knobs) != 0 ||
                         strcmp(state->text, state->text_saved) != 0;
    state->request = S2_REQUEST_NONE;
    if (model->busy == NULL && !unsaved) {
        state->request = S2_REQUEST_QUIT;
        return;
    }
    state->mode = S2_MODE_QUIT;
    snprintf(state->message, sizeof state->message, "leave? %s%s%.60s: y leaves, any other key stays",
             unsaved ? "the workbench is not saved" : "", unsaved && model->busy != NULL ? "; " : "",
             model->busy != NULL ? model->busy : "");
}

/* False if the action does not go to a view. */
static bool go_to_view(s2_tui_state *state, s2_action action)
{
    if (action < S2_ACT_GO)
        return false;
    const s2_view_id id = (s2_view_id)(action - S2_ACT_GO);
    s2_view_push(state, id);
    state->request = VIEWS[id].request;
    return true;
}

/* Actions that every view has; false for the view's own. */
static bool act_everywhere(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    switch (action) {
    case S2_ACT_BACK: go_back(state); return true;
    case S2_ACT_QUIT: ask_to_quit(model, state); return true;
    case S2_ACT_CANCEL: state->request = S2_REQUEST_CANCEL; return true;
    case S2_ACT_COMMAND: state->mode = S2_MODE_COMMAND; return true;
    case S2_ACT_COPY: state->request = S2_REQUEST_COPY; return true;
    case S2_ACT_REDRAW: state->request = S2_REQUEST_REDRAW; return true;
    case S2_ACT_DUMP: s2_prompt_open(state, S2_MODE_DUMP, "s2-screen.txt"); return true;
    case S2_ACT_PALETTE: s2_prompt_open(state, S2_MODE_PALETTE, ""); return true;
    default: return false;
    }
}

static void act(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (action != S2_ACT_NONE && !go_to_view(state, action) && !act_everywhere(model, state, action))
        VIEWS[s2_view_shown(state)].ops->handle(model, state, action);
}

void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    key = key == '\r' ? S2_KEY_ENTER : key;
    state->request = S2_REQUEST_NONE;
    state->message[0] = '\0';
    if (state->mode == S2_MODE_FILTER)
        act(model, state, s2_filter_step(model, state, key));
    else if (state->mode != S2_MODE_KEYS)
        act(model, state, s2_prompt_step(model, state, key));
    else
        act(model, state, s2_keymap_find(s2_view_shown(state), key));
    s2_tui_settle(model, state);
}

void s2_tui_paste(const s2_tui_model *model, s2_tui_state *state, const char *text)
{
    s2_prompt_paste(state, text);
    s2_filter_follow(state);
    s2_tui_settle(model, state);
}

/* The main pattern of the view if repairs of it are known, which the footer names; else NULL. */
static const s2_facts *repaired(const s2_tui_model *model, const s2_tui_state *state)
{
    const bool mends = s2_binding_of(s2_view_shown(state), S2_ACT_REPAIR) != NULL;
    const s2_facts *const shown = mends ? s2_view_facts(model, state) : NULL;
    return shown != NULL && shown->status == S2_OK && shown->late.n_offers > 0 ? shown : NULL;
}

/* The column after a key of the footer that begins at col; -1 if it has no room. */
static int32_t footer_end(const s2_binding *b, s2_rect line, int32_t col)
{
    const int32_t end = line.cols > 30 ? line.cols - 8 : line.cols;
    const int32_t n = (int32_t)strcspn(b->shown, " ") + 1 + (int32_t)strlen(b->name);
    return col + n > end ? -1 : col + n + 2;
}

/* The action that the footer names at a column; its last columns name the help. */
static s2_action footer_action(s2_view_id view, s2_rect line, int32_t clicked)
{
    const s2_action *const named = VIEWS[view].ops->footer;
    const s2_binding *b;
    int32_t col = 1;
    if (view != S2_VIEW_HELP && line.cols > 30 && clicked >= line.cols - 8)
        return S2_ACT_GO_HELP;
    for (int32_t nth = 0; nth < S2_FOOTER_KEYS && (b = s2_binding_of(view, named[nth])) != NULL; nth++) {
        const int32_t end = footer_end(b, line, col);
        if (end < 0 || clicked < end - 2)
            return end >= 0 && clicked >= col ? b->action : S2_ACT_NONE;
        col = end;
    }
    return S2_ACT_NONE;
}

/* A click while something is typed or chosen, or shown over the view. */
static void click_mode(const s2_tui_model *model, s2_tui_state *state, s2_rect body, int32_t row, int32_t col)
{
    if (s2_mode_is_choice(state->mode))
        act(model, state, s2_choice_click(model, state, body, row, col));
    else if (s2_mode_is_form(state->mode))
        s2_form_click(state, body, row, col);
    else if (state->mode == S2_MODE_COMMAND)
        state->mode = S2_MODE_KEYS;
}

static void click_view(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col)
{
    const s2_layout frame = s2_layout_frame(state->rows, state->cols);
    const s2_view_ops *const ops = VIEWS[s2_view_shown(state)].ops;
    if (frame.footer.rows > 0 && row == frame.footer.row)
        act(model, state,
            repaired(model, state) != NULL && col < frame.footer.cols - 8
                ? S2_ACT_REPAIR
                : footer_action(s2_view_shown(state), frame.footer, col));
    else if (row == frame.title.row && model->busy != NULL && col >= frame.title.cols - 10)
        act(model, state, S2_ACT_CANCEL);
    else if (ops->click != NULL && row >= frame.body.row && row < frame.body.row + frame.body.rows)
        ops->click(model, state, row, col);
}

void s2_tui_click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col, int32_t wheel)
{
    if (wheel != 0) {
        s2_tui_step(model, state, wheel < 0 ? S2_KEY_UP : S2_KEY_DOWN);
        return;
    }
    state->request = S2_REQUEST_NONE;
    if (state->mode != S2_MODE_QUIT)
        state->message[0] = '\0';
    if (state->mode != S2_MODE_KEYS)
        click_mode(model, state, s2_layout_frame(state->rows, state->cols).body, row, col);
    else
        click_view(model, state, row, col);
    s2_tui_settle(model, state);
}

void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    VIEWS[s2_view_shown(state)].ops->command(model, state, buf);
}

/*
 * At the right edge of the title: what runs in the background, else where the designs come from. Returns the
 * column before which the title ends.
 */
static int32_t draw_corner(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                           s2_rect line)
{
    enum { LEAST_TITLE = 12 };
    const bool lists = s2_view_shown(state) == S2_VIEW_DESIGNS || s2_view_shown(state) == S2_VIEW_TOUR;
    const char *const text = model->busy != NULL ? model->busy : lists ? model->source : "";
    const char *const key = model->busy != NULL ? "  C cancels" : "";
    const int32_t n_key = (int32_t)strlen(key);
    const int32_t room = (model->busy != NULL ? line.cols * 2 / 3 : line.cols / 2) - n_key;
    const int32_t n = s2_min_i32((int32_t)strlen(text), s2_max_i32(room, 0));
    const int32_t begin = line.cols - n - n_key - 1;
    if (n == 0 || begin < LEAST_TITLE)
        return line.cols;
    s2_canvas_clip(canvas, (s2_rect){line.row, begin, 1, n});
    s2_canvas_text(canvas, line.row, begin, S2_STYLE_BAR, text);
    s2_canvas_clip(canvas, line);
    s2_canvas_text(canvas, line.row, begin + n, S2_STYLE_BAR, key);
    return begin - 1;
}

static void draw_question(const s2_question *question, s2_canvas *canvas, int32_t row, int32_t col)
{
    s2_buf words = {0};
    s2_question_tell(question, &words);
    if (words.status == S2_OK)
        s2_canvas_text(canvas, row, col, S2_STYLE_BAR, words.data);
    s2_buf_release(&words);
}

static void draw_title(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const s2_view_id id = s2_view_shown(state);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    s2_canvas_clip(canvas, (s2_rect){line.row, line.col, 1, draw_corner(model, state, canvas, line)});
    int32_t col = s2_canvas_printf(canvas, line.row, 1, S2_STYLE_BAR, "s2 %s", s2_view_info_of(id)->title);
    const bool compares = id == S2_VIEW_COMPARE && model->n_compare > 0;
    const s2_facts *const facts = compares ? model->compare[0] : s2_view_facts(model, state);
    if (id == S2_VIEW_DESIGN || id == S2_VIEW_RECORD)
        col = s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%s", state->design_name);
    if (facts != NULL && facts->status == S2_OK && compares)
        draw_question(&facts->question, canvas, line.row, col + 2);
    else if (facts != NULL && facts->status == S2_OK)
        s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%.8s  %s", facts->hash,
                         s2_count_text(facts->question.len_tok, "token").text);
}

/* Why the typed text does not parse yet, above the line in which it is typed. */
static void draw_refusal(const s2_tui_model *model, s2_canvas *canvas, s2_rect body)
{
    const s2_facts *const facts = model->bench;
    const s2_rect line = {body.row + body.rows - 1, body.col, 1, body.cols};
    if (facts == NULL || facts->status == S2_OK || body.rows < 2)
        return;
    s2_canvas_clip(canvas, line);
    s2_canvas_fill(canvas, line, S2_STYLE_BAD);
    if (facts->diag.col > 0)
        s2_canvas_printf(canvas, line.row, 1, S2_STYLE_BAD, "column %d: %s", (int)facts->diag.col,
                         facts->diag.msg);
    else
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAD, s2_diag_text(&facts->diag, facts->status));
}

/* As many of the view's keys as there is room for. */
static void draw_keys(s2_view_id view, s2_canvas *canvas, s2_rect line)
{
    const s2_action *const named = VIEWS[view].ops->footer;
    const s2_binding *b;
    int32_t col = 1;
    for (int32_t nth = 0; nth < S2_FOOTER_KEYS && (b = s2_binding_of(view, named[nth])) != NULL; nth++) {
        const int32_t end = footer_end(b, line, col);
        if (end < 0)
            return;
        s2_canvas_printf(canvas, line.row, col, S2_STYLE_BAR, "%.*s %s", (int)strcspn(b->shown, " "),
                         b->shown, b->name);
        col = end;
    }
}

/* The repairs that were proved for the design. */
static void draw_repairs(const s2_facts *facts, s2_canvas *canvas, s2_rect line)
{
    int32_t col = s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, "R lists proved repairs: ");
    for (int32_t nth = 0; nth < facts->late.n_offers; nth++)
        col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_BAR, "%s%s", nth > 0 ? "; " : "",
                               facts->late.offers[nth].change);
}

/* A message that is longer than the footer takes lines of the body above it. */
static void draw_message(const char *text, s2_canvas *canvas, s2_rect line)
{
    const s2_rect one = {line.row, line.col + 1, line.row, line.cols - 2};
    const int32_t wanted = s2_fold_draw(text, S2_STYLE_BAR, canvas, one, canvas->rows);
    const int32_t rows = line.row > 0 ? s2_min_i32(wanted, line.row) : 1;
    const s2_rect area = {line.row - rows + 1, line.col, rows, line.cols};
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_BAR);
    s2_fold_draw(text, S2_STYLE_BAR, canvas, one, area.row);
}

/* What the footer says without a message: repairs of the pattern shown, else the view's keys. */
static void draw_said(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const s2_facts *const shown = repaired(model, state);
    const s2_rect left = {line.row, line.col, 1, line.cols > 30 ? line.cols - 8 : line.cols};
    s2_canvas_clip(canvas, left);
    if (shown != NULL)
        draw_repairs(shown, canvas, line);
    else
        draw_keys(s2_view_shown(state), canvas, line);
    s2_canvas_clip(canvas, line);
    if (s2_view_shown(state) != S2_VIEW_HELP && line.cols > 30)
        s2_canvas_text(canvas, line.row, line.cols - 8, S2_STYLE_BAR, " ? keys ");
}

static void draw_footer(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    s2_canvas_clip(canvas, line);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    if (s2_mode_is_prompt(state->mode))
        s2_prompt_draw(state, canvas, line);
    else if (state->message[0] != '\0')
        draw_message(state->message, canvas, line);
    else
        draw_said(model, state, canvas, line);
}

/* While a path is typed: what the export keeps and loses. */
static void draw_loss(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const int32_t rows = s2_min_i32(body.rows, 13);
    const s2_rect area = {body.row + body.rows - rows, body.col, rows, s2_min_i32(body.cols, 80)};
    char title[80];
    snprintf(title, sizeof title, "export to %.40s   %s, esc leaves",
             state->format < model->n_formats ? model->formats[state->format].name : "",
             model->loss_refused ? "not possible" : "enter writes");
    s2_text_draw(&model->loss, 0, canvas, s2_popup_draw(canvas, area, title));
}

/* Break a text at line ends and at the width, and draw it if there is an area; returns the rows. */
static int32_t break_lines(const s2_buf *text, int32_t width, s2_canvas *canvas, const s2_rect *area)
{
    int32_t row = 0, col = 0;
    for (size_t byte = 0; byte < text->len; byte++) {
        const bool end = text->data[byte] == '\n';
        if (end || col == width) {
            row++;
            col = 0;
        }
        const char one[2] = {text->data[byte], '\0'};
        if (area != NULL && !end)
            s2_canvas_text(canvas, area->row + row, area->col + col, S2_STYLE_TEXT, one);
        col += !end;
    }
    return row + 1;
}

/* The command, folded at the screen's edge, over the lower lines of the body. */
static void draw_command(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                         s2_rect body)
{
    s2_buf buf = {0};
    s2_tui_command(model, state, &buf);
    if (buf.len == 0)
        s2_buf_puts(&buf, "no command yet: the design is still being derived");
    const int32_t rows = s2_min_i32(break_lines(&buf, body.cols - 2, canvas, NULL) + 2, body.rows);
    const s2_rect area = {body.row + body.rows - rows, body.col, rows, body.cols};
    const s2_rect inside = s2_popup_draw(canvas, area, "the command that prints this; y copies it");
    break_lines(&buf, inside.cols, canvas, &inside);
    s2_buf_release(&buf);
}

void s2_tui_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas)
{
    const s2_layout frame = s2_layout_frame(canvas->rows, canvas->cols);
    s2_canvas_clear(canvas);
    if (frame.tiny) {
        s2_canvas_text(canvas, 0, 0, S2_STYLE_TEXT, "s2: 20x5 or more");
        return;
    }
    draw_title(model, state, canvas, frame.title);
    s2_canvas_clip(canvas, frame.body);
    VIEWS[s2_view_shown(state)].ops->draw(model, state, canvas, frame.body);
    if (s2_mode_is_choice(state->mode))
        s2_choice_draw(model, state, canvas, frame.body);
    if (s2_mode_is_form(state->mode))
        s2_form_draw(state, canvas, frame.body);
    if (state->mode == S2_MODE_PATH)
        draw_loss(model, state, canvas, frame.body);
    if (state->mode == S2_MODE_TEXT)
        draw_refusal(model, canvas, frame.body);
    if (state->mode == S2_MODE_FILTER && frame.body.rows > 3)
        s2_filter_draw(model, state, canvas,
                       (s2_rect){frame.body.row + frame.body.rows - 1, frame.body.col, 1, frame.body.cols});
    if (state->mode == S2_MODE_COMMAND)
        draw_command(model, state, canvas, frame.body);
    if (frame.footer.rows > 0 || s2_mode_is_prompt(state->mode))
        draw_footer(model, state, canvas, frame.footer.rows > 0 ? frame.footer : frame.title);
}
