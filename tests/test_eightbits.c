#include "tests/s2test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "kernels/decode.h"
#include "kernels/float16.h"
#include "kernels/oracle.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"

/* ------------------------------------------------------------------ the type */

enum { N_FINITE = 127 }; /* codes 0 to 126 are ascending numbers from 0 to 448 */

/* By the definition: among all numbers the nearest, of two the one with the even code; beyond 448 is 448. */
static int32_t nearest_code(double x)
{
    int32_t best = 0;
    for (int32_t code = 1; code < N_FINITE; code++) {
        const double was = fabs((double)s2_e4m3_to_float((uint8_t)best) - x),
                     is = fabs((double)s2_e4m3_to_float((uint8_t)code) - x);
        if (is < was || (is == was && code % 2 == 0))
            best = code;
    }
    return best;
}

static void e4m3_has_the_numbers_of_its_definition(void **state)
{
    (void)state;
    for (int32_t code = 0; code < N_FINITE; code++) {
        const int32_t exponent = code >> 3, mantissa = code & 7;
        const double due = exponent == 0 ? ldexp(mantissa, -9) : ldexp(1.0 + mantissa / 8.0, exponent - 7);
        assert_true((double)s2_e4m3_to_float((uint8_t)code) == due);
        assert_true((double)s2_e4m3_to_float((uint8_t)(code | 0x80)) == -due);
        assert_int_equal(s2_e4m3_of_float((float)due), code);
        assert_int_equal(s2_e4m3_of_float((float)-due), code | 0x80);
    }
    assert_true(isnan(s2_e4m3_to_float(0x7f)) && isnan(s2_e4m3_to_float(0xff)));
    assert_int_equal(s2_e4m3_of_float(NAN), 0x7f);
    assert_int_equal(s2_e4m3_of_float(INFINITY), 0x7e);
    assert_int_equal(s2_e4m3_of_float(-1e30f), 0xfe);
}

static void e4m3_rounds_to_the_nearest_number(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(8)};
    for (int32_t code = 0; code + 1 < N_FINITE; code++) {
        const float low = s2_e4m3_to_float((uint8_t)code), high = s2_e4m3_to_float((uint8_t)(code + 1));
        const float middle = (low + high) / 2.0f;
        const float around[] = {middle, nextafterf(middle, 0.0f), nextafterf(middle, 500.0f)};
        for (size_t at = 0; at < sizeof around / sizeof *around; at++)
            assert_int_equal(s2_e4m3_of_float(around[at]), nearest_code((double)around[at]));
    }
    for (int64_t n = s2_test_cases(4000); n > 0; n--) {
        const float x = ldexpf((float)s2_rng_below(&rng, 1 << 24), (int)s2_rng_below(&rng, 24) - 38);
        if (s2_e4m3_of_float(x) != nearest_code((double)x))
            fail_msg("%.9g", (double)x);
    }
}

/* ------------------------------------------------------------------ a step */

/* One sequence on the CPU; K and V as e4m3 with scales, and as the numbers that these stand for. */
typedef struct s2_twin {
    s2_arena arena;
    s2_pattern *pattern;
    s2_plan_seq seq;
    s2_plan plan;
    s2_attn_problem eight, plain;
    size_t n_out;
} s2_twin;

static float *draw_floats(s2_twin *twin, s2_rng *rng, int64_t n, float spread)
{
    float *const out = S2_NEW(&twin->arena, float, n + 4);
    assert_non_null(out);
    const uint64_t seed = s2_rng_next(rng);
    for (int64_t at = 0; at < n; at++)
        out[at] = s2_input_value(seed, (uint64_t)at) * spread;
    return out;
}

/* n_tok tokens of n_heads heads in both forms; the scale of a head turns its numbers into codes up to 448. */
static void draw_codes(s2_twin *twin, s2_rng *rng, int32_t n_tok, int32_t n_heads, s2_tensor *eight,
                       s2_tensor *plain, const float **scales)
{
    const int32_t dim = twin->pattern->head_dim;
    const int64_t n = (int64_t)n_tok * n_heads * dim;
    float *const scale = draw_floats(twin, rng, n_heads, 0.01f);
    float *const numbers = draw_floats(twin, rng, n, 150.0f);
    uint8_t *const codes = S2_NEW(&twin->arena, uint8_t, n + 16);
    assert_non_null(codes);
    for (int32_t head = 0; head < n_heads; head++)
        scale[head] = 0.005f + fabsf(scale[head]);
    for (int64_t at = 0; at < n; at++) {
        s2_float_store(codes, S2_F8, at, numbers[at]);
        numbers[at] = s2_float_load(codes, S2_F8, at) * scale[at / dim % n_heads];
    }
    *eight = *plain = (s2_tensor){NULL, n, (int64_t)n_heads * dim, dim};
    eight->data = codes;
    plain->data = numbers;
    *scales = scale;
}

static void open_twin(s2_twin *twin, s2_gen *gen)
{
    const int32_t n_kv = (int32_t)s2_gen_in(gen, 1, 3), group = (int32_t)s2_gen_in(gen, 1, 3);
    twin->pattern = s2_gen_pattern(gen, &twin->arena, n_kv * group, n_kv, (int32_t)s2_gen_in(gen, 1, 40), 16);
    const int32_t k_tok = (int32_t)s2_gen_in(gen, 1, 200);
    twin->seq = (s2_plan_seq){(int32_t)s2_gen_in(gen, 1, s2_min_i32(k_tok, 4)), k_tok};
    const s2_plan_options options = s2_kernel_cut(&s2_traits_cpu_decode, twin->pattern->head_dim);
    s2_diag why = {0};
    assert_int_equal(
        s2_plan_build(&twin->arena, twin->pattern, S2_DECODE, 0, &twin->seq, 1, &options, &twin->plan, &why),
        S2_OK);
    const int64_t row = (int64_t)n_kv * group * twin->pattern->head_dim;
    twin->n_out = (size_t)(twin->seq.q_tok * row);
    s2_attn_problem *const p = &twin->eight;
    *p = (s2_attn_problem){.pass = S2_PASS_DECODE,
                           .dtype = S2_F32,
                           .e4m3 = true,
                           .plan = &twin->plan,
                           .n_seqs = 1,
                           .n_heads = n_kv * group,
                           .n_kv_heads = n_kv,
                           .head_dim = twin->pattern->head_dim,
                           .scale = 0.2f};
    p->q = p->o = (s2_tensor){NULL, 0, row, p->head_dim};
    p->q.data = draw_floats(twin, &gen->rng, (int64_t)twin->n_out, 1.0f);
    p->lse = (s2_rows){NULL, 0, twin->seq.q_tok};
    twin->plain = *p;
    twin->plain.e4m3 = false;
    draw_codes(twin, &gen->rng, k_tok, n_kv, &p->k, &twin->plain.k, &p->k_scale);
    draw_codes(twin, &gen->rng, k_tok, n_kv, &p->v, &twin->plain.v, &p->v_scale);
    s2_attn_problem *const both[] = {&twin->eight, &twin->plain};
    for (size_t at = 0; at < 2; at++) {
        both[at]->o.data = draw_floats(twin, &gen->rng, (int64_t)twin->n_out, 1.0f);
        both[at]->lse.data = draw_floats(twin, &gen->rng, (int64_t)twin->seq.q_tok * n_kv * group, 1.0f);
    }
}

static void run(const s2_kernel *kernel, const s2_attn_problem *problem)
{
    s2_device *device = NULL;
    s2_diag why = {0};
    void *state = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    assert_int_equal(s2_kernel_supports(device, kernel, problem, &why), S2_OK);
    assert_int_equal(kernel->prepare(device, problem, &state, &why), S2_OK);
    assert_int_equal(kernel->run(device, problem, state, &why), S2_OK);
    kernel->finish(device, state);
    s2_device_close(&device);
}

/* The CPU kernel gives the same bits; the reference, which knows the scales exactly, the same up to fp32. */
static void a_step_over_e4m3_is_the_step_over_the_numbers_that_it_stands_for(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(21);
    for (int64_t number = s2_test_cases(60); number > 0; number--) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true};
        s2_twin twin = {0};
        open_twin(&twin, &gen);
        const float *const eight = twin.eight.o.data, *const plain = twin.plain.o.data;
        run(&s2_kernel_cpu_decode, &twin.eight);
        run(&s2_kernel_cpu_decode, &twin.plain);
        assert_memory_equal(eight, plain, twin.n_out * sizeof(float));
        run(&s2_kernel_ref_f64, &twin.eight);
        run(&s2_kernel_ref_f64, &twin.plain);
        for (size_t at = 0; at < twin.n_out; at++)
            s2_assert_close((double)eight[at], (double)plain[at], 1e-4 * (1.0 + fabs((double)plain[at])));
        s2_arena_release(&twin.arena);
    }
}

/* In a forward the queries have scales too, one a head. */
static void a_forward_over_e4m3_is_the_forward_over_the_numbers_that_it_stands_for(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(22);
    for (int64_t number = s2_test_cases(60); number > 0; number--) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true};
        s2_twin twin = {0};
        open_twin(&twin, &gen);
        twin.eight.pass = twin.plain.pass = S2_PASS_FORWARD;
        draw_codes(&twin, &gen.rng, twin.seq.q_tok, twin.pattern->n_heads, &twin.eight.q, &twin.plain.q,
                   &twin.eight.q_scale);
        const float *const eight = twin.eight.o.data, *const plain = twin.plain.o.data;
        run(&s2_kernel_ref_f64, &twin.eight);
        run(&s2_kernel_ref_f64, &twin.plain);
        for (size_t at = 0; at < twin.n_out; at++)
            s2_assert_close((double)eight[at], (double)plain[at], 1e-4 * (1.0 + fabs((double)plain[at])));
        s2_arena_release(&twin.arena);
    }
}

static void what_cannot_read_e4m3_refuses_it(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(4)}, .causal = true};
    s2_twin twin = {0};
    s2_device *device = NULL;
    s2_diag why = {0};
    void *made = NULL;
    open_twin(&twin, &gen);
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    assert_int_equal(s2_kernel_supports(device, &s2_kernel_cpu, &twin.eight, &why), S2_EUNSUPPORTED);
    assert_string_equal(why.msg, "cpu reads no e4m3 keys");
    s2_attn_problem odd = twin.eight;
    odd.select_pages = 4;
    odd.select_page_tok = 16;
    assert_int_equal(s2_kernel_supports(device, &s2_kernel_cpu_decode, &odd, &why), S2_EUNSUPPORTED);
    odd = twin.eight;
    odd.v_scale = NULL;
    assert_int_equal(s2_kernel_cpu_decode.prepare(device, &odd, &made, &why), S2_EINVAL);
    odd = twin.eight;
    odd.pass = S2_PASS_FORWARD; /* without scales of queries */
    assert_int_equal(s2_kernel_ref_f64.prepare(device, &odd, &made, &why), S2_EINVAL);
    s2_device_close(&device);
    s2_arena_release(&twin.arena);
}

/* ------------------------------------------------------------------ going to a cache */

/* Rows go where the pairs say, rounded by the scale of their head, and no other byte changes. */
static void rows_are_stored_by_the_scale_of_their_head(void **state)
{
    (void)state;
    enum { HEADS = 3, DIM = 16, ROWS = 12 };
    static const s2_dtype types[] = {S2_F32, S2_BF16, S2_F16};
    const float scale[HEADS] = {0.5f, 0.011f, 0.3f};
    const int64_t pairs[] = {4, 1, 0, 7, 11, 0};
    s2_device *device = NULL;
    assert_int_equal(s2_device_open("cpu", &device, NULL), S2_OK);
    for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
        float rows[ROWS * DIM];
        uint8_t pool[ROWS * DIM];
        assert_int_equal(device->ops->fill_normal(device, rows, ROWS * DIM, types[type], 5, 1.0f), S2_OK);
        memset(pool, 0xff, sizeof pool);
        assert_int_equal(
            device->ops->store_e4m3(device, pool, rows, types[type], DIM, scale, HEADS, pairs, 3), S2_OK);
        for (int32_t to = 0; to < ROWS; to++)
            for (int32_t d = 0; d < DIM; d++) {
                int32_t due = 0xff;
                for (int32_t at = 0; at < 3; at++)
                    if (pairs[2 * at + 1] == to)
                        due = s2_e4m3_of_float(s2_float_load(rows, types[type], pairs[2 * at] * DIM + d) /
                                               scale[pairs[2 * at] % HEADS]);
                assert_int_equal(pool[to * DIM + d], due);
            }
    }
    s2_device_close(&device);
}

/* ------------------------------------------------------------------ what eight bits cost */

enum { DIM = 128, KEYS = 2048, QUERIES = 32, PAGE = 64 };

/* What keys and values may be like; `bound` is what docs/numerics.md promises of a scale for each head. */
static const struct s2_kind {
    const char *name;
    double bound;
} kinds[] = {
    {"normal", 0.045},
    {"heavy-tailed (t, 3 degrees)", 0.15},
    {"outlier channels (4 of 128, 20 times)", 0.25},
    {"outlier tokens (1 of 256, 50 times)", 0.35},
    {"constant", 1e-6},
    {"constant but for 1 %", 0.025},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef enum s2_scaling { SCALE_HEAD, SCALE_HEAD_16, SCALE_PAGE, SCALE_TOKEN, N_SCALINGS } s2_scaling;

static double normal(s2_rng *rng)
{
    const double u = ((double)s2_rng_below(rng, 1 << 30) + 1.0) / (double)(1 << 30),
                 v = (double)s2_rng_below(rng, 1 << 30) / (double)(1 << 30);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static double number_of(int32_t kind, s2_rng *rng, int32_t key, int32_t d)
{
    const double x = normal(rng);
    switch (kind) {
    case 1: {
        const double a = normal(rng), b = normal(rng), c = normal(rng);
        return x / sqrt((a * a + b * b + c * c) / 3.0);
    }
    case 2: return d % 32 == 7 ? 20.0 * x : x;
    case 3: return key % 256 == 99 ? 50.0 * x : x;
    case 4: return 1.37;
    case 5: return 1.37 + 0.0137 * x;
    default: return x;
    }
}

/* The largest number that shares a scale with key `key`. */
static double peak_of(const double *numbers, s2_scaling scaling, int32_t key)
{
    const int32_t n = scaling == SCALE_TOKEN ? 1 : scaling == SCALE_PAGE ? PAGE : KEYS;
    double peak = 0.0;
    for (int32_t at = key / n * n * DIM; at < (key / n * n + n) * DIM; at++)
        peak = fmax(peak, fabs(numbers[at]));
    return peak;
}

static void round_all(const double *numbers, s2_scaling scaling, double *out)
{
    float scale = 0.0f;
    for (int32_t key = 0; key < KEYS; key++) {
        if (key == 0 || scaling == SCALE_TOKEN || (scaling == SCALE_PAGE && key % PAGE == 0))
            scale = (float)(peak_of(numbers, scaling, key) * (scaling == SCALE_HEAD_16 ? 16.0 : 1.0) / 448.0);
        for (int32_t d = 0; d < DIM; d++)
            out[key * DIM + d] = (double)(scale * s2_round_to(S2_F8, (float)numbers[key * DIM + d] / scale));
    }
}

/* eight: the query and the weights are e4m3 too, as products of eight bits need them. */
static void attend(const double *q, const double *k, const double *v, bool eight, double *o)
{
    static double weight[KEYS];
    double peak = -INFINITY, sum = 0.0, q_scale = 0.0, own[DIM];
    for (int32_t d = 0; d < DIM; d++)
        q_scale = fmax(q_scale, fabs(q[d]) / 448.0);
    for (int32_t d = 0; d < DIM; d++)
        own[d] = eight ? q_scale * (double)s2_round_to(S2_F8, (float)(q[d] / q_scale)) : q[d];
    for (int32_t key = 0; key < KEYS; key++) {
        weight[key] = 0.0;
        for (int32_t d = 0; d < DIM; d++)
            weight[key] += own[d] * k[key * DIM + d] / sqrt((double)DIM);
        peak = fmax(peak, weight[key]);
    }
    memset(o, 0, DIM * sizeof *o);
    for (int32_t key = 0; key < KEYS; key++) {
        const double exact = exp(weight[key] - peak);
        const double used = eight ? (double)s2_round_to(S2_F8, (float)(256.0 * exact)) / 256.0 : exact;
        sum += exact;
        for (int32_t d = 0; d < DIM; d++)
            o[d] += used * v[key * DIM + d];
    }
    for (int32_t d = 0; d < DIM; d++)
        o[d] /= sum;
}

/* The root of the mean square of what is lost, over that of the output. */
typedef struct s2_loss {
    double lost, all;
} s2_loss;

static void add_loss(s2_loss *loss, const double *o, const double *due)
{
    for (int32_t d = 0; d < DIM; d++) {
        loss->lost += pow(o[d] - due[d], 2.0);
        loss->all += pow(due[d], 2.0);
    }
}

static void measure_kind(int32_t kind, uint64_t seed, s2_loss loss[N_SCALINGS + 1])
{
    static double k[KEYS * DIM], v[KEYS * DIM], k8[N_SCALINGS][KEYS * DIM], v8[N_SCALINGS][KEYS * DIM];
    s2_rng rng = {seed + (uint64_t)kind};
    for (int32_t at = 0; at < KEYS * DIM; at++) {
        k[at] = number_of(kind, &rng, at / DIM, at % DIM);
        v[at] = number_of(kind, &rng, at / DIM, at % DIM);
    }
    for (s2_scaling scaling = 0; scaling < N_SCALINGS; scaling++) {
        round_all(k, scaling, k8[scaling]);
        round_all(v, scaling, v8[scaling]);
    }
    for (int32_t query = 0; query < QUERIES; query++) {
        double q[DIM], due[DIM], o[DIM];
        for (int32_t d = 0; d < DIM; d++)
            q[d] = normal(&rng);
        attend(q, k, v, false, due);
        for (s2_scaling scaling = 0; scaling < N_SCALINGS; scaling++) {
            attend(q, k8[scaling], v8[scaling], false, o);
            add_loss(&loss[scaling], o, due);
        }
        attend(q, k8[SCALE_HEAD], v8[SCALE_HEAD], true, o);
        add_loss(&loss[N_SCALINGS], o, due);
    }
}

/* Prints the table of docs/numerics.md. */
static void eight_bits_cost_what_is_promised(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(2);
    printf("%-40s %9s %9s %9s %9s %9s\n", "lost of the output", "head", "head x16", "page", "token",
           "q, P too");
    for (int32_t kind = 0; kind < N_KINDS; kind++) {
        s2_loss loss[N_SCALINGS + 1] = {{0}};
        measure_kind(kind, seed, loss);
        printf("%-40s", kinds[kind].name);
        for (int32_t at = 0; at <= N_SCALINGS; at++)
            printf(" %9.5f", sqrt(loss[at].lost / loss[at].all));
        printf("\n");
        if (sqrt(loss[SCALE_HEAD].lost / loss[SCALE_HEAD].all) > kinds[kind].bound)
            fail_msg("%s", kinds[kind].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e4m3_has_the_numbers_of_its_definition),
        cmocka_unit_test(e4m3_rounds_to_the_nearest_number),
        cmocka_unit_test(a_step_over_e4m3_is_the_step_over_the_numbers_that_it_stands_for),
        cmocka_unit_test(a_forward_over_e4m3_is_the_forward_over_the_numbers_that_it_stands_for),
        cmocka_unit_test(what_cannot_read_e4m3_refuses_it),
        cmocka_unit_test(rows_are_stored_by_the_scale_of_their_head),
        cmocka_unit_test(eight_bits_cost_what_is_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
