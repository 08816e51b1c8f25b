/* What the first design of a search takes in a phase: against what, bound by what, and how far off it may be. */
#include "report/found_words.h"

#include <math.h>

#include "report/report.h"
#include "sim/links.h"
#include "sim/units.h"
#include "words/error.h"

static const char *resource_words(s2_resource resource)
{
    static const char *const words[S2_N_RESOURCES] = {
        [S2_MMA] = "the matrix units", [S2_EXP] = "the exponential units", [S2_HBM] = "memory bandwidth",
        [S2_L2] = "the L2 cache",      [S2_LINK] = "the link to the host", [S2_LAUNCH] = "kernel launches",
        [S2_LATENCY] = "latency"};
    return words[resource];
}

static void put_ratio(double times, s2_buf *buf)
{
    if (times >= 1.005)
        s2_buf_printf(buf, "%s times faster than", s2_decimal(times, 3).text);
    else if (times > 0.995)
        s2_buf_puts(buf, "as fast as");
    else
        s2_buf_printf(buf, "%s times slower than", s2_decimal(1 / times, 3).text);
}

/* How far off the time may be, in the words of s2 sim. */
static void put_error(const s2_sim *sim, s2_buf *buf)
{
    s2_buf_puts(buf, " (");
    if (sim->far.beyond > 0) {
        s2_report_beyond(&sim->far, sim->measured, buf);
        s2_buf_puts(buf, "; ");
    } else if (!sim->measured) {
        s2_buf_puts(buf, sim->machine.n_micro > 0 ? "no such machine was measured; "
                                                  : "nothing was measured on this GPU; ");
    }
    s2_error_print(&sim->error, true, buf);
    s2_buf_puts(buf, ")");
}

/*
 * One time against another, which is printed beside the ratio; a ratio of bounds is not a speed. A difference
 * within the error of the times is called that.
 */
static void put_against_time(double us, double rival_us, const s2_sim *sim, const char *who, s2_buf *buf)
{
    if (!sim->predicted)
        s2_buf_printf(buf, "%s of the bound of", s2_decimal(us / rival_us, 3).text);
    else
        put_ratio(rival_us / us, buf);
    s2_buf_printf(buf, " %s (%s)", who, s2_time_text(rival_us).text);
    const double apart_pct = 100 * fabs(rival_us / us - 1);
    if (sim->predicted && apart_pct >= 0.5 && apart_pct <= sim->error.pct)
        s2_buf_puts(buf, ", which is within that error");
}

/* The times that a time may be divided by, each 0 if it may not. */
typedef struct rival_times {
    double own_us;
    double dense_us;
} rival_times;

static bool own_runs(const s2_found *found, int32_t p)
{
    return found->own != NULL && s2_found_runs(found, &found->own->design, p);
}

/* Times are divided only where the GPU runs both sides. */
static rival_times comparable(const s2_found *found, int32_t p, const s2_sim *sim, double own_us,
                              double dense_us)
{
    const s2_sim_options options = s2_found_options(found, found->phases[p]);
    const bool runs = s2_sim_runs(&options, sim, false);
    return (rival_times){.own_us = runs && own_runs(found, p) ? own_us : 0,
                         .dense_us = s2_sim_no_ratio(&options, sim) == S2_RATIO_HOLDS ? dense_us : 0};
}

/* A time against the model's own layers first, where they are not dense, and against dense attention. */
static void put_against_rivals(double us, rival_times rivals, const s2_sim *sim, s2_buf *buf)
{
    if (rivals.own_us > 0)
        put_against_time(us, rivals.own_us, sim, S2_OWN_WORDS, buf);
    if (rivals.own_us > 0 && rivals.dense_us > 0)
        s2_buf_puts(buf, " and ");
    if (rivals.dense_us > 0)
        put_against_time(us, rivals.dense_us, sim, S2_DENSE_WORDS, buf);
}

/* "dense attention takes at least 56.9 ms and does not fit either": a side that has no ratio. */
static void put_side(bool is_own, const s2_sim *sim, bool runs, s2_buf *buf)
{
    const bool bound = !sim->predicted || (!is_own && sim->link_dense_us > 0);
    s2_buf_printf(buf, "%s %s%s", is_own ? "the model's own layers take" : "dense attention takes",
                  bound ? "at least " : "", s2_time_text(is_own ? sim->time_us : sim->dense_time_us).text);
    if (runs)
        s2_buf_puts(buf, is_own ? " and fit" : " and fits");
    else
        s2_buf_puts(buf, is_own ? " and do not fit either" : " and does not fit either");
}

/* Says why a time on the page has fewer ratios than usual, and whether each side fits. */
static void put_no_ratio(const s2_found *found, int32_t p, const s2_sim *sim, s2_buf *buf)
{
    static const char *const said[S2_N_NO_RATIOS] = {
        [S2_SPILLS] = ", no ratio, since its cache does not fit the GPU",
        [S2_NO_ROOM] = ", no ratio, since the step is more than the memory",
        [S2_NO_WEIGHTS] = ", no ratio, since the weights do not fit the GPU",
    };
    const s2_sim_options options = s2_found_options(found, found->phases[p]);
    const s2_no_ratio why = s2_sim_no_ratio(&options, sim);
    const s2_sim *const own = found->own != NULL ? &found->own->design.sims[p] : NULL;
    if (said[why] != NULL)
        s2_buf_puts(buf, said[why]);
    if (why == S2_SPILLS) { /* for any other reason no pattern fits */
        s2_buf_puts(buf, ": ");
        if (own != NULL)
            put_side(true, own, own_runs(found, p), buf);
        s2_buf_puts(buf, own != NULL ? ", " : "");
        put_side(false, sim, s2_sim_runs(&options, sim, true), buf);
    }
    if (why == S2_DENSE_SPILLS)
        s2_buf_printf(buf, ", no ratio to %s, whose cache does not fit the GPU", S2_DENSE_WORDS);
    if (own != NULL && !own_runs(found, p) && s2_sim_runs(&options, sim, false))
        s2_buf_printf(buf, ", no ratio to %s, whose cache does not fit the GPU", S2_OWN_WORDS);
}

/* runs: whether the GPU can run it; only then does its time give a rate. */
static void put_whole(const s2_sim_options *options, double us, bool runs, s2_buf *buf)
{
    s2_buf_puts(buf, s2_time_text(us).text);
    if (runs)
        s2_buf_printf(buf, ", %s tokens/s%s", s2_rate_text(s2_sim_tokens_per_s(options, us)).text,
                      options->phase == S2_TRAIN && options->n_shards > 1 ? " a replica" : "");
}

static void put_with(const s2_sim_options *options, double us, double rival_us, const char *who, s2_buf *buf)
{
    s2_buf_printf(buf, ";\n    with %s ", who);
    put_whole(options, rival_us, true, buf);
    s2_buf_puts(buf, ": it is ");
    put_ratio(rival_us / us, buf);
    s2_buf_puts(buf, " that");
}

/* The time that a person waits, of which attention is only a part. */
static void put_end_to_end(const s2_found *found, const s2_sim_options *options, const s2_sim *sim, int32_t p,
                           double own_us, s2_buf *buf)
{
    const bool runs = s2_sim_runs(options, sim, false);
    s2_buf_printf(buf, ";\n    %s%s ",
                  options->phase == S2_TRAIN ? "the whole step takes" : "with the layers around it",
                  sim->predicted ? "" : ", attention at its bound,");
    put_whole(options, sim->end_to_end_us, runs, buf);
    if (!runs)
        s2_buf_puts(buf, ", which gives no rate since it does not fit");
    const rival_times rivals = comparable(found, p, sim, own_us, sim->end_to_end_dense_us);
    if (rivals.own_us > 0)
        put_with(options, sim->end_to_end_us, rivals.own_us, S2_OWN_WORDS, buf);
    if (rivals.dense_us > 0)
        put_with(options, sim->end_to_end_us, rivals.dense_us, S2_DENSE_WORDS, buf);
}

static s2_status put_prediction(const s2_found *found, const s2_found_design *design, int32_t p, s2_buf *buf)
{
    const s2_phase phase = found->phases[p];
    const s2_sim_options options = s2_found_options(found, phase);
    s2_sim sim, own = {0};
    S2_TRY(s2_found_predict(found, design, phase, &sim));
    if (sim.kernel[0] == '\0') /* none takes it */
        return S2_OK;
    if (!sim.predicted && sim.end_to_end_us > 0)
        put_end_to_end(found, &options, &sim, p, 0, buf);
    if (!sim.predicted)
        return S2_OK;
    if (found->own != NULL)
        S2_TRY(s2_found_predict(found, &found->own->design, phase, &own));
    s2_buf_printf(buf, ";\n    the kernels here are %s to take %s", sim.measured ? "predicted" : "guessed",
                  s2_time_text(sim.time_us).text);
    put_error(&sim, buf);
    const rival_times rivals = comparable(found, p, &sim, own.predicted ? own.time_us : 0, sim.dense_time_us);
    if (rivals.own_us > 0 || rivals.dense_us > 0)
        s2_buf_puts(buf, ", ");
    put_against_rivals(sim.time_us, rivals, &sim, buf);
    if (sim.end_to_end_us > 0)
        put_end_to_end(found, &options, &sim, p, own.end_to_end_us, buf);
    return S2_OK;
}

/* One way to make a step fit: the least number of GPUs, doubled each time, with which it does. */
typedef struct remedy {
    bool tp;
    bool dp;
    bool recompute;
} remedy;

/* Sets *options to the step that fits; false: none does. */
static bool makes_fit(const remedy *one, const s2_found *found, s2_sim_options *options)
{
    enum { MOST = 64 };
    const int32_t n_kv_heads = found->net.n_kv_heads; /* more GPUs would copy them */
    const s2_sim_options *const asked = &found->search.options;
    options->recompute = one->recompute || asked->recompute;
    for (int32_t n = one->tp || one->dp ? 2 : 1; n <= MOST; n *= 2) {
        options->n_ranks = one->tp ? asked->n_ranks * n : asked->n_ranks;
        options->n_shards = one->dp ? asked->n_shards * n : asked->n_shards;
        if (one->tp && n_kv_heads % options->n_ranks != 0)
            return false;
        if (s2_sim_training_fits(options))
            return true;
        if (!one->tp && !one->dp)
            return false;
    }
    return false;
}

/* " (2 GPUs, 394 ms a step)": what the design itself takes under a remedy. */
static s2_status put_remedied(const s2_found *found, const s2_found_design *design,
                              const s2_sim_options *remedied, s2_buf *buf)
{
    const int64_t n_gpus = s2_links_gpus(remedied);
    s2_sim_options options = *remedied;
    s2_sim sim;
    options.calibration = &found->calibration;
    S2_TRY(s2_price(found->arena, &design->pattern, &options, S2_PRICE_WHOLE, &sim, NULL));
    s2_buf_puts(buf, " (");
    if (n_gpus > 1)
        s2_buf_printf(buf, "%lld GPUs, ", (long long)n_gpus);
    s2_buf_printf(buf, "%s%s a step)", sim.predicted ? "" : ">= ", s2_time_text(sim.end_to_end_us).text);
    return S2_OK;
}

/* Only what was computed to fit is worth saying; what needs no more than another remedy comes first. */
static s2_status put_remedies(const s2_found *found, const s2_found_design *design,
                              const s2_sim_options *options, bool at_least, s2_buf *buf)
{
    static const remedy tried[] = {{.recompute = true},
                                   {.tp = true},
                                   {.dp = true},
                                   {.tp = true, .recompute = true},
                                   {.dp = true, .recompute = true}};
    int32_t n_said = 0;
    for (size_t n = 0; n < sizeof tried / sizeof tried[0]; n++) {
        s2_sim_options own = *options;
        const bool again = tried[n].recompute && found->search.options.recompute;
        if (again || (n_said > 0 && tried[n].recompute) || !makes_fit(&tried[n], found, &own))
            continue;
        s2_buf_puts(buf, n_said++ > 0 ? ", or with" : at_least ? "; it may fit with" : "; it fits with");
        if (tried[n].tp)
            s2_buf_printf(buf, " --tp %d", (int)own.n_ranks);
        if (tried[n].dp)
            s2_buf_printf(buf, " --dp %d", (int)own.n_shards);
        if (tried[n].recompute && !found->search.options.recompute)
            s2_buf_puts(buf, " --recompute");
        S2_TRY(put_remedied(found, design, &own, buf));
    }
    if (n_said > 0)
        s2_buf_puts(buf,
                    ";\n    these are steps of this design; a search with those options tells which one is "
                    "best there");
    else
        s2_buf_printf(buf,
                      "; no --tp or --dp makes it fit%s: pipelines (--pp) and\n    shared contexts (--cp) "
                      "divide the activations too",
                      found->search.options.recompute ? "" : ", not even with --recompute");
    return S2_OK;
}

/* Goes before any time of a training step, because a step that does not fit has no time. */
static s2_status put_training(const s2_found *found, const s2_found_design *design,
                              const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const s2_training *const training = &sim->training;
    if (training->bytes <= 0) {
        s2_buf_puts(buf, "  train is priced as attention alone; --model prices the whole step, and says "
                         "whether it fits\n");
        return S2_OK;
    }
    const bool fits = sim->fit_batch >= options->batch;
    s2_buf_printf(
        buf,
        "  the training step %s the GPU: %s%s of %s, with %s of weights, gradients and optimizer and %s "
        "of activations,\n    the same for every pattern",
        !fits                ? "does not fit"
        : training->at_least ? "may fit"
                             : "fits",
        training->at_least ? "at least " : "", s2_bytes_text(training->bytes).text,
        s2_bytes_text(s2_sim_memory_bytes(options)).text, s2_bytes_text(training->state_bytes).text,
        s2_bytes_text(training->activation_bytes).text);
    if (training->at_least)
        s2_buf_puts(buf, ", beside what the scans of mixers keep, which is not known");
    if (!fits && sim->fit_batch > 0)
        s2_buf_printf(buf, "; a batch of %lld fits", (long long)sim->fit_batch);
    if (!fits && sim->fit_len_tok > 0)
        s2_buf_printf(buf, "; at this batch %s fit", s2_count_text(sim->fit_len_tok, "token").text);
    if (!fits) {
        S2_TRY(put_remedies(found, design, options, training->at_least, buf));
        s2_buf_puts(buf, ",\n    and the times below are of a step that this GPU cannot run as it is");
    }
    s2_buf_puts(buf, "\n");
    return S2_OK;
}

s2_status s2_found_put_phase(const s2_found *found, const s2_found_design *best, int32_t p, s2_buf *buf)
{
    const s2_phase phase = found->phases[p];
    const s2_sim *const sim = &best->sims[p];
    const s2_sim_options options = s2_found_options(found, phase);
    if (phase == S2_TRAIN)
        S2_TRY(put_training(found, best, &options, sim, buf));
    const bool host = phase == S2_DECODE && sim->host_bytes > 0;
    s2_buf_printf(buf, "  %s %s %s", phase == S2_TRAIN ? "its attention" : s2_phase_word(phase),
                  !sim->predicted ? "takes at least"
                  : sim->measured ? "is predicted to take"
                                  : "is guessed to take",
                  s2_time_text(sim->time_us).text);
    if (sim->predicted)
        put_error(sim, buf);
    const rival_times rivals = comparable(
        found, p, sim, found->own != NULL ? found->own->design.sims[p].time_us : 0, sim->dense_time_us);
    if (host)
        s2_buf_puts(buf, sim->bound_by == S2_LINK ? ", to read from host memory at the link's peak"
                                                  : ", were all of its cache on the GPU");
    else if (!sim->predicted)
        s2_buf_puts(buf, ", by peak rates and not by any kernel");
    if (rivals.own_us > 0 || rivals.dense_us > 0)
        s2_buf_puts(buf, ", ");
    put_against_rivals(sim->time_us, rivals, sim, buf);
    put_no_ratio(found, p, sim, buf);
    s2_buf_printf(buf, ", bound by %s", resource_words(sim->bound_by));
    if (!sim->predicted)
        return put_prediction(found, best, p, buf);
    s2_buf_printf(buf, ";\n    no kernel takes less than %s", s2_time_text(sim->bound_us).text);
    if (sim->end_to_end_us > 0)
        put_end_to_end(found, &options, sim, p,
                       found->own != NULL ? found->own->design.sims[p].end_to_end_us : 0, buf);
    return S2_OK;
}
