#include "sim/scores.h"

#include <math.h>
#include <string.h>

/*
 * Fitted to the rows of 32k of docs/results/h200-scores.jsonl, kernels of commit edb580f180f8, against the same launch
 * without: a cap to dense attention at head dim 128, sinks to a window of 128 tokens at 64. The rows of 8k judge them
 * (tests/test_machines.c). So does a cap at head dim 256, but not alone: of three ways to add up what products and
 * a cap take it chose one.
 *
 *   cap    a step takes the third power of what it took before and of these cycles a score, added up. Three results
 *          of the special-function unit, 16 a cycle, are 0.19 of them; the rest of a tanh comes on top
 *   sink   joins a row when the row is stored
 *   after  gradients: one more small kernel, in which a block of threads goes through the rows of a head
 */
#define CAP_CYCLES     0.264 /* a score */
#define SINK_CYCLES    208.0 /* an item of 128 rows */
#define SINK_KERNEL_US 2.4   /* a third of what the three kernels of a backward pass take to launch */
#define SINK_ROW_NS    0.47
#define BLOCKS_AN_SM   2.0

/* The same of short windows, from the pairs with and without of docs/results/h200-short-designed.jsonl. */
#define SHORT_SINK_KERNEL_US 2.0
#define SHORT_SINK_ROW_NS    0.3

/* The largest error on the rows that judge them, and the GPU that took them. */
#define CAP_PCT      2.8
#define SINK_PCT     1.3
#define MEASURED_GPU "h200"

const char *s2_scored_word(s2_scored scored)
{
    static const char *const words[S2_N_SCORED] = {[S2_SCORED_MEASURED] = "measured",
                                                   [S2_SCORED_ASSUMED] = "assumed",
                                                   [S2_SCORED_NOT] = "left out",
                                                   [S2_SCORED_BOUND] = "bound"};
    return words[scored];
}

s2_model_scores s2_scores_of(const s2_sim_options *options, const s2_pattern *pattern)
{
    const s2_net *const net = options->net;
    return net != NULL               ? (s2_model_scores){net->cap, net->sinks}
           : options->scores != NULL ? *options->scores
                                     : s2_model_scores_of(pattern->model);
}

double s2_scores_error_pct(s2_model_scores scores)
{
    return fmax(scores.cap > 0 ? CAP_PCT : 0, scores.sinks ? SINK_PCT : 0);
}

bool s2_scores_known(s2_model_scores scores, const s2_kernel_model *kernel)
{
    return scores.cap == 0 || kernel->pass != S2_PASS_BACKWARD;
}

/* On one GPU, with caps at 128 and 256 and sinks at 64, none with both, in 16 bits, and in plans made beforehand. */
static bool was_measured(const s2_launch *launch, const s2_kernel_load *load)
{
    const s2_model_scores scores = launch->scores;
    return launch->gpu != NULL && strcmp(launch->gpu, MEASURED_GPU) == 0 && launch->dtype != S2_F8 &&
           !launch->listed &&
           (scores.cap == 0 || (!scores.sinks && (load->head_dim == 128 || load->head_dim == 256))) &&
           (!scores.sinks || load->head_dim == 64);
}

static void widen(s2_error *error, double pct, bool measured)
{
    error->pct = fmax(error->pct, measured ? pct : S2_GUESS_PCT);
    error->allowed |= !measured;
    error->causes |= measured ? 0 : S2_CAUSE_SCORES;
}

/* A block of threads of the small kernel for each head. */
static double after_us(bool short_windows, int32_t n_heads, double rows, double n_sms)
{
    const double kernel_us = short_windows ? SHORT_SINK_KERNEL_US : SINK_KERNEL_US,
                 row_ns = short_windows ? SHORT_SINK_ROW_NS : SINK_ROW_NS;
    return kernel_us + ceil(n_heads / (BLOCKS_AN_SM * n_sms)) * rows * row_ns * 1e-3;
}

void s2_scores_add_sinks(const s2_kernel_traits *traits, int32_t n_heads, double rows, double n_sms,
                         s2_kernel_load *load)
{
    const bool always =
        traits != NULL && traits->short_windows; /* a sink of minus infinity where there is none */
    if (load->pass == S2_PASS_FORWARD && !always)
        load->sink_cycles = SINK_CYCLES * load->rows / 128;
    if (load->pass == S2_PASS_BACKWARD)
        load->after_us = after_us(always, n_heads, rows, n_sms);
}

static void add_cost(const s2_launch *launch, const s2_kernel_model *kernel, const s2_time_model *model,
                     s2_kernel_load *load)
{
    const s2_model_scores scores = launch->scores;
    if (scores.cap > 0)
        load->cap_cycles = CAP_CYCLES * load->rows * load->key_tok;
    if (scores.sinks)
        s2_scores_add_sinks(kernel->traits, launch->pattern->n_heads, (double)launch->batch * launch->q_tok,
                            model->n_sms, load);
}

void s2_scores_add(const s2_launch *launch, const s2_kernel_model *kernel, const s2_time_model *model,
                   s2_kernel_load *load, s2_launch_price *out)
{
    const s2_model_scores scores = launch->scores;
    if (scores.cap == 0 && !scores.sinks)
        return;
    const bool decode = kernel->pass == S2_PASS_DECODE, measured = !decode && was_measured(launch, load);
    if (!decode)
        add_cost(launch, kernel, model, load);
    out->capped = load->cap_cycles > 0;
    out->scored = decode ? S2_SCORED_NOT : measured ? S2_SCORED_MEASURED : S2_SCORED_ASSUMED;
    widen(&out->error, s2_scores_error_pct(scores), measured);
}
