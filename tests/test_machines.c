/*
 * Whole models on one GPU and on several: what was measured of them, and how the parts of a page follow from
 * one another.
 */
#include "tests/s2test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/text.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "sim/capacity.h"
#include "sim/endtoend.h"
#include "sim/experts.h"
#include "sim/inner.h"
#include "sim/links.h"
#include "sim/machine.h"
#include "sim/net.h"
#include "sim/price.h"
#include "sim/scores.h"
#include "sim/share.h"
#include "sim/training.h"
#include "tests/s2parsed.h"
#include "tests/s2priced.h"

static s2_sim_options defaults(void)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    return options;
}

static s2_net net_of(const char *name)
{
    static const s2_net small = {.name = "1.3b",
                                 .n_layers = 24,
                                 .hidden = 2048,
                                 .n_heads = 16,
                                 .n_kv_heads = 16,
                                 .head_dim = 128,
                                 .ffn = 5504,
                                 .vocab = 50304,
                                 .gated = true,
                                 .n_experts = 1,
                                 .n_active = 1};
    s2_net net;
    s2_diag diag = {0};
    if (strcmp(name, small.name) == 0)
        return small;
    if (s2_net_find(name, &net, &diag) != S2_OK)
        fail_msg("%s", diag.msg);
    return net;
}

static s2_sim priced(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options)
{
    const s2_sim sim = s2_priced(arena, pattern, options);
    if (options->calibration == NULL) /* what is not predicted is the plan at peak rates */
        s2_assert_close(sim.time_us, sim.plan_us, 1e-9 * sim.plan_us);
    return sim;
}

static double part_us(const s2_sim *sim, const char *name)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (strcmp(sim->parts[part].name, name) == 0)
            return sim->parts[part].time_us;
    return 0;
}

/* ---- measured */

/* What follows "key": in a line of a file of rows, or NULL. */
static const char *value_in(const char *row, const char *key)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *const at = strstr(row, quoted);
    return at != NULL ? at + strlen(quoted) : NULL;
}

/* The string under a key, "" without one. */
static const char *text_in(const char *row, const char *key, char out[80])
{
    const char *const value = value_in(row, key);
    const size_t n = value != NULL && *value == '"' ? strcspn(value + 1, "\"") : 0;
    snprintf(out, 80, "%.*s", (int)n, n > 0 ? value + 1 : "");
    return out;
}

static double number_in(const char *row, const char *key, double otherwise)
{
    const char *const value = value_in(row, key);
    return value != NULL ? strtod(value, NULL) : otherwise;
}

/* Our own kernels in one graph, dealt out as numbered; the host of the others takes longer than the GPU, or
 * somebody else's kernels run attention. */
static bool is_predicted(const char *row)
{
    char way[80];
    text_in(row, "way", way);
    return value_in(row, "kernels_s") != NULL && strstr(way, "cuDNN") == NULL &&
           strstr(way, "CuTe") == NULL && strstr(way, "no graph") == NULL && strstr(way, "by work") == NULL;
}

static s2_pattern pattern_of(s2_arena *arena, const char *row, const s2_net *net)
{
    char text[400];
    char body[80];
    text_in(row, "pattern", body);
    snprintf(text, sizeof text, "layers %d; heads %d; kv-heads %d; head-dim %d; block 64; %s%s",
             net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim,
             strncmp(body, "kv ", 3) == 0 ? "" : "layers all: ", body);
    return s2_parsed(arena, text);
}

static s2_sim predicted_row(s2_arena *arena, const char *row, const s2_calibration *calibration)
{
    char figure[80], model[80];
    text_in(row, "figure", figure);
    const s2_net net = net_of(text_in(row, "model", model));
    const s2_pattern pattern = pattern_of(arena, row, &net);
    s2_sim_options options = defaults();
    options.net = &net;
    options.calibration = calibration;
    options.fusion = S2_EAGER;
    options.phase = strcmp(figure, "train") == 0    ? S2_TRAIN
                    : strcmp(figure, "decode") == 0 ? S2_DECODE
                                                    : S2_PREFILL;
    options.len_tok = (int64_t)number_in(row, "tokens", 0);
    options.batch = (int64_t)number_in(row, "batch", 1);
    const int32_t n_gpus = (int32_t)number_in(row, "ranks", 1);
    *(value_in(row, "cut_by") != NULL ? &options.n_context : &options.n_ranks) = n_gpus;
    if (strstr(row, "NVIDIA H100") != NULL)
        assert_int_equal(s2_gpu_find("h100-sxm", &options.gpu, NULL), S2_OK);
    options.page_tok = 64;
    options.recompute =
        strstr(row, "\"recompute\": true") != NULL ||
        strstr(row, "\"recompute\": \"one array\"") != NULL; /* what is kept lies in one array */
    return priced(arena, &pattern, &options);
}

static void whole_models_take_what_was_measured_within_ten_percent(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *text;
    size_t n_bytes;
    int32_t n = 0;
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    assert_int_equal(s2_calibration_find("h200", calibration), S2_OK);
    assert_int_equal(s2_bytes_read(&arena, "docs/results/h200-models.jsonl", 1 << 20, &text, &n_bytes),
                     S2_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (!is_predicted(line) || (n++ % 4 > 0 && s2_test_sampled()))
            continue;
        const double measured = number_in(line, "s", 0),
                     predicted = predicted_row(&arena, line, calibration).end_to_end_us / 1e6;
        if (!(predicted > 0.9 * measured && predicted < 1.1 * measured))
            fail_msg("%.4g s predicted: %s", predicted, line);
    }
    assert_true(n >= 20);
    s2_arena_release(&arena);
}

/*
 * The bytes of a row's step. Where "recompute" is true, the program kept the summands of each layer's input apart,
 * and the layer that goes back made their sum.
 */
static double training_gib(s2_arena *arena, const char *row)
{
    const s2_sim sim = predicted_row(arena, row, NULL);
    const s2_training *const training = &sim.training;
    const bool apart = strstr(row, "\"recompute\": true") != NULL;
    char model[80];
    const double sum = 2.0 * number_in(row, "tokens", 0) * net_of(text_in(row, "model", model)).hidden;
    return (training->bytes + (apart ? training->kept_bytes + sum : 0)) / 0x1p30;
}

/*
 * Two GPUs with a contiguous part each: a step, and to the byte what they sent. Of two runs the mean; the one that is
 * farthest off had runs 17 % apart.
 */
static void a_context_of_two_takes_and_sends_what_was_measured(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *text, figure[80];
    size_t n_bytes;
    int32_t n = 0;
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    assert_int_equal(s2_calibration_find("h100-sxm", calibration), S2_OK);
    assert_int_equal(s2_bytes_read(&arena, "docs/results/h100-ranks.jsonl", 1 << 20, &text, &n_bytes), S2_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), n++) {
        const s2_sim sim = predicted_row(&arena, line, calibration);
        const double measured = number_in(line, "mean_s", 0), predicted = sim.end_to_end_us / 1e6;
        assert_string_equal(text_in(line, "cut_by", figure), "tokens");
        if (!(fabs(predicted / measured - 1) < 0.1))
            fail_msg("%.4g s predicted: %s", predicted, line);
        const char *const sent = value_in(line, "sent_bytes");
        s2_assert_close(sim.machine.ring_bytes, strtod(sent + 1, NULL), 0.5);
    }
    assert_int_equal(n, 6);
    s2_arena_release(&arena);
}

static void training_steps_keep_what_was_measured_within_two_percent(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *text, figure[80];
    size_t n_bytes;
    int32_t n = 0;
    assert_int_equal(s2_bytes_read(&arena, "docs/results/h200-models.jsonl", 1 << 20, &text, &n_bytes),
                     S2_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strcmp(text_in(line, "figure", figure), "train") != 0 || value_in(line, "recompute") == NULL ||
            value_in(line, "failed") != NULL)
            continue;
        const double measured = number_in(line, "peak_gib", 0), predicted = training_gib(&arena, line);
        if (!(fabs(predicted / measured - 1) < 0.02))
            fail_msg("%.4g GiB predicted: %s", predicted, line);
        n++;
    }
    assert_true(n >= 20);
    s2_arena_release(&arena);
}

/* What is wrong for each token shows between two lengths, where what is wrong for each weight does not. */
static void more_tokens_keep_what_more_was_measured(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *text, model[80], first_model[2][80] = {"", ""};
    double first_measured[2] = {0}, first_predicted[2] = {0};
    size_t n_bytes;
    int32_t n = 0;
    assert_int_equal(s2_bytes_read(&arena, "docs/results/h200-models.jsonl", 1 << 20, &text, &n_bytes),
                     S2_OK);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, "\"recompute\": \"one array\"") == NULL || value_in(line, "failed") != NULL)
            continue;
        const double measured = number_in(line, "peak_gib", 0), predicted = training_gib(&arena, line);
        int32_t at = 0;
        text_in(line, "model", model);
        while (first_model[at][0] != '\0' && strcmp(first_model[at], model) != 0)
            assert_true(++at < 2);
        if (first_model[at][0] == '\0') {
            strcpy(first_model[at], model);
            first_measured[at] = measured;
            first_predicted[at] = predicted;
        }
        const double more = measured - first_measured[at];
        if (fabs(more) < 1)
            continue;
        if (fabs((predicted - first_predicted[at]) / more - 1) > 0.01)
            fail_msg("%.4g GiB more predicted, %.4g measured: %s", predicted - first_predicted[at], more,
                     line);
        n++;
    }
    assert_true(n >= 3);
    s2_arena_release(&arena);
}

/* ---- scores that are capped, heads with sinks */

static s2_model_scores scores_in(const char *row)
{
    return (s2_model_scores){number_in(row, "cap", 0), strstr(row, "\"sinks\": true") != NULL};
}

static s2_sim scored(s2_arena *arena, const char *row, s2_model_scores scores,
                     const s2_calibration *calibration)
{
    char rules[80], text[200];
    const bool backward = strstr(row, "\"row\": \"backward\"") != NULL;
    snprintf(text, sizeof text, "heads %.0f; kv-heads %.0f; head-dim %.0f; block 64; layers all: %s",
             number_in(row, "heads", 0), number_in(row, "kv_heads", 0), number_in(row, "head_dim", 0),
             text_in(row, "rules", rules));
    const s2_pattern pattern = s2_parsed(arena, text);
    s2_sim_options options = defaults();
    options.calibration = calibration;
    options.scores = &scores;
    options.phase = backward ? S2_TRAIN : S2_PREFILL;
    options.len_tok = (int64_t)number_in(row, "n_tok", 0);
    return priced(arena, &pattern, &options);
}

static const char *row_of(char *rows[], int32_t n, const char *like, const char *pattern)
{
    for (int32_t r = 0; r < n; r++) {
        char own[80], name[80], row[80];
        text_in(like, "row", row);
        if (strcmp(text_in(rows[r], "pattern", name), pattern) == 0 &&
            strcmp(text_in(rows[r], "row", own), row) == 0 &&
            number_in(rows[r], "n_tok", 0) == number_in(like, "n_tok", 0))
            return rows[r];
    }
    return NULL;
}

static double pass_us(const s2_sim *sim, const char *row)
{
    return part_us(sim, strstr(row, "\"row\": \"backward\"") != NULL ? "attention backward" : "attention");
}

/* The rows are of kernels for any layer; those of short windows were judged with sinks among others. */
static void drop_short_windows(s2_time_model *model)
{
    int32_t n = 0;
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (!s2_model_is_short(&model->kernels[k]))
            model->kernels[n++] = model->kernels[k];
    model->n_kernels = n;
}

/* Both constants, on rows of which half were fitted, and where nothing can be predicted the bound alone. */
static void capped_scores_and_sinks_take_what_was_measured(void **state)
{
    (void)state;
    s2_arena arena = {0};
    char *text, *rows[40];
    size_t n_bytes;
    int32_t n = 0, n_pairs = 0;
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    assert_int_equal(s2_calibration_find("h200", calibration), S2_OK);
    drop_short_windows(&calibration->model);
    assert_int_equal(s2_bytes_read(&arena, "docs/results/h200-scores.jsonl", 1 << 20, &text, &n_bytes),
                     S2_OK);
    for (char *line = strtok(text, "\n"); line != NULL && n < 40; line = strtok(NULL, "\n"))
        if (number_in(line, "sustained_ms", 0) > 0)
            rows[n++] = line;
    for (int32_t r = 0; r < n; r++) {
        const s2_model_scores scores = scores_in(rows[r]);
        const double measured_us = number_in(rows[r], "sustained_ms", 0) * 1e3;
        const s2_sim sim = scored(&arena, rows[r], scores, calibration);
        const double bar = s2_scores_error_pct(scores) / 100;
        assert_true(sim.bound_us < (sim.predicted ? pass_us(&sim, rows[r]) * 4 : measured_us));
        if (!sim.predicted || bar == 0)
            continue;
        assert_int_equal(sim.scored, S2_SCORED_MEASURED);
        const char *const plain = row_of(rows, n, rows[r], scores.sinks ? "window128" : "gemma2_uncapped");
        double with = pass_us(&sim, rows[r]) / measured_us, without = 1;
        if (plain != NULL && number_in(rows[r], "head_dim", 0) != 256) {
            const s2_sim other = scored(&arena, plain, (s2_model_scores){0}, calibration);
            without = pass_us(&other, plain) / (number_in(plain, "sustained_ms", 0) * 1e3);
        }
        if (fabs(with / without - 1) > bar)
            fail_msg("%.4f where without %.4f: %s", with, without, rows[r]);
        n_pairs++;
    }
    assert_int_equal(n_pairs, 7);
    s2_arena_release(&arena);
}

static const char *const scored_bodies[] = {"dense", "local 4", "local 2 | stride 4 phase head",
                                            "local 100t"};

/* They only add time, change no count and no bound, and every road to the constants is the same. */
static void caps_and_sinks_add_time_and_nothing_else(void **state)
{
    (void)state;
    static s2_calibration calibration, other;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_calibration_find("h100-sxm", &other), S2_OK);
    const s2_net nets[] = {net_of("gemma-2-27b"), net_of("gpt-oss-20b"), net_of("gemma-2-9b")};
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261126) + (uint64_t)n};
        s2_arena arena = {0};
        char text[200];
        s2_net net = nets[s2_rng_below(&rng, 3)];
        const s2_model_scores scores = {net.cap, net.sinks}, none = {0, false};
        snprintf(text, sizeof text, "model %s; layers all: %s", net.name,
                 scored_bodies[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_sim_options options = defaults();
        options.calibration = s2_rng_below(&rng, 2) == 0 ? &calibration : &other;
        options.len_tok = 100 + (int64_t)s2_rng_below(&rng, 6000);
        options.phase = (s2_phase)s2_rng_below(&rng, S2_N_PHASES);
        options.n_ranks = 1 << s2_rng_below(&rng, 2);
        if (options.phase == S2_PREFILL)
            options.n_context = 1 << s2_rng_below(&rng, 2);
        const s2_sim by_model = priced(&arena, &pattern, &options);
        options.scores = &none;
        const s2_sim without = priced(&arena, &pattern, &options);
        options.scores = &scores;
        const s2_sim given = priced(&arena, &pattern, &options);
        options.scores = &none;
        options.net = &net;
        const s2_sim by_net = priced(&arena, &pattern, &options);
        const bool bound = net.cap > 0 && options.phase == S2_TRAIN, decode = options.phase == S2_DECODE;
        assert_true(given.time_us == by_model.time_us && by_net.time_us == by_model.time_us);
        assert_true(bound ? !by_model.predicted : by_model.predicted == without.predicted);
        /* a short item waits for its first rows, whatever it computes of them */
        const double least = bound || decode || options.len_tok < 3000 ? 1 : 1.0001;
        assert_true(bound || by_model.time_us >= without.time_us);
        assert_true(bound || by_model.dense_time_us >= without.dense_time_us * least);
        assert_true(!decode || by_model.time_us == without.time_us);
        assert_true(by_model.bound_us == without.bound_us && by_model.plan_us == without.plan_us);
        assert_memory_equal(&by_model.counts, &without.counts, sizeof without.counts);
        assert_int_equal(without.scored, S2_SCORED_NONE);
        assert_int_equal(by_model.scored, bound    ? S2_SCORED_BOUND
                                          : decode ? S2_SCORED_NOT
                                          : options.calibration == &other || options.n_context > 1
                                              ? by_model.scored
                                              : S2_SCORED_MEASURED);
        assert_true(by_model.scored != S2_SCORED_MEASURED || options.calibration == &calibration);
        assert_true(!by_model.predicted || by_model.scored == S2_SCORED_MEASURED || by_model.error.allowed);
        s2_arena_release(&arena);
    }
}

/* ---- around attention */

static void eager_kernels_move_more_and_leave_products_alone(void **state)
{
    (void)state;
    static const char *const moved[] = {"norms", "rotary", "rotary, cache", "activation", "loss"},
                             *const others[] = {"attention", "projections", "feed-forward",
                                                "lm head",   "all-reduce",  "optimizer"};
    static const char *const models[] = {"llama-3.1-8b", "gpt-oss-20b", "llama-2-7b"};
    s2_arena arena = {0};
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    assert_int_equal(s2_calibration_find("h200", calibration), S2_OK);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (s2_phase phase = 0; phase < S2_N_PHASES; phase++)
            for (int32_t n_ranks = 1; n_ranks <= 8; n_ranks *= 2) {
                const s2_net net = net_of(models[m]);
                char text[200];
                snprintf(text, sizeof text,
                         "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: local 4", net.n_layers,
                         net.n_heads, net.n_kv_heads, net.head_dim);
                const s2_pattern pattern = s2_parsed(&arena, text);
                s2_sim_options options = defaults();
                options.net = &net;
                options.calibration = calibration;
                options.phase = phase;
                options.n_ranks = n_ranks;
                const s2_sim fused = priced(&arena, &pattern, &options);
                options.fusion = S2_EAGER;
                const s2_sim eager = priced(&arena, &pattern, &options);
                options.calibration = NULL;
                const s2_sim bounds = priced(&arena, &pattern, &options);
                for (size_t p = 0; p < sizeof moved / sizeof *moved; p++)
                    if (part_us(&fused, moved[p]) > 0)
                        assert_true(part_us(&eager, moved[p]) > part_us(&fused, moved[p]) ||
                                    phase == S2_DECODE);
                for (size_t p = 0; p < sizeof others / sizeof *others; p++)
                    assert_true(part_us(&eager, others[p]) == part_us(&fused, others[p]));
                assert_true(eager.time_us == fused.time_us);
                assert_true(bounds.end_to_end_us < fused.end_to_end_us);
                assert_true(part_us(&bounds, "norms") <= part_us(&fused, "norms"));
            }
    s2_arena_release(&arena);
}

/* The type of Q, K and V is not that of the hidden state, which the products in 8 bits read and write in 16. */
static void a_hidden_state_moves_alike_in_eight_bits(void **state)
{
    (void)state;
    static const char *const moved[] = {"norms", "activation", "loss", "all-reduce"};
    s2_arena arena = {0};
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    const s2_net net = net_of("llama-3.1-8b");
    const s2_pattern pattern = s2_parsed(&arena, "model llama-3.1-8b; all: local 4");
    assert_int_equal(s2_calibration_find("h200", calibration), S2_OK);
    for (s2_phase phase = 0; phase < S2_N_PHASES; phase++)
        for (int32_t way = 0; way < 4; way++) {
            s2_sim_options options = defaults();
            options.net = &net;
            options.phase = phase;
            options.n_ranks = 2;
            options.fusion = way % 2 == 0 ? S2_FUSED : S2_EAGER;
            options.calibration = way < 2 ? calibration : NULL;
            const s2_sim sixteen = priced(&arena, &pattern, &options);
            options.dtype = S2_F8;
            const s2_sim eight = priced(&arena, &pattern, &options);
            for (size_t p = 0; p < sizeof moved / sizeof *moved; p++)
                assert_true(part_us(&eight, moved[p]) == part_us(&sixteen, moved[p]));
            const char *const rotary = phase == S2_TRAIN ? "rotary" : "rotary, cache";
            assert_true(part_us(&eight, rotary) <= part_us(&sixteen, rotary));
            assert_true(2 * part_us(&eight, rotary) >= part_us(&sixteen, rotary));
        }
    s2_arena_release(&arena);
}

/* ---- mixtures of experts */

static double feed_forward_us(s2_arena *arena, const s2_net *net, const s2_calibration *calibration,
                              int64_t batch)
{
    char text[200];
    snprintf(text, sizeof text, "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: local 4",
             net->n_layers, net->n_heads, net->n_kv_heads, net->head_dim);
    const s2_pattern pattern = s2_parsed(arena, text);
    s2_sim_options options = defaults();
    options.net = net;
    options.calibration = calibration;
    options.phase = S2_DECODE;
    options.len_tok = 1024;
    options.batch = batch;
    const s2_sim sim = priced(arena, &pattern, &options);
    return part_us(&sim, "feed-forward");
}

static double peak_us(const s2_sim_options *options, double flop)
{
    return flop / (options->gpu.bf16_tflops * 1e6);
}

/* The mean number of distinct experts, drawn. */
static double drawn_experts(s2_rng *rng, const s2_net *net, int64_t n_tok)
{
    enum { TRIALS = 2000 };
    int64_t n_read = 0;
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        bool read[256] = {false};
        for (int64_t tok = 0; tok < n_tok; tok++) {
            bool own[256] = {false};
            for (int32_t pick = 0; pick < net->n_active;) {
                const int32_t expert = (int32_t)s2_rng_below(rng, (uint64_t)net->n_experts);
                pick += own[expert] ? 0 : 1;
                n_read += read[expert] ? 0 : 1;
                own[expert] = read[expert] = true;
            }
        }
    }
    return (double)n_read / TRIALS;
}

/* Bytes decide these steps, so their times differ as the experts that they read do. */
static void tokens_read_the_experts_that_they_pick(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt-oss-20b", "qwen3-30b-a3b", "mixtral-8x7b"};
    s2_rng rng = {s2_test_seed(20261123)};
    s2_arena arena = {0};
    s2_calibration *const calibration = S2_NEW(&arena, s2_calibration, 1);
    assert_int_equal(s2_calibration_find("h200", calibration), S2_OK);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const s2_net net = net_of(models[m]);
        const double one = feed_forward_us(&arena, &net, calibration, 1),
                     two = feed_forward_us(&arena, &net, calibration, 2),
                     eight = feed_forward_us(&arena, &net, calibration, 8);
        const double expected =
            (drawn_experts(&rng, &net, 8) - net.n_active) / (drawn_experts(&rng, &net, 2) - net.n_active);
        s2_assert_close((eight - one) / (two - one), expected, 0.05 * expected);
        /* a bound lets all tokens pick the same */
        const double least = feed_forward_us(&arena, &net, NULL, 1);
        s2_assert_close(feed_forward_us(&arena, &net, NULL, 8), least, 1e-9 * least);
    }
    s2_arena_release(&arena);
}

/* ---- what layers of a mixture have beside their experts */

static double sent_bytes(const s2_sim *sim, const char *name)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (strcmp(sim->parts[part].name, name) == 0)
            return sim->parts[part].sent_bytes;
    return 0;
}

/* Layers without experts in front and between, and experts that all tokens share. */
static s2_net drawn_mixture(s2_rng *rng)
{
    const int32_t n_experts = 2 << s2_rng_below(rng, 5);
    s2_net net = net_of("mixtral-8x7b");
    net.n_layers = 1 + (int32_t)s2_rng_below(rng, 40);
    net.n_experts = n_experts;
    net.n_active = 1 + (int32_t)s2_rng_below(rng, (uint64_t)n_experts);
    net.ffn = 8 * (1 + (int32_t)s2_rng_below(rng, 200));
    net.tied = false;
    net.mixture = (s2_mixture){.shared_ffn = 8 * (int32_t)s2_rng_below(rng, 300),
                               .plain_ffn = 8 * (1 + (int32_t)s2_rng_below(rng, 3000)),
                               .first = (int32_t)s2_rng_below(rng, 4),
                               .every = (int32_t)s2_rng_below(rng, 4)};
    return net;
}

/* Inner columns of a layer by its place, with so many experts where it has some. */
static double columns_of(const s2_net *net, int32_t layer, double n_experts)
{
    const s2_mixture *const mixture = &net->mixture;
    bool experts = false;
    for (int32_t at = mixture->first; at <= layer; at += mixture->every > 1 ? mixture->every : 1)
        experts |= at == layer;
    return experts ? n_experts * net->ffn + mixture->shared_ffn : mixture->plain_ffn;
}

/* Each of several GPUs has a part of the experts, and all of what every token runs; only experts are sent tokens. */
static void assert_mixture_is_dealt(const s2_sim_options *options, double others)
{
    static s2_calibration calibration;
    const s2_net *const net = options->net;
    const double tensors = net->gated ? 3 : 2, ranks = options->n_ranks, tokens = (double)options->batch;
    double held = 0, sent = 0, run = 0;
    s2_sim sim = {0};
    s2_sim_options own = *options;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    own.calibration = &calibration;
    own.n_expert_ranks = 2;
    own.weights = S2_WEIGHTS_MXFP4;
    s2_end_to_end_add(&own, &sim);
    for (int32_t layer = 0; layer < net->n_layers; layer++) {
        held += columns_of(net, layer, net->n_experts / 2.0);
        run += columns_of(net, layer, net->n_active * sim.experts.imbalance);
        if (columns_of(net, layer, 1) !=
            columns_of(net, layer, 0)) /* there, and back, of every second pick */
            sent += 2 * tokens * net->n_active * 2.0 * net->hidden / 2;
    }
    const double bytes = (others * 2 + tensors * net->hidden * held * 4.25 / 8) / ranks,
                 peak = peak_us(&own, 2 * tensors * net->hidden * run / ranks * tokens);
    s2_assert_close((double)s2_end_to_end_weight_bytes(&own), bytes, 1e-6 * bytes);
    s2_assert_close(sent_bytes(&sim, "all-to-all"), sent, 1e-9 * sent);
    assert_true(part_us(&sim, "feed-forward") >= 1.4 * peak &&
                part_us(&sim, "feed-forward") <= 1.6 * peak + 4000);
}

/* Weights of stages are those of the model, and time, bytes and memory those of each layer by itself. */
static void a_mixture_is_the_sum_of_its_layers(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < s2_test_cases(200); nth++) {
        s2_rng rng = {s2_test_seed(20261129) + (uint64_t)nth};
        const s2_net net = drawn_mixture(&rng);
        s2_sim_options options = defaults();
        options.net = &net;
        options.n_ranks = 1 << s2_rng_below(&rng, 3);
        options.n_stages = 1 + (int32_t)s2_rng_below(&rng, (uint64_t)net.n_layers);
        const double tensors = net.gated ? 3 : 2, hidden = net.hidden, ranks = options.n_ranks;
        double all = 0, active = 0, widest = 0, stages = 0;
        for (int32_t layer = 0; layer < net.n_layers; layer++) {
            all += columns_of(&net, layer, net.n_experts);
            active += columns_of(&net, layer, net.n_active);
            widest = fmax(widest, columns_of(&net, layer, net.n_active));
        }
        const double attention = hidden * 2.0 * (net.n_heads + net.n_kv_heads) * net.head_dim * net.n_layers,
                     weights = attention + tensors * hidden * all + 2 * hidden * net.vocab;
        s2_assert_close((double)s2_net_weights(&net), weights, 1e-9 * weights);
        for (int32_t stage = 0; stage < options.n_stages; stage++) {
            s2_net part;
            s2_sim_options own;
            s2_machine_stage(&options, net.n_layers, stage, &part, &own);
            stages += s2_end_to_end_weights(&own);
        }
        s2_assert_close(stages, weights / ranks, 1e-9 * weights);
        options.n_stages = 1;
        s2_assert_close(s2_inner_width(&options, 1) * net.n_layers, tensors * active / ranks,
                        1e-9 * tensors * active);
        s2_assert_close(s2_inner_widest(&options, 1), tensors * widest / ranks, 1e-9 * widest);
        /* as a bound, one token reads what it runs, and many are multiplied at the peak */
        s2_sim one = {0}, many = {0};
        options.calibration = NULL;
        options.gpu.launch_us = 0;
        options.phase = S2_DECODE;
        s2_end_to_end_add(&options, &one);
        const double read_us = tensors * hidden * active / ranks * 2 / (options.gpu.hbm_gb_s * 1e3);
        s2_assert_close(part_us(&one, "feed-forward"), read_us, 1e-9 * read_us);
        options.batch = 60000;
        s2_end_to_end_add(&options, &many);
        const double peak = peak_us(&options, 2 * tensors * hidden * active / ranks * 60000);
        s2_assert_close(part_us(&many, "feed-forward"), peak, 1e-9 * peak);
        assert_mixture_is_dealt(&options, attention + 2 * hidden * net.vocab);
        options.phase = S2_TRAIN;
        options.n_shards = 4;
        s2_training_price(&options, &one);
        double most = (double)net.vocab * hidden;
        for (int32_t layer = 0; layer < net.n_layers; layer++)
            most = fmax(most,
                        attention / net.n_layers + tensors * hidden * columns_of(&net, layer, net.n_experts));
        s2_assert_close(one.training.gathered_bytes, 4 * most / ranks, 1e-9 * most);
    }
}

/* Files as they are published, bytes: quantizers leave the embedding and the head in 16 bits. */
static void quantized_weights_weigh_what_their_files_do(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        s2_weights weights;
        double bytes;
    } rows[] = {{"llama-3.1-8b", S2_WEIGHTS_INT4, 5.73e9},  {"llama-3.1-70b", S2_WEIGHTS_INT4, 39.8e9},
                {"llama-3.1-8b", S2_WEIGHTS_FP8, 9.08e9},   {"llama-3.1-70b", S2_WEIGHTS_FP8, 72.7e9},
                {"qwen2.5-7b", S2_WEIGHTS_INT4, 5.57e9},    {"qwen2.5-7b", S2_WEIGHTS_INT8, 8.7e9},
                {"gpt-oss-20b", S2_WEIGHTS_MXFP4, 13.76e9}, {"gpt-oss-120b", S2_WEIGHTS_MXFP4, 65.25e9}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const s2_net net = net_of(rows[r].model);
        s2_sim_options options = defaults();
        double stages = 0;
        options.net = &net;
        options.weights = rows[r].weights;
        const double bytes = (double)s2_end_to_end_weight_bytes(&options);
        s2_assert_close(bytes, rows[r].bytes, 0.08 * rows[r].bytes);
        options.n_stages = 3;
        for (int32_t stage = 0; stage < options.n_stages; stage++) {
            s2_net part;
            s2_sim_options own;
            s2_machine_stage(&options, net.n_layers, stage, &part, &own);
            stages += (double)s2_end_to_end_weight_bytes(&own);
        }
        s2_assert_close(stages, bytes, 10);
    }
}

/* ---- experts that are dealt out */

typedef struct drawn_deal {
    double picks, read; /* means over the draws of the largest over the GPUs */
} drawn_deal;

/* So many tokens on each of n GPUs pick experts: what the GPU with most gets, drawn. */
static drawn_deal draw_deal(s2_rng *rng, const s2_net *net, int32_t n, int64_t n_tok)
{
    enum { TRIALS = 600, MOST = 512 };
    const int32_t each = net->n_experts / n;
    drawn_deal sum = {0, 0};
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        int32_t picks[MOST] = {0}, read[MOST] = {0}, most_picks = 0, most_read = 0;
        bool seen[MOST] = {false};
        for (int64_t tok = 0; tok < n * n_tok; tok++) {
            int32_t own[MOST];
            for (int32_t pick = 0; pick < net->n_active;) {
                own[pick] = (int32_t)s2_rng_below(rng, (uint64_t)net->n_experts);
                bool again = false;
                for (int32_t before = 0; before < pick; before++)
                    again |= own[before] == own[pick];
                if (again)
                    continue;
                picks[own[pick] / each]++;
                read[own[pick] / each] += seen[own[pick]] ? 0 : 1;
                seen[own[pick++]] = true;
            }
        }
        for (int32_t rank = 0; rank < n; rank++) {
            most_picks = picks[rank] > most_picks ? picks[rank] : most_picks;
            most_read = read[rank] > most_read ? read[rank] : most_read;
        }
        sum.picks += most_picks;
        sum.read += most_read;
    }
    return (drawn_deal){sum.picks / TRIALS, sum.read / TRIALS};
}

static void picks_spread_over_the_gpus_as_drawn_ones_do(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt-oss-20b", "qwen3-30b-a3b", "mixtral-8x7b"};
    s2_rng rng = {s2_test_seed(20261129)};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int32_t n = 1; n <= 8; n *= 2)
            for (int64_t n_tok = 1; n_tok <= 64; n_tok *= 4) {
                const s2_net net = net_of(models[m]);
                s2_sim_options options = defaults();
                options.net = &net;
                options.n_expert_ranks = n;
                const s2_expert_price dealt = s2_experts_deal(&options, (double)n_tok);
                const drawn_deal drawn = draw_deal(&rng, &net, n, n_tok);
                const double mean = (double)(n_tok * net.n_active),
                             read = net.n_experts *
                                    (1 - pow(1 - (double)net.n_active / net.n_experts, (double)(n * n_tok)));
                s2_assert_close(dealt.picks, drawn.picks, 0.1 * drawn.picks);
                s2_assert_close(dealt.read, drawn.read, 0.1 * drawn.read);
                assert_true(dealt.picks >= mean * (1 - 1e-9) && dealt.picks <= n * mean);
                assert_true(dealt.read >= read / n * (1 - 1e-9) && dealt.read <= net.n_experts / n + 1e-9);
                s2_assert_close(dealt.imbalance * mean, dealt.picks, 1e-9 * dealt.picks);
                if (n == 1) {
                    s2_assert_close(dealt.picks, mean, 1e-9 * mean);
                    s2_assert_close(dealt.read, read, 1e-9 * read);
                }
            }
}

/* More tokens are never fewer picks, also where another formula takes over. */
static void more_tokens_are_more_picks(void **state)
{
    (void)state;
    const s2_net net = net_of("gpt-oss-20b");
    s2_sim_options options = defaults();
    options.net = &net;
    for (options.n_expert_ranks = 2; options.n_expert_ranks <= 32; options.n_expert_ranks *= 2) {
        double before = 0;
        for (int64_t n_tok = 1; n_tok < 400; n_tok++) {
            const double picks = s2_experts_deal(&options, (double)n_tok).picks;
            assert_true(picks > before);
            before = picks;
        }
    }
}

/* What one of several GPUs that share experts takes for a step of so many tokens, around attention. */
static s2_sim sharing(const s2_sim_options *options, const s2_net *net, int32_t n, int64_t n_tok)
{
    s2_sim sim = {0};
    s2_sim_options own = *options;
    own.net = net;
    own.n_expert_ranks = own.n_shards = n;
    own.batch = n_tok;
    s2_end_to_end_add(&own, &sim);
    return sim;
}

/*
 * How many times longer a part takes that goes with the tokens, launches aside, where n GPUs share experts: with one
 * GPU twice the tokens tell what is a launch.
 */
static double part_grows(const s2_sim_options *options, const s2_net *net, int32_t n, int64_t n_tok,
                         const char *name)
{
    const s2_sim one = sharing(options, net, 1, n_tok), two = sharing(options, net, 1, 2 * n_tok),
                 all = sharing(options, net, n, n_tok);
    const double launch_us = 2 * part_us(&one, name) - part_us(&two, name);
    return (part_us(&all, name) - launch_us) / (part_us(&one, name) - launch_us);
}

/* Products, activations and what the links carry are those of the GPU that drawn tokens pick most. */
static void all_wait_for_the_gpu_that_is_picked_most(void **state)
{
    (void)state;
    static s2_calibration calibration;
    static const char *const models[] = {"qwen3-30b-a3b", "mixtral-8x7b"};
    s2_rng rng = {s2_test_seed(20261229)};
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    s2_sim_options options = defaults();
    options.calibration = &calibration;
    options.phase = S2_DECODE;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int32_t n = 2; n <= 8; n *= 2)
            for (int64_t n_tok = 2; n_tok <= 128; n_tok *= 8) {
                const s2_net net = net_of(models[m]);
                s2_net wide = net;
                wide.hidden *= 2;
                const double most = draw_deal(&rng, &net, n, n_tok).picks / (double)(n_tok * net.n_active);
                s2_sim_options fed = options; /* its memory is so fast that products decide */
                fed.gpu.hbm_gb_s *= 1e6;
                const s2_sim sent = sharing(&options, &net, n, n_tok),
                             more = sharing(&options, &wide, n, n_tok);
                const double links_us = part_us(&more, "all-to-all") - part_us(&sent, "all-to-all"),
                             mean_us = sent_bytes(&sent, "all-to-all") / 0.8 /
                                       s2_links_rate(&options, S2_GROUP_EXPERTS);
                s2_assert_close(part_grows(&fed, &net, n, n_tok, "feed-forward"), most, 0.05 * most);
                s2_assert_close(part_grows(&options, &net, n, n_tok, "activation"), most, 0.05 * most);
                s2_assert_close(links_us / mean_us, most, 0.05 * most);
                assert_true(most > 1);
            }
}

static s2_sim_options drawn_machine(s2_rng *rng, const s2_net *net, const s2_calibration *calibration)
{
    s2_sim_options options = defaults();
    options.net = net;
    options.calibration = calibration;
    options.phase = (s2_phase)s2_rng_below(rng, S2_N_PHASES);
    options.len_tok = 1024 + (int64_t)s2_rng_below(rng, 3000);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 6);
    options.n_ranks = 1 << s2_rng_below(rng, 3);
    options.n_expert_ranks = 2 << s2_rng_below(rng, 2);
    options.n_stages = 1 << s2_rng_below(rng, 2);
    options.n_context = options.phase == S2_DECODE ? 1 : 1 << s2_rng_below(rng, 2);
    options.n_shards = options.phase == S2_TRAIN ? options.n_expert_ranks << s2_rng_below(rng, 2) : 1;
    options.recompute = options.phase == S2_TRAIN && s2_rng_below(rng, 2) == 0;
    options.n_nodes = 1 << s2_rng_below(rng, 2);
    return options;
}

/* Tokens of one GPU in a whole step, padded to the longest share as the machine does it. */
static double tokens_of(const s2_sim_options *options, int32_t n_micro, int64_t micro_batch)
{
    const double len = options->phase == S2_DECODE ? 1 : ceil((double)options->len_tok / options->n_context);
    return len * (double)micro_batch * n_micro;
}

static void dealt_experts_are_those_of_one_gpu_and_their_tokens_travel(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    const s2_net nets[] = {net_of("gpt-oss-20b"), net_of("qwen3-30b-a3b"), net_of("mixtral-8x7b")};
    for (int64_t nth = 0; nth < s2_test_cases(40); nth++) {
        s2_rng rng = {s2_test_seed(20261130) + (uint64_t)nth};
        s2_arena arena = {0};
        char text[200];
        const s2_net net = nets[s2_rng_below(&rng, 3)];
        snprintf(text, sizeof text, "model %s; layers all: local 4", net.name);
        const s2_pattern pattern = s2_parsed(&arena, text);
        const s2_sim_options options = drawn_machine(&rng, &net, &calibration);
        s2_sim_options whole = options, bound = options;
        const int32_t n = options.n_expert_ranks;
        whole.n_expert_ranks = whole.n_nodes = 1;
        bound.calibration = NULL;
        const s2_sim dealt = priced(&arena, &pattern, &options), one = priced(&arena, &pattern, &whole),
                     least = priced(&arena, &pattern, &bound);
        /* attention and its cache are those of a replica */
        assert_true(dealt.time_us == one.time_us && dealt.kv_fullest == one.kv_fullest);
        assert_memory_equal(&dealt.counts, &one.counts, sizeof one.counts);
        assert_true(least.end_to_end_us <= dealt.end_to_end_us);
        /* the experts of all GPUs are all experts, once each */
        const double matrix = (net.gated ? 3.0 : 2.0) * net.hidden * net.ffn / options.n_ranks;
        int32_t n_micro;
        int64_t micro_batch;
        s2_sim_microbatches(&options, &n_micro, &micro_batch);
        if (options.n_stages == 1 && options.phase != S2_TRAIN) {
            const double experts = matrix * net.n_experts * net.n_layers *
                                   (net.stored == S2_WEIGHTS_MXFP4 ? 4.25 / 8 : 2),
                         others = (double)one.weight_bytes - experts;
            s2_assert_close((double)dealt.weight_bytes * n - others * (n - 1), (double)one.weight_bytes,
                            1e-6 * (double)one.weight_bytes);
        }
        /* optimizer's state is divided over all replicas anyhow; the GPU with most picks keeps more of them */
        const s2_training *const own_kept = &dealt.training, *const kept = &one.training;
        const double imbalance =
            s2_experts_deal(&options, tokens_of(&options, n_micro, micro_batch) / n_micro).imbalance;
        s2_assert_close(own_kept->state_bytes - own_kept->gradient_bytes - own_kept->gathered_bytes,
                        kept->state_bytes - kept->gradient_bytes - kept->gathered_bytes,
                        1e-9 * kept->state_bytes);
        const bool trains = options.phase == S2_TRAIN;
        const double bytes = kept->bytes - kept->gathered_bytes,
                     own_bytes = own_kept->bytes - own_kept->gathered_bytes;
        assert_true(trains ? own_bytes >= bytes : own_bytes == 0);
        assert_true(own_bytes <= bytes * imbalance);
        if (trains && options.n_stages == 1) {
            const double others = net.hidden * 2.0 * (net.n_heads + net.n_kv_heads) * net.head_dim /
                                  options.n_ranks,
                         own_experts = options.n_shards > n ? matrix * net.n_experts / n : 0,
                         embedding = (double)net.vocab * net.hidden / options.n_ranks;
            s2_assert_close(own_kept->gathered_bytes, 4 * fmax(others + own_experts, embedding),
                            1e-9 * own_kept->gathered_bytes);
        }
        /* no GPU reads its experts faster than its memory, nor multiplies faster than its peak */
        const double passes = options.phase == S2_TRAIN ? options.recompute ? 4 : 3 : 1,
                     tokens = tokens_of(&options, n_micro, micro_batch),
                     layers = ceil(net.n_layers / options.n_stages),
                     all_read = net.n_experts *
                                (1 - pow(1 - (double)net.n_active / net.n_experts, n * tokens / n_micro)),
                     bits = net.stored == S2_WEIGHTS_MXFP4 && options.phase != S2_TRAIN ? 4.25 : 16;
        const double feed_us = part_us(&dealt, "feed-forward");
        assert_true(feed_us >= layers * matrix * all_read / n * bits / 8 * passes * n_micro /
                                   (options.gpu.hbm_gb_s * 1e3));
        assert_true(feed_us >= peak_us(&options, 2 * layers * matrix * net.n_active * tokens * passes));
        assert_true(feed_us >= part_us(&least, "feed-forward"));
        /* a copy of each token for each pick that is elsewhere, there and back */
        const double times = options.phase == S2_TRAIN ? options.recompute ? 3 : 2 : 1,
                     sent = 2 * times * layers * 2.0 * net.hidden * net.n_active * tokens * (n - 1) / n;
        const double own = sent_bytes(&dealt, "all-to-all");
        s2_assert_close(own, sent, (options.n_stages > 1 ? 0.2 : 1e-9) * sent);
        assert_true(part_us(&dealt, "all-to-all") >= own / s2_links_rate(&options, S2_GROUP_EXPERTS));
        assert_true(part_us(&one, "all-to-all") == 0 && part_us(&least, "all-to-all") == 0);
        assert_true(!dealt.measured || options.n_stages * options.n_context == 1);
        s2_arena_release(&arena);
    }
}

/* The batch that is said to fit does, counted from what a GPU keeps then, and one sequence more does not. */
static void assert_fits_to_the_sequence(s2_arena *arena, const s2_pattern *pattern,
                                        const s2_sim_options *options, int64_t fit)
{
    s2_sim_options asked = *options;
    if (fit == S2_LIMIT_BATCH)
        return;
    for (asked.batch = s2_max_i64(fit, 1); asked.batch <= fit + 1; asked.batch++) {
        const s2_sim sim = priced(arena, pattern, &asked);
        const double kept = options->phase == S2_TRAIN ? sim.training.bytes
                                                       : (double)sim.weight_bytes + (double)sim.kv_peak +
                                                             s2_sim_activation_bytes(&asked);
        assert_true((kept <= s2_sim_memory_bytes(options)) == (asked.batch == fit));
        assert_true(s2_sim_runs(&asked, &sim, false) == (asked.batch == fit));
    }
}

/* GPUs that share a context hold its cache together, each beside the weights, whatever is kept free. */
static void a_shared_context_fits_to_the_sequence(void **state)
{
    (void)state;
    const s2_net net = net_of("llama-3.1-8b");
    for (int64_t nth = 0; nth < s2_test_cases(30); nth++) {
        s2_rng rng = {s2_test_seed(20261124) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_pattern pattern =
            s2_parsed(&arena, nth % 2 == 0 ? "model llama-3.1-8b; all: dense"
                                           : "model llama-3.1-8b; all: local 16 | stride 8");
        s2_sim_options options = drawn_machine(&rng, &net, NULL);
        options.phase = S2_PREFILL;
        options.batch = options.n_stages = options.n_expert_ranks = options.n_nodes = options.n_shards = 1;
        options.n_micro = 0;
        options.len_tok = 1024 * (1 + (int64_t)s2_rng_below(&rng, 40));
        options.n_context = 2 + (int32_t)s2_rng_below(&rng, 7);
        options.reserved_permille = s2_rng_below(&rng, 2) == 0 ? 0 : 500;
        assert_fits_to_the_sequence(&arena, &pattern, &options, priced(&arena, &pattern, &options).fit_batch);
        s2_arena_release(&arena);
    }
}

/* What is said to fit, fits when asked, one more does not, and dealing experts out never makes less room. */
static void dealt_experts_leave_room_that_is_there(void **state)
{
    (void)state;
    const s2_net nets[] = {net_of("gpt-oss-120b"), net_of("mixtral-8x7b")};
    for (int64_t nth = 0; nth < s2_test_cases(12); nth++) {
        s2_rng rng = {s2_test_seed(20261131) + (uint64_t)nth};
        s2_arena arena = {0};
        char text[200];
        const s2_net net = nets[s2_rng_below(&rng, 2)];
        snprintf(text, sizeof text, "model %s; layers all: local 4", net.name);
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_sim_options options = drawn_machine(&rng, &net, NULL);
        options.batch = 1;
        options.n_context = options.n_nodes = 1;
        if (options.phase == S2_TRAIN) {
            options.n_shards = 16;
            options.n_micro = options.n_stages > 1 ? 1 : 0;
        } else {
            options.n_stages = 1;
        }
        int64_t before = 0;
        for (options.n_expert_ranks = 1; options.n_expert_ranks <= 8; options.n_expert_ranks *= 2) {
            const int64_t fit = priced(&arena, &pattern, &options).fit_batch;
            assert_fits_to_the_sequence(&arena, &pattern, &options, fit);
            /* in training the GPU with most picks keeps more than the mean, which may cost a sequence */
            assert_true(fit >= (options.phase == S2_TRAIN ? before * 3 / 4 : before));
            before = fit;
        }
        s2_arena_release(&arena);
    }
}

static void experts_that_cannot_be_dealt_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        s2_phase phase;
        int32_t n, n_shards;
        const char *why;
    } cases[] = {{"gpt-oss-20b", S2_PREFILL, 3, 1, "evenly"},
                 {"gpt-oss-20b", S2_PREFILL, 64, 1, "evenly"},
                 {"llama-3.1-8b", S2_DECODE, 2, 1, "model that has some"},
                 {NULL, S2_DECODE, 2, 1, "model that has some"},
                 {"gpt-oss-20b", S2_TRAIN, 4, 1, "needs --dp 4 or a multiple"},
                 {"gpt-oss-20b", S2_TRAIN, 4, 6, "needs --dp 4 or a multiple"}};
    s2_arena arena = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const s2_net net = net_of(cases[c].model != NULL ? cases[c].model : "llama-3.1-8b");
        char text[100];
        s2_sim sim;
        s2_diag diag = {0};
        snprintf(text, sizeof text, "model %s; layers all: local 4", net.name);
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_sim_options options = defaults();
        options.net = cases[c].model != NULL ? &net : NULL;
        options.phase = cases[c].phase;
        options.n_expert_ranks = cases[c].n;
        options.n_shards = cases[c].n_shards;
        assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag), S2_EINVAL);
        assert_non_null(strstr(diag.msg, cases[c].why));
    }
    s2_arena_release(&arena);
}

/* ---- what a pattern does not say */

static int64_t pairs_of(const s2_pattern *pattern, s2_phase phase, int64_t len_tok)
{
    int64_t n = 0;
    for (int32_t head = 0; head < pattern->n_heads; head++)
        for (int64_t q_tok = phase == S2_DECODE ? len_tok - 1 : 0; q_tok < len_tok; q_tok++)
            for (int64_t k_tok = 0; k_tok <= q_tok; k_tok++)
                n += s2_pattern_reads(pattern, s2_phase_rules(phase), 0, head, len_tok, q_tok, k_tok);
    return n;
}

/* Latent attention: random widths, against pairs that are counted one by one. */
static void latent_attention_costs_its_own_widths(void **state)
{
    (void)state;
    static const char *const bodies[] = {"dense", "local 2", "local 1 | stride 3", "sink 4t | local 20t"};
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261124) + (uint64_t)n};
        s2_arena arena = {0};
        char text[200];
        const s2_computed computed = {.latent_dim = 16 + (int32_t)s2_rng_below(&rng, 600),
                                      .rotary_dim = 2 * (int32_t)s2_rng_below(&rng, 40),
                                      .score_dim = 16 + (int32_t)s2_rng_below(&rng, 300),
                                      .value_dim = 16 + (int32_t)s2_rng_below(&rng, 300)};
        const int64_t kept = computed.latent_dim + computed.rotary_dim;
        snprintf(text, sizeof text, "heads %d; kv-heads 1; head-dim %lld; block 16; layers all: %s",
                 1 << s2_rng_below(&rng, 4), (long long)(kept + 1) / 2, bodies[s2_rng_below(&rng, 4)]);
        s2_pattern pattern = s2_parsed(&arena, text);
        pattern.computed = &computed;
        s2_sim_options options = defaults();
        options.calibration = &calibration;
        options.len_tok = 1 + (int64_t)s2_rng_below(&rng, 150);
        options.phase = (s2_phase)s2_rng_below(&rng, S2_N_PHASES);
        const s2_sim sim = priced(&arena, &pattern, &options);
        const int64_t pairs = pairs_of(&pattern, options.phase, options.len_tok),
                      forward = 2 * ((int64_t)computed.score_dim + computed.value_dim),
                      backward = 2 * (3 * (int64_t)computed.score_dim + 2 * (int64_t)computed.value_dim);
        const int64_t each = options.phase == S2_DECODE  ? 2 * (kept + computed.latent_dim)
                             : options.phase == S2_TRAIN ? forward + backward
                                                         : forward;
        assert_int_equal(sim.counts.pairs, pairs);
        assert_int_equal(sim.counts.flop_useful, pairs * each);
        assert_true(sim.bound_us >= peak_us(&options, (double)(pairs * each)) * (1 - 1e-9));
        assert_true(sim.bound_us <= sim.plan_us * (1 + 1e-9) && !sim.predicted);
        /* nothing of a token is read twice, and of a dense row nothing is left out */
        if (options.phase != S2_TRAIN && strstr(text, "dense") != NULL)
            assert_int_equal(sim.counts.hbm_read,
                             options.len_tok * kept * 2 +
                                 (options.phase == S2_DECODE ? kept : options.len_tok * computed.score_dim) *
                                     2 * pattern.n_heads);
        s2_arena_release(&arena);
    }
}

/*
 * Whole models of latent attention: DeepSeek-V3's shape keeps 61 x (512 + 64) x 2 bytes a token (arXiv 2412.19437),
 * all of it on each GPU of a group; no time is below that of the bytes, and none falls with length or batch.
 */
static void whole_models_of_latent_attention_are_priced_as_they_are(void **state)
{
    (void)state;
    enum { EACH = 61 * (512 + 64) * 2 };
    static s2_calibration calibration;
    const s2_net net = {.name = "v3",
                        .n_layers = 61,
                        .hidden = 7168,
                        .n_heads = 128,
                        .n_kv_heads = 1,
                        .head_dim = 288,
                        .ffn = 2048,
                        .vocab = 129280,
                        .gated = true,
                        .n_experts = 256,
                        .n_active = 8,
                        .mixture = {.shared_ffn = 2048, .plain_ffn = 18432, .first = 3, .every = 1},
                        .latent = {512, 64, 1536, 128, 128, 0, 0}};
    const s2_computed computed = {.latent_dim = 512, .rotary_dim = 64, .score_dim = 192, .value_dim = 128};
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int phase = 0; phase < S2_N_PHASES; phase++)
        for (int32_t n_ranks = 1; n_ranks <= 8; n_ranks *= 2) {
            double before = 0;
            for (int64_t step = 0; step < 6; step++) {
                s2_arena arena = {0};
                s2_pattern pattern =
                    s2_parsed(&arena, "layers 61; heads 128; kv-heads 1; head-dim 288; layers all: dense");
                pattern.computed = &computed;
                s2_sim_options options = defaults();
                options.calibration = &calibration;
                options.net = &net;
                options.phase = (s2_phase)phase;
                options.n_ranks = n_ranks;
                options.len_tok = INT64_C(1024) << (step + 1) / 2;
                options.batch = INT64_C(1) << step / 2;
                const s2_sim sim = priced(&arena, &pattern, &options);
                const double tokens = (double)(options.len_tok * options.batch),
                             weights = (double)s2_end_to_end_weight_bytes(&options);
                assert_false(sim.predicted);
                assert_true(weights > 0 && sim.end_to_end_us >= sim.time_us);
                if (phase == S2_DECODE) {
                    assert_true(sim.end_to_end_us * options.gpu.hbm_gb_s * 1e3 >= tokens * EACH);
                    assert_true((double)sim.kv.dense == tokens * EACH * n_ranks);
                }
                assert_true(sim.end_to_end_us >= before);
                before = sim.end_to_end_us;
                s2_arena_release(&arena);
            }
        }
}

/* Choosing is priced by who chooses: an indexer that scores every pair, or a few queries for all. */
static void choosing_keys_costs_what_its_consumer_scores(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_pattern pattern =
        s2_parsed(&arena, "heads 8; kv-heads 2; layers all: local 4; heads 0-1: local 4 | topk 9");
    s2_sim_options options = defaults();
    options.len_tok = 32768;
    const double n = 32768, pairs = n * (n + 1) / 2, launch_us = options.gpu.launch_us;
    const s2_sim assumed = priced(&arena, &pattern, &options);
    const double index_us = peak_us(&options, pairs * 64 * 128 * 2) + launch_us;
    s2_assert_close(part_us(&assumed, "selection"), index_us, 1e-6 * index_us);
    const s2_computed half = {.index_heads = 32, .index_dim = 128}, probe = {.probe_rows = 64};
    pattern.computed = &half;
    const s2_sim said = priced(&arena, &pattern, &options);
    s2_assert_close(part_us(&said, "selection") - launch_us, (index_us - launch_us) / 2, 1e-6 * index_us);
    /* layers that take another's choice have no indexer, and keep no keys of one */
    const s2_computed all = {.index_heads = 32, .index_dim = 128, .n_indexers = 8, .n_indexed = 8},
                      some = {.index_heads = 32, .index_dim = 128, .n_indexers = 2, .n_indexed = 8};
    s2_pattern deep = s2_parsed(&arena, "layers 8; heads 8; kv-heads 2; layers all: topk 9");
    deep.computed = &all;
    const s2_sim every = priced(&arena, &deep, &options);
    deep.computed = &some;
    const s2_sim few = priced(&arena, &deep, &options);
    s2_assert_close(part_us(&few, "selection"), part_us(&every, "selection") / 4, 1e-6 * index_us);
    assert_true(every.kv.used - few.kv.used == 6 * (int64_t)n * (128 + 4));
    pattern.computed = &probe;
    const s2_sim probed = priced(&arena, &pattern, &options);
    const double scored_us = peak_us(&options, 2 * 64 * n * 2 * 128),
                 read_us = 2 * n * 128 * 2 / 4 / (options.gpu.hbm_gb_s * 1e3),
                 probe_us = (scored_us > read_us ? scored_us : read_us) + launch_us;
    s2_assert_close(part_us(&probed, "selection"), probe_us, 1e-6 * probe_us);
    /* no choice changes what is read, nor the floor of attention itself */
    assert_true(assumed.bound_us == probed.bound_us && assumed.counts.pairs == probed.counts.pairs);
    s2_arena_release(&arena);
}

/* ---- machines of many GPUs */

static s2_pattern model_pattern(s2_arena *arena, s2_rng *rng, const s2_net *net)
{
    static const char *const bodies[] = {"dense", "local 4", "local 4 | stride 8 phase kv",
                                         "local 2 | stride 4 phase head+layer"};
    char text[300];
    const int first = (int)s2_rng_below(rng, (uint64_t)net->n_layers);
    snprintf(text, sizeof text,
             "layers %d; heads %d; kv-heads %d; head-dim %d; layers all: %s; layers %d-%d: %s", net->n_layers,
             net->n_heads, net->n_kv_heads, net->head_dim, bodies[s2_rng_below(rng, 4)], first,
             net->n_layers - 1, bodies[s2_rng_below(rng, 4)]);
    return s2_parsed(arena, text);
}

static const char *const machine_models[] = {"llama-3.1-8b", "qwen2.5-0.5b", "gpt-oss-20b", "phi-2"};

static s2_sim_options draw_machine(s2_rng *rng, const s2_net *net, const s2_calibration *calibration)
{
    s2_sim_options options = defaults();
    options.net = net;
    options.calibration = s2_rng_below(rng, 3) > 0 ? calibration : NULL;
    options.phase = (s2_phase)s2_rng_below(rng, S2_N_PHASES);
    options.len_tok = 256 + (int64_t)s2_rng_below(rng, 2000);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 12);
    options.n_ranks = 1 << s2_rng_below(rng, 2);
    options.recompute = options.phase == S2_TRAIN && s2_rng_below(rng, 2) == 0;
    return options;
}

static double link_rate(const s2_sim_options *options)
{
    return options->gpu.nvlink_gb_s / 2 * 1e3;
}

/* A step of p stages is between its share of the whole work and that work one after another, and its parts add up. */
static void stages_wait_for_one_another_and_share_what_is_kept(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(25); n++) {
        s2_rng rng = {s2_test_seed(20261125) + (uint64_t)n};
        s2_arena arena = {0};
        const s2_net net = net_of(machine_models[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = model_pattern(&arena, &rng, &net);
        s2_sim_options options = draw_machine(&rng, &net, &calibration);
        const s2_sim one = priced(&arena, &pattern, &options);
        options.n_stages = 2 + (int32_t)s2_rng_below(&rng, 7);
        options.n_micro = (int32_t)s2_rng_below(&rng, (uint64_t)options.batch + 1);
        const s2_sim sim = priced(&arena, &pattern, &options);
        const double p = options.n_stages, m = sim.machine.n_micro, us = sim.end_to_end_us;
        double sum_us = 0;
        for (int32_t part = 0; part < sim.n_parts; part++)
            sum_us += sim.parts[part].time_us;
        s2_assert_close(sum_us, us, 1e-9 * us);
        assert_true(us >= m * sim.machine.slot_us * (1 - 1e-9));
        assert_true(us >= (one.end_to_end_us - part_us(&one, "host") - part_us(&one, "optimizer")) / p *
                              (1 - 1e-9));
        assert_true(sim.machine.idle >= -1e-9 && sim.machine.idle < 1);
        assert_true(sim.bound_us <= sim.time_us * (1 + 1e-9) && sim.bound_us <= sim.plan_us * (1 + 1e-9));
        /* nothing of what is counted changes, nor is any of it lost */
        assert_int_equal(sim.counts.pairs, one.counts.pairs);
        assert_int_equal(sim.kv.head_pages, one.kv.head_pages);
        assert_true((double)sim.kv_fullest * p >= (double)one.kv_fullest && sim.kv_fullest <= one.kv_fullest);
        assert_true((double)sim.weight_bytes * p >= (double)one.weight_bytes &&
                    sim.weight_bytes <= one.weight_bytes);
        s2_arena_release(&arena);
    }
}

/* One sequence goes through all stages as through one GPU, with the links between; equal stages fill as they must. */
static void a_pipeline_takes_what_its_stages_and_links_do(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    s2_arena arena = {0};
    const s2_net net = net_of("llama-3.1-8b");
    const s2_pattern pattern =
        s2_parsed(&arena, "model llama-3.1-8b; layers all: local 4 | stride 8 phase kv");
    s2_sim_options options = defaults();
    options.net = &net;
    options.calibration = &calibration;
    const s2_sim one = priced(&arena, &pattern, &options);
    const double link_us = 2.0 * net.hidden * 8192 / (link_rate(&options) * 0.8);
    double kept = 0;
    for (int32_t p = 2; p <= 8; p *= 2) {
        options.n_stages = p;
        options.batch = 1;
        const s2_sim alone = priced(&arena, &pattern, &options);
        s2_assert_close(alone.end_to_end_us, one.end_to_end_us + (p - 1) * link_us, 1e-6 * one.end_to_end_us);
        options.batch = 16;
        const s2_sim many = priced(&arena, &pattern, &options);
        const double expected = alone.end_to_end_us + 15 * many.machine.slot_us;
        s2_assert_close(many.end_to_end_us, expected, 1e-6 * expected);
        options.phase = S2_TRAIN;
        const s2_sim train = priced(&arena, &pattern, &options);
        /* the first stage keeps as many microbatches as there are stages, of as much fewer layers */
        kept = p == 2 ? train.training.kept_bytes : kept;
        s2_assert_close(train.training.kept_bytes, kept, 1e-9 * kept);
        assert_int_equal(train.training.n_in_flight, p);
        options.phase = S2_PREFILL;
    }
    s2_arena_release(&arena);
}

/* What is said to fit a machine in training fits when asked. */
static void what_fits_a_machine_in_training_fits_when_asked(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(15); n++) {
        s2_rng rng = {s2_test_seed(20261126) + (uint64_t)n};
        s2_arena arena = {0};
        const s2_net net = net_of(machine_models[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = model_pattern(&arena, &rng, &net);
        s2_sim_options options = draw_machine(&rng, &net, NULL);
        options.phase = S2_TRAIN;
        options.n_shards = 1 << s2_rng_below(&rng, 4);
        options.n_stages = 1 + (int32_t)s2_rng_below(&rng, 6);
        options.n_context = 1 << s2_rng_below(&rng, 3);
        options.n_micro = options.n_stages > 1 ? 1 + (int32_t)s2_rng_below(&rng, (uint64_t)options.batch) : 0;
        options.len_tok = options.len_tok / options.n_context * options.n_context;
        const s2_sim sim = priced(&arena, &pattern, &options);
        if (sim.fit_batch > 0 && sim.fit_batch < S2_LIMIT_BATCH) {
            options.batch = sim.fit_batch;
            assert_true(priced(&arena, &pattern, &options).training.bytes <= options.gpu.hbm_gb * 1e9);
        }
        s2_arena_release(&arena);
    }
}

/*
 * What a pipeline's caches leave no room for is in host memory: as each stage by itself keeps it for the whole batch. A
 * decode step reads it, and takes no less than that; what is said of dense attention is of its cache.
 */
static void a_pipeline_spills_what_its_stages_do(void **state)
{
    (void)state;
    static s2_calibration calibration;
    int32_t n_spill = 0, n_dense = 0;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t nth = 0; nth < s2_test_cases(8) || n_spill == 0 || n_dense == 0; nth++) {
        s2_rng rng = {s2_test_seed(20261209) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_net net = net_of(machine_models[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = model_pattern(&arena, &rng, &net);
        s2_sim_options options = draw_machine(&rng, &net, s2_rng_below(&rng, 2) == 0 ? &calibration : NULL);
        double host = 0, host_dense = 0, link_us = 0, link_dense_us = 0, parts_us = 0;
        options.phase = s2_rng_below(&rng, 4) == 0 ? S2_PREFILL : S2_DECODE;
        options.n_context = 1;
        options.n_stages = 2 + (int32_t)s2_rng_below(&rng, 3);
        options.len_tok = 4096 + (int64_t)s2_rng_below(&rng, 30000);
        options.batch = 1 + (int64_t)s2_rng_below(&rng, 400);
        const s2_sim all = priced(&arena, &pattern, &options);
        for (int32_t n = 0; n < options.n_stages; n++) {
            s2_net own_net;
            s2_sim_options own;
            s2_pattern layers;
            s2_machine_stage(&options, pattern.n_layers, n, &own_net, &own);
            s2_sim_options micro = own;
            int32_t n_micro;
            s2_sim_microbatches(&options, &n_micro, &micro.batch);
            own.n_stages = micro.n_stages = 1;
            const double room = s2_sim_memory_bytes(&own) - s2_sim_activation_bytes(&micro);
            assert_int_equal(s2_share_layers(&arena, &pattern, pattern.n_layers * n / options.n_stages,
                                             pattern.n_layers * (n + 1) / options.n_stages, &layers, NULL),
                             S2_OK);
            const s2_sim stage = priced(&arena, &layers, &own);
            const double rate = options.gpu.pcie_gb_s * 1e3, left = room - (double)stage.weight_bytes,
                         beyond = fmax((double)stage.kv_fullest - left, 0),
                         beyond_dense = fmax((double)stage.kv_dense_each - left, 0);
            host = fmax(host, beyond);
            host_dense = fmax(host_dense, beyond_dense);
            link_us = fmax(link_us, stage.ranks.read_bytes * beyond / (double)stage.kv_fullest / rate);
            link_dense_us = fmax(link_dense_us, (double)stage.dense.hbm_read / options.n_ranks *
                                                    beyond_dense / (double)stage.kv_dense_each / rate);
        }
        const bool decodes = options.phase == S2_DECODE;
        for (int32_t part = 0; part < all.n_parts; part++)
            parts_us += all.parts[part].time_us;
        s2_assert_close((double)all.host_bytes, host, 2);
        s2_assert_close((double)all.host_dense_bytes, host_dense, 2);
        assert_true((all.host_bytes == 0) == s2_sim_runs(&options, &all, false) ||
                    all.kv_peak > all.kv_fullest);
        assert_true((all.fit_batch_dense >= options.batch) == (all.host_dense_bytes == 0));
        link_us *= decodes;
        link_dense_us *= decodes;
        s2_assert_close(all.link_us, link_us, 1e-6 * link_us + 1e-3);
        s2_assert_close(all.link_dense_us, link_dense_us, 1e-6 * link_dense_us + 1e-3);
        assert_true(all.end_to_end_us >= all.link_us * (1 - 1e-9));
        assert_true(all.dense_time_us >= all.link_dense_us * (1 - 1e-9));
        s2_assert_close(parts_us, all.end_to_end_us, 1e-9 * parts_us);
        assert_true(all.link_us <= 0 || !all.predicted);
        n_spill += all.link_us > 0;
        n_dense += all.link_dense_us > 0;
        s2_arena_release(&arena);
    }
}

/* Caches, weights and logits may be most on different GPUs: what is said to fit a pipeline is said to run on it. */
static void a_pipeline_runs_the_batch_that_fits(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt-2", "qwen2.5-0.5b", "gemma-2-2b", "llama-3.1-8b"};
    for (int64_t nth = 0; nth < s2_test_cases(24); nth++) {
        s2_rng rng = {s2_test_seed(20261129) + (uint64_t)nth};
        s2_arena arena = {0};
        const s2_net net = net_of(models[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = model_pattern(&arena, &rng, &net);
        s2_sim_options options = draw_machine(&rng, &net, NULL);
        options.phase = s2_rng_below(&rng, 2) == 0 ? S2_PREFILL : S2_DECODE;
        options.n_stages = 1 + (int32_t)s2_rng_below(&rng, 4);
        const int64_t fit = priced(&arena, &pattern, &options).fit_batch;
        for (options.batch = s2_max_i64(fit, 1); fit < S2_LIMIT_BATCH && options.batch <= fit + 1;
             options.batch++) {
            const s2_sim sim = priced(&arena, &pattern, &options);
            assert_true(s2_sim_runs(&options, &sim, false) == (options.batch <= fit));
            assert_true((s2_sim_no_ratio(&options, &sim) <= S2_DENSE_SPILLS) == (options.batch <= fit));
            assert_true(s2_sim_runs(&options, &sim, true) == (sim.fit_batch_dense >= options.batch));
        }
        s2_arena_release(&arena);
    }
}

/* Where the search for the peak runs out of steps and knows a bound alone, what is said to fit is said to run. */
static void a_batch_that_fits_runs_where_the_peak_is_a_bound(void **state)
{
    (void)state;
    int64_t n_bounds = 0;
    for (int64_t nth = 0; nth < s2_test_cases(4); nth++) {
        s2_rng rng = {s2_test_seed(20261130) + (uint64_t)nth};
        s2_arena arena = {0};
        char text[256];
        snprintf(text, sizeof text,
                 "layers %d; heads 128; head-dim 64; block 128; layers all: local 4 | stride 32 phase "
                 "head+layer*3; "
                 "layers 0: dense; layers 6::12: chunk %dt | local 2",
                 24 + 12 * (int)s2_rng_below(&rng, 3), 2048 << s2_rng_below(&rng, 3));
        const s2_pattern pattern = s2_parsed(&arena, text);
        s2_sim_options options = defaults();
        options.phase = S2_DECODE;
        options.len_tok = (int64_t)8192 << s2_rng_below(&rng, 3);
        options.batch = 1 + (int64_t)s2_rng_below(&rng, 4);
        const int64_t fit = priced(&arena, &pattern, &options).fit_batch;
        for (int64_t more = 1; more <= 3; more++) {
            options.batch = s2_max_i64(fit, 1) * more;
            const s2_sim sim = priced(&arena, &pattern, &options);
            n_bounds += !sim.kv_peak_exact;
            if (sim.fit_batch >= options.batch)
                assert_true(s2_sim_runs(&options, &sim, false) &&
                            s2_sim_no_ratio(&options, &sim) != S2_SPILLS);
        }
        s2_arena_release(&arena);
    }
    assert_true(n_bounds > 0);
}

/* GPUs that share a context are never faster than their share of the arithmetic, nor than their link. */
static void a_shared_context_takes_its_share_and_its_traffic(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(25); n++) {
        s2_rng rng = {s2_test_seed(20261127) + (uint64_t)n};
        s2_arena arena = {0};
        const s2_net net = net_of(machine_models[s2_rng_below(&rng, 4)]);
        const s2_pattern pattern = model_pattern(&arena, &rng, &net);
        s2_sim_options options = draw_machine(&rng, &net, &calibration);
        options.phase = s2_rng_below(&rng, 2) == 0 ? S2_PREFILL : S2_TRAIN;
        const s2_sim one = priced(&arena, &pattern, &options);
        options.n_context = 2 + (int32_t)s2_rng_below(&rng, 7);
        options.cut = (s2_context_cut)s2_rng_below(&rng, S2_N_CUTS);
        const s2_sim sim = priced(&arena, &pattern, &options);
        assert_int_equal(sim.kv_peak_tok, one.kv_peak_tok);
        const double c = options.n_context, kv_heads = (double)net.n_kv_heads / options.n_ranks,
                     least_us = peak_us(&options, (double)one.counts.flop_useful) / options.n_ranks / c,
                     bytes = (c - 1) / c * (double)options.len_tok * (double)options.batch * 2 * 2 *
                             net.head_dim * (kv_heads > 1 ? kv_heads : 1) * net.n_layers *
                             (options.phase == S2_TRAIN ? options.recompute ? 4 : 3 : 1);
        assert_true(sim.bound_us >= least_us * (1 - 1e-9) && sim.time_us >= sim.bound_us * (1 - 1e-9));
        assert_true(options.cut == S2_CUT_CONTIGUOUS ? sim.machine.ring_bytes <= bytes * (1 + 1e-9)
                                                     : fabs(sim.machine.ring_bytes / bytes - 1) < 1e-9);
        assert_true(sim.time_us + part_us(&sim, "attention again") >=
                    sim.machine.ring_bytes / link_rate(&options) * (1 - 1e-9));
        assert_true(sim.machine.imbalance >= 1 - 1e-9);
        assert_true(sim.predicted == one.predicted && !(sim.predicted && sim.measured));
        assert_true(one.predicted == (options.calibration != NULL) ||
                    (options.phase == S2_TRAIN && net.head_dim == 80)); /* which no measured gradient takes */
        /* around attention each GPU has its tokens */
        const double share =
            (double)((options.len_tok + options.n_context - 1) / options.n_context) / (double)options.len_tok;
        if (options.calibration == NULL)
            assert_true(part_us(&sim, "feed-forward") >= part_us(&one, "feed-forward") * share * (1 - 1e-9));
        s2_arena_release(&arena);
    }
}

/*
 * A ring holds two parts of what goes round at most, and the last of contiguous parts what it is sent, an array of
 * that and its own, and a copy: whatever an element of keys and values takes, it takes on the link and in memory.
 */
static void what_a_context_holds_is_what_it_is_sent(void **state)
{
    (void)state;
    static const s2_dtype dtypes[] = {S2_BF16, S2_F16, S2_F8};
    for (int64_t n = 0; n < s2_test_cases(24); n++) {
        s2_rng rng = {s2_test_seed(20261129) + (uint64_t)n};
        s2_arena arena = {0};
        const s2_net net = net_of("llama-3.1-8b");
        const s2_pattern pattern = s2_parsed(&arena, "model llama-3.1-8b; layers all: dense");
        s2_sim_options options = defaults();
        options.net = &net;
        options.calibration = NULL;
        options.phase = S2_PREFILL;
        options.dtype = dtypes[n % 3];
        options.n_ranks = 1 << s2_rng_below(&rng, 5); /* 16 have a copy of a KV head */
        options.n_context = 2 + (int32_t)s2_rng_below(&rng, 7);
        options.cut = n / 3 % 2 == 0 ? S2_CUT_ZIGZAG : S2_CUT_CONTIGUOUS;
        options.len_tok = 4096 * (int64_t)options.n_context;
        const s2_sim sim = priced(&arena, &pattern, &options);
        const double c = options.n_context, sent = sim.machine.ring_bytes / net.n_layers,
                     parts = options.cut == S2_CUT_ZIGZAG ? fmin(c - 1, 2) : 3 * c;
        s2_assert_close(sim.machine.ring_held_bytes, sent / (c - 1) * parts, 1e-9 * sent * parts);
        s2_arena_release(&arena);
    }
}

/* Where no kernel was measured a shared context is priced at peak rates, as with --bounds, its links too. */
static void a_shared_context_is_predicted_whole_or_not_at_all(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int32_t n = 0; n < 16; n++) {
        s2_arena arena = {0};
        const s2_pattern pattern =
            s2_parsed(&arena, n % 2 ? "heads 8; kv-heads 2; head-dim 320; all: local 4 | stride 4"
                                    : "heads 8; kv-heads 2; head-dim 320; all: dense");
        s2_sim_options options = defaults();
        options.len_tok = 8192;
        options.phase = n / 2 % 2 ? S2_TRAIN : S2_PREFILL;
        options.cut = n / 4 % 2 ? S2_CUT_ZIGZAG : S2_CUT_CONTIGUOUS;
        options.n_context = n / 8 % 2 ? 5 : 2;
        options.calibration = NULL;
        const s2_sim bounds = priced(&arena, &pattern, &options);
        options.calibration = &calibration;
        const s2_sim sim = priced(&arena, &pattern, &options);
        assert_false(sim.predicted);
        s2_assert_close(sim.time_us, bounds.time_us, 1e-9 * bounds.time_us);
        s2_assert_close(sim.dense_time_us, bounds.dense_time_us, 1e-9 * bounds.dense_time_us);
        s2_arena_release(&arena);
    }
}

/* The network is no faster than the links of a node, and slows only those who use it. */
static void nodes_slow_the_groups_that_span_them(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    s2_arena arena = {0};
    const s2_net net = net_of("llama-3.1-8b");
    const s2_pattern pattern = s2_parsed(&arena, "model llama-3.1-8b; layers all: local 4");
    s2_sim_options options = defaults();
    options.net = &net;
    options.calibration = &calibration;
    options.phase = S2_TRAIN;
    options.n_ranks = 4;
    options.n_stages = 2;
    options.n_shards = 2;
    double all_reduce[5], gather[5], between[5];
    for (int32_t n = 0; n < 5; n++) {
        options.n_nodes = 1 << n;
        const s2_sim sim = priced(&arena, &pattern, &options);
        all_reduce[n] = part_us(&sim, "all-reduce");
        gather[n] = part_us(&sim, "gather, scatter");
        between[n] = sim.machine.boundary_us;
    }
    const double slower = options.gpu.nvlink_gb_s / 2 / options.gpu.network_gb_s;
    /* 16 GPUs: replicas part at two nodes, stages at four, the heads of a layer at eight */
    s2_assert_close(gather[1], gather[0] * slower, 1e-9 * gather[1]);
    assert_true(between[1] == between[0] && all_reduce[1] == all_reduce[0]);
    s2_assert_close(between[2], between[0] * slower, 1e-9 * between[2]);
    assert_true(all_reduce[2] == all_reduce[0] && all_reduce[3] > 2 * all_reduce[0]);
    assert_true(all_reduce[4] == all_reduce[3]);
    s2_arena_release(&arena);
}

static void machines_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t stages, context, nodes;
        s2_phase phase;
        bool net;
        const char *gpu, *text, *why;
    } rows[] = {
        {2, 1, 1, S2_PREFILL, false, "h200", "layers 4; heads 2; all: dense", "needs a model"},
        {33, 1, 1, S2_PREFILL, true, "h200", "model llama-3.1-8b; layers all: local 4", "at most 32 stages"},
        {1, 2, 1, S2_DECODE, false, "h200", "heads 2; all: dense", "--cp shares out"},
        {1, 2, 1, S2_PREFILL, false, "h200", "heads 2; causal no; all: dense", "causal patterns only"},
        {1, 65, 1, S2_PREFILL, false, "h200", "heads 2; all: dense", "at most 64 GPUs"},
        {1, 2, 3, S2_PREFILL, false, "h200", "heads 2; all: dense", "3 nodes evenly"},
        {1, 2, 2, S2_PREFILL, false, "l40s", "heads 2; all: dense", "network_gb_s"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        s2_arena arena = {0};
        const s2_pattern pattern = s2_parsed(&arena, rows[r].text);
        s2_sim_options options = defaults();
        s2_net net;
        s2_sim sim;
        s2_diag diag = {0};
        assert_int_equal(s2_gpu_find(rows[r].gpu, &options.gpu, &diag), S2_OK);
        if (rows[r].net) {
            net = net_of("llama-3.1-8b");
            options.net = &net;
        }
        options.phase = rows[r].phase;
        options.n_stages = rows[r].stages;
        options.n_context = rows[r].context;
        options.n_nodes = rows[r].nodes;
        assert_true(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag) != S2_OK);
        if (strstr(diag.msg, rows[r].why) == NULL)
            fail_msg("no '%s' in: %s", rows[r].why, diag.msg);
        s2_arena_release(&arena);
    }
}

static void weights_of_few_bits_are_not_trained(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "model gpt-oss-20b; all: local 4");
    const s2_net net = net_of("gpt-oss-20b");
    for (s2_weights weights = 0; weights < S2_N_WEIGHTS; weights++) {
        s2_sim_options options = defaults();
        s2_sim sim;
        options.net = &net;
        options.weights = weights;
        const bool few =
            weights != S2_WEIGHTS_PUBLISHED && weights != S2_WEIGHTS_AS_DTYPE && weights != S2_WEIGHTS_FP8;
        for (s2_phase phase = 0; phase < S2_N_PHASES; phase++) {
            s2_diag diag = {0};
            options.phase = phase;
            const s2_status status = s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &sim, &diag);
            assert_int_equal(status, few && phase == S2_TRAIN ? S2_EINVAL : S2_OK);
            assert_true(status == S2_OK || strstr(diag.msg, s2_weights_word(weights)) != NULL);
        }
    }
    s2_arena_release(&arena);
}

/* Layers taken out of a pattern read what they did in it. */
static void layers_of_a_stage_read_what_they_did(void **state)
{
    (void)state;
    static const char text[] =
        "layers 7; heads 4; kv-heads 2; block 16; layers all: local 1 | stride 3 phase "
        "head+layer; layers 2,5: stride 4 phase 2*layer+kv; decode layers 1::2: dense";
    s2_arena arena = {0};
    const s2_pattern whole = s2_parsed(&arena, text);
    for (int32_t begin = 0; begin < whole.n_layers; begin++) {
        s2_pattern part;
        s2_diag diag;
        assert_int_equal(s2_share_layers(&arena, &whole, begin, whole.n_layers, &part, &diag), S2_OK);
        for (int32_t layer = 0; layer < part.n_layers; layer++)
            for (int32_t head = 0; head < part.n_heads; head++)
                for (int64_t q_tok = 0; q_tok < 200; q_tok += 7)
                    for (int64_t k_tok = 0; k_tok <= q_tok; k_tok += 5)
                        for (s2_phase phase = S2_PREFILL; phase <= S2_DECODE; phase++)
                            assert_int_equal(
                                s2_pattern_reads(&part, phase, layer, head, 200, q_tok, k_tok),
                                s2_pattern_reads(&whole, phase, begin + layer, head, 200, q_tok, k_tok));
    }
    assert_true(s2_share_layers_alike(&whole, 2, 2) == false);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capped_scores_and_sinks_take_what_was_measured),
        cmocka_unit_test(caps_and_sinks_add_time_and_nothing_else),
        s2_long_test(whole_models_take_what_was_measured_within_ten_percent),
        s2_long_test(a_context_of_two_takes_and_sends_what_was_measured),
        cmocka_unit_test(training_steps_keep_what_was_measured_within_two_percent),
        cmocka_unit_test(more_tokens_keep_what_more_was_measured),
        cmocka_unit_test(eager_kernels_move_more_and_leave_products_alone),
        cmocka_unit_test(a_hidden_state_moves_alike_in_eight_bits),
        cmocka_unit_test(tokens_read_the_experts_that_they_pick),
        cmocka_unit_test(a_mixture_is_the_sum_of_its_layers),
        cmocka_unit_test(quantized_weights_weigh_what_their_files_do),
        cmocka_unit_test(experts_that_cannot_be_dealt_are_refused),
        cmocka_unit_test(dealt_experts_leave_room_that_is_there),
        cmocka_unit_test(dealt_experts_are_those_of_one_gpu_and_their_tokens_travel),
        cmocka_unit_test(more_tokens_are_more_picks),
        cmocka_unit_test(all_wait_for_the_gpu_that_is_picked_most),
        cmocka_unit_test(picks_spread_over_the_gpus_as_drawn_ones_do),
        cmocka_unit_test(latent_attention_costs_its_own_widths),
        cmocka_unit_test(whole_models_of_latent_attention_are_priced_as_they_are),
        cmocka_unit_test(choosing_keys_costs_what_its_consumer_scores),
        cmocka_unit_test(stages_wait_for_one_another_and_share_what_is_kept),
        cmocka_unit_test(a_pipeline_takes_what_its_stages_and_links_do),
        cmocka_unit_test(what_fits_a_machine_in_training_fits_when_asked),
        s2_long_test(a_pipeline_spills_what_its_stages_do),
        cmocka_unit_test(a_shared_context_fits_to_the_sequence),
        cmocka_unit_test(a_pipeline_runs_the_batch_that_fits),
        cmocka_unit_test(a_batch_that_fits_runs_where_the_peak_is_a_bound),
        cmocka_unit_test(a_shared_context_takes_its_share_and_its_traffic),
        cmocka_unit_test(what_a_context_holds_is_what_it_is_sent),
        cmocka_unit_test(a_shared_context_is_predicted_whole_or_not_at_all),
        cmocka_unit_test(nodes_slow_the_groups_that_span_them),
        cmocka_unit_test(machines_that_cannot_be_are_refused),
        cmocka_unit_test(weights_of_few_bits_are_not_trained),
        cmocka_unit_test(layers_of_a_stage_read_what_they_did),
    };
    return cmocka_run_group_tests_name("machines", tests, NULL, NULL);
}
