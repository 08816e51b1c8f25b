#include "tests/s2test.h"

#include <string.h>

#include "base/arith.h"
#include "pattern/parse.h"
#include "sim/price.h"
#include "tests/gen_spec.h"

static s2_calibration calibration;

static s2_sim_options options_of(s2_phase phase, int64_t len_tok, int64_t new_tok)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = phase;
    options.len_tok = len_tok;
    options.new_tok = new_tok;
    options.calibration = &calibration;
    return options;
}

static s2_sim priced(const s2_pattern *pattern, const s2_sim_options *options, s2_fidelity fidelity)
{
    s2_arena scratch = {0};
    s2_sim sim;
    s2_diag diag = {0};
    const s2_status status = s2_price(&scratch, pattern, options, fidelity, &sim, &diag);
    if (status != S2_OK)
        fail_msg("%s", diag.msg);
    s2_arena_release(&scratch);
    return sim;
}

static int64_t in(s2_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(s2_rng_next(rng) % (uint64_t)(high - low + 1));
}

/* A prompt in chunks does the useful work of the whole, and reads at least as much. */
static void check_chunks(const s2_pattern *pattern, s2_rng *rng)
{
    const int64_t len_tok = in(rng, 1, 1200);
    const s2_sim_options all = options_of(S2_PREFILL, len_tok, 0);
    const s2_sim whole = priced(pattern, &all, S2_PRICE_BOUNDS);
    s2_counts sum = {0};
    for (int64_t tok = 0; tok < len_tok;) {
        const int64_t n_new = s2_min_i64(in(rng, 1, 500), len_tok - tok);
        tok += n_new;
        const s2_sim_options own = options_of(S2_PREFILL, tok, n_new);
        const s2_sim chunk = priced(pattern, &own, S2_PRICE_BOUNDS);
        sum.pairs += chunk.counts.pairs;
        sum.flop_useful += chunk.counts.flop_useful;
        sum.hbm_read += chunk.counts.hbm_read;
        sum.hbm_write += chunk.counts.hbm_write;
        assert_true(chunk.time_us <= whole.time_us * 1.3 + 20);
        assert_true(chunk.counts.pairs <= chunk.dense.pairs);
    }
    assert_int_equal(sum.pairs, whole.counts.pairs);
    assert_int_equal(sum.flop_useful, whole.counts.flop_useful);
    assert_int_equal(sum.hbm_write, whole.counts.hbm_write);
    assert_true(sum.hbm_read >= whole.counts.hbm_read);
}

/* Asking for every token is asking for nothing special, by any figure. */
static void check_all_new(const s2_pattern *pattern, s2_phase phase, int64_t len_tok)
{
    const s2_sim_options plain = options_of(phase, len_tok, 0),
                         told = options_of(phase, len_tok, phase == S2_DECODE ? 1 : len_tok);
    const s2_sim a = priced(pattern, &plain, S2_PRICE_WHOLE), b = priced(pattern, &told, S2_PRICE_WHOLE);
    assert_memory_equal(&a.counts, &b.counts, sizeof a.counts);
    assert_memory_equal(&a.dense, &b.dense, sizeof a.dense);
    assert_true(a.time_us == b.time_us && a.bound_us == b.bound_us && a.dense_time_us == b.dense_time_us);
    assert_true(a.density == b.density && a.kv_peak == b.kv_peak && a.fit_batch == b.fit_batch);
}

static void chunks_of_a_prompt_add_up_to_it(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(57)};
    const s2_gen_spec spec = {.most_layers = 2, .most_heads = 4, .explicit_terms = true};
    const int64_t n_cases = s2_test_cases(12);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &spec, &arena);
        check_chunks(pattern, &rng);
        check_all_new(pattern, S2_PREFILL, in(&rng, 1, 2000));
        check_all_new(pattern, S2_DECODE, in(&rng, 1, 2000));
        s2_arena_release(&arena);
    }
}

/* More tokens in a step of decode take no less work, no fewer bytes and, of one pattern, no less time at all. */
static void more_new_tokens_cost_more(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(58)};
    const s2_gen_spec spec = {.most_layers = 1, .most_heads = 4};
    for (int64_t at = 0; at < s2_test_cases(12); at++) {
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &spec, &arena);
        const int64_t len_tok = in(&rng, 16, 4000);
        s2_sim before = {0};
        for (int64_t n_new = 1; n_new <= 16; n_new += 3) {
            const s2_sim_options own = options_of(S2_DECODE, len_tok, n_new);
            const s2_sim sim = priced(pattern, &own, S2_PRICE_BOUNDS);
            assert_true(sim.counts.pairs >= before.counts.pairs);
            assert_true(sim.counts.hbm_read >= before.counts.hbm_read);
            assert_true(sim.bound_us >= before.bound_us && sim.time_us >= sim.bound_us);
            before = sim;
        }
        s2_arena_release(&arena);
    }
}

static void refused(const char *text, const s2_sim_options *options, const char *why)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    assert_int_not_equal(s2_price(&arena, &pattern, options, S2_PRICE_WHOLE, &sim, &diag), S2_OK);
    if (strstr(diag.msg, why) == NULL)
        fail_msg("'%s' does not say '%s'", diag.msg, why);
    s2_arena_release(&arena);
}

static void what_no_kernel_is_asked_is_refused(void **state)
{
    (void)state;
    s2_sim_options options = options_of(S2_DECODE, 1000, 17);
    refused("heads 2; all: dense", &options, "at most 16 new tokens");
    options = options_of(S2_PREFILL, 1000, 1001);
    refused("heads 2; all: dense", &options, "1001 new tokens of 1000");
    options = options_of(S2_TRAIN, 1000, 10);
    refused("heads 2; all: dense", &options, "every token is new");
    options = options_of(S2_PREFILL, 1000, 10);
    refused("causal no; heads 2; all: local 4", &options, "not causal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_a_prompt_add_up_to_it),
        cmocka_unit_test(more_new_tokens_cost_more),
        cmocka_unit_test(what_no_kernel_is_asked_is_refused),
    };
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
