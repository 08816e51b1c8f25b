#include "tests/s2test.h"

#include <string.h>

#include "base/alloc.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "pattern/random.h"
#include "plan/follow.h"
#include "plan/launch.h"
#include "tests/s2gen.h"

typedef struct s2_case {
    s2_pattern *pattern;
    s2_plan_options options;
    s2_plan_seq seqs[3];
    int32_t n_seqs;
} s2_case;

static void draw_seqs(s2_gen *gen, s2_case *test)
{
    test->n_seqs = (int32_t)s2_gen_in(gen, 1, gen->causal ? 3 : 1);
    for (int32_t seq = 0; seq < test->n_seqs; seq++) {
        test->seqs[seq].k_tok = (int32_t)s2_gen_in(gen, 1, 420);
        test->seqs[seq].q_tok = s2_gen_in(gen, 0, 2) == 0 ? (int32_t)s2_gen_in(gen, 1, test->seqs[seq].k_tok)
                                                          : test->seqs[seq].k_tok;
    }
}

static s2_case draw_case(s2_gen *gen, s2_arena *arena, int64_t number)
{
    static const int32_t blocks[] = {1, 4, 16, 32, 64, 128, 256}, tiles[] = {16, 32, 48, 64, 128, 192},
                         keys[] = {16, 64, 128};
    s2_case test = {0};
    gen->arithmetic = number % 2 == 0;
    gen->causal = number % 7 != 3;
    const int32_t n_kv = (int32_t)s2_gen_in(gen, 1, 3), group = (int32_t)s2_gen_in(gen, 1, 4);
    test.pattern = s2_gen_pattern(gen, arena, n_kv * group, n_kv, 64, blocks[s2_gen_in(gen, 0, 6)]);
    draw_seqs(gen, &test);
    test.options = s2_plan_options_default();
    test.options.tile_tok = tiles[s2_gen_in(gen, 0, 5)];
    test.options.key_tok = keys[s2_gen_in(gen, 0, 2)];
    test.options.pack_heads = (int32_t)s2_gen_in(gen, 1, 4);
    test.options.section_bytes = s2_gen_in(gen, 0, 1) * 100000;
    return test;
}

/* Whether the list says that position p reads key k. */
static bool list_reads(const s2_plan *plan, const s2_plan_list *list, int64_t tile_begin, int64_t k_tok,
                       int64_t p, int64_t k)
{
    const int64_t row = p - tile_begin;
    for (int32_t e = 0; e < list->n_entries; e++) {
        const s2_plan_entry entry = list->entries[e];
        const int64_t in_blk = k - (int64_t)entry.k_blk * plan->blk_tok;
        if (in_blk < 0 || in_blk >= plan->blk_tok || (entry.slabs >> (row / S2_PLAN_SLAB_TOK) & 1) == 0)
            continue;
        if (entry.full)
            return true;
        if (entry.edge && ((plan->pattern->causal && k > p) || k >= k_tok))
            continue;
        const int64_t at =
            ((int64_t)entry.mask * plan->options.tile_tok + row) * plan->mask_words + in_blk / 32;
        if (entry.mask < 0 || (list->bits[at] >> (in_blk % 32) & 1) != 0)
            return true;
    }
    return false;
}

static int64_t compare_tile(const s2_plan *plan, const s2_plan_item *item, const s2_plan_list *list)
{
    const s2_plan_seq lens = plan->seqs[item->seq];
    const int64_t begin = s2_plan_tile_begin(plan, item->seq, item->tile);
    int64_t pairs = 0;
    for (int64_t p = begin; p < begin + plan->options.tile_tok; p++) {
        if (p < lens.k_tok - lens.q_tok || p >= lens.k_tok)
            continue;
        for (int64_t k = 0; k < lens.k_tok; k++) {
            const bool listed = list_reads(plan, list, begin, lens.k_tok, p, k);
            pairs += listed;
            for (int32_t head = item->head; head < item->head + item->n_heads; head++)
                if (s2_pattern_reads(plan->pattern, plan->phase, plan->layer, head, lens.k_tok, p, k) !=
                    listed)
                    fail_msg("head %d, query %lld, key %lld: the plan says %d", head, (long long)p,
                             (long long)k, listed);
        }
    }
    return pairs * item->n_heads;
}

static void check_shape(const s2_plan *plan, const s2_plan_list *list)
{
    for (int32_t e = 0; e < list->n_entries; e++) {
        assert_true((e >= list->n_partial) == (list->entries[e].full != 0));
        assert_true(list->entries[e].slabs != 0);
        if (e > 0 && e != list->n_partial)
            assert_true(list->entries[e].k_blk > list->entries[e - 1].k_blk);
        assert_true(list->entries[e].mask < list->n_masks);
    }
    assert_true(plan->blk_tok <= plan->options.key_tok);
}

static void each_tile_lists_exactly_the_pairs_of_the_definition(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261121);
    const int64_t n_cases = s2_test_cases(150);
    int64_t total = 0;
    for (int64_t number = 0; number < n_cases; number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        const s2_case test = draw_case(&gen, &arena, number);
        s2_plan plan;
        s2_diag why = {0};
        const s2_status status = s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                               &test.options, &plan, &why);
        if (status != S2_OK)
            fail_msg("S2_SEED=%llu: %s %s", (unsigned long long)(seed + (uint64_t)number),
                     s2_status_text(status), why.msg);
        s2_plan_list list = {0};
        int64_t pairs = 0;
        for (int32_t at = 0; at < plan.n_items; at++) {
            const s2_plan_item *const item = &plan.items[at];
            assert_int_equal(s2_plan_tile_list(&plan, item->cls, item->seq, item->tile, &list), S2_OK);
            assert_int_equal(list.n_entries, item->n_blk);
            check_shape(&plan, &list);
            pairs += compare_tile(&plan, item, &list);
        }
        assert_int_equal(pairs, plan.counts.pairs);
        assert_true(plan.counts.pairs <= plan.counts.pairs_executed);
        total += pairs;
        s2_plan_list_release(&list);
        s2_arena_release(&arena);
    }
    print_message("# s2: %lld plans, %lld pairs equal to the definition\n", (long long)n_cases,
                  (long long)total);
}

static void items_cover_each_tile_of_each_head_once_and_the_longest_come_first(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(7);
    for (int64_t number = 0; number < s2_test_cases(60); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        const s2_case test = draw_case(&gen, &arena, number);
        s2_plan plan;
        assert_int_equal(s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                       &test.options, &plan, NULL),
                         S2_OK);
        uint8_t seen[3][16][64] = {0};
        for (int32_t at = 0; at < plan.n_items; at++) {
            const s2_plan_item item = plan.items[at];
            if (at > 0 && item.section == plan.items[at - 1].section)
                assert_true(item.n_blk <= plan.items[at - 1].n_blk);
            if (at > 0)
                assert_true(item.section >= plan.items[at - 1].section);
            for (int32_t head = item.head; head < item.head + item.n_heads; head++) {
                assert_int_equal(plan.class_of[head], item.cls);
                assert_int_equal(seen[item.seq][head][item.tile]++, 0);
            }
        }
        for (int32_t seq = 0; seq < test.n_seqs; seq++)
            for (int32_t head = 0; head < test.pattern->n_heads; head++)
                for (int32_t tile = 0; tile < s2_plan_n_tiles(&plan, seq); tile++)
                    assert_int_equal(seen[seq][head][tile], 1);
        s2_arena_release(&arena);
    }
}

static void flattened_lists_equal_the_enumerated_ones(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(99);
    for (int64_t number = 0; number < s2_test_cases(60); number++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {seed + (uint64_t)number}};
        const s2_case test = draw_case(&gen, &arena, number);
        s2_plan plan;
        s2_plan_flat flat;
        assert_int_equal(s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                       &test.options, &plan, NULL),
                         S2_OK);
        assert_int_equal(s2_plan_flatten(&arena, &plan, &flat), S2_OK);
        s2_plan_list list = {0};
        const size_t mask_len = (size_t)(plan.options.tile_tok * plan.mask_words);
        for (int32_t at = 0; at < plan.n_items; at++) {
            const s2_plan_item item = plan.items[at];
            const s2_plan_span span = flat.span_of[at];
            assert_int_equal(s2_plan_tile_list(&plan, item.cls, item.seq, item.tile, &list), S2_OK);
            assert_int_equal(span.n, list.n_entries);
            assert_int_equal(span.n_partial, list.n_partial);
            for (int32_t e = 0; e < span.n; e++) {
                const s2_plan_entry a = flat.entries[span.begin + e], b = list.entries[e];
                assert_true(a.k_blk == b.k_blk && a.slabs == b.slabs && a.edge == b.edge && a.full == b.full);
                assert_true((a.mask < 0) == (b.mask < 0));
                if (a.mask >= 0)
                    assert_memory_equal(&flat.bits[(size_t)a.mask * mask_len],
                                        &list.bits[(size_t)b.mask * mask_len], mask_len * sizeof(uint32_t));
            }
        }
        s2_plan_list_release(&list);
        s2_arena_release(&arena);
    }
}

/* Phi-3-small's sparse layer: 32 query heads on 8 KV heads, local 16, stride 8 with the head's phase. */
static s2_pattern *phi3(s2_arena *arena, bool by_kv)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_body *const body = S2_NEW(arena, s2_body, 1);
    s2_term *const terms = S2_NEW(arena, s2_term, 2);
    terms[0] = s2_term_init(S2_TERM_LOCAL, 16);
    terms[1] = s2_term_init(S2_TERM_STRIDE, 8);
    terms[1].offset = (s2_offset_expr){1, !by_kv, by_kv, 0};
    *body = (s2_body){2, terms};
    *pattern = (s2_pattern){.name = "phi3",
                            .model = "",
                            .n_layers = 1,
                            .n_heads = 32,
                            .n_kv_heads = 8,
                            .head_dim = 128,
                            .block_tok = 64,
                            .causal = true,
                            .n_bodies = 1,
                            .bodies = body,
                            .body_of = S2_NEW(arena, uint16_t, 64)};
    return pattern;
}

static void phi3_small_has_eight_classes_and_the_known_density(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_plan plan;
    const s2_plan_seq seq = {8192, 8192};
    s2_plan_options options = s2_plan_options_default();
    options.pack_heads = 4;
    assert_int_equal(
        s2_plan_build(&arena, phi3(&arena, false), S2_PREFILL, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    assert_int_equal(plan.n_classes, 8);
    assert_int_equal(plan.pack_heads, 1);
    assert_true(plan.classes[0].periodic && plan.classes[0].block_exact);
    const double density = (double)plan.counts.pairs / (double)plan.counts.pairs_causal;
    s2_assert_close(density, 0.32418, 0.00001); /* by tokens; 0.32934 by blocks */
    print_message("# s2: phi-3-small at 8192: density %.5f, executed / useful %.4f\n", density,
                  (double)plan.counts.pairs_executed / (double)plan.counts.pairs);
    assert_int_equal(s2_plan_build(&arena, phi3(&arena, true), S2_PREFILL, 0, &seq, 1, &options, &plan, NULL),
                     S2_OK);
    assert_int_equal(plan.pack_heads, 4);
    assert_int_equal(plan.n_items, 8 * 64);
    s2_arena_release(&arena);
}

static void sections_are_of_one_size(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_plan_seq seq = {8192, 8192};
    for (int64_t heads = 1; heads <= 8; heads++) {
        int32_t n_items[8] = {0}, least = INT32_MAX, most = 0, section = 0;
        s2_plan plan;
        s2_plan_options options = s2_plan_options_default();
        s2_pattern *const pattern = phi3(&arena, true);
        assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL),
                         S2_OK);
        options.section_bytes = plan.items[0].n_blk * 64 * 128 * 4 * heads + 1;
        assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL),
                         S2_OK);
        for (int32_t at = 0; at < plan.n_items; at++)
            n_items[plan.items[at].section]++;
        for (; section < 8 && n_items[section] > 0; section++) {
            least = n_items[section] < least ? n_items[section] : least;
            most = n_items[section] > most ? n_items[section] : most;
        }
        assert_int_equal(plan.items[plan.n_items - 1].section, section - 1);
        assert_true(most - least <= 64 * 4); /* one KV head: 64 tiles of four query heads */
    }
    s2_arena_release(&arena);
}

static void long_dense_plans_need_no_lists(void **state)
{
    (void)state;
    s2_arena arena = {.limit_bytes = 16 << 20};
    s2_plan plan;
    s2_pattern *const pattern = phi3(&arena, true);
    const s2_plan_seq seq = {1 << 20, 1 << 20};
    const s2_plan_options options = s2_plan_options_default();
    assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    assert_int_equal(plan.n_items, 32 * 8192);
    s2_arena_release(&arena);
}

/* Blocks below 16 rows are lists, but for what no block matters to: 32 heads of them would take 300 GB. */
static void small_blocks_need_no_lists_where_none_matters(void **state)
{
    (void)state;
    const s2_term_kind kinds[] = {S2_TERM_DENSE, S2_TERM_LOCAL, S2_TERM_SINK};
    const s2_plan_seq seq = {1 << 20, 1 << 20};
    const s2_plan_options options = s2_plan_options_default();
    for (size_t at = 0; at < sizeof kinds / sizeof *kinds; at++)
        for (int32_t block_tok = 1; block_tok < 16; block_tok *= 2) {
            s2_arena arena = {.limit_bytes = 32 << 20};
            s2_plan plan, like;
            s2_pattern *const pattern = phi3(&arena, true);
            s2_term term = s2_term_init(kinds[at], 100);
            term.tok = kinds[at] != S2_TERM_DENSE;
            pattern->bodies = &(s2_body){1, &term};
            assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &like, NULL),
                             S2_OK);
            pattern->block_tok = block_tok;
            assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL),
                             S2_OK);
            assert_true(plan.classes[0].periodic);
            assert_int_equal(plan.counts.pairs, like.counts.pairs);
            s2_arena_release(&arena);
        }
}

/* With the work that a plan and its lists take they are made, with a step less they are not. */
static void planning_ends_where_its_work_does(void **state)
{
    (void)state;
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        s2_arena arena = {0};
        s2_gen gen = {.rng = {s2_test_seed(0) + (uint64_t)at}};
        s2_case test = draw_case(&gen, &arena, at);
        s2_plan plan;
        s2_plan_flat flat;
        const int64_t plenty = INT64_C(1) << 40;
        int64_t left = plenty;
        test.options.work_left = &left;
        assert_int_equal(s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                       &test.options, &plan, NULL),
                         S2_OK);
        const int64_t built = plenty - left;
        assert_int_equal(s2_plan_flatten(&arena, &plan, &flat), S2_OK);
        const int64_t all = plenty - left;
        if (all > built) {
            left = all - built - 1;
            assert_int_equal(s2_plan_flatten(&arena, &plan, &flat), S2_ELIMIT);
        }
        left = built;
        assert_int_equal(s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                       &test.options, &plan, NULL),
                         S2_OK);
        assert_int_equal(left, 0);
        if (built > 0) {
            left = built - 1;
            assert_int_equal(s2_plan_build(&arena, test.pattern, S2_PREFILL, 0, test.seqs, test.n_seqs,
                                           &test.options, &plan, NULL),
                             S2_ELIMIT);
        }
        s2_arena_release(&arena);
    }
}

static void refused_options_and_lengths_leave_the_output_alone(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern *const pattern = phi3(&arena, true);
    const s2_plan_options good = s2_plan_options_default();
    const struct {
        const char *label;
        int32_t tile_tok, key_tok;
        s2_plan_seq seq;
        int32_t layer;
        bool causal;
    } rows[] = {
        {"tile of 100", 100, 128, {8, 8}, 0, true},
        {"tile of 1024", 1024, 128, {8, 8}, 0, true},
        {"step of 96", 128, 96, {8, 8}, 0, true},
        {"no query", 128, 128, {0, 8}, 0, true},
        {"more queries than keys", 128, 128, {9, 8}, 0, true},
        {"no such layer", 128, 128, {8, 8}, 1, true},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        s2_plan plan = {.n_items = -77};
        s2_plan_options options = good;
        s2_diag why = {0};
        options.tile_tok = rows[at].tile_tok;
        options.key_tok = rows[at].key_tok;
        print_message("# %s\n", rows[at].label);
        assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, rows[at].layer, &rows[at].seq, 1,
                                       &options, &plan, &why),
                         S2_EINVAL);
        assert_int_equal(plan.n_items, -77);
        assert_true(why.msg[0] != '\0');
    }
    s2_arena_release(&arena);
}

static void terms_chosen_at_run_time_are_refused_with_a_reason(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern *const pattern = phi3(&arena, true);
    s2_term *const term = S2_NEW(&arena, s2_term, 1);
    *term = s2_term_init(S2_TERM_HEAVY, 64);
    term->tok = true;
    *(s2_body *)(uintptr_t)pattern->bodies = (s2_body){1, term};
    const s2_plan_seq seq = {128, 128};
    const s2_plan_options options = s2_plan_options_default();
    s2_plan plan;
    s2_diag why = {0};
    assert_int_equal(s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, &why),
                     S2_EUNSUPPORTED);
    assert_non_null(strstr(why.msg, "run time"));
    s2_arena_release(&arena);
}

static void every_allocation_may_fail_without_harm(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {5}, .causal = true};
    for (int64_t nth = 0;; nth++) {
        s2_arena arena = {0}, made = {0};
        s2_gen again = gen;
        const s2_pattern *const pattern = s2_gen_pattern(&again, &made, 6, 3, 64, 64);
        const s2_plan_seq seq = {200, 300};
        const s2_plan_options options = s2_plan_options_default();
        s2_plan plan;
        s2_plan_flat flat;
        int64_t left = nth;
        s2_alloc_set_hook(s2_test_fail_one, &left);
        s2_status status = s2_plan_build(&arena, pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL);
        if (status == S2_OK)
            status = s2_plan_flatten(&arena, &plan, &flat);
        s2_alloc_set_hook(NULL, NULL);
        s2_arena_release(&arena);
        s2_arena_release(&made);
        if (left >= 0) {
            assert_int_equal(status, S2_OK);
            assert_true(nth > 4);
            return;
        }
        assert_int_equal(status, S2_ENOMEM);
    }
}

static void layers_that_read_the_same_are_told_once(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern = *phi3(&arena, true);
    s2_body bodies[2] = {pattern.bodies[0]};
    const s2_term dense = s2_term_init(S2_TERM_DENSE, 1);
    bodies[1] = (s2_body){1, &dense};
    uint16_t body_of[2 * 4 * 32];
    for (int32_t at = 0; at < 2 * 4 * 32; at++)
        body_of[at] = (uint16_t)(at / 32 % 2);
    pattern.n_layers = 4;
    pattern.n_bodies = 2;
    pattern.bodies = bodies;
    pattern.body_of = body_of;
    const int32_t *layers;
    int32_t n, layer_of[4];
    assert_int_equal(s2_plan_distinct_layers(&arena, &pattern, S2_PREFILL, &layers, &n, layer_of), S2_OK);
    assert_int_equal(n, 2);
    assert_true(layers[0] == 0 && layers[1] == 1 && layer_of[2] == 0 && layer_of[3] == 1);
    s2_arena_release(&arena);
}

/* A pattern with random lists names its blocks by seed alone: another way of drawing must find the same. */
static void random_lists_stay_the_ones_that_were_always_drawn(void **state)
{
    (void)state;
    int32_t list[S2_LIMIT_RANDOM];
    uint64_t sum = UINT64_C(14695981039346656037);
    for (int64_t n = 1; n <= S2_LIMIT_RANDOM; n = n * 3 / 2 + 1)
        for (int64_t n_choices = 1; n_choices < 20000; n_choices = n_choices * 5 / 4 + 1)
            for (int32_t at = 0; at < 6; at++) {
                const int32_t have =
                    s2_random_row((uint64_t)at * 77, at, at * 3, n_choices - 1, n, n_choices, list);
                assert_int_equal(have, n < n_choices ? n : n_choices);
                sum = (sum ^ (uint64_t)have) * UINT64_C(1099511628211);
                for (int32_t e = 0; e < have; e++) {
                    assert_true(list[e] < n_choices && (e == 0 || list[e] > list[e - 1]));
                    sum = (sum ^ (uint64_t)list[e]) * UINT64_C(1099511628211);
                }
            }
    assert_true(sum == UINT64_C(0x451432f3a01023fa));
}

/* One list of 64 rows of head dimension 128 on 132 SMs; what a chip of each kind is given. */
static void decode_launches_are_decided_for_the_chip(void **state)
{
    (void)state;
    const s2_pattern pattern = {.n_heads = 64, .n_kv_heads = 1, .head_dim = 128};
    const s2_plan_seq seq = {1, 4096};
    const s2_plan plan = {.pattern = &pattern, .n_seqs = 1, .seqs = &seq, .blk_tok = 64};
    const s2_decode_launch ampere = s2_decode_launch_of((s2_chip){80, 132}, &plan, 128, false, false);
    const s2_decode_launch hopper = s2_decode_launch_of((s2_chip){90, 132}, &plan, 128, false, false);
    const s2_decode_launch blackwell = s2_decode_launch_of((s2_chip){100, 132}, &plan, 256, false, false);
    const s2_decode_launch selects = s2_decode_launch_of((s2_chip){90, 132}, &plan, 128, true, false);
    assert_int_equal(ampere.row_tiles, 4);
    assert_int_equal(ampere.n_chunks, 2);
    assert_int_equal(ampere.n_parts, 66);
    assert_int_equal(hopper.row_tiles, 8);
    assert_int_equal(hopper.n_chunks, 1);
    assert_int_equal(hopper.n_parts, 264);
    assert_int_equal(hopper.single_parts, 132);
    assert_int_equal(hopper.list_slabs, 6);
    assert_int_equal(blackwell.list_slabs, 3);
    assert_true(hopper.many_rows && !selects.many_rows);
    assert_int_equal(blackwell.row_tiles, 2);
    assert_int_equal(blackwell.residents, 1);
    assert_true(s2_decode_launch_leaves_room((s2_chip){90, 132}, &hopper, 132));
    assert_false(s2_decode_launch_leaves_room((s2_chip){90, 132}, &hopper, 133));
    assert_false(s2_decode_launch_leaves_room((s2_chip){80, 132}, &ampere, 1));
}

/* Of a batch, the shortest sequence counts; larger groups need longer ones. */
static void short_contexts_are_not_for_gradients_in_order(void **state)
{
    (void)state;
    s2_pattern pattern = {.n_heads = 4, .n_kv_heads = 2};
    s2_plan_seq seqs[] = {{32768, 32768}, {4096, 4096}};
    const s2_plan plan = {.pattern = &pattern, .n_seqs = 2, .seqs = seqs};
    assert_true(s2_kernel_takes_lengths(&s2_traits_sm90_bwd_ordered, &plan));
    seqs[1].k_tok--;
    assert_false(s2_kernel_takes_lengths(&s2_traits_sm90_bwd_ordered, &plan));
    assert_true(s2_kernel_takes_lengths(&s2_traits_sm90_bwd, &plan));
    pattern.n_heads = 6;
    seqs[1].k_tok = 8192;
    assert_true(s2_kernel_takes_lengths(&s2_traits_sm90_bwd_ordered, &plan));
    seqs[1].k_tok--;
    assert_false(s2_kernel_takes_lengths(&s2_traits_sm90_bwd_ordered, &plan));
}

/* Gradients that are summed as they come cut other columns than those that are not, and Ampere's cut none. */
static void columns_are_cut_for_the_kernel(void **state)
{
    (void)state;
    const s2_pattern pattern = {.n_heads = 8, .n_kv_heads = 2, .head_dim = 128};
    const s2_plan_seq seq = {8192, 8192};
    s2_plan plan = {.pattern = &pattern, .n_seqs = 1, .seqs = &seq, .blk_tok = 64, .options.key_tok = 64};
    const s2_plan_column_options split = s2_kernel_columns(&s2_traits_sm90_bwd, &plan, 132);
    const s2_plan_column_options fused = s2_kernel_columns(&s2_traits_sm90_bwd_fused, &plan, 132);
    const s2_plan_column_options ampere = s2_kernel_columns(&s2_traits_sm80_bwd, &plan, 132);
    const s2_plan_column_options unknown = s2_kernel_columns(NULL, &plan, 132);
    assert_int_equal(split.key_tok, 128);
    assert_int_equal(split.part_steps, S2_COLUMN_BALANCED);
    assert_int_equal(split.wave, 0);
    assert_int_equal(fused.key_tok, 128);
    assert_int_equal(fused.part_steps, 32);
    assert_int_equal(fused.wave, 132);
    assert_int_equal(ampere.key_tok, 64);
    assert_int_equal(ampere.part_steps, 0);
    assert_int_equal(unknown.key_tok, 64);
    plan.blk_tok = 4;
    assert_int_equal(s2_kernel_columns(&s2_traits_cpu_bwd, &plan, 1).key_tok, 32);
}

/*
 * When the last of a sequence's ranges is done, in units, all of them begun at once: a range takes the sums of the one
 * after it when the units of a window and one more are left, and has its own for the one before it after as many.
 */
static int64_t end_of_ranges(int64_t n_units, int32_t n_ranges)
{
    const int64_t window = S2_WINDOW_MOST_TOK / S2_WINDOW_UNIT_TOK;
    int64_t end = 0, sums_of_next = 0;
    for (int64_t range = n_ranges; range-- > 0;) {
        const int64_t n = n_units * (range + 1) / n_ranges - n_units * range / n_ranges,
                      takes = s2_max_i64(n - window - 1, 0),
                      waits = range == n_ranges - 1 ? 0 : s2_max_i64(sums_of_next - takes, 0);
        sums_of_next = takes < window ? window + waits : window;
        end = s2_max_i64(end, n + waits);
    }
    return end;
}

/* Heads of one group leave most blocks of threads to be filled by ranges of its sequence: many short ones. */
static void no_range_of_a_short_window_waits_for_the_one_after_it(void **state)
{
    (void)state;
    s2_gen gen = {.rng = {s2_test_seed(11)}};
    for (int64_t number = 0; number < s2_test_cases(300); number++) {
        const int32_t kv_heads = (int32_t)s2_gen_in(&gen, 1, 16), blocks = (int32_t)s2_gen_in(&gen, 1, 148);
        const s2_pattern pattern = {.n_heads = 8 * kv_heads, .n_kv_heads = kv_heads, .head_dim = 64};
        s2_plan_seq seqs[3] = {{0, 0}};
        for (int32_t seq = 0; seq < 3; seq++)
            seqs[seq].q_tok = seqs[seq].k_tok = (int32_t)s2_gen_in(&gen, 1, number % 2 == 0 ? 700 : 20000);
        const s2_plan plan = {.pattern = &pattern, .n_seqs = 3, .seqs = seqs};
        const int32_t longest = s2_window_longest_range(&plan, blocks);
        for (int32_t seq = 0; seq < 3; seq++) {
            const int32_t n_units = s2_window_units(&plan, seq), n = s2_window_ranges(&plan, seq, longest);
            assert_in_range(n, 1, n_units);
            assert_int_equal(end_of_ranges(n_units, n), s2_ceil_div(n_units, n));
        }
    }
}

static void kernels_run_on_the_chips_that_their_traits_name(void **state)
{
    (void)state;
    static const struct {
        const s2_kernel_traits *traits;
        int32_t capability;
        bool runs;
        int32_t most_dim;
    } rows[] = {{&s2_traits_cpu, 0, true, 0},          {&s2_traits_sm80, 0, false, 256},
                {&s2_traits_sm80, 80, true, 256},      {&s2_traits_sm80_bwd, 80, true, 256},
                {&s2_traits_sm80_bwd, 86, true, 128},  {&s2_traits_sm80_bwd, 90, true, 256},
                {&s2_traits_sm80_bwd, 120, true, 128}, {&s2_traits_decode, 75, false, 256},
                {&s2_traits_decode, 80, true, 256},    {&s2_traits_decode, 86, false, 256},
                {&s2_traits_decode, 89, false, 256},   {&s2_traits_decode, 90, true, 256},
                {&s2_traits_decode, 100, true, 256},   {&s2_traits_decode, 120, false, 256},
                {&s2_traits_sm90, 89, false, 256},     {&s2_traits_sm90, 90, true, 256},
                {&s2_traits_sm90, 100, false, 256},    {&s2_traits_sm90_bwd_fused, 90, true, 128}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        const s2_kernel_traits *const traits = rows[row].traits;
        const int32_t capability = rows[row].capability, most = rows[row].most_dim;
        assert_int_equal(s2_kernel_runs_on(traits, capability), rows[row].runs);
        assert_int_equal(s2_kernel_most_dim(traits, capability), most);
        assert_true(most == 0 || s2_kernel_takes_dim(traits, capability, most));
        assert_false(most > 0 && s2_kernel_takes_dim(traits, capability, most + traits->dim_step));
        assert_true(traits->dim_step == 0 || !s2_kernel_takes_dim(traits, capability, traits->dim_step + 1));
    }
}

/* docs/notes/kernels.md has the times of these. */
static void steps_are_cut_as_is_fastest(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        int32_t q_tok, k_tok, batch;
        bool two, whole; /* blocks of threads an SM; lists */
    } cases[] = {
        {"heads 64; kv-heads 2; layers all: dense", 1, 2048, 64, true, false},
        {"heads 128; kv-heads 1; head-dim 64; layers all: dense", 1, 16384, 8, true, false},
        {"heads 64; kv-heads 8; layers all: dense", 4, 1024, 8, true, false},
        {"heads 64; kv-heads 8; layers all: dense", 4, 64, 64, true, true},
        {"heads 48; kv-heads 1; layers all: dense", 4, 128, 16, false, true},
        {"heads 32; kv-heads 1; layers all: dense", 1, 65536, 1, false, false},
        {"heads 128; kv-heads 4; head-dim 64; layers all: dense", 1, 1888, 2, false, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 8192, 1, false, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 65536, 8, true, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 32768, 1, false, false},
        {"heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv", 1, 131072, 1, false, false},
        {"heads 24; kv-heads 12; head-dim 96; layers all: dense", 1, 2048, 4, true, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 1, 32, true, true},
        {"heads 32; kv-heads 8; layers all: dense", 1, 64, 32, true, true},
        {"heads 32; kv-heads 32; layers all: dense", 1, 65, 3, false, true},
        {"heads 64; kv-heads 8; head-dim 64; layers all: local 128t", 1, 4096, 64, true, true},
        {"heads 48; kv-heads 24; layers all: local 99t", 1, 580, 64, true, true},
        {"heads 32; kv-heads 32; layers all: local 16", 1, 32768, 1, false, false},
        {"heads 32; kv-heads 32; layers all: local 8 | stride 16 phase head", 1, 32768, 1, false, false},
        {"heads 28; kv-heads 4; layers all: local 16 | stride 8 phase kv", 1, 8192, 4, false, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 4096, 2, false, false},
        {"heads 16; kv-heads 16; layers all: dense", 1, 2048, 4, true, false},
        {"heads 24; kv-heads 8; layers all: dense", 1, 700, 12, true, false},
        {"heads 40; kv-heads 10; layers all: dense", 1, 1500, 8, true, false},
        {"heads 40; kv-heads 10; layers all: local 16 | stride 8 phase kv", 1, 6000, 2, false, false},
        {"heads 24; kv-heads 8; layers all: local 16", 1, 40000, 6, false, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 8192, 57, true, false},
        {"heads 32; kv-heads 8; layers all: dense", 1, 4096, 8, true, false}};
    for (size_t nth = 0; nth < sizeof cases / sizeof *cases; nth++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_plan plan;
        s2_decode_plan step;
        s2_plan_seq seqs[64];
        const s2_plan_options options = {.tile_tok = 16, .key_tok = 64, .pack_heads = 1, .elem_bytes = 2};
        for (int32_t seq = 0; seq < cases[nth].batch; seq++)
            seqs[seq] = (s2_plan_seq){cases[nth].q_tok, cases[nth].k_tok};
        assert_int_equal(
            s2_pattern_parse(&arena, cases[nth].pattern, strlen(cases[nth].pattern), NULL, &pattern, NULL),
            S2_OK);
        assert_int_equal(s2_plan_build_classes(&arena, &pattern, S2_DECODE, 0, seqs, cases[nth].batch,
                                               &options, &plan, NULL),
                         S2_OK);
        s2_decode_launch how = s2_decode_launch_of((s2_chip){90, 132}, &plan, pattern.head_dim, false, false);
        assert_int_equal(s2_decode_plan_build(&arena, &plan, NULL, how.n_parts, &step, NULL), S2_OK);
        assert_int_equal(s2_decode_launch_fit(&arena, &how, &step), S2_OK);
        bool whole = true;
        for (int32_t list = 0; list < step.n_lists; list++)
            whole = whole && step.lists[list].n_parts <= 1;
        if ((step.n_parts > how.single_parts) != cases[nth].two || whole != cases[nth].whole)
            fail_msg("%s, %d of %d: %d parts%s", cases[nth].pattern, cases[nth].batch, cases[nth].k_tok,
                     step.n_parts, whole ? " of whole lists" : "");
        assert_int_equal(step.parts[step.n_parts - 1].slab_end, step.n_slabs);
        for (int32_t list = 0; list < step.n_lists; list++)
            assert_true(step.lists[list].first_part + step.lists[list].n_parts <= step.n_parts);
        s2_arena_release(&arena);
    }
}

/*
 * A row with a random list is made once for a tile, however many blocks of it need masks: beside some steps for each
 * row, those of a list go with its blocks and their rows.
 */
static void a_row_is_made_once_for_all_blocks_of_a_list(void **state)
{
    (void)state;
    enum { N_TOK = 4096, DRAWN = 8, A_RUN = 16, A_ROW = A_RUN * DRAWN };
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_plan plan;
    s2_plan_options options = s2_plan_options_default();
    const s2_plan_seq seq = {N_TOK, N_TOK};
    int64_t left = INT64_MAX;
    options.work_left = &left;
    const char *const text = "heads 1; block 1; all: local 1 | random 8 seed 3";
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    const int64_t spent = INT64_MAX - left, rows = plan.options.tile_tok,
                  most = 4 * (int64_t)N_TOK * A_ROW + 4 * plan.counts.n_blk_loaded * rows * plan.mask_words;
    assert_true(plan.counts.n_blk_partial > N_TOK);
    if (spent > most)
        fail_msg("%lld steps for %lld blocks, %lld at most", (long long)spent,
                 (long long)plan.counts.n_blk_loaded, (long long)most);
    s2_arena_release(&arena);
}

/* Classes are found by hash: they are those that comparing each head with all before it finds. */
static void layers_and_heads_that_read_alike_are_found_among_thousands(void **state)
{
    (void)state;
    enum { LAYERS = 24, HEADS = 96 };
    s2_arena arena = {0};
    s2_rng rng = {s2_test_seed(17)};
    s2_buf text = {0};
    s2_pattern pattern;
    s2_buf_printf(&text, "layers %d; heads %d; block 16; all: local 1", LAYERS, HEADS);
    for (int32_t head = 0; head < HEADS; head++)
        s2_buf_printf(&text, "; layers %d::%d heads %d: local %d | stride %d phase head*2", (int)(head % 3),
                      3, (int)head, (int)(1 + s2_rng_below(&rng, 4)), (int)(2 + s2_rng_below(&rng, 5)));
    assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
    const s2_plan_seq seq = {512, 512};
    const s2_plan_options options = s2_plan_options_default();
    s2_plan plan;
    assert_int_equal(s2_plan_build(&arena, &pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, NULL), S2_OK);
    for (int32_t a = 0; a < HEADS; a++)
        for (int32_t b = 0; b < HEADS; b++) {
            s2_view views[2];
            assert_int_equal(s2_view_build(&arena, &pattern, S2_PREFILL, 0, a, S2_AT_MOST, &views[0]), S2_OK);
            assert_int_equal(s2_view_build(&arena, &pattern, S2_PREFILL, 0, b, S2_AT_MOST, &views[1]), S2_OK);
            assert_true((plan.class_of[a] == plan.class_of[b]) == s2_view_equal(&views[0], &views[1]));
        }
    const int32_t *layers;
    int32_t n, kinds[LAYERS];
    assert_int_equal(s2_plan_distinct_layers(&arena, &pattern, S2_PREFILL, &layers, &n, kinds), S2_OK);
    assert_int_equal(n, 3);
    for (int32_t layer = 0; layer < LAYERS; layer++)
        assert_int_equal(kinds[layer], layer % 3);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tile_lists_exactly_the_pairs_of_the_definition),
        cmocka_unit_test(items_cover_each_tile_of_each_head_once_and_the_longest_come_first),
        cmocka_unit_test(flattened_lists_equal_the_enumerated_ones),
        cmocka_unit_test(phi3_small_has_eight_classes_and_the_known_density),
        cmocka_unit_test(sections_are_of_one_size),
        cmocka_unit_test(a_row_is_made_once_for_all_blocks_of_a_list),
        cmocka_unit_test(layers_and_heads_that_read_alike_are_found_among_thousands),
        cmocka_unit_test(long_dense_plans_need_no_lists),
        s2_long_test(small_blocks_need_no_lists_where_none_matters),
        cmocka_unit_test(planning_ends_where_its_work_does),
        cmocka_unit_test(refused_options_and_lengths_leave_the_output_alone),
        cmocka_unit_test(terms_chosen_at_run_time_are_refused_with_a_reason),
        cmocka_unit_test(every_allocation_may_fail_without_harm),
        cmocka_unit_test(layers_that_read_the_same_are_told_once),
        cmocka_unit_test(random_lists_stay_the_ones_that_were_always_drawn),
        cmocka_unit_test(decode_launches_are_decided_for_the_chip),
        cmocka_unit_test(short_contexts_are_not_for_gradients_in_order),
        cmocka_unit_test(columns_are_cut_for_the_kernel),
        cmocka_unit_test(no_range_of_a_short_window_waits_for_the_one_after_it),
        cmocka_unit_test(kernels_run_on_the_chips_that_their_traits_name),
        cmocka_unit_test(steps_are_cut_as_is_fastest),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
