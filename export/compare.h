/*
 * export/compare.h - do two patterns read the same pairs, and how many pairs apart are they?
 *
 * Every export is read back and compared here before it is written. Two heads whose folded atoms are the
 * same are equal at every length; otherwise rows are compared, up to the length after which rows repeat
 * (the sum of the views' thresholds, reach and periods: beyond it every pair is a shifted copy of one
 * already seen), so equality again holds for every length. Patterns with random lists or mask files,
 * and periods too long to enumerate, are compared up to a stated length.
 *
 * Threads: none shared. Ownership: plain values.
 */
#ifndef S2_EXPORT_COMPARE_H
#define S2_EXPORT_COMPARE_H

#include "base/text.h"
#include "pattern/view.h"

typedef struct s2_difference {
    bool differs;
    bool every_length; /* else the comparison holds for contexts of up to n_tok tokens */
    int64_t n_tok;
    char what[160]; /* a difference of shape or of dynamic terms; "" when a pair differs */
    s2_phase phase; /* the first pair that differs, canonical: phase, layer, head, query, key */
    int32_t layer;
    int32_t head;
    int64_t q_tok;
    int64_t k_tok;
    bool first_reads; /* the first pattern reads the pair, the second does not */
} s2_difference;

/*
 * n_tok > 0: compare contexts of n_tok tokens; 0: every length. S2_ENOMEM; S2_ELIMIT when rows are too many
 * to enumerate in *work_left steps (base/work.h), NULL: in some seconds. KV heads are compared too; names, head
 * dimension and block size are not.
 */
s2_status s2_patterns_compare(const s2_pattern *first, const s2_pattern *second, int64_t n_tok,
                              int64_t *work_left, s2_difference *out) S2_MUST_CHECK;

/*
 * Pairs that second reads and first does not (added), and the reverse (dropped), over all layers, heads
 * and (when either pattern has them) phases, in a context of n_tok tokens; n_first: what first reads.
 */
typedef struct s2_loss {
    int64_t n_tok;
    int64_t n_first;
    int64_t added;
    int64_t dropped;
} s2_loss;
s2_status s2_patterns_loss(const s2_pattern *first, const s2_pattern *second, int64_t n_tok,
                           int64_t *work_left, s2_loss *out) S2_MUST_CHECK;

/*
 * The lowest key that only one of two rows (maximal ascending runs) has, and whether that is the first row;
 * S2_OPEN when the rows are the same.
 */
int64_t s2_runs_first_difference(const s2_run *first, int64_t n_first, const s2_run *second, int64_t n_second,
                                 bool *first_reads);

#endif /* S2_EXPORT_COMPARE_H */
