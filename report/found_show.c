/* The front of a search on the terminal: counts, how its times were compared, table, the first design in words. */
#include "report/found_words.h"

#include <math.h>
#include <stdio.h>

#include "base/arith.h"

enum { TABLE_ROWS = 20, SHOWN_DIGITS = 8 };

static void put_cell(s2_objective objective, double value, bool bound, s2_buf *buf)
{
    char cell[56];
    snprintf(cell, sizeof cell, "%s%s", bound ? ">= " : "",
             isnan(value) ? "-" : s2_found_value_text(objective, value).text);
    s2_buf_printf(buf, " %11s", cell);
}

static void put_row(const s2_found *found, const char *name, const s2_found_design *design, s2_buf *buf)
{
    s2_buf_printf(buf, "%-*.*s", SHOWN_DIGITS, SHOWN_DIGITS, name);
    for (int32_t v = 0; v < found->search.n_by; v++)
        put_cell(found->search.by[v], design->shown[v],
                 s2_found_odd_bound(found, design, found->search.by[v]), buf);
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

static const char *be_of(int64_t n)
{
    return n == 1 ? "is" : "are";
}

static void put_counts(const s2_found *found, s2_buf *buf)
{
    const s2_search_counts *const counts = &found->state.counts;
    s2_buf_printf(buf, "%lld of %lld candidates visited",
                  (long long)(found->state.next - found->search.begin), (long long)found->space.n_candidates);
    if (counts->refused > 0)
        s2_buf_printf(buf, "; %lld %s refused", (long long)counts->refused, be_of(counts->refused));
    for (int32_t r = 0; r < found->search.n_requirements; r++) {
        const s2_property property = found->search.requirements[r].property;
        bool twin = false;
        for (int32_t earlier = 0; earlier < r; earlier++)
            twin |= found->search.requirements[earlier].property == property;
        if (!twin && counts->violated[property] > 0)
            s2_buf_printf(buf, "; %lld violate%s %s", (long long)counts->violated[property],
                          counts->violated[property] == 1 ? "s" : "", s2_property_word(property));
    }
    if (counts->unknown > 0)
        s2_buf_printf(buf, "; %lld %s not decided", (long long)counts->unknown, be_of(counts->unknown));
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
        s2_buf_printf(buf, "%s have no price: %s; ratios are to dense attention alone\n", S2_OWN_WORDS,
                      found->own_missing);
    if (found->n_beaten == 0 || found->n_designs == 0)
        return;
    s2_buf_printf(buf, "%lld of the front %s left out: ", (long long)found->n_beaten, be_of(found->n_beaten));
    if (found->n_by_own > 0)
        s2_buf_printf(buf, "%s beat %lld%s", S2_OWN_WORDS, (long long)found->n_by_own,
                      found->n_by_dense > 0 ? ", " : "");
    if (found->n_by_dense > 0)
        s2_buf_printf(buf, "%s beats %lld", S2_DENSE_WORDS, (long long)found->n_by_dense);
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
    any |= found->dense != NULL && s2_found_odd_bound(found, &found->dense->design, S2_BY_DECODE_US);
    any |= found->own != NULL && s2_found_odd_bound(found, &found->own->design, S2_BY_DECODE_US);
    any |= found->nearest != NULL && s2_found_odd_bound(found, found->nearest, S2_BY_DECODE_US);
    for (int32_t n = 0; n < found->n_designs && !any; n++)
        any = s2_found_odd_bound(found, &found->designs[n], S2_BY_DECODE_US);
    return any;
}

static bool is_guessed(const s2_found *found, const s2_found_design *design)
{
    for (int32_t p = 0; p < found->n_phases && design->sims != NULL; p++)
        if (design->sims[p].predicted && !design->sims[p].measured)
            return true;
    return false;
}

/* Whether times are of a machine that nobody measured; a bound, of a cache that spills, is none of them. */
static bool any_guessed(const s2_found *found)
{
    bool any = found->dense != NULL && is_guessed(found, &found->dense->design);
    for (int32_t n = 0; n < found->n_designs && !any; n++)
        any = is_guessed(found, &found->designs[n]);
    return any;
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
        return s2_found_put_winner(found, buf);
    if (found->nearest != NULL)
        s2_found_put_nothing(found, buf);
    return buf->status;
}
