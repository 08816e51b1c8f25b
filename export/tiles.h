/*
 * export/tiles.h - this repository's own plan (plan/plan.h) as constants of a C header.
 *
 * One plan for each kind of layer, flattened: work items with their tile and heads, and for each item a list
 * of key blocks with the 16-row slabs that read them and, where a block is read in part, a bit per element.
 * It is what a kernel of kernels/ would get for one sequence of a fixed length, without the library.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_TILES_H
#define S2_EXPORT_TILES_H

#include "export/format.h"

/*
 * Append the constants and arrays, all named S2_PLAN_... and s2_plan_... . Settings: tile, key, pack.
 * S2_EUNSUPPORTED with the reason when there is no such plan or it is too large for a header; S2_ENOMEM.
 */
s2_status s2_tiles_print(const s2_target *target, int64_t n_tok, s2_buf *buf) S2_MUST_CHECK;

/* `static const TYPE NAME[N] = {...};`, never empty, for C does not allow that. */
void s2_c_array_print(s2_buf *buf, const char *type, const char *name, const int64_t *values, int64_t n);

#endif /* S2_EXPORT_TILES_H */
