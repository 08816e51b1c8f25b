/*
 * libs2's own interface: what it computes against its own masks, what it says of wrong calls, and what it does when memory
 * runs out. tests/library/run.sh looks at the installed library from outside.
 */
#include "tests/s2test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "library/s2.h"

enum { LIMIT_TOK = 200, LIMIT_HEADS = 4, DIM = 24 };

static s2_api_pattern *open_text(const char *text)
{
    s2_api_error why = {0};
    s2_api_pattern *pattern = NULL;
    if (s2_api_pattern_open(text, strlen(text), NULL, NULL, &pattern, &why) != S2_API_OK)
        fail_msg("%s: %s", text, why.message);
    return pattern;
}

/* ------------------------------------------------------------------ what it computes */

typedef struct attention {
    int32_t n_tok, heads, kv_heads;
    _Alignas(16) float q[LIMIT_TOK][LIMIT_HEADS][DIM], k[LIMIT_TOK][LIMIT_HEADS][DIM],
        v[LIMIT_TOK][LIMIT_HEADS][DIM];
    float o[LIMIT_TOK][LIMIT_HEADS][DIM], d_o[LIMIT_TOK][LIMIT_HEADS][DIM], lse[LIMIT_HEADS][LIMIT_TOK];
    float d_q[LIMIT_TOK][LIMIT_HEADS][DIM], d_k[LIMIT_TOK][LIMIT_HEADS][DIM],
        d_v[LIMIT_TOK][LIMIT_HEADS][DIM];
    double want_o[LIMIT_TOK][LIMIT_HEADS][DIM], want_q[LIMIT_TOK][LIMIT_HEADS][DIM];
    double want_k[LIMIT_TOK][LIMIT_HEADS][DIM], want_v[LIMIT_TOK][LIMIT_HEADS][DIM];
    float cap, sink[LIMIT_HEADS], d_sink[LIMIT_HEADS]; /* cap 0: neither a cap nor sinks */
    double want_sink[LIMIT_HEADS];
    uint8_t mask[LIMIT_TOK * LIMIT_TOK];
} attention;

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (int32_t d = 0; d < DIM; d++)
        sum += (double)a[d] * (double)b[d];
    return sum;
}

/* One row by its definition, forward and backward. */
static void eager_row(attention *at, int32_t head, int32_t q)
{
    const int32_t kv = head / (at->heads / at->kv_heads);
    const double cap = (double)at->cap, sink = cap > 0 ? exp((double)at->sink[head]) : 0;
    double p[LIMIT_TOK] = {0}, slope[LIMIT_TOK] = {0}, sum = sink, delta = 0;
    for (int32_t k = 0; k < at->n_tok; k++)
        if (at->mask[q * at->n_tok + k]) {
            const double score = 0.3 * dot(at->q[q][head], at->k[k][kv]),
                         part = cap > 0 ? tanh(score / cap) : 0;
            sum += p[k] = exp(cap > 0 ? cap * part : score);
            slope[k] = 1 - part * part;
        }
    for (int32_t k = 0; k < at->n_tok; k++) {
        p[k] = sum > 0 ? p[k] / sum : 0;
        for (int32_t d = 0; d < DIM; d++)
            at->want_o[q][head][d] += p[k] * (double)at->v[k][kv][d];
        delta += p[k] * dot(at->d_o[q][head], at->v[k][kv]);
    }
    at->want_sink[head] -= sum > 0 ? sink / sum * delta : 0;
    for (int32_t k = 0; k < at->n_tok; k++) {
        const double d_s = slope[k] * p[k] * (dot(at->d_o[q][head], at->v[k][kv]) - delta);
        for (int32_t d = 0; d < DIM; d++) {
            at->want_q[q][head][d] += 0.3 * d_s * (double)at->k[k][kv][d];
            at->want_k[k][kv][d] += 0.3 * d_s * (double)at->q[q][head][d];
            at->want_v[k][kv][d] += p[k] * (double)at->d_o[q][head][d];
        }
    }
}

static void eager(attention *at, const s2_api_pattern *pattern, int32_t layer)
{
    memset(at->want_sink, 0, sizeof at->want_sink);
    for (int32_t head = 0; head < at->heads; head++) {
        assert_int_equal(s2_api_pattern_mask(pattern, S2_API_PREFILL, layer, head, at->n_tok, 0, at->n_tok,
                                             at->mask, NULL),
                         0);
        for (int32_t q = 0; q < at->n_tok; q++)
            eager_row(at, head, q);
    }
}

static s2_api_tensor tensor(void *data)
{
    return (s2_api_tensor){data, 0, LIMIT_HEADS * DIM, DIM};
}

static void run(attention *at, s2_api_device *device, const s2_api_pattern *pattern, int32_t layer,
                s2_api_pass pass)
{
    s2_api_error why = {0};
    s2_api_plan *plan = NULL;
    s2_api_plan_options options = {
        .size = sizeof options, .pass = (int32_t)pass, .layer = layer, .head_dim = DIM};
    options.n_sequences = options.deterministic = 1;
    options.q_tok = options.k_tok = &at->n_tok;
    options.cap = at->cap;
    options.sinks = at->cap > 0;
    s2_api_call call = {.size = sizeof call,
                        .scale = 0.3f,
                        .q = tensor(at->q),
                        .k = tensor(at->k),
                        .v = tensor(at->v),
                        .o = tensor(at->o),
                        .lse = {&at->lse[0][0], 0, LIMIT_TOK},
                        .d_o = tensor(at->d_o),
                        .d_q = tensor(at->d_q),
                        .d_k = tensor(at->d_k),
                        .d_v = tensor(at->d_v)};
    if (s2_api_plan_open(device, pattern, &options, &plan, &why) != 0)
        fail_msg("%s", why.message);
    if (at->cap > 0) {
        assert_int_equal(s2_api_plan_run(plan, &call, &why), S2_API_ARGUMENT);
        assert_non_null(strstr(why.message, "sink"));
        call.sink = at->sink;
        call.d_sink = at->d_sink;
    }
    if (s2_api_plan_run(plan, &call, &why) != 0)
        fail_msg("%s", why.message);
    assert_int_equal(s2_api_plan_run(plan, &call, &why), 0); /* what was prepared serves again */
    s2_api_plan_close(plan);
}

static void compare(const attention *at, const char *what, float (*got)[LIMIT_HEADS][DIM],
                    double (*want)[LIMIT_HEADS][DIM], int32_t heads)
{
    for (int32_t tok = 0; tok < at->n_tok; tok++)
        for (int32_t head = 0; head < heads; head++)
            for (int32_t d = 0; d < DIM; d++)
                if (!(fabs((double)got[tok][head][d] - want[tok][head][d]) < 2e-4))
                    fail_msg("%s of token %d, head %d: %g, not %g", what, tok, head,
                             (double)got[tok][head][d], want[tok][head][d]);
}

static void outputs_and_gradients_are_those_of_the_mask(void **state)
{
    static const char *const texts[] = {
        "heads 4; kv-heads 2; block 16; layers 2; layers all: local 3 | stride 4 phase head; layers 1: dense",
        "heads 4; kv-heads 4; block 32; layers all: local 20t | sink 3t; heads 1: none",
        "heads 2; kv-heads 1; block 16; causal no; layers all: local 2 | columns 0,5",
    };
    s2_rng rng = {s2_test_seed(5)};
    s2_api_device *device = NULL;
    (void)state;
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    for (size_t t = 0; t < 2 * sizeof texts / sizeof *texts; t++) {
        s2_api_pattern *const pattern = open_text(texts[t / 2]);
        s2_api_shape shape = {.size = sizeof shape};
        attention *const at = calloc(1, sizeof *at);
        assert_non_null(at);
        assert_int_equal(s2_api_pattern_shape(pattern, &shape, NULL), 0);
        at->n_tok = 1 + (int32_t)s2_rng_below(&rng, LIMIT_TOK);
        at->heads = shape.heads;
        at->kv_heads = shape.kv_heads;
        float *const all[] = {&at->q[0][0][0], &at->k[0][0][0], &at->v[0][0][0], &at->d_o[0][0][0]};
        for (size_t n = 0; n < 4; n++)
            for (size_t e = 0; e < sizeof at->q / sizeof(float); e++)
                all[n][e] = (float)(s2_test_unit(&rng) * 2 - 1);
        at->cap = t % 2 == 0 ? 0.0f : 0.7f;
        for (int32_t head = 0; head < at->heads; head++)
            at->sink[head] = (float)(head == 1 ? 9 : s2_test_unit(&rng) * 4 - 1);
        eager(at, pattern, shape.layers - 1);
        run(at, device, pattern, shape.layers - 1, S2_API_FORWARD);
        run(at, device, pattern, shape.layers - 1, S2_API_BACKWARD);
        compare(at, "o", at->o, at->want_o, at->heads);
        compare(at, "d_q", at->d_q, at->want_q, at->heads);
        compare(at, "d_k", at->d_k, at->want_k, at->kv_heads);
        compare(at, "d_v", at->d_v, at->want_v, at->kv_heads);
        for (int32_t head = 0; head < at->heads; head++)
            if (!(fabs((double)at->d_sink[head] - at->want_sink[head]) < 2e-4 * at->n_tok))
                fail_msg("d_sink of head %d: %g, not %g", head, (double)at->d_sink[head],
                         at->want_sink[head]);
        free(at);
        s2_api_pattern_close(pattern);
    }
    s2_api_device_close(device);
}

/* ------------------------------------------------------------------ lists of blocks */

enum { LIST_BLOCK = 16, MOST_LISTED = 9, N_LISTS = LIMIT_TOK / 16 + 1 };

typedef struct listing {
    int32_t heads, q_tok, counts[LIMIT_HEADS][N_LISTS], blocks[LIMIT_HEADS][N_LISTS][MOST_LISTED];
} listing;

/* Lists with duplicates, numbers of no block and counts out of range. */
static void draw_lists(listing *lists, s2_rng *rng, int32_t heads, int32_t n_tok)
{
    static const int32_t odd[] = {-1, INT32_MIN, INT32_MAX, 1000};
    lists->heads = heads;
    lists->q_tok = 16 << s2_rng_below(rng, 4);
    for (int32_t head = 0; head < heads; head++)
        for (int32_t nth = 0; nth < N_LISTS; nth++) {
            lists->counts[head][nth] = s2_rng_below(rng, 9) == 0
                                           ? odd[s2_rng_below(rng, 4)]
                                           : (int32_t)s2_rng_below(rng, MOST_LISTED + 1);
            for (int32_t at = 0; at < MOST_LISTED; at++)
                lists->blocks[head][nth][at] =
                    s2_rng_below(rng, 9) == 0 ? odd[s2_rng_below(rng, 4)]
                                              : (int32_t)s2_rng_below(rng, (uint64_t)n_tok / LIST_BLOCK + 1);
        }
}

/* The row of at->mask that a query of a causal pattern has by its list. */
static void mask_by_lists(attention *at, const listing *lists, int32_t head, int32_t q)
{
    const int32_t own = lists->heads == at->heads ? head : head / (at->heads / at->kv_heads),
                  nth = q / lists->q_tok;
    int32_t n = lists->counts[own][nth];
    n = n < 0 ? 0 : n > MOST_LISTED ? MOST_LISTED : n;
    memset(&at->mask[q * at->n_tok], 0, (size_t)at->n_tok);
    for (int32_t k = 0; k <= q; k++)
        for (int32_t e = 0; e < n; e++)
            if (lists->blocks[own][nth][e] == k / LIST_BLOCK)
                at->mask[q * at->n_tok + k] = 1;
}

static void run_listed(attention *at, s2_api_device *device, const s2_api_pattern *pattern,
                       const listing *lists)
{
    s2_api_error why = {0};
    s2_api_plan *plan = NULL;
    const s2_api_plan_options options = {.size = sizeof options,
                                         .head_dim = DIM,
                                         .n_sequences = 1,
                                         .q_tok = &at->n_tok,
                                         .k_tok = &at->n_tok,
                                         .list_heads = lists->heads,
                                         .list_q_tok = lists->q_tok,
                                         .list_q_blocks = N_LISTS,
                                         .list_most = MOST_LISTED};
    s2_api_call call = {.size = sizeof call,
                        .scale = 0.3f,
                        .q = tensor(at->q),
                        .k = tensor(at->k),
                        .v = tensor(at->v),
                        .o = tensor(at->o),
                        .lse = {&at->lse[0][0], 0, LIMIT_TOK}};
    if (s2_api_plan_open(device, pattern, &options, &plan, &why) != 0)
        fail_msg("%s", why.message);
    assert_int_equal(s2_api_plan_run(plan, &call, &why), S2_API_ARGUMENT);
    assert_non_null(strstr(why.message, "list_counts"));
    call.list_counts = &lists->counts[0][0];
    call.list_blocks = &lists->blocks[0][0][0];
    if (s2_api_plan_run(plan, &call, &why) != 0)
        fail_msg("%s", why.message);
    s2_api_plan_close(plan);
}

static void a_row_reads_the_blocks_that_a_call_lists(void **state)
{
    s2_api_pattern *const pattern = open_text("heads 4; kv-heads 2; block 16; layers all: dense");
    s2_rng rng = {s2_test_seed(6)};
    s2_api_device *device = NULL;
    (void)state;
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    for (int64_t n = s2_test_cases(30); n > 0; n--) {
        attention *const at = calloc(1, sizeof *at);
        listing lists;
        assert_non_null(at);
        at->n_tok = 1 + (int32_t)s2_rng_below(&rng, LIMIT_TOK);
        at->heads = 4;
        at->kv_heads = 2;
        float *const all[] = {&at->q[0][0][0], &at->k[0][0][0], &at->v[0][0][0]};
        for (size_t t = 0; t < 3; t++)
            for (size_t e = 0; e < sizeof at->q / sizeof(float); e++)
                all[t][e] = (float)(s2_test_unit(&rng) * 2 - 1);
        draw_lists(&lists, &rng, s2_rng_below(&rng, 2) == 0 ? 4 : 2, at->n_tok);
        for (int32_t head = 0; head < at->heads; head++)
            for (int32_t q = 0; q < at->n_tok; q++) {
                mask_by_lists(at, &lists, head, q);
                eager_row(at, head, q);
            }
        run_listed(at, device, pattern, &lists);
        compare(at, "o", at->o, at->want_o, at->heads);
        free(at);
    }
    s2_api_device_close(device);
    s2_api_pattern_close(pattern);
}

static void lists_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *rules, *fault;
        int32_t pass, heads, q_tok, q_blocks, most;
    } all[] = {
        {"dense", "list_heads: ", S2_API_FORWARD, 3, 64, 4, 4},
        {"dense", "list_heads: ", S2_API_FORWARD, -4, 64, 4, 4},
        {"dense", "list_q_tok: query blocks of 0", S2_API_FORWARD, 4, 0, 4, 4},
        {"dense", "list_q_tok: query blocks of 48", S2_API_FORWARD, 4, 48, 4, 4},
        {"dense", "list_q_blocks, list_most: ", S2_API_FORWARD, 4, 64, 0, 4},
        {"dense", "list_q_blocks, list_most: ", S2_API_FORWARD, 2, 64, 4, -1},
        {"local 2", "layer: ", S2_API_FORWARD, 4, 64, 4, 4},
        {"dense", "list_heads", S2_API_BACKWARD, 4, 64, 4, 4},
        {"dense", "list_heads", S2_API_DECODING, 4, 64, 4, 4},
    };
    const int32_t n_tok = 100;
    s2_api_device *device = NULL;
    s2_api_error why = {0};
    (void)state;
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    for (size_t at = 0; at < sizeof all / sizeof *all; at++) {
        char text[80];
        (void)snprintf(text, sizeof text, "heads 4; kv-heads 2; block 16; layers all: %s", all[at].rules);
        s2_api_pattern *const pattern = open_text(text);
        const s2_api_plan_options options = {.size = sizeof options,
                                             .pass = all[at].pass,
                                             .head_dim = DIM,
                                             .n_sequences = 1,
                                             .q_tok = &n_tok,
                                             .k_tok = &n_tok,
                                             .list_heads = all[at].heads,
                                             .list_q_tok = all[at].q_tok,
                                             .list_q_blocks = all[at].q_blocks,
                                             .list_most = all[at].most};
        s2_api_plan *plan = NULL;
        const int code = s2_api_plan_open(device, pattern, &options, &plan, &why);
        if (code == S2_API_OK || plan != NULL || strstr(why.message, all[at].fault) != why.message)
            fail_msg("case %zu: %d %s", at, code, why.message);
        s2_api_pattern_close(pattern);
    }
    s2_api_device_close(device);
}

/* ------------------------------------------------------------------ wrong calls */

static void must_name(int code, s2_api_error *why, int wanted, const char *argument)
{
    if (code != wanted || why->code != wanted || strstr(why->message, argument) == NULL)
        fail_msg("expected %d and a message with \"%s\", got %d \"%s\"", wanted, argument, code,
                 why->message);
    *why = (s2_api_error){0};
}

static void a_wrong_call_is_told_which_argument_is_wrong(void **state)
{
    s2_api_pattern *const pattern = open_text("heads 4; kv-heads 2; block 16; layers all: local 3");
    s2_api_error why = {0};
    s2_api_verdict verdict;
    s2_api_cache *cache = NULL;
    uint8_t out[64];
    int64_t slots[4];
    int32_t seq = 0, n_moves;
    const s2_api_move *moves;
    s2_api_shape shape = {.size = sizeof shape + 4};
    (void)state;
    must_name(s2_api_pattern_open("heads 4; layers all: lokal 3", 28, NULL, NULL, (s2_api_pattern *[1]){NULL},
                                  &why),
              &why, S2_API_REFUSED, "lokal");
    must_name(s2_api_pattern_open(NULL, 0, NULL, NULL, (s2_api_pattern *[1]){NULL}, &why), &why,
              S2_API_ARGUMENT, "text");
    must_name(s2_api_pattern_open("heads 4; block 16; layers all: mask \"m.npy\"", 43, NULL, NULL,
                                  (s2_api_pattern *[1]){NULL}, &why),
              &why, S2_API_REFUSED, "mask");
    const struct {
        s2_api_source source;
        s2_api_code code;
        const char *said;
    } bad[] = {
        {{.size = 3}, S2_API_ARGUMENT, "source"},
        {{.size = sizeof(s2_api_source)}, S2_API_ARGUMENT, "source"},
        {{.size = sizeof(s2_api_source), .path = "/nowhere/at/all"}, S2_API_FILE, "/nowhere"},
        {{.size = sizeof(s2_api_source), .path = "/dev"}, S2_API_FILE, "folder"},
        {{.size = sizeof(s2_api_source), .path = "/dev/zero"}, S2_API_FILE, "64 MiB"},
        {{.size = sizeof(s2_api_source), .text = "", .n_settings = 1}, S2_API_ARGUMENT, "settings"},
        {{.size = sizeof(s2_api_source),
          .text = "",
          .settings = (const char *const[]){"=3"},
          .n_settings = 1},
         S2_API_ARGUMENT,
         "KEY=VALUE"},
        {{.size = sizeof(s2_api_source),
          .text = "heads 1; layers all: dense",
          .text_size = 26,
          .settings = (const char *const[]){"layers=3"},
          .n_settings = 1},
         S2_API_ARGUMENT,
         "settings"},
    };
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
        must_name(s2_api_pattern_read(&bad[n].source, (s2_api_pattern *[1]){NULL}, &why), &why, bad[n].code,
                  bad[n].said);
    must_name(s2_api_pattern_shape(pattern, &shape, &why), &why, S2_API_ARGUMENT, "shape");
    must_name(s2_api_pattern_mask(pattern, S2_API_PREFILL, 1, 0, 8, 0, 8, out, &why), &why, S2_API_ARGUMENT,
              "layer");
    must_name(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, 4, 8, 0, 8, out, &why), &why, S2_API_ARGUMENT,
              "head");
    must_name(s2_api_pattern_mask(pattern, S2_API_PREFILL, 0, 0, 8, 4, 9, out, &why), &why, S2_API_ARGUMENT,
              "query");
    must_name(s2_api_pattern_check(pattern, "rows,onion", 0, &verdict, NULL, &why), &why, S2_API_ARGUMENT,
              "onion");
    must_name(s2_api_pattern_check(pattern, "ranks:3", 0, &verdict, NULL, &why), &why, S2_API_ARGUMENT,
              "properties");
    must_name(s2_api_pattern_write(pattern, "doc", 64, "/dev/null", NULL, &why), &why, S2_API_ARGUMENT,
              "format");
    must_name(s2_api_device_open("tpu", (s2_api_device *[1]){NULL}, &why), &why, S2_API_ARGUMENT, "device");
    assert_int_equal(s2_api_cache_open(pattern, NULL, &cache, &why), 0);
    must_name(s2_api_cache_append(cache, 0, 1, &moves, &n_moves, &why), &why, S2_API_ARGUMENT, "sequence");
    assert_int_equal(s2_api_cache_sequence(cache, &seq, &why), 0);
    must_name(s2_api_cache_append(cache, seq, 0, &moves, &n_moves, &why), &why, S2_API_ARGUMENT, "n_tok");
    assert_int_equal(s2_api_cache_append(cache, seq, 4, &moves, &n_moves, &why), 0);
    must_name(s2_api_cache_slots(cache, seq, 0, 2, 0, 4, slots, &why), &why, S2_API_ARGUMENT, "kv_head");
    must_name(s2_api_cache_slots(cache, seq, 0, 1, 0, 5, slots, &why), &why, S2_API_ARGUMENT, "key_end");
    assert_int_equal(s2_api_cache_drop(cache, seq, &why), 0);
    must_name(s2_api_cache_drop(cache, seq, &why), &why, S2_API_ARGUMENT, "sequence");
    s2_api_pattern_close(pattern); /* the cache holds it */
    assert_int_equal(s2_api_cache_sequence(cache, &seq, &why), 0);
    assert_int_equal(s2_api_cache_append(cache, seq, 100, &moves, &n_moves, &why), 0);
    s2_api_cache_close(cache);
}

/* ------------------------------------------------------------------ sequences without tokens */

enum { MOST_PACKED = 7 };

typedef struct packed {
    int32_t n, lens[MOST_PACKED], begins[MOST_PACKED + 1];
} packed;

static s2_api_plan_options packed_options(const packed *at, int32_t pass)
{
    return (s2_api_plan_options){.size = sizeof(s2_api_plan_options),
                                 .pass = pass,
                                 .head_dim = DIM,
                                 .n_sequences = at->n,
                                 .deterministic = 1,
                                 .q_tok = at->lens,
                                 .k_tok = at->lens,
                                 .q_begin = at->begins,
                                 .k_begin = at->begins};
}

static void append(packed *at, int32_t n_tok)
{
    at->lens[at->n++] = n_tok;
    at->begins[at->n] = at->begins[at->n - 1] + n_tok;
}

static void run_packed(attention *at, s2_api_device *device, const s2_api_pattern *pattern,
                       const packed *sequences)
{
    s2_api_error why = {0};
    s2_api_call call = {.size = sizeof call,
                        .scale = 0.3f,
                        .q = tensor(at->q),
                        .k = tensor(at->k),
                        .v = tensor(at->v),
                        .o = tensor(at->o),
                        .lse = {&at->lse[0][0], 0, LIMIT_TOK},
                        .d_o = tensor(at->d_o),
                        .d_q = tensor(at->d_q),
                        .d_k = tensor(at->d_k),
                        .d_v = tensor(at->d_v)};
    for (int32_t pass = S2_API_FORWARD; pass <= S2_API_BACKWARD; pass++) {
        s2_api_plan *plan = NULL;
        const s2_api_plan_options options = packed_options(sequences, pass);
        if (s2_api_plan_open(device, pattern, &options, &plan, &why) != S2_API_OK ||
            s2_api_plan_run(plan, &call, &why) != S2_API_OK)
            fail_msg("%s", why.message);
        s2_api_plan_close(plan);
    }
}

static void sequences_without_tokens_change_nothing(void **state)
{
    s2_api_pattern *const pattern =
        open_text("heads 4; kv-heads 2; head-dim 24; block 16; layers all: local 2 | stride 3 phase head");
    s2_rng rng = {s2_test_seed(11)};
    s2_api_device *device = NULL;
    attention *const at = calloc(2, sizeof *at);
    (void)state;
    assert_non_null(at);
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    for (size_t x = 0; x < sizeof at->q / sizeof(float); x++)
        (&at->q[0][0][0])[x] = (float)(s2_test_unit(&rng) * 2 - 1);
    memcpy(at->k, at->q, sizeof at->q);
    memcpy(at->v, at->q, sizeof at->q);
    memcpy(at->d_o, at->q, sizeof at->q);
    for (int turn = 0; turn < 20; turn++) {
        packed all = {0}, kept = {0};
        append(&kept, 1 + (int32_t)s2_rng_below(&rng, 90));
        append(&kept, 1 + (int32_t)s2_rng_below(&rng, 90));
        for (int32_t seq = 0; seq <= kept.n; seq++) {
            if (s2_rng_below(&rng, 2) == 0)
                append(&all, 0);
            if (seq < kept.n)
                append(&all, kept.lens[seq]);
        }
        at[1] = at[0];
        run_packed(&at[0], device, pattern, &kept);
        run_packed(&at[1], device, pattern, &all);
        assert_memory_equal(&at[0], &at[1], sizeof *at);
    }
    s2_api_device_close(device);
    s2_api_pattern_close(pattern);
    free(at);
}

static void sequences_without_tokens_are_refused_where_others_count_them(void **state)
{
    s2_api_pattern *const pattern =
        open_text("heads 4; kv-heads 2; head-dim 24; block 16; layers all: dense");
    s2_api_device *device = NULL;
    s2_api_plan *plan = NULL;
    s2_api_error why = {0};
    const int32_t none[2] = {0, 0}, begins[3] = {0, 0, 0}, keys[2] = {0, 5}, begins_k[3] = {0, 0, 5};
    packed at = {0};
    (void)state;
    append(&at, 9);
    append(&at, 0);
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    s2_api_plan_options bad[5];
    for (int n = 0; n < 5; n++)
        bad[n] = packed_options(&at, n == 0 ? S2_API_DECODING : S2_API_FORWARD);
    bad[1].q_begin = bad[1].k_begin = NULL; /* a batch */
    bad[2].list_heads = 2;
    bad[2].list_q_tok = 16;
    bad[2].list_q_blocks = bad[2].list_most = 1;
    bad[3].q_tok = bad[3].k_tok = none;
    bad[3].q_begin = bad[3].k_begin = begins;
    bad[4].q_tok = none; /* keys without a query */
    bad[4].q_begin = begins;
    bad[4].k_tok = keys;
    bad[4].k_begin = begins_k;
    for (int n = 0; n < 5; n++)
        must_name(s2_api_plan_open(device, pattern, &bad[n], &plan, &why), &why, S2_API_ARGUMENT,
                  n == 3 ? "no sequence has a token" : "q_tok, k_tok: sequence 1 has 0 queries");
    s2_api_device_close(device);
    s2_api_pattern_close(pattern);
}

/* ------------------------------------------------------------------ layers that read alike */

typedef struct stepping {
    s2_api_device *device;
    s2_api_cache *cache;
    int32_t sequences[2];
    _Alignas(16) float q[2][4][DIM], pool[4000][DIM];
    float o[2][4][DIM], lse[2][4];
} stepping;

static s2_api_call layer_call(stepping *at, int32_t of_layer, bool cached)
{
    s2_api_call call = {.size = sizeof call, .scale = 0.3f, .of_layer = of_layer};
    call.q = (s2_api_tensor){at->q, 4 * DIM, DIM, DIM};
    call.k = call.v = (s2_api_tensor){at->pool, DIM, DIM, 0};
    call.o = (s2_api_tensor){at->o, 4 * DIM, DIM, DIM};
    call.lse = (s2_api_rows){&at->lse[0][0], 4, 1};
    call.cache = cached ? at->cache : NULL;
    call.sequences = at->sequences;
    return call;
}

static int step_layer(stepping *at, s2_api_plan *plan, int32_t of_layer, bool cached, s2_api_error *why)
{
    const s2_api_call call = layer_call(at, of_layer, cached);
    return s2_api_plan_run(plan, &call, why);
}

/* A plan that was told to follow has nothing to make when it runs, and counts what it made. */
static int64_t follow_layer(stepping *at, s2_api_plan *plan)
{
    const s2_api_call call = layer_call(at, 1, true);
    int64_t made = -1, again = -1;
    assert_int_equal(s2_api_plan_follow(plan, &call, &made, NULL), S2_API_OK);
    assert_int_equal(s2_api_plan_run(plan, &call, NULL), S2_API_OK);
    assert_int_equal(s2_api_plan_follow(plan, &call, &again, NULL), S2_API_OK);
    assert_int_equal(made, again);
    return made;
}

static s2_api_plan *open_step(const stepping *at, const s2_api_pattern *pattern, int32_t layer)
{
    const int32_t one[2] = {1, 1};
    s2_api_plan *plan = NULL;
    const s2_api_plan_options options = {.size = sizeof options,
                                         .pass = S2_API_DECODING,
                                         .phase = S2_API_DECODE,
                                         .layer = layer,
                                         .head_dim = DIM,
                                         .n_sequences = 2,
                                         .q_tok = one,
                                         .k_tok = one};
    assert_int_equal(s2_api_plan_open(at->device, pattern, &options, &plan, NULL), S2_API_OK);
    return plan;
}

/* One that has followed the sequences for long, and all layers, gives what one of the layer's own gives that is new. */
static void compare_layers(stepping *at, const s2_api_pattern *pattern, s2_api_plan *plan)
{
    for (int32_t layer = 0; layer < 3; layer += 2) {
        float o[2][4][DIM];
        s2_api_plan *const own = open_step(at, pattern, layer);
        assert_int_equal(step_layer(at, own, 0, true, NULL), S2_API_OK);
        memcpy(o, at->o, sizeof o);
        s2_api_plan_close(own);
        assert_int_equal(step_layer(at, plan, layer + 1, true, NULL), S2_API_OK);
        for (int32_t x = 0; x < 2 * 4 * DIM; x++)
            assert_true(fabs((double)(&o[0][0][0])[x] - (double)(&at->o[0][0][0])[x]) < 1e-5);
    }
}

static void one_plan_serves_the_layers_that_read_alike(void **state)
{
    static stepping at;
    (void)state;
    s2_api_pattern *const pattern =
        open_text("layers 3; heads 4; kv-heads 2; head-dim 24; block 16; layers all: local 2 | "
                  "stride 3 phase head; layers 1: dense");
    s2_api_error why = {0};
    const s2_api_move *moves;
    int32_t n_moves;
    s2_rng rng = {7};
    for (int32_t x = 0; x < 4000 * DIM; x++)
        (&at.pool[0][0])[x] = (float)(s2_rng_next(&rng) % 2001) * 1e-3f - 1.0f;
    memcpy(at.q, at.pool, sizeof at.q);
    assert_int_equal(s2_api_device_open("cpu", &at.device, NULL), S2_API_OK);
    assert_int_equal(s2_api_cache_open(pattern, NULL, &at.cache, NULL), S2_API_OK);
    for (int32_t seq = 0; seq < 2; seq++) {
        assert_int_equal(s2_api_cache_sequence(at.cache, &at.sequences[seq], NULL), S2_API_OK);
        assert_int_equal(
            s2_api_cache_append(at.cache, at.sequences[seq], 20 + 13 * seq, &moves, &n_moves, NULL), 0);
    }
    s2_api_plan *const plan = open_step(&at, pattern, 0);
    int64_t n_made = 0;
    for (int32_t step = 0; step < 70; step++) {
        for (int32_t seq = 0; seq < 2; seq++)
            assert_int_equal(s2_api_cache_append(at.cache, at.sequences[seq], 1, &moves, &n_moves, NULL), 0);
        n_made = follow_layer(&at, plan);
        compare_layers(&at, pattern, plan);
    }
    assert_in_range(n_made, 1, 20); /* in place, but where a list outgrew its room */
    const s2_api_call call = layer_call(&at, 1, true);
    must_name(s2_api_plan_follow(plan, &call, NULL, &why), &why, S2_API_ARGUMENT, "made is NULL");
    must_name(step_layer(&at, plan, 2, true, &why), &why, S2_API_ARGUMENT, "of_layer: layer 1");
    must_name(step_layer(&at, plan, 4, true, &why), &why, S2_API_ARGUMENT, "layer 3");
    must_name(step_layer(&at, plan, -1, true, &why), &why, S2_API_ARGUMENT, "of_layer: -1");
    must_name(step_layer(&at, plan, 1, false, &why), &why, S2_API_ARGUMENT, "of_layer: only");
    s2_api_plan_close(plan);
    s2_api_cache_close(at.cache);
    s2_api_device_close(at.device);
    s2_api_pattern_close(pattern);
}

/* What asks for too much is refused with a word on what asks for less, when its plan is made or its lists are. */
static void plans_end_within_their_work(void **state)
{
    enum { MOST_SEQS = 70000, MOST_TOK = 1 << 24 };
    static const struct {
        const char *text;
        s2_api_pass pass;
        int32_t n_seqs, q_tok, k_tok;
        bool opens;
    } rows[] = {
        {"heads 4096; layers all: local 4", S2_API_FORWARD, 1, MOST_TOK, MOST_TOK, false},
        {"heads 4096; layers all: local 4", S2_API_BACKWARD, 1, MOST_TOK, MOST_TOK, false},
        {"heads 1; block 16; layers all: random 1000 seed 1", S2_API_FORWARD, 1, MOST_TOK, MOST_TOK, false},
        {"heads 4096; kv-heads 1; layers all: local 4", S2_API_DECODING, MOST_SEQS, 16, 1024, true},
    };
    static int32_t q_tok[MOST_SEQS], k_tok[MOST_SEQS];
    static _Alignas(16) float data[4];
    s2_api_device *device = NULL;
    (void)state;
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        s2_api_error why = {0};
        s2_api_plan *plan = NULL;
        s2_api_pattern *const pattern = open_text(rows[row].text);
        for (int32_t seq = 0; seq < rows[row].n_seqs; seq++) {
            q_tok[seq] = rows[row].q_tok;
            k_tok[seq] = rows[row].k_tok;
        }
        const s2_api_plan_options options = {.size = sizeof options,
                                             .pass = rows[row].pass,
                                             .head_dim = DIM,
                                             .n_sequences = rows[row].n_seqs,
                                             .q_tok = q_tok,
                                             .k_tok = k_tok};
        int code = s2_api_plan_open(device, pattern, &options, &plan, &why);
        if (rows[row].opens) {
            assert_int_equal(code, S2_API_OK);
            const s2_api_tensor none = {data, 0, 4, 4};
            const s2_api_call call = {.size = sizeof call,
                                      .scale = 1.0f,
                                      .q = none,
                                      .k = none,
                                      .v = none,
                                      .o = none,
                                      .lse = {data, 0, 0}};
            code = s2_api_plan_run(plan, &call, &why);
        }
        must_name(code, &why, S2_API_LIMIT, "more than 2^30 steps: shorter sequences");
        s2_api_plan_close(plan);
        s2_api_pattern_close(pattern);
    }
    s2_api_device_close(device);
}

/* Any numbers: a plan or a reason, and no harm. */
static void a_plan_of_random_numbers_is_made_or_refused(void **state)
{
    static const int32_t odd[] = {0, 1, 2, 3, 16, 17, 64, 300, -1, INT32_MAX, INT32_MIN};
    s2_api_pattern *const pattern =
        open_text("heads 4; kv-heads 2; block 16; layers 2; layers all: local 3 | stride 5 phase head");
    s2_rng rng = {s2_test_seed(7)};
    s2_api_device *device = NULL;
    int64_t n_made = 0;
    (void)state;
    assert_int_equal(s2_api_device_open("cpu", &device, NULL), 0);
#define ODD odd[s2_rng_below(&rng, s2_rng_below(&rng, 4) == 0 ? sizeof odd / sizeof *odd : 3)]
    for (int64_t n = s2_test_cases(4000); n > 0; n--) {
        const int32_t lens[4] = {ODD, ODD, ODD, ODD}, begins[6] = {0, ODD, ODD, ODD, ODD, ODD};
        s2_api_plan_options options = {s2_rng_below(&rng, 9) == 0 ? (uint32_t)ODD : (uint32_t)sizeof options,
                                       ODD,
                                       ODD,
                                       ODD,
                                       ODD,
                                       ODD,
                                       (int32_t)s2_rng_below(&rng, 3),
                                       ODD,
                                       lens,
                                       lens + 2,
                                       NULL,
                                       NULL,
                                       (float)ODD,
                                       ODD,
                                       s2_rng_below(&rng, 2) == 0 ? ODD : 0,
                                       ODD,
                                       ODD,
                                       ODD};
        if (s2_rng_below(&rng, 4) == 0)
            options.q_begin = begins;
        if (s2_rng_below(&rng, 4) == 0)
            options.k_begin = begins + 3;
        s2_api_error why = {0};
        s2_api_plan *plan = NULL;
        const int code = s2_api_plan_open(device, pattern, &options, &plan, &why);
        assert_int_equal(code, why.code);
        assert_true((code == S2_API_OK) == (plan != NULL) && (code == S2_API_OK) == (why.message[0] == '\0'));
        const s2_api_call call = {.size = sizeof call, .scale = 1.0f};
        assert_int_equal(s2_api_plan_run(plan, &call, &why), S2_API_ARGUMENT);
        n_made += plan != NULL;
        s2_api_plan_close(plan);
    }
#undef ODD
    assert_true(n_made > 0 || s2_test_cases(4000) < 1000);
    s2_api_device_close(device);
    s2_api_pattern_close(pattern);
}

/* ------------------------------------------------------------------ no memory */

static int whole_life(s2_api_error *why)
{
    static const char text[] =
        "{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
        "\"num_key_value_heads\": 2, \"hidden_size\": 64, \"sliding_window\": 32}";
    s2_api_pattern *pattern = NULL;
    s2_api_device *device = NULL;
    s2_api_plan *plan = NULL;
    s2_api_cache *cache = NULL;
    s2_api_text json = {0}, notes = {0};
    s2_api_verdict verdict;
    const s2_api_move *moves;
    int32_t seq = 0, n_moves = 0;
    const int32_t n_tok = 40;
    s2_api_plan_options options = {
        .size = sizeof options, .head_dim = DIM, .n_sequences = 1, .q_tok = &n_tok, .k_tok = &n_tok};
    int code = s2_api_pattern_open(text, sizeof text - 1, NULL, NULL, &pattern, why);
    code = code != 0 ? code : s2_api_pattern_notes(pattern, &notes, why);
    code = code != 0 ? code : s2_api_pattern_check(pattern, "rows,kv", 0, &verdict, &json, why);
    code = code != 0 ? code : s2_api_device_open("cpu", &device, why);
    code = code != 0 ? code : s2_api_plan_open(device, pattern, &options, &plan, why);
    code = code != 0 ? code : s2_api_cache_open(pattern, NULL, &cache, why);
    code = code != 0 ? code : s2_api_cache_sequence(cache, &seq, why);
    code = code != 0 ? code : s2_api_cache_append(cache, seq, n_tok, &moves, &n_moves, why);
    s2_api_cache_close(cache);
    s2_api_plan_close(plan);
    s2_api_device_close(device);
    s2_api_text_free(&json);
    s2_api_text_free(&notes);
    s2_api_pattern_close(pattern);
    return code;
}

static void every_failed_allocation_is_said_and_nothing_is_lost(void **state)
{
    s2_api_error why = {0};
    (void)state;
    int64_t n = 0;
    for (int code = S2_API_MEMORY; code != S2_API_OK; n++) {
        int64_t left = n;
        s2_alloc_set_hook(s2_test_fail_one, &left);
        code = whole_life(&why);
        s2_alloc_set_hook(NULL, NULL);
        if (code != S2_API_OK && code != S2_API_MEMORY)
            fail_msg("allocation %lld: %d %s", (long long)n, code, why.message);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_gradients_are_those_of_the_mask),
        cmocka_unit_test(a_row_reads_the_blocks_that_a_call_lists),
        cmocka_unit_test(lists_that_do_not_fit_are_refused),
        cmocka_unit_test(a_wrong_call_is_told_which_argument_is_wrong),
        cmocka_unit_test(sequences_without_tokens_change_nothing),
        cmocka_unit_test(sequences_without_tokens_are_refused_where_others_count_them),
        cmocka_unit_test(one_plan_serves_the_layers_that_read_alike),
        cmocka_unit_test(plans_end_within_their_work),
        cmocka_unit_test(a_plan_of_random_numbers_is_made_or_refused),
        cmocka_unit_test(every_failed_allocation_is_said_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
