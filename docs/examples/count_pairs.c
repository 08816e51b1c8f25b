/*
 * Uses a header written by `s2 export PATTERN --to c --len N -o pattern.h`: walks the block lists as a kernel
 * would, and prints what each layer reads. `make example` builds and runs it.
 */
#include <stdint.h>
#include <stdio.h>

#include "pattern.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Pairs of one block; the diagonal one is cut by causality. */
static int64_t block_pairs(int32_t q_blk, int32_t k_blk)
{
    const int64_t size = S2_BLOCK_TOK;
    return S2_CAUSAL && q_blk == k_blk ? size * (size + 1) / 2 : size * size;
}

static int64_t head_pairs(int32_t layer, int32_t head, int64_t *n_blocks)
{
    const int64_t base = (int64_t)s2_list_of[layer * S2_N_HEADS + head] * (S2_N_BLK + 1);
    int64_t pairs = 0;
    for (int32_t q_blk = 0; q_blk < S2_N_BLK; q_blk++)
        for (int32_t e = s2_row_begin[base + q_blk]; e < s2_row_begin[base + q_blk + 1]; e++, ++*n_blocks)
            pairs += block_pairs(q_blk, s2_k_blk[e]);
    return pairs;
}

int main(void)
{
    const int64_t n_tok = (int64_t)S2_N_BLK * S2_BLOCK_TOK;
    const int64_t all_blocks =
        S2_CAUSAL ? (int64_t)S2_N_BLK * (S2_N_BLK + 1) / 2 : (int64_t)S2_N_BLK * S2_N_BLK;
    printf("%d layers, %d heads, %lld tokens in blocks of %d, %d distinct lists\n", S2_N_LAYERS, S2_N_HEADS,
           (long long)n_tok, S2_BLOCK_TOK, S2_N_LISTS);
    for (int32_t layer = 0; layer < min64(S2_N_LAYERS, 4); layer++) {
        int64_t pairs = 0, n_blocks = 0;
        for (int32_t head = 0; head < S2_N_HEADS; head++)
            pairs += head_pairs(layer, head, &n_blocks);
        printf("layer %d: %lld pairs, block density %.5f\n", layer, (long long)pairs,
               (double)n_blocks / (double)(all_blocks * S2_N_HEADS));
    }
    return 0;
}
