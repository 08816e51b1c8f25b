/*
 * NSA (native sparse attention) under the names of three ports, which force other blocks and count windows otherwise.
 */
#include "export/budget.h"

#include <string.h>

#include "base/arith.h"

/* What a port reads besides the chosen blocks. The forced ones are among those that it counts, or come on top. */
typedef struct nsa_port {
    const char *const keys[2]; /* they identify it */
    const char *block, *count, *window;
    int64_t n_init, n_local; /* forced blocks, where nothing else is said */
    bool states_forced, on_top;
    int64_t more_tok; /* keys of a window beyond the number that states it */
} nsa_port;

static const nsa_port ports[] = {
    /* native-sparse-attention-triton: its window is the left side of flash_attn's, which the query's own key joins */
    {{"/kernel_stride", "/topk"}, "/block_size", "/topk", "/window_size", 1, 2, true, false, 1},
    /* flash-linear-attention: the first block, the query's own and the one before are always chosen */
    {{"/block_counts", "/block_size"}, "/block_size", "/block_counts", "/window_size", 1, 2, false, false, 0},
    /* native-sparse-attention-pytorch: the query's own block joins those that are chosen before it */
    {{"/num_selected_blocks", "/selection_block_size"},
     "/selection_block_size",
     "/num_selected_blocks",
     "/sliding_window_size",
     0,
     1,
     false,
     true,
     1},
};
enum { N_PORTS = sizeof ports / sizeof *ports };

static const nsa_port *port_of(const s2_source *source)
{
    for (int p = 0; p < N_PORTS; p++)
        if (s2_budget_has_all(source, S2_PATHS(ports[p].keys[0], ports[p].keys[1])))
            return &ports[p];
    return NULL;
}

static int recognises(const s2_source *source)
{
    return port_of(source) != NULL ? 85 : 0;
}

static s2_status read_forced(const s2_source *source, const nsa_port *port, int64_t n_selected,
                             int64_t *n_init, int64_t *n_local)
{
    *n_init = port->n_init;
    *n_local = port->n_local;
    if (port->states_forced) {
        S2_TRY(s2_budget_read(source, S2_PATHS("/init_blocks"), 0, n_selected, *n_init, n_init));
        S2_TRY(s2_budget_read(source, S2_PATHS("/local_blocks"), 0, n_selected, *n_local, n_local));
    }
    if (port->on_top || n_selected >= *n_init + *n_local)
        return S2_OK;
    return s2_doc_refuse(
        source->doc, port->count, source->diag,
        "%lld blocks are chosen and %lld are forced: which of these are left out is not known here",
        (long long)n_selected, (long long)(*n_init + *n_local));
}

/* One port looks both ways unless it is told not to. */
static s2_status check_causal(const s2_source *source, const nsa_port *port)
{
    bool causal = true;
    if (!port->on_top)
        return S2_OK;
    S2_TRY(s2_doc_bool_or(source->doc, "/causal", true, &causal, source->diag));
    if (!causal)
        return s2_doc_refuse(source->doc, "/causal", source->diag,
                             "keys that are chosen from both sides: what a row reads is not known here");
    if (!s2_doc_has(source->doc, "/causal") && source->said != NULL)
        s2_note(&source->said->warnings,
                "\"causal\" is not stated: the package's later versions take it as false, "
                "here it is taken as true");
    return S2_OK;
}

static s2_status put_body(const s2_source *source, const nsa_port *port, int64_t block, s2_buf *text)
{
    int64_t n_selected, n_init, n_local, window;
    const char *bar = "";
    S2_TRY(s2_budget_read(source, S2_PATHS(port->count), port->on_top ? 0 : 1, 1 << 16, 16, &n_selected));
    S2_TRY(read_forced(source, port, n_selected, &n_init, &n_local));
    S2_TRY(s2_budget_read(source, S2_PATHS(port->window), 0, S2_LIMIT_CONTEXT_TOK - 1, 512, &window));
    const int64_t n_chosen = port->on_top ? n_selected : n_selected - n_init - n_local;
    s2_buf_puts(text, "layers all: ");
    if (window > 0 || port->more_tok > 0)
        s2_buf_printf(text, "local %lldt", (long long)(window + port->more_tok)), bar = " | ";
    if (n_init > 0)
        s2_buf_printf(text, "%ssink %lld", bar, (long long)n_init), bar = " | ";
    if (n_local > 0)
        s2_buf_printf(text, "%slocal %lld", bar, (long long)n_local), bar = " | ";
    if (n_chosen > 0)
        s2_buf_printf(text, "%spages %lld page %lld", bar, (long long)n_chosen, (long long)block);
    s2_buf_puts(text, "\n");
    if (port->more_tok > 0)
        s2_note(source->notes, "this port's window of %lld reads the query's own key besides",
                (long long)window);
    return S2_OK;
}

static s2_status import(const s2_source *source, s2_pattern *out)
{
    int64_t block;
    s2_buf text = {0};
    S2_TRY(s2_source_needs(source, recognises(source) > 0, "NSA's block size, top-k and window"));
    const nsa_port *const port = port_of(source);
    S2_TRY(s2_budget_read(source, S2_PATHS(port->block), 1, S2_LIMIT_BLOCK_TOK, 64, &block));
    if (!s2_is_power_of_two(block))
        return s2_doc_refuse(source->doc, port->block, source->diag,
                             "the selected block must be a power of two");
    S2_TRY(check_causal(source, port));
    s2_status status = s2_budget_begin(source, block, NULL, &text);
    if (status == S2_OK)
        status = put_body(source, port, block, &text);
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
