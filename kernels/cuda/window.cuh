/*
 * kernels/cuda/window.cuh - what the kernels of short windows share on the host side.
 *
 * C++ only.
 */
#ifndef S2_KERNELS_CUDA_WINDOW_CUH
#define S2_KERNELS_CUDA_WINDOW_CUH

#include "kernels/cuda/internal.h"

/* Whether all heads of a planned problem read a short window and nothing else, and KV heads have enough of them. */
static inline s2_status s2_window_support(const s2_attn_problem *problem, s2_diag *why)
{
    if (!s2_plan_reads_window(problem->plan, S2_WINDOW_MOST_TOK))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "takes layers whose heads all read a window of up to %d tokens",
                           S2_WINDOW_MOST_TOK);
    if (problem->n_heads / problem->n_kv_heads % S2_WINDOW_HEADS != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes a multiple of %d query heads a KV head",
                           S2_WINDOW_HEADS);
    return S2_OK;
}

#endif /* S2_KERNELS_CUDA_WINDOW_CUH */
