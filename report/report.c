#include "report/common.h"

#include <math.h>

#include "reach/worth.h"
#include "report/machine.h"
#include "sim/units.h"

void s2_report_line(const char *label, s2_buf *buf)
{
    s2_buf_printf(buf, "  %-13s ", label);
}

double s2_report_hit_rate(const s2_sim *sim)
{
    return sim->l2_bytes > sim->dram_bytes ? 1 - sim->dram_bytes / sim->l2_bytes : 0;
}

double s2_sim_tokens_per_s(const s2_sim_options *options, double us)
{
    const double n_tok = (double)(options->len_tok - s2_sim_first_tok(options));
    return n_tok * (double)options->batch / us * 1e6;
}

/* What a checkpoint leaves in the type of activations, or why its own type is not priced. */
static void report_kept(const s2_sim_options *options, s2_buf *buf)
{
    static const char *const parts[S2_PART_HEAD] = {"attention", "mixers", "experts", "shared experts",
                                                    "feed-forward"};
    const s2_net *const net = options->net;
    const char *before = " but for ";
    if (net->stored == S2_WEIGHTS_PUBLISHED) {
        if (net->method[0] != '\0')
            s2_buf_printf(buf, ", since %s as published has no price here", net->method);
        return;
    }
    for (int32_t part = 0; part < S2_PART_HEAD; part++) {
        const double kept = net->kept[part];
        const bool usual = net->stored == S2_WEIGHTS_MXFP4 && part <= S2_PART_MIXER && kept > 0.9995;
        if (kept < 0.0005 || usual)
            continue;
        s2_buf_printf(buf, "%s%s%s%s", before, kept < 0.9995 ? s2_decimal(100 * kept, 3).text : "",
                      kept < 0.9995 ? " % of " : "", parts[part]);
        before = ", ";
    }
}

void s2_report_weights(const s2_sim_options *options, s2_buf *buf)
{
    const s2_weights weights = s2_sim_weights(options);
    s2_buf_puts(buf,
                weights == S2_WEIGHTS_AS_DTYPE ? s2_dtype_word(options->dtype) : s2_weights_word(weights));
    if (weights != options->weights && weights != S2_WEIGHTS_AS_DTYPE) {
        for (int32_t type = 0; type < S2_N_WEIGHTS; type++)
            if ((options->net->stored_in >> type & 1U) != 0 && type != (int32_t)weights)
                s2_buf_printf(buf, " and %s", s2_weights_word((s2_weights)type));
        s2_buf_puts(buf, " as published");
    }
    if (options->net != NULL && options->weights == S2_WEIGHTS_PUBLISHED && options->phase != S2_TRAIN)
        report_kept(options, buf);
}

void s2_report_types(const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_puts(buf, s2_dtype_word(options->dtype));
    const bool untold = options->weights == S2_WEIGHTS_PUBLISHED && options->net != NULL &&
                        options->net->method[0] != '\0' && options->phase != S2_TRAIN;
    if (s2_sim_weights(options) != S2_WEIGHTS_AS_DTYPE || untold) {
        s2_buf_puts(buf, ", weights ");
        s2_report_weights(options, buf);
    }
    if (options->cache != S2_CACHE_AS_DTYPE && options->phase != S2_TRAIN) /* which keeps none */
        s2_buf_printf(buf, ", cache %s", s2_cache_type_word(options->cache));
}

void s2_report_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    const double rate = s2_report_largest_rate(options, largest, false),
                 dense = s2_report_largest_rate(options, largest, true);
    s2_buf_printf(buf, "%lld: %s tokens/s; dense ", (long long)largest->batch, s2_rate_text(rate).text);
    if (largest->batch_dense == 0)
        s2_buf_puts(buf, "does not fit with one sequence");
    else
        s2_buf_printf(buf, "%lld: %s, a ratio of %s", (long long)largest->batch_dense,
                      s2_rate_text(dense).text, s2_decimal(rate / dense, 3).text);
    if (options->net == NULL)
        s2_buf_puts(buf, "; of attention alone, beside no weights");
}

double s2_report_largest_rate(const s2_sim_options *options, const s2_largest *largest, bool dense)
{
    s2_sim_options own = *options;
    own.batch = dense ? largest->batch_dense : largest->batch;
    return s2_sim_tokens_per_s(&own, dense ? largest->dense_us : largest->us);
}

int32_t s2_report_replicas(const s2_sim_options *options)
{
    return options->phase == S2_TRAIN ? options->n_shards : options->n_expert_ranks;
}

double s2_report_rate(const s2_sim_options *options, const s2_sim *sim, bool dense)
{
    return s2_sim_runs(options, sim, dense)
               ? s2_sim_tokens_per_s(options, dense ? sim->end_to_end_dense_us : sim->end_to_end_us)
               : (double)NAN;
}

s2_worth s2_report_worth(const s2_report_subject *subject)
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

void s2_report_gpus(const s2_sim_options *options, s2_buf *buf)
{
    const int32_t each = s2_machine_gpus(options), replicas = s2_report_replicas(options);
    if (each * replicas > 1)
        s2_buf_printf(buf, ", %d GPUs", each * replicas);
    if (replicas > 1)
        s2_buf_printf(buf, ": %d replicas of %d, each with this batch", replicas, each);
    if (options->n_context > 1)
        s2_buf_printf(buf, ", contexts cut %s", s2_cut_word(options->cut));
}

bool s2_report_reads_host(const s2_sim_options *options, const s2_sim *sim, bool dense)
{
    return options->phase == S2_DECODE && (dense ? sim->host_dense_bytes : sim->host_bytes) > 0;
}

void s2_report_beyond(const s2_far *far, bool measured, s2_buf *buf)
{
    const char *const where = measured ? "" : " on another GPU";
    if (far->span.least < far->asked && far->asked < far->span.greatest)
        s2_buf_printf(buf, "interpolated in %s: %.0f, measured%s at %.0f and %.0f", s2_extent_words(far->in),
                      far->asked, where, far->span.least, far->span.greatest);
    else
        s2_buf_printf(buf, "extrapolated in %s: %.0f, measured%s from %.0f to %.0f", s2_extent_words(far->in),
                      far->asked, where, far->span.least, far->span.greatest);
}

double s2_report_part_us(const s2_sim *sim, const char *name)
{
    double us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (s2_part_is(&sim->parts[part], name))
            us += sim->parts[part].time_us;
    return us;
}

double s2_report_scan_us(const s2_sim *sim)
{
    return s2_report_part_us(sim, "states") + s2_report_part_us(sim, "scan");
}
