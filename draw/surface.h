/*
 * draw/surface.h - what pictures are drawn on: boxes, lines, marks and words, as SVG text or PNG pixels.
 *
 * The same calls draw both, so both show the same. Coordinates are pixels from the upper left corner.
 * Text is set in the reader's own font in SVG and in a font of dots (draw/font.c) in PNG.
 *
 * Ownership: the surface owns its pixels until s2_surface_close. Threads: one surface, one thread.
 */
#ifndef S2_DRAW_SURFACE_H
#define S2_DRAW_SURFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum { S2_FONT_ROWS = 7, S2_FONT_COLS = 5 };
/* The rows of a character's dots; of one that the font lacks, a box. */
const uint8_t *s2_font_bits(uint32_t glyph);

typedef struct s2_rgb {
    uint8_t r, g, b;
} s2_rgb;

/* Colours that people with any colour vision can tell apart on white (Okabe and Ito), ink first. */
enum { S2_N_COLOURS = 7 };
extern const s2_rgb s2_colours[S2_N_COLOURS];
extern const s2_rgb s2_paper, s2_ink, s2_pale;

typedef struct s2_surface {
    int32_t width, height;
    int32_t advance; /* pixels that a letter takes, at most */
    uint8_t *pixels; /* NULL: SVG */
    s2_buf *buf;
} s2_surface;

typedef enum s2_anchor { S2_ANCHOR_BEGIN, S2_ANCHOR_MIDDLE, S2_ANCHOR_END } s2_anchor;
typedef enum s2_mark_shape {
    S2_SHAPE_DISC,
    S2_SHAPE_SQUARE,
    S2_SHAPE_DIAMOND,
    S2_SHAPE_TRIANGLE
} s2_mark_shape;

/* The `advance` of a surface that is not open yet. */
int32_t s2_surface_advance(bool png);
/* White paper. S2_ENOMEM. */
s2_status s2_surface_open(s2_surface *to, bool png, int32_t width, int32_t height, s2_buf *buf) S2_MUST_CHECK;
/* End the SVG, or append the PNG; the surface is released on every outcome. S2_ENOMEM, S2_EIO (libpng). */
s2_status s2_surface_close(s2_surface *to) S2_MUST_CHECK;

/* A filled rectangle. */
void s2_surface_box(s2_surface *to, int32_t x, int32_t y, int32_t w, int32_t h, s2_rgb colour);
/* dash: pixels alternately drawn and left out; 0: a solid line. */
void s2_surface_line(s2_surface *to, double x0, double y0, double x1, double y1, int32_t width, int32_t dash,
                     s2_rgb colour);
/* One curve through n points, which `point` gives, so that dashes run on from piece to piece. */
typedef void (*s2_surface_point)(const void *user, int32_t nth, double *x, double *y);
void s2_surface_curve(s2_surface *to, int32_t n, s2_surface_point point, const void *user, int32_t width,
                      int32_t dash, s2_rgb colour);
/* A filled shape of about `size` pixels across. */
void s2_surface_mark(s2_surface *to, double x, double y, int32_t size, s2_mark_shape shape, s2_rgb colour);
/* y is the top of the letters. */
void s2_surface_words(s2_surface *to, int32_t x, int32_t y, s2_anchor anchor, const char *text);
/* The width of a text in pixels, at most. */
int32_t s2_surface_words_width(const s2_surface *to, const char *text);

#endif /* S2_DRAW_SURFACE_H */
