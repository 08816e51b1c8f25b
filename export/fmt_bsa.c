/*
 * Block-Sparse-Attention: head_mask_type int32 [H] (0 dense, -1 streaming, 1 sparse), streaming_info int32
 * [2H] in blocks (read; a streaming head is written as a block mask), base_blockmask bool [1, masks, n, n],
 * blocks of 128. The kernel's wrapper numbers the heads of type 1 itself and gives the n-th of them the n-th
 * mask, so there are as many masks as sparse heads, equal ones too.
 */
#include "export/layout.h"

#include <stdio.h>
#include <string.h>

#define FORMAT_WORD "block-sparse-attention"
enum { BLOCK_TOK = 128 };

static bool list_is_dense(const s2_layouts *layouts, int32_t list, bool causal)
{
    const int64_t n = layouts->n_blk;
    return layouts->lists[list].row_begin[n] == (causal ? n * (n + 1) / 2 : n * n);
}

/* Type of each head of a class, and the lists of its sparse heads; returns the number of lists. */
static int32_t type_heads(const s2_layouts *layouts, const int32_t *list_of, int32_t n_heads, bool causal,
                          int32_t *type, int32_t *mask_list)
{
    int32_t n_masks = 0;
    for (int32_t head = 0; head < n_heads; head++) {
        type[head] = list_is_dense(layouts, list_of[head], causal) ? 0 : 1;
        if (type[head] == 1)
            mask_list[n_masks++] = list_of[head];
    }
    return n_masks;
}

static s2_status add_layout(const s2_target *target, const s2_layouts *layouts, int32_t c, const void *user,
                            s2_buf *manifest)
{
    (void)user;
    const int32_t n_heads = target->pattern->n_heads, n_blk = layouts->n_blk;
    const int64_t n_cells = (int64_t)n_blk * n_blk;
    int32_t *const type = S2_NEW(target->arena, int32_t, n_heads), *const mask_list = S2_NEW(
                                                                       target->arena, int32_t, n_heads);
    int32_t *const streaming = S2_NEW(target->arena, int32_t, 2 * n_heads);
    if (type == NULL || mask_list == NULL || streaming == NULL)
        return S2_ENOMEM;
    const int32_t n_masks = type_heads(layouts, layouts->list_of + (int64_t)layouts->first_layer[c] * n_heads,
                                       n_heads, target->pattern->causal, type, mask_list);
    uint8_t *const masks = S2_NEW(target->arena, uint8_t, n_masks * n_cells + 1);
    if (masks == NULL)
        return S2_ENOMEM;
    for (int32_t m = 0; m < n_masks; m++)
        s2_layouts_fill_cells(layouts, mask_list[m], masks + m * n_cells);
    char name[3][48];
    snprintf(name[0], sizeof name[0], "layout%d_head_mask_type.npy", c);
    snprintf(name[1], sizeof name[1], "layout%d_streaming_info.npy", c);
    snprintf(name[2], sizeof name[2], "layout%d_base_blockmask.npy", c);
    s2_buf_printf(manifest,
                  ", \"head_mask_type\": \"%s\", \"streaming_info\": \"%s\", \"base_blockmask\": \"%s\"",
                  name[0], name[1], name[2]);
    S2_TRY(s2_fileset_add_i32(target->files, name[0], (const int64_t[]){n_heads}, 1, type));
    S2_TRY(s2_fileset_add_i32(target->files, name[1], (const int64_t[]){2 * n_heads}, 1, streaming));
    return s2_fileset_add_bool(target->files, name[2], (const int64_t[]){1, n_masks, n_blk, n_blk}, 4, masks);
}

static s2_status export(const s2_target *target)
{
    s2_layouts layouts;
    S2_TRY(s2_layouts_build(target, BLOCK_TOK, &layouts));
    if (layouts.block_tok != BLOCK_TOK)
        return s2_target_refuse(target, "this kernel has blocks of %d tokens only", BLOCK_TOK);
    S2_TRY(s2_layouts_write(target, &layouts, FORMAT_WORD, "block-sparse-attention.json", add_layout, NULL,
                            NULL));
    s2_note(target->notes, "a 128 x 128 block is read whole when any of its pairs is wanted");
    return S2_OK;
}

static int recognises(const s2_source *source)
{
    return source->doc != NULL && s2_doc_has(source->doc, "/layouts/0/head_mask_type") ? 90 : 0;
}

/* A byte of an .npy, or a number of a list in the file itself. */
static bool mask_cell(const s2_array *masks, int64_t cell)
{
    return masks->dtype == 'b' ? masks->data[cell] != 0 : s2_array_i32(masks, cell) != 0;
}

/* A streaming head: (sink, local) in blocks, the diagonal block counted in local. */
static s2_status fill_streaming(const s2_source *source, const char *path, const s2_array *info, int32_t head,
                                const s2_grid *grid, uint8_t *allowed)
{
    const int32_t sink = s2_array_i32(info, 2 * (int64_t)head),
                  local = s2_array_i32(info, 2 * (int64_t)head + 1);
    if (sink < 0 || local < 1)
        return s2_doc_refuse(source->doc, path, source->diag, "head %d: a sink of %d and %d local blocks",
                             head, sink, local);
    for (int64_t row = 0; row < grid->n_blk; row++)
        for (int64_t col = 0; col <= row; col++)
            allowed[row * grid->n_blk + col] = col < sink || row - col < local;
    return S2_OK;
}

/* An int32 array of n elements, a member of layout c. */
static s2_status read_vector(const s2_source *source, int32_t c, const char *name, int64_t n, char path[64],
                             s2_array *out)
{
    snprintf(path, 64, "/layouts/%d/%s", c, name);
    S2_TRY(s2_array_of_doc(source, path, 1, out));
    if (out->dtype != 'i' || out->n != n)
        return s2_doc_refuse(source->doc, path, source->diag, "%s must be int32 [%lld]", name, (long long)n);
    return S2_OK;
}

static s2_status fill(const s2_source *source, int32_t c, s2_grid *grid)
{
    char path[64];
    s2_array type, masks, info = {0};
    const int64_t n_cells = (int64_t)grid->n_blk * grid->n_blk;
    snprintf(path, sizeof path, "/layouts/%d/base_blockmask", c);
    S2_TRY(s2_array_of_doc(source, path, 4, &masks));
    if (masks.shape[0] != 1 || masks.shape[1] > grid->n_heads || masks.shape[2] != grid->n_blk ||
        masks.shape[3] != grid->n_blk)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "base_blockmask must be bool [1, masks, %d, %d], a mask or fewer for each head",
                             grid->n_blk, grid->n_blk);
    S2_TRY(read_vector(source, c, "head_mask_type", grid->n_heads, path, &type));
    int64_t mask = 0;
    for (int32_t head = 0; head < grid->n_heads; head++) {
        const int32_t kind = s2_array_i32(&type, head);
        uint8_t *const allowed = grid->allowed[c] + head * n_cells;
        if (kind < -1 || kind > 1)
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "head %d has type %d: 0 is dense, -1 streaming, 1 sparse (the n-th sparse "
                                 "head has the n-th mask)",
                                 head, kind);
        if (kind == 1 && mask == masks.shape[1])
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "head %d is sparse head %lld, and base_blockmask has %lld masks", head,
                                 (long long)mask, (long long)masks.shape[1]);
        if (kind == -1 && info.data == NULL)
            S2_TRY(read_vector(source, c, "streaming_info", 2 * (int64_t)grid->n_heads, path, &info));
        if (kind == -1)
            S2_TRY(fill_streaming(source, path, &info, head, grid, allowed));
        for (int64_t cell = 0; kind >= 0 && cell < n_cells; cell++)
            allowed[cell] = kind == 0 ? !grid->causal || cell % grid->n_blk <= cell / grid->n_blk
                                      : mask_cell(&masks, mask * n_cells + cell);
        mask += kind == 1;
    }
    if (mask == masks.shape[1])
        return S2_OK;
    snprintf(path, sizeof path, "/layouts/%d/base_blockmask", c);
    return s2_doc_refuse(source->doc, path, source->diag, "%lld masks for %lld heads of type 1",
                         (long long)masks.shape[1], (long long)mask);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_grid grid;
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "layouts with head_mask_type and base_blockmask"));
    S2_TRY(s2_grid_read(source, &grid));
    for (int32_t c = 0; c < grid.n_classes; c++) {
        const s2_arena_mark_t mark = s2_arena_mark(source->arena);
        S2_TRY(fill(source, c, &grid));
        s2_arena_rewind(source->arena, mark);
    }
    return s2_grid_pattern(source, &grid, out);
}

const s2_format s2_format_bsa = {
    .name = "bsa",
    .summary = "Block-Sparse-Attention: head_mask_type, streaming_info, base_blockmask at 128",
    .file_name = "block-sparse-attention.json",
    .per_gpu = true,
    .settings = "",
    .fixed_length = true,
    .lossy = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
