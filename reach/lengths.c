#include "reach/lengths.h"

#include "base/arith.h"
#include "pattern/view.h"
#include "reach/hops.h"
#include "reach/readers.h"

/* Words that deciding may walk through: about a second, so that a page never waits for this longer than for the
 * length that it was asked for. */
static const double MOST_WORDS = 0x1p31;

/* How the heads of all layers repeat, in blocks. */
typedef struct rhythm {
    int64_t threshold; /* keys from here on repeat with the period */
    int64_t period;
    int64_t reach; /* queries at least this far behind the threshold and the key repeat with the period */
    bool listed;
} rhythm;

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

static s2_status find_rhythm(s2_arena *arena, const s2_stack *stack, s2_phase phase, rhythm *out)
{
    const int64_t block_tok = stack->pattern->block_tok;
    s2_view_shape shape;
    *out = (rhythm){0};
    S2_TRY(find_shape(arena, stack, phase, &shape, &out->listed));
    const int64_t period = s2_period_lcm(s2_period_lcm(shape.key_period, shape.query_period), block_tok);
    /* Pairs of blocks repeat where all their pairs of tokens do. */
    out->threshold = s2_ceil_div(shape.threshold, block_tok);
    out->period = period == S2_OPEN ? S2_OPEN : period / block_tok;
    out->reach = s2_ceil_div(shape.reach + block_tok - 1, block_tok);
    return S2_OK;
}

/* Blocks that show every pair that n_layers can join; more than S2_REACH_BLOCKS where they are too many. */
static int64_t enough_blocks(const rhythm *r, int32_t n_layers)
{
    static const int64_t too_many = S2_REACH_BLOCKS + 1;
    if (r->threshold >= too_many || r->period >= too_many || r->reach >= too_many)
        return too_many;
    return r->threshold + 2 * r->period + 1 + n_layers * (r->period + r->reach);
}

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

/* More layers want a longer length, and that may want more layers, until both agree. */
static s2_status decide(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, s2_lengths *out)
{
    s2_stack stack;
    s2_hops hops;
    rhythm r;
    S2_TRY(s2_stack_build(arena, pattern, phase, pattern->block_tok, &stack));
    S2_TRY(find_rhythm(arena, &stack, phase, &r));
    if (r.listed) {
        out->answer = S2_LENGTHS_LISTED;
        return S2_OK;
    }
    for (int32_t n_layers = 1;; n_layers = hops.layers) {
        const int64_t n_blk = enough_blocks(&r, n_layers);
        if (n_blk > S2_REACH_BLOCKS || count_words(&stack, n_blk) > MOST_WORDS)
            return S2_ELIMIT;
        S2_TRY(s2_stack_build(arena, pattern, phase, n_blk * pattern->block_tok, &stack));
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
    if (status != S2_ELIMIT)
        return status;
    *out = (s2_lengths){.answer = S2_LENGTHS_TOO_LARGE};
    return S2_OK;
}
