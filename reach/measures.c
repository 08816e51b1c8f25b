#include "reach/measures.h"

s2_status s2_measures_take(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                           s2_measures *out)
{
    s2_measures m;
    S2_TRY(s2_stack_build(arena, pattern, phase, n_tok, &m.stack));
    S2_TRY(s2_hops_find(arena, &m.stack, &m.hops));
    S2_TRY(s2_readers_count(arena, &m.stack, &m.readers));
    S2_TRY(s2_flow_measure(arena, &m.stack, &m.flow));
    S2_TRY(s2_worth_judge(arena, &m.stack, &m.worth));
    if (phase != S2_PREFILL) {
        s2_worth figures;
        S2_TRY(s2_worth_figures(arena, pattern, n_tok, &figures));
        m.worth.not_judged = figures.not_judged;
        m.worth.recall = figures.recall;
        m.worth.loss = figures.loss;
    }
    *out = m;
    return S2_OK;
}
