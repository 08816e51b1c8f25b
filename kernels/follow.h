/*
 * kernels/follow.h - successive decode steps from a cache: a prepared state is updated, not rebuilt.
 *
 * Holds the lists of plan/follow.h and, for each layer that reads the same lists, the places of their slabs.
 * A step looks up only the places of slabs that it changed, and of sequences whose pages were copied after a
 * fork; everything else that a kernel holds stays as it is, also where pages came and went.
 *
 * Caches with rings are not followed: their keys move at every step.
 *
 * Ownership: opened and closed; the cache must outlive it. Threads: as the problem.
 */
#ifndef S2_KERNELS_FOLLOW_H
#define S2_KERNELS_FOLLOW_H

#include "kernels/decode.h"
#include "plan/follow.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One layer: where its slabs are. */
typedef struct s2_follow_layer {
    s2_decode_place *places; /* [slab] */
    int64_t *versions;       /* [sequence] the cache's version of moves that the places are from */
    int64_t step;            /* the lists' step that they are from */
    int32_t *changed;        /* slabs that have changed since this layer was last taken; ascending */
    int32_t n_changed;       /* -1: any may have changed */
} s2_follow_layer;

typedef struct s2_follow {
    s2_arena arena;
    s2_decode_follow lists;
    uint8_t *on;              /* as in a layout: every row */
    s2_follow_layer **layers; /* [layer]; NULL: never requested */
    int32_t n_layers;
} s2_follow;

/* Whether a problem can be followed: a cache without rings, no page selection, and a plan of classes only. */
bool s2_follow_fits(const s2_attn_problem *problem);

/* *follow is zero-initialised before; after a failure it may only be closed. */
s2_status s2_follow_open(const s2_attn_problem *problem, int32_t want_parts, s2_follow *follow,
                         s2_diag *why) S2_MUST_CHECK;
void s2_follow_close(s2_follow *follow);

/*
 * Bring the lists to the lengths of the problem's plan, and the places of its layer up to date with the
 * cache. All strides, and the choice of sequences, must be as when it was opened. S2_EUNSUPPORTED when a list
 * has outgrown its room. *layer is valid until the next call.
 */
s2_status s2_follow_take(s2_follow *follow, const s2_attn_problem *problem, const s2_follow_layer **layer,
                         s2_diag *why) S2_MUST_CHECK;

/* Whether the layer is taken with these lengths and this cache state already: nothing would change. */
bool s2_follow_knows(const s2_follow *follow, const s2_attn_problem *problem);

/*
 * Updates a state that prepare() made to the lengths that the plan has now, its layer and the cache as it is;
 * the update is queued before the next run(). The plan's class of rows, the sequences and all strides must be
 * the same as before. S2_EUNSUPPORTED: it cannot be done in place, prepare a new state.
 */
typedef s2_status (*s2_follow_fn)(s2_device *device, const s2_attn_problem *problem, void *state,
                                  s2_diag *why);
/* NULL: this kernel follows nothing, and its plans must be whole. Others accept plans of classes only, which
 * cover all rows. */
s2_follow_fn s2_kernel_follow(const s2_kernel *kernel);

/* The s2_follow_fn of the kernel cpu_decode. */
s2_status s2_cpu_decode_follow(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_FOLLOW_H */
