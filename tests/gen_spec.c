#include "tests/gen_spec.h"

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
    return mask;
}

static void gen_when(s2_rng *rng, s2_term *term)
{
    s2_range *const range = &term->when[below(rng, S2_N_WHEN)][below(rng, S2_N_UNITS)];
    range->begin = one_in(rng, 3) ? 0 : below(rng, 9);
    range->end = one_in(rng, 2) ? S2_OPEN : range->begin + 1 + below(rng, 9);
}

static s2_term_kind gen_kind(s2_rng *rng, const s2_gen_spec *options)
{
    static const s2_term_kind common[] = {S2_TERM_LOCAL,  S2_TERM_LOCAL,  S2_TERM_SINK,    S2_TERM_STRIDE,
                                          S2_TERM_STRIDE, S2_TERM_STRIDE, S2_TERM_DILATED, S2_TERM_COLUMNS,
                                          S2_TERM_ROWS,   S2_TERM_CHUNK,  S2_TERM_DENSE,   S2_TERM_NONE};
    if (options->explicit_terms && one_in(rng, 6))
        return one_in(rng, 2) ? S2_TERM_RANDOM : S2_TERM_MASK;
    if (options->dynamic_terms && one_in(rng, 6))
        return (s2_term_kind)(S2_TERM_PAGES + below(rng, 3));
    return common[below(rng, (int64_t)(sizeof common / sizeof *common))];
}

static s2_term gen_term(s2_rng *rng, const s2_gen_spec *options, const s2_pattern *pattern, s2_arena *arena)
{
    s2_term term = s2_term_init(gen_kind(rng, options), 1 + below(rng, 5));
    const bool in_blocks_only =
        term.kind == S2_TERM_RANDOM || term.kind == S2_TERM_MASK || term.kind >= S2_TERM_PAGES;
    term.tok = !in_blocks_only && one_in(rng, 3);
    if (term.kind == S2_TERM_STRIDE || term.kind == S2_TERM_DILATED) {
        term.width = one_in(rng, 3) ? 1 + below(rng, term.n) : 1;
        term.phase = (s2_phase_expr){below(rng, 4), below(rng, 3), below(rng, 2), one_in(rng, 4)};
    }
    if (term.kind == S2_TERM_COLUMNS || term.kind == S2_TERM_ROWS) {
        term.n = 0;
        term.list = gen_list(rng, arena);
    }
    if (term.kind == S2_TERM_DENSE || term.kind == S2_TERM_NONE || term.kind == S2_TERM_MASK)
        term.n = 0;
    if (term.kind == S2_TERM_DENSE || term.kind == S2_TERM_NONE)
        term.tok = false;
    if (term.kind == S2_TERM_MASK)
        term.mask = gen_mask(rng, pattern, arena);
    if (term.kind == S2_TERM_RANDOM)
        term.seed = s2_rng_next(rng) % 1000;
    if (term.kind == S2_TERM_PAGES)
        term.page_tok = 1 + below(rng, 4);
    if (term.kind != S2_TERM_NONE && one_in(rng, 4))
        gen_when(rng, &term);
    if (term.kind != S2_TERM_NONE && one_in(rng, 12))
        gen_when(rng, &term);
    for (int quantity = 0; quantity < S2_N_WHEN; quantity++)
        for (int unit = 0; unit < S2_N_UNITS; unit++)
            if (term.when[quantity][unit].begin >= term.when[quantity][unit].end)
                term.when[quantity][unit] = (s2_range){0, S2_OPEN};
    return term;
}

static s2_body gen_body(s2_rng *rng, const s2_gen_spec *options, const s2_pattern *pattern, s2_arena *arena)
{
    const int32_t n = 1 + (int32_t)below(rng, 3);
    s2_term *const terms = S2_NEW(arena, s2_term, n);
    for (int32_t t = 0; t < n; t++)
        terms[t] = gen_term(rng, options, pattern, arena);
    return (s2_body){n, terms};
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
    pattern->bodies = bodies;
    const int64_t n = (int64_t)pattern->n_layers * pattern->n_heads;
    uint16_t *const body_of = S2_NEW(arena, uint16_t, 2 * n);
    const bool phases = one_in(rng, 5);
    for (int64_t at = 0; at < n; at++) {
        body_of[at] = (uint16_t)below(rng, pattern->n_bodies);
        body_of[n + at] = phases ? (uint16_t)below(rng, pattern->n_bodies) : body_of[at];
    }
    pattern->body_of = body_of;
    return pattern;
}
