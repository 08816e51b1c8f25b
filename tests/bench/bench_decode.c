/*
 * bench_decode - decode steps on one GPU: microseconds, and K and V bytes a second against the read ceiling.
 *
 * usage: bench_decode [--only=PATTERN,...] [--batch=N] [--tok=N,...] [--cached] [--kv-dtype=bf16|e4m3] [--commit=TEXT]
 * One JSON object a line: the device and its read ceiling first, then a row a shape. Launches are replayed
 * from a graph, as serving does; the K and V that they read rotate over more than 600 MB, so that nothing
 * is left in the last-level cache. Rates count the keys that must be read, once.
 *   us        keys that were there before the step are fetched while the launch before ends
 *   strict_us nothing is fetched before the launch before has ended
 * Rows of a group are named for what they differ in: _ramp and _few have sequences of different lengths, n_tok on average; _pageN
 * read from a cache with pages of N tokens, those of all sequences in turns; _grow replays one graph of a whole model, whose
 * lists follow sequences that a token is added to before each replay, beside replays of the same graph as it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/measure.h"
#include "kernels/follow.h"
#include "pattern/parse.h"
#include "tests/bench/words.h"
#include "tests/s2time.h"

typedef enum s2_bench_lengths {
    EVEN,
    RAMP, /* from almost nothing to twice the mean, in no order */
    FEW   /* half of all tokens are in eight sequences */
} s2_bench_lengths;

typedef struct s2_bench_shape {
    const char *name;
    const char *rules; /* of every layer */
    int32_t heads, kv_heads;
    int32_t batch, n_tok, q_tok;
    int32_t select_pages; /* 0: none; of 64 tokens, chosen by the query */
    s2_bench_lengths lengths;
    int32_t page_tok; /* not 0: read from a cache with such pages */
    int32_t layers;   /* not 0: of a graph that grows */
} s2_bench_shape;

#define L8V16 "local 8 | stride 16 phase head"
#define PHI3  "local 16 | stride 8 phase kv"
#define PAGED(name, rules, batch, n_tok, lengths, page_tok)                                                  \
    {                                                                                                        \
        name, rules, 32, 8, batch, n_tok, 1, 0, lengths, page_tok, 0                                         \
    }
#define PAGES(name, rules, batch, n_tok, lengths)                                                            \
    PAGED(name "_page16", rules, batch, n_tok, lengths, 16),                                                 \
        PAGED(name "_page32", rules, batch, n_tok, lengths, 32),                                             \
        PAGED(name "_page64", rules, batch, n_tok, lengths, 64),                                             \
        PAGED(name "_page128", rules, batch, n_tok, lengths, 128),                                           \
        PAGED(name "_page256", rules, batch, n_tok, lengths, 256)
static const s2_bench_shape shapes[] = {
    {"phi3", PHI3, 32, 8, 1, 32768, 1, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 1, 131072, 1, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 1, 1048576, 1, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 8, 131072, 1, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 16, 32768, 1, 0, EVEN, 0, 0},
    {"L8V16", L8V16, 32, 32, 1, 32768, 1, 0, EVEN, 0, 0},
    {"L8V16", L8V16, 32, 32, 1, 131072, 1, 0, EVEN, 0, 0},
    {"L8V16", L8V16, 32, 32, 1, 1048576, 1, 0, EVEN, 0, 0},
    {"L8V16", L8V16, 32, 32, 8, 131072, 1, 0, EVEN, 0, 0},
    {"L8V16", L8V16, 32, 32, 16, 32768, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 1, 32768, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 1, 131072, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 16, 32768, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 32, 16, 32768, 1, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 16, 32768, 4, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 16, 32768, 16, 0, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 1, 32768, 16, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 1, 4096, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 8, 4096, 1, 0, EVEN, 0, 0},
    {"quest", "dense", 32, 8, 1, 32768, 1, 64, EVEN, 0, 0},
    {"quest", "dense", 32, 8, 1, 131072, 1, 64, EVEN, 0, 0},
    {"quest", "dense", 32, 8, 8, 131072, 1, 64, EVEN, 0, 0},
    {"phi3", PHI3, 32, 8, 128, 32768, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 128, 32768, 1, 0, EVEN, 0, 0},
    {"dense", "dense", 32, 8, 128, 4096, 1, 0, EVEN, 0, 0},
    {"phi3_ramp", PHI3, 32, 8, 128, 32768, 1, 0, RAMP, 0, 0},
    {"phi3_few", PHI3, 32, 8, 128, 32768, 1, 0, FEW, 0, 0},
    {"dense_ramp", "dense", 32, 8, 128, 32768, 1, 0, RAMP, 0, 0},
    {"dense_few", "dense", 32, 8, 128, 32768, 1, 0, FEW, 0, 0},
    {"dense_ramp", "dense", 32, 8, 128, 4096, 1, 0, RAMP, 0, 0},
    {"dense_few", "dense", 32, 8, 128, 4096, 1, 0, FEW, 0, 0},
    PAGES("dense", "dense", 128, 4096, EVEN),
    PAGES("dense_ramp", "dense", 128, 4096, RAMP),
    PAGES("phi3", PHI3, 16, 32768, EVEN),
    {"phi3_grow", PHI3, 32, 8, 16, 32768, 1, 0, EVEN, 64, 32},
    {"phi3_grow", PHI3, 32, 8, 128, 4096, 1, 0, EVEN, 64, 16},
    {"dense_ramp_grow", "dense", 32, 8, 128, 2048, 1, 0, RAMP, 64, 12},
};
enum {
    N_SHAPES = sizeof shapes / sizeof *shapes,
    HEAD_DIM = 128,
    BLOCK_TOK = 64,
    LIMIT_COPIES = 24,
    LIMIT_BATCH = 128,
    N_REPLAYS = 9,
    N_GROWN = 64, /* tokens of each sequence of a graph that grows */
    N_LONG = 8    /* sequences that have half of all tokens */
};
#define POOL_BYTES   ((int64_t)32 * 1048576 * HEAD_DIM * 2) /* of K, and of V */
#define ROTATE_BYTES 600e6

typedef struct s2_bench {
    s2_device *device;
    const char *only, *only_tok, *commit;
    int32_t only_batch;
    bool cached, e4m3;
    void *k, *v, *q, *o, *lse, *scale;
    double ceiling; /* bytes a second */
    s2_diag why;
} s2_bench;

/* One shape with its copies. */
typedef struct s2_bench_case {
    const s2_bench_shape *shape;
    s2_arena arena;
    s2_pattern pattern;
    s2_plan plan;
    s2_cache *cache;
    s2_plan_seq seqs[LIMIT_BATCH];
    int32_t begin_tok[2][LIMIT_BATCH + 1]; /* of queries and of keys, where lengths differ */
    int32_t n_copies;
    s2_cached cached[LIMIT_COPIES];
    s2_attn_problem problems[LIMIT_COPIES];
    void *states[LIMIT_COPIES];
    double kv_bytes;
} s2_bench_case;

/* ------------------------------------------------------------------ one case */

static int64_t number_bytes(const s2_bench *bench)
{
    return s2_dtype_bytes(bench->e4m3 ? S2_F8 : S2_BF16);
}

/* Tokens of the nth sequence; the mean is the shape's. */
static int32_t length_of(const s2_bench_shape *shape, int32_t nth)
{
    enum { STRIDE = 37 }; /* shares no divisor with a batch that is a power of two */
    const int32_t n = shape->batch, total = n * shape->n_tok, place = nth * STRIDE % n;
    if (shape->lengths == RAMP)
        return (int32_t)((2 * (int64_t)place + 1) * shape->n_tok / n);
    if (shape->lengths == EVEN)
        return shape->n_tok;
    const int32_t rest = total - N_LONG * (total / 2 / N_LONG);
    return place < N_LONG ? total / 2 / N_LONG : rest / (n - N_LONG) + (place - N_LONG < rest % (n - N_LONG));
}

static void set_lengths(s2_bench_case *one)
{
    const s2_bench_shape *const shape = one->shape;
    for (int32_t seq = 0; seq < shape->batch; seq++) {
        one->seqs[seq] = (s2_plan_seq){shape->q_tok, length_of(shape, seq)};
        one->begin_tok[0][seq + 1] = one->begin_tok[0][seq] + shape->q_tok;
        one->begin_tok[1][seq + 1] = one->begin_tok[1][seq] + one->seqs[seq].k_tok;
    }
}

static s2_status parse_shape(s2_bench *bench, s2_bench_case *one)
{
    const s2_bench_shape *const shape = one->shape;
    char text[300];
    const int n = snprintf(text, sizeof text,
                           "layers %d\nheads %d\nkv-heads %d\nhead-dim %d\nblock %d\nlayers all: %s\n",
                           shape->layers > 0 ? shape->layers : 1, shape->heads, shape->kv_heads, HEAD_DIM,
                           BLOCK_TOK, shape->rules);
    return s2_pattern_parse(&one->arena, text, (size_t)n, NULL, &one->pattern, &bench->why);
}

/* A plan that grows has classes only. */
static s2_status make_plan(s2_bench *bench, s2_bench_case *one)
{
    const s2_bench_shape *const shape = one->shape;
    const s2_plan_options options = s2_kernel_cut(s2_kernel_decode.traits, HEAD_DIM);
    s2_decode_plan decode;
    set_lengths(one);
    S2_TRY(parse_shape(bench, one));
    S2_TRY((shape->layers > 0 ? s2_plan_build_classes : s2_plan_build)(&one->arena, &one->pattern, S2_DECODE,
                                                                       0, one->seqs, shape->batch, &options,
                                                                       &one->plan, &bench->why));
    S2_TRY(s2_decode_plan_build(&one->arena, &one->plan, NULL, 264, &decode, &bench->why));
    one->kv_bytes = (double)decode.n_live_keys * HEAD_DIM * 2 * (double)number_bytes(bench);
    if (shape->select_pages > 0) /* and the bounds of every page */
        one->kv_bytes = one->kv_bytes / BLOCK_TOK + (double)shape->batch * shape->kv_heads *
                                                        shape->select_pages * BLOCK_TOK * HEAD_DIM * 4;
    return S2_OK;
}

static s2_attn_problem problem_of(const s2_bench *bench, const s2_bench_case *one)
{
    const s2_bench_shape *const shape = one->shape;
    const int64_t d = HEAD_DIM, n_tok = shape->n_tok, q_tok = shape->q_tok;
    const s2_tensor kv = {NULL, shape->kv_heads * n_tok * d, d, n_tok * d};
    s2_attn_problem problem = {.pass = S2_PASS_DECODE,
                               .dtype = S2_BF16,
                               .e4m3 = bench->e4m3,
                               .k_scale = bench->scale,
                               .v_scale = bench->scale,
                               .plan = &one->plan,
                               .n_seqs = shape->batch,
                               .n_heads = shape->heads,
                               .n_kv_heads = shape->kv_heads,
                               .head_dim = HEAD_DIM,
                               .scale = 0.08838834764831845f,
                               .select_pages = shape->select_pages,
                               .select_page_tok = BLOCK_TOK};
    problem.q = (s2_tensor){bench->q, shape->heads * q_tok * d, shape->heads * d, d};
    problem.o = (s2_tensor){bench->o, shape->heads * q_tok * d, shape->heads * d, d};
    problem.lse = (s2_rows){bench->lse, shape->heads * q_tok, q_tok};
    problem.k = problem.v = kv;
    problem.k.data = bench->k;
    problem.v.data = bench->v;
    if (shape->lengths != EVEN && shape->page_tok == 0) { /* one sequence behind the other, head by head */
        problem.q_begin_tok = one->begin_tok[0];
        problem.k_begin_tok = one->begin_tok[1];
        problem.k.head = problem.v.head = one->begin_tok[1][shape->batch] * d;
        problem.lse.head = one->begin_tok[0][shape->batch];
    }
    return problem;
}

/* Copies of a contiguous K and V lie one behind the other. */
static void place_contiguous(const s2_bench *bench, s2_bench_case *one)
{
    const int64_t n = (int64_t)one->shape->batch * one->shape->kv_heads * one->shape->n_tok * HEAD_DIM;
    const int64_t span = n * number_bytes(bench);
    int64_t wanted = 1 + (int64_t)(ROTATE_BYTES / one->kv_bytes);
    wanted = wanted < POOL_BYTES / span ? wanted : POOL_BYTES / span;
    one->n_copies = (int32_t)(wanted < LIMIT_COPIES ? wanted : LIMIT_COPIES);
    for (int32_t copy = 0; copy < one->n_copies; copy++) {
        one->problems[copy] = problem_of(bench, one);
        one->problems[copy].k.data = (uint8_t *)bench->k + copy * span;
        one->problems[copy].v.data = (uint8_t *)bench->v + copy * span;
    }
}

/* Where pages are timed, all sequences get one in turns, so that none has its pages in a row. */
static s2_status fill_cache(s2_bench_case *one, int32_t *seqs, int32_t n_seqs)
{
    const int32_t turn =
        one->shape->page_tok > 0 && one->shape->layers == 0 ? one->shape->page_tok : INT32_MAX;
    bool grew = true;
    for (int32_t seq = 0; seq < n_seqs; seq++)
        S2_TRY(s2_cache_open(one->cache, &seqs[seq]));
    for (int32_t at = 0; grew; at++) {
        grew = false;
        for (int32_t seq = 0; seq < n_seqs; seq++) {
            const int32_t left = one->seqs[seq].k_tok - s2_cache_n_tok(one->cache, seqs[seq]);
            if (left > 0)
                S2_TRY(s2_cache_append(one->cache, seqs[seq], left < turn ? left : turn));
            grew = grew || left > 0;
        }
    }
    return S2_OK;
}

static s2_status create_cache(s2_bench *bench, s2_bench_case *one)
{
    s2_cache_options options = s2_cache_options_default(&one->pattern);
    if (one->shape->page_tok > 0)
        options.page_tok = one->shape->page_tok;
    return s2_cache_create(&one->pattern, &options, &one->cache, &bench->why);
}

static s2_status check_pool(const s2_bench *bench, const s2_bench_case *one)
{
    const s2_cache_usage use = s2_cache_use(one->cache);
    return use.pool_pages * use.page_slots * HEAD_DIM * number_bytes(bench) <= POOL_BYTES ? S2_OK : S2_ENOMEM;
}

/* All copies are sequences of one shrunken cache. */
static s2_status place_cached(s2_bench *bench, s2_bench_case *one)
{
    const int32_t wanted = one->shape->layers > 0 ? 1 : 1 + (int32_t)(ROTATE_BYTES / one->kv_bytes);
    one->n_copies = wanted < LIMIT_COPIES ? wanted : LIMIT_COPIES;
    S2_TRY(create_cache(bench, one));
    for (int32_t copy = 0; copy < one->n_copies; copy++) {
        int32_t *const seqs = S2_NEW(&one->arena, int32_t, one->shape->batch);
        if (seqs == NULL)
            return S2_ENOMEM;
        S2_TRY(fill_cache(one, seqs, one->shape->batch));
        one->cached[copy] = (s2_cached){one->cache, seqs};
        one->problems[copy] = problem_of(bench, one);
        one->problems[copy].cached = &one->cached[copy];
    }
    return check_pool(bench, one);
}

static bool is_cached(const s2_bench *bench, const s2_bench_case *one)
{
    return bench->cached || one->shape->page_tok > 0;
}

/* Copies of contiguous keys are as layers are: one plan serves them all. Where pages are chosen each copy has
 * its own bounds, which would else stay in the last-level cache. */
static bool has_own_state(const s2_bench *bench, const s2_bench_case *one, int32_t copy)
{
    return copy == 0 || is_cached(bench, one) || one->shape->select_pages > 0;
}

static s2_status prepare_all(s2_bench *bench, s2_bench_case *one, bool early)
{
    for (int32_t copy = 0; copy < one->n_copies; copy++) {
        one->problems[copy].early = early;
        if (has_own_state(bench, one, copy))
            S2_TRY(s2_kernel_decode.prepare(bench->device, &one->problems[copy], &one->states[copy],
                                            &bench->why));
    }
    return S2_OK;
}

static void finish_all(s2_bench *bench, s2_bench_case *one)
{
    for (int32_t copy = 0; copy < one->n_copies; copy++) {
        s2_kernel_decode.finish(bench->device, one->states[copy]);
        one->states[copy] = NULL;
    }
}

static s2_status record(s2_bench *bench, s2_bench_case *one, int32_t n_launches, void **graph)
{
    S2_TRY(bench->device->ops->record_begin(bench->device, &bench->why));
    s2_status status = S2_OK;
    for (int32_t at = 0; at < n_launches && status == S2_OK; at++) {
        const int32_t copy = at % one->n_copies;
        void *const state = one->states[has_own_state(bench, one, copy) ? copy : 0];
        status = s2_kernel_decode.run(bench->device, &one->problems[copy], state, &bench->why);
    }
    const s2_status ended = bench->device->ops->record_end(bench->device, graph, &bench->why);
    return status != S2_OK ? status : ended;
}

/* The median of replays, in microseconds a launch; *spread is (most - least) / median of all but the first
 * two. */
static s2_status time_graph(s2_bench *bench, void *graph, int32_t n_launches, double *us,
                            double *spread)
{
    double samples[N_REPLAYS];
    for (int32_t run = -2; run < N_REPLAYS; run++) {
        double ms = 0;
        S2_TRY(bench->device->ops->time_begin(bench->device));
        S2_TRY(bench->device->ops->replay(bench->device, graph, &bench->why));
        S2_TRY(bench->device->ops->time_end(bench->device, &ms));
        if (run >= 0)
            samples[run] = ms * 1e3 / n_launches;
    }
    qsort(samples, N_REPLAYS, sizeof *samples, s2_by_value);
    *us = samples[N_REPLAYS / 2];
    *spread = (samples[N_REPLAYS - 1] - samples[0]) / *us;
    return S2_OK;
}

static s2_status measure(s2_bench *bench, s2_bench_case *one, bool early, double *us, double *spread)
{
    int32_t n_launches = one->kv_bytes > 1e9 ? 4 : (int32_t)(4e9 / one->kv_bytes);
    n_launches = n_launches > 48 ? 48 : n_launches;
    n_launches = (n_launches + one->n_copies - 1) / one->n_copies * one->n_copies;
    void *graph = NULL;
    s2_status status = prepare_all(bench, one, early);
    if (status == S2_OK)
        status = record(bench, one, n_launches, &graph);
    if (status == S2_OK)
        status = time_graph(bench, graph, n_launches, us, spread);
    bench->device->ops->forget(bench->device, &graph);
    finish_all(bench, one);
    return status;
}

static const char *lengths_word(const s2_bench_shape *shape)
{
    static const char *const words[] = {[EVEN] = "even", [RAMP] = "ramp", [FEW] = "few"};
    return words[shape->lengths];
}

static void print_row(const s2_bench *bench, const s2_bench_case *one, double us, double spread,
                      double strict_us)
{
    const double rate = one->kv_bytes / (us * 1e-6), strict = one->kv_bytes / (strict_us * 1e-6);
    printf("{\"row\": \"decode\", \"kernel\": \"decode\", \"pattern\": \"%s\", \"heads\": %d, \"kv_heads\": "
           "%d, \"head_dim\": %d, \"batch\": %d, \"n_tok\": %d, \"q_tok\": %d, \"select_pages\": %d, "
           "\"cache\": \"%s\", \"page_tok\": %d, \"lengths\": \"%s\", \"kv_dtype\": \"%s\", "
           "\"kv_mb\": %.1f, \"us\": %.2f, \"spread\": %.3f, \"kv_tbs\": %.3f, \"over_ceiling\": %.3f, "
           "\"strict_us\": %.2f, \"strict_over_ceiling\": %.3f, \"copies\": %d}\n",
           one->shape->name, one->shape->heads, one->shape->kv_heads, HEAD_DIM, one->shape->batch,
           one->shape->n_tok, one->shape->q_tok, one->shape->select_pages,
           is_cached(bench, one) ? "evicted" : "contiguous",
           one->cache != NULL ? s2_cache_page_tok(one->cache) : 0, lengths_word(one->shape),
           bench->e4m3 ? "e4m3" : "bf16", one->kv_bytes * 1e-6, us, spread, rate * 1e-12,
           rate / bench->ceiling, strict_us, strict / bench->ceiling, one->n_copies);
    fflush(stdout);
}

static s2_status bench_steps(s2_bench *bench, s2_bench_case *one)
{
    double us = 0, spread = 0, strict_us = 0, ignored = 0;
    if (is_cached(bench, one))
        S2_TRY(place_cached(bench, one));
    else
        place_contiguous(bench, one);
    S2_TRY(measure(bench, one, true, &us, &spread));
    S2_TRY(measure(bench, one, false, &strict_us, &ignored));
    print_row(bench, one, us, spread, strict_us);
    return S2_OK;
}

/* ------------------------------------------------------------------ a graph that grows */

static double now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static s2_status follow_all(s2_bench *bench, s2_bench_case *one)
{
    const s2_follow_fn follow = s2_kernel_follow(&s2_kernel_decode);
    for (one->plan.layer = 0; one->plan.layer < one->shape->layers; one->plan.layer++)
        S2_TRY(follow(bench->device, &one->problems[0], one->states[0], &bench->why));
    return S2_OK;
}

static s2_status capture_model(s2_bench *bench, s2_bench_case *one, void **graph)
{
    const s2_follow_fn follow = s2_kernel_follow(&s2_kernel_decode);
    s2_status status = S2_OK;
    S2_TRY(follow_all(bench, one));
    S2_TRY(bench->device->ops->record_begin(bench->device, &bench->why));
    for (one->plan.layer = 0; one->plan.layer < one->shape->layers && status == S2_OK; one->plan.layer++) {
        status = follow(bench->device, &one->problems[0], one->states[0], &bench->why);
        if (status == S2_OK)
            status = s2_kernel_decode.run(bench->device, &one->problems[0], one->states[0], &bench->why);
    }
    const s2_status ended = bench->device->ops->record_end(bench->device, graph, &bench->why);
    return status != S2_OK ? status : ended;
}

static s2_status prepare_model(s2_bench *bench, s2_bench_case *one, void **graph)
{
    bench->device->ops->forget(bench->device, graph);
    finish_all(bench, one);
    one->plan.layer = 0;
    one->problems[0].early = true;
    S2_TRY(s2_kernel_decode.prepare(bench->device, &one->problems[0], &one->states[0], &bench->why));
    return capture_model(bench, one, graph);
}

/* One token more for every sequence; where a list has outgrown its room, a state and a graph made anew. */
static s2_status grow(s2_bench *bench, s2_bench_case *one, void **graph, int32_t *n_anew)
{
    for (int32_t seq = 0; seq < one->shape->batch; seq++) {
        S2_TRY(s2_cache_append(one->cache, one->cached[0].seqs[seq], 1));
        one->seqs[seq].k_tok = s2_cache_n_tok(one->cache, one->cached[0].seqs[seq]);
    }
    const s2_status status = follow_all(bench, one);
    if (status != S2_EUNSUPPORTED)
        return status;
    ++*n_anew;
    return prepare_model(bench, one, graph);
}

/* Microseconds a replay, and of the host until it could go on; n replays are queued behind one another. */
typedef struct s2_bench_growth {
    double us, host_us;
    int32_t n_anew;
} s2_bench_growth;

static s2_status time_model(s2_bench *bench, s2_bench_case *one, void **graph, int32_t n, bool grows,
                            s2_bench_growth *out)
{
    const s2_device_ops *const ops = bench->device->ops;
    double ms = 0, host_us = 0;
    *out = (s2_bench_growth){0};
    S2_TRY(ops->sync(bench->device, &bench->why));
    S2_TRY(ops->time_begin(bench->device));
    for (int32_t at = 0; at < n; at++) {
        const double begin = now_us();
        if (grows)
            S2_TRY(grow(bench, one, graph, &out->n_anew));
        S2_TRY(bench->device->ops->replay(bench->device, *graph, &bench->why));
        host_us += now_us() - begin;
    }
    S2_TRY(ops->time_end(bench->device, &ms));
    out->us = ms * 1e3 / n;
    out->host_us = host_us / n;
    return S2_OK;
}

/* Equal lengths are whole blocks, so with its first token every sequence enters another, whose lists are made anew. */
static s2_status bench_growth(s2_bench *bench, s2_bench_case *one)
{
    void *graph = NULL;
    s2_bench_growth warm, same, entering, inside;
    S2_TRY(place_cached(bench, one));
    s2_status status = prepare_model(bench, one, &graph);
    if (status == S2_OK)
        status = time_model(bench, one, &graph, 2, false, &warm);
    if (status == S2_OK)
        status = time_model(bench, one, &graph, N_GROWN, false, &same);
    if (status == S2_OK)
        status = time_model(bench, one, &graph, 1, true, &entering);
    if (status == S2_OK)
        status = time_model(bench, one, &graph, N_GROWN - 1, true, &inside);
    bench->device->ops->forget(bench->device, &graph);
    if (status != S2_OK)
        return status;
    S2_TRY(check_pool(bench, one));
    const s2_bench_shape *const shape = one->shape;
    printf("{\"row\": \"decode_growth\", \"pattern\": \"%s\", \"heads\": %d, \"kv_heads\": %d, \"batch\": "
           "%d, \"n_tok\": %d, "
           "\"lengths\": \"%s\", \"page_tok\": %d, \"layers\": %d, \"tokens\": %d, \"same_us\": %.1f, "
           "\"entering_us\": %.1f, "
           "\"inside_us\": %.1f, \"inside_host_us\": %.1f, \"graphs_anew\": %d}\n",
           shape->name, shape->heads, shape->kv_heads, shape->batch, shape->n_tok, lengths_word(shape),
           shape->page_tok, shape->layers, N_GROWN, same.us, entering.us, inside.us, inside.host_us,
           entering.n_anew + inside.n_anew);
    fflush(stdout);
    return S2_OK;
}

static s2_status bench_shape(s2_bench *bench, const s2_bench_shape *shape)
{
    s2_bench_case *const one = calloc(1, sizeof *one);
    if (one == NULL)
        return S2_ENOMEM;
    one->shape = shape;
    s2_status status = make_plan(bench, one);
    if (status == S2_OK)
        status = shape->layers > 0 ? bench_growth(bench, one) : bench_steps(bench, one);
    if (status != S2_OK)
        printf("{\"row\": \"none\", \"pattern\": \"%s\", \"batch\": %d, \"n_tok\": %d, \"why\": \"%s\"}\n",
               shape->name, shape->batch, shape->n_tok, s2_diag_text(&bench->why, status));
    finish_all(bench, one);
    s2_cache_destroy(&one->cache);
    s2_arena_release(&one->arena);
    free(one);
    return status;
}

/* ------------------------------------------------------------------ all of them */

static s2_status open_bench(s2_bench *bench)
{
    enum { MOST_ROWS = 16 * 16 * 32, MOST_KV_HEADS = 32, STORED_UNIT = 64 };
    const s2_device_ops *ops;
    S2_TRY(s2_device_open("gpu", &bench->device, &bench->why));
    ops = bench->device->ops;
    void **const pools[] = {&bench->k, &bench->v};
    void **const small[] = {&bench->q, &bench->o, &bench->lse, &bench->scale};
    const s2_dtype stored = bench->e4m3 ? S2_F8 : S2_BF16;
    float scale[MOST_KV_HEADS];
    for (int at = 0; at < MOST_KV_HEADS; at++)
        scale[at] = 1.0f / STORED_UNIT;
    for (int at = 0; at < 2; at++) {
        S2_TRY(ops->alloc(bench->device, (size_t)POOL_BYTES, pools[at]));
        S2_TRY(ops->fill_normal(bench->device, *pools[at], POOL_BYTES / s2_dtype_bytes(stored), stored,
                                (uint64_t)at + 1, bench->e4m3 ? (float)STORED_UNIT : 1.0f));
    }
    for (int at = 0; at < 4; at++)
        S2_TRY(ops->alloc(bench->device, MOST_ROWS * HEAD_DIM * 4, small[at]));
    S2_TRY(ops->copy_in(bench->device, bench->scale, scale, sizeof scale));
    S2_TRY(ops->fill_normal(bench->device, bench->q, MOST_ROWS * HEAD_DIM, S2_BF16, 3, 1.0f));
    return s2_cuda_read_rate(bench->device, bench->k, (size_t)2 << 30, &bench->ceiling, &bench->why);
}

static void print_device(const s2_bench *bench)
{
    const time_t now = time(NULL);
    char date[32] = "";
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d", &utc);
    printf(
        "{\"row\": \"device\", \"name\": \"%s\", \"uuid\": \"%s\", \"driver\": \"%s\", \"runtime\": \"%s\", "
        "\"units\": %d, "
        "\"read_ceiling_tbs\": %.3f, \"clock_mhz\": %.0f, \"commit\": \"%s\", \"date\": \"%s\"}\n",
        bench->device->name, bench->device->uuid, bench->device->driver, bench->device->runtime,
        bench->device->n_units, bench->ceiling * 1e-12, bench->device->ops->clock_mhz(bench->device),
        bench->commit, date);
    fflush(stdout);
}

static void read_option(s2_bench *bench, const char *arg)
{
    if (strncmp(arg, "--only=", 7) == 0)
        bench->only = arg + 7;
    else if (strncmp(arg, "--batch=", 8) == 0)
        bench->only_batch = atoi(arg + 8);
    else if (strncmp(arg, "--tok=", 6) == 0)
        bench->only_tok = arg + 6;
    else if (strcmp(arg, "--cached") == 0)
        bench->cached = true;
    else if (strcmp(arg, "--kv-dtype=e4m3") == 0)
        bench->e4m3 = true;
    else if (strncmp(arg, "--commit=", 9) == 0)
        bench->commit = arg + 9;
}

static bool wants(const s2_bench *bench, const s2_bench_shape *shape)
{
    return s2_words_hold(bench->only, shape->name) &&
           (bench->only_batch == 0 || bench->only_batch == shape->batch) &&
           s2_words_hold_tokens(bench->only_tok, shape->n_tok);
}

int main(int argc, char **argv)
{
    s2_bench bench = {.commit = "unknown"};
    for (int at = 1; at < argc; at++)
        read_option(&bench, argv[at]);
    const s2_status status = open_bench(&bench);
    if (status != S2_OK) {
        fprintf(stderr, "bench_decode: %s\n", s2_diag_text(&bench.why, status));
        return 77;
    }
    print_device(&bench);
    int n_failed = 0;
    for (int32_t at = 0; at < N_SHAPES; at++)
        if (wants(&bench, &shapes[at]))
            n_failed += bench_shape(&bench, &shapes[at]) != S2_OK;
    void *const memory[] = {bench.k, bench.v, bench.q, bench.o, bench.lse, bench.scale};
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++)
        bench.device->ops->release(bench.device, memory[at]);
    s2_device_close(&bench.device);
    return n_failed != 0;
}
