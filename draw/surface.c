#include "draw/surface.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "base/alloc.h"
#include "base/arith.h"

const s2_rgb s2_paper = {255, 255, 255}, s2_ink = {0, 0, 0}, s2_pale = {228, 228, 228};
const s2_rgb s2_colours[S2_N_COLOURS] = {{0, 0, 0},       {0, 114, 178},  {213, 94, 0}, {0, 158, 115},
                                         {204, 121, 167}, {86, 180, 233}, {230, 159, 0}};

enum { SCALE = 2, ADVANCE = S2_FONT_COLS + 1, SVG_FONT = 13, SVG_ADVANCE = 8 };

int32_t s2_surface_advance(bool png)
{
    return png ? ADVANCE * SCALE : SVG_ADVANCE;
}

s2_status s2_surface_open(s2_surface *to, bool png, int32_t width, int32_t height, s2_buf *buf)
{
    const size_t n_bytes = (size_t)width * (size_t)height * 3;
    uint8_t *const pixels = png ? s2_malloc(n_bytes) : NULL;
    if (png && pixels == NULL)
        return S2_ENOMEM;
    *to = (s2_surface){
        .width = width, .height = height, .advance = s2_surface_advance(png), .pixels = pixels, .buf = buf};
    if (!png)
        s2_buf_printf(buf,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                      "font-family=\"sans-serif\" font-size=\"%d\">\n",
                      width, height, SVG_FONT);
    s2_surface_box(to, 0, 0, width, height, s2_paper);
    return S2_OK;
}

static void png_append(png_structp png, png_bytep bytes, png_size_t n)
{
    s2_buf_add(png_get_io_ptr(png), (const char *)bytes, n);
}

static void png_flush_nothing(png_structp png)
{
    (void)png;
}

static s2_status encode(const s2_surface *from)
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
    png_set_write_fn(png, from->buf, png_append, png_flush_nothing);
    png_set_IHDR(png, info, (png_uint_32)from->width, (png_uint_32)from->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int32_t row = 0; row < from->height; row++)
        png_write_row(png, from->pixels + (int64_t)row * from->width * 3);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return from->buf->status;
}

s2_status s2_surface_close(s2_surface *to)
{
    s2_status status;
    if (to->pixels != NULL) {
        status = encode(to);
        s2_free(to->pixels);
    } else {
        s2_buf_puts(to->buf, "</svg>\n");
        status = to->buf->status;
    }
    *to = (s2_surface){0};
    return status;
}

static void fill(s2_surface *to, int32_t x, int32_t y, int32_t w, int32_t h, s2_rgb colour)
{
    for (int32_t row = s2_max_i32(y, 0); row < y + h && row < to->height; row++)
        for (int32_t col = s2_max_i32(x, 0); col < x + w && col < to->width; col++)
            memcpy(to->pixels + ((int64_t)row * to->width + col) * 3, &colour, 3);
}

void s2_surface_box(s2_surface *to, int32_t x, int32_t y, int32_t w, int32_t h, s2_rgb colour)
{
    if (to->pixels != NULL)
        fill(to, x, y, w, h, colour);
    else
        s2_buf_printf(to->buf,
                      "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%02x%02x%02x\"/>\n", x, y,
                      w, h, colour.r, colour.g, colour.b);
}

void s2_surface_line(s2_surface *to, double x0, double y0, double x1, double y1, int32_t width, int32_t dash,
                     s2_rgb colour)
{
    if (to->pixels == NULL) {
        char pattern[48] = "";
        if (dash > 0)
            snprintf(pattern, sizeof pattern, " stroke-dasharray=\"%d %d\"", dash, dash);
        s2_buf_printf(to->buf,
                      "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#%02x%02x%02x\" stroke-width=\"%d\"%s/>\n",
                      x0, y0, x1, y1, colour.r, colour.g, colour.b, width, pattern);
        return;
    }
    const double length = hypot(x1 - x0, y1 - y0);
    const int32_t n = (int32_t)ceil(length) + 1;
    for (int32_t dot = 0; dot < n; dot++) {
        const double part = n > 1 ? (double)dot / (n - 1) : 0;
        /* Dashes depend on the position on the page, so that a curve of many short pieces shows them too. */
        if (dash > 0 && (int64_t)floor((x0 + (x1 - x0) * part + y0 + (y1 - y0) * part) / dash) % 2 != 0)
            continue;
        fill(to, (int32_t)lround(x0 + (x1 - x0) * part) - width / 2,
             (int32_t)lround(y0 + (y1 - y0) * part) - width / 2, width, width, colour);
    }
}

static void svg_curve(s2_surface *to, int32_t n, s2_surface_point point, const void *user)
{
    s2_buf_puts(to->buf, "<path d=\"");
    for (int32_t at = 0; at < n; at++) {
        double x, y;
        point(user, at, &x, &y);
        s2_buf_printf(to->buf, "%c%.1f %.1f", at == 0 ? 'M' : 'L', x, y);
    }
    s2_buf_puts(to->buf, "\" fill=\"none\"");
}

void s2_surface_curve(s2_surface *to, int32_t n, s2_surface_point point, const void *user, int32_t width,
                      int32_t dash, s2_rgb colour)
{
    if (to->pixels == NULL) {
        svg_curve(to, n, point, user);
        if (dash > 0)
            s2_buf_printf(to->buf, " stroke-dasharray=\"%d %d\"", dash, dash);
        s2_buf_printf(to->buf, " stroke=\"#%02x%02x%02x\" stroke-width=\"%d\"/>\n", colour.r, colour.g,
                      colour.b, width);
        return;
    }
    for (int32_t nth = 0; nth + 1 < n; nth++) {
        double x0, y0, x1, y1;
        point(user, nth, &x0, &y0);
        point(user, nth + 1, &x1, &y1);
        s2_surface_line(to, x0, y0, x1, y1, width, dash, colour);
    }
}

/* Inside the shape of half width 1 around the origin. */
static bool inside(s2_mark_shape shape, double x, double y)
{
    switch (shape) {
    case S2_SHAPE_SQUARE: return fabs(x) <= 0.85 && fabs(y) <= 0.85;
    case S2_SHAPE_DIAMOND: return fabs(x) + fabs(y) <= 1.15;
    case S2_SHAPE_TRIANGLE: return y <= 0.8 && y >= -1 && fabs(x) <= (y + 1) * 0.6;
    default: return x * x + y * y <= 1;
    }
}

static void svg_mark(s2_surface *to, double x, double y, double r, s2_mark_shape shape, s2_rgb c)
{
    char path[160];
    if (shape == S2_SHAPE_SQUARE)
        snprintf(path, sizeof path, "M%.1f %.1fh%.1fv%.1fh-%.1fz", x - r * .85, y - r * .85, r * 1.7, r * 1.7,
                 r * 1.7);
    else if (shape == S2_SHAPE_DIAMOND)
        snprintf(path, sizeof path, "M%.1f %.1fl%.1f %.1fl-%.1f %.1fl-%.1f -%.1fz", x, y - r * 1.15, r * 1.15,
                 r * 1.15, r * 1.15, r * 1.15, r * 1.15, r * 1.15);
    else if (shape == S2_SHAPE_TRIANGLE)
        snprintf(path, sizeof path, "M%.1f %.1fl%.1f %.1fh-%.1fz", x, y - r, r * 1.08, r * 1.8, r * 2.16);
    else
        snprintf(path, sizeof path, "M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 -%.1f 0z", x - r, y, r,
                 r, 2 * r, r, r, 2 * r);
    s2_buf_printf(to->buf, "<path d=\"%s\" fill=\"#%02x%02x%02x\"/>\n", path, c.r, c.g, c.b);
}

void s2_surface_mark(s2_surface *to, double x, double y, int32_t size, s2_mark_shape shape, s2_rgb colour)
{
    const double r = size / 2.0;
    if (to->pixels == NULL) {
        svg_mark(to, x, y, r, shape, colour);
        return;
    }
    for (int32_t row = -size; row <= size; row++)
        for (int32_t col = -size; col <= size; col++)
            if (inside(shape, col / r, row / r))
                fill(to, (int32_t)lround(x) + col, (int32_t)lround(y) + row, 1, 1, colour);
}

int32_t s2_surface_words_width(const s2_surface *to, const char *text)
{
    int32_t columns;
    (void)s2_text_fit(text, INT32_MAX, &columns);
    return columns * to->advance;
}

static void svg_words(s2_surface *to, int32_t x, int32_t y, s2_anchor anchor, const char *text)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    s2_buf_printf(to->buf, "<text x=\"%d\" y=\"%d\"%s>", x, y + SVG_FONT - 1, anchors[anchor]);
    for (const char *c = text; *c != '\0'; c++)
        s2_buf_puts(to->buf, *c == '<'   ? "&lt;"
                             : *c == '&' ? "&amp;"
                             : *c == '>' ? "&gt;"
                                         : (const char[]){*c, '\0'});
    s2_buf_puts(to->buf, "</text>\n");
}

/* Clean text, whose characters are all well formed. */
static void dot_words(s2_surface *to, int32_t x, int32_t y, const char *text)
{
    while (*text != '\0') {
        const size_t n = s2_utf8_len(text, strlen(text));
        const uint32_t glyph = s2_utf8_decode(text, n);
        const int32_t columns = s2_codepoint_width(glyph);
        const uint8_t *const bits = s2_font_bits(columns > 0 ? glyph : ' ');
        for (int row = 0; row < S2_FONT_ROWS; row++)
            for (int col = 0; col < S2_FONT_COLS; col++)
                if (bits[row] >> (S2_FONT_COLS - 1 - col) & 1)
                    fill(to, x + col * SCALE, y + row * SCALE, SCALE, SCALE, s2_ink);
        x += columns * ADVANCE * SCALE;
        text += n;
    }
}

void s2_surface_words(s2_surface *to, int32_t x, int32_t y, s2_anchor anchor, const char *text)
{
    char clean[1024];
    s2_text_clean(clean, sizeof clean, text);
    if (to->pixels == NULL) {
        svg_words(to, x, y, anchor, clean);
        return;
    }
    const int32_t width = s2_surface_words_width(to, clean);
    dot_words(to,
              anchor == S2_ANCHOR_BEGIN ? x
              : anchor == S2_ANCHOR_END ? x - width
                                        : x - width / 2,
              y, clean);
}
