/* A price as JSON, and the members that other reports share with it. */
#include "report/common.h"

#include <math.h>

#include "report/computed.h"
#include "report/machine.h"
#include "sim/scores.h"
#include "sim/units.h"

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
    if (options->listed)
        s2_json_key_bool(buf, "device_lists", true);
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

static void json_kv(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
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
        const s2_kv_point *const kept = &sim->kv_points[point];
        s2_json_begin(buf, '{');
        s2_json_key_int(buf, "len", kept->len_tok);
        s2_json_key_int(buf, "dense", kept->bytes.dense);
        s2_json_key_int(buf, "used", kept->bytes.used);
        s2_json_key_int(buf, "shared_pages", kept->bytes.shared_pages);
        s2_json_key_int(buf, "head_pages", kept->bytes.head_pages);
        s2_json_key_int(buf, "ring_stripes", kept->bytes.ring_stripes);
        s2_json_end(buf, '}');
    }
    s2_json_end(buf, ']');
    s2_json_key_begin(buf, "fit", '{');
    s2_json_key_int(buf, "weight_bytes", sim->weight_bytes);
    s2_json_key_int(buf, "memory_bytes", (int64_t)s2_sim_memory_bytes(options));
    s2_json_key_num(buf, "activation_bytes", s2_rounded(s2_sim_activation_bytes(options)));
    s2_json_key_int(buf, "batch", sim->fit_batch);
    s2_json_key_int(buf, "batch_dense", sim->fit_batch_dense);
    s2_json_key_int(buf, "len", sim->fit_len_tok);
    s2_json_key_int(buf, "len_dense", sim->fit_len_dense_tok);
    s2_json_end(buf, '}');
}

/* Training keeps no cache. */
static void json_tiers(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (options->phase == S2_TRAIN) {
        s2_json_key_str(buf, "tiers", NULL);
        return;
    }
    s2_json_key_begin(buf, "tiers", '{');
    s2_json_key_int(buf, "hbm", sim->kv_fullest - sim->host_bytes);
    s2_json_key_int(buf, "host", sim->host_bytes);
    s2_json_key_int(buf, "host_dense", sim->host_dense_bytes);
    s2_json_key_int(buf, "host_read_per_step", sim->host_read_bytes);
    s2_json_key_num(buf, "link_us", s2_rounded(sim->link_us));
    s2_json_key_num(buf, "link_dense_us", s2_rounded(sim->link_dense_us));
    s2_json_end(buf, '}');
}

void s2_report_states_json(const s2_sim *sim, s2_buf *buf)
{
    if (sim->states.n_layers == 0)
        return;
    s2_json_key_begin(buf, "states", '{');
    s2_json_key_int(buf, "layers", sim->states.n_layers);
    s2_json_key_int(buf, "bytes_per_sequence", sim->states.bytes);
    s2_json_key_num(buf, "time_us", s2_rounded(sim->states.us));
    s2_json_key_bool(buf, "compute_priced", sim->end_to_end_us > 0);
    if (sim->end_to_end_us > 0) {
        s2_json_key_num(buf, "products_us", s2_rounded(s2_report_part_us(sim, "mixers")));
        s2_json_key_num(buf, "scan_at_least_us", s2_rounded(s2_report_scan_us(sim)));
        s2_json_key_bool(buf, "scan_measured", false);
    }
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
    s2_json_key_str(buf, "peak", s2_training_peak_word(sim->training.peak));
    if (sim->training.peak == S2_PEAK_LAYER)
        s2_json_key_int(buf, "layer", sim->training.layer);
    s2_json_key_num(buf, "state_bytes", s2_rounded(sim->training.state_bytes));
    s2_json_key_num(buf, "gradient_bytes", s2_rounded(sim->training.gradient_bytes));
    s2_json_key_num(buf, "gathered_bytes", s2_rounded(sim->training.gathered_bytes));
    s2_json_key_num(buf, "activation_bytes", s2_rounded(sim->training.activation_bytes));
    s2_json_key_num(buf, "kept_bytes", s2_rounded(sim->training.kept_bytes));
    s2_json_key_num(buf, "working_bytes", s2_rounded(sim->training.working_bytes));
    s2_json_key_num(buf, "logit_bytes", s2_rounded(sim->training.logit_bytes));
    s2_json_key_int(buf, "in_flight", sim->training.n_in_flight);
    s2_json_key_num(buf, "bytes", s2_rounded(sim->training.bytes));
    if (sim->training.at_least)
        s2_json_key_bool(buf, "at_least", true);
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

static void json_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    if (largest->batch == 0)
        return;
    const double rate = s2_report_largest_rate(options, largest, false),
                 dense = s2_report_largest_rate(options, largest, true);
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

static void json_end_to_end(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const double n = s2_report_replicas(options), rate = s2_report_rate(options, sim, false),
                 dense = s2_report_rate(options, sim, true);
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

void s2_report_beyond_json(const s2_far *far, s2_buf *buf)
{
    s2_json_key(buf, "extrapolated");
    if (far->beyond == 0) {
        s2_json_null(buf);
        return;
    }
    s2_json_begin(buf, '{');
    s2_json_key_str(buf, "in", s2_extent_words(far->in));
    s2_json_key_num(buf, "asked", far->asked);
    s2_json_key_num(buf, "measured_from", far->span.least);
    s2_json_key_num(buf, "measured_to", far->span.greatest);
    s2_json_end(buf, '}');
}

static void json_runs_on(const s2_others *others, s2_buf *buf)
{
    s2_json_key_begin(buf, "runs_on", '[');
    for (int32_t nth = 0; nth < others->n; nth++)
        s2_json_str(buf, others->names[nth]);
    s2_json_end(buf, ']');
}

static void json_prediction(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (!sim->predicted)
        return;
    s2_json_key_begin(buf, "prediction", '{');
    s2_json_key_bool(buf, "measured", sim->measured);
    s2_report_beyond_json(&sim->far, buf);
    s2_json_key_str(buf, "kernel", sim->kernel);
    json_runs_on(&sim->runs_on, buf);
    if (options->peer != NULL) {
        s2_json_key_int(buf, "judged_rows", sim->error.n_judged);
        s2_json_key_str(buf, "caches", s2_peer_caches_word(options->peer->caches));
        s2_json_end(buf, '}');
        return;
    }
    s2_json_key_num(buf, "clock_mhz", s2_rounded(sim->clock_mhz));
    s2_json_key_num(buf, "dram_bytes", s2_rounded(sim->dram_bytes));
    s2_json_key_num(buf, "l2_bytes", s2_rounded(sim->l2_bytes));
    s2_json_key_num(buf, "hit_rate", s2_rounded(s2_report_hit_rate(sim)));
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
    s2_json_key_str(buf, "differs", s2_format_differs(format, subject->pattern));
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
    const s2_worth worth = s2_report_worth(subject);
    s2_report_worth_json(&worth, buf);
    json_kv(subject->options, sim, buf);
    s2_report_stack_json(subject, (double)sim->kv_kept, buf);
    json_tiers(subject->options, sim, buf);
    s2_report_states_json(sim, buf);
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
