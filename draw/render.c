/*
 * Grids to ANSI, SVG and PNG. SVG and PNG come from one list of boxes and words (draw_picture), so they show
 * the same.
 */
#include "draw/picture.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "draw/place.h"

static const s2_rgb hole_colour = {213, 94, 0};

/* Five stops of a ramp from dark blue to yellow whose lightness only rises (after cividis). */
static s2_rgb ramp(double share)
{
    static const s2_rgb stops[5] = {
        {0, 32, 76}, {64, 77, 107}, {124, 123, 120}, {188, 175, 111}, {255, 234, 70}};
    const double scaled = s2_clamp_f64(share, 0, 1) * 4;
    const int below = scaled >= 4 ? 3 : (int)scaled;
    const double part = scaled - below;
    const s2_rgb a = stops[below], b = stops[below + 1];
    return (s2_rgb){(uint8_t)(a.r + (b.r - a.r) * part), (uint8_t)(a.g + (b.g - a.g) * part),
                    (uint8_t)(a.b + (b.b - a.b) * part)};
}

static s2_rgb cell_colour(const s2_picture_cell *cell)
{
    return cell->hole         ? hole_colour
           : cell->future     ? s2_paper
           : cell->share <= 0 ? s2_pale
                              : ramp(cell->share);
}

/* ---- text */

static const s2_picture_cell *cell_at(const s2_picture *picture, int32_t row, int32_t col)
{
    return &picture->cells[(int64_t)row * picture->n_cols + col];
}

static char cell_glyph(const s2_picture_cell *cell)
{
    static const char shades[] = ".:-=+*#%@";
    if (cell->hole)
        return 'X';
    if (cell->future)
        return ' ';
    return cell->share <= 0 ? '.' : shades[1 + (int)(s2_min_f32(cell->share, 1) * 7.001)];
}

static void ansi_pair(const s2_picture *picture, int32_t row, int32_t col, s2_buf *buf)
{
    const s2_picture_cell *const upper = cell_at(picture, row, col);
    const s2_picture_cell *const lower = row + 1 < picture->n_rows ? cell_at(picture, row + 1, col) : NULL;
    const s2_rgb a = cell_colour(upper), b = lower != NULL ? cell_colour(lower) : s2_paper;
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
                 picture->n_holes == 0 ? "every pair is read by some head"
                 : picture->is_least   ? "X: pairs that no head is certain to read"
                                       : "X: pairs that no head reads");
}

void s2_picture_ansi(const s2_picture *picture, bool ascii, s2_buf *buf)
{
    char holes[64], title[2 * S2_TITLE_BYTES];
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

/* ---- SVG and PNG ------------------------------------------------------------------------------------- */

/* A hole is crossed out, so that it shows without colour. */
static void cross(s2_surface *to, int32_t x, int32_t y, int32_t w, int32_t h)
{
    if (w < 5 || h < 5)
        return;
    s2_surface_line(to, x, y, x + w - 1, y + h - 1, 1, 0, s2_ink);
    s2_surface_line(to, x + w - 1, y, x, y + h - 1, 1, 0, s2_ink);
}

enum { LEFT = 100, TOP = 34, BOTTOM = 100, RIGHT = 24, SIDE = 640, LEAST_WIDTH = 600, TICKS = 4 };

/* A picture on its page. */
typedef struct drawing {
    const s2_picture *picture;
    s2_surface to;
    s2_place place;
    int32_t left, top; /* of the cells */
    int32_t w, h;      /* of a cell */
    int32_t width;     /* of what is beside the left edge of the cells */
} drawing;

static int32_t cell_width(const s2_picture *picture)
{
    return s2_max_i32(SIDE / picture->n_cols, 1);
}

static int32_t cell_height(const s2_picture *picture)
{
    const int32_t width = cell_width(picture);
    return picture->row_tok > 0 ? width : s2_max_i32(width, 20);
}

/* Labels at both ends are within the cells, those between them at their places. */
static void draw_x_ticks(drawing *sheet)
{
    static const s2_anchor anchors[TICKS + 1] = {
        [0] = S2_ANCHOR_BEGIN, S2_ANCHOR_MIDDLE, S2_ANCHOR_MIDDLE, S2_ANCHOR_MIDDLE, S2_ANCHOR_END};
    static const int order[TICKS + 1] = {0, TICKS, 2, 1, 3};
    const s2_picture *const picture = sheet->picture;
    const int32_t bottom = sheet->top + picture->n_rows * sheet->h;
    char text[64];
    for (int n = 0; n <= TICKS; n++) {
        const int32_t col = picture->n_cols * order[n] / TICKS;
        snprintf(text, sizeof text, "%lld", (long long)s2_min_i64(col * picture->col_tok, picture->n_tok));
        s2_surface_box(&sheet->to, sheet->left + col * sheet->w, bottom, 1, 5, s2_ink);
        (void)!s2_place_words(&sheet->place, sheet->left + col * sheet->w, bottom + 8, anchors[order[n]],
                              text);
    }
}

static void draw_y_ticks(drawing *sheet)
{
    static const int32_t up[TICKS + 1] = {0, 7, 7, 7, 14};
    static const int order[TICKS + 1] = {0, TICKS, 2, 1, 3};
    const s2_picture *const picture = sheet->picture;
    char text[64];
    for (int n = 0; n <= TICKS; n++) {
        const int32_t row = picture->n_rows * order[n] / TICKS, y = sheet->top + row * sheet->h;
        snprintf(text, sizeof text, "%lld", (long long)s2_min_i64(row * picture->row_tok, picture->n_tok));
        s2_surface_box(&sheet->to, sheet->left - 5, y, 5, 1, s2_ink);
        (void)!s2_place_words(&sheet->place, sheet->left - 8, y - up[order[n]], S2_ANCHOR_END, text);
    }
}

static void draw_axes(drawing *sheet)
{
    const s2_picture *const picture = sheet->picture;
    char text[160];
    draw_x_ticks(sheet);
    if (picture->row_tok > 0)
        draw_y_ticks(sheet);
    for (int32_t row = 0; picture->row_tok == 0 && row < picture->n_rows; row++) {
        snprintf(text, sizeof text, row + 1 < picture->n_rows ? "KV %d" : "all", row);
        (void)!s2_place_words(&sheet->place, sheet->left - 8,
                              sheet->top + row * sheet->h + (sheet->h - 14) / 2, S2_ANCHOR_END, text);
    }
    snprintf(text, sizeof text, "right: %s; down: %s", picture->x_label,
             picture->row_tok > 0 ? picture->y_label : "KV heads, then all");
    s2_place_lines(&sheet->place, sheet->left, sheet->top + picture->n_rows * sheet->h + 28, S2_ANCHOR_BEGIN,
                   sheet->width, text);
}

static void draw_legend(drawing *sheet)
{
    enum { RAMP = 40, STEP = 3 };
    const s2_picture *const picture = sheet->picture;
    const bool of_heads = picture->is_union && picture->row_tok > 0;
    const int32_t y = sheet->top + picture->n_rows * sheet->h + 54;
    int32_t x = sheet->left;
    s2_surface_box(&sheet->to, x, y, 14, 14, s2_pale);
    (void)!s2_place_words(&sheet->place, x + 20, y, S2_ANCHOR_BEGIN, "unread");
    x += 30 + s2_surface_words_width(&sheet->to, "unread");
    for (int step = 0; step < RAMP; step++)
        s2_surface_box(&sheet->to, x + step * STEP, y, STEP, 14, ramp(step / (RAMP - 1.0)));
    (void)!s2_place_words(&sheet->place, x + RAMP * STEP + 8, y, S2_ANCHOR_BEGIN,
                          of_heads ? "share of heads that read: 0 to 1" : "share of pairs read: 0 to 1");
    if (!picture->is_union)
        return;
    s2_surface_box(&sheet->to, sheet->left, y + 22, 14, 14, hole_colour);
    cross(&sheet->to, sheet->left, y + 22, 14, 14);
    (void)!s2_place_words(&sheet->place, sheet->left + 20, y + 22, S2_ANCHOR_BEGIN,
                          picture->n_holes == 0 ? "hole: none here"
                          : picture->is_least   ? "hole: no head is certain to read some pair here"
                                                : "hole: some pair here is read by no head");
}

/* Adjacent cells of one colour are one box, except holes, each of which has its own cross. */
static void draw_row(drawing *sheet, int32_t row)
{
    const s2_picture *const picture = sheet->picture;
    const int32_t w = sheet->w, h = sheet->h, y = sheet->top + row * h;
    for (int32_t col = 0; col < picture->n_cols;) {
        const s2_picture_cell *const cell = cell_at(picture, row, col);
        const s2_rgb colour = cell_colour(cell);
        int32_t end = col + 1;
        while (end < picture->n_cols && !cell->hole && !cell_at(picture, row, end)->hole) {
            const s2_rgb next = cell_colour(cell_at(picture, row, end));
            if (memcmp(&next, &colour, sizeof next) != 0)
                break;
            end++;
        }
        if (!cell->future || cell->hole)
            s2_surface_box(&sheet->to, sheet->left + col * w, y, (end - col) * w, h, colour);
        if (cell->hole)
            cross(&sheet->to, sheet->left + col * w, y, w, h);
        col = end;
    }
}

/* The labels of the last row's tokens have room. */
static int32_t left_of(const s2_picture *picture, int32_t advance)
{
    char text[64];
    const int n = snprintf(text, sizeof text, "%lld", (long long)(picture->n_rows * picture->row_tok));
    return s2_max_i32(n * advance + 16, LEFT);
}

static s2_status draw_picture(const s2_picture *picture, bool png, s2_buf *buf)
{
    const int32_t advance = s2_surface_advance(png);
    drawing sheet = {.picture = picture,
                     .left = left_of(picture, advance),
                     .w = cell_width(picture),
                     .h = cell_height(picture)};
    sheet.width = s2_max_i32(picture->n_cols * sheet.w, LEAST_WIDTH);
    sheet.top = TOP + (s2_place_count(advance, sheet.width, picture->title) - 1) * S2_PLACE_LINE;
    S2_TRY(s2_surface_open(&sheet.to, png, sheet.left + sheet.width + RIGHT,
                           sheet.top + picture->n_rows * sheet.h + BOTTOM, buf));
    sheet.place.to = &sheet.to;
    s2_place_lines(&sheet.place, sheet.left, 10, S2_ANCHOR_BEGIN, sheet.width, picture->title);
    for (int32_t row = 0; row < picture->n_rows; row++)
        draw_row(&sheet, row);
    draw_axes(&sheet);
    draw_legend(&sheet);
    return s2_surface_close(&sheet.to);
}

s2_status s2_picture_svg(const s2_picture *picture, s2_buf *buf)
{
    return draw_picture(picture, false, buf);
}

s2_status s2_picture_png(const s2_picture *picture, s2_buf *buf)
{
    return draw_picture(picture, true, buf);
}
