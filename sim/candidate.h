/*
 * sim/candidate.h - the patterns that have a closed form: local + sinks + one stride per head, with dense
 * layers and dense last KV heads.
 *
 * Threads: no state.
 */
#ifndef S2_SIM_CANDIDATE_H
#define S2_SIM_CANDIDATE_H

#include "pattern/spec.h"

enum { S2_FAST_STRIDE = 4096 };

/*
 * Head h reads: local `local_blk` | sink `sink_blk` | stride `stride_blk` phase (by_kv ? kv : h) * step +
 * offset. The last `n_dense_kv` KV heads are dense, and so are n_dense_layers layers.
 */
typedef struct s2_candidate {
    int32_t local_blk; /* at least 1 */
    int32_t sink_blk;
    int32_t stride_blk; /* 0: none, else at most S2_FAST_STRIDE */
    int32_t step;
    int32_t offset;
    bool by_kv;
    int32_t n_dense_kv;
    int32_t n_dense_layers;
    int32_t n_state_layers; /* that read nothing */
} s2_candidate;

/* The closed form of a pattern, states aside; false when it has none. */
bool s2_candidate_of(const s2_pattern *pattern, s2_candidate *out);

#endif /* S2_SIM_CANDIDATE_H */
