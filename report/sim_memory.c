/* The memory that a price asks for, as lines of its page: the cache and its layouts, what fits, what a stack frees. */
#include "report/common.h"

#include <stdio.h>

#include "report/machine.h"
#include "sim/activations.h"
#include "sim/links.h"
#include "sim/units.h"

static void layout(const char *label, double bytes, double dense, const char *note, s2_buf *buf)
{
    s2_report_line(label, buf);
    s2_buf_printf(buf, "%s  %.4f of dense%s\n", s2_bytes_text(bytes).text, bytes / dense, note);
}

/* What one GPU must have room for: the layouts above and their peak are for all GPUs together. */
static void text_each_gpu(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    if (s2_machine_gpus(options) == 1)
        return;
    s2_report_line(" each GPU", buf);
    s2_buf_printf(buf, "%s of %spages at most, dense %s; the above is all %d together\n",
                  s2_bytes_text((double)sim->kv_fullest).text, options->keeps_all ? "" : "head ",
                  s2_bytes_text((double)sim->kv_dense_each).text, s2_machine_gpus(options));
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
    s2_report_line(label, buf);
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
        s2_report_line("", buf);
    }
    if (subject->options->peer != NULL)
        s2_buf_printf(buf, "the times above are those of %s\n", subject->options->peer->name);
    else
        s2_buf_printf(buf, "the times above are of the kernels of s2, not of those of %s\n", format->stack);
}

/* Nothing is dropped, whatever the layout. */
static void text_kept(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    s2_report_line("kv cache", buf);
    s2_buf_printf(buf, "%s dense, and all of it is kept\n", s2_bytes_text((double)sim->kv.dense).text);
    text_each_gpu(subject->options, sim, buf);
    s2_report_line("", buf);
    s2_buf_printf(buf, "a cache that drops what no head will read again would keep %s, %.4f of dense\n",
                  s2_bytes_text((double)sim->kv.head_pages).text,
                  (double)sim->kv.head_pages / (double)sim->kv.dense);
}

static void text_layouts(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const double dense = (double)sim->kv.dense;
    char note[80];
    s2_report_line("kv cache", buf);
    s2_buf_printf(buf, "%s dense\n", s2_bytes_text(dense).text);
    layout(" shared pages", (double)sim->kv.shared_pages, dense,
           sim->kv.shared_pages == sim->kv.dense
               ? "; frees nothing: each page has keys that some head still needs"
               : "",
           buf);
    snprintf(note, sizeof note, "; pages of %d", subject->options->page_tok);
    layout(" head pages", (double)sim->kv.head_pages, dense, note, buf);
    layout(" ring+stripes", (double)sim->kv.ring_stripes, dense, "", buf);
    text_each_gpu(subject->options, sim, buf);
    s2_report_line("", buf);
    s2_buf_printf(buf, "peak%s %s%s at %s; unused in pages of 16: %s, of 64: %s",
                  sim->kv_peak_exact ? "" : " of at most", s2_bytes_text((double)sim->kv_peak).text,
                  s2_machine_gpus(subject->options) > 1 ? " on a GPU" : "",
                  s2_count_text(sim->kv_peak_tok, "token").text,
                  s2_bytes_text((double)sim->kv_wasted[0]).text,
                  s2_bytes_text((double)sim->kv_wasted[1]).text);
    if (subject->options->page_tok != 16 && subject->options->page_tok != 64)
        s2_buf_printf(buf, ", of %d: %s", subject->options->page_tok,
                      s2_bytes_text((double)(sim->kv.head_pages - sim->kv.used)).text);
    s2_buf_puts(buf, "\n");
    s2_report_line("", buf);
    s2_buf_puts(buf, "on the way:");
    for (int32_t point = sim->n_kv_points > 5 ? sim->n_kv_points - 5 : 0; point < sim->n_kv_points; point++)
        s2_buf_printf(buf, "%s %lld: %s", point + 5 > sim->n_kv_points && point > 0 ? "," : "",
                      (long long)sim->kv_points[point].len_tok,
                      s2_bytes_text((double)sim->kv_points[point].bytes.head_pages).text);
    s2_buf_puts(buf, "\n");
}

/* What a pass holds is counted beside cache and weights. */
static void put_activations(const s2_sim_options *options, s2_buf *buf)
{
    const double bytes = s2_sim_activation_bytes(options);
    if (bytes > 0)
        s2_buf_printf(buf, "; a %s of this batch holds %s of activations%s",
                      options->phase == S2_DECODE ? "step" : "pass", s2_bytes_text(bytes).text,
                      options->new_tok > 0 || options->phase == S2_DECODE ? ""
                                                                          : " (--new N: in chunks of N)");
    else
        s2_buf_puts(buf, "; activations are not counted");
}

/* Where the peak is only a bound, so is what fits below it. */
static void put_fit(const s2_sim *sim, int64_t n, int64_t most, s2_buf *buf)
{
    if (!sim->kv_peak_exact && n < most)
        s2_buf_puts(buf, "at least ");
    put_limited(n, most, buf);
}

/* What a cache that fits leaves room for. */
static void put_beside(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    const char *const each = s2_links_gpus(options) > 1 ? " on each GPU" : "";
    if (options->net == NULL)
        s2_buf_puts(buf, ", weights not counted (--model)");
    else
        s2_buf_printf(buf, ", beside %s of weights%s", s2_bytes_text((double)sim->weight_bytes).text, each);
    s2_buf_puts(buf, "\n");
    s2_report_line("", buf);
    s2_buf_printf(buf, "of the %s of a GPU%s", s2_bytes_text(s2_sim_memory_bytes(options)).text,
                  options->reserved_permille > 0 ? " that may be used" : "");
    put_activations(options, buf);
    s2_buf_puts(buf, options->reserved_permille > 0 ? "\n" : " (--gpu-memory-utilization 0.9: as vLLM)\n");
}

static void text_kv(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    if (subject->options->keeps_all)
        text_kept(subject, sim, buf);
    else
        text_layouts(subject, sim, buf);
    s2_report_line("fits", buf);
    if (sim->fit_batch == 0 && sim->fit_len_tok == 0) {
        s2_buf_printf(buf, "nothing: %s of weights, and what one token takes, exceed %s\n",
                      s2_bytes_text((double)sim->weight_bytes).text,
                      s2_bytes_text(s2_sim_memory_bytes(subject->options)).text);
        return;
    }
    s2_buf_puts(buf, "batch ");
    put_fit(sim, sim->fit_batch, S2_LIMIT_BATCH, buf);
    s2_buf_puts(buf, " (dense ");
    put_limited(sim->fit_batch_dense, S2_LIMIT_BATCH, buf);
    s2_buf_puts(buf, ") of this length, or ");
    put_fit(sim, sim->fit_len_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, " tokens (dense ");
    put_limited(sim->fit_len_dense_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, ") at this batch");
    put_beside(subject, sim, buf);
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

/* Options with which a step that does not fit would fit; each was computed. */
static void report_room(const s2_report_subject *subject, bool at_least, const char *before, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    s2_buf_puts(buf, before);
    const char *const with = at_least ? "it may fit with" : "it fits with";
    const bool plain = !options->recompute && put_room(subject, false, with, buf);
    if (!put_room(subject, true, plain ? ", or with" : with, buf) && !plain)
        s2_buf_printf(buf,
                      "up to 4096 GPUs (--tp, --dp, --pp, --cp) make no room, not even with --recompute; "
                      "fewer tokens %sdo",
                      options->batch > 1 ? "or a smaller batch " : "");
}

static void put_peak(const s2_training *training, s2_buf *buf)
{
    static const char *const texts[S2_N_PEAKS] = {
        [S2_PEAK_LOSS] = "at the loss",
        [S2_PEAK_LAST_LAYER] = "when the last layer goes back",
        [S2_PEAK_FIRST_LAYER] = "when the first layer goes back",
        [S2_PEAK_UPDATE] = "when all gradients are there",
        [S2_PEAK_LAYER] = "when layer ",
    };
    s2_buf_puts(buf, texts[training->peak]);
    if (training->peak == S2_PEAK_LAYER)
        s2_buf_printf(buf, "%d goes back", (int)training->layer);
}

static void text_training_peak(const s2_sim_options *options, const s2_training *training, s2_buf *buf)
{
    s2_report_line("memory", buf);
    s2_buf_printf(buf, "%s%s on a GPU%s, ", training->at_least ? "at least " : "",
                  s2_bytes_text(training->bytes).text, training->at_least ? "" : " at most");
    put_peak(training, buf);
    s2_buf_printf(buf, ": %s of weights and optimizer",
                  s2_bytes_text(training->state_bytes - training->gradient_bytes).text);
    if (options->n_shards > 1)
        s2_buf_printf(buf, " over %d GPUs (%s gathered for the layer that runs)", options->n_shards,
                      s2_bytes_text(training->gathered_bytes).text);
    s2_buf_printf(buf, ", %s of gradients, %s of activations%s", s2_bytes_text(training->gradient_bytes).text,
                  s2_bytes_text(training->activation_bytes).text, options->recompute ? ", recomputed" : "");
    if (training->n_in_flight > 1)
        s2_buf_printf(buf, ", of %d microbatches", training->n_in_flight);
    s2_buf_printf(buf, "; the loss takes %d tokens at a time\n", S2_LOSS_TOK);
    if (!training->at_least)
        return;
    s2_report_line("", buf);
    s2_buf_printf(
        buf,
        "not known, and not counted: what the scan of a mixer keeps for its backward pass beside what "
        "its products make%s\n",
        options->recompute ? ", of the layer that goes back" : ", in each layer that has one");
}

static void text_training(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    const s2_sim_options *const options = subject->options;
    text_training_peak(options, &sim->training, buf);
    s2_report_line("fits", buf);
    if (sim->fit_len_tok == 0) {
        s2_buf_puts(buf, "nothing");
        report_room(subject, sim->training.at_least, ": ", buf);
        s2_buf_puts(buf, "\n");
        return;
    }
    const bool fits = sim->fit_batch >= options->batch;
    s2_buf_puts(buf, fits ? "" : "not this: ");
    s2_buf_puts(buf, sim->training.at_least ? "at most " : "");
    if (sim->fit_batch > 0) {
        s2_buf_puts(buf, "batch ");
        put_limited(sim->fit_batch, S2_LIMIT_BATCH, buf);
        s2_buf_puts(buf, " of this length, or ");
    }
    put_limited(sim->fit_len_tok, S2_LIMIT_CONTEXT_TOK, buf);
    s2_buf_puts(buf, " tokens at this batch");
    if (!fits)
        report_room(subject, sim->training.at_least, "; ", buf);
    s2_buf_puts(buf, "\n");
}

static void text_tiers(const s2_sim *sim, s2_buf *buf)
{
    if (sim->host_bytes == 0)
        return;
    s2_report_line("host memory", buf);
    s2_buf_printf(buf, "%s of the cache do not fit on the GPU", s2_bytes_text((double)sim->host_bytes).text);
    if (sim->host_read_bytes > 0)
        s2_buf_printf(buf, "; %s cross the link in each step, %s at its peak, %s",
                      s2_bytes_text((double)sim->host_read_bytes).text, s2_time_text(sim->link_us).text,
                      sim->bound_by == S2_LINK ? "longer than attention takes"
                                               : "beside attention, which takes longer");
    s2_buf_puts(buf, "\n");
}

void s2_report_memory(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    if (subject->options->phase == S2_TRAIN) {
        if (sim->training.bytes > 0)
            text_training(subject, sim, buf);
        return;
    }
    text_kv(subject, sim, buf);
    text_tiers(sim, buf);
    text_stack_host(subject, sim, buf);
    s2_report_stack_text(subject, sim->kv.head_pages < sim->kv.dense, buf);
}
