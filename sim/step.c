#include "sim/step.h"

#include <math.h>

#include "base/arith.h"
#include "base/work.h"
#include "sim/states.h"
#include "sim/time.h"

enum {
    LEAST_TOK = 4,   /* the shortest length of a step that is priced */
    A_SEQUENCE = 16, /* steps (base/work.h) to look up what a sequence adds */
    PIECES = 8,      /* ... for which so many pieces are looked at */
};

s2_status s2_steps_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options, bool exact,
                        s2_step_prices *out)
{
    s2_step_prices steps = {.arena = arena,
                            .pattern = pattern,
                            .options = *options,
                            .exact = exact,
                            .pieces = S2_NEW(arena, s2_step_piece, S2_STEP_PIECES),
                            .equal = S2_NEW(arena, s2_step_equal, S2_STEP_LENGTHS * S2_STEP_BATCHES),
                            .predicted = true,
                            .measured = true};
    if (steps.pieces == NULL || steps.equal == NULL)
        return S2_ENOMEM;
    S2_TRY(s2_mix_init(arena, pattern, options, &steps.mix));
    *out = steps;
    return S2_OK;
}

/* The widest of what is known of all prices. */
static void note_error(s2_step_prices *steps, const s2_sim *sim)
{
    s2_error *const error = &steps->error;
    if (error->n_judged == 0 || sim->error.n_judged < error->n_judged)
        error->n_judged = sim->error.n_judged;
    error->most_pct = fmax(error->most_pct, sim->error.most_pct);
    error->causes |= sim->error.causes;
    if (sim->far.beyond > steps->far.beyond)
        steps->far = sim->far;
}

/* Attention alone: the caller checks what fits, so nothing waits for the host. */
static s2_status price(s2_step_prices *steps, s2_phase phase, int64_t len_tok, int64_t new_tok, int64_t batch,
                       s2_step_us *out)
{
    s2_sim_options own = steps->options;
    s2_sim sim = {.tile = s2_tile_shape_default(steps->pattern)};
    own.phase = phase;
    own.len_tok = len_tok;
    own.new_tok = new_tok;
    own.batch = batch;
    own.plan_left = own.work_left;
    const s2_arena_mark_t mark = s2_arena_mark(steps->arena);
    const s2_status status = s2_time_attention(steps->arena, steps->pattern, &own, own.work_left, &sim);
    s2_arena_rewind(steps->arena, mark);
    S2_TRY(status);
    s2_states_add(steps->pattern, &own, &sim);
    steps->predicted = steps->predicted && sim.predicted;
    steps->measured = steps->measured && sim.measured;
    steps->scores = sim.scores;
    if (sim.scored > steps->scored)
        steps->scored = sim.scored;
    note_error(steps, &sim);
    const double off_us = sim.time_us * sim.error.pct / 100;
    *out = (s2_step_us){.us = sim.time_us,
                        .off_us = off_us,
                        .beyond_us = sim.error.allowed ? sim.time_us : 0,
                        .beyond_off_us = sim.error.allowed ? off_us : 0};
    return S2_OK;
}

s2_step_us s2_step_us_sum(s2_step_us a, double of_a, s2_step_us b, double of_b)
{
    return (s2_step_us){a.us * of_a + b.us * of_b, a.off_us * of_a + b.off_us * of_b,
                        a.beyond_us * of_a + b.beyond_us * of_b,
                        a.beyond_off_us * of_a + b.beyond_off_us * of_b};
}

static s2_step_us between(s2_step_us low, s2_step_us high, double share)
{
    return s2_step_us_sum(low, 1 - share, high, share);
}

/* ---- pieces of prompts */

static s2_status piece_at(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, s2_step_us *out)
{
    if (!s2_work_spend(steps->options.work_left, 1 + steps->n_pieces / PIECES))
        return S2_ELIMIT;
    for (int32_t p = 0; p < steps->n_pieces; p++) {
        if (steps->pieces[p].from_tok != from_tok || steps->pieces[p].to_tok != to_tok)
            continue;
        *out = steps->pieces[p].time;
        return S2_OK;
    }
    if (steps->n_pieces == S2_STEP_PIECES)
        return S2_ELIMIT;
    S2_TRY(price(steps, S2_PREFILL, to_tok, to_tok - from_tok, 1, out));
    steps->pieces[steps->n_pieces++] = (s2_step_piece){from_tok, to_tok, *out};
    return S2_OK;
}

/* The numbers of three bits on both sides of n, and how far n is on its way to the higher one. */
typedef struct s2_step_place {
    int64_t low;
    int64_t high;
    double share;
} s2_step_place;

static s2_step_place place_of(int64_t n, bool exact)
{
    int64_t size = 1;
    while (n >> 3 >= size)
        size *= 2;
    const int64_t low = n / size * size;
    if (exact || low == n)
        return (s2_step_place){n, n, 0};
    return (s2_step_place){low, low + size, (double)(n - low) / (double)size};
}

/* Of any number of tokens after from_tok. */
static s2_status piece_from(s2_step_prices *steps, int64_t from_tok, s2_step_place n, s2_step_us *out)
{
    s2_step_us high;
    S2_TRY(piece_at(steps, from_tok, s2_min_i64(from_tok + n.low, S2_LIMIT_CONTEXT_TOK), out));
    if (n.share == 0)
        return S2_OK;
    S2_TRY(piece_at(steps, from_tok, s2_min_i64(from_tok + n.high, S2_LIMIT_CONTEXT_TOK), &high));
    *out = between(*out, high, n.share);
    return S2_OK;
}

s2_status s2_steps_piece(s2_step_prices *steps, int64_t from_tok, int64_t to_tok, s2_step_us *out)
{
    const s2_step_place from = place_of(from_tok, steps->exact),
                        n = place_of(to_tok - from_tok, steps->exact);
    s2_step_us high;
    S2_TRY(piece_from(steps, from.low, n, out));
    if (from.share == 0)
        return S2_OK;
    S2_TRY(piece_from(steps, from.high, n, &high));
    *out = between(*out, high, from.share);
    return S2_OK;
}

/* ---- a token for each sequence */

/* 4, 5, 6, 7, 8, 10, 12, 14, 16, ... */
static int64_t length_of(int32_t nth)
{
    return (int64_t)(LEAST_TOK + nth % LEAST_TOK) << nth / LEAST_TOK;
}

/* The model alone, where it can plan. */
static s2_status model_time(s2_step_prices *steps, int32_t n, const int64_t *len_tok, double *us)
{
    const s2_status status = s2_mix_time(&steps->mix, n, len_tok, us);
    if (status != S2_EUNSUPPORTED)
        return status;
    *us = 0;
    return S2_OK;
}

static s2_status price_equal(s2_step_prices *steps, int64_t len_tok, int32_t n, s2_step_equal *out)
{
    const s2_arena_mark_t mark = s2_arena_mark(steps->arena);
    int64_t *const lens = S2_NEW(steps->arena, int64_t, n);
    if (lens == NULL)
        return S2_ENOMEM;
    for (int32_t seq = 0; seq < n; seq++)
        lens[seq] = len_tok;
    s2_status status = model_time(steps, n, lens, &out->model_us);
    s2_arena_rewind(steps->arena, mark);
    if (status == S2_OK)
        status = price(steps, S2_DECODE, len_tok, 1, n, &out->time);
    return status;
}

static s2_status tokens_at(s2_step_prices *steps, int32_t length, int32_t batch, s2_step_equal *out)
{
    s2_step_equal *const known = &steps->equal[length * S2_STEP_BATCHES + batch];
    if (known->time.us == 0)
        S2_TRY(price_equal(steps, s2_min_i64(length_of(length), S2_LIMIT_CONTEXT_TOK), 1 << batch, known));
    *out = *known;
    return S2_OK;
}

static s2_step_equal both_between(s2_step_equal low, s2_step_equal high, double share)
{
    return (s2_step_equal){between(low.time, high.time, share),
                           low.model_us + (high.model_us - low.model_us) * share};
}

/* A step of 2^batch sequences of one length. */
static s2_status equal_power(s2_step_prices *steps, int64_t len_tok, int32_t batch, s2_step_equal *out)
{
    int32_t length = 0;
    s2_step_equal high;
    while (length_of(length + 1) <= len_tok)
        length++;
    S2_TRY(tokens_at(steps, length, batch, out));
    if (length_of(length) >= len_tok)
        return S2_OK;
    S2_TRY(tokens_at(steps, length + 1, batch, &high));
    const double low_tok = (double)length_of(length), high_tok = (double)length_of(length + 1);
    *out = both_between(*out, high, ((double)len_tok - low_tok) / (high_tok - low_tok));
    return S2_OK;
}

/* A step of n sequences of one length. */
static s2_status equal(s2_step_prices *steps, int64_t len_tok, int32_t n, s2_step_equal *out)
{
    int32_t batch = 0;
    s2_step_equal high;
    while (2 << batch <= n)
        batch++;
    S2_TRY(equal_power(steps, len_tok, batch, out));
    if (n == 1 << batch)
        return S2_OK;
    S2_TRY(equal_power(steps, len_tok, batch + 1, &high));
    *out = both_between(*out, high, (double)(n - (1 << batch)) / (double)(1 << batch));
    return S2_OK;
}

/* The mean, over the n lengths, of what n sequences of that length would take. */
static s2_status mean_of(s2_step_prices *steps, int32_t n, const int64_t *len_tok, s2_step_equal *out)
{
    s2_step_equal sum = {.model_us = 0}, own = {.model_us = 0};
    if (!s2_work_spend(steps->options.work_left, (int64_t)n * A_SEQUENCE))
        return S2_ELIMIT;
    for (int32_t seq = 0; seq < n; seq++) {
        if (seq == 0 || len_tok[seq] != len_tok[seq - 1])
            S2_TRY(equal(steps, len_tok[seq], n, &own));
        sum.time = s2_step_us_sum(sum.time, 1, own.time, 1.0 / n);
        sum.model_us += own.model_us / n;
    }
    *out = sum;
    return S2_OK;
}

/* Without a plan: no less than the longest sequences alone. */
static s2_status most_of(s2_step_prices *steps, int32_t n, const int64_t *len_tok, s2_step_us *most)
{
    s2_step_equal own;
    for (int32_t longest = 1; longest < n; longest *= 2) {
        S2_TRY(mean_of(steps, longest, len_tok, &own));
        if (own.time.us > most->us)
            *most = own.time;
    }
    return S2_OK;
}

s2_status s2_steps_tokens(s2_step_prices *steps, int32_t n, const int64_t *len_tok, s2_step_us *out)
{
    s2_step_equal mean;
    double model_us;
    *out = (s2_step_us){0};
    if (n == 0)
        return S2_OK;
    S2_TRY(mean_of(steps, n, len_tok, &mean));
    S2_TRY(model_time(steps, n, len_tok, &model_us));
    *out = mean.time;
    if (model_us == 0 || mean.model_us == 0)
        return most_of(steps, n, len_tok, out);
    *out = s2_step_us_sum(*out, model_us / mean.model_us, *out, 0);
    return S2_OK;
}
