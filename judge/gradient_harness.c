#include "judge/gradient_harness.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

const char *s2_gradient_harness_word(s2_gradient_kind grad)
{
    static const char *const words[S2_N_GRADIENT_KINDS] = {"dQ", "dK", "dV"};
    return words[grad];
}

const s2_guarded *s2_gradient_harness_buffer(const s2_gradient_harness *gradients, s2_gradient_kind grad)
{
    const s2_guarded *const buffers[S2_N_GRADIENT_KINDS] = {&gradients->harness.d_q, &gradients->harness.d_k,
                                                            &gradients->harness.d_v};
    return buffers[grad];
}

const s2_tensor *s2_gradient_harness_tensor(const s2_gradient_harness *gradients, s2_gradient_kind grad)
{
    const s2_attn_problem *const p = &gradients->harness.problem;
    const s2_tensor *const tensors[S2_N_GRADIENT_KINDS] = {&p->d_q, &p->d_k, &p->d_v};
    return tensors[grad];
}

static size_t whole_bytes(const s2_gradient_harness *gradients, s2_gradient_kind grad)
{
    return s2_gradient_harness_buffer(gradients, grad)->n_bytes + 2 * S2_GUARD_BYTES;
}

/* ------------------------------------------------------------------ the forward */

typedef struct s2_forward {
    const s2_harness *harness; /* of the backward */
    const s2_kernel *kernel;
    s2_arena arena;
    s2_attn_problem problem;
    s2_plan whole, some;
    void *state;
} s2_forward;

/* Whether a tile of the forward holds a row of the backward's plan. */
static bool shares_rows(void *user, const s2_plan_item *item)
{
    const s2_forward *const forward = user;
    const s2_plan *const plan = &forward->harness->some;
    const int64_t begin = s2_plan_tile_begin(&forward->whole, item->seq, item->tile);
    const int64_t end = begin + forward->whole.options.tile_tok;
    for (int32_t nth = 0; nth < plan->n_items; nth++) {
        const s2_plan_item *const own = &plan->items[nth];
        const int64_t own_begin = s2_plan_tile_begin(plan, own->seq, own->tile);
        if (own->seq == item->seq && own->head < item->head + item->n_heads &&
            item->head < own->head + own->n_heads && own_begin < end &&
            begin < own_begin + plan->options.tile_tok)
            return true;
    }
    return false;
}

static s2_status plan_forward(s2_forward *forward, const s2_kernel *kernel, s2_diag *why)
{
    const s2_harness *const harness = forward->harness;
    forward->problem.plan = NULL;
    S2_TRY(s2_kernel_supports(harness->device, kernel, &forward->problem, why));
    const s2_plan_options options = s2_kernel_cut(kernel->traits, forward->problem.head_dim);
    S2_TRY(s2_plan_build(&forward->arena, harness->whole.pattern, harness->whole.phase, harness->whole.layer,
                         harness->whole.seqs, harness->whole.n_seqs, &options, &forward->whole, why));
    forward->some = forward->whole;
    if (harness->some.n_items != harness->whole.n_items)
        S2_TRY(s2_plan_select(&forward->arena, &forward->whole, shares_rows, forward, &forward->some));
    forward->problem.plan = &forward->some;
    return s2_kernel_supports(harness->device, kernel, &forward->problem, why);
}

static s2_status attempt(void *user, const s2_kernel *kernel, s2_diag *why)
{
    s2_forward *const forward = user;
    S2_TRY(plan_forward(forward, kernel, why));
    return kernel->prepare(forward->harness->device, &forward->problem, &forward->state, why);
}

static s2_status open_forward(s2_gradient_harness *gradients, s2_diag *why)
{
    s2_forward *const forward = s2_calloc(1, sizeof *forward);
    if (forward == NULL)
        return S2_ENOMEM;
    gradients->forward = forward;
    forward->harness = &gradients->harness;
    forward->problem = gradients->harness.problem;
    forward->problem.pass = S2_PASS_FORWARD;
    return s2_kernel_choose(gradients->harness.device, NULL, attempt, forward, &forward->kernel, why);
}

static void close_forward(s2_forward *forward)
{
    if (forward == NULL)
        return;
    if (forward->kernel != NULL)
        forward->kernel->finish(forward->harness->device, forward->state);
    s2_arena_release(&forward->arena);
    s2_free(forward);
}

s2_status s2_gradient_harness_forward(s2_gradient_harness *gradients, s2_diag *why)
{
    s2_device *const device = gradients->harness.device;
    const s2_forward *const forward = gradients->forward;
    S2_TRY(forward->kernel->run(device, &forward->problem, forward->state, why));
    return device->ops->sync(device, why);
}

const char *s2_gradient_harness_forward_kernel(const s2_gradient_harness *gradients)
{
    return gradients->forward->kernel->traits->name;
}

const s2_plan *s2_gradient_harness_forward_plan(const s2_gradient_harness *gradients)
{
    return &gradients->forward->some;
}

/* ------------------------------------------------------------------ open and close */

s2_status s2_gradient_harness_open(s2_gradient_harness *gradients, s2_device *device,
                                   const s2_validate_request *request, s2_diag *why)
{
    *gradients = (s2_gradient_harness){.kv_head = request->few_heads ? request->pattern->n_kv_heads / 2 : -1};
    S2_TRY(s2_harness_open(&gradients->harness, device, request, why));
    S2_TRY(open_forward(gradients, why));
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++) {
        gradients->host[grad] = s2_malloc(whole_bytes(gradients, (s2_gradient_kind)grad));
        if (gradients->host[grad] == NULL)
            return S2_ENOMEM;
    }
    if (!request->sinks)
        return S2_OK;
    gradients->host_d_sink = s2_malloc(gradients->harness.d_sink.n_bytes + 2 * S2_GUARD_BYTES);
    return gradients->host_d_sink != NULL ? S2_OK : S2_ENOMEM;
}

void s2_gradient_harness_close(s2_gradient_harness *gradients)
{
    for (int32_t grad = 0; grad < S2_N_GRADIENT_KINDS; grad++)
        s2_free(gradients->host[grad]);
    s2_free(gradients->host_d_sink);
    close_forward(gradients->forward);
    s2_harness_close(&gradients->harness);
    *gradients = (s2_gradient_harness){0};
}

/* ------------------------------------------------------------------ one run */

s2_status s2_gradient_harness_copy_heads(const s2_gradient_harness *gradients, const s2_tensor *tensor,
                                         bool is_q, uint8_t *out)
{
    const s2_harness *const harness = &gradients->harness;
    const s2_attn_problem *const p = &harness->problem;
    const int32_t group = is_q ? p->n_heads / p->n_kv_heads : 1, first = gradients->kv_head * group;
    const int32_t *const begin_tok = is_q ? p->q_begin_tok : p->k_begin_tok;
    const int64_t bytes = s2_dtype_bytes(p->dtype);
    for (int32_t seq = 0; seq < p->n_seqs; seq++)
        for (int32_t head = first; head < first + group; head++) {
            const int64_t n_tok = is_q ? harness->some.seqs[seq].q_tok : harness->some.seqs[seq].k_tok;
            const int64_t begin = s2_tensor_at(tensor, begin_tok, seq, 0, head) * bytes;
            const int64_t end = (s2_tensor_at(tensor, begin_tok, seq, n_tok - 1, head) + p->head_dim) * bytes;
            S2_TRY(harness->device->ops->copy_out(
                harness->device, out + begin, (const uint8_t *)tensor->data + begin, (size_t)(end - begin)));
        }
    return S2_OK;
}

static s2_status copy_grad(s2_gradient_harness *gradients, s2_gradient_kind grad)
{
    s2_device *const device = gradients->harness.device;
    if (gradients->kv_head >= 0)
        return s2_gradient_harness_copy_heads(gradients, s2_gradient_harness_tensor(gradients, grad),
                                              grad == S2_GRADIENT_DQ, gradients->host[grad] + S2_GUARD_BYTES);
    return device->ops->copy_out(device, gradients->host[grad],
                                 s2_gradient_harness_buffer(gradients, grad)->base,
                                 whole_bytes(gradients, grad));
}

s2_status s2_gradient_harness_run(s2_gradient_harness *gradients, double *ms, s2_diag *why)
{
    s2_harness *const harness = &gradients->harness;
    const s2_device_ops *const ops = harness->device->ops;
    for (s2_gradient_kind grad = S2_GRADIENT_DQ; grad < S2_N_GRADIENT_KINDS; grad++)
        S2_TRY(ops->fill(harness->device, s2_gradient_harness_buffer(gradients, grad)->base, 0xff,
                         whole_bytes(gradients, grad)));
    const size_t sink_bytes = harness->d_sink.n_bytes + 2 * S2_GUARD_BYTES;
    if (gradients->host_d_sink != NULL)
        S2_TRY(ops->fill(harness->device, harness->d_sink.base, 0xff, sink_bytes));
    S2_TRY(s2_harness_time(harness, ms, why));
    for (s2_gradient_kind grad = S2_GRADIENT_DQ; grad < S2_N_GRADIENT_KINDS; grad++)
        S2_TRY(copy_grad(gradients, grad));
    if (gradients->host_d_sink != NULL)
        S2_TRY(ops->copy_out(harness->device, gradients->host_d_sink, harness->d_sink.base, sink_bytes));
    return S2_OK;
}
