#include "tui/columns.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"

const char *const s2_tui_columns[S2_TUI_COLUMNS] = {
    "heads",  "layers", "block", "density", "time",   "kv",        "measured", "at",  "on",
    "recall", "loss",   "hops",  "flow",    "family", "validated", "hash",     "tags"};

enum { NAME_COLS = 21, NARROW = 60, MOST_NAME_COLS = 41, TAGS_COLS = 30 };

/* If there is no room for all, those of the lowest rank are shown; a click on the title sorts by `sort`. */
static const struct {
    int32_t cols;
    bool left; /* its text begins at its left edge */
    int32_t rank;
    const char *sort;
} COLUMNS[S2_TUI_COLUMNS] = {[S2_COLUMN_HEADS] = {7, false, 4, NULL},
                             [S2_COLUMN_LAYERS] = {7, false, 10, NULL},
                             [S2_COLUMN_BLOCK] = {6, false, 11, NULL},
                             [S2_COLUMN_DENSITY] = {8, false, 0, "density"},
                             [S2_COLUMN_TIME] = {12, false, 1, "us"},
                             [S2_COLUMN_KV] = {10, false, 3, "kv_mib"},
                             [S2_COLUMN_MEASURED] = {11, false, 6, "gpu_us"},
                             [S2_COLUMN_AT] = {14, true, 2, NULL},
                             [S2_COLUMN_ON] = {20, true, 5, NULL},
                             [S2_COLUMN_RECALL] = {8, false, 13, NULL},
                             [S2_COLUMN_LOSS] = {8, false, 14, NULL},
                             [S2_COLUMN_HOPS] = {6, false, 15, NULL},
                             [S2_COLUMN_FLOW] = {9, false, 16, NULL},
                             [S2_COLUMN_FAMILY] = {12, true, 9, NULL},
                             [S2_COLUMN_VALIDATED] = {14, true, 8, NULL},
                             [S2_COLUMN_HASH] = {14, true, 12, NULL},
                             [S2_COLUMN_TAGS] = {8, true, 7, NULL}};

static int32_t cols_of(const s2_tui_state *state, int32_t column)
{
    return state->mixed && column == S2_COLUMN_ON ? state->on_cols : COLUMNS[column].cols;
}

/* Where prices of several kinds or lengths are listed together, the columns that tell them apart come first. */
static int32_t rank_of(int32_t column, bool told_apart, bool lengths)
{
    if (lengths && column == S2_COLUMN_AT)
        return -5;
    static const int32_t first[S2_TUI_COLUMNS] = {
        [S2_COLUMN_TIME] = -5, [S2_COLUMN_AT] = -4, [S2_COLUMN_ON] = -3, [S2_COLUMN_KV] = -2};
    return told_apart && first[column] < 0 ? first[column] : COLUMNS[column].rank;
}

static bool tells_apart(const s2_tui_state *state, int32_t room)
{
    return room >=
           cols_of(state, S2_COLUMN_TIME) + cols_of(state, S2_COLUMN_AT) + cols_of(state, S2_COLUMN_ON);
}

/* Whether there is room for the length of a row and the narrowest figure that depends on it. */
static bool says_length(const s2_tui_state *state, int32_t room)
{
    return (state->columns & 1u << S2_COLUMN_AT) != 0 &&
           room >= cols_of(state, S2_COLUMN_AT) + cols_of(state, S2_COLUMN_DENSITY);
}

/*
 * The chosen columns that have room, and how many columns of the screen they take. Prices of several kinds, and figures
 * of several lengths, are not shown without room for what tells them apart.
 */
static uint32_t choose(const s2_tui_state *state, int32_t room, int32_t *taken)
{
    const bool told_apart = state->mixed && tells_apart(state, room), has_at = says_length(state, room);
    const uint32_t of_a_price = 1u << S2_COLUMN_TIME | 1u << S2_COLUMN_KV | 1u << S2_COLUMN_MEASURED,
                   of_a_length = of_a_price | 1u << S2_COLUMN_DENSITY | 1u << S2_COLUMN_RECALL |
                                 1u << S2_COLUMN_LOSS | 1u << S2_COLUMN_HOPS | 1u << S2_COLUMN_FLOW;
    const uint32_t chosen = state->columns & ~(state->mixed && !told_apart ? of_a_price : 0) &
                            ~(state->lengths && !has_at ? of_a_length | 1u << S2_COLUMN_AT : 0);
    uint32_t shown = 0;
    *taken = 0;
    for (int32_t rank = -5; rank < S2_TUI_COLUMNS; rank++)
        for (int32_t column = 0; column < S2_TUI_COLUMNS; column++) {
            if (rank_of(column, told_apart, state->lengths) != rank || (chosen & 1u << column) == 0)
                continue;
            if (*taken + cols_of(state, column) > room)
                return shown;
            *taken += cols_of(state, column);
            shown |= 1u << column;
        }
    return shown;
}

const char *s2_row_mark(const s2_tui_row *row)
{
    return isnan(row->sim_us)                    ? ""
           : strcmp(row->figure, "bound") == 0   ? ">= "
           : strcmp(row->figure, "guessed") == 0 ? "~ "
           : strcmp(row->figure, "unknown") == 0 ? "? "
                                                 : "";
}

bool s2_column_is_left(int32_t column)
{
    return COLUMNS[column].left;
}

const char *s2_column_sort(int32_t column)
{
    return COLUMNS[column].sort;
}

/* A narrow list gives spare columns to the name, a wide one to the name and then to the tags. */
s2_column_places s2_column_places_of(const s2_tui_state *state, int32_t cols)
{
    s2_column_places c = {0};
    int32_t taken;
    const uint32_t shown = choose(state, cols - S2_NAME_AT - NAME_COLS, &taken);
    const int32_t slack = cols - S2_NAME_AT - NAME_COLS - taken;
    const int32_t more =
        cols < NARROW ? slack - 1 : s2_max_i32(0, slack - TAGS_COLS + COLUMNS[S2_COLUMN_TAGS].cols);
    const int32_t most = cols < NARROW ? cols : MOST_NAME_COLS - NAME_COLS;
    int32_t col = S2_NAME_AT + NAME_COLS + s2_max_i32(0, s2_min_i32(more, most));
    c.name_end = shown != 0 ? col : cols;
    for (int32_t column = 0; column < S2_TUI_COLUMNS; column++) {
        if ((shown & 1u << column) == 0)
            continue;
        c.span[column] = (s2_range){col, column == S2_COLUMN_TAGS ? cols : col + cols_of(state, column)};
        col = (int32_t)c.span[column].end;
    }
    return c;
}

bool s2_column_has_room(const s2_tui_state *state, int32_t column)
{
    const s2_column_places c = s2_column_places_of(state, state->cols);
    return c.span[column].end > 0;
}
