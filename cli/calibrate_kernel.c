/* `s2 calibrate --kernel ./mine.so`: a table of what somebody else's kernel takes, measured here. */
#include "cli/calibrating.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/quantity.h"
#include "calibrate/launches.h"
#include "cli/gpufile.h"
#include "cli/plugged.h"
#include "judge/validate.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "sim/gpu.h"
#include "sim/layer.h"

enum {
    LEAST_TIMED = 9,   /* of a pass and head dimension: six to fit, three to judge */
    REFUSED_OFTEN = 3, /* then a kind of launch is not tried again */
    MANY_RUNS = 9,
    FEW_RUNS = 3, /* of a launch that takes longer than SLOW_US */
    WARM_UP = 3,
    SLOW_US = 100000,
    MOST_SECONDS = 3600,
    LIGHT_WINDOWS = 6,
    LIGHT_PAIRS = 1000000
};

/* What is known of the launches of one kind. */
typedef struct s2_kind_state {
    bool judged; /* a launch that tells its pattern from a dense one read what it has to read */
    bool wrong;  /* ... or did not */
    bool ended;
    int32_t n_timed, n_refused;
} s2_kind_state;

typedef struct s2_timing {
    s2_cli *cli;
    const s2_args *args;
    s2_device *device;
    const s2_kernel *kernel;
    const char *what; /* --kernel */
    const char *gpu;
    double begun_s, budget_s;
    bool out_of_time;
    s2_kind_state kinds[S2_LAUNCH_KINDS]; /* of the pass at work */
    double us, flop;                      /* of its largest launch so far */
    double spent_s, longest_s;            /* on its launches so far, and on one of them */
    int32_t n_of_pass;
    int32_t n_tried, n_timed, n_skipped;
    s2_launch_ask *asks; /* timed, with us */
    double *times_us;
    s2_diag why;
} s2_timing;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double left_s(const s2_timing *timing)
{
    return timing->begun_s + timing->budget_s - seconds();
}

/* ---- options */

static s2_exit read_budget(s2_timing *timing, int64_t *timeout_s)
{
    static const char *const not_with[] = {"from", "held-out", "once", "family", NULL};
    const char *const minutes = s2_args_str(timing->args, "minutes");
    S2_CLI_TRY(s2_args_exclude(timing->cli, timing->args, "a kernel that is not one of s2", not_with));
    if (!s2_quantity_parse(S2_QUANTITY_COUNT, minutes, 1.0, &timing->budget_s) || timing->budget_s <= 0 ||
        timing->budget_s > 24 * 60) {
        s2_cli_error(timing->cli, "--minutes %s: expected a number above 0 and up to 1440", minutes);
        return S2_EXIT_USAGE;
    }
    timing->budget_s *= 60;
    return s2_args_int(timing->cli, timing->args, "timeout", 1, MOST_SECONDS, timeout_s);
}

/* The GPU whose times these are: --gpu, or the one that the command says it computes on. */
static s2_exit find_gpu(s2_timing *timing)
{
    const s2_kernel_elsewhere *const there = timing->kernel->elsewhere;
    const char *const on = strstr(there->versions, " on "), *const word = s2_args_str(timing->args, "gpu");
    const char *const known = there->on_gpu && on != NULL ? s2_gpu_of_device(on) : NULL;
    const bool command = strchr(timing->what, ' ') != NULL;
    s2_gpu gpu;
    timing->gpu = word != NULL ? word : known;
    if (timing->gpu == NULL) {
        s2_cli_error(timing->cli,
                     there->on_gpu ? "%s computes on a GPU that is not in the table: --gpu FILE describes it"
                                   : "%s computes on this CPU: --gpu FILE describes the machine",
                     timing->kernel->traits->name);
        s2_cli_hint(timing->cli, "docs/examples/plug/one-core.txt is such a file, of one core");
        return S2_EXIT_USAGE;
    }
    if (word != NULL) /* before minutes of timing */
        S2_CLI_TRY(s2_gpufile_read(timing->cli, word, &gpu));
    if (word == NULL || !command || (known != NULL && strcmp(known, gpu.name) == 0))
        return S2_EXIT_OK;
    if (there->on_gpu && known == NULL)
        return S2_EXIT_OK;
    s2_cli_error(timing->cli, "--gpu %s: %s says that it computes on %s", word, timing->kernel->traits->name,
                 there->on_gpu ? known : "a CPU");
    return S2_EXIT_USAGE;
}

/* ---- one launch */

static void describe(const s2_launch_ask *ask, s2_buf *buf)
{
    s2_buf_printf(buf, "%s, %d x ", s2_pass_word(ask->pass), ask->batch);
    if (ask->q_tok < ask->n_tok && ask->pass != S2_PASS_DECODE)
        s2_buf_printf(buf, "%lld of ", (long long)ask->q_tok);
    s2_buf_printf(buf, "%s, %d heads on %d, head dim %d, %s%s", s2_count_text(ask->n_tok, "token").text,
                  ask->heads, ask->kv_heads, ask->head_dim, ask->causal ? "" : "not causal, ",
                  ask->body != NULL ? ask->body : "dense");
    if (ask->body != NULL)
        s2_buf_printf(buf, " in blocks of %d", ask->block_tok);
}

static void say_skipped(s2_timing *timing, const s2_launch_ask *ask, const char *outcome, const char *reason)
{
    s2_buf buf = {0};
    describe(ask, &buf);
    timing->n_skipped++;
    if (buf.status == S2_OK)
        s2_cli_error(timing->cli, "skipped: %s: %s%s%s", buf.data, outcome, reason[0] != '\0' ? ": " : "",
                     reason);
    s2_buf_release(&buf);
}

/* Whether every head reads all that it may, as any pattern does in a short context: that proves little. */
static bool tells_nothing(const s2_validate_request *request)
{
    const s2_pattern *const pattern = request->pattern;
    const int64_t last = request->seqs[0].k_tok - 1;
    for (int32_t head = 0; head < pattern->n_heads; head++)
        for (int64_t k_tok = 0; k_tok <= last; k_tok++)
            if (!s2_pattern_reads(pattern, request->phase, 0, head, last + 1, last, k_tok))
                return false;
    return true;
}

/*
 * Times of a wrong answer say nothing: launches of a kind are looked at, on a sample of their pairs, up to the
 * first that could show a wrong pattern.
 */
static bool judge(s2_timing *timing, const s2_launch_ask *ask, const s2_validate_request *request)
{
    s2_kind_state *const kind = &timing->kinds[ask->kind];
    s2_validate_request light = *request;
    s2_validation verdict;
    light.few_heads = true;
    light.max_windows = LIGHT_WINDOWS;
    light.budget_pairs = LIGHT_PAIRS;
    light.needles = light.cases = false;
    light.n_timed = light.n_steps = 0;
    if (s2_validate(timing->device, &light, &verdict) != S2_OK) {
        say_skipped(timing, ask, "there is no memory for it", "");
        return false;
    }
    kind->judged = verdict.outcome == S2_OUTCOME_OK && (ask->body == NULL || !tells_nothing(request));
    if (verdict.outcome == S2_OUTCOME_OK)
        return true;
    kind->wrong = verdict.outcome == S2_OUTCOME_WRONG_PAIRS || verdict.outcome == S2_OUTCOME_NAN ||
                  verdict.outcome == S2_OUTCOME_WRONG_VALUES;
    say_skipped(timing, ask, s2_outcome_word(verdict.outcome),
                verdict.symptom[0] != '\0' ? verdict.symptom : verdict.reason);
    kind->n_refused++;
    return false;
}

/* Judge the launch if it is the first of its kind, and time it: *us, or 0 when it was skipped. */
static s2_status time_pattern(s2_timing *timing, const s2_launch_ask *ask, const s2_pattern *pattern,
                              s2_plan_seq *seqs, double *us)
{
    for (int32_t seq = 0; seq < ask->batch; seq++)
        seqs[seq] = (s2_plan_seq){(int32_t)ask->q_tok, (int32_t)ask->n_tok};
    s2_validate_request request = s2_validate_request_init(timing->device, pattern, seqs, ask->batch);
    s2_times times = {0};
    s2_diag why = {0};
    request.phase = ask->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    request.pass = ask->pass;
    request.kernel = timing->kernel;
    request.budget_flop = 0.0;
    request.dense_beside = false;
    request.n_timed = timing->us < SLOW_US ? MANY_RUNS : FEW_RUNS;
    *us = 0;
    if (!timing->kinds[ask->kind].judged && !judge(timing, ask, &request))
        return S2_OK;
    const s2_status status = s2_validate_times(timing->device, &request, &times, &why);
    if (status != S2_OK) {
        timing->kinds[ask->kind].n_refused++;
        say_skipped(timing, ask, s2_outcome_word(why.code > 0 ? (s2_outcome)why.code : s2_outcome_of(status)),
                    s2_diag_text(&why, status));
    } else if (times.n == 0) {
        timing->kinds[ask->kind].n_refused++;
        say_skipped(timing, ask, "it gave no times", "");
    }
    *us = 1e3 * times.median_ms;
    return S2_OK;
}

static s2_status time_launch(s2_timing *timing, const s2_launch_ask *ask, double *us)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_buf text = {0};
    s2_launch_print_pattern(ask, &text);
    s2_plan_seq *const seqs = S2_NEW(&arena, s2_plan_seq, ask->batch);
    s2_status status = text.status != S2_OK || seqs == NULL ? S2_ENOMEM : S2_OK;
    if (status == S2_OK)
        status = s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, &timing->why);
    if (status == S2_OK)
        status = time_pattern(timing, ask, &pattern, seqs, us);
    s2_buf_release(&text);
    s2_arena_release(&arena);
    return status;
}

/* ---- all launches */

/*
 * Whether to begin a launch: its runs, estimated from the largest launch so far, and their overhead must take
 * at most half of the time left. A launch that is judged first is taken to cost as much as any did.
 */
static bool affordable(const s2_timing *timing, const s2_launch_ask *ask)
{
    const double each_s =
        timing->kinds[ask->kind].judged ? timing->spent_s / fmax(1, timing->n_of_pass) : timing->longest_s;
    const double us = timing->flop > 0 ? timing->us * ask->flop / timing->flop : 0;
    const double n_runs = (us < SLOW_US ? MANY_RUNS : FEW_RUNS) + WARM_UP;
    return each_s + us * 1e-6 * n_runs * (timing->kernel->elsewhere->on_gpu ? 2 : 1) < left_s(timing) / 2;
}

static void note_spent(s2_timing *timing, double s)
{
    timing->spent_s += s;
    timing->longest_s = fmax(timing->longest_s, s);
    timing->n_of_pass++;
    timing->n_tried++;
}

static void keep(s2_timing *timing, const s2_launch_ask *ask, double us)
{
    timing->asks[timing->n_timed] = *ask;
    timing->times_us[timing->n_timed++] = us;
    timing->kinds[ask->kind].n_timed++;
    if (ask->flop < timing->flop)
        return;
    timing->flop = ask->flop;
    timing->us = us;
}

static void end_kind(s2_timing *timing, const s2_launch_ask *ask)
{
    s2_kind_state *const kind = &timing->kinds[ask->kind];
    kind->ended = kind->wrong || (kind->n_refused >= REFUSED_OFTEN && kind->n_timed == 0);
    if (kind->ended)
        s2_cli_error(
            timing->cli, "left out: every other launch of pass %s that is %s%s", s2_pass_word(ask->pass),
            ask->q_tok < ask->n_tok && ask->pass != S2_PASS_DECODE ? "dense, with fewer queries than keys"
            : ask->body != NULL                                    ? ask->body
                                                                   : "dense",
            ask->causal ? "" : " and not causal");
}

static s2_exit time_pass(s2_timing *timing, s2_pass pass, int32_t n_after)
{
    s2_launch_ask all[S2_LAUNCHES];
    const double whole_s = timing->budget_s;
    int32_t n_long = 0;
    timing->budget_s = whole_s - left_s(timing) * n_after / (n_after + 1.0);
    memset(timing->kinds, 0, sizeof timing->kinds);
    timing->us = timing->flop = timing->spent_s = timing->longest_s = 0;
    timing->n_of_pass = 0;
    s2_launches_design(pass, all);
    for (int32_t nth = 0; nth < S2_LAUNCHES; nth++) {
        double us = 0;
        if (timing->kinds[all[nth].kind].ended)
            continue;
        if (!affordable(timing, &all[nth])) {
            n_long++;
            continue;
        }
        if (isatty(STDERR_FILENO) && !timing->cli->quiet)
            fprintf(timing->cli->err, "\r%s: %d of %d launches\033[K", s2_pass_word(pass), nth + 1,
                    S2_LAUNCHES);
        const double before_s = seconds();
        const s2_status status = time_launch(timing, &all[nth], &us);
        note_spent(timing, seconds() - before_s);
        if (status != S2_OK)
            return s2_cli_fail(timing->cli, status, "timing");
        if (us > 0)
            keep(timing, &all[nth], us);
        else
            end_kind(timing, &all[nth]);
    }
    timing->budget_s = whole_s;
    timing->out_of_time |= n_long > 0;
    if (n_long > 0)
        s2_cli_error(timing->cli,
                     "left out: %d launch%s of pass %s, which would have taken too much of the time left",
                     n_long, n_long == 1 ? "" : "es", s2_pass_word(pass));
    return S2_EXIT_OK;
}

/* A forward that is part of a backward would be timed with it. */
static bool can_time(const s2_timing *timing, s2_pass pass)
{
    if (!s2_kernel_takes_pass(timing->device, timing->kernel, pass))
        return false;
    if (pass != S2_PASS_BACKWARD || !timing->kernel->elsewhere->recomputes)
        return true;
    s2_cli_error(timing->cli, "left out: pass backward: %s runs a forward in it, which would be timed too",
                 timing->kernel->traits->name);
    return false;
}

static s2_exit time_passes(s2_timing *timing)
{
    const char *const word = s2_args_str(timing->args, "pass");
    const bool all = strcmp(word, "all") == 0;
    int32_t n_after = 0;
    bool takes[S2_N_PASSES];
    for (s2_pass pass = 0; pass < S2_N_PASSES; pass++) {
        takes[pass] = (all || strcmp(word, s2_pass_word(pass)) == 0) && can_time(timing, pass);
        n_after += takes[pass];
    }
    if (n_after == 0) {
        s2_cli_error(timing->cli, "%s has no pass that could be timed: --pass %s",
                     timing->kernel->traits->name, word);
        return S2_EXIT_REFUSED;
    }
    timing->asks = S2_NEW(&timing->cli->arena, s2_launch_ask, S2_LAUNCHES * S2_N_PASSES);
    timing->times_us = S2_NEW(&timing->cli->arena, double, S2_LAUNCHES *S2_N_PASSES);
    if (timing->asks == NULL || timing->times_us == NULL)
        return s2_cli_fail(timing->cli, S2_ENOMEM, "calibrate");
    for (s2_pass pass = 0; pass < S2_N_PASSES; pass++)
        if (takes[pass])
            S2_CLI_TRY(time_pass(timing, pass, --n_after));
    return S2_EXIT_OK;
}

/* ---- the table */

static int32_t count_like(const s2_timing *timing, const s2_launch_ask *like)
{
    int32_t n = 0;
    for (int32_t at = 0; at < timing->n_timed; at++)
        n += timing->asks[at].pass == like->pass && timing->asks[at].head_dim == like->head_dim;
    return n;
}

/* Rows of which there are too few for a law are kept as comments. */
static int32_t print_table(s2_timing *timing, s2_buf *buf)
{
    int32_t n = 0;
    s2_buf_printf(buf, "# %s%s%s: medians of %d runs, bf16, timed by s2 calibrate\n",
                  timing->kernel->traits->name, timing->kernel->elsewhere->versions[0] != '\0' ? ", " : "",
                  timing->kernel->elsewhere->versions, MANY_RUNS);
    s2_launch_print_head(buf);
    for (int32_t nth = 0; nth < timing->n_timed; nth++) {
        const bool enough = count_like(timing, &timing->asks[nth]) >= LEAST_TIMED;
        s2_buf_puts(buf, enough ? "" : "# too few like it: ");
        s2_launch_print_row(&timing->asks[nth], timing->times_us[nth], buf);
        n += enough;
    }
    return n;
}

static s2_exit save_rows(s2_timing *timing, const s2_buf *table)
{
    const char *const path = s2_args_str(timing->args, "rows");
    s2_buf copy = {0};
    if (path == NULL)
        return S2_EXIT_OK;
    s2_buf_add(&copy, table->data, table->len);
    return s2_cli_save(timing->cli, path, &copy);
}

static s2_exit fit(s2_timing *timing)
{
    s2_buf table = {0};
    char source[120];
    const int32_t n = print_table(timing, &table);
    if (table.status != S2_OK)
        return s2_cli_fail(timing->cli, table.status, "calibrate");
    s2_exit code = save_rows(timing, &table);
    if (code == S2_EXIT_OK && n == 0) {
        s2_cli_error(timing->cli,
                     "%d of %d launches were timed, %d skipped: a law takes at least %d of a pass and a head "
                     "dimension%s",
                     timing->n_timed, timing->n_tried, timing->n_skipped, LEAST_TIMED,
                     timing->out_of_time ? "; --minutes gives it longer" : "");
        code = timing->out_of_time ? S2_EXIT_UNDECIDED : S2_EXIT_REFUSED;
    }
    if (code == S2_EXIT_OK) {
        const char *const versions = timing->kernel->elsewhere->versions;
        snprintf(source, sizeof source, "s2 calibrate --kernel%s%s", versions[0] != '\0' ? ": " : "",
                 versions);
        const s2_table_source about = {.path = timing->what,
                                       .kernel = timing->kernel->traits->name,
                                       .source = source,
                                       .gpu = timing->gpu,
                                       .measured = true};
        code = s2_calibrate_table(timing->cli, timing->args, &about, table.data, table.len);
    }
    s2_buf_release(&table);
    return code;
}

/* ---- the command */

static s2_exit list(s2_timing *timing)
{
    s2_launch_ask all[S2_LAUNCHES];
    s2_buf buf = {0};
    const char *const word = s2_args_str(timing->args, "pass");
    for (s2_pass pass = 0; pass < S2_N_PASSES; pass++) {
        if (strcmp(word, "all") != 0 && strcmp(word, s2_pass_word(pass)) != 0)
            continue;
        s2_launches_design(pass, all);
        for (int32_t nth = 0; nth < S2_LAUNCHES; nth++) {
            describe(&all[nth], &buf);
            s2_buf_puts(&buf, "\n");
        }
    }
    return s2_cli_print(timing->cli, &buf);
}

static s2_exit run(s2_timing *timing, int64_t timeout_s)
{
    S2_CLI_TRY(s2_plugged_open(timing->cli, timing->device, timing->what,
                               fmin((double)timeout_s, timing->budget_s), &timing->kernel));
    S2_CLI_TRY(find_gpu(timing));
    timing->begun_s = seconds();
    S2_CLI_TRY(time_passes(timing));
    return fit(timing);
}

s2_exit s2_calibrate_kernel(s2_cli *cli, const s2_args *args)
{
    s2_timing *const timing = S2_NEW(&cli->arena, s2_timing, 1);
    int64_t timeout_s;
    if (timing == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "calibrate");
    *timing = (s2_timing){.cli = cli, .args = args, .what = s2_args_str(args, "kernel")};
    S2_CLI_TRY(read_budget(timing, &timeout_s));
    if (s2_args_has(args, "dry-run"))
        return list(timing);
    if (s2_device_open("cpu", &timing->device, &timing->why) != S2_OK) {
        s2_cli_error(cli, "%s", timing->why.msg);
        return S2_EXIT_ENVIRONMENT;
    }
    const s2_exit code = run(timing, timeout_s);
    s2_plugged_close();
    s2_device_close(&timing->device);
    return code;
}
