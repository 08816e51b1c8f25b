#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/help.h"

#include <string.h>

static s2_exit print_man(s2_cli *cli, const char *name)
{
    const bool is_s2check = name != NULL && strcmp(name, "s2check") == 0;
    s2_buf buf = {0};
    if (name != NULL && strcmp(name, "s2cert") == 0)
        s2_help_man_s2cert(&buf);
    else
        s2_help_man(is_s2check ? "s2check" : "s2",
                    name == NULL ? NULL : s2_command_find(is_s2check ? "check" : name), &buf);
    return s2_cli_print(cli, &buf);
}

static s2_exit wrong_name(s2_cli *cli, const char *name)
{
    const char *const near = s2_command_nearest(name);
    s2_cli_error(cli, "no command %s%s%s%s", name, near != NULL ? "; did you mean " : "",
                 near != NULL ? near : "", near != NULL ? "?" : "");
    s2_cli_hint(cli, "s2 help lists them");
    return S2_EXIT_USAGE;
}

s2_exit s2_cmd_help(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "help", argc, argv, &args));
    const char *const shell = s2_args_str(&args, "completion");
    if (shell != NULL) {
        s2_buf buf = {0};
        s2_completion_print(shell, &buf);
        return s2_cli_print(cli, &buf);
    }
    if (s2_args_has(&args, "list")) {
        for (const s2_command *command = s2_command_table; command->name != NULL; command++)
            fprintf(cli->out, "%s\n", command->name);
        return S2_EXIT_OK;
    }
    const char *const name = args.n_operands > 0 ? args.operands[0] : NULL;
    const bool man = s2_args_has(&args, "man");
    const bool known = name == NULL || s2_command_find(name) != NULL || strcmp(name, "s2check") == 0 ||
                       (man && strcmp(name, "s2cert") == 0);
    if (!known)
        return wrong_name(cli, name);
    if (man)
        return print_man(cli, name);
    if (name == NULL)
        return s2_help_overview(cli);
    return s2_help_print(cli, s2_command_find(strcmp(name, "s2check") == 0 ? "check" : name));
}
