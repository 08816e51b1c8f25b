/*
 * export/mask_file.h - what a layer reads, as a picture or an array: txt, pbm, npy or csr, for `s2 mask`.
 *
 * Threads: none shared. Ownership: scratch lives in the arena given.
 */
#ifndef S2_EXPORT_MASK_FILE_H
#define S2_EXPORT_MASK_FILE_H

#include <stdio.h>

#include "pattern/folds.h"

typedef struct s2_mask_ask {
    const s2_pattern *pattern;
    const s2_folds *folds; /* of the pattern, in one phase */
    int32_t layer;
    int64_t n_tok;
    bool tokens;        /* a cell is a pair of tokens; else of blocks */
    bool stacked;       /* a plane for each head, in a leading dimension; else one plane */
    int32_t head_begin; /* the heads that one plane shows together */
    int32_t head_end;
    int64_t *work_left; /* base/work.h; NULL: no limit */
} s2_mask_ask;

/* Rows of a plane, and the number of planes. */
int64_t s2_mask_rows(const s2_mask_ask *ask);
int64_t s2_mask_planes(const s2_mask_ask *ask);

/*
 * format: "txt" or "pbm" (the first plane alone), "npy", or "csr" (two arrays: where rows begin, then their
 * columns). A failed write shows in ferror(out). S2_ENOMEM; S2_ELIMIT: more entries than csr can count, or
 * no work is left.
 */
s2_status s2_mask_write(s2_arena *arena, const s2_mask_ask *ask, const char *format, FILE *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_MASK_FILE_H */
