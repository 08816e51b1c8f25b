#include "tests/s2test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "cache/cache.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "sim/kv.h"
#include "tests/gen_spec.h"
#include "tests/s2gen.h"
#include "tests/s2parsed.h"

/* ------------------------------------------------------------------ set up */

static s2_cache *create_for(const s2_pattern *pattern, s2_cache_layout layout, int32_t page_tok,
                            int32_t n_queries)
{
    s2_cache_options options = s2_cache_options_default(pattern);
    s2_cache *cache = NULL;
    s2_diag why = {0};
    options.layout = layout;
    options.page_tok = page_tok;
    options.n_queries = n_queries;
    const s2_status status = s2_cache_create(pattern, &options, &cache, &why);
    if (status == S2_EUNSUPPORTED)
        return NULL;
    assert_int_equal(status, S2_OK);
    return cache;
}

static s2_cache *create(const s2_pattern *pattern, s2_cache_layout layout, int32_t page_tok)
{
    return create_for(pattern, layout, page_tok, 1);
}

static int64_t predicted(const s2_kv_elems *elems, int32_t head_dim, s2_cache_layout layout)
{
    switch (layout) {
    case S2_CACHE_HEAD_PAGES: return elems->head_pages / head_dim;
    case S2_CACHE_RING: return elems->ring_stripes / head_dim;
    case S2_CACHE_SHARED_PAGES: return elems->shared_pages / head_dim;
    case S2_N_CACHE_LAYOUTS: break;
    }
    return -1;
}

/* One pattern, token by token: after every token the cache holds what the simulator says. */
static int64_t follow(const s2_pattern *pattern, s2_cache_layout layout, int32_t page_tok, int64_t n_tok,
                      const char *what)
{
    s2_arena arena = {0};
    s2_classes classes;
    int32_t seq;
    s2_cache *cache = create(pattern, layout, page_tok);
    if (cache == NULL)
        return 0;
    assert_int_equal(s2_classes_build(&arena, pattern, S2_DECODE, &classes), S2_OK);
    assert_int_equal(s2_cache_open(cache, &seq), S2_OK);
    for (int64_t n = 1; n <= n_tok; n++) {
        s2_kv_elems elems;
        assert_int_equal(s2_cache_append(cache, seq, 1), S2_OK);
        assert_int_equal(s2_kv_count(&classes, n, page_tok, &elems), S2_OK);
        s2_kv_bytes bytes;
        assert_int_equal(s2_kv_elems_bytes(&elems, 2, 1, &bytes), S2_OK);
        const int64_t want = layout == S2_CACHE_HEAD_PAGES ? bytes.head_pages
                             : layout == S2_CACHE_RING     ? bytes.ring_stripes
                                                           : bytes.shared_pages;
        if (s2_cache_bytes(cache, S2_BF16) != want ||
            s2_cache_use(cache).slots != predicted(&elems, pattern->head_dim, layout))
            fail_msg("%s, %s of %d tokens: %lld slots at %lld tokens, predicted %lld", what,
                     s2_cache_layout_word(layout), page_tok, (long long)s2_cache_use(cache).slots,
                     (long long)n, (long long)predicted(&elems, pattern->head_dim, layout));
    }
    s2_cache_close(cache, seq);
    assert_int_equal(s2_cache_use(cache).pages, 0);
    s2_cache_destroy(&cache);
    s2_arena_release(&arena);
    return n_tok;
}

/* ------------------------------------------------------------------ against the simulator */

static void bytes_follow_the_simulator_at_every_token_of_drawn_patterns(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(7);
    const int64_t n_cases = s2_test_cases(400);
    static const int32_t pages[] = {1, 3, 4, 16, 64};
    int64_t n_steps = 0;
    for (int64_t number = 0; number < n_cases; number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true, .arithmetic = number % 3 == 0};
        s2_arena arena = {0};
        char what[60];
        const int32_t n_kv = (int32_t)s2_gen_in(&gen, 1, 3), group = (int32_t)s2_gen_in(&gen, 1, 4);
        const int32_t block = 1 << s2_gen_in(&gen, 0, 6);
        const s2_pattern *const pattern = s2_gen_pattern(&gen, &arena, n_kv * group, n_kv, 64, block);
        snprintf(what, sizeof what, "S2_SEED=%llu S2_CASES=1", (unsigned long long)(seed + (uint64_t)number));
        n_steps += follow(pattern, (s2_cache_layout)(number % S2_N_CACHE_LAYOUTS),
                          pages[s2_gen_in(&gen, 0, 4)], s2_gen_in(&gen, 1, 40) * block + 20, what);
        s2_arena_release(&arena);
    }
    printf("# s2: %lld steps of %lld patterns, bytes equal at each\n", (long long)n_steps,
           (long long)n_cases);
}

static void bytes_follow_the_simulator_on_every_term_layer_and_mask(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(70);
    const int64_t n_cases = s2_test_cases(200);
    for (int64_t number = 0; number < n_cases; number++) {
        s2_rng rng = {seed + (uint64_t)number};
        s2_arena arena = {0};
        const s2_gen_spec options = {.most_layers = 3, .most_heads = 8, .explicit_terms = true};
        const s2_pattern *const pattern = s2_gen_spec_pattern(&rng, &options, &arena);
        s2_buf text = {0};
        s2_buf_printf(&text, "S2_SEED=%llu S2_CASES=1: ", (unsigned long long)(seed + (uint64_t)number));
        s2_pattern_print(pattern, &text);
        follow(pattern, (s2_cache_layout)(number % S2_N_CACHE_LAYOUTS), 1 << s2_rng_below(&rng, 5), 150,
               text.data);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

#define PHI3_HEAD                                                                                            \
    "layers 2; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase head+1; layers 1: dense"
#define PHI3_KV "layers 2; heads 32; kv-heads 8; layers all: local 16 | stride 8 phase kv; layers 1: dense"

static void bytes_follow_the_simulator_through_long_generations(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int32_t page_tok;
        int64_t n_tok;
    } rows[] = {
        {PHI3_KV, 64, 6000},
        {PHI3_HEAD, 16, 3000},
        {"heads 4; kv-heads 2; block 16; layers all: sink 4t | local 1000t", 16, 5000},
        {"heads 4; kv-heads 4; block 64; layers all: local 8 | stride 16 phase head", 256, 6000},
        {"heads 4; kv-heads 1; block 32; layers all: local 2 | dilated 3 when distance 4..12", 32, 3000},
        {"heads 2; kv-heads 1; block 16; layers all: chunk 4 | columns 1,7", 8, 2500},
        {"heads 8; kv-heads 2; block 16; layers all: pages 8 page 16 | local 4", 16, 2000},
        {"heads 8; kv-heads 2; block 16; layers all: pages 8 page 16 when distance 0..20 | local 4", 16,
         2000},
        {"heads 4; kv-heads 2; block 16; heads all: local 2 | pages 4 page 16 when key 3..9; heads 0: local "
         "3 | "
         "pages 4 page 16 when distance 2..30 & key 40..60",
         4, 2000},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        for (int layout = 0; layout < S2_N_CACHE_LAYOUTS; layout++) {
            s2_arena arena = {0};
            s2_pattern pattern;
            pattern = s2_parsed(&arena, rows[at].text);
            follow(&pattern, (s2_cache_layout)layout, rows[at].page_tok,
                   s2_test_cases(1000) < 1000 ? rows[at].n_tok / 10 : rows[at].n_tok, rows[at].text);
            s2_arena_release(&arena);
        }
}

static void a_million_tokens_through_a_window_stay_small(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    pattern = s2_parsed(&arena, "layers 4; heads 8; kv-heads 4; block 64; layers all: sink 1 | local 16");
    s2_cache *cache = create(&pattern, S2_CACHE_HEAD_PAGES, 64);
    int32_t seq;
    assert_int_equal(s2_cache_open(cache, &seq), S2_OK);
    const clock_t begin = clock();
    for (int32_t n = 0; n < 1 << 20; n++)
        assert_int_equal(s2_cache_append(cache, seq, 1), S2_OK);
    printf("# s2: cache: 2^20 tokens through 16 tables: %.0f ms of one core\n",
           1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC);
    assert_int_equal(s2_cache_n_tok(cache, seq), 1 << 20);
    assert_int_equal(s2_cache_use(cache).pages, 4 * 4 * 17);
    assert_int_equal(s2_cache_use(cache).peak_pages, 4 * 4 * 17);
    assert_int_equal(s2_cache_use(cache).pool_pages, 4 * 4 * 17);
    s2_cache_destroy(&cache);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ the data */

/* A memory of slots that remembers which key of which sequence lies where, and two sequences at most four. */
enum { DATA_SLOTS = 1 << 16, DATA_SEQS = 4, DATA_TOK = 1024 };
typedef struct s2_data {
    const s2_pattern *pattern;
    s2_cache *cache;
    int64_t slot[DATA_SLOTS];
    int32_t seq[DATA_SEQS];
    int32_t n_tok[DATA_SEQS];
    int64_t id[DATA_SEQS][DATA_TOK]; /* what token a sequence has at each place */
    int32_t n_seqs;
    int32_t n_queries;
    int64_t next_id;
    char what[60];
} s2_data;

static int64_t content(const s2_data *data, int64_t id, int32_t layer, int32_t kv_head)
{
    return (id * data->pattern->n_layers + layer) * data->pattern->n_kv_heads + kv_head;
}

static void append(s2_data *data, int32_t which, int32_t n_new)
{
    const int32_t before = data->n_tok[which];
    int32_t n_moves;
    assert_int_equal(s2_cache_append(data->cache, data->seq[which], n_new), S2_OK);
    const s2_cache_move *const moves = s2_cache_moves(data->cache, &n_moves);
    for (int32_t at = 0; at < n_moves; at++)
        memmove(&data->slot[moves[at].to_slot], &data->slot[moves[at].from_slot],
                (size_t)moves[at].n_slots * sizeof *data->slot);
    data->n_tok[which] += n_new;
    for (int32_t k_tok = before; k_tok < data->n_tok[which]; k_tok++) {
        data->id[which][k_tok] = data->next_id++;
        for (int32_t layer = 0; layer < data->pattern->n_layers; layer++)
            for (int32_t kv = 0; kv < data->pattern->n_kv_heads; kv++) {
                const int64_t at = s2_cache_find(data->cache, data->seq[which], layer, kv, k_tok);
                if (at >= 0)
                    data->slot[at] = content(data, data->id[which][k_tok], layer, kv);
            }
    }
}

/* Whether one of the last queries reads the key, by the definition. */
static bool reads(const s2_data *data, int32_t layer, int32_t kv, int32_t n_tok, int32_t k_tok)
{
    const int32_t group = data->pattern->n_heads / data->pattern->n_kv_heads;
    const int32_t first = n_tok > data->n_queries ? n_tok - data->n_queries : 0;
    for (int32_t head = kv * group; head < (kv + 1) * group; head++)
        for (int32_t q_tok = first; q_tok < n_tok; q_tok++)
            if (s2_pattern_reads(data->pattern, S2_DECODE, layer, head, n_tok, q_tok, k_tok))
                return true;
    return false;
}

/* Every key that the newest query reads is where the cache says, unharmed. */
static void check_all(const s2_data *data)
{
    for (int32_t which = 0; which < data->n_seqs; which++)
        for (int32_t layer = 0; layer < data->pattern->n_layers; layer++)
            for (int32_t kv = 0; kv < data->pattern->n_kv_heads; kv++)
                for (int32_t k_tok = 0; k_tok < data->n_tok[which]; k_tok++) {
                    if (!reads(data, layer, kv, data->n_tok[which], k_tok))
                        continue;
                    const int64_t at = s2_cache_find(data->cache, data->seq[which], layer, kv, k_tok);
                    if (at < 0 || data->slot[at] != content(data, data->id[which][k_tok], layer, kv))
                        fail_msg("%s: sequence %d, layer %d, KV head %d, key %d at %d tokens: %s", data->what,
                                 which, layer, kv, k_tok, data->n_tok[which],
                                 at < 0 ? "dropped too early" : "overwritten");
                }
}

static void fork(s2_data *data, int32_t from)
{
    const int32_t to = data->n_seqs++;
    assert_int_equal(s2_cache_fork(data->cache, data->seq[from], &data->seq[to]), S2_OK);
    data->n_tok[to] = data->n_tok[from];
    memcpy(data->id[to], data->id[from], sizeof data->id[to]);
}

static void play(s2_data *data, s2_gen *gen)
{
    assert_int_equal(s2_cache_open(data->cache, &data->seq[0]), S2_OK);
    data->n_seqs = 1;
    for (int32_t step = 0; step < 120; step++) {
        const int32_t which = (int32_t)s2_gen_in(gen, 0, data->n_seqs - 1);
        const int32_t n_new = s2_gen_in(gen, 0, 9) == 0 ? (int32_t)s2_gen_in(gen, 2, 90) : 1;
        if (data->n_seqs < DATA_SEQS && s2_gen_in(gen, 0, 19) == 0 && data->n_tok[which] > 0)
            fork(data, which);
        if (data->n_tok[which] + n_new <= DATA_TOK)
            append(data, which, n_new);
        if (step % 8 == 0)
            check_all(data);
    }
    check_all(data);
    for (int32_t which = 0; which < data->n_seqs; which++)
        s2_cache_close(data->cache, data->seq[which]);
    assert_int_equal(s2_cache_use(data->cache).pages, 0);
}

static void no_key_that_a_query_reads_is_dropped_or_overwritten_also_after_forks(void **state)
{
    (void)state;
    const uint64_t seed = s2_test_seed(9);
    const int64_t n_cases = s2_test_cases(150);
    s2_data *const data = s2_malloc(sizeof *data);
    for (int64_t number = 0; number < n_cases; number++) {
        s2_gen gen = {.rng = {seed + (uint64_t)number}, .causal = true, .arithmetic = number % 3 == 0};
        s2_arena arena = {0};
        memset(data, 0, sizeof *data);
        const int32_t n_kv = (int32_t)s2_gen_in(&gen, 1, 2), group = (int32_t)s2_gen_in(&gen, 1, 3);
        data->pattern = s2_gen_pattern(&gen, &arena, n_kv * group, n_kv, 64, 1 << s2_gen_in(&gen, 0, 4));
        snprintf(data->what, sizeof data->what, "S2_SEED=%llu S2_CASES=1",
                 (unsigned long long)(seed + (uint64_t)number));
        data->n_queries = s2_gen_in(&gen, 0, 1) == 0 ? 1 : (int32_t)s2_gen_in(&gen, 2, 16);
        data->cache = create_for(data->pattern, (s2_cache_layout)(number % S2_N_CACHE_LAYOUTS),
                                 1 << s2_gen_in(&gen, 0, 5), data->n_queries);
        if (data->cache != NULL)
            play(data, &gen);
        s2_cache_destroy(&data->cache);
        s2_arena_release(&arena);
    }
    s2_free(data);
}

static void a_fork_costs_nothing_until_somebody_writes(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    pattern = s2_parsed(&arena, "heads 4; kv-heads 4; block 16; layers all: local 4 | stride 4 phase head");
    s2_cache *cache = create(&pattern, S2_CACHE_HEAD_PAGES, 16);
    int32_t seq, child, n_moves;
    assert_int_equal(s2_cache_open(cache, &seq), S2_OK);
    assert_int_equal(s2_cache_append(cache, seq, 1000), S2_OK);
    const int64_t alone = s2_cache_use(cache).pages;
    assert_int_equal(s2_cache_fork(cache, seq, &child), S2_OK);
    assert_int_equal(s2_cache_use(cache).pages, alone);
    assert_int_equal(s2_cache_append(cache, child, 1), S2_OK);
    s2_cache_moves(cache, &n_moves);
    assert_int_equal(n_moves, 4); /* the page of each KV head that token 1000 falls into */
    assert_int_equal(s2_cache_use(cache).pages, alone + 4);
    assert_int_equal(s2_cache_append(cache, seq, 1), S2_OK);
    s2_cache_moves(cache, &n_moves);
    assert_int_equal(n_moves, 0); /* the other one is its own again */
    s2_cache_close(cache, child);
    assert_int_equal(s2_cache_use(cache).pages, alone);
    s2_cache_destroy(&cache);
    s2_arena_release(&arena);
}

/* ------------------------------------------------------------------ refusals */

static void what_a_cache_cannot_know_is_refused_with_a_reason(void **state)
{
    (void)state;
    const struct {
        const char *text;
        s2_status status;
    } rows[] = {
        {"heads 2; layers all: heavy 64 | local 4", S2_EUNSUPPORTED},
        {"heads 2; layers all: topk 64", S2_EUNSUPPORTED},
        {"heads 2; causal no; layers all: local 4", S2_EUNSUPPORTED},
    };
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) {
        s2_arena arena = {0};
        s2_pattern pattern;
        s2_diag why = {0};
        s2_cache *cache = NULL;
        pattern = s2_parsed(&arena, rows[at].text);
        const s2_cache_options options = s2_cache_options_default(&pattern);
        assert_int_equal(s2_cache_create(&pattern, &options, &cache, &why), rows[at].status);
        assert_null(cache);
        assert_true(why.msg[0] != '\0');
        s2_arena_release(&arena);
    }
}

static void a_full_pool_says_so_and_the_sequence_can_be_closed(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_cache *cache = NULL;
    int32_t seq;
    pattern = s2_parsed(&arena, "heads 2; kv-heads 2; block 16; layers all: dense");
    s2_cache_options options = s2_cache_options_default(&pattern);
    options.cap_pages = 9;
    assert_int_equal(s2_cache_create(&pattern, &options, &cache, NULL), S2_OK);
    assert_int_equal(s2_cache_open(cache, &seq), S2_OK);
    assert_int_equal(s2_cache_append(cache, seq, 64), S2_OK);
    assert_int_equal(s2_cache_append(cache, seq, 1), S2_ENOMEM);
    s2_cache_close(cache, seq);
    assert_int_equal(s2_cache_use(cache).pages, 0);
    assert_int_equal(s2_cache_use(cache).peak_pages, 9);
    s2_cache_destroy(&cache);
    s2_arena_release(&arena);
}

static s2_status live_a_little(const s2_pattern *pattern)
{
    s2_cache *cache = NULL;
    int32_t seq, child;
    const s2_cache_options options = {.layout = S2_CACHE_RING, .page_tok = 8, .layer_end = 1};
    s2_status status = s2_cache_create(pattern, &options, &cache, NULL);
    if (status == S2_OK)
        status = s2_cache_open(cache, &seq);
    if (status == S2_OK)
        status = s2_cache_append(cache, seq, 100);
    if (status == S2_OK)
        status = s2_cache_fork(cache, seq, &child);
    if (status == S2_OK)
        status = s2_cache_append(cache, child, 50);
    s2_cache_destroy(&cache);
    return status;
}

static void every_allocation_may_fail_and_nothing_leaks(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern;
    pattern = s2_parsed(&arena, "heads 2; kv-heads 2; block 16; layers all: local 2 | stride 3");
    s2_status status = S2_ENOMEM;
    int64_t n = 0;
    for (; status != S2_OK; n++) {
        int64_t left = n;
        s2_alloc_set_hook(s2_test_fail_one, &left);
        status = live_a_little(&pattern);
        s2_alloc_set_hook(NULL, NULL);
        assert_true(status == S2_OK || status == S2_ENOMEM);
        assert_true(n < 1000);
    }
    assert_true(n > 10);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_follow_the_simulator_at_every_token_of_drawn_patterns),
        cmocka_unit_test(bytes_follow_the_simulator_on_every_term_layer_and_mask),
        cmocka_unit_test(bytes_follow_the_simulator_through_long_generations),
        cmocka_unit_test(a_million_tokens_through_a_window_stay_small),
        cmocka_unit_test(no_key_that_a_query_reads_is_dropped_or_overwritten_also_after_forks),
        cmocka_unit_test(a_fork_costs_nothing_until_somebody_writes),
        cmocka_unit_test(what_a_cache_cannot_know_is_refused_with_a_reason),
        cmocka_unit_test(a_full_pool_says_so_and_the_sequence_can_be_closed),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
