/*
 * libFuzzer on what a terminal hands over: keys, clicks, pasted text and sizes, in any order, with a drawing after each.
 * A byte is a key, or says what the next ones are; WAIT is a pause in which what is slow gets done, as it is at the end.
 * Whatever comes, the state stays within its bounds and the canvas holds nothing that a terminal obeys.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tui/input.h"
#include "tui/looks.h"
#include "tui/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum {
    N_DESIGNS = 3,
    MOST_STEPS = 200,
    MOST_WAITS = 3,
    MOST_LEN = 2048,
    CLICK = 0xf0,
    PASTE,
    RESIZE,
    SPECIAL,
    WAIT
};

static const char *const TEXTS[N_DESIGNS] = {
    "name a\nlayers 4\nheads 8\nkv-heads 2\nlayers all: local 4 | stride 4 phase head\nlayers 1::2: dense\n",
    "name b\nheads 2\nlayers all: local 2 | stride 8\n",
    "name c\nheads 2\nlayers all: sink 4t | local 200t | random 2 seed 1\n"};

static void require(bool truth)
{
    if (!truth)
        abort();
}

static s2_tui_row row_of(int32_t at)
{
    return (s2_tui_row){.id = at + 1,
                        .hash = "0123456789ab",
                        .name = at == 1 ? "evil \033[31m \xe2\x80\xae name" : "plain",
                        .family = "local",
                        .tags = "",
                        .outcome = "",
                        .n_layers = 4,
                        .n_heads = 8,
                        .n_kv_heads = 2,
                        .block_tok = 64,
                        .unions = at,
                        .kv = S2_TUI_NOT_CHECKED,
                        .density = 0.25,
                        .sim_us = at == 2 ? (double)NAN : 10.0,
                        .kv_bytes = 1e6,
                        .gpu_us = (double)NAN,
                        .priced_on = at % 2 == 0 ? "h200" : "8 x h200 b32 e4m3",
                        .figure = at % 3 == 0   ? "bound"
                                  : at % 3 == 1 ? "guessed"
                                                : "predicted",
                        .phase = "prefill",
                        .len_tok = 4096,
                        .text = TEXTS[at]};
}

/* What other views have to show: runs, a record, a front; some of it in words that a terminal must not obey. */
static const s2_tui_run RUNS[] = {
    {.job = 1, .state = S2_RUN_RUNNING, .when = "11-21 07:12", .what = "s2 validate", .now = "touch 3 of 8"},
    {.id = 7,
     .state = S2_RUN_ENDED,
     .code = 1,
     .when = "11-20",
     .what = "evil\033[2J",
     .now = "",
     .n_results = 3},
    {.id = 6, .state = S2_RUN_CUT, .when = "11-20", .what = "s2 search", .now = "", .wall_s = (double)NAN}};
static const s2_tui_line LINES[] = {{S2_LINE_HEAD, "tags: baseline"},
                                    {S2_LINE_TEXT,
                                     "  a note, \033[31mhostile and long enough to be folded at the "
                                     "right edge of a screen of eighty columns"},
                                    {S2_LINE_BAD, "x wrong_pairs  cpu, forward, 4096 tokens x 1, bf16"},
                                    {S2_LINE_NEEDLES, "4096|#.#.!#?# ##"},
                                    {S2_LINE_UNSURE, "? kv  unknown   11-21 06:00"}};
static const s2_tui_choice FORMATS[] = {
    {.name = "hf", .help = "Hugging Face config.json", .path = "config.json"},
    {.name = "dkernel", .help = "DKernel arguments", .path = "dkernel.json"}};
static const s2_tui_choice VIEWS[] = {
    {.name = "quick", .help = "us<900", .filter = "us<900", .sort = "us", .ascending = true}};
static const s2_tui_point POINTS[] = {{1, {1234.5F, 268435456.0F}, false},
                                      {2, {2469.0F, 134217728.0F}, true},
                                      {3, {(float)NAN, (float)NAN}, false}};
static const double FRONT_VALUES[] = {1234.5, 268435456.0, 4938.0, 33554432.0};
static const char *const LOG[] = {"opened", "saved"};
enum { N_RUNS = sizeof RUNS / sizeof *RUNS, N_LINES = sizeof LINES / sizeof *LINES };

static void fill_model(s2_tui_model *model, const s2_tui_row *rows)
{
    model->source = "samples";
    model->database = " --db s2.db";
    model->stored = true;
    model->n_rows = model->n_all = N_DESIGNS;
    model->rows = rows;
    model->n_log = 2;
    model->log = LOG;
    model->n_runs = N_RUNS;
    model->runs = RUNS;
    model->record = model->output = model->loss = (s2_tui_text){N_LINES, LINES};
    model->n_formats = 2;
    model->formats = FORMATS;
    model->n_views = 1;
    model->views = VIEWS;
    model->front = (s2_tui_front){.n_objectives = 2,
                                  .objectives = {{"us", S2_QUANTITY_TIME}, {"kv_bytes", S2_QUANTITY_BYTES}},
                                  .phase = "prefill",
                                  .len_tok = 8192,
                                  .n_holed = 1,
                                  .n_points = 3,
                                  .points = POINTS,
                                  .n_rows = 2,
                                  .rows = rows,
                                  .values = FRONT_VALUES};
}

/* What an owner does with rows that come from no database. */
static void serve(s2_session *session)
{
    const s2_request request = session->state.request;
    session->state.request = S2_REQUEST_NONE;
    if (request == S2_REQUEST_OPEN) {
        const s2_question asked = s2_question_default(1024 * session->state.request_id);
        s2_session_open(session, session->state.request_id,
                        TEXTS[(session->state.request_id - 1) % N_DESIGNS],
                        session->state.request_id % 2 == 0 ? &asked : NULL);
    }
    if (request == S2_REQUEST_COMPARE) {
        s2_session_compare_none(session);
        for (int32_t at = 0; at < session->state.n_marked; at++)
            s2_session_compare_add(session, "marked", TEXTS[(session->state.marked[at] - 1) % N_DESIGNS]);
    }
}

static void look(s2_session *session)
{
    const s2_tui_state *const s = &session->state;
    const s2_canvas *const canvas = &session->canvas;
    require(s->depth >= 0 && s->depth < S2_TUI_STACK && s->mode >= 0 && s->mode < S2_N_MODES);
    require(s->cursor >= 0 && s->cursor < N_DESIGNS && s->run >= 0 && s->head >= 0);
    require(s->n_marked >= 0 && s->n_marked <= S2_TUI_COMPARE);
    for (int32_t cell = 0; cell < canvas->rows * canvas->cols; cell++) {
        const uint32_t glyph = canvas->cells[cell].glyph;
        require(glyph == 0 || !s2_codepoint_is_hostile(glyph));
    }
}

static void draw(s2_session *session)
{
    s2_session_draw(session);
    look(session);
}

static void wait(s2_session *session, bool calm)
{
    s2_order order;
    session->calm = calm;
    for (draw(session); s2_session_next(session, &order); draw(session)) {
        s2_order_do(&order);
        s2_session_take(session, &order);
    }
    session->calm = false;
}

static void paste(s2_session *session, const uint8_t *bytes, size_t n)
{
    char text[256];
    memcpy(text, bytes, n);
    text[n] = '\0';
    s2_session_paste(session, text);
}

/* One step from at least one byte; how many it took. */
static size_t step(s2_session *session, const uint8_t *bytes, size_t n)
{
    const size_t more = n - 1;
    switch (bytes[0]) {
    case CLICK:
        s2_session_click(session, more > 0 ? bytes[1] : 0, more > 1 ? bytes[2] : 0,
                         more > 2 ? bytes[3] % 3 - 1 : 0);
        return more < 3 ? n : 4;
    case PASTE: {
        const size_t len = more == 0 ? 0 : bytes[1] < more ? bytes[1] : more - 1;
        paste(session, bytes + 2, len);
        return more == 0 ? n : 2 + len;
    }
    case RESIZE:
        require(s2_session_resize(session, more > 0 ? 1 + bytes[1] % 60 : 1, more > 1 ? 1 + bytes[2] : 1) ==
                S2_OK);
        return more < 2 ? n : 3;
    case SPECIAL:
        s2_session_key(session, S2_KEY_UP + (more > 0 ? bytes[1] % 32 : 0));
        return more < 1 ? n : 2;
    case WAIT: return 1;
    default: s2_session_key(session, bytes[0]); return 1;
    }
}

/* All keys that the bytes so far give; each takes bytes of its own. */
static void take_keys(s2_typed *typed, bool late, size_t *n_left)
{
    for (;;) {
        const int32_t key = s2_typed_key(typed, late);
        if (key == S2_TERM_MORE || key == S2_TERM_NOTHING)
            return;
        require((*n_left)-- > 0);
        const char *const text = key == S2_TERM_PASTE ? typed->pasted.data : "";
        for (size_t at = 0; text[at] != '\0'; at++)
            require(text[at] == '\n' || (unsigned char)text[at] >= ' ');
    }
}

/* The same bytes as a terminal sends them, raw. */
static void type(const uint8_t *bytes, size_t n)
{
    s2_typed typed = {0};
    size_t n_left = 2 * n + 2;
    for (size_t at = 0; at < n; at++) {
        s2_typed_add(&typed, (char)bytes[at]);
        take_keys(&typed, false, &n_left);
        require(typed.n <= sizeof typed.bytes && s2_typed_patience_ms(&typed) >= -1);
        require(s2_look_of((s2_palette)(bytes[at] % S2_N_PALETTES), (s2_style)(bytes[at] % S2_N_STYLES)) !=
                NULL);
    }
    take_keys(&typed, true, &n_left);
    s2_typed_release(&typed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    type(bytes, n);
    s2_session session;
    s2_tui_row rows[N_DESIGNS];
    for (int32_t at = 0; at < N_DESIGNS; at++)
        rows[at] = row_of(at);
    require(s2_session_init(&session, 24, 80, n % 2 == 1, S2_VIEW_DESIGNS) == S2_OK);
    fill_model(&session.model, rows);
    session.state.knobs.value[S2_KNOB_LEN] = 1024;
    session.state.knobs.value[S2_KNOB_HEADS] = 4;
    session.deferred = true;
    int32_t waits = 0;
    for (int32_t steps = 0; n > 0 && steps < MOST_STEPS; steps++) {
        const size_t took = step(&session, bytes, n);
        const bool waited = bytes[0] == WAIT;
        bytes += took;
        n -= took;
        if (session.state.knobs.value[S2_KNOB_LEN] > MOST_LEN)
            session.state.knobs.value[S2_KNOB_LEN] = MOST_LEN;
        serve(&session);
        if (waited && waits++ < MOST_WAITS)
            wait(&session, true);
        else
            draw(&session);
    }
    wait(&session, false);
    s2_session_release(&session);
    return 0;
}
