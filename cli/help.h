/*
 * cli/help.h - help and manual pages, from the table of commands.
 */
#ifndef S2_CLI_HELP_H
#define S2_CLI_HELP_H

#include "cli/options.h"

/* What `s2 help` prints: every command with its summary. */
s2_exit s2_help_overview(s2_cli *cli);
/* What `s2 COMMAND --help` prints; returns an exit code. */
s2_exit s2_help_print(s2_cli *cli, const s2_command *command);
/*
 * A manual page in groff's man macros; command NULL: that of s2 itself. program "s2check": that program's.
 */
void s2_help_man(const char *program, const s2_command *command, s2_buf *buf);
/* The page of s2cert, which is not in the table because it shares no code with the rest. */
void s2_help_man_s2cert(s2_buf *buf);

#endif /* S2_CLI_HELP_H */
