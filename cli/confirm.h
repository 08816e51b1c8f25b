/*
 * cli/confirm.h - `s2 search --validate N`: the best designs of a front on a real device, measured next to
 * predicted times, and whether the measured order is the predicted one.
 */
#ifndef S2_CLI_CONFIRM_H
#define S2_CLI_CONFIRM_H

#include "cli/found.h"

typedef struct s2_confirm_options {
    int64_t n;          /* how many designs of the front, best first */
    const char *device; /* as for s2 validate */
    int64_t n_runs;
    int64_t since_us; /* designs judged since then are not run again; 0: run all */
    bool json;
    bool (*stopped)(void); /* true: stop after the current design */
} s2_confirm_options;

/*
 * Judge the designs as `s2 validate` does, record and show them. Returns the exit code of the verdicts,
 * combined with S2_EXIT_UNDECIDED if it was stopped before the last one.
 */
s2_exit s2_found_confirm(s2_cli *cli, const s2_found *found, const s2_confirm_options *options);

#endif /* S2_CLI_CONFIRM_H */
