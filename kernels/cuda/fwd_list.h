/*
 * kernels/cuda/fwd_list.h - what the Hopper forward reads of a plan: items, and the arithmetic of lists.
 *
 * The key blocks of a tile are a list; a step of the kernel takes n_sub of them at a time. Lists come from
 * memory or, for windows, sinks and one stride in whole blocks, from the arithmetic below, which runs
 * on the device and on the host alike, so that tests need no GPU.
 *
 * Entries that need any comparison come first, padding before them: the loop over the rest has no mask
 * code.
 *
 * An entry word is block << 13 | compare_elements << 12 | one bit per 16-row slab.
 */
#ifndef S2_KERNELS_CUDA_FWD_LIST_H
#define S2_KERNELS_CUDA_FWD_LIST_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define S2_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define S2_HOST_DEVICE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_FWD_EDGE = 1 << 12, S2_FWD_BLOCK_SHIFT = 13, S2_FWD_LIMIT_BLK = 1 << 19 };

/* A class of heads as arithmetic; blocks of the pattern. Dense is a window without end. */
typedef struct s2_fwd_class {
    int32_t local_blk;    /* >= 1 */
    int32_t stride_blk;   /* 1 << 28: none */
    int32_t stride_shift; /* block c is read when (c + shift) mod stride is 0 */
    int32_t sink_blk;
} s2_fwd_class;

/* One piece of work, as the scheduler warp copies it into shared memory: three 16-byte words. */
typedef struct s2_fwd_item {
    int32_t pos; /* position of the tile's first row; may be before the first query */
    int32_t head;
    int32_t seq;
    int32_t n_steps;  /* 0 ends the stream of a thread block */
    int32_t n_masked; /* leading steps with mask code, >= 1 */
    int32_t unused;
    int32_t k_tok;
    int32_t q_off; /* k_tok - q_tok */
    int32_t n_entries;
    int32_t list; /* first word in the lists, or the class */
    int32_t rows; /* element offset of the sequence in the LSE tensor */
    int32_t unused_too;
} s2_fwd_item;

/* The segments of a class's list for one tile of `tile_tok` rows at position pos; block = 1 << shift. */
typedef struct s2_fwd_segments {
    int32_t n_diagonal; /* newest first */
    int32_t n_edge;     /* left edge of the window, read by some rows only */
    int32_t n_inside;
    int32_t n_stride;
    int32_t n_sink;
    int32_t window_begin;
    int32_t last;
    int32_t stride_begin;
} s2_fwd_segments;

S2_HOST_DEVICE int32_t s2_fwd_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}
S2_HOST_DEVICE int32_t s2_fwd_max(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

S2_HOST_DEVICE s2_fwd_segments s2_fwd_segments_of(const s2_fwd_class *as, int32_t shift, int32_t pos,
                                                  int32_t tile_tok, int32_t q_off, int32_t k_tok)
{
    s2_fwd_segments seg;
    /* Blocks of the first and last real row: what only rows before the first query would read may be
     * anything, and zero times not-a-number is not zero. */
    const int32_t first = s2_fwd_max(pos, q_off) >> shift;
    const int32_t last = (s2_fwd_min(pos + tile_tok, k_tok) - 1) >> shift;
    const int32_t begin = s2_fwd_max(0, first - as->local_blk + 1);
    const int32_t middle = s2_fwd_max(first, begin);
    const int32_t edge_end = s2_fwd_min(first, s2_fwd_max(begin, last - as->local_blk + 1));
    int32_t column = as->stride_shift == 0 ? 0 : as->stride_blk - as->stride_shift;
    seg.n_diagonal = last - middle + 1;
    seg.n_edge = s2_fwd_max(0, edge_end - begin);
    seg.n_inside = s2_fwd_max(0, middle - begin - seg.n_edge);
    seg.n_sink = s2_fwd_min(as->sink_blk, begin);
    if (column < seg.n_sink)
        column += (seg.n_sink - column + as->stride_blk - 1) / as->stride_blk * as->stride_blk;
    seg.stride_begin = column;
    seg.n_stride = begin > column ? (begin - column + as->stride_blk - 1) / as->stride_blk : 0;
    seg.window_begin = begin;
    seg.last = last;
    return seg;
}

S2_HOST_DEVICE int32_t s2_fwd_segments_count(const s2_fwd_segments *seg)
{
    return seg->n_diagonal + seg->n_edge + seg->n_inside + seg->n_stride + seg->n_sink;
}

S2_HOST_DEVICE int32_t s2_fwd_block(const s2_fwd_class *as, const s2_fwd_segments *seg, int32_t index)
{
    int32_t at = index;
    if (at < seg->n_diagonal)
        return seg->last - at;
    at -= seg->n_diagonal;
    if (at < seg->n_edge + seg->n_inside)
        return seg->window_begin + at;
    at -= seg->n_edge + seg->n_inside;
    return at < seg->n_stride ? seg->stride_begin + at * as->stride_blk : at - seg->n_stride;
}

/* The word of an entry. Only diagonal and edge blocks are partial, so nothing behind them divides. */
S2_HOST_DEVICE uint32_t s2_fwd_entry(const s2_fwd_class *as, const s2_fwd_segments *seg, int32_t index,
                                     int32_t shift, int32_t pos, int32_t n_slabs, int32_t k_tok)
{
    const int32_t block = s2_fwd_block(as, seg, index);
    uint32_t slabs = (1u << n_slabs) - 1u;
    bool edge = ((block + 1) << shift) > k_tok;
    if (index < seg->n_diagonal + seg->n_edge) {
        const int32_t begin = s2_fwd_max(0, ((block << shift) - pos) >> 4);
        const bool always =
            block < as->sink_blk || (uint32_t)(block + as->stride_shift) % (uint32_t)as->stride_blk == 0;
        const int64_t window_end = ((int64_t)block + as->local_blk) << shift;
        const int64_t end = always ? n_slabs : (window_end - pos) >> 4;
        const int32_t slab_end = end < 0 ? 0 : end < n_slabs ? (int32_t)end : n_slabs;
        slabs = slab_end > begin ? ((1u << slab_end) - 1u) & ~((1u << begin) - 1u) : 0u;
        edge = edge || ((block + 1) << shift) > pos + (begin << 4);
    }
    return (uint32_t)block << S2_FWD_BLOCK_SHIFT | (edge ? (uint32_t)S2_FWD_EDGE : 0u) | slabs;
}

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_FWD_LIST_H */
