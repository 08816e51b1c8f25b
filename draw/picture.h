/*
 * draw/picture.h - pictures of a pattern: its mask, its shards, its KV cache, its flow over layers.
 *
 * A picture is first computed as plain data (a grid, curves, a graph), then written as ANSI half blocks,
 * ASCII, SVG, PNG or DOT. A cell shows its worst pair: one that no head reads makes it a hole, however
 * many tokens the cell covers. Colours are a cividis-like ramp, safe for colour-blind readers; where there
 * are glyphs, a hole also has its own.
 *
 * Ownership: grids live in the arena given. Threads: none shared.
 */
#ifndef S2_DRAW_PICTURE_H
#define S2_DRAW_PICTURE_H

#include "base/text.h"
#include "pattern/spec.h"

/* Whose reads are drawn. */
typedef enum s2_picture_of { S2_PICTURE_HEAD, S2_PICTURE_KV, S2_PICTURE_UNION } s2_picture_of;

typedef struct s2_picture_cell {
    float share; /* pairs read / pairs of the cell; in the mask of all heads, the mean of the heads' shares */
    bool hole;   /* union: some pair of the cell is read by no head */
    bool future; /* causal: no pair at all */
} s2_picture_cell;

typedef struct s2_picture {
    char title[512];
    const char *x_label;
    const char *y_label;
    int32_t n_rows;
    int32_t n_cols;
    int64_t row_tok; /* tokens per row of cells; 0: a row is a KV head */
    int64_t col_tok;
    int64_t n_tok;   /* the context: the last cells may reach beyond it */
    int64_t n_holes; /* unread pairs of a union; one query counts for those of its block that read alike */
    bool is_union;
    bool
        is_least; /* heads choose keys at run time: what is read for certain, so that a hole may be read too */
    s2_picture_cell *cells; /* [row][column] */
} s2_picture;

/*
 * The mask of one layer for n_tok tokens, at most max_cells cells a side. S2_ENOMEM, S2_EINVAL; S2_ELIMIT beyond
 * S2_WORK_STEPS.
 */
s2_status s2_picture_mask(s2_arena *arena, const s2_pattern *pattern, s2_picture_of of, int32_t layer,
                          int32_t index, int64_t n_tok, int32_t max_cells, s2_picture *out) S2_MUST_CHECK;

/*
 * Which part of the context each KV head of a layer reads from the last query; the last row is their union.
 */
s2_status s2_picture_shards(s2_arena *arena, const s2_pattern *pattern, int32_t layer, int64_t n_tok,
                            int32_t max_cells, s2_picture *out) S2_MUST_CHECK;

/* Two rows of cells per line of text, in 24-bit colour. ascii: one row per line, glyphs only. */
void s2_picture_ansi(const s2_picture *picture, bool ascii, s2_buf *buf);
/* SVG text, PNG bytes. S2_ENOMEM, S2_EIO (libpng refused). */
s2_status s2_picture_svg(const s2_picture *picture, s2_buf *buf) S2_MUST_CHECK;
s2_status s2_picture_png(const s2_picture *picture, s2_buf *buf) S2_MUST_CHECK;

/*
 * Flow of information over layers as DOT: layers are ranks, nodes are parts of the context, an edge says that
 * some head reads the part for certain; the path from the first part to the last query by the fewest layers is
 * drawn heavy. The caption says which layers are left out, and what choices and states may carry besides.
 * S2_ENOMEM, S2_ELIMIT.
 */
s2_status s2_picture_flow_dot(const s2_pattern *pattern, int64_t n_tok, s2_buf *buf) S2_MUST_CHECK;

#endif /* S2_DRAW_PICTURE_H */
