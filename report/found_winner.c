/* The first design of a search in words: what it is, what it keeps, what it gives up against the others. */
#include "report/found_words.h"

#include <math.h>
#include <string.h>

#include "export/restriction.h"
#include "report/machine.h"
#include "report/report.h"
#include "sim/links.h"
#include "sim/machine.h"
#include "sim/units.h"
#include "words/reach.h"

bool s2_found_odd_bound(const s2_found *found, const s2_found_design *design, s2_objective objective)
{
    const bool told = objective == S2_BY_TRAIN_US && found->n_told > 0;
    return s2_found_is_bound(found, design, objective) &&
           (told || s2_sim_predicts(&found->search.options, (s2_phase)objective));
}

void s2_found_put_question(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options asked = s2_found_question(found), *const options = &asked;
    for (int32_t p = 0; p < found->n_phases; p++)
        s2_buf_printf(buf, "%s%s", p > 0 ? ", " : "", s2_phase_word(found->phases[p]));
    s2_buf_printf(buf, " of %s, batch %lld, ", s2_count_text(options->len_tok, "token").text,
                  (long long)options->batch);
    s2_report_types(options, buf);
    if (options->listed)
        s2_buf_puts(buf, ", lists of blocks on the device");
    s2_buf_printf(buf, ", %s", options->gpu.title);
    if (options->reserved_permille > 0)
        s2_buf_printf(buf, ", of whose memory %s may be used",
                      s2_decimal(1 - options->reserved_permille / 1e3, 3).text);
    if (options->n_ranks > 1)
        s2_buf_printf(buf, ", %d GPUs share the heads", (int)options->n_ranks);
    if (options->n_stages > 1)
        s2_buf_printf(buf, ", a pipeline of %d stages", (int)options->n_stages);
    if (options->n_context > 1)
        s2_buf_printf(buf, ", %d such share the tokens (%s)", (int)options->n_context,
                      s2_cut_word(options->cut));
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

static void put_links(const s2_found *found, s2_buf *buf)
{
    const s2_sim_options *const options = &found->search.options;
    if (s2_machine_one_node(options)) {
        s2_buf_puts(buf, "  ");
        s2_machine_put_one_node(options, buf);
    }
    if (s2_machine_asked(options))
        s2_buf_puts(buf, "  no such machine was measured: its schedule and links are assumed\n");
}

static void put_unread(const s2_found *found, double unread, s2_buf *buf)
{
    s2_buf_printf(buf, "; it leaves %.1f %% of all (head, query, key) unread", 100 * unread);
    if (found->own != NULL)
        s2_buf_printf(buf, ", %s %.1f %%", S2_OWN_WORDS,
                      100 * s2_found_value(found, &found->own->point, S2_BY_UNREAD, 0));
}

/* Only where there are own layers to compare with: against dense attention the number speaks for itself. */
static void put_dilution(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    const double dilution = s2_found_value(found, best->point, S2_BY_DILUTION, -1);
    if (dilution < 0 || found->own == NULL)
        return;
    s2_buf_printf(buf, "  dilution: %s, with %s %s, with dense attention 1\n", s2_decimal(dilution, 3).text,
                  S2_OWN_WORDS,
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
        put_share(bytes, (double)(drops ? own->sims[p].kv.head_pages : own->sims[p].kv_kept), S2_OWN_WORDS,
                  buf);
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
        s2_buf_printf(buf, ", the longest context at this batch %s",
                      s2_count_text(sim->fit_len_tok, "token").text);
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

static void put_stack_command(const s2_found *found, const s2_format *format, s2_buf *buf)
{
    const int32_t reserved = found->search.options.reserved_permille;
    s2_buf_printf(buf,
                  "  by its name the design is priced with a cache that drops pages: s2 sim %s --stack %s",
                  found->designs[0].name, format->name);
    if (reserved > 0)
        s2_buf_printf(buf, " --gpu-memory-utilization %s", s2_decimal((1000 - reserved) / 1000.0, 3).text);
    s2_buf_puts(buf, " keeps them all\n");
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
        else
            s2_buf_printf(buf, "  the times above are of the kernels of s2%s, not of what runs a %s file\n",
                          serves ? " and the cache of one that drops what no head will read again" : "",
                          format->name);
        for (int32_t p = 0; p < found->n_phases && format->stack != NULL; p++)
            if (found->designs[0].sims[p].host_bytes > 0) {
                s2_buf_printf(buf, "  %s: ", s2_phase_word(found->phases[p]));
                s2_report_stack_host(format, &found->designs[0].sims[p], buf);
            }
        if (format->model != NULL && !s2_pattern_is_of(best, format->model))
            s2_buf_printf(buf,
                          "  only the code of %s reads such a file: another model needs code of its own\n",
                          format->model);
        const char *const differs = s2_format_differs(format, best);
        if (differs != NULL)
            s2_buf_printf(buf, "  %s reads other pairs than the file says %s\n", format->stack, differs);
        if (format->keeps_all && serves && found->stored)
            put_stack_command(found, format, buf);
    }
}

static bool asks_for(const s2_found *found, s2_property property)
{
    for (int32_t r = 0; r < found->search.n_requirements; r++)
        if (found->search.requirements[r].property == property)
            return true;
    return false;
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
                    !s2_found_odd_bound(found, &found->designs[n], found->search.by[v]) &&
                    fabs(found->designs[n].shown[v] / best[v] - 1) * 100 <= error_pct[found->search.by[v]];
        count += alike;
    }
    return count;
}

/* What is alike in every design of a hybrid model, and in its dense rival. */
static void put_states(const s2_found *found, int32_t p, const s2_sim *sim, s2_buf *buf)
{
    if (p == 0 && found->n_mixers > 0) {
        s2_buf_puts(buf, "  layers ");
        s2_found_put_attention(found, buf);
        s2_buf_printf(buf, " have attention; the other %d keep a state and are the same in every design\n",
                      (int)found->n_mixers);
    }
    s2_report_states_text("  states: ", sim, buf);
}

static s2_status put_phases(const s2_found *found, const s2_found_design *best, s2_buf *buf)
{
    double error_pct[S2_N_PHASES] = {0};
    bool predicted = false, cached = false;
    for (int32_t p = 0; p < found->n_phases; p++) {
        const s2_sim *const sim = &best->sims[p];
        S2_TRY(s2_found_put_phase(found, best, p, buf));
        error_pct[found->phases[p]] = s2_sim_error_known(sim) ? sim->error.pct : 0;
        predicted |= sim->predicted;
        if (!cached && found->phases[p] != S2_TRAIN) { /* training keeps no cache */
            put_cache(found, best, p, buf);
            cached = true;
        }
        if (p == 0) {
            s2_buf_printf(buf, ";\n  a head reads %.2f %% on average of what a dense one reads%s, and %s",
                          100 * sim->token_density,
                          found->phases[p] == S2_DECODE ? " for the next token" : "",
                          asks_for(found, S2_UNION) ? "together all heads of a layer read everything"
                                                    : "nothing was asked of all heads together");
        }
        s2_buf_puts(buf, "\n");
        put_states(found, p, sim, buf);
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
    const bool mine_odd = s2_found_odd_bound(found, mine, by),
               other_odd = s2_found_odd_bound(found, other, by);
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
        s2_buf_printf(buf, " (%.2f %% %s)", 100 * fabs(own / against - 1), own < against ? "less" : "more");
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
        s2_buf_printf(buf, ", yet no cheaper than %s%s%s in any price", own ? S2_OWN_WORDS : "",
                      own && dense ? " or " : "", dense ? S2_DENSE_WORDS : "");
}

s2_status s2_found_put_winner(const s2_found *found, s2_buf *buf)
{
    const s2_found_design *const best = &found->designs[0];
    s2_buf_puts(buf, "\n");
    put_title(found, best, buf);
    s2_buf_printf(buf, ": %s, %s\n  for ", best->name, best->choice);
    s2_found_put_question(found, buf);
    put_links(found, buf);
    S2_TRY(put_phases(found, best, buf));
    if (found->own != NULL) {
        s2_buf_printf(buf, "  against %s:\n", S2_OWN_WORDS);
        put_differences(found, best, &found->own->design, buf);
        put_gain(found, found->own, S2_OWN_WORDS, buf);
    }
    put_gain(found, found->dense, S2_DENSE_WORDS, buf);
    put_edges(found, best, buf);
    if (found->n_designs > 1)
        put_against(found, best, &found->designs[1], buf);
    else
        s2_buf_puts(buf, "  no other candidate that was searched is better in any objective\n");
    return S2_OK;
}

/* Which rival beats every design; where neither does alone, both together do. */
static const char *beater_of(const s2_found *found)
{
    if (found->n_by_own == found->n_beaten)
        return S2_OWN_WORDS;
    return found->n_by_dense == found->n_beaten ? S2_DENSE_WORDS
                                                : "both dense attention and the model's own layers";
}

void s2_found_put_nothing(const s2_found *found, s2_buf *buf)
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
                  rival == found->dense ? S2_DENSE_WORDS : S2_OWN_WORDS);
    put_differences(found, nearest, &rival->design, buf);
}
