/*
 * export/predicate.h - a pattern as Python: mask_mod(b, h, q, k), for kernels that ask per element.
 *
 * The module holds the shape, the body of every layer and head, one function per body and
 * make_mask_mod(layer). It needs nothing but Python; with tensors in place of integers the same expressions
 * run under torch. A static pattern without random lists and mask files is held exactly.
 *
 * Threads: no state.
 */
#ifndef S2_EXPORT_PREDICATE_H
#define S2_EXPORT_PREDICATE_H

#include "export/layout.h"

/* S2_EUNSUPPORTED with the reason when a term has no expression. */
s2_status s2_predicate_check(const s2_target *target) S2_MUST_CHECK;

/* The module's text, from after its documentation string to the end of make_mask_mod. */
void s2_predicate_print(const s2_target *target, const s2_layouts *layouts, s2_buf *buf);

#endif /* S2_EXPORT_PREDICATE_H */
