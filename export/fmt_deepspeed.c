/*
 * DeepSpeed's "sparse_attention": dense, fixed, variable, bigbird, bslongformer. Chunks are aligned, not a
 * sliding window; the reader there drops "attention" for bigbird and bslongformer, so those are always
 * bidirectional.
 */
#include "export/format.h"
#include "export/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

#define AT "/sparse_attention"

typedef struct layout {
    int64_t block_tok;
    int64_t local, n_global, n_patterns;
    int64_t n_random, window;
    bool per_head, causal, rows_too;
} layout;

static const char *holder(const s2_source *source)
{
    if (source->doc == NULL)
        return NULL;
    if (s2_doc_text(source->doc, AT "/mode") != NULL)
        return AT;
    return s2_doc_text(source->doc, "/mode") != NULL &&
                   (s2_doc_has(source->doc, "/num_local_blocks") ||
                    s2_doc_has(source->doc, "/num_sliding_window_blocks") ||
                    s2_doc_has(source->doc, "/different_layout_per_head"))
               ? ""
               : NULL;
}

static int recognises(const s2_source *source)
{
    return holder(source) != NULL ? 85 : 0;
}

static s2_status read_int(const s2_source *source, const char *root, const char *key, int64_t low,
                          int64_t high, int64_t fallback, int64_t *out)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", root, key);
    return s2_doc_int_or(source->doc, path, low, high, fallback, out, source->diag);
}

static s2_status read_layout(const s2_source *source, const char *root, const char *mode, layout *out)
{
    enum { MOST = 1 << 16 };
    char path[96];
    layout result = {0};
    S2_TRY(read_int(source, root, "block", 1, S2_LIMIT_BLOCK_TOK, 16, &result.block_tok));
    snprintf(path, sizeof path, "%s/block", root);
    if (!s2_is_power_of_two(result.block_tok))
        return s2_doc_refuse(source->doc, path, source->diag, "block must be a power of two");
    S2_TRY(read_int(source, root, "num_local_blocks", 1, MOST, 4, &result.local));
    S2_TRY(read_int(source, root, "num_global_blocks", 0, MOST, 1, &result.n_global));
    S2_TRY(read_int(source, root, "num_different_global_patterns", 1, MOST, 1, &result.n_patterns));
    S2_TRY(read_int(source, root, "num_random_blocks", 0, MOST, 0, &result.n_random));
    S2_TRY(read_int(source, root, "num_sliding_window_blocks", 1, MOST, 3, &result.window));
    snprintf(path, sizeof path, "%s/different_layout_per_head", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &result.per_head, source->diag));
    snprintf(path, sizeof path, "%s/horizontal_global_attention", root);
    S2_TRY(s2_doc_bool_or(source->doc, path, false, &result.rows_too, source->diag));
    if (result.n_patterns > 1 && !result.per_head && strcmp(mode, "fixed") == 0) {
        snprintf(path, sizeof path, "%s/num_different_global_patterns", root);
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "DeepSpeed refuses more than one pattern where different_layout_per_head is false");
    }
    snprintf(path, sizeof path, "%s/attention", root);
    const char *const attention = s2_doc_text(source->doc, path);
    const bool dropped = strcmp(mode, "bigbird") == 0 || strcmp(mode, "bslongformer") == 0;
    result.causal = attention != NULL && strcmp(attention, "unidirectional") == 0 && !dropped;
    if (attention != NULL && !result.causal && strcmp(attention, "unidirectional") != 0 &&
        strcmp(attention, "bidirectional") != 0)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "attention must be unidirectional or bidirectional");
    if (attention != NULL && dropped)
        s2_note(source->notes,
                "DeepSpeed's reader does not pass \"attention\" on for %s: it is bidirectional whatever the "
                "file says",
                mode);
    if (result.rows_too && result.causal) {
        snprintf(path, sizeof path, "%s/horizontal_global_attention", root);
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "DeepSpeed refuses horizontal_global_attention where attention is unidirectional");
    }
    *out = result;
    return S2_OK;
}

/* The global columns of head class p: width G, starting (1 + p) * G before the end of each chunk. */
static void fixed_body(const layout *shape, int64_t p, s2_buf *text)
{
    const int64_t begin = shape->local - (1 + p) * shape->n_global;
    s2_buf_printf(text, "chunk %lld", (long long)shape->local);
    if (shape->n_global == 0)
        return;
    s2_buf_printf(text, " | stride %lld width %lld phase %lld", (long long)shape->local,
                  (long long)shape->n_global, (long long)((shape->local - begin) % shape->local));
    for (int64_t g = 0; shape->rows_too && g < shape->n_global; g++)
        s2_buf_printf(text, " | rows %lld::%lld", (long long)(begin + g), (long long)shape->local);
}

static s2_status fixed_rules(const s2_source *source, const char *root, const layout *shape, int64_t n_heads,
                             s2_buf *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/num_global_blocks", root);
    if (shape->n_global == 0 || shape->local % shape->n_global != 0)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "DeepSpeed wants num_global_blocks to divide num_local_blocks, %lld",
                             (long long)shape->local);
    snprintf(path, sizeof path, "%s/num_different_global_patterns", root);
    if (shape->n_patterns * shape->n_global > shape->local)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "%lld patterns of %lld global blocks do not fit %lld local blocks",
                             (long long)shape->n_patterns, (long long)shape->n_global,
                             (long long)shape->local);
    const int64_t n_classes = shape->per_head && shape->n_patterns < n_heads ? shape->n_patterns
                              : shape->per_head                              ? n_heads
                                                                             : 1;
    for (int64_t p = 0; p < n_classes; p++) {
        s2_buf_printf(text, "heads %lld::%lld: ", (long long)p, (long long)n_classes);
        fixed_body(shape, p, text);
        s2_buf_puts(text, "\n");
    }
    s2_note(source->notes,
            "chunks are aligned multiples of %lld blocks; a last short chunk is clamped upstream, so lengths "
            "that are not a multiple of %lld tokens differ there",
            (long long)shape->local, (long long)(shape->local * shape->block_tok));
    return S2_OK;
}

/* global_block_indices with optional ends, as columns (and rows). */
static s2_status global_terms(const s2_source *source, const char *root, const layout *shape, s2_buf *text)
{
    char path[128], ends[128];
    s2_buf list = {0};
    snprintf(path, sizeof path, "%s/global_block_indices", root);
    snprintf(ends, sizeof ends, "%s/global_block_end_indices", root);
    const bool has_list = s2_doc_has(source->doc, path), has_ends = s2_doc_has(source->doc, ends);
    const int64_t n = has_list ? s2_doc_len(source->doc, path) : 1;
    s2_status status = S2_OK;
    if (n < 0 || n > 1024 || (has_ends && s2_doc_len(source->doc, ends) != n))
        return s2_doc_refuse(source->doc, has_ends ? ends : path, source->diag,
                             "expected a list of at most 1024 indices");
    for (int64_t g = 0; g < n && status == S2_OK; g++) {
        char entry[160];
        int64_t begin = 0, end;
        snprintf(entry, sizeof entry, "%s/%lld", path, (long long)g);
        if (has_list)
            status = s2_doc_int(source->doc, entry, 0, 1 << 20, &begin, source->diag);
        end = begin + 1;
        snprintf(entry, sizeof entry, "%s/%lld", ends, (long long)g);
        if (status == S2_OK && has_ends)
            status = s2_doc_int(source->doc, entry, begin + 1, 1 << 20, &end, source->diag);
        s2_buf_printf(&list, "%s%lld", g != 0 ? "," : "", (long long)begin);
        if (end > begin + 1)
            s2_buf_printf(&list, "-%lld", (long long)(end - 1));
    }
    if (status == S2_OK && n > 0)
        s2_buf_printf(text, " | columns %s", s2_part_of(text, &list));
    if (status == S2_OK && n > 0 && shape->rows_too)
        s2_buf_printf(text, " | rows %s", s2_part_of(text, &list));
    s2_buf_release(&list);
    return status;
}

static void random_term(const s2_source *source, const layout *shape, s2_buf *text)
{
    if (shape->n_random == 0)
        return;
    s2_buf_printf(text, " | random %lld seed 1", (long long)shape->n_random);
    s2_note(source->notes, "random blocks: DeepSpeed draws them from an unseeded generator, so no two runs "
                           "agree; here they are drawn by seed 1");
}

static s2_status variable_rules(const s2_source *source, const char *root, const layout *shape, s2_buf *text)
{
    char path[128];
    int64_t begin = 0, size = 4;
    snprintf(path, sizeof path, "%s/local_window_blocks", root);
    const int64_t n = s2_doc_has(source->doc, path) ? s2_doc_len(source->doc, path) : 0;
    if (n < 0 || n > 256)
        return s2_doc_refuse(source->doc, path, source->diag, "expected a list of at most 256 windows");
    s2_buf_puts(text, "layers all: ");
    for (int64_t w = 0; w < n; w++) {
        char entry[160];
        snprintf(entry, sizeof entry, "%s/%lld", path, (long long)w);
        S2_TRY(s2_doc_int(source->doc, entry, 1, 1 << 16, &size, source->diag));
        if (w + 1 < n)
            s2_buf_printf(text, "dense when key %lld..%lld & query %lld..%lld | ", (long long)begin,
                          (long long)(begin + size), (long long)begin, (long long)(begin + size));
        begin += w + 1 < n ? size : 0;
    }
    if (begin % size != 0)
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "the last window (%lld blocks) repeats from block %lld on, which no aligned chunk can say",
            (long long)size, (long long)begin);
    s2_buf_printf(text, "chunk %lld when query %lld..", (long long)size, (long long)begin);
    S2_TRY(global_terms(source, root, shape, text));
    random_term(source, shape, text);
    s2_buf_puts(text, "\n");
    return S2_OK;
}

static s2_status sliding_rules(const s2_source *source, const char *root, const char *mode, layout *shape,
                               s2_buf *text)
{
    s2_buf_printf(text, "layers all: local %lld", (long long)(shape->window / 2 + 1));
    if (strcmp(mode, "bigbird") == 0) {
        if (shape->n_global > 0)
            s2_buf_printf(text, " | columns 0-%lld | rows 0-%lld", (long long)(shape->n_global - 1),
                          (long long)(shape->n_global - 1));
        random_term(source, shape, text);
    } else {
        shape->rows_too = true;
        S2_TRY(global_terms(source, root, shape, text));
    }
    s2_buf_puts(text, "\n");
    return S2_OK;
}

static s2_status rules(const s2_source *source, const char *root, const char *mode, layout *shape,
                       int64_t n_heads, s2_buf *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/mode", root);
    if (strcmp(mode, "dense") == 0)
        s2_buf_puts(text, "layers all: dense\n");
    else if (strcmp(mode, "fixed") == 0)
        return fixed_rules(source, root, shape, n_heads, text);
    else if (strcmp(mode, "variable") == 0)
        return variable_rules(source, root, shape, text);
    else if (strcmp(mode, "bigbird") == 0 || strcmp(mode, "bslongformer") == 0)
        return sliding_rules(source, root, mode, shape, text);
    else
        return s2_doc_refuse(source->doc, path, source->diag,
                             "mode must be dense, fixed, variable, bigbird or bslongformer");
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    layout shape;
    int64_t n_layers, n_heads, head_dim;
    s2_buf text = {0};
    const char *const root = holder(source);
    S2_TRY(s2_source_needs(source, root != NULL, "\"sparse_attention\": {\"mode\": ...}"));
    char path[96];
    snprintf(path, sizeof path, "%s/mode", root);
    const char *const mode = s2_doc_text(source->doc, path);
    S2_TRY(read_layout(source, root, mode, &shape));
    S2_TRY(s2_doc_int_or(source->doc, "/model/num_attention_heads", 1, S2_LIMIT_HEADS, 0, &n_heads,
                         source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/model/num_hidden_layers", 1, S2_LIMIT_LAYERS, 1, &n_layers,
                         source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/model/head_dim", 1, S2_LIMIT_HEAD_DIM, 128, &head_dim, source->diag));
    const int64_t fallback = n_heads != 0 ? n_heads : shape.n_patterns > 1 ? shape.n_patterns : 8;
    if (n_heads == 0 && s2_setting_text(&source->settings, "heads") == NULL)
        s2_note(source->notes,
                "the file does not say how many heads the model has; %lld are assumed (--set heads=N)",
                (long long)fallback);
    S2_TRY(s2_setting_int(&source->settings, "heads", 1, S2_LIMIT_HEADS, fallback, &n_heads, source->diag));
    S2_TRY(
        s2_setting_int(&source->settings, "layers", 1, S2_LIMIT_LAYERS, n_layers, &n_layers, source->diag));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_heads, head_dim, shape.block_tok);
    if (!shape.causal)
        s2_buf_puts(&text, "causal no\n");
    const s2_status status = rules(source, root, mode, &shape, n_heads, &text);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return status;
    }
    return s2_language_parse(source, &text, out);
}

/* ---- out: mode fixed, unidirectional or bidirectional ------------------------------------------- */

/* chunk L | stride L width G phase P of one head; false for any other body. */
static bool fixed_form(const s2_body *body, int32_t head, int64_t *local, int64_t *n_global, int64_t *phase)
{
    *local = *n_global = *phase = 0;
    for (int32_t t = 0; t < body->n_terms; t++) {
        const s2_term *const term = &body->terms[t];
        if (term->kind == S2_TERM_CHUNK && !term->tok)
            *local = term->n;
        else if (term->kind == S2_TERM_STRIDE && !term->tok && term->offset.layer_coef == 0) {
            *n_global = term->width;
            *phase =
                (term->offset.constant + (term->offset.head_coef + term->offset.kv_coef) * head) % term->n;
        } else if (term->kind != S2_TERM_ROWS)
            return false;
    }
    return *local > 0;
}

/* Chunks alone: mode fixed divides by its number of global blocks, mode variable takes an empty list. */
static void print_chunks(s2_buf *buf, const s2_pattern *pattern, int64_t local)
{
    s2_buf_printf(buf, "{\n  \"sparse_attention\": {\n    \"mode\": \"variable\",\n    \"block\": %d,\n",
                  pattern->block_tok);
    s2_buf_printf(buf, "    \"num_random_blocks\": 0,\n    \"local_window_blocks\": [%lld],\n",
                  (long long)local);
    s2_buf_printf(buf, "    \"global_block_indices\": [],\n    \"attention\": \"%s\"\n  },\n",
                  pattern->causal ? "unidirectional" : "bidirectional");
}

static void print_fixed(s2_buf *buf, const s2_pattern *pattern, int64_t local, int64_t n_global,
                        int64_t distinct, bool rows_too)
{
    s2_buf_printf(buf, "{\n  \"sparse_attention\": {\n    \"mode\": \"fixed\",\n    \"block\": %d,\n",
                  pattern->block_tok);
    s2_buf_printf(buf, "    \"different_layout_per_head\": %s,\n    \"num_local_blocks\": %lld,\n",
                  distinct > 1 ? "true" : "false", (long long)local);
    s2_buf_printf(buf, "    \"num_global_blocks\": %lld,\n    \"attention\": \"%s\",\n", (long long)n_global,
                  pattern->causal ? "unidirectional" : "bidirectional");
    s2_buf_printf(
        buf, "    \"horizontal_global_attention\": %s,\n    \"num_different_global_patterns\": %lld\n  },\n",
        rows_too ? "true" : "false", (long long)distinct);
}

static s2_status export(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    int64_t local, n_global, phase, distinct = 0;
    bool rows_too = false;
    s2_buf buf = {0};
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, 0, 0)];
    if (!fixed_form(body, 0, &local, &n_global, &phase))
        return s2_target_refuse(
            target, "layer 0 head 0 is not of the form chunk L | stride L width G phase P in blocks");
    for (int32_t t = 0; t < body->n_terms; t++)
        rows_too |= body->terms[t].kind == S2_TERM_ROWS;
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        int64_t other_local, other_global, other_phase;
        const s2_body *const other = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, 0, head)];
        if (!fixed_form(other, head, &other_local, &other_global, &other_phase) || other_local != local)
            return s2_target_refuse(target, "head %d is not of the same form as head 0", head);
        if (head > 0 && distinct == 0 && other_phase == phase)
            distinct = head;
    }
    distinct = distinct != 0 ? distinct : pattern->n_heads;
    if (pattern->n_kv_heads != pattern->n_heads)
        return s2_target_refuse(target, "DeepSpeed's sparse attention has as many KV heads as query heads");
    if (n_global > 0 && local % n_global != 0)
        return s2_target_refuse(target,
                                "DeepSpeed wants num_global_blocks, %lld, to divide num_local_blocks, %lld",
                                (long long)n_global, (long long)local);
    if (n_global > 0 && rows_too && pattern->causal)
        return s2_target_refuse(
            target, "DeepSpeed refuses horizontal_global_attention where attention is unidirectional");
    if (n_global == 0)
        print_chunks(&buf, pattern, local);
    else
        print_fixed(&buf, pattern, local, n_global, distinct, rows_too);
    s2_buf_puts(&buf, "  \"model\": {\n");
    s2_model_shape_print(&buf, pattern, "    ");
    s2_buf_puts(&buf, "    \"causal_lm\": ");
    s2_buf_puts(&buf, pattern->causal ? "true\n  },\n" : "false\n  },\n");
    s2_provenance_print(&buf, target, "  ");
    s2_buf_puts(&buf, "}\n");
    s2_note(target->notes, "DeepSpeed applies one layout to all layers");
    return s2_fileset_add_buf(target->files, "deepspeed.json", &buf);
}

const s2_format s2_format_deepspeed = {
    .name = "deepspeed",
    .summary = "DeepSpeed sparse_attention JSON (dense, fixed, variable, bigbird, bslongformer); written as "
               "fixed, chunks alone as variable",
    .file_name = "deepspeed.json",
    .per_gpu = true,
    .settings = "heads, layers (1)",
    .recognises = recognises,
    .read = import,
    .write = export,
};
