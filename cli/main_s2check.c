/*
 * s2check: only parser and prover, for scripts and editors that call it on every save.
 */
#include "cli/commands.h"
#include "cli/limit.h"

int main(int argc, char **argv)
{
    s2_cli cli;
    s2_cli_init(&cli, "s2check", argc, argv);
    const s2_exit limited = s2_limit_begin(&cli, "a smaller --len");
    return s2_cli_finish(&cli, limited == S2_EXIT_OK ? s2_cmd_check(&cli, argc, argv) : limited);
}
