/* What a mask says, in words: whatever is recognised reads the mask's pairs and no others. */
#include "tests/s2test.h"

#include <string.h>

#include "pattern/dense.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "pattern/recognise.h"
#include "tests/s2gen.h"

/* The pattern's reads as a mask of n blocks of `block_tok` tokens each. */
static s2_pattern *mask_of(s2_arena *arena, const s2_pattern *from, int32_t n, int32_t block_tok)
{
    uint8_t *const cell = S2_NEW(arena, uint8_t, (int64_t)from->n_heads * n * n);
    s2_mask *const mask = S2_NEW(arena, s2_mask, 1);
    s2_term *const term = S2_NEW(arena, s2_term, 1);
    s2_body *const body = S2_NEW(arena, s2_body, 1);
    s2_pattern *const out = S2_NEW(arena, s2_pattern, 1);
    for (int32_t head = 0; head < from->n_heads; head++)
        for (int32_t q = 0; q < n; q++)
            for (int32_t k = 0; k < n; k++) /* the last query of a block sees all of it */
                cell[((int64_t)head * n + q) * n + k] =
                    s2_pattern_reads(from, S2_PREFILL, 0, head, (int64_t)n * block_tok,
                                     (int64_t)q * block_tok + block_tok - 1, (int64_t)k * block_tok);
    *mask = (s2_mask){.path = "m.npy", .n_heads = from->n_heads, .n_q_blk = n, .n_k_blk = n, .allowed = cell};
    s2_mask_seal(mask);
    *term = s2_term_init(S2_TERM_MASK, 0);
    term->mask = mask;
    *body = (s2_body){1, term};
    *out = *from;
    out->block_tok = block_tok;
    out->n_bodies = 1;
    out->bodies = body;
    out->body_of = S2_NEW(arena, uint16_t, 2 * from->n_heads * from->n_layers);
    return out;
}

static void expect_same(const s2_pattern *a, const s2_pattern *b, int64_t n_tok, uint64_t label)
{
    for (int32_t head = 0; head < a->n_heads; head++)
        for (int64_t q = 0; q < n_tok; q++)
            for (int64_t k = 0; k < n_tok; k++)
                if (s2_pattern_reads(a, S2_PREFILL, 0, head, n_tok, q, k) !=
                    s2_pattern_reads(b, S2_PREFILL, 0, head, n_tok, q, k))
                    fail_msg("case %llu: head %d, query %lld, key %lld", (unsigned long long)label, (int)head,
                             (long long)q, (long long)k);
}

static void what_is_recognised_reads_the_same_pairs(void **state)
{
    (void)state;
    const int64_t n_cases = s2_test_cases(400);
    const uint64_t seed = s2_test_seed(20261122);
    int64_t n_said = 0;
    for (int64_t nth = 0; nth < n_cases; nth++) {
        s2_arena arena = {0};
        s2_gen gen = {{seed + (uint64_t)nth}, false, nth % 4 != 0};
        const int32_t n_heads = (int32_t)s2_gen_in(&gen, 1, 4), n = (int32_t)s2_gen_in(&gen, 1, 24);
        const s2_pattern *const drawn = s2_gen_pattern(&gen, &arena, n_heads, 1, 64, 4);
        const s2_pattern *const masked = mask_of(&arena, drawn, n, nth % 2 == 0 ? 1 : 4);
        s2_pattern said;
        int64_t n_tok = 0;
        s2_diag diag = {0};
        const s2_status status = s2_pattern_recognise(&arena, masked, &said, &n_tok, &diag);
        assert_true(status == S2_OK || (status == S2_EUNSUPPORTED && diag.msg[0] != '\0'));
        if (status == S2_OK) {
            assert_int_equal(n_tok, (int64_t)n * masked->block_tok);
            assert_int_equal(s2_pattern_check(&said, &diag), S2_OK);
            expect_same(masked, &said, n_tok, (uint64_t)nth);
            n_said++;
        }
        s2_arena_release(&arena);
    }
    printf("test_recognise: %lld of %lld random masks in words\n", (long long)n_said, (long long)n_cases);
    assert_true(n_said * 2 > n_cases);
}

/* The text that a person would have written is found again from its mask alone. */
static void common_patterns_come_back_as_they_were_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t n, block_tok;
    } rows[] = {
        {"heads 8; all: local 8 | stride 16 phase head", 64, 64},
        {"heads 8; kv-heads 4; all: local 4 | stride 8 phase kv*2+1", 64, 64},
        {"heads 4; all: local 4 | sink 1", 32, 64},
        {"heads 4; all: dense", 16, 64},
        {"heads 2; all: none", 16, 64},
        {"heads 2; all: chunk 8", 32, 64},
        {"heads 2; all: local 2 | columns 5,9-11", 32, 64},
        {"heads 2; all: local 2 | columns 9::4", 32, 64},
        {"heads 2; all: local 2 | columns 3:22:6,24-25", 32, 64},
        {"heads 2; all: local 2 | dilated 8", 48, 64},
        {"heads 4; all: local 2 | stride 8 width 2 phase head", 48, 64},
        {"heads 4; heads 0-1: dense; heads 2-3: local 3 | sink 1", 32, 64},
        {"heads 2; all: local 2 | stride 4 phase head when distance 8..", 64, 64},
        {"heads 2; all: local 3 | rows 20-21", 32, 64},
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_arena arena = {0};
        s2_pattern pattern, said;
        s2_buf wanted = {0}, found = {0};
        s2_diag diag = {0};
        int64_t n_tok;
        assert_int_equal(
            s2_pattern_parse(&arena, rows[row].text, strlen(rows[row].text), NULL, &pattern, &diag), S2_OK);
        /* cell by token, so that the blocks have to be found too, where that is small */
        const bool fine = rows[row].n <= 16;
        const s2_pattern *const masked =
            mask_of(&arena, &pattern, fine ? rows[row].n * 64 : rows[row].n, fine ? 1 : 64);
        if (s2_pattern_recognise(&arena, masked, &said, &n_tok, &diag) != S2_OK)
            fail_msg("%s: %s", rows[row].text, diag.msg);
        if (fine && said.block_tok != 64)
            said.block_tok = 64; /* one block or many: a constant mask has no size of its own */
        s2_pattern_print(&pattern, &wanted);
        s2_pattern_print(&said, &found);
        assert_int_equal(found.status, S2_OK);
        if (strcmp(wanted.data, found.data) != 0)
            fail_msg("%s came back as %s", rows[row].text, found.data);
        s2_buf_release(&wanted);
        s2_buf_release(&found);
        s2_arena_release(&arena);
    }
}

static void a_mask_without_a_rule_is_refused_with_a_pair(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern drawn, said;
    s2_diag diag = {0};
    int64_t n_tok;
    const char *const text = "heads 1; all: random 3 seed 7";
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &drawn, &diag), S2_OK);
    const s2_pattern *const masked = mask_of(&arena, &drawn, 64, 64);
    assert_int_equal(s2_pattern_recognise(&arena, masked, &said, &n_tok, &diag), S2_EUNSUPPORTED);
    assert_non_null(strstr(diag.msg, "head 0"));
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recognised_reads_the_same_pairs),
        cmocka_unit_test(common_patterns_come_back_as_they_were_written),
        cmocka_unit_test(a_mask_without_a_rule_is_refused_with_a_pair),
    };
    return cmocka_run_group_tests_name("recognise", tests, NULL, NULL);
}
