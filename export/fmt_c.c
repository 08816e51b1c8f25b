/*
 * A C header: the distinct block lists of a pattern at one length as constants, the map from (layer, head) to
 * list, and the plan that this repository's kernels would run (export/tiles.h). docs/examples/ has a program
 * that uses both. The lists are read back by scanning the arrays; the plan is checked by that program.
 */
#include "export/layout.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/origin.h"
#include "export/tiles.h"
#include "export/tree.h"
#include "pattern/parse.h"

#define MAGIC       "/* s2 block lists 1 */"
#define COMMENT_END "\n */\n"

/* The lists one after the other: rows of all lists, then entries of all rows. */
static s2_status print_lists(const s2_target *target, const s2_layouts *layouts, s2_buf *buf)
{
    int64_t n_entries = 0, used = 0;
    for (int32_t list = 0; list < layouts->n_lists; list++)
        n_entries += layouts->lists[list].row_begin[layouts->n_blk];
    if (n_entries > 1 << 26)
        return s2_target_refuse(target, "%lld block entries are too many for a header", (long long)n_entries);
    const int64_t n_rows = (int64_t)layouts->n_lists * (layouts->n_blk + 1);
    int64_t *const row_begin = S2_NEW(target->arena, int64_t, n_rows);
    int64_t *const k_blk = S2_NEW(target->arena, int64_t, n_entries + 1);
    int64_t *const full = S2_NEW(target->arena, int64_t, n_entries + 1);
    if (row_begin == NULL || k_blk == NULL || full == NULL)
        return S2_ENOMEM;
    for (int32_t list = 0; list < layouts->n_lists; list++) {
        const s2_blocks *const blocks = &layouts->lists[list];
        for (int32_t row = 0; row <= layouts->n_blk; row++)
            row_begin[(int64_t)list * (layouts->n_blk + 1) + row] = used + blocks->row_begin[row];
        for (int64_t e = 0; e < blocks->row_begin[layouts->n_blk]; e++, used++) {
            k_blk[used] = blocks->k_blk[e];
            full[used] = blocks->full[e];
        }
    }
    s2_buf_puts(buf,
                "/* Entries of row i of list l: [s2_row_begin[l * (S2_N_BLK + 1) + i], the next one). */\n");
    s2_c_array_print(buf, "int32_t", "s2_row_begin", row_begin, n_rows);
    s2_buf_puts(buf, "/* Key blocks, ascending within a row. */\n");
    s2_c_array_print(buf, "int32_t", "s2_k_blk", k_blk, n_entries);
    s2_buf_puts(buf, "/* 1: every pair of the block is read, up to causality; 0: only some are, the kernel "
                     "reads it whole. */\n");
    s2_c_array_print(buf, "uint8_t", "s2_full", full, n_entries);
    return S2_OK;
}

static s2_status print_list_of(const s2_target *target, const s2_layouts *layouts, s2_buf *buf)
{
    const int64_t n = (int64_t)target->pattern->n_layers * target->pattern->n_heads;
    int64_t *const list_of = S2_NEW(target->arena, int64_t, n);
    if (list_of == NULL)
        return S2_ENOMEM;
    for (int64_t at = 0; at < n; at++)
        list_of[at] = layouts->list_of[at];
    s2_c_array_print(buf, "int32_t", "s2_list_of", list_of, n);
    return S2_OK;
}

/* Including a header twice is harmless; a second pattern would silently be the first one again. */
static void print_guard(const char *hash, int64_t n_tok, s2_buf *buf)
{
    s2_buf_printf(buf, "#ifndef S2_PATTERN_%.16s_%lld\n#define S2_PATTERN_%.16s_%lld\n\n", hash,
                  (long long)n_tok, hash, (long long)n_tok);
    s2_buf_puts(buf, "#ifdef S2_EXPORTED_PATTERN_H\n"
                     "#error \"another exported pattern is included: one for each translation unit\"\n"
                     "#endif\n#define S2_EXPORTED_PATTERN_H\n\n#include <stdint.h>\n\nenum {\n");
}

/* The comment that says what the header is, and then the header. */
static s2_status add_sealed(const s2_target *target, s2_buf *header)
{
    s2_buf whole = {.status = header->status};
    s2_buf_puts(&whole, MAGIC "\n/*\n");
    s2_provenance_lines(&whole, target, " * ");
    if (header->status == S2_OK) {
        s2_origin_seal(&whole, " * ", header->data, header->len);
        s2_buf_puts(&whole, &COMMENT_END[1]); /* the line has ended */
        s2_buf_add(&whole, header->data, header->len);
    }
    s2_buf_release(header);
    return s2_fileset_add_buf(target->files, "pattern.h", &whole);
}

static s2_status export(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    s2_layouts layouts;
    s2_buf buf = {0};
    char hash[S2_HASH_HEX];
    S2_TRY(s2_layouts_build(target, 0, &layouts));
    S2_TRY(s2_pattern_hash(pattern, hash));
    print_guard(hash, layouts.n_tok, &buf);
    s2_buf_printf(
        &buf, "    S2_N_LAYERS = %d,\n    S2_N_HEADS = %d,\n    S2_N_KV_HEADS = %d,\n    S2_HEAD_DIM = %d,\n",
        pattern->n_layers, pattern->n_heads, pattern->n_kv_heads, pattern->head_dim);
    s2_buf_printf(&buf,
                  "    S2_BLOCK_TOK = %d,\n    S2_N_BLK = %d, /* of a context of %lld tokens */\n    "
                  "S2_N_LISTS = %d,\n    S2_CAUSAL = %d\n};\n\n",
                  layouts.block_tok, layouts.n_blk, (long long)layouts.n_tok, layouts.n_lists,
                  pattern->causal);
    s2_buf_puts(&buf, "/* The list of head h of layer l: s2_list_of[l * S2_N_HEADS + h]. */\n");
    s2_status status = print_list_of(target, &layouts, &buf);
    if (status == S2_OK)
        status = print_lists(target, &layouts, &buf);
    if (status == S2_OK)
        status = s2_tiles_print(target, layouts.n_tok, &buf);
    s2_buf_puts(&buf, "\n#endif\n");
    if (status != S2_OK) {
        s2_buf_release(&buf);
        return status;
    }
    if (layouts.has_partial)
        s2_note(target->notes, "the block lists read a block whole where the pattern reads it in part; the "
                               "plan in the same header is exact");
    return add_sealed(target, &buf);
}

/* ---- in --------------------------------------------------------------------------------------------- */

static int recognises(const s2_source *source)
{
    return source->n_bytes > strlen(MAGIC) && memcmp(source->bytes, MAGIC, strlen(MAGIC)) == 0 ? 100 : 0;
}

static s2_status refuse(const s2_source *source, const char *place, const char *msg)
{
    int32_t line, col;
    s2_text_position(source->bytes, source->n_bytes, place != NULL ? (size_t)(place - source->bytes) : 0,
                     &line, &col);
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, line, col, "%s", msg);
}

/* A source has no terminator, so nothing is read at `end` or beyond. */
static bool take_number(const char **rest, const char *end, int64_t high, int64_t *out)
{
    const char *const begin = *rest;
    *out = 0;
    while (*rest < end && isdigit((unsigned char)**rest) && *out <= high)
        *out = *out * 10 + (*(*rest)++ - '0');
    return *rest > begin;
}

static s2_status read_constant(const s2_source *source, const char *name, int64_t low, int64_t high,
                               int32_t *out)
{
    char wanted[48];
    int64_t value;
    snprintf(wanted, sizeof wanted, "%s = ", name);
    const char *const begin = memmem(source->bytes, source->n_bytes, wanted, strlen(wanted));
    if (begin == NULL)
        return refuse(source, NULL, "a constant of the header is missing");
    const char *rest = begin + strlen(wanted);
    if (!take_number(&rest, source->bytes + source->n_bytes, high, &value) || value < low || value > high)
        return refuse(source, begin, "the constant is out of range");
    *out = (int32_t)value;
    return S2_OK;
}

/* The n numbers of an array, each in [low, high]. */
static s2_status read_numbers(const s2_source *source, const char *name, int64_t n, int64_t low, int64_t high,
                              int32_t **out)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s[", name);
    const char *const end = source->bytes + source->n_bytes;
    const char *rest = memmem(source->bytes, source->n_bytes, wanted, strlen(wanted));
    rest = rest != NULL ? memchr(rest, '{', (size_t)(end - rest)) : NULL;
    if (rest == NULL)
        return refuse(source, NULL, "an array of the header is missing");
    if (n > end - rest)
        return refuse(source, rest, "the array is shorter than the constants say");
    int32_t *const values = S2_NEW(source->arena, int32_t, n + 1);
    if (values == NULL)
        return S2_ENOMEM;
    rest++;
    for (int64_t v = 0; v < n; v++) {
        int64_t value;
        while (rest < end && (isspace((unsigned char)*rest) || *rest == ','))
            rest++;
        if (!take_number(&rest, end, high, &value) || value < low || value > high)
            return refuse(source, rest < end ? rest : end - 1, "expected a number in range");
        values[v] = (int32_t)value;
    }
    *out = values;
    return S2_OK;
}

static s2_status read_shape(const s2_source *source, s2_grid *grid, int32_t *n_lists)
{
    int32_t causal;
    S2_TRY(read_constant(source, "S2_N_LAYERS", 1, S2_LIMIT_LAYERS, &grid->n_layers));
    S2_TRY(read_constant(source, "S2_N_HEADS", 1, S2_LIMIT_HEADS, &grid->n_heads));
    S2_TRY(read_constant(source, "S2_N_KV_HEADS", 1, grid->n_heads, &grid->n_kv_heads));
    S2_TRY(read_constant(source, "S2_HEAD_DIM", 1, S2_LIMIT_HEAD_DIM, &grid->head_dim));
    S2_TRY(read_constant(source, "S2_BLOCK_TOK", 1, S2_LIMIT_BLOCK_TOK, &grid->block_tok));
    S2_TRY(read_constant(source, "S2_N_BLK", 1, 1 << 14, &grid->n_blk));
    S2_TRY(read_constant(source, "S2_N_LISTS", 1, INT32_MAX, n_lists));
    S2_TRY(read_constant(source, "S2_CAUSAL", 0, 1, &causal));
    grid->causal = causal != 0;
    if (*n_lists > grid->n_layers * grid->n_heads || grid->n_heads % grid->n_kv_heads != 0)
        return refuse(source, source->bytes, "the constants do not fit each other");
    return S2_OK;
}

static s2_status fill_heads(const s2_source *source, s2_grid *grid, const int32_t *list_of,
                            const int32_t *row_begin, int32_t n_rows, const int32_t *k_blk, int32_t layer)
{
    const int64_t n_cells = (int64_t)grid->n_blk * grid->n_blk;
    for (int32_t head = 0; head < grid->n_heads; head++) {
        const int64_t base = (int64_t)list_of[layer * grid->n_heads + head] * (grid->n_blk + 1);
        for (int32_t row = 0; row < grid->n_blk; row++) {
            if (base + row + 1 >= n_rows || row_begin[base + row] > row_begin[base + row + 1] ||
                row_begin[base + row + 1] - row_begin[base + row] > grid->n_blk)
                return refuse(source, source->bytes, "s2_row_begin falls, or a row has too many blocks");
            for (int32_t e = row_begin[base + row]; e < row_begin[base + row + 1]; e++)
                grid->allowed[grid->class_of[layer]][head * n_cells + (int64_t)row * grid->n_blk + k_blk[e]] =
                    1;
        }
    }
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_grid grid = {0};
    int32_t n_lists, *list_of, *row_begin, *k_blk;
    if (!recognises(source))
        return refuse(source, source->bytes, "expected a header written by s2 export --to c");
    s2_origin_check_seal(source, COMMENT_END);
    S2_TRY(read_shape(source, &grid, &n_lists));
    const int64_t n_rows = (int64_t)n_lists * (grid.n_blk + 1);
    S2_TRY(
        read_numbers(source, "s2_list_of", (int64_t)grid.n_layers * grid.n_heads, 0, n_lists - 1, &list_of));
    S2_TRY(read_numbers(source, "s2_row_begin", n_rows, 0, 1 << 26, &row_begin));
    S2_TRY(read_numbers(source, "s2_k_blk", row_begin[n_rows - 1], 0, grid.n_blk - 1, &k_blk));
    for (int64_t row = 0; row < n_rows; row++)
        if (row_begin[row] > row_begin[n_rows - 1])
            return refuse(source, source->bytes, "s2_row_begin exceeds its last element");
    grid.class_of = S2_NEW(source->arena, int32_t, grid.n_layers);
    grid.allowed = S2_NEW(source->arena, uint8_t *, grid.n_layers);
    if (grid.class_of == NULL || grid.allowed == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < grid.n_layers; layer++) {
        const size_t row = (size_t)grid.n_heads * sizeof *list_of;
        int32_t like = 0;
        while (like < layer &&
               memcmp(list_of + like * grid.n_heads, list_of + layer * grid.n_heads, row) != 0)
            like++;
        grid.class_of[layer] = like < layer ? grid.class_of[like] : grid.n_classes;
        if (like < layer)
            continue;
        if ((int64_t)grid.n_blk * grid.n_blk * grid.n_heads > S2_GRID_CELLS / (grid.n_classes + 1))
            return refuse(source, source->bytes, "the layers have too many blocks");
        grid.allowed[grid.n_classes] =
            S2_NEW(source->arena, uint8_t, (int64_t)grid.n_heads * grid.n_blk * grid.n_blk);
        if (grid.allowed[grid.n_classes++] == NULL)
            return S2_ENOMEM;
        S2_TRY(fill_heads(source, &grid, list_of, row_begin, (int32_t)n_rows, k_blk, layer));
    }
    return s2_grid_pattern(source, &grid, out);
}

const s2_format s2_format_c = {
    .name = "c",
    .summary = "C header: block lists and this library's plan as constants",
    .file_name = "pattern.h",
    .per_gpu = true,
    .settings = "block, tile (128), key (128), pack (1)",
    .fixed_length = true,
    .lossy = true,
    .reads_bytes = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
