/*
 * MInference best-pattern files: per layer and query head a kind and two sizes, for prefill only. The same
 * shape is the sparse_attention_config of dual-chunk models (Qwen2.5-1M).
 *
 * vertical_and_slash (v, s) chooses v columns and s diagonals at run time; the kernel forces the first 30
 * columns and the 100 most recent diagonals. Here it becomes the forced part, `heavy` for the other columns
 * (the keys with most attention from the last queries) and `topk` for the other diagonals.
 */
#include "export/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

enum { PROBE_ROWS = 64 }; /* last_q of its kernels */
enum { FORCED_COLUMNS = 30, FORCED_DIAGONALS = 100, LEAST_SLASH = 50, BLOCK_TOK = 64, POOL_BLOCKS = 100 };

static const char *const kinds[] = {"vertical_and_slash", "stream_llm", "a_shape", "block_sparse"};
enum kind { VSLASH, STREAM, A_SHAPE, BLOCK_SPARSE, N_KINDS };

static bool is_entry(const s2_doc *doc, const char *path)
{
    char first[256];
    snprintf(first, sizeof first, "%s/0", path);
    return s2_doc_len(doc, path) >= 3 && s2_doc_text(doc, first) != NULL;
}

/* The list of layers: the whole file, or a member of a config. */
static const char *holder(const s2_source *source)
{
    static const char *const places[] = {"", "/sparse_attention_config",
                                         "/dual_chunk_attention_config/sparse_attention_config"};
    for (size_t n = 0; source->doc != NULL && n < sizeof places / sizeof *places; n++) {
        char path[128];
        snprintf(path, sizeof path, "%s/0/0", places[n]);
        if (s2_doc_is_array(source->doc, places[n]) && is_entry(source->doc, path))
            return places[n];
    }
    return NULL;
}

static int recognises(const s2_source *source)
{
    return holder(source) != NULL ? 95 : 0;
}

static void vslash_body(int64_t columns, int64_t diagonals, s2_buf *body)
{
    const int64_t v = s2_max_i64(columns, FORCED_COLUMNS);
    const int64_t s = s2_max_i64(diagonals, LEAST_SLASH);
    s2_buf_printf(body, "sink %dt | local %lldt", FORCED_COLUMNS, (long long)s2_min_i64(s, FORCED_DIAGONALS));
    if (v > FORCED_COLUMNS)
        s2_buf_printf(body, " | heavy %lld", (long long)(v - FORCED_COLUMNS));
    if (s > FORCED_DIAGONALS)
        s2_buf_printf(body, " | topk %lld", (long long)(s - FORCED_DIAGONALS));
}

/* The body of one entry ["kind", a, b, score]. */
static s2_status entry_body(const s2_source *source, const char *path, s2_buf *body)
{
    char element[240];
    int64_t a, b;
    int which = 0;
    snprintf(element, sizeof element, "%s/0", path);
    const char *const word = s2_doc_text(source->doc, element);
    while (which < N_KINDS && (word == NULL || strcmp(word, kinds[which]) != 0))
        which++;
    if (which == N_KINDS)
        return s2_doc_refuse(source->doc, element, source->diag,
                             "expected vertical_and_slash, stream_llm, a_shape or block_sparse");
    snprintf(element, sizeof element, "%s/1", path);
    S2_TRY(s2_doc_int(source->doc, element, 0, S2_LIMIT_CONTEXT_TOK, &a, source->diag));
    snprintf(element, sizeof element, "%s/2", path);
    S2_TRY(s2_doc_int(source->doc, element, which == STREAM || which == A_SHAPE ? 1 : 0, S2_LIMIT_CONTEXT_TOK,
                      &b, source->diag));
    if (which == VSLASH)
        vslash_body(a, b, body);
    else if (which == BLOCK_SPARSE)
        s2_buf_printf(body, "pages %d page %d", POOL_BLOCKS, BLOCK_TOK);
    else if (a > 0)
        s2_buf_printf(body, "sink %lldt | local %lldt", (long long)a, (long long)b);
    else
        s2_buf_printf(body, "local %lldt", (long long)b);
    return body->status;
}

/* Distinct bodies found so far, each at least one rule. A slot holds the index of a body + 1; 0: free. */
typedef struct role_list {
    const char *body[S2_LIMIT_RULES];
    int32_t n;
    uint16_t slot[4 * S2_LIMIT_RULES];
} role_list;

static uint16_t *slot_of(role_list *roles, const char *body)
{
    enum { N_SLOTS = sizeof roles->slot / sizeof roles->slot[0] };
    uint32_t slot = 0;
    for (const char *c = body; *c != '\0'; c++)
        slot = slot * 31 + (unsigned char)*c;
    for (slot = (slot * UINT32_C(2654435769)) % N_SLOTS;
         roles->slot[slot] != 0 && strcmp(roles->body[roles->slot[slot] - 1], body) != 0;)
        slot = (slot + 1) % N_SLOTS;
    return &roles->slot[slot];
}

static s2_status role_of(const s2_source *source, const char *path, role_list *roles, const s2_buf *body,
                         uint16_t *out)
{
    uint16_t *const slot = slot_of(roles, body->data);
    if (*slot == 0) {
        if (roles->n == S2_LIMIT_RULES)
            return s2_doc_refuse(source->doc, path, source->diag, "more than %d different entries",
                                 S2_LIMIT_RULES);
        const char *const kept = s2_arena_strndup(source->arena, body->data, body->len);
        if (kept == NULL)
            return S2_ENOMEM;
        roles->body[roles->n++] = kept;
        *slot = (uint16_t)roles->n;
    }
    *out = (uint16_t)(*slot - 1);
    return S2_OK;
}

static s2_status read_layer(const s2_source *source, const char *root, int64_t layer, int64_t n_heads,
                            role_list *roles, uint16_t *out)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%lld", root, (long long)layer);
    if (s2_doc_is_array(source->doc, path) || s2_doc_len(source->doc, path) != n_heads)
        return s2_doc_refuse(source->doc, path, source->diag, "layer %lld must be an object with %lld heads",
                             (long long)layer, (long long)n_heads);
    for (int64_t head = 0; head < n_heads; head++) {
        s2_buf body = {0};
        snprintf(path, sizeof path, "%s/%lld/%lld", root, (long long)layer, (long long)head);
        s2_status status =
            is_entry(source->doc, path)
                ? entry_body(source, path, &body)
                : s2_doc_refuse(source->doc, path, source->diag,
                                "head \"%lld\" must be [\"kind\", size, size, score]", (long long)head);
        if (status == S2_OK)
            status = role_of(source, path, roles, &body, &out[head]);
        s2_buf_release(&body);
        S2_TRY(status);
    }
    return S2_OK;
}

static s2_status read_shape(const s2_source *source, const char *root, int64_t *n_layers, int64_t *n_heads,
                            int64_t *n_kv)
{
    char path[128];
    snprintf(path, sizeof path, "%s/0", root);
    *n_layers = s2_doc_len(source->doc, root);
    *n_heads = s2_doc_len(source->doc, path);
    if (*n_layers > S2_LIMIT_LAYERS || *n_heads > S2_LIMIT_HEADS)
        return s2_doc_refuse(source->doc, root, source->diag, "at most %d layers of %d heads",
                             S2_LIMIT_LAYERS, S2_LIMIT_HEADS);
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, *n_heads, *n_heads, n_kv, source->diag));
    if (s2_setting_text(&source->settings, "kv-heads") == NULL)
        s2_note(source->notes,
                "the file counts query heads; as many KV heads are assumed (--set kv-heads=N)");
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    const char *const root = holder(source);
    int64_t n_layers, n_heads, n_kv, head_dim, first_layer;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, root != NULL, "a list of layers, each an object of heads"));
    S2_TRY(read_shape(source, root, &n_layers, &n_heads, &n_kv));
    S2_TRY(s2_setting_int(&source->settings, "head-dim", 1, S2_LIMIT_HEAD_DIM, 128, &head_dim, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "starting-layer", 0, n_layers, 0, &first_layer, source->diag));
    uint16_t *const role = S2_NEW(source->arena, uint16_t, n_layers * n_heads);
    role_list *const roles = S2_NEW(source->arena, role_list, 1);
    if (role == NULL || roles == NULL)
        return S2_ENOMEM;
    for (int64_t layer = 0; layer < n_layers; layer++)
        S2_TRY(read_layer(source, root, layer, n_heads, roles, role + layer * n_heads));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_kv, head_dim, BLOCK_TOK);
    s2_buf_puts(&text, "decode layers all: dense\n");
    s2_language_roles(&text, "prefill ", "heads", (int32_t)n_layers, (int32_t)n_heads, role, roles->body,
                      roles->n);
    if (first_layer > 0)
        s2_buf_printf(&text, "layers 0-%lld: dense\n", (long long)(first_layer - 1));
    s2_note(source->notes, "prefill only; decode is dense and no KV is freed");
    s2_note(source->notes,
            "vertical_and_slash (v, s): the first %d columns and the last %d diagonals are forced, the other "
            "v - %d columns are `heavy`, the other s - %d diagonals `topk`: budgets, since the choice is "
            "made at run time",
            FORCED_COLUMNS, FORCED_DIAGONALS, FORCED_COLUMNS, FORCED_DIAGONALS);
    s2_note(source->notes,
            "the kernel works on %d x %d tiles and reads more than the budget; block_sparse is the %d best "
            "blocks of %d tokens",
            BLOCK_TOK, BLOCK_TOK, POOL_BLOCKS, BLOCK_TOK);
    S2_TRY(s2_language_parse(source, &text, out));
    static const s2_computed computed = {.probe_rows = PROBE_ROWS, .pool_tok = BLOCK_TOK};
    out->computed = &computed;
    return S2_OK;
}

/* ---- out ---------------------------------------------------------------------------------------- */

typedef struct sizes {
    int64_t sink_tok, local_tok, heavy, topk;
    bool pages;
} sizes;

static bool body_sizes(const s2_body *body, int32_t block_tok, sizes *out)
{
    *out = (sizes){0};
    for (int32_t t = 0; t < body->n_terms; t++) {
        const s2_term *const term = &body->terms[t];
        if (term->kind == S2_TERM_SINK)
            out->sink_tok = term->n * (term->tok ? 1 : block_tok);
        else if (term->kind == S2_TERM_LOCAL && term->tok)
            out->local_tok = term->n;
        else if (term->kind == S2_TERM_HEAVY)
            out->heavy = term->n;
        else if (term->kind == S2_TERM_TOPK)
            out->topk = term->n;
        else if (term->kind == S2_TERM_PAGES && term->n == POOL_BLOCKS && term->page_tok == BLOCK_TOK)
            out->pages = true;
        else
            return false;
    }
    return true;
}

static bool print_entry(const s2_body *body, int32_t block_tok, s2_buf *buf)
{
    sizes size;
    if (!body_sizes(body, block_tok, &size))
        return false;
    if (size.pages)
        s2_buf_printf(buf, "[\"block_sparse\", %d, %d, 1]", 1000, 6096);
    else if (size.heavy > 0 || size.topk > 0 ||
             (size.sink_tok == FORCED_COLUMNS && size.local_tok <= FORCED_DIAGONALS))
        s2_buf_printf(buf, "[\"vertical_and_slash\", %lld, %lld, 1]",
                      (long long)(size.heavy + FORCED_COLUMNS), (long long)(size.topk + size.local_tok));
    else if (size.local_tok > 0)
        s2_buf_printf(buf, "[\"stream_llm\", %lld, %lld, 1]", (long long)size.sink_tok,
                      (long long)size.local_tok);
    else
        return false;
    return true;
}

static s2_status export(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    s2_buf buf = {0};
    s2_buf_puts(&buf, "[");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        s2_buf_puts(&buf, layer != 0 ? ",\n{" : "{");
        for (int32_t head = 0; head < pattern->n_heads; head++) {
            const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, head)];
            s2_buf_printf(&buf, "%s\"%d\": ", head != 0 ? ", " : "", head);
            if (!print_entry(body, pattern->block_tok, &buf)) {
                s2_buf_release(&buf);
                return s2_target_refuse(
                    target, "layer %d head %d is not vertical_and_slash, stream_llm or block_sparse", layer,
                    head);
            }
        }
        s2_buf_puts(&buf, "}");
    }
    s2_buf_puts(&buf, "]\n");
    s2_note(target->notes, "the file holds prefill and query heads only; scores are written as 1");
    if (pattern->n_kv_heads != pattern->n_heads)
        s2_note(target->notes, "KV heads are not in this format: read it back with --set kv-heads=%d",
                pattern->n_kv_heads);
    return s2_fileset_add_buf(target->files, "best_pattern.json", &buf);
}

const s2_format s2_format_minference = {
    .name = "minference",
    .summary = "MInference best-pattern JSON, also sparse_attention_config of dual-chunk models",
    .file_name = "best_pattern.json",
    .settings = "kv-heads, head-dim (128), starting-layer (0)",
    .recognises = recognises,
    .read = import,
    .write = export,
};
