#include "sim/memo.h"
#include "sim/time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "sim/attention.h"
#include "sim/scores.h"
#include "sim/share.h"

/* ---- one layer on one GPU */

/* How a time was found. */
typedef enum s2_found {
    S2_FOUND_BOUND,   /* it is the plan's */
    S2_FOUND_BY_PLAN, /* it is predicted */
    S2_FOUND_BY_DENSE /* nobody plans the pattern: it is the dense pattern's time, as the bounds compare */
} s2_found;

/* One class of layers on one GPU, for all of its layers. */
typedef struct s2_layer_time {
    s2_attention bounds;
    double us[S2_N_PASSES];
    s2_found found;
    bool too_long;                     /* to plan, so that it was found otherwise */
    s2_bytes bytes;                    /* unless it is the bound */
    s2_launch_price made[S2_N_PASSES]; /* by plan */
} s2_layer_time;

/* One GPU of those that share the heads: what it may still plan does not depend on what the others plan. */
typedef struct s2_planner {
    s2_found found; /* of all its layers */
    int64_t work_left;
    bool too_long; /* a layer took more, so none is planned */
} s2_planner;

/* Sums over the layers. */
typedef struct s2_total {
    s2_attention slowest;   /* counts: of all GPUs; times and busy: of each layer's slowest GPU */
    double us[S2_N_PASSES]; /* of each layer's slowest GPU */
    double backward_us;     /* of the plan */
    s2_resource by[S2_N_PASSES];
    const char *kernel;
    double greatest_us; /* of one layer */
    double clock_mhz;
    double imbalance;
    s2_error error;    /* the worst of all launches, figure by figure */
    uint32_t passes;   /* that have one, as bits */
    s2_far far;        /* of the farthest launch */
    s2_scored scored;  /* the worst */
    s2_others runs_on; /* of launches that other kernels run */
    s2_bytes bytes;    /* of all GPUs */
    double *rank_us;
    double *rank_read;
    double *rank_bytes;
    double *rank_flop;
} s2_total;

/* The pattern, or the dense one that it is compared with. */
typedef struct s2_side {
    s2_arena *arena;
    const s2_classes *classes;
    const s2_head_counts *counts;
    const s2_sim_options *options;
    s2_tile_shape tile;
    bool predicted; /* times are predictions, or may be */
    bool is_dense;
    const s2_total *dense; /* of the pattern: what the dense one takes; NULL: this is the dense one */
    s2_planner *planners;  /* [GPU] */
    int64_t work_left;     /* for planning, of all GPUs together */
} s2_side;

static s2_pass first_pass(const s2_sim_options *options)
{
    return options->phase == S2_DECODE ? S2_PASS_DECODE : S2_PASS_FORWARD;
}

static s2_status predict_alike(s2_arena *scratch, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                               s2_pass pass, const s2_sim_options *options, int64_t *work_left,
                               s2_launch_price *out)
{
    const s2_launch launch = {.pattern = pattern,
                              .phase = phase,
                              .layer = layer,
                              .pass = pass,
                              .q_tok = (int32_t)(options->len_tok - s2_sim_first_tok(options)),
                              .k_tok = (int32_t)options->len_tok,
                              .batch = (int32_t)options->batch,
                              .dtype = options->dtype,
                              .scores = s2_scores_of(options, pattern),
                              .gpu = options->calibration->head.gpu,
                              .listed = options->listed && pass == S2_PASS_FORWARD &&
                                        !s2_pattern_is_dense(pattern, phase, layer),
                              .work_left = work_left};
    const s2_status status = s2_predict_can_plan(&launch)
                                 ? s2_predict_launch(scratch, &options->calibration->model, &launch, out)
                                 : S2_ELIMIT;
    if (status != S2_ELIMIT)
        return status;
    *work_left = -1;
    return S2_EUNSUPPORTED;
}

/* A plan has one shape for all layers: a layer with its own is planned as a pattern of one layer. */
s2_status s2_sim_predict_layer(s2_arena *scratch, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                               s2_pass pass, const s2_sim_options *options, int64_t *work_left,
                               s2_launch_price *out)
{
    if (!s2_pattern_layers_differ(pattern))
        return predict_alike(scratch, pattern, phase, layer, pass, options, work_left, out);
    s2_share_heads all;
    s2_pattern alone;
    const int32_t n_heads = pattern->n_heads;
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_status status = s2_share_deal(scratch, n_heads, n_heads, 1, 0, NULL, &all);
    if (status == S2_OK)
        status = s2_share_pattern(scratch, pattern, phase, layer, &all, &alone);
    if (status == S2_OK)
        status = predict_alike(scratch, &alone, phase, 0, pass, options, work_left, out);
    s2_arena_rewind(scratch, mark);
    return status;
}

/* The same for somebody else's kernel, for which no plan is made. */
static s2_status predict_peer(s2_side *side, const s2_share *share, s2_layer_time *time)
{
    const s2_sim_options *const options = side->options;
    const bool train = options->phase == S2_TRAIN;
    for (int32_t n = 0; n < (train ? 2 : 1); n++) {
        const s2_pass pass = n == 0 ? first_pass(options) : S2_PASS_BACKWARD;
        const s2_peer_launch launch = {.classes = &share->classes,
                                       .layer = &share->classes.layers[0],
                                       .pass = pass,
                                       .is_dense = side->is_dense,
                                       .q_tok = options->len_tok - s2_sim_first_tok(options),
                                       .len_tok = options->len_tok,
                                       .batch = options->batch};
        S2_TRY(s2_peer_price(side->arena, options->peer, &launch, &options->gpu, &time->made[pass]));
        time->made[pass].scored = S2_SCORED_NOT; /* no row says what it was measured with */
        time->us[pass] = time->made[pass].forecast.us * share->classes.layers[0].n_layers;
    }
    return S2_OK;
}

static s2_status predict_share(s2_side *side, int32_t c, const s2_share_heads *heads, int64_t *work_left,
                               s2_layer_time *time)
{
    const s2_classes *const whole = side->classes;
    const s2_layer_class *const layer = &whole->layers[c];
    const s2_pattern *pattern = whole->pattern;
    s2_pattern share;
    int32_t first = layer->first_layer;
    if (heads->n_heads < pattern->n_heads) {
        S2_TRY(s2_share_pattern(side->arena, pattern, whole->phase, first, heads, &share));
        pattern = &share;
        first = 0;
    }
    const s2_pass pass = first_pass(side->options);
    const bool train = side->options->phase == S2_TRAIN;
    for (int32_t n = 0; n < (train ? 2 : 1); n++) {
        const s2_pass own = n == 0 ? pass : S2_PASS_BACKWARD;
        S2_TRY(s2_sim_predict_layer(side->arena, pattern, whole->phase, first, own, side->options, work_left,
                                    &time->made[own]));
        time->us[own] = time->made[own].forecast.us * layer->n_layers;
    }
    return S2_OK;
}

/* No constant is fitted to a cache of another type: scale the time of its own as the bound scales. */
static s2_status scale_to_cache(s2_side *side, const s2_share *share, s2_layer_time *time)
{
    s2_sim_options own = *side->options;
    s2_attention same;
    if (own.phase != S2_DECODE || !s2_sim_cache_differs(&own))
        return S2_OK;
    own.cache = S2_CACHE_AS_DTYPE;
    S2_TRY(s2_attention_price_counted(side->arena, &share->classes, side->counts, &own, side->tile, &same));
    const double ratio = time->bounds.time_us / same.time_us;
    s2_launch_price *const made = &time->made[S2_PASS_DECODE];
    time->us[S2_PASS_DECODE] *= ratio;
    made->forecast.bytes.dram_read *= ratio;
    made->forecast.bytes.l2 *= ratio;
    made->error.pct = fmax(made->error.pct, S2_GUESS_PCT);
    made->error.allowed = true;
    made->error.causes |= S2_CAUSE_CACHE;
    return S2_OK;
}

/* A pattern without a plan takes its own bound times the dense pattern's time over the dense bound. */
static void guess_by_dense(const s2_side *side, s2_layer_time *out)
{
    const s2_total *const dense = side->dense;
    const double share = out->bounds.time_us / dense->slowest.time_us, each = share / side->options->n_ranks;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        out->us[pass] = dense->us[pass] * share;
    out->bytes =
        (s2_bytes){dense->bytes.dram_read * each, dense->bytes.dram_write * each, dense->bytes.l2 * each};
}

static void add_bytes(const s2_forecast *forecast, int32_t n, s2_bytes *sum)
{
    sum->dram_read += forecast->bytes.dram_read * n;
    sum->dram_write += forecast->bytes.dram_write * n;
    sum->l2 += forecast->bytes.l2 * n;
}

/* S2_EUNSUPPORTED where there is no plan: its terms choose at run time, or planning would exceed what is left. */
static s2_status predict(s2_side *side, int32_t c, const s2_share_heads *heads, const s2_share *share,
                         s2_planner *planner, s2_layer_time *out)
{
    const int64_t allowed = s2_min_i64(planner->work_left, side->work_left);
    int64_t left = allowed;
    const s2_status status = side->options->peer != NULL ? predict_peer(side, share, out)
                                                         : predict_share(side, c, heads, &left, out);
    const int64_t spent = left < 0 ? allowed : allowed - left;
    planner->work_left -= spent;
    planner->too_long = status == S2_EUNSUPPORTED && left < 0;
    side->work_left -= spent;
    if (!s2_work_spend(side->options->plan_left, spent))
        return S2_ELIMIT;
    S2_TRY(status);
    S2_TRY(scale_to_cache(side, share, out));
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        add_bytes(&out->made[pass].forecast, side->classes->layers[c].n_layers, &out->bytes);
    return S2_OK;
}

static s2_status price_share(s2_side *side, int32_t c, const s2_share_heads *heads, s2_planner *planner,
                             s2_layer_time *out)
{
    s2_share share;
    const s2_arena_mark_t mark = s2_arena_mark(side->arena);
    S2_TRY(s2_share_classes(side->arena, side->classes, heads, c, c + 1, &share));
    S2_TRY(s2_attention_price_counted(side->arena, &share.classes, side->counts, side->options, side->tile,
                                      &out->bounds));
    if (planner->found == S2_FOUND_BY_PLAN) {
        const s2_status status = predict(side, c, heads, &share, planner, out);
        if (status == S2_EUNSUPPORTED)
            planner->found = side->dense != NULL ? S2_FOUND_BY_DENSE : S2_FOUND_BOUND;
        else if (status != S2_OK)
            return status;
    }
    out->found = planner->found;
    out->too_long = planner->too_long;
    if (out->found == S2_FOUND_BY_DENSE)
        guess_by_dense(side, out);
    if (out->found == S2_FOUND_BOUND) {
        out->us[first_pass(side->options)] = out->bounds.forward_us;
        out->us[S2_PASS_BACKWARD] = out->bounds.time_us - out->bounds.forward_us;
    }
    s2_arena_rewind(side->arena, mark);
    return S2_OK;
}

static double sum_of(const double us[S2_N_PASSES])
{
    return us[S2_PASS_FORWARD] + us[S2_PASS_BACKWARD] + us[S2_PASS_DECODE];
}

/* ---- all GPUs */

/* GPUs with the same heads are priced once. */
typedef struct s2_deal {
    s2_share_heads *heads; /* n_ranks entries */
    s2_layer_time *times;  /* of the GPUs that differ */
    int32_t *like;         /* [GPU]: its entry in `times` */
    int32_t *first;        /* [entry in `times`]: its first GPU */
    s2_planner *before;    /* ... and what that could still plan */
    int32_t n_times;
} s2_deal;

/* How the KV heads of a class of layers are dealt out. */
static s2_status deal_new(s2_side *side, int32_t c, const int32_t *order, s2_deal *out)
{
    const int32_t n = side->options->n_ranks, n_heads = side->classes->pattern->n_heads,
                  n_kv = side->classes->layers[c].n_kv_heads;
    s2_deal deal = {.heads = S2_NEW(side->arena, s2_share_heads, n),
                    .times = S2_NEW(side->arena, s2_layer_time, n),
                    .like = S2_NEW(side->arena, int32_t, n),
                    .first = S2_NEW(side->arena, int32_t, n),
                    .before = S2_NEW(side->arena, s2_planner, n)};
    if (deal.heads == NULL || deal.times == NULL || deal.like == NULL || deal.first == NULL ||
        deal.before == NULL)
        return S2_ENOMEM;
    for (int32_t rank = 0; rank < n; rank++)
        S2_TRY(s2_share_deal(side->arena, n_heads, n_kv, n, rank, order, &deal.heads[rank]));
    *out = deal;
    return S2_OK;
}

static bool plans_alike(const s2_planner *a, const s2_planner *b)
{
    return a->found == b->found && a->work_left == b->work_left && a->too_long == b->too_long;
}

static s2_status deal_price(s2_side *side, int32_t c, s2_deal *deal)
{
    const int32_t *const head_class = side->classes->layers[c].head_class;
    deal->n_times = 0;
    for (int32_t rank = 0; rank < side->options->n_ranks; rank++) {
        s2_planner *const planner = &side->planners[rank];
        int32_t like = 0;
        while (like < deal->n_times &&
               !(plans_alike(&deal->before[like], planner) &&
                 s2_share_alike(head_class, &deal->heads[deal->first[like]], &deal->heads[rank])))
            like++;
        if (!s2_work_spend(side->classes->work_left, (int64_t)(like + 1) * deal->heads[rank].n_heads))
            return S2_ELIMIT;
        deal->like[rank] = like;
        if (like < deal->n_times) {
            *planner = side->planners[deal->first[like]];
            continue;
        }
        deal->first[like] = rank;
        deal->before[like] = *planner;
        deal->times[like] = (s2_layer_time){0};
        deal->n_times++;
        S2_TRY(price_share(side, c, &deal->heads[rank], planner, &deal->times[like]));
    }
    return S2_OK;
}

/* The GPU that a pass of a layer waits for. */
static const s2_layer_time *slowest_in(const s2_deal *deal, s2_pass pass)
{
    const s2_layer_time *slowest = &deal->times[0];
    for (int32_t n = 1; n < deal->n_times; n++)
        if (deal->times[n].us[pass] > slowest->us[pass])
            slowest = &deal->times[n];
    return slowest;
}

static double waited_us(const s2_deal *deal)
{
    double us = 0;
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++)
        us += slowest_in(deal, (s2_pass)pass)->us[pass];
    return us;
}

static double mean_us(const s2_deal *deal, int32_t n_ranks)
{
    double us = 0;
    for (int32_t rank = 0; rank < n_ranks; rank++)
        us += sum_of(deal->times[deal->like[rank]].us);
    return us / n_ranks;
}

/* ---- all layers */

/* A cap takes three results of the special-function unit where an exponential is one. */
static s2_resource resource_of(s2_limit limit, bool capped, const s2_attention *attention)
{
    switch (limit) {
    case S2_LIMIT_HBM: return S2_HBM;
    case S2_LIMIT_L2: return S2_L2;
    case S2_LIMIT_LAUNCH: return S2_LAUNCH;
    case S2_LIMIT_COMPUTE: break;
    }
    const double *const busy_us = attention->busy_us;
    const s2_resource most = busy_us[S2_EXP] * (capped ? 3 : 1) > busy_us[S2_MMA] ? S2_EXP : S2_MMA;
    /* items take long, and yet bytes alone would take longer than all that they compute */
    return busy_us[most] < busy_us[S2_HBM] ? S2_LATENCY : most;
}

static bool add_counts(s2_counts *sum, const s2_counts *own)
{
    int64_t *const to[] = {&sum->pairs,       &sum->blk_pairs,     &sum->tiles,      &sum->steps,
                           &sum->flop_useful, &sum->flop_executed, &sum->exp_useful, &sum->exp_executed,
                           &sum->hbm_read,    &sum->hbm_write,     &sum->l2};
    const int64_t from[] = {own->pairs,       own->blk_pairs,     own->tiles,      own->steps,
                            own->flop_useful, own->flop_executed, own->exp_useful, own->exp_executed,
                            own->hbm_read,    own->hbm_write,     own->l2};
    for (size_t n = 0; n < sizeof from / sizeof *from; n++)
        if (!s2_add_i64(*to[n], from[n], to[n]))
            return false;
    return true;
}

/* Where launches differ, each figure is the worst one's, and all that widens an allowance is named. */
static void join_error(const s2_error *made, s2_pass pass, s2_total *total)
{
    s2_error *const sum = &total->error;
    const bool first = total->passes == 0;
    total->passes |= 1U << pass;
    sum->pct = fmax(sum->pct, made->pct);
    sum->p90_pct = fmax(sum->p90_pct, made->p90_pct);
    sum->most_pct = fmax(sum->most_pct, made->most_pct);
    sum->n_judged = first ? made->n_judged : s2_min_i32(sum->n_judged, made->n_judged);
    sum->allowed |= made->allowed;
    sum->causes |= made->causes;
    sum->n_passes = 0;
    for (int32_t at = 0; at < S2_N_PASSES; at++)
        sum->n_passes += (total->passes >> at & 1U) != 0;
}

static void add_other(const char *name, s2_others *others)
{
    for (int32_t nth = 0; nth < others->n; nth++)
        if (name == others->names[nth])
            return;
    if (name != NULL && others->n < S2_MODEL_KERNELS)
        others->names[others->n++] = name;
}

/* Note how a pass of n_layers like layers was predicted; the longest single layer describes them all. */
static void add_prediction(const s2_layer_time *slowest, s2_pass pass, int32_t n_layers, s2_total *total)
{
    const s2_launch_price *const made = &slowest->made[pass];
    join_error(&made->error, pass, total);
    if (made->far.beyond > total->far.beyond)
        total->far = made->far;
    if (made->scored > total->scored)
        total->scored = made->scored;
    add_other(made->runs_on, &total->runs_on);
    const double one_us = slowest->us[pass] / n_layers;
    if (one_us <= total->greatest_us)
        return;
    total->greatest_us = one_us;
    total->kernel = made->kernel->name;
    total->clock_mhz = made->forecast.mhz;
    total->imbalance = made->forecast.imbalance;
    total->by[pass] = resource_of(made->forecast.by, made->capped, &slowest->bounds);
}

/* The same where it was found by the dense pattern: how far off that is was never judged. */
static void add_guess(const s2_layer_time *slowest, s2_pass pass, int32_t n_layers, const s2_total *dense,
                      s2_total *total)
{
    const double one_us = slowest->us[pass] / n_layers;
    if (dense->scored > total->scored)
        total->scored = dense->scored;
    if (one_us <= total->greatest_us)
        return;
    total->greatest_us = one_us;
    total->kernel = dense->kernel;
    total->clock_mhz = dense->clock_mhz;
    total->imbalance = dense->imbalance;
    total->by[pass] = dense->by[pass];
}

/* Add the bounds of the slowest GPU, resource by resource. */
static void add_bounds(const s2_deal *deal, s2_total *total)
{
    s2_attention *const sum = &total->slowest;
    const s2_attention *slowest = &deal->times[0].bounds;
    double forward_us = 0, backward_us = 0, bound_us = 0, select_us = 0;
    for (int32_t n = 0; n < deal->n_times; n++) {
        const s2_attention *const own = &deal->times[n].bounds;
        slowest = own->time_us > slowest->time_us ? own : slowest;
        forward_us = fmax(forward_us, own->forward_us);
        backward_us = fmax(backward_us, own->time_us - own->forward_us);
        bound_us = fmax(bound_us, own->bound_us);
        if (own->select_us > select_us) {
            select_us = own->select_us;
            sum->select_by = own->select_by;
        }
    }
    sum->forward_us += forward_us;
    total->backward_us += backward_us;
    sum->bound_us += bound_us;
    sum->select_us += select_us;
    for (int32_t r = 0; r < S2_N_RESOURCES; r++)
        sum->busy_us[r] += slowest->busy_us[r];
}

static s2_status add_layer(const s2_side *side, int32_t c, const s2_deal *deal, s2_total *total)
{
    const int32_t n_layers = side->classes->layers[c].n_layers;
    add_bounds(deal, total);
    for (int32_t pass = 0; pass < S2_N_PASSES; pass++) {
        const s2_layer_time *const slowest = slowest_in(deal, (s2_pass)pass);
        total->us[pass] += slowest->us[pass];
        if (slowest->us[pass] > 0 && slowest->found == S2_FOUND_BY_PLAN)
            add_prediction(slowest, (s2_pass)pass, n_layers, total);
        if (slowest->us[pass] > 0 && slowest->found == S2_FOUND_BY_DENSE)
            add_guess(slowest, (s2_pass)pass, n_layers, side->dense, total);
    }
    for (int32_t n = 0; n < deal->n_times; n++)
        if (deal->times[n].found == S2_FOUND_BY_DENSE) {
            total->error.pct = fmax(total->error.pct, S2_GUESS_PCT);
            total->error.allowed = true;
            total->error.causes |= deal->times[n].too_long ? S2_CAUSE_PLAN : S2_CAUSE_KERNEL;
        }
    for (int32_t rank = 0; rank < side->options->n_ranks; rank++) {
        const s2_layer_time *const own = &deal->times[deal->like[rank]];
        if (!add_counts(&total->slowest.counts, &own->bounds.counts))
            return S2_ELIMIT;
        total->bytes.dram_read += own->bytes.dram_read;
        total->bytes.dram_write += own->bytes.dram_write;
        total->bytes.l2 += own->bytes.l2;
        total->rank_us[rank] += sum_of(own->us) + own->bounds.select_us;
        total->rank_read[rank] += (double)own->bounds.counts.hbm_read;
        total->rank_bytes[rank] += (double)own->bounds.counts.hbm_read + (double)own->bounds.counts.hbm_write;
        total->rank_flop[rank] += (double)own->bounds.counts.flop_executed;
    }
    return S2_OK;
}

/* ---- which GPU should have which heads */

typedef struct s2_weight {
    int64_t work;
    int32_t kv;
} s2_weight;

static int by_work(const void *left, const void *right)
{
    const s2_weight *const a = left, *const b = right;
    return a->work != b->work ? (a->work < b->work) - (a->work > b->work) : (a->kv > b->kv) - (a->kv < b->kv);
}

static int by_number(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* The KV head with most work goes to the GPU with least work that still has room. */
static s2_status order_by_work(s2_side *side, int32_t c, int32_t *order)
{
    const int32_t n_kv = side->classes->layers[c].n_kv_heads, n_ranks = side->options->n_ranks,
                  each = n_kv / n_ranks;
    int64_t *const work = S2_NEW(side->arena, int64_t, n_kv), *const load =
                                                                  S2_NEW(side->arena, int64_t, n_ranks);
    int32_t *const n = S2_NEW(side->arena, int32_t, n_ranks);
    s2_weight *const weights = S2_NEW(side->arena, s2_weight, n_kv);
    if (work == NULL || load == NULL || n == NULL || weights == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_attention_kv_work(side->classes, side->counts, &side->classes->layers[c], side->options,
                                side->tile, work));
    for (int32_t kv = 0; kv < n_kv; kv++)
        weights[kv] = (s2_weight){work[kv], kv};
    qsort(weights, (size_t)n_kv, sizeof *weights, by_work);
    for (int32_t w = 0; w < n_kv; w++) {
        int32_t to = -1;
        for (int32_t rank = 0; rank < n_ranks; rank++)
            if (n[rank] < each && (to < 0 || load[rank] < load[to]))
                to = rank;
        order[to * each + n[to]++] = weights[w].kv;
        load[to] += weights[w].work;
    }
    for (int32_t rank = 0; rank < n_ranks; rank++)
        qsort(order + (int64_t)rank * each, (size_t)each, sizeof *order, by_number);
    return S2_OK;
}

/* A layer as all GPUs wait for it, and as the mean GPU works on it. */
typedef struct s2_waited {
    double us;
    double mean_us;
} s2_waited;

static bool all_found_as(const s2_deal *deal, s2_found found)
{
    for (int32_t n = 0; n < deal->n_times; n++)
        if (deal->times[n].found != found)
            return false;
    return true;
}

/* What each GPU may spend on planning. */
int64_t s2_sim_plan_work(const s2_sim_options *options)
{
    return options->plan_work > 0 ? options->plan_work : S2_SIM_PLAN_WORK;
}

/* Trying another deal leaves what each GPU may plan as it was. */
static s2_status price_other_deal(const s2_side *side, int32_t c, s2_found found, s2_deal *deal)
{
    s2_side other = *side;
    other.planners = S2_NEW(side->arena, s2_planner, side->options->n_ranks);
    other.work_left = s2_sim_plan_work(side->options);
    if (other.planners == NULL)
        return S2_ENOMEM;
    for (int32_t rank = 0; rank < side->options->n_ranks; rank++)
        other.planners[rank] = (s2_planner){.found = found, .work_left = s2_sim_plan_work(side->options)};
    return deal_price(&other, c, deal);
}

/* The layer with its KV heads dealt out by work, where that is better; only times found alike are compared. */
static s2_status mend_layer(s2_side *side, int32_t c, const s2_deal *now, s2_waited *waited,
                            s2_rank_price *ranks)
{
    const int32_t n_kv = side->classes->layers[c].n_kv_heads;
    const s2_found found = now->times[0].found;
    int32_t *const order = S2_NEW(side->arena, int32_t, n_kv);
    s2_deal deal;
    if (order == NULL)
        return S2_ENOMEM;
    if (!all_found_as(now, found))
        return S2_OK;
    S2_TRY(order_by_work(side, c, order));
    S2_TRY(deal_new(side, c, order, &deal));
    S2_TRY(price_other_deal(side, c, found, &deal));
    const s2_waited mended = {waited_us(&deal), mean_us(&deal, side->options->n_ranks)};
    const double saved_us = waited->us - mended.us;
    if (saved_us < 0.01 * waited->us || !all_found_as(&deal, found))
        return S2_OK;
    *waited = mended;
    if (saved_us > ranks->saved_us && n_kv <= S2_MAX_DEALT) {
        ranks->saved_us = saved_us;
        ranks->mended_layer = side->classes->layers[c].first_layer;
        ranks->n_order = n_kv;
        for (int32_t kv = 0; kv < n_kv; kv++)
            ranks->order[kv] = (int16_t)order[kv];
    }
    return S2_OK;
}

static bool can_be_mended(const s2_side *side, int32_t c)
{
    const int32_t n_ranks = side->options->n_ranks, n_kv = side->classes->layers[c].n_kv_heads;
    return n_ranks > 1 && n_ranks < n_kv && !side->options->times_only;
}

/* ---- a side */

static s2_status time_side(s2_side *side, s2_total *total, s2_rank_price *ranks)
{
    const int32_t n_ranks = side->options->n_ranks;
    const s2_arena_mark_t mark = s2_arena_mark(side->arena);
    s2_waited mended = {0, 0};
    s2_deal deal;
    for (int32_t c = 0; c < side->classes->n_layer_classes; c++) {
        S2_TRY(deal_new(side, c, NULL, &deal));
        S2_TRY(deal_price(side, c, &deal));
        S2_TRY(add_layer(side, c, &deal, total));
        s2_waited own = {waited_us(&deal), mean_us(&deal, n_ranks)};
        if (ranks != NULL && can_be_mended(side, c) && own.us > 1.01 * own.mean_us)
            S2_TRY(mend_layer(side, c, &deal, &own, ranks));
        mended.us += own.us;
        mended.mean_us += own.mean_us;
        s2_arena_rewind(side->arena, mark);
    }
    total->slowest.time_us = total->slowest.forward_us + total->backward_us;
    if (ranks == NULL || ranks->n_order == 0)
        return S2_OK;
    const double select_us = total->slowest.select_us;
    ranks->mended_us = mended.us + select_us;
    ranks->mended_imbalance = ranks->mended_us / (mended.mean_us + select_us);
    return S2_OK;
}

/* Whether some GPU could not plan all of its layers. How its first ones were found is then not how all are. */
static bool any_gave_up(const s2_side *side, s2_found found)
{
    bool any = false;
    for (int32_t rank = 0; rank < side->options->n_ranks; rank++)
        any = any || side->planners[rank].found != found;
    return any;
}

/* All GPUs do the same for a dense pattern, so where one gives up all do. */
static s2_status time_all(s2_side *side, s2_total *total, s2_rank_price *ranks)
{
    const int32_t n = side->options->n_ranks;
    const s2_found asked = side->predicted ? S2_FOUND_BY_PLAN : S2_FOUND_BOUND;
    double *const of_ranks = S2_NEW(side->arena, double, 4 * (int64_t)n);
    side->planners = S2_NEW(side->arena, s2_planner, n);
    if (of_ranks == NULL || side->planners == NULL)
        return S2_ENOMEM;
    const s2_total empty = {.kernel = "",
                            .rank_us = of_ranks,
                            .rank_read = of_ranks + n,
                            .rank_bytes = of_ranks + 2 * (int64_t)n,
                            .rank_flop = of_ranks + 3 * (int64_t)n};
    for (int32_t rank = 0; rank < n; rank++)
        side->planners[rank] = (s2_planner){.found = asked, .work_left = s2_sim_plan_work(side->options)};
    side->work_left = S2_SIM_PLAN_RANKS * s2_sim_plan_work(side->options);
    *total = empty;
    S2_TRY(time_side(side, total, ranks));
    if (!any_gave_up(side, asked))
        return S2_OK;
    side->predicted = side->dense != NULL;
    for (int32_t rank = 0; rank < n; rank++)
        side->planners[rank] =
            (s2_planner){.found = side->dense != NULL ? side->planners[rank].found : S2_FOUND_BOUND,
                         .work_left = s2_sim_plan_work(side->options),
                         .too_long = side->planners[rank].too_long};
    side->work_left = S2_SIM_PLAN_RANKS * s2_sim_plan_work(side->options);
    memset(of_ranks, 0, 4 * (size_t)n * sizeof *of_ranks);
    *total = empty;
    if (ranks != NULL)
        *ranks = (s2_rank_price){0};
    return time_side(side, total, ranks);
}

typedef struct s2_dense_time {
    s2_total total; /* without what it says of each GPU, which no pattern is compared with */
    bool predicted;
} s2_dense_time;

/* Most of a price goes into the plans of the dense pattern, which the patterns of a search share. */
static s2_status time_dense(s2_side *side, s2_total *total)
{
    s2_price_memo *const memo = side->options->memo;
    s2_dense_key key = {.phase = side->options->phase,
                        .predicted = side->predicted,
                        .scores = s2_scores_of(side->options, side->classes->pattern)};
    if (memo == NULL)
        return time_all(side, total, NULL);
    S2_TRY(s2_pattern_hash(side->classes->pattern, key.hash));
    const s2_dense_time *const kept = s2_denses_find(&memo->denses, &key);
    if (kept != NULL) {
        *total = kept->total;
        side->predicted = kept->predicted;
        return S2_OK;
    }
    S2_TRY(time_all(side, total, NULL));
    s2_dense_time own = {.total = *total, .predicted = side->predicted};
    own.total.rank_us = own.total.rank_read = own.total.rank_bytes = own.total.rank_flop = NULL;
    return s2_denses_keep(&memo->denses, &key, &own, sizeof own);
}

/* ---- into the result */

static void add_parts(const s2_total *own, const s2_sim_options *options, const s2_attention *bounds,
                      s2_sim *sim)
{
    const s2_resource by = s2_attention_busiest(bounds);
    sim->parts[sim->n_parts++] =
        (s2_part){.name = "attention", .time_us = bounds->forward_us, .bound_by = by};
    if (options->phase == S2_TRAIN)
        sim->parts[sim->n_parts++] =
            (s2_part){.name = "attention backward", .time_us = own->backward_us, .bound_by = by};
    if (bounds->select_us > 0)
        sim->parts[sim->n_parts++] =
            (s2_part){.name = "selection", .time_us = bounds->select_us, .bound_by = bounds->select_by};
}

static void take_bounds(const s2_total *own, const s2_total *dense, const s2_sim_options *options,
                        s2_sim *sim)
{
    const s2_attention *const bounds = &own->slowest;
    sim->counts = bounds->counts;
    sim->dense = dense->slowest.counts;
    /* 1 where no layer has attention */
    sim->token_density = dense->slowest.counts.pairs == 0
                             ? 1
                             : (double)bounds->counts.pairs / (double)dense->slowest.counts.pairs;
    add_parts(own, options, bounds, sim);
    for (int32_t part = 0; part < sim->n_parts; part++)
        sim->time_us += sim->parts[part].time_us;
    sim->plan_us = sim->time_us;
    sim->bound_us = bounds->bound_us;
    memcpy(sim->busy_us, bounds->busy_us, sizeof sim->busy_us);
    sim->dense_time_us = sim->dense_plan_us = dense->slowest.time_us;
    sim->dense_forward_us = dense->slowest.forward_us;
    sim->bound_by = bounds->select_us > bounds->time_us ? bounds->select_by : s2_attention_busiest(bounds);
}

/* Replace the bounds of the attention lines by what was predicted; selection stays a bound. */
static void take_prediction(const s2_total *own, const s2_total *dense, const s2_sim_options *options,
                            s2_sim *sim)
{
    sim->time_us = 0;
    for (int32_t part = 0; part < sim->n_parts; part++) {
        s2_part *const line = &sim->parts[part];
        const s2_pass pass = s2_part_is(line, "attention") ? first_pass(options) : S2_PASS_BACKWARD;
        if (!s2_part_is(line, "selection")) {
            line->time_us = own->us[pass];
            line->bound_by = own->by[pass];
        }
        sim->time_us += line->time_us;
    }
    /* constants of another memory may promise more than this one can do; no time is below the bound */
    if (sim->time_us < sim->bound_us) {
        sim->parts[0].time_us += sim->bound_us - sim->time_us;
        sim->time_us = sim->bound_us;
    }
    sim->dense_time_us = sum_of(dense->us);
    sim->dense_forward_us = dense->us[first_pass(options)];
    sim->predicted = true;
    sim->measured = options->peer != NULL || s2_calibration_is_measured(options->calibration);
    sim->error = own->error;
    if (sim->scored != S2_SCORED_NONE)
        sim->scored = own->scored;
    sim->runs_on = own->runs_on;
    sim->far = own->far;
    sim->kernel = own->kernel;
    sim->clock_mhz = own->clock_mhz;
    sim->imbalance = own->imbalance;
    sim->bound_by = sim->parts[0].bound_by;
    sim->dram_bytes = own->bytes.dram_read + own->bytes.dram_write;
    sim->l2_bytes = own->bytes.l2;
}

static void take_ranks(const s2_total *own, const s2_pattern *pattern, const s2_sim_options *options,
                       s2_sim *sim)
{
    s2_rank_price *const ranks = &sim->ranks;
    double sum = 0;
    for (int32_t rank = 0; rank < options->n_ranks; rank++) {
        sum += own->rank_us[rank];
        ranks->read_bytes = fmax(ranks->read_bytes, own->rank_read[rank]);
        ranks->hbm_bytes = fmax(ranks->hbm_bytes, own->rank_bytes[rank]);
        ranks->flop_executed = fmax(ranks->flop_executed, own->rank_flop[rank]);
        if (own->rank_us[rank] > own->rank_us[ranks->slowest])
            ranks->slowest = rank;
    }
    ranks->n_copies = 1;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        ranks->n_copies = s2_max_i32(ranks->n_copies, options->n_ranks / s2_pattern_kv_heads(pattern, layer));
    const double waited_us = sum_of(own->us) + own->slowest.select_us;
    ranks->imbalance = sum > 0 ? waited_us * options->n_ranks / sum : 1;
}

/* Whether in some layer heads on one KV head read different keys. */
static bool group_differs(const s2_classes *classes)
{
    for (int32_t c = 0; c < classes->n_layer_classes; c++) {
        const s2_layer_class *const layer = &classes->layers[c];
        const int32_t group = s2_layer_group(layer, classes->pattern->n_heads);
        for (int32_t head = 0; head < classes->pattern->n_heads; head++)
            if (layer->head_class[head] != layer->head_class[head / group * group])
                return true;
    }
    return false;
}

s2_status s2_time_attention(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                            int64_t *work_left, s2_sim *sim)
{
    s2_attention_pair pair;
    s2_total own, dense;
    S2_TRY(s2_attention_price_pair(arena, pattern, options, sim->tile, work_left, &pair));
    const bool asked =
        options->calibration != NULL && pair.classes.n_layer_classes > 0 && !s2_pattern_is_latent(pattern);
    const bool is_dense = options->peer != NULL && s2_peer_is_dense(pattern, s2_phase_rules(options->phase));
    s2_side side = {.arena = arena,
                    .classes = &pair.classes,
                    .counts = &pair.counts,
                    .options = options,
                    .tile = sim->tile,
                    .is_dense = is_dense,
                    .dense = &dense};
    s2_side other = {.arena = arena,
                     .classes = &pair.dense_classes,
                     .counts = &pair.dense_counts,
                     .options = options,
                     .tile = sim->tile,
                     .predicted = asked,
                     .is_dense = true};
    S2_TRY(time_dense(&other, &dense));
    side.predicted = other.predicted;
    S2_TRY(time_all(&side, &own, &sim->ranks));
    sim->kernel = "";
    sim->scores = s2_scores_of(options, pattern);
    sim->scored = sim->scores.cap == 0 && !sim->scores.sinks ? S2_SCORED_NONE : S2_SCORED_BOUND;
    sim->n_head_classes = pair.classes.n_reads;
    sim->group_differs = group_differs(&pair.classes);
    sim->density = pair.own.density;
    sim->executed_density = pair.own.executed_density;
    sim->n_sparse_layers = pair.own.n_sparse_layers;
    sim->imbalance = pair.own.imbalance;
    take_bounds(&own, &dense, options, sim);
    take_ranks(&own, pattern, options, sim);
    if (!other.predicted)
        return S2_OK;
    take_prediction(&own, &dense, options, sim);
    return S2_OK;
}
