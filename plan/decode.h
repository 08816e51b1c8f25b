/*
 * plan/decode.h - one decode step as slabs of 16 keys, cut into equal parts over the whole chip.
 *
 *     list 0 (sequence 0, KV head 0)   list 1            list 2
 *     [s s s s s s s s s s s s s s | s s s s s s s | s s s s s s s s s s s]
 *     |---- part 0 ----|---- part 1 ----|---- part 2 ----|---- part 3 ----|
 *
 * A list is what the rows of one sequence and one KV head read: the union over the query heads of the
 * group and over the query tokens, as aligned slabs of 16 keys. Where a row reads less than the union, or
 * a slab is cut by the causal edge or the end, the slab carries 16 bits for every row; so any pattern is
 * exact. Row r of a list is query token r / group and query head kv_head * group + r % group.
 *
 * Parts have equally many slabs, whatever the lengths of the lists; if there are at least two parts per list,
 * every part stays within one list, and parts are as equal as that allows. Or parts are of whole lists, which
 * plan/launch.c chooses where lists are short. A list that spans parts is combined in the order of the parts, so that
 * results do not depend on timing.
 *
 * Invariants: lists in the order (seq, kv_head), back to back; slabs ascending inside a list; live != 0;
 *             a key is in one slab of a list.
 * Ownership:  arrays live in the given arena. Threads: immutable once built.
 */
#ifndef S2_PLAN_DECODE_H
#define S2_PLAN_DECODE_H

#include "plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    S2_DECODE_SLAB_TOK = 16,
    S2_DECODE_LIMIT_Q_TOK = 16, /* query tokens per sequence */
    S2_DECODE_LEAST_SLABS = 4   /* per part: fewer do not pay for the combination */
};

typedef struct s2_decode_slab {
    int32_t k_tok; /* its first key, a multiple of 16 */
    int32_t mask;  /* -1: every row reads all 16 keys; else which mask */
    uint16_t live; /* bit j: some row reads key k_tok + j */
} s2_decode_slab;

typedef struct s2_decode_list {
    int32_t slab_begin; /* slabs [slab_begin, slab_end) */
    int32_t slab_end;
    int32_t seq;
    int32_t kv_head;
    int32_t n_rows;
    int32_t first_part; /* parts [first_part, first_part + n_parts) read it; none if it is empty */
    int32_t n_parts;
} s2_decode_list;

/* What one block of threads does: slabs [slab_begin, slab_end), from list first_list on. */
typedef struct s2_decode_part {
    int32_t slab_begin;
    int32_t slab_end;
    int32_t first_list;
} s2_decode_part;

typedef struct s2_decode_plan {
    int32_t group;   /* query heads per KV head */
    int32_t row_cap; /* bits of a mask: a multiple of 8, at least the rows of any list */
    int32_t n_lists; /* n_seqs * n_kv_heads */
    int32_t n_slabs;
    int32_t n_masks;
    int32_t n_parts;
    s2_decode_list *lists;
    const s2_decode_slab *slabs;
    const uint16_t *bits; /* [mask][row_cap]: bit j of a row: it reads key k_tok + j */
    const s2_decode_part *parts;
    int64_t n_live_keys; /* (list, key) pairs read: K and V that must move are this many slots */
} s2_decode_plan;

/*
 * Build the lists of the plan's layer, for all its sequences (its items are ignored), cut into at most
 * want_parts parts. cut_tok, when not NULL, has a position for each list: a slab with keys on both
 * sides of it becomes two, because the sides are stored in different places. S2_EUNSUPPORTED with the reason
 * where a sequence has more than 16 queries; S2_ELIMIT when plan->options.work_left ran out; S2_ENOMEM.
 */
s2_status s2_decode_plan_build(s2_arena *arena, const s2_plan *plan, const int64_t *cut_tok,
                               int32_t want_parts, s2_decode_plan *out, s2_diag *why) S2_MUST_CHECK;

/*
 * Replace the parts of a plan whose lists were chosen elsewhere (page selection); n_slabs and the lists'
 * slab ranges are used unchanged. S2_ENOMEM.
 */
s2_status s2_decode_plan_split(s2_arena *arena, int32_t want_parts, s2_decode_plan *plan) S2_MUST_CHECK;

/*
 * ... into at most want_parts parts of whole lists, so that the part which costs most costs as little as can be: its
 * slabs, and list_slabs for each of its lists. S2_ENOMEM.
 */
s2_status s2_decode_plan_split_whole(s2_arena *arena, int32_t want_parts, int32_t list_slabs,
                                     s2_decode_plan *plan) S2_MUST_CHECK;

/* Slot of a list's result from a part, which has one for the list that begins in it and one for another. */
static inline int32_t s2_decode_slot(const s2_decode_list *list, int32_t part)
{
    return 2 * part + (part != list->first_part);
}

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_DECODE_H */
