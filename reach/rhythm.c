#include "reach/rhythm.h"

#include "base/arith.h"
#include "pattern/view.h"

static s2_status find_shape(s2_arena *arena, const s2_stack *stack, s2_phase phase, s2_view_shape *shape,
                            bool *listed)
{
    const s2_pattern *const p = stack->pattern;
    int32_t n_seen = 0; /* classes are numbered in the order of their first heads */
    s2_view_shape_init(shape);
    for (int32_t layer = 0; layer < p->n_layers; layer++)
        for (int32_t head = 0; head < p->n_heads; head++) {
            if (s2_stack_heads(stack, layer)[head] < n_seen)
                continue;
            const s2_arena_mark_t mark = s2_arena_mark(arena);
            s2_view view;
            S2_TRY(s2_view_build(arena, p, phase, layer, head, S2_AT_LEAST, &view));
            s2_view_shape_add(shape, &view);
            *listed = *listed || view.has_explicit;
            s2_arena_rewind(arena, mark);
            n_seen++;
        }
    return S2_OK;
}

s2_status s2_rhythm_find(s2_arena *arena, const s2_stack *stack, s2_phase phase, s2_rhythm *out)
{
    const int64_t block_tok = stack->pattern->block_tok;
    s2_view_shape shape;
    *out = (s2_rhythm){0};
    S2_TRY(find_shape(arena, stack, phase, &shape, &out->listed));
    const int64_t period = s2_period_lcm(s2_period_lcm(shape.key_period, shape.query_period), block_tok);
    /* Pairs of blocks repeat where all their pairs of tokens do. */
    out->threshold = s2_ceil_div(shape.threshold, block_tok);
    out->period = period == S2_OPEN ? S2_OPEN : period / block_tok;
    out->reach = s2_ceil_div(shape.reach + block_tok - 1, block_tok);
    return S2_OK;
}

int64_t s2_rhythm_blocks(const s2_rhythm *rhythm, int32_t n_layers)
{
    static const int64_t too_many = S2_REACH_BLOCKS + 1;
    if (rhythm->threshold >= too_many || rhythm->period >= too_many || rhythm->reach >= too_many)
        return too_many;
    return rhythm->threshold + 2 * rhythm->period + 1 + n_layers * (rhythm->period + rhythm->reach);
}
