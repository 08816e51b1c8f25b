/*
 * kernels/cuda/cap.cuh - soft-capped scores: cap * tanh(scale * s / cap).
 *
 * In powers of two, like everything before an exponential. tanh(y) = 1 - 2 / (1 + e^2y) has an absolute error
 * of 2^-22, which a score can tolerate; tanh.approx has 2^-11. A score of minus infinity becomes minus the
 * cap, so masks are applied afterwards.
 */
#ifndef S2_KERNELS_CUDA_CAP_CUH
#define S2_KERNELS_CUDA_CAP_CUH

#include "kernels/cuda/mma.cuh"
#include "kernels/kernel.h"

namespace s2
{

struct Cap {
    float slope; /* 2 * scale / cap, in powers of two */
    float top;   /* the cap, in powers of two; 0: no cap */
    S2_DEVICE float part(float s) const
    {
        return rcp_fast(1.f + exp2_fast(s * slope));
    }
    S2_DEVICE float of_part(float part) const
    {
        return fmaf(-2.f * top, part, top);
    }
    S2_DEVICE float operator()(float s) const
    {
        return of_part(part(s));
    }
    /* 1 - tanh^2: what the gradient of a capped score is multiplied by. */
    static S2_DEVICE float slope_of_part(float part)
    {
        return 4.f * part * (1.f - part);
    }
};

inline Cap cap_of(const s2_attn_problem *problem)
{
    if (!(problem->cap > 0.0f))
        return Cap{0.0f, 0.0f};
    return Cap{2.0f * problem->scale / problem->cap * LOG2_E, problem->cap * LOG2_E};
}
/* The factor that turns scores into exponents; a cap already includes it. */
inline float scale_log2_of(const s2_attn_problem *problem)
{
    return problem->cap > 0.0f ? 1.0f : problem->scale * LOG2_E;
}

} // namespace s2

#endif /* S2_KERNELS_CUDA_CAP_CUH */
