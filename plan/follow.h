/*
 * plan/follow.h - the lists of decode steps that follow one another: made once, and changed where a step changes them.
 *
 *     a list     [s s s s s s s s|. . . .]     slabs in use, then empty ones: room to grow in place
 *
 * Inside a block of the pattern a step adds keys at the ends of lists and changes nothing else. Where a sequence enters
 * another block, or its pattern counts in tokens, its lists are made anew, in their places. Slabs that a step changed
 * are told, so that whoever holds a copy need not take the rest again.
 *
 * What is in use is what s2_decode_plan_build() gives for these lengths, slab by slab, and masks bit by bit; but mask
 * number n belongs to slab number n, so that none ever moves, and an empty slab has live 0 and a mask of zeros. Parts
 * are those of the moment when it was opened, and stay.
 *
 * Ownership: opened and closed; arrays are its own. Threads: one at a time.
 */
#ifndef S2_PLAN_FOLLOW_H
#define S2_PLAN_FOLLOW_H

#include "plan/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The classes of a layer at some lengths, and nothing else of a plan: no blocks, no items, no counts. That is all that
 * decode steps look at, and it costs nothing that grows with the lengths. `seqs` is kept, not copied: its lengths may
 * change. Fails as s2_plan_build() does.
 */
s2_status s2_plan_build_classes(s2_arena *arena, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                                const s2_plan_seq *seqs, int32_t n_seqs, const s2_plan_options *options,
                                s2_plan *out, s2_diag *why) S2_MUST_CHECK;

typedef struct s2_decode_follow {
    s2_arena arena;
    s2_decode_plan plan;
    s2_decode_slab *slabs; /* the plan's, to be written */
    uint16_t *bits;
    int32_t *n_used;   /* [list] its first slabs */
    s2_plan_seq *seqs; /* the lengths that the lists are of */
    int32_t n_seqs;
    int64_t block_tok; /* queries of one block read the same but for the causal edge */
    int64_t n_steps;   /* changes of length so far */
    int32_t *changed;  /* slabs that the last one changed, and those of the queries before it; ascending */
    int32_t n_changed;
    bool *own;      /* scratch of a step: [head of a group] */
    uint16_t *rows; /* ... [row] */
} s2_decode_follow;

/* Lists at the lengths of the plan. Zero-initialised before; on failure only to be closed. */
s2_status s2_decode_follow_open(const s2_plan *plan, int32_t want_parts, s2_decode_follow *follow,
                                s2_diag *why) S2_MUST_CHECK;
void s2_decode_follow_close(s2_decode_follow *follow);

/*
 * To the lengths that the same plan has now; nothing when they are the same. S2_EUNSUPPORTED when a list has outgrown its
 * room. After a failure it can only be closed.
 */
s2_status s2_decode_follow_step(s2_decode_follow *follow, const s2_plan *plan) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PLAN_FOLLOW_H */
