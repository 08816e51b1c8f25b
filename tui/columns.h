/*
 * tui/columns.h - the columns of the list of designs: which have room, and where they stand.
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
    S2_COLUMN_FAMILY,
    S2_COLUMN_VALIDATED,
    S2_COLUMN_HASH,
    S2_COLUMN_TAGS
} s2_tui_column;

enum { S2_NAME_AT = 8 }; /* where the name begins */

/* Columns [begin, end) of the screen for each that has room; end == 0: it has none. */
typedef struct s2_column_places {
    int32_t name_end;
    s2_range at[S2_TUI_COLUMNS];
} s2_column_places;

/* On a screen so wide, as the state shows them. */
s2_column_places s2_column_places_of(const s2_tui_state *state, int32_t cols);
/* Does its text begin at its left edge? */
bool s2_column_is_left(int32_t column);
/* What a click on its title orders by, a column of the filter language; NULL: by nothing. */
const char *s2_column_sort(int32_t column);
/* Is this column of the list shown at the screen's width? */
bool s2_column_has_room(const s2_tui_state *state, int32_t column);

#endif /* S2_TUI_COLUMNS_H */
