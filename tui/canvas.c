#include "tui/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arith.h"

enum { LINE_BYTES = 1024 };

bool s2_canvas_size_parse(const char *text, int32_t *cols, int32_t *rows)
{
    char rest;
    return sscanf(text, "%dx%d%c", cols, rows, &rest) == 2 && *cols >= 1 && *rows >= 1 &&
           *cols <= S2_CANVAS_LIMIT_COLS && *rows <= S2_CANVAS_LIMIT_ROWS;
}

s2_status s2_canvas_init(s2_canvas *canvas, int32_t rows, int32_t cols, bool ascii)
{
    if (rows < 1 || cols < 1 || rows > S2_CANVAS_LIMIT_ROWS || cols > S2_CANVAS_LIMIT_COLS)
        return S2_EINVAL;
    s2_cell *const cells = s2_calloc((size_t)rows * (size_t)cols, sizeof *cells);
    if (cells == NULL)
        return S2_ENOMEM;
    *canvas = (s2_canvas){rows, cols, ascii, {0, 0, rows, cols}, cells, 0, 0, S2_OK};
    s2_canvas_clear(canvas);
    return S2_OK;
}

void s2_canvas_release(s2_canvas *canvas)
{
    s2_free(canvas->cells);
    *canvas = (s2_canvas){0};
}

void s2_canvas_clear(s2_canvas *canvas)
{
    s2_canvas_clip(canvas, (s2_rect){0, 0, canvas->rows, canvas->cols});
    s2_canvas_fill(canvas, canvas->clip, S2_STYLE_TEXT);
    canvas->n_overlaps = canvas->n_lost = 0;
}

/* The part of b inside a. */
static s2_rect cut(s2_rect a, s2_rect b)
{
    const int32_t row = s2_clamp_i32(b.row, a.row, a.row + a.rows),
                  col = s2_clamp_i32(b.col, a.col, a.col + a.cols);
    const int32_t row_end = s2_clamp_i32(b.row + b.rows, row, a.row + a.rows);
    const int32_t col_end = s2_clamp_i32(b.col + b.cols, col, a.col + a.cols);
    return (s2_rect){row, col, row_end - row, col_end - col};
}

void s2_canvas_clip(s2_canvas *canvas, s2_rect rect)
{
    canvas->clip = cut((s2_rect){0, 0, canvas->rows, canvas->cols}, rect);
}

static bool inside(const s2_canvas *canvas, int32_t row, int32_t col)
{
    const s2_rect *const clip = &canvas->clip;
    return row >= clip->row && row < clip->row + clip->rows && col >= clip->col &&
           col < clip->col + clip->cols;
}

static void put(s2_canvas *canvas, int32_t row, int32_t col, uint32_t glyph, s2_style style, bool text)
{
    if (!inside(canvas, row, col))
        return;
    s2_cell *const cell = &canvas->cells[row * canvas->cols + col];
    /* half a wide character, left when the other half is written over, would shift the rest of the line */
    if (cell->glyph == 0 && col > 0)
        cell[-1].glyph = ' ';
    if (col + 1 < canvas->cols && cell[1].glyph == 0 && glyph != 0)
        cell[1].glyph = ' ';
    canvas->n_overlaps += cell->text && cell->glyph != ' ';
    *cell = (s2_cell){glyph, (uint8_t)style, text};
}

void s2_canvas_glyph(s2_canvas *canvas, int32_t row, int32_t col, uint32_t glyph, char twin, s2_style style)
{
    put(canvas, row, col, canvas->ascii ? (unsigned char)twin : glyph, style, false);
}

/* Returns the columns taken. Combining marks are dropped: whether their base was cut is not known. */
static int32_t put_char(s2_canvas *canvas, int32_t row, int32_t col, uint32_t glyph, s2_style style)
{
    const int32_t width = s2_codepoint_width(glyph);
    if (canvas->ascii && glyph > 126)
        glyph = '?';
    if (width == 2 && !canvas->ascii && inside(canvas, row, col) && inside(canvas, row, col + 1)) {
        put(canvas, row, col, glyph, style, true);
        put(canvas, row, col + 1, ' ', style, true);
        canvas->cells[row * canvas->cols + col + 1].glyph = 0;
    } else {
        for (int32_t half = 0; half < width; half++)
            put(canvas, row, col + half, width == 2 ? '?' : glyph, style, true);
    }
    return width;
}

/* Part of the text is beyond an edge: the last column before it says so. */
static void mark_cut(s2_canvas *canvas, int32_t row, bool right, s2_style style)
{
    const s2_rect *const clip = &canvas->clip;
    const int32_t col = right ? clip->col + clip->cols - 1 : clip->col;
    if (clip->cols < 1 || !inside(canvas, row, col))
        return;
    s2_cell *const cell = &canvas->cells[row * canvas->cols + col];
    cell->text = false;
    put(canvas, row, col, canvas->ascii ? '~' : 0x2026, style, true);
    cell->text = false; /* what follows the text is beyond the edge as well, and marks it again */
}

void s2_canvas_more(s2_canvas *canvas)
{
    const int32_t row = canvas->clip.row + canvas->clip.rows - 1;
    const int32_t col = canvas->clip.col + canvas->clip.cols - 1;
    if (!inside(canvas, row, col))
        return;
    canvas->cells[row * canvas->cols + col].text = false;
    s2_canvas_glyph(canvas, row, col, 0x25be, 'v', S2_STYLE_KEY);
}

/* For a text that is on no line of the clip: below its columns a mark says so, elsewhere nothing would. */
static void mark_outside(s2_canvas *canvas, int32_t row, int32_t begin, int32_t end)
{
    const s2_rect *const clip = &canvas->clip;
    const bool above = row < clip->row, below = row >= clip->row + clip->rows;
    const bool beside = end <= clip->col || begin >= clip->col + clip->cols;
    if (clip->rows < 1 || clip->cols < 1 || !(above || below))
        return;
    if (below && !beside)
        s2_canvas_more(canvas);
    else if (row >= 0 && row < canvas->rows)
        canvas->n_lost++;
}

int32_t s2_canvas_text(s2_canvas *canvas, int32_t row, int32_t col, s2_style style, const char *text)
{
    char clean[LINE_BYTES];
    s2_text_clean(clean, sizeof clean, text != NULL ? text : "");
    const size_t n = strlen(clean);
    const int32_t begin = canvas->clip.col, end = begin + canvas->clip.cols, first = col;
    bool cut_left = false, cut_right = false;
    for (size_t byte = 0; byte < n;) {
        const size_t len = s2_utf8_len(clean + byte, n - byte);
        const int32_t from = col;
        col += put_char(canvas, row, col, len > 0 ? s2_utf8_decode(clean + byte, len) : '?', style);
        cut_left = cut_left || (clean[byte] != ' ' && from < begin);
        cut_right = cut_right || (clean[byte] != ' ' && col > end);
        byte += len > 0 ? len : 1;
    }
    if (clean[strspn(clean, " ")] != '\0')
        mark_outside(canvas, row, first, col);
    if (cut_left)
        mark_cut(canvas, row, false, style);
    if (cut_right)
        mark_cut(canvas, row, true, style);
    return col;
}

int32_t s2_canvas_printf(s2_canvas *canvas, int32_t row, int32_t col, s2_style style, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    return s2_canvas_text(canvas, row, col, style, line);
}

static void paint(s2_canvas *canvas, s2_rect rect, s2_style style, bool blank)
{
    const s2_rect area = cut(canvas->clip, rect);
    for (int32_t row = area.row; row < area.row + area.rows; row++)
        for (int32_t col = area.col; col < area.col + area.cols; col++) {
            s2_cell *const cell = &canvas->cells[row * canvas->cols + col];
            *cell = blank ? (s2_cell){.glyph = ' '} : *cell;
            cell->style = (uint8_t)style;
        }
}

void s2_canvas_fill(s2_canvas *canvas, s2_rect rect, s2_style style)
{
    paint(canvas, rect, style, true);
}

void s2_canvas_restyle(s2_canvas *canvas, s2_rect rect, s2_style style)
{
    paint(canvas, rect, style, false);
}

void s2_glyph_encode(uint32_t glyph, char bytes[5])
{
    size_t n = 0;
    if (glyph < 0x80) {
        bytes[n++] = (char)glyph;
    } else {
        const int tail = glyph < 0x800 ? 1 : glyph < 0x10000 ? 2 : 3;
        static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
        bytes[n++] = (char)(lead[tail] | (glyph >> (6 * tail)));
        for (int shift = 6 * (tail - 1); shift >= 0; shift -= 6)
            bytes[n++] = (char)(0x80 | ((glyph >> shift) & 0x3f));
    }
    bytes[n] = '\0';
}

static void add_glyph(uint32_t glyph, s2_buf *buf)
{
    char bytes[5];
    s2_glyph_encode(glyph, bytes);
    s2_buf_add(buf, bytes, strlen(bytes));
}

static char style_letter(int style)
{
    static const char letters[] = {
#define LETTER(name, letter, text) letter,
        S2_STYLE_TABLE(LETTER)
#undef LETTER
    };
    return letters[style];
}

void s2_canvas_dump(const s2_canvas *canvas, bool styles, s2_buf *buf)
{
    for (int layer = 0; layer <= (int)styles; layer++)
        for (int32_t row = 0; row < canvas->rows; row++) {
            for (int32_t col = 0; col < canvas->cols; col++) {
                const s2_cell cell = canvas->cells[row * canvas->cols + col];
                if (layer == 1)
                    add_glyph((unsigned char)style_letter(cell.style), buf);
                else if (cell.glyph != 0)
                    add_glyph(cell.glyph, buf);
            }
            s2_buf_puts(buf, "|\n");
        }
}
