/*
 * What may happen to the database, and to files that are written, from outside: processes killed at any moment, and
 * files of which pages are gone. S2_CASES=N asks for N kills and N damaged files.
 */
#include "tests/gen_db.h"
#include "tests/s2test.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "db/sql.h"
#include "tests/s2db.h"
#include "tests/s2dir.h"
#include "tests/s2set.h"

#define OK(expr) assert_int_equal((expr), S2_OK)

static int64_t count(s2_db *db, const char *table)
{
    int64_t n = -1;
    OK(s2_db_count(db, table, &n, NULL));
    return n;
}

static void fill(const char *path, int n)
{
    s2_gen_forget(path);
    s2_db *db = s2_opened(path, S2_DB_WRITE);
    for (int at = 0; at < n; at++)
        OK(s2_gen_put_all(db, at));
    OK(s2_db_tag(db, 1, "keep", true, NULL));
    OK(s2_db_note(db, 2, "a note", NULL));
    s2_db_close(&db);
}

/* ---- kill -9 */

/*
 * What a killed process was at. What it changes but for WRITES and CREATES is a second database beside the first,
 * or a folder and a file.
 */
typedef enum work {
    WRITES,
    CREATES,
    MIGRATES,
    BACKS_UP,
    RECOVERS,
    MERGES,
    PRUNES,
    CHANGES,
    EXPORTS,
    N_WORKS
} work;
static const char *const work_words[N_WORKS] = {
    "writing", "creating", "migrating", "backing up", "recovering",
    "merging", "pruning",  "changing",  "exporting",
};
static struct {
    char path[128], beside[128], set[128], file[128];
} files;

static s2_db *opened_or_end(const char *path, s2_db_mode mode)
{
    s2_db *db;
    if (s2_db_open(path, mode, &db, NULL) != S2_OK)
        _exit(3);
    return db;
}

static void acknowledge(int ack, int32_t n)
{
    if (write(ack, &n, sizeof n) != sizeof n)
        _exit(5);
}

static void write_numbered(int first, int ack)
{
    s2_db *const db = opened_or_end(files.path, S2_DB_WRITE);
    for (int32_t n = first; s2_gen_put_all(db, n) == S2_OK; n++)
        acknowledge(ack, n);
}

static s2_status backup(void)
{
    s2_db *db;
    S2_TRY(s2_db_open(files.path, S2_DB_READ, &db, NULL));
    const s2_status status = s2_db_backup(db, files.beside, true, NULL);
    s2_db_close(&db);
    return status;
}

static s2_status recover_beside(void)
{
    s2_db_recovered found;
    return s2_db_recover(files.path, files.beside, true, &found, NULL);
}

static s2_status merge(void)
{
    s2_db *db, *other;
    s2_db_merged merged;
    S2_TRY(s2_db_open(files.beside, S2_DB_WRITE, &db, NULL));
    s2_status status = s2_db_open(files.path, S2_DB_UNTRUSTED, &other, NULL);
    if (status == S2_OK) {
        status = s2_db_merge(db, other, &merged, NULL);
        s2_db_close(&other);
    }
    s2_db_close(&db);
    return status;
}

static s2_status open_and_close(void)
{
    s2_db *db;
    S2_TRY(s2_db_open(files.beside, S2_DB_WRITE, &db, NULL));
    s2_db_close(&db);
    return S2_OK;
}

static s2_status remove_design(s2_db *db, int32_t n)
{
    s2_arena arena = {0};
    s2_db_row row;
    int32_t n_rows = 0;
    char name[32];
    snprintf(name, sizeof name, "design-%03d", n);
    s2_status status = s2_db_find(db, &arena, name, 1, &row, &n_rows, NULL);
    if (status == S2_OK)
        status = n_rows == 1 ? s2_db_remove(db, row.id, NULL) : S2_EDB;
    s2_arena_release(&arena);
    return status;
}

/* A few designs are recorded, removed and pruned, again and again; acknowledged is the last that is gone for good. */
static void prune_numbered(int first, int ack)
{
    enum { AT_ONCE = 3 };
    s2_db *const db = opened_or_end(files.beside, S2_DB_WRITE);
    int64_t n_gone = AT_ONCE;
    for (int32_t n = first; n_gone == AT_ONCE; n += AT_ONCE) {
        for (int32_t one = n; one < n + AT_ONCE; one++)
            if (s2_gen_put_all(db, one) != S2_OK || remove_design(db, one) != S2_OK)
                return;
        if (s2_db_collect(db, &n_gone, NULL) != S2_OK)
            return;
        acknowledge(ack, n + AT_ONCE - 1);
    }
}

/* The n-th is a tag, a note, a view, or what takes the tag or note before it back. */
static s2_status change(s2_db *db, int32_t n)
{
    char word[32];
    s2_db_undone undone;
    snprintf(word, sizeof word, "word-%d", n);
    const s2_db_view view = {.name = word, .filter = "star", .sort = "created"};
    switch (n % 5) {
    case 0: return s2_db_tag(db, 1, word, true, NULL);
    case 1:
    case 3: return s2_db_note(db, 2, word, NULL);
    case 2: return s2_db_view_put(db, &view, NULL);
    default: return s2_db_undo(db, &undone, NULL);
    }
}

static void change_numbered(int ack)
{
    s2_db *const db = opened_or_end(files.beside, S2_DB_WRITE);
    for (int32_t n = 0; change(db, n) == S2_OK; n++)
        acknowledge(ack, n);
}

static s2_status write_file_of(char letter)
{
    enum { LETTERS = 200000 };
    s2_output out;
    S2_TRY(s2_output_open(&out, files.file));
    for (int n = 0; n < LETTERS; n++)
        putc(letter, out.file);
    return s2_output_close(&out, true);
}

static void export_again_and_again(void)
{
    for (int n = 0;; n++)
        if (s2_set_write(files.set, n % 2 == 0 ? "new" : "old") != S2_OK ||
            write_file_of(n % 2 == 0 ? 'n' : 'o') != S2_OK)
            return;
}

static void again_and_again(s2_status (*act)(void))
{
    while (act() == S2_OK)
        continue;
}

/* A file as the first schema left it. */
static void make_old(const char *path)
{
    char pragma[96];
    s2_gen_forget(path);
    s2_run_sql(path, s2_db_migrations[0].sql);
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=1;", S2_DB_APPLICATION_ID);
    s2_run_sql(path, pragma);
    s2_run_sql(path,
               "INSERT INTO run(uid,tool_version,commit_id,sqlite_version,command,argv_json,host,started_us)"
               " VALUES(zeroblob(16),'0','c','3','check','[]','h',1)");
}

static void work_until_killed(work kind, int first, int ack)
{
    switch (kind) {
    case WRITES:
    case CREATES: write_numbered(first, ack); break;
    case MIGRATES: _exit(open_and_close() == S2_OK ? 0 : 3);
    case BACKS_UP: again_and_again(backup); break;
    case RECOVERS: again_and_again(recover_beside); break;
    case MERGES: again_and_again(merge); break;
    case PRUNES: prune_numbered(first, ack); break;
    case CHANGES: change_numbered(ack); break;
    default: export_again_and_again();
    }
    _exit(4);
}

/* Another process reads meanwhile, so that the log and its index are in use when the worker dies. */
static pid_t start_reader(const char *path)
{
    const pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader != 0)
        return reader;
    for (;;) {
        s2_db *db;
        int64_t n;
        if (access(path, F_OK) == 0 && s2_db_open(path, S2_DB_READ, &db, NULL) == S2_OK) {
            for (int reads = 0; reads < 20; reads++)
                (void)!s2_db_count(db, "run", &n, NULL);
            s2_db_close(&db);
        }
    }
}

/* The process is killed so long after its n-th acknowledgement, or, with none, after it began. */
static int kill_one(work kind, int first, int n_awaited, long wait_ns, int32_t *acked, int cap)
{
    int ack[2], n = 0;
    assert_int_equal(pipe(ack), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ack[0]);
        work_until_killed(kind, first, ack[1]);
    }
    close(ack[1]);
    while (n < n_awaited && read(ack[0], &acked[n], sizeof acked[n]) == sizeof acked[n])
        n++;
    const struct timespec pause = {0, wait_ns};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    int ended;
    waitpid(child, &ended, 0);
    if (!WIFSIGNALED(ended) && !(kind == MIGRATES && WEXITSTATUS(ended) == 0))
        fail_msg("%s ended by itself: %d", work_words[kind], WEXITSTATUS(ended));
    while (n < cap && read(ack[0], &acked[n], sizeof acked[n]) == sizeof acked[n])
        n++;
    close(ack[0]);
    return n;
}

static bool has_design(s2_db *db, int32_t number)
{
    s2_arena arena = {0};
    s2_db_row row;
    int32_t n_rows;
    char name[32];
    snprintf(name, sizeof name, "design-%03d", number);
    OK(s2_db_find(db, &arena, name, 1, &row, &n_rows, NULL));
    s2_arena_release(&arena);
    return n_rows == 1;
}

static void check_pruned(s2_db *db, const int32_t *acked, int n_acked)
{
    for (int32_t kept = 0; kept < 3; kept++)
        assert_true(has_design(db, kept));
    for (int n = 0; n < n_acked; n++)
        if (has_design(db, acked[n]))
            fail_msg("design %d was removed for good and is there", acked[n]);
    assert_true(count(db, "design") <= 6);
    assert_int_equal(count(db, "chk"), count(db, "design"));
}

/* Rows after the first n changes: two of five are notes of which one is taken back, one is a tag, one a view. */
static bool has_changed(s2_db *db, int n)
{
    static const int notes[5] = {0, 0, 1, 1, 2};
    const int n_notes = n / 5 + notes[n % 5], n_tags = n / 5 + (n % 5 > 0), n_views = n / 5 + (n % 5 > 2);
    return count(db, "tag") == 1 + n_tags && count(db, "note") == 1 + n_notes &&
           count(db, "view") == n_views && count(db, "undo") == count(db, "tag") + count(db, "note");
}

static void check_changed(s2_db *db, int n_acked)
{
    if (!has_changed(db, n_acked) && !has_changed(db, n_acked + 1))
        fail_msg("of %d changes there are %lld tags, %lld notes, %lld views", n_acked,
                 (long long)count(db, "tag"), (long long)count(db, "note"), (long long)count(db, "view"));
}

/* Every reader finds a whole database, without a writer having to come first. */
static void check_beside(work kind, int64_t n_designs, const int32_t *acked, int n_acked)
{
    if (access(files.beside, F_OK) != 0) {
        assert_true(kind == BACKS_UP || kind == RECOVERS);
        return;
    }
    s2_db *db = s2_opened(files.beside, kind == MIGRATES ? S2_DB_WRITE : S2_DB_READ);
    s2_assert_sound(db);
    if (kind == MIGRATES)
        assert_int_equal(count(db, "run"), 1);
    else if (kind == PRUNES)
        check_pruned(db, acked, n_acked);
    else if (kind == CHANGES)
        check_changed(db, n_acked);
    else if (kind != MERGES || count(db, "design") != 0)
        assert_int_equal(count(db, "design"), n_designs);
    s2_db_close(&db);
}

static void check_main(work kind, const int32_t *acked, int n_acked, int64_t *n_designs)
{
    if (kind == CREATES && access(files.path, F_OK) != 0) {
        assert_int_equal(n_acked, 0);
        return;
    }
    s2_db *db = s2_opened(files.path, S2_DB_READ);
    s2_assert_sound(db);
    for (int n = 0; (kind == WRITES || kind == CREATES) && n < n_acked; n++)
        if (!has_design(db, acked[n]))
            fail_msg("design %d was acknowledged and is lost", acked[n]);
    assert_int_equal(count(db, "run"), count(db, "chk")); /* no half transaction */
    assert_int_equal(count(db, "run"), count(db, "sim"));
    *n_designs = count(db, "design");
    s2_db_close(&db);
}

/* The file is one writer's, whole; the set is old, new, refused or not there. */
static void check_files(void)
{
    s2_arena arena = {0};
    char *text;
    size_t n;
    const char *const found = s2_set_read(files.set, &arena);
    if (strcmp(found, "mixed") == 0)
        fail_msg("a killed export left a mixture of two");
    if (access(files.file, F_OK) == 0) {
        OK(s2_bytes_read(&arena, files.file, 1 << 20, &text, &n));
        assert_int_equal(n, 200000);
        assert_int_equal(strspn(text, *text == 'n' ? "n" : "o"), n);
    }
    s2_arena_release(&arena);
}

static void check_no_draft(work kind, const char *folder)
{
    DIR *const opened = opendir(folder);
    assert_non_null(opened);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (strstr(entry->d_name, "tmp") != NULL)
            fail_msg("%s once more leaves %s", work_words[kind], entry->d_name);
    closedir(opened);
}

/* What a killed process left beside goes when the same is done again. */
static void check_again(work kind)
{
    switch (kind) {
    case BACKS_UP: OK(backup()); break;
    case RECOVERS: OK(recover_beside()); break;
    case MERGES: OK(merge()); break;
    case EXPORTS:
        OK(s2_set_write(files.set, "new"));
        OK(write_file_of('n'));
        check_no_draft(kind, files.set);
        break;
    case CREATES: s2_db_close(&(s2_db *){s2_opened(files.path, S2_DB_WRITE)}); break;
    default: break;
    }
    check_no_draft(kind, s2_dir);
}

static void forget_files(void)
{
    char command[500];
    snprintf(command, sizeof command, "rm -rf '%s' '%s' '%s.s2-tmp'", files.set, files.file, files.file);
    assert_int_equal(system(command), 0);
}

static void prepare(work kind, bool anew)
{
    if (kind == CREATES)
        s2_gen_forget(files.path);
    if (kind == EXPORTS && anew)
        forget_files();
    if (kind == EXPORTS)
        return;
    s2_gen_forget(files.beside);
    if (kind == MIGRATES)
        make_old(files.beside);
    if (kind == PRUNES || kind == CHANGES)
        fill(files.beside, 3);
    if (kind == MERGES)
        OK(open_and_close());
}

/* The first number of what is written, and how long until when. */
static int kill_at_random(work kind, int first, s2_rng *rng, int32_t *acked, int cap)
{
    const bool acknowledges = kind == WRITES || kind == CREATES || kind == PRUNES || kind == CHANGES;
    const int n_awaited = acknowledges ? (int)s2_rng_below(rng, 4) : 0;
    const long wait_ns = (long)s2_rng_below(rng, n_awaited > 0 ? 3000000 : 12000000);
    const char *const changed = kind == WRITES || kind == CREATES ? files.path : files.beside;
    const pid_t reader = s2_rng_below(rng, 3) == 0 && kind != EXPORTS ? start_reader(changed) : 0;
    const int n = kill_one(kind, first, n_awaited, wait_ns, acked, cap);
    int64_t n_designs = 0;
    check_main(kind, acked, n, &n_designs);
    if (kind == EXPORTS)
        check_files();
    else if (kind != WRITES && kind != CREATES)
        check_beside(kind, n_designs, acked, n);
    if (reader > 0) {
        kill(reader, SIGKILL);
        waitpid(reader, NULL, 0);
    }
    check_again(kind);
    return n;
}

static void killed_processes_lose_nothing_they_acknowledged(void **state)
{
    (void)state;
    enum { ROUND = 40, CAP = 4000 };
    static int32_t acked[CAP];
    snprintf(files.path, sizeof files.path, "%s/killed.db", s2_dir);
    snprintf(files.beside, sizeof files.beside, "%s/beside.db", s2_dir);
    snprintf(files.set, sizeof files.set, "%s/set", s2_dir);
    snprintf(files.file, sizeof files.file, "%s/file", s2_dir);
    const uint64_t seed = s2_test_seed(11);
    s2_rng rng = {seed};
    const int64_t n_kills = s2_test_cases(100); /* make campaign-kill: thousands */
    int64_t n_acked = 0, n_of[N_WORKS] = {0};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t kills = 0; kills < n_kills; kills++) {
        if (kills % ROUND == 0)
            fill(files.path, 3);
        const work kind = (work)s2_rng_below(&rng, N_WORKS);
        prepare(kind, s2_rng_below(&rng, 2) == 0);
        n_acked += kill_at_random(kind, 10 + (int)(kills % ROUND) * CAP, &rng, acked, CAP);
        n_of[kind]++;
        if (kind == CREATES)
            fill(files.path, 3);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("# s2: %lld kills -9 (seed %llu:", (long long)n_kills, (unsigned long long)seed);
    for (int kind = 0; kind < N_WORKS; kind++)
        printf("%s %lld %s", kind > 0 ? "," : "", (long long)n_of[kind], work_words[kind]);
    printf(") in %.0f s: every database sound, files whole, %lld acknowledged transactions all there\n",
           (double)(end.tv_sec - begin.tv_sec), (long long)n_acked);
    s2_gen_forget(files.path);
    s2_gen_forget(files.beside);
    forget_files();
}

/*
 * A process that is killed between giving a database its name and taking the draft's away leaves one file under two
 * names. Whoever takes the second for a draft that was left writes into the database.
 */
static void a_finished_database_is_no_draft(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const other = s2_dir_path("b.db");
    s2_db_recovered found;
    fill(path, 5);
    for (int forced = 0; forced < 2; forced++)
        for (int recovers = 0; recovers < 2; recovers++) {
            fill(other, 3);
            char *const before = s2_gen_rows(other), draft[160];
            snprintf(draft, sizeof draft, "%s.s2-tmp", other);
            assert_int_equal(link(other, draft), 0);
            s2_db *db = s2_opened(path, S2_DB_READ);
            const s2_status status = recovers == 0 ? s2_db_backup(db, other, forced == 1, NULL)
                                                   : s2_db_recover(path, other, forced == 1, &found, NULL);
            s2_db_close(&db);
            assert_int_equal(status, forced == 1 ? S2_OK : S2_EIO);
            char *const after = s2_gen_rows(other), *const wanted = forced == 1 ? s2_gen_rows(path) : NULL;
            assert_string_equal(after, forced == 1 ? wanted : before);
            assert_int_not_equal(access(draft, F_OK), 0);
            s2_free(before);
            s2_free(after);
            s2_free(wanted);
        }
    s2_gen_forget(path);
    s2_gen_forget(other);
}

/* ---- lost pages */

static uint8_t *read_file(const char *path, size_t *n)
{
    FILE *const file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    uint8_t *const bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    s2_gen_forget(path);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static s2_db_recovered recover(const char *from, const char *to)
{
    s2_db_recovered found = {0};
    s2_diag diag = {0};
    s2_gen_forget(to);
    if (s2_db_recover(from, to, false, &found, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    return found;
}

static void assert_same_rows(const char *a, const char *b)
{
    char *const left = s2_gen_rows(a), *const right = s2_gen_rows(b);
    assert_true(left != NULL && right != NULL);
    if (strcmp(left, right) != 0)
        fail_msg("the rows of %s and %s differ", a, b);
    s2_free(left);
    s2_free(right);
}

static void a_sound_file_is_recovered_row_by_row(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db");
    fill(path, 120);
    const s2_db_recovered found = recover(path, saved);
    assert_int_equal(found.n_runs, 120);
    assert_int_equal(found.n_designs, 120);
    assert_int_equal(found.n_results, 120 + 120 + 24);
    assert_int_equal(found.n_unreadable + found.n_forged + found.n_without_design + found.n_lost_runs, 0);
    assert_same_rows(path, saved);
    s2_diag diag = {0};
    s2_db_recovered again;
    assert_int_equal(s2_db_recover(path, saved, false, &again, &diag), S2_EIO);
    assert_non_null(strstr(diag.msg, "--force"));
    OK(s2_db_recover(path, saved, true, &again, &diag));
}

/* A row with fewer columns than its table ever had is none of it, whatever the table would fill them with. */
static void rows_shorter_than_their_table_ever_was_are_not_taken(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db");
    fill(path, 3);
    s2_run_sql(path, "ALTER TABLE run DROP COLUMN sound; ALTER TABLE run DROP COLUMN build; ALTER TABLE run "
                     "DROP COLUMN machine;"
                     "ALTER TABLE run DROP COLUMN cwd; ALTER TABLE run DROP COLUMN exit_code");
    const s2_db_recovered found = recover(path, saved);
    assert_int_equal(found.n_unreadable, 3);
    assert_int_equal(found.n_lost_runs, 3);
    assert_int_equal(found.n_designs, 3);
}

/* A process that was killed leaves its last transactions in the log alone. */
static void what_is_only_in_the_log_is_recovered_too(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db"),
                      *const copy = s2_dir_path("copy.db");
    fill(path, 3);
    s2_db *db = s2_opened(path, S2_DB_WRITE);
    for (int n = 3; n < 20; n++)
        OK(s2_gen_put_all(db, n));
    size_t n_file, n_log;
    char log[160];
    snprintf(log, sizeof log, "%s-wal", path);
    uint8_t *const file = read_file(path, &n_file), *const wal = read_file(log, &n_log);
    s2_db_close(&db);
    assert_true(n_log > 4096);
    write_file(copy, file, n_file);
    snprintf(log, sizeof log, "%s-wal", copy);
    write_file(log, wal, n_log);
    assert_int_equal(recover(copy, saved).n_designs, 20);
    assert_same_rows(path, saved);
    /* of a log that is cut, the transactions before the cut */
    write_file(log, wal, n_log - 100);
    const s2_db_recovered cut = recover(copy, saved);
    assert_true(cut.n_designs >= 3 && cut.n_designs < 20);
    free(file);
    free(wal);
    s2_gen_forget(copy);
}

static void deleted_rows_do_not_come_back(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db");
    fill(path, 150);
    s2_db *db = s2_opened(path, S2_DB_WRITE);
    int64_t n;
    for (int64_t id = 20; id <= 150; id++)
        OK(s2_db_remove(db, id, NULL));
    OK(s2_db_collect(db, &n, NULL));
    s2_db_close(&db);
    const s2_db_recovered found = recover(path, saved);
    assert_int_equal(found.n_designs, 19);
    assert_same_rows(path, saved);
}

static void without_the_first_page_every_table_is_told_by_its_rows(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db"),
                      *const copy = s2_dir_path("copy.db");
    size_t n;
    fill(path, 120);
    uint8_t *const bytes = read_file(path, &n);
    memset(bytes, 0, 4096);
    write_file(copy, bytes, n);
    s2_db *db = NULL;
    assert_true(s2_db_open(copy, S2_DB_READ, &db, NULL) != S2_OK);
    const s2_db_recovered found = recover(copy, saved);
    assert_int_equal(found.n_runs, 120);
    assert_int_equal(found.n_designs, 120);
    assert_int_equal(found.n_results, 120 + 120 + 24);
    db = s2_opened(saved, S2_DB_READ);
    assert_int_equal(count(db, "tag"), 0); /* their pages look like an index */
    assert_int_equal(count(db, "note"), 1);
    s2_assert_sound(db);
    s2_db_close(&db);
    free(bytes);
}

/* One page lost costs what was on it, and nothing else. */
static void each_lost_page_costs_its_own_rows_only(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db"),
                      *const copy = s2_dir_path("copy.db");
    size_t n;
    fill(path, 120);
    uint8_t *const bytes = read_file(path, &n), page[4096];
    int64_t most_lost = 0, n_lost = 0;
    const int64_t all = 120 + 120 + 120 + 120 + 24;
    const size_t n_pages = n / 4096, asked = (size_t)s2_test_cases((int64_t)n_pages);
    const size_t step = asked < n_pages ? n_pages / asked : 1;
    for (size_t at = 0; at < n / 4096; at += step, n_lost++) {
        memcpy(page, bytes + at * 4096, 4096);
        memset(bytes + at * 4096, 0x5a, 4096);
        write_file(copy, bytes, n);
        memcpy(bytes + at * 4096, page, 4096);
        const s2_db_recovered found = recover(copy, saved);
        const int64_t lost = all - found.n_runs - found.n_designs - found.n_results;
        most_lost = lost > most_lost ? lost : most_lost;
        s2_db *db = s2_opened(saved, S2_DB_UNTRUSTED);
        s2_assert_sound(db);
        s2_db_close(&db);
    }
    printf("# s2: of %zu pages %lld lost in turn, no one cost more than %lld of %lld rows\n", n / 4096,
           (long long)n_lost, (long long)most_lost, (long long)all);
    assert_true(most_lost < all / 2);
    free(bytes);
}

static void damage(s2_rng *rng, uint8_t *bytes, size_t *n)
{
    const uint64_t kind = s2_rng_below(rng, 10);
    if (kind == 0)
        *n = (size_t)s2_rng_below(rng, *n + 1);
    else if (kind < 4)
        for (uint64_t page = s2_rng_below(rng, 4) + 1; page > 0; page--) {
            uint8_t *const at = bytes + 4096 * s2_rng_below(rng, *n / 4096);
            for (int byte = 0; byte < 4096; byte++)
                at[byte] = (uint8_t)s2_rng_below(rng, 256);
        }
    else
        for (uint64_t hits = s2_rng_below(rng, 300) + 1; hits > 0; hits--)
            bytes[s2_rng_below(rng, *n)] = (uint8_t)s2_rng_below(rng, 256);
}

static void any_damage_ends_in_a_sound_file_or_a_reason(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db"),
                      *const copy = s2_dir_path("copy.db");
    const uint64_t seed = s2_test_seed(13);
    s2_rng rng = {seed};
    size_t n_whole;
    int64_t n_saved = 0, n_rows = 0;
    fill(path, 40);
    uint8_t *const whole = read_file(path, &n_whole), *const bytes = malloc(n_whole);
    assert_non_null(bytes);
    const int64_t n_cases = s2_test_cases(75);
    for (int64_t at = 0; at < n_cases; at++) {
        size_t n = n_whole;
        memcpy(bytes, whole, n);
        damage(&rng, bytes, &n);
        write_file(copy, bytes, n);
        s2_db_recovered found;
        s2_diag diag = {0};
        s2_gen_forget(saved);
        const s2_status status = s2_db_recover(copy, saved, false, &found, &diag);
        if (status != S2_OK) {
            assert_true((status == S2_EPARSE || status == S2_EDB) && diag.msg[0] != '\0');
            continue;
        }
        s2_db *db = s2_opened(saved, S2_DB_UNTRUSTED);
        s2_assert_sound(db);
        n_saved++;
        n_rows += found.n_runs + found.n_designs + found.n_results;
        s2_db_close(&db);
    }
    printf("# s2: %lld damaged files (seed %llu): %lld recovered, %.1f %% of all rows\n", (long long)n_cases,
           (unsigned long long)seed, (long long)n_saved,
           100.0 * (double)n_rows / ((40 * 4 + 8) * (double)n_cases));
    free(whole);
    free(bytes);
}

static void others_files_are_not_recovered(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db");
    static const struct {
        const char *sql;
        s2_status status;
        const char *words;
    } rows[] = {
        {"PRAGMA application_id=7; CREATE TABLE t(a); INSERT INTO t VALUES(1)", S2_EPARSE, "another program"},
        {"CREATE TABLE t(a); INSERT INTO t VALUES(1)", S2_EPARSE, "no row of a database of s2"},
    };
    s2_db_recovered found;
    s2_gen_forget(saved);
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        s2_diag diag = {0};
        s2_gen_forget(path);
        s2_run_sql(path, rows[n].sql);
        assert_int_equal(s2_db_recover(path, saved, false, &found, &diag), rows[n].status);
        assert_non_null(strstr(diag.msg, rows[n].words));
    }
    s2_diag diag = {0};
    fill(path, 2);
    s2_run_sql(path, "PRAGMA user_version=99");
    assert_int_equal(s2_db_recover(path, saved, false, &found, &diag), S2_EDB);
    assert_non_null(strstr(diag.msg, "newer s2"));
    write_file(path, (const uint8_t *)"short", 5);
    assert_int_equal(s2_db_recover(path, saved, false, &found, &diag), S2_EPARSE);
    assert_int_equal(s2_db_recover(s2_dir, saved, false, &found, &diag), S2_EPARSE);
    assert_int_equal(s2_db_recover("/nowhere/at/all", saved, false, &found, &diag), S2_EDB);
    assert_int_equal(access(saved, F_OK), -1);
}

static void the_nth_allocation_of_a_recovery_may_fail(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("a.db"), *const saved = s2_dir_path("saved.db");
    fill(path, 2);
    s2_status status = S2_ENOMEM;
    for (int n = 0; status != S2_OK; n++) {
        int64_t left = n;
        s2_db_recovered found;
        s2_gen_forget(saved);
        s2_alloc_set_hook(s2_test_fail_one, &left);
        status = s2_db_recover(path, saved, false, &found, NULL);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        assert_int_equal(access(saved, F_OK), status == S2_OK ? 0 : -1);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_processes_lose_nothing_they_acknowledged),
        cmocka_unit_test(a_finished_database_is_no_draft),
        cmocka_unit_test(a_sound_file_is_recovered_row_by_row),
        cmocka_unit_test(rows_shorter_than_their_table_ever_was_are_not_taken),
        cmocka_unit_test(what_is_only_in_the_log_is_recovered_too),
        cmocka_unit_test(deleted_rows_do_not_come_back),
        cmocka_unit_test(without_the_first_page_every_table_is_told_by_its_rows),
        cmocka_unit_test(each_lost_page_costs_its_own_rows_only),
        cmocka_unit_test(any_damage_ends_in_a_sound_file_or_a_reason),
        cmocka_unit_test(others_files_are_not_recovered),
        cmocka_unit_test(the_nth_allocation_of_a_recovery_may_fail),
    };
    return cmocka_run_group_tests_name("faults", tests, s2_dir_make, s2_dir_remove);
}
