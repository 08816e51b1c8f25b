/*
 * FlashInfer's BlockSparseAttentionWrapper: one BSR pattern per plan() for all its heads, so heads that share
 * a list are one entry: indptr, indices, M, N, R, C, causal. Indices are checked to be below N / C, which
 * FlashInfer's own guard does not do.
 *
 * Its causal mask counts keys among the listed blocks of a row and aligns the last of them with the queries:
 * it cuts the last listed block along its diagonal, whichever block that is. Only rows whose last block is
 * their own diagonal one come out right, so others are neither written nor read as causal.
 */
#include "export/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

#define FORMAT_WORD "flashinfer-bsr"

/* A row whose last block is not its diagonal one: a causal mask would cut the wrong block; -1: none. */
static int32_t row_without_diagonal(const s2_blocks *blocks, int32_t n_blk)
{
    for (int32_t row = 0; row < n_blk; row++) {
        const int64_t end = blocks->row_begin[row + 1];
        if (end > blocks->row_begin[row] && blocks->k_blk[end - 1] != row)
            return row;
    }
    return -1;
}

static s2_status add_list(const s2_target *target, const s2_layouts *layouts, int32_t list, s2_buf *manifest)
{
    const s2_blocks *const blocks = &layouts->lists[list];
    const int64_t n = blocks->row_begin[layouts->n_blk];
    int32_t *const indptr = S2_NEW(target->arena, int32_t, layouts->n_blk + 1);
    char name[2][48];
    if (indptr == NULL)
        return S2_ENOMEM;
    for (int32_t row = 0; row <= layouts->n_blk; row++)
        indptr[row] = (int32_t)blocks->row_begin[row];
    snprintf(name[0], sizeof name[0], "plan%d_indptr.npy", list);
    snprintf(name[1], sizeof name[1], "plan%d_indices.npy", list);
    s2_buf_printf(manifest, "%s{\"indptr\": \"%s\", \"indices\": \"%s\", \"heads\": [",
                  list != 0 ? ",\n    " : "\n    ", name[0], name[1]);
    const char *comma = "";
    for (int32_t c = 0; c < layouts->n_classes; c++)
        for (int32_t head = 0; head < target->pattern->n_heads; head++)
            if (layouts->list_of[(int64_t)layouts->first_layer[c] * target->pattern->n_heads + head] ==
                list) {
                s2_buf_printf(manifest, "%s[%d, %d]", comma, c, head);
                comma = ", ";
            }
    s2_buf_puts(manifest, "]}");
    S2_TRY(s2_fileset_add_i32(target->files, name[0], (const int64_t[]){layouts->n_blk + 1}, 1, indptr));
    return s2_fileset_add_i32(target->files, name[1], (const int64_t[]){n}, 1, blocks->k_blk);
}

static s2_status add_plans(const s2_target *target, const s2_layouts *layouts, int32_t c, const void *user,
                           s2_buf *manifest)
{
    (void)c;
    (void)user;
    s2_buf_printf(manifest, "  \"M\": %lld, \"N\": %lld, \"R\": %d, \"C\": %d,\n  \"plans\": [",
                  (long long)layouts->n_tok, (long long)layouts->n_tok, layouts->block_tok,
                  layouts->block_tok);
    for (int32_t list = 0; list < layouts->n_lists; list++)
        S2_TRY(add_list(target, layouts, list, manifest));
    s2_buf_puts(manifest, "\n  ],\n");
    return S2_OK;
}

static s2_status export(const s2_target *target)
{
    s2_layouts layouts;
    S2_TRY(s2_layouts_build(target, 0, &layouts));
    for (int32_t list = 0; list < layouts.n_lists && target->pattern->causal && layouts.block_tok > 1;
         list++) {
        const int32_t row = row_without_diagonal(&layouts.lists[list], layouts.n_blk);
        if (row >= 0)
            return s2_target_refuse(
                target,
                "FlashInfer cuts the last block of a row along its diagonal, and row %d of blocks does not "
                "end with its own; `local 1` in every head gives each its own",
                row);
    }
    S2_TRY(s2_layouts_write(target, &layouts, FORMAT_WORD, "flashinfer.json", NULL, add_plans, NULL));
    s2_note(target->notes,
            "%d plans: FlashInfer takes one pattern for all heads of a plan; \"heads\" lists [layer class, "
            "head] of each",
            layouts.n_lists);
    if (layouts.has_partial)
        s2_note(target->notes, "a block of which only some pairs are wanted is listed whole; pass an element "
                               "mask to plan() to be exact");
    return S2_OK;
}

/* ---- in ------------------------------------------------------------------------------------------- */

static int recognises(const s2_source *source)
{
    if (source->doc == NULL)
        return 0;
    return s2_doc_has(source->doc, "/plans/0/indptr") ||
                   (s2_doc_has(source->doc, "/indptr") && s2_doc_has(source->doc, "/indices"))
               ? 90
               : 0;
}

static s2_status check_plan(const s2_source *source, const char *path, const s2_array *indptr,
                            const s2_array *indices, int32_t n_blk)
{
    if (indptr->dtype != 'i' || indices->dtype != 'i' || indptr->n != n_blk + 1 ||
        indices->n > (int64_t)n_blk * n_blk)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "indptr must have %d int32 entries, and indices at most %lld", n_blk + 1,
                             (long long)n_blk * n_blk);
    for (int32_t row = 0; row < n_blk; row++)
        if (s2_array_i32(indptr, row) < 0 || s2_array_i32(indptr, row) > s2_array_i32(indptr, row + 1) ||
            s2_array_i32(indptr, row + 1) > indices->n)
            return s2_doc_refuse(source->doc, path, source->diag, "indptr falls or exceeds indices at row %d",
                                 row);
    for (int64_t e = 0; e < indices->n; e++)
        if (s2_array_i32(indices, e) < 0 || s2_array_i32(indices, e) >= n_blk)
            return s2_doc_refuse(source->doc, path, source->diag, "index %lld names block %d of %d",
                                 (long long)e, s2_array_i32(indices, e), n_blk);
    return S2_OK;
}

/* See the top of this file. */
static s2_status check_diagonals(const s2_source *source, const char *path, const s2_array *indptr,
                                 const s2_array *indices, const s2_grid *grid)
{
    for (int32_t row = 0; row < grid->n_blk && grid->causal && grid->block_tok > 1; row++) {
        const int32_t end = s2_array_i32(indptr, row + 1);
        if (end > s2_array_i32(indptr, row) && s2_array_i32(indices, end - 1) != row)
            return s2_doc_refuse(
                source->doc, path, source->diag,
                "the causal mask cuts the last listed block of a row: row %d must end with block %d", row,
                row);
    }
    return S2_OK;
}

static void fill_head(const s2_array *indptr, const s2_array *indices, int32_t n_blk, uint8_t *allowed)
{
    for (int32_t row = 0; row < n_blk; row++)
        for (int32_t e = s2_array_i32(indptr, row); e < s2_array_i32(indptr, row + 1); e++)
            allowed[(int64_t)row * n_blk + s2_array_i32(indices, e)] = 1;
}

static s2_status serve(const s2_source *source, const char *plan, const s2_array *indptr,
                       const s2_array *indices, int64_t c, int64_t head, bool *served, s2_grid *grid)
{
    const int64_t n_cells = (int64_t)grid->n_blk * grid->n_blk;
    if (served[c * grid->n_heads + head])
        return s2_doc_refuse(source->doc, plan, source->diag, "head %lld of layout %lld has two plans",
                             (long long)head, (long long)c);
    served[c * grid->n_heads + head] = true;
    fill_head(indptr, indices, grid->n_blk, grid->allowed[c] + head * n_cells);
    return S2_OK;
}

/*
 * The heads that a plan serves, as [layer class, head]; all of the first class when the plan does not say.
 * Every plan serves a head and no head has two plans, so the grid bounds what plans name.
 */
static s2_status fill_plan(const s2_source *source, const char *plan, bool *served, s2_grid *grid)
{
    char path[96];
    s2_array indptr, indices;
    snprintf(path, sizeof path, "%s/indptr", plan);
    S2_TRY(s2_array_of_doc(source, path, 1, &indptr));
    snprintf(path, sizeof path, "%s/indices", plan);
    S2_TRY(s2_array_of_doc(source, path, 1, &indices));
    S2_TRY(check_plan(source, plan, &indptr, &indices, grid->n_blk));
    S2_TRY(check_diagonals(source, plan, &indptr, &indices, grid));
    snprintf(path, sizeof path, "%s/heads", plan);
    const int64_t n = s2_doc_len(source->doc, path);
    if (n == 0)
        return s2_doc_refuse(source->doc, path, source->diag, "no head uses this plan");
    for (int32_t head = 0; n < 0 && head < grid->n_heads; head++)
        S2_TRY(serve(source, plan, &indptr, &indices, 0, head, served, grid));
    for (int64_t entry = 0; entry < n; entry++) {
        int64_t c, head;
        snprintf(path, sizeof path, "%s/heads/%lld/0", plan, (long long)entry);
        S2_TRY(s2_doc_int(source->doc, path, 0, grid->n_classes - 1, &c, source->diag));
        snprintf(path, sizeof path, "%s/heads/%lld/1", plan, (long long)entry);
        S2_TRY(s2_doc_int(source->doc, path, 0, grid->n_heads - 1, &head, source->diag));
        S2_TRY(serve(source, path, &indptr, &indices, c, head, served, grid));
    }
    return S2_OK;
}

static s2_status fill_plans(const s2_source *source, s2_grid *grid)
{
    const int64_t n_plans = s2_doc_len(source->doc, "/plans");
    bool *const served = S2_NEW(source->arena, bool, (int64_t)grid->n_classes * grid->n_heads);
    if (served == NULL)
        return S2_ENOMEM;
    if (!s2_doc_has(source->doc, "/plans"))
        return fill_plan(source, "", served, grid);
    for (int64_t plan = 0; plan < n_plans; plan++) {
        char path[48];
        const s2_arena_mark_t mark = s2_arena_mark(source->arena);
        snprintf(path, sizeof path, "/plans/%lld", (long long)plan);
        S2_TRY(fill_plan(source, path, served, grid));
        s2_arena_rewind(source->arena, mark);
    }
    return S2_OK;
}

/* One plan alone: M, N, R, C and the arrays. */
static s2_status read_bare(const s2_source *source, s2_grid *grid)
{
    int64_t m, n, r, c, n_heads, n_kv;
    S2_TRY(s2_doc_int(source->doc, "/M", 1, S2_LIMIT_CONTEXT_TOK, &m, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/N", 1, S2_LIMIT_CONTEXT_TOK, &n, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/R", 1, S2_LIMIT_BLOCK_TOK, &r, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/C", 1, S2_LIMIT_CONTEXT_TOK, &c, source->diag));
    if (n != m || c != r)
        return s2_doc_refuse(source->doc, n != m ? "/N" : "/C", source->diag,
                             n != m ? "N must be M: a pattern has as many keys as queries"
                                    : "C must be R: a pattern's blocks are square");
    S2_TRY(s2_doc_int_or(source->doc, "/num_qo_heads", 1, S2_LIMIT_HEADS, 1, &n_heads, source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/num_kv_heads", 1, n_heads, n_heads, &n_kv, source->diag));
    if (!s2_doc_has(source->doc, "/num_qo_heads"))
        s2_note(source->notes, "num_qo_heads is not stated; it is taken as 1");
    if (!s2_is_power_of_two(r) || m % r != 0 || n_heads % n_kv != 0 ||
        m / r * (m / r) * n_heads > S2_GRID_CELLS)
        return s2_doc_refuse(source->doc, "/R", source->diag,
                             "R must be a power of two that divides M, and the mask of a sane size");
    *grid = (s2_grid){1,
                      (int32_t)n_heads,
                      (int32_t)n_kv,
                      128,
                      (int32_t)r,
                      (int32_t)(m / r),
                      1,
                      false,
                      S2_NEW(source->arena, int32_t, 1),
                      S2_NEW(source->arena, uint8_t *, 1)};
    if (grid->class_of == NULL || grid->allowed == NULL)
        return S2_ENOMEM;
    grid->allowed[0] = S2_NEW(source->arena, uint8_t, n_heads * grid->n_blk * grid->n_blk);
    if (grid->allowed[0] == NULL)
        return S2_ENOMEM;
    return s2_doc_bool_or(source->doc, "/causal", false, &grid->causal, source->diag);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_grid grid;
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "plans with indptr and indices"));
    if (s2_doc_has(source->doc, "/plans")) {
        S2_TRY(s2_grid_read(source, &grid));
    } else {
        S2_TRY(read_bare(source, &grid));
    }
    S2_TRY(fill_plans(source, &grid));
    return s2_grid_pattern(source, &grid, out);
}

const s2_format s2_format_flashinfer = {
    .name = "flashinfer",
    .summary = "FlashInfer BSR: one plan (indptr, indices) per distinct head pattern",
    .file_name = "flashinfer.json",
    .per_gpu = true,
    .settings = "block",
    .fixed_length = true,
    .lossy = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
