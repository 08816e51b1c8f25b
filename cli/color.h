/*
 * cli/color.h - what --quiet and --color do to a page with verdicts. The words do not change: colour is never
 * the only carrier of information.
 *
 * Threads: no state.
 */
#ifndef S2_CLI_COLOR_H
#define S2_CLI_COLOR_H

#include "cli/options.h"

/* Read --quiet and --color from the command line into *cli; a command that has neither prints plainly. */
void s2_color_read(s2_cli *cli, const s2_args *args);

/*
 * s2_cli_print for text whose verdicts ("holds", "ok", "same", ...) begin at `column` of their lines: prints
 * in colour if requested, and nothing under --quiet. Releases the buffer.
 */
s2_exit s2_color_print(s2_cli *cli, s2_buf *text, int32_t column);

#endif /* S2_CLI_COLOR_H */
