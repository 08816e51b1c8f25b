#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/gradient.h"
#include "judge/validate.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"

enum { DIM = 8, LIMIT_TOK = 40 };

/* A small problem in fp32 on the host. Inputs are multiples of 2^-8, so that a step of 2^-12 is exact. */
typedef struct s2_case {
    s2_arena arena;
    s2_plan plan;
    s2_attn_problem problem;
    int64_t n_q, n_k; /* elements */
    s2_oracle_row row;
} s2_case;

static float *draw(s2_case *test, s2_gen *gen, int64_t n)
{
    float *const x = S2_NEW(&test->arena, float, n);
    for (int64_t at = 0; at < n; at++)
        x[at] = (float)s2_gen_in(gen, -400, 400) / 256.0f;
    return x;
}

static void open_case(s2_case *test, s2_gen *gen)
{
    static const int32_t blocks[] = {1, 4, 16};
    const int32_t n_kv = (int32_t)s2_gen_in(gen, 1, 2), group = (int32_t)s2_gen_in(gen, 1, 3);
    const int32_t n_heads = n_kv * group, block = blocks[s2_gen_in(gen, 0, 2)];
    *test = (s2_case){0};
    gen->causal = true;
    const s2_pattern *const pattern = s2_gen_pattern(gen, &test->arena, n_heads, n_kv, DIM, block);
    s2_plan_seq seq = {.k_tok = (int32_t)s2_gen_in(gen, 1, LIMIT_TOK)};
    seq.q_tok = s2_gen_in(gen, 0, 2) == 0 ? (int32_t)s2_gen_in(gen, 1, seq.k_tok) : seq.k_tok;
    s2_plan_options options = s2_plan_options_default();
    options.tile_tok = 64;
    assert_int_equal(
        s2_plan_build(&test->arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &test->plan, NULL), S2_OK);
    float *const sink = S2_NEW(&test->arena, float, n_heads);
    for (int32_t head = 0; head < n_heads; head++)
        sink[head] = s2_gen_in(gen, 0, 3) == 0 ? -INFINITY : (float)s2_gen_in(gen, -400, 400) / 128.0f;
    test->n_q = (int64_t)seq.q_tok * n_heads * DIM;
    test->n_k = (int64_t)seq.k_tok * n_kv * DIM;
    const int64_t q_tok = (int64_t)n_heads * DIM, k_tok = (int64_t)n_kv * DIM;
    test->problem = (s2_attn_problem){.pass = S2_PASS_BACKWARD,
                                      .dtype = S2_F32,
                                      .plan = &test->plan,
                                      .n_seqs = 1,
                                      .n_heads = n_heads,
                                      .n_kv_heads = n_kv,
                                      .head_dim = DIM,
                                      .scale = 0.5f,
                                      .cap = s2_gen_in(gen, 0, 1) == 0 ? 1.5f : 0.0f,
                                      .sinks = s2_gen_in(gen, 0, 1) == 0,
                                      .sink = sink,
                                      .q = {draw(test, gen, test->n_q), 0, q_tok, DIM},
                                      .d_o = {draw(test, gen, test->n_q), 0, q_tok, DIM},
                                      .k = {draw(test, gen, test->n_k), 0, k_tok, DIM},
                                      .v = {draw(test, gen, test->n_k), 0, k_tok, DIM}};
}

static void close_case(s2_case *test)
{
    s2_oracle_row_release(&test->row);
    s2_arena_release(&test->arena);
}

/* The sum over all rows of dO . o, in fp64 from the definition. */
static double loss(s2_case *test)
{
    const s2_attn_problem *const p = &test->problem;
    double sum = 0.0;
    for (int32_t head = 0; head < p->n_heads; head++)
        for (int32_t q_tok = 0; q_tok < test->plan.seqs[0].q_tok; q_tok++) {
            assert_int_equal(s2_oracle_eval(p, 0, q_tok, head, S2_TOL_EXACT, &test->row), S2_OK);
            const float *const d_o = (const float *)p->d_o.data + s2_tensor_at(&p->d_o, NULL, 0, q_tok, head);
            for (int32_t d = 0; d < DIM; d++)
                sum += (double)d_o[d] * test->row.o[d];
        }
    return sum;
}

static double difference(s2_case *test, float *x)
{
    const float was = *x;
    const float step = 0x1p-12f;
    *x = was + step;
    const double above = loss(test);
    *x = was - step;
    const double below = loss(test);
    *x = was;
    return (above - below) / (2.0 * (double)step);
}

static void compare(const s2_gradient *gradient, int32_t out, int32_t d, double slope, const char *what,
                    uint64_t seed)
{
    const double exact = gradient->out[out].exact[d];
    if (!(fabs(exact - slope) <= 1e-5 * (1.0 + fabs(slope))))
        fail_msg("S2_SEED=%llu: %s is %.9g, the slope %.9g", (unsigned long long)seed, what, exact, slope);
}

static void the_oracle_equals_finite_differences_in_fp64(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261121);
    int64_t n = 0;
    for (int64_t number = 0; number < s2_test_cases(25); number++) {
        s2_case test;
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .arithmetic = number % 2 == 0};
        s2_gradient gradient = {0};
        open_case(&test, &gen);
        const s2_attn_problem *const p = &test.problem;
        assert_int_equal(s2_gradient_open(&gradient, p, S2_TOL_EXACT, false), S2_OK);
        for (int32_t drawn = 0; drawn < 6; drawn++, n += 3) {
            const int32_t q_tok = (int32_t)s2_gen_in(&gen, 0, test.plan.seqs[0].q_tok - 1);
            const int32_t k_tok = (int32_t)s2_gen_in(&gen, 0, test.plan.seqs[0].k_tok - 1);
            const int32_t head = (int32_t)s2_gen_in(&gen, 0, p->n_heads - 1),
                          d = (int32_t)s2_gen_in(&gen, 0, DIM - 1);
            const int32_t kv_head = head / (p->n_heads / p->n_kv_heads);
            assert_int_equal(s2_gradient_of_query(&gradient, 0, q_tok, head), S2_OK);
            const int64_t query = s2_tensor_at(&p->q, NULL, 0, q_tok, head) + d;
            compare(&gradient, 0, d, difference(&test, (float *)p->q.data + query), "dQ",
                    seed + (uint64_t)number);
            assert_int_equal(s2_gradient_of_key(&gradient, 0, k_tok, kv_head), S2_OK);
            const int64_t key = s2_tensor_at(&p->k, NULL, 0, k_tok, kv_head) + d;
            compare(&gradient, 0, d, difference(&test, (float *)p->k.data + key), "dK",
                    seed + (uint64_t)number);
            compare(&gradient, 1, d, difference(&test, (float *)p->v.data + key), "dV",
                    seed + (uint64_t)number);
            if (!p->sinks || p->sink[head] == -INFINITY)
                continue;
            assert_int_equal(s2_gradient_of_sink(&gradient, head), S2_OK);
            compare(&gradient, 0, 0, difference(&test, (float *)(uintptr_t)&p->sink[head]), "dSink",
                    seed + (uint64_t)number);
        }
        s2_gradient_close(&gradient);
        close_case(&test);
    }
    print_message("# s2: %lld elements of gradients equal to finite differences within 1e-5\n", (long long)n);
}

static void the_cpu_gradients_agree_with_the_oracle_on_drawn_patterns(void **state)
{
    (void)state;
    static const int32_t blocks[] = {4, 16, 32, 128};
    const uint64_t seed = s2_test_seed(99);
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int64_t number = 0; number < s2_test_cases(24); number++) {
        s2_arena arena = {0};
        s2_gen gen = {
            .rng = {seed + (uint64_t)number}, .causal = number % 5 != 4, .arithmetic = number % 2 == 0};
        const int32_t n_kv = (int32_t)s2_gen_in(&gen, 1, 2), group = (int32_t)s2_gen_in(&gen, 1, 3);
        const s2_pattern *const pattern =
            s2_gen_pattern(&gen, &arena, n_kv * group, n_kv, 16, blocks[s2_gen_in(&gen, 0, 3)]);
        s2_plan_seq seq = {.k_tok = (int32_t)s2_gen_in(&gen, 1, 200)};
        seq.q_tok = gen.causal && number % 3 == 0 ? (int32_t)s2_gen_in(&gen, 1, seq.k_tok) : seq.k_tok;
        s2_validate_request request = s2_validate_request_init(device, pattern, &seq, 1);
        request.pass = S2_PASS_BACKWARD;
        request.dtype = (s2_dtype)(number % S2_N_DTYPES);
        request.budget_flop = number % 4 == 1 ? 1e6 : 0.0;
        request.n_timed = 0;
        request.cases = false; /* the shapes are drawn */
        request.cap = number % 3 == 1 ? 2.0f : 0.0f;
        request.sinks = number % 2 == 1;
        request.spread = number % 3 == 1 ? 3.0f : 1.0f;
        s2_validation verdict;
        assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
        if (verdict.outcome != S2_OUTCOME_OK)
            fail_msg("S2_SEED=%llu: %s: %s", (unsigned long long)(seed + (uint64_t)number),
                     s2_outcome_word(verdict.outcome), verdict.reason);
        assert_true(verdict.touch_wrong == 0 && verdict.rows > 0);
        s2_arena_release(&arena);
    }
    s2_device_close(&device);
}

/*
 * sm90_bwd cuts blocks of 64 into 32 above head dimension 128, and the forward with sinks there is that of sm80, which
 * does not: poison in the half of a block that only the forward loads is no fault of the gradients.
 */
static void gradients_may_be_cut_finer_than_the_forward_that_they_need(void **state)
{
    (void)state;
    static const char *const rules[] = {"sink 4t | local 70t", "local 33t | columns 1 | rows 2",
                                        "local 90t | stride 3", "sink 20t | local 17t | random 1 seed 3"};
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (int32_t number = 0; number < 16; number++) {
        char text[128];
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_kernel_traits cut = *s2_kernel_find("cpu_bwd")->traits;
        s2_kernel kernel = *s2_kernel_find("cpu_bwd");
        cut.key_tok = number % 2 == 0 ? 32 : 16;
        kernel.traits = &cut;
        const int32_t n =
            snprintf(text, sizeof text, "heads 4; kv-heads 2; head-dim 8; block 64; layers all: %s",
                     rules[number / 2 % 4]);
        assert_int_equal(s2_pattern_parse(&arena, text, (size_t)n, NULL, &pattern, NULL), S2_OK);
        const s2_plan_seq seq = {.q_tok = number < 8 ? 150 : 1, .k_tok = 290};
        s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
        request.kernel = &kernel;
        request.pass = S2_PASS_BACKWARD;
        request.dtype = S2_F32;
        request.budget_flop = 0.0;
        request.n_timed = 0;
        request.cases = false; /* the shapes are drawn */
        s2_validation verdict;
        assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
        if (verdict.outcome != S2_OUTCOME_OK)
            fail_msg("%s, keys by %d: %s: %s", text, cut.key_tok, s2_outcome_word(verdict.outcome),
                     verdict.reason);
        s2_arena_release(&arena);
    }
    s2_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oracle_equals_finite_differences_in_fp64),
        cmocka_unit_test(the_cpu_gradients_agree_with_the_oracle_on_drawn_patterns),
        s2_long_test(gradients_may_be_cut_finer_than_the_forward_that_they_need),
    };
    return cmocka_run_group_tests_name("gradient", tests, NULL, NULL);
}
