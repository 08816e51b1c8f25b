/*
 * The facts of a pattern that take longer than a frame: expected time, repairs with their prices, reach,
 * worth.
 */
#include "tui/bench.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "reach/worth.h"
#include "tui/view.h"
#include "words/explain.h"

/* ---- time */

static s2_status expect(const s2_facts *facts, s2_arena *scratch, s2_expected *out)
{
    s2_sim_options options;
    s2_diag diag;
    s2_sim *const sim = S2_NEW(scratch, s2_sim, 1);
    if (sim == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_question_options(&facts->question, &facts->pattern, scratch, &options, &diag));
    S2_TRY(s2_price(scratch, &facts->pattern, &options, S2_PRICE_WHOLE, sim, &diag));
    *out = (s2_expected){.known = sim->predicted,
                         .guessed = options.calibration->head.gpu[0] == '\0',
                         .sized = true,
                         .no_ratio = s2_sim_no_ratio(&options, sim),
                         .time_us = sim->time_us,
                         .dense_us = sim->dense_time_us,
                         .plan_us = sim->plan_us,
                         .bound_us = sim->bound_us,
                         .error = sim->error,
                         .bound_by = sim->bound_by};
    return S2_OK;
}

/* ---- repairs */

/* property: what it mends, where others are violated that it may leave so; else NULL */
static s2_status add_offer(const s2_facts *facts, const s2_repair *repair, const char *property,
                           s2_late *late)
{
    s2_facts after;
    s2_buf text = {0}, words = {0};
    s2_pattern_line(&repair->pattern, &text);
    if (property != NULL)
        s2_buf_printf(&words, "%s: ", property);
    s2_repair_print(repair, &words);
    s2_offer *const offer = &late->offers[late->n_offers];
    s2_status status = text.status != S2_OK ? text.status : words.status;
    if (status == S2_OK) {
        s2_facts_build(text.data, strlen(text.data), &facts->question, &after);
        *offer =
            (s2_offer){s2_arena_strndup(&late->arena, repair->change, strlen(repair->change)),
                       s2_arena_strndup(&late->arena, words.data, words.len),
                       s2_arena_strndup(&late->arena, text.data, strlen(text.data)), s2_facts_tally(&after)};
        late->n_offers += after.status == S2_OK;
        s2_facts_release(&after);
        if (offer->change == NULL || offer->words == NULL || offer->text == NULL)
            status = S2_ENOMEM;
    }
    s2_buf_release(&text);
    s2_buf_release(&words);
    return status;
}

/* Repairs of the union first: it is what most broken designs violate. */
static s2_status find_offers(const s2_facts *facts, s2_arena *scratch, s2_late *late)
{
    static const int order[S2_N_VERDICTS] = {1, 0, 2};
    int n_violated = 0;
    for (int rank = 0; rank < S2_N_VERDICTS; rank++)
        n_violated += facts->findings[rank].verdict == S2_VIOLATED;
    for (int rank = 0; rank < S2_N_VERDICTS; rank++) {
        const s2_finding *const finding = &facts->findings[order[rank]];
        s2_repair repairs[S2_REPAIRS];
        int32_t n = 0;
        if (finding->verdict == S2_VIOLATED)
            S2_TRY(s2_repairs_find(scratch, &facts->pattern, finding, repairs, &n));
        for (int32_t nth = 0; nth < n && late->n_offers < S2_OFFERS; nth++)
            S2_TRY(add_offer(facts, &repairs[nth],
                             n_violated > 1 ? s2_property_word(finding->requirement.property) : NULL, late));
    }
    return S2_OK;
}

/* ---- reach and worth */

static s2_status find_worth(const s2_facts *facts, s2_arena *scratch, s2_late *late)
{
    s2_worth worth;
    late->not_judged = "its layers cannot be followed here";
    S2_TRY(s2_worth_figures(scratch, &facts->pattern, facts->question.len_tok, &worth));
    late->not_judged = worth.not_judged;
    late->recall = worth.recall;
    late->loss = worth.loss;
    return S2_OK;
}

/* Bit matrices of more blocks take seconds; the screen says for how many tokens the result is. */
enum { REACH_BLOCKS = 512 };

s2_known s2_known_after(const s2_stack *stack, const s2_hops *hops, int32_t layer)
{
    const s2_receptive r = hops->receptive[layer];
    return (s2_known){(double)r.last / s2_stack_n_keys(stack, stack->n_blk - 1),
                      (double)r.least / s2_stack_n_keys(stack, r.least_query)};
}

static s2_status find_reach(const s2_facts *facts, s2_arena *scratch, s2_late *late)
{
    const s2_pattern *const pattern = &facts->pattern;
    const s2_phase phase = s2_phase_rules(facts->question.phase);
    const int64_t n_tok = s2_min_i64(facts->question.len_tok, (int64_t)REACH_BLOCKS * pattern->block_tok);
    s2_stack stack;
    s2_hops hops;
    S2_TRY(s2_stack_build(scratch, pattern, phase, n_tok, &stack));
    S2_TRY(s2_hops_find(scratch, &stack, &hops));
    s2_known *const known = S2_NEW(&late->arena, s2_known, pattern->n_layers);
    if (known == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        known[layer] = s2_known_after(&stack, &hops, layer);
    late->reach = known;
    late->reach_tok = n_tok;
    late->hops = hops.layers;
    return S2_OK;
}

void s2_facts_late(const s2_facts *facts, s2_late *out)
{
    s2_arena scratch = {0};
    *out = (s2_late){.asked = true};
    const s2_status expected = facts->priced ? expect(facts, &scratch, &out->expected) : S2_OK;
    if (expected != S2_OK)
        out->expected = (s2_expected){0};
    s2_arena_release(&scratch);
    const s2_status offered = find_offers(facts, &scratch, out);
    if (offered != S2_OK)
        out->n_offers = 0;
    s2_arena_release(&scratch);
    /* what could not be followed is missing, and the screen says so */
    const s2_status judged = find_worth(facts, &scratch, out);
    s2_arena_release(&scratch);
    const s2_status followed = find_reach(facts, &scratch, out);
    s2_arena_release(&scratch);
    const bool lacks =
        expected == S2_ENOMEM || offered == S2_ENOMEM || judged == S2_ENOMEM || followed == S2_ENOMEM;
    out->status = lacks ? S2_ENOMEM : S2_OK;
}

s2_figure_text s2_facts_density(const s2_facts *facts, int32_t digits)
{
    int32_t n_dense = -facts->n_sparse_layers; /* a layer that keeps a state is neither dense nor sparse */
    for (int32_t layer = 0; layer < facts->pattern.n_layers; layer++)
        n_dense += !s2_pattern_is_state_layer(&facts->pattern, layer);
    const bool some = n_dense > 0 && facts->n_sparse_layers > 0;
    s2_figure_text out;
    if (some)
        snprintf(out.text, sizeof out.text, "%.*f %d dense", digits, facts->density, n_dense);
    else
        snprintf(out.text, sizeof out.text, "%.*f", digits, facts->density);
    return out;
}

s2_figure_text s2_facts_ratio(const s2_facts *facts, bool predicted)
{
    s2_figure_text out = {""};
    const s2_expected *const expected = &facts->late.expected;
    const double dense_us = predicted ? expected->dense_us : facts->dense_us,
                 own_us = predicted ? expected->time_us : facts->time_us;
    if (!facts->priced || !expected->sized)
        return out;
    if (expected->no_ratio != S2_RATIO_HOLDS)
        snprintf(out.text, sizeof out.text, "%s", s2_no_ratio_label(expected->no_ratio));
    else
        snprintf(out.text, sizeof out.text, "%.2fx", dense_us / own_us);
    return out;
}

double s2_facts_plan_us(const s2_facts *facts)
{
    return facts->late.expected.sized ? facts->late.expected.plan_us : facts->time_us;
}

s2_tally s2_facts_tally(const s2_facts *facts)
{
    s2_tally tally = {.there = facts->status == S2_OK};
    if (!tally.there)
        return tally;
    const s2_late *const late = &facts->late;
    memcpy(tally.hash, facts->hash, sizeof tally.hash);
    tally.question = facts->question;
    tally.cached = facts->cached;
    tally.priced = facts->priced;
    tally.expected = late->asked && late->expected.known;
    tally.judged = late->asked && late->not_judged == NULL;
    tally.time_us = s2_facts_plan_us(facts);
    tally.expected_us = late->expected.time_us;
    tally.kv_bytes = facts->cached ? (double)facts->kv_bytes[S2_KV_POINTS - 1] : 0;
    tally.unread = 1 - facts->token_density;
    tally.recall = late->recall;
    tally.loss = late->loss;
    return tally;
}
