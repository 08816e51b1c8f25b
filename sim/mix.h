/*
 * sim/mix.h - the decode steps of sequences of unequal lengths, by the time model.
 *
 * A step is cut into equal parts of all its slabs (plan/decode.h), so what it takes depends on the lists of all
 * its sequences together. Here the lists are counted once for each length, and a step of any lengths is cut,
 * loaded and priced from these counts, in O(lists + parts) instead of O(keys). After S2_MIX_SLABS slabs or
 * S2_MIX_LISTS lists further lengths are rounded to seven bits: counted at a place drawn in their interval,
 * not at its edge, where lists end in whole slabs. The first S2_MIX_SHARES layers that differ, or GPUs of
 * them, stand for all.
 *
 * Ownership: everything lives in the arena of s2_mix_init. Threads: one s2_mix, one thread.
 */
#ifndef S2_SIM_MIX_H
#define S2_SIM_MIX_H

#include "plan/plan.h"
#include "sim/price.h"

enum { S2_MIX_SHARES = 8, S2_MIX_LISTS = 1 << 16, S2_MIX_SLABS = 1 << 26 };

/* One layer of one GPU. */
typedef struct s2_mix_share {
    s2_pattern pattern;
    s2_plan plan;        /* its classes; without sequences */
    int32_t layer_class; /* it waits for the slowest GPU of these */
    int32_t n_layers;
    s2_load_list *rounded; /* [slot of a rounded length][KV head]; k_tok 0: not counted yet */
    s2_load_list *exact;   /* [number of a length][KV head] */
    int32_t n_exact;
    int32_t *number_of; /* hash table of lengths: the number of one + 1; 0: free */
} s2_mix_share;

typedef struct s2_mix {
    s2_arena *arena;
    s2_sim_options options;
    s2_model_scores scores;
    int64_t slabs_left; /* that may be counted for exact lengths */
    int32_t n_shares;   /* 0: nothing plans such a step */
    s2_mix_share *shares;
} s2_mix;

/* S2_ENOMEM, S2_ELIMIT. Terms that choose at run time, kernels of others and GPUs without constants leave no share. */
s2_status s2_mix_init(s2_arena *arena, const s2_pattern *pattern, const s2_sim_options *options,
                      s2_mix *out) S2_MUST_CHECK;

/*
 * What the model takes for the shares, each as often as its layers: one token for each of n sequences.
 * S2_EUNSUPPORTED without shares, and for steps beyond 2^31 slabs; S2_ELIMIT beyond the options' work_left; S2_ENOMEM.
 */
s2_status s2_mix_time(s2_mix *mix, int32_t n, const int64_t *len_tok, double *us) S2_MUST_CHECK;

#endif /* S2_SIM_MIX_H */
