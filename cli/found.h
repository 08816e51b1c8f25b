/*
 * cli/found.h - the front of a search: each design priced in full (found.c), shown and explained
 * (found_show.c), stored (found_store.c); or why there is none (found_least.c).
 */
#ifndef S2_CLI_FOUND_H
#define S2_CLI_FOUND_H

#include "cli/cli.h"
#include "cli/restrict.h"
#include "pattern/parse.h"
#include "search/search.h"

/* A design of the front, expanded, parsed and priced once for all who show, store or run it. */
typedef struct s2_found_design {
    const s2_point *point; /* of the front */
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
    const char *name;   /* "llama-3.1-8b-3f9a01c2": the digits name it everywhere */
    const char *choice; /* what the space says of it, in one line */
    const s2_sim
        *sims; /* of each phase, as the search compared it or told; NULL for those far from the best */
    double shown[S2_MAX_OBJECTIVES]; /* the point's values; of those told, train_us is a prediction */
} s2_found_design;

/* How little of a limited quantity a candidate can have, where no candidate is within all limits. */
typedef struct s2_found_least {
    s2_objective of;
    bool
        within_others; /* of the candidates within the other limits; false: none is, or there are no others */
    s2_point point;    /* value[0] is the least */
    double of_dense;   /* kv_bytes: as a part of what a dense pattern of its shape keeps; else NAN */
    const char *choice; /* whose it is, in one line */
} s2_found_least;

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
    s2_phase phases[S2_N_PHASES];
    int64_t until; /* visits end here: the shard's end, or --limit before it */
    bool json;
    const s2_restriction *restriction; /* what the designs may be: --exportable, --dense-layers */
    int32_t n_designs;                 /* the front, best first; filled by s2_found_gather */
    s2_found_design *designs;
    int32_t
        n_told; /* so many, the best by bounds of a training step, are in the order of predictions; 0: none */
    int32_t n_least; /* where the front is empty; filled by s2_found_seek_least */
    s2_found_least least[S2_MAX_OBJECTIVES];
} s2_found;

/* The others need it first. */
s2_exit s2_found_gather(s2_found *found);
/* Nothing to do unless a limit left the front empty: then what was visited is searched again for each limit. */
s2_exit s2_found_seek_least(s2_found *found, s2_search_watch_fn watch, void *user);
s2_exit s2_found_show(const s2_found *found);
s2_exit s2_found_store(const s2_found *found);

/* What the space says of a candidate, in one line and without the model's line before it; in cli->arena, or NULL. */
const char *s2_found_choice(const s2_found *found, int64_t index);

/*
 * Is the phase compared by bounds, since predicting it takes long, and told by predictions? A training step is, where
 * the kernels were measured.
 */
bool s2_found_tells(const s2_found *found, s2_phase phase);
/* The options of a phase as the search compared it: predictions, or bounds. */
s2_sim_options s2_found_options(const s2_found *found, s2_phase phase);
/*
 * With the constants of this repository's kernels, guessed where they were not measured; sim->predicted is
 * false where no kernel takes the design.
 */
s2_status s2_found_predict(const s2_found *found, const s2_found_design *design, s2_phase phase,
                           s2_sim *sim) S2_MUST_CHECK;
/* The predicted time of a phase; its bound where no kernel is known to take the design. */
s2_status s2_found_time(const s2_found *found, const s2_found_design *design, s2_phase phase,
                        double *us) S2_MUST_CHECK;
/* The front's own value of an objective; `other` where the search did not compare it. */
double s2_found_value(const s2_found *found, const s2_point *point, s2_objective objective, double other);

#endif /* S2_CLI_FOUND_H */
