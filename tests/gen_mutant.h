/*
 * tests/gen_mutant.h - good input made hostile: files cut, damaged, mixed and exaggerated.
 *
 * Every result is a heap block of exactly its size, without a terminator, so that AddressSanitizer sees any
 * read past its end. An empty result points at the end of such a block. Release with s2_mutant_release().
 */
#ifndef S2_TESTS_GEN_MUTANT_H
#define S2_TESTS_GEN_MUTANT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rng.h"

typedef struct s2_mutant {
    char *bytes;
    size_t n;
} s2_mutant;

s2_mutant s2_mutant_copy(const char *bytes, size_t n);
void s2_mutant_release(s2_mutant *mutant);

/*
 * One to four changes of a: bits, bytes that mean something, NULs, pieces left out, repeated or taken from b,
 * numbers that are huge, negative, fractional or not numbers, endless brackets, and cuts.
 */
s2_mutant s2_mutant_draw(s2_rng *rng, const char *a, size_t n_a, const char *b, size_t n_b);

/*
 * Lengths at which a file is worth cutting, ascending: all if there are at most `most`; else a spread, and
 * those just after a character that promises more ('=', ':', '{', '[', '(', ',', '"', a digit). The caller
 * frees *cuts.
 */
size_t s2_mutant_cuts(const char *bytes, size_t n, size_t most, size_t **cuts);

#endif /* S2_TESTS_GEN_MUTANT_H */
