/*
 * cli/limit.h - the processor time and memory that a command which prints one page may use.
 *
 * Work is limited by counted steps where it is done (base/work.h), the same on every machine. This is the
 * safety net: work that no count foresaw also ends, with a message and exit code 4, and the user can allow
 * more.
 */
#ifndef S2_CLI_LIMIT_H
#define S2_CLI_LIMIT_H

#include "cli/cli.h"

/*
 * From now on this process, however many patterns it was asked about, ends with S2_EXIT_UNDECIDED after
 * $S2_CPU_SECONDS (default 10) of processor time, and when it would hold more than $S2_MEMORY_MIB (default
 * 1000) of memory. Unfinished writes are lost: for databases this is like a kill, and files appear whole or not
 * at all. `less` is what the message proposes, as in "a smaller --len". S2_EXIT_USAGE after a message when a variable
 * does not hold such a number.
 */
s2_exit s2_limit_begin(s2_cli *cli, const char *less);
/* The same for a command without a usual limit: only what is set in the environment holds. */
s2_exit s2_limit_begin_asked(s2_cli *cli);
/*
 * Counted steps that the inputs of one command share, in proportion to the time that is allowed. Half of them are
 * dealt out evenly, so that hostile inputs leave the others something; of what is left beside, and of what cheap ones
 * do not spend, one may take an eighth (of fewer than eight inputs, its part). Threads: one owner.
 */
typedef struct s2_limit_pool {
    int64_t left, even;
    int64_t taken; /* by the last input; -1: by none yet */
    int32_t n_inputs, n_to_come;
} s2_limit_pool;
s2_limit_pool s2_limit_share(int64_t n_steps, int32_t n_inputs);
/* The steps of the next input: at most `most`, which one alone gets; s2_limit_spent() says what it left of them. */
int64_t s2_limit_take(s2_limit_pool *pool, int64_t most);
void s2_limit_spent(s2_limit_pool *pool, int64_t left);
/* Where an input ran out of steps: how to allow more, and, where it had only a part of them, to ask for it alone. */
void s2_limit_hint(s2_cli *cli, const s2_limit_pool *pool);
/* Lift the limits: the user asked explicitly for what follows, so it may take as long as it needs. */
void s2_limit_lift(void);

#endif /* S2_CLI_LIMIT_H */
