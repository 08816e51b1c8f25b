#include "sim/step.h"

#include <math.h>

#include "base/arith.h"
#include "sim/states.h"
#include "sim/time.h"

enum { LEAST_TOK = 4 }; /* the shortest length of a step that is priced */

s2_status s2_steps_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, bool exact,
                        s2_step_prices *out)
{
    s2_step_prices steps = {.arena = arena,
                            .pattern = pattern,
                            .options = *options,
                            .exact = exact,
                            .pieces = S2_NEW(arena, s2_step_piece, S2_STEP_PIECES),
                            .token_us = S2_NEW(arena, double, S2_STEP_LENGTHS *S2_STEP_BATCHES),
                            .predicted = true,
                            .measured = true};
    if (steps.pieces == NULL || steps.token_us == NULL)
        return S2_ENOMEM;
    *out = steps;
    return S2_OK;
}

/* Attention alone: the caller checks what fits, so nothing waits for the host. */
static s2_status price(s2_step_prices *steps, s2_phase phase, int64_t len_tok, int64_t new_tok, int64_t batch,
                       double *us)
{
    s2_sim_options own = steps->options;
    s2_sim sim = {.tile = s2_tile_shape_default(steps->pattern)};
    int64_t work_left = S2_SIM_WORK;
    own.phase = phase;
    own.len_tok = len_tok;
    own.new_tok = new_tok;
    own.batch = batch;
    const s2_arena_mark_t mark = s2_arena_mark(steps->arena);
    const s2_status status = s2_time_attention(steps->arena, steps->pattern, &own, &work_left, &sim);
    s2_arena_rewind(steps->arena, mark);
    S2_TRY(status);
    s2_states_add(steps->pattern, &own, &sim);
    steps->predicted = steps->predicted && sim.predicted;
    steps->measured = steps->measured && sim.measured;
    steps->scores = sim.scores;
    if (sim.scored > steps->scored)
        steps->scored = sim.scored;
    if (sim.error.pct >= steps->error.pct)
        steps->error = sim.error;
    *us = sim.time_us;
    return S2_OK;
}

static double between(double low, double high, double share)
{
    return low + (high - low) * share;
}

/* ---- pieces of prompts */

static s2_status piece_at(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, double *us)
{
    for (int32_t p = 0; p < steps->n_pieces; p++) {
        if (steps->pieces[p].from_tok != from_tok || steps->pieces[p].to_tok != to_tok)
            continue;
        *us = steps->pieces[p].us;
        return S2_OK;
    }
    if (steps->n_pieces == S2_STEP_PIECES)
        return S2_ELIMIT;
    S2_TRY(price(steps, S2_PREFILL, to_tok, to_tok - from_tok, 1, us));
    steps->pieces[steps->n_pieces++] = (s2_step_piece){from_tok, to_tok, *us};
    return S2_OK;
}

/* The distance between four-bit numbers around n. */
static int64_t spacing(int64_t n)
{
    int64_t size = 1;
    while (n >> 4 >= size)
        size *= 2;
    return size;
}

s2_status s2_steps_piece(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, double *us)
{
    const int64_t n = to_tok - from_tok, size = spacing(n), low = n / size * size;
    double low_us, high_us;
    if (steps->exact || low == n)
        return piece_at(steps, from_tok, to_tok, us);
    S2_TRY(piece_at(steps, from_tok, from_tok + low, &low_us));
    S2_TRY(piece_at(steps, from_tok, s2_min_i64(from_tok + low + size, S2_LIMIT_CONTEXT_TOK), &high_us));
    *us = between(low_us, high_us, (double)(n - low) / (double)size);
    return S2_OK;
}

/* ---- a token for each sequence */

/* 4, 5, 6, 7, 8, 10, 12, 14, 16, ... */
static int64_t length_of(int32_t nth)
{
    return (int64_t)(LEAST_TOK + nth % LEAST_TOK) << nth / LEAST_TOK;
}

static s2_status tokens_at(s2_step_prices *steps, int32_t length, int32_t batch, double *us)
{
    double *const known = &steps->token_us[length * S2_STEP_BATCHES + batch];
    if (*known == 0)
        S2_TRY(price(steps, S2_DECODE, s2_min_i64(length_of(length), S2_LIMIT_CONTEXT_TOK), 1,
                     (int64_t)1 << batch, known));
    *us = *known;
    return S2_OK;
}

/* Time of a step of 2^batch sequences of one length. */
static s2_status equal_power(s2_step_prices *steps, int64_t len_tok, int32_t batch, double *us)
{
    int32_t length = 0;
    double low_us, high_us;
    while (length_of(length + 1) <= len_tok)
        length++;
    S2_TRY(tokens_at(steps, length, batch, &low_us));
    *us = low_us;
    if (length_of(length) >= len_tok)
        return S2_OK;
    S2_TRY(tokens_at(steps, length + 1, batch, &high_us));
    const double low = (double)length_of(length), high = (double)length_of(length + 1);
    *us = between(low_us, high_us, ((double)len_tok - low) / (high - low));
    return S2_OK;
}

/* Time of a step of n sequences of one length. */
static s2_status equal(s2_step_prices *steps, int64_t len_tok, int32_t n, double *us)
{
    int32_t batch = 0;
    double high_us;
    while (2 << batch <= n)
        batch++;
    S2_TRY(equal_power(steps, len_tok, batch, us));
    if (n == 1 << batch)
        return S2_OK;
    S2_TRY(equal_power(steps, len_tok, batch + 1, &high_us));
    *us = between(*us, high_us, (double)(n - (1 << batch)) / (double)(1 << batch));
    return S2_OK;
}

/* The mean, over the n lengths, of the time that n sequences of that length would take. */
static s2_status mean_of(s2_step_prices *steps, int32_t n, const int64_t *len_tok, double *us)
{
    double sum = 0, own = 0;
    for (int32_t at = 0; at < n; at++) {
        if (at == 0 || len_tok[at] != len_tok[at - 1])
            S2_TRY(equal(steps, len_tok[at], n, &own));
        sum += own;
    }
    *us = sum / n;
    return S2_OK;
}

s2_status s2_steps_tokens(s2_step_prices *steps, int32_t n, const int64_t *len_tok, double *us)
{
    double most = 0, own;
    for (int32_t longest = 1; n > 0; longest = s2_min_i32(longest * 2, n)) {
        S2_TRY(mean_of(steps, longest, len_tok, &own));
        most = fmax(most, own);
        if (longest == n)
            break;
    }
    *us = most;
    return S2_OK;
}
