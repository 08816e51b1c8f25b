#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "pattern/models.h"
#include "pattern/parse.h"
#include "report/computed.h"
#include "report/machine.h"
#include "sim/links.h"
#include "sim/scores.h"
#include "sim/units.h"
#include "words/error.h"
#include "words/reach.h"
#include "words/size.h"

/* The share of the bytes requested from L2 that need not come from device memory. */
static double hit_rate(const s2_sim *sim)
{
    return sim->l2_bytes > sim->dram_bytes ? 1 - sim->dram_bytes / sim->l2_bytes : 0;
}

double s2_sim_tokens_per_s(const s2_sim_options *options, double us)
{
    const double n_tok = (double)(options->len_tok - s2_sim_first_tok(options));
    return n_tok * (double)options->batch / us * 1e6;
}

void s2_report_weights(const s2_sim_options *options, s2_buf *buf)
{
    const s2_weights weights = s2_sim_weights(options);
    s2_buf_puts(buf,
                weights == S2_WEIGHTS_AS_DTYPE ? s2_dtype_word(options->dtype) : s2_weights_word(weights));
    if (weights != options->weights && weights != S2_WEIGHTS_AS_DTYPE)
        s2_buf_puts(buf, " as published");
}

void s2_report_types(const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_puts(buf, s2_dtype_word(options->dtype));
    if (s2_sim_weights(options) != S2_WEIGHTS_AS_DTYPE) {
        s2_buf_puts(buf, ", weights ");
        s2_report_weights(options, buf);
    }
    if (options->cache != S2_CACHE_AS_DTYPE)
        s2_buf_printf(buf, ", cache %s", s2_cache_type_word(options->cache));
}

void s2_report_subject_json(const s2_report_subject *subject, const char *schema, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    s2_json_key_str(buf, "schema", schema);
    s2_json_key_str(buf, "name", subject->name);
    s2_json_key_str(buf, "hash", subject->hash);
    s2_json_key_str(buf, "gpu", options->gpu.name);
    s2_json_key_str(buf, "model", options->net != NULL ? options->net->name : NULL);
}

void s2_report_types_json(const s2_sim_options *options, s2_buf *buf)
{
    s2_json_key_str(buf, "dtype", s2_dtype_word(options->dtype));
    s2_json_key_str(buf, "weights", s2_weights_word(s2_sim_weights(options)));
    s2_json_key_str(buf, "kv_dtype", s2_cache_type_word(options->cache));
}

static void json_options(const s2_sim_options *options, s2_buf *buf)
{
    s2_json_key_str(buf, "phase", s2_phase_word(options->phase));
    s2_json_key_int(buf, "len", options->len_tok);
    if (options->new_tok != 0)
        s2_json_key_int(buf, "new", options->new_tok);
    s2_json_key_int(buf, "batch", options->batch);
    s2_report_types_json(options, buf);
    if (options->net != NULL)
        s2_json_key_str(buf, "fusion", s2_fusion_word(options->fusion));
    s2_json_key_int(buf, "tp", options->n_ranks);
}

static void json_counts(const s2_sim *sim, s2_buf *buf)
{
    s2_json_key_begin(buf, "pairs", '{');
    s2_json_key_int(buf, "read", sim->counts.pairs);
    s2_json_key_int(buf, "causal", sim->dense.pairs);
    s2_json_end(buf, '}');
    s2_json_key_num(buf, "density", s2_rounded(sim->density));
    s2_json_key_num(buf, "token_density", s2_rounded(sim->token_density));
    s2_json_key_num(buf, "executed_density", s2_rounded(sim->executed_density));
    s2_json_key_begin(buf, "flop", '{');
    s2_json_key_int(buf, "useful", sim->counts.flop_useful);
    s2_json_key_int(buf, "executed", sim->counts.flop_executed);
    s2_json_key_int(buf, "dense", sim->dense.flop_useful);
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "exp", '{');
    s2_json_key_int(buf, "useful", sim->counts.exp_useful);
    s2_json_key_int(buf, "executed", sim->counts.exp_executed);
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "tiles", '{');
    s2_json_key_int(buf, "query_tok", sim->tile.q_tok);
    s2_json_key_int(buf, "block_tok", sim->tile.k_tok);
    s2_json_key_int(buf, "step_tok", sim->tile.step_tok);
    s2_json_key_int(buf, "blocks", sim->counts.tiles);
    s2_json_key_int(buf, "steps", sim->counts.steps);
    s2_json_key_int(buf, "dense_steps", sim->dense.steps);
    s2_json_key_num(buf, "imbalance", s2_rounded(sim->imbalance));
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "bytes", '{');
    s2_json_key_int(buf, "hbm_read", sim->counts.hbm_read);
    s2_json_key_int(buf, "hbm_write", sim->counts.hbm_write);
    s2_json_key_int(buf, "hbm_floor", sim->counts.hbm_read + sim->counts.hbm_write);
    s2_json_key_int(buf, "l2", sim->counts.l2);
    s2_json_end(buf, '}');
}

static void json_kv(const s2_sim *sim, s2_buf *buf)
{
    s2_json_key_begin(buf, "kv", '{');
    s2_json_key_int(buf, "dense", sim->kv.dense);
    s2_json_key_int(buf, "shared_pages", sim->kv.shared_pages);
    s2_json_key_int(buf, "head_pages", sim->kv.head_pages);
    s2_json_key_int(buf, "ring_stripes", sim->kv.ring_stripes);
    s2_json_key_int(buf, "used", sim->kv.used);
    s2_json_key_int(buf, "wasted_page_16", sim->kv_wasted[0]);
    s2_json_key_int(buf, "wasted_page_64", sim->kv_wasted[1]);
    s2_json_key_int(buf, "peak", sim->kv_peak);
    s2_json_key_int(buf, "peak_at", sim->kv_peak_tok);
    s2_json_key_bool(buf, "peak_exact", sim->kv_peak_exact);
    s2_json_key_num(buf, "mean_over_context", s2_rounded(sim->kv_mean));
    s2_json_end(buf, '}');
    s2_json_key_begin(buf, "kv_over_context", '[');
    for (int32_t point = 0; point < sim->n_kv_points; point++) {
        const s2_kv_point *const at = &sim->kv_points[point];
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "len", at->len_tok);
        s2_json_key_int(buf, "dense", at->bytes.dense);
        s2_json_key_int(buf, "used", at->bytes.used);
        s2_json_key_int(buf, "shared_pages", at->bytes.shared_pages);
        s2_json_key_int(buf, "head_pages", at->bytes.head_pages);
        s2_json_key_int(buf, "ring_stripes", at->bytes.ring_stripes);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "fit", '{');
    s2_json_key_int(buf, "weight_bytes", sim->weight_bytes);
    s2_json_key_int(buf, "batch", sim->fit_batch);
    s2_json_key_int(buf, "batch_dense", sim->fit_batch_dense);
    s2_json_key_int(buf, "len", sim->fit_len_tok);
    s2_json_key_int(buf, "len_dense", sim->fit_len_dense_tok);
    s2_json_end(buf, '}');
}

static void json_tiers(const s2_sim *sim, s2_buf *buf)
{
    s2_json_key_begin(buf, "tiers", '{');
    s2_json_key_int(buf, "hbm", sim->kv_fullest - sim->host_bytes);
    s2_json_key_int(buf, "host", sim->host_bytes);
    s2_json_key_int(buf, "host_dense", sim->host_dense_bytes);
    s2_json_key_int(buf, "host_read_per_step", sim->host_read_bytes);
    s2_json_key_num(buf, "link_us", s2_rounded(sim->link_us));
    s2_json_key_num(buf, "link_dense_us", s2_rounded(sim->link_dense_us));
    s2_json_end(buf, '}');
}

/* No time here includes the computation of states. */
static void json_states(const s2_sim *sim, s2_buf *buf)
{
    if (sim->states.n_layers == 0)
        return;
    s2_json_key_begin(buf, "states", '{');
    s2_json_key_int(buf, "layers", sim->states.n_layers);
    s2_json_key_int(buf, "bytes_per_sequence", sim->states.bytes);
    s2_json_key_num(buf, "time_us", s2_rounded(sim->states.us));
    s2_json_key_bool(buf, "compute_priced", false);
    s2_json_end(buf, '}');
}

static void json_ranks(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const s2_rank_price *const ranks = &sim->ranks;
    if (options->n_ranks == 1)
        return;
    s2_json_key_begin(buf, "ranks", '{');
    s2_json_key_int(buf, "copies", ranks->n_copies);
    s2_json_key_int(buf, "slowest", ranks->slowest);
    s2_json_key_num(buf, "imbalance", s2_rounded(ranks->imbalance));
    s2_json_key_num(buf, "hbm_bytes", s2_rounded(ranks->hbm_bytes));
    s2_json_key_num(buf, "flop_executed", s2_rounded(ranks->flop_executed));
    s2_json_key_int(buf, "kv_head_pages", sim->kv_fullest);
    s2_json_key(buf, "mended");
    if (ranks->n_order == 0) {
        s2_json_null(buf);
    } else {
        s2_json_begin(buf, '{');
        s2_json_key_num(buf, "time_us", s2_rounded(ranks->mended_us));
        s2_json_key_num(buf, "imbalance", s2_rounded(ranks->mended_imbalance));
        s2_json_key_int(buf, "layer", ranks->mended_layer);
        s2_json_key_begin(buf, "kv_heads", '[');
        for (int32_t kv = 0; kv < ranks->n_order; kv++)
            s2_json_int(buf, ranks->order[kv]);
        s2_json_end(buf, ']');
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, '}');
}

static void json_training(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (sim->training.bytes <= 0)
        return;
    s2_json_key_begin(buf, "training", '{');
    s2_json_key_num(buf, "state_bytes", s2_rounded(sim->training.state_bytes));
    s2_json_key_num(buf, "gathered_bytes", s2_rounded(sim->training.gathered_bytes));
    s2_json_key_num(buf, "activation_bytes", s2_rounded(sim->training.activation_bytes));
    s2_json_key_num(buf, "kept_bytes", s2_rounded(sim->training.kept_bytes));
    s2_json_key_num(buf, "working_bytes", s2_rounded(sim->training.working_bytes));
    s2_json_key_num(buf, "logit_bytes", s2_rounded(sim->training.logit_bytes));
    s2_json_key_int(buf, "in_flight", sim->training.n_in_flight);
    s2_json_key_num(buf, "bytes", s2_rounded(sim->training.bytes));
    s2_json_key_int(buf, "dp", options->n_shards);
    s2_json_key_bool(buf, "recompute", options->recompute);
    s2_json_key_bool(buf, "fits", sim->fit_batch >= options->batch);
    s2_json_end(buf, '}');
}

static void json_parts(const s2_sim *sim, s2_buf *buf)
{
    s2_json_key_begin(buf, "parts", '[');
    for (int32_t part = 0; part < sim->n_parts; part++) {
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "name", sim->parts[part].name);
        s2_json_key_num(buf, "time_us", s2_rounded(sim->parts[part].time_us));
        s2_json_key_str(buf, "bound_by", s2_resource_word(sim->parts[part].bound_by));
        if (sim->parts[part].sent_bytes > 0)
            s2_json_key_num(buf, "sent_bytes", s2_rounded(sim->parts[part].sent_bytes));
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
}

/* Tokens per second of one side, at its own batch. */
static double largest_rate(const s2_sim_options *options, const s2_largest *largest, bool dense)
{
    s2_sim_options own = *options;
    own.batch = dense ? largest->batch_dense : largest->batch;
    return s2_sim_tokens_per_s(&own, dense ? largest->dense_us : largest->us);
}

static void json_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    if (largest->batch == 0)
        return;
    const double rate = largest_rate(options, largest, false), dense = largest_rate(options, largest, true);
    s2_json_key_begin(buf, "largest_batch", '{');
    s2_json_key_int(buf, "batch", largest->batch);
    s2_json_key_int(buf, "batch_dense", largest->batch_dense);
    s2_json_key_num(buf, "tokens_per_s", s2_rounded(rate));
    s2_json_key_num(buf, "dense_tokens_per_s", largest->batch_dense > 0 ? s2_rounded(dense) : (double)NAN);
    s2_json_key_num(buf, "speed_up", largest->batch_dense > 0 ? s2_rounded(rate / dense) : (double)NAN);
    s2_json_end(buf, '}');
}

static void json_speed_up(const s2_sim_options *options, const s2_sim *sim, double own_us, double dense_us,
                          s2_buf *buf)
{
    s2_json_key(buf, "speed_up");
    if (s2_sim_no_ratio(options, sim) == S2_RATIO_HOLDS)
        s2_json_num(buf, s2_rounded(dense_us / own_us));
    else
        s2_json_null(buf);
}

/* Replicas of a training step, or of a model whose experts they share; each has the batch. */
static int32_t replicas_of(const s2_sim_options *options)
{
    return options->phase == S2_TRAIN ? options->n_shards : options->n_expert_ranks;
}

/* Tokens per second of a side, NAN where the GPU cannot run it. */
static double rate_of(const s2_sim_options *options, const s2_sim *sim, bool dense)
{
    return s2_sim_runs(options, sim, dense)
               ? s2_sim_tokens_per_s(options, dense ? sim->end_to_end_dense_us : sim->end_to_end_us)
               : (double)NAN;
}

static void json_end_to_end(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const double n = replicas_of(options), rate = rate_of(options, sim, false),
                 dense = rate_of(options, sim, true);
    s2_json_key_begin(buf, "end_to_end", '{');
    s2_json_key_num(buf, "time_us", s2_rounded(sim->end_to_end_us));
    s2_json_key_num(buf, "dense_time_us", s2_rounded(sim->end_to_end_dense_us));
    s2_json_key_num(buf, "tokens_per_s", s2_rounded(rate));
    s2_json_key_num(buf, "dense_tokens_per_s", s2_rounded(dense));
    s2_json_key_num(buf, "tokens_per_s_all_replicas", s2_rounded(n * rate));
    s2_json_key_num(buf, "dense_tokens_per_s_all_replicas", s2_rounded(n * dense));
    json_speed_up(options, sim, sim->end_to_end_us, sim->end_to_end_dense_us, buf);
    s2_json_key_bool(buf, "dense_spills", options->phase != S2_TRAIN && !s2_sim_runs(options, sim, true));
    s2_json_end(buf, '}');
}

/* What was asked beyond the measured range; null if it is inside. */
static void json_beyond(const s2_sim *sim, s2_buf *buf)
{
    s2_json_key(buf, "extrapolated");
    if (sim->beyond == 0) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "in", s2_extent_words(sim->beyond_in));
    s2_json_key_num(buf, "asked", sim->beyond_asked);
    s2_json_key_num(buf, "measured_from", sim->beyond_span.least);
    s2_json_key_num(buf, "measured_to", sim->beyond_span.greatest);
    s2_json_end(buf, '}');
}

static void json_prediction(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (!sim->predicted)
        return;
    s2_json_key_begin(buf, "prediction", '{');
    s2_json_key_bool(buf, "measured", sim->measured);
    json_beyond(sim, buf);
    s2_json_key_str(buf, "kernel", sim->kernel);
    if (options->peer != NULL) {
        s2_json_key_int(buf, "judged_rows", sim->error.n_judged);
        s2_json_key_str(buf, "caches", s2_peer_caches_word(options->peer->caches));
        s2_json_end(buf, '}');
        return;
    }
    s2_json_key_num(buf, "clock_mhz", s2_rounded(sim->clock_mhz));
    s2_json_key_num(buf, "dram_bytes", s2_rounded(sim->dram_bytes));
    s2_json_key_num(buf, "l2_bytes", s2_rounded(sim->l2_bytes));
    s2_json_key_num(buf, "hit_rate", s2_rounded(hit_rate(sim)));
    s2_json_end(buf, '}');
}

static void json_percent(const char *key, double pct, s2_buf *buf)
{
    s2_json_key(buf, key);
    if (pct > 0)
        s2_json_num(buf, s2_rounded(pct));
    else
        s2_json_null(buf);
}

void s2_report_error_json(const s2_error *error, s2_buf *buf)
{
    error = error != NULL && error->pct < S2_ERROR_UNKNOWN_PCT ? error : NULL;
    const bool mean = error != NULL && !error->allowed;
    json_percent("error_pct", error != NULL ? error->pct : 0, buf);
    s2_json_key_str(buf, "error_is", error == NULL ? NULL : mean ? "mean" : "allowance");
    json_percent("error_p90_pct", mean ? error->p90_pct : 0, buf);
    json_percent("error_largest_pct", error != NULL ? error->most_pct : 0, buf);
    s2_json_key(buf, "error_points");
    if (mean)
        s2_json_int(buf, error->n_judged);
    else
        s2_json_null(buf);
    s2_json_key_begin(buf, "error_causes", '[');
    for (int32_t bit = 0; error != NULL && bit < S2_N_CAUSES; bit++)
        if ((error->causes >> bit & 1U) != 0)
            s2_json_str(buf, s2_cause_words(bit));
    s2_json_end(buf, ']');
}

void s2_report_stack_json(const s2_report_subject *subject, double kept_bytes, s2_buf *buf)
{
    const s2_format *const format = subject->format;
    if (format == NULL)
        return;
    s2_json_key_begin(buf, "stack", '{');
    s2_json_key_str(buf, "format", format->name);
    s2_json_key_str(buf, "name", format->stack);
    s2_json_key_str(buf, "frees", s2_format_frees(format));
    s2_json_key_str(buf, "differs", format->differs);
    s2_json_key(buf, "kv_bytes");
    if (s2_format_frees(format) != NULL)
        s2_json_num(buf, kept_bytes);
    else
        s2_json_null(buf);
    s2_json_end(buf, '}');
}

void s2_report_scores_json(s2_model_scores scores, s2_scored scored, s2_buf *buf)
{
    if (scored == S2_SCORED_NONE)
        return;
    s2_json_key_begin(buf, "scores", '{');
    s2_json_key_num(buf, "cap", scores.cap);
    s2_json_key_bool(buf, "sinks", scores.sinks);
    s2_json_key_bool(buf, "priced", scored == S2_SCORED_MEASURED || scored == S2_SCORED_ASSUMED);
    s2_json_key_str(buf, "how", s2_scored_word(scored));
    s2_json_key(buf, "error_pct");
    if (scored == S2_SCORED_MEASURED)
        s2_json_num(buf, s2_scores_error_pct(scores));
    else
        s2_json_null(buf);
    s2_json_end(buf, '}');
}

/* What the pattern is worth at the length of its price. */
static s2_worth worth_of(const s2_report_subject *subject)
{
    s2_arena scratch = {0};
    s2_worth worth = {0};
    if (subject->not_judged != NULL)
        worth.not_judged = subject->not_judged;
    else if (s2_worth_figures(&scratch, subject->pattern, subject->options->len_tok, &worth) != S2_OK)
        worth.not_judged = "its layers cannot be followed here";
    worth.layers = NULL;
    s2_arena_release(&scratch);
    return worth;
}

void s2_sim_report_json(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_report_subject_json(subject, "s2sim/1", buf);
    json_options(subject->options, buf);
    json_counts(sim, buf);
    s2_json_key_num(buf, "time_us", s2_rounded(sim->time_us));
    s2_json_key_num(buf, "plan_us", s2_rounded(sim->plan_us));
    s2_json_key_num(buf, "bound_us", s2_rounded(sim->bound_us));
    s2_json_key_num(buf, "dense_time_us", s2_rounded(sim->dense_time_us));
    json_speed_up(subject->options, sim, sim->time_us, sim->dense_time_us, buf);
    s2_json_key_str(buf, "no_ratio", s2_no_ratio_word(s2_sim_no_ratio(subject->options, sim)));
    s2_json_key_str(buf, "bound_by", s2_resource_word(sim->bound_by));
    s2_json_key_bool(buf, "predicted", sim->predicted);
    s2_report_error_json(sim->predicted ? &sim->error : NULL, buf);
    json_prediction(subject->options, sim, buf);
    const s2_worth worth = worth_of(subject);
    s2_report_worth_json(&worth, buf);
    json_kv(sim, buf);
    s2_report_stack_json(subject, (double)sim->kv_kept, buf);
    json_tiers(sim, buf);
    json_states(sim, buf);
    s2_computed_json(subject->pattern, sim, buf);
    s2_report_scores_json(sim->scores, sim->scored, buf);
    json_ranks(subject->options, sim, buf);
    s2_machine_json(subject->options, sim, buf);
    json_training(subject->options, sim, buf);
    json_parts(sim, buf);
    if (sim->end_to_end_us > 0)
        json_end_to_end(subject->options, sim, buf);
    json_largest(subject->options, &sim->largest, buf);
    s2_json_end(buf, '}');
}

static void count_print(double value, const char *unit, s2_buf *buf)
{
    static const char *const scale[] = {"", "k", "M", "G", "T", "P", "E"};
    int at = 0;
    for (; value >= 1000 && at < 6; at++)
        value /= 1000;
    s2_buf_printf(buf, *unit == ' ' ? "%s%s%s" : "%s %s%s", s2_decimal(value, 4).text, scale[at], unit);
}

static void line_begin(const char *label, s2_buf *buf)
{
    s2_buf_printf(buf, "  %-13s ", label);
}

static void text_work(const s2_sim *sim, bool decode, s2_buf *buf)
{
    line_begin("density", buf);
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
    line_begin("work", buf);
    count_print((double)sim->counts.flop_useful, "FLOP useful, ", buf);
    count_print((double)sim->counts.flop_executed, "FLOP executed, dense ", buf);
    count_print((double)sim->dense.flop_useful, "FLOP\n", buf);
    line_begin("", buf);
    count_print((double)sim->counts.exp_useful, " exponentials useful, ", buf);
    count_print((double)sim->counts.exp_executed, " executed\n", buf);
    line_begin("tiles", buf);
    count_print((double)sim->counts.steps, "", buf);
    if (decode)
        s2_buf_puts(buf, " steps, one key block each, ");
    else
        s2_buf_printf(buf, " steps of %d x %d, ", sim->tile.q_tok, sim->tile.step_tok);
    count_print((double)sim->counts.tiles, "", buf);
    s2_buf_printf(buf, " key blocks of %d; busiest SM %.3f of the mean\n", sim->tile.k_tok, sim->imbalance);
    line_begin("bytes", buf);
    s2_bytes_print((double)sim->counts.hbm_read, buf);
    s2_buf_puts(buf, " read and ");
    s2_bytes_print((double)sim->counts.hbm_write, buf);
    s2_buf_puts(buf, " written at least; ");
    s2_bytes_print((double)sim->counts.l2, buf);
    s2_buf_puts(buf, " loaded by tiles\n");
}

static void put_gpus_of(const s2_sim_options *options, s2_buf *buf)
{
    const int32_t each = s2_machine_gpus(options), replicas = replicas_of(options);
    if (each * replicas > 1)
        s2_buf_printf(buf, ", %d GPUs", each * replicas);
    if (replicas > 1)
        s2_buf_printf(buf, ": %d replicas of %d, each with this batch", replicas, each);
}

/* " a replica, 191700 of 8"; nothing where there is one. */
static void put_of_replicas(const s2_sim_options *options, double rate, s2_buf *buf)
{
    const int32_t replicas = replicas_of(options);
    if (replicas == 1)
        return;
    s2_buf_puts(buf, " a replica, ");
    s2_rate_print(rate * replicas, buf);
    s2_buf_printf(buf, " of all %d", replicas);
}

static void put_tokens_per_s(double rate, s2_buf *buf)
{
    s2_rate_print(rate, buf);
    s2_buf_puts(buf, " tokens/s");
}

/* Decoding waits for a cache in host memory, and its time is a bound. */
static bool reads_host(const s2_sim_options *options, const s2_sim *sim, bool dense)
{
    return options->phase == S2_DECODE && (dense ? sim->host_dense_bytes : sim->host_bytes) > 0;
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
    line_begin("around", buf);
    s2_buf_puts(buf, said[options->fusion]);
}

static void text_end_to_end(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const double rate = rate_of(options, sim, false), dense = rate_of(options, sim, true);
    line_begin("end to end", buf);
    s2_buf_puts(buf, sim->predicted ? "" : "at least ");
    s2_time_print(sim->end_to_end_us, buf);
    if (!isnan(rate)) {
        s2_buf_puts(buf, sim->predicted ? ", " : ", at most ");
        put_tokens_per_s(rate, buf);
        put_of_replicas(options, rate, buf);
    }
    s2_buf_puts(buf, "; with dense attention ");
    s2_buf_puts(buf, reads_host(options, sim, true) && sim->predicted ? "at least " : "");
    s2_time_print(sim->end_to_end_dense_us, buf);
    if (!isnan(dense)) {
        s2_buf_puts(buf, ", ");
        put_tokens_per_s(dense, buf);
    }
    s2_buf_puts(buf, ": ");
    put_times(options, sim, sim->end_to_end_us, sim->end_to_end_dense_us, buf);
    s2_buf_puts(buf, "\n");
}

static void text_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    if (largest->batch == 0)
        return;
    const double rate = largest_rate(options, largest, false), dense = largest_rate(options, largest, true);
    line_begin("largest batch", buf);
    s2_buf_printf(buf, "%lld: ", (long long)largest->batch);
    put_tokens_per_s(rate, buf);
    if (largest->batch_dense == 0) {
        s2_buf_puts(buf, "; dense does not fit with one sequence\n");
        return;
    }
    s2_buf_printf(buf, "; dense %lld: ", (long long)largest->batch_dense);
    s2_rate_print(dense, buf);
    s2_buf_printf(buf, ", a ratio of %s\n", s2_decimal(rate / dense, 3).text);
}

void s2_report_beyond(const s2_sim *sim, s2_buf *buf)
{
    const s2_span_of_points span = sim->beyond_span;
    const char *const where = sim->measured ? "" : " on another GPU";
    if (span.least < sim->beyond_asked && sim->beyond_asked < span.greatest)
        s2_buf_printf(buf, "interpolated in %s: %.0f, measured%s at %.0f and %.0f",
                      s2_extent_words(sim->beyond_in), sim->beyond_asked, where, span.least, span.greatest);
    else
        s2_buf_printf(buf, "extrapolated in %s: %.0f, measured%s from %.0f to %.0f",
                      s2_extent_words(sim->beyond_in), sim->beyond_asked, where, span.least, span.greatest);
}

/* Which part of the time the error covers: choosing and states are priced at peak rates. */
static void put_apart(const s2_sim *sim, s2_buf *buf)
{
    bool selects = false;
    for (int32_t part = 0; part < sim->n_parts; part++)
        selects |= strcmp(sim->parts[part].name, "selection") == 0;
    const bool moves = sim->states.n_layers > 0;
    if (selects || moves)
        s2_buf_printf(buf, "; that is of attention, %s%s%s at peak rates", selects ? "selection is" : "",
                      selects && moves ? " and states are" : "", !selects && moves ? "states are" : "");
}

/* How far off the time may be: why no error was measured, or which one was. */
static void text_error(const s2_sim *sim, s2_buf *buf)
{
    line_begin("", buf);
    if (sim->beyond > 0) {
        s2_report_beyond(sim, buf);
        s2_buf_puts(buf, "; ");
    }
    s2_error_print(&sim->error, true, buf);
    put_apart(sim, buf);
    s2_buf_puts(buf, "\n");
}

/* Another kernel's time, with the state of the caches that its rows were measured in. */
static void text_peer(const s2_peer *peer, const s2_sim *sim, s2_buf *buf)
{
    s2_time_print(sim->time_us, buf);
    s2_buf_printf(buf, " predicted (%s", sim->kernel);
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
    if (reads_host(options, sim, true) && sim->link_dense_us >= sim->dense_time_us)
        return "to read from host memory, at the link's peak";
    if (options->calibration != NULL && reads_host(options, sim, true))
        return "what it would take with all of its cache on the GPU";
    return sim->predicted ? "predicted too" : "bounds at peak rates, not predictions";
}

/* No cache in host memory was measured: whichever takes longer, the link or attention, is a bound. */
static void text_host_time(const s2_sim *sim, s2_buf *buf)
{
    if (sim->bound_by == S2_LINK) {
        s2_time_print(sim->time_us, buf);
        s2_buf_puts(buf, " to read from host memory, at the link's peak\n");
    } else {
        s2_buf_puts(buf, "at least ");
        s2_time_print(sim->time_us, buf);
        s2_buf_printf(buf, ", what %s would take with all of the cache on the GPU, bound by %s\n",
                      sim->kernel, s2_resource_word(sim->bound_by));
    }
    line_begin("", buf);
    s2_buf_puts(buf, "no error known: nothing was measured of a cache in host memory\n");
}

static void text_time(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const bool host =
        options->calibration != NULL && reads_host(options, sim, false) && sim->kernel[0] != '\0';
    line_begin("time", buf);
    if (host) {
        text_host_time(sim, buf);
    } else if (sim->predicted && options->peer != NULL) {
        text_peer(options->peer, sim, buf);
    } else if (sim->predicted) {
        s2_time_print(sim->time_us, buf);
        s2_buf_printf(buf, " %s (%s at %.0f MHz), bound by %s\n", kind_of_prediction(options, sim),
                      sim->kernel, sim->clock_mhz, s2_resource_word(sim->bound_by));
    }
    if (sim->predicted)
        text_error(sim, buf);
    if (sim->predicted || host)
        line_begin("", buf);
    s2_buf_puts(buf, "at least ");
    s2_time_print(sim->plan_us, buf);
    s2_buf_puts(buf, " for this plan");
    if (!sim->predicted && !host)
        s2_buf_printf(buf, ", bound by %s", s2_resource_word(sim->bound_by));
    s2_buf_puts(buf, "; any kernel: ");
    s2_time_print(sim->bound_us, buf);
    s2_buf_puts(buf, "\n");
    line_begin("", buf);
    s2_buf_puts(buf, "dense ");
    s2_time_print(sim->dense_time_us, buf);
    s2_buf_puts(buf, ", ");
    put_times(options, sim, sim->time_us, sim->dense_time_us, buf);
    s2_buf_printf(buf, " (%s)\n", kind_of_dense(options, sim));
    if (sim->predicted && options->peer == NULL) {
        line_begin("", buf);
        s2_bytes_print(sim->dram_bytes, buf);
        s2_buf_puts(buf, " of device memory, ");
        s2_bytes_print(sim->l2_bytes, buf);
        s2_buf_printf(buf, " from L2: %.1f %% of it hits\n", 100 * hit_rate(sim));
    }
    if (sim->n_parts < 2)
        return;
    for (int32_t part = 0; part < sim->n_parts; part++) {
        line_begin(part == 0 ? "parts" : "", buf);
        s2_buf_printf(buf, "%-18s  ", sim->parts[part].name);
        s2_time_print(sim->parts[part].time_us, buf);
        s2_buf_printf(buf, " (%s)\n", s2_resource_word(sim->parts[part].bound_by));
    }
    if (sim->end_to_end_us > 0) {
        text_fusion(options, buf);
        text_end_to_end(options, sim, buf);
    }
}

static void text_states(const s2_sim *sim, s2_buf *buf)
{
    const s2_states *const states = &sim->states;
    if (states->n_layers == 0)
        return;
    line_begin("states", buf);
    s2_bytes_print((double)states->bytes, buf);
    s2_buf_puts(buf, " for each sequence in ");
    s2_buf_count(buf, states->n_layers, "layer");
    s2_buf_puts(buf, "; every time above counts their bytes (");
    s2_time_print(states->us, buf);
    s2_buf_puts(buf, "), not their computation, which the pattern does not say\n");
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
    line_begin("GPUs", buf);
    s2_buf_printf(buf, "all wait for the slowest, %d: %.3f of the mean; it ", ranks->slowest,
                  ranks->imbalance);
    s2_buf_puts(buf, "moves at least ");
    s2_bytes_print(ranks->hbm_bytes, buf);
    s2_buf_puts(buf, "\n");
    if (ranks->n_copies > 1) {
        line_begin("", buf);
        s2_buf_printf(buf, "each KV head is kept and read by %s%d GPUs\n",
                      s2_pattern_layers_differ(pattern) ? "up to " : "", ranks->n_copies);
    }
    if (ranks->n_order == 0)
        return;
    line_begin("", buf);
    s2_buf_puts(buf, "dealt by work, ");
    s2_time_print(ranks->mended_us, buf);
    s2_buf_printf(buf, ", %.3f of the mean then; KV heads of layer %d: ", ranks->mended_imbalance,
                  ranks->mended_layer);
    put_order(ranks, options->n_ranks, buf);
    s2_buf_printf(buf, "; by the work of %s, and a server deals them once for all phases\n",
                  s2_phase_word(options->phase));
}

static void layout(const char *label, double bytes, double dense, const char *note, s2_buf *buf)
{
    line_begin(label, buf);
    s2_bytes_print(bytes, buf);
    s2_buf_printf(buf, "  %.4f of dense%s\n", bytes / dense, note);
}

/* What one GPU must have room for: the layouts above and their peak are for all GPUs together. */
static void text_each_gpu(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (s2_machine_gpus(options) == 1)
        return;
    line_begin(" each GPU", buf);
    s2_bytes_print((double)sim->kv_fullest, buf);
    s2_buf_puts(buf, options->keeps_all ? " of pages at most, dense " : " of head pages at most, dense ");
    s2_bytes_print((double)sim->kv_dense_each, buf);
    s2_buf_printf(buf, "; the above is all %d together\n", s2_machine_gpus(options));
}

/* A value at the limit is only a lower bound, because nothing larger is tried. */
static void put_limited(int64_t value, int64_t limit, s2_buf *buf)
{
    s2_buf_printf(buf, "%s%lld", value >= limit ? "at least " : "", (long long)value);
}

static void label_stack(const s2_format *format, s2_buf *buf)
{
    char label[32];
    snprintf(label, sizeof label, "for %s", format->name);
    line_begin(label, buf);
}

void s2_report_stack_host(const s2_format *format, const s2_sim *sim, s2_buf *buf)
{
    if (format->offloads)
        s2_buf_printf(buf,
                      "%s reads a cache from host memory only where it is told to offload, layer by layer, "
                      "which is not what is priced here\n",
                      format->stack);
    else if (sim->fit_batch == 0)
        s2_buf_printf(buf, "%s reads no cache from host memory and cannot run one such sequence\n",
                      format->stack);
    else
        s2_buf_printf(
            buf, "%s reads no cache from host memory: of these sequences it runs at most %lld at a time\n",
            format->stack, (long long)sim->fit_batch);
}

static void text_stack_host(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_format *const format = subject->format;
    if (format == NULL || format->stack == NULL || sim->host_bytes == 0)
        return;
    label_stack(format, buf);
    s2_report_stack_host(format, sim, buf);
}

static void stack_cache(const s2_format *format, bool drops, s2_buf *buf)
{
    if (s2_format_frees(format) != NULL || !drops)
        return;
    label_stack(format, buf);
    s2_buf_puts(buf,
                "not known whether what reads this format frees what the pattern drops; the cache above is "
                "of one that does\n");
}

void s2_report_stack_text(const s2_report_subject *subject, bool drops, s2_buf *buf)
{
    const s2_format *const format = subject->format;
    if (format == NULL)
        return;
    stack_cache(format, drops, buf);
    if (format->stack == NULL)
        return;
    label_stack(format, buf);
    if (format->keeps_all) {
        s2_buf_printf(buf, "%s frees no page of the cache, whatever the pattern drops\n", format->stack);
        line_begin("", buf);
    }
    if (subject->options->peer != NULL)
        s2_buf_printf(buf, "the times above are those of %s\n", subject->options->peer->name);
    else
        s2_buf_printf(buf, "the times above are of the kernels of s2, not of those of %s\n", format->stack);
}

/* Nothing is dropped, whatever the layout. */
static void text_kept(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    line_begin("kv cache", buf);
    s2_bytes_print((double)sim->kv.dense, buf);
    s2_buf_puts(buf, " dense, and all of it is kept\n");
    text_each_gpu(subject->options, sim, buf);
    line_begin("", buf);
    s2_buf_puts(buf, "a cache that drops what no head will read again would keep ");
    s2_bytes_print((double)sim->kv.head_pages, buf);
    s2_buf_printf(buf, ", %.4f of dense\n", (double)sim->kv.head_pages / (double)sim->kv.dense);
}

static void text_layouts(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const double dense = (double)sim->kv.dense;
    char note[80];
    line_begin("kv cache", buf);
    s2_bytes_print(dense, buf);
    s2_buf_puts(buf, " dense\n");
    layout(" shared pages", (double)sim->kv.shared_pages, dense,
           sim->kv.shared_pages == sim->kv.dense ? "; frees nothing: every key is some head's" : "", buf);
    snprintf(note, sizeof note, "; pages of %d", subject->options->page_tok);
    layout(" head pages", (double)sim->kv.head_pages, dense, note, buf);
    layout(" ring+stripes", (double)sim->kv.ring_stripes, dense, "", buf);
    text_each_gpu(subject->options, sim, buf);
    line_begin("", buf);
    s2_buf_puts(buf, sim->kv_peak_exact ? "peak " : "peak of at most ");
    s2_bytes_print((double)sim->kv_peak, buf);
    s2_buf_printf(buf, "%s at %lld tokens; unused in pages of 16: ",
                  s2_machine_gpus(subject->options) > 1 ? " on a GPU" : "", (long long)sim->kv_peak_tok);
    s2_bytes_print((double)sim->kv_wasted[0], buf);
    s2_buf_puts(buf, ", of 64: ");
    s2_bytes_print((double)sim->kv_wasted[1], buf);
    s2_buf_puts(buf, "\n");
    line_begin("", buf);
    s2_buf_puts(buf, "on the way:");
    for (int32_t point = sim->n_kv_points > 5 ? sim->n_kv_points - 5 : 0; point < sim->n_kv_points; point++) {
        s2_buf_printf(buf, "%s %lld: ", point + 5 > sim->n_kv_points && point > 0 ? "," : "",
                      (long long)sim->kv_points[point].len_tok);
        s2_bytes_print((double)sim->kv_points[point].bytes.head_pages, buf);
    }
    s2_buf_puts(buf, "\n");
}

static void text_kv(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    if (subject->options->keeps_all)
        text_kept(subject, sim, buf);
    else
        text_layouts(subject, sim, buf);
    line_begin("fits", buf);
    if (sim->fit_batch == 0 && sim->fit_len_tok == 0) {
        s2_buf_puts(buf, "nothing: ");
        s2_bytes_print((double)sim->weight_bytes, buf);
        s2_buf_puts(buf, " of weights and the cache of one token exceed the memory\n");
        return;
    }
    s2_buf_puts(buf, "batch ");
    put_limited(sim->fit_batch, S2_LIMIT_BATCH, buf);
    s2_buf_puts(buf, " (dense ");
    put_limited(sim->fit_batch_dense, S2_LIMIT_BATCH, buf);
    s2_buf_puts(buf, ") of this length, or ");
    put_limited(sim->fit_len_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, " tokens (dense ");
    put_limited(sim->fit_len_dense_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, ") at this batch");
    if (subject->options->net == NULL) {
        s2_buf_puts(buf, ", weights not counted (--model)\n");
        return;
    }
    s2_buf_puts(buf, ", beside ");
    s2_bytes_print((double)sim->weight_bytes, buf);
    s2_buf_puts(buf, s2_links_gpus(subject->options) > 1 ? " of weights on each GPU\n" : " of weights\n");
}

/* Returns whether anything was said. */
static bool put_room(const s2_report_subject *subject, bool recompute, const char *before, s2_buf *buf)
{
    s2_sim_options own;
    if (!s2_sim_training_room(subject->options, recompute, subject->pattern->causal, &own))
        return false;
    s2_buf_puts(buf, before);
    if (recompute)
        s2_buf_puts(buf, " --recompute");
    const int32_t n[] = {own.n_ranks, own.n_context, own.n_stages, own.n_expert_ranks, own.n_shards};
    static const char *const options[] = {"tp", "cp", "pp", "ep", "dp"};
    for (size_t at = 0; at < sizeof n / sizeof *n; at++)
        if (n[at] > 1)
            s2_buf_printf(buf, " --%s %d", options[at], n[at]);
    return true;
}

/* With which options a step that does not fit would, each of them computed. */
static void report_room(const s2_report_subject *subject, const char *before, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    s2_buf_puts(buf, before);
    const bool plain = !options->recompute && put_room(subject, false, "it fits with", buf);
    if (!put_room(subject, true, plain ? ", or with" : "it fits with", buf) && !plain)
        s2_buf_printf(buf,
                      "up to 4096 GPUs (--tp, --dp, --pp, --cp) make no room, not even with --recompute; "
                      "fewer tokens %sdo",
                      options->batch > 1 ? "or a smaller batch " : "");
}

static void text_training(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    line_begin("memory", buf);
    s2_bytes_print(sim->training.bytes, buf);
    s2_buf_puts(buf, " on a GPU: ");
    s2_bytes_print(sim->training.state_bytes, buf);
    s2_buf_printf(buf, " of weights, gradients and optimizer over %d GPU%s", options->n_shards,
                  options->n_shards > 1 ? "s" : "");
    if (sim->training.gathered_bytes > 0) {
        s2_buf_puts(buf, " (");
        s2_bytes_print(sim->training.gathered_bytes, buf);
        s2_buf_puts(buf, " gathered for the layer that runs)");
    }
    s2_buf_puts(buf, ", ");
    s2_bytes_print(sim->training.activation_bytes, buf);
    s2_buf_printf(buf, " of activations%s", options->recompute ? ", recomputed" : "");
    if (sim->training.n_in_flight > 1)
        s2_buf_printf(buf, ", of %d microbatches", sim->training.n_in_flight);
    s2_buf_puts(buf, "\n");
    line_begin("fits", buf);
    if (sim->fit_len_tok == 0) {
        s2_buf_puts(buf, "nothing");
        report_room(subject, ": ", buf);
        s2_buf_puts(buf, "\n");
        return;
    }
    const bool fits = sim->fit_batch >= options->batch;
    s2_buf_puts(buf, fits ? "" : "not this: ");
    if (sim->fit_batch > 0) {
        s2_buf_puts(buf, "batch ");
        put_limited(sim->fit_batch, S2_LIMIT_BATCH, buf);
        s2_buf_puts(buf, " of this length, or ");
    }
    put_limited(sim->fit_len_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, " tokens at this batch");
    if (!fits)
        report_room(subject, "; ", buf);
    s2_buf_puts(buf, "\n");
}

static void text_tiers(const s2_sim *sim, s2_buf *buf)
{
    if (sim->host_bytes == 0)
        return;
    line_begin("host memory", buf);
    s2_bytes_print((double)sim->host_bytes, buf);
    s2_buf_puts(buf, " of the cache do not fit on the GPU");
    if (sim->host_read_bytes == 0) {
        s2_buf_puts(buf, "\n");
        return;
    }
    s2_buf_puts(buf, "; ");
    s2_bytes_print((double)sim->host_read_bytes, buf);
    s2_buf_puts(buf, " cross the link in each step, ");
    s2_time_print(sim->link_us, buf);
    s2_buf_puts(buf, sim->bound_by == S2_LINK ? " at its peak, longer than attention takes\n"
                                              : " at its peak, beside attention, which takes longer\n");
}

/* " of 128", or " of 256 to 512" where layers differ. */
static void put_head_dim(const s2_pattern *pattern, s2_buf *buf)
{
    int32_t least = INT32_MAX, most = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t own = s2_pattern_head_dim(pattern, layer);
        least = own < least ? own : least;
        most = own > most ? own : most;
    }
    s2_buf_printf(buf, least < most ? " of %d to %d" : " of %d", least, most);
}

/* "8192 tokens", or "the last 512 of 8192 tokens". */
static void put_tokens(const s2_sim_options *options, s2_buf *buf)
{
    if (options->new_tok != 0)
        s2_buf_printf(buf, "the last %lld of ", (long long)options->new_tok);
    s2_buf_count(buf, options->len_tok, "token");
}

static void text_worth(const s2_report_subject *subject, s2_buf *buf)
{
    const s2_worth worth = worth_of(subject);
    line_begin("worth", buf);
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
    s2_buf_printf(buf, ", block %d, ", pattern->block_tok);
    s2_buf_count(buf, sim->n_head_classes, "distinct head");
    s2_buf_printf(buf, "\n  %s of ", s2_phase_word(options->phase));
    put_tokens(options, buf);
    s2_buf_printf(buf, ", batch %lld, ", (long long)options->batch);
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s%s%s", options->gpu.title, options->net != NULL ? ", model " : "",
                  options->net != NULL ? options->net->name : "");
    put_gpus_of(options, buf);
    s2_buf_puts(buf, "\n");
    text_work(sim, options->phase == S2_DECODE, buf);
    text_time(options, sim, buf);
    text_worth(subject, buf);
    text_states(sim, buf);
    s2_computed_text(pattern, sim, buf);
    s2_report_scores_text("  scores        ", sim->scores, sim->scored, buf);
    text_largest(options, &sim->largest, buf);
    text_ranks(pattern, options, sim, buf);
    s2_machine_text(options, sim, buf);
    s2_links_text(options, sim, buf);
    if (options->phase == S2_TRAIN) {
        if (sim->training.bytes > 0)
            text_training(subject, sim, buf);
        return;
    }
    text_kv(subject, sim, buf);
    text_tiers(sim, buf);
    text_stack_host(subject, sim, buf);
    s2_report_stack_text(subject, sim->kv.head_pages < sim->kv.dense, buf);
}

/* What all rows of a table were priced for. */
static void put_setup(const s2_sim_options *options, s2_buf *buf)
{
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s", options->gpu.title);
    if (options->net != NULL)
        s2_buf_printf(buf, ", model %s", options->net->name);
    if (options->recompute)
        s2_buf_puts(buf, ", recomputed");
    put_gpus_of(options, buf);
    s2_buf_puts(buf, "; ");
}

static void put_kind_of_times(const s2_sim_options *options, s2_buf *buf)
{
    if (options->peer != NULL)
        s2_buf_printf(buf, "times are predicted for the kernel model %s, each with its error",
                      options->peer->name);
    else if (options->calibration == NULL)
        s2_buf_puts(buf, "times are lower bounds");
    else if (s2_machine_gpus(options) > options->n_ranks)
        s2_buf_puts(buf, "times are guessed: no such machine was measured; those with >= are bounds");
    else
        s2_buf_puts(buf, !s2_calibration_is_measured(options->calibration)
                             ? "times are guessed from the data sheet; those with >= are bounds"
                             : "times are predicted for the calibrated kernels; those with >= are bounds");
    s2_buf_puts(buf, "\n");
}

/* Another kernel's time is known only as well as its rows were predicted. width: of the columns `end to end`. */
static void put_peer_error(const s2_sim_options *options, const s2_sim *sim, int width, s2_buf *buf)
{
    if (options->peer == NULL || sim->time_us <= sim->bound_us) /* a bound is no prediction */
        return;
    s2_buf_printf(buf, "%*s%s", 2 + (sim->end_to_end_us > 0 ? 0 : width), "",
                  sim->beyond > 0 ? "extrapolated; " : "");
    s2_error_print(&sim->error, false, buf);
}

void s2_sim_report_table_head(const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_printf(buf, "%s of %lld tokens, batch %lld, ", s2_phase_word(options->phase),
                  (long long)options->len_tok, (long long)options->batch);
    put_setup(options, buf);
    put_kind_of_times(options, buf);
    s2_buf_printf(buf, "%-24s %9s %9s %11s %8s %7s %11s %7s %11s\n", "pattern", "density", "pairs", "time",
                  "speed-up", "by", "kv", "of it", "end to end");
}

static void cell(void (*print)(double, s2_buf *), double value, int width, s2_buf *buf)
{
    s2_buf text = {0};
    print(value, &text);
    s2_buf_printf(buf, " %*s", width, text.data != NULL ? text.data : "");
    s2_buf_release(&text);
}

static void bound_print(double us, s2_buf *buf)
{
    s2_buf_puts(buf, ">= ");
    s2_time_print(us, buf);
}

/* A time of a table whose head calls times predicted, of which this may be none. */
static void time_cell(const s2_sim_options *options, bool predicted, double us, int width, s2_buf *buf)
{
    cell(options->calibration != NULL && !predicted ? bound_print : s2_time_print, us, width, buf);
}

/* Any pattern looks fast compared with a cache that waits for the host. */
static void ratio_cell(const s2_sim_options *options, const s2_sim *sim, double us, double dense_us,
                       int width, s2_buf *buf)
{
    const s2_no_ratio why = s2_sim_no_ratio(options, sim);
    if (why == S2_RATIO_HOLDS)
        s2_buf_printf(buf, " %*.2fx", width - 1, dense_us / us);
    else
        s2_buf_printf(buf, " %*s", width, s2_no_ratio_label(why));
}

/* What "no room" is of. */
static void put_no_room(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const s2_no_ratio why = s2_sim_no_ratio(options, sim);
    if (why == S2_NO_ROOM)
        s2_buf_puts(buf, "  more than the memory");
    if (why == S2_NO_WEIGHTS)
        s2_buf_puts(buf, "  the weights are more than the memory");
}

static void cache_cells(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (options->phase == S2_TRAIN) { /* which keeps no cache */
        s2_buf_printf(buf, " %11s %7s", "-", "-");
        return;
    }
    cell(s2_bytes_print, (double)sim->kv_kept, 11, buf);
    s2_buf_printf(buf, " %7.4f", (double)sim->kv_kept / (double)sim->kv.dense);
}

void s2_sim_report_table_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    s2_buf_printf(buf, "%-24.24s %9.5f %9.5f", subject->name, sim->density, sim->token_density);
    time_cell(subject->options, sim->predicted, sim->time_us, 11, buf);
    ratio_cell(subject->options, sim, sim->time_us, sim->dense_time_us, 8, buf);
    s2_buf_printf(buf, " %7s", s2_resource_word(sim->bound_by));
    cache_cells(subject->options, sim, buf);
    if (sim->end_to_end_us > 0)
        time_cell(subject->options, sim->predicted, sim->end_to_end_us, 11, buf);
    put_no_room(subject->options, sim, buf);
    put_peer_error(subject->options, sim, 12, buf);
    const s2_worth worth = worth_of(subject);
    if (worth.not_judged == NULL)
        s2_buf_printf(buf, "  recall %.2f, loss %.3f", worth.recall, worth.loss);
    s2_buf_puts(buf, "\n");
}

void s2_sim_report_phase_head(const char *name, const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_printf(buf, "%s, %lld tokens, batch %lld, ", name, (long long)options->len_tok,
                  (long long)options->batch);
    put_setup(options, buf);
    put_kind_of_times(options, buf);
    s2_buf_printf(buf, "%-8s %11s %11s %9s %11s %11s %9s\n", "phase", "attention", "dense", "speed-up",
                  "end to end", "dense", "speed-up");
}

static void put_pair(const s2_sim_options *options, const s2_sim *sim, double us, double dense_us,
                     s2_buf *buf)
{
    time_cell(options, sim->predicted, us, 11, buf);
    time_cell(options, sim->predicted && !reads_host(options, sim, true), dense_us, 11, buf);
    ratio_cell(options, sim, us, dense_us, 9, buf);
}

void s2_sim_report_phase_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    s2_buf_printf(buf, "%-8s", s2_phase_word(options->phase));
    put_pair(options, sim, sim->time_us, sim->dense_time_us, buf);
    if (sim->end_to_end_us > 0)
        put_pair(options, sim, sim->end_to_end_us, sim->end_to_end_dense_us, buf);
    put_no_room(options, sim, buf);
    put_peer_error(subject->options, sim, 34, buf);
    s2_buf_puts(buf, "\n");
}

void s2_report_public_json(const s2_public *published, s2_buf *buf)
{
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "schema", "s2public/1");
    s2_json_key_begin(buf, "attention", '[');
    for (int32_t g = 0; g < published->n_groups; g++) {
        const s2_public_group *const group = &published->groups[g];
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "name", group->name);
        s2_json_key_bool(buf, "measured", group->measured);
        s2_json_key_int(buf, "rows", group->n);
        s2_json_key_num(buf, "median_ratio", s2_rounded(group->median_ratio));
        s2_json_key_num(buf, "mape", s2_rounded(group->mape));
        s2_json_key_num(buf, "median_error", s2_rounded(group->median_error));
        s2_json_key_num(buf, "p90", s2_rounded(group->p90));
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "end_to_end", '[');
    for (int32_t f = 0; f < published->n_figures; f++) {
        const s2_public_figure *const figure = &published->figures[f];
        s2_json_begin(buf, '{');
        s2_json_key_str(buf, "name", figure->name);
        s2_json_key_num(buf, "published", figure->published);
        s2_json_key_num(buf, "predicted", s2_rounded(figure->predicted));
        s2_json_key_num(buf, "time_ratio", s2_rounded(figure->ratio));
        s2_json_key_str(buf, "source", figure->source);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_num(buf, "median_error", s2_rounded(published->median_error));
    s2_json_key_num(buf, "mean_error", s2_rounded(published->mean_error));
    s2_json_end(buf, '}');
    s2_buf_puts(buf, "\n");
}

void s2_report_public_text(const s2_public *published, s2_buf *buf)
{
    s2_buf_puts(
        buf,
        "\nbeside other kernels, which write K and V to the cache too (docs/results/public/attention.csv)\n");
    s2_buf_printf(buf, "  %-44s %6s %7s %8s %8s %8s\n", "", "rows", "ratio", "mean", "median", "p90");
    for (int32_t g = 0; g < published->n_groups; g++) {
        const s2_public_group *const group = &published->groups[g];
        s2_buf_printf(buf, "  %-44s %6d %7.2f %6.1f %% %6.1f %% %6.1f %%%s\n", group->name, group->n,
                      group->median_ratio, group->mape, group->median_error, group->p90,
                      group->measured ? "" : "  guessed");
    }
    s2_buf_puts(buf, "\nbeside published figures of whole models (time predicted / published)\n");
    for (int32_t f = 0; f < published->n_figures; f++) {
        const s2_public_figure *const figure = &published->figures[f];
        s2_buf_printf(buf, "  %5.2f  %9s %9s  %s  [%s]\n", figure->ratio,
                      s2_decimal(figure->predicted, 4).text, s2_decimal(figure->published, 4).text,
                      figure->name, figure->source);
    }
    s2_buf_printf(buf, "  %d figures: median error %.1f %%, mean %.1f %%\n", published->n_figures,
                  published->median_error, published->mean_error);
}

void s2_report_worth_json(const s2_worth *worth, s2_buf *buf)
{
    s2_json_key(buf, "worth");
    if (worth->not_judged != NULL) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_num(buf, "recall", worth->recall);
    s2_json_key_num(buf, "recall_error", s2_worth_recall_error);
    s2_json_key_num(buf, "loss", worth->loss);
    s2_json_key_num(buf, "loss_error", s2_worth_loss_error);
    s2_json_end(buf, '}');
}
