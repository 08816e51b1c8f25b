/*
 * cli/front.h - designs that no other one beats: what `s2 pareto` lists and `s2 draw --what pareto` shows.
 */
#ifndef S2_CLI_FRONT_H
#define S2_CLI_FRONT_H

#include "cli/listing.h"

enum { S2_FRONT_OBJECTIVES = 4 };

/* What may be minimised: a column, its words with unit, and its value in a row (NAN: none). */
typedef struct s2_objective {
    const char *name;
    const char *words;
    double (*value)(const s2_db_row *row);
} s2_objective;

typedef struct s2_front {
    const s2_objective *by[S2_FRONT_OBJECTIVES];
    int32_t n_by;
    bool distinct; /* of designs with equal values the first by name alone */
} s2_front;

/* "us,kv_mib"; S2_GO_ON, or 2 after a message. */
int s2_front_choose(s2_cli *cli, const char *list, s2_front *out);

/*
 * The designs of the command's conditions, at one phase and length where prices are asked for; S2_GO_ON, or
 * an exit code after a message.
 */
int s2_front_list(s2_listing *listing, const s2_args *args, s2_db *db, const s2_front *front);

/* Leave only the front in the listing, sorted by the first objective. S2_ENOMEM. */
s2_status s2_front_keep(s2_listing *listing, const s2_front *front) S2_MUST_CHECK;

#endif /* S2_CLI_FRONT_H */
