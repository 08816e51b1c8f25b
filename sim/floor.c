#include "sim/floor.h"

#include <math.h>

#include "base/arith.h"
#include "sim/attention.h"
#include "sim/capacity.h"
#include "sim/memo.h"
#include "sim/states.h"

static double slot_bytes(const s2_sim_options *options, const s2_pattern *pattern)
{
    return 2.0 * pattern->head_dim * s2_sim_cache_bytes(options) * (double)options->batch;
}

/* A decoded token reads every resident key, and each layer costs a launch. */
static double decode_floor(const s2_sim_options *options, const s2_pattern *pattern, int64_t kv_slots)
{
    return (double)kv_slots * slot_bytes(options, pattern) / (options->gpu.hbm_gb_s * 1e3) +
           options->gpu.launch_us * pattern->n_layers;
}

/* kept: head pages, unless the cache keeps all. */
static void take_cache(const s2_sim_options *options, int64_t head_pages, int64_t kept, s2_sim *sim)
{
    sim->kv.head_pages = head_pages;
    sim->kv_kept = kept;
    sim->host_bytes = (int64_t)ceil(s2_capacity_beyond(options, (double)kept));
}

/* A fast form has layers and KV heads of one shape, each with keys of its own. */
static void take_slots(const s2_sim_options *options, const s2_pattern *pattern, int64_t kv_slots,
                       s2_sim *sim)
{
    const double slot = slot_bytes(options, pattern);
    const int64_t all =
        s2_round_up(options->len_tok, options->page_tok) * pattern->n_layers * pattern->n_kv_heads;
    take_cache(options, (int64_t)((double)kv_slots * slot),
               (int64_t)((double)(options->keeps_all ? all : kv_slots) * slot), sim);
}

static void take_fast(const s2_sim_options *options, const s2_pattern *pattern, const s2_fast_cost *cost,
                      s2_sim *sim)
{
    sim->fast = true;
    sim->counts.pairs = cost->pairs;
    sim->density = cost->density;
    sim->floor_us[S2_PREFILL] = cost->bound_us;
    sim->floor_us[S2_DECODE] = decode_floor(options, pattern, cost->kv_slots);
    take_slots(options, pattern, cost->kv_slots, sim);
}

/* form->shape is NULL, and nothing is taken, where the pattern has no fast form. */
static s2_status take_bound(const s2_sim_options *options, const s2_pattern *pattern, s2_fast_form *form,
                            s2_fast_cost *cost, s2_sim *sim)
{
    S2_TRY(s2_memo_find(options, pattern, form));
    if (form->shape == NULL)
        return S2_OK;
    s2_fast_bound(form->shape->fast, &form->candidate, cost);
    take_fast(options, pattern, cost, sim);
    return S2_OK;
}

s2_status s2_floor_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim)
{
    s2_fast_form form;
    s2_fast_cost cost;
    (void)scratch;
    (void)work_left;
    return take_bound(options, pattern, &form, &cost, sim);
}

s2_status s2_floor_raise(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim)
{
    s2_fast_form form;
    s2_fast_cost cost;
    double us;
    (void)work_left;
    S2_TRY(take_bound(options, pattern, &form, &cost, sim));
    if (form.shape == NULL || form.shape->predictor == NULL || !s2_sim_predicts(options, options->phase) ||
        options->listed) /* the predictor's floor is of plans made beforehand */
        return S2_OK;
    S2_TRY(s2_predictor_floor(form.shape->predictor, scratch, pattern, &form.candidate, options->phase,
                              cost.kv_slots, &us));
    sim->floor_us[options->phase] = fmax(sim->floor_us[options->phase], us);
    return S2_OK;
}

/* ---- the plan */

static void plan_fast(const s2_sim_options *options, const s2_pattern *pattern, const s2_fast_form *form,
                      s2_sim *sim)
{
    s2_fast *const fast = form->shape->fast;
    s2_fast_cost cost;
    s2_fast_exact(fast, &form->candidate, &cost);
    take_fast(options, pattern, &cost, sim);
    sim->time_us = sim->plan_us = cost.time_us;
    /* no layer has more work than a dense one */
    const int64_t n_sparse = fast->n_layers - form->candidate.n_dense_layers;
    const int64_t dense_steps = fast->dense_steps * form->candidate.n_dense_layers;
    sim->imbalance = form->candidate.n_dense_layers > 0
                         ? form->shape->dense_imbalance
                         : s2_fast_imbalance(fast, cost.busiest_steps, (cost.steps - dense_steps) / n_sparse);
}

static s2_status plan_layers(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                             int64_t *work_left, s2_attention *out)
{
    s2_classes classes;
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_status status = s2_classes_build(scratch, pattern, s2_phase_rules(options->phase), &classes);
    classes.work_left = work_left;
    if (status == S2_OK)
        status = s2_attention_price(scratch, &classes, options, s2_tile_shape_default(pattern), out);
    s2_arena_rewind(scratch, mark);
    return status;
}

s2_status s2_plan_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                        int64_t *work_left, s2_sim *sim)
{
    s2_fast_form form = {0};
    s2_attention attention;
    if (options->phase == S2_PREFILL)
        S2_TRY(s2_memo_find(options, pattern, &form));
    if (form.shape != NULL) {
        plan_fast(options, pattern, &form, sim);
        return S2_OK;
    }
    S2_TRY(plan_layers(scratch, pattern, options, work_left, &attention));
    sim->time_us = sim->plan_us = attention.time_us + s2_states_of(pattern, options).us + attention.select_us;
    sim->counts.pairs = attention.counts.pairs;
    sim->density = attention.density;
    sim->imbalance = attention.imbalance;
    return S2_OK;
}

/* ---- the cache */

s2_status s2_cache_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                         int64_t *work_left, s2_sim *sim)
{
    s2_classes classes;
    s2_kv_elems elems;
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    s2_status status = s2_classes_build(scratch, pattern, S2_DECODE, &classes);
    classes.work_left = work_left;
    if (status == S2_OK)
        status = s2_kv_count(&classes, options->len_tok, options->page_tok, &elems);
    s2_arena_rewind(scratch, mark);
    S2_TRY(status);
    s2_kv_bytes bytes;
    S2_TRY(s2_kv_elems_bytes(&elems, s2_sim_cache_bytes(options), options->batch, &bytes));
    take_cache(options, bytes.head_pages, options->keeps_all ? bytes.dense : bytes.head_pages, sim);
    sim->kv = bytes;
    return S2_OK;
}

/* ---- the prediction */

/* Decoding also keeps a cache; where it does not fit, part of it is read from the host. */
static s2_status cache_of(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                          int64_t *work_left, const s2_fast_form *form, s2_sim *sim)
{
    s2_fast_cost cost;
    if (form->shape == NULL)
        return s2_cache_price(scratch, pattern, options, work_left, sim);
    s2_fast_bound(form->shape->fast, &form->candidate, &cost);
    take_slots(options, pattern, cost.kv_slots, sim);
    return S2_OK;
}

s2_status s2_prediction_price(s2_arena *scratch, const s2_pattern *pattern, const s2_sim_options *options,
                              int64_t *work_left, s2_sim *sim)
{
    s2_fast_form form;
    S2_TRY(s2_memo_find(options, pattern, &form));
    if (options->phase == S2_DECODE)
        S2_TRY(cache_of(scratch, pattern, options, work_left, &form, sim));
    if (sim->host_bytes > 0 || s2_pattern_is_latent(pattern) ||
        (options->phase == S2_DECODE && s2_sim_cache_differs(options)))
        return S2_EUNSUPPORTED;
    if (!s2_sim_predicts(options, options->phase))
        return s2_plan_price(scratch, pattern, options, work_left, sim);
    sim->predicted = true;
    return s2_predictor_time(form.shape != NULL ? form.shape->predictor : NULL, scratch, pattern, options,
                             &sim->time_us);
}
