/*
 * SnapKV: at the end of prefill the votes of the last queries cut the prompt to a capacity. Its files give
 * one number for all layers or a list of one per layer. KVCache-Factory's --method names this and others
 * that cut to the same capacity by other scores, with a window of 8.
 */
#include "export/budget.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CAPACITY_PATHS S2_PATHS("/max_capacity_prompt", "/max_capacity_prompts")
#define WINDOW_PATHS   S2_PATHS("/window_size", "/window_sizes")

/* What --method does with the numbers. PyramidKV and StreamingLLM have formats of their own. */
typedef enum cut { CUT_NONE, CUT_SCORED, CUT_MEAN, CUT_UNKNOWN } cut;

static const struct {
    const char *name;
    cut cut;
} methods[] = {{"fullkv", CUT_NONE},         {"snapkv", CUT_SCORED},      {"h2o", CUT_SCORED},
               {"cam", CUT_SCORED},          {"l2norm", CUT_SCORED},      {"think", CUT_SCORED},
               {"adakv", CUT_MEAN},          {"headkv", CUT_UNKNOWN},     {"nacl", CUT_UNKNOWN},
               {"quest", CUT_UNKNOWN},       {"minference", CUT_UNKNOWN}, {"minicache", CUT_UNKNOWN},
               {"scissorhands", CUT_UNKNOWN}};

static const char *method_of(const s2_source *source)
{
    return s2_budget_word(source, S2_PATHS("/method"));
}

/* CUT_SCORED for files without a method. */
static cut cut_of(const s2_source *source, bool *known)
{
    const char *const word = method_of(source);
    *known = word == NULL;
    for (size_t m = 0; word != NULL && m < sizeof methods / sizeof *methods; m++)
        if (strcasecmp(word, methods[m].name) == 0) {
            *known = true;
            return methods[m].cut;
        }
    return word == NULL ? CUT_SCORED : CUT_UNKNOWN;
}

static int recognises(const s2_source *source)
{
    bool known;
    (void)cut_of(source, &known);
    return s2_budget_has_any(source, CAPACITY_PATHS) || (known && method_of(source) != NULL) ? 85 : 0;
}

/* A layer's own number: its entry in a list, or the one number for all. */
static s2_status read_at(const s2_source *source, const char *const *paths, int64_t layer, int64_t n_layers,
                         int64_t low, int64_t high, int64_t fallback, int64_t *out)
{
    for (; *paths != NULL; paths++)
        if (s2_doc_is_array(source->doc, *paths)) {
            char path[64];
            const int64_t n = s2_doc_len(source->doc, *paths);
            if (n < n_layers)
                return s2_doc_refuse(source->doc, *paths, source->diag, "%lld entries for %lld layers",
                                     (long long)n, (long long)n_layers);
            snprintf(path, sizeof path, "%s/%lld", *paths, (long long)layer);
            return s2_doc_int(source->doc, path, low, high, out, source->diag);
        } else if (s2_doc_has(source->doc, *paths)) {
            return s2_doc_int(source->doc, *paths, low, high, out, source->diag);
        }
    *out = fallback;
    return S2_OK;
}

/* If nothing else gives the number of layers, the longest list does. */
static void layers_of_lists(const s2_source *source, s2_model_shape *shape)
{
    const char *const *const lists =
        S2_PATHS("/max_capacity_prompt", "/max_capacity_prompts", "/window_size", "/window_sizes");
    if (s2_setting_text(&source->settings, "layers") != NULL ||
        s2_budget_has_any(source, S2_PATHS("/num_hidden_layers", "/num_layers")))
        return;
    for (int n = 0; lists[n] != NULL; n++)
        if (s2_doc_is_array(source->doc, lists[n]) && s2_doc_len(source->doc, lists[n]) <= S2_LIMIT_LAYERS &&
            s2_doc_len(source->doc, lists[n]) > 0) {
            shape->n_layers = s2_doc_len(source->doc, lists[n]);
            return;
        }
}

static s2_status print_layers(const s2_source *source, int64_t n_layers, s2_buf *text)
{
    const int64_t window_fallback = method_of(source) != NULL ? 8 : 32;
    const int64_t capacity_fallback = method_of(source) != NULL ? 512 : 2048;
    for (int64_t layer = 0; layer < n_layers; layer++) {
        int64_t capacity, window;
        S2_TRY(read_at(source, CAPACITY_PATHS, layer, n_layers, 2, S2_LIMIT_CONTEXT_TOK, capacity_fallback,
                       &capacity));
        S2_TRY(read_at(source, WINDOW_PATHS, layer, n_layers, 1, capacity - 1,
                       capacity > window_fallback ? window_fallback : 1, &window));
        s2_buf_printf(text, "decode layers %lld: heavy %lld | local %lldt\n", (long long)layer,
                      (long long)(capacity - window), (long long)window);
    }
    return S2_OK;
}

static s2_status refuse_method(const s2_source *source)
{
    const char *const word = method_of(source);
    if (strcasecmp(word, "headkv") == 0)
        return s2_doc_refuse(source->doc, "/method", source->diag,
                             "the budgets of heads follow from the file of --head_path: import that");
    return s2_doc_refuse(source->doc, "/method", source->diag, "no pattern is known for method %.40s", word);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    bool known;
    s2_model_shape shape;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "window_size and max_capacity_prompt"));
    const cut how = cut_of(source, &known);
    if (how == CUT_UNKNOWN)
        return refuse_method(source);
    S2_TRY(s2_budget_shape(source, &shape));
    layers_of_lists(source, &shape);
    s2_language_name(&text, source->name);
    s2_language_shape(&text, shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim, 64);
    s2_buf_puts(&text, how == CUT_NONE ? "layers all: dense\n" : "prefill layers all: dense\n");
    const s2_status status = how == CUT_NONE ? S2_OK : print_layers(source, shape.n_layers, &text);
    if (how == CUT_NONE)
        return s2_budget_finish(source, status, &text, out);
    s2_note(source->notes, "at the end of prefill the prompt is cut to its best keys and a window of the "
                           "last ones; new tokens are all kept upstream, here the window moves with them");
    if (method_of(source) != NULL && !s2_budget_has_any(source, WINDOW_PATHS))
        s2_note(source->notes, "KVCache-Factory sets a window of 8 for this method");
    if (how == CUT_MEAN || s2_budget_has_any(source, S2_PATHS("/floor_alpha")))
        s2_note(source->notes, "Ada-KV moves budget between the heads of a layer at run time; every head is "
                               "given the mean here");
    s2_note(
        source->notes,
        "upstream repeats K and V to the query heads before it evicts, so a grouped model stores every copy");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_snapkv = {
    .name = "snapkv",
    .summary =
        "SnapKV max_capacity_prompt, window_size (Ada-KV: the mean of its heads); KVCache-Factory --method",
    .settings = S2_BUDGET_SETTINGS,
    .recognises = recognises,
    .read = import};
