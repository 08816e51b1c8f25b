#include "tui/columns.h"

#include "base/arith.h"

const char *const s2_tui_columns[S2_TUI_COLUMNS] = {"heads",     "layers",   "block", "density", "time",
                                                    "kv",        "measured", "at",    "on",      "family",
                                                    "validated", "hash",     "tags"};

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
                             [S2_COLUMN_FAMILY] = {12, true, 9, NULL},
                             [S2_COLUMN_VALIDATED] = {14, true, 8, NULL},
                             [S2_COLUMN_HASH] = {14, true, 12, NULL},
                             [S2_COLUMN_TAGS] = {8, true, 7, NULL}};

/* The chosen columns that have room, and how many columns of the screen they take. */
static uint32_t choose(uint32_t chosen, int32_t room, int32_t *taken)
{
    uint32_t shown = 0;
    *taken = 0;
    for (int32_t rank = 0; rank < S2_TUI_COLUMNS; rank++)
        for (int32_t at = 0; at < S2_TUI_COLUMNS; at++) {
            if (COLUMNS[at].rank != rank || (chosen & 1u << at) == 0)
                continue;
            if (*taken + COLUMNS[at].cols > room)
                return shown;
            *taken += COLUMNS[at].cols;
            shown |= 1u << at;
        }
    return shown;
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
    const uint32_t shown = choose(state->columns, cols - S2_NAME_AT - NAME_COLS, &taken);
    const int32_t slack = cols - S2_NAME_AT - NAME_COLS - taken;
    const int32_t more =
        cols < NARROW ? slack - 1 : s2_max_i32(0, slack - TAGS_COLS + COLUMNS[S2_COLUMN_TAGS].cols);
    const int32_t most = cols < NARROW ? cols : MOST_NAME_COLS - NAME_COLS;
    int32_t col = S2_NAME_AT + NAME_COLS + s2_max_i32(0, s2_min_i32(more, most));
    c.name_end = shown != 0 ? col : cols;
    for (int32_t at = 0; at < S2_TUI_COLUMNS; at++) {
        if ((shown & 1u << at) == 0)
            continue;
        c.at[at] = (s2_range){col, at == S2_COLUMN_TAGS ? cols : col + COLUMNS[at].cols};
        col += COLUMNS[at].cols;
    }
    return c;
}

bool s2_column_has_room(const s2_tui_state *state, int32_t column)
{
    const s2_column_places c = s2_column_places_of(state, state->cols);
    return c.at[column].end > 0;
}
