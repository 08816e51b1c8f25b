/*
 * bench_gpu - the kernels on one GPU: every row of tests/bench/shapes.h, checked first, then timed.
 *
 * usage: bench_gpu [--only=NAME,...] [--phase=WORD,...] [--tok=N,...] [--kernel=NAME,...] [--no-check]
 * [--no-ceilings]
 *                  [--window-ms=N] [--score-times=X] [--commit=TEXT] [--rows=FILE] [--json] [--list]
 * A table on standard output, one JSON object a line in FILE (--json: instead of the table). Two protocols:
 * sustained (back to back for a window, which runs into the power limit; the median of three) and cool
 * (single launches after 40 ms of idling; the median of five). A cool launch is queued behind an untimed one
 * of the same, so that the time between the events is the kernel's and not the host's. Rates count what is
 * useful only; "of best" is the rate over the ceiling of the same run and protocol: the 8192^3 bf16 matrix
 * product, for decoding the read rate. --score-times=X spreads scores X times as widely.
 *
 * Exits 1 when a check fails, 77 without a GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "judge/workload.h"
#include "kernels/cuda/cuda.h"
#include "pattern/parse.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/shapes.h"
#include "tests/kcheck/listed.h"
#include "tests/bench/words.h"
#include "tests/s2time.h"

enum {
    N_SHAPES = sizeof s2_bench_shapes / sizeof *s2_bench_shapes,
    N_WINDOWS = 3,
    N_COOL = 5,
    LIMIT_BATCH = 256,
    SLOW_MS = 100, /* longer launches are repeated less */
    LONG_MS = 20   /* of longer launches the host's part is nothing, and two in a row are not cool */
};

typedef struct s2_bench_times {
    double sustained_ms, spread, cool_ms, clock_mhz;
    s2_sensors sensors;
} s2_bench_times;

typedef struct s2_bench {
    s2_device *device;
    const char *only, *only_kernel, *only_phase, *only_tok, *commit;
    bool check, ceilings, table, list;
    FILE *rows; /* NULL: none */
    double window_ms;
    float score_times;                  /* 0: scores as they come */
    s2_bench_times best[S2_N_CEILINGS]; /* as times; 0: not measured */
    double best_work[S2_N_CEILINGS];    /* flop or bytes of one launch */
    int64_t pairs;                      /* compared by all checks */
    int32_t n_failed;
    s2_diag why;
} s2_bench;

/* ------------------------------------------------------------------ time */

static double median(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, s2_by_value);
    return values[n / 2];
}

static void sleep_ms(double ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms * 1e-3),
                                  .tv_nsec = (long)((ms - 1e3 * (double)(time_t)(ms * 1e-3)) * 1e6)};
    nanosleep(&time, NULL);
}

/* The mean of n_runs launches back to back. */
static s2_status time_runs(s2_bench *bench, const s2_workload *workload, int64_t n_runs, double *ms)
{
    const s2_device_ops *const ops = bench->device->ops;
    double total = 0;
    S2_TRY(ops->time_begin(bench->device));
    for (int64_t at = 0; at < n_runs; at++)
        S2_TRY(workload->launch(workload->self, &bench->why));
    if (ops->time_end(bench->device, &total) != S2_OK)
        return ops->sync(bench->device, &bench->why);
    *ms = total / (double)n_runs;
    return S2_OK;
}

/* One launch after idling. Between two events on an idle GPU lies what the host takes to launch, 20 to 30 us:
 * the untimed launch keeps the GPU busy meanwhile. */
static s2_status time_cool(s2_bench *bench, const s2_workload *workload, double about_ms, double *ms)
{
    sleep_ms(40);
    if (about_ms < LONG_MS)
        S2_TRY(workload->launch(workload->self, &bench->why));
    return time_runs(bench, workload, 1, ms);
}

static s2_status measure(s2_bench *bench, const s2_workload *workload, s2_bench_times *out)
{
    double first = 0, warm = 0, cool[N_COOL], windows[N_WINDOWS];
    S2_TRY(time_runs(bench, workload, 1, &first));
    S2_TRY(time_runs(bench, workload, 2, &first));
    const bool slow = first > SLOW_MS;
    const int32_t n_cool = slow ? 3 : N_COOL, n_windows = slow ? 1 : N_WINDOWS;
    for (int32_t at = 0; at < n_cool; at++)
        S2_TRY(time_cool(bench, workload, first, &cool[at]));
    const int64_t n_runs = 1 + (int64_t)(bench->window_ms / first);
    S2_TRY(time_runs(bench, workload, n_runs, &warm));
    for (int32_t at = 0; at < n_windows; at++)
        S2_TRY(time_runs(bench, workload, n_runs, &windows[at]));
    /* at once: the board's own readings are some tens of milliseconds old */
    if (bench->device->ops->sense != NULL)
        out->sensors = bench->device->ops->sense(bench->device);
    out->clock_mhz = bench->device->ops->clock_mhz(bench->device);
    out->sustained_ms = median(windows, n_windows);
    out->spread = (windows[n_windows - 1] - windows[0]) / out->sustained_ms;
    out->cool_ms = median(cool, n_cool);
    return S2_OK;
}

/* ------------------------------------------------------------------ output */

static void print_sensors(FILE *to, const s2_bench_times *times)
{
    fprintf(to,
            "\"clock_mhz\": %.0f, \"sm_mhz\": %.0f, \"mem_mhz\": %.0f, \"power_w\": %.0f, \"temp_c\": %.0f",
            times->clock_mhz, times->sensors.sm_mhz, times->sensors.mem_mhz, times->sensors.power_w,
            times->sensors.temp_c);
}

static FILE *stream_of_rows(const s2_bench *bench)
{
    return bench->table ? bench->rows : stdout;
}

static void print_device(s2_bench *bench)
{
    const s2_device *const device = bench->device;
    const time_t now = time(NULL);
    char date[32] = "";
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (bench->table)
        printf("%s, %s, driver %s, %s, commit %s, %s\n", device->name, device->uuid, device->driver,
               device->runtime, bench->commit, date);
    FILE *const to = stream_of_rows(bench);
    if (to != NULL)
        fprintf(
            to,
            "{\"row\": \"device\", \"name\": \"%s\", \"uuid\": \"%s\", \"driver\": \"%s\", \"runtime\": "
            "\"%s\", \"units\": %d, \"capability\": %d, \"cache_bytes\": %lld, \"commit\": \"%s\", \"date\": "
            "\"%s\", \"cool\": \"behind an untimed launch\", ",
            device->name, device->uuid, device->driver, device->runtime, device->n_units, device->capability,
            (long long)device->cache_bytes, bench->commit, date);
    const s2_bench_times now_times = {
        .clock_mhz = device->ops->clock_mhz(bench->device),
        .sensors = device->ops->sense != NULL ? device->ops->sense(bench->device) : (s2_sensors){0}};
    if (to != NULL) {
        print_sensors(to, &now_times);
        fprintf(to, "}\n");
        fflush(to);
    }
}

static void print_heading(const s2_bench *bench)
{
    if (bench->table)
        printf("%-16s %-8s %8s %7s %4s %3s %-5s %-5s | %10s %8s %7s %6s | %10s %8s %7s | %5s %4s %3s | %s\n",
               "pattern", "phase", "tokens", "heads", "dim", "blk", "type", "by", "sustained", "TFLOP/s",
               "of best", "spread", "cool ms", "TFLOP/s", "of best", "MHz", "W", "C", "checked");
}

/* The rate of one launch in units of 1e12 a second, and its part of a ceiling. */
typedef struct s2_rate {
    double sustained, cool, of_sustained, of_cool;
} s2_rate;

static double over(double rate, double ceiling_work, double ceiling_ms)
{
    return ceiling_ms > 0 ? rate / (ceiling_work / ceiling_ms * 1e-9) : 0;
}

static s2_rate rate_of(const s2_bench *bench, double work, const s2_bench_times *times, s2_ceiling ceiling)
{
    s2_rate rate = {work / times->sustained_ms * 1e-9, work / times->cool_ms * 1e-9, 0, 0};
    rate.of_sustained = over(rate.sustained, bench->best_work[ceiling], bench->best[ceiling].sustained_ms);
    rate.of_cool = over(rate.cool, bench->best_work[ceiling], bench->best[ceiling].cool_ms);
    return rate;
}

static void print_ceiling(s2_bench *bench, s2_ceiling which, const s2_workload *workload)
{
    const s2_bench_times *const times = &bench->best[which];
    const double work = bench->best_work[which];
    const char *const unit = which == S2_CEILING_MATRIX ? "TFLOP/s" : "TB/s";
    const double sustained = work / times->sustained_ms * 1e-9, cool = work / times->cool_ms * 1e-9;
    if (bench->table)
        printf(
            "ceiling %-18s %8.2f %s sustained, %8.2f cool; spread %.1f %%, %.0f MHz, %.0f W, %.0f C (%s)\n",
            s2_ceiling_word(which), sustained, unit, cool, 100 * times->spread, times->clock_mhz,
            times->sensors.power_w, times->sensors.temp_c, workload->kernel);
    FILE *const to = stream_of_rows(bench);
    if (to == NULL)
        return;
    fprintf(to,
            "{\"row\": \"ceiling\", \"what\": \"%s\", \"unit\": \"%s\", \"by\": \"%s\", \"sustained\": %.4f, "
            "\"cool\": %.4f, \"spread\": %.4f, ",
            s2_ceiling_word(which), unit, workload->kernel, sustained, cool, times->spread);
    print_sensors(to, times);
    fprintf(to, "}\n");
}

static void print_text_row(const s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok,
                           const s2_workload *workload, const s2_bench_times *times, const s2_rate *rate,
                           int64_t pairs)
{
    char heads[24];
    snprintf(heads, sizeof heads, "%d/%d", shape->heads, shape->kv_heads);
    printf("%-16s %-8s %8d %7s %4d %3d %-5s %-5s | %10.4f %8.2f %7.3f %5.1f%% | %10.4f %8.2f %7.3f | %5.0f "
           "%4.0f %3.0f "
           "| ",
           shape->name, s2_pass_word(shape->pass), n_tok, heads, shape->head_dim, shape->block_tok,
           s2_dtype_word(shape->dtype), workload->kernel, times->sustained_ms, rate->sustained,
           rate->of_sustained, 100 * times->spread, times->cool_ms, rate->cool, rate->of_cool,
           times->clock_mhz, times->sensors.power_w, times->sensors.temp_c);
    if (bench->check)
        printf("%lld pairs\n", (long long)pairs);
    else
        printf("-\n");
    fflush(stdout);
}

/* The pairs computed over those that are visible: what the Hopper forward runs, of other kernels the plan's whole tiles. */
static double executed_over_useful(s2_bench *bench, const s2_workload *workload)
{
    const double useful = workload->flop_useful;
    void *state = workload->state;
    const s2_attn_problem *problem = workload->problem;
    if (useful <= 0)
        return 0.0;
    const bool listed = strcmp(workload->kernel, s2_listed_sm90.traits->name) == 0;
    if (listed)
        problem = s2_listed_under(workload->state, &state);
    int64_t pairs = 0;
    if ((listed || strcmp(workload->kernel, s2_kernel_sm90.traits->name) == 0 ||
         strcmp(workload->kernel, s2_kernel_sm90_e4m3.traits->name) == 0) &&
        s2_cuda_sm90_pairs(bench->device, problem, state, &pairs, &bench->why) == S2_OK)
        return 4.0 * problem->head_dim * (double)pairs / useful;
    return workload->flop_executed / useful;
}

static void print_json_row(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok,
                           const s2_workload *workload, const s2_bench_times *times, const s2_rate *rate,
                           int64_t pairs)
{
    FILE *const to = stream_of_rows(bench);
    fprintf(to,
            "{\"row\": \"%s\", \"kernel\": \"%s\", \"pattern\": \"%s\", \"rules\": \"%s\", \"n_tok\": %d, "
            "\"batch\": %d, \"heads\": %d, \"kv_heads\": %d, \"head_dim\": %d, \"block_tok\": %d, \"dtype\": "
            "\"%s\", ",
            s2_pass_word(shape->pass), workload->kernel, shape->name, shape->rules, n_tok, shape->batch,
            shape->heads, shape->kv_heads, shape->head_dim, shape->block_tok, s2_dtype_word(shape->dtype));
    fprintf(to,
            "\"flop\": %.0f, \"executed_over_useful\": %.4f, \"bytes\": %.0f, \"sustained_ms\": %.5f, "
            "\"spread\": %.4f, \"cool_ms\": %.5f, ",
            workload->flop_useful, executed_over_useful(bench, workload), workload->bytes_useful,
            times->sustained_ms, times->spread, times->cool_ms);
    if (shape->cap > 0.0f || shape->sinks)
        fprintf(to, "\"cap\": %.6g, \"sinks\": %s, ", (double)shape->cap, shape->sinks ? "true" : "false");
    if (bench->score_times > 0.0f)
        fprintf(to, "\"score_times\": %.6g, ", (double)bench->score_times);
    const s2_plan_options *const cut = &workload->plan->options;
    fprintf(to, "\"tile_tok\": %d, \"key_tok\": %d, \"pack_heads\": %d, \"section_bytes\": %lld, ",
            cut->tile_tok, cut->key_tok, cut->pack_heads, (long long)cut->section_bytes);
    fprintf(to,
            "\"unit\": \"%s\", \"sustained\": %.3f, \"of_best_sustained\": %.4f, \"cool\": %.3f, "
            "\"of_best_cool\": "
            "%.4f, \"pairs_checked\": %lld, ",
            shape->pass == S2_PASS_DECODE ? "TB/s" : "TFLOP/s", rate->sustained, rate->of_sustained,
            rate->cool, rate->of_cool, (long long)pairs);
    print_sensors(to, times);
    fprintf(to, "}\n");
    fflush(to);
}

static void print_failure(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok, const char *outcome,
                          const char *why)
{
    if (bench->table)
        printf("%-16s %-8s %8d   %s: %s\n", shape->name, s2_pass_word(shape->pass), n_tok, outcome, why);
    FILE *const to = stream_of_rows(bench);
    if (to != NULL)
        fprintf(
            to,
            "{\"row\": \"none\", \"phase\": \"%s\", \"pattern\": \"%s\", \"n_tok\": %d, \"outcome\": \"%s\", "
            "\"why\": \"%s\"}\n",
            s2_pass_word(shape->pass), shape->name, n_tok, outcome, why);
}

/* ------------------------------------------------------------------ rows */

static void measure_ceilings(s2_bench *bench)
{
    for (int which = 0; which < S2_N_CEILINGS; which++) {
        s2_workload workload;
        if (s2_ceiling_open(bench->device, (s2_ceiling)which, &workload, &bench->why) != S2_OK) {
            fprintf(stderr, "bench_gpu: no ceiling %s: %s\n", s2_ceiling_word((s2_ceiling)which),
                    bench->why.msg);
            continue;
        }
        bench->best_work[which] = workload.flop_useful > 0 ? workload.flop_useful : workload.bytes_useful;
        if (measure(bench, &workload, &bench->best[which]) == S2_OK)
            print_ceiling(bench, (s2_ceiling)which, &workload);
        workload.close(workload.self);
    }
}

static s2_status parse_shape(s2_bench *bench, const s2_bench_shape *shape, s2_arena *arena, s2_pattern *out)
{
    char text[400];
    const int n =
        snprintf(text, sizeof text, "heads %d\nkv-heads %d\nhead-dim %d\nblock %d\nlayers all: %s\n",
                 shape->heads, shape->kv_heads, shape->head_dim, shape->block_tok, shape->rules);
    return s2_pattern_parse(arena, text, (size_t)n, NULL, out, &bench->why);
}

/* Sampled rows and windows: enough to convict a kernel that reads the wrong keys at this very shape. */
static s2_status check(s2_bench *bench, const s2_validate_request *request, s2_validation *out)
{
    s2_validate_request light = *request;
    light.needles = light.cases = false;
    light.n_timed = 0;
    light.few_heads = true;
    light.max_windows = 6;
    light.budget_pairs = 4000000;
    return s2_validate(bench->device, &light, out);
}

static s2_status time_request(s2_bench *bench, const s2_bench_shape *shape,
                              const s2_validate_request *request, int32_t n_tok, int64_t pairs)
{
    static const s2_pass_judge *const phases[S2_N_PASSES] = {[S2_PASS_FORWARD] = &s2_judge_forward,
                                                             [S2_PASS_BACKWARD] = &s2_judge_backward,
                                                             [S2_PASS_DECODE] = &s2_judge_decode};
    const bool reads = shape->pass == S2_PASS_DECODE;
    s2_workload workload;
    s2_bench_times times = {0};
    S2_TRY(phases[shape->pass]->open(bench->device, request, &workload, &bench->why));
    const s2_status status = measure(bench, &workload, &times);
    if (status == S2_OK) {
        const s2_rate rate = rate_of(bench, reads ? workload.bytes_useful : workload.flop_useful, &times,
                                     reads ? S2_CEILING_READ : S2_CEILING_MATRIX);
        if (bench->table)
            print_text_row(bench, shape, n_tok, &workload, &times, &rate, pairs);
        if (stream_of_rows(bench) != NULL)
            print_json_row(bench, shape, n_tok, &workload, &times, &rate, pairs);
        bench->pairs += pairs;
    }
    workload.close(workload.self);
    return status;
}

/* NULL: the best. */
static const s2_kernel *kernel_of(const s2_bench_shape *shape)
{
    if (shape->kernel != NULL && strcmp(shape->kernel, s2_listed_sm90.traits->name) == 0)
        return &s2_listed_sm90;
    return shape->kernel != NULL ? s2_kernel_find(shape->kernel) : NULL;
}

static s2_status bench_request(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok, s2_arena *arena,
                               s2_validation *out)
{
    s2_pattern pattern;
    s2_plan_seq seqs[LIMIT_BATCH];
    for (int32_t seq = 0; seq < shape->batch; seq++)
        seqs[seq] = (s2_plan_seq){shape->pass == S2_PASS_DECODE ? 1 : n_tok, n_tok};
    S2_TRY(parse_shape(bench, shape, arena, &pattern));
    s2_validate_request request = s2_validate_request_init(bench->device, &pattern, seqs, shape->batch);
    request.pass = shape->pass;
    request.phase = shape->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
    request.dtype = shape->dtype == S2_F8 ? S2_BF16 : shape->dtype;
    request.e4m3 = shape->dtype == S2_F8;
    request.cap = shape->cap;
    request.sinks = shape->sinks;
    request.scale = bench->score_times / sqrtf((float)shape->head_dim);
    request.kernel = kernel_of(shape);
    request.head_major = true;
    if (bench->check)
        S2_TRY(check(bench, &request, out));
    S2_STAGE(out, time_request(bench, shape, &request, n_tok, out->touch_pairs));
    return S2_OK;
}

static void bench_row(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok)
{
    s2_arena arena = {0};
    s2_validation verdict = {0};
    bench->why = (s2_diag){0};
    const s2_status status = bench_request(bench, shape, n_tok, &arena, &verdict);
    if (status != S2_OK) {
        verdict.outcome = s2_outcome_of(status);
        snprintf(verdict.reason, sizeof verdict.reason, "%s", s2_diag_text(&bench->why, status));
    }
    s2_arena_release(&arena);
    if (verdict.outcome != S2_OUTCOME_OK)
        print_failure(bench, shape, n_tok, s2_outcome_word(verdict.outcome), verdict.reason);
    bench->n_failed += verdict.outcome != S2_OUTCOME_OK && verdict.outcome != S2_OUTCOME_UNSUPPORTED;
}

static bool is_wanted(const s2_bench *bench, const s2_bench_shape *shape)
{
    const char *const kernel = shape->kernel != NULL ? shape->kernel : "best";
    return s2_words_hold(bench->only, shape->name) && s2_words_hold(bench->only_kernel, kernel) &&
           s2_words_hold(bench->only_phase, s2_pass_word(shape->pass));
}

static void bench_shape(s2_bench *bench, const s2_bench_shape *shape)
{
    size_t n;
    for (const char *at = shape->lengths, *word; (word = s2_words_next(&at, &n)) != NULL;) {
        const int32_t n_tok = s2_words_tokens(word);
        if (!s2_words_hold_tokens(bench->only_tok, n_tok))
            continue;
        if (bench->list)
            printf("%s %s %s %d\n", shape->name, s2_pass_word(shape->pass),
                   shape->kernel != NULL ? shape->kernel : "best", n_tok);
        else
            bench_row(bench, shape, n_tok);
    }
}

static bool read_option(s2_bench *bench, const char *arg)
{
    const char *const value = strchr(arg, '=') != NULL ? strchr(arg, '=') + 1 : "";
    const struct {
        const char *name;
        const char **to;
    } words[] = {{"--only=", &bench->only},
                 {"--kernel=", &bench->only_kernel},
                 {"--phase=", &bench->only_phase},
                 {"--tok=", &bench->only_tok},
                 {"--commit=", &bench->commit}};
    for (size_t at = 0; at < sizeof words / sizeof *words; at++)
        if (strncmp(arg, words[at].name, strlen(words[at].name)) == 0) {
            *words[at].to = value;
            return true;
        }
    if (strncmp(arg, "--window-ms=", 12) == 0)
        bench->window_ms = atof(value);
    else if (strncmp(arg, "--score-times=", 14) == 0)
        return (bench->score_times = (float)atof(value)) > 0.0f;
    else if (strncmp(arg, "--rows=", 7) == 0)
        return (bench->rows = fopen(value, "we")) != NULL;
    else if (strcmp(arg, "--no-check") == 0)
        bench->check = false;
    else if (strcmp(arg, "--no-ceilings") == 0)
        bench->ceilings = false;
    else if (strcmp(arg, "--json") == 0)
        bench->table = false;
    else if (strcmp(arg, "--list") == 0)
        bench->list = true;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    s2_bench bench = {.window_ms = 90.0, .commit = "unknown", .check = true, .ceilings = true, .table = true};
    for (int at = 1; at < argc; at++)
        if (!read_option(&bench, argv[at])) {
            fprintf(stderr, "bench_gpu: %s: not understood; see the head of tests/bench/bench_gpu.c\n",
                    argv[at]);
            return 2;
        }
    if (!bench.list && s2_device_open("gpu", &bench.device, &bench.why) != S2_OK) {
        fprintf(stderr, "bench_gpu: %s\n", bench.why.msg);
        return 77;
    }
    if (!bench.list)
        print_device(&bench);
    if (!bench.list && bench.ceilings)
        measure_ceilings(&bench);
    if (!bench.list)
        print_heading(&bench);
    for (int32_t at = 0; at < N_SHAPES; at++)
        if (is_wanted(&bench, &s2_bench_shapes[at]))
            bench_shape(&bench, &s2_bench_shapes[at]);
    if (!bench.list && bench.table)
        printf("%lld pairs compared by the checks, %d rows failed\n", (long long)bench.pairs, bench.n_failed);
    if (bench.rows != NULL && fclose(bench.rows) != 0)
        bench.n_failed++;
    s2_device_close(&bench.device);
    return bench.n_failed != 0;
}
