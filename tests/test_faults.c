/*
 * What may happen to the database from outside: processes killed at any moment, and files of which pages
 * are gone. S2_CASES=N asks for N kills and N damaged files.
 */
#include "tests/gen_db.h"
#include "tests/s2test.h"

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
#include "base/rng.h"
#include "db/sql.h"
#include "tests/s2db.h"
#include "tests/s2dir.h"

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

/* What a killed process was at, and what must be true afterwards. */
typedef enum work { WRITES, CREATES, MIGRATES, BACKS_UP, RECOVERS, N_WORKS } work;

static void write_numbered(const char *path, int first, int ack)
{
    s2_db *db;
    if (s2_db_open(path, S2_DB_WRITE, &db, NULL) != S2_OK)
        _exit(3);
    for (int32_t n = first;; n++)
        if (s2_gen_put_all(db, n) != S2_OK || write(ack, &n, sizeof n) != sizeof n)
            _exit(4);
}

static void backup_again_and_again(const char *path, const char *to)
{
    s2_db *db;
    if (s2_db_open(path, S2_DB_READ, &db, NULL) != S2_OK)
        _exit(3);
    while (s2_db_backup(db, to, true, NULL) == S2_OK)
        continue;
    _exit(4);
}

static void recover_again_and_again(const char *path, const char *to)
{
    s2_db_recovered found;
    while (s2_db_recover(path, to, true, &found, NULL) == S2_OK)
        continue;
    _exit(4);
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

static void migrate_once(const char *path)
{
    s2_db *db;
    _exit(s2_db_open(path, S2_DB_WRITE, &db, NULL) == S2_OK ? 0 : 3);
}

static void work_until_killed(work kind, const char *path, const char *beside, int first, int ack)
{
    if (kind == WRITES || kind == CREATES)
        write_numbered(path, first, ack);
    if (kind == MIGRATES)
        migrate_once(beside);
    if (kind == BACKS_UP)
        backup_again_and_again(path, beside);
    recover_again_and_again(path, beside);
}

/* The process is killed so long after its n-th acknowledgement, or, with none, after it began. */
static int kill_one(work kind, const char *path, const char *beside, int first, int n_awaited, long wait_ns,
                    int32_t *acked, int cap)
{
    int ack[2], n = 0;
    assert_int_equal(pipe(ack), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ack[0]);
        work_until_killed(kind, path, beside, first, ack[1]);
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
        fail_msg("work %d ended by itself: %d", (int)kind, WEXITSTATUS(ended));
    while (n < cap && read(ack[0], &acked[n], sizeof acked[n]) == sizeof acked[n])
        n++;
    close(ack[0]);
    return n;
}

static void assert_present(s2_db *db, const int32_t *numbers, int n)
{
    for (int at = 0; at < n; at++) {
        s2_arena arena = {0};
        s2_db_row row;
        int32_t n_rows;
        char name[32];
        snprintf(name, sizeof name, "design-%03d", numbers[at]);
        OK(s2_db_find(db, &arena, name, 1, &row, &n_rows, NULL));
        if (n_rows != 1)
            fail_msg("%s was acknowledged and is lost", name);
        s2_arena_release(&arena);
    }
}

/* Every reader finds a whole database, without a writer having to come first. */
static void check_survivor(work kind, const char *path, const char *beside, const int32_t *acked, int n_acked)
{
    if (kind == CREATES && access(path, F_OK) != 0) {
        assert_int_equal(n_acked, 0);
        return;
    }
    s2_db *db = s2_opened(path, S2_DB_READ);
    s2_assert_sound(db);
    assert_present(db, acked, n_acked);
    assert_int_equal(count(db, "run"), count(db, "chk")); /* no half transaction */
    assert_int_equal(count(db, "run"), count(db, "sim"));
    const int64_t n_designs = count(db, "design");
    s2_db_close(&db);
    if (kind == WRITES || kind == CREATES || access(beside, F_OK) != 0)
        return;
    db = s2_opened(beside, kind == MIGRATES ? S2_DB_WRITE : S2_DB_READ);
    s2_assert_sound(db);
    assert_int_equal(kind == MIGRATES ? count(db, "run") : count(db, "design"),
                     kind == MIGRATES ? 1 : n_designs);
    s2_db_close(&db);
}

static void killed_processes_lose_nothing_they_acknowledged(void **state)
{
    (void)state;
    enum { ROUND = 40, CAP = 4000 };
    static int32_t acked[CAP];
    const char *const path = s2_dir_path("killed.db"), *const beside = s2_dir_path("beside.db");
    const uint64_t seed = s2_test_seed(11);
    s2_rng rng = {seed};
    const int64_t n_kills = s2_test_cases(100); /* make campaign-kill: thousands */
    int64_t n_acked = 0, n_of[N_WORKS] = {0};
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t kills = 0; kills < n_kills; kills++) {
        if (kills % ROUND == 0)
            fill(path, 3);
        const uint64_t draw = s2_rng_below(&rng, 20);
        const work kind = draw < 12 ? WRITES : (work)(1 + draw % 4);
        s2_gen_forget(beside);
        if (kind == CREATES)
            s2_gen_forget(path);
        if (kind == MIGRATES)
            make_old(beside);
        const int first = 10 + (int)(kills % ROUND) * CAP;
        const int n_awaited = kind == WRITES || kind == CREATES ? (int)s2_rng_below(&rng, 4) : 0;
        const long wait_ns = (long)s2_rng_below(&rng, n_awaited > 0 ? 3000000 : 12000000);
        const int n = kill_one(kind, path, beside, first, n_awaited, wait_ns, acked, CAP);
        check_survivor(kind, path, beside, acked, n);
        n_acked += n;
        n_of[kind]++;
        if (kind == CREATES)
            fill(path, 3);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("# s2: %lld kills -9 (seed %llu: %lld while writing, %lld creating, %lld migrating, %lld backing "
           "up, %lld recovering) in %.0f s: every database sound, %lld acknowledged transactions all there\n",
           (long long)n_kills, (unsigned long long)seed, (long long)n_of[WRITES], (long long)n_of[CREATES],
           (long long)n_of[MIGRATES], (long long)n_of[BACKS_UP], (long long)n_of[RECOVERS],
           (double)(end.tv_sec - begin.tv_sec), (long long)n_acked);
    s2_gen_forget(path);
    s2_gen_forget(beside);
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
