/*
 * base/net.h - the widths of a transformer, which decide the weights and products around attention: one form
 * for code that reads configs and code that prices.
 */
#ifndef S2_BASE_NET_H
#define S2_BASE_NET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct s2_net {
    char name[40];
    int32_t n_layers;
    int32_t hidden;
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t ffn; /* per expert */
    int32_t vocab;
    bool gated;        /* three matrices in the feed-forward layer, not two */
    bool tied;         /* one embedding for input and output */
    int32_t n_experts; /* 1: dense */
    int32_t n_active;  /* experts per token */
    double cap;        /* scores become cap * tanh(score / cap); 0: they do not */
    bool sinks;        /* a learned logit per head in the softmax's denominator */
} s2_net;

#endif /* S2_BASE_NET_H */
