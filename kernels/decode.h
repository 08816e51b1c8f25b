/*
 * kernels/decode.h - the layout of a decode step: the plan's slabs, and where each is in memory.
 *
 * Shared by the CPU and the GPU kernel. The addresses are those of the problem at this moment: once a cache
 * has been appended to, it needs a new layout.
 *
 * Ownership: arrays live in the arena given. Threads: immutable once built.
 */
#ifndef S2_KERNELS_DECODE_H
#define S2_KERNELS_DECODE_H

#include "kernels/kernel.h"
#include "plan/decode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_decode_place {
    int64_t k_at; /* elements from k.data to the slab's first key; further keys at k.tok each */
    int64_t v_at;
    bool fresh; /* it holds keys of the last q_tok tokens */
} s2_decode_place;

typedef struct s2_decode_layout {
    s2_decode_plan plan;
    const s2_decode_place *places; /* [slab] */
    const uint8_t *on;             /* [list][row_cap]: rows of the plan's items; others are not written */
    bool all_on;
} s2_decode_layout;

/* What every decode kernel demands of a problem; S2_EUNSUPPORTED with the reason. */
s2_status s2_decode_supports(const s2_attn_problem *problem, s2_diag *why) S2_MUST_CHECK;

/* S2_EINVAL when a plan and its cache differ in length. */
s2_status s2_decode_check_cached(const s2_attn_problem *problem, s2_diag *why) S2_MUST_CHECK;

/* The page looked up last, and the slot of its first key; the keys of a ring have no such slot. */
typedef struct s2_decode_page {
    int32_t page;
    int64_t slot;
} s2_decode_page;
#define S2_DECODE_NO_PAGE ((s2_decode_page){-1, 0})

/* Where one slab of a list is; the slabs of a list share *last. S2_EINTERNAL as below. */
s2_status s2_decode_place_slab(const s2_attn_problem *problem, const s2_decode_list *list,
                               const s2_decode_slab *slab, s2_decode_page *last, s2_decode_place *place,
                               s2_diag *why) S2_MUST_CHECK;

/*
 * Lay a problem out in at most want_parts parts. S2_EUNSUPPORTED as above; S2_EINTERNAL when a cache has
 * dropped a key that the step reads; S2_ENOMEM.
 */
s2_status s2_decode_lay_out(s2_arena *arena, const s2_attn_problem *problem, int32_t want_parts,
                            s2_decode_layout *out, s2_diag *why) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_DECODE_H */
