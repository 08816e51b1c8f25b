/* A price as a page for people. */
#include "report/common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/models.h"
#include "report/computed.h"
#include "report/machine.h"
#include "sim/links.h"
#include "sim/scores.h"
#include "sim/units.h"
#include "words/error.h"
#include "words/reach.h"
#include "words/size.h"

/* "3.1 T" for a unit that follows, "12 k" before one. */
static s2_figure_text scaled(double value, const char *gap)
{
    static const char *const scale[] = {"", "k", "M", "G", "T", "P", "E"};
    int thousands = 0;
    for (; value >= 1000 && thousands < 6; thousands++)
        value /= 1000;
    s2_figure_text out;
    snprintf(out.text, sizeof out.text, "%.40s%s%s", s2_decimal(value, 4).text, gap, scale[thousands]);
    return out;
}

static void text_work(const s2_sim *sim, bool decode, s2_buf *buf)
{
    s2_report_line("density", buf);
    if (sim->n_sparse_layers == 0)
        s2_buf_puts(buf, sim->counts.pairs > 0 ? "1: every layer reads all of this context\n"
                                               : "1: no layer has attention\n");
    else
        s2_buf_printf(buf,
                      "%.5f of the causal blocks in the %d sparse layer%s, whose kernels run %.5f of the "
                      "steps of dense "
                      "ones; %.5f of the pairs of all layers\n",
                      sim->density, sim->n_sparse_layers, sim->n_sparse_layers > 1 ? "s" : "",
                      sim->executed_density, sim->token_density);
    s2_report_line("work", buf);
    s2_buf_printf(buf, "%sFLOP useful, %sFLOP executed, dense %sFLOP\n",
                  scaled((double)sim->counts.flop_useful, " ").text,
                  scaled((double)sim->counts.flop_executed, " ").text,
                  scaled((double)sim->dense.flop_useful, " ").text);
    s2_report_line("", buf);
    s2_buf_printf(buf, "%s exponentials useful, %s executed\n",
                  scaled((double)sim->counts.exp_useful, "").text,
                  scaled((double)sim->counts.exp_executed, "").text);
    s2_report_line("tiles", buf);
    s2_buf_printf(buf, "%s steps", scaled((double)sim->counts.steps, " ").text);
    if (decode)
        s2_buf_puts(buf, ", one key block each");
    else
        s2_buf_printf(buf, " of %d x %d", sim->tile.q_tok, sim->tile.step_tok);
    s2_buf_printf(buf, ", %s key blocks of %d; busiest SM %.3f of the mean\n",
                  scaled((double)sim->counts.tiles, " ").text, sim->tile.k_tok, sim->imbalance);
    s2_report_line("bytes", buf);
    s2_buf_printf(buf, "%s read and %s written at least; %s loaded by tiles\n",
                  s2_bytes_text((double)sim->counts.hbm_read).text,
                  s2_bytes_text((double)sim->counts.hbm_write).text,
                  s2_bytes_text((double)sim->counts.l2).text);
}

/* " a replica, 191700 of 8"; nothing where there is one. */
static void put_of_replicas(const s2_sim_options *options, double rate, s2_buf *buf)
{
    const int32_t replicas = s2_report_replicas(options);
    if (replicas > 1)
        s2_buf_printf(buf, " a replica, %s of all %d", s2_rate_text(rate * replicas).text, replicas);
}

/* "1.9 times as long", or why there is no ratio. */
static void put_times(const s2_sim_options *options, const s2_sim *sim, double own_us, double dense_us,
                      s2_buf *buf)
{
    static const char *const why[S2_N_NO_RATIOS] = {
        [S2_DENSE_SPILLS] = "no ratio: its cache does not fit",
        [S2_SPILLS] = "no ratio: the pattern's own cache does not fit",
        [S2_NO_ROOM] = "no ratio: the step is more than the memory",
        [S2_NO_WEIGHTS] = "no ratio: the weights alone are more than the memory",
    };
    const s2_no_ratio no_ratio = s2_sim_no_ratio(options, sim);
    if (no_ratio != S2_RATIO_HOLDS)
        s2_buf_puts(buf, why[no_ratio]);
    else
        s2_buf_printf(buf, "%s times as long", s2_decimal(dense_us / own_us, 3).text);
}

/* The pattern says how much the lists hold, not what. */
static void text_listed(const s2_sim_options *options, s2_buf *buf)
{
    if (!options->listed)
        return;
    s2_report_line("lists", buf);
    s2_buf_puts(buf,
                "of blocks, on the device: each launch plans them, which is in the time; choosing them is "
                "not\n");
}

/* Which implementation the lines above are of; bounds are of any. */
static void text_fusion(const s2_sim_options *options, s2_buf *buf)
{
    static const char *const said[S2_N_FUSIONS] = {
        [S2_FUSED] = "each norm, the rotary embedding and the activation are a kernel each (--fusion eager: "
                     "operation by operation)\n",
        [S2_EAGER] =
            "norms, rotary embedding and activation run operation by operation, as PyTorch calls them\n"};
    if (options->calibration == NULL)
        return;
    s2_report_line("around", buf);
    s2_buf_puts(buf, said[options->fusion]);
    if (s2_sim_has_fp8(options) && options->gpu.fp8_tflops > 0) {
        s2_report_line("", buf);
        s2_buf_printf(buf,
                      "products with weights in fp8 take their activations in fp8 too, but for the lm head, "
                      "which stays in %s\n",
                      s2_dtype_word(options->dtype));
    }
}

static void text_end_to_end(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const double rate = s2_report_rate(options, sim, false), dense = s2_report_rate(options, sim, true);
    s2_report_line("end to end", buf);
    /* where only attention is a bound and the rest is predicted, the sum is neither */
    const bool mixed = !sim->predicted && options->calibration != NULL, bound = !sim->predicted && !mixed;
    s2_buf_printf(buf, "%s%s", bound ? "at least " : "", s2_time_text(sim->end_to_end_us).text);
    if (mixed)
        s2_buf_puts(buf, " with attention at its bound, the rest predicted");
    if (!isnan(rate)) {
        s2_buf_printf(buf, ", %s%s tokens/s", bound ? "at most " : "", s2_rate_text(rate).text);
        put_of_replicas(options, rate, buf);
    }
    s2_buf_printf(buf, "; with dense attention %s%s",
                  s2_report_reads_host(options, sim, true) && sim->predicted ? "at least " : "",
                  s2_time_text(sim->end_to_end_dense_us).text);
    if (!isnan(dense))
        s2_buf_printf(buf, ", %s tokens/s", s2_rate_text(dense).text);
    s2_buf_puts(buf, ": ");
    put_times(options, sim, sim->end_to_end_us, sim->end_to_end_dense_us, buf);
    s2_buf_puts(buf, "\n");
}

static void text_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    if (largest->batch == 0)
        return;
    s2_report_line("largest batch", buf);
    s2_report_largest(options, largest, buf);
    s2_buf_puts(buf, "\n");
}

/* Which part of the time the error covers: choosing and states are priced at peak rates. */
static void put_apart(const s2_sim *sim, s2_buf *buf)
{
    bool selects = false;
    for (int32_t part = 0; part < sim->n_parts; part++)
        selects |= s2_part_is(&sim->parts[part], "selection");
    const bool moves = sim->states.n_layers > 0;
    if (selects || moves)
        s2_buf_printf(buf, "; that is of attention, %s%s%s at peak rates", selects ? "selection is" : "",
                      selects && moves ? " and states are" : "", !selects && moves ? "states are" : "");
}

static void text_runs_on(const s2_others *others, s2_buf *buf)
{
    if (others->n == 0)
        return;
    s2_report_line("", buf);
    s2_buf_puts(buf, "some layers run on ");
    for (int32_t nth = 0; nth < others->n; nth++)
        s2_buf_printf(buf, "%s%s", nth > 0 ? " and " : "", others->names[nth]);
    s2_buf_printf(buf, ", which %s faster and %s no constants: priced by the kernel for any layer\n",
                  others->n > 1 ? "are" : "is", others->n > 1 ? "have" : "has");
}

/* How far off the time may be: why no error was measured, or which one was. */
static void text_error(const s2_sim *sim, s2_buf *buf)
{
    s2_report_line("", buf);
    if (sim->far.beyond > 0) {
        s2_report_beyond(&sim->far, sim->measured, buf);
        s2_buf_puts(buf, "; ");
    }
    s2_error_print(&sim->error, true, buf);
    put_apart(sim, buf);
    s2_buf_puts(buf, "\n");
    text_runs_on(&sim->runs_on, buf);
}

/* Another kernel's time, with the state of the caches that its rows were measured in. */
static void text_peer(const s2_peer *peer, const s2_sim *sim, s2_buf *buf)
{
    s2_buf_printf(buf, "%s predicted (%s", s2_time_text(sim->time_us).text, sim->kernel);
    if (sim->error.n_judged == 0)
        s2_buf_puts(buf, ", not judged");
    if (peer->caches == S2_CACHES_UNSAID)
        s2_buf_puts(buf, "; its rows do not say whether caches were warm");
    else
        s2_buf_printf(buf, "; caches %s", s2_peer_caches_word(peer->caches));
    s2_buf_printf(buf, "), bound by %s\n", s2_resource_word(sim->bound_by));
}

static const char *kind_of_prediction(const s2_sim_options *options, const s2_sim *sim)
{
    if (sim->measured)
        return "predicted";
    return s2_machine_gpus(options) > options->n_ranks ? "guessed: no such machine was measured"
                                                       : "guessed: nothing was measured on this GPU";
}

static const char *kind_of_dense(const s2_sim_options *options, const s2_sim *sim)
{
    if (s2_report_reads_host(options, sim, true) && sim->link_dense_us >= sim->dense_time_us)
        return "to read from host memory, at the link's peak";
    if (options->calibration != NULL && s2_report_reads_host(options, sim, true))
        return "what it would take with all of its cache on the GPU";
    if (!sim->predicted)
        return "bounds at peak rates, not predictions";
    return sim->measured ? "predicted too" : "guessed too";
}

/* No cache in host memory was measured: whichever takes longer, the link or attention, is a bound. */
static void text_host_time(const s2_sim *sim, s2_buf *buf)
{
    const s2_figure_text time = s2_time_text(sim->time_us);
    if (sim->bound_by == S2_LINK)
        s2_buf_printf(buf, "%s to read from host memory, at the link's peak\n", time.text);
    else
        s2_buf_printf(buf, "at least %s, what %s would take with all of the cache on the GPU, bound by %s\n",
                      time.text, sim->kernel, s2_resource_word(sim->bound_by));
    s2_report_line("", buf);
    s2_buf_puts(buf, "no error known: nothing was measured of a cache in host memory\n");
}

/* Fewer pairs that take longer: in decode the keys that any head of a group reads are read, and masked for each. */
static void text_slower(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (options->phase != S2_DECODE || !sim->predicted || options->peer != NULL || !sim->group_differs ||
        sim->time_us <= sim->dense_time_us)
        return;
    s2_report_line("", buf);
    s2_buf_puts(buf, "slower: heads on one KV head read different keys, so a step reads what any of them "
                     "reads, with a mask for each; heads that read alike (phase kv) have none\n");
}

static void text_time(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const bool host =
        options->calibration != NULL && s2_report_reads_host(options, sim, false) && sim->kernel[0] != '\0';
    s2_report_line("time", buf);
    if (host) {
        text_host_time(sim, buf);
    } else if (sim->predicted && options->peer != NULL) {
        text_peer(options->peer, sim, buf);
    } else if (sim->predicted) {
        s2_buf_printf(buf, "%s %s (%s at %.0f MHz), bound by %s\n", s2_time_text(sim->time_us).text,
                      kind_of_prediction(options, sim), sim->kernel, sim->clock_mhz,
                      s2_resource_word(sim->bound_by));
    }
    if (sim->predicted)
        text_error(sim, buf);
    if (sim->predicted || host)
        s2_report_line("", buf);
    s2_buf_puts(buf, s2_sim_plan_is_coarser(sim) ? "" : "at least ");
    s2_buf_printf(buf, "%s %s", s2_time_text(sim->plan_us).text,
                  s2_sim_plan_is_coarser(sim)
                      ? "at peak rates in tiles of 128 x 128, larger than this kernel's"
                      : "for this plan");
    if (!sim->predicted && !host)
        s2_buf_printf(buf, ", bound by %s", s2_resource_word(sim->bound_by));
    s2_buf_printf(buf, "; any kernel: %s\n", s2_time_text(sim->bound_us).text);
    s2_report_line("", buf);
    s2_buf_printf(buf, "dense %s, ", s2_time_text(sim->dense_time_us).text);
    put_times(options, sim, sim->time_us, sim->dense_time_us, buf);
    s2_buf_printf(buf, " (%s)\n", kind_of_dense(options, sim));
    text_slower(options, sim, buf);
    if (sim->predicted && options->peer == NULL) {
        s2_report_line("", buf);
        s2_buf_printf(buf, "%s of device memory, %s from L2: %.1f %% of it hits\n",
                      s2_bytes_text(sim->dram_bytes).text, s2_bytes_text(sim->l2_bytes).text,
                      100 * s2_report_hit_rate(sim));
    }
    text_listed(options, buf);
    if (sim->n_parts < 2)
        return;
    for (int32_t part = 0; part < sim->n_parts; part++) {
        s2_report_line(part == 0 ? "parts" : "", buf);
        s2_buf_printf(buf, "%-18s  %s (%s)\n", sim->parts[part].name,
                      s2_time_text(sim->parts[part].time_us).text,
                      s2_resource_word(sim->parts[part].bound_by));
    }
    if (sim->end_to_end_us > 0) {
        text_fusion(options, buf);
        text_end_to_end(options, sim, buf);
    }
}

void s2_report_states_text(const char *begin, const s2_sim *sim, s2_buf *buf)
{
    const s2_states *const states = &sim->states;
    if (states->n_layers == 0)
        return;
    s2_buf_puts(buf, begin);
    s2_buf_printf(buf, "%s for each sequence in %s; ", s2_bytes_text((double)states->bytes).text,
                  s2_count_text(states->n_layers, "layer").text);
    if (sim->end_to_end_us <= 0) {
        s2_buf_printf(buf,
                      "every time above counts their bytes (%s), not their computation, which the pattern "
                      "does not say\n",
                      s2_time_text(states->us).text);
        return;
    }
    s2_buf_printf(buf,
                  "what computes them is %s of products (mixers) and at least %s of scanning (states, scan), "
                  "for no scan was measured: %s %% of the whole\n",
                  s2_time_text(s2_report_part_us(sim, "mixers")).text,
                  s2_time_text(s2_report_scan_us(sim)).text,
                  s2_decimal(100 * s2_report_scan_us(sim) / sim->end_to_end_us, 3).text);
}

void s2_report_scores_text(const char *begin, s2_model_scores scores, s2_scored scored, s2_buf *buf)
{
    static const char *const counted[S2_N_SCORED] = {
        [S2_SCORED_MEASURED] = "; counted, at most",
        [S2_SCORED_ASSUMED] = "; counted by the law of other launches, for none like this was measured",
        [S2_SCORED_NOT] = "; what that costs here was not measured, and no time counts it",
        [S2_SCORED_BOUND] = "; the times are bounds, with that and without"};
    if (scored == S2_SCORED_NONE)
        return;
    s2_buf_puts(buf, begin);
    if (scores.cap > 0)
        s2_buf_printf(buf, "capped at %s by a tanh of each", s2_decimal(scores.cap, 6).text);
    if (scores.sinks)
        s2_buf_puts(buf, scores.cap > 0 ? ", a sink logit of each head in the softmax"
                                        : "a sink logit of each head in the softmax");
    s2_buf_puts(buf, counted[scored]);
    if (scored == S2_SCORED_MEASURED)
        s2_buf_printf(buf, " %s %% off what it took on an H200",
                      s2_decimal(s2_scores_error_pct(scores), 2).text);
    s2_buf_puts(buf, "\n");
}

/* "0 2 | 1 3": the KV heads of each GPU. */
static void put_order(const s2_rank_price *ranks, int32_t n_ranks, s2_buf *buf)
{
    const int32_t each = ranks->n_order / n_ranks;
    for (int32_t kv = 0; kv < ranks->n_order; kv++)
        s2_buf_printf(buf, "%s%d", kv == 0 ? "" : kv % each == 0 ? " | " : " ", ranks->order[kv]);
}

static void text_ranks(const s2_pattern *pattern, const s2_sim_options *options, const s2_sim *sim,
                       s2_buf *buf)
{
    const s2_rank_price *const ranks = &sim->ranks;
    if (options->n_ranks == 1)
        return;
    s2_report_line("GPUs", buf);
    if (ranks->imbalance < 1.0005)
        s2_buf_printf(buf, "each takes the same time and moves at least %s\n",
                      s2_bytes_text(ranks->hbm_bytes).text);
    else
        s2_buf_printf(buf, "all wait for the slowest, %d: %.3f of the mean; it moves at least %s\n",
                      ranks->slowest, ranks->imbalance, s2_bytes_text(ranks->hbm_bytes).text);
    if (ranks->n_copies > 1) {
        s2_report_line("", buf);
        s2_buf_printf(buf, "each KV head is kept and read by %s%d GPUs\n",
                      s2_pattern_layers_differ(pattern) ? "up to " : "", ranks->n_copies);
    }
    if (ranks->n_order == 0)
        return;
    s2_report_line("", buf);
    s2_buf_printf(buf, "dealt by work, %s, %.3f of the mean then; KV heads of layer %d: ",
                  s2_time_text(ranks->mended_us).text, ranks->mended_imbalance, ranks->mended_layer);
    put_order(ranks, options->n_ranks, buf);
    s2_buf_printf(buf, "; by the work of %s, and a server deals them once for all phases\n",
                  s2_phase_word(options->phase));
}

/* " of 128", or " of 256 to 512" where layers differ. */
static void put_head_dim(const s2_pattern *pattern, s2_buf *buf)
{
    int32_t least = INT32_MAX, most = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t own = s2_pattern_head_dim(pattern, layer);
        least = s2_min_i32(own, least);
        most = s2_max_i32(own, most);
    }
    s2_buf_printf(buf, least < most ? " of %d to %d" : " of %d", least, most);
}

/* "8192 tokens", or "the last 512 of 8192 tokens". */
static void put_tokens(const s2_sim_options *options, s2_buf *buf)
{
    if (options->new_tok != 0)
        s2_buf_printf(buf, "the last %lld of ", (long long)options->new_tok);
    s2_buf_puts(buf, s2_count_text(options->len_tok, "token").text);
}

static void text_worth(const s2_report_subject *subject, s2_buf *buf)
{
    const s2_worth worth = s2_report_worth(subject);
    s2_report_line("worth", buf);
    s2_worth_tell(&worth, buf);
    s2_buf_puts(buf, "\n");
}

void s2_sim_report_text(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    const s2_pattern *const pattern = subject->pattern;
    s2_buf_printf(buf, "%s  ", subject->name);
    s2_pattern_print_size(pattern, buf);
    put_head_dim(pattern, buf);
    s2_buf_printf(buf, ", block %d, %s\n  %s of ", pattern->block_tok,
                  s2_count_text(sim->n_head_classes, "distinct head").text, s2_phase_word(options->phase));
    put_tokens(options, buf);
    s2_buf_printf(buf, ", batch %lld, ", (long long)options->batch);
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s%s%s", options->gpu.title, options->net != NULL ? ", model " : "",
                  options->net != NULL ? options->net->name : "");
    s2_report_gpus(options, buf);
    s2_buf_puts(buf, "\n");
    text_work(sim, options->phase == S2_DECODE, buf);
    text_time(options, sim, buf);
    text_worth(subject, buf);
    s2_report_states_text("  states        ", sim, buf);
    s2_computed_text(pattern, sim, buf);
    s2_report_scores_text("  scores        ", sim->scores, sim->scored, buf);
    text_largest(options, &sim->largest, buf);
    text_ranks(pattern, options, sim, buf);
    s2_machine_text(options, sim, buf);
    s2_links_text(options, sim, buf);
    s2_report_memory(subject, sim, buf);
}
