/*
 * base/rng.h - the one seeded generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
 *
 * The sequence is part of the pattern language (the `random` term) and of every seeded test, so it
 * never changes. Not for secrets.
 */
#ifndef S2_BASE_RNG_H
#define S2_BASE_RNG_H

#include <stdint.h>

typedef struct s2_rng {
    uint64_t state;
} s2_rng;

static inline uint64_t s2_rng_next(s2_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Uniform in [0, n), n > 0, by multiplication (Lemire); the bias is below n / 2^64. */
static inline uint64_t s2_rng_below(s2_rng *rng, uint64_t n)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)s2_rng_next(rng) * n) >> 64);
}

#endif /* S2_BASE_RNG_H */
