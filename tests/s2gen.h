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
    bool arithmetic; /* only families that kernels handle without lists */
    bool causal;
} s2_gen;

static inline int64_t s2_gen_in(s2_gen *gen, int64_t low, int64_t high)
{
    return low + (int64_t)s2_rng_below(&gen->rng, (uint64_t)(high - low + 1));
}

static inline void s2_gen_list(s2_gen *gen, s2_arena *arena, s2_term *term)
{
    s2_span *const span = S2_NEW(arena, s2_span, 1);
    span->begin = s2_gen_in(gen, 0, 5);
    span->end = span->begin + s2_gen_in(gen, 1, 6);
    span->step = s2_gen_in(gen, 1, 3);
    term->list = (s2_span_list){1, span};
}

/* Any row of the table except those decided by a file or at run time; windows and strides more often. */
static inline s2_term_kind s2_gen_kind(s2_gen *gen)
{
    static const s2_term_kind common[] = {S2_TERM_LOCAL, S2_TERM_STRIDE, S2_TERM_SINK, S2_TERM_LOCAL,
                                          S2_TERM_DENSE};
    if (gen->arithmetic || s2_gen_in(gen, 0, 1) == 0)
        return common[s2_gen_in(gen, 0, 4)];
    s2_term_kind kind;
    do
        kind = (s2_term_kind)s2_gen_in(gen, 0, S2_N_TERM_KINDS - 1);
    while (s2_term_row_of(kind)->nature == S2_NATURE_DYNAMIC || s2_term_row_of(kind)->args == S2_ARGS_FILE ||
           kind == S2_TERM_NONE);
    return kind;
}

static inline s2_term s2_gen_term(s2_gen *gen, s2_arena *arena)
{
    s2_term term = s2_term_init(s2_gen_kind(gen), s2_gen_in(gen, 1, 5));
    const s2_term_row *const row = s2_term_row_of(term.kind);
    const bool strided = row->args == S2_ARGS_STRIDE;
    term.tok = !strided && row->scale != S2_SCALE_ABSENT && s2_gen_in(gen, 0, 2) == 0;
    if (term.tok)
        term.n = s2_gen_in(gen, 1, 150);
    if (strided) {
        term.width = s2_gen_in(gen, 1, term.n);
        term.offset = (s2_offset_expr){s2_gen_in(gen, 0, 3), s2_gen_in(gen, 0, 1), s2_gen_in(gen, 0, 1), 0};
    }
    if (row->args == S2_ARGS_LIST)
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
            terms[0] = s2_term_init(S2_TERM_NONE, 1);
        bodies[b] = (s2_body){n_terms > 0 ? n_terms : 1, terms};
    }
    uint16_t *const body_of = S2_NEW(arena, uint16_t, n_heads * 2);
    for (int32_t at = 0; at < 2 * n_heads; at++)
        body_of[at] = (uint16_t)(at % n_heads < n_bodies ? at % n_heads : s2_gen_in(gen, 0, n_bodies - 1));
    *pattern = (s2_pattern){.name = "drawn",
                            .model = "",
                            .n_layers = 1,
                            .n_heads = n_heads,
                            .n_kv_heads = n_kv_heads,
                            .head_dim = head_dim,
                            .block_tok = block_tok,
                            .causal = gen->causal,
                            .n_bodies = n_bodies,
                            .bodies = bodies,
                            .body_of = body_of};
    return pattern;
}

#endif /* S2_TESTS_S2GEN_H */
