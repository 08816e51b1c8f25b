#include "kernels/cuda/internal.h"

#include <cuda_runtime.h>

#include "base/alloc.h"
#include "kernels/cuda/decode.cuh"
#include "kernels/cuda/decode_inst.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/follow.h"
#include "kernels/select.h"

namespace
{

typedef cudaError_t (*Launch)(const s2::DecodeParams &, int32_t, int32_t, cudaStream_t);

/* GPU memory, and the host memory it is filled from, so that queueing need not wait for the stream. */
struct Filled {
    void *memory, *staged;
    cudaEvent_t copied;
};

struct State {
    s2::DecodeParams params;
    Launch launch;
    s2_decode_launch how;
    bool selects, fp16;
    s2::SelectParams select;
    void *n_pages, *page_places, *bounds, *scores, *scored;
    void *slabs, *lists, *parts, *bits, *part_o, *part_l, *arrived;
    s2_follow follow;    /* if the problem can be followed */
    Filled *layer_slabs; /* then: [layer], instead of slabs; empty: never requested */
    Filled all_bits;     /* ... instead of bits */
    int64_t bits_step;   /* the lists' step that the masks belong to */
    bool ran;
    cudaStream_t stream; /* of the last run */
};

/* The smallest instance that holds the head dimension; with a cap, sinks or e4m3 keys 96 has none. */
int32_t instance_dim(const s2_attn_problem *problem)
{
    const bool extra = problem->cap > 0.0f || problem->sinks || problem->e4m3;
#define S2_DIM(dim)                                                                                          \
    if (problem->head_dim <= dim && !(extra && dim == 96))                                                   \
        return dim;
    S2_DECODE_DIMS(S2_DIM)
#undef S2_DIM
    return 0;
}

Launch launch_of(int32_t dim_of_instance, s2_dtype dtype, bool e4m3)
{
#define S2_CASE(dim)                                                                                         \
    if (e4m3 && dim_of_instance == dim)                                                                      \
        return dtype == S2_F16 ? S2_DECODE_E4M3_LAUNCH(dim, 1) : S2_DECODE_E4M3_LAUNCH(dim, 0);
    S2_DECODE_E4M3_DIMS(S2_CASE)
#undef S2_CASE
#define S2_CASE(dim)                                                                                         \
    if (dim_of_instance == dim)                                                                              \
        return dtype == S2_F16 ? S2_DECODE_LAUNCH(dim, 1) : S2_DECODE_LAUNCH(dim, 0);
    S2_DECODE_DIMS(S2_CASE)
#undef S2_CASE
    return NULL;
}

/* Rows of e4m3 begin at multiples of 16 bytes. */
bool rows_are_pieces(const s2_tensor *tensor)
{
    return tensor->tok % 16 == 0 && tensor->head % 16 == 0 && tensor->seq % 16 == 0;
}

s2_status supports(const s2_device *device, const s2_attn_problem *problem, s2_diag *why)
{
    S2_TRY(s2_decode_supports(problem, why));
    S2_TRY(s2_traits_support(&s2_traits_decode, device, problem, why));
    S2_TRY(s2_cuda_strides_support(problem, why));
    if (problem->e4m3 &&
        (problem->head_dim % 16 != 0 || !rows_are_pieces(&problem->k) || !rows_are_pieces(&problem->v)))
        return s2_diag_set(
            why, S2_EUNSUPPORTED, 0, 0, 0,
            "reads e4m3 keys 16 at a time: head dimension and strides must be multiples of 16");
    return S2_OK;
}

/* Numbers of K and V in 16 bytes. */
int32_t piece_of(const s2_attn_problem *problem)
{
    return 16 / s2_dtype_bytes(s2_kv_dtype(problem));
}

s2_status pack_slab(const s2_decode_slab *slab, const s2_decode_place *place, int32_t piece,
                    s2::DecodeSlab *out, s2_diag *why)
{
    if (place->k_at / piece > UINT32_MAX || place->v_at / piece > UINT32_MAX)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "K or V is larger than 64 GiB");
    out->k = (uint32_t)(place->k_at / piece);
    out->v = (uint32_t)(place->v_at / piece);
    out->mask = slab->mask;
    out->live = slab->live | (place->fresh ? s2::DECODE_NEW : 0u);
    return S2_OK;
}

s2_status pack_slabs(const s2_decode_plan *plan, const s2_decode_place *places, int32_t piece,
                     s2::DecodeSlab *out, s2_diag *why)
{
    for (int32_t at = 0; at < plan->n_slabs; at++)
        S2_TRY(pack_slab(&plan->slabs[at], &places[at], piece, &out[at], why));
    return S2_OK;
}

s2_status upload_slabs(s2_device *device, const s2_decode_plan *plan, const s2_decode_place *places,
                       int32_t piece, void **out, s2_diag *why)
{
    const size_t n = (size_t)plan->n_slabs + 1;
    s2::DecodeSlab *const slabs = (s2::DecodeSlab *)s2_calloc(n, sizeof *slabs);
    if (slabs == NULL)
        return S2_ENOMEM;
    s2_status status = pack_slabs(plan, places, piece, slabs, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, slabs, n * sizeof *slabs, out, why);
    s2_free(slabs);
    return status;
}

/* Make room to fill: allocates both memories at first; later waits until the last copy is done. */
s2_status begin_fill(Filled *at, size_t n_bytes, s2_diag *why)
{
    if (at->copied != NULL)
        return s2_cuda_try(cudaEventSynchronize(at->copied), why);
    if (at->memory == NULL)
        S2_TRY(s2_cuda_try(cudaMalloc(&at->memory, n_bytes), why));
    if (at->staged == NULL)
        S2_TRY(s2_cuda_try(cudaMallocHost(&at->staged, n_bytes), why));
    return s2_cuda_try(cudaEventCreateWithFlags(&at->copied, cudaEventDisableTiming), why);
}

s2_status queue_fill(const s2_device *device, Filled *at, size_t n_bytes, s2_diag *why)
{
    const cudaStream_t stream = s2_cuda_stream(device);
    S2_TRY(
        s2_cuda_try(cudaMemcpyAsync(at->memory, at->staged, n_bytes, cudaMemcpyHostToDevice, stream), why));
    return s2_cuda_try(cudaEventRecord(at->copied, stream), why);
}

void release_filled(Filled *at)
{
    (void)cudaFree(at->memory);
    (void)cudaFreeHost(at->staged);
    if (at->copied != NULL)
        (void)cudaEventDestroy(at->copied);
}

s2_status fill_slabs(const s2_device *device, const s2_decode_plan *plan, const s2_decode_place *places,
                     int32_t piece, Filled *slabs, s2_diag *why)
{
    const size_t n_bytes = ((size_t)plan->n_slabs + 1) * sizeof(s2::DecodeSlab);
    S2_TRY(begin_fill(slabs, n_bytes, why));
    s2::DecodeSlab *const staged = (s2::DecodeSlab *)slabs->staged;
    S2_TRY(pack_slabs(plan, places, piece, staged, why));
    staged[plan->n_slabs] = {}; /* prefetched, but never used */
    return queue_fill(device, slabs, n_bytes, why);
}

s2_status fill_bits(const s2_device *device, const s2_decode_plan *plan, Filled *bits, s2_diag *why)
{
    const size_t n_bytes = (size_t)plan->n_masks * (size_t)plan->row_cap * sizeof *plan->bits;
    S2_TRY(begin_fill(bits, n_bytes, why));
    memcpy(bits->staged, plan->bits, n_bytes);
    return queue_fill(device, bits, n_bytes, why);
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
    out.head = head;
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

/* Room for the results of parts and for the counters, which every launch leaves at zero. */
s2_status allocate(s2_device *device, const s2_decode_plan *plan, int32_t dim, State *state, s2_diag *why)
{
    const size_t rows =
        (size_t)state->how.n_chunks * 2 * (size_t)plan->n_parts * (size_t)state->how.row_tiles * 8;
    const size_t n_counters = (size_t)state->how.n_chunks * (size_t)plan->n_lists * s2::DECODE_WARPS;
    S2_TRY(s2_cuda_try(cudaMalloc(&state->part_o, rows * (size_t)dim * sizeof(float)), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->part_l, rows * sizeof(float2)), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->arrived, n_counters * sizeof(int32_t)), why));
    return s2_cuda_try(
        cudaMemsetAsync(state->arrived, 0, n_counters * sizeof(int32_t), s2_cuda_stream(device)), why);
}

void release(State *state)
{
    s2_cuda_free(state->n_pages, state->page_places, state->bounds, state->scores, state->scored,
                 state->slabs, state->lists, state->parts, state->bits, state->part_o, state->part_l,
                 state->arrived);
    for (int32_t layer = 0; state->layer_slabs != NULL && layer < state->follow.n_layers; layer++)
        release_filled(&state->layer_slabs[layer]);
    release_filled(&state->all_bits);
    s2_free(state->layer_slabs);
    s2_follow_close(&state->follow);
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
    params->k_row_bytes = (uint32_t)(problem->k.tok * s2_dtype_bytes(s2_kv_dtype(problem)));
    params->v_row_bytes = (uint32_t)(problem->v.tok * s2_dtype_bytes(s2_kv_dtype(problem)));
    params->n_lists = plan->n_lists;
    params->n_parts = plan->n_parts;
    params->merged =
        s2_decode_launch_merges(&state->how, plan) ? s2_decode_launch_list_blocks(&state->how, plan) : 0;
    params->row_cap = plan->row_cap;
    params->group = plan->group;
    params->head_dim = problem->head_dim;
    params->scale_log2 = problem->scale * s2::LOG2_E;
    params->cap = s2::cap_of(problem);
}

s2_status upload_pages(s2_device *device, const s2_decode_plan *plan, const s2_selection *selection,
                       State *state, s2_diag *why)
{
    const size_t n = (size_t)plan->n_lists * (size_t)selection->page_cap;
    uint2 *const places = (uint2 *)s2_calloc(n, sizeof *places);
    if (places == NULL)
        return S2_ENOMEM;
    for (size_t at = 0; at < n; at++)
        places[at] = make_uint2((uint32_t)(selection->places[at].k_at / 8),
                                (uint32_t)(selection->places[at].v_at / 8));
    s2_status status = s2_cuda_upload(device, places, n * sizeof *places, &state->page_places, why);
    if (status == S2_OK)
        status = s2_cuda_upload(device, selection->n_pages, (size_t)plan->n_lists * sizeof(int32_t),
                                &state->n_pages, why);
    s2_free(places);
    return status;
}

void fill_select(const s2_attn_problem *problem, const s2_selection *selection, State *state)
{
    s2::SelectParams *const params = &state->select;
    params->lists = (const s2::DecodeList *)state->lists;
    params->n_pages = (const int32_t *)state->n_pages;
    params->places = (const uint2 *)state->page_places;
    params->bounds = (uint16_t *)state->bounds;
    params->scores = (uint32_t *)state->scores;
    params->arrived = (uint32_t *)state->scored;
    params->slabs = (s2::DecodeSlab *)state->slabs;
    params->q_tok = problem->q.tok;
    params->q_head = problem->q.head;
    params->k = (const uint8_t *)problem->k.data;
    params->k_row_bytes = (uint32_t)problem->k.tok * 2;
    params->v_row_bytes = (uint32_t)problem->v.tok * 2;
    params->page_cap = selection->page_cap;
    params->page_tok = problem->select_page_tok;
    params->budget = problem->select_pages;
    params->group = problem->n_heads / problem->n_kv_heads;
    params->head_dim = problem->head_dim;
}

typedef void (*Selector)(s2::SelectParams);

Selector selector(const State *state)
{
    return state->fp16 ? s2::select_pages<true> : s2::select_pages<false>;
}

size_t choice_bytes(int32_t page_cap)
{
    return (size_t)page_cap * (sizeof(uint32_t) + sizeof(uint16_t));
}

/* Computes the bounds of the pages that are whole by now. */
s2_status build_selection(s2_device *device, const s2_attn_problem *problem, const s2_decode_plan *plan,
                          const s2_selection *selection, State *state, s2_diag *why)
{
    const size_t n = (size_t)plan->n_lists * (size_t)selection->page_cap;
    S2_TRY(upload_pages(device, plan, selection, state, why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->bounds, n * 4 * (size_t)problem->head_dim), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->scores, n * sizeof(uint32_t)), why));
    S2_TRY(s2_cuda_try(cudaMalloc(&state->scored, (size_t)plan->n_lists * sizeof(uint32_t)), why));
    S2_TRY(s2_cuda_try(
        cudaMemsetAsync(state->scored, 0, (size_t)plan->n_lists * sizeof(uint32_t), s2_cuda_stream(device)),
        why));
    state->selects = true;
    state->fp16 = problem->dtype == S2_F16;
    fill_select(problem, selection, state);
    const dim3 grid((unsigned)selection->page_cap, (unsigned)plan->n_lists);
    const cudaStream_t stream = s2_cuda_stream(device);
    if (state->fp16)
        s2::page_bounds<true><<<grid, 128, 0, stream>>>(state->select);
    else
        s2::page_bounds<false><<<grid, 128, 0, stream>>>(state->select);
    S2_TRY(s2_cuda_try(cudaGetLastError(), why));
    return s2_cuda_try(s2::allow_shared(selector(state), choice_bytes(S2_SELECT_LIMIT_PAGES)), why);
}

s2_status run_selection(s2_device *device, const s2_attn_problem *problem, const State *state, s2_diag *why)
{
    s2::SelectParams params = state->select;
    params.q = (const uint16_t *)problem->q.data;
    const int32_t n_lists = state->params.n_lists;
    const int32_t n_blocks = s2_select_blocks(device->n_units, n_lists, params.page_cap, s2::SELECT_PAGES);
    const dim3 grid((unsigned)n_blocks, (unsigned)n_lists);
    return s2_cuda_try(s2::launch_after(selector(state), grid, s2::SELECT_THREADS,
                                        choice_bytes(params.page_cap), s2_cuda_stream(device), params),
                       why);
}

s2_status upload_bits(s2_device *device, const s2_decode_plan *plan, State *state, s2_diag *why)
{
    return s2_cuda_upload(device, plan->bits,
                          (size_t)plan->n_masks * (size_t)plan->row_cap * sizeof(uint16_t), &state->bits,
                          why);
}

/* Uploads what depends on the lists, but neither on where their slabs are nor on masks. */
s2_status upload_plan(s2_device *device, const s2_attn_problem *problem, const s2_decode_plan *plan,
                      State *state, s2_diag *why)
{
    S2_TRY(upload_lists(device, problem, plan, state, why));
    S2_TRY(allocate(device, plan, instance_dim(problem), state, why));
    fill_params(problem, plan, state);
    return S2_OK;
}

/* ------------------------------------------------------------------ steps that follow */

enum { EDITS = 192, MANY_CHANGES = 4096 }; /* passed as launch parameters */

struct Edits {
    uint4 word[EDITS];
    uint32_t at[EDITS];
};

__global__ void edit_words(uint4 *dst, const __grid_constant__ Edits edits, uint32_t n)
{
    if (threadIdx.x < n)
        dst[edits.at[threadIdx.x]] = edits.word[threadIdx.x];
}

/* Queues writes of 16-byte words, many per launch. */
struct Editor {
    uint4 *dst;
    cudaStream_t stream;
    uint32_t n;
    Edits edits;
};

s2_status flush_edits(Editor *editor, s2_diag *why)
{
    if (editor->n == 0)
        return S2_OK;
    edit_words<<<1, EDITS, 0, editor->stream>>>(editor->dst, editor->edits, editor->n);
    editor->n = 0;
    return s2_cuda_try(cudaGetLastError(), why);
}

s2_status edit(Editor *editor, uint32_t at, const void *word, s2_diag *why)
{
    editor->edits.at[editor->n] = at;
    memcpy(&editor->edits.word[editor->n], word, sizeof(uint4));
    return ++editor->n == EDITS ? flush_edits(editor, why) : S2_OK;
}

/* Updates the masks of the slabs that the lists' last step changed, for all layers at once. */
s2_status take_bits(s2_device *device, State *state, s2_diag *why)
{
    const s2_decode_follow *const lists = &state->follow.lists;
    const s2_decode_plan *const plan = &lists->plan;
    const uint32_t n_words = (uint32_t)plan->row_cap / 8;
    if (state->bits_step == lists->n_steps)
        return S2_OK;
    state->bits_step = lists->n_steps;
    if (lists->n_changed * (int64_t)n_words > MANY_CHANGES)
        return fill_bits(device, plan, &state->all_bits, why);
    Editor editor = {(uint4 *)state->all_bits.memory, s2_cuda_stream(device), 0, {}};
    for (int32_t at = 0; at < lists->n_changed; at++) {
        const int32_t mask = plan->slabs[lists->changed[at]].mask;
        const uint16_t *const bits = plan->bits + (int64_t)mask * plan->row_cap;
        for (uint32_t word = 0; mask >= 0 && word < n_words; word++)
            S2_TRY(edit(&editor, (uint32_t)mask * n_words + word, bits + word * 8, why));
    }
    return flush_edits(&editor, why);
}

s2_status take_slabs(s2_device *device, const s2_decode_plan *plan, const s2_follow_layer *layer,
                     int32_t piece, Filled *slabs, s2_diag *why)
{
    if (slabs->copied == NULL || layer->n_changed < 0 || layer->n_changed > MANY_CHANGES)
        return fill_slabs(device, plan, layer->places, piece, slabs, why);
    Editor editor = {(uint4 *)slabs->memory, s2_cuda_stream(device), 0, {}};
    for (int32_t at = 0; at < layer->n_changed; at++) {
        const int32_t slab = layer->changed[at];
        s2::DecodeSlab packed;
        S2_TRY(pack_slab(&plan->slabs[slab], &layer->places[slab], piece, &packed, why));
        S2_TRY(edit(&editor, (uint32_t)slab, &packed, why));
    }
    return flush_edits(&editor, why);
}

s2_status take_layer(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    const s2_follow_layer *layer = NULL;
    Filled *const slabs = &state->layer_slabs[problem->plan->layer];
    S2_TRY(s2_follow_take(&state->follow, problem, &layer, why));
    S2_TRY(take_bits(device, state, why));
    S2_TRY(take_slabs(device, &state->follow.lists.plan, layer, piece_of(problem), slabs, why));
    state->params.slabs = (const s2::DecodeSlab *)slabs->memory;
    return S2_OK;
}

s2_status build_follow(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    s2_follow *const follow = &state->follow;
    s2_decode_plan *const plan = &follow->lists.plan;
    S2_TRY(s2_follow_open(problem, state->how.n_parts, follow, why));
    S2_TRY(s2_decode_launch_fit(&follow->arena, &state->how, plan));
    state->layer_slabs = (Filled *)s2_calloc((size_t)follow->n_layers, sizeof *state->layer_slabs);
    if (state->layer_slabs == NULL)
        return S2_ENOMEM;
    S2_TRY(fill_bits(device, plan, &state->all_bits, why));
    S2_TRY(upload_plan(device, problem, plan, state, why));
    state->params.bits = (const uint16_t *)state->all_bits.memory;
    state->bits_step = follow->lists.n_steps;
    return take_layer(device, problem, state, why);
}

s2_status build(s2_device *device, const s2_attn_problem *problem, State *state, s2_arena *arena,
                s2_diag *why)
{
    s2_decode_layout layout;
    s2_selection selection = {};
    const bool selects = problem->select_pages > 0;
    state->how =
        s2_decode_launch_of(s2_device_chip(device), problem->plan, problem->head_dim, selects, problem->e4m3);
    if (s2_follow_fits(problem))
        return build_follow(device, problem, state, why);
    S2_TRY(s2_decode_lay_out(arena, problem, state->how.n_parts, &layout, why));
    if (selects)
        S2_TRY(s2_selection_build(arena, problem, state->how.n_parts, &layout, &selection, why));
    S2_TRY(s2_decode_launch_fit(arena, &state->how, &layout.plan));
    if (!layout.all_on)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes all rows of a step, not a selection");
    S2_TRY(upload_slabs(device, &layout.plan, layout.places, piece_of(problem), &state->slabs, why));
    S2_TRY(upload_bits(device, &layout.plan, state, why));
    S2_TRY(upload_plan(device, problem, &layout.plan, state, why));
    if (selects)
        return build_selection(device, problem, &layout.plan, &selection, state, why);
    return S2_OK;
}

s2_status make(s2_device *device, const s2_attn_problem *problem, State *state, s2_diag *why)
{
    s2_arena arena = {};
    state->launch = launch_of(instance_dim(problem), problem->dtype, problem->e4m3);
    const s2_status status = build(device, problem, state, &arena, why);
    s2_arena_release(&arena);
    return status;
}

/* Addresses are the problem's current ones: layers with the same lists and places share one state. */
s2_status run(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    s2::DecodeParams params = state->params;
    state->ran = true;
    state->stream = s2_cuda_stream(device);
    params.k = (const uint8_t *)problem->k.data;
    params.v = (const uint8_t *)problem->v.data;
    params.q = (const uint16_t *)problem->q.data;
    params.o = (uint16_t *)problem->o.data;
    params.lse = problem->lse.data;
    params.sink = problem->sinks ? problem->sink : NULL;
    params.k_scale = problem->k_scale;
    params.v_scale = problem->v_scale;
    params.early = problem->early && !state->selects;
    params.paced = params.early &&
                   s2_decode_launch_leaves_room(s2_device_chip(device), &state->how, state->params.n_parts);
    params.late = state->selects || state->layer_slabs != NULL; /* the previous launch may edit slabs */
    if (state->selects)
        S2_TRY(run_selection(device, problem, state, why));
    return s2_cuda_try(
        state->launch(params, state->how.row_tiles, state->how.n_chunks, s2_cuda_stream(device)), why);
}

} // namespace

/*
 * Edits are queued after the work that still reads the old words, and the next launch waits before it looks
 * at slabs. On another stream nothing would order them, and a graph being captured would repeat them: in
 * these cases the state must be prepared anew. A graph that was captured with nothing to edit may run again
 * after a later step's edits.
 */
s2_status s2_cuda_decode_follow(s2_device *device, const s2_attn_problem *problem, void *raw, s2_diag *why)
{
    State *const state = (State *)raw;
    if (state->layer_slabs == NULL || (state->ran && state->stream != s2_cuda_stream(device)) ||
        (s2_cuda_captures(device) && !s2_follow_knows(&state->follow, problem)))
        return S2_EUNSUPPORTED;
    return take_layer(device, problem, state, why);
}

extern "C" const s2_kernel s2_kernel_decode = {
    &s2_traits_decode,
    "Decode of 1 to 16 query tokens, keys split over the chip; contiguous or from a cache",
    S2_DEVICE_GPU,
    S2_TOL_ROUNDED_P,
    true,
    supports,
    s2_cuda_prepare<State, supports, make, release>,
    run,
    s2_cuda_finish<State, release>,
    S2_TAKES_CAP | S2_TAKES_SINKS | S2_TAKES_E4M3,
    nullptr,
    false,
    false};
