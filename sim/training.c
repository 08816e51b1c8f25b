#include "sim/training.h"

#include <math.h>

#include "base/arith.h"
#include "sim/endtoend.h"
#include "sim/experts.h"
#include "sim/links.h"
#include "sim/machine.h"

/* Mixed-precision Adam: weight and gradient in 2 bytes each, master weight and two moments in fp32. */
#define STATE_BYTES 16.0
#define LSE_BYTES   4.0

/* Bytes that a token keeps of a layer for the backward pass: inputs of norms and products, Q, K, V and O, and in a
 * gated feed-forward layer both halves and their product; picked: how much more experts are picked than the mean. */
static double layer_bytes(const s2_sim_options *options, double picked)
{
    const s2_net *const net = options->net;
    const double inner = s2_end_to_end_expert_width(options) * net->n_active * picked;
    return (4.0 * net->hidden + s2_end_to_end_attention_width(options) + inner) * S2_HIDDEN_BYTES +
           (double)net->n_heads / options->n_ranks * LSE_BYTES;
}

/*
 * The most weights that run at a time: a layer's, or those of the embedding or the head where they are more. Experts
 * are gathered from the replicas that have the same ones.
 */
static double gathered_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double embedding = (double)net->vocab * net->hidden / options->n_ranks;
    s2_net bare = *net;
    s2_sim_options own = *options;
    own.net = &bare;
    bare.vocab = 0;
    const bool whole = own.n_shards <= own.n_expert_ranks; /* nobody else has its experts */
    const double experts = s2_end_to_end_experts(&own), gathered = whole ? 0 : experts / own.n_expert_ranks,
                 layer = (s2_end_to_end_weights(&own) - experts + gathered) / net->n_layers;
    return options->no_embedding && options->no_head ? layer : fmax(layer, embedding);
}

/* Stages keep what layers need of microbatches that have not come back yet: one after another, forward first. */
static void keep_on_stage(const s2_sim_options *options, int32_t nth, s2_training *out)
{
    s2_net net;
    s2_sim_options own;
    int32_t n_micro;
    int64_t micro_batch;
    s2_machine_stage(options, options->net->n_layers, nth, &net, &own);
    s2_sim_microbatches(options, &n_micro, &micro_batch);
    const double tokens = (double)(s2_ceil_div(options->len_tok, options->n_context) * micro_batch),
                 layer = layer_bytes(&own, s2_experts_deal(&own, tokens).imbalance),
                 weights = s2_end_to_end_weights(&own);
    *out = (s2_training){.n_in_flight = s2_min_i32(n_micro, options->n_stages - nth)};
    out->gathered_bytes = options->n_shards > 1 ? 2 * S2_HIDDEN_BYTES * gathered_weights(&own) : 0;
    out->state_bytes = weights * STATE_BYTES / options->n_shards + out->gathered_bytes;
    out->kept_bytes = out->n_in_flight * tokens * net.n_layers *
                      (options->recompute ? net.hidden * S2_HIDDEN_BYTES : layer);
    out->working_bytes = options->recompute ? tokens * layer : 0;
    out->logit_bytes = own.no_head ? 0 : tokens * net.vocab / own.n_ranks * S2_LOGIT_BYTES;
    out->activation_bytes = out->kept_bytes + out->working_bytes + out->logit_bytes;
    out->bytes = out->state_bytes + out->activation_bytes;
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
