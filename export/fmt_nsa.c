/*
 * NSA (native sparse attention): selected blocks and a window, under the names of three ports.
 */
#include "export/budget.h"

#include <string.h>

#include "base/arith.h"

static int recognises(const s2_source *source)
{
    return s2_budget_has_all(source, S2_PATHS("/kernel_stride", "/topk")) ||
                   s2_budget_has_all(source, S2_PATHS("/block_counts", "/block_size")) ||
                   s2_budget_has_all(source, S2_PATHS("/num_selected_blocks", "/selection_block_size"))
               ? 85
               : 0;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t block, n_selected, n_init, n_local, window;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "NSA's block size, top-k and window"));
    S2_TRY(s2_budget_read(source, S2_PATHS("/selection_block_size", "/block_size"), 1, S2_LIMIT_BLOCK_TOK, 64,
                          &block));
    S2_TRY(s2_budget_read(source, S2_PATHS("/topk", "/block_counts", "/num_selected_blocks"), 1, 1 << 16, 16,
                          &n_selected));
    S2_TRY(s2_budget_read(source, S2_PATHS("/init_blocks"), 0, n_selected, 0, &n_init));
    S2_TRY(s2_budget_read(source, S2_PATHS("/local_blocks"), 0, n_selected, 0, &n_local));
    S2_TRY(s2_budget_read(source, S2_PATHS("/window_size", "/sliding_window_size"), 1, S2_LIMIT_CONTEXT_TOK,
                          512, &window));
    if (!s2_is_power_of_two(block))
        return s2_doc_refuse(source->doc, "/block_size", source->diag,
                             "the selected block must be a power of two");
    s2_status status = s2_budget_begin(source, block, NULL, &text);
    s2_buf_printf(&text, "layers all: local %lldt", (long long)window);
    if (n_init > 0)
        s2_buf_printf(&text, " | sink %lld", (long long)n_init);
    if (n_local > 0)
        s2_buf_printf(&text, " | local %lld", (long long)n_local);
    if (n_selected > n_init + n_local)
        s2_buf_printf(&text, " | pages %lld page %lld", (long long)(n_selected - n_init - n_local),
                      (long long)block);
    s2_buf_puts(&text, "\n");
    s2_note(source->notes,
            "the compressed branch reads pooled keys, not these, and is not in the pattern: every query "
            "reads one entry per compression stride besides; selection is shared in a group");
    return s2_budget_finish(source, status, &text, out);
}

const s2_format s2_format_nsa = {.name = "nsa",
                                 .summary = "NSA (native sparse attention): block size, top-k, window",
                                 .settings = S2_BUDGET_SETTINGS,
                                 .recognises = recognises,
                                 .read = import};
