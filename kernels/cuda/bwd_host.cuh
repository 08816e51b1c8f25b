/*
 * kernels/cuda/bwd_host.cuh - the host side that the backward kernels share.
 *
 * C++ only. Device memory made here is released by the caller with cudaFree().
 */
#ifndef S2_KERNELS_CUDA_BWD_HOST_CUH
#define S2_KERNELS_CUDA_BWD_HOST_CUH

#include "kernels/cuda/bwd.cuh"
#include "kernels/cuda/internal.h"
#include "plan/transpose.h"

/* Padded rows: those of all sequences and heads, and heads times the rows of the longest sequence. */
typedef struct s2_bwd_rows {
    int64_t all;
    int64_t longest;
} s2_bwd_rows;

s2_bwd_rows s2_bwd_count_rows(const s2_attn_problem *problem);
int64_t s2_bwd_first_row(const s2_attn_problem *problem, int32_t seq, int32_t head);

/* The sequences as the kernels see them. */
s2_status s2_bwd_upload_seqs(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why);

/* n zeroed bytes, at least one. */
s2_status s2_bwd_zeroed(s2_device *device, int64_t n_bytes, void **out, s2_diag *why);

static inline s2::BwdTensor s2_bwd_tensor(const s2_tensor *tensor)
{
    return s2::BwdTensor{(uint16_t *)tensor->data, tensor->tok, tensor->head};
}
s2::BwdRowParams s2_bwd_row_params(const s2_attn_problem *problem, const void *seqs, void *lse2, void *delta);
s2::BwdSinkParams s2_bwd_sink_params(const s2_attn_problem *problem, const void *seqs, const void *tiles,
                                     const void *lse2, const void *delta);

/*
 * The plan in both directions on the device: tiles, on request with words (and word_masks where patterns are
 * exact to the token); columns with blocks and steps (with step_masks, and turns when cut in order); the bits
 * of both masks. What is absent is NULL.
 */
typedef struct s2_bwd_lists {
    void *tiles, *words, *word_masks, *bits;
    void *columns, *blocks, *steps, *step_masks, *turns;
    int32_t n_columns;
    int32_t n_chains;
} s2_bwd_lists;
s2_status s2_bwd_upload_lists(s2_device *device, const s2_attn_problem *problem,
                              const s2_plan_column_options *cut, bool words, s2_bwd_lists *out, s2_diag *why);
void s2_bwd_release_lists(s2_bwd_lists *lists);

int32_t s2_bwd_log2(int32_t power);

/* What every backward kernel here requires of a problem; the reason in *why. */
s2_status s2_bwd_supports(const s2_attn_problem *problem, s2_diag *why);

#endif /* S2_KERNELS_CUDA_BWD_HOST_CUH */
