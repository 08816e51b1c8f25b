#include "sim/reads.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"

/* Beyond any context, and far from overflow when a threshold is added. */
#define FAR_TOK (INT64_C(1) << 40)

static bool is_empty(s2_range range)
{
    return range.begin >= range.end;
}

/* Restrictions can contradict a term; later code relies on every range being non-empty. */
static bool reads_nothing(const s2_atom *atom)
{
    return is_empty(atom->distance_blk) || is_empty(atom->distance_tok) || is_empty(atom->key_tok) ||
           is_empty(atom->query_tok);
}

static void add_budget(s2_reads *reads, const s2_term *term)
{
    if (term->kind == S2_TERM_PAGES) {
        reads->budget_tok += term->n * term->page_tok;
        reads->selects_pages = true;
        if (reads->page_tok == 0 || term->page_tok < reads->page_tok)
            reads->page_tok = term->page_tok;
    } else {
        reads->budget_tok += term->n;
        reads->heavy_tok += term->kind == S2_TERM_HEAVY ? term->n : 0;
        reads->selects_tokens |= term->kind == S2_TERM_TOPK;
    }
}

static bool is_static(const s2_term *term)
{
    return !s2_term_is_dynamic(term);
}

/* Terms that free nothing: they may choose any key that their `when` allows. `heavy` keeps its budget. */
static bool chooses_freely(const s2_term *term)
{
    return term->kind == S2_TERM_PAGES || term->kind == S2_TERM_TOPK;
}

/* Keep only the atoms of wanted terms, and of these only those that read anything. */
static s2_status keep_atoms(s2_arena *arena, s2_view *view, bool (*wanted)(const s2_term *term))
{
    s2_atom *const atoms = S2_NEW(arena, s2_atom, view->n_atoms);
    if (atoms == NULL)
        return S2_ENOMEM;
    int32_t n_atoms = 0;
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (wanted(&view->body->terms[view->atoms[a].term]) && !reads_nothing(&view->atoms[a]))
            atoms[n_atoms++] = view->atoms[a];
    view->atoms = atoms;
    view->n_atoms = n_atoms;
    return S2_OK;
}

s2_status s2_reads_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                         int32_t head, s2_reads *out)
{
    s2_reads reads = {0};
    S2_TRY(s2_view_build(arena, pattern, phase, layer, head, S2_AT_LEAST, &reads.view));
    const s2_body *const body = reads.view.body;
    for (int32_t t = 0; t < body->n_terms; t++)
        if (s2_term_is_dynamic(&body->terms[t]))
            add_budget(&reads, &body->terms[t]);
    if (reads.selects_pages || reads.selects_tokens) {
        S2_TRY(s2_view_build(arena, pattern, phase, layer, head, S2_AT_MOST, &reads.may));
        S2_TRY(keep_atoms(arena, &reads.may, chooses_freely));
    }
    S2_TRY(keep_atoms(arena, &reads.view, is_static));
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, &reads.view);
    reads.block_aligned = shape.block_aligned;
    for (int32_t a = 0; a < reads.view.n_atoms; a++)
        reads.reads_diagonal |= s2_atom_is_window(&reads.view.atoms[a]);
    *out = reads;
    return S2_OK;
}

bool s2_reads_equal(const s2_reads *a, const s2_reads *b)
{
    if (a->view.n_atoms != b->view.n_atoms || a->may.n_atoms != b->may.n_atoms ||
        a->budget_tok != b->budget_tok || a->heavy_tok != b->heavy_tok || a->page_tok != b->page_tok ||
        a->selects_pages != b->selects_pages || a->selects_tokens != b->selects_tokens)
        return false;
    for (int32_t t = 0; t < a->may.n_atoms; t++)
        if (!s2_atom_equal(&a->may.atoms[t], &b->may.atoms[t]))
            return false;
    return s2_view_equal(&a->view, &b->view);
}

static int64_t plus(int64_t bound, int64_t by)
{
    return bound >= FAR_TOK ? FAR_TOK : bound <= -FAR_TOK ? -FAR_TOK : bound + by;
}

static int64_t times(int64_t bound, int64_t by)
{
    return bound >= FAR_TOK / by ? FAR_TOK : bound <= -(FAR_TOK / by) ? -FAR_TOK : bound * by;
}

/* Keys with q - distance.end < k <= q - distance.begin, in both units, before the fixed ranges. */
static int64_t keys_begin(const s2_view *view, const s2_atom *atom, int64_t q_tok)
{
    const int64_t block = view->pattern->block_tok;
    const int64_t tok = plus(-plus(atom->distance_tok.end, 0), q_tok + 1);
    const int64_t blk = times(plus(-plus(atom->distance_blk.end, 0), q_tok / block + 1), block);
    return s2_max_i64(s2_max_i64(tok, blk), s2_max_i64(atom->key_tok.begin, 0));
}

static int64_t keys_end(const s2_view *view, const s2_atom *atom, int64_t q_tok, int64_t n_tok)
{
    const int64_t block = view->pattern->block_tok;
    const int64_t tok = plus(-plus(atom->distance_tok.begin, 0), q_tok + 1);
    const int64_t blk = times(plus(-plus(atom->distance_blk.begin, 0), q_tok / block + 1), block);
    const int64_t causal = view->pattern->causal ? s2_min_i64(q_tok + 1, n_tok) : n_tok;
    return s2_min_i64(s2_min_i64(tok, blk), s2_min_i64(causal, atom->key_tok.end));
}

/* Two sliding windows of different units may leave gaps, so such an atom is handled query by query. */
static bool slides_unevenly(const s2_atom *atom)
{
    const bool tok = atom->distance_tok.begin > 0 || atom->distance_tok.end != S2_OPEN;
    const bool blk = atom->distance_blk.begin > 0 || atom->distance_blk.end != S2_OPEN;
    return tok && blk;
}

/* The end of a piece: queries for which the atom has the same residue. */
static int64_t piece_end(const s2_atom *atom, int64_t q_tok, int64_t q_end)
{
    if (slides_unevenly(atom))
        return q_tok + 1;
    if (atom->kind == S2_ATOM_DISTANCE || atom->kind == S2_ATOM_QUERY || atom->kind == S2_ATOM_CHUNK)
        return s2_min_i64((q_tok / atom->gran + 1) * atom->gran, q_end);
    return q_end;
}

/* The comb of one piece [q_begin, q_end); false when it reads nothing. */
static bool piece_comb(const s2_view *view, const s2_atom *atom, int64_t q_begin, int64_t q_end,
                       int64_t n_tok, s2_comb *out)
{
    s2_comb comb = {keys_begin(view, atom, q_begin), keys_end(view, atom, q_end - 1, n_tok), 1, 1, 1, 0};
    const int64_t group = q_begin / atom->gran;
    if (atom->kind == S2_ATOM_QUERY && (group + atom->shift) % atom->period >= atom->width)
        return false;
    if (atom->kind == S2_ATOM_CHUNK) {
        comb.begin = s2_max_i64(comb.begin, group * atom->gran);
        comb.end = s2_min_i64(comb.end, (group + 1) * atom->gran);
    }
    if (atom->kind == S2_ATOM_KEY || atom->kind == S2_ATOM_DISTANCE) {
        comb.gran = atom->gran;
        comb.period = atom->period;
        comb.width = atom->width;
        /* (i - j + P) mod V < W read as a condition on j: the residue is mirrored */
        comb.shift = atom->kind == S2_ATOM_KEY ? atom->shift
                                               : s2_mod(atom->width - 1 - group - atom->shift, atom->period);
    }
    *out = comb;
    return comb.begin < comb.end;
}

static void add_atom_rows(const s2_view *view, const s2_atom *atom, int64_t q_begin, int64_t q_end,
                          int64_t n_tok, int64_t tile_tok, s2_combset *set)
{
    enum { A_PIECE = 4 }; /* its divisions, and those of its tiles */
    q_end = s2_min_i64(q_end, atom->query_tok.end);
    for (int64_t q_tok = s2_max_i64(q_begin, atom->query_tok.begin);
         q_tok < q_end && s2_work_spend(set->work_left, A_PIECE);) {
        const int64_t end = piece_end(atom, q_tok, q_end);
        s2_comb comb;
        if (piece_comb(view, atom, q_tok, end, n_tok, &comb)) {
            if (tile_tok == 1)
                s2_combset_add(set, &comb);
            else
                s2_combset_add_tiles(set, &comb, tile_tok);
        }
        q_tok = end;
    }
}

/* The runs of one row of an explicit head. */
static s2_status add_explicit_row(const s2_reads *reads, int64_t q_tok, int64_t n_tok, int64_t tile_tok,
                                  s2_run **runs, int64_t *cap, s2_combset *set)
{
    int64_t n_runs;
    S2_TRY(s2_view_row_whole(&reads->view, q_tok, n_tok, set->work_left, runs, cap, &n_runs));
    for (int64_t r = 0; r < n_runs; r++)
        s2_combset_add_range(set, (*runs)[r].begin / tile_tok,
                             (*runs)[r].end / tile_tok + ((*runs)[r].end % tile_tok != 0));
    return S2_OK;
}

static s2_status add_explicit_rows(const s2_reads *reads, int64_t q_begin, int64_t q_end, int64_t n_tok,
                                   int64_t tile_tok, s2_combset *set)
{
    /* in a head of whole blocks the last query of a block reads all that the others read, and more */
    const int64_t step = reads->block_aligned ? reads->view.pattern->block_tok : 1;
    s2_run *runs = NULL;
    int64_t cap = 0;
    s2_status status = S2_OK;
    for (int64_t q_tok = q_begin; q_tok < q_end && status == S2_OK; q_tok = (q_tok / step + 1) * step) {
        const int64_t last_q = s2_min_i64((q_tok / step + 1) * step, q_end) - 1;
        status = add_explicit_row(reads, last_q, n_tok, tile_tok, &runs, &cap, set);
    }
    s2_free(runs);
    return status;
}

s2_status s2_reads_add_rows(const s2_reads *reads, int64_t q_begin, int64_t q_end, int64_t n_tok,
                            int64_t tile_tok, s2_combset *set)
{
    const s2_view *const view = &reads->view;
    if (!view->has_explicit) {
        for (int32_t a = 0; a < view->n_atoms; a++)
            add_atom_rows(view, &view->atoms[a], q_begin, q_end, n_tok, tile_tok, set);
        return S2_OK;
    }
    return add_explicit_rows(reads, q_begin, q_end, n_tok, tile_tok, set);
}

/*
 * Keys that some query of [q_begin, q_end) reads through the atom, found by walking its columns; `step` keys
 * share one column. Consecutive keys are joined. Windows only move on, so no key before that of the first
 * query is read.
 */
static void add_by_columns(const s2_reads *reads, const s2_atom *atom, int64_t q_begin, int64_t q_end,
                           int64_t n_tok, s2_combset *set)
{
    const int64_t step = reads->block_aligned ? reads->view.pattern->block_tok : 1;
    const int64_t first =
        keys_begin(&reads->view, atom, s2_max_i64(q_begin, atom->query_tok.begin)) / step * step;
    const int64_t end = s2_min_i64(n_tok, atom->key_tok.end);
    int64_t run_begin = -1;
    for (int64_t k_tok = first; k_tok < end && s2_work_spend(set->work_left, 1); k_tok += step) {
        s2_comb column;
        const bool kept =
            s2_atom_column(&reads->view, atom, k_tok, &column) && s2_comb_next(&column, q_begin) < q_end;
        if (kept && run_begin < 0)
            run_begin = k_tok;
        if (!kept && run_begin >= 0) {
            s2_combset_add_range(set, run_begin, k_tok);
            run_begin = -1;
        }
    }
    if (run_begin >= 0)
        s2_combset_add_range(set, run_begin, end);
}

/* Key blocks that rows >= n_tok - 1 of a mask file allow. */
static void add_mask_columns(const s2_reads *reads, const s2_atom *atom, int64_t n_tok, s2_combset *set)
{
    const s2_view *const view = &reads->view;
    const s2_mask *const mask = view->body->terms[atom->term].mask;
    const int64_t block = view->pattern->block_tok;
    const int64_t first = s2_max_i64(n_tok - 1, atom->query_tok.begin);
    const int64_t stop = s2_min_i64(atom->query_tok.end, mask->n_q_blk * block);
    for (int64_t q_tok = first; q_tok < stop && s2_work_spend(set->work_left, mask->n_k_blk);) {
        const int64_t next =
            slides_unevenly(atom) ? q_tok + 1 : s2_min_i64((q_tok / block + 1) * block, stop);
        const int64_t begin = keys_begin(view, atom, q_tok), end = keys_end(view, atom, next - 1, n_tok);
        for (int64_t k_blk = begin / block; k_blk < mask->n_k_blk && k_blk * block < end; k_blk++)
            if (s2_mask_allows(mask, view->head, q_tok / block, k_blk))
                s2_combset_add_range(set, s2_max_i64(k_blk * block, begin),
                                     s2_min_i64((k_blk + 1) * block, end));
        q_tok = next;
        s2_combset_merge(set);
    }
}

/* With open reach every residue recurs and every window opens, so nothing in range is ever dropped. */
static bool keeps_as_plain(const s2_atom *atom)
{
    const bool open_query = atom->query_tok.end == S2_OPEN;
    const bool open_reach = atom->distance_blk.end == S2_OPEN && atom->distance_tok.end == S2_OPEN;
    switch (atom->kind) {
    case S2_ATOM_PLAIN:
    case S2_ATOM_KEY:
    case S2_ATOM_RANDOM: return !slides_unevenly(atom) || (open_query && open_reach);
    case S2_ATOM_DISTANCE:
    case S2_ATOM_QUERY: return open_query && open_reach;
    case S2_ATOM_CHUNK:
    case S2_ATOM_MASK: break;
    }
    return false;
}

static void add_kept_plain(const s2_view *view, const s2_atom *atom, int64_t n_tok, s2_combset *set)
{
    const int64_t q_begin = s2_max_i64(n_tok - 1, atom->query_tok.begin);
    const int64_t q_end = s2_min_i64(FAR_TOK / 4, atom->query_tok.end);
    if (q_begin >= q_end)
        return;
    s2_comb comb = {keys_begin(view, atom, q_begin), keys_end(view, atom, q_end - 1, n_tok), 1, 1, 1, 0};
    if (atom->kind == S2_ATOM_KEY) {
        comb.gran = atom->gran;
        comb.period = atom->period;
        comb.width = atom->width;
        comb.shift = atom->shift;
    }
    s2_combset_add(set, &comb);
}

/* Only queries in the chunk of query n_tok - 1 can still read keys below n_tok. */
static void add_kept_chunk(const s2_view *view, const s2_atom *atom, int64_t n_tok, s2_combset *set)
{
    const int64_t chunk_end = ((n_tok - 1) / atom->gran + 1) * atom->gran;
    const int64_t q_end = s2_min_i64(chunk_end, atom->query_tok.end);
    const int64_t q_begin = s2_max_i64(n_tok - 1, atom->query_tok.begin);
    s2_comb comb;
    if (q_begin < q_end && piece_comb(view, atom, q_begin, q_end, n_tok, &comb))
        s2_combset_add(set, &comb);
}

static void add_kept_view(const s2_reads *reads, int64_t n_tok, s2_combset *set)
{
    const s2_view *const view = &reads->view;
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        if (atom->query_tok.end <= n_tok - 1)
            continue;
        if (atom->kind == S2_ATOM_MASK)
            add_mask_columns(reads, atom, n_tok, set);
        else if (keeps_as_plain(atom))
            add_kept_plain(view, atom, n_tok, set);
        else if (atom->kind == S2_ATOM_CHUNK && !slides_unevenly(atom))
            add_kept_chunk(view, atom, n_tok, set);
        else
            add_by_columns(reads, atom, n_tok - 1, S2_OPEN, n_tok, set);
    }
}

void s2_reads_add_kept(const s2_reads *reads, int64_t n_tok, s2_combset *set)
{
    add_kept_view(reads, n_tok, set);
    if (reads->may.n_atoms == 0)
        return;
    s2_reads chosen = *reads;
    chosen.view = reads->may;
    chosen.block_aligned = false;
    add_kept_view(&chosen, n_tok, set);
}

s2_status s2_reads_add_touched(const s2_reads *reads, int64_t first_tok, int64_t n_tok, s2_combset *set)
{
    const s2_view *const view = &reads->view;
    if (reads->reads_diagonal)
        s2_combset_add_range(set, first_tok, n_tok);
    if (reads->reads_diagonal && first_tok == 0)
        return S2_OK;
    if (!view->has_explicit) {
        for (int32_t a = 0; a < view->n_atoms; a++)
            add_by_columns(reads, &view->atoms[a], first_tok, n_tok, n_tok, set);
        return S2_OK;
    }
    const int64_t block = view->pattern->block_tok;
    for (int64_t q_tok = first_tok; q_tok < n_tok; q_tok = (q_tok / block + 1) * block) {
        S2_TRY(
            s2_reads_add_rows(reads, q_tok, s2_min_i64((q_tok / block + 1) * block, n_tok), n_tok, 1, set));
        s2_combset_merge(set);
    }
    return S2_OK;
}

static void widen(const s2_view *view, int64_t n_tok, s2_window *window)
{
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        const int64_t block_end = times(plus(atom->distance_blk.end, 0), view->pattern->block_tok);
        const int64_t capacity = s2_min_i64(block_end, plus(atom->distance_tok.end, 0));
        if (!s2_atom_is_window(atom) || capacity >= FAR_TOK || capacity <= window->capacity_tok)
            continue;
        window->capacity_tok = capacity;
        window->begin = keys_begin(view, atom, n_tok - 1);
    }
}

s2_window s2_reads_window(const s2_reads *reads, int64_t n_tok)
{
    s2_window window = {n_tok, 0};
    widen(&reads->view, n_tok, &window);
    widen(&reads->may, n_tok, &window);
    return window;
}
