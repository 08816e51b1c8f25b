/*
 * cli/input.h - turns a PATTERN argument of any kind into a pattern.
 *
 * In this order: "-" is standard input; an existing file is read (as a foreign config, if the hook
 * recognises it); a text with ':', ';' or a line end is inline; anything else is a design in the database,
 * by name or hash prefix. Reading is bounded in bytes and, for pipes, in time.
 */
#ifndef S2_CLI_INPUT_H
#define S2_CLI_INPUT_H

#include "cli/options.h"

typedef struct s2_input {
    const char *label; /* where it came from, as diagnostics show it: a path, "-", "inline", a design */
    const char *text;  /* as read; carets point into it */
    size_t n_bytes;
    s2_pattern pattern;             /* in cli->arena */
    const struct s2_format *format; /* the format of a foreign file; NULL: our own language */
} s2_input;

/*
 * S2_EXIT_OK, or the exit code after a message on stderr: `label:line:col: S2Pnnn message` with a caret
 * for a refused text.
 */
s2_exit s2_input_read(s2_cli *cli, const char *operand, s2_input *out);

/*
 * The context length of a command: its --len. Mask files limit it: the default is cut to where they end, and
 * a longer --len is refused. S2_EXIT_OK, or S2_EXIT_USAGE after a message.
 */
s2_exit s2_input_len(s2_cli *cli, const s2_args *args, const s2_pattern *pattern, int64_t *len_tok);
/* The same for a length that is already read. */
s2_exit s2_input_fits(s2_cli *cli, const s2_pattern *pattern, int64_t len_tok);

/*
 * Say why a file could not be read (errno, for S2_EIO). A file that is missing or that we may not read is
 * refused input; a failing disk or system is an environment error.
 */
s2_exit s2_input_unreadable(s2_cli *cli, s2_status status, const char *label);

/* Whether a path is named as a file of the pattern language: FILE.s2. */
bool s2_input_is_s2(const char *path);

/* A model's folder means the config.json in it; any other path means itself. */
const char *s2_input_path(s2_cli *cli, const char *path);

/* The pattern's own name, else the file's without directory and ".s2"; cleaned. */
const char *s2_input_name(s2_cli *cli, const s2_input *input);

/* Print a refusal of `text` known as `label`; returns the exit code of the status. */
s2_exit s2_input_refuse(s2_cli *cli, s2_status status, const char *label, const char *text, size_t n_bytes,
                        const s2_diag *diag);

#endif /* S2_CLI_INPUT_H */
