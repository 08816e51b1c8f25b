/*
 * sim/step.h - how long one step of a server takes: pieces of prompts, and a token each for sequences of any
 * length.
 *
 * A piece is priced as a launch of its own; of many pieces some, and the others are interpolated in both of
 * their ends. Steps of equal lengths are priced at a few lengths (four to an octave) and powers of two of
 * sequences, as `s2 sim` prices them. A token each for n sequences of any lengths takes what these steps say,
 * interpolated, with 1/n for each sequence, times what the time model says of the step as it is over what it
 * says of these shares (sim/mix.h). Where no plan is made, nothing corrects the shares, but no step is faster
 * than its longest sequences alone.
 *
 * Ownership: prices live in the arena of s2_steps_init. Threads: one s2_step_prices, one thread.
 */
#ifndef S2_SIM_STEP_H
#define S2_SIM_STEP_H

#include "sim/mix.h"

enum { S2_STEP_LENGTHS = 96, S2_STEP_BATCHES = 14, S2_STEP_PIECES = 2048 };

/* A time, and how much of it the error of its launches comes to. */
typedef struct s2_step_us {
    double us;
    double off_us;        /* each launch's time times its error */
    double beyond_us;     /* in launches that are not like those that judged their kernel */
    double beyond_off_us; /* of off_us, in these */
} s2_step_us;

s2_step_us s2_step_us_sum(s2_step_us a, double of_a, s2_step_us b, double of_b); /* so many of each */

typedef struct s2_step_piece {
    int64_t from_tok;
    int64_t to_tok;
    s2_step_us time;
} s2_step_piece;

/* A step of equal lengths: its price, and what the time model alone says of it (0 without a plan). */
typedef struct s2_step_equal {
    s2_step_us time;
    double model_us;
} s2_step_equal;

typedef struct s2_step_prices {
    s2_arena *arena;
    const s2_pattern *pattern;
    s2_sim_options options;
    bool exact; /* price every piece as it is; else interpolate between numbers of three bits */
    int32_t n_pieces;
    s2_step_piece *pieces;
    s2_mix mix;
    s2_step_equal *equal; /* [S2_STEP_LENGTHS][S2_STEP_BATCHES]; 0: not priced yet */
    bool predicted;
    bool measured;
    s2_error error; /* of all prices the fewest points, the largest error on them, and all causes */
    s2_far far;     /* of the price that is farthest from what was measured */
    s2_model_scores scores;
    s2_scored scored; /* the worst of all prices */
} s2_step_prices;

/* The options' work_left (base/work.h) is what these prices may take together, planning included. S2_ENOMEM. */
s2_status s2_steps_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, bool exact,
                        s2_step_prices *out) S2_MUST_CHECK;

/* Attention of tokens [from_tok, to_tok) of a prompt. S2_ENOMEM; S2_ELIMIT beyond the steps or S2_STEP_PIECES. */
s2_status s2_steps_piece(s2_step_prices *steps, int64_t from_tok, int64_t to_tok,
                         s2_step_us *out) S2_MUST_CHECK;

/* Attention of one token for each of n sequences, longest first; n at most 2^(S2_STEP_BATCHES - 1). The same. */
s2_status s2_steps_tokens(s2_step_prices *steps, int32_t n, const int64_t *len_tok,
                          s2_step_us *out) S2_MUST_CHECK;

#endif /* S2_SIM_STEP_H */
