/*
 * cli/accuracy.h - how good predictions are, as a page and as JSON.
 *
 * Threads: no state.
 */
#ifndef S2_CLI_ACCURACY_H
#define S2_CLI_ACCURACY_H

#include "calibrate/accuracy.h"

/* As a page for people; check buf->status. */
void s2_accuracy_print(const s2_accuracy *accuracy, s2_buf *buf);
void s2_accuracy_json(const s2_accuracy *accuracy, s2_buf *buf); /* one object, schema s2accuracy/1 */

#endif /* S2_CLI_ACCURACY_H */
