#include "db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "db/sql.h"

enum { FINDINGS = 100, BACKUP_PAGES = 256 };

const char *const s2_db_tables[] = {"meta",  "migration", "run",        "design", "chk", "sim",
                                    "reach", "env",       "validation", "export", "tag", "note",
                                    "undo",  "price",     "view",       NULL};

static void add_finding(s2_buf *findings, const char *before, const char *text)
{
    char clean[512];
    s2_text_clean(clean, sizeof clean, text != NULL ? text : "");
    s2_buf_printf(findings, "%s%s\n", before, clean);
}

/* Every row of the query is a finding. */
static s2_status ask(s2_db *db, const char *sql, const char *before, s2_buf *findings, s2_diag *diag)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db, sql, &statement, diag));
    for (int32_t n = 0; n < FINDINGS; n++) {
        bool has_row;
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row)
            break;
        const char *text;
        S2_TRY(s2_sql_peek(db, statement, 0, &text, NULL, diag));
        if (text == NULL || strcmp(text, "ok") != 0)
            add_finding(findings, before, text);
    }
    sqlite3_reset(statement);
    return findings->status;
}

static s2_status verify_hashes(s2_db *db, s2_buf *findings, s2_diag *diag)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db, "SELECT hash,text FROM design", &statement, diag));
    for (;;) {
        bool has_row;
        S2_TRY(s2_sql_step(db, statement, &has_row, diag));
        if (!has_row)
            return findings->status;
        char own[S2_HASH_HEX];
        const char *hash, *text;
        size_t n_bytes;
        S2_TRY(s2_sql_peek(db, statement, 0, &hash, NULL, diag));
        S2_TRY(s2_sql_peek(db, statement, 1, &text, &n_bytes, diag));
        s2_db_sha256(text != NULL ? text : "", n_bytes, own);
        if (hash == NULL || strcmp(own, hash) != 0)
            add_finding(findings, "the text of a design has another hash: ", hash);
    }
}

static s2_status verify_steps(s2_db *db, s2_buf *findings, s2_diag *diag)
{
    S2_TRY(ask(db, "PRAGMA integrity_check(100)", "", findings, diag));
    S2_TRY(ask(db,
               "SELECT \"table\"||' row '||rowid||' leads nowhere in '||parent FROM pragma_foreign_key_check",
               "", findings, diag));
    /* Not a CHECK of the schema: SQLite lets no untrusted file call json_valid(). */
    S2_TRY(
        ask(db,
            "SELECT 'run '||id||': argv_json is not JSON' FROM run WHERE NOT json_valid(argv_json) UNION ALL "
            "SELECT 'sim '||id||': json is not JSON' FROM sim WHERE NOT json_valid(json) UNION ALL "
            "SELECT 'validation '||id||': json is not JSON' FROM validation WHERE NOT json_valid(json)",
            "", findings, diag));
    S2_TRY(verify_hashes(db, findings, diag));
    s2_diag reason = {0};
    const s2_status status = s2_db_compare_schema(db, S2_DB_SCHEMA_VERSION, &reason);
    if (status == S2_EPARSE)
        add_finding(findings, "", reason.msg);
    return status == S2_EPARSE ? S2_OK : status;
}

s2_status s2_db_verify(s2_db *db, s2_buf *findings, s2_diag *diag)
{
    s2_diag reason = {0};
    const s2_status status = verify_steps(db, findings, &reason);
    if (status == S2_EDB && findings->status == S2_OK) {
        add_finding(findings, "", reason.msg);
        return S2_OK;
    }
    return status == S2_OK ? S2_OK : s2_diag_set(diag, status, 0, 0, 0, "%s", reason.msg);
}

/* `name` is the copy's final name, for messages. */
static s2_status copy_pages(s2_db *db, const char *path, const char *name, s2_diag *diag)
{
    s2_db copy = {.path = (char *)name, .lock_fd = -1};
    int rc = sqlite3_open_v2(path, &copy.sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    sqlite3_backup *const backup =
        rc == SQLITE_OK ? sqlite3_backup_init(copy.sql, "main", db->sql, "main") : NULL;
    if (rc == SQLITE_OK && backup == NULL)
        rc = sqlite3_errcode(copy.sql);
    while (backup != NULL && rc == SQLITE_OK)
        rc = sqlite3_backup_step(backup, BACKUP_PAGES);
    sqlite3_backup_finish(backup);
    const s2_status status = rc == SQLITE_DONE ? S2_OK : s2_sql_fail(&copy, rc, diag);
    sqlite3_close(copy.sql);
    return status;
}

static s2_status sync_path(const char *path, int flags, s2_diag *diag)
{
    const int fd = open(path, flags | O_CLOEXEC, 0);
    const bool good = fd >= 0 && fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    return good ? S2_OK : s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: %s", path, strerror(error));
}

/*
 * An existing log belongs to another file: SQLite would play it into this one. Its owner may still be at
 * work, or it holds the last rows of a database that was moved, so we must not remove it.
 */
static s2_status check_no_log(const char *path, s2_diag *diag)
{
    static const char *const suffixes[] = {"-wal", "-journal"};
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++) {
        char log[4096];
        struct stat info;
        const int length = snprintf(log, sizeof log, "%s%s", path, suffixes[n]);
        if (length < (int)sizeof log && stat(log, &info) == 0 && info.st_size > 0)
            return s2_diag_set(diag, S2_EIO, 0, 0, 0,
                               "%s: not written, beside it lies %s, the log of another database; end the "
                               "process that uses it, or remove it",
                               path, log);
    }
    return S2_OK;
}

/*
 * Refuses an existing name, in one step. Where the file system cannot, link() gives the second name, and a process that
 * is killed before it takes the first one away leaves both (s2_db_draft_open).
 */
static int name_new(const char *temporary, const char *path)
{
    const int rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE);
    return rc == 0 || (errno != EINVAL && errno != ENOSYS) ? rc : link(temporary, path);
}

s2_status s2_db_place(const char *temporary, const char *path, bool overwrite, s2_diag *diag)
{
    S2_TRY(check_no_log(path, diag));
    S2_TRY(sync_path(temporary, O_RDONLY, diag));
    const int rc = overwrite ? rename(temporary, path) : name_new(temporary, path);
    if (rc != 0)
        return s2_diag_set(diag, S2_EIO, 0, 0, 0, "%s: %s%s", path, strerror(errno),
                           errno == EEXIST ? "; --force overwrites it" : "");
    const char *const slash = strrchr(path, '/');
    char dir[4096];
    snprintf(dir, sizeof dir, "%.*s", slash == NULL ? 1 : (int)(slash - path) + (slash == path),
             slash == NULL ? "." : path);
    return sync_path(dir, O_RDONLY | O_DIRECTORY, diag);
}

static bool is_ours(const s2_db_draft *draft)
{
    struct stat open_one, named;
    return fstat(draft->fd, &open_one) == 0 && S_ISREG(open_one.st_mode) && stat(draft->path, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

static void remove_parts(const char *path)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", "-lock"};
    char name[4128];
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++)
        if (snprintf(name, sizeof name, "%s%s", path, suffixes[n]) < (int)sizeof name)
            unlink(name);
}

/* Opens or makes the draft and locks it. What another process still makes stays locked: errno is EWOULDBLOCK then. */
static bool take_draft(s2_db_draft *draft, bool *made)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    draft->fd = open(draft->path, flags | O_EXCL, 0666);
    *made = draft->fd >= 0;
    if (!*made && errno == EEXIST)
        draft->fd = open(draft->path, flags, 0666);
    return draft->fd >= 0 && flock(draft->fd, LOCK_EX | LOCK_NB) == 0;
}

/* A file that has another name, too, is no draft any more: whoever wrote into it would write into that database. */
static bool is_finished(const s2_db_draft *draft)
{
    struct stat info;
    return fstat(draft->fd, &info) == 0 && info.st_nlink > 1;
}

s2_status s2_db_draft_open(const char *target, s2_db_draft *out, s2_diag *diag)
{
    s2_buf path = {0};
    struct stat old;
    if (stat(target, &old) == 0 && !S_ISREG(old.st_mode))
        return s2_diag_set(diag, S2_EIO, 0, 0, 0,
                           "%s: is no regular file, and a database cannot take its place", target);
    s2_buf_printf(&path, "%s.s2-tmp", target);
    S2_TRY(path.status);
    bool made;
    s2_db_draft draft = {path.data, -1};
    bool locked = take_draft(&draft, &made);
    if (locked && is_ours(&draft) && is_finished(&draft)) {
        unlink(draft.path);
        close(draft.fd);
        locked = take_draft(&draft, &made);
    }
    const bool taken = draft.fd >= 0 && (locked ? !is_ours(&draft) : errno == EWOULDBLOCK);
    s2_status status = S2_OK;
    if (taken)
        status = s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: another process is making it", target);
    else if (!locked || ftruncate(draft.fd, 0) != 0) {
        status = s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", target, strerror(errno));
        if (made || locked)
            unlink(draft.path);
    }
    if (status == S2_OK) {
        remove_parts(draft.path);
        *out = draft;
        return S2_OK;
    }
    if (draft.fd >= 0)
        close(draft.fd);
    s2_buf_release(&path);
    return status;
}

void s2_db_draft_close(s2_db_draft *draft)
{
    remove_parts(draft->path);
    if (is_ours(draft))
        unlink(draft->path);
    close(draft->fd);
    s2_free(draft->path);
}

s2_status s2_db_check_other(const char *from, const char *to, s2_diag *diag)
{
    struct stat a, b;
    if (stat(from, &a) != 0 || stat(to, &b) != 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return S2_OK;
    return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s is the database itself: name another file", to);
}

s2_status s2_db_follow(const char *path, char target[S2_PATH_BYTES], s2_diag *diag)
{
    if (path[0] == '\0')
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "an empty name is no file");
    if (!s2_db_is_path(path))
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s: not a path; a file of that name is ./%s", path,
                           path);
    if (s2_link_follow(path, target) == S2_OK)
        return S2_OK;
    return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", path, s2_file_why(errno));
}

s2_status s2_db_backup(s2_db *db, const char *path, bool overwrite, s2_diag *diag)
{
    char target[S2_PATH_BYTES];
    S2_TRY(s2_db_check_other(db->path, path, diag));
    S2_TRY(s2_db_follow(path, target, diag));
    s2_db_draft draft;
    S2_TRY(s2_db_draft_open(target, &draft, diag));
    s2_status status = copy_pages(db, draft.path, target, diag);
    if (status == S2_OK)
        status = s2_db_place(draft.path, target, overwrite, diag);
    s2_db_draft_close(&draft);
    return status;
}

/* A dump in progress. */
typedef struct dump {
    s2_db *db;
    s2_db_line_fn put;
    void *user;
} dump;

static s2_status put_line(const dump *d, const char *text, size_t n, s2_diag *diag)
{
    if (text != NULL && !d->put(d->user, text, n))
        return s2_diag_set(diag, S2_EIO, 0, 0, 0, "the dump could not be written");
    return S2_OK;
}

/* Every row of the query is a line. Its text is ours: table and column names of the schema. */
static s2_status dump_query(const dump *d, const char *sql, s2_diag *diag)
{
    sqlite3_stmt *statement = NULL;
    s2_status status = s2_sql_fail(d->db, sqlite3_prepare_v2(d->db->sql, sql, -1, &statement, NULL), diag);
    while (status == S2_OK) {
        bool has_row;
        status = s2_sql_step(d->db, statement, &has_row, diag);
        if (status != S2_OK || !has_row)
            break;
        const char *line;
        size_t n_bytes;
        status = s2_sql_peek(d->db, statement, 0, &line, &n_bytes, diag);
        if (status == S2_OK)
            status = put_line(d, line, n_bytes, diag);
    }
    sqlite3_finalize(statement);
    return status;
}

/* s2_hostile(X): X is a text with something that a terminal would obey, or that is no text. */
static void is_hostile(sqlite3_context *context, int n, sqlite3_value **values)
{
    (void)n;
    const bool is_text = sqlite3_value_type(values[0]) == SQLITE_TEXT;
    const char *const text = is_text ? (const char *)sqlite3_value_text(values[0]) : NULL;
    const size_t n_bytes = text != NULL ? (size_t)sqlite3_value_bytes(values[0]) : 0;
    sqlite3_result_int(context, s2_text_is_hostile(text, n_bytes, "\n\t"));
}

/*
 * "SELECT 'INSERT INTO t VALUES('||VALUE||','||VALUE||');' FROM t", from the columns that the file has. VALUE is the
 * quoted column, or its bytes in hexadecimal where a terminal must not get them as they are.
 */
static s2_status dump_table(const dump *d, const char *table, s2_diag *diag)
{
    sqlite3_stmt *columns;
    s2_buf sql = {0};
    S2_TRY(s2_sql_prepare(d->db, "SELECT name FROM pragma_table_info(?) ORDER BY cid", &columns, diag));
    sqlite3_bind_text(columns, 1, table, -1, SQLITE_STATIC);
    s2_buf_printf(&sql, "SELECT 'INSERT INTO %s VALUES('", table);
    const char *between = "||";
    for (bool has_row = true;; between = "||','||") {
        const char *name = NULL;
        s2_status status = s2_sql_step(d->db, columns, &has_row, diag);
        if (status == S2_OK && has_row)
            status = s2_sql_peek(d->db, columns, 0, &name, NULL, diag);
        if (status != S2_OK) {
            s2_buf_release(&sql);
            return status;
        }
        if (!has_row)
            break;
        s2_buf_printf(&sql,
                      "%sCASE WHEN s2_hostile(\"%s\") THEN 'CAST(X'''||hex(\"%s\")||''' AS TEXT)' ELSE "
                      "quote(\"%s\") END",
                      between, name, name, name);
    }
    s2_buf_printf(&sql, "||');' FROM %s", table);
    s2_buf_add(&sql, "", 1);
    const s2_status status = sql.status == S2_OK ? dump_query(d, sql.data, diag) : sql.status;
    s2_buf_release(&sql);
    return status;
}

s2_status s2_db_dump(s2_db *db, s2_db_line_fn put, void *user, s2_diag *diag)
{
    const dump d = {db, put, user};
    char head[160];
    snprintf(head, sizeof head,
             "PRAGMA foreign_keys=OFF;\nPRAGMA application_id=%d;\nPRAGMA user_version=%d;\nBEGIN;",
             S2_DB_APPLICATION_ID, S2_DB_SCHEMA_VERSION);
    S2_TRY(put_line(&d, head, strlen(head), diag));
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    S2_TRY(s2_sql_fail(
        db, sqlite3_create_function(db->sql, "s2_hostile", 1, flags, NULL, is_hostile, NULL, NULL), diag));
    S2_TRY(dump_query(
        &d, "SELECT sql||';' FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'", diag));
    /* What can be read of a damaged file is written; the caller still learns of the damage. */
    s2_status worst = S2_OK;
    for (const char *const *table = s2_db_tables; *table != NULL; table++) {
        const s2_status status = dump_table(&d, *table, diag);
        if (status != S2_OK && status != S2_EDB)
            return status;
        if (status == S2_EDB) {
            snprintf(head, sizeof head, "-- %s: the rest could not be read", *table);
            S2_TRY(put_line(&d, head, strlen(head), NULL));
            worst = status;
        }
    }
    S2_TRY(dump_query(&d, "SELECT sql||';' FROM sqlite_schema WHERE type='index' AND sql IS NOT NULL", diag));
    S2_TRY(put_line(&d, "COMMIT;", 7, diag));
    return worst;
}

const char *s2_db_library_version(void)
{
    return sqlite3_libversion();
}

s2_status s2_db_count(s2_db *db, const char *table, int64_t *n_rows, s2_diag *diag)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %.32s", table);
    sqlite3_stmt *statement = NULL;
    bool has_row;
    s2_status status = s2_sql_fail(db, sqlite3_prepare_v2(db->sql, sql, -1, &statement, NULL), diag);
    if (status == S2_OK)
        status = s2_sql_step(db, statement, &has_row, diag);
    if (status == S2_OK)
        *n_rows = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}
