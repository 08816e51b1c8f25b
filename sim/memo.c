#include "sim/memo.h"

#include "base/alloc.h"
#include "sim/scores.h"

s2_status s2_price_memo_new(const s2_sim_options *options, s2_price_memo **out)
{
    s2_price_memo *const memo = s2_calloc(1, sizeof *memo);
    if (memo == NULL)
        return S2_ENOMEM;
    memo->options = *options;
    memo->options.phase = S2_PREFILL;
    memo->options.memo = NULL;
    *out = memo;
    return S2_OK;
}

static void release(s2_shape_memo *shape)
{
    s2_free(shape->fast);
    s2_predictor_free(shape->predictor);
}

void s2_price_memo_free(s2_price_memo *memo)
{
    if (memo == NULL)
        return;
    for (int32_t s = 0; s < memo->n_shapes; s++)
        release(&memo->shapes[s]);
    s2_denses_release(&memo->denses);
    s2_free(memo);
}

static bool same_shape(const s2_shape_memo *shape, const s2_pattern *pattern, s2_model_scores scores)
{
    const s2_fast *const fast = shape->fast;
    return shape->scores.cap == scores.cap && shape->scores.sinks == scores.sinks &&
           fast->n_layers == pattern->n_layers && fast->n_heads == pattern->n_heads &&
           fast->n_kv_heads == pattern->n_kv_heads && fast->head_dim == pattern->head_dim &&
           fast->block_tok == pattern->block_tok;
}

double s2_fast_imbalance(const s2_fast *fast, int64_t busiest_steps, int64_t steps)
{
    return (double)busiest_steps / ((double)steps / fast->options.gpu.sms);
}

static double price_dense_imbalance(s2_fast *fast)
{
    const s2_candidate dense = {.local_blk = 1, .n_dense_kv = fast->n_kv_heads};
    s2_fast_cost cost;
    s2_fast_exact(fast, &dense, &cost);
    return s2_fast_imbalance(fast, cost.busiest_steps, cost.steps / fast->n_layers);
}

/* shape->fast stays NULL where sim/fast.h does not support the shape. */
static s2_status init_shape(const s2_sim_options *options, const s2_pattern *pattern, s2_shape_memo *shape)
{
    s2_fast *const fast = s2_malloc(sizeof *fast);
    if (fast == NULL)
        return S2_ENOMEM;
    if (s2_fast_init(pattern, options, fast) != S2_OK) {
        s2_free(fast);
        return S2_OK;
    }
    shape->fast = fast;
    shape->dense_imbalance = price_dense_imbalance(fast);
    return s2_sim_predicts(options, S2_PREFILL) ? s2_predictor_new(pattern, options, &shape->predictor)
                                                : S2_OK;
}

/* *out is NULL when the shape has no fast form or there are too many shapes. */
static s2_status find_shape(s2_price_memo *memo, const s2_pattern *pattern, const s2_shape_memo **out)
{
    *out = NULL;
    const s2_model_scores scores = s2_scores_of(&memo->options, pattern);
    for (int32_t s = 0; s < memo->n_shapes; s++)
        if (same_shape(&memo->shapes[s], pattern, scores)) {
            *out = &memo->shapes[s];
            return S2_OK;
        }
    if (memo->n_shapes == S2_MOST_SHAPES)
        return S2_OK;
    s2_shape_memo shape = {.scores = scores};
    const s2_status status = init_shape(&memo->options, pattern, &shape);
    if (status != S2_OK || shape.fast == NULL) {
        release(&shape);
        return status;
    }
    memo->shapes[memo->n_shapes] = shape;
    *out = &memo->shapes[memo->n_shapes++];
    return S2_OK;
}

/* Head pages hold exactly the resident keys when blocks and the context are whole pages. */
static bool pages_are_exact(const s2_sim_options *options, const s2_pattern *pattern)
{
    return pattern->block_tok % options->page_tok == 0 && options->len_tok % options->page_tok == 0;
}

s2_status s2_memo_find(const s2_sim_options *options, const s2_pattern *pattern, s2_fast_form *out)
{
    s2_fast_form form = {0};
    if (options->memo != NULL && pattern->computed == NULL && pages_are_exact(options, pattern) &&
        !s2_pattern_layers_differ(pattern) && s2_candidate_of(pattern, &form.candidate))
        S2_TRY(find_shape(options->memo, pattern, &form.shape));
    *out = form;
    return S2_OK;
}
