#include "sim/endtoend.h"

#include <math.h>

#include "sim/elementwise.h"
#include "sim/experts.h"
#include "sim/inner.h"
#include "sim/links.h"
#include "sim/net.h"
#include "sim/share.h"

/* Mixed-precision Adam: master weight, two moments read and written in fp32, gradient read, weight written. */
#define OPTIMIZER_BYTES 28.0

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
    4.5 /* vLLM's in AIConfigurator's H200 tables; large ones reach 0.73 to 1.04 of the link. Assumed of an
           all-to-all too */
/* ... of two GPUs. More go round a ring, twice each but one: a step over the link takes so long in NCCL's own model
 * (NVIDIA/nccl, src/graph/tuning.cc: hwLat of a ring, protocol LL). */
#define NVLINK_STEP_US  0.6
#define PCIE_STEP_US    1.0
#define NETWORK_STEP_US 2.7
#define LINK_FRACTION   0.8
#define HOST_STEP_US    200 /* assumed: sampling, the next step's arguments and copying them, once a step */

/* Of what a checkpoint keeps, as nearly all keep the embedding and the head. */
static double plain_bits(const s2_sim_options *options)
{
    return 8.0 * s2_dtype_bytes(options->dtype);
}

/* Whether weights are priced as the model's own checkpoint stores them. */
static bool is_published(const s2_sim_options *options)
{
    return options->weights == S2_WEIGHTS_PUBLISHED && s2_sim_weights(options) != S2_WEIGHTS_AS_DTYPE;
}

/* Bits of a weight of a part that is stored in a type of its own, with its part of a scale. */
static double packed_bits(const s2_sim_options *options, s2_stored_part part)
{
    const double usual = s2_weights_bits(s2_sim_weights(options));
    if (is_published(options) && options->net->bits[part] > 0)
        return options->net->bits[part];
    return usual > 0 ? usual : plain_bits(options);
}

/* The share of a part's weights that are in the type of activations beside those of another type. */
static double kept_share(const s2_sim_options *options, s2_stored_part part)
{
    const s2_weights weights = s2_sim_weights(options);
    if (is_published(options))
        return options->net->kept[part];
    const bool attends = part == S2_PART_ATTENTION || part == S2_PART_MIXER;
    return part == S2_PART_HEAD || (attends && weights == S2_WEIGHTS_MXFP4) ? 1 : 0;
}

/* The share of a part's weights whose products run in 8 bits: those in fp8. */
static double fp8_share(const s2_sim_options *options, s2_stored_part part)
{
    const double stored = 1 - kept_share(options, part);
    if (is_published(options))
        return stored * options->net->in_fp8[part];
    return s2_sim_weights(options) == S2_WEIGHTS_FP8 ? stored : 0;
}

static double weight_bits(const s2_sim_options *options, s2_stored_part part)
{
    const double kept = kept_share(options, part);
    return kept * plain_bits(options) + (1 - kept) * packed_bits(options, part);
}

/* The same of feed-forward layers with so many experts. */
static double inner_bits(const s2_sim_options *options, double n_experts)
{
    double bits[S2_N_STORED_PARTS];
    for (int32_t part = 0; part < S2_N_STORED_PARTS; part++)
        bits[part] = weight_bits(options, (s2_stored_part)part);
    return s2_inner_mean(options, n_experts, bits);
}

/* The cache's latent, the one that queries are made of, and Q, K, V and O of the heads; decode works on the latent. */
static double latent_width(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const s2_latent *const own = &net->latent;
    const double kept = own->latent_dim + own->rotary_dim, score = own->plain_dim + own->rotary_dim,
                 head = options->phase == S2_DECODE ? score + own->value_dim + kept + own->latent_dim
                                                    : 2 * score + 2.0 * own->value_dim;
    return kept + own->query_dim + (double)net->n_heads / options->n_ranks * head;
}

/* Of one layer. */
static double heads_width(const s2_sim_options *options, const s2_net_heads *heads)
{
    const s2_net *const net = options->net;
    return 2.0 * net->n_heads / options->n_ranks * heads->head_dim +
           s2_share_kv_width(heads->n_kv_heads, heads->head_dim, options->n_ranks) * heads->n_matrices / 2 +
           (double)net->beside / net->hidden / options->n_ranks;
}

double s2_end_to_end_attention_width(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    double widest = 0;
    if (s2_net_is_latent(net))
        return latent_width(options) + (double)net->beside / net->hidden / options->n_ranks;
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        s2_net_heads heads = s2_net_heads_at(net, layer);
        heads.n_matrices = 2; /* whoever made them */
        if (s2_net_layer_at(net, layer).attends)
            widest = fmax(widest, heads_width(options, &heads));
    }
    return widest;
}

/* Weights of input and output that other stages of a pipeline hold; a tied one is in the first and in the last. */
static double embeddings_elsewhere(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n = (options->no_embedding ? 0 : 1) + (options->no_head ? 0 : 1),
                  both = options->no_embedding || options->no_head || !net->tied ? n : 1;
    return (double)net->vocab * net->hidden * ((net->tied ? 1 : 2) - both) +
           (options->no_embedding ? (double)(net->table + net->once) : 0);
}

/* Of the embedding and the head, as far as this stage has them. */
static double embedding_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    return ((double)net->vocab * net->hidden * (net->tied ? 1 : 2) + (double)(net->table + net->once) -
            embeddings_elsewhere(options)) /
           options->n_ranks;
}

double s2_end_to_end_experts(const s2_sim_options *options)
{
    return s2_inner_weights(options, options->net->n_experts) - s2_inner_weights(options, 0);
}

/* Weights of attention's projections, in all layers that have some, on one GPU. */
static double projection_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double n_layers = s2_net_count(net).n_attention;
    double columns = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_heads heads = s2_net_heads_at(net, layer);
        if (s2_net_layer_at(net, layer).attends)
            columns += heads_width(options, &heads);
    }
    if (!s2_net_is_latent(net))
        return net->hidden * columns;
    const s2_latent_weights latent = s2_net_latent_weights(net);
    return n_layers * ((double)latent.whole + (double)(latent.by_head + net->beside) / options->n_ranks);
}

double s2_end_to_end_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double shared = (double)(s2_net_weights(net) - s2_net_projections(net) - s2_net_mixers(net));
    return (shared - embeddings_elsewhere(options)) / options->n_ranks + projection_weights(options) +
           s2_net_mixers_each(net, options->n_ranks);
}

/* Of the head alone, where it is not the embedding. */
static double head_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    return options->no_head || net->tied ? 0 : (double)net->vocab * net->hidden / options->n_ranks;
}

int64_t s2_end_to_end_weight_bytes(const s2_sim_options *options)
{
    if (options->net == NULL)
        return 0;
    const double experts = s2_end_to_end_experts(options), others = s2_inner_weights(options, 0),
                 mixers = s2_net_mixers_each(options->net, options->n_ranks), head = head_weights(options),
                 outside = embedding_weights(options) - head;
    const double of_experts = options->net->n_experts > 1 ? weight_bits(options, S2_PART_EXPERTS)
                                                          : weight_bits(options, S2_PART_PLAIN);
    return (int64_t)((experts / options->n_expert_ranks * of_experts + others * inner_bits(options, 0) +
                      projection_weights(options) * weight_bits(options, S2_PART_ATTENTION) +
                      mixers * weight_bits(options, S2_PART_MIXER) +
                      head * weight_bits(options, S2_PART_HEAD) + outside * plain_bits(options)) /
                     8);
}

/* ---- time */

typedef struct s2_around {
    const s2_sim_options *options;
    s2_sim *sim;
    double tokens;   /* that pass through the layers */
    double logits;   /* tokens whose next one is chosen, or learnt */
    double mma;      /* flop a microsecond, in the type of activations */
    double mma_fp8;  /* ... and of weights in fp8 */
    double hbm;      /* bytes a microsecond */
    double forward;  /* passes over the layers: in training with recomputation two, else one */
    double backward; /* in training one, else none */
    double products; /* passes that products count for: the backward of one is two of its size */
    bool estimates;
} s2_around;

static void append(s2_around *around, const char *name, double us, s2_resource by)
{
    around->sim->parts[around->sim->n_parts++] = (s2_part){.name = name, .time_us = us, .bound_by = by};
}

static s2_part *last_part(const s2_around *around)
{
    return &around->sim->parts[around->sim->n_parts - 1];
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

/* Of the weights of a product: bits of each, and the share of it that runs in 8 bits. */
typedef struct s2_held {
    double bits;
    double fp8;
} s2_held;

static s2_held held_as(const s2_sim_options *options, s2_stored_part part)
{
    return (s2_held){weight_bits(options, part), fp8_share(options, part)};
}

/* The same of feed-forward layers that read so many experts, of which a token uses `active`. */
static s2_held inner_held(const s2_sim_options *options, double n_read, double n_active)
{
    double fp8[S2_N_STORED_PARTS];
    for (int32_t part = 0; part < S2_N_STORED_PARTS; part++)
        fp8[part] = fp8_share(options, (s2_stored_part)part);
    return (s2_held){inner_bits(options, n_read), s2_inner_mean(options, n_active, fp8)};
}

/* n products of one GPU that read `weights`, of which each token uses `active`. */
static void add_products(s2_around *around, const char *name, double weights, s2_held held, double active,
                         double rows, double n)
{
    add_part(around, name,
             2 * active * rows * around->products *
                 (held.fp8 / around->mma_fp8 + (1 - held.fp8) / around->mma),
             weights * held.bits / 8 * around->products / around->hbm, n * around->products);
}

/* Kernels that only move tensors, in `layers` layers and all passes, for so many tokens. */
static void add_elementwise(s2_around *around, const char *name, s2_moving what, double layers, double tokens)
{
    const s2_sim_options *const options = around->options;
    const s2_moved forward = s2_elementwise(options, what, false),
                   backward = s2_elementwise(options, what, true);
    const double bytes = around->forward * forward.token_bytes + around->backward * backward.token_bytes,
                 n_kernels = around->forward * forward.n_kernels + around->backward * backward.n_kernels;
    const double us = layers * bytes * tokens * MEMORY_SLOWER / around->hbm,
                 launch_us =
                     layers * n_kernels * (options->fusion == S2_FUSED ? FUSED_US : options->gpu.launch_us);
    append(around, name, us + launch_us, us > launch_us ? S2_HBM : S2_LAUNCH);
}

/*
 * The experts of a layer, on the GPU that has most to do: as an estimate, what is expected where each token picks by
 * itself and all picks are equally likely; as a bound, tokens share their picks, and every GPU has as many.
 */
static s2_expert_price experts_of(const s2_around *around)
{
    const s2_sim_options *const options = around->options;
    s2_expert_price dealt = s2_experts_deal(options, around->tokens);
    if (around->estimates)
        return dealt;
    dealt.imbalance = 1;
    dealt.picks = around->tokens * options->net->n_active;
    dealt.read = (double)options->net->n_active / options->n_expert_ranks;
    return dealt;
}

/* Launches of a layer: latent attention goes through its latents. */
static double products_of_projections(const s2_net *net)
{
    return !s2_net_is_latent(net) ? 2 : net->latent.query_dim > 0 ? 5 : 4;
}

/*
 * A mixer is two products, what comes before its scan and what comes after, and the scan. No scan was measured, so
 * that has a bound: for each element of the state a token adds a product and takes one, at the matrix peak; what the
 * products leave it and take from it is moved once, beside the states, whose launches and bytes are in attention.
 * Backward each of these two products has two, of the gradients of its factors, if no state is made again. What came
 * in is read once more, with the gradient of what went out, and the gradient of what came in is written: as much as
 * forward, and what came in besides, which is half of all or more.
 */
#define SCAN_FLOP      4.0 /* for each element of the state and token */
#define BACKWARD_FLOP  2.0 /* of forward's */
#define BACKWARD_MOVES 1.5
static void add_mixers(s2_around *around, double n_layers)
{
    const s2_sim_options *const options = around->options;
    const s2_net *const net = options->net;
    const s2_states *const states = &around->sim->states;
    const double weights = s2_net_mixers_each(net, options->n_ranks),
                 flop = SCAN_FLOP * (around->forward + BACKWARD_FLOP * around->backward) *
                        (double)net->mixer.n_elements / options->n_ranks * n_layers * around->tokens,
                 moved = (around->forward + BACKWARD_MOVES * around->backward) * weights / net->hidden *
                             S2_HIDDEN_BYTES * around->tokens +
                         states->moved_each,
                 mma_us = flop / s2_gpu_flop_us(&options->gpu, false), hbm_us = moved / around->hbm;
    if (n_layers == 0)
        return;
    if (weights > 0)
        add_products(around, "mixers", weights, held_as(options, S2_PART_MIXER), weights, around->tokens,
                     2 * n_layers);
    append(around, "scan", fmax(fmax(mma_us, hbm_us) - states->us, 0), mma_us > hbm_us ? S2_MMA : S2_HBM);
}

/* Norms, rotary embedding and activations, where each is. */
static void add_between(s2_around *around, const s2_net_counts *counts, double picked)
{
    const s2_sim_options *const options = around->options;
    const double n_inner = counts->n_plain + counts->n_mixtures,
                 n_norms = options->net->n_layers + n_inner; /* before each part of a layer */
    if (!around->estimates) {
        /* a bound: a norm with its residual reads and writes the hidden state */
        const double passes = around->forward + around->backward;
        add_part(around, "norms", 0,
                 2 * n_norms * options->net->hidden * around->tokens * S2_HIDDEN_BYTES * passes / around->hbm,
                 n_norms * passes);
        return;
    }
    const bool train = options->phase == S2_TRAIN;
    add_elementwise(around, "norms", S2_MOVE_NORMS, n_norms / 2, around->tokens);
    if (counts->n_attention > 0)
        add_elementwise(around, train ? "rotary" : "rotary, cache", S2_MOVE_ROTARY, counts->n_attention,
                        around->tokens);
    if (n_inner > 0)
        add_elementwise(around, "activation", S2_MOVE_ACTIVATION, n_inner,
                        around->tokens * s2_inner_width(options, picked) / s2_inner_width(options, 1));
}

/* Copies of the hidden state are mixed before a layer and changed behind it: each time all are read and written. */
static void add_copies(s2_around *around)
{
    enum { TIMES = 4 };
    const s2_net *const net = around->options->net;
    if (net->n_copies > 0)
        add_part(around, "copies", 0,
                 (double)TIMES * net->n_layers * net->n_copies * net->hidden * around->tokens *
                     S2_HIDDEN_BYTES / around->hbm,
                 2.0 * net->n_layers);
}

static void add_layers(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const s2_net *const net = options->net;
    const s2_net_counts counts = s2_net_count(net);
    const double hidden = net->hidden, n = options->n_ranks, projections = projection_weights(options),
                 n_inner = counts.n_plain + counts.n_mixtures,
                 n_shared = net->mixture.shared_ffn > 0 ? counts.n_mixtures : 0,
                 n_latent = net->mixture.latent_dim > 0 ? counts.n_mixtures : 0;
    const s2_expert_price experts = experts_of(around);
    const double picked = net->n_active * experts.imbalance;
    const s2_held kept = {plain_bits(options), 0};
    around->sim->experts = experts;
    if (net->once > 0 && !options->no_embedding)
        add_products(around, "layer inputs", (double)net->once / n, kept, (double)net->once / n,
                     around->tokens, 1);
    if (counts.n_attention > 0)
        add_products(around, "projections", projections, held_as(options, S2_PART_ATTENTION), projections,
                     around->tokens,
                     (products_of_projections(net) + (net->table > 0 ? 2 : 0)) * counts.n_attention);
    add_mixers(around, counts.n_mixers);
    if (n_inner > 0)
        add_products(around, "feed-forward", s2_inner_weights(options, experts.read),
                     inner_held(options, experts.read, picked), s2_inner_weights(options, picked),
                     around->tokens, 2 * (n_inner + n_shared + n_latent));
    add_between(around, &counts, experts.imbalance);
    add_copies(around);
    if (options->no_head)
        return;
    add_products(around, "lm head", hidden * net->vocab / n,
                 net->tied ? kept : held_as(options, S2_PART_HEAD), hidden * net->vocab / n, around->logits,
                 1);
    if (around->estimates && options->phase == S2_TRAIN)
        add_elementwise(around, "loss", S2_MOVE_LOSS, 1, around->logits);
}

/* ---- what GPUs send one another */

/* A collective of n GPUs over a ring, each of which sends this share of the whole for each pass. */
static double ring_share(double n)
{
    return (n - 1) / n;
}

/* most: how many times the mean GPU's bytes go to the one that all wait for. */
static void add_uneven(s2_around *around, const char *name, s2_group group, double bytes, double most,
                       double own_us)
{
    const double rate = s2_links_rate(around->options, group);
    if (bytes <= 0 || rate <= 0)
        return;
    const double us = bytes * most / rate;
    append(around, name, around->estimates ? own_us + us / LINK_FRACTION : us, S2_LINK);
    last_part(around)->sent_bytes = bytes;
}

static void add_sent(s2_around *around, const char *name, s2_group group, double bytes, double own_us)
{
    add_uneven(around, name, group, bytes, 1, own_us);
}

/* What a sum takes beside its bytes. */
static double sum_us(const s2_sim_options *options)
{
    const double step = s2_links_cross(options, S2_GROUP_TENSOR) ? NETWORK_STEP_US
                        : options->gpu.nvlink_gb_s > 0           ? NVLINK_STEP_US
                                                                 : PCIE_STEP_US;
    return ALL_REDUCE_US + 2 * (options->n_ranks - 2) * step;
}

/*
 * Each pass over a layer, forward or backward, sums the hidden state, or its gradient, twice: after (before, going
 * back) attention and after (before) the feed-forward. A mixer beside attention whose heads GPUs share ends in a
 * product of its own, and a sum. A sum is a scatter and a gather.
 */
static void add_all_reduce(s2_around *around)
{
    const s2_net *const net = around->options->net;
    const s2_net_counts counts = s2_net_count(net);
    const int32_t beside = net->mixer.n_shares > 0 ? counts.n_attention + counts.n_mixers - net->n_layers : 0;
    const double n_sums = (double)(net->n_layers + beside + counts.n_plain + counts.n_mixtures) *
                          (around->forward + around->backward),
                 bytes = S2_HIDDEN_BYTES * net->hidden * around->tokens;
    add_sent(around, "all-reduce", S2_GROUP_TENSOR, n_sums * 2 * ring_share(around->options->n_ranks) * bytes,
             n_sums * sum_us(around->options));
}

/*
 * Each pass over a layer sends the hidden state, or its gradient, of a token to the GPUs of the experts that it picked,
 * a copy for each pick, and brings back as many; the GPU with most picks is sent most, and sends most back. As a bound,
 * every token may pick experts of its own GPU.
 */
static void add_all_to_all(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const s2_net *const net = options->net;
    const double n_times = 2.0 * s2_net_count(net).n_mixtures * (around->forward + around->backward),
                 bytes = S2_HIDDEN_BYTES * s2_net_expert_input(net) * net->n_active * around->tokens;
    if (around->estimates)
        add_uneven(around, "all-to-all", S2_GROUP_EXPERTS,
                   n_times * ring_share(options->n_expert_ranks) * bytes, around->sim->experts.imbalance,
                   n_times * ALL_REDUCE_US);
}

/*
 * Replicas that divide the state gather a layer's weights when it runs forward, again when it runs backward, which
 * serves recomputation too, and scatter its gradients: a microbatch each time, for there is room for one layer only.
 * Experts that are dealt out are gathered only by the replicas that have the same ones.
 * That some of it hides behind products is not assumed. A bound may hide all.
 */
static void add_gather(s2_around *around)
{
    enum { N_GATHERED = 2, N_SCATTERED = 1 };
    const s2_sim_options *const options = around->options;
    const double experts = s2_end_to_end_experts(options), n = options->n_expert_ranks,
                 others = s2_end_to_end_weights(options) - experts,
                 sent = ring_share(options->n_shards) * others +
                        ring_share(fmax(options->n_shards / n, 1)) * experts / n;
    if (around->estimates)
        add_sent(around, "gather, scatter", S2_GROUP_REPLICAS,
                 (N_GATHERED + N_SCATTERED) * S2_HIDDEN_BYTES * sent, 0);
}

/* n GPUs have the same weights, or a replica's part of them, and other gradients, which are summed once a step. */
static void add_sum(s2_around *around, const char *name, s2_group group, double n, double weights)
{
    const s2_sim *const sim = around->sim;
    const int32_t before = sim->n_parts;
    if (around->estimates)
        add_sent(around, name, group,
                 2 * ring_share(n) * S2_HIDDEN_BYTES * weights / around->options->n_shards, 0);
    if (sim->n_parts > before)
        last_part(around)->once = true;
}

static void add_gradients(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    const s2_net *const net = options->net;
    const double embedding = (double)net->vocab * net->hidden / options->n_ranks,
                 copies = fmax((double)options->n_ranks / net->n_kv_heads, 1),
                 copied = s2_net_is_latent(net) ? (double)s2_net_latent_weights(net).whole
                                                : 2.0 * net->hidden * net->head_dim;
    add_gather(around);
    add_sum(around, "sum over contexts", S2_GROUP_CONTEXT, options->n_context,
            s2_end_to_end_weights(options));
    /* K and V of a head that several GPUs have, or what makes latents */
    add_sum(around, "sum over copies", S2_GROUP_TENSOR, copies, s2_net_count(net).n_attention * copied);
    /* one embedding for input and output, on the first stage and on the last */
    if (net->tied && options->no_embedding != options->no_head)
        add_sum(around, "sum of embeddings", S2_GROUP_STAGES, 2, embedding);
}

/* What a step does once: the optimizer, the host. */
static void add_step(s2_around *around)
{
    const s2_sim_options *const options = around->options;
    if (options->phase == S2_TRAIN) {
        add_part(around, "optimizer", 0,
                 s2_end_to_end_weights(options) * OPTIMIZER_BYTES / options->n_shards / around->hbm, 1);
        last_part(around)->once = true;
        add_gradients(around);
    }
    if (!around->estimates)
        return;
    append(around, "host", HOST_STEP_US, S2_LAUNCH);
    last_part(around)->once = true;
}

static s2_around around_of(const s2_sim_options *options, s2_sim *sim, double n_tok, double n_logits)
{
    const bool train = options->phase == S2_TRAIN;
    const double forward = train && options->recompute ? 2 : 1, backward = train ? 1 : 0;
    return (s2_around){.options = options,
                       .sim = sim,
                       .tokens = n_tok,
                       .logits = n_logits,
                       .mma = s2_gpu_flop_us(&options->gpu, options->dtype == S2_F8),
                       .mma_fp8 = s2_gpu_flop_us(&options->gpu, true),
                       .hbm = options->gpu.hbm_gb_s * 1e3,
                       .forward = forward,
                       .backward = backward,
                       .products = forward + 2 * backward,
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
    add_all_reduce(&around);
    add_all_to_all(&around);
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
        /* attention's forward pass is repeated too, by each side its own */
        const double again = sim->parts[0].time_us;
        append(&around, "attention again", again, sim->parts[0].bound_by);
        dense_us += sim->dense_forward_us;
        attention_us += again;
    }
    add_layers(&around);
    add_all_reduce(&around);
    add_all_to_all(&around);
    add_step(&around);
    sim->end_to_end_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        sim->end_to_end_us += sim->parts[part].time_us;
    sim->end_to_end_dense_us = sim->end_to_end_us - attention_us + dense_us;
}
