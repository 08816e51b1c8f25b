/*
 * cli/cli.h - what every command is handed: streams, memory, seams; and the exit codes.
 *
 * Only cli/ chooses exit codes and speaks to people. A command is one file cli/cmd_<name>.c with one
 * function of type s2_command_fn that returns an exit code; it writes results to `out` and everything
 * else to `err`, and allocates from `arena`, which main releases.
 *
 * s2check links only base, pattern, coverage and the files of cli/ that it needs. Whatever needs more (the
 * database, foreign configs) is reached through `hooks`, which main_s2.c sets and s2check leaves NULL.
 *
 * Threads: one s2_cli belongs to one thread.
 */
#ifndef S2_CLI_CLI_H
#define S2_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "db/db.h"
#include "pattern/spec.h"

/* Exit codes of all binaries (README, "exit codes"). */
typedef enum s2_exit {
    S2_EXIT_OK = 0,
    S2_EXIT_VIOLATED = 1,    /* decided, and a property does not hold; wrong result; difference */
    S2_EXIT_USAGE = 2,       /* called wrongly */
    S2_EXIT_REFUSED = 3,     /* input refused */
    S2_EXIT_UNDECIDED = 4,   /* a stated limit was hit */
    S2_EXIT_ENVIRONMENT = 5, /* no GPU, kernel or price for it, database locked or damaged, disk full */
    S2_EXIT_INTERNAL = 6,    /* two engines disagree */
    S2_EXIT_ANSWERED = -1    /* never a process's: only --help was requested; s2_cli_finish makes it 0 */
} s2_exit;

/*
 * A step of a command returns S2_EXIT_OK if the command should go on; else it has printed a message, and the
 * command ends with that code. S2_CLI_TRY returns early; while holding resources, check the code instead.
 */
#define S2_CLI_TRY(expr)                                                                                     \
    do {                                                                                                     \
        const s2_exit s2_try_exit_ = (expr);                                                                 \
        if (s2_try_exit_ != S2_EXIT_OK)                                                                      \
            return s2_try_exit_;                                                                             \
    } while (0)

typedef struct s2_cli s2_cli;
struct s2_input; /* cli/input.h */
typedef s2_exit (*s2_command_fn)(s2_cli *cli, int argc, char **argv);

struct s2_format;

/* What s2 has and s2check lacks. Each may be NULL. */
typedef struct s2_cli_hooks {
    /*
     * Recognise a foreign config by its content and import it into cli->arena. S2_EUNSUPPORTED: not a foreign
     * config (the text is then read as a pattern); S2_EPARSE with *diag: a foreign config, but refused.
     */
    s2_status (*import)(s2_cli *cli, const char *path, const char *text, size_t n_bytes, s2_pattern *out,
                        const struct s2_format **used, s2_diag *diag);
    /* The file that represents a folder, in cli->arena: its config, or what an export wrote; or NULL. */
    const char *(*in_folder)(s2_cli *cli, const char *folder);
    /*
     * The canonical text of a design by name or hash prefix, and what it is called, in cli->arena. *text is NULL,
     * and *name untouched, when there is none.
     */
    s2_exit (*design)(s2_cli *cli, const char *key, const char **text, const char **name);
    /* Store what a check decided; does nothing under --no-db. */
    s2_exit (*record_checks)(s2_cli *cli, const struct s2_input *input, const s2_db_check *checks,
                             int32_t n_checks);
} s2_cli_hooks;

struct s2_cli {
    const char *program; /* "s2" or "s2check" */
    const char *command; /* "check", or "" outside a command */
    FILE *in;
    FILE *out;
    FILE *err;
    s2_arena arena; /* lives until the process ends */
    int argc;       /* as the process was called, for provenance */
    char **argv;
    const char *db_path; /* --db; NULL: $S2_DB, else s2.db */
    bool no_db;          /* --no-db: record nothing */
    bool quiet;          /* --quiet: print no verdict */
    bool color;          /* print verdicts in colour, as --color and the terminal decide (cli/color.h) */
    const char **sets;   /* --set KEY=VALUE, as given: what foreign configs leave unsaid */
    int32_t n_sets;
    const char *len;                   /* the command's --len, where that is one number; or NULL */
    bool sets_used;                    /* some format has seen them */
    const struct s2_format *export_to; /* set by an export: keys that only it knows are not the PATTERN's */
    struct {
        int64_t n_tok;   /* 0: no file states one */
        const char *key; /* the key that states it, and in which file */
        const char *path;
    } most; /* the longest context that a foreign file supports; the shortest of several files */
    struct {
        int64_t n_tok; /* 0: no file states shares of the length */
        const char *path;
    } sized;                   /* the context whose numbers a foreign file's pattern has */
    s2_db *db;                 /* opened when first needed (cli/store.h) */
    int64_t run_id;            /* this command's row in the database; 0: not yet stored */
    int64_t seed;              /* the run's seed; S2_DB_NONE: it uses none */
    int64_t started_us;        /* Unix time */
    const s2_cli_hooks *hooks; /* NULL in s2check */
};

/* Streams are stdout and stderr; the rest is empty. argv must outlive *cli. */
void s2_cli_init(s2_cli *cli, const char *program, int argc, char **argv);

/* Flush, release, and turn a failed write of results into exit code 5. */
s2_exit s2_cli_finish(s2_cli *cli, s2_exit code);

/* One line on stderr, "s2 check: ...", cleaned as a whole, so that arguments may come from anywhere. */
void s2_cli_error(s2_cli *cli, const char *fmt, ...) S2_PRINTF(2, 3);
/* A following, indented line: what to do about it. */
void s2_cli_hint(s2_cli *cli, const char *fmt, ...) S2_PRINTF(2, 3);

/* False for files and pipes, whose readers did not ask for escape sequences, and under NO_COLOR. */
bool s2_cli_takes_color(const s2_cli *cli);

/* Write a buffer to stdout and release it, or fail with what went wrong while it was filled. */
s2_exit s2_cli_print(s2_cli *cli, s2_buf *buf);
/*
 * What is written to a file is put together from many pieces; without one that memory ran out for it may still look
 * whole. S2_ENOMEM where an allocation was refused since the program began: then nothing is written.
 */
s2_status s2_cli_lacks_nothing(void);
/* As s2_cli_print to a file, which appears whole or not at all (base/file.h). */
s2_exit s2_cli_save(s2_cli *cli, const char *path, s2_buf *buf);

/* The exit code of a status, and the same with a message "what: sentence of the status". */
s2_exit s2_exit_of(s2_status status);
s2_exit s2_cli_fail(s2_cli *cli, s2_status status, const char *what);
/* With the diagnostic's words: of an argument, whose faults are a wrong call; of a file, which is refused. */
s2_exit s2_cli_refuse(s2_cli *cli, s2_status status, const s2_diag *diag);
s2_exit s2_cli_refuse_file(s2_cli *cli, s2_status status, const char *path, const s2_diag *diag);

/* The exit code of several inputs: the first present of 6, 5, 3, 1, 4, 0 (2 ends a command before it reads inputs). */
s2_exit s2_exit_combine(s2_exit a, s2_exit b);

/* "0.1.0" and the commit it was built from ("1a2b3c4", "-dirty" behind it where the tree was changed). */
const char *s2_version(void);
const char *s2_version_commit(void);
/* The compiler and options used for the build. */
const char *s2_version_build(void);

#endif /* S2_CLI_CLI_H */
