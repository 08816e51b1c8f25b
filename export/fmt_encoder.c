/*
 * Longformer and BigBird configs (encoders, not causal). Longformer's attention_window is two-sided in
 * Hugging Face's config (512: 256 each side) and one-sided in the original; its global tokens come at run
 * time. BigBird's blocks: window 3, first and last block global; random ones per head and layer in training.
 */
#include "export/format.h"
#include "export/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

static bool is_type(const s2_source *source, const char *type)
{
    const char *const word = source->doc != NULL ? s2_model_type_name(source->doc, "") : NULL;
    return word != NULL && strcmp(word, type) == 0;
}

/* ---- Longformer --------------------------------------------------------------------------------- */

static int longformer_recognises(const s2_source *source)
{
    if (source->doc == NULL || source->doc->kind == S2_DOC_SETTINGS ||
        !s2_doc_has(source->doc, "/attention_window"))
        return 0;
    return is_type(source, "longformer") || is_type(source, "led") ||
                   s2_doc_has(source->doc, "/attention_dilation")
               ? 90
               : 60;
}

static s2_status window_at(const s2_source *source, int64_t layer, int64_t *out)
{
    char path[64] = "/attention_window";
    if (s2_doc_is_array(source->doc, path))
        snprintf(path, sizeof path, "/attention_window/%lld", (long long)layer);
    return s2_doc_int(source->doc, path, 1, S2_LIMIT_CONTEXT_TOK, out, source->diag);
}

static s2_status dilation_at(const s2_source *source, int64_t layer, int64_t *out)
{
    char path[64] = "/attention_dilation";
    if (s2_doc_is_array(source->doc, path))
        snprintf(path, sizeof path, "/attention_dilation/%lld", (long long)layer);
    return s2_doc_int_or(source->doc, path, 1, S2_LIMIT_STRIDE, 1, out, source->diag);
}

static s2_status longformer_layer(const s2_source *source, int64_t layer, bool one_sided, int64_t n_global,
                                  s2_buf *text)
{
    int64_t window, dilation;
    S2_TRY(window_at(source, layer, &window));
    S2_TRY(dilation_at(source, layer, &dilation));
    const int64_t reach = (one_sided ? window : window / 2) * dilation;
    s2_buf_printf(text, "layers %lld: ", (long long)layer);
    if (dilation == 1)
        s2_buf_printf(text, "local %lldt", (long long)(reach + 1));
    else
        s2_buf_printf(text, "dilated %lldt when distance ..%lldt", (long long)dilation,
                      (long long)(reach + 1));
    if (n_global == 1)
        s2_buf_puts(text, " | columns 0t | rows 0t");
    else if (n_global > 1)
        s2_buf_printf(text, " | columns 0t-%lldt | rows 0t-%lldt", (long long)(n_global - 1),
                      (long long)(n_global - 1));
    s2_buf_puts(text, "\n");
    return S2_OK;
}

static s2_status longformer_import(const s2_source *source, s2_pattern *out)
{
    s2_model_shape shape;
    int64_t one_sided, n_global;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, longformer_recognises(source) > 0, "a config with attention_window"));
    const bool original =
        s2_doc_has(source->doc, "/attention_dilation") || s2_doc_has(source->doc, "/attention_mode");
    S2_TRY(s2_model_shape_read(source, "", &shape));
    S2_TRY(s2_setting_int(&source->settings, "one-sided", 0, 1, original, &one_sided, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "global", 0, 4096, 1, &n_global, source->diag));
    if (s2_doc_is_array(source->doc, "/attention_window") &&
        s2_doc_len(source->doc, "/attention_window") != shape.n_layers)
        return s2_doc_refuse(source->doc, "/attention_window", source->diag,
                             "attention_window must have one entry per layer");
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, 64);
    s2_buf_puts(&text, "causal no\n");
    s2_status status = S2_OK;
    for (int64_t layer = 0; layer < shape.n_layers && status == S2_OK; layer++)
        status = longformer_layer(source, layer, one_sided != 0, n_global, &text);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return status;
    }
    s2_note(
        source->notes,
        one_sided != 0
            ? "attention_window is read as one-sided, as the original code has it (--set one-sided=0)"
            : "attention_window is the whole two-sided width, as Hugging Face has it (--set one-sided=1)");
    if (is_type(source, "led"))
        s2_note(source->notes, "this is the encoder; the decoder is dense and causal");
    s2_note(
        source->notes,
        "global tokens come at run time; the first %lld are assumed, as columns and rows (--set global=N)",
        (long long)n_global);
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_longformer = {
    .name = "longformer",
    .summary = "Longformer / LED config.json (attention_window)",
    .settings = "one-sided 0|1, global (1), layers, heads",
    .recognises = longformer_recognises,
    .read = longformer_import,
};

/* ---- BigBird ------------------------------------------------------------------------------------ */

static int bigbird_recognises(const s2_source *source)
{
    if (is_type(source, "big_bird") || is_type(source, "bigbird_pegasus"))
        return 90;
    return source->doc != NULL && s2_doc_text(source->doc, "/attention_type") != NULL &&
                   s2_doc_has(source->doc, "/num_random_blocks")
               ? 90
               : 0;
}

static s2_status bigbird_rules(const s2_source *source, int64_t block_tok, s2_buf *text)
{
    int64_t n_random, n_tok, train, seed, limit;
    S2_TRY(s2_doc_int_or(source->doc, "/num_random_blocks", 0, 4096, 3, &n_random, source->diag));
    S2_TRY(s2_doc_int_or(source->doc, "/max_position_embeddings", block_tok, S2_LIMIT_CONTEXT_TOK, 4096,
                         &limit, source->diag));
    S2_TRY(s2_setting_len(source, block_tok, S2_LIMIT_CONTEXT_TOK, limit, &n_tok));
    S2_TRY(s2_setting_int(&source->settings, "train", 0, 1, 0, &train, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "seed", 0, INT32_MAX, 1, &seed, source->diag));
    const int64_t last = n_tok / block_tok - 1;
    s2_buf_puts(text, "layers all: local 2 | columns 0");
    if (last > 0)
        s2_buf_printf(text, ",%lld", (long long)last);
    s2_buf_puts(text, " | rows 0");
    if (last > 0)
        s2_buf_printf(text, ",%lld", (long long)last);
    if (train != 0 && n_random > 0)
        s2_buf_printf(text, " | random %lld seed %lld", (long long)n_random, (long long)seed);
    s2_buf_puts(text, "\n");
    s2_note(source->notes,
            "the last block is global too: it is that of a context of %lld tokens (--set len=N)",
            (long long)n_tok);
    if (train != 0)
        s2_note(source->notes,
                "random blocks are drawn by this language's generator with seed %lld, not by NumPy's with "
                "the layer as seed; upstream keeps them apart from the window and the globals, so it reads "
                "slightly more",
                (long long)seed);
    else
        s2_note(source->notes, "random blocks are read in training only: at inference Hugging Face's code "
                               "puts the first block, which all read, in their place (--set train=1)");
    s2_note(source->notes, "upstream switches to full attention up to %lld tokens",
            (long long)((5 + 2 * n_random) * block_tok));
    return S2_OK;
}

static s2_status bigbird_import(const s2_source *source, s2_pattern *out)
{
    s2_model_shape shape;
    int64_t block_tok;
    bool is_decoder;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, bigbird_recognises(source) > 0, "a BigBird config"));
    S2_TRY(s2_model_shape_read(source, "", &shape));
    S2_TRY(s2_doc_int_or(source->doc, "/block_size", 1, S2_LIMIT_BLOCK_TOK, 64, &block_tok, source->diag));
    if (!s2_is_power_of_two(block_tok))
        return s2_doc_refuse(source->doc, "/block_size", source->diag, "block_size must be a power of two");
    S2_TRY(s2_doc_bool_or(source->doc, "/is_decoder", false, &is_decoder, source->diag));
    const char *const type = s2_doc_text(source->doc, "/attention_type");
    if (is_type(source, "bigbird_pegasus"))
        s2_note(source->notes, "this is the encoder; the decoder is dense and causal");
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, block_tok);
    if (!is_decoder)
        s2_buf_puts(&text, "causal no\n");
    s2_status status = S2_OK;
    if (is_decoder || (type != NULL && strcmp(type, "original_full") == 0))
        s2_buf_puts(&text, "layers all: dense\n");
    else
        status = bigbird_rules(source, block_tok, &text);
    if (status != S2_OK) {
        s2_buf_release(&text);
        return status;
    }
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_bigbird = {
    .name = "bigbird",
    .summary = "BigBird config.json (block_sparse)",
    .settings = "len, train 0|1 (0), seed (1), layers, heads",
    .recognises = bigbird_recognises,
    .read = bigbird_import,
};
