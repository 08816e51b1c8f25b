/*
 * judge/telling.h - the context length from which a sparse head can be told from a dense one.
 *
 * A head whose window covers the whole context reads what dense attention reads, so that a kernel with a
 * wrong stride or offset still gives right results there.
 *
 * Threads: no state.
 */
#ifndef S2_JUDGE_TELLING_H
#define S2_JUDGE_TELLING_H

#include "base/arena.h"
#include "pattern/spec.h"

typedef struct s2_telling {
    int32_t n_plain;   /* heads of the layer that read all of this context, but not all of longer ones */
    int64_t least_tok; /* then: from this length on each of them leaves keys out */
    int64_t whole_tok; /* and from this one on has done so for a whole period: every wrong offset shows */
} s2_telling;

/* Skips heads that take too long to count. S2_ENOMEM. */
s2_status s2_telling_find(s2_arena *scratch, const s2_pattern *pattern, s2_phase phase, int32_t layer,
                          int64_t len_tok, s2_telling *out) S2_MUST_CHECK;

#endif /* S2_JUDGE_TELLING_H */
