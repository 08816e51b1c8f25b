#include "kernels/cuda/internal.h"

#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/fwd_sm90.cuh"
#include "kernels/cuda/fwd_sm90_inst.cuh"

namespace
{

typedef cudaError_t (*Launch)(const s2::FwdParams &, int32_t, int32_t, cudaStream_t);
typedef CUresult (*EncodeMap)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                              CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);

/* Live K and V of a section of heads: measured best between 8 and 24 MB of 60 MB of L2. */
constexpr int64_t SECTION_BYTES = 16 << 20;

struct State {
    s2::FwdParams params;
    Launch launch;
    int32_t block_tok;
    void *maps, *items, *words, *list, *bits, *counter, *o;
};

/* Keys of a whole step: FwdConfig::KEYS of the instance. */
int32_t key_step(int32_t head_dim)
{
    return head_dim > 128 ? 64 : 128;
}

/* The smallest instance that holds the head dimension; what is missing of it reads as zeros. */
Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim <= dim)                                                                                     \
        return dtype == S2_F16 ? S2_FWD_SM90_LAUNCH(dim, 1) : S2_FWD_SM90_LAUNCH(dim, 0);
    S2_FWD_SM90_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

void options(const s2_device *, const s2_attn_problem *problem, s2_plan_options *out)
{
    *out = s2_plan_options_default();
    out->tile_rows = 128;
    out->pack_heads = 2;
    out->key_tok = key_step(problem->head_dim) / 2;
    out->section_bytes = SECTION_BYTES;
    out->elem_bytes = 2;
}

bool strides_fit(const s2_tensor *tensor)
{
    return tensor->tok % 8 == 0 && tensor->head % 8 == 0 && tensor->seq % 8 == 0;
}

s2_status supports_plan(const s2_plan *plan, int32_t head_dim, s2_diag *why)
{
    if (plan->options.tile_tok * plan->pack_heads != 128 || plan->options.key_tok != key_step(head_dim) / 2)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the plan was cut for another kernel");
    return S2_OK;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    if (device->capability != 90)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a Hopper GPU");
    if (problem->phase != S2_FORWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes the forward only");
    if (problem->dtype != S2_BF16 && problem->dtype != S2_F16)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes bf16 and f16");
    if (problem->head_dim > 256 || problem->head_dim % 8 != 0)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes head dimensions up to 256, multiples of 8");
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    if (!strides_fit(&problem->q) || !strides_fit(&problem->k) || !strides_fit(&problem->v) ||
        !strides_fit(&problem->o))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs strides that are multiples of 8 elements");
    return problem->plan != NULL ? supports_plan(problem->plan, problem->head_dim, why) : S2_OK;
}

s2_status find_encoder(EncodeMap *out, s2_diag *why)
{
    void *entry = NULL;
    cudaDriverEntryPointQueryResult result;
    S2_TRY(s2_cuda_try(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result),
        why));
    if (result != cudaDriverEntryPointSuccess)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the driver has no tensor maps: it is too old");
    *out = (EncodeMap)entry;
    return S2_OK;
}

/* {d, token, head} of one sequence; a box is 64 columns of box_rows tokens of one head. */
s2_status encode(EncodeMap encoder, CUtensorMap *map, const s2_attn_problem *problem, const s2_tensor *tensor,
                 int64_t offset, int32_t n_tok, int32_t n_heads, int32_t box_rows, s2_diag *why)
{
    const cuuint64_t dims[3] = {(cuuint64_t)problem->head_dim, (cuuint64_t)n_tok, (cuuint64_t)n_heads};
    const cuuint64_t strides[2] = {(cuuint64_t)tensor->tok * 2, (cuuint64_t)tensor->head * 2};
    const cuuint32_t box[3] = {64, (cuuint32_t)box_rows, 1}, ones[3] = {1, 1, 1};
    const CUresult result = encoder(
        map, problem->dtype == S2_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
        (uint16_t *)tensor->data + offset, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return s2_diag_set(why, S2_ECUDA, 0, 0, 0, "cuTensorMapEncodeTiled says %d", (int)result);
    return S2_OK;
}

s2_status make_maps(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    EncodeMap encoder = NULL;
    S2_TRY(find_encoder(&encoder, why));
    const int32_t n_seqs = problem->n_seqs;
    CUtensorMap *const maps = (CUtensorMap *)aligned_alloc(128, (size_t)n_seqs * 3 * sizeof *maps);
    void **const o = (void **)s2_calloc((size_t)n_seqs, sizeof *o);
    s2_status status = maps != NULL && o != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t seq = 0; seq < n_seqs && status == S2_OK; seq++) {
        const s2_plan_seq len = problem->plan->seqs[seq];
        const s2_tensor *const tensors[3] = {&problem->q, &problem->k, &problem->v};
        o[seq] = (uint16_t *)problem->o.data + s2_tensor_at(&problem->o, problem->q_begin_tok, seq, 0, 0);
        for (int32_t t = 0; t < 3 && status == S2_OK; t++) {
            const bool is_kv = t > 0;
            const int64_t offset =
                s2_tensor_at(tensors[t], is_kv ? problem->k_begin_tok : problem->q_begin_tok, seq, 0, 0);
            status = encode(encoder, &maps[3 * seq + t], problem, tensors[t], offset,
                            is_kv ? len.k_tok : len.q_tok, is_kv ? problem->n_kv_heads : problem->n_heads,
                            is_kv ? state->block_tok : 64, why);
        }
    }
    if (status == S2_OK)
        status = s2_cuda_upload(device, maps, (size_t)n_seqs * 3 * sizeof *maps, &state->maps, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, o, (size_t)n_seqs * sizeof *o, &state->o, why);
    free(maps);
    s2_free(o);
    return status;
}

s2_status upload_items(s2_device *device, const s2_attn_problem *problem, const s2_steps *steps, State *state,
                       s2_diag *why)
{
    s2_step_item *const items = (s2_step_item *)s2_calloc((size_t)steps->n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < steps->n_items; at++) {
        items[at] = steps->items[at];
        items[at].rows = (int32_t)s2_rows_at(&problem->lse, problem->q_begin_tok, items[at].seq, 0, 0);
    }
    const s2_status status =
        s2_cuda_upload(device, items, ((size_t)steps->n_items + 1) * sizeof *items, &state->items, why);
    s2_free(items);
    return status;
}

s2_status make_items(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const size_t mask_bytes = (size_t)plan->options.tile_tok * (size_t)plan->mask_words * sizeof(uint32_t);
    s2_arena arena = {};
    s2_steps steps;
    s2_status status = s2_steps_build(&arena, plan, key_step(problem->head_dim), &steps, why);
    if (status == S2_OK)
        status = upload_items(device, problem, &steps, state, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, steps.words, (size_t)steps.n_words * sizeof *steps.words,
                                &state->words, why);
    if (status == S2_OK)
        status =
            s2_cuda_upload(device, steps.list, (size_t)steps.n_list * sizeof *steps.list, &state->list, why);
    if (status == S2_OK && steps.n_masks > 0)
        status = s2_cuda_upload(device, steps.bits, (size_t)steps.n_masks * mask_bytes, &state->bits, why);
    s2_arena_release(&arena);
    return status;
}

void finish(s2_device *, void *raw)
{
    State *const state = (State *)raw;
    if (state == NULL)
        return;
    void *const memory[] = {state->maps, state->items,   state->words, state->list,
                            state->bits, state->counter, state->o};
    for (void *piece : memory)
        (void)cudaFree(piece);
    s2_free(state);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::FwdParams *const params = &state->params;
    params->maps = (const CUtensorMap *)state->maps;
    params->items = (const s2_step_item *)state->items;
    params->words = (const s2_step_word *)state->words;
    params->list = (const int32_t *)state->list;
    params->bits = (const uint32_t *)state->bits;
    params->counter = (int32_t *)state->counter;
    params->lse = problem->lse.data;
    params->lse_head = problem->lse.head;
    params->o = (uint8_t *const *)state->o;
    params->o_tok_bytes = problem->o.tok * 2;
    params->o_head_bytes = problem->o.head * 2;
    params->n_items = problem->plan->n_items;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->pack = problem->plan->pack_heads;
    params->causal = problem->plan->pattern->causal;
    params->head_dim = problem->head_dim;
    params->scale_log2 = problem->scale * s2::LOG2_E;
}

s2_status prepare(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why)
{
    static const int32_t zero[2] = {0, 0};
    S2_TRY(supports(device, problem, why));
    State *const state = (State *)s2_calloc(1, sizeof *state);
    if (state == NULL)
        return S2_ENOMEM;
    state->launch = launch_of(problem->head_dim, problem->dtype);
    state->block_tok = problem->plan->blk_tok;
    s2_status status = make_maps(device, problem, state, why);
    if (status == S2_OK)
        status = make_items(device, problem, state, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, zero, sizeof zero, &state->counter, why);
    if (status != S2_OK) {
        finish(device, state);
        return status;
    }
    fill_params(problem, state);
    *out = state;
    return S2_OK;
}

s2_status run(s2_device *device, const s2_attn_problem *, void *raw, s2_diag *why)
{
    const State *const state = (const State *)raw;
    if (state->params.n_items == 0)
        return S2_OK;
    return s2_cuda_try(
        state->launch(state->params, state->block_tok, device->n_units, s2_cuda_stream(device)), why);
}

} // namespace

extern "C" const s2_kernel s2_kernel_sm90 = {
    "sm90",        "Hopper forward: TMA gather into dense tiles, wgmma, persistent",
    S2_DEVICE_GPU, S2_TOL_ROUNDED_P,
    true,          90,
    options,       supports,
    prepare,       run,
    finish};
