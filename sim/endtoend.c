#include "sim/endtoend.h"

#include <math.h>

#include "sim/elementwise.h"
#include "sim/links.h"

/* The backward of a product is two products of its size; with recomputation forward runs once more. */
#define TRAIN_FLOP     3.0
#define RECOMPUTE_FLOP 4.0
/* Mixed-precision Adam: master weight, two moments read and written in fp32, gradient read, weight written. */
#define OPTIMIZER_BYTES 28.0
/* It keeps weight and gradient in 2 bytes each, master weight and two moments in fp32. */
#define STATE_BYTES 16.0

/*
 * With a calibration the parts are estimates. A launch costs 3.6 us, and a product bound by memory 1.25 times
 * its roofline: 8.5 % off (mean) on the 23 579 bf16 products of an H200 in AIConfigurator's tables. Bound by
 * the matrix units it reaches 670 of 989 TFLOP/s when it runs for longer (8192^3, docs/kernels.md); in fp8
 * the same power leaves about the same share of the peak.
 */
#define PRODUCT_US    3.6
#define MEMORY_SLOWER 1.25
#define MATRIX_SLOWER 1.48
#define FUSED_US      2.5 /* small kernels, one after another (gpu-benches); eager ones take a bare launch */
#define ALL_REDUCE_US                                                                                        \
    4.5 /* vLLM's in AIConfigurator's H200 tables; large ones reach 0.73 to 1.04 of the link */
#define LINK_FRACTION 0.8
#define HOST_STEP_US  200 /* assumed: sampling, the next step's arguments and copying them, once a step */

static double weight_bits(const s2_sim_options *options, bool feed_forward)
{
    switch (s2_sim_weights(options)) {
    case S2_WEIGHTS_PUBLISHED:
    case S2_WEIGHTS_AS_DTYPE: break;
    case S2_WEIGHTS_FP8:
    case S2_WEIGHTS_INT8: return 8;
    case S2_WEIGHTS_INT4: return 4.5; /* with a two-byte scale for each 32 */
    case S2_WEIGHTS_MXFP4:
        if (feed_forward)
            return 4.25; /* with a one-byte scale for each 32 */
        break;
    case S2_N_WEIGHTS: break;
    }
    return 8.0 * s2_dtype_bytes(options->dtype);
}

/* KV heads are copied where there are more GPUs than heads. */
static double attention_width(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double n = options->n_ranks, kv = fmax(net->n_kv_heads / n, 1);
    return 2.0 * (net->n_heads / n + kv) * net->head_dim;
}

/* Weights of input and output that other stages of a pipeline hold; a tied one is in the first and in the last. */
static double embeddings_elsewhere(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n = (options->no_embedding ? 0 : 1) + (options->no_head ? 0 : 1),
                  both = options->no_embedding || options->no_head || !net->tied ? n : 1;
    return (double)net->vocab * net->hidden * ((net->tied ? 1 : 2) - both);
}

/* One GPU's part of the feed-forward weights of an expert in one layer. */
static double expert_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    return (net->gated ? 3.0 : 2.0) * net->hidden * net->ffn / options->n_ranks;
}

/* How many weights one GPU holds. */
static double weights_each(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double even = 2.0 * (net->n_heads + net->n_kv_heads) * net->head_dim / options->n_ranks;
    return ((double)s2_net_weights(net) - embeddings_elsewhere(options)) / options->n_ranks +
           net->n_layers * (double)net->hidden * (attention_width(options) - even);
}

int64_t s2_end_to_end_weight_bytes(const s2_sim_options *options)
{
    if (options->net == NULL)
        return 0;
    const double experts = expert_weights(options) * options->net->n_experts * options->net->n_layers;
    const double bits = weight_bits(options, false), fewer = bits - weight_bits(options, true);
    return (int64_t)(weights_each(options) * bits / 8 - experts * fewer / 8);
}

/* ---- memory of training */

/* Elements that a token keeps per layer for the backward pass: inputs of norms and products, Q, K, V and O,
 * and in a gated feed-forward layer both halves and their product. */
static double activation_elems(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double n = options->n_ranks, q = (double)net->n_heads * net->head_dim / n;
    const double kv = fmax(net->n_kv_heads / n, 1) * net->head_dim;
    const double ffn = (net->gated ? 3.0 : 2.0) * net->ffn * net->n_active / n;
    return 4.0 * net->hidden + 2 * q + 2 * kv + ffn;
}

void s2_end_to_end_training(const s2_sim_options *options, s2_training *out)
{
    enum { LOGIT_BYTES = 4, LSE_BYTES = 4 };
    *out = (s2_training){0};
    if (options->net == NULL)
        return;
    const s2_net *const net = options->net;
    const double tokens = (double)options->len_tok * (double)options->batch, elem = 2;
    const double layer =
        activation_elems(options) * elem + (double)net->n_heads / options->n_ranks * LSE_BYTES;
    const double state = weights_each(options) * STATE_BYTES / options->n_shards;
    out->state_bytes = state;
    /* where the state is divided, the weights and gradients of a layer are whole while it runs */
    if (options->n_shards > 1)
        out->gathered_bytes = 2 * elem * weights_each(options) / net->n_layers;
    out->state_bytes += out->gathered_bytes;
    out->token_bytes = options->recompute ? net->n_layers * net->hidden * elem : net->n_layers * layer;
    if (!options->no_head)
        out->token_bytes += (double)net->vocab * LOGIT_BYTES / options->n_ranks;
    out->activation_bytes = tokens * out->token_bytes + (options->recompute ? tokens * layer : 0);
    out->bytes = out->state_bytes + out->activation_bytes;
    out->token_bytes = out->activation_bytes / tokens;
}

/* ---- time */

typedef struct s2_around {
    const s2_sim_options *options;
    s2_sim *sim;
    double tokens; /* that pass through the layers */
    double logits; /* tokens whose next one is chosen, or learnt */
    double mma;    /* flop a microsecond */
    double hbm;    /* bytes a microsecond */
    double train;  /* passes that products count for: 3 or 4 in training, else 1 */
    bool estimates;
} s2_around;

static void append(s2_around *around, const char *name, double us, s2_resource by)
{
    around->sim->parts[around->sim->n_parts++] = (s2_part){name, us, by};
}

static void add_part(s2_around *around, const char *name, double mma_us, double hbm_us, double n_launches)
{
    if (around->estimates) {
        const double mma = mma_us * MATRIX_SLOWER, hbm = hbm_us * MEMORY_SLOWER,
                     own = n_launches * PRODUCT_US;
        const double slower = fmax(mma, hbm);
        append(around, name, own + slower, slower < own ? S2_LAUNCH : mma > hbm ? S2_MMA : S2_HBM);
        return;
    }
    const double launch_us = n_launches * around->options->gpu.launch_us, slower = fmax(mma_us, hbm_us);
    append(around, name, fmax(slower, launch_us),
           slower < launch_us ? S2_LAUNCH
           : mma_us > hbm_us  ? S2_MMA
                              : S2_HBM);
}

/* n products of one GPU that read `weights` of so many bits, of which each token uses `active`. */
static void add_products(s2_around *around, const char *name, double weights, double bits, double active,
                         double rows, double n)
{
    add_part(around, name, 2 * active * rows * around->train / around->mma,
             weights * bits / 8 * around->train / around->hbm, n * around->train);
}

/* Kernels that only move tensors, in `layers` layers and all passes, for so many tokens. */
static void add_elementwise(s2_around *around, const char *name, s2_moving what, double layers, double tokens)
{
    const s2_sim_options *const options = around->options;
    const bool train = options->phase == S2_TRAIN;
    const double n_forward = train && options->recompute ? 2 : 1;
    const s2_moved forward = s2_elementwise(options, what, false),
                   backward = train ? s2_elementwise(options, what, true) : (s2_moved){0, 0};
    const double bytes = n_forward * forward.token_bytes + backward.token_bytes,
                 n_kernels = n_forward * forward.n_kernels + backward.n_kernels;
    const double us = layers * bytes * tokens * MEMORY_SLOWER / around->hbm,
                 launch_us =
                     layers * n_kernels * (options->fusion == S2_FUSED ? FUSED_US : options->gpu.launch_us);
    append(around, name, us + launch_us, us > launch_us ? S2_HBM : S2_LAUNCH);
}

/*
 * Distinct experts of a layer that so many tokens read between them: as an estimate, what is expected where each
 * token picks by itself and all picks are equally likely; as a bound, those that all tokens may share.
 */
static double experts_read(const s2_around *around)
{
    const double n = around->options->net->n_experts, picked = around->options->net->n_active / n;
    return around->estimates ? n * (1 - pow(1 - picked, around->tokens)) : n * picked;
}

static void add_layers(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const s2_net *const net = options->net;
    const double hidden = net->hidden, n_layers = net->n_layers, n = options->n_ranks;
    const double projections = n_layers * hidden * attention_width(options);
    const double expert = expert_weights(options), bits = weight_bits(options, false);
    add_products(around, "projections", projections, bits, projections, around->tokens, 2 * n_layers);
    add_products(around, "feed-forward", n_layers * expert * experts_read(around), weight_bits(options, true),
                 n_layers * expert * net->n_active, around->tokens, 2 * n_layers);
    if (around->estimates) {
        const bool train = options->phase == S2_TRAIN;
        add_elementwise(around, "norms", S2_MOVE_NORMS, n_layers, around->tokens);
        add_elementwise(around, train ? "rotary" : "rotary, cache", S2_MOVE_ROTARY, n_layers, around->tokens);
        add_elementwise(around, "activation", S2_MOVE_ACTIVATION, n_layers, around->tokens);
    } else {
        /* a bound: two norms with their residuals read and write the hidden state */
        const double elem = s2_dtype_bytes(options->dtype);
        add_part(around, "norms", 0,
                 4 * n_layers * hidden * around->tokens * elem * around->train / around->hbm,
                 2 * n_layers * around->train);
    }
    if (options->no_head)
        return;
    add_products(around, "lm head", hidden * net->vocab / n, bits, hidden * net->vocab / n, around->logits,
                 1);
    if (around->estimates && options->phase == S2_TRAIN)
        add_elementwise(around, "loss", S2_MOVE_LOSS, 1, around->logits);
}

/* Two all-reduces a layer over a ring: 2 (n - 1) / n of the hidden state, one way of the link. */
static void add_links(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const double n = options->n_ranks;
    const double rate = s2_links_rate(options, S2_GROUP_TENSOR);
    if (options->n_ranks == 1 || rate <= 0)
        return;
    const double bytes = 2.0 * options->net->n_layers * options->net->hidden * around->tokens * 2;
    const double link_us = bytes * 2 * (n - 1) / n * around->train / rate;
    const double own_us = 2.0 * options->net->n_layers * around->train * ALL_REDUCE_US;
    append(around, "all-reduce", around->estimates ? own_us + link_us / LINK_FRACTION : link_us, S2_LINK);
}

/* What a step does once: the optimizer, gathering and scattering a divided state, the host. */
static void add_step(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const double shards = options->n_shards, weights = weights_each(options);
    const double rate = s2_links_rate(options, S2_GROUP_REPLICAS);
    if (options->phase == S2_TRAIN)
        add_part(around, "optimizer", 0, weights * OPTIMIZER_BYTES / shards / around->hbm, 1);
    /* weights are gathered for each pass, gradients scattered; half of it hides behind products (assumed) */
    if (around->estimates && shards > 1 && options->phase == S2_TRAIN && rate > 0)
        append(around, "gather, scatter",
               0.5 * 3 * 2 * weights * (shards - 1) / shards / (rate * LINK_FRACTION), S2_LINK);
    if (around->estimates)
        append(around, "host", HOST_STEP_US, S2_LAUNCH);
}

static s2_around around_of(const s2_sim_options *options, s2_sim *sim, double n_tok, double n_logits)
{
    const bool fp8 =
        (options->dtype == S2_F8 || s2_sim_weights(options) == S2_WEIGHTS_FP8) && options->gpu.fp8_tflops > 0;
    return (s2_around){.options = options,
                       .sim = sim,
                       .tokens = n_tok,
                       .logits = n_logits,
                       .mma = (fp8 ? options->gpu.fp8_tflops : options->gpu.bf16_tflops) * 1e6,
                       .hbm = options->gpu.hbm_gb_s * 1e3,
                       .train = options->phase != S2_TRAIN ? 1
                                : options->recompute       ? RECOMPUTE_FLOP
                                                           : TRAIN_FLOP,
                       .estimates = options->calibration != NULL};
}

double s2_end_to_end_around(const s2_sim_options *options, double n_tok, double n_logits)
{
    s2_sim sim = {0};
    double us = 0;
    if (options->net == NULL)
        return 0;
    s2_around around = around_of(options, &sim, n_tok, n_logits);
    add_layers(&around);
    add_links(&around);
    add_step(&around);
    for (int32_t part = 0; part < sim.n_parts; part++)
        us += sim.parts[part].time_us;
    return us;
}

void s2_end_to_end_add(const s2_sim_options *options, s2_sim *sim)
{
    if (options->net == NULL)
        return;
    const bool train = options->phase == S2_TRAIN;
    const double batch = (double)options->batch;
    const double n_tok = (double)(options->len_tok - s2_sim_first_tok(options)) * batch;
    /* a prompt needs the logits of its last token, a decode step those of every token */
    s2_around around = around_of(options, sim, n_tok, options->phase == S2_PREFILL ? batch : n_tok);
    double attention_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        attention_us += sim->parts[part].time_us;
    double dense_us = sim->dense_time_us;
    if (train && options->recompute) {
        /* attention's forward pass is repeated too */
        const double again = sim->parts[0].time_us;
        append(&around, "attention again", again, sim->parts[0].bound_by);
        dense_us += again * dense_us / fmax(attention_us, 1e-9);
        attention_us += again;
    }
    add_layers(&around);
    add_links(&around);
    add_step(&around);
    sim->end_to_end_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        sim->end_to_end_us += sim->parts[part].time_us;
    sim->end_to_end_dense_us = sim->end_to_end_us - attention_us + dense_us;
}
