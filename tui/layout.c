#include "tui/layout.h"

enum {
    TINY_ROWS = 5,
    TINY_COLS = 20,
    FOOTER_FROM_ROWS = 6,
    KNOBS_WIDE = 29,
    KNOBS_NARROW = 20,
    ROWS_KNOBS = 13,
    ROWS_VERDICTS = 3,
    MASK_LEAST = 14
};

static int32_t min32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

s2_layout s2_layout_frame(int32_t rows, int32_t cols)
{
    if (rows < TINY_ROWS || cols < TINY_COLS)
        return (s2_layout){.title = {0, 0, 1, cols}, .tiny = true};
    const int32_t footer = rows >= FOOTER_FROM_ROWS;
    return (s2_layout){.title = {0, 0, 1, cols},
                       .body = {1, 0, rows - 1 - footer, cols},
                       .footer = {rows - footer, 0, footer, cols}};
}

static void place_left(s2_rect left, s2_layout_bench *out)
{
    const int32_t verdicts = min32(ROWS_VERDICTS, left.rows - 1);
    const int32_t knobs = min32(ROWS_KNOBS, left.rows - verdicts);
    const int32_t gap = left.rows - knobs - verdicts >= 6;
    const int32_t rest = left.rows - knobs - verdicts - gap;
    out->knobs = (s2_rect){left.row, left.col, knobs, left.cols};
    out->verdicts = (s2_rect){left.row + knobs + gap, left.col, verdicts, left.cols};
    out->cost = (s2_rect){left.row + knobs + gap + verdicts, left.col, rest, left.cols};
}

static void place_right(s2_rect right, s2_layout_bench *out)
{
    const int32_t kv = right.rows >= 18 ? 4 : 0;
    const int32_t readers = right.rows >= 20 ? min32(17, right.rows * 3 / 10) : 0;
    const int32_t masks = right.rows - kv - readers;
    const bool both = right.cols >= 2 * MASK_LEAST + 1;
    const int32_t width = both ? (right.cols - 1) / 2 : right.cols;
    out->union_mask = (s2_rect){right.row, right.col, masks, width};
    if (both)
        out->head_mask = (s2_rect){right.row, right.col + width + 1, masks, width};
    out->readers = (s2_rect){right.row + masks, right.col, readers, right.cols};
    out->kv = (s2_rect){right.row + masks + readers, right.col, kv, right.cols};
}

s2_layout_bench s2_layout_bench_in(s2_rect body)
{
    s2_layout_bench out = {0};
    const int32_t width = body.cols >= 64                          ? KNOBS_WIDE
                          : body.cols >= KNOBS_NARROW + MASK_LEAST ? KNOBS_NARROW
                                                                   : body.cols;
    if (body.rows < 2)
        return out;
    place_left((s2_rect){body.row, body.col, body.rows, width}, &out);
    if (width < body.cols)
        place_right((s2_rect){body.row, body.col + width + 1, body.rows, body.cols - width - 1}, &out);
    return out;
}

s2_layout_list s2_layout_list_in(s2_rect body)
{
    const int32_t preview = body.rows >= 16 && body.cols >= 60 ? body.rows / 2 : 0;
    return (s2_layout_list){.list = {body.row, body.col, body.rows - preview, body.cols},
                            .preview = {body.row + body.rows - preview, body.col, preview, body.cols}};
}
