/*
 * kernels/gradient.h - gradients of attention as the definition says, and what rounding alone does to them.
 *
 *     p_qk = exp(scale q . k - lse_q)    delta_q = dO_q . o_q    dS_qk = p_qk (dO_q . v_k - delta_q)
 *     dQ_q = scale sum_k dS_qk k         dK_k = scale sum_q dS_qk q         dV_k = sum_q p_qk dO_q
 *     dSink = - sum_q exp(sink - lse_q) delta_q
 *
 * A cap and sinks are those of kernels/kernel.h.
 *
 * lse_q and o_q are computed in fp64 from q, k and v, not taken from a forward: a gradient is judged as the
 * whole it is. Where that would cost too much the problem's own o and lse may stand in (`given`), for a
 * forward that has been judged by itself. Keys come from pattern/dense.h, one by one; no plan, no blocks.
 * Data pointers of the problem must be host addresses.
 *
 * Ownership: s2_gradient_close releases all. Threads: one gradient, one thread.
 */
#ifndef S2_KERNELS_GRADIENT_H
#define S2_KERNELS_GRADIENT_H

#include "kernels/oracle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a query row brings to every gradient. */
typedef struct s2_gradient_row {
    bool known;
    bool counts; /* the plan has an item for it */
    double lse, delta;
    float plain_lse, plain_delta; /* in the problem's precision */
    /* What rounding o can move delta: root of the sum of squares of dO_d o_d, with no |o_d| taken below the least
       normal number of the type, since below it the steps stay as they are. */
    double delta_noise;
} s2_gradient_row;

/* One row of dQ, or of dK or dV: the answer, the same in plain evaluation, and a scale for rounding. */
typedef struct s2_gradient_out {
    double *exact;
    double *plain;
    double *noise; /* root of the sum of squares of the rounded terms */
    double *size;  /* sum of the magnitudes of all that was added */
} s2_gradient_out;

typedef struct s2_gradient {
    const s2_attn_problem *problem;
    s2_tolerance tolerance;
    bool given;
    s2_gradient_row *rows; /* [seq][head][query] */
    int64_t *row_begin;    /* [seq] */
    double score_peak;     /* of the last row or key evaluated */
    s2_oracle_row oracle;
    s2_gradient_out out[2]; /* dQ, or dK and dV */
    double *scratch;        /* two rows of head_dim */
} s2_gradient;

/* Zero-initialise. S2_ENOMEM leaves it closed. */
s2_status s2_gradient_open(s2_gradient *gradient, const s2_attn_problem *problem, s2_tolerance tolerance,
                           bool given) S2_MUST_CHECK;
void s2_gradient_close(s2_gradient *gradient);

/* out[0] becomes dQ of one row. S2_ENOMEM. */
s2_status s2_gradient_of_query(s2_gradient *gradient, int32_t seq, int32_t q_tok, int32_t head) S2_MUST_CHECK;
/* out[0] becomes dK and out[1] dV of one key of a KV head: the sums over its query heads. S2_ENOMEM. */
s2_status s2_gradient_of_key(s2_gradient *gradient, int32_t seq, int32_t k_tok,
                             int32_t kv_head) S2_MUST_CHECK;
/* out[0] has in element 0 the gradient of the sink of a head: over the rows of the plan. S2_ENOMEM. */
s2_status s2_gradient_of_sink(s2_gradient *gradient, int32_t head) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_GRADIENT_H */
