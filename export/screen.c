/*
 * Screens as PNG. Blocks and shades fill their cell as a terminal fills it, so masks look as they do there.
 */
#include "export/screen.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

#include "base/alloc.h"

enum { SCALE = 2, CELL_W = 6 * SCALE, CELL_H = 11 * SCALE, GLYPH_W = 5, GLYPH_H = 7, LEFT = 0, TOP = 2 };

/* ASCII from the blank on, 5 x 7 bits a letter, row by row, the first row highest. */
static const uint64_t LETTERS[95] = {
    0x000000000, 0x108421004, 0x294000000, 0x295f57d4a, 0x11f4717c4, 0x672222273, 0x32544564d, 0x108000000,
    0x088842082, 0x208210888, 0x009575480, 0x0084f9080, 0x000001844, 0x000070000, 0x0000000c6, 0x042222210,
    0x3a33ae62e, 0x11842108e, 0x3a213221f, 0x3a213062e, 0x08ca97c42, 0x7e1e0862e, 0x1910f462e, 0x7c2221084,
    0x3a317462e, 0x3a317844c, 0x00c6018c0, 0x00c601844, 0x088882082, 0x001f07c00, 0x208208888, 0x3a2131004,
    0x3a37ade0e, 0x11518fe31, 0x7a31f463e, 0x3a308422e, 0x72518c65c, 0x7e10f421f, 0x7e10f4210, 0x3a30bc62f,
    0x4631fc631, 0x38842108e, 0x1c4210a4c, 0x4654c5251, 0x42108421f, 0x4775ac631, 0x47359c631, 0x3a318c62e,
    0x7a31f4210, 0x3a318d64d, 0x7a31f5251, 0x3e107043e, 0x7c8421084, 0x46318c62e, 0x46318c544, 0x4631ad771,
    0x462a22a31, 0x462a21084, 0x7c222221f, 0x39084210e, 0x420820821, 0x38421084e, 0x115100000, 0x00000001f,
    0x208000000, 0x000e0be2f, 0x421e8c63e, 0x000e8420e, 0x042f8c62f, 0x000e8fe0e, 0x1928e2108, 0x3e318bc2e,
    0x421e8c631, 0x100c2108e, 0x080610a4c, 0x4212a6292, 0x30842108e, 0x001aad6b5, 0x001e8c631, 0x000e8c62e,
    0x7a318fa10, 0x3e318bc21, 0x0016cc210, 0x000f8383e, 0x211e42126, 0x00118c62f, 0x00118c544, 0x0011ad6aa,
    0x001151151, 0x46318bc2e, 0x001f1111f, 0x0c8441083, 0x108421084, 0x608411098, 0x0009b0000};

typedef struct surface {
    int32_t width;
    int32_t height;
    uint8_t *pixels;
} surface;

static void box(const surface *to, int32_t x, int32_t y, int32_t w, int32_t h, uint32_t colour)
{
    const uint8_t rgb[3] = {(uint8_t)(colour >> 16), (uint8_t)(colour >> 8), (uint8_t)colour};
    for (int32_t row = y; row < y + h; row++)
        for (int32_t col = x; col < x + w; col++)
            if (row >= 0 && row < to->height && col >= 0 && col < to->width)
                memcpy(to->pixels + ((int64_t)row * to->width + col) * 3, rgb, 3);
}

static void letter(const surface *to, int32_t x, int32_t y, uint64_t bits, const s2_screen_cell *cell)
{
    for (int32_t bit = 0; bit < GLYPH_W * GLYPH_H; bit++)
        if (bits >> (GLYPH_W * GLYPH_H - 1 - bit) & 1)
            box(to, x + (LEFT + bit % GLYPH_W) * SCALE, y + (TOP + bit / GLYPH_W) * SCALE,
                SCALE + (cell->bold ? 1 : 0), SCALE, cell->ink);
}

/* Ink over paper, `part` of 4. */
static uint32_t mix(uint32_t ink, uint32_t paper, uint32_t part)
{
    uint32_t out = 0;
    for (int shift = 0; shift <= 16; shift += 8)
        out |= ((ink >> shift & 255) * part + (paper >> shift & 255) * (4 - part)) / 4 << shift;
    return out;
}

/* U+2580 .. U+2593: halves, eighths from below, the full block, three shades; false for any other. */
static bool block(const surface *to, int32_t x, int32_t y, const s2_screen_cell *cell)
{
    const uint32_t g = cell->glyph;
    if (g >= 0x2591 && g <= 0x2593)
        box(to, x, y, CELL_W, CELL_H, mix(cell->ink, cell->paper, g - 0x2590));
    else if (g == 0x2580)
        box(to, x, y, CELL_W, CELL_H / 2, cell->ink);
    else if (g >= 0x2581 && g <= 0x2588) {
        const int32_t h = (int32_t)(g - 0x2580) * CELL_H / 8;
        box(to, x, y + CELL_H - h, CELL_W, h, cell->ink);
    } else
        return false;
    return true;
}

/* The other signs of the screens, by the ASCII letter or the bits that look like them. */
static uint64_t sign(uint32_t glyph)
{
    switch (glyph) {
    case 0xb7: return UINT64_C(0x4) << 15;
    case 0xd7: return LETTERS['x' - ' '] << 5;
    case 0x25e6: return LETTERS['o' - ' '] << 5;
    case 0x25b8: return LETTERS['>' - ' '];
    case 0x2605: return LETTERS['*' - ' '];
    case 0x25cf:
        return UINT64_C(0x0e) << 25 | UINT64_C(0x1f) << 20 | UINT64_C(0x1f) << 15 | UINT64_C(0x1f) << 10 |
               UINT64_C(0x0e) << 5;
    default: return UINT64_C(0x1f) << 30 | UINT64_C(0x118c63) << 5 | UINT64_C(0x1f);
    }
}

static void draw(const surface *to, int32_t x, int32_t y, const s2_screen_cell *cell)
{
    box(to, x, y, CELL_W, CELL_H, cell->paper);
    if (cell->glyph == 0 || block(to, x, y, cell))
        return;
    const bool ascii = cell->glyph >= ' ' && cell->glyph < 127;
    /* these hang below the line */
    y += ascii && strchr("gpqy", (int)cell->glyph) != NULL ? 2 * SCALE : 0;
    letter(to, x, y, ascii ? LETTERS[cell->glyph - ' '] : sign(cell->glyph), cell);
}

static void png_append(png_structp png, png_bytep bytes, png_size_t n)
{
    s2_buf_add(png_get_io_ptr(png), (const char *)bytes, n);
}

static void png_flush_nothing(png_structp png)
{
    (void)png;
}

static s2_status encode(const surface *from, s2_buf *buf)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
    if (info == NULL) {
        png_destroy_write_struct(&png, NULL);
        return S2_ENOMEM;
    }
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return S2_EIO;
    }
    png_set_write_fn(png, buf, png_append, png_flush_nothing);
    png_set_IHDR(png, info, (png_uint_32)from->width, (png_uint_32)from->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int32_t row = 0; row < from->height; row++)
        png_write_row(png, from->pixels + (int64_t)row * from->width * 3);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return buf->status;
}

s2_status s2_screen_png(const s2_screen_cell *cells, int32_t rows, int32_t cols, s2_buf *buf)
{
    surface to = {cols * CELL_W, rows * CELL_H, NULL};
    if (rows < 1 || cols < 1)
        return S2_EINVAL;
    to.pixels = s2_malloc((size_t)to.width * (size_t)to.height * 3);
    if (to.pixels == NULL)
        return S2_ENOMEM;
    for (int32_t at = 0; at < rows * cols; at++)
        draw(&to, at % cols * CELL_W, at / cols * CELL_H, &cells[at]);
    const s2_status status = encode(&to, buf);
    s2_free(to.pixels);
    return status;
}
