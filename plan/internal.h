/*
 * plan/internal.h - what the files of plan/ share: the segments of a periodic tile, and its classes.
 */
#ifndef S2_PLAN_INTERNAL_H
#define S2_PLAN_INTERNAL_H

#include "base/arith.h"
#include "plan/plan.h"

/* The real rows of a tile, as positions: [begin, end) inside [tile_begin, tile_begin + tile_tok). */
typedef struct s2_tile_rows {
    int64_t tile_begin;
    int64_t begin;
    int64_t end;
} s2_tile_rows;

/* The most keys that any of the sequences has. */
int32_t s2_plan_longest(const s2_plan_seq *seqs, int32_t n_seqs);

/* True, and *out filled, when the head is one of the arithmetic families. */
bool s2_plan_periodic_of(const s2_view *view, s2_plan_periodic *out);

/*
 * Key blocks of a tile of an arithmetic class as ascending pieces. Blocks of a `sure` piece are full;
 * every block of the others must be examined. With `stride` set, only the stride's blocks of the piece count.
 */
typedef struct s2_plan_piece {
    int64_t begin;
    int64_t end;
    bool sure;
    bool stride;
} s2_plan_piece;
enum { S2_PLAN_MAX_PIECES = 6 };
int32_t s2_plan_pieces(const s2_plan *plan, const s2_plan_periodic *as, s2_tile_rows rows,
                       s2_plan_piece pieces[S2_PLAN_MAX_PIECES]);
/* The stride's blocks of [begin, end), in units of plan->blk_tok. */
s2_comb s2_plan_stride_comb(const s2_plan *plan, const s2_plan_periodic *as, int64_t begin, int64_t end);

/*
 * The list of a tile without the sure pieces of arithmetic classes, which go to `sure`: full blocks
 * that are not in the list.
 */
s2_status s2_plan_tile_parts(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile, s2_plan_list *list,
                             s2_plan_piece sure[S2_PLAN_MAX_PIECES], int32_t *n_sure) S2_MUST_CHECK;

/* Entries and partial entries of one list, without storing it where arithmetic suffices. */
s2_status s2_plan_tile_cost(const s2_plan *plan, int32_t cls, int32_t seq, int32_t tile,
                            s2_plan_list *scratch, int32_t *n_blk, int32_t *n_partial) S2_MUST_CHECK;

#endif /* S2_PLAN_INTERNAL_H */
