/*
 * cli/completion.h - completion scripts for shells, from the table of commands.
 *
 * All shells are offered the same: options, and the possible values of each option.
 */
#ifndef S2_CLI_COMPLETION_H
#define S2_CLI_COMPLETION_H

#include "cli/options.h"

/* The known values of an option, each after a space; nothing if it accepts any value. */
void s2_completion_values(const s2_option *option, s2_buf *buf);

/* A script for "bash", "zsh" or "fish". */
void s2_completion_print(const char *shell, s2_buf *buf);

#endif /* S2_CLI_COMPLETION_H */
