#include "sim/activations.h"

#include <math.h>

#include "base/arith.h"
#include "sim/endtoend.h"
#include "sim/inner.h"
#include "sim/net.h"
#include "sim/share.h"

#define LSE_BYTES 4.0

enum { BLOCKS_OF_SM = 2, ROW_CAP = 8 };

/* Elements of a token in Q, K, V and O; and in Q and K alone. */
static double attention_width(const s2_sim_options *options)
{
    return s2_end_to_end_attention_width(options);
}

static double rotated_width(const s2_sim_options *options)
{
    return attention_width(options) / 2;
}

/* ---- keys and values of other GPUs, in elements of the hidden state for each token of one's own */

static double kv_width(const s2_sim_options *options)
{
    double widest = 0;
    for (int32_t layer = 0; layer < options->net->n_layers; layer++) {
        const s2_net_heads own = s2_net_heads_at(options->net, layer);
        widest =
            fmax(widest, s2_share_kv_bytes(own.n_kv_heads, own.head_dim, options->n_ranks, options->dtype));
    }
    return widest / S2_HIDDEN_BYTES;
}

/* The parts that a ring holds beside a GPU's own. */
static double ring_parts(const s2_sim_options *options)
{
    return s2_min_i32(options->n_context - 1, 2);
}

static double sent_width(const s2_sim_options *options)
{
    const double c = options->n_context;
    if (options->n_context == 1)
        return 0;
    return kv_width(options) * (options->cut == S2_CUT_ZIGZAG ? ring_parts(options) : 1 + (c - 1) + 2 * c);
}

static double sent_kept_width(const s2_sim_options *options)
{
    return options->cut == S2_CUT_ZIGZAG ? 0 : (options->n_context - 1) * kv_width(options);
}

/* Going back, beside what is kept and the gradients of a GPU's own. */
static double sent_back_width(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double c = options->n_context, kv = kv_width(options),
                 queries = (double)net->n_heads / options->n_ranks * net->head_dim;
    if (options->n_context == 1)
        return 0;
    if (options->cut == S2_CUT_ZIGZAG)
        return 2 * ring_parts(options) * kv;
    /* in the kernel; then two and a half arrays of gradients of all keys and values, and nothing else but that of Q */
    return fmax((c - 1) * kv, 1.5 * c * kv - kv - 3 * queries);
}

double s2_activations_sent(const s2_sim_options *options)
{
    return S2_HIDDEN_BYTES * sent_width(options);
}

/* ---- all of a layer */

/* The input of the first norm and its result, Q, K, V and O. */
static double attention_elements(const s2_sim_options *options)
{
    const double packed = options->fusion == S2_EAGER ? rotated_width(options) : 0;
    return 2.0 * options->net->hidden + attention_width(options) + packed;
}

/* And those of the second norm, and the inner columns of the feed-forward. */
static double all_elements(const s2_sim_options *options, double inner)
{
    return attention_elements(options) + 2.0 * options->net->hidden + inner;
}

/* The input of the norm and its result, and what the products before and after the scan make. */
static double mixer_elements(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    return 2.0 * net->hidden + (double)net->mixer.weights / net->hidden / options->n_ranks;
}

double s2_activations_passing(const s2_sim_options *options, double picked)
{
    const double inner = s2_inner_widest(options, picked),
                 feed_forward = options->fusion == S2_EAGER ? all_elements(options, inner)
                                                            : 2.0 * options->net->hidden + inner;
    const double copies = (double)s2_max_i32(options->net->n_copies - 1, 0) * options->net->hidden;
    return S2_HIDDEN_BYTES *
           (copies + fmax(fmax(attention_elements(options) + sent_width(options), feed_forward),
                          mixer_elements(options)));
}

double s2_activations_chosen(const s2_sim_options *options)
{
    return options->no_head ? 0 : S2_LOGIT_BYTES * options->net->vocab / options->n_ranks;
}

double s2_activations_parts(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n_heads = s2_max_i32(net->n_heads / options->n_ranks, 1);
    const int64_t q_tok = options->phase == S2_DECODE ? s2_max_i64(options->new_tok, 1) : 1;
    double widest = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_heads own = s2_net_heads_at(net, layer);
        const int32_t group = n_heads / s2_share_kv_heads(own.n_kv_heads, options->n_ranks);
        const int32_t width = s2_net_is_latent(net) ? net->latent.latent_dim : own.head_dim;
        widest = fmax(widest, (double)s2_round_up(group * q_tok, ROW_CAP) * (width + 2));
    }
    return 2.0 * BLOCKS_OF_SM * options->gpu.sms * widest * 4;
}

/* ---- in training, of one layer */

/* What the products before and after a scan make; of what the scan itself keeps nothing is known. */
static double mixer_width(const s2_sim_options *options)
{
    return mixer_elements(options) - 2.0 * options->net->hidden;
}

/* The input of the first norm and its result; Q, K, V and O; what a mixer's products make. */
static double branch_elements(const s2_sim_options *options, s2_net_layer layer)
{
    const double hidden = 2.0 * options->net->hidden;
    return (layer.attends || layer.mixes ? hidden : 0) +
           (layer.attends ? attention_elements(options) - hidden : 0) +
           (layer.mixes ? mixer_width(options) : 0);
}

/* The inner columns of its feed-forwards, with the input of the norm before each and its result. */
static double feed_forward_elements(const s2_sim_options *options, int32_t layer, double picked)
{
    const s2_net_layer own = s2_net_layer_at(options->net, layer);
    return 2.0 * options->net->hidden * (own.n_plain + own.n_mixtures) + s2_inner_of(options, layer, picked);
}

double s2_activations_kept(const s2_sim_options *options, int32_t layer, double picked)
{
    const s2_net_layer own = s2_net_layer_at(options->net, layer);
    return S2_HIDDEN_BYTES * (branch_elements(options, own) + feed_forward_elements(options, layer, picked) +
                              (own.attends ? sent_kept_width(options) : 0)) +
           (own.attends ? (double)options->net->n_heads / options->n_ranks * LSE_BYTES : 0);
}

/*
 * Two moments can be the fullest. At the activation of the feed-forward the gradient of its result has taken the
 * result's place, and gradients of its inputs come to that. At attention, or a mixer, all of the feed-forwards is
 * gone, with the norm's input and result before each, and the gradients of Q, K, V and O, or of what the mixer's
 * products made, are there. Both times so is the residual's. And where a context is shared, attention may hold more
 * of it forward, with nothing after it yet.
 */
double s2_activations_going_back(const s2_sim_options *options, int32_t layer, double picked)
{
    const s2_net_layer own = s2_net_layer_at(options->net, layer);
    const double hidden = options->net->hidden, widest = s2_inner_widest_of(options, layer, picked),
                 gone = feed_forward_elements(options, layer, picked),
                 inputs = options->net->gated ? widest * 2 / 3 : widest / 2,
                 attention = own.attends ? attention_width(options) - gone + sent_back_width(options) : 0,
                 mixer = own.mixes ? mixer_width(options) - gone : 0,
                 back = s2_activations_kept(options, layer, picked) +
                        S2_HIDDEN_BYTES * (hidden + fmax(inputs, fmax(attention, mixer)));
    return own.attends ? fmax(back, S2_HIDDEN_BYTES * (attention_elements(options) + sent_width(options)))
                       : back;
}

double s2_activations_input(const s2_sim_options *options)
{
    return S2_HIDDEN_BYTES * options->net->hidden;
}

double s2_activations_loss(const s2_sim_options *options, double n_tok)
{
    return 3 * S2_HIDDEN_BYTES * options->net->hidden * n_tok;
}

double s2_activations_logits(const s2_sim_options *options, double n_tok)
{
    return 3 * S2_LOGIT_BYTES * options->net->vocab / options->n_ranks * fmin(n_tok, S2_LOSS_TOK);
}
