/*
 * s2_kernel_plug.h - the plug between an attention kernel of your own and `s2 validate`.
 *
 *     s2 validate DESIGN --device cpu --len 1k --kernel ./mine.so
 *
 * A shared object exports s2_plug_version and any of s2_plug_forward, s2_plug_backward and s2_plug_decode.
 * Each call gets one problem in host memory and computes all rows of all heads:
 *
 *     o[q][h]   = sum over keys k that head h reads from q of  softmax_k(scale * q . k) * v[k][h / group]
 *     lse[h][q] = ln of the softmax's denominator;  a row that reads no key: o = 0, lse = minus infinity
 *     backward, from o, lse and d_o:  d_q, d_k and d_v; d_k and d_v are sums over the heads of a group, and
 *     every element of all three is written
 *
 * The queries of a sequence are the LAST q_tok of its k_tok positions: query q is at position k_tok - q_tok +
 * q. Keys at or beyond k_tok do not exist. Query head h reads KV head h / (n_heads / n_kv_heads). decode is a
 * forward with at most 16 queries per sequence.
 *
 * A call runs in a process of its own: it may crash, hang or leak, and anything that it writes outside the
 * outputs is noticed. Its output goes to stderr. This header needs no other; C and C++.
 */
#ifndef S2_KERNEL_PLUG_H
#define S2_KERNEL_PLUG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_PLUG_VERSION = 1 };
enum { S2_PLUG_F32, S2_PLUG_BF16, S2_PLUG_F16 };

/* [sequence][token][head][d], distances in elements, d contiguous. */
typedef struct s2_plug_tensor {
    void *data;
    int64_t seq;
    int64_t tok;
    int64_t head;
} s2_plug_tensor;

/* fp32 [sequence][head][token], tokens contiguous. */
typedef struct s2_plug_rows {
    float *data;
    int64_t seq;
    int64_t head;
} s2_plug_rows;

/* Block lists of one head: query block i reads keys of each of k_blk[row_begin[i] .. row_begin[i + 1]). */
typedef struct s2_plug_blocks {
    int32_t n_q_blk; /* blocks of absolute positions, from 0 */
    int32_t n_k_blk;
    const int64_t *row_begin; /* [n_q_blk + 1] */
    const int32_t *k_blk;     /* ascending in a row */
    const uint8_t *full;      /* 1: every pair of the block is read, except for causality */
} s2_plug_blocks;

typedef struct s2_plug_problem {
    int32_t dtype; /* S2_PLUG_F32, ...; of all tensors */
    int32_t n_seqs;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t causal; /* 1: no query reads a later key */
    float scale;
    const int32_t *q_tok; /* [n_seqs] */
    const int32_t *k_tok;
    const int32_t
        *q_begin; /* NULL: sequence s begins at s * seq of a tensor; else at token q_begin[s], seq is 0 */
    const int32_t *k_begin; /* ... for k, v, d_k and d_v; both or neither */
    s2_plug_tensor q, k, v, o;
    s2_plug_rows lse;
    s2_plug_tensor d_o, d_q, d_k, d_v; /* backward only */
    const char *pattern;               /* the whole design in s2's language */
    int32_t layer;                     /* which of its layers */
    /* 1: the head reads key k from query q of the sequence; 0: it does not. Any thread of the call may ask. */
    int (*reads)(const struct s2_plug_problem *problem, int32_t seq, int32_t head, int64_t q, int64_t k);
    /*
     * Returns 0 with *out filled for blocks of block_tok tokens; else that is no power of two, or memory is out. One
     * thread at a time; the lists are s2's and stay until the call returns.
     */
    int (*blocks)(const struct s2_plug_problem *problem, int32_t seq, int32_t head, int32_t block_tok,
                  s2_plug_blocks *out);
    const void *own; /* s2's */
    char *error;     /* room for error_cap bytes: why a call did not return S2_PLUG_OK */
    int32_t error_cap;
} s2_plug_problem;

enum {
    S2_PLUG_OK,
    S2_PLUG_UNSUPPORTED, /* this problem is not for this kernel: outcome "unsupported" */
    S2_PLUG_FAILED       /* outcome "launch_failed" */
};

/* What the shared object exports. */
int s2_plug_version(void); /* returns S2_PLUG_VERSION */
int s2_plug_forward(const s2_plug_problem *problem);
int s2_plug_backward(const s2_plug_problem *problem);
int s2_plug_decode(const s2_plug_problem *problem);
/*
 * Optional: what passes through the storage type, which is what values may be off by. "output" alone; the softmax's
 * "weights" too, which is taken where this is not exported; "sums": the rounded weights are what is added up, or
 * outputs of parts are rounded; "scores": all of these.
 */
const char *s2_plug_rounds(void);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNEL_PLUG_H */
