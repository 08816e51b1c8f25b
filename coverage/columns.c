#include "coverage/columns.h"

#include <stdlib.h>

#include "base/arith.h"
#include <string.h>

/* Columns visited per range; beyond this the search works on fewer atoms or reports that it was limited. */
enum { MOST_COLUMNS = 1 << 22 };

/* ---- sets of atoms ---------------------------------------------------------------------------- */

static uint64_t atom_hash(const s2_atom *atom)
{
    const int64_t parts[] = {atom->kind,
                             atom->gran,
                             atom->period,
                             atom->width,
                             atom->shift,
                             atom->distance_blk.begin,
                             atom->distance_blk.end,
                             atom->distance_tok.end,
                             atom->key_tok.begin,
                             atom->key_tok.end,
                             atom->query_tok.end};
    uint64_t hash = 0;
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        hash = (hash ^ (uint64_t)parts[p]) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

bool s2_columns_same_atoms(const s2_view *a, const s2_view *b)
{
    if (a->n_atoms != b->n_atoms)
        return false;
    for (int32_t at = 0; at < a->n_atoms; at++)
        if (!s2_atom_equal(&a->atoms[at], &b->atoms[at]))
            return false;
    return true;
}

s2_status s2_columns_merge(s2_arena *arena, const s2_view *views, int32_t n, s2_view *out)
{
    uint64_t n_all = 0, n_slots = 16;
    for (int32_t v = 0; v < n; v++)
        n_all += (uint64_t)views[v].n_atoms;
    while (n_slots < n_all * 2)
        n_slots *= 2;
    s2_atom *const atoms = S2_NEW(arena, s2_atom, n_all);
    int32_t *const slots = S2_NEW(arena, int32_t, n_slots); /* index in atoms + 1, 0 is free */
    if (atoms == NULL || slots == NULL)
        return S2_ENOMEM;
    s2_view merged = views[0];
    merged.n_atoms = 0;
    for (int32_t v = 0; v < n; v++) {
        merged.has_explicit |= views[v].has_explicit;
        merged.has_dynamic |= views[v].has_dynamic;
        for (int32_t a = 0; a < views[v].n_atoms; a++) {
            const s2_atom *const atom = &views[v].atoms[a];
            uint64_t slot = atom_hash(atom) & (n_slots - 1);
            while (slots[slot] != 0 && !s2_atom_equal(&atoms[slots[slot] - 1], atom))
                slot = (slot + 1) & (n_slots - 1);
            if (slots[slot] == 0) {
                atoms[merged.n_atoms++] = *atom;
                slots[slot] = merged.n_atoms;
            }
        }
    }
    merged.atoms = atoms;
    *out = merged;
    return S2_OK;
}

/* ---- classes of columns ------------------------------------------------------------------------ */

static bool is_causal(const s2_view *view)
{
    return view->pattern->causal;
}

static int64_t add_open(int64_t a, int64_t b)
{
    return a == S2_OPEN || b == S2_OPEN ? S2_OPEN : a + b;
}

/* The ranges of keys that stand for all keys, in steps of `unit`. */
typedef struct s2_classes {
    s2_view_shape shape;
    int64_t unit;
    int32_t n_ranges;
    s2_range *ranges;
    int64_t cut_tok; /* keys from here on were left out for lack of room; S2_OPEN: none */
} s2_classes;

/*
 * Between two neighbouring key thresholds columns repeat with key_period, so one period of them is
 * enough; with query thresholds that is true only above the highest one. In a pattern that is
 * not causal, a query long before its key stays fixed while the key moves by the common period of
 * keys and queries, so many more columns are needed.
 */
static void classes_cut(s2_classes *classes, const int64_t *edges, int32_t n_edges, bool causal)
{
    const s2_view_shape *const shape = &classes->shape;
    int64_t period = s2_max_i64(shape->key_period, classes->unit);
    if (!causal)
        period = add_open(add_open(period, shape->reach),
                          add_open(s2_period_lcm(period, shape->query_period), classes->unit));
    for (int32_t e = 0; e < n_edges; e++) {
        const int64_t begin = edges[e], end = e + 1 < n_edges ? edges[e + 1] : S2_OPEN;
        const bool repeats = !shape->query_thresholds || begin >= shape->threshold;
        int64_t stop = repeats ? add_open(begin, period) : end;
        stop = s2_min_i64(stop, end);
        const int64_t room = begin + MOST_COLUMNS * classes->unit;
        if (stop > room) {
            stop = room;
            classes->cut_tok = s2_min_i64(room, classes->cut_tok);
        }
        classes->ranges[classes->n_ranges++] = (s2_range){begin, stop};
    }
}

static int compare_i64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* block_tok: the test itself uses block distances, so a block is a period too; else 1. */
static s2_status classes_build(s2_arena *arena, const s2_view *const *views, int32_t n, int64_t block_tok,
                               s2_classes *out)
{
    s2_classes classes = {.cut_tok = S2_OPEN};
    int32_t n_atoms = 0, n_edges = 1, n_distinct = 1;
    s2_view_shape_init(&classes.shape);
    for (int32_t v = 0; v < n; v++) {
        s2_view_shape_add(&classes.shape, views[v]);
        n_atoms += views[v]->n_atoms;
    }
    classes.shape.key_period = s2_period_lcm(classes.shape.key_period, block_tok);
    classes.shape.reach += block_tok - 1;
    classes.unit = classes.shape.block_aligned ? views[0]->pattern->block_tok : 1;
    int64_t *const edges = S2_NEW(arena, int64_t, 2 * n_atoms + 2);
    classes.ranges = S2_NEW(arena, s2_range, 2 * n_atoms + 2);
    if (edges == NULL || classes.ranges == NULL)
        return S2_ENOMEM;
    for (int32_t v = 0; v < n; v++) {
        for (int32_t a = 0; a < views[v]->n_atoms; a++) {
            const s2_range key = views[v]->atoms[a].key_tok;
            if (key.begin > 0)
                edges[n_edges++] = key.begin;
            if (key.end != S2_OPEN)
                edges[n_edges++] = key.end;
        }
    }
    if (classes.shape.query_thresholds)
        edges[n_edges++] = classes.shape.threshold;
    qsort(edges, (size_t)n_edges, sizeof *edges, compare_i64);
    for (int32_t e = 1; e < n_edges; e++)
        if (edges[n_distinct - 1] != edges[e])
            edges[n_distinct++] = edges[e];
    classes_cut(&classes, edges, n_distinct, is_causal(views[0]));
    *out = classes;
    return S2_OK;
}

/* Beyond max(threshold, k + reach) the column of k repeats with query_period: one more period shows all. */
static int64_t column_end(const s2_view_shape *shape, int64_t k_tok)
{
    const int64_t far = k_tok + shape->reach;
    return add_open(s2_max_i64(far, shape->threshold), shape->query_period);
}

/* The combs of one column of a view. */
typedef struct s2_column {
    const s2_view *view;
    s2_comb *combs;
    int32_t n;
} s2_column;

static s2_status column_init(s2_arena *arena, const s2_view *view, s2_column *column)
{
    *column = (s2_column){.view = view, .combs = S2_NEW(arena, s2_comb, view->n_atoms)};
    return column->combs != NULL ? S2_OK : S2_ENOMEM;
}

/* Evaluating an atom costs a step, and one more if it yields a comb. */
static void column_load(s2_column_search *search, s2_column *column, int64_t k_tok)
{
    column->n = 0;
    for (int32_t a = 0; a < column->view->n_atoms; a++)
        column->n += s2_atom_column(column->view, &column->view->atoms[a], k_tok, &column->combs[column->n]);
    search->work_left -= (int64_t)column->view->n_atoms + column->n + 1;
}

/*
 * First query >= x that the column does not hold, or S2_OPEN if it holds all from x to `end`, which is
 * column_end(), and therefore for ever. A walk stopped by the work limit sets *limited.
 */
static int64_t first_outside(s2_column_search *search, const s2_column *column, int64_t x, int64_t end,
                             bool *limited)
{
    enum { STRETCH = 1 << 16 };
    while (x < end) {
        const int64_t give_up = end - x > STRETCH ? x + STRETCH : end;
        const int64_t stop = s2_combs_end(column->combs, column->n, x, give_up);
        search->work_left -= column->n + 1 + (stop == give_up ? STRETCH / 16 : 0);
        if (stop < give_up)
            return stop;
        if (stop == S2_OPEN)
            return S2_OPEN;
        if (search->work_left <= 0) {
            *limited = true;
            return S2_OPEN;
        }
        x = stop;
    }
    return S2_OPEN;
}

static int64_t context_of(int64_t q_tok, int64_t k_tok)
{
    return s2_max_i64(q_tok, k_tok);
}

void s2_violation_keep(s2_violation *best, int64_t q_tok, int64_t k_tok, int64_t other)
{
    if (best->found) {
        const int64_t mine = context_of(q_tok, k_tok), theirs = context_of(best->q_tok, best->k_tok);
        if (mine != theirs         ? mine > theirs
            : q_tok != best->q_tok ? q_tok > best->q_tok
                                   : k_tok >= best->k_tok)
            return;
    }
    *best = (s2_violation){true, best->limited, q_tok, k_tok, other};
}

/* Columns past the best violation's context, or past the length asked for, cannot improve the answer. */
static bool key_is_past(const s2_column_search *search, const s2_violation *best, int64_t k_tok)
{
    return k_tok >= search->n_tok || (best->found && k_tok > context_of(best->q_tok, best->k_tok));
}

static void drop_if_longer(const s2_column_search *search, s2_violation *best)
{
    if (best->found && context_of(best->q_tok, best->k_tok) >= search->n_tok)
        *best = (s2_violation){.limited = best->limited};
}

/* True if columns were left out and no violation before them makes them irrelevant. */
static bool cut_matters(const s2_column_search *search, const s2_classes *classes, const s2_violation *best)
{
    return classes->cut_tok != S2_OPEN && !key_is_past(search, best, classes->cut_tok);
}

/* Run one search and rewind the scratch arena, so that callers never see it grow. */
#define WITH_SCRATCH(search, call)                                                                           \
    do {                                                                                                     \
        const s2_arena_mark_t scratch_mark_ = s2_arena_mark((search)->scratch);                              \
        const s2_status scratch_status_ = (call);                                                            \
        s2_arena_rewind((search)->scratch, scratch_mark_);                                                   \
        return scratch_status_;                                                                              \
    } while (0)

/* ---- union ------------------------------------------------------------------------------------- */

static bool is_unrestricted(const s2_view *view, const s2_atom *atom)
{
    const int64_t low = is_causal(view) ? 0 : -S2_OPEN;
    return atom->distance_blk.begin <= low && atom->distance_blk.end == S2_OPEN &&
           atom->distance_tok.begin <= low && atom->distance_tok.end == S2_OPEN &&
           atom->query_tok.begin == 0 && atom->query_tok.end == S2_OPEN;
}

/* Mark the columns of the range that one plain or key-residue atom reads from every query. */
static void mark_whole_columns(s2_column_search *search, const s2_view *view, s2_range range, int64_t unit,
                               uint8_t *marks)
{
    for (int32_t a = 0; a < view->n_atoms && search->work_left > 0; a++) {
        const s2_atom *const atom = &view->atoms[a];
        if ((atom->kind != S2_ATOM_PLAIN && atom->kind != S2_ATOM_KEY) || atom->key_tok.begin > range.begin ||
            atom->key_tok.end < range.end || !is_unrestricted(view, atom))
            continue;
        const s2_comb comb = {range.begin, range.end, atom->gran, atom->period, atom->width, atom->shift};
        for (int64_t x = s2_comb_next(&comb, range.begin); x != S2_OPEN && search->work_left > 0;) {
            const int64_t end = s2_comb_run_end(&comb, x);
            memset(marks + (x - range.begin) / unit, 1, (size_t)(s2_ceil_div(end - x, unit)));
            x = s2_comb_next(&comb, end);
            search->work_left--;
        }
    }
}

static s2_status hole_in_range(s2_column_search *search, const s2_classes *classes, s2_range range,
                               s2_column *column, s2_violation *best)
{
    range.end = s2_min_i64(range.end, search->n_tok);
    const int64_t unit = classes->unit;
    const int64_t n_columns = s2_ceil_div(range.end - range.begin, unit);
    if (n_columns <= 0)
        return S2_OK;
    const s2_arena_mark_t mark = s2_arena_mark(search->scratch);
    uint8_t *const marks = S2_NEW(search->scratch, uint8_t, n_columns);
    if (marks == NULL)
        return S2_ENOMEM;
    mark_whole_columns(search, column->view, range, unit, marks);
    search->work_left -= n_columns / 16;
    for (const uint8_t *unmarked = memchr(marks, 0, (size_t)n_columns); unmarked != NULL;) {
        const int64_t k_tok = range.begin + (unmarked - marks) * unit;
        if (key_is_past(search, best, k_tok))
            break;
        best->limited |= search->work_left <= 0;
        if (best->limited)
            break;
        column_load(search, column, k_tok);
        const int64_t from = is_causal(column->view) ? k_tok : 0;
        const int64_t q_tok =
            first_outside(search, column, from, column_end(&classes->shape, k_tok), &best->limited);
        if (q_tok != S2_OPEN)
            s2_violation_keep(best, q_tok, k_tok, -1);
        unmarked = memchr(unmarked + 1, 0, (size_t)(marks + n_columns - (unmarked + 1)));
    }
    s2_arena_rewind(search->scratch, mark);
    return S2_OK;
}

static s2_status hole_of(s2_column_search *search, const s2_view *view, s2_violation *best, bool *complete)
{
    s2_classes classes;
    s2_column column;
    S2_TRY(classes_build(search->scratch, &view, 1, 1, &classes));
    S2_TRY(column_init(search->scratch, view, &column));
    for (int32_t r = 0; r < classes.n_ranges && !key_is_past(search, best, classes.ranges[r].begin); r++) {
        best->limited |= search->work_left <= 0; /* else the next range would be set up for nothing */
        if (best->limited)
            break;
        S2_TRY(hole_in_range(search, &classes, classes.ranges[r], &column, best));
    }
    *complete = !best->limited && !cut_matters(search, &classes, best);
    return S2_OK;
}

static bool same_modulus(const s2_atom *a, const s2_atom *b)
{
    return a->period == b->period && a->gran == b->gran;
}

typedef struct s2_modulus {
    int64_t gran;
    int64_t period;
    int32_t atom;
} s2_modulus;

static int compare_moduli(const void *a, const void *b)
{
    const s2_modulus *const x = a, *const y = b;
    return x->gran != y->gran ? (x->gran > y->gran) - (x->gran < y->gran)
                              : (x->period > y->period) - (x->period < y->period);
}

/* For each atom, how many atoms have its modulus. */
static s2_status count_moduli(s2_arena *arena, const s2_view *view, int32_t **out)
{
    s2_modulus *const moduli = S2_NEW(arena, s2_modulus, view->n_atoms);
    int32_t *const counts = S2_NEW(arena, int32_t, view->n_atoms);
    if (moduli == NULL || counts == NULL)
        return S2_ENOMEM;
    for (int32_t a = 0; a < view->n_atoms; a++)
        moduli[a] = (s2_modulus){view->atoms[a].gran, view->atoms[a].period, a};
    qsort(moduli, (size_t)view->n_atoms, sizeof *moduli, compare_moduli);
    for (int32_t begin = 0, end = 0; begin < view->n_atoms; begin = end) {
        while (end < view->n_atoms && compare_moduli(&moduli[begin], &moduli[end]) == 0)
            end++;
        for (int32_t m = begin; m < end; m++)
            counts[moduli[m].atom] = end - begin;
    }
    *out = counts;
    return S2_OK;
}

/* The first atom not yet taken whose modulus is shared by most atoms; -1 when all are taken. */
static int32_t most_common_modulus(const s2_view *view, const int32_t *counts, const uint8_t *taken)
{
    int32_t best = -1;
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (!taken[a] && (best < 0 || counts[a] > counts[best]))
            best = a;
    return best;
}

/* The first atom of the nth distinct modulus; -1 past the last. */
static int32_t nth_modulus(const s2_view *view, int32_t nth)
{
    for (int32_t a = 0; a < view->n_atoms; a++) {
        int32_t first = 0;
        while (!same_modulus(&view->atoms[first], &view->atoms[a]))
            first++;
        if (first == a && nth-- == 0)
            return a;
    }
    return -1;
}

static bool has_small_period(const s2_view *view)
{
    enum { MOST_PERIOD = 1 << 20 };
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, view);
    const int64_t unit = shape.block_aligned ? view->pattern->block_tok : 1;
    return shape.key_period / unit <= MOST_PERIOD && shape.query_period / unit <= MOST_PERIOD;
}

/* Add all atoms of one modulus, unless the periods would then be too large. */
static void add_modulus(const s2_view *view, int32_t of, uint8_t *taken, s2_view *subset, s2_atom *atoms)
{
    const int32_t n_before = subset->n_atoms;
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (same_modulus(&view->atoms[of], &view->atoms[a])) {
            taken[a] = 1;
            atoms[subset->n_atoms++] = view->atoms[a];
        }
    if (!has_small_period(subset))
        subset->n_atoms = n_before;
}

/*
 * The atom not yet taken whose modulus has the smallest common multiple with the subset's period, among atoms
 * that share a factor with it or have no modulus; -1: none is left.
 */
static int32_t nearest_modulus(const s2_view *view, const uint8_t *taken, const s2_view *subset)
{
    int32_t best = -1;
    int64_t best_period = S2_OPEN;
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, subset);
    const int64_t unit = shape.block_aligned ? view->pattern->block_tok : 1;
    const int64_t period = s2_period_lcm(shape.key_period, shape.query_period) / unit;
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        const int64_t in_unit = atom->period > 0 ? atom->period * atom->gran / unit : 1;
        const int64_t modulus = s2_max_i64(in_unit, 1), common = s2_period_lcm(period, modulus);
        const bool shares = modulus == 1 || common < period * modulus;
        if (!taken[a] && shares && common < best_period) {
            best = a;
            best_period = common;
        }
    }
    return best;
}

/*
 * Strides with many different moduli have no common period of a manageable size. Fewer atoms that cover
 * everything are proof enough: keep those whose moduli fit together, most common first, or those that share
 * factors with one of them (the seed). Combs of coprime moduli do not help each other: if each leaves out a
 * residue then, by the Chinese remainder theorem, some key is left out by all. So if anything covers, moduli
 * that share factors do, and the set to try is a seed among them with the atoms nearest to it.
 */
static s2_status small_subset(s2_column_search *search, const s2_view *view, int32_t seed, s2_view *out)
{
    int32_t *counts = NULL;
    s2_atom *const atoms = S2_NEW(search->scratch, s2_atom, view->n_atoms);
    uint8_t *const taken = S2_NEW(search->scratch, uint8_t, view->n_atoms);
    if (atoms == NULL || taken == NULL)
        return S2_ENOMEM;
    S2_TRY(count_moduli(search->scratch, view, &counts));
    s2_view subset = *view;
    subset.atoms = atoms;
    subset.n_atoms = 0;
    int32_t next = seed >= 0 ? seed : most_common_modulus(view, counts, taken);
    while (next >= 0 && search->work_left > 0) {
        add_modulus(view, next, taken, &subset, atoms);
        next = seed >= 0 ? nearest_modulus(view, taken, &subset) : most_common_modulus(view, counts, taken);
        search->work_left -= view->n_atoms / 16 + 1;
    }
    *out = subset;
    return S2_OK;
}

/*
 * The whole period is too large: try subsets of the terms that still cover everything. Subsets have their own
 * work limit, since the whole has usually spent all of its own.
 */
static s2_status part_covers(s2_column_search *whole, const s2_view *view, bool *covers)
{
    enum { MOST_SEEDS = 16, MOST_ATOMS = 512, PART_WORK = 1 << 25 }; /* seeds cost the square of the atoms */
    const int32_t n_seeds = view->n_atoms <= MOST_ATOMS ? MOST_SEEDS : 0;
    s2_column_search search = *whole;
    const int64_t work = s2_min_i64(whole->part_work_left, PART_WORK);
    search.work_left = work;
    *covers = false;
    for (int32_t attempt = 0; attempt <= n_seeds && !*covers && search.work_left > 0; attempt++) {
        const s2_arena_mark_t mark = s2_arena_mark(search.scratch);
        const int32_t seed = attempt < n_seeds ? nth_modulus(view, attempt) : -1;
        s2_violation missed = {0};
        s2_view subset;
        if (seed < 0 && attempt < n_seeds)
            attempt = n_seeds;
        S2_TRY(small_subset(&search, view, seed, &subset));
        S2_TRY(hole_of(&search, &subset, &missed, covers));
        *covers &= !missed.found;
        s2_arena_rewind(search.scratch, mark);
    }
    whole->part_work_left -= work - search.work_left;
    return S2_OK;
}

static s2_status hole_search(s2_column_search *search, const s2_view *view, s2_violation *out)
{
    s2_violation best = {0};
    bool complete = true;
    S2_TRY(hole_of(search, view, &best, &complete));
    if (!complete && !best.found)
        S2_TRY(part_covers(search, view, &complete));
    best.limited = !complete;
    drop_if_longer(search, &best);
    *out = best;
    return S2_OK;
}

s2_status s2_columns_hole(s2_column_search *search, const s2_view *view, s2_violation *out)
{
    WITH_SCRATCH(search, hole_search(search, view, out));
}

/* ---- a loop over the representative columns of several views ----------------------------------- */

typedef void (*s2_column_test)(s2_column_search *search, const s2_view_shape *shape, const s2_column *columns,
                               int32_t n, int64_t k_tok, void *user, s2_violation *best);

static void visit_range(s2_column_search *search, const s2_classes *classes, s2_range range,
                        s2_column *columns, int32_t n, s2_column_test test, void *user, s2_violation *best)
{
    for (int64_t k_tok = range.begin; k_tok < range.end && !key_is_past(search, best, k_tok);
         k_tok += classes->unit) {
        best->limited |= search->work_left <= 0;
        if (best->limited)
            return;
        for (int32_t v = 0; v < n; v++)
            column_load(search, &columns[v], k_tok);
        test(search, &classes->shape, columns, n, k_tok, user, best);
    }
}

static s2_status visit(s2_column_search *search, const s2_view *const *views, int32_t n, int64_t block_tok,
                       s2_column_test test, void *user, s2_violation *out)
{
    s2_classes classes;
    s2_violation best = {0};
    S2_TRY(classes_build(search->scratch, views, n, block_tok, &classes));
    s2_column *const columns = S2_NEW(search->scratch, s2_column, n);
    if (columns == NULL)
        return S2_ENOMEM;
    for (int32_t v = 0; v < n; v++)
        S2_TRY(column_init(search->scratch, views[v], &columns[v]));
    for (int32_t r = 0; r < classes.n_ranges; r++)
        visit_range(search, &classes, classes.ranges[r], columns, n, test, user, &best);
    best.limited |= cut_matters(search, &classes, &best);
    drop_if_longer(search, &best);
    *out = best;
    return S2_OK;
}

/* ---- KV efficiency ------------------------------------------------------------------------------ */

bool s2_columns_are_prefixes(const s2_view *view)
{
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        if (atom->kind == S2_ATOM_DISTANCE || atom->kind == S2_ATOM_QUERY || atom->distance_blk.begin > 0 ||
            atom->distance_tok.begin > 0 || atom->query_tok.begin > 0)
            return false;
    }
    return is_causal(view) && !view->has_explicit;
}

static void test_revival(s2_column_search *search, const s2_view_shape *shape, const s2_column *columns,
                         int32_t n, int64_t k_tok, void *user, s2_violation *best)
{
    (void)n;
    (void)user;
    const int64_t dropped =
        first_outside(search, &columns[0], k_tok, column_end(shape, k_tok), &best->limited);
    if (dropped == S2_OPEN)
        return;
    const int64_t again = s2_combs_next(columns[1].combs, columns[1].n, dropped + 1);
    if (again != S2_OPEN)
        s2_violation_keep(best, again, k_tok, dropped);
}

s2_status s2_columns_revival(s2_column_search *search, const s2_view *dropped, const s2_view *again,
                             s2_violation *out)
{
    if (dropped == again && s2_columns_are_prefixes(dropped)) {
        *out = (s2_violation){0};
        return S2_OK;
    }
    const s2_view *const views[2] = {dropped, again};
    WITH_SCRATCH(search, visit(search, views, 2, 1, test_revival, NULL, out));
}

/* ---- equality ------------------------------------------------------------------------------------ */

static bool column_has(const s2_column *column, int64_t x)
{
    for (int32_t c = 0; c < column->n; c++)
        if (s2_comb_has(&column->combs[c], x))
            return true;
    return false;
}

/* Where membership in the column next changes after x; S2_OPEN: never. Called right after column_has(). */
static int64_t next_change(s2_column_search *search, const s2_column *column, int64_t x, int64_t end,
                           bool inside, bool *limited)
{
    search->work_left -= 2 * ((int64_t)column->n + 1);
    return inside ? first_outside(search, column, x, end, limited)
                  : s2_combs_next(column->combs, column->n, x);
}

static void test_difference(s2_column_search *search, const s2_view_shape *shape, const s2_column *columns,
                            int32_t n, int64_t k_tok, void *user, s2_violation *best)
{
    (void)n;
    (void)user;
    const int64_t end = column_end(shape, k_tok);
    int64_t x = is_causal(columns[0].view) ? k_tok : 0;
    while (x < end && x < search->n_tok && search->work_left > 0) {
        const bool in_a = column_has(&columns[0], x), in_b = column_has(&columns[1], x);
        if (in_a != in_b) {
            s2_violation_keep(best, x, k_tok, -1);
            return;
        }
        const int64_t change_a = next_change(search, &columns[0], x, end, in_a, &best->limited);
        const int64_t change_b = next_change(search, &columns[1], x, end, in_b, &best->limited);
        x = s2_min_i64(change_a, change_b);
    }
    best->limited |= search->work_left <= 0;
}

s2_status s2_columns_difference(s2_column_search *search, const s2_view *a, const s2_view *b,
                                s2_violation *out)
{
    if (s2_columns_same_atoms(a, b)) {
        *out = (s2_violation){0};
        return S2_OK;
    }
    const s2_view *const views[2] = {a, b};
    WITH_SCRATCH(search, visit(search, views, 2, 1, test_difference, NULL, out));
}

/* ---- shards -------------------------------------------------------------------------------------- */

/* The widest window that every view reads whole: pairs nearer than either bound are shared. */
typedef struct s2_shared_window {
    int64_t blk;
    int64_t tok;
    int64_t block_tok;
} s2_shared_window;

static void test_window(s2_column_search *search, const s2_view_shape *shape, const s2_column *columns,
                        int32_t n, int64_t k_tok, void *user, s2_violation *best)
{
    s2_shared_window *const window = user;
    for (int32_t v = 0; v < n; v++) {
        const int64_t q_tok =
            first_outside(search, &columns[v], k_tok, column_end(shape, k_tok), &best->limited);
        if (q_tok == S2_OPEN)
            continue;
        const int64_t blk = q_tok / window->block_tok - k_tok / window->block_tok;
        window->blk = s2_min_i64(blk, window->blk);
        window->tok = s2_min_i64(q_tok - k_tok, window->tok);
    }
    if (shape->block_aligned)
        window->tok = 0;
}

/* First query that is beyond the shared window of key k. */
static int64_t window_end(const s2_shared_window *window, int64_t k_tok)
{
    if (window->blk == S2_OPEN)
        return S2_OPEN;
    const int64_t by_blk = (k_tok / window->block_tok + window->blk) * window->block_tok;
    const int64_t by_tok = k_tok + window->tok;
    return s2_max_i64(by_tok, by_blk);
}

static void test_shards(s2_column_search *search, const s2_view_shape *shape, const s2_column *columns,
                        int32_t n, int64_t k_tok, void *user, s2_violation *best)
{
    const int64_t far = window_end(user, k_tok);
    if (far == S2_OPEN)
        return;
    const int64_t tail = add_open(far, shape->query_period), usual = column_end(shape, k_tok);
    const int64_t end = s2_max_i64(tail, usual);
    for (int64_t x = s2_max_i64(far, k_tok); x < end && x < search->n_tok && search->work_left > 0;) {
        int64_t change = S2_OPEN;
        int32_t readers = 0;
        for (int32_t v = 0; v < n; v++) {
            const bool inside = column_has(&columns[v], x);
            const int64_t next = next_change(search, &columns[v], x, end, inside, &best->limited);
            change = s2_min_i64(next, change);
            readers += inside;
        }
        if (readers != 1) {
            s2_violation_keep(best, x, k_tok, readers);
            return;
        }
        x = change;
    }
    best->limited |= search->work_left <= 0;
}

static s2_status shards_search(s2_column_search *search, const s2_view *views, int32_t n, s2_violation *out)
{
    const s2_view **const list = S2_NEW(search->scratch, const s2_view *, n);
    if (list == NULL)
        return S2_ENOMEM;
    for (int32_t v = 0; v < n; v++)
        list[v] = &views[v];
    s2_shared_window window = {S2_OPEN, S2_OPEN, views[0].pattern->block_tok};
    s2_violation window_search;
    /* the shared window is a property of the pattern, not of the length asked for */
    s2_column_search every_length = {
        .scratch = search->scratch, .n_tok = S2_OPEN, .work_left = search->work_left};
    S2_TRY(visit(&every_length, list, n, window.block_tok, test_window, &window, &window_search));
    search->work_left = every_length.work_left;
    S2_TRY(visit(search, list, n, window.block_tok, test_shards, &window, out));
    out->limited |= window_search.limited;
    return S2_OK;
}

s2_status s2_columns_shards(s2_column_search *search, const s2_view *views, int32_t n, s2_violation *out)
{
    WITH_SCRATCH(search, shards_search(search, views, n, out));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* Whether every query reads the diagonal, or key 0 at every distance. */
static bool fills_every_row(const s2_atom *atom)
{
    const bool every_distance = atom->distance_blk.end == S2_OPEN && atom->distance_tok.end == S2_OPEN;
    s2_atom of_all_keys = *atom;
    if (every_distance && atom->key_tok.end > 0)
        of_all_keys.key_tok.end = S2_OPEN;
    return s2_atom_is_window(&of_all_keys);
}

bool s2_columns_fill_rows(const s2_view *view)
{
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (fills_every_row(&view->atoms[a]))
            return true;
    return false;
}

/* A row from here on is empty only if an earlier one is: rows repeat with both periods. */
static int64_t rows_end(const s2_view_shape *shape)
{
    const int64_t period = s2_period_lcm(shape->key_period, shape->query_period);
    return add_open(shape->threshold + shape->reach, period);
}

static bool row_is_empty(const s2_view *view, int64_t q_tok, int64_t n_tok)
{
    s2_comb comb;
    for (int32_t a = 0; a < view->n_atoms; a++)
        if (s2_atom_row(view, &view->atoms[a], q_tok, n_tok, &comb))
            return false;
    return true;
}

/* An atom of a row costs this many of a column: two divisions, and no neighbour to continue from. */
enum { ROW_STEPS = 2 };

s2_status s2_columns_empty_row(s2_column_search *search, const s2_view *view, s2_violation *out)
{
    s2_violation best = {.k_tok = -1};
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, view);
    const int64_t unit = shape.block_aligned ? view->pattern->block_tok : 1;
    int64_t end = add_open(rows_end(&shape), unit);
    /* the end of a context cuts keys off earlier rows, so every row of that context is visited */
    if (end > search->n_tok || (!is_causal(view) && search->n_tok != S2_OPEN))
        end = search->n_tok;
    if (s2_columns_fill_rows(view))
        end = 0;
    for (int64_t q_tok = 0; q_tok < end && !best.found && !best.limited; q_tok += unit) {
        search->work_left -= ROW_STEPS * ((int64_t)view->n_atoms + 1);
        best.limited = search->work_left <= 0;
        /* a query's row has the fewest keys in the context that ends with it */
        best.found = row_is_empty(view, q_tok, search->n_tok == S2_OPEN ? q_tok + 1 : search->n_tok);
        best.q_tok = q_tok;
    }
    *out = best;
    return S2_OK;
}

int64_t s2_columns_sufficient_tok(const s2_view *views, int32_t n)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    for (int32_t v = 0; v < n; v++)
        s2_view_shape_add(&shape, &views[v]);
    int64_t keys = add_open(rows_end(&shape), 2 * (int64_t)views[0].pattern->block_tok);
    if (!is_causal(&views[0]))
        keys = add_open(keys, add_open(shape.reach, add_open(shape.key_period, shape.query_period)));
    return add_open(keys, add_open(shape.reach, shape.query_period));
}
