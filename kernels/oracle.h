/*
 * kernels/oracle.h - one row of attention as defined, and what rounding alone would do to it.
 *
 * Keys come from pattern/dense.h, one by one; no plan, no blocks. Data pointers of the problem must be
 * host addresses.
 *
 * Threads: each call has its own s2_oracle_row.
 */
#ifndef S2_KERNELS_ORACLE_H
#define S2_KERNELS_ORACLE_H

#include "kernels/kernel.h"

/* Zero-initialise, reuse, release. o and rounded hold head_dim numbers. */
typedef struct s2_oracle_row {
    int32_t n_keys;  /* keys read */
    double *o;       /* fp64 */
    double lse;      /* fp64; -inf for an empty row */
    double *rounded; /* the same row evaluated in the problem's precision: fp32 sums, rounded storage */
    double rounded_lse;
    double sink;         /* of the head; -inf: none */
    double score_peak;   /* largest |scale * q . k|, before a cap; at least |sink| and the cap */
    double value_peak;   /* largest |v| read */
    double o_noise;      /* of kernels that round scores or sums, or multiply e4m3: a standard deviation */
    double weight_noise; /* of kernels that round weights; a standard deviation */
    double lse_noise;
    int32_t *keys;
    double *score;
    double *reach; /* of a score: scale times the sum of its products' magnitudes */
    double *weight;
    int32_t cap_keys;
    int32_t cap_dim;
} s2_oracle_row;
void s2_oracle_row_release(s2_oracle_row *row);

/*
 * Evaluate query q_tok (from 0 in its sequence) of a head. `tolerance` says whether the rounded
 * evaluation also rounds the softmax weights. S2_ENOMEM.
 */
s2_status s2_oracle_eval(const s2_attn_problem *problem, int32_t seq, int32_t q_tok, int32_t head,
                         s2_tolerance tolerance, s2_oracle_row *row) S2_MUST_CHECK;

/* How far a computed row is from the oracle's, and how far it may be (docs/numerics.md). */
typedef struct s2_row_error {
    double err; /* the largest absolute error in the output row; NaN when a number is NaN */
    double tol;
    double lse_err; /* of an empty row: 0 when its LSE is minus infinity, else infinite */
    double lse_tol;
} s2_row_error;
/* `o` is a host address; the row begins at element o_at. */
s2_row_error s2_oracle_compare(const s2_attn_problem *problem, const s2_oracle_row *row, const void *o,
                               int64_t o_at, double lse);

#endif /* S2_KERNELS_ORACLE_H */
