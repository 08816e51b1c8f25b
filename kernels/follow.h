/*
 * kernels/follow.h - decode steps from a cache that follow one another: a prepared state is changed, not made again.
 *
 * The lists of plan/follow.h, and for each layer that reads alike the places of their slabs. A step looks up the places
 * of slabs that it changed, and of sequences in which a page came or went; whatever else a kernel has stays as it is.
 *
 * Caches with rings are not followed: in these keys move at every step.
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

/* One layer: where the slabs lie in it. */
typedef struct s2_follow_layer {
    s2_decode_place *places; /* [slab] */
    int64_t *versions;       /* [sequence] of the cache, that the places are of */
    int64_t step;            /* of the lists, likewise */
    int32_t
        *changed; /* slabs that are not what they were when this layer was taken the last time; ascending */
    int32_t n_changed; /* -1: any may have changed */
} s2_follow_layer;

typedef struct s2_follow {
    s2_arena arena;
    s2_decode_follow lists;
    uint8_t *on;              /* of a layout: every row */
    s2_follow_layer **layers; /* [layer]; NULL: never asked for */
    int32_t n_layers;
} s2_follow;

/* Whether a problem can be followed: it reads a cache without rings, selects nothing, and its plan has classes alone. */
bool s2_follow_fits(const s2_attn_problem *problem);

/* Zero-initialised before; on failure only to be closed. */
s2_status s2_follow_open(const s2_attn_problem *problem, int32_t want_parts, s2_follow *follow,
                         s2_diag *why) S2_MUST_CHECK;
void s2_follow_close(s2_follow *follow);

/*
 * Bring the lists to the lengths of the problem's plan, and the places of its layer to the cache as it is. Every other
 * distance, and which sequences, as when it was opened. S2_EUNSUPPORTED when a list has outgrown its room. *layer may be
 * taken until the next call.
 */
s2_status s2_follow_take(s2_follow *follow, const s2_attn_problem *problem, const s2_follow_layer **layer,
                         s2_diag *why) S2_MUST_CHECK;

/* Whether the layer was taken with these lengths and the cache as it is, so that taking it again changes nothing. */
bool s2_follow_knows(const s2_follow *follow, const s2_attn_problem *problem);

/*
 * What a kernel can do with the state that prepare() made: make it serve the lengths that the plan has now, its layer, and
 * the cache as it is, queued before the next run(). The plan's class of rows, sequences and all distances are those of
 * before. S2_EUNSUPPORTED: not in place, another must be prepared.
 */
typedef s2_status (*s2_follow_fn)(s2_device *device, const s2_attn_problem *problem, void *state,
                                  s2_diag *why);
/* NULL: this kernel follows nothing, and its plans must be whole; others take plans of classes alone, which are of all rows. */
s2_follow_fn s2_kernel_follow(const s2_kernel *kernel);

s2_status s2_cpu_decode_follow(s2_device *device, const s2_attn_problem *problem, void *state, s2_diag *why);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_FOLLOW_H */
