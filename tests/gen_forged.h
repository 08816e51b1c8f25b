/*
 * tests/gen_forged.h - texts made to fool a certificate checker: one hole behind coprime periods, thresholds
 * at the sum of other bounds, a broken layer among many, phases that differ far away, exact shares with
 * a gap, models with numbers of their own, layers that differ, numbers at the ends of their ranges.
 */
#ifndef S2_TESTS_GEN_FORGED_H
#define S2_TESTS_GEN_FORGED_H

#include "base/rng.h"
#include "base/text.h"

enum { S2_N_FORGERIES = 8 };

/* The name of a kind, for reports. */
const char *s2_gen_forgery_word(int kind);

/* A text of one kind in the language of s2: not canonical, usually valid. */
void s2_gen_forged(s2_rng *rng, int kind, s2_buf *out);

#endif /* S2_TESTS_GEN_FORGED_H */
