#include "sim/mix.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/work.h"
#include "plan/follow.h"
#include "sim/classes.h"
#include "sim/predict.h"
#include "sim/scores.h"
#include "sim/share.h"

/* ---- lengths */

enum {
    BITS = 7,
    HALF = 1 << (BITS - 1),
    GRID = 4, /* the lengths that sim/step.h prices: 4, 5, 6, 7 times a power of two */
    OCTAVES = 32,
    BUCKETS = HALF * (OCTAVES + 2),
    SLOTS = BUCKETS + GRID * OCTAVES,
    A_LIST = 8, /* steps (base/work.h) to add a list to a step and to cut it */
};

/* The power of two that leaves `n` below `limit`. */
static int32_t shift_below(int64_t n, int64_t limit)
{
    int32_t shift = 0;
    while (n >> shift >= limit)
        shift++;
    return shift;
}

/* Of the lengths that sim/step.h prices; -1: it is none of these. */
static int32_t grid_slot(int64_t len_tok)
{
    const int32_t shift = shift_below(len_tok, 2 * GRID);
    const bool on_it = len_tok >= GRID && len_tok >> shift << shift == len_tok;
    return on_it ? BUCKETS + GRID * shift + (int32_t)(len_tok >> shift) - GRID : -1;
}

/* Of a rounded length; *at_tok is the length at which its lists are counted. */
static int32_t rounded_slot(int64_t len_tok, int64_t *at_tok)
{
    const int32_t shift = shift_below(len_tok, 1 << BITS),
                  bucket = HALF * shift + (int32_t)(len_tok >> shift);
    const uint32_t drawn = (uint32_t)bucket * 2654435761U >> 8;
    *at_tok = (len_tok >> shift << shift) + (int64_t)drawn % ((int64_t)1 << shift);
    return bucket;
}

static s2_status count(s2_mix *mix, const s2_mix_share *share, int64_t len_tok, s2_load_list *lists)
{
    const s2_plan_seq seq = {1, (int32_t)len_tok};
    s2_plan plan = share->plan;
    plan.seqs = &seq;
    plan.options.work_left = mix->options.work_left;
    S2_TRY(s2_load_count_lists(mix->arena, &plan, lists));
    for (int32_t kv = 0; kv < share->pattern.n_kv_heads; kv++)
        mix->slabs_left -= lists[kv].n_slabs;
    return S2_OK;
}

/* The entry of a length in the hash table, which is never more than half full. */
static int32_t *entry_of(const s2_mix_share *share, int64_t len_tok)
{
    const int32_t n_kv = share->pattern.n_kv_heads;
    uint32_t place = (uint32_t)len_tok * 2654435761U % (2 * S2_MIX_LISTS);
    while (share->number_of[place] > 0 &&
           share->exact[(int64_t)(share->number_of[place] - 1) * n_kv].k_tok != len_tok)
        place = (place + 1) % (2 * S2_MIX_LISTS);
    return &share->number_of[place];
}

/* What a sequence of this length reads. */
static s2_status lists_of(s2_mix *mix, s2_mix_share *share, int64_t len_tok, const s2_load_list **out)
{
    const int32_t n_kv = share->pattern.n_kv_heads, grid = grid_slot(len_tok);
    int32_t *const number = entry_of(share, len_tok);
    int64_t at_tok = len_tok;
    s2_load_list *lists;
    if (grid < 0 && *number > 0) {
        *out = &share->exact[(int64_t)(*number - 1) * n_kv];
        return S2_OK;
    }
    if (grid < 0 && mix->slabs_left > 0 && (int64_t)(share->n_exact + 1) * n_kv <= S2_MIX_LISTS) {
        lists = &share->exact[(int64_t)share->n_exact * n_kv];
        *number = ++share->n_exact;
    } else {
        lists = &share->rounded[(int64_t)(grid < 0 ? rounded_slot(len_tok, &at_tok) : grid) * n_kv];
    }
    *out = lists;
    return lists->k_tok > 0 ? S2_OK : count(mix, share, at_tok, lists);
}

/* ---- shares */

static const s2_kernel_model *decode_kernel(const s2_sim_options *options)
{
    const s2_time_model *const model = &options->calibration->model;
    for (int32_t k = 0; k < model->n_kernels; k++)
        if (model->kernels[k].pass == S2_PASS_DECODE &&
            s2_predict_takes_dtype(&model->kernels[k], options->dtype))
            return &model->kernels[k];
    return NULL;
}

static s2_status add_share(s2_mix *mix, const s2_classes *classes, int32_t c, const s2_share_heads *heads)
{
    static const s2_plan_seq any = {1, 1};
    const s2_layer_class *const layer = &classes->layers[c];
    s2_mix_share *const share = &mix->shares[mix->n_shares];
    s2_plan_options cut;
    share->layer_class = c;
    share->n_layers = layer->n_layers;
    S2_TRY(s2_share_pattern(mix->arena, classes->pattern, classes->phase, layer->first_layer, heads,
                            &share->pattern));
    cut = s2_predict_cut(decode_kernel(&mix->options), &share->pattern);
    S2_TRY(s2_plan_build_classes(mix->arena, &share->pattern, classes->phase, 0, &any, 1, &cut, &share->plan,
                                 NULL));
    share->rounded = S2_NEW(mix->arena, s2_load_list, (int64_t)SLOTS * share->pattern.n_kv_heads);
    share->exact = S2_NEW(mix->arena, s2_load_list, S2_MIX_LISTS);
    share->number_of = S2_NEW(mix->arena, int32_t, 2 * S2_MIX_LISTS);
    if (share->rounded == NULL || share->exact == NULL || share->number_of == NULL)
        return S2_ENOMEM;
    mix->n_shares++;
    return S2_OK;
}

/* The GPUs that differ, of a class of layers. */
static s2_status add_layer(s2_mix *mix, const s2_classes *classes, int32_t c)
{
    const s2_layer_class *const layer = &classes->layers[c];
    const int32_t n_ranks = mix->options.n_ranks;
    s2_share_heads kept[S2_MIX_SHARES];
    int32_t n_kept = 0;
    for (int32_t rank = 0; rank < n_ranks && mix->n_shares < S2_MIX_SHARES; rank++) {
        s2_share_heads heads;
        int32_t like = 0;
        S2_TRY(s2_share_deal(mix->arena, classes->pattern->n_heads, layer->n_kv_heads, n_ranks, rank, NULL,
                             &heads));
        while (like < n_kept && !s2_share_alike(layer->head_class, &kept[like], &heads))
            like++;
        if (like < n_kept)
            continue;
        kept[n_kept++] = heads;
        S2_TRY(add_share(mix, classes, c, &heads));
    }
    return S2_OK;
}

static s2_status add_layers(s2_mix *mix, const s2_pattern *pattern)
{
    s2_classes classes;
    S2_TRY(s2_classes_build(mix->arena, pattern, S2_DECODE, &classes));
    for (int32_t c = 0; c < classes.n_layer_classes && mix->n_shares < S2_MIX_SHARES; c++)
        S2_TRY(add_layer(mix, &classes, c));
    return S2_OK;
}

s2_status s2_mix_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, s2_mix *out)
{
    s2_mix mix = {.arena = arena,
                  .options = *options,
                  .scores = s2_scores_of(options, pattern),
                  .slabs_left = S2_MIX_SLABS,
                  .shares = S2_NEW(arena, s2_mix_share, S2_MIX_SHARES)};
    if (mix.shares == NULL)
        return S2_ENOMEM;
    if (options->calibration != NULL && options->peer == NULL && !s2_pattern_is_latent(pattern) &&
        decode_kernel(options) != NULL) {
        const s2_status status = add_layers(&mix, pattern);
        if (status == S2_EUNSUPPORTED)
            mix.n_shares = 0;
        else if (status != S2_OK)
            return status;
    }
    *out = mix;
    return S2_OK;
}

/* ---- a step */

static s2_status time_share(s2_mix *mix, s2_mix_share *share, int32_t n, const int64_t *len_tok, double *us)
{
    const int32_t n_kv = share->pattern.n_kv_heads;
    s2_load_list *const all = S2_NEW(mix->arena, s2_load_list, (int64_t)n * n_kv);
    const s2_load_list *own;
    s2_launch_price price;
    s2_launch launch = {.pattern = &share->pattern,
                        .phase = S2_DECODE,
                        .pass = S2_PASS_DECODE,
                        .q_tok = 1,
                        .batch = n,
                        .dtype = mix->options.dtype,
                        .scores = mix->scores,
                        .gpu = mix->options.calibration->head.gpu,
                        .lists = all};
    if (!s2_work_spend(mix->options.work_left, (int64_t)n * n_kv * A_LIST))
        return S2_ELIMIT;
    if (all == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < n; seq++) {
        S2_TRY(lists_of(mix, share, len_tok[seq], &own));
        memcpy(all + (int64_t)seq * n_kv, own, (size_t)n_kv * sizeof *own);
        launch.k_tok = s2_max_i32(launch.k_tok, own->k_tok);
    }
    S2_TRY(s2_predict_launch(mix->arena, &mix->options.calibration->model, &launch, &price));
    *us = price.forecast.us;
    return S2_OK;
}

s2_status s2_mix_time(s2_mix *mix, int32_t n, const int64_t *len_tok, double *us)
{
    double sum = 0, slowest = 0;
    if (mix->n_shares == 0)
        return S2_EUNSUPPORTED;
    for (int32_t s = 0; s < mix->n_shares; s++) {
        s2_mix_share *const share = &mix->shares[s];
        const bool last = s + 1 == mix->n_shares || mix->shares[s + 1].layer_class != share->layer_class;
        double own;
        const s2_arena_mark_t mark = s2_arena_mark(mix->arena);
        const s2_status status = time_share(mix, share, n, len_tok, &own);
        s2_arena_rewind(mix->arena, mark);
        S2_TRY(status);
        slowest = fmax(slowest, own);
        if (!last)
            continue;
        sum += slowest * share->n_layers;
        slowest = 0;
    }
    *us = sum;
    return S2_OK;
}
