/*
 * pattern/blocks.h - which key blocks each query block of one head reads.
 *
 * The compressed-row form of a head's reads at block granularity, as kernels and exporters consume it.
 * It is derived from a view, never edited. A block is listed when any of its pairs is read; `full`
 * says that all of them are, apart from the causal edge.
 *
 * Invariants: rows ascending, columns strictly ascending in a row, 0 <= k_blk < n_k_blk, row i
 *             occupies [row_begin[i], row_begin[i+1]).
 * Ownership:  arrays live in the given arena. Threads: immutable once built; share freely.
 */
#ifndef S2_PATTERN_BLOCKS_H
#define S2_PATTERN_BLOCKS_H

#include "pattern/view.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct s2_blocks {
    int32_t n_q_blk;          /* query blocks = rows */
    int32_t n_k_blk;          /* key blocks = columns */
    int32_t block_tok;        /* tokens per block, a power of two */
    const int64_t *row_begin; /* n_q_blk + 1 offsets */
    const int32_t *k_blk;     /* key blocks, ascending per row */
    const uint8_t *full;      /* 1: every causal pair of the block is read */
} s2_blocks;

/*
 * Build the list of one head for a context of n_tok tokens at a granularity of block_tok tokens (any
 * power of two, not only the pattern's own). S2_ENOMEM; S2_ELIMIT when it takes more than *work_left
 * (base/work.h; the work of its rows, plus S2_BLOCK_WORK per listed block; NULL: no limit). On failure *out
 * is untouched.
 */
enum { S2_BLOCK_WORK = 8 };
s2_status s2_blocks_build(s2_arena *arena, const s2_view *view, int64_t n_tok, int32_t block_tok,
                          int64_t *work_left, s2_blocks *out) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_PATTERN_BLOCKS_H */
