/*
 * Per-layer windows of Hugging Face configs, by the rule of their model_type: layer_types with sliding_window
 * or attention_chunk_size (gpt-oss, Gemma, Llama 4), one window for all layers (Mistral), or none.
 */
#include <stdio.h>
#include <string.h>

#include "export/model.h"

static bool has(const s2_source *source, const char *prefix, const char *key)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", prefix, key);
    return s2_doc_has(source->doc, path);
}

static bool has_heads(const s2_source *source, const char *prefix)
{
    static const char *const keys[] = {"num_attention_heads",
                                       "n_head",
                                       "n_heads",
                                       "num_heads",
                                       "decoder_attention_heads",
                                       "attention_heads",
                                       "num_decoder_attention_heads"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (has(source, prefix, keys[k]))
            return true;
    return s2_model_shape_is_implied(source, prefix);
}

static int recognises(const s2_source *source)
{
    if (source->doc == NULL || source->doc->kind == S2_DOC_SETTINGS)
        return 0;
    const char *const prefix = s2_model_prefix(source->doc);
    if (!has_heads(source, prefix))
        return 0;
    if (has(source, prefix, "layer_types"))
        return 80;
    if (has(source, prefix, "sliding_window") || has(source, prefix, "attention_chunk_size"))
        return 70;
    return s2_model_type_name(source->doc, prefix) != NULL ? 10 : 0;
}

/* Layers with their own numbers, as `layers N: WORD value`; `none` means the shape's number. */
static void print_numbers(s2_buf *text, const char *word, const int32_t *numbers, int64_t n_layers,
                          int32_t none)
{
    for (int64_t layer = 0; numbers != NULL && layer < n_layers; layer++)
        if (numbers[layer] != none)
            s2_buf_printf(text, "layers %lld: %s %d\n", (long long)layer, word, numbers[layer]);
}

static void print_differences(s2_buf *text, const s2_model_layers *layers, int64_t n_layers)
{
    print_numbers(text, "kv-heads", layers->kv_heads, n_layers, 0);
    print_numbers(text, "head-dim", layers->head_dim, n_layers, 0);
    print_numbers(text, "kv-layer", layers->kv_layer, n_layers, -1);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        const int64_t bytes = layers->state_bytes[layers->kind[layer]];
        if (bytes > 0)
            s2_buf_printf(text, "layers %lld: state %lld\n", (long long)layer, (long long)bytes);
    }
}

/* Drop layers that keep nothing of a sequence, mostly feed-forward ones: the pattern counts the others. */
static void drop_idle_layers(const s2_source *source, s2_model_layers *layers, int64_t *n_layers)
{
    int64_t n = 0;
    for (int64_t layer = 0; layer < *n_layers; layer++)
        if (layers->kind[layer] < S2_LAYER_IDLE)
            layers->kind[n++] = layers->kind[layer];
    if (n < *n_layers)
        s2_note(source->notes,
                "%lld of %lld layers have neither keys nor a state and are left out: layers are counted "
                "without them",
                (long long)(*n_layers - n), (long long)*n_layers);
    *n_layers = n;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    s2_model_shape shape;
    s2_model_layers layers;
    s2_buf text = {0};
    char sliding[48], chunked[48];
    S2_TRY(s2_source_needs(source, true, "a JSON config"));
    const char *const prefix = s2_model_prefix(source->doc);
    S2_TRY(s2_model_shape_read(source, prefix, &shape));
    S2_TRY(s2_model_latent_read(source, prefix, &shape));
    if (s2_model_shape_is_implied(source, prefix) && !has(source, prefix, "num_attention_heads"))
        s2_note(source->notes,
                "num_attention_heads is absent: %lld on %lld of %lld, as the code of this model_type has it",
                (long long)shape.n_heads, (long long)shape.n_kv_heads, (long long)shape.head_dim);
    if (has(source, prefix, "dual_chunk_attention_config"))
        s2_note(source->notes,
                "dual_chunk_attention_config moves positions and drops no key; where "
                "sparse_attention_config.json lies beside the file, vLLM's prefill follows that: import it "
                "for the pattern");
    S2_TRY(s2_model_layers_read(source, prefix, shape.n_layers, &layers));
    drop_idle_layers(source, &layers, &shape.n_layers);
    S2_TRY(s2_said_most(source, prefix, "max_position_embeddings"));
    if (shape.n_layers == 0)
        return s2_doc_refuse(source->doc, prefix, source->diag, "no layer has attention or a state");
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, 64);
    if (!layers.causal)
        s2_buf_puts(&text, "causal no\n");
    snprintf(sliding, sizeof sliding, "local %lldt", (long long)layers.window_tok);
    snprintf(chunked, sizeof chunked, "chunk %lldt", (long long)layers.chunk_tok);
    const char *const bodies[S2_N_LAYER_KINDS] = {"dense", sliding, chunked, "none", "none", "none"};
    print_differences(&text, &layers, shape.n_layers);
    s2_language_roles(&text, "", "heads", (int32_t)shape.n_layers, 1, layers.kind, bodies, S2_N_LAYER_KINDS);
    if (layers.window_tok > 0 || layers.chunk_tok > 0)
        s2_note(
            source->notes,
            "a window of N tokens includes the query itself; chunks are aligned to multiples of their size");
    S2_TRY(s2_language_parse(source, &text, out));
    return s2_model_computed_read(source, prefix, out);
}

/* ---- out ---------------------------------------------------------------------------------------- */

static bool layer_kind(const s2_pattern *pattern, int32_t layer, s2_layer_kind *out, int64_t *size_tok)
{
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, S2_PREFILL, layer, 0)];
    const s2_term *const term = &body->terms[0];
    if (body->n_terms != 1)
        return false;
    *size_tok = term->kind == S2_TERM_DENSE ? 1 : term->n * (term->tok ? 1 : pattern->block_tok);
    *out = term->kind == S2_TERM_DENSE   ? S2_LAYER_FULL
           : term->kind == S2_TERM_CHUNK ? S2_LAYER_CHUNKED
                                         : S2_LAYER_SLIDING;
    return term->kind == S2_TERM_DENSE || term->kind == S2_TERM_CHUNK ||
           (term->kind == S2_TERM_LOCAL && term->tok);
}

/* Only some model types use the window keys: check the user's type, or note which types do. */
static s2_status name_type(const s2_target *target, bool has_window, bool is_mixed, s2_buf *buf)
{
    const char *const name = s2_setting_text(&target->settings, "model");
    const s2_model_type *const type = s2_model_type_find(name);
    if (name == NULL) {
        if (has_window)
            s2_note(target->notes,
                    "model_type decides whether these keys are used: afmoe, cohere2, exaone4, gemma2, "
                    "gemma3, gpt_oss, olmo3, qwen2, qwen3 and smollm3 follow layer_types; llama, granite, "
                    "glm4_moe, minimax_m2, mistral, mixtral, phi3 and qwen3_moe do not (--set model=TYPE "
                    "writes the type, if it follows)");
        return S2_OK;
    }
    if (type == NULL)
        return s2_target_refuse(target, "model_type %.40s: which keys its layers read is not known here",
                                name);
    if (has_window && (type->rule == S2_RULE_FULL || type->rule >= S2_RULE_GPT_NEO ||
                       (is_mixed && (type->rule == S2_RULE_WINDOW || type->rule == S2_RULE_SWITCHED))))
        return s2_target_refuse(target, "models of type %.40s do not follow layer_types", name);
    s2_buf_puts(buf, "  \"model_type\":");
    s2_json_str(buf, name);
    s2_buf_puts(buf, ",\n");
    return S2_OK;
}

static s2_status print_kinds(const s2_target *target, int64_t size_tok[S2_N_LAYER_KINDS], s2_buf *buf)
{
    s2_buf_puts(buf, "  \"layer_types\": [");
    for (int32_t layer = 0; layer < target->pattern->n_layers; layer++) {
        s2_layer_kind kind;
        int64_t tok;
        if (!layer_kind(target->pattern, layer, &kind, &tok))
            return s2_target_refuse(target, "layer %d is not full, a window in tokens, or aligned chunks",
                                    layer);
        size_tok[kind] = size_tok[kind] != 0 ? size_tok[kind] : tok;
        s2_buf_printf(buf, "%s\"%s\"", layer != 0 ? ", " : "", s2_layer_kind_word(kind));
    }
    s2_buf_puts(buf, "],\n");
    return S2_OK;
}

static s2_status export(const s2_target *target)
{
    int64_t size_tok[S2_N_LAYER_KINDS] = {0};
    s2_buf buf = {0}, kinds = {0};
    s2_status status = print_kinds(target, size_tok, &kinds);
    const int n_kinds =
        (size_tok[S2_LAYER_FULL] > 0) + (size_tok[S2_LAYER_SLIDING] > 0) + (size_tok[S2_LAYER_CHUNKED] > 0);
    s2_buf_puts(&buf, "{\n");
    if (status == S2_OK)
        status = name_type(target, size_tok[S2_LAYER_SLIDING] > 0 || size_tok[S2_LAYER_CHUNKED] > 0,
                           n_kinds > 1, &buf);
    s2_model_shape_print(&buf, target->pattern, "  ");
    if (status == S2_OK)
        s2_buf_puts(&buf, s2_part_of(&buf, &kinds));
    s2_buf_release(&kinds);
    if (size_tok[S2_LAYER_SLIDING] > 0)
        s2_buf_printf(&buf, "  \"use_sliding_window\": true,\n  \"sliding_window\": %lld,\n",
                      (long long)size_tok[S2_LAYER_SLIDING]);
    if (size_tok[S2_LAYER_CHUNKED] > 0)
        s2_buf_printf(&buf, "  \"attention_chunk_size\": %lld,\n", (long long)size_tok[S2_LAYER_CHUNKED]);
    s2_provenance_print(&buf, target, "  ");
    s2_buf_puts(&buf, "}\n");
    if (status == S2_OK)
        return s2_fileset_add_buf(target->files, "config.json", &buf);
    s2_buf_release(&buf);
    return status;
}

const s2_format s2_format_layers = {
    .name = "layers",
    .summary = "HF layer_types, sliding_window, attention_chunk_size (gpt-oss, Gemma, Mistral, Llama 4)",
    .file_name = "config.json",
    .settings = "rule full|window|types, full-every, layers, heads, kv-heads, head-dim, model",
    .frees_windows = true,
    .recognises = recognises,
    .read = import,
    .write = export,
};
