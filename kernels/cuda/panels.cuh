/*
 * kernels/cuda/panels.cuh - V in e4m3 as the products of eight bits need it: with adjacent keys.
 *
 * wgmma takes operands of eight bits only with the summed dimension contiguous, which for O += P V is the
 * keys; V comes with columns contiguous. A pass before the forward writes it once more, in panels:
 *
 *     [KV head][block][16 keys: a panel][column][16 bytes]      n_blocks * block_tok * 128 bytes a head
 *
 * A panel has the layout of shared memory, so that one copy fetches a block. Byte 4 c + i of a column is key
 * 2 c + i % 2 + 8 (i / 2): a lane of the forward has columns 2 c and 2 c + 1 of each 8 of S, and 4 neighbours
 * of P in one word. Keys at or beyond the end, and columns beyond the head dimension, are zeros.
 *
 * Grid    panels of the longest sequence / 8, KV heads, sequences
 * Warp    one panel: a lane reads 4 columns of 16 keys and turns 4 x 4 bytes at a time
 * Memory  reads V once, writes as much
 */
#ifndef S2_KERNELS_CUDA_PANELS_CUH
#define S2_KERNELS_CUDA_PANELS_CUH

#include <stdint.h>

#include "kernels/cuda/internal.h"

/* Columns of a panel. */
enum { S2_PANEL_DIM = 128 };

/* The panels of a problem, on the device. */
typedef struct s2_panels {
    void *memory;
    void *places; /* [seq]: where a sequence lies, in V and here */
    void *begins; /* [seq]: where its panels begin */
    int32_t most; /* panels of the longest sequence */
} s2_panels;

/* Memory for panels in blocks of the plan's. The panels begin with a block of zeros, at memory. */
s2_status s2_panels_open(s2_device *device, const s2_attn_problem *problem, s2_panels *out, s2_diag *why);
void s2_panels_close(s2_panels *panels);

/* Queue the pass. */
s2_status s2_panels_fill(s2_device *device, const s2_attn_problem *problem, const s2_panels *panels,
                         s2_diag *why);

#endif /* S2_KERNELS_CUDA_PANELS_CUH */
