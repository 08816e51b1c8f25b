/*
 * An array [heads, n, n] or [n, n] of 0 and 1 (.npy) of any numeric type, as DKernel's SparseAttention takes
 * it in bool, or the bits of one, as np.packbits(mask, axis=-1) writes them. The array does not say its block,
 * its KV heads, its layers or whether it is causal.
 */
#include "export/layout.h"

#include <string.h>

static int recognises(const s2_source *source)
{
    return s2_array_is_npy(source->bytes, source->n_bytes) ? 90 : 0;
}

/* Is element n, a little-endian number of any kind, 0, 1 (written to *cell), or neither? */
static bool read_cell(const s2_array *array, int64_t n, uint8_t *cell)
{
    static const uint16_t half = 0x3c00;
    static const float single = 1;
    static const double twofold = 1;
    const char *const item = array->data + n * array->item_bytes;
    static const uint64_t zero, whole = 1;
    const void *one = &whole;
    if (array->dtype == 'f')
        one = array->item_bytes == 2   ? (const void *)&half
              : array->item_bytes == 4 ? (const void *)&single
                                       : (const void *)&twofold;
    *cell = memcmp(item, one, (size_t)array->item_bytes) == 0;
    return *cell != 0 || memcmp(item, &zero, (size_t)array->item_bytes) == 0;
}

/* Eight columns a byte, the first in the highest bit; an array of one column is taken for numbers. */
static bool is_packed(const s2_array *array)
{
    const int64_t *const extent = array->shape + array->n_dims - 2;
    return array->dtype == 'u' && array->item_bytes == 1 && array->n_dims >= 2 && array->n_dims <= 3 &&
           extent[0] > 1 && extent[1] == (extent[0] + 7) / 8;
}

static void unpack_cells(const s2_array *array, int64_t n_blk, int64_t n_cells, uint8_t *cells)
{
    const int64_t row_bytes = (n_blk + 7) / 8, n_rows = array->n / row_bytes;
    for (int64_t n = 0; n < n_cells; n++) {
        const int64_t row = n / n_blk % n_rows, col = n % n_blk;
        cells[n] = (uint8_t)array->data[row * row_bytes + col / 8] >> (7 - col % 8) & 1;
    }
}

static s2_status read_cells(const s2_source *source, const s2_array *array, int64_t n_blk, int64_t n_cells,
                            uint8_t **out)
{
    uint8_t *const cells = S2_NEW(source->arena, uint8_t, n_cells);
    if (cells == NULL)
        return S2_ENOMEM;
    *out = cells;
    if (is_packed(array)) {
        unpack_cells(array, n_blk, n_cells, cells);
        return S2_OK;
    }
    for (int64_t n = 0; n < n_cells; n++) /* a mask without heads: every head reads the one plane */
        if (!read_cell(array, n % array->n, &cells[n]))
            return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                               "a mask holds 0 and 1 alone, and element %lld of this array is neither: save "
                               "mask != 0, of added biases mask == 0",
                               (long long)(n % array->n));
    return S2_OK;
}

static s2_status check_shape(const s2_source *source, const s2_array *array)
{
    const int64_t *const extent = array->shape + array->n_dims - 2;
    if (array->n_dims >= 2 && array->n_dims <= 3 && extent[0] >= 1 && extent[0] == extent[1])
        return S2_OK;
    if (is_packed(array))
        return S2_OK;
    if (array->n_dims == 4)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "four dimensions: save one sequence alone, mask[0], as [heads, n, n]");
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                       "expected an array [heads, n, n] or [n, n] of 0 and 1, rows being queries");
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_array array;
    int64_t block_tok, n_heads, n_kv, n_layers;
    S2_TRY(s2_array_read_any(source->bytes, source->n_bytes, &array, source->diag));
    S2_TRY(check_shape(source, &array));
    S2_TRY(s2_grid_ask_block(source, &block_tok));
    const int64_t n_blk = array.shape[array.n_dims - 2], own = array.n_dims == 3 ? array.shape[0] : 1;
    S2_TRY(s2_setting_int(&source->settings, "heads", 1, S2_LIMIT_HEADS, own, &n_heads, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, n_heads, n_heads, &n_kv, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "layers", 1, S2_LIMIT_LAYERS, 1, &n_layers, source->diag));
    if (array.n_dims == 3 && (n_heads != own || n_heads < 1))
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "the array has %lld heads",
                           (long long)own);
    if (n_heads > S2_GRID_CELLS / (n_blk * n_blk))
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1,
                           "%lld heads of this array are too many blocks", (long long)n_heads);
    int32_t *const class_of = S2_NEW(source->arena, int32_t, n_layers);
    if (class_of == NULL)
        return S2_ENOMEM;
    uint8_t *allowed;
    S2_TRY(read_cells(source, &array, n_blk, n_heads * n_blk * n_blk, &allowed));
    s2_grid grid = {.n_layers = (int32_t)n_layers,
                    .n_heads = (int32_t)n_heads,
                    .n_kv_heads = (int32_t)n_kv,
                    .head_dim = 128,
                    .block_tok = (int32_t)block_tok,
                    .n_blk = (int32_t)n_blk,
                    .n_classes = 1,
                    .class_of = class_of,
                    .allowed = &allowed};
    S2_TRY(s2_grid_ask_causal(source, &grid));
    s2_note(
        source->notes,
        "the array does not say its KV heads, layers or causality (--set kv-heads=, layers=, causal=0|1)");
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
        (layouts.block_tok != S2_ARRAY_BLOCK_TOK && s2_setting_text(&target->settings, "block") == NULL))
        return s2_target_refuse(target, "the array cannot say layers, KV heads or the block (--set block=N "
                                        "promises one): use csr or s2 mask --format npy");
    if (!target->pattern->causal && s2_setting_text(&target->settings, "causal") == NULL)
        return s2_target_refuse(
            target, "the array cannot say that keys after the query are read (--set causal=0 promises it)");
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
    .summary = "array [heads, n, n] or [n, n] of 0 and 1",
    .file_name = "mask.npy",
    .per_gpu = true,
    .settings = "block, heads, kv-heads, layers (1), causal 0|1 (1)",
    .fixed_length = true,
    .lossy = true,
    .reads_bytes = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
