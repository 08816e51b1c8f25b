/*
 * pattern/recognise.h - what a mask says, in words: the terms that read exactly its pairs.
 *
 * A mask file lists what each head reads; most were made by a rule. Bands, leading and single columns, rows,
 * chunks, strides and dilations that lie wholly inside the mask are candidates, with or without a bound on the
 * distance; a cover is chosen greedily, then terms it does not need are dropped. The result reads the same
 * pairs as the file, since it is made of subsets that together are the whole; beyond the file's extent the
 * terms continue and the file says nothing. Residues that grow with the head or the KV head become a phase.
 *
 * Ownership: results live in the given arena. Threads: no state.
 */
#ifndef S2_PATTERN_RECOGNISE_H
#define S2_PATTERN_RECOGNISE_H

#include "pattern/spec.h"

enum { S2_RECOGNISE_TERMS = 6, S2_RECOGNISE_ROWS = 1024, S2_RECOGNISE_CELLS = 8192 };

/*
 * The pattern with every `mask` body in words; *n_tok is how far the masks reach, 0 where there is no mask.
 * Tokens that always come in whole blocks become blocks of up to 64. S2_EUNSUPPORTED with the head and the
 * first pair in *diag where no S2_RECOGNISE_TERMS terms say what a mask says, or where a body has other terms
 * besides a mask; S2_ELIMIT where a mask has more than S2_RECOGNISE_ROWS rows of blocks or S2_RECOGNISE_CELLS
 * rows of its own; S2_ENOMEM.
 */
s2_status s2_pattern_recognise(s2_arena *arena, const s2_pattern *pattern, s2_pattern *out, int64_t *n_tok,
                               s2_diag *diag) S2_MUST_CHECK;

#endif /* S2_PATTERN_RECOGNISE_H */
