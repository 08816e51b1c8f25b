/*
 * kernels/train.h - a backward laid out for judging: a rig, the forward it needs, and its gradients on the
 * host.
 *
 * Ownership: s2_train_close releases all. Threads: as the device.
 */
#ifndef S2_KERNELS_TRAIN_H
#define S2_KERNELS_TRAIN_H

#include "kernels/rig.h"

typedef enum s2_train_grad { S2_TRAIN_DQ, S2_TRAIN_DK, S2_TRAIN_DV, S2_N_TRAIN_GRADS } s2_train_grad;

typedef struct s2_train {
    s2_rig rig;                      /* its problem is a backward */
    int32_t kv_head;                 /* the only one whose gradients are copied and judged; -1: all */
    uint8_t *host[S2_N_TRAIN_GRADS]; /* copies with guards */
} s2_train;

/* As s2_rig_open. */
s2_outcome s2_train_open(s2_train *train, s2_device *device, const s2_validate_request *request, char *reason,
                         size_t reason_cap);
void s2_train_close(s2_train *train);

/* Random q, k, v and dO; the same bits everywhere. */
s2_status s2_train_fill(s2_train *train, const s2_validate_request *request) S2_MUST_CHECK;

/* o and lse of the rig's rows by the best forward kernel of the device. S2_EUNSUPPORTED with the reason. */
s2_status s2_train_forward(s2_train *train, s2_diag *why) S2_MUST_CHECK;

/* Fill the gradients with NaN, run once, copy them to the host. */
s2_outcome s2_train_run(s2_train *train, double *ms, char *reason, size_t reason_cap);

const s2_guarded *s2_train_buffer(const s2_train *train, s2_train_grad grad);
const s2_tensor *s2_train_tensor(const s2_train *train, s2_train_grad grad);
/* Whether this KV head is looked at: all are, or of a large problem one. */
static inline bool s2_train_looks_at(const s2_train *train, int32_t kv_head)
{
    return train->kv_head < 0 || train->kv_head == kv_head;
}
/* "dQ", "dK", "dV" */
const char *s2_train_word(s2_train_grad grad);

/* Stages; each fills its part of *out. */
s2_outcome s2_train_touch(s2_train *train, const s2_validate_request *request, s2_validation *out);
s2_outcome s2_train_numerics(s2_train *train, const s2_validate_request *request, s2_validation *out);

#endif /* S2_KERNELS_TRAIN_H */
