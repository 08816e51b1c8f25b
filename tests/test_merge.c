/*
 * Databases drawn at random, and every way in which one becomes another: shards that are merged show what one
 * database would, and a backup, a dump that is loaded and a recovered file hold every row.
 */
#include "tests/gen_db.h"
#include "tests/s2test.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "db/sql.h"
#include "explorer/result.h"
#include "tests/s2db.h"
#include "tests/s2dir.h"

#define OK(expr) assert_int_equal((expr), S2_OK)

enum { DESIGNS = 12, SHARDS = 3, MOST = 4000 };

/* ---- things that happen to a database */

static int64_t below(s2_rng *rng, uint64_t n)
{
    return (int64_t)s2_rng_below(rng, n);
}

static s2_status put_check(s2_db *db, int64_t run_id, int64_t id, s2_rng *rng)
{
    static const char *const properties[] = {"rows", "union", "kv", "group", "shards", "ranks:2"};
    s2_db_check check = s2_gen_check(properties[below(rng, 6)], (s2_db_verdict)below(rng, 3),
                                     below(rng, 3) == 0 ? S2_DB_NONE : 1024 << below(rng, 4));
    if (check.verdict == S2_DB_VIOLATED) {
        check.complete_to_tok = 1088;
        check.layer = below(rng, 4);
        check.query_tok = 1088;
        check.key_tok = 64;
        check.failing_layers = "0-31";
    }
    check.detail = check.verdict == S2_DB_UNKNOWN ? "top-k 'pages'; \xe2\x80\xae" : NULL;
    return s2_db_put_check(db, run_id, id, &check, NULL);
}

static s2_status put_sim(s2_db *db, int64_t run_id, int64_t id, s2_rng *rng)
{
    s2_db_sim sim = s2_gen_sim;
    sim.phase = below(rng, 2) == 0 ? "prefill" : "decode";
    sim.len_tok = 8192 << below(rng, 3);
    sim.batch = 1 + below(rng, 2);
    sim.gpu = below(rng, 3) == 0 ? "b200" : "h200";
    sim.tp = 1 + below(rng, 2);
    sim.kv_dtype = below(rng, 3) == 0 ? NULL : "bf16";
    sim.kernel = below(rng, 4) == 0 ? "fa3" : S2_DB_OURS;
    /* equal prices come in the order of the rows, which merging changes */
    sim.priced = (s2_db_figure)below(rng, 4);
    sim.time_us = below(rng, 4) == 0 ? (double)NAN : (double)below(rng, 1 << 30) / 3.0;
    sim.bound_us = (double)below(rng, 1 << 30) / 5.0;
    sim.kv_head_pages_bytes = (double)below(rng, 1 << 30);
    return s2_db_put_sim(db, run_id, id, &sim, NULL);
}

static s2_status put_validation(s2_db *db, int64_t run_id, int64_t id, s2_rng *rng)
{
    static const char *const outcomes[] = {"ok", "ok", "wrong_pairs", "timeout"};
    const float samples_ms[] = {0.1F, (float)below(rng, 100)};
    s2_db_validation v = s2_gen_validation(outcomes[below(rng, 4)], samples_ms, 2);
    v.reason = v.outcome[0] == 'o' ? NULL : "query 70 read key 3";
    v.device_uuid = below(rng, 2) == 0 ? "GPU-1" : "GPU-2";
    v.len_tok = 8192 << below(rng, 3);
    v.median_ms = (double)below(rng, 1000) / 7.0;
    v.layers_alike = 1;
    v.gpu = below(rng, 3) == 0 ? NULL : "h200";
    v.kernels = below(rng, 3) == 0 ? "mine" : S2_DB_OURS;
    return s2_db_put_validation(db, run_id, id, &v, NULL);
}

static s2_status put_result(s2_db *db, int64_t run_id, int64_t id, s2_rng *rng)
{
    static const s2_db_export row = {"hf", "out/config.json",
                                     "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};
    const int64_t kind = below(rng, 8);
    const s2_db_reach reach = {8192 << below(rng, 3), below(rng, 9), below(rng, 3) == 0 ? (double)NAN : 0.5};
    if (kind == 7)
        return s2_db_put_reach(db, run_id, id, &reach, NULL);
    if (kind < 3)
        return put_check(db, run_id, id, rng);
    if (kind < 5)
        return put_sim(db, run_id, id, rng);
    return kind < 6 ? put_validation(db, run_id, id, rng) : s2_db_put_export(db, run_id, id, &row, NULL);
}

/* A run that knows a few designs and finds some results on each; some runs never ended. */
static void record_run(s2_db *db, int at, s2_rng rng)
{
    char argv[64];
    int64_t run_id, id;
    s2_db_run run = s2_gen_run;
    snprintf(argv, sizeof argv, "[\"s2\",\"check\",\"%d\"]", at);
    run.argv_json = argv;
    run.started_us = 1000 + (at * 7919) % 1000;
    run.cwd = "/home";
    run.seed = below(&rng, 2) == 0 ? S2_DB_NONE : at;
    OK(s2_db_begin(db, NULL));
    OK(s2_db_put_run(db, &run, &run_id, NULL));
    for (int64_t n_designs = below(&rng, 3); n_designs >= 0; n_designs--) {
        OK(s2_gen_put_design(db, run_id, below(&rng, DESIGNS), &id, NULL));
        for (int64_t n = below(&rng, 4); n > 0; n--)
            OK(put_result(db, run_id, id, &rng));
    }
    if (below(&rng, 4) != 0)
        OK(s2_db_end_run(db, run_id, (int32_t)below(&rng, 3), 42, NULL));
    OK(s2_db_end(db, S2_OK, NULL));
}

/* The row of a design in a file; 0: it is not there. */
static int64_t find(s2_db *db, int64_t n)
{
    s2_arena arena = {0};
    s2_db_row row = {0};
    int32_t n_rows;
    char name[32];
    snprintf(name, sizeof name, "design-%03d", (int)n);
    OK(s2_db_find(db, &arena, name, 1, &row, &n_rows, NULL));
    s2_arena_release(&arena);
    return n_rows > 0 ? row.id : 0;
}

/* Views differ by name, so that shards cannot disagree. */
static void add_something(s2_db *db, int at, s2_rng rng)
{
    static const char *const tags[] = {"keep", "rejected", "\xe6\xbc\xa2"};
    const int64_t kind = below(&rng, 4), id = find(db, below(&rng, DESIGNS));
    char text[64];
    snprintf(text, sizeof text, "note %d\nwith 'quotes' and \033[2J", at);
    const s2_db_view view = {text, "us<900 !tag:rejected", "us", below(&rng, 2) == 0};
    if (kind == 3)
        OK(s2_db_view_put(db, &view, NULL));
    if (id == 0 || kind == 3)
        return;
    if (kind == 0)
        OK(s2_db_tag(db, id, tags[below(&rng, 3)], true, NULL));
    if (kind == 1)
        OK(s2_db_note(db, id, text, NULL));
    if (kind == 2)
        OK(s2_db_star(db, id, true, NULL));
}

static void take_something(s2_db *db, s2_rng rng)
{
    s2_db_undone undone;
    const int64_t kind = below(&rng, 4), id = find(db, below(&rng, DESIGNS));
    if (kind == 0)
        OK(s2_db_undo(db, &undone, NULL));
    if (kind == 1 && id != 0)
        OK(s2_db_tag(db, id, "keep", false, NULL));
    if (kind == 2 && id != 0)
        OK(s2_db_star(db, id, false, NULL));
    if (kind == 3 && id != 0)
        OK(s2_db_remove(db, id, NULL));
}

/* ---- what a user sees of it */

static void add_number(s2_buf *out, double value)
{
    if (value == value)
        s2_buf_printf(out, "|%.9g", value);
    else
        s2_buf_puts(out, "|-");
}

static void add_row(s2_buf *out, const s2_db_row *r)
{
    s2_buf_printf(out, "%s|%s|%s|%lld,%lld,%lld,%lld,%lld|%s|%lld|%s|%lld|%s|%d|%s", r->hash, r->name,
                  r->family, (long long)r->rows, (long long)r->unions, (long long)r->kv, (long long)r->group,
                  (long long)r->shards, r->phase, (long long)r->len_tok, r->gpu, (long long)r->batch,
                  r->outcome, (int)r->starred, r->tags);
    s2_buf_printf(out, "|%s,%s,%s,%lld,%s,%s", r->dtype, r->kv_dtype, r->weights, (long long)r->tp, r->kernel,
                  r->settings);
    add_number(out, r->density);
    add_number(out, r->sim_us);
    add_number(out, r->kv_bytes);
    add_number(out, r->gpu_us);
    s2_buf_puts(out, "\n");
}

/* s2 show: the latest of each kind first. Notes carry the moment they were written, which differs. */
static void add_results(s2_db *db, s2_arena *arena, int64_t id, s2_buf *out)
{
    static s2_db_result results[MOST];
    int32_t n;
    OK(s2_db_results(db, arena, false, id, MOST, results, &n, NULL));
    for (int32_t nth = 0; nth < n; nth++) {
        s2_buf_printf(out, "  %d %s|", (int)results[nth].kind, s2_result_word(&results[nth]));
        s2_result_print(&results[nth], out);
        s2_buf_printf(out, "|%lld|%lld\n", (long long)results[nth].verdict,
                      (long long)(results[nth].kind == S2_DB_KIND_NOTE ? 0 : results[nth].at_us));
    }
}

static void add_list(s2_db *db, const char *phase, int64_t len_tok, const char *sort, bool whole, s2_buf *out)
{
    s2_arena arena = {0};
    const s2_db_row *rows;
    int32_t n;
    /* those without a price come last, in the order of their rows */
    const char *const filter = strcmp(sort, "us") == 0       ? "us>=0"
                               : strcmp(sort, "kv_mib") == 0 ? "kv_mib>=0"
                                                             : "";
    const s2_db_query query = {
        .filter = filter, .sort = sort, .limit = MOST, .phase = phase, .len_tok = len_tok};
    OK(s2_db_list(db, &arena, &query, &rows, &n, NULL));
    s2_buf_printf(out, "%s at %lld by %s\n", phase != NULL ? phase : "all", (long long)len_tok, sort);
    for (int32_t at = 0; at < n; at++) {
        add_row(out, &rows[at]);
        if (whole)
            add_results(db, &arena, rows[at].id, out);
    }
    s2_arena_release(&arena);
}

static void add_runs(s2_db *db, s2_arena *arena, s2_buf *out)
{
    static s2_db_run_row runs[MOST];
    int32_t n;
    OK(s2_db_runs(db, arena, 0, MOST, runs, &n, NULL));
    for (int32_t at = 0; at < n; at++)
        s2_buf_printf(out, "run %s|%s|%s|%lld|%lld|%lld|%lld|%lld\n", runs[at].argv_json, runs[at].cwd,
                      runs[at].host, (long long)runs[at].seed, (long long)runs[at].started_us,
                      (long long)runs[at].wall_us, (long long)runs[at].exit_code,
                      (long long)runs[at].n_results);
}

static void add_views(s2_db *db, s2_arena *arena, s2_buf *out)
{
    static s2_db_view views[MOST];
    int32_t n;
    OK(s2_db_views(db, arena, MOST, views, &n, NULL));
    for (int32_t at = 0; at < n; at++)
        s2_buf_printf(out, "view %s|%s|%s|%d\n", views[at].name, views[at].filter, views[at].sort,
                      (int)views[at].descending);
}

static void assert_sound(s2_db *db)
{
    s2_buf findings = {0};
    OK(s2_db_verify(db, &findings, NULL));
    if (findings.len > 0)
        fail_msg("%.*s", (int)findings.len, findings.data);
    s2_buf_release(&findings);
}

/* ls and pareto in several orders, show of each design, runs, views. */
static char *seen_of(s2_db *db)
{
    s2_buf out = {0};
    s2_arena arena = {0};
    add_list(db, NULL, 0, "name", true, &out);
    add_list(db, NULL, 0, "created", false, &out);
    add_list(db, NULL, 0, "us", false, &out);
    for (int64_t len_tok = 8192; len_tok <= 32768; len_tok *= 2) {
        add_list(db, "prefill", len_tok, "us", false, &out);
        add_list(db, "decode", len_tok, "kv_mib", false, &out);
    }
    add_runs(db, &arena, &out);
    add_views(db, &arena, &out);
    s2_arena_release(&arena);
    s2_buf_add(&out, "", 1);
    OK(out.status);
    return out.data;
}

/* Ends the test with the first line in which they differ. */
static void assert_same_text(const char *left, const char *right, uint64_t seed, const char *what)
{
    size_t line = 0, at = 0;
    for (; left[at] == right[at]; at++) {
        if (left[at] == '\0')
            return;
        if (left[at] == '\n')
            line = at + 1;
    }
    fail_msg("S2_SEED=%llu: %s: '%.*s' is '%.*s'", (unsigned long long)seed, what,
             (int)strcspn(left + line, "\n"), left + line, (int)strcspn(right + line, "\n"), right + line);
}

/* ---- merging */

static void merge(s2_db *db, const char *path, s2_db_merged *merged)
{
    s2_diag diag = {0};
    s2_db *other = s2_opened(path, S2_DB_UNTRUSTED);
    if (s2_db_merge(db, other, merged, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    s2_db_close(&other);
}

static const char *shard_path(int shard)
{
    char name[32];
    snprintf(name, sizeof name, "shard-%d.db", shard);
    return s2_dir_path(name);
}

/* The same happens to one database and to one of several, drawn. */
static void split(s2_db *one, int n_steps, s2_rng *rng)
{
    s2_db *shards[SHARDS];
    for (int at = 0; at < SHARDS; at++)
        shards[at] = s2_opened_new(shard_path(at));
    for (int at = 0; at < n_steps; at++) {
        const s2_rng step = {s2_rng_next(rng)};
        s2_db *const shard = shards[below(rng, SHARDS)];
        const bool person = at > n_steps / 2 && below(rng, 3) == 0;
        if (person && find(shard, 0) + find(shard, 1) + find(shard, 2) == 0)
            continue;
        if (!person) {
            record_run(one, at, step);
            record_run(shard, at, step);
            continue;
        }
        s2_rng peek = step;
        const int64_t kind = below(&peek, 4);
        if (kind != 3 && find(shard, below(&peek, DESIGNS)) == 0)
            continue; /* nobody tags there what is not there */
        add_something(one, at, step);
        add_something(shard, at, step);
    }
    for (int at = 0; at < SHARDS; at++)
        s2_db_close(&shards[at]);
}

static void shards_merged_show_what_one_database_would(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(31);
    const int64_t n = s2_test_cases(300) / 30 + 1;
    for (int64_t at = 0; at < n; at++) {
        s2_rng rng = {seed + (uint64_t)at};
        s2_db_merged merged;
        s2_db *one = s2_opened_new(s2_dir_path("one.db")), *all = s2_opened_new(s2_dir_path("all.db"));
        split(one, 10 + (int)below(&rng, 30), &rng);
        const int first = (int)below(&rng, SHARDS);
        for (int turn = 0; turn < SHARDS + 1; turn++) /* one of them twice */
            merge(all, shard_path((first + turn) % SHARDS), &merged);
        assert_int_equal(merged.n_runs + merged.n_designs + merged.n_results + merged.n_people, 0);
        assert_int_equal(merged.n_views_kept, 0);
        char *const left = seen_of(all), *const right = seen_of(one);
        assert_same_text(left, right, seed + (uint64_t)at, "the shards together");
        assert_sound(all);
        s2_free(left);
        s2_free(right);
        s2_db_close(&all);
        s2_db_close(&one);
    }
}

static void what_is_here_stays_when_theirs_differs(void **state)
{
    (void)state;
    const s2_db_view ours = {"fast", "us<900", "us", false}, same = {"same", "", "name", true},
                     theirs = {"fast", "us<1", "us", false}, fresh = {"theirs", "kv=holds", "name", false};
    s2_db *a = s2_opened_new(s2_dir_path("a.db")), *b = s2_opened_new(s2_dir_path("b.db"));
    OK(s2_gen_put_all(a, 1));
    OK(s2_gen_put_all(a, 2));
    OK(s2_gen_put_all(b, 2));
    OK(s2_gen_put_all(b, 1));
    OK(s2_db_view_put(a, &ours, NULL));
    OK(s2_db_view_put(a, &same, NULL));
    OK(s2_db_view_put(b, &same, NULL));
    OK(s2_db_view_put(b, &theirs, NULL));
    OK(s2_db_view_put(b, &fresh, NULL));
    OK(s2_db_remove(a, find(a, 1), NULL));
    OK(s2_db_star(b, find(b, 2), true, NULL));
    s2_db_close(&b);
    for (int round = 0; round < 2; round++) {
        s2_arena arena = {0};
        s2_db_merged merged;
        s2_db_view views[8];
        s2_db_row row;
        int32_t n;
        merge(a, s2_dir_path("b.db"), &merged);
        assert_int_equal(merged.n_people, round == 0 ? 2 : 0); /* a star, a view */
        assert_int_equal(merged.n_views_kept, 1);
        OK(s2_db_views(a, &arena, 8, views, &n, NULL));
        assert_int_equal(n, 3);
        assert_string_equal(views[0].filter, "us<900");
        assert_string_equal(views[2].filter, "kv=holds");
        OK(s2_db_find(a, &arena, "design-002", 1, &row, &n, NULL));
        assert_true(row.starred);
        assert_int_equal(find(a, 1), 0); /* it stays in the trash */
        s2_arena_release(&arena);
    }
    s2_db_close(&a);
}

static void set_created(const char *path, const char *to)
{
    sqlite3 *raw;
    char sql[96];
    snprintf(sql, sizeof sql, "UPDATE design SET %s", to);
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_exec(raw, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(raw);
}

static double read_density(const char *path)
{
    sqlite3 *raw;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(raw, "SELECT density FROM design", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const double density = sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(raw);
    return density;
}

/* Who had a design first is told by both files, also where only the density of the later one is taken. */
static void a_design_stays_as_old_as_the_older_of_two(void **state)
{
    (void)state;
    for (int here_first = 0; here_first < 2; here_first++) {
        const char *const ours = s2_dir_path("a.db"), *const theirs = s2_dir_path("b.db");
        s2_db *a = s2_opened_new(ours), *b = s2_opened_new(theirs);
        OK(s2_gen_put_all(a, 1));
        OK(s2_gen_put_all(b, 1));
        s2_db_close(&a);
        s2_db_close(&b);
        set_created(ours, here_first ? "created_us=1000,density=NULL,density_tok=NULL"
                                     : "created_us=2000,density=NULL,density_tok=NULL");
        set_created(theirs, here_first ? "created_us=2000" : "created_us=1000");
        s2_arena arena = {0};
        s2_db_merged merged;
        s2_db_row row;
        int32_t n;
        a = s2_opened(ours, S2_DB_WRITE);
        merge(a, theirs, &merged);
        OK(s2_db_find(a, &arena, "design-001", 1, &row, &n, NULL));
        assert_int_equal(row.created_us, 1000);
        s2_arena_release(&arena);
        s2_db_close(&a);
        s2_assert_close(read_density(ours), 0.01, 0);
    }
}

/* ---- copies */

static void load(const char *path, s2_db *from)
{
    s2_buf sql = {0};
    sqlite3 *raw;
    char *message = NULL;
    OK(s2_db_dump(from, s2_keep_line, &sql, NULL));
    s2_buf_add(&sql, "", 1);
    OK(sql.status);
    s2_gen_forget(path);
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    if (sqlite3_exec(raw, sql.data, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(raw);
    s2_buf_release(&sql);
}

static void assert_same(const char *left, const char *right, uint64_t seed, const char *what)
{
    char *const a = s2_gen_rows(left), *const b = s2_gen_rows(right);
    assert_true(a != NULL && b != NULL);
    assert_same_text(a, b, seed, what);
    s2_free(a);
    s2_free(b);
    s2_db *db = s2_opened(left, S2_DB_WRITE);
    assert_sound(db);
    s2_db_close(&db);
}

static void exec_raw(const char *path, const char *sql)
{
    sqlite3 *raw;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    if (sqlite3_exec(raw, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    sqlite3_close(raw);
}

static const char *const UNWRITABLE[] = {
    "UPDATE sim SET time_us=9e999",
    "UPDATE sim SET bound_us=-9e999",
    "UPDATE sim SET density=-0.5",
    "UPDATE sim SET len_tok=-8192",
    "UPDATE sim SET batch=0",
    "UPDATE sim SET unread=9e999",
    "UPDATE validation SET median_ms=9e999",
    "UPDATE validation SET len_tok=0",
    "UPDATE validation SET pairs_wrong=-1",
    "UPDATE chk SET scope_tok=-5",
    "UPDATE chk SET query_tok=-1",
    "UPDATE design SET density=9e999",
    "UPDATE design SET created_us=-1",
    "UPDATE run SET started_us=-1",
    "UPDATE run SET exit_code=999",
    "UPDATE design SET n_heads=5000",
    "UPDATE run SET argv_json='[1'",
    "UPDATE sim SET json='{\"a\":x}'",
    "UPDATE validation SET json=''",
};
enum { N_UNWRITABLE = sizeof UNWRITABLE / sizeof *UNWRITABLE };

/* A file whose rows no s2 wrote is refused whole, whoever turned the checks off to write it. */
static void rows_that_could_not_have_been_written_are_refused(void **state)
{
    (void)state;
    const char *const here = s2_dir_path("here.db"), *const theirs = s2_dir_path("theirs.db");
    for (size_t row = 0; row < N_UNWRITABLE; row++) {
        char sql[256];
        s2_diag diag = {0};
        s2_db_merged merged;
        s2_db *other = s2_opened_new(theirs);
        for (int n = 0; n < 6; n++)
            OK(s2_gen_put_all(other, n));
        s2_db_close(&other);
        snprintf(sql, sizeof sql, "PRAGMA ignore_check_constraints=ON; %s", UNWRITABLE[row]);
        exec_raw(theirs, sql);
        s2_db *db = s2_opened_new(here);
        s2_status status = s2_db_open(theirs, S2_DB_UNTRUSTED, &other, &diag);
        if (status == S2_OK) {
            status = s2_db_merge(db, other, &merged, &diag);
            s2_db_close(&other);
        }
        if ((status != S2_EPARSE && status != S2_EDB) || diag.msg[0] == '\0')
            fail_msg("%s: status %d, \"%s\"", UNWRITABLE[row], (int)status, diag.msg);
        int64_t n_runs;
        OK(s2_db_count(db, "run", &n_runs, NULL));
        assert_int_equal(n_runs, 0);
        s2_db_close(&db);
    }
}

/* What an older s2 let in is unknown, or gone, after the migration; the rest stays. */
static void a_migration_forgets_what_no_s2_wrote(void **state)
{
    (void)state;
    const char *const path = s2_dir_path("older.db");
    char pragma[64];
    int64_t n;
    s2_gen_forget(path);
    for (int version = 0; version < 7; version++)
        exec_raw(path, s2_db_migrations[version].sql);
    snprintf(pragma, sizeof pragma, "PRAGMA application_id=%d; PRAGMA user_version=7", S2_DB_APPLICATION_ID);
    exec_raw(path, pragma);
    exec_raw(path,
             "INSERT INTO run(uid,tool_version,commit_id,sqlite_version,command,argv_json,host,started_us)"
             " VALUES(zeroblob(16),'0','c','3','check','[]','h',-1);"
             "INSERT INTO design(hash,name,text,model,family,origin,n_layers,n_heads,n_kv_heads,head_dim,"
             "block_tok,density,created_us,run_id) VALUES("
             "'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855','','','','','',1,1,1,1,1,"
             "9e999,1,1);"
             "INSERT INTO sim(run_id,seq,design_id,gpu,model,phase,dtype,len_tok,batch,time_us,bound_us,"
             "bound_by,json) VALUES(1,1,1,'g','','prefill','fp16',8192,1,9e999,7.0,'x','{}'),"
             "(1,2,1,'g','','prefill','fp16',-8192,1,3.0,2.0,'x','{}')");
    s2_db *db = s2_opened(path, S2_DB_WRITE);
    OK(s2_db_count(db, "sim", &n, NULL));
    assert_int_equal(n, 1);
    OK(s2_sql_int(db, NULL, &n, "SELECT count(*) FROM sim WHERE time_us IS NULL AND bound_us=7.0", ""));
    assert_int_equal(n, 1);
    OK(s2_sql_int(db, NULL, &n, "SELECT count(*) FROM design WHERE density IS NULL", ""));
    assert_int_equal(n, 1);
    s2_db_close(&db);
}

static void every_copy_holds_every_row(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(77);
    const int64_t n = s2_test_cases(300) / 30 + 1;
    for (int64_t at = 0; at < n; at++) {
        s2_rng rng = {seed + (uint64_t)at};
        s2_db_recovered found;
        s2_diag diag = {0};
        const char *const path = s2_dir_path("one.db"), *const copy = s2_dir_path("copy.db");
        s2_db *db = s2_opened_new(path);
        for (int step = 0, n_steps = 10 + (int)below(&rng, 30); step < n_steps; step++) {
            const s2_rng own = {s2_rng_next(&rng)};
            const int64_t kind = below(&rng, 4);
            if (kind < 2)
                record_run(db, step, own);
            else if (kind == 2)
                add_something(db, step, own);
            else
                take_something(db, own);
        }
        s2_gen_forget(copy);
        OK(s2_db_backup(db, copy, false, NULL));
        assert_same(copy, path, seed + (uint64_t)at, "the backup");
        load(copy, db);
        assert_same(copy, path, seed + (uint64_t)at, "the dump, loaded");
        s2_db_close(&db);
        s2_gen_forget(copy);
        if (s2_db_recover(path, copy, false, &found, &diag) != S2_OK)
            fail_msg("%s", diag.msg);
        assert_same(copy, path, seed + (uint64_t)at, "the recovered file");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_merged_show_what_one_database_would),
        cmocka_unit_test(what_is_here_stays_when_theirs_differs),
        cmocka_unit_test(a_design_stays_as_old_as_the_older_of_two),
        cmocka_unit_test(rows_that_could_not_have_been_written_are_refused),
        cmocka_unit_test(a_migration_forgets_what_no_s2_wrote),
        cmocka_unit_test(every_copy_holds_every_row),
    };
    return cmocka_run_group_tests_name("merge", tests, s2_dir_make, s2_dir_remove);
}
