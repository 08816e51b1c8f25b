/*
 * StreamingLLM: the first tokens and the last, in every layer and head. SGLang's streaming_llm policy counts
 * both in pages.
 */
#include "export/budget.h"
#include "export/model.h"

#include <string.h>
#include <strings.h>

static bool says_method(const s2_source *source)
{
    const char *const method = s2_budget_word(source, S2_PATHS("/method"));
    return method != NULL && strcasecmp(method, "streamingllm") == 0 &&
           s2_budget_has_any(source, S2_PATHS("/max_capacity_prompts"));
}

static int recognises(const s2_source *source)
{
    const char *const policy = s2_budget_word(source, S2_PATHS("/policy"));
    if (policy != NULL && strcmp(policy, "streaming_llm") == 0)
        return 85;
    if (says_method(source))
        return 90;
    return s2_budget_has_all(source, S2_PATHS("/start_size", "/recent_size")) ? 80 : 0;
}

/* SGLang's policy may leave the first and the last layers alone. */
static s2_status dense_layers(const s2_source *source, int64_t n_layers, s2_buf *text)
{
    int64_t begin, last;
    S2_TRY(s2_budget_read(source, S2_PATHS("/start_layer"), 0, n_layers - 1, 0, &begin));
    S2_TRY(s2_budget_read(source, S2_PATHS("/end_layer"), -1, n_layers - 1, -1, &last));
    if (begin > 0)
        s2_buf_printf(text, "layers 0-%lld: dense\n", (long long)(begin - 1));
    if (last >= 0 && last + 1 < n_layers)
        s2_buf_printf(text, "layers %lld-%lld: dense\n", (long long)(last + 1), (long long)(n_layers - 1));
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t sink_tok, recent_tok, page_tok = 1;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "start_size and recent_size"));
    if (s2_doc_has(source->doc, "/policy_config")) {
        S2_TRY(s2_budget_read(source, S2_PATHS("/page_size"), 1, 4096, 1, &page_tok));
        S2_TRY(s2_budget_read(source, S2_PATHS("/policy_config/sink_pages"), 1, 1 << 20, 4, &sink_tok));
        S2_TRY(
            s2_budget_read(source, S2_PATHS("/policy_config/recent_pages"), 1, 1 << 20, 2048, &recent_tok));
    } else if (says_method(source)) {
        S2_TRY(s2_doc_int(source->doc, "/max_capacity_prompts", 5, S2_LIMIT_CONTEXT_TOK, &recent_tok,
                          source->diag));
        sink_tok = 4;
        recent_tok -= sink_tok;
    } else {
        S2_TRY(s2_budget_read(source, S2_PATHS("/start_size"), 1, S2_LIMIT_CONTEXT_TOK, 4, &sink_tok));
        S2_TRY(s2_budget_read(source, S2_PATHS("/recent_size"), 1, S2_LIMIT_CONTEXT_TOK, 512, &recent_tok));
    }
    s2_model_shape shape = {.n_layers = 1};
    s2_status status = s2_budget_begin(source, 64, &shape, &text);
    s2_buf_printf(&text, "layers all: sink %lldt | local %lldt\n", (long long)(sink_tok * page_tok),
                  (long long)(recent_tok * page_tok));
    if (status == S2_OK)
        status = dense_layers(source, shape.n_layers, &text);
    s2_note(source->notes,
            "evicted keys are gone for every later query: the union of heads is not complete; positions are "
            "renumbered inside the cache upstream, which a pattern does not show");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_streamingllm = {.name = "streamingllm",
                                          .summary =
                                              "StreamingLLM start_size, recent_size; SGLang streaming_llm "
                                              "policy; KVCache-Factory --method streamingllm",
                                          .settings = S2_BUDGET_SETTINGS,
                                          .recognises = recognises,
                                          .read = import};
