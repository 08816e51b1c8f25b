/*
 * The simulator against enumeration from the definition (pattern/dense.h), against the plan that the
 * kernels run, and against the published figures of known configurations.
 */
#include "tests/s2test.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "report/report.h"
#include "pattern/dense.h"
#include "pattern/models.h"
#include "pattern/parse.h"
#include "plan/plan.h"
#include "sim/fast.h"
#include "sim/price.h"
#include "sim/schedule.h"
#include "sim/share.h"
#include "tests/gen_spec.h"
#include "tests/s2command.h"
#include "tests/s2parsed.h"
#include "tests/s2priced.h"
#include "tests/s2time.h"

#define GIB 1073741824.0

static s2_sim priced(const char *text, int64_t len_tok, s2_phase phase)
{
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, text);
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = len_tok;
    options.phase = phase;
    const s2_sim sim = s2_priced(&arena, &pattern, &options);
    s2_arena_release(&arena);
    return sim;
}

#define PHI                                                                                                  \
    "layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1::2: dense"
#define PHI_KV "layers 32; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv; layers 1::2: dense"
#define DUO    "layers 32; heads 32; kv-heads 8; kv 0-3: dense; kv 4-7: sink 64t | local 256t"

typedef struct s2_figure {
    const char *label;
    const char *text;
    int64_t len_tok;
    double density; /* of blocks; 0: not compared */
    double token_density;
    double dense_gib;
    double used_gib; /* exact resident sets */
    double shared_gib;
} s2_figure;

static void known_configurations_have_their_known_figures(void **state)
{
    static const s2_figure rows[] = {
        {"Phi-3-small 8k", PHI, 8192, .32934, 0, 1, .78125, 1},
        {"Phi-3-small 128k", PHI, 131072, 0, 0, 16, 12.03125, 16},
        {"DKernel over 8 KV heads 8k", PHI_KV, 8192, .32934, 0, 1, .6172, 1},
        {"DKernel over 8 KV heads 128k", PHI_KV, 131072, 0, 0, 16, 9.0547, 16},
        {"DKernel README", "heads 32; heads all: local 32 | stride 8 phase head", 8192, .50654, 0, 0, 0, 0},
        {"DeepSpeed fixed", "heads 8; block 16; heads all: chunk 8 | stride 8 phase 1", 2048, .18605, 0, 0, 0,
         0},
        {"StreamingLLM", "layers 32; heads 32; heads all: sink 4t | local 2000t", 32768, 0, .11857, 16,
         .06116 * 16, 0},
        {"gpt-oss-20b", "model gpt-oss-20b; layers 0::2: local 128t; layers 1::2: dense", 131072, 0, 0, 6,
         3.003, 0},
        {"DuoAttention, half", DUO, 131072, 0, 0, 16, 8.0195, 16},
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const s2_figure *const row = &rows[r];
        const s2_sim sim = priced(row->text, row->len_tok, S2_PREFILL);
        print_message("# %s: density %.5f, pairs %.5f, KV %.4f -> %.4f GiB, shared %.4f\n", row->label,
                      sim.density, sim.token_density, (double)sim.kv.dense / GIB, (double)sim.kv.used / GIB,
                      (double)sim.kv.shared_pages / GIB);
        if (row->density > 0)
            s2_assert_close(sim.density, row->density, 5e-6);
        if (row->token_density > 0)
            s2_assert_close(sim.token_density, row->token_density, 5e-6);
        if (row->dense_gib > 0)
            s2_assert_close((double)sim.kv.dense / GIB, row->dense_gib, 1e-9);
        if (row->used_gib > 0)
            s2_assert_close((double)sim.kv.used / GIB, row->used_gib, row->dense_gib * 5e-5);
        if (row->shared_gib > 0)
            s2_assert_close((double)sim.kv.shared_pages / GIB, row->shared_gib, 1e-9);
    }
}

static void phi_heads_read_what_its_authors_count(void **state)
{
    static const int64_t nnz[8] = {2670, 2684, 2698, 2712, 2726, 2740, 2754, 2768};
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, PHI);
    s2_classes classes;
    assert_int_equal(s2_classes_build(&arena, &pattern, S2_PREFILL, &classes), S2_OK);
    assert_int_equal(classes.n_reads, 9);
    assert_int_equal(classes.n_layer_classes, 2);
    for (int32_t head = 0; head < 8; head++) {
        const int32_t cls = classes.layers[0].head_class[head];
        s2_head_work work;
        assert_int_equal(s2_head_work_count(&arena, &classes.reads[cls], 0, 8192, (s2_tile_shape){64, 64, 64},
                                            NULL, &work),
                         S2_OK);
        assert_int_equal(work.blk_pairs, nnz[head]);
        assert_int_equal(work.tiles, nnz[head]);
    }
    s2_step_work one, group;
    assert_int_equal(s2_step_work_count(&classes, classes.layers[0].head_class + 7, 1, 8191, 8192, 64, &one),
                     S2_OK);
    assert_int_equal(s2_step_work_count(&classes, classes.layers[0].head_class, 4, 8191, 8192, 64, &group),
                     S2_OK);
    assert_int_equal(one.tiles, 30);
    assert_int_equal(group.tiles, 72);
    const s2_pattern fixed = s2_parsed(&arena, "heads 8; block 16; heads all: chunk 8 | stride 8 phase 1");
    assert_int_equal(s2_classes_build(&arena, &fixed, S2_PREFILL, &classes), S2_OK);
    assert_int_equal(s2_step_work_count(&classes, classes.layers[0].head_class, 1, 2047, 2048, 16, &one),
                     S2_OK);
    assert_int_equal(one.tiles, 23);
    s2_arena_release(&arena);
}

/* ---- random patterns as text, so that a failing one can be pasted ---- */

typedef struct s2_draw {
    s2_rng rng;
    s2_buf text;
} s2_draw;

static int64_t in(s2_draw *draw, int64_t low, int64_t high)
{
    return low + (int64_t)s2_rng_below(&draw->rng, (uint64_t)(high - low + 1));
}

static const char *unit(s2_draw *draw)
{
    return in(draw, 0, 2) == 0 ? "t" : "";
}

static void put_when(s2_draw *draw)
{
    static const char *const words[] = {"distance", "key", "query"};
    const int64_t begin = in(draw, 0, 6);
    s2_buf_printf(&draw->text, " when %s %lld", words[in(draw, 0, 2)], (long long)begin);
    const char *const of = unit(draw);
    s2_buf_printf(&draw->text, "%s..", of);
    if (in(draw, 0, 1) == 0)
        s2_buf_printf(&draw->text, "%lld%s", (long long)(begin + in(draw, 1, 9)), of);
}

static void put_term(s2_draw *draw, bool random)
{
    s2_buf *const text = &draw->text;
    const long long v = in(draw, 1, 6), w = in(draw, 1, v), p = in(draw, 0, 7), a = in(draw, 0, 5);
    switch (in(draw, 0, random ? 9 : 8)) {
    case 0: s2_buf_printf(text, "local %lld%s", (long long)in(draw, 1, 9), unit(draw)); break;
    case 1: s2_buf_printf(text, "sink %lld%s", v, unit(draw)); break;
    case 2:
    case 3: s2_buf_printf(text, "stride %lld width %lld phase head*%lld+%lld", v, w, a, p); break;
    case 4: s2_buf_printf(text, "dilated %lld width %lld phase kv+%lld", v, w, p); break;
    case 5: s2_buf_printf(text, "columns %lld,%lld:30:%lld", a, a + 1, v); break;
    case 6: s2_buf_printf(text, "rows %lld,%lld::%lld", a, a + 1, v); break;
    case 7: s2_buf_printf(text, "chunk %lld%s", v, unit(draw)); break;
    case 8: s2_buf_printf(text, "local %lld", v); break;
    default: s2_buf_printf(text, "random %lld seed %lld", v, p); break;
    }
    if (in(draw, 0, 2) == 0)
        put_when(draw);
}

static void draw_text(s2_draw *draw, bool random)
{
    draw->text.len = 0;
    const long long n_kv = 1 << in(draw, 0, 1), n_heads = n_kv << in(draw, 0, 1),
                    block = 1LL << in(draw, 0, 4);
    s2_buf_printf(&draw->text, "layers 2; heads %lld; kv-heads %lld; block %lld", n_heads, n_kv, block);
    if (in(draw, 0, 7) == 0)
        s2_buf_puts(&draw->text, "; causal no");
    static const char *const selectors[] = {"heads all", "heads 0", "layers 1"};
    for (int rule = 0; rule < 3; rule++) {
        s2_buf_printf(&draw->text, "; %s: ", selectors[rule]);
        const int64_t n_terms = in(draw, 1, 3);
        for (int64_t t = 0; t < n_terms; t++) {
            s2_buf_puts(&draw->text, t > 0 ? " | " : "");
            put_term(draw, random);
        }
    }
}

typedef struct s2_case {
    s2_arena arena;
    s2_pattern pattern;
    s2_classes classes;
    const char *text;
    int64_t n_tok;
    int64_t first_tok; /* the queries from here on ask */
    s2_tile_shape shape;
} s2_case;

static bool reads(const s2_case *one, int32_t layer, int32_t head, int64_t q_tok, int64_t k_tok)
{
    return s2_pattern_reads(&one->pattern, S2_PREFILL, layer, head, one->n_tok, q_tok, k_tok);
}

/* Tiles of size q x k with at least one pair, straight from the definition. */
static int64_t enumerate_tiles(const s2_case *one, int32_t layer, int32_t head, int64_t q_size,
                               int64_t k_size)
{
    int64_t total = 0;
    uint8_t hit[512];
    for (int64_t q_begin = one->first_tok / q_size * q_size; q_begin < one->n_tok; q_begin += q_size) {
        memset(hit, 0, sizeof hit);
        for (int64_t q_tok = s2_max_i64(q_begin, one->first_tok);
             q_tok < q_begin + q_size && q_tok < one->n_tok; q_tok++)
            for (int64_t k_tok = 0; k_tok < one->n_tok; k_tok++)
                hit[k_tok / k_size] |= reads(one, layer, head, q_tok, k_tok);
        for (size_t tile = 0; tile < sizeof hit; tile++)
            total += hit[tile];
    }
    return total;
}

static void check_work(const s2_case *one, const s2_layer_class *layer, int32_t head)
{
    s2_arena scratch = {0};
    const s2_reads *const head_reads = &one->classes.reads[layer->head_class[head]];
    const int32_t at = layer->first_layer, block = one->pattern.block_tok;
    s2_head_work work;
    assert_int_equal(
        s2_head_work_count(&scratch, head_reads, one->first_tok, one->n_tok, one->shape, NULL, &work), S2_OK);
    const int64_t pairs = enumerate_tiles(one, at, head, 1, 1);
    const int64_t blocks = enumerate_tiles(one, at, head, block, block);
    const int64_t tiles = enumerate_tiles(one, at, head, one->shape.q_tok, one->shape.k_tok);
    const int64_t keys = enumerate_tiles(one, at, head, 512, 1);
    s2_combset set = {0};
    assert_int_equal(s2_reads_add_touched(head_reads, one->first_tok, one->n_tok, &set), S2_OK);
    assert_int_equal(s2_combset_count(&set, 0, one->n_tok), keys);
    s2_combset_release(&set);
    if (work.pairs != pairs || work.blk_pairs != blocks || work.tiles != tiles)
        fail_msg("layer %d head %d at %lld to %lld: pairs %lld of %lld, blocks %lld of %lld, tiles %dx%d "
                 "%lld of %lld: %s",
                 at, head, (long long)one->first_tok, (long long)one->n_tok, (long long)work.pairs,
                 (long long)pairs, (long long)work.blk_pairs, (long long)blocks, one->shape.q_tok,
                 one->shape.k_tok, (long long)work.tiles, (long long)tiles, one->text);
    s2_arena_release(&scratch);
}

static void draw_case(s2_draw *draw, bool random, s2_case *one)
{
    *one = (s2_case){0};
    draw_text(draw, random);
    one->text = draw->text.data;
    one->pattern = s2_parsed(&one->arena, one->text);
    one->n_tok = in(draw, 1, 80);
    one->first_tok = one->pattern.causal ? s2_max_i64(in(draw, -40, one->n_tok - 1), 0) : 0;
    one->shape = (s2_tile_shape){1 << in(draw, 0, 5), 1 << in(draw, 0, 4), 64};
    assert_int_equal(s2_classes_build(&one->arena, &one->pattern, S2_PREFILL, &one->classes), S2_OK);
}

static void work_of_random_patterns_equals_enumeration(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261121);
    const int64_t n_cases = s2_test_cases(600);
    s2_draw draw = {.rng = {seed}};
    for (int64_t at = 0; at < n_cases; at++) {
        s2_case one;
        draw_case(&draw, true, &one);
        for (int32_t c = 0; c < one.classes.n_layer_classes; c++)
            for (int32_t head = 0; head < one.pattern.n_heads; head++)
                check_work(&one, &one.classes.layers[c], head);
        s2_arena_release(&one.arena);
    }
    s2_buf_release(&draw.text);
    print_message("# %lld patterns, seed %llu\n", (long long)n_cases, (unsigned long long)seed);
}

/* One decoded token or a few, head by head and as the union over each KV head. */
static void check_step(const s2_case *one, const s2_classes *classes, const s2_layer_class *layer, int32_t kv)
{
    const int32_t n_group = one->pattern.n_heads / one->pattern.n_kv_heads;
    const int64_t first_tok = s2_max_i64(one->n_tok - 1 - one->first_tok % 4, 0),
                  n_rows = one->n_tok - first_tok;
    int64_t pairs = 0, keys = 0;
    for (int64_t k_tok = 0; k_tok < one->n_tok; k_tok++) {
        int64_t n = 0;
        for (int64_t row = 0; row < n_group * n_rows; row++)
            n += s2_pattern_reads(&one->pattern, S2_DECODE, layer->first_layer,
                                  kv * n_group + (int32_t)(row / n_rows), one->n_tok,
                                  first_tok + row % n_rows, k_tok);
        pairs += n;
        keys += n > 0;
    }
    s2_step_work step;
    assert_int_equal(s2_step_work_count(classes, layer->head_class + kv * n_group, n_group, first_tok,
                                        one->n_tok, 4, &step),
                     S2_OK);
    if (step.pairs != pairs || step.keys != keys)
        fail_msg("kv %d at %lld: pairs %lld of %lld, keys %lld of %lld: %s", kv, (long long)one->n_tok,
                 (long long)step.pairs, (long long)pairs, (long long)step.keys, (long long)keys, one->text);
}

/* Keys of a KV head that query n_tok - 1 or any of the next HORIZON ones reads. */
static void enumerate_kept(const s2_case *one, int32_t layer, int32_t kv, uint8_t *kept)
{
    enum { HORIZON = 700 };
    const int32_t n_group = one->pattern.n_heads / one->pattern.n_kv_heads;
    for (int64_t k_tok = 0; k_tok < one->n_tok; k_tok++)
        for (int64_t q_tok = one->n_tok - 1; q_tok < one->n_tok + HORIZON && !kept[k_tok]; q_tok++)
            for (int32_t h = 0; h < n_group; h++)
                kept[k_tok] |= s2_pattern_reads(&one->pattern, S2_PREFILL, layer, kv * n_group + h,
                                                one->n_tok + HORIZON, q_tok, k_tok);
}

static int64_t pages_held(const uint8_t *kept, int64_t first_page, int64_t n_tok, int64_t page_tok)
{
    int64_t total = 0;
    for (int64_t page = first_page; page * page_tok < n_tok; page++) {
        bool held = false;
        for (int64_t k_tok = page * page_tok; k_tok < n_tok && k_tok < (page + 1) * page_tok; k_tok++)
            held |= kept[k_tok];
        total += held;
    }
    return total * page_tok;
}

static bool draws_at_random(const s2_classes *classes)
{
    for (int32_t c = 0; c < classes->n_reads; c++)
        for (int32_t a = 0; a < classes->reads[c].view.n_atoms; a++)
            if (classes->reads[c].view.atoms[a].kind == S2_ATOM_RANDOM)
                return true;
    return false;
}

static void check_kept(const s2_case *one, int32_t page_tok)
{
    const int64_t first_page = one->n_tok / 2 / page_tok;
    int64_t used = 0, paged = 0, shared = 0, later = 0, counted;
    for (int32_t layer = 0; layer < one->pattern.n_layers; layer++) {
        uint8_t all[128] = {0};
        for (int32_t kv = 0; kv < one->pattern.n_kv_heads; kv++) {
            uint8_t kept[128] = {0};
            enumerate_kept(one, layer, kv, kept);
            used += pages_held(kept, 0, one->n_tok, 1);
            paged += pages_held(kept, 0, one->n_tok, page_tok);
            later += pages_held(kept, first_page, one->n_tok, page_tok);
            for (size_t k = 0; k < sizeof all; k++)
                all[k] |= kept[k];
        }
        shared += pages_held(all, 0, one->n_tok, page_tok) * one->pattern.n_kv_heads;
    }
    s2_kv_elems slots;
    assert_int_equal(s2_kv_count(&one->classes, one->n_tok, page_tok, &slots), S2_OK);
    assert_int_equal(s2_kv_head_pages(&one->classes, first_page * page_tok, one->n_tok, page_tok, &counted),
                     S2_OK);
    assert_int_equal(counted, later * one->pattern.head_dim);
    used *= one->pattern.head_dim;
    paged *= one->pattern.head_dim;
    shared *= one->pattern.head_dim;
    if (slots.used != used || slots.head_pages != paged || slots.shared_pages != shared)
        fail_msg("at %lld: used %lld of %lld, pages of %d %lld of %lld, shared %lld of %lld: %s",
                 (long long)one->n_tok, (long long)slots.used, (long long)used, page_tok,
                 (long long)slots.head_pages, (long long)paged, (long long)slots.shared_pages,
                 (long long)shared, one->text);
}

/* Patterns built as data: mask files, random lists, phases, and what no text generator here writes. */
static void work_of_patterns_built_as_data_equals_enumeration(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(31)};
    s2_draw draw = {.rng = {s2_rng_next(&rng)}};
    const s2_gen_spec spec = {.most_layers = 2, .most_heads = 4, .explicit_terms = true, .not_causal = true};
    for (int64_t at = 0; at < s2_test_cases(400); at++) {
        s2_case one = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &spec, &one.arena);
        assert_non_null(pattern);
        one.pattern = *pattern;
        draw.text.len = 0;
        s2_pattern_print(pattern, &draw.text);
        one.text = draw.text.data;
        one.n_tok = in(&draw, 1, 70);
        one.first_tok = pattern->causal ? s2_max_i64(in(&draw, -40, one.n_tok - 1), 0) : 0;
        one.shape = (s2_tile_shape){1 << in(&draw, 0, 5), 1 << in(&draw, 0, 4), 64};
        s2_classes decode;
        assert_int_equal(s2_classes_build(&one.arena, pattern, S2_PREFILL, &one.classes), S2_OK);
        assert_int_equal(s2_classes_build(&one.arena, pattern, S2_DECODE, &decode), S2_OK);
        for (int32_t c = 0; c < one.classes.n_layer_classes; c++)
            for (int32_t head = 0; head < pattern->n_heads; head++)
                check_work(&one, &one.classes.layers[c], head);
        for (int32_t c = 0; c < decode.n_layer_classes; c++)
            for (int32_t kv = 0; kv < pattern->n_kv_heads; kv++)
                check_step(&one, &decode, &decode.layers[c], kv);
        /* a random list may name any key some day, which no enumeration of a few queries shows */
        if (!draws_at_random(&one.classes))
            check_kept(&one, (int32_t)in(&draw, 1, 12));
        s2_arena_release(&one.arena);
    }
    s2_buf_release(&draw.text);
}

static void cache_of_random_patterns_equals_enumeration(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(7);
    const int64_t n_cases = s2_test_cases(300);
    s2_draw draw = {.rng = {seed}};
    for (int64_t at = 0; at < n_cases; at++) {
        s2_case one;
        draw_case(&draw, false, &one);
        check_kept(&one, (int32_t)in(&draw, 1, 12));
        s2_arena_release(&one.arena);
    }
    s2_buf_release(&draw.text);
    print_message("# %lld patterns, seed %llu\n", (long long)n_cases, (unsigned long long)seed);
}

static void work_equals_the_plan_that_kernels_run(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {s2_test_seed(11)}};
    int64_t n_compared = 0;
    for (int64_t at = 0; at < s2_test_cases(200); at++) {
        s2_case one;
        draw_case(&draw, true, &one);
        const s2_tile_shape shape = s2_tile_shape_default(&one.pattern);
        const s2_plan_options options = s2_plan_options_default();
        const s2_plan_seq seq = {(int32_t)one.n_tok, (int32_t)one.n_tok};
        s2_plan plan;
        s2_diag why = {0};
        if (one.pattern.causal &&
            s2_plan_build(&one.arena, &one.pattern, S2_PREFILL, 0, &seq, 1, &options, &plan, &why) == S2_OK) {
            int64_t pairs = 0, tiles = 0, steps = 0;
            for (int32_t head = 0; head < one.pattern.n_heads; head++) {
                s2_head_work work;
                assert_int_equal(
                    s2_head_work_count(&one.arena, &one.classes.reads[one.classes.layers[0].head_class[head]],
                                       0, one.n_tok, shape, NULL, &work),
                    S2_OK);
                pairs += work.pairs;
                tiles += work.tiles;
                steps += work.steps;
            }
            if (pairs != plan.counts.pairs || tiles != plan.counts.n_blk_loaded ||
                steps != plan.counts.n_steps)
                fail_msg("at %lld: pairs %lld of %lld, blocks %lld of %lld, steps %lld of %lld: %s",
                         (long long)one.n_tok, (long long)pairs, (long long)plan.counts.pairs,
                         (long long)tiles, (long long)plan.counts.n_blk_loaded, (long long)steps,
                         (long long)plan.counts.n_steps, one.text);
            n_compared++;
        }
        s2_arena_release(&one.arena);
    }
    s2_buf_release(&draw.text);
    assert_true(n_compared * 4 > s2_test_cases(200));
}

static void combs_are_counted_as_if_visited(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {s2_test_seed(3)}};
    for (int64_t at = 0; at < s2_test_cases(5000); at++) {
        s2_combset set = {0}, tiles = {0};
        uint8_t has[400] = {0}, tile_has[400] = {0};
        const int64_t tile_tok = in(&draw, 1, 9);
        const int64_t n_combs = in(&draw, 0, 5);
        s2_comb comb = {0};
        for (int64_t c = 0; c < n_combs; c++) {
            const int64_t begin = in(&draw, 0, 200), period = in(&draw, 1, 9);
            if (c == 0 || in(&draw, 0, 1) == 0)
                comb = (s2_comb){begin,  begin + in(&draw, 0, 190), in(&draw, 1, 12),
                                 period, in(&draw, 1, period),      in(&draw, 0, period - 1)};
            else { /* the same at another residue, another head of a group; or one number more is another */
                const int64_t other = in(&draw, 0, 6);
                comb.begin = other == 0 ? in(&draw, 0, comb.end) : comb.begin;
                comb.end = other == 1 ? in(&draw, comb.begin, 390) : comb.end;
                comb.gran = other == 2 ? in(&draw, 1, 12) : comb.gran;
                comb.period = other == 3 ? in(&draw, comb.width, 9) : comb.period;
                comb.shift = in(&draw, 0, comb.period - 1);
            }
            s2_combset_add(&set, &comb);
            s2_combset_add_tiles(&tiles, &comb, tile_tok);
            for (int64_t x = 0; x < 400; x++) {
                has[x] |= s2_comb_has(&comb, x);
                tile_has[x / tile_tok] |= s2_comb_has(&comb, x);
            }
        }
        int64_t n = 0, n_tiles = 0;
        const int64_t begin = in(&draw, 0, 100), end = begin + in(&draw, 0, 300);
        for (int64_t x = 0; x < 400; x++) {
            n += x >= begin && x < end && has[x];
            n_tiles += tile_has[x];
        }
        assert_int_equal(s2_combset_count(&set, begin, end), n);
        assert_int_equal(s2_combset_count(&tiles, 0, 400), n_tiles);
        s2_combset_release(&set);
        s2_combset_release(&tiles);
    }
    s2_buf_release(&draw.text);
}

/* Sorting n combs takes n log n steps, and a run of their union a look at each for its begin, its end, the next. */
static void counts_cost_what_they_do(void **state)
{
    (void)state;
    enum { N = 64, LENGTH = 1 << 20 };
    const int64_t enough = INT64_C(1) << 40;
    int64_t left = enough;
    s2_combset set = {.work_left = &left};
    for (int32_t n = 0; n < N; n++)
        s2_combset_add(&set, &(s2_comb){2 * (N - n), 2 * (N - n) + 1, 1, 1, 1, 0});
    const int64_t before_sort = left;
    assert_int_equal(s2_combset_count(&set, 0, LENGTH), N);
    assert_true(before_sort - left >= N * 6);
    s2_combset_clear(&set);
    s2_combset_add(&set, &(s2_comb){0, LENGTH, 1, 1021, 1, 0});
    s2_combset_add(&set, &(s2_comb){0, LENGTH, 1, 1031, 1, 0});
    const int64_t before_count = left, n_elements = s2_combset_count(&set, 0, LENGTH);
    assert_int_equal(n_elements, 1028 + 1018 - 1);          /* 0 is in both; 1021 * 1031 lies beyond */
    assert_true(before_count - left >= 3 * 2 * n_elements); /* neighbours are one run */
    s2_combset_release(&set);
}

/*
 * With the work that a count takes it is made, with a step less it is not: by rows, columns, runs and lists.
 */
static void counting_ends_where_its_work_does(void **state)
{
    static const char *const texts[] = {
        "heads 4; kv-heads 2; block 4; heads all: local 7t | stride 3 | stride 5 phase head | dilated 7",
        "heads 4; kv-heads 2; block 4; heads all: random 3 seed 1 | local 2",
        "heads 4; kv-heads 2; block 4; heads all: random 3 seed 1 | local 5t | rows 0::3",
        "heads 4; kv-heads 2; block 1; heads all: dilated 7 | chunk 100t when distance 5t.. & distance 3..",
    };
    (void)state;
    for (size_t at = 0; at < sizeof texts / sizeof *texts; at++)
        for (int32_t count = 0; count < 3; count++) {
            const int64_t plenty = INT64_C(1) << 40;
            s2_arena arena = {0};
            const s2_pattern pattern = s2_parsed(&arena, texts[at]);
            s2_classes classes;
            s2_step_work step;
            s2_kv_elems slots;
            s2_head_work work;
            int64_t left = plenty, taken = 0;
            assert_int_equal(s2_classes_build(&arena, &pattern, S2_PREFILL, &classes), S2_OK);
            classes.work_left = &left;
            for (int32_t time = 0; time < 3; time++) {
                left = time == 0 ? plenty : taken + 1 - time;
                const s2_status status =
                    count == 0 ? s2_head_work_count(&arena, &classes.reads[0], 0, 1000,
                                                    (s2_tile_shape){128, 16, 128}, &left, &work)
                    : count == 1
                        ? s2_kv_count(&classes, 1000, 16, &slots)
                        : s2_step_work_count(&classes, classes.layers[0].head_class, 2, 999, 1000, 16, &step);
                assert_int_equal(status, time < 2 ? S2_OK : S2_ELIMIT);
                taken = time == 0 ? plenty - left : taken;
            }
            assert_true(taken > 0);
            s2_arena_release(&arena);
        }
}

/* Piece by piece, longest first, to the worker that is free first. */
static int64_t plain_makespan(const int64_t *count, int32_t n_costs, int32_t n_workers)
{
    int64_t load[16] = {0}, most = 0;
    for (int32_t cost = n_costs - 1; cost > 0; cost--)
        for (int64_t piece = 0; piece < count[cost]; piece++) {
            int32_t least = 0;
            for (int32_t worker = 1; worker < n_workers; worker++)
                least = load[worker] < load[least] ? worker : least;
            load[least] += cost;
        }
    for (int32_t worker = 0; worker < n_workers; worker++)
        most = load[worker] > most ? load[worker] : most;
    return most;
}

static void makespan_by_classes_equals_piece_by_piece(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {s2_test_seed(5)}};
    for (int64_t at = 0; at < s2_test_cases(3000); at++) {
        int64_t count[24] = {0};
        const int32_t n_workers = (int32_t)in(&draw, 1, 16);
        for (int32_t cost = 0; cost < 24; cost++)
            count[cost] = in(&draw, 0, 2) == 0 ? in(&draw, 0, 40) : 0;
        assert_int_equal(s2_makespan(count, 24, n_workers), plain_makespan(count, 24, n_workers));
    }
}

static void cost_never_falls_as_the_context_grows(void **state)
{
    (void)state;
    static const char *const texts[] = {PHI, DUO,
                                        "heads 8; heads all: sink 4t | local 200t | dilated 4 phase head"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        s2_sim before = priced(texts[t], 64, S2_PREFILL);
        for (int64_t len_tok = 65; len_tok < 4000; len_tok += 517) {
            const s2_sim now = priced(texts[t], len_tok, S2_PREFILL);
            assert_true(now.counts.flop_useful > before.counts.flop_useful);
            assert_true(now.counts.flop_executed >= before.counts.flop_executed);
            assert_true(now.kv.used >= before.kv.used);
            assert_true(now.bound_us >= before.bound_us);
            assert_true(now.counts.l2 >= now.counts.hbm_read);
            before = now;
        }
    }
}

static void every_phase_keeps_above_the_physical_floor(void **state)
{
    (void)state;
    for (s2_phase phase = S2_PREFILL; phase < S2_N_PHASES; phase++) {
        const s2_sim sim = priced(PHI, 16384, phase);
        const double mma_us = (double)sim.counts.flop_useful / 989e6;
        const double hbm_us = (double)(sim.counts.hbm_read + sim.counts.hbm_write) / 4.8e6;
        assert_true(sim.time_us >= sim.bound_us);
        assert_true(sim.bound_us >= mma_us * (1 - 1e-9));
        assert_true(sim.bound_us >= hbm_us * (1 - 1e-9));
        assert_true(sim.dense_time_us > sim.time_us);
    }
    const s2_sim forward = priced(PHI, 16384, S2_PREFILL), train = priced(PHI, 16384, S2_TRAIN);
    assert_int_equal(train.counts.flop_useful * 2, forward.counts.flop_useful * 7);
    s2_assert_close(train.parts[0].time_us, forward.time_us, 1e-6 * forward.time_us);
}

static void end_to_end_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, PHI);
    s2_net net;
    s2_sim_options options;
    assert_int_equal(s2_net_find("phi-3-small", &net, NULL), S2_OK);
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.net = &net;
    for (s2_phase phase = S2_PREFILL; phase < S2_N_PHASES; phase++)
        for (int32_t n_ranks = 1; n_ranks <= 8; n_ranks *= 2) {
            s2_sim sim;
            double sum = 0;
            options.phase = phase;
            options.n_ranks = n_ranks;
            assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
            for (int32_t part = 0; part < sim.n_parts; part++)
                sum += sim.parts[part].time_us;
            s2_assert_close(sum, sim.end_to_end_us, 1e-9 * sum);
            assert_true(sim.n_parts <= S2_MAX_PARTS);
            assert_true(sim.end_to_end_dense_us >= sim.end_to_end_us);
            /* its one embedding is also its last product, so every weight is read at least once */
            assert_true(net.tied && net.n_experts == 1);
            const double weights_us = (double)s2_net_weights(&net) * 2 / n_ranks / 4.8e6;
            assert_true(sim.end_to_end_us >= weights_us);
            assert_true(sim.fit_batch >= sim.fit_batch_dense && sim.fit_len_tok >= sim.fit_len_dense_tok);
        }
    s2_arena_release(&arena);
}

static void caches_that_do_not_fit_wait_for_the_link(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, PHI);
    s2_sim_options options;
    s2_sim sim;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = S2_DECODE;
    options.len_tok = 131072;
    options.batch = 10;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_int_equal(sim.host_bytes, 0);
    /* 20 sequences: 240.6 GiB of cache, 150.1 GB of memory; static heads read all that they keep */
    options.batch = 20;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    s2_assert_close((double)sim.host_bytes, (double)sim.kv.head_pages - 150.11e9, 1);
    s2_assert_close((double)sim.host_read_bytes, (double)sim.host_bytes, 1e-3 * (double)sim.host_bytes);
    s2_assert_close(sim.time_us, (double)sim.host_read_bytes / 64e3, 1);
    assert_string_equal(sim.parts[1].name, "host memory");
    assert_int_equal(sim.bound_by, S2_LINK);
    assert_true(sim.dense_time_us > sim.time_us);
    s2_assert_close((double)sim.host_dense_bytes, (double)sim.kv.dense - 150.11e9, 1);
    assert_false(s2_sim_runs(&options, &sim, true) || s2_sim_runs(&options, &sim, false));
    assert_false(sim.predicted);
    assert_int_equal(s2_sim_no_ratio(&options, &sim), S2_SPILLS);
    /* a comparison with what does not fit says so, in each phase that has a cache */
    options.batch = 10;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_int_equal(sim.host_bytes, 0);
    assert_int_equal(s2_sim_no_ratio(&options, &sim), S2_DENSE_SPILLS);
    assert_true(s2_sim_runs(&options, &sim, false));
    options.phase = S2_PREFILL;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_int_equal(s2_sim_no_ratio(&options, &sim), S2_DENSE_SPILLS);
    options.batch = 20;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    assert_int_equal(s2_sim_no_ratio(&options, &sim), S2_SPILLS);
    s2_arena_release(&arena);
}

/* What fits is decided by the rank with the dense heads; ranks together hold what all heads hold. */
static void ranks_hold_what_their_own_heads_keep(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern =
        s2_parsed(&arena, "layers 4; heads 8; kv-heads 4; layers all: local 4; kv 1: dense; layers 2: dense");
    s2_sim_options options;
    s2_sim one, two;
    s2_classes classes;
    s2_kv_elems all, part;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = 32768;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &one, NULL), S2_OK);
    options.n_ranks = 2;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &two, NULL), S2_OK);
    /* 512 bytes a slot; rank 0 has KV heads 0 and 1: one dense and one of 256 tokens in three layers, both in
     * one */
    assert_int_equal(one.kv_fullest, one.kv.head_pages);
    assert_int_equal(two.kv_fullest, 512LL * (3 * (32768 + 256) + 2 * 32768));
    assert_int_equal(two.kv.head_pages, one.kv.head_pages);
    s2_assert_close((double)two.fit_batch, 150.11e9 / (double)two.kv_fullest, 1);
    assert_int_equal(s2_classes_build(&arena, &pattern, S2_DECODE, &classes), S2_OK);
    assert_int_equal(s2_kv_count(&classes, 5000, 16, &all), S2_OK);
    int64_t used = 0, paged = 0, dense = 0;
    for (int32_t kv = 0; kv < 4; kv++) {
        s2_share_heads heads;
        s2_share share;
        assert_int_equal(s2_share_deal(&arena, pattern.n_heads, pattern.n_kv_heads, 4, kv, NULL, &heads),
                         S2_OK);
        assert_int_equal(s2_share_classes(&arena, &classes, &heads, 0, classes.n_layer_classes, &share),
                         S2_OK);
        assert_int_equal(s2_kv_count(&share.classes, 5000, 16, &part), S2_OK);
        used += part.used;
        paged += part.head_pages;
        dense += part.dense;
        assert_int_equal(part.shared_pages, part.head_pages); /* of one head there is nothing to share */
    }
    assert_int_equal(used, all.used);
    assert_int_equal(paged, all.head_pages);
    assert_int_equal(dense, all.dense);
    s2_arena_release(&arena);
}

static void totals_beyond_63_bits_are_a_stated_limit(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "layers 512; heads 512; heads all: dense");
    s2_sim_options options;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = S2_LIMIT_CONTEXT_TOK;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag), S2_ELIMIT);
    assert_non_null(strstr(diag.msg, "dense attention of 1 sequence of 16777216 tokens"));
    /* few operations, and pages of many tokens */
    const s2_pattern paged = s2_parsed(&arena, "layers 1024; heads 4096; head-dim 4096; heads all: local 1");
    options.phase = S2_DECODE;
    options.len_tok = 1;
    options.page_tok = 65536;
    options.batch = S2_LIMIT_BATCH;
    assert_int_equal(s2_price(&arena, &paged, &options, S2_PRICE_WHOLE, &sim, &diag), S2_ELIMIT);
    assert_non_null(strstr(diag.msg, "bytes"));
    /* a cache so small that more sequences fit than can be counted */
    const s2_pattern small = s2_parsed(&arena, "heads 32; kv-heads 8; heads all: local 4");
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = 1 << 18;
    assert_int_equal(s2_price_largest(&arena, &small, &options, &sim, &diag), S2_ELIMIT);
    assert_non_null(strstr(diag.msg, "largest batch that fits"));
    assert_non_null(strstr(diag.msg, "65536 sequences"));
    s2_arena_release(&arena);
}

/* What arithmetic alone counts is what counting finds, and it gives up where that does. */
static void arithmetic_counts_no_more_than_63_bits(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(20261211)};
    int32_t n_fast = 0, n_beyond = 0;
    for (int64_t n = 0; n < s2_test_cases(40); n++) {
        s2_arena arena = {0};
        char text[120];
        const int32_t n_heads = 1 << s2_rng_below(&rng, 9);
        snprintf(text, sizeof text,
                 "layers %d; heads %d; head-dim %d; heads all: local %d | stride %d phase head",
                 1 + (int)s2_rng_below(&rng, 128), n_heads, 32 << s2_rng_below(&rng, 4),
                 1 + (int)s2_rng_below(&rng, 9), 2 + (int)s2_rng_below(&rng, 9));
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_sim_options options;
        s2_sim fast, whole;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.len_tok = INT64_C(512) << s2_rng_below(&rng, 12);
        options.batch = INT64_C(1) << s2_rng_below(&rng, 17);
        assert_int_equal(s2_price_memo_new(&options, &options.memo), S2_OK);
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_FLOOR, &fast, NULL), S2_OK);
        s2_price_memo_free(options.memo);
        options.memo = NULL;
        const s2_status status = s2_price(&arena, &pattern, &options, S2_PRICE_BOUNDS, &whole, NULL);
        n_beyond += status == S2_ELIMIT;
        n_fast += fast.fast;
        assert_true(status == S2_OK || (status == S2_ELIMIT && !fast.fast));
        if (fast.fast)
            assert_int_equal(fast.counts.pairs, whole.counts.pairs);
        s2_arena_release(&arena);
    }
    assert_true(s2_test_sampled() || (n_fast > 0 && n_beyond > 0));
}

static void dense_pattern_is_its_own_baseline(void **state)
{
    (void)state;
    const s2_sim sim = priced("heads 4; heads all: dense", 1000, S2_PREFILL);
    s2_assert_close(sim.density, 1, 0);
    s2_assert_close(sim.time_us, sim.dense_time_us, 0);
    assert_int_equal(sim.counts.pairs, INT64_C(4) * 1000 * 1001 / 2);
    assert_int_equal(sim.counts.flop_useful, sim.counts.pairs * 512);
    assert_int_equal(sim.kv.head_pages, sim.kv.dense);
    assert_int_equal(sim.n_sparse_layers, 0);
}

static void assert_fits_as_dense(const s2_sim *sim)
{
    assert_int_equal(sim->kv_fullest, sim->kv_dense_each);
    assert_int_equal(sim->kv_kept, sim->kv.dense);
    assert_int_equal(sim->kv_peak, sim->kv_dense_each);
    assert_int_equal(sim->fit_batch, sim->fit_batch_dense);
    assert_int_equal(sim->fit_len_tok, sim->fit_len_dense_tok);
    assert_int_equal(sim->host_bytes, sim->host_dense_bytes);
}

/* Whatever the pages, a dense pattern is 1.0 of dense; and so is any pattern where nothing is freed. */
static void caches_that_free_nothing_are_those_of_dense(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keeps_all;
    } cases[] = {{"layers 2; heads 4; kv-heads 4; heads all: dense", false}, {PHI, true}, {PHI_KV, true}};
    static const int32_t pages[] = {1, 16, 100, 4096};
    for (size_t n = 0; n < 3 * 4 * 3; n++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, cases[n % 3].text);
        s2_sim_options options;
        s2_sim sim, cache;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.phase = S2_DECODE;
        options.keeps_all = cases[n % 3].keeps_all;
        options.len_tok = 33000;
        options.page_tok = pages[n / 3 % 4];
        options.batch = n / 12 == 2 ? 60 : 1;
        options.n_ranks = n / 12 == 1 ? 4 : 1;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
        assert_fits_as_dense(&sim);
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_CACHE, &cache, NULL), S2_OK);
        assert_int_equal(cache.kv_kept, sim.kv_kept);
        s2_arena_release(&arena);
    }
}

static void dynamic_terms_are_priced_by_their_budgets(void **state)
{
    (void)state;
    /* Quest: pages of 16, 64 of them; the summaries cost 1/16 of the cache and nothing is freed */
    const s2_sim quest = priced("heads 32; heads all: pages 64 page 16", 32768, S2_DECODE);
    const double dense = (double)quest.kv.dense;
    s2_assert_close((double)quest.kv.used / dense, 1.0625, 1e-12);
    s2_assert_close((double)quest.counts.hbm_read / dense, .03125 + .0625, 1e-4);
    assert_int_equal(quest.counts.pairs, 32 * 1024);
    assert_string_equal(quest.parts[1].name, "selection");
    /* H2O keeps its heavy keys and the recent ones, never more than there are */
    const s2_sim heavy = priced("heads 4; heads all: heavy 409 | local 409t", 4096, S2_DECODE);
    s2_assert_close((double)heavy.kv.used / (double)heavy.kv.dense, 818.0 / 4096, 1e-12);
    const s2_sim early = priced("heads 4; heads all: heavy 409 | local 409t", 512, S2_DECODE);
    s2_assert_close((double)early.kv.used / (double)early.kv.dense, 1, 0);
    /* topk frees nothing; pairs: everything up to the budget, the budget from there on */
    const s2_sim topk = priced("heads 1; heads all: topk 100", 1000, S2_PREFILL);
    assert_int_equal(topk.counts.pairs, 100 * 101 / 2 + 900 * 100);
    assert_true(topk.kv.used > topk.kv.dense);
}

static void cache_follows_the_decode_rules_after_prefill(void **state)
{
    (void)state;
    const s2_sim sim = priced("heads 1; prefill: dense; decode: sink 64t | local 192t", 4096, S2_PREFILL);
    s2_assert_close(sim.density, 1, 0);
    s2_assert_close((double)sim.kv.used / (double)sim.kv.dense, 256.0 / 4096, 1e-12);
}

static void built_in_gpus_and_models_are_whole(void **state)
{
    (void)state;
    int32_t n_gpus = 0;
    for (const char *name; (name = s2_gpu_name(n_gpus)) != NULL; n_gpus++) {
        s2_gpu gpu;
        s2_diag diag = {0};
        if (s2_gpu_find(name, &gpu, &diag) != S2_OK)
            fail_msg("%s:%d:%d %s", name, diag.line, diag.col, diag.msg);
        assert_string_equal(gpu.name, name);
        assert_true(gpu.tensor_mhz <= gpu.boost_mhz);
    }
    assert_true(n_gpus >= 8);
    s2_net net;
    assert_int_equal(s2_net_find("llama-3.1-8b", &net, NULL), S2_OK);
    s2_assert_close((double)s2_net_weights(&net), 8.03e9, 0.01e9);
}

static void bad_gpu_files_are_refused_with_a_position(void **state)
{
    static const struct {
        const char *text;
        int32_t line;
        int32_t col;
        const char *word;
    } rows[] = {
        {"title X\nsmz 132 # s\n", 2, 1, "nearest known one is sms"},
        {"title X\nsms 132\n", 2, 8, "# source"},
        {"title X\nsms 132 #\n", 2, 9, "# source"},
        {"title X\nsms many # s\n", 2, 5, "expected a number"},
        {"title X\nsms inf # s\n", 2, 5, "expected a number"},
        {"title X\nsms 0 # s\n", 2, 5, "between"},
        {"title X\nsms 1 # s\nsms 1 # s\n", 3, 1, "twice"},
        {"title X\nsms 132 # s\n", 3, 1, "ends without"},
        {"title\n", 1, 6, "title"},
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        s2_gpu gpu;
        s2_diag diag = {0};
        assert_int_equal(s2_gpu_parse("x", rows[r].text, strlen(rows[r].text), &gpu, &diag), S2_EPARSE);
        if (diag.line != rows[r].line || strstr(diag.msg, rows[r].word) == NULL ||
            (diag.col != rows[r].col && diag.col != rows[r].col - 1))
            fail_msg("row %zu: %d:%d %s", r, diag.line, diag.col, diag.msg);
    }
    s2_gpu gpu;
    s2_diag diag = {0};
    assert_int_equal(s2_gpu_find("h2000", &gpu, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "h200"));
    assert_int_equal(s2_gpu_parse("x", "a\0b", 3, &gpu, &diag), S2_EPARSE);
}

static void json_holds_every_promised_key(void **state)
{
    static const char *const keys[] = {"{\"schema\":\"s2sim/1\"",
                                       "\"name\":\"n\"",
                                       "\"hash\":\"h\"",
                                       "\"gpu\":\"h200\"",
                                       "\"model\":null",
                                       "\"phase\":\"prefill\"",
                                       "\"len\":8192",
                                       "\"batch\":1",
                                       "\"dtype\":\"bf16\"",
                                       "\"pairs\":{\"read\":",
                                       "\"causal\":",
                                       "\"density\":0.32933",
                                       "\"executed_density\":",
                                       "\"flop\":{\"useful\":",
                                       "\"executed\":",
                                       "\"dense\":",
                                       "\"bytes\":{\"hbm_read\":",
                                       "\"hbm_write\":",
                                       "\"hbm_floor\":",
                                       "\"l2\":",
                                       "\"time_us\":",
                                       "\"bound_us\":",
                                       "\"dense_time_us\":",
                                       "\"bound_by\":\"mma\"",
                                       "\"error_pct\":null",
                                       "\"kv\":{\"dense\":1073741824,\"shared_pages\":1073741824,",
                                       "\"head_pages\":838860800,\"ring_stripes\":838860800",
                                       "\"parts\":[{\"name\":\"attention\",\"time_us\":"};
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, PHI);
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    s2_sim sim;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
    s2_buf buf = {0};
    const s2_report_subject subject = {"n", "h", &pattern, &options, NULL, NULL};
    s2_sim_report_json(&subject, &sim, &buf);
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        if (strstr(buf.data, keys[k]) == NULL)
            fail_msg("no %s in %s", keys[k], buf.data);
    s2_buf_release(&buf);
    s2_arena_release(&arena);
}

/* At the limits of shape, length and batch: said, in every phase, and not computed around. */
static void totals_that_do_not_fit_are_said(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "layers 1024; heads 4096; head-dim 4096; block 1024; layers all: pages 16777216 page 16777216",
        "layers 1024; heads 4096; head-dim 4096; block 1024; layers all: dense"};
    for (size_t at = 0; at < 2 * S2_N_PHASES; at++) {
        s2_arena arena = {0};
        s2_sim_options options;
        s2_sim sim;
        const s2_pattern pattern = s2_parsed(&arena, texts[at % 2]);
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.phase = (s2_phase)(at / 2);
        options.len_tok = at % 2 == 0 ? 1 << 16 : S2_LIMIT_CONTEXT_TOK;
        options.batch = 4096;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_ELIMIT);
        s2_arena_release(&arena);
    }
}

static void wrong_options_are_refused_with_a_reason(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, PHI);
    s2_sim_options options;
    s2_net net;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_net_find("llama-2-7b", &net, &diag), S2_OK);
    options.net = &net;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "llama-2-7b"));
    options.net = NULL;
    options.n_ranks = 3;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag), S2_EINVAL);
    options.n_ranks = 1;
    options.len_tok = 0;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag), S2_EINVAL);
    s2_arena_release(&arena);
}

static void each_failed_allocation_is_reported(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        assert_true(n < 500);
        s2_arena arena = {0}, scratch = {0};
        const s2_pattern pattern =
            s2_parsed(&arena, "heads 2; heads 0: local 2 | random 2 seed 1; heads 1: heavy 9 | rows 1");
        s2_sim_options options;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.len_tok = 300;
        s2_sim sim;
        int64_t left = n;
        s2_alloc_set_hook(s2_test_fail_from, &left);
        const s2_status status = s2_price(&scratch, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL);
        s2_alloc_set_hook(NULL, NULL);
        s2_arena_release(&scratch);
        s2_arena_release(&arena);
        if (status == S2_OK)
            return;
        assert_int_equal(status, S2_ENOMEM);
    }
}

static void draw_candidate(s2_draw *draw, const s2_pattern *shape, s2_candidate *one)
{
    *one = (s2_candidate){
        .local_blk = (int32_t)in(draw, 1, 9),
        .sink_blk = (int32_t)in(draw, 0, 3),
        .stride_blk = (int32_t)in(draw, 0, 12),
        .step = (int32_t)in(draw, 0, 3),
        .offset = (int32_t)in(draw, 0, 9),
        .by_kv = in(draw, 0, 1) == 1,
        .n_dense_kv = (int32_t)(in(draw, 0, 2) == 0 ? in(draw, 0, shape->n_kv_heads - 1) : 0),
        .n_dense_layers = (int32_t)in(draw, 0, 1),
    };
}

/* The candidate in the pattern language. */
static void candidate_text(const s2_candidate *one, const s2_pattern *shape, s2_buf *text)
{
    s2_buf_printf(text, "layers %d; heads %d; kv-heads %d; block %d; layers all: local %d", shape->n_layers,
                  shape->n_heads, shape->n_kv_heads, shape->block_tok, one->local_blk);
    if (one->sink_blk > 0)
        s2_buf_printf(text, " | sink %d", one->sink_blk);
    if (one->stride_blk > 0)
        s2_buf_printf(text, " | stride %d phase %s*%d+%d", one->stride_blk, one->by_kv ? "kv" : "head",
                      one->step, one->offset);
    if (one->n_dense_kv > 0)
        s2_buf_printf(text, "; kv %d::1: dense", shape->n_kv_heads - one->n_dense_kv);
    if (one->n_dense_layers > 0)
        s2_buf_printf(text, "; layers 0-%d: dense", one->n_dense_layers - 1);
}

/* Whatever a fidelity leaves out, what it says is what the whole price says, or below it where it is a floor. */
static void fidelities_agree(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options)
{
    s2_sim sim[S2_PRICE_WHOLE + 1];
    for (int fidelity = 0; fidelity <= S2_PRICE_WHOLE; fidelity++)
        assert_int_equal(s2_price(arena, pattern, options, (s2_fidelity)fidelity, &sim[fidelity], NULL),
                         S2_OK);
    const s2_sim *const whole = &sim[S2_PRICE_WHOLE], *const bounds = &sim[S2_PRICE_BOUNDS];
    const double us = whole->time_us, plan_us = whole->plan_us;
    const bool spills = whole->host_bytes > 0,
               floored = sim[S2_PRICE_FLOOR].fast && options->phase != S2_TRAIN;
    assert_true(sim[S2_PRICE_FLOOR].floor_us[options->phase] <= plan_us * (1 + 1e-9));
    assert_true(sim[S2_PRICE_RAISED].floor_us[options->phase] <= us * (1 + 1e-9) ||
                options->calibration != NULL);
    assert_true(!sim[S2_PRICE_FLOOR].fast || options->memo != NULL);
    assert_true(!floored || sim[S2_PRICE_FLOOR].floor_us[options->phase] > 0);
    assert_int_equal(sim[S2_PRICE_CACHE].kv.head_pages, whole->kv.head_pages);
    assert_true(sim[S2_PRICE_PLAN].counts.pairs == whole->counts.pairs);
    s2_assert_close(sim[S2_PRICE_PLAN].density, whole->density, 1e-12);
    assert_true(bounds->counts.pairs == whole->counts.pairs && bounds->dense.pairs == whole->dense.pairs);
    if (spills)
        return;
    s2_assert_close(sim[S2_PRICE_PLAN].plan_us, plan_us, 1e-9 * plan_us);
    s2_assert_close(bounds->plan_us, plan_us, 0);
    s2_assert_close(bounds->bound_us, whole->bound_us, 0);
    const double time_us = s2_sim_predicts(options, options->phase) ? us : plan_us;
    s2_assert_close(sim[S2_PRICE_TIME].time_us, time_us, 1e-9 * time_us);
    assert_true(!sim[S2_PRICE_TIME].predicted || s2_sim_predicts(options, options->phase));
}

static void every_fidelity_says_the_same(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {s2_test_seed(23)}};
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        s2_arena arena = {0};
        s2_pattern shape = {.n_layers = 2, .n_heads = 8, .head_dim = 128, .causal = true};
        shape.n_kv_heads = 1 << in(&draw, 0, 3);
        shape.block_tok = 16 << in(&draw, 0, 2);
        s2_sim_options options;
        s2_calibration calibration;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        assert_int_equal(s2_calibration_find(options.gpu.name, &calibration), S2_OK);
        options.calibration = at % 2 == 0 ? &calibration : NULL;
        options.phase = (s2_phase)in(&draw, 0, S2_N_PHASES - 1);
        options.len_tok = 16 * in(&draw, 8, 200);
        options.n_ranks = at % 3 == 0 ? 1 << in(&draw, 0, 3) : 1;
        if (at % 4 == 2 && options.phase != S2_TRAIN)
            options.cache = (s2_cache_type)in(&draw, 0, S2_N_CACHE_TYPES - 1);
        s2_candidate one;
        draw_candidate(&draw, &shape, &one);
        draw.text.len = 0;
        candidate_text(&one, &shape, &draw.text);
        if (at % 5 == 0) /* only the whole simulator knows those */
            s2_buf_puts(&draw.text, "; layers 0: heavy 100 | local 100t");
        const s2_pattern pattern = s2_parsed(&arena, draw.text.data);
        if (in(&draw, 0, 1) == 0)
            assert_int_equal(s2_price_memo_new(&options, &options.memo), S2_OK);
        fidelities_agree(&arena, &pattern, &options);
        s2_price_memo_free(options.memo);
        s2_arena_release(&arena);
    }
    s2_buf_release(&draw.text);
}

static void fast_mode_equals_the_whole_simulator(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {s2_test_seed(17)}};
    s2_fast *const fast = s2_malloc(sizeof *fast);
    assert_non_null(fast);
    for (int64_t at = 0; at < s2_test_cases(300); at++) {
        s2_arena arena = {0};
        s2_pattern shape = {.n_layers = 2, .n_heads = 8, .head_dim = 128, .causal = true};
        shape.n_kv_heads = 1 << in(&draw, 0, 3);
        shape.block_tok = 16 << in(&draw, 0, 4);
        s2_sim_options options;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.len_tok = in(&draw, 1, 6000);
        options.batch = in(&draw, 1, 3);
        s2_candidate one;
        draw_candidate(&draw, &shape, &one);
        draw.text.len = 0;
        candidate_text(&one, &shape, &draw.text);
        const s2_pattern pattern = s2_parsed(&arena, draw.text.data);
        s2_sim sim;
        s2_fast_cost cost;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), S2_OK);
        assert_int_equal(s2_fast_init(&shape, &options, fast), S2_OK);
        s2_fast_exact(fast, &one, &cost);
        const double slots = (double)sim.kv.used / (512.0 * (double)options.batch);
        if (cost.pairs != sim.counts.pairs || cost.steps != sim.counts.steps ||
            (double)cost.kv_slots != slots)
            fail_msg("at %lld: pairs %lld of %lld, steps %lld of %lld, slots %lld of %.0f: %s",
                     (long long)options.len_tok, (long long)cost.pairs, (long long)sim.counts.pairs,
                     (long long)cost.steps, (long long)sim.counts.steps, (long long)cost.kv_slots, slots,
                     draw.text.data);
        s2_assert_close(cost.density, sim.density, 1e-12);
        s2_assert_close(cost.time_us, sim.time_us, 1e-9 * sim.time_us);
        s2_assert_close(cost.bound_us, sim.bound_us, 1e-9 * sim.bound_us);
        s2_arena_release(&arena);
    }
    s2_free(fast);
    s2_buf_release(&draw.text);
}

static void command_answers_for_one_for_several_and_for_baselines(void **state)
{
    (void)state;
    char text[8192];
    static const char pattern[] = "name one; heads 4; heads all: local 3",
                      other[] = "heads 4; heads all: dense";
    const char *const one[] = {"sim", pattern, "--no-db"};
    const char *const json[] = {"sim", pattern, other, "--no-db", "--json"};
    const char *const all[] = {"sim", pattern, "--no-db", "--compare", "--phase", "decode"};
    const char *const wrong[] = {"sim", pattern, "--no-db", "--gpu", "h2000"};
    const char *const bad[] = {"sim", "heads 4: dense", "--no-db"};
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 3, one), S2_EXIT_OK);
    assert_non_null(strstr(text, "one  1 layer, "));
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 5, json), S2_EXIT_OK);
    assert_non_null(strstr(text, "}\n{\"schema\":\"s2sim/1\""));
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 6, all), S2_EXIT_OK);
    static const char *const names[] = {"one ", "dense ", "StreamingLLM ",       "DuoAttention ", "LServe ",
                                        "H2O ", "Quest ", "Hydra linear state ", "tiered memory "};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        if (strstr(text, names[n]) == NULL)
            fail_msg("no %s in %s", names[n], text);
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 5, wrong), S2_EXIT_USAGE);
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 3, bad), S2_EXIT_REFUSED);
    assert_string_equal(text, "");
}

/* What the page of `s2 sim` says, against figures worked out by hand. */
static void pages_say_what_a_person_must_know(void **state)
{
    (void)state;
    static const struct {
        const char *body, *says;
        const char *options[8];
    } cases[] = {
        /* 8 KV heads of 128, bf16: 4 KiB a token and layer; 32 layers, 32k tokens, 16 sequences: 64 GiB */
        {"dense",
         "   each GPU     8 GiB of head pages at most, dense 8 GiB; the above is all 8 together\n",
         {"--phase", "decode", "--len", "32k", "--batch", "16", "--tp", "8"}},
        /* the GPU with the dense KV head, 512 bytes a token in 32 layers; the others keep 256 tokens */
        {"local 4; kv 0: dense",
         "   each GPU     4 GiB of head pages at most, dense 4 GiB; the above is all 8 together\n",
         {"--len", "32k", "--batch", "8", "--tp", "8"}},
        {"dense", " of weights on each GPU\n", {"--len", "1k", "--tp", "8"}},
        {"dense",
         "no ratio: the pattern's own cache does not fit (to read from host memory, at the link's peak)\n",
         {"--phase", "decode", "--len", "128k", "--batch", "32"}},
        {"dense",
         " s at its peak, longer than attention takes\n",
         {"--phase", "decode", "--len", "128k", "--batch", "32"}},
        {"dense", "  density       1: every layer reads all of this context\n", {"--len", "1k"}},
        {"dense", "beside 14.96 GiB of weights\n", {"--len", "1k"}},
        {"local 4", "or at least 16777216 tokens (dense ", {"--phase", "decode", "--len", "1k"}},
        {"local 4", "; a pass of this batch holds ", {"--len", "1k"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        static char text[8192];
        char pattern[80];
        snprintf(pattern, sizeof pattern, "model llama-3.1-8b; layers all: %s", cases[c].body);
        const char *argv[11] = {"sim", pattern, "--no-db"};
        int argc = 3;
        for (int o = 0; o < 8 && cases[c].options[o] != NULL; o++)
            argv[argc++] = cases[c].options[o];
        assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, argc, argv), S2_EXIT_OK);
        if (strstr(text, cases[c].says) == NULL)
            fail_msg("no %s in %s", cases[c].says, text);
    }
}

/* Tiers are shares of a cache: none is below nothing, in whatever way it is kept. */
static void tiers_of_baselines_are_shares(void **state)
{
    (void)state;
    static char text[60000];
    const char *const argv[] = {"sim",       "model llama-3.1-8b; layers all: local 16",
                                "--no-db",   "--json",
                                "--compare", "--phase",
                                "decode",    "--len",
                                "128k"};
    assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, 9, argv), S2_EXIT_OK);
    int n = 0;
    for (const char *at = text; (at = strstr(at, "\"tiers\":{")) != NULL; at++, n++) {
        double hbm, host;
        assert_int_equal(sscanf(at, "\"tiers\":{\"hbm\":%lf,\"host\":%lf", &hbm, &host), 2);
        assert_true(hbm >= 0 && host >= 0);
    }
    assert_int_equal(n, 10);
}

/*
 * Tokens of a second are the batch over the step in decode, all of the batch's contexts over a pass of them; of a
 * training step those of one replica, and of all.
 */
static void tokens_per_second_follow_from_the_end_to_end_time(void **state)
{
    (void)state;
    static const char *const phases[] = {"prefill", "decode", "train"};
    for (int phase = 0; phase < 3; phase++) {
        static char text[8192];
        /* a step that does not fit has no rate */
        const char *const argv[] = {"sim",      "model llama-3.1-8b; layers all: local 16",
                                    "--no-db",  "--json",
                                    "--len=8k", "--batch=4",
                                    "--phase",  phases[phase],
                                    "--dp=8",   "--recompute"};
        assert_int_equal(s2_command(s2_cmd_sim, text, sizeof text, phase == 2 ? 10 : 8, argv), S2_EXIT_OK);
        const char *const at = strstr(text, "\"end_to_end\":{");
        double us, dense_us, rate, dense_rate, all, dense_all;
        assert_non_null(at);
        assert_int_equal(sscanf(at,
                                "\"end_to_end\":{\"time_us\":%lf,\"dense_time_us\":%lf,\"tokens_per_s\":%lf,"
                                "\"dense_tokens_per_s\":%lf,\"tokens_per_s_all_replicas\":%lf,"
                                "\"dense_tokens_per_s_all_replicas\":%lf",
                                &us, &dense_us, &rate, &dense_rate, &all, &dense_all),
                         6);
        const double n_tok = phase == 1 ? 4 : 4 * 8192, replicas = phase == 2 ? 8 : 1;
        s2_assert_close(rate, n_tok / us * 1e6, 1e-5 * rate);
        s2_assert_close(dense_rate, n_tok / dense_us * 1e6, 1e-5 * dense_rate);
        s2_assert_close(all, replicas * rate, 1e-5 * all);
        s2_assert_close(dense_all, replicas * dense_rate, 1e-5 * dense_all);
    }
}

/* Candidates of a search at 128k, 32 heads on 8 KV heads, 32 layers: how many one core prices. */
static void candidates_are_timed(void **state)
{
    (void)state;
    s2_draw draw = {.rng = {23}};
    const s2_pattern shape = {
        .n_layers = 32, .n_heads = 32, .n_kv_heads = 8, .head_dim = 128, .block_tok = 64, .causal = true};
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = 131072;
    s2_fast *const fast = s2_malloc(sizeof *fast);
    assert_non_null(fast);
    assert_int_equal(s2_fast_init(&shape, &options, fast), S2_OK);
    enum { N_CANDIDATES = 512 };
    static s2_candidate candidates[N_CANDIDATES];
    for (int32_t c = 0; c < N_CANDIDATES; c++) {
        draw_candidate(&draw, &shape, &candidates[c]);
        candidates[c].local_blk = (int32_t)in(&draw, 1, 64);
        candidates[c].stride_blk = (int32_t)in(&draw, 2, 64);
    }
    double total = 0;
    const double begin = s2_processor_s();
    for (int32_t round = 0; round < 100; round++)
        for (int32_t c = 0; c < N_CANDIDATES; c++) {
            s2_fast_cost cost;
            s2_fast_bound(fast, &candidates[c], &cost);
            total += cost.bound_us;
        }
    const double middle = s2_processor_s();
    for (int32_t c = 0; c < N_CANDIDATES; c++) {
        s2_fast_cost cost;
        s2_fast_exact(fast, &candidates[c], &cost);
        total += cost.time_us;
    }
    const double end = s2_processor_s();
    assert_true(total > 0);
    printf("# s2: candidates a second at 128k, 32 heads, one core: %.0f exact makespan, %.0f bound only\n",
           N_CANDIDATES / (end - middle), 100.0 * N_CANDIDATES / (middle - begin));
    s2_free(fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_configurations_have_their_known_figures),
        cmocka_unit_test(phi_heads_read_what_its_authors_count),
        cmocka_unit_test(work_of_random_patterns_equals_enumeration),
        cmocka_unit_test(work_of_patterns_built_as_data_equals_enumeration),
        cmocka_unit_test(cache_of_random_patterns_equals_enumeration),
        cmocka_unit_test(work_equals_the_plan_that_kernels_run),
        cmocka_unit_test(combs_are_counted_as_if_visited),
        cmocka_unit_test(counts_cost_what_they_do),
        cmocka_unit_test(counting_ends_where_its_work_does),
        cmocka_unit_test(makespan_by_classes_equals_piece_by_piece),
        cmocka_unit_test(fast_mode_equals_the_whole_simulator),
        cmocka_unit_test(every_fidelity_says_the_same),
        cmocka_unit_test(candidates_are_timed),
        cmocka_unit_test(command_answers_for_one_for_several_and_for_baselines),
        cmocka_unit_test(pages_say_what_a_person_must_know),
        cmocka_unit_test(tokens_per_second_follow_from_the_end_to_end_time),
        cmocka_unit_test(cost_never_falls_as_the_context_grows),
        cmocka_unit_test(every_phase_keeps_above_the_physical_floor),
        cmocka_unit_test(end_to_end_is_the_sum_of_its_parts),
        cmocka_unit_test(caches_that_do_not_fit_wait_for_the_link),
        cmocka_unit_test(ranks_hold_what_their_own_heads_keep),
        cmocka_unit_test(tiers_of_baselines_are_shares),
        cmocka_unit_test(totals_beyond_63_bits_are_a_stated_limit),
        cmocka_unit_test(arithmetic_counts_no_more_than_63_bits),
        cmocka_unit_test(dense_pattern_is_its_own_baseline),
        cmocka_unit_test(caches_that_free_nothing_are_those_of_dense),
        cmocka_unit_test(dynamic_terms_are_priced_by_their_budgets),
        cmocka_unit_test(cache_follows_the_decode_rules_after_prefill),
        cmocka_unit_test(built_in_gpus_and_models_are_whole),
        cmocka_unit_test(bad_gpu_files_are_refused_with_a_position),
        cmocka_unit_test(json_holds_every_promised_key),
        s2_long_test(totals_that_do_not_fit_are_said),
        cmocka_unit_test(wrong_options_are_refused_with_a_reason),
        cmocka_unit_test(each_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
