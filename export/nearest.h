/*
 * export/nearest.h - the nearest pattern that a format can express, for one that it cannot.
 *
 * Candidates are, in this order, what the format makes of the pattern itself, of one phase of it, and of the
 * families that formats hold: a window with a rotated stride, first and recent tokens next to dense KV heads,
 * one window per layer. Each is written and read back until it stays the same. The first that gives up
 * nothing, in the caller's judgement, wins; otherwise the one that gives up least.
 * Every suggestion has been exported: the format holds its text, read again, exactly.
 *
 * Ownership: results live in the arena of the target. Threads: no state; one target, one thread.
 */
#ifndef S2_EXPORT_NEAREST_H
#define S2_EXPORT_NEAREST_H

#include "export/registry.h"

/* What is given up when `candidate` replaces the pattern; 0: nothing. */
typedef struct s2_nearest_judge {
    int32_t (*given_up)(void *context, const s2_pattern *candidate);
    void *context;
} s2_nearest_judge;

typedef struct s2_nearest {
    s2_pattern pattern;
    const char *text; /* the canonical text on one line; NULL: none was found */
    int32_t n_files;  /* that it makes */
    int64_t
        sink_tok; /* that the pattern has and the suggestion, which is not dense, has not; 0: nothing is lost */
    bool has_loss; /* the pairs were counted; else they are too many to count */
    s2_loss loss;  /* from the pattern to the suggestion, in contexts of target->n_tok tokens */
} s2_nearest;

/*
 * Call it after s2_export_run() refused. Patterns with dynamic terms, and layers of different shapes, have no
 * nearest one. Leaves the target's notes, files and diag alone. S2_ENOMEM.
 */
s2_status s2_export_nearest(const s2_format *format, const s2_target *target, s2_nearest_judge judge,
                            s2_nearest *out) S2_MUST_CHECK;

/* Whether another format holds the target's pattern without loss, and in how many files. Otherwise as above. */
s2_status s2_export_holds(const s2_format *format, const s2_target *target, bool *held,
                          int32_t *n_files) S2_MUST_CHECK;

#endif /* S2_EXPORT_NEAREST_H */
