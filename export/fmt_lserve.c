/*
 * LServe / OmniServe: streaming heads by sink and window, other masks in prefill than in decode; retrieval
 * heads choose pages in decode. The numbers are on its command line.
 */
#include "export/budget.h"

#include <string.h>

static int recognises(const s2_source *source)
{
    return s2_budget_has_any(source,
                             S2_PATHS("/dynamic_sparse_token_budget", "/dec_sink_token", "/ctx_sink_token"))
               ? 90
               : 0;
}

typedef struct lserve {
    int64_t ctx_sink, ctx_local; /* tokens */
    int64_t dec_sink, dec_local;
    int64_t budget, page_tok;
    int64_t n_streaming; /* KV heads of each layer */
    bool sparse_prefill, sparse_decode;
} lserve;

/* A flag alone, or with 0 or 1. */
static s2_status read_mode(const s2_source *source, const char *path, bool fallback, bool *out)
{
    int64_t value;
    if (s2_doc_is_int(source->doc, path)) {
        S2_TRY(s2_doc_int(source->doc, path, 0, 1, &value, source->diag));
        *out = value != 0;
        return S2_OK;
    }
    return s2_doc_bool_or(source->doc, path, fallback, out, source->diag);
}

static s2_status read_streaming(const s2_source *source, int64_t n_kv_heads, lserve *out)
{
    double share = 0; /* LServe's default: every head keeps everything */
    if (s2_doc_has(source->doc, "/static_sparsity"))
        S2_TRY(s2_doc_num(source->doc, "/static_sparsity", 0, 1, &share, source->diag));
    if (share != 0 && !s2_doc_has(source->doc, "/static_sparse_attn_load_dir") &&
        s2_setting_text(&source->settings, "streaming-kv") == NULL)
        return s2_doc_refuse(
            source->doc, "/static_sparsity", source->diag,
            "LServe refuses a share of streaming heads without --static-sparse-attn-load-dir, whose table "
            "says which stream (--set streaming-kv=N)");
    const int64_t n = (int64_t)(share * (double)n_kv_heads + 0.5);
    S2_TRY(
        s2_setting_int(&source->settings, "streaming-kv", 0, n_kv_heads, n, &out->n_streaming, source->diag));
    if (out->n_streaming == 0)
        s2_note(source->notes, "no head streams: %s (--set streaming-kv=N)",
                s2_doc_has(source->doc, "/static_sparsity") ? "static_sparsity says so"
                                                            : "--static-sparsity is absent");
    else
        s2_note(
            source->notes,
            "which heads stream is in DuoAttention's table, not on the command line: the first %lld KV heads "
            "of every layer are taken, %s (--set streaming-kv=N; import the table for the real roles)",
            (long long)out->n_streaming,
            s2_setting_text(&source->settings, "streaming-kv") != NULL ? "as streaming-kv says"
                                                                       : "the share of static_sparsity");
    return S2_OK;
}

/* LServe looks at these where pages are chosen in decode, and nowhere at prefill's. */
static s2_status check_pages(const s2_source *source, const lserve *of)
{
    const struct {
        const char *path;
        int64_t tokens;
    } all[] = {{"/dec_sink_token", of->dec_sink},
               {"/dec_local_token", of->dec_local},
               {"/dynamic_sparse_token_budget", of->budget}};
    for (size_t n = 0; of->sparse_decode && n < sizeof all / sizeof *all; n++)
        if (all[n].tokens % of->page_tok != 0)
            return s2_doc_refuse(
                source->doc, all[n].path, source->diag,
                "%lld tokens are not a multiple of the page of %lld, which LServe wants where "
                "pages are chosen in decode",
                (long long)all[n].tokens, (long long)of->page_tok);
    return S2_OK;
}

static s2_status read_all(const s2_source *source, lserve *out)
{
    S2_TRY(s2_budget_read(source, S2_PATHS("/ctx_sink_token"), 0, S2_LIMIT_CONTEXT_TOK, 128, &out->ctx_sink));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/ctx_local_token"), 1, S2_LIMIT_CONTEXT_TOK, 8192, &out->ctx_local));
    S2_TRY(s2_budget_read(source, S2_PATHS("/dec_sink_token"), 0, S2_LIMIT_CONTEXT_TOK, 128, &out->dec_sink));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/dec_local_token"), 0, S2_LIMIT_CONTEXT_TOK, 256, &out->dec_local));
    S2_TRY(s2_budget_read(source, S2_PATHS("/dynamic_sparse_token_budget", "/dynamic_attn_budget"), 1,
                          S2_LIMIT_CONTEXT_TOK, 4096, &out->budget));
    S2_TRY(read_mode(source, "/sparse_context_mode", false, &out->sparse_prefill));
    S2_TRY(read_mode(source, "/sparse_decode_mode", true, &out->sparse_decode));
    S2_TRY(s2_setting_int(&source->settings, "page", 1, 1024, 64, &out->page_tok, source->diag));
    return check_pages(source, out);
}

static void print_rules(const lserve *of, s2_buf *text)
{
    const long long page_tok = of->page_tok, n_pages = of->budget / of->page_tok;
    s2_buf_puts(text, "layers all: dense\n");
    if (of->sparse_decode)
        s2_buf_printf(text, "decode layers all: pages %lld page %lld | local 1\n",
                      n_pages > 3 ? n_pages - 1 : 2, page_tok);
    if (of->n_streaming > 0 && of->sparse_prefill) {
        s2_buf_printf(text, "prefill kv 0-%lld: ", (long long)(of->n_streaming - 1));
        if (of->ctx_sink > 0)
            s2_buf_printf(text, "sink %lldt | ", (long long)of->ctx_sink);
        s2_buf_printf(text, "local %lldt\n", (long long)of->ctx_local);
    }
    if (of->n_streaming > 0) {
        s2_buf_printf(text, "decode kv 0-%lld: ", (long long)(of->n_streaming - 1));
        if (of->dec_sink / page_tok > 0)
            s2_buf_printf(text, "sink %lld | ", (long long)of->dec_sink / page_tok);
        s2_buf_printf(text, "local %lld\n", (long long)of->dec_local / page_tok + 1);
    }
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    lserve numbers = {0};
    s2_model_shape shape;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "LServe's command line"));
    S2_TRY(read_all(source, &numbers));
    const s2_status status = s2_budget_begin(source, numbers.page_tok, &shape, &text);
    if (status != S2_OK)
        return s2_budget_finish(source, status, &text, out);
    const s2_status streaming = read_streaming(source, shape.n_kv_heads, &numbers);
    if (streaming == S2_OK)
        print_rules(&numbers, &text);
    if (!numbers.sparse_prefill)
        s2_note(source->notes, "without --sparse-context-mode prefill is dense in every head");
    if (!s2_doc_has(source->doc, "/sparse_decode_mode"))
        s2_note(source->notes, "--sparse-decode-mode is absent: pages are assumed to be chosen in decode");
    s2_note(source->notes, "decode of a retrieval head reads the last page always and chooses the others "
                           "every few steps; nothing of it is freed");
    return s2_budget_finish(source, streaming, &text, out);
}

const s2_format s2_format_lserve = {
    .name = "lserve",
    .summary = "LServe / OmniServe command line (--ctx-sink-token, --dynamic-sparse-token-budget)",
    .settings = "streaming-kv (static_sparsity), page (64), " S2_BUDGET_SETTINGS,
    .recognises = recognises,
    .read = import};
