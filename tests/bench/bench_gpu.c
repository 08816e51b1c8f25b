/*
 * bench_gpu - the forward kernels on one GPU, every shape of docs/kernels.md.
 *
 * usage: bench_gpu [--kernel=NAME] [--only=PATTERN] [--tok=N] [--window-ms=N] [--commit=TEXT]
 * One JSON object a line: the device first, then one row a shape. Two protocols:
 * sustained (back to back for a window, which runs into the power limit; the median of three) and cool
 * (single launches after 60 ms of idling; the median of seven). Rates count useful pairs only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernel.h"
#include "pattern/parse.h"

typedef struct s2_bench_shape {
    const char *name;
    const char *rules;
    int32_t heads, kv_heads, head_dim, block_tok;
    s2_dtype dtype;
    int32_t from_tok, to_tok; /* doubling up to 8k, then by factors of four */
} s2_bench_shape;

#define L8V16  "local 8 | stride 16 phase head"
#define L16V32 "local 16 | stride 32 phase head"
#define PHI3   "local 16 | stride 8 phase kv"
static const s2_bench_shape shapes[] = {
    {"L8V16", L8V16, 32, 32, 128, 64, S2_BF16, 2048, 131072},
    {"L16V32", L16V32, 32, 32, 128, 64, S2_BF16, 2048, 131072},
    {"phi3", PHI3, 32, 8, 128, 64, S2_BF16, 2048, 131072},
    {"dense", "dense", 32, 32, 128, 64, S2_BF16, 2048, 131072},
    {"block16", "local 32 | stride 16 phase head", 32, 32, 128, 16, S2_BF16, 8192, 32768},
    {"block32", "local 16 | stride 16 phase head", 32, 32, 128, 32, S2_BF16, 8192, 32768},
    {"block128", "local 4 | stride 16 phase head", 32, 32, 128, 128, S2_BF16, 8192, 32768},
    {"L8V16_f16", L8V16, 32, 32, 128, 64, S2_F16, 8192, 32768},
    {"L8V16_d64", L8V16, 32, 32, 64, 64, S2_BF16, 8192, 32768},
    {"L8V16_d96", L8V16, 32, 32, 96, 64, S2_BF16, 8192, 32768},
    {"L8V16_d256", L8V16, 16, 16, 256, 64, S2_BF16, 8192, 32768},
    {"dense_d64", "dense", 32, 32, 64, 64, S2_BF16, 8192, 32768},
    {"dense_d256", "dense", 16, 16, 256, 64, S2_BF16, 8192, 32768},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_WINDOWS = 3, N_COOL = 7 };

typedef struct s2_bench {
    s2_device *device;
    const char *only_kernel, *only_shape, *commit;
    int32_t only_tok; /* 0: all */
    double window_ms;
    s2_diag why;
} s2_bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* The mean of n_runs launches back to back. */
static s2_status time_runs(s2_bench *bench, const s2_kernel *kernel, const s2_attn_problem *problem,
                           void *state, int64_t n_runs, double *ms)
{
    const s2_device_ops *const ops = bench->device->ops;
    double total = 0;
    S2_TRY(ops->time_begin(bench->device));
    for (int64_t at = 0; at < n_runs; at++)
        S2_TRY(kernel->run(bench->device, problem, state, &bench->why));
    S2_TRY(ops->time_end(bench->device, &total));
    *ms = total / (double)n_runs;
    return S2_OK;
}

typedef struct s2_bench_times {
    double sustained_ms, spread, cool_ms, clock_mhz;
} s2_bench_times;

static s2_status measure(s2_bench *bench, const s2_kernel *kernel, const s2_attn_problem *problem,
                         void *state, s2_bench_times *out)
{
    double first = 0, cool[N_COOL], windows[N_WINDOWS], warm = 0;
    S2_TRY(time_runs(bench, kernel, problem, state, 2, &first));
    const struct timespec idle = {.tv_nsec = 60000000};
    for (int32_t at = 0; at < N_COOL; at++) {
        nanosleep(&idle, NULL);
        S2_TRY(time_runs(bench, kernel, problem, state, 1, &cool[at]));
    }
    const int64_t n_runs = 1 + (int64_t)(bench->window_ms / first);
    S2_TRY(time_runs(bench, kernel, problem, state, 1 + n_runs / 2, &warm));
    for (int32_t at = 0; at < N_WINDOWS; at++)
        S2_TRY(time_runs(bench, kernel, problem, state, n_runs, &windows[at]));
    out->clock_mhz = bench->device->ops->clock_mhz(bench->device);
    out->sustained_ms = median(windows, N_WINDOWS);
    out->spread = (windows[N_WINDOWS - 1] - windows[0]) / out->sustained_ms;
    out->cool_ms = median(cool, N_COOL);
    return S2_OK;
}

static s2_status make_tensor(s2_bench *bench, s2_tensor *tensor, int32_t n_heads, int32_t n_tok,
                             int32_t head_dim, s2_dtype dtype, uint64_t seed)
{
    const int64_t n = (int64_t)n_heads * n_tok * head_dim;
    *tensor = (s2_tensor){.tok = head_dim, .head = (int64_t)n_tok * head_dim};
    S2_TRY(bench->device->ops->alloc(bench->device, (size_t)n * 2, &tensor->data));
    return bench->device->ops->fill_normal(bench->device, tensor->data, n, dtype, seed, 1.0f);
}

static s2_status fill_problem(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok,
                              s2_attn_problem *problem)
{
    void *lse = NULL;
    const int32_t d = shape->head_dim;
    S2_TRY(make_tensor(bench, &problem->q, shape->heads, n_tok, d, shape->dtype, 1));
    S2_TRY(make_tensor(bench, &problem->k, shape->kv_heads, n_tok, d, shape->dtype, 2));
    S2_TRY(make_tensor(bench, &problem->v, shape->kv_heads, n_tok, d, shape->dtype, 3));
    S2_TRY(make_tensor(bench, &problem->o, shape->heads, n_tok, d, shape->dtype, 4));
    S2_TRY(
        bench->device->ops->alloc(bench->device, (size_t)shape->heads * (size_t)n_tok * sizeof(float), &lse));
    problem->lse = (s2_rows){.data = lse, .head = n_tok};
    return S2_OK;
}

static void release_problem(s2_bench *bench, s2_attn_problem *problem)
{
    void *const memory[] = {problem->q.data, problem->k.data, problem->v.data, problem->o.data,
                            problem->lse.data};
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++)
        bench->device->ops->release(bench->device, memory[at]);
}

/* The square root of D without libm: exact for the powers of four, and close enough to time the others. */
static float scale_of(int32_t head_dim)
{
    float root = 1.0f;
    for (int32_t at = 0; at < 20; at++)
        root = 0.5f * (root + (float)head_dim / root);
    return 1.0f / root;
}

static void print_row(const s2_bench_shape *shape, int32_t n_tok, const s2_kernel *kernel,
                      const s2_plan *plan, const s2_bench_times *times)
{
    const double flop = 4.0 * shape->head_dim * (double)plan->counts.pairs;
    printf("{\"row\": \"forward\", \"kernel\": \"%s\", \"pattern\": \"%s\", \"n_tok\": %d, \"heads\": %d, "
           "\"kv_heads\": %d, \"head_dim\": %d, \"block_tok\": %d, \"dtype\": \"%s\", \"pairs\": %lld, "
           "\"executed_over_useful\": %.4f, \"sustained_ms\": %.4f, \"sustained_tflops\": %.1f, \"spread\": "
           "%.4f, "
           "\"cool_ms\": %.4f, \"cool_tflops\": %.1f, \"clock_mhz\": %.0f}\n",
           kernel->name, shape->name, n_tok, shape->heads, shape->kv_heads, shape->head_dim, shape->block_tok,
           s2_dtype_name(shape->dtype), (long long)plan->counts.pairs,
           (double)plan->counts.pairs_executed / (double)plan->counts.pairs, times->sustained_ms,
           flop / times->sustained_ms * 1e-9, times->spread, times->cool_ms, flop / times->cool_ms * 1e-9,
           times->clock_mhz);
    fflush(stdout);
}

static s2_status bench_kernel(s2_bench *bench, const s2_bench_shape *shape, int32_t n_tok,
                              const s2_kernel *kernel, s2_arena *arena)
{
    char text[400];
    s2_pattern pattern;
    s2_plan plan;
    s2_plan_options options;
    const int32_t n_bytes =
        snprintf(text, sizeof text, "heads %d\nkv-heads %d\nhead-dim %d\nblock %d\nlayers all: %s\n",
                 shape->heads, shape->kv_heads, shape->head_dim, shape->block_tok, shape->rules);
    S2_TRY(s2_pattern_parse(arena, text, (size_t)n_bytes, NULL, &pattern, &bench->why));
    s2_attn_problem problem = {.phase = S2_FORWARD,
                               .dtype = shape->dtype,
                               .n_seqs = 1,
                               .n_heads = shape->heads,
                               .n_kv_heads = shape->kv_heads,
                               .head_dim = shape->head_dim,
                               .scale = scale_of(shape->head_dim)};
    S2_TRY(kernel->supports(bench->device, &problem, &bench->why));
    kernel->options(bench->device, &problem, &options);
    const s2_plan_seq seq = {n_tok, n_tok};
    S2_TRY(s2_plan_build(arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, &bench->why));
    problem.plan = &plan;
    void *state = NULL;
    s2_bench_times times = {0};
    s2_status status = fill_problem(bench, shape, n_tok, &problem);
    if (status == S2_OK)
        status = kernel->prepare(bench->device, &problem, &state, &bench->why);
    if (status == S2_OK)
        status = measure(bench, kernel, &problem, state, &times);
    if (status == S2_OK)
        print_row(shape, n_tok, kernel, &plan, &times);
    kernel->finish(bench->device, state);
    release_problem(bench, &problem);
    return status;
}

static int bench_shape(s2_bench *bench, const s2_bench_shape *shape)
{
    int n_failed = 0;
    for (int32_t n_tok = shape->from_tok; n_tok <= shape->to_tok; n_tok *= n_tok < 8192 ? 2 : 4)
        for (int32_t at = 0; s2_kernel_at(at) != NULL; at++) {
            const s2_kernel *const kernel = s2_kernel_at(at);
            const bool wanted = bench->only_kernel != NULL
                                    ? strcmp(kernel->name, bench->only_kernel) == 0
                                    : strcmp(kernel->name, "sm90") == 0 || n_tok == 32768;
            if (kernel->device != S2_DEVICE_GPU || !wanted ||
                (bench->only_tok != 0 && bench->only_tok != n_tok))
                continue;
            s2_arena arena = {0};
            const s2_status status = bench_kernel(bench, shape, n_tok, kernel, &arena);
            s2_arena_release(&arena);
            if (status != S2_OK && status != S2_EUNSUPPORTED)
                n_failed++;
            if (status != S2_OK)
                printf("{\"row\": \"none\", \"kernel\": \"%s\", \"pattern\": \"%s\", \"n_tok\": %d, \"why\": "
                       "\"%s\"}\n",
                       kernel->name, shape->name, n_tok, bench->why.msg);
        }
    return n_failed;
}

static void print_device(s2_bench *bench)
{
    const time_t now = time(NULL);
    char date[32] = "";
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d", &utc);
    printf(
        "{\"row\": \"device\", \"name\": \"%s\", \"units\": %d, \"capability\": %d, \"cache_bytes\": %lld, "
        "\"commit\": \"%s\", \"date\": \"%s\"}\n",
        bench->device->name, bench->device->n_units, bench->device->capability,
        (long long)bench->device->cache_bytes, bench->commit, date);
}

static void read_option(s2_bench *bench, const char *arg)
{
    if (strncmp(arg, "--kernel=", 9) == 0)
        bench->only_kernel = arg + 9;
    else if (strncmp(arg, "--only=", 7) == 0)
        bench->only_shape = arg + 7;
    else if (strncmp(arg, "--tok=", 6) == 0)
        bench->only_tok = (int32_t)atoi(arg + 6);
    else if (strncmp(arg, "--window-ms=", 12) == 0)
        bench->window_ms = atof(arg + 12);
    else if (strncmp(arg, "--commit=", 9) == 0)
        bench->commit = arg + 9;
}

int main(int argc, char **argv)
{
    s2_bench bench = {.window_ms = 130.0, .commit = "unknown"};
    for (int at = 1; at < argc; at++)
        read_option(&bench, argv[at]);
    if (s2_device_open("gpu", &bench.device, &bench.why) != S2_OK) {
        fprintf(stderr, "bench_gpu: %s\n", bench.why.msg);
        return 77;
    }
    print_device(&bench);
    int n_failed = 0;
    for (int32_t at = 0; at < N_SHAPES; at++)
        if (bench.only_shape == NULL || strcmp(bench.only_shape, shapes[at].name) == 0)
            n_failed += bench_shape(&bench, &shapes[at]);
    s2_device_close(&bench.device);
    return n_failed != 0;
}
