/*
 * DKernel's layout: per head crow int32 [H, n + 1] and col int32 [H, most entries], padded on the right with
 * -1. vLLM's and ONNX Runtime's sparse attention take the same arrays. Written as .npy files next to a
 * layout.json; `s2 mask --format csr` output (two arrays in one file) is read too.
 */
#include "export/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

#define FORMAT_WORD "dkernel-layout"

static s2_status add_layout(const s2_target *target, const s2_layouts *layouts, int32_t c, const void *user,
                            s2_buf *manifest)
{
    (void)user;
    const int32_t n_heads = target->pattern->n_heads, n_blk = layouts->n_blk;
    const int32_t *const list_of = layouts->list_of + (int64_t)layouts->first_layer[c] * n_heads;
    int64_t most = 1;
    for (int32_t head = 0; head < n_heads; head++) {
        const int64_t n = layouts->lists[list_of[head]].row_begin[n_blk];
        most = s2_max_i64(n, most);
    }
    int32_t *const crow = S2_NEW(target->arena, int32_t, (int64_t)n_heads * (n_blk + 1));
    int32_t *const col = S2_NEW(target->arena, int32_t, n_heads * most);
    if (crow == NULL || col == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        const s2_blocks *const list = &layouts->lists[list_of[head]];
        for (int32_t row = 0; row <= n_blk; row++)
            crow[(int64_t)head * (n_blk + 1) + row] = (int32_t)list->row_begin[row];
        for (int64_t e = 0; e < most; e++)
            col[head * most + e] = e < list->row_begin[n_blk] ? list->k_blk[e] : -1;
    }
    char name[2][48];
    snprintf(name[0], sizeof name[0], "layout%d_crow.npy", c);
    snprintf(name[1], sizeof name[1], "layout%d_col.npy", c);
    s2_buf_printf(manifest, ", \"crow\": \"%s\", \"col\": \"%s\"", name[0], name[1]);
    S2_TRY(s2_fileset_add_i32(target->files, name[0], (const int64_t[]){n_heads, n_blk + 1}, 2, crow));
    return s2_fileset_add_i32(target->files, name[1], (const int64_t[]){n_heads, most}, 2, col);
}

static s2_status export(const s2_target *target)
{
    s2_layouts layouts;
    S2_TRY(s2_layouts_build(target, 0, &layouts));
    S2_TRY(s2_layouts_write(target, &layouts, FORMAT_WORD, "layout.json", add_layout, NULL, NULL));
    if (layouts.has_partial)
        s2_note(target->notes, "a block of which only some pairs are wanted is listed whole: the arrays have "
                               "no finer mask than causality inside the diagonal block");
    s2_note(target->notes, "for contexts of up to %lld tokens (--len N), in blocks of %d (--set block=N)",
            (long long)layouts.n_tok, layouts.block_tok);
    return S2_OK;
}

/* ---- in ------------------------------------------------------------------------------------------- */

static bool is_pair_file(const s2_source *source)
{
    s2_array first, second;
    if (!s2_array_is_npy(source->bytes, source->n_bytes) ||
        s2_array_read(source->bytes, source->n_bytes, &first, NULL) != S2_OK || first.dtype != 'i' ||
        first.n_dims > 2)
        return false;
    return s2_array_read(source->bytes + first.end, source->n_bytes - first.end, &second, NULL) == S2_OK &&
           second.dtype == 'i';
}

static int recognises(const s2_source *source)
{
    if (source->doc == NULL)
        return is_pair_file(source) ? 95 : 0; /* the `npy` format takes any array */
    if (s2_doc_has(source->doc, "/block_row_indices") && s2_doc_has(source->doc, "/block_col_indices"))
        return 90;
    const char *const word = s2_doc_text(source->doc, "/format");
    return (word != NULL && strcmp(word, FORMAT_WORD) == 0) || s2_doc_has(source->doc, "/layouts/0/crow") ? 90
                                                                                                          : 0;
}

/* Switch on the blocks of one class, every index checked. */
static s2_status fill(const s2_source *source, const s2_array *crow, const s2_array *col, int32_t n_heads,
                      int32_t n_blk, uint8_t *allowed)
{
    if (crow->dtype != 'i' || col->dtype != 'i' || crow->shape[0] != n_heads || crow->shape[1] != n_blk + 1 ||
        col->shape[0] != n_heads || col->shape[1] > (int64_t)n_blk * n_blk + 1)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "crow must be int32 [%d, %d] and col int32 [%d, ...]", n_heads, n_blk + 1,
                           n_heads);
    for (int32_t head = 0; head < n_heads; head++)
        for (int32_t row = 0; row < n_blk; row++) {
            const int64_t crow_begin = (int64_t)head * (n_blk + 1) + row;
            const int32_t begin = s2_array_i32(crow, crow_begin), end = s2_array_i32(crow, crow_begin + 1);
            if (begin < 0 || begin > end || end > col->shape[1])
                return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                                   "crow of head %d falls or exceeds col at row %d", head, row);
            for (int32_t e = begin; e < end; e++) {
                const int32_t k_blk = s2_array_i32(col, head * col->shape[1] + e);
                if (k_blk < 0 || k_blk >= n_blk)
                    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                                       "col of head %d row %d names block %d of %d", head, row, k_blk, n_blk);
                allowed[((int64_t)head * n_blk + row) * n_blk + k_blk] = 1;
            }
        }
    return S2_OK;
}

/* An array of one head may leave the dimension of heads out. */
static void add_heads(s2_array *array)
{
    if (array->n_dims != 1)
        return;
    array->shape[1] = array->shape[0];
    array->shape[0] = 1;
    array->n_dims = 2;
}

static s2_status import_pair(const s2_source *source, s2_pattern *out)
{
    s2_array crow, col;
    int64_t block_tok, n_kv;
    S2_TRY(s2_array_read(source->bytes, source->n_bytes, &crow, source->diag));
    S2_TRY(s2_array_read(source->bytes + crow.end, source->n_bytes - crow.end, &col, source->diag));
    add_heads(&crow);
    add_heads(&col);
    if (crow.n_dims != 2 || col.n_dims != 2 || crow.shape[0] < 1 || crow.shape[0] > S2_LIMIT_HEADS ||
        crow.shape[1] < 2 || crow.shape[1] > 1 << 15 ||
        crow.shape[0] * crow.shape[1] * crow.shape[1] > S2_GRID_CELLS)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "expected crow [heads, rows + 1], then col, of a sane size");
    S2_TRY(s2_grid_ask_block(source, &block_tok));
    S2_TRY(
        s2_setting_int(&source->settings, "kv-heads", 1, crow.shape[0], crow.shape[0], &n_kv, source->diag));
    const int32_t n_heads = (int32_t)crow.shape[0], n_blk = (int32_t)crow.shape[1] - 1;
    int32_t class_of = 0;
    uint8_t *allowed = S2_NEW(source->arena, uint8_t, (int64_t)n_heads * n_blk * n_blk);
    if (allowed == NULL)
        return S2_ENOMEM;
    S2_TRY(fill(source, &crow, &col, n_heads, n_blk, allowed));
    s2_grid grid = {.n_layers = 1,
                    .n_heads = n_heads,
                    .n_kv_heads = (int32_t)n_kv,
                    .head_dim = 128,
                    .block_tok = (int32_t)block_tok,
                    .n_blk = n_blk,
                    .n_classes = 1,
                    .class_of = &class_of,
                    .allowed = &allowed};
    S2_TRY(s2_grid_ask_causal(source, &grid));
    s2_note(source->notes,
            "the arrays do not say their KV heads, layers or causality: one layer, %s (--set kv-heads=, "
            "causal=0|1)",
            grid.causal ? "causal" : "not causal");
    return s2_grid_pattern(source, &grid, out);
}

/* Head h of ONNX Runtime's SparseAttention has layout h mod the number of layouts. */
static s2_status import_onnx(const s2_source *source, s2_pattern *out)
{
    s2_array crow, col;
    int64_t n_heads, n_kv, block_tok;
    const s2_doc *const doc = source->doc;
    S2_TRY(s2_array_of_doc(source, "/block_row_indices", 2, &crow));
    S2_TRY(s2_array_of_doc(source, "/block_col_indices", 2, &col));
    S2_TRY(s2_doc_int(doc, "/num_heads", 1, S2_LIMIT_HEADS, &n_heads, source->diag));
    S2_TRY(s2_doc_int_or(doc, "/kv_num_heads", 1, n_heads, n_heads, &n_kv, source->diag));
    S2_TRY(s2_doc_int(doc, "/sparse_block_size", 16, 128, &block_tok, source->diag));
    const int64_t n_layouts = crow.shape[0], n_blk = crow.shape[1] - 1;
    if (n_layouts < 1 || n_heads % n_layouts != 0 || n_heads % n_kv != 0 || !s2_is_power_of_two(block_tok))
        return s2_doc_refuse(doc, "/num_heads", source->diag,
                             "layouts and KV heads must divide the heads, the block be a power of two");
    if (n_blk < 1 || n_blk > 1 << 15 || n_heads * n_blk * n_blk > S2_GRID_CELLS)
        return s2_doc_refuse(doc, "/block_row_indices", source->diag, "the mask has no blocks, or too many");
    int32_t class_of = 0;
    const int64_t n_cells = n_blk * n_blk;
    uint8_t *allowed = S2_NEW(source->arena, uint8_t, n_heads * n_cells);
    if (allowed == NULL)
        return S2_ENOMEM;
    S2_TRY(fill(source, &crow, &col, (int32_t)n_layouts, (int32_t)n_blk, allowed));
    for (int64_t head = n_layouts; head < n_heads; head++)
        memcpy(allowed + head * n_cells, allowed + head % n_layouts * n_cells, (size_t)n_cells);
    const s2_grid grid = {1,    (int32_t)n_heads, (int32_t)n_kv, 128, (int32_t)block_tok, (int32_t)n_blk, 1,
                          true, &class_of,        &allowed};
    s2_note(source->notes,
            "ONNX Runtime: layout of head h is h mod %lld, so removing heads shifts the others; one layer; "
            "nothing is freed",
            (long long)n_layouts);
    return s2_grid_pattern(source, &grid, out);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_grid grid;
    if (source->doc == NULL)
        return import_pair(source, out);
    if (s2_doc_has(source->doc, "/block_row_indices"))
        return import_onnx(source, out);
    S2_TRY(s2_grid_read(source, &grid));
    for (int32_t c = 0; c < grid.n_classes; c++) {
        char path[64];
        s2_array crow, col;
        const s2_arena_mark_t mark = s2_arena_mark(source->arena);
        snprintf(path, sizeof path, "/layouts/%d/crow", c);
        S2_TRY(s2_array_of_doc(source, path, 2, &crow));
        snprintf(path, sizeof path, "/layouts/%d/col", c);
        S2_TRY(s2_array_of_doc(source, path, 2, &col));
        S2_TRY(fill(source, &crow, &col, grid.n_heads, grid.n_blk, grid.allowed[c]));
        s2_arena_rewind(source->arena, mark);
    }
    s2_note(source->notes,
            "explicit blocks: the pattern holds for contexts of up to %lld tokens; causality inside the "
            "diagonal block is the kernel's",
            (long long)grid.n_blk * grid.block_tok);
    return s2_grid_pattern(source, &grid, out);
}

const s2_format s2_format_csr = {
    .name = "csr",
    .summary = "DKernel layout: crow and col int32 per head, -1 padded (also vLLM; ONNX Runtime's names)",
    .file_name = "layout.json",
    .per_gpu = true,
    .settings = "block, kv-heads, causal 0|1 (1)",
    .fixed_length = true,
    .lossy = true,
    .reads_bytes = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
