#include "search/objective.h"

#include <math.h>

#include "base/arith.h"
#include "base/work.h"
#include "coverage/answer.h"
#include "reach/flow.h"
#include "reach/worth.h"
#include "search/dilution.h"
#include "search/spread.h"

enum { PROOF_STEPS = 10000000 };

/* Both sides of a bound are sums of doubles; this is far above their rounding. */
#define ROUNDING (1 - 1e-9)

const char *s2_objective_word(s2_objective objective)
{
    static const char *const words[] = {"prefill_us", "decode_us", "train_us",   "kv_bytes", "density",
                                        "imbalance",  "unread",    "redundancy", "depth",    "loss",
                                        "unrecalled", "dilution",  "hops",       "fading"};
    return objective >= 0 && objective < S2_N_OBJECTIVES ? words[objective] : "";
}

s2_objective s2_objective_time(s2_phase phase)
{
    static const s2_objective of[S2_N_PHASES] = {
        [S2_PREFILL] = S2_BY_PREFILL_US, [S2_DECODE] = S2_BY_DECODE_US, [S2_TRAIN] = S2_BY_TRAIN_US};
    return of[phase];
}

s2_status s2_objectives_init(s2_objectives *objectives, const s2_sim_options *options, const s2_objective *by,
                             int32_t n_by)
{
    bool trains = false;
    *objectives = (s2_objectives){.options = *options, .n_by = n_by, .work_left = S2_WORK_STEPS};
    for (int32_t v = 0; v < n_by; v++) {
        objectives->by[v] = by[v];
        trains |= by[v] == S2_BY_TRAIN_US;
    }
    /* arithmetic says nothing about training, next to which the price of the rest is small */
    return trains ? S2_OK : s2_price_memo_new(options, &objectives->options.memo);
}

void s2_objectives_release(s2_objectives *objectives)
{
    s2_price_memo_free(objectives->options.memo);
    objectives->options.memo = NULL;
    s2_arena_release(&objectives->scratch);
}

static s2_status price(s2_objectives *objectives, const s2_pattern *pattern, s2_phase phase,
                       s2_fidelity fidelity, s2_sim *out)
{
    s2_sim_options options = objectives->options;
    options.phase = phase;
    options.work_left = options.work_left != NULL ? options.work_left : &objectives->work_left;
    return s2_price(&objectives->scratch, pattern, &options, fidelity, out, NULL);
}

static bool wants(const s2_objectives *objectives, s2_objective objective)
{
    for (int32_t v = 0; v < objectives->n_by; v++)
        if (objectives->by[v] == objective)
            return true;
    return false;
}

/* With more GPUs than KV heads, each GPU has a copy of one head. */
static double every_token_bytes(const s2_objectives *objectives, const s2_pattern *pattern, int64_t n_tok)
{
    const s2_sim_options *const options = &objectives->options;
    double elems = 0, states = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t n_kv_heads = s2_pattern_kv_heads(pattern, layer);
        states += (double)s2_pattern_state_bytes(pattern, layer);
        if (s2_pattern_kv_layer(pattern, layer) == layer && !s2_pattern_is_state_layer(pattern, layer))
            elems += (double)s2_max_i32(n_kv_heads, options->n_ranks) * s2_pattern_head_dim(pattern, layer);
    }
    return (2.0 * elems * (double)n_tok * s2_sim_cache_bytes(options) + states) * (double)options->batch;
}

double s2_objectives_dense_kv_bytes(const s2_objectives *objectives, const s2_pattern *pattern)
{
    const s2_sim_options *const options = &objectives->options;
    return every_token_bytes(objectives, pattern, s2_round_up(options->len_tok, options->page_tok));
}

static double cache_bytes(const s2_objectives *objectives, const s2_pattern *pattern, const s2_sim *sim)
{
    return objectives->options.keeps_all ? s2_objectives_dense_kv_bytes(objectives, pattern)
                                         : (double)sim->kv.head_pages;
}

/* One division for all ways of counting pairs; layers without attention have no pairs. */
static double unread_of(const s2_objectives *objectives, const s2_pattern *pattern, int64_t pairs)
{
    int32_t n_layers = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        n_layers += !s2_pattern_is_state_layer(pattern, layer);
    const double all = (double)s2_dense_pairs(pattern->causal, 0, objectives->options.len_tok) *
                       pattern->n_heads * n_layers * (double)objectives->options.batch;
    return n_layers > 0 ? 1 - (double)pairs / all : 0;
}

static double redundancy_of(const s2_objectives *objectives, const s2_pattern *pattern, int64_t pairs)
{
    return (1 - unread_of(objectives, pattern, pairs)) * pattern->n_heads;
}

static s2_status prove_one(s2_objectives *objectives, const s2_pattern *pattern, s2_requirement requirement,
                           s2_finding *out)
{
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = PROOF_STEPS};
    return s2_prove(&objectives->scratch, pattern, &requirement, 1, &options, out);
}

/*
 * A layer whose heads together read everything passes every key on, so the depth is one more than the
 * longest run of layers that are not proved to do so. Undecided layers count as failing; where both kinds
 * occur, each depth is tried.
 */
static s2_status price_depth(s2_objectives *objectives, const s2_pattern *pattern, double *depth)
{
    s2_finding finding;
    const s2_arena_mark_t mark = s2_arena_mark(&objectives->scratch);
    s2_status status = prove_one(objectives, pattern, (s2_requirement){.property = S2_UNION}, &finding);
    double least = pattern->n_layers + 1;
    if (status == S2_OK && (finding.verdict != S2_UNKNOWN || finding.n_failing_layers > 0))
        least = s2_finding_depth(pattern, &finding);
    while (status == S2_OK && finding.undecided && least <= pattern->n_layers) {
        s2_finding within;
        if (!s2_work_spend(&objectives->work_left, PROOF_STEPS))
            status = S2_ELIMIT;
        if (status != S2_OK)
            break;
        status = prove_one(objectives, pattern, (s2_requirement){S2_DEPTH, (int32_t)least, true}, &within);
        if (status != S2_OK || within.verdict == S2_HOLDS)
            break;
        least++;
    }
    if (status == S2_OK)
        *depth = least;
    s2_arena_rewind(&objectives->scratch, mark);
    return status;
}

s2_status s2_objectives_bound(s2_objectives *objectives, const s2_pattern *pattern, s2_quote *quote,
                              double value[S2_MAX_OBJECTIVES])
{
    s2_sim floor;
    objectives->work_left = S2_WORK_STEPS;
    S2_TRY(price(objectives, pattern, S2_PREFILL, S2_PRICE_FLOOR, &floor));
    for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++)
        value[v] = 0;
    for (int32_t v = 0; v < objectives->n_by && floor.fast; v++)
        switch (objectives->by[v]) {
        case S2_BY_PREFILL_US: value[v] = floor.floor_us[S2_PREFILL] * ROUNDING; break;
        case S2_BY_DECODE_US: value[v] = floor.floor_us[S2_DECODE] * ROUNDING; break;
        case S2_BY_KV_BYTES: value[v] = cache_bytes(objectives, pattern, &floor); break;
        case S2_BY_DENSITY: value[v] = floor.density; break;
        case S2_BY_UNREAD: value[v] = unread_of(objectives, pattern, floor.counts.pairs); break;
        case S2_BY_REDUNDANCY: value[v] = redundancy_of(objectives, pattern, floor.counts.pairs); break;
        case S2_BY_DEPTH:
        case S2_BY_HOPS:
        case S2_BY_FADING: value[v] = 1; break;
        case S2_BY_IMBALANCE: value[v] = 1 * ROUNDING; break;
        case S2_BY_DILUTION:
            S2_TRY(s2_dilution_of(&objectives->scratch, pattern, objectives->options.len_tok, &value[v]));
            break;
        default: break;
        }
    *quote = (s2_quote){.pattern = pattern, .floor = floor};
    return S2_OK;
}

static s2_status find_floors(s2_objectives *objectives, s2_quote *quote)
{
    if (quote->floored || !quote->floor.fast)
        return S2_OK;
    for (int phase = 0; phase < S2_N_PHASES; phase++) {
        s2_sim raised;
        if (!wants(objectives, s2_objective_time((s2_phase)phase)) ||
            !s2_sim_predicts(&objectives->options, (s2_phase)phase))
            continue;
        S2_TRY(price(objectives, quote->pattern, (s2_phase)phase, S2_PRICE_RAISED, &raised));
        quote->floor_us[phase] = raised.floor_us[phase];
    }
    quote->floored = true;
    return S2_OK;
}

/* Raise times to their floors. */
static void keep_floors(const s2_objectives *objectives, const s2_quote *quote,
                        double value[S2_MAX_OBJECTIVES])
{
    for (int32_t v = 0; v < objectives->n_by; v++) {
        if (objectives->by[v] == S2_BY_PREFILL_US)
            value[v] = fmax(value[v], quote->floor_us[S2_PREFILL]);
        if (objectives->by[v] == S2_BY_DECODE_US)
            value[v] = fmax(value[v], fmax(quote->decode_us, quote->floor_us[S2_DECODE]));
    }
}

static s2_status price_time(s2_objectives *objectives, const s2_pattern *pattern, s2_phase phase, double *us)
{
    s2_sim sim;
    S2_TRY(price(objectives, pattern, phase, S2_PRICE_TIME, &sim));
    *us = sim.time_us;
    return S2_OK;
}

/*
 * A cache that does not fit waits for the host; only the whole simulator knows that, and it costs too much
 * for a bound.
 */
static s2_status predict_decode(s2_objectives *objectives, s2_quote *quote)
{
    if (!quote->floor.fast || quote->decode_us > 0 || !wants(objectives, S2_BY_DECODE_US) ||
        !s2_sim_predicts(&objectives->options, S2_DECODE) || quote->floor.host_bytes > 0)
        return S2_OK;
    return price_time(objectives, quote->pattern, S2_DECODE, &quote->decode_us);
}

s2_status s2_objectives_refine(s2_objectives *objectives, s2_quote *quote, int32_t step,
                               double value[S2_MAX_OBJECTIVES])
{
    S2_TRY(step == 0 ? find_floors(objectives, quote) : predict_decode(objectives, quote));
    keep_floors(objectives, quote, value);
    return S2_OK;
}

/* What exact values are computed from, whichever way these were found. */
typedef struct prices {
    double prefill_us;
    double decode_us;
    double train_us;
    double kv_bytes;
    double density;
    double imbalance;
    double unread;
    double redundancy;
    double depth;
    double loss;
    double unrecalled;
    double dilution;
    double hops;
    double fading;
} prices;

static s2_status price_worth(s2_objectives *objectives, const s2_pattern *pattern, prices *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(&objectives->scratch);
    s2_worth worth = {0};
    const s2_status status =
        s2_worth_figures(&objectives->scratch, pattern, objectives->options.len_tok, &worth);
    s2_arena_rewind(&objectives->scratch, mark);
    S2_TRY(status);
    out->loss = worth.loss;
    out->unrecalled = 1 - worth.recall;
    return worth.not_judged == NULL ? S2_OK : S2_ELIMIT;
}

/* Where union is proved of every layer, the depth is one layer at any length, and nothing has to be counted. */
static s2_status price_hops(s2_objectives *objectives, const s2_pattern *pattern, double *hops)
{
    s2_finding finding;
    const s2_arena_mark_t mark = s2_arena_mark(&objectives->scratch);
    bool complete = true;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        complete = complete && !s2_pattern_is_state_layer(pattern, layer);
    if (complete)
        S2_TRY(prove_one(objectives, pattern, (s2_requirement){.property = S2_UNION}, &finding));
    complete = complete && finding.verdict == S2_HOLDS && finding.scope_tok == S2_OPEN;
    s2_arena_rewind(&objectives->scratch, mark);
    *hops = 1;
    return complete ? S2_OK : s2_hops_of(&objectives->scratch, pattern, objectives->options.len_tok, hops);
}

static s2_status price_fading(s2_objectives *objectives, const s2_pattern *pattern, double *fading)
{
    double flow;
    S2_TRY(s2_least_flow_of(&objectives->scratch, pattern, objectives->options.len_tok, &flow));
    *fading = s2_flow_fading(flow);
    return S2_OK;
}

/* How information moves through the layers. */
static s2_status price_spread(s2_objectives *objectives, const s2_pattern *pattern, prices *out)
{
    const int64_t n_tok = objectives->options.len_tok;
    if (wants(objectives, S2_BY_DEPTH))
        S2_TRY(price_depth(objectives, pattern, &out->depth));
    if (wants(objectives, S2_BY_HOPS))
        S2_TRY(price_hops(objectives, pattern, &out->hops));
    if (wants(objectives, S2_BY_FADING))
        S2_TRY(price_fading(objectives, pattern, &out->fading));
    if (wants(objectives, S2_BY_DILUTION))
        S2_TRY(s2_dilution_of(&objectives->scratch, pattern, n_tok, &out->dilution));
    return S2_OK;
}

/* What prefill reads, and its plan if that is needed or is the only way to count. */
static s2_status price_reads(s2_objectives *objectives, const s2_quote *quote, prices *out)
{
    s2_sim plan = quote->floor;
    const bool timed = wants(objectives, S2_BY_PREFILL_US) || wants(objectives, S2_BY_IMBALANCE);
    const bool counted = wants(objectives, S2_BY_DENSITY) || wants(objectives, S2_BY_UNREAD) ||
                         wants(objectives, S2_BY_REDUNDANCY);
    if (timed || (counted && !plan.fast))
        S2_TRY(price(objectives, quote->pattern, S2_PREFILL, S2_PRICE_PLAN, &plan));
    out->prefill_us = plan.plan_us;
    out->density = plan.density;
    out->imbalance = plan.imbalance;
    out->unread = unread_of(objectives, quote->pattern, plan.counts.pairs);
    out->redundancy = redundancy_of(objectives, quote->pattern, plan.counts.pairs);
    return S2_OK;
}

static s2_status price_cache(s2_objectives *objectives, const s2_quote *quote, prices *out)
{
    s2_sim cache = quote->floor;
    if (!cache.fast && !objectives->options.keeps_all && wants(objectives, S2_BY_KV_BYTES))
        S2_TRY(price(objectives, quote->pattern, S2_DECODE, S2_PRICE_CACHE, &cache));
    out->kv_bytes = cache_bytes(objectives, quote->pattern, &cache);
    return S2_OK;
}

static s2_status price_times(s2_objectives *objectives, const s2_quote *quote, prices *out)
{
    if (wants(objectives, S2_BY_PREFILL_US) && s2_sim_predicts(&objectives->options, S2_PREFILL))
        S2_TRY(price_time(objectives, quote->pattern, S2_PREFILL, &out->prefill_us));
    if (quote->decode_us > 0)
        out->decode_us = quote->decode_us;
    else if (wants(objectives, S2_BY_DECODE_US))
        S2_TRY(price_time(objectives, quote->pattern, S2_DECODE, &out->decode_us));
    if (wants(objectives, S2_BY_TRAIN_US))
        S2_TRY(price_time(objectives, quote->pattern, S2_TRAIN, &out->train_us));
    return S2_OK;
}

s2_status s2_objectives_exact(s2_objectives *objectives, s2_quote *quote, double value[S2_MAX_OBJECTIVES])
{
    prices own = {0};
    S2_TRY(find_floors(objectives, quote));
    S2_TRY(price_reads(objectives, quote, &own));
    S2_TRY(price_cache(objectives, quote, &own));
    S2_TRY(price_times(objectives, quote, &own));
    S2_TRY(price_spread(objectives, quote->pattern, &own));
    if (wants(objectives, S2_BY_LOSS) || wants(objectives, S2_BY_UNRECALLED))
        S2_TRY(price_worth(objectives, quote->pattern, &own));
    const double all[S2_N_OBJECTIVES] = {
        own.prefill_us, own.decode_us, own.train_us, own.kv_bytes,   own.density,  own.imbalance, own.unread,
        own.redundancy, own.depth,     own.loss,     own.unrecalled, own.dilution, own.hops,      own.fading};
    for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++)
        value[v] = v < objectives->n_by ? all[objectives->by[v]] : 0;
    keep_floors(objectives, quote, value);
    return S2_OK;
}
