/*
 * PyramidKV: SnapKV with a budget that falls linearly from the first layer to the last. The numbers are on
 * the command line of KVCache-Factory.
 */
#include "export/budget.h"
#include "export/model.h"

#include <string.h>
#include <strings.h>

static int recognises(const s2_source *source)
{
    const char *const method = s2_budget_word(source, S2_PATHS("/method", "/press"));
    return method != NULL && strcasecmp(method, "pyramidkv") == 0 &&
                   s2_budget_has_any(source, S2_PATHS("/max_capacity_prompts", "/max_capacity_prompt"))
               ? 90
               : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t capacity, window, beta;
    s2_model_shape shape = {.n_layers = 1};
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "method: pyramidkv and max_capacity_prompts"));
    S2_TRY(s2_budget_read(source, S2_PATHS("/max_capacity_prompts", "/max_capacity_prompt"), 2,
                          S2_LIMIT_CONTEXT_TOK, 512, &capacity));
    S2_TRY(s2_budget_read(source, S2_PATHS("/window_size", "/window_sizes"), 1, capacity - 1,
                          capacity > 8 ? 8 : 1, &window));
    S2_TRY(s2_budget_read(source, S2_PATHS("/beta"), 1, S2_LIMIT_CONTEXT_TOK, 20, &beta));
    const s2_status status = s2_budget_begin(source, 64, &shape, &text);
    const int64_t least = (capacity - window) / beta, most = 2 * (capacity - window) - least;
    const int64_t step = shape.n_layers > 1 ? (most - least) / (shape.n_layers - 1) : 0;
    s2_buf_puts(&text, "prefill layers all: dense\n");
    for (int64_t layer = 0; layer < shape.n_layers; layer++) {
        const int64_t held = most - layer * step;
        s2_buf_printf(&text, "decode layers %lld: heavy %lld | local %lldt\n", (long long)layer,
                      (long long)(held > 0 ? held : 1), (long long)window);
    }
    s2_note(source->notes,
            "the prompt is cut to %lld keys in the first layer, %lld fewer in every next one, the last %lld "
            "tokens always among them",
            (long long)(most + window), (long long)step, (long long)window);
    s2_note(source->notes, "upstream repeats K and V to the query heads before it evicts, so a grouped model "
                           "stores every copy; a prompt shorter than the budget is kept whole");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_pyramidkv = {.name = "pyramidkv",
                                       .summary = "PyramidKV max_capacity_prompts, window_sizes, beta",
                                       .settings = S2_BUDGET_SETTINGS,
                                       .recognises = recognises,
                                       .read = import};
