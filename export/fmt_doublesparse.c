/*
 * SGLang's double sparsity: per layer the heavy channels of each head, {"model.layers.N.self_attn.qk_proj":
 * [[channels] per head]}. They rank tokens cheaply; how many tokens are then read is a server argument.
 */
#include "export/budget.h"

#include <stdio.h>
#include <string.h>

static const char layer_key[] = "model.layers.%lld.self_attn.qk_proj";

static int recognises(const s2_source *source)
{
    const char *const key = source->doc != NULL ? s2_doc_key(source->doc, "", 0) : NULL;
    return key != NULL && strncmp(key, "model.layers.", 13) == 0 && strstr(key, ".self_attn.") != NULL ? 90
                                                                                                       : 0;
}

static s2_status check_layers(const s2_source *source, int64_t n_layers, int64_t *n_heads)
{
    for (int64_t layer = 0; layer < n_layers; layer++) {
        char path[96] = "/";
        snprintf(path + 1, sizeof path - 1, layer_key, (long long)layer);
        const int64_t n = s2_doc_is_array(source->doc, path) ? s2_doc_len(source->doc, path) : -1;
        if (n < 1 || n > S2_LIMIT_HEADS || (layer > 0 && n != *n_heads))
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "layer %lld must list the channels of as many heads as layer 0",
                                 (long long)layer);
        *n_heads = n;
    }
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t n_heads = 0, n_kv, n_tok, head_dim;
    s2_buf text = {0};
    S2_TRY(
        s2_source_needs(source, recognises(source) > 0, "{\"model.layers.N.self_attn.qk_proj\": [[...]]}"));
    const int64_t n_layers = s2_doc_len(source->doc, "");
    if (n_layers > S2_LIMIT_LAYERS)
        return s2_doc_refuse(source->doc, "", source->diag, "more than %d layers", S2_LIMIT_LAYERS);
    S2_TRY(check_layers(source, n_layers, &n_heads));
    S2_TRY(
        s2_setting_int(&source->settings, "heads", n_heads, S2_LIMIT_HEADS, n_heads, &n_heads, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, n_heads, n_heads, &n_kv, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "head-dim", 1, S2_LIMIT_HEAD_DIM, 128, &head_dim, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "tokens", 1, S2_LIMIT_CONTEXT_TOK, 256, &n_tok, source->diag));
    if (n_heads % n_kv != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "%lld KV heads do not divide %lld heads", (long long)n_kv, (long long)n_heads);
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_kv, head_dim, 64);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: topk %lld\n", (long long)n_tok);
    s2_note(source->notes,
            "the file says by which channels tokens are ranked; how many are read is a server argument, %lld "
            "here (--set tokens=N), and short contexts (below 4096 by default) are dense",
            (long long)n_tok);
    s2_note(source->notes, "nothing is freed");
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_doublesparse = {.name = "doublesparse",
                                          .summary = "SGLang double sparsity channel config",
                                          .settings = "tokens (256), heads, kv-heads, head-dim",
                                          .recognises = recognises,
                                          .import = import};
