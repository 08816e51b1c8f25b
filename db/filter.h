/*
 * db/filter.h - inside db/: the filter language to a WHERE clause with bound values.
 *
 *     union=holds kv_mib<4096 us<900 !tag:rejected family=ls name~phi star
 *
 * Conditions are separated by blanks and must all hold. No text of a filter becomes SQL: columns come
 * from one table, values are bound.
 *
 * Ownership: s2_filter_release frees the clause. Threads: no state.
 */
#ifndef S2_DB_FILTER_H
#define S2_DB_FILTER_H

#include "base/quantity.h"
#include "db/db.h"

enum { S2_FILTER_CONDITIONS = 48, S2_FILTER_VALUE_BYTES = 256 };

typedef enum s2_column_kind {
    S2_COLUMN_TEXT,
    S2_COLUMN_NUMBER,
    S2_COLUMN_VERDICT,
    S2_COLUMN_FLAG
} s2_column_kind;

typedef struct s2_column {
    const char *name;
    const char *sql;
    s2_column_kind kind;
    double scale;       /* stored value = written value * scale */
    s2_quantity unit;   /* of a number: what may follow it */
    const char *priced; /* its SQL where prices are of one phase and length; NULL: the same */
    const char *index;  /* on (column, id) in "design", NULL: none */
    bool of_kind;       /* a trait of prices (s2_db_trait) */
    const char *priced_index;
} s2_column;

/* NULL when no column has this name. */
const s2_column *s2_column_find(const char *name, size_t n);

/* The name of the column that the word may have meant; NULL: none is near. */
const char *s2_column_nearest(const char *word, size_t n);

typedef struct s2_filter_value {
    bool is_text;
    double number;
    char text[S2_FILTER_VALUE_BYTES];
} s2_filter_value;

typedef struct s2_filter {
    s2_buf where; /* " AND (...)" for each condition */
    s2_buf kind;  /* where priced, those of them that are on the kind of a price */
    int32_t n_values;
    s2_filter_value values[S2_FILTER_CONDITIONS];
    bool priced;
    bool has_index;        /* an index of "design" finds the rows of some condition, */
    bool has_priced_index; /* or one of "price" */
    bool by_union;         /* a condition is on the verdict of union */
} s2_filter;

/*
 * priced: price columns are those of "price" as p, and values are bound from the third on. S2_EINVAL with
 * column (counted from 1, in bytes) and reason. Release with s2_filter_release on every outcome.
 */
s2_status s2_filter_build(const char *text, bool priced, s2_filter *out, s2_diag *diag) S2_MUST_CHECK;
void s2_filter_release(s2_filter *filter);

#endif /* S2_DB_FILTER_H */
