#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

void s2_cli_init(s2_cli *cli, const char *program, int argc, char **argv)
{
    *cli = (s2_cli){.program = program,
                    .command = "",
                    .in = stdin,
                    .out = stdout,
                    .err = stderr,
                    .argc = argc,
                    .argv = argv,
                    .seed = S2_DB_NONE,
                    .started_us = s2_unix_us()};
}

s2_exit s2_cli_finish(s2_cli *cli, s2_exit code)
{
    const bool bad = ferror(cli->out) != 0;
    /* a write that failed earlier has lost its errno to later failures */
    errno = 0;
    if (fflush(cli->out) != 0 || bad) {
        s2_cli_error(cli, "the results could not be written: %s",
                     errno != 0 ? strerror(errno) : "the output was closed or is full");
        code = s2_exit_combine(code, S2_EXIT_ENVIRONMENT);
    }
    s2_arena_release(&cli->arena);
    return code == S2_EXIT_ANSWERED ? S2_EXIT_OK : code;
}

static void say(s2_cli *cli, const char *before, const char *fmt, va_list args)
{
    char raw[2048], clean[4096];
    vsnprintf(raw, sizeof raw, fmt, args);
    s2_text_clean(clean, sizeof clean, raw);
    fprintf(cli->err, "%s%s\n", before, clean);
}

void s2_cli_error(s2_cli *cli, const char *fmt, ...)
{
    char before[64];
    snprintf(before, sizeof before, "%s%s%s: ", cli->program, cli->command[0] != '\0' ? " " : "",
             cli->command);
    va_list args;
    va_start(args, fmt);
    say(cli, before, fmt, args);
    va_end(args);
}

void s2_cli_hint(s2_cli *cli, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(cli, "  ", fmt, args);
    va_end(args);
}

bool s2_cli_takes_color(const s2_cli *cli)
{
    const char *const term = getenv("TERM"), *const no_color = getenv("NO_COLOR");
    return isatty(fileno(cli->out)) == 1 && term != NULL && strcmp(term, "dumb") != 0 &&
           (no_color == NULL || no_color[0] == '\0');
}

s2_exit s2_cli_print(s2_cli *cli, s2_buf *buf)
{
    const s2_status status = buf->status;
    if (status == S2_OK && buf->len > 0)
        fwrite(buf->data, 1, buf->len, cli->out);
    fflush(cli->out); /* what is said next on the other stream must not land in the middle of a line */
    s2_buf_release(buf);
    return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "output");
}

s2_status s2_cli_lacks_nothing(void)
{
    return s2_alloc_n_refused() == 0 ? S2_OK : S2_ENOMEM;
}

s2_exit s2_cli_save(s2_cli *cli, const char *path, s2_buf *buf)
{
    s2_output output;
    s2_status status = buf->status;
    if (status == S2_OK)
        status = s2_cli_lacks_nothing();
    if (status == S2_OK && (status = s2_output_open(&output, path)) == S2_OK) {
        fwrite(buf->data, 1, buf->len, output.file);
        status = s2_output_close(&output, true);
    }
    s2_buf_release(buf);
    if (status != S2_EIO)
        return status == S2_OK ? S2_EXIT_OK : s2_cli_fail(cli, status, "output");
    s2_cli_error(cli, "%s: %s", path, s2_file_why(errno));
    return S2_EXIT_ENVIRONMENT;
}

s2_exit s2_exit_of(s2_status status)
{
    switch (status) {
    case S2_OK: return S2_EXIT_OK;
    case S2_EINVAL:
    case S2_EPARSE: return S2_EXIT_REFUSED;
    case S2_ENOMEM:
    case S2_ELIMIT: return S2_EXIT_UNDECIDED;
    case S2_EUNSUPPORTED:
    case S2_EIO:
    case S2_EDB:
    case S2_ECUDA: return S2_EXIT_ENVIRONMENT;
    case S2_EINTERNAL: return S2_EXIT_INTERNAL;
    }
    return S2_EXIT_INTERNAL;
}

s2_exit s2_cli_fail(s2_cli *cli, s2_status status, const char *what)
{
    s2_cli_error(cli, "%s: %s", what, s2_status_text(status));
    return s2_exit_of(status);
}

s2_exit s2_cli_refuse(s2_cli *cli, s2_status status, const s2_diag *diag)
{
    s2_cli_error(cli, "%s", s2_diag_text(diag, status));
    return status == S2_EINVAL ? S2_EXIT_USAGE : s2_exit_of(status);
}

s2_exit s2_cli_refuse_file(s2_cli *cli, s2_status status, const char *path, const s2_diag *diag)
{
    if (diag->line > 0)
        s2_cli_error(cli, "%s:%d:%d: %s", path, diag->line, diag->col, s2_diag_text(diag, status));
    else
        s2_cli_error(cli, "%s: %s", path, s2_diag_text(diag, status));
    return s2_exit_of(status);
}

s2_exit s2_exit_combine(s2_exit a, s2_exit b)
{
    static const s2_exit order[] = {S2_EXIT_INTERNAL, S2_EXIT_ENVIRONMENT, S2_EXIT_USAGE,
                                    S2_EXIT_REFUSED,  S2_EXIT_VIOLATED,    S2_EXIT_UNDECIDED};
    for (size_t n = 0; n < sizeof order / sizeof order[0]; n++)
        if (a == order[n] || b == order[n])
            return order[n];
    return S2_EXIT_OK;
}
