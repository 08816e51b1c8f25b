/*
 * Folding text that is longer than its line, and marking what has no room.
 */
#include "tui/view.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"

/* Bytes of a line that fit in `width` columns, broken at a blank if there is one in the second half. */
static size_t fold(const char *text, int32_t width)
{
    size_t byte = 0, blank = 0;
    int32_t col = 0;
    for (const size_t n = strlen(text); byte < n;) {
        const size_t len = s2_utf8_len(text + byte, n - byte);
        col += len > 0 ? s2_codepoint_width(s2_utf8_decode(text + byte, len)) : 1;
        if (col > width)
            return blank > byte / 2 ? blank : byte;
        byte += len > 0 ? len : 1;
        if (text[byte] == ' ')
            blank = byte;
    }
    return byte;
}

int32_t s2_fold_draw(const char *text, s2_style style, s2_canvas *canvas, s2_rect area, int32_t row)
{
    enum { INDENT = 4, LINE = 1024 };
    char clean[LINE], part[LINE];
    int32_t rows = 0;
    s2_text_clean(clean, sizeof clean, text);
    for (const char *rest = clean; rows == 0 || *rest != '\0'; rows++) {
        const int32_t indent = rows > 0 ? INDENT : 0, width = area.cols - indent;
        const size_t n = fold(rest, s2_max_i32(width, 8));
        snprintf(part, sizeof part, "%.*s", (int)n, rest);
        if (canvas != NULL)
            s2_canvas_text(canvas, row + rows, area.col + indent, style, part);
        rest += n;
        rest += strspn(rest, " ");
        if (rows > area.rows)
            break;
    }
    return rows;
}

void s2_more_draw(s2_canvas *canvas, s2_rect area)
{
    s2_canvas_clip(canvas, area);
    s2_canvas_more(canvas);
}
