/*
 * SnapKV: at the end of prefill the prompt is cut to a capacity, by the votes of its last queries.
 */
#include "export/budget.h"

#include <string.h>

static int recognises(const s2_source *source)
{
    return s2_budget_has_any(source, S2_PATHS("/max_capacity_prompt", "/max_capacity_prompts")) ? 85 : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t window, capacity;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "window_size and max_capacity_prompt"));
    S2_TRY(s2_budget_read(source, S2_PATHS("/max_capacity_prompt", "/max_capacity_prompts"), 2,
                          S2_LIMIT_CONTEXT_TOK, 2048, &capacity));
    S2_TRY(
        s2_budget_read(source, S2_PATHS("/window_size"), 1, capacity - 1, capacity > 32 ? 32 : 1, &window));
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "prefill layers all: dense\ndecode layers all: heavy %lld | local %lldt\n",
                  (long long)(capacity - window), (long long)window);
    s2_note(
        source->notes,
        "the prompt is cut to its %lld best keys and the last %lld at the end of prefill; new tokens are all "
        "kept upstream, here the window moves with them",
        (long long)(capacity - window), (long long)window);
    if (s2_budget_has_any(source, S2_PATHS("/floor_alpha")))
        s2_note(source->notes, "Ada-KV moves budget between the heads of a layer at run time; every head is "
                               "given the mean here");
    s2_note(
        source->notes,
        "upstream repeats K and V to the query heads before it evicts, so a grouped model stores every copy");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_snapkv = {
    .name = "snapkv",
    .summary = "SnapKV max_capacity_prompt, window_size (Ada-KV: the mean of its heads)",
    .settings = S2_BUDGET_SETTINGS,
    .recognises = recognises,
    .import = import};
