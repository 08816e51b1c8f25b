/*
 * A serving loop in small, over the cache that shrinks: two sequences are prefilled, go on token by token,
 * one is forked on the way, and all of them decode together with the kernel of this device. `make example`
 * builds and runs it; usage: serve [cpu|gpu].
 *
 * What a model would bring (queries, keys, values, of one layer) is drawn at random here. Every output is
 * compared with attention over all tokens that there ever were, so that a page given back too early cannot
 * hide: exit code 1 when one differs, 5 without the device.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "kernels/float16.h"
#include "kernels/kernel.h"
#include "pattern/dense.h"
#include "pattern/parse.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 64, LIMIT_SEQS = 3, LIMIT_TOK = 640, PREFILL_TOK = 200, STEPS = 300 };
#define PATTERN "heads 4; kv-heads 2; head-dim 64; block 16; layers all: sink 1 | local 4 | stride 4 phase kv"

typedef struct server {
    s2_arena arena;
    s2_pattern pattern;
    s2_device *device;
    const s2_kernel *kernel;
    s2_cache *cache;
    int32_t n_seqs;
    int32_t seqs[LIMIT_SEQS];
    void *k, *v, *q, *o, *lse; /* on the device; K and V have a row a slot */
    /* every key and value that there ever was, on the host, for the comparison: [seq][token][kv head][d] */
    float keys[LIMIT_SEQS][LIMIT_TOK][KV_HEADS][DIM], values[LIMIT_SEQS][LIMIT_TOK][KV_HEADS][DIM];
    float queries[LIMIT_SEQS][HEADS][DIM];
    uint64_t drawn;
    double worst;
    s2_diag why;
} server;

static float draw(server *s)
{
    return s2_round_to(S2_BF16, s2_input_value(7, s->drawn++));
}

static s2_status write_row(server *s, void *pool, int64_t slot, const float *row)
{
    uint16_t bits[DIM];
    for (int32_t d = 0; d < DIM; d++)
        s2_float_store(bits, S2_BF16, d, row[d]);
    return s->device->ops->copy_in(s->device, (uint8_t *)pool + slot * DIM * 2, bits, sizeof bits);
}

/* The cache says what to copy first (rings and shared pages do; head pages never). */
static s2_status carry_out_moves(server *s)
{
    int32_t n_moves;
    const s2_cache_move *const moves = s2_cache_moves(s->cache, &n_moves);
    for (int32_t at = 0; at < n_moves; at++)
        for (int64_t slot = 0; slot < moves[at].n_slots; slot++) {
            const int64_t pair[2] = {moves[at].from_slot + slot, moves[at].to_slot + slot};
            S2_TRY(s->device->ops->copy_rows(s->device, s->k, s->k, DIM * 2, pair, 1));
            S2_TRY(s->device->ops->copy_rows(s->device, s->v, s->v, DIM * 2, pair, 1));
        }
    return S2_OK;
}

/* n_tok more tokens: room for them, pages that nobody needs any more go back, keys and values where they
 * belong. */
static s2_status append(server *s, int32_t index, int32_t n_tok)
{
    const int32_t before = s2_cache_n_tok(s->cache, s->seqs[index]);
    S2_TRY(s2_cache_append(s->cache, s->seqs[index], n_tok));
    S2_TRY(carry_out_moves(s));
    for (int32_t k_tok = before; k_tok < before + n_tok; k_tok++)
        for (int32_t kv_head = 0; kv_head < KV_HEADS; kv_head++) {
            float *const key = s->keys[index][k_tok][kv_head], *const value =
                                                                   s->values[index][k_tok][kv_head];
            for (int32_t d = 0; d < DIM; d++) {
                key[d] = draw(s);
                value[d] = draw(s);
            }
            const int64_t slot = s2_cache_find(s->cache, s->seqs[index], 0, kv_head, k_tok);
            if (slot < 0) /* no later query reads it */
                continue;
            S2_TRY(write_row(s, s->k, slot, key));
            S2_TRY(write_row(s, s->v, slot, value));
        }
    return S2_OK;
}

/* The child shares every page; whoever writes first gets its own copy of it. */
static s2_status fork_sequence(server *s, int32_t index)
{
    memcpy(s->keys[s->n_seqs], s->keys[index], sizeof s->keys[index]);
    memcpy(s->values[s->n_seqs], s->values[index], sizeof s->values[index]);
    return s2_cache_fork(s->cache, s->seqs[index], &s->seqs[s->n_seqs++]);
}

/* ------------------------------------------------------------------ one step */

static s2_attn_problem problem_of(const server *s, const s2_plan *plan, const s2_cached *cached)
{
    return (s2_attn_problem){.pass = S2_PASS_DECODE,
                             .dtype = S2_BF16,
                             .plan = plan,
                             .n_seqs = s->n_seqs,
                             .n_heads = HEADS,
                             .n_kv_heads = KV_HEADS,
                             .head_dim = DIM,
                             .scale = 0.125f,
                             .q = {s->q, HEADS * DIM, HEADS * DIM, DIM},
                             .k = {s->k, 0, DIM, 0},
                             .v = {s->v, 0, DIM, 0},
                             .cached = cached,
                             .o = {s->o, HEADS * DIM, HEADS * DIM, DIM},
                             .lse = {s->lse, HEADS, 1}};
}

/* A plan says which slots are read; it is the same for all layers with this pattern, so a model makes one a
 * step. */
static s2_status decode(server *s, s2_arena *arena)
{
    s2_plan plan;
    s2_plan_seq lens[LIMIT_SEQS];
    void *state = NULL;
    const s2_cached cached = {s->cache, s->seqs};
    s2_attn_problem problem = problem_of(s, NULL, &cached);
    for (int32_t index = 0; index < s->n_seqs; index++)
        lens[index] = (s2_plan_seq){1, s2_cache_n_tok(s->cache, s->seqs[index])};
    const s2_plan_options options = s2_kernel_cut(s->kernel->traits, problem.head_dim);
    S2_TRY(s2_plan_build(arena, &s->pattern, S2_DECODE, 0, lens, s->n_seqs, &options, &plan, &s->why));
    problem.plan = &plan;
    S2_TRY(s->kernel->prepare(s->device, &problem, &state, &s->why));
    s2_status status = s->kernel->run(s->device, &problem, state, &s->why);
    if (status == S2_OK)
        status = s->device->ops->sync(s->device, &s->why);
    s->kernel->finish(s->device, state);
    return status;
}

static s2_status draw_queries(server *s)
{
    for (int32_t index = 0; index < s->n_seqs; index++)
        for (int32_t head = 0; head < HEADS; head++) {
            for (int32_t d = 0; d < DIM; d++)
                s->queries[index][head][d] = draw(s);
            S2_TRY(write_row(s, s->q, index * HEADS + head, s->queries[index][head]));
        }
    return S2_OK;
}

/* ------------------------------------------------------------------ the comparison */

/* Attention of one row by its definition, over all tokens. */
static void attend(const server *s, int32_t index, int32_t head, double *out)
{
    const int32_t n_tok = s2_cache_n_tok(s->cache, s->seqs[index]), kv_head = head / (HEADS / KV_HEADS);
    double sum = 0.0;
    memset(out, 0, DIM * sizeof *out);
    for (int32_t k_tok = 0; k_tok < n_tok; k_tok++) {
        double dot = 0.0;
        if (!s2_pattern_reads(&s->pattern, S2_DECODE, 0, head, n_tok, n_tok - 1, k_tok))
            continue;
        for (int32_t d = 0; d < DIM; d++)
            dot += (double)s->queries[index][head][d] * (double)s->keys[index][k_tok][kv_head][d];
        const double weight = exp(0.125 * dot);
        sum += weight;
        for (int32_t d = 0; d < DIM; d++)
            out[d] += weight * (double)s->values[index][k_tok][kv_head][d];
    }
    for (int32_t d = 0; d < DIM; d++)
        out[d] /= sum;
}

static s2_status compare(server *s)
{
    uint16_t got[LIMIT_SEQS][HEADS][DIM];
    const size_t n_bytes = (size_t)s->n_seqs * sizeof got[0];
    S2_TRY(s->device->ops->copy_out(s->device, got, s->o, n_bytes));
    for (int32_t index = 0; index < s->n_seqs; index++)
        for (int32_t head = 0; head < HEADS; head++) {
            double want[DIM];
            attend(s, index, head, want);
            for (int32_t d = 0; d < DIM; d++) {
                const double off = fabs(want[d] - (double)s2_float_load(got[index][head], S2_BF16, d));
                s->worst = off > s->worst || isnan(off) ? off : s->worst;
            }
        }
    return S2_OK;
}

/* ------------------------------------------------------------------ life */

/* A server sizes its pool by the memory that it has: cap_pages bounds it, and append says when it is full. */
static s2_status open_server(server *s, const char *device)
{
    S2_TRY(s2_pattern_parse(&s->arena, PATTERN, strlen(PATTERN), NULL, &s->pattern, &s->why));
    s2_cache_options options = s2_cache_options_default(&s->pattern);
    options.cap_pages = 256;
    S2_TRY(s2_cache_create(&s->pattern, &options, &s->cache, &s->why));
    S2_TRY(s2_device_open(device, &s->device, &s->why));
    s->kernel = s2_kernel_find(s->device->kind == S2_DEVICE_GPU ? "decode" : "cpu_decode");
    const size_t pool = (size_t)(options.cap_pages * s2_cache_use(s->cache).page_slots) * DIM * 2;
    const size_t rows = LIMIT_SEQS * HEADS * DIM * 2;
    const s2_device_ops *const ops = s->device->ops;
    S2_TRY(ops->alloc(s->device, pool, &s->k));
    S2_TRY(ops->alloc(s->device, pool, &s->v));
    S2_TRY(ops->alloc(s->device, rows, &s->q));
    S2_TRY(ops->alloc(s->device, rows, &s->o));
    return ops->alloc(s->device, LIMIT_SEQS * HEADS * sizeof(float), &s->lse);
}

static void close_server(server *s)
{
    void *const memory[] = {s->k, s->v, s->q, s->o, s->lse};
    for (size_t at = 0; s->device != NULL && at < sizeof memory / sizeof *memory; at++)
        s->device->ops->release(s->device, memory[at]);
    s2_device_close(&s->device);
    s2_cache_destroy(&s->cache);
    s2_arena_release(&s->arena);
}

static void tell(const server *s)
{
    int64_t dense = 0;
    for (int32_t index = 0; index < s->n_seqs; index++)
        dense += (int64_t)s2_cache_n_tok(s->cache, s->seqs[index]) * KV_HEADS * DIM * 2 * 2;
    printf("%d sequences of %d tokens and more: %lld bytes of keys and values, a dense cache has %lld; worst "
           "error %.4f\n",
           s->n_seqs, s2_cache_n_tok(s->cache, s->seqs[0]), (long long)s2_cache_bytes(s->cache, S2_BF16),
           (long long)dense, s->worst);
}

static s2_status step(server *s)
{
    s2_arena arena = {0};
    s2_status status = S2_OK;
    for (int32_t index = 0; index < s->n_seqs && status == S2_OK; index++)
        status = append(s, index, 1);
    if (status == S2_OK)
        status = draw_queries(s);
    if (status == S2_OK)
        status = decode(s, &arena);
    if (status == S2_OK)
        status = compare(s);
    s2_arena_release(&arena);
    return status;
}

static s2_status serve(server *s)
{
    for (; s->n_seqs < 2; s->n_seqs++) {
        S2_TRY(s2_cache_open(s->cache, &s->seqs[s->n_seqs]));
        S2_TRY(
            append(s, s->n_seqs, PREFILL_TOK + 77 * s->n_seqs)); /* a kernel's forward computes a prefill */
    }
    for (int32_t at = 0; at < STEPS; at++) {
        if (at == STEPS / 3)
            S2_TRY(fork_sequence(s, 1));
        S2_TRY(step(s));
        if (at % 100 == 99)
            tell(s);
    }
    return S2_OK;
}

int main(int argc, char **argv)
{
    server *const s = calloc(1, sizeof *s);
    if (s == NULL)
        return 5;
    s2_status status = open_server(s, argc > 1 ? argv[1] : "cpu");
    if (status == S2_OK)
        status = serve(s);
    if (status != S2_OK)
        fprintf(stderr, "serve: %s\n", s2_diag_text(&s->why, status));
    const int code = status != S2_OK ? 5 : s->worst < 0.02 ? 0 : 1;
    close_server(s);
    free(s);
    return code;
}
