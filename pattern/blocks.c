#include "pattern/blocks.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "base/work.h"

typedef struct s2_block_builder {
    const s2_view *view;
    int64_t n_tok;
    int64_t block_tok;
    int64_t n_blk;
    int64_t *pairs;    /* pairs read per key block of the current row */
    uint64_t *touched; /* a bit for each key block that the row reads */
    s2_run *runs;
    int64_t cap;
    int32_t *k_blk;
    uint8_t *full;
    int64_t n_entries;
    int64_t cap_k_blk, cap_full;
    int64_t *work_left;
    s2_status status; /* the first failure */
} s2_block_builder;

static bool failed(s2_block_builder *builder, s2_status status)
{
    if (builder->status == S2_OK)
        builder->status = status;
    return false;
}

/* Fill builder->runs with the row of one query. */
static bool row_runs(s2_block_builder *builder, int64_t q_tok, int64_t *n_runs)
{
    const s2_status status = s2_view_row_whole(builder->view, q_tok, builder->n_tok, builder->work_left,
                                               &builder->runs, &builder->cap, n_runs);
    return status == S2_OK || failed(builder, status);
}

static void add_pairs(s2_block_builder *builder, int64_t k_blk, int64_t n)
{
    builder->pairs[k_blk] += n;
    builder->touched[k_blk / 64] |= UINT64_C(1) << (k_blk % 64);
}

/* Keys of the run, each read by n_rows queries. */
static void add_run(s2_block_builder *builder, s2_run run, int64_t n_rows)
{
    for (int64_t blk = run.begin / builder->block_tok; blk * builder->block_tok < run.end; blk++) {
        const int64_t begin = blk * builder->block_tok, end = begin + builder->block_tok;
        const int64_t from = s2_max_i64(run.begin, begin), to = s2_min_i64(run.end, end);
        add_pairs(builder, blk, (to - from) * n_rows);
    }
}

/* Pairs of a block that a dense head would read. */
static int64_t possible_pairs(const s2_block_builder *builder, int64_t q_blk, int64_t k_blk)
{
    const int64_t size = builder->block_tok;
    const int64_t n_rows = (q_blk + 1) * size < builder->n_tok ? size : builder->n_tok - q_blk * size;
    const int64_t n_cols = (k_blk + 1) * size < builder->n_tok ? size : builder->n_tok - k_blk * size;
    if (!builder->view->pattern->causal || k_blk < q_blk)
        return n_rows * n_cols;
    return n_rows * (n_rows + 1) / 2;
}

static bool push_entry(s2_block_builder *builder, int64_t k_blk, bool full)
{
    if (S2_RESERVE(builder->k_blk, builder->cap_k_blk, builder->n_entries + 1) != S2_OK ||
        S2_RESERVE(builder->full, builder->cap_full, builder->n_entries + 1) != S2_OK)
        return failed(builder, S2_ENOMEM);
    builder->k_blk[builder->n_entries] = (int32_t)k_blk;
    builder->full[builder->n_entries++] = full;
    return s2_work_spend(builder->work_left, S2_BLOCK_WORK) || failed(builder, S2_ELIMIT);
}

/* All queries of the row read the same whole blocks, so its last query stands for all. */
static bool build_uniform_row(s2_block_builder *builder, int64_t q_blk)
{
    const int64_t size = builder->block_tok, q_begin = q_blk * size;
    const int64_t q_end = s2_min_i64(q_begin + size, builder->n_tok);
    int64_t n_runs;
    if (!row_runs(builder, q_end - 1, &n_runs))
        return false;
    for (int64_t r = 0; r < n_runs; r++) {
        const s2_run run = builder->runs[r];
        for (int64_t k_blk = run.begin / size; k_blk * size < run.end; k_blk++) {
            const int64_t end = s2_min_i64((k_blk + 1) * size, run.end);
            const int64_t pairs = (end - k_blk * size) * (q_end - q_begin);
            if (!push_entry(builder, k_blk, pairs >= possible_pairs(builder, q_blk, k_blk)))
                return false;
        }
    }
    return true;
}

/*
 * Add queries [q_begin, q_end) that read the same keys up to causality: the last one stands for all. With
 * causality, key q_begin + d is read only from query q_begin + d on, which makes a triangle.
 */
static bool add_alike(s2_block_builder *builder, int64_t q_begin, int64_t q_end)
{
    const int64_t n_rows = q_end - q_begin;
    const bool causal = builder->view->pattern->causal;
    int64_t n_runs;
    if (!row_runs(builder, q_end - 1, &n_runs))
        return false;
    for (int64_t r = 0; r < n_runs; r++) {
        s2_run run = builder->runs[r];
        if (causal && run.end > q_begin) {
            add_pairs(builder, q_begin / builder->block_tok, n_rows * (n_rows + 1) / 2);
            run.end = q_begin;
        }
        if (run.begin < run.end)
            add_run(builder, run, n_rows);
    }
    return true;
}

/* Push the blocks of the current row and clear only these, since rows may be sparse and many. */
static bool push_touched(s2_block_builder *builder, int64_t q_blk)
{
    for (int64_t word = 0; word * 64 < builder->n_blk; word++) {
        for (uint64_t bits = builder->touched[word]; bits != 0; bits &= bits - 1) {
            const int64_t k_blk = word * 64 + __builtin_ctzll(bits);
            if (!push_entry(builder, k_blk, builder->pairs[k_blk] >= possible_pairs(builder, q_blk, k_blk)))
                return false;
            builder->pairs[k_blk] = 0;
        }
        builder->touched[word] = 0;
    }
    return true;
}

/* One row of blocks, in stretches of `alike` queries that read alike; 1: query by query. */
static bool build_row(s2_block_builder *builder, int64_t q_blk, int64_t alike)
{
    const int64_t q_begin = q_blk * builder->block_tok;
    const int64_t q_end = s2_min_i64(q_begin + builder->block_tok, builder->n_tok);
    for (int64_t q_tok = q_begin; q_tok < q_end; q_tok += alike)
        if (!add_alike(builder, q_tok, s2_min_i64(q_tok + alike, q_end)))
            return false;
    return push_touched(builder, q_blk);
}

static s2_status finish(s2_arena *arena, const s2_block_builder *builder, const int64_t *row_begin,
                        s2_blocks *out)
{
    int32_t *const k_blk = S2_NEW(arena, int32_t, builder->n_entries);
    uint8_t *const full = S2_NEW(arena, uint8_t, builder->n_entries);
    if (k_blk == NULL || full == NULL)
        return S2_ENOMEM;
    if (builder->n_entries > 0) {
        memcpy(k_blk, builder->k_blk, (size_t)builder->n_entries * sizeof *k_blk);
        memcpy(full, builder->full, (size_t)builder->n_entries);
    }
    *out = (s2_blocks){.n_q_blk = (int32_t)builder->n_blk,
                       .n_k_blk = (int32_t)builder->n_blk,
                       .block_tok = (int32_t)builder->block_tok,
                       .row_begin = row_begin,
                       .k_blk = k_blk,
                       .full = full};
    return S2_OK;
}

s2_status s2_blocks_build(s2_arena *arena, const s2_view *view, int64_t n_tok, int32_t block_tok,
                          int64_t *work_left, s2_blocks *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, view);
    const bool uniform = shape.block_aligned && block_tok <= view->pattern->block_tok;
    const int64_t alike = shape.block_aligned ? view->pattern->block_tok : 1;
    s2_block_builder builder = {.view = view, .n_tok = n_tok, .block_tok = block_tok, .work_left = work_left};
    builder.n_blk = s2_ceil_div(n_tok, block_tok);
    builder.pairs = s2_calloc((size_t)builder.n_blk, sizeof *builder.pairs);
    builder.touched = s2_calloc((size_t)(builder.n_blk / 64 + 1), sizeof *builder.touched);
    int64_t *const row_begin = S2_NEW(arena, int64_t, builder.n_blk + 1);
    bool good = builder.pairs != NULL && builder.touched != NULL && row_begin != NULL;
    for (int64_t q_blk = 0; good && q_blk < builder.n_blk; q_blk++) {
        good = uniform ? build_uniform_row(&builder, q_blk) : build_row(&builder, q_blk, alike);
        row_begin[q_blk + 1] = builder.n_entries;
    }
    s2_status status = builder.status == S2_OK ? S2_ENOMEM : builder.status;
    if (good)
        status = finish(arena, &builder, row_begin, out);
    if (status != S2_OK)
        s2_arena_rewind(arena, mark);
    s2_free(builder.pairs);
    s2_free(builder.touched);
    s2_free(builder.runs);
    s2_free(builder.k_blk);
    s2_free(builder.full);
    return status;
}
