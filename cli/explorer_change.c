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
typedef s2_status (*change_fn)(s2_change *t, s2_db *db, s2_diag *diag);

/* ---- on the worker */

static s2_status star(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, t->on ? "starred; z takes it back" : "the star is taken away; z brings it back");
    return s2_db_star(db, t->id, t->on, diag);
}

static s2_status tag(s2_change *t, s2_db *db, s2_diag *diag)
{
    char words[S2_TUI_PROMPT_BYTES];
    char *save = NULL;
    snprintf(words, sizeof words, "%s", t->words);
    for (char *word = strtok_r(words, " ,", &save); word != NULL; word = strtok_r(NULL, " ,", &save)) {
        const bool off = word[0] == '-';
        S2_TRY(s2_db_tag(db, t->id, word + off, !off, diag));
    }
    s2_buf_puts(&t->said, "tagged; z takes it back");
    return S2_OK;
}

static s2_status note(s2_change *t, s2_db *db, s2_diag *diag)
{
    if (t->words[0] == '\0')
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "an empty note is none");
    s2_buf_puts(&t->said, "noted; z takes it back, r shows it");
    return s2_db_note(db, t->id, t->words, diag);
}

static s2_status trash(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, "in the trash; z brings it back");
    return s2_db_remove(db, t->id, diag);
}

static s2_status undo(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf what = {0};
    const s2_status status = s2_db_undo(db, &what, diag);
    if (what.len > 0)
        s2_buf_printf(&t->said, "taken back: %s", what.data);
    else
        s2_buf_puts(&t->said, "nothing to take back");
    s2_buf_release(&what);
    return status;
}

static s2_status save_view(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, "kept; w shows all of them");
    return s2_db_view_put(db, &t->view, diag);
}

/*
 * Until no other process writes, or the change is given up. Those who cannot wait leave it to the database.
 * Looked at often: a writer of one transaction after the other leaves short gaps.
 */
static void await_writers(s2_change *t)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    char path[4096];
    snprintf(path, sizeof path, "%s-lock", s2_store_path(&t->cli));
    const int fd = t->endures ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    while (fd >= 0 && !atomic_load(&t->undone) && flock(fd, LOCK_EX | LOCK_NB) != 0)
        nanosleep(&moment, NULL);
    if (fd >= 0)
        close(fd);
}

static void apply(s2_change *t, change_fn change)
{
    s2_db *db;
    s2_diag diag = {0};
    s2_status status = s2_db_open(s2_store_path(&t->cli), S2_DB_WRITE, &db, &diag);
    if (status == S2_OK) {
        status = change(t, db, &diag);
        s2_db_close(&db);
    }
    t->done = status == S2_OK;
    if (t->done)
        return;
    t->said.len = 0;
    s2_buf_puts(&t->said, diag.msg[0] != '\0' ? diag.msg : s2_status_text(status));
}

static int store_bench(s2_change *t)
{
    s2_cli *const cli = &t->cli;
    s2_buf text = {0};
    char name[S2_LIMIT_NAME_BYTES];
    s2_text_clean(name, sizeof name, t->words);
    if (name[0] != '\0')
        s2_buf_printf(&text, "name %s\n", name);
    s2_knobs_text(&t->knobs, "\n", &text);
    s2_input input = {.label = "workbench", .text = text.data, .n_bytes = text.len};
    s2_diag diag = {0};
    const s2_status status = s2_pattern_parse(&cli->arena, text.data, text.len, NULL, &input.pattern, &diag);
    const int end = status == S2_OK ? s2_store_design(cli, &input)
                                    : s2_input_refuse(cli, status, "workbench", text.data, text.len, &diag);
    s2_buf_release(&text);
    return end;
}

/*
 * A run of its own that is over with it: nothing of it is left to be written when the session ends. What
 * storing says goes to the log, not over the screen.
 */
static void save(s2_change *t)
{
    char *words = NULL;
    size_t n = 0;
    t->cli.err = open_memstream(&words, &n);
    if (t->cli.err == NULL)
        return;
    t->done = store_bench(t) == S2_GO_ON;
    /* the design is there, whether or not the end of its run can be told */
    (void)s2_store_finish(&t->cli, S2_EXIT_OK);
    fclose(t->cli.err);
    s2_arena_release(&t->cli.arena);
    s2_buf_puts(&t->said, t->done ? "saved; 2 lists it" : words);
    free(words);
}

static void make(void *user)
{
    static const struct {
        s2_request request;
        change_fn change;
    } changes[] = {{S2_REQUEST_STAR, star},   {S2_REQUEST_TAG, tag},   {S2_REQUEST_NOTE, note},
                   {S2_REQUEST_TRASH, trash}, {S2_REQUEST_UNDO, undo}, {S2_REQUEST_VIEW_SAVE, save_view}};
    s2_change *const t = user;
    await_writers(t);
    if (atomic_load(&t->undone))
        return;
    if (t->request == S2_REQUEST_SAVE)
        save(t);
    for (size_t at = 0; at < sizeof changes / sizeof changes[0]; at++)
        if (changes[at].request == t->request)
            apply(t, changes[at].change);
}

/* ---- asking for it */

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void fill(s2_explorer *e, s2_request request)
{
    const s2_tui_state *const state = &e->session.state;
    const s2_tui_row *const row = s2_explorer_row(e, state->request_id);
    s2_change *const t = &e->change;
    *t = (s2_change){.request = request,
                     .id = state->request_id,
                     .on = row == NULL || !row->starred,
                     .endures = e->change_worker.started,
                     .knobs = state->knobs,
                     .cli = *e->cli};
    snprintf(t->words, sizeof t->words, "%s", state->prompt);
    snprintf(t->filter, sizeof t->filter, "%s", state->filter);
    t->view = (s2_db_view){t->words, t->filter, s2_tui_sorts[state->sort], !state->ascending};
    t->cli.arena = (s2_arena){0};
    t->cli.started_us = now_us();
}

void s2_explorer_change(s2_explorer *e, s2_request request)
{
    enum { UNNOTICED_MS = 100 };
    if (e->cli->no_db || (e->db == NULL && request != S2_REQUEST_SAVE)) {
        s2_explorer_say(e, e->cli->no_db ? "--no-db: nothing is recorded"
                                         : "no database yet: saving or validating a design makes one");
        return;
    }
    if (e->change_worker.busy) {
        s2_tui_keep(&e->session.state, request, e->session.state.prompt);
        s2_explorer_say(e, "the change before this one still waits for another process; esc gives it up");
        return;
    }
    fill(e, request);
    s2_worker_post(&e->change_worker, make, &e->change);
    s2_worker_wait(&e->change_worker, UNNOTICED_MS);
    if (!s2_explorer_change_collect(e)) {
        s2_explorer_pump(e);
        s2_explorer_say(e, "another process is writing: this waits for it, esc gives it up");
    }
}

bool s2_explorer_change_collect(s2_explorer *e)
{
    s2_change *const t = &e->change;
    if (!e->change_worker.busy || !s2_worker_collect(&e->change_worker))
        return false;
    e->warned = false;
    if (!t->done)
        s2_tui_keep(&e->session.state, t->request, t->words);
    s2_explorer_say(e, "%s",
                    t->said.data != NULL      ? t->said.data
                    : atomic_load(&t->undone) ? "given up; nothing was changed"
                                              : "out of memory; nothing was changed");
    s2_buf_release(&t->said);
    e->record_of = 0;
    if (e->term == NULL || e->db == NULL)
        s2_explorer_follow(e);
    else if (t->request != S2_REQUEST_VIEW_SAVE)
        s2_explorer_list_again(e);
    return true;
}

bool s2_explorer_change_give_up(s2_explorer *e)
{
    if (e->change_worker.busy)
        atomic_store(&e->change.undone, true);
    return e->change_worker.busy;
}

bool s2_explorer_change_may_leave(s2_explorer *e)
{
    enum { MOMENT_MS = 300 };
    if (!e->change_worker.busy || e->warned || s2_worker_wait(&e->change_worker, MOMENT_MS))
        return true;
    e->warned = true;
    s2_explorer_say(e, "a change still waits for another process; Q again leaves without it");
    return false;
}

void s2_explorer_change_release(s2_explorer *e)
{
    enum { PATIENCE_MS = 1000 };
    atomic_store(&e->change.undone, true);
    if (!s2_worker_stop(&e->change_worker, PATIENCE_MS))
        e->left_behind = true;
    else
        s2_buf_release(&e->change.said);
}

/* ---- saved views */

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
