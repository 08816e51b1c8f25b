#include "plan/internal.h"

#include <string.h>

static int32_t clipped(int64_t n)
{
    return (int32_t)s2_min_i64(n, S2_LIMIT_CONTEXT_TOK);
}

static bool take_plain(const s2_atom *atom, s2_plan_periodic *out)
{
    const bool any_blk = s2_range_is_whole(atom->distance_blk),
               any_tok = s2_range_is_whole(atom->distance_tok);
    const bool any_key = s2_range_is_whole(atom->key_tok);
    if (any_blk && any_tok && any_key)
        out->dense = true;
    else if (any_tok && any_key && atom->distance_blk.begin <= 0)
        out->local_blk = (int32_t)s2_max_i64(out->local_blk, clipped(atom->distance_blk.end));
    else if (any_blk && any_key && atom->distance_tok.begin <= 0)
        out->window_tok = (int32_t)s2_max_i64(out->window_tok, clipped(atom->distance_tok.end));
    else if (any_blk && any_tok && atom->key_tok.begin <= 0)
        out->sink_tok = (int32_t)s2_max_i64(out->sink_tok, clipped(atom->key_tok.end));
    else
        return false;
    return true;
}

static bool take_stride(const s2_view *view, const s2_atom *atom, s2_plan_periodic *out)
{
    if (!s2_range_is_whole(atom->distance_blk) || !s2_range_is_whole(atom->distance_tok) ||
        !s2_range_is_whole(atom->key_tok) || atom->gran != view->pattern->block_tok || out->stride_blk != 0)
        return false;
    out->stride_blk = (int32_t)atom->period;
    out->stride_width = (int32_t)atom->width;
    out->stride_shift = (int32_t)atom->shift;
    return true;
}

bool s2_plan_periodic_of(const s2_view *view, s2_plan_periodic *out)
{
    if (!view->pattern->causal || view->has_explicit)
        return false;
    s2_plan_periodic as = {.block_tok = view->pattern->block_tok};
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        bool taken = s2_range_is_whole(atom->query_tok);
        if (atom->kind == S2_ATOM_KEY)
            taken = taken && take_stride(view, atom, &as);
        else
            taken = taken && atom->kind == S2_ATOM_PLAIN && take_plain(atom, &as);
        if (!taken)
            return false;
    }
    if (as.dense)
        as = (s2_plan_periodic){.dense = true, .block_tok = as.block_tok};
    /* the rows of a slab must be in one block, unless no term counts blocks */
    if (as.block_tok < S2_PLAN_SLAB_TOK) {
        if (as.local_blk > 0 || as.stride_blk > 0)
            return false;
        as.block_tok = S2_PLAN_SLAB_TOK;
    }
    *out = as;
    return true;
}

/* The first position that the window of position p covers; p + 1 when there is no window. */
static int64_t window_begin(const s2_plan_periodic *as, int64_t p)
{
    int64_t begin = p + 1;
    if (as->dense)
        return 0;
    if (as->local_blk > 0)
        begin = (p / as->block_tok - as->local_blk + 1) * as->block_tok;
    if (as->window_tok > 0)
        begin = s2_min_i64(begin, p - as->window_tok + 1);
    return s2_max_i64(begin, 0);
}

typedef struct s2_piece_list {
    s2_plan_piece *pieces;
    int32_t n;
    int64_t reached;
} s2_piece_list;

static void add_piece(s2_piece_list *list, int64_t end, bool sure, bool stride)
{
    if (end <= list->reached)
        return;
    list->pieces[list->n++] = (s2_plan_piece){list->reached, end, sure, stride};
    list->reached = end;
}

int32_t s2_plan_pieces(const s2_plan *plan, const s2_plan_periodic *as, s2_tile_rows rows,
                       s2_plan_piece pieces[S2_PLAN_MAX_PIECES])
{
    const int64_t g = plan->blk_tok;
    const int64_t blk_end = (rows.end - 1) / g + 1;
    const int64_t sink_end = s2_min_i64(s2_ceil_div(as->sink_tok, g), blk_end);
    const int64_t wide_begin = s2_min_i64(window_begin(as, rows.begin) / g, blk_end);
    const int64_t past_end = s2_min_i64(rows.begin / g, wide_begin);
    /* from here on the window of the last row, which begins last, covers whole blocks */
    const int64_t sure_begin = s2_ceil_div(window_begin(as, rows.end - 1), g);
    s2_piece_list list = {.pieces = pieces};
    add_piece(&list, sink_end, false, false);
    if (as->stride_blk > 0) {
        add_piece(&list, past_end, true, true);
        add_piece(&list, wide_begin, false, true);
    }
    list.reached = s2_max_i64(list.reached, wide_begin);
    add_piece(&list, s2_min_i64(sure_begin, blk_end), false, false);
    add_piece(&list, rows.begin / g, true, false);
    add_piece(&list, blk_end, false, false);
    return list.n;
}

s2_comb s2_plan_stride_comb(const s2_plan *plan, const s2_plan_periodic *as, int64_t begin, int64_t end)
{
    return (s2_comb){begin,           end, as->block_tok / plan->blk_tok, as->stride_blk, as->stride_width,
                     as->stride_shift};
}
