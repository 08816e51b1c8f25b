/*
 * sim/growth.h - how the KV cache grows with the context: its peak, and the longest context that fits.
 *
 * Between two lengths a cache gains at most a page of each KV head for each page of tokens. Where this bound
 * settles the question, the ends of an interval decide it; elsewhere the interval is halved. And from some
 * length on every head repeats itself (pattern/view.h): with P the common period of heads and pages,
 *     bytes(t + P) = bytes(t) + c      for all t >= settled_tok,  c >= 0,
 * because keys that stay for good repeat with P and all others are in a window that moves along. So nothing
 * beyond settled_tok + P is counted, however long the context.
 *
 * Bytes are those of the head pages of one sequence, with metadata but without states; the pages of the first
 * shared_tok tokens belong to another sequence. Threads: one growth, one thread.
 */
#ifndef S2_SIM_GROWTH_H
#define S2_SIM_GROWTH_H

#include "sim/kv.h"

enum { S2_GROWTH_SUMMARIES = 8 };

typedef struct s2_growth {
    s2_classes classes; /* with its own work limit */
    int64_t work_left;
    int32_t page_tok;
    int64_t shared_tok; /* whole pages */
    double elem_bytes;
    int64_t step_tok;    /* keys are dropped only at multiples of it: whole blocks, or 1 */
    int64_t settled_tok; /* and period_tok; S2_OPEN: never, or later than any context */
    int64_t period_tok;
    double gain_bytes; /* c */
    bool exact;        /* false: budgets of `heavy` may be full below a folded length */
    int32_t n_summaries;
    int64_t summary_tok[S2_GROWTH_SUMMARIES];   /* page sizes that have summaries */
    int64_t summary_elems[S2_GROWTH_SUMMARIES]; /* head dimensions of the KV heads that have them, added up */
    int64_t token_elems; /* of K that one token may add, over all layers and KV heads */
    int64_t n_index_layers;
} s2_growth;

/* S2_ENOMEM. Do not copy *out: its classes.work_left points into it. */
s2_status s2_growth_init(const s2_classes *classes, int64_t shared_tok, int32_t page_tok, double elem_bytes,
                         s2_growth *out) S2_MUST_CHECK;

/* The most bytes at any length 1 .. n_tok, and that length; not exact: an upper bound. */
typedef struct s2_growth_peak {
    double bytes;
    int64_t tok;
    bool exact;
} s2_growth_peak;
s2_status s2_growth_find_peak(s2_growth *growth, int64_t n_tok, s2_growth_peak *out) S2_MUST_CHECK;

/*
 * The longest context, at most S2_LIMIT_CONTEXT_TOK, up to which every length takes at most room_bytes; 0:
 * none. Never too long, but shorter than possible where counting would exceed a fixed number of steps.
 */
s2_status s2_growth_find_longest(s2_growth *growth, double room_bytes, int64_t *out) S2_MUST_CHECK;

/* Steps (base/work.h) that the last of these calls took. */
int64_t s2_growth_spent(const s2_growth *growth);

#endif /* S2_SIM_GROWTH_H */
