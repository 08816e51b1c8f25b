/*
 * The real program in a real pseudo-terminal, read back by a terminal emulator (libvterm): the screen
 * equals the golden canvas, resizing redraws, signals give the terminal back; keys to screen is timed.
 */
#include "tests/s2test.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vterm.h>

#include "base/text.h"
#include "cli/commands.h"

enum { ROWS = 24, COLS = 80, QUIET_MS = 60, PATIENCE_MS = 5000 };

typedef struct console {
    int fd;
    pid_t child;
    VTerm *vt;
    VTermScreen *screen;
    bool alternate; /* the program has switched to the alternate screen and not back */
    bool cursor_hidden;
} console;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int on_property(VTermProp property, VTermValue *value, void *user)
{
    console *const c = user;
    if (property == VTERM_PROP_ALTSCREEN)
        c->alternate = value->boolean;
    if (property == VTERM_PROP_CURSORVISIBLE)
        c->cursor_hidden = !value->boolean;
    return 1;
}

static void run_program(const char *term, const char *locale)
{
    static char words[][8] = {"s2", "tui", "--no-db"};
    char *argv[] = {words[0], words[1], words[2], NULL};
    s2_cli cli;
    setenv("TERM", term, 1);
    setenv("LC_ALL", locale, 1);
    unsetenv("S2_DB");
    unsetenv("LINES");
    unsetenv("COLUMNS");
    s2_cli_init(&cli, "s2", 3, argv);
    _exit(s2_cmd_tui(&cli, 2, argv + 1));
}

/* Bytes to the emulator until none came for a while; the time of the last one. */
static double drain(console *c)
{
    char bytes[65536];
    double last = now_ms();
    const double start = last;
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    while (now_ms() - start < PATIENCE_MS && poll(&poll_fd, 1, QUIET_MS) > 0) {
        const ssize_t n = read(c->fd, bytes, sizeof bytes);
        if (n <= 0)
            break;
        last = now_ms();
        vterm_input_write(c->vt, bytes, (size_t)n);
    }
    return last;
}

static void open_console(console *c, const char *term, const char *locale)
{
    static const VTermScreenCallbacks callbacks = {.settermprop = on_property};
    const struct winsize size = {.ws_row = ROWS, .ws_col = COLS};
    *c = (console){.vt = vterm_new(ROWS, COLS)};
    vterm_set_utf8(c->vt, 1);
    c->screen = vterm_obtain_screen(c->vt);
    vterm_screen_enable_altscreen(c->screen, 1);
    vterm_screen_set_callbacks(c->screen, &callbacks, c);
    vterm_screen_reset(c->screen, 1);
    c->child = forkpty(&c->fd, NULL, NULL, &size);
    assert_true(c->child >= 0);
    if (c->child == 0)
        run_program(term, locale);
    /* the first byte may take a while on a busy machine */
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
    drain(c);
}

static int close_console(console *c)
{
    int status = 0;
    drain(c);
    assert_int_equal(waitpid(c->child, &status, 0), c->child);
    close(c->fd);
    return status;
}

static void send_keys(const console *c, const char *keys)
{
    assert_int_equal(write(c->fd, keys, strlen(keys)), strlen(keys));
}

static void add_glyph(uint32_t glyph, s2_buf *buf)
{
    char bytes[4];
    size_t n = 0;
    if (glyph < 0x80)
        bytes[n++] = (char)(glyph == 0 ? ' ' : glyph);
    else if (glyph < 0x800)
        bytes[n++] = (char)(0xc0 | (glyph >> 6));
    else {
        bytes[n++] = (char)(0xe0 | (glyph >> 12));
        bytes[n++] = (char)(0x80 | ((glyph >> 6) & 0x3f));
    }
    if (glyph >= 0x80)
        bytes[n++] = (char)(0x80 | (glyph & 0x3f));
    s2_buf_add(buf, bytes, n);
}

static void read_screen(const console *c, s2_buf *buf)
{
    for (int row = 0; row < ROWS; row++) {
        for (int col = 0; col < COLS; col++) {
            VTermScreenCell cell;
            const VTermPos pos = {.row = row, .col = col};
            vterm_screen_get_cell(c->screen, pos, &cell);
            add_glyph(cell.chars[0], buf);
        }
        s2_buf_puts(buf, "|\n");
    }
    s2_buf_add(buf, "", 1);
}

/* The first ROWS lines of a golden: its glyphs. */
static void check_screen(const console *c, const char *golden)
{
    char path[128], want[ROWS * (COLS * 4 + 4)];
    s2_buf got = {0};
    size_t n = 0;
    snprintf(path, sizeof path, "tests/golden/tui/%s.txt", golden);
    FILE *const in = fopen(path, "r");
    if (in == NULL)
        fail_msg("%s is missing", path);
    for (int row = 0; row < ROWS && fgets(want + n, (int)(sizeof want - n), in) != NULL; row++)
        n += strlen(want + n);
    fclose(in);
    read_screen(c, &got);
    if (strcmp(got.data, want) != 0)
        fail_msg("the terminal does not show %s but\n%s", path, got.data);
    s2_buf_release(&got);
}

static void terminals_and_locales_show_the_golden_screen(void **state)
{
    (void)state;
    static const struct {
        const char *term;
        const char *locale;
        const char *golden;
    } cases[] = {{"xterm-256color", "C.UTF-8", "bench-80x24"},
                 {"xterm", "C.UTF-8", "bench-80x24"},
                 {"linux", "C", "bench-80x24-ascii"},
                 {"vt100", "C", "bench-80x24-ascii"}};
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        console c;
        open_console(&c, cases[at].term, cases[at].locale);
        send_keys(&c, "1");
        drain(&c);
        check_screen(&c, cases[at].golden);
        send_keys(&c, "Q");
        assert_int_equal(close_console(&c), 0);
        assert_false(c.alternate);
        assert_false(c.cursor_hidden);
        vterm_free(c.vt);
    }
}

static void a_storm_of_sizes_ends_in_the_golden_screen(void **state)
{
    (void)state;
    console c;
    open_console(&c, "xterm-256color", "C.UTF-8");
    send_keys(&c, "1");
    for (unsigned short n = 1; n < 60; n++) {
        const struct winsize size = {.ws_row = (unsigned short)(1 + n * 7 % 90),
                                     .ws_col = (unsigned short)(1 + n * 37 % 300)};
        assert_int_equal(ioctl(c.fd, TIOCSWINSZ, &size), 0);
    }
    const struct winsize last = {.ws_row = ROWS, .ws_col = COLS};
    assert_int_equal(ioctl(c.fd, TIOCSWINSZ, &last), 0);
    drain(&c);
    send_keys(&c, "\f");
    drain(&c);
    check_screen(&c, "bench-80x24");
    send_keys(&c, "Q");
    assert_int_equal(close_console(&c), 0);
    vterm_free(c.vt);
}

static void signals_give_the_terminal_back(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGSEGV};
    for (size_t at = 0; at < sizeof signals / sizeof signals[0]; at++) {
        console c;
        open_console(&c, "xterm-256color", "C.UTF-8");
        assert_true(c.alternate);
        assert_int_equal(kill(c.child, signals[at]), 0);
        const int status = close_console(&c);
        if (c.alternate || c.cursor_hidden)
            fail_msg("signal %d leaves the terminal in full-screen mode", signals[at]);
        assert_int_equal(WIFSIGNALED(status), signals[at] == SIGSEGV);
        vterm_free(c.vt);
    }
}

static void a_terminal_without_a_cursor_is_refused(void **state)
{
    (void)state;
    static const char *const terms[] = {"dumb", "no-such-terminal", ""};
    for (size_t at = 0; at < 3; at++) {
        console c;
        open_console(&c, terms[at], "C");
        const int status = close_console(&c);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), S2_EXIT_ENVIRONMENT);
        vterm_free(c.vt);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void a_key_is_painted_and_timed(void **state)
{
    (void)state;
    enum { KEYS = 40 };
    console c;
    double ms[KEYS];
    open_console(&c, "xterm-256color", "C.UTF-8");
    send_keys(&c, "1j");
    drain(&c);
    for (int n = 0; n < KEYS; n++) {
        const double start = now_ms();
        send_keys(&c, n % 8 < 4 ? "l" : "h");
        ms[n] = drain(&c) - start;
    }
    qsort(ms, KEYS, sizeof ms[0], by_value);
    printf("# s2: workbench through a pty, 80x24, 128k, 32 heads: key to painted median %.1f ms, p90 %.1f, "
           "worst of %d "
           "%.1f ms\n",
           ms[KEYS / 2], ms[KEYS * 9 / 10], KEYS, ms[KEYS - 1]);
    send_keys(&c, "Q");
    assert_int_equal(close_console(&c), 0);
    vterm_free(c.vt);
}

int main(void)
{
    const struct CMUnitTest tui_pty[] = {cmocka_unit_test(terminals_and_locales_show_the_golden_screen),
                                         cmocka_unit_test(a_storm_of_sizes_ends_in_the_golden_screen),
                                         cmocka_unit_test(signals_give_the_terminal_back),
                                         cmocka_unit_test(a_terminal_without_a_cursor_is_refused),
                                         cmocka_unit_test(a_key_is_painted_and_timed)};
    return cmocka_run_group_tests(tui_pty, NULL, NULL);
}
