#include "search/price.h"

#include <math.h>

#include "base/alloc.h"
#include "coverage/prove.h"
#include "reach/worth.h"
#include "sim/attention.h"
#include "sim/capacity.h"
#include "sim/kv.h"
#include "sim/states.h"

enum { PROOF_STEPS = 10000000 };
enum { N_FAST = sizeof((s2_pricer *)0)->fast / sizeof((s2_pricer *)0)->fast[0] };

/* Both sides of a bound are sums of doubles; this is far above their rounding. */
#define ROUNDING (1 - 1e-9)

const char *s2_objective_word(s2_objective objective)
{
    static const char *const words[] = {"prefill_us", "decode_us", "train_us",  "kv_bytes",
                                        "density",    "imbalance", "unread",    "redundancy",
                                        "depth",      "loss",      "unrecalled"};
    return objective >= 0 && objective < S2_N_OBJECTIVES ? words[objective] : "";
}

s2_objective s2_objective_time(s2_phase phase)
{
    static const s2_objective of[S2_N_PHASES] = {
        [S2_PREFILL] = S2_BY_PREFILL_US, [S2_DECODE] = S2_BY_DECODE_US, [S2_TRAIN] = S2_BY_TRAIN_US};
    return of[phase];
}

void s2_pricer_init(s2_pricer *pricer, const s2_sim_options *options, const s2_objective *by, int32_t n_by)
{
    *pricer = (s2_pricer){.options = *options, .n_by = n_by};
    pricer->options.phase = S2_PREFILL;
    for (int32_t v = 0; v < n_by; v++)
        pricer->by[v] = by[v];
}

void s2_pricer_release(s2_pricer *pricer)
{
    for (int32_t f = 0; f < pricer->n_fast; f++) {
        s2_free(pricer->fast[f]);
        s2_predictor_free(pricer->predictor[f]);
    }
    pricer->n_fast = 0;
    s2_arena_release(&pricer->scratch);
}

static bool same_shape(const s2_fast *fast, const s2_pattern *pattern)
{
    return fast->n_layers == pattern->n_layers && fast->n_heads == pattern->n_heads &&
           fast->n_kv_heads == pattern->n_kv_heads && fast->head_dim == pattern->head_dim &&
           fast->block_tok == pattern->block_tok;
}

static double imbalance_of(const s2_fast *fast, int64_t busiest_steps, int64_t steps)
{
    return (double)busiest_steps / ((double)steps / fast->options.gpu.sms);
}

/* Of a layer whose heads are all dense. */
static double price_dense_imbalance(s2_fast *fast)
{
    const s2_candidate dense = {.local_blk = 1, .n_dense_kv = fast->n_kv_heads};
    s2_fast_cost cost;
    s2_fast_exact(fast, &dense, &cost);
    return imbalance_of(fast, cost.busiest_steps, cost.steps / fast->n_layers);
}

/* One for each shape; -1 when the shape is none of sim/fast.h or there are too many. */
static s2_status find_fast(s2_pricer *pricer, const s2_pattern *pattern, int32_t *out)
{
    *out = -1;
    for (int32_t f = 0; f < pricer->n_fast; f++)
        if (same_shape(pricer->fast[f], pattern)) {
            *out = f;
            return S2_OK;
        }
    if (pricer->n_fast == N_FAST)
        return S2_OK;
    s2_fast *const fast = s2_malloc(sizeof *fast);
    if (fast == NULL)
        return S2_ENOMEM;
    if (s2_fast_init(pattern, &pricer->options, fast) != S2_OK) {
        s2_free(fast);
        return S2_OK;
    }
    pricer->predictor[pricer->n_fast] = NULL;
    if (s2_predictor_applies(&pricer->options, S2_PREFILL)) {
        const s2_status status =
            s2_predictor_new(pattern, &pricer->options, &pricer->predictor[pricer->n_fast]);
        if (status != S2_OK) {
            s2_free(fast);
            return status;
        }
    }
    pricer->dense_imbalance[pricer->n_fast] = price_dense_imbalance(fast);
    pricer->fast[pricer->n_fast] = fast;
    *out = pricer->n_fast++;
    return S2_OK;
}

/* Head pages hold exactly the resident keys when blocks and the context are whole pages. */
static bool pages_are_exact(const s2_pricer *pricer, const s2_pattern *pattern)
{
    return pattern->block_tok % pricer->options.page_tok == 0 &&
           pricer->options.len_tok % pricer->options.page_tok == 0;
}

static bool wants(const s2_pricer *pricer, s2_objective objective)
{
    for (int32_t v = 0; v < pricer->n_by; v++)
        if (pricer->by[v] == objective)
            return true;
    return false;
}

static double slot_bytes(const s2_pricer *pricer, const s2_pattern *pattern)
{
    return 2.0 * pattern->head_dim * s2_dtype_bytes(pricer->options.dtype) * (double)pricer->options.batch;
}

double s2_price_dense_kv_bytes(const s2_pricer *pricer, const s2_pattern *pattern)
{
    const s2_sim_options *const options = &pricer->options;
    double elems = 0, states = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        states += (double)s2_pattern_state_bytes(pattern, layer);
        if (s2_pattern_kv_layer(pattern, layer) == layer && !s2_pattern_is_state_layer(pattern, layer))
            elems += (double)s2_pattern_kv_heads(pattern, layer) * s2_pattern_head_dim(pattern, layer);
    }
    return (2.0 * elems * (double)options->len_tok * s2_dtype_bytes(options->dtype) + states) *
           (double)options->batch;
}

/* The token that is decoded reads every resident key, and each layer is launched. */
static double decode_bound(const s2_pricer *pricer, const s2_pattern *pattern, const s2_fast_cost *cost)
{
    const s2_gpu *const gpu = &pricer->options.gpu;
    return (double)cost->kv_slots * slot_bytes(pricer, pattern) / (gpu->hbm_gb_s * 1e3) +
           gpu->launch_us * pattern->n_layers;
}

/* The same division for every way of counting the pairs; layers without attention have none. */
static double unread_of(const s2_pricer *pricer, const s2_pattern *pattern, int64_t pairs)
{
    int32_t n_layers = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        n_layers += !s2_pattern_is_state_layer(pattern, layer);
    const double all = (double)s2_dense_pairs(pattern->causal, pricer->options.len_tok) * pattern->n_heads *
                       n_layers * (double)pricer->options.batch;
    return n_layers > 0 ? 1 - (double)pairs / all : 0;
}

static double redundancy_of(const s2_pricer *pricer, const s2_pattern *pattern, int64_t pairs)
{
    return (1 - unread_of(pricer, pattern, pairs)) * pattern->n_heads;
}

static s2_status prove_one(s2_pricer *pricer, const s2_pattern *pattern, s2_requirement requirement,
                           s2_finding *out)
{
    const s2_prove_options options = {.n_tok = S2_OPEN, .work_limit = PROOF_STEPS};
    return s2_prove(&pricer->scratch, pattern, &requirement, 1, &options, out);
}

/* One more than the longest run of layers that fail, or keep a state and no keys: those pass no key on either. */
static double depth_by_runs(const s2_pattern *pattern, const s2_finding *finding)
{
    int32_t run = 0, longest = 0, next = 0;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const bool fails = next < finding->n_failing_layers && finding->failing_layers[next] == layer;
        next += fails;
        run = fails || s2_pattern_is_state_layer(pattern, layer) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest + 1;
}

/*
 * A layer whose heads together read everything passes every key on, so the depth is one more than the
 * longest run of layers that are not proved to. Layers that are not decided count as those that fail, and
 * where both occur each depth is asked for.
 */
static s2_status price_depth(s2_pricer *pricer, const s2_pattern *pattern, double *depth)
{
    s2_finding finding;
    const s2_arena_mark_t mark = s2_arena_mark(&pricer->scratch);
    s2_status status = prove_one(pricer, pattern, (s2_requirement){.property = S2_UNION}, &finding);
    double least = pattern->n_layers + 1;
    if (status == S2_OK && (finding.verdict != S2_UNKNOWN || finding.n_failing_layers > 0))
        least = depth_by_runs(pattern, &finding);
    while (status == S2_OK && finding.undecided && least <= pattern->n_layers) {
        s2_finding within;
        status = prove_one(pricer, pattern, (s2_requirement){S2_DEPTH, (int32_t)least, true}, &within);
        if (status != S2_OK || within.verdict == S2_HOLDS)
            break;
        least++;
    }
    if (status == S2_OK)
        *depth = least;
    s2_arena_rewind(&pricer->scratch, mark);
    return status;
}

s2_status s2_price_bound(s2_pricer *pricer, const s2_pattern *pattern, s2_quote *quote,
                         double value[S2_MAX_OBJECTIVES])
{
    s2_quote own = {.pattern = pattern, .fast = -1};
    s2_fast_cost cost = {0};
    if (!wants(pricer, S2_BY_TRAIN_US) && pages_are_exact(pricer, pattern) &&
        s2_candidate_of(pattern, &own.candidate))
        S2_TRY(find_fast(pricer, pattern, &own.fast));
    const bool known = own.fast >= 0;
    if (known)
        s2_fast_bound(pricer->fast[own.fast], &own.candidate, &cost);
    own.kv_slots = cost.kv_slots;
    for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++)
        value[v] = 0;
    for (int32_t v = 0; v < pricer->n_by && known; v++)
        switch (pricer->by[v]) {
        case S2_BY_PREFILL_US: value[v] = cost.bound_us * ROUNDING; break;
        case S2_BY_DECODE_US: value[v] = decode_bound(pricer, pattern, &cost) * ROUNDING; break;
        case S2_BY_KV_BYTES: value[v] = (double)cost.kv_slots * slot_bytes(pricer, pattern); break;
        case S2_BY_DENSITY: value[v] = cost.density; break;
        case S2_BY_UNREAD: value[v] = unread_of(pricer, pattern, cost.pairs); break;
        case S2_BY_REDUNDANCY: value[v] = redundancy_of(pricer, pattern, cost.pairs); break;
        case S2_BY_DEPTH: value[v] = 1; break;
        case S2_BY_IMBALANCE: value[v] = 1 * ROUNDING; break;
        default: break;
        }
    *quote = own;
    return S2_OK;
}

static s2_status find_floors(s2_pricer *pricer, s2_quote *quote)
{
    if (quote->floored || quote->fast < 0 || pricer->predictor[quote->fast] == NULL)
        return S2_OK;
    for (int phase = 0; phase < S2_N_PHASES; phase++)
        if (wants(pricer, s2_objective_time((s2_phase)phase)) &&
            s2_predictor_applies(&pricer->options, (s2_phase)phase))
            S2_TRY(s2_predictor_floor(pricer->predictor[quote->fast], &pricer->scratch, quote->pattern,
                                      &quote->candidate, (s2_phase)phase, quote->kv_slots,
                                      &quote->floor_us[phase]));
    quote->floored = true;
    return S2_OK;
}

/* Raise times to their floors. */
static void keep_floors(const s2_pricer *pricer, const s2_quote *quote, double value[S2_MAX_OBJECTIVES])
{
    for (int32_t v = 0; v < pricer->n_by; v++) {
        if (pricer->by[v] == S2_BY_PREFILL_US)
            value[v] = fmax(value[v], quote->floor_us[S2_PREFILL]);
        if (pricer->by[v] == S2_BY_DECODE_US)
            value[v] = fmax(value[v], fmax(quote->decode_us, quote->floor_us[S2_DECODE]));
    }
}

/* A cache that does not fit waits for the host: the whole simulator knows how long. */
static bool spills(const s2_pricer *pricer, double kv_bytes)
{
    return kv_bytes > s2_capacity_room(&pricer->options);
}

static s2_status price_spilled(s2_pricer *pricer, const s2_pattern *pattern, double *us)
{
    s2_sim_options options = pricer->options;
    s2_sim sim;
    options.phase = S2_DECODE;
    S2_TRY(s2_sim_run(&pricer->scratch, pattern, &options, &sim, NULL));
    *us = sim.time_us;
    return S2_OK;
}

static s2_status price_phase(s2_pricer *pricer, const s2_pattern *pattern, s2_phase phase, s2_attention *out)
{
    s2_sim_options options = pricer->options;
    s2_classes classes;
    options.phase = phase;
    const s2_arena_mark_t mark = s2_arena_mark(&pricer->scratch);
    s2_status status = s2_classes_build(&pricer->scratch, pattern, s2_phase_rules(phase), &classes);
    int64_t work_left = S2_SIM_WORK;
    classes.work_left = &work_left;
    if (status == S2_OK)
        status =
            s2_attention_price(&pricer->scratch, &classes, &options, s2_tile_shape_default(pattern), out);
    if (status == S2_OK)
        out->time_us += s2_states_of(pattern, &options).us;
    s2_arena_rewind(&pricer->scratch, mark);
    return status;
}

static s2_status count_kv(s2_pricer *pricer, const s2_pattern *pattern, double *bytes)
{
    s2_classes classes;
    s2_kv_elems elems;
    const s2_sim_options *const options = &pricer->options;
    const s2_arena_mark_t mark = s2_arena_mark(&pricer->scratch);
    s2_status status = s2_classes_build(&pricer->scratch, pattern, S2_DECODE, &classes);
    int64_t work_left = S2_SIM_WORK;
    classes.work_left = &work_left;
    if (status == S2_OK)
        status = s2_kv_count(&classes, options->len_tok, options->page_tok, &elems);
    s2_arena_rewind(&pricer->scratch, mark);
    S2_TRY(status);
    *bytes = (double)s2_kv_elems_bytes(&elems, s2_dtype_bytes(options->dtype), options->batch).head_pages;
    return S2_OK;
}

static s2_status price_decode(s2_pricer *pricer, s2_predictor *predictor, const s2_pattern *pattern,
                              double kv_bytes, double *us)
{
    s2_attention attention;
    if (spills(pricer, kv_bytes))
        return price_spilled(pricer, pattern, us);
    if (s2_predictor_applies(&pricer->options, S2_DECODE))
        return s2_predictor_time(predictor, &pricer->scratch, pattern, &pricer->options, S2_DECODE, us);
    S2_TRY(price_phase(pricer, pattern, S2_DECODE, &attention));
    *us = attention.time_us + attention.select_us;
    return S2_OK;
}

static s2_status predict_decode(s2_pricer *pricer, s2_quote *quote)
{
    const double kv_bytes = (double)quote->kv_slots * slot_bytes(pricer, quote->pattern);
    if (quote->fast < 0 || quote->decode_us > 0 || !wants(pricer, S2_BY_DECODE_US) ||
        !s2_predictor_applies(&pricer->options, S2_DECODE) || spills(pricer, kv_bytes))
        return S2_OK;
    return price_decode(pricer, pricer->predictor[quote->fast], quote->pattern, kv_bytes, &quote->decode_us);
}

s2_status s2_price_refine(s2_pricer *pricer, s2_quote *quote, int32_t step, double value[S2_MAX_OBJECTIVES])
{
    S2_TRY(step == 0 ? find_floors(pricer, quote) : predict_decode(pricer, quote));
    keep_floors(pricer, quote, value);
    return S2_OK;
}

/* What the exact values are taken from, however it was computed. */
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
} prices;

static s2_status price_worth(s2_pricer *pricer, const s2_pattern *pattern, prices *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(&pricer->scratch);
    s2_stack stack;
    s2_worth worth = {0};
    s2_status status = s2_stack_build(&pricer->scratch, pattern, S2_PREFILL, pricer->options.len_tok, &stack);
    if (status == S2_OK)
        status = s2_worth_judge(&pricer->scratch, &stack, &worth);
    s2_arena_rewind(&pricer->scratch, mark);
    S2_TRY(status);
    out->loss = worth.loss;
    out->unrecalled = 1 - worth.recall;
    return worth.not_judged == NULL ? S2_OK : S2_ELIMIT;
}

static s2_status price_fast(s2_pricer *pricer, const s2_quote *quote, prices *out)
{
    s2_fast *const fast = pricer->fast[quote->fast];
    const s2_candidate *const candidate = &quote->candidate;
    s2_fast_cost cost;
    if (wants(pricer, S2_BY_PREFILL_US) || wants(pricer, S2_BY_IMBALANCE))
        s2_fast_exact(fast, candidate, &cost);
    else
        s2_fast_bound(fast, candidate, &cost);
    out->prefill_us = cost.time_us;
    out->density = cost.density;
    out->unread = unread_of(pricer, quote->pattern, cost.pairs);
    out->redundancy = redundancy_of(pricer, quote->pattern, cost.pairs);
    out->kv_bytes = (double)cost.kv_slots * slot_bytes(pricer, quote->pattern);
    const int64_t n_sparse = fast->n_layers - candidate->n_dense_layers;
    const int64_t steps = (cost.steps - fast->dense_steps * candidate->n_dense_layers) / n_sparse;
    /* no layer has more work than a dense one */
    out->imbalance = candidate->n_dense_layers > 0 ? pricer->dense_imbalance[quote->fast]
                                                   : imbalance_of(fast, cost.busiest_steps, steps);
    return S2_OK;
}

static s2_status price_slowly(s2_pricer *pricer, const s2_quote *quote, prices *out)
{
    s2_attention attention;
    if (wants(pricer, S2_BY_PREFILL_US) || wants(pricer, S2_BY_IMBALANCE) || wants(pricer, S2_BY_DENSITY) ||
        wants(pricer, S2_BY_UNREAD) || wants(pricer, S2_BY_REDUNDANCY)) {
        S2_TRY(price_phase(pricer, quote->pattern, S2_PREFILL, &attention));
        out->prefill_us = attention.time_us + attention.select_us;
        out->density = attention.density;
        out->imbalance = attention.imbalance;
        out->unread = unread_of(pricer, quote->pattern, attention.counts.pairs);
        out->redundancy = redundancy_of(pricer, quote->pattern, attention.counts.pairs);
    }
    return count_kv(pricer, quote->pattern, &out->kv_bytes);
}

s2_status s2_price_exact(s2_pricer *pricer, s2_quote *quote, double value[S2_MAX_OBJECTIVES])
{
    prices own = {0};
    s2_predictor *const predictor = quote->fast >= 0 ? pricer->predictor[quote->fast] : NULL;
    S2_TRY(find_floors(pricer, quote));
    S2_TRY(quote->fast >= 0 ? price_fast(pricer, quote, &own) : price_slowly(pricer, quote, &own));
    if (wants(pricer, S2_BY_PREFILL_US) && s2_predictor_applies(&pricer->options, S2_PREFILL))
        S2_TRY(s2_predictor_time(predictor, &pricer->scratch, quote->pattern, &pricer->options, S2_PREFILL,
                                 &own.prefill_us));
    if (quote->decode_us > 0)
        own.decode_us = quote->decode_us;
    else if (wants(pricer, S2_BY_DECODE_US))
        S2_TRY(price_decode(pricer, predictor, quote->pattern, own.kv_bytes, &own.decode_us));
    if (wants(pricer, S2_BY_TRAIN_US)) {
        s2_attention attention;
        S2_TRY(price_phase(pricer, quote->pattern, S2_TRAIN, &attention));
        own.train_us = attention.time_us + attention.select_us;
    }
    if (wants(pricer, S2_BY_DEPTH))
        S2_TRY(price_depth(pricer, quote->pattern, &own.depth));
    if (wants(pricer, S2_BY_LOSS) || wants(pricer, S2_BY_UNRECALLED))
        S2_TRY(price_worth(pricer, quote->pattern, &own));
    const double all[S2_N_OBJECTIVES] = {own.prefill_us, own.decode_us, own.train_us,  own.kv_bytes,
                                         own.density,    own.imbalance, own.unread,    own.redundancy,
                                         own.depth,      own.loss,      own.unrecalled};
    for (int32_t v = 0; v < S2_MAX_OBJECTIVES; v++)
        value[v] = v < pricer->n_by ? all[pricer->by[v]] : 0;
    keep_floors(pricer, quote, value);
    return S2_OK;
}
