#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/options.h"

s2_exit s2_cmd_explain(s2_cli *cli, int argc, char **argv)
{
    s2_args args;
    S2_CLI_TRY(s2_args_parse(cli, "explain", argc, argv, &args));
    if (args.n_operands == 0)
        return s2_explain_list(cli);
    s2_exit code = S2_EXIT_OK;
    for (int32_t n = 0; n < args.n_operands; n++)
        code = s2_exit_combine(code, s2_explain_print(cli, args.operands[n]));
    return code;
}
