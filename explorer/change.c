/* Changes made from the screen: save, star, tag, annotate or discard a design; save a view; undo. */
#include "explorer/internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "pattern/parse.h"

/* Makes one change on a writable connection. */
typedef s2_status (*change_fn)(s2_change *t, s2_db *db, s2_diag *diag);

/* ---- on the worker */

static s2_status star(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, t->on ? "starred; z undoes it" : "no longer starred; z stars it again");
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
    s2_buf_puts(&t->said, "tagged; z undoes it");
    return S2_OK;
}

static s2_status note(s2_change *t, s2_db *db, s2_diag *diag)
{
    if (t->words[0] == '\0')
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "the note is empty");
    s2_buf_puts(&t->said, "note added; z undoes it, r shows it");
    return s2_db_note(db, t->id, t->words, diag);
}

static s2_status trash(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, "moved to the trash; z restores it");
    return s2_db_remove(db, t->id, diag);
}

static s2_status undo(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_db_undone undone;
    S2_TRY(s2_db_undo(db, &undone, diag));
    if (undone.action[0] != '\0')
        s2_buf_printf(&t->said, "taken back: %s%s%s on %.12s", undone.action,
                      undone.tag[0] != '\0' ? " " : "", undone.tag, undone.design);
    else
        s2_buf_puts(&t->said, "nothing to undo");
    return S2_OK;
}

static s2_status save_view(s2_change *t, s2_db *db, s2_diag *diag)
{
    s2_buf_puts(&t->said, "view saved; w lists all views");
    return s2_db_view_put(db, &t->view, diag);
}

/*
 * Wait until no other process writes or the change is given up. A session that cannot wait leaves this to the
 * database. Try often: a process that writes one transaction after another leaves only short gaps.
 */
static void await_writers(s2_change *t)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    char path[4096];
    snprintf(path, sizeof path, "%s-lock", t->options->db_path);
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
    s2_status status = s2_db_open(t->options->db_path, S2_DB_WRITE, &db, &diag);
    if (status == S2_OK) {
        status = change(t, db, &diag);
        s2_db_close(&db);
    }
    t->done = status == S2_OK;
    if (t->done)
        return;
    t->said.len = 0;
    s2_buf_puts(&t->said, s2_diag_text(&diag, status));
}

/* The workbench's pattern under the name that the person gave, or else its own. */
static s2_status print_named(const s2_change *t, s2_arena *scratch, s2_buf *text, s2_diag *diag)
{
    const s2_parse_options parse = {.no_files = true};
    s2_pattern pattern;
    char name[S2_LIMIT_NAME_BYTES];
    S2_TRY(s2_pattern_parse(scratch, t->text, strlen(t->text), &parse, &pattern, diag));
    s2_text_clean(name, sizeof name, t->words);
    if (name[0] != '\0')
        pattern.name = name;
    s2_pattern_print(&pattern, text);
    return text->status;
}

static void save(s2_change *t)
{
    s2_buf text = {0};
    s2_arena scratch = {0};
    s2_diag diag = {0};
    const s2_question question = s2_knobs_question(&t->knobs);
    const s2_status status = print_named(t, &scratch, &text, &diag);
    t->done = status == S2_OK &&
              t->options->store(t->options->store_user, text.data, text.len, &question, &t->said);
    if (t->done)
        s2_buf_puts(&t->said, "saved with its verdicts and price; 2 lists it");
    else if (status != S2_OK)
        s2_buf_puts(&t->said, s2_diag_text(&diag, status));
    s2_arena_release(&scratch);
    s2_buf_release(&text);
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

/* ---- requesting it */

enum { UNNOTICED_MS = 100 };
static const char BEING_MADE[] = "a change is being stored";

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
                     .options = e->options};
    s2_buf text = {0};
    s2_tui_pattern(state, &text);
    snprintf(t->text, sizeof t->text, "%.*s", (int)text.len, text.data != NULL ? text.data : "");
    s2_buf_release(&text);
    snprintf(t->words, sizeof t->words, "%.*s", (int)sizeof t->words - 1, state->prompt);
    snprintf(t->filter, sizeof t->filter, "%s", state->filter);
    t->view = (s2_db_view){t->words, t->filter, s2_tui_sorts[state->sort], !state->ascending};
}

void s2_explorer_change(s2_explorer *e, s2_request request)
{
    if (e->options->no_db || (e->db == NULL && request != S2_REQUEST_SAVE)) {
        s2_explorer_say(e, e->options->no_db
                               ? "--no-db: nothing is recorded"
                               : "there is no database yet: saving or validating a design creates one");
        return;
    }
    if (e->change_worker.busy) {
        s2_tui_keep(&e->session.state, request, e->session.state.prompt);
        s2_explorer_say(e, "the previous change still waits for another process; C cancels it");
        return;
    }
    if (!s2_explorer_make_way(e)) {
        s2_tui_keep(&e->session.state, request, e->session.state.prompt);
        s2_explorer_say(
            e, "nothing was changed: the disk is full, and reading a database of this size keeps writers "
               "out then; make room and try again");
        return;
    }
    fill(e, request);
    e->change.told_ms = s2_worker_now_ms() + UNNOTICED_MS;
    s2_worker_post(&e->change_worker, make, &e->change);
    s2_worker_wait(&e->change_worker, e->due_ms);
    if (!s2_explorer_change_collect(e))
        e->session.model.busy = BEING_MADE;
}

const char *s2_explorer_change_busy(const s2_explorer *e)
{
    return !e->change_worker.busy ? NULL : e->change.told ? "a change waits for another process" : BEING_MADE;
}

static bool tell_of_wait(s2_explorer *e)
{
    if (e->change.told || s2_worker_now_ms() < e->change.told_ms)
        return false;
    e->change.told = true;
    e->session.model.busy = s2_explorer_change_busy(e);
    s2_explorer_say(e, "another process is writing: waiting for it; C cancels");
    return true;
}

void s2_explorer_change_await(s2_explorer *e)
{
    if (e->change_worker.busy && !e->change.told) {
        s2_worker_wait(&e->change_worker, e->change.told_ms);
        s2_explorer_change_collect(e);
    }
}

bool s2_explorer_change_collect(s2_explorer *e)
{
    s2_change *const t = &e->change;
    if (!e->change_worker.busy)
        return false;
    if (!s2_worker_collect(&e->change_worker))
        return tell_of_wait(e);
    if (t->done && t->request == S2_REQUEST_SAVE)
        s2_session_saved(&e->session, &t->knobs, t->text, t->words);
    if (!t->done)
        s2_tui_keep(&e->session.state, t->request, t->words);
    s2_explorer_say(e, "%s",
                    t->said.data != NULL      ? t->said.data
                    : atomic_load(&t->undone) ? "cancelled; nothing was changed"
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

void s2_explorer_change_release(s2_explorer *e)
{
    enum { PATIENCE_MS = 1000 };
    atomic_store(&e->change.undone, true);
    if (!s2_worker_stop(&e->change_worker, PATIENCE_MS))
        e->left_behind = true;
    else
        s2_buf_release(&e->change.said);
}
