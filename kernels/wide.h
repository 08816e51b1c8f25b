/*
 * kernels/wide.h - functions that are compiled once for every x86-64 and once for those with AVX2.
 *
 * The machine picks when the program starts. Neither fuses a product with a sum, so both give the same bits.
 * Sanitizers instrument the function that picks, which runs before they are ready: there it is compiled once.
 */
#ifndef S2_KERNELS_WIDE_H
#define S2_KERNELS_WIDE_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define S2_FOR_WIDE_CPUS __attribute__((target_clones("avx2", "default")))
#else
#define S2_FOR_WIDE_CPUS
#endif

#endif /* S2_KERNELS_WIDE_H */
