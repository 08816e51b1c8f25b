#include "pattern/dense.h"

#include <stdlib.h>

#include "base/arith.h"
#include "pattern/random.h"

static bool list_has(const s2_span_list *list, int64_t x)
{
    for (int32_t s = 0; s < list->n_spans; s++) {
        const s2_span span = list->spans[s];
        if (x >= span.begin && x < span.end && (x - span.begin) % span.step == 0)
            return true;
    }
    return false;
}

static int64_t mod(int64_t a, int64_t b)
{
    return ((a % b) + b) % b;
}

static bool range_has(s2_range range, int64_t x)
{
    return x >= range.begin && x < range.end;
}

static bool when_allows(const s2_pattern *pattern, const s2_term *term, int64_t q_tok, int64_t k_tok)
{
    for (int unit = 0; unit < S2_N_UNITS; unit++) {
        const int64_t size = unit == S2_UNIT_TOK ? 1 : pattern->block_tok;
        const int64_t query = q_tok / size, key = k_tok / size;
        if (!range_has(term->when[S2_WHEN_DISTANCE][unit], llabs(query - key)) ||
            !range_has(term->when[S2_WHEN_KEY][unit], key) ||
            !range_has(term->when[S2_WHEN_QUERY][unit], query))
            return false;
    }
    return true;
}

static bool random_has(const s2_pattern *pattern, const s2_term *term, int32_t layer, int32_t head,
                       int64_t n_tok, int64_t q_blk, int64_t k_blk)
{
    int32_t list[S2_LIMIT_RANDOM];
    const int64_t n_context = s2_ceil_div(n_tok, pattern->block_tok);
    const int64_t n_choices = pattern->causal ? q_blk + 1 : n_context;
    const int32_t n = s2_random_row(term->seed, layer, head, q_blk, term->n, n_choices, list);
    for (int32_t at = 0; at < n; at++)
        if (list[at] == k_blk)
            return true;
    return false;
}

static bool mask_has(const s2_mask *mask, int32_t head, int64_t q_blk, int64_t k_blk)
{
    if (q_blk >= mask->n_q_blk || k_blk >= mask->n_k_blk)
        return false;
    return s2_mask_allows(mask, head, q_blk, k_blk);
}

/* While there are no more keys than are chosen, all of them are. */
static bool must_choose(const s2_pattern *pattern, const s2_term *term, int64_t q_tok)
{
    return pattern->causal && q_tok < (term->kind == S2_TERM_PAGES ? term->n * term->page_tok : term->n);
}

bool s2_term_reads(const s2_pattern *pattern, const s2_term *term, int32_t layer, int32_t head, int64_t n_tok,
                   int64_t q_tok, int64_t k_tok)
{
    if (!when_allows(pattern, term, q_tok, k_tok))
        return false;
    const int64_t size = term->tok ? 1 : pattern->block_tok;
    const int64_t query = q_tok / size, key = k_tok / size;
    const int64_t offset = term->offset.constant + term->offset.head_coef * head +
                           term->offset.kv_coef * s2_layer_kv_head(pattern, layer, head) +
                           term->offset.layer_coef * layer;
    switch (term->kind) {
    case S2_TERM_DENSE: return true;
    case S2_TERM_NONE: return false;
    case S2_TERM_LOCAL: return llabs(query - key) < term->n;
    case S2_TERM_SINK: return key < term->n;
    case S2_TERM_STRIDE: return mod(key + offset, term->n) < term->width;
    case S2_TERM_DILATED: return mod(query - key + offset, term->n) < term->width;
    case S2_TERM_COLUMNS: return list_has(&term->list, key);
    case S2_TERM_ROWS: return list_has(&term->list, query);
    case S2_TERM_CHUNK: return query / term->n == key / term->n;
    case S2_TERM_RANDOM: return random_has(pattern, term, layer, head, n_tok, query, key);
    case S2_TERM_MASK: return mask_has(term->mask, head, query, key);
    case S2_TERM_PAGES:
    case S2_TERM_HEAVY:
    case S2_TERM_TOPK: return must_choose(pattern, term, q_tok);
    }
    return false;
}

bool s2_pattern_reads(const s2_pattern *pattern, s2_phase phase, int32_t layer, int32_t head, int64_t n_tok,
                      int64_t q_tok, int64_t k_tok)
{
    if (pattern->causal && k_tok > q_tok)
        return false;
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, phase, layer, head)];
    for (int32_t t = 0; t < body->n_terms; t++)
        if (s2_term_reads(pattern, &body->terms[t], layer, head, n_tok, q_tok, k_tok))
            return true;
    return false;
}
