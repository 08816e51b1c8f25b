/* Block lists that are chosen at run time, as s2_price() takes them. */
#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "library/s2.h"
#include "pattern/parse.h"
#include "search/search.h"
#include "sim/price.h"
#include "tests/s2parsed.h"
#include "tests/s2priced.h"

static s2_calibration calibration;

static s2_sim_options asked(int64_t len_tok, bool listed)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.calibration = &calibration;
    options.len_tok = len_tok;
    if (listed)
        s2_sim_choose_blocks(&options);
    return options;
}

static s2_sim priced(s2_arena *arena, const char *text, int64_t len_tok, bool listed)
{
    const s2_pattern pattern = s2_parsed(arena, text);
    const s2_sim_options options = asked(len_tok, listed);
    return s2_priced(arena, &pattern, &options);
}

/* Planned in the launch, they run on their own kernel, with its error; more blocks take longer, dense is dense. */
static void lists_run_on_their_own_kernel(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(20261209)};
    for (int64_t nth = 0; nth < s2_test_cases(12); nth++) {
        s2_arena arena = {0};
        char text[160];
        double before_us = 0;
        const int32_t n = 2 + (int32_t)s2_rng_below(&rng, 12);
        const int64_t len_tok = 2048 + (int64_t)s2_rng_below(&rng, 6000);
        for (int32_t n_blocks = n; n_blocks <= 4 * n; n_blocks *= 2) {
            snprintf(text, sizeof text, "heads 8; kv-heads 8; layers all: local 1 | random %d seed %lld",
                     n_blocks, (long long)nth);
            const s2_sim own = priced(&arena, text, len_tok, true),
                         planned = priced(&arena, text, len_tok, false);
            assert_string_equal(own.kernel, "sm90_lists");
            assert_string_not_equal(planned.kernel, "sm90_lists");
            assert_true(own.predicted && own.error.n_judged > 0 && own.error.pct != planned.error.pct);
            assert_true((own.error.causes & S2_CAUSE_KERNEL) == 0);
            assert_true(own.time_us >= own.bound_us && own.time_us >= before_us * 0.99);
            assert_true(own.dense_time_us == planned.dense_time_us &&
                        own.counts.pairs == planned.counts.pairs);
            before_us = own.time_us;
        }
        s2_arena_release(&arena);
    }
}

static void expect_status(s2_status status, const char *text, const s2_sim_options *options, const char *why)
{
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, text);
    for (s2_fidelity fidelity = S2_PRICE_TIME; fidelity <= S2_PRICE_WHOLE; fidelity++) {
        s2_sim sim;
        s2_diag diag = {0};
        assert_int_equal(s2_price(&arena, &pattern, options, fidelity, &sim, &diag), status);
        if (strstr(diag.msg, why) == NULL)
            fail_msg("%s: '%s' does not say '%s'", text, diag.msg, why);
    }
    s2_arena_release(&arena);
}

static void expect_refusal(const char *text, const s2_sim_options *options, const char *why)
{
    expect_status(S2_EUNSUPPORTED, text, options, why);
}

/* A kernel takes them, and planning them is too long: nobody is told to write another pattern. */
static void lists_too_long_to_plan_say_so(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_sim_options options = asked(4096, true);
    const char *const text = "heads 8; layers 4; layers all: local 1 | random 7 seed 1";
    const s2_pattern pattern = s2_parsed(&arena, text);
    options.plan_work = 1 << 12;
    expect_status(S2_ELIMIT, text, &options, "2^28");
    s2_sim_options plain = asked(4096, false);
    plain.plan_work = 1 << 12;
    const s2_sim sim = s2_priced(&arena, &pattern, &plain);
    assert_true((sim.error.causes & S2_CAUSE_PLAN) != 0 && (sim.error.causes & S2_CAUSE_KERNEL) == 0);
    const s2_pattern chosen = s2_parsed(&arena, "heads 8; all: topk 64 | local 1");
    assert_true((s2_priced(&arena, &chosen, &plain).error.causes & (S2_CAUSE_KERNEL | S2_CAUSE_PLAN)) ==
                S2_CAUSE_KERNEL);
    s2_arena_release(&arena);
}

static void what_was_not_measured_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {"heads 8; all: local 100t", "heads 8; all: topk 64 | local 1",
                                       "heads 8; layers 2; layers 0: dense; layers 1: local 100t"};
    const char *const fine = "heads 8; all: local 4";
    s2_arena arena = {0};
    const s2_sim dense = priced(&arena, "heads 8; all: dense", 4096, true);
    assert_true(dense.time_us == dense.dense_time_us);
    s2_arena_release(&arena);
    const s2_sim_options usual = asked(4096, true);
    for (size_t nth = 0; nth < sizeof none / sizeof *none; nth++)
        expect_refusal(none[nth], &usual, "lists on the device");
    s2_sim_options other = usual;
    other.phase = S2_DECODE;
    expect_refusal(fine, &other, "in prefill");
    other.phase = S2_TRAIN;
    expect_refusal(fine, &other, "in prefill");
    other = usual;
    other.new_tok = 1024;
    expect_refusal(fine, &other, "whole contexts");
    other = usual;
    other.n_context = 2;
    expect_refusal(fine, &other, "whole contexts");
    other = usual;
    other.dtype = S2_F8;
    expect_refusal(fine, &other, "16 bits");
    other = usual;
    other.calibration = NULL;
    expect_refusal(fine, &other, "predictions");
    s2_calibration elsewhere;
    other = usual;
    assert_int_equal(s2_gpu_find("h100-sxm", &other.gpu, NULL), S2_OK);
    assert_int_equal(s2_calibration_of(&other.gpu, &elsewhere), S2_OK);
    other.calibration = &elsewhere;
    expect_refusal(fine, &other, "H100");
}

/* A law of capped scores was measured in plans made beforehand. */
static void capped_scores_are_no_measured_ones(void **state)
{
    (void)state;
    static const s2_model_scores capped = {.cap = 50};
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 8; all: local 4");
    for (int listed = 0; listed < 2; listed++) {
        s2_sim_options options = asked(8192, listed == 1);
        s2_sim sim;
        options.scores = &capped;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
        assert_int_equal(sim.scored, listed == 1 ? S2_SCORED_ASSUMED : S2_SCORED_MEASURED);
    }
    s2_arena_release(&arena);
}

/* The search and the library say what s2_price() says; nothing is dropped from the cache. */
static void all_say_one_price(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(20261210)};
    for (int64_t nth = 0; nth < s2_test_cases(24); nth++) {
        s2_arena arena = {0};
        char text[160];
        snprintf(text, sizeof text, "heads 8; kv-heads %d; %slayers 0: local %d | %s %d%s",
                 1 << s2_rng_below(&rng, 4), s2_rng_below(&rng, 2) == 0 ? "layers 2; layers 1: dense; " : "",
                 1 + (int)s2_rng_below(&rng, 9), s2_rng_below(&rng, 2) == 0 ? "stride" : "sink",
                 2 + (int)s2_rng_below(&rng, 9), s2_rng_below(&rng, 2) == 0 ? " | random 3 seed 1" : "");
        const int64_t len_tok = 512 + (int64_t)s2_rng_below(&rng, 6000);
        const s2_sim sim = priced(&arena, text, len_tok, true);
        const s2_search search = {
            .options = asked(len_tok, true), .by = {S2_BY_PREFILL_US, S2_BY_KV_BYTES}, .n_by = 2};
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_point point = {0};
        bool within;
        assert_int_equal(s2_search_price(&search, &pattern, &point, &within), S2_OK);
        s2_api_pattern *opened;
        s2_api_price price = {.size = sizeof price};
        const s2_api_price_options options = {.size = sizeof options,
                                              .dtype = S2_API_BF16,
                                              .context_tok = len_tok,
                                              .batch = 1,
                                              .page_tok = 16,
                                              .ranks = 1,
                                              .device_lists = 1};
        assert_int_equal(s2_api_pattern_open(text, strlen(text), NULL, NULL, &opened, NULL), S2_API_OK);
        assert_int_equal(s2_api_pattern_price(opened, &options, &price, NULL), S2_API_OK);
        s2_api_pattern_close(opened);
        assert_true(fabs(point.value[0] - sim.time_us) <= 1e-9 * sim.time_us && price.time_us == sim.time_us);
        assert_true(price.kv_bytes == sim.kv.dense && point.value[1] == (double)sim.kv.dense &&
                    price.kv_dense_bytes == sim.kv.dense);
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_run_on_their_own_kernel),
        cmocka_unit_test(what_was_not_measured_is_refused),
        cmocka_unit_test(lists_too_long_to_plan_say_so),
        cmocka_unit_test(capped_scores_are_no_measured_ones),
        cmocka_unit_test(all_say_one_price),
    };
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    return cmocka_run_group_tests_name("device lists", tests, NULL, NULL);
}
