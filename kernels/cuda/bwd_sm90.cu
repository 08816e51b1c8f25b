#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "kernels/cuda/bwd_host.cuh"
#include "kernels/cuda/bwd_sm90.cuh"
#include "kernels/cuda/bwd_sm90_inst.cuh"
#include "kernels/cuda/sm90_host.cuh"
#include "kernels/cuda/state.cuh"
#include "plan/transpose.h"

namespace
{

typedef cudaError_t (*Launch)(const s2::BwdParams &, const s2::BwdRowParams &, const s2::BwdSinkParams &,
                              const s2_bwd_launch &, cudaStream_t);
constexpr int32_t COLUMN_TOK = 128, TILE_TOK = 128, WINDOWED_DIM = 128;

struct State {
    s2::BwdParams params;
    s2::BwdRowParams rows;
    s2::BwdSinkParams sinks;
    s2_bwd_launch how;
    Launch launch;
    s2_bwd_lists lists;
    s2_sm90_places places;
    void *seqs, *lse2, *delta, *dq_sum, *part_sum, *part_done, *counter, *shares;
    s2_sm90_steps steps; /* split: what dQ works through */
};

/* Keys of a whole step: DqConfig::KEYS of the instance. */
int32_t key_step(int32_t head_dim)
{
    return head_dim > 128 ? 64 : 128;
}

/* The columns of the smallest instance that holds the head dimension; missing ones read as zeros. */
int32_t columns_of(int32_t head_dim)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dim;
    S2_BWD_SM90_DIMS(S2_CASE)
#undef S2_CASE
    return 0;
}

Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_BWD_SM90_LAUNCH(dim, 1) : S2_BWD_SM90_LAUNCH(dim, 0);
    S2_BWD_SM90_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

s2_status supports_plan(const s2_plan *plan, int32_t head_dim, s2_diag *why)
{
    if (plan->options.tile_tok != TILE_TOK || plan->options.key_tok != key_step(head_dim) / 2 ||
        plan->pack_heads != 1)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].k_tok / plan->blk_tok + 1 >= S2_STEP_NOWHERE)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes at most %d key blocks",
                               S2_STEP_NOWHERE - 2);
    return S2_OK;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(&s2_traits_sm90_bwd, device, problem, why));
    S2_TRY(s2_bwd_supports(problem, why));
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    if (problem->n_heads / problem->n_kv_heads >= s2::BWD_LIMIT_GROUP)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes groups of less than %d heads",
                           s2::BWD_LIMIT_GROUP);
    return problem->plan != NULL ? supports_plan(problem->plan, problem->head_dim, why) : S2_OK;
}

/* Refuses a plan that needs element masks. The widest instance compares what a window cuts. */
s2_status refuse_finer(const s2_plan *plan, int32_t head_dim, s2_diag *why)
{
    const bool compares = s2_plan_window(plan) > 0 && columns_of(head_dim) == WINDOWED_DIM;
    for (int32_t cls = 0; cls < plan->n_classes && !compares; cls++)
        if (!plan->classes[cls].block_exact)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "the pattern of head %d is finer than 16-row slabs and whole key blocks",
                               plan->classes[cls].first_head);
    return S2_OK;
}

s2_status supports_fused(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(supports(device, problem, why));
    S2_TRY(s2_traits_support(&s2_traits_sm90_bwd_fused, device, problem, why));
    return problem->plan != NULL ? refuse_finer(problem->plan, problem->head_dim, why) : S2_OK;
}

/* What it takes is what it was measured on. Where columns do not follow each other through the queries, they wait. */
s2_status supports_ordered(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(supports(device, problem, why));
    S2_TRY(s2_traits_support(&s2_traits_sm90_bwd_ordered, device, problem, why));
    if (problem->plan != NULL && !s2_kernel_takes_lengths(&s2_traits_sm90_bwd_ordered, problem->plan))
        return s2_diag_set(
            why, S2_EUNSUPPORTED, 0, 0, 0,
            "takes contexts of %d tokens and more, and of %d with more than two query heads per KV head: on "
            "shorter ones it is no faster than %s",
            s2_kernel_least_tok(&s2_traits_sm90_bwd_ordered, 1),
            s2_kernel_least_tok(&s2_traits_sm90_bwd_ordered, 3), s2_traits_sm90_bwd.name);
    if (problem->plan != NULL && !s2_kernel_follows(problem->plan))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "takes layers whose heads all read every key up to their own position, or one "
                           "window of %d tokens and more, with a query for each key",
                           s2_kernel_least_window(problem->n_heads / problem->n_kv_heads));
    return S2_OK;
}

s2_status find_place(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const int32_t blk_tok = problem->plan->blk_tok;
    const s2_mapped tensors[4] = {{&problem->q, false, 64},
                                  {&problem->d_o, false, 64},
                                  {&problem->k, true, blk_tok},
                                  {&problem->v, true, blk_tok}};
    s2_sm90_found found;
    S2_TRY(s2_sm90_find_place(device, problem, tensors, 4, &state->places, &found, why));
    state->params.maps = found.maps;
    state->params.moved = found.moved;
    return S2_OK;
}

/* ------------------------------------------------------------------ lists */

/* The sums of columns that are cut, one per chain of parts. */
s2_status make_parts(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const int64_t part_bytes =
        (int64_t)columns_of(problem->head_dim) * 2 * COLUMN_TOK * (int64_t)sizeof(float);
    S2_TRY(s2_bwd_zeroed(device, state->lists.n_chains * part_bytes, &state->part_sum, why));
    return s2_bwd_zeroed(device, (int64_t)state->lists.n_chains * 8 * 4, &state->part_done, why);
}

int32_t rows_of(const s2_attn_problem *problem, int32_t at)
{
    const s2_plan_item *const item = &problem->plan->items[at];
    return (int32_t)s2_bwd_first_row(problem, item->seq, item->head) + item->tile * TILE_TOK;
}

/* ------------------------------------------------------------------ the contract */

void release(State *state)
{
    s2_sm90_release_steps(&state->steps);
    s2_bwd_release_lists(&state->lists);
    s2_sm90_release_places(&state->places);
    s2_cuda_free(state->seqs, state->lse2, state->delta, state->dq_sum, state->part_sum, state->part_done,
                 state->counter, state->shares);
}

/* The width of the fp32 copy of dQ: two warpgroups have half of the chunks of 64 each. */
int32_t dq_columns(int32_t head_dim)
{
    return (int32_t)s2_round_up(head_dim, 64);
}

s2_status make_rows(s2_device *device, const s2_attn_problem *problem, s2_bwd_form form, State *state,
                    s2_diag *why)
{
    const s2_bwd_rows rows = s2_bwd_count_rows(problem);
    state->how = s2_bwd_launch{};
    state->how.n_units = device->n_units;
    state->how.n_seqs = problem->n_seqs;
    state->how.n_rows = rows.longest;
    state->how.form = form;
    S2_TRY(s2_bwd_upload_seqs(device, problem, &state->seqs, why));
    S2_TRY(s2_bwd_zeroed(device, rows.all * 4, &state->lse2, why));
    S2_TRY(s2_bwd_zeroed(device, rows.all * 4, &state->delta, why));
    S2_TRY(s2_bwd_zeroed(device, 4 * 4, &state->counter, why));
    if (form == S2_BWD_SPLIT)
        return S2_OK;
    if (form == S2_BWD_ORDERED)
        S2_TRY(s2_bwd_zeroed(device, rows.all / 64 * 2 * (int64_t)sizeof(int32_t), &state->shares, why));
    return s2_bwd_zeroed(device, rows.all * dq_columns(problem->head_dim) * 4, &state->dq_sum, why);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::BwdParams *const params = &state->params;
    params->seqs = (const s2::BwdSeq *)state->seqs;
    params->lse2 = (const float *)state->lse2;
    params->delta = (const float *)state->delta;
    params->columns = (const s2::BwdColumn *)state->lists.columns;
    params->blocks = (const int32_t *)state->lists.blocks;
    params->steps = (const s2::BwdStep *)state->lists.steps;
    params->step_masks = (const int32_t *)state->lists.step_masks;
    params->bits = (const uint32_t *)state->lists.bits;
    params->tiles = (const s2::BwdTile *)state->lists.tiles;
    params->items = (const s2_step_item *)state->steps.items;
    params->words = (const s2_step_word *)state->steps.words;
    params->list = (const int32_t *)state->steps.list;
    params->tile_bits = (const uint32_t *)state->steps.bits;
    params->d_q = s2_bwd_tensor(&problem->d_q);
    params->d_k = s2_bwd_tensor(&problem->d_k);
    params->d_v = s2_bwd_tensor(&problem->d_v);
    params->dq_sum = (float *)state->dq_sum;
    params->turns = (const int32_t *)state->lists.turns;
    params->shares = (int32_t *)state->shares;
    params->part_sum = (float *)state->part_sum;
    params->part_done = (int32_t *)state->part_done;
    params->counter = (int32_t *)state->counter;
    params->n_columns = state->lists.n_columns;
    params->n_tiles = problem->plan->n_items;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->head_dim = problem->head_dim;
    params->shift = s2_bwd_log2(problem->plan->blk_tok);
    params->mask_words = problem->plan->mask_words;
    params->tile_rows = TILE_TOK;
    params->causal = problem->plan->pattern->causal;
    const int32_t window = s2_plan_window(problem->plan);
    params->window = window > 0 ? window : INT32_MAX;
    params->scale_log2 = problem->scale * s2::LOG2_E;
    params->scale = problem->scale;
    state->sinks = s2_bwd_sink_params(problem, state->seqs, state->lists.tiles, state->lse2, state->delta);
    state->rows = s2_bwd_row_params(problem, state->seqs, state->lse2, state->delta);
    if (state->how.form == S2_BWD_FUSED) /* in order, what comes first is stored */
        state->rows.dq_sum = (float *)state->dq_sum;
    state->rows.dq_columns = dq_columns(problem->head_dim);
    state->rows.shares = (int32_t *)state->shares;
}

const s2_kernel_traits *traits_of(s2_bwd_form form)
{
    return form == S2_BWD_SPLIT   ? &s2_traits_sm90_bwd
           : form == S2_BWD_FUSED ? &s2_traits_sm90_bwd_fused
                                  : &s2_traits_sm90_bwd_ordered;
}

template <s2_bwd_form FORM>
s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_plan_column_options cut = s2_kernel_columns(traits_of(FORM), problem->plan, device->n_units);
    state->launch = launch_of(problem->head_dim, problem->dtype);
    S2_TRY(find_place(device, problem, state, why));
    S2_TRY(make_rows(device, problem, FORM, state, why));
    S2_TRY(s2_bwd_upload_lists(device, problem, &cut, false, &state->lists, why));
    if (FORM == S2_BWD_SPLIT)
        S2_TRY(
            s2_sm90_upload_steps(device, problem, key_step(problem->head_dim), rows_of, &state->steps, why));
    S2_TRY(make_parts(device, problem, state, why));
    fill_params(problem, state);
    return S2_OK;
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    S2_TRY(find_place(device, problem, state, why));
    fill_params(problem, state);
    return s2_cuda_try(
        state->launch(state->params, state->rows, state->sinks, state->how, s2_cuda_stream(device)), why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm90_bwd = {
    &s2_traits_sm90_bwd,
    "Hopper gradients: dK and dV by columns, then dQ by tiles; every mask",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    true,
    supports,
    s2_cuda_prepare<State, supports, make<S2_BWD_SPLIT>, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_SINKS,
    nullptr,
    false,
    false};

extern "C" const s2_kernel s2_kernel_sm90_bwd_fused = {
    &s2_traits_sm90_bwd_fused,
    "Hopper gradients in one pass; dQ is summed as it comes, so bits differ between runs",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    false,
    supports_fused,
    s2_cuda_prepare<State, supports_fused, make<S2_BWD_FUSED>, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_SINKS,
    nullptr,
    false,
    false};

extern "C" const s2_kernel s2_kernel_sm90_bwd_ordered = {
    &s2_traits_sm90_bwd_ordered,
    "Hopper gradients in one pass; dQ is summed in a fixed order, which suits layers that read everything",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    true,
    supports_ordered,
    s2_cuda_prepare<State, supports_ordered, make<S2_BWD_ORDERED>, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_SINKS,
    nullptr,
    false,
    false};
