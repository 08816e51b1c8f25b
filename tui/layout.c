#include "tui/layout.h"

#include "base/arith.h"

enum {
    TINY_ROWS = 5,
    TINY_COLS = 20,
    FOOTER_FROM_ROWS = 6,
    KNOBS_WIDE = 29,
    KNOBS_MIDDLE = 26,
    KNOBS_NARROW = 20,
    ROWS_KNOBS = 12,
    ALL_KNOBS = 17,
    ROWS_ALL_KNOBS = 30,
    ROWS_VERDICTS = 3,
    ROWS_PRICE = 4,
    MASK_LEAST = 14
};

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
    const int32_t verdicts = s2_min_i32(ROWS_VERDICTS, left.rows - 1);
    /* knobs can be scrolled, a price cannot; it begins with what it is of */
    const int32_t price = left.rows >= 14 ? ROWS_PRICE : left.rows >= 10 ? 2 : 0;
    const int32_t all = left.rows < ROWS_ALL_KNOBS ? ROWS_KNOBS : ALL_KNOBS;
    const int32_t knobs = s2_min_i32(all, left.rows - verdicts - price);
    const int32_t gap = left.rows - knobs - verdicts >= 6;
    const int32_t rest = left.rows - knobs - verdicts - gap;
    out->knobs = (s2_rect){left.row, left.col, knobs, left.cols};
    out->verdicts = (s2_rect){left.row + knobs + gap, left.col, verdicts, left.cols};
    out->cost = (s2_rect){left.row + knobs + gap + verdicts, left.col, rest, left.cols};
}

void s2_layout_masks(s2_rect area, s2_rect *left, s2_rect *right)
{
    const bool both = area.cols >= 2 * MASK_LEAST + 1;
    const int32_t width = both ? (area.cols - 1 + S2_MASK_GUTTER) / 2 : area.cols;
    *left = (s2_rect){area.row, area.col, area.rows, width};
    *right =
        both ? (s2_rect){area.row, area.col + width + 1, area.rows, area.cols - width - 1} : (s2_rect){0};
}

s2_rect s2_layout_cells(s2_rect mask, bool heading, bool queries)
{
    const int32_t gutter = queries && mask.cols >= MASK_LEAST ? S2_MASK_GUTTER : 0;
    const int32_t rows = mask.rows - heading, below = rows >= 4 && mask.cols >= MASK_LEAST / 2;
    return (s2_rect){mask.row + heading, mask.col + gutter, s2_max_i32(rows - below, 0), mask.cols - gutter};
}

static void place_right(s2_rect right, s2_layout_bench *out)
{
    const int32_t kv = right.rows >= 17 ? 4 : 0;
    const int32_t readers = right.rows >= 17 ? s2_min_i32(17, right.rows * 3 / 10) : 0;
    const int32_t masks = right.rows - kv - readers;
    s2_layout_masks((s2_rect){right.row, right.col, masks, right.cols}, &out->union_mask, &out->head_mask);
    out->readers = (s2_rect){right.row + masks, right.col, readers, right.cols};
    out->kv = (s2_rect){right.row + masks + readers, right.col, kv, right.cols};
}

s2_layout_bench s2_layout_bench_in(s2_rect body)
{
    s2_layout_bench out = {0};
    const int32_t width = body.cols >= 64                          ? KNOBS_WIDE
                          : body.cols >= 58                        ? KNOBS_MIDDLE
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
