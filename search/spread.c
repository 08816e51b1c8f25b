#include "search/spread.h"

#include "reach/flow.h"
#include "reach/hops.h"

typedef s2_status (*measure_fn)(s2_arena *arena, const s2_stack *stack, double *out);

/* The arena is left as it was. */
static s2_status measure_stack(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, measure_fn measure,
                               double *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    s2_stack stack;
    s2_status status = s2_stack_build(arena, pattern, S2_PREFILL, n_tok, &stack);
    if (status == S2_OK)
        status = measure(arena, &stack, out);
    s2_arena_rewind(arena, mark);
    return status;
}

static s2_status count_hops(s2_arena *arena, const s2_stack *stack, double *out)
{
    s2_hops hops;
    S2_TRY(s2_hops_find(arena, stack, &hops));
    *out = hops.layers > 0 ? hops.layers : stack->pattern->n_layers + 1;
    return S2_OK;
}

s2_status s2_hops_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, double *out)
{
    return measure_stack(arena, pattern, n_tok, count_hops, out);
}

static s2_status measure_flow(s2_arena *arena, const s2_stack *stack, double *out)
{
    s2_flow flow;
    S2_TRY(s2_flow_measure(arena, stack, &flow));
    *out = flow.least;
    return S2_OK;
}

s2_status s2_least_flow_of(s2_arena *arena, const s2_pattern *pattern, int64_t n_tok, double *out)
{
    return measure_stack(arena, pattern, n_tok, measure_flow, out);
}
