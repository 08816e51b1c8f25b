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

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t ctx_sink, ctx_local, dec_sink, dec_local, budget, page_tok, streaming;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "LServe's command line"));
    S2_TRY(s2_budget_read(source, S2_PATHS("/ctx_sink_token"), 1, S2_LIMIT_CONTEXT_TOK, 128, &ctx_sink));
    S2_TRY(s2_budget_read(source, S2_PATHS("/ctx_local_token"), 1, S2_LIMIT_CONTEXT_TOK, 8192, &ctx_local));
    S2_TRY(s2_budget_read(source, S2_PATHS("/dec_sink_token"), 1, S2_LIMIT_CONTEXT_TOK, 128, &dec_sink));
    S2_TRY(s2_budget_read(source, S2_PATHS("/dec_local_token"), 1, S2_LIMIT_CONTEXT_TOK, 256, &dec_local));
    S2_TRY(s2_budget_read(source, S2_PATHS("/dynamic_sparse_token_budget"), 1, S2_LIMIT_CONTEXT_TOK, 4096,
                          &budget));
    S2_TRY(s2_setting_int(&source->settings, "page", 1, 1024, 64, &page_tok, source->diag));
    S2_TRY(s2_setting_int(&source->settings, "streaming-kv", 0, S2_LIMIT_HEADS, 4, &streaming, source->diag));
    if (ctx_sink % page_tok != 0 || dec_sink % page_tok != 0 || dec_local % page_tok != 0 ||
        budget % page_tok != 0)
        return s2_doc_refuse(source->doc, "/dynamic_sparse_token_budget", source->diag,
                             "sinks, windows and budget must be multiples of the page of %lld tokens",
                             (long long)page_tok);
    const int64_t n_pages = budget / page_tok > 3 ? budget / page_tok : 3;
    s2_status status = s2_budget_begin(source, page_tok, NULL, &text);
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
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_lserve = {
    .name = "lserve",
    .summary = "LServe / OmniServe command line (--ctx-sink-token, --dynamic-sparse-token-budget)",
    .settings = "streaming-kv (4), page (64), " S2_BUDGET_SETTINGS,
    .recognises = recognises,
    .import = import};
