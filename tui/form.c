/*
 * Forms: the options of a command, each on a line with its purpose, filled in before the command is run. The
 * last field takes any other options of the command.
 */
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

/* An option; '|' separates `choices`, NULL: the value is typed. A value equal to `usual` is left out. */
typedef struct form_field {
    const char *label;
    const char *option; /* "": the value is used as it is */
    const char *choices;
    const char *first; /* its first value, if not `usual` */
    const char *usual;
    const char *help;
} form_field;

static const form_field VALIDATE[] = {
    {"len", "--len", NULL, "1k,4k", NULL, "context lengths; k stands for 1024"},
    {"device", "--device", "cpu|gpu", "cpu", NULL, "where the kernel runs"},
    {"phase", "--phase", "prefill|decode|train", NULL, "prefill", "forward, one token at a time, gradients"},
    {"layer", "--layer", NULL, NULL, "auto", "one layer; auto: one of each kind"},
    {"kernel", "--kernel", NULL, NULL, "", "or ./FILE.so; empty: the best there is"},
    {"batch", "--batch", NULL, NULL, "1", "sequences at once"},
    {"type", "--dtype", "kernel's own|fp32|bf16|fp16|fp8", NULL, "kernel's own", "of Q, K and V"},
    {"runs", "--runs", NULL, NULL, "5", "timed repetitions"},
    {"pairs", "--pairs", NULL, NULL, "", "compared at most; empty: as usual"},
    {"timeout", "--timeout", NULL, NULL, "120", "seconds without progress; 0: never"},
    {"more", "", NULL, NULL, "", "any other options of s2 validate"}};

static const form_field AROUND[] = {
    {"require", "--require", NULL, "rows,union,kv", NULL, "must be proved"},
    {"minimise", "--minimize", NULL, "us,kv_bytes", NULL, "of us, kv_bytes, unread, density, loss, ..."},
    {"at most", "--at-most", NULL, NULL, "", "limits: kv_bytes=2GiB,unread=50%"},
    {"exportable", "--exportable", NULL, NULL, "", "only what these formats can hold: vllm,hf"},
    {"dense layers", "--dense-layers", NULL, NULL, "", "so many; empty: any number"},
    {"tp", "--tp", NULL, NULL, "1", "GPUs that share the heads"},
    {"limit", "--limit", NULL, NULL, "", "candidates at most; empty: all of them"},
    {"bounds", "--bounds", "no|yes", NULL, "no", "compare times at peak rates: faster"},
    {"validate", "--validate", NULL, NULL, "0", "how many of the best to run then"},
    {"more", "", NULL, NULL, "", "any other options of s2 search"}};

_Static_assert(sizeof VALIDATE / sizeof VALIDATE[0] <= S2_FORM_FIELDS &&
                   sizeof AROUND / sizeof AROUND[0] <= S2_FORM_FIELDS,
               "a form has too many fields");

typedef struct form {
    const char *command;
    const form_field *fields;
    int32_t n;
} form;

static form form_of(s2_mode mode)
{
    return mode == S2_MODE_VALIDATE ? (form){"validate", VALIDATE, sizeof VALIDATE / sizeof VALIDATE[0]}
                                    : (form){"search", AROUND, sizeof AROUND / sizeof AROUND[0]};
}

static s2_form_values *values_of(s2_tui_state *state)
{
    return state->mode == S2_MODE_VALIDATE ? &state->validate : &state->around;
}

bool s2_mode_is_form(s2_mode mode)
{
    return mode == S2_MODE_VALIDATE || mode == S2_MODE_AROUND;
}

/* ---- filling in */

static const char *value_at(const s2_tui_state *state, int32_t nth)
{
    const s2_form_values *const values = state->mode == S2_MODE_VALIDATE ? &state->validate : &state->around;
    return nth == state->field ? state->prompt : values->field[nth];
}

/* Keep what was typed in its field, and move to another. */
static void go_to(s2_tui_state *state, int32_t nth)
{
    s2_form_values *const values = values_of(state);
    snprintf(values->field[state->field], S2_FORM_BYTES, "%.*s", S2_FORM_BYTES - 1, state->prompt);
    state->field = nth;
    snprintf(state->prompt, sizeof state->prompt, "%s", values->field[nth]);
    state->caret = (int32_t)strlen(state->prompt);
}

void s2_form_open(const s2_tui_model *model, s2_tui_state *state, s2_mode mode)
{
    const form f = form_of(mode);
    state->mode = mode;
    s2_form_values *const values = values_of(state);
    for (int32_t nth = 0; !values->begun && nth < f.n; nth++)
        snprintf(values->field[nth], S2_FORM_BYTES, "%s",
                 f.fields[nth].first != NULL ? f.fields[nth].first : f.fields[nth].usual);
    if (!values->begun && mode == S2_MODE_VALIDATE && model->gpu) {
        snprintf(values->field[0], S2_FORM_BYTES, "1k,8k,32k");
        snprintf(values->field[1], S2_FORM_BYTES, "gpu");
    }
    values->begun = true;
    state->field = 0;
    snprintf(state->prompt, sizeof state->prompt, "%s", values->field[0]);
    state->caret = (int32_t)strlen(state->prompt);
}

/* The choice before or after the current one, wrapping around. */
static void turn(s2_tui_state *state, const char *choices, int32_t by)
{
    const char *words[8];
    int32_t lengths[8], n = 0, chosen = 0;
    for (const char *word = choices; n < 8; word += lengths[n++] + 1) {
        words[n] = word;
        lengths[n] = (int32_t)strcspn(word, "|");
        if ((int32_t)strlen(state->prompt) == lengths[n] &&
            strncmp(word, state->prompt, (size_t)lengths[n]) == 0)
            chosen = n;
        if (word[lengths[n]] == '\0') {
            n++;
            break;
        }
    }
    chosen = (chosen + by + n) % n;
    snprintf(state->prompt, sizeof state->prompt, "%.*s", lengths[chosen], words[chosen]);
    state->caret = lengths[chosen];
}

bool s2_form_step(s2_tui_state *state, int32_t key)
{
    const form f = form_of(state->mode);
    const char *const choices = f.fields[state->field].choices;
    switch (key) {
    case S2_KEY_UP: go_to(state, (state->field + f.n - 1) % f.n); return true;
    case S2_KEY_DOWN:
    case S2_KEY_TAB: go_to(state, (state->field + 1) % f.n); return true;
    case S2_KEY_LEFT: break;
    case S2_KEY_RIGHT: break;
    default:
        if (choices != NULL && key == ' ')
            turn(state, choices, 1);
        return choices != NULL;
    }
    if (choices != NULL)
        turn(state, choices, key == S2_KEY_LEFT ? -1 : 1);
    return choices != NULL;
}

const char *s2_form_label(const s2_tui_state *state)
{
    return form_of(state->mode).fields[state->field].label;
}

/* "--len 1k,4k"; for a choice of no and yes, just the option. */
static void put_words(const form_field *field, const char *value, s2_buf *buf)
{
    const bool flag = field->choices != NULL && strcmp(field->choices, "no|yes") == 0;
    if (value[0] == '\0' || (field->usual != NULL && strcmp(value, field->usual) == 0))
        return;
    s2_buf_puts(buf, buf->len > 0 ? " " : "");
    if (field->option[0] == '\0') {
        s2_buf_puts(buf, value);
        return;
    }
    s2_buf_printf(buf, "%s%s", field->option, flag ? "" : " ");
    /* blanks separate the words of a command, and a value is one word */
    for (const char *at = value; !flag && *at != '\0'; at++)
        if (*at != ' ')
            s2_buf_add(buf, at, 1);
}

static void put_command(const s2_tui_state *state, s2_buf *buf)
{
    const form f = form_of(state->mode);
    for (int32_t nth = 0; nth < f.n; nth++)
        put_words(&f.fields[nth], value_at(state, nth), buf);
    s2_buf_add(buf, "", 1);
}

void s2_form_accept(s2_tui_state *state)
{
    s2_buf words = {0};
    go_to(state, state->field);
    put_command(state, &words);
    snprintf(state->prompt, sizeof state->prompt, "%s", words.status == S2_OK ? words.data : "");
    s2_buf_release(&words);
}

/* ---- on the screen */

enum { VALUE_AT = 15, HELP_AT = 36 };

/* Over the lower lines of the body: the fields, and the command that they make. */
static s2_rect area_of(const s2_tui_state *state, s2_rect body)
{
    const int32_t rows = s2_min_i32(body.rows, form_of(state->mode).n + 4);
    return (s2_rect){body.row + body.rows - rows, body.col, rows, s2_min_i32(body.cols, 90)};
}

static int32_t first_of(const s2_tui_state *state, int32_t rows)
{
    return state->field >= rows && rows > 0 ? state->field - rows + 1 : 0;
}

static void draw_field(const s2_tui_state *state, int32_t nth, s2_canvas *canvas, s2_rect line)
{
    const form_field *const field = &form_of(state->mode).fields[nth];
    const bool here = nth == state->field;
    const int32_t help = line.cols >= 70 ? HELP_AT : line.cols;
    s2_canvas_clip(canvas, line);
    s2_canvas_printf(canvas, line.row, line.col + 1, here ? S2_STYLE_HEAD : S2_STYLE_DIM, "%s", field->label);
    s2_canvas_clip(canvas, (s2_rect){line.row, line.col, 1, help - 1});
    s2_canvas_printf(canvas, line.row, line.col + VALUE_AT, S2_STYLE_TEXT,
                     field->choices != NULL ? "< %s >" : "%s", value_at(state, nth));
    s2_canvas_clip(canvas, line);
    s2_canvas_text(canvas, line.row, line.col + help, S2_STYLE_DIM, field->help);
    if (here)
        s2_canvas_restyle(canvas, line, S2_STYLE_CURSOR);
}

void s2_form_draw(const s2_tui_state *state, s2_canvas *canvas, s2_rect body)
{
    const form f = form_of(state->mode);
    const s2_rect area = area_of(state, body);
    s2_buf words = {0};
    const s2_rect inside =
        s2_popup_draw(canvas, area, "enter runs   up down: a field   left right: a choice   esc leaves");
    const int32_t rows = inside.rows > 2 ? inside.rows - 1 : inside.rows;
    for (int32_t n = 0; n < rows && first_of(state, rows) + n < f.n; n++)
        draw_field(state, first_of(state, rows) + n, canvas,
                   (s2_rect){inside.row + n, inside.col, 1, inside.cols});
    put_command(state, &words);
    s2_canvas_clip(canvas, inside);
    if (rows < inside.rows && words.status == S2_OK)
        s2_canvas_printf(canvas, inside.row + inside.rows - 1, inside.col + 1, S2_STYLE_KEY, "s2 %s %s",
                         f.command, words.data);
    s2_buf_release(&words);
}

void s2_form_click(s2_tui_state *state, s2_rect body, int32_t row, int32_t col)
{
    const s2_rect inside = s2_popup_inside(area_of(state, body));
    const form f = form_of(state->mode);
    const int32_t rows = inside.rows > 2 ? inside.rows - 1 : inside.rows;
    const int32_t nth = first_of(state, rows) + row - inside.row;
    if (!s2_rect_holds(area_of(state, body), row, col))
        state->mode = S2_MODE_KEYS;
    else if (s2_rect_holds(inside, row, col) && row < inside.row + rows && nth < f.n && nth != state->field)
        go_to(state, nth);
    else if (nth == state->field)
        s2_form_step(state, S2_KEY_RIGHT);
}
