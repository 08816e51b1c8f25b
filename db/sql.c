#include "db/sql.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sha2.h>
#include <sqlite3.h>

#include "base/alloc.h"

void s2_db_sha256(const void *data, size_t n_bytes, char hex[S2_HASH_HEX])
{
    SHA256Data(data, n_bytes, hex);
}

static s2_status io_failure(s2_db *db, const char *what, s2_diag *diag)
{
    const int error = db->sql != NULL ? sqlite3_system_errno(db->sql) : 0;
    return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s%s%s", db->path, what, error != 0 ? ": " : "",
                       error != 0 ? strerror(error) : "");
}

s2_status s2_sql_refuse_newer(const char *path, int64_t version, s2_diag *diag)
{
    return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                       "%s: written by a newer s2 (schema %lld, this one knows %d); update s2 to use it",
                       path, (long long)version, S2_DB_SCHEMA_VERSION);
}

/* The file, or one of the two beside it, whose rights are in the way. */
static s2_status refuse_read_only(const s2_db *db, s2_diag *diag)
{
    static const char *const suffixes[] = {"-shm", "-wal"};
    char path[S2_PATH_BYTES];
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++) {
        snprintf(path, sizeof path, "%s%s", db->path, suffixes[n]);
        if (access(db->path, W_OK) == 0 && access(path, F_OK) == 0 && access(path, W_OK) != 0)
            return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: read-only, nothing was recorded", path);
    }
    return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: read-only, nothing was recorded", db->path);
}

/* What a statement of ours does not fit any more, a newer program may have changed meanwhile. */
static s2_status refuse_other(const s2_db *db, int rc, s2_diag *diag)
{
    struct sqlite3_stmt *statement = NULL;
    int64_t version = 0;
    const char *const why = db->sql != NULL ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc);
    const s2_status status = s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", db->path, why);
    if (db->sql != NULL &&
        sqlite3_prepare_v2(db->sql, "PRAGMA user_version", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        version = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return version > S2_DB_SCHEMA_VERSION ? s2_sql_refuse_newer(db->path, version, diag) : status;
}

s2_status s2_sql_fail(s2_db *db, int rc, s2_diag *diag)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return S2_OK;
    case SQLITE_NOMEM: return s2_diag_set(diag, S2_ENOMEM, 0, 0, 0, "%s: out of memory", db->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: locked by another process; waited %d s", db->path,
                           S2_DB_LOCK_WAIT_MS / 1000);
    case SQLITE_FULL: return io_failure(db, "the disk is full", diag);
    case SQLITE_IOERR: return io_failure(db, "could not be read or written", diag);
    case SQLITE_READONLY: return refuse_read_only(db, diag);
    case SQLITE_CANTOPEN: return io_failure(db, "cannot be opened", diag);
    case SQLITE_NOTADB: return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: not a database", db->path);
    case SQLITE_INTERRUPT:
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0,
                           "%s: refused, reading it takes more work than its size explains", db->path);
    case SQLITE_CORRUPT:
        return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                           "%s: damaged (%s); s2 db check says what, s2 db recover saves the rest", db->path,
                           db->sql != NULL ? sqlite3_errmsg(db->sql) : sqlite3_errstr(rc));
    case SQLITE_CONSTRAINT:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s: a value is outside its range (%s)", db->path,
                           sqlite3_errmsg(db->sql));
    default: return refuse_other(db, rc, diag);
    }
}

/* ---- memory */

static void *take(int n_bytes)
{
    return s2_alloc_counted(malloc((size_t)n_bytes));
}

static void *take_more(void *old, int n_bytes)
{
    return s2_alloc_counted(realloc(old, (size_t)n_bytes));
}

static int size_of(void *piece)
{
    return (int)malloc_usable_size(piece);
}

static int rounded_up(int n_bytes)
{
    return (n_bytes + 7) & ~7;
}

static int begin(void *user)
{
    (void)user;
    return SQLITE_OK;
}

static void end(void *user)
{
    (void)user;
}

static void configure(void)
{
    static const sqlite3_mem_methods methods = {take, free, take_more, size_of, rounded_up, begin, end, NULL};
    /* refused where the program already uses this SQLite, whose memory then is its own */
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

void s2_sql_count_memory(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, configure);
}

/* ---- statements */

s2_status s2_sql_prepare(s2_db *db, const char *text, struct sqlite3_stmt **out, s2_diag *diag)
{
    for (int32_t n = 0; n < db->n_cached; n++)
        if (db->cached[n].text == text) {
            sqlite3_reset(db->cached[n].statement);
            sqlite3_clear_bindings(db->cached[n].statement);
            *out = db->cached[n].statement;
            return S2_OK;
        }
    sqlite3_stmt *statement;
    if (db->n_cached == S2_SQL_CACHED)
        return s2_diag_set(diag, S2_EINTERNAL, 0, 0, 0, "%s: more statements than are kept", db->path);
    const int rc = sqlite3_prepare_v3(db->sql, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (rc != SQLITE_OK)
        return s2_sql_fail(db, rc, diag);
    db->cached[db->n_cached].text = text;
    db->cached[db->n_cached++].statement = statement;
    *out = statement;
    return S2_OK;
}

s2_status s2_sql_exec(s2_db *db, const char *text, s2_diag *diag)
{
    const int64_t refused = s2_alloc_n_refused();
    const int rc = sqlite3_exec(db->sql, text, NULL, NULL, NULL);
    return s2_sql_fail(db, s2_alloc_n_refused() != refused ? SQLITE_NOMEM : rc, diag);
}

static int bind_text(sqlite3_stmt *statement, int parameter, const char *text)
{
    return text == NULL ? sqlite3_bind_null(statement, parameter)
                        : sqlite3_bind_text(statement, parameter, text, -1, SQLITE_STATIC);
}

static int bind_one(sqlite3_stmt *statement, int parameter, char type, va_list *args)
{
    if (type == 't')
        return bind_text(statement, parameter, va_arg(*args, const char *));
    if (type == 'd') {
        const double value = va_arg(*args, double);
        return isfinite(value) ? sqlite3_bind_double(statement, parameter, value)
                               : sqlite3_bind_null(statement, parameter);
    }
    if (type == 'b') {
        const void *const data = va_arg(*args, const void *);
        return sqlite3_bind_blob64(statement, parameter, data, va_arg(*args, size_t), SQLITE_STATIC);
    }
    assert(type == 'i');
    const int64_t value = va_arg(*args, int64_t);
    return value == S2_DB_NONE ? sqlite3_bind_null(statement, parameter)
                               : sqlite3_bind_int64(statement, parameter, value);
}

static s2_status bind_all(s2_db *db, sqlite3_stmt *statement, const char *types, va_list *args, s2_diag *diag)
{
    for (int at = 1; types[at - 1] != '\0'; at++) {
        const int rc = bind_one(statement, at, types[at - 1], args);
        if (rc != SQLITE_OK)
            return s2_sql_fail(db, rc, diag);
    }
    return S2_OK;
}

int s2_sql_step_once(struct sqlite3_stmt *statement)
{
    const int64_t refused = s2_alloc_n_refused();
    const int rc = sqlite3_step(statement);
    return s2_alloc_n_refused() != refused ? SQLITE_NOMEM : rc;
}

s2_status s2_sql_step(s2_db *db, struct sqlite3_stmt *statement, bool *has_row, s2_diag *diag)
{
    const int rc = s2_sql_step_once(statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        const s2_status status =
            s2_sql_fail(db, rc == SQLITE_NOMEM ? rc : sqlite3_extended_errcode(db->sql), diag);
        sqlite3_reset(statement);
        return status == S2_OK ? S2_EDB : status;
    }
    *has_row = rc == SQLITE_ROW;
    if (rc == SQLITE_DONE)
        sqlite3_reset(statement);
    return S2_OK;
}

static s2_status run_va(s2_db *db, s2_diag *diag, int64_t *out, const char *text, const char *types,
                        va_list *args)
{
    sqlite3_stmt *statement;
    S2_TRY(s2_sql_prepare(db, text, &statement, diag));
    S2_TRY(bind_all(db, statement, types, args, diag));
    bool has_row;
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    if (out != NULL)
        *out = has_row ? s2_sql_column_int(statement, 0) : S2_DB_NONE;
    sqlite3_reset(statement);
    return S2_OK;
}

s2_status s2_sql_run(s2_db *db, s2_diag *diag, const char *text, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    const s2_status status = run_va(db, diag, NULL, text, types, &args);
    va_end(args);
    return status;
}

s2_status s2_sql_int(s2_db *db, s2_diag *diag, int64_t *out, const char *text, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    const s2_status status = run_va(db, diag, out, text, types, &args);
    va_end(args);
    return status;
}

/* *out is NULL for NULL; false where memory ran out. */
static bool peek(sqlite3_stmt *statement, int column, const char **out)
{
    const bool is_null = sqlite3_column_type(statement, column) == SQLITE_NULL;
    *out = (const char *)sqlite3_column_text(statement, column);
    return is_null || *out != NULL;
}

s2_status s2_sql_peek(s2_db *db, struct sqlite3_stmt *statement, int column, const char **out,
                      size_t *n_bytes, s2_diag *diag)
{
    if (!peek(statement, column, out))
        return s2_sql_fail(db, SQLITE_NOMEM, diag);
    if (n_bytes != NULL)
        *n_bytes = (size_t)sqlite3_column_bytes(statement, column);
    return S2_OK;
}

const char *s2_sql_text(s2_arena *arena, struct sqlite3_stmt *statement, int column)
{
    const char *text;
    return peek(statement, column, &text) ? s2_arena_strndup(arena, text != NULL ? text : "",
                                                             (size_t)sqlite3_column_bytes(statement, column))
                                          : NULL;
}

int64_t s2_sql_column_int(struct sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL ? S2_DB_NONE
                                                                 : sqlite3_column_int64(statement, column);
}

double s2_sql_column_num(struct sqlite3_stmt *statement, int column)
{
    const double value = sqlite3_column_double(statement, column);
    const bool is_number = sqlite3_column_type(statement, column) != SQLITE_NULL && isfinite(value);
    return is_number ? value : (double)NAN; /* an infinity was put there by somebody else */
}
