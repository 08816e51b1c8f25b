/*
 * plan/steps.h - a plan's lists as the steps of a kernel whose tile has two halves of rows.
 *
 * Two groups of warps share a tile: they take its two halves of rows or, where two heads share a list
 * (pack_heads 2), a head each. Their steps are of three kinds:
 *
 *     whole   step_tok keys that every row reads: nothing is compared
 *     mixed   step_tok keys for both groups, compared as their words say; at most one an item
 *     half    step_tok / 2 keys for each group, ITS OWN ones, compared as their words say
 *
 *     tile of a window      keys ->   e . . . . . d          e  edge of the window: group 0 only
 *     rows of group 0                 # # # # # # \          d  diagonal of group 0, D of group 1
 *     rows of group 1                   # # # # # # \           halves: {d | D}, {e | d}; the rest whole
 *                                                               or half {e | D}, mixed d .; the rest whole
 *
 * So no product is computed for rows that do not read it, a list is padded to half a step, and whole
 * steps compare nothing. The halves of an item come first, at least one, then its mixed step.
 *
 * The words of half and mixed steps are in memory. Whole blocks come from a list in memory, from a run of
 * consecutive blocks and from a comb: the window and the stride of arithmetic patterns cost no memory at any
 * length. All blocks are in units of plan->blk_tok.
 */
#ifndef S2_PLAN_STEPS_H
#define S2_PLAN_STEPS_H

#include "plan/plan.h"

#ifdef __CUDACC__
#define S2_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define S2_HOST_DEVICE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An entry word is block << 13 | compare_elements << 12 | one bit per 16-row slab of the tile. */
enum { S2_STEP_EDGE = 1 << 12, S2_STEP_BLOCK_SHIFT = 13, S2_STEP_NOWHERE = (1 << 19) - 1 };

typedef struct s2_step_word {
    uint32_t word; /* padding is block S2_STEP_NOWHERE with no slab */
    int32_t mask;  /* -1, or the element mask, as in s2_plan_entry */
} s2_step_word;

/* One piece of work for the device: four 16-byte words. */
typedef struct s2_step_item {
    int32_t pos; /* position of the tile's first row; may be before the first query */
    int32_t head;
    int32_t seq;
    int32_t n_half; /* at least 1 */
    int32_t n_whole;
    int32_t k_tok;
    int32_t q_off;      /* k_tok - q_tok */
    int32_t rows;       /* set by the kernel: where the sequence's rows begin */
    int32_t half_begin; /* first word; step_blk words per step, in halves those of group 0 first */
    int32_t list_begin; /* whole blocks from memory ... */
    int32_t n_list;
    int32_t n_run; /* ... then run_begin, run_begin + 1, ... */
    int32_t run_begin;
    int32_t comb_begin; /* ... then 1 << comb_shift blocks every comb_period, as many as are left */
    int32_t comb_period;
    int16_t comb_shift;
    int16_t n_mixed; /* 0 or 1 */
} s2_step_item;

/* The index-th whole block of an item; step s takes [s * step_blk, (s + 1) * step_blk). */
S2_HOST_DEVICE int32_t s2_step_block(const s2_step_item *item, const int32_t *list, int32_t index)
{
    int32_t rest = index;
    if (rest < item->n_list)
        return list[item->list_begin + rest];
    rest -= item->n_list;
    if (rest < item->n_run)
        return item->run_begin + rest;
    rest -= item->n_run;
    return item->comb_begin + (rest >> item->comb_shift) * item->comb_period +
           (rest & ((1 << item->comb_shift) - 1));
}

typedef struct s2_steps {
    const s2_step_item *items; /* those of the plan, in its order */
    int32_t n_items;
    const s2_step_word *words;
    int64_t n_words;
    const int32_t *list;
    int64_t n_list;
    const uint32_t *bits; /* element masks, laid out as in s2_plan_list */
    int64_t n_masks;
    int64_t n_half, n_mixed, n_whole; /* steps of all items */
} s2_steps;

/*
 * The steps of a plan with tiles of 16-row slabs, at most 8, and step_tok = 2, 4, 8 or 16 blocks. S2_EINVAL
 * for other shapes, S2_EUNSUPPORTED for more than 2^31 words or blocks beyond S2_STEP_NOWHERE, S2_ENOMEM.
 */
s2_status s2_steps_build(s2_arena *arena, const s2_plan *plan, int32_t step_tok, s2_steps *out,
                         s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_STEPS_H */
