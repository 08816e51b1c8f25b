/*
 * cli/color.h - what --quiet and --color do to a page with verdicts. The words stay what they are: colour is
 * never all that says something.
 *
 * Threads: no state.
 */
#ifndef S2_CLI_COLOR_H
#define S2_CLI_COLOR_H

#include "cli/options.h"

/* Take --quiet and --color from the command line into *cli; a command that has neither prints plainly. */
void s2_color_read(s2_cli *cli, const s2_args *args);

/*
 * s2_cli_print for text whose verdicts begin at `column` of their lines ("holds", "ok", "same", ...): in colour
 * where that is asked for, nothing under --quiet. Releases the buffer.
 */
s2_exit s2_color_print(s2_cli *cli, s2_buf *text, int32_t column);

#endif /* S2_CLI_COLOR_H */
