/* Block lists that are chosen at run time, as s2_price() takes them. */
#include "tests/s2test.h"

#include <string.h>

#include "pattern/parse.h"
#include "sim/price.h"

static s2_calibration calibration;

static s2_sim priced(s2_arena *arena, const char *text, int64_t len_tok, bool listed)
{
    s2_pattern pattern;
    s2_sim_options options;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.calibration = &calibration;
    options.len_tok = len_tok;
    options.listed = listed;
    assert_int_equal(s2_pattern_parse(arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    if (s2_price(arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    return sim;
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

static void what_no_list_says_is_not_taken_for_one(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_sim dense = priced(&arena, "heads 8; all: dense", 4096, true);
    assert_true(dense.time_us == dense.dense_time_us);
    static const char *const none[] = {"heads 8; all: local 100t", "heads 8; all: topk 64 | local 1"};
    for (size_t nth = 0; nth < sizeof none / sizeof *none; nth++)
        assert_true((priced(&arena, none[nth], 4096, true).error.causes & S2_CAUSE_KERNEL) != 0);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_run_on_their_own_kernel),
        cmocka_unit_test(what_no_list_says_is_not_taken_for_one),
    };
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    return cmocka_run_group_tests_name("device lists", tests, NULL, NULL);
}
