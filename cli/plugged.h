/*
 * cli/plugged.h - somebody else's kernel on the command line: `--kernel ./mine.so` or `--kernel 'python3 mine.py'`.
 */
#ifndef S2_CLI_PLUGGED_H
#define S2_CLI_PLUGGED_H

#include "cli/cli.h"
#include "kernels/kernel.h"

/* Whether this is a file or a command, not a kernel of s2. */
bool s2_plugged_is(const char *kernel);

/* A kernel of s2; S2_EXIT_USAGE after a message where none has this name. */
s2_exit s2_kernel_of_name(s2_cli *cli, const char *name, const s2_kernel **out);

/*
 * Open it on a CPU device, where a call may take limit_s seconds (0: any time). S2_EXIT_OK, or the exit code
 * after a message. s2_plugged_close() ends its process, if it has one.
 */
s2_exit s2_plugged_open(s2_cli *cli, s2_device *device, const char *kernel, double limit_s,
                        const s2_kernel **out);
void s2_plugged_close(void);

#endif /* S2_CLI_PLUGGED_H */
