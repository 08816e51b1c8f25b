#include "tests/console.h"

#include "tests/s2test.h"
#include "tests/s2time.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 24, LIMIT_RAW = 1 << 22 };

const char *console_program(void)
{
    static char path[4096];
    char self[4000];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    snprintf(path, sizeof path, "%s/../s2", dirname(self));
    return path;
}

static int on_property(VTermProp property, VTermValue *value, void *user)
{
    console *const c = user;
    if (property == VTERM_PROP_ALTSCREEN)
        c->alternate = value->boolean;
    if (property == VTERM_PROP_CURSORVISIBLE)
        c->cursor_hidden = !value->boolean;
    if (property == VTERM_PROP_TITLE || property == VTERM_PROP_ICONNAME)
        c->titled = true;
    return 1;
}

static void run_program(const console_options *o)
{
    char program[4096], args[1024];
    char program_name[] = "s2", command[] = "tui";
    char *argv[WORDS] = {program_name, command}, *save = NULL;
    int n = 2;
    snprintf(program, sizeof program, "%s", console_program());
    snprintf(args, sizeof args, "%s%s", o->args, o->keeps ? "" : " --no-session");
    for (char *word = strtok_r(args, " ", &save); word != NULL && n + 1 < WORDS;
         word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    setenv("TERM", o->term, 1);
    setenv("LC_ALL", o->locale, 1);
    setenv("TZ", "UTC", 1);
    setenv("XDG_STATE_HOME", o->dir != NULL ? o->dir : "/nowhere", 1);
    unsetenv("S2_DB");
    unsetenv("NO_COLOR");
    unsetenv("LINES");
    unsetenv("COLUMNS");
    /* whatever becomes of the test, nothing of it goes on */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (o->dir == NULL || chdir(o->dir) == 0)
        execv(program, argv);
    _exit(127);
}

/* What has come by now; false when nothing has. */
static bool take(console *c)
{
    char bytes[65536];
    const ssize_t n = read(c->fd, bytes, sizeof bytes);
    if (n <= 0)
        return false;
    if (c->raw.len > LIMIT_RAW)
        c->raw.len = 0;
    if (c->keep)
        s2_buf_add(&c->raw, bytes, (size_t)n);
    vterm_input_write(c->vt, bytes, (size_t)n);
    return true;
}

double console_drain(console *c, int quiet_ms)
{
    double last = s2_now_ms();
    const double start = last;
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    c->first_ms = 0;
    while (s2_now_ms() - start < CONSOLE_PATIENCE_MS && poll(&poll_fd, 1, quiet_ms) > 0) {
        const double came = s2_now_ms();
        if (!take(c))
            break;
        last = came;
        c->first_ms = c->first_ms > 0 ? c->first_ms : last;
    }
    return last;
}

void console_open(console *c, const console_options *o)
{
    static const VTermScreenCallbacks callbacks = {.settermprop = on_property};
    const struct winsize size = {.ws_row = (unsigned short)o->rows, .ws_col = (unsigned short)o->cols};
    *c = (console){.keep = true, .vt = vterm_new(o->rows, o->cols), .rows = o->rows, .cols = o->cols};
    vterm_set_utf8(c->vt, 1);
    c->screen = vterm_obtain_screen(c->vt);
    vterm_screen_enable_altscreen(c->screen, 1);
    vterm_screen_set_callbacks(c->screen, &callbacks, c);
    vterm_screen_reset(c->screen, 1);
    c->child = forkpty(&c->fd, NULL, NULL, &size);
    assert_true(c->child >= 0);
    if (c->child == 0)
        run_program(o);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    /* the first byte may take a while on a busy machine */
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, CONSOLE_PATIENCE_MS), 1);
    console_drain(c, CONSOLE_QUIET_MS);
}

/* Its end, while its screen is read; patience is for it, not for the machine. */
static int await_end(console *c)
{
    int status = 0;
    pid_t ended = 0;
    const double start = s2_now_ms();
    while ((ended = waitpid(c->child, &status, WNOHANG)) == 0 && s2_now_ms() - start < CONSOLE_PATIENCE_MS) {
        if (c->fd >= 0)
            console_drain(c, 10);
        usleep(2000);
    }
    if (ended == 0) {
        s2_buf shown = {0};
        kill(c->child, SIGKILL);
        console_read(c, &shown);
        fail_msg("it does not end; it shows\n%s", shown.data);
    }
    assert_int_equal(ended, c->child);
    return status;
}

static void release(console *c)
{
    if (c->fd >= 0)
        close(c->fd);
    vterm_free(c->vt);
    s2_buf_release(&c->raw);
}

int console_close(console *c)
{
    const int status = await_end(c);
    console_drain(c, 1);
    release(c);
    return status;
}

int console_hang_up(console *c)
{
    close(c->fd);
    c->fd = -1;
    const int status = await_end(c);
    release(c);
    return status;
}

bool console_full_screen(console *c, bool wanted)
{
    const double start = s2_now_ms();
    while (c->alternate != wanted && s2_now_ms() - start < CONSOLE_PATIENCE_MS)
        console_drain(c, 20);
    return c->alternate == wanted;
}

bool console_is_full(console *c)
{
    enum { LOOKS = 100 };
    int unread = 1;
    const int other = open(ptsname(c->fd), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(other >= 0);
    for (int look = 0; look < LOOKS && unread > 0; look++) {
        usleep(10000);
        assert_int_equal(ioctl(other, FIONREAD, &unread), 0);
    }
    close(other);
    return unread > 0;
}

void console_send(console *c, const char *keys)
{
    const size_t n = strlen(keys);
    struct pollfd poll_fd = {.fd = c->fd, .events = POLLOUT | POLLIN};
    for (size_t at = 0; at < n;) {
        const ssize_t written = write(c->fd, keys + at, n - at);
        if (written > 0)
            at += (size_t)written;
        else if (errno != EAGAIN && errno != EINTR)
            return;
        else if (poll(&poll_fd, 1, CONSOLE_PATIENCE_MS) > 0 && (poll_fd.revents & POLLIN) != 0)
            take(c);
        else if (poll_fd.revents == 0 || (poll_fd.revents & POLLHUP) != 0)
            return;
    }
}

void console_resize(console *c, int rows, int cols)
{
    const struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    vterm_set_size(c->vt, rows, cols);
    c->rows = rows;
    c->cols = cols;
    assert_int_equal(ioctl(c->fd, TIOCSWINSZ, &size), 0);
}

static VTermScreenCell cell_at(const console *c, int row, int col)
{
    VTermScreenCell cell = {0};
    const VTermPos pos = {.row = row, .col = col};
    vterm_screen_get_cell(c->screen, pos, &cell);
    return cell;
}

void console_read(const console *c, s2_buf *buf)
{
    for (int row = 0; row < c->rows; row++) {
        for (int col = 0; col < c->cols; col++) {
            const uint32_t glyph = cell_at(c, row, col).chars[0];
            char bytes[5];
            if (glyph == (uint32_t)-1)
                continue;
            s2_glyph_encode(glyph == 0 ? ' ' : glyph, bytes);
            s2_buf_puts(buf, bytes);
        }
        s2_buf_puts(buf, "|\n");
    }
    s2_buf_add(buf, "", 1);
}

bool console_shows(const console *c, const char *text)
{
    s2_buf buf = {0};
    console_read(c, &buf);
    const bool found = strstr(buf.data, text) != NULL;
    s2_buf_release(&buf);
    return found;
}

bool console_wait(console *c, const char *text)
{
    const double start = s2_now_ms();
    while (!console_shows(c, text)) {
        if (s2_now_ms() - start > CONSOLE_PATIENCE_MS)
            return false;
        console_drain(c, 20);
    }
    return true;
}

/* ---- strict comparison */

int console_style(char letter)
{
    static const char letters[] = {
#define LETTER(name, letter, text) letter,
        S2_STYLE_TABLE(LETTER)
#undef LETTER
    };
    for (int style = 0; style < S2_N_STYLES; style++)
        if (letters[style] == letter)
            return style;
    return -1;
}

/* A golden: the glyph and the style of every cell. */
typedef struct golden {
    uint32_t glyph[60][200];
    int style[60][200];
} golden;

static void read_line(FILE *in, const char *path, int row, int cols, bool styles, golden *out)
{
    char line[1024];
    if (fgets(line, sizeof line, in) == NULL)
        fail_msg("%s is cut at row %d", path, row);
    const size_t n = strlen(line);
    int col = 0;
    for (size_t at = 0; at < n && col < cols;) {
        const size_t len = s2_utf8_len(line + at, n - at);
        const uint32_t glyph = len > 0 ? s2_utf8_decode(line + at, len) : '?';
        if (styles)
            out->style[row][col] = console_style((char)glyph);
        else
            out->glyph[row][col] = glyph;
        col += styles ? 1 : s2_codepoint_width(glyph);
        at += len > 0 ? len : 1;
    }
}

static void read_golden(int rows, int cols, const char *path, golden *out)
{
    FILE *const in = fopen(path, "r");
    *out = (golden){0};
    if (in == NULL)
        fail_msg("%s is missing; S2_GOLDEN_WRITE=1 writes it", path);
    for (int part = 0; part < 2; part++)
        for (int row = 0; row < rows; row++)
            read_line(in, path, row, cols, part == 1, out);
    fclose(in);
}

/* The colour that a cell has, as an index; -1 the terminal's own. */
static int index_of(const VTermColor *colour, bool background)
{
    if (background ? VTERM_COLOR_IS_DEFAULT_BG(colour) : VTERM_COLOR_IS_DEFAULT_FG(colour))
        return -1;
    return VTERM_COLOR_IS_INDEXED(colour) ? colour->indexed.idx : -2;
}

/* A cell as an emulator has it. */
typedef struct shown_cell {
    uint32_t glyph;
    int fg;
    int bg;
    bool bold;
    bool reverse;
    bool underline;
} shown_cell;

static void print_cell(const shown_cell *cell, char *text, size_t cap)
{
    snprintf(text, cap, "U+%04x %d on %d%s%s%s", cell->glyph, cell->fg, cell->bg, cell->bold ? " bold" : "",
             cell->reverse ? " reverse" : "", cell->underline ? " underline" : "");
}

/* A blank shows only its ground. */
static bool same_cell(const shown_cell *a, const shown_cell *b)
{
    const bool ground = a->glyph == b->glyph && a->bg == b->bg && a->reverse == b->reverse;
    return ground &&
           (a->glyph == ' ' || (a->fg == b->fg && a->bold == b->bold && a->underline == b->underline));
}

static shown_cell wanted_cell(const golden *want, int row, int col, console_colours colours)
{
    const s2_look *const look = s2_look_of(S2_PALETTE_DARK, (s2_style)want->style[row][col]);
    const uint8_t attr = colours == CONSOLE_MONO ? look->mono : look->attr;
    return (shown_cell){.glyph = want->glyph[row][col],
                        .fg = colours == CONSOLE_256 ? look->fg256
                              : colours == CONSOLE_8 ? look->fg8
                                                     : -1,
                        .bg = colours == CONSOLE_256 ? look->bg256
                              : colours == CONSOLE_8 ? look->bg8
                                                     : -1,
                        .bold = (attr & S2_LOOK_BOLD) != 0,
                        .reverse = (attr & S2_LOOK_REVERSE) != 0,
                        .underline = (attr & S2_LOOK_UNDERLINE) != 0};
}

/* The first cell that is another than it should be: where and what; false when there is none. */
typedef struct fault {
    int row;
    int col;
    shown_cell got;
} fault;

static bool is_wrong(const shown_cell *got, const golden *want, int row, int col, console_colours colours,
                     fault *out)
{
    const shown_cell wanted = wanted_cell(want, row, col, colours);
    *out = (fault){row, col, *got};
    return !same_cell(got, &wanted);
}

static void report(const fault *f, const golden *want, console_colours colours, const char *what)
{
    char is[80], should[80];
    const shown_cell wanted = wanted_cell(want, f->row, f->col, colours);
    print_cell(&f->got, is, sizeof is);
    print_cell(&wanted, should, sizeof should);
    fail_msg("%s: row %d column %d is %s, not %s", what, f->row, f->col, is, should);
}

static bool differs(const console *c, const golden *want, console_colours colours, fault *out)
{
    for (int row = 0; row < c->rows; row++)
        for (int col = 0; col < c->cols; col++) {
            const VTermScreenCell cell = cell_at(c, row, col);
            /* the right half of a wide character */
            if (cell.chars[0] == (uint32_t)-1 && want->glyph[row][col] == 0)
                continue;
            const shown_cell got = {.glyph = cell.chars[0] == 0 ? ' ' : cell.chars[0],
                                    .fg = index_of(&cell.fg, false),
                                    .bg = index_of(&cell.bg, true),
                                    .bold = cell.attrs.bold,
                                    .reverse = cell.attrs.reverse,
                                    .underline = cell.attrs.underline != 0};
            if (is_wrong(&got, want, row, col, colours, out))
                return true;
        }
    return false;
}

/* A busy machine may be late; what is wrong must stay wrong. */
void console_check(console *c, const char *path, console_colours colours, const char *what)
{
    static golden want;
    fault f;
    const double start = s2_now_ms();
    read_golden(c->rows, c->cols, path, &want);
    while (differs(c, &want, colours, &f)) {
        if (s2_now_ms() - start > CONSOLE_LATE_MS)
            report(&f, &want, colours, what);
        console_drain(c, CONSOLE_QUIET_MS);
    }
}

/* ---- tmux */

/* One "ESC [ ... m" of a captured pane, applied; returns what follows it. */
static const char *apply_sgr(const char *at, shown_cell *now)
{
    int value[16] = {0}, n = 0;
    for (at += 2; *at != 'm' && *at != '\0'; at++) {
        if (*at == ';' && n < 15)
            n++;
        else if (*at >= '0' && *at <= '9')
            value[n] = value[n] * 10 + *at - '0';
    }
    for (int v = 0; v <= n; v++) {
        const int code = value[v];
        if (code == 0)
            *now = (shown_cell){.fg = -1, .bg = -1};
        else if (code == 1)
            now->bold = true;
        else if (code == 4)
            now->underline = true;
        else if (code == 7)
            now->reverse = true;
        else if ((code == 38 || code == 48) && v + 2 <= n && value[v + 1] == 5) {
            *(code == 38 ? &now->fg : &now->bg) = value[v + 2];
            v += 2;
        } else if (code >= 30 && code <= 37)
            now->fg = code - 30;
        else if (code >= 40 && code <= 47)
            now->bg = code - 40;
        else if (code >= 90 && code <= 97)
            now->fg = code - 90 + 8;
        else if (code == 39 || code == 49)
            *(code == 39 ? &now->fg : &now->bg) = -1;
    }
    return *at == 'm' ? at + 1 : at;
}

static bool pane_differs(const char *at, const golden *want, int rows, int cols, fault *out)
{
    shown_cell now = {.fg = -1, .bg = -1};
    for (int row = 0; row < rows; row++) {
        for (int col = 0; col < cols; col++) {
            while (at[0] == '\033' && at[1] == '[')
                at = apply_sgr(at, &now);
            const bool over = *at == '\n' || *at == '\0';
            const size_t len = over ? 0 : s2_utf8_len(at, strlen(at));
            /* a line may end before its last blanks */
            shown_cell got = over ? (shown_cell){.fg = -1, .bg = -1} : now;
            got.glyph = over ? ' ' : len > 0 ? s2_utf8_decode(at, len) : '?';
            at += len;
            if (is_wrong(&got, want, row, col, CONSOLE_256, out))
                return true;
            col += s2_codepoint_width(got.glyph) == 2;
        }
        while (at[0] == '\033' && at[1] == '[')
            at = apply_sgr(at, &now);
        at += *at == '\n';
    }
    return false;
}

void console_check_pane(const char *command, int rows, int cols, const char *path, const char *what)
{
    static golden want;
    static char pane[1 << 17];
    fault f;
    const double start = s2_now_ms();
    read_golden(rows, cols, path, &want);
    for (;;) {
        FILE *const in = popen(command, "r");
        assert_non_null(in);
        pane[fread(pane, 1, sizeof pane - 1, in)] = '\0';
        assert_int_equal(pclose(in), 0);
        if (!pane_differs(pane, &want, rows, cols, &f))
            return;
        if (s2_now_ms() - start > CONSOLE_LATE_MS)
            report(&f, &want, CONSOLE_256, what);
        usleep(50000);
    }
}
