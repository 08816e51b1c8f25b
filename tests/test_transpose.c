#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "plan/launch.h"
#include "tests/s2gen.h"

/* A plan of a drawn pattern, its lists, and its transpose. */
typedef struct s2_case {
    s2_pattern *pattern;
    s2_plan plan;
    s2_plan_flat flat;
    s2_plan_column_options options;
    s2_plan_columns columns;
} s2_case;

static bool keep_drawn(void *user, const s2_plan_item *item)
{
    (void)item;
    return s2_gen_in(user, 0, 2) > 0;
}

static void draw_options(s2_gen *gen, const s2_plan *plan, s2_plan_column_options *out)
{
    static const int32_t parts[] = {0, 1, 3, 16, S2_COLUMN_BALANCED};
    int32_t key_tok = plan->blk_tok;
    while (key_tok < 64 || (key_tok < plan->blk_tok * 8 && s2_gen_in(gen, 0, 1) == 0))
        key_tok *= 2;
    *out = (s2_plan_column_options){.key_tok = key_tok > 8 * plan->blk_tok ? 8 * plan->blk_tok : key_tok,
                                    .part_steps = parts[s2_gen_in(gen, 0, 4)],
                                    .units = (int32_t)s2_gen_in(gen, 1, 20),
                                    .section_heads = (int32_t)s2_gen_in(gen, 0, 2),
                                    .wave = (int32_t)s2_gen_in(gen, 0, 9),
                                    .halves = (int32_t)s2_gen_in(gen, 0, 3),
                                    .in_order = s2_gen_in(gen, 0, 2) == 0,
                                    .costs = {.half = 0.8, .change = 0.3, .sum = 0.65, .worth = 0.98}};
    if (out->in_order)
        out->halves = 0;
    if (out->part_steps == S2_COLUMN_BALANCED && out->in_order)
        out->part_steps = 1;
    if (out->part_steps == S2_COLUMN_BALANCED)
        out->wave = 0;
    else if (out->in_order && out->part_steps > 0)
        out->wave++;
}

static void draw_case(s2_gen *gen, s2_arena *arena, int64_t number, s2_case *test)
{
    static const int32_t blocks[] = {4, 16, 32, 64, 128, 256};
    gen->arithmetic = number % 2 == 0;
    gen->causal = number % 7 != 3;
    const int32_t n_kv = (int32_t)s2_gen_in(gen, 1, 3), group = (int32_t)s2_gen_in(gen, 1, 4);
    test->pattern = s2_gen_pattern(gen, arena, n_kv * group, n_kv, 64, blocks[s2_gen_in(gen, 0, 5)]);
    s2_plan_seq seqs[3];
    const int32_t n_seqs = (int32_t)s2_gen_in(gen, 1, gen->causal ? 3 : 1);
    for (int32_t seq = 0; seq < n_seqs; seq++) {
        seqs[seq].k_tok = (int32_t)s2_gen_in(gen, 1, 420);
        seqs[seq].q_tok =
            s2_gen_in(gen, 0, 2) == 0 ? (int32_t)s2_gen_in(gen, 1, seqs[seq].k_tok) : seqs[seq].k_tok;
    }
    s2_plan_options options = s2_plan_options_default();
    options.tile_tok = s2_gen_in(gen, 0, 1) == 0 ? 64 : 128;
    options.key_tok = s2_gen_in(gen, 0, 1) == 0 ? 64 : 128;
    options.pack_heads = (int32_t)s2_gen_in(gen, 1, 4);
    assert_int_equal(
        s2_plan_build(arena, test->pattern, S2_PREFILL, 0, seqs, n_seqs, &options, &test->plan, NULL), S2_OK);
    if (number % 3 == 0) {
        s2_plan some;
        assert_int_equal(s2_plan_select(arena, &test->plan, keep_drawn, gen, &some), S2_OK);
        test->plan = some;
    }
    assert_int_equal(s2_plan_flatten(arena, &test->plan, &test->flat), S2_OK);
    draw_options(gen, &test->plan, &test->options);
    assert_int_equal(s2_plan_transpose(arena, &test->plan, &test->flat, &test->options, &test->columns),
                     S2_OK);
}

/* Whether the entry says that position p reads key k of the column's block number sub. */
static bool entry_reads(const s2_case *test, const s2_plan_column *column, int64_t e, int32_t sub, int64_t p,
                        int64_t k)
{
    const s2_plan *const plan = &test->plan;
    const s2_plan_column_entry *const entry = &test->columns.entries[e];
    const int64_t first = s2_plan_tile_begin(plan, column->seq, 0) + entry->step * S2_COLUMN_STEP_TOK;
    const int64_t row = p - first, in_blk = k % plan->blk_tok;
    if (row < 0 || row >= S2_COLUMN_STEP_TOK)
        return false;
    if (entry->full)
        return true;
    if ((entry->reads >> (4 * sub + row / S2_PLAN_SLAB_TOK) & 1) == 0)
        return false;
    if (entry->edge && ((plan->pattern->causal && k > p) || k >= plan->seqs[column->seq].k_tok))
        return false;
    if (entry->edge && test->options.window_edges && p - k >= s2_plan_window(plan))
        return false;
    const int32_t mask =
        test->columns.masks != NULL ? test->columns.masks[e * test->columns.n_sub + sub] : -1;
    const int64_t mask_row = p % plan->options.tile_tok;
    const int64_t at = ((int64_t)mask * plan->options.tile_tok + mask_row) * plan->mask_words + in_blk / 32;
    return mask < 0 || (test->flat.bits[at] >> (in_blk % 32) & 1) != 0;
}

static uint8_t *read_cell(const s2_case *test, uint8_t *reads, int32_t seq, int32_t head, int64_t p,
                          int64_t k)
{
    return &reads[(((int64_t)seq * test->plan.pattern->n_heads + head) * 512 + p) * 512 + k];
}

/* Count in `reads` every pair that a column lists, query by query. */
static void mark_column(const s2_case *test, const s2_plan_column *column, uint8_t *reads)
{
    const s2_plan *const plan = &test->plan;
    const s2_plan_seq lens = plan->seqs[column->seq];
    const int32_t group = plan->pattern->n_heads / plan->pattern->n_kv_heads;
    for (int32_t sub = 0; sub < test->columns.n_sub; sub++) {
        const int32_t blk = test->columns.blocks[column->blocks + sub];
        const int64_t k_begin = (int64_t)blk * plan->blk_tok;
        for (int64_t e = column->begin; blk >= 0 && e < column->begin + column->n; e++) {
            const s2_plan_column_entry *const entry = &test->columns.entries[e];
            const int64_t first = s2_plan_tile_begin(plan, column->seq, 0) + entry->step * S2_COLUMN_STEP_TOK;
            for (int64_t p = first; p < first + S2_COLUMN_STEP_TOK; p++)
                for (int64_t k = k_begin; k < k_begin + plan->blk_tok && k < lens.k_tok; k++)
                    if (p >= lens.k_tok - lens.q_tok && p < lens.k_tok &&
                        entry_reads(test, column, e, sub, p, k))
                        for (int32_t h = 0; h < column->n_heads; h++)
                            ++*read_cell(test, reads, column->seq, column->kv_head * group + entry->head + h,
                                         p, k);
        }
    }
}

/* Whether the plan has an item for this row. */
static bool row_is_planned(const s2_plan *plan, int32_t seq, int32_t head, int64_t p)
{
    for (int32_t at = 0; at < plan->n_items; at++) {
        const s2_plan_item *const item = &plan->items[at];
        const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile);
        if (item->seq == seq && head >= item->head && head < item->head + item->n_heads && p >= begin &&
            p < begin + plan->options.tile_tok)
            return true;
    }
    return false;
}

static int64_t compare_reads(const s2_case *test, uint8_t *reads, uint64_t seed)
{
    const s2_plan *const plan = &test->plan;
    int64_t pairs = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        for (int32_t head = 0; head < plan->pattern->n_heads; head++)
            for (int64_t p = plan->seqs[seq].k_tok - plan->seqs[seq].q_tok; p < plan->seqs[seq].k_tok; p++) {
                const bool planned = row_is_planned(plan, seq, head, p);
                for (int64_t k = 0; k < plan->seqs[seq].k_tok; k++) {
                    const bool want = planned && s2_pattern_reads(plan->pattern, plan->phase, 0, head,
                                                                  plan->seqs[seq].k_tok, p, k);
                    pairs += want;
                    if (*read_cell(test, reads, seq, head, p, k) != want)
                        fail_msg("S2_SEED=%llu: sequence %d, head %d, query %lld, key %lld: %d times",
                                 (unsigned long long)seed, seq, head, (long long)p, (long long)k,
                                 *read_cell(test, reads, seq, head, p, k));
                }
            }
    return pairs;
}

static int64_t count_and_compare(const s2_case *test, uint64_t seed)
{
    const size_t n = (size_t)test->plan.n_seqs * (size_t)test->pattern->n_heads * 512 * 512;
    uint8_t *const reads = s2_calloc(n, 1);
    assert_non_null(reads);
    for (int32_t c = 0; c < test->columns.n_columns; c++)
        mark_column(test, &test->columns.columns[c], reads);
    const int64_t pairs = compare_reads(test, reads, seed);
    s2_free(reads);
    return pairs;
}

static void columns_list_exactly_the_pairs_of_the_definition(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261121);
    const int64_t n_cases = s2_test_cases(80);
    int64_t total = 0;
    for (int64_t number = 0; number < n_cases; number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        s2_case test;
        draw_case(&gen, &arena, number, &test);
        total += count_and_compare(&test, seed + (uint64_t)number);
        s2_arena_release(&arena);
    }
    print_message("# s2: %lld plans transposed, %lld pairs equal to the definition\n", (long long)n_cases,
                  (long long)total);
}

/* Whether some row of the entry's step reads less than all keys of the blocks that the entry names. */
static bool window_cuts(const s2_case *test, const s2_plan_column *column, const s2_plan_column_entry *entry,
                        int32_t window)
{
    const int32_t blk = test->plan.blk_tok;
    const int64_t step = s2_plan_tile_begin(&test->plan, column->seq, 0) + 64 * (int64_t)entry->step;
    for (int32_t bit = 0; bit < 4 * test->columns.n_sub; bit++) {
        const int64_t key = (int64_t)test->columns.blocks[column->blocks + bit / 4] * blk;
        for (int64_t row = step + 16 * (bit % 4), end = row + 16; entry->reads >> bit & 1u && row < end;
             row++)
            if (key + blk - 1 > row || row - key >= window || key + blk > test->plan.seqs[column->seq].k_tok)
                return true;
    }
    return false;
}

static void only_what_a_window_cuts_is_compared(const s2_case *test, int32_t window)
{
    for (int32_t c = 0; c < test->columns.n_columns; c++) {
        const s2_plan_column *const column = &test->columns.columns[c];
        for (int64_t e = column->begin; e < column->begin + column->n; e++)
            assert_int_equal(test->columns.entries[e].edge,
                             window_cuts(test, column, &test->columns.entries[e], window));
    }
}

/* What a window in tokens cuts has no mask for the kernels that compare it: its steps are edges. */
static void edges_say_what_a_window_reads(void **state)
{
    (void)state;
    static const int32_t blocks[] = {16, 32, 64, 128};
    static const s2_kernel_traits *const kernels[] = {&s2_traits_sm90_bwd_fused, &s2_traits_sm90_bwd_ordered};
    const uint64_t seed = s2_test_seed(37);
    for (int64_t number = 0; number < s2_test_cases(60); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        s2_case test;
        char text[120];
        const int32_t group = (int32_t)s2_gen_in(&gen, 1, 3), window = (int32_t)s2_gen_in(&gen, 1, 600);
        const s2_kernel_traits *const traits = kernels[number % 2];
        snprintf(text, sizeof text, "heads %d; kv-heads 2; head-dim 128; block %d; layers all: local %dt",
                 2 * group, blocks[s2_gen_in(&gen, 0, 3)], window);
        test.pattern = S2_NEW(&arena, s2_pattern, 1);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, test.pattern, NULL), S2_OK);
        s2_plan_seq seqs[2];
        for (int32_t seq = 0; seq < 2; seq++) {
            seqs[seq].k_tok = (int32_t)s2_gen_in(&gen, 1, 500);
            seqs[seq].q_tok =
                s2_gen_in(&gen, 0, 3) == 0 ? (int32_t)s2_gen_in(&gen, 1, seqs[seq].k_tok) : seqs[seq].k_tok;
        }
        const s2_plan_options options = s2_kernel_cut(traits, 128);
        assert_int_equal(
            s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, seqs, 2, &options, &test.plan, NULL), S2_OK);
        assert_int_equal(s2_plan_window(&test.plan), window);
        assert_int_equal(s2_kernel_follows(&test.plan), seqs[0].q_tok == seqs[0].k_tok &&
                                                            seqs[1].q_tok == seqs[1].k_tok &&
                                                            window >= s2_kernel_least_window(group));
        assert_int_equal(s2_plan_flatten(&arena, &test.plan, &test.flat), S2_OK);
        test.options = s2_kernel_columns(traits, &test.plan, 8);
        assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &test.options, &test.columns),
                         S2_OK);
        assert_null(test.columns.masks);
        only_what_a_window_cuts_is_compared(&test, window);
        assert_true(count_and_compare(&test, seed + (uint64_t)number) > 0);
        s2_arena_release(&arena);
    }
}

/* Entries stand in four runs: upper half only, other partial ones, full ones, lower half only or, in order, compared. */
static int32_t run_of(const s2_plan_column *column, int32_t e)
{
    if (e < column->n_upper)
        return 0;
    if (e < column->n_partial)
        return 1;
    return e < column->n - column->n_tail ? 2 : 3;
}

static void check_column(const s2_case *test, const s2_plan_column *column)
{
    const s2_plan_column_entry *const entries = &test->columns.entries[column->begin];
    const uint32_t lower = (UINT32_C(1) << (2 * test->columns.n_sub)) - 1;
    for (int32_t e = 0; e < column->n; e++) {
        const int32_t run = run_of(column, e);
        assert_true((run == 2) == entries[e].full);
        assert_true(entries[e].reads != 0);
        assert_true(run != 0 || (entries[e].reads & lower) == 0);
        assert_true(run != 3 || test->options.in_order || (entries[e].reads & ~lower) == 0);
        const bool goes_on = e > 0 && (run == run_of(column, e - 1) || (test->options.in_order && run == 3));
        if (!goes_on)
            continue;
        const s2_plan_column_entry *const before = &entries[e - 1], *const after = &entries[e];
        if (test->options.in_order)
            assert_true(before->step < after->step ||
                        (before->step == after->step && before->head > after->head));
        else
            assert_true(before->step > after->step ||
                        (before->step == after->step && before->head < after->head));
    }
    if (test->options.in_order)
        assert_true(column->n_tail == 0 || column->n_tail < column->n - column->n_partial);
    else
        assert_true(column->n_tail * column->n_heads <= test->options.halves);
    assert_true(column->n_upper == 0 || test->options.halves > 0);
    assert_true((column->chain >= 0) == (column->n_parts > 1));
    assert_true(column->n_parts >= 1 && column->n_parts <= S2_COLUMN_LIMIT_PARTS);
}

static void each_block_has_one_column_and_its_parts_stand_in_order(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(11);
    for (int64_t number = 0; number < s2_test_cases(150); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        s2_case test;
        draw_case(&gen, &arena, number, &test);
        const int32_t n_kv = test.pattern->n_kv_heads, n_sub = test.columns.n_sub;
        int32_t *const seen = S2_NEW(&arena, int32_t, test.plan.n_seqs * n_kv * 512);
        int32_t *const parts = S2_NEW(&arena, int32_t, test.columns.n_chains + 1);
        for (int32_t c = 0; c < test.columns.n_columns; c++) {
            const s2_plan_column *const column = &test.columns.columns[c];
            check_column(&test, column);
            if (column->chain >= 0)
                assert_int_equal(parts[column->chain]++, column->part);
            for (int32_t sub = 0; sub < n_sub && column->part == 0; sub++)
                if (test.columns.blocks[column->blocks + sub] >= 0)
                    seen[(column->seq * n_kv + column->kv_head) * 512 +
                         test.columns.blocks[column->blocks + sub]]++;
        }
        for (int32_t at = 0; at < test.plan.n_seqs * n_kv * 512; at++) {
            const int32_t k_tok = test.plan.seqs[at / 512 / n_kv].k_tok;
            assert_int_equal(seen[at], (at % 512) * test.plan.blk_tok < k_tok);
        }
        s2_arena_release(&arena);
    }
}

static void refused_options_leave_the_output_alone(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_gen gen = {.rng = {3}};
    s2_case test;
    draw_case(&gen, &arena, 0, &test);
    s2_plan_columns out, before;
    memset(&out, 0x5a, sizeof out);
    memcpy(&before, &out, sizeof out);
    s2_plan_column_options bad = test.options;
    bad.key_tok = 16 * test.plan.blk_tok;
    assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &bad, &out), S2_EINVAL);
    bad = test.options;
    bad.part_steps = -2;
    assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &bad, &out), S2_EINVAL);
    bad.part_steps = S2_COLUMN_BALANCED;
    bad.units = 0;
    assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &bad, &out), S2_EINVAL);
    bad.units = 1;
    bad.wave = 0;
    bad.costs.worth = 0;
    assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &bad, &out), S2_EINVAL);
    bad.in_order = true;
    bad.part_steps = 3;
    assert_int_equal(s2_plan_transpose(&arena, &test.plan, &test.flat, &bad, &out), S2_EINVAL);
    assert_memory_equal(&out, &before, sizeof out);
    s2_arena_release(&arena);
}

static void every_allocation_may_fail_without_harm(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_gen gen = {.rng = {5}};
    s2_case test;
    draw_case(&gen, &arena, 1, &test);
    s2_status status = S2_ENOMEM;
    for (int64_t allowed = 0; status != S2_OK && allowed < 10000; allowed++) {
        int64_t left = allowed;
        s2_arena own = {0};
        s2_plan_columns out;
        s2_alloc_set_hook(s2_test_fail_from, &left);
        status = s2_plan_transpose(&own, &test.plan, &test.flat, &test.options, &out);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        s2_arena_release(&own);
    }
    assert_int_equal(status, S2_OK);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ turns */

/* Columns at work, each by one unit, and what has been added to the queries of each head. */
typedef struct s2_adders {
    const s2_case *test;
    int32_t *added; /* [seq][head][step] */
    int32_t next;   /* column */
    struct {
        int32_t column; /* -1: idle */
        int32_t n_done; /* entries */
    } units[8];
} s2_adders;

static int32_t *added_to(const s2_adders *adders, const s2_plan_column *column, int64_t e, int32_t h)
{
    const s2_pattern *const pattern = adders->test->pattern;
    const s2_plan_column_entry *const entry = &adders->test->columns.entries[e];
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    const int64_t head = (int64_t)column->seq * pattern->n_heads + column->kv_head * group + entry->head + h;
    return &adders->added[head * 512 + entry->step];
}

/* One step of a unit, where its turn has come; false: it waits, or no column is left. */
static bool work_on(s2_adders *adders, int32_t unit)
{
    const s2_plan_columns *const columns = &adders->test->columns;
    if (adders->units[unit].column < 0) {
        if (adders->next == columns->n_columns)
            return false;
        adders->units[unit].column = adders->next++;
        adders->units[unit].n_done = 0;
    }
    const s2_plan_column *const column = &columns->columns[adders->units[unit].column];
    if (adders->units[unit].n_done == column->n) {
        adders->units[unit].column = -1;
        return true;
    }
    const int64_t e = column->begin + adders->units[unit].n_done;
    for (int32_t h = 0; h < column->n_heads; h++)
        if (*added_to(adders, column, e, h) != columns->turns[e])
            return false;
    for (int32_t h = 0; h < column->n_heads; h++)
        ++*added_to(adders, column, e, h);
    adders->units[unit].n_done++;
    return true;
}

/* However few units work, in whatever order: the earliest unfinished column never waits. */
static void columns_in_order_add_up_without_waiting_forever(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(29);
    int64_t n_columns = 0;
    for (int64_t number = 0; number < s2_test_cases(150); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        s2_case test;
        draw_case(&gen, &arena, number, &test);
        assert_true((test.columns.turns != NULL) == test.options.in_order);
        s2_adders adders = {.test = &test};
        adders.added = S2_NEW(&arena, int32_t, (int64_t)test.plan.n_seqs * test.pattern->n_heads * 512);
        const int32_t n_units = (int32_t)s2_gen_in(&gen, 1, 8);
        for (int32_t unit = 0; unit < 8; unit++)
            adders.units[unit].column = -1;
        for (bool any = test.options.in_order; any;) {
            any = false;
            for (int32_t unit = 0; unit < n_units; unit++)
                for (int64_t left = s2_gen_in(&gen, 1, 9); left > 0 && work_on(&adders, unit); left--)
                    any = true;
        }
        if (test.options.in_order && adders.next < test.columns.n_columns)
            fail_msg("S2_SEED=%llu: columns wait for each other", (unsigned long long)seed);
        for (int32_t unit = 0; unit < 8; unit++)
            assert_int_equal(adders.units[unit].column, -1);
        n_columns += adders.next;
        s2_arena_release(&arena);
    }
    print_message("# s2: %lld columns in order, none waits forever\n", (long long)n_columns);
}

/* What sm90_bwd_ordered takes: s2_plan_reads_all() against the definition. */
static void a_plan_that_reads_all_is_known(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(31);
    static const char *const rules[] = {"dense",
                                        "local 7",
                                        "local 3",
                                        "local 500t",
                                        "sink 64t",
                                        "local 6 | sink 64t",
                                        "local 9 | stride 2",
                                        "stride 1",
                                        "dense; heads 0: local 2",
                                        "dense; heads 0: local 40"};
    int32_t n_all = 0;
    for (int64_t number = 0; number < s2_test_cases(120); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        s2_pattern pattern;
        s2_plan plan;
        char text[160];
        const size_t rule = (size_t)s2_gen_in(&gen, 0, sizeof rules / sizeof *rules - 1);
        snprintf(text, sizeof text, "heads 2; head-dim 64; block 64; causal %s; layers all: %s",
                 number % 5 == 0 ? "no" : "yes", rules[rule]);
        s2_plan_seq seqs[2];
        for (int32_t seq = 0; seq < 2; seq++) {
            seqs[seq].k_tok = (int32_t)s2_gen_in(&gen, 1, 500);
            seqs[seq].q_tok =
                s2_gen_in(&gen, 0, 3) == 0 ? (int32_t)s2_gen_in(&gen, 1, seqs[seq].k_tok) : seqs[seq].k_tok;
        }
        const s2_plan_options options = s2_kernel_cut(&s2_traits_sm90_bwd_ordered, 64);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, pattern.causal ? 2 : 1,
                                       &options, &plan, NULL),
                         S2_OK);
        bool all = pattern.causal;
        bool each = true; /* key has a query */
        for (int32_t seq = 0; seq < plan.n_seqs; seq++) {
            each = each && seqs[seq].q_tok == seqs[seq].k_tok;
            for (int32_t head = 0; head < 2; head++)
                for (int64_t p = seqs[seq].k_tok - 1, k = 0; k <= p; k++)
                    all = all && s2_pattern_reads(&pattern, S2_PREFILL, 0, head, seqs[seq].k_tok, p, k);
        }
        /* it may overlook some, whose plans have masks or say it in several terms */
        if (s2_plan_reads_all(&plan) && !(all && each))
            fail_msg("S2_SEED=%llu: %s does not read all", (unsigned long long)(seed + (uint64_t)number),
                     text);
        if (strcmp(rules[rule], "dense") == 0 || strcmp(rules[rule], "local 9 | stride 2") == 0)
            assert_int_equal(s2_plan_reads_all(&plan), pattern.causal && each);
        n_all += s2_plan_reads_all(&plan);
        s2_arena_release(&arena);
    }
    assert_true(n_all > 0);
}

/* sm90_bwd_ordered clears no sum: every 64 positions with a query have a column that comes first, which stores its share. */
static void some_column_comes_first(s2_arena *arena, const s2_plan *plan, const s2_plan_columns *columns)
{
    const int32_t n_heads = plan->pattern->n_heads, group = n_heads / plan->pattern->n_kv_heads;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++) {
        const int64_t begin = s2_plan_tile_begin(plan, seq, 0), end = plan->seqs[seq].k_tok;
        const int64_t n_steps = s2_ceil_div(end - begin, S2_COLUMN_STEP_TOK);
        int32_t *const firsts = S2_NEW(arena, int32_t, n_steps * n_heads);
        for (int32_t c = 0; c < columns->n_columns; c++) {
            const s2_plan_column *const column = &columns->columns[c];
            for (int64_t e = column->begin; column->seq == seq && e < column->begin + column->n; e++)
                for (int32_t h = 0; h < column->n_heads; h++)
                    firsts[columns->entries[e].step * n_heads + column->kv_head * group +
                           columns->entries[e].head + h] += columns->turns[e] == 0;
        }
        for (int64_t at = 0; at < n_steps * n_heads; at++)
            assert_int_equal(firsts[at], 1);
    }
}

/*
 * Of a pattern that reads everything, or one window, columns go through the queries in one direction, a KV head at a
 * time, and none begins behind the one before it in the same part. The longest column is whole or has four parts and more: two
 * would wait for one another.
 */
static void columns_that_follow_each_other_ascend(void **state)
{
    (void)state;
    static const struct {
        int32_t heads, k_tok, part_steps, window;
    } cases[] = {{8, 8192, 0, 1024},   {2, 9000, 0, 512},   {8, 32768, 132, 8192}, {16, 30000, 0, 1024},
                 {2, 65536, 0, 16384}, {6, 20000, 0, 1111}, {2, 8192, 0, 0},       {2, 60000, 0, 0},
                 {2, 65536, 256, 0},   {2, 131072, 410, 0}, {4, 8192, 0, 0},       {4, 16384, 128, 0},
                 {4, 32768, 256, 0},   {4, 65536, 410, 0},  {6, 8192, 96, 0},      {8, 8192, 128, 0},
                 {8, 16384, 256, 0},   {8, 32768, 412, 0},  {10, 8192, 130, 0},    {14, 8192, 133, 0},
                 {16, 8192, 128, 0},   {16, 16384, 256, 0}, {32, 8192, 128, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_plan plan;
        s2_plan_flat flat;
        s2_plan_columns columns;
        char text[120];
        char rule[24] = "dense";
        if (cases[c].window > 0)
            snprintf(rule, sizeof rule, "local %dt", cases[c].window);
        snprintf(text, sizeof text, "heads %d; kv-heads 2; head-dim 128; block 64; layers all: %s",
                 cases[c].heads, rule);
        const s2_plan_seq seqs[] = {{cases[c].k_tok, cases[c].k_tok}, {1000, 1000}};
        const s2_plan_options options = s2_kernel_cut(&s2_traits_sm90_bwd_ordered, 128);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, seqs, 2, &options, &plan, NULL),
                         S2_OK);
        assert_int_equal(s2_plan_flatten(&arena, &plan, &flat), S2_OK);
        const s2_plan_column_options cut = s2_kernel_columns(&s2_traits_sm90_bwd_ordered, &plan, 132);
        assert_int_equal(cut.part_steps, cases[c].part_steps);
        assert_true(s2_kernel_follows(&plan));
        assert_int_equal(s2_plan_transpose(&arena, &plan, &flat, &cut, &columns), S2_OK);
        assert_int_equal(columns.n_chains > 0, cut.part_steps > 0);
        some_column_comes_first(&arena, &plan, &columns);
        int32_t most_parts = 0;
        const int32_t width = cut.part_steps > 0 ? cut.part_steps / (cases[c].heads / 2) : INT32_MAX;
        for (int32_t at = 0; at < columns.n_columns; at++) {
            const s2_plan_column *const after = &columns.columns[at];
            const s2_plan_column_entry *const own = &columns.entries[after->begin];
            most_parts = s2_max_i32(most_parts, after->n_parts);
            for (int32_t e = 1; e < after->n; e++)
                assert_true(own[e].step > own[e - 1].step || own[e].head > own[e - 1].head ||
                            (cut.window_edges && run_of(after, e) > run_of(after, e - 1)));
            if (at == 0)
                continue;
            const s2_plan_column *const before = after - 1;
            const int32_t first = columns.entries[before->begin].step;
            if (before->seq == after->seq)
                assert_true(before->kv_head <= after->kv_head);
            /* a short column stays whole, and may be longer than a part that begins before it */
            const bool both_cut = (before->n_parts > 1) == (after->n_parts > 1);
            if (before->seq == after->seq && before->kv_head == after->kv_head && both_cut &&
                own[0].step / width == first / width)
                assert_true(own[0].step <= first);
        }
        assert_true(cut.part_steps > 0 ? most_parts >= 4 : most_parts == 1);
        s2_arena_release(&arena);
    }
}

/* The columns of one layer of a pattern as the gradients of a device of 132 SMs cut them. */
static void cut_columns(s2_arena *arena, const char *text, int32_t n_tok, s2_plan_columns *out)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_plan *const plan = S2_NEW(arena, s2_plan, 1);
    const s2_plan_options options = s2_kernel_cut(&s2_traits_sm90_bwd, 64);
    s2_plan_flat flat;
    assert_int_equal(s2_pattern_parse(arena, text, strlen(text), NULL, pattern, NULL), S2_OK);
    assert_int_equal(
        s2_plan_build(arena, pattern, S2_PREFILL, 0, &(s2_plan_seq){n_tok, n_tok}, 1, &options, plan, NULL),
        S2_OK);
    assert_int_equal(s2_plan_flatten(arena, plan, &flat), S2_OK);
    const s2_plan_column_options cut = s2_kernel_columns(&s2_traits_sm90_bwd, plan, 132);
    assert_int_equal(s2_plan_transpose(arena, plan, &flat, &cut, out), S2_OK);
}

static void a_column_longer_than_its_share_is_cut(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_plan_columns columns;
    cut_columns(&arena, "heads 8; kv-heads 8; head-dim 64; block 64; layers all: local 4; kv 0: dense", 7424,
                &columns);
    int64_t work = 0, longest = 0;
    for (int32_t at = 0; at < columns.n_columns; at++) {
        const int32_t n = columns.columns[at].n;
        work += n;
        longest = n > longest ? n : longest;
        if (at > 0)
            assert_true(n <= columns.columns[at - 1].n);
    }
    /* the dense head's first column has 116 steps, an SM's share is 66 */
    assert_true(columns.n_chains > 0 && longest <= work / 132);
    cut_columns(&arena, "heads 33; kv-heads 33; head-dim 64; block 64; layers all: local 4", 8192, &columns);
    assert_int_equal(columns.n_chains, 0);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_list_exactly_the_pairs_of_the_definition),
        cmocka_unit_test(edges_say_what_a_window_reads),
        cmocka_unit_test(each_block_has_one_column_and_its_parts_stand_in_order),
        cmocka_unit_test(columns_in_order_add_up_without_waiting_forever),
        cmocka_unit_test(a_plan_that_reads_all_is_known),
        cmocka_unit_test(columns_that_follow_each_other_ascend),
        cmocka_unit_test(a_column_longer_than_its_share_is_cut),
        cmocka_unit_test(refused_options_leave_the_output_alone),
        cmocka_unit_test(every_allocation_may_fail_without_harm),
    };
    return cmocka_run_group_tests_name("transpose", tests, NULL, NULL);
}
