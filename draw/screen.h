/*
 * draw/screen.h - a screen of characters as a picture: each cell a glyph in ink on paper.
 *
 * Glyphs are ASCII, the blocks and shades of masks, and the few signs that the screens use; any other shows
 * as a box. The machine that draws needs no font.
 *
 * Threads: no state.
 */
#ifndef S2_DRAW_SCREEN_H
#define S2_DRAW_SCREEN_H

#include "base/text.h"

typedef struct s2_screen_cell {
    uint32_t glyph; /* code point; 0: the right half of a wide one */
    uint32_t ink;   /* 0xrrggbb */
    uint32_t paper;
    bool bold;
} s2_screen_cell;

/* PNG bytes of cells[rows * cols]. S2_ENOMEM, S2_EIO (libpng refused), S2_EINVAL (no cells). */
s2_status s2_screen_png(const s2_screen_cell *cells, int32_t rows, int32_t cols, s2_buf *buf) S2_MUST_CHECK;

#endif /* S2_DRAW_SCREEN_H */
