/*
 * db/front.h - designs that no other one beats: what `s2 pareto` lists, `s2 draw --what pareto` shows and the
 * screen's Pareto view walks.
 *
 * Threads: no state. Ownership: rows are the caller's.
 */
#ifndef S2_DB_FRONT_H
#define S2_DB_FRONT_H

#include "db/db.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_FRONT_OBJECTIVES = 4 };

/* What may be minimised: a column, its words with unit, and its value in a row (NAN: none). */
typedef struct s2_front_column {
    const char *name;
    const char *words;
    double unit; /* of its words, in that of the column */
    double (*value)(const s2_db_row *row);
} s2_front_column;

typedef struct s2_front_spec {
    const s2_front_column *by[S2_FRONT_OBJECTIVES];
    int32_t n_by;
    bool distinct; /* of designs with equal values the first by name alone */
} s2_front_spec;

/* "us,kv_mib"; leaves out->distinct as it is. S2_EINVAL with the reason in *diag. */
s2_status s2_front_parse(const char *list, s2_front_spec *out, s2_diag *diag) S2_MUST_CHECK;

/* Prices that are rivals: a bound lies below every prediction, and each GPU and batch has times of its own. */
enum { S2_FRONT_KINDS = 8 };
typedef struct s2_front_kind {
    const char *filter; /* what leaves its designs: "priced=bound gpu=h200 batch=1" */
    int64_t n;
} s2_front_kind;

/*
 * What competes: of the designs that a query with a phase leaves, those with a price of one kind. The first
 * kind is that of most of them, of equals predictions; query->filter is narrowed to it. None where no objective
 * depends on how a design was priced. As s2_db_list otherwise.
 */
s2_status s2_front_rivals(s2_db *db, s2_arena *arena, const s2_front_spec *spec, s2_db_query *query,
                          s2_front_kind kinds[S2_FRONT_KINDS], int32_t *n, s2_diag *diag) S2_MUST_CHECK;

/*
 * The places in rows[n] of those on the front into kept[n], by the objectives in turn, then by name, then by
 * place; rows without a value for each are on none. The front of fronts is the front of all. S2_ENOMEM.
 */
s2_status s2_front_keep(s2_arena *scratch, const s2_front_spec *spec, const s2_db_row *rows, int32_t n,
                        int32_t *kept, int32_t *n_kept) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_DB_FRONT_H */
