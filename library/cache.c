#include "library/cache.h"

#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "base/clock.h"
#include "base/alloc.h"

_Static_assert((int)S2_API_CACHE_PAGES == (int)S2_CACHE_HEAD_PAGES &&
                   (int)S2_API_CACHE_RING == (int)S2_CACHE_RING &&
                   (int)S2_API_CACHE_SHARED == (int)S2_CACHE_SHARED_PAGES,
               "the layouts of s2.h are those of cache/cache.h");

bool s2_handle_has_sequence(const s2_api_cache *cache, int32_t sequence)
{
    return sequence >= 0 && sequence < cache->cap_states && cache->states[sequence] == S2_SEQUENCE_OPEN;
}

static s2_status read_options(const s2_pattern *pattern, const s2_api_cache_options *options,
                              s2_cache_options *out, s2_diag *diag)
{
    s2_api_cache_options in;
    *out = s2_cache_options_default(pattern);
    if (options == NULL)
        return S2_OK;
    if (!s2_struct_in(&in, sizeof in, options))
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0,
                           "options: its size is not that of any s2_api_cache_options");
    if (in.layout < 0 || in.layout >= (int32_t)S2_N_CACHE_LAYOUTS)
        return s2_diag_set(diag, S2_EINVAL, 0, 0, 0, "layout: no s2_api_cache_layout");
    out->layout = (s2_cache_layout)in.layout;
    out->page_tok = in.page_tok != 0 ? in.page_tok : out->page_tok;
    if (in.layer_begin != 0 || in.layer_end != 0) {
        out->layer_begin = in.layer_begin;
        out->layer_end = in.layer_end;
    }
    out->cap_pages = in.cap_pages;
    out->n_queries = in.step_tok;
    return S2_OK;
}

int s2_api_cache_open(const s2_api_pattern *pattern, const s2_api_cache_options *options, s2_api_cache **out,
                      s2_api_error *why)
{
    if (pattern == NULL || out == NULL)
        return s2_answer_argument(why, "%s is NULL", pattern == NULL ? "pattern" : "out");
    s2_diag diag = {0};
    s2_cache_options with;
    s2_status status = read_options(&pattern->pattern, options, &with, &diag);
    if (status != S2_OK)
        return s2_answer(status, &diag, why);
    s2_api_cache *const own = s2_calloc(1, sizeof *own);
    if (own == NULL)
        return s2_answer(S2_ENOMEM, &diag, why);
    own->pattern = s2_handle_hold(pattern);
    own->stamp = s2_steady_ns();
    own->layer_begin = with.layer_begin;
    own->layer_end = with.layer_end;
    own->step_tok = s2_max_i32(with.n_queries, 1);
    status = s2_cache_create(&own->pattern->pattern, &with, &own->cache, &diag);
    if (status == S2_OK)
        *out = own;
    else
        s2_api_cache_close(own);
    return s2_answer(status, &diag, why);
}

void s2_api_cache_close(s2_api_cache *cache)
{
    if (cache == NULL)
        return;
    s2_cache_destroy(&cache->cache);
    s2_api_pattern_close(cache->pattern);
    s2_free(cache->states);
    s2_free(cache->moves);
    s2_free(cache);
}

/* ------------------------------------------------------------------ sequences */

/* Sequence numbers are dense, so an array with one byte each holds their states. */
static s2_status note_open(s2_api_cache *cache, int32_t sequence)
{
    const int64_t before = cache->cap_states;
    if (sequence >= before) {
        S2_TRY(S2_RESERVE(cache->states, cache->cap_states, (int64_t)sequence + 1));
        memset(cache->states + before, S2_SEQUENCE_NONE, (size_t)(cache->cap_states - before));
    }
    cache->states[sequence] = S2_SEQUENCE_OPEN;
    return S2_OK;
}

static int give_sequence(s2_api_cache *cache, s2_status status, int32_t made, int32_t *out, s2_api_error *why)
{
    const s2_diag none = {0};
    if (status == S2_OK) {
        status = note_open(cache, made);
        if (status != S2_OK)
            s2_cache_close(cache->cache, made);
        else
            *out = made;
    }
    return s2_answer(status, &none, why);
}

static bool is_broken(const s2_api_cache *cache, int32_t sequence)
{
    return sequence >= 0 && sequence < cache->cap_states && cache->states[sequence] == S2_SEQUENCE_BROKEN;
}

/* NULL, or a message. */
static const char *sequence_fault(const s2_api_cache *cache, int32_t sequence)
{
    if (cache == NULL)
        return "cache is NULL";
    if (sequence < 0 || sequence >= cache->cap_states || cache->states[sequence] == S2_SEQUENCE_NONE)
        return "sequence: the cache has no such sequence";
    return is_broken(cache, sequence) ? "sequence: an append to it failed, so it can only be dropped" : NULL;
}

int s2_api_cache_sequence(s2_api_cache *cache, int32_t *sequence, s2_api_error *why)
{
    int32_t made = 0;
    if (cache == NULL || sequence == NULL)
        return s2_answer_argument(why, "%s is NULL", cache == NULL ? "cache" : "sequence");
    const s2_status status = s2_cache_open(cache->cache, &made);
    return give_sequence(cache, status, made, sequence, why);
}

int s2_api_cache_fork(s2_api_cache *cache, int32_t sequence, int32_t *out, s2_api_error *why)
{
    int32_t made = 0;
    const char *const fault = out == NULL ? "out is NULL" : sequence_fault(cache, sequence);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    const s2_status status = s2_cache_fork(cache->cache, sequence, &made);
    return give_sequence(cache, status, made, out, why);
}

int s2_api_cache_drop(s2_api_cache *cache, int32_t sequence, s2_api_error *why)
{
    const char *const fault = sequence_fault(cache, sequence);
    if (fault != NULL && (cache == NULL || !is_broken(cache, sequence)))
        return s2_answer_argument(why, "%s", fault);
    s2_cache_close(cache->cache, sequence);
    cache->states[sequence] = S2_SEQUENCE_NONE;
    return S2_API_OK;
}

/* ------------------------------------------------------------------ tokens */

static s2_status copy_moves(s2_api_cache *cache)
{
    int32_t n = 0;
    const s2_cache_move *const moves = s2_cache_moves(cache->cache, &n);
    cache->n_moves = 0;
    S2_TRY(S2_RESERVE(cache->moves, cache->cap_moves, n));
    for (; cache->n_moves < n; cache->n_moves++) {
        const s2_cache_move *const from = &moves[cache->n_moves];
        cache->moves[cache->n_moves] = (s2_api_move){from->from_slot, from->to_slot, from->n_slots};
    }
    return S2_OK;
}

int s2_api_cache_append(s2_api_cache *cache, int32_t sequence, int32_t n_tok, const s2_api_move **moves,
                        int32_t *n_moves, s2_api_error *why)
{
    const s2_diag none = {0};
    const char *const fault = sequence_fault(cache, sequence);
    if (fault != NULL || moves == NULL || n_moves == NULL)
        return s2_answer_argument(why, "%s", fault != NULL ? fault : "moves or n_moves is NULL");
    if (n_tok < 1 || n_tok > S2_LIMIT_CONTEXT_TOK - s2_cache_n_tok(cache->cache, sequence))
        return s2_answer_argument(why, "n_tok: at least one, and a sequence has at most %d tokens",
                                  S2_LIMIT_CONTEXT_TOK);
    s2_status status = s2_cache_append(cache->cache, sequence, n_tok);
    if (status == S2_OK)
        status = copy_moves(cache);
    if (status != S2_OK) {
        cache->states[sequence] = S2_SEQUENCE_BROKEN;
        return s2_answer(status, &none, why);
    }
    *moves = cache->moves;
    *n_moves = cache->n_moves;
    return S2_API_OK;
}

static const char *place_fault(const s2_api_cache *cache, int32_t layer, int32_t kv_head)
{
    if (layer < cache->layer_begin || layer >= cache->layer_end)
        return "layer: the cache does not hold it";
    if (kv_head < 0 || kv_head >= s2_pattern_kv_heads(&cache->pattern->pattern, layer))
        return "kv_head: the layer has no such KV head";
    return NULL;
}

int s2_api_cache_slots(const s2_api_cache *cache, int32_t sequence, int32_t layer, int32_t kv_head,
                       int64_t key_begin, int64_t key_end, int64_t *slots, s2_api_error *why)
{
    const char *fault = sequence_fault(cache, sequence);
    if (fault == NULL)
        fault = slots == NULL ? "slots is NULL" : place_fault(cache, layer, kv_head);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    if (key_begin < 0 || key_end < key_begin || key_end > s2_cache_n_tok(cache->cache, sequence))
        return s2_answer_argument(why, "key_begin, key_end: no range of keys of this sequence");
    for (int64_t key = key_begin; key < key_end; key++)
        slots[key - key_begin] = s2_cache_find(cache->cache, sequence, layer, kv_head, key);
    return S2_API_OK;
}

/* Slots of the last n_tok keys of one KV head; consecutive within a page, except in a ring. */
static void find_last(const s2_api_cache *cache, int32_t sequence, int32_t layer, int32_t kv_head,
                      int32_t n_tok, int64_t *slots)
{
    const int64_t end = s2_cache_n_tok(cache->cache, sequence), page_tok = s2_cache_page_tok(cache->cache);
    const bool ring = s2_cache_layout_of(cache->cache) == S2_CACHE_RING;
    for (int64_t key = end - n_tok; key < end; key++, slots++) {
        if (ring || key == end - n_tok || key % page_tok == 0)
            *slots = s2_cache_find(cache->cache, sequence, layer, kv_head, key);
        else
            *slots = slots[-1] < 0 ? -1 : slots[-1] + 1;
    }
}

static const char *places_fault(const s2_api_cache *cache, const int32_t *sequences, int32_t n_sequences,
                                int32_t layer_begin, int32_t layer_end, int32_t n_tok)
{
    if (cache == NULL || sequences == NULL || n_sequences < 1)
        return "cache or sequences is NULL, or there are none";
    if (layer_begin < cache->layer_begin || layer_end > cache->layer_end || layer_begin >= layer_end)
        return "layer_begin, layer_end: no range of layers that the cache holds";
    for (int32_t s = 0; s < n_sequences; s++) {
        const char *const fault = sequence_fault(cache, sequences[s]);
        if (fault != NULL)
            return fault;
        if (n_tok < 1 || n_tok > s2_cache_n_tok(cache->cache, sequences[s]))
            return "n_tok: a sequence has no such number of tokens";
    }
    return NULL;
}

int s2_api_cache_places(const s2_api_cache *cache, const int32_t *sequences, int32_t n_sequences,
                        int32_t layer_begin, int32_t layer_end, int32_t n_tok, int64_t *slots,
                        s2_api_error *why)
{
    const char *fault = places_fault(cache, sequences, n_sequences, layer_begin, layer_end, n_tok);
    fault = fault == NULL && slots == NULL ? "slots is NULL" : fault;
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    for (int32_t layer = layer_begin; layer < layer_end; layer++) {
        const int32_t n_kv = s2_pattern_kv_heads(&cache->pattern->pattern, layer);
        for (int32_t at = 0; at < n_sequences; at++)
            for (int32_t kv_head = 0; kv_head < n_kv; kv_head++, slots += n_tok)
                find_last(cache, sequences[at], layer, kv_head, n_tok, slots);
    }
    return S2_API_OK;
}

int s2_api_cache_tokens(const s2_api_cache *cache, int32_t sequence, int32_t *tokens, s2_api_error *why)
{
    const char *const fault = tokens == NULL ? "tokens is NULL" : sequence_fault(cache, sequence);
    if (fault != NULL)
        return s2_answer_argument(why, "%s", fault);
    *tokens = s2_cache_n_tok(cache->cache, sequence);
    return S2_API_OK;
}

int s2_api_cache_usage(const s2_api_cache *cache, s2_api_usage *usage, s2_api_error *why)
{
    if (cache == NULL)
        return s2_answer_argument(why, "cache is NULL");
    const s2_cache_usage use = s2_cache_use(cache->cache);
    const s2_api_usage own = {.page_slots = (int32_t)use.page_slots,
                              .pages = use.pages,
                              .peak_pages = use.peak_pages,
                              .pool_slots = use.pool_pages * use.page_slots,
                              .slots = use.slots};
    if (!s2_struct_out(usage, &own, sizeof own))
        return s2_answer_argument(why, "usage: NULL, or its size is not that of any s2_api_usage");
    return S2_API_OK;
}
