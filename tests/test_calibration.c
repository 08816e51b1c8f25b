/*
 * test_calibration.c - the time model: schedules, loads, constants as text, fitting, predictions above
 * floors.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "pattern/parse.h"
#include "plan/decode.h"
#include "plan/follow.h"
#include "plan/launch.h"
#include "plan/steps.h"
#include "calibrate/accuracy.h"
#include "calibrate/fit.h"
#include "sim/predict.h"
#include "sim/price.h"
#include "sim/schedule.h"
#include "tests/s2command.h"
#include "tests/s2parsed.h"
#include "tests/s2test.h"

static s2_time_model h200_model(void)
{
    s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    return calibration.model;
}

/* Each piece to the worker that is free first, one by one. */
static int64_t end_by_hand(const int64_t *cost, int32_t n, int32_t n_workers)
{
    int64_t load[64] = {0}, most = 0;
    for (int32_t piece = 0; piece < n; piece++) {
        int32_t least = 0;
        for (int32_t worker = 1; worker < n_workers; worker++)
            least = load[worker] < load[least] ? worker : least;
        load[least] += cost[piece];
        most = load[least] > most ? load[least] : most;
    }
    return most;
}

static void pieces_in_any_order_end_as_if_handed_out_one_by_one(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(31)};
    for (int64_t at = 0; at < s2_test_cases(300); at++) {
        int64_t cost[400];
        int32_t n = 0;
        const int32_t n_workers = 1 + (int32_t)s2_rng_below(&rng, 40);
        s2_workers workers;
        s2_workers_init(&workers, n_workers);
        while (n < 300) {
            const int32_t k = 1 + (int32_t)s2_rng_below(&rng, 90);
            const int64_t w = (int64_t)s2_rng_below(&rng, 50);
            s2_workers_give(&workers, k, w);
            for (int32_t piece = 0; piece < k && n < 400; piece++)
                cost[n++] = w;
        }
        assert_int_equal(s2_workers_end(&workers), end_by_hand(cost, n, n_workers));
    }
}

/* A launch of the drawn kind, planned as the built-in constants say. */
static bool predict_point(s2_arena *arena, const s2_time_model *model, const s2_run_point *point,
                          s2_launch_price *out)
{
    const s2_pattern pattern = s2_parsed(arena, point->pattern);
    const s2_launch launch = {.pattern = &pattern,
                              .phase = point->pass == S2_PASS_DECODE ? S2_DECODE : S2_PREFILL,
                              .pass = point->pass,
                              .q_tok = point->q_tok,
                              .k_tok = point->k_tok,
                              .batch = point->batch,
                              .dtype = point->dtype};
    const s2_status status = s2_predict_launch(arena, model, &launch, out);
    assert_true(status == S2_OK || status == S2_EUNSUPPORTED);
    return status == S2_OK;
}

static s2_run_point small_point(int32_t nth, uint64_t seed)
{
    s2_run_point point;
    s2_run_point_drawn(S2_PASS_FORWARD, seed, nth, &point);
    if (point.k_tok > 2000) {
        point.k_tok = 500 + point.k_tok % 1500;
        point.q_tok = point.q_tok < point.k_tok ? point.q_tok : point.k_tok;
    }
    return point;
}

static void drawn_points_are_patterns_and_depend_on_the_seed_alone(void **state)
{
    (void)state;
    int32_t n_same = 0;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        for (int32_t nth = 0; nth < 200; nth++) {
            s2_arena arena = {0};
            s2_run_point one, again, other;
            s2_run_point_drawn((s2_pass)pass, 7, nth, &one);
            s2_run_point_drawn((s2_pass)pass, 7, nth, &again);
            s2_run_point_drawn((s2_pass)pass, 8, nth, &other);
            assert_memory_equal(&one, &again, sizeof one);
            n_same += memcmp(&one, &other, sizeof one) == 0;
            (void)s2_parsed(&arena, one.pattern);
            assert_in_range(one.q_tok, 1, one.k_tok);
            assert_in_range(one.k_tok, 1, 131072);
            assert_true(pass != S2_PASS_DECODE || one.q_tok <= 16);
            s2_arena_release(&arena);
        }
    assert_true(n_same < 10);
}

static void families_with_a_kernel_of_their_own_are_drawn_apart(void **state)
{
    static const char *const words[] = {"e4m3", "listed"};
    (void)state;
    s2_run_point one, again, other;
    assert_false(s2_run_point_drawn_of("dense", S2_PASS_FORWARD, 7, 0, &one));
    for (int32_t w = 0; w < 2; w++)
        for (int32_t nth = 0; nth < 200; nth++) {
            s2_arena arena = {0};
            assert_false(s2_run_point_drawn_of(words[w], S2_PASS_BACKWARD, 7, nth, &one));
            assert_true(s2_run_point_drawn_of(words[w], S2_PASS_FORWARD, 7, nth, &one));
            assert_true(s2_run_point_drawn_of(words[w], S2_PASS_FORWARD, 7, nth, &again));
            assert_true(s2_run_point_drawn_of(words[w], S2_PASS_FORWARD, 8, nth, &other));
            assert_memory_equal(&one, &again, sizeof one);
            assert_memory_not_equal(&one, &other, sizeof one);
            assert_string_equal(one.family, words[w]);
            assert_int_equal(one.dtype, w == 0 ? S2_F8 : S2_BF16);
            assert_in_range(s2_parsed(&arena, one.pattern).head_dim, 64, 128);
            assert_in_range(one.q_tok, 1, one.k_tok);
            s2_arena_release(&arena);
        }
}

/* What a kernel of short windows takes, whatever runs it. */
static void assert_short(const s2_run_point *point)
{
    const s2_kernel_traits *const traits =
        point->pass == S2_PASS_FORWARD ? &s2_traits_sm90_window : &s2_traits_sm90_bwd_window;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, point->pattern);
    const s2_plan_options options = s2_kernel_cut(traits, pattern.head_dim);
    s2_plan_seq seqs[64];
    s2_plan plan;
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    assert_string_equal(point->family, "short");
    assert_true(point->pass == S2_PASS_FORWARD || point->q_tok == point->k_tok);
    assert_true(s2_kernel_takes_dim(traits, 90, pattern.head_dim));
    assert_int_equal(pattern.n_heads / pattern.n_kv_heads % S2_WINDOW_HEADS, 0);
    assert_int_equal(
        s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, point->batch, &options, &plan, NULL), S2_OK);
    assert_true(s2_plan_reads_window(&plan, S2_WINDOW_MOST_TOK));
    assert_int_equal(plan.pack_heads, traits->pack_heads);
    s2_arena_release(&arena);
}

static void points_of_short_windows_are_what_their_kernels_take(void **state)
{
    (void)state;
    s2_run_point one, again, other;
    int32_t n_designed[2][2] = {{0}}, n_drawn[2] = {0}, n_same = 0;
    assert_false(s2_run_point_drawn_of("short", S2_PASS_DECODE, 7, 0, &one));
    for (int32_t pass = S2_PASS_FORWARD; pass <= S2_PASS_BACKWARD; pass++) {
        for (int32_t nth = 0; s2_run_point_designed((s2_pass)pass, nth, &one); nth++)
            if (strcmp(one.family, "short") == 0) {
                assert_short(&one);
                n_designed[pass][one.sinks]++;
            }
        for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
            assert_true(s2_run_point_drawn_of("short", (s2_pass)pass, 7, nth, &one));
            assert_true(s2_run_point_drawn_of("short", (s2_pass)pass, 7, nth, &again));
            assert_true(s2_run_point_drawn_of("short", (s2_pass)pass, 8, nth, &other));
            assert_memory_equal(&one, &again, sizeof one);
            n_same += memcmp(&one, &other, sizeof one) == 0;
            n_drawn[one.sinks]++;
            assert_short(&one);
        }
        assert_true(n_designed[pass][0] > 10 && n_designed[pass][1] > 5);
    }
    assert_true(n_drawn[0] > 0 && n_drawn[1] > 0 && n_same == 0);
}

/* What gradients in order take: kernels/cuda/bwd_sm90.cu asks this of a plan. */
static void assert_ordered(const s2_run_point *point)
{
    const s2_kernel_traits *const traits = &s2_traits_sm90_bwd_ordered;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, point->pattern);
    const s2_plan_options options = s2_kernel_cut(traits, pattern.head_dim);
    s2_plan_seq seqs[64];
    s2_plan plan;
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    assert_int_equal(point->pass, S2_PASS_BACKWARD);
    assert_true(s2_kernel_takes_dim(traits, 90, pattern.head_dim));
    assert_int_equal(
        s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, point->batch, &options, &plan, NULL), S2_OK);
    const int32_t window = s2_plan_window(&plan), group = pattern.n_heads / pattern.n_kv_heads;
    assert_int_equal(window > 0, strcmp(point->family, "sliding") == 0);
    assert_int_equal(s2_kernel_follows(&plan), window == 0 || window >= s2_kernel_least_window(group));
    assert_true(s2_kernel_takes_lengths(traits, &plan));
    s2_arena_release(&arena);
}

static void points_of_gradients_in_order_are_what_their_kernel_takes(void **state)
{
    (void)state;
    static const char *const families[] = {"ordered", "sliding"};
    s2_run_point one, again, other;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        int32_t n_designed = 0;
        assert_false(s2_run_point_drawn_of(families[f], S2_PASS_FORWARD, 7, 0, &one));
        assert_false(s2_run_point_drawn_of(families[f], S2_PASS_DECODE, 7, 0, &one));
        for (int32_t nth = 0; s2_run_point_designed(S2_PASS_BACKWARD, nth, &one); nth++)
            if (strcmp(one.family, families[f]) == 0) {
                assert_ordered(&one);
                n_designed++;
            }
        assert_true(n_designed > 30);
        for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
            assert_true(s2_run_point_drawn_of(families[f], S2_PASS_BACKWARD, 7, nth, &one));
            assert_true(s2_run_point_drawn_of(families[f], S2_PASS_BACKWARD, 7, nth, &again));
            assert_true(s2_run_point_drawn_of(families[f], S2_PASS_BACKWARD, 8, nth, &other));
            assert_string_equal(one.family, families[f]);
            assert_memory_equal(&one, &again, sizeof one);
            assert_memory_not_equal(&one, &other, sizeof one);
            assert_ordered(&one);
        }
    }
}

/* What the kernel for more than 16 rows a list runs; true where a part has several lists. */
static bool assert_wide(const s2_run_point *point)
{
    const s2_time_model h200 = {.capability = 90, .n_sms = 132};
    const s2_row row = {.point = *point, .tile_tok = 16, .key_tok = 64, .pack_heads = 1};
    s2_arena arena = {0};
    s2_kernel_load load;
    bool several = false;
    assert_string_equal(point->family, "wide");
    assert_int_equal(s2_fit_load(&arena, &row, &h200, &load, NULL), S2_OK);
    assert_true(load.wide && load.list_rows > 16 && point->q_tok <= 16);
    for (int32_t cls = 0; cls < load.n_classes; cls++)
        several |= load.classes[cls].n_turns > 0;
    s2_arena_release(&arena);
    return several;
}

static void wide_steps_are_designed_and_drawn_as_such(void **state)
{
    (void)state;
    s2_run_point one, again, other;
    int32_t n_designed = 0, n_several = 0;
    assert_false(s2_run_point_drawn_of("wide", S2_PASS_FORWARD, 7, 0, &one));
    for (int32_t nth = 0; s2_run_point_designed(S2_PASS_DECODE, nth, &one); nth++)
        if (strcmp(one.family, "wide") == 0) {
            n_several += assert_wide(&one);
            n_designed++;
        }
    assert_true(n_designed > 15 && n_several > 5);
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        assert_true(s2_run_point_drawn_of("wide", S2_PASS_DECODE, 7, nth, &one));
        assert_true(s2_run_point_drawn_of("wide", S2_PASS_DECODE, 7, nth, &again));
        assert_true(s2_run_point_drawn_of("wide", S2_PASS_DECODE, 8, nth, &other));
        assert_memory_equal(&one, &again, sizeof one);
        assert_memory_not_equal(&one, &other, sizeof one);
        (void)assert_wide(&one);
    }
}

/* What general draws have few of, or none: windows of a few blocks, and gradients of head dimension 256. */
static void points_that_are_drawn_apart_are_what_their_family_says(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        s2_pass pass;
        const char *kernel;
        int32_t least_dim;
    } families[] = {{"brief", S2_PASS_FORWARD, "sm90", 64},
                    {"brief", S2_PASS_DECODE, "decode", 64},
                    {"dim256", S2_PASS_BACKWARD, "sm90_bwd", 256}};
    s2_run_point one, again, other;
    s2_calibration h200;
    assert_int_equal(s2_calibration_find("h200", &h200), S2_OK);
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        int32_t n_designed = 0;
        for (int32_t pass = 0; pass < S2_N_PASSES; pass++) {
            bool draws = false;
            for (size_t other_f = 0; other_f < sizeof families / sizeof *families; other_f++)
                draws |= strcmp(families[other_f].family, families[f].family) == 0 &&
                         families[other_f].pass == (s2_pass)pass;
            assert_int_equal(s2_run_point_drawn_of(families[f].family, (s2_pass)pass, 7, 0, &one), draws);
        }
        for (int32_t nth = 0; s2_run_point_designed(families[f].pass, nth, &one); nth++)
            n_designed += strcmp(one.family, families[f].family) == 0;
        assert_true(n_designed > 15);
        for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
            s2_arena arena = {0};
            s2_launch_price price;
            assert_true(s2_run_point_drawn_of(families[f].family, families[f].pass, 7, nth, &one));
            assert_true(s2_run_point_drawn_of(families[f].family, families[f].pass, 7, nth, &again));
            assert_true(s2_run_point_drawn_of(families[f].family, families[f].pass, 8, nth, &other));
            assert_memory_equal(&one, &again, sizeof one);
            assert_memory_not_equal(&one, &other, sizeof one);
            assert_in_range(s2_parsed(&arena, one.pattern).head_dim, families[f].least_dim, 256);
            one.k_tok = s2_min_i32(one.k_tok, 4096);
            one.q_tok = one.pass == S2_PASS_DECODE ? s2_min_i32(one.q_tok, one.k_tok) : one.k_tok;
            if (predict_point(&arena, &h200.model, &one, &price))
                assert_string_equal(price.kernel->name, families[f].kernel);
            s2_arena_release(&arena);
        }
    }
}

/* Rows of a seed stay those that it draws: else a row would say what nothing can run again. */
static void recorded_rows_are_what_their_seeds_draw(void **state)
{
    static const char *const gpus[] = {"h200", "h100-sxm"};
    (void)state;
    for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++) {
        s2_arena arena = {0};
        s2_row_file file;
        assert_int_equal(s2_accuracy_rows(&arena, gpus[g], &file, NULL), S2_OK);
        for (int32_t r = 0; r < file.n_rows; r++) {
            const s2_run_point *const point = &file.rows[r].point;
            const uint64_t seed = (uint64_t)file.rows[r].seed;
            s2_run_point drawn;
            if (!s2_run_point_drawn_of(point->family, point->pass, seed, file.rows[r].nth, &drawn))
                s2_run_point_drawn(point->pass, seed, file.rows[r].nth, &drawn);
            assert_string_equal(drawn.pattern, point->pattern);
            assert_string_equal(drawn.family, point->family);
            assert_true(drawn.q_tok == point->q_tok && drawn.k_tok == point->k_tok &&
                        drawn.batch == point->batch && drawn.dtype == point->dtype &&
                        drawn.sinks == point->sinks);
        }
        s2_arena_release(&arena);
    }
}

static void steps_of_a_load_are_those_of_its_plan(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(33);
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_arena arena = {0};
        const s2_run_point point = small_point(nth, seed);
        const s2_pattern pattern = s2_parsed(&arena, point.pattern);
        const s2_plan_options options = s2_plan_options_default();
        s2_plan_seq seqs[64];
        s2_plan plan;
        s2_kernel_load load;
        for (int32_t seq = 0; seq < point.batch; seq++)
            seqs[seq] = (s2_plan_seq){point.q_tok, point.k_tok};
        assert_int_equal(
            s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, point.batch, &options, &plan, NULL), S2_OK);
        assert_int_equal(s2_load_of(&arena, &plan, &s2_traits_sm80, S2_PASS_FORWARD, S2_BF16, 132, &load),
                         S2_OK);
        int64_t items = 0, steps = 0;
        for (int32_t cls = 0; cls < load.n_classes; cls++) {
            items += load.classes[cls].n_items;
            steps +=
                (int64_t)load.classes[cls].n_items * (load.classes[cls].n_full + load.classes[cls].n_masked);
        }
        assert_int_equal(items, plan.n_items);
        assert_int_equal(steps, load.n_steps);
        /* a list that reads nothing still is a step */
        assert_true(load.n_steps >= plan.counts.n_steps &&
                    load.n_steps <= plan.counts.n_steps + plan.n_items);
        double distinct = 0;
        for (int32_t at = 0; at < load.n_generations; at++) {
            assert_true(load.generations[at].kept <= load.generations[at].distinct * (1 + 1e-9));
            distinct += load.generations[at].distinct;
        }
        assert_true(load.kv_bytes <= load.load_bytes * (1 + 1e-9));
        assert_true(load.kv_bytes <= 2.0 * distinct);
        s2_arena_release(&arena);
    }
}

/* Whole, half and mixed steps are those that plan/steps.h makes for the kernel. */
static void assert_halved(const s2_kernel_load *load, const s2_steps *steps)
{
    int64_t whole = 0, half = 0, mixed = 0;
    for (int32_t cls = 0; cls < load->n_classes; cls++) {
        whole += (int64_t)load->classes[cls].n_items * load->classes[cls].n_full;
        half += (int64_t)load->classes[cls].n_items * load->classes[cls].n_masked;
        mixed += (int64_t)load->classes[cls].n_items * load->classes[cls].n_mixed;
    }
    assert_int_equal(whole, steps->n_whole);
    assert_int_equal(half, steps->n_half);
    assert_int_equal(mixed, steps->n_mixed);
    assert_int_equal(load->key_tok, 128);
}

static double halved_steps(const s2_steps *steps)
{
    return (double)(steps->n_whole + steps->n_mixed) + 0.5 * (double)steps->n_half;
}

/* A small point's plan, its steps, and its load as a halved kernel runs it. */
typedef struct halved {
    s2_arena arena;
    s2_run_point point;
    s2_pattern pattern;
    s2_steps steps;
    s2_kernel_load load;
} halved;

static void load_halved(int32_t nth, uint64_t seed, s2_pass pass, const s2_plan_options *options, halved *out)
{
    *out = (halved){.point = small_point(nth, seed)};
    const s2_run_point *const point = &out->point;
    const s2_kernel_traits *const traits = pass == S2_PASS_FORWARD ? &s2_traits_sm90 : &s2_traits_sm90_bwd;
    s2_plan_seq seqs[64];
    s2_plan plan;
    out->pattern = s2_parsed(&out->arena, point->pattern);
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    assert_int_equal(
        s2_plan_build(&out->arena, &out->pattern, S2_PREFILL, 0, seqs, point->batch, options, &plan, NULL),
        S2_OK);
    assert_int_equal(s2_steps_build(&out->arena, &plan, 128, &out->steps, NULL), S2_OK);
    assert_int_equal(s2_load_of(&out->arena, &plan, traits, pass, S2_BF16, 132, &out->load), S2_OK);
    assert_halved(&out->load, &out->steps);
}

static void steps_of_a_halved_load_are_those_of_the_kernel(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(34);
    const s2_plan_options options = {
        .tile_tok = 128, .tile_rows = 128, .key_tok = 64, .pack_heads = 2, .elem_bytes = 2};
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        halved one;
        load_halved(nth, seed, S2_PASS_FORWARD, &options, &one);
        const s2_kernel_load *const load = &one.load;
        s2_assert_close(load->flop, 4.0 * load->head_dim * load->rows * 128 * halved_steps(&one.steps),
                        1e-9 * load->flop);
        s2_arena_release(&one.arena);
    }
}

/* Gradients: dQ runs the halved steps of the plan, dK and dV the columns of 128 keys of the same plan. */
static void gradients_are_halved_steps_and_columns(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(44);
    const s2_plan_options options = {.tile_tok = 128, .key_tok = 64, .pack_heads = 1, .elem_bytes = 2};
    assert_true(s2_kernel_halves(&s2_traits_sm90_bwd, 64));
    assert_false(s2_kernel_halves(&s2_traits_sm90_bwd, 128));
    assert_false(s2_kernel_halves(&s2_traits_sm80_bwd, 64));
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        halved one;
        load_halved(nth, seed, S2_PASS_BACKWARD, &options, &one);
        const s2_kernel_load *const load = &one.load;
        double columns = 0; /* steps of 128 keys x 64 rows */
        int64_t n_whole = load->n_chains;
        for (int32_t at = 0; at < load->n_columns; at++) {
            columns += load->columns[at].n_full + load->columns[at].n_masked + 0.5 * load->columns[at].n_half;
            n_whole += load->columns[at].chain < 0;
        }
        /* far, near and unread keys each leave a column that is not full */
        const int64_t n_least = (one.point.k_tok + 127) / 128,
                      n_lists = one.point.batch * one.pattern.n_kv_heads;
        assert_in_range(n_whole, n_least * n_lists, (n_least + 3) * n_lists);
        s2_assert_close(load->flop,
                        load->head_dim * 128.0 *
                            (6 * 128 * halved_steps(&one.steps) +
                             (load->head_dim > 128 ? 10 : 8) * 64 * columns), /* dK and dV in two passes */
                        1e-9 * load->flop);
        s2_arena_release(&one.arena);
    }
}

/*
 * Columns are swept for each head: of 1024 heads a KV head that would take a minute, and they are left out.
 */
static void columns_of_very_many_heads_are_not_swept(void **state)
{
    (void)state;
    const s2_plan_options options = {.tile_tok = 128, .key_tok = 64, .pack_heads = 1, .elem_bytes = 2};
    const s2_plan_seq seq = {65536, 65536};
    for (int many = 0; many < 2; many++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, many ? "heads 4096; kv-heads 4; heads all: dense"
                                                          : "heads 64; kv-heads 4; heads all: dense");
        s2_plan plan;
        s2_kernel_load load;
        assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL),
                         S2_OK);
        assert_int_equal(
            s2_load_of(&arena, &plan, &s2_traits_sm90_bwd, S2_PASS_BACKWARD, S2_BF16, 132, &load), S2_OK);
        assert_int_equal(load.n_columns == 0, many);
        s2_arena_release(&arena);
    }
}

/*
 * Two workers: the long first part of a sum holds the short second one up, and with it the column that its worker has
 * claimed meanwhile, though the other worker is idle earlier; whole columns hold nothing up.
 */
static void a_part_waits_for_the_one_before_it(void **state)
{
    (void)state;
    const s2_kernel_model kernel = {.pass = S2_PASS_BACKWARD,
                                    .residents = 1,
                                    .hbm_gb_s = 1,
                                    .lost_mb = 1,
                                    .part = 7,
                                    .n_dims = 1,
                                    .dims = {{64, 0, 10, 10, 10}}};
    const s2_load_column parts[] = {{.n_full = 100}, {.n_full = 1}, {.n_full = 3, .chain = -1}};
    const s2_load_column whole[] = {
        {.n_full = 100, .chain = -1}, {.n_full = 1, .chain = -1}, {.n_full = 3, .chain = -1}};
    s2_kernel_load load = {.pass = S2_PASS_BACKWARD,
                           .head_dim = 64,
                           .n_subs = 2,
                           .arithmetic = true,
                           .n_columns = 3,
                           .n_chains = 1,
                           .chain_ends = (double[2]){0}};
    const s2_time_model chip = {
        .l2_gb_s = 1, .cache_mb = 1, .spill_mb = 2, .whole_mb = 1, .power = 1, .n_sms = 2};
    s2_forecast forecast;
    load.columns = parts;
    s2_model_run(&chip, &kernel, &load, true, 1, &forecast);
    s2_assert_close(forecast.cycles, 1000 + 7 + 7 + 30, 1e-9);
    load.columns = whole;
    s2_model_run(&chip, &kernel, &load, true, 1, &forecast);
    s2_assert_close(forecast.cycles, 1000, 1e-9);
    s2_assert_close(forecast.imbalance, 1000 / (1040 / 2.0), 1e-9);
}

/* The profiler empties the cache before each of the kernels of a backward pass; the pass itself does not. */
static void counters_see_more_bytes_than_one_pass_moves(void **state)
{
    (void)state;
    const s2_time_model model = h200_model();
    const s2_kernel_model *backward = NULL;
    for (int32_t k = 0; k < model.n_kernels; k++)
        backward = model.kernels[k].pass == S2_PASS_BACKWARD ? &model.kernels[k] : backward;
    assert_non_null(backward);
    const s2_kernel_load load = {
        .pass = S2_PASS_BACKWARD, .q_bytes = 3e6, .kv_bytes = 2e6, .again_bytes = 5e6, .out_bytes = 4e6};
    const s2_bytes one = s2_model_bytes(&model, backward, &load, true);
    const s2_bytes counted = s2_model_counted(&model, backward, &load);
    s2_assert_close(one.dram_read, 5e6, 1);
    s2_assert_close(counted.dram_read, 10e6, 1);
    s2_assert_close(one.l2, counted.l2, 1);
}

static void no_prediction_is_below_the_floor_and_more_work_takes_longer(void **state)
{
    (void)state;
    s2_gpu gpu;
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    const s2_time_model model = h200_model();
    const uint64_t seed = s2_test_seed(35);
    int32_t n = 0;
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_arena arena = {0};
        s2_run_point point = small_point(nth, seed);
        s2_launch_price one, twice;
        point.batch = 1;
        if (predict_point(&arena, &model, &point, &one)) {
            point.batch = 8;
            assert_true(predict_point(&arena, &model, &point, &twice));
            assert_true(one.forecast.us > 0 && isfinite(one.forecast.us));
            assert_true(twice.forecast.us >= one.forecast.us);
            assert_true(one.forecast.mhz <= model.max_mhz);
            assert_true(one.forecast.us >= one.forecast.hbm_us && one.forecast.us >= one.forecast.compute_us);
            n++;
        }
        s2_arena_release(&arena);
    }
    assert_true(2 * n > s2_test_cases(60));
}

static void prices_with_a_calibration_keep_above_the_bound(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "heads 8; kv-heads 2; heads all: local 8 | stride 16 phase kv",
        "heads 8; layers 3; heads all: local 4 | sink 1; layers 1: dense",
        "heads 4; heads all: local 300t",
        "heads 8; heads all: local 4 | pages 8 page 16",
    };
    s2_calibration calibration;
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (int32_t len_tok = 100; len_tok < 20000; len_tok *= 5) {
            s2_arena arena = {0};
            const s2_pattern pattern = s2_parsed(&arena, texts[t]);
            s2_sim bounds, sim;
            options.len_tok = len_tok;
            options.calibration = NULL;
            assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &bounds, NULL), S2_OK);
            options.calibration = &calibration;
            assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
            assert_false(bounds.predicted);
            assert_true(sim.predicted);
            assert_true(sim.error.pct > 0);
            assert_true(sim.time_us >= sim.bound_us);
            s2_assert_close(sim.bound_us, bounds.bound_us, 1e-9 * bounds.bound_us);
            s2_assert_close(sim.plan_us, bounds.time_us, 1e-9 * bounds.time_us);
            assert_true(sim.parts[0].time_us > 0);
            s2_arena_release(&arena);
        }
}

/* Token lists of a long context would take minutes to plan: the dense pattern's ratio and a wide error stand
 * in. */
static void lists_that_take_too_long_to_plan_are_estimated(void **state)
{
    (void)state;
    s2_calibration calibration;
    s2_sim_options options;
    s2_sim sim;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 4; heads all: dilated 3t | local 4t");
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    options.calibration = &calibration;
    options.len_tok = 2048;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_true(sim.predicted && sim.error.pct < S2_GUESS_PCT);
    options.len_tok = 65536;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_true(sim.predicted && sim.time_us >= sim.bound_us);
    s2_assert_close(sim.error.pct, S2_GUESS_PCT, 1e-9);
    s2_arena_release(&arena);
}

/*
 * Decode was measured at head dimensions 64, 96 and 128, gradients at 256 too, forward at 64, 80, 96, 128 and 256: between and beyond, the
 * error is not what was judged. What no measured kernel takes (docs/kernels.md) is not predicted.
 */
static void head_dimensions_that_were_not_measured_are_guessed(void **state)
{
    (void)state;
    enum { JUDGED, GUESSED, NOT_PREDICTED };
    static const struct {
        s2_phase phase;
        int head_dim, what;
    } rows[] = {{S2_DECODE, 64, JUDGED},         {S2_DECODE, 80, GUESSED},  {S2_DECODE, 128, JUDGED},
                {S2_DECODE, 256, GUESSED},       {S2_DECODE, 32, GUESSED},  {S2_DECODE, 72, GUESSED},
                {S2_PREFILL, 256, JUDGED},       {S2_PREFILL, 80, JUDGED},  {S2_PREFILL, 112, GUESSED},
                {S2_PREFILL, 192, GUESSED},      {S2_PREFILL, 48, GUESSED}, {S2_PREFILL, 288, NOT_PREDICTED},
                {S2_DECODE, 576, NOT_PREDICTED}, {S2_TRAIN, 96, JUDGED},    {S2_TRAIN, 80, GUESSED},
                {S2_TRAIN, 256, JUDGED},         {S2_TRAIN, 64, JUDGED},    {S2_PREFILL, 92, NOT_PREDICTED},
                {S2_TRAIN, 40, GUESSED},         {S2_TRAIN, 136, GUESSED},  {S2_TRAIN, 264, NOT_PREDICTED},
                {S2_TRAIN, 192, GUESSED}};
    s2_calibration calibration;
    s2_sim_options options;
    s2_sim sim;
    s2_arena arena = {0};
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    options.calibration = &calibration;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[80];
        snprintf(text, sizeof text, "heads 8; head-dim %d; layers all: local 4", rows[r].head_dim);
        const s2_pattern pattern = s2_parsed(&arena, text);
        options.phase = rows[r].phase;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
        const int what = !sim.predicted ? NOT_PREDICTED : sim.error.pct < S2_GUESS_PCT ? JUDGED : GUESSED;
        if (what != rows[r].what || (what == GUESSED) != (sim.predicted && sim.far.beyond > 0))
            fail_msg("%s, %s: predicted %d, error %g", text, s2_phase_word(rows[r].phase), sim.predicted,
                     sim.error.pct);
    }
    s2_arena_release(&arena);
}

/* What is priced is what runs: one block an SM of an Ampere, and steps of 32 keys above head dimension 128.
 */
static void launches_are_priced_as_the_kernels_take_them(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_calibration calibration;
    s2_kernel_load ampere, hopper;
    s2_plan plan;
    const s2_pattern pattern = s2_parsed(&arena, "heads 8; kv-heads 8; head-dim 128; layers all: dense");
    const s2_plan_seq seq = {1, 65536};
    const s2_plan_options options = s2_kernel_cut(&s2_traits_decode, 128);
    assert_int_equal(s2_plan_build(&arena, &pattern, S2_DECODE, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    assert_int_equal(s2_load_of_step(&arena, &plan, S2_BF16, (s2_chip){80, 108}, &ampere), S2_OK);
    assert_int_equal(s2_load_of_step(&arena, &plan, S2_BF16, (s2_chip){90, 108}, &hopper), S2_OK);
    assert_int_equal(ampere.n_items, 108);
    assert_int_equal(hopper.n_items, 216);
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(calibration.model.capability, 90);
    const s2_kernel_model *forward = calibration.model.kernels;
    while (strcmp(forward->name, "sm90") != 0)
        forward++;
    assert_ptr_equal(forward->traits, &s2_traits_sm90);
    for (int32_t dim = 8; dim <= 256; dim += 8) {
        const s2_pattern shape = {.n_heads = 8, .n_kv_heads = 8, .head_dim = dim};
        assert_int_equal(s2_predict_cut(forward, &shape).key_tok,
                         s2_kernel_cut(&s2_traits_sm90, dim).key_tok);
    }
    s2_arena_release(&arena);
}

static void a_gpu_that_nobody_measured_is_guessed_with_a_wide_error(void **state)
{
    (void)state;
    s2_gpu gpu;
    s2_calibration guess, measured;
    assert_int_equal(s2_gpu_find("a100-80gb", &gpu, NULL), S2_OK);
    assert_int_equal(s2_calibration_find("a100-80gb", &guess), S2_EUNSUPPORTED);
    assert_int_equal(s2_calibration_find("h200", &measured), S2_OK);
    assert_int_equal(s2_calibration_guess(&gpu, &guess), S2_OK);
    s2_arena arena = {0};
    const s2_run_point point = {
        .pattern = "heads 16; heads all: dense", .q_tok = 8192, .k_tok = 8192, .batch = 1, .dtype = S2_BF16};
    s2_launch_price here, there;
    assert_true(predict_point(&arena, &measured.model, &point, &here));
    assert_true(predict_point(&arena, &guess.model, &point, &there));
    assert_true(there.error.pct >= 20 && here.error.pct < there.error.pct);
    assert_true(there.forecast.us > 1.5 * here.forecast.us);
    s2_arena_release(&arena);
}

/* The law of wide decode steps, or of the others. */
static s2_kernel_model *decode_law(s2_time_model *model, bool wide)
{
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (model->kernels[k].pass == S2_PASS_DECODE && s2_model_is_wide(&model->kernels[k]) == wide)
            return &model->kernels[k];
    return NULL;
}

/* The plan of a decode step as its kernel makes it, for a Hopper of 132 SMs. */
static s2_decode_launch planned_step(s2_arena *arena, const s2_row *row, s2_decode_plan *out)
{
    const s2_chip chip = {90, 132};
    const s2_run_point *const point = &row->point;
    s2_plan_seq *const seqs = S2_NEW(arena, s2_plan_seq, point->batch);
    const s2_plan_options options = {
        .tile_tok = row->tile_tok, .key_tok = row->key_tok, .pack_heads = 1, .elem_bytes = 2};
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_plan plan;
    assert_true(seqs != NULL && pattern != NULL);
    *pattern = s2_parsed(arena, point->pattern);
    for (int32_t seq = 0; seq < point->batch; seq++)
        seqs[seq] = (s2_plan_seq){point->q_tok, point->k_tok};
    assert_int_equal(
        s2_plan_build_classes(arena, pattern, S2_DECODE, 0, seqs, point->batch, &options, &plan, NULL),
        S2_OK);
    s2_decode_launch how = s2_decode_launch_of(chip, &plan, pattern->head_dim, false, false);
    assert_int_equal(s2_decode_plan_build(arena, &plan, NULL, how.n_parts, out, NULL), S2_OK);
    assert_int_equal(s2_decode_launch_fit(arena, &how, out), S2_OK);
    return how;
}

/* Rounds of four slabs that the four warps of each part take, and those with masks, slab by slab. */
static void count_rounds(const s2_decode_plan *step, int64_t *n, int64_t *n_masked)
{
    *n = *n_masked = 0;
    for (int32_t part = 0; part < step->n_parts; part++) {
        int32_t in_round = S2_DECODE_WARPS, list = -1;
        bool masked = true;
        for (int32_t slab = step->parts[part].slab_begin; slab < step->parts[part].slab_end; slab++) {
            int32_t own = 0;
            while (step->lists[own].slab_begin > slab || step->lists[own].slab_end <= slab)
                own++;
            if (own != list || in_round == S2_DECODE_WARPS) {
                in_round = 0;
                masked = false;
                ++*n;
            }
            *n_masked += step->slabs[slab].mask >= 0 && !masked;
            masked = masked || step->slabs[slab].mask >= 0;
            list = own;
            in_round++;
        }
    }
}

/*
 * Trips of more than a few parts of a warp that adds up a list, one after another, and rows in fp32 that parts leave and
 * that are fetched again to add them up: a trip fetches four, or as many as it may, whatever there is.
 */
static void count_sums(const s2_decode_launch *how, const s2_decode_plan *step, bool merges, int64_t *n_long,
                       int64_t *n_moved)
{
    const int32_t chunk = 8 * how->row_tiles;
    *n_long = *n_moved = 0;
    for (int32_t at = 0; at < step->n_lists; at++) {
        const s2_decode_list *const list = &step->lists[at];
        const int32_t rows = list->n_rows < chunk ? list->n_rows : chunk;
        int64_t own = 0;
        for (int32_t left = list->n_parts; list->n_parts > 1 && left > 0; left -= how->trip_parts)
            own += left > 4;
        for (int32_t row = 4; row < rows && !merges; row += 4) /* each warp has one of four rows */
            for (int32_t left = list->n_parts; list->n_parts > 1 && left > 0; left -= how->trip_parts)
                own += left > 4;
        *n_long = s2_max_i64(*n_long, own * how->row_trips);
        for (int32_t row = 0; row < list->n_rows && list->n_parts > 1; row++) {
            *n_moved += list->n_parts;
            for (int32_t left = list->n_parts; left > 0; left -= how->trip_parts)
                *n_moved += left > 4 ? how->trip_parts : 4;
        }
    }
}

/* A warp for each row of the longest chunk, four to a block, for all lists and chunks. */
static double blocks_that_add_up(const s2_decode_launch *how, const s2_decode_plan *step)
{
    int32_t n_warps = 1, n_blocks = 0;
    for (int32_t list_no = 0; list_no < step->n_lists; list_no++)
        n_warps = s2_max_i32(n_warps, s2_min_i32(step->lists[list_no].n_rows, 8 * how->row_tiles));
    while (4 * n_blocks < n_warps)
        n_blocks++;
    return (double)n_blocks * step->n_lists * how->n_chunks;
}

/* How much more the lines of the cache are that a row touches than the row, in rows: the mean of rows one after another. */
static double lines_beyond(int32_t row_bytes)
{
    int64_t touched = 0;
    for (int64_t row = 0; row < 128; row++)
        touched += ((row + 1) * row_bytes - 1) / 128 - row * row_bytes / 128 + 1;
    return (double)touched / row_bytes - 1;
}

/* Drawn steps, wide ones too: what the law charges for is what the plan has, counted slab by slab. */
static void a_decode_step_is_charged_for_what_its_plan_has(void **state)
{
    (void)state;
    const s2_time_model model = h200_model();
    for (int32_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_arena arena = {0};
        s2_row row = {.tile_tok = 16, .key_tok = 64, .pack_heads = 1};
        s2_kernel_load load;
        s2_decode_plan step;
        int64_t rounds, masked, n_long, n_moved, of_load = 0, fine = 0;
        if (nth % 2 == 0)
            assert_true(s2_run_point_drawn_of("wide", S2_PASS_DECODE, 41, nth, &row.point));
        else
            s2_run_point_drawn(S2_PASS_DECODE, 41, nth, &row.point);
        row.point.batch = s2_min_i32(row.point.batch, 16);
        row.point.k_tok = s2_min_i32(row.point.k_tok, 2048);
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        const s2_decode_launch how = planned_step(&arena, &row, &step);
        count_rounds(&step, &rounds, &masked);
        count_sums(&how, &step, load.merges, &n_long, &n_moved);
        for (int32_t cls = 0; cls < load.n_classes; cls++) {
            of_load += (int64_t)load.classes[cls].n_items * load.classes[cls].n_groups;
            fine += (int64_t)load.classes[cls].n_items * load.classes[cls].n_fine;
        }
        assert_int_equal(of_load, rounds * how.n_chunks);
        assert_true(!load.wide || fine == masked * how.n_chunks);
        assert_int_equal(load.long_trips, n_long);
        assert_true(load.long_trips <= load.trips);
        s2_assert_close(load.left_bytes, load.merges ? 4.0 * load.head_dim * (double)n_moved : 0, 1e-9);
        s2_assert_close(load.sum_blocks, load.merges ? blocks_that_add_up(&how, &step) : 0, 1e-9);
        s2_assert_close(load.amid, lines_beyond(2 * load.head_dim), 1e-9);
        s2_arena_release(&arena);
    }
}

/* Parts whose warps take as many slabs in turn take more for each slab, and more for each round, never less. */
static void a_round_of_slabs_takes_as_long_as_its_first(void **state)
{
    (void)state;
    s2_time_model model = h200_model();
    for (int32_t wide = 0; wide < 2; wide++) {
        const s2_kernel_model *const kernel = decode_law(&model, wide == 1);
        double before = 0, in_round = 0, beyond = 0;
        assert_non_null(kernel);
        assert_true(kernel->warp > 0 && kernel->warp <= 1);
        for (int32_t n = 4; n <= 40; n++) {
            const s2_load_class part = {.n_full = n,
                                        .n_groups = (int32_t)s2_ceil_div(n, S2_DECODE_WARPS),
                                        .n_rows = 1,
                                        .n_items = 132};
            const s2_kernel_load load = {.pass = S2_PASS_DECODE,
                                         .head_dim = 128,
                                         .n_subs = 2,
                                         .arithmetic = true,
                                         .n_items = 132,
                                         .n_classes = 1,
                                         .classes = &part};
            s2_forecast forecast;
            s2_model_run(&model, kernel, &load, true, 1000, &forecast);
            if (n > 4)
                *(n % S2_DECODE_WARPS == 1 ? &beyond : &in_round) = forecast.cycles - before;
            if (n > 8)
                assert_true(in_round >= 0 && beyond > in_round);
            before = forecast.cycles;
        }
        assert_true(wide == 0 || in_round == 0);
    }
}

/*
 * One list over the whole chip: up to 4 rows the warps of its last block add the parts up, each a row; from 5 on, where
 * they would have to take rows in turn, a launch of its own does, unless parts are long. Lists of few parts are left
 * to their last block.
 */
static void parts_of_many_rows_are_added_side_by_side(void **state)
{
    (void)state;
    const s2_time_model model = h200_model();
    for (int32_t at = 0; at < 16 * 4; at++) {
        const int32_t n_rows = at % 16 + 1, n_kv = at / 16 % 2 == 0 ? 1 : 16, k_tok = at < 32 ? 8192 : 65536;
        s2_arena arena = {0};
        s2_kernel_load load;
        s2_row row = {
            .point = {.pass = S2_PASS_DECODE, .q_tok = 1, .k_tok = k_tok, .batch = 1, .dtype = S2_BF16},
            .tile_tok = 16,
            .key_tok = 64,
            .pack_heads = 1};
        snprintf(row.point.pattern, sizeof row.point.pattern, "heads %d; kv-heads %d; layers all: dense",
                 n_rows * n_kv, n_kv);
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        const int64_t list_trips = (load.n_items / n_kv + 16) / 17;
        assert_true(load.merges == (n_rows > (n_kv == 1 && k_tok == 8192 ? 4 : 8)));
        assert_int_equal(load.trips, list_trips * (load.merges || n_rows <= 4 ? 1 : 2));
        s2_arena_release(&arena);
    }
}

/* Each part counts how often it goes on to another list, and a change costs the same whatever else it does. */
static void parts_pay_for_each_list_that_they_go_on_to(void **state)
{
    (void)state;
    static const char *const patterns[] = {"heads 32; kv-heads 32; block 16; layers all: local 2",
                                           "heads 8; kv-heads 2; layers all: dense",
                                           "heads 12; kv-heads 4; layers all: local 1; kv 0: local 9"};
    s2_time_model model = h200_model();
    s2_kernel_model *const kernel = decode_law(&model, false);
    assert_non_null(kernel);
    int32_t n_paid = 0;
    for (int32_t at = 0; at < 9; at++) {
        s2_arena arena = {0};
        s2_kernel_load load;
        s2_row row = {.point = {.pass = S2_PASS_DECODE,
                                .q_tok = 1,
                                .k_tok = 700,
                                .batch = (const int32_t[]){1, 16, 60}[at / 3],
                                .dtype = S2_BF16},
                      .tile_tok = 16,
                      .key_tok = 64,
                      .pack_heads = 1};
        snprintf(row.point.pattern, sizeof row.point.pattern, "%s", patterns[at % 3]);
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        int64_t turns = 0, most = 0;
        for (int32_t cls = 0; cls < load.n_classes; cls++) {
            turns += (int64_t)load.classes[cls].n_items * load.classes[cls].n_turns;
            most = load.classes[cls].n_turns > most ? load.classes[cls].n_turns : most;
        }
        /* every list begins somewhere: at the beginning of a part, or where one goes on to it */
        assert_true(turns >= load.n_lists - load.n_items && turns < load.n_lists);
        s2_forecast before, after;
        kernel->column = 0;
        s2_model_run(&model, kernel, &load, true, 1000, &before);
        kernel->column = 500;
        s2_model_run(&model, kernel, &load, true, 1000, &after);
        /* nothing where the longest part has one list and shorter ones have several */
        assert_true(after.cycles >= before.cycles && after.cycles <= before.cycles + 1002.0 * (double)most);
        n_paid += after.cycles > before.cycles;
        s2_arena_release(&arena);
    }
    assert_int_equal(n_paid, 2);
}

/* Where only a part of many sequences is planned: no jump where that begins, and in proportion from there on. */
static void very_many_sequences_take_as_long_each(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        s2_pass pass;
        int32_t n_kv_heads, k_tok, batch; /* the last that is planned whole */
    } rows[] = {
        {"heads 32; kv-heads 8; layers all: local 4 | stride 8 phase head", S2_PASS_FORWARD, 8, 4032, 128},
        {"heads 16; kv-heads 16; layers all: dense", S2_PASS_BACKWARD, 16, 4032, 256},
        {"heads 32; kv-heads 8; layers all: local 4 | stride 8 phase kv", S2_PASS_DECODE, 8, 32752, 128}};
    const s2_time_model model = h200_model();
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        s2_arena arena = {0};
        const bool decode = rows[at].pass == S2_PASS_DECODE;
        const int32_t n = rows[at].batch, batches[] = {n, n + 1, n + n / 8, 10 * n};
        double us[4];
        for (int32_t b = 0; b < 4; b++) {
            s2_run_point point = {.pass = rows[at].pass,
                                  .q_tok = decode ? 1 : rows[at].k_tok,
                                  .k_tok = rows[at].k_tok,
                                  .batch = batches[b],
                                  .dtype = S2_BF16};
            s2_launch_price price;
            snprintf(point.pattern, sizeof point.pattern, "%s", rows[at].pattern);
            assert_true(predict_point(&arena, &model, &point, &price));
            us[b] = price.forecast.us;
            if (price.far.beyond > 0) /* of all sequences, not of those planned */
                s2_assert_close(price.far.asked, (double)rows[at].n_kv_heads * batches[b], 1e-9);
        }
        assert_true(us[1] > us[0] && us[1] < us[0] * (1 + 1.5 / n));
        s2_assert_close(us[2] / us[0], 1 + 0.125, 0.005);
        s2_assert_close(us[3] / us[0], 10, 0.1);
        s2_arena_release(&arena);
    }
}

/* A GPU of one's own whose memory is far slower than any that the constants come from. */
static void no_prediction_is_below_the_bound(void **state)
{
    (void)state;
    static const char *const texts[] = {"heads 4; layers all: dense",
                                        "layers 2; heads 4; layers all: local 2 | stride 2 phase head"};
    s2_sim_options options;
    s2_calibration guess;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_gpu_find("a100-80gb", &options.gpu, NULL), S2_OK);
    options.gpu.hbm_gb_s = 20;
    assert_int_equal(s2_calibration_guess(&options.gpu, &guess), S2_OK);
    options.calibration = &guess;
    options.len_tok = 8192;
    for (int at = 0; at < 2 * S2_N_PHASES; at++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_sim sim;
        const char *const text = texts[at % 2];
        options.phase = (s2_phase)(at / 2);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
        double sum = 0;
        for (int32_t part = 0; part < sim.n_parts; part++)
            sum += sim.parts[part].time_us;
        assert_true(sim.predicted && sim.time_us >= sim.bound_us);
        s2_assert_close(sum, sim.time_us, 1e-9 * sim.time_us);
        s2_arena_release(&arena);
    }
}

/* ------------------------------------------------------------------ text */

static void constants_survive_a_round_trip_and_a_changed_one_is_refused(void **state)
{
    (void)state;
    s2_calibration calibration, back;
    s2_buf one = {0}, two = {0};
    s2_diag diag = {0};
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    s2_calibration_print(&calibration, &one);
    assert_int_equal(s2_calibration_parse(one.data, one.len, &back, &diag), S2_OK);
    s2_calibration_print(&back, &two);
    assert_string_equal(one.data, two.data);
    assert_string_equal(calibration.hash, back.hash);
    char *const digit = strstr(one.data, "launch_us ") + strlen("launch_us ");
    *digit = *digit == '9' ? '8' : '9';
    assert_int_equal(s2_calibration_parse(one.data, one.len, &back, &diag), S2_EPARSE);
    assert_non_null(strstr(diag.msg, "hash"));
    s2_buf_release(&one);
    s2_buf_release(&two);
}

static void damaged_constants_are_refused_with_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t line;
    } rows[] = {
        {"calibration 1\n", 1},
        {"calibration 3\nn_sms many\n", 2},
        {"calibration 3\nn_sms -3\n", 2},
        {"calibration 3\nn_sms 132 4\n", 2},
        {"calibration 3\nkernel sm90\n", 2},
        {"calibration 3\nkernel sm90 sideways\n", 2},
        {"calibration 3\nkernel sm90 forward\ndim 64 1 2\n", 3},
        {"calibration 3\nkernel sm90 forward\ncut 64 0 128 128 1 -1\n", 3},
        {"calibration 3\nkernel sm90 forward\nfrobs 3\n", 3},
        {"calibration 3\njudged sm90 forward 1 2 3\n", 2},
        {"", 1},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_calibration out;
        s2_diag diag = {0};
        if (s2_calibration_parse(rows[r].text, strlen(rows[r].text), &out, &diag) != S2_EPARSE ||
            diag.line != rows[r].line)
            fail_msg("row %zu: line %d %s", r, diag.line, diag.msg);
    }
}

static void rows_survive_a_round_trip(void **state)
{
    (void)state;
    for (int32_t nth = 0; nth < 60; nth++) {
        s2_row row = {.set = "held-out",
                      .seed = 5,
                      .nth = nth,
                      .kernel = "sm90",
                      .tile_tok = 128,
                      .key_tok = 64,
                      .pack_heads = 2,
                      .section_bytes = 1 << 24,
                      .us = 12.5,
                      .spread = 0.25,
                      .mhz = 1620,
                      .burst_us = 11,
                      .burst_mhz = 1980,
                      .dram_read = 1e6,
                      .dram_write = 2e6,
                      .l2_bytes = 3e9,
                      .repeated = nth % 2 == 1};
        s2_run_point_drawn((s2_pass)(nth % S2_N_PASSES), 5, nth, &row.point);
        s2_arena arena = {0};
        s2_buf one = {0}, two = {0};
        s2_row_file file;
        s2_diag diag = {0};
        s2_row_print(&row, &one);
        assert_int_equal(s2_rows_parse(&arena, one.data, one.len, &file, &diag), S2_OK);
        assert_int_equal(file.n_rows, 1);
        s2_row_print(&file.rows[0], &two);
        assert_string_equal(one.data, two.data);
        s2_buf_release(&one);
        s2_buf_release(&two);
        s2_arena_release(&arena);
    }
}

static void the_name_of_every_kernel_survives_rows_and_constants(void **state)
{
    (void)state;
    static const char *const names[] = {"ref_f64",
                                        "cpu",
                                        "cpu_bwd",
                                        "cpu_decode",
                                        "decode",
                                        "sm80",
                                        "sm90",
                                        "sm90_e4m3",
                                        "sm90_lists",
                                        "sm80_bwd",
                                        "sm90_bwd",
                                        "sm90_bwd_fused",
                                        "sm90_window",
                                        "sm90_bwd_window",
                                        "sm90_bwd_ordered"};
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) {
        const s2_kernel_traits *const traits = s2_kernel_traits_find(names[index]);
        assert_non_null(traits);
        s2_row row = {.set = "held-out", .us = 1, .mhz = 1};
        s2_calibration calibration, back;
        s2_arena arena = {0};
        s2_buf text = {0}, constants = {0};
        s2_row_file file;
        s2_diag diag = {0};
        s2_run_point_drawn(S2_PASS_BACKWARD, 5, 1, &row.point);
        snprintf(row.kernel, sizeof row.kernel, "%s", traits->name);
        s2_row_print(&row, &text);
        assert_int_equal(s2_rows_parse(&arena, text.data, text.len, &file, &diag), S2_OK);
        assert_string_equal(file.rows[0].kernel, traits->name);
        assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
        /* An entry of the same law takes the name; the reader tells laws by names. */
        int32_t entry = 0;
        const bool is_short = strstr(traits->name, "window") != NULL;
        while (s2_model_is_short(&calibration.model.kernels[entry]) != is_short)
            entry++;
        s2_kernel_model *const kernel = &calibration.model.kernels[entry];
        snprintf(kernel->name, sizeof kernel->name, "%s", traits->name);
        s2_calibration_print(&calibration, &constants);
        if (s2_calibration_parse(constants.data, constants.len, &back, &diag) != S2_OK)
            fail_msg("%s: %s", traits->name, diag.msg);
        assert_ptr_equal(back.model.kernels[entry].traits, traits);
        s2_buf_release(&text);
        s2_buf_release(&constants);
        s2_arena_release(&arena);
    }
}

static void damaged_rows_are_refused_with_a_position(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t line;
        const char *word;
    } rows[] = {
        {"[1]", 1, "object"},
        {"{\"pass\":\"forward\"", 1, "comma"},
        {"\n{\"pass\":\"forward\"}", 2, "lengths"},
        {"{\"pass\":\"up\",\"q_tok\":1,\"k_tok\":1,\"batch\":1}", 1, "pass"},
        {"{\"pass\":\"forward\",\"q_tok\":2,\"k_tok\":1,\"batch\":1}", 1, "lengths"},
        {"{\"pass\":{}}", 1, "number or a string"},
        {"{\"schema\":\"s2points/9\"}", 1, "schema"},
        {"{\"pass\":\"forward\",\"q_tok\":1,\"k_tok\":1,\"batch\":1,\"kernel\":\"a\",\"us\":-1}", 1,
         "negative"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        s2_arena arena = {0};
        s2_row_file file;
        s2_diag diag = {0};
        if (s2_rows_parse(&arena, rows[r].text, strlen(rows[r].text), &file, &diag) != S2_EPARSE ||
            diag.line != rows[r].line || strstr(diag.msg, rows[r].word) == NULL)
            fail_msg("row %zu: line %d %s", r, diag.line, diag.msg);
        s2_arena_release(&arena);
    }
}

/* ------------------------------------------------------------------ fitting */

/* With memory for n allocations only; true when that was enough. */
static bool predict_with(const s2_pattern *pattern, const s2_sim_options *options, int64_t n, double *us)
{
    s2_arena scratch = {0};
    s2_sim sim = {0};
    s2_alloc_set_hook(s2_test_fail_from, &n);
    const s2_status status = s2_price(&scratch, pattern, options, S2_PRICE_WHOLE, &sim, NULL);
    s2_alloc_set_hook(NULL, NULL);
    s2_arena_release(&scratch);
    if (status != S2_OK)
        assert_int_equal(status, S2_ENOMEM);
    *us = sim.time_us;
    return status == S2_OK;
}

/* Short of memory a prediction fails; it never says something else. */
static void predictions_without_memory_fail(void **state)
{
    (void)state;
    s2_arena arena = {0};
    static s2_calibration calibration;
    const s2_pattern pattern = s2_parsed(&arena, "heads 4; kv-heads 2; all: local 2 | stride 3 phase head");
    s2_sim_options options;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.calibration = &calibration;
    options.len_tok = 2000;
    for (int32_t phase = 0; phase < S2_N_PHASES; phase++) {
        double expected, us;
        options.phase = (s2_phase)phase;
        options.n_ranks = 1 + phase % 2;
        assert_true(predict_with(&pattern, &options, INT64_MAX, &expected));
        int64_t n = 0;
        while (!predict_with(&pattern, &options, n, &us))
            assert_true(n++ < 5000);
        assert_true(n > 5);
        s2_assert_close(us, expected, 0);
    }
    s2_arena_release(&arena);
}

/* The same of a fit; six rows are too few for it in the end. */
static void fits_without_memory_fail(void **state)
{
    (void)state;
    enum { N = 6 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    for (int32_t nth = 0; file.n_rows < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        row->point = small_point(nth, 3);
        row->point.q_tok = row->point.k_tok =
            s2_min_i32(row->point.k_tok, 512); /* planned again at each try */
        snprintf(row->set, sizeof row->set, "designed");
        snprintf(row->kernel, sizeof row->kernel, "sm90");
        row->tile_tok = 128;
        row->key_tok = 64;
        row->pack_heads = 1;
        row->us = row->mhz = 1000;
    }
    s2_status status = S2_ENOMEM;
    for (int64_t n = 0; status == S2_ENOMEM; n++) {
        s2_arena scratch = {0};
        s2_time_model fitted;
        s2_diag diag = {0};
        int64_t left = n;
        s2_alloc_set_hook(s2_test_fail_from, &left);
        status = s2_fit_run(&scratch, &file, &gpu, NULL, &fitted, &diag);
        s2_alloc_set_hook(NULL, NULL);
        s2_arena_release(&scratch);
        assert_true(n < 5000);
    }
    assert_int_equal(status, S2_EINVAL);
    s2_arena_release(&arena);
}

/* As measured rows do: the cut of the plan that the kernel runs, whose tile depends on what its heads share. */
static void state_cut(s2_arena *arena, const s2_kernel_model *kernel, s2_row *row)
{
    const s2_pattern pattern = s2_parsed(arena, row->point.pattern);
    const s2_plan_options cut = s2_predict_cut(kernel, &pattern);
    const s2_plan_seq seq = {row->point.q_tok, row->point.k_tok};
    s2_plan plan;
    assert_int_equal(s2_plan_build(arena, &pattern, S2_PREFILL, 0, &seq, 1, &cut, &plan, NULL), S2_OK);
    row->tile_tok = plan.options.tile_tok;
    row->key_tok = plan.options.key_tok;
    row->pack_heads = plan.options.pack_heads;
    row->section_bytes = plan.options.section_bytes;
}

/* Rows that the model itself made, with a little noise: a fit must bring its times back. */
static void a_fit_brings_back_what_made_the_rows(void **state)
{
    (void)state;
    enum { N = 60 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    const s2_time_model truth = h200_model();
    s2_rng rng = {s2_test_seed(37)};
    for (int32_t nth = 0; file.n_rows < N && nth < 400; nth++) {
        s2_row *const row = &file.rows[file.n_rows];
        s2_launch_price made;
        s2_kernel_load load;
        s2_forecast forecast;
        row->point = small_point(nth, 3);
        if (!predict_point(&arena, &truth, &row->point, &made) || strcmp(made.kernel->name, "sm90") != 0)
            continue;
        snprintf(row->set, sizeof row->set, "designed");
        snprintf(row->kernel, sizeof row->kernel, "sm90");
        state_cut(&arena, made.kernel, row);
        assert_int_equal(s2_fit_load(&arena, row, &truth, &load, &diag), S2_OK);
        s2_model_run(&truth, made.kernel, &load, false, 0, &forecast);
        row->us = forecast.us * (1 + 0.01 * (s2_test_unit(&rng) - 0.5));
        row->mhz = forecast.mhz;
        file.n_rows++;
    }
    assert_int_equal(file.n_rows, N);
    s2_time_model fitted;
    if (s2_fit_run(&arena, &file, &gpu, NULL, &fitted, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    double sum = 0;
    for (int32_t at = 0; at < N; at++) {
        s2_kernel_load load;
        s2_forecast forecast;
        assert_int_equal(s2_fit_load(&arena, &file.rows[at], &fitted, &load, &diag), S2_OK);
        s2_model_run(&fitted, &fitted.kernels[0], &load, false, file.rows[at].mhz, &forecast);
        sum += fabs(forecast.us / file.rows[at].us - 1);
    }
    if (sum / N > 0.03)
        fail_msg("mean error %.4f", sum / N);
    s2_arena_release(&arena);
}

/* A kernel of short windows as if it had been fitted. */
static s2_kernel_model short_kernel(const s2_kernel_traits *traits, s2_pass pass)
{
    s2_kernel_model kernel = {.traits = traits,
                              .pass = pass,
                              .residents = 1,
                              .warm_mb = 10,
                              .lost_mb = 20,
                              .hbm_gb_s = 3500,
                              .launch_us = 5,
                              .miss_us = 2,
                              .fine = pass == S2_PASS_FORWARD ? 1500 : 300,
                              .more = pass == S2_PASS_FORWARD ? 500 : 900,
                              .draw = 0.6,
                              .ragged = 0.1,
                              .column = pass == S2_PASS_FORWARD ? 0 : 9000,
                              .n_dims = 1,
                              .dims = {{.head_dim = 64, .item = 11000, .least = 3700}},
                              .n_cuts = 1,
                              .cuts = {{64, true, traits->tile_tok, traits->key_tok, traits->pack_heads, 0}},
                              .rows = traits->tile_tok * traits->pack_heads};
    snprintf(kernel.name, sizeof kernel.name, "%s", traits->name);
    return kernel;
}

static s2_time_model model_with_short_windows(void)
{
    s2_time_model model = h200_model();
    int32_t n = 0;
    for (int32_t k = 0; k < model.n_kernels; k++)
        if (!s2_model_is_short(&model.kernels[k]))
            model.kernels[n++] = model.kernels[k];
    model.kernels[n++] = short_kernel(&s2_traits_sm90_window, S2_PASS_FORWARD);
    model.kernels[n++] = short_kernel(&s2_traits_sm90_bwd_window, S2_PASS_BACKWARD);
    model.n_kernels = n;
    return model;
}

/* A short window runs on the kernel for it, everything else on the others. */
static void short_windows_are_priced_on_their_kernels(void **state)
{
    static const char *const others[] = {"heads 64; kv-heads 8; head-dim 64; all: local 129t",
                                         "heads 64; kv-heads 16; head-dim 64; all: local 128t",
                                         "heads 64; kv-heads 8; head-dim 128; all: local 128t",
                                         "heads 64; kv-heads 8; head-dim 64; all: local 128t | sink 4t",
                                         "heads 64; kv-heads 8; head-dim 64; all: local 2"};
    (void)state;
    const s2_time_model model = model_with_short_windows();
    s2_run_point point;
    s2_launch_price price;
    for (int32_t pass = S2_PASS_FORWARD; pass <= S2_PASS_BACKWARD; pass++)
        for (int32_t nth = 0; nth < s2_test_cases(20); nth++) {
            s2_arena arena = {0};
            assert_true(s2_run_point_drawn_of("short", (s2_pass)pass, 5, nth, &point));
            assert_true(predict_point(&arena, &model, &point, &price));
            assert_string_equal(price.kernel->name,
                                pass == S2_PASS_FORWARD ? "sm90_window" : "sm90_bwd_window");
            assert_null(price.runs_on);
            assert_true(price.forecast.us > price.forecast.launch_us && price.forecast.bytes.dram_read > 0);
            const double us = price.forecast.us;
            if (point.q_tok == point.k_tok && point.k_tok > 2048) {
                point.k_tok = point.q_tok -= 1024;
                assert_true(predict_point(&arena, &model, &point, &price));
                /* ranges are as long as a window at least: 159 units make 4 of up to 40, 128 more 8 of 36 */
                assert_true(price.forecast.us <= us * 1.12);
            }
            s2_arena_release(&arena);
        }
    point = (s2_run_point){.q_tok = 2048, .k_tok = 2048, .batch = 1, .dtype = S2_BF16};
    for (size_t other = 0; other < sizeof others / sizeof *others; other++)
        for (int32_t pass = S2_PASS_FORWARD; pass <= S2_PASS_BACKWARD; pass++) {
            s2_arena arena = {0};
            point.pass = (s2_pass)pass;
            snprintf(point.pattern, sizeof point.pattern, "%s", others[other]);
            assert_true(predict_point(&arena, &model, &point, &price));
            assert_false(s2_model_is_short(price.kernel));
            assert_null(price.runs_on);
            s2_arena_release(&arena);
        }
}

/* Gradients of short windows: the ranges hold every unit once, and none is much longer than another's turn. */
static void ranges_hold_every_unit_of_short_windows(void **state)
{
    (void)state;
    const s2_time_model model = model_with_short_windows();
    const s2_kernel_model *const kernel = &model.kernels[model.n_kernels - 1];
    for (int32_t nth = 0; nth < s2_test_cases(40); nth++) {
        s2_arena arena = {0};
        s2_run_point point;
        s2_plan plan;
        s2_plan_seq seqs[64];
        s2_kernel_load load;
        s2_forecast forecast;
        assert_true(s2_run_point_drawn_of("short", S2_PASS_BACKWARD, 3, nth, &point));
        const s2_pattern pattern = s2_parsed(&arena, point.pattern);
        const s2_plan_options options = s2_kernel_cut(&s2_traits_sm90_bwd_window, pattern.head_dim);
        for (int32_t seq = 0; seq < point.batch; seq++)
            seqs[seq] = (s2_plan_seq){point.q_tok, point.k_tok};
        assert_int_equal(
            s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, point.batch, &options, &plan, NULL), S2_OK);
        assert_int_equal(
            s2_load_of(&arena, &plan, &s2_traits_sm90_bwd_window, S2_PASS_BACKWARD, point.dtype, 132, &load),
            S2_OK);
        const int64_t sets = pattern.n_heads / pattern.n_kv_heads / S2_WINDOW_HEADS,
                      units = s2_ceil_div(point.k_tok, S2_WINDOW_UNIT_TOK) * pattern.n_kv_heads * point.batch;
        int64_t n = 0, most = 0, least = INT32_MAX;
        for (int32_t at = 0; at < load.n_columns; at++) {
            n += load.columns[at].n_full;
            most = s2_max_i64(most, load.columns[at].n_full);
            least = s2_min_i64(least, load.columns[at].n_full);
            assert_in_range(load.columns[at].n_fine, 0, load.columns[at].n_full);
            assert_int_equal(load.columns[at].n_masked * sets, load.columns[at].n_full); /* positions */
        }
        assert_int_equal(n, units * sets);
        assert_true(most - least <= sets);
        /* one launch reads Q, O, dO, K and V, each once, and nothing is done before it */
        s2_model_run(&model, kernel, &load, true, 0, &forecast);
        assert_true(fabs(forecast.bytes.dram_read - load.q_bytes - load.kv_bytes - load.sum_bytes) <=
                    load.sum_bytes);
        assert_true(forecast.before_us == 0.0 && forecast.before_bytes == 0.0);
        /* as few turns as with whole sequences */
        assert_int_equal(s2_ceil_div(load.n_columns, 132),
                         s2_ceil_div((int64_t)pattern.n_kv_heads * point.batch, 132));
        s2_arena_release(&arena);
    }
}

static void a_fit_of_short_windows_brings_back_what_made_the_rows(void **state)
{
    (void)state;
    enum { N = 60 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    const s2_time_model truth = model_with_short_windows(), kept = h200_model();
    s2_time_model fitted;
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    for (int32_t nth = 0; nth < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        const s2_kernel_model *const kernel = &truth.kernels[truth.n_kernels - 1 - nth % 2];
        s2_kernel_load load;
        s2_forecast forecast;
        assert_true(s2_run_point_drawn_of("short", kernel->pass, 9, nth, &row->point));
        row->point.batch = s2_min_i32(row->point.batch, 4);
        row->nth = nth;
        snprintf(row->set, sizeof row->set, "designed");
        snprintf(row->kernel, sizeof row->kernel, "%s", kernel->name);
        row->tile_tok = kernel->traits->tile_tok;
        row->key_tok = kernel->traits->key_tok;
        row->pack_heads = kernel->traits->pack_heads;
        assert_int_equal(s2_fit_load(&arena, row, &truth, &load, &diag), S2_OK);
        assert_true((load.after_us > 0) == (row->point.sinks && kernel->pass == S2_PASS_BACKWARD));
        s2_model_run(&truth, kernel, &load, false, 0, &forecast);
        row->us = forecast.us;
        row->mhz = forecast.mhz;
    }
    if (s2_fit_run(&arena, &file, &gpu, &kept, &fitted, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    int32_t n_short = 0;
    for (int32_t k = 0; k < fitted.n_kernels; k++) {
        const s2_kernel_model *const own = &fitted.kernels[k];
        if (!s2_model_is_short(own))
            continue;
        if (own->fit_pct > 1)
            fail_msg("%s: %.2f %%", own->name, own->fit_pct);
        assert_int_equal(own->n_dims, 1);
        assert_int_equal(own->dims[0].head_dim, 64);
        assert_true(fabs(own->draw - 0.6) < 0.05);
        s2_assert_close(own->ragged, 0.1, 0.02);
        if (own->pass == S2_PASS_BACKWARD)
            s2_assert_close(own->more, 900, 90);
        n_short++;
    }
    assert_int_equal(n_short, 2);
    s2_arena_release(&arena);
}

/* The built-in model, whose gradients in order have these constants; as in a file, the kernel stands before slower ones. */
static s2_time_model model_with_order(void)
{
    const s2_kernel_traits *const traits = &s2_traits_sm90_bwd_ordered;
    const s2_time_model built_in = h200_model();
    s2_time_model model = built_in;
    model.kernels[0] =
        (s2_kernel_model){.traits = traits,
                          .pass = S2_PASS_BACKWARD,
                          .rows = 128,
                          .whole_blocks = true,
                          .residents = 1,
                          .hbm_gb_s = 4100,
                          .launch_us = 6,
                          .miss_us = 1,
                          .warm_mb = 15,
                          .lost_mb = 20,
                          .gather = 1,
                          .column = 2700,
                          .part = 1200,
                          .draw = 0.2,
                          .n_dims = 1,
                          .dims = {{128, 3300, 3700, 5900, 0}},
                          .n_cuts = 2,
                          .cuts = {{128, false, 128, 64, 1, 16777216}, {128, true, 128, 64, 1, 16777216}}};
    snprintf(model.kernels[0].name, S2_KERNEL_NAME, "%s", traits->name);
    model.n_kernels = 1;
    for (int32_t k = 0; k < built_in.n_kernels; k++)
        if (built_in.kernels[k].traits != traits)
            model.kernels[model.n_kernels++] = built_in.kernels[k];
    return model;
}

static s2_row ordered_row(uint64_t seed, int32_t nth)
{
    s2_row row = {.nth = nth,
                  .set = "designed",
                  .kernel = "sm90_bwd_ordered",
                  .tile_tok = 128,
                  .key_tok = 64,
                  .pack_heads = 1,
                  .section_bytes = 16777216};
    assert_true(s2_run_point_drawn_of("ordered", S2_PASS_BACKWARD, seed, nth, &row.point));
    return row;
}

/* Five products of every step of a column, and nothing after them; a narrow head dim takes what the widest does. */
static void gradients_in_order_are_columns_alone(void **state)
{
    (void)state;
    const s2_time_model model = model_with_order();
    for (int32_t nth = 0; nth < s2_test_cases(20); nth++) {
        s2_arena arena = {0};
        const s2_row row = ordered_row(s2_test_seed(45), nth);
        const s2_pattern pattern = s2_parsed(&arena, row.point.pattern);
        s2_kernel_load load;
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        const double n_tiles = (double)s2_ceil_div(row.point.k_tok, 128), dim = pattern.head_dim,
                     rows = (double)row.point.batch * pattern.n_heads * row.point.k_tok,
                     dq_row = 4.0 * (double)s2_round_up(pattern.head_dim, 64);
        double n_steps = 0, reads = 0, distinct = 0;
        for (int32_t at = 0; at < load.n_columns; at++) {
            n_steps += load.columns[at].n_full + load.columns[at].n_masked;
            assert_int_equal(load.columns[at].n_half, 0);
            /* rows of 16-bit numbers begin with a line of 128 bytes at head dimensions 64 and 128 alone */
            assert_int_equal(load.columns[at].n_fine,
                             pattern.head_dim % 64 != 0 ? load.columns[at].n_full + load.columns[at].n_masked
                                                        : 0);
        }
        for (int32_t at = 0; at < load.n_sweeps; at++) {
            reads += load.sweeps[at].reads;
            distinct = fmax(distinct, load.sweeps[at].distinct);
        }
        /* the last tile may end in its first half */
        const double most = n_tiles * (n_tiles + 1) * pattern.n_heads * row.point.batch;
        assert_true(n_steps <= most && n_steps >= most - 2 * n_tiles * pattern.n_heads * row.point.batch);
        assert_true(load.fused && load.n_classes == 0 && load.load_bytes == 0 && load.whole_bytes == 0);
        s2_assert_close(load.flop, 10.0 * 128 * 64 * 128 * n_steps, 1e-9 * load.flop);
        s2_assert_close(load.dq_bytes, dq_row * rows, 1);
        s2_assert_close(reads, n_steps * 64 * (4 * dim + 8 + dq_row), 1);
        assert_true(distinct <= reads && load.column_bytes < reads);
        s2_arena_release(&arena);
    }
}

/*
 * Whole columns come to each tile of dQ two steps, of all heads of a group, after the one before; where the last queries
 * fill no step, all begin with that step, and parts of long columns begin at one tile.
 */
static void columns_in_order_follow_one_another(void **state)
{
    static const struct {
        const char *pattern;
        int32_t k_tok, later;
        bool cut;
    } cases[] = {{"heads 2; kv-heads 2; head-dim 128; all: dense", 8192, 2, false},
                 {"heads 4; kv-heads 2; head-dim 128; all: dense", 8192, 4, false},
                 {"heads 2; kv-heads 2; head-dim 128; all: dense", 8200, 2, false},
                 {"heads 2; kv-heads 2; head-dim 128; all: dense", 131072, 0, true}};
    (void)state;
    const s2_time_model model = model_with_order();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        s2_arena arena = {0};
        s2_row row = ordered_row(1, 0);
        s2_kernel_load load;
        snprintf(row.point.pattern, sizeof row.point.pattern, "%s", cases[c].pattern);
        row.point.q_tok = row.point.k_tok = cases[c].k_tok;
        row.point.batch = 2;
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        assert_int_equal(load.n_chains > 0, cases[c].cut);
        int32_t n_first = 0, least = INT32_MAX;
        for (int32_t at = 0; at < load.n_columns; at++) {
            n_first += !load.columns[at].follows;
            if (load.columns[at].follows)
                least = s2_min_i32(least, load.columns[at].later);
        }
        assert_int_equal(least, cases[c].later);
        if (!cases[c].cut) /* of each KV head of each sequence */
            assert_int_equal(n_first, 2 * 2);
        s2_arena_release(&arena);
    }
}

/* Three workers: a column that comes to a tile of the one before it waits there, by as much as it does not come later. */
static void a_column_waits_for_its_turn(void **state)
{
    (void)state;
    const s2_kernel_model kernel = {.pass = S2_PASS_BACKWARD,
                                    .residents = 1,
                                    .hbm_gb_s = 1,
                                    .lost_mb = 1,
                                    .column = 45,
                                    .n_dims = 1,
                                    .dims = {{64, 0, 10, 10, 0}}};
    s2_load_column columns[] = {{.n_full = 100, .chain = -1},
                                {.n_full = 100, .chain = -1, .follows = true, .later = 0},
                                {.n_full = 100, .chain = -1, .follows = true, .later = 4}};
    const s2_kernel_load load = {.pass = S2_PASS_BACKWARD,
                                 .head_dim = 64,
                                 .n_subs = 2,
                                 .arithmetic = true,
                                 .fused = true,
                                 .n_columns = 3,
                                 .columns = columns,
                                 .chain_ends = (double[1]){0}};
    const s2_time_model chip = {
        .l2_gb_s = 1, .cache_mb = 1, .spill_mb = 2, .whole_mb = 1, .power = 1, .n_sms = 3};
    s2_forecast forecast;
    s2_model_run(&chip, &kernel, &load, true, 1, &forecast);
    s2_assert_close(forecast.cycles, 1000 + 45 + 5, 1e-9);
    columns[1].follows = columns[2].follows = false;
    s2_model_run(&chip, &kernel, &load, true, 1, &forecast);
    s2_assert_close(forecast.cycles, 1000, 1e-9);
}

/* A long sequence leaves the cache: its rows come from memory once for many columns, and dQ goes back there. */
static void long_columns_in_order_read_memory_again(void **state)
{
    (void)state;
    const s2_time_model model = model_with_order();
    const s2_kernel_model *const kernel = &model.kernels[0];
    for (int32_t k_tok = 16384; k_tok <= 65472; k_tok += 65472 - 16384) {
        s2_arena arena = {0};
        s2_row row = ordered_row(1, 0);
        s2_kernel_load load;
        snprintf(row.point.pattern, sizeof row.point.pattern,
                 "heads 1; kv-heads 1; head-dim 128; all: dense");
        row.point.q_tok = row.point.k_tok = k_tok;
        row.point.batch = 1;
        row.point.dtype = S2_BF16;
        assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
        const s2_bytes bytes = s2_model_counted(&model, kernel, &load);
        const double rows = 256.0 * k_tok; /* of Q, of dO ...; dQ is added up in twice as many */
        const double read = 4 * rows + 2 * rows + 2 * rows, written = 3 * rows + 2 * rows;
        if (k_tok == 16384) {
            assert_true(fabs(bytes.dram_read / read - 1) < 0.01);
            assert_true(bytes.dram_write >= 2 * rows && bytes.dram_write <= written);
        } else {
            assert_int_equal(load.n_chains, 0);
            assert_true(bytes.dram_read > 30 * read && bytes.dram_read < load.column_bytes * 2);
            assert_true(bytes.dram_write > 0.4 * bytes.dram_read && bytes.dram_write < 0.6 * bytes.dram_read);
        }
        s2_arena_release(&arena);
    }
}

/* What reads everything runs on the kernel for it where the model has one, everything else on the others. */
static void gradients_in_order_are_priced_on_their_kernel(void **state)
{
    static const struct {
        const char *pattern;
        int32_t k_tok;
    } others[] = {{"heads 8; kv-heads 8; head-dim 128; all: local 127", 8192},
                  {"heads 8; kv-heads 8; head-dim 96; all: dense", 8192},
                  {"heads 8; kv-heads 8; head-dim 136; all: dense", 8192},
                  {"heads 8; kv-heads 8; head-dim 128; all: dense", 4095}};
    (void)state;
    const s2_time_model model = model_with_order();
    s2_run_point point;
    s2_launch_price price;
    for (int32_t nth = 0; nth < s2_test_cases(20); nth++) {
        s2_arena arena = {0};
        assert_true(s2_run_point_drawn_of("ordered", S2_PASS_BACKWARD, 5, nth, &point));
        assert_true(predict_point(&arena, &model, &point, &price));
        assert_string_equal(price.kernel->name, "sm90_bwd_ordered");
        assert_null(price.runs_on);
        const double us = price.forecast.us;
        point.q_tok = point.k_tok += 1024;
        assert_true(predict_point(&arena, &model, &point, &price));
        assert_true(price.forecast.us > us);
        s2_arena_release(&arena);
    }
    point = (s2_run_point){.pass = S2_PASS_BACKWARD, .batch = 1, .dtype = S2_BF16};
    for (size_t other = 0; other < sizeof others / sizeof *others; other++) {
        s2_arena arena = {0};
        point.q_tok = point.k_tok = others[other].k_tok;
        snprintf(point.pattern, sizeof point.pattern, "%s", others[other].pattern);
        assert_true(predict_point(&arena, &model, &point, &price));
        assert_string_equal(price.kernel->name, "sm90_bwd");
        assert_null(price.runs_on);
        s2_arena_release(&arena);
    }
}

static void a_fit_of_gradients_in_order_brings_back_what_made_the_rows(void **state)
{
    (void)state;
    enum { N = 40 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    const s2_time_model truth = model_with_order(), kept = h200_model();
    const s2_kernel_model *const made = &truth.kernels[0];
    s2_time_model fitted;
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    for (int32_t nth = 0; nth < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        s2_kernel_load load;
        s2_forecast forecast;
        *row = ordered_row(9, nth);
        row->point.q_tok = row->point.k_tok =
            s2_min_i32(row->point.k_tok, 8192); /* columns are walked one by one */
        assert_int_equal(s2_fit_load(&arena, row, &truth, &load, &diag), S2_OK);
        s2_model_run(&truth, made, &load, false, 0, &forecast);
        row->us = forecast.us;
        row->mhz = forecast.mhz;
    }
    if (s2_fit_run(&arena, &file, &gpu, &kept, &fitted, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    int32_t n = 0;
    for (int32_t k = 0; k < fitted.n_kernels; k++) {
        const s2_kernel_model *const own = &fitted.kernels[k];
        if (own->traits != made->traits)
            continue;
        if (own->fit_pct > 1)
            fail_msg("%.2f %%", own->fit_pct);
        assert_int_equal(own->n_dims, 1);
        assert_int_equal(own->dims[0].head_dim, 128);
        assert_true(fabs(own->dims[0].step / made->dims[0].step - 1) < 0.01);
        assert_true(fabs(own->draw - 0.2) < 0.02);
        assert_true(own->start == 0 && own->dims[0].least == 0);
        n++;
    }
    assert_int_equal(n, 1);
    s2_arena_release(&arena);
}

/* Rows of wide steps say the same kernel as others. They change no constant of these, and have a law of their own. */
static void a_fit_of_wide_steps_brings_back_what_made_the_rows(void **state)
{
    (void)state;
    enum { N = 60, N_WIDE = 40 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    s2_time_model truth = h200_model(), without, with, alone;
    const s2_kernel_model *const law = decode_law(&truth, true);
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N + N_WIDE), .n_rows = N};
    s2_rng rng = {s2_test_seed(39)};
    assert_non_null(law);
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    for (int32_t nth = 0; nth < N + N_WIDE; nth++) {
        s2_row *const row = &file.rows[nth];
        s2_kernel_load load;
        s2_forecast forecast = {.us = 10 + 100 * s2_test_unit(&rng), .mhz = 1500};
        if (nth < N)
            s2_run_point_drawn(S2_PASS_DECODE, 5, nth, &row->point);
        else
            assert_true(s2_run_point_drawn_of("wide", S2_PASS_DECODE, 5, nth, &row->point));
        row->point.batch = nth < N ? 1 : s2_min_i32(row->point.batch, 8);
        row->point.k_tok = s2_min_i32(row->point.k_tok, 4096);
        row->nth = nth < N ? nth : -1; /* the first of all in order */
        snprintf(row->set, sizeof row->set, "designed");
        snprintf(row->kernel, sizeof row->kernel, "decode");
        row->tile_tok = 16;
        row->key_tok = 64;
        row->pack_heads = 1;
        assert_int_equal(s2_fit_load(&arena, row, &truth, &load, &diag), S2_OK);
        assert_string_equal(s2_fit_kernel(row, &load), nth < N ? "decode" : "decode_wide");
        if (nth >= N)
            s2_model_run(&truth, law, &load, false, 0, &forecast);
        row->us = forecast.us;
        row->mhz = forecast.mhz;
    }
    assert_int_equal(s2_fit_run(&arena, &file, &gpu, &truth, &without, &diag), S2_OK);
    assert_memory_equal(decode_law(&without, true), law, sizeof *law);
    file.n_rows += N_WIDE;
    assert_int_equal(s2_fit_run(&arena, &file, &gpu, &truth, &with, &diag), S2_OK);
    assert_memory_equal(decode_law(&with, false), decode_law(&without, false), sizeof *law);
    assert_int_equal(decode_law(&with, false)->n_points, N);
    file.rows += N;
    file.n_rows = N_WIDE;
    assert_int_equal(s2_fit_run(&arena, &file, &gpu, &truth, &alone, &diag), S2_OK);
    assert_int_equal(decode_law(&alone, true)->n_points, N_WIDE);
    if (decode_law(&alone, true)->fit_pct > 1)
        fail_msg("%.2f %%", decode_law(&alone, true)->fit_pct);
    assert_memory_equal(decode_law(&alone, false), decode_law(&truth, false), sizeof *law);
    s2_arena_release(&arena);
}

/* Files of rows may be joined in any order. */
static void a_fit_depends_on_its_rows_and_not_on_their_order(void **state)
{
    (void)state;
    enum { N = 40 };
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    s2_time_model fitted[2];
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    s2_rng rng = {s2_test_seed(38)};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    for (int32_t nth = 0; file.n_rows < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        row->point = small_point(nth, 5);
        row->point.dtype = S2_BF16;
        row->nth = nth;
        snprintf(row->set, sizeof row->set, "designed");
        snprintf(row->kernel, sizeof row->kernel, "sm90");
        row->tile_tok = 128;
        row->key_tok = 64;
        row->pack_heads = 1;
        row->us = 10 + 1000 * s2_test_unit(&rng);
        row->mhz = 1500;
    }
    for (int32_t way = 0; way < 2; way++) {
        if (s2_fit_run(&arena, &file, &gpu, NULL, &fitted[way], &diag) != S2_OK)
            fail_msg("%s", diag.msg);
        for (int32_t nth = 0; nth < N / 2; nth++) {
            const s2_row held = file.rows[nth];
            file.rows[nth] = file.rows[N - 1 - nth];
            file.rows[N - 1 - nth] = held;
        }
    }
    assert_memory_equal(&fitted[0], &fitted[1], sizeof fitted[0]);
    /* beside constants that are kept, nothing moves but the kernel that has rows */
    const s2_time_model kept = h200_model();
    assert_int_equal(s2_fit_run(&arena, &file, &gpu, &kept, &fitted[0], &diag), S2_OK);
    assert_int_equal(fitted[0].n_kernels, kept.n_kernels);
    for (int32_t k = 0; k < kept.n_kernels; k++)
        assert_int_equal(memcmp(&fitted[0].kernels[k], &kept.kernels[k], sizeof kept.kernels[k]) != 0,
                         strcmp(kept.kernels[k].name, "sm90") == 0);
    assert_memory_equal(&fitted[0], &kept, offsetof(s2_time_model, n_kernels));
    s2_arena_release(&arena);
}

/* A launch of the Hopper forward whose windows are cut inside blocks of so many tokens, timed by a model. */
static s2_row windowed_row(s2_arena *arena, const s2_time_model *model, int32_t block_tok, int32_t nth)
{
    s2_row row = {
        .point = {.pass = S2_PASS_FORWARD, .q_tok = 1024, .k_tok = 1024, .batch = 1, .dtype = S2_BF16},
        .set = "designed",
        .kernel = "sm90",
        .tile_tok = 128,
        .key_tok = 64,
        .pack_heads = 1,
        .nth = nth,
        .mhz = 1500};
    s2_kernel_load load;
    s2_forecast forecast;
    snprintf(row.point.pattern, sizeof row.point.pattern,
             "heads 16; kv-heads 16; head-dim 64; block %d; all: local %dt", block_tok, 430 + 37 * nth);
    assert_int_equal(s2_fit_load(arena, &row, model, &load, NULL), S2_OK);
    for (int32_t at = 0; at < load.n_classes; at++)
        assert_true(block_tok < 64 || load.classes[at].n_more == 0);
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (strcmp(model->kernels[k].name, row.kernel) == 0)
            s2_model_run(model, &model->kernels[k], &load, false, row.mhz, &forecast);
    row.us = forecast.us;
    return row;
}

/* Blocks of less than 64 tokens have several masks in a step, and what each costs can be fitted alone. */
static void one_constant_is_fitted_and_all_else_kept(void **state)
{
    (void)state;
    enum { N = 6 };
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_rng rng = {s2_test_seed(61)};
    s2_time_model truth = h200_model(), fitted;
    s2_time_model kept = truth;
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    const double more = 100 + 2000 * s2_test_unit(&rng);
    for (int32_t k = 0; k < truth.n_kernels; k++) {
        kept.kernels[k].more = 0;
        truth.kernels[k].more = more;
    }
    for (int32_t nth = 0; nth < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        const double without = windowed_row(&arena, &kept, 16, nth).us;
        *row = windowed_row(&arena, &truth, 16, nth);
        assert_true(row->us > without);
        assert_true(windowed_row(&arena, &truth, 64, nth).us == windowed_row(&arena, &kept, 64, nth).us);
    }
    if (s2_fit_constant(&arena, &file, &kept, "more", &fitted, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    for (int32_t k = 0; k < fitted.n_kernels; k++) {
        s2_kernel_model *const own = &fitted.kernels[k];
        const bool runs = strncmp(own->name, "sm90", sizeof own->name) == 0 || s2_model_plans_lists(own);
        if (runs)
            assert_true(fabs(own->more / more - 1) < 0.01);
        own->more = kept.kernels[k].more;
    }
    assert_memory_equal(&fitted, &kept, sizeof kept);
    assert_int_equal(s2_fit_constant(&arena, &file, &kept, "less", &fitted, &diag), S2_EINVAL);
    file.n_rows = 0;
    assert_int_equal(s2_fit_constant(&arena, &file, &kept, "more", &fitted, &diag), S2_EINVAL);
    s2_arena_release(&arena);
}

/* Rows of a head dimension that a kernel does not know give it its costs, and are told again by the same rows. */
static void head_dimensions_are_fitted_beside_what_is_known(void **state)
{
    (void)state;
    enum { N = 20 };
    s2_arena arena = {0};
    s2_diag diag = {0};
    s2_time_model truth = h200_model(), kept, fitted, again;
    s2_row_file file = {.rows = S2_NEW(&arena, s2_row, N)};
    int32_t index = 0;
    while (strcmp(truth.kernels[index].name, "sm90_bwd") != 0)
        index++;
    s2_kernel_model *const whole = &truth.kernels[index];
    assert_int_equal(whole->dims[whole->n_dims - 1].head_dim, 256);
    whole->dims[whole->n_dims - 1] =
        (s2_dim_cost){.head_dim = 256, .item = 17000, .step = 4700, .masked = 4700, .least = 4800};
    kept = truth;
    s2_kernel_model *const without = &kept.kernels[index];
    without->n_dims--;
    for (int32_t nth = 0; nth < N; nth++) {
        s2_row *const row = &file.rows[file.n_rows++];
        s2_kernel_load load;
        s2_forecast forecast;
        *row = (s2_row){
            .set = "designed", .kernel = "sm90_bwd", .tile_tok = 128, .key_tok = 32, .pack_heads = 1};
        assert_true(s2_run_point_drawn_of("dim256", S2_PASS_BACKWARD, 5, nth, &row->point));
        row->nth = nth;
        row->point.q_tok = row->point.k_tok = s2_min_i32(row->point.k_tok, 2048);
        assert_int_equal(s2_fit_load(&arena, row, &truth, &load, NULL), S2_OK);
        s2_model_run(&truth, &truth.kernels[index], &load, false, 0, &forecast);
        row->us = forecast.us;
        row->mhz = forecast.mhz;
    }
    if (s2_fit_dims(&arena, &file, &kept, &fitted, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    assert_int_equal(s2_fit_dims(&arena, &file, &fitted, &again, &diag), S2_OK);
    assert_memory_equal(&again, &fitted, sizeof fitted);
    const s2_dim_cost *const cost = &fitted.kernels[index].dims[without->n_dims],
                             *const made = &truth.kernels[index].dims[without->n_dims];
    assert_true(fabs(cost->least / made->least - 1) < 0.05 && fabs(cost->step / made->step - 1) < 0.2);
    assert_memory_equal(fitted.kernels[index].dims, truth.kernels[index].dims,
                        (size_t)without->n_dims * sizeof *cost);
    assert_int_equal(fitted.kernels[index].n_points, without->n_points + N);
    file.n_rows = 0;
    assert_int_equal(s2_fit_dims(&arena, &file, &kept, &fitted, &diag), S2_EINVAL);
    s2_arena_release(&arena);
}

/* The load of a forward, and what the model says of it at its highest clock. */
static s2_forecast forecast_of(s2_arena *arena, const s2_time_model *model, const char *kernel,
                               const char *pattern, s2_dtype dtype, int32_t q_tok, int32_t k_tok,
                               s2_kernel_load *load)
{
    s2_row row = {
        .point = {.pass = S2_PASS_FORWARD, .q_tok = q_tok, .k_tok = k_tok, .batch = 1, .dtype = dtype},
        .tile_tok = 128,
        .key_tok = 64,
        .pack_heads = 2,
        .section_bytes = 1 << 24};
    s2_forecast forecast;
    int32_t k = 0;
    while (strcmp(model->kernels[k].name, kernel) != 0)
        k++;
    snprintf(row.kernel, sizeof row.kernel, "%s", kernel);
    snprintf(row.point.pattern, sizeof row.point.pattern, "%s", pattern);
    assert_int_equal(s2_fit_load(arena, &row, model, load, NULL), S2_OK);
    s2_model_run(model, &model->kernels[k], load, false, model->max_mhz, &forecast);
    return forecast;
}

/* A launch begins on SMs that the one before leaves idle: half a chip of them hide all of that, none hide nothing. */
static void idle_sms_let_the_next_launch_begin(void **state)
{
    (void)state;
    static const char *const kernels[] = {"sm90", "sm90_e4m3"};
    s2_arena arena = {0};
    for (int32_t which = 0; which < 2; which++) {
        s2_time_model with = h200_model(), without = h200_model();
        double less[3];
        for (int32_t k = 0; k < with.n_kernels; k++) {
            with.kernels[k].early = with.kernels[k].launch_us / 2;
            without.kernels[k].early = 0;
        }
        static const int32_t q_tok[] = {512, 16 * 128, 17 * 128};
        for (int32_t c = 0; c < 3; c++) {
            static const char *const pattern =
                "heads 8; kv-heads 8; head-dim 128; block 64; layers all: local 4";
            const s2_dtype dtype = which == 0 ? S2_BF16 : S2_F8;
            s2_kernel_load load;
            less[c] =
                forecast_of(&arena, &without, kernels[which], pattern, dtype, q_tok[c], 17 * 128, &load).us -
                forecast_of(&arena, &with, kernels[which], pattern, dtype, q_tok[c], 17 * 128, &load).us;
        }
        assert_true(less[0] > less[1] && less[1] > 0);
        s2_assert_close(less[2], 0, 1e-9);
    }
    s2_arena_release(&arena);
}

/* What turns V into panels moves all of V, however few keys a chunk of the prompt reads, and more than the cache holds. */
static void panels_are_made_of_all_keys(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_time_model model = h200_model();
    const char *const pattern = "heads 16; kv-heads 16; head-dim 128; block 64; layers all: local 4";
    s2_kernel_load near, far;
    const s2_forecast few = forecast_of(&arena, &model, "sm90_e4m3", pattern, S2_F8, 256, 1024, &near);
    const s2_forecast many = forecast_of(&arena, &model, "sm90_e4m3", pattern, S2_F8, 256, 65536, &far);
    s2_assert_close(far.panel_bytes, 2.0 * 65536 * 16 * 128, 1);
    s2_assert_close(far.panel_blocks, 512.0 * 16, 0);
    s2_assert_close(near.kv_bytes, far.kv_bytes, 1);
    assert_true(many.before_us > far.panel_bytes / 4.8e6 &&
                many.us - few.us > 0.9 * (many.before_us - few.before_us));
    assert_true(forecast_of(&arena, &model, "sm90", pattern, S2_BF16, 256, 65536, &far).before_us == 0);
    s2_arena_release(&arena);
}

/* The tile that the end of a sequence cuts comes last, beside the first ones: they share no window, and span no keys. */
static void no_generation_reads_more_than_it_loads(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_time_model model = h200_model();
    s2_rng rng = {s2_test_seed(62)};
    for (int32_t nth = 0; nth < s2_test_cases(12); nth++) {
        const int32_t heads = 8 + (int32_t)s2_rng_below(&rng, 25), local = 1 + (int32_t)s2_rng_below(&rng, 3),
                      k_tok = 20000 + (int32_t)s2_rng_below(&rng, 30000);
        char pattern[120];
        s2_kernel_load load;
        double distinct = 0;
        snprintf(pattern, sizeof pattern,
                 "heads %d; kv-heads %d; head-dim 128; block 128; layers all: local %d", heads, heads, local);
        (void)forecast_of(&arena, &model, "sm90", pattern, S2_BF16, k_tok, k_tok, &load);
        for (int32_t g = 0; g < load.n_generations; g++)
            distinct += load.generations[g].distinct;
        const double loaded = load.load_bytes - (double)load.n_items * load.rows * load.head_dim * 2;
        if (distinct > loaded * (1 + 1e-9))
            fail_msg("%s, %d tokens: %.0f of %.0f bytes", pattern, k_tok, distinct, loaded);
    }
    s2_arena_release(&arena);
}

static int32_t place_of_sm90(const s2_time_model *model)
{
    int32_t k = 0;
    while (strcmp(model->kernels[k].name, "sm90") != 0)
        k++;
    return k;
}

/* A forward of 32768 tokens by sm90, without its pattern. */
static s2_row row_of_sm90(int32_t tile_tok)
{
    return (s2_row){
        .point = {.pass = S2_PASS_FORWARD, .q_tok = 32768, .k_tok = 32768, .batch = 1, .dtype = S2_BF16},
        .kernel = "sm90",
        .tile_tok = tile_tok,
        .key_tok = 64,
        .pack_heads = 2,
        .section_bytes = 1 << 24};
}

/*
 * An item that is stored under the steps of the next one frees its slot late: the longer chain costs items of a few
 * steps, of one head twice as much, none of many steps, and at a low clock as much time as at a high one.
 */
static void items_of_a_few_steps_wait_for_a_slot(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_time_model with = h200_model(), without = h200_model();
    const int32_t k = place_of_sm90(&with);
    with.kernels[k].behind = 20000;
    without.kernels[k].behind = 0;
    const struct {
        const char *pattern;
        int32_t tile_tok;
    } cases[] = {{"heads 16; kv-heads 16; head-dim 64; block 64; all: local 3", 128},
                 {"heads 16; kv-heads 4; head-dim 64; block 64; all: local 3", 64},
                 {"heads 16; kv-heads 16; head-dim 64; block 64; all: local 1", 128},
                 {"heads 16; kv-heads 16; head-dim 64; block 64; all: local 64", 128}};
    double more[4], slow[4];
    for (int32_t c = 0; c < 4; c++) {
        s2_row row = row_of_sm90(cases[c].tile_tok);
        s2_kernel_load load;
        s2_forecast a, b;
        snprintf(row.point.pattern, sizeof row.point.pattern, "%s", cases[c].pattern);
        assert_int_equal(s2_fit_load(&arena, &row, &with, &load, NULL), S2_OK);
        s2_model_run(&with, &with.kernels[k], &load, true, with.max_mhz, &a);
        s2_model_run(&without, &without.kernels[k], &load, true, with.max_mhz, &b);
        more[c] = (a.compute_us - b.compute_us) / (double)load.n_items;
        s2_model_run(&with, &with.kernels[k], &load, true, with.max_mhz / 2, &b);
        slow[c] = b.compute_us / a.compute_us;
    }
    assert_true(more[0] > 1.5 * more[1] && more[1] > 0);
    assert_true(fabs(more[2]) < 1e-9 && more[3] < 0.2 * more[1]);
    assert_true(slow[0] < 1.01 && slow[3] > 1.5);
    s2_arena_release(&arena);
}

/* Blocks of 16, 32 and 64 tokens are gathered eight, four and one or two a step. */
static void blocks_that_an_item_begins_with_cost_each(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_time_model with = h200_model(), without = h200_model();
    const int32_t k = place_of_sm90(&with);
    with.kernels[k].first = without.kernels[k].first + 10000;
    static const int32_t blocks[] = {16, 32, 64};
    double more[3];
    for (int32_t b = 0; b < 3; b++) {
        s2_row row = row_of_sm90(64);
        s2_kernel_load load;
        s2_forecast slow, fast;
        snprintf(row.point.pattern, sizeof row.point.pattern,
                 "heads 16; kv-heads 4; head-dim 64; block %d; all: local %d", blocks[b], 4096 / blocks[b]);
        assert_int_equal(s2_fit_load(&arena, &row, &with, &load, NULL), S2_OK);
        s2_model_run(&with, &with.kernels[k], &load, true, with.max_mhz, &slow);
        s2_model_run(&without, &without.kernels[k], &load, true, with.max_mhz, &fast);
        more[b] = (slow.compute_us - fast.compute_us) / (double)load.n_items;
    }
    assert_true(more[1] > 0 && more[2] == 0);
    s2_assert_close(more[0] / more[1], 3, 0.2);
    s2_arena_release(&arena);
}

/* What the parts of wide steps leave is written and read by all, so more rows and longer ones take longer to add up. */
static void what_parts_leave_takes_time_to_add_up(void **state)
{
    (void)state;
    s2_time_model model = h200_model();
    const s2_kernel_model *const law = decode_law(&model, true);
    double before = 0;
    for (int32_t heads = 64; heads <= 128; heads += 64)
        for (int32_t q_tok = 1; q_tok <= 4; q_tok *= 2) {
            s2_arena arena = {0};
            s2_row row = {.point = {.pass = S2_PASS_DECODE,
                                    .q_tok = q_tok,
                                    .k_tok = 2048,
                                    .batch = 2,
                                    .dtype = S2_BF16},
                          .kernel = "decode",
                          .tile_tok = 16,
                          .key_tok = 64,
                          .pack_heads = 1};
            s2_kernel_load load;
            s2_forecast forecast;
            snprintf(row.point.pattern, sizeof row.point.pattern,
                     "heads %d; kv-heads 1; head-dim 128; block 64; all: dense", heads);
            assert_int_equal(s2_fit_load(&arena, &row, &model, &load, NULL), S2_OK);
            assert_true(load.merges);
            /* each part leaves a row of sums for each of its list's rows, and all of them are fetched */
            const double parts = (double)load.n_items / ceil(load.list_rows / 64.0);
            assert_true(load.left_bytes >= 2 * parts * load.list_rows * 128 * 4);
            s2_model_run(&model, law, &load, false, model.max_mhz, &forecast);
            assert_true(forecast.tail_cycles > law->part + law->adding * load.left_bytes / 1024);
            assert_true(load.left_bytes >= before);
            before = q_tok == 4 ? 0 : load.left_bytes;
            s2_arena_release(&arena);
        }
}

/* Lists that the device holds are planned in each launch, and only launches that say so are priced with that. */
static void lists_on_the_device_have_a_price_of_their_own(void **state)
{
    (void)state;
    const s2_time_model model = h200_model();
    int32_t n_listed = 0;
    for (int32_t nth = 0; nth < s2_test_cases(20); nth++) {
        s2_arena arena = {0};
        s2_run_point point;
        s2_launch_price plain, listed;
        assert_true(s2_run_point_drawn_of("listed", S2_PASS_FORWARD, 11, nth, &point));
        point.q_tok = point.k_tok = s2_min_i32(point.k_tok, 4096);
        const s2_pattern pattern = s2_parsed(&arena, point.pattern);
        s2_launch launch = {.pattern = &pattern,
                            .phase = S2_PREFILL,
                            .pass = S2_PASS_FORWARD,
                            .q_tok = point.q_tok,
                            .k_tok = point.k_tok,
                            .batch = point.batch,
                            .dtype = point.dtype};
        assert_int_equal(s2_predict_launch(&arena, &model, &launch, &plain), S2_OK);
        launch.listed = true;
        assert_int_equal(s2_predict_launch(&arena, &model, &launch, &listed), S2_OK);
        assert_string_equal(plain.kernel->name, "sm90");
        assert_string_equal(listed.kernel->name, "sm90_lists");
        assert_true(plain.forecast.before_us == 0 && listed.forecast.before_us > 0);
        assert_true(listed.forecast.launch_us > plain.forecast.launch_us);
        assert_true(listed.forecast.bytes.dram_read > 0); /* its items come in another order */
        assert_true(listed.error.n_judged > 0);
        n_listed++;
        s2_arena_release(&arena);
    }
    assert_true(n_listed > 0);
}

/*
 * A launch that plans works through the items of a dense layer in its order: a head or two at a time, whose keys stay in
 * the cache, though lists of as many heads as a section holds would be far more.
 */
static void lists_on_the_device_come_in_the_order_of_a_dense_layer(void **state)
{
    (void)state;
    const s2_time_model model = h200_model();
    s2_bytes bytes[2];
    s2_kernel_load loads[2][2];
    s2_arena arena = {0};
    for (int32_t cut = 0; cut < 2; cut++)
        for (int32_t listed = 0; listed < 2; listed++) {
            s2_row row = {
                .tile_tok = 128,
                .key_tok = 64,
                .pack_heads = 2,
                .section_bytes = cut ? S2_SECTION_BYTES : 0,
                .point = {
                    .pass = S2_PASS_FORWARD, .q_tok = 24576, .k_tok = 24576, .batch = 1, .dtype = S2_BF16}};
            snprintf(row.kernel, sizeof row.kernel, listed ? "sm90_lists" : "sm90");
            snprintf(row.point.pattern, sizeof row.point.pattern,
                     "heads 12; kv-heads 12; head-dim 128; block 64; layers all: local 1 | random 63 seed 1");
            s2_kernel_load *const load = &loads[cut][listed];
            assert_int_equal(s2_fit_load(&arena, &row, &model, load, NULL), S2_OK);
            assert_true(load->n_items == loads[0][0].n_items && load->n_steps == loads[0][0].n_steps &&
                        load->n_listed == loads[0][0].n_listed && load->load_bytes == loads[0][0].load_bytes);
        }
    for (int32_t cut = 0; cut < 2; cut++)
        bytes[cut] = s2_model_counted(&model, &model.kernels[0], &loads[cut][1]);
    assert_true(bytes[1].dram_read < 0.15 * bytes[0].dram_read);
    assert_true(bytes[1].dram_read <
                0.5 * s2_model_counted(&model, &model.kernels[0], &loads[1][0]).dram_read);
    assert_true(bytes[1].dram_read < 1.1 * (loads[1][1].q_bytes + loads[1][1].kv_bytes));
    s2_arena_release(&arena);
}

/* What the counters saw of launches that were never fitted. */
static void bytes_of_memory_are_near_the_counters(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_row_file file;
    s2_diag diag = {0};
    const s2_time_model model = h200_model();
    double off = 0;
    int32_t n = 0;
    assert_int_equal(s2_accuracy_rows(&arena, "h200", &file, &diag), S2_OK);
    for (int32_t row_no = 0; row_no < file.n_rows; row_no++) {
        const s2_row *const row = &file.rows[row_no];
        s2_arena scratch = {0};
        s2_kernel_load load;
        if (row->dram_read <= 0)
            continue;
        assert_int_equal(s2_fit_load(&scratch, row, &model, &load, NULL), S2_OK);
        for (int32_t k = 0; k < model.n_kernels; k++)
            if (strcmp(model.kernels[k].name, s2_fit_kernel(row, &load)) == 0) {
                const s2_bytes bytes = s2_model_counted(&model, &model.kernels[k], &load);
                off += fabs((bytes.dram_read + bytes.dram_write) / (row->dram_read + row->dram_write) - 1);
                n++;
            }
        for (int32_t at = 0; at < load.n_sweeps; at++)
            assert_true(load.sweeps[at].beside <= load.sweeps[at].reads - load.sweeps[at].distinct);
        for (int32_t at = 0; at < load.n_generations; at++)
            assert_true(load.generations[at].kept <= load.generations[at].distinct * (1 + 1e-9));
        s2_arena_release(&scratch);
    }
    assert_true(n >= 70 && off / n < 0.04);
    s2_arena_release(&arena);
}

static void built_in_rows_stay_above_the_floor_and_are_predicted(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_row_file file;
    s2_accuracy accuracy;
    s2_diag diag = {0};
    const s2_time_model model = h200_model();
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    assert_int_equal(s2_accuracy_rows(&arena, "h200", &file, &diag), S2_OK);
    if (file.n_rows > s2_test_cases(24))
        file.n_rows = (int32_t)s2_test_cases(24);
    assert_int_equal(s2_accuracy_of(&arena, &file, &gpu, &model, &accuracy, &diag), S2_OK);
    assert_int_equal(accuracy.n_below, 0);
    assert_true(accuracy.n_rows > 0);
    assert_true(accuracy.passes[0].mape < accuracy.naive[0].mape);
    assert_string_equal(accuracy.naive[S2_NAIVE - 1].name, "mean"); /* orders nothing */
    assert_true(accuracy.naive[S2_NAIVE - 1].spearman == 0 && accuracy.naive[S2_NAIVE - 1].kendall == 0);
    printf("# s2: %d held-out rows of %s: mean error %.2f %%, rank correlation %.4f\n", accuracy.passes[0].n,
           accuracy.passes[0].name, accuracy.passes[0].mape, accuracy.passes[0].spearman);
    s2_arena_release(&arena);
}

static void a_row_faster_than_physics_is_counted(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_gpu gpu;
    s2_diag diag = {0};
    s2_accuracy accuracy;
    const s2_time_model model = h200_model();
    s2_row row = {.set = "held-out",
                  .kernel = "sm90",
                  .tile_tok = 128,
                  .key_tok = 128,
                  .pack_heads = 1,
                  .us = 1,
                  .mhz = 1980,
                  .point = {.family = "dense",
                            .pattern = "heads 32; heads all: dense",
                            .q_tok = 4096,
                            .k_tok = 4096,
                            .batch = 1,
                            .dtype = S2_BF16}};
    const s2_row_file file = {.n_rows = 1, .rows = &row};
    assert_int_equal(s2_gpu_find("h200", &gpu, NULL), S2_OK);
    assert_int_equal(s2_accuracy_of(&arena, &file, &gpu, &model, &accuracy, &diag), S2_OK);
    assert_int_equal(accuracy.n_below, 1);
    s2_arena_release(&arena);
}

static void commands_list_points_and_refuse_what_makes_no_sense(void **state)
{
    (void)state;
    char text[65536];
    const char *const list[] = {"calibrate", "--dry-run", "--pass", "decode", "--held-out", "5"};
    const char *const both[] = {"calibrate", "--held-out", "5", "--out", "x"};
    const char *const gone[] = {"calibrate", "--from", "tests/data/no-such-rows.jsonl"};
    const char *const wrong[] = {"calibrate", "--from", "tests/data/patterns/broken.s2"};
    const char *const none[] = {"sim"};
    const char *const bad[] = {"sim", "heads 2; heads all: local 2", "--no-db", "--constants",
                               "tests/data/patterns/broken.s2"};
    const char *const unknown[] = {"sim", "--accuracy", "--gpu", "rtx4090"};
    assert_int_equal(s2_command(s2_cmd_calibrate, text, sizeof text, 6, list), S2_EXIT_OK);
    assert_non_null(strstr(text, "\n5 points"));
    assert_int_equal(s2_command(s2_cmd_calibrate, text, sizeof text, 5, both), S2_EXIT_USAGE);
    assert_int_equal(s2_command(s2_cmd_calibrate, text, sizeof text, 3, gone), S2_EXIT_REFUSED);
    assert_int_equal(s2_command(s2_cmd_calibrate, text, sizeof text, 3, wrong), S2_EXIT_REFUSED);
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 1, none), S2_EXIT_USAGE);
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 5, bad), S2_EXIT_REFUSED);
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 4, unknown), S2_EXIT_ENVIRONMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_in_any_order_end_as_if_handed_out_one_by_one),
        cmocka_unit_test(drawn_points_are_patterns_and_depend_on_the_seed_alone),
        cmocka_unit_test(families_with_a_kernel_of_their_own_are_drawn_apart),
        s2_long_test(points_of_short_windows_are_what_their_kernels_take),
        cmocka_unit_test(points_of_gradients_in_order_are_what_their_kernel_takes),
        cmocka_unit_test(wide_steps_are_designed_and_drawn_as_such),
        cmocka_unit_test(points_that_are_drawn_apart_are_what_their_family_says),
        cmocka_unit_test(recorded_rows_are_what_their_seeds_draw),
        cmocka_unit_test(idle_sms_let_the_next_launch_begin),
        cmocka_unit_test(panels_are_made_of_all_keys),
        cmocka_unit_test(no_generation_reads_more_than_it_loads),
        cmocka_unit_test(steps_of_a_load_are_those_of_its_plan),
        cmocka_unit_test(steps_of_a_halved_load_are_those_of_the_kernel),
        cmocka_unit_test(gradients_are_halved_steps_and_columns),
        cmocka_unit_test(columns_of_very_many_heads_are_not_swept),
        cmocka_unit_test(a_part_waits_for_the_one_before_it),
        cmocka_unit_test(counters_see_more_bytes_than_one_pass_moves),
        cmocka_unit_test(no_prediction_is_below_the_floor_and_more_work_takes_longer),
        cmocka_unit_test(prices_with_a_calibration_keep_above_the_bound),
        s2_long_test(lists_that_take_too_long_to_plan_are_estimated),
        cmocka_unit_test(head_dimensions_that_were_not_measured_are_guessed),
        cmocka_unit_test(launches_are_priced_as_the_kernels_take_them),
        cmocka_unit_test(a_gpu_that_nobody_measured_is_guessed_with_a_wide_error),
        cmocka_unit_test(no_prediction_is_below_the_bound),
        cmocka_unit_test(constants_survive_a_round_trip_and_a_changed_one_is_refused),
        cmocka_unit_test(damaged_constants_are_refused_with_the_line),
        cmocka_unit_test(rows_survive_a_round_trip),
        cmocka_unit_test(parts_of_many_rows_are_added_side_by_side),
        cmocka_unit_test(parts_pay_for_each_list_that_they_go_on_to),
        cmocka_unit_test(a_decode_step_is_charged_for_what_its_plan_has),
        cmocka_unit_test(a_round_of_slabs_takes_as_long_as_its_first),
        s2_long_test(very_many_sequences_take_as_long_each),
        cmocka_unit_test(the_name_of_every_kernel_survives_rows_and_constants),
        cmocka_unit_test(damaged_rows_are_refused_with_a_position),
        cmocka_unit_test(predictions_without_memory_fail),
        cmocka_unit_test(fits_without_memory_fail),
        cmocka_unit_test(a_fit_brings_back_what_made_the_rows),
        s2_long_test(short_windows_are_priced_on_their_kernels),
        cmocka_unit_test(ranges_hold_every_unit_of_short_windows),
        s2_long_test(a_fit_of_short_windows_brings_back_what_made_the_rows),
        cmocka_unit_test(gradients_in_order_are_columns_alone),
        cmocka_unit_test(columns_in_order_follow_one_another),
        cmocka_unit_test(a_column_waits_for_its_turn),
        cmocka_unit_test(long_columns_in_order_read_memory_again),
        cmocka_unit_test(gradients_in_order_are_priced_on_their_kernel),
        s2_long_test(a_fit_of_gradients_in_order_brings_back_what_made_the_rows),
        s2_long_test(a_fit_of_wide_steps_brings_back_what_made_the_rows),
        s2_long_test(a_fit_depends_on_its_rows_and_not_on_their_order),
        cmocka_unit_test(one_constant_is_fitted_and_all_else_kept),
        cmocka_unit_test(head_dimensions_are_fitted_beside_what_is_known),
        cmocka_unit_test(items_of_a_few_steps_wait_for_a_slot),
        cmocka_unit_test(blocks_that_an_item_begins_with_cost_each),
        cmocka_unit_test(what_parts_leave_takes_time_to_add_up),
        cmocka_unit_test(lists_on_the_device_have_a_price_of_their_own),
        cmocka_unit_test(lists_on_the_device_come_in_the_order_of_a_dense_layer),
        cmocka_unit_test(bytes_of_memory_are_near_the_counters),
        cmocka_unit_test(built_in_rows_stay_above_the_floor_and_are_predicted),
        cmocka_unit_test(a_row_faster_than_physics_is_counted),
        cmocka_unit_test(commands_list_points_and_refuse_what_makes_no_sense),
    };
    return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
