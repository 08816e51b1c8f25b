#include "sim/work.h"

#include "base/arith.h"
#include "plan/plan.h"

s2_tile_shape s2_tile_shape_default(const s2_pattern *pattern)
{
    const s2_plan_options options = s2_plan_options_default();
    int32_t k_tok = pattern->block_tok;
    k_tok = s2_max_i32(k_tok, S2_PLAN_SLAB_TOK);
    k_tok = s2_min_i32(k_tok, options.key_tok);
    return (s2_tile_shape){options.tile_tok, k_tok, options.key_tok};
}

int64_t s2_tile_steps(s2_tile_shape shape, int64_t n_visits)
{
    return s2_ceil_div(n_visits * shape.k_tok, shape.step_tok);
}

int64_t s2_dense_pairs(bool causal, int64_t first_tok, int64_t n_tok)
{
    return causal ? n_tok * (n_tok + 1) / 2 - first_tok * (first_tok + 1) / 2 : (n_tok - first_tok) * n_tok;
}

/* Key tiles that queries [.., q_end) can see. */
static int64_t visible_tiles(bool causal, int64_t q_end, int64_t n_tok, int64_t k_tile)
{
    return s2_ceil_div(causal ? q_end : n_tok, k_tile);
}

static int64_t count_dense(bool causal, int64_t first_tok, int64_t n_tok, int64_t q_tile, int64_t k_tile,
                           int32_t *visits)
{
    int64_t total = 0;
    for (int64_t q_tok = first_tok / q_tile * q_tile; q_tok < n_tok; q_tok += q_tile) {
        const int64_t n = visible_tiles(causal, s2_min_i64(q_tok + q_tile, n_tok), n_tok, k_tile);
        if (visits != NULL)
            visits[q_tok / q_tile - first_tok / q_tile] = (int32_t)n;
        total += n;
    }
    return total;
}

static int64_t count_steps(s2_tile_shape shape, const s2_head_work *work)
{
    int64_t total = 0;
    for (int32_t tile = 0; tile < work->n_q_tiles; tile++)
        total += s2_tile_steps(shape, work->visits[tile]);
    return total;
}

/* Tiles of queries [first_tok, n_tok). */
static int32_t tiles_between(int64_t first_tok, int64_t n_tok, int64_t q_tile)
{
    return (int32_t)(s2_ceil_div(n_tok, q_tile) - first_tok / q_tile);
}

s2_status s2_dense_work(s2_arena *arena, bool causal, int32_t block_tok, int64_t first_tok, int64_t n_tok,
                        s2_tile_shape shape, s2_head_work *out)
{
    s2_head_work work = {.pairs = s2_dense_pairs(causal, first_tok, n_tok),
                         .blk_pairs = count_dense(causal, first_tok, n_tok, block_tok, block_tok, NULL),
                         .n_q_tiles = tiles_between(first_tok, n_tok, shape.q_tok)};
    int32_t *const visits = S2_NEW(arena, int32_t, work.n_q_tiles);
    if (visits == NULL)
        return S2_ENOMEM;
    work.tiles = count_dense(causal, first_tok, n_tok, shape.q_tok, shape.k_tok, visits);
    work.visits = visits;
    work.steps = count_steps(shape, &work);
    *out = work;
    return S2_OK;
}

/* Static tiles of one query tile plus the budget, at most those that are visible. */
static s2_status row_tiles(const s2_reads *reads, s2_combset *set, int64_t q_begin, int64_t q_end,
                           int64_t n_tok, int64_t k_tile, int64_t *out)
{
    s2_combset_clear(set);
    S2_TRY(s2_reads_add_rows(reads, q_begin, q_end, n_tok, k_tile, set));
    const int64_t n = s2_combset_count(set, 0, s2_ceil_div(n_tok, k_tile));
    if (n < 0)
        return s2_combset_failure(set);
    const int64_t most = visible_tiles(reads->view.pattern->causal, q_end, n_tok, k_tile);
    *out = s2_min_i64(n + s2_ceil_div(reads->budget_tok, k_tile), most);
    return S2_OK;
}

static s2_status count_tiles(const s2_reads *reads, s2_combset *set, int64_t first_tok, int64_t n_tok,
                             s2_tile_shape shape, int32_t *visits, int64_t *out)
{
    int64_t total = 0;
    const int64_t first_tile = first_tok / shape.q_tok;
    for (int64_t tile = first_tile; tile * shape.q_tok < n_tok; tile++) {
        const int64_t begin = tile * shape.q_tok, end = s2_min_i64(begin + shape.q_tok, n_tok);
        int64_t n = 0;
        S2_TRY(row_tiles(reads, set, s2_max_i64(begin, first_tok), end, n_tok, shape.k_tok, &n));
        if (visits != NULL)
            visits[tile - first_tile] = (int32_t)n;
        total += n;
    }
    *out = total;
    return S2_OK;
}

/* A budget is per query, so its pairs are counted query by query. */
static s2_status count_budget_pairs(const s2_reads *reads, s2_combset *set, int64_t first_tok, int64_t n_tok,
                                    int64_t *out)
{
    int64_t total = 0;
    for (int64_t q_tok = first_tok; q_tok < n_tok; q_tok++) {
        int64_t n = 0;
        S2_TRY(row_tiles(reads, set, q_tok, q_tok + 1, n_tok, 1, &n));
        total += n;
    }
    *out = total;
    return S2_OK;
}

/*
 * Lists of whole blocks: the queries of a block read the same keys before it and, in their own block, the
 * keys up to themselves or none. One row per block is enough.
 */
static s2_status count_block_pairs(const s2_reads *reads, s2_combset *set, int64_t first_tok, int64_t n_tok,
                                   int64_t *out)
{
    const int64_t block = reads->view.pattern->block_tok;
    int64_t total = 0;
    for (int64_t q_tok = first_tok / block * block; q_tok < n_tok; q_tok += block) {
        const int64_t end = s2_min_i64(q_tok + block, n_tok), rows = end - q_tok;
        const int64_t skipped = q_tok < first_tok ? first_tok - q_tok : 0;
        s2_combset_clear(set);
        S2_TRY(s2_reads_add_rows(reads, end - 1, end, n_tok, 1, set));
        const int64_t all = s2_combset_count(set, 0, end), before = s2_combset_count(set, 0, q_tok);
        if (all < 0 || before < 0)
            return s2_combset_failure(set);
        total += (rows - skipped) * before + (all > before ? s2_dense_pairs(true, skipped, rows) : 0);
    }
    *out = total;
    return S2_OK;
}

static s2_status count_pairs(const s2_reads *reads, s2_combset *set, int64_t first_tok, int64_t n_tok,
                             int64_t *out)
{
    const s2_view *const view = &reads->view;
    if (reads->budget_tok > 0)
        return count_budget_pairs(reads, set, first_tok, n_tok, out);
    if (view->has_explicit && reads->block_aligned && view->pattern->causal)
        return count_block_pairs(reads, set, first_tok, n_tok, out);
    int64_t before = 0;
    S2_TRY(s2_view_count_pairs(view, n_tok, set->work_left, out));
    if (first_tok > 0)
        S2_TRY(s2_view_count_pairs(view, first_tok, set->work_left, &before));
    *out -= before;
    return S2_OK;
}

static s2_status count_head(const s2_reads *reads, s2_combset *set, int64_t first_tok, int64_t n_tok,
                            s2_tile_shape shape, int32_t *visits, s2_head_work *work)
{
    const int32_t block = reads->view.pattern->block_tok;
    S2_TRY(count_pairs(reads, set, first_tok, n_tok, &work->pairs));
    S2_TRY(count_tiles(reads, set, first_tok, n_tok, shape, visits, &work->tiles));
    work->steps = count_steps(shape, work);
    if (block == 1 || (shape.q_tok == block && shape.k_tok == block)) {
        work->blk_pairs = block == 1 ? work->pairs : work->tiles;
        return S2_OK;
    }
    return count_tiles(reads, set, first_tok, n_tok, (s2_tile_shape){block, block, block}, NULL,
                       &work->blk_pairs);
}

s2_status s2_head_work_count(s2_arena *arena, const s2_reads *reads, int64_t first_tok, int64_t n_tok,
                             s2_tile_shape shape, int64_t *work_left, s2_head_work *out)
{
    s2_head_work work = {.n_q_tiles = tiles_between(first_tok, n_tok, shape.q_tok)};
    int32_t *const visits = S2_NEW(arena, int32_t, work.n_q_tiles);
    if (visits == NULL)
        return S2_ENOMEM;
    work.visits = visits;
    s2_combset set = {.work_left = work_left};
    const s2_status status = count_head(reads, &set, first_tok, n_tok, shape, visits, &work);
    s2_combset_release(&set);
    if (status == S2_OK)
        *out = work;
    return status;
}

/* Pairs and blocks of each row, head by head. */
static s2_status count_step_heads(const s2_classes *classes, const int32_t *head_class, int32_t n_group,
                                  int64_t first_tok, int64_t n_tok, s2_combset *set, s2_step_work *work)
{
    const int64_t n_rows = n_tok - first_tok;
    for (int64_t nth = 0; nth < n_group * n_rows; nth++) {
        const int64_t h = nth / n_rows, q_tok = first_tok + nth % n_rows;
        const s2_reads *const reads = &classes->reads[head_class[h]];
        int64_t pairs = 0, blocks = 0;
        S2_TRY(row_tiles(reads, set, q_tok, q_tok + 1, n_tok, 1, &pairs));
        S2_TRY(row_tiles(reads, set, q_tok, q_tok + 1, n_tok, classes->pattern->block_tok, &blocks));
        work->pairs += pairs;
        work->blk_pairs += blocks;
    }
    return S2_OK;
}

/* Distinct tiles of the group: the static union, plus one shared choice of the largest budget per row. */
static s2_status count_step_union(const s2_classes *classes, const int32_t *head_class, int32_t n_group,
                                  int64_t first_tok, int64_t n_tok, int64_t tile_tok, s2_combset *set,
                                  int64_t *out)
{
    int64_t budget_tok = 0;
    s2_combset_clear(set);
    for (int32_t h = 0; h < n_group; h++) {
        const s2_reads *const reads = &classes->reads[head_class[h]];
        S2_TRY(s2_reads_add_rows(reads, first_tok, n_tok, n_tok, tile_tok, set));
        budget_tok = s2_max_i64(reads->budget_tok, budget_tok);
    }
    const int64_t most = s2_ceil_div(n_tok, tile_tok), n = s2_combset_count(set, 0, most);
    if (n < 0)
        return s2_combset_failure(set);
    *out = s2_min_i64(n + s2_ceil_div(budget_tok, tile_tok) * (n_tok - first_tok), most);
    return S2_OK;
}

s2_status s2_step_work_count(const s2_classes *classes, const int32_t *head_class, int32_t n_group,
                             int64_t first_tok, int64_t n_tok, int32_t tile_k_tok, s2_step_work *out)
{
    s2_step_work work = {0};
    s2_combset set = {.work_left = classes->work_left};
    s2_status status = count_step_heads(classes, head_class, n_group, first_tok, n_tok, &set, &work);
    if (status == S2_OK)
        status = count_step_union(classes, head_class, n_group, first_tok, n_tok, 1, &set, &work.keys);
    if (status == S2_OK)
        status =
            count_step_union(classes, head_class, n_group, first_tok, n_tok, tile_k_tok, &set, &work.tiles);
    s2_combset_release(&set);
    if (status == S2_OK)
        *out = work;
    return status;
}
