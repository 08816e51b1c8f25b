/*
 * tui/looks.h - what a style looks like with 256 colours, with 8, and with none.
 *
 * The terminal, ANSI dumps and pictures of a screen take their colours from here, so they agree. The ramp
 * of HEAT0 .. HEAT5 rises in lightness like cividis (falls on a light background), so it reads the same
 * with every kind of colour vision; colour alone never carries a meaning.
 *
 * Threads: constant data.
 */
#ifndef S2_TUI_LOOKS_H
#define S2_TUI_LOOKS_H

#include "tui/canvas.h"

#define S2_PALETTE_TABLE(X)                                                                                  \
    X(DARK, "dark")         /* cividis on the terminal's own dark background */                              \
    X(LIGHT, "light")       /* the same reversed, for a light background */                                  \
    X(CONTRAST, "contrast") /* black, white and two signal colours */

typedef enum s2_palette {
#define S2_PALETTE_ENUM(name, word) S2_PALETTE_##name,
    S2_PALETTE_TABLE(S2_PALETTE_ENUM)
#undef S2_PALETTE_ENUM
        S2_N_PALETTES
} s2_palette;

enum { S2_LOOK_BOLD = 1, S2_LOOK_REVERSE = 2, S2_LOOK_UNDERLINE = 4 };

/* Colours are indices, -1 the terminal's default; fg8 and bg8 are among the eight of ANSI. */
typedef struct s2_look {
    int16_t fg256;
    int16_t bg256;
    int16_t fg8;
    int16_t bg8;
    uint8_t attr;
    uint8_t mono; /* the attributes if there are no colours */
} s2_look;

/* Never NULL. */
const s2_look *s2_look_of(s2_palette palette, s2_style style);
/* False when no palette has this name. */
bool s2_palette_find(const char *name, s2_palette *out);
/* The 0xrrggbb of an index; for -1, of the palette's paper (background) or ink. */
uint32_t s2_palette_rgb(s2_palette palette, int16_t index, bool background);

/* The canvas with its colours, as 256-colour ANSI text. Check buf->status. */
void s2_canvas_ansi(const s2_canvas *canvas, s2_palette palette, s2_buf *buf);

#endif /* S2_TUI_LOOKS_H */
