/*
 * cli/listing.h - designs as a table, CSV, JSON lines or Markdown: what `s2 ls` and `s2 pareto` print.
 *
 * Every text passes s2_text_clean(); CSV cells that a spreadsheet would read as a formula are made text.
 */
#ifndef S2_CLI_LISTING_H
#define S2_CLI_LISTING_H

#include "cli/options.h"
#include "cli/store.h"

enum { S2_LIST_COLUMNS = 64, S2_LIST_LIMIT_ROWS = 1000000 };

typedef struct s2_list_column s2_list_column;

typedef struct s2_listing {
    s2_cli *cli;
    bool brief; /* for people: hashes shortened to the digits that identify a design */
    bool usual; /* nobody chose the columns: those that tell the rows' prices apart are added */
    int32_t n_columns;
    const s2_list_column *columns[S2_LIST_COLUMNS];
    const s2_db_row *rows;
    int32_t n_rows;
} s2_listing;

/* The command's --columns; S2_EXIT_OK, or 2 after a message. */
s2_exit s2_listing_choose(s2_listing *listing, const s2_args *args);
bool s2_listing_shows(const s2_listing *listing, const char *column);
/*
 * The values of a column in rows that have a price, each once, as "h200, h100": some of them, if they are many. Returns
 * how many different ones were seen, at most 3.
 */
int32_t s2_listing_values(const s2_listing *listing, const char *column, s2_buf *buf);
/* Say that worth is not judged where prices stand under the usual columns, and none of their designs is. */
void s2_listing_say_worth(const s2_listing *listing);
/* The format chosen by --format or --json. */
const char *s2_listing_format(const s2_args *args);
/* format: table, csv, json or md; returns an exit code. */
s2_exit s2_listing_print(s2_listing *listing, const char *format);

/*
 * --filter and the operands, joined by blanks, in the arena: one text, so that positions in it can be shown.
 */
const char *s2_listing_filter(s2_cli *cli, const s2_args *args);
/*
 * Choose the phase and length of a query's prices: --phase and --len, and for a missing one what most designs
 * have, which is then said. If both are missing they stay open unless `choose` is set. *empty is set if no
 * design has such a price. S2_EXIT_OK, or an exit code after a message.
 */
s2_exit s2_listing_price(s2_cli *cli, const s2_args *args, s2_db *db, bool choose, s2_db_query *query,
                         bool *empty);

/* Under an empty list: which condition no design meets, and the nearest value that one has. */
void s2_listing_say_missing(s2_cli *cli, s2_db *db, const char *filter);
/* Say why a query was refused, with a caret under the position in the filter; returns the exit code. */
s2_exit s2_listing_refuse(s2_cli *cli, s2_status status, const char *filter, const s2_diag *diag);
/* Is there a database to list? If not, says so. */
bool s2_listing_has_database(s2_cli *cli);

#endif /* S2_CLI_LISTING_H */
