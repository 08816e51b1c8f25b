/*
 * plan/follow.h - the lists of successive decode steps: made once, then updated where a step changes them.
 *
 *     a list     [s s s s s s s s|. . . .]     slabs in use, then empty ones: room to grow in place
 *
 * Inside a block of the pattern a step only adds keys at the ends of lists. Where a sequence enters another
 * block, or its pattern counts in tokens, its lists are rebuilt in place. A step reports the slabs that it
 * changed, so that a copy elsewhere can be updated without copying the rest.
 *
 * The slabs in use equal those of s2_decode_plan_build() for these lengths, and so do their masks, bit by
 * bit; but mask n belongs to slab n, so that no mask ever moves, and an empty slab has live 0 and a mask of
 * zeros. Parts are cut when the lists are opened and do not change.
 *
 * Ownership: open and close it; it owns its arrays. Threads: one at a time.
 */
#ifndef S2_PLAN_FOLLOW_H
#define S2_PLAN_FOLLOW_H

#include "plan/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A plan with only the classes of a layer at some lengths: no blocks, items or counts. Decode steps look at
 * nothing else, and the cost does not grow with the lengths. `seqs` is kept, not copied: its lengths may
 * change. Fails as s2_plan_build() does.
 */
s2_status s2_plan_build_classes(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                                const s2_plan_seq *seqs, int32_t n_seqs, const s2_plan_options *options,
                                s2_plan *out, s2_diag *why) S2_MUST_CHECK;

typedef struct s2_decode_follow {
    s2_arena arena;
    s2_decode_plan plan;
    s2_decode_slab *slabs; /* the plan's, writable */
    uint16_t *bits;
    int32_t *n_used;   /* [list] slabs in use, the first of its room */
    s2_plan_seq *seqs; /* the lengths that the lists are for */
    int32_t n_seqs;
    int64_t block_tok; /* queries of one block read the same up to the causal edge */
    int64_t n_steps;   /* changes of length so far */
    int32_t *changed;  /* slabs that the last one changed, and those of the queries before it; ascending */
    int32_t n_changed;
    bool *own;      /* scratch of a step: [head of a group] */
    uint16_t *rows; /* ... [row] */
} s2_decode_follow;

/* Build lists at the lengths of the plan. Zero-initialise first; after a failure it can only be closed. */
s2_status s2_decode_follow_open(const s2_plan *plan, int32_t want_parts, s2_decode_follow *follow,
                                s2_diag *why) S2_MUST_CHECK;
void s2_decode_follow_close(s2_decode_follow *follow);

/*
 * Move to the lengths that the same plan has now; does nothing if they are the same. S2_EUNSUPPORTED when a
 * list has outgrown its room. After a failure it can only be closed.
 */
s2_status s2_decode_follow_step(s2_decode_follow *follow, const s2_plan *plan) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_FOLLOW_H */
