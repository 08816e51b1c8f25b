#include "tui/grid.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/work.h"
#include "pattern/random.h"

/*
 * A source is an atom of one or several heads. Sources in whole blocks read the same from every query of a
 * block, so they are painted once per row of blocks, as bits. All others are followed as runs of keys, query
 * by query unless the first and the last query determine what is read between them.
 */
typedef struct source {
    const s2_view *view;
    s2_atom atom;
    /* for stripes, whose `atom` is then plain: a bit per `gran` keys, set if some head's shift hits them */
    uint64_t *stripes;
    int64_t gran;
} source;

typedef struct run_list {
    s2_run *runs; /* ascending, apart */
    int64_t n;
    int64_t cap;
} run_list;

/* Steps of work, about a run each; a mask that needs more is too fine to draw while somebody waits. */
enum { WORK_LIMIT = 1 << 25 };
/* The same of what takes nanoseconds: a run of a source in whole blocks, or a look at some words of bits. */
enum { LIGHT_LIMIT = 1 << 28, SOURCE_STEPS = 4, DRAW_STEPS = 16, STEP_WORDS = 128, ROW_PASSES = 5 };

typedef struct painter {
    const s2_pattern *pattern;
    int64_t n_tok;
    int64_t block_tok;
    s2_zoom window;
    int64_t word_begin; /* words of bits that hold the window's keys */
    int64_t word_end;
    int32_t n_blocks; /* sources in whole blocks */
    source *blocks;
    int32_t n_tokens; /* the others */
    source *tokens;
    uint64_t *touched; /* in the row: blocks with some pair read */
    uint64_t *whole;   /* blocks with every pair read; without sources in tokens the same bits */
    run_list row;
    run_list any; /* keys that some query of the row reads */
    run_list all; /* keys that every query of the row reads if it may see them */
    run_list spare;
    int64_t work_left;
    int64_t light_left;
} painter;

static s2_status spend(painter *p, int64_t n_steps)
{
    return s2_work_spend(&p->light_left, n_steps) ? S2_OK : S2_ELIMIT;
}

s2_range s2_grid_share(int64_t begin, int64_t end, int32_t nth, int32_t cells)
{
    const int64_t n = end - begin;
    const int64_t first = begin + n * nth / cells;
    const int64_t last = begin + n * (nth + 1) / cells;
    return (s2_range){first, last > first ? last : first + 1};
}

/* ---- bits of blocks */

/* Set the bits [begin, end) of the window; if `only` is given, just those that are set in it. */
static void set_bits(const painter *p, uint64_t *row, int64_t begin, int64_t end, const uint64_t *only)
{
    begin = s2_max_i64(begin, p->window.k_begin);
    end = s2_min_i64(end, p->window.k_end);
    for (int64_t word = begin / 64; begin < end && word * 64 < end; word++) {
        uint64_t mask = ~UINT64_C(0);
        if (word * 64 < begin)
            mask &= ~UINT64_C(0) << (begin % 64);
        if (word * 64 + 64 > end)
            mask &= ~UINT64_C(0) >> (word * 64 + 64 - end);
        row[word] |= only != NULL ? mask & only[word] : mask;
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

/* ---- sources */

static bool in_blocks(s2_range tok, int64_t block_tok)
{
    return tok.begin % block_tok == 0 && (tok.end == S2_OPEN || tok.end % block_tok == 0);
}

/* Does it read whole blocks, and the same ones from every query of a block? */
static bool is_of_blocks(const painter *p, const s2_atom *atom)
{
    const bool grained =
        atom->kind != S2_ATOM_PLAIN && atom->kind != S2_ATOM_RANDOM && atom->kind != S2_ATOM_MASK;
    const bool near =
        atom->distance_tok.end != S2_OPEN || atom->distance_tok.begin > (p->pattern->causal ? 0 : -S2_OPEN);
    return !near && (!grained || atom->gran % p->block_tok == 0) && in_blocks(atom->key_tok, p->block_tok) &&
           in_blocks(atom->query_tok, p->block_tok);
}

static const s2_term *term_of(const source *src)
{
    return &src->view->body->terms[src->atom.term];
}

/* Each head has its own random list, and its own mask if the file has one per head. */
static bool same_reads(const source *a, const source *b)
{
    if (a->stripes != NULL || !s2_atom_equal(&a->atom, &b->atom) || a->atom.kind == S2_ATOM_RANDOM)
        return false;
    return a->atom.kind != S2_ATOM_MASK ||
           (term_of(a)->mask == term_of(b)->mask && term_of(a)->mask->n_heads == 1);
}

static s2_status add_source(painter *p, source *sources, int32_t *n, source made)
{
    S2_TRY(spend(p, *n));
    for (int32_t have = 0; have < *n; have++)
        if (same_reads(&sources[have], &made))
            return S2_OK;
    sources[(*n)++] = made;
    return S2_OK;
}

static int64_t groups_of(const painter *p, int64_t gran)
{
    return s2_ceil_div(p->window.k_end * p->block_tok, gran);
}

/* Stripes of several heads with the same thresholds become one set of keys, whatever their shifts. */
static s2_status add_stripes(painter *p, source *sources, int32_t *n, const s2_view *view,
                             const s2_atom *atom)
{
    source made = {.view = view, .atom = *atom, .gran = atom->gran};
    const int64_t n_groups = groups_of(p, atom->gran);
    int32_t nth = 0;
    made.atom.kind = S2_ATOM_PLAIN;
    made.atom.gran = made.atom.period = made.atom.width = 1;
    made.atom.shift = 0;
    S2_TRY(spend(p, *n + atom->width * (n_groups / atom->period + 1)));
    while (nth < *n && (sources[nth].gran != made.gran || !s2_atom_equal(&sources[nth].atom, &made.atom)))
        nth++;
    if (nth == *n) {
        made.stripes = s2_calloc((size_t)s2_ceil_div(n_groups, 64), sizeof *made.stripes);
        if (made.stripes == NULL)
            return S2_ENOMEM;
        sources[(*n)++] = made;
    }
    for (int64_t first = 0; first < atom->width; first++)
        for (int64_t at = s2_mod(first - atom->shift, atom->period); at < n_groups; at += atom->period)
            sources[nth].stripes[at / 64] |= UINT64_C(1) << (at % 64);
    return S2_OK;
}

static s2_status add_atom(painter *p, const s2_view *view, const s2_atom *atom)
{
    const bool of_blocks = is_of_blocks(p, atom);
    source *const sources = of_blocks ? p->blocks : p->tokens;
    int32_t *const n = of_blocks ? &p->n_blocks : &p->n_tokens;
    if (atom->kind == S2_ATOM_KEY)
        return add_stripes(p, sources, n, view, atom);
    return add_source(p, sources, n, (source){.view = view, .atom = *atom});
}

/* ---- sources in whole blocks */

static int32_t random_list(const painter *p, const source *src, int64_t q_blk, int32_t list[S2_LIMIT_RANDOM])
{
    const s2_term *const term = term_of(src);
    const int64_t n_choices = p->pattern->causal ? q_blk + 1 : s2_ceil_div(p->n_tok, p->block_tok);
    return s2_random_row(term->seed, src->view->layer, src->view->head, q_blk, term->n, n_choices, list);
}

/* Account for a block of keys; `cut` is what the thresholds leave of the row. */
typedef s2_status (*block_fn)(painter *p, int64_t k_blk, const s2_comb *cut);

/* Each block that a random list or a mask file has for a row of queries. */
static s2_status each_listed(painter *p, const source *src, int64_t q_blk, const s2_comb *cut, block_fn take)
{
    int32_t list[S2_LIMIT_RANDOM];
    if (src->atom.kind == S2_ATOM_RANDOM) {
        S2_TRY(spend(p, term_of(src)->n * DRAW_STEPS));
        const int32_t n = random_list(p, src, q_blk, list);
        for (int32_t nth = 0; nth < n; nth++)
            S2_TRY(take(p, list[nth], cut));
        return S2_OK;
    }
    const s2_mask *const mask = term_of(src)->mask;
    const int64_t end = s2_min_i64(mask->n_k_blk, p->window.k_end);
    S2_TRY(spend(p, s2_max_i64(end - p->window.k_begin, 0)));
    for (int64_t k_blk = p->window.k_begin; q_blk < mask->n_q_blk && k_blk < end; k_blk++)
        if (s2_mask_allows(mask, src->view->head, q_blk, k_blk))
            S2_TRY(take(p, k_blk, cut));
    return S2_OK;
}

static s2_status take_block(painter *p, int64_t k_blk, const s2_comb *cut)
{
    if (k_blk * p->block_tok >= cut->begin && k_blk * p->block_tok < cut->end)
        set_bits(p, p->touched, k_blk, k_blk + 1, NULL);
    return S2_OK;
}

static bool is_listed(const source *src)
{
    return src->atom.kind == S2_ATOM_RANDOM || src->atom.kind == S2_ATOM_MASK;
}

/* q_tok is the last query of the row, the one that sees the row's own block to its end. */
static s2_status paint_blocks(painter *p, const source *src, int64_t q_tok)
{
    const int64_t b = p->block_tok;
    s2_comb comb;
    S2_TRY(spend(p, SOURCE_STEPS));
    if (!s2_atom_row(src->view, &src->atom, q_tok, p->n_tok, &comb))
        return S2_OK;
    if (is_listed(src))
        return each_listed(p, src, q_tok / b, &comb, take_block);
    S2_TRY(spend(p, (p->word_end - p->word_begin) / STEP_WORDS));
    if (src->stripes != NULL || s2_comb_is_interval(&comb)) {
        set_bits(p, p->touched, comb.begin / b, s2_ceil_div(comb.end, b), src->stripes);
        return S2_OK;
    }
    for (int64_t k_tok = s2_comb_next(&comb, p->window.k_begin * b); k_tok < p->window.k_end * b;) {
        const int64_t end = s2_min_i64(s2_comb_run_end(&comb, k_tok), comb.end);
        S2_TRY(spend(p, 1));
        set_bits(p, p->touched, k_tok / b, s2_ceil_div(end, b), NULL);
        k_tok = s2_comb_next(&comb, end);
    }
    return S2_OK;
}

/* ---- sources in tokens */

static s2_status push_run(painter *p, run_list *list, int64_t begin, int64_t end)
{
    begin = s2_max_i64(begin, p->window.k_begin * p->block_tok);
    end = s2_min_i64(end, p->window.k_end * p->block_tok);
    if (begin >= end)
        return S2_OK;
    if (--p->work_left < 0)
        return S2_ELIMIT;
    S2_TRY(S2_RESERVE(list->runs, list->cap, list->n + 1));
    list->runs[list->n++] = (s2_run){begin, end};
    return S2_OK;
}

static int by_begin(const void *left, const void *right)
{
    const s2_run *const a = left, *const b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* Sort the runs, and join those that touch. */
static void put_in_order(run_list *list)
{
    int64_t n = 0;
    if (list->n > 1)
        qsort(list->runs, (size_t)list->n, sizeof *list->runs, by_begin);
    for (int64_t nth = 0; nth < list->n; nth++)
        if (n > 0 && list->runs[nth].begin <= list->runs[n - 1].end)
            list->runs[n - 1].end = s2_max_i64(list->runs[n - 1].end, list->runs[nth].end);
        else
            list->runs[n++] = list->runs[nth];
    list->n = n;
}

static s2_status push_all(painter *p, run_list *to, const run_list *from)
{
    for (int64_t nth = 0; nth < from->n; nth++)
        S2_TRY(push_run(p, to, from->runs[nth].begin, from->runs[nth].end));
    return S2_OK;
}

/* Keep what both have; p->spare is overwritten. */
static s2_status intersect_with(painter *p, run_list *list, const run_list *other)
{
    run_list *const out = &p->spare;
    out->n = 0;
    for (int64_t a = 0, b = 0; a < list->n && b < other->n;) {
        const s2_run x = list->runs[a], y = other->runs[b];
        S2_TRY(push_run(p, out, s2_max_i64(x.begin, y.begin), s2_min_i64(x.end, y.end)));
        a += x.end <= y.end;
        b += y.end <= x.end;
    }
    const run_list swapped = *list;
    *list = *out;
    *out = swapped;
    return S2_OK;
}

static s2_status take_run(painter *p, int64_t k_blk, const s2_comb *cut)
{
    return push_run(p, &p->row, s2_max_i64(cut->begin, k_blk * p->block_tok),
                    s2_min_i64(cut->end, (k_blk + 1) * p->block_tok));
}

/* The first group from `from` on whose bit is `set`; n if there is none. */
static int64_t next_group(const uint64_t *bits, int64_t from, int64_t n, bool set)
{
    while (from < n) {
        const uint64_t word = (set ? bits[from / 64] : ~bits[from / 64]) >> (from % 64);
        if (word != 0)
            return s2_min_i64(from + __builtin_ctzll(word), n);
        from = (from / 64 + 1) * 64;
    }
    return n;
}

/* Keys [begin, end) of a source without residues in its atom. */
static s2_status push_keys(painter *p, run_list *list, const source *src, int64_t begin, int64_t end)
{
    if (src->stripes == NULL)
        return push_run(p, list, begin, end);
    const int64_t n = groups_of(p, src->gran);
    begin = s2_max_i64(begin, p->window.k_begin * p->block_tok);
    for (int64_t group = next_group(src->stripes, begin / src->gran, n, true);
         group < n && group * src->gran < end;) {
        const int64_t stop = next_group(src->stripes, group, n, false);
        S2_TRY(push_run(p, list, s2_max_i64(begin, group * src->gran), s2_min_i64(end, stop * src->gran)));
        group = next_group(src->stripes, stop, n, true);
    }
    return S2_OK;
}

static s2_status push_row(painter *p, const source *src, int64_t q_tok)
{
    s2_comb comb;
    if (!s2_atom_row(src->view, &src->atom, q_tok, p->n_tok, &comb))
        return S2_OK;
    if (is_listed(src))
        return each_listed(p, src, q_tok / p->block_tok, &comb, take_run);
    if (s2_comb_is_interval(&comb))
        return push_keys(p, &p->row, src, comb.begin, comb.end);
    for (int64_t k_tok = s2_comb_next(&comb, p->window.k_begin * p->block_tok);
         k_tok < p->window.k_end * p->block_tok;) {
        const int64_t end = s2_comb_run_end(&comb, k_tok);
        S2_TRY(push_run(p, &p->row, k_tok, end));
        k_tok = s2_comb_next(&comb, end);
    }
    return S2_OK;
}

/* p->row: the keys of one query. */
static s2_status find_row(painter *p, int64_t q_tok)
{
    p->row.n = 0;
    if (--p->work_left < 0)
        return S2_ELIMIT;
    for (int32_t nth = 0; nth < p->n_tokens; nth++)
        S2_TRY(push_row(p, &p->tokens[nth], q_tok));
    put_in_order(&p->row);
    return S2_OK;
}

/* Add the keys that the query may not see. */
static s2_status add_unseen(painter *p, run_list *list, int64_t q_tok)
{
    if (p->pattern->causal)
        S2_TRY(push_run(p, list, q_tok + 1, p->n_tok));
    put_in_order(list);
    return S2_OK;
}

static bool same_runs(const run_list *a, const run_list *b)
{
    bool same = a->n == b->n;
    for (int64_t nth = 0; same && nth < a->n; nth++)
        same = a->runs[nth].begin == b->runs[nth].begin && a->runs[nth].end == b->runs[nth].end;
    return same;
}

/* Every query [q_begin, q_end) of the row, one after the other. */
static s2_status follow_each(painter *p, int64_t q_begin, int64_t q_end)
{
    p->any.n = p->all.n = 0;
    for (int64_t q_tok = q_begin; q_tok < q_end; q_tok++) {
        S2_TRY(find_row(p, q_tok));
        if (p->row.n > 0) {
            S2_TRY(push_all(p, &p->any, &p->row));
            put_in_order(&p->any);
        }
        S2_TRY(add_unseen(p, &p->row, q_tok));
        if (q_tok == q_begin)
            S2_TRY(push_all(p, &p->all, &p->row));
        else
            S2_TRY(intersect_with(p, &p->all, &p->row));
    }
    return S2_OK;
}

/*
 * An interval moves by at most one key from one query to the next. If it is not empty for the first and the
 * last query of a row, then some query reads each key from the first begin to the last end, and every query
 * reads from the last begin to the first end (to the last end if each query reads up to itself). Stripes are
 * the same keys for all queries.
 */
static s2_status sweep_source(painter *p, const source *src, int64_t q_first, int64_t q_last, bool *swept)
{
    const s2_range queries = src->atom.query_tok;
    s2_comb first, last;
    *swept = queries.begin > q_last || queries.end <= q_first;
    if (*swept || src->atom.kind != S2_ATOM_PLAIN || queries.begin > q_first || queries.end <= q_last ||
        !s2_atom_row(src->view, &src->atom, q_first, p->n_tok, &first) ||
        !s2_atom_row(src->view, &src->atom, q_last, p->n_tok, &last))
        return S2_OK;
    *swept = true;
    const bool to_itself = p->pattern->causal && first.end == q_first + 1;
    S2_TRY(push_keys(p, &p->any, src, first.begin, last.end));
    return push_keys(p, &p->all, src, last.begin, to_itself ? last.end : first.end);
}

/*
 * Follow only the first and the last query. What every query reads through one source is a lower bound for
 * what every query reads, what both ends read is an upper one; *told says whether the two agree.
 */
static s2_status follow_ends(painter *p, int64_t q_first, int64_t q_last, bool *told)
{
    *told = true;
    p->any.n = p->all.n = 0;
    for (int32_t nth = 0; nth < p->n_tokens && *told; nth++)
        S2_TRY(sweep_source(p, &p->tokens[nth], q_first, q_last, told));
    if (!*told)
        return S2_OK;
    put_in_order(&p->any);
    S2_TRY(add_unseen(p, &p->all, q_last));
    run_list upper = {0};
    S2_TRY(find_row(p, q_first));
    s2_status status = add_unseen(p, &p->row, q_first);
    if (status == S2_OK)
        status = push_all(p, &upper, &p->row);
    if (status == S2_OK)
        status = find_row(p, q_last);
    if (status == S2_OK)
        status = add_unseen(p, &p->row, q_last);
    if (status == S2_OK)
        status = intersect_with(p, &upper, &p->row);
    *told = status == S2_OK && same_runs(&upper, &p->all);
    s2_free(upper.runs);
    return status;
}

/* Queries [q_begin, q_end) of one row of blocks. */
static s2_status paint_tokens(painter *p, int64_t q_begin, int64_t q_end)
{
    const int64_t b = p->block_tok, seen = p->pattern->causal ? q_end : p->n_tok;
    bool told;
    S2_TRY(follow_ends(p, q_begin, q_end - 1, &told));
    if (!told)
        S2_TRY(follow_each(p, q_begin, q_end));
    for (int64_t nth = 0; nth < p->any.n; nth++)
        set_bits(p, p->touched, p->any.runs[nth].begin / b, s2_ceil_div(p->any.runs[nth].end, b), NULL);
    for (int64_t nth = 0; nth < p->all.n; nth++) {
        const s2_run run = p->all.runs[nth];
        set_bits(p, p->whole, s2_ceil_div(run.begin, b),
                 run.end >= seen ? s2_ceil_div(run.end, b) : run.end / b, NULL);
    }
    return S2_OK;
}

/* ---- rows of blocks */

static s2_status paint_row(painter *p, int64_t q_blk)
{
    const int64_t end = p->pattern->causal ? s2_min_i64(p->word_end, q_blk / 64 + 1) : p->word_end;
    const int64_t n_words = s2_max_i64(end - p->word_begin, 0); /* that some key of the row may be in */
    const size_t bytes = (size_t)n_words * sizeof(uint64_t);
    const int64_t q_begin = q_blk * p->block_tok, q_end = s2_min_i64(q_begin + p->block_tok, p->n_tok);
    S2_TRY(spend(p, 1 + ROW_PASSES * n_words / STEP_WORDS));
    memset(p->touched + p->word_begin, 0, bytes);
    for (int32_t nth = 0; nth < p->n_blocks; nth++)
        S2_TRY(paint_blocks(p, &p->blocks[nth], q_end - 1));
    if (p->n_tokens == 0)
        return S2_OK;
    memcpy(p->whole + p->word_begin, p->touched + p->word_begin, bytes);
    return paint_tokens(p, q_begin, q_end);
}

static void add_row(const painter *p, int64_t q_blk, int32_t cols, s2_grid_cell *cells)
{
    const int64_t n_blk = s2_ceil_div(p->n_tok, p->block_tok);
    const int64_t visible = p->pattern->causal ? s2_min_i64(q_blk + 1, n_blk) : n_blk;
    for (int32_t col = 0; col < cols; col++) {
        const s2_range keys = s2_grid_share(p->window.k_begin, p->window.k_end, col, cols);
        const int64_t end = s2_min_i64(keys.end, visible);
        if (keys.begin >= end)
            continue;
        const int64_t n_read = count_bits(p->touched, keys.begin, end);
        cells[col].n_causal += end - keys.begin;
        cells[col].n_read += n_read;
        cells[col].n_full += p->n_tokens > 0 ? count_bits(p->whole, keys.begin, end) : n_read;
    }
}

static s2_status painter_init(painter *p, const s2_view *views, int32_t n_views, int64_t n_tok,
                              s2_zoom window)
{
    size_t n_atoms = 0;
    for (int32_t view = 0; view < n_views; view++)
        n_atoms += (size_t)views[view].n_atoms;
    *p = (painter){.pattern = views->pattern,
                   .n_tok = n_tok,
                   .block_tok = views->pattern->block_tok,
                   .window = window,
                   .word_begin = window.k_begin / 64,
                   .word_end = s2_ceil_div(window.k_end, 64),
                   .work_left = WORK_LIMIT,
                   .light_left = LIGHT_LIMIT};
    p->blocks = s2_calloc(n_atoms + 1, sizeof *p->blocks);
    p->tokens = s2_calloc(n_atoms + 1, sizeof *p->tokens);
    p->touched = s2_calloc((size_t)p->word_end, sizeof *p->touched);
    p->whole = s2_calloc((size_t)p->word_end, sizeof *p->whole);
    if (p->blocks == NULL || p->tokens == NULL || p->touched == NULL || p->whole == NULL)
        return S2_ENOMEM;
    for (int32_t view = 0; view < n_views; view++)
        for (int32_t atom = 0; atom < views[view].n_atoms; atom++)
            S2_TRY(add_atom(p, &views[view], &views[view].atoms[atom]));
    return S2_OK;
}

static void painter_release(painter *p)
{
    for (int32_t nth = 0; nth < p->n_blocks; nth++)
        s2_free(p->blocks[nth].stripes);
    for (int32_t nth = 0; nth < p->n_tokens; nth++)
        s2_free(p->tokens[nth].stripes);
    s2_free(p->blocks);
    s2_free(p->tokens);
    s2_free(p->touched);
    s2_free(p->whole);
    run_list *const lists[] = {&p->row, &p->any, &p->all, &p->spare};
    for (size_t nth = 0; nth < sizeof lists / sizeof lists[0]; nth++)
        s2_free(lists[nth]->runs);
}

static s2_status paint(painter *p, int32_t rows, int32_t cols, s2_grid_cell *cells)
{
    int64_t painted = -1;
    for (int32_t row = 0; row < rows; row++) {
        const s2_range queries = s2_grid_share(p->window.q_begin, p->window.q_end, row, rows);
        for (int64_t q_blk = queries.begin; q_blk < queries.end; q_blk++) {
            /* when zoomed in beyond one block a cell, neighbours show the same block */
            if (q_blk != painted)
                S2_TRY(paint_row(p, q_blk));
            painted = q_blk;
            add_row(p, q_blk, cols, cells + (int64_t)row * cols);
        }
    }
    return S2_OK;
}

s2_status s2_grid_fill(const s2_view *views, int32_t n_views, int64_t n_tok, s2_zoom window, int32_t rows,
                       int32_t cols, s2_grid_cell *cells)
{
    painter p;
    s2_status status = painter_init(&p, views, n_views, n_tok, window);
    memset(cells, 0, (size_t)rows * (size_t)cols * sizeof *cells);
    if (status == S2_OK)
        status = paint(&p, rows, cols, cells);
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

const s2_mask_image *s2_grids_find(s2_grids *grids, const s2_grid_key *key)
{
    for (int32_t nth = 0; nth < S2_GRIDS_KEPT; nth++)
        if (same_key(&grids->kept[nth].key, key))
            return &grids->kept[nth];
    if (!grids->lacks)
        grids->lacked = *key;
    grids->lacks = true;
    return NULL;
}

void s2_grids_put(s2_grids *grids, const s2_mask_image *grid)
{
    s2_mask_image *const place = &grids->kept[grids->next];
    s2_free(place->cells);
    *place = *grid;
    grids->next = (grids->next + 1) % S2_GRIDS_KEPT;
}

void s2_grids_release(s2_grids *grids)
{
    for (int32_t nth = 0; nth < S2_GRIDS_KEPT; nth++)
        s2_free(grids->kept[nth].cells);
    *grids = (s2_grids){0};
}
