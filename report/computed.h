/*
 * report/computed.h - what a page and its JSON say of computation that a pattern does not state: latent attention, and
 * how keys are chosen at run time.
 */
#ifndef S2_REPORT_COMPUTED_H
#define S2_REPORT_COMPUTED_H

#include "report/report.h"

/* Lines, or nothing. */
void s2_computed_text(const s2_pattern *pattern, const s2_sim *sim, s2_buf *buf);
/* Members of an open object, or nothing. */
void s2_computed_json(const s2_pattern *pattern, const s2_sim *sim, s2_buf *buf);

#endif /* S2_REPORT_COMPUTED_H */
