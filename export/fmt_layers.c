/*
 * Per-layer windows of Hugging Face configs: layer_types with sliding_window or attention_chunk_size
 * (gpt-oss, Gemma, Llama 4), and the older forms: one sliding_window for all layers (Mistral), or every n-th
 * layer full (Gemma's _sliding_window_pattern). A window of N tokens includes the query itself.
 */
#include "export/format.h"

#include <stdio.h>
#include <string.h>

typedef enum role { FULL, SLIDING, CHUNKED, N_ROLES } role;

static const char *const role_words[N_ROLES] = {"full_attention", "sliding_attention", "chunked_attention"};

/* Multimodal configs keep the text model's fields in an object of their own. */
static const char *prefix_of(const s2_source *source)
{
    return s2_doc_has(source->doc, "/text_config/num_hidden_layers") ? "/text_config" : "";
}

static bool has(const s2_source *source, const char *prefix, const char *key)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    return s2_doc_has(source->doc, path);
}

static bool has_window(const s2_source *source, const char *prefix)
{
    return has(source, prefix, "layer_types") || has(source, prefix, "sliding_window") ||
           has(source, prefix, "attention_chunk_size");
}

/* Models whose attention is full where the config names no window. Of others nothing is known. */
static bool is_dense_model(const s2_source *source, const char *prefix)
{
    static const char *const names[] = {
        "llama", "mistral",  "mixtral",    "qwen2",       "qwen3",       "qwen2_moe", "qwen3_moe",
        "phi3",  "gemma",    "starcoder2", "deepseek_v2", "deepseek_v3", "kimi_k2",   "olmo",
        "olmo2", "olmoe",    "granite",    "granitemoe",  "stablelm",    "internlm2", "glm",
        "glm4",  "glm4_moe", "nemotron",   "cohere",      "phi",         "gpt_neox"};
    const char *const type = s2_model_type(source->doc, prefix);
    for (size_t at = 0; type != NULL && at < sizeof names / sizeof *names; at++)
        if (strcmp(type, names[at]) == 0)
            return !has_window(source, prefix);
    return false;
}

static int recognises(const s2_source *source)
{
    if (source->doc == NULL || source->doc->kind == S2_DOC_SETTINGS)
        return 0;
    const char *const prefix = prefix_of(source);
    if (!has(source, prefix, "num_attention_heads") && !s2_model_shape_is_implied(source, prefix))
        return 0;
    if (has(source, prefix, "layer_types"))
        return 80;
    return has_window(source, prefix) ? 70 : is_dense_model(source, prefix) ? 10 : 0;
}

static s2_status read_types(const s2_source *source, const char *prefix, int64_t n_layers, uint16_t *roles)
{
    char path[128];
    snprintf(path, sizeof path, "%s/layer_types", prefix);
    if (s2_doc_len(source->doc, path) != n_layers)
        return s2_doc_refuse(source->doc, path, source->diag, "layer_types has %lld entries for %lld layers",
                             (long long)s2_doc_len(source->doc, path), (long long)n_layers);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        snprintf(path, sizeof path, "%s/layer_types/%lld", prefix, (long long)layer);
        const char *const word = s2_doc_text(source->doc, path);
        int which = 0;
        while (which < N_ROLES && (word == NULL || strcmp(word, role_words[which]) != 0))
            which++;
        if (which == N_ROLES)
            return s2_doc_refuse(
                source->doc, path, source->diag,
                "a layer type must be full_attention, sliding_attention or chunked_attention");
        roles[layer] = (uint16_t)which;
    }
    return S2_OK;
}

/* Models whose code makes every n-th layer full where the config does not say so. */
static int64_t implied_every(const s2_source *source, const char *prefix)
{
    static const struct {
        const char *model;
        int64_t every;
    } implied[] = {{"gemma2", 2},      {"gemma3", 6}, {"gemma3_text", 6}, {"cohere2", 4},
                   {"llama4_text", 4}, {"llama4", 4}, {"gpt_oss", 2}};
    const char *const model = s2_model_type(source->doc, prefix);
    for (size_t n = 0; model != NULL && n < sizeof implied / sizeof *implied; n++)
        if (strcmp(model, implied[n].model) == 0)
            return implied[n].every;
    return 0;
}

/* Llama 4's list has 1 for a layer of chunks and 0 for a full one. */
static s2_status read_no_rope(const s2_source *source, const char *prefix, int64_t n_layers, uint16_t *roles)
{
    char path[128];
    snprintf(path, sizeof path, "%s/no_rope_layers", prefix);
    if (s2_doc_len(source->doc, path) != n_layers)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "no_rope_layers has %lld entries for %lld layers",
                             (long long)s2_doc_len(source->doc, path), (long long)n_layers);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        int64_t chunked;
        snprintf(path, sizeof path, "%s/no_rope_layers/%lld", prefix, (long long)layer);
        S2_TRY(s2_doc_int(source->doc, path, 0, 1, &chunked, source->diag));
        roles[layer] = chunked != 0 ? CHUNKED : FULL;
    }
    s2_note(source->notes, "layer_types is absent: no_rope_layers says which layers are full");
    return S2_OK;
}

static bool has_no_rope(const s2_source *source, const char *prefix)
{
    char path[128];
    snprintf(path, sizeof path, "%s/no_rope_layers", prefix);
    return has(source, prefix, "attention_chunk_size") && s2_doc_len(source->doc, path) > 0;
}

/* Configs without layer_types: every n-th layer full, or all layers alike. */
static s2_status derive_types(const s2_source *source, const char *prefix, int64_t n_layers, uint16_t *roles)
{
    char path[128];
    int64_t every = 0;
    const bool chunked = has(source, prefix, "attention_chunk_size");
    snprintf(path, sizeof path, "%s/%s", prefix,
             has(source, prefix, "_sliding_window_pattern") ? "_sliding_window_pattern"
                                                            : "sliding_window_pattern");
    S2_TRY(s2_doc_int_or(source->doc, path, 1, S2_LIMIT_LAYERS, implied_every(source, prefix), &every,
                         source->diag));
    S2_TRY(s2_setting_int(&source->settings, "full-every", 0, S2_LIMIT_LAYERS, every, &every, source->diag));
    for (int64_t layer = 0; layer < n_layers; layer++)
        roles[layer] = every > 0 && (layer + 1) % every == 0 ? FULL : chunked ? CHUNKED : SLIDING;
    s2_note(source->notes,
            every > 0
                ? "layer_types is absent: one layer in %lld is full, by the config or by what models of this "
                  "model_type do (--set full-every=N)"
                : "layer_types is absent: all layers use the window (--set full-every=N)",
            (long long)every);
    return S2_OK;
}

static s2_status read_size(const s2_source *source, const char *prefix, const char *key, bool needed,
                           int64_t *out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    if (needed)
        return s2_doc_int(source->doc, path, 1, S2_LIMIT_CONTEXT_TOK, out, source->diag);
    *out = 1;
    return S2_OK;
}

static s2_status is_window_used(const s2_source *source, const char *prefix, bool *out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/use_sliding_window", prefix);
    return s2_doc_bool_or(source->doc, path, true, out, source->diag);
}

/* Layers below max_window_layers are full. */
static s2_status read_first_window(const s2_source *source, const char *prefix, int64_t n_layers,
                                   uint16_t *roles)
{
    char path[128];
    int64_t from;
    snprintf(path, sizeof path, "%s/max_window_layers", prefix);
    S2_TRY(s2_doc_int_or(source->doc, path, 0, INT32_MAX, 0, &from, source->diag));
    if (from > 0)
        s2_note(source->notes, "max_window_layers: layers below %lld are full", (long long)from);
    for (int64_t layer = 0; layer < n_layers && layer < from; layer++)
        roles[layer] = FULL;
    return S2_OK;
}

/* What the config says, else what the code of its model_type does; FULL where nothing else is said. */
static s2_status read_roles(const s2_source *source, const char *prefix, int64_t n_layers, uint16_t *roles)
{
    bool used;
    S2_TRY(is_window_used(source, prefix, &used));
    if (has(source, prefix, "layer_types"))
        return read_types(source, prefix, n_layers, roles);
    if (has_no_rope(source, prefix))
        return read_no_rope(source, prefix, n_layers, roles);
    if (is_dense_model(source, prefix)) {
        s2_note(source->notes,
                "no field of a window or of sparse attention is known here: every layer is full");
        return S2_OK;
    }
    if (!used) {
        s2_note(source->notes, "use_sliding_window is false: every layer is full");
        return S2_OK;
    }
    S2_TRY(derive_types(source, prefix, n_layers, roles));
    return read_first_window(source, prefix, n_layers, roles);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_model_shape shape;
    int64_t window_tok, chunk_tok;
    bool uses[N_ROLES] = {false};
    s2_buf text = {0};
    char bodies_text[N_ROLES][48];
    if (source->doc == NULL)
        return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 0, 0, "a JSON config is expected");
    const char *const prefix = prefix_of(source);
    S2_TRY(s2_model_shape_read(source, prefix, &shape));
    S2_TRY(s2_model_latent_read(source, prefix, &shape));
    if (s2_model_shape_is_implied(source, prefix) && !has(source, prefix, "num_attention_heads"))
        s2_note(source->notes,
                "num_attention_heads is absent: %lld on %lld of %lld, as the code of this model_type has it",
                (long long)shape.n_heads, (long long)shape.n_kv_heads, (long long)shape.head_dim);
    uint16_t *const roles = S2_NEW(source->arena, uint16_t, shape.n_layers);
    if (roles == NULL)
        return S2_ENOMEM;
    S2_TRY(read_roles(source, prefix, shape.n_layers, roles));
    for (int64_t layer = 0; layer < shape.n_layers; layer++)
        uses[roles[layer]] = true;
    S2_TRY(read_size(source, prefix, "sliding_window", uses[SLIDING], &window_tok));
    S2_TRY(read_size(source, prefix, "attention_chunk_size", uses[CHUNKED], &chunk_tok));
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, 64);
    snprintf(bodies_text[SLIDING], sizeof bodies_text[0], "local %lldt", (long long)window_tok);
    snprintf(bodies_text[CHUNKED], sizeof bodies_text[0], "chunk %lldt", (long long)chunk_tok);
    const char *const bodies[N_ROLES] = {"dense", bodies_text[SLIDING], bodies_text[CHUNKED]};
    s2_language_roles(&text, "", "heads", (int32_t)shape.n_layers, 1, roles, bodies, N_ROLES);
    if (uses[SLIDING] || uses[CHUNKED])
        s2_note(
            source->notes,
            "a window of N tokens includes the query itself; chunks are aligned to multiples of their size");
    return s2_language_parse(source, &text, out);
}

/* ---- out ---------------------------------------------------------------------------------------- */

static bool layer_role(const s2_pattern *pattern, int32_t layer, role *out, int64_t *size_tok)
{
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, 0)];
    const s2_term *const term = &body->terms[0];
    if (body->n_terms != 1)
        return false;
    *size_tok = term->n * (term->tok ? 1 : pattern->block_tok);
    *out = term->kind == S2_TERM_DENSE ? FULL : term->kind == S2_TERM_CHUNK ? CHUNKED : SLIDING;
    return term->kind == S2_TERM_DENSE || term->kind == S2_TERM_CHUNK ||
           (term->kind == S2_TERM_LOCAL && term->tok);
}

static s2_status export(const s2_target *target)
{
    const s2_pattern *const pattern = target->pattern;
    int64_t size_tok[N_ROLES] = {0};
    s2_buf buf = {0};
    s2_buf_puts(&buf, "{\n");
    s2_model_shape_print(&buf, pattern, "  ");
    s2_buf_puts(&buf, "  \"layer_types\": [");
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        role which;
        int64_t tok;
        if (!layer_role(pattern, layer, &which, &tok)) {
            s2_buf_release(&buf);
            return s2_target_refuse(target, "layer %d is not full, a window in tokens, or aligned chunks",
                                    layer);
        }
        size_tok[which] = size_tok[which] != 0 ? size_tok[which] : tok;
        s2_buf_printf(&buf, "%s\"%s\"", layer != 0 ? ", " : "", role_words[which]);
    }
    s2_buf_puts(&buf, "],\n");
    if (size_tok[SLIDING] > 0)
        s2_buf_printf(&buf, "  \"sliding_window\": %lld,\n", (long long)size_tok[SLIDING]);
    if (size_tok[CHUNKED] > 0)
        s2_buf_printf(&buf, "  \"attention_chunk_size\": %lld,\n", (long long)size_tok[CHUNKED]);
    s2_provenance_print(&buf, target, "  ");
    s2_buf_puts(&buf, "}\n");
    return s2_fileset_add_buf(target->files, "config.json", &buf);
}

const s2_format s2_format_layers = {
    .name = "layers",
    .summary = "HF layer_types, sliding_window, attention_chunk_size (gpt-oss, Gemma, Mistral, Llama 4)",
    .file_name = "config.json",
    .settings = "full-every, layers, heads, kv-heads, head-dim",
    .recognises = recognises,
    .import = import,
    .export = export,
};
