/*
 * tests/s2test.h - cmocka with the house's rules.
 *
 * cmocka's float asserts pass NaN and infinity (seen with 1.1.5), so they are banned here: compare
 * with s2_assert_close(), which cannot. Test names are sentences; table rows carry a label that is
 * printed when they fail. Seeds come from $S2_SEED and are printed.
 */
#ifndef S2_TESTS_S2TEST_H
#define S2_TESTS_S2TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"

#undef assert_float_equal
#define assert_float_equal(a, b, e) s2_banned_use_s2_assert_close
#undef assert_float_not_equal
#define assert_float_not_equal(a, b, e) s2_banned_use_s2_assert_close

/* |a - b| <= tol, written so that NaN fails. */
#define s2_assert_close(a, b, tol)                                                                           \
    do {                                                                                                     \
        const double s2_a_ = (a), s2_b_ = (b), s2_tol_ = (tol);                                              \
        const double s2_d_ = s2_a_ > s2_b_ ? s2_a_ - s2_b_ : s2_b_ - s2_a_;                                  \
        if (!(s2_d_ <= s2_tol_))                                                                             \
            fail_msg("%.17g is not within %g of %.17g", s2_a_, s2_tol_, s2_b_);                              \
    } while (0)

/* Uniform in [0, 1) with 53 bits. */
static inline double s2_test_unit(s2_rng *rng)
{
    return (double)(s2_rng_next(rng) >> 11) * 0x1p-53;
}

/* The seed of a property test: $S2_SEED or the given default; print it with the failing case. */
static inline uint64_t s2_test_seed(uint64_t fallback)
{
    const char *const text = getenv("S2_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : fallback;
}

/*
 * How many cases: $S2_CASES, or the given default, but no more than $S2_CASES_MAX. Where that is set, as under sanitizers,
 * a default of few cases is one of cases that take long each: a fifth of it is enough, but 4, so that kinds that take turns have one.
 */
static inline int64_t s2_test_cases(int64_t fallback)
{
    const char *const text = getenv("S2_CASES"), *const most = getenv("S2_CASES_MAX");
    int64_t n = text != NULL ? strtoll(text, NULL, 0) : fallback;
    if (most == NULL)
        return n;
    if (text == NULL)
        n = n < 4 ? n : n < 20 ? 4 : n / 5;
    return strtoll(most, NULL, 0) < n ? strtoll(most, NULL, 0) : n;
}

/* Whether some of the directed cases that take long are enough, as under sanitizers: all went through release. */
static inline bool s2_test_sampled(void)
{
    return getenv("S2_CASES_MAX") != NULL;
}

/* Of n cases that each take long, the first to try: 0, or where a sample is enough, the last. */
static inline int32_t s2_test_first(int32_t n)
{
    return s2_test_sampled() ? n - 1 : 0;
}

/* For s2_alloc_set_hook() with an int64_t: so many allocations succeed; the next one, or each from there, fails. */
static inline bool s2_test_fail_one(void *left, size_t n_bytes)
{
    (void)n_bytes;
    return (*(int64_t *)left)-- != 0;
}
static inline bool s2_test_fail_from(void *left, size_t n_bytes)
{
    (void)n_bytes;
    return (*(int64_t *)left)-- > 0;
}

/*
 * For the table of a group: a test that takes long under sanitizers and does there with more what other tests do. Where $S2_LONG is 0,
 * as under sanitizers in `make check`, it is left out: the release build runs it, and `make check-all` both.
 */
static inline int s2_test_is_long(void **state)
{
    (void)state;
    return 0;
}
#define s2_long_test(test) cmocka_unit_test_setup(test, s2_test_is_long)

/* A test that prints a time ends its name in _timed: make check runs those alone and the others side by side. */
static inline int s2_test_run(const char *group, const struct CMUnitTest *tests, size_t n,
                              CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    const char *const named = getenv("S2_TEST"), *const but = getenv("S2_SKIP"),
                      *const longs = getenv("S2_LONG");
    struct CMUnitTest *const chosen = calloc(n + 1, sizeof *chosen);
    size_t n_chosen = 0;
    if (chosen == NULL)
        return 1;
    for (size_t t = 0; t < n; t++)
        if (longs == NULL || longs[0] != '0' || tests[t].setup_func != s2_test_is_long)
            chosen[n_chosen++] = tests[t];
    if (n_chosen < n)
        printf("# s2: %zu of %zu tests are long, and left to the release build\n", n - n_chosen, n);
    if (named != NULL) /* only the tests whose names match ('*' and '?'), and not those that match $S2_SKIP */
        cmocka_set_test_filter(named);
    if (but != NULL)
        cmocka_set_skip_filter(but);
    const int n_failed = _cmocka_run_group_tests(group, chosen, n_chosen, set_up, tear_down);
    free(chosen);
    return n_failed;
}

/* Every group chooses, so that no program can forget to. */
#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests_name(name, tests, set_up, tear_down)                                          \
    s2_test_run(name, tests, sizeof(tests) / sizeof((tests)[0]), set_up, tear_down)
#define cmocka_run_group_tests(tests, set_up, tear_down)                                                     \
    cmocka_run_group_tests_name(#tests, tests, set_up, tear_down)

#endif /* S2_TESTS_S2TEST_H */
