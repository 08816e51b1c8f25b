#include "coverage/extent.h"

#include "base/arith.h"
#include "coverage/columns.h"

s2_status s2_heads_sort(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        s2_view **views, int32_t **kind_of)
{
    const int32_t n = pattern->n_heads;
    *views = S2_NEW(arena, s2_view, n);
    *kind_of = S2_NEW(arena, int32_t, n);
    if (*views == NULL || *kind_of == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n; head++) {
        S2_TRY(s2_view_build(arena, pattern, phase, layer, head, S2_AT_LEAST, &(*views)[head]));
        int32_t kind = 0;
        while (kind < head && ((*kind_of)[kind] != kind || (*views)[head].has_explicit ||
                               (*views)[kind].body != (*views)[head].body ||
                               !s2_columns_same_atoms(&(*views)[kind], &(*views)[head])))
            kind++;
        (*kind_of)[head] = kind;
    }
    return S2_OK;
}

s2_range s2_witness_heads(const s2_pattern *pattern, const s2_finding *finding)
{
    const s2_witness *const w = &finding->witness;
    if (w->head >= 0)
        return (s2_range){w->head, w->head + 1};
    if (w->rank < 0)
        return (s2_range){0, pattern->n_heads};
    const int32_t per_rank = pattern->n_heads / finding->requirement.arg;
    return (s2_range){w->rank * per_rank, (w->rank + 1) * per_rank};
}

/* Steps needed to count the pairs of n_tok tokens: columns times their atoms, times the runs of a residue in
 * the query. */
static double counting_steps(const s2_view *view, int64_t n_tok)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, view);
    const double n = (double)n_tok / (double)(shape.block_aligned ? view->pattern->block_tok : 1);
    return n * view->n_atoms * (shape.query_period > 1 ? 1 + n / 2 : 1);
}

/*
 * The length asked for, else eight times what holds, within [8192, 131072]; halved until counting takes only
 * a second or two. 0 if any telling length would take longer.
 */
static int64_t telling_length(const s2_finding *finding, const s2_view *view)
{
    enum { LEAST = 8192, MOST = 131072 };
    static const double most_steps = 2e7;
    int64_t n_tok = finding->scope_tok;
    if (n_tok == S2_OPEN) {
        n_tok = finding->complete_to_tok * 8;
        n_tok = s2_clamp_i64(n_tok, LEAST, MOST);
    }
    while (n_tok > finding->complete_to_tok && counting_steps(view, n_tok) > most_steps)
        n_tok /= 2;
    return n_tok > finding->complete_to_tok ? n_tok : 0;
}

/* Without the count an explanation still says where it fails. */
enum { EXTENT_STEPS = 1 << 27 };

static s2_status count(s2_arena *arena, const s2_pattern *pattern, const s2_finding *finding, s2_unread *out)
{
    const s2_witness *const w = &finding->witness;
    const s2_range heads = s2_witness_heads(pattern, finding);
    s2_view *views, all;
    int32_t *kind_of;
    S2_TRY(s2_heads_sort(arena, pattern, w->phase, w->layer, &views, &kind_of));
    S2_TRY(s2_columns_merge(arena, views + heads.begin, (int32_t)(heads.end - heads.begin), &all));
    const int64_t n_tok = all.has_explicit ? 0 : telling_length(finding, &all);
    int64_t n_read, work_left = EXTENT_STEPS;
    if (n_tok == 0)
        return S2_OK;
    const s2_status status = s2_view_count_pairs(&all, n_tok, &work_left, &n_read);
    if (status == S2_ELIMIT)
        return S2_OK;
    S2_TRY(status);
    const int64_t n_pairs = pattern->causal ? n_tok * (n_tok + 1) / 2 : n_tok * n_tok;
    *out = (s2_unread){n_tok, n_pairs, n_pairs - n_read};
    return S2_OK;
}

s2_status s2_unread_count(const s2_pattern *pattern, const s2_finding *finding, s2_unread *out)
{
    *out = (s2_unread){0};
    if (finding->requirement.property != S2_UNION && finding->requirement.property != S2_RANKS)
        return S2_OK;
    s2_arena arena = {0};
    const s2_status status = count(&arena, pattern, finding, out);
    s2_arena_release(&arena);
    return status;
}
