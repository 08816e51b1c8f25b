#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/decode_inst.cuh"
#include "kernels/decode.h"

namespace
{

typedef cudaError_t (*Launch)(const s2::DecodeParams &, int32_t, int32_t, cudaStream_t);

struct State {
    s2::DecodeParams params;
    Launch launch;
    int32_t row_tiles, n_chunks;
    void *slabs, *lists, *parts, *bits, *part_o, *part_l, *arrived;
};

/* The smallest instance that holds the head dimension. */
Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_DECODE_LAUNCH(dim, 1) : S2_DECODE_LAUNCH(dim, 0);
    S2_DECODE_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

/* Its items are not used: the tile only has to be one that every pattern can be cut for. */
void options(const s2_device *, const s2_attn_problem *, s2_plan_options *out)
{
    *out = s2_plan_options_default();
    out->tile_tok = S2_PLAN_SLAB_TOK;
    out->key_tok = 64;
}

bool strides_fit(const s2_tensor *tensor)
{
    return tensor->tok % 8 == 0 && tensor->head % 8 == 0 && tensor->seq % 8 == 0;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_decode_supports(problem, why));
    if (device->capability != 80 && (device->capability < 90 || device->capability >= 120))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs 228 KB of shared memory an SM, or 164");
    if (problem->dtype != S2_BF16 && problem->dtype != S2_F16)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes bf16 and f16");
    if (problem->head_dim > 256 || problem->head_dim % 8 != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes head dimensions up to 256, multiples of 8");
    if (!strides_fit(&problem->q) || !strides_fit(&problem->k) || !strides_fit(&problem->v) ||
        !strides_fit(&problem->o))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs strides that are multiples of 8 elements");
    return S2_OK;
}

/* Rows of a chunk in eights: what the registers of the instance hold. */
int32_t row_tiles_of(int32_t row_cap, int32_t head_dim)
{
    if (row_cap <= 8)
        return 1;
    return row_cap <= 16 || head_dim > 128 ? 2 : 4;
}

s2_status upload_slabs(s2_device *device, const s2_decode_layout *layout, State *state, s2_diag *why)
{
    const s2_decode_plan *const plan = &layout->plan;
    const size_t n = (size_t)plan->n_slabs + 1;
    s2::DecodeSlab *const slabs = (s2::DecodeSlab *)s2_calloc(n, sizeof *slabs);
    if (slabs == NULL)
        return S2_ENOMEM;
    s2_status status = S2_OK;
    for (int32_t at = 0; at < plan->n_slabs && status == S2_OK; at++) {
        const s2_decode_place *const place = &layout->places[at];
        if (place->k_at / 8 > UINT32_MAX || place->v_at / 8 > UINT32_MAX)
            status = s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "K or V is larger than 64 GiB");
        slabs[at].k = (uint32_t)(place->k_at / 8);
        slabs[at].v = (uint32_t)(place->v_at / 8);
        slabs[at].mask = plan->slabs[at].mask;
        slabs[at].live = plan->slabs[at].live | (place->fresh ? s2::DECODE_NEW : 0u);
    }
    if (status == S2_OK)
        status = s2_cuda_upload(device, slabs, n * sizeof *slabs, &state->slabs, why);
    s2_free(slabs);
    return status;
}

s2::DecodeList list_of(const s2_attn_problem *problem, const s2_decode_list *list)
{
    const int32_t head = list->kv_head * (problem->n_heads / problem->n_kv_heads);
    s2::DecodeList out = {};
    out.q = s2_tensor_at(&problem->q, problem->q_begin_tok, list->seq, 0, head);
    out.o = s2_tensor_at(&problem->o, problem->q_begin_tok, list->seq, 0, head);
    out.lse = s2_rows_at(&problem->lse, problem->q_begin_tok, list->seq, 0, head);
    out.slab_begin = list->slab_begin;
    out.slab_end = list->slab_end;
    out.first_part = list->first_part;
    out.n_parts = list->n_parts;
    out.n_rows = list->n_rows;
    return out;
}

s2_status upload_lists(s2_device *device, const s2_attn_problem *problem, const s2_decode_plan *plan,
                       State *state, s2_diag *why)
{
    const size_t n_lists = (size_t)plan->n_lists, n_parts = (size_t)plan->n_parts;
    s2::DecodeList *const lists = (s2::DecodeList *)s2_calloc(n_lists, sizeof *lists);
    int4 *const parts = (int4 *)s2_calloc(n_parts, sizeof *parts);
    s2_status status = lists != NULL && parts != NULL ? S2_OK : S2_ENOMEM;
    for (size_t at = 0; status == S2_OK && at < n_lists; at++) {
        lists[at] = list_of(problem, &plan->lists[at]);
        state->params.n_empty += plan->lists[at].n_parts == 0;
    }
    for (size_t at = 0; status == S2_OK && at < n_parts; at++) {
        const s2_decode_part *const part = &plan->parts[at];
        parts[at] = make_int4(part->slab_begin, part->slab_end, part->first_list, 0);
    }
    if (status == S2_OK)
        status = s2_cuda_upload(device, lists, n_lists * sizeof *lists, &state->lists, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, parts, n_parts * sizeof *parts, &state->parts, why);
    s2_free(lists);
    s2_free(parts);
    return status;
}

/* Room for the results of parts, and the counters, which every launch leaves at zero. */
s2_status allocate(s2_device *device, const s2_decode_plan *plan, int32_t dim, State *state, s2_diag *why)
{
    const size_t rows = (size_t)state->n_chunks * 2 * (size_t)plan->n_parts * (size_t)state->row_tiles * 8;
    const size_t n_counters = (size_t)state->n_chunks * (size_t)plan->n_lists;
    S2_TRY(s2_cuda_try(cudaMalloc(&state->part_o, rows * (size_t)dim * sizeof(float)), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->part_l, rows * sizeof(float2)), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->arrived, n_counters * sizeof(int32_t)), why));
    return s2_cuda_try(
        cudaMemsetAsync(state->arrived, 0, n_counters * sizeof(int32_t), s2_cuda_stream(device)), why);
}

int32_t instance_dim(int32_t head_dim)
{
#define S2_DIM(dim)                                                                                          \
    if (head_dim <= dim)                                                                                     \
        return dim;
    S2_DECODE_DIMS(S2_DIM)
#undef S2_DIM
    return 0;
}

void finish(s2_device *, void *raw)
{
    State *const state = (State *)raw;
    if (state == NULL)
        return;
    void *const memory[] = {state->slabs,  state->lists,  state->parts,  state->bits,
                            state->part_o, state->part_l, state->arrived};
    for (size_t at = 0; at < sizeof memory / sizeof *memory; at++)
        (void)cudaFree(memory[at]);
    s2_free(state);
}

void fill_params(const s2_attn_problem *problem, const s2_decode_plan *plan, State *state)
{
    s2::DecodeParams *const params = &state->params;
    params->slabs = (const s2::DecodeSlab *)state->slabs;
    params->lists = (const s2::DecodeList *)state->lists;
    params->parts = (const int4 *)state->parts;
    params->bits = (const uint16_t *)state->bits;
    params->part_o = (float *)state->part_o;
    params->part_l = (float2 *)state->part_l;
    params->arrived = (int32_t *)state->arrived;
    params->q_tok = problem->q.tok;
    params->q_head = problem->q.head;
    params->o_tok = problem->o.tok;
    params->o_head = problem->o.head;
    params->lse_head = problem->lse.head;
    params->k_row_bytes = (uint32_t)problem->k.tok * 2;
    params->v_row_bytes = (uint32_t)problem->v.tok * 2;
    params->n_lists = plan->n_lists;
    params->n_parts = plan->n_parts;
    params->row_cap = plan->row_cap;
    params->group = plan->group;
    params->head_dim = problem->head_dim;
    params->scale_log2 = problem->scale * s2::LOG2_E;
}

/* Parts that are resident at once, whatever the number of chunks: each chunk has all the parts. */
int32_t wanted_parts(const s2_device *device, int32_t head_dim, int32_t n_chunks)
{
    const int32_t resident = device->n_units * (head_dim <= 128 && device->capability >= 90 ? 2 : 1);
    return resident / n_chunks > 0 ? resident / n_chunks : 1;
}

s2_status build(s2_device *device, const s2_attn_problem *problem, State *state, s2_arena *arena,
                s2_diag *why)
{
    s2_decode_layout layout;
    int32_t most = 1;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++)
        most = problem->plan->seqs[seq].q_tok > most ? problem->plan->seqs[seq].q_tok : most;
    const int32_t row_cap = (most * (problem->n_heads / problem->n_kv_heads) + 7) / 8 * 8;
    state->row_tiles = row_tiles_of(row_cap, problem->head_dim);
    state->n_chunks = (row_cap + 8 * state->row_tiles - 1) / (8 * state->row_tiles);
    S2_TRY(s2_decode_lay_out(arena, problem, wanted_parts(device, problem->head_dim, state->n_chunks),
                             &layout, why));
    if (!layout.all_on)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes all rows of a step, not a selection");
    S2_TRY(upload_slabs(device, &layout, state, why));
    S2_TRY(upload_lists(device, problem, &layout.plan, state, why));
    S2_TRY(s2_cuda_upload(device, layout.plan.bits,
                          (size_t)layout.plan.n_masks * (size_t)layout.plan.row_cap * sizeof(uint16_t),
                          &state->bits, why));
    S2_TRY(allocate(device, &layout.plan, instance_dim(problem->head_dim), state, why));
    fill_params(problem, &layout.plan, state);
    return S2_OK;
}

s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why)
{
    S2_TRY(s2_problem_check(problem, why));
    S2_TRY(supports(device, problem, why));
    State *const state = (State *)s2_calloc(1, sizeof *state);
    if (state == NULL)
        return S2_ENOMEM;
    s2_arena arena = {};
    state->launch = launch_of(problem->head_dim, problem->dtype);
    const s2_status status = build(device, problem, state, &arena, why);
    s2_arena_release(&arena);
    if (status == S2_OK)
        *out = state;
    else
        finish(device, state);
    return status;
}

/* Addresses are the problem's of this moment: layers whose lists and places are the same share one state. */
s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    const State *const state = (const State *)raw;
    s2::DecodeParams params = state->params;
    params.k = (const uint8_t *)problem->k.data;
    params.v = (const uint8_t *)problem->v.data;
    params.q = (const uint16_t *)problem->q.data;
    params.o = (uint16_t *)problem->o.data;
    params.lse = problem->lse.data;
    params.early = problem->early;
    return s2_cuda_try(state->launch(params, state->row_tiles, state->n_chunks, s2_cuda_stream(device)), why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_decode = {
    "decode",      "Decode of 1 to 16 query tokens, keys split over the chip; contiguous or from a cache",
    S2_DEVICE_GPU, S2_TOL_ROUNDED_P,
    true,          79,
    options,       supports,
    prepare,       run,
    finish};
