/*
 * kernels/kernel.h - the contract between code that wants attention computed and kernels that compute it.
 *
 * Legend: H query heads, G KV heads (G divides H), Tq queries, Tk keys, D head dimension, B block tokens.
 *
 *     o[q][h]   = sum over keys k that head h reads from q of  softmax_k(scale * q . k) * v[k][kv(h)]
 *     lse[h][q] = ln of the softmax's denominator, natural logarithm
 *
 * Two things that some models add, both off by default:
 *   - cap > 0: a score is cap * tanh(scale * q . k / cap) instead of scale * q . k;
 *   - sinks: the softmax's denominator has one more term, exp(sink[h]), with no value. A sink of minus
 *     infinity has no effect. A row that reads no key has output 0 and LSE sink[h].
 *
 * Decoding may read keys and values of eight bits, e4m3 with a scale for each KV head. The numbers that they
 * stand for are then the k and v above: a kernel rounds no more than it would for the same numbers in dtype.
 * A forward may take queries of eight bits too, with a scale for each head; its products are of eight bits, so
 * it also rounds the softmax weights to e4m3 (S2_TOL_E4M3).
 *
 * Corners, defined here and tested for every kernel:
 *   - a row that reads no key: output 0, LSE minus infinity;
 *   - Tk need not be a multiple of anything: keys at or beyond Tk are never read;
 *   - Tq <= Tk: the queries are the LAST Tq positions of the sequence, for causality and blocks alike;
 *   - G < H: query head h reads KV head h / (H / G);
 *   - one token is a sequence;
 *   - a kernel writes the rows of the plan's items and nothing else.
 *
 * BACKWARD, for an incoming gradient dO and the o and lse of a forward (lse minus infinity: an empty row):
 *
 *     P = exp(scale * q . k - lse)      dS = P * (dO . v - dO . o)
 *     dQ[q] = scale * sum_k dS k        dK[k] = scale * sum_q dS q        dV[k] = sum_q P dO[q]
 *
 * With a cap, P is computed from the capped score x, and dS has the factor 1 - (x / cap)^2. With sinks
 *
 *     d_sink[h] = - sum_q exp(sink[h] - lse[h][q]) * (dO[q] . o[q])       over the rows of the plan's items
 *
 *   - dK and dV are sums over the query heads of the KV head, and only over the rows of the plan's items;
 *   - dK and dV of every key of every sequence are written: zeros where no row of the plan reads it;
 *   - dQ is written for the rows of the plan's items; an empty row has dQ 0.
 *
 * Adding a kernel is one file and one line in kernels/registry.c: docs/adding-a-kernel.md.
 */
#ifndef S2_KERNELS_KERNEL_H
#define S2_KERNELS_KERNEL_H

#include "cache/cache.h"
#include "kernels/device.h"
#include "plan/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * One tensor [seq][token][head][d] anywhere in device memory, distances in elements, d contiguous. In a
 * batch of unequal lengths seq is 0 and sequence s begins at token begin_tok[s].
 */
typedef struct s2_tensor {
    void *data;   /* 16-byte aligned */
    int64_t seq;  /* distance between sequences */
    int64_t tok;  /* ... between tokens of a sequence */
    int64_t head; /* ... between heads */
} s2_tensor;

/* fp32 [seq][head][token], tokens contiguous. */
typedef struct s2_rows {
    float *data;
    int64_t seq;
    int64_t head;
} s2_rows;

/* K and V in the slots of a cache: one of its sequences for each sequence of the problem. */
typedef struct s2_cached {
    const s2_cache *cache;
    const int32_t *seqs; /* n_seqs; each has the plan's k_tok tokens */
} s2_cached;

/*
 * Key blocks that were chosen at run time, in the device's memory: for each query block of each head a list in
 * any order. Key block b has positions [b, b + 1) * k_block_tok, query block b positions [b, b + 1) *
 * q_block_tok; the first one listed is that of the first query. A row reads the keys of the blocks that its
 * query block lists, those at or before its own position where the layer is causal. A number that is listed
 * twice counts once; one that names no block of the sequence counts nothing; a count below 0 is 0, one above
 * `most` is `most`. Lists may change from run to run.
 */
typedef struct s2_listed {
    const int32_t *counts;  /* [seq][head][q_blocks] */
    const int32_t *indices; /* [seq][head][q_blocks][most] */
    int32_t n_heads;        /* H, or G: then the query heads of a KV head share lists */
    int32_t q_blocks;       /* what the arrays have room for; blocks beyond it list nothing */
    int32_t most;           /* at least 1 */
    int32_t q_block_tok;    /* 16, 32, 64 or a multiple of 128 */
    int32_t k_block_tok;    /* the block of the pattern: a power of two, at least 16 */
} s2_listed;

typedef struct s2_attn_problem {
    s2_pass pass;
    s2_dtype dtype;             /* of q, k, v, o and the gradients; accumulation is the kernel's */
    bool e4m3;                  /* k and v are S2_F8 instead, FORWARD: q too; then the scales are set */
    const s2_plan *plan;        /* pattern, layer, sequences, tiles: cut with the kernel's own options */
    int32_t n_seqs;             /* = plan->n_seqs */
    int32_t n_heads;            /* H */
    int32_t n_kv_heads;         /* G */
    int32_t head_dim;           /* D */
    const int32_t *q_begin_tok; /* host, n_seqs + 1; NULL: all sequences have q[seq] strides */
    const int32_t *k_begin_tok; /* host, n_seqs + 1; NULL as above; both or neither */
    float scale;                /* of q . k; usually 1 / sqrt(D); any finite value */
    float cap;                  /* > 0: scores are capped; 0: they are not */
    bool sinks;                 /* then sink is set, and d_sink in BACKWARD; known before the plan */
    const float *sink;          /* [H], natural logarithm; below plus infinity; minus infinity: none */
    float *d_sink;              /* [H], BACKWARD: written */
    s2_tensor q;                /* H heads */
    s2_tensor k, v;             /* G heads; cached: the pools, of which only data and tok (a slot) count */
    const float *q_scale;       /* FORWARD: [H], as below */
    const float *k_scale;       /* [G], positive and finite: a key is its stored number times this */
    const float *v_scale;       /* [G], the same for values */
    const s2_cached *cached;    /* DECODING only, else NULL */
    bool early;                 /* DECODING: all but the last q_tok keys existed before the previous launch */
    int32_t select_pages;       /* DECODING: > 0: each KV head of a dense layer reads this many pages
                                (kernels/select.h) */
    int32_t select_page_tok;    /* ... of this many tokens */
    const s2_listed *listed;    /* FORWARD: what the rows of a dense layer read instead; NULL: all */
    s2_tensor o;                /* H heads: written by FORWARD and DECODING, read by BACKWARD */
    s2_rows lse;                /* like o */
    s2_tensor d_o;              /* BACKWARD only, like o: the incoming gradient, read */
    s2_tensor d_q, d_k, d_v;    /* BACKWARD only, like q, k, v: written */
} s2_attn_problem;

/* The type in which keys and values are stored, and that of queries. */
static inline s2_dtype s2_kv_dtype(const s2_attn_problem *problem)
{
    return problem->e4m3 ? S2_F8 : problem->dtype;
}
static inline s2_dtype s2_q_dtype(const s2_attn_problem *problem)
{
    return problem->e4m3 && problem->pass == S2_PASS_FORWARD ? S2_F8 : problem->dtype;
}

/* Token `tok` of sequence `seq` and head `head`, as an element offset from tensor->data. */
static inline int64_t s2_tensor_at(const s2_tensor *tensor, const int32_t *begin_tok, int32_t seq,
                                   int64_t tok, int32_t head)
{
    const int64_t from = begin_tok != NULL ? begin_tok[seq] : 0;
    return (begin_tok != NULL ? 0 : seq * tensor->seq) + (from + tok) * tensor->tok + head * tensor->head;
}
static inline int64_t s2_rows_at(const s2_rows *rows, const int32_t *begin_tok, int32_t seq, int64_t tok,
                                 int32_t head)
{
    const int64_t from = begin_tok != NULL ? begin_tok[seq] : 0;
    return (begin_tok != NULL ? 0 : seq * rows->seq) + head * rows->head + from + tok;
}

/*
 * How large a result's error may be (docs/numerics.md). EXACT kernels round once, at the end; ROUNDED_P
 * kernels also round the softmax weights to the storage type before the second product; ROUNDED_SUM kernels
 * add up the rounded weights, so that the LSE is theirs, and round the outputs of parts before joining them;
 * ROUNDED_S kernels also pass scores through the storage type and round twice before the exponential; E4M3
 * kernels round the weights to e4m3, and multiply e4m3 with the sums of a tensor core.
 */
typedef enum s2_tolerance {
    S2_TOL_EXACT,
    S2_TOL_ROUNDED_P,
    S2_TOL_ROUNDED_SUM,
    S2_TOL_ROUNDED_S,
    S2_TOL_E4M3
} s2_tolerance;

/* What a kernel computes beyond plain attention. It is never offered a problem that needs more. */
enum { S2_TAKES_CAP = 1, S2_TAKES_SINKS = 2, S2_TAKES_E4M3 = 4, S2_TAKES_LISTED = 8 };

/* Somebody else's kernel, in a process, and perhaps on a device, that this process does not drive. */
typedef struct s2_kernel_elsewhere {
    const char *versions; /* of what it runs on; "" unknown */
    bool on_gpu;          /* it computes on a GPU, wherever its problems come from */
    bool batch_invariant; /* promised: the same bits whatever else is in the batch */
    bool recomputes;      /* its backward runs a forward of its own, whatever o and lse it is given */
    /* Times at most n runs where they happen, since no timer here sees them start: *n_made of them, in ms. */
    s2_status (*time)(s2_device *device, const s2_attn_problem *problem, void *state, int32_t n, float *ms,
                      int32_t *n_made, s2_diag *why);
} s2_kernel_elsewhere;

typedef struct s2_kernel {
    const s2_kernel_traits *traits; /* its name, its rank, and how it wants its plan cut */
    const char *summary;            /* one sentence */
    s2_device_kind device;
    s2_tolerance tolerance;
    bool deterministic; /* the same inputs give the same bits, always */
    /*
     * S2_OK, or S2_EUNSUPPORTED with the reason in *why (may be NULL). Looks at shapes and plan, not at data.
     * Called through s2_kernel_supports, which has looked at `takes`.
     */
    s2_status (*supports)(const s2_device *device, const s2_attn_problem *problem, s2_diag *why);
    /* Upload the plan, allocate workspaces: everything that must not be timed. *state is the kernel's own. */
    s2_status (*prepare)(s2_device *device, const s2_attn_problem *problem, void **state, s2_diag *why);
    /*
     * Compute once, queued on the device (s2_device_ops.sync waits). The problem is the prepared one; its
     * data and the addresses of its tensors and rows may have changed, but not its strides: layers with the
     * same lists share one state. The queued work may be captured as a graph and run again for as long as the
     * state exists. May be called any number of times.
     */
    s2_status (*run)(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why);
    void (*finish)(s2_device *device, void *state); /* releases what prepare made; NULL state is allowed */
    uint32_t takes;                                 /* S2_TAKES_...; 0: plain attention only */
    const s2_kernel_elsewhere *elsewhere;           /* if it is somebody else's; NULL: it is of this build */
    bool no_lse;                                    /* it gives no log-sum-exp to judge */
    bool loads_all; /* keys of weight 0 may be loaded: they are poisoned with a large number, not with NaN */
} s2_kernel;

/* The registry: kernels in the order of kernels/registry.c; NULL past the end. */
const s2_kernel *s2_kernel_at(int32_t index);
/* By the name in its traits; NULL when there is none. */
const s2_kernel *s2_kernel_find(const char *name);

/* Whether a kernel takes a problem: `takes` must cover what it needs, then supports() decides. */
s2_status s2_kernel_supports(const s2_device *device, const s2_kernel *kernel, const s2_attn_problem *problem,
                             s2_diag *why) S2_MUST_CHECK;

/* Whether a kernel computes this pass at all: asked with a plain problem in every type. */
bool s2_kernel_takes_pass(const s2_device *device, const s2_kernel *kernel, s2_pass pass);

/*
 * S2_OK accepts the kernel; S2_EUNSUPPORTED with the reason has the next one tried; other statuses end it.
 */
typedef s2_status (*s2_kernel_take_fn)(void *user, const s2_kernel *kernel, s2_diag *why);
/*
 * Offer the kernels of this device to take(), highest rank first, or `only` where it is not NULL. What a
 * kernel supports may depend on a plan that is cut by its own options, so take() decides. On S2_EUNSUPPORTED
 * *why, empty before, has the reason of the best candidate that gave one.
 */
s2_status s2_kernel_choose(const s2_device *device, const s2_kernel *only, s2_kernel_take_fn take, void *user,
                           const s2_kernel **out, s2_diag *why) S2_MUST_CHECK;

/* What launch decisions need to know about a device. */
s2_chip s2_device_chip(const s2_device *device);

/*
 * What the traits of a GPU's kernel say of a problem on a device: chip, types and head dimension. S2_EUNSUPPORTED
 * with the reason in *why.
 */
s2_status s2_traits_support(const s2_kernel_traits *traits, const s2_device *device,
                            const s2_attn_problem *problem, s2_diag *why) S2_MUST_CHECK;

/* Whether a tensor's data is there and aligned to 16 bytes. */
bool s2_data_is_placed(const void *data);

/* S2_EINVAL where the problem's lists do not fit its plan; the two arrays are not looked at. */
s2_status s2_lists_check(const s2_attn_problem *problem, s2_diag *why) S2_MUST_CHECK;
/* The invariants of a problem that every kernel may rely on; S2_EINVAL with the reason in *why. */
s2_status s2_problem_check(const s2_attn_problem *problem, s2_diag *why) S2_MUST_CHECK;

extern const s2_kernel s2_kernel_ref_f64;
extern const s2_kernel s2_kernel_cpu;
extern const s2_kernel s2_kernel_cpu_decode;
extern const s2_kernel s2_kernel_cpu_bwd;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_KERNEL_H */
