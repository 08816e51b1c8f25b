#include "pattern/plane.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "pattern/dense.h"

/* The most cells examined for candidates, about a second; a mask that needs more is refused. */
#define WORK_CELLS (INT64_C(1) << 27)

/* A term that lies wholly inside the mask. */
typedef struct candidate {
    s2_term term;
    int64_t bound; /* cells that it could read */
    int64_t gain;  /* cells that no chosen term reads yet; an upper bound until it is counted again */
} candidate;

/* Where the cells of a column, a diagonal or a class of them are all set. */
typedef struct reach {
    int32_t from;  /* at this distance and beyond */
    int32_t until; /* below this distance */
} reach;

typedef struct solver {
    s2_arena *arena;
    const s2_plane *plane;
    s2_pattern unit; /* blocks of one token, to pass to the definition of a term */
    uint8_t *left;   /* cells that no chosen term reads */
    int64_t n_left;
    reach *columns;
    bool *diagonals;
    int32_t window;     /* this many newest blocks are read by every query */
    int32_t tail;       /* and all blocks at this distance and beyond */
    int32_t whole_tail; /* columns from here on are whole */
    int64_t work_left;  /* cells to look at */
    int64_t n_candidates, cap;
    candidate *candidates;
} solver;

static bool cell(const s2_plane *plane, int32_t query, int32_t key)
{
    return plane->cell[(int64_t)query * plane->n + key] != 0;
}

static bool is_conditional(const s2_term *term)
{
    const s2_range range = term->when[S2_WHEN_DISTANCE][S2_UNIT_BLK];
    return range.begin != 0 || range.end != S2_OPEN;
}

static bool reads(const solver *s, const s2_term *term, int32_t query, int32_t key)
{
    return s2_term_reads(&s->unit, term, 0, 0, s->plane->n, query, key);
}

/* A walk over the cells of a term that are left: counts them or takes them. */
typedef struct walk {
    solver *s;
    const s2_term *term;
    bool take;
    int64_t n; /* cells found that were left */
} walk;

static void visit(walk *w, int32_t query, int32_t key)
{
    uint8_t *const left = &w->s->left[(int64_t)query * w->s->plane->n + key];
    if (*left == 0 || !reads(w->s, w->term, query, key))
        return;
    w->n++;
    if (w->take)
        *left = 0;
}

static bool in_class(const s2_term *term, int64_t place)
{
    return (place + term->offset.constant) % term->n < term->width;
}

/* A stride visits its keys and a dilation its distances; other terms are evaluated at every cell. */
static void visit_all(walk *w)
{
    const int32_t n = w->s->plane->n;
    const bool stride = w->term->kind == S2_TERM_STRIDE, dilated = w->term->kind == S2_TERM_DILATED;
    for (int32_t line = 0; line < n; line++) {
        if ((stride || dilated) && !in_class(w->term, line))
            continue;
        for (int32_t other = dilated ? line : 0; other < n; other++) {
            const int32_t query = stride || dilated ? other : line;
            const int32_t key = stride ? line : dilated ? other - line : other;
            if (key < s2_plane_n_keys(w->s->plane, query))
                visit(w, query, key);
        }
    }
}

/* How many cells the term would newly read. */
static int64_t count_gain(solver *s, const s2_term *term)
{
    walk w = {s, term, false, 0};
    visit_all(&w);
    return w.n;
}

/* The most cells a stride can add: a bound that costs one row, where counting costs the square. */
static int64_t bound_gain(const solver *s, const s2_term *term)
{
    int64_t cells = 0;
    if (term->kind != S2_TERM_STRIDE && term->kind != S2_TERM_DILATED)
        return INT64_MAX;
    for (int32_t at = 0; at < s->plane->n; at++)
        if (in_class(term, at))
            cells += s->plane->causal ? s->plane->n - at : s->plane->n;
    return cells;
}

static s2_status add(solver *s, s2_term term)
{
    S2_TRY(S2_ARENA_ROOM(s->arena, s->candidates, s->n_candidates, s->cap));
    s->candidates[s->n_candidates++] = (candidate){term, bound_gain(s, &term), 0};
    return S2_OK;
}

static s2_term within(s2_term term, int64_t from, int64_t until)
{
    term.when[S2_WHEN_DISTANCE][S2_UNIT_BLK] = (s2_range){from, until};
    return term;
}

/* ------------------------------------------------------------------ what is whole */

static void note(reach *r, int32_t distance, bool set)
{
    if (set)
        return;
    if (distance + 1 > r->from)
        r->from = distance + 1;
    if (distance < r->until)
        r->until = distance;
}

static void join(reach *r, reach other)
{
    r->from = s2_max_i32(other.from, r->from);
    r->until = s2_min_i32(other.until, r->until);
}

static s2_status find_whole(solver *s)
{
    const int32_t n = s->plane->n;
    s->columns = S2_NEW(s->arena, reach, n);
    s->diagonals = S2_NEW(s->arena, bool, n);
    if (s->columns == NULL || s->diagonals == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < n; at++) {
        s->columns[at].until = n;
        s->diagonals[at] = true;
    }
    for (int32_t query = 0; query < n; query++)
        for (int32_t key = 0; key < s2_plane_n_keys(s->plane, query); key++) {
            const bool set = cell(s->plane, query, key);
            note(&s->columns[key], abs(query - key), set);
            s->diagonals[abs(query - key)] = s->diagonals[abs(query - key)] && set;
        }
    return S2_OK;
}

/* ------------------------------------------------------------------ candidates */

static s2_status add_bands(solver *s)
{
    const int32_t n = s->plane->n;
    s->tail = n;
    for (int32_t from = 0, until; from < n; from = until + 1) {
        for (until = from; until < n && s->diagonals[until]; until++) {
        }
        if (until == from)
            continue;
        const s2_term dense = s2_term_init(S2_TERM_DENSE, 0);
        if (from == 0)
            s->window = until;
        if (until == n)
            s->tail = from;
        if (from == 0)
            S2_TRY(add(s, until == n ? dense : s2_term_init(S2_TERM_LOCAL, until)));
        else
            S2_TRY(add(s, within(dense, from, until == n ? S2_OPEN : until)));
    }
    return S2_OK;
}

static s2_status add_sink(solver *s)
{
    int32_t n = 0;
    while (n < s->plane->n && s->columns[n].from == 0)
        n++;
    return n > 0 ? add(s, s2_term_init(S2_TERM_SINK, n)) : S2_OK;
}

static bool is_inside(const solver *s, const s2_term *term)
{
    for (int32_t query = 0; query < s->plane->n; query++)
        for (int32_t key = 0; key < s2_plane_n_keys(s->plane, query); key++)
            if (!cell(s->plane, query, key) && reads(s, term, query, key))
                return false;
    return true;
}

/* Only the largest chunk that fits: it contains any smaller one, unless that does not divide it. */
static s2_status add_chunk(solver *s)
{
    for (int32_t n = s->plane->n / 2; n > 1; n--) {
        const s2_term chunk = s2_term_init(S2_TERM_CHUNK, n);
        if (is_inside(s, &chunk))
            return add(s, chunk);
    }
    return S2_OK;
}

/* The residue classes of one divisor; adjacent whole ones become one wide stride. */
static s2_status add_classes(solver *s, s2_term_kind kind, int32_t divisor, const reach *classes)
{
    const int32_t n = s->plane->n;
    for (int32_t residue = 0; residue < divisor; residue++) {
        const reach here = classes[residue], before = classes[(residue + divisor - 1) % divisor];
        int32_t width = 1;
        if (here.from == 0 && before.from == 0)
            continue; /* the run began earlier */
        while (here.from == 0 && classes[(residue + width) % divisor].from == 0)
            width++;
        const int32_t last = kind == S2_TERM_STRIDE ? s->whole_tail : s->tail;
        if (here.from == 0 && residue >= last && residue + width <= divisor)
            continue; /* a band or the last columns cover it */
        s2_term term = s2_term_init(kind, divisor);
        term.width = width;
        /* both count from their first residue: dilated reads distance d where (d + P) mod V < W */
        term.offset.constant = (divisor - residue) % divisor;
        if (here.from == 0)
            S2_TRY(add(s, term));
        else if (here.until >= s->window + 2 * divisor) /* fewer periods count as chance */
            S2_TRY(add(s, within(term, 0, here.until)));
        if (here.from > 0 && here.from < s->tail && here.from + 2 * divisor <= n)
            S2_TRY(add(s, within(term, here.from, S2_OPEN)));
    }
    return S2_OK;
}

static s2_status add_strides(solver *s, reach *classes)
{
    const int32_t n = s->plane->n;
    for (s->whole_tail = n; s->whole_tail > 0 && s->columns[s->whole_tail - 1].from == 0;)
        s->whole_tail--;
    for (int32_t divisor = 2; divisor <= n / 2; divisor++) {
        for (int32_t residue = 0; residue < divisor; residue++)
            classes[residue] = (reach){0, n};
        for (int32_t key = 0; key < n; key++)
            join(&classes[key % divisor], s->columns[key]);
        S2_TRY(add_classes(s, S2_TERM_STRIDE, divisor, classes));
    }
    return S2_OK;
}

/* Causal only: elsewhere distances have a sign, which dilations follow and diagonals do not. */
static s2_status add_dilations(solver *s, reach *classes)
{
    const int32_t n = s->plane->n;
    for (int32_t divisor = 2; s->plane->causal && divisor <= n / 2; divisor++) {
        for (int32_t residue = 0; residue < divisor; residue++)
            classes[residue] = (reach){0, n};
        for (int32_t distance = 0; distance < n; distance++)
            note(&classes[distance % divisor], distance, s->diagonals[distance]);
        S2_TRY(add_classes(s, S2_TERM_DILATED, divisor, classes));
    }
    return S2_OK;
}

/* ------------------------------------------------------------------ single columns and rows */

static bool column_is_whole(const solver *s, int32_t key)
{
    return s->columns[key].from == 0;
}

static bool row_is_whole(const solver *s, int32_t query)
{
    for (int32_t key = 0; key < s2_plane_n_keys(s->plane, query); key++)
        if (!cell(s->plane, query, key))
            return false;
    return true;
}

static bool is_single(const s2_span *span)
{
    return span->step == 1 && span->end == span->begin + 1;
}

/*
 * Join evenly spaced single lines in place, four or more of them; where another would lie outside the plane, they are
 * taken to go on, as a stride is.
 */
static int32_t join_steps(s2_span *spans, int32_t n_spans, int32_t n_lines)
{
    int32_t n_out = 0, taken;
    for (int32_t first = 0; first < n_spans; first += taken, n_out++) {
        const s2_span *const run = &spans[first];
        const int64_t step = first + 1 < n_spans ? run[1].begin - run[0].begin : 0;
        for (taken = 1; is_single(run) && first + taken < n_spans && is_single(&run[taken]) &&
                        run[taken].begin - run[taken - 1].begin == step;)
            taken++;
        const int64_t last = run[taken - 1].begin;
        const bool goes_on = last + step >= n_lines;
        taken = taken >= 4 ? taken : 1;
        spans[n_out] = taken == 1 ? run[0] : (s2_span){run[0].begin, goes_on ? S2_OPEN : last + 1, step};
    }
    return n_out;
}

/* The whole columns (or rows) with cells left, in ascending order. */
static s2_status list_lines(s2_arena *arena, const solver *s, s2_term_kind kind, s2_term *out)
{
    const int32_t n = s->plane->n;
    s2_span *const spans = S2_NEW(arena, s2_span, n);
    int32_t n_spans = 0;
    if (spans == NULL)
        return S2_ENOMEM;
    for (int32_t line = 0; line < n; line++) {
        bool wanted = false;
        for (int32_t other = 0; other < n && !wanted; other++)
            wanted =
                s->left[kind == S2_TERM_ROWS ? (int64_t)line * n + other : (int64_t)other * n + line] != 0;
        if (!wanted || !(kind == S2_TERM_ROWS ? row_is_whole(s, line) : column_is_whole(s, line)))
            continue;
        if (n_spans > 0 && spans[n_spans - 1].end == line)
            spans[n_spans - 1].end++;
        else
            spans[n_spans++] = (s2_span){line, line + 1, 1};
    }
    *out = s2_term_init(kind, 0);
    out->list = (s2_span_list){join_steps(spans, n_spans, n), spans};
    return S2_OK;
}

/* ------------------------------------------------------------------ a cover */

static void take(solver *s, const s2_term *term)
{
    walk w = {s, term, true, 0};
    visit_all(&w);
    s->n_left -= w.n;
}

/* The candidate that adds most; the first among equals, since the plainest come first. */
static const s2_term *best_candidate(solver *s)
{
    int64_t most = 0;
    const s2_term *best = NULL;
    for (int64_t c = 0; c < s->n_candidates; c++) {
        candidate *const one = &s->candidates[c];
        if (one->gain <= most || s->work_left < 0)
            continue;
        s->work_left -= one->bound < INT64_MAX ? one->bound : (int64_t)s->plane->n * s->plane->n;
        one->gain = count_gain(s, &one->term);
        if (one->gain > most) {
            most = one->gain;
            best = &one->term;
        }
    }
    return best;
}

static void reset(solver *s)
{
    s->n_left = 0;
    for (int32_t query = 0; query < s->plane->n; query++)
        for (int32_t key = 0; key < s->plane->n; key++) {
            const bool counts = key < s2_plane_n_keys(s->plane, query) && cell(s->plane, query, key);
            s->left[(int64_t)query * s->plane->n + key] = counts;
            s->n_left += counts;
        }
}

/* A way to a cover: which candidates count, and whether single columns and rows are taken before them. */
typedef struct way {
    bool conditions;
    bool lines_first;
} way;

static s2_status take_lines(s2_arena *arena, solver *s, int32_t cap, s2_term *terms, int32_t *n)
{
    static const s2_term_kind lines[] = {S2_TERM_COLUMNS, S2_TERM_ROWS};
    for (size_t l = 0; l < sizeof lines / sizeof *lines && s->n_left > 0 && *n < cap; l++) {
        s2_term term;
        S2_TRY(list_lines(arena, s, lines[l], &term));
        if (term.list.n_spans == 0)
            continue;
        take(s, &term);
        terms[(*n)++] = term;
    }
    return S2_OK;
}

static s2_status cover(s2_arena *arena, solver *s, way how, int32_t cap, s2_term *terms, int32_t *n)
{
    const s2_term *best;
    *n = 0;
    reset(s);
    for (int64_t c = 0; c < s->n_candidates; c++) {
        candidate *const one = &s->candidates[c];
        one->gain = how.conditions || !is_conditional(&one->term) ? one->bound : 0;
    }
    if (s->window > 0 && how.lines_first) {
        const s2_term window = s2_term_init(S2_TERM_LOCAL, s->window);
        take(s, &window);
        terms[(*n)++] = window;
    }
    if (how.lines_first)
        S2_TRY(take_lines(arena, s, cap, terms, n));
    while (s->n_left > 0 && *n < cap && (best = best_candidate(s)) != NULL) {
        terms[(*n)++] = *best;
        take(s, best);
    }
    return take_lines(arena, s, cap, terms, n);
}

/* Drop terms whose cells the others read too, the last found first. */
static void drop_needless(solver *s, s2_term *terms, int32_t *n)
{
    for (int32_t t = *n; t-- > 0 && *n > 1;) {
        reset(s);
        for (int32_t other = 0; other < *n; other++)
            if (other != t)
                take(s, &terms[other]);
        if (s->n_left > 0)
            continue;
        memmove(&terms[t], &terms[t + 1], (size_t)(*n - t - 1) * sizeof *terms);
        --*n;
    }
}

/* As a person would write them: windows and sinks before strides, small strides before large ones. */
static int by_kind(const void *left, const void *right)
{
    const s2_term *const a = left, *const b = right;
    if (a->kind != b->kind)
        return (a->kind > b->kind) - (a->kind < b->kind);
    if (a->n != b->n)
        return (a->n > b->n) - (a->n < b->n);
    return (a->offset.constant > b->offset.constant) - (a->offset.constant < b->offset.constant);
}

/* Roughly how long the terms are to read. */
static int32_t cost(const s2_term *terms, int32_t n)
{
    int32_t sum = 0;
    for (int32_t t = 0; t < n; t++)
        sum += 4 + terms[t].list.n_spans + 2 * (terms[t].width > 1) + 3 * is_conditional(&terms[t]);
    return sum;
}

/* The shortest of the covers that the ways lead to; *found is false if none is complete. */
static s2_status best_cover(s2_arena *arena, solver *s, int32_t cap, s2_term *out, int32_t *n_out,
                            bool *found)
{
    static const way ways[] = {{false, false}, {true, false}, {false, true}, {true, true}};
    s2_term *const terms = S2_NEW(s->arena, s2_term, cap + 1);
    if (terms == NULL)
        return S2_ENOMEM;
    *found = false;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        int32_t n;
        S2_TRY(cover(arena, s, ways[w], cap, terms, &n));
        if (s->n_left > 0)
            continue;
        drop_needless(s, terms, &n);
        if (!*found || cost(terms, n) < cost(out, *n_out)) {
            memcpy(out, terms, (size_t)n * sizeof *terms);
            *n_out = n;
            *found = true;
        }
    }
    return S2_OK;
}

static void name_left(const solver *s, int32_t *query, int32_t *key)
{
    const int32_t n = s->plane->n;
    for (int64_t cell = 0; cell < (int64_t)n * n; cell++)
        if (s->left[cell] != 0) {
            *query = (int32_t)(cell / n);
            *key = (int32_t)(cell % n);
            return;
        }
}

static s2_status find_candidates(solver *s)
{
    reach *const classes = S2_NEW(s->arena, reach, s->plane->n);
    if (classes == NULL)
        return S2_ENOMEM;
    S2_TRY(find_whole(s));
    S2_TRY(add_bands(s));
    S2_TRY(add_sink(s));
    S2_TRY(add_chunk(s));
    S2_TRY(add_strides(s, classes));
    return add_dilations(s, classes);
}

s2_status s2_plane_terms(s2_arena *arena, s2_arena *scratch, const s2_plane *plane, int32_t cap, s2_body *out,
                         int32_t *query, int32_t *key)
{
    const s2_body one_body = {0};
    solver s = {.arena = scratch,
                .work_left = WORK_CELLS,
                .plane = plane,
                .unit = {.n_layers = 1,
                         .n_heads = 1,
                         .n_kv_heads = 1,
                         .block_tok = 1,
                         .causal = plane->causal,
                         .n_bodies = 1,
                         .bodies = &one_body},
                .left = S2_NEW(scratch, uint8_t, (int64_t)plane->n * plane->n)};
    s2_term *const terms = S2_NEW(arena, s2_term, cap + 1);
    int32_t n = 0;
    if (s.left == NULL || terms == NULL)
        return S2_ENOMEM;
    bool found;
    S2_TRY(find_candidates(&s));
    S2_TRY(best_cover(arena, &s, cap, terms, &n, &found));
    if (!found) {
        name_left(&s, query, key);
        return S2_EUNSUPPORTED;
    }
    qsort(terms, (size_t)n, sizeof *terms, by_kind);
    if (n == 0)
        terms[n++] = s2_term_init(S2_TERM_NONE, 0);
    *out = (s2_body){n, terms};
    return S2_OK;
}
