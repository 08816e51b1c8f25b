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
    void *maps, *items, *classes, *lists, *counter, *o;
};

int32_t key_step(int32_t head_dim)
{
    return head_dim == 256 ? 64 : 128;
}

Launch launch_of(int32_t head_dim, s2_dtype dtype)
{
#define S2_CASE(dim)                                                                                         \
    if (head_dim == dim)                                                                                     \
        return dtype == S2_F16 ? S2_FWD_SM90_LAUNCH(dim, 1) : S2_FWD_SM90_LAUNCH(dim, 0);
    S2_FWD_SM90_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

void options(const s2_device *, const s2_attn_problem *problem, s2_plan_options *out)
{
    const bool even_groups = problem->n_heads / problem->n_kv_heads % 2 == 0;
    *out = s2_plan_options_default();
    out->tile_tok = even_groups ? 64 : 128;
    out->pack_heads = even_groups ? 2 : 1;
    out->key_tok = key_step(problem->head_dim);
    out->section_bytes = SECTION_BYTES;
    out->elem_bytes = 2;
}

bool strides_fit(const s2_tensor *tensor)
{
    return tensor->tok % 8 == 0 && tensor->head % 8 == 0 && tensor->seq % 8 == 0;
}

s2_status supports_plan(const s2_plan *plan, s2_diag *why)
{
    if (plan->options.tile_tok * plan->pack_heads != 128)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                           "a tile of this kernel is 128 rows of one list; the plan has %d x %d",
                           plan->options.tile_tok, plan->pack_heads);
    if (plan->blk_tok > plan->options.key_tok)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "blocks of the plan are wider than a step");
    for (int32_t seq = 0; seq < plan->n_seqs; seq++)
        if (plan->seqs[seq].k_tok / plan->blk_tok + 1 >= S2_FWD_LIMIT_BLK)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes at most %d key blocks",
                               S2_FWD_LIMIT_BLK - 2);
    for (int32_t cls = 0; cls < plan->n_classes; cls++)
        if (!plan->classes[cls].block_exact)
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "the pattern of head %d is finer than 16-row slabs and whole key blocks",
                               plan->classes[cls].first_head);
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
    if (launch_of(problem->head_dim, problem->dtype) == NULL)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes head dimensions 64, 96, 128 and 256");
    if (!(problem->scale > 0.0f))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs a positive scale");
    if (!strides_fit(&problem->q) || !strides_fit(&problem->k) || !strides_fit(&problem->v) ||
        !strides_fit(&problem->o))
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "needs strides that are multiples of 8 elements");
    return problem->plan != NULL ? supports_plan(problem->plan, why) : S2_OK;
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
    CUtensorMap *const maps = (CUtensorMap *)aligned_alloc(128, (size_t)n_seqs * 4 * sizeof *maps);
    void **const o = (void **)s2_calloc((size_t)n_seqs, sizeof *o);
    s2_status status = maps != NULL && o != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t seq = 0; seq < n_seqs && status == S2_OK; seq++) {
        const s2_plan_seq len = problem->plan->seqs[seq];
        const s2_tensor *const tensors[4] = {&problem->q, &problem->k, &problem->v, &problem->o};
        const int32_t boxes[4] = {64, state->block_tok, state->block_tok, 16};
        for (int32_t t = 0; t < 4 && status == S2_OK; t++) {
            const bool is_kv = t == 1 || t == 2;
            const int64_t offset =
                s2_tensor_at(tensors[t], is_kv ? problem->k_begin_tok : problem->q_begin_tok, seq, 0, 0);
            status = encode(encoder, &maps[4 * seq + t], problem, tensors[t], offset,
                            is_kv ? len.k_tok : len.q_tok, is_kv ? problem->n_kv_heads : problem->n_heads,
                            boxes[t], why);
            if (t == 3)
                o[seq] = (uint16_t *)problem->o.data + offset;
        }
    }
    if (status == S2_OK)
        status = s2_cuda_upload(device, maps, (size_t)n_seqs * 4 * sizeof *maps, &state->maps, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, o, (size_t)n_seqs * sizeof *o, &state->o, why);
    free(maps);
    s2_free(o);
    return status;
}

/* Whether a class's lists can come from the arithmetic of fwd_list.h. */
bool is_arithmetic(const s2_plan *plan, const s2_plan_class *cls)
{
    const s2_plan_periodic *const as = &cls->as;
    if (!cls->periodic || as->block_tok != plan->blk_tok || as->window_tok != 0)
        return false;
    if (as->dense)
        return true;
    return as->local_blk >= 1 && as->sink_tok % as->block_tok == 0 &&
           (as->stride_blk == 0 || as->stride_width == 1);
}

bool all_arithmetic(const s2_plan *plan)
{
    for (int32_t cls = 0; cls < plan->n_classes; cls++)
        if (!is_arithmetic(plan, &plan->classes[cls]))
            return false;
    return true;
}

s2_fwd_class class_of(const s2_plan_periodic *as)
{
    s2_fwd_class out = {1 << 28, 1 << 28, 1, 0};
    if (as->dense)
        return out;
    out.local_blk = as->local_blk;
    out.sink_blk = as->sink_tok / as->block_tok;
    if (as->stride_blk > 0) {
        out.stride_blk = as->stride_blk;
        out.stride_shift = as->stride_shift;
    }
    return out;
}

/* The geometry of an item; its list is filled in by the caller. */
s2_fwd_item item_of(const s2_attn_problem *problem, const s2_plan_item *item)
{
    const s2_plan *const plan = problem->plan;
    const s2_plan_seq len = plan->seqs[item->seq];
    s2_fwd_item out = {};
    out.pos = (int32_t)s2_plan_tile_begin(plan, item->seq, item->tile);
    out.head = item->head;
    out.seq = item->seq;
    out.k_tok = len.k_tok;
    out.q_off = len.k_tok - len.q_tok;
    out.rows = (int32_t)s2_rows_at(&problem->lse, problem->q_begin_tok, item->seq, 0, 0);
    return out;
}

void set_list(s2_fwd_item *item, int32_t n_subs, int32_t list, int32_t n_entries, int32_t n_partial)
{
    item->list = list;
    item->n_entries = n_entries;
    item->n_steps = s2_fwd_max(1, (n_entries + n_subs - 1) / n_subs);
    const int32_t n_pad = item->n_steps * n_subs - n_entries;
    item->n_masked = s2_fwd_max(1, (n_pad + n_partial + n_subs - 1) / n_subs);
}

int32_t log2_of(int32_t power)
{
    int32_t shift = 0;
    while ((1 << shift) < power)
        shift++;
    return shift;
}

s2_status items_by_arithmetic(s2_device *device, const s2_attn_problem *problem, State *state,
                              s2_fwd_item *items, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    s2_fwd_class *const classes = (s2_fwd_class *)s2_calloc((size_t)plan->n_classes, sizeof *classes);
    if (classes == NULL)
        return S2_ENOMEM;
    for (int32_t cls = 0; cls < plan->n_classes; cls++)
        classes[cls] = class_of(&plan->classes[cls].as);
    const int32_t shift = log2_of(plan->blk_tok), n_subs = plan->options.key_tok / plan->blk_tok;
    for (int32_t at = 0; at < plan->n_items; at++) {
        s2_fwd_item item = item_of(problem, &plan->items[at]);
        const int32_t cls = plan->items[at].cls;
        const s2_fwd_segments seg = s2_fwd_segments_of(&classes[cls], shift, item.pos, plan->options.tile_tok,
                                                       item.q_off, item.k_tok);
        set_list(&item, n_subs, cls, s2_fwd_segments_count(&seg), seg.n_diagonal + seg.n_edge);
        items[at] = item;
    }
    const s2_status status =
        s2_cuda_upload(device, classes, (size_t)plan->n_classes * sizeof *classes, &state->classes, why);
    s2_free(classes);
    return status;
}

uint32_t word_of(const s2_plan_entry *entry)
{
    return (uint32_t)entry->k_blk << S2_FWD_BLOCK_SHIFT | (entry->edge ? (uint32_t)S2_FWD_EDGE : 0u) |
           (entry->slabs & 0xFFFu);
}

s2_status upload_words(s2_device *device, const s2_plan_flat *flat, State *state, s2_diag *why)
{
    uint32_t *const words = (uint32_t *)s2_calloc((size_t)flat->n_entries + 1, sizeof *words);
    if (words == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < flat->n_entries; at++)
        words[at] = word_of(&flat->entries[at]);
    const s2_status status =
        s2_cuda_upload(device, words, ((size_t)flat->n_entries + 1) * sizeof *words, &state->lists, why);
    s2_free(words);
    return status;
}

s2_status items_by_lists(s2_device *device, const s2_attn_problem *problem, State *state, s2_fwd_item *items,
                         s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int32_t n_subs = plan->options.key_tok / plan->blk_tok;
    s2_arena arena = {};
    s2_plan_flat flat;
    s2_status status = s2_plan_flatten(&arena, plan, &flat);
    if (status == S2_OK && flat.n_entries >= INT32_MAX)
        status = s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the lists have more than 2^31 entries");
    if (status == S2_OK)
        status = upload_words(device, &flat, state, why);
    for (int32_t at = 0; at < plan->n_items && status == S2_OK; at++) {
        items[at] = item_of(problem, &plan->items[at]);
        const s2_plan_span span = flat.span_of[at];
        set_list(&items[at], n_subs, (int32_t)span.begin, span.n, span.n_partial);
    }
    s2_arena_release(&arena);
    return status;
}

s2_status make_items(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const size_t n_items = (size_t)problem->plan->n_items;
    s2_fwd_item *const items = (s2_fwd_item *)s2_calloc(n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    s2_status status = all_arithmetic(problem->plan) ? items_by_arithmetic(device, problem, state, items, why)
                                                     : items_by_lists(device, problem, state, items, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, items, (n_items + 1) * sizeof *items, &state->items, why);
    s2_free(items);
    return status;
}

void finish(s2_device *, void *raw)
{
    State *const state = (State *)raw;
    if (state == NULL)
        return;
    void *const memory[] = {state->maps,  state->items,   state->classes,
                            state->lists, state->counter, state->o};
    for (void *piece : memory)
        (void)cudaFree(piece);
    s2_free(state);
}

void fill_params(const s2_attn_problem *problem, State *state)
{
    s2::FwdParams *const params = &state->params;
    params->maps = (const CUtensorMap *)state->maps;
    params->items = (const s2_fwd_item *)state->items;
    params->classes = (const s2_fwd_class *)state->classes;
    params->lists = (const uint32_t *)state->lists;
    params->counter = (int32_t *)state->counter;
    params->lse = problem->lse.data;
    params->lse_head = problem->lse.head;
    params->o = (uint8_t *const *)state->o;
    params->o_tok_bytes = problem->o.tok * 2;
    params->o_head_bytes = problem->o.head * 2;
    params->n_items = problem->plan->n_items;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->pack = problem->plan->pack_heads;
    params->shift = log2_of(problem->plan->blk_tok);
    params->causal = problem->plan->pattern->causal;
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
