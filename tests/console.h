/*
 * tests/console.h - s2 in a real pseudo-terminal, read back by a terminal emulator (libvterm).
 *
 * The program is the `s2` that was built beside the test. What it shows is compared with a golden cell by
 * cell: glyphs, and colours and attributes as tui/looks.h says for the kind of terminal.
 */
#ifndef S2_TESTS_CONSOLE_H
#define S2_TESTS_CONSOLE_H

#include <stdbool.h>
#include <sys/types.h>

#include <vterm.h>

#include "base/text.h"
#include "tui/looks.h"

/* What a test waits for comes within patience on the slowest of machines; only a failure takes that long. */
enum { CONSOLE_QUIET_MS = 60, CONSOLE_PATIENCE_MS = 120000, CONSOLE_LATE_MS = 40000 };

typedef struct console {
    int fd;
    pid_t child;
    int rows;
    int cols;
    VTerm *vt;
    VTermScreen *screen;
    bool alternate; /* the program has switched to the alternate screen and not back */
    bool cursor_hidden;
    bool titled;     /* it set the window's title, which no view does */
    double first_ms; /* of the last drain: when the first bytes came; 0: none did */
    s2_buf raw;      /* all that it wrote, where kept */
    bool keep;
} console;

typedef struct console_options {
    const char *term;
    const char *locale;
    const char *dir;  /* to run in; NULL: here */
    const char *args; /* words after "s2 tui" */
    int rows;
    int cols;
    bool keeps; /* what is kept of a session is in dir; else nothing is */
} console_options;

double console_now_ms(void);
/* Where the program is. */
const char *console_program(void);
void console_open(console *c, const console_options *options);
/* Bytes to the emulator until none came for quiet_ms; the time of the last one. */
double console_drain(console *c, int quiet_ms);
/* Drain until the screen holds this text; false when patience ends first. */
bool console_wait(console *c, const char *text);
/* Never waits for a program that itself waits for its screen to be read. */
void console_send(console *c, const char *keys);
void console_resize(console *c, int rows, int cols);
/* Drain until the program is in full-screen mode, or not; false when patience ends first. */
bool console_full_screen(console *c, bool wanted);
/* Waits for its end; the status of waitpid. One that does not end is killed, and the test fails. */
int console_close(console *c);
/* The same where the terminal goes away from under it. */
int console_hang_up(console *c);
/* It reads no more keys: nobody takes what it paints. False where it still does. */
bool console_is_full(console *c);
/* Rows of glyphs, a '|' after each. */
void console_read(const console *c, s2_buf *buf);
bool console_shows(const console *c, const char *text);

typedef enum console_colours { CONSOLE_256, CONSOLE_8, CONSOLE_MONO } console_colours;
/* Fails the test where a cell differs from the golden file (glyph rows, then letters of styles). */
void console_check(console *c, const char *golden, console_colours colours, const char *what);
/* The same of what a command (`tmux capture-pane -p -e`) prints. */
void console_check_pane(const char *command, int rows, int cols, const char *golden, const char *what);
/* The style of a letter of a golden, -1 for none. */
int console_style(char letter);

#endif /* S2_TESTS_CONSOLE_H */
