#include "export/blockmask.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "export/predicate.h"
#include "pattern/parse.h"

enum { BLOCK_TOK = 128 };

typedef struct block_arrays {
    int32_t *count[2]; /* [head][row]; 0 partial, 1 full */
    int32_t *index[2]; /* [head][row][n_blk] */
} block_arrays;

/* Full means no predicate at all to these kernels, so a causal diagonal block is partial. */
static bool skips_predicate(const s2_blocks *list, int64_t entry, int32_t row, bool causal)
{
    return list->full[entry] && !(causal && list->k_blk[entry] == row && list->block_tok > 1);
}

/*
 * The listed blocks of a row, then all others, ascending, as torch's own constructor writes them: the CPU
 * kernel of torch 2.6 reads past the counted ones, and zeros there gave wrong outputs.
 */
static void fill_row(const s2_blocks *list, int32_t row, int which, bool causal, int32_t n_blk,
                     int32_t *index, int32_t *count)
{
    int64_t e = list->row_begin[row];
    int32_t n_rest = 0;
    *count = 0;
    for (int64_t at = e; at < list->row_begin[row + 1]; at++)
        if (skips_predicate(list, at, row, causal) == which)
            index[(*count)++] = list->k_blk[at];
    for (int32_t k_blk = 0; k_blk < n_blk; k_blk++) {
        while (e < list->row_begin[row + 1] && list->k_blk[e] < k_blk)
            e++;
        const bool listed = e < list->row_begin[row + 1] && list->k_blk[e] == k_blk &&
                            skips_predicate(list, e, row, causal) == which;
        if (!listed)
            index[*count + n_rest++] = k_blk;
    }
}

static void fill_head(const s2_blocks *list, int32_t head, int32_t n_blk, bool causal, block_arrays *arrays)
{
    for (int32_t row = 0; row < n_blk; row++)
        for (int which = 0; which < 2; which++) {
            const int64_t list_row = (int64_t)head * n_blk + row;
            fill_row(list, row, which, causal, n_blk, arrays->index[which] + list_row * n_blk,
                     &arrays->count[which][list_row]);
        }
}

static s2_status add_layout(const s2_target *target, const s2_layouts *layouts, int32_t c, const void *user,
                            s2_buf *manifest)
{
    const s2_blockmask_words *const words = user;
    s2_fileset *const files = target->files;
    const int32_t n_heads = target->pattern->n_heads, n_blk = layouts->n_blk;
    const char *const names[2][2] = {{words->partial_count, words->partial_index},
                                     {words->full_count, words->full_index}};
    block_arrays arrays;
    for (int which = 0; which < 2; which++) {
        arrays.count[which] = S2_NEW(target->arena, int32_t, (int64_t)n_heads * n_blk);
        arrays.index[which] = S2_NEW(target->arena, int32_t, (int64_t)n_heads * n_blk * n_blk);
        if (arrays.count[which] == NULL || arrays.index[which] == NULL)
            return S2_ENOMEM;
    }
    for (int32_t head = 0; head < n_heads; head++)
        fill_head(&layouts->lists[layouts->list_of[(int64_t)layouts->first_layer[c] * n_heads + head]], head,
                  n_blk, target->pattern->causal, &arrays);
    for (int which = 0; which < 2; which++) {
        char name[64];
        snprintf(name, sizeof name, "layout%d_%s.npy", c, names[which][0]);
        s2_buf_printf(manifest, ", \"%s\": \"%s\"", names[which][0], name);
        const int64_t shape[] = {1, n_heads, n_blk, n_blk};
        const int32_t skip = words->has_batch ? 0 : 1;
        S2_TRY(s2_fileset_add_i32(files, name, shape + skip, 3 - skip, arrays.count[which]));
        snprintf(name, sizeof name, "layout%d_%s.npy", c, names[which][1]);
        s2_buf_printf(manifest, ", \"%s\": \"%s\"", names[which][1], name);
        S2_TRY(s2_fileset_add_i32(files, name, shape + skip, 4 - skip, arrays.index[which]));
    }
    return S2_OK;
}

static void print_text(const s2_target *target, s2_buf *manifest)
{
    s2_buf text = {0};
    s2_pattern_print(target->pattern, &text);
    s2_buf_puts(manifest, "  \"pattern\":");
    s2_json_str(manifest, s2_part_of(manifest, &text));
    s2_buf_puts(manifest, ",\n");
    s2_buf_release(&text);
}

static s2_status add_module(const s2_target *target, const s2_layouts *layouts,
                            const s2_blockmask_words *words)
{
    s2_buf buf = {0};
    s2_buf_printf(&buf, "\"\"\"%s arrays; the predicate for partial blocks is make_mask_mod(layer).\n\n",
                  words->format);
    s2_provenance_lines(&buf, target, "");
    s2_buf_puts(&buf, "\"\"\"\n\n");
    s2_predicate_print(target, layouts, &buf);
    s2_buf_puts(&buf, words->module_end);
    return s2_fileset_add_buf(target->files, words->module, &buf);
}

static s2_status add_rest(const s2_target *target, const s2_layouts *layouts, int32_t c, const void *user,
                          s2_buf *manifest)
{
    (void)c;
    print_text(target, manifest);
    return add_module(target, layouts, user);
}

s2_status s2_blockmask_export(const s2_target *target, const s2_blockmask_words *words)
{
    s2_layouts layouts;
    S2_TRY(s2_predicate_check(target));
    S2_TRY(s2_layouts_build(target, BLOCK_TOK, &layouts));
    s2_note(target->notes,
            "the arrays are those of %lld tokens (--len); the predicate holds for every length",
            (long long)layouts.n_tok);
    return s2_layouts_write(target, &layouts, words->format, words->manifest, add_layout, add_rest, words);
}

/* Mark what the arrays list for one row: 1 partial, 2 full. */
static s2_status mark_row(const s2_source *source, const char *path, const s2_array *count,
                          const s2_array *index, int64_t list_row, int32_t n_blk, uint8_t mark, uint8_t *row)
{
    const int32_t n = s2_array_i32(count, list_row);
    if (n < 0 || n > n_blk)
        return s2_doc_refuse(source->doc, path, source->diag, "a row counts %d blocks of %d", n, n_blk);
    for (int32_t e = 0; e < n; e++) {
        const int32_t k_blk = s2_array_i32(index, list_row * n_blk + e);
        if (k_blk < 0 || k_blk >= n_blk || row[k_blk] != 0)
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "a row lists block %d, out of range or twice", k_blk);
        row[k_blk] = mark;
    }
    return S2_OK;
}

static s2_status verify_head(const s2_source *source, const char *path, const s2_array arrays[4],
                             const s2_blocks *list, int32_t head, bool causal)
{
    const int32_t n_blk = list->n_q_blk;
    uint8_t *const row = S2_NEW(source->arena, uint8_t, n_blk);
    if (row == NULL)
        return S2_ENOMEM;
    for (int32_t q_blk = 0; q_blk < n_blk; q_blk++) {
        const int64_t list_row = (int64_t)head * n_blk + q_blk;
        memset(row, 0, (size_t)n_blk);
        S2_TRY(mark_row(source, path, &arrays[0], &arrays[1], list_row, n_blk, 1, row));
        S2_TRY(mark_row(source, path, &arrays[2], &arrays[3], list_row, n_blk, 2, row));
        for (int64_t e = list->row_begin[q_blk]; e < list->row_begin[q_blk + 1]; e++) {
            uint8_t *const mark = &row[list->k_blk[e]];
            if (*mark == 0 || (*mark == 2 && !skips_predicate(list, e, q_blk, causal)))
                return s2_doc_refuse(source->doc, path, source->diag, "head %d: block (%d, %d) is %s", head,
                                     q_blk, list->k_blk[e],
                                     *mark == 0 ? "read by the pattern and not listed"
                                                : "listed as full and is not");
            *mark = 0;
        }
        for (int32_t k_blk = 0; k_blk < n_blk; k_blk++)
            if (row[k_blk] == 2)
                return s2_doc_refuse(source->doc, path, source->diag,
                                     "head %d: block (%d, %d) is listed as full and not read", head, q_blk,
                                     k_blk);
    }
    return S2_OK;
}

static s2_status verify_class(const s2_source *source, const s2_blockmask_words *words,
                              const s2_pattern *pattern, int32_t c, int64_t n_tok, int32_t block_tok)
{
    const char *const names[4] = {words->partial_count, words->partial_index, words->full_count,
                                  words->full_index};
    const int64_t n_blk = n_tok / block_tok;
    s2_array arrays[4];
    char path[96];
    int64_t layer;
    for (int a = 0; a < 4; a++) {
        snprintf(path, sizeof path, "/layouts/%d/%s", c, names[a]);
        const int32_t skip = words->has_batch ? 1 : 0;
        S2_TRY(s2_array_of_doc(source, path, skip + (a % 2 == 0 ? 2 : 3), &arrays[a]));
        const int64_t *const shape = arrays[a].shape + skip;
        if (arrays[a].dtype != 'i' || (skip != 0 && arrays[a].shape[0] != 1) ||
            shape[0] != pattern->n_heads || shape[1] != n_blk || (a % 2 == 1 && shape[2] != n_blk))
            return s2_doc_refuse(source->doc, path, source->diag, "%s has the wrong shape or type", names[a]);
    }
    s2_view *const first = S2_NEW(source->arena, s2_view, pattern->n_heads);
    if (first == NULL)
        return S2_ENOMEM;
    const int64_t n_layers =
        (snprintf(path, sizeof path, "/layouts/%d/layers", c), s2_doc_len(source->doc, path));
    for (int64_t n = 0; n < n_layers; n++) {
        snprintf(path, sizeof path, "/layouts/%d/layers/%lld", c, (long long)n);
        S2_TRY(s2_doc_int(source->doc, path, 0, pattern->n_layers - 1, &layer, source->diag));
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            s2_view view;
            s2_blocks list;
            S2_TRY(
                s2_view_build(source->arena, pattern, S2_PREFILL, (int32_t)layer, head, S2_AT_LEAST, &view));
            if (n == 0)
                first[head] = view;
            else if (s2_view_equal(&first[head], &view)) /* the same arrays: verified already */
                continue;
            const s2_arena_mark_t mark = s2_arena_mark(source->arena);
            S2_TRY(s2_blocks_build(source->arena, &view, n_tok, block_tok, source->work_left, &list));
            S2_TRY(verify_head(source, path, arrays, &list, head, pattern->causal));
            s2_arena_rewind(source->arena, mark);
        }
    }
    return S2_OK;
}

/* Every layer is in one layout, and all layouts have a size that arrays may have. */
static s2_status verify_layers(const s2_source *source, const s2_pattern *pattern, int64_t n_blk)
{
    const int64_t n = s2_doc_len(source->doc, "/layouts");
    s2_grid grid = {.n_layers = pattern->n_layers, .n_classes = (int32_t)n};
    if (n < 1 || n > pattern->n_layers)
        return s2_doc_refuse(source->doc, "/layouts", source->diag, "expected at most one layout per layer");
    if (n_blk * n_blk * pattern->n_heads > S2_GRID_CELLS / n)
        return s2_doc_refuse(source->doc, "/len", source->diag, "the mask has too many blocks");
    grid.class_of = S2_NEW(source->arena, int32_t, pattern->n_layers);
    return grid.class_of != NULL ? s2_grid_read_layers(source, &grid) : S2_ENOMEM;
}

s2_status s2_blockmask_import(const s2_source *source, const s2_blockmask_words *words, s2_pattern *out)
{
    s2_pattern pattern;
    int64_t block_tok, n_tok;
    s2_buf text = {0};
    const char *const stated = source->doc != NULL ? s2_doc_text(source->doc, "/pattern") : NULL;
    if (stated == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, source->doc != NULL, source->doc != NULL,
                           "a predicate cannot be read back: the manifest must hold \"pattern\", its text");
    S2_TRY(s2_doc_int(source->doc, "/block_size", 1, S2_LIMIT_BLOCK_TOK, &block_tok, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/len", block_tok, 1 << 22, &n_tok, source->diag));
    if (!s2_is_power_of_two(block_tok) || n_tok % block_tok != 0)
        return s2_doc_refuse(source->doc, "/block_size", source->diag,
                             "block_size must be a power of two that divides len");
    const s2_parse_options options = {.no_files = true};
    s2_buf_puts(&text, stated);
    s2_diag why = {0};
    s2_status status = text.status;
    if (status == S2_OK)
        status = s2_pattern_parse(source->arena, text.data, text.len, &options, &pattern, &why);
    s2_buf_release(&text);
    if (status == S2_EPARSE)
        return s2_doc_refuse(source->doc, "/pattern", source->diag, "the pattern's text, line %d: %s",
                             why.line, why.msg);
    S2_TRY(status);
    S2_TRY(verify_layers(source, &pattern, n_tok / block_tok));
    const int64_t n = s2_doc_len(source->doc, "/layouts");
    for (int32_t c = 0; c < n; c++) {
        const s2_arena_mark_t mark = s2_arena_mark(source->arena);
        S2_TRY(verify_class(source, words, &pattern, c, n_tok, (int32_t)block_tok));
        s2_arena_rewind(source->arena, mark);
    }
    s2_note(source->notes,
            "every listed block was checked against the pattern's text in the manifest; the arrays hold for "
            "%lld tokens",
            (long long)n_tok);
    *out = pattern;
    return S2_OK;
}
