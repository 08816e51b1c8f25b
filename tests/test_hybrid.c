/*
 * Models of unlike layers: attention, mixers that keep a state, feed-forwards and experts, in any order. Each whole is
 * held against the sum of its layers, and against what plain models of the same layers cost.
 */
#include "tests/s2test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "sim/endtoend.h"
#include "sim/machine.h"
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

/* The pattern of its layers, dense where they attend. */
static s2_pattern pattern_of(s2_arena *arena, const s2_net *net)
{
    s2_buf text = {0};
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
        s2_buf_printf(&text, "; layers %d: %s", layer, net->layers[layer].attends ? "dense" : "none");
    }
    const s2_pattern pattern = s2_parsed(arena, text.data);
    s2_buf_release(&text);
    return pattern;
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
        s2_net listed = drawn_net(&rng), plain;
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
        const s2_sim hybrid = s2_priced(&arena, &pattern, &options);
        options.net = &plain;
        const s2_sim alike = s2_priced(&arena, &pattern, &options);
        assert_true(hybrid.end_to_end_us == alike.end_to_end_us && hybrid.n_parts == alike.n_parts);
        assert_true(hybrid.weight_bytes == alike.weight_bytes && hybrid.fit_batch == alike.fit_batch &&
                    hybrid.fit_len_tok == alike.fit_len_tok);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hybrid_weighs_what_its_layers_do),
        cmocka_unit_test(layers_that_are_listed_alike_are_the_plain_model),
        cmocka_unit_test(attention_in_one_more_layer_never_costs_less),
        cmocka_unit_test(states_take_the_same_at_any_length),
        cmocka_unit_test(patterns_of_other_layers_are_refused),
    };
    return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
