#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/cap.cuh"
#include "kernels/cuda/fwd_sm90_window.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90_host.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda/window.cuh"

namespace
{

using s2::WindowShared;

struct State {
    s2::WindowParams params;
    bool fp16;
    s2_sm90_places places;
    void *items;
};

s2_status supports_plan(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    S2_TRY(s2_window_support(problem, why));
    if (plan->options.tile_tok != WindowShared::ITEM_TOK || plan->pack_heads != WindowShared::HEADS)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    return S2_OK;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(&s2_traits_sm90_window, device, problem, why));
    if (problem->pass != S2_PASS_FORWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes the forward only");
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    S2_TRY(s2_cuda_strides_support(problem, why));
    return problem->plan != NULL ? supports_plan(problem, why) : S2_OK;
}

s2_status find_place(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const int32_t box_tok = state->params.box_tok;
    const s2_mapped tensors[4] = {{&problem->q, false, WindowShared::POSITIONS, WindowShared::HEADS},
                                  {&problem->k, true, box_tok},
                                  {&problem->v, true, box_tok},
                                  {&problem->o, false, 1, WindowShared::HEADS}};
    s2_sm90_found found;
    S2_TRY(s2_sm90_find_place(device, problem, tensors, 4, &state->places, &found, why));
    state->params.maps = found.maps;
    state->params.moved = found.moved;
    return S2_OK;
}

s2::WindowItem item_of(const s2_attn_problem *problem, const s2_plan_item *from)
{
    const s2_plan *const plan = problem->plan;
    const s2_plan_seq len = plan->seqs[from->seq];
    const int32_t pos = (int32_t)s2_plan_tile_begin(plan, from->seq, from->tile),
                  q_off = len.k_tok - len.q_tok;
    s2::WindowItem item = {};
    item.row = pos - q_off;
    item.head = from->head;
    item.seq = from->seq;
    item.lse = (int32_t)s2_rows_at(&problem->lse, problem->q_begin_tok, from->seq, 0, 0);
    item.pos = pos;
    item.first = s2_max_i32(pos, q_off) - plan->classes[0].as.window_tok + 1;
    item.n_queries = len.q_tok;
    item.kv_head = from->head / (problem->n_heads / problem->n_kv_heads);
    return item;
}

s2_status upload_items(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    s2::WindowItem *const items = (s2::WindowItem *)s2_calloc((size_t)plan->n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < plan->n_items; at++)
        items[at] = item_of(problem, &plan->items[at]);
    const s2_status status =
        s2_cuda_upload(device, items, ((size_t)plan->n_items + 1) * sizeof *items, &state->items, why);
    s2_free(items);
    return status;
}

void release(State *state)
{
    s2_sm90_release_places(&state->places);
    s2_cuda_free(state->items);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::WindowParams *const params = &state->params;
    params->items = (const s2::WindowItem *)state->items;
    params->lse = problem->lse.data;
    params->lse_head = problem->lse.head;
    params->sink = problem->sinks ? problem->sink : NULL;
    params->n_items = problem->plan->n_items;
    params->window_tok = problem->plan->classes[0].as.window_tok;
    params->scale_log2 = s2::scale_log2_of(problem);
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    state->fp16 = problem->dtype == S2_F16;
    state->params.box_tok = problem->plan->blk_tok;
    S2_TRY(find_place(device, problem, state, why));
    S2_TRY(upload_items(device, problem, state, why));
    fill_params(problem, state);
    return S2_OK;
}

template <bool FP16> cudaError_t launch(const s2::WindowParams &params, int32_t n_units, cudaStream_t stream)
{
    return s2::allow_and_launch_after(s2::fwd_sm90_window<FP16>,
                                      s2_persistent_blocks(params.n_items, n_units), WindowShared::THREADS,
                                      WindowShared::BYTES, stream, params);
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    if (state->params.n_items == 0)
        return S2_OK;
    S2_TRY(find_place(device, problem, state, why));
    fill_params(problem, state);
    return s2_cuda_try(
        (state->fp16 ? launch<true> : launch<false>)(state->params, device->n_units, s2_cuda_stream(device)),
        why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm90_window = {
    &s2_traits_sm90_window,
    "Hopper forward of short windows: eight heads of a KV head share a product, softmax at once",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    true,
    supports,
    s2_cuda_prepare<State, supports, make, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_SINKS,
    nullptr,
    false,
    false};
