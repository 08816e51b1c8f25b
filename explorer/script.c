/* Runs sessions without a terminal: a file of keys, or a dump of one screen. */
#include "explorer/internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/file.h"

enum { LINE_BYTES = 4096, SCRIPT_BYTES = 1 << 24 };

s2_status s2_explorer_print(s2_explorer *e, s2_diag *diag)
{
    s2_explorer_preview(e);
    s2_session_draw(&e->session);
    /* nobody reads the message on it, and it would pass for the screen of an empty database */
    if (e->options->dumps && e->failed != S2_OK)
        return s2_diag_set(diag, e->failed, 0, 0, 0, "%s", e->session.state.message);
    if (e->options->dumps && e->session.lacked_memory)
        return S2_ENOMEM;
    return s2_explorer_dump(e, diag);
}

/* Wait until nothing runs in the background any more. */
static void wait_for_jobs(s2_explorer *e)
{
    while (s2_explorer_works(e)) {
        const struct timespec moment = {.tv_nsec = 5000000};
        s2_explorer_pump(e);
        nanosleep(&moment, NULL);
    }
    s2_explorer_follow(e);
}

/* A script and the line being obeyed. */
typedef struct script {
    s2_explorer *explorer;
    s2_diag *diag;
    const char *path;
    const char *line;
    int32_t number;
    bool over; /* a key ended the session */
} script;

/* Say where the script is wrong, in the form that compilers use. */
static s2_status refuse(const script *from, const char *place, const char *why)
{
    const int32_t col = (int32_t)(place - from->line) + 1;
    return s2_diag_set(from->diag, S2_EPARSE, 0, from->number, col, "%.100s:%d:%d: %s", from->path,
                       from->number, col, why);
}

static void press(script *from, int32_t key)
{
    from->over = !s2_explorer_press(from->explorer, key);
}

static s2_status type_text(script *from, const char *text)
{
    for (size_t n = strlen(text); n > 0 && !from->over;) {
        const size_t len = s2_utf8_len(text, n);
        if (len == 0)
            return refuse(from, text, "not UTF-8");
        press(from, (int32_t)s2_utf8_decode(text, len));
        text += len;
        n -= len;
    }
    return S2_OK;
}

static s2_status press_words(script *from)
{
    const char *word = from->line;
    while (!from->over && *(word += strspn(word, " \t")) != '\0') {
        const size_t n = strcspn(word, " \t");
        const int32_t key = s2_key_parse(word, n);
        char why[120];
        snprintf(why, sizeof why, "no key '%.*s'; keys are letters, up, pgdn, enter, esc, tab, space, ...",
                 n < 40 ? (int)n : 40, word);
        if (key == 0)
            return refuse(from, word, why);
        press(from, key);
        word += n;
    }
    return S2_OK;
}

/* Words are keys; `type TEXT` types the rest of the line; `size 80x24`; `wait` for jobs to end; `dump`. */
static s2_status obey(script *from)
{
    const char *const line = from->line;
    int32_t rows, cols;
    if (line[0] == '#')
        return S2_OK;
    if (strncmp(line, "type ", 5) == 0)
        return type_text(from, line + 5);
    if (strncmp(line, "size ", 5) == 0) {
        if (!s2_canvas_size_parse(line + 5, &cols, &rows))
            return refuse(from, line + 5, "a size is columns x rows, as in 80x24");
        return s2_session_resize(&from->explorer->session, rows, cols);
    }
    if (strcmp(line, "dump") == 0)
        return s2_explorer_print(from->explorer, from->diag);
    if (strcmp(line, "wait") != 0)
        return press_words(from);
    wait_for_jobs(from->explorer);
    return S2_OK;
}

/* The next line, cut where it is longer than a line may be; false behind the last one. */
static bool next_line(FILE *file, char line[LINE_BYTES], size_t *n)
{
    int byte = '\n';
    for (*n = 0; *n < LINE_BYTES - 1 && (byte = fgetc(file)) != EOF && byte != '\n'; (*n)++)
        line[*n] = (char)byte;
    line[*n] = '\0';
    return *n > 0 || byte != EOF;
}

static s2_status read_lines(script *from, FILE *file, char line[LINE_BYTES])
{
    size_t n;
    from->line = line;
    while (!from->over && next_line(file, line, &n)) {
        from->number++;
        if (strlen(line) < n)
            return refuse(from, line + strlen(line), "a NUL byte: this is a binary file, not text");
        if (n == LINE_BYTES - 1)
            return refuse(from, line + n, "the line is too long");
        line[strcspn(line, "\r")] = '\0';
        S2_TRY(obey(from));
    }
    return ferror(file) == 0 ? S2_OK
                             : s2_diag_set(from->diag, S2_EPARSE, 0, 0, 0, "%.100s: cannot be read: %s",
                                           from->path, strerror(errno));
}

s2_status s2_explorer_script(s2_explorer *e, const char *path, s2_diag *diag)
{
    const bool piped = strcmp(path, "-") == 0;
    s2_arena arena = {0};
    char *text;
    size_t n = 0;
    FILE *file = piped ? e->options->in : NULL;
    if (!piped && s2_bytes_read(&arena, path, SCRIPT_BYTES, &text, &n) == S2_OK)
        file = n > SCRIPT_BYTES ? (errno = EFBIG, NULL) : fmemopen(text, n, "r");
    script from = {.explorer = e, .diag = diag, .path = piped ? "standard input" : path};
    char line[LINE_BYTES];
    const s2_status status =
        file != NULL
            ? read_lines(&from, file, line)
            : s2_diag_set(diag, S2_EPARSE, 0, 0, 0, "%.100s: cannot be read: %s", path, s2_file_why(errno));
    if (!piped && file != NULL)
        fclose(file);
    s2_arena_release(&arena);
    return status;
}
