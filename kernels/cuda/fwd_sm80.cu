#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/fwd_sm80.cuh"
#include "kernels/cuda/fwd_sm80_inst.cuh"
#include "kernels/cuda/state.cuh"

namespace
{

typedef cudaError_t (*Launch)(const s2::Sm80Params &, int32_t, cudaStream_t);

struct State {
    s2::Sm80Params params;
    Launch launch;
    int32_t n_items;
    void *items, *entries, *bits;
};

/* The smallest instance that holds the head dimension. */
Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_FWD_SM80_LAUNCH(dim, 1) : S2_FWD_SM80_LAUNCH(dim, 0);
    S2_FWD_SM80_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_traits_support(&s2_traits_sm80, device, problem, why));
    if (problem->pass != S2_PASS_FORWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes the forward only");
    S2_TRY(s2_cuda_strides_support(problem, why));
    const s2_plan *const plan = problem->plan;
    if (plan != NULL &&
        (plan->options.tile_tok != s2::SM80_ROWS || plan->pack_heads != 1 || plan->blk_tok > s2::SM80_KEYS))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    return S2_OK;
}

s2::Sm80Item item_of(const s2_attn_problem *problem, const s2_plan_item *item, s2_plan_span span)
{
    const s2_plan_seq len = problem->plan->seqs[item->seq];
    const int32_t kv_head = item->head / (problem->n_heads / problem->n_kv_heads);
    s2::Sm80Item out = {};
    out.q = s2_tensor_at(&problem->q, problem->q_begin_tok, item->seq, 0, item->head);
    out.o = s2_tensor_at(&problem->o, problem->q_begin_tok, item->seq, 0, item->head);
    out.kv[0] = s2_tensor_at(&problem->k, problem->k_begin_tok, item->seq, 0, kv_head);
    out.kv[1] = s2_tensor_at(&problem->v, problem->k_begin_tok, item->seq, 0, kv_head);
    out.lse = s2_rows_at(&problem->lse, problem->q_begin_tok, item->seq, 0, item->head);
    out.list = span.begin;
    out.n_entries = span.n;
    out.n_partial = span.n_partial;
    out.pos = (int32_t)s2_plan_tile_begin(problem->plan, item->seq, item->tile);
    out.q_off = len.k_tok - len.q_tok;
    out.k_tok = len.k_tok;
    out.head = item->head;
    return out;
}

s2_status upload_entries(s2_device *device, const s2_plan *plan, const s2_plan_flat *flat, State *state,
                         s2_diag *why)
{
    const size_t n_entries = (size_t)flat->n_entries;
    s2::Sm80Entry *const entries = (s2::Sm80Entry *)s2_calloc(n_entries + 1, sizeof *entries);
    if (entries == NULL)
        return S2_ENOMEM;
    for (size_t at = 0; at < n_entries; at++) {
        const s2_plan_entry *const from = &flat->entries[at];
        entries[at].k_tok = from->k_blk * plan->blk_tok;
        entries[at].mask = from->mask;
        entries[at].slabs = (from->slabs & 0xFu) | (from->edge ? 1u << 31 : 0u);
    }
    const s2_status status =
        s2_cuda_upload(device, entries, (n_entries + 1) * sizeof *entries, &state->entries, why);
    s2_free(entries);
    return status;
}

s2_status upload_items(s2_device *device, const s2_attn_problem *problem, const s2_plan_flat *flat,
                       State *state, s2_diag *why)
{
    const size_t n_items = (size_t)problem->plan->n_items;
    s2::Sm80Item *const items = (s2::Sm80Item *)s2_calloc(n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    for (size_t at = 0; at < n_items; at++)
        items[at] = item_of(problem, &problem->plan->items[at], flat->span_of[at]);
    const s2_status status = s2_cuda_upload(device, items, (n_items + 1) * sizeof *items, &state->items, why);
    s2_free(items);
    return status;
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    s2_arena arena = {};
    s2_plan_flat flat;
    state->launch = launch_of(problem->head_dim, problem->dtype);
    state->n_items = plan->n_items;
    s2_status status = s2_plan_flatten(&arena, plan, &flat);
    if (status == S2_OK)
        status = upload_entries(device, plan, &flat, state, why);
    if (status == S2_OK)
        status = upload_items(device, problem, &flat, state, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, flat.bits,
                                (size_t)flat.n_masks * (size_t)(plan->options.tile_tok * plan->mask_words) *
                                    sizeof *flat.bits,
                                &state->bits, why);
    s2_arena_release(&arena);
    return status;
}

void release(State *state)
{
    s2_cuda_free(state->items, state->entries, state->bits);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::Sm80Params *const params = &state->params;
    params->items = (const s2::Sm80Item *)state->items;
    params->entries = (const s2::Sm80Entry *)state->entries;
    params->bits = (const uint32_t *)state->bits;
    params->q = (const uint16_t *)problem->q.data;
    params->k = (const uint16_t *)problem->k.data;
    params->v = (const uint16_t *)problem->v.data;
    params->o = (uint16_t *)problem->o.data;
    params->lse = problem->lse.data;
    params->q_tok = problem->q.tok;
    params->k_tok = problem->k.tok;
    params->v_tok = problem->v.tok;
    params->o_tok = problem->o.tok;
    while ((1 << params->blk_shift) < problem->plan->blk_tok)
        params->blk_shift++;
    params->mask_words = problem->plan->mask_words;
    params->head_dim = problem->head_dim;
    params->causal = problem->plan->pattern->causal;
    params->cap = s2::cap_of(problem);
    params->sink = problem->sinks ? problem->sink : NULL;
    params->scale_log2 = s2::scale_log2_of(problem);
}

s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    fill_params(problem, state);
    if (state->n_items == 0)
        return S2_OK;
    return s2_cuda_try(state->launch(state->params, state->n_items, s2_cuda_stream(device)), why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm80 = {
    &s2_traits_sm80,
    "Portable forward since Ampere: mma.sync and cp.async, every mask",
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
