/*
 * tests/s2gen.h - small patterns drawn at random, as data, for property tests.
 *
 * Heads draw from a few bodies, so that classes are shared. Every static term occurs, in blocks and in
 * tokens, with restrictions. Results live in the arena given.
 */
#ifndef S2_TESTS_S2GEN_H
#define S2_TESTS_S2GEN_H

#include "base/rng.h"
#include "pattern/spec.h"

typedef struct s2_gen {
    s2_rng rng;
    bool arithmetic; /* only the families a kernel knows without lists */
    bool causal;
} s2_gen;

static inline int64_t s2_gen_in(s2_gen *gen, int64_t low, int64_t high)
{
    return low + (int64_t)s2_rng_below(&gen->rng, (uint64_t)(high - low + 1));
}

static inline s2_term s2_gen_plain(s2_term_kind kind, int64_t n)
{
    s2_term term = {.kind = kind, .n = n, .width = 1};
    for (int quantity = 0; quantity < S2_N_WHEN; quantity++)
        for (int unit = 0; unit < S2_N_UNITS; unit++)
            term.when[quantity][unit] = (s2_range){0, S2_OPEN};
    return term;
}

static inline void s2_gen_list(s2_gen *gen, s2_arena *arena, s2_term *term)
{
    s2_span *const span = S2_NEW(arena, s2_span, 1);
    span->begin = s2_gen_in(gen, 0, 5);
    span->end = span->begin + s2_gen_in(gen, 1, 6);
    span->step = s2_gen_in(gen, 1, 3);
    term->list = (s2_span_list){1, span};
}

static inline s2_term s2_gen_term(s2_gen *gen, s2_arena *arena)
{
    static const s2_term_kind kinds[] = {S2_TERM_LOCAL,   S2_TERM_STRIDE,  S2_TERM_SINK,  S2_TERM_LOCAL,
                                         S2_TERM_DENSE,   S2_TERM_DILATED, S2_TERM_CHUNK, S2_TERM_RANDOM,
                                         S2_TERM_COLUMNS, S2_TERM_ROWS};
    s2_term term = s2_gen_plain(kinds[s2_gen_in(gen, 0, gen->arithmetic ? 4 : 9)], s2_gen_in(gen, 1, 5));
    const bool strided = term.kind == S2_TERM_STRIDE || term.kind == S2_TERM_DILATED;
    term.tok = !strided && term.kind != S2_TERM_RANDOM && s2_gen_in(gen, 0, 2) == 0;
    if (term.tok)
        term.n = s2_gen_in(gen, 1, 150);
    if (strided) {
        term.width = s2_gen_in(gen, 1, term.n);
        term.phase = (s2_phase_expr){s2_gen_in(gen, 0, 3), s2_gen_in(gen, 0, 1), s2_gen_in(gen, 0, 1), 0};
    }
    if (term.kind == S2_TERM_COLUMNS || term.kind == S2_TERM_ROWS)
        s2_gen_list(gen, arena, &term);
    term.seed = (uint64_t)s2_gen_in(gen, 0, 9);
    if (!gen->arithmetic && s2_gen_in(gen, 0, 3) == 0) {
        const int64_t from = s2_gen_in(gen, 0, 3);
        term.when[s2_gen_in(gen, 0, 2)][S2_UNIT_BLK] = (s2_range){from, from + s2_gen_in(gen, 1, 9)};
    }
    return term;
}

static inline s2_pattern *s2_gen_pattern(s2_gen *gen, s2_arena *arena, int32_t n_heads, int32_t n_kv_heads,
                                         int32_t head_dim, int32_t block_tok)
{
    s2_pattern *const pattern = S2_NEW(arena, s2_pattern, 1);
    const int32_t n_bodies = (int32_t)s2_gen_in(gen, 1, n_heads < 3 ? n_heads : 3);
    s2_body *const bodies = S2_NEW(arena, s2_body, n_bodies);
    for (int32_t b = 0; b < n_bodies; b++) {
        const int32_t n_terms = (int32_t)s2_gen_in(gen, 0, 3);
        s2_term *const terms = S2_NEW(arena, s2_term, n_terms + 1);
        for (int32_t t = 0; t < n_terms; t++)
            terms[t] = s2_gen_term(gen, arena);
        if (n_terms == 0)
            terms[0] = s2_gen_plain(S2_TERM_NONE, 1);
        bodies[b] = (s2_body){n_terms > 0 ? n_terms : 1, terms};
    }
    uint16_t *const body_of = S2_NEW(arena, uint16_t, n_heads * 2);
    for (int32_t at = 0; at < 2 * n_heads; at++)
        body_of[at] = (uint16_t)(at % n_heads < n_bodies ? at % n_heads : s2_gen_in(gen, 0, n_bodies - 1));
    *pattern = (s2_pattern){"drawn",   "",          1,        n_heads, n_kv_heads, head_dim,
                            block_tok, gen->causal, n_bodies, bodies,  body_of};
    return pattern;
}

#endif /* S2_TESTS_S2GEN_H */
