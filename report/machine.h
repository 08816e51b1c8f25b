/*
 * report/machine.h - what page and JSON of s2 sim say of a machine of many GPUs.
 */
#ifndef S2_REPORT_MACHINE_H
#define S2_REPORT_MACHINE_H

#include "report/report.h"

/* GPUs that work on one batch: all but replicas. */
int32_t s2_machine_gpus(const s2_sim_options *options);

/* Are more GPUs than a usual node has priced as one? The sentence that says so, with a line's end. */
bool s2_machine_one_node(const s2_sim_options *options);
void s2_machine_put_one_node(const s2_sim_options *options, s2_buf *buf);

/* Lines, or nothing; a member of an open object, or nothing. */
void s2_machine_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);
void s2_links_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);
void s2_machine_json(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);

#endif /* S2_REPORT_MACHINE_H */
