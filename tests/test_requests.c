#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/parse.h"
#include "sim/capacity.h"
#include "sim/peer.h"
#include "sim/requests.h"
#include "sim/step.h"
#include "tests/gen_spec.h"
#include "tests/s2parsed.h"

static s2_calibration calibration;

static s2_sim_options options_of(s2_phase phase, int64_t len_tok, int64_t new_tok)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = phase;
    options.len_tok = len_tok;
    options.new_tok = new_tok;
    options.calibration = &calibration;
    return options;
}

static s2_sim priced(const s2_pattern *pattern, const s2_sim_options *options, s2_fidelity fidelity)
{
    s2_arena scratch = {0};
    s2_sim sim;
    s2_diag diag = {0};
    const s2_status status = s2_price(&scratch, pattern, options, fidelity, &sim, &diag);
    if (status != S2_OK)
        fail_msg("%s", diag.msg);
    s2_arena_release(&scratch);
    return sim;
}

static int64_t in(s2_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(s2_rng_next(rng) % (uint64_t)(high - low + 1));
}

/* A prompt in chunks does the useful work of the whole, and reads at least as much. */
static void check_chunks(const s2_pattern *pattern, s2_rng *rng)
{
    const int64_t len_tok = in(rng, 1, 1200);
    const s2_sim_options all = options_of(S2_PREFILL, len_tok, 0);
    const s2_sim whole = priced(pattern, &all, S2_PRICE_BOUNDS);
    s2_counts sum = {0};
    for (int64_t tok = 0; tok < len_tok;) {
        const int64_t n_new = s2_min_i64(in(rng, 1, 500), len_tok - tok);
        tok += n_new;
        const s2_sim_options own = options_of(S2_PREFILL, tok, n_new);
        const s2_sim chunk = priced(pattern, &own, S2_PRICE_BOUNDS);
        sum.pairs += chunk.counts.pairs;
        sum.flop_useful += chunk.counts.flop_useful;
        sum.hbm_read += chunk.counts.hbm_read;
        sum.hbm_write += chunk.counts.hbm_write;
        assert_true(chunk.time_us <= whole.time_us * 1.3 + 20);
        assert_true(chunk.counts.pairs <= chunk.dense.pairs);
    }
    assert_int_equal(sum.pairs, whole.counts.pairs);
    assert_int_equal(sum.flop_useful, whole.counts.flop_useful);
    assert_int_equal(sum.hbm_write, whole.counts.hbm_write);
    assert_true(sum.hbm_read >= whole.counts.hbm_read);
}

/* Asking for every token is asking for nothing special, by any figure. */
static void check_all_new(const s2_pattern *pattern, s2_phase phase, int64_t len_tok)
{
    const s2_sim_options plain = options_of(phase, len_tok, 0),
                         told = options_of(phase, len_tok, phase == S2_DECODE ? 1 : len_tok);
    const s2_sim a = priced(pattern, &plain, S2_PRICE_WHOLE), b = priced(pattern, &told, S2_PRICE_WHOLE);
    assert_memory_equal(&a.counts, &b.counts, sizeof a.counts);
    assert_memory_equal(&a.dense, &b.dense, sizeof a.dense);
    assert_true(a.time_us == b.time_us && a.bound_us == b.bound_us && a.dense_time_us == b.dense_time_us);
    assert_true(a.density == b.density && a.kv_peak == b.kv_peak && a.fit_batch == b.fit_batch);
}

static void chunks_of_a_prompt_add_up_to_it(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(57)};
    const s2_gen_spec spec = {.most_layers = 2, .most_heads = 4, .explicit_terms = true};
    const int64_t n_cases = s2_test_cases(12);
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &spec, &arena);
        check_chunks(pattern, &rng);
        check_all_new(pattern, S2_PREFILL, in(&rng, 1, 2000));
        check_all_new(pattern, S2_DECODE, in(&rng, 1, 2000));
        s2_arena_release(&arena);
    }
}

/* More tokens in a step of decode take no less work, no fewer bytes and, of one pattern, no less time at all. */
static void more_new_tokens_cost_more(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(58)};
    const s2_gen_spec spec = {.most_layers = 1, .most_heads = 4};
    for (int64_t at = 0; at < s2_test_cases(12); at++) {
        s2_arena arena = {0};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &spec, &arena);
        const int64_t len_tok = in(&rng, 16, 4000);
        s2_sim before = {0};
        for (int64_t n_new = 1; n_new <= 16; n_new += 3) {
            const s2_sim_options own = options_of(S2_DECODE, len_tok, n_new);
            const s2_sim sim = priced(pattern, &own, S2_PRICE_BOUNDS);
            assert_true(sim.counts.pairs >= before.counts.pairs);
            assert_true(sim.counts.hbm_read >= before.counts.hbm_read);
            assert_true(sim.bound_us >= before.bound_us && sim.time_us >= sim.bound_us);
            before = sim;
        }
        s2_arena_release(&arena);
    }
}

static void refused(const char *text, const s2_sim_options *options, const char *why)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_sim sim;
    s2_diag diag = {0};
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    assert_int_not_equal(s2_price(&arena, &pattern, options, S2_PRICE_WHOLE, &sim, &diag), S2_OK);
    if (strstr(diag.msg, why) == NULL)
        fail_msg("'%s' does not say '%s'", diag.msg, why);
    s2_arena_release(&arena);
}

static void what_no_kernel_is_asked_is_refused(void **state)
{
    (void)state;
    s2_sim_options options = options_of(S2_DECODE, 1000, 17);
    refused("heads 2; all: dense", &options, "at most 16 new tokens");
    options = options_of(S2_PREFILL, 1000, 1001);
    refused("heads 2; all: dense", &options, "1001 new tokens of 1000");
    options = options_of(S2_TRAIN, 1000, 10);
    refused("heads 2; all: dense", &options, "every token is new");
    options = options_of(S2_PREFILL, 1000, 10);
    refused("causal no; heads 2; all: local 4", &options, "not causal");
}

/* ---- a mix of requests */

static const char *const LLAMA = "model llama-3.1-8b; all: local 16 | stride 8 phase kv";
static s2_net llama;

static s2_sim_options server_options(void)
{
    s2_sim_options options = options_of(S2_PREFILL, 1, 0);
    options.net = &llama;
    return options;
}

static s2_served serve(const char *text, const s2_sim_options *options, const s2_serving *serving, int32_t n,
                       const s2_sim_request *requests)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_served served;
    s2_diag diag = {0};
    const s2_sim_requests all = {n, requests};
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, &diag), S2_OK);
    if (s2_requests_serve(&arena, &pattern, false, options, serving, &all, &served, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    s2_arena_release(&arena);
    return served;
}

static s2_sim page_of(const char *text, s2_phase phase, int64_t len_tok, int64_t batch)
{
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_sim_options options = server_options();
    options.phase = phase;
    options.len_tok = len_tok;
    options.batch = batch;
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    const s2_sim sim = priced(&pattern, &options, S2_PRICE_WHOLE);
    s2_arena_release(&arena);
    return sim;
}

static void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fmax(fabs(a), fabs(b)))
        fail_msg("%.12g and %.12g differ", a, b);
}

/* A prompt is the page of its length, and tokens of equal lengths are the page of their batch. */
static void equal_requests_are_pages(void **state)
{
    (void)state;
    const s2_sim_options options = server_options();
    const s2_serving whole = {0, 0};
    const s2_sim_request requests[4] = {{1, 4095, 2, 0}, {2, 4095, 2, 0}, {3, 4095, 2, 0}, {4, 4095, 2, 0}};
    const double prompt_us = page_of(LLAMA, S2_PREFILL, 4095, 1).end_to_end_us;
    for (int32_t n = 1; n <= 4; n *= 2) {
        const s2_served served = serve(LLAMA, &options, &whole, n, requests);
        const double step_us = page_of(LLAMA, S2_DECODE, 4096, n).end_to_end_us;
        assert_close(served.us, n * prompt_us + step_us);
        assert_close(served.first.mean_us, prompt_us * (n + 1) / 2);
        assert_close(served.tokens_per_s * served.us, 2e6 * n);
        assert_int_equal(served.n_steps, n + 1);
        assert_int_equal(served.most_running, n);
        assert_close(served.most_bytes, (double)page_of(LLAMA, S2_DECODE, 4096, n).kv_peak);
    }
}

/* One launch's error is that of its page; those of many are weighted by their time. */
static void errors_are_those_of_the_launches(void **state)
{
    (void)state;
    const s2_sim_options options = server_options();
    const s2_serving whole = {0, 0}, chunks = {2048, 0};
    for (int64_t tok = 64; tok <= 4096; tok *= 2) {
        const s2_sim_request request = {1, tok, 1, 0};
        const s2_served one = serve(LLAMA, &options, &whole, 1, &request);
        const s2_sim page = page_of(LLAMA, S2_PREFILL, tok, 1);
        assert_close(one.error.pct, page.error.pct);
        assert_true(one.error.allowed == page.error.allowed && one.far.beyond == page.far.beyond);
        assert_true(one.beyond == (page.error.allowed ? 1 : 0));
    }
    /* the last piece of a prompt has a token, of which no error is known: it takes next to nothing of the time */
    s2_sim_request requests[100];
    for (int32_t at = 0; at < 100; at++)
        requests[at] = (s2_sim_request){at + 1, 2049, 40, 0};
    const s2_served many = serve(LLAMA, &options, &chunks, 100, requests);
    const s2_sim usual = page_of(LLAMA, S2_PREFILL, 2048, 1);
    assert_true(many.far.beyond > 6 && many.far.in == S2_EXTENT_NEW && many.far.asked == 1);
    assert_true(many.beyond > 0 && many.beyond < 0.3 && many.error.allowed);
    assert_true(many.like_pct >= usual.error.pct * 0.9 && many.error.pct > many.like_pct &&
                many.error.pct < 30);
}

/* A chunk of few queries is not like those that were measured, however many keys it reads. */
static void chunks_of_few_queries_were_not_measured(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    const char *const text = "heads 32; kv-heads 8; all: local 16 | stride 8 phase kv";
    assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
    double before_pct = S2_ERROR_UNKNOWN_PCT;
    for (int64_t n = 1; n <= 2048; n *= 2) {
        const s2_sim_options options = options_of(S2_PREFILL, 8192, n);
        const s2_sim sim = priced(&pattern, &options, S2_PRICE_WHOLE);
        const bool measured = n >= 256;
        assert_true(sim.error.allowed == !measured && sim.error.pct <= before_pct);
        if (!measured)
            assert_true(sim.far.in == S2_EXTENT_NEW && sim.far.asked == (double)n && sim.far.span.least > n);
        before_pct = sim.error.pct;
    }
    s2_arena_release(&arena);
}

static void draw_requests(s2_rng *rng, int64_t gap_us, int32_t n, s2_sim_request *requests)
{
    for (int32_t at = 0; at < n; at++)
        requests[at] =
            (s2_sim_request){at + 2, (int64_t)1 << in(rng, 5, 13), in(rng, 1, 60),
                             at > 0 ? requests[at - 1].arrival_us + (double)(gap_us * in(rng, 0, 9)) : 0};
    for (int32_t at = 0; at < n; at++)
        requests[at].prompt_tok += in(rng, 0, requests[at].prompt_tok);
}

/* One more request, or a longer one, never ends sooner; memory is never given twice; chunks change no useful work. */
static void more_load_never_ends_sooner(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(59)};
    static const char *const patterns[] = {"model llama-3.1-8b; all: dense",
                                           "model llama-3.1-8b; all: local 64",
                                           "model llama-3.1-8b; all: local 16 | stride 8 phase kv"};
    for (int64_t at = 0; at < s2_test_cases(9); at++) {
        enum { MOST = 12 };
        s2_sim_request requests[MOST];
        const char *const text = patterns[at % 3];
        const s2_serving serving = {in(&rng, 0, 1) * (int64_t)256 << in(&rng, 0, 4), 0};
        s2_sim_options options = server_options();
        options.gpu.hbm_gb = 20.5 + (double)in(&rng, 0, 5) / 10;
        draw_requests(&rng, at % 2 * 10000, MOST, requests);
        double before_us = 0;
        for (int32_t n = 1; n <= MOST; n += 3) {
            const s2_served served = serve(text, &options, &serving, n, requests);
            assert_true(served.us >= before_us * (1 - 1e-9));
            assert_true(served.us >= requests[n - 1].arrival_us);
            assert_true(served.most_bytes + s2_capacity_pass(&options, 1, 1) <= served.room_bytes);
            assert_true(served.pass_bytes >= s2_capacity_pass(&options, serving.chunk_tok > 0 ? 1 : 32, 1));
            assert_true(served.first.mean_us > 0 && served.first.p90_us >= 0);
            before_us = served.us;
        }
    }
}

/* A step holds the longest prompt that it reads, so chunks leave room for more caches, and what fits none is refused. */
static void what_a_step_holds_is_not_given_to_caches(void **state)
{
    (void)state;
    enum { N = 40 };
    s2_sim_request requests[N];
    const s2_serving whole = {0, 0}, chunks = {1024, 0};
    s2_sim_options options = server_options();
    options.gpu.hbm_gb = 30;
    for (int32_t at = 0; at < N; at++)
        requests[at] = (s2_sim_request){at + 2, 16384, 8, 0};
    const s2_served one = serve(LLAMA, &options, &whole, N, requests),
                    cut = serve(LLAMA, &options, &chunks, N, requests);
    assert_true(one.most_running < cut.most_running && one.most_running > 0);
    assert_close(one.pass_bytes, s2_capacity_pass(&options, 16384 + one.most_running, one.most_running));
    assert_close(cut.pass_bytes, s2_capacity_pass(&options, 1024 + cut.most_running, cut.most_running));
    assert_true(one.most_bytes + one.pass_bytes <= one.room_bytes);
    assert_true(one.most_bytes * (one.most_running + 1) / one.most_running + one.pass_bytes > one.room_bytes);
    s2_arena arena = {0};
    s2_served none;
    s2_diag diag = {0};
    s2_pattern pattern;
    options.gpu.hbm_gb = 18;
    assert_int_equal(s2_pattern_parse(&arena, LLAMA, strlen(LLAMA), NULL, &pattern, &diag), S2_OK);
    const s2_sim_requests all = {N, requests};
    assert_int_equal(s2_requests_serve(&arena, &pattern, false, &options, &whole, &all, &none, &diag),
                     S2_EINVAL);
    assert_non_null(
        strstr(diag.msg, "a step that reads 16384 tokens of prompts (--chunk N: at most N) holds"));
    s2_arena_release(&arena);
}

/* What a prefix saves: its tokens are computed once, and its pages lie in memory once. */
static void a_prefix_is_kept_once(void **state)
{
    (void)state;
    const s2_sim_options options = server_options();
    const s2_sim_request requests[3] = {{2, 5000, 9, 0}, {3, 6000, 9, 0}, {4, 7000, 9, 0}};
    const s2_serving apart = {1024, 0}, shared = {1024, 4096};
    static const char *const dense = "model llama-3.1-8b; all: dense";
    const s2_served own = serve(dense, &options, &apart, 3, requests),
                    once = serve(dense, &options, &shared, 3, requests);
    const double prefix = (double)page_of(dense, S2_DECODE, 4096, 1).kv_peak;
    assert_close(own.most_bytes - once.most_bytes, 2 * prefix);
    assert_true(once.us < own.us);
    const s2_served sparse = serve(LLAMA, &options, &shared, 3, requests),
                    copied = serve(LLAMA, &options, &apart, 3, requests);
    assert_true(sparse.most_bytes < copied.most_bytes);
}

/* Steps of unequal lengths beside what a plan of just these lengths is predicted to take. */
static double step_of_plan(s2_arena *arena, const s2_pattern *pattern, int32_t n, const int64_t *len_tok)
{
    const s2_time_model *const model = &calibration.model;
    const s2_kernel_model *kernel = model->kernels;
    s2_plan_seq *const seqs = S2_NEW(arena, s2_plan_seq, n);
    s2_plan plan;
    s2_kernel_load load;
    s2_forecast forecast;
    while (kernel->pass != S2_PASS_DECODE)
        kernel++;
    const s2_plan_options cut = s2_predict_cut(kernel, pattern);
    for (int32_t at = 0; at < n; at++)
        seqs[at] = (s2_plan_seq){1, (int32_t)len_tok[at]};
    assert_int_equal(s2_plan_build(arena, pattern, S2_DECODE, 0, seqs, n, &cut, &plan, NULL), S2_OK);
    assert_int_equal(s2_load_of_step(arena, &plan, S2_BF16, s2_model_chip(model), &load), S2_OK);
    s2_model_run(model, kernel, &load, true, 0, &forecast);
    return forecast.us;
}

static void unequal_lengths_are_near_their_own_plan(void **state)
{
    (void)state;
    s2_rng rng = {s2_test_seed(60)};
    static const char *const patterns[] = {
        "heads 32; kv-heads 8; all: dense",
        "heads 32; kv-heads 8; all: local 16 | stride 8 phase kv",
        "heads 8; kv-heads 1; all: local 64",
        "heads 8; kv-heads 8; all: local 100t | sink 4t",
        "heads 16; kv-heads 4; all: local 4 | stride 8 phase head",
        "heads 28; kv-heads 4; head-dim 64; kv 0-1: dense; kv 2-3: local 1000t"};
    const int64_t n_cases = s2_test_cases(60);
    double sum = 0, worst = 0;
    for (int64_t at = 0; at < n_cases; at++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_step_prices steps;
        int64_t len_tok[64];
        s2_step_us own;
        const int32_t n = (int32_t)in(&rng, 2, 40);
        const char *const text = patterns[at % 6];
        assert_int_equal(s2_pattern_parse(&arena, text, strlen(text), NULL, &pattern, NULL), S2_OK);
        for (int32_t s = 0; s < n; s++) {
            const int64_t size = (int64_t)1 << in(&rng, 7, 14);
            len_tok[s] = size + in(&rng, 0, size);
            for (int32_t to = s; to > 0 && len_tok[to] > len_tok[to - 1]; to--) {
                const int64_t longer = len_tok[to];
                len_tok[to] = len_tok[to - 1];
                len_tok[to - 1] = longer;
            }
        }
        const s2_sim_options options = options_of(S2_DECODE, 1, 0);
        assert_int_equal(s2_steps_init(&arena, &pattern, &options, false, &steps), S2_OK);
        assert_int_equal(s2_steps_tokens(&steps, n, len_tok, &own), S2_OK);
        const double plan_us = step_of_plan(&arena, &pattern, n, len_tok), off = fabs(own.us / plan_us - 1);
        sum += off;
        worst = fmax(worst, off);
        s2_arena_release(&arena);
    }
    print_message(
        "# s2: %lld mixes: steps of unequal lengths are %.1f %% off their own plan, at most %.0f %%\n",
        (long long)n_cases, 100 * sum / (double)n_cases, 100 * worst);
    assert_true(sum / (double)n_cases < 0.02 && worst < 0.1);
}

/* Kernels of others may know prefill or decoding alone; requests of one token each need no decoding. */
static void kernels_that_lack_a_pass_are_refused(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const char *name, *const text = "model llama-3.1-8b; layers all: dense";
    const s2_pattern pattern = s2_parsed(&arena, text);
    int32_t n_served = 0;
    for (int32_t nth = 0; (name = s2_peer_name(nth)) != NULL; nth++)
        for (int64_t output_tok = 1; output_tok <= 2; output_tok++) {
            s2_sim_request request = {.line = 2, .prompt_tok = 700, .output_tok = output_tok};
            const s2_sim_requests requests = {.requests = &request, .n = 1};
            const s2_serving serving = {0};
            s2_peer peer;
            s2_served served;
            s2_diag diag = {0};
            s2_sim_options options = options_of(S2_DECODE, 1, 0);
            assert_int_equal(s2_peer_find(name, &peer, NULL), S2_OK);
            assert_int_equal(s2_gpu_find(peer.gpu, &options.gpu, NULL), S2_OK);
            options.peer = &peer;
            options.net = &llama;
            const s2_status status =
                s2_requests_serve(&arena, &pattern, false, &options, &serving, &requests, &served, &diag);
            const bool knows = s2_peer_law_of(&peer, S2_PASS_FORWARD, 128, 4) != NULL &&
                               (output_tok == 1 || s2_peer_law_of(&peer, S2_PASS_DECODE, 128, 4) != NULL);
            n_served += knows;
            assert_int_equal(status, knows ? S2_OK : S2_EUNSUPPORTED);
            if (!knows && strstr(diag.msg, "no row of pass") == NULL)
                fail_msg("%s: %s", name, diag.msg);
        }
    assert_true(n_served > 0);
    s2_arena_release(&arena);
}

/* Whatever is asked, all steps of the server spend from one limit, and none goes on beyond it. */
static void a_server_spends_from_one_limit(void **state)
{
    enum { MANY = 90 };
    static const char *const patterns[] = {"model llama-3.1-8b; all: local 16 | stride 8 phase kv",
                                           "model llama-3.1-8b; all: local 300t | random 4 seed 7"};
    const s2_serving servings[] = {{0, 0}, {700, 0}, {0, 500}};
    const int64_t plenty = INT64_C(1) << 60;
    s2_sim_request requests[MANY];
    (void)state;
    for (int32_t at = 0; at < MANY; at++)
        requests[at] = (s2_sim_request){at + 2, 601 + 37 * at, 1 + at % 9, 1e4 * at};
    for (int32_t nth = 0; nth < 6; nth++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, patterns[nth % 2]);
        int64_t spent[2], left = plenty;
        s2_sim_options options = server_options();
        options.work_left = &left;
        s2_served served, none;
        s2_diag diag = {0};
        for (int32_t many = 0; many < 2; many++, left = plenty) {
            const s2_sim_requests all = {many ? MANY : 1, requests};
            assert_int_equal(s2_requests_serve(&arena, &pattern, nth % 2 == 1, &options, &servings[nth / 2],
                                               &all, &served, &diag),
                             S2_OK);
            spent[many] = plenty - left;
        }
        assert_true(spent[0] > 0 && spent[1] > 5 * spent[0]);
        for (int32_t parts = 1; parts <= 64; parts *= 4) {
            const s2_sim_requests all = {MANY, requests};
            left = spent[1] / parts - (parts > 1);
            const s2_status status = s2_requests_serve(&arena, &pattern, nth % 2 == 1, &options,
                                                       &servings[nth / 2], &all, &none, &diag);
            assert_int_equal(status, parts == 1 ? S2_OK : S2_ELIMIT);
            assert_true(parts == 1 ? none.us == served.us && left == 0
                                   : left < 0 && strstr(diag.msg, "more work than is allowed") != NULL);
        }
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_a_prompt_add_up_to_it),
        cmocka_unit_test(more_new_tokens_cost_more),
        cmocka_unit_test(what_no_kernel_is_asked_is_refused),
        cmocka_unit_test(equal_requests_are_pages),
        cmocka_unit_test(errors_are_those_of_the_launches),
        cmocka_unit_test(chunks_of_few_queries_were_not_measured),
        cmocka_unit_test(more_load_never_ends_sooner),
        cmocka_unit_test(what_a_step_holds_is_not_given_to_caches),
        cmocka_unit_test(a_prefix_is_kept_once),
        cmocka_unit_test(unequal_lengths_are_near_their_own_plan),
        cmocka_unit_test(kernels_that_lack_a_pass_are_refused),
        cmocka_unit_test(a_server_spends_from_one_limit),
    };
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_net_find("llama-3.1-8b", &llama, NULL), S2_OK);
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
