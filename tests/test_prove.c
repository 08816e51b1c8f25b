#include "tests/s2test.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "coverage/columns.h"
#include "coverage/prove.h"
#include "coverage/repair.h"
#include "tests/s2time.h"
#include "words/explain.h"
#include "pattern/blocks.h"
#include "pattern/dense.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "pattern/view.h"
#include "tests/gen_pattern.h"
#include "tests/gen_spec.h"
#include "tests/gen_split.h"

/* ---- the folded view against the definition --------------------------------------------------------- */

static void print_pattern(const s2_pattern *pattern, uint64_t seed)
{
    s2_buf text = {0};
    s2_pattern_print(pattern, &text);
    print_message("seed %llu, pattern:\n%s\n", (unsigned long long)seed,
                  text.data != NULL ? text.data : "(no text)");
    s2_buf_release(&text);
}

static int64_t compare_row(const s2_view *view, int64_t n_tok, int64_t q_tok)
{
    s2_run *runs = NULL;
    int64_t cap = 0, n_runs = 0, run = 0, n_read = 0;
    assert_int_equal(s2_view_row_whole(view, q_tok, n_tok, NULL, &runs, &cap, &n_runs), S2_OK);
    for (int64_t k_tok = 0; k_tok < n_tok && n_read >= 0; k_tok++) {
        while (run < n_runs && runs[run].end <= k_tok)
            run++;
        const bool got = run < n_runs && runs[run].begin <= k_tok;
        const bool want =
            s2_pattern_reads(view->pattern, view->phase, view->layer, view->head, n_tok, q_tok, k_tok);
        n_read = got == want ? n_read + want : -1 - k_tok;
    }
    s2_free(runs);
    return n_read;
}

typedef struct row_set {
    bool has[64];
} row_set;

static row_set row_of(const s2_view *view, int64_t n_tok, int64_t q_tok)
{
    s2_run *runs = NULL;
    int64_t cap = 0, n_runs = 0;
    row_set row = {{false}};
    assert_int_equal(s2_view_row_whole(view, q_tok, n_tok, NULL, &runs, &cap, &n_runs), S2_OK);
    for (int64_t run = 0; run < n_runs; run++)
        for (int64_t k_tok = runs[run].begin; k_tok < runs[run].end; k_tok++)
            row.has[k_tok] = true;
    s2_free(runs);
    return row;
}

static void check_rows(uint64_t seed, const s2_gen_spec *options)
{
    s2_arena arena = {0};
    s2_rng rng = {seed};
    const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, options, &arena);
    const int64_t n_tok = 5 + (int64_t)s2_rng_below(&rng, 60);
    const int32_t head = (int32_t)s2_rng_below(&rng, (uint64_t)pattern->n_heads);
    s2_view view;
    assert_int_equal(s2_view_build(&arena, pattern, S2_DECODE, 0, head, S2_AT_LEAST, &view), S2_OK);
    int64_t n_pairs = 0, n_counted = 0;
    for (int64_t q_tok = 0; q_tok < n_tok; q_tok++) {
        const int64_t n_read = compare_row(&view, n_tok, q_tok);
        if (n_read < 0) {
            print_pattern(pattern, rng.state);
            fail_msg("case seed %llu: head %d, query %lld, key %lld", (unsigned long long)seed, head,
                     (long long)q_tok, (long long)(-1 - n_read));
        }
        n_pairs += n_read;
    }
    assert_int_equal(s2_view_count_pairs(&view, n_tok, NULL, &n_counted), S2_OK);
    if (n_counted != n_pairs)
        print_pattern(pattern, seed);
    assert_int_equal(n_counted, n_pairs);
    s2_arena_release(&arena);
}

static void row_runs_equal_the_definition_on_random_patterns(void **state)
{
    (void)state;
    const s2_gen_spec options = {
        .most_layers = 2, .most_heads = 4, .explicit_terms = true, .not_causal = true};
    for (int64_t nth = 0; nth < s2_test_cases(300); nth++)
        check_rows(s2_test_seed(11) + (uint64_t)nth, &options);
}

/* The definition counts of a dynamic term what it reads for certain: that is the lower bound. */
static void check_dynamic_bounds(uint64_t seed, const s2_gen_spec *options)
{
    s2_arena arena = {0};
    s2_rng rng = {seed};
    const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, options, &arena);
    const int64_t n_tok = 5 + (int64_t)s2_rng_below(&rng, 30);
    s2_view least, most;
    assert_int_equal(s2_view_build(&arena, pattern, S2_DECODE, 0, 0, S2_AT_LEAST, &least), S2_OK);
    assert_int_equal(s2_view_build(&arena, pattern, S2_DECODE, 0, 0, S2_AT_MOST, &most), S2_OK);
    for (int64_t q_tok = 0; q_tok < n_tok; q_tok++) {
        const row_set certain = row_of(&least, n_tok, q_tok), possible = row_of(&most, n_tok, q_tok);
        for (int64_t k_tok = 0; k_tok < n_tok; k_tok++) {
            const bool defined = s2_pattern_reads(pattern, S2_DECODE, 0, 0, n_tok, q_tok, k_tok);
            if ((certain.has[k_tok] && !possible.has[k_tok]) || defined != certain.has[k_tok]) {
                print_pattern(pattern, seed);
                fail_msg("query %lld, key %lld: the lower bound is not the definition, or above the upper",
                         (long long)q_tok, (long long)k_tok);
            }
        }
    }
    s2_arena_release(&arena);
}

/* Each row of the table of terms by itself, so that a new one is compared without an edit here. */
static void every_term_folds_to_what_it_is_defined_as(void **state)
{
    (void)state;
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++) {
        const s2_term_kind chosen = (s2_term_kind)kind;
        const bool dynamic = s2_term_row_of(chosen)->nature == S2_NATURE_DYNAMIC;
        const s2_gen_spec options = {.most_layers = 2,
                                     .most_heads = 4,
                                     .explicit_terms = true,
                                     .dynamic_terms = dynamic,
                                     .not_causal = true,
                                     .kind = &chosen};
        const int64_t n_cases = s2_test_cases(200);
        for (int64_t nth = 0; nth < n_cases; nth++)
            (dynamic ? check_dynamic_bounds : check_rows)(s2_test_seed(4100) + (uint64_t)nth, &options);
        printf("# s2: rows of `%s`: %lld patterns\n", s2_term_word(chosen), (long long)n_cases);
    }
}

static void check_blocks(const s2_pattern *pattern, const s2_view *view, const s2_blocks *blocks,
                         int64_t n_tok)
{
    const int64_t size = blocks->block_tok;
    for (int64_t q_blk = 0; q_blk < blocks->n_q_blk; q_blk++) {
        for (int64_t k_blk = 0; k_blk < blocks->n_k_blk; k_blk++) {
            int64_t n_read = 0, n_possible = 0;
            for (int64_t q_tok = q_blk * size; q_tok < (q_blk + 1) * size && q_tok < n_tok; q_tok++)
                for (int64_t k_tok = k_blk * size; k_tok < (k_blk + 1) * size && k_tok < n_tok; k_tok++) {
                    n_possible += !pattern->causal || k_tok <= q_tok;
                    n_read +=
                        s2_pattern_reads(pattern, view->phase, view->layer, view->head, n_tok, q_tok, k_tok);
                }
            int64_t entry = -1;
            for (int64_t at = blocks->row_begin[q_blk]; at < blocks->row_begin[q_blk + 1]; at++)
                if (blocks->k_blk[at] == k_blk)
                    entry = at;
            assert_int_equal(entry >= 0, n_read > 0);
            if (entry >= 0)
                assert_int_equal(blocks->full[entry], n_read == n_possible);
        }
    }
}

static void block_lists_equal_the_definition_at_every_granularity(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(23);
    const int64_t n_cases = s2_test_cases(400);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        const s2_gen_spec options = {
            .most_layers = 1, .most_heads = 3, .explicit_terms = true, .not_causal = true};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        const int64_t n_tok = 5 + (int64_t)s2_rng_below(&rng, 40);
        s2_view view;
        s2_blocks blocks;
        assert_int_equal(s2_view_build(&arena, pattern, S2_PREFILL, 0, 0, S2_AT_LEAST, &view), S2_OK);
        for (int32_t block_tok = 1; block_tok <= 16; block_tok *= 2) {
            assert_int_equal(s2_blocks_build(&arena, &view, n_tok, block_tok, NULL, &blocks), S2_OK);
            check_blocks(pattern, &view, &blocks, n_tok);
        }
        s2_arena_release(&arena);
    }
}

/* ---- the prover against enumeration ------------------------------------------------------------------ */

enum { N_ASKED = 7 };

static void ask_all(const s2_pattern *pattern, s2_rng *rng, s2_requirement *asked)
{
    for (int32_t property = 0; property < N_ASKED; property++)
        asked[property] = (s2_requirement){(s2_property)property, 0, true};
    int32_t n_ranks = 1;
    for (int32_t divisor = 2; divisor <= pattern->n_heads; divisor++)
        if (pattern->n_heads % divisor == 0)
            n_ranks = divisor;
    asked[S2_RANKS].arg = n_ranks;
    asked[S2_DEPTH].arg = 1 + (int32_t)s2_rng_below(rng, 3);
}

static void print_finding(const char *engine, const s2_finding *finding)
{
    const s2_witness *const w = &finding->witness;
    print_message("  %-9s %s %s reason %d complete_to %lld failing %d; phase %d layer %d head %d rank %d "
                  "readers %d q %lld k %lld\n",
                  engine, s2_property_word(finding->requirement.property), s2_verdict_word(finding->verdict),
                  finding->reason, (long long)finding->complete_to_tok, finding->n_failing_layers, w->phase,
                  w->layer, w->head, w->rank, w->readers, (long long)w->q_tok, (long long)w->k_tok);
}

typedef struct s2_tally {
    int64_t n_patterns;
    int64_t by_verdict[N_ASKED][3];
    int64_t n_compared;
} s2_tally;

/* A key that comes back is read now and was not read earlier, each by the rules of the phase that is named. */
static void check_revival(const s2_pattern *pattern, uint64_t seed, const char *engine,
                          const s2_finding *finding)
{
    const s2_witness *const w = &finding->witness;
    if (finding->verdict != S2_VIOLATED || finding->requirement.property != S2_KV ||
        finding->complete_to_tok ==
            S2_COMPLETE_UNKNOWN) /* lists drawn anew for a context that is not stated */
        return;
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        for (int32_t t = 0; t < pattern->bodies[b].n_terms; t++)
            if (s2_term_is_dynamic(&pattern->bodies[b].terms[t])) /* the definition counts no choice */
                return;
    const int64_t n_tok = finding->scope_tok == S2_OPEN ? w->q_tok + 1 : finding->scope_tok;
    if (w->earlier_q_tok >= w->k_tok && w->earlier_q_tok < w->q_tok &&
        s2_pattern_reads(pattern, w->phase, w->layer, w->head, n_tok, w->q_tok, w->k_tok) &&
        !s2_pattern_reads(pattern, w->earlier_phase, w->layer, w->head, n_tok, w->earlier_q_tok, w->k_tok))
        return;
    print_pattern(pattern, seed);
    print_finding(engine, finding);
    fail_msg("earlier query %lld of phase %d", (long long)w->earlier_q_tok, w->earlier_phase);
}

/*
 * The witness lies where the property ceases to hold, in whichever layer and head that is. Of a pattern that is
 * not causal a row may have its first key behind the context that ends with its query.
 */
static void check_first_place(const s2_pattern *pattern, uint64_t seed, const char *engine,
                              const s2_finding *finding)
{
    const s2_witness *const w = &finding->witness;
    if (finding->verdict != S2_VIOLATED || finding->complete_to_tok == S2_COMPLETE_UNKNOWN ||
        finding->complete_to_tok == s2_max_i64(w->q_tok, w->k_tok) ||
        (finding->requirement.property == S2_ROWS && !pattern->causal && finding->scope_tok != S2_OPEN))
        return;
    print_pattern(pattern, seed);
    print_finding(engine, finding);
    fail_msg("the witness is not where the property ceases to hold");
}

/* Where `sufficient` tokens are too many to enumerate, one length is compared instead of every length. */
static void compare_pattern(uint64_t seed, s2_rng *rng, s2_arena *arena, const s2_pattern *pattern,
                            bool every_length, bool must_decide, s2_tally *tally)
{
    s2_prove_options how = {.n_tok = every_length ? S2_OPEN : 1 + (int64_t)s2_rng_below(rng, 60)};
    int64_t sufficient;
    assert_int_equal(s2_sufficient_length(arena, pattern, &sufficient), S2_OK);
    if (every_length && sufficient > 220)
        how.n_tok = 64;
    s2_requirement asked[N_ASKED];
    s2_finding proved[N_ASKED], counted[N_ASKED];
    ask_all(pattern, rng, asked);
    /* enumeration is cubic for depth: keep the cases that fit */
    const int32_t n = how.n_tok == S2_OPEN || how.n_tok > 32 ? S2_DEPTH : N_ASKED;
    assert_int_equal(s2_prove(arena, pattern, asked, n, &how, proved), S2_OK);
    assert_int_equal(s2_enumerate(arena, pattern, asked, n, &how, counted), S2_OK);
    for (int32_t property = 0; property < n; property++) {
        const bool decided = proved[property].verdict != S2_UNKNOWN;
        check_revival(pattern, seed, "proved", &proved[property]);
        check_revival(pattern, seed, "counted", &counted[property]);
        check_first_place(pattern, seed, "proved", &proved[property]);
        check_first_place(pattern, seed, "counted", &counted[property]);
        tally->by_verdict[property][proved[property].verdict]++;
        tally->n_compared += decided && counted[property].verdict != S2_UNKNOWN;
        if (!s2_finding_agrees(&proved[property], &counted[property]) ||
            (must_decide && !decided && counted[property].verdict != S2_UNKNOWN)) {
            print_pattern(pattern, seed);
            print_message("length %lld, sufficient %lld\n", (long long)how.n_tok, (long long)sufficient);
            print_finding("prover", &proved[property]);
            print_finding("enumerate", &counted[property]);
            fail_msg("the engines disagree; S2_SEED=%llu S2_CASES=1 replays it", (unsigned long long)seed);
        }
    }
    tally->n_patterns++;
}

static void compare_engines(uint64_t seed, const s2_gen_spec *options, s2_tally *tally)
{
    s2_arena arena = {0};
    s2_rng rng = {seed};
    const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, options, &arena);
    const bool every_length = !options->explicit_terms && s2_rng_below(&rng, 4) != 0;
    /* where nothing is random, dynamic or not causal, the prover must decide */
    const bool must = !options->explicit_terms && !options->dynamic_terms && pattern->causal &&
                      !s2_pattern_layers_differ(pattern);
    compare_pattern(seed, &rng, &arena, pattern, every_length, must, tally);
    s2_arena_release(&arena);
}

static void report(const char *what, uint64_t seed, const s2_tally *tally)
{
    printf("# s2: %s: %lld patterns from seed %llu, %lld verdicts compared;", what,
           (long long)tally->n_patterns, (unsigned long long)seed, (long long)tally->n_compared);
    for (int32_t property = 0; property < N_ASKED; property++)
        printf(" %s %lld/%lld/%lld", s2_property_word((s2_property)property),
               (long long)tally->by_verdict[property][0], (long long)tally->by_verdict[property][1],
               (long long)tally->by_verdict[property][2]);
    printf(" (holds/violated/unknown)\n");
}

static void run_engines(const char *what, uint64_t default_seed, int64_t default_cases,
                        const s2_gen_spec *options)
{
    const uint64_t seed = s2_test_seed(default_seed);
    const int64_t n_cases = s2_test_cases(default_cases);
    s2_tally tally = {0};
    for (int64_t at = 0; at < n_cases; at++)
        compare_engines(seed + (uint64_t)at, options, &tally);
    report(what, seed, &tally);
}

static void the_prover_equals_enumeration_on_static_patterns(void **state)
{
    (void)state;
    const s2_gen_spec options = {.most_layers = 2, .most_heads = 4};
    run_engines("static", 1000000, 2500, &options);
}

static void the_prover_equals_enumeration_on_every_term(void **state)
{
    (void)state;
    for (int kind = 0; kind < S2_N_TERM_KINDS; kind++) {
        const s2_term_kind chosen = (s2_term_kind)kind;
        const s2_gen_spec options = {.most_layers = 2,
                                     .most_heads = 3,
                                     .explicit_terms = s2_term_row_of(chosen)->nature == S2_NATURE_EXPLICIT,
                                     .dynamic_terms = s2_term_row_of(chosen)->nature == S2_NATURE_DYNAMIC,
                                     .kind = &chosen};
        s2_tally tally = {0};
        for (int64_t nth = 0; nth < s2_test_cases(60); nth++)
            compare_engines(s2_test_seed(5200) + (uint64_t)nth, &options, &tally);
        printf("# s2: verdicts of `%s`: %lld compared\n", s2_term_word(chosen), (long long)tally.n_compared);
    }
}

/* Asked without shards, a pattern in blocks is enumerated block by block: the findings are those of tokens. */
static void enumerating_blocks_equals_enumerating_tokens(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(41000);
    const s2_gen_spec options = {
        .most_layers = 2, .most_heads = 4, .explicit_terms = true, .not_causal = true};
    int64_t n_of_blocks = 0;
    for (int64_t at = 0; at < s2_test_cases(300); at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        const s2_prove_options how = {.n_tok = 1 + (int64_t)s2_rng_below(&rng, 50)};
        s2_requirement asked[N_ASKED];
        s2_finding by_tokens[N_ASKED], by_blocks;
        ask_all(pattern, &rng, asked);
        assert_int_equal(s2_enumerate(&arena, pattern, asked, S2_DEPTH, &how, by_tokens), S2_OK);
        for (int32_t property = 0; property < S2_DEPTH; property++) {
            assert_int_equal(s2_enumerate(&arena, pattern, &asked[property], 1, &how, &by_blocks), S2_OK);
            const s2_finding *const tokens = &by_tokens[property];
            n_of_blocks += tokens->verdict == S2_VIOLATED && pattern->block_tok > 1;
            if (!s2_finding_agrees(tokens, &by_blocks) ||
                tokens->complete_to_tok != by_blocks.complete_to_tok ||
                tokens->witness.q_tok != by_blocks.witness.q_tok ||
                tokens->witness.k_tok != by_blocks.witness.k_tok) {
                print_pattern(pattern, seed + (uint64_t)at);
                print_finding("tokens", tokens);
                print_finding("blocks", &by_blocks);
                fail_msg("at %lld tokens; S2_SEED=%llu S2_CASES=1 replays it", (long long)how.n_tok,
                         (unsigned long long)(seed + (uint64_t)at));
            }
        }
        s2_arena_release(&arena);
    }
    assert_true(n_of_blocks > 0 || s2_test_cases(300) < 100);
}

/* Other KV heads in some layers, and layers that keep a state and are not judged. */
static void the_prover_equals_enumeration_where_layers_differ(void **state)
{
    (void)state;
    const s2_gen_spec options = {.most_layers = 3, .most_heads = 4, .layers_differ = true};
    run_engines("layers that differ", 9000000, 600, &options);
}

static void the_prover_equals_enumeration_where_patterns_are_not_causal(void **state)
{
    (void)state;
    const s2_gen_spec options = {.most_layers = 2, .most_heads = 3, .not_causal = true};
    run_engines("not causal", 3000000, 1000, &options);
}

static void bitsets_equal_enumeration_on_masks_and_random_lists(void **state)
{
    (void)state;
    const s2_gen_spec options = {
        .most_layers = 2, .most_heads = 4, .explicit_terms = true, .not_causal = true};
    run_engines("masks and random lists", 5000000, 1000, &options);
}

/*
 * Patterns one number away from another verdict. Those that were not spoiled read every pair, so union must
 * hold for every length: this does not ask the other engine.
 */
static void the_prover_equals_enumeration_at_the_edge_of_a_verdict(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(7000000);
    const int64_t n_cases = s2_test_cases(400);
    s2_tally tally = {0};
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        const s2_gen_split options = {s2_rng_below(&rng, 5) == 0, s2_rng_below(&rng, 4) == 0,
                                      s2_rng_below(&rng, 3) != 0};
        const s2_pattern *const pattern = s2_gen_split_pattern(&rng, &options, &arena);
        const s2_requirement asked = {options.twins ? S2_GROUP : S2_UNION, 0, true};
        s2_finding finding;
        assert_int_equal(s2_pattern_check(pattern, NULL), S2_OK);
        assert_int_equal(
            s2_prove(&arena, pattern, &asked, 1, &(s2_prove_options){.n_tok = S2_OPEN}, &finding), S2_OK);
        if (finding.verdict != S2_HOLDS && !options.spoiled) {
            print_pattern(pattern, rng.state);
            print_finding("prover", &finding);
            fail_msg("a pattern without a hole is refuted; S2_SEED=%llu S2_CASES=1 replays it",
                     (unsigned long long)(seed + (uint64_t)at));
        }
        compare_pattern(seed + (uint64_t)at, &rng, &arena, pattern, s2_rng_below(&rng, 4) != 0,
                        pattern->causal, &tally);
        s2_arena_release(&arena);
    }
    report("pieces of a whole", seed, &tally);
}

/*
 * Heads that cover everything by moduli that share factors, hidden among strides of large primes, whichever
 * are more common; and the same with one of the covering heads left out, which the prover must not call
 * complete.
 */
static void coprime_strides_do_not_hide_a_part_that_covers(void **state)
{
    (void)state;
    static const char *const covers[][4] = {
        {"stride 64 width 32", "stride 64 width 32 phase 32", NULL, NULL},
        {"stride 2", "stride 4 phase 1", "stride 4 phase 3", NULL},
        {"stride 6 width 3", "stride 4 width 2 phase 1", "stride 12 width 3 phase 6", "stride 12 width 3"},
        {"dilated 2", "dilated 4 phase 1", "dilated 4 phase 3", NULL},
    };
    static const int primes[] = {65521, 65519, 65497, 65479, 65449, 65447};
    enum { MOST_CASES = 60 }; /* each fills the prover's room */
    s2_rng rng = {s2_test_seed(37)};
    const int64_t n_cases = s2_test_cases(MOST_CASES) < MOST_CASES ? s2_test_cases(MOST_CASES) : MOST_CASES;
    int32_t n_held = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        const char *const *const parts = covers[s2_rng_below(&rng, 4)];
        const int32_t n_large = 2 + (int32_t)s2_rng_below(&rng, 12), n_parts = parts[2] == NULL   ? 2
                                                                               : parts[3] == NULL ? 3
                                                                                                  : 4;
        const int32_t lost = s2_rng_below(&rng, 2) == 0 ? -1 : (int32_t)s2_rng_below(&rng, (uint64_t)n_parts);
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_pattern pattern;
        s2_finding finding;
        s2_buf_printf(&text, "heads %d;layers all: local 2", n_large + n_parts);
        for (int32_t n = 0; n < n_large; n++)
            s2_buf_printf(&text, ";heads %d: local 2 | stride %d phase %d", n, primes[s2_rng_below(&rng, 6)],
                          1 + (int)s2_rng_below(&rng, 60000));
        for (int32_t n = 0; n < n_parts; n++)
            if (n != lost)
                s2_buf_printf(&text, ";heads %d: local 2 | %s", n_large + n, parts[n]);
        const s2_requirement asked = {S2_UNION, 0, true};
        const s2_prove_options options = {.n_tok = S2_OPEN};
        assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &options, &finding), S2_OK);
        const bool complete = lost < 0 && parts != covers[2];
        if (finding.verdict == S2_UNKNOWN || (complete && finding.verdict != S2_HOLDS))
            fail_msg("%s: %s", text.data, s2_verdict_word(finding.verdict));
        if (finding.verdict == S2_VIOLATED)
            for (int32_t head = 0; head < pattern.n_heads; head++)
                assert_false(s2_pattern_reads(&pattern, S2_PREFILL, 0, head, finding.witness.q_tok + 1,
                                              finding.witness.q_tok, finding.witness.k_tok));
        else
            n_held++;
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    printf("# s2: coprime strides: %d of %lld patterns hold by a part\n", n_held, (long long)n_cases);
    assert_true(n_cases < MOST_CASES || (n_held > n_cases / 8 && n_held < n_cases * 7 / 8));
}

/* The same mask in bytes and in bits, of widths around whole words, dense enough to hold now and then. */
static void packed_masks_have_the_verdicts_of_plain_ones(void **state)
{
    (void)state;
    enum { MOST_BLK = 140 };
    static uint8_t plain[2 * MOST_BLK * MOST_BLK], packed[2 * MOST_BLK * ((MOST_BLK + 7) / 8)];
    const uint64_t seed = s2_test_seed(47);
    const int64_t n_cases = s2_test_cases(300);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        const int32_t n = 1 + (int32_t)s2_rng_below(&rng, MOST_BLK), row_bytes = (n + 7) / 8;
        const uint64_t n_unread = s2_rng_below(&rng, 4);
        s2_mask masks[2] = {
            {.path = "m", .n_heads = 2, .n_q_blk = n, .n_k_blk = n, .allowed = plain},
            {.path = "m", .n_heads = 2, .n_q_blk = n, .n_k_blk = n, .allowed = packed, .packed = true}};
        memset(plain, 1, sizeof plain);
        memset(packed, 0, sizeof packed);
        for (uint64_t hole = 0; hole < n_unread; hole++) {
            const int64_t row = (int64_t)s2_rng_below(&rng, 2 * (uint64_t)n), q_blk = row % n;
            const int64_t k_blk =
                s2_rng_below(&rng, 2) == 0 ? q_blk : (int64_t)s2_rng_below(&rng, (uint64_t)n);
            plain[row * n + k_blk] = 0;
            plain[(row + n) % (2 * n) * n + k_blk] &= s2_rng_below(&rng, 2) == 0;
        }
        for (int64_t cell = 0; cell < 2 * (int64_t)n * n; cell++)
            packed[cell / n * row_bytes + cell % n / 8] |= (uint8_t)(plain[cell] << (7 - cell % n % 8));
        s2_finding findings[2][N_ASKED];
        for (int form = 0; form < 2; form++) {
            s2_term term = s2_term_init(S2_TERM_MASK, 0);
            s2_mask_seal(&masks[form]);
            const s2_body body = {1, &term};
            s2_pattern pattern;
            const char *const text = at % 5 == 0 ? "heads 2;block 2;causal no;layers all: dense"
                                                 : "heads 2;block 2;layers all: dense";
            s2_requirement asked[N_ASKED];
            assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
            term.mask = &masks[form];
            pattern.bodies = &body;
            ask_all(&pattern, &rng, asked);
            asked[S2_DEPTH].arg = 1;
            assert_int_equal(s2_prove(&arena, &pattern, asked, N_ASKED, &(s2_prove_options){.n_tok = S2_OPEN},
                                      findings[form]),
                             S2_OK);
        }
        for (int32_t property = 0; property < N_ASKED; property++)
            if (findings[0][property].verdict != findings[1][property].verdict ||
                !s2_finding_agrees(&findings[0][property], &findings[1][property])) {
                print_finding("plain", &findings[0][property]);
                print_finding("packed", &findings[1][property]);
                fail_msg("%d blocks; S2_SEED=%llu S2_CASES=1 replays it", (int)n,
                         (unsigned long long)(seed + (uint64_t)at));
            }
        s2_arena_release(&arena);
    }
}

/* Each key of a period is asked of each atom, and what an atom fills is made and walked: three steps. */
static void the_search_for_shards_counts_what_it_fills(void **state)
{
    (void)state;
    enum { N_HEADS = 2, PERIOD = 101 };
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_view views[N_HEADS];
    static const char text[] =
        "heads 2\nblock 1\nlayers all: stride 101 phase head | dilated 3 | dilated 5 | "
        "dilated 7 | dilated 11 | dilated 13 | dilated 17\n";
    assert_int_equal(s2_pattern_parse(&arena, text, sizeof text - 1, NULL, &pattern, NULL), S2_OK);
    for (int32_t head = 0; head < N_HEADS; head++)
        assert_int_equal(s2_view_build(&arena, &pattern, S2_PREFILL, 0, head, S2_AT_LEAST, &views[head]),
                         S2_OK);
    int64_t n_steps = 0;
    for (int64_t k_tok = 0; k_tok < PERIOD; k_tok++)
        for (int32_t head = 0; head < N_HEADS; head++)
            for (int32_t a = 0; a < views[head].n_atoms; a++) {
                s2_comb comb;
                n_steps += s2_atom_column(&views[head], &views[head].atoms[a], k_tok, &comb) ? 3 : 1;
            }
    const int64_t limit = 1 << 20;
    s2_column_search search = {.scratch = &arena, .n_tok = S2_OPEN, .work_left = limit};
    s2_violation violation;
    assert_int_equal(s2_columns_shards(&search, views, N_HEADS, &violation), S2_OK);
    assert_true(violation.found);
    assert_in_range(limit - search.work_left, n_steps, 2 * n_steps);
    s2_arena_release(&arena);
}

/* At any limit: what is decided is what would be decided without one, or is not said. */
static void a_work_limit_leaves_unknown_what_it_cuts_off(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(41);
    const int64_t n_cases = s2_test_cases(600);
    int64_t n_cut = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_rng rng = {seed + (uint64_t)at};
        const s2_gen_spec options = {.most_layers = 2,
                                     .most_heads = 4,
                                     .explicit_terms = at % 3 == 0,
                                     .dynamic_terms = at % 4 == 0,
                                     .not_causal = at % 5 == 0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        s2_requirement asked[N_ASKED];
        ask_all(pattern, &rng, asked);
        for (int32_t property = 0; property < N_ASKED; property++) {
            s2_prove_options how = {.n_tok = at % 2 == 0 ? 48 : S2_OPEN};
            s2_finding whole, cut;
            assert_int_equal(s2_prove(&arena, pattern, &asked[property], 1, &how, &whole), S2_OK);
            for (how.work_limit = 1; how.work_limit < 4000; how.work_limit += how.work_limit / 4 + 1) {
                assert_int_equal(s2_prove(&arena, pattern, &asked[property], 1, &how, &cut), S2_OK);
                const bool other_end = cut.verdict == S2_VIOLATED &&
                                       cut.complete_to_tok != S2_COMPLETE_UNKNOWN &&
                                       cut.complete_to_tok != whole.complete_to_tok;
                if (cut.verdict != S2_UNKNOWN && (cut.verdict != whole.verdict || other_end)) {
                    print_pattern(pattern, seed + (uint64_t)at);
                    print_finding("limited", &cut);
                    print_finding("whole", &whole);
                    fail_msg("%lld steps decide otherwise; S2_SEED=%llu S2_CASES=1 replays it",
                             (long long)how.work_limit, (unsigned long long)(seed + (uint64_t)at));
                }
                n_cut += cut.verdict == S2_UNKNOWN && whole.verdict != S2_UNKNOWN;
            }
        }
        s2_arena_release(&arena);
    }
    assert_true(n_cut > 0 || n_cases < 100);
}

/* Their lists are drawn anew for each context: what fails in one says nothing of a shorter one. */
static void random_lists_that_are_not_causal_claim_no_shorter_context(void **state)
{
    (void)state;
    static const char text[] = "layers 2;heads 2;block 4;causal no;layers all: local 1 | random 1 seed 5";
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_requirement asked[N_ASKED];
    s2_finding findings[N_ASKED];
    s2_rng rng = {1};
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    ask_all(&pattern, &rng, asked);
    for (int at = 0; at < 2; at++) {
        const s2_prove_options how = {.n_tok = at == 0 ? S2_OPEN : 64};
        assert_int_equal(s2_prove(&arena, &pattern, asked, N_ASKED, &how, findings), S2_OK);
        assert_int_equal(findings[S2_UNION].verdict, S2_VIOLATED);
        assert_int_equal(findings[S2_KV].verdict, S2_VIOLATED);
        for (int32_t f = 0; f < N_ASKED; f++)
            assert_true(findings[f].verdict != S2_VIOLATED ||
                        findings[f].complete_to_tok == S2_COMPLETE_UNKNOWN);
    }
    s2_arena_release(&arena);
}

static bool add_asked(void *user, size_t n_bytes)
{
    *(size_t *)user += n_bytes;
    return true;
}

/* Each layer and head has atoms of its own. Those of few layers fit; the others are not even made. */
/* Large coprime moduli, windows near the cap, tokens, both directions: whatever makes periods long. */
static void put_hostile_term(s2_rng *rng, s2_buf *text)
{
    const int stride = 65521 - (int)s2_rng_below(rng, 90) * 2, end = 20 + (int)s2_rng_below(rng, 70000);
    switch (s2_rng_below(rng, 6)) {
    case 0: s2_buf_printf(text, "stride %d phase head", stride); break;
    case 1: s2_buf_printf(text, "dilated %d phase head*3", stride); break;
    case 2: s2_buf_printf(text, "dilated %d when distance 3t..%dt & query 7..", stride, end); break;
    case 3: s2_buf_printf(text, "local %dt when key %d..", 1 << 24, end); break;
    case 4: s2_buf_printf(text, "chunk %d when key 3..", end); break;
    default: s2_buf_printf(text, "columns %d::%d | rows 5::%d", end, stride, end); break;
    }
}

/*
 * Work is counted in steps, and what the steps do not count would show here: no question takes many times as long as
 * nine in ten of those that the limit stops.
 */
static void hostile_patterns_cost_what_the_limit_allows(void **state)
{
    (void)state;
    enum { LIMIT_STEPS = 20000000, TIMES = 20, MOST = 4096 };
    static int64_t limited_us[MOST];
    char slowest[1024] = "";
    s2_rng rng = {s2_test_seed(640)};
    int64_t n_limited = 0, slowest_us = 0;
    for (int64_t nth = 0; nth < s2_test_cases(600) / 10; nth++) {
        s2_buf text = {0};
        s2_buf_printf(&text, "heads %d; block 1; %s layers all: ", 1 << s2_rng_below(&rng, 7),
                      s2_rng_below(&rng, 3) == 0 ? "causal no;" : "");
        const int n_terms = 1 + (int)s2_rng_below(&rng, 4);
        for (int term = 0; term < n_terms; term++) {
            s2_buf_puts(&text, term > 0 ? " | " : "");
            put_hostile_term(&rng, &text);
        }
        for (int property = 0; property < S2_DEPTH; property++) {
            s2_arena arena = {0};
            s2_pattern pattern;
            s2_finding found;
            s2_diag diag = {0};
            if (s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, &diag) != S2_OK)
                fail_msg("%s: %s", text.data, diag.msg);
            const s2_requirement asked = {(s2_property)property, property == S2_RANKS ? 1 : 0, true};
            const s2_prove_options how = {.n_tok = S2_OPEN, .work_limit = LIMIT_STEPS};
            const clock_t begin = clock();
            assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &how, &found), S2_OK);
            const int64_t us = (int64_t)(clock() - begin) * 1000000 / CLOCKS_PER_SEC;
            if (found.verdict == S2_UNKNOWN && found.reason == S2_REASON_LIMIT && n_limited < MOST)
                limited_us[n_limited++] = us;
            if (us > slowest_us)
                snprintf(slowest, sizeof slowest, "%s: %s", s2_property_word((s2_property)property),
                         text.data);
            slowest_us = us > slowest_us ? us : slowest_us;
            s2_arena_release(&arena);
        }
        s2_buf_release(&text);
    }
    qsort(limited_us, (size_t)n_limited, sizeof limited_us[0], s2_by_count);
    const int64_t usual_us = limited_us[n_limited * 9 / 10];
    printf("# s2: hostile patterns: %lld questions stopped by the limit in %lld ms of CPU (nine in ten), the "
           "slowest took "
           "%lld ms\n",
           (long long)n_limited, (long long)usual_us / 1000, (long long)slowest_us / 1000);
    if (n_limited > 0 && slowest_us > TIMES * usual_us)
        fail_msg("%lld ms of CPU within %d steps: %s", (long long)slowest_us / 1000, LIMIT_STEPS, slowest);
}

static void a_pattern_larger_than_the_limit_takes_no_memory_for_it(void **state)
{
    (void)state;
    static const char text[] = "layers 512;heads 64;layers all: local 1 | stride 7 phase layer+head";
    s2_arena arena = {0};
    s2_pattern pattern;
    size_t asked_bytes = 0;
    const s2_requirement asked[] = {{S2_KV, 0, true}, {S2_DEPTH, 2, true}};
    s2_finding findings[2];
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    s2_alloc_set_hook(add_asked, &asked_bytes);
    const s2_status status = s2_prove(&arena, &pattern, asked, 2,
                                      &(s2_prove_options){.n_tok = S2_OPEN, .work_limit = 1000}, findings);
    s2_alloc_set_hook(NULL, NULL);
    assert_int_equal(status, S2_OK);
    for (int32_t f = 0; f < 2; f++) {
        assert_int_equal(findings[f].verdict, S2_UNKNOWN);
        assert_int_equal(findings[f].reason, S2_REASON_LIMIT);
    }
    assert_true(asked_bytes < (size_t)1 << 20);
    s2_arena_release(&arena);
}

/*
 * A random list is drawn whole for each row, so its entries count, and a row that was cut short for want of steps decides
 * nothing: at any limit the answer is that of the whole proof, or that it is not known.
 */
static void lists_count_and_a_part_of_a_row_decides_nothing(void **state)
{
    (void)state;
    static const char text[] = "heads 2; block 4; heads 0: local 2 | random 300 seed 3; "
                               "heads 1: local 40 | random 60 seed 5 | stride 2";
    enum { N_TOK = 1200, N_BLK = N_TOK / 4, ENTRIES = 300 + 60 };
    const s2_requirement asked[] = {{S2_UNION, 0, true}, {S2_KV, 0, true},     {S2_ROWS, 0, true},
                                    {S2_GROUP, 0, true}, {S2_SHARDS, 0, true}, {S2_DEPTH, 2, true}};
    enum { N_HERE = sizeof asked / sizeof asked[0] };
    s2_arena arena = {0};
    s2_pattern pattern;
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    for (size_t r = 0; r < N_HERE; r++) {
        s2_finding whole, part;
        int64_t left = S2_PROVE_STEPS;
        s2_prove_options options = {.n_tok = N_TOK, .work_left = &left};
        assert_int_equal(s2_prove(&arena, &pattern, &asked[r], 1, &options, &whole), S2_OK);
        if (whole.verdict == S2_HOLDS && asked[r].property == S2_UNION)
            assert_true(S2_PROVE_STEPS - left >= (int64_t)N_BLK * ENTRIES);
        for (int64_t limit = 1; limit < 100000000; limit += limit / 3 + 1) {
            left = limit;
            assert_int_equal(s2_prove(&arena, &pattern, &asked[r], 1, &options, &part), S2_OK);
            assert_true(part.verdict == S2_UNKNOWN || part.verdict == whole.verdict);
            assert_true(s2_finding_agrees(&part, &whole));
        }
    }
    s2_arena_release(&arena);
}

/*
 * Thousands of moduli on thousands of atoms, of which one head's cover: looked through, not tried in pairs.
 */
static void many_moduli_do_not_hide_a_part_that_covers(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_buf text = {0};
    s2_pattern pattern;
    s2_finding finding;
    const s2_requirement asked = {S2_UNION, 0, true};
    s2_buf_puts(&text, "heads 16;layers all: dilated 2 phase head");
    for (int32_t modulus = 3; modulus < 300; modulus++)
        s2_buf_printf(&text, " | dilated %d phase head*%d", modulus, modulus - 1);
    assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = 1 << 20};
    assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &options, &finding), S2_OK);
    assert_int_equal(finding.verdict, S2_HOLDS);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

/* docs/proof.md, closed form: complete iff the residues -p mod V of the heads are all of Z/V. */
/* A repair is proved: its text, read anew, has the property by enumeration, wherever that decides. */
static void check_repairs(const s2_pattern *pattern, const s2_finding *finding, s2_arena *arena,
                          int64_t *n_checked)
{
    static const s2_prove_options every_length = {.n_tok = S2_OPEN};
    s2_repair repairs[S2_REPAIRS];
    int32_t n = 0;
    assert_int_equal(s2_repairs_find(arena, pattern, finding, repairs, &n), S2_OK);
    for (int32_t nth = 0; nth < n; nth++) {
        s2_buf text = {0};
        s2_pattern mended;
        s2_diag diag;
        s2_finding after;
        s2_pattern_print(&repairs[nth].pattern, &text);
        /* a few of what the generator makes cannot be printed */
        if (text.status != S2_OK)
            continue;
        if (s2_pattern_parse(arena, text.data, text.len, NULL, &mended, &diag) != S2_OK)
            fail_msg("%s: %s", text.data, diag.msg);
        assert_int_equal(s2_enumerate(arena, &mended, &finding->requirement, 1, &every_length, &after),
                         S2_OK);
        if (after.verdict == S2_VIOLATED)
            fail_msg("%s leaves it violated:\n%s", repairs[nth].change, text.data);
        *n_checked += after.verdict == S2_HOLDS;
        s2_buf_release(&text);
    }
}

/* A repair's words, typed in place of what they change, give a pattern that holds. */
static void check_typed(const s2_repair *repair, const char *head, const char *stride, const char *phase,
                        const s2_finding *finding)
{
    static const s2_prove_options every_length = {.n_tok = S2_OPEN};
    s2_arena arena = {0};
    s2_pattern typed;
    s2_finding after;
    s2_diag diag = {0};
    char text[200], sentence[200];
    const char *const change = repair->change, *const new_phase = strstr(change, "phase");
    s2_buf said = {0};
    snprintf(text, sizeof text, "%s%.*s %s", head,
             strncmp(change, "stride", 6) == 0 ? (int)(new_phase != NULL ? new_phase - change : 99) : 99,
             strncmp(change, "stride", 6) == 0 ? change : stride, new_phase != NULL ? new_phase : phase);
    s2_repair_print(repair, &said);
    snprintf(sentence, sizeof sentence, "%s", said.data);
    s2_buf_release(&said);
    if (strstr(sentence, change) == NULL)
        fail_msg("the sentence does not hold the change %s: %s", change, sentence);
    if (s2_pattern_parse(&arena, text, strlen(text), NULL, &typed, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    assert_int_equal(s2_enumerate(&arena, &typed, &finding->requirement, 1, &every_length, &after), S2_OK);
    if (after.verdict != S2_HOLDS)
        fail_msg("%s: typed as %s it does not hold", sentence, text);
    s2_arena_release(&arena);
}

static void a_repair_holds_as_it_is_typed(void **state)
{
    (void)state;
    static const char *const phases[] = {
        "", "phase 3", "phase kv", "phase head", "phase head+2", "phase kv*2", "phase head*3+1"};
    static const s2_requirement asked = {S2_UNION, 0, true};
    static const s2_prove_options every_length = {.n_tok = S2_OPEN};
    s2_rng rng = {s2_test_seed(20261124)};
    int n_typed = 0;
    for (int64_t n = s2_test_cases(400); n > 0; n--) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_finding finding;
        s2_repair repairs[S2_REPAIRS];
        char head[80], stride[40], text[200];
        const char *const phase = phases[s2_rng_below(&rng, 7)];
        const int kv = 1 << s2_rng_below(&rng, 3), every = 2 + (int)s2_rng_below(&rng, 30);
        int32_t n_repairs;
        snprintf(head, sizeof head, "heads %d; kv-heads %d; block 1; layers all: local %d | ",
                 kv << s2_rng_below(&rng, 2), kv, 1 + (int)s2_rng_below(&rng, 5));
        snprintf(stride, sizeof stride, "stride %d width %d", every,
                 1 + (int)s2_rng_below(&rng, (uint64_t)every - 1));
        snprintf(text, sizeof text, "%s%s %s", head, stride, phase);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &every_length, &finding), S2_OK);
        if (finding.verdict == S2_VIOLATED) {
            assert_int_equal(s2_repairs_find(&arena, &pattern, &finding, repairs, &n_repairs), S2_OK);
            for (int32_t nth = 0; nth < n_repairs; nth++)
                if (strncmp(repairs[nth].change, "stride", 6) == 0 ||
                    strncmp(repairs[nth].change, "phase", 5) == 0) {
                    check_typed(&repairs[nth], head, stride, phase, &finding);
                    n_typed++;
                }
        }
        s2_arena_release(&arena);
    }
    assert_true(n_typed > 0);
}

static void every_repair_holds_by_enumeration(void **state)
{
    (void)state;
    const s2_gen_spec options = {.most_layers = 3, .most_heads = 6, .not_causal = true};
    static const s2_requirement asked[] = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}};
    static const s2_prove_options every_length = {.n_tok = S2_OPEN};
    s2_rng rng = {s2_test_seed(91)};
    int64_t n_checked = 0;
    for (int64_t n = s2_test_cases(300); n > 0; n--) {
        s2_arena arena = {0};
        s2_finding findings[3];
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        assert_int_equal(s2_prove(&arena, pattern, asked, 3, &every_length, findings), S2_OK);
        for (int at = 0; at < 3; at++)
            if (findings[at].verdict == S2_VIOLATED)
                check_repairs(pattern, &findings[at], &arena, &n_checked);
        s2_arena_release(&arena);
    }
    assert_true(n_checked > 0);
}

static void local_and_stride_is_complete_exactly_when_residues_cover(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(31)};
    int32_t n_complete = 0;
    const int64_t n_cases = s2_test_cases(2000);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_finding finding;
        char text[160];
        bool covered[64] = {false};
        const int32_t n_heads = 1 + (int32_t)s2_rng_below(&rng, 32),
                      local = 1 + (int32_t)s2_rng_below(&rng, 20);
        const int32_t stride = 1 + (int32_t)s2_rng_below(&rng, 40), step = 1 + (int32_t)s2_rng_below(&rng, 6);
        const int32_t offset = (int32_t)s2_rng_below(&rng, 50);
        snprintf(text, sizeof text, "heads %d;layers all: local %d | stride %d phase head*%d+%d", n_heads,
                 local, stride, step, offset);
        for (int32_t head = 0; head < n_heads; head++)
            covered[(stride - (head * step + offset) % stride) % stride] = true;
        int32_t missing = 0;
        while (missing < stride && covered[missing])
            missing++;
        const s2_requirement asked = {S2_UNION, 0, true};
        const s2_prove_options options = {.n_tok = S2_OPEN};
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        assert_int_equal(s2_prove(&arena, &pattern, &asked, 1, &options, &finding), S2_OK);
        assert_int_equal(finding.verdict, missing == stride ? S2_HOLDS : S2_VIOLATED);
        if (missing < stride)
            assert_int_equal(finding.complete_to_tok, (missing + local) * 64);
        n_complete += missing == stride;
        s2_arena_release(&arena);
    }
    printf("# s2: closed form of local and stride: %lld patterns, %d complete\n", (long long)n_cases,
           n_complete);
}

/* A `when` takes pairs from a dense term: what asks for dense layers must not be given such a one. */
static void what_counts_as_dense_reads_every_pair(void **state)
{
    (void)state;
    enum { N_TOK = 256 };
    s2_rng rng = {s2_test_seed(41)};
    s2_gen_options options = s2_gen_defaults();
    options.max_terms = 1;
    int32_t n_dense = 0, n_restricted = 0;
    const int64_t n_cases = s2_test_cases(400);
    for (int64_t nth = 0; nth < n_cases; nth++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_buf text = {0};
        s2_gen_pattern(&rng, &options, &text);
        assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, NULL), S2_OK);
        for (int32_t body = 0; body < pattern.n_bodies; body++)
            n_restricted += pattern.bodies[body].terms[0].kind == S2_TERM_DENSE &&
                            !s2_body_is_dense(&pattern.bodies[body]);
        for (int32_t layer = 0; layer < pattern.n_layers; layer++) {
            if (!s2_pattern_is_dense(&pattern, S2_PREFILL, layer))
                continue;
            n_dense++;
            for (int32_t head = 0; head < pattern.n_heads; head++)
                for (int64_t k_tok = 0; k_tok < N_TOK; k_tok++)
                    assert_true(
                        s2_pattern_reads(&pattern, S2_PREFILL, layer, head, N_TOK, N_TOK - 1, k_tok) &&
                        (k_tok > 0 || s2_pattern_reads(&pattern, S2_PREFILL, layer, head, N_TOK, 0, 0)));
        }
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    printf("# s2: %d dense layers, %d bodies of restricted dense terms\n", n_dense, n_restricted);
    assert_true(n_cases < 400 || (n_dense > 0 && n_restricted > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_runs_equal_the_definition_on_random_patterns),
        cmocka_unit_test(every_term_folds_to_what_it_is_defined_as),
        cmocka_unit_test(what_counts_as_dense_reads_every_pair),
        cmocka_unit_test(the_prover_equals_enumeration_on_every_term),
        cmocka_unit_test(enumerating_blocks_equals_enumerating_tokens),
        cmocka_unit_test(block_lists_equal_the_definition_at_every_granularity),
        cmocka_unit_test(coprime_strides_do_not_hide_a_part_that_covers),
        cmocka_unit_test(every_repair_holds_by_enumeration),
        cmocka_unit_test(a_repair_holds_as_it_is_typed),
        cmocka_unit_test(local_and_stride_is_complete_exactly_when_residues_cover),
        cmocka_unit_test(packed_masks_have_the_verdicts_of_plain_ones),
        cmocka_unit_test(the_search_for_shards_counts_what_it_fills),
        cmocka_unit_test(a_work_limit_leaves_unknown_what_it_cuts_off),
        cmocka_unit_test(random_lists_that_are_not_causal_claim_no_shorter_context),
        cmocka_unit_test(hostile_patterns_cost_what_the_limit_allows),
        cmocka_unit_test(a_pattern_larger_than_the_limit_takes_no_memory_for_it),
        cmocka_unit_test(many_moduli_do_not_hide_a_part_that_covers),
        cmocka_unit_test(the_prover_equals_enumeration_on_static_patterns),
        cmocka_unit_test(the_prover_equals_enumeration_where_layers_differ),
        cmocka_unit_test(the_prover_equals_enumeration_where_patterns_are_not_causal),
        cmocka_unit_test(the_prover_equals_enumeration_at_the_edge_of_a_verdict),
        cmocka_unit_test(bitsets_equal_enumeration_on_masks_and_random_lists),
        cmocka_unit_test(lists_count_and_a_part_of_a_row_decides_nothing),
    };
    return cmocka_run_group_tests_name("prove", tests, NULL, NULL);
}
