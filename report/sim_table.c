/* Prices side by side: a row for each pattern, or for each phase. */
#include "report/common.h"

#include <stdio.h>

#include "report/machine.h"
#include "sim/units.h"
#include "words/error.h"

/* What all rows of a table were priced for. */
static void put_setup(const s2_sim_options *options, s2_buf *buf)
{
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s", options->gpu.title);
    if (options->net != NULL)
        s2_buf_printf(buf, ", model %s", options->net->name);
    if (options->recompute)
        s2_buf_puts(buf, ", recomputed");
    s2_report_gpus(options, buf);
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
        s2_buf_puts(
            buf,
            "times are guessed: no such machine was measured; those with >= have attention at its bound");
    else
        s2_buf_puts(buf,
                    !s2_calibration_is_measured(options->calibration)
                        ? "times are guessed from the data sheet; those with >= have attention at its bound"
                        : "times are predicted for the calibrated kernels; those with >= have attention at "
                          "its bound");
}

/* Another kernel's time is known only as well as its rows were predicted. width: of the columns `end to end`. */
static void put_peer_error(const s2_sim_options *options, const s2_sim *sim, int width, s2_buf *buf)
{
    if (options->peer == NULL || sim->time_us <= sim->bound_us) /* a bound is no prediction */
        return;
    s2_buf_printf(buf, "%*s%s", 2 + (sim->end_to_end_us > 0 ? 0 : width), "",
                  sim->far.beyond > 0 ? "extrapolated; " : "");
    s2_error_print(&sim->error, false, buf);
}

static void put_batch(const s2_sim_options *options, s2_buf *buf)
{
    if (options->batch == 0)
        s2_buf_puts(buf, "each at the largest batch that fits, ");
    else
        s2_buf_printf(buf, "batch %lld, ", (long long)options->batch);
}

/* A row with its own batch, compared with dense attention at the batch that dense has. */
static void put_largest(const s2_sim_options *options, const s2_largest *largest, s2_buf *buf)
{
    if (largest->batch == 0)
        return;
    s2_buf_puts(buf, "  batch ");
    s2_report_largest(options, largest, buf);
}

void s2_sim_report_table_head(const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_printf(buf, "%s of %s, ", s2_phase_word(options->phase),
                  s2_count_text(options->len_tok, "token").text);
    put_batch(options, buf);
    put_setup(options, buf);
    put_kind_of_times(options, buf);
    s2_buf_puts(buf, "; density is of the layers that are not dense\n");
    s2_buf_printf(buf, "%-24s %9s %9s %11s %8s %7s %11s %7s %11s\n", "pattern", "density", "pairs", "time",
                  "speed-up", "by", "kv", "of it", "end to end");
}

/* A time in a table whose head says that times are predicted; ">=" marks one that is not. */
static void time_cell(const s2_sim_options *options, bool predicted, double us, s2_buf *buf)
{
    const char *const bound = options->calibration != NULL && !predicted ? ">= " : "";
    char text[56];
    snprintf(text, sizeof text, "%s%s", bound, s2_time_text(us).text);
    s2_buf_printf(buf, " %11s", text);
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

/* Says what "no room" means. */
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
    s2_buf_printf(buf, " %11s %7.4f", s2_bytes_text((double)sim->kv_kept).text,
                  (double)sim->kv_kept / (double)sim->kv.dense);
}

void s2_sim_report_table_row(const s2_report_subject *subject, const s2_sim *sim, s2_buf *buf)
{
    enum { NAME_COLS = 24 };
    int32_t taken;
    const int n_bytes = (int)s2_text_fit(subject->name, NAME_COLS, &taken);
    s2_buf_printf(buf, "%.*s%*s %9.5f %9.5f", n_bytes, subject->name, (int)(NAME_COLS - taken), "",
                  sim->density, sim->token_density);
    time_cell(subject->options, sim->predicted, sim->time_us, buf);
    ratio_cell(subject->options, sim, sim->time_us, sim->dense_time_us, 8, buf);
    s2_buf_printf(buf, " %7s", s2_resource_word(sim->bound_by));
    cache_cells(subject->options, sim, buf);
    if (sim->end_to_end_us > 0)
        time_cell(subject->options, sim->predicted, sim->end_to_end_us, buf);
    put_no_room(subject->options, sim, buf);
    put_largest(subject->options, &sim->largest, buf);
    put_peer_error(subject->options, sim, 12, buf);
    if (subject->options->keeps_all && sim->kv.head_pages < sim->kv.dense)
        s2_buf_printf(buf, "  kv: %s frees none",
                      subject->format != NULL ? subject->format->stack : "the stack");
    const s2_worth worth = s2_report_worth(subject);
    if (worth.not_judged == NULL)
        s2_buf_printf(buf, "  recall %.2f, loss %.3f", worth.recall, worth.loss);
    s2_buf_puts(buf, "\n");
}

void s2_sim_report_phase_head(const char *name, const s2_sim_options *options, s2_buf *buf)
{
    s2_buf_printf(buf, "%s, %s, ", name, s2_count_text(options->len_tok, "token").text);
    put_batch(options, buf);
    put_setup(options, buf);
    put_kind_of_times(options, buf);
    s2_buf_puts(buf, "\n");
    s2_buf_printf(buf, "%-8s %11s %11s %9s %11s %11s %9s\n", "phase", "attention", "dense", "speed-up",
                  "end to end", "dense", "speed-up");
}

static void put_pair(const s2_sim_options *options, const s2_sim *sim, double us, double dense_us,
                     s2_buf *buf)
{
    time_cell(options, sim->predicted, us, buf);
    time_cell(options, sim->predicted && !s2_report_reads_host(options, sim, true), dense_us, buf);
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
    put_largest(options, &sim->largest, buf);
    put_peer_error(subject->options, sim, 34, buf);
    s2_buf_puts(buf, "\n");
}
