/*
 * Typing a text, and choosing from a list by typing.
 */
#include "tui/columns.h"
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/quantity.h"
#include "sim/units.h"

/* ---- choosing by name */

/* A line in a list of choices: a key binding, a format, a saved view. */
typedef struct offer {
    const char *name;
    const char *shown;
    const char *help;
    int32_t nth; /* in its own table */
} offer;

/* Offers of a pattern that has left the screen do not count. */
static bool nth_repair(const s2_tui_model *model, int32_t nth, offer *out)
{
    const s2_facts *const facts = model->bench;
    if (facts == NULL || model->bench_waits || facts->status != S2_OK || nth >= facts->late.n_offers)
        return false;
    *out = (offer){facts->late.offers[nth].change, "", facts->late.offers[nth].words, nth};
    return true;
}

static bool nth_column(const s2_tui_state *state, int32_t nth, offer *out)
{
    if (nth >= S2_TUI_COLUMNS)
        return false;
    const bool chosen = (state->columns & 1u << nth) != 0;
    *out = (offer){s2_tui_columns[nth], chosen ? "[x]" : "[ ]",
                   chosen && !s2_column_has_room(state, nth) ? "no room at this width" : "", nth};
    return true;
}

static bool nth_yank(int32_t nth, offer *out)
{
    static const char *const helps[S2_TUI_N_YANKS] = {
        "that prints what is on screen", "of the design", "the design's text, in one line",
        "what the list knows of a stored design, as a JSON object"};
    static const char *const names[S2_TUI_N_YANKS] = {"command", "hash", "pattern", "row"};
    if (nth < S2_TUI_N_YANKS)
        *out = (offer){names[nth], "", helps[nth], nth};
    return nth < S2_TUI_N_YANKS;
}

static bool nth_offer(const s2_tui_model *model, const s2_tui_state *state, int32_t nth, offer *out)
{
    if (state->mode == S2_MODE_PALETTE) {
        const s2_binding *const b = s2_binding_at(nth);
        if (b != NULL)
            *out = (offer){b->name, b->shown, b->help, nth};
        return b != NULL;
    }
    if (state->mode == S2_MODE_REPAIRS)
        return nth_repair(model, nth, out);
    if (state->mode == S2_MODE_COLUMNS)
        return nth_column(state, nth, out);
    if (state->mode == S2_MODE_YANK)
        return nth_yank(nth, out);
    if (state->mode == S2_MODE_WORDS && nth < model->n_words)
        *out = (offer){model->words[nth].name, "", model->words[nth].text, nth};
    if (state->mode == S2_MODE_WORDS)
        return nth < model->n_words;
    const bool formats = state->mode == S2_MODE_FORMATS;
    const s2_tui_choice *const c = formats ? model->formats : model->views;
    if (nth < (formats ? model->n_formats : model->n_views))
        *out = (offer){c[nth].name, "", c[nth].help, nth};
    return nth < (formats ? model->n_formats : model->n_views);
}

static bool is_bound(const s2_tui_state *state, int32_t nth)
{
    return (s2_binding_at(nth)->views & (1u << s2_view_shown(state))) != 0;
}

/* Does the typed text occur in the name or, except in the palette, in the help? */
static bool is_offered(const s2_tui_state *state, const offer *o)
{
    const bool palette = state->mode == S2_MODE_PALETTE;
    if (palette && !is_bound(state, o->nth))
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

bool s2_mode_is_choice(s2_mode mode)
{
    return mode == S2_MODE_PALETTE || mode == S2_MODE_FORMATS || mode == S2_MODE_VIEWS ||
           mode == S2_MODE_REPAIRS || mode == S2_MODE_COLUMNS || mode == S2_MODE_YANK ||
           mode == S2_MODE_WORDS;
}

/* ---- typing */

/* The label of each prompt, and the request to the owner when it is accepted. */
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
    [S2_MODE_TEXT] = {"pattern", S2_REQUEST_NONE},
    [S2_MODE_KNOB] = {"value", S2_REQUEST_NONE},
    [S2_MODE_FILE] = {"open the pattern of", S2_REQUEST_FILE},
    [S2_MODE_PLACE] = {"query and key, in tokens", S2_REQUEST_NONE},
    [S2_MODE_MINIMIZE] = {"minimise of us,kv_bytes,unread,gpu_us,density", S2_REQUEST_FRONT},
};

bool s2_mode_is_prompt(s2_mode mode)
{
    return PROMPTS[mode].label != NULL;
}

void s2_prompt_open(s2_tui_state *state, s2_mode mode, const char *text)
{
    char *const kept = state->kept[mode];
    state->mode = mode;
    state->palette_at = 0;
    snprintf(state->prompt, sizeof state->prompt, "%s", kept[0] != '\0' ? kept : text);
    state->caret = (int32_t)strlen(state->prompt);
    kept[0] = '\0';
}

void s2_tui_keep(s2_tui_state *state, s2_request request, const char *words)
{
    for (int mode = 0; mode < S2_N_MODES; mode++)
        if (s2_mode_is_prompt((s2_mode)mode) && PROMPTS[mode].request == request)
            snprintf(state->kept[mode], sizeof state->kept[mode], "%s", words);
}

/* Where the character before the caret begins, or the one behind it ends, however many bytes it has. */
static int32_t neighbour(const s2_tui_state *state, int32_t by)
{
    const int32_t n = (int32_t)strlen(state->prompt);
    int32_t to = state->caret + by;
    while (to > 0 && to < n && ((unsigned char)state->prompt[to] & 0xc0) == 0x80)
        to += by;
    return s2_clamp_i32(to, 0, n);
}

static bool move_caret(s2_tui_state *state, int32_t key)
{
    switch (key) {
    case S2_KEY_LEFT: state->caret = neighbour(state, -1); return true;
    case S2_KEY_RIGHT: state->caret = neighbour(state, 1); return true;
    case S2_KEY_HOME: state->caret = 0; return true;
    case S2_KEY_END: state->caret = (int32_t)strlen(state->prompt); return true;
    default: return false;
    }
}

static void rub_out(s2_tui_state *state)
{
    const int32_t from = neighbour(state, -1);
    memmove(state->prompt + from, state->prompt + state->caret, strlen(state->prompt + state->caret) + 1);
    state->caret = from;
}

static void insert(s2_tui_state *state, const char *bytes)
{
    const size_t n = strlen(bytes), tail = strlen(state->prompt + state->caret) + 1;
    const size_t room = state->mode == S2_MODE_TEXT    ? S2_TUI_TEXT_BYTES
                        : s2_mode_is_form(state->mode) ? S2_FORM_BYTES
                                                       : S2_TUI_PROMPT_BYTES;
    if (strlen(state->prompt) + n >= room)
        return;
    memmove(state->prompt + state->caret + n, state->prompt + state->caret, tail);
    memcpy(state->prompt + state->caret, bytes, n);
    state->caret += (int32_t)n;
}

void s2_prompt_type(s2_tui_state *state, int32_t key)
{
    enum { CONTROL_U = 21 };
    char bytes[5] = "";
    state->palette_at = 0;
    if (key == CONTROL_U) {
        state->prompt[0] = '\0';
        state->caret = 0;
    } else if (key == S2_KEY_BACKSPACE || key == 8) {
        rub_out(state);
    } else if (key >= ' ' && key < S2_KEY_UP && !s2_codepoint_is_hostile((uint32_t)key)) {
        s2_glyph_encode((uint32_t)key, bytes);
        insert(state, bytes);
    }
}

static void choose_view(const s2_tui_model *model, s2_tui_state *state, int32_t nth)
{
    const s2_tui_choice *const view = &model->views[nth];
    memcpy(state->filter_before, state->filter, sizeof state->filter);
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

static void choose_yank(s2_tui_state *state, int32_t nth)
{
    state->yank = (s2_tui_yank)nth;
    state->request = nth == S2_TUI_YANK_COMMAND ? S2_REQUEST_COPY : S2_REQUEST_YANK;
    state->request_id = state->subject_id;
}

/* Choices without a request: show or hide a column, explain a word. */
static void choose_on(const s2_tui_model *model, s2_tui_state *state, int32_t nth)
{
    if (state->mode == S2_MODE_COLUMNS) {
        state->columns ^= 1u << nth;
        return;
    }
    snprintf(state->message, sizeof state->message, "%s: %s", model->words[nth].name, model->words[nth].text);
    state->mode = S2_MODE_KEYS;
}

/* Returns the chosen action if the list is the palette. */
static s2_action accept_choice(const s2_tui_model *model, s2_tui_state *state)
{
    const s2_mode mode = state->mode;
    offer chosen;
    const bool found = offer_at(model, state, state->palette_at, &chosen);
    if (found && (mode == S2_MODE_COLUMNS || mode == S2_MODE_WORDS)) {
        choose_on(model, state, chosen.nth);
        return S2_ACT_NONE;
    }
    state->mode = S2_MODE_KEYS;
    if (!found)
        return S2_ACT_NONE;
    switch (mode) {
    case S2_MODE_PALETTE: return s2_binding_at(chosen.nth)->action;
    case S2_MODE_YANK: choose_yank(state, chosen.nth); break;
    case S2_MODE_REPAIRS: s2_bench_take_text(state, model->bench->late.offers[chosen.nth].text); break;
    case S2_MODE_FORMATS: choose_format(model, state, chosen.nth); break;
    default: choose_view(model, state, chosen.nth);
    }
    return S2_ACT_NONE;
}

/* If the knob has no such value, say which it has. */
static void accept_value(s2_tui_state *state)
{
    s2_buf range = {0};
    s2_knobs set = state->knobs;
    if (s2_knob_set(&set, state->knob, state->prompt)) {
        s2_bench_remember(state);
        state->knobs = set;
        return;
    }
    s2_knob_print_range(&state->knobs, state->knob, &range);
    snprintf(state->message, sizeof state->message, "%s: %s", s2_knob_label(state->knob),
             range.data != NULL ? range.data : "");
    s2_buf_release(&range);
}

/* "8191 64", "64k,128" */
static void accept_place(s2_tui_state *state)
{
    char words[2][20] = {"", ""};
    double tok[2] = {-1, -1};
    const int64_t n_tok = state->knobs.value[S2_KNOB_LEN];
    (void)!sscanf(state->prompt, "%19[0-9a-zA-Z.]%*[ ,]%19[0-9a-zA-Z.]", words[0], words[1]);
    for (int nth = 0; nth < 2; nth++)
        if (!s2_quantity_parse(S2_QUANTITY_COUNT, words[nth], 1, &tok[nth]) || tok[nth] >= (double)n_tok ||
            tok[nth] != (double)(int64_t)tok[nth]) {
            snprintf(state->message, sizeof state->message, "a query and a key below %lld, as in 8191 64",
                     (long long)n_tok);
            return;
        }
    state->cross = true;
    state->cross_q = (int64_t)tok[0];
    state->cross_k = (int64_t)tok[1];
    state->zoomed = false;
}

static void accept_prompt(s2_tui_state *state)
{
    if (s2_mode_is_form(state->mode))
        s2_form_accept(state);
    state->request = PROMPTS[state->mode].request;
    state->request_id = state->subject_id;
    if (state->mode == S2_MODE_MINIMIZE) {
        snprintf(state->minimize, sizeof state->minimize, "%.*s", (int)sizeof state->minimize - 1,
                 state->prompt);
        state->front = 0;
    }
    if (state->mode == S2_MODE_TEXT)
        s2_bench_take_text(state, state->prompt);
    if (state->mode == S2_MODE_KNOB)
        accept_value(state);
    if (state->mode == S2_MODE_PLACE)
        accept_place(state);
    state->mode = S2_MODE_KEYS;
}

s2_action s2_prompt_step(const s2_tui_model *model, s2_tui_state *state, int32_t key)
{
    offer other;
    if (state->mode == S2_MODE_QUIT) {
        state->request = key == 'y' || key == 'Y' ? S2_REQUEST_QUIT : S2_REQUEST_NONE;
        state->mode = S2_MODE_KEYS;
    } else if (state->mode == S2_MODE_COMMAND || key == S2_KEY_ESC) {
        if (state->mode == S2_MODE_COMMAND && key == 'y')
            state->request = S2_REQUEST_COPY;
        state->mode = S2_MODE_KEYS;
    } else if (key == S2_KEY_EDITOR && state->mode == S2_MODE_TEXT) {
        state->request = S2_REQUEST_EDITOR;
    } else if (key == S2_KEY_ENTER || (key == ' ' && state->mode == S2_MODE_COLUMNS)) {
        if (s2_mode_is_choice(state->mode))
            return accept_choice(model, state);
        accept_prompt(state);
    } else if (s2_mode_is_choice(state->mode) && (key == S2_KEY_UP || key == S2_KEY_DOWN)) {
        const int32_t to = state->palette_at + (key == S2_KEY_DOWN ? 1 : -1);
        if (offer_at(model, state, to, &other))
            state->palette_at = to;
    } else if (!(s2_mode_is_form(state->mode) && s2_form_step(state, key)) && !move_caret(state, key)) {
        s2_prompt_type(state, key);
    }
    return S2_ACT_NONE;
}

void s2_prompt_paste(s2_tui_state *state, const char *text)
{
    state->request = S2_REQUEST_NONE;
    state->message[0] = '\0';
    if (!s2_mode_is_prompt(state->mode) && !s2_mode_is_choice(state->mode)) {
        snprintf(state->message, sizeof state->message, "pasted text goes where something is typed");
        return;
    }
    for (size_t n = strlen(text), step; n > 0; text += step, n -= step) {
        const size_t len = s2_utf8_len(text, n);
        step = s2_utf8_step(text, n);
        if (text[0] == '\n' && n > 1) {
            s2_prompt_type(state, ';');
            s2_prompt_type(state, ' ');
        } else if (len > 0) {
            s2_prompt_type(state, (int32_t)s2_utf8_decode(text, len));
        }
    }
}

/*
 * Draw as much around the caret as there is room for, with a mark where the text begins or goes on beyond
 * that. The caret is a '_' behind the text, else the style of a letter.
 */
void s2_prompt_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect line)
{
    const char *const label = state->mode == S2_MODE_KNOB    ? s2_knob_label(state->knob)
                              : s2_mode_is_form(state->mode) ? s2_form_label(state)
                                                             : PROMPTS[state->mode].label;
    const int32_t room = line.cols - (int32_t)strlen(label) - 6;
    const char *text = state->prompt, *const caret = state->prompt + state->caret;
    while (room > 0 && (int32_t)(caret - text) > room)
        text += s2_utf8_step(text, strlen(text));
    int32_t col = s2_canvas_printf(canvas, line.row, 1, S2_STYLE_CURSOR, "%s: ", label);
    if (text > state->prompt)
        s2_canvas_glyph(canvas, line.row, col++, 0x2026, '~', S2_STYLE_CURSOR);
    col = s2_canvas_printf(canvas, line.row, col, S2_STYLE_CURSOR, "%.*s", (int)(caret - text), text);
    s2_canvas_text(canvas, line.row, col, S2_STYLE_CURSOR, caret[0] != '\0' ? caret : "_");
    if (caret[0] != '\0')
        s2_canvas_restyle(canvas, (s2_rect){line.row, col, 1, 1}, S2_STYLE_WITNESS);
}

/* ">= 13.2 ms  2.00 GiB  " */
static int32_t draw_price(const s2_tally *tally, s2_canvas *canvas, int32_t row, int32_t col, s2_style style)
{
    return s2_canvas_printf(canvas, row, col, style, "%s%-*s%-12s", tally->priced ? ">= " : "",
                            tally->priced ? 9 : 12, tally->priced ? s2_time_text(tally->time_us).text : "",
                            tally->cached ? s2_bytes_text(tally->kv_bytes).text : "");
}

static const char *why_empty(const s2_tui_model *model, const s2_tui_state *state)
{
    const s2_facts *const facts = model->bench;
    if (state->prompt[0] != '\0' || (state->mode != S2_MODE_VIEWS && state->mode != S2_MODE_REPAIRS))
        return "nothing in this list has these letters";
    if (state->mode == S2_MODE_VIEWS)
        return "no view is saved yet: W saves one";
    if (facts == NULL || model->bench_waits || (facts->status == S2_OK && !facts->late.asked))
        return "searching...";
    for (int32_t at = 0; facts->status == S2_OK && at < S2_N_VERDICTS; at++)
        if (facts->findings[at].verdict == S2_VIOLATED)
            return "no small change is known that mends it";
    return "nothing is violated";
}

/* Draw as many offers as fit, the chosen one among them. */
static void draw_offers(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect area)
{
    const int32_t first = state->palette_at >= area.rows ? state->palette_at - area.rows + 1 : 0;
    offer o;
    for (int32_t n = 0; n < area.rows && offer_at(model, state, first + n, &o); n++) {
        const s2_style style = first + n == state->palette_at ? S2_STYLE_CURSOR : S2_STYLE_TEXT;
        int32_t col = s2_canvas_printf(canvas, area.row + n, area.col, style, " %-16s ", o.name);
        if (state->mode == S2_MODE_PALETTE || state->mode == S2_MODE_COLUMNS)
            col = s2_canvas_printf(canvas, area.row + n, col, style, "%-8s ", o.shown);
        if (state->mode == S2_MODE_REPAIRS)
            col = draw_price(&model->bench->late.offers[o.nth].tally, canvas, area.row + n, col, style);
        s2_canvas_text(canvas, area.row + n, col, style, o.help);
    }
    if (offer_at(model, state, first + area.rows, &o))
        s2_canvas_more(canvas);
    if (!offer_at(model, state, 0, &o))
        s2_canvas_text(canvas, area.row, area.col + 1, S2_STYLE_DIM, why_empty(model, state));
}

/* Lists with long help texts show that of the chosen line in full below the list. */
enum { MOST_ROWS = 20, MOST_COLS = 110, ROWS_SAID = 2, ROWS_LISTED = 2, HELP_AT = 18, PRICE_COLS = 24 };

static bool says_much(const s2_tui_state *state)
{
    return state->mode == S2_MODE_FORMATS || state->mode == S2_MODE_WORDS || state->mode == S2_MODE_REPAIRS;
}

static int32_t rows_said(const s2_tui_state *state, s2_rect inside)
{
    return says_much(state) && inside.rows >= ROWS_LISTED + ROWS_SAID ? ROWS_SAID : 0;
}

/* As large as the whole list of choices, or as there is room. */
static s2_rect choice_area(const s2_tui_model *model, const s2_tui_state *state, s2_rect body)
{
    offer o;
    int32_t n = 0;
    for (int32_t nth = 0; nth_offer(model, state, nth, &o); nth++)
        n += state->mode != S2_MODE_PALETTE || is_bound(state, nth);
    const int32_t wanted = s2_min_i32(s2_max_i32(n, 1) + 2 + (says_much(state) ? ROWS_SAID : 0), MOST_ROWS);
    return (s2_rect){body.row, body.col, s2_min_i32(body.rows, wanted), s2_min_i32(body.cols, MOST_COLS)};
}

static s2_rect list_inside(const s2_tui_state *state, s2_rect inside)
{
    inside.rows -= rows_said(state, inside);
    return inside;
}

static void draw_said(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect inside)
{
    const int32_t rows = rows_said(state, inside);
    const s2_rect area = {inside.row + inside.rows - rows, inside.col + 1, rows, inside.cols - 1};
    offer o;
    if (rows == 0 || !offer_at(model, state, state->palette_at, &o) ||
        (int32_t)strlen(o.help) <= inside.cols - HELP_AT - (state->mode == S2_MODE_REPAIRS ? PRICE_COLS : 0))
        return;
    s2_canvas_clip(canvas, area);
    s2_fold_draw(o.help, S2_STYLE_KEY, canvas, area, area.row);
}

s2_action s2_choice_click(const s2_tui_model *model, s2_tui_state *state, s2_rect body, int32_t row,
                          int32_t col)
{
    const s2_rect area = choice_area(model, state, body);
    const s2_rect inside = list_inside(state, s2_popup_inside(area));
    const int32_t first = state->palette_at >= inside.rows ? state->palette_at - inside.rows + 1 : 0;
    offer other;
    if (!s2_rect_holds(area, row, col)) {
        state->mode = S2_MODE_KEYS;
        return S2_ACT_NONE;
    }
    if (!s2_rect_holds(inside, row, col) || !offer_at(model, state, first + row - inside.row, &other))
        return S2_ACT_NONE;
    state->palette_at = first + row - inside.row;
    return accept_choice(model, state);
}

/* The list of choices, over the upper lines of the body. */
void s2_choice_draw(const s2_tui_model *model, const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    static const char *const labels[S2_N_MODES] = {[S2_MODE_PALETTE] = "",
                                                   [S2_MODE_FORMATS] = "export to",
                                                   [S2_MODE_VIEWS] = "view",
                                                   [S2_MODE_REPAIRS] = "repair",
                                                   [S2_MODE_COLUMNS] = "columns: enter shows or hides",
                                                   [S2_MODE_YANK] = "copy",
                                                   [S2_MODE_WORDS] = "look up"};
    char title[S2_TUI_PROMPT_BYTES + 40];
    snprintf(title, sizeof title, "%s: %.*s_", labels[state->mode], S2_TUI_PROMPT_BYTES, state->prompt);
    const s2_rect inside = s2_popup_draw(canvas, choice_area(model, state, body), title);
    const s2_rect list = list_inside(state, inside);
    s2_canvas_clip(canvas, list);
    draw_offers(model, state, canvas, list);
    draw_said(model, state, canvas, inside);
}
