#include "judge/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/rng.h"
#include "kernels/float16.h"

/* ------------------------------------------------------------------ which items */

typedef struct s2_sample {
    const s2_plan *plan;
    uint8_t *keep;
    double flop;
} s2_sample;

static double item_flop(const s2_plan *plan, const s2_plan_item *item)
{
    return 4.0 * item->n_blk * plan->blk_tok * plan->options.tile_tok * plan->pattern->head_dim *
           item->n_heads;
}

static void take(s2_sample *sample, int32_t item)
{
    if (sample->keep[item])
        return;
    sample->keep[item] = 1;
    sample->flop += item_flop(sample->plan, &sample->plan->items[item]);
}

/* One head of each class contributes both ends of the first and the last sequence; the rest is drawn. */
static bool is_edge(const s2_plan *plan, const s2_plan_item *item)
{
    if (item->head != plan->classes[item->cls].first_head ||
        (item->seq != 0 && item->seq != plan->n_seqs - 1))
        return false;
    return item->tile == 0 || item->tile == s2_plan_n_tiles(plan, item->seq) - 1;
}

static bool keep_item(void *user, const s2_plan_item *item)
{
    const s2_sample *const sample = user;
    return sample->keep[item - sample->plan->items] != 0;
}

static s2_status sample_items(s2_harness *harness, const s2_validate_request *request)
{
    double all = 0.0;
    for (int32_t item = 0; item < harness->whole.n_items; item++)
        all += item_flop(&harness->whole, &harness->whole.items[item]);
    harness->some = harness->whole;
    if (request->budget_flop <= 0.0 || all <= request->budget_flop)
        return S2_OK;
    s2_sample sample = {.plan = &harness->whole};
    sample.keep = s2_calloc((size_t)harness->whole.n_items, 1);
    if (sample.keep == NULL)
        return S2_ENOMEM;
    s2_rng rng = {request->seed};
    int32_t n_drawn = 0;
    for (int32_t item = 0; item < harness->whole.n_items; item++)
        if (is_edge(&harness->whole, &harness->whole.items[item]) && sample.flop < request->budget_flop)
            take(&sample, item);
    while (sample.flop < request->budget_flop || n_drawn < 2) {
        take(&sample, (int32_t)s2_rng_below(&rng, (uint64_t)harness->whole.n_items));
        n_drawn++;
    }
    const s2_status status =
        s2_plan_select(&harness->arena, &harness->whole, keep_item, &sample, &harness->some);
    s2_free(sample.keep);
    return status;
}

/* ------------------------------------------------------------------ layout */

static s2_status allocate(s2_harness *harness, s2_guarded *buffer, int64_t n, int64_t elem_bytes)
{
    int64_t n_bytes;
    if (!s2_mul_i64(n, elem_bytes, &n_bytes) || n_bytes > INT64_MAX / 4)
        return S2_ENOMEM;
    void *base;
    S2_TRY(harness->device->ops->alloc(harness->device, (size_t)n_bytes + 2 * S2_GUARD_BYTES, &base));
    *buffer = (s2_guarded){base, (size_t)n_bytes};
    return harness->device->ops->fill(harness->device, base, 0xff, (size_t)n_bytes + 2 * S2_GUARD_BYTES);
}

static bool lengths_differ(const s2_validate_request *request)
{
    for (int32_t seq = 1; seq < request->n_seqs; seq++)
        if (request->seqs[seq].q_tok != request->seqs[0].q_tok ||
            request->seqs[seq].k_tok != request->seqs[0].k_tok)
            return true;
    return false;
}

static s2_status count_tokens(s2_harness *harness, const s2_validate_request *request)
{
    int32_t *const q_begin = S2_NEW(&harness->arena, int32_t, request->n_seqs + 1);
    int32_t *const k_begin = S2_NEW(&harness->arena, int32_t, request->n_seqs + 1);
    if (q_begin == NULL || k_begin == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < request->n_seqs; seq++) {
        harness->n_q_tok += request->seqs[seq].q_tok;
        harness->n_k_tok += request->seqs[seq].k_tok;
        if (harness->n_k_tok > INT32_MAX)
            return S2_ENOMEM;
        q_begin[seq + 1] = (int32_t)harness->n_q_tok;
        k_begin[seq + 1] = (int32_t)harness->n_k_tok;
    }
    if (lengths_differ(request)) {
        harness->problem.q_begin_tok = q_begin;
        harness->problem.k_begin_tok = k_begin;
    }
    return S2_OK;
}

/* Tokens of n_heads heads, or heads of all_tok tokens; a padded layout leaves room for one more head. */
static s2_tensor tensor_of(const s2_guarded *buffer, int64_t n_heads, int64_t head_dim, int64_t seq_tok,
                           int64_t all_tok, const s2_validate_request *request)
{
    const int64_t heads = n_heads + request->padded, tok = heads * head_dim;
    void *const data = buffer->base + S2_GUARD_BYTES;
    if (!request->head_major)
        return (s2_tensor){data, seq_tok * tok, tok, head_dim};
    return (s2_tensor){data, seq_tok * head_dim, head_dim, all_tok * head_dim};
}

static s2_status lay_out(s2_harness *harness, const s2_validate_request *request)
{
    s2_attn_problem *const p = &harness->problem;
    const int64_t d = p->head_dim, bytes = s2_dtype_bytes(p->dtype);
    const int64_t q_bytes = s2_dtype_bytes(s2_q_dtype(p)), kv_bytes = s2_dtype_bytes(s2_kv_dtype(p));
    const int64_t h = p->n_heads + request->padded, g = p->n_kv_heads + request->padded;
    S2_TRY(allocate(harness, &harness->q, harness->n_q_tok * h * d, q_bytes));
    S2_TRY(allocate(harness, &harness->k, harness->n_k_tok * g * d, kv_bytes));
    S2_TRY(allocate(harness, &harness->v, harness->n_k_tok * g * d, kv_bytes));
    S2_TRY(allocate(harness, &harness->o, harness->n_q_tok * h * d, bytes));
    S2_TRY(allocate(harness, &harness->lse, harness->n_q_tok * p->n_heads, 4));
    p->q = tensor_of(&harness->q, p->n_heads, d, request->seqs[0].q_tok, harness->n_q_tok, request);
    p->o = tensor_of(&harness->o, p->n_heads, d, request->seqs[0].q_tok, harness->n_q_tok, request);
    p->k = tensor_of(&harness->k, p->n_kv_heads, d, request->seqs[0].k_tok, harness->n_k_tok, request);
    p->v = tensor_of(&harness->v, p->n_kv_heads, d, request->seqs[0].k_tok, harness->n_k_tok, request);
    const int64_t head_tok = p->q_begin_tok != NULL ? harness->n_q_tok : request->seqs[0].q_tok;
    p->lse =
        (s2_rows){(float *)(void *)(harness->lse.base + S2_GUARD_BYTES), head_tok * p->n_heads, head_tok};
    harness->host_o = s2_malloc(harness->o.n_bytes + 2 * S2_GUARD_BYTES);
    harness->host_lse = s2_malloc(harness->lse.n_bytes + 2 * S2_GUARD_BYTES);
    return harness->host_o != NULL && harness->host_lse != NULL ? S2_OK : S2_ENOMEM;
}

/* Sinks that change nothing, until some are drawn. */
static s2_status lay_out_sinks(s2_harness *harness)
{
    s2_attn_problem *const p = &harness->problem;
    const size_t n_bytes = (size_t)p->n_heads * sizeof(float);
    harness->host_sink = s2_malloc(n_bytes);
    if (harness->host_sink == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < p->n_heads; head++)
        harness->host_sink[head] = -INFINITY;
    S2_TRY(allocate(harness, &harness->sink, p->n_heads, sizeof(float)));
    if (p->pass == S2_PASS_BACKWARD)
        S2_TRY(allocate(harness, &harness->d_sink, p->n_heads, sizeof(float)));
    p->sink = (const float *)(const void *)(harness->sink.base + S2_GUARD_BYTES);
    p->d_sink = p->pass == S2_PASS_BACKWARD ? (float *)(void *)(harness->d_sink.base + S2_GUARD_BYTES) : NULL;
    return harness->device->ops->copy_in(harness->device, harness->sink.base + S2_GUARD_BYTES,
                                         harness->host_sink, n_bytes);
}

static s2_status lay_out_scale(s2_harness *harness, int32_t n_heads, s2_guarded *buffer, float **host,
                               const float **out)
{
    *host = s2_calloc((size_t)n_heads, sizeof **host);
    if (*host == NULL)
        return S2_ENOMEM;
    S2_TRY(allocate(harness, buffer, n_heads, sizeof **host));
    *out = (const float *)(const void *)(buffer->base + S2_GUARD_BYTES);
    return S2_OK;
}

static s2_status lay_out_scales(s2_harness *harness)
{
    s2_attn_problem *const p = &harness->problem;
    S2_TRY(lay_out_scale(harness, p->n_kv_heads, &harness->k_scale, &harness->host_k_scale, &p->k_scale));
    S2_TRY(lay_out_scale(harness, p->n_kv_heads, &harness->v_scale, &harness->host_v_scale, &p->v_scale));
    if (p->pass == S2_PASS_FORWARD)
        S2_TRY(lay_out_scale(harness, p->n_heads, &harness->q_scale, &harness->host_q_scale, &p->q_scale));
    S2_TRY(s2_harness_scale_queries(harness, S2_HARNESS_UNIT, true));
    return s2_harness_scale(harness, S2_HARNESS_UNIT, S2_HARNESS_UNIT, true);
}

void s2_harness_scales(int32_t n_heads, float k_unit, float v_unit, float *k, float *v)
{
    for (int32_t head = 0; head < n_heads; head++) {
        k[head] = k_unit * (1.0f + 0.3f * (float)(head % 3));
        v[head] = v_unit * (1.0f + 0.7f * (float)(head % 4));
    }
}

s2_status s2_harness_scale(s2_harness *harness, float k_unit, float v_unit, bool apart)
{
    const s2_attn_problem *const p = &harness->problem;
    s2_device *const device = harness->device;
    const size_t n_bytes = (size_t)p->n_kv_heads * sizeof(float);
    if (!p->e4m3)
        return S2_OK;
    harness->k_unit = k_unit;
    harness->v_unit = v_unit;
    s2_harness_scales(p->n_kv_heads, k_unit, v_unit, harness->host_k_scale, harness->host_v_scale);
    for (int32_t head = 0; head < p->n_kv_heads && !apart; head++) {
        harness->host_k_scale[head] = k_unit;
        harness->host_v_scale[head] = v_unit;
    }
    S2_TRY(
        device->ops->copy_in(device, harness->k_scale.base + S2_GUARD_BYTES, harness->host_k_scale, n_bytes));
    return device->ops->copy_in(device, harness->v_scale.base + S2_GUARD_BYTES, harness->host_v_scale,
                                n_bytes);
}

s2_status s2_harness_scale_queries(s2_harness *harness, float unit, bool apart)
{
    const s2_attn_problem *const p = &harness->problem;
    if (s2_q_dtype(p) != S2_F8)
        return S2_OK;
    harness->q_unit = unit;
    for (int32_t head = 0; head < p->n_heads; head++)
        harness->host_q_scale[head] = unit * (apart ? 1.0f + 0.1f * (float)(head % 5) : 1.0f);
    return harness->device->ops->copy_in(harness->device, harness->q_scale.base + S2_GUARD_BYTES,
                                         harness->host_q_scale, (size_t)p->n_heads * sizeof(float));
}

s2_status s2_harness_fill_queries(s2_harness *harness, uint64_t seed, float spread)
{
    const s2_dtype dtype = s2_q_dtype(&harness->problem);
    S2_TRY(s2_harness_scale_queries(harness, S2_HARNESS_UNIT * fmaxf(spread, 1.0f), true));
    return harness->device->ops->fill_normal(harness->device, harness->q.base + S2_GUARD_BYTES,
                                             (int64_t)harness->q.n_bytes / s2_dtype_bytes(dtype), dtype, seed,
                                             spread / harness->q_unit);
}

static s2_status fill_kv(s2_harness *harness, const s2_guarded *buffer, uint64_t seed, float spread)
{
    const s2_dtype dtype = s2_kv_dtype(&harness->problem);
    return harness->device->ops->fill_normal(harness->device, buffer->base + S2_GUARD_BYTES,
                                             (int64_t)buffer->n_bytes / s2_dtype_bytes(dtype), dtype, seed,
                                             spread);
}

s2_status s2_harness_fill_keys(s2_harness *harness, uint64_t seed, float spread)
{
    return fill_kv(harness, &harness->k, seed, spread / harness->k_unit);
}

s2_status s2_harness_fill_values(s2_harness *harness, uint64_t seed)
{
    return fill_kv(harness, &harness->v, seed, 1.0f / harness->v_unit);
}

void s2_harness_sinks(uint64_t seed, int32_t n_heads, float *out)
{
    for (int32_t head = 0; head < n_heads; head++) {
        const float drawn = 2.0f + 2.0f * s2_input_value(seed ^ UINT64_C(0x73696e6b), (uint64_t)head);
        out[head] = head % 4 == 3 ? -INFINITY : head % 4 == 1 ? drawn + 20.0f : drawn;
    }
}

s2_status s2_harness_draw_sinks(s2_harness *harness, uint64_t seed)
{
    const s2_attn_problem *const p = &harness->problem;
    if (!p->sinks)
        return S2_OK;
    s2_harness_sinks(seed, p->n_heads, harness->host_sink);
    return harness->device->ops->copy_in(harness->device, harness->sink.base + S2_GUARD_BYTES,
                                         harness->host_sink, (size_t)p->n_heads * sizeof(float));
}

/* Half of the shift stands in K, so that neither column is large. */
float s2_harness_shift_query(const s2_attn_problem *problem, float shift)
{
    const float root = sqrtf(fabsf(shift / problem->scale));
    return shift / problem->scale < 0.0f ? -root : root;
}

/* Column 0 of all rows; what lies between the rows of a padded layout is set too. */
static s2_status set_first_column(const s2_harness *harness, const s2_guarded *buffer, float value)
{
    const s2_device_ops *const ops = harness->device->ops;
    const s2_dtype dtype = harness->problem.dtype;
    uint8_t *const host = s2_malloc(buffer->n_bytes);
    if (host == NULL)
        return S2_ENOMEM;
    s2_status status = ops->copy_out(harness->device, host, buffer->base + S2_GUARD_BYTES, buffer->n_bytes);
    const int64_t n = (int64_t)buffer->n_bytes / s2_dtype_bytes(dtype);
    for (int64_t at = 0; at < n && status == S2_OK; at += harness->problem.head_dim)
        s2_float_store(host, dtype, at, value);
    if (status == S2_OK)
        status = ops->copy_in(harness->device, buffer->base + S2_GUARD_BYTES, host, buffer->n_bytes);
    s2_free(host);
    return status;
}

s2_status s2_harness_shift_scores(s2_harness *harness, float shift)
{
    const float query = s2_harness_shift_query(&harness->problem, shift);
    if (shift == 0.0f)
        return S2_OK;
    S2_TRY(set_first_column(harness, &harness->q, query));
    return set_first_column(harness, &harness->k, fabsf(query));
}

s2_status s2_harness_fill(s2_harness *harness, const s2_validate_request *request)
{
    const s2_dtype dtype = harness->problem.dtype;
    S2_TRY(s2_harness_fill_queries(harness, request->seed * 16, request->spread));
    S2_TRY(s2_harness_fill_keys(harness, request->seed * 16 + 1, 1.0f));
    S2_TRY(s2_harness_fill_values(harness, request->seed * 16 + 2));
    if (harness->d_o.base != NULL)
        S2_TRY(harness->device->ops->fill_normal(harness->device, harness->d_o.base + S2_GUARD_BYTES,
                                                 (int64_t)harness->d_o.n_bytes / s2_dtype_bytes(dtype), dtype,
                                                 request->seed * 16 + 3, 1.0f));
    S2_TRY(s2_harness_shift_scores(harness, request->shift));
    return s2_harness_draw_sinks(harness, request->seed);
}

/* Gradients have the layout of their tensors. */
static s2_status lay_out_gradients(s2_harness *harness)
{
    s2_attn_problem *const p = &harness->problem;
    const s2_tensor *const like[] = {&p->o, &p->q, &p->k, &p->v};
    const s2_guarded *const sized[] = {&harness->o, &harness->q, &harness->k, &harness->v};
    s2_guarded *const buffers[] = {&harness->d_o, &harness->d_q, &harness->d_k, &harness->d_v};
    s2_tensor *const tensors[] = {&p->d_o, &p->d_q, &p->d_k, &p->d_v};
    for (size_t buffer = 0; buffer < sizeof buffers / sizeof *buffers; buffer++) {
        S2_TRY(allocate(harness, buffers[buffer], (int64_t)sized[buffer]->n_bytes, 1));
        *tensors[buffer] = *like[buffer];
        tensors[buffer]->data = buffers[buffer]->base + S2_GUARD_BYTES;
    }
    return S2_OK;
}

/* Everything that depends on the kernel; S2_EUNSUPPORTED where it cannot take this problem. */
static s2_status open_with(s2_harness *harness, const s2_validate_request *request, const s2_kernel *kernel,
                           s2_diag *why)
{
    harness->kernel = kernel;
    harness->problem.plan = NULL;
    S2_TRY(s2_kernel_supports(harness->device, kernel, &harness->problem, why));
    const s2_plan_options options = s2_kernel_cut(kernel->traits, harness->problem.head_dim);
    S2_TRY(s2_plan_build(&harness->arena, request->pattern, request->phase, request->layer, request->seqs,
                         request->n_seqs, &options, &harness->whole, why));
    S2_TRY(sample_items(harness, request));
    harness->problem.plan = &harness->some;
    S2_TRY(s2_kernel_supports(harness->device, kernel, &harness->problem, why));
    S2_TRY(count_tokens(harness, request));
    S2_TRY(lay_out(harness, request));
    if (harness->problem.pass == S2_PASS_BACKWARD)
        S2_TRY(lay_out_gradients(harness));
    if (harness->problem.sinks)
        S2_TRY(lay_out_sinks(harness));
    if (harness->problem.e4m3)
        S2_TRY(lay_out_scales(harness));
    return kernel->prepare(harness->device, &harness->problem, &harness->state, why);
}

typedef struct s2_attempt {
    s2_harness *harness;
    const s2_validate_request *request;
} s2_attempt;

static s2_status attempt(void *user, const s2_kernel *kernel, s2_diag *why)
{
    const s2_attempt *const ask = user;
    /* that a kernel computes another pass is worth saying only if that kernel was requested */
    if (ask->request->kernel == NULL &&
        !s2_kernel_takes_pass(ask->harness->device, kernel, ask->harness->problem.pass))
        return S2_EUNSUPPORTED;
    return open_with(ask->harness, ask->request, kernel, why);
}

/* The best kernel that takes the problem: a refusal may depend on the plan, so choosing opens the harness. */
static s2_status open(s2_harness *harness, const s2_validate_request *request, s2_diag *why)
{
    const s2_pattern *const pattern = request->pattern;
    const float usual = 1.0f / sqrtf((float)pattern->head_dim);
    harness->problem = (s2_attn_problem){.pass = request->pass,
                                         .dtype = request->dtype,
                                         .e4m3 = request->e4m3,
                                         .n_seqs = request->n_seqs,
                                         .n_heads = pattern->n_heads,
                                         .n_kv_heads = pattern->n_kv_heads,
                                         .head_dim = pattern->head_dim,
                                         .scale = request->scale != 0.0f ? request->scale : usual,
                                         .cap = request->cap,
                                         .sinks = request->sinks};
    s2_attempt ask = {harness, request};
    const s2_kernel *chosen;
    return s2_kernel_choose(harness->device, request->kernel, attempt, &ask, &chosen, why);
}

s2_status s2_harness_open(s2_harness *harness, s2_device *device, const s2_validate_request *request,
                          s2_diag *why)
{
    *harness = (s2_harness){.device = device, .q_unit = 1.0f, .k_unit = 1.0f, .v_unit = 1.0f};
    return open(harness, request, why);
}

void s2_harness_close(s2_harness *harness)
{
    if (harness->kernel != NULL && harness->state != NULL)
        harness->kernel->finish(harness->device, harness->state);
    s2_guarded *const buffers[] = {&harness->q,       &harness->k,      &harness->v,      &harness->o,
                                   &harness->lse,     &harness->d_o,    &harness->d_q,    &harness->d_k,
                                   &harness->d_v,     &harness->sink,   &harness->d_sink, &harness->q_scale,
                                   &harness->k_scale, &harness->v_scale};
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++)
        harness->device->ops->release(harness->device, buffers[at]->base);
    s2_free(harness->host_o);
    s2_free(harness->host_lse);
    s2_free(harness->host_sink);
    s2_free(harness->host_q_scale);
    s2_free(harness->host_k_scale);
    s2_free(harness->host_v_scale);
    s2_arena_release(&harness->arena);
    *harness = (s2_harness){0};
}

s2_status s2_harness_launch(void *harness, s2_diag *why)
{
    s2_harness *const own = harness;
    return own->kernel->run(own->device, &own->problem, own->state, why);
}

s2_status s2_harness_time(s2_harness *harness, double *ms, s2_diag *why)
{
    const s2_device_ops *const ops = harness->device->ops;
    double spent = 0.0;
    S2_TRY(ops->time_begin(harness->device));
    S2_TRY(s2_harness_launch(harness, why));
    S2_TRY(ops->sync(harness->device, why));
    S2_TRY(ops->time_end(harness->device, &spent));
    if (ms != NULL)
        *ms = spent;
    return S2_OK;
}

static s2_status launch(s2_harness *harness, double *ms, s2_diag *why)
{
    const s2_device_ops *const ops = harness->device->ops;
    S2_TRY(ops->fill(harness->device, harness->o.base, 0xff, harness->o.n_bytes + 2 * S2_GUARD_BYTES));
    S2_TRY(ops->fill(harness->device, harness->lse.base, 0xff, harness->lse.n_bytes + 2 * S2_GUARD_BYTES));
    return s2_harness_time(harness, ms, why);
}

static s2_status copy_all(s2_harness *harness)
{
    const s2_device_ops *const ops = harness->device->ops;
    S2_TRY(ops->copy_out(harness->device, harness->host_o, harness->o.base,
                         harness->o.n_bytes + 2 * S2_GUARD_BYTES));
    return ops->copy_out(harness->device, harness->host_lse, harness->lse.base,
                         harness->lse.n_bytes + 2 * S2_GUARD_BYTES);
}

static s2_status copy_rows(s2_harness *harness, const s2_probe_row *rows, int64_t n_rows)
{
    const s2_attn_problem *const p = &harness->problem;
    const s2_device_ops *const ops = harness->device->ops;
    const int64_t bytes = s2_dtype_bytes(p->dtype);
    int64_t *const offsets = s2_calloc((size_t)n_rows + 1, 2 * sizeof *offsets);
    if (offsets == NULL)
        return S2_ENOMEM;
    for (int64_t n = 0; n < n_rows; n++) {
        const s2_probe_row row = rows[n];
        offsets[n] =
            S2_GUARD_BYTES + s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head) * bytes;
        offsets[n_rows + n] =
            S2_GUARD_BYTES + s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head) * 4;
    }
    s2_status status = ops->copy_pieces_out(harness->device, harness->host_o, harness->o.base, offsets,
                                            n_rows, (size_t)(p->head_dim * bytes));
    if (status == S2_OK)
        status = ops->copy_pieces_out(harness->device, harness->host_lse, harness->lse.base, offsets + n_rows,
                                      n_rows, 4);
    s2_free(offsets);
    return status;
}

s2_status s2_harness_run(s2_harness *harness, double *ms, s2_diag *why)
{
    S2_TRY(launch(harness, ms, why));
    return copy_all(harness);
}

s2_status s2_harness_run_rows(s2_harness *harness, const s2_probe_row *rows, int64_t n_rows, double *ms,
                              s2_diag *why)
{
    if (2 * n_rows >= harness->n_q_tok * harness->problem.n_heads)
        return s2_harness_run(harness, ms, why);
    S2_TRY(launch(harness, ms, why));
    return copy_rows(harness, rows, n_rows);
}

/* ------------------------------------------------------------------ strays */

static void own(uint8_t *owned, int64_t begin, int64_t n)
{
    memset(owned + begin, 1, (size_t)n);
}

bool s2_harness_next_row(s2_row_walk *walk, s2_probe_row *row)
{
    for (; walk->item < walk->plan->n_items; walk->item++, walk->begun = false) {
        const s2_plan_item *const item = &walk->plan->items[walk->item];
        if (!walk->begun)
            walk->q_tok = s2_harness_item_queries(walk->plan, item, &walk->end_tok);
        walk->begun = true;
        if (walk->q_tok >= walk->end_tok)
            continue;
        *row =
            (s2_probe_row){.seq = item->seq, .q_tok = (int32_t)walk->q_tok, .head = item->head + walk->head};
        walk->head = (walk->head + 1) % item->n_heads;
        walk->q_tok += walk->head == 0;
        return true;
    }
    return false;
}

/* Mark the bytes that the plan's rows own, per element of 4 or 2 bytes. */
static void mark_owned(const s2_harness *harness, uint8_t *o_owned, uint8_t *lse_owned)
{
    const s2_attn_problem *const p = &harness->problem;
    s2_row_walk walk = {.plan = &harness->some};
    for (s2_probe_row row; s2_harness_next_row(&walk, &row);) {
        own(o_owned, s2_tensor_at(&p->o, p->q_begin_tok, row.seq, row.q_tok, row.head), p->head_dim);
        own(lse_owned, s2_rows_at(&p->lse, p->q_begin_tok, row.seq, row.q_tok, row.head), 1);
    }
}

/* A whole plan without padding owns every byte between the guards. */
static bool owns_all(const s2_harness *harness)
{
    const s2_attn_problem *const p = &harness->problem;
    return harness->some.n_items == harness->whole.n_items &&
           (int64_t)harness->o.n_bytes ==
               harness->n_q_tok * p->n_heads * p->head_dim * s2_dtype_bytes(p->dtype);
}

/* owned NULL: every byte is owned. */
static int64_t first_stray(const uint8_t *host, const s2_guarded *buffer, const uint8_t *owned,
                           size_t elem_bytes)
{
    const size_t data_end = S2_GUARD_BYTES + buffer->n_bytes;
    for (size_t nth = 0; nth < data_end + S2_GUARD_BYTES; nth++) {
        const bool guard = nth < S2_GUARD_BYTES || nth >= data_end;
        if (owned == NULL && nth == S2_GUARD_BYTES)
            nth = data_end;
        if (host[nth] != 0xff && (guard || owned == NULL || !owned[(nth - S2_GUARD_BYTES) / elem_bytes]))
            return (int64_t)nth - S2_GUARD_BYTES;
    }
    return INT64_MIN;
}

int64_t s2_harness_stray_byte(const s2_harness *harness, const char **buffer)
{
    const size_t elem_bytes = (size_t)s2_dtype_bytes(harness->problem.dtype);
    const bool all = owns_all(harness);
    uint8_t *const o_owned = all ? NULL : s2_calloc(harness->o.n_bytes / elem_bytes, 1);
    uint8_t *const lse_owned = all ? NULL : s2_calloc(harness->lse.n_bytes / 4, 1);
    int64_t stray = INT64_MIN;
    if (all || (o_owned != NULL && lse_owned != NULL)) {
        if (!all)
            mark_owned(harness, o_owned, lse_owned);
        *buffer = "the output";
        stray = first_stray(harness->host_o, &harness->o, o_owned, elem_bytes);
        if (stray == INT64_MIN) {
            *buffer = "the log-sum-exp";
            stray = first_stray(harness->host_lse, &harness->lse, lse_owned, 4);
        }
    }
    s2_free(o_owned);
    s2_free(lse_owned);
    return stray;
}

/* A plan's work, in key blocks times heads. */
static double cost(const s2_plan *plan)
{
    double n = 0.0;
    for (int32_t item = 0; item < plan->n_items; item++)
        n += (double)plan->items[item].n_blk * plan->items[item].n_heads;
    return n;
}

double s2_harness_whole_over_some(const s2_harness *harness)
{
    const double some = cost(&harness->some);
    return cost(&harness->whole) / s2_max_f64(some, 1);
}
