/*
 * kernels/cuda/board.h - what the driver's management library (NVML) reports about a board.
 *
 * The library comes with the driver and is opened at run time; where it is missing, everything is unknown and
 * nothing else changes. It is only read from: no clock or limit is ever set.
 *
 * Ownership: s2_board_close ends what s2_board_open gave; NULL is allowed everywhere. Threads: one.
 */
#ifndef S2_KERNELS_CUDA_BOARD_H
#define S2_KERNELS_CUDA_BOARD_H

#include <stddef.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct S2Board S2Board;

/* The board with that uuid ("GPU-..."), or NULL. The driver's version goes to `driver` if it is known. */
S2Board *s2_board_open(const char *uuid, char *driver, size_t driver_cap);
void s2_board_close(S2Board *board);
s2_sensors s2_board_sense(S2Board *board);

#ifdef __cplusplus
}
#endif
#endif /* S2_KERNELS_CUDA_BOARD_H */
