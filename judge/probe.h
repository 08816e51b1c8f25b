/*
 * judge/probe.h - the stages of a validation, and the rows that they look at.
 */
#ifndef S2_JUDGE_PROBE_H
#define S2_JUDGE_PROBE_H

#include "judge/harness.h"
#include "judge/sight.h"

typedef struct s2_probe_rows {
    s2_probe_row *row;
    int64_t n;
    bool all; /* every row of the harness's items */
} s2_probe_rows;

/*
 * Rows of the harness's items whose (query, key) pairs stay below budget_pairs: all of them, or the first and
 * last of each tile and rows drawn by the seed. few_heads: at most four heads. S2_ENOMEM. Release with
 * s2_free(rows->row).
 */
s2_status s2_probe_rows_choose(const s2_harness *harness, int64_t budget_pairs, uint64_t seed, bool few_heads,
                               s2_probe_rows *rows) S2_MUST_CHECK;

/*
 * Host copies of the harness's K and V: keys of blocks in no list become NaN; keys inside listed blocks that
 * no row reads become 30000. `beside`: another plan whose kernel reads the same keys, and whose blocks may be
 * larger, or NULL. S2_ENOMEM.
 */
s2_status s2_probe_poison(const s2_harness *harness, const s2_plan *beside, uint8_t *k,
                          uint8_t *v) S2_MUST_CHECK;

/* Put into out->symptom the rule that would explain what a convicted forward did; nothing where none does. */
s2_status s2_probe_explain(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why) S2_MUST_CHECK;

/* Explaining takes so many rows, and contexts of so many keys at most. */
enum { S2_SYMPTOM_ROWS = 96, S2_SYMPTOM_KEYS = 8192 };
/*
 * Rows of these heads (NULL: of all n_heads) of the first sequence, spaced so as to hit every position within a
 * block; that of the wrong pair first.
 */
void s2_symptom_rows(const s2_harness *harness, const s2_validation *out, const int32_t *heads,
                     int32_t n_heads, s2_probe_row rows[S2_SYMPTOM_ROWS]);
/*
 * Put into out->symptom the rule under which every row is as it was seen. some: the rows are of wrong heads alone.
 * wrong[row]: 1 where what it reads is not the pattern's.
 */
void s2_symptom_find(const s2_harness *harness, const s2_sight *sight, bool some,
                     uint8_t wrong[S2_SYMPTOM_ROWS], s2_validation *out);

/* Each fills its part of *out, verdict included; the status is about memory and device only. */
s2_status s2_probe_touch(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why) S2_MUST_CHECK;
s2_status s2_probe_numerics(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                            s2_diag *why) S2_MUST_CHECK;
/* The same without the second run. */
s2_status s2_probe_values(s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                          s2_diag *why) S2_MUST_CHECK;
/*
 * Three sequences must be right together, and the middle one's bits those that it has alone. Bits are not compared
 * where the kernel does not promise equal ones or is our own CPU kernel: out->batch stays S2_BATCH_UNKNOWN. Nothing
 * is done where the harness is not whole.
 */
s2_status s2_probe_batch(const s2_harness *harness, const s2_validate_request *request, s2_validation *out,
                         s2_diag *why) S2_MUST_CHECK;
s2_status s2_probe_needles(s2_device *device, const s2_validate_request *request, s2_validation *out,
                           s2_diag *why) S2_MUST_CHECK;

#endif /* S2_JUDGE_PROBE_H */
