#include "tui/view.h"

#include <stdio.h>
#include <string.h>

static const s2_view_ops *const VIEWS[] = {&s2_view_bench,   &s2_view_designs, &s2_view_design,
                                           &s2_view_compare, &s2_view_pareto,  &s2_view_log,
                                           &s2_view_help,    &s2_view_tour};

const s2_view_ops *s2_view_at(s2_view_id id)
{
    return VIEWS[id];
}

void s2_view_push(s2_tui_state *state, s2_view_id id)
{
    state->scroll = 0;
    for (int32_t at = 0; at <= state->depth; at++)
        if (state->views[at] == id) {
            state->depth = at;
            return;
        }
    if (state->depth + 1 < S2_TUI_STACK)
        state->views[++state->depth] = id;
}

bool s2_scroll(s2_action action, int32_t n, int32_t page, int32_t *at)
{
    int32_t to = *at;
    switch (action) {
    case S2_ACT_UP: to--; break;
    case S2_ACT_DOWN: to++; break;
    case S2_ACT_PAGE_UP: to -= page; break;
    case S2_ACT_PAGE_DOWN: to += page; break;
    case S2_ACT_FIRST: to = 0; break;
    case S2_ACT_LAST: to = n - 1; break;
    default: return false;
    }
    to = to >= n ? n - 1 : to;
    *at = to < 0 ? 0 : to;
    return true;
}

s2_tui_state s2_tui_state_init(int32_t rows, int32_t cols, s2_view_id first)
{
    s2_tui_state state = {.knobs = s2_knobs_default(), .layer = -1};
    state.views[0] = first;
    s2_tui_resize(&state, rows, cols);
    return state;
}

void s2_tui_resize(s2_tui_state *state, int32_t rows, int32_t cols)
{
    state->rows = rows < 1 ? 1 : rows > S2_CANVAS_LIMIT_ROWS ? S2_CANVAS_LIMIT_ROWS : rows;
    state->cols = cols < 1 ? 1 : cols > S2_CANVAS_LIMIT_COLS ? S2_CANVAS_LIMIT_COLS : cols;
}

void s2_tui_settle(const s2_tui_model *model, s2_tui_state *state)
{
    const int32_t shown = s2_layout_list_in(s2_layout_frame(state->rows, state->cols).body).list.rows - 2;
    if (state->cursor >= model->n_rows)
        state->cursor = model->n_rows > 0 ? model->n_rows - 1 : 0;
    if (state->cursor < state->top)
        state->top = state->cursor;
    if (shown > 0 && state->cursor >= state->top + shown)
        state->top = state->cursor - shown + 1;
}

/* Does the palette's text occur in a name? "" is in all. */
static bool palette_shows(const s2_tui_state *state, const s2_binding *binding)
{
    return (binding->views & (1u << s2_view_shown(state))) != 0 &&
           strstr(binding->name, state->prompt) != NULL;
}

static const s2_binding *palette_at(const s2_tui_state *state, int32_t wanted)
{
    int32_t n = 0;
    for (int32_t nth = 0; nth < s2_binding_count(); nth++)
        if (palette_shows(state, s2_binding_at(nth)) && n++ == wanted)
            return s2_binding_at(nth);
    return NULL;
}

static void act(const s2_tui_model *model, s2_tui_state *state, s2_action action);

static void type_key(s2_tui_state *state, int32_t key)
{
    enum { CONTROL_U = 21 };
    const size_t n = strlen(state->prompt);
    if (key == CONTROL_U)
        state->prompt[0] = '\0';
    else if (key == S2_KEY_BACKSPACE || key == 8)
        state->prompt[n > 0 ? n - 1 : 0] = '\0';
    else if (key >= ' ' && key < 127 && n + 1 < sizeof state->prompt) {
        state->prompt[n] = (char)key;
        state->prompt[n + 1] = '\0';
    }
    state->palette_at = 0;
}

static void accept_prompt(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_mode mode = state->mode;
    state->mode = S2_MODE_KEYS;
    if (mode == S2_MODE_FILTER) {
        snprintf(state->filter, sizeof state->filter, "%s", state->prompt);
        state->cursor = state->top = 0;
        state->request = S2_REQUEST_LIST;
    } else if (mode == S2_MODE_NAME) {
        state->request = S2_REQUEST_SAVE;
    } else if (mode == S2_MODE_PALETTE) {
        const s2_binding *const chosen = palette_at(state, state->palette_at);
        if (chosen != NULL)
            act(model, state, chosen->action);
    }
}

static void step_prompt(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    if (state->mode == S2_MODE_COMMAND || key == S2_KEY_ESC) {
        if (state->mode == S2_MODE_COMMAND && key == 'y')
            state->request = S2_REQUEST_COPY;
        state->mode = S2_MODE_KEYS;
    } else if (key == S2_KEY_ENTER || key == '\r') {
        accept_prompt(model, state);
    } else if (state->mode == S2_MODE_PALETTE && (key == S2_KEY_UP || key == S2_KEY_DOWN)) {
        const int32_t to = state->palette_at + (key == S2_KEY_DOWN ? 1 : -1);
        if (palette_at(state, to) != NULL)
            state->palette_at = to;
    } else {
        type_key(state, key);
    }
}

static void go_back(s2_tui_state *state)
{
    state->scroll = 0;
    if (state->depth > 0)
        state->depth--;
    else
        state->request = S2_REQUEST_QUIT;
}

/* What every view has; false for what is the view's own. */
static bool act_everywhere(s2_tui_state *state, s2_action action)
{
    switch (action) {
    case S2_ACT_BACK: go_back(state); return true;
    case S2_ACT_QUIT: state->request = S2_REQUEST_QUIT; return true;
    case S2_ACT_BENCH: s2_view_push(state, S2_VIEW_BENCH); return true;
    case S2_ACT_DESIGNS: s2_view_push(state, S2_VIEW_DESIGNS); return true;
    case S2_ACT_LOG: s2_view_push(state, S2_VIEW_LOG); return true;
    case S2_ACT_PARETO: s2_view_push(state, S2_VIEW_PARETO); return true;
    case S2_ACT_TOUR: s2_view_push(state, S2_VIEW_TOUR); return true;
    case S2_ACT_HELP: s2_view_push(state, S2_VIEW_HELP); return true;
    case S2_ACT_COMMAND: state->mode = S2_MODE_COMMAND; return true;
    case S2_ACT_COPY: state->request = S2_REQUEST_COPY; return true;
    case S2_ACT_REDRAW: state->request = S2_REQUEST_REDRAW; return true;
    case S2_ACT_PALETTE:
        state->mode = S2_MODE_PALETTE;
        state->prompt[0] = '\0';
        state->palette_at = 0;
        return true;
    default: return false;
    }
}

static void act(const s2_tui_model *model, s2_tui_state *state, s2_action action)
{
    if (action != S2_ACT_NONE && !act_everywhere(state, action))
        s2_view_at(s2_view_shown(state))->handle(model, state, action);
}

void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    state->request = S2_REQUEST_NONE;
    state->message[0] = '\0';
    if (state->mode != S2_MODE_KEYS)
        step_prompt(model, state, key);
    else
        act(model, state, s2_keymap_find(s2_view_shown(state), key == '\r' ? S2_KEY_ENTER : key));
    s2_tui_settle(model, state);
}

void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    s2_view_at(s2_view_shown(state))->command(model, state, buf);
}

static void draw_title(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const s2_view_id id = s2_view_shown(state);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    int32_t col = s2_canvas_printf(canvas, line.row, 1, S2_STYLE_BAR, "s2 %s", s2_view_at(id)->name);
    const s2_facts *const facts = id == S2_VIEW_BENCH    ? model->bench
                                  : id == S2_VIEW_DESIGN ? model->design
                                                         : NULL;
    if (id == S2_VIEW_DESIGN)
        col = s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%.60s", state->design_name);
    if (facts != NULL && facts->status == S2_OK)
        s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%.8s  %lld tokens", facts->hash,
                         (long long)facts->question.len_tok);
    const int32_t at = line.cols - (int32_t)strlen(model->source) - 1;
    if (id == S2_VIEW_DESIGNS && at > col + 2)
        s2_canvas_text(canvas, line.row, at, S2_STYLE_BAR, model->source);
}

/* Keys worth a place in the footer, by view. */
static const char *footer_of(s2_view_id id)
{
    static const char *const texts[] = {
        "arrows turn  [ ] by two  . head  n hole  i o zoom  s save  = command  ? keys",
        "enter open  / filter  S sort  space mark  c compare  * star  = cmd  ? keys",
        ". , head  { } layer  n hole  i o 0 zoom  e edit  = command  q back  ? keys",
        "up down scroll  q back  = command  ? keys",
        "up down next design  enter open  O front  . beaten  x union violated  ? keys",
        "up down scroll  q back",
        "up down scroll  q back",
        "enter next step  1 workbench  2 designs  q back"};
    return texts[id];
}

static void draw_footer(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    s2_canvas_clip(canvas, line);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    s2_buf repair = {0};
    if (s2_view_shown(state) == S2_VIEW_BENCH && model->bench != NULL)
        s2_facts_repair(model->bench, &repair);
    if (state->mode == S2_MODE_FILTER || state->mode == S2_MODE_NAME)
        s2_canvas_printf(canvas, line.row, 1, S2_STYLE_CURSOR, "%s: %s_",
                         state->mode == S2_MODE_FILTER ? "filter" : "save as", state->prompt);
    else if (state->message[0] != '\0')
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, state->message);
    else if (repair.len > 0)
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, repair.data);
    else
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, footer_of(s2_view_shown(state)));
    s2_buf_release(&repair);
}

static void draw_palette(const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const int32_t rows = body.rows < 14 ? body.rows : 14;
    const s2_rect area = {body.row, 0, rows, body.cols > 72 ? 72 : body.cols};
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_TEXT);
    s2_canvas_printf(canvas, area.row, area.col, S2_STYLE_CURSOR, ": %-69.69s", state->prompt);
    const int32_t first = state->palette_at >= rows - 1 ? state->palette_at - rows + 2 : 0;
    for (int32_t n = 0; n < rows - 1; n++) {
        const s2_binding *const binding = palette_at(state, first + n);
        if (binding == NULL)
            break;
        const s2_style style = first + n == state->palette_at ? S2_STYLE_CURSOR : S2_STYLE_TEXT;
        s2_canvas_printf(canvas, area.row + 1 + n, area.col, style, "  %-16s %-8s %s", binding->name,
                         binding->shown, binding->help);
    }
}

/* The command, folded at the screen's edge, over the lower lines of the body. */
static void draw_command(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                         s2_rect body)
{
    s2_buf buf = {0};
    s2_tui_command(model, state, &buf);
    const int32_t width = body.cols - 2;
    int32_t lines = 1;
    int32_t at_col = 0;
    for (size_t at = 0; at < buf.len; at++) {
        const bool fold = buf.data[at] == '\n' || ++at_col > width;
        lines += fold;
        at_col = fold ? buf.data[at] != '\n' : at_col;
    }
    lines = lines > body.rows ? body.rows : lines;
    const s2_rect area = {body.row + body.rows - lines, 0, lines, body.cols};
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_CURSOR);
    int32_t row = area.row, col = 1;
    for (size_t at = 0; at < buf.len; at++) {
        if (buf.data[at] == '\n' || col > width) {
            row++;
            col = 1;
        }
        const char one[2] = {buf.data[at], '\0'};
        if (buf.data[at] != '\n')
            col = s2_canvas_text(canvas, row, col, S2_STYLE_CURSOR, one);
    }
    s2_buf_release(&buf);
}

void s2_tui_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas)
{
    const s2_layout at = s2_layout_frame(canvas->rows, canvas->cols);
    s2_canvas_clear(canvas);
    if (at.tiny) {
        s2_canvas_text(canvas, 0, 0, S2_STYLE_TEXT, "s2: 20x5 or more");
        return;
    }
    draw_title(model, state, canvas, at.title);
    s2_canvas_clip(canvas, at.body);
    s2_view_at(s2_view_shown(state))->draw(model, state, canvas, at.body);
    if (state->mode == S2_MODE_PALETTE)
        draw_palette(state, canvas, at.body);
    if (state->mode == S2_MODE_COMMAND)
        draw_command(model, state, canvas, at.body);
    if (at.footer.rows > 0 || state->mode == S2_MODE_FILTER || state->mode == S2_MODE_NAME)
        draw_footer(model, state, canvas, at.footer.rows > 0 ? at.footer : at.title);
}
