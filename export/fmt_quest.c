/*
 * Quest: in decode the pages with the best upper bound, up to a budget of tokens. SGLang names it as an
 * algorithm of its hierarchical sparse attention.
 */
#include "export/budget.h"

#include <string.h>

#include "base/arith.h"

static int recognises(const s2_source *source)
{
    const char *const algorithm = source->doc != NULL ? s2_doc_text(source->doc, "/algorithm") : NULL;
    if (algorithm != NULL && strcmp(algorithm, "quest") == 0)
        return 80;
    return s2_budget_has_any(source, S2_PATHS("/token_budget")) ? 70 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t budget_tok, page_tok, n_dense;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "token_budget and page_size"));
    S2_TRY(s2_budget_read(source, S2_PATHS("/token_budget", "/budget"), 1, S2_LIMIT_CONTEXT_TOK, 1024,
                          &budget_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS("/page_size", "/chunk_size"), 1, 4096, 16, &page_tok));
    S2_TRY(s2_setting_int(&source->settings, "dense-layers", 0, S2_LIMIT_LAYERS, 2, &n_dense, source->diag));
    const int64_t n_pages = s2_max_i64(budget_tok / page_tok, 3);
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: pages %lld page %lld\n",
                  (long long)n_pages, (long long)page_tok);
    if (n_dense > 0)
        s2_buf_printf(&text, "layers 0-%lld: dense\n", (long long)(n_dense - 1));
    s2_note(source->notes,
            "decode only; the first %lld layers are dense (--set dense-layers=N); the kernel path always "
            "keeps the newest page, its emulation does not",
            (long long)n_dense);
    s2_note(source->notes, "nothing is freed; page summaries add 1/%lld of the KV cache",
            (long long)page_tok);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_quest = {.name = "quest",
                                   .summary = "Quest token_budget, page_size (chunk_size)",
                                   .settings = "dense-layers (2), " S2_BUDGET_SETTINGS,
                                   .recognises = recognises,
                                   .read = import};
