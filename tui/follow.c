/* What `s2 reach` says of a pattern, derived for the view that shows it. */
#include "tui/bench.h"

#include "base/arith.h"
#include "reach/lengths.h"
#include "words/reach.h"

/*
 * A moment's work: this many blocks, and fewer where layers differ, since readers are counted for every head of
 * every kind of layer and every pair. Longer contexts are measured by the command, in the background.
 */
enum { MOST_BLOCKS = 512, MOST_COUNTS = 1 << 28 };

/* How far layers differ does not depend on the length. */
static s2_status most_tokens(const s2_facts *facts, s2_phase phase, s2_arena *scratch, int64_t *out)
{
    const s2_pattern *const p = &facts->pattern;
    s2_stack stack;
    S2_TRY(s2_stack_build(scratch, p, phase, 1, &stack));
    int64_t n_blk = MOST_BLOCKS;
    while (n_blk > 1 && n_blk * n_blk * stack.n_kinds * p->n_heads > MOST_COUNTS)
        n_blk /= 2;
    *out = s2_min_i64(facts->question.len_tok, n_blk * p->block_tok);
    return S2_OK;
}

static s2_status keep_page(const s2_measures *m, const s2_lengths *lengths, s2_followed *out)
{
    s2_buf text = {0};
    s2_reach_lines(m, lengths, &text);
    s2_buf_puts(&text, "\n");
    s2_reach_tables(m, &text);
    out->page = text.status == S2_OK ? s2_arena_strndup(&out->arena, text.data, text.len) : NULL;
    s2_buf_release(&text);
    return out->page != NULL ? S2_OK : S2_ENOMEM;
}

static s2_status keep_curves(const s2_measures *m, s2_followed *out)
{
    const int32_t n_layers = m->stack.pattern->n_layers;
    s2_known *const known = S2_NEW(&out->arena, s2_known, n_layers);
    if (known == NULL)
        return S2_ENOMEM;
    for (int32_t layer = 0; layer < n_layers; layer++)
        known[layer] = s2_known_after(&m->stack, &m->hops, layer);
    out->known = known;
    out->n_octaves = s2_octave(m->stack.n_blk - 1) + 1;
    for (int32_t octave = 0; octave < out->n_octaves; octave++) {
        const s2_readers_at *const readers = &m->readers.octaves[octave];
        const s2_flow_at *const flow = &m->flow.octaves[octave];
        out->heads[octave] = readers->heads;
        out->least_heads[octave] = readers->least_heads;
        out->flow[octave] = flow->n_keys > 0 ? flow->flow / flow->dense : 0;
    }
    return S2_OK;
}

static s2_status follow(const s2_facts *facts, s2_arena *scratch, s2_followed *out)
{
    const s2_pattern *const p = &facts->pattern;
    const s2_phase phase = s2_phase_rules(facts->question.phase);
    s2_measures m;
    s2_worth whole;
    s2_lengths lengths;
    S2_TRY(most_tokens(facts, phase, scratch, &out->n_tok));
    S2_TRY(s2_measures_take(scratch, p, phase, out->n_tok, &m));
    /* worth is of the length that was asked for, however much of it was measured */
    S2_TRY(s2_worth_figures(scratch, p, facts->question.len_tok, &whole));
    m.worth.not_judged = whole.not_judged;
    m.worth.recall = whole.recall;
    m.worth.loss = whole.loss;
    S2_TRY(s2_lengths_decide(scratch, p, phase, &lengths));
    S2_TRY(keep_page(&m, &lengths, out));
    return keep_curves(&m, out);
}

void s2_facts_follow(const s2_facts *facts, s2_followed *out)
{
    s2_arena scratch = {0};
    *out = (s2_followed){.asked = true};
    out->status = follow(facts, &scratch, out);
    s2_arena_release(&scratch);
}
