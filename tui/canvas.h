/*
 * tui/canvas.h - a screen as data: cells of one character and one meaning.
 *
 * Views draw on a canvas; tui/terminal_ncurses.c shows one, tests and `s2 tui --dump` print one. A cell
 * carries a meaning (S2_STYLE_HOLE), never a colour; colours are chosen in one place (tui/looks.h).
 * Glyphs have ASCII twins, chosen when they are put, so a canvas holds what the terminal can show.
 *
 * Everything put outside the canvas or the clip is dropped. Text that is cut ends in an ellipsis ('~' in
 * ASCII) at the edge; a mark in the last corner of the clip says that there was no room for lines below it.
 * Text is cleaned (base/text.h) on its way in, so a cell cannot hold anything that a terminal would obey.
 *
 * Ownership: the canvas owns its cells; release it. Threads: one canvas, one thread.
 */
#ifndef S2_TUI_CANVAS_H
#define S2_TUI_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

/* name, letter in dumps, what it marks */
#define S2_STYLE_TABLE(X)                                                                                    \
    X(TEXT, '.', "plain text")                                                                               \
    X(DIM, 'd', "labels and hints")                                                                          \
    X(BAR, 'b', "title and key bars")                                                                        \
    X(HEAD, 'h', "headings")                                                                                 \
    X(CURSOR, 'c', "the line or field that keys act on")                                                     \
    X(GOOD, 'g', "holds")                                                                                    \
    X(BAD, 'x', "violated, refused")                                                                         \
    X(UNSURE, 'u', "unknown")                                                                                \
    X(HOLE, 'o', "keys that no head reads")                                                                  \
    X(WITNESS, 'w', "the smallest counterexample")                                                           \
    X(HEAT0, '0', "nothing read")                                                                            \
    X(HEAT1, '1', "up to a quarter read")                                                                    \
    X(HEAT2, '2', "up to half")                                                                              \
    X(HEAT3, '3', "up to three quarters")                                                                    \
    X(HEAT4, '4', "more")                                                                                    \
    X(HEAT5, '5', "all of it")                                                                               \
    X(KEY, 'k', "a key that can be pressed")

typedef enum s2_style {
#define S2_STYLE_ENUM(name, letter, text) S2_STYLE_##name,
    S2_STYLE_TABLE(S2_STYLE_ENUM)
#undef S2_STYLE_ENUM
        S2_N_STYLES
} s2_style;

typedef struct s2_rect {
    int32_t row;
    int32_t col;
    int32_t rows;
    int32_t cols;
} s2_rect;

static inline bool s2_rect_holds(s2_rect area, int32_t row, int32_t col)
{
    return row >= area.row && row < area.row + area.rows && col >= area.col && col < area.col + area.cols;
}

typedef struct s2_cell {
    uint32_t glyph; /* code point; 0: the right half of a wide character */
    uint8_t style;  /* s2_style */
    bool text;      /* put as text, and not filled over since */
} s2_cell;

/* Larger screens are drawn as if they had this size. */
enum { S2_CANVAS_LIMIT_ROWS = 500, S2_CANVAS_LIMIT_COLS = 1000 };
/* "80x24"; false for anything else, and beyond the limits. */
bool s2_canvas_size_parse(const char *text, int32_t *cols, int32_t *rows);

typedef struct s2_canvas {
    int32_t rows;
    int32_t cols;
    bool ascii;     /* the terminal shows ASCII only */
    s2_rect clip;   /* the part that can be written to */
    s2_cell *cells; /* [row * cols + col] */
    /* since the last clear: characters put over those of a text, and texts put where nothing of them can be
       seen, not even a mark; tests check that no view does either */
    int32_t n_overlaps;
    int32_t n_lost;
    /* S2_ENOMEM: memory ran out for something that belongs on it; s2_session_draw sets it */
    s2_status status;
} s2_canvas;

/* Blank, rows and cols at least 1. S2_EINVAL beyond the limits; S2_ENOMEM. */
s2_status s2_canvas_init(s2_canvas *canvas, int32_t rows, int32_t cols, bool ascii) S2_MUST_CHECK;
void s2_canvas_release(s2_canvas *canvas);
void s2_canvas_clear(s2_canvas *canvas);

/* From now on only what is inside `rect` (cut to the canvas) is written. */
void s2_canvas_clip(s2_canvas *canvas, s2_rect rect);

/* One character; `twin` instead if the terminal shows ASCII only. */
void s2_canvas_glyph(s2_canvas *canvas, int32_t row, int32_t col, uint32_t glyph, char twin, s2_style style);
/* Text from `col` on; a mark at the edge says that it was cut. Returns the column after the uncut text. */
int32_t s2_canvas_text(s2_canvas *canvas, int32_t row, int32_t col, s2_style style, const char *text);
int32_t s2_canvas_printf(s2_canvas *canvas, int32_t row, int32_t col, s2_style style, const char *fmt, ...)
    S2_PRINTF(5, 6);
/* Mark in the last corner of the clip that there is no room for the lines below. */
void s2_canvas_more(s2_canvas *canvas);
/* Fill a rectangle with blanks of a style. */
void s2_canvas_fill(s2_canvas *canvas, s2_rect rect, s2_style style);
/* Give what is there another style. */
void s2_canvas_restyle(s2_canvas *canvas, s2_rect rect, s2_style style);

/* A code point as UTF-8, terminated. */
void s2_glyph_encode(uint32_t glyph, char bytes[5]);

/*
 * The glyphs as text, with a '|' after the last column of each row so that trailing blanks count; with
 * `styles`, the letters of the styles follow in the same form. Check buf->status.
 */
void s2_canvas_dump(const s2_canvas *canvas, bool styles, s2_buf *buf);

#endif /* S2_TUI_CANVAS_H */
