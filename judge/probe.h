/*
 * judge/probe.h - the stages of a validation, and the rows that they look at.
 */
#ifndef S2_JUDGE_PROBE_H
#define S2_JUDGE_PROBE_H

#include "judge/harness.h"

typedef struct s2_probe_rows {
    s2_probe_row *row;
    int64_t n;
    bool all; /* every row of the harness's items */
} s2_probe_rows;

/*
 * Rows of the harness's items whose (query, key) pairs stay below budget_pairs: all of them, or the first and
 * last of each tile and rows drawn by the seed. few_heads: of at most four heads. S2_ENOMEM. Released with
 * s2_free(rows->row).
 */
s2_status s2_probe_rows_choose(const s2_harness *harness, int64_t budget_pairs, uint64_t seed, bool few_heads,
                               s2_probe_rows *rows) S2_MUST_CHECK;

/*
 * Host copies of the harness's K and V: keys of blocks that no list leads to become NaN, keys inside listed
 * blocks that no row reads 30000. S2_ENOMEM.
 */
s2_status s2_probe_poison(const s2_harness *harness, uint8_t *k, uint8_t *v) S2_MUST_CHECK;

/* The keys that some rows of the first sequence really read, with nothing taken from the pattern. */
typedef struct s2_sight {
    s2_probe_row *row;
    int64_t n_rows;
    int64_t row_bytes; /* of a row of `seen` */
    uint8_t *seen;     /* [row][key / 8], zeros before */
    int64_t *n_seen;   /* [row]; 0: none, or what came is no mean over keys */
} s2_sight;
/* Fill seen and n_seen of the rows given. S2_ENOMEM, or what the device says. */
s2_status s2_probe_see(s2_harness *harness, uint64_t seed, s2_sight *out, s2_diag *why) S2_MUST_CHECK;

/* Say in out->symptom which rule would explain what a convicted forward did; nothing where none does. */
s2_status s2_probe_explain(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why) S2_MUST_CHECK;

/* Each fills its part of *out, the verdict with it; what memory and device say is the status. */
s2_status s2_probe_touch(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why) S2_MUST_CHECK;
s2_status s2_probe_numerics(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                            s2_diag *why) S2_MUST_CHECK;
/* Nothing where the kernel promises no bits, is our own of a CPU, or the harness is not whole: then out->batch stays S2_BATCH_UNKNOWN. */
s2_status s2_probe_batch(const s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why) S2_MUST_CHECK;
s2_status s2_probe_needles(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_PROBE_H */
