/*
 * Boxes over a view.
 */
#include "tui/view.h"

static void draw_border(s2_canvas *canvas, s2_rect area)
{
    const int32_t bottom = area.row + area.rows - 1, right = area.col + area.cols - 1;
    for (int32_t col = area.col + 1; col < right; col++) {
        s2_canvas_glyph(canvas, area.row, col, 0x2500, '-', S2_STYLE_KEY);
        s2_canvas_glyph(canvas, bottom, col, 0x2500, '-', S2_STYLE_KEY);
    }
    for (int32_t row = area.row + 1; row < bottom; row++) {
        s2_canvas_glyph(canvas, row, area.col, 0x2502, '|', S2_STYLE_KEY);
        s2_canvas_glyph(canvas, row, right, 0x2502, '|', S2_STYLE_KEY);
    }
    s2_canvas_glyph(canvas, area.row, area.col, 0x250c, '+', S2_STYLE_KEY);
    s2_canvas_glyph(canvas, area.row, right, 0x2510, '+', S2_STYLE_KEY);
    s2_canvas_glyph(canvas, bottom, area.col, 0x2514, '+', S2_STYLE_KEY);
    s2_canvas_glyph(canvas, bottom, right, 0x2518, '+', S2_STYLE_KEY);
}

static bool is_bordered(s2_rect area)
{
    return area.cols >= 20 && area.rows >= (area.cols >= 40 ? 3 : 5);
}

s2_rect s2_popup_inside(s2_rect area)
{
    const bool bordered = is_bordered(area);
    return (s2_rect){area.row + 1, area.col + bordered, area.rows - 1 - bordered, area.cols - 2 * bordered};
}

s2_rect s2_popup_draw(s2_canvas *canvas, s2_rect area, const char *title)
{
    const bool bordered = is_bordered(area);
    const s2_rect head = {area.row, area.col + 2 * bordered, 1, area.cols - 4 * bordered};
    s2_canvas_clip(canvas, area);
    s2_canvas_fill(canvas, area, S2_STYLE_TEXT);
    if (bordered)
        draw_border(canvas, area);
    s2_canvas_clip(canvas, head);
    s2_canvas_printf(canvas, head.row, head.col, S2_STYLE_CURSOR, " %s ", title);
    const s2_rect inside = s2_popup_inside(area);
    s2_canvas_clip(canvas, inside);
    return inside;
}
