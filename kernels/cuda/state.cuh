/*
 * kernels/cuda/state.cuh - how the state of a kernel is made and released: `prepare` and `finish` of its contract.
 *
 * C++ only.
 */
#ifndef S2_KERNELS_CUDA_STATE_CUH
#define S2_KERNELS_CUDA_STATE_CUH

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/internal.h"

/* Device memory of a state; NULL is none. */
template <class... Piece> void s2_cuda_free(Piece *...pieces)
{
    ((void)cudaFree(pieces), ...);
}

/* RELEASE(state) gives back what a state holds, whatever of it was made. */
template <class State, void (*RELEASE)(State *)> void s2_cuda_finish(s2_device *, void *raw)
{
    State *const state = (State *)raw;
    if (state == NULL)
        return;
    RELEASE(state);
    s2_free(state);
}

/* A zeroed state, filled by MAKE for a problem that SUPPORTS takes; nothing is left of one that MAKE failed to fill. */
template <class State, s2_status (*SUPPORTS)(const s2_device *, const s2_attn_problem *, s2_diag *),
          s2_status (*MAKE)(s2_device *, const s2_attn_problem *, State *, s2_diag *),
          void (*RELEASE)(State *)>
s2_status s2_cuda_prepare(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(SUPPORTS(device, problem, why));
    State *const state = (State *)s2_calloc(1, sizeof *state);
    if (state == NULL)
        return S2_ENOMEM;
    const s2_status status = MAKE(device, problem, state, why);
    if (status == S2_OK)
        *out = state;
    else
        s2_cuda_finish<State, RELEASE>(device, state);
    return status;
}

#endif /* S2_KERNELS_CUDA_STATE_CUH */
