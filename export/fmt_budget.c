/*
 * Methods that have no pattern file, only numbers: StreamingLLM, H2O, Quest, LServe, SnapKV, NSA, DSA and its
 * relatives. They are read from JSON, YAML-like lines, or the command line that sets them.
 *
 * What such a method chooses at run time becomes a dynamic term of the same budget; the notes say what the
 * budget leaves out.
 */
#include "export/format.h"

#include <stdio.h>
#include <string.h>

static const char *const no_model =
    "the model is not in the settings; %lld layers of %lld heads on %lld KV heads are assumed "
    "(--set layers=, heads=, kv-heads=, head-dim=)";

static bool has_any(const s2_source *source, const char *const *paths)
{
    for (; source->doc != NULL && *paths != NULL; paths++)
        if (s2_doc_has(source->doc, *paths))
            return true;
    return false;
}

static bool has_all(const s2_source *source, const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (source->doc == NULL || !s2_doc_has(source->doc, *paths))
            return false;
    return true;
}

/* First of several spellings that the document has. */
static s2_status read_first(const s2_source *source, const char *const *paths, int64_t low, int64_t high,
                            int64_t fallback, int64_t *out)
{
    for (; *paths != NULL; paths++)
        if (s2_doc_has(source->doc, *paths))
            return s2_doc_int(source->doc, *paths, low, high, out, source->diag);
    *out = fallback;
    return S2_OK;
}
#define FIRST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Name and shape; a model that is not said has the shape of Llama-3-8B. */
static s2_status begin_text(const s2_source *source, int64_t block_tok, s2_buf *text)
{
    const s2_settings *const set = &source->settings;
    s2_model_shape shape;
    S2_TRY(read_first(source, FIRST("/num_hidden_layers", "/num_layers"), 1, S2_LIMIT_LAYERS, 32,
                      &shape.n_layers));
    S2_TRY(read_first(source, FIRST("/num_attention_heads", "/num_heads"), 1, S2_LIMIT_HEADS, 32,
                      &shape.n_heads));
    S2_TRY(read_first(source, FIRST("/num_key_value_heads", "/num_kv_heads"), 1, shape.n_heads,
                      shape.n_heads % 8 == 0 ? 8 : shape.n_heads, &shape.n_kv_heads));
    S2_TRY(read_first(source, FIRST("/head_dim"), 1, S2_LIMIT_HEAD_DIM, 128, &shape.head_dim));
    S2_TRY(s2_setting_int(set, "layers", 1, S2_LIMIT_LAYERS, shape.n_layers, &shape.n_layers, source->diag));
    S2_TRY(s2_setting_int(set, "heads", 1, S2_LIMIT_HEADS, shape.n_heads, &shape.n_heads, source->diag));
    S2_TRY(s2_setting_int(set, "kv-heads", 1, shape.n_heads,
                          shape.n_kv_heads < shape.n_heads ? shape.n_kv_heads : shape.n_heads,
                          &shape.n_kv_heads, source->diag));
    S2_TRY(
        s2_setting_int(set, "head-dim", 1, S2_LIMIT_HEAD_DIM, shape.head_dim, &shape.head_dim, source->diag));
    if (shape.n_heads % shape.n_kv_heads != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "%lld KV heads do not divide %lld heads", (long long)shape.n_kv_heads,
                           (long long)shape.n_heads);
    if (!has_any(source, FIRST("/num_attention_heads", "/num_heads")) &&
        s2_setting_text(set, "heads") == NULL)
        s2_note(source->notes, no_model, (long long)shape.n_layers, (long long)shape.n_heads,
                (long long)shape.n_kv_heads);
    s2_language_name(text, source->name);
    s2_language_shape(text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, block_tok);
    return S2_OK;
}

static s2_status finish_text(const s2_source *source, s2_status status, s2_buf *text, s2_pattern *out)
{
    if (status == S2_OK)
        return s2_language_parse(source, text, out);
    s2_buf_release(text);
    return status;
}

static s2_status needs_doc(const s2_source *source, const char *expected)
{
    if (source->doc != NULL)
        return S2_OK;
    return s2_diag_set(source->diag, S2_EPARSE, S2_CODE_FOREIGN, 0, 0, "expected %s", expected);
}

/* ---- StreamingLLM ------------------------------------------------------------------------------- */

static int streaming_recognises(const s2_source *source)
{
    const bool flags = has_all(source, FIRST("/start_size", "/recent_size"));
    const char *const policy = source->doc != NULL ? s2_doc_text(source->doc, "/policy") : NULL;
    return flags ? 80 : policy != NULL && strcmp(policy, "streaming_llm") == 0 ? 85 : 0;
}

static s2_status streaming_import(const s2_source *source, s2_pattern *out)
{
    int64_t sink_tok, recent_tok, page_tok = 1;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "start_size and recent_size"));
    if (s2_doc_has(source->doc, "/policy_config")) {
        S2_TRY(read_first(source, FIRST("/page_size"), 1, 4096, 1, &page_tok));
        S2_TRY(read_first(source, FIRST("/policy_config/sink_pages"), 1, 1 << 20, 4, &sink_tok));
        S2_TRY(read_first(source, FIRST("/policy_config/recent_pages"), 1, 1 << 20, 2048, &recent_tok));
    } else {
        S2_TRY(read_first(source, FIRST("/start_size"), 1, S2_LIMIT_CONTEXT_TOK, 4, &sink_tok));
        S2_TRY(read_first(source, FIRST("/recent_size"), 1, S2_LIMIT_CONTEXT_TOK, 512, &recent_tok));
    }
    s2_status status = begin_text(source, 64, &text);
    s2_buf_printf(&text, "layers all: sink %lldt | local %lldt\n", (long long)(sink_tok * page_tok),
                  (long long)(recent_tok * page_tok));
    s2_note(source->notes,
            "evicted keys are gone for every later query: the union of heads is not complete; positions are "
            "renumbered inside the cache upstream, which a pattern does not show");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_streamingllm = {
    .name = "streamingllm",
    .summary = "StreamingLLM start_size, recent_size; SGLang streaming_llm policy",
    .settings = "layers, heads, kv-heads, head-dim",
    .recognises = streaming_recognises,
    .import = streaming_import};

/* ---- H2O ---------------------------------------------------------------------------------------- */

static int h2o_recognises(const s2_source *source)
{
    return has_all(source, FIRST("/heavy_ratio", "/recent_ratio")) ||
                   has_all(source, FIRST("/hh_size", "/recent_size"))
               ? 85
               : 0;
}

static s2_status h2o_import(const s2_source *source, s2_pattern *out)
{
    int64_t heavy, recent, n_tok;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "heavy_ratio and recent_ratio, or hh_size and recent_size"));
    S2_TRY(s2_setting_int(&source->settings, "len", 1, S2_LIMIT_CONTEXT_TOK, 4096, &n_tok, source->diag));
    if (s2_doc_has(source->doc, "/heavy_ratio")) {
        double heavy_ratio, recent_ratio;
        S2_TRY(s2_doc_num(source->doc, "/heavy_ratio", 0, 1, &heavy_ratio, source->diag));
        S2_TRY(s2_doc_num(source->doc, "/recent_ratio", 0, 1, &recent_ratio, source->diag));
        heavy = (int64_t)(heavy_ratio * (double)n_tok);
        recent = (int64_t)(recent_ratio * (double)n_tok);
        s2_note(source->notes, "budgets are shares of the length: those of %lld tokens (--set len=N)",
                (long long)n_tok);
    } else {
        S2_TRY(read_first(source, FIRST("/hh_size"), 1, S2_LIMIT_CONTEXT_TOK, 4, &heavy));
        S2_TRY(read_first(source, FIRST("/recent_size"), 1, S2_LIMIT_CONTEXT_TOK, 512, &recent));
    }
    s2_status status = begin_text(source, 64, &text);
    s2_buf_printf(&text, "layers all: heavy %lld | local %lldt\n", (long long)(heavy > 0 ? heavy : 1),
                  (long long)(recent > 0 ? recent : 1));
    s2_note(source->notes,
            "heavy hitters are chosen by accumulated attention at run time; the main H2O harness masks and "
            "frees no memory, only its real-drop mode evicts");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_h2o = {.name = "h2o",
                                 .summary = "H2O heavy_ratio, recent_ratio, or hh_size, recent_size",
                                 .settings = "len (4096), layers, heads, kv-heads, head-dim",
                                 .recognises = h2o_recognises,
                                 .import = h2o_import};

/* ---- Quest -------------------------------------------------------------------------------------- */

static int quest_recognises(const s2_source *source)
{
    const char *const algorithm = source->doc != NULL ? s2_doc_text(source->doc, "/algorithm") : NULL;
    if (algorithm != NULL && strcmp(algorithm, "quest") == 0)
        return 80;
    return has_any(source, FIRST("/token_budget")) ? 70 : 0;
}

static s2_status quest_import(const s2_source *source, s2_pattern *out)
{
    int64_t budget_tok, page_tok, n_dense;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "token_budget and page_size"));
    S2_TRY(read_first(source, FIRST("/token_budget", "/budget"), 1, S2_LIMIT_CONTEXT_TOK, 1024, &budget_tok));
    S2_TRY(read_first(source, FIRST("/page_size", "/chunk_size"), 1, 4096, 16, &page_tok));
    S2_TRY(s2_setting_int(&source->settings, "dense-layers", 0, S2_LIMIT_LAYERS, 2, &n_dense, source->diag));
    const int64_t n_pages = budget_tok / page_tok > 3 ? budget_tok / page_tok : 3;
    s2_status status = begin_text(source, 64, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: pages %lld page %lld\n",
                  (long long)n_pages, (long long)page_tok);
    if (n_dense > 0)
        s2_buf_printf(&text, "layers 0-%lld: dense\n", (long long)(n_dense - 1));
    s2_note(source->notes,
            "decode only; the first %lld layers are dense (--set dense-layers=N); the kernel path always "
            "keeps the "
            "newest page, its emulation does not",
            (long long)n_dense);
    s2_note(source->notes, "nothing is freed; page summaries add 1/%lld of the KV cache",
            (long long)page_tok);
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_quest = {.name = "quest",
                                   .summary = "Quest token_budget, page_size (chunk_size)",
                                   .settings = "dense-layers (2), layers, heads, kv-heads, head-dim",
                                   .recognises = quest_recognises,
                                   .import = quest_import};

/* ---- LServe ------------------------------------------------------------------------------------- */

static int lserve_recognises(const s2_source *source)
{
    return has_any(source, FIRST("/dynamic_sparse_token_budget", "/dec_sink_token", "/ctx_sink_token")) ? 90
                                                                                                        : 0;
}

static s2_status lserve_import(const s2_source *source, s2_pattern *out)
{
    int64_t ctx_sink, ctx_local, dec_sink, dec_local, budget, page_tok, streaming;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "LServe's command line"));
    S2_TRY(read_first(source, FIRST("/ctx_sink_token"), 1, S2_LIMIT_CONTEXT_TOK, 128, &ctx_sink));
    S2_TRY(read_first(source, FIRST("/ctx_local_token"), 1, S2_LIMIT_CONTEXT_TOK, 8192, &ctx_local));
    S2_TRY(read_first(source, FIRST("/dec_sink_token"), 1, S2_LIMIT_CONTEXT_TOK, 128, &dec_sink));
    S2_TRY(read_first(source, FIRST("/dec_local_token"), 1, S2_LIMIT_CONTEXT_TOK, 256, &dec_local));
    S2_TRY(read_first(source, FIRST("/dynamic_sparse_token_budget"), 1, S2_LIMIT_CONTEXT_TOK, 4096, &budget));
    S2_TRY(s2_setting_int(&source->settings, "page", 1, 1024, 64, &page_tok, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "streaming-kv", 0, S2_LIMIT_HEADS, 4, &streaming, source->diag));
    if (ctx_sink % page_tok != 0 || dec_sink % page_tok != 0 || dec_local % page_tok != 0 ||
        budget % page_tok != 0)
        return s2_doc_refuse(source->doc, "/dynamic_sparse_token_budget", source->diag,
                             "sinks, windows and budget must be multiples of the page of %lld tokens",
                             (long long)page_tok);
    const int64_t n_pages = budget / page_tok > 3 ? budget / page_tok : 3;
    s2_status status = begin_text(source, page_tok, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: pages %lld page %lld | local 1\n",
                  (long long)(n_pages > 1 ? n_pages - 1 : 1), (long long)page_tok);
    if (streaming > 0) {
        s2_buf_printf(&text, "prefill kv 0-%lld: sink %lldt | local %lldt\n", (long long)(streaming - 1),
                      (long long)ctx_sink, (long long)ctx_local);
        s2_buf_printf(&text, "decode kv 0-%lld: sink %lld | local %lld\n", (long long)(streaming - 1),
                      (long long)(dec_sink / page_tok), (long long)(dec_local / page_tok + 1));
    }
    s2_note(
        source->notes,
        "which heads stream is in DuoAttention's table, not on the command line: the first %lld KV heads of "
        "every layer are assumed (--set streaming-kv=N; import the table for the real roles)",
        (long long)streaming);
    s2_note(
        source->notes,
        "prefill and decode differ; decode of a retrieval head reads the last page always and chooses the "
        "others every few steps; nothing of it is freed");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_lserve = {
    .name = "lserve",
    .summary = "LServe / OmniServe command line (--ctx-sink-token, --dynamic-sparse-token-budget)",
    .settings = "streaming-kv (4), page (64), layers, heads, kv-heads, head-dim",
    .recognises = lserve_recognises,
    .import = lserve_import};

/* ---- SnapKV ------------------------------------------------------------------------------------- */

static int snapkv_recognises(const s2_source *source)
{
    return has_any(source, FIRST("/max_capacity_prompt", "/max_capacity_prompts")) ? 85 : 0;
}

static s2_status snapkv_import(const s2_source *source, s2_pattern *out)
{
    int64_t window, capacity;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "window_size and max_capacity_prompt"));
    S2_TRY(read_first(source, FIRST("/max_capacity_prompt", "/max_capacity_prompts"), 2, S2_LIMIT_CONTEXT_TOK,
                      2048, &capacity));
    S2_TRY(read_first(source, FIRST("/window_size"), 1, capacity - 1, capacity > 32 ? 32 : 1, &window));
    s2_status status = begin_text(source, 64, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: heavy %lld | local %lldt\n",
                  (long long)(capacity - window), (long long)window);
    s2_note(
        source->notes,
        "the prompt is cut to its %lld best keys and the last %lld at the end of prefill; new tokens are all "
        "kept upstream, here the window moves with them",
        (long long)(capacity - window), (long long)window);
    s2_note(
        source->notes,
        "upstream repeats K and V to the query heads before it evicts, so a grouped model stores every copy");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_snapkv = {.name = "snapkv",
                                    .summary = "SnapKV / PyramidKV max_capacity_prompt, window_size",
                                    .settings = "layers, heads, kv-heads, head-dim",
                                    .recognises = snapkv_recognises,
                                    .import = snapkv_import};

/* ---- NSA ---------------------------------------------------------------------------------------- */

static int nsa_recognises(const s2_source *source)
{
    return has_all(source, FIRST("/kernel_stride", "/topk")) ||
                   has_all(source, FIRST("/block_counts", "/block_size")) ||
                   has_all(source, FIRST("/num_selected_blocks", "/selection_block_size"))
               ? 85
               : 0;
}

static s2_status nsa_import(const s2_source *source, s2_pattern *out)
{
    int64_t block, n_selected, n_init, n_local, window;
    s2_buf text = {0};
    S2_TRY(needs_doc(source, "NSA's block size, top-k and window"));
    S2_TRY(
        read_first(source, FIRST("/selection_block_size", "/block_size"), 1, S2_LIMIT_BLOCK_TOK, 64, &block));
    S2_TRY(read_first(source, FIRST("/topk", "/block_counts", "/num_selected_blocks"), 1, 1 << 16, 16,
                      &n_selected));
    S2_TRY(read_first(source, FIRST("/init_blocks"), 0, n_selected, 0, &n_init));
    S2_TRY(read_first(source, FIRST("/local_blocks"), 0, n_selected, 0, &n_local));
    S2_TRY(read_first(source, FIRST("/window_size", "/sliding_window_size"), 1, S2_LIMIT_CONTEXT_TOK, 512,
                      &window));
    if ((block & (block - 1)) != 0)
        return s2_doc_refuse(source->doc, "/block_size", source->diag,
                             "the selected block must be a power of two");
    s2_status status = begin_text(source, block, &text);
    s2_buf_printf(&text, "layers all: local %lldt", (long long)window);
    if (n_init > 0)
        s2_buf_printf(&text, " | sink %lld", (long long)n_init);
    if (n_local > 0)
        s2_buf_printf(&text, " | local %lld", (long long)n_local);
    if (n_selected > n_init + n_local)
        s2_buf_printf(&text, " | pages %lld page %lld", (long long)(n_selected - n_init - n_local),
                      (long long)block);
    s2_buf_puts(&text, "\n");
    s2_note(source->notes, "the compressed branch reads pooled keys, not these, and is not in the pattern: "
                           "every query reads one "
                           "entry per compression stride besides; selection is shared in a group");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_nsa = {.name = "nsa",
                                 .summary = "NSA (native sparse attention): block size, top-k, window",
                                 .settings = "layers, heads, kv-heads, head-dim",
                                 .recognises = nsa_recognises,
                                 .import = nsa_import};

/* ---- DSA and its relatives ---------------------------------------------------------------------- */

static int dsa_recognises(const s2_source *source)
{
    return has_any(source, FIRST("/index_topk", "/sparse_attention_config/index_topk",
                                 "/sparse_attention_config/sparse_topk_blocks"))
               ? 88
               : 0;
}

static s2_status dsa_body(const s2_source *source, int64_t *block_tok, s2_buf *body)
{
    int64_t n, n_init, n_local;
    *block_tok = 64;
    if (!s2_doc_has(source->doc, "/sparse_attention_config/sparse_topk_blocks")) {
        S2_TRY(read_first(source, FIRST("/index_topk", "/sparse_attention_config/index_topk"), 1,
                          S2_LIMIT_CONTEXT_TOK, 2048, &n));
        s2_buf_printf(body, "topk %lld", (long long)n);
        if (s2_doc_has(source->doc, "/sliding_window")) {
            S2_TRY(s2_doc_int(source->doc, "/sliding_window", 1, S2_LIMIT_CONTEXT_TOK, &n, source->diag));
            s2_buf_printf(body, " | local %lldt", (long long)n);
        }
        return S2_OK;
    }
    S2_TRY(read_first(source, FIRST("/sparse_attention_config/sparse_block_size"), 1, S2_LIMIT_BLOCK_TOK, 128,
                      block_tok));
    S2_TRY(read_first(source, FIRST("/sparse_attention_config/sparse_topk_blocks"), 1, 1 << 16, 16, &n));
    S2_TRY(read_first(source, FIRST("/sparse_attention_config/sparse_init_block"), 0, n, 0, &n_init));
    S2_TRY(read_first(source, FIRST("/sparse_attention_config/sparse_local_block"), 0, n, 1, &n_local));
    if ((*block_tok & (*block_tok - 1)) != 0)
        return s2_doc_refuse(source->doc, "/sparse_attention_config/sparse_block_size", source->diag,
                             "sparse_block_size must be a power of two");
    s2_buf_printf(body, "pages %lld page %lld", (long long)(n > n_init + n_local ? n - n_init - n_local : 1),
                  (long long)*block_tok);
    if (n_init > 0)
        s2_buf_printf(body, " | sink %lld", (long long)n_init);
    if (n_local > 0)
        s2_buf_printf(body, " | local %lld", (long long)n_local);
    return S2_OK;
}

static s2_status dsa_import(const s2_source *source, s2_pattern *out)
{
    int64_t block_tok;
    s2_buf text = {0}, body = {0};
    S2_TRY(needs_doc(source, "index_topk"));
    s2_status status = dsa_body(source, &block_tok, &body);
    if (status == S2_OK)
        status = begin_text(source, block_tok, &text);
    s2_buf_printf(&text, "layers all: %s\n", body.data != NULL ? body.data : "dense");
    s2_buf_release(&body);
    s2_note(source->notes, "an indexer chooses the keys at run time, the same for all heads; it reads its "
                           "own key of every token, "
                           "which the pattern does not hold and which dominates at long context");
    s2_note(source->notes, "nothing is freed; up to the budget the layer is dense");
    return finish_text(source, status, &text, out);
}

const s2_format s2_format_dsa = {.name = "dsa",
                                 .summary = "DeepSeek DSA index_topk; MiniMax sparse_attention_config",
                                 .settings = "layers, heads, kv-heads, head-dim",
                                 .recognises = dsa_recognises,
                                 .import = dsa_import};
