/* s2 block lists 1 */
/*
 * pattern small, SHA-256 0bdfff781e6ce37a6c67804a5fa3066bd46b36ca3c0a9dfd04af5bc47449bd46
 * s2 0.1.0 (42cf09d190d7-dirty); every length: rows holds, union holds, kv holds
 * no validation of this pattern is recorded (s2 validate)
 */
#ifndef S2_EXPORTED_PATTERN_H
#define S2_EXPORTED_PATTERN_H

#include <stdint.h>

enum {
    S2_N_LAYERS = 1,
    S2_N_HEADS = 2,
    S2_N_KV_HEADS = 2,
    S2_HEAD_DIM = 128,
    S2_BLOCK_TOK = 16,
    S2_N_BLK = 4, /* of a context of 64 tokens */
    S2_N_LISTS = 2,
    S2_CAUSAL = 1
};

/* The list of head h of layer l: s2_list_of[l * S2_N_HEADS + h]. */
static const int32_t s2_list_of[2] = {
    0, 1
};
/* Entries of row i of list l: [s2_row_begin[l * (S2_N_BLK + 1) + i], the next one). */
static const int32_t s2_row_begin[10] = {
    0, 1, 3, 5, 8, 8, 9, 10, 12, 14
};
/* Key blocks, ascending within a row. */
static const int32_t s2_k_blk[14] = {
    0, 0, 1, 0, 2, 0, 2, 3, 0, 1, 1, 2, 1, 3
};
/* 1: every pair of the block is read, up to causality; 0: only some are, the kernel reads it whole. */
static const uint8_t s2_full[14] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
};

/* ---- the plan: tiles of 128 queries against key blocks, exact to the element ---- */

enum {
    S2_PLAN_N = 1, /* kinds of layers */
    S2_PLAN_TILE_TOK = 128,
    S2_PLAN_BLK_TOK = 16,
    S2_PLAN_MASK_WORDS = 1
};

/* The plan of each layer. */
static const int32_t s2_plan_of[1] = {
    0
};
/* Items of plan p: [s2_plan_first[p], s2_plan_first[p + 1]), longest first. */
static const int32_t s2_plan_first[2] = {
    0, 2
};
/* (query, key) pairs that a layer of plan p reads, over its heads. */
static const int64_t s2_plan_pairs[1] = {
    2624
};

/* Items. */
/* first query head */
static const int32_t s2_plan_item_head[2] = {
    0, 1
};
/* query heads that share it */
static const int32_t s2_plan_item_heads[2] = {
    1, 1
};
/* its rows are positions [tile * S2_PLAN_TILE_TOK, the next one) */
static const int32_t s2_plan_item_tile[2] = {
    0, 0
};
/* its first entry */
static const int32_t s2_plan_item_begin[2] = {
    0, 4
};
/* its entries */
static const int32_t s2_plan_item_n[2] = {
    4, 4
};
/* the first so many of them need comparisons */
static const int32_t s2_plan_item_partial[2] = {
    4, 4
};

/* Entries. */
/* key block, of S2_PLAN_BLK_TOK keys */
static const int32_t s2_plan_k_blk[8] = {
    0, 1, 2, 3, 0, 1, 2, 3
};
/* bit s: rows 16 s to 16 s + 15 of the tile read it */
static const uint32_t s2_plan_slabs[8] = {
    15, 2, 12, 8, 1, 14, 4, 8
};
/* -1, or the element mask: row r, word w at ((mask * S2_PLAN_TILE_TOK + r) * S2_PLAN_MASK_WORDS + w) of s2_plan_bits */
static const int32_t s2_plan_mask[8] = {
    -1, -1, -1, -1, -1, -1, -1, -1
};
/* 1: compare every element with causality and the end of the keys */
static const uint8_t s2_plan_edge[8] = {
    1, 1, 1, 1, 1, 1, 1, 1
};
static const uint32_t s2_plan_bits[1] = {0};

#endif
