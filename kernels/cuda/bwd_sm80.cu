#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "kernels/cuda/bwd_host.cuh"
#include "kernels/cuda/bwd_sm80.cuh"
#include "kernels/cuda/bwd_sm80_inst.cuh"
#include "kernels/cuda/state.cuh"

namespace
{

typedef cudaError_t (*Launch)(const s2::Sm80BwdParams &, const s2::BwdRowParams &, const s2::BwdSinkParams &,
                              int64_t, int32_t, cudaStream_t);

constexpr int32_t TILE = 64;

struct State {
    s2::Sm80BwdParams params;
    s2::BwdRowParams rows;
    s2::BwdSinkParams sinks;
    Launch launch;
    int64_t n_rows;
    int32_t n_seqs;
    s2_bwd_lists lists;
    void *seqs, *lse2, *delta;
};

/* The smallest instance that holds the head dimension. */
Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_BWD_SM80_LAUNCH(dim, 1) : S2_BWD_SM80_LAUNCH(dim, 0);
    S2_BWD_SM80_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(&s2_traits_sm80_bwd, device, problem, why));
    S2_TRY(s2_bwd_supports(problem, why));
    if (problem->n_heads / problem->n_kv_heads >= s2::BWD_LIMIT_GROUP)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes groups of less than %d heads",
                           s2::BWD_LIMIT_GROUP);
    const s2_plan *const plan = problem->plan;
    if (plan == NULL)
        return S2_OK;
    if (plan->options.tile_tok != TILE || plan->options.key_tok != TILE || plan->pack_heads != 1)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].k_tok / plan->blk_tok + 1 >= s2::BWD_LIMIT_BLK)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes at most %d key blocks",
                               s2::BWD_LIMIT_BLK - 2);
    return S2_OK;
}

void release(State *state)
{
    s2_bwd_release_lists(&state->lists);
    s2_cuda_free(state->seqs, state->lse2, state->delta);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::Sm80BwdParams *const params = &state->params;
    params->seqs = (const s2::BwdSeq *)state->seqs;
    params->lse2 = (const float *)state->lse2;
    params->delta = (const float *)state->delta;
    params->columns = (const s2::BwdColumn *)state->lists.columns;
    params->blocks = (const int32_t *)state->lists.blocks;
    params->steps = (const s2::BwdStep *)state->lists.steps;
    params->step_masks = (const int32_t *)state->lists.step_masks;
    params->tiles = (const s2::BwdTile *)state->lists.tiles;
    params->words = (const uint32_t *)state->lists.words;
    params->word_masks = (const int32_t *)state->lists.word_masks;
    params->bits = (const uint32_t *)state->lists.bits;
    params->q = s2_bwd_tensor(&problem->q);
    params->k = s2_bwd_tensor(&problem->k);
    params->v = s2_bwd_tensor(&problem->v);
    params->d_o = s2_bwd_tensor(&problem->d_o);
    params->d_q = s2_bwd_tensor(&problem->d_q);
    params->d_k = s2_bwd_tensor(&problem->d_k);
    params->d_v = s2_bwd_tensor(&problem->d_v);
    params->n_columns = state->lists.n_columns;
    params->n_tiles = problem->plan->n_items;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->shift = s2_bwd_log2(problem->plan->blk_tok);
    params->mask_words = problem->plan->mask_words;
    params->causal = problem->plan->pattern->causal;
    params->head_dim = problem->head_dim;
    params->scale_log2 = problem->scale * s2::LOG2_E;
    params->scale = problem->scale;
    params->cap = s2::cap_of(problem);
    state->sinks = s2_bwd_sink_params(problem, state->seqs, state->lists.tiles, state->lse2, state->delta);
    state->rows = s2_bwd_row_params(problem, state->seqs, state->lse2, state->delta);
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_bwd_rows rows = s2_bwd_count_rows(problem);
    const s2_plan_column_options cut = s2_kernel_columns(&s2_traits_sm80_bwd, problem->plan, device->n_units);
    state->launch = launch_of(problem->head_dim, problem->dtype);
    state->n_rows = rows.longest;
    state->n_seqs = problem->n_seqs;
    S2_TRY(s2_bwd_upload_seqs(device, problem, &state->seqs, why));
    S2_TRY(s2_bwd_zeroed(device, rows.all * 4, &state->lse2, why));
    S2_TRY(s2_bwd_zeroed(device, rows.all * 4, &state->delta, why));
    return s2_bwd_upload_lists(device, problem, &cut, true, &state->lists, why);
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    fill_params(problem, state);
    return s2_cuda_try(state->launch(state->params, state->rows, state->sinks, state->n_rows, state->n_seqs,
                                     s2_cuda_stream(device)),
                       why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm80_bwd = {
    &s2_traits_sm80_bwd,
    "Portable gradients since Ampere: mma.sync and cp.async, every mask",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    true,
    supports,
    s2_cuda_prepare<State, supports, make, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_CAP | S2_TAKES_SINKS,
    nullptr,
    false,
    false};
