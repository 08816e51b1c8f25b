#include "sim/predictor.h"

#include <math.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "sim/states.h"
#include "sim/time.h"

/* The clock is solved in rounds and items are rounded to cycles: a margin far above both errors. */
#define SOLVED 0.999

struct s2_predictor {
    s2_sim_options options;
    const s2_kernel_model *forward; /* the kernel that accepts every plan of the shape; NULL: not certain */
    s2_plan_options cut;
    int32_t pack;                 /* heads in a tile if those of a KV head read alike */
    s2_fast *alone;               /* tiles of one head */
    s2_fast *packed;              /* tiles of `pack` heads; NULL if that is one */
    double dense_us[S2_N_PHASES]; /* of one dense layer; below 0: not predicted yet */
};

static s2_pass pass_of(s2_phase phase)
{
    return phase == S2_DECODE ? S2_PASS_DECODE : S2_PASS_FORWARD;
}

/* ---- the floor */

/* With a power-of-two tile that plans allow, the first kernel of the pass accepts every plan of the shape. */
static bool fits(const s2_kernel_model *kernel, const s2_plan_options *cut, int32_t pack)
{
    const int32_t tile = kernel->rows / pack;
    return kernel->rows == 128 && cut->tile_rows == kernel->rows && tile * pack == kernel->rows &&
           s2_is_power_of_two(tile) && tile >= S2_PLAN_SLAB_TOK;
}

static s2_status new_tiles(const s2_predictor *predictor, const s2_pattern *shape, int32_t pack,
                           s2_fast **out)
{
    const int32_t block = s2_max_i32(shape->block_tok, S2_PLAN_SLAB_TOK);
    const s2_tile_shape tile = {predictor->forward->rows / pack, s2_min_i32(block, predictor->cut.key_tok),
                                predictor->cut.key_tok};
    s2_fast *const fast = s2_malloc(sizeof *fast);
    *out = fast;
    if (fast == NULL)
        return S2_ENOMEM;
    return s2_fast_init_tiles(shape, &predictor->options, tile, fast);
}

static s2_status init_forward(s2_predictor *predictor, const s2_pattern *shape)
{
    const s2_time_model *const model = &predictor->options.calibration->model;
    const s2_kernel_model *kernel = NULL;
    for (int32_t k = model->n_kernels; k-- > 0;)
        if (model->kernels[k].pass == S2_PASS_FORWARD && !s2_model_plans_lists(&model->kernels[k]) &&
            !s2_model_is_short(&model->kernels[k]) &&
            s2_predict_takes_dtype(&model->kernels[k], predictor->options.dtype))
            kernel = &model->kernels[k];
    if (kernel == NULL || !s2_predict_takes_dim(model, kernel, shape->head_dim))
        return S2_OK;
    const int32_t group = shape->n_heads / shape->n_kv_heads;
    predictor->cut = s2_predict_cut(kernel, shape);
    predictor->pack = s2_min_i32(predictor->cut.pack_heads, group);
    while (predictor->pack > 1 && group % predictor->pack != 0)
        predictor->pack--;
    if (!fits(kernel, &predictor->cut, 1) || !fits(kernel, &predictor->cut, predictor->pack))
        return S2_OK;
    predictor->forward = kernel;
    s2_status status = new_tiles(predictor, shape, 1, &predictor->alone);
    if (status == S2_OK && predictor->pack > 1)
        status = new_tiles(predictor, shape, predictor->pack, &predictor->packed);
    if (status != S2_EINVAL)
        return status;
    predictor->forward = NULL; /* a shape beyond sim/fast.h has no floor */
    return S2_OK;
}

s2_status s2_predictor_new(const s2_pattern *shape, const s2_sim_options *options, s2_predictor **out)
{
    s2_predictor *const predictor = s2_calloc(1, sizeof *predictor);
    if (predictor == NULL)
        return S2_ENOMEM;
    predictor->options = *options;
    predictor->options.phase = S2_PREFILL;
    for (int phase = 0; phase < S2_N_PHASES; phase++)
        predictor->dense_us[phase] = -1;
    const s2_status status = init_forward(predictor, shape);
    if (status != S2_OK)
        s2_predictor_free(predictor);
    else
        *out = predictor;
    return status;
}

void s2_predictor_free(s2_predictor *predictor)
{
    if (predictor == NULL)
        return;
    s2_free(predictor->alone);
    s2_free(predictor->packed);
    s2_free(predictor);
}

/* Whether the query heads of each KV head read alike, so that the kernel packs them. */
static bool groups_are_alike(const s2_pattern *pattern, const s2_candidate *candidate)
{
    const int32_t group = pattern->n_heads / pattern->n_kv_heads;
    return group == 1 || candidate->by_kv || candidate->stride_blk == 0 ||
           candidate->step % candidate->stride_blk == 0;
}

/* Whether comparing steps are cheaper at this head dimension or, if not fitted, at any that was. */
static bool compared_are_cheaper(const s2_kernel_model *kernel, int32_t head_dim)
{
    bool cheaper = false;
    for (int32_t d = 0; d < kernel->n_dims; d++) {
        const bool own = kernel->dims[d].masked < kernel->dims[d].step;
        if (kernel->dims[d].head_dim == head_dim)
            return own;
        cheaper |= own;
    }
    return cheaper;
}

/*
 * The histogram as a launch, longest items first. Each item has at least one step with mask code; where such
 * steps are cheaper, all its steps count as such, but at most MOST_HALVES in a halved kernel: what a tile of
 * 128 rows reads in part is within 128 keys of the diagonal and of the far edge of the window, and all else
 * fills whole steps.
 */
enum { MOST_HALVES = 3 };
static s2_status tiles_as_load(const s2_predictor *predictor, s2_arena *arena, s2_fast *fast, int32_t pack,
                               const s2_candidate *candidate, s2_kernel_load *out)
{
    const s2_kernel_model *const kernel = predictor->forward;
    const int32_t n_costs = s2_fast_histogram(fast, candidate);
    const double elem = predictor->cut.elem_bytes, width = fast->head_dim;
    const double rows = (double)predictor->options.len_tok * (double)predictor->options.batch * fast->n_heads;
    s2_load_class *const classes = S2_NEW(arena, s2_load_class, n_costs);
    if (classes == NULL)
        return S2_ENOMEM;
    const bool halved = s2_kernel_halves(kernel->traits, predictor->cut.key_tok);
    s2_kernel_load load = {.pass = S2_PASS_FORWARD,
                           .dtype = predictor->options.dtype,
                           .head_dim = fast->head_dim,
                           .rows = kernel->rows,
                           .key_tok = predictor->cut.key_tok * (halved ? 2 : 1),
                           .arithmetic = true,
                           .whole_blocks = true,
                           .halved = halved,
                           .classes = classes};
    load.n_subs = load.key_tok / fast->shape.k_tok;
    const bool cheaper = compared_are_cheaper(kernel, fast->head_dim);
    double n_keys = 0;
    for (int32_t cost = n_costs; cost-- > 1;) {
        const int64_t n = fast->count[cost] / pack;
        /* two halves have as many keys as a whole step, when each has its own */
        const int32_t n_steps = halved ? (cost + 1) / 2 : cost;
        if (n == 0 || n > INT32_MAX)
            continue;
        const int32_t most = !cheaper ? 1
                             : halved ? MOST_HALVES
                                      : n_steps,
                      n_masked = s2_min_i32(n_steps, most);
        classes[load.n_classes++] =
            (s2_load_class){.n_full = n_steps - n_masked, .n_masked = n_masked, .n_items = (int32_t)n};
        load.n_items += n;
        load.n_steps += n * n_steps;
        load.flop += (double)n * (n_steps - (halved ? 0.5 * n_masked : 0));
        n_keys += (double)n * (halved ? (double)(cost - 1) * predictor->cut.key_tok + fast->shape.k_tok
                                      : (double)cost * predictor->cut.key_tok);
    }
    load.flop *= 4.0 * width * load.rows * load.key_tok;
    load.q_bytes = rows * width * elem;
    if (kernel->padded)
        load.whole_bytes = ceil(width / 64) * 64 * elem * ((double)load.n_items * load.rows + 2.0 * n_keys);
    *out = load;
    return S2_OK;
}

/*
 * The least that any order of the items takes: time grows with cycles, and by no larger fraction.
 */
static double least_us(const s2_predictor *predictor, const s2_kernel_load *load)
{
    const s2_time_model *const model = &predictor->options.calibration->model;
    s2_forecast forecast;
    s2_model_run(model, predictor->forward, load, true, 0, &forecast);
    return forecast.us / fmax(1, forecast.imbalance) * SOLVED;
}

static s2_status predict_dense(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *shape,
                               s2_phase phase, double *us)
{
    if (predictor->dense_us[phase] < 0) {
        s2_sim_options options = predictor->options;
        options.phase = phase;
        s2_term term = s2_term_init(S2_TERM_DENSE, 0);
        s2_body body = {1, &term};
        const s2_arena_mark_t mark = s2_arena_mark(scratch);
        s2_pattern dense = *shape;
        dense.n_layers = 1;
        dense.n_bodies = 1;
        dense.bodies = &body;
        dense.body_of = S2_NEW(scratch, uint16_t, S2_N_RULE_PHASES * shape->n_heads);
        const s2_status status = dense.body_of != NULL ? s2_predictor_time(NULL, scratch, &dense, &options,
                                                                           &predictor->dense_us[phase])
                                                       : S2_ENOMEM;
        s2_arena_rewind(scratch, mark);
        S2_TRY(status);
    }
    *us = predictor->dense_us[phase];
    return S2_OK;
}

static s2_status forward_floor(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                               const s2_candidate *candidate, double *us)
{
    const bool packs = predictor->packed != NULL && groups_are_alike(pattern, candidate);
    double dense_us = 0;
    s2_kernel_load load;
    if (predictor->forward == NULL)
        return S2_OK;
    if (candidate->n_dense_layers > 0) {
        const s2_status dense = predict_dense(predictor, scratch, pattern, S2_PREFILL, &dense_us);
        if (dense != S2_OK)
            return dense == S2_EUNSUPPORTED ? S2_OK : dense;
    }
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    const s2_status status = tiles_as_load(predictor, scratch, packs ? predictor->packed : predictor->alone,
                                           packs ? predictor->pack : 1, candidate, &load);
    if (status == S2_OK)
        *us = least_us(predictor, &load) * (pattern->n_layers - candidate->n_dense_layers) +
              dense_us * SOLVED * candidate->n_dense_layers;
    s2_arena_rewind(scratch, mark);
    return status;
}

/* Every layer costs a launch and reads each resident key from device memory. */
static double step_floor(const s2_predictor *predictor, const s2_pattern *pattern, int64_t kv_slots)
{
    const s2_time_model *const model = &predictor->options.calibration->model;
    double launch_us = INFINITY, rate = 0;
    for (int32_t k = 0; k < model->n_kernels; k++) {
        const s2_kernel_model *const kernel = &model->kernels[k];
        if (kernel->pass != S2_PASS_DECODE)
            continue;
        launch_us = fmin(launch_us, kernel->launch_us + kernel->miss_us);
        rate = fmax(rate, kernel->hbm_gb_s * 1e3);
    }
    const double bytes = 2.0 * pattern->head_dim * predictor->cut.elem_bytes * (double)kv_slots *
                         (double)predictor->options.batch;
    return rate > 0 ? (launch_us * pattern->n_layers + bytes / rate) * SOLVED : 0;
}

s2_status s2_predictor_floor(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                             const s2_candidate *candidate, s2_phase phase, int64_t kv_slots, double *us)
{
    *us = 0;
    if (phase == S2_PREFILL)
        return forward_floor(predictor, scratch, pattern, candidate, us);
    if (phase == S2_DECODE && !s2_sim_cache_differs(&predictor->options))
        *us = step_floor(predictor, pattern, kv_slots);
    return S2_OK;
}

/* ---- the prediction */

static s2_status predict_layer(s2_predictor *predictor, s2_arena *scratch, const s2_classes *classes,
                               const s2_layer_class *layer, const s2_sim_options *options, int64_t *work_left,
                               double *us)
{
    s2_launch_price price;
    if (predictor != NULL && s2_pattern_is_dense(classes->pattern, S2_PREFILL, layer->first_layer))
        return predict_dense(predictor, scratch, classes->pattern, options->phase, us);
    S2_TRY(s2_sim_predict_layer(scratch, classes->pattern, classes->phase, layer->first_layer,
                                pass_of(options->phase), options, work_left, &price));
    *us = price.forecast.us;
    return S2_OK;
}

static s2_status predict_layers(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                                const s2_sim_options *options, double *us)
{
    s2_classes classes;
    int64_t work_left = s2_sim_plan_work(options);
    double sum = s2_states_of(pattern, options).us;
    S2_TRY(s2_classes_build(scratch, pattern, s2_phase_rules(options->phase), &classes));
    for (int32_t c = 0; c < classes.n_layer_classes; c++) {
        double own;
        S2_TRY(predict_layer(predictor, scratch, &classes, &classes.layers[c], options, &work_left, &own));
        sum += own * classes.layers[c].n_layers;
    }
    *us = sum;
    return S2_OK;
}

s2_status s2_predictor_time(s2_predictor *predictor, s2_arena *scratch, const s2_pattern *pattern,
                            const s2_sim_options *options, double *us)
{
    const s2_arena_mark_t mark = s2_arena_mark(scratch);
    const s2_status status = predict_layers(predictor, scratch, pattern, options, us);
    s2_arena_rewind(scratch, mark);
    return status;
}
