/*
 * cli/needles.h - the needle grid of a stored validation as a picture: what came back, by length and depth.
 */
#ifndef S2_CLI_NEEDLES_H
#define S2_CLI_NEEDLES_H

#include "cli/input.h"

/*
 * The latest validation of the design that has a grid. form: "ansi", "ascii" or "svg". S2_EXIT_OK, or the exit
 * code after a message: nothing stored, another form.
 */
s2_exit s2_needles_draw(s2_cli *cli, const s2_input *input, const char *form, s2_buf *buf);

#endif /* S2_CLI_NEEDLES_H */
