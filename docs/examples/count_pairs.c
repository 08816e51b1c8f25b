/*
 * Uses a header written by `s2 export PATTERN --to c --len N -o pattern.h`: walks the block lists, and the
 * plan as a kernel would, and prints what each layer reads. Exit code 1 when the pairs that the plan reads
 * are not those that the header states. `make example` builds and runs it.
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

/* Keys of entry e that the query at position q_tok, in row `row` of its tile, reads. */
static int64_t entry_keys(int32_t e, int64_t q_tok, int32_t row, int64_t n_tok)
{
    const int64_t k_begin = (int64_t)s2_plan_k_blk[e] * S2_PLAN_BLK_TOK;
    if ((s2_plan_slabs[e] >> row / 16 & 1) == 0)
        return 0;
    if (s2_plan_mask[e] >= 0) {
        int64_t n = 0;
        for (int32_t w = 0; w < S2_PLAN_MASK_WORDS; w++)
            n += __builtin_popcount(
                s2_plan_bits[((int64_t)s2_plan_mask[e] * S2_PLAN_TILE_TOK + row) * S2_PLAN_MASK_WORDS + w]);
        return n;
    }
    int64_t k_end = min64(k_begin + S2_PLAN_BLK_TOK, n_tok);
    if (s2_plan_edge[e] && S2_CAUSAL)
        k_end = min64(k_end, q_tok + 1);
    return k_end > k_begin ? k_end - k_begin : 0;
}

static int64_t item_pairs(int32_t item, int64_t n_tok)
{
    int64_t pairs = 0;
    for (int32_t row = 0; row < S2_PLAN_TILE_TOK; row++) {
        const int64_t q_tok = (int64_t)s2_plan_item_tile[item] * S2_PLAN_TILE_TOK + row;
        for (int32_t e = 0; q_tok < n_tok && e < s2_plan_item_n[item]; e++)
            pairs += entry_keys(s2_plan_item_begin[item] + e, q_tok, row, n_tok);
    }
    return pairs * s2_plan_item_heads[item];
}

static int64_t plan_pairs(int32_t plan, int64_t n_tok)
{
    int64_t pairs = 0;
    for (int32_t item = s2_plan_first[plan]; item < s2_plan_first[plan + 1]; item++)
        pairs += item_pairs(item, n_tok);
    return pairs;
}

int main(void)
{
    int wrong = 0;
    const int64_t n_tok = (int64_t)S2_N_BLK * S2_BLOCK_TOK;
    const int64_t all_blocks =
        S2_CAUSAL ? (int64_t)S2_N_BLK * (S2_N_BLK + 1) / 2 : (int64_t)S2_N_BLK * S2_N_BLK;
    printf("%d layers, %d heads, %lld tokens in blocks of %d, %d distinct lists\n", S2_N_LAYERS, S2_N_HEADS,
           (long long)n_tok, S2_BLOCK_TOK, S2_N_LISTS);
    for (int32_t layer = 0; layer < min64(S2_N_LAYERS, 4); layer++) {
        int64_t pairs = 0, n_blocks = 0;
        for (int32_t head = 0; head < S2_N_HEADS; head++)
            pairs += head_pairs(layer, head, &n_blocks);
        printf("layer %d: %lld pairs in listed blocks, block density %.5f\n", layer, (long long)pairs,
               (double)n_blocks / (double)(all_blocks * S2_N_HEADS));
    }
    for (int32_t plan = 0; plan < S2_PLAN_N; plan++) {
        const int64_t pairs = plan_pairs(plan, n_tok);
        printf("plan %d: %d items of %d queries, %lld pairs, %s\n", plan,
               s2_plan_first[plan + 1] - s2_plan_first[plan], S2_PLAN_TILE_TOK, (long long)pairs,
               pairs == s2_plan_pairs[plan] ? "as stated" : "NOT as stated");
        wrong |= pairs != s2_plan_pairs[plan];
    }
    return wrong;
}
