/*
 * judge/gradient_harness.h - a backward set up for judging: a harness, the forward it needs, its gradients.
 *
 * Ownership: s2_gradient_harness_close releases all. Threads: as the device.
 */
#ifndef S2_JUDGE_GRADIENT_HARNESS_H
#define S2_JUDGE_GRADIENT_HARNESS_H

#include "judge/harness.h"

typedef enum s2_gradient_kind {
    S2_GRADIENT_DQ,
    S2_GRADIENT_DK,
    S2_GRADIENT_DV,
    S2_N_GRADIENT_KINDS
} s2_gradient_kind;

typedef struct s2_gradient_harness {
    s2_harness harness;                 /* its problem is a backward */
    struct s2_forward *forward;         /* where o and lse come from */
    int32_t kv_head;                    /* the only one whose gradients are judged; -1: all */
    uint8_t *host[S2_N_GRADIENT_KINDS]; /* copies with guards */
    uint8_t *host_d_sink;               /* the same; NULL without sinks */
} s2_gradient_harness;

/* As s2_harness_open; o and lse will come from the device's best forward kernel. */
s2_status s2_gradient_harness_open(s2_gradient_harness *gradients, s2_device *device,
                                   const s2_validate_request *request, s2_diag *why) S2_MUST_CHECK;
void s2_gradient_harness_close(s2_gradient_harness *gradients);

/* Compute o and lse of the harness's rows. */
s2_status s2_gradient_harness_forward(s2_gradient_harness *gradients, s2_diag *why) S2_MUST_CHECK;

/* The forward's kernel, and the plan that it runs: its lists may be coarser than those of the harness. */
const char *s2_gradient_harness_forward_kernel(const s2_gradient_harness *gradients);
const s2_plan *s2_gradient_harness_forward_plan(const s2_gradient_harness *gradients);

/* Fill the gradients with NaN, run once, copy them to the host. */
s2_status s2_gradient_harness_run(s2_gradient_harness *gradients, double *ms, s2_diag *why) S2_MUST_CHECK;

/* The memory of one gradient, and its layout there. */
const s2_guarded *s2_gradient_harness_buffer(const s2_gradient_harness *gradients, s2_gradient_kind grad);
const s2_tensor *s2_gradient_harness_tensor(const s2_gradient_harness *gradients, s2_gradient_kind grad);
/* Whether this KV head is looked at: every one is, or only one in a large problem. */
static inline bool s2_gradient_harness_looks_at(const s2_gradient_harness *gradients, int32_t kv_head)
{
    return gradients->kv_head < 0 || gradients->kv_head == kv_head;
}
/*
 * Copy what a tensor holds of the KV head that is looked at, or of its query heads, to its place in *out; each
 * head is contiguous, and the rest of a large problem is not copied.
 */
s2_status s2_gradient_harness_copy_heads(const s2_gradient_harness *gradients, const s2_tensor *tensor,
                                         bool is_q, uint8_t *out) S2_MUST_CHECK;
/* "dQ", "dK", "dV" */
const char *s2_gradient_harness_word(s2_gradient_kind grad);

/* As the stages of judge/probe.h. */
s2_status s2_gradient_touch(s2_gradient_harness *gradients, const s2_validate_request *request,
                            s2_validation *out, s2_diag *why) S2_MUST_CHECK;
s2_status s2_gradient_numerics(s2_gradient_harness *gradients, const s2_validate_request *request,
                               s2_validation *out, s2_diag *why) S2_MUST_CHECK;

/* Put into out->symptom what would explain a backward with wrong pairs; nothing where nothing does. */
s2_status s2_gradient_explain(s2_gradient_harness *gradients, s2_validation *out, s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_GRADIENT_HARNESS_H */
