/*
 * cli/validating.h - `s2 validate` for other commands: the same judging and the same rows in the database,
 * but verdicts are passed to a callback instead of printed.
 */
#ifndef S2_CLI_VALIDATING_H
#define S2_CLI_VALIDATING_H

#include "cli/input.h"
#include "report/verdict.h"

/* Called for each kind of layer; the subject is valid only during the call. */
typedef void (*s2_verdict_fn)(void *user, const s2_subject *subject);

/* Called before each input; false skips it. */
typedef bool (*s2_wanted_fn)(void *user, int32_t input);

/*
 * argv is a command line of `s2 validate` whose operands are ignored: the wanted inputs are judged in their
 * place. Returns the exit code that `s2 validate` would end with.
 */
s2_exit s2_validate_inputs(s2_cli *cli, int argc, char **argv, const s2_input *inputs, int32_t n_inputs,
                           s2_wanted_fn wanted, s2_verdict_fn take, void *user);

#endif /* S2_CLI_VALIDATING_H */
