#include "kernels/cuda/sm90_host.cuh"

#include <stdlib.h>
#include <string.h>

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

/* ------------------------------------------------------------------ places */

static size_t maps_bytes(const s2_attn_problem *problem, int32_t n)
{
    return (size_t)problem->n_seqs * (size_t)n * sizeof(CUtensorMap);
}

static s2_status fill_place(const s2_attn_problem *problem, const s2_mapped *tensors, int32_t n,
                            uint8_t *host, s2_diag *why)
{
    EncodeMap encoder = NULL;
    S2_TRY(find_encoder(&encoder, why));
    for (int32_t at = 0; at < n * problem->n_seqs; at++)
        S2_TRY(encode(encoder, (CUtensorMap *)host + at, problem, &tensors[at % n], at / n, why));
    void **const o = (void **)(host + maps_bytes(problem, n));
    for (int32_t seq = 0; seq < problem->n_seqs && problem->o.data != NULL; seq++)
        o[seq] = (uint16_t *)problem->o.data + s2_tensor_at(&problem->o, problem->q_begin_tok, seq, 0, 0);
    return S2_OK;
}

static size_t place_bytes(const s2_attn_problem *problem, int32_t n)
{
    return (size_t)s2_round_up((int64_t)(maps_bytes(problem, n) + (size_t)problem->n_seqs * sizeof(void *)),
                               128);
}

typedef s2_status (*Upload)(s2_device *device, const void *host, size_t n_bytes, void **memory, s2_diag *why);

/* Puts a place where `upload` does. */
static s2_status write_place(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                             int32_t n, Upload upload, s2_sm90_place *place, s2_diag *why)
{
    const size_t n_bytes = place_bytes(problem, n);
    uint8_t *const host = (uint8_t *)aligned_alloc(128, n_bytes);
    if (host == NULL)
        return S2_ENOMEM;
    memset(host, 0, n_bytes);
    s2_status status = fill_place(problem, tensors, n, host, why);
    if (status == S2_OK)
        status = upload(device, host, n_bytes, &place->memory, why);
    free(host);
    return status;
}

static s2_status upload_first(s2_device *device, const void *host, size_t n_bytes, void **memory,
                              s2_diag *why)
{
    S2_TRY(s2_cuda_try(cudaMalloc(memory, n_bytes * S2_SM90_PLACES), why));
    return device->ops->copy_in(device, *memory, host, n_bytes);
}

static s2_status upload_in_order(s2_device *device, const void *host, size_t n_bytes, void **memory,
                                 s2_diag *why)
{
    return s2_cuda_write(device, *memory, host, n_bytes, why);
}

static s2_status upload_captured(s2_device *, const void *host, size_t n_bytes, void **memory, s2_diag *why)
{
    return s2_cuda_upload_apart(host, n_bytes, memory, why);
}

static bool finds(const s2_sm90_place *places, int64_t n, s2_sm90_place *place)
{
    for (int64_t at = 0; at < n; at++)
        if (memcmp(place->data, places[at].data, sizeof place->data) == 0) {
            *place = places[at];
            return true;
        }
    return false;
}

/* The first place, by the preparation. */
static s2_status keep_first(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                            int32_t n, s2_sm90_place *place, s2_sm90_places *places, s2_diag *why)
{
    const s2_status status = write_place(device, problem, tensors, n, upload_first, place, why);
    places->kept[0] = *place; /* its memory is released, also where nothing is in it */
    places->n_kept = status == S2_OK ? 1 : 0;
    return status;
}

static s2_status find_kept(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                           int32_t n, s2_sm90_place *place, s2_sm90_places *places, s2_diag *why)
{
    if (finds(places->kept, places->n_kept, place))
        return S2_OK;
    if (places->n_kept == 0)
        return keep_first(device, problem, tensors, n, place, places, why);
    const int32_t at = places->n_kept < S2_SM90_PLACES ? places->n_kept : places->oldest;
    place->memory = (uint8_t *)places->kept[0].memory + (size_t)at * place_bytes(problem, n);
    places->kept[at] = s2_sm90_place{}; /* nothing lies there while it is written */
    S2_TRY(write_place(device, problem, tensors, n, upload_in_order, place, why));
    places->kept[at] = *place;
    places->n_kept = s2_max_i32(places->n_kept, at + 1);
    places->oldest = at % (S2_SM90_PLACES - 1) + 1;
    return S2_OK;
}

static s2_status find_captured(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                               int32_t n, s2_sm90_place *place, s2_sm90_places *places, s2_diag *why)
{
    if (finds(places->captured, places->n_captured, place))
        return S2_OK;
    S2_TRY(S2_RESERVE(places->captured, places->captured_cap, places->n_captured + 1));
    S2_TRY(write_place(device, problem, tensors, n, upload_captured, place, why));
    places->captured[places->n_captured++] = *place;
    return S2_OK;
}

s2_status s2_sm90_find_place(s2_device *device, const s2_attn_problem *problem, const s2_mapped *tensors,
                             int32_t n, s2_sm90_places *places, s2_sm90_found *out, s2_diag *why)
{
    s2_sm90_place place = {{problem->q.data, problem->k.data, problem->v.data, problem->o.data,
                            problem->d_o.data, problem->d_q.data},
                           NULL};
    const bool captures = s2_cuda_captures(device);
    S2_TRY((captures ? find_captured : find_kept)(device, problem, tensors, n, &place, places, why));
    out->maps = (const CUtensorMap *)place.memory;
    out->o = (uint8_t *const *)((uint8_t *)place.memory + maps_bytes(problem, n));
    out->moved = !captures && place.memory != places->kept[0].memory;
    return S2_OK;
}

void s2_sm90_release_places(s2_sm90_places *places)
{
    (void)cudaFree(places->kept[0].memory);
    for (int64_t at = 0; at < places->n_captured; at++)
        (void)cudaFree(places->captured[at].memory);
    s2_free(places->captured);
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
