/*
 * report/found.h - the front of a search as a page for people and as JSON (schema s2search/1).
 *
 * Threads: no state. Check buf->status afterwards.
 */
#ifndef S2_REPORT_FOUND_H
#define S2_REPORT_FOUND_H

#include "search/found.h"

s2_status s2_found_report(const s2_found *found, s2_buf *buf) S2_MUST_CHECK; /* the page; S2_ENOMEM */
void s2_found_json(const s2_found *found, s2_buf *buf);
/* One line: the phases, length, batch, types, GPUs, model and formats that were understood. */
void s2_found_put_question(const s2_found *found, s2_buf *buf);
/*
 * At most `most` designs, the two best among them, such that every other is within *radius of one of them in
 * each objective, as a share of what the front spans there. rows has room for one more.
 */
int32_t s2_found_thin(const s2_found *found, int32_t most, int32_t *rows, double *radius);

#endif /* S2_REPORT_FOUND_H */
