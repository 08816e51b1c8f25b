#include "kernels/cuda/bwd_sm90_window.cuh"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/bwd_host.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/sm90_host.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda/window.cuh"

namespace
{

using s2::BwdWindowRange;
using s2::BwdWindowShared;
constexpr int32_t UNIT_TOK = S2_WINDOW_UNIT_TOK, HEADS = S2_WINDOW_HEADS;
static_assert(BwdWindowShared::GROUPS * UNIT_TOK == S2_WINDOW_MOST_TOK,
              "a range is at least as long as a window");

struct State {
    s2::BwdWindowParams params;
    s2::BwdSinkParams sinks;
    bool fp16;
    s2_sm90_places places;
    void *seqs, *ranges, *delta, *sums, *ready;
};

/* Whether the plan holds every item of its layer. */
bool is_whole(const s2_plan *plan)
{
    int64_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += (int64_t)s2_plan_n_tiles(plan, seq) * plan->pattern->n_heads;
    return n == plan->n_items;
}

s2_status supports_plan(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    S2_TRY(s2_window_support(problem, why));
    if (plan->options.tile_tok != 64 || plan->pack_heads != 1)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].q_tok != plan->seqs[seq].k_tok)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "takes sequences whose queries are all of their positions");
    if (!is_whole(plan))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes plans of whole layers");
    return S2_OK;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(&s2_traits_sm90_bwd_window, device, problem, why));
    S2_TRY(s2_bwd_supports(problem, why));
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    return problem->plan != NULL ? supports_plan(problem, why) : S2_OK;
}

s2_status find_place(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_mapped tensors[s2::BWD_WINDOW_MAPS] = {{&problem->q, false, UNIT_TOK, HEADS},
                                                    {&problem->d_o, false, UNIT_TOK, HEADS},
                                                    {&problem->o, false, UNIT_TOK, HEADS},
                                                    {&problem->k, true, 64},
                                                    {&problem->v, true, 64},
                                                    {&problem->d_q, false, 1, HEADS}};
    s2_sm90_found found;
    S2_TRY(s2_sm90_find_place(device, problem, tensors, s2::BWD_WINDOW_MAPS, &state->places, &found, why));
    state->params.maps = found.maps;
    return S2_OK;
}

/* ------------------------------------------------------------------ ranges */

/* The ranges of a sequence stand from the last to the first, since a range waits for the one after it. */
s2_status make_ranges(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int32_t longest = s2_window_longest_range(plan, device->n_units);
    int64_t n = 0;
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        n += (int64_t)s2_window_ranges(plan, seq, longest) * problem->n_kv_heads;
    BwdWindowRange *const ranges = (BwdWindowRange *)s2_calloc((size_t)n, sizeof *ranges);
    if (ranges == NULL)
        return S2_ENOMEM;
    int32_t at = 0;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        for (int32_t kv_head = 0; kv_head < problem->n_kv_heads; kv_head++) {
            const int64_t units = s2_window_units(plan, seq);
            const int32_t cuts = s2_window_ranges(plan, seq, longest);
            for (int32_t cut = cuts - 1; cut >= 0; cut--, at++) {
                BwdWindowRange *const range = &ranges[at];
                range->seq = seq;
                range->kv_head = kv_head;
                range->first = (int32_t)(units * cut / cuts);
                range->n = (int32_t)(units * (cut + 1) / cuts) - range->first;
                range->own = cut > 0 ? at : -1;
                range->next = cut < cuts - 1 ? at - 1 : -1;
            }
        }
    state->params.n_ranges = (int32_t)n;
    s2_status status = s2_cuda_upload(device, ranges, (size_t)n * sizeof *ranges, &state->ranges, why);
    s2_free(ranges);
    const bool cut = n > (int64_t)problem->n_seqs * problem->n_kv_heads;
    const int64_t sums_bytes = cut ? n * 2 * BwdWindowShared::GROUPS * 128 * (int64_t)sizeof(float4) : 0;
    if (status == S2_OK)
        status = s2_bwd_zeroed(device, sums_bytes, &state->sums, why);
    return status == S2_OK ? s2_bwd_zeroed(device, n * 4, &state->ready, why) : status;
}

/* ------------------------------------------------------------------ the contract */

void release(State *state)
{
    s2_sm90_release_places(&state->places);
    s2_cuda_free(state->seqs, state->ranges, state->delta, state->sums, state->ready);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::BwdWindowParams *const params = &state->params;
    params->seqs = (const s2::BwdSeq *)state->seqs;
    params->ranges = (const BwdWindowRange *)state->ranges;
    params->lse = problem->lse.data;
    params->lse_head = problem->lse.head;
    params->delta = (float *)state->delta;
    params->d_k = s2_bwd_tensor(&problem->d_k);
    params->d_v = s2_bwd_tensor(&problem->d_v);
    params->sums = (float4 *)state->sums;
    params->ready = (int32_t *)state->ready;
    params->window_tok = problem->plan->classes[0].as.window_tok;
    params->sets = problem->n_heads / problem->n_kv_heads / HEADS;
    params->head_dim = problem->head_dim;
    params->scale_log2 = problem->scale * s2::LOG2_E;
    params->scale = problem->scale;
    state->sinks = s2_bwd_sink_params(problem, state->seqs, NULL, NULL, state->delta);
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    state->fp16 = problem->dtype == S2_F16;
    S2_TRY(find_place(device, problem, state, why));
    S2_TRY(s2_bwd_upload_seqs(device, problem, &state->seqs, why));
    if (problem->sinks)
        S2_TRY(s2_bwd_zeroed(device, s2_bwd_count_rows(problem).all * 4, &state->delta, why));
    S2_TRY(make_ranges(device, problem, state, why));
    fill_params(problem, state);
    return S2_OK;
}

/* Plainly, so that an SM first drops what it holds of earlier launches: ranges, LSE and tensor maps. */
template <bool FP16>
cudaError_t launch(const State *state, int32_t n_seqs, int32_t n_units, cudaStream_t stream)
{
    cudaError_t error = s2::allow_shared(s2::bwd_sm90_window<FP16>, BwdWindowShared::BYTES);
    if (error != cudaSuccess)
        return error;
    s2::bwd_sm90_window<FP16><<<(unsigned)s2_persistent_blocks(state->params.n_ranges, n_units),
                                BwdWindowShared::THREADS, BwdWindowShared::BYTES, stream>>>(state->params);
    error = cudaGetLastError();
    if (error != cudaSuccess || state->sinks.d_sink == nullptr)
        return error;
    s2::bwd_window_sinks<FP16><<<(unsigned)state->sinks.n_heads, s2::BWD_SINK_THREADS, 0, stream>>>(
        state->sinks, state->params.lse, state->params.lse_head, n_seqs);
    return cudaGetLastError();
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    S2_TRY(find_place(device, problem, state, why));
    fill_params(problem, state);
    return s2_cuda_try((state->fp16 ? launch<true> : launch<false>)(state, problem->n_seqs, device->n_units,
                                                                    s2_cuda_stream(device)),
                       why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm90_bwd_window = {
    &s2_traits_sm90_bwd_window,
    "Hopper gradients of short windows: one pass, dK and dV move through registers with the window",
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
