/*
 * cli/options.h - commands and their options as data, and the parser that reads a command line with them.
 *
 * cli/table.c is the only place where a command's options are written down: the parser, --help, the
 * man pages and shell completion are all made from it.
 *
 *     s2_args args;
 *     S2_CLI_TRY(s2_args_parse(cli, "show", argc, argv, &args));
 *     int64_t len_tok;
 *     S2_CLI_TRY(s2_args_int(cli, &args, "len", 1, S2_LIMIT_CONTEXT_TOK, &len_tok));
 *
 * Option grammar: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, clustered flags, `--` ends options,
 * `-` is an operand. Options and operands may be mixed. Naming an option twice is an error unless it
 * is `repeated`. Asking for an option that the table does not hold is a programmer's error (assert).
 *
 * Ownership: everything points into argv, the table, or cli->arena.
 */
#ifndef S2_CLI_OPTIONS_H
#define S2_CLI_OPTIONS_H

#include "cli/cli.h"

typedef struct s2_option {
    const char *name;     /* long, without the dashes; NULL ends a list */
    char letter;          /* short, or '\0' */
    const char *arg;      /* NULL: a flag. "txt|pbm" (all lower case): one of these words. Else a name: "N" */
    const char *fallback; /* value when absent; NULL: none */
    const char *help;     /* one or two lines, no full stop */
    bool repeated;
    bool s2_only; /* unknown to s2check */
} s2_option;

typedef struct s2_command {
    const char *name;
    const char *operands; /* as in the synopsis: "PATTERN..." */
    int32_t min_operands;
    int32_t max_operands; /* -1: any number */
    const char *summary;  /* one line */
    const char *about;    /* paragraphs, for --help and the man page */
    const char *examples; /* lines; a line that starts with '$' is a command */
    const s2_option *options;
} s2_command;

/* False in s2check for options that only s2 has. */
bool s2_option_is_known(const char *program, const s2_option *option);

/* Every command of s2, ended by a NULL name. */
extern const s2_command s2_command_table[];
/* What s2check says about itself instead of the entry's `about`: it knows neither foreign configs nor the
 * database. */
extern const char s2_s2check_about[];
extern const char s2_s2check_examples[];
const s2_command *s2_command_find(const char *name);
/* The known word nearest to a wrong one (edit distance <= 2, or a prefix), or NULL. */
const char *s2_command_nearest(const char *word);

typedef struct s2_args {
    const s2_command *command;
    int32_t n_operands;
    const char **operands;
    int32_t n_given;
    const struct s2_given *given; /* options in the order they were written */
} s2_args;

struct s2_given {
    const s2_option *option;
    const char *value; /* "" for flags */
};

/*
 * argv[0] is the command's name. S2_EXIT_USAGE after a message, S2_EXIT_ANSWERED after --help. --db and --no-db
 * are stored in *cli. With program "s2check", options that are s2_only are unknown.
 */
s2_exit s2_args_parse(s2_cli *cli, const char *command, int argc, char **argv, s2_args *out);

bool s2_args_known(const s2_args *args,
                   const char *name); /* an option of the command; others may not be asked */
bool s2_args_has(const s2_args *args, const char *name); /* written on the command line */
/* S2_EXIT_USAGE after a message where an option of the NULL-terminated list is written: it does not go with `what`. */
s2_exit s2_args_exclude(s2_cli *cli, const s2_args *args, const char *what, const char *const *names);
const char *s2_args_str(const s2_args *args, const char *name); /* last value, fallback, or NULL */
/*
 * A whole number in [least, most]; S2_EXIT_OK, or S2_EXIT_USAGE after a message. Needs a value or a fallback.
 */
s2_exit s2_args_int(s2_cli *cli, const s2_args *args, const char *name, int64_t least, int64_t most,
                    int64_t *out);

/* Digits with an optional k or m (1024, 1048576); false for anything else or beyond 2^53. */
bool s2_number_parse(const char *text, int64_t *out);

/* True when `word` is one of the words of "a|b|c". */
/* Which of n words it is, as name says them; the parser lets no other word through. */
int s2_word_index(const char *word, const char *(*name)(int), int n);
bool s2_word_in(const char *words, const char *word);
/* True for an arg of the table that is a closed list of words. */
bool s2_arg_is_words(const char *arg);

#endif /* S2_CLI_OPTIONS_H */
