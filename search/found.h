/*
 * search/found.h - the front of a search: each design priced in full (found.c, found_gather.c) and compared
 * with what the model would do without s2 (found_rivals.c, found_against.c); or why there is none
 * (found_least.c). report/found.h shows it.
 *
 * Ownership: plain data over *arena, but for the state. Threads: those of the search alone.
 */
#ifndef S2_SEARCH_FOUND_H
#define S2_SEARCH_FOUND_H

#include "pattern/parse.h"
#include "search/search.h"

/* A front may have thousands of designs: only its first are priced by the whole simulator. */
enum { S2_FOUND_WHOLE = 32 };

/* A design of the front, expanded, parsed and priced once, to be shown, stored or run. */
typedef struct s2_found_design {
    const s2_point *point; /* in the front */
    s2_pattern pattern;
    char hash[S2_HASH_HEX];
    const char *name;   /* "llama-3.1-8b-3f9a01c2": the digits identify it everywhere */
    const char *choice; /* its choices in the space, in one line */
    const s2_sim *sims; /* one per phase, as the search compared or told it; NULL if far from the best */
    bool apart;         /* as s2_found_set_apart() says */
    bool told;          /* train_us is shown as a prediction, compared as a bound */
    bool spills;        /* decoding reads host memory, so its time is a bound */
    double shown[S2_MAX_OBJECTIVES]; /* the point's values, or what is told */
} s2_found_design;

/*
 * What a model would do without s2, priced as a candidate is: dense attention, or the layers that the model
 * was published with. It beats a design of the front when it is nowhere worse and somewhere better.
 */
typedef struct s2_found_rival {
    s2_found_design design;
    s2_point point; /* NAN where the objective has no price for it */
    bool within;    /* all limits of --at-most: only then does it beat designs */
} s2_found_rival;

/* The least of a limited quantity that any candidate has, when no candidate is within all limits. */
typedef struct s2_found_least {
    s2_objective of;
    bool within_others; /* of candidates within the other limits; false: there are none, or no other limits */
    s2_point point;     /* value[0] is the least */
    double of_dense;    /* kv_bytes: as a fraction of what a dense pattern of its shape keeps; else NAN */
    const char *choice; /* the candidate that has it, in one line */
} s2_found_least;

/* What was asked of a search, and what it found. */
typedef struct s2_found {
    s2_arena *arena;
    const char *space_text; /* as given or proposed */
    const char *model;      /* "" if none */
    const char *at_most;    /* as given; NULL: no limits */
    s2_space space;
    s2_net net;
    s2_calibration
        calibration; /* measured or guessed; search.options has it where the search predicts by it */
    bool measured;   /* not guessed */
    s2_search search;
    s2_search_state state;
    int32_t n_phases;
    s2_phase phases[S2_N_PHASES];
    int64_t until; /* visits end here: the shard's end, or --limit before it */
    bool stored;   /* the designs go to a database, which knows them by name afterwards */
    const struct s2_restriction *restriction; /* export/restriction.h: for which stacks the designs are */
    int32_t n_designs;                        /* the front, best first; filled by s2_found_gather */
    s2_found_design *designs;
    const s2_pattern *own_pattern; /* the published layers; NULL: not known */
    int32_t
        n_mixers; /* of the model's layers, which keep a state and read no keys: search.mixers has their bits */
    s2_found_rival *own;     /* NULL: dense, not known, or without a price */
    const char *own_missing; /* why they have no price; NULL otherwise */
    int32_t n_denses;        /* dense attention in each shape that the front has */
    s2_found_rival *denses;
    s2_found_rival *dense;    /* in the shape of the best design; NULL: the front is empty */
    int32_t n_by_dense;       /* designs of the front that dense attention beats, */
    int32_t n_by_own;         /* that the model's own layers beat, */
    int32_t n_beaten;         /* and that either does: they are not among the designs below */
    s2_found_design *nearest; /* the best of them, if no design is left; NULL otherwise */
    int32_t n_told;  /* the first n_told, best by training-step bounds, are ordered by predictions; 0: none */
    int32_t n_least; /* 0 unless the front is empty; filled by s2_found_seek_least */
    s2_found_least least[S2_MAX_OBJECTIVES];
} s2_found;

/* Fills in the designs and their rivals. */
s2_status s2_found_gather(s2_found *found) S2_MUST_CHECK;
/* If a limit left the front empty, search the visited candidates again for each limit; else do nothing. */
s2_status s2_found_seek_least(s2_found *found, s2_search_watch_fn watch, void *user) S2_MUST_CHECK;

/* The layers that candidates are about, as a LIST of the language; "all" where no layer is a mixer alone. */
void s2_found_put_attention(const s2_found *found, s2_buf *buf);

/* A candidate's choices in the space, in one line, without the model's line; in *found->arena, or NULL. */
const char *s2_found_choice(const s2_found *found, int64_t index);

/*
 * Whether the search compares the phase by bounds, because predicting it is slow, and tells predictions
 * afterwards. True for training steps if the kernels were measured.
 */
bool s2_found_tells(const s2_found *found, s2_phase phase);
/* The options with which the search compared the phase: predictions, or bounds. */
s2_sim_options s2_found_options(const s2_found *found, s2_phase phase);
/* Those of the first phase that is served; only training, which takes no weights as published, if there is none. */
s2_sim_options s2_found_question(const s2_found *found);
/*
 * Of the layers that a model was published with: they are planned beforehand, and a cache drops pages behind their
 * windows, whatever the search asks of its candidates.
 */
void s2_found_set_apart(const s2_found_design *design, s2_sim_options *options);
/*
 * Predict with the constants of this repository's kernels, guessed where they were not measured;
 * sim->predicted is false if no kernel takes the design.
 */
s2_status s2_found_predict(const s2_found *found, const s2_found_design *design, s2_phase phase,
                           s2_sim *sim) S2_MUST_CHECK;
/* The predicted time of a phase, or its bound if no kernel is known to take the design. */
s2_status s2_found_time(const s2_found *found, const s2_found_design *design, s2_phase phase,
                        double *us) S2_MUST_CHECK;
/*
 * Of the design's prices, the one that accounts least well for what is done to scores. The design must have
 * prices.
 */
const s2_sim *s2_found_scored(const s2_found *found, const s2_found_design *design);
/* The front's value of an objective; `other` if the search did not compare it. */
double s2_found_value(const s2_found *found, const s2_point *point, s2_objective objective, double other);

/* Price a design in every phase; told: with predictions also where the search compared bounds. */
s2_status s2_found_price(const s2_found *found, s2_found_design *design, bool told) S2_MUST_CHECK;
/*
 * Price the rivals and collect in *kept, over *found->arena, the points of the front that none of them beats.
 * Rivals count where a price is minimized: what is given up alone is always least in dense attention.
 */
s2_status s2_found_meet_rivals(s2_found *found, s2_front *kept) S2_MUST_CHECK;
/* Dense attention in the shape of a design of the front. */
s2_status s2_found_dense_of(s2_found *found, const s2_pattern *pattern, s2_found_rival **out) S2_MUST_CHECK;
bool s2_found_beats(const s2_found *found, const s2_found_rival *rival, const double *values,
                    const double *of_design);
/* Whether an objective is what a design costs, not what it gives up. */
bool s2_found_is_price(s2_objective objective);
/* Whether the value is a bound where those of the best designs are predictions. */
bool s2_found_is_untold(const s2_found *found, const s2_found_design *design, s2_objective objective);
/* Fills in design->spills, which needs less than a whole price: only the first of a long front have one. */
s2_status s2_found_find_spill(const s2_found *found, s2_found_design *design) S2_MUST_CHECK;
/* Whether the value is a time and no prediction, by the rule of what is stored. */
bool s2_found_is_bound(const s2_found *found, const s2_found_design *design, s2_objective objective);
/* Whether the GPU runs a priced design in found->phases[p]: its cache, its weights, its step fit. */
bool s2_found_runs(const s2_found *found, const s2_found_design *design, int32_t p);
/*
 * Whether a priced design is nowhere visibly cheaper than a rival: not in the time of any phase, in the
 * cache, or in any price that is minimized. Such a design must not be called best.
 */
bool s2_found_is_no_cheaper(const s2_found *found, const s2_found_design *design,
                            const s2_found_rival *rival);
s2_figure_text s2_found_value_text(s2_objective objective, double value);
/* Whether two values print alike: a difference that nobody can see does not count. */
bool s2_found_looks_same(s2_objective objective, double mine, double other);

#endif /* S2_SEARCH_FOUND_H */
