/*
 * kernels/probe.h - the stages of a validation, and the rows that they look at.
 */
#ifndef S2_KERNELS_PROBE_H
#define S2_KERNELS_PROBE_H

#include "kernels/rig.h"

typedef struct s2_probe_rows {
    s2_probe_row *row;
    int64_t n;
    bool all; /* every row of the rig's items */
} s2_probe_rows;

/*
 * Rows of the rig's items whose (query, key) pairs stay below budget_pairs: all of them, or the first and
 * last of each tile and rows drawn by the seed. few_heads: of at most four heads. S2_ENOMEM. Released with
 * s2_free(rows->row).
 */
s2_status s2_probe_rows_choose(const s2_rig *rig, int64_t budget_pairs, uint64_t seed, bool few_heads,
                               s2_probe_rows *rows) S2_MUST_CHECK;

/*
 * Host copies of the rig's K and V: keys of blocks that no list leads to become NaN, keys inside listed
 * blocks that no row reads 30000. S2_ENOMEM.
 */
s2_status s2_probe_poison(const s2_rig *rig, uint8_t *k, uint8_t *v) S2_MUST_CHECK;

/* Each returns the outcome, S2_OUTCOME_OK to go on, and fills its part of *out. */
s2_outcome s2_probe_touch(s2_rig *rig, const s2_validate_request *request, s2_validation *out);
s2_outcome s2_probe_numerics(s2_rig *rig, const s2_validate_request *request, s2_validation *out);
s2_outcome s2_probe_needles(s2_device *device, const s2_validate_request *request, s2_validation *out);

#endif /* S2_KERNELS_PROBE_H */
