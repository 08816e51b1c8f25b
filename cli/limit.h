/*
 * cli/limit.h - the processor time and the memory that a command of one page may take.
 *
 * Work is limited by counted steps where it is done (base/work.h), the same on every machine. This is the net
 * below: what no count foresaw ends too, with a word and exit code 4, and can be allowed more.
 */
#ifndef S2_CLI_LIMIT_H
#define S2_CLI_LIMIT_H

#include "cli/cli.h"

/*
 * From now on this process ends with S2_EXIT_UNDECIDED after $S2_CPU_SECONDS of processor time, else 10, and
 * when it would hold more than $S2_MEMORY_MIB of memory, else 1000.
 * Nothing that is being written stays: databases take it for a kill, files appear whole or not at all.
 * S2_EXIT_USAGE, having said why, when a variable holds no such number.
 */
s2_exit s2_limit_begin(s2_cli *cli);
/* No longer: what follows was asked for by a word of its own, and takes what it takes. */
void s2_limit_lift(void);

#endif /* S2_CLI_LIMIT_H */
