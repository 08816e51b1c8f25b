/*
 * cli/machine.h - a machine of many GPUs in s2 sim: its options, and what page and JSON say of it.
 */
#ifndef S2_CLI_MACHINE_H
#define S2_CLI_MACHINE_H

#include "cli/options.h"
#include "cli/report.h"

/* --pp, --micro, --cp, --nodes; S2_EXIT_USAGE after a message. */
s2_exit s2_machine_options(s2_cli *cli, const s2_args *args, s2_sim_options *options);

/* GPUs that work on one batch: all but replicas. */
int32_t s2_machine_gpus(const s2_sim_options *options);

/* Lines, or nothing; a member of an open object, or nothing. */
void s2_machine_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);
void s2_links_text(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);
void s2_machine_json(const s2_sim_options *options, const s2_sim *sim, s2_buf *buf);

#endif /* S2_CLI_MACHINE_H */
