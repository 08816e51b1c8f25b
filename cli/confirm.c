#include "cli/confirm.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/store.h"
#include "report/verdict.h"
#include "cli/validating.h"
#include "kernels/kernel.h"
#include "pattern/parse.h"
#include "sim/units.h"

/* One design in one phase: the predicted and the measured time of all its layers. */
typedef struct pair {
    int32_t design;
    s2_phase phase;
    double predicted_us;
    double measured_us;  /* NAN: some layer was not timed */
    const char *outcome; /* NULL: not run */
    bool known;          /* judged in an earlier run of this search */
} pair;

typedef struct confirmation {
    s2_cli *cli;
    const s2_found *found;
    const s2_confirm_options *options;
    const char *device; /* the name it reports */
    int32_t n;
    s2_input *inputs;
    pair *pairs; /* n for each phase */
    pair *now;   /* the pairs of the phase being judged */
    time_t said_at;
    bool stopped;
} confirmation;

/* One layer of each kind represents all that read the same; a design's time sums over its kinds. */
static void take(void *user, const s2_subject *subject)
{
    confirmation *const c = user;
    const s2_validation *const v = subject->verdict;
    c->device = s2_arena_strndup(&c->cli->arena, subject->device->name, strlen(subject->device->name));
    for (int32_t n = 0; n < c->n; n++) {
        if (&c->inputs[n].pattern != subject->pattern)
            continue;
        pair *const p = &c->now[n];
        if (p->outcome == NULL || v->outcome != S2_OUTCOME_OK)
            p->outcome = s2_outcome_word(v->outcome);
        p->measured_us += v->warm.n > 0 ? v->warm.median_ms * 1e3 * subject->n_like : (double)NAN;
    }
}

static int64_t index_of(const confirmation *c, const pair *p)
{
    return c->found->designs[p->design].point->index;
}

/* Report every design on a terminal, but only one now and then in a log. */
static void say(confirmation *c, const pair *p)
{
    enum { QUIET_SECONDS = 10 };
    const time_t now = time(NULL);
    if (isatty(STDERR_FILENO) != 1 && now - c->said_at < QUIET_SECONDS)
        return;
    c->said_at = now;
    fprintf(c->cli->err, "%s: %d of %d, %s\n", s2_phase_word(p->phase), (int)p->design + 1, (int)c->n,
            c->found->designs[p->design].name);
}

static bool wanted(void *user, int32_t input)
{
    confirmation *const c = user;
    const pair *const p = &c->now[input];
    if (p->known)
        return false;
    c->stopped |= c->options->stopped();
    if (!c->stopped)
        say(c, p);
    return !c->stopped;
}

/* Run a command line of `s2 validate` for one of its phases. */
static s2_exit judge(confirmation *c, const char *phase)
{
    const s2_sim_options *const options = &c->found->search.options;
    char len[24], batch[24], runs[24], seed[24];
    snprintf(len, sizeof len, "%lld", (long long)options->len_tok);
    snprintf(batch, sizeof batch, "%lld", (long long)options->batch);
    snprintf(runs, sizeof runs, "%lld", (long long)c->options->n_runs);
    snprintf(seed, sizeof seed, "%lld", (long long)c->found->search.seed);
    const char *const words[] = {"validate", "front", "--device", c->options->device,
                                 "--phase",  phase,   "--len",    len,
                                 "--batch",  batch,   "--runs",   runs,
                                 "--seed",   seed,    "--dtype",  s2_dtype_word(options->dtype)};
    enum { WORDS = sizeof words / sizeof words[0] };
    char *argv[WORDS];
    memcpy(argv, words, sizeof words);
    return s2_validate_inputs(c->cli, WORDS, argv, c->inputs, c->n, wanted, take, c);
}

/* The simulator's train phase is forward and gradients together; these are two kernels. */
static s2_exit judge_phase(confirmation *c, s2_phase phase)
{
    const s2_exit code = phase == S2_TRAIN ? judge(c, "prefill") : S2_EXIT_OK;
    return s2_exit_combine(code, judge(c, s2_phase_word(phase)));
}

static s2_status prepare(confirmation *c)
{
    const s2_found *const found = c->found;
    s2_arena *const arena = found->arena;
    c->n = c->options->n < found->n_designs ? (int32_t)c->options->n : found->n_designs;
    c->inputs = S2_NEW(arena, s2_input, c->n);
    c->pairs = S2_NEW(arena, pair, (int64_t)c->n * found->n_phases);
    if (c->inputs == NULL || c->pairs == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < c->n; n++) {
        const s2_found_design *const design = &found->designs[n];
        c->inputs[n] = (s2_input){.label = design->name, .pattern = design->pattern};
        for (int32_t p = 0; p < found->n_phases; p++) {
            pair *const one = &c->pairs[p * c->n + n];
            *one = (pair){.design = n, .phase = found->phases[p]};
            S2_TRY(s2_found_time(found, design, one->phase, &one->predicted_us));
        }
    }
    return S2_OK;
}

static s2_exit exit_of_known(const char *outcome)
{
    if (strcmp(outcome, "ok") == 0)
        return S2_EXIT_OK;
    return strcmp(outcome, "unsupported") == 0 ? S2_EXIT_ENVIRONMENT : S2_EXIT_VIOLATED;
}

/* Training is two kernels; its time is known only if both are. */
static s2_status look_up(confirmation *c, s2_db *db, pair *p, s2_diag *diag)
{
    const s2_phase_passes *const passes = &s2_passes_of[p->phase];
    const s2_sim_options *const options = &c->found->search.options;
    s2_arena *const arena = &c->cli->arena;
    char hash[S2_HASH_HEX];
    pair sum = *p;
    S2_TRY(s2_pattern_hash(&c->inputs[p->design].pattern, hash));
    for (int32_t nth = 0; nth < passes->n; nth++) {
        const s2_db_timing_query query = {.hash = hash,
                                          .phase = s2_pass_word(passes->pass[nth]),
                                          .dtype = s2_dtype_word(options->dtype),
                                          .len_tok = options->len_tok,
                                          .batch = options->batch,
                                          .since_us = c->options->since_us,
                                          .on_cpu = strcmp(c->options->device, "cpu") == 0};
        s2_db_timing timing;
        S2_TRY(s2_db_timing_of(db, arena, &query, &timing, diag));
        if (timing.outcome == NULL)
            return S2_OK;
        if (sum.outcome == NULL || strcmp(sum.outcome, "ok") == 0)
            sum.outcome = timing.outcome;
        sum.measured_us += timing.us;
        c->device = timing.device;
    }
    *p = sum;
    p->known = true;
    return S2_OK;
}

/* Look up what an interrupted run of this search has already judged. */
static s2_exit look_up_all(confirmation *c)
{
    s2_cli *const cli = c->cli;
    s2_db *db;
    s2_diag diag = {0};
    int32_t n_known = 0;
    if (c->options->since_us == 0 || cli->no_db)
        return S2_EXIT_OK;
    S2_CLI_TRY(s2_store_open(cli, S2_DB_READ, &db));
    s2_status status = S2_OK;
    s2_exit code = S2_EXIT_OK;
    for (int64_t n = 0; n < (int64_t)c->n * c->found->n_phases && status == S2_OK; n++) {
        status = look_up(c, db, &c->pairs[n], &diag);
        if (c->pairs[n].known)
            code = s2_exit_combine(code, exit_of_known(c->pairs[n].outcome));
        n_known += c->pairs[n].known;
    }
    s2_db_close(&db);
    if (status == S2_OK && n_known > 0)
        fprintf(cli->err, "%d of %d are validated already\n", (int)n_known, (int)c->n * c->found->n_phases);
    return status == S2_OK ? code : s2_store_report(cli, status, &diag);
}

static bool is_whole(const pair *p)
{
    return p->outcome != NULL && isfinite(p->measured_us) && p->measured_us > 0;
}

/* How well the measured order of the timed designs agrees with the predicted one. */
typedef struct agreement {
    int32_t n;         /* designs timed */
    double tau;        /* NAN: no order to compare */
    double regret_pct; /* how much slower the first in the predicted order is than the fastest */
    double error_pct;  /* error of a prediction; 0: bounds, which have none */
    int32_t n_clear;   /* pairs that are predicted to differ by more than that */
    int32_t n_kept;    /* those of them in the predicted order */
} agreement;

/* The largest error that predictions for the phase's kernels had on points that were not fitted; 0 for train,
 * which is compared by bounds. */
static double error_of(const confirmation *c, s2_phase phase)
{
    const s2_calibration *const calibration = c->found->search.options.calibration;
    const s2_pass pass = phase == S2_DECODE ? S2_PASS_DECODE : S2_PASS_FORWARD;
    const bool predicted = calibration != NULL && phase != S2_TRAIN;
    double most = 0;
    for (int32_t k = 0; predicted && k < calibration->model.n_kernels; k++)
        if (calibration->model.kernels[k].pass == pass &&
            !s2_kernel_is_special(calibration->model.kernels[k].traits))
            most = fmax(most, calibration->model.kernels[k].error_pct);
    return most;
}

static void count_clear(const double *predicted, const double *measured, agreement *out)
{
    for (int32_t a = 0; a < out->n; a++)
        for (int32_t b = 0; b < out->n; b++)
            if (predicted[a] < predicted[b] && predicted[b] > predicted[a] * (1 + out->error_pct / 100)) {
                out->n_clear++;
                out->n_kept += measured[a] < measured[b];
            }
}

static agreement compare(const confirmation *c, const pair *pairs)
{
    agreement made = {
        .tau = (double)NAN, .regret_pct = (double)NAN, .error_pct = error_of(c, pairs[0].phase)};
    double *const x = S2_NEW(&c->cli->arena, double, 2 * (int64_t)c->n);
    int32_t first = 0, fastest = 0;
    for (int32_t nth = 0; x != NULL && nth < c->n; nth++) {
        if (!is_whole(&pairs[nth]))
            continue;
        double *const measured = x + c->n;
        x[made.n] = pairs[nth].predicted_us;
        measured[made.n] = pairs[nth].measured_us;
        first = x[made.n] < x[first] ? made.n : first;
        fastest = measured[made.n] < measured[fastest] ? made.n : fastest;
        made.n++;
    }
    if (x == NULL || made.n == 0)
        return made;
    made.tau = s2_kendall_tau(x, x + c->n, made.n);
    made.regret_pct = 100 * (x[c->n + first] / x[c->n + fastest] - 1);
    count_clear(x, x + c->n, &made);
    return made;
}

static void put_time(double us, s2_buf *buf)
{
    s2_buf_printf(buf, " %12s", isfinite(us) ? s2_time_text(us).text : "-");
}

static void put_agreement(agreement of, s2_phase phase, s2_buf *buf)
{
    s2_buf_printf(buf, "  %s: ", s2_phase_word(phase));
    if (isnan(of.tau)) {
        s2_buf_printf(buf, "%d designs were timed: no order to compare\n", (int)of.n);
        return;
    }
    s2_buf_printf(buf,
                  "Kendall tau %.3f between predicted and measured order of %d designs; the first is %.1f %% "
                  "slower than the fastest\n",
                  of.tau, (int)of.n, of.regret_pct);
    if (of.error_pct > 0)
        s2_buf_printf(buf,
                      "    %d of %d pairs are predicted to differ by more than the mean error of such "
                      "predictions, %.1f %%; %d of them do so in that order\n",
                      (int)of.n_clear, (int)(of.n * (of.n - 1) / 2), of.error_pct, (int)of.n_kept);
}

static void put_text(const confirmation *c, s2_buf *buf)
{
    s2_buf_printf(buf, "\nvalidated on %s: the %d best of the front\n%12s %-8s %12s %12s %9s  outcome\n",
                  c->device != NULL ? c->device : c->options->device, (int)c->n, "candidate", "phase",
                  "predicted", "measured", "ratio");
    for (int32_t p = 0; p < c->found->n_phases; p++) {
        const pair *const pairs = c->pairs + (int64_t)p * c->n;
        for (int32_t n = 0; n < c->n; n++) {
            s2_buf_printf(buf, "%12lld %-8s", (long long)index_of(c, &pairs[n]),
                          s2_phase_word(pairs[n].phase));
            put_time(pairs[n].predicted_us, buf);
            put_time(is_whole(&pairs[n]) ? pairs[n].measured_us : (double)NAN, buf);
            if (is_whole(&pairs[n]))
                s2_buf_printf(buf, " %9.3f", pairs[n].measured_us / pairs[n].predicted_us);
            else
                s2_buf_printf(buf, " %9s", "-");
            s2_buf_printf(buf, "  %s\n", pairs[n].outcome != NULL ? pairs[n].outcome : "not run");
        }
        put_agreement(compare(c, pairs), pairs[0].phase, buf);
    }
}

static void put_json_pairs(const confirmation *c, const pair *pairs, s2_buf *buf)
{
    s2_json_key_begin(buf, "designs", '[');
    for (int32_t n = 0; n < c->n; n++) {
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "candidate", index_of(c, &pairs[n]));
        s2_json_key_num(buf, "predicted_us", pairs[n].predicted_us);
        s2_json_key_num(buf, "measured_us", is_whole(&pairs[n]) ? pairs[n].measured_us : (double)NAN);
        s2_json_key_str(buf, "outcome", pairs[n].outcome);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

/* Write one line for each phase. */
static void put_json(const confirmation *c, s2_buf *buf)
{
    for (int32_t p = 0; p < c->found->n_phases; p++) {
        const pair *const pairs = c->pairs + (int64_t)p * c->n;
        const agreement of = compare(c, pairs);
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "schema", "s2confirm/1");
        s2_json_key_str(buf, "device", c->device);
        s2_json_key_str(buf, "phase", s2_phase_word(pairs[0].phase));
        s2_json_key_int(buf, "timed", of.n);
        s2_json_key_num(buf, "kendall_tau", of.tau);
        s2_json_key_num(buf, "regret_pct", of.regret_pct);
        s2_json_key_num(buf, "error_pct", of.error_pct);
        s2_json_key_int(buf, "clear_pairs", of.n_clear);
        s2_json_key_int(buf, "clear_kept", of.n_kept);
        put_json_pairs(c, pairs, buf);
        s2_json_end(buf, '}');
        s2_buf_puts(buf, "\n");
    }
}

s2_exit s2_found_confirm(s2_cli *cli, const s2_found *found, const s2_confirm_options *options)
{
    confirmation c = {.cli = cli, .found = found, .options = options};
    if (found->n_designs == 0 || options->n == 0)
        return S2_EXIT_OK;
    const s2_status status = prepare(&c);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "validate");
    fflush(cli->out);
    if (c.n < options->n)
        fprintf(
            cli->err,
            "the front has only %s; more objectives, as in --minimize us,kv_bytes,unread, make it longer\n",
            s2_count_text(c.n, "design").text);
    s2_exit code = look_up_all(&c);
    c.said_at = time(NULL);
    for (int32_t p = 0; p < found->n_phases && !c.stopped; p++) {
        c.now = c.pairs + (int64_t)p * c.n;
        code = s2_exit_combine(code, judge_phase(&c, found->phases[p]));
    }
    if (c.stopped)
        code = s2_exit_combine(code, S2_EXIT_UNDECIDED);
    s2_buf buf = {0};
    if (options->json)
        put_json(&c, &buf);
    else
        put_text(&c, &buf);
    const s2_exit printed = s2_cli_print(cli, &buf);
    if (c.stopped)
        fprintf(cli->err, "stopped; --resume runs the remaining ones\n");
    return s2_exit_combine(code, printed);
}
