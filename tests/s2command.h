/*
 * tests/s2command.h - a command as a person calls it.
 */
#ifndef S2_TESTS_S2COMMAND_H
#define S2_TESTS_S2COMMAND_H

#include <string.h>

#include "cli/cli.h"
#include "tests/s2test.h"

/* Its exit code; what it wrote to its standard output is in `text`. */
static inline s2_exit s2_command(s2_command_fn run, char *text, size_t cap, int argc,
                                 const char *const *words)
{
    char *argv[12];
    assert_in_range(argc, 1, 12);
    memcpy(argv, words, (size_t)argc * sizeof *argv);
    s2_cli cli;
    s2_cli_init(&cli, "s2", argc, argv);
    cli.out = tmpfile();
    cli.err = tmpfile();
    assert_non_null(cli.out);
    assert_non_null(cli.err);
    const s2_exit code = run(&cli, argc, argv);
    rewind(cli.out);
    text[fread(text, 1, cap - 1, cli.out)] = '\0';
    fclose(cli.out);
    fclose(cli.err);
    s2_arena_release(&cli.arena);
    return code;
}

#endif /* S2_TESTS_S2COMMAND_H */
