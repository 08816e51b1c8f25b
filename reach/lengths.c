#include "reach/lengths.h"

#include "base/arith.h"
#include "reach/hops.h"
#include "reach/readers.h"
#include "reach/rhythm.h"

/* Words that deciding may walk through: about a second, so that a page never waits for this longer than for the
 * length that it was asked for. */
static const double MOST_WORDS = 0x1p31;

/* The words that the measures would walk through at a length; s2_stack.n_kinds and the rest are of any length. */
static double count_words(const s2_stack *stack, int64_t n_blk)
{
    const double row = (double)s2_ceil_div(n_blk, 64);
    const double n_heads = (double)stack->pattern->n_heads * stack->n_kinds;
    return (double)n_blk * row * ((double)n_blk * stack->pattern->n_layers + n_heads);
}

static s2_status read_stack(s2_arena *arena, const s2_stack *stack, const s2_hops *hops, s2_lengths *out)
{
    s2_readers readers;
    S2_TRY(s2_readers_count(arena, stack, &readers));
    *out = (s2_lengths){.n_blk = stack->n_blk,
                        .layers = hops->layers,
                        .least_heads = INT32_MAX,
                        .least_kv_heads = INT32_MAX,
                        .window = readers.window};
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        const s2_readers_at *const here = &readers.octaves[octave];
        if (here->n_pairs == 0)
            continue;
        out->least_heads = s2_min_i32(out->least_heads, here->least_heads);
        out->least_kv_heads = s2_min_i32(out->least_kv_heads, here->least_kv_heads);
    }
    return S2_OK;
}

/* A block that is read in part is so at every longer length: most such patterns show it within a few blocks. */
static s2_status build_whole(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_blk,
                             s2_stack *out)
{
    for (int64_t n = s2_min_i64(n_blk, 16);; n = s2_min_i64(n_blk, n * 8)) {
        S2_TRY(s2_stack_build(arena, pattern, phase, n * pattern->block_tok, out));
        if (n == n_blk || !out->exact)
            return S2_OK;
    }
}

/* More layers want a longer length, and that may want more layers, until both agree. */
static s2_status decide(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_lengths *out)
{
    s2_stack stack;
    s2_hops hops;
    s2_rhythm r;
    S2_TRY(s2_stack_build(arena, pattern, phase, pattern->block_tok, &stack));
    S2_TRY(s2_rhythm_find(arena, &stack, phase, &r));
    if (r.listed) {
        out->answer = S2_LENGTHS_LISTED;
        return S2_OK;
    }
    for (int32_t n_layers = 1;; n_layers = hops.layers) {
        const int64_t n_blk = s2_rhythm_blocks(&r, n_layers);
        if (n_blk > S2_REACH_BLOCKS || count_words(&stack, n_blk) > MOST_WORDS)
            return S2_ELIMIT;
        S2_TRY(build_whole(arena, pattern, phase, n_blk, &stack));
        if (!stack.exact) {
            out->answer = S2_LENGTHS_PARTIAL;
            return S2_OK;
        }
        S2_TRY(s2_hops_find(arena, &stack, &hops));
        if (hops.layers <= n_layers)
            return read_stack(arena, &stack, &hops, out);
    }
}

s2_status s2_lengths_decide(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_lengths *out)
{
    *out = (s2_lengths){.answer = S2_LENGTHS_NOT_CAUSAL};
    if (!pattern->causal)
        return S2_OK;
    const s2_arena_mark_t mark = s2_arena_mark(arena);
    const s2_status status = decide(arena, pattern, phase, out);
    s2_arena_rewind(arena, mark);
    for (int32_t layer = 0; layer < pattern->n_layers && status == S2_OK; layer++)
        if (out->answer == S2_LENGTHS_DECIDED && out->layers == 0 &&
            s2_pattern_state_bytes(pattern, layer) > 0)
            *out = (s2_lengths){.answer = S2_LENGTHS_STATE};
    if (status != S2_ELIMIT)
        return status;
    *out = (s2_lengths){.answer = S2_LENGTHS_TOO_LARGE};
    return S2_OK;
}
