#include "cli/options.h"

#include "cli/help.h"
#include "cli/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NEAR = 2 };

/* How far `word` is from `known`; a prefix of it counts as one edit. */
static int32_t distance(const char *word, const char *known)
{
    const size_t n = strlen(word);
    if (n > 1 && strncmp(word, known, n) == 0)
        return 1;
    return s2_text_distance(word, n, known, NEAR + 1);
}

const char *s2_command_nearest(const char *word)
{
    const char *best = NULL;
    int32_t best_distance = NEAR + 1;
    for (const s2_command *command = s2_command_table; command->name != NULL; command++) {
        const int32_t d = distance(word, command->name);
        if (d < best_distance) {
            best_distance = d;
            best = command->name;
        }
    }
    return best;
}

/* What servers, trainers and other commands call an option; a command may have the second name of one alone. */
static const struct {
    const char *theirs, *ours;
} other_names[] = {{"tensor-parallel-size", "tp"},
                   {"pipeline-parallel-size", "pp"},
                   {"data-parallel-size", "dp"},
                   {"context-parallel-size", "cp"},
                   {"expert-parallel-size", "ep"},
                   {"tensor-model-parallel-size", "tp"},
                   {"pipeline-model-parallel-size", "pp"},
                   {"kv-cache-dtype", "kv-dtype"},
                   {"max-model-len", "len"},
                   {"max-seq-len", "len"},
                   {"seq-len", "len"},
                   {"seq-length", "len"},
                   {"context", "len"},
                   {"context-length", "len"},
                   {"ctx", "len"},
                   {"block-size", "page"},
                   {"page-size", "page"},
                   {"quantization", "weights"},
                   {"max-num-seqs", "batch"},
                   {"batch-size", "batch"},
                   {"micro-batch-size", "micro"},
                   {"nnodes", "nodes"},
                   {"format", "json"},
                   {"format", "as"},
                   {"format", "to"},
                   {"output", "out"}};

/* Whether `known` and more is written, as in --length. */
static bool begins_with(const char *word, const char *known)
{
    const size_t n = strlen(known);
    return strncmp(word, known, n) == 0 && (n > 2 || word[n] == '-');
}

static int32_t option_distance(const char *word, const char *known)
{
    bool named = false;
    for (size_t n = 0; n < sizeof other_names / sizeof other_names[0]; n++) {
        const bool is_theirs = strcmp(other_names[n].theirs, word) == 0;
        if (is_theirs && strcmp(other_names[n].ours, known) == 0)
            return 0;
        named = named || is_theirs;
    }
    if (named)
        return NEAR + 1;
    return s2_min_i32(distance(word, known), begins_with(word, known) ? NEAR : NEAR + 1);
}

static const char *option_nearest(const s2_cli *cli, const s2_command *command, const char *word)
{
    const char *best = NULL;
    int32_t best_distance = NEAR + 1;
    for (const s2_option *option = command->options; option->name != NULL; option++) {
        const int32_t d = option_distance(word, option->name);
        if (d < best_distance && s2_option_is_known(cli->program, option)) {
            best_distance = d;
            best = option->name;
        }
    }
    return best;
}

/* The commands that have the option, as many as a line holds; nothing where there is none. */
static void put_owners(const char *word, s2_buf *buf)
{
    enum { MOST = 4 };
    int32_t n = 0;
    for (const s2_command *command = s2_command_table; command->name != NULL; command++)
        for (const s2_option *option = command->options; option->name != NULL; option++)
            if (strcmp(option->name, word) == 0) {
                s2_buf_printf(buf, "%s%s",
                              n == 0      ? "; it is an option of "
                              : n <= MOST ? ", "
                                          : "",
                              n < MOST    ? command->name
                              : n == MOST ? "..."
                                          : "");
                n++;
                break;
            }
}

/* A command line while it is being read. */
typedef struct reader {
    s2_cli *cli;
    const s2_command *command;
    int argc;
    char **argv;
    int nth;
    const char **operands;
    int32_t n_operands;
    struct s2_given *given;
    int32_t n_given;
    bool help;
} reader;

static s2_exit wrong_option(const reader *r, const char *word)
{
    const char *const near = option_nearest(r->cli, r->command, word);
    s2_buf buf = {0};
    if (strcmp(r->command->name, "check") == 0 &&
        (strcmp(word, "tp") == 0 || option_distance(word, "tp") == 0))
        s2_buf_puts(&buf, "; --require ranks:N proves what each of N GPUs reads");
    else if (near != NULL)
        s2_buf_printf(&buf, "; did you mean --%s?", near);
    else if (strcmp(r->cli->program, "s2") == 0)
        put_owners(word, &buf);
    s2_cli_error(r->cli, "unknown option --%s%s", word, buf.data != NULL ? buf.data : "");
    s2_buf_release(&buf);
    return S2_EXIT_USAGE;
}

static s2_exit wrong_word(const reader *r, const s2_option *option, const char *value)
{
    s2_cli_error(r->cli, "--%s %s: expected one of %s", option->name, value, option->arg);
    return S2_EXIT_USAGE;
}

static s2_exit keep_option(reader *r, const s2_option *option, const char *value)
{
    for (int32_t n = 0; n < r->n_given && !option->repeated; n++)
        if (r->given[n].option == option) {
            s2_cli_error(r->cli, "--%s is given twice", option->name);
            return S2_EXIT_USAGE;
        }
    if (s2_arg_is_words(option->arg) && !s2_word_in(option->arg, value))
        return wrong_word(r, option, value);
    if (option->arg != NULL && strcmp(option->arg, "FILE") == 0 && value[0] == '\0') {
        s2_cli_error(r->cli, "--%s: an empty name is no file",
                     option->name); /* as of a variable that is not set */
        return S2_EXIT_USAGE;
    }
    r->given[r->n_given++] = (struct s2_given){option, value};
    return S2_EXIT_OK;
}

/* The value of an option: what follows '=' or the letter, else the next word. */
static s2_exit take_option(reader *r, const s2_option *option, const char *attached)
{
    if (option->arg == NULL && attached != NULL) {
        s2_cli_error(r->cli, "--%s takes no value", option->name);
        return S2_EXIT_USAGE;
    }
    if (option->arg == NULL)
        return keep_option(r, option, "");
    if (attached == NULL && r->nth + 1 >= r->argc) {
        s2_cli_error(r->cli, "--%s needs a value: %s", option->name, option->arg);
        return S2_EXIT_USAGE;
    }
    return keep_option(r, option, attached != NULL ? attached : r->argv[++r->nth]);
}

static const s2_option *find_long(const reader *r, const char *word)
{
    for (const s2_option *option = r->command->options; option->name != NULL; option++)
        if (s2_text_is(option->name, word, strcspn(word, "=")) && s2_option_is_known(r->cli->program, option))
            return option;
    return NULL;
}

static s2_exit read_long(reader *r, const char *word)
{
    const char *const equals = strchr(word, '=');
    const size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);
    if (n == 4 && strncmp(word, "help", 4) == 0) {
        r->help = true;
        return S2_EXIT_OK;
    }
    const s2_option *const option = find_long(r, word);
    if (option != NULL)
        return take_option(r, option, equals != NULL ? equals + 1 : NULL);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), word);
    return wrong_option(r, name);
}

static const s2_option *find_letter(const reader *r, char letter)
{
    for (const s2_option *option = r->command->options; option->name != NULL; option++)
        if (option->letter == letter && s2_option_is_known(r->cli->program, option))
            return option;
    return NULL;
}

static s2_exit read_letters(reader *r, const char *word)
{
    for (const char *letters = word; *letters != '\0'; letters++) {
        if (*letters == 'h' && find_letter(r, 'h') == NULL) {
            r->help = true;
            continue;
        }
        const s2_option *const option = find_letter(r, *letters);
        if (option == NULL) {
            const s2_option *const meant = find_long(r, word); /* -tp 4 */
            if (meant != NULL)
                s2_cli_error(r->cli, "unknown option -%s; did you mean --%s?", word, meant->name);
            else
                s2_cli_error(r->cli, "unknown option -%c", *letters);
            return S2_EXIT_USAGE;
        }
        const bool last = option->arg != NULL;
        if (last && letters[1] == '=') { /* it would be a part of the value, as of the name of a file */
            s2_cli_error(r->cli, "-%s: write -%c VALUE or --%s=VALUE", letters, *letters, option->name);
            return S2_EXIT_USAGE;
        }
        S2_CLI_TRY(take_option(r, option, last && letters[1] != '\0' ? letters + 1 : NULL));
        if (last)
            break;
    }
    return S2_EXIT_OK;
}

/* What a page or a chat made of "--len", copied from there: U+2010 to U+2015 or U+2212 before an option's name. */
static bool dash_of_a_page(const reader *r, const char *word)
{
    const char *rest = word;
    while ((strncmp(rest, "\xe2\x80", 2) == 0 && (uint8_t)rest[2] >= 0x90 && (uint8_t)rest[2] <= 0x95) ||
           strncmp(rest, "\xe2\x88\x92", 3) == 0)
        rest += 3;
    const s2_option *const meant = rest == word ? NULL : find_long(r, rest + strspn(rest, "-"));
    if (meant != NULL)
        s2_cli_error(r->cli, "%s begins with a dash that is no '-': write --%s", word, meant->name);
    return meant != NULL;
}

static s2_exit read_words(reader *r)
{
    bool only_operands = false;
    for (r->nth = 1; r->nth < r->argc; r->nth++) {
        const char *const word = r->argv[r->nth];
        if (!only_operands && dash_of_a_page(r, word))
            return S2_EXIT_USAGE;
        if (only_operands || word[0] != '-' || word[1] == '\0')
            r->operands[r->n_operands++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else
            S2_CLI_TRY(word[1] == '-' ? read_long(r, word + 2) : read_letters(r, word + 1));
    }
    return S2_EXIT_OK;
}

static s2_exit check_operands(const reader *r)
{
    const s2_command *const command = r->command;
    const bool few = r->n_operands < command->min_operands;
    const bool many = command->max_operands >= 0 && r->n_operands > command->max_operands;
    if (!few && !many)
        return S2_EXIT_OK;
    if (few)
        s2_cli_error(r->cli, "expected %s", command->operands);
    else
        s2_cli_error(r->cli, "unexpected argument %s", r->operands[command->max_operands]);
    s2_cli_hint(r->cli, "%s%s%s --help shows how it is called", r->cli->program,
                r->cli->command[0] != '\0' ? " " : "", r->cli->command);
    return S2_EXIT_USAGE;
}

/* The command's length, given or its default; NULL where that is a list, a word or left to the command. */
static const char *len_of(const s2_args *args)
{
    for (const s2_option *option = args->command->options; option->name != NULL; option++) {
        int64_t n_tok;
        const char *const text = strcmp(option->name, "len") == 0 ? s2_args_str(args, "len") : NULL;
        if (text != NULL && s2_number_parse(text, &n_tok))
            return text;
    }
    return NULL;
}

const char *s2_store_path(const s2_cli *cli)
{
    const char *const from_environment = getenv("S2_DB");
    if (cli->db_path != NULL)
        return cli->db_path;
    return from_environment != NULL && from_environment[0] != '\0' ? from_environment : "s2.db";
}

s2_exit s2_store_check_path(s2_cli *cli)
{
    const char *const path = s2_store_path(cli);
    if (path[0] == '\0')
        s2_cli_error(cli, "--db: an empty name is no file");
    else if (!s2_db_is_path(path))
        s2_cli_error(cli, "%s: --db and $S2_DB take a path; a file of that name is ./%s", path, path);
    else
        return S2_EXIT_OK;
    return S2_EXIT_USAGE;
}

/* Store --db, --no-db, --set and --len in *cli, for every command that reads patterns. */
static s2_status take_globals(s2_cli *cli, const s2_args *args)
{
    cli->n_sets = 0;
    cli->len = len_of(args);
    cli->sets = S2_NEW(&cli->arena, const char *, args->n_given + 1);
    if (cli->sets == NULL)
        return S2_ENOMEM;
    for (int32_t n = 0; n < args->n_given; n++) {
        if (strcmp(args->given[n].option->name, "db") == 0)
            cli->db_path = args->given[n].value;
        if (strcmp(args->given[n].option->name, "no-db") == 0)
            cli->no_db = true;
        if (strcmp(args->given[n].option->name, "set") == 0)
            cli->sets[cli->n_sets++] = args->given[n].value;
    }
    return S2_OK;
}

/* Whether a path leads to the database, or to what SQLite and s2 keep beside it. */
static bool is_of_database(const s2_cli *cli, const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-lock"};
    struct stat other, own;
    bool same = false;
    if (stat(path, &other) != 0)
        return false;
    for (size_t n = 0; n < sizeof suffixes / sizeof *suffixes && !same; n++) {
        s2_buf name = {0};
        s2_buf_printf(&name, "%s%s", s2_store_path(cli), suffixes[n]);
        same = name.status == S2_OK && stat(name.data, &own) == 0 && S_ISREG(own.st_mode) &&
               own.st_dev == other.st_dev && own.st_ino == other.st_ino;
        s2_buf_release(&name);
    }
    return same;
}

/* Who writes to the database replaces all that it holds, and who reads it takes its locks from SQLite. */
static s2_exit refuse_database(s2_cli *cli, const s2_args *args)
{
    for (int32_t n = 0; n < args->n_given; n++) {
        const s2_option *const option = args->given[n].option;
        if (option->arg == NULL || strstr(option->arg, "FILE") == NULL || strcmp(option->name, "db") == 0 ||
            !is_of_database(cli, args->given[n].value))
            continue;
        s2_cli_error(cli, "--%s %s: is the database (--db, $S2_DB); give another file", option->name,
                     args->given[n].value);
        return S2_EXIT_USAGE;
    }
    return S2_EXIT_OK;
}

s2_exit s2_args_parse(s2_cli *cli, const char *command, int argc, char **argv, s2_args *out)
{
    reader r = {.cli = cli, .command = s2_command_find(command), .argc = argc, .argv = argv};
    assert(r.command != NULL);
    if (strcmp(cli->program, "s2") == 0)
        cli->command = r.command->name;
    r.operands = S2_NEW(&cli->arena, const char *, argc + 1);
    /* a word of n letters can hold n flags */
    size_t n_letters = 1;
    for (int n = 0; n < argc; n++)
        n_letters += strlen(argv[n]);
    r.given = S2_NEW(&cli->arena, struct s2_given, n_letters);
    if (r.operands == NULL || r.given == NULL)
        return s2_cli_fail(cli, S2_ENOMEM, "command line");
    S2_CLI_TRY(read_words(&r));
    if (r.help) {
        S2_CLI_TRY(s2_help_print(cli, r.command));
        return S2_EXIT_ANSWERED;
    }
    S2_CLI_TRY(check_operands(&r));
    *out = (s2_args){r.command, r.n_operands, r.operands, r.n_given, r.given};
    const s2_status status = take_globals(cli, out);
    if (status != S2_OK)
        return s2_cli_fail(cli, status, "command line");
    if (cli->db_path != NULL)
        S2_CLI_TRY(s2_store_check_path(cli));
    return refuse_database(cli, out);
}

/* Behind the last option of the command, whose name is NULL, where it has none of that name. */
static const s2_option *look_for(const s2_args *args, const char *name)
{
    const s2_option *option = args->command->options;
    while (option->name != NULL && strcmp(option->name, name) != 0)
        option++;
    return option;
}

static const s2_option *option_of(const s2_args *args, const char *name)
{
    const s2_option *const option = look_for(args, name);
    assert(option->name != NULL);
    return option;
}

/* The next value of a repeatable option, starting at *n_seen; NULL at the end. */
static const char *next_value(const s2_args *args, const char *name, int32_t *n_seen)
{
    const s2_option *const option = option_of(args, name);
    while (*n_seen < args->n_given) {
        const struct s2_given *const given = &args->given[(*n_seen)++];
        if (given->option == option)
            return given->value;
    }
    return NULL;
}

bool s2_args_known(const s2_args *args, const char *name)
{
    return look_for(args, name)->name != NULL;
}

bool s2_args_has(const s2_args *args, const char *name)
{
    int32_t n_seen = 0;
    return next_value(args, name, &n_seen) != NULL;
}

s2_exit s2_args_exclude(s2_cli *cli, const s2_args *args, const char *what, const char *const *names)
{
    for (; *names != NULL; names++)
        if (s2_args_has(args, *names)) {
            s2_cli_error(cli, "%s cannot be combined with --%s", what, *names);
            return S2_EXIT_USAGE;
        }
    return S2_EXIT_OK;
}

const char *s2_args_str(const s2_args *args, const char *name)
{
    const char *value = option_of(args, name)->fallback;
    int32_t n_seen = 0;
    for (const char *next; (next = next_value(args, name, &n_seen)) != NULL;)
        value = next;
    return value;
}

s2_exit s2_args_int(s2_cli *cli, const s2_args *args, const char *name, int64_t least, int64_t most,
                    int64_t *out)
{
    const char *const text = s2_args_str(args, name);
    int64_t value;
    if (text == NULL) {
        s2_cli_error(cli, "--%s is needed", name);
        return S2_EXIT_USAGE;
    }
    const bool is_number = s2_number_parse(text, &value);
    if (!is_number || value < least || value > most) {
        const char *const word = strchr(option_of(args, name)->arg, '|'); /* "N|max" */
        s2_cli_error(cli, "--%s %s: expected a number from %lld to %lld%s%s%s", name, text, (long long)least,
                     (long long)most, !is_number && most >= 1 << 20 ? ", as in 128k or 1m" : "",
                     word != NULL ? ", or " : "", word != NULL ? word + 1 : "");
        return S2_EXIT_USAGE;
    }
    *out = value;
    return S2_EXIT_OK;
}
