/*
 * Sessions of `s2 tui` without a terminal, on real databases: what the screens say is what the commands print.
 */
#include "tests/s2test.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/store.h"
#include "db/db.h"
#include "explorer/explorer.h"
#include "explorer/internal.h"
#include "sim/calibration.h"
#include "sim/units.h"
#include "tests/gen_db.h"
#include "tests/gen_spec.h"
#include "tests/s2dir.h"
#include "words/holed.h"

#define OK(call) assert_int_equal((call), S2_OK)

/* What a session with these keys prints, that keeps what it keeps in a file; the caller frees it. */
static char *kept_session(const char *db, const char *script, const char *session_path)
{
    char *out = NULL;
    size_t n = 0;
    bool left_behind;
    s2_diag diag = {0};
    s2_explorer_options options = {.in = fmemopen((void *)(uintptr_t)script, strlen(script), "r"),
                                   .out = open_memstream(&out, &n),
                                   .db_path = db,
                                   .db_named = db,
                                   .session_path = session_path,
                                   .rows = 60,
                                   .cols = 200,
                                   .ascii = true,
                                   .script = "-",
                                   .as = "text"};
    const s2_status status = s2_explorer_run(&options, &left_behind, &diag);
    if (status != S2_OK)
        fail_msg("%s", diag.msg);
    fclose(options.in);
    fclose(options.out);
    return out;
}

static char *session(const char *db, const char *script)
{
    return kept_session(db, script, NULL);
}

/* What a command prints. */
static char *command(s2_command_fn fn, const char *db, int argc, const char *const *argv)
{
    char *out = NULL, *words[16];
    size_t n = 0;
    s2_cli cli;
    for (int nth = 0; nth < argc; nth++)
        words[nth] = (char *)(uintptr_t)argv[nth];
    s2_cli_init(&cli, "s2", argc, words);
    cli.command = argv[0];
    cli.db_path = db;
    cli.out = open_memstream(&out, &n);
    cli.err = fopen("/dev/null", "w");
    /* a property that is violated is no failure */
    assert_true(fn(&cli, argc, words) <= S2_EXIT_VIOLATED);
    fclose(cli.err);
    s2_cli_finish(&cli, s2_store_finish(&cli, 0));
    fclose(cli.out);
    return out;
}

/* ---- the front */

static void put_random_design(s2_db *db, s2_rng *rng, int64_t run_id, int n)
{
    char name[16], text[64];
    s2_diag diag;
    int64_t id;
    snprintf(name, sizeof name, "d%05d", n);
    snprintf(text, sizeof text, "layers 1\nheads %d\nlayers all: local %d\n", 1 + n % 64, 1 + n / 64);
    const s2_db_design design = {.name = name,
                                 .text = text,
                                 .model = "",
                                 .family = "local",
                                 .origin = "test",
                                 .n_layers = 1,
                                 .n_heads = 1 + n % 64,
                                 .n_kv_heads = 1 + n % 64,
                                 .head_dim = 128,
                                 .block_tok = 64,
                                 .density = (double)(1 + s2_rng_below(rng, 50)) / 50,
                                 .density_tok = 8192};
    OK(s2_gen_put_text(db, run_id, design, &id, &diag));
    s2_db_sim sim = s2_gen_sim;
    /* few values, so that some are equal; some designs are priced at another length */
    sim.time_us = exp((double)s2_rng_below(rng, 60) / 10);
    sim.kv_head_pages_bytes = 1e6 * exp((double)s2_rng_below(rng, 60) / 10) + 1e7 / sim.time_us;
    sim.unread = (double)s2_rng_below(rng, 20) / 20;
    sim.len_tok = s2_rng_below(rng, 5) == 0 ? 4096 : 8192;
    sim.phase = s2_rng_below(rng, 4) == 0 ? "train" : "prefill";
    /* and some prices cannot be compared with the others */
    sim.error_pct = s2_rng_below(rng, 3) == 0 ? (double)NAN : 5;
    sim.gpu = s2_rng_below(rng, 6) == 0 ? "b200" : "h200";
    sim.batch = s2_rng_below(rng, 6) == 0 ? 8 : 1;
    sim.tp = n % 7 == 0 ? 4 : 1;
    sim.kv_dtype = n % 11 == 0 ? "e4m3" : "bf16";
    s2_db_sim other = sim; /* an older price of another kind, which must not stand in for the latest */
    other.settings = "dp=8";
    other.time_us /= 2;
    other.kv_head_pages_bytes /= 2;
    if (n % 3 == 0)
        OK(s2_db_put_sim(db, run_id, id, &other, &diag));
    if (s2_rng_below(rng, 10) != 0)
        OK(s2_db_put_sim(db, run_id, id, &sim, &diag));
    const s2_db_verdict verdict = (s2_db_verdict)s2_rng_below(rng, 3);
    const s2_db_check check = s2_gen_check("union", verdict, S2_DB_NONE);
    if (s2_rng_below(rng, 4) != 0)
        OK(s2_db_put_check(db, run_id, id, &check, &diag));
}

static void make_designs(const char *db_path, int n, uint64_t seed)
{
    s2_rng rng = {seed};
    s2_db *db;
    s2_diag diag;
    int64_t run_id;
    s2_gen_forget(db_path);
    OK(s2_db_open(db_path, S2_DB_WRITE, &db, &diag));
    OK(s2_db_begin(db, &diag));
    OK(s2_db_put_run(db, &s2_gen_run, &run_id, &diag));
    for (int nth = 0; nth < n; nth++)
        put_random_design(db, &rng, run_id, nth);
    OK(s2_db_end(db, S2_OK, &diag));
    s2_db_close(&db);
}

/* The words "d00012" of a text, in their order, each once where it follows itself. */
static void names_in(const char *text, const char *after, s2_buf *names)
{
    const char *at = strstr(text, after);
    names->len = 0;
    for (at = at != NULL ? at : ""; *at != '\0'; at++)
        if (at[0] == 'd' && strspn(at + 1, "0123456789") == 5)
            s2_buf_printf(names, "%.6s ", at);
    s2_buf_add(names, "", 1);
}

/* The table of the screen's right half. */
static void names_on_screen(const char *screen, s2_buf *names)
{
    names->len = 0;
    const char *line = screen;
    for (int row = 0; *line != '\0'; row++) {
        const size_t n = strcspn(line, "\n");
        const char *const name = n > 160 ? memchr(line + 137, 'd', 30) : NULL;
        if (row > 2 && name != NULL && strspn(name + 1, "0123456789") == 5)
            s2_buf_printf(names, "%.6s ", name);
        line += n + (line[n] == '\n');
    }
    s2_buf_add(names, "", 1);
}

/* The screen says how many of the front leave keys unread, and nothing where none does. */
static void expect_holed(const char *screen, const char *json)
{
    int32_t n = 0;
    s2_buf words = {0};
    for (const char *at = json; (at = strstr(at, "\"union\":\"violated\"")) != NULL; at++)
        n++;
    s2_holed_print(n, &words);
    s2_buf_add(&words, "", 1);
    if (n > 0 ? strstr(screen, words.data) == NULL : strstr(screen, "the union: some key") != NULL)
        fail_msg("%d of the front violate the union, but the screen is\n%s", n, screen);
    s2_buf_release(&words);
}

/* A picture has two axes, and a training step keeps no cache: then the screen says so. */
static bool lacks_an_axis(const char *minimize, const char *filter, const char *screen)
{
    const bool two = strchr(minimize, ',') == strrchr(minimize, ',');
    const bool lacks = strcmp(filter, "phase=train") == 0 && two && strstr(minimize, "kv_") != NULL;
    assert_int_equal(lacks, strstr(screen, "a training step keeps no cache") != NULL);
    return lacks;
}

static void compare_fronts(const char *db, const char *minimize, const char *filter)
{
    char script[200];
    s2_buf shown = {0}, printed = {0};
    const char *const argv[] = {"pareto",    "--minimize", minimize,   "--format", "json",
                                "--columns", "name,union", "--filter", filter};
    char *const json = command(s2_cmd_pareto, db, filter[0] != '\0' ? 9 : 7, argv);
    snprintf(script, sizeof script, "/\n%s%s\nenter 5\no\n%c\ntype %s\nenter\ndump\n",
             filter[0] != '\0' ? "type " : "#", filter, 21, minimize);
    char *const screen = session(db, script);
    names_in(json, "", &printed);
    names_on_screen(screen, &shown);
    assert_true(printed.len > 1);
    const bool drawn = !lacks_an_axis(minimize, filter, screen);
    if (drawn && strcmp(shown.data, printed.data) != 0)
        fail_msg("%s of %s: the screen has\n%s\nthe command\n%s\n%s", minimize, filter, shown.data,
                 printed.data, screen);
    if (drawn)
        expect_holed(screen, json);
    free(json);
    free(screen);
    s2_buf_release(&shown);
    s2_buf_release(&printed);
}

static void the_front_on_the_screen_is_that_of_the_command(void **state)
{
    (void)state;
    static const char *const minimize[] = {"us,kv_mib", "us,density", "kv_mib,density", "us,kv_mib,density",
                                           "us,kv_bytes,unread"};
    static const char *const filters[] = {
        "", "us<100", "heads>=16", "density<0.5 us>=2", "phase=train", "union=holds", "len=4k", "gpu=b200"};
    const char *const db = s2_dir_path("front.db");
    for (int64_t seed = 1; seed <= (s2_test_cases(400) + 199) / 200; seed++) {
        make_designs(db, 1500, (uint64_t)seed);
        for (size_t m = 0; m < sizeof minimize / sizeof minimize[0]; m++)
            for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++)
                compare_fronts(db, minimize[m], filters[f]);
    }
}

/* What is nowhere worse than a design of the front holds that design alone, and those that equal it. */
static void the_front_is_brushed_to_a_list(void **state)
{
    (void)state;
    const char *const db = s2_dir_path("brushed.db");
    make_designs(db, 300, 6);
    char *const screen = session(db, "5\nj\ndump\n/\ndump\n");
    const char *const chosen = strstr(screen, "@ 2/");
    const char *const list = strstr(screen, "filter: phase=");
    assert_non_null(chosen);
    assert_non_null(list);
    char name[8];
    snprintf(name, sizeof name, "%.6s", strchr(chosen, 'd'));
    assert_non_null(strstr(list, name));
    assert_non_null(strstr(screen, "1 of 1 design, "));
    free(screen);
    char *const run = session(db, "6\n/\ndump\n");
    assert_non_null(strstr(run, "1 of 300 designs, by created down  filter: run=1"));
    free(run);
}

/* A design that is pinned in the list is told of in it, and of the others what differs. */
static void a_design_of_the_list_is_pinned_as_the_baseline(void **state)
{
    (void)state;
    const char *const db = s2_dir_path("pinned.db");
    make_designs(db, 20, 7);
    char *const pinned = session(db, "dump\nb\ndump\n");
    char *const other = session(db, "dump\nb\nj\ndump\n");
    char *const compared = session(db, "dump\nb\nspace j space c\ndump\n");
    assert_non_null(strstr(pinned, "the baseline"));
    assert_non_null(strstr(other, "unread "));
    assert_non_null(strstr(compared, "to baseline"));
    free(pinned);
    free(other);
    free(compared);
}

/* The list that is shown, its filter and the command stay those of one another; the words come back with '/'. */
static void a_refused_filter_leaves_the_list_and_its_filter(void **state)
{
    (void)state;
    const char *const db = s2_dir_path("refused.db");
    make_designs(db, 20, 3);
    char *const plain = session(db, "/\ntype us<100\nenter\nq\ndump\n");
    char *const refused = session(db, "/\ntype us<100\nenter\n/\ntype  nonsense<<\nenter\nq\ndump\n");
    char *const again = session(db, "/\ntype nonsense<<\nenter\nj\n/\ndump\n");
    assert_string_equal(plain, refused);
    assert_non_null(strstr(plain, "filter: us<100"));
    assert_non_null(strstr(again, "filter: nonsense<<"));
    free(plain);
    free(refused);
    free(again);
}

/* A file's pattern is taken as it stands; one that is none says where, and leaves the workbench as it was. */
static void a_file_is_opened_on_the_workbench_or_refused_with_its_place(void **state)
{
    (void)state;
    char script[400];
    const char *const texts[] = {"# mine\nheads 8  # few\nkv-heads 4\n\nlocal 3 | random 2 seed 7\n",
                                 "heads 8\nlocal 3 | strid 4\n"};
    char good[128], bad[128];
    snprintf(good, sizeof good, "%s", s2_dir_path("good.s2"));
    snprintf(bad, sizeof bad, "%s", s2_dir_path("bad.s2"));
    for (int nth = 0; nth < 2; nth++) {
        FILE *const file = fopen(nth == 0 ? good : bad, "w");
        assert_non_null(file);
        fputs(texts[nth], file);
        fclose(file);
    }
    snprintf(script, sizeof script, "1\nO\ntype %s\nenter\nO\ntype %s\nenter\ndump\nO\ndump\n", good, bad);
    char *const screen = session(s2_dir_path("none.db"), script);
    assert_non_null(strstr(screen, "random 2"));
    if (strstr(screen, "bad.s2:2:11: ") == NULL)
        fail_msg("%s", screen);
    assert_non_null(strstr(screen, "open the pattern of: "));
    free(screen);
}

static void the_sort_is_marked_on_its_column(void **state)
{
    (void)state;
    static const char *const marks[] = {"", "namev", "vdensity", "vtime", "vkv", "vmeasured"};
    const char *const db = s2_dir_path("sorted.db");
    char keys[64] = "";
    make_designs(db, 5, 4);
    for (size_t n = 0; n < sizeof marks / sizeof marks[0]; n++) {
        char script[80];
        snprintf(script, sizeof script, "%sdump\n", keys);
        char *const screen = session(db, script);
        for (size_t m = 1; m < sizeof marks / sizeof marks[0]; m++)
            assert_int_equal(strstr(screen, marks[m]) != NULL, m == n);
        free(screen);
        strcat(keys, "S\n");
    }
}

/* Every line of the list, in the order and number that `s2 ls` prints, after any way of typing the filter. */
static void compare_lists(const char *db, const char *filter, const char *sort, int n_sorts)
{
    char script[300] = "size 200x140\n/\n", name[32];
    s2_buf shown = {0}, printed = {0};
    const char *const argv[] = {"ls", "--format", "json",   "--columns", "name", "--sort",
                                sort, "--limit",  "100000", "--filter",  filter};
    char *const json = command(s2_cmd_ls, db, filter[0] != '\0' ? 11 : 9, argv);
    snprintf(script + strlen(script), sizeof script - strlen(script), "%s%s\nenter\n",
             filter[0] != '\0' ? "type " : "#", filter);
    for (int n = 0; n < n_sorts; n++)
        strcat(script, "S\n");
    strcat(script, "dump\n");
    char *const screen = session(db, script);
    names_in(json, "", &printed);
    const char *const end = strstr(screen, "query|");
    if (end != NULL)
        screen[end - screen] = '\0';
    names_in(screen, "name", &shown);
    const size_t n = shown.len > 0 ? shown.len - 1 : 0;
    if (strncmp(shown.data, printed.data, n) != 0 || (n == 0) != (printed.len <= 1))
        fail_msg("'%s' by %s: the screen has\n%s\nthe command\n%.900s", filter, sort, shown.data,
                 printed.data);
    snprintf(name, sizeof name, " %d design", (int)(printed.len / 7));
    if (strstr(screen, name) == NULL)
        fail_msg("'%s': the screen does not count %s\n%.300s", filter, name, screen);
    free(json);
    free(screen);
    s2_buf_release(&shown);
    s2_buf_release(&printed);
}

static void the_list_on_the_screen_is_that_of_the_command(void **state)
{
    (void)state;
    static const char *const sorts[] = {"-created", "-name", "-density", "-us", "-kv_mib", "-gpu_us"};
    static const char *const filters[] = {
        "", "us<100", "heads>=16 union=holds", "density<0.5 us>=2", "name~d00", "!tag:none", "us<0.001"};
    const char *const db = s2_dir_path("list.db");
    for (int64_t seed = 1; seed <= (s2_test_cases(400) + 199) / 200; seed++) {
        make_designs(db, 1200, (uint64_t)seed);
        for (int s = 0; s < 6; s++)
            for (size_t f = 0; f < sizeof filters / sizeof filters[0]; f++)
                compare_lists(db, filters[f], sorts[s], s);
    }
}

/* Each key lists what the words so far leave; esc brings back what was there; tab and up write for one. */
static void a_filter_is_applied_as_it_is_typed(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *shown;
    } cases[] = {{"/\ntype us<100\n", "filter: us<100"},
                 {"/\ntype us<100\nesc", "1 of 20 designs, by created down  "},
                 {"/\ntype densi\ntab\ntype <0.5\nenter\n", "filter: density<0.5"},
                 {"/\ntype us<100\nenter\n/\n\x15\ntype us<7\nenter\n/\nup up\n", "filter: us<100_"},
                 {"/\ntype us<1 non\n", "no column 'non'"},
                 {"/\ntype us<1 nonsense\nenter\n", "1 of 20 designs, by created down  "}};
    const char *const db = s2_dir_path("typed.db");
    make_designs(db, 20, 5);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        char script[120];
        snprintf(script, sizeof script, "%s\ndump\n", cases[n].keys);
        char *const screen = session(db, script);
        if (strstr(screen, cases[n].shown) == NULL)
            fail_msg("%s does not show %s:\n%s", script, cases[n].shown, screen);
        free(screen);
    }
}

/* ---- panels and columns of comparison, against the JSON of check and sim */

/* The number or word behind "key":, from a place on; "" where there is none. */
static void json_value(const char *from, const char *key, char out[64])
{
    char words[48];
    snprintf(words, sizeof words, "\"%s\":", key);
    const char *at = from != NULL ? strstr(from, words) : NULL;
    out[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(words);
    at += *at == '"';
    snprintf(out, 64, "%.*s", (int)strcspn(at, ",}\"]"), at);
}

static double json_number(const char *from, const char *key)
{
    char word[64];
    json_value(from, key, word);
    return word[0] != '\0' ? strtod(word, NULL) : (double)NAN;
}

/* What a screen and a command are asked. */
typedef struct asked {
    const char *len;
    const char *phase;
    const char *gpu;
    const char *cache;
} asked;

/* What check and sim print of a pattern. */
typedef struct printed {
    char *check;
    char *sim;
} printed;

static printed print_json(const char *text, const asked *ask, bool bounds)
{
    const char *const check[] = {"check", "--json", text};
    const char *const sim[] = {"sim",    "--json",  text,       "--len",      ask->len,   "--gpu",
                               ask->gpu, "--phase", ask->phase, "--kv-dtype", ask->cache, "--bounds"};
    return (printed){command(s2_cmd_check, s2_dir_path("unused.db"), 3, check),
                     command(s2_cmd_sim, s2_dir_path("unused.db"), bounds ? 12 : 11, sim)};
}

static void expect_words(const char *screen, const s2_buf *words, const char *text)
{
    if (strstr(screen, words->data) == NULL)
        fail_msg("'%s' is not on the screen of\n%s\n%s", words->data, text, screen);
}

/* "+ rows  every length", "x union only to 1088 tokens"; what the screen leaves undecided is not compared. */
static void compare_verdicts(const char *screen, const char *json, const char *text)
{
    static const char *const names[] = {"rows", "union", "kv"};
    for (int at = 0; at < 3; at++) {
        char key[32], verdict[64], scope[64], complete[64];
        s2_buf words = {0};
        snprintf(key, sizeof key, "\"name\":\"%s\"", names[at]);
        const char *const property = strstr(json, key);
        assert_non_null(property);
        const char *const end = strchr(property + 1, '{') != NULL ? strstr(property, "},{") : NULL;
        json_value(property, "verdict", verdict);
        json_value(property, "scope", scope);
        json_value(property, "complete_to", complete);
        const char *const found = strstr(property, "complete_to");
        if (end != NULL && found != NULL && found > end && strstr(property + 1, "\"name\"") < found)
            complete[0] = '\0';
        if (strcmp(verdict, "unknown") == 0)
            continue;
        s2_buf_printf(&words, "%c %-5s ", verdict[0] == 'h' ? '+' : 'x', names[at]);
        if (verdict[0] == 'h')
            s2_buf_puts(&words, strcmp(scope, "all") == 0 ? "every length" : "this length");
        else if (complete[0] != '\0')
            s2_buf_printf(&words, "only to %s tokens", complete);
        s2_buf_add(&words, "", 1);
        expect_words(screen, &words, text);
        s2_buf_release(&words);
    }
}

static void compare_bytes(const char *screen, const char *kv, const char *text)
{
    s2_buf words = {0};
    s2_buf_printf(&words, "KV cache %s of %s", s2_bytes_text(json_number(kv, "head_pages")).text,
                  s2_bytes_text(json_number(kv, "dense")).text);
    s2_buf_add(&words, "", 1);
    expect_words(screen, &words, text);
    s2_buf_release(&words);
}

/* Does text begin with a time that JSON has six digits of? A screen rounds what these were rounded from. */
static bool begins_with_time(const char *text, double us)
{
    bool begins = false;
    for (int side = -1; side <= 1; side++) {
        const s2_figure_text time = s2_time_text(us * (1 + side * 5e-6));
        begins = begins || strncmp(text, time.text, strlen(time.text)) == 0;
    }
    return begins;
}

static void expect_time(const char *screen, const char *label, double us, const char *text)
{
    const char *const at = strstr(screen, label);
    if (at == NULL || !begins_with_time(at + strlen(label), us))
        fail_msg("'%s%g us' is not on the screen of\n%s\n%s", label, us, text, screen);
}

static void compare_times(const char *screen, const char *json, const char *text)
{
    expect_time(screen, "\ntime ", json_number(json, "time_us"), text);
    expect_time(screen, "bounds ", json_number(json, "plan_us"), text);
    expect_time(screen, ", any ", json_number(json, "bound_us"), text);
}

/* The panel under the list prices what the row above it does, and beside a baseline what the workbench does. */
static void the_panel_of_the_list_prices_what_its_row_does(void **state)
{
    (void)state;
    static const asked asks[] = {{"32k", "decode", "h200", "as-dtype"},
                                 {"16k", "decode", "h200", "e4m3"},
                                 {"12345", "prefill", "h100-sxm", "as-dtype"},
                                 {"4k", "train", "b200", "as-dtype"},
                                 {"128k", "prefill", "h200", "as-dtype"}};
    const char *const db = s2_dir_path("priced.db");
    s2_gen_forget(db);
    for (size_t at = 0; at < sizeof asks / sizeof *asks; at++) {
        char text[64];
        snprintf(text, sizeof text, "heads 8; layers all: local %d", 4 + (int)at);
        const char *const argv[] = {"sim",
                                    "--json",
                                    text,
                                    "--len",
                                    asks[at].len,
                                    "--gpu",
                                    asks[at].gpu,
                                    "--phase",
                                    asks[at].phase,
                                    "--kv-dtype",
                                    asks[at].cache,
                                    "--batch",
                                    at == 0 ? "4" : "1"};
        char *const json = command(s2_cmd_sim, db, 13, argv);
        char *const screen = session(db, "dump\n");
        char *const pinned = session(db, "dump\nb\ndump\n");
        expect_time(screen, "\n time ", json_number(json, "time_us"), text);
        assert_non_null(strstr(pinned, "prefill 128k on h200"));
        free(json);
        free(screen);
        free(pinned);
    }
}

static void draw_design(s2_session *session, const char *text, const asked *ask)
{
    s2_knobs *const knobs = &session->state.knobs;
    assert_int_equal(s2_session_init(session, 50, 160, true, S2_VIEW_DESIGN), S2_OK);
    assert_true(s2_knob_set(knobs, S2_KNOB_LEN, ask->len));
    assert_true(s2_knob_set(knobs, S2_KNOB_PRICE, ask->phase));
    assert_true(s2_knob_set(knobs, S2_KNOB_GPU, ask->gpu));
    assert_true(s2_knob_set(knobs, S2_KNOB_CACHE, ask->cache));
    s2_session_open(session, 0, text, NULL);
    s2_session_draw(session);
}

/* Constants of a data sheet are called a guess, and no others. */
static void compare_guess(const char *screen, const char *gpu)
{
    s2_calibration *const found = s2_malloc(sizeof *found);
    assert_non_null(found);
    const bool calibrated = s2_calibration_find(gpu, found) == S2_OK;
    s2_free(found);
    if ((strstr(screen, " guess") == NULL) != calibrated)
        fail_msg("%s is %s:\n%s", gpu, calibrated ? "calibrated" : "not calibrated", screen);
}

static void compare_panels(const s2_session *session, const asked *ask, const char *text)
{
    s2_buf screen = {0};
    const printed json = print_json(text, ask, false);
    s2_canvas_dump(&session->canvas, false, &screen);
    s2_buf_add(&screen, "", 1);
    compare_verdicts(screen.data, json.check, text);
    if (strcmp(ask->phase, "train") != 0)
        compare_bytes(screen.data, strstr(json.sim, "\"kv\":"), text);
    if (session->model.design->late.expected.known) {
        compare_times(screen.data, json.sim, text);
        compare_guess(screen.data, ask->gpu);
    }
    free(json.check);
    free(json.sim);
    s2_buf_release(&screen);
}

static void panels_say_what_the_commands_print(void **state)
{
    (void)state;
    static const char *const lengths[] = {"1k", "2k", "4k"}, *const phases[] = {"prefill", "decode", "train"},
                             *const gpus[] = {"h200", "h100-sxm", "l40s"},
                             *const caches[] = {"as-dtype", "e4m3", "int8"};
    s2_rng rng = {s2_test_seed(31)};
    for (int64_t n = 0; n < (s2_test_cases(400) + 39) / 40; n++) {
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_session session;
        const s2_gen_spec options = {.most_layers = 3, .most_heads = 8};
        s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        const asked ask = {lengths[s2_rng_below(&rng, 3)], phases[s2_rng_below(&rng, 3)],
                           gpus[s2_rng_below(&rng, 3)], caches[s2_rng_below(&rng, 3)]};
        s2_pattern_print(pattern, &text);
        s2_buf_add(&text, "", 1);
        draw_design(&session, text.data, &ask);
        if (text.status == S2_OK && session.model.design->status == S2_OK && session.model.design->priced)
            compare_panels(&session, &ask, text.data);
        s2_session_release(&session);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* ---- reach */

/* Blanks and line ends as one blank each, as folding leaves them. */
static char *squeezed(const char *text)
{
    char *const out = s2_calloc(strlen(text) + 2, 1);
    size_t n = 0;
    assert_non_null(out);
    for (out[n++] = ' '; *text != '\0'; text++) {
        const bool blank = strchr(" \n|", *text) != NULL;
        if (!blank || out[n - 1] != ' ')
            out[n++] = blank ? ' ' : *text;
    }
    return out;
}

/* Each line of the command but its first, which names the pattern, is on the screen. */
static void compare_reach(const s2_session *session, const char *text)
{
    const s2_facts *const design = session->model.design;
    const bool decode = design->question.phase == S2_DECODE;
    char len[24];
    snprintf(len, sizeof len, "%lld", (long long)design->followed.n_tok);
    const char *const argv[] = {"reach", text, "--len", len, "--phase", decode ? "decode" : "prefill"};
    char *const page = command(s2_cmd_reach, NULL, 6, argv), *rest = page;
    s2_buf screen = {0};
    s2_canvas_dump(&session->canvas, false, &screen);
    s2_buf_add(&screen, "", 1);
    assert_int_equal(screen.status, S2_OK);
    char *const shown = squeezed(screen.data);
    assert_non_null(strtok_r(page, "\n", &rest));
    for (const char *line; (line = strtok_r(NULL, "\n", &rest)) != NULL;) {
        char *const wanted = squeezed(line);
        if (strstr(shown, wanted) == NULL)
            fail_msg("'%s' is not on the screen of\n%s\n%s", line, text, screen.data);
        s2_free(wanted);
    }
    s2_free(shown);
    s2_buf_release(&screen);
    free(page);
}

static void the_view_of_reach_says_what_the_command_prints(void **state)
{
    (void)state;
    static const char *const lengths[] = {"1k", "2k", "4k"}, *const phases[] = {"prefill", "decode", "train"};
    s2_rng rng = {s2_test_seed(37)};
    for (int64_t n = 0; n < (s2_test_cases(400) + 39) / 40; n++) {
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_session session;
        const s2_gen_spec options = {.most_layers = 4,
                                     .most_heads = 8,
                                     .explicit_terms = n % 4 == 0,
                                     .dynamic_terms = true,
                                     .not_causal = true};
        s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        const asked ask = {lengths[s2_rng_below(&rng, 3)], phases[s2_rng_below(&rng, 3)], "h200", "as-dtype"};
        s2_pattern_print(pattern, &text);
        s2_buf_add(&text, "", 1);
        draw_design(&session, text.data, &ask);
        s2_session_key(&session, '7');
        assert_int_equal(s2_session_resize(&session, 400, 200), S2_OK);
        s2_session_draw(&session);
        /* the text of a mask names a file, which is not read here */
        assert_true(session.model.design->followed.asked || session.model.design->status != S2_OK);
        if (session.model.design->followed.asked && session.model.design->followed.status == S2_OK)
            compare_reach(&session, text.data);
        s2_session_release(&session);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* What the line of a label has from a column on. */
static const char *value_of(const char *screen, const char *label, int col)
{
    const char *line = screen;
    while (line != NULL && strncmp(line, label, strlen(label)) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL || (int)strcspn(line, "\n") < col)
        fail_msg("no '%s' on\n%s", label, screen);
    return line + col;
}

/* The command of the screen compares bounds where one of the designs has no prediction. */
static bool compares_bounds(const s2_session *session)
{
    s2_buf said = {0};
    s2_tui_command(&session->model, &session->state, &said);
    s2_buf_add(&said, "", 1);
    const bool bounds = strstr(said.data, " --bounds") != NULL;
    s2_buf_release(&said);
    return bounds;
}

/* The time, how many times shorter than dense it is, and what binds it, as the command prints them. */
static void compare_time(const char *screen, int col, const char *json, bool bounds, const char *text)
{
    char by[64], speed[32];
    const double us = json_number(json, "time_us");
    const char *const time = value_of(screen, "time", col);
    if (strncmp(time, ">= ", 3) == 0 ? !bounds : bounds)
        fail_msg("time %.20s, %s, for\n%s", time, bounds ? "a bound" : "a prediction", text);
    if (!begins_with_time(time + (bounds ? 3 : 0), us))
        fail_msg("time %.20s, should be %g us, for\n%s", time, us, text);
    snprintf(speed, sizeof speed, "%.2fx", json_number(json, "dense_time_us") / us);
    if (fabs(strtod(speed, NULL) - strtod(value_of(screen, "vs dense", col), NULL)) > 0.011)
        fail_msg("vs dense %.20s, should be %s, for\n%s", value_of(screen, "vs dense", col), speed, text);
    json_value(json, "bound_by", by);
    if (strncmp(value_of(screen, "by", col), by, strlen(by)) != 0)
        fail_msg("by %.20s, should be %s, for\n%s", value_of(screen, "by", col), by, text);
}

static void compare_column(const char *screen, int col, const printed *json, bool bounds, const char *text)
{
    const char *const sim = strstr(json->sim, "\"time_us\":");
    compare_time(screen, col, sim, bounds, text);
    const s2_figure_text want = s2_bytes_text(json_number(sim, "head_pages"));
    if (strncmp(value_of(screen, "kv cache", col), want.text, strlen(want.text)) != 0)
        fail_msg("kv cache %.20s, should be %s, for\n%s", value_of(screen, "kv cache", col), want.text, text);
    const double shown = strtod(value_of(screen, "density", col), NULL);
    if (!(fabs(shown - json_number(json->sim, "density")) < 1.1e-5))
        fail_msg("density %g, should be %g, for\n%s", shown, json_number(json->sim, "density"), text);
}

/* Two designs side by side, each in its own column. */
static void columns_of_a_comparison_say_what_the_commands_print(void **state)
{
    (void)state;
    enum { FIRST = 12, WIDTH = (160 - FIRST) / 2 };
    s2_rng rng = {s2_test_seed(33)};
    for (int64_t n = 0; n < (s2_test_cases(400) + 39) / 40; n++) {
        s2_arena arena = {0};
        s2_buf text[2] = {{0}, {0}}, screen = {0};
        s2_session session;
        const s2_gen_spec options = {.most_layers = 2, .most_heads = 6};
        assert_int_equal(s2_session_init(&session, 50, 160, true, S2_VIEW_COMPARE), S2_OK);
        assert_true(s2_knob_set(&session.state.knobs, S2_KNOB_LEN, "2k"));
        for (int at = 0; at < 2; at++) {
            s2_pattern_print(s2_gen_spec_pattern(&rng, &options, &arena), &text[at]);
            s2_buf_add(&text[at], "", 1);
            s2_session_compare_add(&session, at == 0 ? "first" : "second", text[at].data);
        }
        s2_session_draw(&session);
        /* as before the predictions are there: bounds are compared */
        session.facts[S2_SLOT_COMPARE].late.expected.known &= n % 2 == 0;
        s2_session_draw(&session);
        s2_canvas_dump(&session.canvas, false, &screen);
        s2_buf_add(&screen, "", 1);
        const bool bounds = compares_bounds(&session);
        assert_true(bounds || n % 2 == 0);
        for (int at = 0; at < 2; at++) {
            const s2_facts *const facts = session.model.compare[at];
            if (text[at].status != S2_OK || facts->status != S2_OK || !facts->priced)
                continue;
            const asked ask = {"2k", "prefill", "h200", "as-dtype"};
            const printed json = print_json(text[at].data, &ask, bounds);
            compare_column(screen.data, FIRST + at * WIDTH, &json, bounds, text[at].data);
            free(json.check);
            free(json.sim);
        }
        s2_session_release(&session);
        s2_buf_release(&text[0]);
        s2_buf_release(&text[1]);
        s2_buf_release(&screen);
        s2_arena_release(&arena);
    }
}

/* ---- what is kept */

static void write_text(const char *path, const char *text, size_t n)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fwrite(text, 1, n, file);
    fclose(file);
}

/* Whatever becomes of the file, the next session begins; nothing of it but a whole pattern is on the workbench. */
static void a_damaged_session_file_is_survived(void **state)
{
    (void)state;
    char db[128], path[128], damaged[128];
    snprintf(db, sizeof db, "%s", s2_dir_path("kept.db"));
    make_designs(db, 20, 8);
    snprintf(path, sizeof path, "%s", s2_dir_path("state/s2/session"));
    snprintf(damaged, sizeof damaged, "%s", s2_dir_path("damaged"));
    free(kept_session(db, "S\n|\nenter\nesc\n/\ntype us<100\nenter\n1\nj ] b i i\n", path));
    char *const again = kept_session(db, "dump\n1\ndump\n", path);
    assert_non_null(strstr(again, "by name down  filter: us<100"));
    assert_non_null(strstr(again, "stride        16"));
    assert_null(strstr(again, "heads   density"));
    free(again);
    FILE *const in = fopen(path, "r");
    char text[4096], changed[4096];
    assert_non_null(in);
    const size_t n = fread(text, 1, sizeof text, in);
    fclose(in);
    s2_rng rng = {s2_test_seed(32)};
    for (int64_t at = 0; at < (s2_test_cases(400) + 19) / 20; at++) {
        memcpy(changed, text, n);
        for (uint64_t hit = s2_rng_below(&rng, 12); hit > 0; hit--)
            changed[s2_rng_below(&rng, n)] = (char)s2_rng_below(&rng, 256);
        write_text(damaged, changed, at % 4 == 0 ? s2_rng_below(&rng, n) : n);
        char *const screen = kept_session(db, "dump\n5\n1\ndump\nl\ndump\n", damaged);
        assert_non_null(strstr(screen, "s2 workbench"));
        assert_null(strchr(screen, 27));
        free(screen);
    }
}

/* ---- columns, forms, copies, words */

static void what_is_chosen_and_filled_in_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *shown, *not_shown;
    } cases[] = {{"|\ntype kv\nenter\nesc\n", "measured", "kv   measured"},
                 {"|\ntype family\nenter\nesc\n", "family", NULL},
                 {"v\n", "s2 validate --len 1k,4k --device cpu", NULL},
                 {"v\ndown right\n", "s2 validate --len 1k,4k --device gpu", NULL},
                 {"v\n\x15\ntype 2k\ndown down right\n", "--len 2k --device cpu --phase decode", NULL},
                 {"v\ntype ,8k\nesc\nv\n", "--len 1k,4k", "--len 1k,4k,8k"},
                 {"1\na\nup\ntype --seed 3\n", "--minimize us,kv_bytes --seed 3", NULL},
                 {"Y\n", "the design's text, in one line", NULL},
                 {"Y\ntype hash\nenter\n", "the hash was handed", NULL}};
    const char *const db = s2_dir_path("chosen.db");
    make_designs(db, 20, 9);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        char script[120];
        snprintf(script, sizeof script, "%s\ndump\n", cases[n].keys);
        char *const screen = session(db, script);
        if (strstr(screen, cases[n].shown) == NULL ||
            (cases[n].not_shown != NULL && strstr(screen, cases[n].not_shown) != NULL))
            fail_msg("%s does not show %s:\n%s", script, cases[n].shown, screen);
        free(screen);
    }
}

/* Keys come from a text: a device without an end, a folder and a file that is cut by a NUL are none. */
static void a_script_that_is_no_text_is_refused(void **state)
{
    char with_nul[128];
    const char *const paths[] = {"/dev/zero", s2_dir, with_nul};
    (void)state;
    snprintf(with_nul, sizeof with_nul, "%s/keys", s2_dir);
    FILE *const file = fopen(with_nul, "wb");
    assert_true(file != NULL && fwrite("1\n2\0 nonsense\n", 1, 14, file) == 14 && fclose(file) == 0);
    for (size_t n = 0; n < sizeof paths / sizeof *paths; n++) {
        bool left_behind;
        s2_diag diag = {0};
        s2_explorer_options options = {
            .out = fopen("/dev/null", "w"), .rows = 24, .cols = 80, .script = paths[n], .as = "text"};
        options.db_path = s2_dir_path("none.db");
        assert_int_equal(s2_explorer_run(&options, &left_behind, &diag), S2_EPARSE);
        fclose(options.out);
    }
}

/* A query of the list begins by itself whenever somebody writes: it takes no key from the job that the title names. */
static void the_key_that_ends_a_job_ends_it_whatever_the_list_does(void **state)
{
    static s2_explorer e;
    s2_job job;
    int status = 0;
    (void)state;
    OK(s2_session_init(&e.session, 24, 80, true, S2_VIEW_DESIGNS));
    OK(s2_db_open(s2_dir_path("asked.db"), S2_DB_WRITE, &e.list.db, NULL));
    s2_job_init(&job);
    OK(s2_job_add_words(&job, "s2 validate"));
    job.state = S2_JOB_RUNNING;
    job.pid = fork();
    assert_true(job.pid >= 0);
    if (job.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGINT, SIG_DFL);
        for (;;)
            pause();
    }
    e.jobs[e.n_jobs++] = &job;
    e.list_worker.busy = true; /* a query is under way */
    assert_true(s2_explorer_press(&e, 'C'));
    assert_string_equal(e.session.state.message, "validate was asked to stop; ask again to kill it");
    assert_true(s2_explorer_press(&e, 'C'));
    assert_false(e.list.given_up);
    assert_int_equal(waitpid(job.pid, &status, 0), job.pid);
    assert_true(WIFSIGNALED(status));
    job.state = S2_JOB_ENDED;
    assert_true(s2_explorer_press(&e, 'C'));
    assert_true(e.list.given_up);
    e.list_worker.busy = false;
    s2_db_close(&e.list.db);
    s2_job_release(&job);
    s2_session_release(&e.session);
    s2_arena_release(&e.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_script_that_is_no_text_is_refused),
        cmocka_unit_test(panels_say_what_the_commands_print),
        cmocka_unit_test(the_view_of_reach_says_what_the_command_prints),
        cmocka_unit_test(columns_of_a_comparison_say_what_the_commands_print),
        cmocka_unit_test(a_damaged_session_file_is_survived),
        cmocka_unit_test(what_is_chosen_and_filled_in_is_shown),
        cmocka_unit_test(a_refused_filter_leaves_the_list_and_its_filter),
        cmocka_unit_test(the_sort_is_marked_on_its_column),
        cmocka_unit_test(a_file_is_opened_on_the_workbench_or_refused_with_its_place),
        s2_long_test(the_front_on_the_screen_is_that_of_the_command),
        s2_long_test(the_list_on_the_screen_is_that_of_the_command),
        cmocka_unit_test(a_filter_is_applied_as_it_is_typed),
        cmocka_unit_test(the_front_is_brushed_to_a_list),
        cmocka_unit_test(the_key_that_ends_a_job_ends_it_whatever_the_list_does),
        cmocka_unit_test(the_panel_of_the_list_prices_what_its_row_does),
        cmocka_unit_test(a_design_of_the_list_is_pinned_as_the_baseline)};
    return cmocka_run_group_tests(tests, s2_dir_make, s2_dir_remove);
}
