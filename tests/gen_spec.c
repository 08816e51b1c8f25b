#include "tests/gen_spec.h"

#include "pattern/mask.h"

static int64_t below(s2_rng *rng, int64_t n)
{
    return (int64_t)s2_rng_below(rng, (uint64_t)n);
}

static bool one_in(s2_rng *rng, int64_t n)
{
    return below(rng, n) == 0;
}

static s2_span_list gen_list(s2_rng *rng, s2_arena *arena)
{
    const int32_t n = 1 + (int32_t)below(rng, 2);
    s2_span *const spans = S2_NEW(arena, s2_span, n);
    int64_t at = 0;
    for (int32_t s = 0; s < n; s++) {
        at += below(rng, 6);
        spans[s] = (s2_span){at, at + 1 + below(rng, 3), 1};
        if (s + 1 == n && one_in(rng, 3))
            spans[s] = (s2_span){at, one_in(rng, 2) ? S2_OPEN : at + 9, 1 + below(rng, 4)};
        at = spans[s].end == S2_OPEN ? at + 20 : spans[s].end + 1;
    }
    return (s2_span_list){n, spans};
}

static const s2_mask *gen_mask(s2_rng *rng, const s2_pattern *pattern, s2_arena *arena)
{
    s2_mask *const mask = S2_NEW(arena, s2_mask, 1);
    const int32_t n = 4 + (int32_t)below(rng, 9);
    *mask = (s2_mask){
        .path = "mask.npy", .n_heads = one_in(rng, 2) ? 1 : pattern->n_heads, .n_q_blk = n, .n_k_blk = n};
    const int64_t n_bytes = (int64_t)mask->n_heads * n * n;
    uint8_t *const allowed = S2_NEW(arena, uint8_t, n_bytes);
    const int64_t rarity = 2 + below(rng, 8);
    for (int64_t at = 0; at < n_bytes; at++)
        allowed[at] = !one_in(rng, rarity);
    mask->allowed = allowed;
    if (one_in(rng, 3)) {
        mask->packed = true;
        uint8_t *const bits = S2_NEW(arena, uint8_t, (int64_t)mask->n_heads * n * s2_mask_row_bytes(mask));
        for (int64_t at = 0; at < n_bytes; at++)
            bits[at / n * s2_mask_row_bytes(mask) + at % n / 8] |= (uint8_t)(allowed[at] << (7 - at % n % 8));
        mask->allowed = bits;
    }
    s2_mask_seal(mask);
    return mask;
}

static void gen_when(s2_rng *rng, s2_term *term)
{
    s2_range *const range = &term->when[below(rng, S2_N_WHEN)][below(rng, S2_N_UNITS)];
    range->begin = one_in(rng, 3) ? 0 : below(rng, 9);
    range->end = one_in(rng, 2) ? S2_OPEN : range->begin + 1 + below(rng, 9);
}

static bool is_allowed(const s2_gen_spec *options, s2_term_kind kind)
{
    if (options->certified && !s2_term_row_of(kind)->in_certificate)
        return false;
    switch (s2_term_row_of(kind)->nature) {
    case S2_NATURE_STATIC: return true;
    case S2_NATURE_EXPLICIT: return options->explicit_terms;
    case S2_NATURE_DYNAMIC: return options->dynamic_terms;
    }
    return false;
}

/* Every row of the table occurs; windows and strides, which most patterns are made of, more often. */
static s2_term_kind gen_kind(s2_rng *rng, const s2_gen_spec *options)
{
    static const s2_term_kind common[] = {S2_TERM_LOCAL, S2_TERM_LOCAL, S2_TERM_STRIDE, S2_TERM_STRIDE,
                                          S2_TERM_SINK};
    if (one_in(rng, 3))
        return common[below(rng, (int64_t)(sizeof common / sizeof *common))];
    s2_term_kind kind;
    do
        kind = (s2_term_kind)below(rng, S2_N_TERM_KINDS);
    while (!is_allowed(options, kind));
    return kind;
}

static void gen_arguments(s2_rng *rng, const s2_pattern *pattern, s2_arena *arena, s2_term *term)
{
    const s2_term_row *const row = s2_term_row_of(term->kind);
    term->tok = row->scale != S2_SCALE_ABSENT && one_in(rng, 3);
    switch (row->args) {
    case S2_ARGS_NONE: break;
    case S2_ARGS_EXTENT: term->n = 1 + below(rng, term->tok && one_in(rng, 2) ? 16 : 5); break;
    case S2_ARGS_COUNT: term->n = 1 + below(rng, 5); break;
    case S2_ARGS_STRIDE:
        term->n = 1 + below(rng, 5);
        term->width = one_in(rng, 3) ? 1 + below(rng, term->n) : 1;
        term->offset = (s2_offset_expr){below(rng, 4), below(rng, 3), below(rng, 2), one_in(rng, 4)};
        break;
    case S2_ARGS_LIST: term->list = gen_list(rng, arena); break;
    case S2_ARGS_DRAW:
        term->n = 1 + below(rng, 5);
        term->seed = s2_rng_next(rng) % 1000;
        break;
    case S2_ARGS_FILE: term->mask = gen_mask(rng, pattern, arena); break;
    case S2_ARGS_PAGES:
        term->n = 1 + below(rng, 5);
        term->page_tok = 1 + below(rng, 4);
        break;
    }
}

s2_term s2_gen_spec_term(s2_rng *rng, s2_term_kind kind, const s2_pattern *pattern, s2_arena *arena)
{
    s2_term term = s2_term_init(kind, 0);
    gen_arguments(rng, pattern, arena, &term);
    const s2_term plain = term;
    do {
        term = plain;
        if (kind != S2_TERM_NONE && one_in(rng, 4))
            gen_when(rng, &term);
        if (kind != S2_TERM_NONE && one_in(rng, 12))
            gen_when(rng, &term);
    } while (s2_conditions_exclude(&term, pattern->block_tok));
    return term;
}

static s2_body gen_body(s2_rng *rng, const s2_gen_spec *options, const s2_pattern *pattern, s2_arena *arena)
{
    const int32_t n = 1 + (int32_t)below(rng, 3);
    s2_term *const terms = S2_NEW(arena, s2_term, n);
    for (int32_t t = 0; t < n; t++)
        terms[t] = s2_gen_spec_term(rng, gen_kind(rng, options), pattern, arena);
    if (options->kind != NULL)
        terms[below(rng, n)] = s2_gen_spec_term(rng, *options->kind, pattern, arena);
    return (s2_body){n, terms};
}

static int32_t gen_divisor(s2_rng *rng, int32_t n)
{
    int32_t divisor;
    do
        divisor = 1 + (int32_t)below(rng, n);
    while (n % divisor != 0);
    return divisor;
}

static const s2_layer_shape *gen_layer_shapes(s2_rng *rng, const s2_pattern *pattern, s2_arena *arena)
{
    s2_layer_shape *const shapes = S2_NEW(arena, s2_layer_shape, pattern->n_layers);
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int32_t source = (int32_t)below(rng, layer + 1);
        shapes[layer] = (s2_layer_shape){pattern->n_kv_heads, pattern->head_dim, layer, 0};
        if (one_in(rng, 2))
            shapes[layer].n_kv_heads = gen_divisor(rng, pattern->n_heads);
        if (one_in(rng, 2))
            shapes[layer].head_dim = 32 * (1 + (int32_t)below(rng, 4));
        if (one_in(rng, 4) && shapes[source].kv_layer == source)
            shapes[layer] = shapes[source];
        shapes[layer].state_bytes = one_in(rng, 2) ? 1 + below(rng, 5000) : 0;
    }
    return shapes;
}

s2_pattern *s2_gen_spec_pattern(s2_rng *rng, const s2_gen_spec *options, s2_arena *arena)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    if (pattern == NULL)
        return NULL;
    const int32_t group = 1 + (int32_t)below(rng, 2);
    *pattern = (s2_pattern){
        .name = "", .model = "", .head_dim = 64, .causal = !(options->not_causal && one_in(rng, 5))};
    pattern->n_layers = 1 + (int32_t)below(rng, options->most_layers);
    pattern->n_kv_heads =
        1 + (int32_t)below(rng, options->most_heads / group > 0 ? options->most_heads / group : 1);
    pattern->n_heads = pattern->n_kv_heads * group;
    pattern->block_tok = 1 << below(rng, 3);
    pattern->n_bodies = 1 + (int32_t)below(rng, 3);
    s2_body *const bodies = S2_NEW(arena, s2_body, pattern->n_bodies);
    for (int32_t body = 0; body < pattern->n_bodies; body++)
        bodies[body] = gen_body(rng, options, pattern, arena);
    if (options->layers_differ && options->kind == NULL && one_in(rng, 2))
        bodies[0] = (s2_body){0, NULL}; /* heads of state layers */
    pattern->bodies = bodies;
    const int64_t n = (int64_t)pattern->n_layers * pattern->n_heads;
    uint16_t *const body_of = S2_NEW(arena, uint16_t, 2 * n);
    const bool phases = one_in(rng, 5), even = options->layers_differ && one_in(rng, 2);
    for (int64_t at = 0; at < n; at++) {
        body_of[at] =
            even && at % pattern->n_heads > 0 ? body_of[at - 1] : (uint16_t)below(rng, pattern->n_bodies);
        body_of[n + at] = phases ? (uint16_t)below(rng, pattern->n_bodies) : body_of[at];
    }
    pattern->body_of = body_of;
    if (options->layers_differ && one_in(rng, 2))
        pattern->layer_shapes = gen_layer_shapes(rng, pattern, arena);
    return pattern;
}
