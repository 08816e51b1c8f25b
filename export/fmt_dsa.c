/*
 * DeepSeek DSA, GLM, SGLang HiSparse, TensorRT-LLM's dsa, MiniMax: an indexer chooses tokens or blocks. Doge:
 * scores of the values choose tokens.
 */
#include "export/budget.h"
#include "export/model.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

#define TOPK_PATHS                                                                                           \
    S2_PATHS("/index_topk", "/text_config/index_topk", "/sparse_attention_config/index_topk",                \
             "/hisparse_config/top_k", "/top_k")
#define MINIMAX "/sparse_attention_config/"
/* as published, and as transformers saves it */
#define MINIMAX_PATHS(key, saved)                                                                            \
    S2_PATHS(MINIMAX key, "/text_config" MINIMAX key, saved, "/text_config" saved)
#define DOGE_PATHS S2_PATHS("/keep_window_size")

/* TensorRT-LLM's and SGLang's configs name an algorithm, and may leave its numbers to the checkpoint. */
static const char *algorithm_of(const s2_source *source)
{
    return s2_budget_word(source, S2_PATHS("/sparse_attention_config/algorithm", "/algorithm"));
}

static bool is_algorithm(const s2_source *source, const char *name)
{
    const char *const word = algorithm_of(source);
    return word != NULL && strcmp(word, name) == 0;
}

static bool is_minimax(const s2_source *source)
{
    return is_algorithm(source, "minimax_m3") ||
           s2_budget_has_any(source, MINIMAX_PATHS("sparse_topk_blocks", "/index_topk_blocks"));
}

static bool is_doge(const s2_source *source)
{
    return s2_budget_has_any(source, DOGE_PATHS);
}

static bool names_it(const s2_source *source)
{
    return is_algorithm(source, "dsa") || is_algorithm(source, "deepseek_nsa") ||
           is_algorithm(source, "deepseek_dsa") || is_algorithm(source, "deepseek_v4");
}

/* SGLang's --hisparse-config, whose every key has a default. */
static bool is_hisparse(const s2_source *source)
{
    return s2_budget_has_any(source,
                             S2_PATHS("/device_buffer_size", "/host_to_device_ratio", "/swap_in_block_size"));
}

static int recognises(const s2_source *source)
{
    if (is_hisparse(source) && (algorithm_of(source) == NULL || names_it(source)))
        return 88;
    return is_minimax(source) || is_doge(source) || names_it(source) ||
                   s2_budget_has_any(source, S2_PATHS("/index_topk", "/text_config/index_topk",
                                                      "/sparse_attention_config/index_topk",
                                                      "/hisparse_config/top_k"))
               ? 88
               : 0;
}

static const char *where_stated(const s2_source *source, const char *first, const char *second)
{
    return s2_doc_has(source->doc, first) ? first : second;
}

/* Another algorithm may read another thing under the same keys. */
static s2_status check_algorithm(const s2_source *source)
{
    char clean[64];
    const char *const word = algorithm_of(source);
    const char *const path = where_stated(source, "/sparse_attention_config/algorithm", "/algorithm");
    if (word == NULL || (names_it(source) && !is_algorithm(source, "deepseek_v4")) ||
        is_algorithm(source, "minimax_m3"))
        return S2_OK;
    s2_text_clean(clean, sizeof clean, word);
    return s2_doc_refuse(source->doc, path, source->diag,
                         is_algorithm(source, "deepseek_v4")
                             ? "%s: layers that read compressed keys: a pattern holds single keys only"
                             : "%s: what this algorithm reads is not known here",
                         clean);
}

/* SGLang refuses a buffer that does not hold what is chosen. */
static s2_status check_hisparse(const s2_source *source)
{
    int64_t n_chosen = 2048, n_held;
    if (!s2_doc_has(source->doc, "/device_buffer_size"))
        return S2_OK;
    S2_TRY(s2_doc_int_or(source->doc, "/top_k", 1, S2_LIMIT_CONTEXT_TOK, n_chosen, &n_chosen, source->diag));
    return s2_doc_int(source->doc, "/device_buffer_size", n_chosen, INT32_MAX, &n_held, source->diag);
}

/* This reader does not know compressed keys, or layers whose heads differ. */
static s2_status refuse_others(const s2_source *source)
{
    static const char *const keys[] = {"compress_ratios", "compress_rates"};
    char path[128];
    const char *const prefix = s2_model_prefix(source->doc);
    const char *const type = s2_model_type_name(source->doc, prefix);
    S2_TRY(check_algorithm(source));
    S2_TRY(check_hisparse(source));
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        snprintf(path, sizeof path, "%s/%s", prefix, keys[k]);
        if (s2_doc_has(source->doc, path))
            return s2_doc_refuse(source->doc, path, source->diag,
                                 "layers that read compressed keys: a pattern holds single keys only");
    }
    const s2_model_type *const known = type != NULL ? s2_model_type_find(type) : NULL;
    if (known != NULL &&
        (known->rule == S2_RULE_HYBRID || known->rule == S2_RULE_PARALLEL || known->rule == S2_RULE_STATES)) {
        snprintf(path, sizeof path, "%s/model_type", prefix);
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "%s has layers that keep a state: which of its layers choose keys, and how, is not "
            "known here",
            type);
    }
    bool causal;
    snprintf(path, sizeof path, "%s/is_causal", prefix);
    S2_TRY(s2_doc_bool_or(source->doc, path, true, &causal, source->diag));
    if (!causal)
        return s2_doc_refuse(source->doc, path, source->diag,
                             "keys that are chosen from both sides: what a row reads is not known here");
    snprintf(path, sizeof path, "%s/model_type", prefix);
    if (type != NULL && (strncmp(type, "dots3_note", 10) == 0 || strcmp(type, "deepseek_v4") == 0))
        return s2_doc_refuse(
            source->doc, path, source->diag,
            "%s: its layers differ in query heads or read compressed keys, which a pattern does not hold",
            type);
    return S2_OK;
}

/* Every layer by its word: chosen, dense, or only a window. */
static s2_status read_layer_types(const s2_source *source, int64_t n_layers, const char *chosen, s2_buf *text)
{
    char path[128];
    const char *const prefix = s2_model_prefix(source->doc);
    snprintf(path, sizeof path, "%s/layer_types", prefix);
    const int64_t n = s2_doc_is_array(source->doc, path) ? s2_doc_len(source->doc, path) : 0;
    if (n > 0 && n != n_layers)
        return s2_doc_refuse(source->doc, path, source->diag, "%lld entries for %lld layers", (long long)n,
                             (long long)n_layers);
    for (int64_t layer = 0; layer < n; layer++) {
        snprintf(path, sizeof path, "%s/layer_types/%lld", prefix, (long long)layer);
        const char *const word = s2_doc_text(source->doc, path);
        if (word != NULL && strcmp(word, "full_attention") == 0)
            s2_buf_printf(text, "layers %lld: dense\n", (long long)layer);
        else if (word == NULL ||
                 (strcmp(word, chosen) != 0 && strcmp(word, "deepseek_sparse_attention") != 0))
            return s2_doc_refuse(
                source->doc, path, source->diag,
                "layer type %.40s beside layers that choose their keys: what it reads is not known here",
                word != NULL ? word : "(no text)");
    }
    return S2_OK;
}

/* Chosen keys, and before the number of the sliding window, if there is one, how it joins them. */
static s2_status put_chosen(const s2_source *source, const char *const *paths, const char *window,
                            s2_buf *body)
{
    int64_t n;
    S2_TRY(s2_budget_read(source, paths, 1, S2_LIMIT_CONTEXT_TOK, 2048, &n));
    s2_buf_printf(body, "topk %lld", (long long)n);
    if (!s2_doc_has(source->doc, "/sliding_window"))
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, "/sliding_window", 1, S2_LIMIT_CONTEXT_TOK, &n, source->diag));
    s2_buf_printf(body, "%s%lldt", window, (long long)n);
    return S2_OK;
}

static s2_status token_body(const s2_source *source, s2_buf *body)
{
    S2_TRY(put_chosen(source, TOPK_PATHS, " | local ", body));
    if (!s2_budget_has_any(source, TOPK_PATHS))
        s2_note(source->notes, "the checkpoint sets how many keys are chosen; 2048 are assumed");
    if (s2_budget_has_any(source, S2_PATHS("/indexer_types", "/text_config/indexer_types")))
        s2_note(source->notes,
                "several layers share one indexer's choice, which a pattern does not show; a price of "
                "this file counts the layers that choose");
    else if (s2_budget_has_any(source, S2_PATHS("/index_topk_freq", "/index_topk_pattern")))
        s2_note(source->notes,
                "several layers share one indexer's choice, and nothing says which: a price counts one "
                "for each layer");
    if (s2_budget_has_any(source, S2_PATHS("/no_rope_layers", "/text_config/no_rope_layers")) &&
        s2_budget_has_any(source, S2_PATHS("/kv_lora_rank", "/text_config/kv_lora_rank")))
        s2_note(source->notes,
                "layers without positions keep no rotary key, which the cache counts all the same");
    return S2_OK;
}

/* Doge chooses among the keys of its window, if it has one. */
static s2_status doge_body(const s2_source *source, s2_buf *body)
{
    return put_chosen(source, DOGE_PATHS, " when distance ..", body);
}

static s2_status block_body(const s2_source *source, int64_t *block_tok, s2_buf *body)
{
    int64_t n, n_init, n_local;
    S2_TRY(s2_budget_read(source, MINIMAX_PATHS("sparse_block_size", "/index_block_size"), 1,
                          S2_LIMIT_BLOCK_TOK, 128, block_tok));
    S2_TRY(s2_budget_read(source, MINIMAX_PATHS("sparse_topk_blocks", "/index_topk_blocks"), 1, 1 << 16, 16,
                          &n));
    S2_TRY(s2_budget_read(source,
                          S2_PATHS(MINIMAX "sparse_init_block", MINIMAX "sparse_init_blocks",
                                   "/text_config" MINIMAX "sparse_init_block"),
                          0, n, 0, &n_init));
    S2_TRY(s2_budget_read(source,
                          S2_PATHS(MINIMAX "sparse_local_block", MINIMAX "sparse_local_blocks",
                                   "/text_config" MINIMAX "sparse_local_block", "/index_local_blocks",
                                   "/text_config/index_local_blocks"),
                          0, n, 1, &n_local));
    if (!s2_is_power_of_two(*block_tok))
        return s2_doc_refuse(source->doc, MINIMAX "sparse_block_size", source->diag,
                             "sparse_block_size must be a power of two");
    if (n < n_init + n_local)
        return s2_doc_refuse(
            source->doc, where_stated(source, MINIMAX "sparse_topk_blocks", MINIMAX "sparse_local_blocks"),
            source->diag,
            "%lld blocks are chosen and %lld are forced: which of these are left out is not "
            "known here",
            (long long)n, (long long)(n_init + n_local));
    const char *bar = "";
    if (n > n_init + n_local)
        s2_buf_printf(body, "pages %lld page %lld", (long long)(n - n_init - n_local), (long long)*block_tok),
            bar = " | ";
    if (n_init > 0)
        s2_buf_printf(body, "%ssink %lld", bar, (long long)n_init), bar = " | ";
    if (n_local > 0)
        s2_buf_printf(body, "%slocal %lld", bar, (long long)n_local);
    return S2_OK;
}

/* sparse_attention_freq: 0 for a layer that is dense. */
static s2_status dense_layers(const s2_source *source, int64_t n_layers, s2_buf *text)
{
    const char *const list = s2_doc_has(source->doc, MINIMAX "sparse_attention_freq")
                                 ? MINIMAX "sparse_attention_freq"
                                 : "/text_config" MINIMAX "sparse_attention_freq";
    const int64_t n = s2_doc_is_array(source->doc, list) ? s2_doc_len(source->doc, list) : 0;
    if (n > 0 && n != n_layers)
        return s2_doc_refuse(source->doc, list, source->diag, "%lld entries for %lld layers", (long long)n,
                             (long long)n_layers);
    if (n == 0 && is_minimax(source) &&
        !s2_budget_has_any(source, S2_PATHS("/layer_types", "/text_config/layer_types")))
        s2_note(source->notes,
                "sparse_attention_freq is not stated, which says what layers choose: all are taken to; "
                "TensorRT-LLM takes it from the checkpoint, vLLM then takes none");
    for (int64_t layer = 0; layer < n; layer++) {
        char path[96];
        int64_t sparse;
        snprintf(path, sizeof path, "%s/%lld", list, (long long)layer);
        S2_TRY(s2_doc_int(source->doc, path, 0, 1, &sparse, source->diag));
        if (sparse == 0)
            s2_buf_printf(text, "layers %lld: dense\n", (long long)layer);
    }
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t block_tok = 64;
    s2_model_shape shape;
    s2_buf text = {0}, body = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "index_topk"));
    S2_TRY(refuse_others(source));
    const char *const prefix = s2_model_prefix(source->doc);
    s2_status status = prefix[0] != '\0' || is_doge(source) ? s2_model_shape_read(source, prefix, &shape)
                                                            : s2_budget_shape(source, &shape);
    if (status == S2_OK)
        status = s2_model_latent_read(source, prefix, &shape);
    if (status == S2_OK)
        status = is_minimax(source) ? block_body(source, &block_tok, &body)
                 : is_doge(source)  ? doge_body(source, &body)
                                    : token_body(source, &body);
    if (status == S2_OK) {
        s2_language_name(&text, source->name);
        s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, block_tok);
        s2_buf_printf(&text, "layers all: %s\n", s2_part_of(&text, &body));
        status = dense_layers(source, shape.n_layers, &text);
        if (status == S2_OK)
            status = read_layer_types(source, shape.n_layers,
                                      is_minimax(source) ? "minimax_m3_sparse" : "indexed_attention", &text);
    }
    s2_buf_release(&body);
    if (is_doge(source))
        s2_note(source->notes,
                "a score of each value chooses the keys at run time, for each KV head by itself");
    else
        s2_note(source->notes,
                "an indexer chooses the keys at run time, %s; it reads its own key of every token, which the "
                "pattern does not hold and which dominates at long context",
                is_minimax(source) ? "for each KV head by itself" : "the same for all heads");
    s2_note(source->notes, "nothing is freed; up to the budget the layer is dense");
    S2_TRY(s2_budget_finish(source, status, &text, out));
    return s2_model_computed_read(source, prefix, out);
}

const s2_format s2_format_dsa = {
    .name = "dsa",
    .summary =
        "DSA index_topk (DeepSeek, GLM, TensorRT-LLM, SGLang HiSparse); MiniMax sparse_attention_config",
    .settings = S2_BUDGET_SETTINGS,
    .recognises = recognises,
    .read = import};
