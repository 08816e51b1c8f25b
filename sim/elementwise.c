#include "sim/elementwise.h"

#include "base/arith.h"
#include "sim/endtoend.h"
#include "sim/inner.h"
#include "sim/net.h"
#include "sim/share.h"

/* Numbers of one token on one GPU. */
typedef struct s2_widths {
    double elem;  /* bytes of an activation; products in 8 bits leave it in 16 */
    double asked; /* bytes of a number of Q and K that attention reads */
    double cache; /* bytes of a number in the cache; 0: nothing is written to one */
    double hidden;
    double q;
    double kv;
    double turned; /* that the rotary embedding turns */
    double inner;  /* of the feed-forward layers that the token visits */
    double vocab;
    bool gated;
} s2_widths;

/* Of latent attention only the rotary parts are turned, of each head's query and of the one key. */
static s2_widths widths_of(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const bool latent = s2_net_is_latent(net);
    const double n = options->n_ranks, n_attention = s2_max_i32(s2_net_count(net).n_attention, 1);
    double dims = 0, kv = 0; /* of the mean layer; one that shares keys turns none and writes none */
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_heads own = s2_net_heads_at(net, layer);
        if (!s2_net_layer_at(net, layer).attends)
            continue;
        dims += own.head_dim / n_attention;
        if (own.n_matrices > 0)
            kv += s2_share_kv_width(own.n_kv_heads, own.head_dim, options->n_ranks) / 2 / n_attention;
    }
    const double q = net->n_heads / n * (latent ? net->latent.rotary_dim : dims);
    return (s2_widths){.elem = S2_HIDDEN_BYTES,
                       .asked = s2_dtype_bytes(options->dtype),
                       .cache = options->phase == S2_TRAIN ? 0 : s2_sim_cache_bytes(options),
                       .hidden = net->hidden,
                       .q = q,
                       .kv = kv,
                       .turned = q + (latent ? net->latent.rotary_dim : kv),
                       .inner = s2_inner_width(options, 1) / (net->gated ? 3 : 2),
                       .vocab = net->vocab / n,
                       .gated = net->gated};
}

/* Each tensor that a part needs is read once and each that it makes is written once. */
static s2_moved fused(const s2_widths *w, s2_moving what, bool backward)
{
    const double b = w->elem;
    switch (what) {
    case S2_MOVE_NORMS:
        return (s2_moved){2 * 4 * w->hidden * b, 2}; /* backward: two gradients, input, result */
    case S2_MOVE_ROTARY:
        if (w->cache > 0)
            return (s2_moved){(w->q + 2 * w->kv) * b + w->q * w->asked + 2 * w->kv * w->cache, 1};
        return (s2_moved){w->turned * (b + (backward ? b : w->asked)), 1};
    case S2_MOVE_ACTIVATION:
        if (backward)
            return (s2_moved){(w->gated ? 5 : 3) * w->inner * b, 1};
        return (s2_moved){(w->gated ? 3 : 2) * w->inner * b, 1};
    case S2_MOVE_LOSS: return (s2_moved){(backward ? 2 : 1) * w->vocab * b, 1};
    case S2_N_MOVING: break;
    }
    return (s2_moved){0, 0};
}

/*
 * Each line is one kernel, or several that move the same; numbers of 4 bytes are fp32. Tensors are read as
 * often as operations name them.
 */
static s2_moved eager_forward(const s2_widths *w, s2_moving what)
{
    const double b = w->elem, half = w->turned / 2;
    switch (what) {
    case S2_MOVE_NORMS:
        return (s2_moved){2 * (3 * w->hidden * b     /* residual + input */
                               + 2 * w->hidden * b), /* rms_norm */
                          2 * 2};
    case S2_MOVE_ROTARY:
        return (s2_moved){(b + 4) * w->turned              /* to fp32 */
                              + 4 * (4 + 4) * half         /* each half by cosine and by sine */
                              + 2 * (8 + 4) * half         /* their difference and sum */
                              + (4 + 4) * w->turned        /* concatenated */
                              + (4 + w->asked) * w->turned /* from fp32 */
                              + (w->cache > 0 ? 2 * w->kv * (b + w->cache) : 0), /* K and V into the cache */
                          w->cache > 0 ? 11 : 9};
    case S2_MOVE_ACTIVATION:
        return (s2_moved){2 * w->inner * b                         /* silu */
                              + (w->gated ? 3 * w->inner * b : 0), /* times the other half */
                          w->gated ? 2 : 1};
    case S2_MOVE_LOSS:
        return (s2_moved){(b + 4) * w->vocab        /* to fp32 */
                              + (4 + 4) * w->vocab, /* log_softmax; the rest reads one logit */
                          3};
    case S2_N_MOVING: break;
    }
    return (s2_moved){0, 0};
}

static s2_moved eager_backward(const s2_widths *w, s2_moving what)
{
    const double b = w->elem, half = w->turned / 2, packed = w->turned + w->kv;
    switch (what) {
    case S2_MOVE_NORMS:
        return (s2_moved){2 * (3 * w->hidden * b     /* rms_norm's input */
                               + 2 * w->hidden * b   /* its weight */
                               + 3 * w->hidden * b), /* added to the residual's gradient */
                          2 * 3};
    case S2_MOVE_ROTARY:
        return (s2_moved){2 * b * w->turned         /* gradients of Q and K side by side */
                              + (b + 4) * w->turned /* to fp32 */
                              + (4 + 4) * half      /* of the difference: negated */
                              + 4 * (4 + 4) * half  /* by cosine and by sine */
                              + 2 * (8 + 4) * half  /* each half got two */
                              + (4 + 4) * w->turned /* concatenated */
                              + (4 + b) * w->turned /* from fp32 */
                              + 2 * packed * b      /* zeros for two slices of the packed Q, K and V, */
                              + 2 * packed * b      /* each filled, */
                              + 3 * packed * b,     /* and added */
                          16};
    case S2_MOVE_ACTIVATION:
        if (!w->gated)
            return (s2_moved){3 * w->inner * b, 1};
        return (s2_moved){2 * 3 * w->inner * b        /* of the product, to both sides */
                              + 3 * w->inner * b      /* of silu */
                              + 2 * 2 * w->inner * b, /* side by side */
                          4};
    case S2_MOVE_LOSS:
        return (s2_moved){4 * w->vocab              /* zeros, one of which is set */
                              + (8 + 4) * w->vocab  /* of log_softmax */
                              + (4 + b) * w->vocab, /* from fp32 */
                          4};
    case S2_N_MOVING: break;
    }
    return (s2_moved){0, 0};
}

s2_moved s2_elementwise(const s2_sim_options *options, s2_moving what, bool backward)
{
    const s2_widths widths = widths_of(options);
    if (options->fusion == S2_FUSED)
        return fused(&widths, what, backward);
    return backward ? eager_backward(&widths, what) : eager_forward(&widths, what);
}
