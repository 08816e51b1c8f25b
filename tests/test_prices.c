/*
 * One design and one question have one price: what s2 sim prints, what a row of the database says, whether the command
 * or the workbench stored it, what the screens show, and what the library and a search answer.
 */
#include "tests/s2test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/commands.h"
#include "cli/store.h"
#include "explorer/explorer.h"
#include "library/s2.h"
#include "search/search.h"
#include "tests/gen_spec.h"
#include "tests/s2dir.h"
#include "tui/view.h"

/* How often each road was taken. */
static struct {
    int32_t priced, listed, spilled, refused, workbench;
} taken;

/* ---- what is asked */

typedef struct asked {
    char text[2048];
    s2_question question;
    int32_t page_tok, n_ranks; /* which the screens do not ask */
} asked;

static void draw_pattern(s2_rng *rng, s2_arena *arena, asked *ask)
{
    static const char *const bodies[] = {"local 4 | stride 8 phase kv", "local 2 | random 3 seed 1", "dense",
                                         "local 100t | sink 1"};
    s2_buf text = {0};
    switch (s2_rng_below(rng, 3)) {
    case 0: s2_buf_printf(&text, "model qwen2.5-0.5b; layers all: %s", bodies[s2_rng_below(rng, 4)]); break;
    case 1:
        s2_buf_printf(&text, "heads 8; kv-heads %d; layers all: %s", 1 << s2_rng_below(rng, 4),
                      bodies[s2_rng_below(rng, 4)]);
        break;
    default: {
        const s2_gen_spec spec = {.most_layers = 2, .most_heads = 8, .layers_differ = true};
        s2_pattern_line(s2_gen_spec_pattern(rng, &spec, arena), &text);
    }
    }
    assert_true(text.status == S2_OK && text.len < sizeof ask->text);
    memcpy(ask->text, text.data, text.len);
    ask->text[text.len] = '\0';
    s2_buf_release(&text);
}

/* Some of what is rare is drawn often. */
static asked draw(s2_rng *rng, s2_arena *arena, int64_t nth)
{
    static const char *const gpus[] = {"h200", "h200", "h100-sxm", "l40s", "rtx4090"};
    static const s2_dtype dtypes[] = {S2_BF16, S2_BF16, S2_F16, S2_F8};
    static const int64_t lengths[] = {512, 1000, 2048, 4096, 16384, 131072};
    asked ask = {.page_tok = 16, .n_ranks = 1};
    draw_pattern(rng, arena, &ask);
    s2_question *const q = &ask.question;
    const bool of_model = strncmp(ask.text, "model ", 6) == 0;
    *q = s2_question_default(lengths[s2_rng_below(rng, of_model ? 6 : 4)]);
    snprintf(q->gpu, sizeof q->gpu, "%s", gpus[s2_rng_below(rng, 5)]);
    q->phase = (s2_phase)s2_rng_below(rng, S2_N_PHASES);
    q->dtype = dtypes[s2_rng_below(rng, 4)];
    q->cache = (s2_cache_type)s2_rng_below(rng, S2_N_CACHE_TYPES);
    q->batch = 1 << s2_rng_below(rng, q->phase == S2_DECODE ? 11 : 4);
    if (of_model && nth % 3 == 0) {
        q->phase = S2_DECODE;
        q->len_tok = 131072; /* of many sequences the cache does not fit */
        q->batch = 1024;
    }
    if (nth % 6 == 1) {
        q->phase = S2_PREFILL;
        snprintf(q->gpu, sizeof q->gpu, "h200");
        q->dtype = S2_BF16;
    }
    if (q->phase == S2_TRAIN) /* which keeps none */
        q->cache = S2_CACHE_AS_DTYPE;
    q->listed = q->phase == S2_PREFILL && (nth % 6 == 1 || s2_rng_below(rng, 4) == 0);
    return ask;
}

/* The words of a command behind its name: those of the question, and the rest. */
static char *run_with(s2_command_fn fn, const char *db, const char *line, const char *text, FILE *input,
                      s2_exit *code)
{
    char *out = NULL, copy[400], *words[40], *rest = copy;
    int n = 0;
    size_t n_out = 0;
    s2_cli cli;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    if (text != NULL)
        words[n++] = (char *)(uintptr_t)text;
    s2_cli_init(&cli, "s2", n, words);
    cli.command = words[0];
    cli.db_path = db;
    cli.in = input != NULL ? input : cli.in;
    cli.out = open_memstream(&out, &n_out);
    cli.err = fopen("/dev/null", "w");
    *code = fn(&cli, n, words);
    fclose(cli.err);
    s2_cli_finish(&cli, s2_store_finish(&cli, 0));
    fclose(cli.out);
    return out;
}

static char *run(s2_command_fn fn, const char *db, const char *line, const char *text, s2_exit *code)
{
    return run_with(fn, db, line, text, NULL, code);
}

static void line_of(const char *command, const asked *ask, char out[400])
{
    s2_buf buf = {0};
    s2_buf_printf(&buf, "%s ", command);
    s2_question_print(&ask->question, &buf);
    if (ask->page_tok != 16)
        s2_buf_printf(&buf, " --page %d", ask->page_tok);
    if (ask->n_ranks != 1)
        s2_buf_printf(&buf, " --tp %d", ask->n_ranks);
    assert_true(buf.status == S2_OK && buf.len < 400);
    memcpy(out, buf.data, buf.len);
    out[buf.len] = '\0';
    s2_buf_release(&buf);
}

/* ---- JSON: the first value of a key behind a place */

static const char *value_of(const char *json, const char *key)
{
    char words[48];
    snprintf(words, sizeof words, "\"%s\":", key);
    const char *const at = json != NULL ? strstr(json, words) : NULL;
    if (at == NULL)
        fail_msg("no \"%s\" in %.300s", key, json != NULL ? json : "nothing");
    return at + strlen(words);
}

static double number_of(const char *json, const char *key)
{
    return strtod(value_of(json, key), NULL);
}

static bool is_word(const char *json, const char *key, const char *word)
{
    const char *const at = value_of(json, key);
    return at[0] == '"' && strncmp(at + 1, word, strlen(word)) == 0 && at[1 + strlen(word)] == '"';
}

/* Both stand for one number: rounded to six digits, or to so many decimals. */
static void expect(const char *what, double a, double b, double decimals, const asked *ask)
{
    char line[400];
    if (fabs(a - b) <= 5.1e-6 * fmax(fabs(a), fabs(b)) + decimals)
        return;
    line_of("s2 sim", ask, line);
    fail_msg("%s: %.9g and %.9g: %s '%s'", what, a, b, line, ask->text);
}

/* ---- the roads */

/* What a cache keeps as it is priced. */
static double kept_bytes(const char *sim, const asked *ask)
{
    return ask->question.phase == S2_TRAIN
               ? 0
               : number_of(value_of(sim, "kv"), ask->question.listed ? "dense" : "head_pages");
}

static void compare_row(const char *db, const char *sim, const char *who, const asked *ask)
{
    s2_exit code;
    char settings[80] = "usual";
    char *const row = run(s2_cmd_ls, db, "ls --format json", NULL, &code);
    assert_int_equal(code, S2_EXIT_OK);
    expect(who, number_of(row, "us"), number_of(sim, "time_us"), 6e-4, ask);
    expect(who, number_of(row, "kv_bytes"), kept_bytes(sim, ask), 0, ask);
    expect(who, number_of(row, "density"), number_of(sim, "density"), 6e-6, ask);
    if (ask->question.listed)
        snprintf(settings, sizeof settings, "%sdevice-lists=1,keeps=all",
                 ask->page_tok != 16 ? "page=64," : "");
    else if (ask->page_tok != 16)
        snprintf(settings, sizeof settings, "page=64");
    const bool predicted = strncmp(value_of(sim, "predicted"), "true", 4) == 0;
    if (!is_word(row, "settings", settings) || (is_word(row, "priced", "bound") == predicted) ||
        number_of(row, "tp") != ask->n_ranks || number_of(row, "batch") != ask->question.batch ||
        !is_word(row, "dtype", s2_dtype_word(ask->question.dtype)) ||
        (strstr(ask->text, "model ") != NULL && !is_word(row, "llm", "qwen2.5-0.5b")))
        fail_msg("%s: %.600s\n%.300s\n'%s'", who, row, sim, ask->text);
    free(row);
}

static bool library_takes(const asked *ask)
{
    return ask->question.dtype != S2_F8 && ask->question.cache == S2_CACHE_AS_DTYPE;
}

/* An answer in *price, or S2_API_... */
static int ask_library(const asked *ask, s2_api_price *price)
{
    s2_api_pattern *pattern;
    const s2_api_price_options options = {.size = sizeof options,
                                          .gpu = ask->question.gpu,
                                          .phase = (int32_t)ask->question.phase,
                                          .dtype = (int32_t)ask->question.dtype,
                                          .context_tok = ask->question.len_tok,
                                          .batch = ask->question.batch,
                                          .page_tok = ask->page_tok,
                                          .ranks = ask->n_ranks,
                                          .device_lists = ask->question.listed};
    *price = (s2_api_price){.size = sizeof *price};
    assert_int_equal(s2_api_pattern_open(ask->text, strlen(ask->text), NULL, NULL, &pattern, NULL),
                     S2_API_OK);
    const int code = s2_api_pattern_price(pattern, &options, price, NULL);
    s2_api_pattern_close(pattern);
    return code;
}

static void compare_library(const char *sim, const asked *ask)
{
    s2_api_price price;
    if (!library_takes(ask))
        return;
    assert_int_equal(ask_library(ask, &price), S2_API_OK);
    expect("library: time", price.time_us, number_of(sim, "time_us"), 0, ask);
    expect("library: bound", price.bound_us, number_of(sim, "bound_us"), 0, ask);
    expect("library: dense", price.dense_time_us, number_of(sim, "dense_time_us"), 0, ask);
    expect("library: pairs", (double)price.pairs, number_of(value_of(sim, "pairs"), "read"), 0, ask);
    expect("library: density", price.density, number_of(sim, "token_density"), 0, ask);
    expect("library: dense cache", (double)price.kv_dense_bytes, number_of(value_of(sim, "kv"), "dense"), 0,
           ask);
    if (ask->question.phase != S2_TRAIN)
        expect("library: cache", (double)price.kv_bytes, kept_bytes(sim, ask), 0, ask);
    const bool mean = strstr(sim, "\"error_is\":\"mean\"") != NULL,
               allowed = strstr(sim, "\"error_is\":\"allowance\"") != NULL;
    assert_int_equal(price.error_is, mean      ? S2_API_ERROR_MEAN
                                     : allowed ? S2_API_ERROR_ALLOWANCE
                                               : S2_API_ERROR_UNKNOWN);
    if (mean || allowed)
        expect("library: error", price.error_pct, number_of(sim, "error_pct"), 0, ask);
    expect("library: fits", (double)price.fit_batch, number_of(value_of(sim, "fit"), "batch"), 0, ask);
    const char *const whole = strstr(sim, "\"end_to_end\":{");
    expect("library: end to end", price.end_to_end_us, whole != NULL ? number_of(whole, "time_us") : 0, 0,
           ask);
}

/* What a search of this design alone compares. */
static void compare_search(const char *sim, const s2_facts *facts, const asked *ask)
{
    s2_arena arena = {0};
    s2_search search = {.by = {s2_objective_time(ask->question.phase), S2_BY_KV_BYTES}, .n_by = 2};
    s2_point point = {0};
    s2_diag diag = {0};
    bool within;
    assert_int_equal(s2_question_options(&ask->question, &facts->pattern, &arena, &search.options, &diag),
                     S2_OK);
    search.options.page_tok = ask->page_tok;
    search.options.n_ranks = ask->n_ranks;
    assert_int_equal(s2_search_price(&search, &facts->pattern, &point, &within), S2_OK);
    const bool predicts = s2_sim_predicts(&search.options, ask->question.phase);
    expect("search: time", point.value[0], number_of(sim, predicts ? "time_us" : "plan_us"), 0, ask);
    if (ask->question.phase != S2_TRAIN)
        expect("search: cache", point.value[1], kept_bytes(sim, ask), 0, ask);
    s2_arena_release(&arena);
}

static void compare_screen(const char *sim, const s2_facts *facts, const asked *ask)
{
    const s2_expected *const expected = &facts->late.expected;
    const bool predicted = strncmp(value_of(sim, "predicted"), "true", 4) == 0;
    assert_true(expected->sized && expected->known == predicted);
    expect("screen: time", expected->time_us, number_of(sim, "time_us"), 0, ask);
    expect("screen: dense", expected->dense_us, number_of(sim, "dense_time_us"), 0, ask);
    expect("screen: plan", s2_facts_plan_us(facts), number_of(sim, "plan_us"), 0, ask);
    expect("screen: bound", expected->bound_us, number_of(sim, "bound_us"), 0, ask);
    expect("screen: density", facts->density, number_of(sim, "density"), 0, ask);
    if (ask->question.phase == S2_TRAIN)
        return;
    expect("screen: cache", (double)facts->kv_bytes[S2_KV_POINTS - 1], kept_bytes(sim, ask), 0, ask);
    expect("screen: dense cache", (double)facts->kv_dense[S2_KV_POINTS - 1],
           number_of(value_of(sim, "kv"), "dense"), 0, ask);
}

static void put_knob(const s2_question *question, s2_knob knob, s2_buf *script)
{
    s2_buf_puts(script, "down\nenter\n\x15\ntype ");
    switch (knob) {
    case S2_KNOB_LEN: s2_buf_printf(script, "%lld", (long long)question->len_tok); break;
    case S2_KNOB_BATCH: s2_buf_printf(script, "%d", question->batch); break;
    case S2_KNOB_DTYPE: s2_buf_puts(script, s2_dtype_word(question->dtype)); break;
    case S2_KNOB_CACHE: s2_buf_puts(script, s2_cache_type_word(question->cache)); break;
    case S2_KNOB_GPU: s2_buf_puts(script, question->gpu); break;
    default: s2_buf_puts(script, question->listed ? "device-lists" : s2_phase_word(question->phase));
    }
    s2_buf_puts(script, "\nenter\n");
}

/* The workbench stores what it shows: a session that turns its knobs to the question, and saves. */
static void compare_workbench(const char *sim, const asked *ask, int64_t nth)
{
    s2_buf script = {0};
    s2_exit code;
    char db[128];
    snprintf(db, sizeof db, "%s/bench-%lld.db", s2_dir, (long long)nth);
    s2_buf_puts(&script, "1\n");
    for (int32_t knob = 1; knob < S2_KNOB_LEN; knob++)
        s2_buf_puts(&script, "down\n");
    for (s2_knob knob = S2_KNOB_LEN; knob < S2_N_KNOBS; knob++)
        put_knob(&ask->question, knob, &script);
    s2_buf_printf(&script, "E\n\x15\ntype %s\nenter\ns\n\x15\ntype saved\nenter\nwait\n", ask->text);
    assert_int_equal(script.status, S2_OK);
    FILE *const input = fmemopen(script.data, script.len, "r");
    free(run_with(s2_cmd_tui, db, "tui --script -", NULL, input, &code));
    fclose(input);
    s2_buf_release(&script);
    assert_int_equal(code, S2_EXIT_OK);
    compare_row(db, sim, "row of the workbench", ask);
    taken.workbench++;
}

/* Nobody prices what one refuses. */
static void compare_refusal(const s2_facts *facts, const asked *ask)
{
    s2_api_price price;
    if (library_takes(ask) && ask_library(ask, &price) == S2_API_OK)
        fail_msg("the library prices what s2 sim refuses: '%s'", ask->text);
    if (facts->status == S2_OK && facts->late.expected.sized && ask->page_tok == 16 && ask->n_ranks == 1)
        fail_msg("the screen prices what s2 sim refuses: '%s'", ask->text);
}

static void compare_all(const asked *ask, int64_t nth)
{
    char line[400], db[128];
    s2_exit code;
    s2_facts facts;
    line_of("sim --json", ask, line);
    snprintf(db, sizeof db, "%s/%lld.db", s2_dir, (long long)nth);
    char *const sim = run(s2_cmd_sim, db, line, ask->text, &code);
    s2_facts_build(ask->text, strlen(ask->text), &ask->question, &facts);
    if (facts.status == S2_OK)
        s2_facts_late(&facts, &facts.late);
    if (code != S2_EXIT_OK) {
        taken.refused++;
        compare_refusal(&facts, ask);
    } else {
        taken.priced++;
        taken.listed += ask->question.listed;
        const bool keeps = ask->question.phase != S2_TRAIN;
        assert_true(keeps == (strncmp(value_of(sim, "tiers"), "null", 4) != 0));
        taken.spilled += keeps && number_of(value_of(sim, "tiers"), "host") > 0;
        compare_row(db, sim, "row", ask);
        compare_library(sim, ask);
        const bool screens = facts.priced && ask->page_tok == 16 && ask->n_ranks == 1;
        if (screens)
            compare_screen(sim, &facts, ask);
        if (screens && ask->question.len_tok >= 1024)
            compare_workbench(sim, ask, nth);
        if (facts.status == S2_OK)
            compare_search(sim, &facts, ask);
    }
    s2_facts_release(&facts);
    free(sim);
}

static void one_price_on_every_road(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(40); n++) {
        s2_rng rng = {s2_test_seed(20261212) + (uint64_t)n};
        s2_arena arena = {0};
        asked ask = draw(&rng, &arena, n);
        if (s2_rng_below(&rng, 3) == 0)
            ask.page_tok = 64;
        if (strncmp(ask.text, "model ", 6) == 0 || strncmp(ask.text, "heads 8; kv-heads", 17) == 0)
            ask.n_ranks = 1 << s2_rng_below(&rng, 2);
        compare_all(&ask, n);
        s2_arena_release(&arena);
    }
    print_message(
        "# s2: %d priced, %d in lists on the device, %d with a cache in host memory, %d stored by the "
        "workbench, %d refused\n",
        taken.priced, taken.listed, taken.spilled, taken.workbench, taken.refused);
    assert_true(taken.priced < 200 ||
                (taken.listed > 0 && taken.spilled > 0 && taken.refused > 0 && taken.workbench > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_price_on_every_road),
    };
    return cmocka_run_group_tests_name("prices", tests, s2_dir_make, s2_dir_remove);
}
