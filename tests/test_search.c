/*
 * Design spaces: what the language refuses, that pruning loses nothing, that shards, threads, resuming
 * and seeds end at the same front, and how fast it goes.
 */
#include "tests/s2test.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store.h"
#include "db/db.h"
#include "pattern/parse.h"
#include "reach/measures.h"
#include "reach/worth.h"
#include "search/dilution.h"
#include "search/spread.h"
#include "search/found.h"
#include "search/search.h"
#include "sim/candidate.h"
#include "tests/s2time.h"

/* ---- the language */

static void spaces_expand_in_mixed_radix_order(void **state)
{
    (void)state;
    static const struct {
        const char *space;
        const char *candidates; /* joined by | */
    } rows[] = {
        {"a", "a"},
        {"a{1,2}b", "a1b|a2b"},
        {"{1,2}{x,y}", "1x|1y|2x|2y"},
        {"{4..12:4}", "4|8|12"},
        {"{4..13:4}", "4|8|12"},
        {"{7..7}", "7"},
        {"{1,3..4,9}", "1|3|4|9"},
        {"x{,y}", "x|xy"},
        {"{ head , kv }+{0,1}", "head+0|head+1|kv+0|kv+1"},
        {"# {no}\n{1,2}", "# {no}\n1|# {no}\n2"},
        {"mask \"{a\\\"}\" {1,2}", "mask \"{a\\\"}\" 1|mask \"{a\\\"}\" 2"},
        {"{layers 1::2: dense}", "layers 1::2: dense"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        s2_arena arena = {0};
        s2_space space;
        s2_diag diag = {0};
        s2_buf text = {0};
        if (s2_space_parse(&arena, rows[r].space, strlen(rows[r].space), &space, &diag) != S2_OK)
            fail_msg("%s: %s", rows[r].space, diag.msg);
        for (int64_t n = 0; n < space.n_candidates; n++) {
            s2_buf_puts(&text, n > 0 ? "|" : "");
            s2_space_expand(&space, n, &text);
        }
        s2_buf_add(&text, "", 1);
        assert_string_equal(text.data, rows[r].candidates);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

static void malformed_spaces_are_refused_with_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *space;
        int32_t line, col;
        const char *words;
    } rows[] = {
        {"local {4", 1, 7, "not closed"},
        {"local 4}", 1, 8, "closes nothing"},
        {"local {4,{5}}", 1, 10, "do not nest"},
        {"local {}", 1, 7, "needs values"},
        {"local { }", 1, 7, "needs values"},
        {"local {4..}", 1, 11, "ends in a number"},
        {"local {4..x}", 1, 11, "ends in a number"},
        {"local {9..4}", 1, 8, "backwards"},
        {"local {4..8:0}", 1, 14, "step"},
        {"local {4..8:}", 1, 13, "step"},
        {"local {4..8:2x}", 1, 14, "nothing behind"},
        {"local {4..8x}", 1, 12, "nothing behind"},
        {"local {1..99999999999}", 1, 21, "9 digits"},
        {"local {0..65536}", 1, 8, "65536"},
        {"heads 4\n\xc3\xa4 {1,2}}", 2, 8, "closes nothing"},
        {"{0..65535}{0..65535}{0..65535}", 1, 21, "2^40"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        s2_arena arena = {0};
        s2_space space = {.n_pieces = 77};
        s2_diag diag = {0};
        const s2_status status = s2_space_parse(&arena, rows[r].space, strlen(rows[r].space), &space, &diag);
        if (status != S2_EPARSE || diag.line != rows[r].line || diag.col != rows[r].col ||
            strstr(diag.msg, rows[r].words) == NULL || space.n_pieces != 77)
            fail_msg("%s: %d at %d:%d: %s", rows[r].space, status, diag.line, diag.col, diag.msg);
        s2_arena_release(&arena);
    }
}

static void more_choices_or_bytes_than_the_cap_are_refused(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_space space;
    s2_diag diag = {0};
    s2_buf text = {0};
    for (int32_t n = 0; n < S2_SPACE_HOLES; n++)
        s2_buf_puts(&text, "{x}");
    assert_int_equal(s2_space_parse(&arena, text.data, text.len, &space, &diag), S2_OK);
    assert_int_equal(space.n_candidates, 1);
    s2_buf_puts(&text, "{x}");
    assert_int_equal(s2_space_parse(&arena, text.data, text.len, &space, &diag), S2_EPARSE);
    while (text.len <= S2_SPACE_BYTES)
        s2_buf_puts(&text, " ");
    assert_int_equal(s2_space_parse(&arena, text.data, text.len, &space, &diag), S2_EPARSE);
    s2_buf_release(&text);
    s2_arena_release(&arena);
}

static void every_text_of_random_bytes_is_parsed_or_refused(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(5)};
    static const char alphabet[] = "{}{},..:0123456789ahk \"#\n\\";
    for (int64_t at = 0; at < s2_test_cases(5000); at++) {
        char text[24];
        const size_t n = s2_rng_below(&rng, sizeof text);
        for (size_t byte = 0; byte < n; byte++)
            text[byte] = alphabet[s2_rng_below(&rng, sizeof alphabet - 1)];
        s2_arena arena = {0};
        s2_space space;
        s2_diag diag = {0};
        const s2_status status = s2_space_parse(&arena, text, n, &space, &diag);
        assert_true(status == S2_OK || (status == S2_EPARSE && diag.line > 0 && diag.msg[0] != '\0'));
        if (status == S2_OK) {
            s2_buf out = {0};
            s2_space_expand(&space, 0, &out);
            s2_space_expand(&space, space.n_candidates - 1, &out);
            assert_int_equal(out.status, S2_OK);
            s2_buf_release(&out);
        }
        s2_arena_release(&arena);
    }
}

/* ---- searches */

typedef struct problem {
    s2_arena arena;
    s2_space space;
    s2_search search;
} problem;

static void pose(problem *p, const char *text, int64_t len_tok)
{
    s2_diag diag = {0};
    *p = (problem){0};
    if (s2_space_parse(&p->arena, text, strlen(text), &p->space, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    p->search = (s2_search){.space = &p->space,
                            .n_by = 3,
                            .by = {S2_BY_PREFILL_US, S2_BY_DECODE_US, S2_BY_KV_BYTES},
                            .n_requirements = 3,
                            .requirements = {{S2_ROWS, 0, true}, {S2_UNION, 0, true}, {S2_KV, 0, true}},
                            .seed = 1,
                            .n_jobs = 1};
    assert_int_equal(s2_sim_options_default(&p->search.options), S2_OK);
    p->search.options.len_tok = len_tok;
    s2_search_shard(&p->search, 1, 1);
}

static void solve(const problem *p, s2_search_state *out)
{
    s2_search_state_init(&p->search, out);
    assert_int_equal(s2_search_run(&p->search, out, INT64_MAX, NULL, NULL), S2_OK);
    assert_int_equal(out->next, p->search.end);
}

static void assert_same_front(const s2_front *a, const s2_front *b, const char *what)
{
    if (a->n != b->n)
        fail_msg("%s: %d points and %d", what, a->n, b->n);
    for (int32_t at = 0; at < a->n; at++)
        if (memcmp(&a->points[at], &b->points[at], sizeof a->points[at]) != 0)
            fail_msg("%s: point %d is candidate %lld and %lld", what, at, (long long)a->points[at].index,
                     (long long)b->points[at].index);
}

/* A pattern's values by the whole simulator, sharing nothing with search/price.c. */
static double depth_of(const s2_pattern *pattern)
{
    s2_arena arena = {0};
    int32_t depth = 1;
    for (; depth <= pattern->n_layers; depth++) {
        const s2_requirement within = {S2_DEPTH, depth, true};
        const s2_prove_options all = {.n_tok = S2_OPEN};
        s2_finding finding;
        assert_int_equal(s2_prove(&arena, pattern, &within, 1, &all, &finding), S2_OK);
        if (finding.verdict == S2_HOLDS)
            break;
    }
    s2_arena_release(&arena);
    return depth;
}

static double mean_signal(const s2_pattern *pattern, int64_t n_tok)
{
    s2_arena arena = {0};
    s2_stack stack;
    s2_worth worth;
    double sum = 0;
    int32_t n_layers = 0;
    assert_int_equal(s2_stack_build(&arena, pattern, S2_PREFILL, n_tok, &stack), S2_OK);
    assert_int_equal(s2_worth_judge(&arena, &stack, &worth), S2_OK);
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        if (!s2_pattern_is_state_layer(pattern, layer)) {
            sum += worth.layers[layer].signal;
            n_layers++;
        }
    s2_arena_release(&arena);
    return n_layers > 0 ? sum / n_layers : 0;
}

/* The signal of dense attention and that of the pattern, each row by row as s2 reach measures it. */
static double dilution_of(const s2_pattern *pattern, int64_t n_tok)
{
    s2_arena arena = {0};
    s2_pattern dense;
    char text[80];
    snprintf(text, sizeof text, "heads 1; block %d; causal %s; dense", (int)pattern->block_tok,
             pattern->causal ? "yes" : "no");
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &dense, NULL), S2_OK);
    const double most = mean_signal(&dense, n_tok), signal = mean_signal(pattern, n_tok);
    s2_arena_release(&arena);
    return n_tok > pattern->block_tok ? fmin(most / signal, S2_DILUTION_MOST) : 1;
}

/* As s2 reach prints them; the tests of reach/ hold that to its definition. */
static void measure_spread(const s2_pattern *pattern, int64_t n_tok, double *hops, double *fading)
{
    s2_arena arena = {0};
    s2_measures m;
    assert_int_equal(s2_measures_take(&arena, pattern, S2_PREFILL, n_tok, &m), S2_OK);
    *hops = m.hops.layers > 0 ? m.hops.layers : pattern->n_layers + 1;
    *fading = fmin(fmax(1 / m.flow.least, 1), S2_FADING_MOST);
    s2_arena_release(&arena);
}

static void simulate(const problem *p, const s2_pattern *pattern, double *value)
{
    s2_arena arena = {0};
    s2_sim_options options = p->search.options;
    s2_sim prefill, decode;
    double hops = 0, fading = 0;
    for (int32_t v = 0; v < p->search.n_by; v++)
        if (p->search.by[v] == S2_BY_HOPS || p->search.by[v] == S2_BY_FADING)
            measure_spread(pattern, options.len_tok, &hops, &fading);
    options.phase = S2_PREFILL;
    assert_int_equal(s2_price(&arena, pattern, &options, S2_PRICE_WHOLE, &prefill, NULL), S2_OK);
    options.phase = S2_DECODE;
    assert_int_equal(s2_price(&arena, pattern, &options, S2_PRICE_WHOLE, &decode, NULL), S2_OK);
    const double all[S2_N_OBJECTIVES] = {
        [S2_BY_PREFILL_US] = prefill.time_us,
        [S2_BY_DECODE_US] = decode.time_us,
        [S2_BY_KV_BYTES] = (double)prefill.kv.head_pages,
        [S2_BY_DENSITY] = prefill.density,
        [S2_BY_IMBALANCE] = prefill.imbalance,
        [S2_BY_UNREAD] = 1 - prefill.token_density,
        [S2_BY_REDUNDANCY] = prefill.token_density * pattern->n_heads,
        [S2_BY_DEPTH] = depth_of(pattern),
        [S2_BY_HOPS] = hops,
        [S2_BY_FADING] = fading,
    };
    for (int32_t v = 0; v < p->search.n_by; v++)
        value[v] =
            p->search.by[v] == S2_BY_DILUTION ? dilution_of(pattern, options.len_tok) : all[p->search.by[v]];
    s2_arena_release(&arena);
}

static const char *const TERMS[] = {
    "local {1,4} {,| sink 2} | stride {2..5} phase {head,kv}*{1,3}+{0,1}",
    "local {1,70} | stride {2,3,4} phase {head,kv}; {,kv 1: dense,kv 0: dense,heads 3: dense}",
    "local {1..4} | stride {4,8} phase {head,layer,head+kv}; {,layers 1::2: dense,decode: dense}",
    "{local 2,local 100t,dense,none,chunk 4,dilated 3 phase head,sink 1} | {stride 4 phase head,local 3}",
    "local {1..3} | stride {2,4} width {1,2} phase head | {sink 1,columns 0,pages 4 page 16}",
    "local {1,4} | stride 2 phase {head,kv}; layers 0: kv-heads {1,2}; layers 0: head-dim {64,256}",
    "local {1,4} | stride 2 phase head; layers 0: state 100k; layers 0: {none,local 2,dense}",
};

static void draw_space(s2_rng *rng, char *out, size_t cap)
{
    const size_t n_terms = sizeof TERMS / sizeof TERMS[0];
    const int kv_heads = 2 << s2_rng_below(rng, 2);
    snprintf(out, cap, "layers %d; heads {4,8}; kv-heads %d; block %d; layers all: %s",
             (int)s2_rng_below(rng, 3) + 1, kv_heads, 8 << s2_rng_below(rng, 4),
             TERMS[s2_rng_below(rng, n_terms)]);
}

/* Everything that is proved, priced without closed form and without bounds. */
static void price_plainly(const problem *p, const s2_pattern *pattern, double *value)
{
    s2_objectives objectives;
    s2_quote quote = {.pattern = pattern};
    assert_int_equal(s2_objectives_init(&objectives, &p->search.options, p->search.by, p->search.n_by),
                     S2_OK);
    assert_int_equal(s2_objectives_exact(&objectives, &quote, value), S2_OK);
    s2_objectives_release(&objectives);
}

static bool is_within(const problem *p, const s2_pattern *pattern)
{
    problem own = *p;
    double dense = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        dense += (double)s2_pattern_state_bytes(pattern, layer) +
                 (s2_pattern_is_state_layer(pattern, layer) ? 0 : 4.0) * s2_pattern_head_dim(pattern, layer) *
                     s2_pattern_kv_heads(pattern, layer) * (double)p->search.options.len_tok;
    own.search.n_by = 1;
    for (int32_t n = 0; n < p->search.n_limits; n++) {
        const s2_search_limit *const limit = &p->search.limits[n];
        double value[S2_MAX_OBJECTIVES];
        own.search.by[0] = limit->of;
        price_plainly(&own, pattern, value);
        if (value[0] > limit->most * (limit->of_dense ? dense : 1))
            return false;
    }
    return true;
}

static void brute_force(const problem *p, s2_front *front)
{
    *front = (s2_front){.n_values = p->search.n_by};
    for (int64_t index = 0; index < p->space.n_candidates; index++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_finding findings[3];
        const s2_prove_options all = {.n_tok = S2_OPEN};
        s2_point point = {.index = index};
        if (s2_search_pattern(&p->search, index, &arena, &pattern, NULL) == S2_OK &&
            s2_prove(&arena, &pattern, p->search.requirements, 3, &all, findings) == S2_OK &&
            findings[0].verdict == S2_HOLDS && findings[1].verdict == S2_HOLDS &&
            findings[2].verdict == S2_HOLDS && is_within(p, &pattern)) {
            price_plainly(p, &pattern, point.value);
            assert_int_equal(s2_front_add(front, &point, 1), S2_OK);
        }
        s2_arena_release(&arena);
    }
}

/* Some point of `by` is at least as good everywhere, up to rounding. */
static bool is_reached(const s2_front *by, const s2_point *point)
{
    for (int32_t at = 0; at < by->n; at++) {
        bool reached = true;
        for (int32_t v = 0; v < by->n_values; v++)
            reached &= by->points[at].value[v] <= point->value[v] * (1 + 1e-9) + 1e-12;
        if (reached)
            return true;
    }
    return false;
}

static void the_front_is_that_of_brute_force(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(31)};
    static const s2_objective others[] = {S2_BY_DENSITY,  S2_BY_IMBALANCE, S2_BY_UNREAD,
                                          S2_BY_DILUTION, S2_BY_HOPS,      S2_BY_FADING};
    for (int64_t at = 0; at < s2_test_cases(10) && at < 50; at++) {
        char text[300];
        problem p;
        s2_search_state found;
        s2_front brute;
        draw_space(&rng, text, sizeof text);
        pose(&p, text, (int64_t)s2_rng_below(&rng, 40) * 16 + 16 + (int64_t)s2_rng_below(&rng, 2) * 5);
        p.search.by[s2_rng_below(&rng, 3)] = others[s2_rng_below(&rng, sizeof others / sizeof others[0])];
        solve(&p, &found);
        brute_force(&p, &brute);
        for (int32_t f = 0; f < brute.n; f++)
            if (!is_reached(&found.front, &brute.points[f]))
                fail_msg("candidate %lld is lost: %s", (long long)brute.points[f].index, text);
        for (int32_t f = 0; f < found.front.n; f++)
            if (!is_reached(&brute, &found.front.points[f]))
                fail_msg("candidate %lld is too good: %s", (long long)found.front.points[f].index, text);
        s2_front_release(&brute);
        s2_search_state_release(&found);
        s2_arena_release(&p.arena);
    }
}

static void bounds_stay_below_exact_values_and_these_are_the_simulators(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(37)};
    static const s2_objective all[S2_MAX_OBJECTIVES] = {S2_BY_PREFILL_US, S2_BY_DECODE_US, S2_BY_KV_BYTES,
                                                        S2_BY_DENSITY,    S2_BY_IMBALANCE, S2_BY_UNREAD};
    static const s2_objective last[] = {S2_BY_UNREAD,   S2_BY_REDUNDANCY, S2_BY_DEPTH,
                                        S2_BY_DILUTION, S2_BY_HOPS,       S2_BY_FADING};
    int64_t n_fast = 0;
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        char text[300];
        problem p;
        s2_arena arena = {0};
        s2_pattern pattern;
        draw_space(&rng, text, sizeof text);
        pose(&p, text, (int64_t)s2_rng_below(&rng, 1500) + 1);
        /* a small memory: what fits it is a short context, and one time in four the cache spills */
        p.search.options.gpu.hbm_gb = s2_rng_below(&rng, 4) == 0 ? 1e-4 : 0.02;
        if (s2_rng_below(&rng, 2) == 0)
            p.search.options.len_tok = (p.search.options.len_tok / 16 + 1) * 16;
        p.search.n_by = S2_MAX_OBJECTIVES;
        memcpy(p.search.by, all, sizeof all);
        p.search.by[5] = last[s2_rng_below(&rng, sizeof last / sizeof last[0])];
        const int64_t index = (int64_t)s2_rng_below(&rng, (uint64_t)p.space.n_candidates);
        if (s2_search_pattern(&p.search, index, &arena, &pattern, NULL) == S2_OK) {
            s2_objectives objectives;
            s2_quote quote;
            double low[S2_MAX_OBJECTIVES], exact[S2_MAX_OBJECTIVES], whole[S2_MAX_OBJECTIVES];
            assert_int_equal(s2_objectives_init(&objectives, &p.search.options, p.search.by, p.search.n_by),
                             S2_OK);
            assert_int_equal(s2_objectives_bound(&objectives, &pattern, &quote, low), S2_OK);
            assert_int_equal(s2_objectives_exact(&objectives, &quote, exact), S2_OK);
            simulate(&p, &pattern, whole);
            n_fast += quote.floor.fast;
            for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++) {
                if (!(low[v] <= exact[v]) || !(fabs(exact[v] - whole[v]) <= 1e-9 * whole[v] + 1e-12))
                    fail_msg("%s of candidate %lld at %lld: %.17g <= %.17g = %.17g: %s",
                             s2_objective_word(p.search.by[v]), (long long)index,
                             (long long)p.search.options.len_tok, low[v], exact[v], whole[v], text);
            }
            s2_objectives_release(&objectives);
        }
        s2_arena_release(&arena);
        s2_arena_release(&p.arena);
    }
    assert_true(n_fast > 0 || s2_test_cases(60) < 60);
}

/*
 * vLLM and its like free nothing: such a search compares every page, and a limit of a part of dense is one of what
 * the page of the price calls dense, however many GPUs share the heads.
 */
static void a_cache_that_frees_nothing_is_the_dense_one_in_whole_pages(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(59)};
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        char text[300];
        problem p;
        s2_pattern pattern;
        draw_space(&rng, text, sizeof text);
        pose(&p, text, (int64_t)s2_rng_below(&rng, 1500) + 1);
        p.search.options.n_ranks = 1 << s2_rng_below(&rng, 4);
        p.search.options.batch = 1 + (int64_t)s2_rng_below(&rng, 3);
        const int64_t index = (int64_t)s2_rng_below(&rng, (uint64_t)p.space.n_candidates);
        s2_sim_options options = p.search.options;
        s2_sim exact, whole_pages;
        bool good = s2_search_pattern(&p.search, index, &p.arena, &pattern, NULL) == S2_OK &&
                    s2_price(&p.arena, &pattern, &options, S2_PRICE_WHOLE, &exact, NULL) == S2_OK;
        options.len_tok = (options.len_tok + options.page_tok - 1) / options.page_tok * options.page_tok;
        good = good && s2_price(&p.arena, &pattern, &options, S2_PRICE_WHOLE, &whole_pages, NULL) == S2_OK;
        if (good) { /* else the ranks do not divide the heads */
            s2_objectives objectives;
            s2_quote quote;
            double low[S2_MAX_OBJECTIVES], value[S2_MAX_OBJECTIVES];
            assert_int_equal(s2_objectives_init(&objectives, &p.search.options, p.search.by, p.search.n_by),
                             S2_OK);
            objectives.options.keeps_all = true;
            assert_int_equal(s2_objectives_bound(&objectives, &pattern, &quote, low), S2_OK);
            assert_int_equal(s2_objectives_exact(&objectives, &quote, value), S2_OK);
            if ((int64_t)value[2] != whole_pages.kv.dense || (quote.floor.fast && low[2] != value[2]) ||
                (int64_t)s2_objectives_dense_kv_bytes(&objectives, &pattern) != exact.kv.dense)
                fail_msg("at %lld on %d GPUs: %.17g and %.17g, not %lld; dense %.17g, not %lld: %s",
                         (long long)p.search.options.len_tok, (int)options.n_ranks, low[2], value[2],
                         (long long)whole_pages.kv.dense, s2_objectives_dense_kv_bytes(&objectives, &pattern),
                         (long long)exact.kv.dense, text);
            s2_objectives_release(&objectives);
        }
        s2_arena_release(&p.arena);
    }
}

/* Numbers in any order and in ranges; a hole with words in it has no edge. */
static void the_edge_of_a_space_is_its_least_and_greatest_number(void **state)
{
    (void)state;
    problem p;
    pose(&p, "heads 4; all: local {5,2,9} | stride {4..16:4} phase {head,kv}{,| sink 1}", 1024);
    for (int64_t index = 0; index < p.space.n_candidates; index++) {
        int32_t local = 0, stride = 0;
        s2_buf text = {0};
        s2_space_expand(&p.space, index, &text);
        s2_buf_add(&text, "", 1);
        assert_int_equal(sscanf(text.data, "heads 4; all: local %d | stride %d", &local, &stride), 2);
        int64_t value[4] = {0};
        assert_int_equal(s2_space_edge(&p.space, index, 0, &value[0]), local == 2 ? -1 : local == 9);
        assert_int_equal(s2_space_edge(&p.space, index, 1, &value[1]), stride == 4 ? -1 : stride == 16);
        assert_true(value[0] == local && value[1] == stride);
        assert_int_equal(s2_space_edge(&p.space, index, 2, &value[2]), 0);
        assert_int_equal(s2_space_edge(&p.space, index, 3, &value[3]), 0);
        s2_buf_release(&text);
    }
    s2_arena_release(&p.arena);
}

/* Layers that fail, layers that nothing is known of and layers that hold, in every order. */
static void depth_counts_layers_that_are_not_decided_as_not_reached(void **state)
{
    (void)state;
    static const char *const kinds[] = {"local 2", "local 2 | pages 4 page 16", "dense"};
    for (int32_t at = 0; at < 81; at++) {
        problem p;
        s2_pattern pattern;
        s2_objectives objectives;
        char text[300];
        double value[S2_MAX_OBJECTIVES];
        snprintf(text, sizeof text,
                 "layers 4; heads 2; layers 0: %s; layers 1: %s; layers 2: %s; layers 3: %s", kinds[at % 3],
                 kinds[at / 3 % 3], kinds[at / 9 % 3], kinds[at / 27]);
        pose(&p, text, 4096);
        p.search.by[0] = S2_BY_DEPTH;
        p.search.n_by = 1;
        assert_int_equal(s2_search_pattern(&p.search, 0, &p.arena, &pattern, NULL), S2_OK);
        s2_quote quote = {.pattern = &pattern};
        assert_int_equal(s2_objectives_init(&objectives, &p.search.options, p.search.by, p.search.n_by),
                         S2_OK);
        assert_int_equal(s2_objectives_exact(&objectives, &quote, value), S2_OK);
        if (value[0] != depth_of(&pattern))
            fail_msg("%s: %g, and %g by asking for each", text, value[0], depth_of(&pattern));
        s2_objectives_release(&objectives);
        s2_arena_release(&p.arena);
    }
}

/* With the constants of a GPU: what is compared is what s2 sim predicts, and the floors stay below it. */
static void predicted_times_are_the_simulators_and_stay_above_their_floors(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(53)};
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find("h200", &constants), S2_OK);
    int64_t n_floors = 0;
    double closest = 0, sum = 0;
    for (int64_t at = 0; at < s2_test_cases(60); at++) {
        char text[300];
        problem p;
        s2_arena arena = {0};
        s2_pattern pattern;
        draw_space(&rng, text, sizeof text);
        pose(&p, text, ((int64_t)s2_rng_below(&rng, 150) + 1) * 16);
        p.search.options.gpu.hbm_gb = 0.02; /* what fits it is a short context, quickly found */
        p.search.options.calibration = &constants;
        p.search.options.batch = 1 + (int64_t)s2_rng_below(&rng, 3);
        p.search.options.dtype = s2_rng_below(&rng, 2) == 0 ? S2_BF16 : S2_F16;
        const int64_t index = (int64_t)s2_rng_below(&rng, (uint64_t)p.space.n_candidates);
        if (s2_search_pattern(&p.search, index, &arena, &pattern, NULL) == S2_OK) {
            s2_objectives objectives;
            s2_quote quote;
            double low[S2_MAX_OBJECTIVES], near[S2_MAX_OBJECTIVES], exact[S2_MAX_OBJECTIVES], whole[3];
            assert_int_equal(s2_objectives_init(&objectives, &p.search.options, p.search.by, p.search.n_by),
                             S2_OK);
            assert_int_equal(s2_objectives_bound(&objectives, &pattern, &quote, low), S2_OK);
            memcpy(near, low, sizeof near);
            const int32_t n_steps = (int32_t)s2_rng_below(&rng, S2_REFINE_STEPS + 1);
            for (int32_t step = 0; step < n_steps; step++)
                assert_int_equal(s2_objectives_refine(&objectives, &quote, step, near), S2_OK);
            assert_int_equal(s2_objectives_exact(&objectives, &quote, exact), S2_OK);
            simulate(&p, &pattern, whole);
            for (int32_t v = 0; v < 3; v++)
                if (!(low[v] <= near[v]) || !(near[v] <= exact[v]) ||
                    !(fabs(exact[v] - whole[v]) <= 1e-9 * whole[v]))
                    fail_msg("S2_SEED case %lld: %s of candidate %lld at %lld: %.17g <= %.17g <= %.17g = "
                             "%.17g: %s",
                             (long long)at, s2_objective_word(p.search.by[v]), (long long)index,
                             (long long)p.search.options.len_tok, low[v], near[v], exact[v], whole[v], text);
            if (quote.floor_us[S2_PREFILL] > 0) {
                n_floors++;
                sum += quote.floor_us[S2_PREFILL] / exact[0];
                closest = fmax(closest, quote.floor_us[S2_PREFILL] / exact[0]);
            }
            s2_objectives_release(&objectives);
        }
        s2_arena_release(&arena);
        s2_arena_release(&p.arena);
    }
    assert_true(n_floors > 0 || s2_test_cases(60) < 60);
    printf("# s2: floors of %lld predicted prefills: on average %.3f of the prediction, at most %.3f\n",
           (long long)n_floors, sum / (double)(n_floors > 0 ? n_floors : 1), closest);
}

/* Stages, shared contexts, dealt experts, nodes: what a search compares is what s2 sim prints, bounds below it. */
static void machines_are_priced_as_the_simulator_prices_them(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-3.1-8b", "gpt-oss-20b"};
    s2_rng rng = {s2_test_seed(59)};
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find("h200", &constants), S2_OK);
    for (int64_t at = 0; at < s2_test_cases(16); at++) {
        const bool mixture = s2_rng_below(&rng, 2) == 1;
        char text[200];
        s2_net net;
        problem p;
        assert_int_equal(s2_net_find(models[mixture], &net, NULL), S2_OK);
        snprintf(text, sizeof text, "model %s; layers all: local {2,4} | stride {2,4} phase head", net.name);
        pose(&p, text, 512 * (1 + (int64_t)s2_rng_below(&rng, 4)));
        s2_sim_options *const options = &p.search.options;
        options->net = &net;
        options->calibration = s2_rng_below(&rng, 2) == 0 ? &constants : NULL;
        options->batch = 1 + (int64_t)s2_rng_below(&rng, 3);
        options->n_stages = 1 << s2_rng_below(&rng, 3);
        options->n_micro = options->n_stages > 1 ? (int32_t)s2_rng_below(&rng, 3) : 0;
        options->n_expert_ranks = mixture ? 1 << s2_rng_below(&rng, 3) : 1;
        options->n_nodes = options->n_stages;
        options->n_ranks = 1 << s2_rng_below(&rng, 2);
        for (int64_t index = 0; index < p.space.n_candidates; index++) {
            s2_arena arena = {0};
            s2_pattern pattern;
            s2_objectives objectives;
            s2_quote quote;
            double low[S2_MAX_OBJECTIVES], exact[S2_MAX_OBJECTIVES], whole[3];
            assert_int_equal(s2_search_pattern(&p.search, index, &arena, &pattern, NULL), S2_OK);
            assert_int_equal(s2_objectives_init(&objectives, options, p.search.by, p.search.n_by), S2_OK);
            assert_int_equal(s2_objectives_bound(&objectives, &pattern, &quote, low), S2_OK);
            for (int32_t step = 0; step < S2_REFINE_STEPS; step++)
                assert_int_equal(s2_objectives_refine(&objectives, &quote, step, low), S2_OK);
            assert_int_equal(s2_objectives_exact(&objectives, &quote, exact), S2_OK);
            simulate(&p, &pattern, whole);
            for (int32_t v = 0; v < 3; v++) {
                assert_true(low[v] <= exact[v]);
                s2_assert_close(exact[v], whole[v], 1e-9 * whole[v]);
            }
            s2_objectives_release(&objectives);
            s2_arena_release(&arena);
        }
        s2_arena_release(&p.arena);
    }
}

static void predictions_choose_the_same_front_however_they_are_visited(void **state)
{
    (void)state;
    problem p;
    s2_search_state plain, other;
    int64_t n_beaten = 0;
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find("h200", &constants), S2_OK);
    pose(&p,
         "layers 2; heads 8; kv-heads 4; block {32,64}; layers all: local {1..8} | stride {2,4,8} phase "
         "{head,kv}+{0,1}; {,layers 1: dense}",
         6016);
    p.search.options.calibration = &constants;
    p.search.no_pruning = true;
    solve(&p, &plain);
    p.search.no_pruning = false;
    for (int32_t jobs = 1; jobs <= 3; jobs++) {
        p.search.n_jobs = jobs;
        p.search.seed = (uint64_t)jobs;
        solve(&p, &other);
        assert_same_front(&plain.front, &other.front, "jobs");
        n_beaten += other.counts.beaten;
        s2_search_state_release(&other);
    }
    s2_front merged = {.n_values = p.search.n_by};
    for (int64_t shard = 3; shard >= 1; shard--) {
        s2_search_shard(&p.search, shard, 3);
        solve(&p, &other);
        assert_int_equal(s2_front_add(&merged, other.front.points, other.front.n), S2_OK);
        s2_search_state_release(&other);
    }
    assert_same_front(&plain.front, &merged, "shards");
    assert_true(n_beaten > 0);
    s2_front_release(&merged);
    s2_search_state_release(&plain);
    s2_arena_release(&p.arena);
}

static int64_t sum_of(const s2_search_counts *counts)
{
    int64_t sum = counts->refused + counts->unknown + counts->outside + counts->beaten + counts->priced;
    for (int property = 0; property < S2_N_PROPERTIES; property++)
        sum += counts->violated[property];
    return sum;
}

/* One objective has a limit too, two have nothing else; times with constants and at peak rates. */
static void limits_leave_the_front_of_what_lies_within_them(void **state)
{
    (void)state;
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find("h200", &constants), S2_OK);
    for (int at = 0; at < 4; at++) {
        problem p;
        s2_search_state found, read;
        s2_front brute;
        s2_buf text = {0};
        pose(&p,
             "layers 2; heads 8; kv-heads 4; layers all: {local 2,local 70t,local 5} | stride {2,3,4,8} "
             "phase {head,kv}; {,layers 1: dense}",
             6016);
        p.search.options.calibration = at % 2 == 0 ? &constants : NULL;
        p.search.no_pruning = at == 3;
        p.search.n_by = 2;
        p.search.by[0] = S2_BY_UNREAD;
        p.search.by[1] = S2_BY_PREFILL_US;
        p.search.n_limits = 3;
        p.search.limits[0] = (s2_search_limit){S2_BY_KV_BYTES, 0.6, true};
        p.search.limits[1] = (s2_search_limit){S2_BY_UNREAD, 0.8, false};
        p.search.limits[2] = (s2_search_limit){S2_BY_DECODE_US, at % 2 == 0 ? 40 : 8, false};
        brute_force(&p, &brute);
        for (p.search.n_jobs = 1; p.search.n_jobs <= 3; p.search.n_jobs++) {
            solve(&p, &found);
            assert_same_front(&brute, &found.front, "limits");
            assert_true(found.front.n > 1 && found.counts.outside > 0);
            assert_int_equal(sum_of(&found.counts), p.space.n_candidates);
            text.len = 0;
            s2_search_state_print(&p.search, &found, "key", &text);
            assert_int_equal(s2_search_state_parse(&p.search, "key", text.data, text.len, &read, NULL),
                             S2_OK);
            assert_memory_equal(&found.counts, &read.counts, sizeof read.counts);
            s2_search_state_release(&read);
            s2_search_state_release(&found);
        }
        s2_buf_release(&text);
        s2_front_release(&brute);
        s2_arena_release(&p.arena);
    }
}

/* By arithmetic what counting row by row gives, for every number of blocks. */
static void dilution_is_what_counting_row_by_row_gives(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(41)};
    int64_t n_fast = 0;
    for (int64_t at = 0; at < s2_test_cases(400); at++) {
        char text[300], stride[80] = "", sink[40] = "";
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_candidate form;
        double dilution;
        const int64_t n_tok = 1 + (int64_t)s2_rng_below(&rng, at % 4 == 0 ? 40 : 900);
        if (s2_rng_below(&rng, 8) > 0)
            snprintf(stride, sizeof stride, " | stride %d phase %s*%d+%d", 2 + (int)s2_rng_below(&rng, 14),
                     s2_rng_below(&rng, 2) == 0 ? "head" : "kv", 1 + (int)s2_rng_below(&rng, 4),
                     (int)s2_rng_below(&rng, 9));
        if (s2_rng_below(&rng, 2) == 0)
            snprintf(sink, sizeof sink, " | sink %d", 1 + (int)s2_rng_below(&rng, 9));
        snprintf(text, sizeof text, "layers %d; heads 8; kv-heads %d; block %d; local %d%s%s%s%s",
                 3 + (int)s2_rng_below(&rng, 3), 2 << s2_rng_below(&rng, 3), 1 << s2_rng_below(&rng, 4),
                 1 + (int)s2_rng_below(&rng, at % 3 == 0 ? 70 : 8), sink, stride,
                 s2_rng_below(&rng, 2) == 0 ? "; heads 4-7: dense" : "",
                 s2_rng_below(&rng, 2) == 0 ? "; layers 1::2: dense" : "");
        static const char *const states[] = {"", "; layers 2: state 1k; layers 2: none",
                                             "; layers 0: state 1k",
                                             "; layers 0: state 1k; layers 0 heads 0-3: none"};
        strncat(text, states[s2_rng_below(&rng, 4)], sizeof text - strlen(text) - 1);
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        n_fast += s2_candidate_of(&pattern, &form);
        assert_int_equal(s2_dilution_of(&arena, &pattern, n_tok, &dilution), S2_OK);
        const double counted = dilution_of(&pattern, n_tok);
        if (!(fabs(dilution - counted) <= 1e-12 * counted))
            fail_msg("%lld tokens: %.17g, not %.17g: %s", (long long)n_tok, dilution, counted, text);
        s2_arena_release(&arena);
    }
    assert_true(n_fast > s2_test_cases(400) / 2);
}

/* Under sanitizers a twelfth of it, which has everything that the whole has. */
#ifdef __SANITIZE_ADDRESS__
#define SIZES "block 32; layers all: local {1..6} {,| sink 1} | stride {2..7}"
#else
#define SIZES "block {16,32,64}; layers all: local {1..8} {,| sink 1} | stride {2..8}"
#endif
static const char SPACE[] =
    "layers 4; heads 8; kv-heads 4; " SIZES " phase {head,kv}*{1,3}+{0..3}; {,layers 1::2: dense}";

static void solve_every_way(s2_objective second)
{
    problem p;
    s2_search_state plain, other;
    pose(&p, SPACE, 8192);
    p.search.by[1] = second;
    p.search.no_pruning = true;
    solve(&p, &plain);
    assert_int_equal(plain.counts.beaten, 0);
    assert_true(plain.front.n > 1 || second == S2_BY_DECODE_US);
    p.search.no_pruning = false;
    s2_search_counts counts = {0};
    for (int32_t jobs = 1; jobs <= 3; jobs++) {
        p.search.n_jobs = jobs;
        solve(&p, &other);
        assert_same_front(&plain.front, &other.front, "jobs");
        assert_true(other.counts.beaten > 0 || second != S2_BY_DECODE_US);
        if (jobs > 1)
            assert_memory_equal(&counts, &other.counts, sizeof counts);
        counts = other.counts;
        s2_search_state_release(&other);
    }
    for (p.search.seed = 2; p.search.seed < 5; p.search.seed++) {
        solve(&p, &other);
        assert_same_front(&plain.front, &other.front, "seed");
        s2_search_state_release(&other);
    }
    s2_search_state_release(&plain);
    s2_arena_release(&p.arena);
}

static void pruning_threads_and_seeds_leave_the_front_as_it_is(void **state)
{
    (void)state;
    solve_every_way(S2_BY_DECODE_US);
    solve_every_way(S2_BY_UNREAD);
    solve_every_way(S2_BY_DILUTION);
}

/* The first of equals stays, the first that is refused is named; what is not decided is no design. */
static void the_first_of_equals_stays_and_what_is_not_decided_goes(void **state)
{
    (void)state;
    problem p;
    int64_t first = -1, first_refused = -1, n_refused = 0;
    pose(&p,
         "heads 4; kv-heads {3,4}; layers all: {local 4 | pages 4 page 16,dense} | local {1..4} | sink "
         "{1..50}",
         4096);
    for (int64_t index = p.space.n_candidates - 1; index >= 0; index--) {
        s2_arena arena = {0};
        s2_pattern pattern;
        if (s2_search_pattern(&p.search, index, &arena, &pattern, NULL) != S2_OK) {
            first_refused = index;
            n_refused++;
        } else if (pattern.bodies[0].terms[0].kind == S2_TERM_DENSE) {
            first = index;
        }
        s2_arena_release(&arena);
    }
    assert_int_equal(n_refused * 2, p.space.n_candidates);
    for (p.search.seed = 1; p.search.seed < 8; p.search.seed++) {
        s2_search_state found;
        p.search.n_jobs = 1 + (int32_t)(p.search.seed % 3);
        solve(&p, &found);
        assert_int_equal(found.front.n, 1);
        assert_int_equal(found.front.points[0].index, first);
        assert_int_equal(found.counts.unknown, n_refused / 2);
        assert_int_equal(found.counts.refused, n_refused);
        assert_int_equal(found.refused_index, first_refused);
        s2_search_state_release(&found);
    }
    s2_arena_release(&p.arena);
}

/* One candidate has totals beyond 2^63: it is no reason to give the others up. */
static void a_candidate_beyond_a_limit_is_not_decided(void **state)
{
    (void)state;
    problem p;
    s2_search_state found;
    pose(&p, "layers 1024; heads 4096; {head-dim 4096,head-dim 1}; block 1024; layers all: dense", 1 << 16);
    solve(&p, &found);
    assert_int_equal(found.front.n, 1);
    assert_int_equal(found.counts.unknown, 1);
    s2_search_state_release(&found);
    s2_arena_release(&p.arena);
}

static void every_candidate_is_visited_once_whatever_the_seed(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(41)};
    for (int64_t at = 0; at < s2_test_cases(50); at++) {
        s2_space space = {.n_candidates = (int64_t)s2_rng_below(&rng, 500) + 1};
        s2_search search = {.space = &space, .seed = s2_rng_next(&rng)};
        const int64_t n_shards = (int64_t)s2_rng_below(&rng, 7) + 1;
        uint8_t seen[500] = {0};
        int64_t end = 0;
        for (int64_t shard = 1; shard <= n_shards; shard++) {
            s2_search_shard(&search, shard, n_shards);
            assert_int_equal(search.begin, end);
            end = search.end;
            for (int64_t visit = search.begin; visit < search.end; visit++)
                seen[s2_search_candidate(&search, visit)]++;
        }
        assert_int_equal(end, space.n_candidates);
        for (int64_t n = 0; n < space.n_candidates; n++)
            assert_int_equal(seen[n], 1);
    }
}

static void shards_together_have_the_front_of_one_run(void **state)
{
    (void)state;
    problem p;
    s2_search_state whole, part;
    pose(&p, SPACE, 8192);
    p.search.by[1] = S2_BY_IMBALANCE;
    solve(&p, &whole);
    for (int64_t n_shards = 2; n_shards <= 5; n_shards++) {
        s2_front merged = {.n_values = p.search.n_by};
        for (int64_t shard = n_shards; shard >= 1; shard--) {
            s2_search_shard(&p.search, shard, n_shards);
            solve(&p, &part);
            assert_int_equal(s2_front_add(&merged, part.front.points, part.front.n), S2_OK);
            s2_search_state_release(&part);
        }
        assert_same_front(&whole.front, &merged, "shards");
        s2_front_release(&merged);
    }
    s2_search_state_release(&whole);
    s2_arena_release(&p.arena);
}

/* Stops after a number of batches. */
static bool count_down(void *user, const s2_search_state *state, int64_t visit)
{
    return visit != state->next || --*(int32_t *)user > 0;
}

static void a_search_read_back_ends_as_if_it_had_never_stopped(void **state)
{
    (void)state;
    problem p;
    s2_search_state whole, part, back;
    s2_diag diag = {0};
    pose(&p, SPACE, 8192);
    solve(&p, &whole);
    s2_search_state_init(&p.search, &part);
    while (part.next < p.search.end) {
        int32_t batches = 2;
        s2_buf text = {0};
        assert_int_equal(s2_search_run(&p.search, &part, INT64_MAX, count_down, &batches), S2_OK);
        s2_search_state_print(&p.search, &part, "the\nkey", &text);
        s2_search_state_release(&part);
        assert_int_equal(s2_search_state_parse(&p.search, "the\nkey", text.data, text.len, &back, &diag),
                         S2_OK);
        part = back;
        s2_buf_release(&text);
    }
    assert_same_front(&whole.front, &part.front, "resumed");
    assert_memory_equal(&whole.counts, &part.counts, sizeof whole.counts);
    s2_search_state_release(&part);
    s2_search_state_release(&whole);
    s2_arena_release(&p.arena);
}

/* Stops within a batch, after a number of visits of the calling thread. */
static bool count_visits_down(void *user, const s2_search_state *state, int64_t visit)
{
    assert_in_range(visit, state->next, INT64_MAX);
    return --*(int64_t *)user > 0;
}

static void a_batch_that_is_given_up_counts_for_nothing(void **state)
{
    (void)state;
    problem p;
    s2_search_state whole, part;
    pose(&p, SPACE, 8192);
    solve(&p, &whole);
    s2_search_state_init(&p.search, &part);
    s2_rng rng = {s2_test_seed(44)};
    int32_t n_given_up = 0;
    for (int64_t at = 0; part.next < p.search.end; at++) {
        int64_t visits = at % 2 == 0 ? (int64_t)s2_rng_below(&rng, 64) + 1 : INT64_MAX;
        const int64_t next = part.next;
        const s2_search_counts counts = part.counts;
        assert_int_equal(s2_search_run(&p.search, &part, next + 1000, count_visits_down, &visits), S2_OK);
        if (part.next == next) {
            assert_memory_equal(&counts, &part.counts, sizeof counts);
            n_given_up++;
        }
    }
    assert_in_range(n_given_up, 1, INT32_MAX);
    assert_same_front(&whole.front, &part.front, "given up and made again");
    s2_search_state_release(&part);
    s2_search_state_release(&whole);
    s2_arena_release(&p.arena);
}

typedef struct longest_batch {
    int64_t priced; /* when it began */
    int64_t most;
} longest_batch;

static bool measure_batch(void *user, const s2_search_state *state, int64_t visit)
{
    longest_batch *const longest = user;
    if (visit == state->next) {
        const int64_t n = state->counts.priced - longest->priced;
        longest->most = n > longest->most ? n : longest->most;
        longest->priced = state->counts.priced;
    }
    return true;
}

/* What is priced by whole plans is slow, and what a batch found is lost when it is given up. */
static void batches_of_predictions_stay_small(void **state)
{
    (void)state;
    problem p;
    s2_search_state found;
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find("h200", &constants), S2_OK);
    pose(&p, "heads 2; block {16,32}; layers all: local {1..700} | stride 2 phase head", 256);
    p.search.no_pruning = true;
    for (int predicted = 0; predicted <= 1; predicted++) {
        longest_batch longest = {0};
        p.search.options.calibration = predicted ? &constants : NULL;
        s2_search_state_init(&p.search, &found);
        assert_int_equal(s2_search_run(&p.search, &found, INT64_MAX, measure_batch, &longest), S2_OK);
        assert_int_equal(found.counts.priced, 1400);
        if (predicted)
            assert_in_range(longest.most, 64, 256);
        else
            assert_in_range(longest.most, 512, 1400);
        s2_search_state_release(&found);
    }
    s2_arena_release(&p.arena);
}

static void a_damaged_or_foreign_state_is_refused(void **state)
{
    (void)state;
    problem p;
    s2_search_state found, back = {.next = 77};
    s2_diag diag = {0};
    s2_buf text = {0};
    pose(&p, "layers 2; heads 4; kv-heads 2; layers all: local {1..3} | stride {2,4} phase head", 1024);
    solve(&p, &found);
    s2_search_state_print(&p.search, &found, "key", &text);
    for (size_t n = 0; n < text.len; n++)
        assert_int_equal(s2_search_state_parse(&p.search, "key", text.data, n, &back, &diag), S2_EPARSE);
    for (size_t n = 0; n < text.len; n++) {
        text.data[n] ^= 1;
        assert_int_equal(s2_search_state_parse(&p.search, "key", text.data, text.len, &back, &diag),
                         S2_EPARSE);
        text.data[n] ^= 1;
    }
    assert_int_equal(s2_search_state_parse(&p.search, "kez", text.data, text.len, &back, &diag), S2_EPARSE);
    assert_non_null(strstr(diag.msg, "another search"));
    s2_search_shard(&p.search, 1, 2);
    assert_int_equal(s2_search_state_parse(&p.search, "key", text.data, text.len, &back, &diag), S2_EPARSE);
    assert_int_equal(back.next, 77);
    s2_buf_release(&text);
    s2_search_state_release(&found);
    s2_arena_release(&p.arena);
}

/* ---- the front and its rivals */

/*
 * Under a stack that keeps every page, the model's own layers still free pages behind plain windows, and only
 * behind those.
 */
static void only_plain_windows_free_pages_of_a_stack_that_keeps_them(void **state)
{
    (void)state;
    static const struct {
        const char *layers;
        bool frees;
    } rows[] = {
        {"local 4", true},
        {"local 4 when query 64..", false},
        {"local 4 when key ..64", false},
        {"sink 1 | local 4", false},
        {"stride 4", false},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        problem p;
        pose(&p, "heads 2; layers all: local {4,8,16} | stride 2 phase head", 4096);
        p.search.options.keeps_all = true;
        s2_buf text = {0};
        s2_buf_printf(&text, "heads 2; layers all: %s", rows[r].layers);
        s2_pattern own;
        assert_int_equal(s2_pattern_parse(&p.arena, text.data, text.len, NULL, &own, NULL), S2_OK);
        s2_found found = {.arena = &p.arena,
                          .model = "",
                          .space = p.space,
                          .search = p.search,
                          .n_phases = 1,
                          .phases = {S2_DECODE},
                          .own_pattern = &own};
        solve(&p, &found.state);
        assert_int_equal(s2_found_gather(&found), S2_OK);
        if (found.own == NULL || found.own->design.apart != rows[r].frees)
            fail_msg("%s: %s", text.data, found.own == NULL ? "no price" : "frees");
        s2_search_state_release(&found.state);
        s2_buf_release(&text);
        s2_arena_release(&p.arena);
    }
}

/* ---- memory */

static void each_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    static const char space[] =
        "layers 2; heads 4; kv-heads 2; layers all: local {1,2} | {stride 4 phase head,chunk 2}";
    s2_status status = S2_ENOMEM;
    for (int64_t nth = 0; status != S2_OK; nth++) {
        problem p;
        s2_search_state found;
        assert_true(nth < 10000);
        pose(&p, space, 256);
        s2_search_state_init(&p.search, &found);
        int64_t left = nth;
        s2_alloc_set_hook(s2_test_fail_one, &left);
        status = s2_search_run(&p.search, &found, INT64_MAX, NULL, NULL);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        if (status != S2_OK)
            assert_int_equal(found.next, 0);
        s2_search_state_release(&found);
        s2_arena_release(&p.arena);
    }
}

/* ---- the command */

enum { OUTPUT = 1 << 18 };

/* The command as a person calls it; its output is in `text`. */
static int command(char *text, int argc, const char *const *words)
{
    char *argv[24];
    memcpy(argv, words, (size_t)argc * sizeof *argv);
    s2_cli cli;
    s2_cli_init(&cli, "s2", argc, argv);
    cli.out = tmpfile();
    cli.err = tmpfile();
    assert_non_null(cli.out);
    assert_non_null(cli.err);
    const bool pareto = strcmp(argv[0], "pareto") == 0, db = strcmp(argv[0], "db") == 0;
    cli.command = argv[0];
    int code = (pareto ? s2_cmd_pareto : db ? s2_cmd_db : s2_cmd_search)(&cli, argc, argv);
    code = s2_store_finish(&cli, code);
    rewind(cli.out);
    text[fread(text, 1, OUTPUT - 1, cli.out)] = '\0';
    fclose(cli.out);
    fclose(cli.err);
    s2_arena_release(&cli.arena);
    return code;
}

static char *fresh_dir(char *path, size_t cap)
{
    snprintf(path, cap, "/tmp/s2-search-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void remove_dir(const char *path)
{
    char line[300];
    snprintf(line, sizeof line, "rm -r '%s'", path);
    assert_int_equal(system(line), 0);
}

#define SMALL_SPACE "block {32,64}; layers all: local {1..6} | stride {4..8} phase {head,kv}+{0,1}"

static int search_into(char *text, const char *db, const char *shard, const char *more)
{
    const char *const words[] = {"search", SMALL_SPACE, "--model",    "llama-3.1-8b", "--len",   "4k",
                                 "--db",   db,          "--minimize", "us,kv_bytes",  "--shard", shard,
                                 "--json", more};
    return command(text, more != NULL ? 14 : 13, words);
}

static int pareto_of(char *text, const char *db)
{
    const char *const words[] = {"pareto", "--db", db, "--distinct", "--columns", "name,union,kv,kv_mib,us"};
    return command(text, 6, words);
}

static void shards_merged_in_the_database_show_the_front_of_one_run(void **state)
{
    (void)state;
    static char one[OUTPUT], merged[OUTPUT], ignored[OUTPUT];
    char dir[64], whole[128], sum[128], part[128], shard[16];
    fresh_dir(dir, sizeof dir);
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    snprintf(sum, sizeof sum, "%s/shard1.db", dir);
    assert_int_equal(search_into(ignored, whole, "1/1", NULL), S2_EXIT_OK);
    assert_non_null(strstr(ignored, "\"schema\":\"s2search/1\""));
    for (int32_t n = 1; n <= 4; n++) {
        snprintf(part, sizeof part, "%s/shard%d.db", dir, n);
        snprintf(shard, sizeof shard, "%d/4", n);
        assert_int_equal(search_into(ignored, part, shard, NULL), S2_EXIT_OK);
        const char *const merge[] = {"db", "merge", part, "--db", sum};
        if (n > 1)
            assert_int_equal(command(ignored, 5, merge), S2_EXIT_OK);
    }
    assert_int_equal(pareto_of(one, whole), S2_EXIT_OK);
    assert_int_equal(pareto_of(merged, sum), S2_EXIT_OK);
    assert_non_null(strstr(one, "llama-3.1-8b-"));
    assert_string_equal(one, merged);
    remove_dir(dir);
}

/* A child is killed while it searches; what it left is resumed, again and again, to the same front. */
static void a_killed_search_resumes_to_the_same_bytes(void **state)
{
    (void)state;
    static char one[OUTPUT], resumed[OUTPUT], ignored[OUTPUT];
    char dir[64], whole[128], cut[128];
    fresh_dir(dir, sizeof dir);
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    snprintf(cut, sizeof cut, "%s/cut.db", dir);
    assert_int_equal(search_into(one, whole, "1/1", NULL), S2_EXIT_OK);
    s2_rng rng = {s2_test_seed(43)};
    for (int32_t kill_n = 0; kill_n < 6; kill_n++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(search_into(ignored, cut, "1/1", "--resume") == S2_EXIT_OK ? 0 : 1);
        usleep((useconds_t)s2_rng_below(&rng, 60000));
        kill(child, SIGKILL);
        int ended;
        assert_int_equal(waitpid(child, &ended, 0), child);
    }
    assert_int_equal(search_into(resumed, cut, "1/1", "--resume"), S2_EXIT_OK);
    assert_string_equal(one, resumed);
    assert_int_equal(pareto_of(one, whole), S2_EXIT_OK);
    assert_int_equal(pareto_of(resumed, cut), S2_EXIT_OK);
    assert_string_equal(one, resumed);
    remove_dir(dir);
}

static void wrong_calls_are_refused_with_their_exit_codes(void **state)
{
    (void)state;
    static char text[OUTPUT];
    static const struct {
        const char *words[8];
        int code;
    } rows[] = {
        {{"search", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "heads {4", "--no-db"}, S2_EXIT_REFUSED},
        {{"search", "4 heads, 2 KV heads, 16k", "--no-db", "--limit", "50"}, S2_EXIT_OK},
        {{"search", "4 heads, 2 KV heads, 1k", "--no-db", "--limit", "50"}, S2_EXIT_VIOLATED},
        {{"search", "4 Heads,2 kv-heads , H200,2 layers, 16k", "--no-db", "--limit", "50"}, S2_EXIT_OK},
        {{"search", "llama-3.1-8b, 16k", "--no-db", "--limit", "50"}, S2_EXIT_OK},
        {{"search", "4 heads, 3 KV heads", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "4 heads, 4 heads", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "4 heads,", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "0 heads", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "9999999 heads", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "H200, 128k", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "four heads", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "4 heads, 99m", "--no-db"}, S2_EXIT_USAGE},
        {{"search", "heads {4}: dense", "--no-db"}, S2_EXIT_REFUSED},
        {{"search", "heads {4}", "--no-db", "--shard", "3/2"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--minimize", "us,us"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--minimize", "speed"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--minimize", "redundancy", "--require", "rows"}, S2_EXIT_USAGE},
        {{"search", "heads 4; local 1", "--no-db", "--minimize", "loss"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--phase", "forward"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--require", "unison"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--resume"}, S2_EXIT_USAGE},
        {{"search", "heads {4}", "--no-db", "--model", "llama-9"}, S2_EXIT_USAGE},
        {{"search", "heads 4; heads all: local {1,2}", "--no-db"}, S2_EXIT_VIOLATED},
        {{"search", "heads 4; heads all: {local 1,dense}", "--no-db"}, S2_EXIT_VIOLATED},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int argc = 0;
        while (argc < 8 && rows[r].words[argc] != NULL)
            argc++;
        const int code = command(text, argc, rows[r].words);
        if (code != rows[r].code)
            fail_msg("row %zu: exit code %d", r, code);
    }
}

static void tau_counts_the_pairs_that_two_orders_agree_on(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4}, same[] = {10, 20, 21, 22}, reversed[] = {4, 3, 2, 1},
                 one[] = {1, 3, 2, 4}, tied[] = {1, 1, 2, 2}, flat[] = {5, 5, 5, 5};
    s2_assert_close(s2_kendall_tau(x, same, 4), 1, 1e-12);
    s2_assert_close(s2_kendall_tau(x, reversed, 4), -1, 1e-12);
    s2_assert_close(s2_kendall_tau(x, one, 4), 4.0 / 6, 1e-12);
    s2_assert_close(s2_kendall_tau(x, tied, 4), 4 / sqrt(6.0 * 4), 1e-12);
    assert_true(isnan(s2_kendall_tau(x, flat, 4)));
    assert_true(isnan(s2_kendall_tau(x, x, 1)));
}

/* Judged by the function behind `s2 validate`, stored, and compared with what was foretold. */
static void the_best_of_a_front_are_run_and_compared_with_their_prices(void **state)
{
    (void)state;
    static char text[OUTPUT];
    char dir[64], path[128];
    fresh_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/a.db", dir);
    const char *words[] = {"search",
                           "layers 3; heads 4; kv-heads 2; head-dim 64; block 32; layers all: local {1..6} | "
                           "stride 4 phase head; layers 1: dense",
                           "--len",
                           "160",
                           "--db",
                           path,
                           "--minimize",
                           "us,unread",
                           "--phase",
                           "prefill,decode",
                           "--validate",
                           "3",
                           "--runs",
                           "1",
                           "--json"};
    assert_int_equal(command(text, 15, words), S2_EXIT_OK);
    assert_non_null(
        strstr(text, "\"schema\":\"s2confirm/1\",\"device\":\"CPU\",\"phase\":\"prefill\",\"timed\":3"));
    assert_non_null(strstr(text, "\"phase\":\"decode\",\"timed\":3,\"kendall_tau\":"));
    assert_non_null(strstr(text, "\"regret_pct\":"));
    assert_non_null(strstr(text, "\"clear_pairs\":"));
    assert_non_null(strstr(text, "\"outcome\":\"ok\""));
    s2_db *db;
    int64_t n;
    assert_int_equal(s2_db_open(path, S2_DB_READ, &db, NULL), S2_OK);
    assert_int_equal(s2_db_count(db, "validation", &n, NULL), S2_OK);
    assert_int_equal(n, 3 * 2 * 2); /* designs, kinds of layers, phases */
    assert_int_equal(s2_db_count(db, "run", &n, NULL), S2_OK);
    assert_int_equal(n, 1);
    s2_db_close(&db);
    words[14] = "--no-db";
    assert_int_equal(command(text, 15, words), S2_EXIT_OK);
    assert_non_null(strstr(text, "validated on CPU: the 3 best of the front"));
    assert_non_null(strstr(text, "of 3 pairs are predicted to differ by more than the"));
    words[13] = "65";
    assert_int_equal(command(text, 15, words), S2_EXIT_USAGE);
    remove_dir(dir);
}

static int64_t rows_in(const char *path, const char *table)
{
    s2_db *db;
    int64_t n;
    assert_int_equal(s2_db_open(path, S2_DB_READ, &db, NULL), S2_OK);
    assert_int_equal(s2_db_count(db, table, &n, NULL), S2_OK);
    s2_db_close(&db);
    return n;
}

/* Ctrl-C again and again, each time later, until a run reaches the end: nothing is stored or judged twice. */
static void a_stopped_validation_goes_on_with_what_is_left(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    enum { STEP_US = 100000 }; /* there a kernel runs several times as long, and as many stops suffice */
#else
    enum { STEP_US = 20000 };
#endif
    enum { KINDS = 2, PHASES = 2 };
    const char *const designs = s2_test_sampled() ? "3" : "4", *const len = "256";
    static char text[OUTPUT];
    char dir[64], path[128];
    fresh_dir(dir, sizeof dir);
    snprintf(path, sizeof path, "%s/a.db", dir);
    const char *const words[] = {
        "search",
        "layers 3; heads 4; kv-heads 2; head-dim 64; block 32; layers all: local {1..9} | "
        "stride 4 phase head; layers 1: dense",
        "--len",
        len,
        "--db",
        path,
        "--minimize",
        "density,unread", /* by times, which constants decide, dense attention may beat most of so short ones */
        "--phase",
        "prefill,decode",
        "--validate",
        designs,
        "--runs",
        "1",
        "--resume"};
    int ended = 0, n_stopped = 0;
    do {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGINT, SIG_DFL); /* a job in the background is born deaf to it */
            _exit(command(text, 15, words));
        }
        usleep((useconds_t)(++n_stopped * STEP_US));
        kill(child, SIGINT);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_true(!WIFEXITED(ended) || WEXITSTATUS(ended) == S2_EXIT_OK ||
                    WEXITSTATUS(ended) == S2_EXIT_UNDECIDED);
    } while (!WIFEXITED(ended) || WEXITSTATUS(ended) != S2_EXIT_OK);
    printf("# s2: a search with validation was stopped %d times on its way\n", n_stopped - 1);
    assert_int_equal(rows_in(path, "validation"), atoi(designs) * KINDS * PHASES);
    assert_int_equal(rows_in(path, "sim"), rows_in(path, "design") * PHASES);
    remove_dir(dir);
}

static void a_space_is_proposed_for_every_model_and_explained(void **state)
{
    (void)state;
    static char text[OUTPUT];
    for (int32_t kv = 1; kv <= 8; kv *= 2) {
        s2_buf proposed = {0};
        problem p;
        assert_int_equal(s2_space_propose(8, kv, S2_PROPOSE_ANY, NULL, &proposed), S2_OK);
        s2_buf_add(&proposed, "", 1);
        pose(&p, proposed.data, 1024);
        s2_arena_release(&p.arena);
        s2_buf_release(&proposed);
    }
    const char *const words[] = {"search",  "--model", "llama-3.1-8b", "--len",   "8k",
                                 "--limit", "500",     "--no-db",      "--phase", "decode,prefill"};
    assert_int_equal(command(text, 10, words), S2_EXIT_OK);
    assert_non_null(strstr(text, "best overall: "));
    assert_non_null(strstr(text, "bound by "));
    assert_non_null(strstr(text, "times faster than dense attention"));
    assert_non_null(strstr(text, " tokens/s;\n    with dense attention "));
    assert_true(strstr(text, "against the next best") != NULL || strstr(text, "gives up nothing") != NULL);
}

/* ---- against what people made by hand */

typedef struct handmade {
    char name[40];
    int64_t len_tok;
    char text[400];
} handmade;

/* name | context | pattern */
static bool read_handmade(FILE *file, handmade *out)
{
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        char len[24];
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%39[^ |] | %23[^ |] | %399[^\n]", out->name, len, out->text), 3);
        assert_true(s2_number_parse(len, &out->len_tok));
        return true;
    }
    return false;
}

static bool satisfies(const problem *p, const s2_pattern *pattern)
{
    s2_arena arena = {0};
    s2_finding findings[3];
    const s2_prove_options all = {.n_tok = S2_OPEN};
    assert_int_equal(s2_prove(&arena, pattern, p->search.requirements, 3, &all, findings), S2_OK);
    s2_arena_release(&arena);
    return findings[0].verdict == S2_HOLDS && findings[1].verdict == S2_HOLDS &&
           findings[2].verdict == S2_HOLDS;
}

/* The space that `s2 search` proposes for a shape. */
static void pose_proposed(problem *p, const s2_pattern *shape, int64_t len_tok)
{
    s2_buf text = {0};
    s2_buf_printf(&text, "layers %d; heads %d; kv-heads %d; head-dim %d; ", (int)shape->n_layers,
                  (int)shape->n_heads, (int)shape->n_kv_heads, (int)shape->head_dim);
    assert_int_equal(s2_space_propose(shape->n_heads, shape->n_kv_heads, S2_PROPOSE_ANY, NULL, &text), S2_OK);
    s2_buf_add(&text, "", 1);
    pose(p, text.data, len_tok);
    p->search.n_jobs = 2;
    s2_buf_release(&text);
}

static double mean_against(const s2_point *point, const double *value, int32_t n)
{
    double sum = 0;
    for (int32_t v = 0; v < n; v++)
        sum += log(value[v] / point->value[v]);
    return exp(sum / n);
}

/* Prefill and decode as the kernels here are predicted to take, and the cache. */
static void predict(const problem *p, const s2_calibration *constants, const s2_pattern *pattern,
                    double *value)
{
    s2_arena arena = {0};
    s2_sim_options options = p->search.options;
    s2_sim prefill, decode;
    options.calibration = constants;
    options.phase = S2_PREFILL;
    assert_int_equal(s2_price(&arena, pattern, &options, S2_PRICE_WHOLE, &prefill, NULL), S2_OK);
    options.phase = S2_DECODE;
    assert_int_equal(s2_price(&arena, pattern, &options, S2_PRICE_WHOLE, &decode, NULL), S2_OK);
    value[0] = prefill.time_us;
    value[1] = decode.time_us;
    value[2] = (double)prefill.kv.head_pages;
    s2_arena_release(&arena);
}

static int32_t best_of(const s2_front *front)
{
    int32_t *const order = s2_malloc((size_t)front->n * sizeof *order);
    assert_non_null(order);
    assert_int_equal(s2_front_order(front, order), S2_OK);
    const int32_t best = order[0];
    s2_free(order);
    return best;
}

/* How many times better the winner is by the mean, with predicted times in place of bounds. */
static double predicted_mean(const problem *p, const s2_front *front, const s2_pattern *made)
{
    s2_arena arena = {0};
    s2_pattern winner;
    s2_point best = {0};
    double value[3];
    static s2_calibration constants;
    assert_int_equal(s2_calibration_find(p->search.options.gpu.name, &constants), S2_OK);
    assert_int_equal(
        s2_search_pattern(&p->search, front->points[best_of(front)].index, &arena, &winner, NULL), S2_OK);
    predict(p, &constants, &winner, best.value);
    predict(p, &constants, made, value);
    s2_arena_release(&arena);
    return mean_against(&best, value, 3);
}

/* In every objective at once, and by the mean that chooses the winner. */
static void the_winner_is_at_least_as_good_as_every_hand_made_pattern(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* ten searches of whole spaces: minutes of what the other searches check as well */
#endif
    FILE *const file = fopen("tests/data/handmade.txt", "r");
    assert_non_null(file);
    handmade made;
    int n = 0, n_satisfying = 0;
    double least = INFINITY, least_predicted = INFINITY;
    while (read_handmade(file, &made)) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_diag diag = {0};
        problem p;
        s2_search_state found;
        s2_point point = {0};
        if (s2_pattern_parse(&arena, made.text, strlen(made.text), NULL, &pattern, &diag) != S2_OK)
            fail_msg("%s: %s", made.name, diag.msg);
        n++;
        pose_proposed(&p, &pattern, made.len_tok);
        /* the windows that are proposed, 1024 tokens and more, are for contexts that are long beside them */
        if (made.len_tok >= 8192 && satisfies(&p, &pattern)) {
            n_satisfying++;
            solve(&p, &found);
            simulate(&p, &pattern, point.value);
            if (!is_reached(&found.front, &point))
                fail_msg("%s: nothing that was found is as good everywhere", made.name);
            const double ratio =
                mean_against(&found.front.points[best_of(&found.front)], point.value, p.search.n_by);
            if (ratio < 1)
                fail_msg("%s: %.4f times the winner", made.name, ratio);
            least = fmin(least, ratio);
            const double predicted = predicted_mean(&p, &found.front, &pattern);
            if (predicted < 1)
                fail_msg("%s: %.4f times the winner, as predicted", made.name, predicted);
            least_predicted = fmin(least_predicted, predicted);
            s2_search_state_release(&found);
        }
        s2_arena_release(&p.arena);
        s2_arena_release(&arena);
    }
    fclose(file);
    printf("# s2: of %d hand-made patterns %d satisfy rows, union and kv; the winner of the proposed space "
           "beats "
           "each of them in prefill, decode and KV bytes, by the mean at least %.2f times (%.2f times with "
           "predicted times)\n",
           n, n_satisfying, least, least_predicted);
    assert_true(n_satisfying >= 7);
}

/* ---- speed */

static void a_search_is_timed(void **state)
{
    (void)state;
    problem p;
    s2_search_state found;
    pose(&p,
         "model llama-3.1-8b; block {16,32,64,128}; layers all: local {1..64} | sink {1..4} | stride {2..32} "
         "phase "
         "{head,kv}*{1,3}+{0..3}; {,layers 1::2: dense}",
         131072);
    assert_true(p.space.n_candidates >= 1000000);
    s2_search_state_init(&p.search, &found);
    const double begin = s2_processor_s();
    assert_int_equal(s2_search_run(&p.search, &found, 20000, NULL, NULL), S2_OK);
    printf("# s2: of %lld candidates for llama-3.1-8b at 128k, 20000 searched at %.0f a second of one core\n",
           (long long)p.space.n_candidates, 20000 / (s2_processor_s() - begin));
    s2_search_state_release(&found);
    s2_arena_release(&p.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_expand_in_mixed_radix_order),
        cmocka_unit_test(malformed_spaces_are_refused_with_their_place),
        cmocka_unit_test(more_choices_or_bytes_than_the_cap_are_refused),
        cmocka_unit_test(every_text_of_random_bytes_is_parsed_or_refused),
        cmocka_unit_test(dilution_is_what_counting_row_by_row_gives),
        cmocka_unit_test(the_front_is_that_of_brute_force),
        cmocka_unit_test(bounds_stay_below_exact_values_and_these_are_the_simulators),
        cmocka_unit_test(a_cache_that_frees_nothing_is_the_dense_one_in_whole_pages),
        cmocka_unit_test(the_edge_of_a_space_is_its_least_and_greatest_number),
        cmocka_unit_test(depth_counts_layers_that_are_not_decided_as_not_reached),
        cmocka_unit_test(predicted_times_are_the_simulators_and_stay_above_their_floors),
        cmocka_unit_test(limits_leave_the_front_of_what_lies_within_them),
        cmocka_unit_test(machines_are_priced_as_the_simulator_prices_them),
        cmocka_unit_test(predictions_choose_the_same_front_however_they_are_visited),
        cmocka_unit_test(pruning_threads_and_seeds_leave_the_front_as_it_is),
        cmocka_unit_test(the_first_of_equals_stays_and_what_is_not_decided_goes),
        cmocka_unit_test(a_candidate_beyond_a_limit_is_not_decided),
        cmocka_unit_test(every_candidate_is_visited_once_whatever_the_seed),
        cmocka_unit_test(shards_together_have_the_front_of_one_run),
        cmocka_unit_test(a_search_read_back_ends_as_if_it_had_never_stopped),
        cmocka_unit_test(a_batch_that_is_given_up_counts_for_nothing),
        cmocka_unit_test(batches_of_predictions_stay_small),
        cmocka_unit_test(a_damaged_or_foreign_state_is_refused),
        cmocka_unit_test(each_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(shards_merged_in_the_database_show_the_front_of_one_run),
        cmocka_unit_test(a_killed_search_resumes_to_the_same_bytes),
        cmocka_unit_test(wrong_calls_are_refused_with_their_exit_codes),
        cmocka_unit_test(tau_counts_the_pairs_that_two_orders_agree_on),
        s2_long_test(the_best_of_a_front_are_run_and_compared_with_their_prices),
        s2_long_test(a_stopped_validation_goes_on_with_what_is_left),
        cmocka_unit_test(a_space_is_proposed_for_every_model_and_explained),
        cmocka_unit_test(the_winner_is_at_least_as_good_as_every_hand_made_pattern),
        cmocka_unit_test(only_plain_windows_free_pages_of_a_stack_that_keeps_them),
        cmocka_unit_test(a_search_is_timed),
    };
    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
