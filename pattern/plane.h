/*
 * pattern/plane.h - one head's mask as a square of cells, and the terms that read exactly them.
 *
 * Used only by pattern/recognise.h. Ownership: results live in the arena, the rest in scratch.
 * Threads: no state.
 */
#ifndef S2_PATTERN_PLANE_H
#define S2_PATTERN_PLANE_H

#include "pattern/spec.h"

typedef struct s2_plane {
    int32_t n;
    bool causal;         /* cells after the diagonal do not count */
    const uint8_t *cell; /* [query * n + key], 0 or 1 */
} s2_plane;

/* The keys of a query that count: [0, this). */
static inline int32_t s2_plane_n_keys(const s2_plane *plane, int32_t query)
{
    return plane->causal ? query + 1 : plane->n;
}

/*
 * Find at most `cap` terms in blocks that together read exactly the set cells; residues are constants.
 * S2_EUNSUPPORTED when there are none, with an uncovered cell in *query and *key; S2_ENOMEM.
 */
s2_status s2_plane_terms(s2_arena *arena, s2_arena *scratch, const s2_plane *plane, int32_t cap, s2_body *out,
                         int32_t *query, int32_t *key) S2_MUST_CHECK;

#endif /* S2_PATTERN_PLANE_H */
