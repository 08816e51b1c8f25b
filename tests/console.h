/*
 * tests/console.h - s2 in a real pseudo-terminal, read back by a terminal emulator (libvterm).
 *
 * The program is the `s2` that was built together with the test. What it shows is compared with a golden cell
 * by cell: glyphs, and the colours and attributes that tui/looks.h gives this kind of terminal.
 */
#ifndef S2_TESTS_CONSOLE_H
#define S2_TESTS_CONSOLE_H

#include <stdbool.h>
#include <sys/types.h>

#include <vterm.h>

#include "base/text.h"
#include "tui/looks.h"

/* On the slowest machine, what a test waits for comes within the patience; only a failure takes that long. */
enum { CONSOLE_QUIET_MS = 60, CONSOLE_PATIENCE_MS = 120000, CONSOLE_LATE_MS = 40000 };

typedef struct console {
    int fd;
    pid_t child;
    int rows;
    int cols;
    VTerm *vt;
    VTermScreen *screen;
    bool alternate; /* the program is on the alternate screen */
    bool cursor_hidden;
    bool titled;     /* it set the window's title, which no view does */
    double first_ms; /* when the first bytes of the last drain came; 0: none did */
    s2_buf raw;      /* all that it wrote, if `keep` */
    bool keep;
} console;

typedef struct console_options {
    const char *term;
    const char *locale;
    const char *dir;  /* to run in; NULL: the current one */
    const char *args; /* words after "s2 tui" */
    int rows;
    int cols;
    bool keeps; /* the session is saved in dir; else not at all */
} console_options;

/* The path of the program. */
const char *console_program(void);
void console_open(console *c, const console_options *options);
/* Feed the emulator until no bytes have come for quiet_ms; returns the time of the last one. */
double console_drain(console *c, int quiet_ms);
/* Drain until the screen shows this text; false when patience ends first. */
bool console_wait(console *c, const char *text);
/* Reads the screen while it waits, so that it cannot deadlock with a program that waits for its reader. */
void console_send(console *c, const char *keys);
void console_resize(console *c, int rows, int cols);
/* Drain until the program is in full-screen mode, or not; false when patience ends first. */
bool console_full_screen(console *c, bool wanted);
/* Wait for the program to end; waitpid's status. If it does not end, it is killed and the test fails. */
int console_close(console *c);
/* The same, but the terminal is closed first. */
int console_hang_up(console *c);
/* Whether it has stopped reading keys because nobody reads what it paints. */
bool console_is_full(console *c);
/* Rows of glyphs, a '|' after each. */
void console_read(const console *c, s2_buf *buf);
bool console_shows(const console *c, const char *text);

typedef enum console_colours { CONSOLE_256, CONSOLE_8, CONSOLE_MONO } console_colours;
/* Fails the test if a cell differs from the golden file (glyph rows, then style letters). */
void console_check(console *c, const char *golden, console_colours colours, const char *what);
/* The same for what a command (`tmux capture-pane -p -e`) prints. */
void console_check_pane(const char *command, int rows, int cols, const char *golden, const char *what);
/* The style that a letter in a golden stands for; -1: none. */
int console_style(char letter);

#endif /* S2_TESTS_CONSOLE_H */
