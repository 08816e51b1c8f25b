/*
 * cli/found.h - the front of a search: each design priced in full, shown, explained and stored.
 */
#ifndef S2_CLI_FOUND_H
#define S2_CLI_FOUND_H

#include "cli/cli.h"
#include "search/search.h"

/* A search as the command line asked for it; plain data over cli->arena. */
typedef struct s2_found {
    s2_cli *cli;
    const char *space_text; /* as given or proposed */
    const char *model;      /* "" without */
    const char *at_most;    /* as given; NULL: no limits */
    s2_space space;
    s2_net net;
    s2_calibration
        calibration; /* measured or guessed; search.options has it where the search predicts by it */
    bool calibrated;
    bool measured; /* not guessed */
    s2_search search;
    s2_search_state state;
    int32_t n_phases;
    s2_sim_phase phases[S2_N_SIM_PHASES];
    int64_t until; /* visits end here: the shard's end, or --limit before it */
    bool json;
} s2_found;

/* S2_GO_ON, or an exit code after a message. */
int s2_found_show(const s2_found *found);
int s2_found_store(const s2_found *found);

/* "llama-3.1-8b-000042": what a candidate is called everywhere. */
const char *s2_found_name(const s2_found *found, int64_t index);
/* The predicted time of a phase; its bound where no kernel is known to take the design. */
s2_status s2_found_time(const s2_found *found, const s2_point *point, s2_sim_phase phase,
                        double *us) S2_MUST_CHECK;

#endif /* S2_CLI_FOUND_H */
