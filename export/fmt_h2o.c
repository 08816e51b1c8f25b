/*
 * H2O: heavy hitters by accumulated attention, and recent tokens, as shares of the length or as sizes.
 */
#include "export/budget.h"

#include <string.h>

static int recognises(const s2_source *source)
{
    return s2_budget_has_all(source, S2_PATHS("/heavy_ratio", "/recent_ratio")) ||
                   s2_budget_has_all(source, S2_PATHS("/hh_size", "/recent_size"))
               ? 85
               : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t heavy, recent, n_tok;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0,
                           "heavy_ratio and recent_ratio, or hh_size and recent_size"));
    if (s2_doc_has(source->doc, "/heavy_ratio")) {
        double heavy_ratio, recent_ratio;
        S2_TRY(s2_setting_len(source, 1, S2_LIMIT_CONTEXT_TOK, 4096, &n_tok));
        S2_TRY(s2_doc_num(source->doc, "/heavy_ratio", 0, 1, &heavy_ratio, source->diag));
        S2_TRY(s2_doc_num(source->doc, "/recent_ratio", 0, 1, &recent_ratio, source->diag));
        heavy = (int64_t)(heavy_ratio * (double)n_tok);
        recent = (int64_t)(recent_ratio * (double)n_tok);
        s2_note(source->notes, "budgets are shares of the length: those of %lld tokens (--set len=N)",
                (long long)n_tok);
    } else {
        S2_TRY(s2_budget_read(source, S2_PATHS("/hh_size"), 1, S2_LIMIT_CONTEXT_TOK, 4, &heavy));
        S2_TRY(s2_budget_read(source, S2_PATHS("/recent_size"), 1, S2_LIMIT_CONTEXT_TOK, 512, &recent));
    }
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    s2_buf_printf(&text, "layers all: heavy %lld | local %lldt\n", (long long)(heavy > 0 ? heavy : 1),
                  (long long)(recent > 0 ? recent : 1));
    s2_note(source->notes, "heavy hitters are chosen by accumulated attention at run time; the main H2O "
                           "harness masks and frees no memory, only its real-drop mode evicts");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_h2o = {.name = "h2o",
                                 .summary = "H2O heavy_ratio, recent_ratio, or hh_size, recent_size",
                                 .settings = "len (4096), " S2_BUDGET_SETTINGS,
                                 .recognises = recognises,
                                 .read = import};
