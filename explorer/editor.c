/* Edits the workbench's pattern in the person's own editor, which gets the terminal meanwhile. */
#include "explorer/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/file.h"
#include "base/text.h"
#include "pattern/parse.h"

static const char *editor_of(void)
{
    const char *const visual = getenv("VISUAL"), *const editor = getenv("EDITOR");
    return visual != NULL && visual[0] != '\0' ? visual : editor != NULL && editor[0] != '\0' ? editor : "vi";
}

/* One statement per line if it is a pattern, otherwise unchanged. */
static void print_file(const s2_explorer *e, s2_buf *buf)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_buf line = {0};
    s2_pattern pattern;
    s2_diag diag;
    s2_tui_pattern(&e->session.state, &line);
    s2_buf_add(&line, "", 1);
    if (line.status == S2_OK &&
        s2_pattern_parse(&arena, line.data, line.len - 1, &parse, &pattern, &diag) == S2_OK)
        s2_pattern_print(&pattern, buf);
    else if (line.status == S2_OK)
        s2_buf_printf(buf, "%s\n", line.data);
    s2_buf_release(&line);
    s2_arena_release(&arena);
}

/* Write the text to a private file for the editor and set `path`; false: it could not be written. */
static bool write_file(const s2_buf *text, char *path, size_t cap)
{
    const char *const tmp = getenv("TMPDIR");
    snprintf(path, cap, "%s/s2-XXXXXX.s2", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    const int fd = mkstemps(path, 3);
    if (fd < 0)
        return false;
    const bool whole = write(fd, text->data, text->len) == (ssize_t)text->len;
    close(fd);
    if (!whole)
        unlink(path);
    return whole;
}

/* The editor's exit status; -1 if it was killed or never started. Interrupt and quit keys reach only it. */
static int run_editor(const char *path)
{
    char command[400];
    int status = 0;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    snprintf(command, sizeof command, "exec %s \"$1\"", editor_of());
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        execl("/bin/sh", "sh", "-c", command, "sh", path, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Bytes of a line before its comment and what ends a statement; a quoted name may hold both. */
static size_t stated_bytes(const char *line, size_t n)
{
    size_t used = 0;
    for (bool quoted = false; used < n && (quoted || line[used] != '#'); used++) {
        quoted ^= line[used] == '"';
        used += quoted && line[used] == '\\' && used + 1 < n;
    }
    while (used > 0 && strchr(" \t\r;", line[used - 1]) != NULL)
        used--;
    return used;
}

/* The bytes of so many characters. */
static size_t bytes_of(const char *line, size_t n, int32_t n_chars)
{
    size_t byte = 0;
    for (int32_t c = 0; c < n_chars && byte < n; c++)
        byte += s2_utf8_step(line + byte, n - byte);
    return byte;
}

/* Join the text into one line without comments; returns where the given line and column end up in it. */
static int32_t join_lines(const char *text, int32_t line, int32_t col, s2_buf *out)
{
    int32_t nth = 1, caret = 0;
    for (const char *rest = text; *rest != '\0'; nth++) {
        const size_t n = strcspn(rest, "\n");
        const size_t used = stated_bytes(rest, n);
        if (used > 0 && out->len > 0)
            s2_buf_puts(out, "; ");
        if (nth == line)
            caret = (int32_t)(out->len + s2_min_size(bytes_of(rest, n, col - 1), used));
        s2_buf_add(out, rest, used);
        rest += n + (rest[n] == '\n');
    }
    s2_buf_add(out, "", 1);
    return caret;
}

/* The text does not parse: leave it open for correction, with the caret at the error. */
static void keep_typing(s2_explorer *e, const char *text, const s2_diag *diag)
{
    s2_buf line = {0};
    const int32_t caret = join_lines(text, diag->line, diag->col, &line);
    if (line.status == S2_OK && line.len <= S2_TUI_TEXT_BYTES)
        s2_session_type(&e->session, line.data, caret);
    s2_explorer_say(e, "line %d, column %d: %s", (int)diag->line, (int)diag->col, diag->msg);
    s2_buf_release(&line);
}

static void take_back(s2_explorer *e, const char *path, const s2_buf *before)
{
    const s2_parse_options parse = {.no_files = true};
    s2_arena arena = {0};
    s2_pattern pattern;
    s2_diag diag = {0};
    char *text = NULL;
    size_t n = 0;
    const s2_status read = s2_bytes_read(&arena, path, S2_TUI_TEXT_BYTES * 2, &text, &n);
    if (read != S2_OK)
        s2_explorer_say(e, "nothing was changed: %.100s", s2_file_why(errno));
    else if (n > S2_TUI_TEXT_BYTES * 2)
        s2_explorer_say(e, "nothing was changed: the text is too long for the workbench");
    else if (n == before->len && memcmp(text, before->data, n) == 0)
        s2_explorer_say(e, "nothing was changed");
    else if (s2_pattern_parse(&arena, text, n, &parse, &pattern, &diag) != S2_OK)
        keep_typing(e, text, &diag);
    else
        s2_explorer_say(e, s2_session_bring(&e->session, &pattern)
                               ? "taken from the editor: z goes back"
                               : "nothing was changed: the text is too long for the workbench");
    s2_arena_release(&arena);
}

void s2_explorer_edit(s2_explorer *e)
{
    char path[4096];
    s2_buf before = {0};
    if (e->term == NULL) {
        s2_explorer_say(e, "an editor needs a terminal");
        return;
    }
    print_file(e, &before);
    if (before.status != S2_OK || !write_file(&before, path, sizeof path)) {
        s2_explorer_say(e, "cannot write a file for the editor: %.100s", s2_file_why(errno));
        s2_buf_release(&before);
        return;
    }
    s2_terminal_lend(e->term);
    const int status = run_editor(path);
    s2_terminal_take(e->term);
    s2_session_leave_typing(&e->session);
    if (status == 0)
        take_back(e, path, &before);
    else
        s2_explorer_say(e, "nothing was changed: %.60s ended with status %d", editor_of(), status);
    unlink(path);
    s2_buf_release(&before);
}
