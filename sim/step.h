/*
 * sim/step.h - what one step of a server takes: pieces of prompts, and a token for each of sequences of any lengths.
 *
 * A piece is priced as a launch of its own. A token each of n sequences of unequal lengths is priced by steps of equal
 * lengths: each sequence takes the n-th part of what n like it take together, and no step is faster than what its
 * longest sequences alone would take. Between a few lengths (four to an octave) and powers of two of sequences times
 * are interpolated, so prices are few; one at such a length and number is that of the page.
 *
 * Ownership: prices live in the arena of s2_steps_init. Threads: one s2_step_prices, one thread.
 */
#ifndef S2_SIM_STEP_H
#define S2_SIM_STEP_H

#include "sim/price.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { S2_STEP_LENGTHS = 96, S2_STEP_BATCHES = 14, S2_STEP_PIECES = 2048 };

typedef struct s2_step_piece {
    int64_t from_tok;
    int64_t to_tok;
    double us;
} s2_step_piece;

typedef struct s2_step_prices {
    s2_arena *arena;
    const s2_pattern *pattern;
    s2_sim_options options;
    bool exact; /* every piece is priced as it is, else at numbers of tokens of four bits, and between them */
    int32_t n_pieces;
    s2_step_piece *pieces;
    double *token_us; /* [S2_STEP_LENGTHS][S2_STEP_BATCHES]; 0: not asked yet */
    bool predicted;
    bool measured;
    double error_pct; /* the widest of all prices */
} s2_step_prices;

/* S2_ENOMEM. */
s2_status s2_steps_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, bool exact,
                        s2_step_prices *out) S2_MUST_CHECK;

/* Attention of tokens [from_tok, to_tok) of a prompt. S2_ENOMEM; S2_ELIMIT also beyond S2_STEP_PIECES. */
s2_status s2_steps_piece(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, double *us) S2_MUST_CHECK;

/* Attention of a token each of n sequences, the longest first; n at most 2^(S2_STEP_BATCHES - 1). */
s2_status s2_steps_tokens(s2_step_prices *steps, int32_t n, const int64_t *len_tok, double *us) S2_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif /* S2_SIM_STEP_H */
