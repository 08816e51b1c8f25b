/*
 * The real program in a real pseudo-terminal, read back by a terminal emulator: every view equals its golden
 * in glyphs, colours and attributes on four kinds of terminal and three sizes; work goes on beside the
 * screen; signals, stops, a lost database and random keys leave everything in order; keys are timed.
 *
 * S2_GOLDEN_WRITE=1 rewrites tests/golden/screens/. S2_DESIGNS is the size of the database that is timed
 * (make bench-tui: a million), S2_SOAK the number of random keys (make soak-tui: 100 000).
 */
#include "tests/console.h"
#include "tests/s2test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "db/sql.h"
#include "tests/s2time.h"

static char dir[64];

static const int64_t THEN_US = INT64_C(1767323040) * 1000000; /* 2026-01-02 03:04 UTC */

/* ---- a database that is the same every time */

#define OK(call)                                                                                             \
    do {                                                                                                     \
        s2_diag diag_ = {0};                                                                                 \
        s2_diag *const diag = &diag_;                                                                        \
        if ((call) != S2_OK)                                                                                 \
            fail_msg("%s: %s", #call, diag_.msg);                                                            \
    } while (0)

static const char *path_of(const char *name)
{
    static char path[4][192];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void forget_db(const char *name)
{
    static const char *const suffix[] = {"", "-wal", "-shm", "-lock", "-journal"};
    for (size_t n = 0; n < sizeof suffix / sizeof suffix[0]; n++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix[n]);
        unlink(path);
    }
}

static int64_t put_design(s2_db *db, int64_t run_id, const char *name, const char *text, double density)
{
    char hash[S2_HASH_HEX];
    int64_t id = 0;
    s2_db_sha256(text, strlen(text), hash);
    const s2_db_design design = {.hash = hash,
                                 .name = name,
                                 .text = text,
                                 .model = "",
                                 .family = "local+stride",
                                 .origin = "test",
                                 .n_layers = 32,
                                 .n_heads = 32,
                                 .n_kv_heads = 8,
                                 .head_dim = 128,
                                 .block_tok = 64,
                                 .density = density,
                                 .density_tok = 8192};
    OK(s2_db_put_design(db, run_id, &design, &id, diag));
    return id;
}

static void put_check(s2_db *db, int64_t run_id, int64_t id, const char *property, s2_db_verdict verdict)
{
    const bool bad = verdict == S2_DB_VIOLATED;
    const s2_db_check check = {.property = property,
                               .verdict = verdict,
                               .required = true,
                               .scope_tok = S2_DB_NONE,
                               .complete_to_tok = bad ? 1088 : S2_DB_NONE,
                               .layer = bad ? 0 : S2_DB_NONE,
                               .head = S2_DB_NONE,
                               .query_tok = bad ? 1088 : S2_DB_NONE,
                               .key_tok = bad ? 64 : S2_DB_NONE,
                               .engine = "algebra",
                               .wall_us = S2_DB_NONE};
    OK(s2_db_put_check(db, run_id, id, &check, diag));
}

static void put_sim(s2_db *db, int64_t run_id, int64_t id, double us)
{
    const s2_db_sim sim = {.gpu = "h200",
                           .model = "",
                           .phase = "prefill",
                           .dtype = "bf16",
                           .len_tok = 8192,
                           .batch = 1,
                           .time_us = us,
                           .bound_us = us / 2,
                           .dense_us = us * 4,
                           .bound_by = "mma",
                           .density = 0.25,
                           .hbm_bytes = 1e9,
                           .kv_dense_bytes = 1e9,
                           .kv_shared_pages_bytes = 1e9,
                           .kv_head_pages_bytes = us * 1e5,
                           .kv_ring_stripes_bytes = 1e8,
                           .error_pct = (double)NAN,
                           .json = "{\"schema\":\"s2sim/1\"}",
                           .kv_dtype = "bf16",
                           .weights = "bf16",
                           .tp = 1,
                           .kernel = S2_DB_OURS,
                           .settings = S2_DB_USUAL};
    OK(s2_db_put_sim(db, run_id, id, &sim, diag));
}

static void put_validation(s2_db *db, int64_t run_id, int64_t id, const char *outcome, const char *json)
{
    const s2_db_validation v = {.device = "cpu",
                                .device_uuid = "",
                                .driver = "",
                                .runtime = "",
                                .kernel = "portable",
                                .phase = "forward",
                                .dtype = "bf16",
                                .outcome = outcome,
                                .reason = outcome[0] == 'o' ? NULL
                                                            : "query 70 read key 3, \033[31mwhich it may not",
                                .len_tok = 4096,
                                .batch = 1,
                                .seed = 1,
                                .pairs = 6160384,
                                .pairs_wrong = outcome[0] == 'o' ? 0 : 12,
                                .max_err = 0.0075,
                                .tolerance = 0.024,
                                .needles_found = 20,
                                .needles_expected = 21,
                                .median_ms = 12.5,
                                .min_ms = 12.25,
                                .sm_mhz = (double)NAN,
                                .json = json};
    OK(s2_db_put_validation(db, run_id, id, &v, diag));
}

static int64_t put_run(s2_db *db, const char *command, const char *argv)
{
    int64_t id = 0;
    const s2_db_run run = {.tool_version = "0.1.0",
                           .commit = "abc",
                           .command = command,
                           .argv_json = argv,
                           .host = "host",
                           .cwd = "/",
                           .seed = S2_DB_NONE,
                           .started_us = THEN_US};
    OK(s2_db_put_run(db, &run, &id, diag));
    return id;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *raw;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    sqlite3_busy_timeout(raw, 5000);
    if (sqlite3_exec(raw, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    sqlite3_close(raw);
}

#define PHI3                                                                                                 \
    "name phi-3-small\nlayers 32\nheads 32\nkv-heads 8\nlayers all: local 16 | stride 8 phase "              \
    "head+1\nlayers 1::2: dense\n"
#define HOLED "name rotation-16\nlayers 32\nheads 32\nkv-heads 8\nlayers all: local 16 | stride 16 phase kv\n"

/* Two honest designs with everything stored, and names that would like to be obeyed. */
static void make_fixture(const char *name)
{
    static const char *const hostile[] = {
        "\033[2J\033]0;owned\a", "bidi \xe2\x80\xae name \xe2\x80\xac", "zero\xe2\x80\x8bwidth e\xcc\x81",
        "line\r\nfeed\ttab",     "\xe6\xbc\xa2\xe5\xad\x97 wide",       "\xff\xfe not UTF-8"};
    char longest[S2_DB_LIMIT_NOTE_BYTES > 10240 ? 10241 : 1];
    s2_db *db = NULL;
    forget_db(name);
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    OK(s2_db_open(path_of(name), S2_DB_WRITE, &db, diag));
    OK(s2_db_begin(db, diag));
    const int64_t check = put_run(db, "check", "[\"s2\",\"check\",\"phi3.s2\",\"evil\\u001b[2J.s2\"]");
    const int64_t validate =
        put_run(db, "validate", "[\"s2\",\"validate\",\"phi-3-small\",\"--len\",\"4k\"]");
    for (size_t at = 0; at < sizeof hostile / sizeof hostile[0]; at++) {
        char text[128];
        snprintf(text, sizeof text, "layers 2\nheads 8\nlayers all: local %d | stride 8 phase head\n",
                 (int)at + 1);
        put_design(db, check, hostile[at], text, 0.01 * (double)(at + 1));
    }
    const int64_t holed = put_design(db, check, "rotation-16", HOLED, 0.2789);
    const int64_t phi3 = put_design(db, check, "phi-3-small", PHI3, 0.3293);
    put_check(db, check, phi3, "union", S2_DB_HOLDS);
    put_check(db, check, phi3, "kv", S2_DB_HOLDS);
    put_check(db, check, holed, "union", S2_DB_VIOLATED);
    put_sim(db, check, phi3, 12200.0);
    put_sim(db, check, holed, 5450.0);
    put_validation(db, validate, phi3, "ok",
                   "{\"needles\":{\"grid\":[{\"len\":1024,\"cells\":\"###########\"},{\"len\":4096,\"cells\":"
                   "\"##.##.##### \"}]}}");
    put_validation(db, validate, holed, "wrong_pairs",
                   "{\"needles\":{\"grid\":[{\"len\":4096,\"cells\":\"#.#!?#\\u001b[2J\"}]}}");
    OK(s2_db_end_run(db, validate, 1, 2500000, diag));
    OK(s2_db_end(db, S2_OK, diag));
    OK(s2_db_tag(db, phi3, "baseline", true, diag));
    OK(s2_db_tag(db, holed, "\033[31mred", true, diag));
    OK(s2_db_star(db, phi3, true, diag));
    OK(s2_db_note(db, phi3, "the published one; \033]52;c;AAAA\a and \xe2\x80\xae", diag));
    OK(s2_db_note(db, holed, longest, diag));
    s2_db_close(&db);
    run_sql(path_of(name), "UPDATE note SET at_us=1767323040000000");
}

static int make_dir(void **state)
{
    (void)state;
    const char *const base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%.40s/s2-tui.XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(dir) == NULL)
        return -1;
    make_fixture("s2.db");
    return 0;
}

static int remove_dir(void **state)
{
    char command[320];
    (void)state;
    /* a test that failed has left its tmux and its disk behind */
    umount(path_of("disk"));
    snprintf(command, sizeof command,
             "test ! -S '%s/tmux' || tmux -S '%s/tmux' kill-server 2>/dev/null; rm -rf '%s'", dir, dir, dir);
    return system(command);
}

/* ---- goldens */

/* One walk through all views; '~' is escape. */
static const struct {
    const char *name;
    const char *keys;
} WALK[] = {
    {"designs", ""},
    {"design", "\r"},
    {"record", "r"},
    {"design-holed", "2j\r"},
    {"witness", "n"},
    {"record-holed", "r"},
    {"compare", "2 k c"},
    {"pareto", "5"},
    {"validate", "v"},
    {"bench", "~1"},
    {"palette", ":zoom"},
    {"bench-stride", "~j]"}, /* seen whole before the next change, which is compared with its late facts */
    {"bench-broken", "jl"},
    {"reach", "7"},
    {"formats", "qxmegatron"},
    {"command", "~="},
    {"log", "~3"},
    {"help", "1?"},
    {"runs", "6"},
    {"output", "\r"},
    {"tour", "4"}};
enum { N_WALK = sizeof WALK / sizeof WALK[0] };

static const struct {
    int cols;
    int rows;
} SIZES[] = {{80, 24}, {132, 50}, {40, 12}};
enum { N_SIZES = 3 };

static void golden_path(char *path, size_t cap, const char *name, size_t size, bool ascii)
{
    snprintf(path, cap, "tests/golden/screens/%s-%dx%d%s.txt", name, SIZES[size].cols, SIZES[size].rows,
             ascii ? "-ascii" : "");
}

/* The same walk for `s2 tui --script`: what the terminal must show. */
static void write_script(const char *path, size_t size)
{
    FILE *const out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "size %dx%d\n", SIZES[size].cols, SIZES[size].rows);
    for (int at = 0; at < N_WALK; at++) {
        for (const char *key = WALK[at].keys; *key != '\0'; key++)
            fprintf(out, "%s ",
                    *key == '~'    ? "esc"
                    : *key == '\r' ? "enter"
                    : *key == ' '  ? "space"
                                   : (const char[]){*key, '\0'});
        fprintf(out, "\ndump\n");
    }
    fclose(out);
}

static void compare_dump(FILE *in, const char *path, int rows)
{
    char line[1024], want[1024];
    const bool write = getenv("S2_GOLDEN_WRITE") != NULL;
    FILE *const file = fopen(path, write ? "w" : "r");
    if (file == NULL)
        fail_msg("%s is missing; S2_GOLDEN_WRITE=1 writes it", path);
    for (int row = 0; row < 2 * rows; row++) {
        if (fgets(line, sizeof line, in) == NULL)
            fail_msg("%s: the script ended early", path);
        if (write)
            fputs(line, file);
        else if (fgets(want, sizeof want, file) == NULL || strcmp(line, want) != 0)
            fail_msg("%s, line %d: a script shows\n%snot\n%s", path, row + 1, line, want);
    }
    fclose(file);
}

static void scripts_print_the_golden_screens(void **state)
{
    (void)state;
    for (size_t size = 0; size < N_SIZES; size++)
        for (int ascii = 0; ascii < 2; ascii++) {
            char command[4400], path[160];
            write_script(path_of("walk.txt"), size);
            snprintf(command, sizeof command,
                     "cd '%s' && TZ=UTC '%s' tui --db s2.db --styles --script walk.txt %s", dir,
                     console_program(), ascii ? "--ascii" : "");
            FILE *const in = popen(command, "r");
            assert_non_null(in);
            for (int at = 0; at < N_WALK; at++) {
                golden_path(path, sizeof path, WALK[at].name, size, ascii == 1);
                compare_dump(in, path, SIZES[size].rows);
            }
            assert_int_equal(pclose(in), 0);
        }
}

static void walk_to(console *c, const char *keys)
{
    for (; *keys != '\0'; keys++) {
        const char one[] = {*keys == '~' ? '\033' : *keys, '\0'};
        console_send(c, one);
    }
    console_drain(c, CONSOLE_QUIET_MS);
}

static const struct {
    const char *term;
    const char *locale;
    console_colours colours;
    bool ascii;
} TERMS[] = {{"xterm-256color", "C.UTF-8", CONSOLE_256, false},
             {"xterm", "C.UTF-8", CONSOLE_8, false},
             {"linux", "C", CONSOLE_8, true},
             {"vt100", "C", CONSOLE_MONO, true}};

static void every_terminal_shows_every_golden_screen(void **state)
{
    (void)state;
    for (size_t term = 0; term < sizeof TERMS / sizeof TERMS[0]; term++)
        for (size_t size = 0; size < N_SIZES; size++) {
            console c;
            if (s2_test_sampled() && size != term % N_SIZES)
                continue;
            console_open(&c, &(console_options){TERMS[term].term, TERMS[term].locale, dir, "--db s2.db",
                                                SIZES[size].rows, SIZES[size].cols, false});
            for (int at = 0; at < N_WALK; at++) {
                char path[160], what[200];
                golden_path(path, sizeof path, WALK[at].name, size, TERMS[term].ascii);
                walk_to(&c, WALK[at].keys);
                snprintf(what, sizeof what, "%s on %s", path, TERMS[term].term);
                console_check(&c, path, TERMS[term].colours, what);
            }
            assert_false(c.titled);
            console_send(&c, "Qy");
            assert_int_equal(console_close(&c), 0);
            assert_false(c.alternate);
            assert_false(c.cursor_hidden);
        }
    printf("# s2: %d screens of %d views compared cell by cell, glyphs, colours and attributes\n",
           (int)(sizeof TERMS / sizeof TERMS[0]) * (s2_test_sampled() ? 1 : N_SIZES) * N_WALK, N_WALK);
}

static void tmux(const char *words)
{
    char command[4800];
    snprintf(command, sizeof command, "cd '%s' && tmux -S '%s/tmux' %s", dir, dir, words);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void tmux_shows_the_same(void **state)
{
    (void)state;
    if (system("command -v tmux >/dev/null 2>&1") != 0) {
        print_message("skipped: tmux is not installed\n");
        skip();
    }
    char words[4500];
    snprintf(words, sizeof words,
             "-f /dev/null new-session -d -x %d -y %d \"TERM=screen-256color LC_ALL=C.UTF-8 TZ=UTC '%s' tui "
             "--db s2.db --no-session\" "
             "\\; set -g status off",
             SIZES[0].cols, SIZES[0].rows, console_program());
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("TMUX");
    tmux(words);
    tmux("resize-window -x 80 -y 24");
    for (int at = 0; at < N_WALK; at++) {
        char path[160];
        for (const char *key = WALK[at].keys; *key != '\0'; key++) {
            snprintf(words, sizeof words, "send-keys %s",
                     *key == '~'    ? "Escape"
                     : *key == '\r' ? "Enter"
                     : *key == ' '  ? "Space"
                                    : "");
            if (words[10] == '\0')
                snprintf(words, sizeof words, "send-keys -l -- '%c'", *key);
            tmux(words);
        }
        golden_path(path, sizeof path, WALK[at].name, 0, false);
        snprintf(words, sizeof words, "tmux -S '%s/tmux' capture-pane -p -e -N", dir);
        console_check_pane(words, SIZES[0].rows, SIZES[0].cols, path, path);
    }
    tmux("kill-server");
}

/* ---- staying in order */

static const console_options PLAIN = {"xterm-256color", "C.UTF-8", dir, "--db s2.db", 24, 80, false};

static void open_plain(console *c, const char *args)
{
    console_options options = PLAIN;
    options.args = args;
    console_open(c, &options);
}

static void a_storm_of_sizes_ends_in_the_golden_screen(void **state)
{
    (void)state;
    console c;
    open_plain(&c, "--db s2.db");
    for (int n = 1; n < 60; n++)
        console_resize(&c, 1 + n * 7 % 90, 1 + n * 37 % 300);
    console_resize(&c, 500, 200);
    console_drain(&c, CONSOLE_QUIET_MS);
    console_resize(&c, 24, 80);
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "\f");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_check(&c, "tests/golden/screens/designs-80x24.txt", CONSOLE_256, "after a storm of sizes");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
}

static void signals_give_the_terminal_back(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGABRT};
    for (size_t at = 0; at < sizeof signals / sizeof signals[0]; at++) {
        console c;
        open_plain(&c, "--db s2.db --mouse");
        assert_true(console_full_screen(&c, true));
        assert_int_equal(kill(c.child, signals[at]), 0);
        const int status = console_close(&c);
        if (c.alternate || c.cursor_hidden)
            fail_msg("signal %d leaves the terminal in full-screen mode", signals[at]);
        assert_int_equal(WIFSIGNALED(status), signals[at] == SIGSEGV || signals[at] == SIGABRT);
    }
}

/* It is idle; it derives what takes seconds; nobody takes what it paints. With and without being told. */
static void a_terminal_that_goes_away_ends_the_session(void **state)
{
    (void)state;
    static const char *const doing[] = {"", "1Gkk]]]kkkk[[[[gjjjj]]]]]", "yyyyyyyyyy"};
    sigset_t hang_up, before;
    sigemptyset(&hang_up);
    sigaddset(&hang_up, SIGHUP);
    for (int told = 0; told < 2; told++)
        for (size_t at = 0; at < sizeof doing / sizeof doing[0]; at++) {
            console c;
            sigprocmask(told ? SIG_UNBLOCK : SIG_BLOCK, &hang_up, &before);
            open_plain(&c, "--db s2.db");
            sigprocmask(SIG_SETMASK, &before, NULL);
            console_send(&c, doing[at]);
            for (int n = 0; at == 2 && n < 200 && !console_is_full(&c); n++)
                assert_int_equal(write(c.fd, "yyyyyyyyyyyyyyyyyyyy", 20), 20);
            const int status = console_hang_up(&c);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
}

/* A new size interrupts a write to a terminal that takes nothing more. */
static void a_slow_terminal_and_a_new_size_fail_nothing(void **state)
{
    (void)state;
    console c;
    int bursts = 0;
    open_plain(&c, "--db s2.db");
    for (; bursts < 200 && !console_is_full(&c); bursts++)
        assert_int_equal(write(c.fd, "yyyyyyyyyyyyyyyyyyyy", 20), 20);
    console_resize(&c, 30, 100);
    usleep(100000);
    console_resize(&c, 24, 80);
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "Qy");
    const int status = console_close(&c);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    printf("# s2: a terminal was full after %d keys that nobody read\n", bursts * 20);
}

/* Ctrl-Z, and a stop that no program can prepare for. */
static void a_stop_gives_the_terminal_back_and_going_on_repaints(void **state)
{
    (void)state;
    for (int at = 0; at < 2; at++) {
        static const char scribble[] = "\033[H\033[2Jsomebody else wrote here";
        console c;
        int status = 0;
        open_plain(&c, "--db s2.db");
        if (at == 0)
            console_send(&c, "\032");
        else
            kill(c.child, SIGSTOP);
        assert_int_equal(waitpid(c.child, &status, WUNTRACED), c.child);
        assert_true(WIFSTOPPED(status));
        console_drain(&c, CONSOLE_QUIET_MS);
        assert_true(console_full_screen(&c, at == 1));
        vterm_input_write(c.vt, scribble, sizeof scribble - 1);
        kill(c.child, SIGCONT);
        console_drain(&c, 300);
        assert_true(console_full_screen(&c, true));
        console_check(&c, "tests/golden/screens/designs-80x24.txt", CONSOLE_256, "after going on");
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
    }
}

static void a_terminal_without_a_cursor_is_refused(void **state)
{
    (void)state;
    static const char *const terms[] = {"dumb", "no-such-terminal", ""};
    for (size_t at = 0; at < 3; at++) {
        console c;
        console_open(&c, &(console_options){terms[at], "C", dir, "--no-db", 24, 80, false});
        const int status = console_close(&c);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), S2_EXIT_ENVIRONMENT);
    }
}

static void expect(console *c, const char *text)
{
    if (console_wait(c, text))
        return;
    s2_buf buf = {0};
    console_read(c, &buf);
    fail_msg("'%s' does not appear; it shows\n%s", text, buf.data);
}

static void expect_gone(console *c, const char *text)
{
    const double start = s2_now_ms();
    while (console_shows(c, text) && s2_now_ms() - start < CONSOLE_PATIENCE_MS)
        console_drain(c, 20);
    assert_false(console_shows(c, text));
}

static const char *const FOREIGN[] = {"\033[I",
                                      "\033[O",
                                      "\033[97;5u",
                                      "\033[27;5;113~",
                                      "\033]11;rgb:0000/0000/0000\a",
                                      "\033P1+r436f=31\033\\",
                                      "\033[?62;c",
                                      "\033[12;1R",
                                      "\033[25~",
                                      "\033[200~1D\r2Qy\033[31m\n3\033[201~"};
enum { N_FOREIGN = sizeof FOREIGN / sizeof FOREIGN[0] };

/* Sequences that no view knows are no commands, however a terminal names its keys, and a paste is none. */
static void foreign_sequences_are_read_whole(void **state)
{
    (void)state;
    console c;
    open_plain(&c, "--db s2.db");
    expect(&c, "phi-3-small");
    for (int nth = 0; nth < N_FOREIGN; nth++) {
        console_send(&c, FOREIGN[nth]);
        console_drain(&c, CONSOLE_QUIET_MS);
        if (!console_shows(&c, "s2 designs") || console_shows(&c, "trash"))
            fail_msg("sequence %d was taken for a key", nth);
    }
    expect(&c, "pasted text goes where something is typed");
    /* the ends of the list, as tmux and rxvt name them */
    console_send(&c, "\033[4~\r");
    expect(&c, "phi-3-small");
    console_send(&c, "q\033[1~/\033[200~name~phi\nfamily~local\033[201~");
    expect(&c, "name~phi; family~local_");
    console_send(&c, "\033");
    expect_gone(&c, "family~local_");
    console_send(&c, "Q");
    assert_int_equal(console_close(&c), 0);
    assert_false(c.alternate);
}

static bool same_screens(const console *a, const console *b)
{
    s2_buf left = {0}, right = {0};
    console_read(a, &left);
    console_read(b, &right);
    const bool same = strcmp(left.data, right.data) == 0;
    s2_buf_release(&left);
    s2_buf_release(&right);
    return same;
}

static void fail_different(const console *slow, const console *fast, const char *typed, uint64_t seed)
{
    s2_buf left = {0}, right = {0};
    console_read(slow, &left);
    console_read(fast, &right);
    for (const char *key = typed; *key != '\0'; key++)
        printf((unsigned char)*key > ' ' ? "%c" : "<%02x>", (unsigned char)*key);
    fail_msg("\nseed %llu: typed slowly\n%styped fast\n%s", (unsigned long long)seed, left.data, right.data);
}

/* Whole keys in one write or several, some at once and some a moment later, an escape before whatever follows it. */
static void keys_typed_at_any_speed_show_the_same(void **state)
{
    (void)state;
    static const char *const keys[] = {"j",        "j",
                                       "k",        "G",
                                       "g",        " ",
                                       "S",        "R",
                                       "\r",       "\033",
                                       "\033",     "\033[B",
                                       "\033OA",   "2",
                                       "3",        "6",
                                       "?",        "5",
                                       "c",        "/x\025",
                                       "|",        "\t",
                                       "1\r12",    ":zo",
                                       "\xc3\xa9", "\033[200~a b\033[201~"};
    enum { N = sizeof keys / sizeof keys[0], TYPED = 40 };
    const uint64_t seed = s2_test_seed(21);
    s2_rng rng = {seed};
    s2_buf all = {0}, piece = {0};
    console slow, fast;
    open_plain(&slow, "--no-db");
    open_plain(&fast, "--no-db");
    for (int at = 0; at < TYPED; at++) {
        const char *const key = at < TYPED - 4 ? keys[s2_rng_below(&rng, N)] : at < TYPED - 1 ? "\033" : "2";
        console_send(&slow, key);
        console_drain(&slow, CONSOLE_QUIET_MS);
        s2_buf_puts(&all, key);
        s2_buf_puts(&piece, key);
        if (at + 1 < TYPED && s2_rng_below(&rng, 6) != 0)
            continue;
        s2_buf_add(&piece, "", 1);
        console_send(&fast, piece.data);
        piece.len = 0;
    }
    s2_buf_add(&all, "", 1);
    const double start = s2_now_ms();
    while (!same_screens(&slow, &fast) && s2_now_ms() - start < CONSOLE_LATE_MS) {
        console_drain(&slow, CONSOLE_QUIET_MS);
        console_drain(&fast, CONSOLE_QUIET_MS);
    }
    if (!same_screens(&slow, &fast))
        fail_different(&slow, &fast, all.data, seed);
    console_send(&slow, "Qy");
    console_send(&fast, "Qy");
    assert_int_equal(console_close(&slow), 0);
    assert_int_equal(console_close(&fast), 0);
    s2_buf_release(&all);
    s2_buf_release(&piece);
}

/* vt100 has no other screen to go back to: what was shown stays, and the shell writes its prompt below it. */
static void a_terminal_that_keeps_the_screen_has_an_empty_last_line(void **state)
{
    (void)state;
    console c;
    console_options options = PLAIN;
    options.term = "vt100";
    options.locale = "C";
    console_open(&c, &options);
    expect(&c, "? keys");
    console_send(&c, "\032");
    const double start = s2_now_ms();
    while (console_shows(&c, "? keys") && s2_now_ms() - start < CONSOLE_PATIENCE_MS)
        console_drain(&c, 20);
    assert_false(console_shows(&c, "? keys"));
    assert_true(console_shows(&c, "s2 designs"));
    assert_int_equal(kill(c.child, SIGCONT), 0);
    expect(&c, "? keys");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
}

/* Escape goes back and never leaves; leaving asks where something is lost. */
static void escape_only_goes_back_and_leaving_asks(void **state)
{
    (void)state;
    console c;
    open_plain(&c, "--db s2.db");
    expect(&c, "phi-3-small");
    console_send(&c, "1l");
    expect(&c, "s2 workbench");
    for (int n = 0; n < 3; n++) {
        console_send(&c, "\033");
        console_drain(&c, CONSOLE_QUIET_MS);
    }
    expect(&c, "Q leaves");
    console_send(&c, "Q");
    expect(&c, "the workbench is not saved");
    console_send(&c, "\033");
    expect(&c, "s2 designs");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    assert_false(c.alternate);
}

/* What an export would say is what it says. */
static void the_preview_of_an_export_knows_the_validation(void **state)
{
    (void)state;
    char command[4400], line[1024];
    bool known = false;
    FILE *const script = fopen(path_of("preview.txt"), "w");
    assert_non_null(script);
    fputs("/\ntype name~phi\nenter x\ntype flex\nenter\nwait\ndump\n", script);
    fclose(script);
    snprintf(command, sizeof command, "cd '%s' && '%s' tui --db s2.db --size 160x50 --script preview.txt",
             dir, console_program());
    FILE *const in = popen(command, "r");
    assert_non_null(in);
    while (fgets(line, sizeof line, in) != NULL)
        known = known || strstr(line, "run: validated") != NULL;
    assert_int_equal(pclose(in), 0);
    assert_true(known);
}

/*
 * From an empty screen to a design of one's own that is proved, priced, validated and exported: 24 keys, and no
 * command line. What was stored and written is there afterwards.
 */
static void a_design_is_made_proved_priced_validated_and_exported_in_24_keys(void **state)
{
    (void)state;
    static const char keys[] = "1 down right down down down down down down down enter 1 enter "
                               "s m enter v backspace backspace backspace enter\nwait\n"
                               "x enter enter\nwait\n6\ndump\n";
    char command[4400], screen[1 << 14];
    FILE *const script = fopen(path_of("own.txt"), "w");
    assert_non_null(script);
    fputs(keys, script);
    fclose(script);
    snprintf(command, sizeof command,
             "cd '%s' && mkdir -p own && cd own && '%s' tui --db own.db --size 120x30 --script ../own.txt && "
             "'%s' ls name=m union=holds --db own.db && '%s' ls outcome=ok --db own.db && ls config.json",
             dir, console_program(), console_program(), console_program());
    FILE *const in = popen(command, "r");
    assert_non_null(in);
    const size_t n = fread(screen, 1, sizeof screen - 1, in);
    screen[n] = '\0';
    if (pclose(in) != 0 || strstr(screen, "run: validated") == NULL || strstr(screen, "\nm  ") == NULL ||
        strstr(screen, "\nconfig.json\n") == NULL)
        fail_msg("%s", screen);
}

/* The index of the database's log is mapped. */
static void a_file_that_is_cut_short_ends_the_session_with_a_word(void **state)
{
    (void)state;
    console c;
    make_fixture("cut.db");
    open_plain(&c, "--db cut.db");
    expect(&c, "8 designs");
    assert_int_equal(truncate(path_of("cut.db-shm"), 0), 0);
    console_send(&c, "S");
    const int status = console_close(&c);
    assert_false(c.alternate || c.cursor_hidden);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
    forget_db("cut.db");
}

static void a_lost_or_locked_database_is_said_and_survived(void **state)
{
    (void)state;
    console c;
    make_fixture("lost.db");
    open_plain(&c, "--db lost.db");
    expect(&c, "phi-3-small");
    /* a writer that does not let go for a moment */
    const int lock = open(path_of("lost.db-lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    console_send(&c, "jjkk");
    console_drain(&c, CONSOLE_QUIET_MS);
    assert_true(console_shows(&c, "phi-3-small"));
    console_send(&c, "*");
    expect(&c, "another process is writing");
    close(lock);
    expect(&c, "no longer starred");
    assert_int_equal(rename(path_of("lost.db"), path_of("moved.db")), 0);
    expect(&c, "the database file is gone");
    console_send(&c, "j\r");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "2*");
    expect(&c, "no database yet");
    assert_int_equal(rename(path_of("moved.db"), path_of("lost.db")), 0);
    expect(&c, "the database exists now");
    expect(&c, "8 designs");
    /* damage: the header is overwritten */
    FILE *const file = fopen(path_of("lost.db"), "r+");
    assert_non_null(file);
    fputs("no database at all, no database at all", file);
    fclose(file);
    console_send(&c, "Sjjk\rq6q");
    console_drain(&c, CONSOLE_QUIET_MS);
    unlink(path_of("lost.db"));
    expect(&c, "gone");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("lost.db");
    forget_db("moved.db");
}

static int hold_lock(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s-lock", dir, name);
    const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    return lock;
}

static int64_t count_rows(const char *name, const char *table)
{
    s2_db *db = NULL;
    int64_t n = 0;
    OK(s2_db_open(path_of(name), S2_DB_READ, &db, diag));
    OK(s2_db_count(db, table, &n, diag));
    s2_db_close(&db);
    return n;
}

static void what_is_saved_waits_for_a_writer_and_can_be_given_up(void **state)
{
    (void)state;
    console c;
    make_fixture("busy.db");
    const int64_t n_notes = count_rows("busy.db", "note"), n_designs = count_rows("busy.db", "design");
    const int64_t n_checks = count_rows("busy.db", "chk"), n_sims = count_rows("busy.db", "sim");
    open_plain(&c, "--db busy.db");
    expect(&c, "phi-3-small");
    int lock = hold_lock("busy.db");
    /* the screen goes on meanwhile, and a second change keeps what was typed */
    console_send(&c, "Nfirst remark\r");
    expect(&c, "waiting for it");
    console_send(&c, "1");
    expect(&c, "s2 workbench");
    expect(&c, "a change waits for another process");
    console_send(&c, "stried\r");
    expect(&c, "still waits");
    console_send(&c, "C");
    expect(&c, "cancelled");
    close(lock);
    console_send(&c, "s\r");
    expect(&c, "saved with its verdicts");
    assert_int_equal(count_rows("busy.db", "design"), n_designs + 1);
    /* what the screen showed of it is stored with it */
    assert_int_equal(count_rows("busy.db", "chk"), n_checks + 3);
    assert_int_equal(count_rows("busy.db", "sim"), n_sims + 1);
    console_send(&c, "2");
    expect(&c, "tried");
    console_send(&c, "g");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "N");
    expect(&c, "first remark_");
    lock = hold_lock("busy.db");
    console_send(&c, "\r");
    expect(&c, "waiting for it");
    close(lock);
    expect(&c, "note added");
    assert_int_equal(count_rows("busy.db", "note"), n_notes + 1);
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("busy.db");
}

/* A format that cannot hold the design writes nothing, and nobody is told that it is done. */
static void an_export_that_is_refused_is_said_to_write_nothing(void **state)
{
    (void)state;
    console c;
    make_fixture("refused.db");
    open_plain(&c, "--db refused.db");
    expect(&c, "rotation-16");
    console_send(&c, "jxhf\r");
    expect(&c, "export to hf   not possible, esc leaves");
    console_send(&c, "\r");
    expect(&c, "export: nothing was written (exit 1)");
    assert_false(console_shows(&c, "done"));
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("refused.db");
}

static void write_newcomer(const char *name)
{
    s2_db *db = NULL;
    OK(s2_db_open(path_of(name), S2_DB_WRITE, &db, diag));
    OK(s2_db_begin(db, diag));
    put_design(db, put_run(db, "check", "[]"), "newcomer", "heads 3\nlayers all: dense\n", 1.0);
    OK(s2_db_end(db, S2_OK, diag));
    s2_db_close(&db);
}

/* So many pages of zeros behind those that hold something, on a disk that stores none of them. */
static void make_large(const char *name)
{
    enum { PAGES = (513 << 20) / 4096 };
    const unsigned char n_pages[] = {PAGES >> 24, PAGES >> 16 & 255, PAGES >> 8 & 255, PAGES & 255};
    FILE *const file = fopen(path_of(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 28, SEEK_SET), 0);
    assert_int_equal(fwrite(n_pages, 1, sizeof n_pages, file), sizeof n_pages);
    fclose(file);
    assert_int_equal(truncate(path_of(name), (off_t)PAGES * 4096), 0);
}

/* A disk of its own, filled to its end after the fixture was written; false where this user may not mount. */
static bool fill_disk(bool large)
{
    static const char zeros[4096];
    if (mkdir(path_of("disk"), 0777) != 0 || mount("tmpfs", path_of("disk"), "tmpfs", 0, "size=4m") != 0)
        return false;
    make_fixture("disk/full.db");
    if (large)
        make_large("disk/full.db");
    FILE *const ballast = fopen(path_of("disk/ballast"), "wb");
    assert_non_null(ballast);
    while (fwrite(zeros, 1, sizeof zeros, ballast) == sizeof zeros)
        continue;
    fclose(ballast);
    return true;
}

/*
 * What reads on a full disk waits for nobody and keeps nobody waiting, not its own session either. A file too large
 * for a copy keeps writers out, which is said instead of waited for, until there is room.
 */
static void a_full_disk_is_said_at_once_and_room_is_used_at_once(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        console c;
        if (!fill_disk(large == 1)) {
            rmdir(path_of("disk"));
            skip();
        }
        open_plain(&c, "--db disk/full.db");
        expect(&c, "phi-3-small");
        console_send(&c, "Nfirst remark\r");
        expect(&c, large ? "nothing was changed: the disk is full" : "No space left on device");
        console_send(&c, "j*");
        expect(&c, large ? "nothing was changed: the disk is full" : "No space left on device");
        assert_int_equal(unlink(path_of("disk/ballast")), 0);
        if (!large) {
            write_newcomer("disk/full.db");
            expect(&c, "newcomer");
        }
        console_send(&c, "N");
        expect(&c, "first remark_");
        console_send(&c, "\r");
        expect(&c, "note added");
        if (large) {
            write_newcomer("disk/full.db");
            expect(&c, "newcomer");
        }
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
        umount(path_of("disk"));
        rmdir(path_of("disk"));
    }
}

/* A writer holds the lock from before the end of a session until after it. */
static void a_session_ends_well_beside_a_writer_that_never_lets_go(void **state)
{
    (void)state;
    for (int at = 0; at < 2; at++) {
        console c;
        make_fixture("held.db");
        open_plain(&c, "--db held.db");
        expect(&c, "phi-3-small");
        console_send(&c, "1sbefore\r");
        expect(&c, "saved with its verdicts");
        const int lock = hold_lock("held.db");
        if (at == 1) {
            console_send(&c, "stoo late\r");
            expect(&c, "waiting for it");
            console_send(&c, "Q");
            expect(&c, "y leaves");
            console_send(&c, "n");
            console_drain(&c, CONSOLE_QUIET_MS);
        }
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
        assert_false(c.alternate);
        close(lock);
        /* the design is there, and its run has ended */
        s2_arena arena = {0};
        s2_db *db = NULL;
        s2_db_run_row run;
        int32_t n_runs = 0;
        OK(s2_db_open(path_of("held.db"), S2_DB_READ, &db, diag));
        OK(s2_db_runs(db, &arena, 0, 1, &run, &n_runs, diag));
        assert_string_equal(run.command, "tui");
        assert_int_equal(run.exit_code, 0);
        s2_db_close(&db);
        s2_arena_release(&arena);
        assert_int_equal(count_rows("held.db", "design"), 9);
        forget_db("held.db");
    }
}

static void another_process_writes_and_the_cursor_stays(void **state)
{
    (void)state;
    console c;
    make_fixture("live.db");
    open_plain(&c, "--db live.db");
    console_send(&c, "j");
    console_drain(&c, CONSOLE_QUIET_MS);
    write_newcomer("live.db");
    expect(&c, "newcomer");
    expect(&c, "9 designs");
    /* the cursor's design is still rotation-16, a row lower */
    console_send(&c, "\r");
    expect(&c, "s2 design  rotation-16");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("live.db");
}

static void a_database_that_comes_back_has_the_cursor_on_its_design(void **state)
{
    (void)state;
    console c;
    make_fixture("back.db");
    open_plain(&c, "--db back.db");
    console_send(&c, "j");
    console_drain(&c, CONSOLE_QUIET_MS);
    assert_int_equal(rename(path_of("back.db"), path_of("away.db")), 0);
    expect(&c, "the database file is gone");
    console_send(&c, "G");
    console_drain(&c, CONSOLE_QUIET_MS);
    assert_int_equal(rename(path_of("away.db"), path_of("back.db")), 0);
    expect(&c, "the database exists now");
    expect(&c, "8 designs");
    console_send(&c, "\r");
    expect(&c, "s2 design  rotation-16");
    console_send(&c, "q");
    expect(&c, "8 designs");
    /* another file, in which designs have other numbers */
    make_fixture("away.db");
    write_newcomer("away.db");
    assert_int_equal(rename(path_of("away.db"), path_of("back.db")), 0);
    expect(&c, "9 designs");
    console_send(&c, "\r");
    expect(&c, "s2 design  rotation-16");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("back.db");
    forget_db("away.db");
}

static void what_people_add_can_be_taken_back(void **state)
{
    (void)state;
    console c;
    make_fixture("people.db");
    console_options options = PLAIN;
    options.args = "--db people.db";
    options.cols = 132;
    console_open(&c, &options);
    console_send(&c, "tcandidate\r");
    expect(&c, "baseline,candidate");
    console_send(&c, "z");
    expect(&c, "taken back: tag candidate");
    console_send(&c, "D");
    expect(&c, "7 designs");
    console_send(&c, "u");
    expect(&c, "8 designs");
    console_send(&c, "Na remark\r");
    expect(&c, "note added");
    console_send(&c, "r");
    expect(&c, "a remark");
    console_send(&c, "2/density>0.1\r");
    expect(&c, "2 designs");
    console_send(&c, "Wdense ones\r");
    expect(&c, "view saved; w lists all views");
    console_send(&c, "/\025\r");
    expect(&c, "8 designs");
    console_send(&c, "w\r");
    expect(&c, "2 designs");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("people.db");
}

static void clicks_choose_and_the_wheel_scrolls(void **state)
{
    (void)state;
    console c;
    open_plain(&c, "--db s2.db --mouse");
    /* screen rows count from one: the title, the status, the head of the list, the first design */
    console_send(&c, "\033[<0;10;5M\033[<0;10;5m");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "\r");
    expect(&c, "s2 design  rotation-16");
    console_send(&c, "2\033[<64;10;5M");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "\r");
    expect(&c, "s2 design  phi-3-small");
    console_send(&c, "1\033[<0;3;7M\033[<0;3;7m");
    console_drain(&c, CONSOLE_QUIET_MS);
    console_send(&c, "l");
    expect(&c, "kv-heads      16");
    /* the first cell of the union, and one above the diagonal */
    console_send(&c, "\033[<0;39;3M\033[<0;39;3m");
    expect(&c, "key blocks 0-");
    console_send(&c, "\033[<0;50;3M\033[<0;50;3m");
    expect(&c, "in the future");
    /* a title orders the list, the row of the cursor opens, the footer's keys and the lines of a list act */
    console_send(&c, "2\033[<0;42;3M\033[<0;42;3m");
    expect(&c, "by density down");
    console_send(&c, "\033[<0;42;3M\033[<0;42;3m");
    expect(&c, "by density up");
    console_send(&c, "g\033[<0;10;4M\033[<0;10;4m");
    expect(&c, "s2 design  ");
    console_send(&c, "2\033[<0;76;24M\033[<0;76;24m");
    expect(&c, "s2 help");
    console_send(&c, "\033");
    expect(&c, "s2 designs");
    console_send(&c, "Y");
    expect(&c, "the design's text, in one line");
    console_send(&c, "\033[<0;5;4M\033[<0;5;4m");
    expect(&c, "the hash was handed to the terminal's clipboard");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    assert_false(c.alternate);
}

/* ---- the person's editor */

/* What it writes is taken, or stays to be mended with the caret where it is wrong; one that fails changes nothing. */
static void an_editor_changes_the_pattern_or_says_where_it_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *editor, *shown;
    } cases[] = {{"sed -i 's/stride 8/stride 16/'", "taken from the editor"},
                 {"sed -i 's/stride 8/strid 8/'", "column "},
                 {"sed -i '1i name \"\xe5\x90\x8d # \xe5\x90\x8d\" xyz'", "column 14"},
                 {"true", "nothing was changed"},
                 {"false", "ended with status 1"}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        console c;
        setenv("VISUAL", cases[n].editor, 1);
        open_plain(&c, "--no-db");
        console_send(&c, "1");
        expect(&c, "s2 workbench");
        console_send(&c, "\005");
        expect(&c, cases[n].shown);
        if (n == 0) {
            expect(&c, "stride        16");
            console_send(&c, "z");
            expect(&c, "stride        8");
        }
        if (n == 2) { /* a quoted name may hold what else begins a comment, and letters of several bytes */
            expect(&c, "\xe5\x90\x8d # \xe5\x90\x8d\" xyz");
            console_send(&c, "w");
            expect(&c, "# \xe5\x90\x8d\" wxyz");
            console_send(&c, "\033");
        }
        if (n == 1) {
            expect(&c, "local 16 | strid 8");
            /* the caret stands behind the word that is wrong or before it: what is typed goes there */
            console_send(&c, "\033");
            expect(&c, "stride        8");
        }
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
        assert_false(c.alternate);
    }
    unsetenv("VISUAL");
}

/* ---- what is kept */

static void a_session_begins_as_the_last_one_ended(void **state)
{
    (void)state;
    console c;
    console_options options = PLAIN;
    options.keeps = true;
    for (int time = 0; time < 2; time++) {
        console_open(&c, &options);
        expect(&c, time == 0 ? "by created down" : "by name down  filter: name~phi");
        if (time == 0) {
            console_send(&c, "S/name~phi\r|kv\r");
            expect(&c, "columns:");
            console_send(&c, "\033");
            expect_gone(&c, "columns:");
            console_send(&c, "1j]");
        } else {
            console_send(&c, "1");
        }
        expect(&c, "stride        16");
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
        assert_int_equal(access(path_of("s2/session"), F_OK), 0);
    }
    open_plain(&c, "--db s2.db");
    expect(&c, "by created down");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
}

/* ---- work beside the screen */

static void work_goes_on_beside_the_screen_and_can_be_ended(void **state)
{
    (void)state;
    console c;
    int64_t n = 0;
    s2_db *db = NULL;
    make_fixture("jobs.db");
    console_options options = PLAIN;
    options.args = "--db jobs.db";
    options.rows = 40;
    options.cols = 120;
    console_open(&c, &options);
    /* long work: cancelled by its key, the screen alive meanwhile */
    console_send(&c, "v\0258k,8k,8k,8k,8k,8k,8k,8k,8k,8k\r");
    expect(&c, "C cancels");
    console_send(&c, "1");
    expect(&c, "s2 workbench");
    /* escape only goes back */
    console_send(&c, "\033");
    expect(&c, "s2 designs");
    expect(&c, "C cancels");
    console_send(&c, "C");
    expect(&c, "validate: cancelled");
    /* short work: stored as the command stores it */
    console_send(&c, "2k/name~phi\r");
    expect(&c, "1 design,");
    console_send(&c, "v\02564\t\t\t\t\t\t\t\0250\r");
    expect(&c, "validate: done");
    console_send(&c, "6");
    expect(&c, "--len 64");
    expect(&c, "needles");
    console_send(&c, "2r");
    expect(&c, "64 tokens x 1");
    OK(s2_db_open(path_of("jobs.db"), S2_DB_READ, &db, diag));
    OK(s2_db_count(db, "validation", &n, diag));
    s2_db_close(&db);
    /* two that were there, one for each kind of layer */
    assert_int_equal(n, 4);
    /* an export: the loss is seen before the file is written */
    console_send(&c, "xdkernel\r");
    expect(&c, "enter writes");
    assert_int_not_equal(access(path_of("out.json"), F_OK), 0);
    console_send(&c, "\025out.json\r");
    expect(&c, "export: done");
    assert_int_equal(access(path_of("out.json"), F_OK), 0);
    /* the designs around the workbench's */
    console_send(&c, "1j");
    console_send(&c, "a\t\t\t\t\t\t40\r");
    expect(&c, "search: done");
    console_send(&c, "6/");
    expect(&c, "filter: run=");
    expect(&c, "search-");
    console_send(&c, "P\025screen.png\r");
    expect(&c, "written to screen.png");
    assert_int_equal(access(path_of("screen.png"), F_OK), 0);
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("jobs.db");
}

/* ---- copying */

/* The next text that the terminal was asked to copy; returns what follows it, or NULL. */
static const char *next_copy(const char *at, s2_buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    int n_bits = 0;
    out->len = 0;
    at = strstr(at, "\033]52;c;");
    if (at == NULL)
        return NULL;
    for (at += 7; *at != '\a' && *at != '=' && *at != '\0'; at++) {
        const char *const digit = strchr(digits, *at);
        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        const char byte = (char)(bits >> n_bits & 255);
        s2_buf_add(out, &byte, 1);
    }
    s2_buf_add(out, "", 1);
    return at;
}

static size_t count_copies(console *c)
{
    size_t n = 0;
    s2_buf_add(&c->raw, "", 1);
    for (const char *at = c->raw.data; (at = strstr(at, "\033]52;c;")) != NULL; at++)
        n++;
    c->raw.len--;
    return n;
}

/* Walks, and copies behind each step; what is not derived yet is not copied. What was written ends with 0. */
static void copy_on_the_way(console *c, const char *const *walk, size_t n)
{
    for (size_t at = 0; at < n; at++) {
        const double start = s2_now_ms();
        console_send(c, walk[at]);
        console_drain(c, CONSOLE_QUIET_MS);
        while (count_copies(c) <= at && s2_now_ms() - start < CONSOLE_PATIENCE_MS) {
            console_send(c, "y");
            console_drain(c, 200);
        }
    }
    s2_buf_add(&c->raw, "", 1);
}

static void copied_commands_hold_nothing_that_a_terminal_obeys(void **state)
{
    (void)state;
    console c;
    s2_buf text = {0};
    size_t n_copies = 0;
    static const char *const walk[] = {"", "/'; rm -rf \"x\"\r", "/\025\rj", "\r", "r", "5", "1", "6", "\r"};
    open_plain(&c, "--db s2.db");
    copy_on_the_way(&c, walk, sizeof walk / sizeof walk[0]);
    for (const char *at = c.raw.data; (at = next_copy(at, &text)) != NULL; n_copies++)
        for (size_t n = 0; n + 1 < text.len; n++)
            assert_true(text.data[n] == '\n' || (text.data[n] >= ' ' && text.data[n] < 127));
    assert_true(n_copies >= sizeof walk / sizeof walk[0]);
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    s2_buf_release(&text);
}

/* Each line of a copied text, where it was copied. */
static void run_lines(s2_buf *text)
{
    char *save = NULL;
    for (char *line = strtok_r(text->data, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        s2_buf command = {0};
        s2_buf_printf(&command,
                      "cd '%s' && PATH=\"%.*s:$PATH\" && unset S2_DB && %s >said.txt 2>&1 </dev/null", dir,
                      (int)(strrchr(console_program(), '/') - console_program()), console_program(), line);
        s2_buf_add(&command, "", 1);
        const int status = system(command.data);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > S2_EXIT_VIOLATED)
            fail_msg("'%s' ends with status %x; %s/said.txt says why", line, (unsigned)status, dir);
        s2_buf_release(&command);
    }
}

static void the_command_of_every_screen_can_be_run(void **state)
{
    (void)state;
    static const char *const args[] = {"--db said.db", "--no-db"};
    /* "2 j c" marks two and compares them */
    static const char *const walks[][12] = {
        {"kGkk", "\r", "r", "2/union=holds\r", "/\025\rg", "2g j c", "5", "1", "ll", "6", "\r", "3"},
        {"2", "\r", "r", "2G", "2g j c", "5", "1", "h", "6", "1?", "3", "2G\r"}};
    int n_run = 0;
    for (size_t at = 0; at < 2; at++) {
        console c;
        s2_buf text = {0};
        make_fixture("said.db");
        open_plain(&c, args[at]);
        copy_on_the_way(&c, walks[at], 12);
        for (const char *next = c.raw.data; (next = next_copy(next, &text)) != NULL; n_run++)
            run_lines(&text);
        console_send(&c, "Qy");
        assert_int_equal(console_close(&c), 0);
        s2_buf_release(&text);
    }
    printf("# s2: %d copied commands were run\n", n_run);
    forget_db("said.db");
}

/* ---- figures */

static void print_times(const char *what, double *ms, int n)
{
    qsort(ms, (size_t)n, sizeof ms[0], s2_by_value);
    printf("# s2: %s: median %.1f ms, p99 %.1f, worst of %d %.1f ms\n", what, ms[n / 2], ms[n * 99 / 100], n,
           ms[n - 1]);
}

/* Processor time of all threads of a process: what a busy machine does not change. */
static double processor_ms(pid_t pid)
{
    char path[64];
    double ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *const tasks = opendir(path);
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        char file[400];
        double part = 0;
        snprintf(file, sizeof file, "%s/%s/schedstat", path, task->d_name);
        FILE *const in = task->d_name[0] != '.' ? fopen(file, "r") : NULL;
        if (in != NULL && fscanf(in, "%lf", &part) == 1)
            ns += part;
        if (in != NULL)
            fclose(in);
    }
    if (tasks != NULL)
        closedir(tasks);
    return ns / 1e6;
}

/* Each key of the text, repeated until n are measured: to the first bytes, and to the last ones. */
static void time_keys(console *c, const char *keys, int n, const char *what)
{
    double first[400], last[400];
    char line[200];
    const size_t n_keys = strlen(keys);
    int painted = 0;
    const double processor = processor_ms(c->child);
    for (int at = 0; at < n; at++) {
        const char one[] = {keys[(size_t)at % n_keys], '\0'};
        const double start = s2_now_ms();
        console_send(c, one);
        const double end = console_drain(c, 40);
        if (c->first_ms <= 0)
            continue;
        first[painted] = c->first_ms - start;
        last[painted++] = end - start;
    }
    assert_true(painted > 0);
    snprintf(line, sizeof line, "%s: key to painted", what);
    print_times(line, first, painted);
    snprintf(line, sizeof line, "%s: key to the last byte of all that follows", what);
    print_times(line, last, painted);
    printf("# s2: %s: %.1f ms of processor time a key\n", what, (processor_ms(c->child) - processor) / n);
}

static int64_t count_of(const char *variable, int64_t fallback)
{
    const char *const text = getenv(variable);
    return text != NULL ? strtoll(text, NULL, 10) : fallback;
}

/* n designs with random numbers, in one transaction; kept in build/ where it is a large one. */
static void make_many(const char *name, int64_t n)
{
    s2_db *db = NULL;
    s2_rng rng = {1};
    forget_db(name);
    OK(s2_db_open(path_of(name), S2_DB_WRITE, &db, diag));
    OK(s2_db_begin(db, diag));
    const int64_t run_id = put_run(db, "search", "[]");
    for (int64_t at = 0; at < n; at++) {
        char text[160], id[48];
        snprintf(
            text, sizeof text,
            "name d-%lld\nlayers 32\nheads 32\nkv-heads 8\nlayers all: local %d | stride %d phase head\n",
            (long long)at, (int)(at % 64) + 1, (int)(at / 64 % 31) + 2);
        snprintf(id, sizeof id, "d-%lld-%05x", (long long)at, (unsigned)s2_rng_below(&rng, 1 << 20));
        put_design(db, run_id, id, text, (double)s2_rng_below(&rng, 1 << 20) / (1 << 20));
    }
    OK(s2_db_end(db, S2_OK, diag));
    s2_db_close(&db);
    run_sql(path_of(name),
            "UPDATE design SET v_union=id%3,sim_us=abs(random()%1000000),kv_bytes=abs(random()%10000000000)");
}

static void the_ends_of_the_list_are_those_of_all_designs(void **state)
{
    (void)state;
    enum { DESIGNS = 1203 };
    console c;
    make_many("ends.db", DESIGNS);
    open_plain(&c, "--db ends.db");
    expect(&c, " 1 of 1203 designs");
    /* the oldest is the last one of "by created down" */
    console_send(&c, "G");
    expect(&c, " 1203 of 1203 designs");
    console_send(&c, "\r");
    expect(&c, "s2 design  d-0-");
    console_send(&c, "2g");
    expect(&c, " 1 of 1203 designs");
    console_send(&c, "\r");
    expect(&c, "s2 design  d-1202-");
    /* a page at a time from the end to the front, with nothing left out */
    console_send(&c, "2G");
    expect(&c, " 1203 of 1203 designs");
    const double start = s2_now_ms();
    while (!console_shows(&c, " 1 of 1203 designs") && s2_now_ms() - start < CONSOLE_PATIENCE_MS) {
        console_send(&c, "\002");
        console_drain(&c, 5);
    }
    expect(&c, " 1 of 1203 designs");
    console_send(&c, "g\r");
    expect(&c, "s2 design  d-1202-");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("ends.db");
}

static void keys_are_timed(void **state)
{
    (void)state;
    const int64_t n = count_of("S2_DESIGNS", 2000);
    char what[120];
    console c;
    make_many("many.db", n);
    const double start = s2_now_ms();
    open_plain(&c, "--db many.db");
    /* what open waited for is quiet, not the program */
    printf("# s2: %lld designs: start to first full screen %.1f ms at most\n", (long long)n,
           s2_now_ms() - start - CONSOLE_QUIET_MS);
    printf("# s2: %lld designs: start takes %.1f ms of processor time\n", (long long)n,
           processor_ms(c.child));
    snprintf(what, sizeof what, "%lld designs, up and down", (long long)n);
    time_keys(&c, "jjjjjjkj", 200, what);
    snprintf(what, sizeof what, "%lld designs, pages", (long long)n);
    time_keys(&c, "\006\006\006\002", 60, what);
    console_send(&c, "g");
    console_drain(&c, CONSOLE_QUIET_MS);
    snprintf(what, sizeof what, "%lld designs, sort and reverse", (long long)n);
    time_keys(&c, "SRS", 60, what);
    snprintf(what, sizeof what, "%lld designs, to the end and back", (long long)n);
    time_keys(&c, "GkGg", 60, what);
    console_send(&c, "g1j");
    console_drain(&c, CONSOLE_QUIET_MS);
    time_keys(&c, "llllhhhh", 200, "workbench at 128k, 32 heads, 80x24");
    /* context 1M, blocks of 16: proof, price and masks take longer than a frame, keys do not wait for them */
    console_send(&c, "GGkk]]]kkkk[[");
    console_drain(&c, 1500);
    time_keys(&c, "lhlhjk", (int)s2_test_cases(24), "workbench at 1M tokens, blocks of 16");
    /* a search through every name goes on beside the screen */
    console_send(&c, "2/name~zzzzzz\r");
    const double asked = s2_now_ms();
    console_send(&c, "1");
    expect(&c, "s2 workbench");
    printf("# s2: %lld designs: the workbench %.1f ms after a search through all names began\n", (long long)n,
           s2_now_ms() - asked);
    console_send(&c, "2");
    expect(&c, "no design matches");
    console_send(&c, "Qy");
    assert_int_equal(console_close(&c), 0);
    forget_db("many.db");
}

/* ---- chaos */

static pid_t start_writer(const char *name)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int64_t at = 0;; at++) {
        s2_db *db = NULL;
        int64_t run_id = 0;
        char text[96];
        const s2_db_run run = {.tool_version = "0.1.0",
                               .commit = "abc",
                               .command = "check",
                               .argv_json = "[]",
                               .host = "host",
                               .cwd = "/",
                               .seed = S2_DB_NONE,
                               .started_us = THEN_US};
        snprintf(text, sizeof text, "heads %d\nlayers all: local %d\n", (int)(at % 63) + 1,
                 (int)(at / 63 % 900) + 1);
        if (s2_db_open(name, S2_DB_WRITE, &db, NULL) == S2_OK) {
            if (s2_db_begin(db, NULL) == S2_OK && s2_db_put_run(db, &run, &run_id, NULL) == S2_OK) {
                put_design(db, run_id, "written", text, 0.5);
                if (s2_db_end(db, S2_OK, NULL) != S2_OK)
                    _exit(1);
            }
            s2_db_close(&db);
        }
        usleep(30000);
    }
}

/*
 * Arrows and pages as terminals send them, and short work beside the screen: proofs, prices, a validation. What
 * they write stays in the directory.
 */
static const char *const CHAOS[] = {
    "\033OA", "\033OB", "\033OC", "\033OD", "\033[5~", "\033[6~",  "\r",   "\t",  "1",   "2",  "3", "4", "5",
    "6",      "?",      ":",      "=",      " ",       "c",        "S",    "R",   "*",   "t",  "N", "D", "z",
    "u",      "w",      "W",      "e",      "r",       "n",        "i",    "o",   "0",   "H",  "J", "K", "L",
    ".",      ",",      "{",      "}",      "j",       "k",        "h",    "l",   "[",   "]",  "g", "G", "s",
    "y",      "C",      "q",      "x",      "\f",      "\xc3\xa9", "\xff", "p\r", "m\r", "v\r"};
enum { N_CHAOS = sizeof CHAOS / sizeof CHAOS[0] };

/* Whatever was pressed, written beside and ended: the file is whole. */
static void expect_sound(const char *path)
{
    sqlite3 *raw;
    sqlite3_stmt *check;
    assert_int_equal(sqlite3_open(path, &raw), SQLITE_OK);
    sqlite3_busy_timeout(raw, 5000);
    assert_int_equal(sqlite3_prepare_v2(raw, "PRAGMA integrity_check", -1, &check, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(check), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(check, 0), "ok");
    sqlite3_finalize(check);
    sqlite3_close(raw);
}

static bool has_ended(const console *c)
{
    siginfo_t about = {0};
    return waitid(P_PID, (id_t)c->child, &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           about.si_pid == c->child;
}

/* Out of whatever is being typed or waits for the writer. */
static int leave(console *c)
{
    const double start = s2_now_ms();
    while (!has_ended(c) && s2_now_ms() - start < CONSOLE_PATIENCE_MS) {
        console_send(c, "\033");
        console_drain(c, CONSOLE_QUIET_MS);
        console_send(c, "Qy");
        console_drain(c, CONSOLE_QUIET_MS);
    }
    return console_close(c);
}

static void random_keys_and_sizes_leave_everything_in_order(void **state)
{
    (void)state;
    enum { BURST = 40 };
    const int64_t n = count_of("S2_SOAK", 1200);
    const uint64_t seed = s2_test_seed(3);
    s2_rng rng = {seed};
    console c;
    int64_t sent = 0, sessions = 1;
    make_fixture("soak.db");
    const pid_t writer = start_writer(path_of("soak.db"));
    open_plain(&c, "--db soak.db --mouse");
    while (sent < n) {
        for (int at = 0; at < BURST; at++, sent++)
            console_send(&c, s2_rng_below(&rng, 20) == 0 ? FOREIGN[s2_rng_below(&rng, N_FOREIGN)]
                                                         : CHAOS[s2_rng_below(&rng, N_CHAOS)]);
        console_resize(&c, 1 + (int)s2_rng_below(&rng, 60), 1 + (int)s2_rng_below(&rng, 180));
        console_drain(&c, 25);
        int status = 0;
        if (waitpid(c.child, &status, WNOHANG) != c.child)
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || c.alternate || c.cursor_hidden) {
            console_drain(&c, 100);
            s2_buf_add(&c.raw, "", 1);
            fail_msg("seed %llu: ended with status %x after %lld keys, alternate %d; its last words:\n%s",
                     (unsigned long long)seed, (unsigned)status, (long long)sent, c.alternate,
                     c.raw.data + (c.raw.len > 600 ? c.raw.len - 600 : 0));
        }
        close(c.fd);
        vterm_free(c.vt);
        s2_buf_release(&c.raw);
        open_plain(&c, "--db soak.db --mouse");
        sessions++;
    }
    console_resize(&c, 24, 80);
    const int status = leave(&c);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(c.alternate);
    expect_sound(path_of("soak.db"));
    printf("# s2: %lld random keys and sizes in %lld sessions, seed %llu, a writer beside: no crash\n",
           (long long)sent, (long long)sessions, (unsigned long long)seed);
    forget_db("soak.db");
}

int main(void)
{
    const struct CMUnitTest tui_pty[] = {
        cmocka_unit_test(foreign_sequences_are_read_whole),
        cmocka_unit_test(keys_typed_at_any_speed_show_the_same),
        cmocka_unit_test(escape_only_goes_back_and_leaving_asks),
        cmocka_unit_test(a_terminal_that_keeps_the_screen_has_an_empty_last_line),
        cmocka_unit_test(the_preview_of_an_export_knows_the_validation),
        cmocka_unit_test(an_export_that_is_refused_is_said_to_write_nothing),
        s2_long_test(scripts_print_the_golden_screens),
        s2_long_test(every_terminal_shows_every_golden_screen),
        cmocka_unit_test(tmux_shows_the_same),
        cmocka_unit_test(a_storm_of_sizes_ends_in_the_golden_screen),
        cmocka_unit_test(signals_give_the_terminal_back),
        cmocka_unit_test(a_file_that_is_cut_short_ends_the_session_with_a_word),
        cmocka_unit_test(a_terminal_that_goes_away_ends_the_session),
        cmocka_unit_test(a_slow_terminal_and_a_new_size_fail_nothing),
        cmocka_unit_test(a_stop_gives_the_terminal_back_and_going_on_repaints),
        cmocka_unit_test(a_terminal_without_a_cursor_is_refused),
        s2_long_test(a_design_is_made_proved_priced_validated_and_exported_in_24_keys),
        cmocka_unit_test(a_lost_or_locked_database_is_said_and_survived),
        cmocka_unit_test(what_is_saved_waits_for_a_writer_and_can_be_given_up),
        cmocka_unit_test(a_full_disk_is_said_at_once_and_room_is_used_at_once),
        cmocka_unit_test(a_session_ends_well_beside_a_writer_that_never_lets_go),
        cmocka_unit_test(another_process_writes_and_the_cursor_stays),
        cmocka_unit_test(a_database_that_comes_back_has_the_cursor_on_its_design),
        cmocka_unit_test(what_people_add_can_be_taken_back),
        cmocka_unit_test(clicks_choose_and_the_wheel_scrolls),
        cmocka_unit_test(an_editor_changes_the_pattern_or_says_where_it_is_wrong),
        cmocka_unit_test(a_session_begins_as_the_last_one_ended),
        cmocka_unit_test(work_goes_on_beside_the_screen_and_can_be_ended),
        cmocka_unit_test(copied_commands_hold_nothing_that_a_terminal_obeys),
        s2_long_test(the_command_of_every_screen_can_be_run),
        cmocka_unit_test(the_ends_of_the_list_are_those_of_all_designs),
        s2_long_test(keys_are_timed),
        cmocka_unit_test(random_keys_and_sizes_leave_everything_in_order),
    };
    return cmocka_run_group_tests(tui_pty, make_dir, remove_dir);
}
