/*
 * s2check: parser and prover alone, for scripts and editors that call it on every save.
 */
#include "cli/commands.h"

int main(int argc, char **argv)
{
    s2_cli cli;
    s2_cli_init(&cli, "s2check", argc, argv);
    return s2_cli_finish(&cli, s2_cmd_check(&cli, argc, argv));
}
