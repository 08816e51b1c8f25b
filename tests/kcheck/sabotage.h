/*
 * tests/kcheck/sabotage.h - kernels with one deliberate fault each: the test of the tests.
 *
 * A plain scalar kernel over the plan's lists; fault 0 is none, and must pass every check. Each other fault
 * must be convicted, or the validator is worth nothing.
 */
#ifndef S2_TESTS_KCHECK_SABOTAGE_H
#define S2_TESTS_KCHECK_SABOTAGE_H

#include "kernels/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel of fault number `fault` from 0 on, and one line about it; NULL past the end. */
const s2_kernel *s2_sabotage_kernel(int32_t fault);

/* The same of gradients (tests/kcheck/sabotage_bwd.c). */
const s2_kernel *s2_sabotage_gradient(int32_t fault);

/* The same of decode steps, contiguous and from a cache. */
const s2_kernel *s2_sabotage_decode(int32_t fault);

/* Runs on a GPU for ever (tests/kcheck/hang.cu; builds with CUDA only). */
extern const s2_kernel s2_sabotage_hang;

/*
 * What a table of faults X(NAME, word, about) becomes, in a file that has enum { FAULT_NAME, ... }, the tile
 * FAULT_TILE_TOK, what it takes FAULT_TAKES, and the functions supports, prepare_fault, run and finish. A kernel carries no data of its
 * own, so that each fault has its prepare.
 */
#define S2_FAULT_PREPARE(fault_name, word, about)                                                            \
    static s2_status prepare_##fault_name(s2_device *device, const s2_attn_problem *problem, void **state,   \
                                          s2_diag *why)                                                      \
    {                                                                                                        \
        return prepare_fault(device, problem, state, FAULT_##fault_name, why);                               \
    }
#define S2_FAULT_KERNEL(fault_name, word, about)                                                             \
    {.traits =                                                                                               \
         &(const s2_kernel_traits){                                                                          \
             .name = word, .tile_tok = FAULT_TILE_TOK, .pack_heads = 1, .key_tok = 64, .wide_key_tok = 64},  \
     .summary = about,                                                                                       \
     .device = S2_DEVICE_CPU,                                                                                \
     .tolerance = S2_TOL_EXACT,                                                                              \
     .deterministic = true,                                                                                  \
     .supports = supports,                                                                                   \
     .prepare = prepare_##fault_name,                                                                        \
     .run = run,                                                                                             \
     .finish = finish,                                                                                       \
     .takes = FAULT_TAKES},

#ifdef __cplusplus
}
#endif

#endif /* S2_TESTS_KCHECK_SABOTAGE_H */
