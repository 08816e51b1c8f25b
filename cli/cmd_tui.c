#include "cli/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/input.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "cli/store.h"
#include "tui/session.h"
#include "tui/term.h"

enum { PAGE_ROWS = 500, LOG_LINES = 200, IDLE_MS = 500, SCRIPT_BYTES = 1 << 20 };

static const char SAMPLES[] = "samples, at 8k";

/* What tells that the database's file changed. */
typedef struct stamp {
    ino_t inode;
    off_t size;
    struct timespec time;
    off_t wal_size;
    struct timespec wal_time;
} stamp;

/* What the command owns and the session points to. */
typedef struct owner {
    s2_cli *cli;
    s2_args args;
    s2_session session;
    s2_term *term;  /* NULL in scripts and dumps */
    s2_db *db;      /* for reading; NULL: the samples */
    stamp seen;     /* of its file when it was last listed */
    s2_arena pages; /* of the list; rewound when the list is made anew */
    s2_arena log;
    s2_tui_row *rows;
    int32_t cap_rows;
    int64_t shown_id; /* the design that the model has facts of */
    const char *lines[LOG_LINES];
} owner;

static void say(owner *o, const char *text)
{
    s2_tui_model *const model = &o->session.model;
    char clean[160];
    s2_text_clean(clean, sizeof clean, text);
    const char *const kept = s2_arena_strndup(&o->log, clean, strlen(clean));
    snprintf(o->session.state.message, sizeof o->session.state.message, "%s", clean);
    if (kept == NULL)
        return;
    if (model->n_log == LOG_LINES)
        memmove(o->lines, o->lines + 1, sizeof o->lines[0] * (LOG_LINES - 1));
    else
        model->n_log++;
    o->lines[model->n_log - 1] = kept;
    model->log = o->lines;
}

static s2_tui_row *add_row(owner *o)
{
    s2_tui_model *const model = &o->session.model;
    if (model->n_rows == o->cap_rows) {
        const int32_t want = o->cap_rows == 0 ? PAGE_ROWS : o->cap_rows * 2;
        s2_tui_row *const grown =
            s2_arena_grow(&o->pages, o->rows, (size_t)model->n_rows, (size_t)want, sizeof *grown);
        if (grown == NULL)
            return NULL;
        o->rows = grown;
        o->cap_rows = want;
        model->rows = grown;
    }
    return &o->rows[model->n_rows++];
}

static int32_t verdict_of(int64_t stored)
{
    return stored == S2_DB_NONE ? S2_TUI_NOT_CHECKED : (int32_t)stored;
}

static void add_db_row(owner *o, const s2_db_row *from)
{
    s2_tui_row *const row = add_row(o);
    if (row == NULL)
        return;
    *row = (s2_tui_row){.id = from->id,
                        .hash = from->hash,
                        .name = from->name,
                        .family = from->family,
                        .tags = from->tags != NULL ? from->tags : "",
                        .outcome = from->outcome != NULL ? from->outcome : "",
                        .n_layers = from->n_layers,
                        .n_heads = from->n_heads,
                        .n_kv_heads = from->n_kv_heads,
                        .block_tok = from->block_tok,
                        .rows = verdict_of(from->rows),
                        .unions = verdict_of(from->unions),
                        .kv = verdict_of(from->kv),
                        .density = from->density,
                        .sim_us = from->sim_us,
                        .kv_bytes = from->kv_bytes,
                        .gpu_us = from->gpu_us,
                        .starred = from->starred};
}

static void list_begin(owner *o, s2_arena pages)
{
    s2_arena_release(&o->pages);
    o->pages = pages;
    o->rows = NULL;
    o->cap_rows = 0;
    o->shown_id = 0;
    o->session.model.rows = NULL;
    o->session.model.n_rows = 0;
    o->session.model.more = false;
    o->session.model.list_error = NULL;
}

static void add_page(owner *o, const s2_db_row *rows, int32_t n_rows)
{
    for (int32_t n = 0; n < n_rows; n++)
        add_db_row(o, &rows[n]);
    o->session.model.more = n_rows == PAGE_ROWS;
}

/* The page after `after_id`, or the first one in place of what is there; a refusal leaves that as it is. */
static void list_page(owner *o, int64_t after_id)
{
    const s2_tui_state *const state = &o->session.state;
    const s2_db_query query = {.filter = state->filter,
                               .sort = s2_tui_sorts[state->sort],
                               .descending = !state->ascending,
                               .limit = PAGE_ROWS,
                               .after_id = after_id};
    const s2_db_row *rows;
    int32_t n_rows;
    s2_arena fresh = {0};
    s2_diag diag = {0};
    const s2_status status =
        s2_db_list(o->db, after_id == 0 ? &fresh : &o->pages, &query, &rows, &n_rows, &diag);
    if (status != S2_OK) {
        s2_arena_release(&fresh);
        say(o, diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
        o->session.model.list_error =
            o->session.model.n_log > 0 ? o->lines[o->session.model.n_log - 1] : "out of memory";
        return;
    }
    if (after_id == 0)
        list_begin(o, fresh);
    add_page(o, rows, n_rows);
}

static void add_sample(owner *o, const char *text, int64_t id)
{
    const s2_question question = {.len_tok = 8192, .gpu = "h200"};
    s2_facts facts;
    s2_facts_build(text, strlen(text), &question, &facts);
    s2_tui_row *const row = facts.status == S2_OK ? add_row(o) : NULL;
    if (row != NULL)
        *row =
            (s2_tui_row){.id = id,
                         .hash = s2_arena_strndup(&o->pages, facts.hash, 12),
                         .name = s2_arena_strndup(&o->pages, facts.pattern.name, strlen(facts.pattern.name)),
                         .family = "",
                         .tags = "",
                         .outcome = "",
                         .n_layers = facts.pattern.n_layers,
                         .n_heads = facts.pattern.n_heads,
                         .n_kv_heads = facts.pattern.n_kv_heads,
                         .block_tok = facts.pattern.block_tok,
                         .rows = (int32_t)facts.findings[0].verdict,
                         .unions = (int32_t)facts.findings[1].verdict,
                         .kv = (int32_t)facts.findings[2].verdict,
                         .density = facts.priced ? facts.density : (double)NAN,
                         .sim_us = facts.priced ? facts.time_us : (double)NAN,
                         .kv_bytes = (double)facts.kv_bytes[S2_KV_POINTS - 1],
                         .gpu_us = (double)NAN,
                         .text = text};
    s2_facts_release(&facts);
}

static void list(owner *o)
{
    s2_tui_model *const model = &o->session.model;
    if (o->db != NULL) {
        list_page(o, 0);
        return;
    }
    list_begin(o, (s2_arena){0});
    for (int64_t at = 0; s2_samples[at] != NULL; at++)
        add_sample(o, s2_samples[at], at + 1);
    model->list_error = o->session.state.filter[0] != '\0' ? "samples are not filtered; a database is" : NULL;
}

static const s2_tui_row *row_of(const owner *o, int64_t id)
{
    for (int32_t at = 0; at < o->session.model.n_rows; at++)
        if (o->rows[at].id == id)
            return &o->rows[at];
    return NULL;
}

/* The canonical text of a design, or NULL after a message. */
static const char *text_of(owner *o, int64_t id)
{
    const s2_tui_row *const row = row_of(o, id);
    if (o->db == NULL)
        return row != NULL ? row->text : NULL;
    const char *text = NULL;
    s2_diag diag = {0};
    if (s2_db_text(o->db, &o->pages, id, &text, &diag) != S2_OK) {
        say(o, diag.msg);
        return NULL;
    }
    return text;
}

static void open_design(owner *o, int64_t id)
{
    const char *const text = text_of(o, id);
    o->shown_id = id;
    if (text != NULL)
        s2_session_open(&o->session, text);
    else
        s2_session_close(&o->session);
}

/* Below the list the design under the cursor is shown; true when that is another one than before. */
static bool preview(owner *o)
{
    const s2_tui_state *const state = &o->session.state;
    if (state->views[state->depth] != S2_VIEW_DESIGNS || state->cursor >= o->session.model.n_rows ||
        o->rows[state->cursor].id == o->shown_id)
        return false;
    open_design(o, o->rows[state->cursor].id);
    return true;
}

static void compare(owner *o)
{
    s2_session_compare_none(&o->session);
    for (int32_t at = 0; at < o->session.state.n_marked; at++) {
        const int64_t id = o->session.state.marked[at];
        const s2_tui_row *const row = row_of(o, id);
        const char *const text = row != NULL ? text_of(o, id) : NULL;
        if (text != NULL)
            s2_session_compare_add(&o->session, row->name[0] != '\0' ? row->name : row->hash, text);
    }
}

/* What storing says goes to the log, not over the screen. */
static void quietly(owner *o, int (*store)(owner *o), const char *done)
{
    char *words = NULL;
    size_t n = 0;
    FILE *const real = o->cli->err, *const memory = open_memstream(&words, &n);
    if (memory == NULL)
        return;
    o->cli->err = memory;
    const int end = store(o);
    fclose(memory);
    o->cli->err = real;
    say(o, end == S2_GO_ON ? done : words);
    free(words);
}

static int store_bench(owner *o)
{
    s2_buf text = {0};
    char name[S2_LIMIT_NAME_BYTES];
    s2_text_clean(name, sizeof name, o->session.state.prompt);
    if (name[0] != '\0')
        s2_buf_printf(&text, "name %s\n", name);
    s2_knobs_text(&o->session.state.knobs, "\n", &text);
    s2_input input = {.label = "workbench", .text = text.data, .n_bytes = text.len};
    s2_diag diag = {0};
    const s2_status status =
        s2_pattern_parse(&o->cli->arena, text.data, text.len, NULL, &input.pattern, &diag);
    const int end = status == S2_OK
                        ? s2_store_design(o->cli, &input)
                        : s2_input_refuse(o->cli, status, "workbench", text.data, text.len, &diag);
    s2_buf_release(&text);
    return end;
}

static int open_db(owner *o)
{
    if (o->db != NULL || o->cli->no_db || access(s2_store_path(o->cli), F_OK) != 0)
        return S2_GO_ON;
    const int end = s2_store_open(o->cli, S2_DB_READ, &o->db);
    if (end == S2_GO_ON)
        o->session.model.source = s2_store_path(o->cli);
    return end;
}

/* The connection that stores; stars and undo have no run of their own. */
static int people(owner *o, s2_status (*change)(owner *o, s2_db *db, s2_diag *diag))
{
    s2_db *db;
    s2_diag diag = {0};
    const int end = s2_store_open(o->cli, S2_DB_WRITE, &db);
    if (end != S2_GO_ON)
        return end;
    const s2_status status = change(o, db, &diag);
    s2_db_close(&db);
    return status == S2_OK ? S2_GO_ON : s2_store_report(o->cli, status, &diag);
}

static s2_status change_star(owner *o, s2_db *db, s2_diag *diag)
{
    const s2_tui_row *const row = row_of(o, o->session.state.request_id);
    return s2_db_star(db, o->session.state.request_id, row == NULL || !row->starred, diag);
}

static s2_status change_undo(owner *o, s2_db *db, s2_diag *diag)
{
    s2_buf what = {0};
    (void)o;
    const s2_status status = s2_db_undo(db, &what, diag);
    s2_buf_release(&what);
    return status;
}

/* The list anew, with the cursor on the design it was on, wherever that is now. */
static void list_again(owner *o)
{
    s2_tui_state *const state = &o->session.state;
    const int64_t id = state->cursor < o->session.model.n_rows ? o->rows[state->cursor].id : 0;
    list(o);
    for (int32_t at = 0; at < o->session.model.n_rows; at++)
        if (o->rows[at].id == id)
            state->cursor = at;
    s2_tui_settle(&o->session.model, state);
}

static stamp stamp_of(const owner *o)
{
    struct stat file, wal;
    char path[4096];
    stamp now;
    /* compared as bytes, padding included */
    memset(&now, 0, sizeof now);
    if (stat(s2_store_path(o->cli), &file) != 0)
        return now;
    now.inode = file.st_ino;
    now.size = file.st_size;
    now.time = file.st_mtim;
    snprintf(path, sizeof path, "%s-wal", s2_store_path(o->cli));
    if (stat(path, &wal) == 0) {
        now.wal_size = wal.st_size;
        now.wal_time = wal.st_mtim;
    }
    return now;
}

/* Another process wrote, or put another file in place; true when the screen is to be drawn anew. */
static bool follow(owner *o)
{
    const stamp now = stamp_of(o);
    if (memcmp(&now, &o->seen, sizeof now) == 0)
        return false;
    const bool replaced = now.inode != o->seen.inode;
    o->seen = now;
    if (replaced) {
        if (o->db != NULL)
            s2_db_close(&o->db);
        o->session.model.source = SAMPLES;
        quietly(o, open_db,
                now.inode == 0 ? "the database file is gone" : "the database file is another one now");
    }
    list_again(o);
    return true;
}

static int store_star(owner *o)
{
    return people(o, change_star);
}

static int store_undo(owner *o)
{
    return people(o, change_undo);
}

/* Changes need a database; the cursor stays on its design. */
static void change(owner *o, int (*store)(owner *o), const char *done, bool creates)
{
    if (o->db == NULL && (!creates || o->cli->no_db)) {
        say(o, "no database is open");
        return;
    }
    quietly(o, store, done);
    if (o->db == NULL)
        quietly(o, open_db, done);
    list_again(o);
}

static void copy_command(owner *o)
{
    s2_buf buf = {0};
    s2_tui_command(&o->session.model, &o->session.state, &buf);
    if (o->term != NULL && buf.data != NULL && buf.status == S2_OK)
        s2_term_copy(o->term, buf.data);
    s2_buf_release(&buf);
    say(o, "the command was handed to the terminal's clipboard");
}

/* False: the session ends. */
static bool serve(owner *o)
{
    switch (o->session.state.request) {
    case S2_REQUEST_QUIT: return false;
    case S2_REQUEST_LIST: list(o); break;
    case S2_REQUEST_MORE:
        if (o->db != NULL && o->session.model.n_rows > 0)
            list_page(o, o->rows[o->session.model.n_rows - 1].id);
        break;
    case S2_REQUEST_OPEN: open_design(o, o->session.state.request_id); break;
    case S2_REQUEST_COMPARE: compare(o); break;
    case S2_REQUEST_SAVE: change(o, store_bench, "saved", true); break;
    case S2_REQUEST_STAR: change(o, store_star, "done; z takes it back", false); break;
    case S2_REQUEST_UNDO: change(o, store_undo, "taken back", false); break;
    case S2_REQUEST_COPY: copy_command(o); break;
    case S2_REQUEST_REDRAW:
        if (o->term != NULL)
            s2_term_forget(o->term);
        break;
    case S2_REQUEST_NONE: break;
    }
    o->session.state.request = S2_REQUEST_NONE;
    return true;
}

static bool press(owner *o, int32_t key)
{
    s2_session_key(&o->session, key);
    return serve(o);
}

static int dump(owner *o)
{
    s2_buf buf = {0};
    preview(o);
    s2_session_draw(&o->session);
    s2_canvas_dump(&o->session.canvas, s2_args_has(&o->args, "styles"), &buf);
    return s2_cli_print(o->cli, &buf);
}

static bool parse_size(const char *text, int32_t *cols, int32_t *rows)
{
    char rest;
    return sscanf(text, "%dx%d%c", cols, rows, &rest) == 2 && *cols >= 1 && *rows >= 1 &&
           *cols <= S2_CANVAS_LIMIT_COLS && *rows <= S2_CANVAS_LIMIT_ROWS;
}

/* Words are keys; `type TEXT` types the rest of the line; `size 80x24`; `dump`. */
static int script_line(owner *o, char *line, int32_t number)
{
    int32_t rows, cols;
    if (strncmp(line, "type ", 5) == 0) {
        for (const char *at = line + 5; *at != '\0'; at++)
            press(o, (unsigned char)*at);
        return S2_GO_ON;
    }
    if (strncmp(line, "size ", 5) == 0 && parse_size(line + 5, &cols, &rows))
        return s2_session_resize(&o->session, rows, cols) == S2_OK ? S2_GO_ON : S2_EXIT_ENVIRONMENT;
    if (strcmp(line, "dump") == 0)
        return dump(o);
    char *save = NULL;
    for (char *word = strtok_r(line, " \t", &save); word != NULL; word = strtok_r(NULL, " \t", &save)) {
        const int32_t key = s2_key_parse(word, strlen(word));
        if (key == 0) {
            s2_cli_error(o->cli, "script, line %d: no key '%s'", number, word);
            return S2_EXIT_REFUSED;
        }
        if (!press(o, key))
            return S2_EXIT_OK;
    }
    return S2_GO_ON;
}

static int run_script(owner *o, const char *path)
{
    FILE *const file = strcmp(path, "-") == 0 ? o->cli->in : fopen(path, "r");
    char line[1024];
    int end = S2_GO_ON;
    if (file == NULL) {
        s2_cli_error(o->cli, "%s: cannot be read", path);
        return S2_EXIT_REFUSED;
    }
    for (int32_t number = 1; end == S2_GO_ON && fgets(line, sizeof line, file) != NULL; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] != '#')
            end = script_line(o, line, number);
    }
    if (file != o->cli->in)
        fclose(file);
    return end == S2_GO_ON ? S2_EXIT_OK : end;
}

static int run_terminal(owner *o)
{
    s2_diag diag = {0};
    const s2_status status =
        s2_term_open(s2_args_has(&o->args, "ascii"), s2_args_has(&o->args, "mono"), &o->term, &diag);
    if (status != S2_OK) {
        s2_cli_error(o->cli, "%s", diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
        s2_cli_hint(o->cli, "s2 tui --dump designs prints a screen; s2 ls lists designs");
        return S2_EXIT_ENVIRONMENT;
    }
    o->session.canvas.ascii = s2_term_is_ascii(o->term);
    o->seen = stamp_of(o);
    int32_t key = S2_TERM_RESIZED;
    do {
        int32_t rows, cols;
        s2_term_size(o->term, &rows, &cols);
        if (key == S2_TERM_RESIZED && s2_session_resize(&o->session, rows, cols) != S2_OK)
            break;
        if (key != S2_TERM_NOTHING) {
            s2_session_draw(&o->session);
            s2_term_show(o->term, &o->session.canvas);
        }
        /* the preview waits until no key does, so that moving through the list never does */
        key = s2_term_key(o->term, 0);
        if (key == S2_TERM_NOTHING && preview(o)) {
            s2_session_draw(&o->session);
            s2_term_show(o->term, &o->session.canvas);
        }
        if (key == S2_TERM_NOTHING)
            key = s2_term_key(o->term, IDLE_MS);
        if (key == S2_TERM_NOTHING && follow(o))
            key = S2_TERM_RESIZED;
    } while (key != S2_TERM_END && (key <= S2_TERM_NOTHING || press(o, key)));
    s2_term_close(&o->term);
    return S2_EXIT_OK;
}

static int view_of(owner *o, const char *name, s2_view_id *view)
{
    static const char *const names[] = {"bench",  "designs", "design", "compare",
                                        "pareto", "log",     "help",   "tour"};
    for (int at = 0; at < S2_N_VIEWS; at++)
        if (strcmp(names[at], name) == 0) {
            *view = (s2_view_id)at;
            return S2_GO_ON;
        }
    s2_cli_error(o->cli, "--dump: no view %s", name);
    return S2_EXIT_USAGE;
}

/* A view that is reached through a design or marks is shown with the first designs of the list. */
static void go_to(owner *o, s2_view_id view)
{
    s2_tui_state *const state = &o->session.state;
    if (view == S2_VIEW_DESIGN)
        press(o, S2_KEY_ENTER);
    if (view == S2_VIEW_COMPARE)
        for (const char *key = " j j c"; *key != '\0'; key++)
            press(o, *key);
    if (view != S2_VIEW_DESIGN && view != S2_VIEW_COMPARE && view != S2_VIEW_DESIGNS)
        state->views[++state->depth] = view;
}

static int run(owner *o)
{
    const char *const dumped = s2_args_str(&o->args, "dump");
    const char *const script = s2_args_str(&o->args, "script");
    s2_view_id view = o->db == NULL && script == NULL ? S2_VIEW_TOUR : S2_VIEW_DESIGNS;
    const int end = dumped != NULL ? view_of(o, dumped, &view) : S2_GO_ON;
    if (end != S2_GO_ON)
        return end;
    list(o);
    go_to(o, view);
    if (dumped == NULL)
        return script != NULL ? run_script(o, script) : run_terminal(o);
    const int printed = dump(o);
    return printed == S2_GO_ON ? S2_EXIT_OK : printed;
}

int s2_cmd_tui(s2_cli *cli, int argc, char **argv)
{
    owner o = {.cli = cli};
    int32_t rows, cols;
    int end = s2_args_parse(cli, "tui", argc, argv, &o.args);
    if (end != S2_GO_ON)
        return end;
    if (!parse_size(s2_args_str(&o.args, "size"), &cols, &rows)) {
        s2_cli_error(cli, "--size: columns x rows, as in 80x24");
        return S2_EXIT_USAGE;
    }
    const s2_status status =
        s2_session_init(&o.session, rows, cols, s2_args_has(&o.args, "ascii"), S2_VIEW_DESIGNS);
    o.session.model.source = SAMPLES;
    end = status == S2_OK ? open_db(&o) : s2_cli_fail(cli, status, "tui");
    if (end == S2_GO_ON)
        end = run(&o);
    s2_session_release(&o.session);
    s2_arena_release(&o.pages);
    s2_arena_release(&o.log);
    if (o.db != NULL)
        s2_db_close(&o.db);
    return end;
}
