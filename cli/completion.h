/*
 * cli/completion.h - completion scripts for shells, from the table of commands.
 *
 * All shells are offered the same: options, and of each option's value what it may be.
 */
#ifndef S2_CLI_COMPLETION_H
#define S2_CLI_COMPLETION_H

#include "cli/options.h"

/* The values that an option is known to take, each after a space; nothing where it takes anything. */
void s2_completion_values(const s2_option *option, s2_buf *buf);

/* A script for "bash", "zsh" or "fish". */
void s2_completion_print(const char *shell, s2_buf *buf);

#endif /* S2_CLI_COMPLETION_H */
