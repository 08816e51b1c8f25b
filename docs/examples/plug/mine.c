/*
 * A kernel of your own under the judge: build it as a shared object, with one header and nothing else of s2.
 *
 *     cc -std=c11 -O2 -shared -fPIC -I/usr/local/include docs/examples/plug/mine.c -o mine.so -lm
 *     s2 validate 'heads 4; block 16; layers all: local 2 | stride 3 phase head' --device cpu --len 256 --kernel ./mine.so
 *
 * This one reads keys one by one, in f32 and bf16. Faults that people have shipped can be built in to see them
 * convicted: -DCORNER aligns the queries to the first keys instead of the last, -DLATE moves a stride by a block,
 * -DDENSE drops the mask, -DPADDED reads on to the end of a block of 16 keys, -DGROUPED takes the wrong KV head, -DBEYOND writes before the output, -DCRASH and -DHANG
 * do what they say, -DBESIDE other bits in a batch than alone, -DLOG2 gives the LSE in base 2, -DVARIES other bits in each run, -DONCE counts one head of a group
 * in the gradients of K and V, and -DREADS=EXPRESSION asks anything in place of the pattern.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <s2_kernel_plug.h>

enum { LIMIT_DIM = 256 };

static float bf16_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

/* To nearest, ties to even. */
static uint16_t bf16_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float get(const s2_plug_problem *p, const s2_plug_tensor *t, int64_t at)
{
    return p->dtype == S2_PLUG_F32 ? ((const float *)t->data)[at]
                                   : bf16_to_float(((const uint16_t *)t->data)[at]);
}

static void put(const s2_plug_problem *p, const s2_plug_tensor *t, int64_t at, float x)
{
    if (p->dtype == S2_PLUG_F32)
        ((float *)t->data)[at] = x;
    else
        ((uint16_t *)t->data)[at] = bf16_of_float(x);
}

static float *lse_of(const s2_plug_problem *p, int32_t seq, int32_t head, int64_t q)
{
    return &p->lse.data[(p->q_begin != NULL ? p->q_begin[seq] : seq * p->lse.seq) + head * p->lse.head + q];
}

/* Where a token of a sequence and head begins. */
static int64_t place(const s2_plug_tensor *t, const int32_t *begin, int32_t seq, int64_t tok, int32_t head)
{
    return (begin != NULL ? begin[seq] * t->tok : seq * t->seq) + tok * t->tok + head * t->head;
}

/* Keys that a row looks at: all that there are. */
static int64_t n_keys(const s2_plug_problem *p, int32_t seq)
{
#ifdef PADDED
    return (p->k_tok[seq] + 15) / 16 * 16;
#else
    return p->k_tok[seq];
#endif
}

static int reads(const s2_plug_problem *p, int32_t seq, int32_t head, int64_t q, int64_t k)
{
#if defined DENSE
    (void)head;
    return k <= p->k_tok[seq] - p->q_tok[seq] + q;
#elif defined LATE
    return k >= 16 && p->reads(p, seq, head, q, k - 16) && k <= p->k_tok[seq] - p->q_tok[seq] + q;
#elif defined CORNER
    return q >= k && p->reads(p, seq, head, q - (p->k_tok[seq] - p->q_tok[seq]), k);
#elif defined PADDED
    return k >= p->k_tok[seq] || p->reads(p, seq, head, q, k);
#elif defined READS
    const int64_t at = p->k_tok[seq] - p->q_tok[seq] + q;
    (void)head;
    (void)at;
    return READS;
#else
    return p->reads(p, seq, head, q, k);
#endif
}

static int32_t kv_head_of(const s2_plug_problem *p, int32_t head)
{
#ifdef GROUPED
    return head % p->n_kv_heads;
#else
    return head / (p->n_heads / p->n_kv_heads);
#endif
}

static void one_row(const s2_plug_problem *p, int32_t seq, int32_t head, int64_t q)
{
    const int32_t kv_head = kv_head_of(p, head);
    const int64_t q_at = place(&p->q, p->q_begin, seq, q, head),
                  o_at = place(&p->o, p->q_begin, seq, q, head);
    float out[LIMIT_DIM] = {0}, maximum = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n_keys(p, seq); k++) {
        if (!reads(p, seq, head, q, k))
            continue;
        const int64_t k_at = place(&p->k, p->k_begin, seq, k, kv_head);
        const int64_t v_at = place(&p->v, p->k_begin, seq, k, kv_head);
        float score = 0;
        for (int32_t d = 0; d < p->head_dim; d++)
            score += get(p, &p->q, q_at + d) * get(p, &p->k, k_at + d);
        score *= p->scale;
        const float higher = fmaxf(maximum, score), decay = sum > 0 ? expf(maximum - higher) : 0;
        const float weight = expf(score - higher);
        for (int32_t d = 0; d < p->head_dim; d++)
            out[d] = out[d] * decay + weight * get(p, &p->v, v_at + d);
        sum = sum * decay + weight;
        maximum = higher;
    }
    for (int32_t d = 0; d < p->head_dim; d++)
        put(p, &p->o, o_at + d, sum > 0 ? out[d] / sum : 0);
    *lse_of(p, seq, head, q) = sum > 0 ? maximum + logf(sum) : -INFINITY;
#ifdef LOG2
    *lse_of(p, seq, head, q) *= 1.442695f;
#endif
#ifdef BESIDE
    *lse_of(p, seq, head, q) += p->n_seqs > 1 ? 1e-6f : 0;
#endif
#ifdef VARIES
    *lse_of(p, seq, head, q) += (float)(clock() % 10) * 3e-7f;
#endif
}

/* d_q of a row, and what it adds to d_k and d_v of its KV head: sums of k_tok x head_dim floats. */
static void one_gradient(const s2_plug_problem *p, int32_t seq, int32_t head, int64_t q, float *d_k,
                         float *d_v)
{
    const int32_t kv_head = kv_head_of(p, head), dim = p->head_dim;
    const int64_t q_at = place(&p->q, p->q_begin, seq, q, head),
                  o_at = place(&p->o, p->q_begin, seq, q, head);
    const int64_t from = place(&p->d_o, p->q_begin, seq, q, head),
                  to = place(&p->d_q, p->q_begin, seq, q, head);
    float d_q[LIMIT_DIM] = {0}, delta = 0;
    for (int32_t d = 0; d < dim; d++)
        delta += get(p, &p->d_o, from + d) * get(p, &p->o, o_at + d);
    for (int64_t k = 0; k < p->k_tok[seq]; k++) {
        if (!reads(p, seq, head, q, k))
            continue;
        const int64_t k_at = place(&p->k, p->k_begin, seq, k, kv_head);
        const int64_t v_at = place(&p->v, p->k_begin, seq, k, kv_head);
        float score = 0, d_p = 0;
        for (int32_t d = 0; d < dim; d++) {
            score += get(p, &p->q, q_at + d) * get(p, &p->k, k_at + d);
            d_p += get(p, &p->d_o, from + d) * get(p, &p->v, v_at + d);
        }
        const float weight = expf(score * p->scale - *lse_of(p, seq, head, q)), d_s = weight * (d_p - delta);
        for (int32_t d = 0; d < dim; d++) {
            d_q[d] += p->scale * d_s * get(p, &p->k, k_at + d);
            d_k[k * dim + d] += p->scale * d_s * get(p, &p->q, q_at + d);
            d_v[k * dim + d] += weight * get(p, &p->d_o, from + d);
        }
    }
    for (int32_t d = 0; d < dim; d++)
        put(p, &p->d_q, to + d, d_q[d]);
}

static int is_counted(const s2_plug_problem *p, int32_t head, int32_t kv_head)
{
#ifdef ONCE
    if (head % (p->n_heads / p->n_kv_heads) != 0)
        return 0;
#endif
    return kv_head_of(p, head) == kv_head;
}

/* The sums over the heads of a group have one writer. */
static int one_group(const s2_plug_problem *p, int32_t seq, int32_t kv_head)
{
    const size_t n = (size_t)p->k_tok[seq] * (size_t)p->head_dim;
    float *const sums = calloc(2 * n, sizeof *sums);
    if (sums == NULL)
        return S2_PLUG_FAILED;
    for (int32_t head = 0; head < p->n_heads; head++)
        for (int64_t q = 0; is_counted(p, head, kv_head) && q < p->q_tok[seq]; q++)
            one_gradient(p, seq, head, q, sums, sums + n);
    for (int64_t k = 0; k < p->k_tok[seq]; k++)
        for (int32_t d = 0; d < p->head_dim; d++) {
            put(p, &p->d_k, place(&p->d_k, p->k_begin, seq, k, kv_head) + d, sums[k * p->head_dim + d]);
            put(p, &p->d_v, place(&p->d_v, p->k_begin, seq, k, kv_head) + d,
                sums[n + (size_t)(k * p->head_dim + d)]);
        }
    free(sums);
    return S2_PLUG_OK;
}

int s2_plug_version(void)
{
    return S2_PLUG_VERSION;
}

int s2_plug_forward(const s2_plug_problem *p)
{
    if (p->dtype == S2_PLUG_F16 || p->head_dim > LIMIT_DIM) {
        snprintf(p->error, (size_t)p->error_cap, "takes f32 and bf16, head dimensions up to %d", LIMIT_DIM);
        return S2_PLUG_UNSUPPORTED;
    }
#ifdef CRASH
    memset(NULL, 0, 1);
#endif
#ifdef HANG
    for (volatile int forever = 1; forever;) {
    }
#endif
#ifdef BEYOND
    ((uint8_t *)p->o.data)[-1] = 0;
#endif
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t head = 0; head < p->n_heads; head++)
            for (int64_t q = 0; q < p->q_tok[seq]; q++)
                one_row(p, seq, head, q);
    return S2_PLUG_OK;
}

int s2_plug_backward(const s2_plug_problem *p)
{
    if (p->dtype == S2_PLUG_F16 || p->head_dim > LIMIT_DIM)
        return S2_PLUG_UNSUPPORTED;
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t kv_head = 0; kv_head < p->n_kv_heads; kv_head++)
            if (one_group(p, seq, kv_head) != S2_PLUG_OK)
                return S2_PLUG_FAILED;
    return S2_PLUG_OK;
}

int s2_plug_decode(const s2_plug_problem *p)
{
    return s2_plug_forward(p);
}
