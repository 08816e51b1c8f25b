#include "kernels/cuda/bwd_host.cuh"

#include <cuda_runtime.h>

#include "base/alloc.h"

static int32_t padded_rows(const s2_plan *plan, int32_t seq)
{
    return s2_plan_n_tiles(plan, seq) * plan->options.tile_tok;
}

int64_t s2_bwd_first_row(const s2_attn_problem *problem, int32_t seq, int32_t head)
{
    int64_t rows = (int64_t)padded_rows(problem->plan, seq) * head;
    for (int32_t before = 0; before < seq; before++)
        rows += (int64_t)padded_rows(problem->plan, before) * problem->n_heads;
    return rows;
}

s2_bwd_rows s2_bwd_count_rows(const s2_attn_problem *problem)
{
    s2_bwd_rows rows = {};
    for (int32_t seq = 0; seq < problem->n_seqs; seq++) {
        const int64_t n = (int64_t)padded_rows(problem->plan, seq) * problem->n_heads;
        rows.all += n;
        rows.longest = n > rows.longest ? n : rows.longest;
    }
    return rows;
}

s2_status s2_bwd_upload_seqs(s2_device *device, const s2_attn_problem *problem, void **out, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int32_t *const q = problem->q_begin_tok, *const k = problem->k_begin_tok;
    s2::BwdSeq *const seqs = (s2::BwdSeq *)s2_calloc((size_t)problem->n_seqs, sizeof *seqs);
    if (seqs == NULL)
        return S2_ENOMEM;
    int64_t rows = 0;
    for (int32_t seq = 0; seq < problem->n_seqs; seq++) {
        s2::BwdSeq *const to = &seqs[seq];
        to->rows = rows;
        to->lse = s2_rows_at(&problem->lse, q, seq, 0, 0);
        to->q = s2_tensor_at(&problem->q, q, seq, 0, 0);
        to->k = s2_tensor_at(&problem->k, k, seq, 0, 0);
        to->v = s2_tensor_at(&problem->v, k, seq, 0, 0);
        to->o = s2_tensor_at(&problem->o, q, seq, 0, 0);
        to->d_o = s2_tensor_at(&problem->d_o, q, seq, 0, 0);
        to->d_q = s2_tensor_at(&problem->d_q, q, seq, 0, 0);
        to->d_k = s2_tensor_at(&problem->d_k, k, seq, 0, 0);
        to->d_v = s2_tensor_at(&problem->d_v, k, seq, 0, 0);
        to->n_rows = padded_rows(plan, seq);
        to->pos = (int32_t)s2_plan_tile_begin(plan, seq, 0);
        to->q_off = plan->seqs[seq].k_tok - plan->seqs[seq].q_tok;
        to->k_tok = plan->seqs[seq].k_tok;
        rows += (int64_t)to->n_rows * problem->n_heads;
    }
    const s2_status status = s2_cuda_upload(device, seqs, (size_t)problem->n_seqs * sizeof *seqs, out, why);
    s2_free(seqs);
    return status;
}

s2_status s2_bwd_zeroed(s2_device *device, int64_t n_bytes, void **out, s2_diag *why)
{
    void *memory = NULL;
    const size_t n = n_bytes > 0 ? (size_t)n_bytes : 1;
    S2_TRY(s2_cuda_try(cudaMalloc(&memory, n), why));
    *out = memory;
    return s2_cuda_try(cudaMemsetAsync(memory, 0, n, s2_cuda_stream(device)), why);
}

s2::BwdRowParams s2_bwd_row_params(const s2_attn_problem *problem, const void *seqs, void *lse2, void *delta)
{
    s2::BwdRowParams params = {};
    params.seqs = (const s2::BwdSeq *)seqs;
    params.o = s2_bwd_tensor(&problem->o);
    params.d_o = s2_bwd_tensor(&problem->d_o);
    params.lse = problem->lse.data;
    params.lse_head = problem->lse.head;
    params.lse2 = (float *)lse2;
    params.delta = (float *)delta;
    params.n_heads = problem->n_heads;
    params.head_dim = problem->head_dim;
    return params;
}

s2::BwdSinkParams s2_bwd_sink_params(const s2_attn_problem *problem, const void *seqs, const void *tiles,
                                     const void *lse2, const void *delta)
{
    s2::BwdSinkParams params = {};
    params.seqs = (const s2::BwdSeq *)seqs;
    params.tiles = (const s2::BwdTile *)tiles;
    params.lse2 = (const float *)lse2;
    params.delta = (const float *)delta;
    params.sink = problem->sink;
    params.d_sink = problem->sinks ? problem->d_sink : NULL;
    params.n_tiles = problem->plan->n_items;
    params.tile_rows = problem->plan->options.tile_tok;
    params.n_heads = problem->n_heads;
    return params;
}

s2_status s2_bwd_supports(const s2_attn_problem *problem, s2_diag *why)
{
    const s2_tensor *const tensors[] = {&problem->q,   &problem->k,   &problem->v,   &problem->o,
                                        &problem->d_o, &problem->d_q, &problem->d_k, &problem->d_v};
    if (problem->pass != S2_PASS_BACKWARD)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "computes gradients only");
    for (const s2_tensor *tensor : tensors)
        if (!s2_cuda_strides_fit(tensor))
            return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0,
                               "needs strides that are multiples of 8 elements");
    if (problem->plan != NULL && s2_bwd_count_rows(problem).all > INT32_MAX)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "takes less than 2^31 rows of all heads");
    return S2_OK;
}

/* ------------------------------------------------------------------ lists */

int32_t s2_bwd_log2(int32_t power)
{
    int32_t shift = 0;
    while ((1 << shift) < power)
        shift++;
    return shift;
}

/* n objects made by fill(user, at, &object), on the device. One more is made: n = 0 has an address too. */
template <class Object, class Fill>
static s2_status upload(s2_device *device, int64_t n, Fill fill, void **out, s2_diag *why)
{
    Object *const host = (Object *)s2_calloc((size_t)n + 1, sizeof *host);
    if (host == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < n; at++)
        host[at] = fill(at);
    const s2_status status = s2_cuda_upload(device, host, ((size_t)n + 1) * sizeof *host, out, why);
    s2_free(host);
    return status;
}

static s2_status make_tiles(s2_device *device, const s2_attn_problem *problem, const s2_plan_flat *flat,
                            bool words, s2_bwd_lists *lists, s2_diag *why)
{
    const s2_plan *const plan = problem->plan;
    const int32_t n_subs = plan->options.key_tok / plan->blk_tok, tile_tok = plan->options.tile_tok;
    const auto tile_of = [&](int64_t at) {
        const s2_plan_item *const item = &plan->items[at];
        const s2_plan_span span = flat->span_of[at];
        const int32_t n_steps = (span.n + n_subs - 1) / n_subs, n_pad = n_steps * n_subs - span.n;
        s2::BwdTile tile = {};
        tile.row = item->tile * tile_tok;
        tile.head = item->head;
        tile.n_steps = n_steps;
        tile.n_masked = (n_pad + span.n_partial + n_subs - 1) / n_subs;
        tile.n_entries = span.n;
        tile.list = (int32_t)span.begin;
        tile.seq = item->seq;
        return tile;
    };
    const auto word_of = [&](int64_t at) {
        const s2_plan_entry *const entry = &flat->entries[at];
        return (uint32_t)entry->k_blk << s2::BWD_BLOCK_SHIFT | (entry->edge ? (uint32_t)s2::BWD_EDGE : 0u) |
               (entry->slabs & 0xFFu);
    };
    S2_TRY(upload<s2::BwdTile>(device, plan->n_items, tile_of, &lists->tiles, why));
    const auto mask_of = [&](int64_t at) { return flat->entries[at].mask; };
    if (words)
        S2_TRY(upload<uint32_t>(device, flat->n_entries, word_of, &lists->words, why));
    if (words && flat->n_masks > 0)
        S2_TRY(upload<int32_t>(device, flat->n_entries, mask_of, &lists->word_masks, why));
    if (flat->n_masks == 0)
        return S2_OK;
    const size_t mask_bytes = (size_t)tile_tok * (size_t)plan->mask_words * sizeof *flat->bits;
    return s2_cuda_upload(device, flat->bits, (size_t)flat->n_masks * mask_bytes, &lists->bits, why);
}

static s2_status make_columns(s2_device *device, const s2_plan_columns *columns, s2_bwd_lists *lists,
                              s2_diag *why)
{
    int64_t n_blocks = 0;
    for (int32_t at = 0; at < columns->n_columns; at++)
        if (columns->columns[at].blocks + columns->n_sub > n_blocks)
            n_blocks = columns->columns[at].blocks + columns->n_sub;
    const auto column_of = [&](int64_t at) {
        const s2_plan_column *const from = &columns->columns[at];
        s2::BwdColumn column = {};
        column.blocks = from->blocks;
        column.kv_head = from->kv_head;
        column.n = from->n * from->n_heads;
        column.n_partial = from->n_partial * from->n_heads;
        column.list = (int32_t)from->begin;
        column.chain = from->chain;
        column.parts = from->part | from->n_parts << 16;
        column.seq = from->seq;
        column.n_heads = from->n_heads;
        column.n_upper = from->n_upper;
        column.n_tail = from->n_tail;
        return column;
    };
    const auto step_of = [&](int64_t at) {
        const s2_plan_column_entry *const entry = &columns->entries[at];
        s2::BwdStep step;
        step.where = (uint32_t)entry->step | (uint32_t)entry->head << s2::BWD_HEAD_SHIFT |
                     (entry->edge ? 1u << 31 : 0u);
        step.reads = entry->reads;
        return step;
    };
    S2_TRY(upload<s2::BwdColumn>(device, columns->n_columns, column_of, &lists->columns, why));
    S2_TRY(upload<s2::BwdStep>(device, columns->n_entries, step_of, &lists->steps, why));
    S2_TRY(s2_cuda_upload(device, columns->blocks, (size_t)n_blocks * sizeof *columns->blocks, &lists->blocks,
                          why));
    if (columns->masks != NULL)
        S2_TRY(s2_cuda_upload(device, columns->masks,
                              (size_t)columns->n_entries * (size_t)columns->n_sub * sizeof *columns->masks,
                              &lists->step_masks, why));
    if (columns->turns != NULL)
        S2_TRY(s2_cuda_upload(device, columns->turns, (size_t)columns->n_entries * sizeof *columns->turns,
                              &lists->turns, why));
    lists->n_columns = columns->n_columns;
    lists->n_chains = columns->n_chains;
    return S2_OK;
}

static s2_status make_lists(s2_device *device, const s2_attn_problem *problem,
                            const s2_plan_column_options *cut, bool words, s2_arena *arena,
                            s2_bwd_lists *lists, s2_diag *why)
{
    s2_plan_flat flat;
    s2_plan_columns columns;
    S2_TRY(s2_plan_flatten(arena, problem->plan, &flat));
    S2_TRY(s2_plan_transpose(arena, problem->plan, &flat, cut, &columns));
    if (flat.n_entries >= INT32_MAX || columns.n_entries >= INT32_MAX)
        return s2_diag_set(why, S2_EUNSUPPORTED, 0, 0, 0, "the lists have more than 2^31 entries");
    if (cut->window_edges) /* compared, so no mask is read */
        flat.n_masks = 0;
    S2_TRY(make_tiles(device, problem, &flat, words, lists, why));
    return make_columns(device, &columns, lists, why);
}

s2_status s2_bwd_upload_lists(s2_device *device, const s2_attn_problem *problem,
                              const s2_plan_column_options *cut, bool words, s2_bwd_lists *out, s2_diag *why)
{
    s2_arena arena = {};
    const s2_status status = make_lists(device, problem, cut, words, &arena, out, why);
    s2_arena_release(&arena);
    return status;
}

void s2_bwd_release_lists(s2_bwd_lists *lists)
{
    void *const memory[] = {lists->tiles,  lists->words, lists->word_masks, lists->bits, lists->columns,
                            lists->blocks, lists->steps, lists->step_masks, lists->turns};
    for (void *piece : memory)
        (void)cudaFree(piece);
}
