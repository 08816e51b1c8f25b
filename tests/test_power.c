/*
 * Power cuts, simulated. While the database works, every call that changes a file or its directory is
 * recorded (the linker puts the functions below before those of the C library, for SQLite as for db/). A cut
 * is a moment of that record: what was synced before it is there; of what was written since, any subset is,
 * sector by sector; of names made, moved and removed since the directory was synced, the first few. From that
 * files are made again, and opened: they must hold what was acknowledged, or that and the one change that was
 * under way, whole. S2_CASES=N asks for N cuts.
 *
 * What is assumed of the disk is what SQLite assumes: a sector is old or new, whatever was written to it, and
 * a directory's changes reach the disk in order (every journaling file system).
 */
#include "tests/gen_db.h"
#include "tests/s2test.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sha2.h>
#include <sqlite3.h>

#include "base/rng.h"
#include "db/sql.h"
#include "tests/s2db.h"

#define OK(expr) assert_int_equal((expr), S2_OK)

enum { SECTOR = 512, MAX_FD = 256, MAX_FILES = 400, MAX_EVENTS = 20000, NAME = 48, WATCHED = 2 };
/* A descriptor that is not of a file in the recorded directory, and one that is of the directory itself. */
enum { FD_OTHER = 0, FD_DIR = -1 };

/* ---- the record ---------------------------------------------------------------------------------------- */

typedef enum event_kind {
    EV_WRITE,
    EV_TRUNCATE,
    EV_SYNC,
    EV_NAME,
    EV_RENAME,
    EV_UNLINK,
    EV_SYNC_DIR,
    EV_ACK
} event_kind;

typedef struct event {
    event_kind kind;
    int file; /* from 1; of EV_ACK the number of the state */
    int64_t at;
    size_t n_bytes;
    uint8_t *bytes;
    char name[NAME];
    char other[NAME];
} event;

typedef struct entry {
    char name[NAME];
    int file;
} entry;

typedef struct contents {
    uint8_t *bytes;
    size_t n_bytes;
} contents;

typedef struct record {
    char dir[96];
    bool on;
    bool no_sync; /* a disk that says it has synced and has not */
    int n_files;
    int n_events;
    int first_cut;
    int file_of[MAX_FD];
    entry names[MAX_FILES]; /* as the running process sees them */
    event events[MAX_EVENTS];
} record;

static record rec;

static const char *name_in_dir(const char *path)
{
    const size_t n = strlen(rec.dir);
    if (!rec.on || strncmp(path, rec.dir, n) != 0)
        return NULL;
    if (path[n] == '\0')
        return "";
    /* the lock and the log's index say nothing after a restart */
    const size_t length = strlen(path);
    const bool passing = strcmp(path + length - 5, "-lock") == 0 || strcmp(path + length - 4, "-shm") == 0;
    return path[n] == '/' && !passing ? path + n + 1 : NULL;
}

static event *add_event(event_kind kind, int file)
{
    if (rec.n_events == MAX_EVENTS)
        fail_msg("the record is full");
    event *const e = &rec.events[rec.n_events++];
    *e = (event){.kind = kind, .file = file};
    return e;
}

static entry *find_name(entry *names, const char *name)
{
    for (entry *at = names; at < names + MAX_FILES; at++)
        if (at->file != 0 && strcmp(at->name, name) == 0)
            return at;
    return NULL;
}

static void set_name(entry *names, const char *name, int file)
{
    entry *at = find_name(names, name);
    for (entry *free_one = names; at == NULL; free_one++)
        if (free_one->file == 0)
            at = free_one;
    snprintf(at->name, sizeof at->name, "%s", name);
    at->file = file;
}

static void change_names(entry *names, const event *e)
{
    entry *const at = e->kind == EV_NAME ? NULL : find_name(names, e->name);
    if (e->kind == EV_NAME)
        set_name(names, e->name, e->file);
    if (at != NULL && e->kind == EV_RENAME)
        set_name(names, e->other, at->file);
    if (at != NULL)
        at->file = 0;
}

static void add_name_event(event_kind kind, const char *name, const char *other, int file)
{
    event *const e = add_event(kind, file);
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->other, sizeof e->other, "%s", other != NULL ? other : "");
    change_names(rec.names, e);
}

static void opened(int fd, const char *path, int flags)
{
    const char *const name = name_in_dir(path);
    if (fd < 0 || fd >= MAX_FD || name == NULL)
        return;
    rec.file_of[fd] = FD_DIR;
    if (name[0] == '\0')
        return;
    const entry *const known = find_name(rec.names, name);
    if (known == NULL && (flags & O_CREAT) != 0)
        add_name_event(EV_NAME, name, NULL, ++rec.n_files);
    rec.file_of[fd] = known != NULL ? known->file : rec.n_files;
    if ((flags & O_TRUNC) != 0)
        add_event(EV_TRUNCATE, rec.file_of[fd]);
}

static int recorded(int fd)
{
    return rec.on && fd >= 0 && fd < MAX_FD ? rec.file_of[fd] : FD_OTHER;
}

static void written(int fd, const void *bytes, ssize_t n, int64_t at)
{
    const int file = recorded(fd);
    if (file <= 0 || n <= 0)
        return;
    event *const e = add_event(EV_WRITE, file);
    e->at = at;
    e->n_bytes = (size_t)n;
    e->bytes = malloc((size_t)n);
    assert_non_null(e->bytes);
    memcpy(e->bytes, bytes, (size_t)n);
}

/* ---- calls of the C library, as SQLite and db/ make them */

int __real_open(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __real_close(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, int64_t at);
int __real_ftruncate64(int fd, int64_t n);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_link(const char *from, const char *to);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
int __real_unlink(const char *path);

int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_close(int fd);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, int64_t at);
int __wrap_ftruncate64(int fd, int64_t n);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_link(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_unlink(const char *path);

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int fd = __real_open(path, flags, (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0);
    va_end(args);
    opened(fd, path, flags);
    return fd;
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int fd = __real_open64(path, flags, (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0);
    va_end(args);
    opened(fd, path, flags);
    return fd;
}

int __wrap_close(int fd)
{
    if (fd >= 0 && fd < MAX_FD)
        rec.file_of[fd] = FD_OTHER;
    return __real_close(fd);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    const int64_t at = recorded(fd) > 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    const ssize_t done = __real_write(fd, bytes, n);
    written(fd, bytes, done, at);
    return done;
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, int64_t at)
{
    const ssize_t done = __real_pwrite64(fd, bytes, n, at);
    written(fd, bytes, done, at);
    return done;
}

int __wrap_ftruncate64(int fd, int64_t n)
{
    if (recorded(fd) > 0)
        add_event(EV_TRUNCATE, rec.file_of[fd])->at = n;
    return __real_ftruncate64(fd, n);
}

/* Nothing is really synced: the record says what would be. */
static int synced(int fd)
{
    const int file = recorded(fd);
    if (file != FD_OTHER)
        add_event(file == FD_DIR ? EV_SYNC_DIR : EV_SYNC, file);
    return 0;
}

int __wrap_fsync(int fd)
{
    return synced(fd);
}

int __wrap_fdatasync(int fd)
{
    return synced(fd);
}

int __wrap_link(const char *from, const char *to)
{
    const int rc = __real_link(from, to);
    if (rc == 0 && name_in_dir(to) != NULL)
        add_name_event(EV_NAME, name_in_dir(to), NULL, find_name(rec.names, name_in_dir(from))->file);
    return rc;
}

static int renamed(int rc, const char *from, const char *to)
{
    if (rc == 0 && name_in_dir(to) != NULL)
        add_name_event(EV_RENAME, name_in_dir(from), name_in_dir(to), 0);
    return rc;
}

int __wrap_rename(const char *from, const char *to)
{
    return renamed(__real_rename(from, to), from, to);
}

int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    return renamed(__real_renameat2(at, from, to_at, to, flags), from, to);
}

int __wrap_unlink(const char *path)
{
    const int rc = __real_unlink(path);
    if (rc == 0 && name_in_dir(path) != NULL)
        add_name_event(EV_UNLINK, name_in_dir(path), NULL, 0);
    return rc;
}

/* ---- the disk after a cut */

/* How much of what was not synced survives. */
typedef enum loss { LOSE_ALL, LOSE_NONE, LOSE_WRITES, LOSE_SECTORS, LOSE_LAST, N_LOSSES } loss;

/* One file is made at a time, here. */
static uint8_t one_file[8 << 20];

static void grow(contents *c, size_t n, s2_rng *rng)
{
    if (n <= c->n_bytes)
        return;
    assert_true(n <= sizeof one_file);
    /* what lies in a sector that was allotted and never written: nothing, or something old */
    const int fill = s2_rng_below(rng, 2) == 0 ? 0 : (int)s2_rng_below(rng, 256);
    memset(c->bytes + c->n_bytes, fill, n - c->n_bytes);
    c->n_bytes = n;
}

static void apply_write(contents *c, const event *e, bool torn, s2_rng *rng)
{
    for (size_t done = 0; done < e->n_bytes;) {
        const size_t at = (size_t)e->at + done, left = e->n_bytes - done;
        const size_t piece = SECTOR - at % SECTOR < left ? SECTOR - at % SECTOR : left;
        if (!torn || s2_rng_below(rng, 2) == 0) {
            grow(c, at + piece, rng);
            memcpy(c->bytes + at, e->bytes + done, piece);
        }
        done += piece;
    }
}

/* `how` is what happens to a change that was not synced before the cut. */
static void apply(contents *c, const event *e, loss how, bool cut_off, s2_rng *rng)
{
    const bool lost = how == LOSE_ALL || (how == LOSE_LAST && cut_off) ||
                      (how != LOSE_NONE && how != LOSE_LAST && s2_rng_below(rng, 3) == 0);
    if (lost)
        return;
    if (e->kind == EV_WRITE)
        apply_write(c, e, how == LOSE_SECTORS, rng);
    if (e->kind == EV_TRUNCATE && (size_t)e->at < c->n_bytes)
        c->n_bytes = (size_t)e->at;
    else if (e->kind == EV_TRUNCATE)
        grow(c, (size_t)e->at, rng);
}

static contents make_contents(int file, int cut, loss how, s2_rng *rng)
{
    contents c = {.bytes = one_file};
    int synced_to = 0;
    for (int at = 0; at < cut && !rec.no_sync; at++)
        if (rec.events[at].kind == EV_SYNC && rec.events[at].file == file)
            synced_to = at;
    const int last_kept = synced_to + (int)s2_rng_below(rng, (uint64_t)(cut - synced_to) + 1);
    for (int at = 0; at < cut; at++)
        if (rec.events[at].kind <= EV_TRUNCATE && rec.events[at].file == file)
            apply(&c, &rec.events[at], at < synced_to ? LOSE_NONE : how, at >= last_kept, rng);
    return c;
}

static void make_names(entry *names, int cut, s2_rng *rng)
{
    int synced_to = 0;
    memset(names, 0, sizeof rec.names);
    for (int at = 0; at < cut && !rec.no_sync; at++)
        if (rec.events[at].kind == EV_SYNC_DIR)
            synced_to = at;
    const int to = synced_to + (int)s2_rng_below(rng, (uint64_t)(cut - synced_to) + 1);
    for (int at = 0; at < to; at++)
        if (rec.events[at].kind >= EV_NAME && rec.events[at].kind <= EV_UNLINK)
            change_names(names, &rec.events[at]);
}

static void write_out(const char *dir, const char *name, const contents *c)
{
    char path[256];
    snprintf(path, sizeof path, "%.95s/%.47s", dir, name);
    const int fd = __real_open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    assert_true(fd >= 0);
    if (c->n_bytes > 0)
        assert_int_equal(__real_write(fd, c->bytes, c->n_bytes), (ssize_t)c->n_bytes);
    __real_close(fd);
}

/* The files as they are after a cut of the power before event `cut`. */
static void make_disk(const char *dir, int cut, loss how, s2_rng *rng)
{
    static entry names[MAX_FILES];
    make_names(names, cut, rng);
    for (const entry *at = names; at < names + MAX_FILES; at++) {
        if (at->file == 0)
            continue;
        contents c = make_contents(at->file, cut, how, rng);
        write_out(dir, at->name, &c);
    }
}

static void empty_dir(const char *path)
{
    DIR *const dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *at; (at = readdir(dir)) != NULL;)
        if (at->d_name[0] != '.')
            unlinkat(dirfd(dir), at->d_name, 0);
    closedir(dir);
}

/* ---- what must be there */

enum { MAX_STATES = 200, MAIN = 0, BESIDE = 1 };
static const char *const FILE_NAMES[WATCHED] = {"main.db", "beside.db"};
static const char ABSENT[] = "absent", OLDER[] = "older";

typedef char digest[S2_HASH_HEX];
/* What each file held at each acknowledgement: a hash of every row. */
static digest states[MAX_STATES][WATCHED];
static int n_states;

static bool hash_line(void *user, const char *text, size_t n)
{
    SHA256Update(user, (const uint8_t *)text, n);
    SHA256Update(user, (const uint8_t *)"\n", 1);
    return true;
}

static s2_status digest_of(s2_db *db, digest out, s2_diag *diag)
{
    uint8_t bytes[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    SHA256Init(&context);
    S2_TRY(s2_db_dump(db, hash_line, &context, diag));
    SHA256Final(bytes, &context);
    for (size_t n = 0; n < sizeof bytes; n++)
        snprintf(out + 2 * n, 3, "%02x", bytes[n]);
    return S2_OK;
}

static void acknowledge(int which, const char *what)
{
    assert_true(n_states < MAX_STATES);
    if (n_states > 0)
        memcpy(states[n_states], states[n_states - 1], sizeof states[0]);
    snprintf(states[n_states][which], sizeof(digest), "%s", what);
    add_event(EV_ACK, n_states++);
}

/* What this handle sees has been acknowledged. */
static void acknowledge_rows(int which, s2_db *db)
{
    digest now;
    rec.on = false;
    OK(digest_of(db, now, NULL));
    rec.on = true;
    acknowledge(which, now);
}

static const char *path_in(const char *dir, int which)
{
    static char path[WATCHED][256];
    snprintf(path[which], sizeof path[which], "%.95s/%s", dir, FILE_NAMES[which]);
    return path[which];
}

static const char *recorded_path(int which)
{
    return path_in(rec.dir, which);
}

/*
 * Everything so far has long been on the disk; the power goes after the next acknowledgement at the earliest.
 */
static void settle(void)
{
    for (int file = 1; file <= rec.n_files; file++)
        add_event(EV_SYNC, file);
    add_event(EV_SYNC_DIR, FD_DIR);
    rec.first_cut = rec.n_events + 1;
}

static void begin_record(void)
{
    for (int at = 0; at < rec.n_events; at++)
        free(rec.events[at].bytes);
    rec.n_events = rec.n_files = n_states = 0;
    rec.first_cut = 1;
    memset(rec.names, 0, sizeof rec.names);
    memset(rec.file_of, 0, sizeof rec.file_of);
    rec.on = false;
    empty_dir(rec.dir);
    rec.on = true;
    acknowledge(MAIN, ABSENT);
    snprintf(states[0][BESIDE], sizeof(digest), "%s", ABSENT);
}

/* ---- what the database does until the power goes */

static void put_some(s2_db *db, int from, int to)
{
    for (int n = from; n < to; n++) {
        OK(s2_gen_put_all(db, n));
        acknowledge_rows(MAIN, db);
    }
}

static void do_what_people_do(s2_db *db)
{
    const s2_db_view view = {"fast", "us<900", "us", false};
    s2_db_undone undone;
    int64_t n;
    OK(s2_db_tag(db, 1, "keep", true, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_note(db, 2, "a note", NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_star(db, 3, true, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_view_put(db, &view, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_remove(db, 4, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_undo(db, &undone, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_remove(db, 5, NULL));
    acknowledge_rows(MAIN, db);
    OK(s2_db_collect(db, &n, NULL));
    acknowledge_rows(MAIN, db);
}

/* Creation, writes until the log is copied back and begun again, undo, gc, a reader in between, reopening. */
static void live(void)
{
    s2_db *db = s2_opened(recorded_path(MAIN), S2_DB_WRITE);
    acknowledge_rows(MAIN, db);
    put_some(db, 0, 40);
    do_what_people_do(db);
    s2_db *reader = s2_opened(recorded_path(MAIN), S2_DB_READ);
    put_some(db, 40, 50);
    s2_db_close(&reader);
    put_some(db, 50, 60);
    s2_db_close(&db);
    db = s2_opened(recorded_path(MAIN), S2_DB_WRITE);
    put_some(db, 60, 64);
    s2_db_close(&db);
}

static void make_old(const char *path, int version)
{
    char pragma[96];
    for (int n = 0; n < version; n++)
        s2_run_sql(path, s2_db_migrations[n].sql);
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%d", S2_DB_APPLICATION_ID,
             version);
    s2_run_sql(path, pragma);
    s2_run_sql(path,
               "INSERT INTO run(uid,tool_version,commit_id,sqlite_version,command,argv_json,host,started_us)"
               " VALUES(zeroblob(16),'0','c','3','check','[]','h',1)");
}

static void migrate_from(int version)
{
    make_old(recorded_path(MAIN), version);
    settle();
    acknowledge(MAIN, OLDER);
    s2_db *db = s2_opened(recorded_path(MAIN), S2_DB_WRITE);
    acknowledge_rows(MAIN, db);
    put_some(db, 0, 2);
    s2_db_close(&db);
}

static void acknowledge_copy(void)
{
    rec.on = false;
    s2_db *copy = s2_opened(recorded_path(BESIDE), S2_DB_UNTRUSTED);
    acknowledge_rows(BESIDE, copy);
    rec.on = false;
    s2_db_close(&copy);
    rec.on = true;
}

/* A merge, a backup, one over it, and a recovery over that. */
static void copy_and_merge(void)
{
    s2_db_merged merged;
    s2_db_recovered found;
    s2_db *db = s2_opened(recorded_path(BESIDE), S2_DB_WRITE);
    for (int n = 0; n < 30; n++)
        OK(s2_gen_put_all(db, n));
    s2_db_close(&db);
    settle();
    acknowledge_copy();
    db = s2_opened(recorded_path(MAIN), S2_DB_WRITE);
    acknowledge_rows(MAIN, db);
    put_some(db, 25, 28);
    s2_db *other = s2_opened(recorded_path(BESIDE), S2_DB_UNTRUSTED);
    OK(s2_db_merge(db, other, &merged, NULL));
    s2_db_close(&other);
    acknowledge_rows(MAIN, db);
    OK(s2_db_backup(db, recorded_path(BESIDE), true, NULL));
    acknowledge_copy();
    put_some(db, 50, 53);
    OK(s2_db_backup(db, recorded_path(BESIDE), true, NULL));
    acknowledge_copy();
    put_some(db, 53, 54);
    s2_db_close(&db);
    OK(s2_db_recover(recorded_path(MAIN), recorded_path(BESIDE), true, &found, NULL));
    acknowledge_copy();
}

/* ---- cuts */

static s2_status is_sound(s2_db *db, s2_diag *diag)
{
    s2_buf findings = {0};
    s2_status status = s2_db_verify(db, &findings, diag);
    if (status == S2_OK && findings.len > 0)
        status = s2_diag_set(diag, S2_EDB, 0, 0, 0, "%.*s", (int)findings.len, findings.data);
    s2_buf_release(&findings);
    return status;
}

/* What a reader finds, as a digest. */
static s2_status look(const char *path, digest found, s2_diag *diag)
{
    s2_db *db;
    s2_status status = s2_db_open(path, S2_DB_READ, &db, diag);
    if (status != S2_OK) {
        const char *const word = strstr(diag->msg, "no such database") != NULL ? ABSENT
                                 : strstr(diag->msg, "of an older s2") != NULL ? OLDER
                                                                               : NULL;
        snprintf(found, sizeof(digest), "%s", word != NULL ? word : "");
        return word != NULL ? S2_OK : status;
    }
    status = is_sound(db, diag);
    if (status == S2_OK)
        status = digest_of(db, found, diag);
    s2_db_close(&db);
    return status;
}

/* Whoever comes next can write, and what he writes stays. */
static s2_status write_on(const char *path, s2_diag *diag)
{
    s2_db *db;
    S2_TRY(s2_db_open(path, S2_DB_WRITE, &db, diag));
    s2_status status = s2_gen_put_all(db, 7000);
    if (status == S2_OK)
        status = is_sound(db, diag);
    s2_db_close(&db);
    return status;
}

static s2_status check_file(const char *path, int which, int state, s2_diag *diag)
{
    digest found;
    S2_TRY(look(path, found, diag));
    const bool before = strcmp(found, states[state][which]) == 0;
    const bool after = state + 1 < n_states && strcmp(found, states[state + 1][which]) == 0;
    if (!before && !after)
        return s2_diag_set(
            diag, S2_EDB, 0, 0, 0,
            "%s: its rows are neither those acknowledged (state %d) nor those of the next change (%.16s)",
            FILE_NAMES[which], state, found);
    return S2_OK;
}

static s2_status cut_once(const char *dir, s2_rng *rng, bool writes, s2_diag *diag)
{
    const int cut = rec.first_cut + (int)s2_rng_below(rng, (uint64_t)(rec.n_events - rec.first_cut) + 1);
    const loss how = (loss)s2_rng_below(rng, N_LOSSES);
    int state = 0;
    empty_dir(dir);
    make_disk(dir, cut, how, rng);
    for (int at = 0; at < cut; at++)
        if (rec.events[at].kind == EV_ACK)
            state = rec.events[at].file;
    s2_status status = S2_OK;
    for (int which = 0; which < WATCHED && status == S2_OK; which++)
        status = check_file(path_in(dir, which), which, state, diag);
    if (status == S2_OK && writes)
        status = write_on(path_in(dir, MAIN), diag);
    char why[sizeof diag->msg];
    snprintf(why, sizeof why, "%.100s", diag->msg);
    return status == S2_OK ? S2_OK
                           : s2_diag_set(diag, status, 0, 0, 0, "cut before event %d of %d, loss %d: %s", cut,
                                         rec.n_events, (int)how, why);
}

static char cut_dir[96];

/* Counts the cuts of n after which something is missing or broken; *diag names the last. */
static int64_t cut_many(int64_t n, uint64_t seed, s2_diag *diag)
{
    int64_t n_bad = 0;
    rec.on = false;
    for (int64_t at = 0; at < n; at++) {
        s2_rng rng = {seed + (uint64_t)at};
        n_bad += cut_once(cut_dir, &rng, at % 4 == 0, diag) != S2_OK;
        if (n_bad > 0 && !rec.no_sync) {
            printf("seed %llu\n", (unsigned long long)(seed + (uint64_t)at));
            break;
        }
    }
    return n_bad;
}

static void report(const char *what, int64_t n)
{
    int64_t n_syncs = 0;
    for (int at = 0; at < rec.n_events; at++)
        n_syncs += rec.events[at].kind == EV_SYNC || rec.events[at].kind == EV_SYNC_DIR;
    printf(
        "# s2: %lld power cuts while %s (%d calls, %lld of them syncs, %d acknowledgements): every database "
        "sound, every acknowledged row there\n",
        (long long)n, what, rec.n_events, (long long)n_syncs, n_states);
}

static void assert_nothing_lost(const char *what, int64_t n)
{
    s2_diag diag = {0};
    if (cut_many(n, s2_test_seed(1000), &diag) > 0)
        fail_msg("%s: %s", what, diag.msg);
    if (what[0] != '\0')
        report(what, n);
}

static void a_power_cut_loses_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    begin_record();
    live();
    assert_nothing_lost("writing", s2_test_cases(800) / 2);
}

static void a_power_cut_leaves_a_copy_old_or_new(void **state)
{
    (void)state;
    begin_record();
    copy_and_merge();
    assert_nothing_lost("merging and copying", s2_test_cases(800) / 3);
}

static void a_power_cut_leaves_a_file_of_the_old_schema_or_the_new(void **state)
{
    (void)state;
    const int64_t n = s2_test_cases(800) / 6 / (S2_DB_SCHEMA_VERSION - 1) + 1;
    for (int version = 1; version < S2_DB_SCHEMA_VERSION; version++) {
        begin_record();
        migrate_from(version);
        assert_nothing_lost(version + 1 < S2_DB_SCHEMA_VERSION ? "" : "migrating", n);
    }
}

/* The judge judged: the same record with syncs that did nothing must be convicted. */
static void a_disk_that_only_says_it_synced_is_found_out(void **state)
{
    (void)state;
    s2_diag diag = {0};
    const int64_t n = 60;
    begin_record();
    live();
    rec.no_sync = true;
    const int64_t n_bad = cut_many(n, s2_test_seed(1000), &diag);
    rec.no_sync = false;
    assert_true(n_bad > n / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_power_cut_loses_nothing_that_was_acknowledged),
        cmocka_unit_test(a_power_cut_leaves_a_copy_old_or_new),
        cmocka_unit_test(a_power_cut_leaves_a_file_of_the_old_schema_or_the_new),
        cmocka_unit_test(a_disk_that_only_says_it_synced_is_found_out),
    };
    const char *const tmp = getenv("TMPDIR");
    snprintf(rec.dir, sizeof rec.dir, "%.60s/s2-power.XXXXXX", tmp != NULL ? tmp : "/tmp");
    snprintf(cut_dir, sizeof cut_dir, "%.60s/s2-power.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(rec.dir) == NULL || mkdtemp(cut_dir) == NULL)
        return 1;
    const int n_failed = cmocka_run_group_tests_name("power", tests, NULL, NULL);
    rec.on = false;
    empty_dir(rec.dir);
    empty_dir(cut_dir);
    rmdir(rec.dir);
    rmdir(cut_dir);
    return n_failed;
}
