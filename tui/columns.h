/*
 * tui/columns.h - the columns of the list of designs: which of them have room, and where.
 *
 * Threads: no state.
 */
#ifndef S2_TUI_COLUMNS_H
#define S2_TUI_COLUMNS_H

#include "tui/model.h"

typedef enum s2_tui_column {
    S2_COLUMN_HEADS,
    S2_COLUMN_LAYERS,
    S2_COLUMN_BLOCK,
    S2_COLUMN_DENSITY,
    S2_COLUMN_TIME,
    S2_COLUMN_KV,
    S2_COLUMN_MEASURED,
    S2_COLUMN_AT,
    S2_COLUMN_ON,
    S2_COLUMN_RECALL,
    S2_COLUMN_LOSS,
    S2_COLUMN_HOPS,
    S2_COLUMN_FLOW,
    S2_COLUMN_FAMILY,
    S2_COLUMN_VALIDATED,
    S2_COLUMN_HASH,
    S2_COLUMN_TAGS
} s2_tui_column;

enum { S2_NAME_AT = 8 }; /* where the name begins */

/* The screen columns [begin, end) of each column of the list; end == 0: there is no room for it. */
typedef struct s2_column_places {
    int32_t name_end;
    s2_range span[S2_TUI_COLUMNS];
} s2_column_places;

/* For the columns that the state chooses, on a screen of `cols` columns. */
s2_column_places s2_column_places_of(const s2_tui_state *state, int32_t cols);
/* What stands before a row's time: ">= " of a bound, "~ " of a guess, "? " where it is not known which, "" of a
   prediction or where there is no time. */
const char *s2_row_mark(const s2_tui_row *row);
/* Is its text aligned to the left? */
bool s2_column_is_left(int32_t column);
/* The column of the filter language that a click on its title sorts by; NULL: none. */
const char *s2_column_sort(int32_t column);
/* Is this column of the list shown at the screen's width? */
bool s2_column_has_room(const s2_tui_state *state, int32_t column);

#endif /* S2_TUI_COLUMNS_H */
