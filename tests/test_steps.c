/* The steps of the Hopper forward against the definition, pair by pair. */
#include "plan/steps.h"

#include <string.h>

#include "pattern/dense.h"
#include "pattern/parse.h"
#include "tests/s2gen.h"
#include "tests/s2test.h"

/* How often row `row` of the tile reads key k in half and mixed steps, by the words of its group. */
static int32_t half_reads(const s2_plan *plan, const s2_steps *steps, const s2_step_item *item,
                          int32_t step_blk, int32_t group, int32_t row, int64_t k)
{
    int32_t n = 0;
    for (int32_t at = 0; at < (item->n_half + item->n_mixed) * step_blk; at++) {
        if (at < item->n_half * step_blk && at / (step_blk / 2) % 2 != group)
            continue;
        const s2_step_word word = steps->words[item->half_begin + at];
        const int64_t in_blk = k - (int64_t)(word.word >> S2_STEP_BLOCK_SHIFT) * plan->blk_tok;
        if (in_blk < 0 || in_blk >= plan->blk_tok || (word.word >> (row / S2_PLAN_SLAB_TOK) & 1) == 0)
            continue;
        const int64_t bit =
            ((int64_t)word.mask * plan->options.tile_tok + row) * plan->mask_words + in_blk / 32;
        if (word.mask >= 0 && (steps->bits[bit] >> (in_blk % 32) & 1) == 0)
            continue;
        n += (word.word & S2_STEP_EDGE) == 0 ||
             (k < item->k_tok && (!plan->pattern->causal || k <= item->pos + row));
    }
    return n;
}

static int32_t whole_reads(const s2_plan *plan, const s2_steps *steps, const s2_step_item *item,
                           int32_t step_blk, int64_t k)
{
    int32_t n = 0;
    for (int32_t at = 0; at < item->n_whole * step_blk; at++)
        n += s2_step_block(item, steps->list, at) == k / plan->blk_tok;
    return n;
}

static void check_item(const s2_plan *plan, const s2_steps *steps, int32_t at, int32_t step_blk)
{
    const s2_step_item *const item = &steps->items[at];
    const int32_t tile_tok = plan->options.tile_tok;
    assert_true(item->n_half >= 1);
    assert_int_equal(item->head, plan->items[at].head);
    for (int32_t row = 0; row < tile_tok; row++) {
        const int64_t p = item->pos + row;
        if (p < item->q_off || p >= item->k_tok)
            continue;
        for (int64_t k = 0; k < item->k_tok; k++)
            for (int32_t head = item->head; head < item->head + plan->pack_heads; head++) {
                const int32_t group = plan->pack_heads == 2 ? head - item->head : row >= tile_tok / 2;
                const int32_t n = half_reads(plan, steps, item, step_blk, group, row, k) +
                                  whole_reads(plan, steps, item, step_blk, k);
                if (n != s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, item->k_tok, p, k))
                    fail_msg("head %d, query %lld, key %lld: read %d times", head, (long long)p, (long long)k,
                             n);
            }
    }
}

/* Lengths, tiles and steps as the kernel has them: 128 rows, or 64 of two heads. */
static void draw_and_check(uint64_t seed, bool arithmetic)
{
    static const int32_t blocks[] = {4, 16, 32, 64, 128, 256};
    s2_arena arena = {0};
    s2_gen gen = {
        .rng = {seed}, .arithmetic = arithmetic, .causal = s2_gen_in(&(s2_gen){.rng = {seed}}, 0, 6) > 0};
    const int32_t n_kv = (int32_t)s2_gen_in(&gen, 1, 2), group = (int32_t)s2_gen_in(&gen, 1, 4);
    const s2_pattern *const pattern =
        s2_gen_pattern(&gen, &arena, n_kv * group, n_kv, 64, blocks[s2_gen_in(&gen, 0, 5)]);
    const int32_t k_tok = (int32_t)s2_gen_in(&gen, 1, 500);
    const s2_plan_seq seq = {s2_gen_in(&gen, 0, 2) == 0 ? (int32_t)s2_gen_in(&gen, 1, k_tok) : k_tok, k_tok};
    s2_plan_options options = s2_plan_options_default();
    const int32_t step_tok = s2_gen_in(&gen, 0, 1) == 0 ? 64 : 128;
    options.tile_rows = 128;
    options.pack_heads = 2;
    options.key_tok = step_tok / 2;
    s2_plan plan;
    s2_steps steps;
    s2_diag why = {0};
    s2_status status = s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, &why);
    if (status == S2_OK)
        status = s2_steps_build(&arena, &plan, step_tok, &steps, &why);
    if (status != S2_OK)
        fail_msg("S2_SEED=%llu: %s %s", (unsigned long long)seed, s2_status_text(status), why.msg);
    for (int32_t at = 0; at < plan.n_items; at++)
        check_item(&plan, &steps, at, step_tok / plan.blk_tok);
    s2_arena_release(&arena);
}

static void every_row_reads_each_of_its_keys_once(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261122);
    for (int64_t number = 0; number < s2_test_cases(120); number++)
        draw_and_check(seed + (uint64_t)number, number % 3 != 0);
}

static s2_steps steps_of(s2_arena *arena, const char *text, int32_t n_tok, s2_plan *plan)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_plan_options options = s2_plan_options_default();
    const s2_plan_seq seq = {n_tok, n_tok};
    s2_steps steps;
    s2_diag why;
    options.tile_rows = 128;
    options.pack_heads = 2;
    options.key_tok = 64;
    assert_int_equal(s2_pattern_parse(arena, text, strlen(text), NULL, pattern, &why), S2_OK);
    assert_int_equal(s2_plan_build(arena, pattern, S2_PREFILL, 0, &seq, 1, &options, plan, &why), S2_OK);
    assert_int_equal(s2_steps_build(arena, plan, 128, &steps, &why), S2_OK);
    return steps;
}

static void windows_and_strides_take_memory_for_their_halves_only(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_plan plan;
    const s2_steps steps =
        steps_of(&arena, "heads 1; head-dim 64; block 64; layers all: local 8 | stride 16", 65536, &plan);
    assert_int_equal(steps.n_list, 0);
    assert_true(steps.n_words <= 6 * steps.n_items);
    const s2_step_item *const last = &steps.items[0];
    assert_int_equal(last->pos, 65536 - 128);
    /* 8 blocks of window and 64 of the stride for each row of blocks, the diagonal with them */
    assert_int_equal(last->n_half + 2 * (last->n_mixed + last->n_whole), 8 + 64);
    assert_true(steps.n_mixed > 0);
    s2_arena_release(&arena);
}

static void a_window_in_tokens_has_the_masks_of_a_few_tiles(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_plan plan;
    for (int32_t n_tok = 8192; n_tok <= 65536; n_tok *= 8) {
        const s2_steps steps = steps_of(
            &arena, "heads 8; kv-heads 2; head-dim 64; block 64; layers all: local 1000t", n_tok, &plan);
        assert_int_equal(plan.pack_heads, 2);
        assert_true(steps.n_masks > 0 && steps.n_masks <= 4);
    }
    s2_arena_release(&arena);
}

static void groups_that_share_a_list_share_tiles_and_others_do_not(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_plan plan;
    (void)steps_of(&arena,
                   "heads 4; kv-heads 1; head-dim 64; block 64; layers all: local 2 | stride 4 phase kv", 512,
                   &plan);
    assert_int_equal(plan.pack_heads, 2);
    assert_int_equal(plan.options.tile_tok, 64);
    (void)steps_of(&arena,
                   "heads 4; kv-heads 1; head-dim 64; block 64; layers all: local 2 | stride 4 phase head",
                   512, &plan);
    assert_int_equal(plan.pack_heads, 1);
    assert_int_equal(plan.options.tile_tok, 128);
    s2_arena_release(&arena);
}

static void shapes_without_two_halves_are_refused(void **state)
{
    (void)state;
    static const char text[] = "heads 2; head-dim 64; block 64; layers all: local 2";
    static const struct {
        int32_t tile_tok, key_tok, step_tok;
    } wrong[] = {{144, 64, 128}, {48, 64, 128}, {128, 64, 64}, {128, 64, 192}, {128, 16, 512}};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag why;
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &why), S2_OK);
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        s2_plan_options options = s2_plan_options_default();
        const s2_plan_seq seq = {300, 300};
        s2_plan plan;
        s2_steps steps = {.n_items = -7};
        options.tile_tok = wrong[at].tile_tok;
        options.key_tok = wrong[at].key_tok;
        assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, &why),
                         S2_OK);
        assert_int_equal(s2_steps_build(&arena, &plan, wrong[at].step_tok, &steps, &why), S2_EINVAL);
        assert_int_equal(steps.n_items, -7);
    }
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_reads_each_of_its_keys_once),
        cmocka_unit_test(windows_and_strides_take_memory_for_their_halves_only),
        cmocka_unit_test(a_window_in_tokens_has_the_masks_of_a_few_tiles),
        cmocka_unit_test(groups_that_share_a_list_share_tiles_and_others_do_not),
        cmocka_unit_test(shapes_without_two_halves_are_refused),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
