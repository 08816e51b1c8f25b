/*
 * H2O: heavy hitters by accumulated attention, and recent tokens, as shares of the length or as sizes. Its
 * generation masks keys from the second forward on, so that prefill is dense, and counts the query's own key among
 * the recent ones; its evaluation (lm_eval) masks every row, and reads the query's own key besides both. Sizes are
 * those of a cache that is cut after each forward: what is left of it is read, and the query's own key.
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

typedef struct h2o {
    int64_t heavy, recent; /* keys that a query chooses, and those from its own on */
    bool prefill;          /* rows of prefill are masked, too */
} h2o;

static s2_status read_shares(const s2_source *source, h2o *out)
{
    const char *const asked = s2_setting_text(&source->settings, "rule");
    int64_t n_tok;
    double heavy_ratio, recent_ratio;
    out->prefill = asked != NULL && strcmp(asked, "evaluate") == 0;
    if (asked != NULL && !out->prefill && strcmp(asked, "generate") != 0)
        return s2_diag_set(source->diag, S2_EINVAL, S2_CODE_FOREIGN, 0, 0,
                           "--set rule must be generate or evaluate");
    S2_TRY(s2_setting_len(source, 1, S2_LIMIT_CONTEXT_TOK, 4096, &n_tok));
    S2_TRY(s2_doc_num(source->doc, "/heavy_ratio", 0, 1, &heavy_ratio, source->diag));
    S2_TRY(s2_doc_num(source->doc, "/recent_ratio", 0, 1, &recent_ratio, source->diag));
    out->heavy = (int64_t)(heavy_ratio * (double)n_tok);
    out->recent = (int64_t)(recent_ratio * (double)n_tok);
    if (out->prefill) { /* its heavy hitters are one fewer and the query's own key */
        out->heavy = s2_max_i64(out->heavy - 1, 0);
        out->recent++;
    }
    s2_note(source->notes, "budgets are shares of the length: those of %lld tokens (--set len=N)",
            (long long)n_tok);
    s2_note(source->notes, "%s",
            out->prefill ? "read as H2O's evaluation does: every row of prefill is masked too"
                         : "read as H2O's generation does: prefill is dense; its evaluation masks every row "
                           "of prefill too (--set rule=evaluate)");
    return S2_OK;
}

static s2_status read_sizes(const s2_source *source, h2o *out)
{
    S2_TRY(s2_budget_read(source, S2_PATHS("/hh_size"), 1, S2_LIMIT_CONTEXT_TOK, 4, &out->heavy));
    S2_TRY(s2_budget_read(source, S2_PATHS("/recent_size"), 1, S2_LIMIT_CONTEXT_TOK, 512, &out->recent));
    out->recent++;
    s2_note(source->notes,
            "prefill is dense: the cache is cut after it, and a query reads what is left, %lld "
            "recent tokens and its own key among it",
            (long long)(out->recent - 1));
    return S2_OK;
}

static void print_rules(const s2_source *source, const h2o *of, s2_buf *text)
{
    if (of->recent == 0) {
        s2_buf_puts(text, "layers all: dense\n");
        s2_note(source->notes, "with no recent tokens H2O's generation masks nothing");
        return;
    }
    s2_buf_puts(text, of->prefill ? "layers all: " : "prefill layers all: dense\ndecode layers all: ");
    if (of->heavy > 0)
        s2_buf_printf(text, "heavy %lld | ", (long long)of->heavy);
    s2_buf_printf(text, "local %lldt\n", (long long)of->recent);
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    h2o numbers = {0};
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0,
                           "heavy_ratio and recent_ratio, or hh_size and recent_size"));
    S2_TRY((s2_doc_has(source->doc, "/heavy_ratio") ? read_shares : read_sizes)(source, &numbers));
    s2_status status = s2_budget_begin(source, 64, NULL, &text);
    print_rules(source, &numbers, &text);
    s2_note(source->notes, "heavy hitters are chosen by accumulated attention at run time; the main H2O "
                           "harness masks and frees no memory, only its real-drop mode evicts");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_h2o = {.name = "h2o",
                                 .summary = "H2O heavy_ratio, recent_ratio, or hh_size, recent_size",
                                 .settings =
                                     "len (4096), rule generate|evaluate (generate), " S2_BUDGET_SETTINGS,
                                 .recognises = recognises,
                                 .read = import};
