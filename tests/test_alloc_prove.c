#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "coverage/certificate.h"
#include "pattern/parse.h"

/* Fails the n-th allocation and every one after it, or that one alone. */
typedef struct s2_saboteur {
    int64_t left;
    bool once;
    int64_t n_asked;
} s2_saboteur;

static bool allow(void *user, size_t n_bytes)
{
    s2_saboteur *const saboteur = user;
    (void)n_bytes;
    saboteur->n_asked++;
    saboteur->left--;
    return saboteur->once ? saboteur->left != -1 : saboteur->left >= 0;
}

static const char *const patterns[] = {
    "layers 2;heads 4;kv-heads 2;layers all: local 2 | stride 4 phase head;layers 1: dense",
    "heads 3;block 4;layers all: sink 3t | local 5t | stride 3 phase head;decode heads 0: local 2",
    "heads 2;block 4;causal no;layers all: local 2 | dilated 2 phase head | rows 1",
    "heads 2;layers all: local 1 | random 2 seed 3",
    "heads 2;layers all: local 2 | topk 64 | columns 3,5:20:3",
    ("heads 4;block 1;layers all: stride 61 phase head | stride 59 | stride 53 | stride 47 | stride 43 | "
     "stride 41 | stride 37"),
};
enum { N_PATTERNS = sizeof patterns / sizeof *patterns, N_ASKED = 7 };

typedef s2_status (*s2_attempt)(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                                s2_finding *findings);

static void ask(s2_requirement *asked)
{
    for (int32_t property = 0; property < N_ASKED; property++)
        asked[property] = (s2_requirement){(s2_property)property, 1, true};
}

static s2_status attempt_prove(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                               s2_finding *findings)
{
    s2_requirement asked[N_ASKED];
    const s2_prove_options options = {.n_tok = n_tok, .work_limit = 2000000};
    ask(asked);
    return s2_prove(arena, pattern, asked, N_ASKED, &options, findings);
}

static s2_status attempt_enumerate(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                                   s2_finding *findings)
{
    s2_requirement asked[N_ASKED];
    const s2_prove_options options = {.n_tok = n_tok == S2_OPEN ? 24 : n_tok};
    ask(asked);
    return s2_enumerate(arena, pattern, asked, N_ASKED, &options, findings);
}

static s2_status attempt_length(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok,
                                s2_finding *findings)
{
    (void)n_tok;
    return s2_sufficient_length(arena, pattern, &findings[0].scope_tok);
}

/*
 * Every failing allocation must end in S2_ENOMEM. Of findings, those before the failure may be written;
 * of a single result, nothing.
 */
static int64_t sweep(const char *what, s2_attempt attempt, const s2_pattern *pattern, int64_t n_tok,
                     bool once)
{
    int64_t n = 0;
    for (s2_status status = S2_ENOMEM; status != S2_OK; n++) {
        s2_arena arena = {0};
        s2_saboteur saboteur = {.left = n, .once = once};
        s2_finding findings[N_ASKED], before[N_ASKED];
        memset(findings, 0x5a, sizeof findings);
        memset(before, 0x5a, sizeof before);
        s2_alloc_set_hook(allow, &saboteur);
        status = attempt(&arena, pattern, n_tok, findings);
        s2_alloc_set_hook(NULL, NULL);
        s2_arena_release(&arena);
        const bool failed = once ? saboteur.n_asked > n : saboteur.left < 0;
        if (failed && status != S2_ENOMEM)
            fail_msg("%s: allocation %lld failed and the status is %d", what, (long long)n, status);
        if (!failed && status != S2_OK)
            fail_msg("%s: nothing failed and the status is %d", what, status);
        if (status != S2_OK && memcmp(findings, before, sizeof findings) != 0)
            fail_msg("%s: allocation %lld failed and the output was touched", what, (long long)n);
    }
    return n - 1;
}

static void failing_any_allocation_of_the_prover_is_out_of_memory(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        s2_attempt attempt;
    } rows[] = {
        {"prove", attempt_prove}, {"enumerate", attempt_enumerate}, {"sufficient length", attempt_length}};
    int64_t n_failed = 0;
    for (size_t p = 0; p < N_PATTERNS; p++) {
        for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
            s2_arena arena = {0};
            s2_pattern pattern;
            assert_int_equal(s2_pattern_parse(&arena, patterns[p], strlen(patterns[p]), NULL, &pattern, NULL),
                             S2_OK);
            for (int32_t once = 0; once < 2; once++) {
                n_failed += sweep(rows[row].label, rows[row].attempt, &pattern, S2_OPEN, once != 0);
                n_failed += sweep(rows[row].label, rows[row].attempt, &pattern, 24, once != 0);
            }
            s2_arena_release(&arena);
        }
    }
    printf("# s2: %lld allocations of the prover failed one by one\n", (long long)n_failed);
    assert_true(n_failed > 100);
}

static void failing_any_allocation_of_a_certificate_is_out_of_memory(void **state)
{
    (void)state;
    int64_t n_failed = 0;
    for (size_t p = 0; p < 2; p++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        const s2_requirement asked = {S2_ROWS, 0, true};
        const s2_prove_options options = {.n_tok = S2_OPEN};
        s2_finding finding;
        assert_int_equal(s2_pattern_parse(&arena, patterns[p], strlen(patterns[p]), NULL, &pattern, NULL),
                         S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &options, &finding), S2_OK);
        s2_status status = S2_ENOMEM;
        for (n_failed = 0; status == S2_ENOMEM; n_failed++) {
            s2_saboteur saboteur = {.left = n_failed};
            s2_buf out = {0};
            s2_alloc_set_hook(allow, &saboteur);
            status = s2_certificate_write(&pattern, &finding, 1, &out, NULL);
            s2_alloc_set_hook(NULL, NULL);
            if (saboteur.left < 0 && (status != S2_ENOMEM || out.len != 0))
                fail_msg("allocation %lld failed, status %d, %zu bytes", (long long)n_failed, status,
                         out.len);
            s2_buf_release(&out);
        }
        assert_int_equal(status, S2_OK);
        assert_true(n_failed > 3);
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_any_allocation_of_the_prover_is_out_of_memory),
        cmocka_unit_test(failing_any_allocation_of_a_certificate_is_out_of_memory),
    };
    return cmocka_run_group_tests_name("alloc_prove", tests, NULL, NULL);
}
