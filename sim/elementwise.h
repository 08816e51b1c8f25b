/*
 * sim/elementwise.h - what the kernels between matrix products and attention read and write.
 *
 * Two implementations are known. Fused: one kernel each for a norm with its residual, the rotary embedding
 * with the write to the cache, the activation, and the loss. Eager: PyTorch operation by operation, as
 * tests/bench/models.py writes a decoder; docs/simulator.md lists the operations.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_ELEMENTWISE_H
#define S2_SIM_ELEMENTWISE_H

#include "sim/price.h"

typedef enum s2_moving {
    S2_MOVE_NORMS,
    S2_MOVE_ROTARY,
    S2_MOVE_ACTIVATION,
    S2_MOVE_LOSS,
    S2_N_MOVING
} s2_moving;

typedef struct s2_moved {
    double token_bytes; /* a GPU moves for a token of a layer; loss: for a token whose next one is learnt */
    double n_kernels;   /* in a layer; loss: in a step */
} s2_moved;

/* In the forward pass, or in the backward pass alone. */
s2_moved s2_elementwise(const s2_sim_options *options, s2_moving what, bool backward);

#endif /* S2_SIM_ELEMENTWISE_H */
