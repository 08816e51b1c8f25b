#include "cache/rule.h"

#include <string.h>

#include "base/arith.h"

/* The last element of a comb that is not empty. */
static int64_t comb_last(const s2_comb *comb)
{
    if (comb->end == S2_OPEN)
        return S2_OPEN;
    const int64_t top = comb->end - 1;
    if (s2_comb_is_interval(comb))
        return top;
    const int64_t group = top / comb->gran, residue = (group + comb->shift) % comb->period;
    return residue < comb->width ? top : (group - (residue - comb->width)) * comb->gran - 1;
}

/* The last query of the atom's range whose row of the file allows the key's block. */
static int64_t last_mask_query(const s2_view *view, const s2_atom *atom, const s2_comb *range, int64_t k_tok)
{
    const s2_mask *const mask = view->body->terms[atom->term].mask;
    const int64_t block = view->pattern->block_tok, k_blk = k_tok / block;
    if (k_blk >= mask->n_k_blk)
        return S2_CACHE_NEVER;
    for (int64_t q_blk = mask->n_q_blk - 1; q_blk >= 0 && (q_blk + 1) * block > range->begin; q_blk--) {
        const int64_t begin = s2_max_i64(q_blk * block, range->begin);
        const int64_t end = s2_min_i64((q_blk + 1) * block, range->end);
        if (begin < end && s2_mask_allows(mask, view->head, q_blk, k_blk))
            return end - 1;
    }
    return S2_CACHE_NEVER;
}

static int64_t view_last_query(const s2_view *view, int64_t k_tok)
{
    int64_t latest = S2_CACHE_NEVER;
    for (int32_t a = 0; a < view->n_atoms && latest != S2_OPEN; a++) {
        const s2_atom *const atom = &view->atoms[a];
        s2_comb column;
        if (!s2_atom_column(view, atom, k_tok, &column))
            continue;
        const int64_t last_q =
            atom->kind == S2_ATOM_MASK ? last_mask_query(view, atom, &column, k_tok) : comb_last(&column);
        latest = s2_max_i64(last_q, latest);
    }
    return latest;
}

int64_t s2_cache_rule_last_query(s2_cache_rule *rule, int64_t k_tok)
{
    const int64_t group = k_tok / rule->step_tok;
    if (group == rule->known_group)
        return rule->known_query;
    int64_t latest = S2_CACHE_NEVER;
    for (int32_t at = 0; at < rule->n_views && latest != S2_OPEN; at++) {
        const int64_t last_q = view_last_query(&rule->views[at], k_tok);
        latest = s2_max_i64(last_q, latest);
    }
    rule->known_group = group;
    rule->known_query = latest;
    return latest;
}

int64_t s2_cache_rule_window_begin(const s2_cache_rule *rule, int64_t n_tok)
{
    if (rule->capacity_tok == 0)
        return n_tok;
    const int64_t block = rule->pattern->block_tok, query = n_tok - 1;
    int64_t begin = 0;
    if (rule->window_blk != S2_OPEN && (query / block + 1 - rule->window_blk) * block > begin)
        begin = (query / block + 1 - rule->window_blk) * block;
    if (rule->window_tok != S2_OPEN && query + 1 - rule->window_tok > begin)
        begin = query + 1 - rule->window_tok;
    return begin;
}

/* ------------------------------------------------------------------ building */

static s2_status check_terms(const s2_view *view, s2_diag *why)
{
    for (int32_t t = 0; t < view->body->n_terms; t++) {
        const s2_term *const term = &view->body->terms[t];
        if (term->kind == S2_TERM_HEAVY || term->kind == S2_TERM_TOPK)
            return s2_diag_set(
                why, S2_EUNSUPPORTED, 0, 0, 0,
                "layer %d, head %d: what `%s` keeps depends on the data, which the cache does not see",
                view->layer, view->head, s2_term_word(term->kind));
    }
    return S2_OK;
}

static void take_window(const s2_atom *atom, s2_cache_rule *rule)
{
    const int64_t block = rule->pattern->block_tok;
    if (!s2_atom_is_window(atom) || (atom->distance_blk.end == S2_OPEN && atom->distance_tok.end == S2_OPEN))
        return;
    const int64_t blk_span =
        atom->distance_blk.end > S2_OPEN / block ? S2_OPEN : atom->distance_blk.end * block;
    const int64_t capacity = s2_min_i64(blk_span, atom->distance_tok.end);
    if (capacity <= rule->capacity_tok)
        return;
    rule->capacity_tok = capacity;
    rule->window_blk = blk_span == S2_OPEN ? S2_OPEN : atom->distance_blk.end;
    rule->window_tok = atom->distance_tok.end;
}

/* Heads whose atoms are bitwise equal have the same columns, unless lists depend on the head's number. */
static bool same_columns(const s2_view *a, const s2_view *b)
{
    if (a->n_atoms != b->n_atoms ||
        (a->n_atoms > 0 && memcmp(a->atoms, b->atoms, (size_t)a->n_atoms * sizeof *a->atoms) != 0))
        return false;
    return a->body == b->body && !a->has_explicit;
}

static s2_status add_view(s2_arena *arena, int32_t layer, int32_t head, s2_view *views, s2_cache_rule *rule,
                          s2_view_shape *shape, s2_diag *why)
{
    s2_view *const view = &views[rule->n_views];
    S2_TRY(s2_view_build(arena, rule->pattern, S2_DECODE, layer, head, S2_AT_MOST, view));
    S2_TRY(check_terms(view, why));
    for (int32_t at = 0; at < rule->n_views; at++)
        if (same_columns(&views[at], view))
            return S2_OK;
    s2_view_shape_add(shape, view);
    for (int32_t a = 0; a < view->n_atoms; a++)
        take_window(&view->atoms[a], rule);
    rule->n_views++;
    return S2_OK;
}

s2_status s2_cache_rule_build(s2_arena *arena, const s2_pattern *pattern, int32_t layer, int32_t head_begin,
                              int32_t head_end, s2_cache_rule *out, s2_diag *why)
{
    s2_cache_rule rule = {.pattern = pattern, .step_tok = 1, .known_group = -1};
    s2_view *const views = S2_NEW(arena, s2_view, head_end - head_begin);
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    if (views == NULL)
        return S2_ENOMEM;
    for (int32_t head = head_begin; head < head_end; head++)
        S2_TRY(add_view(arena, layer, head, views, &rule, &shape, why));
    rule.views = views;
    if (shape.block_aligned)
        rule.step_tok = pattern->block_tok;
    *out = rule;
    return S2_OK;
}
