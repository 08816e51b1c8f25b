/*
 * Quest: in decode the pages with the best upper bound, up to a budget of tokens. SGLang (--hisparse-config) reads a
 * share of the pages instead, beside the newest ones, in every layer.
 */
#include "export/budget.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/arith.h"

static bool is_sglang(const s2_source *source)
{
    const char *const algorithm = source->doc != NULL ? s2_doc_text(source->doc, "/algorithm") : NULL;
    return algorithm != NULL && strcasecmp(algorithm, "quest") == 0;
}

static int recognises(const s2_source *source)
{
    if (is_sglang(source))
        return 80;
    return s2_budget_has_any(source, S2_PATHS("/token_budget")) ? 70 : 0;
}

/* The first layers read everything, `fallback` of them where nothing else is said. */
static s2_status put_dense(const s2_source *source, int64_t fallback, s2_buf *text, int64_t *n_dense)
{
    S2_TRY(s2_setting_int(&source->settings, "dense-layers", 0, S2_LIMIT_LAYERS, fallback, n_dense,
                          source->diag));
    if (*n_dense > 0)
        s2_buf_printf(text, "layers 0-%lld: dense\n", (long long)*n_dense - 1);
    return S2_OK;
}

/* What its code reads besides, or takes for nothing. */
static s2_status refuse_other_budgets(const s2_source *source)
{
    static const char *const others[] = {"/token_budget", "/layer_page_budget"};
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (s2_doc_has(source->doc, others[n]))
            return s2_doc_refuse(source->doc, others[n], source->diag,
                                 "\"%s\" beside SGLang's quest: what is read here is sparsity_ratio and "
                                 "num_recent_pages",
                                 others[n] + 1);
    return S2_OK;
}

/* Of the pages before the newest ones a share, at least one, and at most what quest_max_selected_tokens leaves. */
static s2_status chosen_pages(const s2_source *source, int64_t n_tok, int64_t page_tok, int64_t n_recent,
                              double share, int64_t *out)
{
    int64_t most_tok;
    const int64_t n_before = s2_max_i64(s2_ceil_div(n_tok, page_tok) - n_recent, 1);
    *out = s2_max_i64((int64_t)floor(share * (double)n_before), 1);
    if (!s2_doc_has(source->doc, "/quest_max_selected_tokens"))
        return S2_OK;
    S2_TRY(s2_doc_int(source->doc, "/quest_max_selected_tokens", (n_recent + 1) * page_tok, INT32_MAX,
                      &most_tok, source->diag));
    *out = s2_min_i64(*out, most_tok / page_tok - n_recent);
    return S2_OK;
}

static s2_status import_sglang(const s2_source *source, s2_pattern *out)
{
    int64_t page_tok, n_recent, n_tok, n_chosen, least_tok, n_dense;
    double share = 0.7;
    s2_buf text = {0};
    S2_TRY(refuse_other_budgets(source));
    S2_TRY(s2_doc_int(source->doc, "/page_size", 1, S2_LIMIT_BLOCK_TOK, &page_tok, source->diag));
    if (!s2_is_power_of_two(page_tok))
        return s2_doc_refuse(source->doc, "/page_size", source->diag,
                             "pages must be a power of two of tokens");
    S2_TRY(s2_budget_read(source, S2_PATHS("/num_recent_pages"), 1, 1 << 16, 4, &n_recent));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/min_sparse_prompt_len"), 0, S2_LIMIT_CONTEXT_TOK, 0, &least_tok));
    if (s2_doc_has(source->doc, "/sparsity_ratio"))
        S2_TRY(s2_doc_num(source->doc, "/sparsity_ratio", 0, 1, &share, source->diag));
    else
        s2_note(source->notes, "sparsity_ratio is not stated; it is taken as %.1f", share);
    S2_TRY(s2_setting_len(source, 1, S2_LIMIT_CONTEXT_TOK, 32768, &n_tok));
    S2_TRY(chosen_pages(source, n_tok, page_tok, n_recent, share, &n_chosen));
    s2_status status = s2_budget_begin(source, page_tok, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: local %lld | pages %lld page %lld\n",
                  (long long)n_recent, (long long)n_chosen, (long long)page_tok);
    if (status == S2_OK)
        status = put_dense(source, 0, &text, &n_dense);
    s2_note(source->notes,
            "decode only: the %lld newest pages and a share of those before them, which is %lld pages at "
            "%lld tokens "
            "(--set len=N)",
            (long long)n_recent, (long long)n_chosen, (long long)n_tok);
    if (least_tok > 0)
        s2_note(source->notes, "prompts of less than %lld tokens are decoded dense", (long long)least_tok);
    s2_note(source->notes, "nothing is freed; page summaries add 1/%lld of the KV cache",
            (long long)page_tok);
    return s2_budget_finish(source, status, &text, out);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t budget_tok, page_tok, n_dense = 0;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "token_budget and page_size"));
    if (is_sglang(source))
        return import_sglang(source, out);
    S2_TRY(s2_budget_read(source, S2_PATHS("/token_budget", "/budget"), 1, S2_LIMIT_CONTEXT_TOK, 1024,
                          &budget_tok));
    S2_TRY(s2_budget_read(source, S2_PATHS("/page_size", "/chunk_size"), 1, 4096, 16, &page_tok));
    const int64_t n_pages = s2_max_i64(budget_tok / page_tok, 3);
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: pages %lld page %lld\n",
                  (long long)n_pages, (long long)page_tok);
    if (status == S2_OK)
        status = put_dense(source, 2, &text, &n_dense);
    s2_note(source->notes,
            "decode only; the first %lld layers are dense (--set dense-layers=N); the kernel path always "
            "keeps the newest page, its emulation does not",
            (long long)n_dense);
    s2_note(source->notes, "nothing is freed; page summaries add 1/%lld of the KV cache",
            (long long)page_tok);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_quest = {.name = "quest",
                                   .summary = "Quest token_budget, page_size (chunk_size); SGLang's "
                                              "quest: sparsity_ratio, num_recent_pages",
                                   .settings = "dense-layers (2), len (32768), " S2_BUDGET_SETTINGS,
                                   .recognises = recognises,
                                   .read = import};
