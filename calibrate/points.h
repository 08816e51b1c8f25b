/*
 * calibrate/points.h - what a calibration runs: designed points to fit, and points drawn by a seed to judge
 * it.
 *
 * A point is one launch of an attention kernel: a pattern with its shape, a phase, lengths, a type. Designed
 * points isolate one constant each; drawn points are never fitted. Both are plain text and numbers, so
 * the same list can be measured on a GPU, stored, and priced anywhere.
 *
 * Threads: no state.
 */
#ifndef S2_CALIBRATE_POINTS_H
#define S2_CALIBRATE_POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"
#include "plan/pass.h"

enum { S2_RUN_POINT_PATTERN_BYTES = 240, S2_RUN_POINT_FAMILY_BYTES = 16 };

typedef struct s2_run_point {
    char family[S2_RUN_POINT_FAMILY_BYTES];
    char pattern[S2_RUN_POINT_PATTERN_BYTES]; /* one layer, shape included */
    s2_pass pass;
    int32_t q_tok; /* the last q_tok of k_tok positions */
    int32_t k_tok;
    int32_t batch;
    s2_dtype dtype;
    bool sinks; /* each head has a learnt sink logit */
} s2_run_point;

/* The designed points of a pass, in order; false beyond the last. */
bool s2_run_point_designed(s2_pass pass, int32_t nth, s2_run_point *out);

/*
 * Point number `nth` of a draw: a function of pass, seed and nth alone. Families, lengths (512 to 131072,
 * mostly not multiples of anything), heads, head dimensions, blocks, groups and batches vary.
 */
void s2_run_point_drawn(s2_pass pass, uint64_t seed, int32_t nth, s2_run_point *out);

/*
 * The same of a family that a pass does not draw, since a kernel of its own runs it, or hardly draws: forwards "e4m3"
 * and "listed" (lists of blocks that lie on the device), forwards and gradients "short" (windows of up to 128 tokens,
 * with and without sinks), gradients "ordered" (dense, 4096 to 131072 tokens, of groups 8192 and more, head dims 104 to
 * 128) and "sliding" (windows in tokens of these), steps "wide" (more than 16 rows a list, 64 to 65536 tokens),
 * forwards "brief" (windows of 64 to 512 tokens), steps "brief" (16 to 1024 tokens) and gradients "dim256". False for
 * other words and passes.
 */
bool s2_run_point_drawn_of(const char *family, s2_pass pass, uint64_t seed, int32_t nth, s2_run_point *out);

#endif /* S2_CALIBRATE_POINTS_H */
