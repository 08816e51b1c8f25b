/*
 * sim/baseline.h - what a pattern competes with, as patterns of the same shape.
 *
 * Methods that a pattern can express are texts of the language. Two others are priced by rule: a linear
 * state (Hydra: one state of head_dim values per head instead of keys) and tiered memory (all keys kept,
 * those before the newest 8192 tokens in host memory and read over the link).
 *
 * Threads: no state.
 */
#ifndef S2_SIM_BASELINE_H
#define S2_SIM_BASELINE_H

#include "base/text.h"
#include "sim/price.h"

typedef enum s2_baseline_kind {
    S2_BASELINE_PATTERN,
    S2_BASELINE_LINEAR,
    S2_BASELINE_TIERED
} s2_baseline_kind;

typedef struct s2_baseline {
    const char *name;
    s2_baseline_kind kind;
    const char *rules; /* %H: half of the KV heads; %T: a tenth of the context; %L: two dense layers if
                          there are more than two */
} s2_baseline;

/* In the order of a table; NULL beyond the last. */
const s2_baseline *s2_baseline_at(int32_t nth);

/* The whole text: the shape of `like` and the rules, for a context of len_tok. Check buf->status. */
void s2_baseline_text(const s2_baseline *baseline, const s2_pattern *like, int64_t len_tok, s2_buf *buf);

/* Price a linear state or tiered memory from the dense pattern's price, in place. */
void s2_baseline_adjust(const s2_baseline *baseline, const s2_pattern *like, const s2_sim_options *options,
                        s2_sim *sim);

#endif /* S2_SIM_BASELINE_H */
