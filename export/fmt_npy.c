/*
 * A bool array [heads, n, n] or [n, n] of blocks (.npy), as DKernel's SparseAttention takes it. The array
 * does not say its block, its KV heads or its layers.
 */
#include "export/layout.h"

#include <string.h>

static int recognises(const s2_source *source)
{
    s2_array array;
    if (!s2_array_is_npy(source->bytes, source->n_bytes))
        return 0;
    return s2_array_read(source->bytes, source->n_bytes, &array, NULL) == S2_OK && array.dtype == 'b' ? 90
                                                                                                      : 20;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_array array;
    int64_t block_tok, n_heads, n_kv, n_layers, causal;
    S2_TRY(s2_array_read(source->bytes, source->n_bytes, &array, source->diag));
    const int64_t n_blk = array.n_dims >= 2 ? array.shape[array.n_dims - 1] : 0;
    if (array.dtype != 'b' || array.n_dims < 2 || array.n_dims > 3 || n_blk < 1 ||
        array.shape[array.n_dims - 2] != n_blk)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "expected a bool array [heads, n, n] or [n, n]");
    S2_TRY(s2_setting_block(&source->settings, 64, &block_tok, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "heads", 1, S2_LIMIT_HEADS,
                          array.n_dims == 3 ? array.shape[0] : 1, &n_heads, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, n_heads, n_heads, &n_kv, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "layers", 1, S2_LIMIT_LAYERS, 1, &n_layers, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "causal", 0, 1, 1, &causal, source->diag));
    if (array.n_dims == 3 && (n_heads != array.shape[0] || n_heads < 1))
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "the array has %lld heads",
                           (long long)array.shape[0]);
    if (n_heads > S2_GRID_CELLS / (n_blk * n_blk))
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "%lld heads of this array are too many blocks", (long long)n_heads);
    int32_t *const class_of = S2_NEW(source->arena, int32_t, n_layers);
    uint8_t *allowed = S2_NEW(source->arena, uint8_t, n_heads * n_blk * n_blk);
    if (class_of == NULL || allowed == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < n_heads * n_blk * n_blk; at++)
        allowed[at] = array.data[array.n_dims == 3 ? at : at % (n_blk * n_blk)] != 0;
    const s2_grid grid = {
        (int32_t)n_layers, (int32_t)n_heads, (int32_t)n_kv, 128, (int32_t)block_tok, (int32_t)n_blk, 1,
        causal != 0,       class_of,         &allowed};
    s2_note(source->notes,
            "the array does not say its block (%lld tokens assumed), KV heads, layers or causality (--set "
            "block=, "
            "kv-heads=, layers=, causal=0|1)",
            (long long)block_tok);
    return s2_grid_pattern(source, &grid, out);
}

static s2_status export(const s2_target *target)
{
    s2_layouts layouts;
    S2_TRY(s2_layouts_build(target, target->pattern->block_tok, &layouts));
    if (layouts.n_classes > 1)
        return s2_target_refuse(target,
                                "layers differ: one array holds one layer (s2 mask --layer L --format npy)");
    if (target->pattern->n_layers > 1 || target->pattern->n_kv_heads != target->pattern->n_heads ||
        layouts.block_tok != 64)
        return s2_target_refuse(
            target, "the array cannot say layers, KV heads or the block: use csr or s2 mask --format npy");
    const int64_t n_blk = layouts.n_blk, shape[3] = {target->pattern->n_heads, n_blk, n_blk};
    uint8_t *const allowed = S2_NEW(target->arena, uint8_t, shape[0] * n_blk * n_blk);
    if (allowed == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < target->pattern->n_heads; head++)
        s2_layouts_fill_cells(&layouts, layouts.list_of[head], allowed + head * n_blk * n_blk);
    return s2_fileset_add_bool(target->files, "mask.npy", shape, 3, allowed);
}

const s2_format s2_format_npy = {
    .name = "npy",
    .summary = "bool array [heads, n, n] or [n, n] of blocks",
    .file_name = "mask.npy",
    .settings = "block (64), heads, kv-heads, layers (1), causal 0|1 (1)",
    .fixed_length = true,
    .lossy = true,
    .reads_bytes = true,
    .recognises = recognises,
    .import = import,
    .export = export,
};
