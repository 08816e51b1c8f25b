/*
 * A disk that is full, or fails, at any moment: the n-th call that opens, writes, syncs, maps or names a file
 * fails, for every n, once or from then on (the linker puts the functions below before those of the C library,
 * for SQLite as for db/ and base/). And, where the user may mount, real disks of every small size. Afterwards every
 * file must be whole, or what it was, or not there, and what was acknowledged must be in it.
 */
#include "tests/gen_db.h"
#include "tests/s2test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/file.h"
#include "db/sql.h"
#include "tests/s2db.h"
#include "tests/s2set.h"

#define OK(expr) assert_int_equal((expr), S2_OK)

/* ---- calls that fail */

typedef struct faults {
    bool on, for_good, kills; /* kills: the process ends there, as by kill -9 */
    int error;
    int64_t left, n_calls;
} faults;
static faults fault;

static bool fails(void)
{
    if (!fault.on)
        return false;
    fault.n_calls++;
    const int64_t left = fault.left--;
    if (left == 0 && fault.kills)
        _exit(9);
    errno = fault.error;
    return left == 0 || (left < 0 && fault.for_good);
}

int __real_open(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, int64_t at);
int __real_ftruncate64(int fd, int64_t n);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_link(const char *from, const char *to);
int __real_linkat(int at, const char *from, int to_at, const char *to, int flags);
int __real_rename(const char *from, const char *to);
int __real_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
void *__real_mmap64(void *at, size_t n, int protection, int flags, int fd, int64_t from);

int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, int64_t at);
int __wrap_ftruncate64(int fd, int64_t n);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_link(const char *from, const char *to);
int __wrap_linkat(int at, const char *from, int to_at, const char *to, int flags);
int __wrap_rename(const char *from, const char *to);
int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags);
void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, int64_t from);

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
    va_end(args);
    return fails() ? -1 : __real_open(path, flags, mode);
}

int __wrap_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
    va_end(args);
    return fails() ? -1 : __real_open64(path, flags, mode);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    return fails() ? -1 : __real_write(fd, bytes, n);
}

/* A full disk takes a part first. */
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, int64_t at)
{
    if (!fails())
        return __real_pwrite64(fd, bytes, n, at);
    if (n >= 1024 && fault.left % 2 == 0)
        (void)!__real_pwrite64(fd, bytes, n / 2, at);
    errno = fault.error;
    return -1;
}

int __wrap_ftruncate64(int fd, int64_t n)
{
    return fails() ? -1 : __real_ftruncate64(fd, n);
}

int __wrap_fsync(int fd)
{
    return fails() ? -1 : __real_fsync(fd);
}

int __wrap_fdatasync(int fd)
{
    return fails() ? -1 : __real_fdatasync(fd);
}

int __wrap_link(const char *from, const char *to)
{
    return fails() ? -1 : __real_link(from, to);
}

int __wrap_linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    return fails() ? -1 : __real_linkat(at, from, to_at, to, flags);
}

int __wrap_rename(const char *from, const char *to)
{
    return fails() ? -1 : __real_rename(from, to);
}

int __wrap_renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    return fails() ? -1 : __real_renameat2(at, from, to_at, to, flags);
}

void *__wrap_mmap64(void *at, size_t n, int protection, int flags, int fd, int64_t from)
{
    return fd >= 0 && fails() ? MAP_FAILED : __real_mmap64(at, n, protection, flags, fd, from);
}

/* ---- files */

static char dir[96], main_path[128], beside_path[128], older_path[128];

static void empty_dir(const char *path)
{
    DIR *const opened = opendir(path);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(opened), entry->d_name, 0);
    closedir(opened);
}

/* Names of what is in the way of the next one: nothing that is written beside may stay there. */
static void assert_no_litter(const char *path, const char *what)
{
    DIR *const opened = opendir(path);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (strstr(entry->d_name, "tmp") != NULL)
            fail_msg("%s leaves %s", what, entry->d_name);
    closedir(opened);
}

enum { N_COUNTED = 6 };
static const char *const counted[N_COUNTED] = {"run", "design", "chk", "sim", "validation", "tag"};

/* Rows of the tables that matter, -1 of a file that is not there; a file that is there must be sound. */
static void count_rows(const char *path, int64_t rows[N_COUNTED])
{
    s2_buf findings = {0};
    for (int t = 0; t < N_COUNTED; t++)
        rows[t] = -1;
    if (access(path, F_OK) != 0)
        return;
    s2_db *db = s2_opened(path, S2_DB_READ);
    OK(s2_db_verify(db, &findings, NULL));
    if (findings.len > 0)
        fail_msg("%s: %.*s", path, (int)findings.len, findings.data);
    for (int t = 0; t < N_COUNTED; t++)
        OK(s2_db_count(db, counted[t], &rows[t], NULL));
    s2_db_close(&db);
    s2_buf_release(&findings);
}

static void fill(const char *path, int first, int n)
{
    s2_gen_forget(path);
    s2_db *db = s2_opened(path, S2_DB_WRITE);
    for (int at = first; at < first + n; at++)
        OK(s2_gen_put_all(db, at));
    s2_db_close(&db);
}

/* As the schema of two versions ago left it. */
static void make_older(const char *path)
{
    sqlite3 *raw;
    char pragma[96];
    const int version = S2_DB_SCHEMA_VERSION - 2;
    s2_gen_forget(path);
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    for (int n = 0; n < version; n++)
        assert_int_equal(sqlite3_exec(raw, s2_db_migrations[n].sql, NULL, NULL, NULL), SQLITE_OK);
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=%d", S2_DB_APPLICATION_ID,
             version);
    assert_int_equal(sqlite3_exec(raw, pragma, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
}

/* ---- what is done while the disk fails */

static s2_status write_rows(const char *path)
{
    s2_db *db;
    S2_TRY(s2_db_open(path, S2_DB_WRITE, &db, NULL));
    const s2_status status = s2_gen_put_all(db, 7000);
    s2_db_close(&db);
    return status;
}

static s2_status open_and_close(const char *path)
{
    s2_db *db;
    S2_TRY(s2_db_open(path, S2_DB_WRITE, &db, NULL));
    s2_db_close(&db);
    return S2_OK;
}

static s2_status do_create(void)
{
    return open_and_close(main_path);
}

static s2_status do_write(void)
{
    return write_rows(main_path);
}

static s2_status do_migrate(void)
{
    return open_and_close(older_path);
}

static s2_status do_merge(void)
{
    s2_db *db, *other;
    s2_db_merged merged;
    S2_TRY(s2_db_open(main_path, S2_DB_WRITE, &db, NULL));
    s2_status status = s2_db_open(beside_path, S2_DB_UNTRUSTED, &other, NULL);
    if (status == S2_OK) {
        status = s2_db_merge(db, other, &merged, NULL);
        s2_db_close(&other);
    }
    s2_db_close(&db);
    return status;
}

static s2_status do_backup(void)
{
    s2_db *db;
    S2_TRY(s2_db_open(main_path, S2_DB_READ, &db, NULL));
    const s2_status status = s2_db_backup(db, beside_path, true, NULL);
    s2_db_close(&db);
    return status;
}

static s2_status do_recover(void)
{
    s2_db_recovered found;
    return s2_db_recover(main_path, beside_path, true, &found, NULL);
}

static s2_status do_export(void)
{
    s2_output out;
    S2_TRY(s2_output_open(&out, older_path));
    for (int line = 0; line < 4000; line++)
        fprintf(out.file, "line %d of a file that is whole or not there\n", line);
    return s2_output_close(&out, true);
}

static const struct {
    const char *what;
    s2_status (*run)(void);
} ACTS[] = {
    {"creating", do_create},   {"writing", do_write},      {"migrating", do_migrate}, {"merging", do_merge},
    {"backing up", do_backup}, {"recovering", do_recover}, {"exporting", do_export},
};
enum { N_ACTS = sizeof ACTS / sizeof *ACTS };

/* What lies there before each attempt: made once, then written again byte by byte. */
static struct {
    uint8_t *bytes;
    size_t n;
} seeds[3];
static char *const seed_paths[3] = {main_path, beside_path, older_path};

static void keep_seed(int which)
{
    FILE *const file = fopen(seed_paths[which], "rb");
    free(seeds[which].bytes);
    seeds[which].bytes = NULL;
    if (file == NULL)
        return;
    fseek(file, 0, SEEK_END);
    seeds[which].n = (size_t)ftell(file);
    rewind(file);
    seeds[which].bytes = malloc(seeds[which].n);
    assert_non_null(seeds[which].bytes);
    assert_int_equal(fread(seeds[which].bytes, 1, seeds[which].n, file), seeds[which].n);
    fclose(file);
}

static void make_seeds(s2_status (*run)(void))
{
    empty_dir(dir);
    if (run != do_create)
        fill(main_path, 0, 3);
    fill(beside_path, 100, 2);
    if (run == do_migrate)
        make_older(older_path);
    for (int which = 0; which < 3; which++)
        keep_seed(which);
}

static void plant_seeds(void)
{
    empty_dir(dir);
    for (int which = 0; which < 3; which++) {
        FILE *const file = seeds[which].bytes != NULL ? fopen(seed_paths[which], "wb") : NULL;
        if (file == NULL)
            continue;
        assert_int_equal(fwrite(seeds[which].bytes, 1, seeds[which].n, file), seeds[which].n);
        assert_int_equal(fclose(file), 0);
    }
}

typedef struct outcome {
    int64_t main[N_COUNTED], beside[N_COUNTED], older;
} outcome;

static outcome look(s2_status (*run)(void))
{
    outcome seen = {.older = -1};
    struct stat info;
    count_rows(main_path, seen.main);
    count_rows(beside_path, seen.beside);
    if (run == do_migrate) {
        s2_db *db = s2_opened(older_path, S2_DB_WRITE);
        s2_db_close(&db);
    }
    if (run == do_export && stat(older_path, &info) == 0)
        seen.older = info.st_size;
    return seen;
}

static bool same(const outcome *a, const outcome *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void fail_each_call(int act, int error, bool for_good, int64_t most, int64_t *n_failed)
{
    s2_status (*const run)(void) = ACTS[act].run;
    make_seeds(run);
    const outcome before = look(run);
    OK(run());
    const outcome after = look(run);
    /* of a long row of calls, a sample that ends with the last */
    int64_t stride = 1;
    for (int64_t n = 0;; n += stride) {
        plant_seeds();
        fault = (faults){.on = true, .for_good = for_good, .error = error, .left = n};
        const s2_status status = run();
        fault.on = false;
        const bool over = fault.n_calls <= n;
        stride = fault.n_calls > most ? fault.n_calls / most : stride;
        const outcome seen = look(run);
        if (status == S2_OK ? !same(&seen, &after) : !same(&seen, &before) && !same(&seen, &after))
            fail_msg("%s, call %lld fails with %s%s: status %d, neither old nor new", ACTS[act].what,
                     (long long)n, strerror(error), for_good ? " and all after it" : "", (int)status);
        assert_no_litter(dir, ACTS[act].what);
        *n_failed += !over;
        if (over)
            return;
    }
}

static void any_call_may_fail(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EIO};
    const int64_t most =
        s2_test_cases(4 * 4 * N_ACTS) / (4 * N_ACTS) + 1; /* of each act, error and duration */
    for (int act = 0; act < N_ACTS; act++) {
        int64_t n_failed = 0;
        for (int e = 0; e < 2; e++)
            for (int good = 0; good < 2; good++)
                fail_each_call(act, errors[e], good == 1, most, &n_failed);
        printf("# s2: %s: %lld calls failed one by one; every file whole, old or not there\n", ACTS[act].what,
               (long long)n_failed);
    }
    empty_dir(dir);
}

/* ---- sets of files, interrupted */

static void interrupt_at(const char *const *to, int32_t n_sets, int64_t n)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fault = (faults){.on = true, .kills = true, .left = n};
        _exit(s2_sets_write(to, n_sets, "new") == S2_OK ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
}

static void a_set_that_is_interrupted_is_old_new_or_refused(void **state)
{
    (void)state;
    char to[128];
    int64_t n_of[4] = {0};
    static const char *const words[] = {"", "old", "new", "refused"};
    for (int is_there = 0; is_there < 3; is_there++) /* not there; a set of ours; one without a list */
        for (int64_t n = 0; n < 40; n++) {
            s2_arena arena = {0};
            snprintf(to, sizeof to, "%.90s/set-%d-%lld", dir, is_there, (long long)n);
            if (is_there != 0)
                OK(s2_set_write(to, "old"));
            char sums[200];
            snprintf(sums, sizeof sums, "%s/s2.sha256", to);
            if (is_there == 2)
                assert_int_equal(unlink(sums), 0);
            interrupt_at((const char *const[]){to}, 1, n);
            const char *const found = s2_set_read(to, &arena);
            int which = 0;
            while (which < 4 && strcmp(found, words[which]) != 0)
                which++;
            if (which == 4 || (is_there != 0 && which == 0) || (is_there == 0 && which == 1))
                fail_msg("killed at call %lld: found \"%s\"", (long long)n, found);
            n_of[which]++;
            s2_arena_release(&arena);
        }
    printf("# s2: sets of files, killed: %lld not there, %lld old, %lld new, %lld refused, none mixed\n",
           (long long)n_of[0], (long long)n_of[1], (long long)n_of[2], (long long)n_of[3]);
    assert_true(n_of[0] > 0 && n_of[1] > 0 && n_of[2] > 0 && n_of[3] > 0);
}

/* Those of the GPUs that share a model: an old one beside a new one would be a third pattern. */
static void of_sets_that_belong_together_none_stays_old_unseen(void **state)
{
    (void)state;
    int64_t n_of[3] = {0};
    for (int64_t n = 0; n < 80; n++) {
        s2_arena arena = {0};
        char to[2][128];
        const char *const names[2] = {to[0], to[1]}, *found[2];
        for (int set = 0; set < 2; set++)
            snprintf(to[set], sizeof to[set], "%.90s/of-%lld-%d", dir, (long long)n, set);
        OK(s2_sets_write(names, 2, "old"));
        interrupt_at(names, 2, n);
        for (int set = 0; set < 2; set++)
            found[set] = s2_set_read(to[set], &arena);
        const bool refused = strcmp(found[0], "refused") == 0 || strcmp(found[1], "refused") == 0;
        if (!refused && strcmp(found[0], found[1]) != 0)
            fail_msg("killed at call %lld: found \"%s\" beside \"%s\"", (long long)n, found[0], found[1]);
        n_of[refused ? 2 : strcmp(found[0], "new") == 0]++;
        s2_arena_release(&arena);
    }
    assert_true(n_of[0] > 0 && n_of[1] > 0 && n_of[2] > 0);
}

static void sets_that_are_written_at_once_do_not_mix(void **state)
{
    (void)state;
    enum { WRITERS = 6, ROUNDS = 40 };
    char to[128];
    for (int round = 0; round < ROUNDS; round++) {
        s2_arena arena = {0};
        pid_t writers[WRITERS];
        snprintf(to, sizeof to, "%.90s/at-once-%d", dir, round / 2); /* new; there */
        for (int w = 0; w < WRITERS; w++) {
            const char text[] = {(char)('a' + w), '\0'};
            writers[w] = fork();
            if (writers[w] == 0)
                _exit(s2_set_write(to, text) == S2_OK ? 0 : 1);
        }
        for (int w = 0; w < WRITERS; w++) {
            int ended;
            assert_int_equal(waitpid(writers[w], &ended, 0), writers[w]);
            assert_int_equal(ended, 0);
        }
        const char *const found = s2_set_read(to, &arena);
        if (strlen(found) != 1)
            fail_msg("round %d: found \"%s\"", round, found);
        s2_arena_release(&arena);
    }
}

/* ---- disks of every size */

static bool mount_disk(const char *path, int kib, bool again)
{
    char options[48];
    snprintf(options, sizeof options, "size=%dk", kib);
    return mount("tmpfs", path, "tmpfs", again ? MS_REMOUNT : 0, options) == 0;
}

/* Writes go on until the disk is full; all of them that were acknowledged are there, for a reader on the full disk. */
static void fill_disk(const char *path, int64_t *n_acknowledged)
{
    int64_t rows[N_COUNTED];
    s2_db *db = NULL;
    int n = 0;
    if (s2_db_open(path, S2_DB_WRITE, &db, NULL) == S2_OK)
        while (n < 400 && s2_gen_put_all(db, n) == S2_OK)
            n++;
    s2_db_close(&db);
    count_rows(path, rows);
    if (n > 0 && rows[0] < n)
        fail_msg("%d runs acknowledged, %lld found", n, (long long)rows[0]);
    *n_acknowledged += n;
}

static void a_disk_of_any_size_may_be_full(void **state)
{
    (void)state;
    char disk[128], path[160];
    int64_t n_sizes = 0, n_acknowledged = 0;
    snprintf(disk, sizeof disk, "%s/disk", dir);
    snprintf(path, sizeof path, "%s/full.db", disk);
    assert_int_equal(mkdir(disk, 0777), 0);
    for (int kib = 4; kib <= 1024; kib += kib < 400 ? 12 : 60) {
        if (!mount_disk(disk, kib, false)) {
            printf("# s2: no disk of a size of its own: this user may not mount\n");
            break;
        }
        n_sizes++;
        fill_disk(path, &n_acknowledged);
        if (!mount_disk(disk, 65536, true))
            fail_msg("the disk cannot grow");
        OK(write_rows(path)); /* with room again, whoever comes next can write */
        umount(disk);
    }
    rmdir(disk);
    printf("# s2: %lld full disks, %lld acknowledged runs all there\n", (long long)n_sizes,
           (long long)n_acknowledged);
}

static void assert_nobody_locks(const char *path)
{
    char lock[176];
    snprintf(lock, sizeof lock, "%s-lock", path);
    const int fd = open(lock, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
}

/* Everything that was recorded can be read, however little room there is, and who reads it keeps no writer waiting. */
static void a_reader_needs_no_room(void **state)
{
    (void)state;
    char disk[128], path[160], ballast[160];
    int n_copies = 0;
    static char block[1024];
    int64_t rows[N_COUNTED];
    snprintf(disk, sizeof disk, "%.90s/disk", dir);
    snprintf(path, sizeof path, "%s/full.db", disk);
    snprintf(ballast, sizeof ballast, "%s/ballast", disk);
    assert_int_equal(mkdir(disk, 0777), 0);
    if (!mount_disk(disk, 1024, false)) {
        rmdir(disk);
        skip();
    }
    fill(path, 0, 3);
    for (int kib = 0; kib <= 40; kib += 4) {
        FILE *const file = fopen(ballast, "wb");
        assert_non_null(file);
        setvbuf(file, NULL, _IONBF, 0);
        while (fwrite(block, 1, sizeof block, file) == sizeof block)
            continue;
        const long n = ftell(file);
        fclose(file);
        assert_int_equal(truncate(ballast, (n >> 10 << 10) - kib * 1024), 0);
        s2_db *other = s2_opened(path, S2_DB_READ); /* as a screen reads its list beside its record */
        count_rows(path, rows);
        assert_nobody_locks(path);
        n_copies += s2_db_is_copy(other);
        s2_db_close(&other);
        assert_int_equal(rows[0], 3);
    }
    assert_true(n_copies > 0 && n_copies < 11);
    umount(disk);
    rmdir(disk);
}

static bool is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

/* A database by a link, even one that led nowhere, is the file at its end, which has one lock for all of its names. */
static void a_link_names_the_file_at_its_end(void **state)
{
    (void)state;
    char folder[112], link[128], twice[128], lock[160], copy[128];
    int64_t rows[N_COUNTED];
    s2_db_recovered found;
    snprintf(folder, sizeof folder, "%.90s/links", dir);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(twice, sizeof twice, "%s/twice", folder);
    snprintf(copy, sizeof copy, "%s/copy", folder);
    snprintf(lock, sizeof lock, "%s-lock", link);
    s2_gen_forget(main_path);
    s2_gen_forget(beside_path);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(symlink("../main.db", link) | symlink("link", twice) | symlink(beside_path, copy), 0);
    s2_db *db = s2_opened(twice, S2_DB_WRITE);
    OK(s2_gen_put_all(db, 0));
    OK(s2_db_backup(db, copy, true, NULL));
    s2_db_close(&db);
    count_rows(main_path, rows);
    assert_int_equal(rows[0], 1);
    for (int again = 0; again < 2; again++) {
        assert_true(is_link(twice) && is_link(link) && is_link(copy) && access(lock, F_OK) != 0);
        count_rows(beside_path, rows);
        assert_int_equal(rows[0], 1);
        OK(s2_db_recover(link, copy, true, &found, NULL));
    }
    assert_int_equal(unlink(link) | symlink("twice", link), 0);
    assert_int_equal(s2_db_open(link, S2_DB_WRITE, &db, NULL), S2_EDB);
    assert_int_equal(unlink(link) | unlink(twice) | unlink(copy) | rmdir(folder), 0);
}

/* What SQLite does not take for the name of a file is refused, and no file of that name appears. */
static void a_name_that_is_no_path_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", ":memory:", "file:x.db", "file::memory:?cache=shared"};
    s2_db_recovered found;
    fill(main_path, 0, 1);
    for (size_t name = 0; name < sizeof names / sizeof *names; name++) {
        s2_db *db;
        for (s2_db_mode mode = 0; mode <= S2_DB_UNTRUSTED; mode++)
            assert_int_equal(s2_db_open(names[name], mode, &db, NULL), S2_EINVAL);
        db = s2_opened(main_path, S2_DB_READ);
        assert_int_equal(s2_db_backup(db, names[name], true, NULL), S2_EINVAL);
        s2_db_close(&db);
        assert_int_equal(s2_db_recover(main_path, names[name], true, &found, NULL), S2_EINVAL);
        assert_int_not_equal(access(names[name], F_OK), 0);
    }
}

/* What is no regular file, a device say, is never replaced by a database, not even with --force. */
static void only_a_regular_file_is_replaced(void **state)
{
    (void)state;
    s2_db_recovered found;
    struct stat about;
    fill(main_path, 0, 1);
    s2_gen_forget(beside_path);
    for (int folder = 0; folder < 2; folder++) {
        assert_int_equal(folder ? mkdir(beside_path, 0777) : mkfifo(beside_path, 0666), 0);
        s2_db *db = s2_opened(main_path, S2_DB_READ);
        for (int overwrite = 0; overwrite < 2; overwrite++) {
            assert_int_equal(s2_db_backup(db, beside_path, overwrite != 0, NULL), S2_EIO);
            assert_int_equal(s2_db_recover(main_path, beside_path, overwrite != 0, &found, NULL), S2_EIO);
        }
        s2_db_close(&db);
        assert_int_equal(lstat(beside_path, &about), 0);
        assert_true(folder ? S_ISDIR(about.st_mode) : S_ISFIFO(about.st_mode));
        assert_int_equal(remove(beside_path), 0);
        assert_no_litter(dir, "a copy in place of what is no file");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(a_set_that_is_interrupted_is_old_new_or_refused),
        cmocka_unit_test(of_sets_that_belong_together_none_stays_old_unseen),
        cmocka_unit_test(sets_that_are_written_at_once_do_not_mix),
        cmocka_unit_test(a_disk_of_any_size_may_be_full),
        cmocka_unit_test(a_reader_needs_no_room),
        cmocka_unit_test(a_link_names_the_file_at_its_end),
        cmocka_unit_test(a_name_that_is_no_path_is_refused),
        cmocka_unit_test(only_a_regular_file_is_replaced),
    };
    const char *const tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.60s/s2-disk.XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL)
        return 1;
    snprintf(main_path, sizeof main_path, "%.90s/main.db", dir);
    snprintf(beside_path, sizeof beside_path, "%.90s/beside.db", dir);
    snprintf(older_path, sizeof older_path, "%.90s/older", dir);
    const int n_failed = cmocka_run_group_tests_name("disk", tests, NULL, NULL);
    fault.on = false;
    char line[128];
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    return system(line) == 0 ? n_failed : 1;
}
