#define NCURSES_WIDECHAR 1
#include "tui/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/clock.h"
#include "base/text.h"

/* Resets a terminal outright, for when no code of ours can be relied on to do it step by step. */
static const char RESTORE[] = "\033[?2004l\033[?1000l\033[?1006l\033[?1049l\033[?25h\033[0m\033[?1l\033>\r\n";

struct s2_terminal {
    SCREEN *screen;
    bool ascii;
    attr_t attr[S2_N_STYLES];
    short pair[S2_N_STYLES];
    bool mouse;
    s2_typed input;
    int64_t came_ms; /* when the last byte of it came */
};

static volatile sig_atomic_t ended;
static volatile sig_atomic_t continued;
static volatile sig_atomic_t resized;

static void on_end(int number)
{
    (void)number;
    ended = 1;
}

static void on_continue(int number)
{
    (void)number;
    continued = 1;
}

static void on_resize(int number)
{
    (void)number;
    resized = 1;
}

static struct sigaction before_cut;

/*
 * After a crash nothing but write() is safe; the terminal's modes were saved when it was opened. Where a mapped file
 * was cut short the fault comes again, to who watched for it before.
 */
static void on_crash(int number, siginfo_t *about, void *context)
{
    const ssize_t n = write(STDOUT_FILENO, RESTORE, sizeof RESTORE - 1);
    (void)n;
    (void)context;
    reset_shell_mode();
    if (number == SIGBUS && about->si_code == BUS_ADRERR) {
        sigaction(SIGBUS, &before_cut, NULL);
        return;
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP},
                     crashes[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction end = {.sa_handler = on_end}, crash = {.sa_sigaction = on_crash};
    const struct sigaction go_on = {.sa_handler = on_continue};
    const struct sigaction other_size = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    sigaction(SIGCONT, &go_on, NULL);
    sigaction(SIGWINCH, &other_size, NULL);
    crash.sa_flags = (int)(SA_RESETHAND | SA_SIGINFO);
    sigaction(SIGBUS, NULL, &before_cut);
    for (size_t n = 0; n < sizeof ends / sizeof ends[0]; n++)
        sigaction(ends[n], &end, NULL);
    for (size_t n = 0; n < sizeof crashes / sizeof crashes[0]; n++)
        sigaction(crashes[n], &crash, NULL);
}

static attr_t attributes_of(uint8_t looks)
{
    return (attr_t)((looks & S2_LOOK_BOLD ? A_BOLD : 0) | (looks & S2_LOOK_REVERSE ? A_REVERSE : 0) |
                    (looks & S2_LOOK_UNDERLINE ? A_UNDERLINE : 0));
}

static void choose_looks(s2_terminal *term, const s2_terminal_options *options)
{
    const bool colours = !options->mono && has_colors() && start_color() == OK;
    const bool defaults = colours && use_default_colors() == OK;
    for (short style = 0; style < S2_N_STYLES; style++) {
        const s2_look *const l = s2_look_of(options->palette, (s2_style)style);
        term->attr[style] = attributes_of(colours ? l->attr : l->mono);
        if (!colours)
            continue;
        short fg = COLORS >= 256 ? l->fg256 : l->fg8, bg = COLORS >= 256 ? l->bg256 : l->bg8;
        fg = fg < 0 && !defaults ? COLOR_WHITE : fg;
        bg = bg < 0 && !defaults ? COLOR_BLACK : bg;
        term->pair[style] = (short)(style + 1);
        init_pair(term->pair[style], fg, bg);
    }
}

/* Write every byte, even if a resize or a slow terminal interrupts; a lost terminal is noticed elsewhere. */
static void write_all(const char *bytes, size_t n)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (n > 0 && !ended) {
        const ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno == EAGAIN)
            poll(&out, 1, 100);
        else if (written < 0 && errno != EINTR)
            return;
        bytes += s2_max_i64(written, 0);
        n -= written > 0 ? (size_t)written : 0;
    }
}

static void ask_for(const char *mode)
{
    write_all(mode, strlen(mode));
}

/* That the terminal marks what is pasted, and tells clicks. */
static void ask_for_input(const s2_terminal *term, bool on)
{
    ask_for(on ? "\033[?2004h" : "\033[?2004l");
    if (term->mouse)
        ask_for(on ? "\033[?1000h\033[?1006h" : "\033[?1006l\033[?1000l");
}

/* Check before starting curses: on an unknown terminal it would end the process, or leak memory. */
static s2_status check_terminal(s2_diag *diag)
{
    const char *const name = getenv("TERM");
    int error;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "standard input and output are not a terminal");
    if (setupterm(NULL, STDOUT_FILENO, &error) != OK)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "no description of the terminal '%s' (TERM)",
                           name != NULL ? name : "");
    const char *const cup = tigetstr("cup");
    const bool places_cursor = cup != NULL && cup != (const char *)-1;
    del_curterm(cur_term);
    if (!places_cursor)
        return s2_diag_set(diag, S2_EUNSUPPORTED, 0, 0, 0, "the terminal '%s' (TERM) cannot place its cursor",
                           name != NULL ? name : "");
    return S2_OK;
}

s2_status s2_terminal_open(const s2_terminal_options *options, s2_terminal **out, s2_diag *diag)
{
    S2_TRY(check_terminal(diag));
    s2_terminal *const term = s2_calloc(1, sizeof *term);
    if (term == NULL)
        return S2_ENOMEM;
    setlocale(LC_CTYPE, "");
    term->ascii = options->ascii || strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    /* before the terminal is changed; curses leaves alone handlers that are not the default */
    ended = 0;
    catch_signals();
    term->screen = newterm(NULL, stdout, stdin);
    if (term->screen == NULL) {
        s2_free(term);
        return S2_ENOMEM;
    }
    set_term(term->screen);
    raw();
    noecho();
    nonl();
    leaveok(stdscr, FALSE);
    curs_set(0);
    choose_looks(term, options);
    term->mouse = options->mouse;
    ask_for_input(term, true);
    *out = term;
    return S2_OK;
}

/* A terminal that keeps the screen has the shell's prompt on its last line, which then is an empty one. */
static void give_back(const s2_terminal *term)
{
    ask_for_input(term, false);
    move(LINES - 1, 0);
    clrtoeol();
    refresh();
    endwin();
}

void s2_terminal_close(s2_terminal **term)
{
    if (*term == NULL)
        return;
    give_back(*term);
    delscreen((*term)->screen);
    s2_typed_release(&(*term)->input);
    s2_free(*term);
    *term = NULL;
}

bool s2_terminal_is_ascii(const s2_terminal *term)
{
    return term->ascii;
}

void s2_terminal_size(const s2_terminal *term, int32_t *rows, int32_t *cols)
{
    (void)term;
    *rows = LINES;
    *cols = COLS;
}

static void show_cell(const s2_terminal *term, int32_t row, int32_t col, s2_cell cell)
{
    const wchar_t text[2] = {(wchar_t)cell.glyph, L'\0'};
    cchar_t out;
    if (cell.glyph != 0 && setcchar(&out, text, term->attr[cell.style], term->pair[cell.style], NULL) == OK)
        mvadd_wch(row, col, &out);
}

void s2_terminal_show(s2_terminal *term, const s2_canvas *canvas)
{
    for (int32_t row = 0; row < canvas->rows && row < LINES; row++)
        for (int32_t col = 0; col < canvas->cols && col < COLS; col++)
            show_cell(term, row, col, canvas->cells[row * canvas->cols + col]);
    refresh();
}

void s2_terminal_forget(s2_terminal *term)
{
    (void)term;
    clearok(curscr, TRUE);
}

void s2_terminal_lend(s2_terminal *term)
{
    give_back(term);
}

/* If its size changed in between, the next key reports that. What was typed meanwhile stays. */
void s2_terminal_take(s2_terminal *term)
{
    reset_prog_mode();
    refresh();
    ask_for_input(term, true);
    clearok(curscr, TRUE);
}

/* ---- keys */

static int32_t suspend(s2_terminal *term)
{
    give_back(term);
    raise(SIGSTOP);
    refresh();
    ask_for_input(term, true);
    return S2_TERM_RESIZED;
}

static int32_t take_size(void)
{
    struct winsize size;
    resized = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resize_term(size.ws_row, size.ws_col);
    clearok(curscr, TRUE);
    return S2_TERM_RESIZED;
}

/* Another program used the terminal in between. */
static int32_t go_on(s2_terminal *term)
{
    continued = 0;
    reset_prog_mode();
    ask_for_input(term, true);
    clearok(curscr, TRUE);
    return S2_TERM_RESIZED;
}

/*
 * One byte, so that what is typed for the program that borrows the terminal is left to it, and curses sees that more
 * is there. False where none has come; *lost: none will.
 */
static bool take_byte(s2_terminal *term, bool *lost)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    *lost = false;
    if (poll(&in, 1, 0) <= 0)
        return false;
    const ssize_t n = read(STDIN_FILENO, &byte, 1);
    *lost = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
    if (n <= 0)
        return false;
    s2_typed_add(&term->input, byte);
    term->came_ms = s2_steady_ms();
    return true;
}

/* Bytes that have come are read before time decides: the program may be late, not they. */
static int32_t read_input(s2_terminal *term)
{
    bool lost = false, took = false;
    int32_t key = s2_typed_key(&term->input, false);
    while ((key == S2_TERM_NOTHING || key == S2_TERM_MORE) && take_byte(term, &lost)) {
        took = true;
        key = s2_typed_key(&term->input, false);
    }
    if (lost)
        return S2_TERM_END;
    if (key == S2_TERM_MORE && s2_steady_ms() - term->came_ms >= s2_typed_patience_ms(&term->input))
        key = s2_typed_key(&term->input, true);
    /* curses leaves a screen half painted when it sees that a key has come */
    if (took && (key == S2_TERM_NOTHING || key == S2_TERM_MORE))
        doupdate();
    return key;
}

static int32_t read_key(s2_terminal *term)
{
    enum { CTRL_C = 3, CTRL_Z = 26 };
    if (ended)
        return S2_TERM_END;
    if (continued)
        return go_on(term);
    if (resized)
        return take_size();
    /* raw() hands ^C, ^Z and ^\ over as keys */
    const int32_t key = read_input(term);
    return key == CTRL_C ? S2_TERM_END : key == CTRL_Z ? suspend(term) : key;
}

/* Until when the beginning of a sequence is waited for, at most wait_ms. */
static int32_t wait_of(const s2_terminal *term, int32_t key, int32_t wait_ms)
{
    if (key != S2_TERM_MORE)
        return wait_ms;
    const int64_t left = term->came_ms + s2_typed_patience_ms(&term->input) - s2_steady_ms();
    return (int32_t)s2_max_i64(0, s2_min_i64(left, wait_ms));
}

static int32_t key_or_nothing(int32_t key)
{
    return key == S2_TERM_MORE ? S2_TERM_NOTHING : key;
}

int32_t s2_terminal_key(s2_terminal *term, int32_t wait_ms, const int *files, int32_t n_files)
{
    enum { MOST = 16 };
    struct pollfd polled[MOST + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    const int32_t key = read_key(term);
    if ((key != S2_TERM_NOTHING && key != S2_TERM_MORE) || wait_ms == 0)
        return key_or_nothing(key);
    n_files = s2_min_i32(n_files, MOST);
    for (int32_t n = 0; n < n_files; n++)
        polled[n + 1] = (struct pollfd){.fd = files[n], .events = POLLIN};
    /* a signal ends the wait too: the terminal may have another size */
    const int ready = poll(polled, (nfds_t)n_files + 1, wait_of(term, key, wait_ms));
    if (ready > 0 && (polled[0].revents & (POLLHUP | POLLERR)) != 0)
        return S2_TERM_END;
    return key_or_nothing(read_key(term));
}

const char *s2_terminal_pasted(const s2_terminal *term)
{
    return term->input.pasted.data != NULL ? term->input.pasted.data : "";
}

void s2_terminal_clicked(const s2_terminal *term, int32_t *row, int32_t *col, int32_t *wheel)
{
    *row = term->input.row;
    *col = term->input.col;
    *wheel = term->input.wheel;
}

/* Bypass the stream of standard output, which would keep the failure of an interrupted write. */
void s2_terminal_copy(s2_terminal *term, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = strlen(text);
    s2_buf out = {0};
    (void)term;
    s2_buf_puts(&out, "\033]52;c;");
    for (size_t byte = 0; byte < n; byte += 3) {
        uint32_t bits = 0;
        for (size_t b = 0; b < 3; b++)
            bits = bits << 8 | (byte + b < n ? (unsigned char)text[byte + b] : 0u);
        for (size_t d = 0; d < 4; d++)
            s2_buf_add(&out, byte + d <= n ? &digits[(bits >> (18 - 6 * d)) & 63] : "=", 1);
    }
    s2_buf_puts(&out, "\a");
    if (out.status == S2_OK)
        write_all(out.data, out.len);
    s2_buf_release(&out);
}
