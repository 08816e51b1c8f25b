#include "tui/view.h"

#include <stdio.h>
#include <string.h>

static const s2_view_ops *const VIEWS[] = {
    &s2_view_bench, &s2_view_designs, &s2_view_design, &s2_view_compare, &s2_view_pareto, &s2_view_record,
    &s2_view_runs,  &s2_view_output,  &s2_view_log,    &s2_view_help,    &s2_view_tour};

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
    if (state->run >= model->n_runs)
        state->run = model->n_runs > 0 ? model->n_runs - 1 : 0;
}

/* ---- choosing by name */

/* A line of a list that is chosen from: a key binding, a format, a saved view. */
typedef struct offer {
    const char *name;
    const char *shown;
    const char *help;
    int32_t nth; /* in its own table */
} offer;

static bool nth_offer(const s2_tui_model *model, const s2_tui_state *state, int32_t nth, offer *out)
{
    if (state->mode == S2_MODE_PALETTE) {
        const s2_binding *const b = s2_binding_at(nth);
        if (b != NULL)
            *out = (offer){b->name, b->shown, b->help, nth};
        return b != NULL;
    }
    const bool formats = state->mode == S2_MODE_FORMATS;
    const s2_tui_choice *const c = formats ? model->formats : model->views;
    if (nth < (formats ? model->n_formats : model->n_views))
        *out = (offer){c[nth].name, "", c[nth].help, nth};
    return nth < (formats ? model->n_formats : model->n_views);
}

/* What is typed occurs in the name or, of other tables than the palette's, in the help. */
static bool is_offered(const s2_tui_state *state, const offer *o)
{
    const bool palette = state->mode == S2_MODE_PALETTE;
    if (palette && (s2_binding_at(o->nth)->views & (1u << s2_view_shown(state))) == 0)
        return false;
    return strstr(o->name, state->prompt) != NULL || (!palette && strstr(o->help, state->prompt) != NULL);
}

static bool offer_at(const s2_tui_model *model, const s2_tui_state *state, int32_t wanted, offer *out)
{
    int32_t n = 0;
    for (int32_t nth = 0; wanted >= 0 && nth_offer(model, state, nth, out); nth++)
        if (is_offered(state, out) && n++ == wanted)
            return true;
    return false;
}

static bool is_choice(s2_mode mode)
{
    return mode == S2_MODE_PALETTE || mode == S2_MODE_FORMATS || mode == S2_MODE_VIEWS;
}

/* ---- typing */

/* What a prompt is called, and what is asked of the owner when it is accepted. */
static const struct {
    const char *label;
    s2_request request;
} PROMPTS[S2_N_MODES] = {
    [S2_MODE_FILTER] = {"filter", S2_REQUEST_LIST},
    [S2_MODE_NAME] = {"save as", S2_REQUEST_SAVE},
    [S2_MODE_VALIDATE] = {"validate", S2_REQUEST_VALIDATE},
    [S2_MODE_PROVE] = {"check", S2_REQUEST_PROVE},
    [S2_MODE_PRICE] = {"sim", S2_REQUEST_PRICE},
    [S2_MODE_AROUND] = {"search around", S2_REQUEST_AROUND},
    [S2_MODE_PATH] = {"write to", S2_REQUEST_EXPORT},
    [S2_MODE_TAG] = {"tag, or -tag", S2_REQUEST_TAG},
    [S2_MODE_NOTE] = {"note", S2_REQUEST_NOTE},
    [S2_MODE_VIEW_NAME] = {"name of this filter and order", S2_REQUEST_VIEW_SAVE},
    [S2_MODE_DUMP] = {"write the screen (.txt .ans .png) to", S2_REQUEST_DUMP},
};

static bool is_prompt(s2_mode mode)
{
    return PROMPTS[mode].label != NULL;
}

void s2_prompt_open(s2_tui_state *state, s2_mode mode, const char *text)
{
    char *const kept = state->kept[mode];
    state->mode = mode;
    state->palette_at = 0;
    snprintf(state->prompt, sizeof state->prompt, "%s", kept[0] != '\0' ? kept : text);
    kept[0] = '\0';
}

void s2_tui_keep(s2_tui_state *state, s2_request request, const char *words)
{
    for (int mode = 0; mode < S2_N_MODES; mode++)
        if (is_prompt((s2_mode)mode) && PROMPTS[mode].request == request)
            snprintf(state->kept[mode], sizeof state->kept[mode], "%s", words);
}

static void act(const s2_tui_model *model, s2_tui_state *state, s2_action action);

/* The last character, however many bytes it has. */
static void rub_out(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
        n--;
    text[n > 0 ? n - 1 : 0] = '\0';
}

static void type_key(s2_tui_state *state, int32_t key)
{
    enum { CONTROL_U = 21 };
    char bytes[5] = "";
    const size_t n = strlen(state->prompt);
    if (key == CONTROL_U)
        state->prompt[0] = '\0';
    else if (key == S2_KEY_BACKSPACE || key == 8)
        rub_out(state->prompt);
    else if (key >= ' ' && key < S2_KEY_UP && !s2_codepoint_is_hostile((uint32_t)key))
        s2_glyph_encode((uint32_t)key, bytes);
    if (n + strlen(bytes) < sizeof state->prompt)
        memcpy(state->prompt + strlen(state->prompt), bytes, strlen(bytes) + 1);
    state->palette_at = 0;
}

static void choose_view(const s2_tui_model *model, s2_tui_state *state, int32_t nth)
{
    const s2_tui_choice *const view = &model->views[nth];
    snprintf(state->filter, sizeof state->filter, "%s", view->filter);
    for (int32_t at = 0; at < S2_TUI_SORTS; at++)
        if (strcmp(s2_tui_sorts[at], view->sort) == 0)
            state->sort = at;
    state->ascending = view->ascending;
    state->cursor = state->top = 0;
    state->request = S2_REQUEST_LIST;
}

static void choose_format(const s2_tui_model *model, s2_tui_state *state, int32_t nth)
{
    state->format = nth;
    s2_prompt_open(state, S2_MODE_PATH, model->formats[nth].path);
    state->request = S2_REQUEST_TRY_EXPORT;
    state->request_id = state->subject_id;
}

static void accept_choice(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_mode mode = state->mode;
    offer chosen;
    const bool found = offer_at(model, state, state->palette_at, &chosen);
    state->mode = S2_MODE_KEYS;
    if (!found)
        return;
    if (mode == S2_MODE_PALETTE)
        act(model, state, s2_binding_at(chosen.nth)->action);
    else if (mode == S2_MODE_FORMATS)
        choose_format(model, state, chosen.nth);
    else
        choose_view(model, state, chosen.nth);
}

static void accept_prompt(s2_tui_state *state)
{
    state->request = PROMPTS[state->mode].request;
    state->request_id = state->subject_id;
    if (state->mode == S2_MODE_FILTER) {
        memcpy(state->filter, state->prompt, sizeof state->filter);
        state->cursor = state->top = 0;
    }
    state->mode = S2_MODE_KEYS;
}

static void step_prompt(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    offer other;
    if (state->mode == S2_MODE_COMMAND || key == S2_KEY_ESC) {
        if (state->mode == S2_MODE_COMMAND && key == 'y')
            state->request = S2_REQUEST_COPY;
        state->mode = S2_MODE_KEYS;
    } else if (key == S2_KEY_ENTER) {
        if (is_choice(state->mode))
            accept_choice(model, state);
        else
            accept_prompt(state);
    } else if (is_choice(state->mode) && (key == S2_KEY_UP || key == S2_KEY_DOWN)) {
        const int32_t to = state->palette_at + (key == S2_KEY_DOWN ? 1 : -1);
        if (offer_at(model, state, to, &other))
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
    case S2_ACT_RUNS:
        s2_view_push(state, S2_VIEW_RUNS);
        state->request = S2_REQUEST_RUNS;
        return true;
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
    if (action != S2_ACT_NONE && !act_everywhere(state, action))
        s2_view_at(s2_view_shown(state))->handle(model, state, action);
}

void s2_tui_step(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    key = key == '\r' ? S2_KEY_ENTER : key;
    state->request = S2_REQUEST_NONE;
    state->message[0] = '\0';
    if (state->mode != S2_MODE_KEYS)
        step_prompt(model, state, key);
    else if (key == S2_KEY_ESC && model->busy != NULL)
        state->request = S2_REQUEST_CANCEL;
    else
        act(model, state, s2_keymap_find(s2_view_shown(state), key));
    s2_tui_settle(model, state);
}

static void click_bench(s2_tui_state *state, s2_rect knobs, int32_t row, int32_t col)
{
    const int32_t first = (int32_t)state->knob >= knobs.rows ? (int32_t)state->knob - knobs.rows + 1 : 0;
    const int32_t at = first + row - knobs.row;
    if (row >= knobs.row && row < knobs.row + knobs.rows && col < knobs.cols && at < S2_N_KNOBS)
        state->knob = (s2_knob)at;
}

void s2_tui_click(const s2_tui_model *model, s2_tui_state *state, int32_t row, int32_t col, int32_t wheel)
{
    const s2_rect body = s2_layout_frame(state->rows, state->cols).body;
    const s2_rect list = s2_layout_list_in(body).list;
    const s2_view_id view = s2_view_shown(state);
    if (wheel != 0 || state->mode != S2_MODE_KEYS) {
        if (wheel != 0)
            s2_tui_step(model, state, wheel < 0 ? S2_KEY_UP : S2_KEY_DOWN);
        return;
    }
    const s2_layout_bench bench = s2_layout_bench_in(body);
    state->request = S2_REQUEST_NONE;
    state->message[0] = '\0';
    if (view == S2_VIEW_BENCH)
        click_bench(state, bench.knobs, row, col);
    if (view == S2_VIEW_BENCH || view == S2_VIEW_DESIGN)
        s2_panels_click(view == S2_VIEW_BENCH ? model->bench : model->design, state, &bench, row, col);
    if (view == S2_VIEW_DESIGNS && row >= list.row + 2 && row < list.row + list.rows)
        state->cursor = state->top + row - list.row - 2;
    else if (view == S2_VIEW_RUNS && row > list.row && row < list.row + list.rows)
        state->run = row - list.row - 1;
    s2_tui_settle(model, state);
}

void s2_tui_command(const s2_tui_model *model, const s2_tui_state *state, s2_buf *buf)
{
    s2_view_at(s2_view_shown(state))->command(model, state, buf);
}

/* At the right edge of the title: what runs in the background, else where the designs come from. */
static void draw_corner(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line,
                        int32_t col)
{
    char text[120];
    const bool lists = s2_view_shown(state) == S2_VIEW_DESIGNS || s2_view_shown(state) == S2_VIEW_TOUR;
    if (model->busy != NULL)
        snprintf(text, sizeof text, "%.*s  esc cancels", line.cols / 2, model->busy);
    else
        snprintf(text, sizeof text, "%.100s", lists ? model->source : "");
    const int32_t at = line.cols - (int32_t)strlen(text) - 1;
    if (at > col + 2 || model->busy != NULL)
        s2_canvas_text(canvas, line.row, at > 1 ? at : 1, S2_STYLE_BAR, text);
}

static void draw_title(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const s2_view_id id = s2_view_shown(state);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    int32_t col = s2_canvas_printf(canvas, line.row, 1, S2_STYLE_BAR, "s2 %s", s2_view_at(id)->name);
    const s2_facts *const facts = id == S2_VIEW_BENCH    ? model->bench
                                  : id == S2_VIEW_DESIGN ? model->design
                                                         : NULL;
    if (id == S2_VIEW_DESIGN || id == S2_VIEW_RECORD)
        col = s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%.60s", state->design_name);
    if (facts != NULL && facts->status == S2_OK)
        col = s2_canvas_printf(canvas, line.row, col + 2, S2_STYLE_BAR, "%.8s  %lld tokens", facts->hash,
                               (long long)facts->question.len_tok);
    draw_corner(model, state, canvas, line, col);
}

/* Keys worth a place in the footer, by view. */
static const char *footer_of(s2_view_id id)
{
    static const char *const texts[] = {
        [S2_VIEW_BENCH] = "arrows turn  n hole  s save  v validate  a search around  x export",
        [S2_VIEW_DESIGNS] = "enter open  / filter  S sort  w views  space mark  c compare  v run",
        [S2_VIEW_DESIGN] = ". , head  { } layer  n hole  i o zoom  e edit  v validate  x export  r record",
        [S2_VIEW_COMPARE] = "up down scroll  q back  = command",
        [S2_VIEW_PARETO] = "up down next design  enter open  e edit  v validate  x export",
        [S2_VIEW_RECORD] = "up down scroll  v validate  x export  t tag  N note  * star  z undo",
        [S2_VIEW_RUNS] = "up down  enter all it said  esc cancels what runs  q back",
        [S2_VIEW_OUTPUT] = "up down scroll  q back",
        [S2_VIEW_LOG] = "up down scroll  q back",
        [S2_VIEW_HELP] = "up down scroll  q back",
        [S2_VIEW_TOUR] = "enter next step  1 workbench  2 designs  q back"};
    return texts[id];
}

/* The end of what is typed stays in sight. */
static void draw_prompt(const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const char *const label = PROMPTS[state->mode].label;
    const int32_t room = line.cols - (int32_t)strlen(label) - 5;
    const char *text = state->prompt;
    while (room > 0 && (int32_t)strlen(text) > room)
        text += s2_utf8_len(text, strlen(text)) > 0 ? s2_utf8_len(text, strlen(text)) : 1;
    s2_canvas_printf(canvas, line.row, 1, S2_STYLE_CURSOR, "%s: %s_", label, text);
}

static void draw_footer(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    s2_canvas_clip(canvas, line);
    s2_canvas_fill(canvas, line, S2_STYLE_BAR);
    s2_buf repair = {0};
    const s2_facts *const shown = s2_view_shown(state) == S2_VIEW_BENCH    ? model->bench
                                  : s2_view_shown(state) == S2_VIEW_DESIGN ? model->design
                                                                           : NULL;
    if (shown != NULL)
        s2_facts_repair(shown, &repair);
    if (is_prompt(state->mode))
        draw_prompt(state, canvas, line);
    else if (state->message[0] != '\0')
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, state->message);
    else if (repair.len > 0)
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, repair.data);
    else
        s2_canvas_text(canvas, line.row, 1, S2_STYLE_BAR, footer_of(s2_view_shown(state)));
    s2_buf_release(&repair);
    if (!is_prompt(state->mode) && s2_view_shown(state) != S2_VIEW_HELP && line.cols > 30)
        s2_canvas_text(canvas, line.row, line.cols - 8, S2_STYLE_BAR, " ? keys ");
}

/* What is chosen from, over the upper lines of the body. */
static void draw_choice(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const int32_t rows = body.rows < 18 ? body.rows : 18;
    const s2_rect area = {body.row, 0, rows, body.cols > 78 ? 78 : body.cols};
    static const char *const labels[S2_N_MODES] = {
        [S2_MODE_PALETTE] = "", [S2_MODE_FORMATS] = "export to", [S2_MODE_VIEWS] = "view"};
    offer o;
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_TEXT);
    s2_canvas_fill(canvas, (s2_rect){area.row, area.col, 1, area.cols}, S2_STYLE_CURSOR);
    s2_canvas_printf(canvas, area.row, area.col, S2_STYLE_CURSOR, "%s: %s_", labels[state->mode],
                     state->prompt);
    const int32_t first = state->palette_at >= rows - 1 ? state->palette_at - rows + 2 : 0;
    for (int32_t n = 0; n < rows - 1 && offer_at(model, state, first + n, &o); n++) {
        const s2_style style = first + n == state->palette_at ? S2_STYLE_CURSOR : S2_STYLE_TEXT;
        int32_t col = s2_canvas_printf(canvas, area.row + 1 + n, area.col, style, "  %-16s ", o.name);
        if (state->mode == S2_MODE_PALETTE)
            col = s2_canvas_printf(canvas, area.row + 1 + n, col, style, "%-8s ", o.shown);
        s2_canvas_text(canvas, area.row + 1 + n, col, style, o.help);
    }
    if (!offer_at(model, state, 0, &o))
        s2_canvas_text(canvas, area.row + 1, area.col + 2, S2_STYLE_DIM,
                       state->mode == S2_MODE_VIEWS ? "no view is saved yet: W saves one"
                                                    : "none has this name");
}

/* While a path is typed: what the export keeps and loses. */
static void draw_loss(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const int32_t rows = body.rows < 12 ? body.rows : 12;
    const s2_rect area = {body.row + body.rows - rows, 0, rows, body.cols > 78 ? 78 : body.cols};
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_TEXT);
    s2_canvas_fill(canvas, (s2_rect){area.row, 0, 1, area.cols}, S2_STYLE_CURSOR);
    s2_canvas_printf(canvas, area.row, 1, S2_STYLE_CURSOR, "export to %s   enter writes, esc leaves",
                     state->format < model->n_formats ? model->formats[state->format].name : "");
    s2_text_draw(&model->loss, 0, canvas, (s2_rect){area.row + 1, 0, rows - 1, area.cols});
}

/* The command, folded at the screen's edge, over the lower lines of the body. */
static void draw_command(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas,
                         s2_rect body)
{
    s2_buf buf = {0};
    s2_tui_command(model, state, &buf);
    if (buf.len == 0)
        s2_buf_puts(&buf, "there is none before the design is derived");
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
    if (is_choice(state->mode))
        draw_choice(model, state, canvas, at.body);
    if (state->mode == S2_MODE_PATH)
        draw_loss(model, state, canvas, at.body);
    if (state->mode == S2_MODE_COMMAND)
        draw_command(model, state, canvas, at.body);
    if (at.footer.rows > 0 || is_prompt(state->mode))
        draw_footer(model, state, canvas, at.footer.rows > 0 ? at.footer : at.title);
}
