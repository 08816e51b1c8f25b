/*
 * tui/grid.h - what a set of heads reads, reduced to a few cells for a screen.
 *
 * The source is a matrix of blocks; a cell stands for a rectangle of them. Density is reduced to the mean,
 * holes to the worst: one unread block in a cell of a thousand makes the cell a hole. A block pair counts as
 * read whole when each of its queries reads, through any heads, all of its keys that the query may see;
 * tests/test_tui.c compares this, pair by pair, with pattern/dense.h.
 *
 * Per row of blocks, terms in whole blocks cost a few words of bits (32 heads of 128k tokens: milliseconds),
 * windows in tokens cost following two queries, stripes in tokens following every query of the row.
 *
 * Threads: no state. Ownership: the caller's arrays.
 */
#ifndef S2_TUI_GRID_H
#define S2_TUI_GRID_H

#include "pattern/view.h"

/* Blocks [q_begin, q_end) x [k_begin, k_end). */
typedef struct s2_zoom {
    int64_t q_begin;
    int64_t q_end;
    int64_t k_begin;
    int64_t k_end;
} s2_zoom;

typedef struct s2_grid_cell {
    int64_t n_causal; /* blocks of the cell that a query may see; 0: all in the future */
    int64_t n_read;   /* of these, touched by some head */
    int64_t n_full;   /* of these, read whole */
} s2_grid_cell;

/*
 * cells[rows * cols]: the union of the n views over the window, in a context of n_tok tokens. All
 * views belong to one pattern. S2_ENOMEM; S2_ELIMIT: there are too many stripes in tokens to follow while
 * somebody waits; a smaller window has fewer.
 */
s2_status s2_grid_fill(const s2_view *views, int32_t n_views, int64_t n_tok, s2_zoom window, int32_t rows,
                       int32_t cols, s2_grid_cell *cells) S2_MUST_CHECK;

/*
 * Masks kept from one frame to the next, and the first that a frame lacked: drawing looks masks up here, and
 * the owner of the screen adds the missing one between frames, on another thread if that takes long.
 */
typedef struct s2_grid_key {
    int64_t source; /* identifies a pattern at a question; never 0 */
    int32_t layer;
    int32_t head; /* -1: the union of all */
    int32_t rows;
    int32_t cols;
    s2_zoom zoom;
} s2_grid_key;

/* A mask, or why there is none. */
typedef struct s2_mask_image {
    s2_grid_key key;
    s2_status status;
    s2_grid_cell *cells; /* rows * cols; NULL unless S2_OK */
} s2_mask_image;

enum { S2_GRIDS_KEPT = 24 };

typedef struct s2_grids {
    int32_t next; /* index of the one to overwrite next */
    s2_mask_image kept[S2_GRIDS_KEPT];
    bool lacks; /* the last draw missed a mask; `lacked` is the first */
    s2_grid_key lacked;
} s2_grids;

/* NULL: there is no mask of this key yet; the key is remembered as lacked. */
const s2_mask_image *s2_grids_find(s2_grids *grids, const s2_grid_key *key);
/* Takes over the cells of `grid`. */
void s2_grids_put(s2_grids *grids, const s2_mask_image *grid);
void s2_grids_release(s2_grids *grids);

/* The blocks of [begin, end) that cell `nth` of `cells` stands for: at least one. */
s2_range s2_grid_share(int64_t begin, int64_t end, int32_t nth, int32_t cells);

#endif /* S2_TUI_GRID_H */
