#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/fwd_sm90.cuh"
#include "kernels/cuda/fwd_sm90_inst.cuh"
#include "kernels/cuda/lists.cuh"
#include "kernels/cuda/panels.cuh"
#include "kernels/cuda/sm90_host.cuh"
#include "kernels/cuda/state.cuh"

namespace
{

typedef cudaError_t (*Launch)(const s2::FwdParams &, int32_t, int32_t, cudaStream_t);
struct State {
    s2::FwdParams params;
    Launch launch;
    int32_t block_tok;
    s2_sm90_steps steps;
    s2_sm90_places places;
    s2_panels panels; /* of e4m3 */
    void *counter;
};

/* Keys of a whole step: FwdConfig::KEYS of the instance. */
int32_t key_step(int32_t head_dim)
{
    return head_dim > 128 ? 64 : 128;
}

/* The smallest instance that holds the head dimension; missing columns read as zeros. */
Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_FWD_SM90_LAUNCH(dim, 1) : S2_FWD_SM90_LAUNCH(dim, 0);
    S2_FWD_SM90_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

/* The same with a cap or sinks. */
Launch extra_launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_FWD_SM90_EXTRA(dim, 1) : S2_FWD_SM90_EXTRA(dim, 0);
    S2_FWD_SM90_EXTRA_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

s2_status supports_plan(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int32_t half_tok = key_step(problem->head_dim) / 2;
    if (plan->options.tile_tok * plan->pack_heads != 128 || plan->options.key_tok != half_tok)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    return problem->listed != NULL ? s2_cuda_lists_support(problem, half_tok, why) : S2_OK;
}

s2_status supports_any(const s2_kernel_traits *traits, const s2_device *device,
                       const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(traits, device, problem, why));
    if (problem->pass != S2_PASS_FORWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes the forward only");
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    return S2_OK;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(supports_any(&s2_traits_sm90, device, problem, why));
    if (problem->sinks && !(problem->cap > 0.0f) && problem->head_dim > 128)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "takes sink logits without a cap up to head dimension 128");
    S2_TRY(s2_cuda_strides_support(problem, why));
    return problem->plan != NULL ? supports_plan(problem, why) : S2_OK;
}

/* Blocks of threads of a grid in y and z. */
enum { MOST_BLOCKS = 65535 };

s2_status supports_e4m3(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(supports_any(&s2_traits_sm90_e4m3, device, problem, why));
    if (!problem->e4m3)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes queries, keys and values in e4m3");
    if (!s2_cuda_strides_are(&problem->q, 16) || !s2_cuda_strides_are(&problem->k, 16) ||
        !s2_cuda_strides_are(&problem->v, 16) || !s2_cuda_strides_fit(&problem->o))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "needs strides that are multiples of 16 elements, of outputs of 8");
    if (problem->n_seqs > MOST_BLOCKS || problem->n_kv_heads > MOST_BLOCKS)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes up to %d sequences and KV heads",
                           MOST_BLOCKS);
    return problem->plan != NULL ? supports_plan(problem, why) : S2_OK;
}

s2_status find_place(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_mapped tensors[3] = {{&problem->q, false, 64},
                                  {&problem->k, true, state->block_tok},
                                  {&problem->v, true, state->block_tok}};
    s2_sm90_found found;
    S2_TRY(s2_sm90_find_place(device, problem, tensors, 3, &state->places, &found, why));
    state->params.maps = found.maps;
    state->params.o = found.o;
    state->params.moved = found.moved;
    return S2_OK;
}

int32_t rows_of(const s2_attn_problem *problem, int32_t at)
{
    return (int32_t)s2_rows_at(&problem->lse, problem->q_begin_tok, problem->plan->items[at].seq, 0, 0);
}

void release(State *state)
{
    s2_sm90_release_steps(&state->steps);
    s2_panels_close(&state->panels);
    s2_sm90_release_places(&state->places);
    s2_cuda_free(state->counter);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::FwdParams *const params = &state->params;
    params->items = (const s2_step_item *)state->steps.items;
    params->words = (const s2_step_word *)state->steps.words;
    params->list = (const int32_t *)state->steps.list;
    params->bits = (const uint32_t *)state->steps.bits;
    params->counter = (int32_t *)state->counter;
    params->lse = problem->lse.data;
    params->lse_head = problem->lse.head;
    params->o_tok_bytes = problem->o.tok * 2;
    params->o_head_bytes = problem->o.head * 2;
    params->n_items = problem->plan->n_items;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->pack = problem->plan->pack_heads;
    params->causal = problem->plan->pattern->causal;
    params->head_dim = problem->head_dim;
    params->scale_log2 = s2::scale_log2_of(problem);
    params->cap = s2::cap_of(problem);
    params->sink = problem->sinks ? problem->sink : NULL;
    params->q_scale = problem->q_scale;
    params->k_scale = problem->k_scale;
    params->v_scale = problem->v_scale;
    params->panels = (const uint8_t *const *)state->panels.begins;
    params->no_panel = (const uint8_t *)state->panels.memory;
}

s2_status make_steps(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const int32_t step_tok = key_step(problem->head_dim);
    return problem->listed != NULL
               ? s2_cuda_lists_open(device, problem, step_tok / 2, rows_of, &state->steps, why)
               : s2_sm90_upload_steps(device, problem, step_tok, rows_of, &state->steps, why);
}

/* The instance for a problem that is supported. */
Launch instance_of(const s2_attn_problem *problem)
{
    if (problem->e4m3)
        return problem->dtype == S2_F16 ? S2_FWD_SM90_E4M3(1) : S2_FWD_SM90_E4M3(0);
    return problem->cap > 0.0f || problem->sinks ? extra_launch_of(problem->head_dim, problem->dtype)
                                                 : launch_of(problem->head_dim, problem->dtype);
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    static const int32_t zero[2] = {0, 0};
    state->launch = instance_of(problem);
    state->block_tok = problem->plan->blk_tok;
    S2_TRY(find_place(device, problem, state, why));
    S2_TRY(make_steps(device, problem, state, why));
    if (problem->e4m3)
        S2_TRY(s2_panels_open(device, problem, &state->panels, why));
    S2_TRY(s2_cuda_upload(device, zero, sizeof zero, &state->counter, why));
    fill_params(problem, state);
    return S2_OK;
}

/*
 * The counter, which is zero then, is cleared once more in between: the forward may begin while the kernel
 * before it ends, and reads its first item before it waits for that one; but not while anything else runs.
 */
s2_status plan_lists(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    S2_TRY(s2_cuda_lists_plan(device, problem, key_step(problem->head_dim) / 2, &state->steps, why));
    return s2_cuda_try(cudaMemsetAsync(state->counter, 0, 8, s2_cuda_stream(device)), why);
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    if (state->params.n_items == 0)
        return S2_OK;
    S2_TRY(find_place(device, problem, state, why));
    if (problem->listed != NULL)
        S2_TRY(plan_lists(device, problem, state, why));
    if (problem->e4m3)
        S2_TRY(s2_panels_fill(device, problem, &state->panels, why));
    state->params.lse = problem->lse.data;
    state->params.q_scale = problem->q_scale;
    state->params.k_scale = problem->k_scale;
    state->params.v_scale = problem->v_scale;
    return s2_cuda_try(
        state->launch(state->params, state->block_tok, device->n_units, s2_cuda_stream(device)), why);
}

} // namespace

s2_status s2_cuda_sm90_pairs(s2_device *device, const s2_attn_problem *problem, void *raw, int64_t *pairs,
                             s2_diag *why)
{
    State *const state = (State *)raw;
    const int64_t n = problem->plan->n_items, rows = 128, step_tok = key_step(problem->head_dim);
    s2_step_item *const items = (s2_step_item *)s2_calloc((size_t)n + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    s2_status status = problem->listed != NULL ? plan_lists(device, problem, state, why) : S2_OK;
    if (status == S2_OK)
        status = device->ops->copy_out(device, items, state->steps.items, (size_t)n * sizeof *items);
    *pairs = 0;
    for (int64_t at = 0; at < n && status == S2_OK; at++)
        *pairs += rows * step_tok / 2 * (items[at].n_half + 2 * (items[at].n_mixed + items[at].n_whole));
    s2_free(items);
    return status;
}

extern "C" const s2_kernel s2_kernel_sm90 = {&s2_traits_sm90,
                                             "Hopper forward: TMA gather into dense tiles, wgmma, persistent",
                                             S2_DEVICE_GPU,
                                             S2_TOL_ROUNDED_P,
                                             true,
                                             supports,
                                             s2_cuda_prepare<State, supports, make, release>,
                                             run,
                                             s2_cuda_finish<State, release>,
                                             S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_LISTED,
                                             nullptr,
                                             false,
                                             false};

extern "C" const s2_kernel s2_kernel_sm90_e4m3 = {
    &s2_traits_sm90_e4m3,
    "Hopper forward with products of eight bits: V turned into panels, P in e4m3, sums carried in fp32",
    S2_DEVICE_GPU,
    S2_TOL_E4M3,
    true,
    supports_e4m3,
    s2_cuda_prepare<State, supports_e4m3, make, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_E4M3,
    nullptr,
    false,
    false};
