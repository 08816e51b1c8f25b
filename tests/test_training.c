/*
 * A training step on several GPUs: what each sends, keeps and is compared with, against twins that follow the
 * definitions one message, one matrix and one microbatch at a time.
 */
#include "tests/s2test.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "pattern/parse.h"
#include "sim/baseline.h"
#include "sim/training.h"
#include "tests/s2priced.h"

static const char *const models[] = {"llama-3.1-8b", "qwen2.5-0.5b", "gpt-oss-20b", "phi-2"};
enum { N_MODELS = sizeof models / sizeof *models, N_BODIES = 4 };
static const char *const bodies[N_BODIES] = {"dense", "local 4", "local 4 | stride 8 phase kv",
                                             "local 2 | stride 4 phase head+layer"};

static s2_pattern pattern_of(s2_arena *arena, const s2_net *net, const char *body, const char *last)
{
    s2_pattern pattern;
    s2_diag diag = {0};
    char text[300];
    snprintf(text, sizeof text,
             "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: %s; layers %d-%d: %s", net->n_layers,
             net->n_heads, net->n_kv_heads, net->head_dim, body, net->n_layers / 2, net->n_layers - 1, last);
    if (s2_pattern_parse(arena, text, strlen(text), NULL, &pattern, &diag) != S2_OK)
        fail_msg("%s: %s", text, diag.msg);
    return pattern;
}

static const s2_calibration *h200(void)
{
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    return &calibration;
}

/* A machine that trains; *net outlives the options. */
static s2_sim_options draw_machine(s2_rng *rng, s2_net *net)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_net_find(models[s2_rng_below(rng, N_MODELS)], net, NULL), S2_OK);
    options.net = net;
    options.calibration = h200();
    options.phase = S2_TRAIN;
    options.len_tok = 256 + (int64_t)s2_rng_below(rng, 1200);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 12);
    options.n_ranks = net->n_heads % 4 == 0 ? 1 << s2_rng_below(rng, 3) : 1;
    options.n_stages = s2_rng_below(rng, 2) == 0 ? 1 : 2 + (int32_t)s2_rng_below(rng, 4);
    options.n_context = s2_rng_below(rng, 2) == 0 ? 1 : 2 + (int32_t)s2_rng_below(rng, 3);
    options.cut = (s2_context_cut)s2_rng_below(rng, S2_N_CUTS);
    options.n_shards = 1 << s2_rng_below(rng, 4);
    options.n_nodes = s2_rng_below(rng, 2) == 0 ? 1 : options.n_shards;
    options.n_micro = options.n_stages > 1 ? (int32_t)s2_rng_below(rng, (uint64_t)options.batch + 1) : 0;
    options.recompute = s2_rng_below(rng, 2) == 0;
    return options;
}

static const s2_part *part_of(const s2_sim *sim, const char *name)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (strcmp(sim->parts[part].name, name) == 0)
            return &sim->parts[part];
    return NULL;
}

static double sent(const s2_sim *sim, const char *name)
{
    const s2_part *const part = part_of(sim, name);
    return part != NULL ? part->sent_bytes : 0;
}

static s2_training kept_by(const s2_sim_options *options)
{
    s2_sim sim = {0};
    s2_training_price(options, &sim);
    return sim.training;
}

/* ---- twins */

/* A ring of n GPUs: in each of n - 1 steps every one of them sends the n-th part to its neighbour. */
static double scattered(int32_t n, double bytes)
{
    double sum = 0;
    for (int32_t step = 1; step < n; step++)
        sum += bytes / n;
    return sum;
}

static double all_reduced(int32_t n, double bytes)
{
    const double sums = scattered(n, bytes), gathered = scattered(n, bytes);
    return sums + gathered;
}

/* One stage of a machine, and a microbatch there. */
typedef struct twin {
    int32_t first, end; /* layers */
    int32_t n_micro;
    double tokens; /* of a microbatch, on a GPU */
} twin;

static twin twin_of(const s2_sim_options *options, int32_t nth)
{
    const int32_t n = options->net->n_layers, p = options->n_stages;
    int64_t n_micro = options->n_micro > 0 ? options->n_micro : p > 1 ? options->batch : 1;
    n_micro = n_micro < options->batch ? n_micro : options->batch;
    const int64_t sequences = (options->batch + n_micro - 1) / n_micro,
                  tokens = (options->len_tok + options->n_context - 1) / options->n_context;
    return (twin){n * nth / p, n * (nth + 1) / p, (int32_t)n_micro, (double)(sequences * tokens)};
}

/* Weights of a layer on one GPU, matrix by matrix. */
static double layer_weights(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n = options->n_ranks, kv = net->n_kv_heads > n ? net->n_kv_heads / n : 1;
    const double q = (double)net->hidden * net->head_dim * net->n_heads / n,
                 k = (double)net->hidden * net->head_dim * kv, up = (double)net->hidden * net->ffn / n;
    double sum = q + k + k + q;
    for (int32_t expert = 0; expert < net->n_experts; expert++)
        sum += net->gated ? up + up + up : up + up;
    return sum;
}

static double stage_weights(const s2_sim_options *options, int32_t nth)
{
    const s2_net *const net = options->net;
    const twin own = twin_of(options, nth);
    const double embedding = (double)net->vocab * net->hidden / options->n_ranks;
    const bool is_first = nth == 0, is_last = nth == options->n_stages - 1;
    double sum = is_first ? embedding : 0;
    sum += is_last && !(net->tied && is_first) ? embedding : 0;
    for (int32_t layer = own.first; layer < own.end; layer++)
        sum += layer_weights(options);
    return sum;
}

/* The hidden state is summed after attention and after the feed-forward, its gradient before each. */
static double all_reduce_bytes(const s2_sim_options *options, int32_t nth)
{
    const twin own = twin_of(options, nth);
    const double state = all_reduced(options->n_ranks, 2 * own.tokens * options->net->hidden);
    double sum = 0;
    for (int32_t micro = 0; micro < own.n_micro; micro++)
        for (int32_t layer = own.first; layer < own.end; layer++) {
            sum += state + state;                          /* forward */
            sum += options->recompute ? state + state : 0; /* again */
            sum += state + state;                          /* backward */
        }
    return sum;
}

static double gather_bytes(const s2_sim_options *options, int32_t nth)
{
    const double once = scattered(options->n_shards, 2 * stage_weights(options, nth));
    double sum = 0;
    for (int32_t micro = 0; micro < twin_of(options, nth).n_micro; micro++)
        sum += once /* weights forward */ + once /* weights backward */ + once /* gradients */;
    return sum;
}

static double context_bytes(const s2_sim_options *options, int32_t nth)
{
    return all_reduced(options->n_context, 2 * stage_weights(options, nth) / options->n_shards);
}

/* K, V and going back also their gradients: each GPU has the n-th part of the tokens, and sends all but one on. */
static double ring_bytes(const s2_sim_options *options, int32_t nth)
{
    const s2_net *const net = options->net;
    const twin own = twin_of(options, nth);
    const int32_t kv = net->n_kv_heads > options->n_ranks ? net->n_kv_heads / options->n_ranks : 1;
    const int64_t sequences = (options->batch + own.n_micro - 1) / own.n_micro;
    const double whole = 2.0 * (double)(options->len_tok * sequences) * kv * net->head_dim,
                 once = scattered(options->n_context, whole);
    double sum = 0;
    for (int32_t layer = own.first; layer < own.end; layer++) {
        sum += once + once;                          /* K and V forward */
        sum += options->recompute ? once + once : 0; /* again */
        sum += once + once /* backward */ + once + once /* gradients */;
    }
    return sum * own.n_micro;
}

/* ---- what is sent */

static void assert_of_a_stage(double bytes, double (*twin_bytes)(const s2_sim_options *, int32_t),
                              const s2_sim_options *options)
{
    for (int32_t nth = 0; nth < options->n_stages; nth++) {
        const double own = twin_bytes(options, nth);
        if (bytes >= own * (1 - 1e-9) && bytes <= own * (1 + 1e-9))
            return;
    }
    fail_msg("%.17g bytes, %.17g on stage 0", bytes, twin_bytes(options, 0));
}

static void each_gpu_sends_what_its_collectives_define(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(12); n++) {
        s2_rng rng = {s2_test_seed(20261201) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        options.cut = S2_CUT_ZIGZAG; /* what contiguous parts send depends on the pattern (test_share.c) */
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", bodies[s2_rng_below(&rng, N_BODIES)]);
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        const int32_t at = sim.machine.slowest;
        const double reduced = all_reduce_bytes(&options, at), gathered = gather_bytes(&options, at),
                     round = ring_bytes(&options, at);
        s2_assert_close(sent(&sim, "all-reduce"), reduced, 1e-9 * reduced);
        s2_assert_close(sent(&sim, "gather, scatter"), gathered, 1e-9 * gathered);
        s2_assert_close(sim.machine.ring_bytes, round, 1e-9 * round);
        assert_of_a_stage(sent(&sim, "sum over contexts"), context_bytes, &options);
        /* and over a link of which eight tenths arrive, no exchange is faster than its bytes */
        for (int32_t part = 0; part < sim.n_parts; part++)
            if (strcmp(sim.parts[part].name, "between stages") != 0)
                assert_true(sim.parts[part].time_us * (1 + 1e-9) >=
                            sim.parts[part].sent_bytes / (options.gpu.nvlink_gb_s / 2 * 1e3 * 0.8));
        s2_arena_release(&arena);
    }
}

/* ---- bounds */

static void no_part_of_a_step_is_predicted_below_its_bound(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(8); n++) {
        s2_rng rng = {s2_test_seed(20261202) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", bodies[s2_rng_below(&rng, N_BODIES)]);
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        options.calibration = NULL;
        const s2_sim bounds = s2_priced(&arena, &pattern, &options);
        assert_true(bounds.end_to_end_us <= sim.end_to_end_us);
        assert_true(bounds.bound_us <= bounds.time_us * (1 + 1e-9) &&
                    sim.bound_us <= sim.time_us * (1 + 1e-9));
        if (options.n_stages > 1)
            goto next; /* which stage is slowest may differ */
        for (int32_t part = 0; part < bounds.n_parts; part++) {
            const s2_part *const own = part_of(&sim, bounds.parts[part].name);
            assert_non_null(own);
            if (strncmp(own->name, "attention", 9) != 0)
                assert_true(bounds.parts[part].time_us <= own->time_us);
        }
        /* forward reads and writes each hidden state at two norms, backward its gradient */
        const double passes = options.recompute ? 3 : 2, tokens = twin_of(&options, 0).tokens,
                     moved = 8.0 * net.n_layers * net.hidden * tokens * passes;
        const s2_part *const norms = part_of(&bounds, "norms");
        assert_true(norms->bound_by == S2_LAUNCH ||
                    norms->time_us <= moved / (options.gpu.hbm_gb_s * 1e3) * (1 + 1e-9));
    next:
        s2_arena_release(&arena);
    }
}

/* ---- the dense pattern beside it */

static void dense_takes_the_same_beside_every_pattern(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(12); n++) {
        s2_rng rng = {s2_test_seed(20261203) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        options.phase = n % 2 == 0 ? S2_TRAIN : (s2_phase)s2_rng_below(&rng, 2);
        options.recompute = options.phase == S2_TRAIN && options.recompute;
        options.n_context = options.phase == S2_DECODE ? 1 : options.n_context;
        options.fusion = s2_rng_below(&rng, 2) == 0 ? S2_FUSED : S2_EAGER;
        options.calibration = s2_rng_below(&rng, 3) == 0 ? NULL : options.calibration;
        /* a cache that spills */
        if (options.phase == S2_DECODE && options.n_stages == 1 && s2_rng_below(&rng, 2) == 0)
            options.gpu.hbm_gb = 1;
        const s2_pattern dense = pattern_of(&arena, &net, "dense", "dense");
        const s2_sim itself = s2_priced(&arena, &dense, &options);
        s2_assert_close(itself.end_to_end_us, itself.end_to_end_dense_us, 1e-9 * itself.end_to_end_us);
        s2_assert_close(itself.time_us, itself.dense_time_us, 1e-9 * itself.time_us);
        for (int32_t body = 1; body < N_BODIES; body++) {
            const s2_pattern pattern =
                pattern_of(&arena, &net, bodies[body], bodies[s2_rng_below(&rng, N_BODIES)]);
            const s2_sim sim = s2_priced(&arena, &pattern, &options);
            s2_assert_close(sim.end_to_end_dense_us, itself.end_to_end_us, 1e-9 * itself.end_to_end_us);
            s2_assert_close(sim.dense_time_us, itself.time_us, 1e-9 * itself.time_us);
        }
        s2_arena_release(&arena);
    }
}

/* The stage that is slowest with a pattern need not be the one that is slowest with dense attention. */
static void dense_waits_for_its_own_slowest_stage(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_net net;
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_net_find("llama-3.1-8b", &net, NULL), S2_OK);
    options.net = &net;
    options.len_tok = 65536;
    options.n_stages = 5;
    const s2_pattern dense = pattern_of(&arena, &net, "dense", "dense"),
                     early = pattern_of(&arena, &net, "dense", "local 4");
    for (int32_t n = 0; n < 2; n++) {
        options.phase = n == 0 ? S2_PREFILL : S2_TRAIN;
        options.batch = 4;
        const s2_sim itself = s2_priced(&arena, &dense, &options), sim = s2_priced(&arena, &early, &options);
        assert_true(sim.machine.slowest != itself.machine.slowest);
        s2_assert_close(sim.dense_time_us, itself.time_us, 1e-9 * itself.time_us);
        s2_assert_close(sim.end_to_end_dense_us, itself.end_to_end_us, 1e-9 * itself.end_to_end_us);
    }
    s2_arena_release(&arena);
}

/* The lines of each known method add up to its times. */
static void parts_of_known_methods_add_up(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_net net;
    const s2_baseline *baseline;
    s2_rng rng = {s2_test_seed(20261208)};
    s2_sim_options options = draw_machine(&rng, &net);
    options.n_stages = options.n_context = options.n_nodes = 1;
    options.n_micro = 0;
    options.len_tok = 9000;
    for (int32_t nth = 0; (baseline = s2_baseline_at(nth)) != NULL; nth++)
        for (int32_t n = 0; n <= S2_N_PHASES; n++) {
            s2_buf text = {0};
            s2_pattern pattern;
            s2_diag diag = {0};
            options.phase = n < S2_N_PHASES ? (s2_phase)n : S2_TRAIN;
            options.recompute = n == S2_N_PHASES;
            const s2_pattern like = pattern_of(&arena, &net, "local 4", "local 4");
            s2_baseline_text(baseline, &like, options.len_tok, &text);
            assert_int_equal(s2_pattern_parse(&arena, text.data, text.len, NULL, &pattern, &diag), S2_OK);
            s2_sim sim = s2_priced(&arena, &pattern, &options);
            s2_baseline_adjust(baseline, &pattern, &options, &sim);
            double all_us = 0, attention_us = 0;
            for (int32_t part = 0; part < sim.n_parts; part++) {
                const char *const name = sim.parts[part].name;
                all_us += sim.parts[part].time_us;
                if (strcmp(name, "attention") == 0 || strcmp(name, "attention backward") == 0 ||
                    strcmp(name, "selection") == 0 || strcmp(name, "host memory") == 0)
                    attention_us += sim.parts[part].time_us;
            }
            s2_assert_close(all_us, sim.end_to_end_us, 1e-9 * all_us);
            s2_assert_close(attention_us, sim.time_us, 1e-9 * attention_us);
            s2_buf_release(&text);
        }
    s2_arena_release(&arena);
}

/* ---- memory */

/* Bytes on a GPU, one thing after another; `most` at any time. */
typedef struct gpu_bytes {
    double now, most;
} gpu_bytes;

static void add_bytes(gpu_bytes *gpu, double bytes)
{
    gpu->now += bytes;
    gpu->most = gpu->now > gpu->most ? gpu->now : gpu->most;
}

static void pass(gpu_bytes *gpu, double bytes)
{
    add_bytes(gpu, bytes);
    gpu->now -= bytes;
}

/* ---- keys and values of other GPUs, array by array, in bytes for each token of one's own */

static double kv_token_bytes(const s2_sim_options *options)
{
    const int32_t n = options->n_ranks, kv = options->net->n_kv_heads;
    return 2.0 * 2 * options->net->head_dim * (kv > n ? kv / n : 1);
}

/* A ring: the part that is read, and the next one arrives. */
static void ring(gpu_bytes *gpu, int32_t n_context, double part)
{
    double before = 0;
    for (int32_t step = 1; step < n_context; step++) {
        add_bytes(gpu, part);
        gpu->now -= before;
        before = part;
    }
    gpu->now -= before;
}

/* Forward: gathered() of python/s2/exchange.py on the last GPU, sent all that is earlier. Leaves what attention reads. */
static gpu_bytes gather(const s2_sim_options *options)
{
    const double kv = kv_token_bytes(options), c = options->n_context;
    gpu_bytes gpu = {0, 0};
    if (c == 1)
        return gpu;
    if (options->cut == S2_CUT_ZIGZAG) {
        ring(&gpu, options->n_context, kv);
        return gpu;
    }
    add_bytes(&gpu, kv); /* stack */
    for (int32_t from = 0; from < options->n_context - 1; from++)
        add_bytes(&gpu, kv); /* rows of one GPU */
    add_bytes(&gpu, c * kv); /* pad */
    add_bytes(&gpu, c * kv); /* index_copy */
    gpu.now -= c * kv;       /* of what was copied */
    gpu.now -= kv + (c - 1) * kv;
    return gpu;
}

/* Going back, beyond what stays of Q, K, V and O and gradients of these: the array that was kept goes with them. */
static double scatter(const s2_sim_options *options)
{
    const double kv = kv_token_bytes(options), c = options->n_context,
                 q = 2.0 * options->net->n_heads * options->net->head_dim / options->n_ranks;
    gpu_bytes gpu = {0, 0};
    if (c == 1)
        return 0;
    if (options->cut == S2_CUT_ZIGZAG) {
        ring(&gpu, options->n_context, 2 * kv); /* keys and values, and their gradients */
        return gpu.most;
    }
    const double base =
        q + q + c * kv + q + q + kv; /* Q, O, the array, gradients of Q, O and of its own K and V */
    add_bytes(&gpu, q + q + c * kv + q + q);
    add_bytes(&gpu, c * kv);       /* gradients of all keys, and of all values */
    gpu.now -= q + q + c * kv + q; /* the kernel is done: that of Q stays */
    add_bytes(&gpu, c * kv);       /* of the array, from its keys */
    gpu.now -= c * kv / 2;
    add_bytes(&gpu, c * kv); /* and from its values */
    return gpu.most > base ? gpu.most - base : 0;
}

/* What a token leaves in a layer for its backward pass, in 16 bits; the row sums of attention in 32. */
static double layer_token_bytes(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n = options->n_ranks;
    const double q = (double)net->n_heads * net->head_dim / n,
                 k = (double)net->head_dim * (net->n_kv_heads > n ? net->n_kv_heads / n : 1),
                 up = (double)net->ffn / n;
    double elems =
        2.0 * net->hidden /* into two norms */ + 2.0 * net->hidden /* out of them */ + q + k + k + q;
    elems += options->fusion == S2_EAGER ? q + k : 0; /* one array of Q, K and V, and Q and K rotated */
    for (int32_t expert = 0; expert < net->n_active; expert++)
        elems += net->gated ? up + up + up : up + up;
    const double array = gather(options).now, own = array > 0 ? kv_token_bytes(options) : 0;
    return 2 * elems + array - own + 4.0 * net->n_heads / n;
}

/* The most that comes to that while a layer goes back: at the activation, or at attention. */
static double layer_token_work(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const int32_t n = options->n_ranks;
    const double q = (double)net->n_heads * net->head_dim / n,
                 k = (double)net->head_dim * (net->n_kv_heads > n ? net->n_kv_heads / n : 1),
                 up = (double)net->ffn / n * net->n_active;
    double activation = net->hidden, attention = net->hidden;
    activation -= up;                          /* the product is gone */
    activation += up;                          /* its gradient */
    activation += net->gated ? up + up : up;   /* those of what it was made of */
    attention -= net->gated ? 3 * up : 2 * up; /* all of the feed-forward is gone */
    attention -= 2.0 * net->hidden;            /* and the norm before it */
    attention += q + q + k + k + scatter(options) / 2;
    return 2 * (activation > attention ? activation : attention);
}

/* Attention forward: nothing after it is there yet. */
static double attention_token_bytes(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const double q = 2.0 * net->n_heads * net->head_dim / options->n_ranks, kv = kv_token_bytes(options),
                 hidden = 2.0 * net->hidden, packed = options->fusion == S2_EAGER ? q + kv / 2 : 0;
    return hidden + hidden + packed + q + kv + q + gather(options).most;
}

/* One microbatch goes back through a stage; gradients come with the first one and are added to by the others. */
static void go_back(const s2_sim_options *options, int32_t nth, bool first, gpu_bytes *gpu)
{
    const s2_net *const net = options->net;
    const twin own = twin_of(options, nth);
    const double shards = options->n_shards, kept = layer_token_bytes(options) * own.tokens,
                 input = 2 * own.tokens * net->hidden,
                 embedding = 2.0 * net->vocab * net->hidden / options->n_ranks / shards,
                 piece = own.tokens < 4096 ? own.tokens : 4096,
                 back = kept + layer_token_work(options) * own.tokens,
                 forth = attention_token_bytes(options) * own.tokens, most = back > forth ? back : forth;
    const bool has_head = nth == options->n_stages - 1, has_embedding = nth == 0;
    if (has_head) {
        add_bytes(gpu, first ? embedding : 0);
        pass(gpu, 3 * input + 3 * 4 * piece * net->vocab / options->n_ranks);
    }
    for (int32_t layer = own.end - 1; layer >= own.first; layer--) {
        add_bytes(gpu, first ? 2 * layer_weights(options) / shards : 0);
        pass(gpu, most - (options->recompute ? input : kept)); /* either way its own input is there already */
        gpu->now -= options->recompute ? input : kept;
    }
    if (has_embedding && first && !(net->tied && has_head))
        add_bytes(gpu, embedding);
    pass(gpu, input);
}

/* One forward, one backward: stage nth of p begins with p - 1 - nth forward passes, then does one of each in turn. */
static double stage_memory(const s2_sim_options *options, int32_t nth)
{
    const s2_net *const net = options->net;
    const twin own = twin_of(options, nth);
    const int32_t warm = options->n_stages - 1 - nth;
    const double layer = layer_token_bytes(options) * own.tokens, input = 2 * own.tokens * net->hidden,
                 embedding = (double)net->vocab * net->hidden / options->n_ranks;
    const bool has_embedding = nth == 0 || nth == options->n_stages - 1;
    double unit = layer_weights(options);
    unit = has_embedding && embedding > unit ? embedding : unit;
    gpu_bytes gpu = {0};
    add_bytes(&gpu, stage_weights(options, nth) * (2 + 4 + 4 + 4) / options->n_shards);
    add_bytes(&gpu, options->n_shards > 1 ? unit * (2 + 2) : 0);
    for (int32_t begun = 0, done = 0; done < own.n_micro; done++) {
        for (; begun < own.n_micro && begun <= done + warm; begun++)
            add_bytes(&gpu, (own.end - own.first) * (options->recompute ? input : layer));
        go_back(options, nth, done == 0, &gpu);
    }
    return gpu.most;
}

static void a_step_keeps_what_its_stages_have_in_flight(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_rng rng = {s2_test_seed(20261204) + (uint64_t)n};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        options.fusion = s2_rng_below(&rng, 2) == 0 ? S2_FUSED : S2_EAGER;
        options.len_tok *= s2_rng_below(&rng, 3) == 0 ? 20 : 1;
        const s2_training training = kept_by(&options);
        double most = 0;
        for (int32_t nth = 0; nth < options.n_stages; nth++) {
            const double own = stage_memory(&options, nth);
            most = own > most ? own : most;
        }
        s2_assert_close(training.bytes, most, 1e-9 * most);
        s2_assert_close(training.bytes, training.state_bytes + training.activation_bytes, 1);
        s2_assert_close(training.activation_bytes,
                        training.kept_bytes + training.working_bytes + training.logit_bytes, 1);
        assert_true(training.gathered_bytes + training.gradient_bytes <= training.state_bytes);
    }
}

static void more_gpus_add_nothing_to_what_one_keeps(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(400); n++) {
        s2_rng rng = {s2_test_seed(20261205) + (uint64_t)n};
        s2_net net;
        const s2_sim_options options = draw_machine(&rng, &net);
        s2_sim_options more[5] = {options, options, options, options, options};
        const s2_training one = kept_by(&options);
        more[0].n_shards *= 2;
        more[1].n_ranks *= 2;
        more[2].n_context *= 2;
        more[3].n_stages *= net.n_layers % (2 * options.n_stages) == 0 ? 2 : 1;
        more[4].n_nodes *= 2;
        for (size_t m = 0; m < 5; m++) {
            const s2_training many = kept_by(&more[m]);
            if (many.bytes > one.bytes * (1 + 1e-9))
                fail_msg("%zu: %.17g bytes instead of %.17g", m, many.bytes, one.bytes);
        }
    }
}

/* In prefill a layer holds most in attention, with what it is sent, or in its feed-forward; what fits knows it. */
static void what_a_context_is_sent_is_in_memory(void **state)
{
    (void)state;
    int32_t n_narrow = 0;
    for (int64_t n = 0; n < s2_test_cases(24); n++) {
        s2_rng rng = {s2_test_seed(20261208) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        options.phase = S2_PREFILL;
        options.n_context = 2 + (int32_t)(n % 7);
        options.fusion = s2_rng_below(&rng, 2) == 0 ? S2_FUSED : S2_EAGER;
        options.n_stages = options.n_shards = options.n_nodes = 1;
        options.n_micro = 0;
        options.recompute = false;
        options.calibration = NULL;
        options.len_tok = options.n_context * (64 + (int64_t)s2_rng_below(&rng, 4000));
        const double tokens = (double)(options.len_tok / options.n_context * options.batch),
                     attention = attention_token_bytes(&options) * tokens,
                     inner = 2.0 * net.ffn / options.n_ranks * net.n_active * (net.gated ? 3 : 2) * tokens,
                     around = 2.0 * net.hidden * (options.fusion == S2_EAGER ? 4 : 2) * tokens,
                     before = options.fusion == S2_EAGER
                                  ? attention - gather(&options).most * tokens - around / 2
                                  : 0,
                     feed_forward = inner + around + before, pass = s2_sim_activation_bytes(&options),
                     rest = pass - (attention > feed_forward ? attention : feed_forward);
        n_narrow += attention > feed_forward;
        assert_true(rest >= -1 && rest < 1e9); /* logits, and sums of parts */
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", "local 4");
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        const double each = (double)sim.weight_bytes + pass;
        options.gpu.hbm_gb = (each - pass * 0.01) / (1e6 * (1000 - options.reserved_permille));
        assert_true(s2_priced(&arena, &pattern, &options).fit_batch < options.batch);
        options.gpu.hbm_gb = (each + 1.01 * (double)sim.kv_peak) / (1e6 * (1000 - options.reserved_permille));
        assert_true(s2_priced(&arena, &pattern, &options).fit_batch >= options.batch);
        s2_arena_release(&arena);
    }
    assert_true(n_narrow > 0);
}

/* ---- what fits */

/* Whatever is asked, what is said to fit fits, one more does not, and less does. */
static void what_fits_does_not_depend_on_what_is_asked(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(8); n++) {
        s2_rng rng = {s2_test_seed(20261206) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net);
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", "local 4");
        options.calibration = NULL;
        options.gpu.hbm_gb = 10 + (double)s2_rng_below(&rng, 100);
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        s2_sim_options asked = options;
        asked.batch = 1 + (int64_t)s2_rng_below(&rng, 30);
        assert_int_equal(s2_priced(&arena, &pattern, &asked).fit_batch, sim.fit_batch);
        assert_true((sim.fit_batch >= options.batch) == s2_sim_training_fits(&options));
        assert_true((sim.fit_batch >= options.batch) == (sim.fit_len_tok >= options.len_tok));
        for (int64_t d = -1; d <= 1; d++) {
            asked = options;
            asked.batch = sim.fit_batch + d;
            if (asked.batch >= 1 && asked.batch <= S2_LIMIT_BATCH)
                assert_true(s2_sim_training_fits(&asked) == (d <= 0));
            asked = options;
            asked.len_tok = sim.fit_len_tok + d;
            if (asked.len_tok >= 2 * options.n_context && asked.len_tok <= S2_LIMIT_CONTEXT_TOK)
                assert_true(s2_sim_training_fits(&asked) == (d <= 0));
        }
        s2_arena_release(&arena);
    }
}

static int64_t gpus_of(const s2_sim_options *options)
{
    return (int64_t)options->n_ranks * options->n_context * options->n_stages * options->n_shards;
}

/* What is advised can be asked for and fits, and no machine of half as many GPUs does. */
static void an_advised_machine_has_room_and_no_smaller_one_has(void **state)
{
    (void)state;
    int32_t n_advised = 0;
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261207) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim_options options = draw_machine(&rng, &net), own, less;
        options.n_ranks = options.n_stages = options.n_context = options.n_shards = options.n_nodes = 1;
        options.n_micro = 0;
        options.len_tok *= 32;
        options.gpu.hbm_gb = 4 + (double)s2_rng_below(&rng, 40);
        if (!s2_sim_training_room(&options, options.recompute, true, &own))
            continue;
        n_advised++;
        assert_true(s2_sim_training_fits(&own));
        assert_true(own.recompute == options.recompute && own.batch == options.batch);
        for (less = options; less.n_ranks <= net.n_kv_heads && net.n_kv_heads % less.n_ranks == 0;
             less.n_ranks *= 2)
            for (less.n_stages = 1; less.n_stages <= net.n_layers; less.n_stages *= 2)
                for (less.n_context = 1; less.n_context <= 64; less.n_context *= 2)
                    for (less.n_shards = 1; gpus_of(&less) < gpus_of(&own); less.n_shards *= 2)
                        assert_false(s2_sim_training_fits(&less));
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", "local 4");
        own.calibration = NULL;
        if (n_advised <= 3)
            assert_true(s2_priced(&arena, &pattern, &own).fit_batch >= own.batch);
        s2_arena_release(&arena);
    }
    assert_true(n_advised > 0);
}

/* Of any machine, model or none, a cache of another type than the rest is refused, whose type it may say all the same. */
static void training_keeps_no_cache_of_its_own_type(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261130) + (uint64_t)n};
        s2_arena arena = {0};
        s2_net net;
        s2_sim sim;
        s2_sim_options options = draw_machine(&rng, &net);
        const s2_pattern pattern = pattern_of(&arena, &net, "local 4", "local 4");
        options.net = s2_rng_below(&rng, 2) == 0 ? NULL : &net;
        options.n_stages = options.n_context = 1;
        options.n_micro = 0;
        options.cut = S2_CUT_CONTIGUOUS;
        options.n_nodes = options.n_shards = options.n_ranks = 1;
        options.cache = (s2_cache_type)s2_rng_below(&rng, S2_N_CACHE_TYPES);
        const s2_status expected = s2_sim_cache_bytes(&options) == 2 ? S2_OK : S2_EINVAL;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, NULL), expected);
        s2_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_keeps_no_cache_of_its_own_type),
        cmocka_unit_test(each_gpu_sends_what_its_collectives_define),
        cmocka_unit_test(no_part_of_a_step_is_predicted_below_its_bound),
        cmocka_unit_test(dense_takes_the_same_beside_every_pattern),
        cmocka_unit_test(dense_waits_for_its_own_slowest_stage),
        cmocka_unit_test(parts_of_known_methods_add_up),
        cmocka_unit_test(a_step_keeps_what_its_stages_have_in_flight),
        cmocka_unit_test(more_gpus_add_nothing_to_what_one_keeps),
        cmocka_unit_test(what_a_context_is_sent_is_in_memory),
        cmocka_unit_test(what_fits_does_not_depend_on_what_is_asked),
        cmocka_unit_test(an_advised_machine_has_room_and_no_smaller_one_has),
    };
    return cmocka_run_group_tests_name("training", tests, NULL, NULL);
}
