#include "tests/s2test.h"
#include "tests/s2parsed.h"
#include "tests/s2time.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "reach/beyond.h"
#include "reach/lengths.h"
#include "reach/measures.h"
#include "tests/gen_spec.h"

/* ------------------------------------------------------------------ the twin: one definition at a time */

enum { MOST_BLOCKS = 12, MOST_TOKENS = 64, MOST_LAYERS = 8, MOST_HEADS = 16 };

/* What each head reads, pair by pair from the definition: in tokens, and in blocks where any pair is read. */
typedef struct twin {
    const s2_pattern *pattern;
    int32_t n_tok;
    int32_t n_blk;
    bool whole; /* every block that is read is read whole */
    bool tok[MOST_LAYERS][MOST_HEADS][MOST_TOKENS][MOST_TOKENS];
    bool blk[MOST_LAYERS][MOST_HEADS][MOST_BLOCKS][MOST_BLOCKS];
} twin;

static void fill_head(twin *t, int32_t layer, int32_t head)
{
    const s2_pattern *const p = t->pattern;
    for (int32_t q = 0; q < t->n_tok; q++)
        for (int32_t k = 0; k < t->n_tok; k++) {
            const bool reads = s2_pattern_reads(p, S2_PREFILL, layer, head, t->n_tok, q, k);
            t->tok[layer][head][q][k] = reads;
            t->blk[layer][head][q / p->block_tok][k / p->block_tok] |= reads;
        }
    for (int32_t q = 0; q < t->n_tok; q++)
        for (int32_t k = 0; k < t->n_tok && (k <= q || !p->causal); k++)
            t->whole &= t->tok[layer][head][q][k] == t->blk[layer][head][q / p->block_tok][k / p->block_tok];
}

static twin *create_twin(const s2_pattern *pattern, int32_t n_tok)
{
    twin *const t = s2_calloc(1, sizeof *t);
    assert_non_null(t);
    t->pattern = pattern;
    t->n_tok = n_tok;
    t->n_blk = (n_tok + pattern->block_tok - 1) / pattern->block_tok;
    t->whole = true;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        for (int32_t head = 0; head < pattern->n_heads; head++)
            fill_head(t, layer, head);
    return t;
}

/* Whether the layers [begin, end) join every pair of tokens. A token always knows itself. */
static bool joins_tokens(const twin *t, int32_t begin, int32_t end)
{
    static bool knows[MOST_TOKENS][MOST_TOKENS], next[MOST_TOKENS][MOST_TOKENS];
    memset(knows, 0, sizeof knows);
    for (int32_t q = 0; q < t->n_tok; q++)
        knows[q][q] = true;
    for (int32_t layer = begin; layer < end; layer++) {
        memcpy(next, knows, sizeof next);
        for (int32_t head = 0; head < t->pattern->n_heads; head++)
            for (int32_t q = 0; q < t->n_tok; q++)
                for (int32_t m = 0; m < t->n_tok; m++)
                    for (int32_t k = 0; t->tok[layer][head][q][m] && k < t->n_tok; k++)
                        next[q][k] |= knows[m][k];
        memcpy(knows, next, sizeof knows);
    }
    for (int32_t q = 0; q < t->n_tok; q++)
        for (int32_t k = 0; k < t->n_tok; k++)
            if (!knows[q][k] && (k <= q || !t->pattern->causal))
                return false;
    return true;
}

static int32_t least_hops(const twin *t)
{
    const int32_t n_layers = t->pattern->n_layers;
    for (int32_t n = 1; n <= n_layers; n++) {
        bool all = true;
        for (int32_t begin = 0; begin + n <= n_layers; begin++)
            all = all && joins_tokens(t, begin, begin + n);
        if (all)
            return n;
    }
    return 0;
}

static int32_t count_heads(const twin *t, int32_t layer, int32_t first, int32_t n, int32_t q, int32_t k)
{
    int32_t count = 0;
    for (int32_t head = first; head < first + n; head++)
        count += t->blk[layer][head][q][k];
    return count;
}

static bool seen(const twin *t, int32_t q, int32_t k)
{
    return k <= q || !t->pattern->causal;
}

/* ------------------------------------------------------------------ comparisons */

static void compare_stack(const twin *t, const s2_stack *stack)
{
    assert_int_equal(stack->n_blk, t->n_blk);
    assert_int_equal(stack->exact, t->whole);
    for (int32_t layer = 0; layer < t->pattern->n_layers; layer++)
        for (int32_t head = 0; head < t->pattern->n_heads; head++)
            for (int32_t q = 0; q < t->n_blk; q++)
                for (int32_t k = 0; k < t->n_blk; k++)
                    assert_int_equal(
                        s2_bit(s2_stack_row(stack, stack->reads[s2_stack_heads(stack, layer)[head]], q), k),
                        t->blk[layer][head][q][k]);
}

/* Exact patterns: the blocks must say what the tokens say. The path must be one of the pattern. */
static void compare_hops(const twin *t, const s2_hops *hops)
{
    if (t->whole)
        assert_int_equal(hops->layers, least_hops(t));
    int32_t layer = -1;
    for (int32_t n = 0; n < hops->n_path; n++) {
        const s2_hop hop = hops->path[n];
        assert_true(hop.layer > layer && hop.layer >= hops->from && hop.layer < hops->from + hops->layers);
        assert_true(t->blk[hop.layer][hop.head][hop.q_blk][hop.k_blk]);
        assert_int_equal(hop.k_blk, n == 0 ? hops->k_blk : hops->path[n - 1].q_blk);
        layer = hop.layer;
    }
    if (hops->n_path > 0)
        assert_int_equal(hops->path[hops->n_path - 1].q_blk, hops->q_blk);
}

/* State layers are left out, unless there are no others. */
static bool is_left_out(const s2_pattern *p, int32_t layer)
{
    int32_t n_states = 0;
    for (int32_t other = 0; other < p->n_layers; other++)
        n_states += s2_pattern_is_state_layer(p, other);
    return n_states < p->n_layers && s2_pattern_is_state_layer(p, layer);
}

static void compare_readers(const twin *t, const s2_readers *readers)
{
    const s2_pattern *const p = t->pattern;
    double heads[S2_OCTAVES] = {0}, kv[S2_OCTAVES] = {0};
    int32_t least[S2_OCTAVES], n[S2_OCTAVES] = {0};
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++)
        least[octave] = INT32_MAX;
    int32_t n_layers = 0;
    for (int32_t layer = 0; layer < p->n_layers; layer++) {
        const int32_t n_kv_heads = s2_pattern_kv_heads(p, layer), group = p->n_heads / n_kv_heads;
        if (is_left_out(p, layer))
            continue;
        n_layers++;
        for (int32_t q = 0; q < t->n_blk; q++)
            for (int32_t k = 0; k < t->n_blk; k++) {
                const int32_t octave = s2_octave(abs(q - k)),
                              count = count_heads(t, layer, 0, p->n_heads, q, k);
                if (!seen(t, q, k))
                    continue;
                n[octave]++;
                heads[octave] += count;
                least[octave] = count < least[octave] ? count : least[octave];
                for (int32_t g = 0; g < n_kv_heads; g++)
                    kv[octave] += count_heads(t, layer, g * group, group, q, k) > 0;
            }
    }
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &readers->octaves[octave];
        assert_int_equal(here->n_pairs * n_layers, n[octave]);
        if (n[octave] == 0)
            continue;
        s2_assert_close(here->heads, heads[octave] / n[octave], 1e-9);
        s2_assert_close(here->kv_heads, kv[octave] / n[octave], 1e-9);
        s2_assert_close(here->chances, heads[octave] / n[octave] * n_layers, 1e-9);
        assert_int_equal(here->least_heads, least[octave]);
        assert_int_equal(count_heads(t, here->layer, 0, p->n_heads, here->q_blk, here->k_blk), least[octave]);
    }
}

/* The whole product, as a matrix; its last row is what the walk must have found. */
static void compare_flow(const twin *t, const s2_flow *flow)
{
    const s2_pattern *const p = t->pattern;
    double product[MOST_BLOCKS][MOST_BLOCKS] = {{0}}, mean[S2_OCTAVES] = {0};
    for (int32_t q = 0; q < t->n_blk; q++)
        product[q][q] = 1;
    for (int32_t layer = 0; layer < p->n_layers; layer++) {
        double next[MOST_BLOCKS][MOST_BLOCKS] = {{0}};
        if (s2_pattern_is_state_layer(p, layer))
            continue;
        for (int32_t q = 0; q < t->n_blk; q++)
            for (int32_t m = 0; m < t->n_blk; m++) {
                double weight = q == m ? 0.5 : 0;
                for (int32_t head = 0; head < p->n_heads; head++) {
                    int32_t row = 0;
                    for (int32_t k = 0; k < t->n_blk; k++)
                        row += t->blk[layer][head][q][k];
                    weight += t->blk[layer][head][q][m] ? 0.5 / row / p->n_heads : 0;
                }
                for (int32_t k = 0; k < t->n_blk; k++)
                    next[q][k] += weight * product[m][k];
            }
        memcpy(product, next, sizeof product);
    }
    for (int32_t k = 0; k < t->n_blk; k++)
        mean[s2_octave(t->n_blk - 1 - k)] += product[t->n_blk - 1][k];
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++)
        if (flow->octaves[octave].n_keys > 0)
            s2_assert_close(flow->octaves[octave].flow, mean[octave] / flow->octaves[octave].n_keys, 1e-12);
}

static double share_of(const twin *t, int32_t layer, int32_t head)
{
    const int32_t half = t->n_blk / 2;
    int32_t n = 0;
    for (int32_t q = t->n_blk - half; q < t->n_blk; q++)
        for (int32_t k = 0; k < half; k++)
            n += t->blk[layer][head][q][k];
    return half > 0 ? (double)n / half / half : 0;
}

static void compare_retrieval(const twin *t, const s2_worth *worth)
{
    const int32_t half = t->n_blk / 2;
    for (int32_t layer = 0; layer < t->pattern->n_layers; layer++) {
        double covered = 0, concentration = 0;
        for (int32_t q = t->n_blk - half; q < t->n_blk; q++)
            for (int32_t k = 0; k < half; k++) {
                double best = 0;
                for (int32_t head = 0; head < t->pattern->n_heads; head++)
                    if (t->blk[layer][head][q][k])
                        best = fmax(best, share_of(t, layer, head));
                concentration += best;
                covered += best > 0;
            }
        const double n_pairs = half > 0 ? (double)half * half : 1;
        s2_assert_close(worth->layers[layer].coverage, covered / n_pairs, 1e-12);
        s2_assert_close(worth->layers[layer].concentration, concentration / n_pairs, 1e-12);
    }
}

static void measures_are_what_their_definitions_say_pair_by_pair(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(4711);
    s2_rng rng = {seed};
    int64_t n_exact = 0;
    for (int64_t n = 0; n < s2_test_cases(300); n++) {
        s2_arena arena = {0};
        s2_measures m = {0};
        const s2_gen_spec options = {.most_layers = 4,
                                     .most_heads = 8,
                                     .explicit_terms = true,
                                     .not_causal = n % 4 == 0,
                                     .layers_differ = n % 3 == 0};
        const s2_pattern *const p = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_non_null(p);
        const int32_t most =
            MOST_BLOCKS * p->block_tok < MOST_TOKENS ? MOST_BLOCKS * p->block_tok : MOST_TOKENS;
        const int32_t n_tok = 1 + (int32_t)s2_rng_below(&rng, (uint64_t)most);
        twin *const t = create_twin(p, n_tok);
        assert_int_equal(s2_measures_take(&arena, p, S2_PREFILL, n_tok, &m), S2_OK);
        compare_stack(t, &m.stack);
        compare_hops(t, &m.hops);
        compare_readers(t, &m.readers);
        compare_flow(t, &m.flow);
        compare_retrieval(t, &m.worth);
        n_exact += t->whole;
        s2_free(t);
        s2_arena_release(&arena);
    }
    print_message("seed %llu: %lld patterns of whole blocks\n", (unsigned long long)seed, (long long)n_exact);
}

static const s2_pattern *measure_tokens(s2_arena *arena, const char *text, int64_t n_tok, s2_measures *out)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    s2_diag diag = {0};
    if (s2_pattern_parse(arena, text, strlen(text), NULL, pattern, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    assert_int_equal(s2_measures_take(arena, pattern, S2_PREFILL, n_tok, out), S2_OK);
    return pattern;
}

/* A block that no layer reads by itself learns of its own tokens through others, where queries read later keys. */
static void a_block_learns_of_itself_through_others(void **state)
{
    (void)state;
    static const char *const terms[] = {"dense", "local 3", "stride 2 phase layer", "sink 2", "dilated 3"};
    s2_rng rng = {s2_test_seed(905)};
    int64_t n_through = 0;
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        char text[200];
        snprintf(text, sizeof text,
                 "layers %d; heads 2; causal no; block 2; heads 0: %s when distance 1..; heads 1: %s when "
                 "distance 1..",
                 1 + (int)s2_rng_below(&rng, 4), terms[s2_rng_below(&rng, 5)], terms[s2_rng_below(&rng, 5)]);
        s2_arena arena = {0};
        s2_measures m = {0};
        const s2_pattern *const p = measure_tokens(&arena, text, 4 + 2 * (int64_t)s2_rng_below(&rng, 9), &m);
        twin *const t = create_twin(p, (int32_t)m.stack.n_tok);
        assert_true(t->whole);
        compare_hops(t, &m.hops);
        assert_true(m.hops.layers == 0 || m.hops.n_path > 0);
        n_through += m.hops.layers > 0;
        s2_free(t);
        s2_arena_release(&arena);
    }
    print_message("%lld stacks join all blocks\n", (long long)n_through);
    assert_true(n_through > 0);
}

/* ------------------------------------------------------------------ how measures move */

static void measure_text(s2_arena *arena, const char *text, s2_measures *out)
{
    (void)measure_tokens(arena, text, 256, out);
}

static const char *const BODIES[] = {"local 1",
                                     "local 3",
                                     "local 4 | stride 8 phase head",
                                     "sink 1 | local 2 | stride 16 phase kv*4",
                                     "chunk 8",
                                     "dilated 6 phase head | local 1",
                                     "local 2 | random 3 seed 5"};
static const char *const MORE[] = {"local 5",  "stride 4 phase kv",         "sink 2",
                                   "chunk 16", "dense when distance 8..12", "dense"};

static void one_more_term_never_lowers_reach(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof BODIES / sizeof BODIES[0]; a++)
        for (size_t b = 0; b < sizeof MORE / sizeof MORE[0]; b++) {
            char text[200];
            s2_arena arena = {0};
            s2_measures less, more;
            snprintf(text, sizeof text, "layers 4; heads 8; kv-heads 4; block 4; %s", BODIES[a]);
            measure_text(&arena, text, &less);
            snprintf(text, sizeof text, "layers 4; heads 8; kv-heads 4; block 4; %s | %s", BODIES[a],
                     MORE[b]);
            measure_text(&arena, text, &more);
            const int32_t before = less.hops.layers > 0 ? less.hops.layers : 99;
            assert_true(more.hops.layers > 0 ? more.hops.layers <= before : before == 99);
            for (int32_t layer = 0; layer < 4; layer++) {
                assert_true(more.hops.receptive[layer].last >= less.hops.receptive[layer].last);
                assert_true(more.worth.layers[layer].coverage >= less.worth.layers[layer].coverage);
                assert_true(more.worth.layers[layer].concentration >= less.worth.layers[layer].concentration);
            }
            for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
                assert_true(more.readers.octaves[octave].heads >= less.readers.octaves[octave].heads);
                assert_true(more.readers.octaves[octave].least_heads >=
                            less.readers.octaves[octave].least_heads);
                assert_true(more.flow.octaves[octave].log2_paths >= less.flow.octaves[octave].log2_paths);
            }
            assert_true(more.readers.window >= less.readers.window);
            s2_arena_release(&arena);
        }
}

static void heads_may_change_places(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_measures a, b;
    measure_text(
        &arena,
        "layers 4; heads 8; kv-heads 4; block 4; local 2 | stride 8; heads 4-7: local 9; heads 2: dense", &a);
    measure_text(
        &arena,
        "layers 4; heads 8; kv-heads 4; block 4; local 2 | stride 8; heads 0-3: local 9; heads 6: dense", &b);
    assert_int_equal(a.hops.layers, b.hops.layers);
    s2_assert_close(a.flow.least, b.flow.least, 1e-12);
    s2_assert_close(a.readers.resident, b.readers.resident, 1e-12);
    s2_assert_close(a.worth.recall, b.worth.recall, 1e-12);
    s2_assert_close(a.worth.loss, b.worth.loss, 1e-12);
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++)
        s2_assert_close(a.readers.octaves[octave].kv_heads, b.readers.octaves[octave].kv_heads, 1e-12);
    s2_arena_release(&arena);
}

static void dense_stacks_are_their_own_measure(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_measures m;
    measure_text(&arena, "layers 4; heads 8; kv-heads 4; block 4; dense", &m);
    assert_int_equal(m.hops.layers, 1);
    assert_int_equal(m.readers.window, 64);
    s2_assert_close(m.flow.least, 1, 1e-12);
    s2_assert_close(m.worth.layers[3].coverage, 1, 1e-12);
    s2_assert_close(m.worth.layers[0].concentration, 1, 1e-12);
    s2_assert_close(m.readers.resident, 4 * 64, 1e-12);
    s2_assert_close(m.readers.resident_once, 64, 1e-12);
    s2_arena_release(&arena);
}

/* What mixers carry is not known, so they neither add to what attention reads and passes on nor take of it. */
static void states_between_layers_change_nothing_of_attention(void **state)
{
    (void)state;
    static const char *const bodies[] = {"dense", "local 2 | stride 4 phase head", "local 3; heads 0: dense"};
    for (size_t n = 0; n < sizeof bodies / sizeof *bodies; n++) {
        s2_arena arena = {0};
        s2_measures plain, mixed;
        char text[200];
        snprintf(text, sizeof text, "layers 2; heads 4; kv-heads 2; block 4; %s", bodies[n]);
        const s2_pattern alone = s2_parsed(&arena, text);
        snprintf(text, sizeof text,
                 "layers 5; heads 4; kv-heads 2; block 4; %s; layers 0,2,4: state 1k; layers 0,2,4: none",
                 bodies[n]);
        const s2_pattern between = s2_parsed(&arena, text);
        assert_int_equal(s2_measures_take(&arena, &alone, S2_PREFILL, 256, &plain), S2_OK);
        assert_int_equal(s2_measures_take(&arena, &between, S2_PREFILL, 256, &mixed), S2_OK);
        assert_memory_equal(&plain.flow, &mixed.flow, sizeof plain.flow);
        assert_int_equal(plain.readers.window, mixed.readers.window);
        assert_true(plain.readers.resident == mixed.readers.resident);
        for (int32_t o = 0; o < S2_OCTAVES; o++) {
            assert_true(plain.readers.octaves[o].heads == mixed.readers.octaves[o].heads);
            assert_int_equal(plain.readers.octaves[o].least_heads, mixed.readers.octaves[o].least_heads);
            assert_true(plain.readers.octaves[o].chances == mixed.readers.octaves[o].chances);
        }
        s2_arena_release(&arena);
    }
}

static void other_shapes_are_not_judged(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "layers 5; heads 8; kv-heads 4; block 4; dense",
        "layers 4; heads 16; kv-heads 4; block 4; dense",
        "layers 4; heads 8; kv-heads 4; block 8; dense",
        "layers 4; heads 8; kv-heads 4; block 4; local 9t",
        "layers 4; heads 8; kv-heads 4; block 4; causal no; dense",
        "layers 4; heads 8; kv-heads 4; block 4; local 1 | topk 8",
        "layers 4; heads 8; kv-heads 4; block 4; dense; layers 2: state 4k",
        "layers 4; heads 8; kv-heads 4; block 4; dense; layers 2: kv-heads 2",
        "layers 4; heads 8; kv-heads 4; block 4; dense; layers 2: kv-layer 1",
        "layers 4; heads 8; kv-heads 4; block 4; dense; layers 2: head-dim 64",
        "layers 4; heads 8; kv-heads 4; block 4; dense; layers 2 heads 3: none",
        "layers 4; heads 8; kv-heads 4; block 4; dense; heads 3: sink 1 when query 5.."};
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++) {
        s2_arena arena = {0};
        s2_measures m;
        measure_text(&arena, texts[n], &m);
        assert_non_null(m.worth.not_judged);
        s2_arena_release(&arena);
    }
}

static void what_is_too_large_is_refused(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_stack stack;
    s2_diag diag;
    const char text[] = "heads 1; block 1; dense";
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    assert_int_equal(s2_stack_build(&arena, &pattern, S2_PREFILL, 0, &stack), S2_EINVAL);
    assert_int_equal(s2_stack_build(&arena, &pattern, S2_PREFILL, S2_REACH_BLOCKS + 1, &stack), S2_ELIMIT);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ every length */

/* What a length says of the measures that are claimed for every length. */
static s2_lengths measure_at(const s2_pattern *pattern, int64_t n_blk)
{
    s2_arena arena = {0};
    s2_stack stack;
    s2_hops hops;
    s2_readers readers;
    s2_lengths out = {.least_heads = INT32_MAX, .least_kv_heads = INT32_MAX};
    assert_int_equal(s2_stack_build(&arena, pattern, S2_PREFILL, n_blk * pattern->block_tok, &stack), S2_OK);
    assert_int_equal(s2_hops_find(&arena, &stack, &hops), S2_OK);
    assert_int_equal(s2_readers_count(&arena, &stack, &readers), S2_OK);
    for (int32_t o = 0; o < S2_OCTAVES; o++)
        if (readers.octaves[o].n_pairs > 0) {
            out.least_heads = s2_min_i32(out.least_heads, readers.octaves[o].least_heads);
            out.least_kv_heads = s2_min_i32(out.least_kv_heads, readers.octaves[o].least_kv_heads);
        }
    out.layers = hops.layers;
    out.window = readers.window;
    s2_arena_release(&arena);
    return out;
}

/* Longer lengths say the same; shorter ones nothing worse. */
static void compare_lengths(const s2_pattern *pattern, const s2_lengths *every, int64_t n_blk)
{
    const s2_lengths here = measure_at(pattern, n_blk);
    const bool longer = n_blk >= every->n_blk;
    const int32_t unknown = pattern->n_layers + 1;
    const int32_t layers = here.layers > 0 ? here.layers : unknown;
    const int32_t most = every->layers > 0 ? every->layers : unknown;
    assert_true(longer ? layers == most : layers <= most);
    assert_true(longer ? here.least_heads == every->least_heads : here.least_heads >= every->least_heads);
    assert_true(longer ? here.least_kv_heads == every->least_kv_heads
                       : here.least_kv_heads >= every->least_kv_heads);
    if (longer && every->window == every->n_blk)
        assert_int_equal(here.window, n_blk);
    else if (longer)
        assert_int_equal(here.window, every->window);
}

static void what_holds_at_every_length_holds_at_longer_ones(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(20261);
    s2_rng rng = {seed};
    int64_t n_decided = 0, n_within = 0;
    for (int64_t n = 0; n < s2_test_cases(1500); n++) {
        s2_arena arena = {0};
        s2_lengths every;
        const s2_gen_spec options = {.most_layers = 4, .most_heads = 4, .layers_differ = n % 2 == 0};
        const s2_pattern *const p = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_non_null(p);
        assert_int_equal(s2_lengths_decide(&arena, p, S2_PREFILL, &every), S2_OK);
        if (every.answer == S2_LENGTHS_DECIDED && every.n_blk <= 400) {
            compare_lengths(p, &every, 1 + (int64_t)s2_rng_below(&rng, (uint64_t)every.n_blk));
            compare_lengths(p, &every, every.n_blk + 1);
            compare_lengths(p, &every, every.n_blk + 2 + (int64_t)s2_rng_below(&rng, 300));
            n_decided++;
            n_within += every.layers > 1;
        }
        s2_arena_release(&arena);
    }
    print_message("seed %llu: %lld decided, %lld of them within several layers\n", (unsigned long long)seed,
                  (long long)n_decided, (long long)n_within);
    assert_true(n_decided > 0);
}

static s2_lengths decide_text(const char *text)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    s2_lengths out;
    if (s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    assert_int_equal(s2_lengths_decide(&arena, &pattern, S2_PREFILL, &out), S2_OK);
    s2_arena_release(&arena);
    return out;
}

static void every_length_is_refused_where_nothing_repeats(void **state)
{
    (void)state;
    assert_int_equal(decide_text("heads 2; local 2 | random 3 seed 5").answer, S2_LENGTHS_LISTED);
    assert_int_equal(decide_text("heads 2; causal no; local 2").answer, S2_LENGTHS_NOT_CAUSAL);
    assert_int_equal(decide_text("heads 2; local 100t").answer, S2_LENGTHS_PARTIAL);
    assert_int_equal(decide_text("heads 2; local 1 | topk 8").answer, S2_LENGTHS_PARTIAL);
    assert_int_equal(decide_text("layers 2; heads 2; layers 0: local 2; layers 1: state 2m").answer,
                     S2_LENGTHS_STATE);
    assert_int_equal(decide_text("heads 2; local 1 | stride 1021 | stride 1019").answer,
                     S2_LENGTHS_TOO_LARGE);
    const s2_lengths dense = decide_text("model llama-3.1-8b; dense");
    assert_int_equal(dense.layers, 1);
    assert_int_equal(dense.least_heads, 32);
    assert_int_equal(dense.window, dense.n_blk);
    const s2_lengths window = decide_text("heads 2; layers 9; local 4");
    assert_int_equal(window.layers, 0);
    assert_int_equal(window.least_heads, 0);
    assert_int_equal(window.window, 4);
}

/* Whether blocks are read in part is told by the first of them that is, however many tokens the length has. */
static void blocks_that_are_read_in_part_are_told_at_once(void **state)
{
    (void)state;
    static const char *const terms[] = {"chunk 41t", "local 199t", "stride 67t width 9t", "dilated 61t",
                                        "columns 5t::7t"};
    s2_rng rng = {s2_test_seed(611)};
    const double begin_s = s2_processor_s();
    for (int64_t n = 0; n < s2_test_cases(20); n++) {
        char text[200];
        snprintf(text, sizeof text,
                 "layers 4; heads 8; block 32; all: %s | stride 3 phase head*5; kv 0: %s | rows 3::7; layers "
                 "2: %s",
                 terms[s2_rng_below(&rng, 5)], terms[s2_rng_below(&rng, 5)], terms[s2_rng_below(&rng, 5)]);
        const s2_lengths_answer answer = decide_text(text).answer;
        assert_true(answer == S2_LENGTHS_PARTIAL || answer == S2_LENGTHS_TOO_LARGE);
    }
    assert_true(s2_processor_s() - begin_s < 5);
}

/* ------------------------------------------------------------------ flow at lengths that no stack holds */

/* Within rounding; nothing where there is nothing, and something where there is. */
static void assert_alike(double a, double b)
{
    assert_true((a == 0) == (b == 0));
    s2_assert_close(a, b, 1e-12 * fmax(1e-3, fabs(b)) + 1e-10 * fabs(b));
}

static void compare_beyond(const s2_flow *beyond, const s2_flow *flow)
{
    assert_alike(beyond->least, flow->least);
    assert_alike(beyond->least_log2_paths, flow->least_log2_paths);
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_flow_at a = beyond->octaves[octave], b = flow->octaves[octave];
        assert_int_equal(a.n_keys, b.n_keys);
        assert_alike(a.flow, b.flow);
        assert_alike(a.dense, b.dense);
        assert_alike(a.log2_paths, b.log2_paths);
    }
}

/* At lengths that a stack does hold, both roads. */
static void flow_from_how_a_pattern_repeats_is_that_of_its_stack(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(60221);
    s2_rng rng = {seed};
    int64_t n_far = 0, n_nothing = 0;
    for (int64_t n = 0; n < s2_test_cases(600); n++) {
        s2_arena arena = {0};
        s2_lengths every;
        s2_lengths_answer answer;
        s2_flow beyond, flow;
        s2_stack stack;
        const s2_gen_spec options = {.most_layers = 4, .most_heads = 4, .layers_differ = n % 2 == 0};
        const s2_pattern *const p = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_non_null(p);
        const int64_t n_tok = 1 + (int64_t)s2_rng_below(&rng, 900 * (uint64_t)p->block_tok);
        assert_int_equal(s2_beyond_flow(&arena, p, S2_PREFILL, n_tok, &answer, &beyond), S2_OK);
        assert_int_equal(s2_lengths_decide(&arena, p, S2_PREFILL, &every), S2_OK);
        if (every.answer != S2_LENGTHS_TOO_LARGE && every.answer != S2_LENGTHS_STATE) /* of hops alone */
            assert_int_equal(answer, every.answer);
        if (answer == S2_LENGTHS_DECIDED) {
            assert_int_equal(s2_stack_build(&arena, p, S2_PREFILL, n_tok, &stack), S2_OK);
            assert_int_equal(s2_flow_measure(&arena, &stack, &flow), S2_OK);
            compare_beyond(&beyond, &flow);
            n_far += stack.n_blk > every.n_blk && every.answer == S2_LENGTHS_DECIDED;
            n_nothing += flow.least == 0;
        }
        s2_arena_release(&arena);
    }
    print_message(
        "seed %llu: %lld beyond the length that decides, %lld of all with a key that flow never leaves\n",
        (unsigned long long)seed, (long long)n_far, (long long)n_nothing);
    assert_true(n_far > 0 && n_nothing > 0);
}

static s2_flow flow_of_text(const char *text, int64_t n_tok)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    s2_lengths_answer answer;
    s2_flow out;
    if (s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    assert_int_equal(s2_beyond_flow(&arena, &pattern, S2_PREFILL, n_tok, &answer, &out), S2_OK);
    assert_int_equal(answer, S2_LENGTHS_DECIDED);
    s2_arena_release(&arena);
    return out;
}

static void flow_is_followed_through_a_million_blocks(void **state)
{
    (void)state;
    const s2_flow dense = flow_of_text("layers 2; heads 2; block 16; dense", S2_LIMIT_CONTEXT_TOK);
    s2_assert_close(dense.least, 1, 1e-9);
    assert_int_equal(dense.octaves[S2_OCTAVES - 1].n_keys, 1 << 19);
    const s2_flow window = flow_of_text("layers 2; heads 2; block 16; local 4", S2_LIMIT_CONTEXT_TOK);
    assert_true(window.least == 0);
    assert_true(window.octaves[3].flow > 0 &&
                window.octaves[4].flow == 0); /* 6 blocks back after two layers */
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag;
    s2_flow out;
    s2_lengths_answer answer;
    const char text[] = "heads 1; block 1; dense";
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    assert_int_equal(s2_beyond_flow(&arena, &pattern, S2_PREFILL, 0, &answer, &out), S2_EINVAL);
    assert_int_equal(s2_beyond_flow(&arena, &pattern, S2_PREFILL, S2_BEYOND_BLOCKS + 1, &answer, &out),
                     S2_ELIMIT);
    s2_arena_release(&arena);
}

static void every_allocation_may_fail_and_nothing_leaks(void **state)
{
    (void)state;
    s2_status status = S2_ENOMEM;
    for (int64_t n = 0; status != S2_OK; n++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_diag diag;
        s2_measures m;
        s2_lengths every;
        int64_t left = n;
        s2_pattern repeating;
        s2_flow flow;
        s2_lengths_answer answer;
        const char text[] =
            "layers 4; heads 8; block 4; local 3; layers 2: stride 4 phase head | random 2 seed 1";
        const char again[] = "layers 4; heads 8; block 4; local 3; layers 2: stride 4 phase head | dilated 3";
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
        assert_int_equal(s2_pattern_parse(&arena, again, strlen(again), NULL, &repeating, &diag), S2_OK);
        s2_alloc_set_hook(s2_test_fail_from, &left);
        status = s2_measures_take(&arena, &pattern, S2_PREFILL, 256, &m);
        if (status == S2_OK)
            status = s2_lengths_decide(&arena, &pattern, S2_PREFILL, &every);
        if (status == S2_OK)
            status = s2_beyond_flow(&arena, &repeating, S2_PREFILL, 1 << 14, &answer, &flow);
        s2_alloc_set_hook(NULL, NULL);
        s2_arena_release(&arena);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measures_are_what_their_definitions_say_pair_by_pair),
        cmocka_unit_test(a_block_learns_of_itself_through_others),
        cmocka_unit_test(one_more_term_never_lowers_reach),
        cmocka_unit_test(heads_may_change_places),
        cmocka_unit_test(dense_stacks_are_their_own_measure),
        cmocka_unit_test(states_between_layers_change_nothing_of_attention),
        cmocka_unit_test(other_shapes_are_not_judged),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(what_holds_at_every_length_holds_at_longer_ones),
        cmocka_unit_test(every_length_is_refused_where_nothing_repeats),
        cmocka_unit_test(blocks_that_are_read_in_part_are_told_at_once),
        cmocka_unit_test(flow_from_how_a_pattern_repeats_is_that_of_its_stack),
        cmocka_unit_test(flow_is_followed_through_a_million_blocks),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
