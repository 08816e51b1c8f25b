/*
 * Grids to ANSI, SVG and PNG. SVG and PNG are one list of boxes and words (draw_picture), so they show the
 * same.
 */
#include "export/picture.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "base/alloc.h"

typedef struct rgb {
    uint8_t r, g, b;
} rgb;

static const rgb paper = {255, 255, 255}, ink = {0, 0, 0}, unread = {228, 228, 228},
                 hole_colour = {213, 94, 0};

/* Five stops of a ramp from dark blue to yellow whose lightness only rises (after cividis). */
static rgb ramp(double share)
{
    static const rgb stops[5] = {
        {0, 32, 76}, {64, 77, 107}, {124, 123, 120}, {188, 175, 111}, {255, 234, 70}};
    const double at = (share < 0 ? 0 : share > 1 ? 1 : share) * 4;
    const int below = at >= 4 ? 3 : (int)at;
    const double part = at - below;
    const rgb a = stops[below], b = stops[below + 1];
    return (rgb){(uint8_t)(a.r + (b.r - a.r) * part), (uint8_t)(a.g + (b.g - a.g) * part),
                 (uint8_t)(a.b + (b.b - a.b) * part)};
}

static rgb cell_colour(const s2_grid_cell *cell)
{
    return cell->hole ? hole_colour : cell->future ? paper : cell->share <= 0 ? unread : ramp(cell->share);
}

/* ---- text -------------------------------------------------------------------------------------------------
 */

static const s2_grid_cell *cell_at(const s2_picture *picture, int32_t row, int32_t col)
{
    return &picture->cells[(int64_t)row * picture->n_cols + col];
}

static char cell_glyph(const s2_grid_cell *cell)
{
    static const char shades[] = ".:-=+*#%@";
    if (cell->hole)
        return 'X';
    if (cell->future)
        return ' ';
    return cell->share <= 0 ? '.' : shades[1 + (int)((cell->share > 1 ? 1 : cell->share) * 7.001)];
}

static void ansi_pair(const s2_picture *picture, int32_t row, int32_t col, s2_buf *buf)
{
    const s2_grid_cell *const upper = cell_at(picture, row, col);
    const s2_grid_cell *const lower = row + 1 < picture->n_rows ? cell_at(picture, row + 1, col) : NULL;
    const rgb a = cell_colour(upper), b = lower != NULL ? cell_colour(lower) : paper;
    const bool holes = upper->hole || (lower != NULL && lower->hole);
    if (holes)
        s2_buf_printf(buf, "\x1b[1;38;2;0;0;0;48;2;%d;%d;%dmX", hole_colour.r, hole_colour.g, hole_colour.b);
    else
        s2_buf_printf(buf, "\x1b[38;2;%d;%d;%d;48;2;%d;%d;%dm\xe2\x96\x80", a.r, a.g, a.b, b.r, b.g, b.b);
}

static void holes_line(const s2_picture *picture, char *line, size_t cap)
{
    line[0] = '\0';
    if (picture->is_union && picture->row_tok > 0)
        snprintf(line, cap,
                 picture->n_holes > 0 ? "X: pairs that no head reads" : "every pair is read by some head");
}

void s2_picture_ansi(const s2_picture *picture, bool ascii, s2_buf *buf)
{
    char holes[64], title[320];
    s2_text_clean(title, sizeof title, picture->title);
    s2_buf_printf(buf, "%s\n", title);
    for (int32_t row = 0; row < picture->n_rows; row += ascii ? 1 : 2) {
        for (int32_t col = 0; col < picture->n_cols; col++) {
            if (ascii)
                s2_buf_printf(buf, "%c", cell_glyph(cell_at(picture, row, col)));
            else
                ansi_pair(picture, row, col, buf);
        }
        s2_buf_puts(buf, ascii ? "\n" : "\x1b[0m\n");
    }
    holes_line(picture, holes, sizeof holes);
    s2_buf_printf(buf, "columns: %s, %lld a cell; rows: %s", picture->x_label, (long long)picture->col_tok,
                  picture->y_label);
    if (picture->row_tok > 0)
        s2_buf_printf(buf, ", %lld a cell", (long long)picture->row_tok);
    s2_buf_printf(buf, "\n%s%s%s\n",
                  picture->is_union && picture->row_tok > 0 ? "share of heads that read, dark to bright"
                                                            : "share of pairs read, dark to bright",
                  holes[0] != '\0' ? "; " : "", holes);
}

/* ---- boxes and words, for SVG and PNG
 * -------------------------------------------------------------------------- */

typedef struct surface {
    int32_t width, height;
    uint8_t *pixels; /* NULL: SVG */
    s2_buf *svg;
} surface;

static void box(surface *to, int32_t x, int32_t y, int32_t w, int32_t h, rgb colour)
{
    if (to->pixels == NULL) {
        s2_buf_printf(to->svg,
                      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n", x, y,
                      w, h, colour.r, colour.g, colour.b);
        return;
    }
    for (int32_t row = y; row < y + h && row < to->height; row++)
        for (int32_t col = x; col < x + w && col < to->width; col++)
            memcpy(to->pixels + ((int64_t)row * to->width + col) * 3, &colour, 3);
}

/* Upper-case letters, digits and a few signs, 3 x 5 bits, most significant first. */
static uint16_t glyph_bits(char c)
{
    static const uint16_t letters[26] = {0x2bed, 0x6bae, 0x3923, 0x6b6e, 0x79a7, 0x79a4, 0x396b,
                                         0x5bed, 0x7497, 0x126a, 0x5bad, 0x4927, 0x5fed, 0x7b6d,
                                         0x2b6a, 0x6ba4, 0x7b79, 0x6bad, 0x388e, 0x7492, 0x5b6f,
                                         0x5b6a, 0x5bfd, 0x5aad, 0x5a92, 0x72a7};
    static const uint16_t digits[10] = {0x7b6f, 0x2c97, 0x73e7, 0x73cf, 0x5bc9,
                                        0x79cf, 0x79ef, 0x7249, 0x7bef, 0x7bcf};
    const char up = (char)toupper((unsigned char)c);
    if (up >= 'A' && up <= 'Z')
        return letters[up - 'A'];
    if (c >= '0' && c <= '9')
        return digits[c - '0'];
    switch (c) {
    case '-': return 0x01c0;
    case '.': return 0x0002;
    case ',': return 0x0014;
    case ':': return 0x0410;
    case ';': return 0x0414;
    case '%': return 0x52a5;
    case '/': return 0x12a4;
    default: return 0;
    }
}

static void words(surface *to, int32_t x, int32_t y, const char *text)
{
    enum { SCALE = 2, ADVANCE = 4 };
    if (to->pixels == NULL) {
        s2_buf_printf(to->svg, "<text x=\"%d\" y=\"%d\">", x, y + 11);
        for (const char *c = text; *c != '\0'; c++)
            s2_buf_puts(to->svg, *c == '<'   ? "&lt;"
                                 : *c == '&' ? "&amp;"
                                 : *c == '>' ? "&gt;"
                                             : (const char[]){*c, '\0'});
        s2_buf_puts(to->svg, "</text>\n");
        return;
    }
    for (; *text != '\0'; text++, x += ADVANCE * SCALE)
        for (int bit = 0; bit < 15; bit++)
            if (glyph_bits(*text) >> (14 - bit) & 1)
                box(to, x + bit % 3 * SCALE, y + bit / 3 * SCALE, SCALE, SCALE, ink);
}

/* A hole is crossed out, so that it does not depend on its colour. */
static void cross(surface *to, int32_t x, int32_t y, int32_t size)
{
    if (size < 5)
        return;
    if (to->pixels == NULL) {
        s2_buf_printf(to->svg, "<path d=\"M%d %dL%d %dM%d %dL%d %d\" stroke=\"#000000\"/>\n", x, y, x + size,
                      y + size, x + size, y, x, y + size);
        return;
    }
    for (int32_t at = 0; at < size; at++) {
        box(to, x + at, y + at, 1, 1, ink);
        box(to, x + size - 1 - at, y + at, 1, 1, ink);
    }
}

enum { LEFT = 92, TOP = 34, BOTTOM = 96, RIGHT = 24, SIDE = 640 };

static int32_t cell_width(const s2_picture *picture)
{
    return SIDE / picture->n_cols > 1 ? SIDE / picture->n_cols : 1;
}

static int32_t cell_height(const s2_picture *picture)
{
    const int32_t width = cell_width(picture);
    return picture->row_tok > 0 ? width : width > 20 ? width : 20;
}

static void draw_axes(const s2_picture *picture, surface *to, int32_t w, int32_t h)
{
    char text[64];
    for (int tick = 0; tick <= 4; tick++) {
        const int32_t at = picture->n_cols * tick / 4;
        snprintf(text, sizeof text, "%lld", (long long)(at * picture->col_tok));
        words(to, LEFT + at * w - (tick == 4 ? 30 : 0), TOP + picture->n_rows * h + 6, text);
        const int32_t row = picture->row_tok > 0 ? picture->n_rows * tick / 4 : 0;
        snprintf(text, sizeof text, "%lld", (long long)(row * picture->row_tok));
        if (picture->row_tok > 0)
            words(to, 8, TOP + row * h - (tick == 4 ? 10 : 0), text);
    }
    for (int32_t row = 0; picture->row_tok == 0 && row < picture->n_rows; row++) {
        snprintf(text, sizeof text, row + 1 < picture->n_rows ? "KV %d" : "all", row);
        words(to, 8, TOP + row * h + 4, text);
    }
    words(to, LEFT, TOP + picture->n_rows * h + 22, picture->x_label);
    words(to, LEFT + 200, TOP + picture->n_rows * h + 22,
          picture->row_tok > 0 ? "down: query, tokens" : "down: KV heads, then all");
}

static void draw_legend(const s2_picture *picture, surface *to, int32_t y)
{
    char text[64];
    box(to, LEFT, y, 12, 12, unread);
    words(to, LEFT + 18, y + 1, "unread");
    for (int step = 0; step < 40; step++)
        box(to, LEFT + 90 + step * 3, y, 3, 12, ramp(step / 39.0));
    words(to, LEFT + 216, y + 1,
          picture->is_union && picture->row_tok > 0 ? "share of heads, few to all"
                                                    : "share of pairs, few to all");
    box(to, LEFT, y + 20, 12, 12, hole_colour);
    cross(to, LEFT, y + 20, 12);
    holes_line(picture, text, sizeof text);
    words(to, LEFT + 18, y + 21,
          picture->n_holes > 0 ? "hole: some pair that no head reads" : "hole: none here");
}

static void draw_picture(const s2_picture *picture, surface *to)
{
    const int32_t w = cell_width(picture), h = cell_height(picture);
    char title[320];
    s2_text_clean(title, sizeof title, picture->title);
    words(to, LEFT, 10, title);
    for (int32_t row = 0; row < picture->n_rows; row++)
        for (int32_t col = 0; col < picture->n_cols;) {
            const s2_grid_cell *const cell = cell_at(picture, row, col);
            const rgb colour = cell_colour(cell);
            int32_t end = col + 1;
            while (end < picture->n_cols && !cell->hole && !cell_at(picture, row, end)->hole) {
                const rgb next = cell_colour(cell_at(picture, row, end));
                if (memcmp(&next, &colour, sizeof next) != 0)
                    break;
                end++;
            }
            if (!cell->future || cell->hole)
                box(to, LEFT + col * w, TOP + row * h, (end - col) * w, h, colour);
            if (cell->hole)
                cross(to, LEFT + col * w, TOP + row * h, w);
            col = end;
        }
    draw_axes(picture, to, w, h);
    draw_legend(picture, to, TOP + picture->n_rows * h + 46);
}

static void surface_size(const s2_picture *picture, surface *to)
{
    const int32_t w = picture->n_cols * cell_width(picture);
    to->width = LEFT + (w > 460 ? w : 460) + RIGHT;
    to->height = TOP + picture->n_rows * cell_height(picture) + BOTTOM;
}

void s2_picture_svg(const s2_picture *picture, s2_buf *buf)
{
    surface to = {.svg = buf};
    surface_size(picture, &to);
    s2_buf_printf(buf,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n",
                  to.width, to.height);
    box(&to, 0, 0, to.width, to.height, paper);
    draw_picture(picture, &to);
    s2_buf_puts(buf, "</svg>\n");
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

s2_status s2_picture_png(const s2_picture *picture, s2_buf *buf)
{
    surface to = {0};
    surface_size(picture, &to);
    to.pixels = s2_malloc((size_t)to.width * (size_t)to.height * 3);
    if (to.pixels == NULL)
        return S2_ENOMEM;
    box(&to, 0, 0, to.width, to.height, paper);
    draw_picture(picture, &to);
    const s2_status status = encode(&to, buf);
    s2_free(to.pixels);
    return status;
}
