/*
 * export/blockmask.h - formats of partial and full blocks with a predicate: FlexAttention and FlashAttention
 * CuTe.
 *
 * Per head and row of blocks there are a count and indices of partial blocks, and the same of full blocks.
 * Partial blocks evaluate a predicate, so these formats hold every static pattern exactly; the predicate is
 * Python, written into a module beside the arrays.
 *
 * A predicate cannot be read back by a C program. What is read back is the canonical text in the manifest,
 * after every listed block was checked against it: full blocks hold every pair, absent blocks none.
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

/* The writer and the reader of a format with these words, as export/format.h wants them. */
s2_status s2_blockmask_export(const s2_target *target, const s2_blockmask_words *words) S2_MUST_CHECK;
s2_status s2_blockmask_import(const s2_source *source, const s2_blockmask_words *words,
                              s2_pattern *out) S2_MUST_CHECK;

#endif /* S2_EXPORT_BLOCKMASK_H */
