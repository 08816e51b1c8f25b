/*
 * Several GPUs, and what fits on one: random designs against each GPU priced by itself, and against every
 * length counted one by one.
 */
#include "tests/s2test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/work.h"
#include "pattern/dense.h"
#include "pattern/parse.h"
#include "sim/capacity.h"
#include "sim/growth.h"
#include "sim/price.h"
#include "sim/share.h"
#include "tests/gen_pattern.h"
#include "tests/s2parsed.h"
#include "tests/s2priced.h"
#include "tests/s2time.h"

/* Heads of one layer that differ from KV head to KV head; random lists would be drawn anew on a GPU. */
static void draw_design(s2_rng *rng, s2_buf *text)
{
    static const int32_t heads[] = {4, 8, 16, 32, 64}, groups[] = {1, 2, 4, 8};
    const int32_t n_heads = heads[s2_rng_below(rng, 5)],
                  group = groups[s2_rng_below(rng, n_heads > 4 ? 4 : 3)];
    const int32_t n_kv = n_heads / group;
    s2_buf_printf(text, "heads %d; kv-heads %d; head-dim %d; layers all: local %d", n_heads, n_kv,
                  s2_rng_below(rng, 2) == 0 ? 64 : 128, 1 + (int)s2_rng_below(rng, 8));
    if (s2_rng_below(rng, 2) == 0)
        s2_buf_printf(text, " | stride %d phase %s", 2 + (int)s2_rng_below(rng, 7),
                      s2_rng_below(rng, 2) == 0 ? "kv" : "head");
    const int32_t dense = (int32_t)s2_rng_below(rng, (uint64_t)n_kv);
    if (s2_rng_below(rng, 3) > 0)
        s2_buf_printf(text, "; kv 0-%d: dense", dense);
    if (s2_rng_below(rng, 4) == 0)
        s2_buf_printf(text, "; kv %d: sink 4t | local 100t", (int)s2_rng_below(rng, (uint64_t)n_kv));
}

static s2_sim_options draw_options(s2_rng *rng, const s2_calibration *calibration)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = (s2_phase)s2_rng_below(rng, S2_N_PHASES);
    options.len_tok = 1 + (int64_t)s2_rng_below(rng, 3000);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 4);
    options.calibration = s2_rng_below(rng, 2) == 0 ? calibration : NULL;
    return options;
}

/* One GPU's heads as a pattern of their own. */
static s2_sim run_alone(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                        int32_t rank)
{
    s2_share_heads heads;
    s2_pattern share;
    s2_sim_options alone = *options;
    alone.n_ranks = 1;
    const s2_phase phase = s2_phase_rules(options->phase);
    assert_int_equal(
        s2_share_deal(arena, pattern->n_heads, pattern->n_kv_heads, options->n_ranks, rank, NULL, &heads),
        S2_OK);
    assert_int_equal(s2_share_pattern(arena, pattern, phase, 0, &heads, &share), S2_OK);
    return s2_priced(arena, &share, &alone);
}

static void each_gpu_is_priced_as_its_own_pattern(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261122) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        draw_design(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = draw_options(&rng, &calibration);
        const s2_sim one = s2_priced(&arena, &pattern, &options);
        options.n_ranks = 1 << s2_rng_below(&rng, 4);
        if (s2_share_check(&pattern, options.n_ranks, NULL) != S2_OK)
            options.n_ranks = 1;
        const s2_sim all = s2_priced(&arena, &pattern, &options);
        const int32_t n_copies =
            options.n_ranks > pattern.n_kv_heads ? options.n_ranks / pattern.n_kv_heads : 1;
        double forward_us = 0, backward_us = 0, bound_us = 0, hbm_bytes = 0;
        int64_t pairs = 0, fullest = 0, read = 0;
        for (int32_t rank = 0; rank < options.n_ranks; rank++) {
            const s2_sim own = run_alone(&arena, &pattern, &options, rank);
            const double bytes = (double)own.counts.hbm_read + (double)own.counts.hbm_write;
            assert_true(own.time_us >= bytes / (options.gpu.hbm_gb_s * 1e3) * (1 - 1e-9));
            assert_true(all.time_us >= own.time_us * (1 - 1e-9));
            forward_us = fmax(forward_us, own.parts[0].time_us);
            backward_us = fmax(backward_us, own.n_parts > 1 ? own.parts[1].time_us : 0);
            bound_us = fmax(bound_us, own.bound_us);
            hbm_bytes = fmax(hbm_bytes, bytes);
            fullest = own.kv.head_pages > fullest ? own.kv.head_pages : fullest;
            pairs += own.counts.pairs;
            read += own.counts.hbm_read;
        }
        if (fabs(all.time_us - forward_us - backward_us) > 1e-9 * all.time_us)
            fail_msg("%s, %d GPUs: %.9g us, the slowest takes %.9g", text.data, options.n_ranks, all.time_us,
                     forward_us + backward_us);
        s2_assert_close(all.bound_us, bound_us, 1e-9 * bound_us);
        s2_assert_close(all.ranks.hbm_bytes, hbm_bytes, 0.5);
        assert_int_equal(all.kv_fullest, fullest);
        assert_int_equal(all.counts.pairs, pairs);
        assert_int_equal(all.counts.pairs, one.counts.pairs);
        assert_int_equal(all.counts.flop_useful, one.counts.flop_useful);
        assert_int_equal(all.counts.hbm_read, read);
        if (n_copies == 1)
            assert_int_equal(all.counts.hbm_read, one.counts.hbm_read);
        else
            assert_true(all.counts.hbm_read >= one.counts.hbm_read);
        assert_true(all.ranks.imbalance >= 1 - 1e-9);
        assert_true(all.ranks.mended_us < all.time_us);
        assert_true(all.ranks.mended_us == 0 || all.ranks.mended_imbalance >= 1 - 1e-9);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* ---- a context that GPUs share */

/* The tokens of one of c GPUs, in one piece or two. */
static int32_t pieces_of(s2_context_cut cut, int64_t c, int64_t rank, int64_t len_tok, int64_t begin[2],
                         int64_t end[2])
{
    const int64_t nth[2] = {rank, 2 * c - 1 - rank}, n = cut == S2_CUT_ZIGZAG ? 2 * c : c;
    for (int32_t piece = 0; piece < 2; piece++) {
        begin[piece] = len_tok * nth[piece] / n;
        end[piece] = len_tok * (nth[piece] + 1) / n;
    }
    return cut == S2_CUT_ZIGZAG ? 2 : 1;
}

/* Bytes of K and V of keys [from, to) that some query from `begin` on reads, looked at one by one. */
static double needed_bytes(const s2_pattern *pattern, int64_t from, int64_t to, int64_t begin, int64_t last)
{
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    int64_t n = 0;
    for (int32_t kv = 0; kv < pattern->n_kv_heads; kv++)
        for (int64_t key = from; key < to; key++) {
            bool is_read = false;
            for (int64_t query = begin; query < last && !is_read; query++)
                for (int32_t head = kv * group; head < (kv + 1) * group && !is_read; head++)
                    is_read = s2_pattern_reads(pattern, S2_PREFILL, 0, head, last, query, key);
            n += is_read;
        }
    return (double)n * 2 * pattern->head_dim * 2;
}

typedef struct gpu_price {
    double us, hbm_us;
} gpu_price;

/* The pieces of one GPU, each as new tokens behind a cache; adds what they count to *pairs. */
static gpu_price price_of_tokens(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                                 int64_t rank, int64_t *pairs)
{
    int64_t begin[2], end[2];
    const int32_t n = pieces_of(options->cut, options->n_context, rank, options->len_tok, begin, end);
    gpu_price sum = {0};
    for (int32_t piece = 0; piece < n; piece++) {
        s2_sim_options own = *options;
        own.n_context = 1;
        own.len_tok = end[piece];
        own.new_tok = end[piece] - begin[piece];
        const s2_sim sim = s2_priced(arena, pattern, &own);
        sum.us += sim.time_us;
        sum.hbm_us += sim.ranks.hbm_bytes / (options->gpu.hbm_gb_s * 1e3);
        *pairs += sim.counts.pairs;
    }
    return sum;
}

/*
 * Each GPU's tokens are priced as if they were alone, and sums over all are one GPU's counts; keys come over a link, before
 * attention where parts are contiguous, and the layer waits for the slowest.
 */
static void each_gpu_of_a_context_is_priced_as_its_own_tokens(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(40); n++) {
        s2_rng rng = {s2_test_seed(20261128) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        draw_design(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = draw_options(&rng, &calibration);
        options.phase = S2_PREFILL;
        options.n_context = 2 + (int32_t)s2_rng_below(&rng, 6);
        options.cut = (s2_context_cut)s2_rng_below(&rng, S2_N_CUTS);
        options.n_ranks = 1 << s2_rng_below(&rng, 4);
        options.len_tok = 20 * options.n_context + (int64_t)s2_rng_below(&rng, n % 4 == 0 ? 300 : 9000);
        if (s2_share_check(&pattern, options.n_ranks, NULL) != S2_OK)
            options.n_ranks = 1;
        const s2_sim all = s2_priced(&arena, &pattern, &options);
        const double rate = options.gpu.nvlink_gb_s / 2 * 1e3 * (options.calibration != NULL ? 0.8 : 1),
                     heads = fmax((double)pattern.n_kv_heads / options.n_ranks, 1),
                     round = 2.0 * 2 * pattern.head_dim * heads * (double)(options.len_tok * options.batch) *
                             (options.n_context - 1) / options.n_context / rate;
        double most_us = 0;
        int64_t pairs = 0;
        for (int64_t rank = 0; rank < options.n_context; rank++) {
            const gpu_price own = price_of_tokens(&arena, &pattern, &options, rank, &pairs);
            assert_true(all.time_us >= own.hbm_us * (1 - 1e-9));
            assert_true(all.time_us >= own.us * (1 - 1e-9));
            most_us = fmax(most_us, own.us);
        }
        assert_int_equal(pairs, all.counts.pairs);
        assert_true(all.machine.ring_bytes <= round * rate * (1 + 1e-9));
        if (options.cut == S2_CUT_ZIGZAG)
            s2_assert_close(all.machine.ring_bytes / rate, round, 1e-9 * round);
        if (options.cut == S2_CUT_ZIGZAG || options.calibration == NULL)
            s2_assert_close(all.time_us, fmax(most_us, all.machine.ring_link_us), 1e-9 * all.time_us);
        else
            assert_true(all.time_us <= (most_us + all.machine.ring_link_us) * (1 + 1e-9) &&
                        all.time_us > most_us);
        s2_assert_close(all.machine.ring_compute_us, most_us, 1e-9 * most_us);
        assert_true(all.machine.imbalance >= 1 - 1e-9 && all.bound_us <= all.plan_us * (1 + 1e-9));
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* A contiguous part is sent the keys that its queries, later ones or the token before it read, and no other. */
static void contiguous_parts_are_sent_the_keys_that_are_read(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(10); n++) {
        s2_rng rng = {s2_test_seed(20261129) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        draw_design(&rng, &text);
        s2_buf_puts(&text, "; block 4");
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = draw_options(&rng, NULL);
        options.phase = S2_PREFILL;
        options.batch = 1;
        options.n_context = 2 + (int32_t)s2_rng_below(&rng, 3);
        options.len_tok = 30 + (int64_t)s2_rng_below(&rng, 150);
        const int64_t c = options.n_context, last = options.len_tok + 300;
        double sent[8] = {0}, most = 0;
        for (int64_t to = 1; to < c; to++)
            for (int64_t from = 0; from < to; from++)
                sent[from] +=
                    needed_bytes(&pattern, options.len_tok * from / c, options.len_tok * (from + 1) / c,
                                 options.len_tok * to / c - 1, last);
        for (int64_t rank = 0; rank < c; rank++)
            most = fmax(most, sent[rank]);
        s2_assert_close(s2_priced(&arena, &pattern, &options).machine.ring_bytes, most, 0.5);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/*
 * Strides of tokens are planned key by key, and planning may give up. What one GPU plans takes nothing from another, nor
 * does the advice of how to deal heads out; where one gives up its own time is guessed, and that of the others is not.
 */
static void each_gpu_may_plan_as_much_as_alone(void **state)
{
    (void)state;
    static s2_calibration calibration;
    int32_t n_mixed = 0, n_several = 0;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(40); n++) {
        s2_rng rng = {s2_test_seed(20261124) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        double us[S2_N_PASSES] = {0};
        int32_t n_guessed = 0;
        draw_design(&rng, &text);
        const int32_t n_kv = s2_parsed(&arena, text.data).n_kv_heads;
        for (int32_t more = 0; more < 2; more++)
            s2_buf_printf(&text, "; kv %d: %s %dt", (int)s2_rng_below(&rng, (uint64_t)n_kv),
                          s2_rng_below(&rng, 3) == 0 ? "local" : "dilated", 2 + (int)s2_rng_below(&rng, 4));
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = draw_options(&rng, &calibration);
        options.calibration = &calibration;
        options.plan_work = INT64_C(1) << (12 + s2_rng_below(&rng, 14));
        options.n_ranks = 2 << s2_rng_below(&rng, 2);
        if (s2_share_check(&pattern, options.n_ranks, NULL) == S2_OK) {
            const s2_sim all = s2_priced(&arena, &pattern, &options);
            for (int32_t rank = 0; rank < options.n_ranks; rank++) {
                const s2_sim own = run_alone(&arena, &pattern, &options, rank);
                us[0] = fmax(us[0], own.parts[0].time_us);
                us[1] = fmax(us[1], own.n_parts > 1 ? own.parts[1].time_us : 0);
                n_guessed += (own.error.causes & S2_CAUSE_PLAN) != 0;
            }
            if (fabs(all.time_us - us[0] - us[1]) > 1e-9 * all.time_us)
                fail_msg("%s, %d GPUs, %lld steps, %d guessed: %.9g us, the slowest takes %.9g", text.data,
                         options.n_ranks, (long long)options.plan_work, n_guessed, all.time_us,
                         us[0] + us[1]);
            assert_true(((all.error.causes & S2_CAUSE_PLAN) != 0) == (n_guessed > 0));
            assert_true((all.error.causes & S2_CAUSE_KERNEL) == 0); /* a kernel takes each of them */
            n_mixed += n_guessed > 0 && n_guessed < options.n_ranks;
            n_several += n_guessed == 0;
        }
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    assert_true(n_mixed > 0 && n_several > 0);
}

/* A step plans its own rows alone, however many lists were drawn for the tokens before. */
static void a_decode_step_with_random_lists_is_planned_at_any_length(void **state)
{
    (void)state;
    static s2_calibration calibration;
    s2_arena arena = {0};
    s2_sim_options options;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.calibration = &calibration;
    options.phase = S2_DECODE;
    options.plan_work = 1 << 22; /* of the rows of a step and of a dense one */
    const s2_pattern pattern = s2_parsed(&arena, "heads 4; kv-heads 2; all: local 16 | random 64 seed 1");
    for (options.len_tok = 4096; options.len_tok <= 1 << 20; options.len_tok *= 4) {
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        int64_t pairs = 0;
        for (int64_t key = 0; key < options.len_tok && options.len_tok <= 65536; key++)
            for (int32_t head = 0; head < 4; head++)
                pairs +=
                    s2_pattern_reads(&pattern, S2_DECODE, 0, head, options.len_tok, options.len_tok - 1, key);
        if (options.len_tok <= 65536)
            assert_int_equal(sim.counts.pairs, pairs);
        assert_string_equal(sim.kernel, "decode");
        assert_true((sim.error.causes & (S2_CAUSE_KERNEL | S2_CAUSE_PLAN)) == 0);
    }
    s2_arena_release(&arena);
}

/* ---- layers of their own shape */

/* One layer: as a statement of the mixed pattern, and as a pattern of its own. */
static void draw_layer(s2_rng *rng, int32_t layer, s2_buf *mixed, s2_buf *alone)
{
    static const char *const bodies[] = {"dense",
                                         "local 4",
                                         "local 3 | stride 4 phase head",
                                         "local 2 | stride 4 phase kv",
                                         "sink 4t | local 100t",
                                         "chunk 8 | stride 8 phase head+1",
                                         "pages 4 page 16",
                                         "none"};
    const int32_t n_kv = 1 << s2_rng_below(rng, 4), head_dim = 64 << s2_rng_below(rng, 3);
    const char *const body = bodies[s2_rng_below(rng, 8)];
    const bool has_state = s2_rng_below(rng, 3) == 0;
    const int32_t state = 64 * (1 + (int32_t)s2_rng_below(rng, 100000));
    s2_buf_printf(mixed, "; layers %d: %s; layers %d: kv-heads %d; layers %d: head-dim %d", layer, body,
                  layer, n_kv, layer, head_dim);
    s2_buf_printf(alone, "heads 8; kv-heads %d; head-dim %d; layers all: %s", n_kv, head_dim, body);
    if (has_state) {
        s2_buf_printf(mixed, "; layers %d: state %d", layer, state);
        s2_buf_printf(alone, "; layers 0: state %d", state);
    }
}

/* What must add up over the layers. */
enum { N_SUMS = 16 };
static void add_sums(const s2_sim *sim, double sum[N_SUMS])
{
    const double own[N_SUMS] = {sim->time_us,
                                sim->plan_us,
                                sim->bound_us,
                                sim->dense_time_us,
                                (double)sim->counts.pairs,
                                (double)sim->counts.flop_useful,
                                (double)sim->counts.flop_executed,
                                (double)sim->counts.hbm_read,
                                (double)sim->counts.hbm_write,
                                (double)sim->dense.pairs,
                                (double)sim->kv.dense,
                                (double)sim->kv.used,
                                (double)sim->kv.head_pages,
                                (double)sim->kv.shared_pages,
                                (double)sim->kv.ring_stripes,
                                sim->kv_mean};
    for (int32_t n = 0; n < N_SUMS; n++)
        sum[n] += own[n];
}

static void assert_sums(const char *text, const s2_sim *sim, const double sum[N_SUMS])
{
    double own[N_SUMS] = {0};
    add_sums(sim, own);
    for (int32_t n = 0; n < N_SUMS; n++)
        if (fabs(own[n] - sum[n]) > 1e-9 * fabs(sum[n]))
            fail_msg("quantity %d is %.12g, its layers add up to %.12g: %s", n, own[n], sum[n], text);
}

static void layers_of_their_own_shape_cost_what_each_costs_alone(void **state)
{
    (void)state;
    static s2_calibration calibration;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261122) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        double sum[N_SUMS] = {0};
        s2_sim_options options = draw_options(&rng, &calibration);
        options.n_ranks = 1 << s2_rng_below(&rng, 4);
        const int32_t n_layers = 2 + (int32_t)s2_rng_below(&rng, 4);
        s2_buf_printf(&text, "heads 8; layers %d", n_layers);
        bool dynamic = false, all_predicted = true;
        for (int32_t layer = 0; layer < n_layers; layer++) {
            s2_buf alone = {0};
            draw_layer(&rng, layer, &text, &alone);
            const s2_pattern pattern = s2_parsed(&arena, alone.data);
            dynamic = dynamic || strstr(alone.data, "pages") != NULL;
            const s2_sim sim = s2_priced(&arena, &pattern, &options);
            all_predicted = all_predicted && (sim.predicted || strstr(alone.data, ": none") != NULL);
            add_sums(&sim, sum);
            s2_buf_release(&alone);
        }
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim sim = s2_priced(&arena, &pattern, &options);
        /* one layer without a plan leaves all without: their time is then a share of the dense one's */
        if (dynamic && options.calibration != NULL)
            sum[0] = sim.time_us;
        /* nor is a whole predicted that has a layer whose head dimension no measured kernel takes */
        if (!all_predicted && options.calibration != NULL) {
            assert_false(!dynamic && sim.predicted);
            sum[0] = sim.time_us;
            sum[3] = sim.dense_time_us;
        }
        assert_sums(text.data, &sim, sum);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

/* The layer that keeps the keys keeps what either reads: as one layer of both bodies would. */
static void shared_keys_are_kept_once_for_all_who_read_them(void **state)
{
    (void)state;
    static const char *const bodies[] = {"local 4", "local 2 | stride 4 phase head", "sink 2", "chunk 4"};
    for (int32_t n = 0; n < 16; n++) {
        s2_arena arena = {0};
        char text[200];
        s2_sim_options options;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        options.len_tok = 3000 + 77 * n;
        options.n_ranks = 1 + n % 2;
        snprintf(text, sizeof text,
                 "heads 8; kv-heads 4; layers 2; layers 0: %s; layers 1: %s; layers 1: kv-layer 0",
                 bodies[n / 4], bodies[n % 4]);
        const s2_pattern shared = s2_parsed(&arena, text);
        snprintf(text, sizeof text, "heads 8; kv-heads 4; all: %s | %s", bodies[n / 4], bodies[n % 4]);
        const s2_pattern both = s2_parsed(&arena, text);
        const s2_sim one = s2_priced(&arena, &shared, &options), other = s2_priced(&arena, &both, &options);
        assert_memory_equal(&one.kv, &other.kv, sizeof one.kv);
        assert_int_equal(one.kv_peak, other.kv_peak);
        assert_int_equal(one.fit_len_tok, other.fit_len_tok);
        assert_int_equal(one.fit_batch, other.fit_batch);
        s2_arena_release(&arena);
    }
}

static void uneven_heads_are_seen_and_mended(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 32; kv-heads 8; kv 0-3: dense; kv 4-7: local 4");
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = 32768;
    options.n_ranks = 2;
    const s2_sim sim = s2_priced(&arena, &pattern, &options);
    assert_true(sim.ranks.imbalance > 1.9 && sim.ranks.slowest == 0);
    assert_true(sim.ranks.mended_us < 0.52 * sim.time_us);
    s2_assert_close(sim.ranks.mended_imbalance, 1, 0.02);
    int32_t dense_first = 0;
    for (int32_t kv = 0; kv < 4; kv++)
        dense_first += sim.ranks.order[kv] < 4;
    assert_int_equal(sim.ranks.n_order, 8);
    assert_int_equal(dense_first, 2);
    s2_arena_release(&arena);
}

static void more_gpus_than_kv_heads_copy_them(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "heads 16; kv-heads 2; all: dense");
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = S2_DECODE;
    options.n_ranks = 8;
    const s2_sim sim = s2_priced(&arena, &pattern, &options);
    assert_int_equal(sim.ranks.n_copies, 4);
    assert_int_equal(sim.kv_fullest, 8192LL * 2 * 128 * 2);
    assert_int_equal(sim.kv.head_pages, 8 * sim.kv_fullest);
    options.n_ranks = 3;
    s2_diag diag = {0};
    s2_sim refused;
    assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_WHOLE, &refused, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "3 GPUs cannot share 16 heads on 2 KV heads"));
    s2_arena_release(&arena);
}

/* ---- what fits */

/* What is not in the whole pages of the first shared_tok tokens. */
static double bytes_at(const s2_classes *classes, int64_t shared_tok, int64_t n_tok, int32_t page_tok)
{
    s2_kv_elems elems, before = {0};
    if (n_tok <= shared_tok)
        return 0;
    assert_int_equal(s2_kv_count(classes, n_tok, page_tok, &elems), S2_OK);
    if (shared_tok > 0)
        assert_int_equal(s2_kv_count(classes, shared_tok, page_tok, &before), S2_OK);
    assert_int_equal(s2_kv_head_pages(classes, shared_tok, n_tok, page_tok, &elems.head_pages), S2_OK);
    elems.meta -= before.meta;
    elems.index_bytes -= before.index_bytes;
    s2_kv_bytes bytes;
    assert_int_equal(s2_kv_elems_bytes(&elems, 2, 1, &bytes), S2_OK);
    return (double)bytes.head_pages - (double)classes->state_bytes;
}

static void draw_text(s2_rng *rng, s2_buf *text)
{
    s2_gen_options gen = s2_gen_defaults();
    gen.not_causal = gen.decorated = false;
    s2_gen_pattern(rng, &gen, text);
}

/* Every length one by one, far beyond where the heads begin to repeat. */
static void peaks_and_longest_contexts_are_those_of_enumeration(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261122) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_classes classes;
        s2_growth growth;
        s2_growth_peak peak;
        draw_text(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        const int32_t page_tok = 1 + (int32_t)s2_rng_below(&rng, 17);
        const int64_t n_tok = 1 + (int64_t)s2_rng_below(&rng, 1500);
        const int64_t shared_tok =
            (int64_t)s2_rng_below(&rng, 2) * (int64_t)s2_rng_below(&rng, 40) * page_tok;
        assert_int_equal(s2_classes_build(&arena, &pattern, S2_DECODE, &classes), S2_OK);
        assert_int_equal(s2_growth_init(&classes, shared_tok, page_tok, 2, &growth), S2_OK);
        double most = 0, room = 0;
        const int64_t room_tok = 1 + (int64_t)s2_rng_below(&rng, (uint64_t)n_tok);
        for (int64_t tok = 1; tok <= n_tok; tok++) {
            most = fmax(most, bytes_at(&classes, shared_tok, tok, page_tok));
            room = tok == room_tok ? most : room;
        }
        int64_t longest, expected = n_tok;
        for (int64_t tok = n_tok; tok >= 1; tok--)
            expected = bytes_at(&classes, shared_tok, tok, page_tok) > room ? tok - 1 : expected;
        assert_int_equal(s2_growth_find_peak(&growth, n_tok, &peak), S2_OK);
        assert_int_equal(s2_growth_find_longest(&growth, room, &longest), S2_OK);
        if (peak.exact ? peak.bytes != most : peak.bytes < most)
            fail_msg("%s\n%lld tokens, pages of %d: peak %.0f, counted %.0f", text.data, (long long)n_tok,
                     page_tok, peak.bytes, most);
        if (growth.exact ? longest < expected || (expected < n_tok && longest != expected)
                         : expected < n_tok && longest > expected)
            fail_msg("%s\n%.0f bytes, pages of %d: %lld tokens fit, counted %lld", text.data, room, page_tok,
                     (long long)longest, (long long)expected);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

static s2_sim_options small_gpu(s2_rng *rng)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.phase = S2_DECODE;
    options.gpu.hbm_gb = 1e-6 * (double)(1 + s2_rng_below(rng, 3000000));
    options.len_tok = 1 + (int64_t)s2_rng_below(rng, 3000);
    options.batch = 1 + (int64_t)s2_rng_below(rng, 50);
    return options;
}

static double processor_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* How long everything of the cache takes, its peak and what fits; judged by its steps, not by its time. */
static void what_fits_is_timed(void **state)
{
    (void)state;
    const int64_t n_cases = s2_test_cases(60);
    double *const ms = calloc((size_t)n_cases, sizeof *ms);
    assert_non_null(ms);
    for (int64_t n = 0; n < n_cases; n++) {
        s2_rng rng = {s2_test_seed(20261123) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        s2_sim sim = {0};
        int64_t work_left = S2_WORK_STEPS;
        draw_text(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = small_gpu(&rng);
        options.len_tok = 1 + (int64_t)s2_rng_below(&rng, 131072);
        const double begin_ms = processor_ms();
        assert_int_equal(s2_capacity_price(&arena, &pattern, &options, &work_left, &sim), S2_OK);
        ms[n] = processor_ms() - begin_ms;
        if (S2_WORK_STEPS - work_left > 1 << 23)
            fail_msg("counting took %lld steps: %s", (long long)(S2_WORK_STEPS - work_left), text.data);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    qsort(ms, (size_t)n_cases, sizeof *ms, s2_by_value);
    printf("# s2: what fits, %lld random patterns of up to 128k tokens: median %.2f ms, 99 %% within %.0f "
           "ms, all "
           "within %.0f ms\n",
           (long long)n_cases, ms[n_cases / 2], ms[n_cases * 99 / 100], ms[n_cases - 1]);
    free(ms);
}

/* A model whose passes hold about as much as the caches of small designs. */
static const s2_net small_net = {.n_layers = 2,
                                 .hidden = 64,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .ffn = 160,
                                 .vocab = 500,
                                 .gated = true,
                                 .n_experts = 1,
                                 .n_active = 1};

static double all_bytes(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options)
{
    return (double)s2_priced(arena, pattern, options).kv_peak + s2_sim_activation_bytes(options);
}

/* What a pass holds, tensor by tensor. */
static double held_by_pass(const s2_sim_options *options)
{
    const s2_net *const net = options->net;
    const bool decode = options->phase == S2_DECODE;
    const double seqs = (double)options->batch,
                 each = (double)(options->new_tok > 0 ? options->new_tok
                                 : decode             ? 1
                                                      : options->len_tok),
                 q = net->n_heads * net->head_dim, k = net->n_kv_heads * net->head_dim,
                 inner = 3.0 * net->ffn;
    double token = 2.0 * net->hidden + fmax(q + k + k + q, inner); /* residual, its norm, the widest step */
    if (options->fusion == S2_EAGER)                               /* all of a layer, Q and K twice */
        token = 4.0 * net->hidden + q + k + k + q + q + k + inner;
    const double rows =
        ceil(net->n_heads / net->n_kv_heads * (decode ? fmax((double)options->new_tok, 1) : 1) / 8) * 8;
    return 2 * token * each * seqs + 4.0 * net->vocab * seqs * (decode ? each : 1) +
           2 * options->gpu.sms * 2 * rows * (net->head_dim + 2) * 4;
}

/* Inference of a model: as much as activations and caches take together fits, and no byte more. */
static void activations_of_inference_take_room(void **state)
{
    (void)state;
    s2_arena arena = {0};
    const s2_pattern pattern = s2_parsed(&arena, "layers 2; heads 4; kv-heads 2; head-dim 16; all: dense");
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261124) + (uint64_t)n};
        s2_sim_options options = small_gpu(&rng);
        options.phase = n % 2 == 0 ? S2_PREFILL : S2_DECODE;
        options.fusion = n % 3 == 0 ? S2_EAGER : S2_FUSED;
        options.keeps_all = false;
        const s2_sim bare = s2_priced(&arena, &pattern, &options);
        options.net = &small_net;
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        s2_assert_close(s2_sim_activation_bytes(&options), held_by_pass(&options),
                        1e-9 * held_by_pass(&options));
        assert_true(sim.fit_batch <= bare.fit_batch && sim.fit_len_tok <= bare.fit_len_tok);
        assert_int_equal(sim.fit_batch, sim.fit_batch_dense);
        assert_int_equal(sim.fit_len_tok, sim.fit_len_dense_tok);
        assert_true(s2_sim_runs(&options, &sim, false) == (sim.fit_batch >= options.batch));
        assert_true(s2_sim_runs(&options, &sim, true) == (sim.fit_batch_dense >= options.batch));
        s2_sim_options more = options;
        for (more.batch = s2_max_i64(1, sim.fit_batch); more.batch <= sim.fit_batch + 1; more.batch++)
            if (more.batch <= S2_LIMIT_BATCH)
                assert_true((all_bytes(&arena, &pattern, &more) <= s2_capacity_room(&more)) ==
                            (more.batch <= sim.fit_batch));
        s2_sim_options longer = options;
        for (longer.len_tok = s2_max_i64(1, sim.fit_len_tok); longer.len_tok <= sim.fit_len_tok + 1;
             longer.len_tok++)
            assert_true((all_bytes(&arena, &pattern, &longer) <= s2_capacity_room(&longer)) ==
                        (longer.len_tok <= sim.fit_len_tok));
        if (options.phase == S2_DECODE)
            continue;
        options.new_tok = 1 + (int64_t)s2_rng_below(&rng, (uint64_t)options.len_tok);
        const s2_sim chunk = s2_priced(&arena, &pattern, &options);
        assert_true(chunk.fit_batch >= sim.fit_batch && chunk.fit_len_tok >= sim.fit_len_tok);
    }
    s2_arena_release(&arena);
}

/* A dense design of any shape, whose layers may differ and keep a state. */
static void draw_dense(s2_rng *rng, s2_buf *text)
{
    const int32_t n_kv_heads = 4 << s2_rng_below(rng, 2);
    s2_buf_printf(text, "layers %d; heads %d; kv-heads %d; head-dim %d; ", 2 + (int)s2_rng_below(rng, 6),
                  n_kv_heads << s2_rng_below(rng, 3), n_kv_heads, 16 << s2_rng_below(rng, 3));
    if (s2_rng_below(rng, 3) == 0)
        s2_buf_printf(text, "layers 1::2: state %d; ", 64 + (int)s2_rng_below(rng, 4000));
    if (s2_rng_below(rng, 3) == 0)
        s2_buf_printf(text, "layers 0: head-dim 32; ");
    s2_buf_puts(text, "layers all: dense");
}

/* On any machine and with any page dense beside itself fits neither more nor less. */
static void dense_fits_as_much_as_dense(void **state)
{
    (void)state;
    int32_t n_within = 0;
    for (int64_t n = 0; n < s2_test_cases(200); n++) {
        s2_rng rng = {s2_test_seed(20261130) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        draw_dense(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = small_gpu(&rng);
        s2_net net = small_net;
        net.n_layers = pattern.n_layers;
        net.n_heads = pattern.n_heads;
        net.n_kv_heads = pattern.n_kv_heads;
        net.head_dim = pattern.head_dim;
        options.page_tok = 1 + (int32_t)s2_rng_below(&rng, 40);
        options.n_ranks = 1 << s2_rng_below(&rng, 3);
        options.phase = s2_rng_below(&rng, 2) == 0 ? S2_PREFILL : S2_DECODE;
        options.cache = (s2_cache_type)s2_rng_below(&rng, S2_N_CACHE_TYPES);
        options.keeps_all = s2_rng_below(&rng, 3) == 0;
        if (options.phase == S2_PREFILL && s2_rng_below(&rng, 2) == 0)
            options.new_tok = 1 + (int64_t)s2_rng_below(&rng, (uint64_t)options.len_tok);
        if (!s2_pattern_layers_differ(&pattern) && s2_rng_below(&rng, 3) != 0)
            options.net = &net;
        options.n_stages = options.net != NULL ? 1 + (int32_t)s2_rng_below(&rng, 2) : 1;
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        n_within += sim.fit_len_dense_tok % options.page_tok != 0;
        if (sim.fit_len_tok != sim.fit_len_dense_tok || sim.fit_batch != sim.fit_batch_dense)
            fail_msg("%s: %lld tokens fit, dense %lld; batch %lld, dense %lld", text.data,
                     (long long)sim.fit_len_tok, (long long)sim.fit_len_dense_tok, (long long)sim.fit_batch,
                     (long long)sim.fit_batch_dense);
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
    assert_true(n_within > 0 || s2_test_cases(200) < 200);
}

static void what_is_said_to_fit_fits_when_asked(void **state)
{
    (void)state;
    for (int64_t n = 0; n < s2_test_cases(60); n++) {
        s2_rng rng = {s2_test_seed(20261122) + (uint64_t)n};
        s2_arena arena = {0};
        s2_buf text = {0};
        draw_text(&rng, &text);
        const s2_pattern pattern = s2_parsed(&arena, text.data);
        s2_sim_options options = small_gpu(&rng);
        s2_net net = small_net;
        net.n_layers = pattern.n_layers;
        net.n_heads = pattern.n_heads;
        net.n_kv_heads = pattern.n_kv_heads;
        net.head_dim = pattern.head_dim;
        if (n % 3 < 2 && !s2_pattern_layers_differ(&pattern)) {
            options.phase = n % 3 == 0 ? S2_PREFILL : S2_DECODE;
            options.net = &net;
        }
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        const bool fits = sim.fit_batch >= options.batch;
        assert_true(fits == (sim.fit_len_tok >= options.len_tok));
        assert_true(sim.bound_us <= sim.plan_us * (1 + 1e-9));
        assert_true(sim.kv_peak >= sim.kv_fullest);
        s2_sim_options asked = options;
        asked.batch = sim.fit_batch > 0 ? sim.fit_batch : 1;
        const s2_sim largest = s2_priced(&arena, &pattern, &asked);
        if (sim.fit_batch > 0 && (largest.fit_batch < asked.batch || largest.fit_len_tok < options.len_tok))
            fail_msg("%s: batch %lld fits, but when asked %lld does", text.data, (long long)sim.fit_batch,
                     (long long)largest.fit_batch);
        asked.batch = 1 + (int64_t)s2_rng_below(&rng, 200);
        const s2_sim elsewhere = s2_priced(&arena, &pattern, &asked);
        if (elsewhere.fit_batch != sim.fit_batch)
            fail_msg("%s: batch %lld fits, or %lld where %lld are asked", text.data, (long long)sim.fit_batch,
                     (long long)elsewhere.fit_batch, (long long)asked.batch);
        asked = options;
        asked.len_tok = 1 + (int64_t)s2_rng_below(&rng, (uint64_t)options.len_tok);
        const s2_sim shorter = s2_priced(&arena, &pattern, &asked);
        assert_true(shorter.fit_batch >= sim.fit_batch);
        if (sim.fit_len_tok > 0 && sim.fit_len_tok <= 1 << 15) {
            s2_sim longest;
            asked.len_tok = sim.fit_len_tok;
            /* random lists in blocks of a few tokens are enumerated, which may take more work than a price has */
            const s2_status status = s2_price(&arena, &pattern, &asked, S2_PRICE_WHOLE, &longest, NULL);
            assert_true(status == S2_OK || (status == S2_ELIMIT && strstr(text.data, "random") != NULL));
            if (status == S2_OK)
                assert_true(longest.fit_batch >= options.batch && longest.fit_len_tok >= sim.fit_len_tok);
        }
        s2_buf_release(&text);
        s2_arena_release(&arena);
    }
}

static void examples_that_were_wrong(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.len_tok = 1000;
    const s2_pattern window = s2_parsed(&arena, "heads 1; head-dim 64; all: local 100t");
    assert_int_equal(s2_priced(&arena, &window, &options).kv_peak, 128 * 256);
    /* a window of 24k tokens of 512 bytes in a GPU of 10 MB */
    const s2_pattern chunk = s2_parsed(&arena, "heads 1; all: chunk 24kt");
    options.gpu.hbm_gb = 0.01;
    assert_int_equal(s2_priced(&arena, &chunk, &options).fit_len_tok, 10000000 / 512 / 16 * 16);
    const s2_pattern quest = s2_parsed(&arena, "heads 1; prefill: dense; decode: pages 64 page 16");
    const s2_sim sim = s2_priced(&arena, &quest, &options);
    assert_int_equal(sim.kv_peak, sim.kv.head_pages);
    /* a window in both units: keys that it has left behind are not walked */
    const s2_pattern uneven =
        s2_parsed(&arena, "heads 1; block 4; all: stride 3 width 3 when distance 8t..7");
    int64_t work_left = S2_WORK_STEPS;
    s2_sim_options wide = options;
    s2_sim cache = {0};
    wide.len_tok = 118875;
    assert_int_equal(s2_capacity_price(&arena, &uneven, &wide, &work_left, &cache), S2_OK);
    assert_true(S2_WORK_STEPS - work_left < 1 << 18);
    const s2_pattern none = s2_parsed(&arena, "heads 1; all: none");
    assert_int_equal(s2_priced(&arena, &none, &options).fit_batch, S2_LIMIT_BATCH);
    s2_arena_release(&arena);
}

/* ---- models */

static s2_sim_options of_model(const char *model, s2_net *net)
{
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_net_find(model, net, NULL), S2_OK);
    options.net = net;
    return options;
}

static void training_keeps_state_and_activations_and_no_cache(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_net net;
    s2_sim_options options = of_model("llama-3.1-8b", &net);
    const s2_pattern pattern = s2_parsed(&arena, "layers 32; heads 32; kv-heads 8; layers all: dense");
    options.phase = S2_TRAIN;
    const s2_sim alone = s2_priced(&arena, &pattern, &options);
    const double held = 14.0 * (double)s2_net_weights(&net);
    s2_assert_close(alone.training.state_bytes - alone.training.gradient_bytes, held, 1);
    options.n_shards = 8;
    const s2_sim eight = s2_priced(&arena, &pattern, &options);
    s2_assert_close(eight.training.state_bytes - eight.training.gradient_bytes -
                        eight.training.gathered_bytes,
                    held / 8, 1);
    s2_assert_close(eight.training.activation_bytes, alone.training.activation_bytes, 1);
    assert_true(eight.fit_batch > alone.fit_batch && eight.fit_len_tok > alone.fit_len_tok);
    options.recompute = true;
    const s2_sim again = s2_priced(&arena, &pattern, &options);
    assert_true(again.training.activation_bytes < 0.3 * eight.training.activation_bytes);
    assert_true(again.end_to_end_us > 1.2 * eight.end_to_end_us);
    /* what fits, fits when asked */
    options.batch = again.fit_batch;
    assert_true(s2_priced(&arena, &pattern, &options).fit_batch >= options.batch);
    options.batch = 1;
    options.len_tok = again.fit_len_tok < 100000 ? again.fit_len_tok : 100000;
    assert_true(s2_priced(&arena, &pattern, &options).fit_batch >= 1);
    options.gpu.hbm_gb = 10;
    const s2_sim small = s2_priced(&arena, &pattern, &options);
    assert_true(small.fit_batch == 0 && small.fit_len_tok == 0);
    s2_arena_release(&arena);
}

/* What the patterns of a search share, and what it does not ask for, changes no time; nor where caches spill. */
static void a_memo_changes_no_time(void **state)
{
    (void)state;
    static const char *const rules[] = {"local 4 | stride 8 phase kv", "local 8 | stride 4 phase head+1",
                                        "local 4 | stride 8 phase kv; layers 1::2: dense", "local 4 | topk 4",
                                        "local 9 | sink 1; layers 0: random 3 seed 1"};
    s2_arena arena = {0};
    for (int at = 0; at < 12; at++) {
        s2_sim_options options, alone;
        s2_calibration calibration;
        assert_int_equal(s2_sim_options_default(&options), S2_OK);
        assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
        options.calibration = &calibration;
        options.n_ranks = at % 2 + 1;
        options.keeps_all = at % 3 == 0;
        options.len_tok = 2048;
        options.batch = 2;
        if (at >= 6)
            options.gpu.hbm_gb = 0.001; /* no cache fits */
        alone = options;
        assert_int_equal(s2_price_memo_new(&options, &options.memo), S2_OK);
        for (size_t twice = 0; twice < 2 * sizeof rules / sizeof *rules; twice++) {
            char text[160];
            snprintf(text, sizeof text, "layers 2; heads 8; kv-heads 4; layers all: %s", rules[twice / 2]);
            const s2_pattern pattern = s2_parsed(&arena, text);
            options.phase = alone.phase = twice % 2 == 0 ? S2_DECODE : S2_PREFILL;
            s2_sim brief, whole;
            assert_int_equal(s2_price(&arena, &pattern, &options, S2_PRICE_TIME, &brief, NULL), S2_OK);
            assert_int_equal(s2_price(&arena, &pattern, &alone, S2_PRICE_WHOLE, &whole, NULL), S2_OK);
            assert_true(fabs(brief.time_us - whole.time_us) <= 1e-9 * whole.time_us);
        }
        s2_price_memo_free(options.memo);
    }
    s2_arena_release(&arena);
}

static void types_of_weights_and_cache_are_apart(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_net net;
    s2_sim_options options = of_model("llama-3.1-8b", &net);
    const s2_pattern pattern = s2_parsed(&arena, "layers 32; heads 32; kv-heads 8; layers all: dense");
    options.phase = S2_DECODE;
    const s2_sim plain = s2_priced(&arena, &pattern, &options);
    options.cache = S2_CACHE_E4M3;
    const s2_sim cache = s2_priced(&arena, &pattern, &options);
    assert_int_equal(cache.kv.dense * 2, plain.kv.dense);
    assert_int_equal(cache.weight_bytes, plain.weight_bytes);
    assert_true(cache.counts.hbm_read < plain.counts.hbm_read && cache.fit_batch > plain.fit_batch);
    options.cache = S2_CACHE_AS_DTYPE;
    options.weights = S2_WEIGHTS_INT8;
    const s2_sim weights = s2_priced(&arena, &pattern, &options);
    const int64_t outside = 2 * 2 * (int64_t)net.vocab * net.hidden; /* embedding and head stay in 16 bits */
    assert_int_equal((weights.weight_bytes - outside) * 2, plain.weight_bytes - outside);
    assert_int_equal(weights.kv.dense, plain.kv.dense);
    assert_true(weights.end_to_end_us < plain.end_to_end_us);
    s2_arena_release(&arena);
}

static void the_largest_batch_is_each_sides_own(void **state)
{
    (void)state;
    s2_arena arena = {0};
    s2_net net;
    s2_sim_options options = of_model("llama-3.1-8b", &net);
    const s2_pattern pattern = s2_parsed(&arena, "layers 32; heads 32; kv-heads 8; layers all: local 16");
    s2_sim sim;
    options.phase = S2_DECODE;
    options.len_tok = 32768;
    assert_int_equal(s2_price_largest(&arena, &pattern, &options, &sim, NULL), S2_OK);
    assert_int_equal(sim.largest.batch, options.batch);
    assert_true(sim.largest.batch > 20 * sim.largest.batch_dense && sim.largest.batch_dense > 0);
    assert_true(sim.fit_batch >= sim.largest.batch && sim.host_bytes == 0);
    options.gpu.hbm_gb = 1;
    s2_diag diag = {0};
    assert_int_equal(s2_price_largest(&arena, &pattern, &options, &sim, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "of weights are more than"));
    options.gpu.hbm_gb = 16.1; /* 16.06 are weights */
    assert_int_equal(s2_price_largest(&arena, &pattern, &options, &sim, &diag), S2_EINVAL);
    assert_non_null(strstr(diag.msg, "not one sequence"));
    s2_arena_release(&arena);
}

/* ---- what is claimed */

static void errors_widen_beyond_the_points_measured(void **state)
{
    (void)state;
    s2_arena arena = {0};
    static s2_calibration calibration;
    s2_sim_options options;
    assert_int_equal(s2_calibration_find("h200", &calibration), S2_OK);
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    options.calibration = &calibration;
    options.phase = S2_DECODE;
    const s2_pattern inside = s2_parsed(&arena, "heads 32; kv-heads 8; all: dense");
    const s2_pattern outside = s2_parsed(&arena, "heads 128; kv-heads 1; all: dense");
    const s2_sim known = s2_priced(&arena, &inside, &options), wide = s2_priced(&arena, &outside, &options);
    assert_true(known.far.beyond == 0 && known.measured && known.error.pct < 6);
    assert_true(wide.far.beyond == 0 && wide.measured && wide.error.pct > known.error.pct &&
                wide.error.pct < 10);
    assert_string_equal(wide.kernel, "decode_wide");
    static s2_calibration h100;
    assert_int_equal(s2_calibration_find("h100-sxm", &h100), S2_OK);
    options.calibration = &h100;
    const s2_sim unknown = s2_priced(&arena, &outside, &options);
    options.calibration = &calibration;
    assert_string_equal(unknown.kernel, "decode");
    s2_assert_close(unknown.far.beyond, 3, 1e-9);
    assert_true(unknown.far.in == S2_EXTENT_ROWS && unknown.far.span.greatest == 16);
    assert_true(unknown.error.pct == S2_ERROR_UNKNOWN_PCT); /* no point judged the kernel of so many rows */
    for (int32_t kernel = 0; kernel < calibration.model.n_kernels; kernel++)
        calibration.model.kernels[kernel].spans[S2_EXTENT_ROWS].greatest = 1;
    const s2_sim widened = s2_priced(&arena, &inside, &options);
    s2_assert_close(widened.far.beyond, 2, 1e-9);
    s2_assert_close(widened.error.pct, 4 * known.error.pct, 1e-9);
    s2_arena_release(&arena);
}

/* The same chip with less bandwidth is no faster; older ones run the portable kernels. */
static void guesses_are_of_the_kernel_that_would_run(void **state)
{
    (void)state;
    s2_arena arena = {0};
    static s2_calibration measured, guess;
    static const char *const names[] = {"h100-sxm", "a100-80gb", "l40s", "rtx4090", "b200"};
    const s2_pattern pattern = s2_parsed(&arena, "heads 32; kv-heads 8; all: dense");
    s2_sim_options options;
    assert_int_equal(s2_sim_options_default(&options), S2_OK);
    assert_int_equal(s2_calibration_find("h200", &measured), S2_OK);
    options.calibration = &measured;
    const s2_sim h200 = s2_priced(&arena, &pattern, &options);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        assert_int_equal(s2_gpu_find(names[n], &options.gpu, NULL), S2_OK);
        assert_int_equal(s2_calibration_guess(&options.gpu, &guess), S2_OK);
        options.calibration = &guess;
        const s2_sim sim = s2_priced(&arena, &pattern, &options);
        assert_false(sim.measured);
        assert_string_equal(sim.kernel, n == 0 ? "sm90" : "sm80");
        assert_true(sim.error.pct >= S2_GUESS_PCT);
        if (n == 0)
            assert_true(h200.time_us <= sim.time_us * 1.0001 && h200.time_us >= 0.9 * sim.time_us);
        assert_false(s2_sim_plan_is_coarser(&sim));
    }
    /* blocks that no two rows share: tiles of half the rows load half as much as those of a plan */
    const s2_pattern scattered =
        s2_parsed(&arena, "heads 16; kv-heads 1; block 32; all: local 2 | random 4 seed 3");
    options.len_tok = 16384;
    assert_int_equal(s2_gpu_find("rtx4090", &options.gpu, NULL), S2_OK);
    assert_int_equal(s2_calibration_guess(&options.gpu, &guess), S2_OK);
    const s2_sim coarse = s2_priced(&arena, &scattered, &options);
    assert_true(s2_sim_plan_is_coarser(&coarse) && coarse.bound_us <= coarse.time_us);
    s2_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gpu_is_priced_as_its_own_pattern),
        cmocka_unit_test(each_gpu_of_a_context_is_priced_as_its_own_tokens),
        cmocka_unit_test(contiguous_parts_are_sent_the_keys_that_are_read),
        cmocka_unit_test(each_gpu_may_plan_as_much_as_alone),
        cmocka_unit_test(a_decode_step_with_random_lists_is_planned_at_any_length),
        cmocka_unit_test(layers_of_their_own_shape_cost_what_each_costs_alone),
        cmocka_unit_test(shared_keys_are_kept_once_for_all_who_read_them),
        cmocka_unit_test(uneven_heads_are_seen_and_mended),
        cmocka_unit_test(more_gpus_than_kv_heads_copy_them),
        cmocka_unit_test(peaks_and_longest_contexts_are_those_of_enumeration),
        cmocka_unit_test(what_fits_is_timed),
        cmocka_unit_test(activations_of_inference_take_room),
        cmocka_unit_test(dense_fits_as_much_as_dense),
        cmocka_unit_test(what_is_said_to_fit_fits_when_asked),
        cmocka_unit_test(examples_that_were_wrong),
        cmocka_unit_test(training_keeps_state_and_activations_and_no_cache),
        cmocka_unit_test(a_memo_changes_no_time),
        cmocka_unit_test(types_of_weights_and_cache_are_apart),
        cmocka_unit_test(the_largest_batch_is_each_sides_own),
        cmocka_unit_test(errors_widen_beyond_the_points_measured),
        cmocka_unit_test(guesses_are_of_the_kernel_that_would_run),
    };
    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
