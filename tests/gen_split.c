#include "tests/gen_split.h"

enum { MOST_PIECES = 24, MOST_HEADS = 6, MOST_LAYERS = 2 };

typedef struct pieces {
    int32_t n;
    s2_term term[MOST_PIECES];
} pieces;

static int64_t below(s2_rng *rng, int64_t n)
{
    return (int64_t)s2_rng_below(rng, (uint64_t)n);
}

/* Small mostly; else near a multiple of the block, where tokens and blocks are mistaken for each other. */
static int64_t gen_cut(s2_rng *rng, int32_t block_tok, bool tok)
{
    if (!tok || below(rng, 2) == 0)
        return 1 + below(rng, below(rng, 8) == 0 ? 40 : 8);
    return 1 + (1 + below(rng, 8)) * block_tok + below(rng, 3) - 1;
}

/* Into the part before a bound and the part from it on; false where one of them would be empty. */
static bool split_range(s2_rng *rng, int32_t block_tok, s2_term *first, s2_term *second)
{
    const int quantity = (int)below(rng, S2_N_WHEN), unit = (int)below(rng, S2_N_UNITS);
    const int64_t cut = gen_cut(rng, block_tok, unit == S2_UNIT_TOK);
    s2_range *const before = &first->when[quantity][unit], *const after = &second->when[quantity][unit];
    if (cut <= before->begin || cut >= before->end)
        return false;
    before->end = after->begin = cut;
    return true;
}

/* A residue class and its complement; phases are written large at times, for they count modulo the stride. */
static void split_residues(s2_rng *rng, s2_term *first, s2_term *second)
{
    const int64_t n = 2 + below(rng, 6), width = 1 + below(rng, n - 1), shift = below(rng, n);
    const int64_t far = below(rng, 4) == 0 ? n * below(rng, 1 << 18) : 0;
    first->kind = second->kind = below(rng, 2) == 0 ? S2_TERM_STRIDE : S2_TERM_DILATED;
    first->tok = second->tok = below(rng, 2) == 0;
    first->n = second->n = n;
    first->width = width;
    first->offset.constant = shift + far;
    second->width = n - width;
    second->offset.constant = shift + n - width;
    if (below(rng, 3) == 0)
        second->offset.head_coef = second->offset.layer_coef = n;
}

static s2_span_list one_span(s2_arena *arena, int64_t begin, int64_t end, int64_t step)
{
    s2_span *const span = S2_NEW(arena, s2_span, 1);
    *span = (s2_span){begin, end, step};
    return (s2_span_list){1, span};
}

static void split_list(s2_rng *rng, s2_arena *arena, s2_term *first, s2_term *second)
{
    first->kind = second->kind = below(rng, 2) == 0 ? S2_TERM_COLUMNS : S2_TERM_ROWS;
    first->tok = second->tok = below(rng, 2) == 0;
    first->list = one_span(arena, 0, S2_OPEN, 2);
    second->list = one_span(arena, 1, S2_OPEN, 2);
}

/* A window or a sink, and everything else as a condition in the same unit. */
static bool split_window(s2_rng *rng, int32_t block_tok, s2_term *first, s2_term *second)
{
    const bool sink = below(rng, 2) == 0;
    const int quantity = sink ? S2_WHEN_KEY : S2_WHEN_DISTANCE;
    first->tok = below(rng, 2) == 0;
    const int unit = first->tok ? S2_UNIT_TOK : S2_UNIT_BLK;
    const int64_t cut = gen_cut(rng, block_tok, first->tok);
    if (cut <= second->when[quantity][unit].begin || cut >= second->when[quantity][unit].end)
        return false;
    first->kind = sink ? S2_TERM_SINK : S2_TERM_LOCAL;
    first->n = cut;
    second->when[quantity][unit].begin = cut;
    return true;
}

static void split_some(s2_rng *rng, int32_t block_tok, s2_arena *arena, pieces *all, int32_t times)
{
    for (int32_t at = 0; at < times && all->n < MOST_PIECES; at++) {
        s2_term *const piece = &all->term[below(rng, all->n)];
        s2_term first = *piece, second = *piece;
        bool done = false;
        if (piece->kind != S2_TERM_DENSE || below(rng, 2) == 0)
            done = split_range(rng, block_tok, &first, &second);
        else if (below(rng, 3) == 0)
            done = split_window(rng, block_tok, &first, &second);
        else if (below(rng, 4) == 0)
            split_list(rng, arena, &first, &second), done = true;
        else
            split_residues(rng, &first, &second), done = true;
        if (!done)
            continue;
        *piece = first;
        all->term[all->n++] = second;
    }
}

static void spoil_range(s2_rng *rng, s2_term *term)
{
    s2_range *const range = &term->when[below(rng, S2_N_WHEN)][below(rng, S2_N_UNITS)];
    int64_t *const edge = below(rng, 2) == 0 ? &range->begin : &range->end;
    const int64_t old = *edge;
    *edge = old == S2_OPEN ? 60 + below(rng, 40) : old + (below(rng, 2) == 0 || old == 0 ? 1 : -1);
    if (range->begin >= range->end)
        *edge = old;
}

/* Reads a little less, a little more, or elsewhere. */
static void spoil(s2_rng *rng, pieces *all)
{
    s2_term *const term = &all->term[below(rng, all->n)];
    const bool residue = term->kind == S2_TERM_STRIDE || term->kind == S2_TERM_DILATED;
    if (all->n > 1 && below(rng, 6) == 0)
        *term = all->term[--all->n];
    else if (residue && below(rng, 2) == 0)
        term->offset.constant++;
    else if (residue && term->width > 1 && below(rng, 2) == 0)
        term->width--;
    else
        spoil_range(rng, term);
}

/* With `step` 2 both heads of a group get the same pieces. A head without a piece reads nothing. */
static s2_body *deal(s2_rng *rng, const s2_pattern *pattern, int32_t step, pieces *all, s2_arena *arena)
{
    s2_body *const bodies = S2_NEW(arena, s2_body, pattern->n_heads);
    int32_t owner[MOST_PIECES];
    for (int32_t piece = 0; piece < all->n; piece++)
        owner[piece] = step * (int32_t)below(rng, pattern->n_heads / step);
    for (int32_t head = 0; head < pattern->n_heads; head++) {
        s2_term *const terms = S2_NEW(arena, s2_term, MOST_PIECES);
        int32_t n = 0;
        for (int32_t piece = 0; piece < all->n; piece++)
            if (owner[piece] == head / step * step)
                terms[n++] = all->term[piece];
        if (n == 0)
            terms[n++] = s2_term_init(S2_TERM_NONE, 0);
        bodies[head] = (s2_body){n, terms};
    }
    return bodies;
}

/* The same pairs by other terms: each head of a KV head splits its pieces further, on its own. */
static void vary(s2_rng *rng, const s2_pattern *pattern, s2_body *body, s2_arena *arena)
{
    pieces own = {0};
    for (; own.n < body->n_terms; own.n++)
        own.term[own.n] = body->terms[own.n];
    if (own.term[0].kind == S2_TERM_NONE)
        return;
    split_some(rng, pattern->block_tok, arena, &own, 1 + (int32_t)below(rng, 3));
    s2_term *const terms = S2_NEW(arena, s2_term, own.n);
    for (int32_t t = 0; t < own.n; t++)
        terms[t] = own.term[t];
    *body = (s2_body){own.n, terms};
}

/* A piece whose conditions exclude each other reads nothing, and the language refuses it. */
static s2_body without_empty(const s2_body *body, int32_t block_tok, s2_arena *arena)
{
    s2_term *const terms = S2_NEW(arena, s2_term, body->n_terms);
    int32_t n = 0;
    for (int32_t t = 0; t < body->n_terms; t++)
        if (!s2_conditions_exclude(&body->terms[t], block_tok))
            terms[n++] = body->terms[t];
    if (n == 0)
        terms[n++] = s2_term_init(S2_TERM_NONE, 0);
    return (s2_body){n, terms};
}

s2_pattern *s2_gen_split_pattern(s2_rng *rng, const s2_gen_split *options, s2_arena *arena)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    const int32_t group = options->twins ? 2 : 1 + (int32_t)below(rng, 2);
    *pattern = (s2_pattern){.name = "", .model = "", .head_dim = 64, .causal = !options->not_causal};
    pattern->n_layers = 1 + (int32_t)below(rng, MOST_LAYERS);
    pattern->n_kv_heads = 1 + (int32_t)below(rng, MOST_HEADS / group);
    pattern->n_heads = pattern->n_kv_heads * group;
    pattern->block_tok = 1 << below(rng, 4);
    const bool phases = below(rng, 4) == 0;
    const int32_t n_places = pattern->n_layers * (phases ? 2 : 1), n = pattern->n_heads;
    s2_body *const bodies = S2_NEW(arena, s2_body, n_places * n);
    uint16_t *const body_of = S2_NEW(arena, uint16_t, 2 * pattern->n_layers * n);
    const int32_t spoiled = options->spoiled ? (int32_t)below(rng, n_places) : -1;
    for (int32_t place = 0; place < n_places; place++) {
        pieces all = {.n = 1, .term = {s2_term_init(S2_TERM_DENSE, 0)}};
        split_some(rng, pattern->block_tok, arena, &all, (int32_t)below(rng, 7));
        if (place == spoiled)
            spoil(rng, &all);
        s2_body *const dealt = deal(rng, pattern, options->twins ? group : 1, &all, arena);
        for (int32_t head = 0; head < n; head++) {
            if (options->twins)
                vary(rng, pattern, &dealt[head], arena);
            bodies[place * n + head] = without_empty(&dealt[head], pattern->block_tok, arena);
            body_of[place * n + head] = (uint16_t)(place * n + head);
        }
    }
    for (int32_t at = 0; at < pattern->n_layers * n && !phases; at++)
        body_of[pattern->n_layers * n + at] = body_of[at];
    pattern->n_bodies = n_places * n;
    pattern->bodies = bodies;
    pattern->body_of = body_of;
    return pattern;
}
