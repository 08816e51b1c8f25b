/*
 * Double sparsity (DoubleSparse, SGLang): per layer and projection the heavy channels of each head,
 * {"model.layers.N.self_attn.qk_proj": [[channels] per head]}, and besides qk_proj often q_proj and k_proj.
 * They rank tokens cheaply; how many tokens are then read is a server argument.
 */
#include "export/budget.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

static const char *const projections[] = {"qk_proj", "q_proj", "k_proj"};
enum { N_PROJECTIONS = sizeof projections / sizeof *projections };

static int recognises(const s2_source *source)
{
    const char *const key = source->doc != NULL ? s2_doc_key(source->doc, "", NULL) : NULL;
    return key != NULL && strncmp(key, "model.layers.", 13) == 0 && strstr(key, ".self_attn.") != NULL ? 90
                                                                                                       : 0;
}

/* Heads of one list; -1: there is none. */
static int64_t n_heads_of(const s2_source *source, int64_t layer, const char *projection, char path[96])
{
    snprintf(path, 96, "/model.layers.%lld.self_attn.%s", (long long)layer, projection);
    return s2_doc_is_array(source->doc, path) ? s2_doc_len(source->doc, path) : -1;
}

/* The layers of one projection, all with the heads of layer 0; 0 layers when it is not there. */
static s2_status count(const s2_source *source, const char *projection, int64_t *n_layers, int64_t *n_heads)
{
    char path[96];
    *n_layers = 0;
    *n_heads = n_heads_of(source, 0, projection, path);
    if (*n_heads < 0)
        return S2_OK;
    const int64_t n_keys = s2_doc_len(source->doc, "");
    while (*n_layers < n_keys && *n_layers <= S2_LIMIT_LAYERS) {
        const int64_t n = n_heads_of(source, *n_layers, projection, path);
        if (n < 0)
            break;
        if (n < 1 || n > S2_LIMIT_HEADS || n != *n_heads)
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "layer %lld must list the channels of as many heads as layer 0",
                                 (long long)*n_layers);
        (*n_layers)++;
    }
    return S2_OK;
}

static bool has_layer(const s2_source *source, int64_t layer)
{
    char path[96];
    for (int p = 0; p < N_PROJECTIONS; p++)
        if (n_heads_of(source, layer, projections[p], path) >= 0)
            return true;
    return false;
}

/* A list ranks every channel of a head: then its length is the head dimension. 0: it does not. */
static int64_t ranked_channels(const s2_source *source)
{
    char path[128];
    bool seen[S2_LIMIT_HEAD_DIM] = {false};
    int64_t n = -1;
    for (int p = 0; p < N_PROJECTIONS && n < 0; p++) {
        snprintf(path, sizeof path, "/model.layers.0.self_attn.%s/0", projections[p]);
        n = s2_doc_is_array(source->doc, path) ? s2_doc_len(source->doc, path) : -1;
    }
    if (n < 1 || n > S2_LIMIT_HEAD_DIM)
        return 0;
    const size_t end = strlen(path);
    for (int64_t nth = 0; nth < n; nth++) {
        int64_t channel;
        snprintf(path + end, sizeof path - end, "/%lld", (long long)nth);
        if (s2_doc_int(source->doc, path, 0, n - 1, &channel, NULL) != S2_OK || seen[channel])
            return 0;
        seen[channel] = true;
    }
    return n;
}

/* Every key belongs to one of the projections, and all projections present have the same layers. */
static s2_status read_shape(const s2_source *source, int64_t *n_layers, int64_t *n_heads, int64_t *n_kv)
{
    int64_t layers[N_PROJECTIONS], heads[N_PROJECTIONS], n_keys = 0;
    *n_layers = *n_heads = *n_kv = 0;
    for (int p = 0; p < N_PROJECTIONS; p++) {
        S2_TRY(count(source, projections[p], &layers[p], &heads[p]));
        n_keys += layers[p];
        *n_layers = s2_max_i64(layers[p], *n_layers);
        *n_heads = s2_max_i64(heads[p], *n_heads);
        if (layers[p] > 0 && strcmp(projections[p], "k_proj") == 0)
            *n_kv = heads[p];
    }
    for (int64_t later = *n_layers + 1; n_keys != s2_doc_len(source->doc, "") && later <= S2_LIMIT_LAYERS;
         later++)
        if (has_layer(source, later))
            return s2_doc_refuse(source->doc, "", source->diag,
                                 "layer %lld is missing: s2 reads files that list every layer from 0 on",
                                 (long long)*n_layers);
    if (n_keys != s2_doc_len(source->doc, "") || *n_layers > S2_LIMIT_LAYERS)
        return s2_doc_refuse(source->doc, "", source->diag,
                             "keys must be model.layers.N.self_attn.qk_proj (or q_proj, k_proj) of layers 0, "
                             "1, ...; %lld of %lld are",
                             (long long)n_keys, (long long)s2_doc_len(source->doc, ""));
    for (int p = 0; p < N_PROJECTIONS; p++)
        if (layers[p] != 0 && layers[p] != *n_layers)
            return s2_doc_refuse(source->doc, "", source->diag, "%s has %lld layers, others %lld",
                                 projections[p], (long long)layers[p], (long long)*n_layers);
    return S2_OK;
}

/* Two programs read the file, and do not agree on which phase it is for. */
static s2_status read_rule(const s2_source *source, bool *own)
{
    const char *const asked = s2_setting_text(&source->settings, "rule");
    *own = asked != NULL && strcmp(asked, "doublesparse") == 0;
    if (asked != NULL && !*own && strcmp(asked, "sglang") != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "--set rule must be sglang or doublesparse");
    return S2_OK;
}

static void print_rules(const s2_source *source, bool own, int64_t n_tok, s2_buf *text)
{
    if (own)
        s2_buf_printf(text, "layers all: topk %lld\n", (long long)n_tok);
    else
        s2_buf_printf(text, "prefill layers all: dense\ndecode layers all: topk %lld\n", (long long)n_tok);
    s2_note(source->notes,
            "the file says by which channels tokens are ranked; how many are read is an argument, %lld here "
            "(--set tokens=N)",
            (long long)n_tok);
    s2_note(source->notes, "%s",
            own ? "read as DoubleSparse's own evaluation does: every row of prefill is cut too"
                : "read as SGLang does: prefill and short contexts (below 4096 by default) are dense; "
                  "DoubleSparse's own evaluation cuts every row of prefill too (--set rule=doublesparse)");
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t n_layers, n_heads, n_listed_kv, n_kv, n_tok, head_dim;
    bool own;
    s2_buf text = {0};
    S2_TRY(
        s2_source_needs(source, recognises(source) > 0, "{\"model.layers.N.self_attn.qk_proj\": [[...]]}"));
    S2_TRY(read_shape(source, &n_layers, &n_heads, &n_listed_kv));
    S2_TRY(
        s2_setting_int(&source->settings, "heads", n_heads, S2_LIMIT_HEADS, n_heads, &n_heads, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "kv-heads", 1, n_heads, n_listed_kv > 0 ? n_listed_kv : n_heads,
                          &n_kv, source->diag));
    const int64_t n_channels = ranked_channels(source);
    S2_TRY(s2_setting_int(&source->settings, "head-dim", 1, S2_LIMIT_HEAD_DIM,
                          n_channels > 0 ? n_channels : 128, &head_dim, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "tokens", 1, S2_LIMIT_CONTEXT_TOK, 256, &n_tok, source->diag));
    S2_TRY(read_rule(source, &own));
    if (n_heads % n_kv != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "%lld KV heads do not divide %lld heads", (long long)n_kv, (long long)n_heads);
    s2_language_name(&text, source->name);
    s2_language_shape(&text, n_layers, n_heads, n_kv, head_dim, 64);
    print_rules(source, own, n_tok, &text);
    if (n_listed_kv == 0 && s2_setting_text(&source->settings, "kv-heads") == NULL)
        s2_note(source->notes,
                "the file lists query heads only: as many KV heads are assumed (--set kv-heads=N)");
    s2_note(source->notes, "nothing is freed");
    return s2_language_parse(source, &text, out);
}

const s2_format s2_format_doublesparse = {.name = "doublesparse",
                                          .summary = "DoubleSparse and SGLang channel config",
                                          .settings =
                                              "tokens (256), rule (sglang), heads, kv-heads, head-dim",
                                          .recognises = recognises,
                                          .read = import};
