/*
 * The arithmetic, the numbers in text and the growing arrays that every room uses: rounding up at the ends of the
 * range, divisors, decimals without exponents, and arrays that keep what they held, count their room and refuse what does not fit.
 */
#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/arith.h"
#include "base/rng.h"
#include "base/text.h"

static void smaller_and_larger(void **state)
{
    (void)state;
    assert_int_equal(s2_min_i64(-3, 2), -3);
    assert_int_equal(s2_max_i64(-3, 2), 2);
    assert_true(s2_min_i64(INT64_MIN, INT64_MAX) == INT64_MIN &&
                s2_max_i64(INT64_MIN, INT64_MAX) == INT64_MAX);
    assert_true(s2_min_i32(INT32_MIN, 0) == INT32_MIN && s2_max_i32(INT32_MIN, 0) == 0);
}

/* The textbook form (n + size - 1) / size overflows near the end of the range; this one may not. */
static void division_rounds_up_without_overflow(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 200; n++)
        for (int64_t size = 1; size < 20; size++) {
            assert_int_equal(s2_ceil_div(n, size), (n + size - 1) / size);
            assert_true(s2_round_up(n, size) >= n && s2_round_up(n, size) < n + size);
            assert_int_equal(s2_round_up(n, size) % size, 0);
        }
    assert_true(s2_ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
    assert_true(s2_ceil_div(INT64_MAX, INT64_MAX) == 1 && s2_ceil_div(INT64_MAX - 1, INT64_MAX) == 1);
}

static void divisors_divide(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(1)};
    assert_int_equal(s2_gcd(0, 7), 7);
    assert_int_equal(s2_gcd(7, 0), 7);
    for (int nth = 0; nth < 1000; nth++) {
        const int64_t a = 1 + (int64_t)s2_rng_below(&rng, 500), b = 1 + (int64_t)s2_rng_below(&rng, 500);
        int64_t largest = 1;
        for (int64_t d = 1; d <= a; d++)
            largest = a % d == 0 && b % d == 0 ? d : largest;
        assert_int_equal(s2_gcd(a, b), largest);
    }
}

/* s2_decimal says what %g says, but for exponents; and read back it is the number to as many digits. */
static void decimal_numbers_have_no_exponent(void **state)
{
    (void)state;
    static const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {{0, 3, "0"},
                {1, 3, "1"},
                {-2.50, 4, "-2.5"},
                {0.00001234, 3, "0.0000123"},
                {999.96, 4, "1000"},
                {9999.6, 4, "10000"},
                {123456, 4, "123500"},
                {1e6, 6, "1000000"},
                {1.5e30, 2, "1.5*10^30"},
                {2e-30, 3, "2*10^-30"},
                {(double)NAN, 3, "nan"},
                {(double)INFINITY, 3, "inf"}};
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
        assert_string_equal(s2_decimal(rows[row].value, rows[row].digits).text, rows[row].text);
    s2_rng rng = {s2_test_seed(4)};
    for (int n = 0; n < 20000; n++) {
        const double value = pow(10, 40 * s2_test_unit(&rng) - 20) * (n % 2 == 0 ? 1 : -1);
        const int digits = 1 + (int)s2_rng_below(&rng, 17);
        const s2_figure_text own = s2_decimal(value, digits);
        char usual[64];
        snprintf(usual, sizeof usual, "%.*g", digits, value);
        if (strpbrk(own.text, "eE") != NULL || strtod(own.text, NULL) != strtod(usual, NULL) ||
            (strchr(usual, 'e') == NULL && strcmp(usual, own.text) != 0))
            fail_msg("%s, and printf says %s", own.text, usual);
    }
}

static void heap_array_grows_and_keeps_its_elements(void **state)
{
    (void)state;
    int64_t cap = 0, n_moves = 0;
    int32_t *array = NULL;
    for (int32_t n = 0; n < 10000; n++) {
        const int64_t before = cap;
        assert_int_equal(S2_RESERVE(array, cap, n + 1), S2_OK);
        assert_true(cap > n);
        n_moves += cap != before;
        array[n] = n;
    }
    for (int32_t n = 0; n < 10000; n++)
        assert_int_equal(array[n], n);
    assert_true(n_moves < 20);
    const int64_t held = cap;
    const int32_t *const kept = array;
    assert_int_equal(S2_RESERVE(array, cap, INT64_MAX), S2_ENOMEM);
    assert_int_equal(s2_reserve(&array, &cap, INT64_MAX / 4, 64), S2_ENOMEM);
    assert_int_equal(cap, held);
    assert_ptr_equal(array, kept);
    s2_free(array);
}

static void arena_array_grows_and_keeps_its_elements(void **state)
{
    (void)state;
    s2_arena arena = {0};
    int64_t cap = 0;
    int64_t *array = NULL;
    for (int64_t n = 0; n < 1000; n++) {
        assert_int_equal(S2_ARENA_ROOM(&arena, array, n, cap), S2_OK);
        assert_true(cap > n);
        array[n] = n;
    }
    for (int64_t n = 0; n < 1000; n++)
        assert_int_equal(array[n], n);
    const int64_t held = cap;
    arena.limit_bytes = arena.total_bytes;
    const int64_t *const kept = array;
    assert_int_equal(S2_ARENA_ROOM(&arena, array, cap, cap), S2_ENOMEM);
    assert_int_equal(cap, held);
    assert_ptr_equal(array, kept);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smaller_and_larger),
        cmocka_unit_test(division_rounds_up_without_overflow),
        cmocka_unit_test(divisors_divide),
        cmocka_unit_test(decimal_numbers_have_no_exponent),
        cmocka_unit_test(heap_array_grows_and_keeps_its_elements),
        cmocka_unit_test(arena_array_grows_and_keeps_its_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
