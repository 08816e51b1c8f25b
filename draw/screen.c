/*
 * Screens as PNG. Blocks and shades fill their cell as in a terminal, so masks look as they do there.
 */
#include "draw/screen.h"

#include <string.h>

#include "draw/surface.h"

enum { DOT = 2, CELL_W = 6 * DOT, CELL_H = 11 * DOT, TOP = 2 };

static s2_rgb rgb_of(uint32_t colour)
{
    return (s2_rgb){(uint8_t)(colour >> 16), (uint8_t)(colour >> 8), (uint8_t)colour};
}

/* Draw rows of five bits, starting at row `top`; bold letters are half a dot wider. */
static void draw_bits(s2_surface *to, int32_t x, int32_t y, const uint8_t *bits, int32_t top,
                      const s2_screen_cell *cell)
{
    for (int32_t row = 0; row < S2_FONT_ROWS; row++)
        for (int32_t col = 0; col < S2_FONT_COLS; col++)
            if (bits[row] >> (S2_FONT_COLS - 1 - col) & 1)
                s2_surface_box(to, x + col * DOT, y + (top + row) * DOT, DOT + cell->bold, DOT,
                               rgb_of(cell->ink));
}

/* `part` quarters of ink over paper. */
static s2_rgb mix(uint32_t ink, uint32_t paper, uint32_t part)
{
    uint32_t out = 0;
    for (int shift = 0; shift <= 16; shift += 8)
        out |= ((ink >> shift & 255) * part + (paper >> shift & 255) * (4 - part)) / 4 << shift;
    return rgb_of(out);
}

/* U+2580 .. U+2593: the upper half, eighths from below, the full block, three shades; false for any other. */
static bool draw_block(s2_surface *to, int32_t x, int32_t y, const s2_screen_cell *cell)
{
    const uint32_t g = cell->glyph;
    const int32_t eighths = g >= 0x2581 && g <= 0x2588 ? (int32_t)(g - 0x2580) : 0;
    if (g >= 0x2591 && g <= 0x2593)
        s2_surface_box(to, x, y, CELL_W, CELL_H, mix(cell->ink, cell->paper, g - 0x2590));
    else if (g == 0x2580)
        s2_surface_box(to, x, y, CELL_W, CELL_H / 2, rgb_of(cell->ink));
    else if (eighths > 0)
        s2_surface_box(to, x, y + CELL_H - eighths * CELL_H / 8, CELL_W, eighths * CELL_H / 8,
                       rgb_of(cell->ink));
    return g == 0x2580 || eighths > 0 || (g >= 0x2591 && g <= 0x2593);
}

/* Draw frame lines so that they meet those of adjacent cells; false for any other glyph. */
static bool draw_line(s2_surface *to, int32_t x, int32_t y, const s2_screen_cell *cell)
{
    enum { LEFT = 1, RIGHT = 2, UP = 4, DOWN = 8, MID_X = (CELL_W - DOT) / 2, MID_Y = (CELL_H - DOT) / 2 };
    static const struct {
        uint32_t glyph;
        int arms;
    } lines[] = {{0x2500, LEFT | RIGHT},
                 {0x2502, UP | DOWN},
                 {0x250c, RIGHT | DOWN},
                 {0x2510, LEFT | DOWN},
                 {0x2514, UP | RIGHT},
                 {0x2518, UP | LEFT},
                 {0x253c, LEFT | RIGHT | UP | DOWN}};
    int arms = 0;
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++)
        arms = lines[n].glyph == cell->glyph ? lines[n].arms : arms;
    const s2_rgb ink = rgb_of(cell->ink);
    if (arms & LEFT)
        s2_surface_box(to, x, y + MID_Y, MID_X + DOT, DOT, ink);
    if (arms & RIGHT)
        s2_surface_box(to, x + MID_X, y + MID_Y, CELL_W - MID_X, DOT, ink);
    if (arms & UP)
        s2_surface_box(to, x + MID_X, y, DOT, MID_Y + DOT, ink);
    if (arms & DOWN)
        s2_surface_box(to, x + MID_X, y + MID_Y, DOT, CELL_H - MID_Y, ink);
    return arms != 0;
}

/* The other signs of the screens. */
static const uint8_t *bits_of(uint32_t glyph)
{
    static const uint8_t dot[S2_FONT_ROWS] = {0, 0, 0, 0x04, 0, 0, 0},
                         times[S2_FONT_ROWS] = {0, 0x11, 0x0a, 0x04, 0x0a, 0x11, 0},
                         ring[S2_FONT_ROWS] = {0, 0, 0x0e, 0x0a, 0x0e, 0, 0},
                         disc[S2_FONT_ROWS] = {0, 0x0e, 0x1f, 0x1f, 0x1f, 0x0e, 0},
                         star[S2_FONT_ROWS] = {0x04, 0x04, 0x1f, 0x0e, 0x0e, 0x1b, 0},
                         dots[S2_FONT_ROWS] = {0, 0, 0, 0, 0, 0, 0x15},
                         up[S2_FONT_ROWS] = {0, 0, 0x04, 0x0e, 0x1f, 0, 0},
                         down[S2_FONT_ROWS] = {0, 0, 0x1f, 0x0e, 0x04, 0, 0},
                         diamond[S2_FONT_ROWS] = {0, 0x04, 0x0e, 0x1f, 0x0e, 0x04, 0},
                         right[S2_FONT_ROWS] = {0x10, 0x18, 0x1c, 0x1e, 0x1c, 0x18, 0x10};
    switch (glyph) {
    case 0xb7: return dot;
    case 0xd7: return times;
    case 0x25e6: return ring;
    case 0x25cf: return disc;
    case 0x2605: return star;
    case 0x25b8: return right;
    case 0x2026: return dots;
    case 0x25b4: return up;
    case 0x25be: return down;
    case 0x25c6: return diamond;
    default: return s2_font_bits(glyph);
    }
}

/* Letters that hang below the line: the font squeezes them into its seven rows, but a cell has nine. */
static const uint8_t *hanging(uint32_t glyph)
{
    static const uint8_t g[S2_FONT_ROWS] = {0x0f, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e},
                         p[S2_FONT_ROWS] = {0x1e, 0x11, 0x11, 0x11, 0x1e, 0x10, 0x10},
                         q[S2_FONT_ROWS] = {0x0f, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x01},
                         y[S2_FONT_ROWS] = {0x11, 0x11, 0x11, 0x11, 0x0f, 0x01, 0x0e};
    return glyph == 'g' ? g : glyph == 'p' ? p : glyph == 'q' ? q : glyph == 'y' ? y : NULL;
}

static void draw(s2_surface *to, int32_t x, int32_t y, const s2_screen_cell *cell)
{
    s2_surface_box(to, x, y, CELL_W, CELL_H, rgb_of(cell->paper));
    if (cell->glyph == 0 || cell->glyph == ' ' || draw_block(to, x, y, cell) || draw_line(to, x, y, cell))
        return;
    const uint8_t *const low = hanging(cell->glyph);
    draw_bits(to, x, y, low != NULL ? low : bits_of(cell->glyph), low != NULL ? TOP + 2 : TOP, cell);
}

s2_status s2_screen_png(const s2_screen_cell *cells, int32_t rows, int32_t cols, s2_buf *buf)
{
    s2_surface to;
    if (rows < 1 || cols < 1)
        return S2_EINVAL;
    S2_TRY(s2_surface_open(&to, true, cols * CELL_W, rows * CELL_H, buf));
    for (int32_t at = 0; at < rows * cols; at++)
        draw(&to, at % cols * CELL_W, at / cols * CELL_H, &cells[at]);
    return s2_surface_close(&to);
}
