/*
 * cli/commands.h - the commands of s2: one function each, in cli/cmd_<name>.c.
 *
 * argv[0] is the command's name; the result is an exit code (cli/cli.h). cli/table.c has their names
 * and options; cli/main_s2.c binds names to functions.
 */
#ifndef S2_CLI_COMMANDS_H
#define S2_CLI_COMMANDS_H

#include "cli/cli.h"

/* `s2 NAME` with its arguments, argv[0] being NAME. What is wrong has been said when it returns. */
s2_exit s2_cmd_check(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_show(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_reach(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_mask(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_diff(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_sim(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_calibrate(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_validate(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_search(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_import(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_export(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_draw(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_ls(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_pareto(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_db(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_tag(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_note(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_star(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_rm(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_undo(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_repro(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_tui(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_explain(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_doctor(s2_cli *cli, int argc, char **argv);
s2_exit s2_cmd_help(s2_cli *cli, int argc, char **argv);

#endif /* S2_CLI_COMMANDS_H */
