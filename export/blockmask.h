/*
 * export/blockmask.h - formats of partial and full blocks with a predicate: FlexAttention and FlashAttention
 * CuTe.
 *
 * Each head and row of blocks has a count and the indices of its partial blocks, and the same for full
 * blocks. Partial blocks evaluate a predicate, so these formats hold every static pattern exactly; the
 * predicate is Python, written into a module next to the arrays.
 *
 * A C program cannot read a predicate back. The importer reads the canonical text in the manifest instead,
 * and checks every listed block against it: full blocks hold every pair, absent blocks none.
 * tests/formats/ runs the Python itself.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_BLOCKMASK_H
#define S2_EXPORT_BLOCKMASK_H

#include "export/layout.h"

/* What such a format calls its arrays and files. */
typedef struct s2_blockmask_words {
    const char *format;
    const char *manifest; /* file names */
    const char *module;
    const char *partial_count; /* arrays */
    const char *partial_index;
    const char *full_count;
    const char *full_index;
    bool has_batch;         /* arrays have a first axis of length 1 */
    const char *module_end; /* Python after make_mask_mod, may be "" */
} s2_blockmask_words;

/* `write` and `read` of s2_format (export/format.h) for a format with these words. */
s2_status s2_blockmask_export(const s2_target *target, const s2_blockmask_words *words) S2_MUST_CHECK;
s2_status s2_blockmask_import(const s2_source *source, const s2_blockmask_words *words,
                              s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_BLOCKMASK_H */
