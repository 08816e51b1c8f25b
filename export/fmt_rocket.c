/*
 * TensorRT-LLM's sparse_attention_config, from YAML or JSON: RocketKV, and a plain refusal of the algorithms
 * that no pattern can hold (dsa is a row of its own).
 */
#include "export/budget.h"

#include <stdio.h>
#include <string.h>

#define ALGORITHM S2_PATHS("/sparse_attention_config/algorithm", "/algorithm")

static int recognises(const s2_source *source)
{
    const char *const word = s2_budget_word(source, ALGORITHM);
    if (word != NULL && (strcmp(word, "rocket") == 0 || strcmp(word, "skip_softmax") == 0))
        return 90;
    return s2_budget_has_all(source, S2_PATHS("/prompt_budget", "/topk")) ? 80 : 0;
}

static s2_status read(const s2_source *source, const char *key, int64_t low, int64_t fallback, int64_t *out)
{
    char path[2][64];
    snprintf(path[0], sizeof path[0], "/sparse_attention_config/%s", key);
    snprintf(path[1], sizeof path[1], "/%s", key);
    return s2_budget_read(source, S2_PATHS(path[0], path[1]), low, S2_LIMIT_CONTEXT_TOK, fallback, out);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t window_tok, budget_tok, topk, page_tok;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "sparse_attention_config with algorithm: rocket"));
    const char *const word = s2_budget_word(source, ALGORITHM);
    if (word != NULL && strcmp(word, "skip_softmax") == 0)
        return s2_doc_refuse(
            source->doc,
            s2_doc_has(source->doc, "/sparse_attention_config/algorithm")
                ? "/sparse_attention_config/algorithm"
                : "/algorithm",
            source->diag,
            "skip_softmax drops tiles whose scores are below a threshold, which a pattern cannot express");
    S2_TRY(read(source, "window_size", 1, 32, &window_tok));
    S2_TRY(read(source, "prompt_budget", window_tok + 1, 2048, &budget_tok));
    S2_TRY(read(source, "topk", 1, 64, &topk));
    S2_TRY(read(source, "page_size", 1, 4, &page_tok));
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: heavy %lld | local %lldt\n",
                  (long long)(budget_tok - window_tok), (long long)window_tok);
    s2_note(source->notes,
            "prefill is dense; then the prompt is cut to %lld keys for good, the last %lld tokens among them",
            (long long)budget_tok, (long long)window_tok);
    s2_note(source->notes,
            "of what is held each step of decode reads the best %lld pages of %lld tokens: the pattern shows "
            "what must be held, not the smaller part that is read",
            (long long)topk, (long long)page_tok);
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_rocket = {.name = "rocket",
                                    .summary = "TensorRT-LLM sparse_attention_config: RocketKV",
                                    .settings = S2_BUDGET_SETTINGS,
                                    .recognises = recognises,
                                    .read = import};
