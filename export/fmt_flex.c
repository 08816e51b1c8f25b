/*
 * FlexAttention (BlockMask.from_kv_blocks) and FlashAttention CuTe (BlockSparseTensors): per head and row of
 * blocks a count and indices of partial blocks, and the same of full blocks. Partial blocks evaluate a
 * predicate, so both formats hold every static pattern exactly; the predicate is Python, written into a
 * module beside the arrays.
 *
 * A predicate cannot be read back by a C program. What is read back is the canonical text in the manifest,
 * after every listed block was checked against it: full blocks hold every pair, absent blocks none.
 * tests/formats/ runs the Python itself.
 */
#include "export/layout.h"

#include <stdio.h>
#include <string.h>

#include "pattern/parse.h"

/* What the two formats call their arrays. */
typedef struct dialect {
    const char *format, *manifest;
    const char *partial_count, *partial_index, *full_count, *full_index;
} dialect;

static const dialect flex = {"flex-attention", "flex.json",          "kv_num_blocks",
                             "kv_indices",     "full_kv_num_blocks", "full_kv_indices"};
static const dialect cute = {"flash-attention-cute", "cute.json",      "mask_block_cnt",
                             "mask_block_idx",       "full_block_cnt", "full_block_idx"};
enum { BLOCK_TOK = 128 };

/* ---- the predicate in Python ------------------------------------------------------------------------ */

static void py_unit(const s2_pattern *pattern, bool tok, const char *name, s2_buf *buf)
{
    if (tok || pattern->block_tok == 1)
        s2_buf_puts(buf, name);
    else
        s2_buf_printf(buf, "%s // %d", name, pattern->block_tok);
}

static void py_range(const char *expr, s2_range range, s2_buf *buf)
{
    if (range.begin > 0)
        s2_buf_printf(buf, " & (%s >= %lld)", expr, (long long)range.begin);
    if (range.end != S2_OPEN)
        s2_buf_printf(buf, " & (%s < %lld)", expr, (long long)range.end);
}

static void py_when(const s2_pattern *pattern, const s2_term *term, s2_buf *buf)
{
    for (int unit = 0; unit < S2_N_UNITS; unit++) {
        s2_buf q = {0}, k = {0}, distance = {0};
        py_unit(pattern, unit == S2_UNIT_TOK, "q", &q);
        py_unit(pattern, unit == S2_UNIT_TOK, "k", &k);
        s2_buf_printf(&distance, "abs((%s) - (%s))", q.data != NULL ? q.data : "",
                      k.data != NULL ? k.data : "");
        py_range(distance.data != NULL ? distance.data : "", term->when[S2_WHEN_DISTANCE][unit], buf);
        py_range(k.data != NULL ? k.data : "", term->when[S2_WHEN_KEY][unit], buf);
        py_range(q.data != NULL ? q.data : "", term->when[S2_WHEN_QUERY][unit], buf);
        s2_buf_release(&q);
        s2_buf_release(&k);
        s2_buf_release(&distance);
    }
}

static void py_list(const char *expr, const s2_span_list *list, s2_buf *buf)
{
    s2_buf_puts(buf, "(");
    for (int32_t s = 0; s < list->n_spans; s++) {
        const s2_span span = list->spans[s];
        s2_buf_printf(buf, "%s((%s >= %lld)", s != 0 ? " | " : "", expr, (long long)span.begin);
        if (span.end != S2_OPEN)
            s2_buf_printf(buf, " & (%s < %lld)", expr, (long long)span.end);
        if (span.step > 1)
            s2_buf_printf(buf, " & ((%s - %lld) %% %lld == 0)", expr, (long long)span.begin,
                          (long long)span.step);
        s2_buf_puts(buf, ")");
    }
    s2_buf_puts(buf, ")");
}

static void py_phase(const s2_pattern *pattern, const s2_phase_expr *phase, s2_buf *buf)
{
    s2_buf_printf(buf, "%lld", (long long)phase->constant);
    if (phase->head_coef != 0)
        s2_buf_printf(buf, " + %lld * h", (long long)phase->head_coef);
    if (phase->kv_coef != 0)
        s2_buf_printf(buf, " + %lld * (h // %d)", (long long)phase->kv_coef,
                      pattern->n_heads / pattern->n_kv_heads);
    if (phase->layer_coef != 0)
        s2_buf_printf(buf, " + %lld * layer", (long long)phase->layer_coef);
}

/* One term as an expression in layer, h, q, k; every comparison is bracketed, for & and | bind tighter. */
static void py_term(const s2_pattern *pattern, const s2_term *term, s2_buf *buf)
{
    s2_buf q_text = {0}, k_text = {0};
    py_unit(pattern, term->tok, "q", &q_text);
    py_unit(pattern, term->tok, "k", &k_text);
    const char *const q = q_text.data != NULL ? q_text.data : "", *const k =
                                                                      k_text.data != NULL ? k_text.data : "";
    s2_buf_puts(buf, "(");
    switch (term->kind) {
    case S2_TERM_LOCAL: s2_buf_printf(buf, "(abs((%s) - (%s)) < %lld)", q, k, (long long)term->n); break;
    case S2_TERM_SINK: s2_buf_printf(buf, "((%s) < %lld)", k, (long long)term->n); break;
    case S2_TERM_STRIDE:
    case S2_TERM_DILATED:
        if (term->kind == S2_TERM_STRIDE)
            s2_buf_printf(buf, "(((%s) + ", k);
        else
            s2_buf_printf(buf, "(((%s) - (%s) + ", q, k);
        py_phase(pattern, &term->phase, buf);
        s2_buf_printf(buf, ") %% %lld < %lld)", (long long)term->n, (long long)term->width);
        break;
    case S2_TERM_COLUMNS: py_list(k, &term->list, buf); break;
    case S2_TERM_ROWS: py_list(q, &term->list, buf); break;
    case S2_TERM_CHUNK:
        s2_buf_printf(buf, "((%s) // %lld == (%s) // %lld)", q, (long long)term->n, k, (long long)term->n);
        break;
    case S2_TERM_NONE: s2_buf_puts(buf, "(q < 0)"); break;
    default: s2_buf_puts(buf, "(q >= 0)"); break;
    }
    py_when(pattern, term, buf);
    s2_buf_puts(buf, ")");
    s2_buf_release(&q_text);
    s2_buf_release(&k_text);
}

static void py_body(const s2_pattern *pattern, int32_t index, s2_buf *buf)
{
    const s2_body *const body = &pattern->bodies[index];
    s2_buf_printf(buf, "def body_%d(layer, h, q, k):\n    # ", index);
    s2_body_print(body, buf);
    s2_buf_puts(buf, "\n    return ");
    if (pattern->causal)
        s2_buf_puts(buf, "(k <= q) & ");
    s2_buf_puts(buf, "(");
    for (int32_t t = 0; t < body->n_terms; t++) {
        s2_buf_puts(buf, t != 0 ? "\n        | " : "");
        py_term(pattern, &body->terms[t], buf);
    }
    s2_buf_puts(buf, ")\n\n\n");
}

static void py_tables(const s2_target *target, const s2_layouts *layouts, s2_buf *buf)
{
    const s2_pattern *const pattern = target->pattern;
    s2_buf_printf(buf, "N_LAYERS, N_HEADS, N_KV_HEADS, HEAD_DIM = %d, %d, %d, %d\n", pattern->n_layers,
                  pattern->n_heads, pattern->n_kv_heads, pattern->head_dim);
    s2_buf_printf(buf, "LEN, BLOCK = %lld, %d\n", (long long)layouts->n_tok, layouts->block_tok);
    s2_buf_puts(buf, "LAYER_CLASS = [");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++)
        s2_buf_printf(buf, "%s%d", layer != 0 ? ", " : "", layouts->class_of[layer]);
    s2_buf_puts(buf, "]\nBODY_OF = [  # [layer][head]\n");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        s2_buf_puts(buf, "    [");
        for (int32_t head = 0; head < pattern->n_heads; head++)
            s2_buf_printf(buf, "%s%d", head != 0 ? ", " : "",
                          s2_pattern_body(pattern, S2_PREFILL, layer, head));
        s2_buf_puts(buf, "],\n");
    }
    s2_buf_puts(buf, "]\n\n\n");
}

static const char py_mask_mod[] = "def make_mask_mod(layer, device=None):\n"
                                  "    \"\"\"mask_mod(b, h, q_idx, kv_idx) of one layer. With device the "
                                  "table of bodies is a tensor there,\n"
                                  "    as FlexAttention needs; without, plain integers work too.\"\"\"\n"
                                  "    bodies = sorted(set(BODY_OF[layer]))\n"
                                  "    if len(bodies) == 1:\n"
                                  "        only = BODIES[bodies[0]]\n"
                                  "        return lambda b, h, q, k: only(layer, h, q, k)\n"
                                  "    table = BODY_OF[layer]\n"
                                  "    if device is not None:\n"
                                  "        import torch\n"
                                  "        table = torch.tensor(table, dtype=torch.int32, device=device)\n\n"
                                  "    def mask_mod(b, h, q, k):\n"
                                  "        which = table[h]\n"
                                  "        out = q < 0\n"
                                  "        for n in bodies:\n"
                                  "            out = out | ((which == n) & BODIES[n](layer, h, q, k))\n"
                                  "        return out\n\n"
                                  "    return mask_mod\n\n\n";

static const char py_flex[] =
    "def block_mask(layer, device=\"cuda\"):\n"
    "    \"\"\"The BlockMask of one layer for flex_attention(q, k, v, block_mask=..., "
    "enable_gqa=True).\"\"\"\n"
    "    import os\n"
    "    import numpy\n"
    "    import torch\n"
    "    from torch.nn.attention.flex_attention import BlockMask\n\n"
    "    here = os.path.dirname(os.path.abspath(__file__))\n"
    "    load = lambda name: torch.from_numpy(numpy.load(os.path.join(\n"
    "        here, \"layout%d_%s.npy\" % (LAYER_CLASS[layer], name)))).unsqueeze(0).to(device)\n"
    "    return BlockMask.from_kv_blocks(\n"
    "        load(\"kv_num_blocks\"), load(\"kv_indices\"), load(\"full_kv_num_blocks\"), "
    "load(\"full_kv_indices\"),\n"
    "        BLOCK_SIZE=BLOCK, mask_mod=make_mask_mod(layer, device), seq_lengths=(LEN, LEN))\n";

static s2_status add_module(const s2_target *target, const s2_layouts *layouts, const dialect *words,
                            s2_fileset *files)
{
    const s2_pattern *const pattern = target->pattern;
    s2_buf buf = {0};
    s2_buf_printf(&buf,
                  "\"\"\"%s arrays of the pattern \"%s\"; the predicate for partial blocks is "
                  "make_mask_mod(layer).\"\"\"\n\n",
                  words->format, pattern->name);
    py_tables(target, layouts, &buf);
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        py_body(pattern, b, &buf);
    s2_buf_puts(&buf, "BODIES = [");
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        s2_buf_printf(&buf, "%sbody_%d", b != 0 ? ", " : "", b);
    s2_buf_puts(&buf, "]\n\n\n");
    s2_buf_puts(&buf, py_mask_mod);
    if (words == &flex)
        s2_buf_puts(&buf, py_flex);
    return s2_fileset_add_buf(files, words == &flex ? "flex_mask.py" : "cute_mask.py", &buf);
}

/* ---- the arrays ------------------------------------------------------------------------------------- */

typedef struct block_arrays {
    int32_t *count[2]; /* [head][row]; 0 partial, 1 full */
    int32_t *index[2]; /* [head][row][n_blk] */
} block_arrays;

/* Full for these kernels: no predicate at all, so a causal diagonal block is partial. */
static bool skips_predicate(const s2_blocks *list, int64_t entry, int32_t row, bool causal)
{
    return list->full[entry] && !(causal && list->k_blk[entry] == row && list->block_tok > 1);
}

static void fill_head(const s2_blocks *list, int32_t head, int32_t n_blk, bool causal, block_arrays *arrays)
{
    for (int32_t row = 0; row < n_blk; row++)
        for (int64_t e = list->row_begin[row]; e < list->row_begin[row + 1]; e++) {
            const int which = skips_predicate(list, e, row, causal);
            const int64_t at = (int64_t)head * n_blk + row;
            arrays->index[which][at * n_blk + arrays->count[which][at]++] = list->k_blk[e];
        }
}

static s2_status add_layout(const s2_target *target, const s2_layouts *layouts, const dialect *words,
                            int32_t c, s2_buf *manifest, s2_fileset *files)
{
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
    s2_buf_puts(manifest, c != 0 ? ",\n    {" : "\n    {");
    s2_layouts_print_layers(manifest, layouts, c, target->pattern->n_layers);
    for (int which = 0; which < 2; which++) {
        char name[64];
        snprintf(name, sizeof name, "layout%d_%s.npy", c, names[which][0]);
        s2_buf_printf(manifest, ", \"%s\": \"%s\"", names[which][0], name);
        S2_TRY(s2_fileset_add_i32(files, name, (const int64_t[]){n_heads, n_blk}, 2, arrays.count[which]));
        snprintf(name, sizeof name, "layout%d_%s.npy", c, names[which][1]);
        s2_buf_printf(manifest, ", \"%s\": \"%s\"", names[which][1], name);
        S2_TRY(s2_fileset_add_i32(files, name, (const int64_t[]){n_heads, n_blk, n_blk}, 3,
                                  arrays.index[which]));
    }
    s2_buf_puts(manifest, "}");
    return S2_OK;
}

static void print_text_member(const s2_target *target, s2_buf *manifest)
{
    s2_buf text = {0};
    s2_pattern_print(target->pattern, &text);
    s2_buf_puts(manifest, "  \"pattern\":");
    s2_json_str(manifest, text.data);
    s2_buf_puts(manifest, ",\n");
    s2_buf_release(&text);
}

static s2_status check_bodies(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    for (int32_t b = 0; b < pattern->n_bodies; b++)
        for (int32_t t = 0; t < pattern->bodies[b].n_terms; t++) {
            const s2_term_kind kind = pattern->bodies[b].terms[t].kind;
            if (kind == S2_TERM_RANDOM || kind == S2_TERM_MASK)
                return s2_target_refuse(target, "a %s term has no predicate; csr, flashinfer and bsa hold it",
                                        s2_term_word(kind));
        }
    return S2_OK;
}

static s2_status export_as(const s2_target *target, const dialect *words)
{
    s2_layouts layouts;
    s2_fileset arrays = {.arena = target->arena};
    s2_buf manifest = {0};
    S2_TRY(check_bodies(target));
    S2_TRY(s2_layouts_build(target, BLOCK_TOK, &layouts));
    s2_buf_printf(&manifest, "{\n  \"format\": \"%s\",\n", words->format);
    s2_model_shape_print(&manifest, target->pattern, "  ");
    s2_buf_printf(&manifest, "  \"block_size\": %d,\n  \"len\": %lld,\n", layouts.block_tok,
                  (long long)layouts.n_tok);
    print_text_member(target, &manifest);
    s2_buf_puts(&manifest, "  \"layouts\": [");
    s2_status status = S2_OK;
    for (int32_t c = 0; c < layouts.n_classes && status == S2_OK; c++)
        status = add_layout(target, &layouts, words, c, &manifest, &arrays);
    if (status == S2_OK)
        status = add_module(target, &layouts, words, &arrays);
    s2_buf_puts(&manifest, "\n  ],\n");
    s2_provenance_print(&manifest, target, "  ");
    s2_buf_puts(&manifest, "}\n");
    if (status != S2_OK) {
        s2_buf_release(&manifest);
        return status;
    }
    S2_TRY(s2_fileset_add_buf(target->files, words->manifest, &manifest));
    for (int32_t f = 0; f < arrays.n_files; f++)
        S2_TRY(s2_fileset_add(target->files, arrays.files[f].name, arrays.files[f].bytes,
                              arrays.files[f].n_bytes));
    return S2_OK;
}

static s2_status export_flex(const s2_target *target)
{
    S2_TRY(export_as(target, &flex));
    s2_note(target->notes, "import flex_mask and call block_mask(layer): partial blocks need the predicate, "
                           "or a causal pattern reads "
                           "above the diagonal");
    return S2_OK;
}

static s2_status export_cute(const s2_target *target)
{
    S2_TRY(export_as(target, &cute));
    s2_note(target->notes, "partial blocks need a predicate with the rule of cute_mask.py, written as a CuTe "
                           "mask_mod; it replaces "
                           "causal. SM80 kernels ignore these tensors; 128 x 128 fits SM90 at head dimension "
                           "128, SM100 wants 256 rows");
    return S2_OK;
}

/* ---- in --------------------------------------------------------------------------------------------- */

/* Mark what the arrays list of one row: 1 partial, 2 full. */
static s2_status mark_row(const s2_source *source, const char *path, const s2_array *count,
                          const s2_array *index, int64_t at, int32_t n_blk, uint8_t mark, uint8_t *row)
{
    const int32_t n = s2_array_i32(count, at);
    if (n < 0 || n > n_blk)
        return s2_doc_refuse(source->doc, path, source->diag, "a row counts %d blocks of %d", n, n_blk);
    for (int32_t e = 0; e < n; e++) {
        const int32_t k_blk = s2_array_i32(index, at * n_blk + e);
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
        const int64_t at = (int64_t)head * n_blk + q_blk;
        memset(row, 0, (size_t)n_blk);
        S2_TRY(mark_row(source, path, &arrays[0], &arrays[1], at, n_blk, 1, row));
        S2_TRY(mark_row(source, path, &arrays[2], &arrays[3], at, n_blk, 2, row));
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

static s2_status verify_class(const s2_source *source, const dialect *words, const s2_pattern *pattern,
                              int32_t c, int64_t n_tok, int32_t block_tok)
{
    const char *const names[4] = {words->partial_count, words->partial_index, words->full_count,
                                  words->full_index};
    const int64_t n_blk = n_tok / block_tok;
    s2_array arrays[4];
    char path[96];
    int64_t layer;
    for (int a = 0; a < 4; a++) {
        snprintf(path, sizeof path, "/layouts/%d/%s", c, names[a]);
        S2_TRY(s2_array_of_doc(source, path, a % 2 == 0 ? 2 : 3, &arrays[a]));
        if (arrays[a].dtype != 'i' || arrays[a].shape[0] != pattern->n_heads || arrays[a].shape[1] != n_blk ||
            (a % 2 == 1 && arrays[a].shape[2] != n_blk))
            return s2_doc_refuse(source->doc, path, source->diag, "%s has the wrong shape or type", names[a]);
    }
    const int64_t n_layers =
        (snprintf(path, sizeof path, "/layouts/%d/layers", c), s2_doc_len(source->doc, path));
    for (int64_t n = 0; n < n_layers; n++) {
        snprintf(path, sizeof path, "/layouts/%d/layers/%lld", c, (long long)n);
        S2_TRY(s2_doc_int(source->doc, path, 0, pattern->n_layers - 1, &layer, source->diag));
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            s2_view view;
            s2_blocks list;
            const s2_arena_mark_t mark = s2_arena_mark(source->arena);
            S2_TRY(
                s2_view_build(source->arena, pattern, S2_PREFILL, (int32_t)layer, head, S2_AT_LEAST, &view));
            S2_TRY(s2_blocks_build(source->arena, &view, n_tok, block_tok, &list));
            S2_TRY(verify_head(source, path, arrays, &list, head, pattern->causal));
            s2_arena_rewind(source->arena, mark);
        }
    }
    return S2_OK;
}

static s2_status import_as(const s2_source *source, const dialect *words, s2_pattern *out)
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
    if ((block_tok & (block_tok - 1)) != 0 || n_tok % block_tok != 0)
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
    const int64_t n = s2_doc_len(source->doc, "/layouts");
    if (n < 1 || n > pattern.n_layers)
        return s2_doc_refuse(source->doc, "/layouts", source->diag, "expected at most one layout per layer");
    for (int32_t c = 0; c < n; c++)
        S2_TRY(verify_class(source, words, &pattern, c, n_tok, (int32_t)block_tok));
    s2_note(source->notes,
            "every listed block was checked against the pattern's text in the manifest; the arrays hold for "
            "%lld tokens",
            (long long)n_tok);
    *out = pattern;
    return S2_OK;
}

static int recognises_flex(const s2_source *source)
{
    return source->doc != NULL && s2_doc_has(source->doc, "/layouts/0/kv_num_blocks") ? 92 : 0;
}

static int recognises_cute(const s2_source *source)
{
    return source->doc != NULL && s2_doc_has(source->doc, "/layouts/0/mask_block_cnt") ? 92 : 0;
}

static s2_status import_flex(const s2_source *source, s2_pattern *out)
{
    return import_as(source, &flex, out);
}

static s2_status import_cute(const s2_source *source, s2_pattern *out)
{
    return import_as(source, &cute, out);
}

const s2_format s2_format_flex = {
    .name = "flex",
    .summary = "PyTorch FlexAttention: BlockMask arrays and a Python module with the mask_mod",
    .file_name = "flex.json",
    .settings = "block (128)",
    .recognises = recognises_flex,
    .import = import_flex,
    .export = export_flex,
};

const s2_format s2_format_cute = {
    .name = "cute",
    .summary = "FlashAttention CuTe block sparsity: counts, indices and the predicate in Python",
    .file_name = "cute.json",
    .settings = "block (128)",
    .recognises = recognises_cute,
    .import = import_cute,
    .export = export_cute,
};
