/*
 * reach/stack.h - the layers of a pattern as bit matrices: what every measure of this room reads.
 *
 *     row q of a class:  bit k is set when the head reads some pair of (query block q, key block k)
 *
 * Heads that read alike form a class; layers whose heads have the same classes, head by head, form a kind.
 * Where every listed block is read whole, block pairs say everything about token pairs; otherwise `exact` is
 * false and a block that is read in part counts as read. Dynamic terms count as what they certainly read.
 *
 * Ownership: everything lives in the given arena. Threads: immutable once built.
 */
#ifndef S2_REACH_STACK_H
#define S2_REACH_STACK_H

#include "pattern/spec.h"

enum { S2_REACH_BLOCKS = 4096 }; /* of a context; the memory of all classes is at most 1 GiB */

/* Heads of a layer that read alike. */
typedef struct s2_head_part {
    int32_t class_id;
    int32_t n_heads;
} s2_head_part;

typedef struct s2_stack {
    const s2_pattern *pattern;
    int64_t n_tok;   /* of the context; its last block may be shorter */
    int32_t n_blk;   /* blocks of the context, N */
    int32_t n_words; /* of a row */
    bool exact;
    int32_t n_classes;
    uint64_t *const *reads;  /* [class][q * n_words + k / 64] */
    const int32_t *class_of; /* [layer * n_heads + head] */
    int32_t n_kinds;
    const int32_t *kind_of;       /* [layer] */
    const int32_t *first_of_kind; /* [kind] its first layer */
    uint64_t *const *any;         /* [kind], laid out like reads: what some head of the layer reads */
    const int32_t *n_parts;       /* [kind] */
    s2_head_part *const *parts;   /* [kind] the classes of its heads, in the order of their first heads */
} s2_stack;

/* S2_EINVAL: n_tok < 1. S2_ELIMIT: more than the limits above. S2_ENOMEM. On failure *out is untouched. */
s2_status s2_stack_build(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int64_t n_tok,
                         s2_stack *out) S2_MUST_CHECK;

static inline const uint64_t *s2_stack_row(const s2_stack *stack, const uint64_t *matrix, int32_t q_blk)
{
    return matrix + (int64_t)q_blk * stack->n_words;
}
static inline bool s2_bit(const uint64_t *row, int32_t bit)
{
    return row[bit / 64] >> (bit % 64) & 1;
}
/* The classes of the heads of one layer. */
static inline const int32_t *s2_stack_heads(const s2_stack *stack, int32_t layer)
{
    return stack->class_of + (int64_t)layer * stack->pattern->n_heads;
}
/* How many keys query q_blk may read at most: those up to itself where causal. */
static inline int32_t s2_stack_n_keys(const s2_stack *stack, int32_t q_blk)
{
    return stack->pattern->causal ? q_blk + 1 : stack->n_blk;
}

/* A distance of d blocks is in octave 0 (d = 0) or the one of [2^(o-1), 2^o). These hold S2_BEYOND_BLOCKS. */
enum { S2_OCTAVES = 21 };
static inline int32_t s2_octave(int32_t distance_blk)
{
    return distance_blk == 0 ? 0 : 32 - __builtin_clz((unsigned)distance_blk);
}

#endif /* S2_REACH_STACK_H */
