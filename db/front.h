/*
 * db/front.h - designs that no other one beats: what `s2 pareto` lists, `s2 draw --what pareto` shows and the
 * screen's Pareto view walks.
 *
 * Threads: no state. Ownership: rows are the caller's.
 */
#ifndef S2_DB_FRONT_H
#define S2_DB_FRONT_H

#include "base/quantity.h"
#include "db/db.h"

enum { S2_FRONT_OBJECTIVES = 4 };

/* Which command gives designs a value: s2 sim, s2 validate on a GPU, none (docs/worth.md), s2 reach. */
typedef enum s2_front_source {
    S2_FRONT_PRICED,
    S2_FRONT_TIMED,
    S2_FRONT_JUDGED,
    S2_FRONT_MEASURED,
    S2_N_FRONT_SOURCES
} s2_front_source;

/* What may be minimised: a column, its words, and its value in a row (NAN: none). */
typedef struct s2_front_column {
    const char *name;
    const char *words; /* without a unit where its quantity has one */
    s2_quantity quantity;
    uint32_t traits; /* of a price that it depends on: bits 1 << s2_db_trait */
    s2_front_source source;
    double (*value)(const s2_db_row *row);
} s2_front_column;

typedef struct s2_front_spec {
    const s2_front_column *by[S2_FRONT_OBJECTIVES];
    int32_t n_by;
    bool distinct; /* keep only the first by name of designs with equal values */
} s2_front_spec;

/* "us,kv_mib"; leaves out->distinct as it is. S2_EINVAL with the reason in *diag. */
s2_status s2_front_parse(const char *list, s2_front_spec *out, s2_diag *diag) S2_MUST_CHECK;

/* Drops what designs of the phase have none of: a training step keeps no cache. Returns how many were dropped. */
int32_t s2_front_fit(s2_front_spec *spec, const char *phase);

/*
 * Only prices of one kind compete: they must agree in every trait on which an objective depends. Bounds lie below
 * predictions, and each GPU, batch, type, number of ranks and family of kernels has times of its own.
 */
enum { S2_FRONT_KINDS = 16 };
typedef struct s2_front_kind {
    const char *filter; /* the conditions that select it, all of them */
    const char *words;  /* those that tell it from the other kinds or from what is usual */
    int64_t n;
} s2_front_kind;

/*
 * The kinds of price among the designs that match a query with a phase. Designs of one kind compete:
 * query->filter is narrowed to the first, which most of them have (on ties predictions). There are none
 * where no design is priced. Otherwise as s2_db_list.
 */
s2_status s2_front_rivals(s2_db *db, s2_arena *arena, const s2_front_spec *spec, s2_db_query *query,
                          s2_front_kind kinds[S2_FRONT_KINDS], int32_t *n, s2_diag *diag) S2_MUST_CHECK;

/*
 * Write the indices in rows[n] of the rows on the front to kept[n], sorted by the objectives in order,
 * then name, then index; rows that lack a value are left out. The front of fronts is the front of all.
 * Where few designs beat others the work grows with the square of their number: S2_ELIMIT when *work_left is spent
 * (base/work.h). S2_ENOMEM.
 */
s2_status s2_front_keep(s2_arena *scratch, const s2_front_spec *spec, const s2_db_row *rows, int32_t n,
                        int64_t *work_left, int32_t *kept, int32_t *n_kept) S2_MUST_CHECK;

#endif /* S2_DB_FRONT_H */
