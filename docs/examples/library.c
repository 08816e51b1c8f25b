/*
 * libs2 from outside: a pattern is read, proved, priced and run, and then decodes from a cache that evicts.
 *
 *     cc library.c $(pkg-config --cflags --libs s2) -lm -o library && ./library
 *
 * Every decoded row is compared with attention over all keys that there ever were: exit code 1 when one differs.
 */
#include <math.h>
#include <s2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 32, TOKENS = 400 };
static const char text[] =
    "heads 4; kv-heads 2; head-dim 32; block 16; layers all: sink 1 | local 4 | stride 4 phase kv";

static float q[TOKENS][HEADS][DIM], k[TOKENS][KV_HEADS][DIM], v[TOKENS][KV_HEADS][DIM], o[TOKENS][HEADS][DIM];
static float lse[HEADS][TOKENS];

static void must(int code, const s2_api_error *why)
{
    if (code == S2_API_OK)
        return;
    fprintf(stderr, "library: %s\n", why->message);
    exit(5);
}

static void draw(float *to, size_t n)
{
    for (size_t at = 0; at < n; at++)
        to[at] = (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
}

static void prefill(s2_api_device *device, const s2_api_pattern *pattern)
{
    s2_api_error why;
    s2_api_plan *plan;
    const int32_t n_tok = TOKENS;
    s2_api_plan_options options = {
        .size = sizeof options, .pass = S2_API_FORWARD, .head_dim = DIM, .n_sequences = 1};
    options.q_tok = options.k_tok = &n_tok;
    must(s2_api_plan_open(device, pattern, &options, &plan, &why), &why);
    s2_api_call call = {.size = sizeof call,
                        .scale = 0.25f,
                        .q = {q, 0, HEADS * DIM, DIM},
                        .k = {k, 0, KV_HEADS * DIM, DIM},
                        .v = {v, 0, KV_HEADS * DIM, DIM},
                        .o = {o, 0, HEADS * DIM, DIM},
                        .lse = {&lse[0][0], 0, TOKENS}};
    must(s2_api_plan_run(plan, &call, &why), &why);
    must(s2_api_device_wait(device, &why), &why);
    s2_api_plan_close(plan);
}

/* The pools hold what the cache says that they must; keys and values go where it says. */
static float *grow(float *pool, int64_t slots)
{
    float *const grown = realloc(pool, (size_t)slots * DIM * sizeof *pool);
    if (grown == NULL)
        exit(5);
    return grown;
}

static void put(s2_api_cache *cache, int32_t sequence, int32_t tok, float **keys, float **values)
{
    s2_api_error why;
    const s2_api_move *moves;
    int32_t n_moves; /* none: pages of single heads move only after a fork */
    s2_api_usage usage = {.size = sizeof usage};
    must(s2_api_cache_append(cache, sequence, 1, &moves, &n_moves, &why), &why);
    must(s2_api_cache_usage(cache, &usage, &why), &why);
    *keys = grow(*keys, usage.pool_slots);
    *values = grow(*values, usage.pool_slots);
    for (int32_t head = 0; head < KV_HEADS; head++) {
        int64_t slot;
        must(s2_api_cache_slots(cache, sequence, 0, head, tok, tok + 1, &slot, &why), &why);
        if (slot < 0)
            continue; /* no later query reads it */
        memcpy(*keys + slot * DIM, k[tok][head], sizeof k[tok][head]);
        memcpy(*values + slot * DIM, v[tok][head], sizeof v[tok][head]);
    }
}

/* The worst difference of a decoded row from the same row of the prefill. */
static double decode(s2_api_device *device, const s2_api_pattern *pattern, s2_api_cache *cache,
                     int32_t sequence)
{
    float *keys = NULL, *values = NULL, row[HEADS][DIM], row_lse[HEADS];
    s2_api_error why;
    double worst = 0;
    for (int32_t tok = 0; tok < TOKENS; tok++) {
        s2_api_plan *plan;
        const int32_t one = 1, n_tok = tok + 1;
        put(cache, sequence, tok, &keys, &values);
        s2_api_plan_options options = {
            .size = sizeof options, .pass = S2_API_DECODING, .phase = S2_API_DECODE};
        options.head_dim = DIM;
        options.n_sequences = 1;
        options.q_tok = &one;
        options.k_tok = &n_tok;
        must(s2_api_plan_open(device, pattern, &options, &plan, &why), &why);
        s2_api_call call = {.size = sizeof call, .scale = 0.25f, .q = {q[tok], 0, HEADS * DIM, DIM}};
        call.k = (s2_api_tensor){keys, 0, DIM, 0};
        call.v = (s2_api_tensor){values, 0, DIM, 0};
        call.o = (s2_api_tensor){row, 0, HEADS * DIM, DIM};
        call.lse = (s2_api_rows){row_lse, 0, 1};
        call.cache = cache;
        call.sequences = &sequence;
        must(s2_api_plan_run(plan, &call, &why), &why);
        s2_api_plan_close(plan);
        for (int32_t at = 0; at < HEADS * DIM; at++)
            worst = fmax(worst, fabs((double)row[at / DIM][at % DIM] - (double)o[tok][at / DIM][at % DIM]));
    }
    free(keys);
    free(values);
    return worst;
}

static void tell(const s2_api_pattern *pattern)
{
    s2_api_error why;
    s2_api_verdict verdict;
    s2_api_price price = {.size = sizeof price};
    const s2_api_price_options options = {.size = sizeof options,
                                          .dtype = S2_API_BF16,
                                          .context_tok = 32768,
                                          .batch = 1,
                                          .page_tok = 16,
                                          .ranks = 1};
    must(s2_api_pattern_check(pattern, "rows,union,kv", 0, &verdict, NULL, &why), &why);
    must(s2_api_pattern_price(pattern, &options, &price, &why), &why);
    printf("rows, union and kv %s for every length; at 32k %.0f us on an H200, dense %.0f us\n",
           verdict == S2_API_HOLDS ? "hold" : "do not hold", price.time_us, price.dense_time_us);
}

int main(void)
{
    s2_api_error why;
    s2_api_pattern *pattern;
    s2_api_device *device;
    s2_api_cache *cache;
    int32_t sequence;
    s2_api_usage usage = {.size = sizeof usage};
    must(s2_api_pattern_open(text, sizeof text - 1, NULL, NULL, &pattern, &why), &why);
    tell(pattern);
    draw(&q[0][0][0], sizeof q / sizeof(float));
    draw(&k[0][0][0], sizeof k / sizeof(float));
    draw(&v[0][0][0], sizeof v / sizeof(float));
    must(s2_api_device_open("cpu", &device, &why), &why);
    must(s2_api_cache_open(pattern, NULL, &cache, &why), &why);
    must(s2_api_cache_sequence(cache, &sequence, &why), &why);
    prefill(device, pattern);
    const double worst = decode(device, pattern, cache, sequence);
    must(s2_api_cache_usage(cache, &usage, &why), &why);
    printf("%d tokens decoded; the cache holds %lld of %d keys; worst difference from the prefill %s\n",
           TOKENS, (long long)usage.slots, TOKENS * KV_HEADS, worst < 1e-5 ? "below 1e-5" : "TOO LARGE");
    s2_api_cache_close(cache);
    s2_api_device_close(device);
    s2_api_pattern_close(pattern);
    return worst < 1e-5 ? 0 : 1;
}
