#include "report/computed.h"

#include <string.h>

#include "sim/units.h"

static const s2_computed nothing;

static const s2_computed *computed_of(const s2_pattern *pattern)
{
    return pattern->computed != NULL ? pattern->computed : &nothing;
}

/* Time to choose keys; 0 where nothing chooses. */
static double selection_us(const s2_sim *sim)
{
    for (int32_t part = 0; part < sim->n_parts; part++)
        if (s2_part_is(&sim->parts[part], "selection"))
            return sim->parts[part].time_us;
    return 0;
}

static bool has_term(const s2_pattern *pattern, s2_term_kind kind)
{
    s2_term_walk walk = {.pattern = pattern};
    for (const s2_term *term; (term = s2_term_next(&walk)) != NULL;)
        if (term->kind == kind)
            return true;
    return false;
}

typedef enum way { BY_INDEXER, BY_LAST_QUERIES, BY_PAGE, BY_POOLED_PAGE } way;

static way way_of(const s2_pattern *pattern)
{
    const s2_computed *const computed = computed_of(pattern);
    if (computed->probe_rows > 0)
        return BY_LAST_QUERIES;
    if (has_term(pattern, S2_TERM_TOPK))
        return BY_INDEXER;
    return computed->pool_tok > 0 ? BY_POOLED_PAGE : BY_PAGE;
}

static void text_selection(const s2_pattern *pattern, double us, s2_buf *buf)
{
    const s2_computed *const computed = computed_of(pattern);
    const bool said = computed->index_heads > 0;
    s2_buf_printf(buf, "  selection     %s at peak rates: ", s2_time_text(us).text);
    switch (way_of(pattern)) {
    case BY_INDEXER:
        s2_buf_printf(buf, "for each query an indexer of %d heads of %d scores every key%s",
                      said ? computed->index_heads : (int32_t)S2_INDEX_HEADS,
                      said ? computed->index_dim : (int32_t)S2_INDEX_DIM,
                      said ? "" : " (assumed: the pattern does not say what chooses)");
        if (computed->n_indexed > computed->n_indexers)
            s2_buf_printf(buf, ", in %d layers of %d; the others take their choice", computed->n_indexers,
                          computed->n_indexed);
        s2_buf_puts(buf, "\n");
        break;
    case BY_LAST_QUERIES:
        s2_buf_printf(buf, "the last %d queries of a head score every key and choose for all queries\n",
                      computed->probe_rows);
        break;
    case BY_PAGE:
        s2_buf_puts(buf, "each query scores a minimum and a maximum of each page (assumed)\n");
        break;
    case BY_POOLED_PAGE:
        s2_buf_printf(buf, "the mean of %d queries scores the mean of each page\n", computed->pool_tok);
        break;
    }
}

void s2_computed_text(const s2_pattern *pattern, const s2_sim *sim, s2_buf *buf)
{
    const s2_computed *const computed = computed_of(pattern);
    if (s2_pattern_is_latent(pattern))
        s2_buf_printf(buf,
                      "  latent        %d + %d elements of a token; prefill makes heads of %d and %d of "
                      "them, decode works on them. No kernel of s2 does, so no time is predicted\n",
                      computed->latent_dim, computed->rotary_dim, computed->score_dim, computed->value_dim);
    if (selection_us(sim) > 0)
        text_selection(pattern, selection_us(sim), buf);
}

void s2_computed_json(const s2_pattern *pattern, const s2_sim *sim, s2_buf *buf)
{
    static const char *const words[] = {"indexer", "last queries", "pages", "pooled pages"};
    const s2_computed *const computed = computed_of(pattern);
    if (s2_pattern_is_latent(pattern)) {
        s2_json_key_begin(buf, "latent", '{');
        s2_json_key_int(buf, "latent_dim", computed->latent_dim);
        s2_json_key_int(buf, "rotary_dim", computed->rotary_dim);
        s2_json_key_int(buf, "score_dim", computed->score_dim);
        s2_json_key_int(buf, "value_dim", computed->value_dim);
        s2_json_end(buf, '}');
    }
    if (selection_us(sim) == 0)
        return;
    const way own = way_of(pattern);
    s2_json_key_begin(buf, "selection", '{');
    s2_json_key_str(buf, "by", words[own]);
    s2_json_key_num(buf, "time_us", s2_rounded(selection_us(sim)));
    s2_json_key_bool(buf, "assumed", own == BY_PAGE || (own == BY_INDEXER && computed->index_heads == 0));
    s2_json_end(buf, '}');
}
