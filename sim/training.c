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

/* ---- a stage, and one layer of it */

/* Layers are of a few kinds; bytes of a microbatch on a GPU. */
typedef struct s2_layer_bytes {
    s2_net_layer kind;
    double weights; /* as far as they are gathered: experts from the replicas that have the same ones */
    double gradients;
    double kept;
    double working; /* beside that, while it goes back */
} s2_layer_bytes;

enum { MOST_KINDS = 16 };

typedef struct s2_stage {
    s2_net net;
    s2_sim_options options;
    int32_t first_layer, n_layers, n_micro, n_in_flight;
    double tokens, picked;
    double held;               /* at any moment: weights, master weights, moments, what is gathered */
    double gathered;           /* of which */
    double gradients, of_head; /* of all weights, the head's */
    double kept;               /* by all layers */
    double loss, logits, first_gradient; /* the last is that of the first layer's input */
    int32_t n_kinds;
    s2_layer_bytes kinds[MOST_KINDS];
} s2_stage;

static bool same_kind(s2_net_layer a, s2_net_layer b)
{
    return a.attends == b.attends && a.mixes == b.mixes && a.shares == b.shares && a.heads == b.heads &&
           a.n_plain == b.n_plain && a.n_mixtures == b.n_mixtures && a.is_wide == b.is_wide;
}

static s2_layer_bytes price_layer(const s2_stage *stage, int32_t layer)
{
    s2_net bare = stage->net;
    s2_sim_options own = stage->options;
    own.net = &bare;
    bare.vocab = 0;
    bare.table = bare.once = 0;
    bare.mixture.from_layer += layer;
    bare.n_layers = 1;
    const bool whole = own.n_shards <= own.n_expert_ranks; /* nobody else has its experts */
    const double experts = s2_end_to_end_experts(&own), weights = s2_end_to_end_weights(&own),
                 gathered = whole ? 0 : experts / own.n_expert_ranks,
                 kept = s2_activations_kept(&stage->options, layer, stage->picked),
                 back = s2_activations_going_back(&stage->options, layer, stage->picked),
                 left = own.recompute ? s2_activations_input(&own) : kept;
    return (s2_layer_bytes){.kind = s2_net_layer_at(&stage->net, layer),
                            .weights = weights - experts + gathered,
                            .gradients = weights * GRADIENT_BYTES / own.n_shards,
                            .kept = stage->tokens * left,
                            .working = stage->tokens * (back - left)};
}

static s2_layer_bytes layer_at(s2_stage *stage, int32_t layer)
{
    const s2_net_layer kind = s2_net_layer_at(&stage->net, layer);
    for (int32_t known = 0; known < stage->n_kinds; known++)
        if (same_kind(stage->kinds[known].kind, kind))
            return stage->kinds[known];
    const s2_layer_bytes bytes = price_layer(stage, layer);
    if (stage->n_kinds < MOST_KINDS)
        stage->kinds[stage->n_kinds++] = bytes;
    return bytes;
}

/* The most weights that run at a time: a layer's, or those of the embedding or the head where they are more. */
static double most_gathered(s2_stage *stage)
{
    const s2_sim_options *const own = &stage->options;
    double most =
        own->no_embedding && own->no_head ? 0 : (double)stage->net.vocab * stage->net.hidden / own->n_ranks;
    for (int32_t layer = 0; layer < stage->n_layers; layer++)
        most = fmax(most, layer_at(stage, layer).weights);
    return most;
}

static void stage_init(const s2_sim_options *options, int32_t nth, s2_stage *stage)
{
    int64_t micro_batch;
    *stage = (s2_stage){0};
    s2_machine_stage(options, options->net->n_layers, nth, &stage->net, &stage->options);
    s2_sim_microbatches(options, &stage->n_micro, &micro_batch);
    const s2_sim_options *const own = &stage->options;
    stage->first_layer = stage->net.mixture.from_layer - options->net->mixture.from_layer;
    stage->n_layers = stage->net.n_layers;
    stage->n_in_flight = s2_min_i32(stage->n_micro, options->n_stages - nth);
    stage->tokens = (double)(s2_ceil_div(options->len_tok, options->n_context) * micro_batch);
    stage->picked = s2_experts_deal(own, stage->tokens).imbalance;
    const double weights = s2_end_to_end_weights(own), each = GRADIENT_BYTES / own->n_shards,
                 embedding = (double)stage->net.vocab * stage->net.hidden / own->n_ranks;
    stage->gathered = own->n_shards > 1 ? 2 * S2_HIDDEN_BYTES * most_gathered(stage) : 0;
    stage->held = weights * HELD_BYTES / own->n_shards + stage->gathered;
    stage->gradients = weights * each;
    stage->of_head = own->no_head ? 0 : embedding * each;
    stage->loss = own->no_head ? 0 : s2_activations_loss(own, stage->tokens);
    stage->logits = own->no_head ? 0 : s2_activations_logits(own, stage->tokens);
    stage->first_gradient = stage->tokens * s2_activations_input(own);
    for (int32_t layer = 0; layer < stage->n_layers; layer++)
        stage->kept += layer_at(stage, layer).kept;
}

/* ---- the fullest moment of a step */

/* A moment, and what is there beside what is held. */
static s2_training moment(const s2_stage *stage, s2_training_peak peak, double gradients, double kept,
                          double working, double logits)
{
    const double activations = kept + working + logits;
    return (s2_training){.peak = peak,
                         .layer = -1,
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

/* Rounding makes no layer fuller than one that went back before it. */
static void take_fuller(s2_training own, s2_training *fullest)
{
    if (own.bytes > fullest->bytes * (1 + 1e-12))
        *fullest = own;
}

/*
 * The layers go back, the last one first: what each kept goes when its gradients are there, and these stay, if they
 * were not there before.
 */
static void layers_go_back(s2_stage *stage, double gradients, bool gradients_come, double kept,
                           s2_training *fullest)
{
    for (int32_t layer = stage->n_layers - 1; layer >= 0; layer--) {
        const s2_layer_bytes own = layer_at(stage, layer);
        const s2_training_peak peak = layer == stage->n_layers - 1 ? S2_PEAK_LAST_LAYER
                                      : layer == 0                 ? S2_PEAK_FIRST_LAYER
                                                                   : S2_PEAK_LAYER;
        gradients += gradients_come ? own.gradients : 0;
        s2_training now = moment(stage, peak, gradients, kept, own.working, 0);
        now.layer = stage->first_layer + layer;
        take_fuller(now, fullest);
        kept -= own.kept;
    }
}

/* The first backward pass of a step, beside other microbatches in flight. */
static void go_back_first(s2_stage *stage, s2_training *fullest)
{
    const double others = (stage->n_in_flight - 1) * stage->kept;
    take_fuller(moment(stage, S2_PEAK_LOSS, stage->of_head, others + stage->kept, stage->loss, stage->logits),
                fullest);
    layers_go_back(stage, stage->of_head, true, others + stage->kept, fullest);
    take_fuller(moment(stage, S2_PEAK_UPDATE, stage->gradients, others, stage->first_gradient, 0), fullest);
}

/* Any later one: all gradients are there, to be added to. */
static void go_back_again(s2_stage *stage, s2_training *fullest)
{
    const double kept = s2_min_i32(stage->n_in_flight, stage->n_micro - 1) * stage->kept;
    if (stage->n_micro == 1)
        return;
    take_fuller(moment(stage, S2_PEAK_LOSS, stage->gradients, kept, stage->loss, stage->logits), fullest);
    layers_go_back(stage, stage->gradients, false, kept, fullest);
}

static void keep_on_stage(const s2_sim_options *options, int32_t nth, s2_training *out)
{
    s2_stage stage;
    s2_training fullest = {0};
    stage_init(options, nth, &stage);
    go_back_first(&stage, &fullest);
    go_back_again(&stage, &fullest);
    fullest.at_least = s2_net_count(&stage.net).n_mixers > 0;
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
                  most_context = causal && s2_net_count(options->net).n_mixers == 0
                                     ? s2_machine_most_context(options->len_tok)
                                     : 1;
    own.recompute = recompute;
    for (own.n_context = options->n_context; own.n_context <= most_context; own.n_context *= 2)
        for (own.n_stages = options->n_stages; own.n_stages <= most_stages; own.n_stages *= 2)
            try_ranks(own, &fewest, out);
    return fewest <= MOST_GPUS;
}
