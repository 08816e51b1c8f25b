#include "tui/grid.h"

#include <string.h>

#include "base/alloc.h"

/*
 * A group is the atoms of all heads that agree in everything but where their residues start, of one
 * row: an interval of keys and a periodic word of bits. Rows of bits are two: touched and read whole.
 */
typedef struct source {
    const s2_view *view;
    const s2_atom *atom;
    uint64_t *pattern; /* of key residues in whole blocks: bits of every block of the context; else NULL */
} source;

typedef struct painter {
    const s2_view *views;
    int32_t n_sources;
    source *sources;
    int64_t n_tok;
    int64_t block_tok;
    int64_t n_words;
    uint64_t *touched; /* n_words */
    uint64_t *whole;
    uint64_t *other; /* a row of the block's last query */
} painter;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

s2_range s2_grid_share(int64_t begin, int64_t end, int32_t at, int32_t cells)
{
    const int64_t n = end - begin;
    const int64_t first = begin + n * at / cells;
    const int64_t last = begin + n * (at + 1) / cells;
    return (s2_range){first, last > first ? last : first + 1};
}

/* Bits [begin, end) of a word row; those of `pattern` alone where there is one. */
static void set_bits(uint64_t *row, int64_t begin, int64_t end, const uint64_t *pattern)
{
    for (int64_t word = begin / 64; word * 64 < end; word++) {
        uint64_t mask = ~UINT64_C(0);
        if (word * 64 < begin)
            mask &= ~UINT64_C(0) << (begin % 64);
        if (word * 64 + 64 > end)
            mask &= ~UINT64_C(0) >> (word * 64 + 64 - end);
        row[word] |= pattern != NULL ? mask & pattern[word] : mask;
    }
}

static int64_t count_bits(const uint64_t *row, int64_t begin, int64_t end)
{
    int64_t n = 0;
    for (int64_t word = begin / 64; word * 64 < end; word++) {
        uint64_t bits = row[word];
        if (word * 64 < begin)
            bits &= ~UINT64_C(0) << (begin % 64);
        if (word * 64 + 64 > end)
            bits &= ~UINT64_C(0) >> (word * 64 + 64 - end);
        n += __builtin_popcountll(bits);
    }
    return n;
}

static bool same_range(s2_range a, s2_range b)
{
    return a.begin == b.begin && a.end == b.end;
}

/* Atoms that differ at most in their shift. */
static bool same_but_shift(const s2_atom *a, const s2_atom *b)
{
    return a->kind == b->kind && a->gran == b->gran && a->period == b->period && a->width == b->width &&
           same_range(a->distance_blk, b->distance_blk) && same_range(a->distance_tok, b->distance_tok) &&
           same_range(a->key_tok, b->key_tok) && same_range(a->query_tok, b->query_tok);
}

static bool is_explicit(const s2_atom *atom)
{
    return atom->kind == S2_ATOM_RANDOM || atom->kind == S2_ATOM_MASK;
}

static bool takes_pattern(const painter *p, const s2_atom *atom)
{
    return atom->kind == S2_ATOM_KEY && atom->gran == p->block_tok;
}

static void add_residues(const painter *p, const s2_atom *atom, uint64_t *pattern)
{
    for (int64_t first = 0; first < atom->width; first++)
        for (int64_t blk = s2_mod(first - atom->shift, atom->period); blk < p->n_words * 64;
             blk += atom->period)
            pattern[blk / 64] |= UINT64_C(1) << (blk % 64);
}

static s2_status add_atom(painter *p, const s2_view *view, const s2_atom *atom)
{
    const bool patterned = takes_pattern(p, atom);
    for (int32_t n = 0; n < p->n_sources && !is_explicit(atom); n++) {
        const s2_atom *const have = p->sources[n].atom;
        if (same_but_shift(have, atom) && (patterned || have->shift == atom->shift)) {
            if (patterned)
                add_residues(p, atom, p->sources[n].pattern);
            return S2_OK;
        }
    }
    source *const made = &p->sources[p->n_sources];
    *made = (source){view, atom, NULL};
    if (patterned) {
        made->pattern = s2_calloc((size_t)p->n_words, sizeof *made->pattern);
        if (made->pattern == NULL)
            return S2_ENOMEM;
        add_residues(p, atom, made->pattern);
    }
    p->n_sources++;
    return S2_OK;
}

static s2_status add_views(painter *p, int32_t n_views)
{
    for (int32_t view = 0; view < n_views; view++)
        for (int32_t atom = 0; atom < p->views[view].n_atoms; atom++)
            S2_TRY(add_atom(p, &p->views[view], &p->views[view].atoms[atom]));
    return S2_OK;
}

/* Keys [begin, end) of a token range: blocks that it touches, and blocks that it covers up to the query. */
static void paint_range(const painter *p, int64_t begin, int64_t end, int64_t q_tok, uint64_t *touched,
                        uint64_t *whole)
{
    const int64_t b = p->block_tok;
    const int64_t most = p->views->pattern->causal ? min64(q_tok + 1, p->n_tok) : p->n_tok;
    if (begin >= end)
        return;
    set_bits(touched, begin / b, (end + b - 1) / b, NULL);
    const int64_t whole_end = end >= most ? (end + b - 1) / b : end / b;
    set_bits(whole, (begin + b - 1) / b, whole_end, NULL);
}

static void paint_runs(const painter *p, const source *src, int64_t q_tok, uint64_t *touched, uint64_t *whole)
{
    s2_comb comb;
    if (!s2_atom_row(src->view, src->atom, q_tok, p->n_tok, &comb))
        return;
    comb.end = min64(comb.end, p->n_tok);
    if (src->pattern != NULL) {
        const int64_t b = p->block_tok;
        set_bits(touched, comb.begin / b, (comb.end + b - 1) / b, src->pattern);
        const bool to_query = src->view->pattern->causal && comb.end == q_tok + 1;
        const int64_t end = to_query || comb.end == p->n_tok ? (comb.end + b - 1) / b : comb.end / b;
        set_bits(whole, (comb.begin + b - 1) / b, end, src->pattern);
        return;
    }
    for (int64_t at = s2_comb_next(&comb, 0); at != S2_OPEN && at < p->n_tok;) {
        const int64_t end = min64(s2_comb_run_end(&comb, at), p->n_tok);
        paint_range(p, at, end, q_tok, touched, whole);
        at = s2_comb_next(&comb, end);
    }
}

static void paint_random(const painter *p, const source *src, int64_t q_tok, uint64_t *touched,
                         uint64_t *whole)
{
    int32_t list[S2_LIMIT_RANDOM];
    const s2_view *const view = src->view;
    const s2_term *const term = &view->body->terms[src->atom->term];
    const int64_t q_blk = q_tok / p->block_tok, n_blk = (p->n_tok + p->block_tok - 1) / p->block_tok;
    const int32_t n = s2_random_row(term->seed, view->layer, view->head, q_blk, term->n,
                                    view->pattern->causal ? q_blk + 1 : n_blk, list);
    for (int32_t at = 0; at < n; at++) {
        set_bits(touched, list[at], list[at] + 1, NULL);
        set_bits(whole, list[at], list[at] + 1, NULL);
    }
}

static void paint_mask(const painter *p, const source *src, int64_t q_tok, uint64_t *touched, uint64_t *whole)
{
    const s2_view *const view = src->view;
    const s2_mask *const mask = view->body->terms[src->atom->term].mask;
    const int64_t q_blk = q_tok / p->block_tok;
    if (q_blk >= mask->n_q_blk)
        return;
    const int64_t head = mask->n_heads == 1 ? 0 : view->head;
    const uint8_t *const row = mask->allowed + (head * mask->n_q_blk + q_blk) * mask->n_k_blk;
    for (int64_t k_blk = 0; k_blk < min64(mask->n_k_blk, p->n_words * 64); k_blk++)
        if (row[k_blk] != 0 && (!view->pattern->causal || k_blk <= q_blk)) {
            set_bits(touched, k_blk, k_blk + 1, NULL);
            set_bits(whole, k_blk, k_blk + 1, NULL);
        }
}

static void paint_query(const painter *p, int64_t q_tok, uint64_t *touched, uint64_t *whole)
{
    for (int32_t n = 0; n < p->n_sources; n++) {
        const s2_atom_kind kind = p->sources[n].atom->kind;
        if (kind == S2_ATOM_RANDOM)
            paint_random(p, &p->sources[n], q_tok, touched, whole);
        else if (kind == S2_ATOM_MASK)
            paint_mask(p, &p->sources[n], q_tok, touched, whole);
        else
            paint_runs(p, &p->sources[n], q_tok, touched, whole);
    }
}

static void paint_row(const painter *p, int64_t q_blk)
{
    const size_t bytes = (size_t)p->n_words * sizeof(uint64_t);
    memset(p->touched, 0, bytes);
    memset(p->whole, 0, bytes);
    const int64_t first_tok = q_blk * p->block_tok;
    const int64_t last_tok = min64(first_tok + p->block_tok, p->n_tok) - 1;
    paint_query(p, first_tok, p->touched, p->whole);
    if (last_tok == first_tok)
        return;
    memset(p->other, 0, bytes);
    paint_query(p, last_tok, p->touched, p->other);
    for (int64_t word = 0; word < p->n_words; word++)
        p->whole[word] &= p->other[word];
}

static void add_row(const painter *p, int64_t q_blk, s2_zoom window, int32_t cols, s2_grid_cell *cells)
{
    const int64_t n_blk = (p->n_tok + p->block_tok - 1) / p->block_tok;
    const int64_t visible = p->views->pattern->causal ? min64(q_blk + 1, n_blk) : n_blk;
    for (int32_t col = 0; col < cols; col++) {
        const s2_range keys = s2_grid_share(window.k_begin, window.k_end, col, cols);
        const int64_t end = min64(keys.end, visible);
        if (keys.begin >= end)
            continue;
        cells[col].n_causal += end - keys.begin;
        cells[col].n_read += count_bits(p->touched, keys.begin, end);
        cells[col].n_full += count_bits(p->whole, keys.begin, end);
    }
}

static s2_status painter_init(painter *p, const s2_view *views, int32_t n_views, int64_t n_tok)
{
    const int64_t block_tok = views->pattern->block_tok;
    size_t n_atoms = 0;
    for (int32_t view = 0; view < n_views; view++)
        n_atoms += (size_t)views[view].n_atoms;
    *p = (painter){.views = views, .n_tok = n_tok, .block_tok = block_tok};
    p->n_words = (n_tok + block_tok * 64 - 1) / (block_tok * 64) + 1;
    p->sources = s2_calloc(n_atoms + 1, sizeof *p->sources);
    p->touched = s2_calloc((size_t)p->n_words * 3, sizeof *p->touched);
    if (p->sources == NULL || p->touched == NULL)
        return S2_ENOMEM;
    p->whole = p->touched + p->n_words;
    p->other = p->whole + p->n_words;
    return add_views(p, n_views);
}

static void painter_release(painter *p)
{
    for (int32_t n = 0; p->sources != NULL && n < p->n_sources; n++)
        s2_free(p->sources[n].pattern);
    s2_free(p->sources);
    s2_free(p->touched);
}

s2_status s2_grid_fill(const s2_view *views, int32_t n_views, int64_t n_tok, s2_zoom window, int32_t rows,
                       int32_t cols, s2_grid_cell *cells)
{
    painter p;
    const s2_status status = painter_init(&p, views, n_views, n_tok);
    if (status == S2_OK) {
        memset(cells, 0, (size_t)rows * (size_t)cols * sizeof *cells);
        int64_t painted = -1;
        for (int32_t row = 0; row < rows; row++) {
            const s2_range queries = s2_grid_share(window.q_begin, window.q_end, row, rows);
            for (int64_t q_blk = queries.begin; q_blk < queries.end; q_blk++) {
                /* when zoomed in beyond one block a cell, neighbours show the same block */
                if (q_blk != painted)
                    paint_row(&p, q_blk);
                painted = q_blk;
                add_row(&p, q_blk, window, cols, cells + (int64_t)row * cols);
            }
        }
    }
    painter_release(&p);
    return status;
}

/* ---- kept masks */

static bool same_key(const s2_grid_key *a, const s2_grid_key *b)
{
    return a->source == b->source && a->layer == b->layer && a->head == b->head && a->rows == b->rows &&
           a->cols == b->cols && a->zoom.q_begin == b->zoom.q_begin && a->zoom.q_end == b->zoom.q_end &&
           a->zoom.k_begin == b->zoom.k_begin && a->zoom.k_end == b->zoom.k_end;
}

const s2_grid_cell *s2_grids_find(s2_grids *grids, const s2_grid_key *key)
{
    for (int32_t at = 0; at < S2_GRIDS_KEPT; at++)
        if (grids->cells[at] != NULL && same_key(&grids->keys[at], key))
            return grids->cells[at];
    if (!grids->lacks)
        grids->lacked = *key;
    grids->lacks = true;
    return NULL;
}

void s2_grids_put(s2_grids *grids, const s2_grid_key *key, s2_grid_cell *cells)
{
    const int32_t at = grids->next;
    s2_free(grids->cells[at]);
    grids->keys[at] = *key;
    grids->cells[at] = cells;
    grids->next = (at + 1) % S2_GRIDS_KEPT;
}

void s2_grids_release(s2_grids *grids)
{
    for (int32_t at = 0; at < S2_GRIDS_KEPT; at++)
        s2_free(grids->cells[at]);
    *grids = (s2_grids){0};
}
