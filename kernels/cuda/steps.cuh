/*
 * kernels/cuda/steps.cuh - an item of plan/steps.h as it lies in shared memory: four 16-byte words.
 */
#ifndef S2_KERNELS_CUDA_STEPS_CUH
#define S2_KERNELS_CUDA_STEPS_CUH

#include "plan/steps.h"

#ifndef S2_DEVICE
#define S2_DEVICE __device__ __forceinline__
#endif

namespace s2
{

/* s2_step_block() of an item's third and fourth word. */
S2_DEVICE int whole_block(const int *list, int4 c, int4 d, int index)
{
    s2_step_item item;
    item.list_begin = c.y;
    item.n_list = c.z;
    item.n_run = c.w;
    item.run_begin = d.x;
    item.comb_begin = d.y;
    item.comb_period = d.z;
    item.comb_shift = (int16_t)(d.w & 0xFFFF);
    return s2_step_block(&item, list, index);
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_STEPS_CUH */
