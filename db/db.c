#include "db/db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/file.h"
#include "db/sql.h"

enum {
    HEADER_BYTES = 100,
    POLL_MS = 10,
    TURN_POLL_MS = 1,
    /* A checkpoint copies pages back to the file; 1000 is SQLite's own habit. */
    CHECKPOINT_PAGES = 1000,
    /* A log begins anew only when nobody reads it. From this size on a writer waits a moment for those who do. */
    GROWN_LOG_PAGES = 8192,
    GROWN_LOG_WAIT_MS = 500,
    MOST_COPIED_BYTES = 1 << 29,
    /*
     * Looks at what reading an untrusted file took, one after so many instructions of SQLite's machine: some
     * microseconds. Honest designs take some 450 a MiB.
     */
    LOOK_INSTRUCTIONS = 1000,
    UNTRUSTED_BASE_LOOKS = 500000,
    UNTRUSTED_LOOKS_PER_MIB = 4000
};

static char *join(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b);
    char *const text = s2_malloc(n_a + n_b + 1);
    if (text != NULL) {
        memcpy(text, a, n_a);
        memcpy(text + n_a, b, n_b + 1);
    }
    return text;
}

/*
 * The writers' lock. SQLite before 3.51.3 can lose a transaction when a writer restarts the log while
 * another process checkpoints; one lock for both keeps them apart.
 */
static s2_status lock_file_open(s2_db *db, int how, s2_diag *diag)
{
    if (db->lock_fd >= 0)
        return S2_OK;
    char *const path = join(db->path, "-lock");
    if (path == NULL)
        return S2_ENOMEM;
    db->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    const int error = errno;
    if (db->lock_fd < 0 && how == LOCK_SH)
        db->lock_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    s2_free(path);
    if (db->lock_fd < 0)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: cannot be locked, as %s-lock: %s", db->path, db->path,
                           strerror(error));
    return S2_OK;
}

static void end_turn(const s2_db *db)
{
    struct flock byte = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
    fcntl(db->lock_fd, F_OFD_SETLK, &byte);
}

/*
 * The first to wait for the lock takes the turn, a lock on one byte of the same file; a writer that ends one
 * transaction and begins the next then queues behind it. Without that, the writer took the lock again within
 * microseconds, and others polled in vain for seconds. A network file system may implement one kind of lock
 * with the other, and the two would deadlock; there the turn is given up.
 */
static bool take_turn(const s2_db *db)
{
    struct statfs where;
    struct flock byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    if (fcntl(db->lock_fd, F_OFD_SETLK, &byte) != 0)
        return errno != EAGAIN && errno != EACCES && errno != EINTR;
    if (fstatfs(db->lock_fd, &where) != 0 || where.f_type == NFS_SUPER_MAGIC ||
        where.f_type == SMB_SUPER_MAGIC || where.f_type == CIFS_SUPER_MAGIC ||
        where.f_type == SMB2_SUPER_MAGIC)
        end_turn(db);
    return true;
}

/* Why a lock was not granted. Only who reads alone shares it, so where it can be shared that is who has it. */
static s2_status refuse_lock(s2_db *db, int how, s2_diag *diag)
{
    if (how != LOCK_EX || flock(db->lock_fd, LOCK_SH | LOCK_NB) != 0)
        return s2_sql_fail(db, SQLITE_BUSY, diag);
    flock(db->lock_fd, LOCK_UN);
    return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                       "%s: its disk was full, or its folder read-only, when a process that reads it began, "
                       "which keeps writers out until it ends; make room, then end it",
                       db->path);
}

/* how: LOCK_EX to write; LOCK_SH to read without SQLite's locks, which keeps writers out and not other readers. */
static s2_status lock(s2_db *db, int how, int wait_ms, s2_diag *diag)
{
    S2_TRY(lock_file_open(db, how, diag));
    const int64_t deadline_ms = s2_steady_ms() + wait_ms;
    bool has_turn = take_turn(db);
    while (!has_turn || flock(db->lock_fd, how | LOCK_NB) != 0) {
        if ((has_turn && errno != EWOULDBLOCK && errno != EINTR) || s2_steady_ms() >= deadline_ms) {
            if (has_turn)
                end_turn(db);
            return refuse_lock(db, how, diag);
        }
        const struct timespec pause = {0, (has_turn ? TURN_POLL_MS : POLL_MS) * 1000000};
        nanosleep(&pause, NULL);
        has_turn = has_turn || take_turn(db);
    }
    end_turn(db);
    db->locked = true;
    return S2_OK;
}

static void unlock(s2_db *db)
{
    if (db->locked)
        flock(db->lock_fd, LOCK_UN);
    db->locked = false;
}

/* What the first 100 bytes and the size of a file say, before SQLite reads it. */
typedef struct file_facts {
    bool exists;
    bool has_log;     /* there is a write-ahead log with content */
    bool has_index;   /* and its index, as long as somebody uses it, or where he was killed */
    bool may_create;  /* files in its folder */
    bool has_journal; /* there is a rollback journal: a crash while the file was not yet WAL */
    bool is_wal;
    int64_t n_bytes;
    int64_t expected_bytes; /* according to the header; 0: unknown */
} file_facts;

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static s2_status take_header(s2_db *db, const uint8_t header[HEADER_BYTES], file_facts *facts, s2_diag *diag)
{
    if (memcmp(header, "SQLite format 3", 16) != 0)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: not a database", db->path);
    facts->is_wal = header[18] == 2;
    const int64_t page_bytes = header[16] << 8 | header[17];
    /* The page count is valid when the change counter was written together with it. */
    if (big_endian(header + 24) == big_endian(header + 92))
        facts->expected_bytes = (int64_t)big_endian(header + 28) * (page_bytes == 1 ? 65536 : page_bytes);
    return S2_OK;
}

/*
 * Read through SQLite, never through a descriptor of our own: closing one would drop the locks that other
 * handles of this process hold, and another process could then remove the log that they use.
 */
static s2_status read_header(s2_db *db, file_facts *facts, s2_diag *diag)
{
    uint8_t header[HEADER_BYTES] = {0};
    sqlite3 *probe = NULL;
    sqlite3_file *file = NULL;
    s2_sql_count_memory();
    int rc = sqlite3_open_v2(db->path, &probe, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_file_control(probe, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK && file != NULL && file->pMethods != NULL)
        rc = file->pMethods->xRead(file, header, HEADER_BYTES, 0);
    const int error = probe != NULL ? sqlite3_system_errno(probe) : 0;
    sqlite3_close(probe);
    if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", db->path,
                           error != 0 ? strerror(error) : sqlite3_errstr(rc));
    return facts->n_bytes == 0 ? S2_OK : take_header(db, header, facts, diag);
}

static s2_status may_create_beside(const s2_db *db, bool *out)
{
    const char *const slash = strrchr(db->path, '/');
    char *const folder = join(slash != NULL ? db->path : ".", "");
    if (folder == NULL)
        return S2_ENOMEM;
    if (slash != NULL)
        folder[slash == db->path ? 1 : slash - db->path] = '\0';
    *out = access(folder, W_OK) == 0;
    s2_free(folder);
    return S2_OK;
}

static s2_status has_content(const s2_db *db, const char *suffix, bool *out)
{
    struct stat info;
    char *const path = join(db->path, suffix);
    if (path == NULL)
        return S2_ENOMEM;
    *out = stat(path, &info) == 0 && info.st_size > 0;
    s2_free(path);
    return S2_OK;
}

/* SQLite opens what has these names as it comes, waits for a pipe's partner, and removes what is no log. */
static s2_status check_beside(const s2_db *db, s2_diag *diag)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal", "-lock"};
    struct stat info;
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++) {
        char *const path = join(db->path, suffixes[n]);
        if (path == NULL)
            return S2_ENOMEM;
        const bool is_other = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
        s2_free(path);
        if (is_other)
            return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: cannot be used, since %s%s beside it is no file",
                               db->path, db->path, suffixes[n]);
    }
    return S2_OK;
}

static s2_status look_at(s2_db *db, file_facts *facts, s2_diag *diag)
{
    struct stat info;
    *facts = (file_facts){0};
    const bool follows = db->mode != S2_DB_UNTRUSTED;
    if ((follows ? stat(db->path, &info) : lstat(db->path, &info)) != 0)
        return errno == ENOENT && db->mode == S2_DB_WRITE
                   ? S2_OK
                   : s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: %s", db->path,
                                 errno == ENOENT ? "there is no such database" : strerror(errno));
    if (S_ISLNK(info.st_mode))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: is a symbolic link, which is not followed",
                           db->path);
    if (!S_ISREG(info.st_mode) || s2_file_is_made_up(db->path))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: is not a file that can be a database", db->path);
    facts->exists = true;
    facts->n_bytes = info.st_size;
    S2_TRY(check_beside(db, diag));
    S2_TRY(read_header(db, facts, diag));
    S2_TRY(may_create_beside(db, &facts->may_create));
    S2_TRY(has_content(db, "-wal", &facts->has_log));
    S2_TRY(has_content(db, "-shm", &facts->has_index));
    return has_content(db, "-journal", &facts->has_journal);
}

static bool lacks_bytes(const file_facts *facts)
{
    return !facts->has_log && facts->n_bytes < facts->expected_bytes;
}

/*
 * Size, header and log cannot be read at once: while another process empties its log into the file, they may
 * come from different moments. So bytes count as missing only when they are missing twice.
 */
static s2_status read_facts(s2_db *db, file_facts *facts, s2_diag *diag)
{
    enum { LOOKS = 10 };
    const struct timespec moment = {.tv_nsec = 5000000};
    file_facts before;
    S2_TRY(look_at(db, facts, diag));
    for (int look = 0; look < LOOKS && lacks_bytes(facts); look++) {
        before = *facts;
        nanosleep(&moment, NULL);
        S2_TRY(look_at(db, facts, diag));
        if (before.n_bytes == facts->n_bytes && before.expected_bytes == facts->expected_bytes)
            break;
    }
    if (lacks_bytes(facts))
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: damaged, %lld of its %lld bytes are missing", db->path,
                           (long long)(facts->expected_bytes - facts->n_bytes),
                           (long long)facts->expected_bytes);
    return S2_OK;
}

/* SQLite cannot read a WAL file where it may not create the log's index, but without a log it needs none. */
static bool must_be_immutable(const s2_db *db, const file_facts *facts)
{
    if (db->mode == S2_DB_WRITE || facts->has_log)
        return false;
    return db->mode == S2_DB_UNTRUSTED || (facts->is_wal && !facts->may_create);
}

/* A path as a file: URI; every byte with a meaning in URIs is escaped. */
static char *uri_of(const char *path, const char *how)
{
    s2_buf buf = {0};
    s2_buf_puts(&buf, path[0] == '/' ? "file://" : "file:");
    for (; *path != '\0'; path++) {
        if (strchr("?#%", *path) != NULL)
            s2_buf_printf(&buf, "%%%02x", (unsigned)(unsigned char)*path);
        else
            s2_buf_add(&buf, path, 1);
    }
    s2_buf_puts(&buf, how);
    s2_buf_add(&buf, "", 1);
    if (buf.status != S2_OK) {
        s2_buf_release(&buf);
        return NULL;
    }
    return buf.data;
}

/* Counted, not timed: a busy machine would refuse what an idle one merges. */
static int past_limit(void *user)
{
    s2_db *const db = user;
    return db->looks_left-- <= 0;
}

/* Nothing in a file may run code: no triggers, no views, no functions with side effects. */
static void harden(s2_db *db, const file_facts *facts)
{
    static const int off[] = {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_TRIGGER,
                              SQLITE_DBCONFIG_ENABLE_VIEW,    SQLITE_DBCONFIG_DQS_DML,
                              SQLITE_DBCONFIG_DQS_DDL,        SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION};
    for (size_t n = 0; n < sizeof off / sizeof off[0]; n++)
        sqlite3_db_config(db->sql, off[n], 0, NULL);
    sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, 16 << 20);
    sqlite3_limit(db->sql, SQLITE_LIMIT_SQL_LENGTH, 100000);
    sqlite3_limit(db->sql, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(db->sql, SQLITE_LIMIT_TRIGGER_DEPTH, 10);
    sqlite3_limit(db->sql, SQLITE_LIMIT_VDBE_OP, 25000);
    if (db->mode == S2_DB_UNTRUSTED) {
        db->looks_left = UNTRUSTED_BASE_LOOKS + (facts->n_bytes >> 20) * UNTRUSTED_LOOKS_PER_MIB;
        sqlite3_progress_handler(db->sql, LOOK_INSTRUCTIONS, past_limit, db);
    }
}

/* The next to open the file must play back a rollback journal; a reader may do that and nothing else. */
static s2_status connect_file(s2_db *db, const char *path, const file_facts *facts, s2_diag *diag)
{
    const bool plays_back = db->mode == S2_DB_READ && facts->has_journal && access(path, W_OK) == 0;
    const bool writes = db->mode == S2_DB_WRITE || plays_back || (db->alone && db->mode == S2_DB_READ);
    int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    flags |= writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    if (db->mode == S2_DB_UNTRUSTED)
        flags |= SQLITE_OPEN_NOFOLLOW;
    const bool none = db->alone && (db->locked || !facts->may_create);
    char *const uri = uri_of(path, must_be_immutable(db, facts) ? "?immutable=1"
                                   : none                       ? "?vfs=unix-none"
                                                                : "");
    if (uri == NULL)
        return S2_ENOMEM;
    s2_sql_count_memory();
    const int rc = sqlite3_open_v2(uri, &db->sql, flags, NULL);
    s2_free(uri);
    if (rc != SQLITE_OK)
        return s2_sql_fail(db, rc, diag);
    sqlite3_busy_timeout(db->sql, S2_DB_LOCK_WAIT_MS);
    harden(db, facts);
    if (plays_back || db->alone)
        S2_TRY(s2_sql_exec(db, "PRAGMA query_only=ON", diag));
    if (db->alone) {
        sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        S2_TRY(s2_sql_exec(db, "PRAGMA locking_mode=EXCLUSIVE", diag));
    }
    return s2_sql_exec(
        db, "PRAGMA foreign_keys=ON; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY",
        diag);
}

/* The file's schema version; 0 for a file without tables. */
static s2_status read_version(s2_db *db, int64_t *version, s2_diag *diag)
{
    int64_t application, tables, found;
    S2_TRY(s2_sql_int(db, diag, &application, "PRAGMA application_id", ""));
    S2_TRY(s2_sql_int(db, diag, &found, "PRAGMA user_version", ""));
    S2_TRY(s2_sql_int(db, diag, &tables, "SELECT count(*) FROM sqlite_schema", ""));
    if (application != S2_DB_APPLICATION_ID && (application != 0 || found != 0 || tables != 0))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: is a database of another program", db->path);
    if (found > S2_DB_SCHEMA_VERSION)
        return s2_sql_refuse_newer(db->path, found, diag);
    if (found < 0 || (found == 0 && tables != 0))
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: refused, schema %lld does not exist", db->path,
                           (long long)found);
    *version = found;
    return S2_OK;
}

static s2_status begin(s2_db *db, s2_diag *diag)
{
    if (db->mode != S2_DB_WRITE || db->in_transaction)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "%s: opened for reading, or in a transaction", db->path);
    S2_TRY(lock(db, LOCK_EX, S2_DB_LOCK_WAIT_MS, diag));
    db->n_refused = s2_alloc_n_refused();
    const s2_status status = s2_sql_exec(db, "BEGIN IMMEDIATE", diag);
    if (status != S2_OK)
        unlock(db);
    db->in_transaction = status == S2_OK;
    return status;
}

static s2_status migrate_locked(s2_db *db, s2_diag *diag)
{
    int64_t version;
    S2_TRY(begin(db, diag));
    s2_status status = read_version(db, &version, diag);
    if (status == S2_OK)
        status = s2_db_migrate(db, (int32_t)version, diag);
    return s2_db_end(db, status, diag);
}

/*
 * journal_mode is set under the lock and only where it is not yet WAL, so that readers never meet the switch.
 */
static s2_status prepare_writing(s2_db *db, const file_facts *facts, s2_diag *diag)
{
    if (!facts->is_wal) {
        S2_TRY(lock(db, LOCK_EX, S2_DB_LOCK_WAIT_MS, diag));
        const s2_status status = s2_sql_exec(db, "PRAGMA journal_mode=WAL", diag);
        unlock(db);
        S2_TRY(status);
    }
    return s2_sql_exec(db, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0", diag);
}

static void forget_statements(s2_db *db)
{
    for (int32_t n = 0; n < db->n_cached; n++)
        sqlite3_finalize(db->cached[n].statement);
    db->n_cached = 0;
}

static void disconnect(s2_db *db)
{
    forget_statements(db);
    sqlite3_close(db->sql);
    db->sql = NULL;
}

static s2_status fill_new(s2_db *fresh, const char *path, s2_diag *diag)
{
    const file_facts none = {0};
    S2_TRY(connect_file(fresh, path, &none, diag));
    S2_TRY(s2_sql_exec(fresh, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN", diag));
    S2_TRY(s2_db_migrate(fresh, 0, diag));
    S2_TRY(s2_sql_exec(fresh, "COMMIT", diag));
    return s2_db_empty_log(fresh, diag);
}

/* Once its log is empty the database is one file, which gets its name in one step. */
static s2_status build_new(s2_db *db, s2_diag *diag)
{
    s2_db fresh = {.path = db->path, .mode = S2_DB_WRITE, .lock_fd = -1};
    s2_db_draft draft;
    S2_TRY(s2_db_draft_open(db->path, &draft, diag));
    s2_status status = fill_new(&fresh, draft.path, diag);
    disconnect(&fresh);
    if (status == S2_OK)
        status = s2_db_place(draft.path, db->path, false, diag) == S2_OK ? S2_OK : S2_EDB;
    s2_db_draft_close(&draft);
    return status;
}

/*
 * A database appears whole or not at all: every reader would refuse one that a killed process left half
 * made, until somebody writes.
 */
static s2_status create_file(s2_db *db, s2_diag *diag)
{
    s2_status status = lock(db, LOCK_EX, S2_DB_LOCK_WAIT_MS, diag);
    if (status == S2_OK && access(db->path, F_OK) != 0)
        status = build_new(db, diag);
    unlock(db);
    return status;
}

static s2_status check_untrusted(s2_db *db, int64_t version, s2_diag *diag)
{
    S2_TRY(s2_db_compare_schema(db, (int32_t)version, diag));
    struct sqlite3_stmt *statement;
    bool has_row;
    S2_TRY(s2_sql_prepare(db, "PRAGMA quick_check(1)", &statement, diag));
    S2_TRY(s2_sql_step(db, statement, &has_row, diag));
    const char *verdict = "no answer";
    if (has_row)
        S2_TRY(s2_sql_peek(db, statement, 0, &verdict, NULL, diag));
    const bool good = verdict != NULL && strcmp(verdict, "ok") == 0;
    char clean[128];
    s2_text_clean(clean, sizeof clean, verdict != NULL ? verdict : "");
    sqlite3_reset(statement);
    return good ? S2_OK : s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: damaged (%s)", db->path, clean);
}

static s2_status file_bytes(s2_db *db, int64_t *bytes, s2_diag *diag)
{
    int64_t page_bytes;
    S2_TRY(s2_sql_int(db, diag, bytes, "PRAGMA page_count", ""));
    S2_TRY(s2_sql_int(db, diag, &page_bytes, "PRAGMA page_size", ""));
    *bytes *= page_bytes;
    return S2_OK;
}

/*
 * The lock of a reader that reads alone keeps all writers out, this process's own among them. A session reads for
 * hours, so it reads from a copy in memory and lets go of the lock. A file too large for that keeps it.
 */
static s2_status read_from_copy(s2_db *db, const file_facts *facts, s2_diag *diag)
{
    int64_t bytes;
    sqlite3 *copy = NULL;
    S2_TRY(file_bytes(db, &bytes, diag));
    if (bytes > MOST_COPIED_BYTES)
        return S2_OK;
    int rc = sqlite3_open_v2(":memory:", &copy,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    sqlite3_backup *const backup =
        rc == SQLITE_OK ? sqlite3_backup_init(copy, "main", db->sql, "main") : NULL;
    if (backup != NULL)
        (void)sqlite3_backup_step(backup, -1);
    rc = backup != NULL    ? sqlite3_backup_finish(backup)
         : rc != SQLITE_OK ? rc
                           : sqlite3_extended_errcode(copy);
    if (rc != SQLITE_OK) {
        const s2_status status = s2_sql_fail(db, rc, diag);
        sqlite3_close(copy);
        return status;
    }
    disconnect(db);
    unlock(db);
    db->sql = copy;
    db->is_copy = true;
    harden(db, facts);
    return s2_sql_exec(db, "PRAGMA query_only=ON; PRAGMA temp_store=MEMORY", diag);
}

/* The log's index cannot be made: no room, or a log that somebody left in a folder that is read-only to us. */
static bool lacks_index(const s2_db *db, const file_facts *facts)
{
    const int error = sqlite3_system_errno(db->sql);
    if (error == ENOSPC || error == EDQUOT)
        return db->mode == S2_DB_READ;
    return facts->has_log && !facts->has_index && !facts->may_create;
}

/*
 * A reader, too, needs 32 KiB for the log's index, which all processes share. Without, it reads alone, with the index
 * in memory, which SQLite allows to a reader that excludes all others or takes no lock: ours keeps the writers out
 * then. Where not even our lock can be made or opened nobody can write.
 */
static s2_status first_look(s2_db *db, const file_facts *facts, int64_t *version, s2_diag *diag)
{
    const s2_status status = read_version(db, version, diag);
    if (status != S2_EDB || !lacks_index(db, facts))
        return status;
    if (db->mode == S2_DB_WRITE)
        return s2_sql_fail(db, SQLITE_READONLY, diag);
    disconnect(db);
    db->alone = true;
    if (!facts->has_journal) /* who plays one back must be the only one */
        (void)lock(db, LOCK_SH, S2_DB_LOCK_WAIT_MS, NULL);
    S2_TRY(connect_file(db, db->path, facts, diag));
    if (db->mode == S2_DB_READ)
        S2_TRY(read_from_copy(db, facts, diag));
    return read_version(db, version, diag);
}

/*
 * A file that SQLite takes for immutable changes all the same where its owner writes: who reads it for hours would see
 * pages of two times. So it is copied, and writers are kept out meanwhile if there is a lock.
 */
static s2_status keep_writers_out(s2_db *db, file_facts *facts, s2_diag *diag)
{
    if (db->mode != S2_DB_READ || !must_be_immutable(db, facts) ||
        lock(db, LOCK_SH, S2_DB_LOCK_WAIT_MS, NULL) != S2_OK)
        return S2_OK;
    S2_TRY(read_facts(db, facts, diag));
    if (!must_be_immutable(db, facts))
        unlock(db);
    return S2_OK;
}

/*
 * Who reads a file that is read-only leaves files beside it that are so, too, and would keep out writers when it no
 * longer is. Without a descriptor, since closing one drops this process's locks.
 */
static void give_rights_of_file(const s2_db *db)
{
    static const char *const suffixes[] = {"-wal", "-shm"};
    struct stat file, beside;
    for (size_t n = 0; n < sizeof suffixes / sizeof suffixes[0]; n++) {
        char *const path = join(db->path, suffixes[n]);
        const bool lacks_rights = path != NULL && stat(db->path, &file) == 0 && lstat(path, &beside) == 0 &&
                                  S_ISREG(beside.st_mode) && (file.st_mode & ~beside.st_mode & 0222) != 0;
        if (lacks_rights && fchmodat(AT_FDCWD, path, file.st_mode & 0777, AT_SYMLINK_NOFOLLOW) != 0)
            errno = 0; /* another's: the first to write is told so */
        s2_free(path);
    }
}

bool s2_db_is_copy(const s2_db *db)
{
    return db->is_copy;
}

bool s2_db_keeps_writers_out(const s2_db *db)
{
    return db->mode == S2_DB_READ && db->locked;
}

static s2_status open_steps(s2_db *db, s2_diag *diag)
{
    file_facts facts;
    int64_t version;
    S2_TRY(read_facts(db, &facts, diag));
    if (!facts.exists) {
        S2_TRY(create_file(db, diag));
        S2_TRY(read_facts(db, &facts, diag));
    }
    if (db->mode != S2_DB_WRITE && facts.n_bytes == 0 && !facts.has_log)
        return s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%s: an empty file, not a database", db->path);
    if (db->mode == S2_DB_WRITE)
        give_rights_of_file(db);
    S2_TRY(keep_writers_out(db, &facts, diag));
    S2_TRY(connect_file(db, db->path, &facts, diag));
    S2_TRY(first_look(db, &facts, &version, diag));
    if (db->mode == S2_DB_READ && must_be_immutable(db, &facts))
        S2_TRY(read_from_copy(db, &facts, diag));
    if (db->mode == S2_DB_UNTRUSTED)
        return check_untrusted(db, version, diag);
    if (db->mode == S2_DB_WRITE)
        S2_TRY(prepare_writing(db, &facts, diag));
    if (version == S2_DB_SCHEMA_VERSION)
        return S2_OK;
    if (db->mode == S2_DB_WRITE)
        return migrate_locked(db, diag);
    if (version == 0)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0, "%s: holds nothing yet", db->path);
    return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                       "%s: of an older s2 (schema %lld); any command that records brings it up to date",
                       db->path, (long long)version);
}

void s2_db_interrupt(s2_db *db)
{
    sqlite3_interrupt(db->sql);
}

/* All who share a file must find the same lock beside it, also those who know it by a link. */
static s2_status name_file(s2_db *db, const char *path, s2_diag *diag)
{
    char target[S2_PATH_BYTES];
    S2_TRY(s2_db_follow(path, target, diag));
    db->path = join(db->mode == S2_DB_UNTRUSTED ? path : target, "");
    return db->path != NULL ? S2_OK : S2_ENOMEM;
}

s2_status s2_db_open(const char *path, s2_db_mode mode, s2_db **out, s2_diag *diag)
{
    s2_db *db = s2_calloc(1, sizeof *db);
    if (db == NULL)
        return S2_ENOMEM;
    db->mode = mode;
    db->lock_fd = -1;
    s2_status status = name_file(db, path, diag);
    if (status == S2_OK)
        status = open_steps(db, diag);
    if (status != S2_OK) {
        s2_db_close(&db);
        return status;
    }
    *out = db;
    return S2_OK;
}

/* The last writer to leave merges the log into the file; without the lock it leaves that to the next. */
static void leave(s2_db *db)
{
    if (db->mode != S2_DB_WRITE)
        return;
    if (lock(db, LOCK_EX, 0, NULL) != S2_OK)
        sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

void s2_db_close(s2_db **handle)
{
    s2_db *const db = *handle;
    if (db == NULL)
        return;
    if (db->in_transaction)
        s2_db_rollback(db);
    forget_statements(db);
    if (db->sql != NULL)
        leave(db);
    sqlite3_close(db->sql);
    unlock(db);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    s2_free(db->path);
    s2_free(db);
    *handle = NULL;
}

/* Between two transactions a newer program may have changed the schema, and anybody the file of that name. */
static s2_status check_unchanged(s2_db *db, s2_diag *diag)
{
    int moved = 0;
    int64_t version;
    sqlite3_file_control(db->sql, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                           "%s: was removed or replaced since it was opened; nothing more is recorded",
                           db->path);
    S2_TRY(read_version(db, &version, diag));
    if (version != S2_DB_SCHEMA_VERSION)
        return s2_diag_set(diag, S2_EDB, 0, 0, 0,
                           "%s: its schema is %lld since it was opened; nothing more is recorded", db->path,
                           (long long)version);
    return S2_OK;
}

s2_status s2_db_begin(s2_db *db, s2_diag *diag)
{
    S2_TRY(begin(db, diag));
    const s2_status status = check_unchanged(db, diag);
    if (status != S2_OK)
        s2_db_rollback(db);
    return status;
}

s2_status s2_db_empty_log(s2_db *db, s2_diag *diag)
{
    return s2_sql_fail(db, sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
                       diag);
}

/*
 * Copying the log back may fail (a reader holds it, the disk is full); the transaction is safe in the log. Where one
 * reader always begins before the last one ends, only the wait lets the log begin anew: who begins to read while all
 * of it is copied and nobody writes does not need it.
 */
static void checkpoint(s2_db *db, int n_pages)
{
    const bool grown = n_pages >= GROWN_LOG_PAGES;
    sqlite3_busy_timeout(db->sql, grown ? GROWN_LOG_WAIT_MS : 0);
    sqlite3_wal_checkpoint_v2(db->sql, NULL, grown ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE,
                              NULL, NULL);
    sqlite3_busy_timeout(db->sql, S2_DB_LOCK_WAIT_MS);
}

static int count_log_pages(void *user, sqlite3 *sql, const char *name, int n_pages)
{
    (void)sql;
    (void)name;
    *(int *)user = n_pages;
    return SQLITE_OK;
}

void s2_db_rollback(s2_db *db)
{
    if (db->in_transaction && sqlite3_get_autocommit(db->sql) == 0)
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    db->in_transaction = false;
    unlock(db);
}

s2_status s2_db_end(s2_db *db, s2_status status, s2_diag *diag)
{
    int n_pages = 0;
    if (status == S2_OK && s2_alloc_n_refused() != db->n_refused)
        status = s2_sql_fail(db, SQLITE_NOMEM, diag);
    if (status == S2_OK) {
        sqlite3_wal_hook(db->sql, count_log_pages, &n_pages);
        status = s2_sql_exec(db, "COMMIT", diag);
        sqlite3_wal_hook(db->sql, NULL, NULL);
    }
    if (status != S2_OK) {
        s2_db_rollback(db);
        return status;
    }
    if (n_pages > CHECKPOINT_PAGES)
        checkpoint(db, n_pages);
    db->in_transaction = false;
    unlock(db);
    return S2_OK;
}
