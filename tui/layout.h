/*
 * tui/layout.h - where things go: a function of nothing but the screen's size.
 *
 * Every rectangle is inside the screen, no two overlap, and none is negative; one without room has
 * rows == 0. tests/test_tui.c checks this for every size.
 *
 * Threads: no state.
 */
#ifndef S2_TUI_LAYOUT_H
#define S2_TUI_LAYOUT_H

#include "tui/canvas.h"

typedef struct s2_layout {
    s2_rect title;
    s2_rect body;
    s2_rect footer;
    bool tiny; /* too small for views: one line of text */
} s2_layout;
s2_layout s2_layout_frame(int32_t rows, int32_t cols);

typedef struct s2_layout_bench {
    s2_rect knobs;
    s2_rect verdicts;
    s2_rect cost;
    s2_rect union_mask;
    s2_rect head_mask;
    s2_rect readers; /* which keys each KV head reads at the last query */
    s2_rect kv;      /* the cache over the context */
} s2_layout_bench;
s2_layout_bench s2_layout_bench_in(s2_rect body);

/*
 * Columns left of a mask for the labels of its queries; those of its keys are in the row below it. If two
 * masks are side by side, the left one has the query labels for both.
 */
enum { S2_MASK_GUTTER = 8 };
/* Two masks of the same scale side by side, or only the left one if there is no room for two. */
void s2_layout_masks(s2_rect area, s2_rect *left, s2_rect *right);
/* The cells of a mask: what its heading and, if there is room for them, its axes leave. */
s2_rect s2_layout_cells(s2_rect mask, bool heading, bool queries);

typedef struct s2_layout_list {
    s2_rect list;
    s2_rect preview;
} s2_layout_list;
s2_layout_list s2_layout_list_in(s2_rect body); /* the preview is empty where there is no room */

#endif /* S2_TUI_LAYOUT_H */
