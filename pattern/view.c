#include "pattern/view.h"

#include <string.h>

#include "base/arith.h"
#include "base/alloc.h"
#include "base/work.h"
#include "pattern/random.h"
#include "pattern/random.h"

static int64_t scale(int64_t bound, int64_t by)
{
    return bound == S2_OPEN || bound == -S2_OPEN ? bound : bound * by;
}

static s2_range scaled(s2_range range, int64_t by)
{
    return (s2_range){scale(range.begin, by), scale(range.end, by)};
}

/* |x| in [begin, end) on the side of x's sign; begin 0 leaves both sides in one signed range. */
static s2_range signed_side(s2_range magnitude, bool negative)
{
    const int64_t low = magnitude.end == S2_OPEN ? -S2_OPEN : 1 - magnitude.end;
    if (magnitude.begin <= 0)
        return (s2_range){low, magnitude.end};
    return negative ? (s2_range){low, 1 - magnitude.begin} : magnitude;
}

typedef struct s2_builder {
    s2_view *view;
    s2_arena *arena;
    s2_atom *atoms;
    int64_t cap;
    s2_status status;
} s2_builder;

static void push(s2_builder *builder, s2_atom atom)
{
    s2_view *const view = builder->view;
    if (S2_ARENA_ROOM(builder->arena, builder->atoms, view->n_atoms, builder->cap) == S2_OK)
        builder->atoms[view->n_atoms++] = atom;
    else
        builder->status = S2_ENOMEM;
}

/* Distances are magnitudes in the language; an atom holds signed ones, so one term may need two atoms. */
static void push_signed(s2_builder *builder, s2_atom atom)
{
    if (builder->view->pattern->causal) {
        push(builder, atom);
        return;
    }
    const s2_range blk = atom.distance_blk, tok = atom.distance_tok;
    const int n_sides = blk.begin > 0 || tok.begin > 0 ? 2 : 1;
    for (int side = 0; side < n_sides; side++) {
        atom.distance_blk = signed_side(blk, side == 1);
        atom.distance_tok = signed_side(tok, side == 1);
        push(builder, atom);
    }
}

static s2_atom atom_base(const s2_pattern *pattern, const s2_term *term, int32_t index)
{
    const int64_t block = pattern->block_tok;
    return (s2_atom){
        .kind = S2_ATOM_PLAIN,
        .term = index,
        .gran = 1,
        .period = 1,
        .width = 1,
        .distance_blk = term->when[S2_WHEN_DISTANCE][S2_UNIT_BLK],
        .distance_tok = term->when[S2_WHEN_DISTANCE][S2_UNIT_TOK],
        .key_tok = s2_range_meet(scaled(term->when[S2_WHEN_KEY][S2_UNIT_BLK], block),
                                 term->when[S2_WHEN_KEY][S2_UNIT_TOK]),
        .query_tok = s2_range_meet(scaled(term->when[S2_WHEN_QUERY][S2_UNIT_BLK], block),
                                   term->when[S2_WHEN_QUERY][S2_UNIT_TOK]),
    };
}

/* Each span of columns or rows becomes one atom: an interval, or a residue class within one. */
static void push_list(s2_builder *builder, const s2_term *term, s2_atom atom)
{
    const bool columns = term->kind == S2_TERM_COLUMNS;
    const int64_t unit = term->tok ? 1 : builder->view->pattern->block_tok;
    for (int32_t s = 0; s < term->list.n_spans; s++) {
        const s2_span span = term->list.spans[s];
        s2_atom one = atom;
        s2_range *const range = columns ? &one.key_tok : &one.query_tok;
        *range = s2_range_meet(*range, scaled((s2_range){span.begin, span.end}, unit));
        if (span.step > 1) {
            one.kind = columns ? S2_ATOM_KEY : S2_ATOM_QUERY;
            one.gran = unit;
            one.period = span.step;
            one.shift = s2_mod(-span.begin, span.step);
        }
        push_signed(builder, one);
    }
}

/* topk and heavy N certainly read everything while there are at most N keys; pages likewise. */
static void push_dynamic(s2_builder *builder, const s2_term *term, s2_bound bound, s2_atom atom)
{
    builder->view->has_dynamic = true;
    if (bound == S2_AT_LEAST) {
        if (!builder->view->pattern->causal)
            return;
        const int64_t certain = term->kind == S2_TERM_PAGES ? term->n * term->page_tok : term->n;
        atom.query_tok = s2_range_meet(atom.query_tok, (s2_range){0, certain});
    }
    push_signed(builder, atom);
}

static void push_term(s2_builder *builder, const s2_term *term, int32_t index, s2_bound bound)
{
    s2_view *const view = builder->view;
    const int64_t unit = term->tok ? 1 : view->pattern->block_tok;
    s2_atom atom = atom_base(view->pattern, term, index);
    switch (term->kind) {
    case S2_TERM_NONE: return;
    case S2_TERM_DENSE: break;
    case S2_TERM_LOCAL: {
        s2_range *const distance = term->tok ? &atom.distance_tok : &atom.distance_blk;
        *distance = s2_range_meet(*distance, (s2_range){0, term->n});
        break;
    }
    case S2_TERM_SINK: atom.key_tok = s2_range_meet(atom.key_tok, (s2_range){0, term->n * unit}); break;
    case S2_TERM_STRIDE:
    case S2_TERM_DILATED:
        atom.kind = term->kind == S2_TERM_STRIDE ? S2_ATOM_KEY : S2_ATOM_DISTANCE;
        atom.gran = unit;
        atom.period = term->n;
        atom.width = term->width;
        atom.shift = s2_term_offset(term, view->layer, view->head,
                                    s2_layer_kv_head(view->pattern, view->layer, view->head));
        break;
    case S2_TERM_COLUMNS:
    case S2_TERM_ROWS: push_list(builder, term, atom); return;
    case S2_TERM_CHUNK:
        atom.kind = S2_ATOM_CHUNK;
        atom.gran = term->n * unit;
        break;
    case S2_TERM_RANDOM:
    case S2_TERM_MASK:
        atom.kind = term->kind == S2_TERM_RANDOM ? S2_ATOM_RANDOM : S2_ATOM_MASK;
        view->has_explicit = true;
        break;
    case S2_TERM_PAGES:
    case S2_TERM_HEAVY:
    case S2_TERM_TOPK: push_dynamic(builder, term, bound, atom); return;
    }
    push_signed(builder, atom);
}

s2_status s2_view_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                        int32_t head, s2_bound bound, s2_view *out)
{
    const s2_body *const body = &pattern->bodies[s2_pattern_body(pattern, phase, layer, head)];
    s2_view view = {.pattern = pattern, .body = body, .phase = phase, .layer = layer, .head = head};
    s2_builder builder = {.view = &view, .arena = arena, .cap = body->n_terms};
    builder.atoms = S2_NEW(arena, s2_atom, body->n_terms);
    if (builder.atoms == NULL)
        return S2_ENOMEM;
    for (int32_t t = 0; t < body->n_terms; t++)
        push_term(&builder, &body->terms[t], t, bound);
    S2_TRY(builder.status);
    view.atoms = builder.atoms;
    *out = view;
    return S2_OK;
}

static bool range_equal(s2_range a, s2_range b)
{
    return a.begin == b.begin && a.end == b.end;
}

bool s2_atom_is_window(const s2_atom *atom)
{
    return atom->kind == S2_ATOM_PLAIN && atom->distance_blk.begin <= 0 && atom->distance_tok.begin <= 0 &&
           atom->distance_blk.end > 0 && atom->distance_tok.end > 0 && atom->key_tok.begin <= 0 &&
           atom->key_tok.end == S2_OPEN && atom->query_tok.begin <= 0 && atom->query_tok.end == S2_OPEN;
}

bool s2_atom_equal(const s2_atom *a, const s2_atom *b)
{
    return a->kind == b->kind && a->gran == b->gran && a->period == b->period && a->width == b->width &&
           a->shift == b->shift && range_equal(a->distance_blk, b->distance_blk) &&
           range_equal(a->distance_tok, b->distance_tok) && range_equal(a->key_tok, b->key_tok) &&
           range_equal(a->query_tok, b->query_tok);
}

/* Whether explicit atoms read the same within their thresholds: by head, and random lists also by layer. */
static bool explicit_equal(const s2_view *a, const s2_view *b, int32_t atom)
{
    const s2_term *const first = &a->body->terms[a->atoms[atom].term];
    const s2_term *const second = &b->body->terms[b->atoms[atom].term];
    if (a->atoms[atom].kind == S2_ATOM_RANDOM)
        return first->n == second->n && first->seed == second->seed && a->layer == b->layer &&
               a->head == b->head;
    if (a->atoms[atom].kind == S2_ATOM_MASK)
        return first->mask == second->mask && (a->head == b->head || first->mask->n_heads == 1);
    return true;
}

bool s2_view_equal(const s2_view *a, const s2_view *b)
{
    if (a->n_atoms != b->n_atoms || a->pattern->block_tok != b->pattern->block_tok ||
        a->pattern->causal != b->pattern->causal)
        return false;
    for (int32_t at = 0; at < a->n_atoms; at++)
        if (!s2_atom_equal(&a->atoms[at], &b->atoms[at]) || !explicit_equal(a, b, at))
            return false;
    return true;
}

/* begin + by, where open ends stay open and sums below 0 are 0. */
static int64_t shifted(int64_t bound, int64_t by)
{
    if (bound == S2_OPEN || bound == -S2_OPEN)
        return bound == S2_OPEN ? S2_OPEN : 0;
    return s2_max_i64(bound + by, 0);
}

static s2_comb interval(s2_range range)
{
    return (s2_comb){range.begin, range.end, 1, 1, 1, 0};
}

static bool residue_holds(const s2_atom *atom, int64_t x)
{
    return (x / atom->gran + atom->shift) % atom->period < atom->width;
}

bool s2_atom_column(const s2_view *view, const s2_atom *atom, int64_t k_tok, s2_comb *out)
{
    const int64_t block = view->pattern->block_tok, k_blk = k_tok / block;
    if (k_tok < atom->key_tok.begin || k_tok >= atom->key_tok.end)
        return false;
    s2_range query = s2_range_meet(atom->query_tok, (s2_range){view->pattern->causal ? k_tok : 0, S2_OPEN});
    query = s2_range_meet(
        query, (s2_range){shifted(atom->distance_tok.begin, k_tok), shifted(atom->distance_tok.end, k_tok)});
    query = s2_range_meet(query, (s2_range){scale(shifted(atom->distance_blk.begin, k_blk), block),
                                            scale(shifted(atom->distance_blk.end, k_blk), block)});
    if (atom->kind == S2_ATOM_KEY && !residue_holds(atom, k_tok))
        return false;
    if (atom->kind == S2_ATOM_CHUNK) {
        const int64_t chunk = k_tok / atom->gran;
        query = s2_range_meet(query, (s2_range){chunk * atom->gran, (chunk + 1) * atom->gran});
    }
    s2_comb comb = interval(query);
    if (atom->kind == S2_ATOM_DISTANCE || atom->kind == S2_ATOM_QUERY) {
        const int64_t from = atom->kind == S2_ATOM_DISTANCE ? k_tok / atom->gran : 0;
        comb = (s2_comb){query.begin,  query.end,   atom->gran,
                         atom->period, atom->width, s2_mod(atom->shift - from, atom->period)};
    }
    /* an endless comb reaches its residues at some point; only a bounded one can miss them all */
    if (comb.begin >= comb.end || (comb.end != S2_OPEN && s2_comb_next(&comb, 0) == S2_OPEN))
        return false;
    *out = comb;
    return true;
}

/* The keys that the thresholds of an atom leave to one query. */
static s2_range row_range(const s2_view *view, const s2_atom *atom, int64_t q_tok, int64_t n_tok)
{
    const int64_t block = view->pattern->block_tok, q_blk = q_tok / block;
    const int64_t key_end = view->pattern->causal && q_tok + 1 < n_tok ? q_tok + 1 : n_tok;
    s2_range key = s2_range_meet(atom->key_tok, (s2_range){0, key_end});
    const s2_range tok = atom->distance_tok, blk = atom->distance_blk;
    key = s2_range_meet(key, (s2_range){tok.end == S2_OPEN ? 0 : shifted(-tok.end, q_tok + 1),
                                        shifted(-tok.begin, q_tok + 1)});
    key = s2_range_meet(key, (s2_range){blk.end == S2_OPEN ? 0 : scale(shifted(-blk.end, q_blk + 1), block),
                                        scale(shifted(-blk.begin, q_blk + 1), block)});
    if (q_tok < atom->query_tok.begin || q_tok >= atom->query_tok.end)
        key.end = key.begin;
    return key;
}

bool s2_atom_row(const s2_view *view, const s2_atom *atom, int64_t q_tok, int64_t n_tok, s2_comb *out)
{
    s2_range key = row_range(view, atom, q_tok, n_tok);
    if (atom->kind == S2_ATOM_QUERY && !residue_holds(atom, q_tok))
        return false;
    if (atom->kind == S2_ATOM_CHUNK) {
        const int64_t chunk = q_tok / atom->gran;
        key = s2_range_meet(key, (s2_range){chunk * atom->gran, (chunk + 1) * atom->gran});
    }
    s2_comb comb = interval(key);
    if (atom->kind == S2_ATOM_KEY)
        comb = (s2_comb){key.begin, key.end, atom->gran, atom->period, atom->width, atom->shift};
    if (atom->kind == S2_ATOM_DISTANCE) {
        /* (i - j + P) mod V < W, read as a condition on j: the residue is mirrored */
        const int64_t shift = s2_mod(atom->width - 1 - q_tok / atom->gran - atom->shift, atom->period);
        comb = (s2_comb){key.begin, key.end, atom->gran, atom->period, atom->width, shift};
    }
    if (s2_comb_next(&comb, 0) == S2_OPEN)
        return false;
    *out = comb;
    return true;
}

enum { PERIOD_BITS = 40 };

int64_t s2_period_lcm(int64_t a, int64_t b)
{
    if (a == S2_OPEN || b == S2_OPEN)
        return S2_OPEN;
    const int64_t factor = b / s2_gcd(a, b);
    return a > (INT64_C(1) << PERIOD_BITS) / factor ? S2_OPEN : a * factor;
}

void s2_view_shape_init(s2_view_shape *shape)
{
    *shape = (s2_view_shape){.key_period = 1, .query_period = 1, .block_aligned = true};
}

static void raise_to(int64_t *most, int64_t value)
{
    if (value != S2_OPEN && value != -S2_OPEN && value > *most)
        *most = value;
}

static int64_t magnitude(int64_t value)
{
    return value < 0 && value != -S2_OPEN ? -value : value;
}

static bool is_open_or_multiple(int64_t value, int64_t of)
{
    return value == S2_OPEN || value == -S2_OPEN || value % of == 0;
}

static void shape_add_thresholds(s2_view_shape *shape, const s2_atom *atom, int64_t block)
{
    const s2_range ranges[2] = {atom->key_tok, atom->query_tok};
    for (int r = 0; r < 2; r++) {
        raise_to(&shape->threshold, ranges[r].begin);
        raise_to(&shape->threshold, ranges[r].end);
        shape->block_aligned &=
            is_open_or_multiple(ranges[r].begin, block) && is_open_or_multiple(ranges[r].end, block);
    }
    shape->query_thresholds |= atom->query_tok.begin > 0 || atom->query_tok.end != S2_OPEN;
}

static bool distance_is_whole(const s2_view *view, s2_range distance)
{
    return distance.end == S2_OPEN && distance.begin <= (view->pattern->causal ? 0 : -S2_OPEN);
}

static void shape_add_distances(s2_view_shape *shape, const s2_view *view, const s2_atom *atom, int64_t block)
{
    if (!distance_is_whole(view, atom->distance_blk)) {
        shape->key_period = s2_period_lcm(shape->key_period, block);
        raise_to(&shape->reach, scale(magnitude(atom->distance_blk.begin), block) + block);
        if (atom->distance_blk.end != S2_OPEN)
            raise_to(&shape->reach, (magnitude(atom->distance_blk.end) + 1) * block);
    }
    if (!distance_is_whole(view, atom->distance_tok)) {
        shape->block_aligned = false;
        raise_to(&shape->reach, magnitude(atom->distance_tok.begin) + 1);
        raise_to(&shape->reach, magnitude(atom->distance_tok.end));
    }
}

void s2_view_shape_add(s2_view_shape *shape, const s2_view *view)
{
    const int64_t block = view->pattern->block_tok;
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        const int64_t cycle = atom->gran * atom->period;
        shape_add_thresholds(shape, atom, block);
        shape_add_distances(shape, view, atom, block);
        if (atom->kind == S2_ATOM_KEY || atom->kind == S2_ATOM_DISTANCE || atom->kind == S2_ATOM_QUERY) {
            shape->key_period =
                s2_period_lcm(shape->key_period, atom->kind == S2_ATOM_DISTANCE ? atom->gran : cycle);
            if (atom->kind != S2_ATOM_KEY)
                shape->query_period = s2_period_lcm(shape->query_period, cycle);
            shape->block_aligned &= atom->gran % block == 0;
        }
        if (atom->kind == S2_ATOM_CHUNK) {
            shape->key_period = s2_period_lcm(shape->key_period, atom->gran);
            raise_to(&shape->reach, atom->gran);
            shape->block_aligned &= atom->gran % block == 0;
        }
    }
}

/*
 * A source of keys for one row: a comb, or the explicit blocks of a random list or a mask row. Both
 * answer "next key >= x", for x that only grow, and "end of the run at x".
 */
typedef struct s2_row_source {
    s2_comb comb;           /* the thresholds, for explicit sources */
    const uint8_t *allowed; /* mask row, n_blk bytes, or bits from bit 7 down where packed */
    bool packed;
    const int32_t *list; /* random row, n_blk entries */
    int64_t passed;      /* so many of the list are below all x that were asked for, which only grow */
    int64_t n_blk;
    int64_t block;
} s2_row_source;

/* First block >= blk, below n_blk, whose bit is set. */
static int64_t packed_next_blk(const s2_row_source *source, int64_t blk)
{
    for (; blk < source->n_blk; blk = (blk / 8 + 1) * 8) {
        const unsigned rest = source->allowed[blk / 8] & (0xffU >> blk % 8);
        if (rest != 0) {
            const int64_t found = blk / 8 * 8 + (__builtin_clz(rest) - 24);
            return found < source->n_blk ? found : S2_OPEN;
        }
    }
    return S2_OPEN;
}

static int64_t explicit_next_blk(s2_row_source *source, int64_t blk)
{
    if (source->allowed != NULL) {
        if (source->packed)
            return packed_next_blk(source, blk);
        if (blk >= source->n_blk)
            return S2_OPEN;
        const uint8_t *const found = memchr(source->allowed + blk, 1, (size_t)(source->n_blk - blk));
        return found != NULL ? found - source->allowed : S2_OPEN;
    }
    while (source->passed < source->n_blk && source->list[source->passed] < blk)
        source->passed++;
    return source->passed < source->n_blk ? source->list[source->passed] : S2_OPEN;
}

static int64_t source_next(s2_row_source *source, int64_t x)
{
    const int64_t next = s2_comb_next(&source->comb, x);
    if (next == S2_OPEN || (source->allowed == NULL && source->list == NULL))
        return next;
    const int64_t blk = explicit_next_blk(source, next / source->block);
    if (blk == S2_OPEN)
        return S2_OPEN;
    const int64_t key = s2_max_i64(blk * source->block, next);
    return s2_comb_next(&source->comb, key);
}

static int64_t source_end(const s2_row_source *source, int64_t x)
{
    if (source->allowed == NULL && source->list == NULL)
        return s2_comb_run_end(&source->comb, x);
    const int64_t end = (x / source->block + 1) * source->block;
    return s2_min_i64(end, source->comb.end);
}

static bool explicit_source(const s2_view *view, const s2_atom *atom, int64_t q_tok, int64_t n_tok,
                            int32_t *list, s2_row_source *out)
{
    const int64_t block = view->pattern->block_tok, q_blk = q_tok / block;
    const s2_range key = row_range(view, atom, q_tok, n_tok);
    if (key.begin >= key.end)
        return false;
    *out = (s2_row_source){.comb = interval(key), .block = block};
    const s2_term *const term = &view->body->terms[atom->term];
    if (atom->kind == S2_ATOM_RANDOM) {
        const int64_t n_choices = view->pattern->causal ? q_blk + 1 : s2_ceil_div(n_tok, block);
        out->n_blk = s2_random_row(term->seed, view->layer, view->head, q_blk, term->n, n_choices, list);
        out->list = list;
        return true;
    }
    const s2_mask *const mask = term->mask;
    if (q_blk >= mask->n_q_blk)
        return false;
    out->allowed = s2_mask_row(mask, view->head, q_blk);
    out->packed = mask->packed;
    out->n_blk = mask->n_k_blk;
    return true;
}

/* A source and where it continues, in a binary heap, since a list of columns is thousands of sources. */
typedef struct s2_next {
    int64_t key;
    s2_row_source *source;
} s2_next;

static void sift_down(s2_next *heap, int32_t n, int32_t hole)
{
    const s2_next own = heap[hole];
    for (int32_t child = 2 * hole + 1; child < n; child = 2 * hole + 1) {
        child += child + 1 < n && heap[child + 1].key < heap[child].key;
        if (own.key <= heap[child].key)
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = own;
}

/*
 * The maximal runs of the union of the sources, ascending: fills up to cap and returns how many there are, or
 * fewer where no work is left. A union of few runs may take many steps, as sources go on where others end.
 */
static int64_t emit_runs(s2_row_source *sources, int32_t n_sources, s2_next *heap, int64_t *work_left,
                         s2_run *runs, int64_t cap)
{
    enum { A_STRETCH = 3 }; /* divisions of a source's next stretch, and its place in the heap */
    int32_t n = 0;
    for (int32_t s = 0; s < n_sources; s++) {
        const int64_t first = source_next(&sources[s], 0);
        if (first != S2_OPEN)
            heap[n++] = (s2_next){first, &sources[s]};
    }
    for (int32_t at = n / 2; at-- > 0;)
        sift_down(heap, n, at);
    int64_t n_runs = 0;
    while (n > 0 && s2_work_goes_on(work_left)) {
        const int64_t begin = heap[0].key;
        int64_t end = begin;
        while (n > 0 && heap[0].key <= end && s2_work_spend(work_left, A_STRETCH)) {
            s2_row_source *const source = heap[0].source;
            int64_t next = heap[0].key < end ? source_next(source, end) : end;
            if (next == end) {
                end = source_end(source, end);
                next = source_next(source, end);
            }
            if (next == S2_OPEN)
                heap[0] = heap[--n];
            else
                heap[0].key = next;
            sift_down(heap, n, 0);
        }
        if (n_runs < cap)
            runs[n_runs] = (s2_run){begin, end};
        n_runs++;
    }
    return n_runs;
}

static int32_t fill_sources(const s2_view *view, int64_t q_tok, int64_t n_tok, int64_t *work_left,
                            s2_row_source *sources, int32_t *lists)
{
    enum {
        AN_ATOM = 2,
        A_DRAW = 4
    }; /* steps of work; a random list is drawn whole even if little of it is used */
    int32_t n_sources = 0;
    (void)s2_work_spend(work_left, AN_ATOM * view->n_atoms);
    for (int32_t a = 0; a < view->n_atoms; a++) {
        const s2_atom *const atom = &view->atoms[a];
        s2_row_source *const source = &sources[n_sources];
        if (atom->kind == S2_ATOM_RANDOM || atom->kind == S2_ATOM_MASK) {
            n_sources += explicit_source(view, atom, q_tok, n_tok, lists, source);
            if (atom->kind == S2_ATOM_RANDOM) {
                (void)s2_work_spend(work_left, A_DRAW * view->body->terms[atom->term].n);
                lists += S2_LIMIT_RANDOM;
            }
        } else {
            *source = (s2_row_source){0};
            n_sources += s2_atom_row(view, atom, q_tok, n_tok, &source->comb);
        }
    }
    return n_sources;
}

/*
 * Fills at most cap runs and returns how many there are; -1 when memory ran out, which can happen only to
 * views of many atoms.
 */
static int64_t fill_row(const s2_view *view, int64_t q_tok, int64_t n_tok, int64_t *work_left, s2_run *runs,
                        int64_t cap)
{
    enum { SOURCES = 32 };
    s2_row_source few_sources[SOURCES], *sources = few_sources;
    s2_next few_nexts[SOURCES], *heap = few_nexts;
    int32_t one_list[S2_LIMIT_RANDOM], *lists = one_list;
    size_t n_random = 0;
    for (int32_t a = 0; a < view->n_atoms; a++)
        n_random += view->atoms[a].kind == S2_ATOM_RANDOM;
    if (view->n_atoms > SOURCES || n_random > 1) {
        sources = s2_calloc((size_t)view->n_atoms, sizeof *sources);
        heap = s2_calloc((size_t)view->n_atoms, sizeof *heap);
        lists = s2_calloc(n_random + 1, S2_LIMIT_RANDOM * sizeof *lists);
    }
    int64_t n_runs = -1;
    if (sources != NULL && heap != NULL && lists != NULL)
        n_runs = emit_runs(sources, fill_sources(view, q_tok, n_tok, work_left, sources, lists), heap,
                           work_left, runs, cap);
    if (sources != few_sources) {
        s2_free(heap);
        s2_free(sources);
        s2_free(lists);
    }
    return n_runs;
}

s2_status s2_view_row_whole(const s2_view *view, int64_t q_tok, int64_t n_tok, int64_t *work_left,
                            s2_run **runs, int64_t *cap, int64_t *n)
{
    int64_t n_runs = fill_row(view, q_tok, n_tok, work_left, *runs, *cap);
    while (n_runs > *cap && s2_work_goes_on(work_left)) {
        S2_TRY(S2_RESERVE(*runs, *cap, n_runs));
        n_runs = fill_row(view, q_tok, n_tok, work_left, *runs, *cap);
    }
    if (!s2_work_goes_on(work_left))
        return S2_ELIMIT;
    if (n_runs < 0)
        return S2_ENOMEM;
    *n = n_runs;
    return S2_OK;
}

/*
 * Explicit heads have no columns, so their pairs are counted row by row; where everything is whole blocks,
 * only by the last query of each block: the others read the same, less their part of the diagonal.
 */
static s2_status count_by_rows(const s2_view *view, int64_t n_tok, bool block_aligned, int64_t *work_left,
                               int64_t *out)
{
    const int64_t step = block_aligned ? view->pattern->block_tok : 1;
    int64_t total = 0, cap = 0, n_runs = 0;
    s2_run *runs = NULL;
    s2_status status = S2_OK;
    for (int64_t begin = 0; begin < n_tok && status == S2_OK; begin += step) {
        const int64_t end = s2_min_i64(begin + step, n_tok), n_rows = end - begin;
        status = s2_view_row_whole(view, end - 1, n_tok, work_left, &runs, &cap, &n_runs);
        for (int64_t r = 0; status == S2_OK && r < n_runs; r++)
            total += (runs[r].end - runs[r].begin) * n_rows;
        if (status == S2_OK && n_runs > 0 && view->pattern->causal && runs[n_runs - 1].end == end)
            total -= n_rows * (n_rows - 1) / 2;
    }
    s2_free(runs);
    if (status == S2_OK)
        *out = total;
    return status;
}

/*
 * Count the queries in [begin, end) that the union of the combs holds. Each run asks every comb once where
 * the next run begins, and at least twice where this one ends; a step is a division or two.
 */
static int64_t count_union(const s2_comb *combs, int32_t n_combs, int64_t begin, int64_t end,
                           int64_t *work_left)
{
    enum { ASKED = 4 };
    const int64_t n_steps = (int64_t)ASKED * n_combs;
    int64_t total = 0;
    for (int64_t x = s2_combs_next(combs, n_combs, begin); x < end && s2_work_spend(work_left, n_steps);
         x = s2_combs_next(combs, n_combs, x)) {
        const int64_t run_end = s2_combs_end(combs, n_combs, x, end);
        total += s2_min_i64(run_end, end) - x;
        x = run_end;
    }
    return total;
}

/*
 * The same where the union repeats with `period` in [begin, end): one period stands for all whole ones.
 */
static int64_t count_periodic(const s2_comb *combs, int32_t n_combs, int64_t begin, int64_t end,
                              int64_t period, int64_t *work_left)
{
    if (begin >= end || period >= (end - begin) / 2)
        return count_union(combs, n_combs, begin, end, work_left);
    const int64_t n_periods = (end - begin) / period;
    return n_periods * count_union(combs, n_combs, begin, begin + period, work_left) +
           count_union(combs, n_combs, begin + n_periods * period, end, work_left);
}

/* One column: the part near its key or below a threshold is walked, the rest repeats (docs/proof.md). */
static int64_t count_column(const s2_comb *combs, int32_t n_combs, const s2_view_shape *shape, int64_t k_tok,
                            int64_t n_tok, int64_t *work_left)
{
    const int64_t low = s2_min_i64(shape->threshold, n_tok);
    const int64_t before = s2_max_i64(k_tok - shape->reach, low);
    const int64_t behind = s2_max_i64(k_tok + shape->reach, low);
    const int64_t near_end = s2_min_i64(behind, n_tok);
    return count_union(combs, n_combs, 0, low, work_left) +
           count_periodic(combs, n_combs, low, before, shape->query_period, work_left) +
           count_union(combs, n_combs, before, near_end, work_left) +
           count_periodic(combs, n_combs, near_end, n_tok, shape->query_period, work_left);
}

s2_status s2_view_count_pairs(const s2_view *view, int64_t n_tok, int64_t *work_left, int64_t *out)
{
    s2_view_shape shape;
    s2_view_shape_init(&shape);
    s2_view_shape_add(&shape, view);
    if (view->has_explicit)
        return count_by_rows(view, n_tok, shape.block_aligned, work_left, out);
    enum { A_COLUMN = 6 }; /* divisions of an atom's column, and of each part of it that holds nothing */
    const int64_t step = shape.block_aligned ? view->pattern->block_tok : 1;
    s2_comb *const combs = s2_calloc((size_t)view->n_atoms, sizeof *combs);
    if (combs == NULL)
        return S2_ENOMEM;
    int64_t total = 0;
    for (int64_t k_tok = 0; k_tok < n_tok && s2_work_spend(work_left, A_COLUMN * view->n_atoms);
         k_tok += step) {
        const int64_t n_keys = k_tok + step < n_tok ? step : n_tok - k_tok;
        int32_t n_combs = 0;
        for (int32_t a = 0; a < view->n_atoms; a++)
            n_combs += s2_atom_column(view, &view->atoms[a], k_tok, &combs[n_combs]);
        int64_t column = count_column(combs, n_combs, &shape, k_tok, n_tok, work_left) * n_keys;
        /* the diagonal block is a triangle: key k_tok + d is not read by the d queries before it */
        if (view->pattern->causal && s2_combs_next(combs, n_combs, k_tok) == k_tok)
            column -= n_keys * (n_keys - 1) / 2;
        total += column;
    }
    s2_free(combs);
    if (!s2_work_goes_on(work_left))
        return S2_ELIMIT;
    *out = total;
    return S2_OK;
}
