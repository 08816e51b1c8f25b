#include "reach/stack.h"

#include <string.h>

#include "base/work.h"
#include "pattern/blocks.h"
#include "pattern/viewset.h"

/* Limit of work steps to find the classes and list their blocks: seconds. */
#define LIMIT_WORK  (INT64_C(1) << 31)
#define LIMIT_BYTES (INT64_C(1) << 30)
/* Limit of words in the rows of every head of every kind, which the measures walk through: seconds. */
#define LIMIT_WORDS (INT64_C(1) << 32)

typedef struct builder {
    s2_arena *arena;
    s2_stack stack;
    s2_phase phase;
    int64_t n_tok;
    int64_t work;
    s2_view_set set; /* its views are the classes */
    uint64_t **reads;
    int32_t *class_of;
    int32_t *kind_of;
    int32_t *first_of_kind;
    uint64_t **any;
    int32_t *n_parts;
    s2_head_part **parts;
} builder;

static s2_status classify(builder *b)
{
    const s2_pattern *const p = b->stack.pattern;
    s2_stack *const stack = &b->stack;
    const int64_t bytes = (int64_t)stack->n_blk * stack->n_words * 8;
    for (int32_t layer = 0; layer < p->n_layers; layer++)
        for (int32_t head = 0; head < p->n_heads; head++) {
            const s2_arena_mark_t mark = s2_arena_mark(b->arena);
            const int32_t n_before = b->set.n;
            s2_view view;
            S2_TRY(s2_view_build(b->arena, p, b->phase, layer, head, S2_AT_LEAST, &view));
            if (!s2_work_spend(&b->work, 1 + view.n_atoms))
                return S2_ELIMIT;
            S2_TRY(
                s2_view_set_add(b->arena, &b->set, &view, &b->class_of[(int64_t)layer * p->n_heads + head]));
            if (b->set.n == n_before)
                s2_arena_rewind(b->arena, mark);
            else if (b->set.n * bytes > LIMIT_BYTES)
                return S2_ELIMIT;
        }
    stack->n_classes = b->set.n;
    return S2_OK;
}

static uint64_t *matrix(builder *b)
{
    return S2_NEW(b->arena, uint64_t, (int64_t)b->stack.n_blk * b->stack.n_words);
}

static s2_status list_class(builder *b, int32_t c)
{
    s2_stack *const stack = &b->stack;
    uint64_t *const bits = b->reads[c] = matrix(b);
    if (bits == NULL)
        return S2_ENOMEM;
    const s2_arena_mark_t mark = s2_arena_mark(b->arena);
    s2_blocks blocks;
    S2_TRY(
        s2_blocks_build(b->arena, &b->set.views[c], b->n_tok, stack->pattern->block_tok, &b->work, &blocks));
    stack->exact = stack->exact && !b->set.views[c].has_dynamic;
    for (int32_t q = 0; q < blocks.n_q_blk; q++)
        for (int64_t n = blocks.row_begin[q]; n < blocks.row_begin[q + 1]; n++) {
            const int32_t k = blocks.k_blk[n];
            bits[(int64_t)q * stack->n_words + k / 64] |= UINT64_C(1) << (k % 64);
            stack->exact = stack->exact && blocks.full[n];
        }
    s2_arena_rewind(b->arena, mark);
    return S2_OK;
}

static s2_status find_parts(builder *b, int32_t kind, int32_t layer)
{
    const int32_t n_heads = b->stack.pattern->n_heads;
    const int32_t *const heads = b->class_of + (int64_t)layer * n_heads;
    s2_head_part *const parts = S2_NEW(b->arena, s2_head_part, n_heads);
    int32_t *const place = S2_NEW(b->arena, int32_t, b->stack.n_classes); /* of a class, from 1 */
    if (parts == NULL || place == NULL)
        return S2_ENOMEM;
    for (int32_t head = 0; head < n_heads; head++) {
        const int32_t class_id = heads[head];
        if (place[class_id] == 0) {
            parts[b->n_parts[kind]++].class_id = class_id;
            place[class_id] = b->n_parts[kind];
        }
        parts[place[class_id] - 1].n_heads++;
    }
    b->parts[kind] = parts;
    return S2_OK;
}

/* What some head of the layer reads. */
static s2_status join_heads(builder *b, int32_t kind)
{
    const int64_t n = (int64_t)b->stack.n_blk * b->stack.n_words;
    uint64_t *const any = b->any[kind] = matrix(b);
    if (any == NULL)
        return S2_ENOMEM;
    for (int32_t part = 0; part < b->n_parts[kind]; part++)
        for (int64_t word = 0; word < n; word++)
            any[word] |= b->reads[b->parts[kind][part].class_id][word];
    return S2_OK;
}

/* Whether the heads of both layers read the same and are dealt to as many KV heads. */
static bool are_alike(const builder *b, int32_t layer, int32_t other)
{
    const s2_pattern *const pattern = b->stack.pattern;
    const size_t n_heads = (size_t)pattern->n_heads;
    return s2_pattern_kv_heads(pattern, layer) == s2_pattern_kv_heads(pattern, other) &&
           memcmp(b->class_of + n_heads * (size_t)layer, b->class_of + n_heads * (size_t)other,
                  n_heads * sizeof *b->class_of) == 0;
}

static s2_status find_kinds(builder *b)
{
    s2_stack *const stack = &b->stack;
    const size_t n_heads = (size_t)stack->pattern->n_heads;
    for (int32_t layer = 0; layer < stack->pattern->n_layers; layer++) {
        int32_t kind = 0;
        while (kind < stack->n_kinds && !are_alike(b, b->first_of_kind[kind], layer))
            kind++;
        b->kind_of[layer] = kind;
        if (kind < stack->n_kinds)
            continue;
        const int64_t n_words = (int64_t)stack->n_blk * stack->n_words * (stack->n_kinds + 1);
        if (n_words * 8 > LIMIT_BYTES || n_words * (int64_t)n_heads > LIMIT_WORDS)
            return S2_ELIMIT;
        b->first_of_kind[stack->n_kinds++] = layer;
        S2_TRY(find_parts(b, kind, layer));
        S2_TRY(join_heads(b, kind));
    }
    return S2_OK;
}

s2_status s2_stack_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                         s2_stack *out)
{
    if (n_tok < 1)
        return S2_EINVAL;
    const int64_t n_blk = (n_tok - 1) / pattern->block_tok + 1;
    if (n_blk > S2_REACH_BLOCKS)
        return S2_ELIMIT;
    builder b = {.arena = arena,
                 .phase = phase,
                 .n_tok = n_tok,
                 .work = LIMIT_WORK,
                 .stack = {.pattern = pattern,
                           .n_tok = n_tok,
                           .n_blk = (int32_t)n_blk,
                           .n_words = (int32_t)((n_blk + 63) / 64),
                           .exact = true}};
    b.class_of = S2_NEW(arena, int32_t, (int64_t)pattern->n_layers * pattern->n_heads);
    b.kind_of = S2_NEW(arena, int32_t, pattern->n_layers);
    b.first_of_kind = S2_NEW(arena, int32_t, pattern->n_layers);
    b.any = S2_NEW(arena, uint64_t *, pattern->n_layers);
    b.n_parts = S2_NEW(arena, int32_t, pattern->n_layers);
    b.parts = S2_NEW(arena, s2_head_part *, pattern->n_layers);
    if (b.class_of == NULL || b.kind_of == NULL || b.first_of_kind == NULL || b.any == NULL ||
        b.n_parts == NULL || b.parts == NULL)
        return S2_ENOMEM;
    S2_TRY(classify(&b));
    b.reads = S2_NEW(arena, uint64_t *, b.stack.n_classes);
    if (b.reads == NULL)
        return S2_ENOMEM;
    for (int32_t c = 0; c < b.stack.n_classes; c++)
        S2_TRY(list_class(&b, c));
    S2_TRY(find_kinds(&b));
    b.stack.reads = b.reads;
    b.stack.class_of = b.class_of;
    b.stack.kind_of = b.kind_of;
    b.stack.first_of_kind = b.first_of_kind;
    b.stack.any = b.any;
    b.stack.n_parts = b.n_parts;
    b.stack.parts = b.parts;
    *out = b.stack;
    return S2_OK;
}
