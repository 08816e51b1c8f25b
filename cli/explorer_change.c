/* What a person changes from the screen: designs saved, starred, tagged, noted, thrown away; views; undo. */
#include "cli/explorer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "pattern/parse.h"

enum { SAVED_VIEWS = 64 };

/* One change on a connection that writes. */
typedef s2_status (*change_fn)(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag);

static s2_status star(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    const s2_tui_row *const row = s2_explorer_row(e, e->session.state.request_id);
    const bool on = row == NULL || !row->starred;
    s2_buf_puts(said, on ? "starred; z takes it back" : "the star is taken away; z brings it back");
    return s2_db_star(db, e->session.state.request_id, on, diag);
}

static s2_status tag(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    char words[S2_TUI_PROMPT_BYTES];
    char *save = NULL;
    snprintf(words, sizeof words, "%s", e->session.state.prompt);
    for (char *word = strtok_r(words, " ,", &save); word != NULL; word = strtok_r(NULL, " ,", &save)) {
        const bool off = word[0] == '-';
        S2_TRY(s2_db_tag(db, e->session.state.request_id, word + off, !off, diag));
    }
    s2_buf_puts(said, "tagged; z takes it back");
    return S2_OK;
}

static s2_status note(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    if (e->session.state.prompt[0] == '\0')
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "an empty note is none");
    s2_buf_puts(said, "noted; z takes it back, r shows it");
    return s2_db_note(db, e->session.state.request_id, e->session.state.prompt, diag);
}

static s2_status trash(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    s2_buf_puts(said, "in the trash; z brings it back");
    return s2_db_remove(db, e->session.state.request_id, diag);
}

static s2_status undo(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    s2_buf what = {0};
    (void)e;
    const s2_status status = s2_db_undo(db, &what, diag);
    if (what.len > 0)
        s2_buf_printf(said, "taken back: %s", what.data);
    else
        s2_buf_puts(said, "nothing to take back");
    s2_buf_release(&what);
    return status;
}

static s2_status save_view(s2_explorer *e, s2_db *db, s2_buf *said, s2_diag *diag)
{
    const s2_tui_state *const state = &e->session.state;
    const s2_db_view view = {state->prompt, state->filter, s2_tui_sorts[state->sort], !state->ascending};
    s2_buf_puts(said, "kept; w shows all of them");
    return s2_db_view_put(db, &view, diag);
}

/* A screen waits for other writers as long as nobody notices, then says so. */
static bool others_write(s2_explorer *e)
{
    enum { TRIES = 20 };
    char path[4096];
    snprintf(path, sizeof path, "%s-lock", s2_store_path(e->cli));
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool busy = fd >= 0;
    for (int n = 0; n < TRIES && busy; n++) {
        const struct timespec moment = {.tv_nsec = 5000000};
        busy = flock(fd, LOCK_EX | LOCK_NB) != 0;
        if (busy)
            nanosleep(&moment, NULL);
    }
    if (fd >= 0)
        close(fd);
    if (busy)
        s2_explorer_say(e, "another process is writing; nothing was changed, try again in a moment");
    return busy;
}

static void apply(s2_explorer *e, change_fn change)
{
    s2_db *db;
    s2_diag diag = {0};
    s2_buf said = {0};
    s2_status status = s2_db_open(s2_store_path(e->cli), S2_DB_WRITE, &db, &diag);
    if (status == S2_OK) {
        status = change(e, db, &said, &diag);
        s2_db_close(&db);
    }
    if (status != S2_OK)
        s2_explorer_say(e, "%s", diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
    else
        s2_explorer_say(e, "%s", said.data != NULL ? said.data : "done");
    s2_buf_release(&said);
}

/* ---- saving the workbench
 * ---------------------------------------------------------------------------------- */

static int store_bench(s2_explorer *e)
{
    s2_cli *const cli = e->cli;
    s2_buf text = {0};
    char name[S2_LIMIT_NAME_BYTES];
    s2_text_clean(name, sizeof name, e->session.state.prompt);
    if (name[0] != '\0')
        s2_buf_printf(&text, "name %s\n", name);
    s2_knobs_text(&e->session.state.knobs, "\n", &text);
    s2_input input = {.label = "workbench", .text = text.data, .n_bytes = text.len};
    s2_diag diag = {0};
    const s2_status status = s2_pattern_parse(&cli->arena, text.data, text.len, NULL, &input.pattern, &diag);
    const int end = status == S2_OK ? s2_store_design(cli, &input)
                                    : s2_input_refuse(cli, status, "workbench", text.data, text.len, &diag);
    s2_buf_release(&text);
    return end;
}

/* What storing says goes to the log, not over the screen. */
static void save(s2_explorer *e)
{
    char *words = NULL;
    size_t n = 0;
    FILE *const real = e->cli->err, *const memory = open_memstream(&words, &n);
    if (memory == NULL)
        return;
    e->cli->err = memory;
    const int end = store_bench(e);
    fclose(memory);
    e->cli->err = real;
    s2_explorer_say(e, "%s", end == S2_GO_ON ? "saved; 2 lists it" : words);
    free(words);
}

void s2_explorer_change(s2_explorer *e, s2_request request)
{
    static const struct {
        s2_request request;
        change_fn change;
    } changes[] = {{S2_REQUEST_STAR, star},   {S2_REQUEST_TAG, tag},   {S2_REQUEST_NOTE, note},
                   {S2_REQUEST_TRASH, trash}, {S2_REQUEST_UNDO, undo}, {S2_REQUEST_VIEW_SAVE, save_view}};
    if (e->cli->no_db || (e->db == NULL && request != S2_REQUEST_SAVE)) {
        s2_explorer_say(e, e->cli->no_db ? "--no-db: nothing is recorded"
                                         : "no database yet: saving or validating a design makes one");
        return;
    }
    if (others_write(e))
        return;
    if (request == S2_REQUEST_SAVE)
        save(e);
    for (size_t at = 0; at < sizeof changes / sizeof changes[0]; at++)
        if (changes[at].request == request)
            apply(e, changes[at].change);
    e->record_of = 0;
    if (e->term == NULL || e->db == NULL)
        s2_explorer_follow(e);
    else if (request != S2_REQUEST_VIEW_SAVE)
        s2_explorer_list_again(e);
}

/* ---- saved views
 * --------------------------------------------------------------------------------------------- */

void s2_explorer_views(s2_explorer *e)
{
    s2_db_view views[SAVED_VIEWS];
    int32_t n = 0;
    s2_diag diag = {0};
    s2_arena_release(&e->choices_arena);
    e->session.model.n_views = 0;
    if (e->db == NULL || s2_db_views(e->db, &e->choices_arena, SAVED_VIEWS, views, &n, &diag) != S2_OK) {
        s2_explorer_say(e, "%s", e->db == NULL ? "no database is open" : diag.msg);
        return;
    }
    s2_tui_choice *const made = S2_NEW(&e->choices_arena, s2_tui_choice, n > 0 ? n : 1);
    for (int32_t at = 0; made != NULL && at < n; at++) {
        s2_buf help = {0};
        s2_buf_printf(&help, "%s, by %s %s", views[at].filter[0] != '\0' ? views[at].filter : "all designs",
                      views[at].sort, views[at].descending ? "down" : "up");
        const char *const kept =
            s2_arena_strndup(&e->choices_arena, help.data != NULL ? help.data : "", help.len);
        s2_buf_release(&help);
        made[at] = (s2_tui_choice){.name = views[at].name,
                                   .help = kept != NULL ? kept : "",
                                   .filter = views[at].filter,
                                   .sort = views[at].sort,
                                   .ascending = !views[at].descending};
    }
    e->session.model.views = made;
    e->session.model.n_views = made != NULL ? n : 0;
}
