/*
 * sim/step.h - how long one step of a server takes: pieces of prompts, and a token each for sequences of any
 * length.
 *
 * A piece is priced as a launch of its own. A token each for n sequences of unequal lengths is priced from
 * steps of equal lengths: each sequence takes 1/n of what n like it would take together, and no step is
 * faster than its longest sequences alone would be. Only a few lengths (four to an octave) and powers of two
 * of sequences are priced, and times between them are interpolated; at such a length and number the price is
 * that of `s2 sim`.
 *
 * Ownership: prices live in the arena of s2_steps_init. Threads: one s2_step_prices, one thread.
 */
#ifndef S2_SIM_STEP_H
#define S2_SIM_STEP_H

#include "sim/price.h"

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
    bool exact; /* price every piece as it is; else interpolate between token counts of four bits */
    int32_t n_pieces;
    s2_step_piece *pieces;
    double *token_us; /* [S2_STEP_LENGTHS][S2_STEP_BATCHES]; 0: not priced yet */
    bool predicted;
    bool measured;
    s2_error error; /* the widest of all prices */
    s2_model_scores scores;
    s2_scored scored; /* the worst of all prices */
} s2_step_prices;

/* S2_ENOMEM. */
s2_status s2_steps_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, bool exact,
                        s2_step_prices *out) S2_MUST_CHECK;

/* Attention of tokens [from_tok, to_tok) of a prompt. S2_ENOMEM; S2_ELIMIT also beyond S2_STEP_PIECES. */
s2_status s2_steps_piece(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, double *us) S2_MUST_CHECK;

/* Attention of one token for each of n sequences, longest first; n at most 2^(S2_STEP_BATCHES - 1). */
s2_status s2_steps_tokens(s2_step_prices *steps, int32_t n, const int64_t *len_tok, double *us) S2_MUST_CHECK;

#endif /* S2_SIM_STEP_H */
