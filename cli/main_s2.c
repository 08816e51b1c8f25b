/*
 * s2: finds the command, hands it the seams that s2check does without, ends with its exit code.
 */
#include "cli/commands.h"
#include "cli/foreign.h"
#include "cli/help.h"
#include "cli/limit.h"
#include "cli/store.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

static const char LEN[] = "a smaller --len", ROWS[] = "conditions that leave fewer designs";

/* Every command of cli/table.c with its function, one a line. */
/* clang-format off */
static const struct {
    const char *name;
    s2_command_fn run;
    const char *less; /* of a page, which must answer within seconds, else it is stopped: what asks for less */
    bool is_work; /* it takes the time that it is given, but what the user's limits allow at most */
} BODIES[] = {
    {"check", s2_cmd_check, LEN, false},
    {"show", s2_cmd_show, LEN, false},
    {"reach", s2_cmd_reach, LEN, false},
    {"mask", s2_cmd_mask, LEN, false},
    {"diff", s2_cmd_diff, LEN, false},
    {"sim", s2_cmd_sim, LEN, false},
    {"calibrate", s2_cmd_calibrate, NULL, false},
    {"validate", s2_cmd_validate, NULL, true},
    {"search", s2_cmd_search, NULL, false},
    {"import", s2_cmd_import, LEN, false},
    {"export", s2_cmd_export, LEN, false},
    {"draw", s2_cmd_draw, LEN, false},
    {"ls", s2_cmd_ls, ROWS, false},
    {"pareto", s2_cmd_pareto, ROWS, false},
    {"db", s2_cmd_db, NULL, false},
    {"tag", s2_cmd_tag, NULL, false},
    {"note", s2_cmd_note, NULL, false},
    {"star", s2_cmd_star, NULL, false},
    {"rm", s2_cmd_rm, NULL, false},
    {"undo", s2_cmd_undo, NULL, false},
    {"repro", s2_cmd_repro, NULL, false},
    {"tui", s2_cmd_tui, NULL, false},
    {"explain", s2_cmd_explain, LEN, false},
    {"doctor", s2_cmd_doctor, NULL, false},
    {"help", s2_cmd_help, NULL, false},
};
/* clang-format on */

/* How files shared with s2check reach what only s2 has. */
static const s2_cli_hooks HOOKS = {.import = s2_foreign_hook,
                                   .in_folder = s2_foreign_in_folder,
                                   .design = s2_store_find_design,
                                   .record_checks = s2_store_checks};

/* On Ctrl-C print a message, then die as by default. A search, which keeps its front, has its own handler. */
static void say_stopped(int number)
{
    static const char word[] = "\ns2: stopped; what was already recorded is kept, the rest is lost\n";
    if (write(STDERR_FILENO, word, sizeof word - 1) < 0)
        _exit(S2_EXIT_ENVIRONMENT);
    (void)raise(number); /* SA_RESETHAND: by default this ends the process */
}

/* Skipped if the signal is ignored, as under nohup, and for the screens, which restore the terminal. */
static void watch_interrupt(const char *command)
{
    struct sigaction before;
    const struct sigaction stopped = {.sa_handler = say_stopped,
                                      .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
    if (strcmp(command, "tui") != 0 && sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        (void)sigaction(SIGINT, &stopped, NULL);
}

/*
 * Another program can cut a file short that is mapped here, as the index of a database's log is: to touch what is gone
 * raises SIGBUS. So does memory that a full file system cannot give. It ends the command as a kill would.
 */
static void say_cut(int number, siginfo_t *about, void *context)
{
    static const char word[] =
        "\ns2: a file that was in use lost its end: another program cut it short, or a disk is full. If it "
        "was "
        "that of a database (FILE-shm), s2 db check says whether the database is whole\n";
    (void)context;
    if (about->si_code != BUS_ADRERR)
        (void)raise(number); /* SA_RESETHAND, as above */
    const ssize_t n_said = write(STDERR_FILENO, word, sizeof word - 1);
    (void)n_said;
    _exit(S2_EXIT_ENVIRONMENT);
}

static void watch_mapped_files(void)
{
    const struct sigaction cut = {.sa_sigaction = say_cut,
                                  .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND | SA_NODEFER)};
    (void)sigaction(SIGBUS, &cut, NULL);
}

/* A page is put together from many pieces: without one that memory ran out for it may still look whole. */
static s2_exit refuse_lacking(s2_cli *cli, s2_exit code)
{
    if (code != S2_EXIT_OK || s2_alloc_n_refused() == 0)
        return code;
    s2_cli_error(cli, "out of memory: a part of what was printed or written may be missing");
    return S2_EXIT_UNDECIDED;
}

static s2_exit run_command(s2_cli *cli, int argc, char **argv)
{
    watch_interrupt(argv[0]);
    watch_mapped_files();
    for (size_t n = 0; n < sizeof BODIES / sizeof BODIES[0]; n++) {
        if (strcmp(BODIES[n].name, argv[0]) != 0)
            continue;
        if (BODIES[n].is_work)
            S2_CLI_TRY(s2_limit_begin_asked(cli));
        if (BODIES[n].less == NULL)
            return BODIES[n].run(cli, argc, argv);
        S2_CLI_TRY(s2_limit_begin(cli, BODIES[n].less));
        return refuse_lacking(cli, BODIES[n].run(cli, argc, argv));
    }
    const char *const near = s2_command_nearest(argv[0]);
    s2_cli_error(cli, "no command %s%s%s%s", argv[0], near != NULL ? "; did you mean " : "",
                 near != NULL ? near : "", near != NULL ? "?" : "");
    s2_cli_hint(cli, "s2 help lists them");
    return S2_EXIT_USAGE;
}

static s2_exit print_version(s2_cli *cli)
{
    fprintf(cli->out, "s2 %s (%s)\n", s2_version(), s2_version_commit());
    return S2_EXIT_OK;
}

/* Options before the command, then the command. */
static s2_exit run(s2_cli *cli, int argc, char **argv)
{
    int nth = 1;
    while (nth < argc && argv[nth][0] == '-') {
        if (strcmp(argv[nth], "--version") == 0)
            return print_version(cli);
        if (strcmp(argv[nth], "--help") == 0 || strcmp(argv[nth], "-h") == 0)
            return s2_help_overview(cli);
        if (strncmp(argv[nth], "--db=", 5) == 0) {
            cli->db_path = argv[nth++] + 5;
        } else if (strcmp(argv[nth], "--db") == 0 && nth + 1 < argc) {
            cli->db_path = argv[nth + 1];
            nth += 2;
        } else {
            s2_cli_error(cli, "unknown option %s before the command", argv[nth]);
            return S2_EXIT_USAGE;
        }
    }
    S2_CLI_TRY(s2_store_check_path(cli));
    if (nth < argc)
        return run_command(cli, argc - nth, argv + nth);
    s2_cli_error(cli, "a command is needed; s2 help lists them");
    return S2_EXIT_USAGE;
}

/* A setting that nothing used would look as if it had changed something. */
static s2_exit refuse_unused(s2_cli *cli, s2_exit code)
{
    if (cli->n_sets == 0 || cli->sets_used || (code != S2_EXIT_OK && code != S2_EXIT_VIOLATED))
        return code;
    s2_cli_error(cli, "--set %s was not used: it is for configs of other stacks, and no PATTERN is one",
                 cli->sets[0]);
    return S2_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    s2_cli cli;
    /* treat a limit on file sizes like a full disk: report it, do not die of it */
    signal(SIGXFSZ, SIG_IGN);
    s2_cli_init(&cli, "s2", argc, argv);
    cli.hooks = &HOOKS;
    return s2_cli_finish(&cli, s2_store_finish(&cli, refuse_unused(&cli, run(&cli, argc, argv))));
}
