#include "kernels/kernel.h"

#include <math.h>
#include <string.h>

#if S2_HAVE_CUDA
#include "kernels/cuda/cuda.h"
#endif

static const s2_kernel *const registry[] = {
    &s2_kernel_ref_f64,    &s2_kernel_cpu,      &s2_kernel_cpu_bwd,
    &s2_kernel_cpu_decode,
#if S2_HAVE_CUDA
    &s2_kernel_decode,     &s2_kernel_sm80,     &s2_kernel_sm90,
    &s2_kernel_sm80_bwd,   &s2_kernel_sm90_bwd, &s2_kernel_sm90_bwd_fused,
#endif
};

enum { N_KERNELS = sizeof registry / sizeof *registry };

const char *s2_kernel_phase_word(s2_kernel_phase phase)
{
    static const char *const words[S2_N_KERNEL_PHASES] = {"forward", "backward", "decode"};
    return words[phase];
}

const s2_kernel *s2_kernel_at(int32_t index)
{
    return index >= 0 && index < N_KERNELS ? registry[index] : NULL;
}

const s2_kernel *s2_kernel_find(const char *name)
{
    for (int32_t at = 0; at < N_KERNELS; at++)
        if (strcmp(registry[at]->name, name) == 0)
            return registry[at];
    return NULL;
}

/* The kernel of this device with the highest rank below `rank`, or NULL. */
static const s2_kernel *next_best(const s2_device *device, int32_t rank)
{
    const s2_kernel *best = NULL;
    for (int32_t at = 0; at < N_KERNELS; at++)
        if (registry[at]->device == device->kind && registry[at]->rank < rank &&
            (best == NULL || registry[at]->rank > best->rank))
            best = registry[at];
    return best;
}

bool s2_kernel_takes_phase(const s2_device *device, const s2_kernel *kernel, s2_kernel_phase phase)
{
    s2_attn_problem plain = {
        .phase = phase, .n_seqs = 1, .n_heads = 1, .n_kv_heads = 1, .head_dim = 128, .scale = 1.0f};
    for (plain.dtype = S2_F32; plain.dtype < S2_N_DTYPES; plain.dtype++)
        if (kernel->supports(device, &plain, NULL) == S2_OK)
            return true;
    return false;
}

s2_status s2_kernel_choose(const s2_device *device, const s2_kernel *only, s2_kernel_take_fn take, void *user,
                           const s2_kernel **out, s2_diag *why)
{
    const s2_kernel *kernel = only != NULL ? only : next_best(device, INT32_MAX);
    if (kernel == NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "this build has no kernel for %s", device->name);
    if (kernel->device != device->kind)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "kernel %s does not run on %s", kernel->name,
                           device->name);
    s2_status status = take(user, kernel, why);
    s2_diag ignored;
    const s2_kernel *next = kernel;
    while (only == NULL && status == S2_EUNSUPPORTED && (next = next_best(device, next->rank)) != NULL) {
        status = take(user, next, why == NULL || why->msg[0] != '\0' ? &ignored : why);
        kernel = next;
    }
    if (status == S2_OK)
        *out = kernel;
    if (status == S2_EUNSUPPORTED && why != NULL && why->msg[0] == '\0')
        return s2_diag_set(why, status, 0, 0, 0, "no kernel of this build for %s takes this phase",
                           device->name);
    return status;
}

static bool aligned(const s2_tensor *tensor)
{
    return tensor->data != NULL && (uintptr_t)tensor->data % 16 == 0;
}

static bool begins_fit(const int32_t *begin_tok, int32_t seq, int32_t n_tok)
{
    return begin_tok == NULL || begin_tok[seq + 1] - begin_tok[seq] == n_tok;
}

s2_status s2_problem_check(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    if (plan == NULL || problem->n_seqs != plan->n_seqs || problem->n_heads != plan->pattern->n_heads ||
        problem->n_kv_heads != plan->pattern->n_kv_heads)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "the problem and its plan have different shapes");
    if (problem->head_dim < 1 || problem->head_dim > S2_LIMIT_HEAD_DIM || !isfinite(problem->scale))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "head dimension %d or scale %g out of range",
                           problem->head_dim, (double)problem->scale);
    if (!aligned(&problem->q) || !aligned(&problem->k) || !aligned(&problem->v) || !aligned(&problem->o) ||
        problem->lse.data == NULL)
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a tensor is missing or not aligned to 16 bytes");
    if (problem->phase == S2_BACKWARD && (!aligned(&problem->d_o) || !aligned(&problem->d_q) ||
                                          !aligned(&problem->d_k) || !aligned(&problem->d_v)))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "a gradient is missing or not aligned to 16 bytes");
    if ((problem->q_begin_tok == NULL) != (problem->k_begin_tok == NULL))
        return s2_diag_set(why, S2_EINVAL, 0, 0, 0,
                           "unequal lengths need the beginnings of queries and of keys");
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        if (!begins_fit(problem->q_begin_tok, seq, plan->seqs[seq].q_tok) ||
            (problem->cached == NULL && !begins_fit(problem->k_begin_tok, seq, plan->seqs[seq].k_tok)))
            return s2_diag_set(why, S2_EINVAL, 0, 0, 0, "sequence %d begins where the plan does not say",
                               seq);
    return S2_OK;
}
