#include "export/layout.h"
#include "base/arith.h"
#include "export/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pattern/folds.h"
#include "pattern/mask.h"
#include "pattern/parse.h"
#include "pattern/view.h"

/* ---- lists ---------------------------------------------------------------------------------------- */

static bool lists_equal(const s2_blocks *a, const s2_blocks *b)
{
    const size_t n = (size_t)a->row_begin[a->n_q_blk];
    return memcmp(a->row_begin, b->row_begin, ((size_t)a->n_q_blk + 1) * sizeof *a->row_begin) == 0 &&
           memcmp(a->k_blk, b->k_blk, n * sizeof *a->k_blk) == 0 && memcmp(a->full, b->full, n) == 0;
}

static bool list_has_partial(const s2_blocks *list, bool causal)
{
    for (int32_t q_blk = 0; q_blk < list->n_q_blk; q_blk++)
        for (int64_t e = list->row_begin[q_blk]; e < list->row_begin[q_blk + 1]; e++)
            if (!list->full[e] && (!causal || list->k_blk[e] != q_blk))
                return true;
    return false;
}

/* Refuse the length, not the pattern: a shorter context fits. */
static s2_status check_cells(const s2_target *target, int64_t n_blk, int32_t n_classes)
{
    const int64_t n_heads = target->pattern->n_heads, most = S2_GRID_CELLS / n_classes / n_heads;
    if (n_blk * n_blk <= most)
        return S2_OK;
    int64_t fits = n_blk;
    while (fits > 1 && fits * fits > most)
        fits--;
    return s2_diag_set(target->diag, S2_ELIMIT, S2_CODE_FOREIGN, 0, 0,
                       "%lld x %lld blocks of %lld heads%s are too many for arrays: --len %lld at most",
                       (long long)n_blk, (long long)n_blk, (long long)n_heads,
                       n_classes > 1 ? " in layers of different kinds" : "",
                       (long long)(fits * (target->n_tok / n_blk)));
}

/* Refuse a length that ends inside a block, and name the nearest lengths that do not. */
static s2_status refuse_length(const s2_target *target, int64_t block_tok)
{
    const int64_t shorter_tok = target->n_tok / block_tok * block_tok, longer_tok = shorter_tok + block_tok;
    const int64_t limit_tok = s2_pattern_limit_tok(target->pattern);
    char fits[96] = "no other length is, for the mask ends before";
    if (shorter_tok > 0 && longer_tok <= limit_tok)
        snprintf(fits, sizeof fits, "--len %lld and --len %lld are", (long long)shorter_tok,
                 (long long)longer_tok);
    else if (shorter_tok > 0 || longer_tok <= limit_tok)
        snprintf(fits, sizeof fits, "--len %lld is", (long long)(shorter_tok > 0 ? shorter_tok : longer_tok));
    return s2_diag_set(target->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                       "%lld tokens are not a multiple of the block of %lld: %s", (long long)target->n_tok,
                       (long long)block_tok, fits);
}

static s2_status check_target(const s2_target *target, int64_t block_tok)
{
    const s2_pattern *const pattern = target->pattern;
    if (s2_pattern_has_phases(pattern))
        return s2_target_refuse(target, "prefill and decode differ, and an array holds one mask");
    const s2_term *const dynamic = s2_pattern_dynamic(pattern);
    if (dynamic != NULL)
        return s2_target_refuse(target, "%s chooses keys at run time, and an array is fixed",
                                s2_term_word(dynamic->kind));
    if (target->n_tok % block_tok != 0)
        return refuse_length(target, block_tok);
    return check_cells(target, target->n_tok / block_tok, 1);
}

static uint64_t hash_list(const s2_blocks *list)
{
    const int64_t n = list->row_begin[list->n_q_blk];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t entry = 0; entry < n; entry++) {
        hash =
            (hash ^ ((uint64_t)list->k_blk[entry] << 1 | list->full[entry])) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 31;
    }
    return hash;
}

/* The list of one view: one of those before it that is equal, or a new one. */
static s2_status list_of_view(const s2_target *target, const s2_view *view, uint64_t *hashes, s2_layouts *out,
                              int32_t *list)
{
    s2_blocks blocks;
    const s2_arena_mark_t mark = s2_arena_mark(target->arena);
    S2_TRY(s2_blocks_build(target->arena, view, out->n_tok, out->block_tok, target->work_left, &blocks));
    const uint64_t hash = hash_list(&blocks);
    for (*list = 0; *list < out->n_lists; ++*list)
        if (hashes[*list] == hash && lists_equal(&out->lists[*list], &blocks)) {
            s2_arena_rewind(target->arena, mark);
            return S2_OK;
        }
    hashes[out->n_lists] = hash;
    out->lists[out->n_lists++] = blocks;
    out->has_partial |= list_has_partial(&blocks, target->pattern->causal);
    return S2_OK;
}

static s2_status list_heads(const s2_target *target, s2_layouts *out)
{
    const int64_t n_heads = (int64_t)target->pattern->n_layers * target->pattern->n_heads;
    s2_folds folds;
    S2_TRY(s2_folds_build(target->arena, target->pattern, S2_PREFILL, S2_AT_LEAST, &folds));
    int32_t *const list_of = S2_NEW(target->arena, int32_t, folds.n_classes);
    uint64_t *const hashes = S2_NEW(target->arena, uint64_t, folds.n_classes);
    out->lists = S2_NEW(target->arena, s2_blocks, folds.n_classes);
    out->list_of = S2_NEW(target->arena, int32_t, n_heads);
    if (list_of == NULL || hashes == NULL || out->lists == NULL || out->list_of == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < folds.n_classes; n++)
        S2_TRY(list_of_view(target, &folds.views[n], hashes, out, &list_of[n]));
    for (int64_t head = 0; head < n_heads; head++)
        out->list_of[head] = list_of[folds.class_of[head]];
    return S2_OK;
}

static void class_layers(const s2_pattern *pattern, s2_layouts *out)
{
    const size_t row = (size_t)pattern->n_heads * sizeof *out->list_of;
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        int32_t *const index = &out->class_of[layer];
        for (*index = 0; *index < out->n_classes; ++*index)
            if (memcmp(out->list_of + (int64_t)out->first_layer[*index] * pattern->n_heads,
                       out->list_of + (int64_t)layer * pattern->n_heads, row) == 0)
                break;
        if (*index == out->n_classes)
            out->first_layer[out->n_classes++] = layer;
    }
}

s2_status s2_layouts_build(const s2_target *target, int32_t block_tok, s2_layouts *out)
{
    const s2_pattern *const pattern = target->pattern;
    int64_t block;
    S2_TRY(s2_setting_block(&target->settings, block_tok != 0 ? block_tok : pattern->block_tok, &block,
                            target->diag));
    S2_TRY(check_target(target, block));
    s2_layouts result = {.n_tok = target->n_tok,
                         .block_tok = (int32_t)block,
                         .n_blk = (int32_t)(target->n_tok / block),
                         .class_of = S2_NEW(target->arena, int32_t, pattern->n_layers),
                         .first_layer = S2_NEW(target->arena, int32_t, pattern->n_layers)};
    if (result.class_of == NULL || result.first_layer == NULL)
        return S2_ENOMEM;
    S2_TRY(list_heads(target, &result));
    class_layers(pattern, &result);
    S2_TRY(check_cells(target, result.n_blk, result.n_classes));
    *out = result;
    return S2_OK;
}

static void print_layers(const s2_layouts *layouts, int32_t class_index, int32_t n_layers, s2_buf *buf)
{
    const char *comma = "";
    s2_buf_puts(buf, "\"layers\": [");
    for (int32_t layer = 0; layer < n_layers; layer++)
        if (layouts->class_of[layer] == class_index) {
            s2_buf_printf(buf, "%s%d", comma, layer);
            comma = ", ";
        }
    s2_buf_puts(buf, "]");
}

static s2_status print_classes(const s2_target *target, const s2_layouts *layouts, s2_layout_members of_class,
                               const void *user, s2_buf *buf)
{
    s2_buf_puts(buf, "  \"layouts\": [");
    for (int32_t c = 0; c < layouts->n_classes; c++) {
        s2_buf_puts(buf, c != 0 ? ",\n    {" : "\n    {");
        print_layers(layouts, c, target->pattern->n_layers, buf);
        if (of_class != NULL)
            S2_TRY(of_class(target, layouts, c, user, buf));
        s2_buf_puts(buf, "}");
    }
    s2_buf_puts(buf, "\n  ],\n");
    return S2_OK;
}

s2_status s2_layouts_write(const s2_target *target, const s2_layouts *layouts, const char *format,
                           const char *file_name, s2_layout_members of_class, s2_layout_members of_whole,
                           const void *user)
{
    s2_fileset arrays = {.arena = target->arena};
    s2_target inner = *target;
    s2_buf manifest = {0};
    inner.files = &arrays;
    s2_buf_printf(&manifest, "{\n  \"format\": \"%s\",\n", format);
    s2_model_shape_print(&manifest, target->pattern, "  ");
    s2_buf_printf(&manifest, "  \"block_size\": %d,\n  \"len\": %lld,\n  \"causal\": %s,\n",
                  layouts->block_tok, (long long)layouts->n_tok, target->pattern->causal ? "true" : "false");
    s2_status status = print_classes(&inner, layouts, of_class, user, &manifest);
    if (status == S2_OK && of_whole != NULL)
        status = of_whole(&inner, layouts, -1, user, &manifest);
    s2_provenance_print(&manifest, target, "  ");
    s2_buf_puts(&manifest, "}\n");
    if (status != S2_OK) {
        s2_buf_release(&manifest);
        return status;
    }
    S2_TRY(s2_fileset_add_buf(target->files, file_name, &manifest));
    for (int32_t f = 0; f < arrays.n_files; f++)
        S2_TRY(s2_fileset_add(target->files, arrays.files[f].name, arrays.files[f].bytes,
                              arrays.files[f].n_bytes));
    return S2_OK;
}

void s2_layouts_fill_cells(const s2_layouts *layouts, int32_t list, uint8_t *cells)
{
    const s2_blocks *const blocks = &layouts->lists[list];
    for (int64_t row = 0; row < layouts->n_blk; row++)
        for (int64_t e = blocks->row_begin[row]; e < blocks->row_begin[row + 1]; e++)
            cells[row * layouts->n_blk + blocks->k_blk[e]] = 1;
}

/* ---- arrays --------------------------------------------------------------------------------------- */

static s2_status add_array(s2_fileset *files, const char *name, const char *dtype, size_t size,
                           const int64_t *shape, int32_t n_dims, const void *values)
{
    s2_buf buf = {0};
    int64_t n = 1;
    for (int32_t d = 0; d < n_dims; d++)
        n *= shape[d];
    const s2_status status = s2_npy_header(dtype, shape, n_dims, &buf);
    if (status != S2_OK) {
        s2_buf_release(&buf);
        return status;
    }
    if (n > 0)
        s2_buf_add(&buf, values, (size_t)n * size);
    return s2_fileset_add_buf(files, name, &buf);
}

s2_status s2_fileset_add_i32(s2_fileset *files, const char *name, const int64_t *shape, int32_t n_dims,
                             const int32_t *values)
{
    return add_array(files, name, "<i4", sizeof *values, shape, n_dims, values);
}

s2_status s2_fileset_add_bool(s2_fileset *files, const char *name, const int64_t *shape, int32_t n_dims,
                              const uint8_t *values)
{
    return add_array(files, name, "|b1", 1, shape, n_dims, values);
}

static s2_status npy_refuse(s2_diag *diag, const char *what)
{
    return s2_diag_set(diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "not a usable .npy array: %s", what);
}

static s2_status read_shape(const char *header, s2_array *out, s2_diag *diag)
{
    const char *rest = strstr(header, "'shape'");
    rest = rest != NULL ? strchr(rest, '(') : NULL;
    if (rest == NULL)
        return npy_refuse(diag, "no shape");
    out->n_dims = 0;
    out->n = 1;
    for (rest++; *rest != ')'; rest += strspn(rest, ", ")) {
        char *end;
        const long long dim = strtoll(rest, &end, 10);
        if (end == rest || dim < 0 || dim > S2_GRID_CELLS || out->n_dims == 4)
            return npy_refuse(diag, "a dimension is out of range");
        out->shape[out->n_dims++] = dim;
        out->n *= dim;
        if (out->n > S2_GRID_CELLS)
            return npy_refuse(diag, "too many elements");
        rest = end;
    }
    return S2_OK;
}

/* "'<f4'" to kind and size; false if it is not a plain little-endian number. */
static bool read_dtype(const char *header, s2_array *out)
{
    const char *const key = strstr(header, "'descr'");
    const char *const dtype = key != NULL ? strpbrk(key + 7, "<|>=") : NULL;
    if (dtype == NULL || (dtype[0] != '<' && dtype[0] != '|') || dtype[1] == '\0' ||
        strchr("biuf", dtype[1]) == NULL || dtype[2] == '\0' || strchr("1248", dtype[2]) == NULL ||
        dtype[3] != '\'')
        return false;
    out->dtype = dtype[1];
    out->item_bytes = dtype[2] - '0';
    return true;
}

s2_status s2_array_read_any(const char *bytes, size_t n_bytes, s2_array *out, s2_diag *diag)
{
    char header[1024];
    s2_array result = {0};
    if (!s2_array_is_npy(bytes, n_bytes) || bytes[6] != 1)
        return npy_refuse(diag, "wrong magic or version");
    const size_t n_header = (size_t)(unsigned char)bytes[8] | (size_t)(unsigned char)bytes[9] << 8;
    if (n_header + 10 > n_bytes || n_header >= sizeof header)
        return npy_refuse(diag, "the header is cut off");
    memcpy(header, bytes + 10, n_header);
    header[n_header] = '\0';
    if (!read_dtype(header, &result))
        return npy_refuse(diag, "its elements are not numbers of this machine: save mask.astype(bool)");
    if (strstr(header, "'fortran_order': False") == NULL)
        return npy_refuse(diag, "it is in Fortran order; save np.ascontiguousarray of it");
    S2_TRY(read_shape(header, &result, diag));
    const size_t size = (size_t)result.n * (size_t)result.item_bytes;
    if (n_bytes - 10 - n_header < size)
        return npy_refuse(diag, "the data is cut off");
    result.data = bytes + 10 + n_header;
    result.end = 10 + n_header + size;
    *out = result;
    return S2_OK;
}

s2_status s2_array_read(const char *bytes, size_t n_bytes, s2_array *out, s2_diag *diag)
{
    s2_array result;
    S2_TRY(s2_array_read_any(bytes, n_bytes, &result, diag));
    if (result.dtype != 'b' && (result.dtype != 'i' || result.item_bytes != 4))
        return npy_refuse(diag, "its type must be int32 or bool");
    *out = result;
    return S2_OK;
}

int32_t s2_array_i32(const s2_array *array, int64_t index)
{
    int32_t value;
    memcpy(&value, array->data + index * 4, sizeof value);
    return value;
}

/* Nested lists; all lists of one level have one length. */
static s2_status read_nested(const s2_source *source, const char *path, int32_t level, s2_array *array,
                             int32_t *values, int64_t *used)
{
    char element[512];
    if (level >= 4)
        return S2_EINVAL;
    if (s2_doc_len(source->doc, path) != array->shape[level] || !s2_doc_is_array(source->doc, path))
        return s2_doc_refuse(source->doc, path, source->diag, "every list here must have %lld elements",
                             (long long)array->shape[level]);
    for (int64_t n = 0; n < array->shape[level]; n++) {
        snprintf(element, sizeof element, "%.480s/%lld", path, (long long)n);
        if (level + 1 < array->n_dims) {
            S2_TRY(read_nested(source, element, level + 1, array, values, used));
        } else {
            int64_t value;
            S2_TRY(s2_doc_int(source->doc, element, -1, INT32_MAX, &value, source->diag));
            values[(*used)++] = (int32_t)value;
        }
    }
    return S2_OK;
}

s2_status s2_array_of_doc(const s2_source *source, const char *path, int32_t n_dims, s2_array *out)
{
    const char *const name = s2_doc_text(source->doc, path);
    s2_array result = {.dtype = 'i', .n_dims = n_dims, .n = 1};
    if (name != NULL) {
        s2_file file;
        s2_diag why = {0};
        S2_TRY(s2_finder_read(&source->finder, source->arena, name, (size_t)S2_GRID_CELLS * 4, &file,
                              source->diag));
        if (s2_array_read(file.bytes, file.n_bytes, &result, &why) != S2_OK)
            return s2_doc_refuse(source->doc, path, source->diag, "%.80s: %s", name, why.msg);
        if (result.n_dims != n_dims || result.end != file.n_bytes)
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "%.80s must have %d dimensions, and nothing behind them", name, n_dims);
        *out = result;
        return S2_OK;
    }
    char first[512];
    snprintf(first, sizeof first, "%.400s", path);
    for (int32_t d = 0; d < n_dims; d++) {
        result.shape[d] = s2_doc_len(source->doc, first);
        if (result.shape[d] < 0 || result.shape[d] > (int64_t)source->n_bytes / (result.n > 0 ? result.n : 1))
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "expected a list of %d dimensions, or the name of an .npy file", n_dims);
        result.n *= result.shape[d];
        snprintf(first + strlen(first), sizeof first - strlen(first), "/0");
    }
    int32_t *const values = S2_NEW(source->arena, int32_t, result.n + 1);
    int64_t used = 0;
    if (values == NULL)
        return S2_ENOMEM;
    S2_TRY(read_nested(source, path, 0, &result, values, &used));
    result.data = (const char *)values;
    *out = result;
    return S2_OK;
}

/* ---- back to a pattern ---------------------------------------------------------------------------- */

static s2_status read_grid_shape(const s2_source *source, int32_t n_classes, s2_grid *out)
{
    s2_model_shape shape;
    int64_t block_tok, n_tok;
    bool causal;
    S2_TRY(s2_model_shape_read(source, "", &shape));
    S2_TRY(s2_doc_int(source->doc, "/block_size", 1, S2_LIMIT_BLOCK_TOK, &block_tok, source->diag));
    S2_TRY(s2_doc_int(source->doc, "/len", 1, S2_LIMIT_CONTEXT_TOK, &n_tok, source->diag));
    S2_TRY(s2_doc_bool_or(source->doc, "/causal", true, &causal, source->diag));
    if (!s2_is_power_of_two(block_tok) || n_tok % block_tok != 0)
        return s2_doc_refuse(source->doc, "/block_size", source->diag,
                             "block_size must be a power of two that divides len");
    const int64_t n_blk = n_tok / block_tok;
    if (n_blk > 1 << 20 || n_blk * n_blk > S2_GRID_CELLS / shape.n_heads / n_classes)
        return s2_doc_refuse(source->doc, "/len", source->diag, "the mask has too many blocks");
    s2_grid grid = {.n_layers = (int32_t)shape.n_layers,
                    .n_heads = (int32_t)shape.n_heads,
                    .n_kv_heads = (int32_t)shape.n_kv_heads,
                    .head_dim = shape.head_dim > 0 ? (int32_t)shape.head_dim : 128,
                    .block_tok = (int32_t)block_tok,
                    .n_blk = (int32_t)n_blk,
                    .n_classes = n_classes,
                    .causal = causal,
                    .class_of = S2_NEW(source->arena, int32_t, shape.n_layers),
                    .allowed = S2_NEW(source->arena, uint8_t *, n_classes)};
    if (grid.class_of == NULL || grid.allowed == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < n_classes; c++) {
        grid.allowed[c] = S2_NEW(source->arena, uint8_t, shape.n_heads * n_blk * n_blk);
        if (grid.allowed[c] == NULL)
            return S2_ENOMEM;
    }
    *out = grid;
    return S2_OK;
}

s2_status s2_grid_read_layers(const s2_source *source, s2_grid *grid)
{
    bool *const seen = S2_NEW(source->arena, bool, grid->n_layers);
    if (seen == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < grid->n_classes; c++) {
        char path[96];
        snprintf(path, sizeof path, "/layouts/%d/layers", c);
        const int64_t n = s2_doc_len(source->doc, path);
        for (int64_t nth = 0; nth < n; nth++) {
            int64_t layer;
            snprintf(path, sizeof path, "/layouts/%d/layers/%lld", c, (long long)nth);
            S2_TRY(s2_doc_int(source->doc, path, 0, grid->n_layers - 1, &layer, source->diag));
            if (seen[layer])
                return s2_doc_refuse(source->doc, path, source->diag, "layer %lld is in two layouts",
                                     (long long)layer);
            grid->class_of[layer] = c;
            seen[layer] = true;
        }
    }
    for (int32_t layer = 0; layer < grid->n_layers; layer++)
        if (!seen[layer])
            return s2_doc_refuse(source->doc, "/layouts", source->diag, "layer %d has no layout", layer);
    return S2_OK;
}

s2_status s2_grid_read(const s2_source *source, s2_grid *out)
{
    const int64_t n = s2_doc_len(source->doc, "/layouts");
    if (n < 1 || n > S2_LIMIT_LAYERS)
        return s2_doc_refuse(source->doc, "/layouts", source->diag, "expected a list of layouts");
    s2_grid grid;
    S2_TRY(read_grid_shape(source, (int32_t)n, &grid));
    S2_TRY(s2_grid_read_layers(source, &grid));
    *out = grid;
    return S2_OK;
}

/*
 * The name of a mask's file says what is in it: where a name were used again for other contents, a text that was
 * written before would be refused.
 */
static void name_mask(const char *title, const s2_mask *mask, char *name, size_t cap)
{
    snprintf(name, cap, "%.*s-mask-%.16s.npy", (int)s2_min_size(strcspn(title, "."), 60), title,
             mask->digest);
    for (char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < 0x21 || *c == '"' || *c == '\\' || (unsigned char)*c > 0x7e)
            *c = '_';
}

static s2_status grid_body(const s2_source *source, const s2_grid *grid, int32_t class_index, s2_body *out)
{
    char name[96];
    s2_mask *const mask = S2_NEW(source->arena, s2_mask, 1);
    s2_term *const term = S2_NEW(source->arena, s2_term, 1);
    const int64_t shape[3] = {grid->n_heads, grid->n_blk, grid->n_blk};
    if (mask == NULL || term == NULL)
        return S2_ENOMEM;
    *mask = (s2_mask){.n_heads = grid->n_heads,
                      .n_q_blk = grid->n_blk,
                      .n_k_blk = grid->n_blk,
                      .allowed = grid->allowed[class_index]};
    s2_mask_seal(mask);
    name_mask(source->name, mask, name, sizeof name);
    mask->path = s2_arena_strndup(source->arena, name, strlen(name));
    *term = s2_term_init(S2_TERM_MASK, 0);
    term->mask = mask;
    *out = (s2_body){1, term};
    if (mask->path == NULL)
        return S2_ENOMEM;
    return s2_fileset_add_bool(source->side, name, shape, 3, mask->allowed);
}

/* What a grid allows, and how much of it causality takes away: all keys of such a block follow all its queries. */
typedef struct grid_count {
    int64_t n_allowed, n_after;
} grid_count;

static grid_count count_after(const s2_grid *grid, bool clear)
{
    const int64_t n_blk = grid->n_blk, n_rows = grid->n_heads * n_blk;
    grid_count count = {0};
    for (int32_t c = 0; c < grid->n_classes; c++)
        for (int64_t row = 0; row < n_rows; row++)
            for (int64_t k_blk = 0; k_blk < n_blk; k_blk++) {
                uint8_t *const cell = &grid->allowed[c][row * n_blk + k_blk];
                const bool after = *cell != 0 && k_blk > row % n_blk;
                count.n_allowed += *cell != 0;
                count.n_after += after;
                if (after && clear)
                    *cell = 0;
            }
    return count;
}

s2_status s2_grid_ask_block(const s2_source *source, int64_t *block_tok)
{
    /* an export is read back in the form in which it was written */
    if (s2_setting_text(&source->settings, "block") == NULL && source->finder.set == NULL)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "the array does not say how many tokens a row stands for: --set block=1 for one "
                           "token, --set block=64 for blocks of 64");
    return s2_setting_block(&source->settings, S2_ARRAY_BLOCK_TOK, block_tok, source->diag);
}

s2_status s2_grid_ask_causal(const s2_source *source, s2_grid *grid)
{
    int64_t causal;
    S2_TRY(s2_setting_int(&source->settings, "causal", 0, 1, 1, &causal, source->diag));
    grid->causal = causal != 0;
    const grid_count count = count_after(grid, false);
    if (count.n_after == 0 || s2_setting_text(&source->settings, "causal") != NULL)
        return S2_OK;
    return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                       "keys after their queries are allowed, in %lld of %lld cells: --set causal=0 reads "
                       "them, --set causal=1 leaves them out, as a causal kernel does",
                       (long long)count.n_after, (long long)count.n_allowed);
}

static void clear_after(const s2_source *source, const s2_grid *grid)
{
    static const char sentence[] = "keys after their queries are allowed, in %lld of %lld cells: a causal "
                                   "kernel reads none of them, so they are left out";
    const grid_count count = grid->causal ? count_after(grid, true) : (grid_count){0};
    if (count.n_after == 0)
        return;
    s2_note(source->notes, sentence, (long long)count.n_after, (long long)count.n_allowed);
    if (source->said != NULL)
        s2_note(&source->said->warnings, sentence, (long long)count.n_after, (long long)count.n_allowed);
}

s2_status s2_grid_pattern(const s2_source *source, const s2_grid *grid, s2_pattern *out)
{
    clear_after(source, grid);
    const int64_t n_cells = (int64_t)grid->n_layers * grid->n_heads;
    s2_body *const bodies = S2_NEW(source->arena, s2_body, grid->n_classes);
    uint16_t *const body_of = S2_NEW(source->arena, uint16_t, n_cells * S2_N_RULE_PHASES);
    s2_buf name = {0};
    if (bodies == NULL || body_of == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < grid->n_classes; c++)
        S2_TRY(grid_body(source, grid, c, &bodies[c]));
    for (int phase = 0; phase < S2_N_RULE_PHASES; phase++)
        for (int64_t cell = 0; cell < n_cells; cell++)
            body_of[phase * n_cells + cell] = (uint16_t)grid->class_of[cell / grid->n_heads];
    s2_language_name(&name, source->name);
    const char *const kept = name.len > 6 ? s2_arena_strndup(source->arena, name.data + 5, name.len - 6) : "";
    const bool is_named = name.status == S2_OK && kept != NULL;
    s2_buf_release(&name);
    if (!is_named)
        return S2_ENOMEM;
    const s2_pattern pattern = {.name = kept,
                                .model = "",
                                .n_layers = grid->n_layers,
                                .n_heads = grid->n_heads,
                                .n_kv_heads = grid->n_kv_heads,
                                .head_dim = grid->head_dim,
                                .block_tok = grid->block_tok,
                                .causal = grid->causal,
                                .n_bodies = grid->n_classes,
                                .bodies = bodies,
                                .body_of = body_of};
    s2_diag why = {0};
    const s2_status status = s2_pattern_check(&pattern, &why);
    if (status == S2_EINVAL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 1, 1, "%s", why.msg);
    if (status == S2_OK)
        *out = pattern;
    return status;
}
