#include "sim/training.h"

#include <math.h>

#include "base/arith.h"
#include "sim/activations.h"
#include "sim/endtoend.h"
#include "sim/experts.h"
#include "sim/links.h"
#include "sim/machine.h"
#include "sim/net.h"

/* Mixed-precision Adam: weight and gradient in 2 bytes each, master weight and two moments in fp32. */
#define HELD_BYTES     14.0
#define GRADIENT_BYTES 2.0

/* One layer's, as far as they are gathered: experts from the replicas that have the same ones. */
static double layer_weights(const s2_sim_options *options, int32_t layer)
{
    s2_net bare = *options->net;
    s2_sim_options own = *options;
    own.net = &bare;
    bare.vocab = 0;
    bare.mixture.from_layer += layer;
    bare.n_layers = 1;
    const bool whole = own.n_shards <= own.n_expert_ranks; /* nobody else has its experts */
    const double experts = s2_end_to_end_experts(&own), gathered = whole ? 0 : experts / own.n_expert_ranks;
    return s2_end_to_end_weights(&own) - experts + gathered;
}

/* The most weights that run at a time: a layer's, or those of the embedding or the head where they are more. */
static double gathered_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double outside =
        options->no_embedding && options->no_head ? 0 : (double)net->vocab * net->hidden / options->n_ranks;
    int32_t other = 0; /* layers are of two kinds at most */
    while (other < net->n_layers - 1 &&
           s2_net_layer_at(net, other).n_mixtures == s2_net_layer_at(net, 0).n_mixtures)
        other++;
    return fmax(outside, fmax(layer_weights(options, 0), layer_weights(options, other)));
}

/* ---- the fullest moment of a step */

/* One stage, and a microbatch there: bytes on a GPU. */
typedef struct s2_stage_bytes {
    int32_t n_layers, n_micro, n_in_flight;
    double held;     /* at any moment: weights, master weights, moments, what is gathered */
    double gathered; /* of which */
    double gradients, of_head, of_layer; /* of all weights, the head's, a layer's */
    double kept_layer, going_back;       /* what a layer keeps, and beside that while it goes back */
    double loss, logits, first_gradient; /* the last is that of the first layer's input */
} s2_stage_bytes;

static s2_stage_bytes stage_bytes(const s2_sim_options *options, int32_t nth)
{
    s2_net net;
    s2_sim_options own;
    int32_t n_micro;
    int64_t micro_batch;
    s2_machine_stage(options, options->net->n_layers, nth, &net, &own);
    s2_sim_microbatches(options, &n_micro, &micro_batch);
    const double tokens = (double)(s2_ceil_div(options->len_tok, options->n_context) * micro_batch),
                 picked = s2_experts_deal(&own, tokens).imbalance, weights = s2_end_to_end_weights(&own),
                 embedding = (double)net.vocab * net.hidden / own.n_ranks,
                 gathered = own.n_shards > 1 ? 2 * S2_HIDDEN_BYTES * gathered_weights(&own) : 0,
                 kept = s2_activations_kept(&own, picked), input = s2_activations_input(&own),
                 kept_token = own.recompute ? input : kept, each = GRADIENT_BYTES / own.n_shards;
    const double outside = embedding * ((own.no_embedding ? 0 : 1) + (own.no_head ? 0 : 1) -
                                        (net.tied && !own.no_embedding && !own.no_head ? 1 : 0));
    return (s2_stage_bytes){.n_layers = net.n_layers,
                            .n_micro = n_micro,
                            .n_in_flight = s2_min_i32(n_micro, options->n_stages - nth),
                            .held = weights * HELD_BYTES / own.n_shards + gathered,
                            .gathered = gathered,
                            .gradients = weights * each,
                            .of_head = own.no_head ? 0 : embedding * each,
                            .of_layer = (weights - outside) / net.n_layers * each,
                            .kept_layer = tokens * kept_token,
                            .going_back = tokens * (s2_activations_going_back(&own, picked) - kept_token),
                            .loss = own.no_head ? 0 : s2_activations_loss(&own, tokens),
                            .logits = own.no_head ? 0 : s2_activations_logits(&own, tokens),
                            .first_gradient = tokens * input};
}

/* A moment, and what is there beside what is held. */
static s2_training moment(const s2_stage_bytes *stage, s2_training_peak peak, double gradients, double kept,
                          double working, double logits)
{
    const double activations = kept + working + logits;
    return (s2_training){.peak = peak,
                         .state_bytes = stage->held + gradients,
                         .gradient_bytes = gradients,
                         .gathered_bytes = stage->gathered,
                         .n_in_flight = stage->n_in_flight,
                         .kept_bytes = kept,
                         .working_bytes = working,
                         .logit_bytes = logits,
                         .activation_bytes = activations,
                         .bytes = stage->held + gradients + activations};
}

static void take_fuller(s2_training own, s2_training *fullest)
{
    if (own.bytes > fullest->bytes)
        *fullest = own;
}

/*
 * The first backward pass of a step, beside other microbatches in flight: the gradients of a layer come when what it
 * kept goes. What is there grows or shrinks evenly from layer to layer, so the last or the first one is the fullest.
 */
static void go_back_first(const s2_stage_bytes *stage, s2_training *fullest)
{
    const double others = (stage->n_in_flight - 1) * stage->n_layers * stage->kept_layer,
                 all = stage->n_layers * stage->kept_layer;
    take_fuller(moment(stage, S2_PEAK_LOSS, stage->of_head, others + all, stage->loss, stage->logits),
                fullest);
    take_fuller(moment(stage, S2_PEAK_LAST_LAYER, stage->of_head + stage->of_layer, others + all,
                       stage->going_back, 0),
                fullest);
    take_fuller(moment(stage, S2_PEAK_FIRST_LAYER, stage->of_head + stage->n_layers * stage->of_layer,
                       others + stage->kept_layer, stage->going_back, 0),
                fullest);
    take_fuller(moment(stage, S2_PEAK_UPDATE, stage->gradients, others, stage->first_gradient, 0), fullest);
}

/* Any later one: all gradients are there, to be added to. */
static void go_back_again(const s2_stage_bytes *stage, s2_training *fullest)
{
    const double kept =
        s2_min_i32(stage->n_in_flight, stage->n_micro - 1) * stage->n_layers * stage->kept_layer;
    if (stage->n_micro == 1)
        return;
    take_fuller(moment(stage, S2_PEAK_LOSS, stage->gradients, kept, stage->loss, stage->logits), fullest);
    take_fuller(moment(stage, S2_PEAK_LAST_LAYER, stage->gradients, kept, stage->going_back, 0), fullest);
}

static void keep_on_stage(const s2_sim_options *options, int32_t nth, s2_training *out)
{
    const s2_stage_bytes stage = stage_bytes(options, nth);
    s2_training fullest = {0};
    go_back_first(&stage, &fullest);
    go_back_again(&stage, &fullest);
    *out = fullest;
}

/* On the fullest GPU of the machine, whatever the pattern. */
static void keep_on_machine(const s2_sim_options *options, s2_training *out)
{
    *out = (s2_training){0};
    if (options->net == NULL)
        return;
    for (int32_t nth = 0; nth < options->n_stages; nth++) {
        s2_training own;
        keep_on_stage(options, nth, &own);
        if (own.bytes > out->bytes)
            *out = own;
    }
}

bool s2_sim_training_fits(const s2_sim_options *options)
{
    s2_training training;
    keep_on_machine(options, &training);
    return training.bytes > 0 && training.bytes <= s2_sim_memory_bytes(options);
}

/* The most of *value, which belongs to *options, that fits; a step of more keeps no less. */
static int64_t most_that_fits(const s2_sim_options *options, int64_t *value, int64_t limit)
{
    int64_t fits = 0, beyond = limit + 1;
    while (beyond - fits > 1) {
        *value = fits + (beyond - fits) / 2;
        if (s2_sim_training_fits(options))
            fits = *value;
        else
            beyond = *value;
    }
    return fits;
}

void s2_training_price(const s2_sim_options *options, s2_sim *sim)
{
    s2_sim_options batch = *options, len = *options;
    if (options->phase != S2_TRAIN || options->net == NULL)
        return;
    keep_on_machine(options, &sim->training);
    sim->fit_batch = sim->fit_batch_dense = most_that_fits(&batch, &batch.batch, S2_LIMIT_BATCH);
    sim->fit_len_tok = most_that_fits(&len, &len.len_tok, S2_LIMIT_CONTEXT_TOK);
    if (options->n_context > s2_max_i32(s2_machine_most_context(sim->fit_len_tok), 1))
        sim->fit_len_tok = 0;
    sim->fit_len_dense_tok = sim->fit_len_tok;
}

/* ---- which machine has room */

enum { MOST_GPUS = 4096 };

/* More replicas of the machine, as few as do. */
static void try_replicas(s2_sim_options own, int64_t *fewest, s2_sim_options *out)
{
    for (; s2_links_gpus(&own) < *fewest; own.n_shards *= 2)
        if (s2_links_gpus(&own) % own.n_nodes == 0 && s2_sim_training_fits(&own)) {
            *fewest = s2_links_gpus(&own);
            *out = own;
        }
}

/* More GPUs that share the heads; no KV head is copied for it. */
static void try_ranks(s2_sim_options own, int64_t *fewest, s2_sim_options *out)
{
    const int32_t n_kv_heads = own.net->n_kv_heads;
    try_replicas(own, fewest, out);
    for (own.n_ranks *= 2; own.n_ranks <= n_kv_heads && n_kv_heads % own.n_ranks == 0; own.n_ranks *= 2)
        try_replicas(own, fewest, out);
}

bool s2_sim_training_room(const s2_sim_options *options, bool recompute, bool causal, s2_sim_options *out)
{
    s2_sim_options own = *options;
    int64_t fewest = MOST_GPUS + 1;
    const int32_t most_stages = s2_machine_most_stages(options->net->n_layers),
                  most_context = causal ? s2_machine_most_context(options->len_tok) : 1;
    own.recompute = recompute;
    for (own.n_context = options->n_context; own.n_context <= most_context; own.n_context *= 2)
        for (own.n_stages = options->n_stages; own.n_stages <= most_stages; own.n_stages *= 2)
            try_ranks(own, &fewest, out);
    return fewest <= MOST_GPUS;
}
