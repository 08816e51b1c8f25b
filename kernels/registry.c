#include "kernels/follow.h"

#include <string.h>

#if S2_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#endif

static const s2_kernel *const registry[] = {
    &s2_kernel_ref_f64,          &s2_kernel_cpu,         &s2_kernel_cpu_bwd,
    &s2_kernel_cpu_decode,
#if S2_HAVE_CUDA
    &s2_kernel_decode,           &s2_kernel_sm80,        &s2_kernel_sm90,
    &s2_kernel_sm90_e4m3,        &s2_kernel_sm80_bwd,    &s2_kernel_sm90_bwd,
    &s2_kernel_sm90_bwd_fused,   &s2_kernel_sm90_window, &s2_kernel_sm90_bwd_window,
    &s2_kernel_sm90_bwd_ordered,
#endif
};

enum { N_KERNELS = sizeof registry / sizeof *registry };

const s2_kernel *s2_kernel_at(int32_t index)
{
    return index >= 0 && index < N_KERNELS ? registry[index] : NULL;
}

const s2_kernel *s2_kernel_find(const char *name)
{
    for (int32_t at = 0; at < N_KERNELS; at++)
        if (strcmp(registry[at]->traits->name, name) == 0)
            return registry[at];
    return NULL;
}

s2_follow_fn s2_kernel_follow(const s2_kernel *kernel)
{
#if S2_HAVE_CUDA
    if (kernel == &s2_kernel_decode)
        return s2_cuda_decode_follow;
#endif
    return kernel == &s2_kernel_cpu_decode ? s2_cpu_decode_follow : NULL;
}

/* The kernel of this device with the highest rank below `rank`, or NULL. */
static const s2_kernel *next_best(const s2_device *device, int32_t rank)
{
    const s2_kernel *best = NULL;
    for (int32_t at = 0; at < N_KERNELS; at++)
        if (registry[at]->device == device->kind && registry[at]->traits->rank < rank &&
            (best == NULL || registry[at]->traits->rank > best->traits->rank))
            best = registry[at];
    return best;
}

s2_status s2_kernel_supports(const s2_device *device, const s2_kernel *kernel, const s2_attn_problem *problem,
                             s2_diag *why)
{
    if (problem->cap > 0.0f && (kernel->takes & S2_TAKES_CAP) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s caps no scores", kernel->traits->name);
    if (problem->sinks && (kernel->takes & S2_TAKES_SINKS) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s takes no sink logits", kernel->traits->name);
    if (problem->e4m3 && (kernel->takes & S2_TAKES_E4M3) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "%s reads no e4m3 keys", kernel->traits->name);
    if (problem->listed != NULL && (kernel->takes & S2_TAKES_LISTED) == 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "%s takes no lists of blocks in the device's memory", kernel->traits->name);
    return kernel->supports(device, problem, why);
}

bool s2_kernel_takes_pass(const s2_device *device, const s2_kernel *kernel, s2_pass pass)
{
    s2_attn_problem plain = {.pass = pass, .n_seqs = 1, .n_heads = 1, .n_kv_heads = 1, .scale = 1.0f};
    for (plain.dtype = S2_F32; plain.dtype < S2_N_DTYPES; plain.dtype++)
        for (int kind = 0; kind < 4; kind++) {
            plain.head_dim = kind / 2 == 0 ? 64 : 128; /* some take no small ones, others no large ones */
            plain.e4m3 = kind % 2 != 0;
            if (s2_kernel_supports(device, kernel, &plain, NULL) == S2_OK)
                return true;
        }
    return false;
}

s2_status s2_kernel_choose(const s2_device *device, const s2_kernel *only, s2_kernel_take_fn take, void *user,
                           const s2_kernel **out, s2_diag *why)
{
    const s2_kernel *kernel = only != NULL ? only : next_best(device, INT32_MAX);
    if (kernel == NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "this build has no kernel for %s", device->name);
    if (kernel->device != device->kind)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "kernel %s does not run on %s",
                           kernel->traits->name, device->name);
    s2_status status = take(user, kernel, why);
    const s2_kernel *next = kernel;
    while (only == NULL && status == S2_EUNSUPPORTED &&
           (next = next_best(device, next->traits->rank)) != NULL) {
        s2_diag own = {0};
        status = take(user, next, &own);
        /* of reasons why kernels do not support it the first counts; what is wrong with it comes before them */
        if (why != NULL && (why->msg[0] == '\0' || (status != S2_OK && status != S2_EUNSUPPORTED)))
            *why = own;
        kernel = next;
    }
    if (status == S2_OK)
        *out = kernel;
    if (status == S2_EUNSUPPORTED && why != NULL && why->msg[0] == '\0')
        return s2_diag_set(why, status, 0, 0, 0, "no kernel of this build for %s computes this pass",
                           device->name);
    return status;
}
