/*
 * cli/textfile.h - a whole file of text, bounded.
 */
#ifndef S2_CLI_TEXTFILE_H
#define S2_CLI_TEXTFILE_H

#include "cli/cli.h"

enum { S2_TEXTFILE_MOST = 1 << 25 };

/* In cli->arena, terminated, without a byte order mark. S2_EXIT_OK, or the exit code after a message. */
s2_exit s2_textfile_read(s2_cli *cli, const char *path, char **text, size_t *n_bytes);

#endif /* S2_CLI_TEXTFILE_H */
