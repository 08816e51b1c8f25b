/*
 * kernels/cuda/sm90_host.cuh - the host side that the Hopper kernels share: tensor maps and uploaded steps.
 *
 * C++ only. Device memory made here is released by the caller with cudaFree().
 */
#ifndef S2_KERNELS_CUDA_SM90_HOST_CUH
#define S2_KERNELS_CUDA_SM90_HOST_CUH

#include "kernels/cuda/internal.h"
#include "plan/steps.h"

/*
 * A tensor to be mapped, {d, token, head}. A box is 128 bytes of columns of box_rows tokens of one head; or, with
 * box_heads, {d, head, token}: of box_rows tokens of as many heads, whose rows lie side by side for each token.
 */
typedef struct s2_mapped {
    const s2_tensor *tensor;
    bool is_kv; /* k_tok tokens of n_kv_heads heads, else q_tok of n_heads */
    int32_t box_rows;
    int32_t box_heads = 0;
} s2_mapped;

/*
 * Maps of n tensors for each sequence, [seq][tensor], on the device: in new memory where *maps is NULL, else
 * a write to *maps is queued.
 */
s2_status s2_sm90_upload_maps(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                              int32_t n, void **maps, s2_diag *why);

/* Where the tensors of a problem were when its maps were written. */
typedef struct s2_sm90_where {
    const void *data[6];
    bool in_graph; /* a graph that is replayed writes its own maps */
} s2_sm90_where;
/* Whether maps must be written: the tensors have moved, or a graph wrote the maps or is being captured. */
bool s2_sm90_moves(const s2_device *device, const s2_attn_problem *problem, s2_sm90_where *where);

/* The steps of a plan on the device; bits is NULL where there are no masks. */
typedef struct s2_sm90_steps {
    void *items, *words, *list, *bits;
} s2_sm90_steps;

/* step_tok: keys of a whole step. rows_of: s2_step_item.rows of item `at` of the plan. */
typedef int32_t (*s2_sm90_rows_fn)(const s2_attn_problem *problem, int32_t at);
s2_status s2_sm90_upload_steps(s2_device *device, const s2_attn_problem *problem, int32_t step_tok,
                               s2_sm90_rows_fn rows_of, s2_sm90_steps *out, s2_diag *why);
void s2_sm90_release_steps(s2_sm90_steps *steps);

#endif /* S2_KERNELS_CUDA_SM90_HOST_CUH */
