#include "reach/readers.h"

#include <string.h>

#include "base/arith.h"

/* Counts for one row, of one layer and of the stack. */
typedef struct counter {
    const s2_stack *stack;
    int32_t n_layers; /* that are counted: those that read keys, or all where none does */
    int32_t *n_alike; /* [kind] such layers of that kind */
    int32_t *first;   /* [kind] the first of them */
    int32_t *heads;   /* [k_blk] */
    int32_t *kv_heads;
    int64_t *chances;
    uint64_t *group; /* what one KV head reads of the row */
    s2_readers *out;
} counter;

static void add_bits(const uint64_t *row, int32_t n_words, int32_t *count)
{
    for (int32_t word = 0; word < n_words; word++)
        for (uint64_t rest = row[word]; rest != 0; rest &= rest - 1)
            count[word * 64 + __builtin_ctzll(rest)]++;
}

static void count_row(counter *c, int32_t layer, int32_t q)
{
    const s2_stack *const stack = c->stack;
    const s2_pattern *const p = stack->pattern;
    const int32_t *const heads = s2_stack_heads(stack, layer);
    const int32_t n_kv_heads = s2_pattern_kv_heads(p, layer), group = p->n_heads / n_kv_heads;
    memset(c->heads, 0, (size_t)stack->n_blk * sizeof *c->heads);
    memset(c->kv_heads, 0, (size_t)stack->n_blk * sizeof *c->kv_heads);
    for (int32_t kv = 0; kv < n_kv_heads; kv++) {
        memset(c->group, 0, (size_t)stack->n_words * sizeof *c->group);
        for (int32_t head = kv * group; head < (kv + 1) * group; head++) {
            const uint64_t *const row = s2_stack_row(stack, stack->reads[heads[head]], q);
            add_bits(row, stack->n_words, c->heads);
            for (int32_t word = 0; word < stack->n_words; word++)
                c->group[word] |= row[word];
        }
        add_bits(c->group, stack->n_words, c->kv_heads);
    }
}

static void add_pair(counter *c, int32_t layer, int32_t n_alike, int32_t q, int32_t k)
{
    s2_readers_at *const here = &c->out->octaves[s2_octave(q > k ? q - k : k - q)];
    here->heads += (double)c->heads[k] * n_alike;
    here->kv_heads += (double)c->kv_heads[k] * n_alike;
    c->chances[k] += (int64_t)c->heads[k] * n_alike;
    if (c->kv_heads[k] < here->least_kv_heads)
        here->least_kv_heads = c->kv_heads[k];
    if (c->heads[k] < here->least_heads || (c->heads[k] == here->least_heads && layer < here->layer)) {
        here->least_heads = c->heads[k];
        here->layer = layer;
        here->q_blk = q;
        here->k_blk = k;
    }
}

static void add_row(counter *c, int32_t q)
{
    const s2_stack *const stack = c->stack;
    const int32_t n_keys = s2_stack_n_keys(stack, q);
    memset(c->chances, 0, (size_t)stack->n_blk * sizeof *c->chances);
    for (int32_t kind = 0; kind < stack->n_kinds; kind++) {
        const int32_t layer = c->first[kind];
        if (c->n_alike[kind] == 0)
            continue;
        count_row(c, layer, q);
        for (int32_t k = 0; k < n_keys; k++)
            add_pair(c, layer, c->n_alike[kind], q, k);
        if (q < stack->n_blk - 1)
            continue;
        for (int32_t k = 0; k < n_keys; k++) {
            c->out->resident += (double)c->kv_heads[k] * c->n_alike[kind];
            c->out->resident_once += (c->kv_heads[k] > 0) * c->n_alike[kind];
        }
    }
    for (int32_t k = 0; k < n_keys; k++) {
        s2_readers_at *const here = &c->out->octaves[s2_octave(q > k ? q - k : k - q)];
        here->n_pairs++;
        here->chances += (double)c->chances[k];
        if (c->chances[k] < here->least_chances)
            here->least_chances = c->chances[k];
    }
}

int32_t s2_readers_window(const s2_stack *stack, int32_t class_id)
{
    int32_t window = stack->n_blk;
    for (int32_t q = 0; q < stack->n_blk && window > 0; q++) {
        const uint64_t *const row = s2_stack_row(stack, stack->reads[class_id], q);
        int32_t run = 0;
        while (run < window && run <= q && s2_bit(row, q - run))
            run++;
        if (run <= q)
            window = run;
    }
    return window;
}

static void divide(s2_readers *out, double n_layers)
{
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        s2_readers_at *const here = &out->octaves[octave];
        if (here->n_pairs == 0) {
            *here = (s2_readers_at){0};
            continue;
        }
        here->heads /= (double)here->n_pairs * n_layers;
        here->kv_heads /= (double)here->n_pairs * n_layers;
        here->chances /= (double)here->n_pairs;
    }
    out->resident /= n_layers;
    out->resident_once /= n_layers;
}

/* State layers read nothing, which says nothing about those that do. */
static void choose_layers(counter *c)
{
    const s2_pattern *const p = c->stack->pattern;
    const bool any_reads = s2_pattern_has_attention(p);
    for (int32_t layer = p->n_layers - 1; layer >= 0; layer--) {
        const int32_t kind = c->stack->kind_of[layer];
        if (any_reads && s2_pattern_is_state_layer(p, layer))
            continue;
        c->n_alike[kind]++;
        c->first[kind] = layer;
        c->n_layers++;
    }
}

static int32_t common_window(const counter *c)
{
    const s2_stack *const stack = c->stack;
    int32_t window = stack->n_blk;
    for (int32_t kind = 0; kind < stack->n_kinds; kind++)
        for (int32_t n = 0; n < stack->n_parts[kind] && c->n_alike[kind] > 0; n++)
            window = s2_min_i32(window, s2_readers_window(stack, stack->parts[kind][n].class_id));
    return window;
}

s2_status s2_readers_count(s2_arena *arena, const s2_stack *stack, s2_readers *out)
{
    s2_readers readers = {0};
    counter c = {.stack = stack,
                 .n_alike = S2_NEW(arena, int32_t, stack->n_kinds),
                 .first = S2_NEW(arena, int32_t, stack->n_kinds),
                 .heads = S2_NEW(arena, int32_t, stack->n_blk),
                 .kv_heads = S2_NEW(arena, int32_t, stack->n_blk),
                 .chances = S2_NEW(arena, int64_t, stack->n_blk),
                 .group = S2_NEW(arena, uint64_t, stack->n_words),
                 .out = &readers};
    if (c.n_alike == NULL || c.first == NULL || c.heads == NULL || c.kv_heads == NULL || c.chances == NULL ||
        c.group == NULL)
        return S2_ENOMEM;
    choose_layers(&c);
    for (int32_t octave = 0; octave < S2_OCTAVES; octave++) {
        readers.octaves[octave].least_heads = readers.octaves[octave].least_kv_heads = INT32_MAX;
        readers.octaves[octave].least_chances = INT64_MAX;
    }
    for (int32_t q = 0; q < stack->n_blk; q++)
        add_row(&c, q);
    divide(&readers, c.n_layers);
    readers.window = common_window(&c);
    *out = readers;
    return S2_OK;
}
