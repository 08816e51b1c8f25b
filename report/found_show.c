/* The front of a search on the terminal: counts, table, the best design in words. */
#include "base/arith.h"
#include "report/found.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/restriction.h"
#include "report/machine.h"
#include "report/report.h"
#include "sim/links.h"
#include "sim/machine.h"
#include "sim/units.h"
#include "words/error.h"
#include "words/reach.h"

enum { TABLE_ROWS = 20, SHOWN_DIGITS = 8 };

/* ---- the table */

static void put_cell(s2_objective objective, double value, bool bound, s2_buf *buf)
{
    char cell[56];
    snprintf(cell, sizeof cell, "%s%s", bound ? ">= " : "",
             isnan(value) ? "-" : s2_found_value_text(objective, value).text);
    s2_buf_printf(buf, " %11s", cell);
}

/* A bound among predictions; where all are bounds, a line above the table says so. */
static bool is_odd_bound(const s2_found *found, const s2_found_design *design, s2_objective objective)
{
    const bool told = objective == S2_BY_TRAIN_US && found->n_told > 0;
    return s2_found_is_bound(found, design, objective) &&
           (told || s2_sim_predicts(&found->search.options, (s2_phase)objective));
}

static void put_row(const s2_found *found, const char *name, const s2_found_design *design, s2_buf *buf)
{
    s2_buf_printf(buf, "%-*.*s", SHOWN_DIGITS, SHOWN_DIGITS, name);
    for (int32_t v = 0; v < found->search.n_by; v++)
        put_cell(found->search.by[v], design->shown[v], is_odd_bound(found, design, found->search.by[v]),
                 buf);
    s2_buf_printf(buf, "  %s\n", design->choice);
}

/*
 * The best of a long front are often alike, so the table shows those that represent all others. Predictions
 * of training are shown as they are: the others have only bounds.
 */
static void put_front(const s2_found *found, s2_buf *buf)
{
    int32_t rows[TABLE_ROWS + 1], n_rows = s2_min_i32(found->n_designs, TABLE_ROWS);
    double radius = 0;
    for (int32_t n = 0; n < n_rows; n++)
        rows[n] = n;
    if (found->n_designs > TABLE_ROWS && found->n_told == 0)
        n_rows = s2_found_thin(found, TABLE_ROWS, rows, &radius);
    for (int32_t n = 0; n < n_rows; n++)
        put_row(found, found->designs[rows[n]].hash, &found->designs[rows[n]], buf);
    if (found->n_designs == n_rows)
        return;
    s2_buf_printf(buf, "...      and %d more", (int)found->n_designs - n_rows);
    if (radius > 0)
        s2_buf_printf(
            buf, ", each within %s %% of the front's range of one above, in every objective; all of them",
            s2_decimal(100 * radius, 2).text);
    s2_buf_puts(buf, ": s2 pareto, s2 ls, or --json\n");
}

/* What the designs are compared with comes first. */
static void put_table(const s2_found *found, s2_buf *buf)
{
    s2_buf_puts(buf, found->n_designs > 0 ? "best first\ndesign  " : "design  ");
    for (int32_t v = 0; v < found->search.n_by; v++)
        s2_buf_printf(buf, " %11s", s2_objective_word(found->search.by[v]));
    s2_buf_puts(buf, "  pattern\n");
    if (found->own != NULL)
        put_row(found, "own", &found->own->design, buf);
    put_row(found, "dense", &found->dense->design, buf);
    if (found->nearest != NULL)
        put_row(found, found->nearest->hash, found->nearest, buf);
    put_front(found, buf);
}

/* ---- the winner, in words */

static const char *resource_words(s2_resource resource)
{
    static const char *const words[S2_N_RESOURCES] = {
        [S2_MMA] = "the matrix units", [S2_EXP] = "the exponential units", [S2_HBM] = "memory bandwidth",
        [S2_L2] = "the L2 cache",      [S2_LINK] = "the link to the host", [S2_LAUNCH] = "kernel launches",
        [S2_LATENCY] = "latency"};
    return words[resource];
}

static bool asks_for(const s2_found *found, s2_property property)
{
    for (int32_t r = 0; r < found->search.n_requirements; r++)
        if (found->search.requirements[r].property == property)
            return true;
    return false;
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
    if (sim->beyond > 0) {
        s2_report_beyond(sim, buf);
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

static const char own_words[] = "the model's own layers", dense_words[] = "dense attention";

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
        put_against_time(us, rivals.own_us, sim, own_words, buf);
    if (rivals.own_us > 0 && rivals.dense_us > 0)
        s2_buf_puts(buf, " and ");
    if (rivals.dense_us > 0)
        put_against_time(us, rivals.dense_us, sim, dense_words, buf);
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
    if (why == S2_SPILLS) { /* the others keep every pattern out */
        s2_buf_puts(buf, ": ");
        if (own != NULL)
            put_side(true, own, own_runs(found, p), buf);
        s2_buf_puts(buf, own != NULL ? ", " : "");
        put_side(false, sim, s2_sim_runs(&options, sim, true), buf);
    }
    if (why == S2_DENSE_SPILLS)
        s2_buf_printf(buf, ", no ratio to %s, whose cache does not fit the GPU", dense_words);
    if (own != NULL && !own_runs(found, p) && s2_sim_runs(&options, sim, false))
        s2_buf_printf(buf, ", no ratio to %s, whose cache does not fit the GPU", own_words);
}

static bool compares_times(const s2_found *found)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US)
            return true;
    return false;
}

/* Designs whose times of all phases lie within the error of the best one's: the model cannot order them. */
static int32_t count_alike(const s2_found *found, const double *error_pct)
{
    const double *const best = found->designs[0].shown;
    const int32_t n_ordered = found->n_told > 0 ? found->n_told : found->n_designs;
    int32_t count = 0;
    for (int32_t n = 1; n < n_ordered; n++) {
        bool alike = true;
        for (int32_t v = 0; v < found->search.n_by; v++)
            if (found->search.by[v] <= S2_BY_TRAIN_US)
                alike &=
                    !is_odd_bound(found, &found->designs[n], found->search.by[v]) &&
                    fabs(found->designs[n].shown[v] / best[v] - 1) * 100 <= error_pct[found->search.by[v]];
        count += alike;
    }
    return count;
}

/* runs: only then a time makes a rate. */
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
    s2_buf_printf(buf, ";\n    %s %s",
                  options->phase == S2_TRAIN ? "the whole step takes" : "with the layers around it",
                  sim->predicted ? "" : "at least ");
    put_whole(options, sim->end_to_end_us, runs, buf);
    if (!runs)
        s2_buf_puts(buf, ", of which no rate is made since it does not fit");
    const rival_times rivals = comparable(found, p, sim, own_us, sim->end_to_end_dense_us);
    if (rivals.own_us > 0)
        put_with(options, sim->end_to_end_us, rivals.own_us, own_words, buf);
    if (rivals.dense_us > 0)
        put_with(options, sim->end_to_end_us, rivals.dense_us, dense_words, buf);
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
                              const s2_sim_options *options, s2_buf *buf)
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
        s2_buf_puts(buf, n_said++ == 0 ? "; it fits with" : ", or with");
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
                    ";\n    these are steps of this design: which one is best there, a search with those "
                    "options tells");
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
        "  the training step %s the GPU: %s of %s, with %s of weights, gradients and optimizer and %s "
        "of activations,\n    the same for every pattern",
        fits ? "fits" : "does not fit", s2_bytes_text(training->bytes).text,
        s2_bytes_text(options->gpu.hbm_gb * 1e9).text, s2_bytes_text(training->state_bytes).text,
        s2_bytes_text(training->activation_bytes).text);
    if (!fits && sim->fit_batch > 0)
        s2_buf_printf(buf, "; a batch of %lld fits", (long long)sim->fit_batch);
    if (!fits && sim->fit_len_tok > 0)
        s2_buf_printf(buf, "; at this batch %lld tokens fit", (long long)sim->fit_len_tok);
    if (!fits) {
        S2_TRY(put_remedies(found, design, options, buf));
        s2_buf_puts(buf, ",\n    and the times below are of a step that this GPU cannot run as it is");
    }
    s2_buf_puts(buf, "\n");
    return S2_OK;
}

static s2_status put_phase(const s2_found *found, const s2_found_design *best, int32_t p, s2_buf *buf)
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

static void put_unread(const s2_found *found, double unread, s2_buf *buf)
{
    s2_buf_printf(buf, "; it leaves %.1f %% of all (head, query, key) unread", 100 * unread);
    if (found->own != NULL)
        s2_buf_printf(buf, ", %s %.1f %%", own_words,
                      100 * s2_found_value(found, &found->own->point, S2_BY_UNREAD, 0));
}

/* Only where there are own layers to compare with: against dense attention the number speaks for itself. */
static void put_dilution(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    const double dilution = s2_found_value(found, best->point, S2_BY_DILUTION, -1);
    if (dilution < 0 || found->own == NULL)
        return;
    s2_buf_printf(buf, "  dilution: %s, with %s %s, with dense attention 1\n", s2_decimal(dilution, 3).text,
                  own_words,
                  s2_decimal(s2_found_value(found, &found->own->point, S2_BY_DILUTION, 0), 3).text);
}

/* What the search does not measure must not look as if it had been weighed. */
static s2_status put_worth(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    const double unread = s2_found_value(found, best->point, S2_BY_UNREAD, -1);
    s2_worth worth;
    S2_TRY(s2_worth_figures(found->arena, &best->pattern, found->search.options.len_tok, &worth));
    const s2_sim *const scored = s2_found_scored(found, best);
    s2_report_scores_text("  scores: ", scored->scores, scored->scored, buf);
    s2_buf_puts(buf, "  ");
    if (worth.not_judged == NULL)
        s2_worth_tell(&worth, buf);
    else
        s2_buf_puts(buf, "not judged: how well a model works with it (s2 reach says what is known of that)");
    if (unread >= 0)
        put_unread(found, unread, buf);
    else
        s2_buf_puts(buf, "; --minimize us,kv_bytes,unread also weighs what is left unread");
    s2_buf_puts(buf, "\n");
    put_dilution(found, best, buf);
    return S2_OK;
}

static void put_share(double bytes, double of_rival, const char *who, s2_buf *buf)
{
    s2_buf_printf(buf, "%.1f %% of %s (%s)", 100 * bytes / of_rival, who, s2_bytes_text(of_rival).text);
}

/* What the pattern keeps and what its rivals keep; drops: in a cache that drops what no head will read again. */
static void put_kept(const s2_found *found, int32_t p, double bytes, bool drops, s2_buf *buf)
{
    const int32_t n_gpus = s2_machine_gpus(&found->search.options);
    s2_buf_puts(buf, s2_bytes_text(bytes).text);
    if (n_gpus > 1)
        s2_buf_printf(buf, " on all %d GPUs together", n_gpus);
    s2_buf_puts(buf, ", ");
    if (found->own != NULL) {
        const s2_found_design *const own = &found->own->design;
        put_share(bytes, (double)(drops ? own->sims[p].kv.head_pages : own->sims[p].kv_kept), own_words, buf);
        s2_buf_puts(buf, " and ");
    }
    const s2_found_design *const dense = &found->dense->design;
    put_share(bytes, (double)(drops ? dense->sims[p].kv.head_pages : dense->sims[p].kv_kept), "dense", buf);
}

/* The room depends on the type of the weights: it is said, because it may not be the one that is deployed. */
static void put_overflow(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf)
{
    const char *const each = s2_machine_gpus(options) > 1 ? " on each GPU" : "";
    s2_buf_puts(buf, ", more than fits the GPU");
    if (sim->weight_bytes > 0) {
        s2_buf_printf(buf, " beside %s of weights%s (", s2_bytes_text((double)sim->weight_bytes).text, each);
        s2_report_weights(options, buf);
        s2_buf_puts(buf, ")");
    }
    s2_buf_printf(buf, ";\n    %s%s must stay in host memory; ", s2_bytes_text((double)sim->host_bytes).text,
                  each);
    if (sim->fit_batch > 0)
        s2_buf_printf(buf, "the largest batch that fits is %lld", (long long)sim->fit_batch);
    else
        s2_buf_puts(buf, "not one sequence of this length fits");
    if (sim->fit_len_tok > 0)
        s2_buf_printf(buf, ", the longest context at this batch %lld tokens", (long long)sim->fit_len_tok);
}

static void put_cache(const s2_found *found, const s2_found_design *best, int32_t p, s2_buf *buf)
{
    const s2_sim *const sim = &best->sims[p];
    const s2_format *const keeper = s2_restriction_keeper(found->restriction);
    const double kept = (double)sim->kv_kept;
    if (keeper == NULL) {
        s2_buf_puts(buf, ";\n  the KV cache keeps ");
        put_kept(found, p, kept, false, buf);
        if (sim->host_bytes > 0)
            put_overflow(&found->search.options, sim, buf);
        return;
    }
    s2_buf_printf(buf, ";\n  %s keeps every page of the KV cache: ", keeper->stack);
    put_kept(found, p, kept, false, buf);
    if (sim->host_dense_bytes > 0)
        put_overflow(&found->search.options, sim, buf);
    s2_buf_puts(buf, ";\n  a cache that drops what no head will read again would keep ");
    put_kept(found, p, (double)sim->kv.head_pages, true, buf);
}

/* A price must not be mistaken for that of the stack that the file is for, nor the file for all that it needs. */
static void put_stacks(const s2_found *found, const s2_pattern *best, s2_buf *buf)
{
    const bool serves = s2_found_question(found).phase != S2_TRAIN;
    for (int32_t n = 0; n < found->restriction->n_formats; n++) {
        const s2_format *const format = found->restriction->formats[n];
        if (format->stack != NULL)
            s2_buf_printf(buf,
                          "  the %s file is for %s; the times above are of the kernels of s2, not of its\n",
                          format->name, format->stack);
        for (int32_t p = 0; p < found->n_phases && format->stack != NULL; p++)
            if (found->designs[0].sims[p].host_bytes > 0) {
                s2_buf_printf(buf, "  %s: ", s2_phase_word(found->phases[p]));
                s2_report_stack_host(format, &found->designs[0].sims[p], buf);
            }
        if (format->model != NULL && !s2_pattern_is_of(best, format->model))
            s2_buf_printf(buf,
                          "  only the code of %s reads such a file: another model needs code of its own\n",
                          format->model);
        if (format->differs != NULL)
            s2_buf_printf(buf, "  %s reads other pairs than the file says %s\n", format->stack,
                          format->differs);
        if (format->keeps_all && serves && found->stored)
            s2_buf_printf(buf,
                          "  by its name the design is priced with a cache that drops pages: s2 sim %s "
                          "--stack %s keeps them all\n",
                          found->designs[0].name, format->name);
    }
}

static s2_status put_phases(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    double error_pct[S2_N_PHASES] = {0};
    bool predicted = false, cached = false;
    for (int32_t p = 0; p < found->n_phases; p++) {
        const s2_sim *const sim = &best->sims[p];
        S2_TRY(put_phase(found, best, p, buf));
        error_pct[found->phases[p]] = s2_sim_error_known(sim) ? sim->error.pct : 0;
        predicted |= sim->predicted;
        if (!cached && found->phases[p] != S2_TRAIN) { /* training keeps no cache */
            put_cache(found, best, p, buf);
            cached = true;
        }
        if (p == 0) {
            s2_buf_printf(buf, ";\n  a head reads %.2f %% of what dense attention reads, and %s",
                          100 * sim->token_density,
                          asks_for(found, S2_UNION) ? "together all heads of a layer read everything"
                                                    : "nothing was asked of all heads together");
        }
        s2_buf_puts(buf, "\n");
    }
    put_stacks(found, &best->pattern, buf);
    S2_TRY(put_worth(found, best, buf));
    const int32_t n_alike = predicted && compares_times(found) ? count_alike(found, error_pct) : 0;
    if (n_alike > 0)
        s2_buf_printf(buf,
                      "  %d more of the front %s within that error of it: only a device tells which is "
                      "fastest (--validate)\n",
                      (int)n_alike, n_alike == 1 ? "is" : "are");
    return S2_OK;
}

/* One line of a comparison. A bound and a prediction give no percentage. */
static void put_difference(const s2_found *found, const s2_found_design *mine, const s2_found_design *other,
                           int32_t v, s2_buf *buf)
{
    const s2_objective by = found->search.by[v];
    const bool mine_odd = is_odd_bound(found, mine, by), other_odd = is_odd_bound(found, other, by);
    const double own = mine->shown[v], against = other->shown[v];
    if (isnan(own) || isnan(against))
        return;
    if (s2_found_looks_same(by, own, against)) {
        s2_buf_printf(buf, "    %s is the same\n", s2_objective_word(by));
        return;
    }
    s2_buf_printf(buf, "    it %s %s: %s%s against %s%s", own < against ? "wins" : "gives up",
                  s2_objective_word(by), mine_odd ? ">= " : "", s2_found_value_text(by, own).text,
                  other_odd ? ">= " : "", s2_found_value_text(by, against).text);
    if (fmin(own, against) > 0 && mine_odd == other_odd)
        s2_buf_printf(buf, " (%.2f %%)", 100 * (fmax(own, against) / fmin(own, against) - 1));
    s2_buf_puts(buf, "\n");
}

static void put_differences(const s2_found *found, const s2_found_design *mine, const s2_found_design *other,
                            s2_buf *buf)
{
    for (int32_t v = 0; v < found->search.n_by; v++)
        put_difference(found, mine, other, v, buf);
}

static void put_against(const s2_found *found, const s2_found_design *best, const s2_found_design *next,
                        s2_buf *buf)
{
    s2_buf_printf(buf, "  against the next best, %s (%s):\n", next->name, next->choice);
    put_differences(found, best, next, buf);
}

/* The last word before a hole names its number: "local", "stride". */
static void put_hole(const s2_space_piece *piece, int64_t value, int32_t side, s2_buf *buf)
{
    size_t end = piece->n_bytes;
    while (end > 0 && piece->text[end - 1] == ' ')
        end--;
    size_t begin = end;
    while (begin > 0 && strchr(" ;:|\n", piece->text[begin - 1]) == NULL)
        begin--;
    s2_buf_printf(buf, "%.*s %lld is the %s", (int)(end - begin), piece->text + begin, (long long)value,
                  side < 0 ? "smallest" : "largest");
}

/* A best design on the edge of its space may be best only because the space ends there. */
static void put_edges(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    int32_t n_edges = 0;
    for (int32_t piece = 0; piece < found->space.n_pieces; piece++) {
        int64_t value = 0;
        const int32_t side = found->space.pieces[piece].n_values > 1
                                 ? s2_space_edge(&found->space, best->point->index, piece, &value)
                                 : 0;
        if (side == 0)
            continue;
        s2_buf_puts(buf, n_edges++ == 0 ? "  on the edge of the space: " : ", ");
        put_hole(&found->space.pieces[piece], value, side, buf);
    }
    if (n_edges > 0)
        s2_buf_puts(buf, " allowed; a wider space may have a better one\n");
}

/* A winner that no price favours must not look like a gain: say what it has over the rival. */
static void put_gain(const s2_found *found, const s2_found_rival *rival, const char *who, s2_buf *buf)
{
    const double *const mine = found->designs[0].shown, *const others = rival->design.shown;
    s2_buf won = {0};
    bool cheaper = false;
    for (int32_t v = 0; v < found->search.n_by; v++) {
        if (mine[v] >= others[v] || s2_found_looks_same(found->search.by[v], mine[v], others[v]))
            continue;
        cheaper |= s2_found_is_price(found->search.by[v]);
        s2_buf_printf(&won, "%s%s", won.len > 0 ? ", " : "", s2_objective_word(found->search.by[v]));
    }
    if (!cheaper && won.len > 0)
        s2_buf_printf(buf, "  it is no cheaper than %s; all that it wins is %s\n", who, won.data);
    else if (!cheaper)
        s2_buf_printf(buf, "  it wins nothing over %s\n", who);
    s2_buf_release(&won);
}

void s2_found_put_question(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options asked = s2_found_question(found), *const options = &asked;
    for (int32_t p = 0; p < found->n_phases; p++)
        s2_buf_printf(buf, "%s%s", p > 0 ? ", " : "", s2_phase_word(found->phases[p]));
    s2_buf_printf(buf, " of %lld tokens, batch %lld, ", (long long)options->len_tok,
                  (long long)options->batch);
    s2_report_types(options, buf);
    s2_buf_printf(buf, ", %s", options->gpu.title);
    if (options->n_ranks > 1)
        s2_buf_printf(buf, ", %d GPUs share the heads", (int)options->n_ranks);
    if (options->n_stages > 1)
        s2_buf_printf(buf, ", a pipeline of %d stages", (int)options->n_stages);
    if (options->n_context > 1)
        s2_buf_printf(buf, ", %d such share the tokens", (int)options->n_context);
    if (options->n_expert_ranks > 1)
        s2_buf_printf(buf, ", %d replicas share the experts", (int)options->n_expert_ranks);
    if (options->n_nodes > 1)
        s2_buf_printf(buf, ", on %d nodes", (int)options->n_nodes);
    if (options->n_shards > 1)
        s2_buf_printf(buf, ", %d %s divide the optimizer", (int)options->n_shards,
                      options->n_ranks > 1 ? "such groups" : "GPUs");
    if (found->model[0] != '\0')
        s2_buf_printf(buf, ", model %s", found->model);
    if (options->fusion != S2_FUSED)
        s2_buf_printf(buf, ", %s", s2_fusion_word(options->fusion));
    if (options->recompute)
        s2_buf_puts(buf, ", recomputed");
    for (int32_t n = 0; n < found->restriction->n_formats; n++)
        s2_buf_printf(buf, ", for %s", found->restriction->formats[n]->name);
    s2_buf_puts(buf, "\n");
}

/* Tables of GPUs do not say how many share a link: say what is taken for granted. */
static void put_links(const s2_found *found, s2_buf *buf)
{
    enum { USUAL_NODE = 8 };
    const s2_sim_options *const options = &found->search.options;
    const int64_t n = s2_links_gpus(options);
    if (n > USUAL_NODE && options->n_nodes == 1)
        s2_buf_printf(buf,
                      "  all %lld GPUs are priced as one node, each linked to all others; --nodes N prices "
                      "them on several\n",
                      (long long)n);
    if (s2_machine_asked(options))
        s2_buf_puts(buf, "  no such machine was measured: its schedule and links are assumed\n");
}

/* The first design is not called best if it cannot run or is beaten in every price. */
static void put_title(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    const bool own = found->own != NULL && s2_found_is_no_cheaper(found, best, found->own);
    const bool dense = s2_found_is_no_cheaper(found, best, found->dense);
    bool runs = true;
    for (int32_t p = 0; p < found->n_phases; p++)
        runs &= s2_found_runs(found, best, p);
    if (runs && !own && !dense) {
        s2_buf_puts(buf, "best overall");
        return;
    }
    s2_buf_puts(buf, "first of what was searched");
    s2_buf_puts(buf, runs ? "" : ", though the GPU has no room for it");
    if (own || dense)
        s2_buf_printf(buf, ", yet no cheaper than %s%s%s in any price", own ? own_words : "",
                      own && dense ? " or " : "", dense ? dense_words : "");
}

static s2_status put_winner(const s2_found *found, s2_buf *buf)
{
    const s2_found_design *const best = &found->designs[0];
    s2_buf_puts(buf, "\n");
    put_title(found, best, buf);
    s2_buf_printf(buf, ": %s, %s\n  for ", best->name, best->choice);
    s2_found_put_question(found, buf);
    put_links(found, buf);
    S2_TRY(put_phases(found, best, buf));
    if (found->own != NULL) {
        s2_buf_printf(buf, "  against %s:\n", own_words);
        put_differences(found, best, &found->own->design, buf);
        put_gain(found, found->own, own_words, buf);
    }
    put_gain(found, found->dense, dense_words, buf);
    put_edges(found, best, buf);
    if (found->n_designs > 1)
        put_against(found, best, &found->designs[1], buf);
    else
        s2_buf_puts(buf, "  it gives up nothing: no other candidate is better anywhere\n");
    return S2_OK;
}

/* Which rival beats every design; where neither does alone, both together do. */
static const char *beater_of(const s2_found *found)
{
    if (found->n_by_own == found->n_beaten)
        return own_words;
    return found->n_by_dense == found->n_beaten ? dense_words
                                                : "both dense attention and the model's own layers";
}

/* Every design of the front loses to what the model would do without s2: say so, and by how much the best. */
static void put_nothing(const s2_found *found, s2_buf *buf)
{
    const s2_found_design *const nearest = found->nearest;
    const s2_found_rival *const rival =
        found->own != NULL && s2_found_beats(found, found->own, found->own->design.shown, nearest->shown)
            ? found->own
            : found->dense;
    s2_buf_printf(buf, "\nnothing found here beats %s: each design found is better in no objective\n  for ",
                  beater_of(found));
    s2_found_put_question(found, buf);
    s2_buf_printf(buf, "  the nearest, %s (%s), against %s:\n", nearest->name, nearest->choice,
                  rival == found->dense ? dense_words : own_words);
    put_differences(found, nearest, &rival->design, buf);
}

/* ---- counts */

static void put_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    s2_buf_printf(buf, "%lld of %lld candidates visited",
                  (long long)(found->state.next - found->search.begin), (long long)found->space.n_candidates);
    if (counts->refused > 0)
        s2_buf_printf(buf, "; %lld are refused", (long long)counts->refused);
    for (int32_t r = 0; r < found->search.n_requirements; r++) {
        const s2_property property = found->search.requirements[r].property;
        bool twin = false;
        for (int32_t earlier = 0; earlier < r; earlier++)
            twin |= found->search.requirements[earlier].property == property;
        if (!twin && counts->violated[property] > 0)
            s2_buf_printf(buf, "; %lld violate %s", (long long)counts->violated[property],
                          s2_property_word(property));
    }
    if (counts->unknown > 0)
        s2_buf_printf(buf, "; %lld are not decided", (long long)counts->unknown);
    if (counts->outside > 0)
        s2_buf_printf(buf, "; %lld above --at-most", (long long)counts->outside);
    if (counts->unaccepted > 0)
        s2_buf_printf(buf, "; %lld cannot be deployed as asked", (long long)counts->unaccepted);
    s2_buf_printf(buf, "; %lld beaten by their bounds; %lld priced; %d on the front\n",
                  (long long)counts->beaten, (long long)counts->priced, (int)found->state.front.n);
}

/* Says what is left out of the front, and which ratios are missing. */
static void put_rivals(const s2_found *found, s2_buf *buf)
{
    if (found->own_missing != NULL)
        s2_buf_printf(buf, "%s have no price: %s; ratios are to dense attention alone\n", own_words,
                      found->own_missing);
    if (found->n_beaten == 0 || found->n_designs == 0)
        return;
    s2_buf_printf(buf, "%lld of the front %s left out: ", (long long)found->n_beaten,
                  found->n_beaten == 1 ? "is" : "are");
    if (found->n_by_own > 0)
        s2_buf_printf(buf, "%s beat %lld%s", own_words, (long long)found->n_by_own,
                      found->n_by_dense > 0 ? ", " : "");
    if (found->n_by_dense > 0)
        s2_buf_printf(buf, "%s beats %lld", dense_words, (long long)found->n_by_dense);
    s2_buf_puts(buf, "\n");
}

/* What --at-most would have to be for the candidates that were visited. */
static void put_least(const s2_found *found, s2_buf *buf)
{
    const bool all = found->state.next - found->search.begin == found->space.n_candidates;
    if (found->n_least == 0 && found->state.front.n == 0 && found->state.counts.outside > 0 && all)
        s2_buf_puts(buf, "no candidate can be deployed as asked, whatever --at-most says\n");
    if (found->n_least == 0)
        return;
    s2_buf_printf(buf, "no candidate is within --at-most %s; %s:\n", found->at_most,
                  all ? "the least that any candidate has" : "the least found among the candidates visited");
    for (int32_t n = 0; n < found->n_least; n++) {
        const s2_found_least *const least = &found->least[n];
        s2_buf_printf(buf, "  %-11s %s", s2_objective_word(least->of),
                      s2_found_value_text(least->of, least->point.value[0]).text);
        if (!isnan(least->of_dense))
            s2_buf_printf(buf, ", %s %% of dense", s2_decimal(100 * least->of_dense, 4).text);
        s2_buf_printf(buf, "%s: %s\n",
                      least->within_others         ? ", within the other limits"
                      : found->search.n_limits > 1 ? ", but above another limit"
                                                   : "",
                      least->choice);
    }
}

/* Whether the table has a decode step that reads host memory. */
static bool any_spills(const s2_found *found)
{
    bool any = false;
    if (found->state.front.n == 0 ||
        isnan(s2_found_value(found, found->state.front.points, S2_BY_DECODE_US, (double)NAN)))
        return false;
    any |= found->dense != NULL && is_odd_bound(found, &found->dense->design, S2_BY_DECODE_US);
    any |= found->own != NULL && is_odd_bound(found, &found->own->design, S2_BY_DECODE_US);
    any |= found->nearest != NULL && is_odd_bound(found, found->nearest, S2_BY_DECODE_US);
    for (int32_t n = 0; n < found->n_designs && !any; n++)
        any = is_odd_bound(found, &found->designs[n], S2_BY_DECODE_US);
    return any;
}

/* Whether times are of a machine that nobody measured. */
static bool any_guessed(const s2_found *found)
{
    for (int32_t p = 0; p < found->n_phases && found->dense != NULL; p++)
        if (found->dense->design.sims[p].predicted && !found->dense->design.sims[p].measured)
            return true;
    return false;
}

/* Say how times were compared, if there are any. */
static void put_ranking(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    bool predicted = false, bound = false;
    for (int32_t v = 0; v < found->search.n_by; v++)
        if (found->search.by[v] <= S2_BY_TRAIN_US) {
            const bool own = s2_sim_predicts(options, (s2_phase)found->search.by[v]);
            predicted |= own;
            bound |= !own;
        }
    if (found->n_told > 0)
        s2_buf_printf(buf,
                      "train_us: bounds at peak rates made the front; its %d best are predicted and in the "
                      "order of that\n",
                      (int)found->n_told);
    if (predicted)
        s2_buf_printf(buf, "times%s are %s the kernels measured on %s at commit %s%s\n",
                      bound && found->n_told == 0 ? " (except train_us, a bound)" : "",
                      any_guessed(found) ? "guessed for a machine that nobody measured, from"
                                         : "predictions for",
                      options->gpu.name, options->calibration->head.commit,
                      any_spills(found) ? "; those with >= are bounds, of a cache in host memory" : "");
    else if (bound && found->n_told == 0)
        s2_buf_printf(buf, "times are bounds at peak rates%s%s\n",
                      found->measured && options->dtype != S2_F8 ? "" : ": no kernels were measured ",
                      !found->measured          ? "on this GPU"
                      : options->dtype == S2_F8 ? "in fp8"
                                                : "");
}

s2_status s2_found_report(const s2_found *found, s2_buf *buf)
{
    put_counts(found, buf);
    put_ranking(found, buf);
    put_least(found, buf);
    put_rivals(found, buf);
    if (found->dense != NULL)
        put_table(found, buf);
    if (found->n_designs > 0)
        return put_winner(found, buf);
    if (found->nearest != NULL)
        put_nothing(found, buf);
    return buf->status;
}
