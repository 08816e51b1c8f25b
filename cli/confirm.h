/*
 * cli/confirm.h - `s2 search --validate N`: the best designs of a front on a real device, measured beside
 * predicted, and whether the order that was predicted is the order that was measured.
 */
#ifndef S2_CLI_CONFIRM_H
#define S2_CLI_CONFIRM_H

#include <signal.h>

#include "cli/found.h"

typedef struct s2_confirm_options {
    int64_t n;          /* so many of the front, best first */
    const char *device; /* as for s2 validate */
    int64_t n_runs;
    int64_t since_us; /* designs that were judged since then are not run again; 0: all are run */
    const volatile sig_atomic_t *stop; /* not zero: ends after the design at work */
} s2_confirm_options;

/*
 * Judged as `s2 validate` does, recorded, shown; returns the exit code of the verdicts, S2_EXIT_UNDECIDED
 * also when it was stopped before the last.
 */
s2_exit s2_found_confirm(const s2_found *found, const s2_confirm_options *options);

#endif /* S2_CLI_CONFIRM_H */
