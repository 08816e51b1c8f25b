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

/* A design of the front, expanded, parsed and priced once, to be shown, stored or run. */
typedef struct s2_found_design {
    const s2_point *point; /* in the front */
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
    const char *name;   /* "llama-3.1-8b-3f9a01c2": the digits identify it everywhere */
    const char *choice; /* its choices in the space, in one line */
    const s2_sim *sims; /* one per phase, as the search compared or told it; NULL if far from the best */
    double shown[S2_MAX_OBJECTIVES]; /* the point's values; for designs told, train_us is a prediction */
} s2_found_design;

/* The least of a limited quantity that any candidate has, when no candidate is within all limits. */
typedef struct s2_found_least {
    s2_objective of;
    bool within_others; /* of candidates within the other limits; false: there are none, or no other limits */
    s2_point point;     /* value[0] is the least */
    double of_dense;    /* kv_bytes: as a fraction of what a dense pattern of its shape keeps; else NAN */
    const char *choice; /* the candidate that has it, in one line */
} s2_found_least;

/* A search as the command line asked for it; plain data over cli->arena. */
typedef struct s2_found {
    s2_cli *cli;
    const char *space_text; /* as given or proposed */
    const char *model;      /* "" if none */
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
    int32_t n_told;  /* the first n_told, best by training-step bounds, are ordered by predictions; 0: none */
    int32_t n_least; /* 0 unless the front is empty; filled by s2_found_seek_least */
    s2_found_least least[S2_MAX_OBJECTIVES];
} s2_found;

/* Must be called before the three functions below. */
s2_exit s2_found_gather(s2_found *found);
/* If a limit left the front empty, search the visited candidates again for each limit; else do nothing. */
s2_exit s2_found_seek_least(s2_found *found, s2_search_watch_fn watch, void *user);
s2_exit s2_found_show(const s2_found *found);
s2_exit s2_found_store(const s2_found *found);

/* A candidate's choices in the space, in one line, without the model's line; in cli->arena, or NULL. */
const char *s2_found_choice(const s2_found *found, int64_t index);

/*
 * Whether the search compares the phase by bounds, because predicting it is slow, and tells predictions
 * afterwards. True for training steps if the kernels were measured.
 */
bool s2_found_tells(const s2_found *found, s2_phase phase);
/* The options with which the search compared the phase: predictions, or bounds. */
s2_sim_options s2_found_options(const s2_found *found, s2_phase phase);
/*
 * Predict with the constants of this repository's kernels, guessed where they were not measured;
 * sim->predicted is false if no kernel takes the design.
 */
s2_status s2_found_predict(const s2_found *found, const s2_found_design *design, s2_phase phase,
                           s2_sim *sim) S2_MUST_CHECK;
/* The predicted time of a phase, or its bound if no kernel is known to take the design. */
s2_status s2_found_time(const s2_found *found, const s2_found_design *design, s2_phase phase,
                        double *us) S2_MUST_CHECK;
/* The front's value of an objective; `other` if the search did not compare it. */
double s2_found_value(const s2_found *found, const s2_point *point, s2_objective objective, double other);

#endif /* S2_CLI_FOUND_H */
