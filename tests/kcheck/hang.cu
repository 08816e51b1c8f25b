/* A GPU kernel that never ends, for kcheck --hang. */
#include "kernels/cuda/internal.h"
#include "tests/kcheck/sabotage.h"

namespace
{

__global__ void spin(volatile int *never)
{
    while (*never == 0) {
    }
}

s2_status supports(const s2_device *, const s2_attn_problem *, s2_diag *)
{
    return S2_OK;
}

s2_status prepare(s2_device *device, const s2_attn_problem *, void **state, s2_diag *why)
{
    const int zero = 0;
    return s2_cuda_upload(device, &zero, sizeof zero, state, why);
}

s2_status run(s2_device *device, const s2_attn_problem *, void *state, s2_diag *why)
{
    spin<<<1, 1, 0, s2_cuda_stream(device)>>>((int *)state);
    return s2_cuda_try(cudaGetLastError(), why);
}

void finish(s2_device *, void *state)
{
    (void)cudaFree(state);
}

s2_kernel_traits traits_of_hang()
{
    s2_kernel_traits traits = {};
    traits.name = "hang";
    traits.tile_tok = traits.key_tok = traits.wide_key_tok = 64;
    traits.pack_heads = 1;
    return traits;
}

} // namespace

static const s2_kernel_traits hang_traits = traits_of_hang();
extern "C" const s2_kernel s2_sabotage_hang = {&hang_traits, "never ends", S2_DEVICE_GPU, S2_TOL_EXACT, false,
                                               supports,     prepare,      run,           finish,       0,
                                               nullptr,      false,        false};
