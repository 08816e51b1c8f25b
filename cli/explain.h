/*
 * cli/explain.h - what `s2 explain` and `s2check --explain` print: properties, terms of the language and
 * diagnostic codes. Part of s2check: reads pattern/codes.h and its own table only.
 */
#ifndef S2_CLI_EXPLAIN_H
#define S2_CLI_EXPLAIN_H

#include "cli/cli.h"

/* "S2P012", "12", "union", "ranks:2", "stride" ...; returns an exit code, 2 after a message for any
 * other word.
 */
s2_exit s2_explain_print(s2_cli *cli, const char *what);
/* Every property, term and code, one line each; returns an exit code. */
s2_exit s2_explain_list(s2_cli *cli);

/*
 * The nth word, a property, a term or a word of the pages, and what it means in one line, both in the arena or
 * constant; false past the last, or where memory ran out.
 */
bool s2_explain_word(s2_arena *arena, int32_t nth, const char **name, const char **text);

#endif /* S2_CLI_EXPLAIN_H */
