#include "cli/commands.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/explorer.h"

enum { IDLE_MS = 250, FRAME_MS = 12, BUSY_MS = 100 };

void s2_explorer_say(s2_explorer *e, const char *fmt, ...)
{
    s2_tui_model *const model = &e->session.model;
    char raw[400], clean[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    raw[strcspn(raw, "\n")] = '\0';
    s2_text_clean(clean, sizeof clean, raw);
    const char *const kept = s2_arena_strndup(&e->log, clean, strlen(clean));
    snprintf(e->session.state.message, sizeof e->session.state.message, "%s", clean);
    if (kept == NULL)
        return;
    if (model->n_log == S2_EXPLORER_LOG)
        memmove(e->lines, e->lines + 1, sizeof e->lines[0] * (S2_EXPLORER_LOG - 1));
    else
        model->n_log++;
    e->lines[model->n_log - 1] = kept;
    model->log = e->lines;
}

/* ---- what the views ask for */

static void open_design(s2_explorer *e, int64_t id)
{
    s2_arena scratch = {0};
    const char *const text = s2_explorer_text(e, &scratch, id);
    e->shown_id = id;
    if (text != NULL)
        s2_session_open(&e->session, text);
    else
        s2_session_close(&e->session);
    s2_arena_release(&scratch);
}

/* What the view shows beside its list is brought up to date; true when that changed. */
static bool preview(s2_explorer *e)
{
    const s2_tui_state *const state = &e->session.state;
    const s2_view_id view = state->views[state->depth];
    const int32_t output = e->output_of;
    const int64_t record = e->record_of;
    bool changed = false;
    if (view == S2_VIEW_DESIGNS && state->cursor < e->session.model.n_rows &&
        e->rows[state->cursor].id != e->shown_id) {
        open_design(e, e->rows[state->cursor].id);
        changed = true;
    }
    if (view == S2_VIEW_RUNS || view == S2_VIEW_OUTPUT)
        s2_explorer_output(e);
    if (view == S2_VIEW_DESIGN || view == S2_VIEW_RECORD)
        s2_explorer_record(e, state->design_id);
    return changed || output != e->output_of || record != e->record_of;
}

/* By its row where that is loaded, else as its text says. */
static const char *name_of(s2_explorer *e, int64_t id, const char *text)
{
    static const char name[] = "name ";
    const s2_tui_row *const row = s2_explorer_row(e, id);
    const char *shown = row != NULL && row->name[0] != '\0' ? row->name : row != NULL ? row->hash : "unnamed";
    size_t n = strlen(shown);
    if (row == NULL && strncmp(text, name, sizeof name - 1) == 0) {
        shown = text + sizeof name - 1;
        n = strcspn(shown, "\n;");
    }
    return s2_arena_strndup(&e->log, shown, n);
}

static void compare(s2_explorer *e)
{
    s2_arena scratch = {0};
    s2_session_compare_none(&e->session);
    for (int32_t at = 0; at < e->session.state.n_marked; at++) {
        const int64_t id = e->session.state.marked[at];
        const char *const text = s2_explorer_text(e, &scratch, id);
        const char *const name = text != NULL ? name_of(e, id, text) : NULL;
        if (name != NULL)
            s2_session_compare_add(&e->session, name, text);
    }
    s2_arena_release(&scratch);
}

static void copy_command(s2_explorer *e)
{
    s2_buf buf = {0};
    s2_tui_command(&e->session.model, &e->session.state, &buf);
    const bool whole = buf.len > 0 && buf.status == S2_OK;
    if (e->term != NULL && whole)
        s2_term_copy(e->term, buf.data);
    s2_buf_release(&buf);
    s2_explorer_say(e, whole ? "the command was handed to the terminal's clipboard"
                             : "nothing was copied: the design is still being derived");
}

/* False: the session ends. */
static bool serve(s2_explorer *e)
{
    const s2_request request = e->session.state.request;
    e->session.state.request = S2_REQUEST_NONE;
    switch (request) {
    case S2_REQUEST_QUIT: return !s2_explorer_change_may_leave(e);
    case S2_REQUEST_LIST: s2_explorer_list(e); break;
    case S2_REQUEST_MORE: s2_explorer_list_more(e); break;
    case S2_REQUEST_BEFORE: s2_explorer_list_less(e); break;
    case S2_REQUEST_LAST: s2_explorer_list_last(e); break;
    case S2_REQUEST_OPEN:
    case S2_REQUEST_RECORD: open_design(e, e->session.state.request_id); break;
    case S2_REQUEST_COMPARE: compare(e); break;
    case S2_REQUEST_COPY: copy_command(e); break;
    case S2_REQUEST_VALIDATE: s2_explorer_command(e, "validate"); break;
    case S2_REQUEST_PROVE: s2_explorer_command(e, "check"); break;
    case S2_REQUEST_PRICE: s2_explorer_command(e, "sim"); break;
    case S2_REQUEST_AROUND: s2_explorer_around(e); break;
    case S2_REQUEST_TRY_EXPORT: s2_explorer_try_export(e); break;
    case S2_REQUEST_EXPORT: s2_explorer_export(e); break;
    case S2_REQUEST_VIEWS: s2_explorer_views(e); break;
    case S2_REQUEST_RUNS: s2_explorer_runs(e); break;
    case S2_REQUEST_CANCEL: s2_explorer_cancel(e); break;
    case S2_REQUEST_DUMP: s2_explorer_dump_prompted(e); break;
    case S2_REQUEST_REDRAW:
        if (e->term != NULL)
            s2_term_forget(e->term);
        break;
    case S2_REQUEST_NONE: break;
    default: s2_explorer_change(e, request);
    }
    return true;
}

static bool press(s2_explorer *e, int32_t key)
{
    s2_session_key(&e->session, key);
    return serve(e);
}

static int dump(s2_explorer *e)
{
    preview(e);
    s2_session_draw(&e->session);
    return s2_explorer_dump(e, s2_args_str(&e->args, "as"), s2_args_str(&e->args, "output"));
}

static bool parse_size(const char *text, int32_t *cols, int32_t *rows)
{
    char rest;
    return sscanf(text, "%dx%d%c", cols, rows, &rest) == 2 && *cols >= 1 && *rows >= 1 &&
           *cols <= S2_CANVAS_LIMIT_COLS && *rows <= S2_CANVAS_LIMIT_ROWS;
}

/* Until nothing runs beside the screen any more. */
static void wait_for_jobs(s2_explorer *e)
{
    while (s2_explorer_works(e)) {
        const struct timespec moment = {.tv_nsec = 5000000};
        s2_explorer_pump(e);
        nanosleep(&moment, NULL);
    }
    s2_explorer_follow(e);
}

/* A script, and the line that is obeyed. */
typedef struct script_place {
    const char *path;
    const char *line;
    int32_t number;
} script_place;

/* Where it is wrong, as compilers say it. */
static int refuse(s2_explorer *e, const script_place *from, const char *at, const char *why)
{
    const int32_t col = (int32_t)(at - from->line) + 1;
    s2_cli_error(e->cli, "%s:%d:%d: %s", from->path, from->number, col, why);
    return S2_EXIT_REFUSED;
}

static int type_text(s2_explorer *e, const script_place *from, const char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        const size_t len = s2_utf8_len(text, n);
        if (len == 0)
            return refuse(e, from, text, "not UTF-8");
        press(e, (int32_t)s2_utf8_decode(text, len));
        text += len;
        n -= len;
    }
    return S2_GO_ON;
}

static int press_words(s2_explorer *e, const script_place *from)
{
    const char *at = from->line;
    while (*(at += strspn(at, " \t")) != '\0') {
        const size_t n = strcspn(at, " \t");
        const int32_t key = s2_key_parse(at, n);
        char why[120];
        snprintf(why, sizeof why, "no key '%.*s'; keys are letters, up, pgdn, enter, esc, tab, space, ...",
                 n < 40 ? (int)n : 40, at);
        if (key == 0)
            return refuse(e, from, at, why);
        if (!press(e, key))
            return S2_EXIT_OK;
        at += n;
    }
    return S2_GO_ON;
}

/* Words are keys; `type TEXT` types the rest of the line; `size 80x24`; `wait` for what runs; `dump`. */
static int script_line(s2_explorer *e, const script_place *from)
{
    const char *const line = from->line;
    int32_t rows, cols;
    if (line[0] == '#')
        return S2_GO_ON;
    if (strncmp(line, "type ", 5) == 0)
        return type_text(e, from, line + 5);
    if (strncmp(line, "size ", 5) == 0) {
        if (!parse_size(line + 5, &cols, &rows))
            return refuse(e, from, line + 5, "a size is columns x rows, as in 80x24");
        return s2_session_resize(&e->session, rows, cols) == S2_OK ? S2_GO_ON : S2_EXIT_ENVIRONMENT;
    }
    if (strcmp(line, "dump") == 0)
        return dump(e);
    if (strcmp(line, "wait") != 0)
        return press_words(e, from);
    wait_for_jobs(e);
    return S2_GO_ON;
}

static int run_script(s2_explorer *e, const char *path)
{
    FILE *const file = strcmp(path, "-") == 0 ? e->cli->in : fopen(path, "r");
    char line[4096];
    int end = S2_GO_ON;
    script_place from = {.path = file == e->cli->in ? "standard input" : path, .line = line};
    if (file == NULL) {
        s2_cli_error(e->cli, "%s: cannot be read: %s", path, strerror(errno));
        return S2_EXIT_REFUSED;
    }
    while (end == S2_GO_ON && fgets(line, sizeof line, file) != NULL) {
        const size_t n = strcspn(line, "\r\n");
        from.number++;
        if (n == sizeof line - 1)
            end = refuse(e, &from, line + n, "the line is too long");
        line[n] = '\0';
        if (end == S2_GO_ON)
            end = script_line(e, &from);
    }
    if (file != e->cli->in)
        fclose(file);
    return end == S2_GO_ON ? S2_EXIT_OK : end;
}

/* ---- the terminal */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void do_order(void *order)
{
    s2_order_do(order);
}

/* Draws until nothing is lacking, or a frame's time is over; what is left is done while keys are awaited. */
static void settle(s2_explorer *e)
{
    const double until = now_ms() + FRAME_MS;
    for (;;) {
        const double left = until - now_ms();
        if (e->facts_worker.busy && !s2_worker_wait(&e->facts_worker, left > 0 ? left : 0))
            break;
        if (s2_worker_collect(&e->facts_worker))
            s2_session_take(&e->session, &e->order);
        s2_session_draw(&e->session);
        if (!s2_session_next(&e->session, &e->order))
            return;
        s2_worker_post(&e->facts_worker, do_order, &e->order);
    }
    s2_session_draw(&e->session);
}

static void show(s2_explorer *e)
{
    settle(e);
    s2_term_show(e->term, &e->session.canvas);
}

static bool resize(s2_explorer *e)
{
    int32_t rows, cols;
    s2_term_size(e->term, &rows, &cols);
    return s2_session_resize(&e->session, rows, cols) == S2_OK;
}

static bool take_key(s2_explorer *e, int32_t key)
{
    int32_t row, col, wheel;
    e->session.calm = false;
    if (key == S2_TERM_RESIZED)
        return resize(e);
    if (key != S2_TERM_CLICK)
        return press(e, key);
    s2_term_clicked(e->term, &row, &col, &wheel);
    s2_session_click(&e->session, row, col, wheel);
    return serve(e);
}

/* Wait for a key, what a job says, or what a worker finished; true when the screen is to be drawn. */
static bool idle(s2_explorer *e, int32_t *key, double *looked)
{
    int files[8];
    const int32_t n_files = s2_explorer_files(e, files, 8);
    const bool longs = !e->session.calm && !e->facts_worker.busy && s2_session_longs(&e->session);
    *key = s2_term_key(e->term, longs || s2_explorer_works(e) ? BUSY_MS : IDLE_MS, files, n_files);
    e->session.calm = longs && *key == S2_TERM_NOTHING;
    bool changed = s2_explorer_change_collect(e) || e->session.calm;
    changed = s2_explorer_pump(e) || changed;
    changed = s2_explorer_list_collect(e) || changed;
    changed = (e->facts_worker.busy && s2_worker_wait(&e->facts_worker, 0)) || changed;
    if (now_ms() - *looked < IDLE_MS)
        return changed;
    *looked = now_ms();
    return s2_explorer_follow(e) || changed;
}

/* A frame's time for what the preview lacks, unless a key comes before. */
static int32_t await_facts(s2_explorer *e)
{
    if (!e->facts_worker.busy && s2_session_next(&e->session, &e->order))
        s2_worker_post(&e->facts_worker, do_order, &e->order);
    return s2_term_key(e->term, FRAME_MS, &e->facts_worker.event_fd, e->facts_worker.started ? 1 : 0);
}

static void loop(s2_explorer *e)
{
    double looked = now_ms();
    int32_t key = S2_TERM_RESIZED;
    bool go_on = true;
    while (go_on && key != S2_TERM_END) {
        bool changed = key != S2_TERM_NOTHING;
        if (changed)
            go_on = take_key(e, key);
        if (!go_on)
            break;
        if (changed)
            show(e);
        /* the preview waits until no key does, so that moving through the list never does */
        key = s2_term_key(e->term, 0, NULL, 0);
        if (key != S2_TERM_NOTHING)
            continue;
        if (preview(e)) {
            key = await_facts(e);
            if (key != S2_TERM_NOTHING)
                continue;
            show(e);
        }
        if (idle(e, &key, &looked))
            show(e);
    }
}

/* Nobody waits for what nobody will see. */
static void leave_facts(s2_explorer *e)
{
    enum { PATIENCE_MS = 50 };
    if (!s2_worker_stop(&e->facts_worker, PATIENCE_MS))
        e->left_behind = true;
    else if (s2_worker_collect(&e->facts_worker))
        s2_session_take(&e->session, &e->order);
}

static int run_terminal(s2_explorer *e)
{
    s2_diag diag = {0};
    const char *const no_color = getenv("NO_COLOR");
    s2_term_options options = {.ascii = s2_args_has(&e->args, "ascii"),
                               .mono =
                                   s2_args_has(&e->args, "mono") || (no_color != NULL && no_color[0] != '\0'),
                               .mouse = s2_args_has(&e->args, "mouse")};
    (void)s2_palette_find(s2_args_str(&e->args, "palette"), &options.palette);
    const s2_status status = s2_term_open(&options, &e->term, &diag);
    if (status != S2_OK) {
        s2_cli_error(e->cli, "%s", diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
        s2_cli_hint(e->cli, "s2 tui --dump designs prints a screen; s2 ls lists designs");
        return S2_EXIT_ENVIRONMENT;
    }
    e->session.canvas.ascii = s2_term_is_ascii(e->term);
    /* without threads it waits where it would otherwise go on; that is all */
    e->session.deferred = s2_worker_start(&e->facts_worker) == S2_OK;
    (void)!s2_worker_start(&e->list_worker);
    (void)!s2_worker_start(&e->change_worker);
    loop(e);
    s2_term_close(&e->term);
    leave_facts(e);
    return S2_EXIT_OK;
}

static int view_of(s2_explorer *e, const char *name, s2_view_id *view)
{
    static const char *const names[] = {"bench", "designs", "design", "compare", "pareto", "record",
                                        "runs",  "output",  "log",    "help",    "tour"};
    for (int at = 0; at < S2_N_VIEWS; at++)
        if (strcmp(names[at], name) == 0) {
            *view = (s2_view_id)at;
            return S2_GO_ON;
        }
    s2_cli_error(e->cli, "--dump: no view %s", name);
    return S2_EXIT_USAGE;
}

/* A view that is reached through a design or marks is shown with the first designs of the list. */
static void go_to(s2_explorer *e, s2_view_id view)
{
    s2_tui_state *const state = &e->session.state;
    if (view == S2_VIEW_DESIGN || view == S2_VIEW_RECORD)
        press(e, view == S2_VIEW_DESIGN ? S2_KEY_ENTER : 'r');
    if (view == S2_VIEW_RUNS || view == S2_VIEW_OUTPUT)
        press(e, '6');
    if (view == S2_VIEW_OUTPUT)
        press(e, S2_KEY_ENTER);
    if (view == S2_VIEW_COMPARE)
        for (const char *key = " j j c"; *key != '\0'; key++)
            press(e, *key);
    const uint32_t reached = 1u << S2_VIEW_DESIGN | 1u << S2_VIEW_RECORD | 1u << S2_VIEW_RUNS |
                             1u << S2_VIEW_OUTPUT | 1u << S2_VIEW_COMPARE | 1u << S2_VIEW_DESIGNS;
    if ((reached & (1u << view)) == 0)
        state->views[++state->depth] = view;
}

static int run(s2_explorer *e)
{
    const char *const dumped = s2_args_str(&e->args, "dump");
    const char *const script = s2_args_str(&e->args, "script");
    s2_view_id view = e->db == NULL && script == NULL ? S2_VIEW_TOUR : S2_VIEW_DESIGNS;
    const int end = dumped != NULL ? view_of(e, dumped, &view) : S2_GO_ON;
    if (end != S2_GO_ON)
        return end;
    s2_explorer_formats(e);
    e->session.model.gpu = access("/dev/nvidiactl", F_OK) == 0;
    e->seen = s2_explorer_stamp(e);
    s2_explorer_list(e);
    go_to(e, view);
    if (e->db == NULL && e->cli->db_path != NULL && !e->cli->no_db)
        s2_explorer_say(e, "there is no %.100s: these are samples, and saving one makes it", e->cli->db_path);
    if (dumped == NULL)
        return script != NULL ? run_script(e, script) : run_terminal(e);
    const int printed = dump(e);
    return printed == S2_GO_ON ? S2_EXIT_OK : printed;
}

/* A task that another thread is still at uses what would be released: the process ends from under it. */
static void end_now(int code)
{
    fflush(NULL);
    _exit(code);
}

static void release(s2_explorer *e, int code)
{
    s2_explorer_change_release(e);
    s2_explorer_jobs_release(e);
    s2_explorer_list_release(e);
    if (e->left_behind)
        end_now(code);
    s2_session_release(&e->session);
    s2_arena *const arenas[] = {&e->log,          &e->runs_arena, &e->output_arena,
                                &e->record_arena, &e->loss_arena, &e->choices_arena};
    for (size_t at = 0; at < sizeof arenas / sizeof arenas[0]; at++)
        s2_arena_release(arenas[at]);
    s2_buf_release(&e->database);
    if (e->db != NULL)
        s2_db_close(&e->db);
    s2_free(e);
}

int s2_cmd_tui(s2_cli *cli, int argc, char **argv)
{
    s2_explorer *const e = s2_calloc(1, sizeof *e);
    int32_t rows = 0, cols = 0;
    if (e == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "tui");
    e->cli = cli;
    e->output_of = -1;
    s2_job_init(&e->trial);
    int end = s2_args_parse(cli, "tui", argc, argv, &e->args);
    if (end == S2_GO_ON && !parse_size(s2_args_str(&e->args, "size"), &cols, &rows)) {
        s2_cli_error(cli, "--size: columns x rows, as in 80x24");
        end = S2_EXIT_USAGE;
    }
    if (end == S2_GO_ON) {
        const s2_status status =
            s2_session_init(&e->session, rows, cols, s2_args_has(&e->args, "ascii"), S2_VIEW_DESIGNS);
        e->session.model.source = s2_explorer_samples;
        s2_explorer_name(e);
        end = status == S2_OK ? s2_explorer_open(e) : s2_cli_fail(cli, status, "tui");
    }
    if (end == S2_GO_ON)
        end = run(e);
    release(e, end);
    return end;
}
