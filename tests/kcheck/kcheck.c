/*
 * kcheck - every registered kernel x pattern family x shape x type x edge case, judged by s2_validate.
 *
 * usage: kcheck [--list] [--kernel=NAME] [--case=NAME] [--part=N/M] [--seed=N] [--quick] [--sample] [--bench] [--sabotage] [--light]
 * --quick takes some shapes of every pattern family, in f32. --sample takes an eighth of the pairs of
 * shape and family, each in one type, where a CPU computes: each type still meets each family; of faulty
 * kernels, the sound one among them and those of the light check meet a quarter of their cases.
 * --light judges as `make bench-gpu` does before it times a shape: a few windows, the rows of a few heads. It
 * may miss faults that leave the rows alone; with --sabotage at least LIGHT_LEAST of them must still be
 * convicted. A failure line is the command that replays it. Kernels without a device here, and problems that
 * a kernel does not support, are counted as skipped. --part=2/3 judges every third case from the second on. Last line: N passed, N failed[, N skipped].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge/watchdog.h"
#include "judge/validate.h"
#include "pattern/parse.h"
#include "tests/kcheck/listed.h"
#include "tests/kcheck/sabotage.h"
#include "tests/kcheck/selection.h"

/* Shapes that a family meets: those whose KV heads have eight query heads, by any kernel or by those of short windows
 * alone; or the others, with those for gradients in order or without; or only those. */
typedef enum { OTHERS, OTHERS_IN_ORDER, IN_ORDER, EIGHTS, EIGHTS_ALONE } s2_meets;

/* What heads read; `heads`, `head-dim` and `block` come from the shape. */
static const struct {
    const char *name;
    const char *rules;
    s2_meets meets;
} families[] = {
    {"dense", "layers all: dense", OTHERS_IN_ORDER},
    {"local", "layers all: local 3", OTHERS},
    {"rotated", "layers all: local 2 | stride 3 phase head+1", OTHERS},
    {"rotated_kv", "layers all: local 2 | stride 4 phase kv", OTHERS},
    {"stream", "layers all: sink 4t | local 70t", OTHERS},
    {"stride_only", "layers all: stride 4 phase head+1", OTHERS},
    {"mixed", "layers all: local 1 | stride 2; heads 0: dense", OTHERS},
    {"random", "layers all: local 1 | random 2 seed 3", OTHERS},
    {"chunks", "layers all: chunk 2", OTHERS},
    {"longformer", "layers all: local 33t | columns 1 | rows 2", OTHERS},
    {"empty_rows", "layers all: local 2 when query 2..", OTHERS},
    {"ranges", "layers all: local 2 | stride 2 phase kv when distance 2..5 | dilated 3 when distance 5..",
     OTHERS},
    {"both_ways", "causal no; layers all: local 2 | stride 3", OTHERS},
    {"window_300", "layers all: local 300t", OTHERS},
    {"window_777", "layers all: local 777t", IN_ORDER}, /* no narrower ones are taken in order */
    {"window_2000", "layers all: local 2000t", IN_ORDER},
    {"window", "layers all: local 128t", EIGHTS},
    {"short_window", "layers all: local 37t", EIGHTS},
    {"window_1", "layers all: local 1t", EIGHTS_ALONE},
    {"window_8", "layers all: local 8t", EIGHTS_ALONE},
    {"window_65", "layers all: local 65t", EIGHTS_ALONE},
    {"window_127", "layers all: local 127t", EIGHTS_ALONE},
    {"window_129", "layers all: local 129t", EIGHTS_ALONE}, /* which they refuse, or compute as it is */
};

enum { MOST_LENGTHS = 3, MOST_SEQS = 64 };

/*
 * Head dimensions that differ from case to case: the 16-bit cases of both have all multiples of 8 up to 256; with
 * eight query heads a KV head, up to 64.
 */
enum { EVERY_DIM = 0, EVERY_DIM_SHIFTED = -13 };

static const struct {
    const char *name;
    int32_t heads, kv_heads, head_dim, block;
    s2_plan_seq seqs[MOST_LENGTHS]; /* those with keys */
    s2_pass pass;
    bool padded;
    bool head_major;
    float spread; /* 0: 1 */
    float cap;
    bool sinks;
    bool e4m3;
    bool eights;
    bool in_order;  /* meets families that gradients in order take, and no other */
    bool gpu_alone; /* too much for a CPU: many have more tiles or lists than a GPU has thread blocks */
    int32_t batch;  /* not 0: so many sequences, which have those lengths in turn */
} shapes[] = {
    {"one_token", 2, 1, 64, 16, .seqs = {{1, 1}}},
    {"tail", 4, 2, 64, 16, .seqs = {{129, 129}}, .head_major = true},
    {"chunk", 4, 1, 128, 32, .seqs = {{37, 300}}, .padded = true},
    {"decode", 4, 4, 64, 64, .seqs = {{1, 333}}},
    {"varlen", 2, 2, 64, 16, .seqs = {{65, 65}, {1, 140}, {100, 257}}, .padded = true},
    {"batch", 4, 2, 96, 64, .seqs = {{191, 191}, {191, 191}}, .head_major = true},
    {"wide", 2, 1, 256, 128, .seqs = {{320, 320}}},
    {"small_blocks", 2, 2, 24, 4, .seqs = {{150, 150}}},
    {"equal_scores", 4, 2, 64, 32, .seqs = {{257, 257}}, .padded = true, .spread = 0.001f},
    {"one_dominant", 4, 2, 64, 32, .seqs = {{257, 257}}, .spread = 40.0f},
    {"some_dominant", 2, 1, 96, 64, .seqs = {{400, 400}}, .spread = 40.0f},
    {"long_dominant", 4, 1, 128, 64, .seqs = {{777, 777}}, .spread = 40.0f},
    {"far_dominant", 4, 1, 128, 64, .seqs = {{130, 6000}}, .spread = 40.0f, .gpu_alone = true},
    {"tiles_dominant", 20, 4, 128, 64, .seqs = {{900, 2400}}, .head_major = true, .spread = 40.0f,
     .gpu_alone = true},
    {"step", 4, 2, 64, 16, .seqs = {{1, 333}}, .pass = S2_PASS_DECODE},
    {"step_first", 4, 2, 64, 16, .seqs = {{1, 1}}, .pass = S2_PASS_DECODE},
    {"step_group", 8, 1, 128, 32, .seqs = {{3, 300}}, .pass = S2_PASS_DECODE, .padded = true},
    {"step_rows", 8, 2, 128, 64, .seqs = {{16, 1000}}, .pass = S2_PASS_DECODE, .head_major = true},
    {"step_varlen", 4, 2, 96, 16, .seqs = {{1, 1}, {4, 140}, {16, 257}}, .pass = S2_PASS_DECODE,
     .padded = true},
    {"step_wide", 4, 2, 256, 128, .seqs = {{5, 320}}, .pass = S2_PASS_DECODE, .head_major = true},
    {"step_small", 2, 2, 24, 4, .seqs = {{2, 150}}, .pass = S2_PASS_DECODE},
    {"step_long", 4, 2, 128, 64, .seqs = {{1, 5000}}, .pass = S2_PASS_DECODE, .head_major = true},
    {"step_dominant", 4, 4, 64, 32, .seqs = {{1, 2000}}, .pass = S2_PASS_DECODE, .spread = 40.0f},
    {"step_chunks", 16, 2, 64, 32, .seqs = {{16, 700}, {11, 90}}, .pass = S2_PASS_DECODE, .padded = true},
    {"step_wide_rows", 16, 2, 256, 128, .seqs = {{5, 900}, {7, 333}}, .pass = S2_PASS_DECODE},
    {"step_many", 8, 8, 96, 64, .seqs = {{6, 500}, {16, 1100}, {1, 40}}, .pass = S2_PASS_DECODE,
     .head_major = true},
    {"groups", 8, 2, 128, 64, .seqs = {{700, 777}}, .head_major = true},
    {"tiles", 20, 4, 64, 64, .seqs = {{900, 900}}, .head_major = true, .gpu_alone = true},
    {"columns", 24, 24, 128, 64, .seqs = {{900, 900}}, .head_major = true, .gpu_alone = true},
    {"alone", 6, 6, 112, 64, .seqs = {{300, 300}, {65, 65}}, .padded = true, .spread = 4.0f, .sinks = true},
    /* Gradients in order take no shorter one; columns of the second are cut. */
    {"alone_long", 2, 2, 112, 64, .seqs = {{8192, 8192}, {24700, 24700}}, .sinks = true, .in_order = true,
     .gpu_alone = true},
    {"alone_groups", 8, 2, 128, 64, .seqs = {{8192, 8192}}, .in_order = true, .gpu_alone = true},
    {"alone_order", 1, 1, 128, 64, .seqs = {{4133, 4133}}, .in_order = true, .gpu_alone = true},
    {"columns_groups", 36, 18, 128, 64, .seqs = {{900, 900}, {65, 65}, {130, 130}}, .padded = true,
     .sinks = true, .gpu_alone = true},
    {"wide_groups", 8, 2, 256, 64, .seqs = {{700, 777}}, .head_major = true},
    {"dims", 4, 2, EVERY_DIM, 16, .seqs = {{65, 65}, {100, 257}}, .padded = true},
    {"dims_sinks", 4, 1, EVERY_DIM_SHIFTED, 64, .seqs = {{150, 290}}, .head_major = true, .sinks = true},
    {"sinks", 8, 2, 64, 16, .seqs = {{65, 65}, {100, 257}}, .padded = true, .sinks = true},
    {"sinks_groups", 4, 1, 128, 64, .seqs = {{300, 300}}, .head_major = true, .spread = 4.0f, .sinks = true},
    {"capped", 4, 2, 64, 16, .seqs = {{129, 140}}, .spread = 6.0f, .cap = 5.0f},
    {"capped_wide", 2, 1, 256, 64, .seqs = {{200, 200}}, .head_major = true, .spread = 30.0f, .cap = 50.0f},
    {"capped_sinks", 4, 1, 128, 32, .seqs = {{230, 230}}, .padded = true, .spread = 6.0f, .cap = 8.0f,
     .sinks = true},
    {"e4m3", 4, 2, 64, 16, .seqs = {{129, 140}}, .spread = 3.0f, .e4m3 = true},
    {"e4m3_one", 2, 1, 128, 64, .seqs = {{1, 1}}, .e4m3 = true},
    {"e4m3_varlen", 4, 2, 128, 16, .seqs = {{65, 65}, {1, 140}, {100, 257}}, .padded = true, .e4m3 = true},
    {"e4m3_groups", 8, 2, 128, 64, .seqs = {{700, 777}}, .head_major = true, .spread = 4.0f, .e4m3 = true},
    {"e4m3_long", 5, 5, 96, 32, .seqs = {{1500, 1500}}, .e4m3 = true},
    {"e4m3_tiles", 20, 4, 64, 64, .seqs = {{900, 900}}, .head_major = true, .e4m3 = true, .gpu_alone = true},
    {"e4m3_dominant", 4, 1, 128, 64, .seqs = {{777, 777}, {777, 777}}, .spread = 40.0f, .e4m3 = true},
    {"e4m3_far_dominant", 4, 1, 128, 64, .seqs = {{130, 6000}}, .spread = 40.0f, .e4m3 = true,
     .gpu_alone = true},
    {"e4m3_tiles_dominant", 20, 4, 128, 64, .seqs = {{900, 2400}}, .head_major = true, .spread = 40.0f,
     .e4m3 = true, .gpu_alone = true},
    {"eights", 16, 1, 64, 16, .seqs = {{65, 65}, {100, 257}, {1, 140}}, .padded = true, .sinks = true,
     .eights = true},
    {"eights_dims", 24, 3, 40, 64, .seqs = {{150, 461}}, .head_major = true, .spread = 4.0f, .eights = true},
    {"eights_dominant", 8, 1, 64, 32, .seqs = {{400, 400}}, .spread = 40.0f, .eights = true},
    {"eights_batch", 16, 1, 64, 16, .seqs = {{65, 65}, {257, 257}, {140, 140}}, .padded = true, .sinks = true,
     .eights = true},
    {"eights_long", 24, 3, 40, 64, .seqs = {{1100, 1100}}, .head_major = true, .spread = 4.0f,
     .eights = true},
    {"eights_tiles", 400, 50, 64, 64, .seqs = {{160, 160}, {160, 160}, {130, 130}}, .sinks = true,
     .eights = true, .gpu_alone = true},
    {"eights_tiny", 8, 1, 64, 16, .seqs = {{1, 1}, {7, 7}, {9, 9}}, .head_major = true, .sinks = true,
     .eights = true},
    {"eights_whole", 16, 2, EVERY_DIM, 32, .seqs = {{64, 64}, {128, 128}, {136, 136}}, .eights = true},
    {"eights_chunks", 16, 2, EVERY_DIM_SHIFTED, 16, .seqs = {{8, 136}, {64, 500}, {3, 131}}, .padded = true,
     .eights = true},
    {"eights_sets", 32, 1, EVERY_DIM_SHIFTED, 64, .seqs = {{203, 203}}, .padded = true, .sinks = true,
     .eights = true},
    /* Of gradients, ranges as short as they get; and some that wait for one of the turn before. */
    {"eights_ranges", 8, 1, 64, 64, .seqs = {{528, 528}, {1601, 1601}}, .head_major = true, .eights = true,
     .gpu_alone = true},
    {"eights_set_ranges", 24, 1, 48, 16, .seqs = {{700, 700}}, .padded = true, .spread = 4.0f, .sinks = true,
     .eights = true, .gpu_alone = true},
    {"eights_turns", 360, 45, 64, 64, .seqs = {{33, 33}, {528, 528}, {70, 70}}, .eights = true,
     .gpu_alone = true},
    {"step_sinks", 8, 2, 64, 16, .seqs = {{1, 700}, {3, 90}}, .pass = S2_PASS_DECODE, .padded = true,
     .sinks = true},
    {"step_capped", 16, 2, 128, 32, .seqs = {{9, 300}}, .pass = S2_PASS_DECODE, .spread = 6.0f, .cap = 5.0f,
     .sinks = true},
    {"step_capped_wide", 4, 2, 256, 64, .seqs = {{1, 500}}, .pass = S2_PASS_DECODE, .head_major = true,
     .spread = 30.0f, .cap = 50.0f},
    {"step_e4m3", 4, 2, 64, 16, .seqs = {{1, 333}}, .pass = S2_PASS_DECODE, .e4m3 = true},
    {"step_e4m3_group", 32, 8, 128, 64, .seqs = {{1, 1500}}, .pass = S2_PASS_DECODE, .head_major = true,
     .spread = 4.0f, .e4m3 = true},
    {"step_e4m3_rows", 8, 1, 128, 32, .seqs = {{3, 300}, {2, 65}}, .pass = S2_PASS_DECODE, .padded = true,
     .cap = 5.0f, .sinks = true, .e4m3 = true},
    {"step_e4m3_many", 8, 2, 96, 16, .seqs = {{16, 400}, {5, 90}}, .pass = S2_PASS_DECODE, .head_major = true,
     .sinks = true, .e4m3 = true},
    {"step_e4m3_wide", 16, 2, 256, 128, .seqs = {{2, 333}}, .pass = S2_PASS_DECODE, .spread = 30.0f,
     .cap = 50.0f, .e4m3 = true},
    {"step_merged", 8, 1, 64, 16, .seqs = {{1, 3000}}, .pass = S2_PASS_DECODE, .head_major = true},
    {"step_lists", 128, 32, 128, 16, .seqs = {{11, 64}, {1, 21}, {3, 42}}, .pass = S2_PASS_DECODE,
     .gpu_alone = true},
    {"step_lists_chunks", 128, 8, 64, 64, .seqs = {{11, 333}, {1, 111}, {3, 222}}, .pass = S2_PASS_DECODE,
     .padded = true, .gpu_alone = true},
    {"step_lists_rows", 128, 2, 96, 16, .seqs = {{1, 75}}, .pass = S2_PASS_DECODE, .gpu_alone = true,
     .batch = 64},
    {"step_lists_batch", 64, 2, 128, 64, .seqs = {{1, 250}, {1, 100}, {1, 37}}, .pass = S2_PASS_DECODE,
     .head_major = true, .gpu_alone = true, .batch = 64},
    {"step_lists_tokens", 32, 4, 128, 32, .seqs = {{4, 150}, {2, 77}, {1, 20}}, .pass = S2_PASS_DECODE,
     .sinks = true, .gpu_alone = true, .batch = 40},
    {"step_lists_wide", 128, 4, 256, 16, .seqs = {{1, 90}, {1, 33}}, .pass = S2_PASS_DECODE,
     .gpu_alone = true, .batch = 34},
    {"step_lists_few", 128, 16, 64, 16, .seqs = {{1, 300}, {1, 90}, {1, 17}}, .pass = S2_PASS_DECODE,
     .padded = true, .gpu_alone = true, .batch = 24},
    {"step_lists_two", 128, 8, 96, 64, .seqs = {{1, 300}, {1, 90}, {1, 17}}, .pass = S2_PASS_DECODE,
     .gpu_alone = true, .batch = 24},
    {"step_lists_e4m3", 128, 4, 128, 32, .seqs = {{1, 250}, {1, 100}, {1, 37}}, .pass = S2_PASS_DECODE,
     .gpu_alone = true, .batch = 48, .e4m3 = true},
};

enum {
    N_FAMILIES = sizeof families / sizeof *families,
    N_SHAPES = sizeof shapes / sizeof *shapes,
    LIGHT_LEAST = 18
};

typedef struct s2_kcheck {
    const char *only_kernel;
    const char *only_case;
    uint64_t seed;
    int32_t part, n_parts; /* every n_parts-th case from the part-th on, from 1 */
    bool list, quick, sample, bench, sabotage, light;
    int64_t passed, failed, skipped, missed;
} s2_kcheck;

typedef struct s2_kcase {
    int32_t family, shape;
    s2_dtype dtype;
    char name[80];
} s2_kcase;

/* The number-th case; false past the end. */
static bool case_at(int32_t number, s2_kcase *out)
{
    if (number >= N_FAMILIES * N_SHAPES * S2_N_DTYPES)
        return false;
    out->dtype = (s2_dtype)(number % S2_N_DTYPES);
    out->shape = number / S2_N_DTYPES % N_SHAPES;
    out->family = number / S2_N_DTYPES / N_SHAPES;
    snprintf(out->name, sizeof out->name, "%s.%s.%s", families[out->family].name, shapes[out->shape].name,
             s2_dtype_word(out->dtype));
    return true;
}

/* How many sequences a shape has, and which. */
static int32_t seqs_of(int32_t shape, s2_plan_seq seqs[MOST_SEQS])
{
    int32_t n_lengths = 0;
    while (n_lengths < MOST_LENGTHS && shapes[shape].seqs[n_lengths].k_tok > 0)
        n_lengths++;
    const int32_t n = shapes[shape].batch > 0 ? shapes[shape].batch : n_lengths;
    for (int32_t seq = 0; seq < n; seq++)
        seqs[seq] = shapes[shape].seqs[seq % n_lengths];
    return n;
}

/* Kernels of gradients are judged by the gradients of the forward shapes. */
static s2_pass pass_of(const s2_device *device, const s2_kernel *kernel, s2_pass pass)
{
    return pass == S2_PASS_FORWARD && s2_kernel_takes_pass(device, kernel, S2_PASS_BACKWARD)
               ? S2_PASS_BACKWARD
               : pass;
}

static int32_t head_dim_of(const s2_kcase *one)
{
    const int32_t head_dim = shapes[one->shape].head_dim, n = shapes[one->shape].eights ? 8 : 32;
    return head_dim > 0 ? head_dim : 8 * (1 + (2 * one->family + (int32_t)one->dtype - head_dim) % n);
}

/* S2_OK with a verdict, or why there can be none. */
static s2_status judge(s2_device *device, const s2_kernel *kernel, const s2_kcase *one, const s2_kcheck *run,
                       s2_validation *out)
{
    char text[512];
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    const int32_t n = snprintf(text, sizeof text, "heads %d; kv-heads %d; head-dim %d; block %d; %s",
                               shapes[one->shape].heads, shapes[one->shape].kv_heads, head_dim_of(one),
                               shapes[one->shape].block, families[one->family].rules);
    s2_plan_seq seqs[MOST_SEQS];
    const int32_t n_seqs = seqs_of(one->shape, seqs);
    s2_status status = s2_pattern_parse(&arena, text, (size_t)n, NULL, &pattern, &diag);
    if (status == S2_OK) {
        s2_validate_request request = s2_validate_request_init(device, &pattern, seqs, n_seqs);
        request.kernel = kernel;
        request.pass = pass_of(device, kernel, shapes[one->shape].pass);
        request.phase = request.pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL;
        request.dtype = one->dtype;
        request.seed = run->seed;
        request.spread = shapes[one->shape].spread > 0.0f ? shapes[one->shape].spread : 1.0f;
        request.cap = shapes[one->shape].cap;
        request.sinks = shapes[one->shape].sinks;
        request.e4m3 = shapes[one->shape].e4m3;
        request.padded = shapes[one->shape].padded;
        request.head_major = shapes[one->shape].head_major;
        request.dense_beside = false;
        request.budget_flop = 0.0;
        request.budget_pairs = 4000000;
        request.needles = n_seqs == 1;
        request.cases = false; /* the shapes have them */
        request.n_timed = run->bench ? 10 : 0;
        request.n_steps = n_seqs > MOST_LENGTHS ? 6 : 36; /* a batch costs its sequences' steps */
        request.layout = (s2_cache_layout)(one->family % S2_N_CACHE_LAYOUTS);
        request.page_tok = 16;
        if (run->light) {
            request.few_heads = true;
            request.max_windows = 6;
            request.budget_pairs = 200000;
            request.needles = false;
            request.n_steps = 8;
        }
        status = s2_validate(device, &request, out);
    } else {
        fprintf(stderr, "%s: %s\n", one->name, diag.msg);
    }
    s2_arena_release(&arena);
    return status;
}

static void check_one(s2_kcheck *run, s2_device *device, const s2_kernel *kernel, const s2_kcase *one)
{
    s2_validation verdict;
    const s2_status status = judge(device, kernel, one, run, &verdict);
    if (status == S2_OK && verdict.outcome == S2_OUTCOME_UNSUPPORTED) {
        run->skipped++;
        return;
    }
    if (status == S2_OK && verdict.outcome == S2_OUTCOME_OK) {
        run->passed++;
        if (run->bench)
            printf("%-10s %-28s median %8.3f ms  min %8.3f ms  %8.2f GFLOP/s useful\n", kernel->traits->name,
                   one->name, verdict.warm.median_ms, verdict.warm.min_ms,
                   4e-6 * (double)verdict.counts.pairs * head_dim_of(one) / verdict.warm.median_ms);
        return;
    }
    run->failed++;
    printf("FAIL kcheck --kernel=%s --case=%s --seed=%llu: %s: %s\n", kernel->traits->name, one->name,
           (unsigned long long)run->seed,
           status == S2_OK ? s2_outcome_word(verdict.outcome) : s2_status_text(status),
           status == S2_OK ? verdict.reason : "");
}

/* Short windows meet shapes of eight heads a KV head, everything else the other shapes. */
static bool meet(const s2_kcase *one)
{
    const s2_meets meets = families[one->family].meets;
    return (meets >= EIGHTS) == shapes[one->shape].eights &&
           (meets == OTHERS_IN_ORDER || shapes[one->shape].in_order == (meets == IN_ORDER));
}

static bool wants(const char *only, const char *name)
{
    return only == NULL || strcmp(only, name) == 0;
}

/* The cases of scalar kernels, the reference and the faulty ones: fp32, and shapes that they get through
 * quickly. */
static bool is_quick(const s2_kcase *one)
{
    static const char *const names[] = {"tail",        "small_blocks", "varlen", "one_dominant", "step",
                                        "step_varlen", "step_small",   "sinks",  "capped",       "step_sinks",
                                        "step_capped", "step_e4m3",    "e4m3"};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (one->dtype == S2_F32 && strcmp(shapes[one->shape].name, names[at]) == 0)
            return true;
    return false;
}

/* The decode kernels once more, with pages that the query chooses: few, one, and more than there are. */
static void check_selection(s2_kcheck *run, s2_device *device, const s2_kernel *kernel)
{
    static const int32_t budgets[] = {8, 1, 21, 200};
    if (!s2_kernel_takes_pass(device, kernel, S2_PASS_DECODE) || kernel->traits->rank == 0)
        return; /* the reference reads every key */
    for (size_t at = 0; at < sizeof budgets / sizeof *budgets; at++) {
        char reason[160] = "";
        const bool good = s2_selection_judge(device, kernel, budgets[at], reason, sizeof reason);
        run->passed += good;
        run->failed += !good;
        if (!good)
            printf("FAIL kcheck --kernel=%s: selection of %d pages: %s\n", kernel->traits->name, budgets[at],
                   reason);
    }
}

/* Whether a case belongs to what was asked for, where none was asked for by name. */
static bool is_chosen(const s2_kcheck *run, const s2_kernel *kernel, const s2_kcase *one)
{
    if (run->quick || kernel->traits->rank == 0)
        return is_quick(one);
    if (shapes[one->shape].gpu_alone && kernel->device != S2_DEVICE_GPU)
        return false;
    if (families[one->family].meets == EIGHTS_ALONE && !kernel->traits->short_windows)
        return false;
    return !run->sample || kernel->device == S2_DEVICE_GPU ||
           (one->family + one->shape) % (8 * S2_N_DTYPES) == (int32_t)one->dtype;
}

static void check_kernel(s2_kcheck *run, const s2_kernel *kernel)
{
    s2_device *device = NULL;
    s2_diag why = {0};
    const s2_status status = s2_device_open(kernel->device == S2_DEVICE_GPU ? "gpu" : "cpu", &device, &why);
    s2_kcase one;
    if (status != S2_OK && !run->list)
        printf("skip %s: %s\n", kernel->traits->name, why.msg);
    for (int32_t number = 0; case_at(number, &one); number++) {
        if (!meet(&one) || !wants(run->only_case, one.name) ||
            (run->only_case == NULL && !is_chosen(run, kernel, &one)) ||
            number % run->n_parts != run->part - 1)
            continue;
        if (run->list)
            printf("--kernel=%s --case=%s\n", kernel->traits->name, one.name);
        else if (status != S2_OK)
            run->skipped++;
        else
            check_one(run, device, kernel, &one);
    }
    if (status == S2_OK && !run->list && run->only_case == NULL && run->part == 1)
        check_selection(run, device, kernel);
    if (status == S2_OK)
        s2_device_close(&device);
}

/* A sample takes a quarter where no case may convict, so that all are tried: the control, and what the light check misses. */
static bool is_tried(const s2_kcheck *run, const s2_kcase *one, bool control)
{
    return is_quick(one) && (!run->sample || !(control || run->light) || (one->family + one->shape) % 4 == 0);
}

/* A fault must be convicted by some case; the control by none. */
static void check_fault(s2_kcheck *run, s2_device *device, const s2_kernel *kernel, bool control)
{
    s2_kcase one;
    for (int32_t number = 0; case_at(number, &one); number++) {
        s2_validation verdict;
        if (!meet(&one) || !wants(run->only_case, one.name) || !is_tried(run, &one, control))
            continue;
        if (judge(device, kernel, &one, run, &verdict) != S2_OK || verdict.outcome == S2_OUTCOME_OK ||
            verdict.outcome == S2_OUTCOME_UNSUPPORTED)
            continue;
        if (control) {
            run->failed++;
            printf("FAIL the sound kernel was convicted on %s: %s: %s\n", one.name,
                   s2_outcome_word(verdict.outcome), verdict.reason);
        } else {
            run->passed++;
            printf("convicted %-16s on %-26s %-13s %s\n", kernel->traits->name, one.name,
                   s2_outcome_word(verdict.outcome), verdict.reason);
        }
        return;
    }
    if (run->light && !control) {
        run->missed++;
        printf("missed by the light check: %s\n", kernel->traits->name);
        return;
    }
    run->passed += control;
    run->failed += !control;
    printf(control ? "acquitted %s\n" : "FAIL kcheck --sabotage --kernel=%s: no case convicts it\n",
           kernel->traits->name);
}

#if S2_HAVE_CUDA
enum { CODE_NO_GPU = 77, CODE_TIMEOUT = 7 };

static int says_timeout(void *user)
{
    (void)user;
    return CODE_TIMEOUT;
}

static void feed(void *user, const char *stage, int32_t done, int32_t all)
{
    (void)stage;
    (void)done;
    (void)all;
    s2_watchdog_feed(user);
}

/* In a process of its own: judge a kernel that never ends, under the watchdog of s2 validate. */
static int judge_hang(void)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_device *device = NULL;
    s2_watchdog *dog = NULL;
    s2_validation verdict;
    const s2_plan_seq seq = {64, 64};
    static const char text[] = "heads 1; head-dim 64; layers all: dense";
    if (s2_device_open("gpu", &device, NULL) != S2_OK)
        return CODE_NO_GPU;
    if (s2_pattern_parse(&arena, text, sizeof text - 1, NULL, &pattern, NULL) != S2_OK ||
        s2_watchdog_start(3.0, says_timeout, NULL, &dog) != S2_OK)
        return 1;
    s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
    request.kernel = &s2_sabotage_hang;
    request.progress = feed;
    request.user = dog;
    return s2_validate(device, &request, &verdict) == S2_OK ? 2 : 3;
}

static void check_hang(s2_kcheck *run)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0)
        _exit(judge_hang());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        status = 256;
    const int code = WEXITSTATUS(status);
    run->passed += code == CODE_TIMEOUT;
    run->skipped += code == CODE_NO_GPU;
    run->failed += code != CODE_TIMEOUT && code != CODE_NO_GPU;
    printf("%s hang on a GPU: exit code %d\n",
           code == CODE_TIMEOUT  ? "convicted"
           : code == CODE_NO_GPU ? "skip"
                                 : "FAIL",
           code);
}
#endif

static void check_sabotage(s2_kcheck *run)
{
    s2_device *device = NULL;
    if (s2_device_open("cpu", &device, NULL) != S2_OK)
        return;
    for (int32_t fault = 0; s2_sabotage_kernel(fault) != NULL; fault++)
        if (wants(run->only_kernel, s2_sabotage_kernel(fault)->traits->name))
            check_fault(run, device, s2_sabotage_kernel(fault), fault == 0);
    for (int32_t fault = 0; s2_sabotage_decode(fault) != NULL && !run->light; fault++)
        if (wants(run->only_kernel, s2_sabotage_decode(fault)->traits->name))
            check_fault(run, device, s2_sabotage_decode(fault), fault == 0);
    for (int32_t fault = 0; s2_sabotage_gradient(fault) != NULL && !run->light; fault++)
        if (wants(run->only_kernel, s2_sabotage_gradient(fault)->traits->name))
            check_fault(run, device, s2_sabotage_gradient(fault), fault == 0);
    s2_device_close(&device);
#if S2_HAVE_CUDA
    if (wants(run->only_kernel, "hang"))
        check_hang(run);
#endif
}

static bool read_options(s2_kcheck *run, int argc, char **argv)
{
    for (int at = 1; at < argc; at++) {
        if (strncmp(argv[at], "--kernel=", 9) == 0)
            run->only_kernel = argv[at] + 9;
        else if (strncmp(argv[at], "--case=", 7) == 0)
            run->only_case = argv[at] + 7;
        else if (strncmp(argv[at], "--seed=", 7) == 0)
            run->seed = strtoull(argv[at] + 7, NULL, 0);
        else if (strncmp(argv[at], "--part=", 7) == 0) {
            if (sscanf(argv[at] + 7, "%d/%d", &run->part, &run->n_parts) != 2 || run->part < 1 ||
                run->part > run->n_parts)
                return false;
        } else if (strcmp(argv[at], "--list") == 0)
            run->list = true;
        else if (strcmp(argv[at], "--quick") == 0)
            run->quick = true;
        else if (strcmp(argv[at], "--sample") == 0)
            run->sample = true;
        else if (strcmp(argv[at], "--bench") == 0)
            run->bench = true;
        else if (strcmp(argv[at], "--sabotage") == 0)
            run->sabotage = true;
        else if (strcmp(argv[at], "--light") == 0)
            run->light = true;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    s2_kcheck run = {.seed = 1, .part = 1, .n_parts = 1};
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was judged before a kill is told */
    if (!read_options(&run, argc, argv)) {
        fputs("usage: kcheck [--list] [--kernel=NAME] [--case=NAME] [--part=N/M] [--seed=N] [--quick] "
              "[--sample] "
              "[--bench] [--sabotage] [--light]\n",
              stderr);
        return 2;
    }
    for (int32_t at = 0; s2_kernel_at(at) != NULL && !run.sabotage; at++)
        if (wants(run.only_kernel, s2_kernel_at(at)->traits->name))
            check_kernel(&run, s2_kernel_at(at));
    if (!run.sabotage && wants(run.only_kernel, s2_listed_cpu.traits->name))
        check_kernel(&run, &s2_listed_cpu);
    if (!run.sabotage && s2_kernel_find("sm90") != NULL &&
        wants(run.only_kernel, s2_listed_sm90.traits->name))
        check_kernel(&run, &s2_listed_sm90);
    if (run.sabotage || (!run.list && run.only_kernel == NULL))
        check_sabotage(&run);
    if (run.list)
        return 0;
    if (run.light && run.sabotage && run.only_kernel == NULL && run.passed < LIGHT_LEAST)
        run.failed++;
    printf("%lld passed, %lld failed", (long long)run.passed, (long long)run.failed);
    if (run.skipped > 0)
        printf(", %lld skipped", (long long)run.skipped);
    printf("\n");
    return run.failed > 0 || run.passed == 0;
}
