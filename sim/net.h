/*
 * sim/net.h - what the layers around attention weigh: widths, experts, vocabulary.
 *
 * Read from sim/models.txt, which is built into the program. Threads: no state.
 */
#ifndef S2_SIM_NET_H
#define S2_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_net {
    char name[40];
    int32_t n_layers;
    int32_t hidden;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t ffn; /* of one expert */
    int32_t vocab;
    bool gated;        /* three matrices in the feed-forward layer, else two */
    bool tied;         /* one embedding for input and output */
    int32_t n_experts; /* 1: dense */
    int32_t n_active;  /* experts that a token visits */
} s2_net;

/* S2_EINVAL with the nearest known name in *diag; S2_EPARSE for a damaged table. */
s2_status s2_net_find(const char *name, s2_net *out, s2_diag *diag) S2_MUST_CHECK;

/* Row number `nth` of the table, in order; false past its end. */
bool s2_net_at(int32_t nth, s2_net *out);

/* Weights of the whole model. */
int64_t s2_net_weights(const s2_net *net);

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_NET_H */
