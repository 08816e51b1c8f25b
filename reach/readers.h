/*
 * reach/readers.h - how many heads read a pair, by distance, and what every head has in common.
 *
 * In one layer: the query heads, and the KV heads whose group has one, that read a block pair. Over the stack: the
 * chances of a pair, the query heads that read it summed over all layers. Distances are counted in octaves
 * (reach/stack.h). State layers are left out, unless there are no others.
 *
 * Ownership: everything lives in the given arena. Threads: no state.
 */
#ifndef S2_REACH_READERS_H
#define S2_REACH_READERS_H

#include "reach/stack.h"

typedef struct s2_readers_at {
    int64_t n_pairs; /* in this octave and one layer; 0: no other member is set */
    double heads;    /* mean over pairs and layers */
    double kv_heads;
    int32_t least_heads; /* over pairs and layers; the first such pair of the first such layer: */
    int32_t least_kv_heads;
    int32_t layer;
    int32_t q_blk;
    int32_t k_blk;
    double chances; /* mean over pairs */
    int64_t least_chances;
} s2_readers_at;

typedef struct s2_readers {
    s2_readers_at octaves[S2_OCTAVES];
    int32_t window; /* blocks back from each query, its own included, that every head of every layer reads */
    double
        resident; /* blocks that the KV heads of a layer read together for the last query, mean over layers */
    double resident_once; /* the same, but a block that several KV heads read counts once */
} s2_readers;

/* Scratch goes to the arena. S2_ENOMEM. */
s2_status s2_readers_count(s2_arena *arena, const s2_stack *stack, s2_readers *out) S2_MUST_CHECK;

/* Blocks back from each query, its own included, that a class of heads reads; 0 to n_blk. */
int32_t s2_readers_window(const s2_stack *stack, int32_t class_id);

#endif /* S2_REACH_READERS_H */
