/*
 * Models of unlike layers: attention, mixers that keep a state, feed-forwards and experts, in any order. Each whole is
 * held against the sum of its layers, and against what plain models of the same layers cost.
 */
#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "search/search.h"
#include "sim/endtoend.h"
#include "sim/machine.h"
#include "sim/training.h"
#include "sim/price.h"
#include "tests/s2parsed.h"
#include "tests/s2priced.h"

enum { STATE_BYTES = 1 << 20, MOST_LAYERS = 12 };

/* The last layer before this one whose keys it may read; -1: there is none. */
static int32_t keeper_of(const s2_net *net, int32_t layer)
{
    const uint32_t heads = net->layers[layer].heads;
    do {
        layer--;
    } while (layer >= 0 &&
             (!net->layers[layer].attends || net->layers[layer].shares || net->layers[layer].heads != heads));
    return layer;
}

static s2_net drawn_net(s2_rng *rng)
{
    s2_net net = {
        .name = "drawn",
        .n_layers = 1 + (int32_t)s2_rng_below(rng, MOST_LAYERS),
        .hidden = 1024,
        .n_heads = 8,
        .n_kv_heads = 4,
        .head_dim = 128,
        .ffn = 2048,
        .vocab = 32000,
        .gated = s2_rng_below(rng, 2) == 0,
        .tied = s2_rng_below(rng, 2) == 0,
        .n_experts = 8,
        .n_active = 2,
        .mixture = {.shared_ffn = (int32_t)s2_rng_below(rng, 2) * 512, .plain_ffn = 4096},
        .mixer = {.weights = 1024 * (1 + (int64_t)s2_rng_below(rng, 8000)), .n_elements = STATE_BYTES / 4},
        .beside = (int64_t)s2_rng_below(rng, 2) * 1024 * 1024,
        .table = 1000 * (int64_t)s2_rng_below(rng, 2),
        .once = 100 * (int64_t)s2_rng_below(rng, 2),
        .others = {{4, 256, 2}, {8, 64, 1}},
        .unlike = true};
    net.mixture.latent_dim = (int32_t)s2_rng_below(rng, 2) * 256;
    for (int32_t layer = 0; layer < net.n_layers; layer++) {
        const uint64_t kind = s2_rng_below(rng, 3);
        s2_net_layer *const own = &net.layers[layer];
        *own = (s2_net_layer){.attends = kind != 0,
                              .mixes = kind != 1,
                              .n_plain = (unsigned)s2_rng_below(rng, 3) & 3U,
                              .n_mixtures = (unsigned)s2_rng_below(rng, 2) & 1U};
        own->is_wide = own->n_mixtures == 1 && s2_rng_below(rng, 3) == 0;
        own->heads = kind != 0 ? (unsigned)s2_rng_below(rng, 3) & 3U : 0;
        own->shares = kind != 0 && s2_rng_below(rng, 3) == 0 && keeper_of(&net, layer) >= 0;
    }
    return net;
}

/* What its layers have, without a rule for those that attend. */
static void put_layers(const s2_net *net, const char *body, s2_buf *text_out)
{
    s2_buf text = *text_out;
    s2_buf_printf(&text, "layers %d; heads %d; kv-heads %d; head-dim %d", net->n_layers, net->n_heads,
                  net->n_kv_heads, net->head_dim);
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        const s2_net_heads heads = s2_net_heads_at(net, layer);
        if (net->layers[layer].heads > 0)
            s2_buf_printf(&text, "; layers %d: kv-heads %d; layers %d: head-dim %d", layer, heads.n_kv_heads,
                          layer, heads.head_dim);
        if (net->layers[layer].shares)
            s2_buf_printf(&text, "; layers %d: kv-layer %d", layer, keeper_of(net, layer));
        if (net->layers[layer].mixes)
            s2_buf_printf(&text, "; layers %d: state %d", layer, STATE_BYTES);
        if (body != NULL)
            s2_buf_printf(&text, "; layers %d: %s", layer, net->layers[layer].attends ? body : "none");
    }
    *text_out = text;
}

static s2_pattern pattern_reading(s2_arena *arena, const s2_net *net, const char *body)
{
    s2_buf text = {0};
    put_layers(net, body, &text);
    const s2_pattern pattern = s2_parsed(arena, text.data);
    s2_buf_release(&text);
    return pattern;
}

/* The pattern of its layers, dense where they attend. */
static s2_pattern pattern_of(s2_arena *arena, const s2_net *net)
{
    return pattern_reading(arena, net, "dense");
}

/* Layers that can be trained: attention of one shape, which reads its own keys. */
static s2_net drawn_alike(s2_rng *rng)
{
    s2_net net = drawn_net(rng);
    net.table = net.once = 0;
    for (int32_t layer = 0; layer < net.n_layers; layer++)
        net.layers[layer].heads = net.layers[layer].shares = 0;
    return net;
}

static s2_sim_options drawn_options(s2_rng *rng, const s2_net *net, const s2_calibration *calibration)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.net = net;
    options.phase = s2_rng_below(rng, 2) == 0 ? S2_PREFILL : S2_DECODE;
    options.len_tok = 1 + (int64_t)s2_rng_below(rng, 20000);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 4);
    options.calibration = s2_rng_below(rng, 2) == 0 ? calibration : NULL;
    return options;
}

static void train(s2_rng *rng, s2_sim_options *options)
{
    options->phase = S2_TRAIN;
    options->len_tok = 1 + (int64_t)s2_rng_below(rng, 3000);
    options->recompute = s2_rng_below(rng, 2) == 0;
    options->fusion = s2_rng_below(rng, 2) == 0 ? S2_FUSED : S2_EAGER;
}

static double layer_weights(const s2_net *net, s2_net_layer layer)
{
    const double tensors = net->gated ? 3 : 2, hidden = net->hidden,
                 latent = net->mixture.latent_dim > 0 ? net->mixture.latent_dim : hidden,
                 between = 2 * hidden * net->mixture.latent_dim, shared = net->mixture.shared_ffn;
    const s2_net_heads own = {net->n_kv_heads, net->head_dim, 2},
                       heads = layer.heads > 0 ? net->others[layer.heads - 1] : own;
    const double keys = layer.shares ? 0 : heads.n_matrices * heads.n_kv_heads;
    return layer.attends * (hidden * (2 * net->n_heads + keys) * heads.head_dim + (double)net->beside) +
           layer.mixes * (double)net->mixer.weights +
           tensors * hidden * layer.n_plain * net->mixture.plain_ffn +
           (layer.n_mixtures + layer.is_wide) *
               (tensors * (latent * net->n_experts * net->ffn + hidden * shared) + between);
}

static void a_hybrid_weighs_what_its_layers_do(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(300); nth++) {
        s2_rng rng = {s2_test_seed(20261130) + (uint64_t)nth};
        const s2_net net = drawn_net(&rng);
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        double all = (double)net.vocab * net.hidden * (net.tied ? 1 : 2) + (double)(net.table + net.once),
               stages = 0;
        for (int32_t layer = 0; layer < net.n_layers; layer++)
            all += layer_weights(&net, net.layers[layer]);
        s2_assert_close((double)s2_net_weights(&net), all, 1e-9 * all);
        s2_assert_close((double)s2_end_to_end_weight_bytes(&options), 2 * all, 2e-9 * all);
        options.n_stages = net.tied ? 1 : 1 + (int32_t)s2_rng_below(&rng, (uint64_t)net.n_layers);
        options.n_ranks = 1 << s2_rng_below(&rng, 3);
        for (int32_t stage = 0; stage < options.n_stages; stage++) {
            s2_net part;
            s2_sim_options own;
            s2_machine_stage(&options, net.n_layers, stage, &part, &own);
            stages += s2_end_to_end_weights(&own);
        }
        s2_assert_close(stages, all / options.n_ranks, 1e-9 * all);
    }
}

/* Said layer by layer, a model of attention and one feed-forward each is what it was. */
static void layers_that_are_listed_alike_are_the_plain_model(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_rng rng = {s2_test_seed(20261201) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net listed = drawn_alike(&rng), plain;
        const int32_t every = 1 + (int32_t)s2_rng_below(&rng, 3);
        for (int32_t layer = 0; layer < listed.n_layers; layer++)
            listed.layers[layer] =
                (s2_net_layer){.attends = 1, .n_plain = layer % every != 0, .n_mixtures = layer % every == 0};
        plain = listed;
        plain.unlike = false;
        plain.mixture.every = every;
        memset(plain.layers, 0, sizeof plain.layers);
        const s2_pattern pattern = pattern_of(&arena, &listed);
        s2_sim_options options = drawn_options(&rng, &listed, &calibration);
        if (nth % 2 == 0)
            train(&rng, &options);
        const s2_sim hybrid = s2_priced(&arena, &pattern, &options);
        options.net = &plain;
        const s2_sim alike = s2_priced(&arena, &pattern, &options);
        assert_true(hybrid.end_to_end_us == alike.end_to_end_us && hybrid.n_parts == alike.n_parts);
        assert_true(hybrid.weight_bytes == alike.weight_bytes && hybrid.fit_batch == alike.fit_batch &&
                    hybrid.fit_len_tok == alike.fit_len_tok);
        assert_true(hybrid.training.bytes == alike.training.bytes && !hybrid.training.at_least &&
                    hybrid.training.peak == alike.training.peak);
        s2_arena_release(&arena);
    }
}

static void attention_in_one_more_layer_never_costs_less(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_rng rng = {s2_test_seed(20261202) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net few = drawn_net(&rng), more;
        const int32_t layer = (int32_t)s2_rng_below(&rng, (uint64_t)few.n_layers);
        few.layers[layer] = (s2_net_layer){.mixes = 1};
        for (int32_t other = 0; other < few.n_layers; other++)
            few.layers[other].shares = 0;
        more = few;
        more.layers[layer].attends = 1;
        s2_sim_options options = drawn_options(&rng, &few, &calibration);
        const s2_pattern own = pattern_of(&arena, &few), other = pattern_of(&arena, &more);
        const s2_sim less = s2_priced(&arena, &own, &options);
        options.net = &more;
        const s2_sim most = s2_priced(&arena, &other, &options);
        assert_true(most.end_to_end_us > less.end_to_end_us && most.weight_bytes > less.weight_bytes);
        assert_true(most.kv.used > less.kv.used && most.fit_batch <= less.fit_batch);
        s2_arena_release(&arena);
    }
}

/* Of a sequence; and what a scan of it cannot be faster than is in the time of a prefill. */
static void states_take_the_same_at_any_length(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_rng rng = {s2_test_seed(20261203) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net net = drawn_net(&rng);
        int64_t n_mixers = 0;
        for (int32_t layer = 0; layer < net.n_layers; layer++) {
            net.layers[layer].attends &= !net.layers[layer].mixes;
            net.layers[layer].shares = 0;
            n_mixers += net.layers[layer].mixes;
        }
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        options.phase = S2_PREFILL;
        options.len_tok = 16 * (1 + (int64_t)s2_rng_below(&rng, 1000));
        const s2_pattern pattern = pattern_of(&arena, &net);
        const s2_sim one = s2_priced(&arena, &pattern, &options);
        options.len_tok *= 2;
        const s2_sim two = s2_priced(&arena, &pattern, &options);
        const int64_t kept = n_mixers * STATE_BYTES * options.batch;
        assert_int_equal(one.states.bytes, n_mixers * STATE_BYTES);
        assert_int_equal(two.states.bytes, one.states.bytes);
        assert_int_equal(two.kv_fullest - kept, 2 * (one.kv_fullest - kept));
        double scan_us = 0, flop = 4.0 * (double)net.mixer.n_elements * (double)n_mixers;
        for (int32_t part = 0; part < two.n_parts; part++)
            if (s2_part_is(&two.parts[part], "scan") || s2_part_is(&two.parts[part], "states"))
                scan_us += two.parts[part].time_us;
        assert_true(scan_us * (1 + 1e-9) >=
                    flop * (double)(options.len_tok * options.batch) / s2_gpu_flop_us(&options.gpu, false));
        s2_arena_release(&arena);
    }
}

/* GPUs divide heads, and groups where there are several; one group is copied to each, and what is odd is refused. */
static void gpus_share_the_mixers_by_heads_and_groups(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(200); nth++) {
        s2_rng rng = {s2_test_seed(20261205) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net net = drawn_net(&rng);
        net.layers[0].mixes = 1;
        const s2_pattern pattern = pattern_of(&arena, &net);
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        s2_sim sim;
        s2_diag diag = {0};
        const double whole = s2_end_to_end_weights(&options);
        options.n_ranks = 1 << s2_rng_below(&rng, 3);
        const int32_t n = options.n_ranks, n_mixers = s2_net_count(&net).n_mixers;
        net.mixer.n_shares = 2 + (int32_t)s2_rng_below(&rng, 7);
        net.mixer.n_groups = (int32_t)s2_rng_below(&rng, 4);
        net.mixer.grouped = net.mixer.n_groups > 0 ? net.mixer.weights / 3 : 0;
        const bool even =
            net.mixer.n_shares % n == 0 && (net.mixer.n_groups < 2 || net.mixer.n_groups % n == 0);
        const s2_status status = s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag);
        assert_int_equal(status, even ? S2_OK : S2_EINVAL);
        if (even) {
            const double copied =
                net.mixer.n_groups == 1 ? (double)net.mixer.grouped * n_mixers * (1 - 1.0 / n) : 0;
            s2_assert_close(s2_end_to_end_weights(&options), whole / n + copied, 1e-9 * whole);
        } else {
            assert_non_null(strstr(diag.msg, "mixers"));
        }
        s2_arena_release(&arena);
    }
}

/* A part that a checkpoint leaves whole weighs what it does in the type of activations. */
static void what_is_kept_weighs_as_activations_do(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(200); nth++) {
        s2_rng rng = {s2_test_seed(20261206) + (uint64_t)nth};
        s2_net net = drawn_net(&rng);
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        const double plain = (double)s2_end_to_end_weight_bytes(&options);
        net.stored = S2_WEIGHTS_NVFP4;
        for (int32_t part = 0; part < S2_N_STORED_PARTS; part++)
            net.kept[part] = 1;
        s2_assert_close((double)s2_end_to_end_weight_bytes(&options), plain, 1e-9 * plain);
        double saved = 0;
        for (int32_t part = 0; part < S2_N_STORED_PARTS; part++) {
            net.kept[part] = 0;
            saved += plain - (double)s2_end_to_end_weight_bytes(&options);
            net.kept[part] = 1;
        }
        for (int32_t part = 0; part < S2_N_STORED_PARTS; part++)
            net.kept[part] = 0;
        const double stored = (double)s2_end_to_end_weight_bytes(&options),
                     embeddings = (double)net.vocab * net.hidden + (double)(net.table + net.once);
        s2_assert_close(plain - stored, saved, 1e-9 * plain + S2_N_STORED_PARTS); /* in whole bytes */
        s2_assert_close(stored, (plain - 2 * embeddings) * 4.5 / 16 + 2 * embeddings, 1e-9 * plain);
        options.weights = S2_WEIGHTS_AS_DTYPE;
        s2_assert_close((double)s2_end_to_end_weight_bytes(&options), plain, 1e-9 * plain);
    }
}

/* A pattern of other layers has other matrices around it, of which nothing is known. */
static void patterns_of_other_layers_are_refused(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(100); nth++) {
        s2_rng rng = {s2_test_seed(20261204) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net net = drawn_net(&rng), other;
        for (int32_t at = 0; at < net.n_layers; at++)
            net.layers[at].shares = 0;
        other = net;
        s2_net_layer *const layer = &other.layers[s2_rng_below(&rng, (uint64_t)net.n_layers)];
        const bool attends = layer->attends, mixes = layer->mixes;
        layer->attends = !attends || !mixes;
        layer->mixes = attends || !mixes;
        const s2_pattern own = pattern_of(&arena, &net), changed = pattern_of(&arena, &other);
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        s2_sim sim;
        s2_diag diag = {0};
        assert_int_equal(s2_net_check_shape(&net, &own, &diag), S2_OK);
        assert_int_equal(s2_price(&arena, &changed, &options, S2_PRICE_WHOLE, &sim, &diag), S2_EUNSUPPORTED);
        assert_non_null(strstr(diag.msg, "s2 import"));
        s2_arena_release(&arena);
    }
}

/* ---- designs of one model */

static const s2_part *part_of(const s2_sim *sim, const char *name)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (s2_part_is(&sim->parts[part], name))
            return &sim->parts[part];
    return NULL;
}

/* Mixers, their states and all else around attention are the same, so what a design wins end to end it wins there. */
static void designs_of_a_hybrid_differ_by_their_attention_alone(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(40); nth++) {
        s2_rng rng = {s2_test_seed(20261205) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_net net = drawn_alike(&rng);
        s2_sim_options options = drawn_options(&rng, &net, &calibration);
        if (nth % 2 == 0)
            train(&rng, &options);
        const s2_pattern dense = pattern_of(&arena, &net),
                         sparse = pattern_reading(&arena, &net, "local 4 | stride 8 phase kv");
        const s2_sim a = s2_priced(&arena, &dense, &options), b = s2_priced(&arena, &sparse, &options);
        double apart = 0;
        assert_int_equal(a.n_parts, b.n_parts);
        for (int32_t part = 0; part < a.n_parts; part++) {
            const double us = a.parts[part].time_us - b.parts[part].time_us;
            assert_string_equal(a.parts[part].name, b.parts[part].name);
            if (strncmp(a.parts[part].name, "attention", 9) == 0)
                apart += us;
            else
                assert_true(us == 0);
        }
        s2_assert_close(a.end_to_end_us - b.end_to_end_us, apart, 1e-9 * a.end_to_end_us);
        s2_assert_close(b.end_to_end_dense_us, a.end_to_end_us, 1e-9 * a.end_to_end_us);
        assert_true(a.training.bytes == b.training.bytes && a.weight_bytes == b.weight_bytes);
        assert_int_equal(a.states.bytes, b.states.bytes);
        assert_true(a.kv.used - a.states.bytes * options.batch >= b.kv.used - b.states.bytes * options.batch);
        s2_arena_release(&arena);
    }
}

/* ---- training */

typedef struct twin_layer {
    double weights, kept, back; /* bytes of activations of one token */
} twin_layer;

/* Tensor by tensor, in elements of 2 bytes, on one GPU. */
static twin_layer twin_of(const s2_sim_options *options, int32_t layer)
{
    const s2_net *const net = options->net;
    const s2_net_layer own = net->layers[layer];
    const double hidden = net->hidden, tensors = net->gated ? 3 : 2, q = (double)net->n_heads * net->head_dim,
                 k = (double)net->n_kv_heads * net->head_dim,
                 attention = q + k + k + q + (double)net->beside / hidden,
                 packed = options->fusion == S2_EAGER ? attention / 2 : 0,
                 mixer = (double)net->mixer.weights / hidden, lse = 4.0 * net->n_heads,
                 experts = (double)net->n_active * net->ffn + net->mixture.shared_ffn +
                           2.0 * net->mixture.latent_dim / tensors,
                 plain = net->mixture.plain_ffn;
    double branch = 0, feed_forward = 0, widest = 0, gradients = 0;
    if (own.attends || own.mixes)
        branch += hidden + hidden; /* the norm's input and result */
    if (own.attends)
        branch += attention + packed;
    if (own.mixes)
        branch += mixer;
    for (uint32_t n = 0; n < own.n_plain; n++) {
        feed_forward += hidden + hidden + tensors * plain;
        widest = fmax(widest, tensors * plain);
    }
    for (uint32_t n = 0; n < own.n_mixtures; n++) {
        feed_forward += hidden + hidden + tensors * experts * (1 + own.is_wide);
        widest = fmax(widest, tensors * experts * (1 + own.is_wide));
    }
    gradients = net->gated ? widest / 3 * 2 : widest / 2;
    if (own.attends)
        gradients = fmax(gradients, attention - feed_forward);
    if (own.mixes)
        gradients = fmax(gradients, mixer - feed_forward);
    const double all = 2 * (branch + feed_forward) + (own.attends ? lse : 0);
    return (twin_layer){.weights = layer_weights(net, own),
                        .kept = options->recompute ? 2 * hidden : all,
                        .back = all + 2 * (hidden + fmax(gradients, 0))};
}

/* Every moment of a step: the loss, each layer as it goes back, the update. */
static double fullest_of(const s2_sim_options *options, double weights)
{
    const s2_net *const net = options->net;
    const double tokens = (double)(options->len_tok * options->batch), head = 2.0 * net->vocab * net->hidden,
                 logits = 12.0 * net->vocab * fmin(tokens, 4096);
    double kept = 0, gradients = head, most = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        kept += tokens * twin_of(options, layer).kept;
    most = gradients + kept + 6.0 * net->hidden * tokens + logits;
    for (int32_t layer = net->n_layers - 1; layer >= 0; layer--) {
        const twin_layer own = twin_of(options, layer);
        gradients += 2 * own.weights;
        kept -= tokens * own.kept;
        most = fmax(most, gradients + kept + tokens * own.back);
    }
    return 14 * weights + fmax(most, 2 * weights + 2.0 * net->hidden * tokens);
}

static void training_keeps_what_each_layer_does(void **state)
{
    (void)state;
    int64_t n_between = 0;
    for (int64_t nth = 0; nth < s2_test_cases(200); nth++) {
        s2_rng rng = {s2_test_seed(20261206) + (uint64_t)nth};
        const s2_net net = drawn_alike(&rng);
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        s2_sim sim = {0};
        bool mixes = false;
        train(&rng, &options);
        s2_training_price(&options, &sim);
        const double twin = fullest_of(&options, (double)s2_net_weights(&net));
        s2_assert_close(sim.training.bytes, twin, 1e-9 * twin);
        for (int32_t layer = 0; layer < net.n_layers; layer++)
            mixes = mixes || net.layers[layer].mixes;
        assert_int_equal(sim.training.at_least, mixes);
        assert_int_equal(sim.training.layer >= 0, sim.training.peak == S2_PEAK_LAYER ||
                                                      sim.training.peak == S2_PEAK_LAST_LAYER ||
                                                      sim.training.peak == S2_PEAK_FIRST_LAYER);
        n_between += sim.training.peak == S2_PEAK_LAYER;
    }
    assert_true(n_between > 0 || s2_test_sampled()); /* a few cases may have none */
}

/* A scan takes two products an element of state and token forward, and each has two backward. */
static void a_step_scans_forward_and_twice_as_much_backward(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(60); nth++) {
        s2_rng rng = {s2_test_seed(20261207) + (uint64_t)nth};
        s2_arena arena = {0};
        s2_net net = drawn_alike(&rng);
        int32_t n_mixers = 0;
        net.layers[0].mixes = 1;
        for (int32_t layer = 0; layer < net.n_layers; layer++)
            n_mixers += net.layers[layer].mixes;
        s2_sim_options options = drawn_options(&rng, &net, NULL);
        train(&rng, &options);
        const s2_pattern pattern = pattern_of(&arena, &net);
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        const double tokens = (double)(options.len_tok * options.batch), passes = options.recompute ? 4 : 3,
                     flop = 4 * passes * (double)net.mixer.n_elements * n_mixers * tokens,
                     us = part_of(&sim, "scan")->time_us + part_of(&sim, "states")->time_us,
                     products = 2 * passes * (double)net.mixer.weights * n_mixers * tokens /
                                s2_gpu_flop_us(&options.gpu, false);
        assert_true(us * (1 + 1e-9) >= flop / s2_gpu_flop_us(&options.gpu, false));
        assert_true(part_of(&sim, "mixers")->time_us * (1 + 1e-9) >= products);
        s2_arena_release(&arena);
    }
}

/* ---- search */

static void mark_mixers(const s2_net *net, uint64_t bits[1])
{
    bits[0] = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        bits[0] |= (uint64_t)(net->layers[layer].mixes && !net->layers[layer].attends) << layer;
}

static int32_t count_readers(const s2_net *net)
{
    int32_t n = 0;
    for (int32_t layer = 0; layer < net->n_layers; layer++)
        n += net->layers[layer].attends;
    return n;
}

/* Rules for all layers mean those with attention, and one for none of them is refused. */
static void rules_leave_mixers_as_they_are(void **state)
{
    (void)state;
    int64_t n_refused = 0;
    for (int64_t nth = 0; nth < s2_test_cases(300); nth++) {
        s2_rng rng = {s2_test_seed(20261208) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_net net = drawn_alike(&rng);
        uint64_t mixers[1];
        s2_buf text = {0};
        s2_pattern pattern;
        s2_diag diag = {0};
        mark_mixers(&net, mixers);
        put_layers(&net, NULL, &text);
        const int32_t every = 1 + (int32_t)s2_rng_below(&rng, (uint64_t)net.n_layers),
                      first = (int32_t)s2_rng_below(&rng, (uint64_t)every);
        s2_buf_printf(&text, "; layers all: local 2; layers %d::%d: dense", first, every);
        bool named = false;
        for (int32_t layer = first; layer < net.n_layers; layer += every)
            named = named || !(mixers[0] >> layer & 1);
        named = named && count_readers(&net) > 0;
        const s2_parse_options options = {.mixers = mixers};
        const s2_status status = s2_pattern_parse(&arena, text.data, text.len, &options, &pattern, &diag);
        assert_int_equal(status, named ? S2_OK : S2_EPARSE);
        n_refused += !named;
        for (int32_t layer = 0; named && layer < net.n_layers; layer++)
            if (mixers[0] >> layer & 1)
                s2_buf_printf(&text, "; layers %d: none", layer);
        if (named) {
            char own[S2_HASH_HEX], other[S2_HASH_HEX];
            const s2_pattern twin = s2_parsed(&arena, text.data);
            assert_int_equal(s2_pattern_hash(&pattern, own), S2_OK);
            assert_int_equal(s2_pattern_hash(&twin, other), S2_OK);
            assert_string_equal(own, other);
        } else {
            assert_non_null(strstr(diag.msg, "read no keys"));
        }
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    assert_true(n_refused > 0);
}

/* Each value of the front is what the simulator says of the pattern that the search hands over. */
static void a_search_finds_what_is_priced_of_its_designs(void **state)
{
    (void)state;
    static s2_calibration calibration;
    int64_t n_found = 0;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(20); nth++) {
        s2_rng rng = {s2_test_seed(20261209) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_net net = drawn_alike(&rng);
        uint64_t mixers[1];
        s2_buf text = {0};
        s2_space space;
        s2_search_state found;
        mark_mixers(&net, mixers);
        put_layers(&net, NULL, &text);
        s2_buf_puts(&text, "\nlayers all: local {1,2,4} | stride {2,4} phase kv");
        assert_int_equal(s2_space_parse(&arena, text.data, text.len, &space, NULL), S2_OK);
        s2_search search = {.space = &space, .n_by = 2, .n_jobs = 1, .mixers = mixers};
        search.options = drawn_options(&rng, &net, &calibration);
        search.options.len_tok = 64 * (1 + search.options.len_tok / 64);
        if (nth % 4 == 0)
            train(&rng, &search.options);
        const s2_phase phase = search.options.phase;
        search.by[0] = s2_objective_time(phase);
        search.by[1] = phase == S2_TRAIN ? S2_BY_UNREAD : S2_BY_KV_BYTES;
        s2_search_shard(&search, 1, 1);
        s2_search_state_init(&search, &found);
        assert_int_equal(s2_search_run(&search, &found, space.n_candidates, NULL, NULL), S2_OK);
        assert_true((found.front.n > 0) == (count_readers(&net) > 0));
        for (int32_t n = 0; n < found.front.n; n++) {
            const s2_point *const point = &found.front.points[n];
            s2_pattern pattern;
            assert_int_equal(s2_search_pattern(&search, point->index, &arena, &pattern, NULL), S2_OK);
            s2_sim_options options = search.options;
            if (!s2_sim_predicts(&options, phase))
                options.calibration = NULL;
            const s2_sim sim = s2_priced(&arena, &pattern, &options);
            s2_assert_close(point->value[0], phase == S2_TRAIN ? sim.plan_us : sim.time_us,
                            1e-9 * point->value[0]);
            if (phase != S2_TRAIN)
                assert_true(point->value[1] == (double)sim.kv.head_pages);
            assert_true(sim.end_to_end_us > sim.time_us);
            n_found++;
        }
        s2_search_state_release(&found);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    assert_true(n_found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hybrid_weighs_what_its_layers_do),
        cmocka_unit_test(layers_that_are_listed_alike_are_the_plain_model),
        cmocka_unit_test(attention_in_one_more_layer_never_costs_less),
        cmocka_unit_test(states_take_the_same_at_any_length),
        cmocka_unit_test(gpus_share_the_mixers_by_heads_and_groups),
        cmocka_unit_test(what_is_kept_weighs_as_activations_do),
        cmocka_unit_test(patterns_of_other_layers_are_refused),
        cmocka_unit_test(designs_of_a_hybrid_differ_by_their_attention_alone),
        cmocka_unit_test(training_keeps_what_each_layer_does),
        cmocka_unit_test(a_step_scans_forward_and_twice_as_much_backward),
        cmocka_unit_test(rules_leave_mixers_as_they_are),
        cmocka_unit_test(a_search_finds_what_is_priced_of_its_designs),
    };
    return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
