#include "judge/generation.h"

#include "judge/harness.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/float16.h"

enum { STAGE = S2_GENERATION_STAGE_TOK, LIMIT_PAIRS = 4096 };

s2_cache_options s2_generation_cache_options(const s2_validate_request *request)
{
    s2_cache_options options = s2_cache_options_default(request->pattern);
    options.layout = request->layout;
    options.layer_begin = request->layer;
    options.layer_end = request->layer + 1;
    if (request->page_tok > 0)
        options.page_tok = request->page_tok;
    for (int32_t seq = 0; seq < request->n_seqs; seq++)
        if (request->seqs[seq].q_tok > options.n_queries)
            options.n_queries = request->seqs[seq].q_tok;
    return options;
}

/* ------------------------------------------------------------------ life */

static s2_dtype stored_type(const s2_generation *gen)
{
    return gen->request->e4m3 ? S2_F8 : gen->request->dtype;
}

/* Tokens before they become e4m3, and the scales that they do so with. */
static s2_status allocate_plain(s2_generation *gen, int64_t n)
{
    const int32_t n_kv = gen->request->pattern->n_kv_heads;
    const size_t elem = (size_t)s2_dtype_bytes(gen->request->dtype), n_bytes = (size_t)n_kv * sizeof(float);
    s2_device *const device = gen->device;
    gen->plain_k = s2_calloc((size_t)n, elem);
    gen->plain_v = s2_calloc((size_t)n, elem);
    gen->host_k_scale = s2_malloc(n_bytes);
    gen->host_v_scale = s2_malloc(n_bytes);
    if (gen->plain_k == NULL || gen->plain_v == NULL || gen->host_k_scale == NULL ||
        gen->host_v_scale == NULL)
        return S2_ENOMEM;
    s2_harness_scales(n_kv, S2_HARNESS_UNIT, S2_HARNESS_UNIT, gen->host_k_scale, gen->host_v_scale);
    S2_TRY(device->ops->alloc(device, n_bytes, &gen->k_scale));
    S2_TRY(device->ops->alloc(device, n_bytes, &gen->v_scale));
    S2_TRY(device->ops->copy_in(device, gen->k_scale, gen->host_k_scale, n_bytes));
    return device->ops->copy_in(device, gen->v_scale, gen->host_v_scale, n_bytes);
}

static s2_status allocate_host(s2_generation *gen)
{
    const int64_t n = gen->cap_tok * gen->n_seqs * gen->row_elems;
    int64_t n_bytes;
    if (!s2_mul_i64(gen->cap_tok * gen->n_seqs, gen->row_elems * (int64_t)sizeof(float), &n_bytes))
        return S2_ENOMEM;
    n_bytes = n * s2_dtype_bytes(stored_type(gen));
    if (gen->request->e4m3)
        S2_TRY(allocate_plain(gen, n));
    gen->host_k = s2_malloc((size_t)n_bytes);
    gen->host_v = s2_malloc((size_t)n_bytes);
    gen->pairs = s2_malloc(2 * LIMIT_PAIRS * sizeof *gen->pairs);
    gen->seqs = S2_NEW(&gen->arena, int32_t, gen->n_seqs);
    return gen->host_k != NULL && gen->host_v != NULL && gen->pairs != NULL && gen->seqs != NULL ? S2_OK
                                                                                                 : S2_ENOMEM;
}

static int64_t memory_used(s2_device *device)
{
    return device->ops->memory_used != NULL ? device->ops->memory_used(device) : -1;
}

static s2_status allocate_device(s2_generation *gen, int64_t pool_pages)
{
    const s2_device_ops *const ops = gen->device->ops;
    const int64_t elem = s2_dtype_bytes(stored_type(gen));
    const size_t stage = (size_t)(STAGE * gen->row_elems * s2_dtype_bytes(gen->request->dtype));
    const int64_t slots = pool_pages * s2_cache_use(gen->cache).page_slots;
    const size_t pool = (size_t)(slots * gen->request->pattern->head_dim * elem);
    S2_TRY(ops->alloc(gen->device, stage, &gen->stage_k));
    S2_TRY(ops->alloc(gen->device, stage, &gen->stage_v));
    gen->idle_bytes = memory_used(gen->device);
    S2_TRY(ops->alloc(gen->device, pool, &gen->pool_k));
    S2_TRY(ops->alloc(gen->device, pool, &gen->pool_v));
    gen->pool_bytes = 2 * (int64_t)pool;
    S2_TRY(ops->fill(gen->device, gen->pool_k, 0xff, pool));
    return ops->fill(gen->device, gen->pool_v, 0xff, pool);
}

s2_status s2_generation_open(s2_generation *gen, s2_device *device, const s2_validate_request *request,
                             int64_t cap_tok, int64_t pool_pages, s2_diag *why)
{
    const s2_pattern *const pattern = request->pattern;
    *gen = (s2_generation){.device = device,
                           .request = request,
                           .n_seqs = request->n_seqs,
                           .row_elems = (int64_t)pattern->n_kv_heads * pattern->head_dim,
                           .cap_tok = cap_tok,
                           .idle_bytes = -1,
                           .cap_pairs = LIMIT_PAIRS};
    s2_cache_options options = s2_generation_cache_options(request);
    options.cap_pages = pool_pages;
    S2_TRY(s2_cache_create(pattern, &options, &gen->cache, why));
    S2_TRY(allocate_host(gen));
    S2_TRY(allocate_device(gen, pool_pages));
    for (int32_t index = 0; index < gen->n_seqs; index++)
        S2_TRY(s2_cache_open(gen->cache, &gen->seqs[index]));
    return S2_OK;
}

void s2_generation_close(s2_generation *gen)
{
    void *const memory[] = {gen->stage_k, gen->stage_v, gen->pool_k, gen->pool_v, gen->k_scale, gen->v_scale};
    for (size_t at = 0; gen->device != NULL && at < sizeof memory / sizeof *memory; at++)
        gen->device->ops->release(gen->device, memory[at]);
    s2_cache_destroy(&gen->cache);
    s2_free(gen->host_k);
    s2_free(gen->host_v);
    s2_free(gen->plain_k);
    s2_free(gen->plain_v);
    s2_free(gen->host_k_scale);
    s2_free(gen->host_v_scale);
    s2_free(gen->pairs);
    s2_arena_release(&gen->arena);
    *gen = (s2_generation){0};
}

/* ------------------------------------------------------------------ row copies */

/* Tokens that come from the stage become e4m3 on their way; what is in the pools already is copied. */
static s2_status store_pairs(s2_generation *gen, int32_t n)
{
    const s2_pattern *const pattern = gen->request->pattern;
    const s2_device_ops *const ops = gen->device->ops;
    const s2_dtype dtype = gen->request->dtype;
    S2_TRY(ops->store_e4m3(gen->device, gen->pool_k, gen->stage_k, dtype, pattern->head_dim, gen->k_scale,
                           pattern->n_kv_heads, gen->pairs, n));
    return ops->store_e4m3(gen->device, gen->pool_v, gen->stage_v, dtype, pattern->head_dim, gen->v_scale,
                           pattern->n_kv_heads, gen->pairs, n);
}

static s2_status flush_pairs(s2_generation *gen, const void *from_k, const void *from_v)
{
    const size_t row = (size_t)gen->request->pattern->head_dim * (size_t)s2_dtype_bytes(stored_type(gen));
    const s2_device_ops *const ops = gen->device->ops;
    const int32_t n = gen->n_pairs;
    gen->n_pairs = 0;
    if (n == 0)
        return S2_OK;
    if (gen->request->e4m3 && from_k == gen->stage_k)
        return store_pairs(gen, n);
    S2_TRY(ops->copy_rows(gen->device, gen->pool_k, from_k, row, gen->pairs, n));
    return ops->copy_rows(gen->device, gen->pool_v, from_v, row, gen->pairs, n);
}

static s2_status add_pair(s2_generation *gen, const void *from_k, const void *from_v, int64_t from,
                          int64_t to)
{
    if (gen->n_pairs == gen->cap_pairs)
        S2_TRY(flush_pairs(gen, from_k, from_v));
    gen->pairs[2 * gen->n_pairs] = from;
    gen->pairs[2 * gen->n_pairs + 1] = to;
    gen->n_pairs++;
    return S2_OK;
}

/* One after the other: a page may be emptied by one move and filled by the next. */
static s2_status carry_out_moves(s2_generation *gen)
{
    int32_t n_moves;
    const s2_cache_move *const moves = s2_cache_moves(gen->cache, &n_moves);
    for (int32_t nth = 0; nth < n_moves; nth++) {
        for (int32_t slot = 0; slot < moves[nth].n_slots; slot++)
            S2_TRY(add_pair(gen, gen->pool_k, gen->pool_v, moves[nth].from_slot + slot,
                            moves[nth].to_slot + slot));
        S2_TRY(flush_pairs(gen, gen->pool_k, gen->pool_v));
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ tokens */

static uint64_t stage_seed(const s2_generation *gen, int32_t index, int64_t begin, bool of_v)
{
    const uint64_t which = (uint64_t)gen->stream * (uint64_t)gen->n_seqs + (uint64_t)index;
    return (gen->request->seed * 64 + which) * UINT64_C(0x100000000) + (uint64_t)begin * 2 + of_v;
}

static s2_status load_stage(s2_generation *gen, int32_t index, int64_t begin)
{
    const s2_device_ops *const ops = gen->device->ops;
    const s2_dtype dtype = gen->request->dtype;
    const int64_t n = STAGE * gen->row_elems;
    S2_TRY(ops->fill_normal(gen->device, gen->stage_k, n, dtype, stage_seed(gen, index, begin, false), 1.0f));
    return ops->fill_normal(gen->device, gen->stage_v, n, dtype, stage_seed(gen, index, begin, true), 1.0f);
}

/* One number of a token on the host: as it is stored, and as it was. */
static void make_number(s2_generation *gen, int64_t to, float k, float v)
{
    const s2_dtype dtype = gen->request->dtype;
    if (!gen->request->e4m3) {
        s2_float_store(gen->host_k, dtype, to, k);
        s2_float_store(gen->host_v, dtype, to, v);
        return;
    }
    const int64_t kv_head = to / gen->request->pattern->head_dim % gen->request->pattern->n_kv_heads;
    s2_float_store(gen->plain_k, dtype, to, k);
    s2_float_store(gen->plain_v, dtype, to, v);
    s2_float_store(gen->host_k, S2_F8, to,
                   s2_float_load(gen->plain_k, dtype, to) / gen->host_k_scale[kv_head]);
    s2_float_store(gen->host_v, S2_F8, to,
                   s2_float_load(gen->plain_v, dtype, to) / gen->host_v_scale[kv_head]);
}

/* The host's copy of one token, as the device makes it. */
static void make_token(s2_generation *gen, int32_t index, int64_t k_tok)
{
    const int64_t begin = k_tok / STAGE * STAGE, from = (k_tok - begin) * gen->row_elems;
    const int64_t to = (index * gen->cap_tok + k_tok) * gen->row_elems;
    const uint64_t k_seed = stage_seed(gen, index, begin, false),
                   v_seed = stage_seed(gen, index, begin, true);
    for (int64_t nth = 0; nth < gen->row_elems; nth++)
        make_number(gen, to + nth, s2_input_value(k_seed, (uint64_t)(from + nth)),
                    s2_input_value(v_seed, (uint64_t)(from + nth)));
}

static s2_status store_token(s2_generation *gen, int32_t index, int64_t k_tok)
{
    const int32_t n_kv = gen->request->pattern->n_kv_heads;
    make_token(gen, index, k_tok);
    for (int32_t kv_head = 0; kv_head < n_kv; kv_head++) {
        const int64_t slot = s2_cache_find(gen->cache, gen->seqs[index], gen->request->layer, kv_head, k_tok);
        if (slot >= 0)
            S2_TRY(add_pair(gen, gen->stage_k, gen->stage_v, k_tok % STAGE * n_kv + kv_head, slot));
    }
    return S2_OK;
}

s2_status s2_generation_append(s2_generation *gen, int32_t index, int32_t n_tok, s2_diag *why)
{
    const int64_t before = s2_cache_n_tok(gen->cache, gen->seqs[index]);
    if (before + n_tok > gen->cap_tok)
        return S2_EINVAL;
    const s2_status status = s2_cache_append(gen->cache, gen->seqs[index], n_tok);
    if (status == S2_ENOMEM)
        return s2_diag_set(why, S2_ENOMEM, 0, 0, 0, "the pool is full after %lld tokens", (long long)before);
    S2_TRY(status);
    S2_TRY(carry_out_moves(gen));
    for (int64_t k_tok = before; k_tok < before + n_tok; k_tok++) {
        if (k_tok == before || k_tok % STAGE == 0) {
            S2_TRY(flush_pairs(gen, gen->stage_k, gen->stage_v));
            S2_TRY(load_stage(gen, index, k_tok / STAGE * STAGE));
        }
        S2_TRY(store_token(gen, index, k_tok));
    }
    return flush_pairs(gen, gen->stage_k, gen->stage_v);
}

s2_status s2_generation_fork(s2_generation *gen, int32_t index, int32_t *parent)
{
    int32_t child;
    S2_TRY(s2_cache_fork(gen->cache, gen->seqs[index], &child));
    *parent = gen->seqs[index];
    gen->seqs[index] = child;
    return S2_OK;
}
