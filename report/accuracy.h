/*
 * report/accuracy.h - how good predictions are, as a page and as JSON.
 *
 * Threads: no state.
 */
#ifndef S2_REPORT_ACCURACY_H
#define S2_REPORT_ACCURACY_H

#include "calibrate/accuracy.h"

/* As a page for people; check buf->status. */
void s2_accuracy_print(const s2_accuracy *accuracy, s2_buf *buf);
void s2_accuracy_json(const s2_accuracy *accuracy, s2_buf *buf); /* one object, schema s2accuracy/1 */

/* The passes alone, of constants of another GPU that are called so. */
void s2_accuracy_print_passes(const s2_accuracy *accuracy, const char *constants, s2_buf *buf);
/* One object with a line end, schema s2accuracy-gpu/1. */
void s2_accuracy_passes_json(const s2_accuracy *accuracy, const char *gpu, const char *constants,
                             s2_buf *buf);

#endif /* S2_REPORT_ACCURACY_H */
