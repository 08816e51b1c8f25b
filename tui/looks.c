#include "tui/looks.h"

#include <string.h>

enum { BLACK, RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN, WHITE };
enum { BOLD = S2_LOOK_BOLD, REVERSE = S2_LOOK_REVERSE, UNDERLINE = S2_LOOK_UNDERLINE };

static const s2_look LOOKS[S2_N_PALETTES][S2_N_STYLES] =
    {[S2_PALETTE_DARK] =
         {
             [S2_STYLE_TEXT] = {-1, -1, -1, -1, 0, 0},
             [S2_STYLE_DIM] = {245, -1, -1, -1, 0, 0},
             [S2_STYLE_BAR] = {255, 238, WHITE, BLUE, 0, REVERSE},
             [S2_STYLE_HEAD] = {-1, -1, -1, -1, BOLD, BOLD},
             [S2_STYLE_CURSOR] = {16, 180, BLACK, CYAN, BOLD, REVERSE},
             [S2_STYLE_GOOD] = {75, -1, CYAN, -1, BOLD, BOLD},
             [S2_STYLE_BAD] = {203, -1, RED, -1, BOLD, REVERSE},
             [S2_STYLE_UNSURE] = {221, -1, YELLOW, -1, 0, UNDERLINE},
             [S2_STYLE_HOLE] = {231, 160, WHITE, RED, BOLD, REVERSE},
             [S2_STYLE_WITNESS] = {16, 226, BLACK, YELLOW, BOLD, REVERSE | BOLD},
             [S2_STYLE_HEAT0] = {239, -1, BLUE, -1, 0, 0},
             [S2_STYLE_HEAT1] = {60, -1, BLUE, -1, 0, 0},
             [S2_STYLE_HEAT2] = {102, -1, CYAN, -1, 0, 0},
             [S2_STYLE_HEAT3] = {144, -1, CYAN, -1, 0, 0},
             [S2_STYLE_HEAT4] = {179, -1, YELLOW, -1, 0, 0},
             [S2_STYLE_HEAT5] = {221, -1, YELLOW, -1, 0, BOLD},
             [S2_STYLE_KEY] = {180, -1, CYAN, -1, BOLD, BOLD},
         },
     [S2_PALETTE_LIGHT] =
         {
             [S2_STYLE_TEXT] = {-1, -1, -1, -1, 0, 0},
             [S2_STYLE_DIM] = {241, -1, -1, -1, 0, 0},
             [S2_STYLE_BAR] = {16, 252, BLACK, WHITE, 0, REVERSE},
             [S2_STYLE_HEAD] = {-1, -1, -1, -1, BOLD, BOLD},
             [S2_STYLE_CURSOR] = {231, 24, WHITE, BLUE, BOLD, REVERSE},
             [S2_STYLE_GOOD] = {25, -1, BLUE, -1, BOLD, BOLD},
             [S2_STYLE_BAD] = {160, -1, RED, -1, BOLD, REVERSE},
             [S2_STYLE_UNSURE] = {130, -1, MAGENTA, -1, 0, UNDERLINE},
             [S2_STYLE_HOLE] = {231, 160, WHITE, RED, BOLD, REVERSE},
             [S2_STYLE_WITNESS] = {231, 90, WHITE, MAGENTA, BOLD, REVERSE | BOLD},
             [S2_STYLE_HEAT0] = {250, -1, CYAN, -1, 0, 0},
             [S2_STYLE_HEAT1] = {179, -1, CYAN, -1, 0, 0},
             [S2_STYLE_HEAT2] = {144, -1, CYAN, -1, 0, 0},
             [S2_STYLE_HEAT3] = {102, -1, BLUE, -1, 0, 0},
             [S2_STYLE_HEAT4] = {60, -1, BLUE, -1, 0, 0},
             [S2_STYLE_HEAT5] = {17, -1, BLACK, -1, 0, BOLD},
             [S2_STYLE_KEY] = {24, -1, BLUE, -1, BOLD, BOLD},
         },
     [S2_PALETTE_CONTRAST] = {
         [S2_STYLE_TEXT] = {231, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_DIM] = {252, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_BAR] = {16, 231, BLACK, WHITE, 0, REVERSE},
         [S2_STYLE_HEAD] = {231, 16, WHITE, BLACK, BOLD, BOLD},
         [S2_STYLE_CURSOR] = {16, 231, BLACK, WHITE, BOLD, REVERSE},
         [S2_STYLE_GOOD] = {231, 16, WHITE, BLACK, BOLD, BOLD},
         [S2_STYLE_BAD] = {16, 214, BLACK, YELLOW, BOLD, REVERSE},
         [S2_STYLE_UNSURE] = {231, 16, WHITE, BLACK, UNDERLINE, UNDERLINE},
         [S2_STYLE_HOLE] = {16, 214, BLACK, YELLOW, BOLD, REVERSE},
         [S2_STYLE_WITNESS] = {231, 19, WHITE, BLUE, BOLD | UNDERLINE, REVERSE | BOLD},
         [S2_STYLE_HEAT0] = {240, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_HEAT1] = {244, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_HEAT2] = {248, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_HEAT3] = {251, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_HEAT4] = {254, 16, WHITE, BLACK, 0, 0},
         [S2_STYLE_HEAT5] = {231, 16, WHITE, BLACK, BOLD, BOLD},
         [S2_STYLE_KEY] = {231, 16, WHITE, BLACK, BOLD | UNDERLINE, BOLD},
     }};

const s2_look *s2_look_of(s2_palette palette, s2_style style)
{
    return &LOOKS[palette][style];
}

bool s2_palette_find(const char *name, s2_palette *out)
{
    static const char *const words[] = {
#define WORD(name, word) word,
        S2_PALETTE_TABLE(WORD)
#undef WORD
    };
    for (int at = 0; at < S2_N_PALETTES; at++)
        if (strcmp(words[at], name) == 0) {
            *out = (s2_palette)at;
            return true;
        }
    return false;
}

/* The cube and the greys of 256 colours; the first sixteen, which terminals redefine, are not used. */
uint32_t s2_palette_rgb(s2_palette palette, int16_t index, bool background)
{
    static const uint8_t levels[] = {0, 95, 135, 175, 215, 255};
    if (index < 0) {
        const bool dark = palette != S2_PALETTE_LIGHT;
        return background == dark ? 0x111318 : 0xf2f2ee;
    }
    if (index >= 232) {
        const uint32_t grey = 8 + 10 * (uint32_t)(index - 232);
        return grey << 16 | grey << 8 | grey;
    }
    const int32_t cube = index - 16;
    return (uint32_t)levels[cube / 36] << 16 | (uint32_t)levels[cube / 6 % 6] << 8 | levels[cube % 6];
}

static void put_look(const s2_look *look, s2_buf *buf)
{
    s2_buf_puts(buf, "\033[0");
    if (look->attr & BOLD)
        s2_buf_puts(buf, ";1");
    if (look->attr & UNDERLINE)
        s2_buf_puts(buf, ";4");
    if (look->fg256 >= 0)
        s2_buf_printf(buf, ";38;5;%d", look->fg256);
    if (look->bg256 >= 0)
        s2_buf_printf(buf, ";48;5;%d", look->bg256);
    s2_buf_puts(buf, "m");
}

void s2_canvas_ansi(const s2_canvas *canvas, s2_palette palette, s2_buf *buf)
{
    for (int32_t row = 0; row < canvas->rows; row++) {
        int style = -1;
        for (int32_t col = 0; col < canvas->cols; col++) {
            const s2_cell cell = canvas->cells[row * canvas->cols + col];
            char bytes[5];
            if (cell.glyph == 0)
                continue;
            if (cell.style != style)
                put_look(s2_look_of(palette, (s2_style)cell.style), buf);
            style = cell.style;
            s2_glyph_encode(cell.glyph, bytes);
            s2_buf_puts(buf, bytes);
        }
        s2_buf_puts(buf, "\033[0m\n");
    }
}
