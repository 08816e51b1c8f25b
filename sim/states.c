#include "sim/states.h"

#include <math.h>

#include "base/arith.h"

/* How often a pass moves the state of a sequence. */
typedef struct s2_state_moves {
    int32_t n_reads;
    int32_t n_writes;
    int32_t n_launches;
} s2_state_moves;

/* Tokens that follow cached ones start from their state. */
static s2_state_moves moves_of(const s2_sim_options *options)
{
    switch (options->phase) {
    case S2_PREFILL: return (s2_state_moves){s2_sim_first_tok(options) > 0, 1, 1};
    case S2_DECODE: return (s2_state_moves){1, 1, 1};
    case S2_TRAIN:
    case S2_N_PHASES: break;
    }
    return (s2_state_moves){0, 0, options->recompute && options->net != NULL ? 3 : 2};
}

/* Bytes that a GPU moves for one layer. */
static double moved_bytes(const s2_sim_options *options, int64_t state_bytes)
{
    const s2_state_moves moves = moves_of(options);
    return (double)s2_ceil_div(state_bytes, options->n_ranks) * (double)options->batch *
           (moves.n_reads + moves.n_writes);
}

s2_states s2_states_of(const s2_pattern *pattern, const s2_sim_options *options)
{
    const double launch_us = options->gpu.launch_us * moves_of(options).n_launches;
    s2_states states = {.by = S2_LAUNCH};
    for (int32_t layer = 0; layer < pattern->n_layers; layer++) {
        const int64_t bytes = s2_pattern_state_bytes(pattern, layer);
        if (bytes == 0)
            continue;
        const double moved = moved_bytes(options, bytes), hbm_us = moved / (options->gpu.hbm_gb_s * 1e3);
        states.by = hbm_us > launch_us ? S2_HBM : states.by;
        states.us += fmax(hbm_us, launch_us);
        states.moved_each += moved;
        states.bytes += bytes;
        states.n_layers++;
    }
    return states;
}

void s2_states_add(const s2_pattern *pattern, const s2_sim_options *options, s2_sim *sim)
{
    const s2_state_moves moves = moves_of(options);
    const s2_states states = sim->states = s2_states_of(pattern, options);
    if (states.n_layers == 0)
        return;
    s2_counts *const sides[] = {&sim->counts, &sim->dense};
    for (int32_t side = 0; side < 2; side++) {
        sides[side]->hbm_read += states.bytes * options->batch * moves.n_reads;
        sides[side]->hbm_write += states.bytes * options->batch * moves.n_writes;
    }
    sim->ranks.hbm_bytes += states.moved_each;
    if (moves.n_reads > 0)
        sim->ranks.read_bytes += states.moved_each / (moves.n_reads + moves.n_writes);
    if (states.us > sim->time_us)
        sim->bound_by = states.by;
    double *const times[] = {&sim->time_us, &sim->plan_us, &sim->bound_us, &sim->dense_time_us,
                             &sim->dense_plan_us};
    for (int32_t t = 0; t < 5; t++)
        *times[t] += states.us;
    sim->parts[sim->n_parts++] = (s2_part){.name = "states", .time_us = states.us, .bound_by = states.by};
}
