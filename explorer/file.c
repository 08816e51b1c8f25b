#include "explorer/internal.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

s2_status s2_explorer_open(s2_explorer *e, s2_diag *diag)
{
    const s2_explorer_options *const options = e->options;
    if (e->db != NULL || options->no_db || s2_file_is_missing(options->db_path))
        return S2_OK;
    S2_TRY(s2_db_open(options->db_path, S2_DB_READ, &e->db, diag));
    e->session.model.stored = true;
    e->session.model.source = options->db_path;
    return S2_OK;
}

void s2_explorer_name(s2_explorer *e)
{
    const s2_explorer_options *const options = e->options;
    e->database.len = 0;
    s2_buf_puts(&e->database, options->no_db ? " --no-db" : options->db_named != NULL ? " --db " : "");
    if (!options->no_db && options->db_named != NULL)
        s2_buf_shell(&e->database, options->db_named);
    s2_buf_add(&e->database, "", 1);
    e->session.model.database = e->database.status == S2_OK ? e->database.data : "";
}

s2_file_stamp s2_explorer_stamp(const s2_explorer *e)
{
    struct stat file, wal;
    char path[4096];
    s2_file_stamp now;
    /* compared as bytes, padding included */
    memset(&now, 0, sizeof now);
    if (e->options->no_db || stat(e->options->db_path, &file) != 0)
        return now;
    now.inode = file.st_ino;
    now.size = file.st_size;
    now.time = file.st_mtim;
    snprintf(path, sizeof path, "%s-wal", e->options->db_path);
    if (stat(path, &wal) == 0) {
        now.wal_size = wal.st_size;
        now.wal_time = wal.st_mtim;
    }
    return now;
}

static void reopen(s2_explorer *e, bool gone)
{
    const bool first = e->db == NULL;
    s2_diag diag = {0};
    s2_explorer_list_remember(e);
    s2_explorer_list_close(e);
    s2_explorer_front_close(e);
    if (!first)
        s2_db_close(&e->db);
    e->session.model.source = s2_explorer_samples;
    e->session.model.stored = false;
    e->session.state.n_marked = 0;
    const s2_status status = s2_explorer_open(e, &diag);
    s2_explorer_say(e, gone              ? "the database file is gone; these are the samples"
                       : status != S2_OK ? "the database file was replaced, and the new one cannot be read"
                       : first           ? "the database exists now; these are its designs"
                                         : "the database file was replaced");
}

static void renew(s2_explorer *e)
{
    s2_db *fresh;
    s2_diag diag = {0};
    const s2_status status = s2_db_open(e->options->db_path, S2_DB_READ, &fresh, &diag);
    if (status != S2_OK) {
        s2_explorer_say_failure(e, status, &diag);
        return;
    }
    s2_db_close(&e->db);
    e->db = fresh;
}

/* The list and the front open theirs again when they are asked next. */
static void renew_copies(s2_explorer *e)
{
    if (e->list.db != NULL && s2_db_is_copy(e->list.db))
        s2_explorer_list_close(e);
    if (e->front.db != NULL && s2_db_is_copy(e->front.db))
        s2_explorer_front_close(e);
    if (e->db != NULL && s2_db_is_copy(e->db))
        renew(e);
}

static bool keeps_writers_out(const s2_db *db)
{
    return db != NULL && s2_db_keeps_writers_out(db);
}

bool s2_explorer_make_way(s2_explorer *e)
{
    const bool lists = keeps_writers_out(e->list.db), fronts = keeps_writers_out(e->front.db);
    if (lists)
        s2_explorer_list_close(e);
    if (fronts)
        s2_explorer_front_close(e);
    if (keeps_writers_out(e->db))
        renew(e);
    return !keeps_writers_out(e->db);
}

bool s2_explorer_follow(s2_explorer *e)
{
    const s2_file_stamp now = s2_explorer_stamp(e);
    if (memcmp(&now, &e->seen, sizeof now) == 0)
        return false;
    const bool replaced = now.inode != e->seen.inode;
    e->seen = now;
    if (replaced)
        reopen(e, now.inode == 0);
    else
        renew_copies(e);
    s2_explorer_list_again(e);
    if (e->front_asked)
        s2_explorer_front(e);
    s2_explorer_runs(e);
    e->record_of = 0;
    return true;
}
