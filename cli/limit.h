/*
 * cli/limit.h - the processor time and memory that a command which prints one page may use.
 *
 * Work is limited by counted steps where it is done (base/work.h), the same on every machine. This is the
 * safety net: work that no count foresaw also ends, with a message and exit code 4, and the user can allow
 * more.
 */
#ifndef S2_CLI_LIMIT_H
#define S2_CLI_LIMIT_H

#include "cli/cli.h"

/*
 * From now on this process, however many patterns it was asked about, ends with S2_EXIT_UNDECIDED after
 * $S2_CPU_SECONDS (default 10) of processor time, and when it would hold more than $S2_MEMORY_MIB (default
 * 1000) of memory. Unfinished writes are lost: for databases this is like a kill, and files appear whole or not
 * at all. S2_EXIT_USAGE after a message when a variable does not hold such a number.
 */
s2_exit s2_limit_begin(s2_cli *cli);
/* The processor time that is allowed, and steps of work in proportion: as many as given for the usual 10 s. */
int64_t s2_limit_seconds(void);
int64_t s2_limit_steps(int64_t n_steps);
/* Lift the limits: the user asked explicitly for what follows, so it may take as long as it needs. */
void s2_limit_lift(void);

#endif /* S2_CLI_LIMIT_H */
