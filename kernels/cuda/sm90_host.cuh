/*
 * kernels/cuda/sm90_host.cuh - the host side that the Hopper kernels share: tensor maps and uploaded steps.
 *
 * C++ only. Device memory made here is released by the caller with cudaFree().
 */
#ifndef S2_KERNELS_CUDA_SM90_HOST_CUH
#define S2_KERNELS_CUDA_SM90_HOST_CUH

#include <cuda.h>

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

/* What a kernel reads on the device of tensors that lie somewhere. */
typedef struct s2_sm90_place {
    const void *data[6]; /* where they lie: Q, K, V, O, dO, dQ */
    void *memory;        /* maps [seq][tensor], then [seq] where the rows of O begin */
} s2_sm90_place;

/*
 * The places of one problem. Tensors of an allocator that keeps what is freed come back to few places, so the last ones
 * are kept; a launch elsewhere writes the oldest anew. A graph is replayed whatever was launched since it was captured,
 * so it has a place that nobody writes again, until the release.
 */
enum { S2_SM90_PLACES = 8 };
typedef struct s2_sm90_places {
    s2_sm90_place
        kept[S2_SM90_PLACES]; /* in the memory of the first, which was written before all launches */
    int32_t n_kept, oldest;
    s2_sm90_place *captured;
    int64_t n_captured, captured_cap;
} s2_sm90_places;

/* What the next launch is given. */
typedef struct s2_sm90_found {
    const CUtensorMap *maps;
    uint8_t *const *o;
    bool moved; /* an earlier launch of the stream writes them */
} s2_sm90_found;

/* Finds, or makes, the place of a problem's tensors, with maps of n of them. */
s2_status s2_sm90_find_place(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                             int32_t n, s2_sm90_places *places, s2_sm90_found *out, s2_diag *why);
void s2_sm90_release_places(s2_sm90_places *places);

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
