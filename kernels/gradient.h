/*
 * kernels/gradient.h - gradients of attention as the definition says, and what rounding alone does to them.
 *
 *     p_qk = exp(scale q . k - lse_q)    delta_q = dO_q . o_q    dS_qk = p_qk (dO_q . v_k - delta_q)
 *     dQ_q = scale sum_k dS_qk k         dK_k = scale sum_q dS_qk q         dV_k = sum_q p_qk dO_q
 *     dSink = - sum_q exp(sink - lse_q) delta_q
 *
 * Caps and sinks are as in kernels/kernel.h.
 *
 * lse_q and o_q are computed in fp64 from q, k and v, not taken from a forward: a gradient is judged as a
 * whole. Where that would cost too much, the problem's own o and lse may stand in (`given`), if the forward
 * has been judged separately. Keys come from pattern/dense.h, one by one; no plan, no blocks. Data pointers
 * of the problem must be host addresses.
 *
 * Ownership: s2_gradient_close releases all. Threads: one gradient, one thread.
 */
#ifndef S2_KERNELS_GRADIENT_H
#define S2_KERNELS_GRADIENT_H

#include "kernels/oracle.h"

/* What a query row contributes to every gradient. */
typedef struct s2_gradient_row {
    bool known;
    bool counts; /* the plan has an item for it */
    double lse, delta;
    float plain_lse, plain_delta; /* in the problem's precision */
    /* How far rounding o can move delta: root of the sum of squares of dO_d o_d, with |o_d| counted as at
       least the type's least normal number: below that the spacing of numbers is constant. */
    double delta_noise;
} s2_gradient_row;

/* One row of dQ, or of dK or dV: the answer, the same evaluated plainly, and a scale for rounding. */
typedef struct s2_gradient_out {
    double *exact;
    double *plain;
    double *noise; /* root of the sum of squares of the rounded terms */
    double *size;  /* sum of the magnitudes of all terms */
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
/* Element 0 of out[0] becomes the gradient of a head's sink, summed over the plan's rows. S2_ENOMEM. */
s2_status s2_gradient_of_sink(s2_gradient *gradient, int32_t head) S2_MUST_CHECK;

#endif /* S2_KERNELS_GRADIENT_H */
