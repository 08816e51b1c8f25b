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
#include <term.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arith.h"
#include "base/text.h"

/* Resets a terminal outright, for when no code of ours can be relied on to do it step by step. */
static const char RESTORE[] = "\033[?2004l\033[?1000l\033[?1006l\033[?1049l\033[?25h\033[0m\033[?1l\033>\r\n";

struct s2_terminal {
    SCREEN *screen;
    bool ascii;
    attr_t attr[S2_N_STYLES];
    short pair[S2_N_STYLES];
    bool mouse;
    MEVENT clicked;
    s2_buf pasted; /* the text of a bracketed paste, cleaned */
};

static volatile sig_atomic_t ended;
static volatile sig_atomic_t continued;

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

/* After a crash nothing but write() is safe; the terminal's modes were saved when it was opened. */
static void on_crash(int number)
{
    const ssize_t n = write(STDOUT_FILENO, RESTORE, sizeof RESTORE - 1);
    (void)n;
    reset_shell_mode();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP},
                     crashes[] = {SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction end = {.sa_handler = on_end}, crash = {.sa_handler = on_crash};
    const struct sigaction go_on = {.sa_handler = on_continue};
    sigaction(SIGCONT, &go_on, NULL);
    crash.sa_flags = (int)SA_RESETHAND;
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

static void ask_for_paste(bool on)
{
    write_all(on ? "\033[?2004h" : "\033[?2004l", 8);
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
    set_escdelay(25);
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    leaveok(stdscr, FALSE);
    curs_set(0);
    choose_looks(term, options);
    term->mouse =
        options->mouse &&
        mousemask(BUTTON1_CLICKED | BUTTON1_RELEASED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL) != 0;
    mouseinterval(0);
    ask_for_paste(true);
    *out = term;
    return S2_OK;
}

void s2_terminal_close(s2_terminal **term)
{
    if (*term == NULL)
        return;
    ask_for_paste(false);
    endwin();
    delscreen((*term)->screen);
    s2_buf_release(&(*term)->pasted);
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
    (void)term;
    ask_for_paste(false);
    endwin();
}

/* If its size changed in between, the next key reports that. */
void s2_terminal_take(s2_terminal *term)
{
    (void)term;
    reset_prog_mode();
    refresh();
    ask_for_paste(true);
    clearok(curscr, TRUE);
    flushinp();
}

static int32_t key_of(wint_t code)
{
    switch (code) {
    case KEY_UP: return S2_KEY_UP;
    case KEY_DOWN: return S2_KEY_DOWN;
    case KEY_LEFT: return S2_KEY_LEFT;
    case KEY_RIGHT: return S2_KEY_RIGHT;
    case KEY_PPAGE: return S2_KEY_PAGE_UP;
    case KEY_NPAGE: return S2_KEY_PAGE_DOWN;
    case KEY_HOME: return S2_KEY_HOME;
    case KEY_END: return S2_KEY_END;
    case KEY_F(1): return S2_KEY_F1;
    case KEY_ENTER: return S2_KEY_ENTER;
    case KEY_BACKSPACE: return S2_KEY_BACKSPACE;
    case KEY_RESIZE: return S2_TERM_RESIZED;
    default: return S2_TERM_NOTHING;
    }
}

/* raw() hands ^C, ^Z and ^\ over as keys. */
static int32_t control_key(wint_t code)
{
    if (code == 3)
        return S2_TERM_END;
    if (code == 26) {
        ask_for_paste(false);
        endwin();
        raise(SIGSTOP);
        refresh();
        ask_for_paste(true);
        return S2_TERM_RESIZED;
    }
    return (int32_t)code;
}

/* ---- escape sequences that curses does not know */

enum { SEQUENCE_MS = 25, SEQUENCE_BYTES = 64, PASTE_BYTES = 1 << 16, PASTE_MS = 500 };

/* The next character of a sequence that has begun; false if none comes soon. */
static bool next_of(wint_t *code, int wait_ms)
{
    timeout(wait_ms);
    const int got = get_wch(code);
    timeout(0);
    return got == OK;
}

/* Skip to the string's end (BEL or ESC \): titles, colours, answers of the terminal. */
static void skip_string(void)
{
    wint_t code = 0, before = 0;
    for (int n = 0; n < PASTE_BYTES && next_of(&code, SEQUENCE_MS); n++) {
        if (code == 7 || (before == 27 && code == '\\'))
            return;
        before = code;
    }
}

/* Read what is pasted, up to ESC [ 201 ~; what there is no room for is dropped. */
static int32_t read_paste(s2_terminal *term)
{
    static const char end[] = "\033[201~";
    size_t matched = 0;
    wint_t code;
    term->pasted.len = 0;
    while (matched < sizeof end - 1 && next_of(&code, PASTE_MS)) {
        matched = code == (wint_t)end[matched] ? matched + 1 : code == (wint_t)end[0];
        char bytes[5] = "";
        const bool line_end = code == '\r' || code == '\n';
        if (matched == 0 && (line_end || code == '\t' || !s2_codepoint_is_hostile((uint32_t)code)))
            s2_glyph_encode(line_end ? '\n' : code == '\t' ? ' ' : (uint32_t)code, bytes);
        if (term->pasted.len < PASTE_BYTES)
            s2_buf_puts(&term->pasted, bytes);
    }
    s2_buf_add(&term->pasted, "", 1);
    return term->pasted.status == S2_OK ? S2_TERM_PASTE : S2_TERM_NOTHING;
}

/* Keys that terminals encode in more than one way; with modifiers they are the same keys. */
static int32_t key_of_sequence(const char *parameters, wint_t last)
{
    static const struct {
        char last;
        int32_t key;
    } letters[] = {{'A', S2_KEY_UP},   {'B', S2_KEY_DOWN}, {'C', S2_KEY_RIGHT}, {'D', S2_KEY_LEFT},
                   {'H', S2_KEY_HOME}, {'F', S2_KEY_END},  {'P', S2_KEY_F1}};
    static const struct {
        int number;
        int32_t key;
    } numbers[] = {{1, S2_KEY_HOME},    {7, S2_KEY_HOME},      {4, S2_KEY_END}, {8, S2_KEY_END},
                   {5, S2_KEY_PAGE_UP}, {6, S2_KEY_PAGE_DOWN}, {11, S2_KEY_F1}};
    if (strchr("?<=>", parameters[0]) != NULL && parameters[0] != '\0')
        return S2_TERM_NOTHING;
    for (size_t n = 0; n < sizeof letters / sizeof letters[0]; n++)
        if ((wint_t)letters[n].last == last)
            return letters[n].key;
    for (size_t n = 0; last == '~' && n < sizeof numbers / sizeof numbers[0]; n++)
        if (atoi(parameters) == numbers[n].number)
            return numbers[n].key;
    return S2_TERM_NOTHING;
}

/* After ESC [: parameters and one last character from @ to ~. */
static int32_t read_sequence(s2_terminal *term)
{
    char parameters[SEQUENCE_BYTES] = "";
    size_t n = 0;
    wint_t code;
    while (next_of(&code, SEQUENCE_MS)) {
        if (code >= '@' && code <= '~')
            return code == '~' && strcmp(parameters, "200") == 0 ? read_paste(term)
                                                                 : key_of_sequence(parameters, code);
        if (code < ' ' || code > '?')
            return S2_TERM_NOTHING;
        if (n + 1 < sizeof parameters)
            parameters[n++] = (char)code;
    }
    return S2_TERM_NOTHING;
}

/* ESC alone is a key. A sequence that begins with it is read whole, or its rest would be taken for keys. */
static int32_t after_escape(s2_terminal *term)
{
    wint_t code;
    if (!next_of(&code, 0))
        return S2_KEY_ESC;
    switch (code) {
    case '[': return read_sequence(term);
    case 'O': return next_of(&code, SEQUENCE_MS) ? key_of_sequence("", code) : S2_TERM_NOTHING;
    case ']':
    case 'P':
    case '_':
    case '^':
    case 'X': skip_string(); return S2_TERM_NOTHING;
    case 27: return S2_KEY_ESC;
    default: return S2_TERM_NOTHING; /* with Alt: not one of our keys */
    }
}

static int32_t read_key(s2_terminal *term)
{
    wint_t code = 0;
    timeout(0);
    const int got = ended ? ERR : get_wch(&code);
    if (ended)
        return S2_TERM_END;
    if (continued) {
        /* another program used the terminal in between */
        continued = 0;
        reset_prog_mode();
        ask_for_paste(true);
        clearok(curscr, TRUE);
        return S2_TERM_RESIZED;
    }
    if (got == ERR)
        return isatty(STDIN_FILENO) ? S2_TERM_NOTHING : S2_TERM_END;
    if (got == KEY_CODE_YES && code == KEY_MOUSE)
        return getmouse(&term->clicked) == OK ? S2_TERM_CLICK : S2_TERM_NOTHING;
    if (got != KEY_CODE_YES && code == 27)
        return after_escape(term);
    return got == KEY_CODE_YES ? key_of(code) : control_key(code);
}

int32_t s2_terminal_key(s2_terminal *term, int32_t wait_ms, const int *files, int32_t n_files)
{
    enum { MOST = 16 };
    struct pollfd polled[MOST + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    const int32_t key = read_key(term);
    if (key != S2_TERM_NOTHING || wait_ms == 0)
        return key;
    n_files = s2_min_i32(n_files, MOST);
    for (int32_t n = 0; n < n_files; n++)
        polled[n + 1] = (struct pollfd){.fd = files[n], .events = POLLIN};
    /* a signal ends the wait too: the terminal may have another size */
    const int ready = poll(polled, (nfds_t)n_files + 1, wait_ms);
    if (ready > 0 && (polled[0].revents & (POLLHUP | POLLERR)) != 0)
        return S2_TERM_END;
    return read_key(term);
}

const char *s2_terminal_pasted(const s2_terminal *term)
{
    return term->pasted.data != NULL ? term->pasted.data : "";
}

void s2_terminal_clicked(const s2_terminal *term, int32_t *row, int32_t *col, int32_t *wheel)
{
    *row = term->clicked.y;
    *col = term->clicked.x;
    *wheel = (term->clicked.bstate & BUTTON4_PRESSED) != 0   ? -1
             : (term->clicked.bstate & BUTTON5_PRESSED) != 0 ? 1
                                                             : 0;
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
