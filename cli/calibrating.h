/*
 * cli/calibrating.h - `s2 calibrate --from` a table of times of somebody else's kernel.
 */
#ifndef S2_CLI_CALIBRATING_H
#define S2_CLI_CALIBRATING_H

#include "cli/commands.h"
#include "cli/options.h"

/* Fit laws to the table whose text was read from `path`, judge them, print and write them. */
s2_exit s2_calibrate_table(s2_cli *cli, const s2_args *args, const char *path, char *text, size_t n_bytes);

#endif /* S2_CLI_CALIBRATING_H */
