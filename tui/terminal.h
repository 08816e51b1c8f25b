/*
 * tui/terminal.h - the real terminal: shows a canvas, hands over keys. Implemented in tui/terminal_ncurses.c,
 * the only file that knows curses.
 *
 * From open to close the terminal is in full-screen mode and brackets pasted text; it is restored on SIGINT,
 * SIGTERM, SIGHUP, SIGQUIT and after a crash. Keys are read as tui/input.h says. SIGTSTP and SIGCONT work as in
 * other programs. One terminal at a time.
 */
#ifndef S2_TUI_TERMINAL_H
#define S2_TUI_TERMINAL_H

#include "tui/canvas.h"
#include "tui/input.h"
#include "tui/looks.h"

typedef struct s2_terminal s2_terminal;

typedef struct s2_terminal_options {
    bool ascii; /* ASCII glyphs even if the locale has more */
    bool mono;  /* no colours even if the terminal has them */
    bool mouse; /* take clicks and the wheel; the terminal's own selection then needs shift */
    s2_palette palette;
} s2_terminal_options;

/* S2_EUNSUPPORTED with the reason in *diag: not a terminal, TERM unset or unknown. */
s2_status s2_terminal_open(const s2_terminal_options *options, s2_terminal **out,
                           s2_diag *diag) S2_MUST_CHECK;
void s2_terminal_close(s2_terminal **term);
bool s2_terminal_is_ascii(const s2_terminal *term);
void s2_terminal_size(const s2_terminal *term, int32_t *rows, int32_t *cols);
void s2_terminal_show(s2_terminal *term, const s2_canvas *canvas);
/* Repaint everything when next shown. */
void s2_terminal_forget(s2_terminal *term);
/*
 * A key, or what tui/input.h has besides keys but S2_TERM_MORE; waits at most wait_ms, or until one of the n files can
 * be read.
 */
int32_t s2_terminal_key(s2_terminal *term, int32_t wait_ms, const int *files, int32_t n_files);
/* Where the last S2_TERM_CLICK was, and the wheel's turn (-1 up, 1 down, 0 a button). */
void s2_terminal_clicked(const s2_terminal *term, int32_t *row, int32_t *col, int32_t *wheel);
/* The text of the last S2_TERM_PASTE, in lines, without anything that a terminal would obey. */
const char *s2_terminal_pasted(const s2_terminal *term);
/* Lend the terminal, restored, to another program; take it back and repaint everything. */
void s2_terminal_lend(s2_terminal *term);
void s2_terminal_take(s2_terminal *term);
/* Ask the terminal to put text on the clipboard (OSC 52); terminals that do not know OSC 52 ignore it. */
void s2_terminal_copy(s2_terminal *term, const char *text);

#endif /* S2_TUI_TERMINAL_H */
