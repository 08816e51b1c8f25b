#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/oracle.h"
#include "kernels/float16.h"
#include "kernels/kernel.h"
#include "judge/probe.h"
#include "judge/validate.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"

static s2_device *open_cpu(void)
{
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    return device;
}

static void sixteen_bit_types_round_trip_and_round_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const float b = s2_bf16_to_float((uint16_t)h), f = s2_f16_to_float((uint16_t)h);
        if (!isnan(b))
            assert_int_equal(s2_bf16_of_float(b), h);
        if (!isnan(f))
            assert_int_equal(s2_f16_of_float(f), h);
        assert_true(!isnan(b) || isnan(s2_round_to(S2_BF16, b)));
        assert_true(!isnan(f) || isnan(s2_round_to(S2_F16, f)));
    }
    const struct {
        const char *label;
        s2_dtype dtype;
        float in, out;
    } rows[] = {
        {"tie to even, down", S2_F16, 2049.0f, 2048.0f},
        {"tie to even, up", S2_F16, 2051.0f, 2052.0f},
        {"overflow", S2_F16, 65520.0f, INFINITY},
        {"just below overflow", S2_F16, 65519.0f, 65504.0f},
        {"half the least", S2_F16, 0x1p-25f, 0.0f},
        {"above half the least", S2_F16, 0x1.8p-25f, 0x1p-24f},
        {"bf16 tie down", S2_BF16, 1.0f + 0x1p-8f, 1.0f},
        {"bf16 tie up", S2_BF16, 1.0f + 0x1.8p-7f, 1.0f + 0x1p-6f},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        if (s2_round_to(rows[at].dtype, rows[at].in) != rows[at].out)
            fail_msg("%s", rows[at].label);
}

/* Linux hands out memory that it does not have, and ends who touches it: the device refuses first. */
static void memory_that_the_machine_lacks_is_refused(void **state)
{
    (void)state;
    enum { PIECES = 8 };
    for (int shared = 0; shared < 2; shared++) {
        s2_device *device = open_cpu();
        void *held[PIECES + 1] = {NULL}, *whole = NULL;
        int n = 0;
        if (shared)
            assert_int_equal(s2_device_share(device, NULL), S2_OK);
        const size_t piece = (size_t)device->memory_bytes / PIECES;
        assert_int_equal(device->ops->alloc(device, SIZE_MAX, &whole), S2_ENOMEM);
        while (n <= PIECES && device->ops->alloc(device, piece, &held[n]) == S2_OK)
            n++;
        assert_true(n >= 1 && n <= PIECES);
        device->ops->release(device, held[--n]);
        assert_int_equal(device->ops->alloc(device, piece, &held[n]), S2_OK);
        for (; n >= 0; n--)
            device->ops->release(device, held[n]);
        s2_device_close(&device);
    }
}

static void inputs_have_mean_zero_and_variance_one(void **state)
{
    (void)state;
    double sum = 0.0, squares = 0.0;
    enum { N = 1 << 16 };
    for (uint64_t at = 0; at < N; at++) {
        const double x = (double)s2_input_value(3, at);
        sum += x;
        squares += x * x;
    }
    s2_assert_close(sum / N, 0.0, 0.02);
    s2_assert_close(squares / N, 1.0, 0.02);
}

/* A problem in host memory, contiguous. */
typedef struct s2_setup {
    s2_arena arena;
    s2_attn_problem problem;
    s2_plan plan;
} s2_setup;

static void *fill(s2_arena *arena, int64_t n, s2_dtype dtype, uint64_t seed)
{
    float *const data = S2_NEW(arena, float, n + 4);
    for (int64_t at = 0; at < n; at++)
        s2_float_store(data, dtype, at, s2_input_value(seed, (uint64_t)at));
    return data;
}

static void set_up(s2_setup *setup, const s2_kernel *kernel, const s2_pattern *pattern, s2_plan_seq seq,
                   s2_dtype dtype)
{
    const int64_t h = pattern->n_heads, g = pattern->n_kv_heads, d = pattern->head_dim;
    s2_attn_problem *const p = &setup->problem;
    *p = (s2_attn_problem){.dtype = dtype,
                           .n_seqs = 1,
                           .n_heads = pattern->n_heads,
                           .n_kv_heads = pattern->n_kv_heads,
                           .head_dim = pattern->head_dim,
                           .scale = 1.0f / sqrtf((float)d)};
    const s2_plan_options options = s2_kernel_cut(kernel->traits, p->head_dim);
    assert_int_equal(
        s2_plan_build(&setup->arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &setup->plan, NULL), S2_OK);
    p->plan = &setup->plan;
    p->q = (s2_tensor){fill(&setup->arena, h * seq.q_tok * d, dtype, 1), 0, h * d, d};
    p->k = (s2_tensor){fill(&setup->arena, g * seq.k_tok * d, dtype, 2), 0, g * d, d};
    p->v = (s2_tensor){fill(&setup->arena, g * seq.k_tok * d, dtype, 3), 0, g * d, d};
    p->o = (s2_tensor){fill(&setup->arena, h * seq.q_tok * d, dtype, 4), 0, h * d, d};
    p->lse = (s2_rows){fill(&setup->arena, h * seq.q_tok, S2_F32, 5), 0, seq.q_tok};
}

static void run_once(s2_device *device, const s2_kernel *kernel, const s2_attn_problem *problem)
{
    void *state = NULL;
    s2_diag why = {0};
    assert_int_equal(kernel->prepare(device, problem, &state, &why), S2_OK);
    assert_int_equal(kernel->run(device, problem, state, &why), S2_OK);
    kernel->finish(device, state);
}

static double worst_difference(const s2_setup *a, const s2_setup *b, int64_t n_o, int64_t n_lse)
{
    double worst = 0.0;
    for (int64_t at = 0; at < n_o; at++)
        worst = fmax(worst, fabs((double)s2_float_load(a->problem.o.data, a->problem.dtype, at) -
                                 (double)s2_float_load(b->problem.o.data, b->problem.dtype, at)));
    for (int64_t at = 0; at < n_lse; at++) {
        const double x = (double)a->problem.lse.data[at], y = (double)b->problem.lse.data[at];
        assert_true(isinf(x) == isinf(y));
        worst = fmax(worst, isinf(x) ? 0.0 : fabs(x - y));
    }
    return worst;
}

static void the_cpu_kernel_agrees_with_the_reference_on_drawn_patterns(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(11);
    const int64_t n_cases = s2_test_cases(40);
    static const int32_t blocks[] = {4, 16, 64, 128}, dims[] = {8, 24, 64, 96};
    s2_device *device = open_cpu();
    double worst = 0.0;
    for (int64_t number = 0; number < n_cases; number++) {
        s2_gen gen = {
            .rng = {seed + (uint64_t)number}, .arithmetic = number % 2 == 0, .causal = number % 5 != 4};
        s2_setup ours = {0}, reference = {0};
        const s2_pattern *const pattern = s2_gen_pattern(&gen, &ours.arena, 4, 2, dims[s2_gen_in(&gen, 0, 3)],
                                                         blocks[s2_gen_in(&gen, 0, 3)]);
        const int32_t k_tok = (int32_t)s2_gen_in(&gen, 1, 260);
        const s2_plan_seq seq = {number % 3 == 0 ? (int32_t)s2_gen_in(&gen, 1, k_tok) : k_tok, k_tok};
        set_up(&ours, &s2_kernel_cpu, pattern, seq, S2_F32);
        set_up(&reference, &s2_kernel_ref_f64, pattern, seq, S2_F32);
        run_once(device, &s2_kernel_cpu, &ours.problem);
        run_once(device, &s2_kernel_ref_f64, &reference.problem);
        const double err = worst_difference(&ours, &reference, (int64_t)4 * seq.q_tok * pattern->head_dim,
                                            (int64_t)4 * seq.q_tok);
        if (!(err < 4e-6))
            fail_msg("S2_SEED=%llu: off by %g", (unsigned long long)(seed + (uint64_t)number), err);
        worst = fmax(worst, err);
        s2_arena_release(&ours.arena);
        s2_arena_release(&reference.arena);
    }
    print_message("# s2: cpu against ref_f64 in f32: worst error %.2g\n", worst);
    s2_device_close(&device);
}

/* ------------------------------------------------------------------ what is no number */

typedef enum s2_spoil { SPOIL_QUERY, SPOIL_KEY, SPOIL_SINK, N_SPOILS } s2_spoil;

/* Whether the softmax of a row, which reads a key, has the number at `where` (an element of Q or K, or a head) in it. */
static bool has_in_it(const s2_setup *setup, s2_spoil spoil, int64_t where, int32_t q_tok, int32_t head,
                      const s2_oracle_row *row)
{
    const s2_attn_problem *const p = &setup->problem;
    const int32_t kv_head = head / (p->n_heads / p->n_kv_heads);
    if (spoil == SPOIL_SINK)
        return head == where;
    if (spoil == SPOIL_QUERY)
        return where / p->head_dim == (int64_t)q_tok * p->n_heads + head;
    bool found = false;
    for (int32_t n = 0; n < row->n_keys; n++)
        found = found || where / p->head_dim == (int64_t)row->keys[n] * p->n_kv_heads + kv_head;
    return found;
}

static void compare_spoiled(const s2_setup *clean, const s2_setup *spoiled, s2_spoil spoil, int64_t where,
                            const char *what)
{
    const s2_attn_problem *const p = &spoiled->problem;
    s2_oracle_row row = {0};
    for (int32_t q_tok = 0; q_tok < spoiled->plan.seqs[0].q_tok; q_tok++)
        for (int32_t head = 0; head < p->n_heads; head++) {
            assert_int_equal(s2_oracle_eval(&clean->problem, 0, q_tok, head, S2_TOL_EXACT, &row), S2_OK);
            if (row.n_keys == 0)
                continue;
            const bool hit = has_in_it(clean, spoil, where, q_tok, head, &row);
            const int64_t at = s2_tensor_at(&p->o, NULL, 0, q_tok, head),
                          lse_at = s2_rows_at(&p->lse, NULL, 0, q_tok, head);
            bool good = hit ? isnan(p->lse.data[lse_at])
                            : memcmp(&p->lse.data[lse_at], &clean->problem.lse.data[lse_at], 4) == 0;
            for (int32_t d = 0; d < p->head_dim; d++) {
                const float was = s2_float_load(clean->problem.o.data, p->dtype, at + d),
                            is = s2_float_load(p->o.data, p->dtype, at + d);
                good = good && (hit ? isnan(is) : is == was);
            }
            if (!good)
                fail_msg("%s: query %d, head %d %s", what, q_tok, head,
                         hit ? "hides what is no number" : "has what it does not read");
        }
    s2_oracle_row_release(&row);
}

static void set_up_spoiled(s2_setup *setup, const s2_kernel *kernel, const s2_pattern *pattern,
                           s2_plan_seq seq, s2_pass pass)
{
    set_up(setup, kernel, pattern, seq, S2_F32);
    setup->problem.pass = pass;
    setup->problem.sinks = true;
    setup->problem.sink = fill(&setup->arena, pattern->n_heads, S2_F32, 6);
}

/* A query, key or sink that is no number, or infinite, leaves no number in the rows that have it, and changes no other. */
static void what_is_no_number_is_not_hidden(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(31);
    static const int32_t blocks[] = {16, 64};
    const struct {
        const s2_kernel *kernel;
        s2_pass pass;
    } kernels[] = {{&s2_kernel_cpu, S2_PASS_FORWARD},
                   {&s2_kernel_ref_f64, S2_PASS_FORWARD},
                   {&s2_kernel_cpu_decode, S2_PASS_DECODE}};
    s2_device *device = open_cpu();
    for (int64_t number = 0; number < s2_test_cases(36); number++) {
        char what[96];
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .arithmetic = number % 2 == 0, .causal = true};
        s2_setup clean = {0}, spoiled = {0};
        const s2_pattern *const pattern = s2_gen_pattern(&gen, &clean.arena, 4, 2, 8, blocks[number / 2 % 2]);
        const size_t which = (size_t)number % 3;
        const s2_spoil spoil = (s2_spoil)(number / 3 % N_SPOILS);
        const int32_t k_tok = (int32_t)s2_gen_in(&gen, 20, 200);
        const s2_plan_seq seq = {which == 2 ? 5 : k_tok, k_tok};
        set_up_spoiled(&clean, kernels[which].kernel, pattern, seq, kernels[which].pass);
        set_up_spoiled(&spoiled, kernels[which].kernel, pattern, seq, kernels[which].pass);
        float *const data[N_SPOILS] = {spoiled.problem.q.data, spoiled.problem.k.data,
                                       (float *)(uintptr_t)spoiled.problem.sink};
        const int64_t n[N_SPOILS] = {(int64_t)seq.q_tok * 4 * 8, (int64_t)k_tok * 2 * 8, 4};
        const int64_t where = s2_gen_in(&gen, 0, n[spoil] - 1);
        data[spoil][where] = number % 4 == 0 && spoil == SPOIL_SINK ? INFINITY : NAN;
        snprintf(what, sizeof what, "S2_SEED=%llu: %s, %s", (unsigned long long)(seed + (uint64_t)number),
                 kernels[which].kernel->traits->name,
                 spoil == SPOIL_QUERY ? "a query"
                 : spoil == SPOIL_KEY ? "a key"
                                      : "a sink");
        run_once(device, kernels[which].kernel, &clean.problem);
        run_once(device, kernels[which].kernel, &spoiled.problem);
        compare_spoiled(&clean, &spoiled, spoil, where, what);
        s2_arena_release(&clean.arena);
        s2_arena_release(&spoiled.arena);
    }
    s2_device_close(&device);
}

/* What rounding weights can do is a share of their sum, of which a sink that outweighs the keys leaves little. */
static void weights_beside_a_sink_leave_little_to_round(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(47);
    static const s2_tolerance rounding[] = {S2_TOL_ROUNDED_P, S2_TOL_ROUNDED_S, S2_TOL_ROUNDED_SUM};
    for (int64_t number = 0; number < s2_test_cases(12); number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .arithmetic = number % 2 == 0, .causal = true};
        s2_setup setup = {0};
        const s2_pattern *const pattern = s2_gen_pattern(&gen, &setup.arena, 4, 2, 8, 16);
        set_up(&setup, &s2_kernel_ref_f64, pattern, (s2_plan_seq){40, 40}, S2_BF16);
        const float sink = (float)s2_gen_in(&gen, 0, 30);
        const float sinks[4] = {sink, sink / 2.0f, -sink, sink / 4.0f};
        setup.problem.sinks = true;
        setup.problem.sink = sinks;
        s2_oracle_row row = {0};
        for (int32_t q_tok = 0; q_tok < 40; q_tok++)
            for (int32_t head = 0; head < 4; head++) {
                const s2_tolerance tolerance = rounding[(q_tok + number) % 3];
                assert_int_equal(s2_oracle_eval(&setup.problem, 0, q_tok, head, tolerance, &row), S2_OK);
                const double of_keys = row.n_keys > 0 ? 1.0 - exp(row.sink - row.lse) + 1e-12 : 0.0;
                const bool little = row.weight_noise <= 0.43 * 0x1p-9 * row.value_peak * of_keys &&
                                    (tolerance != S2_TOL_ROUNDED_SUM || row.lse_noise <= 0x1p-9 * of_keys);
                if (!little)
                    fail_msg("S2_SEED=%llu: query %d, head %d, sink %g: %g and %g",
                             (unsigned long long)(seed + (uint64_t)number), q_tok, head, row.sink,
                             row.weight_noise, row.lse_noise);
            }
        s2_oracle_row_release(&row);
        s2_arena_release(&setup.arena);
    }
}

typedef struct s2_offer {
    const s2_device *device;
    const s2_attn_problem *problem;
} s2_offer;

static s2_status take_what_it_supports(void *user, const s2_kernel *kernel, s2_diag *why)
{
    const s2_offer *const offer = user;
    return s2_kernel_supports(offer->device, kernel, offer->problem, why);
}

static void kernels_are_found_by_name_and_chosen_by_rank(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    const s2_kernel *kernel = NULL;
    const s2_attn_problem problem = {.n_seqs = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 64};
    const s2_attn_problem wide = {.n_seqs = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 2048};
    s2_diag why = {0};
    s2_offer fits = {device, &problem}, too_wide = {device, &wide};
    s2_device other = {.kind = S2_DEVICE_GPU, .name = "some GPU"};
    const s2_kernel_take_fn take = take_what_it_supports;
    assert_int_equal(s2_kernel_choose(device, NULL, take, &fits, &kernel, &why), S2_OK);
    assert_string_equal(kernel->traits->name, "cpu");
    assert_int_equal(s2_kernel_choose(device, NULL, take, &too_wide, &kernel, &why), S2_OK);
    assert_string_equal(kernel->traits->name, "ref_f64");
    assert_int_equal(s2_kernel_choose(device, &s2_kernel_cpu, take, &too_wide, &kernel, &why),
                     S2_EUNSUPPORTED);
    assert_non_null(strstr(why.msg, "2048"));
    assert_int_equal(s2_kernel_choose(&other, &s2_kernel_cpu, take, &fits, &kernel, &why), S2_EUNSUPPORTED);
    assert_non_null(strstr(why.msg, "does not run on some GPU"));
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        assert_ptr_equal(s2_kernel_find(s2_kernel_at(at)->traits->name), s2_kernel_at(at));
    for (int32_t at = 0; s2_kernel_at(at) != NULL; at++)
        for (int32_t before = 0; before < at; before++)
            assert_true(s2_kernel_at(at)->device != s2_kernel_at(before)->device ||
                        s2_kernel_at(at)->traits->rank != s2_kernel_at(before)->traits->rank);
    s2_device_close(&device);
    assert_int_equal(s2_device_open("tpu", &device, &why), S2_EINVAL);
}

typedef struct s2_turn {
    int32_t count;
    s2_status second;
} s2_turn;

static s2_status refuse_in_turn(void *user, const s2_kernel *kernel, s2_diag *why)
{
    (void)kernel;
    s2_turn *const turn = user;
    turn->count++;
    return turn->count == 1 ? s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the first cannot")
                            : s2_diag_set(why, turn->second, 0, 0, 0, "the second says");
}

static void what_is_wrong_is_said_before_what_a_kernel_does_not_support(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    const s2_kernel *kernel = NULL;
    s2_diag why = {0};
    s2_turn wrong = {.second = S2_EINVAL}, unsupported = {.second = S2_EUNSUPPORTED};
    assert_int_equal(s2_kernel_choose(device, NULL, refuse_in_turn, &wrong, &kernel, &why), S2_EINVAL);
    assert_string_equal(why.msg, "the second says");
    why = (s2_diag){0};
    assert_int_equal(s2_kernel_choose(device, NULL, refuse_in_turn, &unsupported, &kernel, &why),
                     S2_EUNSUPPORTED);
    assert_string_equal(why.msg, "the first cannot");
    s2_device_close(&device);
}

static void a_sound_kernel_is_acquitted_with_every_pair_compared(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    s2_arena arena = {0};
    s2_gen gen = {.rng = {21}, .causal = true};
    const s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, 4, 2, 64, 16);
    const s2_plan_seq seq = {200, 200};
    s2_validate_request request = s2_validate_request_init(device, pattern, &seq, 1);
    request.budget_flop = 0.0;
    s2_validation verdict;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_string_equal(s2_outcome_word(verdict.outcome), "ok");
    assert_true(verdict.touch_exhaustive);
    assert_int_equal(verdict.touch_pairs, (int64_t)4 * 200 * 200);
    assert_int_equal(verdict.touch_wrong, 0);
    assert_true(verdict.rows > 0 && verdict.max_err <= verdict.tol);
    assert_int_equal(verdict.needle_found, verdict.needle_expected);
    assert_true(verdict.warm.n == 3 && verdict.warm.min_ms <= verdict.warm.median_ms &&
                verdict.warm.median_ms <= verdict.warm.p95_ms);
    assert_true(verdict.dense.n == 1 && verdict.dense.median_ms > 0.0);
    assert_string_equal(verdict.dense_kernel, "cpu");
    s2_arena_release(&arena);
    s2_device_close(&device);
}

static s2_pattern other_pattern; /* what the next kernel computes instead */

static s2_status run_another(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why)
{
    s2_attn_problem wrong = *problem;
    s2_plan plan = *problem->plan;
    plan.pattern = &other_pattern;
    wrong.plan = &plan;
    return s2_kernel_ref_f64.run(device, &wrong, state, why);
}

/* Two heads of a window, or one of them dense: all needles come back, those that none may read among them. */
static void needles_convict_a_kernel_that_reads_more_or_less(void **state)
{
    static const char *const texts[] = {
        "heads 2; head-dim 64; block 16; layers all: local 1",
        "heads 2; head-dim 64; block 16; layers all: local 1; heads 1: dense"};
    (void)state;
    for (int more = 0; more < 2; more++) {
        s2_arena arena = {0};
        s2_device *device = open_cpu();
        s2_kernel kernel = s2_kernel_ref_f64;
        s2_pattern pattern;
        s2_validation verdict = {0};
        const s2_plan_seq seq = {43, 43};
        kernel.run = run_another;
        assert_int_equal(s2_pattern_parse(&arena, texts[!more], strlen(texts[!more]), NULL, &pattern, NULL),
                         S2_OK);
        assert_int_equal(
            s2_pattern_parse(&arena, texts[more], strlen(texts[more]), NULL, &other_pattern, NULL), S2_OK);
        s2_validate_request request = s2_validate_request_init(device, &pattern, &seq, 1);
        request.kernel = &kernel;
        assert_int_equal(s2_probe_needles(device, &request, &verdict, NULL), S2_OK);
        assert_int_equal(verdict.outcome, S2_OUTCOME_WRONG_PAIRS);
        assert_int_equal(verdict.n_lengths, 1);
        assert_int_equal(verdict.needle[0][0], more ? S2_NEEDLE_EXTRA : S2_NEEDLE_MISSING);
        assert_int_equal(verdict.needle[0][verdict.needle_cells - 1], S2_NEEDLE_FOUND);
        assert_non_null(strstr(verdict.reason, more ? "through a head that may not read it"
                                                    : "does not come back through a head that reads it"));
        int64_t n_wrong = 0;
        for (int64_t j = 0; j < verdict.needle_cells; j++)
            n_wrong += verdict.needle[0][j] != S2_NEEDLE_FOUND;
        assert_int_equal(verdict.needle_found, verdict.needle_cells - (more ? 0 : n_wrong));
        assert_int_equal(verdict.needle_expected, verdict.needle_cells - (more ? n_wrong : 0));
        s2_arena_release(&arena);
        s2_device_close(&device);
    }
}

static void a_sampled_run_looks_at_fewer_items_and_leaves_the_rest_alone(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    s2_arena arena = {0};
    s2_gen gen = {.rng = {22}, .arithmetic = true, .causal = true};
    const s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, 8, 2, 64, 64);
    const s2_plan_seq seq = {1024, 1024};
    s2_validate_request request = s2_validate_request_init(device, pattern, &seq, 1);
    request.budget_flop = 1e7;
    request.budget_pairs = 300000;
    request.n_timed = 0;
    s2_validation verdict;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_string_equal(s2_outcome_word(verdict.outcome), "ok");
    assert_true(verdict.n_items_run < verdict.n_items && verdict.n_items_run > 0);
    assert_false(verdict.touch_exhaustive);
    assert_int_equal(verdict.warm.n, 0);
    s2_arena_release(&arena);
    s2_device_close(&device);
}

static void what_a_kernel_does_not_compute_is_unsupported_with_a_reason(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    s2_arena arena = {0};
    s2_gen gen = {.rng = {23}, .causal = true};
    const s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, 2, 2, 64, 64);
    const s2_plan_seq seq = {64, 64};
    s2_validate_request request = s2_validate_request_init(device, pattern, &seq, 1);
    request.pass = S2_PASS_BACKWARD;
    request.kernel = s2_kernel_find("cpu");
    s2_validation verdict;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_int_equal(verdict.outcome, S2_OUTCOME_UNSUPPORTED);
    assert_non_null(strstr(verdict.reason, "gradients"));
    const s2_pattern *const wide = s2_gen_pattern(&gen, &arena, 2, 2, 2000, 64);
    request.kernel = NULL;
    request.pattern = wide;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_int_equal(verdict.outcome, S2_OUTCOME_UNSUPPORTED);
    assert_non_null(strstr(verdict.reason, "head dimension 2000"));
    assert_true(s2_kernel_takes_pass(device, &s2_kernel_cpu, S2_PASS_FORWARD));
    assert_false(s2_kernel_takes_pass(device, &s2_kernel_cpu, S2_PASS_BACKWARD));
    assert_false(s2_kernel_takes_pass(device, &s2_kernel_cpu_bwd, S2_PASS_FORWARD));
    s2_arena_release(&arena);
    s2_device_close(&device);
}

/* A kernel that knows nothing of a cap would compute something else in silence. */
static void a_kernel_that_does_not_say_so_is_offered_no_cap_and_no_sinks(void **state)
{
    (void)state;
    s2_device *device = open_cpu();
    s2_arena arena = {0};
    s2_gen gen = {.rng = {29}, .causal = true};
    s2_kernel old = s2_kernel_cpu;
    const s2_plan_seq seq = {64, 64};
    old.takes = 0;
    s2_validate_request request =
        s2_validate_request_init(device, s2_gen_pattern(&gen, &arena, 2, 2, 16, 16), &seq, 1);
    s2_validation verdict;
    request.kernel = &old;
    request.n_timed = 0;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_int_equal(verdict.outcome, S2_OUTCOME_OK);
    request.cap = 30.0f;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_int_equal(verdict.outcome, S2_OUTCOME_UNSUPPORTED);
    assert_non_null(strstr(verdict.reason, "caps no scores"));
    request.cap = 0.0f;
    request.sinks = true;
    assert_int_equal(s2_validate(device, &request, &verdict), S2_OK);
    assert_int_equal(verdict.outcome, S2_OUTCOME_UNSUPPORTED);
    assert_non_null(strstr(verdict.reason, "no sink logits"));
    s2_arena_release(&arena);
    s2_device_close(&device);
}

static s2_status check_lists(s2_arena *arena, const char *rules, const s2_listed *listed, s2_pass pass)
{
    static _Alignas(16) float memory[4];
    static const s2_plan_seq seq = {100, 200};
    char text[120];
    s2_pattern pattern;
    s2_plan plan;
    const int n = snprintf(text, sizeof text, "heads 4; kv-heads 2; head-dim 64; block 64; %s", rules);
    const s2_plan_options options = s2_kernel_cut(&s2_traits_sm90, 64);
    assert_int_equal(s2_pattern_parse(arena, text, (size_t)n, NULL, &pattern, NULL), S2_OK);
    assert_int_equal(s2_plan_build(arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    s2_attn_problem problem = {.pass = pass,
                               .plan = &plan,
                               .n_seqs = 1,
                               .n_heads = 4,
                               .n_kv_heads = 2,
                               .head_dim = 64,
                               .scale = 1.0f,
                               .listed = listed,
                               .lse = {memory, 0, 0}};
    problem.q = problem.k = problem.v = problem.o = (s2_tensor){memory, 0, 64, 64};
    problem.d_q = problem.d_k = problem.d_v = problem.d_o = problem.q;
    return s2_problem_check(&problem, NULL);
}

static void lists_of_blocks_are_checked(void **state)
{
    (void)state;
    static const int32_t some[1] = {0};
    static const s2_listed good = {some, some, 2, 4, 8, 64, 64};
    const s2_listed bad[] = {
        {NULL, some, 2, 4, 8, 64, 64},  {some, NULL, 2, 4, 8, 64, 64},   {some, some, 3, 4, 8, 64, 64},
        {some, some, 1, 4, 8, 64, 64},  {some, some, 2, 0, 8, 64, 64},   {some, some, 2, 4, 0, 64, 64},
        {some, some, 2, 4, 8, 0, 64},   {some, some, 2, 4, 8, -128, 64}, {some, some, 2, 4, 8, 8, 64},
        {some, some, 2, 4, 8, 48, 64},  {some, some, 2, 4, 8, 192, 64},  {some, some, 2, 4, 8, 64, 32},
        {some, some, 2, 4, 8, 64, 128}, {some, some, 2, -1, 8, 64, 64}};
    s2_arena arena = {0};
    s2_device *device = open_cpu();
    s2_listed each = good;
    assert_int_equal(check_lists(&arena, "layers all: dense", &good, S2_PASS_FORWARD), S2_OK);
    assert_int_equal(check_lists(&arena, "causal no; layers all: dense", &good, S2_PASS_FORWARD), S2_OK);
    each.n_heads = 4;
    for (each.q_block_tok = 16; each.q_block_tok <= 256; each.q_block_tok *= 2)
        assert_int_equal(check_lists(&arena, "layers all: dense", &each, S2_PASS_FORWARD), S2_OK);
    for (size_t at = 0; at < sizeof bad / sizeof *bad; at++)
        assert_int_equal(check_lists(&arena, "layers all: dense", &bad[at], S2_PASS_FORWARD), S2_EINVAL);
    assert_int_equal(check_lists(&arena, "layers all: local 1", &good, S2_PASS_FORWARD), S2_EINVAL);
    assert_int_equal(check_lists(&arena, "layers all: dense", &good, S2_PASS_BACKWARD), S2_EINVAL);
    const s2_attn_problem listed = {.pass = S2_PASS_FORWARD, .head_dim = 64, .listed = &good};
    assert_int_equal(s2_kernel_supports(device, &s2_kernel_ref_f64, &listed, NULL), S2_EUNSUPPORTED);
    assert_int_equal(s2_kernel_supports(device, &s2_kernel_cpu, &listed, NULL), S2_OK);
    s2_arena_release(&arena);
    s2_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_bit_types_round_trip_and_round_to_even),
        cmocka_unit_test(memory_that_the_machine_lacks_is_refused),
        cmocka_unit_test(inputs_have_mean_zero_and_variance_one),
        cmocka_unit_test(the_cpu_kernel_agrees_with_the_reference_on_drawn_patterns),
        cmocka_unit_test(what_is_no_number_is_not_hidden),
        cmocka_unit_test(weights_beside_a_sink_leave_little_to_round),
        cmocka_unit_test(kernels_are_found_by_name_and_chosen_by_rank),
        cmocka_unit_test(what_is_wrong_is_said_before_what_a_kernel_does_not_support),
        cmocka_unit_test(a_sound_kernel_is_acquitted_with_every_pair_compared),
        cmocka_unit_test(needles_convict_a_kernel_that_reads_more_or_less),
        cmocka_unit_test(a_sampled_run_looks_at_fewer_items_and_leaves_the_rest_alone),
        cmocka_unit_test(what_a_kernel_does_not_compute_is_unsupported_with_a_reason),
        cmocka_unit_test(a_kernel_that_does_not_say_so_is_offered_no_cap_and_no_sinks),
        cmocka_unit_test(lists_of_blocks_are_checked),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
