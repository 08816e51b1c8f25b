#include "kernels/cuda/sm90_host.cuh"

#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime.h>

#include "base/alloc.h"

/* ------------------------------------------------------------------ tensor maps */

typedef CUresult (*EncodeMap)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *,
                              CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);

static s2_status find_encoder(EncodeMap *out, s2_diag *why)
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

static s2_status encode(EncodeMap encoder, CUtensorMap *map, const s2_attn_problem *problem,
                        const s2_mapped *mapped, int32_t seq, s2_diag *why)
{
    const s2_plan_seq len = problem->plan->seqs[seq];
    const s2_tensor *const tensor = mapped->tensor;
    const int64_t offset =
        s2_tensor_at(tensor, mapped->is_kv ? problem->k_begin_tok : problem->q_begin_tok, seq, 0, 0);
    const cuuint64_t n_tok = (cuuint64_t)(mapped->is_kv ? len.k_tok : len.q_tok),
                     n_heads = (cuuint64_t)(mapped->is_kv ? problem->n_kv_heads : problem->n_heads);
    const CUtensorMapDataType type = problem->e4m3              ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                     : problem->dtype == S2_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const int32_t bytes = problem->e4m3 ? 1 : 2;
    const int tok = mapped->box_heads > 0 ? 2 : 1, head = 3 - tok;
    cuuint64_t dims[3] = {(cuuint64_t)problem->head_dim, 0, 0}, strides[2];
    cuuint32_t box[3] = {(cuuint32_t)(128 / bytes), 0, 0}, ones[3] = {1, 1, 1};
    dims[tok] = n_tok;
    dims[head] = n_heads;
    strides[tok - 1] = (cuuint64_t)(tensor->tok * bytes);
    strides[head - 1] = (cuuint64_t)(tensor->head * bytes);
    box[tok] = (cuuint32_t)mapped->box_rows;
    box[head] = mapped->box_heads > 0 ? (cuuint32_t)mapped->box_heads : 1;
    const CUresult result = encoder(map, type, 3, (uint8_t *)tensor->data + offset * bytes, dims, strides,
                                    box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return s2_diag_set(why, S2_ECUDA, 0, 0, 0, "cuTensorMapEncodeTiled says %d", (int)result);
    return S2_OK;
}

s2_status s2_sm90_upload_maps(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                              int32_t n, void **out, s2_diag *why)
{
    EncodeMap encoder = NULL;
    S2_TRY(find_encoder(&encoder, why));
    const size_t n_bytes = (size_t)problem->n_seqs * (size_t)n * sizeof(CUtensorMap);
    CUtensorMap *const maps = (CUtensorMap *)aligned_alloc(128, n_bytes);
    s2_status status = maps != NULL ? S2_OK : S2_ENOMEM;
    for (int32_t at = 0; at < n * problem->n_seqs && status == S2_OK; at++)
        status = encode(encoder, &maps[at], problem, &tensors[at % n], at / n, why);
    if (status == S2_OK)
        status = *out == NULL ? s2_cuda_upload(device, maps, n_bytes, out, why)
                              : s2_cuda_write(device, *out, maps, n_bytes, why);
    free(maps);
    return status;
}

bool s2_sm90_moves(const s2_device *device, const s2_attn_problem *problem, s2_sm90_where *where)
{
    const void *const data[] = {problem->q.data, problem->k.data,   problem->v.data,
                                problem->o.data, problem->d_o.data, problem->d_q.data};
    const bool same = memcmp(where->data, data, sizeof data) == 0;
    memcpy(where->data, data, sizeof data);
    where->in_graph = where->in_graph || s2_cuda_captures(device);
    return !same || where->in_graph;
}

/* ------------------------------------------------------------------ steps */

static s2_status upload_items(s2_device *device, const s2_attn_problem *problem, const s2_steps *steps,
                              s2_sm90_rows_fn rows_of, void **out, s2_diag *why)
{
    s2_step_item *const items = (s2_step_item *)s2_calloc((size_t)steps->n_items + 1, sizeof *items);
    if (items == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < steps->n_items; at++) {
        items[at] = steps->items[at];
        items[at].rows = rows_of(problem, at);
    }
    const s2_status status =
        s2_cuda_upload(device, items, ((size_t)steps->n_items + 1) * sizeof *items, out, why);
    s2_free(items);
    return status;
}

static s2_status upload(s2_device *device, const s2_attn_problem *problem, int32_t step_tok,
                        s2_sm90_rows_fn rows_of, s2_arena *arena, s2_sm90_steps *out, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const size_t mask_bytes = (size_t)plan->options.tile_tok * (size_t)plan->mask_words * sizeof(uint32_t);
    s2_steps steps;
    S2_TRY(s2_steps_build(arena, plan, step_tok, &steps, why));
    S2_TRY(upload_items(device, problem, &steps, rows_of, &out->items, why));
    S2_TRY(
        s2_cuda_upload(device, steps.words, (size_t)steps.n_words * sizeof *steps.words, &out->words, why));
    S2_TRY(s2_cuda_upload(device, steps.list, (size_t)steps.n_list * sizeof *steps.list, &out->list, why));
    if (steps.n_masks == 0)
        return S2_OK;
    return s2_cuda_upload(device, steps.bits, (size_t)steps.n_masks * mask_bytes, &out->bits, why);
}

s2_status s2_sm90_upload_steps(s2_device *device, const s2_attn_problem *problem, int32_t step_tok,
                               s2_sm90_rows_fn rows_of, s2_sm90_steps *out, s2_diag *why)
{
    s2_arena arena = {};
    const s2_status status = upload(device, problem, step_tok, rows_of, &arena, out, why);
    s2_arena_release(&arena);
    return status;
}

void s2_sm90_release_steps(s2_sm90_steps *steps)
{
    void *const memory[] = {steps->items, steps->words, steps->list, steps->bits};
    for (void *piece : memory)
        (void)cudaFree(piece);
}
