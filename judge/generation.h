/*
 * judge/generation.h - a generation on a device: K and V of one layer in a cache that evicts, token by
 * token.
 *
 *     tokens (host, all of them)   --stage-->  pools K[slot][d], V[slot][d] (device, what the cache holds)
 *
 * The host keeps every token, so that the oracle knows what a kernel should have read, although the cache has
 * long dropped most of it. Tokens are made with s2_input_value(), one stage at a time, with the same bits on
 * both sides.
 *
 * Ownership: open/close. Threads: as the device.
 */
#ifndef S2_JUDGE_GENERATION_H
#define S2_JUDGE_GENERATION_H

#include "judge/validate.h"

typedef struct s2_generation {
    s2_device *device;
    const s2_validate_request *request;
    s2_arena arena;
    s2_cache *cache;
    int32_t *seqs; /* n_seqs sequences of the cache */
    int32_t n_seqs;
    int64_t row_elems; /* K of one token: n_kv_heads * head_dim */
    int64_t cap_tok;   /* of the host's arrays, for each sequence */
    uint8_t *host_k;   /* [seq][cap_tok][n_kv_heads][head_dim], as they are stored */
    uint8_t *host_v;
    uint8_t *plain_k; /* of e4m3: the same before they were rounded to eight bits */
    uint8_t *plain_v;
    float *host_k_scale; /* of e4m3: [n_kv_heads] */
    float *host_v_scale;
    void *k_scale; /* ... and on the device */
    void *v_scale;
    void *stage_k; /* device: [S2_GENERATION_STAGE_TOK][n_kv_heads][head_dim] */
    void *stage_v;
    void *pool_k; /* device: [slot][head_dim] */
    void *pool_v;
    int64_t pool_bytes; /* of both */
    int64_t idle_bytes; /* in use on the device before the pools; -1: unknown */
    int32_t stream;     /* which tokens: a fork has others */
    int64_t *pairs;     /* row copies in preparation */
    int32_t n_pairs;
    int32_t cap_pairs;
} s2_generation;

enum { S2_GENERATION_STAGE_TOK = 256 };

/*
 * Pools with room for pool_pages pages of the cache, poisoned. S2_EUNSUPPORTED with the reason where a
 * cache cannot hold the pattern. The generation must be closed in any case.
 */
s2_status s2_generation_open(s2_generation *gen, s2_device *device, const s2_validate_request *request,
                             int64_t cap_tok, int64_t pool_pages, s2_diag *why) S2_MUST_CHECK;
void s2_generation_close(s2_generation *gen);

/* The cache's options for a request. */
s2_cache_options s2_generation_cache_options(const s2_validate_request *request);

/* Grow sequence number `index` by n_tok tokens: make room, move, and write their K and V. */
s2_status s2_generation_append(s2_generation *gen, int32_t index, int32_t n_tok, s2_diag *why) S2_MUST_CHECK;

/* Sequence `index` becomes a fork of itself; *parent is the number of the old one, the caller's to close. */
s2_status s2_generation_fork(s2_generation *gen, int32_t index, int32_t *parent) S2_MUST_CHECK;

#endif /* S2_JUDGE_GENERATION_H */
