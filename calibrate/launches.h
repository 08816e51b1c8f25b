/*
 * calibrate/launches.h - the launches on which a kernel is timed when nothing is known of it.
 *
 * The designed launches of a pass spread over lengths, batches, groups, two head dimensions and kinds of
 * pattern, and are the same each time. They come in turns, the least work first in each: a slow kernel that
 * only ends the first turn up to some length has still been timed evenly up to there.
 *
 * Ownership: plain data; bodies are constants. Threads: no state.
 */
#ifndef S2_CALIBRATE_LAUNCHES_H
#define S2_CALIBRATE_LAUNCHES_H

#include "base/text.h"
#include "plan/pass.h"

enum { S2_LAUNCHES = 144 };

typedef struct s2_launch_ask {
    s2_pass pass;
    int32_t batch, heads, kv_heads, head_dim, block_tok;
    int64_t q_tok, n_tok; /* the last q_tok of n_tok tokens ask */
    bool causal;
    const char *body; /* of the pattern; NULL: dense */
    int32_t kind;     /* launches of one kind differ in shape only; below S2_LAUNCH_KINDS */
    double flop;      /* of dense attention, which bounds the work of any pattern */
} s2_launch_ask;
enum { S2_LAUNCH_KINDS = 8 };

/* Fills out[S2_LAUNCHES] in the order in which they are to be timed. */
void s2_launches_design(s2_pass pass, s2_launch_ask *out);

/* The pattern of one layer that is computed, as text. */
void s2_launch_print_pattern(const s2_launch_ask *ask, s2_buf *buf);

/* The first line of a table (calibrate/table.h) of such launches, and one row of it. */
void s2_launch_print_head(s2_buf *buf);
void s2_launch_print_row(const s2_launch_ask *ask, double us, s2_buf *buf);

#endif /* S2_CALIBRATE_LAUNCHES_H */
