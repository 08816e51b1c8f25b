#include "kernels/train.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

const char *s2_train_word(s2_train_grad grad)
{
    static const char *const words[S2_N_TRAIN_GRADS] = {"dQ", "dK", "dV"};
    return words[grad];
}

const s2_guarded *s2_train_buffer(const s2_train *train, s2_train_grad grad)
{
    const s2_guarded *const buffers[S2_N_TRAIN_GRADS] = {&train->rig.d_q, &train->rig.d_k, &train->rig.d_v};
    return buffers[grad];
}

const s2_tensor *s2_train_tensor(const s2_train *train, s2_train_grad grad)
{
    const s2_attn_problem *const p = &train->rig.problem;
    const s2_tensor *const tensors[S2_N_TRAIN_GRADS] = {&p->d_q, &p->d_k, &p->d_v};
    return tensors[grad];
}

static size_t whole_bytes(const s2_train *train, s2_train_grad grad)
{
    return s2_train_buffer(train, grad)->n_bytes + 2 * S2_GUARD_BYTES;
}

s2_outcome s2_train_open(s2_train *train, s2_device *device, const s2_validate_request *request, char *reason,
                         size_t reason_cap)
{
    *train = (s2_train){.kv_head = request->few_heads ? request->pattern->n_kv_heads / 2 : -1};
    const s2_outcome outcome = s2_rig_open(&train->rig, device, request, reason, reason_cap);
    for (int32_t grad = 0; grad < S2_N_TRAIN_GRADS && outcome == S2_OUTCOME_OK; grad++) {
        train->host[grad] = s2_malloc(whole_bytes(train, (s2_train_grad)grad));
        if (train->host[grad] == NULL)
            return s2_rig_failed(S2_ENOMEM, &(s2_diag){0}, reason, reason_cap);
    }
    return outcome;
}

void s2_train_close(s2_train *train)
{
    for (int32_t grad = 0; grad < S2_N_TRAIN_GRADS; grad++)
        s2_free(train->host[grad]);
    s2_rig_close(&train->rig);
    *train = (s2_train){0};
}

s2_status s2_train_fill(s2_train *train, const s2_validate_request *request)
{
    s2_rig *const rig = &train->rig;
    const s2_guarded *const buffers[] = {&rig->q, &rig->k, &rig->v, &rig->d_o};
    const int64_t bytes = s2_dtype_size(rig->problem.dtype);
    for (size_t at = 0; at < sizeof buffers / sizeof *buffers; at++)
        S2_TRY(rig->device->ops->fill_normal(rig->device, buffers[at]->base + S2_GUARD_BYTES,
                                             (int64_t)buffers[at]->n_bytes / bytes, rig->problem.dtype,
                                             request->seed * 16 + at, at == 0 ? request->spread : 1.0f));
    return S2_OK;
}

/* ------------------------------------------------------------------ the forward */

typedef struct s2_forward {
    s2_train *train;
    s2_arena arena;
    s2_attn_problem problem;
    s2_plan whole, some;
    void *state;
} s2_forward;

/* Whether a tile of the forward holds a row of the backward's plan. */
static bool shares_rows(void *user, const s2_plan_item *item)
{
    const s2_forward *const forward = user;
    const s2_plan *const plan = &forward->train->rig.some;
    const int64_t begin = s2_plan_tile_begin(&forward->whole, item->seq, item->tile);
    const int64_t end = begin + forward->whole.options.tile_tok;
    for (int32_t at = 0; at < plan->n_items; at++) {
        const s2_plan_item *const own = &plan->items[at];
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
    const s2_rig *const rig = &forward->train->rig;
    s2_plan_options options;
    forward->problem.plan = NULL;
    S2_TRY(kernel->supports(rig->device, &forward->problem, why));
    kernel->options(rig->device, &forward->problem, &options);
    S2_TRY(s2_plan_build(&forward->arena, rig->whole.pattern, rig->whole.phase, rig->whole.layer,
                         rig->whole.seqs, rig->whole.n_seqs, &options, &forward->whole, why));
    forward->some = forward->whole;
    if (rig->some.n_items != rig->whole.n_items)
        S2_TRY(s2_plan_select(&forward->arena, &forward->whole, shares_rows, forward, &forward->some));
    forward->problem.plan = &forward->some;
    return kernel->supports(rig->device, &forward->problem, why);
}

static s2_status attempt(void *user, const s2_kernel *kernel, s2_diag *why)
{
    s2_forward *const forward = user;
    S2_TRY(plan_forward(forward, kernel, why));
    return kernel->prepare(forward->train->rig.device, &forward->problem, &forward->state, why);
}

s2_status s2_train_forward(s2_train *train, s2_diag *why)
{
    s2_device *const device = train->rig.device;
    s2_forward forward = {.train = train, .problem = train->rig.problem};
    const s2_kernel *kernel = NULL;
    forward.problem.phase = S2_FORWARD;
    s2_status status = s2_kernel_choose(device, NULL, attempt, &forward, &kernel, why);
    if (status == S2_OK) {
        status = kernel->run(device, &forward.problem, forward.state, why);
        if (status == S2_OK)
            status = device->ops->sync(device, why);
        kernel->finish(device, forward.state);
    }
    s2_arena_release(&forward.arena);
    return status;
}

/* ------------------------------------------------------------------ one run */

/* One head of one sequence, which lies in one piece when the layout is by heads. */
static s2_status copy_head(s2_train *train, s2_train_grad grad, int32_t seq, int32_t head)
{
    const s2_rig *const rig = &train->rig;
    const s2_tensor *const tensor = s2_train_tensor(train, grad);
    const bool is_q = grad == S2_TRAIN_DQ;
    const int32_t *const begin_tok = is_q ? rig->problem.q_begin_tok : rig->problem.k_begin_tok;
    const int64_t bytes = s2_dtype_size(rig->problem.dtype);
    const int64_t n_tok = is_q ? rig->some.seqs[seq].q_tok : rig->some.seqs[seq].k_tok;
    const int64_t begin = s2_tensor_at(tensor, begin_tok, seq, 0, head) * bytes;
    const int64_t end =
        (s2_tensor_at(tensor, begin_tok, seq, n_tok - 1, head) + rig->problem.head_dim) * bytes;
    return rig->device->ops->copy_out(rig->device, train->host[grad] + S2_GUARD_BYTES + begin,
                                      (const uint8_t *)tensor->data + begin, (size_t)(end - begin));
}

static s2_status copy_grad(s2_train *train, s2_train_grad grad)
{
    const s2_rig *const rig = &train->rig;
    const int32_t group = grad == S2_TRAIN_DQ ? rig->problem.n_heads / rig->problem.n_kv_heads : 1;
    if (train->kv_head < 0)
        return rig->device->ops->copy_out(rig->device, train->host[grad], s2_train_buffer(train, grad)->base,
                                          whole_bytes(train, grad));
    for (int32_t seq = 0; seq < rig->problem.n_seqs; seq++)
        for (int32_t head = train->kv_head * group; head < (train->kv_head + 1) * group; head++)
            S2_TRY(copy_head(train, grad, seq, head));
    return S2_OK;
}

static s2_status run(s2_train *train, double *ms, s2_diag *why)
{
    s2_rig *const rig = &train->rig;
    const s2_device_ops *const ops = rig->device->ops;
    double spent = 0.0;
    for (s2_train_grad grad = S2_TRAIN_DQ; grad < S2_N_TRAIN_GRADS; grad++)
        S2_TRY(ops->fill(rig->device, s2_train_buffer(train, grad)->base, 0xff, whole_bytes(train, grad)));
    S2_TRY(ops->time_begin(rig->device));
    S2_TRY(rig->kernel->run(rig->device, &rig->problem, rig->state, why));
    S2_TRY(ops->sync(rig->device, why));
    S2_TRY(ops->time_end(rig->device, &spent));
    for (s2_train_grad grad = S2_TRAIN_DQ; grad < S2_N_TRAIN_GRADS; grad++)
        S2_TRY(copy_grad(train, grad));
    if (ms != NULL)
        *ms = spent;
    return S2_OK;
}

s2_outcome s2_train_run(s2_train *train, double *ms, char *reason, size_t reason_cap)
{
    s2_diag why = {0};
    const s2_status status = run(train, ms, &why);
    return status == S2_OK ? S2_OUTCOME_OK : s2_rig_failed(status, &why, reason, reason_cap);
}
